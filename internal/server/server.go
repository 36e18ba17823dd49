package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/openthreeds/threeds/internal/account"
	"github.com/openthreeds/threeds/internal/api"
	"github.com/openthreeds/threeds/internal/auth"
	"github.com/openthreeds/threeds/internal/certs"
	"github.com/openthreeds/threeds/internal/config"
	"github.com/openthreeds/threeds/internal/console"
	"github.com/openthreeds/threeds/internal/directory"
	"github.com/openthreeds/threeds/internal/keyring"
	"github.com/openthreeds/threeds/internal/listen"
	"github.com/openthreeds/threeds/internal/mpi"
	"github.com/openthreeds/threeds/internal/obs"
	"github.com/openthreeds/threeds/internal/ranges"
	"github.com/openthreeds/threeds/internal/results"
	"github.com/openthreeds/threeds/internal/shed"
	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/internal/tasks"
	"github.com/openthreeds/threeds/message"
)

// A Config is everything that a server needs, as values. Serve makes it from the
// configuration file.
type Config struct {
	At            config.StoreURL
	Ring          *keyring.Ring
	Server        auth.Server
	Merchants     []account.Merchant
	Peers         []directory.Peer   // the directory servers, as their client wants them
	Directories   []auth.Directory   // the same, as the engine wants them
	Clients       []certs.Client     // and as the listener for results
	V1Peers       []directory.V1Peer // those of 3-D Secure 1.0.2, may be none
	V1Directories []mpi.Directory    // the same, as their engine wants them
	Timeouts      auth.Timeouts
	Shutdown      time.Duration // for what is in flight when the process is to end
	LameDuck      time.Duration // before that, for requests of those who have not heard yet that it ends
	LeaseTime     time.Duration // of the refresher; 0: its own
	Limits        Limits
	Loopback      bool                             // for the sandbox: requestors may give http URLs of this machine where https is demanded
	Cards         func(*ranges.Schemes) auth.Cards // what looks cards up in place of the ranges; nil: they do
	Store         func(store.Store) store.Store    // what is used in place of the store; nil: it is; tests put faults in between
	API           net.Listener                     // TCP; TLS is put on top where there is a certificate
	Results       net.Listener                     // the same, always with TLS
	Console       net.Listener                     // nil: none
	APICert       *tls.Certificate                 // nil: plain HTTP
	Certs         []tls.Certificate                // of the results listener, by SNI
	Ends          map[string]time.Time             // of all certificates, by the key of the configuration
	ListTerms     map[string]config.Term           // of all revocation lists, by the key of the configuration
	Certificates  *config.Certificates             // which parts have some that are not valid; nil: none has
	Tracing       *obs.Tracing                     // nil: no traces
	Release       string                           // the version of the program, for the metrics
	Log           *slog.Logger
	Now           func() time.Time // of the engines; nil: that of this machine
}

// Limits bound what the listeners take.
type Limits struct {
	PerKey      float64 // requests per second and API key
	InFlight    int64
	Connections int           // of each listener; 0: no bound
	Wait        time.Duration // for a processor, and storeWaits of it for the store, from which on load is shed; 0: it is not
	AuthBody    int64
	Body        int64
	Message     message.Limits
}

// A Server is what stays as long as the process, and the parts
// that a changed configuration replaces.
type Server struct {
	cfg      Config // as the process began
	db       store.Store
	book     *account.KeyCache
	metrics  *obs.Metrics
	requests *obs.RequestLog
	traces   *obs.Traces       // nil: there are none
	gate     *shed.LoadShedder // nil: no load is shed
	console  *console.Handler
	api      *publicListener     // of requestors
	results  *publicListener     // of directory servers
	clock    *store.Clock        // nil: that of this machine is good
	stamp    func() time.Time    // the clock that nodes stamp by, all by one
	long     *semaphore.Weighted // room for long messages of directory servers
	health   *http.Server        // of operators; nil: none
	slowest  time.Duration       // what the servers were made for
	begin    func(*runtime)

	mu       sync.RWMutex // guards now, and its work.Add against Wait
	now      *runtime
	draining sync.WaitGroup // generations that have work to finish
	tasks    tasks.Group    // of the engines of all of them

	closing atomic.Bool
	inWork  atomic.Int64   // requests of the API that take a place, of all generations
	kept    listen.Drainer // connections of the servers
	conns   atomic.Int64   // how many they are
	late    atomic.Int64   // requests that came since closing

	unsealed atomic.Uint64 // records of transactions that did not open
}

