package operators

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/testing/e2e/rig"
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
		return rig.ErrDown
	})
}

// TestEndsInDoubt: a server that ends while it does not know whether a result is stored
// asks until then, and its log says so at the end.
func TestEndsInDoubt(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	m := mute{now: new(atomic.Bool)}
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Change: func(cfg *server.Config) {
		cfg.Store = func(st store.Store) store.Store { m.Store = st; return m }
	}})
	areq, challenge := s.Challenged("2.2.0")
	m.now.Store(true)
	if got := s.Result(rig.Marshal(rig.RReq(areq, challenge, "Y"))); got.Text("errorCode") != "403" {
		t.Fatalf("the result is answered with %v, want 403", got)
	}
	unknown := `"outcome of a write is not known","threeDSServerTransID":"` + areq.Text("threeDSServerTransID")
	if strings.Contains(s.Log.String(), unknown) {
		t.Error("given up while the server runs")
	}
	rig.Must(t, s.Stop())
	if !strings.Contains(s.Log.String(), unknown) {
		t.Errorf("nothing of it in the log:\n%s", s.Log)
	}
}
