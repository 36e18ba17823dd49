// Package postgres_test checks whether the store in PostgreSQL is linearizable, see package linear, and whether a node
// can do all that it does with the privileges that the manual grants.
package postgres_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openthreeds/threeds/internal/base/leaktest"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/postgres"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/testing/linear"
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

// linearCalls is how many calls the test of linearizability makes: go -C testing run ./long linear asks
// for more than make test.
func linearCalls(t *testing.T) int {
	text := os.Getenv("LINEAR_CALLS")
	if text == "" {
		return 4000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("LINEAR_CALLS: %v", err)
	}
	return n
}

// A clock takes the place of the clock of a server, for the schema of one test: it stands still until it is set. The
// schema has a function statement_timestamp of its own, and its URL looks there before it looks in pg_catalog.
type clock struct {
	server *pgtest.Server
	url    string // of the schema
	at     time.Time
}

func newClock(t *testing.T, s *pgtest.Server) *clock {
	t.Helper()
	c := &clock{server: s, url: s.Schema(t) + ",pg_catalog", at: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	s.Exec(t, c.url, `CREATE TABLE test_clock AS SELECT $1::bigint AS ms`, c.at.UnixMilli())
	s.Exec(t, c.url, `CREATE FUNCTION statement_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
		'SELECT to_timestamp(ms / 1000.0) FROM `+c.schema()+`.test_clock'`)
	return c
}

// schema returns the name of the schema.
func (c *clock) schema() string {
	_, path, _ := strings.Cut(c.url, "search_path=")
	name, _, _ := strings.Cut(path, ",")
	return name
}

// setClock makes the clock show a time.
func (c *clock) setClock(o operator) func(to int64) error {
	return func(to int64) error {
		return o.exec(fmt.Sprintf(`UPDATE %s.test_clock SET ms = %d`, c.schema(), to))
	}
}

// patient are options for a node that waits as long as a slow machine needs.
var patient = postgres.Options{Timeout: time.Minute}

// openAt opens a store until the test ends.
func openAt(t testing.TB, url string, opt postgres.Options) *postgres.DB {
	t.Helper()
	db, err := postgres.Open(t.Context(), url, opt)
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

// openHasty opens a store whose calls may take so little time that even the first fails at times.
func openHasty(t *testing.T, url string, opt postgres.Options) (db *postgres.DB) {
	t.Helper()
	waittest.Until(t, "Open", func() bool {
		var err error
		db, err = postgres.Open(t.Context(), url, opt)
		return err == nil
	})
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// An operator has a connection of their own to the server, which the stores' faults
// spare.
type operator struct{ pool *pgxpool.Pool }

func newOperator(t *testing.T, url string) operator {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url+"&application_name=operator&pool_max_conns=1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return operator{pool}
}

// exec runs statements as one, again on a new connection if the old one broke.
func (o operator) exec(sql string) error {
	for range 2 {
		if _, err := o.pool.Exec(context.Background(), sql); err == nil {
			return nil
		}
	}
	_, err := o.pool.Exec(context.Background(), sql)
	return err
}

// crash ends the server at once and starts it again.
func crash(server *pgtest.Server) func() error {
	return func() error {
		if err := server.Halt(); err != nil {
			return err
		}
		return server.Start()
	}
}

// edit returns a URL that edit has changed.
func edit(t *testing.T, text string, edit func(u *url.URL)) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	edit(u)
	return u.String()
}

// TestLinear makes calls on nodes in the middle of faults: each call takes effect at one moment between its
// beginning and its end.
func TestLinear(t *testing.T) {
	runLinear(t, pgtest.Start(t), linearCalls(t)).Expect(t)
}

// TestLinearOnPostgreSQL18 is TestLinear with fewer calls: too few for each outcome, and enough for faults of most
// kinds. It is for the long form alone: make test runs the contract of the store on this version.
func TestLinearOnPostgreSQL18(t *testing.T) {
	if os.Getenv("LINEAR_CALLS") == "" {
		t.Skip("NOT TESTED: a second version of PostgreSQL under faults: go -C testing run ./long linear")
	}
	report := runLinear(t, pgtest.Start18(t), 1500)
	for _, page := range report.Violations {
		t.Errorf("no order explains %s", page)
	}
	if report.Outcomes[linear.Unknown] > report.Calls/4 || len(report.Faults) < 4 {
		t.Errorf("%v: want at most a quarter of unknown outcome, and at least 4 kinds of faults", report)
	}
}

// runLinear makes calls on five nodes that share one database. One gives up on calls soon, one on statements, one loses
// connections when its writes are done, and one works at the isolation level where the server refuses with 40001 what
// others have changed.
func runLinear(t *testing.T, server *pgtest.Server, calls int) linear.Report {
	t.Helper()
	c := newClock(t, server)
	impatient := postgres.Options{Timeout: 100 * time.Millisecond}
	m := pgtest.NewMiddleman(t, c.server.Address())
	const conns = "&pool_max_conns=6"
	nodes := []*postgres.DB{
		openAt(t, c.url+conns, patient),
		openHasty(t, c.url+conns, impatient),
		openHasty(t, c.url+conns+"&statement_timeout=100", patient),
		openAt(t, edit(t, c.url, func(u *url.URL) { u.Host = m.Addr().String() })+conns, patient),
		openAt(t, c.url+conns+"&default_transaction_isolation=repeatable%20read", patient),
	}
	operator := newOperator(t, c.url)
	known := make([]linear.Known, len(nodes))
	return linear.Run(t, linear.Bed{
		Do: func(ctx context.Context, node int, call linear.Call) linear.Answer {
			return call.On(ctx, known[node].Of(nodes[node]))
		},
		Nodes: len(nodes), Now: c.at.UnixMilli(), Pass: c.setClock(operator),
		Faults: []linear.Fault{
			{Name: "server halted", Every: 5, Do: crash(c.server)},
			{Name: "sessions ended", Every: 1, Do: func() error {
				return operator.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
					WHERE application_name = 'threeds' AND random() < 0.5`)
			}},
			{Name: "statements cancelled", Every: 1, Do: func() error {
				return operator.exec(`SELECT pg_cancel_backend(pid) FROM pg_stat_activity
					WHERE application_name = 'threeds' AND state = 'active'`)
			}},
			{Name: "answers lost", Every: 1, Do: func() error {
				for i := range 10 {
					m.Armed.Store([]int32{pgtest.BeforeAnswer, pgtest.AmidAnswer, pgtest.BeforeCommit, pgtest.AmidCommit}[i%4])
					for range 100 {
						if m.Armed.Load() == pgtest.Never {
							break
						}
						time.Sleep(time.Millisecond)
					}
				}
				m.Armed.Store(pgtest.Never)
				return nil
			}},
			{Name: "tables locked", Every: 2, Do: func() error {
				table := []string{"txns", "leases", "api_keys"}[rand.IntN(3)]
				return operator.exec(`BEGIN; LOCK TABLE ` + table + ` IN EXCLUSIVE MODE; SELECT pg_sleep(0.15); COMMIT`)
			}},
		},
	}, calls, linear.Artifacts())
}

// TestLinearAsynchronous is the control: commits that do not wait for the disk, and a crash.
func TestLinearAsynchronous(t *testing.T) {
	c := newClock(t, pgtest.Get(t))
	db := openAt(t, c.url, patient)
	c.server.Exec(t, c.url, `CREATE FUNCTION be_asynchronous() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM set_config('synchronous_commit', 'off', true);
			RETURN NULL;
		END $$`)
	for _, table := range []string{"txns", "api_keys", "leases"} {
		c.server.Exec(t, c.url, `CREATE TRIGGER be_asynchronous AFTER INSERT OR UPDATE OR DELETE ON `+table+`
			FOR EACH STATEMENT EXECUTE FUNCTION `+c.schema()+`.be_asynchronous()`)
	}
	report := linear.Run(t, linear.Bed{
		Do:    func(ctx context.Context, _ int, call linear.Call) linear.Answer { return call.On(ctx, db) },
		Nodes: 1, Now: c.at.UnixMilli(), Pass: c.setClock(newOperator(t, c.url)),
		Faults: []linear.Fault{{Name: "server halted", Every: 1, Do: crash(c.server)}},
	}, 20_000, t.TempDir())
	if len(report.Violations) == 0 {
		t.Error("writes that a crash has taken are not noticed")
	}
}

// privileges returns the SQL that docs/postgres.md has below "Privileges".
func privileges(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n## Privileges\n")
	_, rest, _ = strings.Cut(rest, "```sql\n")
	sql, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("docs/postgres.md has no SQL below Privileges")
	}
	return sql
}

// TestPrivileges: what the page says to grant is enough for a node that may not
// change tables, and such a node says so on a database that lacks them.
func TestPrivileges(t *testing.T) {
	c := newClock(t, pgtest.Get(t))
	server, at, schema := c.server, c.url, c.schema()
	openAt(t, at, patient)
	t.Cleanup(func() { server.Exec(t, at, "DROP OWNED BY threeds_node; DROP ROLE threeds_node") })
	server.Exec(t, at, "CREATE ROLE threeds_node LOGIN; GRANT SELECT ON test_clock TO threeds_node")
	for statement := range strings.SplitSeq(privileges(t), ";\n") {
		if strings.Contains(statement, "TO threeds_node") {
			server.Exec(t, at, strings.ReplaceAll(statement, "SCHEMA public", "SCHEMA "+schema))
		}
	}
	asNode := func(u *url.URL) { u.User = url.User("threeds_node") }
	db := openAt(t, edit(t, at, asNode), patient)
	ctx := context.Background()
	report := linear.Run(t, linear.Bed{
		Do:    func(ctx context.Context, _ int, c linear.Call) linear.Answer { return c.On(ctx, db) },
		Nodes: 1, Now: c.at.UnixMilli(), Pass: c.setClock(newOperator(t, at)),
	}, 500, t.TempDir())
	if n := report.Outcomes[linear.Unknown]; n > 0 || len(report.Violations) > 0 {
		t.Errorf("%d of %d calls failed", n, report.Calls)
	}
	if err := db.PutKey(ctx, store.Key{Hash: []byte("hash")}); err != nil {
		t.Error(err)
	}
	if err := db.ResealKey(ctx, []byte("hash"), nil, []byte("seal")); err != nil {
		t.Error(err)
	}
	if keys, err := db.Keys(ctx); err != nil || len(keys) == 0 {
		t.Errorf("Keys = %d, %v", len(keys), err)
	}
	if err := db.RevokeKey(ctx, []byte("hash")); err != nil {
		t.Error(err)
	}
	var rows []store.Row // of a backup
	for _, kind := range []string{store.RevokedRows, store.StateRows, store.RangeRows} {
		err := db.ViewRows(ctx, func(tx store.RowTx) error {
			return tx.Each(ctx, kind, func(row store.Row) error { rows = append(rows, row); return nil })
		})
		if err != nil {
			t.Error(err)
		}
		err = db.ChangeRows(ctx, func(tx store.RowTx) error { return tx.Clear(ctx, kind) })
		if err != nil {
			t.Error(err)
		}
	}
	err := db.ChangeRows(ctx, func(tx store.RowTx) error {
		for _, row := range rows {
			if err := tx.Add(ctx, row); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || len(rows) == 0 {
		t.Errorf("%d rows restored, %v", len(rows), err)
	}
	empty := edit(t, server.Schema(t), asNode)
	if _, err := postgres.Open(ctx, empty, postgres.Options{}); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("Open where there are no tables: %v, want that they may not be made", err)
	}
}
