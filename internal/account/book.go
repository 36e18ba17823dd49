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
	"maps"
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
)

// KeyStore is what a Book wants of a store.
type KeyStore interface {
	Key(ctx context.Context, hash []byte) (store.Key, error)
	Keys(ctx context.Context) ([]store.Key, error)
	RehashKey(ctx context.Context, old, hash []byte) error
}

// A Book tells accounts by their keys. Those it has met it knows by heart; an
// unknown key is looked up in the store each time it comes, so that a new key
// works at once. It prints no secrets.
type Book struct {
	store  KeyStore
	log    *slog.Logger
	slots  chan struct{} // one for each look-up in progress
	pepper [32]byte

	mu        sync.RWMutex
	hashes    func(key string) [][]byte
	merchants map[string]*Merchant
	known     map[string]*Account // by hash, as in the store
	met       map[mark]meeting    // by key
	round     int                 // how often known was replaced
	former    map[string][]byte   // hashes that are to be replaced, and by which
}

// A mark is the beginning of what a Book remembers of a key.
type mark [8]byte

// A meeting is a key that was good.
type meeting struct {
	digest  [sha256.Size]byte // of the key, under the pepper
	hash    string            // as in the store
	account *Account
}

// New returns a Book on a store. The function gives the hashes a key may be stored
// under: the present one first, then the former one, nil if there is none, then
// others. A key that is used, and stored under the former one, gets the present one
// soon after. It logs when the store cannot be read, and when it can again.
func New(keys KeyStore, hashes func(key string) [][]byte, merchants []Merchant, log *slog.Logger) *Book {
	b := &Book{
		store: keys, log: log,
		slots: make(chan struct{}, lookups),
		met:   make(map[mark]meeting),
	}
	rand.Read(b.pepper[:]) //nolint:errcheck // it never fails, it ends the process
	b.Change(hashes, merchants)
	return b
}

// Change replaces the merchants' settings and the hashes a key may be stored
// under. Keys that are known stay so, without a look into the store; those of a
// hash that has gone do not.
func (b *Book) Change(hashes func(key string) [][]byte, merchants []Merchant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hashes = hashes
	b.merchants = make(map[string]*Merchant)
	for _, m := range merchants {
		b.merchants[m.Name] = &m
	}
	known := b.known
	b.known = make(map[string]*Account, len(known))
	for hash, a := range known {
		b.known[hash] = b.account(store.Key{Hash: []byte(hash), Merchant: a.Merchant.Name, Strict: a.Strict})
	}
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
	hashes := b.hashes(key)
	b.mu.RUnlock()
	if account := b.recall(&digest, hashes); account != nil {
		return account, nil
	}
	return b.lookUp(ctx, &digest, hashes)
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
		if account := b.known[string(hash)]; account != nil {
			if i == 1 {
				b.former[string(hash)] = hashes[0]
			}
			b.met[mark(digest[:])] = meeting{*digest, string(hash), account}
			return account
		}
	}
	return nil
}

// lookUp asks the store for a key that is not known.
func (b *Book) lookUp(ctx context.Context, digest *[sha256.Size]byte, hashes [][]byte) (*Account, error) {
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
		case err == nil:
			return b.learn(k, digest, hashes, round), nil
		case !errors.Is(err, store.ErrNotFound):
			return nil, fmt.Errorf("account: look up key: %w", err)
		}
	}
	return nil, ErrUnknownKey
}

// learn remembers a key that was found, but not if there was a refresh after the
// round in which it was asked for: that may have found it revoked.
func (b *Book) learn(k store.Key, digest *[sha256.Size]byte, hashes [][]byte, round int) *Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	account := b.account(k)
	if len(hashes) > 1 && bytes.Equal(k.Hash, hashes[1]) {
		b.former[string(k.Hash)] = hashes[0]
	}
	if b.round == round {
		b.known[string(k.Hash)] = account
		b.met[mark(digest[:])] = meeting{*digest, string(k.Hash), account}
	}
	return account
}

// account returns what a stored key stands for. b.mu is held.
func (b *Book) account(k store.Key) *Account {
	if a := b.known[string(k.Hash)]; a != nil && a.Merchant.Name == k.Merchant && a.Strict == k.Strict {
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

// rehash gives the keys that were used with their former hash the present one. One
// that is gone was revoked, or another node has done it.
func (b *Book) rehash(ctx context.Context) error {
	b.mu.Lock()
	former := maps.Clone(b.former)
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, refresh)
	defer cancel()
	for old, hash := range former {
		err := b.store.RehashKey(ctx, []byte(old), hash)
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
	b.mu.Lock()
	defer b.mu.Unlock()
	known := make(map[string]*Account, len(keys))
	for _, k := range keys {
		known[string(k.Hash)] = b.account(k)
	}
	for mark, m := range b.met {
		if a := known[m.hash]; a == nil {
			delete(b.met, mark)
		} else if a != m.account {
			m.account = a
			b.met[mark] = m
		}
	}
	b.known = known
	b.round++
	return nil
}
