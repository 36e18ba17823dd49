package directory

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/internal/ranges"
	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/internal/thrift"
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
	longest    = 24 * time.Hour // without asking

	lookEvery = 5 * time.Second // for what other nodes and operators did

	maxAhead = time.Hour // of another node's clock before ours, and nobody minds

	oldAge  = 6 * time.Hour  // of the ranges in use: worth a warning
	deadAge = 24 * time.Hour // the same: an error
)

// Run keeps the card ranges of every directory fresh until ctx ends: it asks
// when it is time, on one node at a time, and takes over what other nodes have
// loaded. What a client before this one has begun for the same directories goes
// on there. It returns nil when all is quiet.
func (c *Client) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, r := range c.refreshers {
		if r.running.CompareAndSwap(false, true) {
			wg.Go(func() { r.run(ctx) })
		}
	}
	wg.Wait()
	return nil
}

// A refresher keeps the ranges of one directory fresh. Its fields belong to the
// goroutine of run.
type refresher struct {
	*Client
	p        *peer
	standing Standing
	loaded   int64     // number of the generation in use here; 0: none of the store's
	unkept   bool      // what is in use is newer than that, and the store could not keep it
	failed   time.Time // when it could not, the last time
	attempts int       // connections to try with the next PReq
	ask      func(ctx context.Context, attempts int) verdict
	lease    store.Lease   // while it is held
	load     *thrift.Load  // while an answer is read and used
	said     time.Duration // the age that was complained of last
	asked    time.Time     // when the latest PReq left here, or was about to, by no clock that can be set; zero: none did

	news    *news       // of the ranges of the scheme; those before and after have the same
	former  *refresher  // of the same scheme, in the client before; nil: none, or it has ended
	resumed atomic.Bool // Resume has looked, or need not: the former one has
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

// news tells which card ranges of a scheme are in use, until its directory is
// configured no more: a PRes that is still being stored then is news to nobody.
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

// follow waits until the one before has ended, and goes on from there: two at
// once would hold the same lease.
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

// age complains of ranges that are old, once for each limit.
func (r *refresher) age() {
	g := r.cards.Generation(r.p.Scheme)
	if g == nil || g.Loaded.IsZero() {
		return
	}
	switch age := time.Since(g.Loaded); {
	case age < oldAge:
		r.said = 0
	case age >= deadAge && r.said < deadAge:
		r.said = deadAge
		r.log.Error("card ranges are more than a day old", "scheme", r.p.Scheme, "loaded", g.Loaded)
	case r.said == 0:
		r.said = oldAge
		r.log.Warn("card ranges are old", "scheme", r.p.Scheme, "loaded", g.Loaded)
	}
}

// nap is how long there is nothing to do.
func (r *refresher) nap() time.Duration {
	wait := time.Until(r.standing.Next)
	if r.keeper != nil {
		wait = min(wait, lookEvery-rand.N(lookEvery/5)) // not all nodes at once
	}
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
	r.standing.Earliest = r.standing.Next // should the process end, no wish comes before
	if !r.save(ctx) {
		return // what cannot be remembered is not done: the floor holds across restarts
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

// unsure is how long to wait after a PReq of which nothing more is known, for
// the process ended: as after an answer, unless there are no ranges at all.
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

// least is how long the protocol has us wait after a PReq that was answered.
func (r *refresher) least() time.Duration {
	if *r.p.PReqVersion >= message.V231 && r.serial() == "" { // the next one asks for everything again
		return r.p.floor(fullFloor)
	}
	return r.p.floor(hourFloor)
}

// serial is what the next PReq asks for changes since; "": for everything. The
// serial numbers of one version are not those of another (PR-16).
func (r *refresher) serial() string {
	g := r.cards.Generation(r.p.Scheme)
	if g == nil || r.standing.Full || r.p.downloads() || r.p.foreign(g) || g.Version != *r.p.PReqVersion {
		return ""
	}
	return g.Serial
}

// foreign reports whether a generation came from another address than that which is
// configured now. Its serial number means nothing to another directory server, whose
// changes mean nothing to it, and the addresses that it gives are not that one's.
// Its ranges alone are better than none until all have come.
func (p *peer) foreign(g *ranges.Generation) bool {
	return g.From != "" && g.From != p.PReqURL
}

// moved reports whether the directory is configured at another address than the
// latest PReq went to, and this refresher, which the new configuration brought, has
// not asked yet. Then it does so at once: what the protocol has us wait for is
// between two PReqs to one directory server. It does so once, for on other nodes the
// configuration may be the one before.
func (r *refresher) moved(now Standing) bool {
	return r.asked.IsZero() && now.To != "" && now.To != r.p.PReqURL
}

// due reports whether it is time to ask, as things stand.
func (r *refresher) due(now Standing) bool {
	return !time.Now().Before(now.Next) || r.moved(now) || r.astray(now)
}

// astray reports whether the next PReq is to leave later than any pause would have it:
// some node's clock was wrong when it wrote that down. Nobody knows how long ago that
// was. So it leaves at once, but from here not before the floor.
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
		r.log.Error(what, "scheme", r.p.Scheme, "error", err)
	}
}
