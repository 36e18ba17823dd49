package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/openthreeds/threeds/internal/account"
	"github.com/openthreeds/threeds/internal/api"
	"github.com/openthreeds/threeds/internal/auth"
	"github.com/openthreeds/threeds/internal/console"
	"github.com/openthreeds/threeds/internal/directory"
	"github.com/openthreeds/threeds/internal/gate"
	"github.com/openthreeds/threeds/internal/keyring"
	"github.com/openthreeds/threeds/internal/mpi"
	"github.com/openthreeds/threeds/internal/obs"
	"github.com/openthreeds/threeds/internal/ranges"
	"github.com/openthreeds/threeds/internal/results"
	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/message"
)

// A nodeConfig is everything a server needs, as values: serve makes it of the
// configuration file, sandbox of the sandbox's parts.
type nodeConfig struct {
	At        storeAt
	Ring      *keyring.Ring
	Server    auth.Server
	Merchants []account.Merchant
	Peers     []directory.Peer
	Engine    []auth.Directory
	Clients   []results.Client
	V1Peers   []directory.V1Peer // of 3-D Secure 1.0.2, may be none
	V1        []mpi.Directory    // the same, as the engine wants them
	Timeouts  auth.Timeouts
	Shutdown  time.Duration // for what is in flight when the process is to end
	LeaseTime time.Duration // of the refresher; 0: its own
	Limits    limits
	Loopback  bool                             // the sandbox: plain http pages of this machine are good
	Cards     func(*ranges.Schemes) auth.Cards // nil: the ranges alone
	Store     func(store.Store) store.Store    // nil: as it is; tests put faults in between
	API       net.Listener                     // TLS or not
	Results   net.Listener                     // TCP; TLS is put on top
	Console   net.Listener                     // nil: none
	Certs     []tls.Certificate                // of the results listener, by SNI
	Log       *slog.Logger
}

// limits bound what the listeners take.
type limits struct {
	PerKey      float64 // requests per second and API key
	InFlight    int64
	Connections int           // of each listener; 0: no bound
	Wait        time.Duration // for a processor, from which on load is shed; 0: it is not
	AuthBody    int64
	Body        int64
	Message     message.Limits
}

// A node is a running server.
type node struct {
	cfg     nodeConfig
	db      store.Store
	book    *account.Book
	client  *directory.Client
	engine  *auth.Engine
	v1      *directory.V1Client
	mpi     *mpi.Engine
	gate    *gate.Gate
	refused func(operation string, why api.Refusal)
	console *console.Handler
	servers []*http.Server // of requestors and directory servers
	health  *http.Server   // of operators; nil: none
}

// newNode plugs the parts together. Nothing is listening yet.
func newNode(ctx context.Context, cfg nodeConfig) (*node, error) {
	db, err := openStore(ctx, cfg.At)
	if err != nil {
		return nil, err
	}
	n := &node{cfg: cfg, db: db}
	if cfg.Store != nil {
		n.db = cfg.Store(db)
	}
	schemes := make([]string, len(cfg.Engine))
	for i, d := range cfg.Engine {
		schemes[i] = d.Scheme
	}
	cards := ranges.NewSchemes(schemes...)
	metrics := obs.NewMetrics()
	n.client, err = directory.New(cfg.Peers, cards, n.db, cfg.Log, hooks(metrics))
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	n.v1, err = directory.NewV1(cfg.V1Peers, cfg.Log, v1Hooks(metrics))
	if err != nil {
		return nil, errors.Join(err, n.client.Close(), db.Close())
	}
	n.client.LeaseTime = cfg.LeaseTime
	n.book = account.New(n.db, cfg.Ring.Hashes, cfg.Merchants, cfg.Log)
	n.engine = &auth.Engine{
		Store: n.db, Cards: cards, Directories: n.client,
		IDs: cfg.Ring.ID(), Sealer: cfg.Ring, Server: cfg.Server, Peers: cfg.Engine,
		Timeouts: cfg.Timeouts, Limits: cfg.Limits.Message, Loopback: cfg.Loopback,
		Log: cfg.Log, Now: time.Now, Observer: metrics,
	}
	if cfg.Cards != nil {
		n.engine.Cards = cfg.Cards(cards)
	}
	n.mpi = &mpi.Engine{
		Directories: cfg.V1, Client: n.v1, Store: n.db, Sealer: cfg.Ring, Loopback: cfg.Loopback,
		Log: cfg.Log, Now: time.Now, Observer: metrics,
	}
	if cfg.Limits.Wait > 0 {
		n.gate = gate.New(cfg.Limits.Wait, nil)
	}
	metrics.Gate(n.gate)
	n.refused = func(operation string, why api.Refusal) { metrics.Refused(operation, string(why)) }
	n.console = &console.Handler{Metrics: metrics.Handler(), Conditions: conditions(n.db, cards)}
	return n, nil
}

