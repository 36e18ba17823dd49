package main

import (
	"math"
	"time"
)

// schemes are the directories, with their share of the authentications, and of
// the card ranges. The first is the one that falls sick.
var schemes = []struct {
	name  string
	share float64
}{{"visa", 0.50}, {"mastercard", 0.35}, {"amex", 0.06}, {"jcb", 0.03}, {"upi", 0.02}, {"protectbuy", 0.02}, {"sbn", 0.02}}

// A fleet is the nodes of a cell behind a balancer, with their database and the
// directories.
type fleet struct {
	*sim
	p     *params
	nodes []*node
	db    *database
	dirs  []*directory
	phase int
	next  int
	held  gauge // requests at the balancer
	until time.Duration

	tally
}

// newFleet makes one cell. Warm nodes have been at work for long; others do not run yet.
func newFleet(seed uint64, p *params, warm bool) *fleet {
	s := newSim(seed)
	f := &fleet{sim: s, p: p, held: newGauge(s)}
	f.db = newDatabase(f)
	for range schemes {
		f.dirs = append(f.dirs, &directory{fleet: f, median: ms(p.DSMedian), sigma: p.DSSigma, hands: newStation(s, 1)})
	}
	for range max(1, int(p.Nodes/p.Cells)) {
		f.nodes = append(f.nodes, newNode(f, warm))
	}
	return f
}

// rate is how many authentications a second come to the cell.
func (f *fleet) rate() float64 { return f.p.Rate / f.p.Cells }

// load has requests come from now until a time.
func (f *fleet) load(until time.Duration) {
	f.until = until
	for k, share := range [kinds]float64{1, 1, f.p.Challenge, f.p.Challenge * f.p.Fetches} {
		if share == 0 {
			continue
		}
		f.scheduleArrival(kind(k), time.Duration(float64(time.Second)/(f.rate()*share)))
	}
}

// scheduleArrival plans the next request of a kind; that one plans the one after it.
func (f *fleet) scheduleArrival(k kind, every time.Duration) {
	f.after(f.exponential(every), func() {
		if f.now >= f.until {
			return
		}
		r := &request{kind: k, came: f.now, phase: f.phase}
		if k == auth {
			r.scheme = f.pickScheme()
			r.challenge = f.rand.Float64() < f.p.Challenge
		}
		f.arrived[f.phase][k]++
		f.balanceLoad(r)
		f.scheduleArrival(k, every)
	})
}

func (f *fleet) pickScheme() int {
	x := f.rand.Float64()
	for i, s := range schemes {
		if x -= s.share; x < 0 {
			return i
		}
	}
	return 0
}

// balanceLoad gives a request to the next node that the balancer takes for alive.
func (f *fleet) balanceLoad(r *request) {
	for range f.nodes {
		f.next = (f.next + 1) % len(f.nodes)
		n := f.nodes[f.next]
		switch {
		case !n.in:
			continue
		case !n.dead:
			n.accept(r)
		case f.rand.Float64() < f.p.Reasked:
			f.held.add(1)
			f.after(seconds(f.p.BalancerTimeout), func() {
				f.held.add(-1)
				f.balanceLoad(r)
			})
		default:
			f.end(r, lost)
		}
		return
	}
	f.end(r, nowhere)
}

func (f *fleet) end(r *request, o outcome) {
	f.ended[r.phase][r.kind][o]++
	f.note(r.came, r.kind, r.scheme, o)
	sick := r.kind == auth && r.scheme == 0
	if sick {
		f.sick[r.phase][o]++
	}
	if o != answered {
		return
	}
	series := r.kind
	if sick {
		series = kinds
	}
	f.took[r.phase][series] = append(f.took[r.phase][series], float32(float64(f.now-r.came)/float64(time.Millisecond)))
}

// kill ends a node as a power cut does. The balancer notices with its checks.
func (f *fleet) kill(n *node) {
	n.dead = true
	n.life++
	for k := range kinds {
		for phase := range phases {
			f.ended[phase][k][lost] += n.flying[phase][k]
			n.flying[phase][k] = 0
		}
	}
	n.inFlight.add(-n.inFlight.n)
	check := f.p.Check * (f.p.Fall - f.rand.Float64()) // the first check that fails comes at a random time within one interval
	f.after(seconds(math.Max(check, 0)+f.p.BalancerTimeout), func() { n.in, n.out = false, f.now })
}

