package postgres

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// A citusClock is a clock of a cluster, which goes only when told to. Each server has it in a
// function that is replaced.
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
	testContract(t, pgtest.Citus, Options{Engine: Citus, Timeout: time.Minute, clock: c.name}, c.now, c.pass)
}

// TestCitusIsRefusedWhereItIsNot: a database without the extension is not one of Citus.
func TestCitusIsRefusedWhereItIsNot(t *testing.T) {
	url := pgtest.Get(t).Schema(t)
	expectRefusal(t, url, Citus, "does not have the extension")
	openAt(t, url, Options{})
	expectRefusal(t, url, Citus, "does not have the extension")
}

// expectRefusal fails if a store is opened, or refused without these words.
func expectRefusal(t *testing.T, url string, engine Engine, words string) {
	t.Helper()
	db, err := Open(t.Context(), url, Options{Engine: engine})
	if err == nil {
		_ = db.Close()
	}
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("Open of engine %q: %v, want %q", engine, err, words)
	}
}

// TestCitusEngineHasToFit: the engine has to be what the tables were made with, the host a coordinator, the user one
// who may distribute, and a worker must not acknowledge what it has not on its disk.
func TestCitusEngineHasToFit(t *testing.T) {
	distributed := pgtest.Citus(t)
	openAt(t, distributed, Options{Engine: Citus})
	openAt(t, distributed, Options{Engine: Citus})
	expectRefusal(t, distributed, Plain, "are distributed by Citus")

	plain := pgtest.Citus(t)
	openAt(t, plain, Options{})
	expectRefusal(t, plain, Citus, "not distributed")

	conn := connect(t, distributed)
	exec := func(statement string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement, args...); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	result, err := conn.Query(t.Context(), `SELECT nodename || ':' || nodeport FROM pg_dist_node WHERE groupid <> 0`)
	if err != nil {
		t.Fatal(err)
	}
	workers, err := pgx.CollectRows(result, pgx.RowTo[string])
	if err != nil || len(workers) == 0 {
		t.Fatalf("workers: %q, %v", workers, err)
	}
	expectRefusal(t, replaceHost(t, distributed, workers[0]), Citus, "is a worker of Citus")

	const role = "threeds_test_role"
	exec(`DROP ROLE IF EXISTS ` + role)
	exec(`CREATE ROLE ` + role + ` LOGIN`)
	t.Cleanup(func() { execOnce(t, distributed, `DROP OWNED BY `+role+`; DROP ROLE `+role) })
	foreign := pgtest.Citus(t)
	asRole := replaceUser(t, foreign, role)
	exec(`GRANT USAGE ON SCHEMA ` + schemaOf(foreign) + ` TO ` + role)
	expectRefusal(t, asRole, Citus, "may not make distributed tables")
	exec(`GRANT CREATE ON SCHEMA ` + schemaOf(foreign) + ` TO ` + role)
	for _, step := range []struct{ change, undo, words string }{
		{"NOLOGIN", "LOGIN", "reaches no worker as the user"},
		{"SET synchronous_commit = off", "RESET synchronous_commit", "acknowledged results could be lost"},
	} {
		onWorkers := func(change string) {
			for _, worker := range workers {
				execOnce(t, replaceHost(t, distributed, worker), `SET citus.enable_ddl_propagation = off; ALTER ROLE `+role+` `+change)
			}
		}
		onWorkers(step.change)
		expectRefusal(t, asRole, Citus, step.words)
		onWorkers(step.undo)
	}
	openAt(t, asRole, Options{Engine: Citus})
}

// execOnce runs statements on a connection of its own, also when the test is over.
func execOnce(t *testing.T, url, statements string) {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx) // nothing is at stake any more
	if _, err := conn.Exec(ctx, statements); err != nil {
		t.Errorf("%s: %v", statements, err)
	}
}

// replaceUser returns the URL with another user.
func replaceUser(t *testing.T, text, user string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(user)
	return u.String()
}
