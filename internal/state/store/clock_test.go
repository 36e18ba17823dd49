package store

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// source is a store whose clock is ahead, and whose answers take time.
type source struct {
	ahead, there, back atomic.Int64
	down               atomic.Bool
}

func (s *source) Now(ctx context.Context) (time.Time, error) {
	time.Sleep(time.Duration(s.there.Load()))
	now := time.Now().Add(time.Duration(s.ahead.Load()))
	time.Sleep(time.Duration(s.back.Load()))
	if s.down.Load() {
		return time.Time{}, errors.New("store is down")
	}
	return now, nil
}

func TestClockFollowsTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := new(source)
		s.ahead.Store(int64(-4 * time.Second))
		c := NewClock(t.Context(), time.Now, s, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.Run(ctx)
		}()
		for _, step := range []struct {
			name               string
			ahead, there, back time.Duration
			down               bool
			want               time.Duration // ahead, as the clock shows afterwards
		}{
			{name: "as at the start", ahead: -4 * time.Second, want: -4 * time.Second},
			{name: "the way explains it", ahead: -4*time.Second + 40*time.Millisecond, there: 50 * time.Millisecond,
				back: 50 * time.Millisecond, want: -4 * time.Second},
			{name: "the way is the same both ways", ahead: time.Minute, there: 200 * time.Millisecond, back: 200 * time.Millisecond, want: time.Minute},
			{name: "a store counts in milliseconds", ahead: time.Minute - 900*time.Microsecond, want: time.Minute},
			{name: "no store", ahead: time.Hour, down: true, want: time.Minute},
			{name: "a store that hangs", ahead: time.Hour, back: 2 * time.Second, want: time.Minute},
			{name: "right again", ahead: 0, want: 0},
			{name: "still right, a long way off", ahead: 0, there: 450 * time.Millisecond, back: 450 * time.Millisecond, want: 0},
		} {
			s.ahead.Store(int64(step.ahead))
			s.there.Store(int64(step.there))
			s.back.Store(int64(step.back))
			s.down.Store(step.down)
			time.Sleep(clockInterval + 3*time.Second)
			synctest.Wait()
			if got := time.Until(c.Now()); got != step.want {
				t.Errorf("%s: %v ahead, want %v", step.name, got, step.want)
			}
			s.back.Store(0)
			s.there.Store(0)
			s.down.Store(true)
			time.Sleep(clockInterval - 3*time.Second)
		}
		stop()
		<-ended
		if n := strings.Count(log.String(), "\n"); n != 2 {
			t.Errorf("%d lines in the log, want one when it is apart and one when it is not any more:\n%s", n, &log)
		}
	})
}

// failing is a source that fails so many times before it answers.
type failing struct {
	ClockSource
	times int
}

func (f *failing) Now(ctx context.Context) (time.Time, error) {
	if f.times--; f.times >= 0 {
		return time.Time{}, errors.New("store is down")
	}
	return f.ClockSource.Now(ctx)
}

// TestClockStartsWithTheStoresTime: the first time is the store's if the store answers at all, else the machine's. If
// the clocks agree, nothing is logged.
func TestClockStartsWithTheStoresTime(t *testing.T) {
	for times, want := range []time.Duration{time.Second, time.Second, time.Second, 0, 0} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			s := new(source)
			s.ahead.Store(int64(time.Second))
			f := &failing{s, times}
			c := NewClock(t.Context(), time.Now, f, slog.New(slog.NewTextHandler(&log, nil)))
			if got := time.Until(c.Now()); got != want || log.Len() > 0 {
				t.Errorf("no answer %d times: %v ahead, want %v; in the log: %s", times, got, want, &log)
			}
			if asked := times - f.times; asked != min(times+1, 3) {
				t.Errorf("no answer %d times: asked %d times", times, asked)
			}
		})
	}
}

// TestClockIgnoresStepsOfTheMachine sets the clock of the machine. The times of nodes go on as if nothing had happened.
// The store's clock is read once, for a machine that has slept looks the same.
func TestClockIgnoresStepsOfTheMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var set, slept atomic.Int64
		var looks atomic.Int64
		s := new(source)
		c := NewClock(t.Context(), func() time.Time { return time.Now().Add(time.Duration(set.Load())) }, counted{s, &looks}, slog.New(slog.DiscardHandler))
		passed := c.passed
		c.passed = func() time.Duration { return passed() - time.Duration(slept.Load()) }
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.Run(ctx)
		}()
		synctest.Wait()
		right := func(name string) {
			t.Helper()
			if off := time.Until(c.Now()); off != 0 {
				t.Errorf("%s: %v ahead", name, off)
			}
		}
		for range 8 { // seconds in which nothing happens
			before := looks.Load()
			time.Sleep(time.Second)
			right("no step")
			if synctest.Wait(); looks.Load() != before {
				t.Error("the store was read though nobody has set the clock")
			}
		}
		for _, step := range []time.Duration{time.Hour, -2 * time.Hour, 1001 * time.Millisecond} {
			before := looks.Load()
			set.Add(int64(step))
			for range 3 {
				right(step.String())
				synctest.Wait()
			}
			if n := looks.Load() - before; n != 1 {
				t.Errorf("after a step of %v the store was read %d times, want once", step, n)
			}
		}
		slept.Add(int64(time.Minute)) // the present is what the store says
		c.Now()
		synctest.Wait()
		right("asleep")

		before := looks.Load()
		s.down.Store(true)
		set.Add(int64(time.Hour))
		for range 3 {
			right("no store")
			synctest.Wait()
		}
		if n := looks.Load() - before; n != 1 {
			t.Errorf("a store that is down was read %d times between two looks, want once", n)
		}
		s.down.Store(false)
		time.Sleep(clockInterval)
		synctest.Wait()
		right("store is back")
		before = looks.Load()
		set.Add(int64(time.Hour))
		right("and so are steps")
		if synctest.Wait(); looks.Load() != before+1 {
			t.Errorf("after a step the store was read %d times, want once", looks.Load()-before)
		}
		stop()
		<-ended
	})
}

// counted counts how often a source is read.
type counted struct {
	ClockSource
	times *atomic.Int64
}

func (c counted) Now(ctx context.Context) (time.Time, error) {
	c.times.Add(1)
	return c.ClockSource.Now(ctx)
}