// abandon closes a node that was never run.
func (n *node) abandon() error {
	return errors.Join(n.cfg.API.Close(), n.cfg.Results.Close(), n.client.Close(), n.v1.Close(), n.db.Close())
}

// hooks counts what happens at the directories.
func hooks(m *obs.Metrics) directory.Hooks {
	return directory.Hooks{
		Exchanged: func(scheme string, t message.Type, _ time.Duration, err error) {
			m.Request(scheme, t.String(), exchanged(err))
		},
		Refreshed: m.Ranges,
		Dropped:   func(scheme string) { m.Request(scheme, message.Erro.String(), "dropped") },
	}
}

// v1Hooks is hooks for those of 3-D Secure 1.0.2.
func v1Hooks(m *obs.Metrics) directory.V1Hooks {
	return directory.V1Hooks{
		Exchanged: func(scheme, message string, _ time.Duration, err error) { m.Request(scheme, message, exchanged(err)) },
		Dropped:   func(scheme string) { m.Request(scheme, "Error", "dropped") },
	}
}

// exchanged is the outcome of an exchange, in a word.
func exchanged(err error) string {
	if bad, ok := errors.AsType[*directory.Error](err); ok {
		return bad.Kind.String()
	}
	return "ok"
}

// conditions are what readiness depends on.
func conditions(db store.Store, cards *ranges.Schemes) []console.Condition {
	all := []console.Condition{{
		Name: "store",
		Check: func() (string, bool) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if err := db.Ping(ctx); err != nil {
				return "cannot be reached", false
			}
			return "", false
		},
	}, {
		Name: "directories",
		Check: func() (string, bool) {
			if !cards.AnyTried() {
				return "none has been asked for its card ranges yet", false
			}
			return "", false
		},
	}}
	for _, scheme := range cards.Names() {
		all = append(all, console.Condition{Name: "ranges of " + scheme, Check: func() (string, bool) {
			if t := cards.Table(scheme); t == nil || t.Len() == 0 {
				return "none: its cards count as not enrolled", true
			}
			return "", true
		}})
	}
	return all
}

// run serves until ctx ends, then stops accepting, finishes what is in flight
// within the time for it, and closes everything.
func (n *node) run(ctx context.Context) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, failed := errgroup.WithContext(work)
	n.client.Resume(ctx)
	n.listen(group)
	group.Go(func() error { return ended(n.book.Run(failed)) })
	group.Go(func() error { return ended(n.client.Run(failed)) })
	group.Go(func() error {
		n.mpi.Run(failed)
		return nil
	})
	group.Go(func() error { return n.sweep(failed) })
	select {
	case <-ctx.Done():
	case <-failed.Done():
	}
	n.cfg.Log.Info("stopping", "within", n.cfg.Shutdown)
	err := n.drain()
	stop()
	return errors.Join(group.Wait(), err, n.client.Close(), n.v1.Close(), n.db.Close())
}

