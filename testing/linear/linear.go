// Package linear checks whether a [store.Store] is linearizable: whether the answers that
// many callers get at once, through several nodes, while connections break and processes
// die, are answers that one caller could have got, who makes the same calls one after the
// other, and a call that began after another one had ended comes after it.
//
// [Run] makes random calls on a [Bed], lets its faults happen in the middle of them, and
// checks all answers against models of the contract. The models are in model.go, one for
// each thing that does not depend on others: a transaction, an API key, a lease with what
// is written under it. Each name has a history of its own, which keeps histories short.
//
// A write of unknown outcome may have happened, at any time until the end, or not at all.
// A read without an answer is not recorded.
package linear

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// A Kind is a method of the store.
type Kind string

// The methods that are called.
const (
	Create Kind = "Create"
	Get    Kind = "Get"
	Update Kind = "Update"
	Sweep  Kind = "Sweep"

	PutKey    Kind = "PutKey"
	Key       Kind = "Key"
	RevokeKey Kind = "RevokeKey"

	Acquire      Kind = "Acquire"
	Release      Kind = "Release"
	PutState     Kind = "PutState"
	State        Kind = "State"
	PutSnapshot  Kind = "PutSnapshot"
	Snapshots    Kind = "Snapshots"
	OpenSnapshot Kind = "OpenSnapshot"
)

// reads reports whether the method changes nothing.
func (k Kind) reads() bool {
	switch k {
	case Get, Key, State, Snapshots, OpenSnapshot:
		return true
	}
	return false
}

// A Call is a call of a store as data, so that another process can make it. Times
// are milliseconds since 1970.
type Call struct {
	Kind  Kind
	Name  string // of the transaction, the key, or the lease, whose state and scheme have the same name
	Value string // what is written, into every field that takes a text; each call has its own

	Until  int64 // Create, Update: when the transaction expires. Sweep: the time to sweep for
	Refuse bool  // Update: the change function returns an error
	Read   bool  // Update: passes what Get returns, not just the id
	Lazy   bool  // Update: the change is lazy

	Holder     string // of the lease
	Token      int64  // of the lease
	TTL        int64  // Acquire
	Generation int64  // of the snapshot

	Cancel time.Duration // when the context is cancelled; 0: never; negative: before the call
}

// An Outcome is how a call ended.
type Outcome string

// Outcomes: success, the errors that the contract names, and others.
const (
	Done     Outcome = "done"
	Exists   Outcome = "exists"
	NotFound Outcome = "not found"
	Held     Outcome = "held"
	Fenced   Outcome = "fenced"
	Refused  Outcome = "refused" // by the change function

	Cancelled Outcome = "cancelled" // and has certainly not happened
	Unknown   Outcome = "unknown"   // has happened, or has not, or will
)

// An Answer is what a call returned.
type Answer struct {
	Outcome Outcome
	Seen    bool   // Update: the change function was called
	Lost    bool   // the process has ended, so Seen is not known
	Value   string // what a read found, or what the change function of an update got last
	Until   int64  // Acquire: when the lease expires; else when the transaction expires that was found
	Token   int64  // Acquire: of the lease
	Why     string // with Unknown: the error
}

var errRefused = errors.New("refused")

// On makes the call.
func (c Call) On(ctx context.Context, s store.Store) Answer {
	if c.Cancel != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		if c.Cancel < 0 {
			cancel()
		}
		defer time.AfterFunc(c.Cancel, cancel).Stop()
	}
	var a Answer
	err := c.call(ctx, s, &a)
	switch {
	case err == nil:
		a.Outcome = Done
	case errors.Is(err, store.ErrExists):
		a.Outcome = Exists
	case errors.Is(err, store.ErrNotFound):
		a.Outcome = NotFound
	case errors.Is(err, store.ErrHeld):
		a.Outcome = Held
	case errors.Is(err, store.ErrFenced):
		a.Outcome = Fenced
	case errors.Is(err, errRefused):
		a.Outcome = Refused
	case errors.Is(err, context.Canceled), errors.Is(err, store.ErrUndone) && c.Kind != Sweep && c.Kind != PutSnapshot:
		a.Outcome = Cancelled
	default:
		a.Outcome, a.Why = Unknown, err.Error()
	}
	return a
}

