package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openthreeds/threeds/internal/base/socket"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// TestFailover takes the primary away from writers, once like a crash and once like a machine that hangs. What was
// acknowledged is on the new primary, and the store finds that one by itself.
func TestFailover(t *testing.T) {
	group := pgtest.NewGroup(t, 2)
	for _, how := range []string{"crash", "hang"} {
		t.Run(how, func(t *testing.T) { testFailover(t, group, how == "hang") })
	}
	t.Run("the former primary comes back", func(t *testing.T) { formerPrimary(t, group) })
}

func testFailover(t *testing.T, group *pgtest.Group, hang bool) {
	db := openAt(t, group.URL(), Options{})
	ctx := context.Background()
	var mu sync.Mutex
	acked := make(map[string]bool)
	var stop atomic.Bool
	var last, most atomic.Int64 // the latest success, and the longest time without one
	last.Store(time.Now().UnixNano())
	var failed atomic.Int64
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			for n := 0; !stop.Load(); n++ {
				id := fmt.Sprintf("%t-%d-%d", hang, i, n)
				err := db.Create(ctx, txn(id))
				if err == nil {
					err = db.Update(ctx, store.Txn{ID: id}, func(t *store.Txn) error { t.State, t.Data = "final", []byte("result of "+id); return nil })
				}
				switch {
				case known(err):
					t.Errorf("a write that the failover hit: %v, which is a fact", err)
				case err != nil:
					failed.Add(1)
				default:
					now := time.Now().UnixNano()
					if gap := now - last.Swap(now); gap > most.Load() {
						most.Store(gap)
					}
					mu.Lock()
					acked[id] = true
					mu.Unlock()
				}
			}
		})
	}
	written := func(more int) {
		mu.Lock()
		want := len(acked) + more
		mu.Unlock()
		eventually(t, "writes", func() error {
			mu.Lock()
			defer mu.Unlock()
			if len(acked) < want {
				return fmt.Errorf("%d of %d", len(acked), want)
			}
			return nil
		})
	}
	written(100)
	former := group.Primary()
	if hang {
		check(t, former.Freeze())
	} else {
		check(t, former.Halt())
	}
	group.Promote()
	if hang {
		check(t, former.Halt())
	}
	group.Rebuild()
	written(100)
	stop.Store(true)
	writers.Wait()
	for id := range acked {
		got, err := db.Get(ctx, id)
		if err != nil || got.State != "final" || string(got.Data) != "result of "+id {
			t.Errorf("%s: %+v, %v; it was acknowledged", id, got, err)
		}
	}
	t.Logf("%d acknowledged, %d failed, longest time without a success %v", len(acked), failed.Load(), time.Duration(most.Load()).Round(time.Millisecond))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// formerPrimary brings back a primary that was replaced, and that is still writable. A process that knows the new
// primary does not use it, even if it is the first host of the URL. A process that does not know the new one may find
// it, but no write succeeds there, for its standby is gone.
func formerPrimary(t *testing.T, group *pgtest.Group) {
	former := group.Primary()
	knowing := openAt(t, group.URL(), Options{Timeout: 2 * time.Second})
	ctx := context.Background()
	check(t, knowing.Create(ctx, txn("before")))
	check(t, former.Freeze())
	group.Promote()
	group.Asynchronous() // the new primary, which has no standby here
	eventually(t, "the new primary", func() error { return knowing.Create(ctx, txn(fmt.Sprint("after", time.Now().UnixNano()))) })
	check(t, former.Thaw())
	knowing.failover.mu.Lock()
	knowing.failover.epoch++                                         // all connections are opened again
	knowing.failover.best, knowing.failover.doubted = host{}, host{} // and the hosts tried in the order of the URL
	knowing.failover.mu.Unlock()
	for i := range 20 {
		if err := knowing.Create(ctx, txn(fmt.Sprint("later", i))); err != nil {
			t.Fatalf("Create beside a former primary: %v", err)
		}
	}
	// They find the first host, and no failure tells them otherwise while they only read.
	ignorant := openAt(t, group.URL(), Options{Timeout: 2 * time.Second, scout: time.Hour})
	asking := openAt(t, group.URL(), Options{Timeout: 2 * time.Second, scout: time.Hour})
	waiting := openAt(t, group.URL(), Options{scout: 50 * time.Millisecond})
	if asking.failover.promotions() == knowing.failover.promotions() {
		t.Error("the first host is not the former primary; the test shows nothing")
	}
	if _, err := asking.Get(ctx, "later0"); err != nil {
		t.Errorf("Get at the former primary of what the new one has: %v", err)
	}
	if _, err := asking.Get(ctx, "never"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get of what none has: %v", err)
	}
	eventually(t, "the scout", func() error {
		if waiting.failover.promotions() != knowing.failover.promotions() {
			return errors.New("it has not seen the new primary")
		}
		return nil
	})
	err := ignorant.Create(ctx, txn("there"))
	if _, found := knowing.Get(ctx, "there"); err == nil && found != nil {
		t.Error("a former primary without its standby acknowledged a write")
	}
	t.Logf("a write of who knows of no new primary: %v", err)
	for i := range 20 {
		if _, err := knowing.Get(ctx, fmt.Sprint("later", i)); err != nil {
			t.Errorf("Get at the new primary: %v", err)
		}
	}
}

