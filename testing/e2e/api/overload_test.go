package api

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/testing/e2e/rig"
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
	ca := rig.NewAuthority(t)
	slow := slowly{slow: new(atomic.Bool), turns: make(chan struct{}), waiting: new(atomic.Int64), served: new(atomic.Int64)}
	ds := rig.NewWire(t, ca)
	ds.Client.Timeout = time.Minute
	s := rig.StartSite(t, ca, ds, rig.Plan{
		Sections: "limits: {wait: 300ms, per_key: 1000000/s}",
		Change: func(cfg *server.Config) {
			// All that was held back dials at once in the end; the machine may be busy.
			cfg.Timeouts.Authentication, cfg.Peers[0].Timeout, cfg.Peers[0].DialTimeout = time.Minute, time.Minute, time.Minute
			cfg.Store = func(st store.Store) store.Store { slow.Store = st; return slow }
		},
	})
	preauth := func() int {
		res, _ := s.Call(http.MethodPost, "/preauth", s.APIKey, rig.Object{"acctNumber": rig.EnrolledPAN})
		return res.StatusCode
	}
	areq, answer := s.Challenged("2.2.0")
	requests := make([]rig.Object, many)
	for i := range requests {
		requests[i] = s.Request("2.2.0")
	}
	slow.slow.Store(true)
	var begun sync.WaitGroup
	for i, req := range requests {
		// One after the other: all at once would wait for a processor.
		waittest.Until(t, "the write before", func() bool { return slow.waiting.Load() == int64(i) })
		begun.Go(func() {
			if res, body := s.Call(http.MethodPost, "/auth", s.APIKey, req); res.StatusCode != http.StatusOK {
				t.Errorf("/auth: %d %s", res.StatusCode, body)
			}
		})
	}
	begun.Go(func() {
		if got := s.Result(rig.Marshal(rig.RReq(areq, answer, "Y"))); got.Text("messageType") != "RRes" {
			t.Errorf("RReq: %v", got)
		}
	})
	all := func() bool { return slow.waiting.Load() == many+1 }
	waittest.Until(t, "all writes", all)
	if code := preauth(); code != http.StatusOK {
		t.Errorf("/preauth: %d though it is not known how slow the store is", code)
	}
	refused := false
	for left := many; left > few && !refused; left-- {
		slow.turns <- struct{}{}
		time.Sleep(30 * time.Millisecond) // the store takes so long for each write
		refused = preauth() == http.StatusServiceUnavailable
	}
	if !refused {
		t.Error("nothing is refused while writes wait for seconds")
	}
	slow.slow.Store(false)
	close(slow.turns)
	begun.Wait()
	waittest.Until(t, "an authentication to begin again", func() bool { return preauth() == http.StatusOK })
	if code, got := s.Postauth(areq.Text("threeDSServerTransID")); code != http.StatusOK {
		t.Errorf("/postauth: %d %v", code, got)
	}
}