func (c Call) call(ctx context.Context, s store.Store, a *Answer) error {
	lease := store.Lease{Name: c.Name, Holder: c.Holder, Token: c.Token}
	switch c.Kind {
	case Create:
		return s.Create(ctx, c.txn())
	case Get:
		t, err := s.Get(ctx, c.Name)
		a.saw(t)
		return err
	case Update:
		was := store.Txn{ID: c.Name}
		if c.Read {
			var err error
			if was, err = s.Get(ctx, c.Name); err != nil {
				return err
			}
		}
		return s.Update(ctx, was, func(t *store.Txn) error {
			a.Seen = true
			a.saw(*t)
			if c.Refuse {
				return errRefused
			}
			*t = c.txn()
			t.Lazy = c.Lazy
			return nil
		})
	case Sweep:
		_, err := s.Sweep(ctx, time.UnixMilli(c.Until))
		return err
	case PutKey:
		return s.PutKey(ctx, store.Key{Hash: []byte(c.Name), Merchant: c.Value, Created: time.UnixMilli(0), Seal: []byte(c.Value)})
	case Key:
		k, err := s.Key(ctx, []byte(c.Name))
		a.Value = k.Merchant
		if string(k.Seal) != k.Merchant {
			a.Value = fmt.Sprintf("half of %s, %s", k.Merchant, k.Seal)
		}
		return err
	case RevokeKey:
		return s.RevokeKey(ctx, []byte(c.Name))
	case Acquire:
		l, err := s.Acquire(ctx, c.Name, c.Holder, time.Duration(c.TTL)*time.Millisecond)
		a.Token, a.Until = l.Token, l.Expires.UnixMilli()
		return err
	case Release:
		return s.Release(ctx, lease)
	case PutState:
		return s.PutState(ctx, c.Name, []byte(c.Value), lease)
	case State:
		value, err := s.State(ctx, c.Name)
		a.Value = string(value)
		return err
	case PutSnapshot:
		snapshot := store.Snapshot{Scheme: c.Name, Generation: c.Generation, Created: time.UnixMilli(0), Note: []byte(c.Value)}
		return s.PutSnapshot(ctx, snapshot, lease, strings.NewReader(c.Value), keep)
	case Snapshots:
		all, err := s.Snapshots(ctx, c.Name)
		for _, g := range all {
			a.Value += generation(g.Generation, string(g.Note))
		}
		return err
	case OpenSnapshot:
		content, err := s.OpenSnapshot(ctx, c.Name, c.Generation)
		if err != nil {
			return err
		}
		var all bytes.Buffer
		_, err = io.Copy(&all, content)
		a.Value = generation(c.Generation, all.String())
		return errors.Join(err, content.Close())
	}
	return fmt.Errorf("no such call: %s", c.Kind)
}

// keep is how many generations of a snapshot are kept.
const keep = 2

// generation is the text that stands for a snapshot in answers and models.
func generation(n int64, content string) string { return fmt.Sprintf("%d=%s ", n, content) }

// txn is the transaction that a call writes.
func (c Call) txn() store.Txn {
	return store.Txn{
		ID: c.Name, Owner: c.Value, Scheme: c.Value, State: store.State(c.Value), Data: []byte(c.Value),
		Expires: time.UnixMilli(c.Until),
	}
}

// saw notes a transaction. If its fields are not from one write, the value is one that no
// write had.
func (a *Answer) saw(t store.Txn) {
	a.Value, a.Until = t.Owner, t.Expires.UnixMilli()
	if t.Scheme != t.Owner || string(t.State) != t.Owner || string(t.Data) != t.Owner {
		a.Value = fmt.Sprintf("half of %s, %s, %s, %s", t.Owner, t.Scheme, t.State, t.Data)
	}
}

func (c Call) String() string {
	text := fmt.Sprintf("%s %s", c.Kind, c.Value)
	switch c.Kind {
	case Create, Update, Sweep:
		text += fmt.Sprintf(" until %d", c.Until)
	case Acquire:
		text += fmt.Sprintf("by %s for %d", c.Holder, c.TTL)
	case Release, PutState:
		text += fmt.Sprintf(" under %d of %s", c.Token, c.Holder)
	case PutSnapshot, OpenSnapshot:
		text += fmt.Sprintf(" %d under %d of %s", c.Generation, c.Token, c.Holder)
	}
	return text
}

func (a Answer) String() string {
	text := string(a.Outcome)
	if a.Value != "" {
		text += " " + a.Value
	}
	if a.Token != 0 {
		text += fmt.Sprintf(" %d", a.Token)
	}
	if a.Until > 0 {
		text += fmt.Sprintf(" until %d", a.Until)
	}
	return text + a.Why
}
