package gate

import (
	"runtime/metrics"
	"time"
)

// Processor is the queue of goroutines that want a processor, by Go's own account.
func Processor(target time.Duration) Queue {
	samples := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}, {Name: "/sched/latencies:seconds"}}
	return Queue{Name: "processor", Target: target, Length: func() (waiting int, served uint64) {
		metrics.Read(samples)
		if samples[0].Value.Kind() != metrics.KindUint64 || samples[1].Value.Kind() != metrics.KindFloat64Histogram {
			return 0, 0 // a runtime that does not tell: nothing is refused
		}
		for _, n := range samples[1].Value.Float64Histogram().Counts {
			served += n
		}
		return int(samples[0].Value.Uint64()), served * sampled
	}}
}

// sampled is the sampling rate of the runtime's histogram of waits: it counts one in so
// many times that a goroutine begins to run.
const sampled = 8
