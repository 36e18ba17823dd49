// Package server builds and runs a 3-D Secure server. Use [Serve] for a server that a
// configuration file describes, and [New] with a [Config] for one that is made of values.
//
// A [Server] keeps what lives as long as the process: the store, the listeners, the API keys
// and the metrics. All else is built from the configuration as one runtime, which a reload
// replaces as a whole: see runtime.go.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/openthreeds/threeds/internal/base/keyfile"
	"github.com/openthreeds/threeds/internal/base/keyhelper"
	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/base/tasks"
	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/edge/api"
	"github.com/openthreeds/threeds/internal/edge/browser"
	"github.com/openthreeds/threeds/internal/edge/console"
	"github.com/openthreeds/threeds/internal/edge/listen"
	"github.com/openthreeds/threeds/internal/edge/login"
	"github.com/openthreeds/threeds/internal/edge/results"
	"github.com/openthreeds/threeds/internal/edge/shed"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/mpi"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/operate/ops"
	"github.com/openthreeds/threeds/internal/operate/siem"
	"github.com/openthreeds/threeds/internal/operate/webhook"
	"github.com/openthreeds/threeds/internal/peers/certs"
	"github.com/openthreeds/threeds/internal/peers/clientcert"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/rotation"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// A Config is everything that a server needs, as values. Serve makes it from the
// configuration file.
type Config struct {
	StoreURL    config.StoreURL
	Ring        *keyring.Ring     // nil for activate: the one in use stays
	Vault       keyfile.Vault     // seals the files of keys
	KeyHelper   *keyhelper.Helper // holds keys in the place of files; nil: there is none. Who has made it closes it
	Server      check.Server
	Merchants   []account.Merchant
	Peers       []directory.Peer        // the directory servers, as their client wants them
	Directories []check.Directory       // the same, as the engine wants them
	Clients     []certs.Client          // and as the listener for results
	CAs         map[string]DirectoryCAs // by scheme, to be shown
	Colours     map[string]string       // of the marks of schemes on pages, #rrggbb
	// directories whose client certificate the store has: scheme and key of the configuration
	Managed map[string]string
	// those of 3-D Secure 1.0.2, may be none
	V1Peers       []directory.V1Peer
	V1Directories []mpi.Directory // the same, as their engine wants them
	Timeouts      txn.Timeouts
	Idempotency   time.Duration // how long an Idempotency-Key stands for one request; 0 means 24 hours
	Webhooks      WebhookSettings
	SIEM          siem.Sender  // of the audit trail and the seals of the journal; nil means that they are sent nowhere
	ACP           *ACPSettings // nil means that agents are not served
	// nil means that there is no journal
	Journal   *JournalSettings
	TrailKeys string        // the file of the keys that sign the audit trail without a journal; "" means that none do
	Shutdown  time.Duration // for what is in flight when the process is to end
	LameDuck  time.Duration // before that, for requests of those who have not heard yet that it ends
	ClaimTime time.Duration // for an Idempotency-Key whose node has died; 0 means a minute
	LeaseTime time.Duration // of the refresher; 0: its own
	Limits    Limits
	Loopback  bool // for the sandbox: requestors may give http URLs of this machine where https is demanded
	// what looks cards up in place of the ranges; nil: they do
	Cards func(*ranges.Schemes) check.Cards
	// what is used in place of the store; nil: it is; tests put faults in between
	Store           func(store.Store) store.Store
	Front           Front                // serves other paths in front of the API; nil means nothing does
	API             net.Listener         // TCP; TLS is put on top where there is a certificate
	Results         net.Listener         // the same, always with TLS
	Console         net.Listener         // nil means that there is none
	Metrics         net.Listener         // of health and metrics; nil: the console has them
	ConsoleCert     *tls.Certificate     // nil means that the console speaks plain HTTP
	Login           *login.Settings      // of the console; nil: it has neither pages nor the admin API
	OpenConsole     *OpenConsole         // of the sandbox, in place of Login; nil: operators log in
	DocsURL         string               // where the documentation is that problems link to; "": they have no link
	BrowserURL      string               // the origin under which browsers reach our pages; "": there are none
	Browser         net.Listener         // of these pages; nil means that Front serves them, or that there are none
	BrowserCert     *tls.Certificate     // nil means that this listener speaks plain HTTP
	BrowserProxies  []netip.Prefix       // proxies in front of it, whose X-Forwarded-For is trusted
	Proxies         []netip.Prefix       // proxies in front of the API, whose X-Forwarded-For is trusted
	APICert         *tls.Certificate     // nil means that the API speaks plain HTTP
	Certs           []tls.Certificate    // of the results listener, by SNI
	CertificateEnds map[string]time.Time // of all certificates, by the key of the configuration
	// of all revocation lists, by the key of the configuration
	ListTerms    map[string]config.Term
	Certificates *config.Certificates // which parts have some that are not valid; nil: none has
	ConfigHash   string               // by which nodes tell that their configurations are the same; "": it is not shown
	Tracing      *obs.Tracing         // nil means that no traces are sent
	Release      string               // the version of the program, for the metrics
	Log          *slog.Logger
	Now          func() time.Time // of the engines; nil: that of this machine
}

