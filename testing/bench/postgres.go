//go:build unix

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/postgres"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/internal/state/store/sqlite"
)

// onPostgres measures what auth and rreq do with a PostgreSQL of its own on the
// same machine, and then what an authentication costs server and database, and
// what the database does when nothing else runs. The database is in the system's
// temporary directory.
func onPostgres(ctx context.Context, b *bench) (rows []row, err error) {
	server, err := pgtest.Run()
	if err != nil {
		return nil, err
	}
	defer server.Close()
	w, err := newTestbed(ctx, b, server.URL())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	conn, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	meter := &meter{conn: conn, pid: w.cmd.Process.Pid}

	if rows, err = w.measureAdded(ctx, b, "/auth with PostgreSQL", 6*time.Millisecond, 25*time.Millisecond); err != nil {
		return nil, err
	}
	costs, err := w.costs(ctx, b, meter)
	if err != nil {
		return nil, err
	}
	steady, err := w.results(ctx, b, "RReq with PostgreSQL", 30*time.Millisecond)
	if err != nil {
		return nil, err
	}
	db, err := postgres.Open(ctx, server.URL(), postgres.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	speed, err := w.bursts(ctx, b, db)
	if err != nil {
		return nil, err
	}
	speed.what = "RReq with PostgreSQL committed/s, ratio to bare inserts"
	ranges, err := snapshotSpeed(ctx, b, db)
	if err != nil {
		return nil, err
	}
	commits, err := commitSpeed(ctx, b, db, meter)
	if err != nil {
		return nil, err
	}
	return slices.Concat(rows, []row{steady, speed}, costs, []row{ranges}, commits), nil
}

// journalOnPostgres measures what the journal costs when store and journal are in PostgreSQL, a server for each of the
// two programs that are compared.
func journalOnPostgres(ctx context.Context, b *bench) ([]row, error) {
	var urls [2]string
	for i := range urls {
		server, err := pgtest.Run()
		if err != nil {
			return nil, err
		}
		defer server.Close()
		urls[i] = server.URL()
	}
	return compareJournals(ctx, b, comparedJournals{name: ", PostgreSQL", stores: urls, conns: 32})
}

// A meter reads what program and database have used so far.
type meter struct {
	conn *pgx.Conn // of a superuser
	pid  int       // of the program under test
}

// used is what was used up to a moment, or between two.
type used struct {
	server, database time.Duration // processor time
	writes           int64         // transactions that wrote
	wal              int64         // bytes of the write-ahead log
}

func (m *meter) read(ctx context.Context) (u used, err error) {
	if u.server, err = processorTimeOf(m.pid); err != nil {
		return u, err
	}
	var pids []int32
	err = m.conn.QueryRow(ctx, `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, pg_current_wal_insert_lsn() - '0/0'::pg_lsn,
		(SELECT array_agg(pid) FROM pg_stat_activity)`).Scan(&u.writes, &u.wal, &pids)
	for _, pid := range pids {
		if t, err := processorTimeOf(int(pid)); err == nil { // else it has ended
			u.database += t
		}
	}
	return u, err
}

// during returns what was used while f ran.
func (m *meter) during(ctx context.Context, f func() error) (used, error) {
	before, err := m.read(ctx)
	if err != nil {
		return used{}, err
	}
	if err := f(); err != nil {
		return used{}, err
	}
	after, err := m.read(ctx)
	return used{after.server - before.server, after.database - before.database, after.writes - before.writes, after.wal - before.wal}, err
}

// per is the row of what each of n things used.
func (u used) per(what string, n int) row {
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }
	return row{
		what: what, measured: fmt.Sprintf("%.2f writes", float64(u.writes)/float64(n)),
		note: fmt.Sprintf("processor time of the server %.0f µs, of the database %.0f µs; %.1f KiB of write-ahead log",
			each(u.server), each(u.database), float64(u.wal)/float64(n)/1024),
	}
}

// costs measures what a whole authentication uses while there is no pause
// between them, and leaves challenges whose results can be sent.
func (w *testbed) costs(ctx context.Context, b *bench, m *meter) ([]row, error) {
	n := b.plan.challenges()
	begun, err := m.during(ctx, func() error { return w.challenge(ctx, b) })
	if err != nil {
		return nil, err
	}
	ended, err := m.during(ctx, func() error {
		return w.ask(ctx, "Load.Deliver", Deliveries{Count: b.plan.resultBurst, Conns: b.plan.resultConns}, new(Timed))
	})
	if err != nil {
		return nil, err
	}
	size, err := m.size(ctx)
	if err != nil {
		return nil, err
	}
	first := begun.per("/preauth and /auth, each", n)
	first.note += "; " + size
	return []row{first, ended.per("RReq, each", b.plan.resultBurst)}, nil
}

