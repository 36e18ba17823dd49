package store

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const (
	// between two readings of the store's clock
	clockInterval = 10 * time.Second
	clockTimeout  = time.Second // for one reading
	maxClockSkew  = time.Second // a larger difference is logged, and a larger step of the machine's clock causes a reading
)

// ClockSource is a store whose clock can be read.
type ClockSource interface {
	Now(ctx context.Context) (time.Time, error)
}

// Clock gives nodes that share a store one time: the store's, which decides what has expired. The times in their ids
// and expiries then agree, however far the clocks of their machines are off. Start [Clock.Run].
//
// It shows the last reading of the store's clock plus the time that has passed on this machine since. So it does not
// matter if the machine's clock is set meanwhile. Time that the machine sleeps does not count as passed. But afterwards
// it looks as if the machine's clock had been set, so the store's clock is read again.
type Clock struct {
	machine func() time.Time
	passed  func() time.Duration // since New, by a clock that cannot be set
	store   ClockSource
	log     *slog.Logger
	last    atomic.Pointer[reading] // nil means that the store has not answered yet
	stepped chan struct{}           // tells Run that the machine's clock was set; has a buffer of 1
	warned  bool                    // the log has a warning that the clocks differ
}

// reading is one moment by three clocks.
type reading struct {
	store, machine time.Time
	passed         time.Duration
}

// NewClock returns a clock that has read the store's. Until the store can be read the clock is the machine's.
func NewClock(ctx context.Context, machine func() time.Time, store ClockSource, log *slog.Logger) *Clock {
	begun := time.Now()
	c := &Clock{
		machine: machine, passed: func() time.Duration { return time.Since(begun) },
		store: store, log: log, stepped: make(chan struct{}, 1),
	}
	for try := 0; try < 3 && !c.readStore(ctx); try++ {
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
	if last.step(c.machine(), since).Abs() > maxClockSkew {
		select {
		case c.stepped <- struct{}{}:
		default:
		}
	}
	return last.store.Add(since)
}

// step returns by how much the machine's clock was set since a reading.
func (r *reading) step(machine time.Time, since time.Duration) time.Duration {
	return machine.Round(0).Sub(r.machine) - since
}

// Run reads the store's clock every clockInterval, and when the machine's clock was set, until ctx ends.
func (c *Clock) Run(ctx context.Context) {
	ticker := time.NewTicker(clockInterval)
	defer ticker.Stop()
	stepped := c.stepped
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			stepped = c.stepped
			c.readStore(ctx)
		case <-stepped:
			if !c.readStore(ctx) {
				stepped = nil // the step stays visible until a reading succeeds: the ticker causes the next one
			}
		}
	}
}

// readStore sets the clock by the store's, and reports whether the store has answered. The store read its clock at some
// time between request and answer, so a difference from the last reading that is no longer than this span is ignored.
func (c *Clock) readStore(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, clockTimeout)
	defer cancel()
	before, machine := c.passed(), c.machine().Round(0)
	there, err := c.store.Now(ctx)
	took := c.passed() - before
	if err != nil || took > clockTimeout {
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
	apart := ahead.Abs() > maxClockSkew
	switch {
	case apart && !c.warned:
		c.log.WarnContext(ctx, "the clock of this machine differs from the store's", "ahead", ahead.Round(time.Millisecond))
	case !apart && c.warned:
		c.log.InfoContext(ctx, "the clock of this machine agrees with the store's again")
	}
	c.warned = apart
	return true
}