// TestDeadConnections silences a machine while all connections of a pool to it are in use. Calls that only read are
// answered by another host, and no place in the pool waits for a dead connection.
func TestDeadConnections(t *testing.T) {
	server := pgtest.Get(t)
	direct, url := openNew(t)
	ctx := context.Background()
	check(t, direct.Create(ctx, txn("there")))
	dead, way := pgtest.NewMiddleman(t, server.Address()), pgtest.NewMiddleman(t, server.Address())
	const conns = 4
	// The limit of a read is half of the time: it is long here, for a busy machine.
	db := openAt(t,
		fmt.Sprintf("%s&pool_max_conns=%d", replaceHost(t, url, dead.Addr().String()+","+way.Addr().String()), conns),
		Options{Timeout: 4 * time.Second})
	all := func() {
		t.Helper()
		var calls sync.WaitGroup
		for range 2 * conns {
			calls.Go(func() {
				if _, err := db.Get(ctx, "there"); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
	}
	all()
	dead.Quiet.Store(true)
	start := time.Now()
	all()
	first := time.Since(start)
	for range 10 {
		all()
	}
	if later := time.Since(start) - first; later > 5*first { // if each round waited for the dead machine, as the first one did, this were 10
		t.Errorf("first answers after %v, then %d in %v", first, 20*conns, later)
	}
	start = time.Now()
	if err := db.Create(ctx, txn("new")); err != nil {
		t.Errorf("Create: %v", err)
	}
	if got := time.Since(start); got > first {
		t.Errorf("Create took %v, as long as the first calls did: %v", got, first)
	}
	dead.Quiet.Store(false)
}

// TestGuide holds the order in which hosts are tried against what is known of them.
func TestGuide(t *testing.T) {
	cfg, err := configure("postgres://threeds@a:1,b:2,c:3/x?sslmode=disable", callTimeout)
	check(t, err)
	for _, tt := range []struct{ best, doubted, want string }{
		{"", "", "abc"}, {"b", "", "bac"}, {"", "a", "bca"}, {"c", "a", "cba"}, {"a", "a", "bca"},
	} {
		port := map[string]uint16{"a": 1, "b": 2, "c": 3}
		g := &failover{best: host{tt.best, port[tt.best]}, doubted: host{tt.doubted, port[tt.doubted]}}
		c := cfg.ConnConfig.Copy()
		g.orderHosts(c)
		got := c.Host
		for _, f := range c.Fallbacks {
			got += f.Host
		}
		if got != tt.want || c.Port != port[c.Host] {
			t.Errorf("best %q, doubted %q: %s, want %s", tt.best, tt.doubted, got, tt.want)
		}
	}
}

// TestGuideKeepsTLS: whatever the order of the hosts, the store connects to each as the URL says, and checks the name
// in its certificate. If the URL allows both, it tries TLS first.
func TestGuideKeepsTLS(t *testing.T) {
	for mode, want := range map[string]string{"verify-full": "bca", "prefer": "bb-cc-aa-", "allow": "b-bc-ca-a"} {
		cfg, err := configure("postgres://threeds@a:1,b:2,c:3/x?sslmode="+mode, callTimeout)
		check(t, err)
		g := &failover{best: host{"b", 2}, doubted: host{"a", 1}}
		c := cfg.ConnConfig.Copy()
		for range 2 {
			g.orderHosts(c)
			got := ""
			for _, f := range append([]*pgconn.FallbackConfig{{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}}, c.Fallbacks...) {
				got += f.Host
				switch {
				case f.TLSConfig == nil:
					got += "-"
				case mode == "verify-full" && (f.TLSConfig.ServerName != f.Host || f.TLSConfig.InsecureSkipVerify):
					t.Errorf("%s: host %s has to have a certificate for %q", mode, f.Host, f.TLSConfig.ServerName)
				}
			}
			if got != want {
				t.Errorf("%s: %s, want %s", mode, got, want)
			}
		}
	}
}

// TestScoutAsksForTLS: the scout connects to the other hosts as safely as calls do, and does not connect to the host in
// use.
func TestScoutAsksForTLS(t *testing.T) {
	for _, form := range []string{"%[1]s,%[2]s/x?sslmode=require", "%[2]s,%[1]s/x?sslmode=require",
		"%[1]s,%[2]s/x?sslmode=prefer", "%[2]s,%[1]s/x?sslmode=prefer"} {
		best, other := listener(t), listener(t)
		cfg, err := configure(fmt.Sprintf("postgres://threeds@"+form, best.Addr(), other.Addr()), callTimeout)
		check(t, err)
		g := &failover{best: host{"127.0.0.1", uint16(best.Addr().(*net.TCPAddr).Port)}}
		ctx, cancel := context.WithCancel(t.Context())
		var scout sync.WaitGroup
		scout.Go(func() { newScout(g, cfg.ConnConfig).watch(ctx, time.Millisecond) })
		const sslRequest = "\x00\x00\x00\x08\x04\xd2\x16\x2f"
		for range 2 { // so that each host has had its turn
			conn, err := other.Accept()
			check(t, err)
			said := make([]byte, len(sslRequest))
			if _, err := io.ReadFull(conn, said); err != nil || string(said) != sslRequest {
				t.Errorf("%s: a scout begins with %q, %v; want a request for TLS", form, said, err)
			}
			_ = conn.Close()
		}
		cancel()
		scout.Wait()
		ours, err := net.Dial("tcp", best.Addr().String())
		check(t, err)
		first, err := best.Accept()
		check(t, err)
		if first.RemoteAddr().String() != ours.LocalAddr().String() {
			t.Errorf("%s: a scout looks at the host in use", form)
		}
		_, _ = first.Close(), ours.Close()
	}
}

// listener is a host that accepts connections.
func listener(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// TestAdmit: a server of an older timeline is refused. A check that fails does not change what is known: otherwise the
// next server might be a previous primary.
func TestAdmit(t *testing.T) {
	db, _ := openNew(t)
	conn, err := db.pool.Acquire(t.Context())
	check(t, err)
	defer conn.Release()
	raw := conn.Conn().PgConn()
	system, line := db.failover.system, db.failover.timeline
	if system == "" || line < 1 {
		t.Fatalf("timeline %d of %q", line, system)
	}
	here := host{"db", uint16(raw.Conn().RemoteAddr().(*net.TCPAddr).Port)}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	look := context.WithValue(t.Context(), scouting{}, true)
	for _, tt := range []struct {
		what    string
		ctx     context.Context
		system  string
		line    int64
		want    error
		then    int64 // the newest timeline
		epochs  int
		thither bool // the next connections go there first
	}{
		{"the same", t.Context(), system, line, nil, line, 0, true},
		{"a newer one", t.Context(), system, line - 1, nil, line, 1, true},
		{"a newer one, by a scout", look, system, line - 1, nil, line, 1, false},
		{"an older one", t.Context(), system, line + 1, errFormer, line + 1, 0, false},
		{"an older one, by a scout", look, system, line + 1, errFormer, line + 1, 0, false},
		{"another database", t.Context(), "other", line + 7, nil, line, 0, true},
		{"no answer", cancelled, system, line + 1, context.Canceled, line + 1, 0, false},
	} {
		g := &failover{addrs: map[string][]string{"db": {"127.0.0.1"}}, system: tt.system, timeline: tt.line, doubted: here, lost: time.Now()}
		if err := g.checkTimeline(tt.ctx, raw); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.what, err, tt.want)
		}
		if g.system != system || g.timeline != tt.then || g.epoch != tt.epochs {
			t.Errorf("%s: timeline %d of %s, epoch %d; want %d of %s, epoch %d", tt.what, g.timeline, g.system, g.epoch, tt.then, system, tt.epochs)
		}
		if good := g.best == here && g.doubted == (host{}) && g.lost.IsZero(); good != tt.thither {
			t.Errorf("%s: best %v, doubted %v, none since %v", tt.what, g.best, g.doubted, g.lost)
		}
		if tt.want == nil && (raw.CustomData()[epoch] != g.epoch || g.isFormer(raw) || g.isStale(raw)) {
			t.Errorf("%s: the connection is not of its epoch and timeline: %v", tt.what, raw.CustomData())
		}
	}
}

// epochs is how many have ended.
func (g *failover) epochs() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.epoch
}

// TestAcquire: a connection that was idle for a moment is used as it is. One that was idle for long is used if its
// server answers. One that was closed, or belongs to an epoch that is over, is not used. A connection that has failed
// ends the epoch; one that had no time to answer does not.
func TestAcquire(t *testing.T) {
	server := pgtest.Get(t)
	_, url := openNew(t)
	silent := func(_ *DB, _ *pgconn.PgConn, m *pgtest.Middleman) { m.Quiet.Store(true) }
	for name, tt := range map[string]struct {
		rested time.Duration
		spoil  func(db *DB, raw *pgconn.PgConn, m *pgtest.Middleman)
		limit  time.Duration // of the caller
		same   bool
		epochs int // that end
	}{
		"for a moment":                  {-time.Hour, silent, time.Minute, true, 0},
		"for long":                      {time.Hour, func(*DB, *pgconn.PgConn, *pgtest.Middleman) {}, time.Minute, true, 0},
		"for long, and no answer comes": {time.Hour, silent, time.Minute, false, 1},
		"for long, and no answer comes in time for the caller": {time.Hour, silent, 50 * time.Millisecond, false, 0},
		"ended by the server": {-time.Hour, func(_ *DB, raw *pgconn.PgConn, _ *pgtest.Middleman) {
			server.Exec(t, url, "SELECT pg_terminate_backend($1)", raw.PID())
			eventually(t, "the server's word", func() error {
				if quiet, _ := socket.Peek(socket.Under(raw.Conn())); quiet {
					return errors.New("it has not come")
				}
				return nil
			})
		}, time.Minute, false, 1},
		"from an epoch that is over": {-time.Hour, func(db *DB, _ *pgconn.PgConn, _ *pgtest.Middleman) {
			db.failover.mu.Lock()
			defer db.failover.mu.Unlock()
			db.failover.epoch++
		}, time.Minute, false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			near, far := pgtest.NewMiddleman(t, server.Address()), pgtest.NewMiddleman(t, server.Address())
			db := openAt(t, replaceHost(t, url, near.Addr().String()+","+far.Addr().String())+"&pool_max_conns=1", Options{})
			conn, err := db.acquire(t.Context())
			check(t, err)
			raw, epoch := conn.Conn().PgConn(), db.failover.epochs()
			db.giveBack(conn, nil)
			raw.CustomData()[used] = time.Now().Add(-tt.rested)
			tt.spoil(db, raw, near)
			ctx := t.Context()
			if tt.limit < time.Minute {
				limited, cancel := context.WithTimeout(ctx, tt.limit)
				defer cancel()
				ctx = limited
			}
			conn, err = db.acquire(ctx)
			if got := db.failover.epochs() - epoch; got != tt.epochs {
				t.Errorf("%d epochs have ended, want %d", got, tt.epochs)
			}
			if tt.limit < time.Minute {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("err = %v, want that of the caller's time", err)
				}
				near.Quiet.Store(false)
				return
			}
			check(t, err)
			if same := conn.Conn().PgConn() == raw; same != tt.same {
				t.Errorf("the same connection: %t, want %t", same, tt.same)
			}
			near.Quiet.Store(false)
			db.giveBack(conn, nil)
		})
	}
}

