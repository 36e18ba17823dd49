package postgres_test

import (
	"context"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/state/store/postgres"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/testing/linear"
)

// TestLinearCitus is TestLinear on the tables of a cluster of Citus, with the faults that its users have: sessions end
// and statements are cancelled, on the coordinator and on the workers.
func TestLinearCitus(t *testing.T) {
	at := edit(t, pgtest.Citus(t), func(u *url.URL) {
		q := u.Query()
		q.Set("search_path", q.Get("search_path")+",pg_catalog") // the function of the test comes first
		u.RawQuery = q.Encode()
	})
	workers := workersOf(t, at)
	operator := newOperator(t, at)
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	setClock := func(to int64) error {
		return operator.exec(fmt.Sprintf(`CREATE OR REPLACE FUNCTION statement_timestamp() RETURNS timestamptz LANGUAGE sql STABLE
			AS 'SELECT to_timestamp(%d / 1000.0)'`, to))
	}
	if err := setClock(now.UnixMilli()); err != nil {
		t.Fatal(err)
	}
	node := func(url string, opt postgres.Options) *postgres.DB {
		opt.Engine = postgres.Citus
		return openHasty(t, url+"&pool_max_conns=6", opt)
	}
	nodes := []*postgres.DB{
		node(at, patient), node(at, patient), node(at, postgres.Options{Timeout: 200 * time.Millisecond}), node(at+"&statement_timeout=100", patient),
	}
	onEach := func(urls []string, statement string) func() error {
		return func() error {
			for _, url := range urls {
				if err := execOnce(url, statement); err != nil {
					return err
				}
			}
			return nil
		}
	}
	const others = `pid <> pg_backend_pid() AND backend_type = 'client backend'`
	known := make([]linear.Known, len(nodes))
	linear.Run(t, linear.Bed{
		Do: func(ctx context.Context, node int, call linear.Call) linear.Answer {
			return call.On(ctx, known[node].Of(nodes[node]))
		},
		Nodes: len(nodes), Now: now.UnixMilli(), Pass: setClock,
		Faults: []linear.Fault{
			{Name: "sessions ended", Every: 1, Do: onEach([]string{at}, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE application_name = 'threeds' AND random() < 0.5`)},
			{Name: "statements cancelled", Every: 1, Do: onEach([]string{at}, `SELECT pg_cancel_backend(pid) FROM pg_stat_activity
				WHERE application_name = 'threeds' AND state = 'active'`)},
			{Name: "sessions of workers ended", Every: 1, Do: onEach(workers, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
				WHERE `+others+` AND random() < 0.5`)},
			{Name: "statements of workers cancelled", Every: 1, Do: onEach(workers, `SELECT pg_cancel_backend(pid) FROM pg_stat_activity
				WHERE `+others+` AND state = 'active'`)},
		},
	}, linearCalls(t), linear.Artifacts()).Expect(t)
}

// workersOf returns the URLs of the workers of a cluster.
func workersOf(t *testing.T, at string) (urls []string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context()) // nothing is at stake any more
	result, err := conn.Query(t.Context(), `SELECT nodename || ':' || nodeport FROM pg_dist_node WHERE groupid <> 0`)
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := pgx.CollectRows(result, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range hosts {
		urls = append(urls, edit(t, at, func(u *url.URL) { u.Host = host }))
	}
	return urls
}

// execOnce runs a statement on a connection of its own.
func execOnce(url, statement string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx) // nothing is at stake any more
	_, err = conn.Exec(ctx, statement)
	return err
}
