package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/message"
)

// lookup answers which schemes hold a card, and what they ask for.
func (h *Handler) lookup(ctx context.Context, req *request) (response, error) {
	found, wrong := h.Engine.Lookup(ctx, req.account, req.body)
	if len(wrong) > 0 {
		return response{}, problemOf(wrong...)
	}
	o := api.Lookup{Last4: found.Last4, Schemes: []api.LookupScheme{}}
	for i := range found.Schemes {
		o.Schemes = append(o.Schemes, newLookupScheme(&found.Schemes[i]))
	}
	return response{body: encodeJSON(o), notes: auth.Notes{Normalised: found.Normalised}}, nil
}

// problemOf returns the problem of a body with faults.
func problemOf(wrong ...api.Fault) *api.Problem {
	if wrong[0].Rule == "json" {
		return newProblem("malformed", http.StatusBadRequest, "The body is not what this operation reads", wrong...)
	}
	detail := "The request has faults"
	if len(wrong) == 1 {
		detail = "The request has one fault"
	}
	return newProblem("invalid", http.StatusBadRequest, detail, wrong...)
}

func newLookupScheme(s *auth.CardScheme) api.LookupScheme {
	o := api.LookupScheme{Scheme: s.Scheme, Versions: []api.LookupVersion{}, Requires: []api.SchemeRequirement{}}
	for _, v := range s.Versions {
		o.Versions = append(o.Versions, api.LookupVersion{
			MessageVersion: v.Version.String(), ThreeDSMethodURL: v.MethodURL, ACSInfoInd: describeInfoInd(v.InfoInd),
		})
	}
	if s.Recommended != nil {
		because := "the highest version that issuer, directory server and this server share"
		o.Recommended = &api.RecommendedVersion{MessageVersion: s.Recommended.String(), Because: because}
	}
	for _, r := range s.Requires {
		o.Requires = append(o.Requires, newRequirement(r))
	}
	if !s.KnownSince.IsZero() {
		o.KnownSince = new(wholeSeconds(s.KnownSince))
	}
	return o
}

// describeInfoInd returns the codes of acsInfoInd with their meanings.
func describeInfoInd(codes []string) []api.CodeMeaning {
	meanings := map[string]string{}
	cardRange := message.TableOf(message.PRes, message.V231).Field("cardRangeData").Of
	if f := cardRange.Field("acsProtocolVersions").Of.Field("acsInfoInd"); f != nil {
		for _, c := range f.Codes.Values {
			meanings[c.Value] = c.Meaning
		}
	}
	all := []api.CodeMeaning{}
	for _, code := range codes {
		meaning := meanings[code]
		switch {
		case meaning != "":
		case len(code) == 2 && code >= "80":
			meaning = "defined by the scheme"
		default:
			meaning = "reserved"
		}
		all = append(all, api.CodeMeaning{Code: code, Meaning: meaning})
	}
	return all
}

func newRequirement(r scheme.Requirement) api.SchemeRequirement {
	o := api.SchemeRequirement{
		Element: strings.Join(r.Elements, "|"), Level: r.Level,
		Since: api.Text(r.Since.String()), Until: api.Text(r.Until.String()),
		InForce: r.InForce, Source: api.Text(scheme.DescribeSources(r.Sources)),
	}
	for _, ch := range r.Channels {
		o.Channels = append(o.Channels, ch.String())
	}
	if r.If.Element != "" {
		o.If = api.Text(r.If.Element + " is " + strings.Join(r.If.Values, " or "))
	}
	return o
}

// explain answers what /auth would make of a body.
func (h *Handler) explain(_ context.Context, req *request) (response, error) {
	return response{
		body: encodeJSON(ExplainBody(h.Engine, req.account, req.body, check.ExplainOptions{}).Shape()),
	}, nil
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