// ACPSettings say how agents are served.
type ACPSettings struct {
	Secret []byte // with which agents sign requests; empty means that signatures are not looked at
}

// A Front serves other paths than those of the API at its listener. browser serves the pages for browsers, and console
// those for operators.
type Front func(api, browser, console http.Handler) http.Handler

// An OpenConsole has no login: every visitor is admin. Only a server of the sandbox may have one, and no configuration
// file can ask for it. What serves it refuses requests under names of others.
type OpenConsole struct {
	Origin    string                 // under which browsers reach it
	IsOwnHost func(host string) bool // whether forms may come from, and go to, this host, too
	Shop      string                 // the address of a shop to try payments in
}

// check refuses an open console of a server that is not the sandbox's.
func (o *OpenConsole) check(cfg *Config) error {
	isReal := func(d check.Directory) bool { return !d.Lab }
	if o != nil && (!cfg.Loopback || cfg.Login != nil || slices.ContainsFunc(cfg.Directories, isReal)) {
		return errors.New("only the sandbox has a console without login")
	}
	return nil
}

// Limits bound what the listeners take.
type Limits struct {
	PerKey      float64 // requests per second and API key
	InFlight    int64
	Connections int // of each listener; 0: no bound
	// for a processor after which load is shed, and storeWaits times that for the store; 0 means never
	Wait     time.Duration
	AuthBody int64
	Body     int64
	Message  message.Limits
}

// A Server is a 3-D Secure server: what stays as long as the process, and the runtime that
// a changed configuration replaces. Make it with New.
type Server struct {
	cfg       Config // the configuration that the process began with
	db        store.Store
	apiKeys   *account.KeyCache
	hooks     *webhook.Service
	acts      *ops.Acts
	journal   *journal.Journal // nil means that there is none
	trailKeys *journal.Keys    // those that sign the audit trail; nil means that none do

	trailHead  atomic.Pointer[journal.ChainEnd]   // the last entry of the audit trail that was checked
	trailFault atomic.Pointer[journal.ChainError] // the entry of the audit trail that is not as it was written
	operators  *operator.Service
	siem       *siem.Service
	metrics    *obs.Metrics

	journalKeysProblem string // what the file of trailKeys lacks; "" when they were read

	requests       *obs.RequestLog
	traces         *obs.Traces       // nil means that there are no traces
	gate           *shed.LoadShedder // nil means that no load is shed
	console        *console.Handler
	adminAPI       *admin.Handler      // nil: the console has neither pages nor an API
	api            *publicListener     // of requestors
	results        *publicListener     // of directory servers
	clock          *store.Clock        // nil means that the clock of this machine is used
	timestamp      func() time.Time    // the clock that nodes stamp by, all by one
	longMessages   *semaphore.Weighted // room for long messages of directory servers
	managed        *managedCertificates
	login          *login.Service  // of the console; nil: it has no pages
	consoleServers []*http.Server  // of operators, and of monitoring if that has its own
	browser        *publicListener // of browsers; nil: none of its own
	maxRequestTime time.Duration   // what the servers were made for
	startRuntime   func(*runtime)

	activating sync.Mutex // held while another runtime takes the place of the active one

	mu       sync.RWMutex // guards now, and its work.Add against Wait
	active   *runtime
	draining sync.WaitGroup // runtimes that have requests to finish
	tasks    tasks.Group    // of the engines of all runtimes

	isClosing atomic.Bool
	waits     context.Context // ends when requests that wait for a result are to be answered immediately
	endWaits  context.CancelFunc
	waiters   listen.Waiters // requests of the API that wait, in all runtimes
	inFlight  atomic.Int64   // requests of the API that are being answered, in all runtimes
	shares    api.Shares     // of merchants in those

	merchantLimits api.MerchantLimits // of the settings of merchants
	keepAlive      listen.Drainer     // connections of the servers
	connCount      atomic.Int64       // how many they are
	lateRequests   atomic.Int64       // requests that came since closing

	refusedRecords atomic.Uint64    // records of transactions that did not open, or are older than their result
	acknowledged   txn.Acknowledged // results, in all runtimes
	// of all runtimes
	findings      auth.FindingLimit
	storeFailures obs.LogThrottle        // in requests of all runtimes
	writes        writeWatch             // the store's: those of requests, in all runtimes, and this node's sign of life
	problems      problemLog             // of this node
	configProblem atomic.Pointer[string] // what is wrong with the configuration on disk; nil: nothing
	// describeConfig returns the configuration in use, and what is in its file. It is nil for a server without a file,
	// and does not change once the server runs.
	describeConfig func() *admin.Configuration
	hookFailures   obs.LogThrottle // failures of the store in the delivery of webhooks

	began     time.Time     // when the server was made, by its own clock
	resealNow chan struct{} // another secret of the key file has come into use

	ring     atomic.Pointer[keyring.Ring] // of all runtimes: a rotation changes it for those that drain, too
	follower *rotation.Follower           // nil: the server takes part in no rotations
}

