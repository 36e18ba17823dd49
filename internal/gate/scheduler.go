package gate

import (
	"runtime/metrics"
	"time"
)

// A scheduler reads Go's own account of its work.
type scheduler struct {
	samples []metrics.Sample
	began   uint64 // goroutines that were given a processor, as sampled
	at      time.Time
}

// sampled is one of how many times that a goroutine begins to run is in the
// runtime's histogram of waits.
const sampled = 8

// queue returns how many goroutines wait for a processor now, and how many were
// given one in a second since the last call.
func (s *scheduler) queue() (waiting, perSecond float64) {
	if s.samples == nil {
		s.samples = []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}, {Name: "/sched/latencies:seconds"}}
	}
	metrics.Read(s.samples)
	if s.samples[0].Value.Kind() != metrics.KindUint64 || s.samples[1].Value.Kind() != metrics.KindFloat64Histogram {
		return 0, 0 // a runtime that does not tell: nothing is refused
	}
	var began uint64
	for _, n := range s.samples[1].Value.Float64Histogram().Counts {
		began += n
	}
	now := time.Now()
	perSecond = sampled * float64(began-s.began) / now.Sub(s.at).Seconds()
	s.began, s.at = began, now
	return float64(s.samples[0].Value.Uint64()), perSecond
}
