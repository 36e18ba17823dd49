package auth

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/protocol/outcome"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/record"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// A txnRecord is what a transaction keeps beside its state. It is sealed before
// the store sees it. It never holds a card number: of the AReq only the facts
// that later messages are checked against are kept, and where a follow-up
// authentication may come the purchase, with a digest of the card.
type txnRecord struct {
	API      string    `json:",omitzero"` // that it was made with; "" is /auth
	Version  string    // of the transaction; "" if no directory has the card
	BIN      string    `json:",omitzero"` // the beginning of the card number, as far as it may be shown
	Last4    string    `json:",omitzero"` // the end of the card number
	Began    int64     `json:",omitzero"` // when its request came, Unix milliseconds; 0 in rows of an earlier release
	LookedUp int64     `json:",omitzero"` // when its card range was found, Unix milliseconds
	Made     int64     `json:",omitzero"` // when it was created, if that was before Sent, Unix milliseconds
	Sent     int64     // when the id was claimed, just before the AReq leaves, Unix milliseconds
	Until    int64     `json:",omitzero"` // when all but the id is forgotten, Unix milliseconds; 0: not before the row expires
	AReq     []byte    // facts of the request, JSON
	Purchase *purchase `json:",omitzero"` // when a follow-up authentication may come
	ARes     []byte    `json:",omitzero"` // the answer, byte for byte; an earlier release kept only facts of it
	RReq     []byte    `json:",omitzero"` // the result, byte for byte as it came
	Erro     []byte    `json:",omitzero"` // with which the DS gave the transaction up
	Answered int64     `json:",omitzero"` // when the ARes came, or was given up, Unix milliseconds
	CardHash []byte    `json:",omitzero"` // by which the journal finds the card
	Ended    int64     `json:",omitzero"` // when it came to its end, Unix milliseconds; 0: it has not, or not before a wait is over

	Failure *api.OutcomeError `json:",omitzero"` // with which the authentication failed, its texts as the journal has them

	Untold []string `json:",omitzero"` // members that the browser did not send, so that no AReq left

	Amount   string `json:",omitzero"` // purchaseAmount
	Currency string `json:",omitzero"` // purchaseCurrency
	Exponent string `json:",omitzero"` // purchaseExponent

	AcquirerMerchant string `json:",omitzero"` // acquirerMerchantID

	Decoupled   bool     `json:",omitzero"` // the ARes said D
	Gone        bool     `json:",omitzero"` // the requestor seemed to have gone when the ARes came
	Undelivered bool     `json:",omitzero"` // the requestor was refused the ARes
	Refused     bool     `json:",omitzero"` // the DS was told that the result was not stored
	Reference   string   `json:",omitzero"` // by which the requestor knows the transaction
	Schemes     []string `json:",omitzero"` // that hold the card, the preferred one first; nil: the row's alone
	Defaulted   []string `json:",omitzero"` // members that the server filled in
	Changes     []string `json:",omitzero"` // what was normalised in the request

	BadResult *journal.Refusal `json:",omitzero"` // the first RReq that came and was not valid; nil if there was none

	Unkept []journal.Rule `json:",omitzero"` // the rules of the scheme that the AReq does not keep

	Corrections []api.Correction `json:",omitzero"` // Changes with pointers and values, of one that was created

	Page  *pageRecord  `json:",omitzero"` // of one that a browser carries out
	Agent *agentRecord `json:",omitzero"` // of one whose browser an agent looks after
}

// seal puts what, a txnRecord, sequence or firstAuthentication, into t; see [record.Seal].
func (e *Engine) seal(t *store.Txn, what any) error { return record.Seal(e.Sealer, t, what) }

// open reads what seal wrote.
func (e *Engine) open(t *store.Txn, into any) error { return record.Open(e.Sealer, t, into) }

// unseal reads the record of a transaction.
func (e *Engine) unseal(t *store.Txn) (*txnRecord, error) {
	r := new(txnRecord)
	if err := e.open(t, r); err != nil {
		return nil, err
	}
	return r, nil
}

// onRecord returns the change of a row that change makes, which gets its record and seals it.
func (e *Engine) onRecord(change func(t *store.Txn, rec *txnRecord) error) func(*store.Txn) error {
	return func(t *store.Txn) error {
		rec, err := e.unseal(t)
		if err != nil {
			return err
		}
		return change(t, rec)
	}
}

// messages reads the messages that are kept; of the AReq there are facts alone.
func (r *txnRecord) messages() (m outcome.Messages, err error) {
	for _, kept := range []struct {
		name string
		text []byte
		into **message.Message
	}{{"AReq", r.AReq, &m.AReq}, {"ARes", r.ARes, &m.ARes}, {"RReq", r.RReq, &m.RReq}} {
		if len(kept.text) == 0 && kept.name != "AReq" {
			continue
		}
		if *kept.into, err = message.Parse(kept.text, message.Limits{}); err != nil {
			return m, fmt.Errorf("auth: kept %s: %w", kept.name, err)
		}
	}
	m.IsUnshown = r.Page != nil && r.Page.Shown == 0
	return m, nil
}

