package directory

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/internal/base/tasks"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/message"
)

// An outcome is the result of a PReq. It decides when the next one may leave.
type outcome uint8

const (
	unreachable outcome = iota // there was no answer
	refused                    // an answer that brought no ranges: an Erro, or a PRes that is not valid
	fresh                      // the ranges are those of the directory server
)

const (
	retryInterval   = time.Minute    // between PReqs while there is no answer (Req 249)
	minPReqInterval = time.Hour      // from an answer to the next PReq, at least (Req 246)
	minFullInterval = 12 * time.Hour // from a full load of 2.3.1 to the next PReq, at least
	maxInterval     = 24 * time.Hour // from one PReq to the next, at most

	pollInterval = 5 * time.Second // between reads of the store, for changes by other nodes and operators

	maxClockAhead = time.Hour // how far another node's clock may be ahead of ours, see isMisdated
)

// Ages of the ranges in use.
const (
	WarnAge  = 6 * time.Hour  // from here on they are worth a warning
	ErrorAge = 24 * time.Hour // from here on they are an error
)

// Severity says how bad it is that card ranges have an age: "", "warning" or "error".
func Severity(age time.Duration) string {
	switch {
	case age >= ErrorAge:
		return "error"
	case age >= WarnAge:
		return "warning"
	}
	return ""
}

// Run keeps the card ranges of every directory server fresh until ctx ends. It sends PReqs when they are due, unless
// another node does, and loads what other nodes have stored. Peers shared with the client before this one (see Next)
// are refreshed by the Run of that client. Run returns after all its goroutines have ended.
func (c *Client) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, r := range c.refreshers {
		if r.running.CompareAndSwap(false, true) {
			wg.Go(func() { r.run(ctx) })
		}
	}
	wg.Wait()
}

// A refresher keeps the card ranges of one directory server fresh. Its fields belong to the goroutine of run, and
// before that to Resume.
type refresher struct {
	*Client
	peer             *peer
	status           RefreshStatus
	storedGeneration int64         // number of the generation in use, or 0 if none is stored
	notStored        bool          // the generation in use is a newer one that could not be stored
	storeTried       time.Time     // time of the last attempt to store it
	failureLogged    bool          // the latest PReq had no readable answer, and that was logged
	attempts         int           // attempts for the next PReq
	lease            store.Lease   // the scheme's lease while it is held
	loggedAge        time.Duration // the age that was logged last: 0, WarnAge or ErrorAge
	lastPReq         time.Time     // when the latest PReq left this process, with a monotonic reading; zero if none did

	exchange func(ctx context.Context, attempts int) outcome // exchangePReq, except in tests

	notifier    *notifier   // shared with the refreshers of the scheme before and after this one
	predecessor *refresher  // of the same scheme in the client before; nil if there is none or it has ended
	resumed     atomic.Bool // Resume has polled the store, or need not because of the predecessor
	running     atomic.Bool
	quit        chan struct{} // closed by stop
	done        chan struct{} // closed when run has returned
	stopOnce    sync.Once
}

func newRefresher(c *Client, p *peer) *refresher {
	r := &refresher{
		Client: c, peer: p, attempts: 2, notifier: new(notifier), quit: make(chan struct{}), done: make(chan struct{}),
	}
	r.exchange = r.exchangePReq
	return r
}

// notifier calls the hooks Refreshed and Held of a scheme until it is stopped. That happens when the directory server
// has been removed from the configuration: a PRes that is still being stored must not show up in the metrics again.
type notifier struct {
	mu      sync.Mutex
	stopped bool
}

func (n *notifier) notify(what func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.stopped {
		what()
	}
}

func (n *notifier) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped = true
}

// stop makes run return soon. A PReq under way is abandoned. The time of the next one was stored before it left.
func (r *refresher) stop() { r.stopOnce.Do(func() { close(r.quit) }) }

// awaitPredecessor waits until the previous refresher has ended, and continues from its state. Two at the same time
// would hold the same lease.
func (r *refresher) awaitPredecessor(ctx context.Context) {
	if r.predecessor == nil || !r.predecessor.running.Load() {
		return
	}
	select {
	case <-r.predecessor.done:
		r.storedGeneration, r.notStored = r.predecessor.storedGeneration, r.predecessor.notStored
	case <-ctx.Done():
	}
	r.predecessor = nil
}

func (r *refresher) run(ctx context.Context) {
	defer close(r.done)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-r.quit:
			cancel()
		case <-ctx.Done():
		}
	}()
	r.awaitPredecessor(ctx)
	r.pollStore(ctx)
	for ctx.Err() == nil {
		if r.isDue(r.status) {
			r.refresh(ctx)
		}
		r.logAge()
		if tasks.Sleep(ctx, r.untilNextPoll()) {
			r.pollStore(ctx)
		}
	}
}

// logAge logs that the ranges in use are old, once for each limit.
func (r *refresher) logAge() {
	g := r.cards.Generation(r.peer.Scheme)
	if g == nil || g.Loaded.IsZero() {
		return
	}
	switch age := time.Since(g.Loaded); {
	case age < WarnAge:
		r.loggedAge = 0
	case age >= ErrorAge && r.loggedAge < ErrorAge:
		r.loggedAge = ErrorAge
		r.log.Error("card ranges are more than a day old", "scheme", r.peer.Scheme, "loaded", g.Loaded)
	case r.loggedAge == 0:
		r.loggedAge = WarnAge
		r.log.Warn("card ranges are old", "scheme", r.peer.Scheme, "loaded", g.Loaded)
	}
}

