package main

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openthreeds/threeds/internal/server"
	"github.com/openthreeds/threeds/internal/store"
)

// mute is a store that, once told to be, does not say what became of an update.
type mute struct {
	store.Store
	now *atomic.Bool
}

func (m mute) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	return m.Store.Update(ctx, was, func(t *store.Txn) error {
		if err := change(t); err != nil || !m.now.Load() {
			return err
		}
		return errDown
	})
}

// TestEndsInDoubt: a server that ends while it does not know whether a result is stored
// asks until then, and its log says so at the end.
func TestEndsInDoubt(t *testing.T) {
	ca := newAuthority(t)
	m := mute{now: new(atomic.Bool)}
	s := startSite(t, ca, newWire(t, ca), plan{change: func(cfg *server.Config) {
		cfg.Store = func(st store.Store) store.Store { m.Store = st; return m }
	}})
	areq, challenge := s.challenged("2.2.0")
	m.now.Store(true)
	if got := s.result(marshal(rreq(areq, challenge, "Y"))); got.text("errorCode") != "403" {
		t.Fatalf("the result is answered with %v, want 403", got)
	}
	unknown := `"outcome of a write is not known","threeDSServerTransID":"` + areq.text("threeDSServerTransID")
	if strings.Contains(s.log.String(), unknown) {
		t.Error("given up while the server runs")
	}
	must(t, s.stop())
	if !strings.Contains(s.log.String(), unknown) {
		t.Errorf("nothing of it in the log:\n%s", s.log)
	}
}
