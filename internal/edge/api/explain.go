package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/protocol/faults"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/message"
)

// A lookupObject is the answer of /lookup (docs/authentications.md).
type lookupObject struct {
	Last4   string         `json:"last4"`
	Schemes []lookupScheme `json:"schemes"`
}

type lookupScheme struct {
	Scheme      string             `json:"scheme"`
	Versions    []lookupVersion    `json:"versions"`
	Recommended *recommendedObject `json:"recommended"`
	Requires    []requiredObject   `json:"requires"`
	KnownSince  *string            `json:"knownSince"`
}

type lookupVersion struct {
	MessageVersion string       `json:"messageVersion"`
	MethodURL      string       `json:"threeDSMethodURL,omitempty"`
	InfoInd        []codeObject `json:"acsInfoInd"`
}

type codeObject struct {
	Code    string `json:"code"`
	Meaning string `json:"meaning"`
}

type recommendedObject struct {
	MessageVersion string `json:"messageVersion"`
	Because        string `json:"because"`
}

type requiredObject struct {
	Element  string       `json:"element"`
	Level    scheme.Level `json:"level"`
	Since    *string      `json:"since"`
	Until    *string      `json:"until"`
	InForce  bool         `json:"inForce"`
	Channels []string     `json:"channels"`
	If       *string      `json:"if"`
	Source   *string      `json:"source"`
}

// lookup answers which schemes hold a card, and what they ask for.
func (h *Handler) lookup(ctx context.Context, req *request) (response, error) {
	found, wrong := h.Engine.Lookup(ctx, req.account, req.body)
	if len(wrong) > 0 {
		return response{}, problemOf(wrong...)
	}
	o := lookupObject{Last4: found.Last4, Schemes: []lookupScheme{}}
	for i := range found.Schemes {
		o.Schemes = append(o.Schemes, newLookupScheme(&found.Schemes[i]))
	}
	return response{body: encodeJSON(o), notes: auth.Notes{Normalised: found.Normalised}}, nil
}

// problemOf returns the problem of a body with faults.
func problemOf(wrong ...faults.Entry) *problem {
	if wrong[0].Rule == "json" {
		return newProblem("malformed", http.StatusBadRequest, "The body is not what this operation reads", wrong...)
	}
	detail := "The request has faults"
	if len(wrong) == 1 {
		detail = "The request has one fault"
	}
	return newProblem("invalid", http.StatusBadRequest, detail, wrong...)
}

func newLookupScheme(s *auth.CardScheme) lookupScheme {
	o := lookupScheme{Scheme: s.Scheme, Versions: []lookupVersion{}, Requires: []requiredObject{}}
	for _, v := range s.Versions {
		o.Versions = append(o.Versions, lookupVersion{v.Version.String(), v.MethodURL, describeInfoInd(v.InfoInd)})
	}
	if s.Recommended != nil {
		because := "the highest version that issuer, directory server and this server share"
		o.Recommended = &recommendedObject{s.Recommended.String(), because}
	}
	for _, r := range s.Requires {
		o.Requires = append(o.Requires, newRequiredObject(r))
	}
	if !s.KnownSince.IsZero() {
		o.KnownSince = orNull(s.KnownSince.UTC().Truncate(time.Second).Format(time.RFC3339))
	}
	return o
}

// describeInfoInd returns the codes of acsInfoInd with their meanings.
func describeInfoInd(codes []string) []codeObject {
	meanings := map[string]string{}
	cardRange := message.TableOf(message.PRes, message.V231).Field("cardRangeData").Of
	if f := cardRange.Field("acsProtocolVersions").Of.Field("acsInfoInd"); f != nil {
		for _, c := range f.Codes.Values {
			meanings[c.Value] = c.Meaning
		}
	}
	all := []codeObject{}
	for _, code := range codes {
		meaning := meanings[code]
		switch {
		case meaning != "":
		case len(code) == 2 && code >= "80":
			meaning = "defined by the scheme"
		default:
			meaning = "reserved"
		}
		all = append(all, codeObject{code, meaning})
	}
	return all
}

func newRequiredObject(r scheme.Requirement) requiredObject {
	o := requiredObject{
		Element: strings.Join(r.Elements, "|"), Level: r.Level,
		Since: orNull(r.Since.String()), Until: orNull(r.Until.String()),
		InForce: r.InForce, Source: orNull(scheme.DescribeSources(r.Sources)),
	}
	for _, ch := range r.Channels {
		o.Channels = append(o.Channels, ch.String())
	}
	if r.If.Element != "" {
		o.If = orNull(r.If.Element + " is " + strings.Join(r.If.Values, " or "))
	}
	return o
}

// An explainObject is the answer of /explain (docs/authentications.md).
type explainObject struct {
	Verdict        string            `json:"verdict"`
	Scheme         *string           `json:"scheme"`
	MessageVersion *string           `json:"messageVersion"`
	Errors         []faults.Entry    `json:"errors"`
	Warnings       []check.Warning   `json:"warnings"`
	Normalised     []correction      `json:"normalised"`
	SchemeFindings []*scheme.Finding `json:"schemeFindings"`
	WouldSend      json.RawMessage   `json:"wouldSend"`
}

// A correction is something that was changed in a request. Found and Sent are null unless the element says nothing of a
// person.
type correction struct {
	Pointer string          `json:"pointer"`
	Rule    string          `json:"rule"`
	Found   json.RawMessage `json:"found"`
	Sent    json.RawMessage `json:"sent"`
}

// newCorrections returns what was changed in a request as answers have it.
func newCorrections(all []faults.Correction) []correction {
	list := []correction{}
	for _, c := range all {
		list = append(list, correction{c.Pointer, c.Rule, nullable(c.Found), nullable(c.Sent)})
	}
	return list
}

// explain answers what /auth would make of a body.
func (h *Handler) explain(_ context.Context, req *request) (response, error) {
	return response{body: EncodeExplanation(ExplainBody(h.Engine, req.account, req.body, check.ExplainOptions{}))}, nil
}

// An Explainer says what /auth would make of a body.
type Explainer interface {
	Explain(acc *account.Account, body []byte, o check.ExplainOptions) *check.Explanation
}

// ExplainBody says what /auth would make of a body, by the options in the body. What is set in further counts as well.
func ExplainBody(e Explainer, acc *account.Account, body []byte, further check.ExplainOptions) *check.Explanation {
	options, wrong := check.ReadExplainOptions(body)
	options.AllowMaskedCard = further.AllowMaskedCard
	x := e.Explain(acc, body, options)
	if len(wrong) > 0 {
		x.Reject(wrong)
	}
	return x
}

// EncodeExplanation returns the JSON of an explanation, as /explain answers it.
func EncodeExplanation(x *check.Explanation) []byte {
	o := explainObject{
		Verdict: "invalid", Scheme: orNull(x.Scheme), Errors: append([]faults.Entry{}, x.Faults...),
		Warnings: append([]check.Warning{}, x.Warnings...), Normalised: newCorrections(x.Normalised), SchemeFindings: append([]*scheme.Finding{}, x.Findings...), WouldSend: nullable(x.AReq),
	}
	if x.IsValid {
		o.Verdict = "valid"
	}
	if x.AReq != nil {
		o.MessageVersion = orNull(x.Version.String())
	}
	return encodeJSON(o)
}
