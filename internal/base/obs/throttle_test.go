package obs

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestThrottledLineIsLoggedOnceAMinute: lines that were left out are counted.
func TestThrottledLineIsLoggedOnceAMinute(t *testing.T) {
	var s LogThrottle
	at := time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)
	for _, test := range []struct {
		after  time.Duration
		others int
		ok     bool
	}{
		{0, 0, true}, {0, 0, false}, {time.Minute - 1, 0, false}, {1, 2, true}, {time.Minute, 0, true}, {time.Hour, 0, true}, {0, 0, false}, {-time.Hour, 1, true},
	} {
		at = at.Add(test.after)
		if others, ok := s.Due(at); others != test.others || ok != test.ok {
			t.Errorf("at %v: %d, %t; want %d, %t", at, others, ok, test.others, test.ok)
		}
	}
	for after, want := range map[time.Duration]bool{0: true, time.Second - 1: false, time.Second: true} {
		second := LogThrottle{Interval: time.Second, logged: at}
		if after == 0 {
			second.logged = time.Time{}
		}
		if _, ok := second.Due(at.Add(after)); ok != want {
			t.Errorf("%v after a line of one a second: %t", after, ok)
		}
	}
	var due atomic.Int32
	var all sync.WaitGroup
	at = at.Add(time.Minute)
	for range 100 {
		all.Go(func() {
			if _, ok := s.Due(at); ok {
				due.Add(1)
			}
		})
	}
	all.Wait()
	if others, ok := s.Due(at.Add(time.Minute)); due.Load() != 1 || others != 99 || !ok {
		t.Errorf("of a hundred at once %d were due; then %d, %t", due.Load(), others, ok)
	}
}
