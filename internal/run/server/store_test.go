package server

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// swept is a store that notes as of when it was swept.
type swept struct {
	store.Store
	times chan time.Time
}

func (s swept) Sweep(_ context.Context, now time.Time) (int, error) {
	s.times <- now
	return 0, nil
}

// TestSweepUsesTheSharedClock: what expires by one clock is freed by the same, wherever that
// of the machine is.
func TestSweepUsesTheSharedClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := func() time.Time { return time.Now().Add(48 * time.Hour) }
		s := swept{times: make(chan time.Time, 1)}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			(&Server{db: s, timestamp: ahead}).sweep(ctx)
		}()
		if got := <-s.times; !got.Equal(ahead()) {
			t.Errorf("swept as of %v, want %v", got, ahead())
		}
		cancel()
		<-ended
	})
}

// unswept is a store that cannot be swept, a certain number of times.
type unswept struct {
	store.Store
	tries, failing int
}

func (s *unswept) Sweep(ctx context.Context, _ time.Time) (int, error) {
	if s.tries++; s.tries > s.failing {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return 0, errors.New("disk full")
}

// TestFailedSweepIsLoggedAndRepeated: the log says each minute that expired rows stay, and nothing if the node is just
// shutting down. The next try comes anyway.
func TestFailedSweepIsLoggedAndRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &unswept{failing: 2}
		n := &Server{db: s, timestamp: time.Now, cfg: Config{Log: slog.New(slog.NewTextHandler(&log, nil))}}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute+time.Second)
		defer cancel()
		n.sweep(ctx)
		if got := strings.Count(log.String(), `level=ERROR msg="expired transactions not swept" err="disk full"`); got != 2 ||
			s.tries != 3 || strings.Count(log.String(), "\n") != 2 {
			t.Errorf("%d of 3 tries, log:\n%s", s.tries, log.String())
		}
	})
}
