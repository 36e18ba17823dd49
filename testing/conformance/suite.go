package conformance

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
)

// A check shows one row.
type check struct {
	id    string
	waits bool // it spends seconds waiting for the server, so that more of them can run at a time
	long  bool // it waits for so long that it has to start before the others
	do    func(*T)
}

// A group is the checks of the rows with one prefix.
type group struct {
	prefix, name string
	checks       []check
}

// A Suite runs the checks against one build of the server, or against the
// requestor's side of a server that runs somewhere. Set its fields before use.
type Suite struct {
	// Binary is the path of the program.
	Binary string
	// API is the URL of a server that runs already, to be tested in place of
	// Binary. Its directory servers are not ours, so all that they would have to see
	// or say is left out.
	API string
	// Key is an API key of that server.
	Key string
	// Card is a card number that is enrolled there.
	Card string
	// Workers is how many checks run at a time.
	Workers int

	mu       sync.Mutex
	shared   *lab
	broken   error
	scripted scriptedPool
}

// Close ends the servers that checks share.
func (s *Suite) Close() {
	s.scripted.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shared != nil {
		s.shared.close()
	}
}

// lab is the server that checks share, which is started for the first of them.
func (s *Suite) lab() (*lab, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.API != "" && s.shared == nil {
		s.shared = remoteLab(s.API, s.Key)
	}
	if s.shared == nil && s.broken == nil {
		s.shared, s.broken = newLab(s.Binary, plan{})
	}
	return s.shared, s.broken
}

// waitingWorkers is how many checks that wait run at a time, beside Workers others.
const waitingWorkers = 16

// Run runs the checks of the rows for which want returns true, several at a time,
// and returns the results in the order of the rows. When ctx ends it starts no
// further check.
func (s *Suite) Run(ctx context.Context, want func(id string) bool) []Result {
	var mu sync.Mutex
	var results []Result
	var workers sync.WaitGroup
	for _, waits := range []bool{true, false} {
		var list []check
		for _, g := range groups {
			for _, c := range g.checks {
				if want(c.id) && c.waits == waits {
					list = append(list, c)
				}
			}
		}
		slices.SortStableFunc(list, func(a, b check) int { return cmp.Compare(rank(a), rank(b)) })
		queue := make(chan check, len(list))
		for _, c := range list {
			queue <- c
		}
		close(queue)
		n := s.Workers
		if waits {
			n = waitingWorkers
		}
		for range n {
			workers.Go(func() {
				for c := range queue {
					if ctx.Err() != nil {
						continue
					}
					got := s.runCheck(c)
					mu.Lock()
					results = append(results, got)
					mu.Unlock()
				}
			})
		}
	}
	workers.Wait()
	slices.SortFunc(results, func(a, b Result) int { return strings.Compare(a.ID, b.ID) })
	return results
}

// rank orders checks: those that take long come first.
func rank(c check) int {
	if c.long {
		return 0
	}
	return 1
}

func (s *Suite) runCheck(c check) Result {
	t := &T{suite: s, start: time.Now()}
	t.recoverPanics(func() { c.do(t) })
	t.runCleanups()
	// A directory server may still note a request that the check did not wait for.
	t.mu.Lock()
	defer t.mu.Unlock()
	return Result{ID: c.id, Judged: t.judged, Faults: slices.Clone(t.faults), Exchanges: slices.Clone(t.exchanges), Took: time.Since(t.start)}
}

// recoverPanics calls do, and takes the panics that end a check. Any other becomes a fault.
func (t *T) recoverPanics(do func()) {
	defer func() {
		switch v := recover().(type) {
		case nil, fatal, outOfReach:
		default:
			t.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	do()
}

// A Result is what came of a check.
type Result struct {
	ID        string
	Judged    int      // answers to the requestor that were judged
	Faults    []string // none: the row is shown
	Exchanges []Exchange
	Took      time.Duration
}

// An Exchange is a message that was sent or came, masked.
type Exchange struct {
	// Leg is from whom to whom it went.
	Leg  string `json:"leg"`
	Text string `json:"text"`
}

// A T is one run of a check.
type T struct {
	suite *Suite
	start time.Time

	mu        sync.Mutex
	faults    []string
	judged    int
	exchanges []Exchange
	cleanups  []func()
}

// fatal is the panic that ends a check.
type fatal struct{}

// outOfReach is the panic that ends a check which needs a directory server of ours,
// while the server under test is remote.
type outOfReach struct{}

// remote reports whether the server under test was running already (API of a [Suite]): we
// have its API and nothing else.
func (t *T) remote() bool { return t.suite != nil && t.suite.API != "" }

// needsLab ends the check if the server is remote.
func (t *T) needsLab() {
	if t.remote() {
		panic(outOfReach{})
	}
}

// Errorf notes a fault of the server.
func (t *T) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults = append(t.faults, mask([]byte(fmt.Sprintf(format, args...))))
}

// Fatalf notes a fault after which the check cannot go on.
func (t *T) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	panic(fatal{})
}

// countJudged counts an answer to the requestor that is judged.
func (t *T) countJudged() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.judged++
}

// note keeps a message for the report.
func (t *T) note(leg string, data []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.exchanges = append(t.exchanges, Exchange{leg, strings.TrimSpace(mask(data))})
}

func (t *T) noteAnswer(leg string, a *answer) {
	t.note(leg, fmt.Appendf(nil, "%d %s", a.status, a.body))
}

// cleanup calls f when the check is over, the function given last first.
func (t *T) cleanup(f func()) { t.cleanups = append(t.cleanups, f) }

func (t *T) runCleanups() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
}

// sharedLab is the lab that checks use at the same time. They must not change how it works.
func (t *T) sharedLab() *lab {
	t.needsLab()
	return t.anyLab()
}

// anyLab is the shared lab, or the remote server.
func (t *T) anyLab() *lab {
	l, err := t.suite.lab()
	if err != nil {
		t.Fatalf("lab: %v", err)
	}
	return l
}

// ownLab starts a server for this check alone.
func (t *T) ownLab(p plan) *lab {
	t.needsLab()
	l, err := newLab(t.suite.Binary, p)
	if err != nil {
		t.Fatalf("lab: %v", err)
	}
	t.cleanup(l.close)
	return l
}

// waitUntil polls until ok returns true, and reports whether it did in time.
func waitUntil(most time.Duration, ok func() bool) bool {
	for deadline := time.Now().Add(most); ; time.Sleep(5 * time.Millisecond) {
		if ok() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}
