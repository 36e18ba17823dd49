package server

import (
	"log/slog"
	"math"
	"runtime/debug"
	"strings"
	"testing"
)

// TestInFlightFitsIntoMemory: no more requests are in work at once than fit into half of the memory that the process
// may have, but at least one. The log says so.
func TestInFlightFitsIntoMemory(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	for _, tt := range []struct {
		limit, most, want int64
	}{
		{math.MaxInt64, 10_000, 10_000}, {3 << 30, 10_000, 10_000}, {960 << 20, 10_000, 3_840}, {960 << 20, 3_840, 3_840}, {960 << 20, 3_841, 3_840},
		{128 << 10, 10_000, 1},
	} {
		debug.SetMemoryLimit(tt.limit)
		var log strings.Builder
		n := &Server{cfg: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}}
		got := n.maxInFlight(tt.most)
		debug.SetMemoryLimit(math.MaxInt64)
		if got != tt.want || (log.Len() > 0) != (tt.want < tt.most) {
			t.Errorf("%d requests in %d bytes of memory: %d, want %d; log %q", tt.most, tt.limit, got, tt.want, log.String())
		}
	}
}

// TestConnectionsFitIntoOpenFiles: a listener has no more connections than its part of the files that
// may be open.
func TestConnectionsFitIntoOpenFiles(t *testing.T) {
	files, ok := openFiles()
	if !ok { // without a limit all fit
		files = math.MaxInt / 16
	}
	for _, tt := range []struct{ most, part, want int }{
		{1, 2, 1}, {files / 2, 2, files / 2}, {files/2 + 1, 2, files / 2}, {files/2 + 1, 8, files / 8}, {8 * files, 8, files / 8},
	} {
		if !ok {
			tt.want = tt.most
		}
		var log strings.Builder
		n := &Server{cfg: Config{Log: slog.New(slog.NewTextHandler(&log, nil)), Limits: Limits{Connections: tt.most}}}
		if got := n.connectionLimit("results", tt.part); got.Max != tt.want || strings.Contains(log.String(), "listener=results") != (tt.want < tt.most) {
			t.Errorf("%d connections, a part in %d of %d files: %d, want %d; log %q", tt.most, tt.part, files, got.Max, tt.want, log.String())
		}
	}
	if got := new(Server).connectionLimit("api", 2); got.Max != 0 {
		t.Errorf("no limit is configured: %d", got.Max)
	}
}
