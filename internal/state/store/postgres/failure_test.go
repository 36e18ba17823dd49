package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

func txn(id string) store.Txn {
	return store.Txn{
		ID: id, Owner: "shop", Scheme: "visa", State: "sent", Data: []byte("data of " + id),
		Expires: time.Now().Add(time.Hour),
	}
}

// eventually calls f until it works: a server that comes back takes its time.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	var err error
	defer func() {
		if err != nil {
			t.Logf("%s: %v", what, err)
		}
	}()
	waittest.Until(t, what, func() bool { err = f(); return err == nil })
}

// openHasty opens a store whose calls may take so little time that even the first one sometimes fails.
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

// known tells the facts of the contract from failures.
func known(err error) bool { return err != nil && isFact(err) }

// TestServerCrash ends the server in the middle of writes, several times: each call returns nil or an error that is no
// fact. Writes that returned nil are there, complete, and the store goes on working by itself.
func TestServerCrash(t *testing.T) {
	server := pgtest.Start(t)
	db := openAt(t, server.Schema(t), Options{Timeout: time.Second}) // for which calls wait for a server
	ctx := context.Background()
	const crashes, writers = 3, 8
	var acked, errs atomic.Int64
	for round := range crashes {
		eventually(t, "Ping", func() error { return db.Ping(ctx) })
		var stop atomic.Bool
		var wg sync.WaitGroup
		var mu sync.Mutex
		states := make(map[string]store.State) // by id, as acknowledged
		for i := range writers {
			wg.Go(func() {
				for n := 0; !stop.Load(); n++ {
					id := fmt.Sprintf("%d-%d-%d", round, i, n)
					err := db.Create(ctx, txn(id))
					state := store.State("sent")
					if err == nil {
						mu.Lock()
						states[id] = state
						mu.Unlock()
						acked.Add(1)
						err = db.Update(ctx, store.Txn{ID: id}, func(t *store.Txn) error { t.State, t.Data = "final", []byte("result of "+id); return nil })
						if err == nil {
							state = "final"
							mu.Lock()
							states[id] = state
							mu.Unlock()
						}
					}
					if err != nil {
						errs.Add(1)
						if known(err) {
							t.Errorf("a write that the crash hit: %v, which is a fact", err)
						}
					}
				}
			})
		}
		before := acked.Load()
		eventually(t, "writes", func() error {
			if acked.Load() < before+50 {
				return errors.New("too few")
			}
			return nil
		})
		if err := server.Halt(); err != nil {
			t.Fatal(err)
		}
		stop.Store(true)
		wg.Wait()
		if err := db.Ping(ctx); err == nil || known(err) {
			t.Errorf("Ping of a server that is down: %v", err)
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "Ping", func() error { return db.Ping(ctx) })
		for id, state := range states {
			var got store.Txn
			eventually(t, id+" was acknowledged", func() (err error) {
				if got, err = db.Get(ctx, id); known(err) {
					t.Fatalf("%s was acknowledged: %v", id, err)
				}
				return err
			})
			want := "data of " + id
			if got.State == "final" {
				want = "result of " + id
			}
			if state == "final" && got.State != "final" || string(got.Data) != want {
				t.Errorf("%s is %s with %q, acknowledged was %s", id, got.State, got.Data, state)
			}
		}
	}
	t.Logf("%d crashes, %d acknowledged, %d errors", crashes, acked.Load(), errs.Load())
	if errs.Load() == 0 {
		t.Error("no write was hit: the test shows nothing")
	}
}

