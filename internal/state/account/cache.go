package account

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// ErrUnknownKey says that there is no such key: it was never made, it was
// revoked, or it has expired.
var ErrUnknownKey = errors.New("account: unknown key")

// ErrKeyNotJudged says that the store has a row of the key, and that its seal does not open. Either the row was
// changed, or the key file lacks the secret that it was sealed with. The cache cannot say whether the key is good.
var ErrKeyNotJudged = errors.New("account: the seal of the key's row does not open")

// ErrNoKeyJudged says that the store has keys, and that the seal of none opens. Most likely the key file is that of
// another store, so the cache cannot say whether any key is good.
var ErrNoKeyJudged = errors.New("account: the seal of no key's row opens")

const (
	// maxLookups is how many unknown keys are looked up in the store at once. Other requests
	// with unknown keys wait, so that a flood of wrong keys does not take the store from requests with good keys.
	maxLookups = 4

	// maxLogged is how many refused rows the log names each time. With a wrong key file every row is refused.
	maxLogged = 10
)

// A KeyStore is what a KeyCache needs of a store. See [store.Store] for the contract.
type KeyStore interface {
	Key(ctx context.Context, hash []byte) (store.Key, error)
	KeysUnless(ctx context.Context, mark string) (keys []store.Key, now string, err error)
	ResealKey(ctx context.Context, hash, was, seal []byte) error
	MerchantStore
	Objects(ctx context.Context, kind string) ([]store.Object, error)
}

// A KeyCache finds the account of an API key. Use [KeyCache.Authenticate] for that, while [KeyCache.Run] keeps the
// cache in step with the store.
//
// The keys that Run has read are answered from memory. Any other key is looked up in the
// store each time it comes, so a new key works immediately. Printing a KeyCache shows no secret.
type KeyCache struct {
	store   KeyStore
	log     *slog.Logger
	lookups chan struct{} // has an element for each look-up in progress

	uses useLog

	// current is what is known now. A snapshot is never changed. Code that learns something makes a new snapshot of it,
	// and tries again if current has been replaced meanwhile.
	current atomic.Pointer[snapshot]
}

// New returns a KeyCache for a store. The merchants are those of the configuration;
// they win over those of the store with the same names. While [KeyCache.Run] runs, rows that are sealed under the
// previous secret of the ring are resealed under the current one. The cache logs when the store cannot be read, and
// when it can be read again. It also logs, once, each row that it refuses because the seal does not open.
func New(keys KeyStore, ring Ring, merchants []Merchant, log *slog.Logger) *KeyCache {
	c := &KeyCache{store: keys, log: log, lookups: make(chan struct{}, maxLookups)}
	c.uses.minutes = make(map[[sha256.Size]byte]use)
	c.current.Store(new(snapshot))
	c.Configure(ring, merchants)
	return c
}

// Merchant returns the profile of a merchant, of the configuration or the store; nil if there is none.
func (c *KeyCache) Merchant(name string) *Merchant { return c.current.Load().merchantOf(name) }

// SetMerchants replaces the merchants' settings.
func (c *KeyCache) SetMerchants(configured []Merchant) {
	merchants := merchantsByName(configured)
	c.update(func(s *snapshot) *snapshot { return s.judgedBy(s.ring, merchants) })
}

// SetRing replaces the secrets that rows are sealed under, as [KeyCache.Configure] does.
func (c *KeyCache) SetRing(ring Ring) {
	c.update(func(s *snapshot) *snapshot { return s.judgedBy(ring, s.merchants) })
}

// Configure replaces the merchants' settings, and the secrets that rows are sealed under.
// Keys that are known stay known, and the store is not read for them. Keys that are sealed under a secret that has gone
// do not stay known. Meanwhile, calls of Authenticate go on with what was known before.
func (c *KeyCache) Configure(ring Ring, configured []Merchant) {
	merchants := merchantsByName(configured)
	c.update(func(s *snapshot) *snapshot { return s.judgedBy(ring, merchants) })
}

// update makes what next returns for the current snapshot the current one. It calls next again if that was replaced
// meanwhile.
func (c *KeyCache) update(next func(*snapshot) *snapshot) {
	for {
		former := c.current.Load()
		if c.replace(former, next(former)) {
			return
		}
	}
}

func merchantsByName(configured []Merchant) map[string]*Merchant {
	merchants := make(map[string]*Merchant, len(configured))
	for _, m := range configured {
		merchants[m.Name] = &m
	}
	return merchants
}

// Format implements [fmt.Formatter], for every verb.
func (*KeyCache) Format(f fmt.State, _ rune) { fmt.Fprint(f, "[cache of API keys]") }

