package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/message"
)

// HoldStore is what acts need of a journal with legal holds.
type HoldStore interface {
	Holds(ctx context.Context) (journal.Holds, error)
	AddHold(ctx context.Context, h journal.Hold) (journal.Hold, error)
	LiftHold(ctx context.Context, name, by string) error
	CountHeld(ctx context.Context, q journal.Query) ([]journal.HeldBack, error)
	Search(ctx context.Context, q journal.Query) (journal.Page, error)
}

// holdActs are the acts on legal holds.
func holdActs() []Act {
	const object = "name"
	return []Act{
		{Name: "journal hold list", Least: operator.Operator, Doors: byOperators},
		{Name: "journal hold add", Least: operator.Admin, Action: "journal.hold", Object: object, Doors: byOperators},
		{
			Name: "journal hold lift", Least: operator.Admin, Action: "journal.lift", Object: object, Doors: byOperators,
			Danger: "holds", Route: "DELETE journal/holds/{name}", Summary: "Lift a legal hold",
			Do: func(a *Acts, ctx context.Context, by operator.Actor, name string) (any, error) {
				return nil, a.liftHold(ctx, by, name)
			},
		},
	}
}

// MissingHolds returns the names of the holds that the audit trail has, and the journal has not: somebody may have
// deleted the newest seals, or set the journal back, while no server ran. While a hold does not open, it returns none.
func (a *Acts) MissingHolds(ctx context.Context, by operator.Actor) (names []string, err error) {
	list, err := a.Holds(ctx, by)
	if err != nil {
		return nil, err
	}
	newest := map[string]operator.Entry{} // by the name of the hold
	for _, act := range []string{"journal hold add", "journal hold lift"} {
		entries, err := a.Operators.Search(ctx, operator.Query{Action: Find(act).Action})
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if newest[e.Object].Seq < e.Seq {
				newest[e.Object] = e
			}
		}
	}
	for _, h := range list.Data {
		if h.IsUnreadable {
			return nil, nil
		}
		delete(newest, h.Name)
	}
	for name, e := range newest {
		if e.Action == Find("journal hold add").Action {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// An AddedHold is a legal hold that was just set.
type AddedHold struct {
	journal.Hold
	// Found are the authentications that it holds now, at most 1000. With HasMore there are more.
	Found   int  `json:"found"`
	HasMore bool `json:"hasMore,omitempty"`
}

var (
	errJournalOff = &Refusal{Missing, "", "The journal is off.", nil}
	errNoHold     = &Refusal{Missing, "", "There is no legal hold of this name.", journal.ErrNoHold}
	errHoldExists = &Refusal{Conflict, "name", "There is a legal hold of this name. Choose another name.",
		journal.ErrHoldExists}
	errHoldsUnknown = &Refusal{Conflict, "", "Seals of the journal were changed in the store, so its legal holds are " +
		"not known. Nothing was erased.", journal.ErrHoldsUnknown}
)

// Holds returns the legal holds, and what they keep.
func (a *Acts) Holds(ctx context.Context, by operator.Actor) (journal.Holds, error) {
	if err := Find("journal hold list").Check(&by); err != nil {
		return journal.Holds{}, err
	}
	if a.LegalHolds == nil {
		return journal.Holds{}, errJournalOff
	}
	list, err := a.LegalHolds.Holds(ctx)
	return list, translate(err, errHoldsUnknown)
}

// AddHold sets a legal hold on records of the journal: of a card, of a merchant, of days, or of what they have in
// common. The audit trail says so without the card.
func (a *Acts) AddHold(ctx context.Context, by operator.Actor, asked api.HoldRequest) (AddedHold, error) {
	none := AddedHold{}
	if err := Find("journal hold add").Check(&by); err != nil {
		return none, err
	}
	if a.LegalHolds == nil {
		return none, errJournalOff
	}
	h := journal.Hold{
		Name: strings.TrimSpace(asked.Name), Merchant: strings.TrimSpace(asked.Merchant), From: asked.From, To: asked.To,
		Card: message.PlainCardNumber(asked.AcctNumber), Reason: strings.TrimSpace(asked.Reason), By: by.Who,
	}
	if asked.Merchant != "" && h.Merchant == "" { // else the hold would be on all merchants
		return none, refuseMember("merchant", "is blank.")
	}
	if err := checkHold(&h); err != nil {
		return none, err
	}
	list, err := a.LegalHolds.Holds(ctx)
	if err != nil {
		return none, translate(err, errHoldsUnknown)
	}
	if slices.ContainsFunc(list.Data, func(o journal.Hold) bool { return o.Name == h.Name }) {
		return none, errHoldExists
	}
	q := journal.Query{Card: h.Card, Merchant: h.Merchant, Limit: maxFound}
	q.From, _ = time.Parse(time.DateOnly, h.From) // checkHold has read them
	if to, err := time.Parse(time.DateOnly, h.To); err == nil {
		q.To = to.AddDate(0, 0, 1)
	}
	page, err := a.LegalHolds.Search(ctx, q)
	if err != nil {
		return none, err
	}
	if len(page.Records) == 0 && h.Merchant != "" {
		if err := a.Merchants().CheckKnown(ctx, by.Scope(), h.Merchant); errors.Is(err, merchant.ErrNotFound) {
			return none, &Refusal{Wrong, "merchant", err.Error() + ", and the journal has no record of it.", err}
		} else if err != nil {
			return none, err
		}
	}
	after := map[string]any{
		"merchant": h.Merchant, "byCard": h.Card != "", "from": h.From, "to": h.To, "reason": h.Reason,
	}
	if err := a.Record(ctx, by, "journal hold add", h.Name, nil, after); err != nil {
		return none, err
	}
	added, err := a.LegalHolds.AddHold(ctx, h)
	return AddedHold{added, len(page.Records), page.Next != ""}, translate(err, errHoldExists, errHoldsUnknown)
}

// maxFound is how many authentications are counted for a hold.
const maxFound = 1000

// maxHoldName is how many characters the name of a hold has at most.
const maxHoldName = 64

// checkHold refuses a hold with a wrong value, or one that names nothing.
func checkHold(h *journal.Hold) error {
	isOther := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(" -_.", r)
	}
	if n := utf8.RuneCountInString(h.Name); n == 0 || n > maxHoldName || strings.ContainsFunc(h.Name, isOther) {
		return refuseMember("name", "want 1 to %d letters, digits, blanks or any of - _ . for the case.", maxHoldName)
	}
	if strings.Trim(h.Name, ".") == "" {
		return refuseMember("name", "want a letter or a digit.") // a path of dots alone leads to another page
	}
	if cardnumber.MayBe(h.Name) || cardnumber.IsIn(h.Name) {
		return refuseMember("name", "%v.", cardnumber.ErrFound)
	}
	if cardnumber.MayBe(h.Merchant) {
		return refuseMember("merchant", "that may be a whole card number. Send it as acctNumber.")
	}
	if err := cardnumber.Check(h.Merchant); err != nil { // the audit trail names the merchant
		return refuseMember("merchant", "%v.", err)
	}
	if !utf8.ValidString(h.Merchant) || strings.ContainsRune(h.Merchant, 0) {
		return refuseMember("merchant", "want text.")
	}
	if n := len(h.Card); n > 0 && (n < 13 || n > 19 || strings.Trim(h.Card, "0123456789") != "") {
		return refuseMember("acctNumber", "want a card number of 13 to 19 digits.")
	}
	for _, d := range [][2]string{{"from", h.From}, {"to", h.To}} {
		if _, err := time.Parse(time.DateOnly, d[1]); err != nil && d[1] != "" {
			return refuseMember(d[0], "want a day such as 2026-11-28.")
		}
	}
	if h.To != "" && h.To < h.From {
		return refuseMember("to", "is before from.")
	}
	if h.Card == "" && h.Merchant == "" && h.From == "" && h.To == "" {
		return refuse(Wrong, "Say what is held: a card, a merchant, days, or some of these together.")
	}
	return checkReason(h.Reason)
}

// liftHold lifts a legal hold. A server then erases what erasures had left out for it, and what is over its time.
func (a *Acts) liftHold(ctx context.Context, by operator.Actor, name string) error {
	if err := Find("journal hold lift").Check(&by); err != nil {
		return err
	}
	if a.LegalHolds == nil {
		return errJournalOff
	}
	list, err := a.LegalHolds.Holds(ctx)
	if err != nil {
		return translate(err, errHoldsUnknown)
	}
	i := slices.IndexFunc(list.Data, func(h journal.Hold) bool { return h.Name == name })
	if i < 0 {
		return errNoHold
	}
	// Who confirms or allows the act sees which hold it lifts, and means no later one of the same name.
	object := fmt.Sprintf("%s, seal %d: %s", name, list.Data[i].Number, list.Data[i].Reason)
	if err := a.checkDanger(&by, "journal hold lift", object); err != nil {
		return err
	}
	if err := a.record(ctx, by, "journal hold lift", name, list.Data[i], nil); err != nil {
		return err
	}
	return translate(a.LegalHolds.LiftHold(ctx, name, by.Who), errNoHold, errHoldsUnknown)
}

// CountHeld says what an erasure of a card or of a merchant would leave out for legal holds.
func (a *Acts) CountHeld(ctx context.Context, by operator.Actor, card, merchant string) ([]journal.HeldBack, error) {
	if err := Find("journal erase").Check(&by); err != nil {
		return nil, err
	}
	if a.LegalHolds == nil {
		return nil, errJournalOff
	}
	held, err := a.LegalHolds.CountHeld(ctx, journal.Query{Card: card, Merchant: merchant})
	return held, translate(err, errHoldsUnknown)
}