// TestOutcomeUnknown breaks the connection when a write is done and its answer is on the way. The call returns an error
// that is no fact, and does not try again.
func TestOutcomeUnknown(t *testing.T) {
	server := pgtest.Get(t)
	url := server.Schema(t)
	patient := Options{Timeout: time.Minute} // a server that is slow does nothing of what follows
	direct := openAt(t, url, patient)
	m := pgtest.NewMiddleman(t, server.Address())
	db := openAt(t, replaceHost(t, url, m.Addr().String())+"&pool_max_conns=1", patient)
	ctx := context.Background()
	if err := direct.Create(ctx, txn("there")); err != nil {
		t.Fatal(err)
	}
	l, err := direct.Acquire(ctx, "visa", "me", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for at, name := range map[int32]string{pgtest.BeforeAnswer: "before the answer", pgtest.AmidAnswer: "in the middle of the answer"} {
		calls := 0
		for what, call := range map[string]func() error{
			"Create": func() error { return db.Create(ctx, txn(name)) },
			"Update": func() error { // its first half is a read: the second is broken
				m.Armed.Store(pgtest.Never)
				return db.Update(ctx, store.Txn{ID: "there"}, func(t *store.Txn) error {
					if calls++; calls == 1 {
						m.Armed.Store(at)
					}
					t.Data = append(t.Data, '+')
					return nil
				})
			},
			"PutState": func() error { return db.PutState(ctx, name, []byte("v"), l) },
			"PutKey":   func() error { return db.PutKey(ctx, store.Key{Hash: []byte(name), Created: time.Now()}) },
		} {
			eventually(t, "Ping", func() error { return db.Ping(ctx) })
			m.Armed.Store(at)
			if err := call(); err == nil || known(err) || errors.Is(err, store.ErrUndone) {
				t.Errorf("%s, broken %s: %v, want an error that is no fact\n%s", what, name, err, m.Journal())
			}
			m.Armed.Store(pgtest.Never)
		}
		if calls != 1 {
			t.Errorf("change was called %d times, want 1\n%s", calls, m.Journal())
		}
	}
	got, err := direct.Get(ctx, "there")
	if err != nil || string(got.Data) != "data of there++" {
		t.Errorf("Get = %q, %v; want each update once", got.Data, err)
	}
	for _, name := range []string{"before the answer", "in the middle of the answer"} {
		if _, err := direct.Get(ctx, name); err != nil {
			t.Errorf("Create broken %s: %v; the server had committed it\n%s", name, err, m.Journal())
		}
	}
	// A transaction of several statements is not begun again, either, when its commit is.
	for i, at := range []int32{pgtest.BeforeCommit, pgtest.AmidCommit} {
		generation := int64(1 + i)
		eventually(t, "Ping", func() error { return db.Ping(ctx) })
		content := readerFunc(func(p []byte) (int, error) {
			m.Armed.Store(at)
			return copy(p, "content"), io.EOF
		})
		err := db.PutSnapshot(ctx, store.Snapshot{Scheme: "visa", Generation: generation, Created: time.Now()}, l, content, 3)
		if err == nil || known(err) || errors.Is(err, store.ErrUndone) || m.Armed.Load() != pgtest.Never {
			t.Errorf("PutSnapshot %d, broken at its commit: %v, want an error that is no fact\n%s", generation, err, m.Journal())
		}
		if r, err := direct.OpenSnapshot(ctx, "visa", generation); err != nil {
			t.Errorf("snapshot %d: %v; the server had committed it", generation, err)
		} else if text, err := io.ReadAll(r); err != nil || string(text) != "content" || r.Close() != nil {
			t.Errorf("snapshot %d: %q, %v", generation, text, err)
		}
	}
	// A read is asked again, and never taken for one that found less.
	if err := direct.PutSnapshot(ctx, store.Snapshot{Scheme: "visa", Generation: 3, Created: time.Now()}, l, strings.NewReader("content"), 1); err != nil {
		t.Fatal(err)
	}
	for what, read := range map[string]func() (found int, err error){
		"Get": func() (int, error) {
			got, err := db.Get(ctx, "there")
			return len(got.ID), err
		},
		"Keys": func() (int, error) {
			keys, err := db.Keys(ctx)
			return len(keys), err
		},
		"KeysUnless": func() (int, error) {
			keys, _, err := db.KeysUnless(ctx, "")
			return len(keys), err
		},
		"Snapshots": func() (int, error) {
			snapshots, err := db.Snapshots(ctx, "visa")
			return len(snapshots), err
		},
	} {
		for _, at := range []int32{pgtest.BeforeRow, pgtest.BeforeAnswer, pgtest.AmidAnswer} {
			want, err := read()
			if err != nil || want == 0 {
				t.Fatalf("%s: %d, %v", what, want, err)
			}
			m.Armed.Store(at)
			if got, err := read(); got != want || err != nil || m.Armed.Load() != 0 {
				t.Errorf("%s, broken: found %d, %v; want %d\n%s", what, got, err, want, m.Journal())
			}
		}
	}
}

// TestStandbyMissing: a commit that waits for a missing standby is no success, even if an operator cancels the wait and
// the server says "done, but".
func TestStandbyMissing(t *testing.T) {
	server := pgtest.Get(t)
	_, url := openNew(t)
	quick, patient := openHasty(t, url, Options{Timeout: 500 * time.Millisecond}), openAt(t, url, Options{Timeout: time.Minute})
	ctx := context.Background()
	standbys := func(names string) {
		server.Exec(t, url, `ALTER SYSTEM SET synchronous_standby_names = '`+names+`'`)
		server.Exec(t, url, `SELECT pg_reload_conf()`)
	}
	standbys("nobody")
	defer standbys("")
	waiting := func(then string) {
		eventually(t, "the wait for a standby", func() error {
			conn, err := pgx.Connect(ctx, url)
			if err != nil {
				return err
			}
			defer conn.Close(ctx) // the data is not needed
			var n int
			err = conn.QueryRow(ctx, `SELECT count(`+then+`) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name = 'threeds'`).Scan(&n)
			if err == nil && n == 0 {
				return errors.New("nobody waits")
			}
			return err
		})
	}
	eventually(t, "a commit without its standby", func() error { // the server takes a moment to begin with it
		err := quick.Create(ctx, txn(fmt.Sprint(time.Now().UnixNano())))
		switch {
		case err == nil:
			return errors.New("is a success")
		case known(err), errors.Is(err, store.ErrUndone):
			t.Errorf("Create whose standby never answers: %v, want an error that says nothing", err)
		}
		return nil
	})
	failed := make(chan error)
	go func() { failed <- patient.Create(ctx, txn("cancelled")) }()
	waiting("pg_cancel_backend(pid)")
	if err := <-failed; err == nil || known(err) || errors.Is(err, store.ErrUndone) {
		t.Errorf("Create whose wait for a standby was broken off: %v, want an error that says nothing", err)
	}
	go func() { failed <- patient.Create(ctx, txn("terminated")) }()
	waiting("pg_terminate_backend(pid)")
	if err := <-failed; err == nil || known(err) || errors.Is(err, store.ErrUndone) {
		t.Errorf("Create whose session was ended: %v, want an error that says nothing", err)
	}
	standbys("")
	eventually(t, "Create with no standby asked for", func() error { return quick.Create(ctx, txn(fmt.Sprint(time.Now().UnixNano()))) })
}

// TestContextEndsWhileWaiting gives up at the end of the context while no
// connection is free.
func TestContextEndsWhileWaiting(t *testing.T) {
	db, url := openNew(t)
	one := openAt(t, url+"&pool_max_conns=1", Options{})
	busy, err := one.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := one.Create(ctx, txn("a")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Create with no connection free: %v, want that of the context", err)
	}
	busy.Release()
	if _, err := db.Get(t.Context(), "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get of what was never created: %v", err)
	}
}

