package main

import (
	"log/slog"
	"math"
	"runtime/debug"
	"strings"
	"testing"
)

// TestInFlightFits: no more requests are in work at once than fit into half of the memory
// that the process may have, and one is at the least; the log says so.
func TestInFlightFits(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	for _, tt := range []struct {
		limit, most, want int64
	}{
		{math.MaxInt64, 10_000, 10_000}, {2 << 30, 10_000, 10_000}, {960 << 20, 10_000, 5_120}, {960 << 20, 5_120, 5_120}, {960 << 20, 5_121, 5_120},
		{96 << 10, 10_000, 1},
	} {
		debug.SetMemoryLimit(tt.limit)
		var log strings.Builder
		n := &node{cfg: nodeConfig{Log: slog.New(slog.NewTextHandler(&log, nil))}}
		got := n.inFlight(tt.most)
		debug.SetMemoryLimit(math.MaxInt64)
		if got != tt.want || (log.Len() > 0) != (tt.want < tt.most) {
			t.Errorf("%d requests in %d bytes of memory: %d, want %d; log %q", tt.most, tt.limit, got, tt.want, log.String())
		}
	}
}
