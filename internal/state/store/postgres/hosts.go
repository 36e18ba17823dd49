package postgres

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openthreeds/threeds/internal/base/socket"
)

// What a connection carries along with it, in its CustomData.
const (
	warning  = "warning"  // the last that the server gave
	epoch    = "epoch"    // int: the epoch in which it was opened
	timeline = "timeline" // int64: of its server; 0: not known
	used     = "used"     // time.Time: when it was last taken or given back
)

const (
	idleLong = time.Second // an idle connection is asked whether it is alive after this
	pingTime = time.Second // and has this to answer
)

// errFormer says that a server was the primary once, and has been replaced.
var errFormer = errors.New("the server is a previous primary: another has a newer timeline")

// A failover finds the primary among the hosts of a URL. It remembers where the last
// connection succeeded, so that new ones do not wait for a dead host first. It
// remembers the newest timeline: each promotion of a standby begins one, so a previous primary that comes back has an
// older one and is refused. And it counts epochs. An epoch ends when a connection fails; then all connections that were
// opened in it are closed instead of being tried one by one.
type failover struct {
	mu       sync.Mutex
	addrs    map[string][]string // of each host's name, as last looked up
	best     host                // the last that a connection succeeded to
	doubted  host                // the last to which a connection failed
	epoch    int
	system   string    // identifier of the database cluster that timeline is of
	timeline int64     // the newest that was seen
	lost     time.Time // since when no connection can be opened; zero: they can
	answered time.Time // when a server last answered on a connection of this epoch

	opening chan struct{} // one for each connection that is being opened
}

// openingAtOnce is how many connections a process opens side by side. If each node opened all connections of its pool
// at once, the server would be so busy that none is open in time, and then all nodes would begin again.
const openingAtOnce = 4

func newFailover() *failover {
	return &failover{addrs: make(map[string][]string), opening: make(chan struct{}, openingAtOnce)}
}

type host struct {
	name string
	port uint16
}

// attachTo makes a pool choose its hosts by the failover. If seen is not nil, it is called with each statement.
func (g *failover) attachTo(cfg *pgxpool.Config, seen func(statement string, args []any)) {
	c := cfg.ConnConfig
	lookUp, validate := c.LookupFunc, c.ValidateConnect
	c.LookupFunc = func(ctx context.Context, name string) ([]string, error) {
		addrs, err := lookUp(ctx, name)
		if err == nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.addrs[name] = addrs
		}
		return addrs, err
	}
	c.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if validate != nil {
			if err := validate(ctx, conn); err != nil {
				return err
			}
		}
		return g.checkTimeline(ctx, conn)
	}
	cfg.BeforeConnect = func(ctx context.Context, c *pgx.ConnConfig) error {
		select {
		case g.opening <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		c.Tracer = opened{g, seen}
		g.orderHosts(c)
		return nil
	}
}

// An opened hears from pgx that a connection is open, or that it could not be opened, and lets the next one begin.
type opened struct {
	*failover
	seen func(statement string, args []any)
}

func (opened) TraceConnectStart(ctx context.Context, _ pgx.TraceConnectStartData) context.Context {
	return ctx
}

func (o opened) TraceConnectEnd(context.Context, pgx.TraceConnectEndData) { <-o.opening }

func (o opened) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if o.seen != nil {
		o.seen(q.SQL, q.Args)
	}
	return ctx
}

func (opened) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// orderHosts puts the hosts to try into the order of what is known of them.
func (g *failover) orderHosts(c *pgx.ConnConfig) {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := append([]*pgconn.FallbackConfig{{Host: c.Host, Port: c.Port, TLSConfig: c.TLSConfig}}, c.Fallbacks...)
	rank := func(f *pgconn.FallbackConfig) int {
		switch (host{f.Host, f.Port}) {
		case g.doubted:
			return 2
		case g.best:
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b *pgconn.FallbackConfig) int { return cmp.Compare(rank(a), rank(b)) })
	c.Host, c.Port, c.TLSConfig, c.Fallbacks = all[0].Host, all[0].Port, all[0].TLSConfig, all[1:]
}

// sqlTimeline fails on a standby. An engine that only speaks PostgreSQL's protocol may
// not know it, see tellsNone.
const sqlTimeline = `SELECT system_identifier, substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) FROM pg_control_system()`

// tellsNone reports whether a server that has refused sqlTimeline with err will never
// answer it: it lacks the function, or the user lacks the right to it. Any other error
// may pass, and without a timeline the connection would look like one to a previous primary.
func tellsNone(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (strings.HasPrefix(refused.Code, "42") || refused.Code == "0A000")
}

