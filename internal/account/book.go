package account

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/store"
)

// ErrUnknownKey says that there is no such key, or that it was revoked.
var ErrUnknownKey = errors.New("account: unknown key")

const (
	// refresh is how often the keys are read anew. A revoked one stops within
	// twice this.
	refresh = 500 * time.Millisecond

	// patient is how long one reading of them may take at most. It may take so
	// long only where shorter ones have come to nothing: most connections that
	// say nothing for half a second are dead.
	patient = 8 * refresh

	// lookups is how many unknown keys are looked up at once. Others wait, so
	// that a flood of wrong keys leaves the store to those who have work.
	lookups = 4

	// named is how many rows that are not as they were sealed the log names at
	// once. All of them are so with another key file.
	named = 10
)

// KeyStore is what a Book wants of a store.
type KeyStore interface {
	Key(ctx context.Context, hash []byte) (store.Key, error)
	Keys(ctx context.Context) ([]store.Key, error)
	RehashKey(ctx context.Context, old, hash, seal []byte) error
}

// A Book tells accounts by their keys. Those it has met it knows by heart; an
// unknown key is looked up in the store each time it comes, so that a new key
// works at once. It prints no secrets.
type Book struct {
	store  KeyStore
	log    *slog.Logger
	slots  chan struct{} // one for each look-up in progress
	pepper [32]byte

	read []store.Key // all rows, as the last refresh has seen them; only that uses it

	mu        sync.RWMutex
	ring      Ring
	rings     int // how many there were
	merchants map[string]*Merchant
	known     map[string]entry     // by hash, as in the store
	void      map[string]store.Key // rows that are not as they were sealed, likewise
	checked   int                  // rings, when known and void were told apart
	touched   bool                 // known, void or the ring have changed since
	met       map[mark]meeting     // by key
	round     int                  // how often known was replaced, or found good
	former    map[string][]byte    // hashes that are to be replaced, and by which
}

// An entry is a row that is as it was sealed.
type entry struct {
	row     *store.Key
	account *Account
}

// A mark is the beginning of what a Book remembers of a key.
type mark [8]byte

// A meeting is a key that was good.
type meeting struct {
	digest  [sha256.Size]byte // of the key, under the pepper
	hash    string            // as in the store
	account *Account
}

// New returns a Book on a store. A key that is used, and stored under the former hash
// of the ring, gets the present one soon after. The Book logs when the store cannot be
// read, and when it can again; and each row that is not as it was sealed, once.
func New(keys KeyStore, ring Ring, merchants []Merchant, log *slog.Logger) *Book {
	b := &Book{
		store: keys, log: log,
		slots: make(chan struct{}, lookups),
		met:   make(map[mark]meeting),
		void:  make(map[string]store.Key),
	}
	rand.Read(b.pepper[:]) //nolint:errcheck // it never fails, it ends the process
	b.Change(ring, merchants)
	return b
}

// Change replaces the merchants' settings and the secrets that keys are stored
// under. Keys that are known stay so, without a look into the store; those of a
// hash that has gone do not.
func (b *Book) Change(ring Ring, merchants []Merchant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ring = ring
	b.rings++
	b.merchants = make(map[string]*Merchant)
	for _, m := range merchants {
		b.merchants[m.Name] = &m
	}
	known := b.known
	b.known = make(map[string]entry, len(known))
	for hash, e := range known {
		b.known[hash] = entry{e.row, b.account(e.row)}
	}
	b.touched = true
	b.former = make(map[string][]byte)
	clear(b.met) // whoever comes is recalled by one of the new hashes
	b.round++
}

// Format implements [fmt.Formatter], for every verb.
func (*Book) Format(f fmt.State, _ rune) { fmt.Fprint(f, "[book of API keys]") }

// Authenticate returns the account of a key, or ErrUnknownKey. Any other error
// means that the store could not be asked: the key may be good. A key that was
// met before is answered from memory.
func (b *Book) Authenticate(ctx context.Context, key string) (*Account, error) {
	if !hasForm(key) {
		return nil, ErrUnknownKey
	}
	digest := b.digest(key)
	if account := b.meet(&digest); account != nil {
		return account, nil
	}
	b.mu.RLock()
	ring := b.ring
	b.mu.RUnlock()
	hashes := ring.Hashes(key)
	if account := b.recall(&digest, hashes); account != nil {
		return account, nil
	}
	return b.lookUp(ctx, &digest, ring, hashes)
}

