// Package shed sheds load: it refuses requests while work waits too long for a processor or for anything else that has
// a queue. Make a [LoadShedder] with [New] from [Processor] and other queues, and call [LoadShedder.Admit] before
// anything else is done for a request. It knows nothing about the content of requests.
package shed

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Priority is how much is lost when a request is refused. Requests of the lowest priority are refused first, and those
// of the next only when refusing all of the lower is not enough.
type Priority int

// The priorities, from the lowest to the highest.
const (
	Low    Priority = iota // begins an authentication: only the attempt is lost
	Middle                 // continues an authentication
	High                   // fetches its result: all the work is done
	priorities
)

// Priorities returns all priorities, from the lowest to the highest.
func Priorities() []Priority { return []Priority{Low, Middle, High} }

func (p Priority) String() string { return [priorities]string{"low", "middle", "high"}[p] }

const (
	// sampleInterval is how often the queues are measured.
	sampleInterval = 10 * time.Millisecond

	// steadySamples is how many samples in a row must find a wait: one stall of the machine is no overload.
	steadySamples = 3

	// minWaiting is how many requests must wait in a queue before any is refused, however long they wait. On a slow
	// machine with little to do, refusing does not help.
	minWaiting = 64

	// paceWindow is the time over which the pace of a queue is averaged.
	paceWindow = 200 * time.Millisecond

	// maxWait is the longest wait that is estimated.
	maxWait = time.Minute

	// forgetAfter is the time without a sample after which everything is admitted again.
	forgetAfter = time.Second
)

// The controller sets a level from 0, where everything is admitted, to the number of priorities, where nothing is
// admitted. Its input is the excess: the wait in the worst queue, in targets of that queue, above 1. In each sample
//
//	level += proportional × (change of the excess) + integral × excess × (seconds since the last sample)
//
// and the level decays when nothing has waited for a while. The values were found by simulation
// (TestGoodputUnderLoad): the level settles at 1.2 as well as at 10 times the load that can be served, and one stall
// of the machine moves it little.
const (
	proportional = 0.2  // level per target of wait that was added since the last sample
	integral     = 1.5  // level per second, for each target of wait above the first
	maxExcess    = 1.0  // targets; the integral part counts no more than this
	decay        = 0.95 // factor of the level for each sample after steadySamples without any wait
	maxTargets   = 8.0  // a longer wait counts as this many targets
)

// Queue is a queue of work.
type Queue struct {
	Name   string
	Target time.Duration // the wait is kept near this, or below

	// Length returns how many wait, and how many were served since the process began. It is never called concurrently.
	Length func() (waiting int, served uint64)
}

// sampledQueue is a queue and what the last sample found in it.
type sampledQueue struct {
	Queue
	wait atomic.Int64 // nanoseconds, as last estimated

	served     uint64  // by Length
	pace       float64 // how many are served in a second; 0 while unknown
	wasCrowded bool    // minWaiting or more waited
}

// LoadShedder admits or refuses requests. A nil LoadShedder admits all.
type LoadShedder struct {
	queues []sampledQueue
	start  time.Time

	next  atomic.Int64  // time of the next sample, in nanoseconds after start
	level atomic.Uint64 // bits of a float64

	mu       sync.Mutex             // held during a sample
	last     time.Duration          // time of the last sample, after start
	recent   [steadySamples]float64 // the worst wait of any queue in the last samples, in targets, the newest first
	previous float64                // excess of the last sample
}

// New returns a load shedder that goes by the waits in queues.
func New(queues ...Queue) *LoadShedder {
	s := &LoadShedder{queues: make([]sampledQueue, len(queues)), start: time.Now()}
	for i, q := range queues {
		s.queues[i].Queue = q
	}
	return s
}

// Admit reports whether a request may be served. Ask it before anything else is done for the request.
func (s *LoadShedder) Admit(p Priority) bool {
	if s == nil {
		return true
	}
	s.sample()
	refused := s.refusedShare(p)
	return refused == 0 || rand.Float64() >= refused
}

// AdmittedShare returns the share of the requests of a priority that is admitted now, from 0 to 1.
func (s *LoadShedder) AdmittedShare(p Priority) float64 {
	if s == nil {
		return 1
	}
	s.sample() // there may have been no request for long
	return 1 - s.refusedShare(p)
}

// EachWait calls f with each queue's name and a function, to be called at any time, that returns the wait there by the
// last sample.
func (s *LoadShedder) EachWait(f func(name string, wait func() time.Duration)) {
	if s == nil {
		return
	}
	for i := range s.queues {
		f(s.queues[i].Name, func() time.Duration { return time.Duration(s.queues[i].wait.Load()) })
	}
}

func (s *LoadShedder) refusedShare(p Priority) float64 {
	return min(max(math.Float64frombits(s.level.Load())-float64(p), 0), 1)
}

// sample measures the queues and adjusts the level, if it is time to and no other goroutine does.
func (s *LoadShedder) sample() {
	now := time.Since(s.start)
	if int64(now) < s.next.Load() || !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	if passed := now - s.last; passed >= sampleInterval {
		s.last = now
		s.next.Store(int64(now + sampleInterval))
		targets := 0.0
		for i := range s.queues {
			q := &s.queues[i]
			targets = max(targets, q.estimateWait(passed).Seconds()/q.Target.Seconds())
		}
		s.adjustLevel(min(targets, maxTargets), passed)
	}
}

// estimateWait estimates the wait in a queue now: its length by its pace (Little's law). The pace is learned only
// between two samples that both found a long queue. At other times work is done as it comes, which does not show how
// fast it could be done.
func (q *sampledQueue) estimateWait(passed time.Duration) (wait time.Duration) {
	waiting, served := q.Length()
	perSecond := float64(served-q.served) / passed.Seconds()
	isCrowded := waiting >= minWaiting
	switch {
	case isCrowded && q.wasCrowded && q.pace == 0:
		q.pace = perSecond
	case isCrowded && q.wasCrowded:
		q.pace += (perSecond - q.pace) * min(1, passed.Seconds()/paceWindow.Seconds())
	}
	q.wasCrowded, q.served = isCrowded, served
	if isCrowded && q.pace > 0 {
		wait = time.Duration(min(float64(waiting)/q.pace, maxWait.Seconds()) * float64(time.Second))
	}
	q.wait.Store(int64(wait))
	return wait
}

// adjustLevel is the controller. The least of the last waits counts, so that a single stall does not.
func (s *LoadShedder) adjustLevel(targets float64, passed time.Duration) {
	copy(s.recent[1:], s.recent[:])
	s.recent[0] = targets
	steady := slices.Min(s.recent[:])
	excess := max(steady-1, 0)
	grown := excess - s.previous
	s.previous = excess
	level := math.Float64frombits(s.level.Load())
	level += proportional*grown + integral*min(steady-1, maxExcess)*passed.Seconds() // below the target it falls
	if slices.Max(s.recent[:]) == 0 {
		level *= decay
	}
	if passed > forgetAfter {
		level = 0
	}
	s.level.Store(math.Float64bits(min(max(level, 0), float64(priorities))))
}
