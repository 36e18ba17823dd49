// Package clock gives nodes that share a store one time: the store's, which decides
// what has expired. What they stamp, ids and times to live, is then the same on all,
// however far the clocks of their machines are off.
package clock

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	every    = 10 * time.Second // looks at the store's clock
	patience = time.Second      // for one look
	far      = time.Second      // a difference that operators hear of
)

// A Source is a store whose clock can be read.
type Source interface {
	Now(ctx context.Context) (time.Time, error)
}

// A Clock is that of this machine, put right by a store's. Its times differ from each
// other by what the machine says has passed, but for the moments at which it is put
// right.
type Clock struct {
	machine func() time.Time
	store   Source
	log     *slog.Logger
	ahead   atomic.Int64 // nanoseconds of the store's
	warned  bool         // of a difference
}

// New returns a clock that has looked at the store's once. A store that cannot be
// read leaves it as the machine's is.
func New(ctx context.Context, machine func() time.Time, store Source, log *slog.Logger) *Clock {
	c := &Clock{machine: machine, store: store, log: log}
	for try := 0; try < 3 && !c.look(ctx); try++ {
	}
	return c
}

// Now returns the present.
func (c *Clock) Now() time.Time { return c.machine().Add(time.Duration(c.ahead.Load())) }

// Run looks at the store's clock every 10 s until ctx ends; it returns nil then.
func (c *Clock) Run(ctx context.Context) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			c.look(ctx)
		}
	}
}

// look puts the clock right, and reports whether the store has answered. It was asked
// somewhere between before and after: a difference that this explains is none.
func (c *Clock) look(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	before := c.machine()
	there, err := c.store.Now(ctx)
	took := c.machine().Sub(before)
	if err != nil || took > patience {
		return false
	}
	ahead := there.Sub(before.Add(took / 2))
	if off := ahead - time.Duration(c.ahead.Load()); off.Abs() > max(took, time.Millisecond) {
		c.ahead.Store(int64(ahead))
	}
	switch apart := ahead.Abs() > far; {
	case apart && !c.warned:
		c.log.WarnContext(ctx, "the clock of this machine differs from the store's", "ahead", (-ahead).Round(time.Millisecond))
	case !apart && c.warned:
		c.log.InfoContext(ctx, "the clock of this machine agrees with the store's again")
	}
	c.warned = ahead.Abs() > far
	return true
}