// TestNoConnectionLeft: if a server works, but has no connection left for this process, a call fails after its time
// limit, and nothing else happens.
func TestNoConnectionLeft(t *testing.T) {
	server := pgtest.Get(t)
	_, at := openNew(t)
	t.Cleanup(func() { server.Exec(t, at, "DROP OWNED BY threeds_few; DROP ROLE threeds_few") })
	schema := strings.Split(at[strings.Index(at, "search_path=")+len("search_path="):], ",")[0]
	server.Exec(t, at, fmt.Sprintf(`CREATE ROLE threeds_few LOGIN CONNECTION LIMIT 1;
		GRANT USAGE ON SCHEMA %[1]s TO threeds_few; GRANT ALL ON ALL TABLES IN SCHEMA %[1]s TO threeds_few`, schema))
	db := openAt(t, as(t, at, "threeds_few"), Options{Timeout: time.Second})
	busy, err := db.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Release()
	ended := make(chan error, 1)
	go func() { ended <- db.Create(t.Context(), txn("few")) }()
	waittest.Until(t, "the end of Create", func() bool {
		select {
		case err := <-ended:
			if !errors.Is(err, store.ErrUndone) {
				t.Errorf("Create: %v, want ErrUndone", err)
			}
			return true
		default:
			db.failover.recordAnswer() // as calls do that have a connection
			return false
		}
	})
}

// TestQueue: a call counts until it has ended, from when it waits for a connection.
func TestQueue(t *testing.T) {
	_, url := openNew(t)
	one := openAt(t, url+"&pool_max_conns=1", Options{})
	busy, err := one.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Release() // the pool would wait for it
	_, before := one.Queue()
	ended := make(chan error, 3)
	for i := range 3 {
		go func() { ended <- one.Create(t.Context(), txn(fmt.Sprint("queue ", i))) }()
	}
	eventually(t, "three that wait", func() error {
		if waiting, _ := one.Queue(); waiting != 3 {
			return fmt.Errorf("%d wait", waiting)
		}
		return nil
	})
	busy.Release()
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if waiting, served := one.Queue(); waiting != 0 || served != before+3 {
		t.Errorf("%d wait, %d served, want 0 and 3", waiting, served-before)
	}
}
