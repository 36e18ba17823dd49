package main

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"
)

// tiny is a fleet that is played within a moment.
func tiny() params {
	p := *newParams()
	p.Rate, p.Nodes, p.Cells, p.DBCores, p.Cores = 240, 6, 2, 2, 1
	p.PerDirectory, p.InFlight, p.Ranges, p.Keys = 100, 200, 4, 10
	p.Warmup, p.Measure = 1, 1
	return p
}

// TestScenarios plays every scenario: each request that came has ended in one way.
func TestScenarios(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			r, fleets := s.play(1, tiny())
			for i, f := range fleets {
				if n := f.balance(); n != 0 {
					t.Errorf("run %d: %d requests are not accounted for", i, n)
				}
				flying, came := f.held.n, 0
				for _, n := range f.nodes {
					flying += n.inFlight.n
				}
				for phase := range phases {
					came += f.arrive(phase)
				}
				if flying != 0 || came < 100 {
					t.Errorf("run %d: %d came, %d are still in flight", i, came, flying)
				}
			}
			for _, row := range r.rows {
				if len(row) != len(r.head) {
					t.Errorf("row of %d cells under a head of %d: %q", len(row), len(r.head), row)
				}
			}
		})
	}
}

// TestRequestsAreAccountedForMidway looks in the middle, when there are requests at every place.
func TestRequestsAreAccountedForMidway(t *testing.T) {
	p := tiny()
	p.Preauth = 50_000 // so that some are at work whenever a node ends
	f := newFleet(1, &p, true)
	f.load(4 * time.Second)
	f.run(time.Second)
	f.dirs[0].silent = true
	f.run(2 * time.Second)
	f.kill(f.nodes[0])
	f.run(2500 * time.Millisecond)
	f.db.fail()
	f.run(3 * time.Second)
	if f.held.n == 0 || f.nodes[1].inFlight.n == 0 {
		t.Errorf("%d at the balancer, %d in flight; want some", f.held.n, f.nodes[1].inFlight.n)
	}
	if n := f.balance(); n != 0 {
		t.Errorf("%d requests are not accounted for", n)
	}
	f.drain()
	for i, n := range f.nodes {
		if n.inFlight.n != 0 {
			t.Errorf("node %d: %d in flight in the end", i, n.inFlight.n)
		}
	}
	f.arrived[0][auth]++
	if f.balance() != 1 {
		t.Error("balance does not see a request that vanished")
	}
}

// TestEqualSeedsGiveEqualOutput: equal seeds give equal output, others another one.
func TestEqualSeedsGiveEqualOutput(t *testing.T) {
	play := func(seed string) string {
		var out, bad bytes.Buffer
		args := []string{"-seed", seed}
		for _, set := range strings.Fields("rate=240 nodes=6 cells=2 warmup=0.5 measure=0.5") {
			args = append(args, "-set", set)
		}
		if err := run(append(args, "node"), &out, &bad); err != nil {
			t.Fatal(err, bad.String())
		}
		_, rest, _ := strings.Cut(out.String(), "\n")
		return rest
	}
	if a, b := play("7"), play("7"); a != b {
		t.Errorf("seed 7:\n%s\nagain:\n%s", a, b)
	}
	if play("7") == play("8") {
		t.Error("seed 8 gives what seed 7 gives")
	}
}

// jobs is of how many queues are watched, with each of a few seeds.
const jobs = 60_000

// waits measures the mean time that jobs wait for a station and that they stay, and
// how many are there in the mean, times the time.
func waits(servers int, rate float64, takes func(*sim) time.Duration) (wait, stay time.Duration, area float64) {
	const seeds = 5
	for seed := range uint64(seeds) {
		s := newSim(seed)
		st := newStation(s, servers)
		system := newGauge(s)
		n := 0
		var come func()
		come = func() {
			if n++; n < jobs {
				s.after(s.exponential(time.Duration(float64(time.Second)/rate)), come)
			}
			came, own := s.now, takes(s)
			wait -= own
			system.add(1)
			st.serve(own, func() {
				system.add(-1)
				stay += s.now - came
			})
		}
		s.after(0, come)
		s.run(math.MaxInt64 / 2)
		area += system.area
	}
	return (wait + stay) / (seeds * jobs), stay / (seeds * jobs), area / (seeds * jobs)
}

// erlangC is the probability to wait in an M/M/c queue with so much offered.
func erlangC(c int, offered float64) float64 {
	sum, term := 0.0, 1.0
	for k := range c {
		sum += term
		term *= offered / float64(k+1)
	}
	last := term / (1 - offered/float64(c))
	return last / (sum + last)
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within*want {
		t.Errorf("%s = %g, want %g within %g %%", what, got, want, 100*within)
	}
}

