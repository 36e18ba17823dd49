package operators

import (
	"slices"
	"testing"

	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestStoreMetrics has a server on each store tell of it on /metrics.
func TestStoreMetrics(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	for name, tt := range map[string]struct {
		at       func(t *testing.T) config.StoreURL // zero: as configured
		positive []string                           // what a server that has just read its card ranges has done
		others   []string
		never    string // of the other store
	}{
		"sqlite": {
			positive: []string{"threeds_store_writes_total", "threeds_store_commits_total"},
			others:   []string{"threeds_store_commits_failed_total", "threeds_store_writes_waiting"},
			never:    "threeds_store_connections",
		},
		"postgres": {
			at: func(t *testing.T) config.StoreURL {
				return config.StoreURL{Postgres: pgtest.Get(t).Schema(t) + "&pool_max_conns=7"}
			},
			positive: []string{
				`threeds_store_connections{state="idle"}`, "threeds_store_connections_max",
				"threeds_store_connections_opened_total", "threeds_store_acquires_total",
			},
			others: []string{
				`threeds_store_connections{state="in_use"}`, `threeds_store_connections{state="opening"}`,
				"threeds_store_acquires_waited_total", "threeds_store_acquire_wait_seconds_total", "threeds_store_acquires_cancelled_total",
			},
			never: "threeds_store_writes_total",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var p rig.Plan
			if tt.at != nil {
				at := tt.at(t)
				p.Change = func(cfg *server.Config) { cfg.StoreURL = at }
			}
			s := rig.StartSite(t, ca, rig.NewWire(t, ca), p)
			got := s.Metrics()
			for _, metric := range slices.Concat(tt.positive, tt.others) {
				if value, ok := got[metric]; !ok {
					t.Errorf("/metrics lacks %s", metric)
				} else if value <= 0 && slices.Contains(tt.positive, metric) {
					t.Errorf("%s is %v", metric, value)
				}
			}
			if name == "postgres" && got["threeds_store_connections_max"] != 7 {
				t.Errorf("threeds_store_connections_max is %v, want 7", got["threeds_store_connections_max"])
			}
			if got["threeds_store_writes_total"] < got["threeds_store_commits_total"] {
				t.Errorf("%v writes in %v commits", got["threeds_store_writes_total"], got["threeds_store_commits_total"])
			}
			if _, ok := got[tt.never]; ok {
				t.Errorf("/metrics has %s", tt.never)
			}
		})
	}
}