// checkTimeline refuses a new connection to a previous primary, and records the timeline of others.
func (g *failover) checkTimeline(ctx context.Context, conn *pgconn.PgConn) error {
	got := conn.ExecParams(ctx, sqlTimeline, nil, nil, nil, nil).Read()
	if got.Err != nil && !tellsNone(got.Err) {
		return got.Err
	}
	system, line := "", int64(0)
	if got.Err == nil && len(got.Rows) == 1 {
		system = string(got.Rows[0][0])
		line, _ = strconv.ParseInt(string(got.Rows[0][1]), 16, 64)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case system != g.system: // another database altogether: its timelines cannot be compared
		g.system, g.timeline = system, line
	case line < g.timeline:
		return errFormer
	case line > g.timeline:
		g.timeline = line
		g.epoch++
	}
	conn.CustomData()[epoch], conn.CustomData()[timeline] = g.epoch, line
	if ctx.Value(scouting{}) != nil {
		return nil
	}
	g.best, g.lost = g.hostOf(conn), time.Time{}
	if g.doubted == g.best {
		g.doubted = host{}
	}
	return nil
}

// hostOf returns the host that a connection leads to. g.mu is held.
func (g *failover) hostOf(conn *pgconn.PgConn) host {
	addr, ok := conn.Conn().RemoteAddr().(*net.TCPAddr)
	if !ok {
		return host{}
	}
	for name, addrs := range g.addrs {
		if slices.Contains(addrs, addr.IP.String()) {
			return host{name, uint16(addr.Port)}
		}
	}
	return host{}
}

// isStale reports whether a connection was opened before another one failed, or leads to a previous primary.
func (g *failover) isStale(conn *pgconn.PgConn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return conn.CustomData()[epoch] != g.epoch
}

// isFormer reports whether a connection leads to a previous primary.
func (g *failover) isFormer(conn *pgconn.PgConn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	line, _ := conn.CustomData()[timeline].(int64)
	return line < g.timeline
}

// recordFailure ends the epoch of a connection that has failed. Later ones try its host last.
func (g *failover) recordFailure(conn *pgconn.PgConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if conn.CustomData()[epoch] == g.epoch {
		g.epoch++
		g.doubted = g.hostOf(conn)
	}
}

// recordSilence does the same for a connection that did not answer a query. asked is the time of the query. If the
// server has answered on another connection since, it is slow but not away: the epoch goes on. Opening all connections
// again would make it even slower.
func (g *failover) recordSilence(conn *pgconn.PgConn, asked time.Time) {
	g.mu.Lock()
	away := !g.answered.After(asked)
	g.mu.Unlock()
	if away {
		g.recordFailure(conn)
	}
}

// promotions returns the newest timeline that was seen: one more for each promotion.
func (g *failover) promotions() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.timeline
}

// outage records that no connection could be opened, and returns how long that has
// been so.
func (g *failover) outage() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.lost.IsZero() {
		g.lost = time.Now()
	}
	return time.Since(g.lost)
}

// recordAnswer records that a server answers.
func (g *failover) recordAnswer() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lost, g.answered = time.Time{}, time.Now()
}

// acquire takes a connection from the pool, and checks whether it is likely to work before a job depends on it.
func (db *DB) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	for {
		conn, err := db.pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		raw := conn.Conn().PgConn()
		since, idle := raw.CustomData()[used].(time.Time)
		quiet, over := socket.Peek(socket.Under(raw.Conn()))
		switch {
		case db.failover.isStale(raw):
		case over: // what is sent now would have an unknown outcome
			db.failover.recordFailure(raw)
		case quiet && (!idle || time.Since(since) < idleLong):
			raw.CustomData()[used] = time.Now()
			return conn, nil
		default: // it has been idle for long, or the server has said something
			asked := time.Now()
			ping, cancel := context.WithTimeout(ctx, pingTime)
			err := conn.Ping(ping)
			cancel()
			if err == nil {
				raw.CustomData()[used] = time.Now()
				return conn, nil
			}
			if ctx.Err() == nil {
				db.failover.recordSilence(raw, asked)
			}
		}
		drop(conn)
	}
}

// giveBack ends the use of a connection, with the error of what it was used for.
func (db *DB) giveBack(conn *pgxpool.Conn, err error) {
	raw := conn.Conn().PgConn()
	taken, _ := raw.CustomData()[used].(time.Time)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == readOnly {
		db.failover.recordFailure(raw)
	} else if raw.IsClosed() {
		db.failover.recordSilence(raw, taken)
	}
	if raw.IsClosed() || db.failover.isStale(raw) {
		drop(conn)
		return
	}
	raw.CustomData()[used] = time.Now()
	db.failover.recordAnswer()
	conn.Release()
}

// drop takes a connection out of the pool and closes it without a message to its server. The server may no longer
// answer, and the pool would wait for that before it opens another.
func drop(conn *pgxpool.Conn) {
	raw := conn.Hijack().PgConn()
	if !raw.IsClosed() { // if it is, pgx is closing the socket itself
		_ = raw.Conn().Close()
	}
}
