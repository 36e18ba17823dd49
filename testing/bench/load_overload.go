package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// A ShopperLoad is shoppers who come at steady rates, whatever became of those before. Each calls
// /preauth and /auth. After a challenge the directory server posts the result, and the
// shopper fetches it. A shopper gives up after a refusal, and when an answer takes longer
// than Patience.
type ShopperLoad struct {
	Phases   []Phase
	Patience time.Duration // with each answer
}

// A Phase is a part of the load.
type Phase struct {
	Rate float64 // shoppers per second
	For  time.Duration
}

// Kinds of requests, in the order of a shopper's way.
const (
	aPreauth = iota
	anAuth
	anRReq
	aPostauth
	kinds
)

// ShopperResult is what a load of shoppers came to.
type ShopperResult struct {
	Shoppers []Shopper
	Kinds    [kinds]Exchanges
	Late     []time.Duration // how late the generator began each shopper
	Example  string          // the error of one request that failed
}

// A Shopper is one shopper of a load.
type Shopper struct {
	Due     time.Duration // from the beginning of the load
	Took    time.Duration // from Due to the last answer, or to giving up
	Through bool
}

// Exchanges are the requests of one kind.
type Exchanges struct {
	Good    []time.Duration // answered with 200
	Refused []time.Duration // answered with 503
	Failed  int             // answered in another way, or not in time
}

// shopperRun is a load of shoppers under way.
type shopperRun struct {
	key          string
	api, results *pool
	preauth      []byte

	mu  sync.Mutex
	got *ShopperResult
}

var errRefused = errors.New("refused")

// RunShoppers makes the load as an open loop, and waits for all shoppers.
func (l *Load) RunShoppers(r ShopperLoad, got *ShopperResult) error {
	api := &pool{address: l.api.address, timeout: r.Patience}
	results := &pool{address: l.results.address, tls: l.results.tls, timeout: r.Patience}
	defer api.close()
	defer results.close()
	run := &shopperRun{
		key: l.key, api: api, results: results, got: got,
		preauth: request(api.address, "/preauth", l.key, []byte(`{"acctNumber":"`+aCard+`"}`)),
	}
	var due []time.Duration
	begin := time.Duration(0)
	for _, p := range r.Phases {
		for i := range int(p.Rate * p.For.Seconds()) {
			due = append(due, begin+time.Duration(float64(i)/p.Rate*float64(time.Second)))
		}
		begin += p.For
	}
	got.Shoppers = make([]Shopper, len(due))
	start := time.Now()
	got.Late = openLoopAt(due, func(i int) {
		through := run.runShopper() == nil
		got.Shoppers[i] = Shopper{Due: due[i], Took: time.Since(start) - due[i], Through: through}
	})
	return nil
}

// runShopper is one shopper's way.
func (r *shopperRun) runShopper() error {
	var id, acs, ds string
	var challenged bool
	err := r.exchange(aPreauth, r.api, r.preauth, func(body []byte) error {
		id = string(member(body, "threeDSServerTransID"))
		return nil
	})
	if err != nil {
		return err
	}
	auth := request(r.api.address, "/auth", r.key, fmt.Appendf(nil, aBrowser, aCard, id))
	err = r.exchange(anAuth, r.api, auth, func(body []byte) error {
		challenged = string(member(body, "transStatus")) == "C"
		acs, ds = string(member(body, "acsTransID")), string(member(body, "dsTransID"))
		return nil
	})
	if err != nil || !challenged {
		return err
	}
	rreq := request(r.results.address, "/results", "", fmt.Appendf(nil, aResult, id, acs, ds))
	err = r.exchange(anRReq, r.results, rreq, func(body []byte) error {
		if string(member(body, "messageType")) != "RRes" {
			return fmt.Errorf("no RRes: %.300s", body)
		}
		return nil
	})
	if err != nil {
		return err
	}
	postauth := request(r.api.address, "/postauth", r.key, []byte(`{"threeDSServerTransID":"`+id+`"}`))
	return r.exchange(aPostauth, r.api, postauth, func([]byte) error { return nil })
}

// exchange makes one request and notes what came of it.
func (r *shopperRun) exchange(kind int, p *pool, request []byte, use func(body []byte) error) error {
	start := time.Now()
	err := p.do(request, func(status int, body []byte) error {
		switch status {
		case 200:
			return use(body)
		case 503:
			return errRefused
		}
		return fmt.Errorf("status %d: %.300s", status, body)
	})
	took := time.Since(start)
	r.mu.Lock()
	defer r.mu.Unlock()
	e := &r.got.Kinds[kind]
	switch {
	case err == nil:
		e.Good = append(e.Good, took)
	case errors.Is(err, errRefused):
		e.Refused = append(e.Refused, took)
	default:
		e.Failed++
		r.got.Example = err.Error()
	}
	return err
}

// slowClients hold connections of the API and do next to nothing on them.
type slowClients struct {
	ended  sync.WaitGroup
	stop   context.CancelFunc
	opened atomic.Int64 // connections
}

// SlowClientLoad is how many slow clients there are, where, and with which key.
type SlowClientLoad struct {
	Count        int
	Address, Key string
}

// StartSlowClients starts the slow clients. A third of them sends a header byte by byte, a third a body,
// and a third sends requests and reads no answer; each does so about once a second. One
// whose connection is closed makes another.
func (l *Load) StartSlowClients(at SlowClientLoad, _ *int) error {
	ctx, leave := context.WithCancel(context.Background())
	l.slow.stop = leave
	l.slow.opened.Store(0)
	header := "POST /preauth HTTP/1.1\r\nHost: " + at.Address + "\r\nAPIKey: " + at.Key + "\r\n"
	whole := string(request(at.Address, "/postauth", at.Key, []byte("{}")))
	manners := []struct{ first, then string }{
		{header, "X"},
		{header + "Content-Length: 4000\r\n\r\n", " "},
		{whole, whole},
	}
	for i := range at.Count {
		m := manners[i%len(manners)]
		l.slow.ended.Go(func() {
			for ctx.Err() == nil {
				l.slow.keepSending(ctx, at.Address, m.first, m.then)
			}
		})
		if i%10 == 0 {
			time.Sleep(2 * time.Millisecond)
		}
	}
	return nil
}

// StopSlowClients ends the slow clients and returns how many connections they made.
func (l *Load) StopSlowClients(_ int, opened *int64) error {
	l.slow.stop()
	l.slow.ended.Wait()
	*opened = l.slow.opened.Load()
	return nil
}

// keepSending holds one connection until it is closed.
func (l *slowClients) keepSending(ctx context.Context, address, first, then string) {
	pause := func() bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Second/2 + rand.N(time.Second)): // not all at the same moment
			return true
		}
	}
	d := net.Dialer{Timeout: 5 * time.Second}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		pause()
		return
	}
	defer c.Close()
	l.opened.Add(1)
	_ = c.(*net.TCPConn).SetReadBuffer(4096)
	for _, err = io.WriteString(c, first); err == nil && pause(); _, err = io.WriteString(c, then) {
		_ = c.SetWriteDeadline(time.Now().Add(5 * time.Second))
	}
}