// Authenticate returns the account of a key. ErrUnknownKey says that there is no such key.
// Any other error means that the key may be good: ErrKeyNotJudged, ErrNoKeyJudged, or an error of the store, which
// could not be read.
func (c *KeyCache) Authenticate(ctx context.Context, key string) (*Account, error) {
	hash, ok := HashKey(key)
	if !ok {
		return nil, ErrUnknownKey
	}
	now := c.current.Load()
	if cached, ok := now.good[string(hash[:])]; ok {
		return c.admit(hash, cached.account)
	}
	if now.hasRead && !now.canJudge() {
		return nil, ErrNoKeyJudged
	}
	return c.lookUp(ctx, hash)
}

// admit returns the account of a key that is used now, unless the key has expired. A use from a network that is not
// allowed counts, too: it shows that the key is known there.
func (c *KeyCache) admit(hash [sha256.Size]byte, a *Account) (*Account, error) {
	if a.Terms.IsExpired(time.Now()) {
		return nil, ErrUnknownKey
	}
	c.uses.note(hash)
	return a, nil
}

// admitStored returns the account of a row that is not in the cache. If its merchant is unknown, the merchant may be as
// new as the key, so all merchants are read first. They are also read if that has not been done yet: the merchant may
// be disabled.
func (c *KeyCache) admitStored(
	ctx context.Context, hash [sha256.Size]byte, row *store.Key, terms Terms,
) (*Account, error) {
	if now := c.current.Load(); !now.hasRead || now.merchantOf(row.Merchant) == nil {
		if _, err := c.refresh(ctx, maxTimeout); err != nil {
			return nil, fmt.Errorf("account: look up merchant: %w", err)
		}
	}
	return c.admit(hash, c.current.Load().account(row, terms))
}

// lookUp asks the store for a key that is not in the cache.
func (c *KeyCache) lookUp(ctx context.Context, hash [sha256.Size]byte) (*Account, error) {
	select {
	case c.lookups <- struct{}{}:
		defer func() { <-c.lookups }()
	case <-ctx.Done():
		return nil, fmt.Errorf("account: look up key: %w", ctx.Err())
	}
	row, err := c.store.Key(ctx, hash[:])
	if err == nil {
		now := c.current.Load()
		if terms, err := OpenTerms(now.ring, &row); err == nil {
			return c.admitStored(ctx, hash, &row, terms)
		}
	}
	answer := ErrUnknownKey
	if err == nil {
		answer, err = ErrKeyNotJudged, c.refuse(ctx, row)
	}
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("account: look up key: %w", err)
	case !c.CanJudge():
		return nil, ErrNoKeyJudged
	}
	return nil, answer
}

// CanJudge reports whether the cache can say of keys whether they are good. It cannot if the store has keys and the
// seal of none opens.
func (c *KeyCache) CanJudge() bool { return c.current.Load().canJudge() }

// Count returns how many keys are in the cache, and how many rows of the store are refused
// because their seal does not open.
func (c *KeyCache) Count() (good, refused int) {
	now := c.current.Load()
	return len(now.good), len(now.refused)
}

// CountDisabled returns how many merchants are disabled.
func (c *KeyCache) CountDisabled() int { return len(c.current.Load().disabled) }

// refuse records that the seal of a row does not open. If the rows have not been read yet, it reads all of them, so
// that [KeyCache.CanJudge] does not depend on one row.
func (c *KeyCache) refuse(ctx context.Context, row store.Key) error {
	if !c.current.Load().hasRead {
		if _, err := c.refresh(ctx, maxTimeout); err != nil {
			return err
		}
	}
	for {
		former := c.current.Load()
		if former.isRefused(&row) || c.replace(former, former.withRefused(row)) {
			return nil
		}
	}
}

// replace makes next the current snapshot if former still is. It logs the rows that next
// refuses and former did not.
func (c *KeyCache) replace(former, next *snapshot) bool {
	if !c.current.CompareAndSwap(former, next) {
		return false
	}
	count := 0
	for _, row := range next.refused {
		if former.isRefused(&row) {
			continue
		}
		if count++; count <= maxLogged { // what is in such a row cannot be trusted
			c.log.Error("API key refused: its row in the store is not as it was sealed",
				"key", KeyID(row.Hash), "merchant", row.Merchant, "created", row.Created)
		}
	}
	if more := count - maxLogged; more > 0 {
		c.log.Error("API keys refused: further rows in the store are not as they were sealed", "rows", more)
	}
	return true
}
