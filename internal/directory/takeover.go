package directory

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/ranges"
	"github.com/openthreeds/threeds/internal/store"
)

// How often, before anything is answered, a store that cannot be read is asked
// for what it has.
const (
	resumeTries = 5
	resumePause = 300 * time.Millisecond
)

// Resume puts into use, for every directory, the generation that the store has. Call
// it before any request is answered: a card whose range is not read yet would count as
// not enrolled. A store that cannot be read is tried a few times, then Resume returns all
// the same.
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

// wait waits for d; false: ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// look reads the standing and takes over a newer generation. If the store cannot be
// read, nothing changes, and it is not ok.
func (r *refresher) look(ctx context.Context) (ok bool) {
	now, err := r.read(ctx)
	if err != nil {
		r.complain(ctx, "standing not read", err)
		return false
	}
	r.standing = now
	r.grant(ctx)
	if r.hooks.Held != nil {
		r.news.tell(func() { r.hooks.Held(r.p.Scheme, r.standing.Held != 0) })
	}
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
		r.storeAgain(ctx)
		return true
	}
	// Another node has heard that the generation still holds. Its time counts even if it
	// is earlier than ours, which a clock that was ahead may have written.
	if now.Generation == r.loaded && !now.Loaded.IsZero() && !now.Loaded.Equal(g.Loaded) {
		same := *g
		same.Loaded = now.Loaded
		r.put(&same, r.loaded)
	}
	return true
}

// read returns the scheme's standing under the present configuration.
func (r *refresher) read(ctx context.Context) (Standing, error) {
	now, err := ReadStanding(ctx, r.keeper, r.p.Scheme)
	return now.Under(r.p.Refresh, r.p.MinRefresh), err
}

// known reports whether the latest PReq, perhaps of another process, failed, and the
// next is not due yet. That may take hours, and waiting for it would tell this node
// nothing: the scheme counts as tried.
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

// grant does what an operator wishes, once.
func (r *refresher) grant(ctx context.Context) {
	w, err := ReadWish(ctx, r.keeper, r.p.Scheme, r.standing)
	if err != nil {
		r.complain(ctx, "wish not read", err)
		return
	}
	if w.At.IsZero() {
		return
	}
	if r.acquire(ctx) != nil {
		return // another node has the lease; the next look tries again
	}
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
		return // the wish stays, for the next look
	}
	r.save(ctx)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// accept uses the generation that was held back. It is done if that was used, or is
// damaged and can never be; it is not done if the store could not be read.
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

// adopt stores a generation and uses it. One that cannot be stored is used all the
// same: it is complete and valid, and storeAgain will store it. Until then the standing
// still describes the generation that the store has.
func (r *refresher) adopt(ctx context.Context, g *ranges.Generation) {
	g.Scheme, g.Loaded = r.p.Scheme, time.Now().UTC()
	number, err := keepGeneration(ctx, r.keeper, r.p.Scheme, g, r.lease, keptGenerations)
	if r.unkept = err != nil; r.unkept {
		r.complain(ctx, "generation not kept", err)
		r.fault(notKept)
		r.failed = time.Now()
		r.put(g, r.loaded)
		return
	}
	r.standing.Generation = number
	r.standing.describe(g)
	r.put(g, number)
}

// notKept is the fault of a PRes that was good.
const notKept = "the generation was not kept in the store"

// storeAgain tries, once a minute, to store a generation that is in use but could not be
// stored: until then other nodes, and the next process, do not have it, and it may be
// hours until the next PReq. A newer generation that the store has got meanwhile stays.
func (r *refresher) storeAgain(ctx context.Context) {
	if time.Since(r.failed) < retryEvery {
		return
	}
	if r.acquire(ctx) != nil {
		return // another node has the lease, or the store is still away; the next look tries again
	}
	r.failed = time.Now()
	defer r.release(ctx)
	defer r.renew(ctx)()
	now, err := r.read(ctx)
	if err != nil || now.Generation > r.loaded {
		return
	}
	g := *r.cards.Generation(r.p.Scheme)
	number, err := keepGeneration(ctx, r.keeper, r.p.Scheme, &g, r.lease, keptGenerations)
	if err != nil {
		r.complain(ctx, "generation not kept", err)
		return
	}
	if now.Fault == notKept {
		now.Fault, now.FaultAt = "", time.Time{}
	}
	now.Generation = number
	now.setGeneration(&g)
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
