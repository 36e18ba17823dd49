package obs

import (
	"sync"
	"time"
)

// A Seldom bounds a log line that strangers can cause as often as they like to once a
// minute. Its zero value is ready.
type Seldom struct {
	mu     sync.Mutex
	told   time.Time // when the line was last logged
	untold int       // how often it was left out since
}

// Due reports whether the line may be logged now, and how often it was left out since
// it last was.
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
