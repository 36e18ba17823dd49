package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/state/store"
)

// An awayStore is a store that cannot be reached for a time.
type awayStore struct {
	store.Events
	isAway atomic.Bool
}

var errAway = errors.New("no route to host")

func (s *awayStore) EndpointMarksUnless(ctx context.Context, mark string) (map[string]string, string, error) {
	if s.isAway.Load() {
		return nil, "", errAway
	}
	return s.Events.EndpointMarksUnless(ctx, mark)
}

func (s *awayStore) ClaimDeliveries(ctx context.Context, now, until time.Time, busy []string, limit int) ([]store.Delivery, error) {
	if s.isAway.Load() {
		return nil, errAway
	}
	return s.Events.ClaimDeliveries(ctx, now, until, busy, limit)
}

func (s *awayStore) SweepEvents(ctx context.Context, before time.Time) (int, error) {
	if s.isAway.Load() {
		return 0, errAway
	}
	return s.Events.SweepEvents(ctx, before)
}

func (s *awayStore) EndDelivery(ctx context.Context, d store.Delivery) error {
	if s.isAway.Load() {
		return errAway
	}
	return s.Events.EndDelivery(ctx, d)
}

// TestStoreFailuresInDeliveriesAreLoggedOnceASecond: while the store is away, the deliveries of a node log one line a
// second, which counts the others. Attempts that end meanwhile have no lines of their own.
func TestStoreFailuresInDeliveriesAreLoggedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{})
		l := newLab(t, nil, func(context.Context, string) int {
			<-answers
			return 200
		})
		l.stop()
		var log strings.Builder
		db := &awayStore{Events: l.memory}
		s := l.Service
		s.Store, s.Log = db, slog.New(slog.NewJSONHandler(&log, nil))
		s.StoreFailures = &obs.LogThrottle{Interval: time.Second}
		settings := *s.settings.Load()
		settings.Poll = 250 * time.Millisecond
		s.Configure(settings)
		for _, host := range []string{"10.0.0.1", "10.0.0.2"} {
			l.add(t, host)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			s.Run(ctx)
			close(done)
		}()
		l.tell(t, time.Now())
		synctest.Wait() // both attempts are under way

		const away = 45
		db.isAway.Store(true)
		time.Sleep(away * time.Second / 2)
		close(answers)
		time.Sleep(away * time.Second / 2)
		cancel()
		<-done

		text := strings.TrimSpace(log.String())
		lines, others := strings.Split(text, "\n"), 0
		for _, line := range lines {
			var got struct {
				Level  string
				Others int
			}
			if err := json.Unmarshal([]byte(line), &got); err != nil || got.Level != "ERROR" {
				t.Errorf("line %s: %v", line, err)
			}
			others += got.Others
		}
		if n := len(lines); n < away/2 || n > away+1 {
			t.Errorf("%d lines in %d s:\n%s", n, away, text)
		}
		if others < away*4 {
			t.Errorf("the lines count %d others", others)
		}
	})
}