// New builds a server. Requests wait until Run is called.
func New(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.OpenConsole.check(&cfg); err != nil {
		return nil, err
	}
	db, err := OpenStore(ctx, cfg.StoreURL)
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, db: db, metrics: obs.NewMetrics(), longMessages: semaphore.NewWeighted(results.LongMessages),
		resealNow: make(chan struct{}, 1),
	}
	s.storeFailures.Interval, s.hookFailures.Interval = time.Second, time.Second
	s.ring.Store(cfg.Ring)
	s.waits, s.endWaits = context.WithCancel(context.Background())
	if cfg.Store != nil {
		s.db = cfg.Store(db)
	}
	if s.cfg.Now == nil {
		s.cfg.Now = time.Now
	}
	s.startClock(ctx, db)
	s.began = s.timestamp()
	s.requests = obs.NewRequestLog(cfg.Log, s.metrics, s.cfg.Now)
	if s.journal, err = s.newJournal(cfg.Journal); err == nil {
		s.trailKeys, err = s.loadTrailKeys()
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	s.requests.Ended = s.journalRequest
	s.registerMetrics()
	registerStoreMetrics(s.metrics, db)
	registerKeyHelperMetrics(s.metrics, cfg.KeyHelper)
	if cfg.Limits.Wait > 0 {
		s.gate = shed.New(loadQueues(cfg.Limits.Wait, s.db)...)
	}
	registerLoadMetrics(s.metrics, s.gate)
	s.hooks = s.newHooks()
	s.operators = &operator.Service{
		Store: s.db, Sealer: sealer{&s.ring, &s.refusedRecords}, Now: s.timestamp, Keys: s.trailKeys,
		RefusesWritesFor: s.refusesWritesFor,
	}
	s.siem = s.newSIEM()
	registerSIEMMetrics(s.metrics, s.siem, s.timestamp)
	s.registerHeadMetrics(s.metrics)
	registerWebhookMetrics(s.metrics, s.hooks)
	s.apiKeys = account.New(s.db, cfg.Ring, cfg.Merchants, cfg.Log)
	s.merchantLimits.Nodes = s.countNodes
	registerKeyMetrics(s.metrics, s.apiKeys, s.countNodes)
	s.wrapListeners()
	if cfg.Tracing != nil {
		if s.traces, err = obs.NewTraces(*cfg.Tracing, s.metrics, cfg.Log); err != nil {
			return nil, errors.Join(fmt.Errorf("tracing: %w", err), db.Close())
		}
	}
	s.managed = &managedCertificates{
		service: &clientcert.Service{Store: s.db, Sealer: sealer{&s.ring, new(atomic.Uint64)}, Now: s.timestamp},
		log:     cfg.Log, now: s.timestamp, degraded: make(map[string]bool),
	}
	s.acts = s.newActs()
	if len(cfg.Managed) > 0 {
		s.managed.refresh(ctx)
	}
	s.active, err = s.newRuntime(cfg, nil)
	if err != nil {
		s.closeTraces()
		return nil, errors.Join(err, db.Close())
	}
	inUse := &s.active.cfg
	s.managed.logFaults(inUse)
	s.initMetrics(s.active)
	s.metrics.Certificates(inUse.CertificateEnds, inUse.schemeOf)
	s.metrics.Lists(listEnds(inUse.ListTerms), inUse.schemeOf)
	s.maxRequestTime = s.active.maxRequestTime()
	s.buildConsole()
	return s, nil
}

