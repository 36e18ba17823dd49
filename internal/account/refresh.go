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
)

// Run reads the keys, at once and then whenever they have changed. It looks twice a
// second, or as often as a slow store lets it, until the context ends. While the store
// cannot be read, the known keys go on working. A store that cannot be written to, or only
// slowly, does not delay reading.
func (b *Book) Run(ctx context.Context) {
	var rehashing sync.WaitGroup
	defer rehashing.Wait()
	rehashing.Go(func() { b.runRehash(ctx) })
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

// runRehash has the keys that were used hashed anew, twice a second, until ctx ends.
func (b *Book) runRehash(ctx context.Context) {
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	stuck := false
	for {
		if err := b.rehash(ctx); err != nil && !stuck && ctx.Err() == nil {
			stuck = true
			b.log.WarnContext(ctx, "API keys cannot be hashed under the current secret, do not drop the previous one", "err", err)
		} else if err == nil && stuck {
			stuck = false
			b.log.InfoContext(ctx, "API keys can be hashed under the current secret again")
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

// rehash gives keys that were found by their former hash the present one, with a new
// seal. It seals the row as it was when its former seal was checked, so that a change made
// to it since does not get a good seal. A row that is gone was revoked, or another node
// has rehashed it.
func (b *Book) rehash(ctx context.Context) error {
	b.mu.Lock()
	ring, former := b.ring, make(map[string]store.Key, len(b.former))
	for old, hash := range b.former {
		if e, ok := b.find(old); ok {
			k := *e.row
			k.Hash = hash
			former[old] = k
		} else {
			delete(b.former, old)
		}
	}
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, refresh)
	defer cancel()
	for old, k := range former {
		err := b.store.RehashKey(ctx, []byte(old), k.Hash, ring.Seal(k.Name(), nil))
		if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrExists) {
			return err
		}
		b.mu.Lock()
		delete(b.former, old)
		b.mu.Unlock()
	}
	return nil
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
		b.found()
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

// found ends a refresh that has found nothing changed.
func (b *Book) found() {
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
	for i := range keys {
		k, hash := &keys[i], string(keys[i].Hash)
		was, ok := former[hash]
		bad, isVoid := formerVoid[hash]
		isVoid = isVoid && same(bad, *k)
		switch {
		case ok && !again && same(*was.row, *k):
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
	var changed []string
	for hash, was := range former {
		if known[hash].account != was.account {
			changed = append(changed, hash)
		}
	}
	b.mu.Lock()
	if b.rings != rings {
		b.mu.Unlock()
		return false
	}
	for _, hash := range changed {
		b.forget(hash)
	}
	for hash := range b.learned {
		b.forget(hash)
	}
	refused = slices.DeleteFunc(refused, func(k store.Key) bool { return b.isVoid(&k) })
	b.known, b.learned, b.void, b.read = known, make(map[string]entry), void, keys
	b.checked, b.touched = rings, false
	b.replaced++
	b.round++
	b.mu.Unlock()
	b.tell(refused)
	return true
}

// forget removes a key from met: it will be looked for among the known rows when it comes
// again. b.mu is held.
func (b *Book) forget(hash string) {
	mark := b.marks[hash]
	if b.met[mark].hash == hash {
		delete(b.met, mark)
	}
	delete(b.marks, hash)
}
