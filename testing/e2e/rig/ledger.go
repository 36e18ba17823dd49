package rig

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
)

// A Ledger is what is known of results outside of the server, for the end of the
// test. Its keys are threeDSServerTransIDs, its values RReqs.
type Ledger struct {
	Peer *Peer

	Mu     sync.Mutex
	Fresh  map[string]Object // acknowledged since the last check
	Kept   map[string]Object // acknowledged, and found at a check
	Unsure map[string]Object // sent, and no RRes came
	Again  map[string]Object // AReqs of /auth that had no challenge
	AReqs  map[string]int    // how many a directory server got

	Answers              map[string]int // by what was asked, and the kind or the error code
	begun                atomic.Int64   // answers to /auth
	dark                 atomic.Bool    // what arrives does not count
	Acked, Lost, Changed int
	Complaints           []string
	Acknowledged         func(n int) // called after each, unlocked; may be nil
}

// Watch returns a channel that has the number of a result that was acknowledged: the first one since the last was read.
func (led *Ledger) Watch() <-chan int {
	acknowledged := make(chan int, 1)
	led.Acknowledged = func(n int) {
		select {
		case acknowledged <- n:
		default:
		}
	}
	return acknowledged
}

// Challenge runs one authentication with a challenge and notes what became of it.
func (v *Victim) Challenge(led *Ledger) {
	if result, ok := v.Begin(led); ok {
		v.Result(led, result)
	}
}

// Begin is challenge up to its result.
func (v *Victim) Begin(led *Ledger) (result Object, ok bool) {
	_, crd := v.Call("/preauth", Object{"acctNumber": EnrolledPAN})
	id := crd.Text("threeDSServerTransID")
	if id == "" {
		return nil, false
	}
	req := BrowserRequest("2.2.0", EnrolledPAN, id, "U")
	_, begun := v.Call("/auth", req)
	led.note("auth", begun)
	if led.dark.Load() {
		return nil, false
	}
	if begun != nil {
		led.begun.Add(1)
	}
	if begun.Text("transStatus") != "C" {
		led.Mu.Lock()
		led.Again[id] = req
		led.Mu.Unlock()
		return nil, false
	}
	return RReq(req, begun, "Y").With(Object{"authenticationValue": AuthenticationValue(id)}), true
}

// Result posts an RReq and notes whether it was acknowledged.
func (v *Victim) Result(led *Ledger, want Object) bool {
	id := want.Text("threeDSServerTransID")
	led.Mu.Lock()
	led.Unsure[id] = want
	led.Mu.Unlock()
	code, got, err := led.Peer.Post("https://"+v.ResultsAddress+"/results", Marshal(want))
	led.note("RReq", got)
	if err != nil || code != 200 || got.Text("messageType") != "RRes" {
		return false
	}
	led.Mu.Lock()
	if led.dark.Load() {
		led.Mu.Unlock()
		return false
	}
	delete(led.Unsure, id)
	led.Fresh[id] = want
	led.Acked++
	n := led.Acked
	led.Mu.Unlock()
	if led.Acknowledged != nil {
		led.Acknowledged(n)
	}
	return true
}

// note counts an answer by its kind.
func (led *Ledger) note(to string, got Object) {
	led.Mu.Lock()
	defer led.Mu.Unlock()
	led.Answers[to+" "+cmp.Or(got.Text("errorCode"), got.Text("messageType"), "none")]++
}

// Answered is how many answers of a kind there were.
func (led *Ledger) Answered(kind string) int {
	led.Mu.Lock()
	defer led.Mu.Unlock()
	return led.Answers[kind]
}

// Total is how many answers there were, of any kind.
func (led *Ledger) Total() (n int) {
	led.Mu.Lock()
	defer led.Mu.Unlock()
	for _, count := range led.Answers {
		n += count
	}
	return n
}

// storeAway is the errorCode with which the server says that its store took too long, as on a busy machine, and that
// the request may be made again. It says nothing of what is kept.
const storeAway = "403"

