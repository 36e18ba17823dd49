// Package postgres keeps what a [store.Store] keeps in a PostgreSQL database, for
// several nodes at once.
//
// Transactions and leases expire by the clock of the database, so the clocks of
// the nodes do not matter here. Every write is one statement that commits by
// itself, or one transaction; none is held open while a caller's function runs, so a node that stops in the middle does
// not delay others. synchronous_commit is "on" or "remote_apply" in every session, whatever the server's default: a
// write that has returned nil is on disk, and with synchronous standbys also on theirs.
//
// A write whose outcome is not known, because the connection broke or a standby
// did not confirm, returns an error and is never tried again. A write that the server has certainly not done is tried
// again. When a caller has given up, the server does so too: a statement runs there for no longer than a call may take,
// and what has not reached the server by then is no longer sent. A commit that waits for a standby is not given up.
//
// A write of a transaction, an event or a delivery concerns one key: the id of the transaction. So their tables may be
// partitioned, or distributed, by its hash. Cleaning up reads candidates without locks, and then changes each key by
// itself if it is still as it was read.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/openthreeds/threeds/internal/base/socket"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/rows"
)

// What holds unless the URL says otherwise.
const (
	maxConns       = 24 // per process: a few nodes fit into the 100 of a server's own default
	connectTimeout = 3 * time.Second
	callTimeout    = 5 * time.Second
	scoutEvery     = 5 * time.Second
)

// serverClock is when the server got a statement, in milliseconds since 1970, in SQL. It stays the same within the
// statement: a database that distributes its tables does not pass on a write whose parts could see different times.
const serverClock = `floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint`

// dialectOf returns the dialect of PostgreSQL with a clock.
//
// A mark comes from a trigger. Without a trigger, or if it does not always fire, there is no mark. The trigger's xmin
// is part of the mark: it changes if the trigger was off for a while.
func dialectOf(clock string) rows.Dialect {
	const endpointTriggers = `(SELECT string_agg('-' || xmin, '' ORDER BY tgname) FROM pg_trigger
		WHERE tgrelid = 'endpoints'::regclass AND tgname IN ('mark', 'mark_merchant') AND tgenabled = 'A' HAVING count(*) = 2)`
	return rows.Dialect{
		Now:       clock,
		Texts:     "SELECT unnest($1::text[])",
		ForUpdate: "FOR UPDATE",
		KeysMark: `(SELECT encode(m.value, 'hex') || '-' || t.xmin FROM small_states m, pg_trigger t
			WHERE m.key = 'api keys' AND t.tgrelid = 'api_keys'::regclass AND t.tgname = 'mark' AND t.tgenabled = 'A')`,
		EndpointsMark: `(SELECT encode(value, 'hex') || ` + endpointTriggers +
			` FROM small_states WHERE key = 'webhook endpoints')`,
		MerchantMark: `encode(value, 'hex') || ` + endpointTriggers,
		Join:         joinTexts,
	}
}

// joinTexts makes one argument, an array, of texts.
func joinTexts(texts []string) any { return append([]string{}, texts...) }

// sqlPing reads a table, and whether this user may do what every authentication takes.
const sqlPing = `SELECT has_table_privilege('txns', 'SELECT') AND has_table_privilege('txns', 'INSERT') AND has_table_privilege('txns', 'UPDATE')
	FROM schema_version`

var (
	errClosed     = errors.New("postgres: store is closed")
	errUnreadable = errors.New("the URL cannot be read")
)

// Options change how a store works. The zero value is good.
type Options struct {
	// Engine says what the database is. Empty means [Plain].
	Engine Engine

	// Timeout is how long a call waits for a connection, and then how long for
	// the outcome of what it has begun. 0 means 5 s. The transactions of a snapshot,
	// which free many rows, may take ten times that.
	Timeout time.Duration

	clock string        // in the place of serverClock
	scout time.Duration // in the place of scoutEvery
	seen  func(statement string, args []any)
}

// A DB is a [store.Store] in a database. Close it after use.
type DB struct {
	*rows.Rows

	pool      *pgxpool.Pool
	failover  *failover
	scout     *scout
	engine    Engine
	placement placement
	watching  sync.WaitGroup
	recall    context.CancelFunc // Recall ends the watch of the scout.
	timeout   time.Duration
	begin     string // how a transaction begins

	begun  atomic.Int64  // calls that have not ended
	served atomic.Uint64 // that have

	// open is held for reading by every call, so that Close waits for them.
	open   sync.RWMutex
	closed bool
}

