package server

import (
	"context"
	"crypto/tls"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/internal/api"
	"github.com/openthreeds/threeds/internal/auth"
	"github.com/openthreeds/threeds/internal/certs"
	"github.com/openthreeds/threeds/internal/directory"
	"github.com/openthreeds/threeds/internal/mpi"
	"github.com/openthreeds/threeds/internal/obs"
	"github.com/openthreeds/threeds/internal/ranges"
	"github.com/openthreeds/threeds/internal/results"
)

// A generation is all that follows from one configuration. It is put into use as a
// whole; a request is served to its end by the generation that was in use when it came.
// Store, listeners, API keys and metrics belong to the node.
type runtime struct {
	cfg        Config
	cards      *ranges.Schemes
	client     *directory.Client
	v1         *directory.V1Client
	engine     *auth.Engine
	mpi        *mpi.Engine
	limits     *api.Limiter
	api        http.Handler
	results    http.Handler
	apiTLS     *tls.Config // nil: plain HTTP
	resultsTLS *tls.Config

	work sync.WaitGroup     // requests
	end  context.CancelFunc // ends the refreshing of v1 card ranges; set by node.begin
}

// generation builds the generation of a configuration. Former is the one that it is to
// follow, nil at the start. Nothing runs in it yet, and one that is not used needs no
// closing.
func (n *Server) newRuntime(cfg Config, former *runtime) (*runtime, error) {
	g := &runtime{cfg: cfg}
	schemes := make([]string, len(cfg.Directories))
	for i, d := range cfg.Directories {
		schemes[i] = d.Scheme
	}
	if err := g.connect(n, schemes, former); err != nil {
		return nil, err
	}
	db := n.engineStore()
	records := sealer{cfg.Ring, &n.unsealed}
	g.engine = &auth.Engine{
		Store: db, Cards: g.cards, Directories: g.client,
		IDs: cfg.Ring.ID(), Sealer: records, Server: cfg.Server, Peers: cfg.Directories,
		Timeouts: cfg.Timeouts, Limits: cfg.Limits.Message, Loopback: cfg.Loopback,
		Log: n.cfg.Log, Now: n.stamp, Observer: n.metrics, Tasks: &n.tasks, Recorder: obs.Recorder{},
	}
	if cfg.Cards != nil {
		g.engine.Cards = cfg.Cards(g.cards)
	}
	g.mpi = &mpi.Engine{
		Directories: cfg.V1Directories, Client: g.v1, Store: db, Sealer: records,
		Log: n.cfg.Log, Now: n.stamp, Recorder: obs.Recorder{},
	}
	g.limits = api.NewLimiter(cfg.Limits.PerKey)
	if former != nil {
		g.mpi.Follow(former.mpi)
		if former.cfg.Limits.PerKey == cfg.Limits.PerKey {
			g.limits = former.limits
		}
	}
	g.api = &api.Handler{
		Engine: g.engine, MPI: g.mpi, Keys: n.book, Gate: n.gate, Limits: g.limits, Refused: n.refused,
		MaxInFlight: n.inFlight(cfg.Limits.InFlight), InFlight: &n.inWork, AuthBody: cfg.Limits.AuthBody, Body: cfg.Limits.Body,
		Traces: n.traces, Requests: n.requests, Log: n.cfg.Log,
	}
	if slowest := g.slowest(); former != nil && slowest != n.slowest {
		g.api = bounded(slowest, g.api)
	}
	trust := &certs.Trust{Clients: cfg.Clients, Now: n.cfg.Now, Log: n.cfg.Log}
	g.results = &results.Handler{Engine: g.engine, Trust: trust, Body: cfg.Limits.AuthBody, Room: n.long, Traces: n.traces, Requests: n.requests, Log: n.cfg.Log}
	g.resultsTLS = n.results.limiter.Offer(trust.TLS(cfg.Certs...))
	if cfg.APICert != nil {
		g.apiTLS = n.api.limiter.Offer(&tls.Config{
			MinVersion: tls.VersionTLS12, CipherSuites: certs.StrongSuites(), NextProtos: []string{"h2", "http/1.1", "http/1.0"},
			Certificates: []tls.Certificate{*cfg.APICert},
		})
	}
	return g, nil
}

