package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"time"

	"github.com/openthreeds/threeds/internal/base/obs"
	"github.com/openthreeds/threeds/internal/edge/api"
	"github.com/openthreeds/threeds/internal/edge/listen"
	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store/sqlite"
	"github.com/openthreeds/threeds/message"
)

// constant is what /preauth is measured against: a handler that does the same around a
// fixed answer. It checks the key, applies the rate limit, reads the body, counts, and
// answers as many bytes, with the code of the real one.
type constant struct {
	keys    api.Keeper
	limits  *api.Limiter
	metrics *obs.Metrics
	answer  []byte
}

func (c *constant) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	key := r.Header.Get("Apikey")
	if _, err := c.keys.Authenticate(r.Context(), key); err != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if _, ok := c.limits.Allow(key); !ok || r.ContentLength < 0 || r.ContentLength > 64<<10 {
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	body := make([]byte, r.ContentLength)
	if _, err := io.ReadFull(http.MaxBytesReader(w, r.Body, 64<<10), body); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.metrics.Observe("preauth", "visa", "ok", "", time.Since(start))
	header := w.Header()
	header["Cache-Control"], header["X-Content-Type-Options"], header["Content-Type"] = noStore, noSniff, jsonType
	header["Content-Length"] = []string{strconv.Itoa(len(c.answer))}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(c.answer)
}

var (
	noStore  = []string{"no-store"}
	noSniff  = []string{"nosniff"}
	jsonType = []string{"application/json; charset=utf-8"}
)

// preauth measures throughput and processor time of /preauth against those of
// the constant handler. Both listen in this process, and nothing else runs in it.
func preauth(ctx context.Context, b *bench) (rows []row, err error) {
	schemes, pans, err := cards(b.plan.ranges)
	if err != nil {
		return nil, err
	}
	h, err := newInner(ctx, filepath.Join(b.dir, "preauth"), schemes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	bodies := make([][]byte, len(pans))
	for i, pan := range pans {
		bodies[i] = []byte(`{"acctNumber":"` + pan + `"}`)
	}
	acc, err := h.Keys.Authenticate(ctx, apiKey)
	if err != nil {
		return nil, err
	}
	answer, _, err := h.Engine.Preauth(ctx, acc, bodies[0])
	if err != nil {
		return nil, err
	}
	d := &comparison{b: b, bodies: bodies}
	return d.runRounds(ctx, h.Log, h, &constant{keys: h.Keys, limits: h.Limits, metrics: h.metrics, answer: answer})
}

// An inner is the API's handler in this process, ready for /preauth.
type inner struct {
	*api.Handler
	metrics *obs.Metrics
	close   func() error
}

// newInner makes one with a store of its own in dir, which has the merchant of [apiKey].
func newInner(ctx context.Context, dir string, schemes *ranges.Schemes) (*inner, error) {
	db, err := sqlite.Open(dir, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	keys := filepath.Join(dir, "keys.json")
	if err := putKey(ctx, db, keys); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	ring, err := keyring.Load(keys)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	log, metrics := slog.New(slog.DiscardHandler), obs.NewMetrics()
	book := account.New(db, ring, nil, log)
	ctx, stop := context.WithCancel(ctx)
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		book.Run(ctx)
	}()
	engine := &session.Engine{Engine: &auth.Engine{
		Rows: txn.Rows{
			Store: db, Sealer: ring, Log: log, Now: time.Now, Timeouts: txn.Timeouts{Authentication: 10 * time.Second, Preauth: 80 * time.Second},
		},
		Checker: check.Checker{
			Cards: schemes, IDs: ring.ID(),
			Server: check.Server{RefNumber: func(message.Version) string { return "3DS_LOA_SER_BENCH_020200_00001" }},
		},
		Observer: server.NewObserver(metrics),
	}}
	for _, name := range schemes.Names() {
		engine.Peers = append(engine.Peers, check.Directory{Scheme: name, Versions: message.Versions()})
	}
	return &inner{
		Handler: &api.Handler{Engine: engine, Keys: book, Limits: api.NewLimiter(1e9), MaxInFlight: 10000, Log: log},
		metrics: metrics,
		close: func() error {
			stop()
			<-ran
			return db.Close()
		},
	}, nil
}

// A comparison is two handlers that take turns under the same load.
type comparison struct {
	b      *bench
	bodies [][]byte
	load   *child
}

// A turn is what one handler did while the load went to it.
type turn struct {
	requests        int64
	took, processor time.Duration
}

func (t turn) plus(u turn) turn {
	return turn{t.requests + u.requests, t.took + u.took, t.processor + u.processor}
}

func (t turn) perSecond() float64 { return float64(t.requests) / t.took.Seconds() }

// micros is the processor time of a request.
func (t turn) micros() float64 { return float64(t.processor.Microseconds()) / float64(t.requests) }

func (d *comparison) runRounds(ctx context.Context, log *slog.Logger, handlers ...http.Handler) (rows []row, err error) {
	if d.load, err = startChild(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.load.stop()) }()
	var addresses []string
	for i, h := range handlers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		server := listen.NewServer(h, 10*time.Second, log)
		go pprof.Do(ctx, pprof.Labels("duel", []string{"preauth", "constant"}[i]), func(context.Context) { // a profile tells the two apart
			_ = server.Serve(l) // ends when it is closed
		})
		defer server.Close()
		address := l.Addr().String()
		t := Targets{Address: address, Path: "/preauth", Key: apiKey, Bodies: d.bodies, Conns: d.b.plan.conns}
		if err := d.load.ask(ctx, "Load.OpenLoop", t, new(int)); err != nil {
			return nil, err
		}
		if _, err := d.turn(ctx, address, d.b.plan.roundTime/2); err != nil { // to warm up
			return nil, err
		}
		addresses = append(addresses, address)
	}
	if d.b.profile != "" {
		f, err := os.Create(d.b.profile)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return nil, err
		}
		defer pprof.StopCPUProfile()
	}
	return d.rounds(ctx, addresses[0], addresses[1])
}

