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

// A verdict is what came of a PReq; it decides when the next one may go.
type verdict uint8

const (
	unreachable verdict = iota // no answer at all
	refused                    // an answer that brought no ranges: an Erro, or a PRes that is not valid
	fresh                      // the ranges are those of the directory server
)

const (
	retryEvery = time.Minute    // while there is no answer (Req 249)
	hourFloor  = time.Hour      // between PReqs that are answered (Req 246)
	fullFloor  = 12 * time.Hour // between full loads of 2.3.1
	longest    = 24 * time.Hour // from one PReq to the next

	lookEvery = 5 * time.Second // at the store, for what other nodes and operators did

	maxAhead = time.Hour // that another node's clock may be ahead of ours, see astray
)

// How old the ranges in use may be.
const (
	OldAge  = 6 * time.Hour  // from here on it is worth a warning
	DeadAge = 24 * time.Hour // from here on it is an error
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
	p        *peer
	standing Standing
	loaded   int64         // number of the stored generation in use here; 0: none
	unkept   bool          // what is in use is newer than that, and could not be stored
	failed   time.Time     // when storing it was last tried
	silent   bool          // the latest PReq had no answer that could be read
	attempts int           // how often the next PReq may be tried
	lease    store.Lease   // while it is held
	said     time.Duration // the age that was logged last: 0, OldAge or DeadAge
	asked    time.Time     // when the latest PReq left this process, with a monotonic reading; zero: none did

	ask func(ctx context.Context, attempts int) verdict // exchange, but in tests

	news    *news       // shared with the refreshers of the scheme before and after
	former  *refresher  // of the same scheme, in the client before; nil: none, or it has ended
	resumed atomic.Bool // Resume has looked at the store, or need not, since there is a former one
	running atomic.Bool
	quit    chan struct{} // closed by end
	done    chan struct{} // closed when run has returned
	ended   sync.Once
}

func newRefresher(c *Client, p *peer) *refresher {
	r := &refresher{Client: c, p: p, attempts: 2, news: new(news), quit: make(chan struct{}), done: make(chan struct{})}
	r.ask = r.exchange
	return r
}

// news guards the hooks Refreshed and Held of a scheme. After end, when the directory has been
// removed from the configuration, a PRes that is still being stored is not told any more.
type news struct {
	mu   sync.Mutex
	over bool
}

func (n *news) tell(what func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.over {
		what()
	}
}

func (n *news) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.over = true
}

// end has run return soon. A PReq under way is given up; when the next one may
// go was written down before it left.
func (r *refresher) end() { r.ended.Do(func() { close(r.quit) }) }

// follow waits until the former refresher has ended, and continues from its state: two
// at once would hold the same lease.
func (r *refresher) follow(ctx context.Context) {
	if r.former == nil || !r.former.running.Load() {
		return
	}
	select {
	case <-r.former.done:
		r.loaded, r.unkept = r.former.loaded, r.former.unkept
	case <-ctx.Done():
	}
	r.former = nil
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
	r.follow(ctx)
	r.look(ctx)
	for ctx.Err() == nil {
		if r.due(r.standing) {
			r.turn(ctx)
		}
		r.age()
		timer := time.NewTimer(r.nap())
		select {
		case <-ctx.Done():
			timer.Stop()
		case <-timer.C:
			r.look(ctx)
		}
	}
}

// age logs that the ranges in use are old, once for each limit.
func (r *refresher) age() {
	g := r.cards.Generation(r.p.Scheme)
	if g == nil || g.Loaded.IsZero() {
		return
	}
	switch age := time.Since(g.Loaded); {
	case age < OldAge:
		r.said = 0
	case age >= DeadAge && r.said < DeadAge:
		r.said = DeadAge
		r.log.Error("card ranges are more than a day old", "scheme", r.p.Scheme, "loaded", g.Loaded)
	case r.said == 0:
		r.said = OldAge
		r.log.Warn("card ranges are old", "scheme", r.p.Scheme, "loaded", g.Loaded)
	}
}

// nap is how long to sleep until there may be something to do.
func (r *refresher) nap() time.Duration {
	wait := min(time.Until(r.standing.Next), lookEvery-rand.N(lookEvery/5)) // not all nodes at once
	return max(wait, 10*time.Millisecond)
}

