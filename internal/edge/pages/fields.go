package pages

import (
	"strings"

	"github.com/openthreeds/threeds/internal/edge/lanes"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// newMessageCard explains a step of a record.
func (h *Handler) newMessageCard(d *journal.Detail, r *lanes.Row, step *journal.Step) *lanes.Card {
	e := lanes.Explainer{
		Amount:  amount(d.Amount, d.Currency),
		Meaning: h.scheme(d.Card.Scheme).Rules.Meaning,
	}
	c := lanes.NewCard(r, lanes.Plain(step.Step, step.Message), step.Message, e)
	if len(step.Personal) > 0 {
		c.Groups = append(c.Groups, e.ExplainPersonal(step.Message, step.Personal))
	}
	switch step.Step { // those without a message say what became of them
	case "webhook":
		c.Plain = lanes.Join(" ", c.Plain, strings.Join(step.Findings, "; "))
	case "lookup", "spc.answer":
		c.Plain = lanes.Join(" ", c.Plain, sentence(strings.Join(step.Findings, "; ")))
	}
	return c
}
