package account

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/openthreeds/threeds/internal/store"
)

// ErrUnknownKey says that the store has no row of such a key: it was never made, or it was
// revoked.
var ErrUnknownKey = errors.New("account: unknown key")

// ErrKeyNotJudged says that the store has a row of the key, and that its seal does not
// open. Somebody has changed the row, or the key file lacks the secret that it was sealed
// with. Whether the key is good cannot be said.
var ErrKeyNotJudged = errors.New("account: the seal of the key's row does not open")

// ErrNoKeyJudged says that the store has keys, and that the seal of none opens. Most
// likely the key file is that of another store, so nothing can be said of any key.
var ErrNoKeyJudged = errors.New("account: the seal of no key's row opens")

const (
	// lookups is how many unknown keys are looked up at once. Others wait, so
	// that a flood of wrong keys leaves the store to those who have work.
	lookups = 4

	// named is how many rows that are not as they were sealed the log names at
	// once. With a wrong key file that is every row.
	named = 10
)

// KeyStore is what a Book wants of a store.
type KeyStore interface {
	Key(ctx context.Context, hash []byte) (store.Key, error)
	KeysUnless(ctx context.Context, mark string) (keys []store.Key, now string, err error)
	ResealKey(ctx context.Context, hash, was, seal []byte) error
}

// A Book finds accounts by their keys. Keys that are in the store are answered from
// memory; an unknown one is looked up in the store each time it comes, so that a new key
// works at once. Printing a Book shows no secrets.
type Book struct {
	store KeyStore
	log   *slog.Logger
	slots chan struct{} // one for each look-up in progress

	// What the last refresh that read all rows has seen. Only refreshes use it.
	read   []store.Key
	mark   string    // of them
	readAt time.Time // it began

	mu        sync.RWMutex
	ring      Ring
	rings     int // how often ring was set
	merchants *merchants
	known     map[string]entry     // rows of the last refresh, by hash; replaced as a whole, never changed
	void      map[string]store.Key // rows that are not as they were sealed, by hash; likewise
	learned   map[string]entry     // rows that were looked up since known was made, by hash
	checked   int                  // rings, when the seals of void were checked
	touched   bool                 // learned, void or the ring have changed since the last refresh
	round     int                  // how often known was replaced, or found to be up to date
	replaced  int                  // how often it was replaced
	outdated  map[string]store.Key // rows of known whose seal is to be made anew, by hash
}

// An entry is a row that is as it was sealed.
type entry struct {
	row     *store.Key
	account *Account
}

// merchants are those of a configuration, and those without settings whose keys were
// found in the store.
type merchants struct {
	mu     sync.Mutex
	byName map[string]*Merchant
}

