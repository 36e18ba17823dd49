package main

import (
	"fmt"
	"time"
)

// A report is what a scenario shows: a table and notes.
type report struct {
	title string
	about string
	head  []string
	rows  [][]string
	notes []string
}

func (r *report) row(cells ...string) { r.rows = append(r.rows, cells) }
func (r *report) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

func percent(part, of int) string {
	return fmt.Sprintf("%.2f %%", 100*float64(part)/float64(max(1, of)))
}
func millis(x float64) string       { return fmt.Sprintf("%.0f ms", x) }
func small(x float64) string        { return fmt.Sprintf("%.2f ms", x) }
func within(d time.Duration) string { return fmt.Sprintf("%.0f s", d.Seconds()) }
func whole(n int) string            { return fmt.Sprint(n) }

// A scenario plays something and returns the fleets that it played with, all
// requests of which have ended.
type scenario struct {
	name string
	play func(seed uint64, p params) (report, []*fleet)
}

var scenarios = []scenario{
	{"steady", steady}, {"node", nodeLoss}, {"directory", sickDirectory}, {"cold", coldStart}, {"database", failover},
}

// drain lets all requests end after the load has.
func (f *fleet) drain() { f.run(f.until + 60*time.Second) }

// settle begins to measure loads anew.
func (f *fleet) settle() {
	f.db.cpu.busy.reset()
	f.db.busy.reset()
	f.db.log.syncs = 0
	for _, n := range f.nodes {
		n.cpu.busy.reset()
		n.inFlight.reset()
		for _, p := range n.peers {
			p.conns.reset()
			p.inFlight.reset()
		}
	}
}

// most is the most that any node had in flight, and the most sockets that any had open.
func (f *fleet) most() (inFlight, sockets int) {
	for _, n := range f.nodes {
		inFlight = max(inFlight, n.inFlight.most)
		conns := 0
		for _, p := range n.peers {
			conns += p.conns.most
		}
		sockets = max(sockets, conns+n.inFlight.most)
	}
	return inFlight, sockets
}

// nodeLoad is the mean load of the nodes that live.
func (f *fleet) nodeLoad() float64 {
	sum, n := 0.0, 0
	for _, node := range f.nodes {
		if !node.dead {
			sum += node.cpu.load()
			n++
		}
	}
	return sum / float64(max(1, n))
}

// memory is what a node needs with so many /auth in flight.
func (p *params) memory(inFlight int) string {
	return fmt.Sprintf("%.0f MiB", p.Memory+p.Waiting*float64(inFlight)/1024)
}

// steady is the plan on a usual day.
func steady(seed uint64, p params) (report, []*fleet) {
	f := newFleet(seed, &p, true)
	f.load(seconds(p.Warmup + p.Measure))
	f.run(seconds(p.Warmup))
	f.phase = 1
	f.settle()
	f.run(f.until)
	r := report{
		title: fmt.Sprintf("Steady: %.0f authentications a second", p.Rate),
		about: fmt.Sprintf("one of %.0f cells: %.0f/s on %d nodes and a database", p.Cells, f.rate(), len(f.nodes)),
		head:  []string{"", "per second", "p50", "p99", "p99.9"},
	}
	inFlight, waiting := 0.0, 0.0
	for _, n := range f.nodes {
		inFlight += n.inFlight.mean()
		for _, peer := range n.peers {
			waiting += peer.inFlight.mean()
		}
	}
	most, sockets := f.most()
	cpu, db, busy, syncs := f.nodeLoad(), f.db.cpu.load(), f.db.busy.mean(), float64(f.db.log.syncs)/p.Measure
	f.drain()
	f.join(1)
	for k := range kinds {
		r.row(k.String(), fmt.Sprintf("%.0f", float64(f.arrived[1][k])/p.Measure),
			small(f.quantile(1, k, 0.5)), small(f.quantile(1, k, 0.99)), small(f.quantile(1, k, 0.999)))
	}
	writes := f.rate() * (2 + p.Challenge)
	r.note("nodes: %.0f %% of %.0f cores busy; %.0f in flight each, %d at the most, %s; %d sockets to requestors and directories",
		100*cpu, p.Cores, inFlight/float64(len(f.nodes)), most, p.memory(most), sockets)
	r.note("database: %.0f %% of %.0f cores busy; %.0f commits/s in %.0f syncs/s; %.1f connections in use of %d; %.0f MiB/s of write-ahead log",
		100*db, p.DBCores, writes, syncs, busy, len(f.nodes)*int(p.DBPool), f.rate()*(p.WAL+p.Challenge*p.WALResult)/1024)
	r.note("not answered: %s", percent(f.countFailure(1), f.arrive(1)))
	return r, []*fleet{f}
}

