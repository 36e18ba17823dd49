package tasks_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/base/tasks"
)

func TestEndCancelsTasksAndWaitsForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g tasks.Group
		var returned time.Duration
		start := time.Now()
		g.Start(func(ctx context.Context) {
			if tasks.Sleep(ctx, time.Hour) {
				t.Error("the task slept to the end")
			}
			time.Sleep(time.Second) // what a task does after its context has ended
			returned = time.Since(start)
		})
		time.Sleep(time.Minute)
		g.End()
		if want := time.Minute + time.Second; returned != want {
			t.Errorf("the task returned after %v, want %v", returned, want)
		}
	})
}

func TestStartAfterEndRunsAtOnceWithEndedContext(t *testing.T) {
	var g tasks.Group
	g.End()
	var err error
	g.Start(func(ctx context.Context) { err = ctx.Err() })
	if err != context.Canceled {
		t.Errorf("context says %v, want %v", err, context.Canceled)
	}
}

// A task that is run after End may start another one: the group is not locked meanwhile.
func TestStartInsideTaskAfterEnd(t *testing.T) {
	var g tasks.Group
	g.End()
	ran := false
	g.Start(func(context.Context) {
		g.Start(func(context.Context) { ran = true })
	})
	if !ran {
		t.Error("the inner task did not run")
	}
}

func TestTryStartNeedsFreeSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g tasks.Group
		slots := make(chan struct{}, 1)
		sleep := func(ctx context.Context) { tasks.Sleep(ctx, time.Minute) }
		if !g.TryStart(slots, sleep) {
			t.Error("not started although a slot is free")
		}
		if g.TryStart(slots, sleep) {
			t.Error("started although no slot is free")
		}
		time.Sleep(2 * time.Minute)
		if !g.TryStart(slots, sleep) {
			t.Error("not started although the slot is free again")
		}
		g.End()
		if g.TryStart(slots, sleep) {
			t.Error("started after End")
		}
		if len(slots) != 0 {
			t.Error("a slot is still held after End")
		}
	})
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if !tasks.Sleep(t.Context(), time.Minute) || time.Since(start) != time.Minute {
			t.Errorf("slept %v, want a minute to the end", time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if tasks.Sleep(ctx, time.Minute) || time.Since(start) != time.Second {
			t.Errorf("slept %v, want a second, and not to the end", time.Since(start))
		}
	})
}
