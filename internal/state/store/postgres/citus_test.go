package postgres

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// A citusClock is a clock of a cluster, which goes only when told to. Each server has it in a function that is replaced.
type citusClock struct {
	t    *testing.T
	conn *pgx.Conn
	name string
	mu   sync.Mutex
	at   time.Time
}

func newCitusClock(t *testing.T) *citusClock {
	t.Helper()
	at := pgtest.Citus(t)
	c := &citusClock{t: t, conn: connect(t, at), name: schemaOf(at) + ".test_now()", at: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	c.pass(0)
	return c
}

// schemaOf returns the schema that a URL of a test names.
func schemaOf(url string) string {
	_, path, _ := strings.Cut(url, "search_path=")
	name, _, _ := strings.Cut(path, "%2C")
	return name
}

func (c *citusClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *citusClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
	statement := fmt.Sprintf(`CREATE OR REPLACE FUNCTION %s RETURNS bigint LANGUAGE sql STABLE AS 'SELECT %d::bigint'`, c.name, c.at.UnixMilli())
	if _, err := c.conn.Exec(c.t.Context(), statement); err != nil {
		c.t.Fatal(err)
	}
}

// TestCitusContract: tables that are distributed over the workers of a real cluster keep the contract of a store.
func TestCitusContract(t *testing.T) {
	c := newCitusClock(t)
	runContract(t, pgtest.Citus, Options{Engine: Citus, Timeout: time.Minute, clock: c.name}, c.now, c.pass)
}