// Check holds the server against the ledger: what was acknowledged since the last
// check, and some of what was before. What was not may be there or not, but as it
// was sent; directory server and requestor try it again.
func (v *Victim) Check(led *Ledger, some int) {
	v.T.Helper()
	led.Mu.Lock()
	defer led.Mu.Unlock()
	var tally sync.Mutex // over what each counts
	ask := maps.Clone(led.Fresh)
	for id, want := range led.Kept { // in no order
		if some--; some < 0 {
			break
		}
		ask[id] = want
	}
	few := 4 // of them have another result posted
	for _, want := range led.Fresh {
		if few--; few < 0 {
			break
		}
		v.contradict(led, want)
	}
	ForEach(ask, func(id string, want Object) {
		code, got := v.Call("/postauth", Object{"threeDSServerTransID": id})
		for try := 0; got.Text("errorCode") == storeAway && try < 5; try++ {
			code, got = v.Call("/postauth", Object{"threeDSServerTransID": id})
		}
		tally.Lock()
		defer tally.Unlock()
		switch {
		case code != 200:
			led.Lost++
			led.Complain("lost: %s: %d %v", id, code, got)
			delete(led.Kept, id)
		case string(Marshal(got)) != string(Marshal(want)):
			led.Changed++
			led.Complain("changed: %s: %v, want %v", id, got, want)
			delete(led.Kept, id)
		default:
			led.Kept[id] = want
		}
	})
	clear(led.Fresh)
	ForEach(led.Unsure, func(id string, want Object) {
		code, got := v.Call("/postauth", Object{"threeDSServerTransID": id})
		for try := 0; code != 200 && try < 5; try++ {
			_, _, _ = led.Peer.Post("https://"+v.ResultsAddress+"/results", Marshal(want))
			code, got = v.Call("/postauth", Object{"threeDSServerTransID": id})
		}
		if code == 200 {
			tally.Lock()
			v.contradict(led, want)
			tally.Unlock()
			code, got = v.Call("/postauth", Object{"threeDSServerTransID": id})
		}
		tally.Lock()
		defer tally.Unlock()
		if code != 200 || string(Marshal(got)) != string(Marshal(want)) {
			led.Changed++
			led.Complain("not acknowledged, tried again: %s: %d %v, want %v", id, code, got, want)
		} else {
			led.Kept[id] = want
		}
	})
	clear(led.Unsure)
	ForEach(led.Again, func(_ string, req Object) { v.Call("/auth", req) })
	clear(led.Again)
	led.count()
}

// count takes over the AReqs that the directory server has got.
func (led *Ledger) count() {
	led.Peer.Mu.Lock()
	defer led.Peer.Mu.Unlock()
	for _, areq := range led.Peer.AReqs {
		led.AReqs[areq.Text("threeDSServerTransID")]++
	}
	led.Peer.AReqs = nil
}

// Darken is for the moment in which the power goes: what arrives from now on would
// never have been sent, and does not count. The kernel does tell some syncs that are
// under way in that moment that all is well. light ends it.
func (led *Ledger) Darken() (light func()) {
	led.dark.Store(true)
	led.count()
	return func() {
		led.Peer.Mu.Lock()
		led.Peer.AReqs = nil
		led.Peer.Mu.Unlock()
		led.dark.Store(false)
	}
}

// contradict posts another result after the one that a transaction has: the first
// one stays.
func (v *Victim) contradict(led *Ledger, first Object) {
	other := first.With(Object{"transStatus": "A", "eci": "06"})
	_, got, err := led.Peer.Post("https://"+v.ResultsAddress+"/results", Marshal(other))
	if err == nil && got.Text("messageType") == "RRes" {
		led.Changed++
		led.Complain("a second result was acknowledged: %v", got)
	}
}

// twice is how many ids have had more than one AReq sent.
func (led *Ledger) twice() int {
	n := 0
	for _, count := range led.AReqs {
		if count > 1 {
			n++
		}
	}
	return n
}

// Complain keeps the first few of what is wrong.
func (led *Ledger) Complain(format string, args ...any) {
	if len(led.Complaints) < 10 {
		led.Complaints = append(led.Complaints, fmt.Sprintf(format, args...))
	}
}

// Verdict fails the test when anything was lost, or too little shown.
func (led *Ledger) Verdict(t *testing.T, what string, least int) {
	t.Helper()
	t.Logf("%s acknowledged=%d lost=%d changed=%d second AReqs=%d", what, led.Acked, led.Lost, led.Changed, led.twice())
	if led.Lost+led.Changed+led.twice() > 0 {
		t.Errorf("%d lost, %d changed, %d second AReqs\n%s", led.Lost, led.Changed, led.twice(), strings.Join(led.Complaints, "\n"))
	}
	if led.Acked < least {
		t.Errorf("only %d results acknowledged: the test shows nothing", led.Acked)
	}
}

// UnderLoad runs 16 concurrent challenges until strike has returned.
func (v *Victim) UnderLoad(led *Ledger, strike func()) {
	v.T.Helper()
	ctx, stop := context.WithCancel(v.T.Context())
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for ctx.Err() == nil {
				v.Challenge(led)
			}
		})
	}
	defer workers.Wait()
	defer stop()
	before := led.begun.Load()
	waittest.Until(v.T, "load", func() bool { return led.begun.Load() > before })
	strike()
}

func (led *Ledger) MustLose(t *testing.T) {
	t.Helper()
	t.Logf("control: acknowledged=%d lost=%d", led.Acked, led.Lost)
	if led.Lost == 0 {
		t.Error("nothing was lost: the test would not notice")
	}
}

// NewLedger returns a ledger without an entry, of what a directory server sees.
func NewLedger(p *Peer) *Ledger {
	return &Ledger{
		Peer: p, Fresh: make(map[string]Object), Kept: make(map[string]Object), Unsure: make(map[string]Object),
		Again: make(map[string]Object), AReqs: make(map[string]int), Answers: make(map[string]int),
	}
}
