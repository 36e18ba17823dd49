package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/edge/console"
	"github.com/openthreeds/threeds/internal/edge/shed"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/rotation"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/postgres"
	"github.com/openthreeds/threeds/internal/state/store/sqlite"
)

// An observer counts what the engine tells.
type observer struct{ *obs.Metrics }

// NewObserver returns what an engine tells its metrics through.
func NewObserver(m *obs.Metrics) auth.Observer { return observer{m} }

func (o observer) RulesChecked(merchant, schemeName string, findings []*scheme.Finding) {
	broken := make([]obs.BrokenRule, len(findings))
	for i, f := range findings {
		broken[i] = obs.BrokenRule{Element: f.Element, Rule: string(f.Rule), Since: f.Since.String(), InForce: f.InForce}
	}
	o.Metrics.RulesChecked(merchant, schemeName, broken)
}

// registerLoadMetrics adds metrics for the share of each priority that a load shedder admits, and for the waits that it
// measures.
func registerLoadMetrics(m *obs.Metrics, gate *shed.LoadShedder) {
	for _, p := range shed.Priorities() {
		m.Gauge("threeds_admitted_share",
			"Share of requests that is admitted now, by priority: low, middle, high. Less than 1 is overload.",
			"priority", p.String(), func() float64 { return gate.AdmittedShare(p) })
	}
	gate.EachWait(func(name string, wait func() time.Duration) {
		m.Gauge("threeds_wait_seconds", "How long work waits, by what for.", "for",
			name, func() float64 { return wait().Seconds() })
	})
}

// registerMetrics adds the metrics of the server itself.
func (s *Server) registerMetrics() {
	s.metrics.Gauge("threeds_build_info", "1, with the version of the program.", "version",
		s.cfg.Release, func() float64 { return 1 })
	s.metrics.Info("threeds_config_info",
		"1, with the hash of all that must be the same in the configuration of each node.", []string{"hash"},
		func() []string {
			if hash := s.activeRuntime().cfg.ConfigHash; hash != "" {
				return []string{hash}
			}
			return nil
		})
	s.metrics.Info("threeds_key_file_info",
		"1, with the ids of the secrets in the key file.", []string{"current", "previous", "next"}, func() []string {
			ids := s.ring.Load().KeyIDs()
			return []string{ids.Current, ids.Previous, ids.Next}
		})
	s.metrics.Info("threeds_journal_key_file_info",
		"1, with the id of the keys in the file of the journal.", []string{"id"}, func() []string {
			if s.trailKeys == nil {
				return nil
			}
			return []string{s.trailKeys.ID()}
		})
	s.metrics.Gauge("threeds_ready", "1 while /readyz is 200, 0 otherwise.", "", "", func() float64 {
		if s.console.Ready() {
			return 1
		}
		return 0
	})
	s.metrics.Degraded(func() map[string]bool {
		parts := map[string]bool{}
		for _, c := range s.readyConditions() {
			problem, _ := c.Check()
			parts[c.Name] = problem != ""
		}
		return parts
	})
	s.metrics.Counter("threeds_store_records_refused_total",
		"Times that a transaction was refused because its row in the store is not as it was sealed.",
		func() float64 { return float64(s.refusedRecords.Load()) })
	s.metrics.Gauge("threeds_clock_seconds", "The time by which ids and times to live are stamped.", "", "",
		func() float64 { return float64(s.timestamp().UnixMilli()) / 1000 })
}

// identity is what this node runs with, for /readyz.
func (s *Server) identity() console.Identity {
	cfg := &s.activeRuntime().cfg
	id := console.Identity{Config: cfg.ConfigHash, KeyFile: s.ring.Load().KeyIDs(), Build: cfg.Release}
	if s.trailKeys != nil {
		id.JournalKeyFile = s.trailKeys.ID()
	}
	return id
}

// countingHooks counts what happens at the directories. An exchange is counted by its outcome, in a word. One that was
// not begun took no time that says anything of the directory.
func countingHooks(m *obs.Metrics) directory.Hooks {
	return directory.Hooks{
		Exchanged: func(scheme, message string, took time.Duration, err error) {
			outcome, begun := "ok", true
			if bad, failed := errors.AsType[*directory.Error](err); failed {
				outcome, begun = bad.Kind.String(), bad.Kind != directory.Open && bad.Kind != directory.Busy
			}
			m.Request(scheme, message, outcome)
			if begun {
				m.Took(scheme, message, took)
			}
		},
		Refreshed: m.Ranges,
		Held:      m.Held,
		Dropped:   func(scheme, message string) { m.Request(scheme, message, "dropped") },
		Opened:    m.Open,
	}
}

// readyConditions are what readiness depends on.
func (s *Server) readyConditions() []console.Condition {
	rt := s.activeRuntime()
	all := append(storeConditions(s.db, &s.writes, rt.cards), keysCondition(s.apiKeys, s.follower),
		s.journalKeysCondition(), s.trailCondition(), webhooksCondition(s.hooks), s.configCondition(),
		siemCondition(s.siem), keyHelperCondition(s.cfg.KeyHelper))
	if s.journal != nil {
		all = append(all, journalCondition(s.journal), evidenceCondition(s.journal))
	}
	if rt.cfg.Certificates != nil {
		all = append(all, certificateConditions(rt.cfg.Certificates, s.cfg.Now)...)
	}
	return all
}

