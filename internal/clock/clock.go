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
	far      = time.Second      // a difference that operators hear of, or a step
)

// A Source is a store whose clock can be read.
type Source interface {
	Now(ctx context.Context) (time.Time, error)
}

// A Clock shows the last reading of the store's clock and what has passed on this machine
// since. So it does not matter if the machine's clock is set meanwhile. It does if the
// machine sleeps, for that time is not counted as passed; but afterwards it looks as if
// the machine's clock had been set, and whenever it does, the store's clock is read again.
type Clock struct {
	machine func() time.Time
	passed  func() time.Duration // since New, by a clock that cannot be set
	store   Source
	log     *slog.Logger
	last    atomic.Pointer[reading] // nil: the store has never answered
	stepped chan struct{}           // tells Run that the machine's clock was set; has room for one
	warned  bool                    // that the clocks differ
}

// A reading is one moment by three clocks.
type reading struct {
	store, machine time.Time
	passed         time.Duration
}

// New returns a clock that has looked at the store's once. Until a store can be read
// the clock is the machine's.
func New(ctx context.Context, machine func() time.Time, store Source, log *slog.Logger) *Clock {
	begun := time.Now()
	c := &Clock{
		machine: machine, passed: func() time.Duration { return time.Since(begun) },
		store: store, log: log, stepped: make(chan struct{}, 1),
	}
	for try := 0; try < 3 && !c.look(ctx); try++ {
	}
	return c
}

// Now returns the present.
func (c *Clock) Now() time.Time {
	last := c.last.Load()
	if last == nil {
		return c.machine()
	}
	since := c.passed() - last.passed
	if last.step(c.machine(), since).Abs() > far {
		select {
		case c.stepped <- struct{}{}:
		default:
		}
	}
	return last.store.Add(since)
}

// step is by how much the machine's clock was set since a reading.
func (r *reading) step(machine time.Time, since time.Duration) time.Duration {
	return machine.Round(0).Sub(r.machine) - since
}

// Run looks at the store's clock every 10 s, and when the machine's was set, until ctx
// ends.
func (c *Clock) Run(ctx context.Context) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	stepped := c.stepped
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			stepped = c.stepped
			c.look(ctx)
		case <-stepped:
			if !c.look(ctx) {
				stepped = nil // the step stays until a look succeeds: the ticker tries next
			}
		}
	}
}

// look sets the clock by the store's, and reports whether the store has answered. It read
// its clock some time between the question and the answer: a difference from the last
// reading that is no longer than that is ignored.
func (c *Clock) look(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	before, machine := c.passed(), c.machine().Round(0)
	there, err := c.store.Now(ctx)
	took := c.passed() - before
	if err != nil || took > patience {
		return false
	}
	now := &reading{store: there, machine: machine.Add(took / 2), passed: before + took/2}
	last := c.last.Load()
	if last != nil {
		if off := there.Sub(last.store) - (now.passed - last.passed); off.Abs() <= max(took, time.Millisecond) {
			now.store = last.store.Add(now.passed - last.passed)
		}
	}
	c.last.Store(now)
	ahead := now.machine.Sub(there)
	apart := ahead.Abs() > far
	switch {
	case apart && !c.warned:
		c.log.WarnContext(ctx, "the clock of this machine differs from the store's", "ahead", ahead.Round(time.Millisecond))
	case !apart && c.warned:
		c.log.InfoContext(ctx, "the clock of this machine agrees with the store's again")
	}
	c.warned = apart
	return true
}
