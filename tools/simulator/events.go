package main

import (
	"math"
	"math/rand/v2"
	"time"
)

// A sim is a clock that jumps from event to event, and the only source of chance.
// Equal seeds make equal runs.
type sim struct {
	now    time.Duration
	rand   *rand.Rand
	events []event // a heap
	seq    uint64
}

type event struct {
	at  time.Duration
	seq uint64 // of two events at the same time, the one that was planned first comes first
	do  func()
}

func newSim(seed uint64) *sim { return &sim{rand: rand.New(rand.NewPCG(seed, 0))} }

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// after plans do to happen when d has passed.
func (s *sim) after(d time.Duration, do func()) {
	s.seq++
	s.events = append(s.events, event{s.now + d, s.seq, do})
	i := len(s.events) - 1
	for i > 0 {
		up := (i - 1) / 2
		if s.events[up].before(&s.events[i]) {
			break
		}
		s.events[i], s.events[up] = s.events[up], s.events[i]
		i = up
	}
}

// run lets everything happen that is planned up to a time, and sets the clock to it.
func (s *sim) run(until time.Duration) {
	for len(s.events) > 0 && s.events[0].at <= until {
		e := s.pop()
		s.now = e.at
		e.do()
	}
	s.now = max(s.now, until)
}

func (s *sim) pop() event {
	top, last := s.events[0], len(s.events)-1
	s.events[0] = s.events[last]
	s.events[last] = event{}
	s.events = s.events[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if s.events[child].before(&s.events[least]) {
				least = child
			}
		}
		if least == i {
			return top
		}
		s.events[i], s.events[least] = s.events[least], s.events[i]
		i = least
	}
}

// exponential is a random time of an exponential distribution.
func (s *sim) exponential(mean time.Duration) time.Duration {
	return time.Duration(s.rand.ExpFloat64() * float64(mean))
}

// lognormal is a random time of a lognormal distribution.
func (s *sim) lognormal(median time.Duration, sigma float64) time.Duration {
	return time.Duration(float64(median) * math.Exp(sigma*s.rand.NormFloat64()))
}

// A gauge follows a number over time.
type gauge struct {
	s       *sim
	n, most int
	area    float64 // of n over time, in seconds
	from    time.Duration
	last    time.Duration
}

func newGauge(s *sim) gauge { return gauge{s: s, from: s.now, last: s.now} }

func (g *gauge) add(n int) {
	g.settle()
	g.n += n
	g.most = max(g.most, g.n)
}

func (g *gauge) settle() {
	g.area += float64(g.n) * (g.s.now - g.last).Seconds()
	g.last = g.s.now
}

// reset begins mean and most anew.
func (g *gauge) reset() { *g = gauge{s: g.s, n: g.n, most: g.n, from: g.s.now, last: g.s.now} }

// mean is the mean since the gauge was made or reset.
func (g *gauge) mean() float64 {
	g.settle()
	if g.last == g.from {
		return float64(g.n)
	}
	return g.area / (g.last - g.from).Seconds()
}

// A fifo is a queue whose memory is used again.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

func (q *fifo[T]) push(x T) {
	if q.head > 64 && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, x)
}

func (q *fifo[T]) pop() T {
	var none T
	x := q.items[q.head]
	q.items[q.head] = none
	q.head++
	return x
}
