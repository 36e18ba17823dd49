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
	RehashKey(ctx context.Context, old, hash, seal []byte) error
}

// A Book finds accounts by their keys. Keys that are in the store are answered from
// memory; an unknown one is looked up in the store each time it comes, so that a new key
// works at once. Printing a Book shows no secrets.
type Book struct {
	store  KeyStore
	log    *slog.Logger
	slots  chan struct{} // one for each look-up in progress
	pepper [32]byte

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
	checked   int                  // rings, when the seals of known and void were checked
	touched   bool                 // learned, void or the ring have changed since the last refresh
	met       map[mark]meeting     // keys that have been used, for the quickest answer
	marks     map[string]mark      // where in met a key is, by hash
	round     int                  // how often known was replaced, or found to be up to date
	replaced  int                  // how often it was replaced
	former    map[string][]byte    // former hashes of keys that were used, each with the present one
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

// adopt puts entries into others, with accounts of these merchants.
func (m *merchants) adopt(into, from map[string]entry) {
	for hash, e := range from {
		into[hash] = entry{e.row, m.account(nil, e.row)}
	}
}

// A mark is the beginning of a key's digest.
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
	}
	rand.Read(b.pepper[:]) //nolint:errcheck // it never fails, it ends the process
	b.Change(ring, merchants)
	return b
}

// Change replaces the merchants' settings and the secrets that keys are stored
// under. Keys that are known stay so, without a look into the store; those of a
// hash that has gone do not.
//
// There may be very many keys, so most of the work is done without the lock, and
// Authenticate goes on meanwhile; unless three refreshes in a row come in between.
func (b *Book) Change(ring Ring, configured []Merchant) {
	merchants := &merchants{byName: make(map[string]*Merchant)}
	for _, m := range configured {
		merchants.byName[m.Name] = &m
	}
	known := b.anew(merchants) // and locked
	defer b.mu.Unlock()
	b.ring = ring
	b.rings++
	b.merchants = merchants
	b.known, b.learned = known, make(map[string]entry)
	b.replaced++
	b.touched = true
	b.former = make(map[string][]byte)
	b.met, b.marks = make(map[mark]meeting), make(map[string]mark) // keys that come again are found by their hashes under the new ring
	b.round++
}

// anew returns the rows that are known, with accounts of other merchants. It leaves b.mu
// locked, and makes sure that no refresh has found a key revoked meanwhile.
func (b *Book) anew(merchants *merchants) map[string]entry {
	for range 3 {
		b.mu.RLock()
		former, replaced := b.known, b.replaced
		b.mu.RUnlock()
		known := make(map[string]entry, len(former))
		merchants.adopt(known, former)
		b.mu.Lock()
		if b.replaced == replaced {
			merchants.adopt(known, b.learned)
			return known
		}
		b.mu.Unlock()
	}
	b.mu.Lock() // refreshes came in between each time: now they have to wait
	known := make(map[string]entry, len(b.known))
	merchants.adopt(known, b.known)
	merchants.adopt(known, b.learned)
	return known
}

// Format implements [fmt.Formatter], for every verb.
func (*Book) Format(f fmt.State, _ rune) { fmt.Fprint(f, "[book of API keys]") }

// Authenticate returns the account of a key, or ErrUnknownKey. Any other error
// means that the store could not be asked: the key may be good. A key that the
// Book knows is answered from memory.
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

// digest is a hash of a key under the Book's own secret. To put the secret in front is
// enough here, since both have fixed lengths.
func (b *Book) digest(key string) [sha256.Size]byte {
	var text [len(b.pepper) + keyLen]byte
	copy(text[:], b.pepper[:])
	copy(text[len(b.pepper):], key)
	return sha256.Sum256(text[:])
}

// meet returns the account of a key that was used before; nil of others.
func (b *Book) meet(digest *[sha256.Size]byte) *Account {
	b.mu.RLock()
	defer b.mu.RUnlock()
	m, ok := b.met[mark(digest[:])]
	if !ok || subtle.ConstantTimeCompare(m.digest[:], digest[:]) == 0 {
		return nil
	}
	return m.account
}

// recall returns the account of a key whose row is known; nil of others.
func (b *Book) recall(digest *[sha256.Size]byte, hashes [][]byte) *Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, hash := range hashes {
		if e, ok := b.find(string(hash)); ok {
			if i == 1 {
				b.former[string(hash)] = hashes[0]
			}
			b.greet(digest, string(hash), e.account)
			return e.account
		}
	}
	return nil
}

// greet remembers for meet a key that was good. b.mu is held.
func (b *Book) greet(digest *[sha256.Size]byte, hash string, account *Account) {
	m := mark(digest[:])
	b.met[m], b.marks[hash] = meeting{*digest, hash, account}, m
}

// find returns a key that is known. b.mu is held.
func (b *Book) find(hash string) (entry, bool) {
	e, ok := b.known[hash]
	if !ok {
		e, ok = b.learned[hash]
	}
	return e, ok
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
		// Another node may rehash the key between our two questions.
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

// learn remembers a key that was found in the store and returns its account. If there was
// a refresh after round, which may have found it revoked, it is not remembered.
func (b *Book) learn(k *store.Key, digest *[sha256.Size]byte, hashes [][]byte, round int) *Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	known, _ := b.find(string(k.Hash))
	account := b.merchants.account(known.account, k)
	if len(hashes) > 1 && bytes.Equal(k.Hash, hashes[1]) {
		b.former[string(k.Hash)] = hashes[0]
	}
	if b.round == round {
		b.learned[string(k.Hash)] = entry{k, account}
		b.greet(digest, string(k.Hash), account)
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