// connect makes the clients of the directory servers.
func (g *runtime) connect(n *Server, schemes []string, former *runtime) (err error) {
	if former != nil {
		g.cards = former.cards.Next(schemes...)
		if g.client, err = former.client.Next(g.cfg.Peers, g.cards); err != nil {
			return err
		}
		g.v1, err = former.v1.Next(g.cfg.V1Peers)
		return err
	}
	g.cards = ranges.NewSchemes(schemes...)
	if g.client, err = directory.New(g.cfg.Peers, g.cards, n.db, n.cfg.Log, n.hooks()); err != nil {
		return err
	}
	g.client.LeaseTime = g.cfg.LeaseTime
	g.v1, err = directory.NewV1(g.cfg.V1Peers, n.cfg.Log, n.hooks())
	return err
}

// slowest is the longest that a request of the API may take.
func (g *runtime) slowest() time.Duration {
	if len(g.cfg.V1Directories) > 0 {
		return max(g.cfg.Timeouts.Authentication, mpi.Longest)
	}
	return g.cfg.Timeouts.Authentication
}

func (n *Server) current() *runtime {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.now
}

// adopt puts another configuration into use, or returns why that is not possible and
// changes nothing. It must not be called concurrently.
func (n *Server) activate(ctx context.Context, cfg Config) error {
	former := n.current()
	g, err := n.newRuntime(cfg, former)
	if err != nil {
		return err
	}
	n.initMetrics(g)
	g.client.Resume(ctx)
	n.book.Configure(cfg.Ring, cfg.Merchants)
	n.begin(g)
	n.mu.Lock()
	n.now = g
	n.mu.Unlock()
	n.drainRuntime(former, g)
	n.metrics.Certificates(cfg.Ends)
	n.metrics.Lists(listEnds(cfg.ListTerms))
	if cfg.Tracing != nil {
		n.traces.Sample(cfg.Tracing.Fraction)
	}
	return nil
}

// known has the metrics show every scheme of a generation, before anything has happened
// to it.
func (n *Server) initMetrics(g *runtime) {
	for _, scheme := range g.cards.Names() {
		n.metrics.Known(scheme)
	}
}

// retire ends what former alone has: its background tasks at once, its connections when
// its last request has been answered.
func (n *Server) drainRuntime(former, next *runtime) {
	former.end()
	former.client.Retire(next.client)
	former.v1.Retire(next.v1)
	for _, scheme := range former.cards.Names() {
		if !slices.Contains(next.cards.Names(), scheme) {
			n.metrics.Forget(scheme)
		}
	}
	for _, d := range former.cfg.V1Directories {
		if !slices.ContainsFunc(next.cfg.V1Directories, func(stays mpi.Directory) bool { return stays.Scheme == d.Scheme }) {
			n.metrics.ForgetV1(d.Scheme)
		}
	}
	n.draining.Go(func() {
		former.work.Wait()
		_ = former.engine.Drain(context.Background()) // every AReq has a time limit
		former.client.Retire(next.client)
		former.v1.Retire(next.v1)
	})
}

// retired waits until all generations that were replaced have ended, or ctx does.
func (n *Server) awaitDrained(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		n.draining.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// serving answers each request by the generation that is in use when it comes. While
// the process is about to end each answer is the last on its connection.
func (n *Server) serving(handler func(*runtime) http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.RLock()
		g := n.now
		g.work.Add(1)
		n.mu.RUnlock()
		defer g.work.Done()
		if n.closing.Load() {
			n.late.Add(1)
		}
		handler(g).ServeHTTP(&last{ResponseWriter: w, closing: &n.closing}, r)
	})
}

// last is a response that closes its connection if the process is about to end when the
// header is written, even if that was not so when the request came.
type last struct {
	http.ResponseWriter
	closing *atomic.Bool
	begun   bool
}

func (w *last) WriteHeader(status int) {
	if w.begun = true; w.closing.Load() {
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *last) Write(p []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets an [http.ResponseController] through.
func (w *last) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// bounded sets the time limit for writing an answer, as [listen.NewServer] does, for another
// slowest than that server was made for: servers stay when the configuration changes.
func bounded(slowest time.Duration, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(slowest + 10*time.Second))
		h.ServeHTTP(w, r)
	})
}