// startClock sets the clock that is stamped by: the store's, if it has one for all nodes. opened is the store that
// another may stand in front of.
func (s *Server) startClock(ctx context.Context, opened store.Store) {
	s.timestamp = s.cfg.Now
	shared, ok := s.db.(store.ClockSource) // what stands in front of the store may turn its clock
	if !ok {
		shared, ok = opened.(store.ClockSource)
	}
	if ok {
		s.clock = store.NewClock(ctx, s.cfg.Now, shared, s.cfg.Log)
		s.timestamp = s.clock.Now
	}
}

// wrapListeners puts limits and TLS on the listeners of requestors, directory servers and browsers.
func (s *Server) wrapListeners() {
	s.api = s.newListener("api", listen.Pace(s.cfg.API, s.isOverloaded),
		2, func(rt *runtime) *tls.Config { return rt.apiTLS })
	s.waiters.Max = s.api.limiter.Max / waitersShare
	s.results = s.newListener("results", s.cfg.Results, 8, func(rt *runtime) *tls.Config { return rt.resultsTLS })
	if s.cfg.Browser != nil {
		s.browser = s.newListener("browser", s.cfg.Browser, 8, func(rt *runtime) *tls.Config { return rt.browserTLS })
	}
}

// buildConsole makes what operators and monitoring see.
func (s *Server) buildConsole() {
	s.console = &console.Handler{
		Metrics: s.metrics.Handler(), Conditions: s.readyConditions, Identity: s.identity, HasOwnHealth: s.cfg.Metrics != nil,
	}
	if s.cfg.Login != nil || s.cfg.OpenConsole != nil {
		api := s.newAdminAPI()
		s.adminAPI = api
		s.console.Admin, s.console.Pages = api, s.newConsolePages(api)
	}
}

// Close closes a server that was never run, with its listeners.
func (s *Server) Close() error {
	s.closeTraces()
	return errors.Join(closeListeners(&s.cfg), s.active.client.Close(), s.active.v1.Close(), s.db.Close())
}

