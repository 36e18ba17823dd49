package server

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// A writeWatch remembers that a write to the store has failed, until one succeeds. Its zero value is ready to use, and
// safe for concurrent use.
type writeWatch struct{ failure atomic.Pointer[writeFailure] }

// A writeFailure is a write that has failed, and since when all have.
type writeFailure struct {
	text  string
	since time.Time // on the clock of this machine
}

// note takes the outcome of a write. An error that says what the store holds, or that the caller has gone, says nothing
// of whether the store can write.
func (w *writeWatch) note(err error) {
	switch {
	case err == nil:
		w.failure.Store(nil)
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrExists), errors.Is(err, context.Canceled):
	default:
		failed := &writeFailure{rootCause(err).Error(), time.Now()}
		if before := w.failure.Load(); before != nil {
			failed.since = before.since
		}
		w.failure.Store(failed)
	}
}

// failingFor returns for how long writes have failed; 0 means that they succeed.
func (w *writeWatch) failingFor() time.Duration {
	if failure := w.failure.Load(); failure != nil {
		return max(time.Since(failure.since), 1)
	}
	return 0
}

// problem returns what /readyz says while writes fail, and "" while they succeed.
func (w *writeWatch) problem() string {
	if failure := w.failure.Load(); failure != nil {
		return "writes fail: " + failure.text
	}
	return ""
}

// rootCause returns the innermost error of a chain; of an error that wraps several it follows the first.
func rootCause(err error) error {
	for {
		var inner error
		switch wrapper := err.(type) {
		case interface{ Unwrap() error }:
			inner = wrapper.Unwrap()
		case interface{ Unwrap() []error }:
			if all := wrapper.Unwrap(); len(all) > 0 {
				inner = all[0]
			}
		}
		if inner == nil {
			return err
		}
		err = inner
	}
}

// A watchedStore shows a writeWatch the writes that requests need, and the sign of life of the node, which comes every
// ten seconds also when there are no requests.
type watchedStore struct {
	store.Store
	watch *writeWatch
}

func (s watchedStore) Create(ctx context.Context, t store.Txn) error {
	err := s.Store.Create(ctx, t)
	s.watch.note(err)
	return err
}

func (s watchedStore) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	var refused error
	err := s.Store.Update(ctx, was, func(t *store.Txn) error {
		refused = change(t)
		return refused
	})
	if refused == nil {
		s.watch.note(err)
	}
	return err
}

func (s watchedStore) PutNode(ctx context.Context, n store.Node) error {
	err := s.Store.PutNode(ctx, n)
	s.watch.note(err)
	return err
}