// size says how long the rows of transactions are on average, by state.
func (m *meter) size(ctx context.Context) (string, error) {
	rows, err := m.conn.Query(ctx, `SELECT state || ' ' || round(avg(pg_column_size(txns.*))) || ' B' FROM txns GROUP BY state ORDER BY state`)
	if err != nil {
		return "", err
	}
	sizes, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return "rows " + strings.Join(sizes, ", "), err
}

// snapshotSpeed measures how fast a node reads card ranges that another has stored.
func snapshotSpeed(ctx context.Context, b *bench, db *postgres.DB) (row, error) {
	lease, err := db.Acquire(ctx, "bench", "bench", time.Minute)
	if err != nil {
		return row{}, err
	}
	start := time.Now()
	content := io.LimitReader(rand.Reader, int64(b.plan.snapshot))
	if err := db.PutSnapshot(ctx, store.Snapshot{Scheme: "bench", Generation: 1, Created: start}, lease, content, 1); err != nil {
		return row{}, err
	}
	wrote := time.Since(start)
	start = time.Now()
	r, err := db.OpenSnapshot(ctx, "bench", 1)
	if err != nil {
		return row{}, err
	}
	_, err = io.Copy(io.Discard, r)
	mib := float64(b.plan.snapshot) / (1 << 20)
	return row{
		what: "card ranges from PostgreSQL", measured: fmt.Sprintf("%.0f MiB/s", mib/time.Since(start).Seconds()),
		note: fmt.Sprintf("one reader, %.0f MiB; written at %.0f MiB/s", mib, mib/wrote.Seconds()),
	}, errors.Join(err, r.Close())
}

// commitSpeed measures bare inserts, each of which commits: with the database's
// own sync alone, and with a second program that has to confirm that it has synced the
// log too, as a synchronous standby would.
func commitSpeed(ctx context.Context, b *bench, db *postgres.DB, m *meter) (rows []row, err error) {
	alone, err := m.inserts(ctx, b, db, "bare inserts/s")
	if err != nil {
		return nil, err
	}
	stop, err := m.follow(ctx, b)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	followed, err := m.inserts(ctx, b, db, "bare inserts/s, confirmed by a standby")
	return []row{alone, followed}, err
}

// inserts measures bare inserts by one writer and by 24.
func (m *meter) inserts(ctx context.Context, b *bench, db store.Store, what string) (row, error) {
	r := row{what: what}
	for _, writers := range []int{1, 24} {
		var speed float64
		u, err := m.during(ctx, func() (err error) {
			speed, err = insert(ctx, db, b.plan.inserts, writers)
			return err
		})
		if err != nil {
			return row{}, err
		}
		r.measured = fmt.Sprintf("%.0f", speed)
		r.note += fmt.Sprintf("%d writers %.0f, processor time of the database %.0f µs each; ", writers, speed,
			float64(u.database.Microseconds())/float64(b.plan.inserts))
	}
	r.note = strings.TrimSuffix(r.note, "; ")
	return r, nil
}