// TestQueues holds a station against the theory of queues.
func TestQueues(t *testing.T) {
	const mean = 10 * time.Millisecond
	for _, tt := range []struct {
		servers int
		load    float64
	}{{1, 0.5}, {4, 0.8}, {16, 0.9}} {
		offered := tt.load * float64(tt.servers)
		wait, stay, area := waits(tt.servers, offered/mean.Seconds(), func(s *sim) time.Duration { return s.exponential(mean) })
		want := erlangC(tt.servers, offered) * mean.Seconds() / (float64(tt.servers) - offered)
		near(t, "wait of M/M/c", wait.Seconds(), want, 0.05)
		near(t, "Little: number over time against stays", area, stay.Seconds(), 1e-6)
	}
	wait, _, _ := waits(1, 0.7/mean.Seconds(), func(*sim) time.Duration { return mean })
	near(t, "wait of M/D/1", wait.Seconds(), 0.7*mean.Seconds()/(2*(1-0.7)), 0.05)
}

// mean is of the time that requests took which were answered.
func (t *tally) mean(phase int, k kind) time.Duration {
	sum := 0.0
	for _, x := range t.took[phase][k] {
		sum += float64(x)
	}
	return ms(sum / float64(max(1, len(t.took[phase][k]))))
}

// TestLittlesLawHolds: in flight are as many /auth as come in the time that one takes.
func TestLittlesLawHolds(t *testing.T) {
	p := tiny()
	f := newFleet(1, &p, true)
	f.load(40 * time.Second)
	f.run(3 * time.Second)
	f.phase = 1
	f.settle()
	f.run(40 * time.Second)
	waiting := 0.0
	for _, n := range f.nodes {
		for _, peer := range n.peers {
			waiting += peer.inFlight.mean()
		}
	}
	f.drain()
	// The mean of a lognormal time, but what is over the limit.
	want := p.Rate / p.Cells * p.DSMedian / 1000 * math.Exp(p.DSSigma*p.DSSigma/2)
	near(t, "AReqs in flight", waiting, want, 0.03)
	f.took[1][auth] = append(f.took[1][auth], f.took[1][kinds]...)
	near(t, "and by the time that they took", p.Rate/p.Cells*f.mean(1, auth).Seconds(), want, 0.05)
}

// TestCommitsShareASync: a commit waits for one sync to begin and to end, and many commits share it.
func TestCommitsShareASync(t *testing.T) {
	s := newSim(1)
	l := &log{s: s, takes: func() time.Duration { return 2 * time.Millisecond }}
	var longest time.Duration
	n := 0
	for i := range 1000 {
		at := time.Duration(i) * 100 * time.Microsecond
		s.after(at, func() {
			l.commit(func() {
				n++
				longest = max(longest, s.now-at)
			})
		})
	}
	s.run(time.Second)
	if n != 1000 || longest > 4*time.Millisecond || l.syncs < 50 || l.syncs > 52 {
		t.Errorf("%d of 1000 commits, the longest %v, %d syncs; want all, 4ms, about 51", n, longest, l.syncs)
	}
}

// TestWaitForGoneDatabaseEnds: what waits for a connection of a database that is gone gets an
// error when that has lasted for five seconds, whenever it came, and what comes
// later soon; a write that was under way at once.
func TestWaitForGoneDatabaseEnds(t *testing.T) {
	p := tiny()
	f := newFleet(1, &p, false)
	pool := f.nodes[0].pool
	var ends []time.Duration
	ask := func(writes bool) {
		pool.ask(&call{cpu: time.Millisecond, writes: writes, done: func(ok bool) {
			if !ok {
				ends = append(ends, f.now)
			}
		}})
	}
	ask(true)
	f.run(4*ms(p.DBTrip) + ms(p.DBConnect) + ms(p.DBTrip)/2)
	f.db.fail()
	failed := f.now
	ask(true)
	f.after(4*time.Second, func() { ask(true) })
	f.after(6*time.Second, func() { ask(true) })
	f.run(time.Minute)
	want := []time.Duration{0, 5 * time.Second, 5 * time.Second, 6*time.Second + ms(p.DBTrip)}
	for i := range want {
		if len(ends) != len(want) || ends[i]-failed != want[i] {
			t.Fatalf("failed at %v; errors at %v, want them after %v", failed, ends, want)
		}
	}
	f.db.up()
	ends = nil
	ask(false)
	f.run(f.now + time.Second)
	if len(ends) > 0 || pool.idle != 1 || pool.open != 1 {
		t.Errorf("after it: %v, %d of %d idle", ends, pool.idle, pool.open)
	}
}

// TestLimitsAreReachedNotExceeded: bulkhead, limit and dials are never exceeded, and are reached.
func TestLimitsAreReachedNotExceeded(t *testing.T) {
	p := tiny()
	p.Breaker, p.InFlight, p.MaxDials = 0, 110, 8
	f := newFleet(1, &p, true)
	f.load(15 * time.Second)
	f.dirs[0].silent = true
	for f.now < 15*time.Second {
		f.run(f.now + 10*time.Millisecond)
		for _, n := range f.nodes {
			if n.peers[0].dialing > 8 || n.peers[0].inFlight.n > 100 || n.inFlight.n-n.flying[0][result] > 110 {
				t.Fatalf("%d dial, %d at the directory, %d in flight", n.peers[0].dialing, n.peers[0].inFlight.n, n.inFlight.n)
			}
		}
	}
	f.drain()
	if f.sum(0, shed) == 0 || f.ended[0][result][shed] > 0 {
		t.Errorf("shed: %d, of them %d results; want some and none", f.sum(0, shed), f.ended[0][result][shed])
	}
	if f.nodes[0].peers[0].inFlight.most != 100 || f.sum(0, refusedBusy) == 0 {
		t.Errorf("at the directory at the most %d, %d refused; want 100 and some", f.nodes[0].peers[0].inFlight.most, f.sum(0, refusedBusy))
	}
}

