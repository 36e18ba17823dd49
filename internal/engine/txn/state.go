package txn

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/protocol/transid"
	"github.com/openthreeds/threeds/internal/state/record"
	"github.com/openthreeds/threeds/internal/state/store"
)

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

// The states of rows that are no transactions. They never change.
const (
	Leg store.State = "leg" // it holds a first authentication, for its follow-up
	// it stands under the id of the second AReq of SPC; the authentication has the row of its first id
	Second     store.State = "second"
	Operations store.State = "operations" // it holds a sequence of operation messages
)

// arrows are all changes of state there are (invariant I4); the states without a row
// never change.
var arrows = map[store.State][]store.State{
	Waiting:   {Sent, Final, Failed, Cancelled},
	Sent:      {Challenge, Final, Failed, Cancelled},
	Challenge: {Sent, Result, Failed, Cancelled}, // back to Sent for the second AReq of SPC alone, see claimSecond
}

// ErrArrow is returned when a transaction is not where its next step starts.
var ErrArrow = errors.New("auth: no such step")

// Advance moves t to the state next, or leaves it and says why not.
func Advance(t *store.Txn, next store.State) error {
	if !slices.Contains(arrows[t.State], next) {
		return fmt.Errorf("%w: %s to %s", ErrArrow, t.State, next)
	}
	t.State = next
	return nil
}

// IsTransaction reports whether a row is a transaction.
func IsTransaction(t *store.Txn) bool { return arrows[t.State] != nil || IsAtEnd(t) }

// IsAtEnd reports whether a transaction is in a state that it does not leave.
func IsAtEnd(t *store.Txn) bool {
	return t.State == Final || t.State == Result || t.State == Failed || t.State == Cancelled
}

// HasNoResult reports whether a transaction is a challenge that has no result: it waits for one, or
// the directory server has posted an Erro.
func HasNoResult(t *store.Txn, rec *Record) bool {
	return t.State == Challenge || t.State == Failed && rec.Erro != nil
}

// StatusOf returns where a transaction is now.
func (r *Rows) StatusOf(t *store.Txn, rec *Record) api.Status { return r.StatusAt(t, rec, r.Now()) }

// StatusAt is [Rows.StatusOf] for an earlier time, given the row and its record as they were at that time.
func (r *Rows) StatusAt(t *store.Txn, rec *Record, at time.Time) api.Status {
	switch t.State {
	case Waiting:
		if rec.isOverAt(at) {
			return api.StatusExpired
		}
		return api.StatusRequiresBrowser
	case Cancelled:
		return api.StatusCancelled
	case Sent:
		if r.isClaimOverAt(rec.Sent, at) {
			return api.StatusFailed
		}
		return api.StatusInProgress
	case Challenge:
		switch {
		case rec.isOverAt(at):
			return api.StatusExpired
		case rec.Decoupled:
			return api.StatusDecoupled
		case rec.IsAwaitingSPC(t):
			return api.StatusInProgress
		}
		return api.StatusChallenge
	case Final, Result:
		return api.StatusCompleted
	}
	return api.StatusFailed
}

// AreValuesGone reports whether a transaction ended so long ago that its owner can no longer read it.
func (r *Rows) AreValuesGone(rec *Record) bool {
	return rec.Ended != 0 && r.Now().Sub(time.UnixMilli(rec.Ended)) >= r.Timeouts.Values
}

// CommitTime is what an /auth may take beyond its time limit to commit its outcome. It
// is short enough for the answer to leave within a quarter of a second of the limit.
const CommitTime = 200 * time.Millisecond

// KeepFinal is how long a claim and a final transaction are kept: as long as a result is,
// and at least as long as the id could be tried again with these timeouts.
func (r *Rows) KeepFinal() time.Duration {
	return max(r.Timeouts.Result, 2*(r.Timeouts.Preauth+r.Timeouts.Authentication))
}

// KeepExpired is how long the owner of a challenge that ended without a result hears that it has expired.
const KeepExpired = 24 * time.Hour

// SetExpiry makes the transaction t valid for d from now; rec is about to be sealed into it. The row may stay longer:
// for as long as its id could be tried again. Otherwise a second AReq might leave under the id (I5). The id itself says
// how long that is, since our timeouts may be raised meanwhile. The row of a challenge without a result stays for
// KeepExpired, that of a transaction at its end for as long as its owner can read the outcome.
func (r *Rows) SetExpiry(t *store.Txn, rec *Record, d time.Duration) {
	t.Expires, rec.Until = r.ExpiryIn(d), 0
	stays := time.UnixMilli(cmp.Or(rec.Sent, rec.Made)).Add(transid.Life(t.ID) + 2*transid.MaxSkew).UTC()
	if HasNoResult(t, rec) && stays.Before(t.Expires.Add(KeepExpired)) {
		stays = t.Expires.Add(KeepExpired)
	}
	if told := t.Expires.Add(r.Timeouts.Values); t.State == Waiting && stays.Before(told) {
		stays = told
	}
	if IsAtEnd(t) {
		rec.Ended = r.Now().UnixMilli()
		if told := r.ExpiryIn(r.Timeouts.Values); stays.Before(told) {
			stays = told
		}
	}
	if stays.After(t.Expires) {
		t.Expires, rec.Until = stays, t.Expires.UnixMilli()
	}
}

// IsOver reports whether the transaction of rec is over and its row stays for the id alone.
func (r *Rows) IsOver(rec *Record) bool { return rec.isOverAt(r.Now()) }

func (r *Record) isOverAt(at time.Time) bool { return r.Until != 0 && at.UnixMilli() >= r.Until }

// IsClaimOver reports whether an /auth that claimed its id at sent, in Unix milliseconds,
// perhaps on another node with another clock, can no longer be in flight.
func (r *Rows) IsClaimOver(sent int64) bool { return r.isClaimOverAt(sent, r.Now()) }

func (r *Rows) isClaimOverAt(sent int64, at time.Time) bool {
	return at.Sub(time.UnixMilli(sent)) > r.Timeouts.Authentication+CommitTime+transid.MaxSkew
}

// ExpiryIn returns the time d from now as the store keeps it.
func (r *Rows) ExpiryIn(d time.Duration) time.Time {
	return record.Moment(r.Now().Add(d))
}
