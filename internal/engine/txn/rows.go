// Package txn keeps transactions. It says which states there are, what the sealed row of a transaction holds, how long
// a row stays, and what to do when it is not known whether a write has happened. Use [Rows] to read and to change rows.
package txn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/openthreeds/threeds/internal/base/tasks"
	"github.com/openthreeds/threeds/internal/state/record"
	"github.com/openthreeds/threeds/internal/state/store"
)

// Rows are the transactions in a store. Set all fields but the optional ones before use; they are then safe for
// concurrent calls.
type Rows struct {
	Store    Store
	Sealer   Sealer
	Timeouts Timeouts
	Log      *slog.Logger
	Now      func() time.Time
	// Tasks runs what is left to do for requests that have been answered. Engines that
	// follow each other in one process share one group, and the process ends it; nil means
	// that the rows have a group of their own.
	Tasks *tasks.Group
	// Acknowledged are the results that this process has acknowledged. Nil means that the rows have a
	// memory of their own.
	Acknowledged *Acknowledged
	// PutBack is called when the row of a transaction is older than its acknowledged result. Nil means that this is not
	// counted.
	PutBack func()
	// StoreFailures limits lines of the log; nil is no limit. Engines that follow each other in one process share it.
	StoreFailures record.LogLimit

	ownAcked Acknowledged // used when Acknowledged is nil
	changes  changeNotifier
	ownTasks tasks.Group // used when Tasks is nil
}

// A Store is what the engine needs of a store; see package store for the contract.
type Store interface {
	Create(ctx context.Context, t store.Txn) error
	Get(ctx context.Context, id string) (store.Txn, error)
	Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error
}

// A Sealer has the keys of what the store keeps.
type Sealer interface {
	record.Sealer
	// Digest returns a keyed digest of data.
	Digest(data string) []byte
	// IsDigest reports whether digest is that of data, also if an earlier key has made it.
	IsDigest(digest []byte, data string) bool
}

// Timeouts are the engine's limits; all of them are set.
type Timeouts struct {
	Authentication  time.Duration // an /auth, everything included
	Preauth         time.Duration // age at which an id can no longer be used
	Challenge       time.Duration // how long a challenge waits for its RReq
	Result          time.Duration // how long a result is kept
	DecoupledResult time.Duration // the same after a decoupled authentication
	Browser         time.Duration // how long an authentication waits for its browser
	Values          time.Duration // how long the owner can read an authentication that is over
}

// TaskGroup returns Tasks, or the group that the rows have of their own.
func (r *Rows) TaskGroup() *tasks.Group { return cmp.Or(r.Tasks, &r.ownTasks) }

// LogStoreFailure logs that the store did not do its part in a request, unless there are many such lines.
func (r *Rows) LogStoreFailure(ctx context.Context, what string, err error, attrs ...any) {
	record.LogFailure(ctx, r.Log, r.StoreFailures, r.Now(), what, err, attrs...)
}

// StoreUnreachable logs that the store did not do its part for a transaction, and returns ErrStoreUnreachable.
func (r *Rows) StoreUnreachable(ctx context.Context, what string, err error, id string) error {
	r.LogStoreFailure(ctx, what, err, "threeDSServerTransID", id)
	return ErrStoreUnreachable
}

// Seal puts what, a *Record, sequence or FirstAuthentication, into t; see [record.Seal].
func (r *Rows) Seal(t *store.Txn, what any) error {
	if rec, ok := what.(*Record); ok {
		t.Plain = rec.clone()
	}
	return record.Seal(r.Sealer, t, what)
}

// Open reads what Seal wrote.
func (r *Rows) Open(t *store.Txn, into any) error { return record.Open(r.Sealer, t, into) }

// Unseal reads the record of a transaction.
func (r *Rows) Unseal(t *store.Txn) (*Record, error) {
	rec := new(Record)
	if err := r.Open(t, rec); err != nil {
		return nil, err
	}
	return rec, nil
}

// Sealed returns the record of a transaction to those who only read it: what Seal was given, if the transaction is
// on its way to the store.
func (r *Rows) Sealed(t *store.Txn) (*Record, error) {
	if rec, ok := t.Plain.(*Record); ok {
		return rec, nil
	}
	return r.Unseal(t)
}

// OnRecord returns the change of a row that change makes, which gets its record and seals it.
func (r *Rows) OnRecord(change func(t *store.Txn, rec *Record) error) func(*store.Txn) error {
	return func(t *store.Txn) error {
		rec, err := r.Unseal(t)
		if err != nil {
			return err
		}
		return change(t, rec)
	}
}

// ErrStoreUnreachable says that the store could not be asked.
var ErrStoreUnreachable = errors.New("auth: the store could not be reached")

// ErrSuperseded says that what is to be stored was read before the second AReq of SPC left.
var ErrSuperseded = fmt.Errorf("%w: the second AReq has left", ErrArrow)

// CheckLeg returns ErrSuperseded if rec, which is about to be stored in t, was read before the second AReq of SPC left.
func (r *Rows) CheckLeg(t *store.Txn, rec *Record) error {
	if rec.Page == nil {
		return nil
	}
	now, err := r.Unseal(t)
	if err != nil {
		return err
	}
	if now.CurrentID(t.ID) != rec.CurrentID(t.ID) {
		return ErrSuperseded
	}
	return nil
}

// FollowSecond returns the row of the authentication that a second AReq belongs to.
func (r *Rows) FollowSecond(ctx context.Context, row store.Txn) (store.Txn, error) {
	var second SecondRecord
	if err := r.Open(&row, &second); err != nil {
		return store.Txn{}, err
	}
	t, err := r.Store.Get(ctx, second.First)
	if err == nil && (t.Owner != row.Owner || t.Scheme != row.Scheme) {
		err = store.ErrNotFound
	}
	return t, err
}
