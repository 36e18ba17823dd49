package auth

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/internal/tasks"
)

// A write that fails may have happened all the same: the connection to the database may
// have broken after the commit left. A caller that is told "no" must not be told "yes" by
// its next request, so the store is asked what is true before the caller is answered,
// and if it does not say, afterwards.
const (
	doubtTime  = 2500 * time.Millisecond // for all tries before the answer: a DS waits 3 s
	settleTime = 10 * time.Minute        // for all tries after it
	firstAsk   = 50 * time.Millisecond   // from one try to the next, at first; then doubled
	rarestAsk  = 10 * time.Second        // the longest, after the answer
)

// A change is one change of one transaction. It can tell whether a row has it: sealing
// the same data twice gives different bytes, so those of its own tries are unique.
type change struct {
	*Engine
	was  store.Txn // what the next try begins with: as read before, or an id alone
	do   func(*store.Txn) error
	made [][]byte // the data of each try that may have been written
}

// change prepares a change of a transaction; was and do are as for Update of a [store.Store].
// Do ends by sealing the transaction.
func (e *Engine) change(was store.Txn, do func(*store.Txn) error) *change {
	return &change{Engine: e, was: was, do: do}
}

// run makes the change. It tries again, for doubtTime, until it is known whether the
// change was made; sure reports that. If sure, a nil error says that it was.
func (c *change) run(ctx context.Context) (sure bool, err error) {
	asking, cancel := context.WithTimeout(ctx, doubtTime)
	defer cancel()
	sure, err = c.try(ctx)
	for wait := firstAsk; !sure && tasks.Sleep(asking, wait); wait *= 2 {
		sure, err = c.try(asking)
	}
	return sure, err
}

// try makes the change unless an earlier try has. An earlier try may still be under way
// in the database, but at most one of them succeeds: all begin with the same version of
// the row.
func (c *change) try(ctx context.Context) (sure bool, err error) {
	var refused error
	before := len(c.made)
	err = c.Store.Update(ctx, c.was, func(t *store.Txn) error {
		if refused = c.doOnce(t); refused == nil {
			c.made = append(c.made, t.Data)
		}
		return refused
	})
	c.was = store.Txn{ID: c.was.ID}
	switch {
	case err == nil, refused != nil, errors.Is(err, store.ErrNotFound):
		return true, err
	case errors.Is(err, store.ErrUndone):
		c.made = c.made[:before]
	}
	return len(c.made) == 0, err // if nothing was given to the store to write, nothing was written
}

// doOnce makes the change in t, unless t has it already. Then t is written again as it
// is: the row can be read, but may yet be lost with the database server that showed it,
// until a later write has succeeded.
func (c *change) doOnce(t *store.Txn) error {
	if c.isIn(t) {
		return nil
	}
	return c.do(t)
}

// isIn reports whether t is as the change has left it.
func (c *change) isIn(t *store.Txn) bool {
	return slices.ContainsFunc(c.made, func(data []byte) bool { return bytes.Equal(data, t.Data) })
}

// settle finds out, in a task of its own, what became of a change that run was not sure of,
// and that the caller was told has failed. If it was made after all, mark notes so in the
// row. If not, the row is written as it is, which gives it a new version, so that a try
// still on its way to the database fails.
func (c *change) settle(mark func(*record)) {
	c.taskGroup().Start(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, settleTime)
		defer cancel()
		for wait := firstAsk; tasks.Sleep(ctx, wait); wait = min(2*wait, rarestAsk) {
			was, err := c.note(ctx, mark)
			if err == nil || errors.Is(err, store.ErrNotFound) {
				c.Log.Warn("outcome of a write that was answered for as failed", "threeDSServerTransID", c.was.ID, "written", was)
				return
			}
		}
		c.Log.Error("outcome of a write is not known", "threeDSServerTransID", c.was.ID)
	})
}

// note is one try of settle. Was reports whether the change had been made.
func (c *change) note(ctx context.Context, mark func(*record)) (was bool, err error) {
	err = c.Store.Update(ctx, c.was, func(t *store.Txn) error {
		if was = c.isIn(t); !was {
			return nil
		}
		rec, err := c.unseal(t)
		if err != nil {
			return err
		}
		mark(rec)
		return c.seal(t, rec)
	})
	return was, err
}