// turn asks the directory server, if no other node does.
func (r *refresher) turn(ctx context.Context) {
	if !r.hold(ctx) {
		return
	}
	defer r.release(ctx)
	defer r.renew(ctx)()
	r.standing.Asked, r.standing.To = time.Now().UTC(), r.p.PReqURL
	r.standing.Next = r.standing.Asked.Add(r.unsure())
	r.standing.Earliest = r.standing.Next // so that no operator's wish overrides it if the process ends now
	if !r.save(ctx) {
		return // a PReq that is not on record must not leave: the floor holds across restarts
	}
	r.asked = time.Now()
	v := r.ask(ctx, r.attempts)
	if ctx.Err() != nil {
		return
	}
	r.attempts = 2
	if v == unreachable {
		r.attempts = 1
	}
	now := time.Now().UTC()
	r.standing.Next = now.Add(r.pause(v))
	r.standing.Earliest = now
	if v != unreachable {
		r.standing.Earliest = now.Add(r.least())
	}
	r.save(ctx)
}

// unsure is how long to wait after a PReq if the process ends before its outcome is
// stored: as after an answer, but shorter if there are no ranges at all.
func (r *refresher) unsure() time.Duration {
	if r.cards.Generation(r.p.Scheme) == nil {
		return min(retryEvery, r.p.floor(hourFloor))
	}
	return r.p.floor(hourFloor)
}

// pause returns how long to wait after a PReq.
func (r *refresher) pause(v verdict) time.Duration {
	p := r.p
	switch v {
	case unreachable:
		return retryEvery
	case refused:
		return p.floor(hourFloor)
	}
	tenth := float64(p.Refresh) / 10
	return max(r.least(), min(p.Refresh+time.Duration(tenth*(2*rand.Float64()-1)), longest))
}

// least is the shortest time that the protocol allows between a PReq that was answered
// and the next.
func (r *refresher) least() time.Duration {
	if r.p.preqVersion() >= message.V231 && r.serial() == "" { // the next one asks for everything again
		return r.p.floor(fullFloor)
	}
	return r.p.floor(hourFloor)
}

// serial is the serialNum of the next PReq, since which it asks for changes; "" asks for
// everything. A serial number means nothing in another protocol version (PR-16).
func (r *refresher) serial() string {
	g := r.cards.Generation(r.p.Scheme)
	if g == nil || r.standing.Full || r.p.downloads() || r.p.foreign(g) || g.Version != r.p.preqVersion() {
		return ""
	}
	return g.Serial
}

// foreign reports whether a generation came from another address than the configured
// PReqURL, which is to say from another directory server. Then its serial number must not
// be sent, updates must not be applied to it, and its AReq addresses must not be used.
// Only its ranges are, until the new directory server has sent its own.
func (p *peer) foreign(g *ranges.Generation) bool {
	return g.From != "" && g.From != p.PReqURL
}

// moved reports whether the latest PReq went to another address than the configured
// one, and this refresher has not asked yet. Then a PReq is due at once, for the floors
// are between two PReqs to one directory server. It is only due once per refresher: as
// long as nodes differ in their configuration each would always find the other's address.
func (r *refresher) moved(now Standing) bool {
	return r.asked.IsZero() && now.To != "" && now.To != r.p.PReqURL
}

// due reports whether it is time for a PReq.
func (r *refresher) due(now Standing) bool {
	return !time.Now().Before(now.Next) || r.moved(now) || r.astray(now)
}

// astray reports whether Next is further away than any pause is long: the clock of the
// node that wrote it was wrong. Since nobody knows when that was, a PReq is due at once,
// but not before the floor after one that left this process.
func (r *refresher) astray(now Standing) bool {
	return time.Until(now.Next) > max(longest, r.p.floor(fullFloor))+maxAhead &&
		(r.asked.IsZero() || time.Since(r.asked) >= r.p.floor(hourFloor))
}

// floor is the protocol's, unless the operator set another.
func (p *peer) floor(protocol time.Duration) time.Duration {
	if p.MinRefresh > 0 {
		return p.MinRefresh
	}
	return protocol
}

// complain logs trouble with the store.
func (r *refresher) complain(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		r.log.Error(what, "scheme", r.p.Scheme, "err", err)
	}
}
