package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openthreeds/threeds/internal/account"
	"github.com/openthreeds/threeds/internal/gate"
	"github.com/openthreeds/threeds/internal/keyring"
	"github.com/openthreeds/threeds/internal/obs"
	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/internal/store/postgres"
	"github.com/openthreeds/threeds/internal/store/sqlite"
)

// storeAt is where a store is: in a directory of this machine, or in a database
// that nodes share.
type storeAt struct {
	Dir      string
	Postgres string // URL; empty: Dir counts
}

// openStore opens a store, and makes what is not there yet.
func openStore(ctx context.Context, at storeAt) (store.Store, error) {
	if at.Postgres != "" {
		return opened(postgres.Open(ctx, at.Postgres, postgres.Options{}))
	}
	return opened(sqlite.Open(at.Dir, sqlite.Options{}))
}

// opened returns a nil interface with an error, not one that holds a nil S.
func opened[S store.Store](s S, err error) (store.Store, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// watchStore adds what a store tells of itself to the metrics.
func watchStore(m *obs.Metrics, st store.Store) {
	switch db := st.(type) {
	case *postgres.DB:
		watchPool(m, db.Stat)
	case *sqlite.DB:
		m.Counter("threeds_store_writes_total", "Writes that are done.", func() float64 { return float64(db.Stat().Writes) })
		m.Counter("threeds_store_commits_total", "Commits that those took.", func() float64 { return float64(db.Stat().Commits) })
		m.Counter("threeds_store_commits_failed_total", "Commits that failed, with all writes in them.",
			func() float64 { return float64(db.Stat().Failed) })
		m.Gauge("threeds_store_writes_waiting", "Writes whose commit has not begun.", "", "",
			func() float64 { return float64(db.Stat().Waiting) })
	}
}

// watchBook adds how many API keys there are to the metrics.
func watchBook(m *obs.Metrics, book *account.Book) {
	const keys, help = "threeds_api_keys", "API keys that are good, and rows of the store that are refused because they are not as they were sealed."
	m.Gauge(keys, help, "state", "good", func() float64 { good, _ := book.Count(); return float64(good) })
	m.Gauge(keys, help, "state", "refused", func() float64 { _, refused := book.Count(); return float64(refused) })
}

// storeWaits is by what factor work may wait longer for the store than for a processor.
// A write that just misses a commit waits for two, and a disk that takes 25 ms for a
// commit is slow, but not overloaded.
const storeWaits = 5

// queues are those by whose length and pace the gate tells overload: of the processor,
// and of a store that has one.
func queues(wait time.Duration, st store.Store) []gate.Queue {
	all := []gate.Queue{gate.Processor(wait)}
	if queue, ok := st.(interface {
		Queue() (waiting int, served uint64)
	}); ok {
		all = append(all, gate.Queue{Name: "store", Target: storeWaits * wait, Length: queue.Queue})
	}
	return all
}

// watchPool is watchStore for the connections to a database.
func watchPool(m *obs.Metrics, stat func() *pgxpool.Stat) {
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

// ring reads the key file. With a store in a directory a missing one is made, unless
// the store has API keys, which need the one that was lost. With a database all nodes
// must have the same, so no node makes one.
func (c *config) ring(ctx context.Context) (_ *keyring.Ring, err error) {
	if c.Store.URL.Postgres != "" {
		return c.loadRing()
	}
	if _, err := os.Stat(c.Keys); !errors.Is(err, fs.ErrNotExist) {
		return keyring.Load(c.Keys)
	}
	st, err := openStore(ctx, c.Store.URL)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return c.firstRing(ctx, st)
}

// firstRing reads the key file, and makes it if the store has no API keys yet. The
// key commands use it: with a database the first of them makes the file.
func (c *config) firstRing(ctx context.Context, st store.Store) (*keyring.Ring, error) {
	keys, err := st.Keys(ctx)
	if err != nil {
		return nil, err
	}
	if len(keys) > 0 {
		return c.loadRing()
	}
	return keyring.LoadOrCreate(c.Keys)
}

// loadRing reads a key file that must be there.
func (c *config) loadRing() (*keyring.Ring, error) {
	ring, err := keyring.Load(c.Keys)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return ring, err
	case c.Store.URL.Postgres != "":
		return nil, fmt.Errorf("%w (all nodes of one database have the same key file: copy it here; the first \"threeds key create\" makes it)", err)
	}
	return nil, fmt.Errorf("%w (the API keys in %s were hashed with it: put it back, or move that directory away to begin anew)", err, c.Store.URL.Dir)
}
