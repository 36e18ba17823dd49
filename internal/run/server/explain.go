package server

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/openthreeds/threeds/api"
	edgeapi "github.com/openthreeds/threeds/internal/edge/api"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/protocol/faults"
	"github.com/openthreeds/threeds/internal/protocol/inspect"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/message"
)

// explainText says what /auth would make of a request for a merchant, or what is wrong with a message in any form that
// `threeds check` reads. It sends, stores and logs nothing.
func (s *Server) explainText(merchant string, text []byte) (json.RawMessage, error) {
	in, ok := inspect.Read(text)
	if !ok {
		return nil, errors.New("it is neither JSON nor a log line, a form, base64url or a PARes")
	}
	var m *message.Message
	if in.Data != nil {
		var err error
		if m, err = message.Parse(in.Data, message.Limits{Depth: -1, Members: -1}); err != nil {
			return nil, errors.New("its JSON cannot be read")
		}
	}
	if m != nil && (in.Kind == "auth-body" || !m.Has("messageType")) && !m.Has("threeDSMethodNotificationURL") &&
		!m.Has("cardRangeData") {
		return s.explainRequest(merchant, in.Data)
	}
	report, err := inspect.Check(in, "", s.timestamp())
	if err != nil {
		return nil, err
	}
	return encodeReport(report)
}

// explainRequest says what /auth, or POST /authentications, would make of a body.
func (s *Server) explainRequest(merchant string, body []byte) (json.RawMessage, error) {
	acc := &account.Account{Merchant: &account.Merchant{Name: merchant}}
	if profile := s.apiKeys.Merchant(merchant); profile != nil {
		acc.Merchant = profile
	}
	x := edgeapi.ExplainBody(s.activeRuntime().engine, acc, body, check.ExplainOptions{AllowMaskedCard: true})
	return json.Marshal(api.ExplainedRequest{Kind: "request", Explanation: x.Shape()})
}

func encodeReport(r *inspect.Report) (json.RawMessage, error) {
	all := api.ExplainedMessage{
		Kind: r.Kind, Verdict: api.VerdictValid, Faults: []api.Fault{}, Warnings: []api.MessageWarning{},
	}
	if r.Faults > 0 {
		all.Verdict = api.VerdictInvalid
	}
	for _, p := range r.Problems {
		all.Faults = append(all.Faults, faults.New(p.Code, p.Path, "message", inspect.DescribeProblem(p)+"."))
	}
	for _, text := range append(r.OfScheme, r.Warnings...) {
		all.Warnings = append(all.Warnings, api.MessageWarning{Text: strings.TrimSpace(text)})
	}
	if r.Foreign != "" {
		all.Warnings = append(all.Warnings, api.MessageWarning{Text: r.Foreign})
	}
	if r.Unjudged != "" {
		all.Warnings = append(all.Warnings, api.MessageWarning{Text: "not judged: " + r.Unjudged})
	}
	for i := range r.Lines {
		all.Lines = append(all.Lines, r.Lines[i].Describe())
	}
	for _, e := range r.Elements {
		all.Lines = append(all.Lines, e.Name+": "+e.Text)
	}
	if r.Shown != nil {
		all.Message = r.Shown.MaskedJSON()
	}
	return json.Marshal(all)
}