// context makes of the kept facts what a later message is checked against.
func (r *txnRecord) context() (message.Context, error) {
	m, err := r.messages()
	return message.Context{AReq: m.AReq, ARes: m.ARes}, err
}

func (r *txnRecord) version() message.Version {
	v, ok := message.ParseVersion(r.Version)
	if !ok {
		return message.V220
	}
	return v
}

// keepExpired is how long the owner of a challenge that ended without a result hears that it has expired.
const keepExpired = 24 * time.Hour

// setExpiry has the transaction t, which r is about to be sealed into, count for d from now.
// The row stays beyond that for as long as its id could be tried again: else a second AReq
// might leave under the id (I5). The id itself says how long that is, since our timeouts
// may be raised meanwhile. The row of a challenge without a result stays for keepExpired, that of a transaction at
// its end for as long as its outcome is told.
func (e *Engine) setExpiry(t *store.Txn, r *txnRecord, d time.Duration) {
	t.Expires, r.Until = e.expiryIn(d), 0
	stays := time.UnixMilli(cmp.Or(r.Sent, r.Made)).Add(transid.Life(t.ID) + 2*transid.MaxSkew).UTC()
	if hasNoResult(t, r) && stays.Before(t.Expires.Add(keepExpired)) {
		stays = t.Expires.Add(keepExpired)
	}
	if told := t.Expires.Add(e.Timeouts.Values); t.State == Waiting && stays.Before(told) {
		stays = told
	}
	if isAtEnd(t) {
		r.Ended = e.Now().UnixMilli()
		if told := e.expiryIn(e.Timeouts.Values); stays.Before(told) {
			stays = told
		}
	}
	if stays.After(t.Expires) {
		t.Expires, r.Until = stays, t.Expires.UnixMilli()
	}
}

// isAtEnd reports whether a transaction is in a state that it does not leave.
func isAtEnd(t *store.Txn) bool {
	return t.State == Final || t.State == Result || t.State == Failed || t.State == Cancelled
}

// hasNoResult reports whether a transaction is a challenge that has no result: it waits for one, or
// the directory server has posted an Erro.
func hasNoResult(t *store.Txn, r *txnRecord) bool {
	return t.State == Challenge || t.State == Failed && r.Erro != nil
}

// isOver reports whether the transaction of r is over and its row stays for the id alone.
func (e *Engine) isOver(r *txnRecord) bool { return r.Until != 0 && e.Now().UnixMilli() >= r.Until }

// isClaimOver reports whether an /auth that claimed its id at sent, in Unix milliseconds,
// perhaps on another node with another clock, can no longer be in flight.
func (e *Engine) isClaimOver(sent int64) bool {
	return e.Now().Sub(time.UnixMilli(sent)) > e.Timeouts.Authentication+commitTime+transid.MaxSkew
}

// expiryIn returns the time d from now as the store keeps it.
func (e *Engine) expiryIn(d time.Duration) time.Time {
	return record.Moment(e.Now().Add(d))
}

// The states of a transaction as the store keeps them. A claim is written
// before its AReq leaves and is the permission to send it once. "Claimed" and
// "sent" are therefore one state, and a crash between the two can only lose the
// AReq, never repeat it (invariant I5).
const (
	Waiting   store.State = "waiting"   // created, and nothing has left: it waits for its browser
	Sent      store.State = "sent"      // claimed; its one AReq may have left
	Challenge store.State = "challenge" // ARes C, D or S committed, no RReq yet
	Final     store.State = "final"     // ARes with any other status
	Failed    store.State = "failed"    // no usable ARes, or the DS gave it up with an Erro
	Result    store.State = "result"    // RReq committed
	Cancelled store.State = "cancelled" // ended by the merchant or the shopper
)

// arrows are all changes of state there are (invariant I4); the states without a row
// never change. Three more states, Leg, Second and Operations, mark rows that are no transactions.
var arrows = map[store.State][]store.State{
	Waiting:   {Sent, Final, Failed, Cancelled},
	Sent:      {Challenge, Final, Failed, Cancelled},
	Challenge: {Sent, Result, Failed, Cancelled}, // back to Sent for the second AReq of SPC alone, see claimSecond
}

// errArrow is returned when a transaction is not where its next step starts.
var errArrow = errors.New("auth: no such step")

// advance moves t to the state next, or leaves it and says why not.
func advance(t *store.Txn, next store.State) error {
	if !slices.Contains(arrows[t.State], next) {
		return fmt.Errorf("%w: %s to %s", errArrow, t.State, next)
	}
	t.State = next
	return nil
}

// createdAt is when the transaction began.
func (r *txnRecord) createdAt() time.Time {
	return time.UnixMilli(cmp.Or(r.Began, r.Made, r.Sent)).UTC()
}

// setPurchase keeps what an AReq says of the purchase and the merchant.
func (r *txnRecord) setPurchase(areq *message.Message) {
	r.Amount, r.Currency, r.Exponent = areq.Text("purchaseAmount"), areq.Text("purchaseCurrency"), areq.Text("purchaseExponent")
	r.AcquirerMerchant = areq.Text("acquirerMerchantID")
}