// rounds compares the two. A round is made of short turns, since the load of other guests
// on the machine changes within a second. The two take turns at going first.
func (d *comparison) rounds(ctx context.Context, ours, theirs string) ([]row, error) {
	plan := &d.b.plan
	var speed, cost, ourSpeed, ourCost, theirCost []float64
	for i := range plan.rounds {
		runtime.GC() // so that no turn pays for the garbage of earlier ones
		got := make(map[string]turn)
		for k := range plan.turnsPerRound {
			order := []string{ours, theirs}
			if k%2 == 1 {
				order = []string{theirs, ours}
			}
			for _, address := range order {
				t, err := d.turn(ctx, address, plan.roundTime/time.Duration(plan.turnsPerRound))
				if err != nil {
					return nil, err
				}
				got[address] = got[address].plus(t)
			}
		}
		a, b := got[ours], got[theirs]
		d.b.printf("round %d: %.0f/s at %.1f µs, constant %.0f/s at %.1f µs", i+1, a.perSecond(), a.micros(), b.perSecond(), b.micros())
		speed, cost = append(speed, a.perSecond()/b.perSecond()), append(cost, a.micros()/b.micros())
		ourSpeed, ourCost, theirCost = append(ourSpeed, a.perSecond()), append(ourCost, a.micros()), append(theirCost, b.micros())
	}
	spread := func(v []float64) string {
		return fmt.Sprintf("rounds %.2f to %.2f", percentile(v, 0), percentile(v, 1))
	}
	return []row{{
		what: "/preauth requests/s, ratio to constant", target: ">= 0.70",
		measured: fmt.Sprintf("%.2f", median(speed)), good: median(speed) >= 0.70,
		note: fmt.Sprintf("%s; %.0f/s", spread(speed), median(ourSpeed)),
	}, {
		what: "/preauth processor time, ratio to constant", target: "<= 1.5",
		measured: fmt.Sprintf("%.2f", median(cost)), good: median(cost) <= 1.5,
		note: fmt.Sprintf("%s; %.1f µs against %.1f µs", spread(cost), median(ourCost), median(theirCost)),
	}}, nil
}

// turn sends the load to one of the two for a while.
func (d *comparison) turn(ctx context.Context, address string, wait time.Duration) (turn, error) {
	before, err := processorTime()
	if err != nil {
		return turn{}, err
	}
	var t LoopResult
	if err := d.load.ask(ctx, "Load.RunLoop", LoopRun{address, wait}, &t); err != nil {
		return turn{}, err
	}
	after, err := processorTime()
	return turn{t.Requests, t.Took, after - before}, err
}
