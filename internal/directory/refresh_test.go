package directory

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/ranges"
	"github.com/openthreeds/threeds/message"
)

// TestKeepFresh has the times at which a directory server is asked, by what the
// answers were (PR-02, PR-03, PR-05, PR-29, ruling 6).
func TestKeepFresh(t *testing.T) {
	v220, v231 := message.V220, message.V231
	for _, test := range []struct {
		name     string
		peer     Peer
		verdicts []verdict
		min, max []time.Duration // between the asks
		attempts []int
	}{
		{
			"silent, then well", Peer{PReqVersion: &v220, Refresh: 4 * time.Hour},
			[]verdict{unreachable, unreachable, unreachable, fresh, unreachable},
			[]time.Duration{time.Minute, time.Minute, time.Minute, 216 * time.Minute},
			[]time.Duration{time.Minute, time.Minute, time.Minute, 264 * time.Minute},
			[]int{2, 1, 1, 1, 2},
		},
		{
			"refused", Peer{PReqVersion: &v220, Refresh: 4 * time.Hour},
			[]verdict{refused, refused, fresh},
			[]time.Duration{time.Hour, time.Hour},
			[]time.Duration{time.Hour, time.Hour},
			[]int{2, 2, 2},
		},
		{
			"refresh below the floor", Peer{PReqVersion: &v220, Refresh: time.Minute},
			[]verdict{fresh, fresh},
			[]time.Duration{time.Hour}, []time.Duration{time.Hour}, []int{2, 2},
		},
		{
			"full loads of 2.3.1 (PR-01)", Peer{PReqVersion: &v231, Refresh: 4 * time.Hour},
			[]verdict{fresh, refused, fresh},
			[]time.Duration{12 * time.Hour, time.Hour}, []time.Duration{12 * time.Hour, time.Hour}, []int{2, 2, 2},
		},
		{
			"a laboratory", Peer{PReqVersion: &v231, Refresh: time.Second, MinRefresh: time.Second},
			[]verdict{fresh, refused, fresh},
			[]time.Duration{time.Second, time.Second}, []time.Duration{1100 * time.Millisecond, time.Second}, []int{2, 2, 2},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				var at []time.Time
				var attempts []int
				r := newRefresher(&Client{cards: ranges.NewSchemes("visa")}, &peer{Peer: test.peer})
				r.ask = func(_ context.Context, n int) verdict {
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
					if wait := at[i+1].Sub(at[i]); wait < test.min[i] || wait > test.max[i] {
						t.Errorf("wait %d was %v, want %v to %v", i, wait, test.min[i], test.max[i])
					}
				}
			})
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
			{oldAge - 1, 0, 0}, {1, 1, 0}, {time.Hour, 1, 0}, {deadAge - oldAge - time.Hour - 1, 1, 0}, {1, 1, 1}, {time.Hour, 1, 1},
		} {
			time.Sleep(step.pass)
			r.age()
			if w, f := strings.Count(log.String(), "level=WARN"), strings.Count(log.String(), "level=ERROR"); w != step.warns || f != step.fails {
				t.Errorf("at %v: %d warnings and %d errors, want %d and %d", time.Since(cards.Generation("visa").Loaded), w, f, step.warns, step.fails)
			}
		}
		load()
		r.age()
		time.Sleep(oldAge)
		if r.age(); strings.Count(log.String(), "level=WARN") != 2 {
			t.Error("no second warning")
		}
	})
}
