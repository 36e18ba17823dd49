package main

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Steady is requests to /preauth at a steady rate, and between them as many to a [Control]:
// where both become slow, it is the machine and not the server.
type Steady struct {
	Bodies  [][]byte
	Rate    float64 // per second
	Control string  // address
}

// SteadyResult is what it came to.
type SteadyResult struct{ Server, Control Series }

// A Series is of each request when it began, how long it took, and how late the
// generator began it.
type Series struct {
	Start []time.Time
	Took  []time.Duration
	Late  []time.Duration
}

// A requestLine makes the requests of one series.
type requestLine struct {
	idle     chan *conn // used by turns, so that none is idle for long
	requests [][]byte

	mu  sync.Mutex
	got Series
}

// steadyConns is the number of connections of a line. There are hardly ever as many
// requests in flight; if there are, the next one waits, which counts as late.
const steadyConns = 64

func (l *Load) newRequestLine(p *pool, bodies [][]byte) (*requestLine, error) {
	n := &requestLine{idle: make(chan *conn, steadyConns)}
	for _, body := range bodies {
		n.requests = append(n.requests, request(p.address, "/preauth", l.key, body))
	}
	for range steadyConns {
		c, err := p.dial()
		if err != nil {
			return n, errors.Join(err, n.close())
		}
		n.idle <- c
	}
	return n, nil
}

func (n *requestLine) close() error {
	close(n.idle)
	var err error
	for c := range n.idle {
		err = errors.Join(err, c.Close())
	}
	return err
}

// send makes the i-th request, which was due at a time.
func (n *requestLine) send(i int, due time.Time) error {
	c := <-n.idle
	start := time.Now()
	status, err := c.do(n.requests[i%len(n.requests)])
	took := time.Since(start)
	if err == nil && status != 200 {
		err = fmt.Errorf("/preauth: status %d: %.300s", status, c.body)
	}
	n.idle <- c
	n.mu.Lock()
	defer n.mu.Unlock()
	n.got.Start, n.got.Took, n.got.Late = append(n.got.Start, start), append(n.got.Took, took), append(n.got.Late, start.Sub(due))
	return err
}

// RunSteady makes requests as an open loop until StopSteady. Every answer has to have status 200.
func (l *Load) RunSteady(s Steady, got *SteadyResult) error {
	server, err := l.newRequestLine(l.api, s.Bodies)
	if err != nil {
		return err
	}
	control, err := l.newRequestLine(&pool{address: s.Control}, s.Bodies)
	if err != nil {
		return errors.Join(err, server.close())
	}
	l.steadyStopped.Store(false)
	var faults faults
	var shots sync.WaitGroup
	begin := time.Now()
	for i := 0; !l.steadyStopped.Load(); i++ {
		due := begin.Add(time.Duration(float64(i) / (2 * s.Rate) * float64(time.Second)))
		time.Sleep(time.Until(due))
		to := server
		if i%2 == 1 {
			to = control
		}
		shots.Go(func() { faults.note(to.send(i/2, due)) })
	}
	shots.Wait()
	*got = SteadyResult{server.got, control.got}
	return errors.Join(faults.err(), server.close(), control.close())
}

// StopSteady ends RunSteady.
func (l *Load) StopSteady(_ int, _ *int) error {
	l.steadyStopped.Store(true)
	return nil
}
