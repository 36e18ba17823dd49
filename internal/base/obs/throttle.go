package obs

import (
	"cmp"
	"sync"
	"time"
)

// A LogThrottle limits a log line that others can cause as often as they like to one in an interval. Its zero value is
// ready to use, and safe for concurrent use.
type LogThrottle struct {
	Interval time.Duration // 0 means a minute

	mu      sync.Mutex
	logged  time.Time // when the line was last logged
	omitted int       // how often it was left out since
}

// Due reports whether the line may be logged now, and how often it was left out since
// it last was.
func (t *LogThrottle) Due(now time.Time) (others int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	since := now.Sub(t.logged) // less than 0 if the clock was set back
	if !t.logged.IsZero() && since >= 0 && since < cmp.Or(t.Interval, time.Minute) {
		t.omitted++
		return 0, false
	}
	others = t.omitted
	t.logged, t.omitted = now, 0
	return others, true
}
