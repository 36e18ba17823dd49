package pages

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/edge/lanes"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/message"
)

// An authenticationView is the data of the page of one authentication.
type authenticationView struct {
	*journal.Detail
	Title    string
	Heading  string
	Codes    string // transStatus and ECI
	Reason   string
	Good     bool
	Icon     string
	IsOver   bool
	Outcome  *api.Outcome // Outcome is nil when the authentication is not over, and for 3-D Secure 1.0.2.
	Drawing  *lanes.Drawing
	Cards    []*lanes.Card
	Changes  []string
	Findings findingsView
}

// authenticationPage shows one authentication as a timeline.
func authenticationPage(h *Handler, v *visit) (result, error) {
	d, err := h.Admin.ShowRecord(v.Context(), v.session.Actor, v.PathValue("id"))
	if err != nil {
		return result{}, err
	}
	view := &authenticationView{Detail: d}
	view.Title = lanes.Join(", ", amount(d.Amount, d.Currency), h.schemeName(d.Card.Scheme))
	if view.Title == "" || d.Card == (journal.Card{}) {
		view.Title = map[bool]string{true: "Refused request", false: "Authentication"}[d.Status == "refused"]
	}
	state := pillOf(&d.Record)
	view.Heading, view.Icon, view.Good = lanes.Join(", ", state.Word, how(&d.Record)), state.Icon, state.Class == "good"
	view.Codes = lanes.Join(" · ", lanes.Prefix("transStatus ", d.TransStatus),
		lanes.Prefix("reason ", d.TransStatusReason), lanes.Prefix("ECI ", d.ECI),
		lanes.Prefix("error ", d.ErrorCode))
	view.IsOver = api.Status(d.Status).IsFinal()
	var reasons []string
	rules := h.scheme(d.Card.Scheme).Rules
	var unkept []api.SchemeFinding
	for _, f := range d.Record.Findings(rules) {
		unkept = append(unkept, f.Shape())
	}
	view.Findings = newFindingsView(d.Card.Scheme, unkept)
	if o := d.Outcome(rules); o != nil {
		view.Outcome = o
		if o.Reason != "" {
			reasons = append(reasons, string(o.Reason))
		}
		if o.Error != nil {
			reasons = append(reasons, describeError(o.Error))
		}
	}
	deliveries := map[string]string{} // the last attempt at each event and endpoint
	for i := range d.Steps {
		step := &d.Steps[i]
		switch step.Step {
		case "request":
			view.Changes = append(view.Changes, step.Findings...)
		case "erro": // the outcome says it
		case "areq": // the rules of the scheme that it does not keep, which the record has
		case "lookup", "spc.answer": // their cards say it
		case "webhook":
			for _, finding := range step.Findings {
				to, _, _ := strings.Cut(finding, ": ")
				deliveries[to] = finding
			}
		case "rreq":
			reasons = append(reasons, h.cancelReason(d, step))
			fallthrough
		default:
			for _, finding := range step.Findings {
				switch {
				case strings.HasPrefix(finding, journal.Withheld): // the card says it
				case !strings.HasPrefix(finding, refusedPrefix):
					view.Findings.Others = append(view.Findings.Others, finding)
				case step.Step == "rreq":
					reasons = append(reasons, "an RReq was "+finding)
				}
			}
		}
	}
	for _, finding := range slices.Sorted(maps.Values(deliveries)) {
		if strings.Contains(finding, " failed, ") {
			view.Findings.Others = append(view.Findings.Others, finding)
		}
	}
	view.Reason = lanes.Join("; ", reasons...)
	if len(d.Steps) > 0 {
		view.addDrawing(h, v.URL.Query())
	}
	title := view.Title
	if view.Title != "Refused request" && view.Title != "Authentication" {
		title = "Authentication, " + title
	}
	return result{template: "authentication", title: title, data: view}, nil
}

// componentNames are those of errorComponent.
var componentNames = map[string]string{
	"C": "the SDK", "S": "this server", "D": "the directory server", "A": "the issuer's server",
}

// describeError returns in words with which error an authentication failed.
func describeError(e *api.OutcomeError) string {
	text := "error " + e.Code + " of " + componentNames[e.Component] + ": " + strings.TrimSuffix(e.Description, ".")
	if e.Detail != "" && e.Detail != e.Description {
		text += " (" + e.Detail + ")"
	}
	return text
}

// refusedPrefix begins the finding of a message that was refused. After an ARes, the step that follows says the same.
const refusedPrefix = "refused: "

// cancelReason says in words why a challenge was cancelled; "" if its result does not say so.
func (h *Handler) cancelReason(d *journal.Detail, rreq *journal.Step) string {
	m, err := message.Parse(rreq.Message, message.Limits{})
	if err != nil || !m.Has("challengeCancel") {
		return ""
	}
	e := lanes.Explainer{Meaning: h.scheme(d.Card.Scheme).Rules.Meaning}
	for _, group := range e.Explain(rreq.Message) {
		for _, f := range group.Fields {
			if _, meaning, ok := strings.Cut(f.Meaning, ": "); ok && f.Name == "challengeCancel" {
				return "challenge cancelled: " + meaning
			}
		}
	}
	return ""
}

// addDrawing draws the timeline, with the messages that the address chooses.
func (view *authenticationView) addDrawing(h *Handler, asked url.Values) {
	d := view.Detail
	keys := stepKeys(d.Steps)
	chosen := asked.Get("step")
	for _, telling := range []string{"rreq", "ares", "erro", "areq", "v1.pares", "v1.veres", keys[len(keys)-1]} {
		if !slices.Contains(keys, chosen) {
			chosen = telling
		}
	}
	view.Drawing = h.newDrawing(d, keys, chosen, asked)
	shown := []string{chosen}
	if beside := asked.Get("beside"); beside != chosen && slices.Contains(keys, beside) {
		shown = append(shown, beside)
	}
	for _, key := range shown {
		at := slices.Index(keys, key)
		card := h.newMessageCard(d, &view.Drawing.Rows[at], &d.Steps[at])
		for i, other := range keys {
			if len(d.Steps[i].Message) == 0 || slices.Contains(shown, other) || len(card.Groups) == 0 {
				continue
			}
			to := url.Values{"step": {chosen}, "beside": {other}}
			card.Others = append(card.Others, lanes.Other{Link: "?" + to.Encode() + "#message", Name: view.Drawing.Rows[i].Name})
		}
		view.Cards = append(view.Cards, card)
	}
}