// listen starts the servers.
func (n *node) listen(group *errgroup.Group) {
	handler := &api.Handler{
		Engine: n.engine, MPI: n.mpi, Keys: n.book, Gate: n.gate, Limits: api.NewLimiter(n.cfg.Limits.PerKey), Refused: n.refused,
		MaxInFlight: n.inFlight(), AuthBody: n.cfg.Limits.AuthBody, Body: n.cfg.Limits.Body, Log: n.cfg.Log,
	}
	trust := &results.Trust{Clients: n.cfg.Clients, Now: time.Now}
	received := api.Server(&results.Handler{Engine: n.engine, Trust: trust, Log: n.cfg.Log}, 5*time.Second, n.cfg.Log)
	received.ConnContext = results.ConnContext
	serve := func(s *http.Server, l net.Listener) *http.Server {
		group.Go(func() error {
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("listener %s: %w", l.Addr(), err)
			}
			return nil
		})
		return s
	}
	requestors := api.Server(handler, n.slowest(), n.cfg.Log)
	conns := n.bound(requestors, 2)
	n.bound(received, 8)
	n.servers = []*http.Server{
		serve(requestors, n.guard(requestors, handler, conns)),
		serve(received, tls.NewListener(n.cfg.Results, trust.TLS(n.cfg.Certs...))),
	}
	if n.cfg.Console != nil {
		n.health = serve(api.Server(n.console, 5*time.Second, n.cfg.Log), n.cfg.Console)
	}
}

// guard puts a door before the API, if load is shed.
func (n *node) guard(s *http.Server, handler *api.Handler, conns *gate.Conns) net.Listener {
	if n.gate == nil {
		return n.cfg.API
	}
	door := handler.Door(n.cfg.API)
	door.Conns = conns
	door.Attach(s)
	return door
}

// inFlight is how many requests may be in work at once: as configured, and as fit
// into half of the memory, if that has a limit.
func (n *node) inFlight() int64 {
	const each = 128 << 10 // of an /auth that waits, with its share of garbage (bench memory)
	most := n.cfg.Limits.InFlight
	if fit := debug.SetMemoryLimit(-1) / 2 / each; most > fit {
		n.cfg.Log.Info("fewer requests at once than configured, for want of memory", "in_flight", fit)
		return max(fit, 1)
	}
	return most
}

// bound bounds the connections of a server: as configured, and to its part of the
// files that may be open, for directories and the store need some too.
func (n *node) bound(s *http.Server, part int) *gate.Conns {
	most := n.cfg.Limits.Connections
	if most == 0 {
		return nil
	}
	if files, ok := openFiles(); ok && most > files/part {
		most = files / part
		n.cfg.Log.Info("fewer connections than configured, for want of open files", "connections", most, "files", files)
	}
	conns := &gate.Conns{Max: most, Closed: func() { n.refused("connection", api.Connections) }}
	conns.Attach(s)
	return conns
}

// slowest is how long a request of the API may take.
func (n *node) slowest() time.Duration {
	if len(n.cfg.V1) > 0 {
		return max(n.cfg.Timeouts.Authentication, mpi.Longest)
	}
	return n.cfg.Timeouts.Authentication
}

// drain stops accepting and waits for what has been accepted. The console
// tells that to the end.
func (n *node) drain() error {
	n.console.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), n.cfg.Shutdown)
	defer cancel()
	var group errgroup.Group
	for _, s := range n.servers {
		group.Go(func() error { return s.Shutdown(ctx) })
	}
	err := errors.Join(group.Wait(), n.engine.Drain(ctx))
	all := n.servers
	if n.health != nil {
		err = errors.Join(err, n.health.Shutdown(ctx))
		all = append(all, n.health)
	}
	if err != nil {
		for _, s := range all {
			_ = s.Close()
		}
		return fmt.Errorf("what was in flight did not finish: %w", err)
	}
	return nil
}

// sweep frees what has expired, until ctx ends.
func (n *node) sweep(ctx context.Context) error {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			if _, err := n.db.Sweep(ctx, now); err != nil && ctx.Err() == nil {
				n.cfg.Log.Error("expired transactions not swept", "err", err)
			}
		}
	}
}

// ended turns the end of a background task by its context into no error.
func ended(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