// TestGiveBack: an error about a statement is no fault of the connection. That the server accepts no writes is one; its
// host is then tried last.
func TestGiveBack(t *testing.T) {
	server := pgtest.Get(t)
	_, url := openNew(t)
	db := openAt(t, replaceHost(t, url, server.Address())+"&pool_max_conns=1", Options{})
	var before *pgconn.PgConn
	for _, tt := range []struct {
		with   error
		same   bool // as before
		epochs int  // that end with it
	}{
		{nil, false, 0}, {&pgconn.PgError{Code: "23505"}, true, 0}, {&pgconn.PgError{Code: readOnly}, true, 1}, {nil, false, 0}, {io.ErrUnexpectedEOF, true, 0},
	} {
		conn, err := db.acquire(t.Context())
		check(t, err)
		raw, epoch := conn.Conn().PgConn(), db.failover.epochs()
		if (raw == before) != tt.same {
			t.Errorf("before %v: the same connection: %t, want %t", tt.with, raw == before, tt.same)
		}
		here := db.failover.hostOf(raw)
		db.failover.lost = time.Now()
		db.giveBack(conn, tt.with)
		if got := db.failover.epochs() - epoch; got != tt.epochs || (db.failover.doubted == here) != (tt.epochs > 0) ||
			db.failover.lost.IsZero() != (tt.epochs == 0) {
			t.Errorf("%v: %d epochs have ended, want %d; doubted %v, none since %v", tt.with, got, tt.epochs, db.failover.doubted, db.failover.lost)
		}
		before = raw
	}
}