var _ store.Store = (*DB)(nil)

// Open opens the store in the database that a URL names, as libpq and pgxpool
// understand it: postgres://USER@HOST[,HOST…]/DATABASE?sslmode=verify-full&…
// Tables are made, and those of an older release brought up to date. A database of a newer release is used as it is if
// it says that this release can use it, and refused otherwise.
func Open(ctx context.Context, url string, opt Options) (*DB, error) {
	db, err := open(ctx, url, opt)
	if err != nil {
		return nil, fmt.Errorf("postgres: open: %w", err)
	}
	return db, nil
}

func open(ctx context.Context, url string, opt Options) (*DB, error) {
	db := &DB{
		timeout: cmp.Or(opt.Timeout, callTimeout), failover: newFailover(), engine: opt.Engine,
	}
	db.Rows = rows.New(engine{db}, dialectOf(cmp.Or(opt.clock, serverClock)))
	cfg, err := configure(url, db.timeout)
	if err != nil {
		return nil, err
	}
	if opt.Engine == Citus {
		forCitus(cfg.ConnConfig)
	}
	db.failover.attachTo(cfg, opt.seen)
	db.begin = "begin; set local statement_timeout = " + serverTime(10*db.timeout)
	if db.pool, err = pgxpool.NewWithConfig(ctx, cfg); err != nil {
		return nil, err
	}
	conn, err := db.pool.Acquire(ctx)
	if err == nil {
		err = prepare(ctx, conn.Conn(), opt.Engine)
		conn.Release()
	}
	if err != nil {
		db.pool.Close()
		return nil, err
	}
	watch, recall := context.WithCancel(context.WithoutCancel(ctx))
	db.scout, db.recall = newScout(db.failover, cfg.ConnConfig.Copy()), recall
	db.watching.Go(func() { db.scout.watch(watch, cmp.Or(opt.scout, scoutEvery)) })
	if opt.Engine == Citus {
		db.placement.renewal = make(chan struct{}, 1)
		_ = db.locate(ctx) // the watch tries again
		db.watching.Go(func() { db.watchPlacement(watch, placementEvery) })
	}
	return db, nil
}

// prepare checks that a database is what it is said to be, and brings its schema up to date.
func prepare(ctx context.Context, conn *pgx.Conn, engine Engine) error {
	if err := checkEngine(ctx, conn, engine); err != nil {
		return err
	}
	return explainDistribution(engine, migrate(ctx, conn, migrationsOf(engine), compatibleFrom))
}

// Check says which parameters of a URL [Open] would refuse before it looks for a file or a
// server. It quotes no value.
func Check(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return errUnreadable
	}
	given := u.Query()
	for _, file := range []string{"passfile", "sslcert", "sslkey", "sslrootcert"} {
		given.Del(file)
	}
	try := func(parameters url.Values) error {
		at := *u
		at.RawQuery = parameters.Encode()
		_, err := configure(at.String(), callTimeout)
		return err
	}
	err = try(given)
	if _, quotes := errors.AsType[*pgconn.ParseConfigError](err); !quotes {
		return err
	}
	if try(nil) != nil {
		return errUnreadable
	}
	var bad []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if try(url.Values{name: given[name]}) != nil {
			bad = append(bad, name)
		}
	}
	if len(bad) == 0 {
		return errUnreadable
	}
	return fmt.Errorf("%s in the URL: no such value", strings.Join(bad, ", "))
}

// serverTime is the statement_timeout for a call with a time limit: a little less, so that the server's refusal comes
// while the caller still waits. Otherwise the outcome would be unknown.
func serverTime(limit time.Duration) string {
	return strconv.FormatInt((limit - limit/10).Milliseconds(), 10)
}

