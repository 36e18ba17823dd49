package linear

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A Bed is what calls are made on. Do, Nodes and Pass are required.
type Bed struct {
	// Do makes a call through one of the nodes. Many goroutines call it at once.
	Do    func(ctx context.Context, node int, c Call) Answer
	Nodes int
	Lazy  bool // updates may be lazy: no fault is the end of a machine, which may lose those

	// Now is the time of the store's clock at the beginning, in milliseconds since 1970.
	// The clock stands still until Pass sets it.
	Now  int64
	Pass func(to int64) error

	Faults []Fault
}

// A Fault is something that goes wrong in the middle of calls.
type Fault struct {
	Name  string
	Every int          // it happens in one round of so many
	Do    func() error // makes it happen, and repairs it; calls go on, but no other fault happens
}

// What a round is made of: few names, so that calls of one name overlap, and few calls for
// each, so that a history is short.
const (
	workers = 8
	perTurn = 500 // calls

	txns, keys, leases = 10, 2, 2

	// maxUnknown is how many writes of unknown outcome a name may have. Each doubles the
	// number of orders that may explain the history.
	maxUnknown = 6
)

// A Report is what was done and what was found.
type Report struct {
	Calls      int
	Outcomes   map[Outcome]int
	Faults     map[string]int
	Violations []string // of each history that no order explains: the page where it is drawn
}

func (r Report) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d calls:", r.Calls)
	for _, o := range slices.Sorted(maps.Keys(r.Outcomes)) {
		fmt.Fprintf(&text, " %d %s,", r.Outcomes[o], o)
	}
	text.WriteString(" and")
	for _, name := range slices.Sorted(maps.Keys(r.Faults)) {
		fmt.Fprintf(&text, " %d × %s,", r.Faults[name], name)
	}
	fmt.Fprintf(&text, " %d violations", len(r.Violations))
	return text.String()
}

// Expect fails the test if there are violations, or if the histories show too little: each
// outcome must have occurred, and at most a quarter of the calls may be unknown.
func (r Report) Expect(t testing.TB) {
	t.Helper()
	for _, page := range r.Violations {
		t.Errorf("no order explains %s", page)
	}
	if len(r.Violations) > 0 {
		return // Run has stopped early, so the outcomes say nothing
	}
	for _, o := range []Outcome{Done, Exists, NotFound, Held, Fenced, Refused, Cancelled, Unknown} {
		if r.Outcomes[o] == 0 {
			t.Errorf("no call had the outcome %s, want some of each", o)
		}
	}
	if n := r.Outcomes[Unknown]; n > r.Calls/4 {
		t.Errorf("%d of %d calls had the outcome %s, want a quarter at the most", n, r.Calls, Unknown)
	}
}

// Run makes about so many calls on the bed and checks the answers. It stops after a round
// with a history that no order explains, and draws such histories in dir, as HTML pages.
func Run(t testing.TB, bed Bed, calls int, dir string) Report {
	r := &run{TB: t, bed: bed, dir: dir, report: Report{Outcomes: make(map[Outcome]int), Faults: make(map[string]int)}}
	r.lo.Store(bed.Now)
	r.hi.Store(bed.Now)
	began := time.Now()
	for n := 0; r.report.Calls < calls && len(r.report.Violations) == 0 && !t.Failed(); n++ {
		r.round(n, min(perTurn, calls-r.report.Calls))
	}
	t.Logf("%v, in %v", r.report, time.Since(began).Round(time.Millisecond))
	return r.report
}

// A run is the work of Run.
type run struct {
	testing.TB
	bed Bed
	dir string

	seq    atomic.Int64 // numbers beginnings and ends of calls
	client atomic.Int64 // the last client id of porcupine
	value  atomic.Int64 // the last value that was written
	lo, hi atomic.Int64 // the store's clock is between these

	stage  sync.RWMutex // held while a fault happens or the clock is set
	mu     sync.Mutex
	report Report
}

// A round is a number of calls, on names that no other round has.
type round struct {
	*run
	n     int
	lines map[string]*line
	left  atomic.Int64    // calls
	due   map[int64]Fault // by the number of calls that are left when it happens
}

// A known is a lease that was acquired.
type known struct {
	holder string
	token  int64
}

func (r *run) round(n, calls int) {
	o := &round{run: r, n: n, lines: make(map[string]*line), due: make(map[int64]Fault)}
	for _, group := range []struct {
		of string
		n  int
	}{{"txn", txns}, {"key", keys}, {"lease", leases}} {
		for i := range group.n {
			name := o.name(group.of, i)
			o.lines[name] = &line{name: name, of: group.of}
		}
	}
	for _, f := range r.bed.Faults {
		if n%f.Every == f.Every/2 {
			o.due[int64(1+rand.IntN(calls))] = f
		}
	}
	o.left.Store(int64(calls))
	var wg sync.WaitGroup
	for range workers {
		wg.Go(o.work)
	}
	wg.Wait()
	o.readAll()
	for _, l := range o.lines {
		if page, ok := l.check(r.dir); !ok {
			r.report.Violations = append(r.report.Violations, page)
		}
	}
}

func (o *round) name(of string, i int) string { return fmt.Sprintf("%s-%d-%d", of, o.n, i) }

// work makes calls until none is left.
func (o *round) work() {
	client := o.client.Add(1)
	for {
		left := o.left.Add(-1)
		if left < 0 {
			return
		}
		if f, ok := o.due[left]; ok {
			o.fault(f)
		} else if rand.IntN(25) == 0 {
			o.pass()
		}
		node, c := o.next()
		if a := o.do(client, node, c); a.Outcome == Unknown {
			client = o.client.Add(1) // the call of the old client never ends
			if rand.IntN(4) > 0 {
				o.calm()
			}
		}
	}
}

