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
	resumeAttempts = 5
	resumePause    = 300 * time.Millisecond
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
				for try := 1; !r.pollStore(ctx) && try < resumeAttempts && wait(ctx, resumePause); try++ {
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

// pollStore reads the standing and takes over a newer generation. If the store cannot be
// read, nothing changes, and it is not ok.
func (r *refresher) pollStore(ctx context.Context) (ok bool) {
	now, err := r.readStatus(ctx)
	if err != nil {
		r.logStoreError(ctx, "standing not read", err)
		return false
	}
	r.status = now
	r.handleRequest(ctx)
	if r.hooks.Held != nil {
		r.notifier.notify(func() { r.hooks.Held(r.peer.Scheme, r.status.Held != 0) })
	}
	if r.hasKnownFailure(now) {
		r.cards.MarkTried(r.peer.Scheme)
	}
	// A generation is stored before the standing that names it: a process that
	// ended in between left one that nothing points to yet.
	g := r.cards.Generation(r.peer.Scheme)
	if now.Generation > r.storedGeneration || g == nil {
		return r.loadNewest(ctx)
	}
	if r.notStored {
		r.retryStore(ctx)
		return true
	}
	// Another node has heard that the generation still holds. Its time counts even if it
	// is earlier than ours, which a clock that was ahead may have written.
	if now.Generation == r.storedGeneration && !now.Loaded.IsZero() && !now.Loaded.Equal(g.Loaded) {
		same := *g
		same.Loaded = now.Loaded
		r.publish(&same, r.storedGeneration)
	}
	return true
}

// readStatus returns the scheme's standing under the present configuration.
func (r *refresher) readStatus(ctx context.Context) (RefreshStatus, error) {
	now, err := ReadRefreshStatus(ctx, r.keeper, r.peer.Scheme)
	return now.AdaptTo(r.peer.Refresh, r.peer.MinRefresh), err
}

// hasKnownFailure reports whether the latest PReq, perhaps of another process, failed, and the
// next is not due yet. That may take hours, and waiting for it would tell this node
// nothing: the scheme counts as tried.
func (r *refresher) hasKnownFailure(now RefreshStatus) bool {
	return now.Fault != "" && !now.FaultAt.Before(now.Asked) && time.Now().Before(now.Next) && !r.hasMoved(now)
}

// loadNewest puts the newest stored generation that is whole into use. It reports
// whether the store could say which there are.
func (r *refresher) loadNewest(ctx context.Context) bool {
	all, err := r.keeper.Snapshots(ctx, r.peer.Scheme)
	if err != nil {
		r.logStoreError(ctx, "generations not listed", err)
		return false
	}
	for _, s := range all {
		if s.Generation <= r.storedGeneration {
			return true
		}
		g, err := OpenGeneration(ctx, r.keeper, r.peer.Scheme, s.Generation)
		if err != nil {
			r.logStoreError(ctx, "generation not usable, an older one is tried", err)
			continue
		}
		if s.Generation == r.status.Generation {
			g.From = r.status.From
			if !r.status.Loaded.IsZero() {
				g.Loaded = r.status.Loaded
			}
		}
		if from, ok := sourceAddress(s); ok {
			g.From = from
		}
		r.publish(g, s.Generation)
		r.notStored = false
		r.log.Info("card ranges brought back", "scheme", r.peer.Scheme, "generation", s.Generation, "ranges", g.Len(), "loaded", g.Loaded)
		return true
	}
	return true
}

// handleRequest does what an operator wishes, once.
func (r *refresher) handleRequest(ctx context.Context) {
	w, err := ReadRefreshRequest(ctx, r.keeper, r.peer.Scheme, r.status)
	if err != nil {
		r.logStoreError(ctx, "wish not read", err)
		return
	}
	if w.At.IsZero() {
		return
	}
	if r.acquireLease(ctx) != nil {
		return // another node has the lease; the next look tries again
	}
	defer r.releaseLease(ctx)
	defer r.keepLease(ctx)()
	if r.status, err = r.readStatus(ctx); err != nil || !w.At.After(r.status.Seen) {
		return
	}
	r.status.Seen = w.At
	if w.Refresh && r.status.Earliest.Before(r.status.Next) {
		r.status.Next = laterOf(time.Now().UTC(), r.status.Earliest)
	}
	if w.Accept != 0 && w.Accept == r.status.Held && !r.acceptHeld(ctx) {
		return // the wish stays, for the next look
	}
	r.saveStatus(ctx)
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// acceptHeld uses the generation that was held back. It is done if that was used, or is
// damaged and can never be; it is not done if the store could not be read.
func (r *refresher) acceptHeld(ctx context.Context) (done bool) {
	g, err := OpenHeld(ctx, r.keeper, r.peer.Scheme, r.status.Held)
	if err != nil {
		r.logStoreError(ctx, "held generation not usable", err)
		if !errors.Is(err, ranges.ErrSnapshot) && !errors.Is(err, ranges.ErrSnapshotFormat) && !errors.Is(err, store.ErrNotFound) {
			return false
		}
		r.setFault("the generation held back is damaged")
		return true
	}
	g.From = r.status.HeldFrom
	r.activate(ctx, g)
	return true
}

// activate stores a generation and uses it. One that cannot be stored is used all the
// same: it is complete and valid, and storeAgain will store it. Until then the standing
// still describes the generation that the store has.
func (r *refresher) activate(ctx context.Context, g *ranges.Generation) {
	g.Scheme, g.Loaded = r.peer.Scheme, time.Now().UTC()
	number, err := storeGeneration(ctx, r.keeper, r.peer.Scheme, g, r.lease, maxGenerations)
	if r.notStored = err != nil; r.notStored {
		r.logStoreError(ctx, "generation not kept", err)
		r.setFault(notKept)
		r.storeTried = time.Now()
		r.publish(g, r.storedGeneration)
		return
	}
	r.status.Generation = number
	r.status.markCurrent(g)
	r.publish(g, number)
}

// notKept is the fault of a PRes that was good.
const notKept = "the generation was not kept in the store"

// retryStore tries, once a minute, to store a generation that is in use but could not be
// stored: until then other nodes, and the next process, do not have it, and it may be
// hours until the next PReq. A newer generation that the store has got meanwhile stays.
func (r *refresher) retryStore(ctx context.Context) {
	if time.Since(r.storeTried) < retryInterval {
		return
	}
	if r.acquireLease(ctx) != nil {
		return // another node has the lease, or the store is still away; the next look tries again
	}
	r.storeTried = time.Now()
	defer r.releaseLease(ctx)
	defer r.keepLease(ctx)()
	now, err := r.readStatus(ctx)
	if err != nil || now.Generation > r.storedGeneration {
		return
	}
	g := *r.cards.Generation(r.peer.Scheme)
	number, err := storeGeneration(ctx, r.keeper, r.peer.Scheme, &g, r.lease, maxGenerations)
	if err != nil {
		r.logStoreError(ctx, "generation not kept", err)
		return
	}
	if now.Fault == notKept {
		now.Fault, now.FaultAt = "", time.Time{}
	}
	now.Generation = number
	now.setGeneration(&g)
	r.status, r.storedGeneration = now, number
	r.notStored = !r.saveStatus(ctx)
}

// publish puts a generation into use.
func (r *refresher) publish(g *ranges.Generation, number int64) {
	r.cards.Put(r.peer.Scheme, g)
	r.storedGeneration = number
	if r.hooks.Refreshed != nil {
		r.notifier.notify(func() { r.hooks.Refreshed(r.peer.Scheme, g.Len(), g.Loaded) })
	}
}
