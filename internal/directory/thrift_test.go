package directory

import (
	"runtime/debug"
	"sync"
	"testing"
)

// TestThrift: the collector works harder while anything loads, and never less
// than the operator has it work.
func TestThrift(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	percent := func() int {
		now := debug.SetGCPercent(100)
		debug.SetGCPercent(now)
		return now
	}
	for _, test := range []struct{ usual, loading int }{{100, thriftyPercent}, {200, thriftyPercent}, {10, 10}, {-1, thriftyPercent}} {
		debug.SetGCPercent(test.usual)
		var c thrift
		c.begin()
		c.begin()
		c.end(manyRanges)
		if got := percent(); got != test.loading {
			t.Errorf("GOGC=%d, while one of two loads: %d, want %d", test.usual, got, test.loading)
		}
		c.end(0)
		if got := percent(); got != test.usual {
			t.Errorf("GOGC=%d, afterwards: %d", test.usual, got)
		}
	}
}

// TestThriftOfWaiting: the collector works harder while very many wait, and
// hardest while something loads as well.
func TestThriftOfWaiting(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	for _, test := range []struct{ usual, waiting, loading int }{{100, waitingPercent, thriftyPercent}, {40, 40, thriftyPercent}, {10, 10, 10}, {-1, waitingPercent, thriftyPercent}} {
		debug.SetGCPercent(test.usual)
		var c thrift
		is := func(when string, want int) {
			t.Helper()
			got := debug.SetGCPercent(100)
			debug.SetGCPercent(got)
			if got != want {
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
		c.begin()
		is("and something loads", test.loading)
		c.end(0)
		is("no longer", test.waiting)
		for range veryMany - notMany {
			c.done()
		}
		is("one more than not many", test.waiting)
		c.done()
		is("not many", test.usual)
		c.begin()
		for range veryMany {
			c.wait()
		}
		is("something loads, and very many", test.loading)
		for range veryMany {
			c.done()
		}
		c.end(0)
		is("afterwards", test.usual)
	}
}

// TestThriftAtOnce: however many come and go at once, in the end all is as before.
func TestThriftAtOnce(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	var c thrift
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
	}
	all.Wait()
	for range veryMany - 2 {
		c.done()
	}
	if got := debug.SetGCPercent(100); got != 100 || c.many {
		t.Errorf("GOGC=%d", got)
	}
}