// Run serves until ctx ends or a listener fails, then stops accepting, finishes what
// is in flight within the time for that, and closes everything. The duties start when
// requests are accepted; they are ended first, and Run waits for them.
func (s *Server) Run(ctx context.Context, duties ...func(context.Context)) error {
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, failed := errgroup.WithContext(work)
	goRun := func(ctx context.Context, task func(context.Context)) {
		group.Go(func() error {
			task(ctx)
			return nil
		})
	}
	s.startRuntime = func(rt *runtime) {
		refreshing, stop := context.WithCancel(failed)
		rt.stopRefresh = stop
		goRun(failed, rt.client.Run)
		goRun(refreshing, rt.mpi.Run)
	}
	s.active.client.Resume(ctx)
	s.readEndpoints(ctx)
	s.listen(group)
	s.startRuntime(s.active)
	for _, task := range s.backgroundTasks() {
		goRun(failed, task)
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
	rt := s.activeRuntime()
	s.cfg.Log.Info("stopping", "lame_duck", rt.cfg.LameDuck, "within", rt.cfg.Shutdown)
	err := s.drain(failed, rt)
	stop()
	err = errors.Join(group.Wait(), err)
	s.tasks.End()
	if s.journal != nil {
		err = errors.Join(err, s.journal.Store.Close())
	}
	err = errors.Join(err, rt.client.Close(), rt.v1.Close(), s.db.Close())
	s.closeTraces()
	return err
}

// backgroundTasks returns what runs next to the listeners, until the context of each ends.
func (s *Server) backgroundTasks() []func(context.Context) {
	all := []func(context.Context){s.apiKeys.Run, func(ctx context.Context) { s.apiKeys.RunUses(ctx, s.db) }}
	if s.follower != nil {
		all = append(all, s.follower.Run)
	}
	all = append(all, s.sweep, s.eraseCards, s.keepObjects, s.signTrail, s.hooks.Run, s.siem.Run)
	if s.journal != nil {
		all = append(all, s.journal.Run, s.journal.RunDuties)
	}
	if s.cfg.KeyHelper != nil {
		all = append(all, s.cfg.KeyHelper.Watch)
	}
	all = append(all, s.watchProblems, s.keepNotices, s.watchExpiry, s.watchManaged, s.watchForOperator, s.requests.Run)
	if s.clock != nil {
		all = append(all, s.clock.Run)
	}
	return all
}

// listen starts the servers.
func (s *Server) listen(group *errgroup.Group) {
	serve := func(srv *http.Server, l net.Listener) {
		group.Go(func() error {
			if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) && !s.isClosing.Load() {
				return fmt.Errorf("listener %s: %w", l.Addr(), err)
			}
			return nil
		})
	}
	front := s.serveActive(func(rt *runtime) http.Handler { return rt.api })
	pages := s.serveActive(func(rt *runtime) http.Handler { return rt.browser })
	if s.cfg.Front != nil {
		front = s.cfg.Front(front, pages, s.console)
	}
	requests := listen.NewServer(front, s.maxRequestTime, s.cfg.Log)
	received := listen.NewServer(s.serveActive(func(rt *runtime) http.Handler { return rt.results }),
		5*time.Second, s.cfg.Log)
	received.ConnContext = certs.ConnContext
	s.attachServer(s.api, requests)
	s.attachServer(s.results, received)
	serve(requests, s.api.listener)
	serve(received, s.results.listener)
	if s.browser != nil {
		s.attachServer(s.browser, listen.NewServer(pages, browser.LongestRequest, s.cfg.Log))
		serve(s.browser.server, s.browser.listener)
	}
	if s.cfg.Console != nil {
		s.serveConsole(s.cfg.Console, s.console, func() *tls.Config { return s.activeRuntime().consoleTLS }, serve)
	}
	if s.cfg.Metrics != nil {
		s.serveConsole(s.cfg.Metrics, s.console.Health(), func() *tls.Config { return nil }, serve)
	}
}

// serveConsole serves a listener of operators or of monitoring.
func (s *Server) serveConsole(l net.Listener, h http.Handler, secured func() *tls.Config,
	serve func(*http.Server, net.Listener)) {
	server := listen.NewServer(h, 5*time.Second, s.cfg.Log)
	s.consoleServers = append(s.consoleServers, server)
	limiter := s.newLimiter("console", min(consoleConnections, s.cfg.Limits.Connections), 16)
	limiter.Attach(server)
	serve(server, &listener{Listener: limiter.Listener(l), config: secured})
}

// countConnection keeps count of connections.
func (s *Server) countConnection(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.connCount.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.connCount.Add(-1)
	}
}

// refused counts a request that was refused, or a connection that had to go.
func (s *Server) countRefusal(operation string, why api.Refusal) {
	s.metrics.Refused(operation, string(why))
}

// Store is where the server keeps everything.
func (s *Server) Store() store.Store { return s.db }

// Journal is what the server keeps of each authentication; nil if it keeps none.
func (s *Server) Journal() journal.Store {
	if s.journal == nil {
		return nil
	}
	return s.journal.Store
}

// eraseEvery is how often the server looks for cards whose browser did not come in time.
const eraseEvery = 5 * time.Second

// eraseCards takes the cards of browsers that did not come out of the store, until ctx ends.
func (s *Server) eraseCards(ctx context.Context) {
	lister, ok := s.db.(store.Lister)
	if !ok {
		return
	}
	var after store.Txn
	var throttle obs.LogThrottle
	for tasks.Sleep(ctx, eraseEvery) {
		var err error
		if after, err = s.activeRuntime().engine.EraseCards(ctx, lister, after); err == nil || ctx.Err() != nil {
			continue
		}
		if others, ok := throttle.Due(s.timestamp()); ok {
			s.cfg.Log.Error("cards of browsers that did not come are not erased", "err", err, "others", others)
		}
	}
}

// sweep frees what has expired, until ctx ends.
func (s *Server) sweep(ctx context.Context) {
	for tasks.Sleep(ctx, time.Minute) {
		if _, err := s.db.Sweep(ctx, s.timestamp()); err != nil && ctx.Err() == nil {
			s.cfg.Log.Error("expired transactions not swept", "err", err)
		}
	}
}
