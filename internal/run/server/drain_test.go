package server

import (
	"context"
	"testing"
	"time"
)

// TestAwaitQuietCountsTicks counts the checks until idle connections count as forgotten by their clients. No clock is
// read, so the result is right even if a clock went on while the machine stood still.
func TestAwaitQuietCountsTicks(t *testing.T) {
	looks := func(n *Server, ctx context.Context, at map[int]func()) (count int) {
		t.Helper()
		ticks, settled := make(chan time.Time), make(chan bool)
		go func() {
			defer close(settled)
			n.awaitQuiet(ctx, ticks)
		}()
		for {
			select {
			case <-settled:
				return count
			case ticks <- time.Time{}:
				if count++; count > 10*quietTicks {
					t.Fatal("it never settles")
				}
				if do := at[count]; do != nil {
					do()
				}
			}
		}
	}
	kept := func() *Server {
		n := new(Server)
		n.connCount.Store(3)
		return n
	}
	if got := looks(kept(), t.Context(), nil); got != quietTicks {
		t.Errorf("without a request: %d looks, want %d", got, quietTicks)
	}
	if got := looks(new(Server), t.Context(), nil); got != 0 {
		t.Errorf("without a connection: %d looks, want none", got)
	}
	n := kept()
	if got := looks(n, t.Context(), map[int]func(){quietTicks - 1: func() { n.lateRequests.Add(1) }}); got < 2*quietTicks-1 || got > 2*quietTicks {
		t.Errorf("with a request before the last look: %d, want %d more", got, quietTicks)
	}
	n = kept()
	if got := looks(n, t.Context(), map[int]func(){7: func() { n.connCount.Store(0) }}); got < 7 || got > 8 {
		t.Errorf("whose connections close after 7 looks: %d", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if got := looks(kept(), ctx, map[int]func(){7: cancel}); got >= quietTicks {
		t.Errorf("whose time is up after 7 looks: %d", got)
	}
}
