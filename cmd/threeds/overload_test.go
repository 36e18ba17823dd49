package main

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/server"
	"github.com/openthreeds/threeds/internal/store"
)

// slowly is a store whose writes take, once it is slow, as long as the test wants:
// each waits for a turn.
type slowly struct {
	store.Store
	slow  *atomic.Bool
	turns chan struct{}

	waiting, served *atomic.Int64
}

func (s slowly) Queue() (waiting int, served uint64) {
	return int(s.waiting.Load()), uint64(s.served.Load())
}

func (s slowly) wait() {
	s.waiting.Add(1)
	if s.slow.Load() {
		<-s.turns
	}
	s.waiting.Add(-1)
	s.served.Add(1)
}

func (s slowly) Create(ctx context.Context, t store.Txn) error {
	s.wait()
	return s.Store.Create(ctx, t)
}

func (s slowly) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	s.wait()
	return s.Store.Update(ctx, was, change)
}

// TestSlowStore: while writes wait too long for their commits, no authentication
// begins; what has begun, and the results of directory servers, are taken and done.
func TestSlowStore(t *testing.T) {
	const many, few = 130, 70 // the gate minds from 64 on
	ca := newAuthority(t)
	slow := slowly{slow: new(atomic.Bool), turns: make(chan struct{}), waiting: new(atomic.Int64), served: new(atomic.Int64)}
	ds := newWire(t, ca)
	ds.client.Timeout = time.Minute
	s := startSite(t, ca, ds, plan{
		sections: "limits: {wait: 300ms, per_key: 1000000/s}",
		change: func(cfg *server.Config) {
			// All that was held back dials at once in the end; the machine may be busy.
			cfg.Timeouts.Authentication, cfg.Peers[0].Timeout, cfg.Peers[0].DialTimeout = time.Minute, time.Minute, time.Minute
			cfg.Store = func(st store.Store) store.Store { slow.Store = st; return slow }
		},
	})
	preauth := func() int {
		res, _ := s.call(http.MethodPost, "/preauth", s.APIKey, object{"acctNumber": testPAN})
		return res.StatusCode
	}
	areq, answer := s.challenged("2.2.0")
	requests := make([]object, many)
	for i := range requests {
		requests[i] = s.request("2.2.0")
	}
	slow.slow.Store(true)
	var begun sync.WaitGroup
	for i, req := range requests {
		// One after the other: all at once would wait for a processor.
		waitFor(t, "the write before", func() bool { return slow.waiting.Load() == int64(i) })
		begun.Go(func() {
			if res, body := s.call(http.MethodPost, "/auth", s.APIKey, req); res.StatusCode != http.StatusOK {
				t.Errorf("/auth: %d %s", res.StatusCode, body)
			}
		})
	}
	begun.Go(func() {
		if got := s.result(marshal(rreq(areq, answer, "Y"))); got.text("messageType") != "RRes" {
			t.Errorf("RReq: %v", got)
		}
	})
	all := func() bool { return slow.waiting.Load() == many+1 }
	waitFor(t, "all writes", all)
	if code := preauth(); code != http.StatusOK {
		t.Errorf("/preauth: %d though it is not known how slow the store is", code)
	}
	refused := false
	for left := many; left > few && !refused; left-- {
		slow.turns <- struct{}{}
		time.Sleep(30 * time.Millisecond)
		refused = preauth() == http.StatusServiceUnavailable
	}
	if !refused {
		t.Error("nothing is refused while writes wait for seconds")
	}
	slow.slow.Store(false)
	close(slow.turns)
	begun.Wait()
	waitFor(t, "an authentication to begin again", func() bool { return preauth() == http.StatusOK })
	if code, got := s.postauth(areq.text("threeDSServerTransID")); code != http.StatusOK {
		t.Errorf("/postauth: %d %v", code, got)
	}
}