// arrive counts the requests of a phase, bad those that were not answered.
func (f *fleet) arrive(phase int) (n int) {
	for k := range kinds {
		n += f.arrived[phase][k]
	}
	return n
}

func (f *fleet) countFailure(phase int) int { return f.arrive(phase) - f.sum(phase, answered) }

// nodeLoss takes the power from nodes.
func nodeLoss(seed uint64, p params) (report, []*fleet) {
	r := report{
		title: "Nodes lost, as by a power cut",
		about: fmt.Sprintf("in a cell of %d; a check every %g s, out after %g", max(1, int(p.Nodes/p.Cells)), p.Check, p.Fall),
		head:  []string{"", "in flight, lost", "sent there later, lost", "waited " + within(seconds(p.BalancerTimeout)), "out after", "cpu before, after", "/auth p99 before, meanwhile, after", "others not answered"},
	}
	var fleets []*fleet
	zone := max(1, int(p.Nodes/p.Cells)/3)
	for _, v := range []struct {
		name    string
		nodes   int
		reasked float64
	}{
		{"one, balancer asks another node", 1, 1}, {"one, balancer does not", 1, 0},
		{fmt.Sprintf("a zone of %d, asks another", zone), zone, 1},
	} {
		p := p
		p.Reasked = v.reasked
		f := newFleet(seed, &p, true)
		fleets = append(fleets, f)
		at := seconds(p.Warmup + p.Measure)
		out := at + seconds(p.Check*p.Fall+2*p.BalancerTimeout)
		f.load(out + seconds(p.Measure))
		f.run(seconds(p.Warmup))
		f.phase = 1
		f.settle()
		f.run(at)
		before := f.nodeLoad()
		f.phase = 2
		for _, n := range f.nodes[:v.nodes] {
			f.kill(n)
		}
		inFlight := f.sum(1, lost) + f.sum(0, lost)
		f.held.most = 0
		f.run(out)
		f.phase = 3
		f.settle()
		f.run(f.until)
		after := f.nodeLoad()
		var gone time.Duration
		for _, n := range f.nodes[:v.nodes] {
			gone = max(gone, n.out-at)
		}
		f.drain()
		failed := 0
		for phase := 1; phase < phases; phase++ {
			failed += f.countFailure(phase) - f.sum(phase, lost)
		}
		r.row(v.name, whole(inFlight), whole(f.sum(2, lost)), whole(f.waited(2, p.BalancerTimeout))+" besides /auth", fmt.Sprintf("%.1f s", gone.Seconds()),
			fmt.Sprintf("%.0f %%, %.0f %%", 100*before, 100*after),
			fmt.Sprintf("%s, %s, %s", millis(f.quantile(1, auth, 0.99)), millis(f.quantile(2, auth, 0.99)), millis(f.quantile(3, auth, 0.99))),
			whole(failed))
	}
	return r, fleets
}

// waited counts the requests of a phase, without /auth, that took longer than a number of seconds.
func (f *fleet) waited(phase int, limit float64) (n int) {
	for _, k := range []kind{preauth, result, fetch} {
		for _, took := range f.took[phase][k] {
			if float64(took) > 1000*limit {
				n++
			}
		}
	}
	return n
}

// sicknesses are what is wrong with the directory in [sickDirectory], and what the server has against it.
var sicknesses = []struct {
	name              string
	median            float64
	silent            bool
	bulkhead, breaker bool
}{
	{"slow, 9 s: no bulkhead", 9000, false, false, false},
	{"slow, 9 s: bulkhead", 9000, false, true, false},
	{"slow, 9 s: bulkhead, breaker", 9000, false, true, true},
	{"silent: no bulkhead", 0, true, false, false},
	{"silent: bulkhead", 0, true, true, false},
	{"silent: bulkhead, breaker", 0, true, true, true},
}

