package directory

import (
	"runtime/debug"
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