// TestSlowServer: a statement that is not answered in time ends only its own connection while others are answered. If
// no statement is answered, it ends all connections.
func TestSlowServer(t *testing.T) {
	db, _ := openNew(t)
	for others, want := range map[bool]int{true: 0, false: 1} {
		conn, err := db.acquire(t.Context())
		check(t, err)
		epoch := db.failover.epochs()
		if others {
			check(t, db.Ping(t.Context()))
		}
		check(t, conn.Conn().Close(t.Context()))
		db.giveBack(conn, context.DeadlineExceeded)
		if ended := db.failover.epochs() - epoch; ended != want {
			t.Errorf("others are answered: %t: %d epochs have ended, want %d", others, ended, want)
		}
	}
}

// TestOpenedAFewAtOnce: a pool that wants all of its connections opens a few of them side by side.
func TestOpenedAFewAtOnce(t *testing.T) {
	_, url := openNew(t)
	db := openAt(t, url, Options{Timeout: time.Minute})
	most, now := atomic.Int64{}, atomic.Int64{}
	c := db.pool.Config()
	c.MaxConns = 16
	dial := c.ConnConfig.DialFunc
	var pool *pgxpool.Pool
	c.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer now.Add(-1)
		waittest.Until(t, "all others to come by", func() bool {
			s := pool.Stat()
			return s.ConstructingConns()+s.TotalConns() >= c.MaxConns && (s.AcquiredConns() > 0 || now.Load() >= openingAtOnce)
		})
		return dial(ctx, network, addr)
	}
	var err error
	pool, err = pgxpool.NewWithConfig(t.Context(), c)
	check(t, err)
	defer pool.Close()
	var taken sync.WaitGroup
	var all [16]*pgxpool.Conn
	for i := range all {
		taken.Go(func() {
			conn, err := pool.Acquire(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			all[i] = conn
		})
	}
	taken.Wait()
	for _, conn := range all {
		if conn != nil {
			conn.Release()
		}
	}
	if got := most.Load(); got > openingAtOnce || got < 2 {
		t.Errorf("%d connections were opened side by side, want 2 to %d", got, openingAtOnce)
	}
	if n := len(db.failover.opening); n != 0 {
		t.Errorf("%d connections count as being opened", n)
	}
}

