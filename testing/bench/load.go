package main

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Load generates load: it plays requestors, and the directory server where that
// posts results. Its exported methods are what the parent process may ask of
// it; a reply without meaning is an int.
type Load struct {
	key     string
	api     *pool
	direct  *pool // to the directory server, as the server under test would
	results *pool // to the results listener, as the directory server would
	browser *pool // to the browser listener, as the page of a shopper would

	loops         map[string]*requestLoop
	rreqs         [][]byte    // requests with the results of challenges, to be sent
	steadyStopped atomic.Bool // ends RunSteady

	slow    slowClients
	waiters waiters
}

// Peers is where load goes, and how the generator shows itself there.
type Peers struct {
	Key                              string
	API, Results, Browser, Directory string // addresses
	CA                               []byte
	AsServer, AsDirectory            Certificate
	HasTLS                           bool // at the API and for browsers
}

// SetPeers sets the peers. It is called first.
func (l *Load) SetPeers(p Peers, _ *int) error {
	asServer, err := p.AsServer.client(p.CA)
	if err != nil {
		return err
	}
	asDirectory, err := p.AsDirectory.client(p.CA)
	if err != nil {
		return err
	}
	l.key = p.Key
	l.api = &pool{address: p.API}
	l.direct = &pool{address: p.Directory, tls: asServer}
	l.results = &pool{address: p.Results, tls: asDirectory}
	l.browser = &pool{address: p.Browser}
	if p.HasTLS {
		l.api.tls, l.browser.tls = asServer, asServer
	}
	return nil
}

// Targets are requests that a request loop sends again and again.
type Targets struct {
	Address, Path, Key string
	Bodies             [][]byte
	Conns              int
}

// A requestLoop sends requests as a closed loop on each of its connections.
type requestLoop struct {
	conns    []*conn
	requests [][]byte
}

// OpenLoop opens the connections of a request loop.
func (l *Load) OpenLoop(t Targets, _ *int) error {
	h := new(requestLoop)
	for _, body := range t.Bodies {
		h.requests = append(h.requests, request(t.Address, t.Path, t.Key, body))
	}
	p := &pool{address: t.Address}
	for range t.Conns {
		c, err := p.dial()
		if err != nil {
			return err
		}
		h.conns = append(h.conns, c)
	}
	if l.loops == nil {
		l.loops = make(map[string]*requestLoop)
	}
	l.loops[t.Address] = h
	return nil
}

// A LoopRun is one run of a request loop.
type LoopRun struct {
	Address string
	For     time.Duration
}

// LoopResult counts the answers of a run, all of which have status 200.
type LoopResult struct {
	Requests int64
	Took     time.Duration
}

// RunLoop sends requests on all connections of a request loop, each as soon as the
// answer to the one before is there.
func (l *Load) RunLoop(s LoopRun, tally *LoopResult) error {
	h := l.loops[s.Address]
	start := time.Now()
	var total atomic.Int64
	var faults faults
	var loops sync.WaitGroup
	for i, c := range h.conns {
		loops.Go(func() {
			n := int64(0)
			faults.note(c.SetDeadline(start.Add(s.For + exchangeTimeout)))
			for at := i * 79; time.Since(start) < s.For; at++ { // each connection begins elsewhere
				status, err := c.do(h.requests[at%len(h.requests)])
				if err != nil || status != 200 {
					faults.note(errors.Join(err, fmt.Errorf("status %d: %.200s", status, c.body)))
					break
				}
				n++
			}
			total.Add(n)
		})
	}
	loops.Wait()
	*tally = LoopResult{total.Load(), time.Since(start)}
	return faults.err()
}

// faults keeps the first of many errors, and their number.
type faults struct {
	mu    sync.Mutex
	n     int
	first error
}

func (f *faults) note(err error) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	if f.first == nil {
		f.first = err
	}
}

func (f *faults) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.n == 0 {
		return nil
	}
	return fmt.Errorf("%d requests failed, the first: %w", f.n, f.first)
}

// openLoop calls send(0) to send(n-1), rate a second, whether or not the earlier calls
// have returned, and waits for all. It returns how late each call began, which shows
// whether the machine was too slow for the generator.
func openLoop(n int, rate float64, send func(i int)) (late []time.Duration) {
	due := make([]time.Duration, n)
	for i := range due {
		due[i] = time.Duration(float64(i) / rate * float64(time.Second))
	}
	return openLoopAt(due, send)
}

// openLoopAt is openLoop with the time for each call, counted from now.
func openLoopAt(due []time.Duration, send func(i int)) (late []time.Duration) {
	late = make([]time.Duration, len(due))
	start := time.Now()
	var shots sync.WaitGroup
	for i, after := range due {
		at := start.Add(after)
		time.Sleep(time.Until(at))
		shots.Go(func() {
			late[i] = time.Since(at)
			send(i)
		})
	}
	shots.Wait()
	return late
}

// closedLoop calls send(0) to send(n-1), as many at once as there are workers.
func closedLoop(workers, n int, send func(i int)) {
	var next atomic.Int64
	var loops sync.WaitGroup
	for range workers {
		loops.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				send(i)
			}
		})
	}
	loops.Wait()
}

// member returns the text of a member of a JSON object that has its name once
// and no escapes in it: enough for messages of our own making.
func member(message []byte, name string) []byte {
	_, rest, ok := bytes.Cut(message, []byte(`"`+name+`":"`))
	if !ok {
		return nil
	}
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	return text
}

// client is the TLS configuration of a client that shows c and trusts ca.
func (c Certificate) client(ca []byte) (*tls.Config, error) {
	own, pool, err := c.load(ca)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{own}, ServerName: "127.0.0.1",
	}, nil
}
