package shed_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/edge/shed"
)

// A server is a processor and a disk, each with a queue. A shopper makes three requests, one after the other. Half the
// work of the second request comes later, when a directory server has answered, and is not refused. Each half ends with
// a write. Refusing one request costs a fortieth of all that. A shopper who is not through in two seconds gives up.
type server struct {
	shedder   *shed.LoadShedder // nil means that all requests are admitted
	stalls    bool              // now and then the machine does something else
	directory time.Duration
	disk      disk
	random    *rand.Rand
	queue     []arrival
	later     []arrival
	owed      time.Duration // work that is left of what was taken from the queue
	begun     uint64

	count
}

// A disk takes so long for a commit, and for each write in it.
type disk struct {
	sync, each time.Duration
	waiting    []arrival
	batch      []arrival // the commit on its way
	ends       time.Time
	written    uint64
}

var (
	fast = disk{sync: time.Millisecond, each: 20 * time.Microsecond}
	slow = disk{sync: 5 * time.Millisecond, each: 400 * time.Microsecond} // half of what the processor could serve
)

// count is what came of requests.
type count struct {
	served, refused [3]int
	through         int             // shoppers
	waited          []time.Duration // by those that were refused
}

type arrival struct {
	class shed.Priority
	at    time.Time
	came  time.Time // the shopper
}

const (
	step     = 500 * time.Microsecond
	capacity = 2000.0 // shoppers per second, if none is refused
	refusal  = 12500 * time.Nanosecond
	target   = 10 * time.Millisecond
	patience = 2 * time.Second
	answered = shed.Priority(-1) // the second half of a Proceed
)

var work = map[shed.Priority]time.Duration{
	shed.Low: 50 * time.Microsecond, shed.Middle: 200 * time.Microsecond,
	answered: 200 * time.Microsecond, shed.High: 50 * time.Microsecond,
}

func newServer(d disk) *server {
	s := &server{random: rand.New(rand.NewPCG(1, 2)), directory: 50 * time.Millisecond, disk: d}
	s.shedder = shed.New(s.processor(), shed.Queue{Name: "disk", Target: 5 * target, Length: func() (int, uint64) {
		return len(s.disk.waiting) + len(s.disk.batch), s.disk.written
	}})
	return s
}

func (s *server) processor() shed.Queue {
	return shed.Queue{Name: "processor", Target: target, Length: func() (int, uint64) { return len(s.queue), s.begun }}
}

// run has shoppers come at so many times the capacity and returns what came of it.
func (s *server) run(load float64, d time.Duration) count {
	s.count = count{}
	for range int(d / step) {
		time.Sleep(step)
		now := time.Now()
		for due := load * capacity * step.Seconds(); due > 0; due-- {
			if s.random.Float64() < due {
				s.queue = append(s.queue, arrival{shed.Low, now, now})
			}
		}
		for len(s.later) > 0 && !now.Before(s.later[0].at) {
			s.queue = append(s.queue, s.later[0])
			s.later = s.later[1:]
		}
		for _, a := range s.disk.turn(now) {
			if a.class == shed.Middle {
				s.later = append(s.later, arrival{answered, now.Add(s.directory), a.came})
			} else {
				s.queue = append(s.queue, arrival{shed.High, now, a.came})
			}
		}
		if s.stalls && s.random.IntN(400) == 0 {
			s.owed += time.Duration(20+s.random.IntN(60)) * time.Millisecond
		}
		for s.owed -= step; s.owed < 0 && len(s.queue) > 0; {
			a := s.queue[0]
			s.queue = s.queue[1:]
			s.begun++
			s.owed += s.serve(a)
		}
		s.owed = max(s.owed, 0)
	}
	return s.count
}

// turn returns what is on disk when a commit has ended, and begins the next.
func (d *disk) turn(now time.Time) (done []arrival) {
	if now.Before(d.ends) {
		return nil
	}
	done = d.batch
	d.written += uint64(len(done))
	n := min(len(d.waiting), 512)
	d.batch, d.waiting = d.waiting[:n:n], d.waiting[n:]
	if n > 0 {
		d.ends = now.Add(d.sync + time.Duration(n)*d.each)
	}
	return done
}

// serve returns how long it takes.
func (s *server) serve(a arrival) time.Duration {
	now := time.Now()
	if a.class != answered {
		if !s.shedder.Admit(a.class) {
			s.refused[a.class]++
			s.waited = append(s.waited, now.Sub(a.at))
			return refusal
		}
		s.served[a.class]++
	}
	switch a.class {
	case shed.Low:
		s.queue = append(s.queue, arrival{shed.Middle, now, a.came})
	case shed.Middle, answered:
		s.disk.waiting = append(s.disk.waiting, a)
	case shed.High:
		if now.Sub(a.came) <= patience {
			s.through++
		}
	}
	return work[a.class]
}