// sickDirectory has the directory of the first scheme be slow or silent for a
// while.
func sickDirectory(seed uint64, p params) (report, []*fleet) {
	const lasts, after = 30 * time.Second, 15 * time.Second
	p.Cells = max(1, p.Nodes/2) // two nodes are enough to see it
	r := report{
		title: fmt.Sprintf("The directory of %s, %.0f %% of the load, is slow or silent for %s", schemes[0].name, 100*schemes[0].share, within(lasts)),
		about: fmt.Sprintf("two nodes of the fleet, %.0f/s each; %.0f in flight in all are let into one", p.Rate/p.Nodes, p.InFlight),
		head:  []string{"", "answered", "405 after 10 s", "405 at once", "503", "well again after", "in flight of a node", "memory", "sockets", "others: not answered", "others: /auth p99 before, meanwhile", "/preauth p99"},
	}
	var fleets []*fleet
	for _, v := range sicknesses {
		p := p
		if !v.bulkhead {
			p.PerDirectory = 0
		}
		if !v.breaker {
			p.Breaker = 0
		}
		f := newFleet(seed, &p, true)
		fleets = append(fleets, f)
		at := seconds(p.Warmup + p.Measure)
		f.load(at + lasts + after)
		f.run(seconds(p.Warmup))
		f.phase = 1
		f.run(at)
		f.phase = 2
		f.settle()
		d := f.dirs[0]
		d.silent = v.silent
		if v.median > 0 {
			d.median, d.sigma = ms(v.median), 0.02
		}
		f.run(at + lasts)
		f.phase = 3
		d.silent, d.median, d.sigma = false, ms(p.DSMedian), p.DSSigma
		most, sockets := f.most()
		f.run(f.until)
		f.drain()
		sick, of := f.sick[2], 0
		for _, n := range sick {
			of += n
		}
		others := f.countFailure(2) - (of - sick[answered]) // that were not answered
		r.row(v.name, percent(sick[answered], of), percent(sick[failedTimeout], of), percent(sick[refusedBusy]+sick[refusedOpen], of),
			percent(sick[shed], of), well(f.ill, at+lasts, f.until), whole(most), p.memory(most), whole(sockets),
			percent(others, f.arrive(2)-of), fmt.Sprintf("%s, %s", millis(f.quantile(1, auth, 0.99)), millis(f.quantile(2, auth, 0.99))),
			small(f.quantile(2, preauth, 0.99)))
	}
	return r, fleets
}

