package webhook

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// forgetful is a Sealer that does not open some names: their secret has left the key file, and may come back.
type forgetful struct {
	clear
	lost atomic.Value // string: what the names begin with
}

func (f *forgetful) Open(name string, sealed []byte) ([]byte, error) {
	if lost, _ := f.lost.Load().(string); lost != "" && strings.HasPrefix(name, lost) {
		return nil, errors.New("sealed under another secret")
	}
	return f.clear.Open(name, sealed)
}

// TestW3WithoutItsSecretAnEventIsTriedLater: while an event, or the endpoint, does not open, the delivery is tried at
// the times of the list, and new events are still made. The log says once which endpoint it is. The event arrives when
// the secret is back.
func TestW3WithoutItsSecretAnEventIsTriedLater(t *testing.T) {
	for _, lost := range []string{"webhook event", "webhook endpoint"} {
		synctest.Test(t, func(t *testing.T) {
			sealer, log := new(forgetful), new(bytes.Buffer)
			l := newLab(t, DefaultRetry(), func(context.Context, string) int { return 200 })
			l.Sealer, l.Log = sealer, slog.New(slog.NewTextHandler(log, nil))
			e := l.add(t, "10.0.0.1")
			if _, err := l.Add(t.Context(), "other", Endpoint{URL: "http://10.0.0.2/"}); err != nil {
				t.Fatal(err)
			}
			event := l.tell(t, time.Now().Add(time.Minute))
			unread, isEndpoint := 0, lost == "webhook endpoint"
			if isEndpoint {
				lost, unread = endpointName(e.ID, e.Merchant), 1
			}
			sealer.lost.Store(lost)
			if isEndpoint { // this node knows it from before, and reads it again when another one changes it
				change := func(e *Endpoint) error { e.Description = "new"; return nil }
				if _, err := newNode(l.Store).Change(t.Context(), e.Merchant, e.ID, change); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(3 * time.Hour)
			synctest.Wait()
			if !l.Wants("shop") || l.Wants("third") || l.CountUnread() != unread {
				t.Errorf("%s: events are wanted: %t, of another merchant: %t, unread: %d", lost, l.Wants("shop"), l.Wants("third"), l.CountUnread())
			}
			if n := strings.Count(log.String(), "webhook endpoint not read"); n != unread {
				t.Errorf("%s: the log names endpoints %d times:\n%s", lost, n, log)
			}
			if _, failed := l.Attempts(); failed < 3 || failed > uint64(len(DefaultRetry())) {
				t.Errorf("%s: %d attempts in three hours", lost, failed)
			}
			sealer.lost.Store("")
			time.Sleep(24 * time.Hour)
			synctest.Wait()
			got := l.arrivals("10.0.0.1")
			if len(got) != 1 || got[0].event != event.ID || l.CountUnread() != 0 {
				t.Errorf("%s: %d deliveries, %d endpoints unread", lost, len(got), l.CountUnread())
			}
		})
	}
}

// TestW4EndpointThatDoesNotOpenCanBeRemoved: by its own merchant alone.
func TestW4EndpointThatDoesNotOpenCanBeRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sealer := new(forgetful)
		l := newLab(t, DefaultRetry(), func(context.Context, string) int { return 200 })
		l.Sealer = sealer
		e := l.add(t, "10.0.0.1")
		sealer.lost.Store("webhook endpoint")
		if err := l.Remove(t.Context(), "other", e.ID); !errors.Is(err, ErrNoEndpoint) {
			t.Errorf("another merchant: %v", err)
		}
		if err := l.Remove(t.Context(), "shop", e.ID); err != nil || l.CountUnread() != 0 {
			t.Errorf("%v, %d endpoints are left", err, l.CountUnread())
		}
	})
}
