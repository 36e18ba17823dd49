package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

func testKeyPutGet(c *check) {
	c.wantKeys()
	a, b := c.key(1), c.key(2)
	b.Hash[7], b.Merchant, b.Seal = 0, "", nil
	c.putKey(a)
	c.putKey(b)
	c.wantKey(a)
	c.wantKey(b)
	odd := c.key(3)
	want := odd
	odd.Created = odd.Created.Add(999_999).In(time.FixedZone("", -3600))
	c.putKey(odd)
	c.wantKey(want)
}

func testKeyMissing(c *check) {
	a := c.key(1)
	c.putKey(a)
	for _, hash := range [][]byte{nil, {}, a.Hash[:31], append(bytes.Clone(a.Hash), 1), c.key(2).Hash} {
		if got, err := c.s.Key(c.Context(), hash); !errors.Is(err, store.ErrNotFound) || !sameKey(got, store.Key{}) {
			c.Errorf("Key(%x) = %+v, %v; want ErrNotFound", hash, got, err)
		}
		if err := c.s.RevokeKey(c.Context(), hash); !errors.Is(err, store.ErrNotFound) {
			c.Errorf("RevokeKey(%x): %v, want ErrNotFound", hash, err)
		}
	}
	c.wantKey(a)
}

func testKeyTwice(c *check) {
	a := c.key(1)
	c.oneWins("PutKey", func(int) error { return c.s.PutKey(c.Context(), a) }, store.ErrExists)
	other := c.key(1)
	other.Merchant = "another"
	if err := c.s.PutKey(c.Context(), other); !errors.Is(err, store.ErrExists) {
		c.Errorf("second PutKey: %v, want ErrExists", err)
	}
	c.wantKeys(a)
}

func testKeysOrder(c *check) {
	for _, fill := range []byte{5, 1, 9, 3} {
		c.putKey(c.key(fill))
	}
	c.wantKeys(c.key(1), c.key(3), c.key(5), c.key(9))
}

// reseal checks what ResealKey returns, nil or an error of the contract.
func (c *check) reseal(hash, was, seal []byte, want error) {
	c.Helper()
	if err := c.s.ResealKey(c.Context(), hash, was, seal); !errors.Is(err, want) {
		c.Errorf("ResealKey: %v, want %v", err, want)
	}
}

func testKeyReseal(c *check) {
	a, b := c.key(1), c.key(2)
	c.putKey(a)
	c.putKey(b)
	was, seal := a.Seal, c.key(3).Seal
	c.reseal(c.key(4).Hash, was, seal, store.ErrNotFound)
	c.reseal(nil, was, seal, store.ErrNotFound)
	c.reseal(a.Hash, b.Seal, seal, store.ErrNotFound)
	c.reseal(a.Hash, nil, seal, store.ErrNotFound)
	c.wantKeys(a, b)
	c.reseal(a.Hash, was, nil, nil)
	a.Seal = nil
	c.wantKeys(a, b)
	c.reseal(a.Hash, was, seal, store.ErrNotFound)
	given := bytes.Clone(seal)
	c.reseal(a.Hash, nil, given, nil)
	clear(given)
	a.Seal = seal
	c.wantKey(a)
	c.wantKeys(a, b)
	if err := c.s.RevokeKey(c.Context(), a.Hash); err != nil {
		c.Errorf("RevokeKey: %v", err)
	}
	c.reseal(a.Hash, seal, was, store.ErrNotFound)
	c.wantKeys(b)
}

// testKeyResealAtOnce: of many ResealKeys with the same old seal one at most succeeds, and a key that is revoked at the
// same time does not come back.
func testKeyResealAtOnce(c *check) {
	a := c.key(1)
	c.putKey(a)
	var won, revoked atomic.Int32
	together(func(i int) {
		var err error
		if i == 0 {
			if err = c.s.RevokeKey(c.Context(), c.key(1).Hash); err == nil {
				revoked.Add(1)
			}
		} else if err = c.s.ResealKey(c.Context(), c.key(1).Hash, c.key(1).Seal, c.key(2).Seal); err == nil {
			won.Add(1)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			c.Errorf("ResealKey or RevokeKey: %v, want nil or ErrNotFound", err)
		}
	})
	if won.Load() > 1 || revoked.Load() != 1 {
		c.Errorf("%d ResealKeys and %d RevokeKeys of one key succeeded, want at most 1, and 1", won.Load(), revoked.Load())
	}
	c.wantKeys()
	c.putKey(a)
	c.oneWins("ResealKey", func(int) error { return c.s.ResealKey(c.Context(), a.Hash, a.Seal, c.key(2).Seal) }, store.ErrNotFound)
	a.Seal = c.key(2).Seal
	c.wantKeys(a)
}