func p99(took []time.Duration) time.Duration {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// TestGoodputUnderLoad: whatever the load, nearly as many shoppers get through as the capacity left by the refusals
// allows. A shopper who has begun is hardly ever refused. A refusal is quick. Soon after the load has gone, the queues
// are empty.
func TestGoodputUnderLoad(t *testing.T) {
	for _, stalls := range []bool{false, true} {
		for _, load := range []float64{0.5, 0.9, 1.2, 2, 5, 10} {
			t.Run(fmt.Sprintf("%.1f stalls=%t", load, stalls), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newServer(fast)
					s.stalls = stalls
					s.run(0.5, time.Second)
					onset := s.run(load, time.Second)
					got := s.run(load, 5*time.Second)
					s.run(0.5, time.Second)
					after := s.run(0.5, time.Second)
					t.Logf("onset %v %v %v, then %v %v %v, queue %d", onset.served, onset.refused, p99(onset.waited),
						got.served, got.refused, p99(got.waited), len(s.queue))
					cost := float64(len(got.waited)) / 5 * refusal.Seconds()
					could := min(load, 1-cost) * capacity * 5
					if stalls {
						could *= 0.6 // a quarter, and what it brings out of step
					}
					if through := float64(got.through); through < 0.9*could {
						t.Errorf("%.0f got through, %.0f could have", through, could)
					}
					if lost := got.refused[shed.Middle] + got.refused[shed.High]; lost > got.served[shed.Middle]/5 || !stalls && lost > got.served[shed.Middle]/12 {
						t.Errorf("%d of %d were refused when they had begun", lost, got.served[shed.Middle])
					}
					if stalls {
						return // nothing is quick then
					}
					if load < 1 && len(got.waited) > 0 {
						t.Errorf("%d were refused at a load of %.1f", len(got.waited), load)
					}
					if w := max(p99(onset.waited), p99(got.waited)); load <= 5 && w > 50*time.Millisecond {
						t.Errorf("p99 of a refusal: %v", w)
					}
					if len(after.waited) > 0 || len(s.queue) > 5 {
						t.Errorf("a second after: %d refused, %d wait", len(after.waited), len(s.queue))
					}
				})
			})
		}
	}
}

// TestGoodputWithSlowDisk: the same if the disk is the bottleneck. It is half as fast as the processor, so at most
// 1,250 shoppers a second are served.
func TestGoodputWithSlowDisk(t *testing.T) {
	const most = 1250.0
	for _, directory := range []time.Duration{50 * time.Millisecond, time.Second} {
		for _, load := range []float64{0.3, 0.7, 1, 2, 5} {
			t.Run(fmt.Sprintf("%.1f directory=%v", load, directory), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newServer(slow)
					s.directory = directory
					s.run(0.3, 2*time.Second)
					onset := s.run(load, 3*time.Second)
					got := s.run(load, 5*time.Second)
					s.run(0.3, 2*time.Second)
					after := s.run(0.3, time.Second)
					t.Logf("onset %v %v, then %v %v %v, %d through, %d wait", onset.served, onset.refused,
						got.served, got.refused, p99(got.waited), got.through, len(s.disk.waiting))
					could := min(load*capacity, most) * 5
					if directory > 100*time.Millisecond {
						could *= 0.9 // half of what is let in is seen a second later
					}
					if through := float64(got.through); through < 0.8*could {
						t.Errorf("%.0f got through, %.0f could have", through, could)
					}
					if lost := got.refused[shed.Middle] + got.refused[shed.High]; lost > got.served[shed.Middle]/30 {
						t.Errorf("%d of %d were refused when they had begun", lost, got.served[shed.Middle])
					}
					if load < 0.5 && len(got.waited) > 0 {
						t.Errorf("%d were refused at a load of %.1f", len(got.waited), load)
					}
					if len(after.waited) > 0 || len(s.disk.waiting) > 64 {
						t.Errorf("a while after: %d refused, %d wait", len(after.waited), len(s.disk.waiting))
					}
				})
			})
		}
	}
}

// TestWithoutLoadShedder: the server of TestGoodputUnderLoad drowns if no request is refused, and that of
// TestGoodputWithSlowDisk if the load shedder does not see the disk.
func TestWithoutLoadShedder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(fast)
		s.shedder = nil
		s.run(5, 2*time.Second)
		if got := s.run(5, 3*time.Second); got.through > int(capacity) || len(s.queue) < int(capacity) {
			t.Errorf("%d through, %d wait: TestGoodputUnderLoad proves nothing", got.through, len(s.queue))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := newServer(slow)
		s.shedder = shed.New(s.processor())
		s.run(2, 3*time.Second)
		if got := s.run(2, 3*time.Second); got.through > int(capacity)/2 || len(s.disk.waiting) < int(capacity) {
			t.Errorf("%d through, %d wait: TestGoodputWithSlowDisk proves nothing", got.through, len(s.disk.waiting))
		}
	})
}

// queue is a queue that reports to a load shedder what a test sets.
type queue struct{ waiting, perSecond float64 }

// queueOf returns the queue that shows now to a load shedder.
func queueOf(now *queue) shed.Queue {
	served, last := 0.0, time.Now()
	return shed.Queue{Target: target, Length: func() (int, uint64) {
		served += now.perSecond * time.Since(last).Seconds()
		last = time.Now()
		return int(now.waiting), uint64(served + 0.5)
	}}
}

