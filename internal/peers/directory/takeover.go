package directory

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/base/tasks"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/store"
)

// Resume reads a store that cannot be read so many times, with a pause in between.
const (
	resumeAttempts = 5
	resumePause    = 300 * time.Millisecond
)

// Resume loads the stored generation of every directory server. Call it before any request is answered: a card whose
// range is not loaded yet would count as not enrolled. If the store cannot be read, Resume tries a few times and then
// returns all the same.
func (c *Client) Resume(ctx context.Context) {
	var wg sync.WaitGroup
	for _, r := range c.refreshers {
		if r.resumed.CompareAndSwap(false, true) {
			wg.Go(func() {
				for try := 1; !r.pollStore(ctx) && try < resumeAttempts && tasks.Sleep(ctx, resumePause); try++ {
				}
			})
		}
	}
	wg.Wait()
}

// pollStore reads the status, handles a request of an operator, and loads a newer generation. If the store cannot be
// read, nothing changes and ok is false.
func (r *refresher) pollStore(ctx context.Context) (ok bool) {
	now, err := r.readStatus(ctx)
	if err != nil {
		r.logStoreError(ctx, "refresh status not read", err)
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
	// A generation is stored before the status that names it. If a process ended in between, the status does not name
	// the newest generation.
	g := r.cards.Generation(r.peer.Scheme)
	if now.Generation > r.storedGeneration || g == nil {
		return r.loadNewest(ctx)
	}
	if r.notStored {
		r.retryStore(ctx)
		return true
	}
	// Another node has confirmed the generation. Its time counts even if it is earlier than ours: ours may come from a
	// clock that was ahead.
	if now.Generation == r.storedGeneration && !now.Loaded.IsZero() && !now.Loaded.Equal(g.Loaded) {
		same := *g
		same.Loaded = now.Loaded
		r.publish(&same, r.storedGeneration)
	}
	return true
}

// readStatus returns the scheme's status, adapted to the present configuration.
func (r *refresher) readStatus(ctx context.Context) (RefreshStatus, error) {
	now, err := ReadRefreshStatus(ctx, r.keeper, r.peer.Scheme)
	return now.AdaptTo(r.peer.Refresh, r.peer.MinRefresh), err
}

// hasKnownFailure reports whether the latest PReq, perhaps of another process, failed and the next is not due yet. That
// may take hours. The scheme then counts as tried, so that this node does not wait for it to be ready.
func (r *refresher) hasKnownFailure(now RefreshStatus) bool {
	return now.Fault != "" && !now.FaultAt.Before(now.Asked) && time.Now().Before(now.Next) && !r.hasMoved(now)
}

// loadNewest uses the newest stored generation that is not corrupt. It reports whether the store could list them.
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
		r.log.Info("card ranges brought back", "scheme", r.peer.Scheme, "generation", s.Generation, "ranges", g.Len(),
			"loaded", g.Loaded)
		return true
	}
	return true
}

// handleRequest carries out the request of an operator, once.
func (r *refresher) handleRequest(ctx context.Context) {
	w, err := ReadRefreshRequest(ctx, r.keeper, r.peer.Scheme, r.status)
	if err != nil {
		r.logStoreError(ctx, "refresh request not read", err)
		return
	}
	if w.At.IsZero() {
		return
	}
	if r.acquireLease(ctx) != nil {
		return // another node has the lease; the next poll tries again
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
		return // the request stays, for the next poll
	}
	r.saveStatus(ctx)
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// acceptHeld uses the generation that was held back. Done is false only if the store could not be read: a corrupt
// generation can never be used, so the request for it is done.
func (r *refresher) acceptHeld(ctx context.Context) (done bool) {
	g, err := OpenGeneration(ctx, r.keeper, heldScheme(r.peer.Scheme), r.status.Held)
	if err != nil {
		r.logStoreError(ctx, "held generation not usable", err)
		if !errors.Is(err, ranges.ErrSnapshot) && !errors.Is(err, ranges.ErrSnapshotFormat) &&
			!errors.Is(err, store.ErrNotFound) {
			return false
		}
		r.setFault("the generation held back is damaged")
		return true
	}
	g.From = r.status.HeldFrom
	r.activate(ctx, g)
	return true
}

// activate stores a generation and uses it. If it cannot be stored it is used all the same, since it is complete and
// valid, and retryStore will store it. Until then the status describes the generation that the store has.
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

// notKept is the fault in the status when a valid generation could not be stored.
const notKept = "the generation was not kept in the store"

// retryStore tries once a minute to store the generation in use that could not be stored. Until then other nodes
// and the next process do not have it, and the next PReq may be hours away. If the store has a newer generation
// by now, that one stays.
func (r *refresher) retryStore(ctx context.Context) {
	if time.Since(r.storeTried) < retryInterval {
		return
	}
	if r.acquireLease(ctx) != nil {
		return // another node has the lease, or the store still fails; the next poll tries again
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

// publish makes a generation the one in use.
func (r *refresher) publish(g *ranges.Generation, number int64) {
	r.cards.Put(r.peer.Scheme, g)
	r.storedGeneration = number
	if r.hooks.Refreshed != nil {
		r.notifier.notify(func() { r.hooks.Refreshed(r.peer.Scheme, g.Len(), g.Loaded) })
	}
}
