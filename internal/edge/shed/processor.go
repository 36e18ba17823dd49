package shed

import (
	"runtime/metrics"
	"time"
)

// Processor returns the queue of goroutines that wait for a processor, as the Go runtime reports it.
func Processor(target time.Duration) Queue {
	samples := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}, {Name: "/sched/latencies:seconds"}}
	return Queue{Name: "processor", Target: target, Length: func() (waiting int, served uint64) {
		metrics.Read(samples)
		if samples[0].Value.Kind() != metrics.KindUint64 || samples[1].Value.Kind() != metrics.KindFloat64Histogram {
			return 0, 0 // this runtime does not report it, so nothing is refused
		}
		for _, n := range samples[1].Value.Float64Histogram().Counts {
			served += n
		}
		return int(samples[0].Value.Uint64()), served * latencySampling
	}}
}

// latencySampling is the sampling rate of the runtime's histogram of waits: it counts one in this many starts of a
// goroutine.
const latencySampling = 8
