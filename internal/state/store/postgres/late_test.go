package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// TestNothingLate cuts a node off while its writes wait for locks of others. The server also gives up the writes that
// its callers got errors for: when the locks are released, none of them happens.
func TestNothingLate(t *testing.T) {
	server := pgtest.Get(t)
	direct, at := openNew(t)
	m := pgtest.NewMiddleman(t, server.Address())
	db := openAt(t, replaceHost(t, at, m.Addr().String())+"&application_name=cut_off", Options{Timeout: 2 * time.Second})
	ctx := context.Background()
	lease, err := direct.Acquire(ctx, "visa", "me", time.Hour)
	if err == nil {
		err = errors.Join(direct.PutState(ctx, "small", []byte("before"), lease), direct.Create(ctx, txn("there")))
	}
	if err != nil {
		t.Fatal(err)
	}
	holder, watch := connect(t, at), connect(t, at)
	if _, err := holder.Exec(ctx, `BEGIN; SELECT FROM txns FOR UPDATE; SELECT FROM leases FOR UPDATE;
		INSERT INTO txns (id, owner, scheme, state, data, expires, ver) VALUES ('late', '', '', '', '', 0, 0)`); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 3)
	go func() {
		failed <- db.Update(ctx, store.Txn{ID: "there"}, func(t *store.Txn) error { t.State = "late"; return nil })
	}()
	go func() { failed <- db.Create(ctx, txn("late")) }()
	go func() { failed <- db.PutState(ctx, "small", []byte("late"), lease) }()
	atWork := func(want string) (n int) {
		if err := watch.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity
			WHERE application_name = 'cut_off' AND state = 'active' AND `+want).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	waittest.Until(t, "three writes that wait for locks", func() bool {
		return len(failed) == 3 || atWork(`wait_event_type = 'Lock'`) == 3
	})
	m.Cut.Store(true)
	for range 3 {
		if err := <-failed; err == nil || known(err) {
			t.Errorf("a write that waits for a lock: %v, want an error that is no fact", err)
		}
	}
	// The server's own defaults would leave them at work for hours.
	waittest.Until(t, "the server to end all writes by itself", func() bool { return atWork("true") == 0 })
	if _, err := holder.Exec(ctx, `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	got, err := direct.Get(ctx, "there")
	if err != nil || got.State != "sent" {
		t.Errorf("an Update came late: %s, %v", got.State, err)
	}
	if _, err := direct.Get(ctx, "late"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a Create came late: %v", err)
	}
	if value, err := direct.State(ctx, "small"); err != nil || string(value) != "before" {
		t.Errorf("a PutState came late: %q, %v", value, err)
	}
}

// TestLastWord: a session that the server ended because it was idle does not harm any call, even if the server's
// message comes after the statement was sent.
func TestLastWord(t *testing.T) {
	server := pgtest.Get(t)
	_, at := openNew(t)
	m := pgtest.NewMiddleman(t, server.Address())
	m.Slow.Store(true)
	db := openAt(t, replaceHost(t, at, m.Addr().String())+"&pool_max_conns=1&idle_session_timeout=1000", Options{Timeout: time.Minute})
	for i := range 3 {
		before := m.Held.Load()
		if err := db.Create(t.Context(), txn(fmt.Sprint(i))); err != nil {
			t.Fatalf("Create %d: %v", i, err)
		}
		eventually(t, "the end of the session", func() error {
			if m.Held.Load() == before {
				return errors.New("it has not ended")
			}
			return nil
		})
	}
	if err := db.Update(t.Context(), store.Txn{ID: "0"}, func(t *store.Txn) error { t.State = "final"; return nil }); err != nil {
		t.Errorf("Update: %v", err)
	}
}

// restAtRandom waits for about the time after which the database ends a session. The test varies this moment: each is
// as good as any other.
func restAtRandom(rest time.Duration) {
	time.Sleep(rest - 10*time.Millisecond + rand.N(20*time.Millisecond))
}

// TestIdleSessions lets the database end idle sessions at about the moment at which they are used again.
func TestIdleSessions(t *testing.T) {
	server := pgtest.Get(t)
	server.Exec(t, server.URL(), "CREATE DATABASE restless")
	t.Cleanup(func() { server.Exec(t, server.URL(), "DROP DATABASE restless WITH (FORCE)") })
	const rest = time.Second // a moment on a busy machine is much shorter
	server.Exec(t, server.URL(), fmt.Sprintf("ALTER DATABASE restless SET idle_session_timeout = %d", rest.Milliseconds()))
	u, err := url.Parse(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.Path, u.RawQuery = "/restless", "sslmode=disable"
	db := openAt(t, u.String(), Options{Timeout: time.Minute})
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			for n := range 4 {
				if err := db.Create(t.Context(), txn(fmt.Sprint(i, " ", n))); err != nil {
					t.Errorf("Create: %v", err)
				}
				restAtRandom(rest)
			}
		})
	}
	all.Wait()
}
