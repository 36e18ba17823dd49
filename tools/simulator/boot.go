package main

import (
	"math"
	"time"
)

// A start is how a fleet begins to work, and when it did.
type start struct {
	spread    time.Duration // nodes start at random times within this
	published time.Duration // when the card ranges are in the database; 0: from the start
	quorum    float64       // share of the nodes that must be ready before the balancer opens

	ready  int           // nodes that the balancer sends requests to
	first  time.Duration // when the first node was ready
	last   time.Duration // and the last one
	opened time.Duration // when the balancer opened; 0: not yet
}

const (
	exec    = 100 * time.Millisecond // from the start of a process to its first statement
	restart = time.Second            // until a process that could not start is started again
	look    = 5 * time.Second        // between looks for ranges that other nodes have loaded: internal/peers/directory
	chunk   = 256 << 10              // bytes of a row of card ranges: internal/state/store/postgres
)

// boot starts all nodes.
func (f *fleet) boot(st *start) {
	for _, n := range f.nodes {
		f.after(time.Duration(f.rand.Float64()*float64(st.spread)), func() { n.boot(st) })
	}
}

// boot reads schema and keys, then the card ranges of all schemes at the same time.
func (n *node) boot(st *start) {
	n.after(exec, func() {
		n.pool.ask(&call{cpu: us(n.p.DBRead), done: func(ok bool) {
			if !ok {
				n.after(restart, func() { n.boot(st) })
				return
			}
			left := len(schemes)
			for i := range schemes {
				n.load(i, st, func() {
					if left--; left == 0 {
						n.serve(st)
					}
				})
			}
		}})
	})
}

// load takes over a scheme's card ranges once they are there.
func (n *node) load(scheme int, st *start, done func()) {
	later := func() { n.after(look, func() { n.load(scheme, st, done) }) }
	rows := int(math.Ceil(n.p.Ranges * (1 << 20) * schemes[scheme].share / chunk))
	const smalls = 3 // small reads: the state of the refresh, a wish for one, the list of generations
	i := -smalls
	var next func(ok bool)
	next = func(ok bool) {
		i++
		switch {
		case !ok, i == 0 && n.now < st.published:
			later()
		case i < 0:
			n.pool.ask(&call{cpu: us(n.p.DBRead), done: next})
		case i < rows:
			n.pool.ask(&call{cpu: us(n.p.DBChunk), bytes: chunk, done: next})
		default:
			done()
		}
	}
	n.pool.ask(&call{cpu: us(n.p.DBRead), done: next})
}

// serve is what a node does once it is ready. The balancer notices with its next check.
func (n *node) serve(st *start) {
	if st.ready == 0 {
		st.first = n.now
	}
	st.last = n.now
	n.tick(500 * time.Millisecond)
	n.after(seconds(n.p.Check*n.rand.Float64()), func() {
		n.in = true
		if st.ready++; st.opened == 0 && float64(st.ready) >= st.quorum*float64(len(n.nodes)) {
			st.opened = n.now
		}
	})
}