// sharesAfter returns the shares that a load shedder admits after each of a series of samples, which come first from
// one of two queues, then from the other.
func sharesAfter(t *testing.T, c shed.Priority, looks ...queue) (shares []float64) {
	for i := range 2 {
		var got []float64
		synctest.Test(t, func(t *testing.T) {
			var now [2]queue
			g := shed.New(queueOf(&now[0]), queueOf(&now[1]))
			for _, now[i] = range looks {
				time.Sleep(target)
				got = append(got, g.AdmittedShare(c))
			}
		})
		if i > 0 && !slices.Equal(got, shares) {
			t.Errorf("the second queue: %.2f, the first: %.2f", got, shares)
		}
		shares = got
	}
	return shares
}

// TestWhenPrioritiesAreRefused: to refuse, it takes three samples in a row once the pace is known, 64 requests that
// wait, and a wait above the target. The lower priority is refused first, and all of it.
func TestWhenPrioritiesAreRefused(t *testing.T) {
	repeat := func(n int, q queue) []queue { return slices.Repeat([]queue{q}, n) }
	full := queue{100, 1000}
	for _, tt := range []struct {
		name    string
		class   shed.Priority
		looks   []queue
		refuses bool
	}{
		{"one look", shed.Low, repeat(1, full), false},
		{"two looks", shed.Low, repeat(2, full), false},
		{"three looks", shed.Low, repeat(3, full), false},
		{"four looks", shed.Low, repeat(4, full), true},
		{"three looks, the pace is known", shed.Low, slices.Concat(repeat(2, full), repeat(1, queue{0, 1000}), repeat(3, full)), true},
		{"after a standstill", shed.Low, slices.Concat(repeat(3, queue{0, 5}), repeat(1, queue{500, 5}), repeat(4, queue{100, 20000})), false},
		{"two, none, two", shed.Low, slices.Concat(repeat(2, full), repeat(1, queue{0, 1000}), repeat(2, full)), false},
		{"63 wait", shed.Low, repeat(50, queue{63, 1000}), false},
		{"64 wait", shed.Low, repeat(50, queue{64, 1000}), true},
		{"65 wait", shed.Low, repeat(50, queue{65, 1000}), true},
		{"64 for less than the target", shed.Low, repeat(50, queue{64, 8000}), false},
		{"79 for less than the target", shed.Low, repeat(50, queue{79, 8000}), false},
		{"88 for more than the target", shed.Low, repeat(50, queue{88, 8000}), true},
		{"the next class, for a moment", shed.Middle, repeat(3, queue{70, 4000}), false},
		{"the next class, for long", shed.Middle, repeat(200, full), true},
		{"the last class, for a moment", shed.High, repeat(20, full), false},
		{"the last class, for long", shed.High, repeat(400, full), true},
		{"no pace is known", shed.Low, repeat(100, queue{0, 0}), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shares := sharesAfter(t, tt.class, tt.looks...)
			if got := slices.Min(shares) < 1; got != tt.refuses {
				t.Errorf("admitted %.2f; refuses: %t, want %t", shares, got, tt.refuses)
			}
		})
	}
}

// TestOverloadIsForgotten: an overload long ago no longer counts, and the level falls quickly when nothing waits.
func TestOverloadIsForgotten(t *testing.T) {
	overload := slices.Repeat([]queue{{100, 1000}}, 400)
	shares := sharesAfter(t, shed.Low, append(overload, slices.Repeat([]queue{{0, 1000}}, 50)...)...)
	if before, after := shares[399], shares[449]; before != 0 || after < 0.99 {
		t.Errorf("admitted %.2f in overload, %.2f half a second later, want 0 and 1", before, after)
	}
	synctest.Test(t, func(t *testing.T) {
		g := shed.New(queueOf(&queue{100, 1000}))
		for range 400 {
			time.Sleep(target)
			g.Admit(shed.Low)
		}
		if g.Admit(shed.High) {
			t.Fatal("admitted in overload")
		}
		time.Sleep(2 * time.Second)
		if !g.Admit(shed.Low) {
			t.Error("refused though nobody came for two seconds")
		}
	})
}

func TestNilLoadShedderAdmitsAll(t *testing.T) {
	var g *shed.LoadShedder
	if !g.Admit(shed.Low) || g.AdmittedShare(shed.Low) != 1 {
		t.Error("a nil load shedder refuses")
	}
	g.EachWait(func(string, func() time.Duration) { t.Error("a nil load shedder has a queue") })
}

// TestProcessorReportsWaitingGoroutines: the runtime reports how many goroutines wait for a processor.
func TestProcessorReportsWaitingGoroutines(t *testing.T) {
	g := shed.New(shed.Processor(time.Hour))
	var wait func() time.Duration
	g.EachWait(func(_ string, w func() time.Duration) { wait = w })
	stop := make(chan struct{})
	defer close(stop)
	for range 200 {
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
					runtime.Gosched() // one that keeps it would have this test wait for seconds
				}
			}
		}()
	}
	waittest.Until(t, "one of 200 goroutines that want a processor to be seen", func() bool {
		g.Admit(shed.Low)
		return wait() != 0
	})
}