// coldStart starts many nodes at once; as soon as the balancer opens, the full load comes.
func coldStart(seed uint64, p params) (report, []*fleet) {
	p.Rate, p.DSHands, p.Cells, p.Nodes = p.Rate/p.Cells, p.DSHands/p.Cells, 1, 100
	r := report{
		title: "Cold start of 100 nodes",
		about: fmt.Sprintf("on one database with max_connections %.0f; %.0f/s wait for them, %.0f MiB of card ranges for each", p.DBMost, p.Rate, p.Ranges),
		head:  []string{"", "ready, first and last", "connections, refused", "in use at the most", "card ranges read, most in a second", "opens after", "well after that", "first 10 s: /auth answered", "405", "503", "p99"},
	}
	var fleets []*fleet
	for _, v := range []struct {
		name      string
		nodes     float64
		pool      float64
		warm      float64
		hands     float64 // share of the handshakes that directories do else
		spread    time.Duration
		published time.Duration
		quorum    float64
	}{
		{"100 at once", 100, p.DBPool, p.Warm, 1, 0, 0, 0},
		{"pool of 4", 100, 4, p.Warm, 1, 0, 0, 0},
		{"pool of 4, opens when 90 % are ready", 100, 4, p.Warm, 1, 0, 0, 0.9},
		{"… a fifth of the handshakes", 100, 4, p.Warm, 0.2, 0, 0, 0.9},
		{"… a fifth, 20 connections made before", 100, 4, 20, 0.2, 0, 0, 0.9},
		{"… within 30 s", 100, 4, p.Warm, 1, 30 * time.Second, 0, 0.9},
		{"… first start ever", 100, 4, p.Warm, 1, 0, 6 * time.Second, 0.9},
		{"25 at once, pool of 16, opens at 90 %", 25, 16, p.Warm, 1, 0, 0, 0.9},
	} {
		p := p
		p.Nodes, p.DBPool, p.Warm, p.DSHands = v.nodes, v.pool, v.warm, p.DSHands*v.hands
		f := newFleet(seed, &p, false)
		fleets = append(fleets, f)
		st := &start{spread: v.spread, published: v.published, quorum: v.quorum}
		f.boot(st)
		for st.opened == 0 && f.now < 5*time.Minute {
			f.run(f.now + 50*time.Millisecond)
		}
		open := f.now
		f.phase = 1
		f.load(open + 15*time.Second)
		f.run(open + 10*time.Second)
		f.phase = 2
		f.run(f.until)
		f.drain()
		peak, sum := int64(0), int64(0)
		for _, n := range f.db.sent {
			peak, sum = max(peak, n), sum+n
		}
		came := f.arrived[1][auth]
		f.join(1)
		r.row(v.name, fmt.Sprintf("%.1f, %.1f s", st.first.Seconds(), st.last.Seconds()),
			fmt.Sprintf("%d, %d", f.db.connected.most, f.db.turned), whole(f.db.busy.most),
			fmt.Sprintf("%d, %d MiB", sum>>20, peak>>20), fmt.Sprintf("%.1f s", open.Seconds()), well(f.all, open, f.until),
			percent(f.ended[1][auth][answered], came), percent(f.ended[1][auth][failedTimeout]+f.ended[1][auth][refusedBusy]+f.ended[1][auth][refusedOpen], came),
			percent(f.ended[1][auth][shed], came), millis(f.quantile(1, auth, 0.99)))
	}
	return r, fleets
}

// failover takes the database's primary away until a standby has taken over.
func failover(seed uint64, p params) (report, []*fleet) {
	r := report{
		title: "The database's primary is lost, a standby takes over",
		about: fmt.Sprintf("in a cell of %.0f/s; a call waits %g s for a connection", p.Rate/p.Cells, p.DBPatience),
		head:  []string{"", "not answered meanwhile", "403", "503", "/preauth", "RReq", "in flight of a node", "memory", "answered again after", "/auth p99 of the next 10 s"},
	}
	var fleets []*fleet
	for _, v := range []struct {
		name     string
		down     time.Duration
		pool     float64
		patience float64
	}{
		{"2 s", 2 * time.Second, p.DBPool, p.DBPatience},
		{"4.5 s", 4500 * time.Millisecond, p.DBPool, p.DBPatience},
		{"4.5 s, pool of 12", 4500 * time.Millisecond, 12, p.DBPatience},
		{"4.5 s, patience of 1 s", 4500 * time.Millisecond, p.DBPool, 1},
		{"5.5 s", 5500 * time.Millisecond, p.DBPool, p.DBPatience},
		{"15 s", 15 * time.Second, p.DBPool, p.DBPatience},
	} {
		p := p
		p.DBPool, p.DBPatience = v.pool, v.patience
		f := newFleet(seed, &p, true)
		fleets = append(fleets, f)
		at := seconds(p.Warmup + p.Measure)
		f.load(at + v.down + 15*time.Second)
		f.run(seconds(p.Warmup))
		f.phase = 1
		f.run(at)
		f.phase = 2
		f.settle()
		f.db.fail()
		f.run(at + v.down)
		f.db.up()
		f.phase = 3
		f.run(f.until)
		most, _ := f.most()
		f.drain()
		f.join(3)
		r.row(v.name, percent(f.countFailure(2), f.arrive(2)), percent(f.sum(2, failedStore), f.arrive(2)), percent(f.sum(2, shed), f.arrive(2)),
			percent(f.arrived[2][preauth]-f.ended[2][preauth][answered], f.arrived[2][preauth]),
			percent(f.arrived[2][result]-f.ended[2][result][answered], f.arrived[2][result]),
			whole(most), p.memory(most), well(f.all, at+v.down, f.until), millis(f.quantile(3, auth, 0.99)))
	}
	return r, fleets
}
