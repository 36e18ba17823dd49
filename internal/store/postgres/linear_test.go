package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openthreeds/threeds/internal/store/linear"
	"github.com/openthreeds/threeds/internal/store/postgres/pgtest"
)

// linearCalls is how many calls the test of linearizability makes: make linear asks
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

// openHasty opens a store whose calls may take so little time that even the first
// fails at times.
func openHasty(t *testing.T, url string, opt Options) (db *DB) {
	t.Helper()
	eventually(t, "Open", func() (err error) {
		db, err = Open(t.Context(), url, opt)
		return err
	})
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
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

// setClock makes the clock of a test show a time.
func (c *clock) setClock(o operator) func(to int64) error {
	return func(to int64) error {
		return o.exec(fmt.Sprintf(`UPDATE public.test_clock SET ms = %d`, to))
	}
}

// TestLinear has five nodes on one database. One gives up on calls soon, one on
// statements, one loses connections when its writes are done, and one works at the
// isolation level where the server refuses with 40001 what others have changed.
func TestLinear(t *testing.T) {
	c := newClockAt(t, pgtest.Start(t))
	url := c.server.Schema(t)
	impatient := c.options()
	impatient.Timeout = 100 * time.Millisecond
	m := newMiddleman(t, c.server.Address())
	const conns = "&pool_max_conns=6"
	nodes := []*DB{
		openAt(t, url+conns, c.options()),
		openHasty(t, url+conns, impatient),
		openHasty(t, url+conns+"&statement_timeout=100", c.options()),
		openAt(t, replaceHost(t, url, m.Addr().String())+conns, c.options()),
		openAt(t, url+conns+"&default_transaction_isolation=repeatable%20read", c.options()),
	}
	operator := newOperator(t, url)
	known := make([]linear.Known, len(nodes))
	linear.Run(t, linear.Bed{
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
					m.armed.Store([]int32{beforeAnswer, amidAnswer, beforeCommit, amidCommit}[i%4])
					for range 100 {
						if m.armed.Load() == never {
							break
						}
						time.Sleep(time.Millisecond)
					}
				}
				m.armed.Store(never)
				return nil
			}},
			{Name: "tables locked", Every: 2, Do: func() error {
				table := []string{"txns", "leases", "api_keys"}[rand.IntN(3)]
				return operator.exec(`BEGIN; LOCK TABLE ` + table + ` IN EXCLUSIVE MODE; SELECT pg_sleep(0.15); COMMIT`)
			}},
		},
	}, linearCalls(t), linear.Artifacts()).Expect(t)
}

// TestLinearAsynchronous is the control: commits that do not wait for the disk, and
// a crash.
func TestLinearAsynchronous(t *testing.T) {
	c := newClock(t)
	url := c.server.Schema(t)
	db := openAt(t, url, c.options())
	cfg := db.pool.Config()
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `SET synchronous_commit = off`)
		return err
	}
	db.pool.Close()
	var err error
	if db.pool, err = pgxpool.NewWithConfig(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	report := linear.Run(t, linear.Bed{
		Do:    func(ctx context.Context, _ int, call linear.Call) linear.Answer { return call.On(ctx, db) },
		Nodes: 1, Now: c.at.UnixMilli(), Pass: c.setClock(newOperator(t, url)),
		Faults: []linear.Fault{{Name: "server halted", Every: 1, Do: crash(c.server)}},
	}, 20_000, t.TempDir())
	if len(report.Violations) == 0 {
		t.Error("writes that a crash has taken are not noticed")
	}
}