// calm waits until a fault is over: further calls would only be unknown, too.
func (o *round) calm() {
	o.stage.RLock()
	defer o.stage.RUnlock()
}

func (o *round) fault(f Fault) {
	o.stage.Lock()
	defer o.stage.Unlock()
	if err := f.Do(); err != nil {
		o.Errorf("%s: %v", f.Name, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.report.Faults[f.Name]++
}

// pass sets the clock forward, unless a fault is under way.
func (o *round) pass() {
	if !o.stage.TryLock() {
		return
	}
	defer o.stage.Unlock()
	o.hi.Store(o.lo.Load() + 1 + rand.Int64N(30))
	if err := o.bed.Pass(o.hi.Load()); err != nil {
		o.Errorf("the clock cannot be set: %v", err)
	}
	o.lo.Store(o.hi.Load())
}

// do makes a call and records it.
func (o *round) do(client int64, node int, c Call) Answer {
	in, began := input{Call: c, Lo: o.lo.Load()}, o.seq.Add(1)
	a := o.bed.Do(o.Context(), node, c)
	ended, out := o.seq.Add(1), output{Answer: a, Hi: o.hi.Load()}
	if a.Outcome == Unknown {
		ended, out.Hi = never, never
	}
	o.mu.Lock()
	o.report.Calls++
	o.report.Outcomes[a.Outcome]++
	o.mu.Unlock()
	switch {
	case c.Kind.reads() && (a.Outcome == Unknown || a.Outcome == Cancelled):
	case c.Kind == Sweep:
		for i := range txns {
			o.lines[o.name("txn", i)].add(client, in, began, out, ended)
		}
	default:
		o.lines[c.Name].add(client, in, began, out, ended)
	}
	return a
}

// next is a random call.
func (o *round) next() (node int, c Call) {
	node = rand.IntN(o.bed.Nodes)
	switch n := rand.IntN(100); {
	case n < 70:
		c = o.nextTxn()
	case n < 78:
		c = o.nextKey()
	default:
		c = o.nextLease()
	}
	switch n := rand.IntN(64); {
	case n == 0:
		c.Cancel = -1
	case n < 4:
		c.Cancel = time.Duration(1 + rand.Int64N(int64(2*time.Millisecond)))
	}
	return node, c
}

// fresh is a value that no other call has.
func (r *run) fresh() string { return fmt.Sprint("v", r.value.Add(1)) }

// hot is a random one of n. Most calls of a part of the round get the same one, so that they
// overlap.
func (o *round) hot(n int) int {
	if rand.IntN(3) == 0 {
		return rand.IntN(n)
	}
	return int(max(o.left.Load(), 0)) * n / perTurn % n
}

func (o *round) nextTxn() Call {
	c := Call{Name: o.name("txn", o.hot(txns)), Value: o.fresh(), Until: o.lo.Load() + time.Hour.Milliseconds()}
	if rand.IntN(3) == 0 {
		c.Until = o.lo.Load() + rand.Int64N(120)
	}
	switch n := rand.IntN(100); {
	case o.lines[c.Name].full() || n < 35:
		return Call{Kind: Get, Name: c.Name}
	case n < 36:
		return Call{Kind: Sweep, Until: o.lo.Load()}
	case n < 60:
		c.Kind = Create
	default:
		c.Kind, c.Refuse, c.Read = Update, rand.IntN(6) == 0, rand.IntN(2) == 0
		c.Lazy = o.bed.Lazy && rand.IntN(2) == 0
	}
	return c
}

func (o *round) nextKey() Call {
	c := Call{Kind: Key, Name: o.name("key", o.hot(keys)), Value: o.fresh()}
	switch n := rand.IntN(3); {
	case o.lines[c.Name].full():
	case n == 0:
		c.Kind = PutKey
	case n == 1:
		c.Kind = RevokeKey
	}
	return c
}

func (o *round) nextLease() Call {
	c := Call{Name: o.name("lease", o.hot(leases)), Value: o.fresh()}
	l := o.lines[c.Name]
	held, holds := l.holding()
	n := rand.IntN(100)
	switch {
	case l.full():
		n = 65 + rand.IntN(35)
	case !holds && n < 65:
		n = 0
	}
	switch {
	case n < 30:
		c.Kind, c.Holder, c.TTL = Acquire, fmt.Sprint("h", rand.IntN(3)), 20+rand.Int64N(100)
		return c
	case n < 38:
		c.Kind = Release
	case n < 58:
		c.Kind = PutState
	case n < 65:
		c.Kind, c.Generation = PutSnapshot, 1+l.generation.Add(1)-rand.Int64N(2)
	case n < 85:
		return Call{Kind: State, Name: c.Name}
	case n < 93:
		return Call{Kind: Snapshots, Name: c.Name}
	default:
		return Call{Kind: OpenSnapshot, Name: c.Name, Generation: 1 + rand.Int64N(1+l.generation.Load())}
	}
	c.Holder, c.Token = held.holder, held.token
	return c
}

// readAll reads all names on every node at the end of a round, so that a write is missed that
// got lost.
func (o *round) readAll() {
	client := o.client.Add(1)
	for name, l := range o.lines {
		kinds := map[string][]Kind{"txn": {Get}, "key": {Key}, "lease": {State, Snapshots}}[l.of]
		for node := range o.bed.Nodes {
			for _, kind := range kinds {
				var a Answer
				for range 100 {
					if a = o.do(client, node, Call{Kind: kind, Name: name}); a.Outcome != Unknown {
						break
					}
				}
				if a.Outcome == Unknown {
					o.Errorf("%s of %s on node %d, after all faults: %s", kind, name, node, a.Why)
				}
			}
		}
	}
}
