package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/base/answered"
	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/base/tasks"
	"github.com/openthreeds/threeds/internal/edge/api"
	"github.com/openthreeds/threeds/internal/edge/browser"
	"github.com/openthreeds/threeds/internal/edge/results"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/mpi"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/peers/certs"
	"github.com/openthreeds/threeds/internal/peers/directory"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/protocol/acp"
	"github.com/openthreeds/threeds/internal/state/idempotency"
	"github.com/openthreeds/threeds/web"
)

// A runtime is everything that is built from one configuration. It is activated as a whole.
// A request is served to its end by the runtime that was active when it came. The store,
// the listeners, the API keys and the metrics belong to the Server and outlive it.
type runtime struct {
	given      Config // as it was given
	cfg        Config // with the client certificates that the store has
	cards      *ranges.Schemes
	client     *directory.Client
	v1         *directory.V1Client
	engine     *session.Engine
	mpi        *mpi.Engine
	limits     *api.Limiter
	api        http.Handler
	results    http.Handler
	browser    http.Handler
	apiTLS     *tls.Config // nil means that the API speaks plain HTTP
	resultsTLS *tls.Config
	browserTLS *tls.Config // nil means that the listener for browsers speaks plain HTTP
	consoleTLS *tls.Config // nil means that the console speaks plain HTTP

	requests    sync.WaitGroup     // requests
	stopRefresh context.CancelFunc // ends the refreshing of v1 card ranges; set by startRuntime
}

// newRuntime builds the runtime of a configuration, to follow former, which is nil at the
// start. Nothing runs in it yet, and a runtime that is not activated needs no closing.
func (s *Server) newRuntime(cfg Config, former *runtime) (*runtime, error) {
	rt := &runtime{given: cfg, cfg: s.managed.apply(cfg)}
	if err := rt.connectDirectories(s, former); err != nil {
		return nil, err
	}
	s.buildEngines(rt)
	rt.limits = api.NewLimiter(rt.cfg.Limits.PerKey)
	if former != nil {
		rt.mpi.Follow(former.mpi)
		if former.cfg.Limits.PerKey == rt.cfg.Limits.PerKey {
			rt.limits = former.limits
		}
	}
	rt.browser = s.newBrowserHandler(&rt.cfg, rt.engine)
	rt.api = s.newAPIHandler(rt)
	if slowest := rt.maxRequestTime(); former != nil && slowest != s.maxRequestTime {
		rt.api = withWriteTimeout(slowest, rt.api)
	}
	s.secureListeners(rt)
	return rt, nil
}

// buildEngines makes the engines of a runtime, whose directories are connected.
func (s *Server) buildEngines(rt *runtime) {
	cfg, db, records := &rt.cfg, s.engineStore(), sealer{&s.ring, &s.refusedRecords}
	rt.engine = &session.Engine{Engine: &auth.Engine{
		Rows: txn.Rows{
			Store: db, Sealer: records, Timeouts: cfg.Timeouts, Log: s.cfg.Log, Now: s.timestamp, Tasks: &s.tasks,
			Acknowledged: &s.acknowledged, PutBack: func() { s.refusedRecords.Add(1) }, StoreFailures: &s.storeFailures,
		},
		Checker: check.Checker{
			Cards: rt.cards, IDs: transIDs{&s.ring}, Placement: s.placement(), Server: cfg.Server, Peers: cfg.Directories,
			Limits: cfg.Limits.Message, BrowserURL: cfg.BrowserURL, Loopback: cfg.Loopback,
		},
		Directories: rt.client, Observer: NewObserver(s.metrics), Recorder: obs.Recorder{}, Findings: &s.findings,
		Announcer: announcer{s.hooks},
	}}
	s.journalOf(rt.engine.Engine, cfg)
	if cfg.Cards != nil {
		rt.engine.Cards = cfg.Cards(rt.cards)
	}
	rt.mpi = &mpi.Engine{
		Directories: cfg.V1Directories, Client: rt.v1, Store: db, Sealer: records,
		Log: s.cfg.Log, Now: s.timestamp, Recorder: obs.Recorder{}, StoreFailures: &s.storeFailures,
	}
	rt.mpi.CardHash = rt.engine.CardHash
}

