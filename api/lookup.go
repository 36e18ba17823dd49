package api

import (
	"encoding/json"
	"time"
)

// A LookupRequest is the body of POST /lookup.
type LookupRequest struct {
	AcctNumber string `json:"acctNumber" schema:"pattern=^[0-9]{13,19}$"` // The card number.
}

// A Lookup says which schemes hold a card, and what each of them asks for.
type Lookup struct {
	Last4   string         `json:"last4"`
	Schemes []LookupScheme `json:"schemes"` // The preferred one first; empty for a card that no scheme holds.
}

// A LookupScheme is one scheme of a card.
type LookupScheme struct {
	Scheme      string              `json:"scheme"`
	Versions    []LookupVersion     `json:"versions"`    // Those that can be used, ascending.
	Recommended *RecommendedVersion `json:"recommended"` // Null if no version can be used.
	Requires    []SchemeRequirement `json:"requires"`    // What the scheme requires of such an AReq, beyond the protocol.
	// When the card ranges in use came, to a second; null if that is not known.
	KnownSince *time.Time `json:"knownSince"`
}

// A LookupVersion is a version of the protocol that a card can be used with.
type LookupVersion struct {
	MessageVersion string `json:"messageVersion"`
	// Where the 3DS Method runs; absent if there is none.
	ThreeDSMethodURL string        `json:"threeDSMethodURL,omitempty"`
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

// A Level says what a rule of a scheme asks for.
type Level string

// The levels.
const (
	LevelRequired  Level = "required"
	LevelAdvised   Level = "advised"
	LevelIgnored   Level = "ignored"
	LevelForbidden Level = "forbidden"
)

// A SchemeRequirement is what a scheme requires of an AReq in addition to the protocol.
type SchemeRequirement struct {
	Element  string   `json:"element"` // Several names with | between if one of them is enough.
	Level    Level    `json:"level"`
	Since    Text     `json:"since"`   // A day, a month or a year; null if it always counted.
	Until    Text     `json:"until"`   // Null if no end is known.
	InForce  bool     `json:"inForce"` // Whether it counts now.
	Channels []string `json:"channels" schema:"enum=APP|BRW|3RI"`
	If       Text     `json:"if"` // A condition in words.
	Source   Text     `json:"source"`
}

// An ExplainRequest is the body of POST /explain: the members of an AReq as for /auth, and these.
type ExplainRequest struct {
	_ struct{} `schema:"additionalProperties=true"`

	Scheme string `json:"scheme,omitempty"` // The card scheme to hold the request against; without it that of the card.
	// The day whose rules of the scheme count; without it today.
	AsOf string `json:"asOf,omitempty" schema:"format=date"`
	For  string `json:"for,omitempty" schema:"enum=auth|authentications"`
}

// A Verdict says whether /auth would take a body.
type Verdict string

// The verdicts.
const (
	VerdictValid   Verdict = "valid"
	VerdictInvalid Verdict = "invalid"
)

// An Explanation says what /auth would make of a body.
type Explanation struct {
	Verdict        Verdict              `json:"verdict"`
	Scheme         Text                 `json:"scheme"`
	MessageVersion Text                 `json:"messageVersion"` // Of the AReq; null if there is none.
	Faults         []Fault              `json:"errors"`
	Warnings       []ExplanationWarning `json:"warnings"`
	Normalised     []Correction         `json:"normalised"`
	SchemeFindings []SchemeFinding      `json:"schemeFindings"`
	// The AReq, masked; null if the verdict is invalid.
	WouldSend json.RawMessage `json:"wouldSend" schema:"type=object?"`
}

// IsValid reports whether /auth would not refuse the content of the body.
func (e *Explanation) IsValid() bool { return e.Verdict == VerdictValid }

// An ExplanationWarning is something for which /auth does not refuse a request.
type ExplanationWarning struct {
	Pointer string `json:"pointer"`
	Rule    string `json:"rule"`
	Text    string `json:"text"`
}

// A Correction is a change that was made in a request. The members found and sent hold a JSON value of any kind, or
// null if it may say something of a person.
type Correction struct {
	Pointer string          `json:"pointer"`
	Rule    string          `json:"rule"`
	Found   json.RawMessage `json:"found"`
	Sent    json.RawMessage `json:"sent"`
}

// A SchemeFinding is a rule of the card's scheme that a request does not keep.
type SchemeFinding struct {
	Element string `json:"element"` // Several names with | between if one of them is enough.
	Level   Level  `json:"level"`
	Since   Text   `json:"since"` // A day, a month or a year; null if it always counted.
	Until   Text   `json:"until"` // Null if no end is known.
	InForce bool   `json:"inForce"`
	Text    string `json:"text"` // The finding in words.
	Source  Text   `json:"source"`
}
