package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A Payment is one of a shopper whose bank is being shown.
type Payment struct{ ID, Token string }

// binding is the second secret of a page.
const binding = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// BeginPayment begins a payment as back end and page do together, until the challenge is to be shown. The directory
// server has to ask for one.
func (l *Load) BeginPayment(_ int, p *Payment) error {
	body := fmt.Appendf(nil, `{"messageVersion":"2.2.0","acctNumber":"%s",%s`, aCard, fromBackEnd)
	err := l.api.do(request(l.api.address, "/authentications", l.key, body), func(status int, body []byte) error {
		return errors.Join(read(201, "id", &p.ID)(status, body), read(201, "token", &p.Token)(status, body))
	})
	if err != nil {
		return fmt.Errorf("POST /authentications: %w", err)
	}
	begin := fmt.Appendf(nil, "POST /a/begin HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nAccept: */*\r\nUser-Agent: Mozilla/5.0\r\n"+
		"Threeds-Binding: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", l.browser.address, p.Token, binding, len(fromThePage), fromThePage)
	step := ""
	if err := l.browser.do(begin, read(200, "step", &step)); err != nil {
		return fmt.Errorf("the page's data: %w", err)
	}
	for range 10 { // a version of the state each
		if step == "challenge" {
			return nil
		}
		if err := l.browser.do(l.stateRequest(p.Token, "wait=20&after=2"), read(200, "step", &step)); err != nil {
			return fmt.Errorf("the page's state: %w", err)
		}
	}
	return fmt.Errorf("the payment is at step %q, want the challenge", step)
}

// stateRequest is what a page asks of its authentication.
func (l *Load) stateRequest(token, query string) []byte {
	return fmt.Appendf(nil,
		"GET /a/state?%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nThreeds-Binding: %s\r\n\r\n", query,
		l.browser.address, token, binding)
}

// poolOf returns a pool for new connections to the listener of browsers, or of the API.
func (l *Load) poolOf(isBrowser bool, patience time.Duration) *pool {
	of := l.api
	if isBrowser {
		of = l.browser
	}
	return &pool{address: of.address, tls: of.tls, timeout: patience}
}

// waiters hold connections on which a request waits.
type waiters struct {
	ended        sync.WaitGroup
	stop         context.CancelFunc
	held, opened atomic.Int64
}

// A WaiterLoad is how many connections wait for one payment, at the listener of browsers or at the API.
type WaiterLoad struct {
	Count     int
	IsBrowser bool
	Payment   Payment
	Settle    time.Duration // how long it is waited once all were opened
}

const (
	waiterEvery    = 20 * time.Second // from one request on a connection to the next, as if each had waited for so long
	waiterPause    = 5 * time.Second  // before a connection that was closed is opened again
	waiterPatience = 2 * time.Minute  // with an answer
)

// StartWaiters opens the connections, and returns some time after all have been opened, or after a minute. A connection
// that is closed is opened again.
func (l *Load) StartWaiters(w WaiterLoad, held *int64) error {
	ctx, stop := context.WithCancel(context.Background())
	l.waiters.stop = stop
	l.waiters.opened.Store(0)
	ask := fmt.Appendf(nil, "GET /authentications/%s?wait=60 HTTP/1.1\r\nHost: %s\r\nAPIKey: %s\r\n\r\n", w.Payment.ID, l.api.address, l.key)
	if w.IsBrowser {
		ask = l.stateRequest(w.Payment.Token, "wait=20&after=1000")
	}
	from := l.poolOf(w.IsBrowser, waiterPatience)
	for range w.Count {
		l.waiters.ended.Go(func() {
			for ctx.Err() == nil {
				l.waiters.hold(ctx, from, ask)
			}
		})
		time.Sleep(time.Millisecond) // not all in one moment
	}
	for end := time.Now().Add(time.Minute); l.waiters.opened.Load() < int64(w.Count) && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(w.Settle)
	*held = l.waiters.held.Load()
	return nil
}

// hold holds one connection, with one waiting request after the other, until it is closed.
func (h *waiters) hold(ctx context.Context, from *pool, ask []byte) {
	pause := func(d time.Duration) {
		select {
		case <-ctx.Done():
		case <-time.After(d):
		}
	}
	defer pause(waiterPause)
	c, err := from.dial()
	if err != nil {
		return
	}
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	defer c.Close()
	h.opened.Add(1)
	h.held.Add(1)
	defer h.held.Add(-1)
	for ctx.Err() == nil {
		began := time.Now()
		_ = c.SetDeadline(began.Add(waiterPatience))
		if _, err := c.do(ask); err != nil {
			return
		}
		pause(waiterEvery - time.Since(began))
	}
}

// StopWaiters closes the connections, and returns how many are open and how often one was opened.
func (l *Load) StopWaiters(_ int, counts *[2]int64) error {
	counts[0] = l.waiters.held.Load()
	l.waiters.stop()
	l.waiters.ended.Wait()
	counts[1] = l.waiters.opened.Load()
	return nil
}

// An OthersLoad is the requests of other shoppers, or of another merchant: each comes on a connection of its own, at a
// rate, and has the patience of a shopper.
type OthersLoad struct {
	Rate      float64
	For       time.Duration
	IsBrowser bool
	Key       string  // of the API
	Payment   Payment // of a shopper
}

// OthersResult is how long those took that were served, and how many were not.
type OthersResult struct {
	Good    []time.Duration
	Failed  int
	Example string
}

// RunOthers makes the requests of others.
func (l *Load) RunOthers(o OthersLoad, got *OthersResult) error {
	ask := request(l.api.address, "/preauth", o.Key, []byte(`{"acctNumber":"`+aCard+`"}`))
	if o.IsBrowser {
		ask = l.stateRequest(o.Payment.Token, "after=1")
	}
	var mu sync.Mutex
	openLoop(int(o.Rate*o.For.Seconds()), o.Rate, func(int) {
		began := time.Now()
		c, err := l.poolOf(o.IsBrowser, shopperPatience).dial()
		status := 0
		if err == nil {
			_ = c.SetDeadline(began.Add(shopperPatience))
			status, err = c.do(ask)
			_ = c.Close()
		}
		mu.Lock()
		defer mu.Unlock()
		if err != nil || status != http.StatusOK {
			got.Failed++
			got.Example = fmt.Sprint(status, " ", err)
			return
		}
		got.Good = append(got.Good, time.Since(began))
	})
	return nil
}