// TestMissing: the time without a server counts from the first call that found none, until one is found.
func TestMissing(t *testing.T) {
	var g failover
	_ = g.outage()
	first := g.lost
	if _ = g.outage(); first.IsZero() || g.lost != first {
		t.Errorf("none since %v, and then since %v", first, g.lost)
	}
	g.lost = first.Add(-time.Hour)
	if got := g.outage(); got < time.Hour {
		t.Errorf("missing for %v, want an hour", got)
	}
	if g.recordAnswer(); !g.lost.IsZero() {
		t.Errorf("none since %v, though one was found", g.lost)
	}
}

// TestTimelineCancelled: a new connection is not used if the query for its timeline was cancelled, by an operator or by
// a time limit. It would have timeline 0, older than all others.
func TestTimelineCancelled(t *testing.T) {
	db, _ := openNew(t)
	conn, err := db.pool.Acquire(t.Context())
	check(t, err)
	defer conn.Release()
	for _, sql := range []string{
		`CREATE FUNCTION pg_control_system(OUT system_identifier bigint) LANGUAGE plpgsql AS $$ BEGIN RAISE query_canceled; END $$`,
		`SELECT set_config('search_path', current_schema || ', pg_catalog', false)`,
	} {
		_, err := conn.Exec(t.Context(), sql)
		check(t, err)
	}
	g := &failover{addrs: map[string][]string{}, system: "this", timeline: 3}
	err = g.checkTimeline(t.Context(), conn.Conn().PgConn())
	if said, ok := errors.AsType[*pgconn.PgError](err); !ok || said.Code != "57014" {
		t.Errorf("%v, want what the server said", err)
	}
	if g.system != "this" || g.timeline != 3 {
		t.Errorf("timeline %d of %q, want what was known", g.timeline, g.system)
	}
}

