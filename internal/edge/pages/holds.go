package pages

import (
	"cmp"
	"strings"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// A holdsView is the data of the page of legal holds. It never has the card number that was typed.
type holdsView struct {
	journal.Holds
	Added     *ops.AddedHold
	Asked     api.HoldRequest // what was typed, without the card
	Fault     string
	CanChange bool
}

// showHolds lists the legal holds, with one that was just set or with what is wrong with what was typed.
func (h *Handler) showHolds(v *visit, view *holdsView) (result, error) {
	list, err := h.Acts.Holds(v.Context(), v.session.Actor)
	if err != nil {
		return result{}, err
	}
	view.Holds, view.CanChange = list, v.can("journal hold add")
	return result{template: "holds", title: "Legal holds", data: view, status: faultStatus(view.Fault)}, nil
}

func holdsPage(h *Handler, v *visit) (result, error) { return h.showHolds(v, &holdsView{}) }

// addHold sets a legal hold.
func addHold(h *Handler, v *visit) (result, error) {
	field := func(name string) string { return strings.TrimSpace(v.PostForm.Get(name)) }
	asked := api.HoldRequest{
		Name: field("name"), AcctNumber: cmp.Or(digitsOf(field("card")), field("card")), Merchant: field("merchant"),
		From: field("from"), To: field("to"), Reason: field("reason"),
	}
	added, err := h.Acts.AddHold(v.Context(), v.session.Actor, asked)
	fault, err := faultOf(err)
	if err != nil {
		return result{}, err
	}
	if fault == "" {
		return h.showHolds(v, &holdsView{Added: &added})
	}
	asked.AcctNumber = ""
	for _, typed := range []*string{&asked.Name, &asked.Merchant, &asked.From, &asked.To, &asked.Reason} {
		if cardnumber.MayBe(*typed) || cardnumber.IsIn(*typed) { // no page has a card number
			*typed = ""
		}
	}
	return h.showHolds(v, &holdsView{Asked: asked, Fault: fault})
}

// liftHold lifts a legal hold.
func liftHold(h *Handler, v *visit) (result, error) {
	_, err := ops.Find("journal hold lift").Do(h.Acts, v.Context(), v.session.Actor, v.PathValue("name"))
	return result{to: "/holds"}, err
}
