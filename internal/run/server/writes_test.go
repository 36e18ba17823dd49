package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/edge/console"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

// A failingStore fails each write of a transaction and of a node with err, unless err is nil.
type failingStore struct {
	store.Store
	err error
}

func (s *failingStore) Create(ctx context.Context, t store.Txn) error {
	if s.err != nil {
		return s.err
	}
	return s.Store.Create(ctx, t)
}

func (s *failingStore) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	if s.err != nil {
		return s.err
	}
	return s.Store.Update(ctx, was, change)
}

func (s *failingStore) PutNode(ctx context.Context, n store.Node) error {
	if s.err != nil {
		return s.err
	}
	return s.Store.PutNode(ctx, n)
}

// TestReadyzNamesAStoreWhoseWritesFail: from a failed write until one that succeeds, /readyz is 200 and says under the
// store why writes fail. A fact that a store reports about its rows, a caller that has gone and a change that returns
// an error count as neither.
func TestReadyzNamesAStoreWhoseWritesFail(t *testing.T) {
	db := &failingStore{Store: storetest.NewMemory(time.Now)}
	s, cards := &Server{db: db}, ranges.NewSchemes("visa")
	var b ranges.Builder
	must(t, b.Add("4000000000000000", "4000009999999999", &ranges.Info{}))
	table, err := b.Build()
	must(t, err)
	cards.Swap("visa", table)
	cards.MarkTried("visa")
	h := &console.Handler{Conditions: func() []console.Condition { return storeConditions(db, &s.writes, cards) }}
	const (
		well = `{"status":"ready"}`
		full = `{"status":"degraded","problems":{"store":"writes fail: database or disk is full (13)"}}`
	)
	expect := func(when, want string) {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
		if got := strings.TrimSpace(w.Body.String()); got != want || w.Code != http.StatusOK {
			t.Errorf("%s: %d %s, want %s", when, w.Code, got, want)
		}
		if since := s.writes.failingFor(); (since > 0) != (want == full) {
			t.Errorf("%s: writes have failed for %v", when, since)
		}
	}
	refused := errors.New("refused")
	create := func(id string) error {
		return s.engineStore().Create(t.Context(), store.Txn{ID: id, Expires: time.Now().Add(time.Hour)})
	}
	update := func(answer error) error {
		return s.engineStore().Update(t.Context(), store.Txn{ID: "1"}, func(*store.Txn) error { return answer })
	}
	for _, first := range []struct {
		what string
		call func() error
	}{
		{"Create", func() error { return create("2") }},
		{"Update", func() error { return update(nil) }},
		{"PutNode", func() error { return watchedStore{db, &s.writes}.PutNode(t.Context(), store.Node{ID: "node"}) }},
	} {
		db.err = nil
		if err := create("1"); err != nil && !errors.Is(err, store.ErrExists) {
			t.Fatal(err)
		}
		expect("before "+first.what, well)
		db.err = context.Canceled
		if err := first.call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s of a caller that has gone: %v", first.what, err)
		}
		expect("after a caller has gone", well)
		db.err = fmt.Errorf("sqlite: write: %w (%w)", errors.New("database or disk is full (13)"), store.ErrUndone)
		if err := first.call(); !errors.Is(err, store.ErrUndone) {
			t.Errorf("%s on a full disk: %v", first.what, err)
		}
		expect("after "+first.what+" has failed", full)
		db.err = nil
		if err := create("1"); !errors.Is(err, store.ErrExists) {
			t.Errorf("a second Create: %v", err)
		}
		if err := update(refused); !errors.Is(err, refused) {
			t.Errorf("an Update that refuses itself: %v", err)
		}
		expect("after what tells nothing", full)
		if err := first.call(); err != nil {
			t.Errorf("%s: %v", first.what, err)
		}
		expect("after "+first.what+" has succeeded", well)
	}
}