// account returns the account of a row: was, if that still says the same. Was may be nil.
func (m *merchants) account(was *Account, k *store.Key) *Account {
	keyID := ID(k.Hash)[:6]
	if was != nil && was.Merchant.Name == k.Merchant && was.Strict == k.Strict && was.KeyID == keyID {
		return was
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	merchant := m.byName[k.Merchant]
	if merchant == nil {
		merchant = &Merchant{Name: k.Merchant}
		m.byName[k.Merchant] = merchant
	}
	return &Account{Merchant: merchant, KeyID: keyID, Strict: k.Strict}
}

// adopt puts entries into others, with accounts of these merchants. It leaves out those
// whose seals the ring does not open.
func (m *merchants) adopt(into, from map[string]entry, ring Ring) {
	for hash, e := range from {
		if Sealed(ring, e.row) {
			into[hash] = entry{e.row, m.account(nil, e.row)}
		}
	}
}

// New returns a Book on a store. While [Book.Run] runs, rows that are sealed under the
// previous secret of the ring are sealed anew under the current one. The Book logs when the
// store cannot be read, and when it can again; and each row that is not as it was sealed,
// once.
func New(keys KeyStore, ring Ring, merchants []Merchant, log *slog.Logger) *Book {
	b := &Book{
		store: keys, log: log,
		slots: make(chan struct{}, lookups),
	}
	b.Change(ring, merchants)
	return b
}

// Change replaces the merchants' settings and the secrets that rows are sealed under. Keys
// that are known stay so, without a look into the store; those that are sealed under a
// secret that has gone do not.
//
// There may be very many keys, so most of the work is done without the lock, and
// Authenticate goes on meanwhile; unless three refreshes in a row come in between.
func (b *Book) Change(ring Ring, configured []Merchant) {
	merchants := &merchants{byName: make(map[string]*Merchant)}
	for _, m := range configured {
		merchants.byName[m.Name] = &m
	}
	known := b.anew(merchants, ring) // and locked
	defer b.mu.Unlock()
	b.ring = ring
	b.rings++
	b.merchants = merchants
	b.known, b.learned = known, make(map[string]entry)
	b.replaced++
	b.touched = true
	b.outdated = nil
	b.round++
}

// anew returns the rows that are known, with accounts of other merchants, as far as another
// ring opens their seals. It leaves b.mu locked, and makes sure that no refresh has found a
// key revoked meanwhile.
func (b *Book) anew(merchants *merchants, ring Ring) map[string]entry {
	for range 3 {
		b.mu.RLock()
		former, replaced := b.known, b.replaced
		b.mu.RUnlock()
		known := make(map[string]entry, len(former))
		merchants.adopt(known, former, ring)
		b.mu.Lock()
		if b.replaced == replaced {
			merchants.adopt(known, b.learned, ring)
			return known
		}
		b.mu.Unlock()
	}
	b.mu.Lock() // refreshes came in between each time: now they have to wait
	known := make(map[string]entry, len(b.known))
	merchants.adopt(known, b.known, ring)
	merchants.adopt(known, b.learned, ring)
	return known
}

// Format implements [fmt.Formatter], for every verb.
func (*Book) Format(f fmt.State, _ rune) { fmt.Fprint(f, "[book of API keys]") }

// Authenticate returns the account of a key. ErrUnknownKey says that there is no such key.
// Any other error says that the key may be good: ErrKeyNotJudged, ErrNoKeyJudged, or one of
// the store, which could not be asked. A key that the Book knows is answered from memory.
func (b *Book) Authenticate(ctx context.Context, key string) (*Account, error) {
	hash, ok := HashKey(key)
	if !ok {
		return nil, ErrUnknownKey
	}
	b.mu.RLock()
	e, known := b.find(string(hash[:]))
	hopeless := b.noneJudged() && b.checked == b.rings
	b.mu.RUnlock()
	switch {
	case known:
		return e.account, nil
	case hopeless:
		return nil, ErrNoKeyJudged
	}
	return b.lookUp(ctx, &hash)
}

// find returns a key that is known. b.mu is held.
func (b *Book) find(hash string) (entry, bool) {
	e, ok := b.known[hash]
	if !ok {
		e, ok = b.learned[hash]
	}
	return e, ok
}

// noneJudged reports whether there are rows of keys, and none that is as it was sealed.
// Before the rows were read for the first time it goes by those that were looked up. b.mu is
// held.
func (b *Book) noneJudged() bool { return len(b.known)+len(b.learned) == 0 && len(b.void) > 0 }

// NoneJudged reports whether the store has keys, and the seal of none opens.
func (b *Book) NoneJudged() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.noneJudged()
}

// lookUp asks the store for a key that is not known.
func (b *Book) lookUp(ctx context.Context, hash *[sha256.Size]byte) (*Account, error) {
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-ctx.Done():
		return nil, fmt.Errorf("account: look up key: %w", ctx.Err())
	}
	b.mu.RLock()
	ring, round := b.ring, b.round
	b.mu.RUnlock()
	k, err := b.store.Key(ctx, bytes.Clone(hash[:]))
	switch {
	case err == nil && Sealed(ring, &k):
		return b.learn(&k, round), nil
	case err == nil:
		b.refuse(k)
		err = ErrKeyNotJudged
	case errors.Is(err, store.ErrNotFound):
		err = ErrUnknownKey
	default:
		return nil, fmt.Errorf("account: look up key: %w", err)
	}
	if b.NoneJudged() {
		return nil, ErrNoKeyJudged
	}
	return nil, err
}

// learn remembers a key that was found in the store and returns its account. If there was
// a refresh after round, which may have found it revoked, it is not remembered.
func (b *Book) learn(k *store.Key, round int) *Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	known, _ := b.find(string(k.Hash))
	account := b.merchants.account(known.account, k)
	if b.round == round {
		b.learned[string(k.Hash)] = entry{k, account}
		b.touched = true
	}
	return account
}

// refuse remembers a row that is not as it was sealed, and logs it the first time.
func (b *Book) refuse(k store.Key) {
	b.mu.Lock()
	fresh := !b.isVoid(&k)
	if fresh {
		void := make(map[string]store.Key, len(b.void)+1)
		maps.Copy(void, b.void)
		void[string(k.Hash)] = k
		b.void, b.touched = void, true
	}
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
	good = len(b.known)
	for hash := range b.learned {
		if _, ok := b.known[hash]; !ok {
			good++
		}
	}
	return good, len(b.void)
}

// same reports whether nothing of a row has changed.
func same(a, b store.Key) bool {
	return a.Merchant == b.Merchant && a.Strict == b.Strict && a.Created.Equal(b.Created) &&
		bytes.Equal(a.Hash, b.Hash) && bytes.Equal(a.Seal, b.Seal)
}

// takeOutdated removes at most n rows from those whose seal is to be made anew, and returns
// them with the ring to do it with. Which they are is left to chance, so that nodes that do
// this at the same time seldom meet.
func (b *Book) takeOutdated(n int) (Ring, []store.Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var rows []store.Key
	for hash, k := range b.outdated {
		if len(rows) == n {
			break
		}
		rows = append(rows, k)
		delete(b.outdated, hash)
	}
	return b.ring, rows
}
