package account

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/store"
)

const (
	// refresh is how often the store is asked whether keys have changed, and those that
	// have are read anew. A revoked one stops within twice this.
	refresh = 500 * time.Millisecond

	// thorough is how often all are read whatever the store says: there are ways to change
	// a database that it does not notice.
	thorough = time.Minute

	// maxPatience is how long one reading of them may take at most. It may take so
	// long only where shorter ones have come to nothing: most connections that
	// say nothing for half a second are dead.
	maxPatience = 8 * refresh

	// resealed is how many rows are sealed anew at most in each refresh: after a rotation of
	// the key file that is all of them, and other writes are to find room in between.
	resealed = 100
)

// Run reads the keys, at once and then whenever they have changed. It looks twice a
// second, or as often as a slow store lets it, until the context ends. While the store
// cannot be read, the known keys go on working. A store that cannot be written to, or only
// slowly, does not delay reading.
func (b *Book) Run(ctx context.Context) {
	var resealing sync.WaitGroup
	defer resealing.Wait()
	resealing.Go(func() { b.runReseal(ctx) })
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	failing, patience := false, refresh
	for {
		start := time.Now()
		all, err := b.refresh(ctx, patience)
		if all || err != nil { // how long it takes to read the mark alone says nothing
			patience = nextPatience(patience, time.Since(start), err)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			failing = true
			b.log.ErrorContext(ctx, "API keys cannot be read, those known go on working", "err", err)
		case err == nil && failing:
			failing = false
			b.log.InfoContext(ctx, "API keys can be read again")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// runReseal seals rows anew that are sealed under the previous secret, twice a second,
// until ctx ends.
func (b *Book) runReseal(ctx context.Context) {
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	stuck := false
	for {
		if err := b.reseal(ctx); err != nil && !stuck && ctx.Err() == nil {
			stuck = true
			b.log.WarnContext(ctx, "API keys cannot be sealed under the current secret, do not drop the previous one", "err", err)
		} else if err == nil && stuck {
			stuck = false
			b.log.InfoContext(ctx, "API keys can be sealed under the current secret again")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// nextPatience is how long the next reading may take, after one that took so long of its
// patience. A slow store still serves requests, so it must be given the time to say that a
// key was revoked.
func nextPatience(patience, took time.Duration, err error) time.Duration {
	switch {
	case err == nil:
		return min(max(refresh, 2*took), maxPatience)
	case took >= patience:
		return min(2*patience, maxPatience)
	}
	return patience
}

// reseal gives some of the rows that are sealed under the previous secret a seal of the
// current one. It seals the row as it was when its former seal was checked, so that a change
// made to it since does not get a good seal. A row that is gone or has another seal was
// revoked, or another node was quicker.
func (b *Book) reseal(ctx context.Context) error {
	ring, rows := b.takeOutdated(resealed)
	for i, k := range rows {
		err := b.resealKey(ctx, ring, k)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			b.putBack(rows[i:])
			return err
		}
	}
	return nil
}

func (b *Book) resealKey(ctx context.Context, ring Ring, k store.Key) error {
	ctx, cancel := context.WithTimeout(ctx, maxPatience)
	defer cancel()
	return b.store.ResealKey(ctx, k.Hash, k.Seal, ring.Seal(k.Name(), nil))
}

// putBack returns rows that could not be sealed anew, unless they are known no more as they
// were, or under other secrets.
func (b *Book) putBack(rows []store.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, k := range rows {
		if e, ok := b.known[string(k.Hash)]; ok && same(*e.row, k) && b.outdated != nil {
			b.outdated[string(k.Hash)] = k
		}
	}
}

// refresh replaces what is known by what the store has, and forgets the keys that
// are not there any more. All reports whether it has read all rows. It does so if the
// store's mark says that they have changed, once a minute in any case, and whenever
// something else than a refresh has changed what is known.
func (b *Book) refresh(ctx context.Context, patience time.Duration) (all bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	start, mark := time.Now(), b.mark
	if start.Sub(b.readAt) >= thorough || b.hasChanged() {
		mark = ""
	}
	keys, now, err := b.store.KeysUnless(ctx, mark)
	if err != nil {
		return false, err
	}
	if mark != "" && now == mark {
		b.markCurrent()
		return false, nil
	}
	b.mark, b.readAt = now, start
	if b.unchanged(keys) {
		return true, nil
	}
	for !b.replace(keys) {
	}
	return true, nil
}

// hasChanged reports whether anything but a refresh has changed what is known.
func (b *Book) hasChanged() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.touched
}

// markCurrent records that a refresh has found nothing changed.
func (b *Book) markCurrent() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.round++
}

// unchanged reports whether the store has what it had at the last refresh, and nothing
// else has happened since. That is what most refreshes find.
func (b *Book) unchanged(keys []store.Key) bool {
	equal := slices.EqualFunc(keys, b.read, same)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !equal || b.touched {
		return false
	}
	b.round++
	return true
}

// replace makes the rows what is known, after it has checked the seals of those that
// are new or have changed. It reports false if the ring was changed meanwhile. The lock is
// held only for what concerns few keys, so that Authenticate need not wait.
func (b *Book) replace(keys []store.Key) bool {
	b.mu.RLock()
	ring, rings, merchants, former, formerVoid := b.ring, b.rings, b.merchants, b.known, b.void
	again := b.checked != rings
	b.mu.RUnlock()
	known, void, refused := make(map[string]entry, len(keys)), make(map[string]store.Key), []store.Key(nil)
	outdated := make(map[string]store.Key)
	for i := range keys {
		k, hash := &keys[i], string(keys[i].Hash)
		was, ok := former[hash]
		bad, isVoid := formerVoid[hash]
		isVoid = isVoid && same(bad, *k)
		switch {
		case ok && same(*was.row, *k):
			known[hash] = entry{k, was.account}
			continue
		case isVoid && !again:
		case Sealed(ring, k):
			known[hash] = entry{k, merchants.account(was.account, k)}
			continue
		case !isVoid:
			refused = append(refused, *k)
		}
		void[hash] = *k
	}
	for hash, e := range known {
		if ring.IsSealedByPrevious(e.row.Seal) {
			outdated[hash] = *e.row
		}
	}
	b.mu.Lock()
	if b.rings != rings {
		b.mu.Unlock()
		return false
	}
	refused = slices.DeleteFunc(refused, func(k store.Key) bool { return b.isVoid(&k) })
	b.known, b.learned, b.void, b.outdated, b.read = known, make(map[string]entry), void, outdated, keys
	b.checked, b.touched = rings, false
	b.replaced++
	b.round++
	b.mu.Unlock()
	b.tell(refused)
	return true
}