// untilNextPoll returns how long to sleep until the next poll of the store or the next PReq.
func (r *refresher) untilNextPoll() time.Duration {
	// varies, so that nodes do not poll in step
	wait := min(time.Until(r.status.Next), pollInterval-rand.N(pollInterval/5))
	return max(wait, shortestSleep)
}

// shortestSleep is how long a refresher sleeps at least, so that a PReq may leave that much later.
const shortestSleep = 10 * time.Millisecond

// refresh sends a PReq unless another node does.
func (r *refresher) refresh(ctx context.Context) {
	if !r.acquireForPReq(ctx) {
		return
	}
	defer r.releaseLease(ctx)
	defer r.keepLease(ctx)()
	r.status.Asked, r.status.To = time.Now().UTC(), r.peer.PReqURL
	r.status.Next = r.status.Asked.Add(r.pauseIfInterrupted())
	r.status.Earliest = r.status.Next // an operator's request must not override it if the process ends now
	if !r.saveStatus(ctx) {
		return // a PReq that is not stored must not leave: the least interval holds across restarts
	}
	r.lastPReq = time.Now()
	v := r.exchange(ctx, r.attempts)
	if ctx.Err() != nil {
		return
	}
	r.attempts = 2
	if v == unreachable {
		r.attempts = 1
	}
	now := time.Now().UTC()
	r.status.Next = now.Add(r.pauseAfter(v))
	r.status.Earliest = now
	if v != unreachable {
		r.status.Earliest = now.Add(r.minPause())
	}
	r.saveStatus(ctx)
}

// pauseIfInterrupted returns the pause after a PReq whose outcome is not stored because the process ends. It is that
// after an answer, but shorter if there are no ranges at all.
func (r *refresher) pauseIfInterrupted() time.Duration {
	if r.cards.Generation(r.peer.Scheme) == nil {
		return min(retryInterval, r.peer.intervalOr(minPReqInterval))
	}
	return r.peer.intervalOr(minPReqInterval)
}

// pauseAfter returns the time from a PReq to the next.
func (r *refresher) pauseAfter(v outcome) time.Duration {
	p := r.peer
	switch v {
	case unreachable:
		return retryInterval
	case refused:
		return p.intervalOr(minPReqInterval)
	}
	tenth := float64(p.Refresh) / 10
	return max(r.minPause(), min(p.Refresh+time.Duration(tenth*(2*rand.Float64()-1)), maxInterval))
}

// minPause returns the least time that the protocol allows from an answered PReq to the next.
func (r *refresher) minPause() time.Duration {
	if r.peer.preqVersion() >= message.V231 && r.nextSerial() == "" { // the next one asks for everything again
		return r.peer.intervalOr(minFullInterval)
	}
	return r.peer.intervalOr(minPReqInterval)
}

// nextSerial returns the serialNum of the next PReq, which then asks for changes since it. "" asks for all ranges. A
// serial number means nothing in another protocol version (docs/conformance.md, PR-16).
func (r *refresher) nextSerial() string {
	g := r.cards.Generation(r.peer.Scheme)
	if g == nil || r.status.Full || r.peer.downloadsFiles() || r.peer.isForeign(g) || g.Version != r.peer.preqVersion() {
		return ""
	}
	return g.Serial
}

// isForeign reports whether a generation came from another address than the configured PReqURL, that is from another
// directory server. Then its serial number must not be sent, updates must not be applied to it, and its AReq addresses
// must not be used. Its ranges are used until the new directory server has sent its own.
func (p *peer) isForeign(g *ranges.Generation) bool {
	return g.From != "" && g.From != p.PReqURL
}

// hasMoved reports whether the latest PReq went to another address than the configured one, and this refresher has not
// sent one yet. Then a PReq is due immediately, since the least intervals are between PReqs to the same directory
// server. It is due only once per refresher: while nodes differ in their configuration, each would always find the
// other's address.
func (r *refresher) hasMoved(now RefreshStatus) bool {
	return r.lastPReq.IsZero() && now.To != "" && now.To != r.peer.PReqURL
}

// isDue reports whether a PReq is due.
func (r *refresher) isDue(now RefreshStatus) bool {
	return !time.Now().Before(now.Next) || r.hasMoved(now) || r.isMisdated(now)
}

// isMisdated reports whether Next is further away than the longest pause: then the clock of the node that wrote it was
// wrong. When that was is unknown, so a PReq is due immediately, but not before the least interval after the latest
// PReq of this process.
func (r *refresher) isMisdated(now RefreshStatus) bool {
	return time.Until(now.Next) > max(maxInterval, r.peer.intervalOr(minFullInterval))+maxClockAhead &&
		(r.lastPReq.IsZero() || time.Since(r.lastPReq) >= r.peer.intervalOr(minPReqInterval))
}

// intervalOr returns the configured MinRefresh, or the interval of the protocol if there is none.
func (p *peer) intervalOr(protocol time.Duration) time.Duration {
	if p.MinRefresh > 0 {
		return p.MinRefresh
	}
	return protocol
}

// logStoreError logs a failure of the store, unless ctx has ended.
func (r *refresher) logStoreError(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		r.log.Error(what, "scheme", r.peer.Scheme, "err", err)
	}
}