// newAPIHandler returns what serves requestors by the engines of a runtime.
func (s *Server) newAPIHandler(rt *runtime) http.Handler {
	cfg := &rt.cfg
	requests := &api.Handler{
		Engine: rt.engine, MPI: rt.mpi, Acts: s.acts, Keys: s.apiKeys, Gate: s.gate, Limits: rt.limits, Proxies: cfg.Proxies,
		Refused: s.countRefusal, MaxInFlight: s.maxInFlight(cfg.Limits.InFlight), InFlight: &s.inFlight, Shares: &s.shares,
		MerchantLimits: &s.merchantLimits, DocsURL: cfg.DocsURL,
		Waits: s.waits, Waiters: &s.waiters, AuthBody: cfg.Limits.AuthBody, Body: cfg.Limits.Body,
		Traces: s.traces, Requests: s.requests, Log: s.cfg.Log,
		Idempotency: &idempotency.Keeper{
			Store: s.engineStore(), Sealer: sealer{&s.ring, &s.refusedRecords}, Now: s.timestamp,
			Keep: cmp.Or(cfg.Idempotency, 24*time.Hour), ClaimTime: cfg.ClaimTime,
			CardHash: rt.engine.CardHash,
		},
	}
	if cfg.ACP != nil {
		requests.ACP = &acp.Signature{Secret: cfg.ACP.Secret, Now: s.timestamp}
	}
	if cfg.BrowserURL != "" {
		requests.BrowserScript, requests.BrowserIntegrity = cfg.BrowserURL+browser.ScriptPath(), web.Integrity()
	}
	return requests
}

// secureListeners sets whom the listener for results trusts, and the TLS of all listeners.
func (s *Server) secureListeners(rt *runtime) {
	cfg := &rt.cfg
	trust := &certs.Trust{Clients: cfg.Clients, Now: s.cfg.Now, Log: s.cfg.Log}
	rt.results = &results.Handler{
		Engine: rt.engine, Trust: trust, Body: cfg.Limits.AuthBody, Memory: s.longMessages, Traces: s.traces,
		Requests: s.requests, Log: s.cfg.Log,
	}
	rt.resultsTLS = s.results.limiter.Offer(trust.TLS(cfg.Certs...))
	if cfg.APICert != nil {
		rt.apiTLS = s.api.limiter.Offer(newTLSConfig(cfg.APICert, "h2", "http/1.1", "http/1.0"))
	}
	if cfg.BrowserCert != nil && s.browser != nil {
		rt.browserTLS = s.browser.limiter.Offer(newTLSConfig(cfg.BrowserCert, "h2", "http/1.1"))
	}
	if cfg.ConsoleCert != nil {
		rt.consoleTLS = newTLSConfig(cfg.ConsoleCert, "http/1.1")
	}
}

// newTLSConfig returns the TLS of a listener that asks for no client certificate.
func newTLSConfig(cert *tls.Certificate, protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, CipherSuites: certs.StrongSuites(), NextProtos: protocols,
		Certificates: []tls.Certificate{*cert},
	}
}

// connectDirectories makes the clients of the directory servers.
func (rt *runtime) connectDirectories(s *Server, former *runtime) (err error) {
	var schemes []string
	for _, d := range rt.cfg.Directories {
		schemes = append(schemes, d.Scheme)
	}
	if former != nil {
		rt.cards = former.cards.Next(schemes...)
		if rt.client, err = former.client.Next(rt.cfg.Peers, rt.cards); err != nil {
			return err
		}
		rt.v1, err = former.v1.Next(rt.cfg.V1Peers)
		return err
	}
	rt.cards = ranges.NewSchemes(schemes...)
	if rt.client, err = directory.New(rt.cfg.Peers, rt.cards, s.db, s.cfg.Log, s.directoryHooks()); err != nil {
		return err
	}
	rt.client.LeaseTime = rt.cfg.LeaseTime
	rt.v1, err = directory.NewV1(rt.cfg.V1Peers, s.cfg.Log, s.directoryHooks())
	return err
}

