package postgres

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/base/leaktest"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	pgtest.Stop()
	if code == 0 {
		if err := leaktest.Wait(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// openAt opens a store until the test ends.
func openAt(t testing.TB, url string, opt Options) *DB {
	t.Helper()
	db, err := Open(t.Context(), url, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// openNew opens a new store.
func openNew(t testing.TB) (*DB, string) {
	t.Helper()
	url := pgtest.Get(t).Schema(t)
	return openAt(t, url, Options{}), url
}

// A clock of the server goes only when the test moves it.
type clock struct {
	t      *testing.T
	server *pgtest.Server
	url    string
	mu     sync.Mutex
	at     time.Time
	conn   *pgx.Conn // moves the clock; a connection for each time would cost more than what the stores do
}

func newClock(t *testing.T) *clock {
	t.Helper()
	return newClockAt(t, pgtest.Get(t))
}

func newClockAt(t *testing.T, s *pgtest.Server) *clock {
	t.Helper()
	c := &clock{t: t, server: s, url: s.Schema(t), at: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	s.Exec(t, c.url, `DROP TABLE IF EXISTS public.test_clock`)
	s.Exec(t, c.url, `CREATE TABLE public.test_clock AS SELECT $1::bigint AS ms`, c.at.UnixMilli())
	s.Exec(t, c.url, `CREATE OR REPLACE FUNCTION public.test_now() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT ms FROM public.test_clock'`)
	return c
}

func (c *clock) options() Options { return Options{Timeout: time.Minute, clock: "public.test_now()"} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
	if c.conn == nil {
		conn, err := pgx.Connect(c.t.Context(), c.url)
		if err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { _ = conn.Close(context.Background()) })
		c.conn = conn
	}
	if _, err := c.conn.Exec(c.t.Context(), `UPDATE public.test_clock SET ms = $1`, c.at.UnixMilli()); err != nil {
		c.t.Fatal(err)
	}
}

// TestContract runs the tests of the contract on two versions of PostgreSQL at the same time.
func TestContract(t *testing.T) {
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		c := newClock(t)
		testContract(t, c.server.Schema, c.options(), c.now, c.pass)
	})
	t.Run("PostgreSQL 18", func(t *testing.T) {
		t.Parallel()
		c := newClockAt(t, pgtest.Start18(t))
		testContract(t, c.server.Schema, c.options(), c.now, c.pass)
	})
}

// testContract checks the contract of a store. Each store of its tests has a schema of its own.
func testContract(
	t *testing.T, schema func(testing.TB) string, opt Options, now func() time.Time, pass func(time.Duration),
) {
	var mu sync.Mutex
	urls := make(map[store.Store]string)
	open := func(t testing.TB, url string) store.Store {
		db, err := Open(t.Context(), url, opt)
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		urls[db] = url
		return db
	}
	urlOf := func(s store.Store) string {
		mu.Lock()
		defer mu.Unlock()
		return urls[s]
	}
	storetest.Run(t, storetest.Backend{
		Open: func(t testing.TB) store.Store { return open(t, schema(t)) },
		Reopen: func(t testing.TB, s store.Store) store.Store {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			return open(t, urlOf(s))
		},
		Share: func(t testing.TB, s store.Store) store.Store { return open(t, urlOf(s)) },
		Now:   now, Pass: pass,
	})
}

// TestServerClock: without a clock of a test it is the server's.
func TestServerClock(t *testing.T) {
	db, _ := openNew(t)
	ctx := context.Background()
	for id, left := range map[string]time.Duration{"gone": -time.Second, "here": time.Hour} {
		if err := db.Create(ctx, store.Txn{ID: id, Expires: time.Now().Add(left)}); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Get(ctx, id); (err == nil) != (left > 0) {
			t.Errorf("Get of one with %v to live: %v", left, err)
		}
	}
	// A node whose clock is ahead removes nothing that is still alive here.
	if n, err := db.Sweep(ctx, time.Now().Add(2*time.Hour)); n != 1 || err != nil {
		t.Errorf("Sweep by a clock that is ahead = %d, %v; want 1", n, err)
	}
	if _, err := db.Get(ctx, "here"); err != nil {
		t.Errorf("Get after it: %v", err)
	}
	l, err := db.Acquire(ctx, "visa", "me", time.Hour)
	if left := time.Until(l.Expires); err != nil || left < 59*time.Minute || left > 61*time.Minute {
		t.Errorf("Acquire for an hour = %+v, %v", l, err)
	}
}

// replaceHost returns the URL with another address.
func replaceHost(t *testing.T, text, address string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = address
	return u.String()
}
