package ops

import (
	"context"
	"strings"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/message"
)

// journalActs are the acts on the journal and on the audit trail.
func journalActs() []Act {
	return []Act{
		{Name: "journal search", Least: operator.Viewer, IsForOwn: true, IsForGroups: true, Action: "record.search",
			Doors: byOperators},
		{Name: "journal show", Least: operator.Viewer, IsForOwn: true, IsForGroups: true, Action: "record.view", Object: "id",
			Doors: byOperators},
		{Name: "journal report", Least: operator.Viewer, IsForOwn: true, IsForGroups: true, Doors: byHTTP},
		{Name: "journal billing", Least: operator.Viewer, IsForOwn: true, IsForGroups: true, Doors: byOperators},
		{Name: "journal export", Least: operator.Operator, Action: "journal.export", Doors: []Door{Admin, Command}},
		{
			Name: "journal erase", Least: operator.Admin, Action: "journal.erase", Object: "card, or merchant and its name",
			Doors: byOperators, Danger: "erase", Summary: "Erase for good",
		},
		{Name: "audit search", Least: operator.Admin, Doors: byOperators},
		{Name: "audit export", Least: operator.Admin, Action: "audit.export", Doors: byOperators},
		{Name: "explain", Least: operator.Viewer, IsForOwn: true, IsForGroups: true, Doors: byOperators},
	}
}

// An Erased says how much was erased.
type Erased struct {
	Authentications int `json:"authentications"`
	Records         int `json:"records"`
	Events          int `json:"events"`  // for webhooks
	Answers         int `json:"answers"` // kept for an Idempotency-Key
	// authentications that stay for a legal hold; they go when it is lifted
	Held []journal.HeldBack `json:"held,omitempty"`
	// authentications whose keys were not forgotten, for there are too many: old copies of the database still open them
	Unforgotten int `json:"unforgotten,omitempty"`
	// why journal-keys.json of the machine that has erased still opens old copies of what was erased
	KeyFile string `json:"keyFile,omitempty"`
	// how many keys journal-keys.json can still forget, and what makes room, if these are few
	KeyLimit string `json:"keyLimit,omitempty"`
	// files of archived days, which the erasure does not reach; threeds journal erase --archive does
	Unreached []string `json:"unreached,omitempty"`
}

// EraseJournal removes what belongs to a card or to a merchant, for good. The audit trail says so without the card.
func (a *Acts) EraseJournal(ctx context.Context, by operator.Actor, card, merchant string) (Erased, error) {
	if err := Find("journal erase").Check(&by); err != nil {
		return Erased{}, err
	}
	if a.Erase == nil {
		return Erased{}, errJournalOff
	}
	card = message.PlainCardNumber(card)
	object, n := "merchant "+merchant, len(card)
	if card != "" {
		object = "card"
	}
	switch {
	case (card == "") == (merchant == ""):
		return Erased{}, refuse(Wrong, "Want either acctNumber or merchant.")
	case cardnumber.MayBe(merchant):
		return Erased{}, refuseMember("merchant",
			"that may be a whole card number, and names stand in the audit trail. Send it as acctNumber.")
	case n > 0 && (n < 13 || n > 19 || strings.Trim(card, "0123456789") != ""):
		return Erased{}, refuseMember("acctNumber", "want a card number of 13 to 19 digits.")
	}
	if err := a.Record(ctx, by, "journal erase", object, nil, nil); err != nil {
		return Erased{}, err
	}
	// An erasure that has begun is finished, even if the caller no longer waits for the answer.
	done, err := a.Erase(context.WithoutCancel(ctx), journal.Query{Card: card, Merchant: merchant, By: by.Who})
	return done, translate(err, errHoldsUnknown)
}