// maxRequestTime is the longest that a request of the API may take.
func (rt *runtime) maxRequestTime() time.Duration {
	if len(rt.cfg.V1Directories) > 0 {
		return max(rt.cfg.Timeouts.Authentication, mpi.Longest)
	}
	return rt.cfg.Timeouts.Authentication
}

func (s *Server) activeRuntime() *runtime {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.active
}

// activate puts another configuration into use, or returns why that is not possible and
// changes nothing.
func (s *Server) activate(ctx context.Context, cfg Config) error {
	s.activating.Lock()
	defer s.activating.Unlock()
	if len(cfg.Managed) > 0 {
		s.managed.refresh(ctx)
	}
	return s.activateLocked(ctx, cfg)
}

// activateLocked is activate for a caller that holds activating.
func (s *Server) activateLocked(ctx context.Context, cfg Config) error {
	former := s.activeRuntime()
	rt, err := s.newRuntime(cfg, former)
	if err != nil {
		return err
	}
	cfg = rt.cfg
	s.initMetrics(rt)
	rt.client.Resume(ctx)
	s.apiKeys.SetMerchants(cfg.Merchants)
	if cfg.Ring != nil {
		s.useRing(cfg.Ring)
	}
	s.hooks.Configure(cfg.Webhooks.forDeliveries(s.timestamp))
	s.startRuntime(rt)
	s.mu.Lock()
	s.active = rt
	s.mu.Unlock()
	cfg.Journal.apply(s.journal)
	s.drainRuntime(former, rt)
	s.metrics.Certificates(cfg.CertificateEnds, cfg.schemeOf)
	s.metrics.Lists(listEnds(cfg.ListTerms), cfg.schemeOf)
	if cfg.Tracing != nil {
		s.traces.Sample(cfg.Tracing.Fraction)
	}
	return nil
}

// initMetrics creates the series of each scheme with the value 0.
func (s *Server) initMetrics(rt *runtime) {
	for _, scheme := range rt.cards.Names() {
		s.metrics.Known(scheme)
	}
}

// drainRuntime stops what belongs only to former: its background tasks immediately, its connections when its last
// request has been answered.
func (s *Server) drainRuntime(former, next *runtime) {
	former.stopRefresh()
	former.client.Retire(next.client)
	former.v1.Retire(next.v1)
	for _, scheme := range former.cards.Names() {
		if !slices.Contains(next.cards.Names(), scheme) {
			s.metrics.Forget(scheme)
		}
	}
	for _, d := range former.cfg.V1Directories {
		if !slices.ContainsFunc(next.cfg.V1Directories, func(stays mpi.Directory) bool { return stays.Scheme == d.Scheme }) {
			s.metrics.ForgetV1(d.Scheme)
		}
	}
	s.draining.Go(func() {
		former.requests.Wait()
		_ = former.engine.Drain(context.Background()) // every AReq has a time limit
		former.client.Retire(next.client)
		former.v1.Retire(next.v1)
	})
}

// awaitDrained waits until all runtimes that were replaced have drained, or ctx ends.
func (s *Server) awaitDrained(ctx context.Context) error {
	return tasks.Wait(ctx, &s.draining)
}

// serveActive answers each request with the handler of the runtime that is active when it
// comes. While the process is about to end, each answer is the last on its connection.
func (s *Server) serveActive(handler func(*runtime) http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.RLock()
		rt := s.active
		rt.requests.Add(1)
		s.mu.RUnlock()
		defer rt.requests.Done()
		if s.isClosing.Load() {
			s.lateRequests.Add(1)
		}
		handler(rt).ServeHTTP(&answered.Writer{ResponseWriter: w, Before: func() {
			if s.isClosing.Load() { // even if that was not so when the request came
				w.Header().Set("Connection", "close")
			}
		}}, r)
	})
}

// withWriteTimeout sets the time limit for writing an answer, as [listen.NewServer] does, for another
// slowest than that server was made for: servers stay when the configuration changes.
func withWriteTimeout(slowest time.Duration, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(slowest + 10*time.Second))
		h.ServeHTTP(w, r)
	})
}
