package pages

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/openthreeds/threeds/internal/journal"
	"github.com/openthreeds/threeds/internal/lanes"
	"github.com/openthreeds/threeds/internal/outcome"
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
	Outcome  *outcome.Outcome // nil: it is not over, or was refused
	Drawing  *lanes.Drawing
	Cards    []*lanes.Card
	Changes  []string
	Findings []string
	Near     string // a search for what is like it
}

// authenticationPage shows one authentication as a timeline.
func authenticationPage(h *Handler, v *visit) (result, error) {
	var d journal.Detail
	if err := h.call(v, http.MethodGet, "authentications/"+url.PathEscape(v.PathValue("id")), nil, nil, &d); err != nil {
		return result{}, err
	}
	view := &authenticationView{Detail: &d}
	view.Title = joinNonEmpty(", ", amount(d.Amount, d.Currency), h.schemeName(d.Card.Scheme))
	state := pillOf(&d.Record)
	view.Heading, view.Icon, view.Good = joinNonEmpty(", ", state.Word, why(&d.Record)), state.Icon, state.Class == "good"
	view.Codes = joinNonEmpty(" · ", prefixed("transStatus ", d.TransStatus), prefixed("ECI ", d.ECI), prefixed("error ", d.ErrorCode))
	if o := h.outcomeOf(&d); o != nil {
		view.Outcome = o
		if o.Reason != nil {
			view.Reason = *o.Reason
		}
	}
	for _, step := range d.Steps {
		switch step.Step {
		case "request":
			view.Changes = append(view.Changes, step.Findings...)
		default:
			view.Findings = append(view.Findings, step.Findings...)
		}
	}
	if len(d.Steps) > 0 {
		view.addDrawing(h, v.URL.Query())
	}
	return result{template: "authentication", title: view.Title, data: view}, nil
}

// addDrawing draws the timeline, with the messages that the address chooses.
func (view *authenticationView) addDrawing(h *Handler, asked url.Values) {
	d := view.Detail
	keys := stepKeys(d.Steps)
	chosen := asked.Get("step")
	for _, telling := range []string{"rreq", "ares", "erro", "areq", keys[len(keys)-1]} {
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

// outcomeOf returns how an authentication ended; nil when it is not over, or nothing was sent.
func (h *Handler) outcomeOf(d *journal.Detail) *outcome.Outcome {
	end := outcome.Ending{Status: outcome.Status(d.Status), Scheme: d.Card.Scheme, ServerID: d.ID, Time: d.Updated, Rules: h.scheme(d.Card.Scheme).Rules}
	if !end.Status.IsFinal() || d.API == "v1" {
		return nil
	}
	for i := range d.Steps {
		m, err := message.Parse(d.Steps[i].Message, message.Limits{})
		if err != nil {
			continue
		}
		switch d.Steps[i].Step {
		case "areq":
			end.AReq = m
		case "ares":
			end.ARes = m
		case "rreq":
			end.RReq = m
		}
	}
	if end.AReq == nil {
		return nil
	}
	o := outcome.Of(end)
	return &o
}
