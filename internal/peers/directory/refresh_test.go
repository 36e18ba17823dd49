package directory

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
	"github.com/openthreeds/threeds/message"
)

// TestKeepFresh has the times at which a directory server is asked, by what the
// answers were (PR-02, PR-03, PR-05, PR-29).
func TestKeepFresh(t *testing.T) {
	v220, v231 := []message.Version{message.V220}, []message.Version{message.V231}
	for _, test := range []struct {
		name     string
		peer     Peer
		verdicts []outcome
		min, max []time.Duration // between the asks
		attempts []int
	}{
		{
			"PR-29 silent, then well", Peer{Versions: v220, Refresh: 4 * time.Hour},
			[]outcome{unreachable, unreachable, unreachable, fresh, unreachable},
			[]time.Duration{time.Minute, time.Minute, time.Minute, 216 * time.Minute},
			[]time.Duration{time.Minute, time.Minute, time.Minute, 264 * time.Minute},
			[]int{2, 1, 1, 1, 2},
		},
		{
			"PR-03 PR-05 PR-07 refused", Peer{Versions: v220, Refresh: 4 * time.Hour},
			[]outcome{refused, refused, fresh},
			[]time.Duration{time.Hour, time.Hour},
			[]time.Duration{time.Hour, time.Hour},
			[]int{2, 2, 2},
		},
		{
			"PR-02 refresh below the floor", Peer{Versions: v220, Refresh: time.Minute},
			[]outcome{fresh, fresh},
			[]time.Duration{time.Hour}, []time.Duration{time.Hour}, []int{2, 2},
		},
		{
			"PR-01 full loads of 2.3.1", Peer{Versions: v231, Refresh: 4 * time.Hour},
			[]outcome{fresh, refused, fresh},
			[]time.Duration{12 * time.Hour, time.Hour}, []time.Duration{12 * time.Hour, time.Hour}, []int{2, 2, 2},
		},
		{
			"PR-04 a day at most", Peer{Versions: v220, Refresh: 24 * time.Hour},
			[]outcome{fresh, fresh, fresh, fresh, fresh, fresh, fresh, fresh},
			slices.Repeat([]time.Duration{21 * time.Hour}, 7), slices.Repeat([]time.Duration{24 * time.Hour}, 7), slices.Repeat([]int{2}, 8),
		},
		{
			"a laboratory", Peer{Versions: v231, Refresh: time.Second, MinRefresh: time.Second},
			[]outcome{fresh, refused, fresh},
			[]time.Duration{time.Second, time.Second}, []time.Duration{1100 * time.Millisecond, time.Second}, []int{2, 2, 2},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				var at []time.Time
				var attempts []int
				r := newRefresher(&Client{cards: ranges.NewSchemes("visa"), keeper: storetest.NewMemory(time.Now)}, &peer{Peer: test.peer})
				r.exchange = func(_ context.Context, n int) outcome {
					at, attempts = append(at, time.Now()), append(attempts, n)
					if len(at) == len(test.verdicts) {
						cancel()
					}
					return test.verdicts[len(at)-1]
				}
				r.run(ctx)
				if !slices.Equal(attempts, test.attempts) {
					t.Errorf("attempts %v, want %v", attempts, test.attempts)
				}
				for i := range test.min {
					if wait := at[i+1].Sub(at[i]); wait < test.min[i] || wait > test.max[i]+shortestSleep {
						t.Errorf("wait %d was %v, want %v to %v", i, wait, test.min[i], test.max[i]+shortestSleep)
					}
				}
			})
		})
	}
}

// TestPR01TwoFullLoadsADay: whatever an operator configures, no more complete
// sets than two are asked for in 24 hours.
func TestPR01TwoFullLoadsADay(t *testing.T) {
	v231 := []message.Version{message.V231}
	for _, refresh := range []time.Duration{time.Second, 4 * time.Hour, 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour-1)
			defer cancel()
			asked := 0
			r := newRefresher(&Client{cards: ranges.NewSchemes("visa"), keeper: storetest.NewMemory(time.Now)}, &peer{Peer: Peer{Versions: v231, Refresh: refresh}})
			r.exchange = func(context.Context, int) outcome {
				asked++
				return fresh
			}
			if r.run(ctx); asked > 2 || asked == 0 {
				t.Errorf("refresh %v: %d full loads in 24 hours", refresh, asked)
			}
		})
	}
}

// TestAge: old ranges are complained of once at each limit, and again after they
// were fresh in between.
func TestAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		cards := ranges.NewSchemes("visa")
		r := newRefresher(&Client{cards: cards, log: slog.New(slog.NewTextHandler(&log, nil))}, &peer{Peer: Peer{Scheme: "visa"}})
		load := func() { cards.Put("visa", &ranges.Generation{Loaded: time.Now()}) }
		load()
		for _, step := range []struct {
			pass         time.Duration
			warns, fails int
		}{
			{WarnAge - 1, 0, 0}, {1, 1, 0}, {time.Hour, 1, 0}, {ErrorAge - WarnAge - time.Hour - 1, 1, 0}, {1, 1, 1}, {time.Hour, 1, 1},
		} {
			time.Sleep(step.pass)
			r.logAge()
			if w, f := strings.Count(log.String(), "level=WARN"), strings.Count(log.String(), "level=ERROR"); w != step.warns || f != step.fails {
				t.Errorf("at %v: %d warnings and %d errors, want %d and %d", time.Since(cards.Generation("visa").Loaded), w, f, step.warns, step.fails)
			}
		}
		load()
		r.logAge()
		time.Sleep(WarnAge)
		if r.logAge(); strings.Count(log.String(), "level=WARN") != 2 {
			t.Error("no second warning")
		}
	})
}

// TestPauseVaries: after a good answer the wait is the configured time, give or
// take a tenth, each time another: nodes and schemes that once ask together do not
// go on so.
func TestPauseVaries(t *testing.T) {
	const hours = 6 * time.Hour
	r := &refresher{Client: &Client{}, peer: &peer{Peer: Peer{Scheme: "visa", Refresh: hours, Versions: []message.Version{message.V220}}}}
	least, most := hours, hours
	for range 1000 {
		wait := r.pauseAfter(fresh)
		least, most = min(least, wait), max(most, wait)
	}
	if least < hours*9/10 || least > hours*92/100 || most > hours*11/10 || most < hours*108/100 {
		t.Errorf("from %v to %v, want from nearly %v to nearly %v", least, most, hours*9/10, hours*11/10)
	}
}

// TestFollow: who is to refresh under a new configuration waits for the one before, and
// goes on with what that one had.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		former := &refresher{storedGeneration: 7, notStored: true, done: make(chan struct{})}
		idle := &refresher{predecessor: former}
		idle.awaitPredecessor(t.Context()) // one that never ran is not waited for
		former.running.Store(true)
		r, stopped := &refresher{predecessor: former}, &refresher{predecessor: former}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		stopped.awaitPredecessor(ctx)
		var waited time.Duration
		over := make(chan bool)
		start := time.Now()
		go func() {
			r.awaitPredecessor(t.Context())
			waited = time.Since(start)
			close(over)
		}()
		time.Sleep(time.Hour)
		close(former.done)
		<-over
		if waited != time.Hour || r.storedGeneration != 7 || !r.notStored {
			t.Errorf("waited %v, generation %d, not kept: %t", waited, r.storedGeneration, r.notStored)
		}
		if idle.storedGeneration != 0 || stopped.storedGeneration != 0 {
			t.Errorf("generations %d and %d of one that was not waited for", idle.storedGeneration, stopped.storedGeneration)
		}
	})
}
