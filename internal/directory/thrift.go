package directory

import (
	"runtime"
	"runtime/debug"
	"sync"
)

// While card ranges load there are two generations of them, and what the second
// is made of. With the collector's usual patience as much garbage again would
// pile up beside them; but ranges hold no pointers, so collecting often costs
// next to nothing.
const (
	thriftyPercent = 25     // of GOGC while ranges load
	manyRanges     = 50_000 // from which on it is worth it to look after them
)

// collector is that of the process, so there is one of these, too.
var collector thrift

// A thrift has the collector work harder while anything loads.
type thrift struct {
	mu     sync.Mutex
	loads  int
	former int
}

func (t *thrift) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.loads++; t.loads > 1 {
		return
	}
	t.former = debug.SetGCPercent(thriftyPercent)
	if t.former >= 0 && t.former < thriftyPercent { // by GOGC
		debug.SetGCPercent(t.former)
	}
}

// end is called after begin. The generation that is no longer in use goes at
// once if it was large, not with the next collection, which may be minutes away.
func (t *thrift) end(ranges int) {
	if ranges >= manyRanges {
		runtime.GC()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.loads--; t.loads == 0 {
		debug.SetGCPercent(t.former)
	}
}
