package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// connect opens a plain connection until the test ends.
func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(ctx) })
	return conn
}

// TestMigrate plays the next release: its node brings the schema up to date while a node of this release goes on
// working, and that one can be started again.
func TestMigrate(t *testing.T) {
	old, url := openNew(t)
	ctx := t.Context()
	if err := old.Create(ctx, txn("before")); err != nil {
		t.Fatal(err)
	}
	next := append(migrations[:len(migrations):len(migrations)], `ALTER TABLE txns ADD COLUMN more text`, `CREATE TABLE further (id text)`)
	for range 2 {
		if err := migrate(ctx, connect(t, url), next, compatibleFrom); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"before", "after"} {
		if id == "after" {
			if err := old.Create(ctx, txn(id)); err != nil {
				t.Errorf("Create by the older node: %v", err)
			}
		}
		if err := old.Update(ctx, store.Txn{ID: id}, func(t *store.Txn) error { t.State = "final"; return nil }); err != nil {
			t.Errorf("Update by the older node: %v", err)
		}
	}
	if err := old.Ping(ctx); err != nil {
		t.Errorf("Ping by the older node: %v", err)
	}
	again := openAt(t, url, Options{})
	if err := again.Create(ctx, txn("again")); err != nil {
		t.Errorf("Create by the older node, started again: %v", err)
	}
}

// TestD103OlderBuildIsRefused: a schema that says that builds of this version cannot use it is not opened, and stays as
// it is.
func TestD103OlderBuildIsRefused(t *testing.T) {
	_, url := openNew(t)
	ctx := t.Context()
	next := append(migrations[:len(migrations):len(migrations)], `ALTER TABLE txns RENAME data TO content`)
	if err := migrate(ctx, connect(t, url), next, len(next)); err != nil {
		t.Fatal(err)
	}
	db, err := Open(ctx, url, Options{})
	if err == nil {
		_ = db.Close()
	}
	want := fmt.Sprintf("schema version %d, which builds of version %[1]d and later can use, and this one is of version %d;",
		len(next), len(migrations))
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Open of a schema that is not for this build: %v, want %q", err, want)
	}
	if err := migrate(ctx, connect(t, url), next, 1); err != nil {
		t.Errorf("the newer build: %v", err)
	}
	var version, from int
	if err := connect(t, url).QueryRow(ctx, sqlVersion).Scan(&version, &from); err != nil || from != len(next) {
		t.Errorf("compatible_from is %d, %v, want %d", from, err, len(next))
	}
}

// TestMigrateFails: of steps that fail nothing stays.
func TestMigrateFails(t *testing.T) {
	url := pgtest.Get(t).Schema(t)
	conn := connect(t, url)
	bad := append(migrations[:len(migrations):len(migrations)], `CREATE TABLE x (); SELECT 1/0`)
	if err := migrate(t.Context(), conn, bad, compatibleFrom); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("migration %d", len(bad))) {
		t.Errorf("a migration that fails: %v", err)
	}
	var n int
	err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()`).Scan(&n)
	if err != nil || n != 0 {
		t.Errorf("%d tables are there, %v", n, err)
	}
	openAt(t, url, Options{})
}

// TestMigrationHasTime: a migration may take longer than a call, and nodes of all releases use the same lock for it.
func TestMigrationHasTime(t *testing.T) {
	url := pgtest.Get(t).Schema(t)
	conn := connect(t, url)
	ctx := t.Context()
	if _, err := conn.Exec(ctx, `SET statement_timeout = '4500ms'`); err != nil {
		t.Fatal(err)
	}
	step := `CREATE TABLE seen AS SELECT current_setting('statement_timeout') AS time,
		(SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory' AND objid = 1029619790) AS locks`
	if err := migrate(ctx, conn, []string{step}, 1); err != nil {
		t.Fatal(err)
	}
	var limit string
	var locks int
	if err := conn.QueryRow(ctx, `SELECT time, locks FROM seen`).Scan(&limit, &locks); err != nil || limit != "50s" || locks != 1 {
		t.Errorf("a migration has %s for a statement and %d locks, %v; want 50s and one", limit, locks, err)
	}
}