func testKeyRevoke(c *check) {
	a, b := c.key(1), c.key(2)
	c.putKey(a)
	c.putKey(b)
	c.oneWins("RevokeKey", func(int) error { return c.s.RevokeKey(c.Context(), a.Hash) }, store.ErrNotFound)
	if _, err := c.s.Key(c.Context(), a.Hash); !errors.Is(err, store.ErrNotFound) {
		c.Errorf("Key after RevokeKey: %v, want ErrNotFound", err)
	}
	c.wantKeys(b)
	c.putKey(a)
	c.wantKeys(a, b)
}

func testKeyNoReference(c *check) {
	a := c.key(1)
	c.putKey(a)
	clear(a.Hash)
	clear(a.Seal)
	got, err := c.s.Key(c.Context(), c.key(1).Hash)
	if err != nil {
		c.Fatalf("Key: %v", err)
	}
	clear(got.Hash)
	clear(got.Seal)
	all, err := c.s.Keys(c.Context())
	if err != nil || len(all) != 1 {
		c.Fatalf("Keys = %d, %v; want 1", len(all), err)
	}
	clear(all[0].Hash)
	clear(all[0].Seal)
	c.wantKey(c.key(1))
	c.wantKeys(c.key(1))
}

// testKeysStay: keys do not expire, and are not found as transactions.
func testKeysStay(c *check) {
	a := c.key(1)
	c.putKey(a)
	c.Pass(1000 * time.Hour)
	if n, err := c.s.Sweep(c.Context(), c.Now()); n != 0 || err != nil {
		c.Errorf("Sweep = %d, %v; want 0", n, err)
	}
	c.wantKeys(a)
	c.wantMissing(string(a.Hash))
}

// testKeysUnless: each change of the keys makes a mark that was never there, even a change that restores what was there
// before. Nothing else changes the mark.
func testKeysUnless(c *check) {
	a, b := c.key(1), c.key(2)
	seen := make(map[string]bool)
	mark := c.wantKeysUnless("")
	changed := func(want ...store.Key) {
		c.Helper()
		seen[mark] = true
		c.wantKeysUnless("never a mark", want...)
		c.wantKeysUnless("", want...)
		mark = c.wantKeysUnless(mark, want...)
		if seen[mark] {
			c.Errorf("KeysUnless has the mark %q a second time, want a new one for each change", mark)
		}
		c.wantMark(mark)
	}
	c.wantMark(mark)
	c.putKey(b)
	changed(b)
	c.putKey(a)
	changed(a, b)
	c.reseal(b.Hash, b.Seal, nil, nil)
	b.Seal = nil
	changed(a, b)
	for range 2 {
		if err := c.s.RevokeKey(c.Context(), a.Hash); err != nil {
			c.Errorf("RevokeKey: %v", err)
		}
		changed(b)
		c.putKey(a)
		changed(a, b)
	}
	c.create("a", time.Millisecond)
	c.update("a", func(t *store.Txn) { t.State = "final" })
	c.Pass(time.Hour)
	if _, err := c.s.Sweep(c.Context(), c.Now()); err != nil {
		c.Errorf("Sweep: %v", err)
	}
	l := c.acquire("visa", "a", time.Minute)
	c.putState("k", "v", l)
	c.put(c.snapshot(1, 10), l, 1)
	c.wantMark(mark)
}

// testKeysUnlessAtOnce: a mark always stands for the same keys, for all readers.
func testKeysUnlessAtOnce(c *check) {
	var mu sync.Mutex
	seen := make(map[string]string)
	note := func(mark string, keys []store.Key) {
		mu.Lock()
		defer mu.Unlock()
		text := fmt.Sprint(keys)
		if before, ok := seen[mark]; ok && before != text {
			c.Errorf("KeysUnless: %q is the mark of %s and of %s", mark, before, text)
		}
		seen[mark] = text
	}
	together(func(i int) {
		k := c.key(byte(i))
		for range 2 {
			if err := c.s.PutKey(c.Context(), k); err != nil {
				c.Errorf("PutKey: %v", err)
			}
			keys, mark, err := c.s.KeysUnless(c.Context(), "")
			if err != nil {
				c.Errorf("KeysUnless: %v", err)
			}
			note(mark, keys)
			if err := c.s.RevokeKey(c.Context(), k.Hash); err != nil {
				c.Errorf("RevokeKey: %v", err)
			}
		}
	})
	note(c.wantKeysUnless(""), nil)
}
