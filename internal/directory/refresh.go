package directory

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
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
	longest    = 24 * time.Hour // without asking

	lookEvery = 5 * time.Second // for what other nodes and operators did

	resumeTries = 5 // to read what the store has, before anything is answered
	resumePause = 300 * time.Millisecond

	oldAge  = 6 * time.Hour  // of the ranges in use: worth a warning
	deadAge = 24 * time.Hour // the same: an error
)

// Resume brings back, for every directory, the generation that the store has.
// It is called before anything is answered: a card of a range that is merely
// not read yet would count as not enrolled. So a store that cannot be read is
// asked a few times; one that stays away keeps no node from starting.
func (c *Client) Resume(ctx context.Context) {
	var wg sync.WaitGroup
	for _, r := range c.refreshers {
		if r.resumed.CompareAndSwap(false, true) {
			wg.Go(func() {
				for try := 1; !r.look(ctx) && try < resumeTries && pause(ctx, resumePause); try++ {
				}
			})
		}
	}
	wg.Wait()
}

// pause reports whether ctx goes on after some time.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

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
	loaded   int64 // number of the generation in use here; 0: none of the store's
	attempts int   // connections to try with the next PReq
	ask      func(ctx context.Context, attempts int) verdict
	lease    store.Lease   // while it is held
	said     time.Duration // the age that was complained of last

	former  *refresher  // of the same scheme, in the client before; nil: none, or it has ended
	resumed atomic.Bool // Resume has looked, or need not: the former one has
	running atomic.Bool
	quit    chan struct{} // closed by end
	done    chan struct{} // closed when run has returned
	ended   sync.Once
}

func newRefresher(c *Client, p *peer) *refresher {
	r := &refresher{Client: c, p: p, attempts: 2, quit: make(chan struct{}), done: make(chan struct{})}
	r.ask = r.exchange
	return r
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
		r.loaded = r.former.loaded
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
		if !time.Now().Before(r.standing.Next) {
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
		wait = min(wait, lookEvery-mathrand.N(lookEvery/5)) // not all nodes at once
	}
	return max(wait, 10*time.Millisecond)
}

// look reads how things stand and takes over a newer generation. A store that
// cannot be read changes nothing, and is not ok.
func (r *refresher) look(ctx context.Context) (ok bool) {
	if r.keeper == nil {
		return true
	}
	now, err := ReadStanding(ctx, r.keeper, r.p.Scheme)
	if err != nil {
		r.complain(ctx, "standing not read", err)
		return false
	}
	r.standing = now
	r.hear(ctx)
	// A generation is stored before the standing that names it: a process that
	// ended in between left one that nothing points to yet.
	if now.Generation > r.loaded || r.cards.Generation(r.p.Scheme) == nil {
		return r.resume(ctx)
	}
	return true
}

// resume puts the newest stored generation that is whole into use. It reports
// whether the store could say which there are.
func (r *refresher) resume(ctx context.Context) bool {
	all, err := r.keeper.Snapshots(ctx, r.p.Scheme)
	if err != nil {
		r.complain(ctx, "generations not listed", err)
		return false
	}
	collector.begin()
	defer func() { collector.end(r.cards.Generation(r.p.Scheme).Len()) }()
	for _, s := range all {
		if s.Generation <= r.loaded {
			return true
		}
		g, err := OpenGeneration(ctx, r.keeper, r.p.Scheme, s.Generation)
		if err != nil {
			r.complain(ctx, "generation not usable, an older one is tried", err)
			continue
		}
		r.put(g, s.Generation)
		r.log.Info("card ranges brought back", "scheme", r.p.Scheme, "generation", s.Generation, "ranges", g.Len(), "loaded", g.Loaded)
		return true
	}
	return true
}

// put puts a generation into use.
func (r *refresher) put(g *ranges.Generation, number int64) {
	r.cards.Put(r.p.Scheme, g)
	r.loaded = number
	if r.hooks.Refreshed != nil {
		r.hooks.Refreshed(r.p.Scheme, g.Len(), g.Loaded)
	}
}

