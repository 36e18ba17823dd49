package thrift

import (
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
)

// gogc is the percent in force.
func gogc() int {
	now := debug.SetGCPercent(100)
	debug.SetGCPercent(now)
	return now
}

// TestPercentOfLoads: while anything loads the collector is no more patient than by
// default, and never more than the operator has it.
func TestPercentOfLoads(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for _, test := range []struct{ usual, loading int }{{100, 100}, {200, patient}, {10, 10}, {0, 0}, {-1, patient}} {
		debug.SetGCPercent(test.usual)
		var c collector
		one, other := c.begin(), c.begin()
		one.End(manyRanges)
		if got := gogc(); got != test.loading {
			t.Errorf("GOGC=%d, while one of two loads: %d, want %d", test.usual, got, test.loading)
		}
		other.End(0)
		if got := gogc(); got != test.usual {
			t.Errorf("GOGC=%d, afterwards: %d", test.usual, got)
		}
	}
}

// TestPercentOfWaiting: the collector works harder while very many wait, whatever
// loads beside that.
func TestPercentOfWaiting(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	for _, test := range []struct{ usual, waiting, loading int }{{100, waitingPercent, 100}, {40, 40, 40}, {10, 10, 10}, {0, 0, 0}, {200, waitingPercent, patient}, {-1, waitingPercent, patient}} {
		debug.SetGCPercent(test.usual)
		var c collector
		is := func(when string, want int) {
			t.Helper()
			if got := gogc(); got != want {
				t.Errorf("GOGC=%d, %s: %d, want %d", test.usual, when, got, want)
			}
		}
		for range veryMany - 1 {
			c.wait()
		}
		is("one less than very many", test.usual)
		c.wait()
		is("very many", test.waiting)
		c.wait()
		load := c.begin()
		is("and something loads", test.waiting)
		load.End(0)
		is("no longer", test.waiting)
		for range veryMany - notMany {
			c.done()
		}
		is("one more than not many", test.waiting)
		load = c.begin()
		c.done()
		is("not many, and something loads", test.loading)
		for range veryMany {
			c.wait()
		}
		is("something loads, and very many", test.waiting)
		for range veryMany {
			c.done()
		}
		load.End(0)
		is("not many", test.usual)
	}
}

// TestAtOnce: however many come and go at once, in the end all is as before.
func TestAtOnce(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	var c collector
	for range veryMany - 2 {
		c.wait()
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 300 {
				c.wait()
				c.done()
			}
		})
		all.Go(func() {
			for range 300 {
				c.begin().End(0)
			}
		})
	}
	all.Wait()
	for range veryMany - 2 {
		c.done()
	}
	if got := gogc(); got != 100 || c.many || c.loads != 0 {
		t.Errorf("GOGC=%d, many wait: %t, %d load", got, c.many, c.loads)
	}
}

// forced is how many collections somebody asked for since the beginning, and how large
// the heap is.
func forced() (collections, heap int) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.NumForcedGC), int(m.HeapAlloc)
}

// TestLoadCollects: a load collects when the heap has grown by a quarter, whoever made
// that, and not before; several at once do it in turns and not each.
func TestLoadCollects(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nobody else collects
	const block, rounds = 64 << 10, 4000             // 250 MiB in all
	keep := make([]byte, 64<<20)
	var garbage []byte
	var c collector
	runtime.GC()
	before, start := forced()
	loads := []*Load{c.begin(), c.begin()}
	defer func() {
		for _, l := range loads {
			l.End(0)
		}
	}()
	debug.SetGCPercent(-1) // nor now
	for range 100 * perLook {
		loads[0].Yield()
	}
	if now, _ := forced(); now != before {
		t.Fatalf("%d collections of nothing", now-before)
	}
	highest := 0
	var wg sync.WaitGroup
	for range rounds / perLook {
		for range perLook {
			garbage = make([]byte, block)
			for _, l := range loads {
				wg.Go(l.Yield)
			}
			wg.Wait()
		}
		_, heap := forced()
		highest = max(highest, heap)
	}
	now, _ := forced()
	if most := start + start/4 + 4*perLook*block; highest > most {
		t.Errorf("the heap grew from %d MiB to %d, want at most %d", start>>20, highest>>20, most>>20)
	}
	if want := rounds * block / (start / growth); now-before < want-1 || now-before > want+1 {
		t.Errorf("%d collections for %d MiB of garbage, want %d", now-before, rounds*block>>20, want)
	}
	runtime.KeepAlive(keep)
	runtime.KeepAlive(garbage)
}

// TestLittleGarbage: below a few MiB a quarter of what lives is little, and is left alone.
func TestLittleGarbage(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // nobody else collects
	const block = 64 << 10
	var garbage []byte
	var c collector
	l := c.begin()
	defer l.End(0)
	debug.SetGCPercent(-1) // nor now
	runtime.GC()
	before, start := forced()
	if start/growth >= least/2 {
		t.Fatalf("%d MiB live: the test shows nothing", start>>20)
	}
	for made := 0; made < least-1<<20; made += block {
		garbage = make([]byte, block)
		l.turns = perLook - 1 // so that it looks
		if l.Yield(); l.turns != perLook {
			t.Fatalf("%d turns", l.turns)
		}
	}
	if now, _ := forced(); now != before {
		t.Errorf("%d collections for less than %d MiB", now-before, least>>20)
	}
	for range 2 << 20 / block {
		garbage = make([]byte, block)
	}
	l.turns = perLook - 1
	l.Yield()
	if now, _ := forced(); now != before+1 {
		t.Errorf("%d collections for more than %d MiB", now-before, least>>20)
	}
	runtime.KeepAlive(garbage)
}

// TestCollectIsForMany: few ranges are not worth a collection.
func TestCollectIsForMany(t *testing.T) {
	var c collector
	l := c.begin()
	before, _ := forced()
	l.Collect(manyRanges - 1)
	if now, _ := forced(); now != before {
		t.Error("few ranges were worth a collection")
	}
	l.Collect(manyRanges)
	if now, _ := forced(); now != before+1 {
		t.Error("many ranges were not worth a collection")
	}
	l.End(manyRanges)
	if now, _ := forced(); now != before+2 {
		t.Error("many ranges that are gone were not collected")
	}
}
