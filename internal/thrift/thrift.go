// Package thrift has the garbage collector of the process work harder at times when
// there would be much garbage, or when it is in nobody's way.
package thrift

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
)

// While card ranges load there are two generations of them, and what the second is made
// of. As much garbage again would pile up beside them if nobody cared. But the collector
// takes its time from whoever has a processor when it begins, a request like any other.
// Whoever loads has time, and waits for it: then it has that processor to itself, and is
// done in a fraction of the time.
const (
	growth     = 4       // the heap may grow by a fourth of what lives,
	least      = 4 << 20 // and always by this many bytes
	perLook    = 4       // calls of Yield from one look at the heap to the next
	manyRanges = 50_000  // are worth a collection of their own
	patient    = 100     // percent of GOGC, at most, while anything loads
)

// While very many requests wait for directory servers there is as much garbage as they
// hold; and a server that waits has the time to collect it.
const (
	waitingPercent = 40    // of GOGC while very many wait
	veryMany       = 1_000 // requests that wait, and
	notMany        = 500   // until when that holds
)

// process is the collector of the process, so there is one of these, too.
var process collector

// A collector is told what goes on, and works accordingly.
type collector struct {
	waiting atomic.Int64

	mu    sync.Mutex
	loads int
	many  bool // requests wait
	usual int  // percent of GOGC when neither is the case

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

// change changes what is the case, and GOGC with it; never to more than the
// operator wants.
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

// percent is what GOGC is at most; less than 0: what is usual.
func (c *collector) percent() int {
	switch {
	case c.many:
		return waitingPercent
	case c.loads > 0:
		return patient
	}
	return -1
}
