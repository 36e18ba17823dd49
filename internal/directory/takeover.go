package directory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/ranges"
	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/internal/thrift"
)

// How often, before anything is answered, a store that cannot be read is asked
// for what it has.
const (
	resumeTries = 5
	resumePause = 300 * time.Millisecond
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
				for try := 1; !r.look(ctx) && try < resumeTries && wait(ctx, resumePause); try++ {
				}
			})
		}
	}
	wg.Wait()
}

// wait reports whether ctx goes on after some time.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// look reads how things stand and takes over a newer generation. A store that
// cannot be read changes nothing, and is not ok.
func (r *refresher) look(ctx context.Context) (ok bool) {
	if r.keeper == nil {
		return true
	}
	now, err := r.read(ctx)
	if err != nil {
		r.complain(ctx, "standing not read", err)
		return false
	}
	r.standing = now
	r.hear(ctx)
	if r.known(now) {
		r.cards.MarkTried(r.p.Scheme)
	}
	// A generation is stored before the standing that names it: a process that
	// ended in between left one that nothing points to yet.
	g := r.cards.Generation(r.p.Scheme)
	if now.Generation > r.loaded || g == nil {
		return r.resume(ctx)
	}
	if r.unkept {
		r.again(ctx)
		return true
	}
	// Another node heard that it still holds. Should that seem to be earlier, then a
	// clock that was ahead had written the time before.
	if now.Generation == r.loaded && !now.Loaded.IsZero() && !now.Loaded.Equal(g.Loaded) {
		same := *g
		same.Loaded = now.Loaded
		r.put(&same, r.loaded)
	}
	return true
}

// read returns how things stand with the scheme under the present configuration.
func (r *refresher) read(ctx context.Context) (Standing, error) {
	now, err := ReadStanding(ctx, r.keeper, r.p.Scheme)
	return now.Under(r.p.Refresh, r.p.MinRefresh), err
}

// known reports whether the latest PReq, which another process may have sent, came
// to nothing, and it is not time for the next one: that may be hours, in which this
// node can know no more than it does.
func (r *refresher) known(now Standing) bool {
	return now.Fault != "" && !now.FaultAt.Before(now.Asked) && time.Now().Before(now.Next) && !r.moved(now)
}

// resume puts the newest stored generation that is whole into use. It reports
// whether the store could say which there are.
func (r *refresher) resume(ctx context.Context) bool {
	all, err := r.keeper.Snapshots(ctx, r.p.Scheme)
	if err != nil {
		r.complain(ctx, "generations not listed", err)
		return false
	}
	former := r.cards.Generation(r.p.Scheme).Len()
	load := thrift.Begin()
	defer func() { load.End(max(former, r.cards.Generation(r.p.Scheme).Len())) }()
	for _, s := range all {
		if s.Generation <= r.loaded {
			return true
		}
		g, err := OpenGeneration(ctx, r.keeper, r.p.Scheme, s.Generation)
		if err != nil {
			r.complain(ctx, "generation not usable, an older one is tried", err)
			continue
		}
		if s.Generation == r.standing.Generation {
			g.From = r.standing.From
			if !r.standing.Loaded.IsZero() {
				g.Loaded = r.standing.Loaded
			}
		}
		if from, ok := fromOf(s); ok {
			g.From = from
		}
		r.put(g, s.Generation)
		r.unkept = false
		r.log.Info("card ranges brought back", "scheme", r.p.Scheme, "generation", s.Generation, "ranges", g.Len(), "loaded", g.Loaded)
		return true
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
	if r.standing, err = r.read(ctx); err != nil || !w.At.After(r.standing.Seen) {
		return
	}
	r.standing.Seen = w.At
	if w.Refresh && r.standing.Earliest.Before(r.standing.Next) {
		r.standing.Next = later(time.Now().UTC(), r.standing.Earliest)
	}
	if w.Accept != 0 && w.Accept == r.standing.Held && !r.accept(ctx) {
		return // the wish stays
	}
	r.save(ctx)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// accept uses the generation that was held back, unless the store has no time to give
// it. One that is damaged can never be used.
func (r *refresher) accept(ctx context.Context) (done bool) {
	g, err := OpenHeld(ctx, r.keeper, r.p.Scheme, r.standing.Held)
	if err != nil {
		r.complain(ctx, "held generation not usable", err)
		if !errors.Is(err, ranges.ErrSnapshot) && !errors.Is(err, ranges.ErrSnapshotFormat) && !errors.Is(err, store.ErrNotFound) {
			return false
		}
		r.fault("the generation held back is damaged")
		return true
	}
	g.From = r.standing.HeldFrom
	r.adopt(ctx, g)
	return true
}

// adopt stores a generation and uses it. What cannot be stored is used all the
// same: it is complete and valid, and will be stored later. What stands in the
// store is until then that of the generation there.
func (r *refresher) adopt(ctx context.Context, g *ranges.Generation) {
	g.Scheme, g.Loaded = r.p.Scheme, time.Now().UTC()
	r.unkept = false
	number := r.loaded
	if r.keeper != nil {
		var err error
		if number, err = keepGeneration(ctx, r.keeper, r.p.Scheme, g, r.lease, keptGenerations); err != nil {
			r.complain(ctx, "generation not kept", err)
			r.fault(notKept)
			r.unkept, r.failed = true, time.Now()
			r.put(g, r.loaded)
			return
		}
		r.standing.Generation = number
	}
	r.standing.describe(g)
	r.put(g, number)
}

// notKept is the fault of a PRes that was good.
const notKept = "the generation was not kept in the store"

// again tries once a minute to store what is in use and could not be kept: until then
// other nodes, and the next process, know nothing of it, and it may be hours until the
// directory server is asked again. Whatever has come to stand in the store since stays.
func (r *refresher) again(ctx context.Context) {
	if time.Since(r.failed) < retryEvery {
		return
	}
	lease, err := r.keeper.Acquire(ctx, standingKey(r.p.Scheme), r.node, r.leaseTime())
	if err != nil {
		return // somebody is at work, or the store is still away; there will be another look
	}
	r.lease, r.failed = lease, time.Now()
	defer r.release(ctx)
	defer r.renew(ctx)()
	now, err := r.read(ctx)
	if err != nil || now.Generation > r.loaded {
		return
	}
	g := *r.cards.Generation(r.p.Scheme)
	number, err := keepGeneration(ctx, r.keeper, r.p.Scheme, &g, lease, keptGenerations)
	if err != nil {
		r.complain(ctx, "generation not kept", err)
		return
	}
	if now.Fault == notKept {
		now.Fault, now.FaultAt = "", time.Time{}
	}
	now.Generation = number
	now.has(&g)
	r.standing, r.loaded = now, number
	r.unkept = !r.save(ctx)
}

// put puts a generation into use.
func (r *refresher) put(g *ranges.Generation, number int64) {
	r.cards.Put(r.p.Scheme, g)
	r.loaded = number
	if r.hooks.Refreshed != nil {
		r.news.tell(func() { r.hooks.Refreshed(r.p.Scheme, g.Len(), g.Loaded) })
	}
}

// describe notes what is in use. What was held back is older, and out of date.
func (s *Standing) describe(g *ranges.Generation) {
	s.Held, s.HeldOf, s.HeldFrom = 0, 0, ""
	s.Fault, s.FaultAt, s.Full = "", time.Time{}, false
	s.has(g)
}

// has notes which generation the store has.
func (s *Standing) has(g *ranges.Generation) {
	s.Serial, s.Ranges, s.Version, s.Loaded, s.From = g.Serial, g.Len(), g.Version.String(), g.Loaded, g.From
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