// digest is a hash of fixed length under a secret in front; the key has a fixed
// length too.
func (b *Book) digest(key string) [sha256.Size]byte {
	var text [len(b.pepper) + keyLen]byte
	copy(text[:], b.pepper[:])
	copy(text[len(b.pepper):], key)
	return sha256.Sum256(text[:])
}

// meet returns the account of a key that was met before.
func (b *Book) meet(digest *[sha256.Size]byte) *Account {
	b.mu.RLock()
	defer b.mu.RUnlock()
	m, ok := b.met[mark(digest[:])]
	if !ok || subtle.ConstantTimeCompare(m.digest[:], digest[:]) == 0 {
		return nil
	}
	return m.account
}

// recall returns the account of a key that the last refresh has seen.
func (b *Book) recall(digest *[sha256.Size]byte, hashes [][]byte) *Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, hash := range hashes {
		if e, ok := b.known[string(hash)]; ok {
			if i == 1 {
				b.former[string(hash)] = hashes[0]
			}
			b.met[mark(digest[:])] = meeting{*digest, string(hash), e.account}
			return e.account
		}
	}
	return nil
}

// lookUp asks the store for a key that is not known.
func (b *Book) lookUp(ctx context.Context, digest *[sha256.Size]byte, ring Ring, hashes [][]byte) (*Account, error) {
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-ctx.Done():
		return nil, fmt.Errorf("account: look up key: %w", ctx.Err())
	}
	b.mu.RLock()
	round := b.round
	b.mu.RUnlock()
	if len(hashes) > 1 && hashes[1] != nil {
		// A node may give the key its present hash between our two questions.
		hashes = append(slices.Clip(hashes), hashes[0])
	}
	for _, hash := range hashes {
		if hash == nil {
			continue
		}
		k, err := b.store.Key(ctx, hash)
		switch {
		case err == nil && Sealed(ring, &k):
			return b.learn(&k, digest, hashes, round), nil
		case err == nil:
			b.refuse(k)
			return nil, ErrUnknownKey
		case !errors.Is(err, store.ErrNotFound):
			return nil, fmt.Errorf("account: look up key: %w", err)
		}
	}
	return nil, ErrUnknownKey
}

// learn remembers a key that was found, but not if there was a refresh after the
// round in which it was asked for: that may have found it revoked.
func (b *Book) learn(k *store.Key, digest *[sha256.Size]byte, hashes [][]byte, round int) *Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	account := b.account(k)
	if len(hashes) > 1 && bytes.Equal(k.Hash, hashes[1]) {
		b.former[string(k.Hash)] = hashes[0]
	}
	if b.round == round {
		b.known[string(k.Hash)] = entry{k, account}
		b.met[mark(digest[:])] = meeting{*digest, string(k.Hash), account}
		b.touched = true
	}
	return account
}

// refuse remembers a row that is not as it was sealed, and tells of it if it is new.
func (b *Book) refuse(k store.Key) {
	b.mu.Lock()
	fresh := !b.isVoid(&k)
	b.void[string(k.Hash)] = k
	b.touched = true
	b.mu.Unlock()
	if fresh {
		b.tell([]store.Key{k})
	}
}

// isVoid reports whether this very row is known not to be as it was sealed. b.mu is
// held.
func (b *Book) isVoid(k *store.Key) bool {
	void, ok := b.void[string(k.Hash)]
	return ok && same(void, *k)
}

// tell logs rows that are not as they were sealed. What is in them cannot be trusted.
func (b *Book) tell(rows []store.Key) {
	for _, k := range rows[:min(len(rows), named)] {
		b.log.Error("API key refused: its row in the store is not as it was sealed",
			"key", ID(k.Hash), "merchant", k.Merchant, "created", k.Created)
	}
	if more := len(rows) - named; more > 0 {
		b.log.Error("API keys refused: further rows in the store are not as they were sealed", "rows", more)
	}
}

// Count says how many keys are known to be good, and how many rows of the store are
// refused because they are not as they were sealed.
func (b *Book) Count() (good, refused int) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.known), len(b.void)
}

// same reports whether nothing of a row has changed.
func same(a, b store.Key) bool {
	return a.Merchant == b.Merchant && a.Strict == b.Strict && a.Created.Equal(b.Created) &&
		bytes.Equal(a.Hash, b.Hash) && bytes.Equal(a.Seal, b.Seal)
}