// New plugs the parts together. Nothing is listening yet.
func New(ctx context.Context, cfg Config) (*Server, error) {
	db, err := OpenStore(ctx, cfg.At)
	if err != nil {
		return nil, err
	}
	n := &Server{cfg: cfg, db: db, metrics: obs.NewMetrics(), long: semaphore.NewWeighted(results.LongMessages)}
	if cfg.Store != nil {
		n.db = cfg.Store(db)
	}
	if n.cfg.Now == nil {
		n.cfg.Now = time.Now
	}
	n.stamp = n.cfg.Now
	if shared, ok := db.(store.ClockSource); ok {
		n.clock = store.NewClock(ctx, n.cfg.Now, shared, cfg.Log)
		n.stamp = n.clock.Now
	}
	n.requests = obs.NewRequestLog(cfg.Log, n.metrics, n.cfg.Now)
	n.watch()
	watchStore(n.metrics, db)
	watchRecords(n.metrics, &n.unsealed)
	if cfg.Limits.Wait > 0 {
		n.gate = shed.New(queues(cfg.Limits.Wait, n.db)...)
	}
	n.metrics.LoadShedder(n.gate)
	n.book = account.New(n.db, cfg.Ring, cfg.Merchants, cfg.Log)
	watchBook(n.metrics, n.book)
	n.api = n.newListener("api", cfg.API, 2, func(g *runtime) *tls.Config { return g.apiTLS })
	n.results = n.newListener("results", cfg.Results, 8, func(g *runtime) *tls.Config { return g.resultsTLS })
	if cfg.Tracing != nil {
		if n.traces, err = obs.NewTraces(*cfg.Tracing, n.metrics, cfg.Log); err != nil {
			return nil, errors.Join(fmt.Errorf("tracing: %w", err), db.Close())
		}
	}
	n.now, err = n.newRuntime(cfg, nil)
	if err != nil {
		n.endTraces()
		return nil, errors.Join(err, db.Close())
	}
	n.initMetrics(n.now)
	n.slowest = n.now.slowest()
	n.metrics.Certificates(cfg.Ends)
	n.metrics.Lists(listEnds(cfg.ListTerms))
	n.console = &console.Handler{Metrics: n.metrics.Handler(), Conditions: func() []console.Condition {
		return n.conditions()
	}}
	return n, nil
}

// Close closes a server that was never run, with its listeners.
func (n *Server) Close() error {
	n.endTraces()
	return errors.Join(closeListeners(&n.cfg), n.now.client.Close(), n.now.v1.Close(), n.db.Close())
}

// Run serves until ctx ends or a listener fails, then stops accepting, finishes what
// is in flight within the time for that, and closes everything. The duties start when
// requests are accepted. They are ended first of all, and waited for.
func (n *Server) Run(ctx context.Context, duties ...func(context.Context)) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, failed := errgroup.WithContext(work)
	tend := func(ctx context.Context, task func(context.Context)) {
		group.Go(func() error {
			task(ctx)
			return nil
		})
	}
	n.begin = func(g *runtime) {
		own, end := context.WithCancel(failed)
		g.end = end
		tend(failed, g.client.Run)
		tend(own, g.mpi.Run)
	}
	n.now.client.Resume(ctx)
	n.listen(group)
	n.begin(n.now)
	tend(failed, n.book.Run)
	tend(failed, n.sweep)
	tend(failed, n.watchEnds)
	tend(failed, n.requests.Run)
	if n.clock != nil {
		tend(failed, n.clock.Run)
	}
	serving, done := context.WithCancel(ctx)
	var onDuty sync.WaitGroup
	for _, duty := range duties {
		onDuty.Go(func() { duty(serving) })
	}
	select {
	case <-ctx.Done():
	case <-failed.Done():
	}
	done()
	onDuty.Wait()
	g := n.current()
	n.cfg.Log.Info("stopping", "lame_duck", g.cfg.LameDuck, "within", g.cfg.Shutdown)
	err := n.drain(failed, g)
	stop()
	err = errors.Join(group.Wait(), err)
	n.tasks.End()
	err = errors.Join(err, g.client.Close(), g.v1.Close(), n.db.Close())
	n.endTraces()
	return err
}

// listen starts the servers.
func (n *Server) listen(group *errgroup.Group) {
	serve := func(s *http.Server, l net.Listener) {
		group.Go(func() error {
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) && !n.closing.Load() {
				return fmt.Errorf("listener %s: %w", l.Addr(), err)
			}
			return nil
		})
	}
	requests := listen.NewServer(n.serving(func(g *runtime) http.Handler { return g.api }), n.slowest, n.cfg.Log)
	received := listen.NewServer(n.serving(func(g *runtime) http.Handler { return g.results }), 5*time.Second, n.cfg.Log)
	received.ConnContext = certs.ConnContext
	n.take(n.api, requests)
	n.take(n.results, received)
	serve(requests, n.api.listener)
	serve(received, n.results.listener)
	if n.cfg.Console != nil {
		n.health = listen.NewServer(n.console, 5*time.Second, n.cfg.Log)
		serve(n.health, &listener{Listener: n.cfg.Console, config: plain})
	}
}

// count keeps count of connections.
func (n *Server) count(_ net.Conn, s http.ConnState) {
	switch s {
	case http.StateNew:
		n.conns.Add(1)
	case http.StateClosed, http.StateHijacked:
		n.conns.Add(-1)
	}
}

// refused counts a request that was refused, or a connection that had to go.
func (n *Server) refused(operation string, why api.Refusal) {
	n.metrics.Refused(operation, string(why))
}

// Store is where the server keeps everything.
func (n *Server) Store() store.Store { return n.db }

// sweep frees what has expired, until ctx ends.
func (n *Server) sweep(ctx context.Context) {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if _, err := n.db.Sweep(ctx, n.stamp()); err != nil && ctx.Err() == nil {
				n.cfg.Log.Error("expired transactions not swept", "err", err)
			}
		}
	}
}
