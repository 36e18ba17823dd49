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
	if m != nil && (in.Kind == "auth-body" || !m.Has("messageType")) && !m.Has("threeDSMethodNotificationURL") && !m.Has("cardRangeData") {
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
	var members map[string]json.RawMessage
	if err := json.Unmarshal(edgeapi.EncodeExplanation(x), &members); err != nil {
		return nil, err
	}
	members["kind"] = json.RawMessage(`"request"`)
	return json.Marshal(members)
}

// A textReport is what the admin API answers of a message that is no request.
type textReport struct {
	Kind     string          `json:"kind"`
	Verdict  string          `json:"verdict"`
	Errors   []api.Fault     `json:"errors"`
	Warnings []textWarning   `json:"warnings"`
	Lines    []string        `json:"lines,omitempty"`   // what a log or a PARes says
	Message  json.RawMessage `json:"message,omitempty"` // masked
}

type textWarning struct {
	Text string `json:"text"`
}

func encodeReport(r *inspect.Report) (json.RawMessage, error) {
	all := textReport{Kind: r.Kind, Verdict: "valid", Errors: []api.Fault{}, Warnings: []textWarning{}}
	if r.Faults > 0 {
		all.Verdict = "invalid"
	}
	for _, p := range r.Problems {
		all.Errors = append(all.Errors, faults.New(p.Code, p.Path, "message", inspect.DescribeProblem(p)+"."))
	}
	for _, text := range append(r.OfScheme, r.Warnings...) {
		all.Warnings = append(all.Warnings, textWarning{strings.TrimSpace(text)})
	}
	if r.Foreign != "" {
		all.Warnings = append(all.Warnings, textWarning{r.Foreign})
	}
	if r.Unjudged != "" {
		all.Warnings = append(all.Warnings, textWarning{"not judged: " + r.Unjudged})
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