// configure reads the URL and adds what it leaves open. Timeout is that of a call.
func configure(text string, timeout time.Duration) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(text)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errUnreadable
	}
	given := u.Query()
	// pgx passes over one that cannot be read, and logs in without a password
	if file := given.Get("passfile"); file != "" {
		if err := readable(file); err != nil {
			return nil, fmt.Errorf("passfile: %w", err)
		}
	}
	if !given.Has("pool_max_conns") {
		cfg.MaxConns = maxConns
	}
	if !given.Has("connect_timeout") {
		cfg.ConnConfig.ConnectTimeout = connectTimeout
	}
	if !given.Has("target_session_attrs") {
		// Of several hosts, use the one that takes writes. If there are only standbys, that is an error.
		cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	session := cfg.ConnConfig.RuntimeParams
	if err := setSession(session, timeout); err != nil {
		return nil, err
	}
	settings := []string{sqlDurable}
	if session["default_transaction_isolation"] == "" {
		settings = append(settings, sqlCommittedOnly)
	}
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		for _, setting := range settings {
			if _, err := conn.Exec(ctx, setting); err != nil {
				return err
			}
		}
		return nil
	}
	cfg.ConnConfig.OnNotice = keepWarning
	cfg.ConnConfig.DialFunc = dialer(timeout).DialContext
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false } // see acquire
	return cfg, nil
}

// setSession adds the parameters of a session that the URL leaves open, and refuses
// those under which acknowledged writes could be lost.
func setSession(session map[string]string, timeout time.Duration) error {
	for name, value := range map[string]string{
		"application_name": "threeds",
		// The server's own limits, for when this process is gone or cut off: a write must not happen long after its
		// caller heard that it has failed.
		"statement_timeout":                   serverTime(timeout),
		"idle_in_transaction_session_timeout": strconv.FormatInt(timeout.Milliseconds(), 10),
	} {
		if session[name] == "" {
			session[name] = value
		}
	}
	switch session["synchronous_commit"] {
	case "", "on", "remote_apply":
		return nil
	}
	return errors.New("synchronous_commit in the URL is neither on nor remote_apply: acknowledged results could be lost")
}

// dialer makes connections that end when the server does not answer any more.
func dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: callTimeout, Interval: callTimeout / 3, Count: 3},
		Control: func(network, _ string, s syscall.RawConn) error {
			if !strings.HasPrefix(network, "tcp") {
				return nil
			}
			return socket.GiveUp(s, timeout) // what was sent must not arrive long after its caller has given up
		},
	}
}

func readable(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	return f.Close()
}

const (
	// sqlDurable makes every commit of a session wait for the disk, and for the disks of the standbys, if the server
	// has synchronous ones.
	sqlDurable = `SELECT set_config('synchronous_commit', 'on', false)
		WHERE current_setting('synchronous_commit') <> 'remote_apply'`

	// sqlCommittedOnly sets the isolation level that our statements are made for. Under a
	// stricter default of the database a write of one row may be refused because of others.
	sqlCommittedOnly = `SELECT set_config('default_transaction_isolation', 'read committed', false)
		WHERE current_setting('default_transaction_isolation') <> 'read committed'`
)

// Stat says how busy the connections are.
func (db *DB) Stat() *pgxpool.Stat { return db.pool.Stat() }

// Queue returns how many calls have a connection or wait for one, and how many have
// been served.
func (db *DB) Queue() (waiting int, served uint64) {
	return int(db.begun.Load()), db.served.Load()
}

// beginCall begins a call, which the caller has to end with endCall.
func (db *DB) beginCall(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	db.open.RLock()
	if db.closed {
		db.open.RUnlock()
		return errClosed
	}
	return nil
}

func (db *DB) endCall() { db.open.RUnlock() }

// Close implements [store.Store].
func (db *DB) Close() error {
	db.open.Lock()
	defer db.open.Unlock()
	if !db.closed {
		db.closed = true
		db.recall()
		db.watching.Wait()
		db.pool.Close()
	}
	return nil
}

// Ping implements [store.Store].
func (db *DB) Ping(ctx context.Context) error {
	return db.read(ctx, "ping", func(ctx context.Context, conn *pgx.Conn) error {
		var mayWrite bool
		if err := conn.QueryRow(ctx, sqlPing).Scan(&mayWrite); err != nil || mayWrite {
			return err
		}
		return fmt.Errorf("privileges are missing: %w", store.ErrReadOnly)
	})
}

// Now returns the present by the clock that transactions and leases expire by.
func (db *DB) Now(ctx context.Context) (time.Time, error) {
	var ms int64
	err := db.read(ctx, "now", func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, db.SQL(`SELECT {now}`)).Scan(&ms)
	})
	return time.UnixMilli(ms).UTC(), err
}
