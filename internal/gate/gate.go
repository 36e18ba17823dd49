// Package gate keeps load off that cannot be served: requests, when work waits
// too long for a processor, and connections on which nothing happens. It knows
// nothing of what requests are about.
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
	// look is how often the gate looks at the queue.
	look = 10 * time.Millisecond

	// steady is how many looks in a row must find a wait: one stall of the
	// machine is no overload.
	steady = 3

	// few may wait for as long as it takes: on a slow or busy machine that has
	// little to do, refusing helps nobody.
	few = 64

	// memory is how far back the pace of work is averaged.
	memory = 200 * time.Millisecond

	// rest is after how long without a request the past is forgotten.
	rest = time.Second
)

// The level is a number from 0, where all is admitted, to the number of classes,
// where nothing is. Its steps are so chosen that it settles at 1.2 as well as at
// 10 times the load that can be served, and that a stall of the machine moves it
// little: TestLoads plays that.
const (
	forGrowth = 20  // rise for each second by which the wait has grown since the last look
	forExcess = 150 // rise for each second of wait above the target and second that it lasts
	fall      = 0.8 // of the level at a look when nothing has waited for a while
	worst     = 8   // so many targets are as bad as any longer wait
)

// A Gate admits requests. A nil Gate admits all.
type Gate struct {
	target time.Duration
	queue  func() (waiting, perSecond float64)
	start  time.Time

	next  atomic.Int64  // when to look again, after start
	level atomic.Uint64 // bits of a float64
	wait  atomic.Int64  // as last seen

	mu     sync.Mutex            // held while looking
	last   time.Duration         // look, after start
	pace   float64               // how many are given a processor in a second; 0: not known yet
	many   bool                  // waited at the last look
	recent [steady]time.Duration // waits, the newest first
	before time.Duration         // by how much the least of recent was above the target, one look ago
}

// New returns a gate that keeps the wait for a processor near target. queue tells
// how many wait for one, and how many a second were given one since its last
// call; it is called by one goroutine at a time. Nil stands for goroutines.
func New(target time.Duration, queue func() (waiting, perSecond float64)) *Gate {
	if queue == nil {
		queue = new(scheduler).queue
	}
	return &Gate{target: target, queue: queue, start: time.Now()}
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
	g.look() // nobody may have asked for long
	return 1 - g.refused(c)
}

// Wait is how long work had to wait for a processor when the gate last looked.
func (g *Gate) Wait() time.Duration {
	if g == nil {
		return 0
	}
	return time.Duration(g.wait.Load())
}

func (g *Gate) refused(c Class) float64 {
	return min(max(math.Float64frombits(g.level.Load())-float64(c), 0), 1)
}

// look looks, if it is time to, and nobody else does.
func (g *Gate) look() {
	now := time.Since(g.start)
	if int64(now) < g.next.Load() || !g.mu.TryLock() {
		return
	}
	defer g.mu.Unlock()
	if passed := now - g.last; passed >= look {
		g.last = now
		g.next.Store(int64(now + look))
		g.adjust(g.measure(passed), passed)
	}
}

// measure is how long who comes now will wait. The pace is that of looks between
// which many waited all the time: at others there was no more to do.
func (g *Gate) measure(passed time.Duration) time.Duration {
	waiting, perSecond := g.queue()
	many := waiting >= few
	switch {
	case many && g.many && g.pace == 0:
		g.pace = perSecond
	case many && g.many:
		g.pace += (perSecond - g.pace) * min(1, passed.Seconds()/memory.Seconds())
	}
	g.many = many
	wait := time.Duration(0)
	if many && g.pace > 0 {
		wait = time.Duration(min(waiting/g.pace, 60) * float64(time.Second)) // Little's law
	}
	g.wait.Store(int64(wait))
	return min(wait, worst*g.target)
}

// adjust sets the level by what was seen.
func (g *Gate) adjust(wait, passed time.Duration) {
	copy(g.recent[1:], g.recent[:])
	g.recent[0] = wait
	least := slices.Min(g.recent[:])
	above := max(least-g.target, 0)
	grown, excess := above-g.before, min(least-g.target, g.target)
	g.before = above
	level := math.Float64frombits(g.level.Load())
	level += forGrowth*grown.Seconds() + forExcess*excess.Seconds()*passed.Seconds()
	if slices.Max(g.recent[:]) == 0 {
		level *= fall
	}
	if passed > rest {
		level = 0
	}
	g.level.Store(math.Float64bits(min(max(level, 0), float64(classes))))
}
