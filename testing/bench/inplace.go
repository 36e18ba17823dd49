package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/openthreeds/threeds/internal/edge/api"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/peers/ranges/rangestest"
)

// inPlace measures what a load of card ranges does to /preauth without network and without
// the system's scheduler: one goroutine, which keeps a processor, calls the handler in this
// process, while another reads a PRes from a file, builds the table and swaps it in. What
// slows the handler down then is the program itself: locks, swaps, the garbage collector,
// and what it does to the processor's caches.
func inPlace(ctx context.Context, b *bench) ([]row, error) { return eachPRes(ctx, b, inPlaceOf) }

func inPlaceOf(ctx context.Context, b *bench, version string) (rows []row, err error) {
	set := rangestest.Set{Ranges: b.plan.ranges, Seed: 1}
	file := filepath.Join(b.dir, "inplace-"+version)
	size, err := writePRes(set, version, file)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.Remove(file)) }()
	schemes := ranges.NewSchemes("visa")
	if err := load(schemes, file); err != nil {
		return nil, err
	}
	h, err := newInner(ctx, filepath.Join(b.dir, "inplace"), schemes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.close(), os.RemoveAll(filepath.Join(b.dir, "inplace"))) }()

	m := handlerCaller{h: h.Handler, bodies: sample(set)}
	var ratios, busy99, calm99 []float64
	var took []time.Duration
	for i := range b.plan.inPlaceLoads {
		pause, end := context.WithTimeout(ctx, b.plan.beforeLoad)
		calm := m.run(pause.Done())
		end()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		loaded := make(chan struct{})
		var failed error
		start := time.Now()
		go func() {
			defer close(loaded)
			failed = load(schemes, file)
		}()
		busy := m.run(loaded)
		if took = append(took, time.Since(start)); failed != nil {
			return nil, failed
		}
		b99, c99 := percentile(busy, 0.99), percentile(calm, 0.99)
		b.printf("load %d of %s: %.2f s, p99 %v of %d, %v of %d before", i+1, version, took[i].Seconds(), b99, len(busy), c99, len(calm))
		ratios = append(ratios, float64(b99)/float64(c99))
		busy99, calm99 = append(busy99, float64(b99)/1e3), append(calm99, float64(c99)/1e3)
	}
	if m.refused != 0 {
		return nil, fmt.Errorf("/preauth: status %d", m.refused)
	}
	what := fmt.Sprintf("%d ranges of %s, ", b.plan.ranges, version)
	return []row{{
		what: what + "read, built, in use", target: "<= 2.5 s",
		measured: fmt.Sprintf("%.2f s", median(took).Seconds()), good: median(took) <= 2500*time.Millisecond,
		note: fmt.Sprintf("loads %.2f to %.2f s; %d MB from a file, /preauth on the other processor",
			percentile(took, 0).Seconds(), percentile(took, 1).Seconds(), size/1e6),
	}, {
		what: what + "/preauth p99 in place meanwhile", target: "<= 5 ms",
		measured: fmt.Sprintf("%.0f µs", median(busy99)), good: median(busy99) <= 5000,
		note: fmt.Sprintf("%.0f µs before; ratio %.2f, loads %.2f to %.2f", median(calm99), median(ratios), percentile(ratios, 0), percentile(ratios, 1)),
	}}, nil
}

// load reads a PRes and puts its ranges in the place of those that are there, as the server does.
func load(schemes *ranges.Schemes, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	pres, problems, err := ranges.ReadPRes(f, ranges.Options{})
	if err != nil {
		return err
	}
	if len(problems) > 0 {
		return fmt.Errorf("%d problems, the first: %v", len(problems), problems[0])
	}
	next, problems := pres.Next(nil)
	if len(problems) > 0 {
		return fmt.Errorf("%d problems, the first: %v", len(problems), problems[0])
	}
	schemes.Put("visa", next)
	return nil
}

// A handlerCaller calls a handler at a steady pace.
type handlerCaller struct {
	h       *api.Handler
	bodies  [][]byte
	calls   int
	refused int // the last status that was not 200
}

// pace is the time from one call to the next. A sleep as short as that may take a
// millisecond, so run reads the clock until the time has come.
const pace = 100 * time.Microsecond

// run calls the handler until end is closed, and returns how long after it was due each
// call ended: a slow call counts for all calls that it delays.
func (m *handlerCaller) run(end <-chan struct{}) []time.Duration {
	var all []time.Duration
	for due := time.Now(); ; due = due.Add(pace) {
		select {
		case <-end:
			return all
		default:
		}
		w, r := &answer{header: make(http.Header)}, m.next()
		for time.Now().Before(due) {
		}
		m.h.ServeHTTP(w, r)
		all = append(all, time.Since(due))
		if w.status != http.StatusOK {
			m.refused = w.status
		}
	}
}

func (m *handlerCaller) next() *http.Request {
	r, err := http.NewRequest(http.MethodPost, "/preauth", bytes.NewReader(m.bodies[m.calls%len(m.bodies)]))
	if err != nil {
		panic(err) // the method and the path are right
	}
	r.Header["Apikey"], r.Header["Content-Type"] = []string{apiKey}, []string{"application/json"}
	m.calls++
	return r
}

// An answer keeps its status and nothing else.
type answer struct {
	header http.Header
	status int
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { return len(b), nil }
