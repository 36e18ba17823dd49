package client

import (
	"context"
	"encoding/json"
	"time"
)

// A CardLookup says which schemes hold a card, and what each of them asks for.
type CardLookup struct {
	Answer `json:"-"`

	Last4   string             `json:"last4"`
	Schemes []CardLookupScheme `json:"schemes"` // the preferred one first; empty for a card that no scheme holds
}

// A CardLookupScheme is one scheme of a card.
type CardLookupScheme struct {
	Scheme      string                  `json:"scheme"`
	Versions    []CardLookupVersion     `json:"versions"`    // that can be used, ascending
	Recommended *RecommendedVersion     `json:"recommended"` // nil if there is no version that can be used
	Requires    []CardLookupRequirement `json:"requires"`
	KnownSince  time.Time               `json:"knownSince"` // when the card ranges in use came; zero if that is not known
}

// A CardLookupVersion is a version of the protocol that a card can be used with.
type CardLookupVersion struct {
	MessageVersion   string        `json:"messageVersion"`
	ThreeDSMethodURL string        `json:"threeDSMethodURL"`
	ACSInfoInd       []CodeMeaning `json:"acsInfoInd"`
}

// A CodeMeaning is a code and what it means.
type CodeMeaning struct {
	Code    string `json:"code"`
	Meaning string `json:"meaning"`
}

// A RecommendedVersion is the version to use, and why.
type RecommendedVersion struct {
	MessageVersion string `json:"messageVersion"`
	Because        string `json:"because"`
}

// A CardLookupRequirement is what a scheme asks of an AReq beside the protocol.
type CardLookupRequirement struct {
	Element  string   `json:"element"`  // several names with | between if one of them is enough
	Level    string   `json:"level"`    // required, advised, ignored or forbidden
	Since    string   `json:"since"`    // a day, a month or a year; empty if it always counted
	Until    string   `json:"until"`    // empty if no end is known
	InForce  bool     `json:"inForce"`  // whether it counts today
	Channels []string `json:"channels"` // APP, BRW, 3RI
	If       string   `json:"if"`       // a condition in words; empty if there is none
	Source   string   `json:"source"`
}

// An Explanation says what /auth would make of a body.
type Explanation struct {
	Answer `json:"-"`

	Verdict        string               `json:"verdict"` // valid or invalid
	Scheme         string               `json:"scheme"`
	MessageVersion string               `json:"messageVersion"`
	Faults         []ProblemFault       `json:"errors"`
	Warnings       []ExplanationWarning `json:"warnings"`
	Normalised     []Correction         `json:"normalised"`
	SchemeFindings []SchemeFinding      `json:"schemeFindings"`
	WouldSend      json.RawMessage      `json:"wouldSend"` // the AReq, masked; null if the verdict is invalid
}

// IsValid reports whether /auth would not refuse the content of the body.
func (e *Explanation) IsValid() bool { return e.Verdict == "valid" }

// An ExplanationWarning is something for which /auth does not refuse a request.
type ExplanationWarning struct {
	Pointer string `json:"pointer"`
	Rule    string `json:"rule"`
	Text    string `json:"text"`
}

// A Correction is a change that /auth makes before the AReq leaves. Found and Sent are null unless the element says
// nothing of a person.
type Correction struct {
	Pointer string          `json:"pointer"`
	Rule    string          `json:"rule"`
	Found   json.RawMessage `json:"found"`
	Sent    json.RawMessage `json:"sent"`
}

// A SchemeFinding is a rule of the card's scheme that the AReq does not keep.
type SchemeFinding struct {
	Element string `json:"element"`
	Level   string `json:"level"` // required, advised, ignored or forbidden
	Since   string `json:"since"`
	Until   string `json:"until"`
	InForce bool   `json:"inForce"`
	Text    string `json:"text"`
	Source  string `json:"source"`
}

// ExplainOptions are what [Client.Explain] asks for beside the body.
type ExplainOptions struct {
	Scheme string    // the word of a card scheme; empty means that of the card
	AsOf   time.Time // the day whose scheme rules count; zero means today
}

var (
	lookup  = operation{"/lookup", shortTimeout}
	explain = operation{"/explain", shortTimeout}
)

// Lookup tells which schemes hold a card, and with which versions it can be used. Nothing is sent to a directory
// server, and no id is made.
func (c *Client) Lookup(ctx context.Context, acctNumber string) (*CardLookup, error) {
	found := new(CardLookup)
	return orNil(found, c.post(ctx, lookup, map[string]string{"acctNumber": acctNumber}, found))
}

// Explain tells what [Client.Auth] would make of an AReq. Nothing is sent to a directory server, and the
// threeDSServerTransID is not used up.
func (c *Client) Explain(ctx context.Context, areq any, options ExplainOptions) (*Explanation, error) {
	if options != (ExplainOptions{}) {
		body, err := json.Marshal(areq)
		if err != nil {
			return nil, err
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(body, &members); err != nil {
			return nil, err
		}
		set := func(name, text string) {
			if text != "" {
				members[name], _ = json.Marshal(text)
			}
		}
		set("scheme", options.Scheme)
		if !options.AsOf.IsZero() {
			set("asOf", options.AsOf.Format(time.DateOnly))
		}
		areq = members
	}
	said := new(Explanation)
	return orNil(said, c.post(ctx, explain, areq, said))
}
