package directory

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// While card ranges load there are two generations of them, and what the second
// is made of. With the collector's usual patience as much garbage again would
// pile up beside them; but ranges hold no pointers, so collecting often costs
// next to nothing. While very many requests wait for directory servers there is as
// much garbage as they hold; and a server that waits has the time to collect it.
const (
	thriftyPercent = 25     // of GOGC while ranges load
	manyRanges     = 50_000 // from which on it is worth it to look after them

	waitingPercent = 40    // of GOGC while very many wait
	veryMany       = 1_000 // requests that wait, and
	notMany        = 500   // until when that holds
)

// collector is that of the process, so there is one of these, too.
var collector thrift

// A thrift has the collector work harder while anything loads, or very much waits.
type thrift struct {
	waiting atomic.Int64

	mu    sync.Mutex
	loads int
	many  bool // requests wait
	usual int  // percent of GOGC when neither is the case
}

func (t *thrift) begin() {
	t.change(func() { t.loads++ })
}

// end is called after begin. The generation that is no longer in use goes at
// once if it was large, not with the next collection, which may be minutes away.
func (t *thrift) end(ranges int) {
	if ranges >= manyRanges {
		runtime.GC()
	}
	t.change(func() { t.loads-- })
}

// wait says that one more request waits.
func (t *thrift) wait() {
	if t.waiting.Add(1) == veryMany {
		t.count()
	}
}

// done is called after wait.
func (t *thrift) done() {
	if t.waiting.Add(-1) == notMany {
		t.count()
	}
}

func (t *thrift) count() {
	t.change(func() {
		now := t.waiting.Load()
		t.many = now >= veryMany || t.many && now > notMany
	})
}

// change changes what is the case, and GOGC with it; never to more than the
// operator wants.
func (t *thrift) change(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.percent()
	f()
	switch now := t.percent(); {
	case now == before:
	case before < 0:
		if t.usual = debug.SetGCPercent(now); t.usual >= 0 && t.usual < now {
			debug.SetGCPercent(t.usual)
		}
	case now < 0 || t.usual >= 0 && t.usual < now:
		debug.SetGCPercent(t.usual)
	default:
		debug.SetGCPercent(now)
	}
}

// percent is what GOGC is at most; less than 0: what is usual.
func (t *thrift) percent() int {
	switch {
	case t.loads > 0:
		return thriftyPercent
	case t.many:
		return waitingPercent
	}
	return -1
}
