package directory

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/internal/ranges"
	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/message"
)

// A outcome is what came of a PReq; it decides when the next one may go.
type outcome uint8

const (
	unreachable outcome = iota // no answer at all
	refused                    // an answer that brought no ranges: an Erro, or a PRes that is not valid
	fresh                      // the ranges are those of the directory server
)

const (
	retryInterval   = time.Minute    // while there is no answer (Req 249)
	minPReqInterval = time.Hour      // between PReqs that are answered (Req 246)
	minFullInterval = 12 * time.Hour // between full loads of 2.3.1
	maxInterval     = 24 * time.Hour // from one PReq to the next

	pollInterval = 5 * time.Second // at the store, for what other nodes and operators did

	maxClockAhead = time.Hour // that another node's clock may be ahead of ours, see astray
)

// How old the ranges in use may be.
const (
	WarnAge  = 6 * time.Hour  // from here on it is worth a warning
	ErrorAge = 24 * time.Hour // from here on it is an error
)

// Run keeps the card ranges of every directory fresh until ctx ends: it sends PReqs
// when they are due, if no other node does, and takes over what other nodes have
// loaded. Peers that this client has from the one before (see Next) are refreshed by
// the Run of that one. It returns after all its goroutines have ended.
func (c *Client) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, r := range c.refreshers {
		if r.running.CompareAndSwap(false, true) {
			wg.Go(func() { r.run(ctx) })
		}
	}
	wg.Wait()
}

// A refresher keeps the ranges of one directory fresh. Its fields belong to the
// goroutine of run; until there is one, to Resume.
type refresher struct {
	*Client
	peer             *peer
	status           RefreshStatus
	storedGeneration int64         // number of the stored generation in use here; 0: none
	notStored        bool          // what is in use is newer than that, and could not be stored
	storeTried       time.Time     // when storing it was last tried
	failureLogged    bool          // the latest PReq had no answer that could be read
	attempts         int           // how often the next PReq may be tried
	lease            store.Lease   // while it is held
	loggedAge        time.Duration // the age that was logged last: 0, OldAge or DeadAge
	lastPReq         time.Time     // when the latest PReq left this process, with a monotonic reading; zero: none did

	exchange func(ctx context.Context, attempts int) outcome // exchange, but in tests

	notifier    *notifier   // shared with the refreshers of the scheme before and after
	predecessor *refresher  // of the same scheme, in the client before; nil: none, or it has ended
	resumed     atomic.Bool // Resume has looked at the store, or need not, since there is a former one
	running     atomic.Bool
	quit        chan struct{} // closed by end
	done        chan struct{} // closed when run has returned
	stopOnce    sync.Once
}

func newRefresher(c *Client, p *peer) *refresher {
	r := &refresher{Client: c, peer: p, attempts: 2, notifier: new(notifier), quit: make(chan struct{}), done: make(chan struct{})}
	r.exchange = r.exchangePReq
	return r
}

// notifier guards the hooks Refreshed and Held of a scheme. After end, when the directory has been
// removed from the configuration, a PRes that is still being stored is not told any more.
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

// stop has run return soon. A PReq under way is given up; when the next one may
// go was written down before it left.
func (r *refresher) stop() { r.stopOnce.Do(func() { close(r.quit) }) }

// awaitPredecessor waits until the former refresher has ended, and continues from its state: two
// at once would hold the same lease.
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
		timer := time.NewTimer(r.untilNextPoll())
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
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

// untilNextPoll is how long to sleep until there may be something to do.
func (r *refresher) untilNextPoll() time.Duration {
	wait := min(time.Until(r.status.Next), pollInterval-rand.N(pollInterval/5)) // not all nodes at once
	return max(wait, 10*time.Millisecond)
}

// refresh asks the directory server, if no other node does.
func (r *refresher) refresh(ctx context.Context) {
	if !r.acquireForPReq(ctx) {
		return
	}
	defer r.releaseLease(ctx)
	defer r.keepLease(ctx)()
	r.status.Asked, r.status.To = time.Now().UTC(), r.peer.PReqURL
	r.status.Next = r.status.Asked.Add(r.pauseIfInterrupted())
	r.status.Earliest = r.status.Next // so that no operator's wish overrides it if the process ends now
	if !r.saveStatus(ctx) {
		return // a PReq that is not on record must not leave: the floor holds across restarts
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

// pauseIfInterrupted is how long to wait after a PReq if the process ends before its outcome is
// stored: as after an answer, but shorter if there are no ranges at all.
func (r *refresher) pauseIfInterrupted() time.Duration {
	if r.cards.Generation(r.peer.Scheme) == nil {
		return min(retryInterval, r.peer.intervalOr(minPReqInterval))
	}
	return r.peer.intervalOr(minPReqInterval)
}

// pauseAfter returns how long to wait after a PReq.
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

// minPause is the shortest time that the protocol allows between a PReq that was answered
// and the next.
func (r *refresher) minPause() time.Duration {
	if r.peer.preqVersion() >= message.V231 && r.nextSerial() == "" { // the next one asks for everything again
		return r.peer.intervalOr(minFullInterval)
	}
	return r.peer.intervalOr(minPReqInterval)
}

// nextSerial is the serialNum of the next PReq, since which it asks for changes; "" asks for
// everything. A serial number means nothing in another protocol version (PR-16).
func (r *refresher) nextSerial() string {
	g := r.cards.Generation(r.peer.Scheme)
	if g == nil || r.status.Full || r.peer.downloadsFiles() || r.peer.isForeign(g) || g.Version != r.peer.preqVersion() {
		return ""
	}
	return g.Serial
}

// isForeign reports whether a generation came from another address than the configured
// PReqURL, which is to say from another directory server. Then its serial number must not
// be sent, updates must not be applied to it, and its AReq addresses must not be used.
// Only its ranges are, until the new directory server has sent its own.
func (p *peer) isForeign(g *ranges.Generation) bool {
	return g.From != "" && g.From != p.PReqURL
}

// hasMoved reports whether the latest PReq went to another address than the configured
// one, and this refresher has not asked yet. Then a PReq is due at once, for the floors
// are between two PReqs to one directory server. It is only due once per refresher: as
// long as nodes differ in their configuration each would always find the other's address.
func (r *refresher) hasMoved(now RefreshStatus) bool {
	return r.lastPReq.IsZero() && now.To != "" && now.To != r.peer.PReqURL
}

// isDue reports whether it is time for a PReq.
func (r *refresher) isDue(now RefreshStatus) bool {
	return !time.Now().Before(now.Next) || r.hasMoved(now) || r.isMisdated(now)
}

// isMisdated reports whether Next is further away than any pause is long: the clock of the
// node that wrote it was wrong. Since nobody knows when that was, a PReq is due at once,
// but not before the floor after one that left this process.
func (r *refresher) isMisdated(now RefreshStatus) bool {
	return time.Until(now.Next) > max(maxInterval, r.peer.intervalOr(minFullInterval))+maxClockAhead &&
		(r.lastPReq.IsZero() || time.Since(r.lastPReq) >= r.peer.intervalOr(minPReqInterval))
}

// intervalOr is the protocol's, unless the operator set another.
func (p *peer) intervalOr(protocol time.Duration) time.Duration {
	if p.MinRefresh > 0 {
		return p.MinRefresh
	}
	return protocol
}

// logStoreError logs trouble with the store.
func (r *refresher) logStoreError(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		r.log.Error(what, "scheme", r.peer.Scheme, "err", err)
	}
}