// TestBreaker: it opens after ten failures over five seconds, tries every two,
// and closes with the first connection or answer.
func TestBreaker(t *testing.T) {
	var b breaker
	at := 20 * time.Second
	for i := range 10 {
		if !b.enter(at) {
			t.Fatalf("open after %d failures", i)
		}
		b.failed(at-10*time.Second, at)
		if i == 8 {
			at += breakTime
		}
	}
	if b.enter(at) || b.enter(at+trialEvery-1) || !b.enter(at+trialEvery) || b.enter(at+trialEvery+1) {
		t.Error("an open breaker lets through other than one each two seconds")
	}
	b.reached(at + trialEvery)
	if !b.enter(at + trialEvery) {
		t.Error("open after a connection")
	}
	b.failed(at, at+trialEvery+1) // it began before the answer
	if b.failures != 0 {
		t.Error("a failure from before the connection counts")
	}
}

func TestParams(t *testing.T) {
	p := newParams()
	if err := p.read(strings.NewReader("rate 100 # few\n\nnodes=4\n")); err != nil || p.Rate != 100 || p.Nodes != 4 {
		t.Errorf("read: %v, rate %g, nodes %g", err, p.Rate, p.Nodes)
	}
	for _, bad := range []string{"rate", "rate=x", "rate=-1", "speed=1"} {
		if p.set(bad) == nil {
			t.Errorf("set(%q): no error", bad)
		}
	}
	if err := p.check(); err == nil || !strings.Contains(err.Error(), "4 nodes are too few for 6 cells") {
		t.Errorf("check of 4 nodes in 6 cells: %v", err)
	}
	p.Cells, p.Cores = 4, 0
	if err := p.check(); err == nil || err.Error() != "cores must be more than 0" {
		t.Errorf("check of no cores: %v", err)
	}
	p.Cores = 1
	if err := p.check(); err != nil {
		t.Error(err)
	}
	if err := p.read(strings.NewReader("rate 1\nrate\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("read of a bad second line: %v", err)
	}
}

// TestEventsKeepTheirOrder: what is planned for one time happens in the order of the planning.
func TestEventsKeepTheirOrder(t *testing.T) {
	s := newSim(1)
	var got []int
	for i := range 100 {
		s.after(time.Duration(i%3), func() { got = append(got, i) })
	}
	s.run(time.Second)
	for i := range got[1:] {
		a, b := got[i], got[i+1]
		if a%3 > b%3 || a%3 == b%3 && a > b {
			t.Fatalf("%d before %d in %v", a, b, got)
		}
	}
}

// TestFreeConnectionGoesToTheWaiting: a connection that becomes free goes to a request that
// waits for one of its own; that one is then there for the next request.
func TestFreeConnectionGoesToTheWaiting(t *testing.T) {
	p := tiny()
	p.DSSigma, p.DSMedian, p.DSTrip, p.MaxDials = 0, 100, 300, 1
	f := newFleet(1, &p, false)
	peer := f.nodes[0].peers[0]
	var ends []time.Duration
	send := func() { peer.send(func(outcome) { ends = append(ends, f.now.Truncate(50*time.Millisecond)) }) }
	send()                                                    // connected at 600 ms, answered at 700
	f.after(time.Millisecond, send)                           // gets that connection
	f.after(1500*time.Millisecond, func() { send(); send() }) // there are two by now
	f.run(3 * time.Second)
	want := []time.Duration{700, 800, 1600, 1600}
	for i := range want {
		if len(ends) != len(want) || ends[i] != want[i]*time.Millisecond {
			t.Fatalf("answers at %v, want %v ms", ends, want)
		}
	}
	if peer.conns.n != 2 || peer.idle != 2 || peer.inFlight.n != 0 {
		t.Errorf("%d connections, %d idle, %d in flight", peer.conns.n, peer.idle, peer.inFlight.n)
	}
}

func TestWell(t *testing.T) {
	by := [][2]int{{0, 9}, {100, 0}, {98, 2}, {99, 1}, {100, 0}}
	for _, tt := range []struct {
		from, until int
		want        string
	}{{0, 5, "3 s"}, {3, 5, "0 s"}, {0, 3, "not in 3 s"}, {1, 2, "0 s"}} {
		if got := well(by, time.Duration(tt.from)*time.Second, time.Duration(tt.until)*time.Second); got != tt.want {
			t.Errorf("well from %d until %d = %s, want %s", tt.from, tt.until, got, tt.want)
		}
	}
}