// account returns what a row stands for. b.mu is held.
func (b *Book) account(k *store.Key) *Account {
	if a := b.known[string(k.Hash)].account; a != nil && a.Merchant.Name == k.Merchant && a.Strict == k.Strict {
		return a
	}
	m := b.merchants[k.Merchant]
	if m == nil {
		m = &Merchant{Name: k.Merchant}
		b.merchants[k.Merchant] = m
	}
	return &Account{Merchant: m, Strict: k.Strict}
}

// Run reads the keys anew, at once and then twice a second, or as often as a slow
// store lets it, until the context ends; it returns nil then. While the store cannot
// be read the known keys go on working. A store that is slow to write, or does not,
// holds up no reading.
func (b *Book) Run(ctx context.Context) error {
	var rehashing sync.WaitGroup
	defer rehashing.Wait()
	rehashing.Go(func() { b.runRehash(ctx) })
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	failing, patience := false, refresh
	for {
		start := time.Now()
		err := b.refresh(ctx, patience)
		patience = next(patience, time.Since(start), err)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			failing = true
			b.log.ErrorContext(ctx, "API keys cannot be read, those known go on working", "error", err)
		case err == nil && failing:
			failing = false
			b.log.InfoContext(ctx, "API keys can be read again")
		}
		select {
		case <-ctx.Done():
			return nil
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
			b.log.WarnContext(ctx, "API keys cannot be hashed under the current secret, do not drop the previous one", "error", err)
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

// next is how long the next reading may take, after one that took so long of its
// patience. A store that is slow does its work for whoever has a key, so it must not
// be too slow to say that a key was revoked.
func next(patience, took time.Duration, err error) time.Duration {
	switch {
	case err == nil:
		return min(max(refresh, 2*took), patient)
	case took >= patience:
		return min(2*patience, patient)
	}
	return patience
}

// rehash gives the keys that were used with their former hash the present one, and the
// seal that goes with it. That is made over the row as it was when its former seal was
// found good: whatever has become of it since is not sealed. One that is gone was revoked,
// or another node has done it.
func (b *Book) rehash(ctx context.Context) error {
	b.mu.Lock()
	ring, former := b.ring, make(map[string]store.Key, len(b.former))
	for old, hash := range b.former {
		if e, ok := b.known[old]; ok {
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
// are not there any more.
func (b *Book) refresh(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	keys, err := b.store.Keys(ctx)
	if err != nil {
		return err
	}
	if b.unchanged(keys) {
		return nil
	}
	for !b.replace(keys) {
	}
	return nil
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

// replace makes the rows what is known, after a look at the seals of those that are
// new or have changed. It reports false when the ring was changed meanwhile.
func (b *Book) replace(keys []store.Key) bool {
	good, fresh := make([]bool, len(keys)), []int(nil)
	b.mu.RLock()
	ring, rings := b.ring, b.rings
	for i := range keys {
		e, ok := b.known[string(keys[i].Hash)]
		switch {
		case b.checked != rings:
			fresh = append(fresh, i)
		case ok && same(*e.row, keys[i]):
			good[i] = true
		case !b.isVoid(&keys[i]):
			fresh = append(fresh, i)
		}
	}
	b.mu.RUnlock()
	for _, i := range fresh {
		good[i] = Sealed(ring, &keys[i])
	}
	b.mu.Lock()
	if b.rings != rings {
		b.mu.Unlock()
		return false
	}
	known, void, refused := make(map[string]entry, len(keys)), make(map[string]store.Key), []store.Key(nil)
	for i := range keys {
		k := &keys[i]
		switch {
		case good[i]:
			known[string(k.Hash)] = entry{k, b.account(k)}
			continue
		case !b.isVoid(k):
			refused = append(refused, *k)
		}
		void[string(k.Hash)] = *k
	}
	for mark, m := range b.met {
		if e, ok := known[m.hash]; !ok {
			delete(b.met, mark)
		} else if e.account != m.account {
			m.account = e.account
			b.met[mark] = m
		}
	}
	b.known, b.void, b.read = known, void, keys
	b.checked, b.touched = rings, false
	b.round++
	b.mu.Unlock()
	b.tell(refused)
	return true
}
