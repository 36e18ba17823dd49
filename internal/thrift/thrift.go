// Package thrift has the garbage collector of the process work harder at times when
// there would be much garbage, or when the process has time for it.
package thrift

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
)

// While card ranges load, two generations of them are in memory, and what the second is
// made of. Left alone, the collector would let as much garbage again pile up beside them,
// and would then take its time from whatever runs, requests among it. So the load, which
// has time, calls the collector more often and waits for it: then that has a processor to
// itself, and is done in a fraction of the time.
const (
	growth     = 4       // the heap may grow by a fourth of what lives,
	least      = 4 << 20 // and always by this many bytes
	perLook    = 4       // calls of Yield from one look at the heap to the next
	manyRanges = 50_000  // are worth a collection of their own
	patient    = 100     // percent of GOGC, at most, while anything loads
)

// While very many requests wait for directory servers, garbage would grow with all that
// they hold; and a server that waits has the time to collect it.
const (
	waitingPercent = 40    // of GOGC while very many wait
	veryMany       = 1_000 // this many requests begin that,
	notMany        = 500   // and this many end it
)

// process is the collector of this process. The runtime has but one.
var process collector

// A collector is told what goes on, and works accordingly.
type collector struct {
	waiting atomic.Int64

	mu    sync.Mutex
	loads int
	many  bool // very many requests wait
	usual int  // GOGC in percent, as it was before anything loaded or waited

	collecting sync.Mutex // held by the one load that collects
}

// Begin says that something large loads, until End.
func Begin() *Load { return process.begin() }

// Wait says that one more request waits, until Done.
func Wait() { process.wait() }

// Done is called after Wait.
func Done() { process.done() }

// A Load makes much that stays. It has one user at a time.
type Load struct {
	of    *collector
	turns int
	heap  [2]metrics.Sample
}

func (c *collector) begin() *Load {
	c.change(func() { c.loads++ })
	return &Load{of: c, heap: [...]metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}}
}

// Yield lets others go first. It is to be called several times in a millisecond of work,
// and collects when that is due.
func (l *Load) Yield() {
	runtime.Gosched()
	if l.turns++; l.turns%perLook != 0 || !l.grown() {
		return
	}
	l.of.collecting.Lock()
	defer l.of.collecting.Unlock()
	if l.grown() { // another may have collected just now
		runtime.GC()
	}
}

// grown reports whether the heap has grown by so much that it is time to collect.
func (l *Load) grown() bool {
	metrics.Read(l.heap[:])
	live, now := l.heap[0].Value.Uint64(), l.heap[1].Value.Uint64()
	return now > live+max(live/growth, least)
}

// Collect collects if so many ranges are worth it: what it took to read them goes before
// as much is made of them.
func (l *Load) Collect(ranges int) {
	if ranges >= manyRanges {
		runtime.GC()
	}
}

// End ends the load, with how many ranges there were before it or are now, whichever is
// more. What is no longer in use goes at once if they are many, not with the next
// collection, which may be minutes away.
func (l *Load) End(ranges int) {
	l.Collect(ranges)
	l.of.change(func() { l.of.loads-- })
}

func (c *collector) wait() {
	if c.waiting.Add(1) == veryMany {
		c.count()
	}
}

func (c *collector) done() {
	if c.waiting.Add(-1) == notMany {
		c.count()
	}
}

func (c *collector) count() {
	c.change(func() {
		now := c.waiting.Load()
		c.many = now >= veryMany || c.many && now > notMany
	})
}

// change calls f, which changes loads or many, and sets GOGC accordingly; never above
// what the operator has set.
func (c *collector) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.percent()
	f()
	switch now := c.percent(); {
	case now == before:
	case before < 0:
		if c.usual = debug.SetGCPercent(now); c.usual >= 0 && c.usual < now {
			debug.SetGCPercent(c.usual)
		}
	case now < 0 || c.usual >= 0 && c.usual < now:
		debug.SetGCPercent(c.usual)
	default:
		debug.SetGCPercent(now)
	}
}

// percent is what GOGC may be at most; less than 0: as the operator has set it.
func (c *collector) percent() int {
	switch {
	case c.many:
		return waitingPercent
	case c.loads > 0:
		return patient
	}
	return -1
}
