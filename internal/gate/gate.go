// Package gate keeps off load that cannot be served: requests, when work waits too
// long for a processor or for anything else that has a queue, connections on which
// nothing happens, and bodies for which there is no memory. When a server is to end it
// parts with the connections that clients keep. It knows nothing of what requests are
// about.
package gate

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Class is what a request is worth to whoever waits for it. The lowest is
// refused first, and the next only when refusing all of it is not enough.
type Class int

// The classes, the first to be refused first.
const (
	Begin    Class = iota // begins an authentication: nothing is lost but a try
	Proceed               // goes on with one that has begun
	Conclude              // fetches what one came to: all the work is done
	classes
)

// Classes are all classes.
func Classes() []Class { return []Class{Begin, Proceed, Conclude} }

func (c Class) String() string { return [classes]string{"begin", "proceed", "conclude"}[c] }

const (
	// look is how often the gate looks at the queues.
	look = 10 * time.Millisecond

	// steady is how many looks in a row must find a wait: one stall of the
	// machine is no overload.
	steady = 3

	// few must wait, or nothing is refused, however long those that do wait: on a slow
	// machine with little to do refusing helps nobody.
	few = 64

	// memory is how far back the pace of work is averaged.
	memory = 200 * time.Millisecond

	// rest is after how long without a request all is admitted again.
	rest = time.Second
)

// The level is a number from 0, where all is admitted, to the number of classes,
// where nothing is. It follows the worst of the queues, whose waits count in their
// targets. Its steps are so chosen that it settles at 1.2 as well as at 10 times
// the load that can be served, and that a stall of the machine moves it little:
// TestLoads plays that.
const (
	forGrowth = 0.2  // rise for each target by which the wait has grown since the last look
	forExcess = 1.5  // rise for each target of wait above the one, and second that it lasts
	fall      = 0.95 // of the level at a look when nothing has waited for a while
	worst     = 8    // a longer wait than so many targets counts as that many
)

// A Queue is what work waits in for something.
type Queue struct {
	Name   string
	Target time.Duration // near which the wait is kept, or below

	// Length returns how many wait, and how many have had their turn since the
	// process began. It is never called concurrently.
	Length func() (waiting int, served uint64)
}

// A line is a queue and what a gate has seen of it.
type line struct {
	Queue
	wait atomic.Int64 // as last seen

	served uint64  // at the last look
	pace   float64 // how many have their turn in a second; 0: not known yet
	many   bool    // few or more waited at the last look
}

// A Gate admits requests. A nil Gate admits all.
type Gate struct {
	lines []line
	start time.Time

	next  atomic.Int64  // when to look again, after start
	level atomic.Uint64 // bits of a float64

	mu     sync.Mutex      // held while looking
	last   time.Duration   // when it looked last, after start
	recent [steady]float64 // the worst wait of any queue at the last looks, in targets, the newest first
	before float64         // by how much the least of recent was above 1, one look ago
}

// New returns a gate that goes by the queues.
func New(queues ...Queue) *Gate {
	g := &Gate{lines: make([]line, len(queues)), start: time.Now()}
	for i, q := range queues {
		g.lines[i].Queue = q
	}
	return g
}

// Admit reports whether a request may be served. Ask it before anything else is
// done for the request.
func (g *Gate) Admit(c Class) bool {
	if g == nil {
		return true
	}
	g.look()
	refused := g.refused(c)
	return refused == 0 || rand.Float64() >= refused
}

// Admitted is the share of a class that is admitted now, from 0 to 1.
func (g *Gate) Admitted(c Class) float64 {
	if g == nil {
		return 1
	}
	g.look() // there may have been no request for long
	return 1 - g.refused(c)
}

// Waits calls f with each queue's name and a function, to be called at any time, that
// returns how long the wait there was when the gate last looked.
func (g *Gate) Waits(f func(name string, wait func() time.Duration)) {
	if g == nil {
		return
	}
	for i := range g.lines {
		f(g.lines[i].Name, func() time.Duration { return time.Duration(g.lines[i].wait.Load()) })
	}
}

func (g *Gate) refused(c Class) float64 {
	return min(max(math.Float64frombits(g.level.Load())-float64(c), 0), 1)
}

// look measures the queues and adjusts the level, if it is time to, and no other
// goroutine is at it.
func (g *Gate) look() {
	now := time.Since(g.start)
	if int64(now) < g.next.Load() || !g.mu.TryLock() {
		return
	}
	defer g.mu.Unlock()
	if passed := now - g.last; passed >= look {
		g.last = now
		g.next.Store(int64(now + look))
		wait := 0.0
		for i := range g.lines {
			l := &g.lines[i]
			wait = max(wait, l.measure(passed).Seconds()/l.Target.Seconds())
		}
		g.adjust(min(wait, worst), passed)
	}
}

// measure estimates how long the wait in a line is now: its length by its pace. The pace
// is learned only between looks that both found many waiting: at other times work is done
// as it comes, which says nothing about how fast it could be done.
func (l *line) measure(passed time.Duration) (wait time.Duration) {
	waiting, served := l.Length()
	perSecond := float64(served-l.served) / passed.Seconds()
	many := waiting >= few
	switch {
	case many && l.many && l.pace == 0:
		l.pace = perSecond
	case many && l.many:
		l.pace += (perSecond - l.pace) * min(1, passed.Seconds()/memory.Seconds())
	}
	l.many, l.served = many, served
	if many && l.pace > 0 {
		wait = time.Duration(min(float64(waiting)/l.pace, 60) * float64(time.Second)) // Little's law
	}
	l.wait.Store(int64(wait))
	return wait
}

// adjust sets the level by what was seen.
func (g *Gate) adjust(wait float64, passed time.Duration) {
	copy(g.recent[1:], g.recent[:])
	g.recent[0] = wait
	least := slices.Min(g.recent[:])
	above := max(least-1, 0)
	grown, excess := above-g.before, min(least-1, 1)
	g.before = above
	level := math.Float64frombits(g.level.Load())
	level += forGrowth*grown + forExcess*excess*passed.Seconds()
	if slices.Max(g.recent[:]) == 0 {
		level *= fall
	}
	if passed > rest {
		level = 0
	}
	g.level.Store(math.Float64bits(min(max(level, 0), float64(classes))))
}