// A request, at some step of what is done for it.
type request struct {
	kind      kind
	scheme    int
	challenge bool
	came      time.Duration
	phase     int
	node      *node
	step      int
}

// A node is one process: cmd/threeds.
type node struct {
	*fleet
	in       bool          // the balancer sends it requests
	out      time.Duration // when the balancer stopped to
	dead     bool
	life     int // grows when it is killed
	cpu      *station
	pool     *pool
	peers    []*peer
	inFlight gauge
	flying   [phases][kinds]int // in flight, by the phase in which they came
}

func newNode(f *fleet, warm bool) *node {
	n := &node{fleet: f, in: warm, cpu: newStation(f.sim, int(f.p.Cores)), inFlight: newGauge(f.sim)}
	n.pool = &pool{database: f.db, size: int(f.p.DBPool)}
	for i, d := range f.dirs {
		p := &peer{directory: d, node: n, inFlight: newGauge(f.sim), conns: newGauge(f.sim)}
		p.idle = int(f.p.Warm)
		if warm { // what the load of the last minute has left
			mean := f.rate() / math.Max(1, math.Floor(f.p.Nodes/f.p.Cells)) * schemes[i].share * f.p.DSMedian / 1000
			p.idle = int(1.3*mean + 6*math.Sqrt(mean) + 5)
		}
		p.conns.add(p.idle)
		n.peers = append(n.peers, p)
	}
	if warm {
		n.tick(time.Duration(f.rand.Float64() * float64(500*time.Millisecond)))
	}
	return n
}

// tick has a node read the keys twice a second, and how things stand with each
// directory every five.
func (n *node) tick(first time.Duration) {
	count := 0
	var again func()
	again = func() {
		if n.dead {
			return
		}
		n.pool.ask(&call{cpu: us(n.p.DBRead + n.p.Keys), bytes: 100 * n.p.Keys, done: func(bool) {}})
		if count++; count%10 == 0 {
			for range 2 * len(schemes) {
				n.pool.ask(&call{cpu: us(n.p.DBRead), done: func(bool) {}})
			}
		}
		n.after(500*time.Millisecond, again)
	}
	n.after(first, again)
}

// accept lets a request in, or sheds it. Results come over a listener of their own, and
// neither count nor are shed.
func (n *node) accept(r *request) {
	results := 0
	for phase := range n.flying {
		results += n.flying[phase][result]
	}
	if r.kind != result && n.inFlight.n-results >= int(n.p.InFlight) {
		n.end(r, shed)
		return
	}
	r.node = n
	n.inFlight.add(1)
	n.flying[r.phase][r.kind]++
	n.proceed(r)
}

func (n *node) finish(r *request, o outcome) {
	n.inFlight.add(-1)
	n.flying[r.phase][r.kind]--
	n.end(r, o)
}

// A step is a part of what a node does for a request.
type step int

const (
	work step = iota
	read
	claim
	ask // the directory
	record
	done
)

// programs are the steps of each kind of request.
var programs = [kinds][]step{
	preauth: {work, done},
	auth:    {work, claim, ask, work, read, record, done},
	result:  {work, read, read, record, done},
	fetch:   {work, read, done},
}

// proceed does the next step of a request.
func (n *node) proceed(r *request) {
	life, step := n.life, programs[r.kind][r.step]
	r.step++
	next := func(o outcome) {
		switch {
		case n.life != life: // it was lost with the node
		case o != answered:
			n.finish(r, o)
		default:
			n.proceed(r)
		}
	}
	stored := func(ok bool) {
		// A final status is handed out though it could not be stored.
		if ok || r.kind == auth && step != claim && !r.challenge {
			next(answered)
		} else {
			next(failedStore)
		}
	}
	switch step {
	case work:
		takes := [kinds]float64{n.p.Preauth, n.p.Auth / 2, n.p.Result, n.p.Fetch}[r.kind]
		n.cpu.serve(n.exponential(us(takes)), func() { next(answered) })
	case read:
		n.pool.ask(&call{cpu: us(n.p.DBRead), done: stored})
	case claim, record:
		cpu := n.p.DBWrite
		if step == claim {
			cpu += n.p.DBDelete // each row is swept one day
		}
		n.pool.ask(&call{cpu: us(cpu), writes: true, done: stored})
	case ask:
		n.peers[r.scheme].send(next)
	case done:
		n.finish(r, answered)
	}
}