// turn asks the directory server, if no other node does.
func (r *refresher) turn(ctx context.Context) {
	if !r.hold(ctx) {
		return
	}
	defer r.release(ctx)
	defer r.renew(ctx)()
	r.standing.Asked = time.Now().UTC()
	r.standing.Next = r.standing.Asked.Add(r.unsure())
	r.standing.Earliest = r.standing.Next // should the process end, no wish comes before
	if !r.save(ctx) {
		return // what cannot be remembered is not done: the floor holds across restarts
	}
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

// hold takes the scheme's lease and reads what the last holder left.
func (r *refresher) hold(ctx context.Context) bool {
	if r.keeper == nil {
		return true
	}
	lease, err := r.keeper.Acquire(ctx, standingKey(r.p.Scheme), r.node, r.leaseTime())
	if errors.Is(err, store.ErrHeld) {
		r.standing.Next = time.Now().Add(lookEvery)
		return false
	}
	if err != nil {
		r.complain(ctx, "lease not taken", err)
		r.standing.Next = time.Now().Add(lookEvery)
		return false
	}
	r.lease = lease
	now, err := ReadStanding(ctx, r.keeper, r.p.Scheme)
	if err != nil || time.Now().Before(now.Next) { // another node has asked meanwhile
		r.release(ctx)
		r.standing.Next = time.Now().Add(lookEvery)
		return false
	}
	r.standing = now
	return true
}

// renew keeps the lease alive until its result is called.
func (r *refresher) renew(ctx context.Context) (stop func()) {
	if r.keeper == nil {
		return func() {}
	}
	return stayOn(ctx, r.keeper, r.lease, r.leaseTime(), func(err error) { r.complain(ctx, "lease not renewed", err) })
}

func (r *refresher) release(ctx context.Context) {
	if r.keeper == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := r.keeper.Release(ctx, r.lease); err != nil {
		r.complain(ctx, "lease not released", err)
	}
}

// save keeps how things stand; false: it could not.
func (r *refresher) save(ctx context.Context) bool {
	if r.keeper == nil {
		return true
	}
	value, err := json.Marshal(r.standing)
	if err == nil {
		err = r.keeper.PutState(ctx, standingKey(r.p.Scheme), value, r.lease)
	}
	if err != nil {
		r.complain(ctx, "standing not kept", err)
		r.standing.Next = time.Now().Add(lookEvery)
		return false
	}
	return true
}

// hear does what an operator wishes, once.
func (r *refresher) hear(ctx context.Context) {
	var w Wish
	if err := readState(ctx, r.keeper, wishKey(r.p.Scheme), &w); err != nil {
		r.complain(ctx, "wish not read", err)
		return
	}
	if !w.At.After(r.standing.Seen) {
		return
	}
	lease, err := r.keeper.Acquire(ctx, standingKey(r.p.Scheme), r.node, r.leaseTime())
	if err != nil {
		return // somebody is at work; there will be another look
	}
	r.lease = lease
	defer r.release(ctx)
	defer r.renew(ctx)()
	if r.standing, err = ReadStanding(ctx, r.keeper, r.p.Scheme); err != nil || !w.At.After(r.standing.Seen) {
		return
	}
	r.standing.Seen = w.At
	if w.Refresh && r.standing.Earliest.Before(r.standing.Next) {
		r.standing.Next = later(time.Now().UTC(), r.standing.Earliest)
	}
	if w.Accept != 0 && w.Accept == r.standing.Held {
		r.accept(ctx)
	}
	r.save(ctx)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// accept uses the generation that was held back.
func (r *refresher) accept(ctx context.Context) {
	g, err := OpenHeld(ctx, r.keeper, r.p.Scheme, r.standing.Held)
	if err != nil {
		r.complain(ctx, "held generation not usable", err)
		return
	}
	r.adopt(ctx, g)
}

// adopt stores a generation and uses it. What cannot be stored is used all the
// same: it is complete and valid, only this node will have to ask again.
func (r *refresher) adopt(ctx context.Context, g *ranges.Generation) {
	g.Scheme, g.Loaded = r.p.Scheme, time.Now().UTC()
	number := r.loaded
	if r.keeper != nil {
		var err error
		if number, err = keepGeneration(ctx, r.keeper, r.p.Scheme, g, r.lease, keptGenerations); err != nil {
			r.complain(ctx, "generation not kept", err)
			number = r.loaded
		} else {
			r.standing.Generation = number
		}
	}
	r.standing.describe(g)
	r.put(g, number)
}

// describe notes what is in use. What was held back is older, and out of date.
func (s *Standing) describe(g *ranges.Generation) {
	s.Held, s.HeldOf = 0, 0
	s.Serial, s.Ranges, s.Version, s.Loaded = g.Serial, g.Len(), g.Version.String(), g.Loaded
	s.Fault, s.FaultAt, s.Full = "", time.Time{}, false
}

// Import stores a generation that came from elsewhere than the directory
// server; the nodes that serve take it over. ErrHeld: one of them is asking.
func Import(ctx context.Context, k Keeper, scheme, holder string, g *ranges.Generation) (int64, error) {
	lease, err := k.Acquire(ctx, standingKey(scheme), holder, briefly)
	if err != nil {
		return 0, fmt.Errorf("directory: import: %w", err)
	}
	stop := stayOn(ctx, k, lease, briefly, func(error) {}) // a lease that is lost shows when it is written under
	number, err := importUnder(ctx, k, lease, scheme, g)
	stop()
	return number, errors.Join(err, k.Release(context.WithoutCancel(ctx), lease))
}

func importUnder(ctx context.Context, k Keeper, lease store.Lease, scheme string, g *ranges.Generation) (int64, error) {
	standing, err := ReadStanding(ctx, k, scheme)
	if err != nil {
		return 0, err
	}
	g.Scheme, g.Loaded = scheme, time.Now().UTC()
	number, err := keepGeneration(ctx, k, scheme, g, lease, keptGenerations)
	if err != nil {
		return 0, err
	}
	standing.Generation = number
	standing.describe(g)
	value, err := json.Marshal(standing)
	if err != nil {
		return 0, err
	}
	return number, k.PutState(ctx, standingKey(scheme), value, lease)
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
	return max(r.least(), min(p.Refresh+time.Duration(tenth*(2*mathrand.Float64()-1)), longest))
}

// least is how long the protocol has us wait after a PReq that was answered.
func (r *refresher) least() time.Duration {
	if *r.p.PReqVersion >= message.V231 && r.serial() == "" { // the next one asks for everything again
		return r.p.floor(fullFloor)
	}
	return r.p.floor(hourFloor)
}

// serial is what the next PReq asks for changes since; "": for everything.
func (r *refresher) serial() string {
	g := r.cards.Generation(r.p.Scheme)
	if g == nil || r.standing.Full || r.p.downloads() {
		return ""
	}
	return g.Serial
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

// newNode is a name for this process among the holders of leases.
func newNode() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