// TestVersionNotReadable: a user who may not read the version of a database gets that as the error, and not that the
// user may not make tables.
func TestVersionNotReadable(t *testing.T) {
	server := pgtest.Get(t)
	_, url := openNew(t)
	_, schema, _ := strings.Cut(url, "search_path=")
	schema, _, _ = strings.Cut(schema, ",")
	t.Cleanup(func() { server.Exec(t, url, "DROP OWNED BY reads_nothing; DROP ROLE reads_nothing") })
	server.Exec(t, url, "CREATE ROLE reads_nothing LOGIN; GRANT USAGE ON SCHEMA "+schema+" TO reads_nothing")
	db, err := Open(t.Context(), as(t, url, "reads_nothing"), Options{})
	if err == nil {
		_ = db.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "permission denied for table schema_version") {
		t.Errorf("Open: %v, want that schema_version may not be read", err)
	}
}

// TestOpenAtOnce starts a crowd of processes with one new database, and then lets them claim the same ids.
func TestOpenAtOnce(t *testing.T) {
	url := pgtest.Get(t).Schema(t) + "&pool_max_conns=4"
	var wg sync.WaitGroup
	var won [20]atomic.Int32
	for range 8 {
		wg.Go(func() {
			db, err := Open(t.Context(), url, Options{})
			if err != nil {
				t.Error(err)
				return
			}
			for i := range won {
				switch err := db.Create(t.Context(), txn(string(rune('a'+i)))); {
				case err == nil:
					won[i].Add(1)
				case err != store.ErrExists:
					t.Errorf("Create: %v", err)
				}
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range won {
		if n := won[i].Load(); n != 1 {
			t.Errorf("id %d was claimed %d times, want once", i, n)
		}
	}
}

// TestPartitioned makes partitions as the manual says, and sees all at work.
func TestPartitioned(t *testing.T) {
	db, url := openNew(t)
	manual, err := os.ReadFile("../../../../docs/operating/database.md")
	if err != nil {
		t.Fatal(err)
	}
	_, sql, _ := strings.Cut(string(manual), "```sql\n")
	sql, _, ok := strings.Cut(sql, "```\n")
	if !ok {
		t.Fatal("the manual has lost its statements")
	}
	ctx := t.Context()
	x := txn("before")
	if err := db.Create(ctx, x); err != nil {
		t.Fatal(err)
	}
	pgtest.Get(t).Exec(t, url, sql)
	for i := range 40 {
		old := txn(fmt.Sprint("old", i))
		old.Expires = time.Now().Add(-time.Second)
		if err := errors.Join(db.Create(ctx, old), db.Create(ctx, txn(fmt.Sprint("new", i)))); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, url, `SELECT count(DISTINCT tableoid) FROM txns`); n != 4 {
		t.Errorf("%d partitions hold something, want 4", n)
	}
	if n, err := db.Sweep(ctx, time.Now()); n != 40 || err != nil {
		t.Errorf("Sweep = %d, %v; want 40", n, err)
	}
	if err := db.Create(ctx, x); !errors.Is(err, store.ErrExists) {
		t.Errorf("Create of an id from before: %v, want ErrExists", err)
	}
	if err := db.Update(ctx, store.Txn{ID: "before"}, func(t *store.Txn) error { t.State = "final"; return nil }); err != nil {
		t.Errorf("Update: %v", err)
	}
	openAt(t, url, Options{})
}

// sessionOf returns a setting of the sessions of a store.
func sessionOf(t *testing.T, db *DB, name string) (value string) {
	t.Helper()
	conn, err := db.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if err := conn.QueryRow(t.Context(), `SELECT current_setting($1)`, name).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// TestSession: whatever server, role and URL say, commits wait for the disk.
func TestSession(t *testing.T) {
	server := pgtest.Get(t)
	_, url := openNew(t)
	setting := func(url, name string) string {
		t.Helper()
		return sessionOf(t, openAt(t, url, Options{}), name)
	}
	defer server.Exec(t, url, `ALTER ROLE threeds RESET synchronous_commit`)
	for given, want := range map[string]string{"off": "on", "local": "on", "remote_write": "on", "on": "on", "remote_apply": "remote_apply"} {
		server.Exec(t, url, `ALTER ROLE threeds SET synchronous_commit = `+given)
		if got := setting(url, "synchronous_commit"); got != want {
			t.Errorf("synchronous_commit is %s where the role has %s, want %s", got, given, want)
		}
		db, err := Open(t.Context(), url+"&synchronous_commit="+given, Options{})
		if good := given == want; (err == nil) != good {
			t.Errorf("Open with synchronous_commit=%s in the URL: %v", given, err)
		}
		if err == nil {
			_ = db.Close()
		}
	}
	defer server.Exec(t, url, `ALTER ROLE threeds RESET default_transaction_isolation`)
	server.Exec(t, url, `ALTER ROLE threeds SET default_transaction_isolation = 'serializable'`)
	const isolation = "default_transaction_isolation"
	if got := setting(url+"&"+isolation+"=repeatable%20read", isolation); got != "repeatable read" {
		t.Errorf("isolation is %s, want that of the URL", got)
	}
	for name, want := range map[string]string{
		isolation: "read committed", "application_name": "threeds", "statement_timeout": "4500ms", "idle_in_transaction_session_timeout": "5s",
	} {
		if got := setting(url, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"application_name", "statement_timeout"} {
		if got := setting(url+"&"+name+"=1234ms", name); got != "1234ms" {
			t.Errorf("%s is %q, want that of the URL", name, got)
		}
	}
	db := openAt(t, url, Options{Timeout: 3 * time.Second})
	limit := ""
	err := db.transact(t.Context(), "test", func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT current_setting('statement_timeout')`).Scan(&limit)
	})
	if err != nil || limit != "27s" {
		t.Errorf("statement_timeout in a transaction is %q, %v; want ten times that of a call", limit, err)
	}
	if limit := sessionOf(t, db, "statement_timeout"); limit != "2700ms" {
		t.Errorf("statement_timeout after it is %q", limit)
	}
}

// TestOpenFails: what cannot be opened is said without a secret.
func TestOpenFails(t *testing.T) {
	_, good := openNew(t)
	for _, url := range []string{
		"", "postgres://threeds:hunter2@127.0.0.1:1/x?sslmode=disable", "postgres://threeds:hunter2@127.0.0.1/x?sslmode=maybe",
		strings.Replace(good, "/postgres?", "/nothing?", 1), good + "&search_path=nowhere", good + "&pool_max_conns=none",
	} {
		db, err := Open(t.Context(), url, Options{})
		if err == nil {
			t.Errorf("Open(%q) is fine", url)
			_ = db.Close()
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Open quotes the password: %v", err)
		}
	}
}

// TestStandbyRefused: a server that takes no writes is not used, and one that stops taking writes is left.
func TestStandbyRefused(t *testing.T) {
	server := pgtest.Get(t)
	db, url := openNew(t)
	defer server.Exec(t, url, `ALTER ROLE threeds RESET default_transaction_read_only`)
	server.Exec(t, url, `ALTER ROLE threeds SET default_transaction_read_only = on`)
	if other, err := Open(t.Context(), url, Options{}); err == nil {
		t.Error("Open of a server that only reads is fine")
		_ = other.Close()
	}
	conn, err := db.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `SET default_transaction_read_only = on`); err != nil {
		t.Fatal(err)
	}
	conn.Release()
	server.Exec(t, url, `BEGIN; SET TRANSACTION READ WRITE; ALTER ROLE threeds RESET default_transaction_read_only; COMMIT`)
	if err := db.Create(t.Context(), txn("a")); err != nil {
		t.Errorf("Create, begun on a connection that only reads: %v, want it done on another", err)
	}
}