// follow has pg_receivewal confirm commits until stop is called.
func (m *meter) follow(ctx context.Context, b *bench) (stop func() error, err error) {
	dir, err := os.MkdirTemp(b.dir, "wal-")
	if err != nil {
		return nil, err
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_receivewal")
	if len(found) == 0 {
		return nil, errors.New("no pg_receivewal")
	}
	at := m.conn.Config()
	cmd := exec.CommandContext(ctx, slices.Max(found), "--synchronous", "--no-loop", "-D", dir,
		"-d", fmt.Sprintf("host=%s port=%d user=%s application_name=follower", at.Host, at.Port, at.User))
	cmd.Stderr = b.progress
	endWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	stop = func() error {
		err := m.follower(context.WithoutCancel(ctx), "")
		return errors.Join(err, cmd.Process.Signal(os.Interrupt), <-exited, os.RemoveAll(dir))
	}
	if err := m.follower(ctx, "follower"); err != nil {
		return nil, errors.Join(err, stop())
	}
	err = poll(ctx, func() (there bool, err error) {
		err = m.conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')`).Scan(&there)
		return there, err
	})
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

// follower sets which standby has to confirm commits; empty: none.
func (m *meter) follower(ctx context.Context, name string) error {
	if _, err := m.conn.Exec(ctx, `ALTER SYSTEM SET synchronous_standby_names = '`+name+`'`); err != nil {
		return err
	}
	_, err := m.conn.Exec(ctx, `SELECT pg_reload_conf()`)
	return err
}

// restingKeys measures how much of a processor a node without requests, and its database,
// use for the API keys that there are.
func restingKeys(ctx context.Context, b *bench) (rows []row, err error) {
	for _, at := range []struct {
		name    string
		measure func(context.Context, *bench, int) (used, error)
	}{{"PostgreSQL", restingOnPostgres}, {"embedded store", restingEmbedded}} {
		var least used
		for i, n := range b.plan.keyCounts {
			u, err := at.measure(ctx, b, n)
			if err != nil {
				return nil, err
			}
			r := u.share(fmt.Sprintf("idle, %d API keys, %s", n, at.name), b.plan.idleTime)
			if i == 0 {
				least = u
			} else if i == len(b.plan.keyCounts)-1 {
				more := u.server + u.database - least.server - least.database
				r.target, r.good = "≤ 2 % more", more <= b.plan.idleTime/50
			}
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// share is the row of what was used in a time d, as a share of one processor.
func (u used) share(what string, d time.Duration) row {
	of := func(t time.Duration) float64 { return 100 * float64(t) / float64(d) }
	return row{
		what: what, measured: fmt.Sprintf("%.2f %%", of(u.server+u.database)),
		note: fmt.Sprintf("of a processor: node %.2f %%, database %.2f %%", of(u.server), of(u.database)),
	}
}

// restingOnPostgres measures with n keys in a database of their own.
func restingOnPostgres(ctx context.Context, b *bench, n int) (u used, err error) {
	server, err := pgtest.Run()
	if err != nil {
		return u, err
	}
	defer server.Close()
	w, err := newTestbedOf(ctx, b, setup{versions: "2.2.0", store: server.URL(), before: func(w *testbed) error {
		return w.addKeys(ctx, server.URL(), n)
	}})
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	conn, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if err := sleep(ctx, b.plan.idleTime/4); err != nil {
		return u, err
	}
	m := &meter{conn: conn, pid: w.cmd.Process.Pid}
	return m.during(ctx, func() error { return sleep(ctx, b.plan.idleTime) })
}

// restingEmbedded measures with n keys in the embedded store.
func restingEmbedded(ctx context.Context, b *bench, n int) (u used, err error) {
	w, err := newTestbedOf(ctx, b, setup{versions: "2.2.0", before: func(w *testbed) error { return w.addKeysEmbedded(ctx, n) }})
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	if err := sleep(ctx, b.plan.idleTime/4); err != nil {
		return u, err
	}
	before, err := processorTimeOf(w.cmd.Process.Pid)
	if err != nil {
		return u, err
	}
	if err := sleep(ctx, b.plan.idleTime); err != nil {
		return u, err
	}
	after, err := processorTimeOf(w.cmd.Process.Pid)
	return used{server: after - before}, err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// rowOf is the i-th of many keys, as it is stored.
func rowOf(ring *keyring.Ring, i int) store.Key {
	return account.NewRow(ring, fmt.Sprintf("00000000-0000-4000-8000-%012d", i), fmt.Sprintf("Merchant %d", i), false, account.Terms{})
}

// addKeys adds n API keys to a database.
func (w *testbed) addKeys(ctx context.Context, url string, n int) error {
	ring, err := keyring.Load(filepath.Join(w.dir, "keys.json"))
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.CopyFrom(ctx, pgx.Identifier{"api_keys"}, []string{"hash", "merchant", "strict", "created", "seal"},
		pgx.CopyFromSlice(n, func(i int) ([]any, error) {
			k := rowOf(ring, i)
			return []any{k.Hash, k.Merchant, k.Strict, k.Created.UnixMilli(), k.Seal}, nil
		}))
	return errors.Join(err, conn.Close(ctx))
}

// addKeysEmbedded adds n API keys to the embedded store.
func (w *testbed) addKeysEmbedded(ctx context.Context, n int) (err error) {
	ring, err := keyring.Load(filepath.Join(w.dir, "keys.json"))
	if err != nil {
		return err
	}
	db, err := sqlite.Open(filepath.Join(w.dir, "data"), sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var group errgroup.Group
	group.SetLimit(256)
	for i := range n {
		group.Go(func() error { return db.PutKey(ctx, rowOf(ring, i)) })
	}
	return group.Wait()
}