// TestNoTimeline: a server that does not tell its timeline is as good as any.
func TestNoTimeline(t *testing.T) {
	server := pgtest.Get(t)
	server.Exec(t, server.URL(), "CREATE DATABASE silent")
	u, err := url.Parse(server.URL())
	check(t, err)
	u.Path, u.RawQuery = "/silent", "sslmode=disable"
	at := u.String()
	t.Cleanup(func() {
		server.Exec(t, at, "DROP OWNED BY threeds_plain; DROP ROLE threeds_plain")
		server.Exec(t, server.URL(), "DROP DATABASE silent WITH (FORCE)")
	})
	server.Exec(t, at, `REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC;
		CREATE ROLE threeds_plain LOGIN; GRANT CREATE ON SCHEMA public TO threeds_plain`)
	db := openAt(t, as(t, at, "threeds_plain"), Options{})
	check(t, db.Create(t.Context(), txn("a")))
	if db.failover.system != "" || db.failover.timeline != 0 {
		t.Errorf("timeline %d of %q; the test shows nothing", db.failover.timeline, db.failover.system)
	}
}

// TestReplacedMeanwhile: an answer of a server does not count, not even to a commit, if by then it has turned out that
// another server has replaced it.
func TestReplacedMeanwhile(t *testing.T) {
	db, _ := openNew(t)
	err := db.write(t.Context(), "replaced", func(context.Context, *pgx.Conn) error {
		db.failover.mu.Lock()
		defer db.failover.mu.Unlock()
		db.failover.timeline++
		return nil
	})
	if !errors.Is(err, errFormer) || errors.Is(err, store.ErrUndone) {
		t.Errorf("%v, want an error of unknown outcome", err)
	}
}

// TestOutage ends the server and starts it again: a call that begins in between waits for it, and no call loses its
// outcome because of an old connection. When the server is away for longer than a call may take, calls fail
// immediately.
func TestOutage(t *testing.T) {
	server := pgtest.Start(t)
	url := server.Schema(t)
	const limit = 200 * time.Millisecond
	patient, quick := openAt(t, url, Options{Timeout: time.Minute}), openHasty(t, url, Options{Timeout: limit})
	ctx := context.Background()
	for i := range 3 {
		var fill sync.WaitGroup // many connections in the pool
		for range 10 {
			fill.Go(func() { _ = patient.Ping(ctx) })
		}
		fill.Wait()
		eventually(t, "Ping", func() error { return quick.Ping(ctx) })
		check(t, server.Halt())
		begun := make(chan error)
		for j := range 10 {
			go func() { begun <- patient.Create(ctx, txn(fmt.Sprintf("%d-%d", i, j))) }()
		}
		start, first := time.Now(), time.Duration(0)
		for range 100 {
			if err := quick.Create(ctx, txn("never")); err == nil || known(err) {
				t.Errorf("Create without a server: %v", err)
			}
			first = cmp.Or(first, time.Since(start))
		}
		if later := time.Since(start) - first; later > 50*max(first, limit) {
			t.Errorf("99 calls without a server took %v, after a first one of %v", later, first)
		}
		check(t, server.Start())
		for range 10 {
			if err := <-begun; err != nil {
				t.Errorf("Create that began without a server: %v", err)
			}
		}
	}
}
