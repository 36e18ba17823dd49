package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/edge/listen"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/state/account"
)

// manyKeys are keys of merchants: that of alice-7 is alice.
type manyKeys struct{ *fake }

func (manyKeys) Authenticate(_ context.Context, key string) (*account.Account, error) {
	merchant, _, _ := strings.Cut(key, "-")
	return &account.Account{Merchant: &account.Merchant{Name: merchant}, KeyID: key}, nil
}

// stuckEngine does not come to an end with bodies that say slow, as if the store did not, until it is released.
type stuckEngine struct {
	*waiter
	release chan struct{}
}

func (e *stuckEngine) pass(body []byte) {
	if bytes.Contains(body, []byte("slow")) {
		<-e.release
	}
}

func (e *stuckEngine) Preauth(ctx context.Context, acc *account.Account, body []byte) ([]byte, auth.Notes, error) {
	e.pass(body)
	return e.waiter.Preauth(ctx, acc, body)
}

func (e *stuckEngine) Authenticate(ctx context.Context, acc *account.Account, body []byte) ([]byte, auth.Notes, error) {
	e.pass(body)
	return e.waiter.Authenticate(ctx, acc, body)
}

func (e *stuckEngine) Result(ctx context.Context, acc *account.Account, body []byte) ([]byte, error) {
	e.pass(body)
	return e.waiter.Result(ctx, acc, body)
}

// A flood is what one merchant may do to hold the places of all others.
type flood struct {
	path string
	body func() (body io.Reader, length int64)
}

// TestOV6EachMerchantMayBeTheBadOne: one merchant sends more than can be served, with any number of keys, and its
// requests wait for anything. The requests of the others are still served, and have a place to wait, whichever merchant
// it is.
func TestOV6EachMerchantMayBeTheBadOne(t *testing.T) {
	floods := map[string]flood{
		"waits for results": {"/postauth?wait=60", func() (io.Reader, int64) { return strings.NewReader("{}"), 2 }},
		"long bodies that do not come": {"/auth", func() (io.Reader, int64) {
			never, _ := io.Pipe()
			return never, maxAuthBody
		}},
		"work in the store": {"/auth", func() (io.Reader, int64) { return strings.NewReader(`{"slow":1}`), 10 }},
		"beginnings":        {"/preauth", func() (io.Reader, int64) { return strings.NewReader(`{"slow":1}`), 10 }},
		"results at work":   {"/postauth", func() (io.Reader, int64) { return strings.NewReader(`{"slow":1}`), 10 }},
	}
	for what, f := range floods {
		for _, bad := range []string{"alice", "bob", "carol"} {
			t.Run(what+" of "+bad, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					engine, h := newWaiter()
					stuck := &stuckEngine{engine, make(chan struct{})}
					h.Engine = stuck
					h.Keys, h.MaxInFlight, h.Waiters = manyKeys{new(fake)}, 100, &listen.Waiters{Max: 25}
					ctx, cancel := context.WithCancel(t.Context())
					var held sync.WaitGroup
					for i := range 500 {
						body, length := f.body()
						r := httptest.NewRequestWithContext(ctx, http.MethodPost, f.path, body)
						r.ContentLength = length
						r.Header.Set("APIKey", fmt.Sprintf("%s-%d", bad, i%7))
						held.Go(func() {
							defer func() { _ = recover() }() // http.ErrAbortHandler, as its client goes
							h.ServeHTTP(httptest.NewRecorder(), r)
						})
						if p, isPipe := body.(*io.PipeReader); isPipe {
							context.AfterFunc(ctx, func() { _ = p.CloseWithError(io.ErrUnexpectedEOF) })
						}
					}
					synctest.Wait()
					for _, merchant := range []string{"alice", "bob", "carol"} {
						if merchant == bad {
							continue
						}
						for _, path := range []string{"/preauth", "/auth"} {
							if w := ask(h, path, merchant+"-1", strings.NewReader("{}")); w.Code != http.StatusOK {
								t.Errorf("%s of %s: %d %s, want it served", path, merchant, w.Code, w.Body)
							}
						}
						began := time.Now()
						if w := ask(h, "/postauth?wait=3", merchant+"-1", strings.NewReader("{}")); time.Since(began) != 3*time.Second {
							t.Errorf("a wait of %s ended after %v with %d %s, want it to wait for 3 s", merchant, time.Since(began), w.Code, w.Body)
						}
					}
					cancel()
					close(stuck.release)
					held.Wait()
					if n := h.inFlight().Load(); n != 0 || len(h.shares().places) != 0 {
						t.Errorf("afterwards %d places are taken, and of merchants %v", n, h.shares().places)
					}
				})
			})
		}
	}
}
