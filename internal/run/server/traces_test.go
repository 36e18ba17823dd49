package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/base/obs/otlptest"
	"github.com/openthreeds/threeds/internal/state/store"
)

// A collector keeps the spans that it receives.
type collector struct {
	server *httptest.Server
	mu     sync.Mutex
	spans  []*otlptest.Span
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := new(collector)
	c.server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got, err := otlptest.Decode(body)
		if err != nil {
			t.Errorf("%s: no spans: %v", r.URL, err)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.spans = append(c.spans, got.Spans...)
	}))
	t.Cleanup(c.server.Close)
	return c
}

// TestStoreFailuresAreInTraces: a store has not failed if it reports a fact of its contract, or if its caller gives up.
func TestStoreFailuresAreInTraces(t *testing.T) {
	errLeft := errors.New("left as it is")
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, ""}, {store.ErrNotFound, ""}, {store.ErrExists, ""}, {errLeft, ""}, {store.ErrUndone, "store"}, {io.ErrUnexpectedEOF, "store"},
	} {
		c := newCollector(t)
		traces, err := obs.NewTraces(obs.Tracing{Endpoint: c.server.URL + "/v1/traces", Fraction: 1}, obs.NewMetrics(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		db := tracedStore{saying{err: tt.err, refused: errLeft}, traces}
		ctx, ended := traces.Message(t.Context(), "AReq")
		update := db.Update(ctx, store.Txn{}, func(*store.Txn) error { return errLeft })
		_, get := db.Get(ctx, "")
		if create := db.Create(ctx, store.Txn{}); create != tt.err || update != tt.err || get != tt.err {
			t.Errorf("%v: %v %v %v", tt.err, create, get, update)
		}
		ended("")
		traces.Close(t.Context())
		for _, s := range c.spans {
			other := s.Name == "AReq" || tt.err == errLeft && s.Name != "store update"
			if got := s.Attributes["error.type"]; got != tt.want && !other {
				t.Errorf("%v, %s: %q, want %q", tt.err, s.Name, got, tt.want)
			}
		}
		if len(c.spans) != 4 {
			t.Errorf("%d spans, want 4", len(c.spans))
		}
	}
}

// saying is a store that says the same to everything, and has a change made only to be refused.
type saying struct {
	store.Store
	err, refused error
}

func (s saying) Create(context.Context, store.Txn) error { return s.err }

func (s saying) Get(context.Context, string) (store.Txn, error) { return store.Txn{}, s.err }

func (s saying) Update(_ context.Context, _ store.Txn, change func(*store.Txn) error) error {
	if s.err == s.refused {
		return change(nil)
	}
	return s.err
}
