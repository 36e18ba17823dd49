package obs

import (
	"sync"
	"time"
)

// A Seldom is for a log line that strangers can cause as often as they like: it is
// due once a minute, and then says how many were left out. Its zero value is ready.
type Seldom struct {
	mu     sync.Mutex
	told   time.Time // when the line was last due
	untold int       // how often it was not since
}

// Due reports whether the line may be logged now, and how many times it was not
// since it last was.
func (s *Seldom) Due(now time.Time) (others int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := now.Sub(s.told) // less than 0 if the clock was set back
	if !s.told.IsZero() && since >= 0 && since < time.Minute {
		s.untold++
		return 0, false
	}
	others = s.untold
	s.told, s.untold = now, 0
	return others, true
}