// certificateConditions are those that depend on the certificates of a part.
func certificateConditions(c *config.Certificates, now func() time.Time) []console.Condition {
	var all []console.Condition
	for _, part := range c.Parts() {
		all = append(all, console.Condition{Name: part, Check: func() (string, bool) { return c.Faults(now())[part], true }})
	}
	return all
}

// storeConditions are the conditions of readiness about the store and the card ranges.
func storeConditions(db store.Store, writes *writeWatch, cards *ranges.Schemes) []console.Condition {
	all := []console.Condition{{
		Name: "store",
		Check: func() (string, bool) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			switch err := db.Ping(ctx); {
			case errors.Is(err, store.ErrReadOnly):
				return "may only be read: its user lacks privileges", false
			case err != nil:
				return "cannot be reached", false
			}
			return writes.problem(), true
		},
	}, {
		Name: "directories",
		Check: func() (string, bool) {
			if !cards.AnyTried() {
				return "none has been asked for its card ranges yet", false
			}
			return "", false
		},
	}}
	for _, scheme := range cards.Names() {
		all = append(all, console.Condition{Name: "ranges of " + scheme, Check: func() (string, bool) {
			switch t := cards.Table(scheme); {
			case t != nil && t.Len() > 0:
				return "", true
			case cards.Pending(scheme):
				return "none yet: requests for cards that no other directory holds are asked to try again", true
			}
			return "none: its cards count as not enrolled", true
		}})
	}
	return all
}

// registerStoreMetrics adds the metrics of a store.
func registerStoreMetrics(m *obs.Metrics, st store.Store) {
	switch db := st.(type) {
	case *postgres.DB:
		RegisterPoolMetrics(m, db.Stat)
	case *sqlite.DB:
		m.Counter("threeds_store_writes_total", "Writes that are done.", func() float64 { return float64(db.Stat().Writes) })
		m.Counter("threeds_store_commits_total",
			"Commits that those took.", func() float64 { return float64(db.Stat().Commits) })
		m.Counter("threeds_store_commits_failed_total", "Commits that failed, with all writes in them.",
			func() float64 { return float64(db.Stat().Failed) })
		m.Gauge("threeds_store_writes_waiting", "Writes whose commit has not begun.", "", "",
			func() float64 { return float64(db.Stat().Waiting) })
	}
}

// RegisterPoolMetrics adds the metrics of a pool of connections to a database.
func RegisterPoolMetrics(m *obs.Metrics, stat func() *pgxpool.Stat) {
	const connections, help = "threeds_store_connections", "Connections to the database, by what they do."
	m.Gauge(connections, help, "state", "in_use", func() float64 { return float64(stat().AcquiredConns()) })
	m.Gauge(connections, help, "state", "idle", func() float64 { return float64(stat().IdleConns()) })
	m.Gauge(connections, help, "state", "opening", func() float64 { return float64(stat().ConstructingConns()) })
	m.Gauge("threeds_store_connections_max", "How many connections there may be.", "", "",
		func() float64 { return float64(stat().MaxConns()) })
	m.Counter("threeds_store_connections_opened_total", "Connections that were opened.",
		func() float64 { return float64(stat().NewConnsCount()) })
	m.Counter("threeds_store_acquires_total", "Times that a call got a connection.",
		func() float64 { return float64(stat().AcquireCount()) })
	m.Counter("threeds_store_acquires_waited_total", "Those of them that had to wait for one.",
		func() float64 { return float64(stat().EmptyAcquireCount()) })
	m.Counter("threeds_store_acquire_wait_seconds_total", "How long they waited in all.",
		func() float64 { return stat().EmptyAcquireWaitTime().Seconds() })
	m.Counter("threeds_store_acquires_cancelled_total", "Times that a call gave up before it got a connection.",
		func() float64 { return float64(stat().CanceledAcquireCount()) })
}

// keysCondition says whether API keys can be judged. A node that can judge none is not for
// requests: most likely its key file is that of another store.
func keysCondition(book *account.KeyCache, follower *rotation.Follower) console.Condition {
	return console.Condition{Name: "keys", Check: func() (string, bool) {
		problem := ""
		if follower != nil {
			problem = follower.Problem()
		}
		switch good, refused := book.Count(); {
		case refused == 0:
			return problem, true
		case good == 0 && problem != "":
			return fmt.Sprintf("none of the %d API keys in the store can be checked: %s", refused, problem), false
		case good == 0:
			return fmt.Sprintf(
				"none of the %d API keys in the store can be checked: the key file (keys) is that of another store", refused), false
		default:
			return fmt.Sprintf(
				"%d of %d API keys in the store cannot be checked: their rows were changed, or the key file (keys) lacks their secret",
				refused, good+refused), true
		}
	}}
}

// registerKeyMetrics adds to the metrics how many API keys and disabled merchants there are, and how many nodes share
// the limits of merchants.
func registerKeyMetrics(m *obs.Metrics, book *account.KeyCache, nodes func() int) {
	const keys, help = "threeds_api_keys",
		"API keys that are good, and rows of the store that are refused because they are not as they were sealed."
	m.Gauge(keys, help, "state", "good", func() float64 { good, _ := book.Count(); return float64(good) })
	m.Gauge(keys, help, "state", "refused", func() float64 { _, refused := book.Count(); return float64(refused) })
	m.Gauge("threeds_nodes", "Nodes that serve with the store, as this node knows. They share the limits of merchants.",
		"", "", func() float64 { return float64(nodes()) })
	m.Gauge("threeds_merchants_disabled", "Merchants that are disabled, as this node knows: it refuses their requests.",
		"", "", func() float64 { return float64(book.CountDisabled()) })
}
