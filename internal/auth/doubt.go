package auth

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/store"
)

// A write that fails may have happened all the same: the connection broke while the
// commit was on its way. Who is told "no" then must not be told "yes" by the next
// request, so the store is asked what is true before anybody is answered, and if it
// does not say, afterwards.
const (
	doubtTime  = 2500 * time.Millisecond // from the first try to the last before the answer: a DS waits 3 s
	settleTime = 10 * time.Minute        // how long it is asked for after the answer
	firstAsk   = 50 * time.Millisecond
	rarestAsk  = 10 * time.Second
)

// A change is one change of one transaction. It knows its own mark: what is sealed
// is never sealed alike again.
type change struct {
	*Engine
	was  store.Txn // what the next try begins with: as read before, or an id alone
	do   func(*store.Txn) error
	made [][]byte // the data of each try that may have been written
}

// change prepares a change of a transaction, as Update makes it. do may be called more
// than once, as that of a store, and seals what it changes.
func (e *Engine) change(was store.Txn, do func(*store.Txn) error) *change {
	return &change{Engine: e, was: was, do: do}
}

// run makes the change. Sure: it is known whether it was made. While it is not, it is
// tried again for a while.
func (c *change) run(ctx context.Context) (sure bool, err error) {
	asking, cancel := context.WithTimeout(ctx, doubtTime)
	defer cancel()
	sure, err = c.try(ctx)
	for wait := firstAsk; !sure && pause(asking, wait); wait *= 2 {
		sure, err = c.try(asking)
	}
	return sure, err
}

// try makes the change unless an earlier try has. A store may refuse what another try
// is still at, but never makes both, for they began at the same version of the row.
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
	return len(c.made) == 0, err // nothing was ever given to it to write
}

// doOnce leaves a row as it is in which the change is made: it can be read, and may be
// lost all the same with the server that has it, until a write after it has succeeded.
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

// settle finds out in the background what became of a change of which that could not
// be known when it was answered for as not made. If it was, mark notes so in the row.
// If not, the row is written as it is, so that what is still on its way to the database
// finds another version there.
func (c *change) settle(mark func(*record)) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), settleTime)
		defer cancel()
		for wait := firstAsk; pause(ctx, wait); wait = min(2*wait, rarestAsk) {
			was, err := c.note(ctx, mark)
			if err == nil || errors.Is(err, store.ErrNotFound) {
				c.Log.Warn("outcome of a write that was answered for as failed", "threeDSServerTransID", c.was.ID, "written", was)
				return
			}
		}
		c.Log.Error("outcome of a write is not known", "threeDSServerTransID", c.was.ID)
	}()
}

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

// pause waits, and reports whether it was to the end.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
