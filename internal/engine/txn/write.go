package txn

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/base/tasks"
	"github.com/openthreeds/threeds/internal/state/store"
)

// A write that fails may have happened anyway: the connection to the database may have broken after the commit left.
// Such a write is uncertain. A caller that is told "no" must not be told "yes" by its next request. So the engine asks
// the store what is true before it answers the caller and, if the store cannot say, again afterwards.
const (
	resolveBeforeAnswer = 2500 * time.Millisecond // for all tries before the answer: a directory server waits 3 s
	resolveAfterAnswer  = 10 * time.Minute        // for all tries after the answer
	firstRetry          = 50 * time.Millisecond   // from one try to the next, at first; then doubled
	maxRetryInterval    = 10 * time.Second        // the longest, after the answer
)

// A Write is one change of one transaction. It can tell whether a row has the change: sealing the same data twice gives
// different bytes, so the bytes of its own tries are unique.
type Write struct {
	*Rows
	was   store.Txn // what the next try begins with: the row as it was read before, or an id alone
	do    func(*store.Txn) error
	tried [][]byte // the data of each try that may have been written
}

// NewWrite prepares a change of a transaction; was and do are as for Update of a
// [store.Store]. Do ends by sealing the transaction.
func (r *Rows) NewWrite(was store.Txn, do func(*store.Txn) error) *Write {
	return &Write{Rows: r, was: was, do: do}
}

// Run makes the change. It tries again, for resolveBeforeAnswer, until it is known whether
// the change was made; sure reports that. If sure, a nil error says that it was.
func (w *Write) Run(ctx context.Context) (sure bool, err error) {
	retrying, cancel := context.WithTimeout(ctx, resolveBeforeAnswer)
	defer cancel()
	sure, err = w.try(ctx)
	for wait := firstRetry; !sure && tasks.Sleep(retrying, wait); wait *= 2 {
		sure, err = w.try(retrying)
	}
	return sure, err
}

// try makes the change unless an earlier try has. An earlier try may still be under way
// in the database, but at most one of them succeeds: all begin with the same version of
// the row.
func (w *Write) try(ctx context.Context) (sure bool, err error) {
	var refused error
	before := len(w.tried)
	err = w.Store.Update(ctx, w.was, func(t *store.Txn) error {
		if refused = w.doOnce(t); refused == nil {
			w.tried = append(w.tried, t.Data)
		}
		return refused
	})
	w.was = store.Txn{ID: w.was.ID}
	switch {
	case err == nil, refused != nil, errors.Is(err, store.ErrNotFound):
		return true, err
	case errors.Is(err, store.ErrUndone):
		w.tried = w.tried[:before]
	}
	return len(w.tried) == 0, err // if nothing was given to the store to write, nothing was written
}

// doOnce makes the change in t, unless t has it already. In that case t is written again as it is. The row can be read,
// but it may still be lost with the database server that returned it, until a later write has succeeded.
func (w *Write) doOnce(t *store.Txn) error {
	if w.isDone(t) {
		return nil
	}
	return w.do(t)
}

// isDone reports whether t is as the change has left it.
func (w *Write) isDone(t *store.Txn) bool {
	return slices.ContainsFunc(w.tried, func(data []byte) bool { return bytes.Equal(data, t.Data) })
}

// ResolveLater finds out, in a task of its own, what became of a change that run was not sure of, and whose caller got
// the answer that it failed. If it was made after all, mark notes that in the record. If not, the row is written as it
// is, which gives it a new version, so that a try still on its way to the database fails.
func (w *Write) ResolveLater(mark func(*Record)) {
	w.TaskGroup().Start(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, resolveAfterAnswer)
		defer cancel()
		for wait := firstRetry; tasks.Sleep(ctx, wait); wait = min(2*wait, maxRetryInterval) {
			done, err := w.markIfDone(ctx, mark)
			if err == nil || errors.Is(err, store.ErrNotFound) {
				w.Log.Warn("outcome of a write that was answered for as failed", "threeDSServerTransID", w.was.ID, "written", done)
				return
			}
		}
		w.Log.Error("outcome of a write is not known", "threeDSServerTransID", w.was.ID)
	})
}

// markIfDone is one try of ResolveLater. It reports whether the change had been made.
func (w *Write) markIfDone(ctx context.Context, mark func(*Record)) (done bool, err error) {
	err = w.Store.Update(ctx, w.was, func(t *store.Txn) error {
		if done = w.isDone(t); !done {
			return nil
		}
		rec, err := w.Unseal(t)
		if err != nil {
			return err
		}
		mark(rec)
		return w.Seal(t, rec)
	})
	return done, err
}
