package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/edge/listen"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/message"
)

// waiter is an engine whose results are pending until a channel is closed.
type waiter struct {
	engine
	arrived chan struct{}
	ended   atomic.Int64 // waits that have ended
}

var errPending = &auth.PendingError{Erro: message.Error{Version: message.V220, Code: message.BadTransactionData, Component: "S", Detail: "pending"}}

func (w *waiter) Result(context.Context, *account.Account, []byte) ([]byte, error) {
	return nil, errPending
}

func (w *waiter) WaitForResult(ctx context.Context, _ *account.Account, pending *auth.PendingError) ([]byte, error) {
	defer w.ended.Add(1)
	select {
	case <-ctx.Done():
		return nil, pending
	case <-w.arrived:
		return []byte(`{"result":"here"}`), nil
	}
}

func newWaiter() (*waiter, *Handler) {
	w := &waiter{engine: engine{new(fake)}, arrived: make(chan struct{})}
	h := newHandler(w.fake)
	h.Engine = w
	return w, h
}

// TestP2WaitIsAWholeNumberUpTo60: another wait is refused with an error that says what would be right.
func TestP2WaitIsAWholeNumberUpTo60(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for query, want := range map[string]time.Duration{
			"": 0, "?": 0, "?other=1": 0, "?wait=0": 0, "?wait=1": time.Second, "?wait=60": time.Minute, "?x=y&wait=5": 5 * time.Second,
			"?wait": -1, "?wait=": -1, "?wait=61": -1, "?wait=-1": -1, "?wait=1.5": -1, "?wait=1s": -1, "?wait=1&wait=1": -1,
			"?wait=256": -1, "?wait=99999999999999999999": -1, "?wait=%zz": -1, "?wait=+1": -1,
		} {
			_, h := newWaiter()
			began := time.Now()
			w := ask(h, "/postauth"+query, "k", strings.NewReader("{}"))
			body, isRefused := w.Body.String(), strings.Contains(w.Body.String(), `"errorDetail":"wait"`)
			if w.Code != 400 || isRefused != (want < 0) || want >= 0 && !strings.Contains(body, "pending") || time.Since(began) != max(want, 0) {
				t.Errorf("%q: %d %s after %v, want a wait of %v", query, w.Code, body, time.Since(began), want)
			}
		}
	})
}

// TestP2WaitTakesNoPlace: requests that wait take no place of those in flight. As many may wait as may be in flight;
// the next one is answered immediately, and its client asked to come back later.
func TestP2WaitTakesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, h := newWaiter()
		h.MaxInFlight = 10
		answers := make(chan *httptest.ResponseRecorder)
		for range 10 {
			go func() {
				answers <- ask(h, "/postauth?wait=60", "k", strings.NewReader(strings.Repeat(" ", 3*bytesPerPlace)))
			}()
			synctest.Wait()
		}
		if n := h.inFlight().Load(); n != 0 {
			t.Errorf("%d places are taken by requests that wait, want none", n)
		}
		if w := ask(h, "/auth", "k", strings.NewReader("{}")); w.Code != http.StatusOK {
			t.Errorf("/auth beside requests that wait: %d", w.Code)
		}
		began := time.Now()
		if w := ask(h, "/postauth?wait=60", "k", strings.NewReader("{}")); w.Code != 400 || w.Header().Get("Retry-After") == "" || time.Since(began) > 0 {
			t.Errorf("one more: %d %v after %v, want the 305 at once and Retry-After", w.Code, w.Header(), time.Since(began))
		}
		close(e.arrived)
		for range 10 {
			if w := <-answers; w.Code != http.StatusOK {
				t.Errorf("%d %s, want the result", w.Code, w.Body)
			}
		}
		if n, waiting := h.inFlight().Load(), h.waiting.Load(); n != 0 || waiting != 0 {
			t.Errorf("afterwards %d places are taken and %d requests wait", n, waiting)
		}
	})
}

// TestOV6AKeyHasAShareOfTheWaits: only a number of requests of one key may wait. The next one is answered immediately,
// and its client asked to come back later. Requests of other keys still wait.
func TestOV6AKeyHasAShareOfTheWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, h := newWaiter()
		h.Waiters = &listen.Waiters{Max: 3}
		answers := make(chan *httptest.ResponseRecorder)
		for range 3 {
			go func() { answers <- ask(h, "/postauth?wait=60", "k", strings.NewReader("{}")) }()
			synctest.Wait()
		}
		began := time.Now()
		if w := ask(h, "/postauth?wait=60", "k", strings.NewReader("{}")); w.Code != 400 || w.Header().Get("Retry-After") == "" || time.Since(began) > 0 {
			t.Errorf("one more: %d %v after %v, want the 305 at once and Retry-After", w.Code, w.Header(), time.Since(began))
		}
		close(e.arrived)
		for range 3 {
			if w := <-answers; w.Code != http.StatusOK {
				t.Errorf("%d %s, want the result", w.Code, w.Body)
			}
		}
		if w := ask(h, "/postauth?wait=60", "k", strings.NewReader("{}")); w.Code != http.StatusOK {
			t.Errorf("afterwards: %d %s, want the result", w.Code, w.Body)
		}
	})
}

// TestP2WaitEndsOnShutdown: a process that is about to end answers requests that wait.
func TestP2WaitEndsOnShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, h := newWaiter()
		var stop context.CancelFunc
		h.Waits, stop = context.WithCancel(t.Context())
		time.AfterFunc(2*time.Second, stop)
		began := time.Now()
		w := ask(h, "/postauth?wait=60", "k", strings.NewReader("{}"))
		if w.Code != 400 || w.Header().Get("Retry-After") == "" || time.Since(began) != 2*time.Second {
			t.Errorf("%d %v after %v, want the 305 after 2s and Retry-After", w.Code, w.Header(), time.Since(began))
		}
	})
}

// TestP2WaitOutlastsTimeLimits: the time limits of a connection, which are for other requests, do not end a
// wait; a client that goes away does.
func TestP2WaitOutlastsTimeLimits(t *testing.T) {
	e, h := newWaiter()
	server := httptest.NewUnstartedServer(h)
	server.Config.ReadTimeout, server.Config.WriteTimeout = 800*time.Millisecond, 900*time.Millisecond
	server.Start()
	defer server.Close()
	post := func(ctx context.Context, query string) (int, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/postauth"+query, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("APIKey", "k")
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		return res.StatusCode, res.Body.Close()
	}
	began := time.Now()
	if status, err := post(t.Context(), "?wait=1"); status != 400 || time.Since(began) < time.Second {
		t.Errorf("%d %v after %v, want 400 after 1s", status, err, time.Since(began))
	}
	gone, leave := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := post(gone, "?wait=60")
		failed <- err
	}()
	waittest.Until(t, "the request to wait", func() bool { return h.waiting.Load() == 1 })
	leave()
	if err := <-failed; err == nil {
		t.Error("an answer came before the client had gone")
	}
	waittest.Until(t, "the end of the wait without its client", func() bool { return e.ended.Load() == 2 })
}
