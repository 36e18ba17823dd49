package account_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/account"
	"github.com/openthreeds/threeds/internal/store"
)

// tamper changes the row of a key as somebody does who can write to the database.
func (b *bench) tamper(t *testing.T, hash []byte, change func(*store.Key)) {
	t.Helper()
	k, err := b.store.Store.Key(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.store.RevokeKey(t.Context(), hash); err != nil {
		t.Fatal(err)
	}
	change(&k)
	if err := b.store.PutKey(t.Context(), k); err != nil {
		t.Fatal(err)
	}
}

// row returns what the store has of a key.
func (b *bench) row(t *testing.T, key string) store.Key {
	t.Helper()
	k, err := b.store.Store.Key(t.Context(), hashOf(key))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// refusals are the lines of the log about rows, and the rows that are refused.
func (b *bench) refusals(t *testing.T, lines, rows int) {
	t.Helper()
	synctest.Wait()
	if n := strings.Count(b.log.String(), "in the store"); n != lines {
		t.Errorf("%d lines in the log, want %d:\n%s", n, lines, b.log)
	}
	if _, n := b.book.Count(); n != rows {
		t.Errorf("%d rows are refused, want %d", n, rows)
	}
}

// TestChangedRow: a key whose row was changed by hand is not judged, whether it was in use
// or has never been seen; the log says so once. When the row is as it was so is the key.
func TestChangedRow(t *testing.T) {
	for name, change := range map[string]func(k *store.Key, other store.Key){
		"merchant":     func(k *store.Key, _ store.Key) { k.Merchant = "other" },
		"strict":       func(k *store.Key, _ store.Key) { k.Strict = !k.Strict },
		"created":      func(k *store.Key, _ store.Key) { k.Created = k.Created.Add(time.Millisecond) },
		"no seal":      func(k *store.Key, _ store.Key) { k.Seal = nil },
		"another seal": func(k *store.Key, other store.Key) { k.Seal = other.Seal },
		"another row":  func(k *store.Key, other store.Key) { other.Hash = k.Hash; *k = other },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := setUp()
				key, other := b.create(t, "shop", false), b.create(t, "other", true)
				stop := b.run(t)
				time.Sleep(time.Second) // it is read
				b.want(t, key, nil)
				was := b.row(t, key)
				b.tamper(t, was.Hash, func(k *store.Key) { change(k, b.row(t, other)) })
				time.Sleep(time.Second)
				for range 3 {
					b.want(t, key, account.ErrKeyNotJudged)
					b.want(t, other, nil)
					time.Sleep(time.Second)
				}
				b.refusals(t, 1, 1)
				if line := b.log.String(); strings.Contains(line, key) || !strings.Contains(line, account.ID(was.Hash)) ||
					!strings.Contains(line, "merchant=") {
					t.Errorf("the log has the key, or does not name it: %s", line)
				}
				b.tamper(t, was.Hash, func(k *store.Key) { *k = was })
				time.Sleep(time.Second)
				b.want(t, key, nil)
				b.refusals(t, 1, 0)
				stop()

				b.tamper(t, was.Hash, func(k *store.Key) { change(k, b.row(t, other)) })
				b.log.Reset()
				b.book = account.New(b.store, b.ring, nil, slog.New(slog.NewTextHandler(b.log, nil)))
				for range 3 { // nothing was read yet: it is looked up
					b.want(t, other, nil)
					b.want(t, key, account.ErrKeyNotJudged)
				}
				defer b.run(t)()
				time.Sleep(3 * time.Second)
				b.refusals(t, 1, 1)
			})
		})
	}
}

// TestResealSealsNoChange: to seal a row anew gives no seal to what somebody has written
// into it, neither before nor after its former seal was checked.
func TestResealSealsNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setUp()
		slow := &slowKeys{keyStore: b.store}
		b.book = account.New(slow, b.ring, nil, slog.New(slog.DiscardHandler))
		good := b.create(t, "shop", false)
		var keys []string
		var hashes [][]byte
		for range 2 {
			key, err := account.Create(t.Context(), b.store, ring{"previous"}, "shop", false)
			if err != nil {
				t.Fatal(err)
			}
			keys, hashes = append(keys, key), append(hashes, hashOf(key))
		}
		steal := func(k *store.Key) { k.Merchant = "other" }
		b.tamper(t, hashes[0], steal)
		b.store.readOnly.Store(true)
		defer b.run(t)()
		b.want(t, good, nil)
		b.want(t, keys[0], account.ErrKeyNotJudged)
		b.want(t, keys[1], nil) // is to be sealed anew, as soon as the store can write
		time.Sleep(time.Second)
		slow.takes.Store(int64(time.Hour)) // the change is not seen before
		b.tamper(t, hashes[1], steal)
		b.store.readOnly.Store(false)
		time.Sleep(5 * time.Second)
		slow.takes.Store(0)
		time.Sleep(5 * time.Second)
		for _, key := range keys {
			b.want(t, key, account.ErrKeyNotJudged)
		}
		rows, err := b.store.Keys(t.Context())
		if err != nil || len(rows) != 3 {
			t.Errorf("%d keys, %v", len(rows), err)
		}
		for _, k := range rows {
			if k.Merchant == "other" && account.Sealed(b.ring, &k) {
				t.Error("a row that was changed by hand has got a seal")
			}
		}
	})
}

// TestRotationKeepsKeys goes through a whole rotation with two nodes that do not
// change at the same time: keys are good all the way and at the end, used or not, one that
// is revoked meanwhile stays so, and a copy of its row is worth nothing then.
func TestRotationKeepsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setUp()
		rings := []ring{{"a"}, {"a", "", "b"}, {"b", "a"}, {"b"}}
		b.ring = rings[0]
		var keys []string
		for range 10 {
			keys = append(keys, b.create(t, "shop", true))
		}
		revoked, unused := b.create(t, "shop", true), b.create(t, "shop", true)
		copied := b.row(t, revoked)
		nodes := [2]bench{*b, *b}
		for i := range nodes {
			nodes[i].book = account.New(b.store, rings[0], nil, slog.New(slog.DiscardHandler))
			defer nodes[i].run(t)()
		}
		use := func() {
			t.Helper()
			for range 8 {
				for i := range nodes {
					for _, key := range keys {
						a, err := nodes[i].book.Authenticate(t.Context(), key)
						if err != nil || a.Merchant.Name != "shop" || !a.Strict {
							t.Fatalf("node %d: %+v, %v", i, a, err)
						}
					}
				}
				time.Sleep(317 * time.Millisecond)
			}
		}
		use()
		for step, r := range rings[1:] {
			for i := range nodes {
				nodes[i].book.Change(r, nil)
				use()
			}
			if step == 0 {
				if err := b.store.RevokeKey(t.Context(), hashOf(revoked)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := b.store.PutKey(t.Context(), copied); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		for i := range nodes {
			nodes[i].want(t, revoked, account.ErrKeyNotJudged)
			nodes[i].want(t, unused, nil)
			if good, refused := nodes[i].book.Count(); good != len(keys)+1 || refused != 1 {
				t.Errorf("node %d: %d keys are good, %d rows refused; want %d, 1", i, good, refused, len(keys)+1)
			}
		}
	})
}

// A changingRing is replaced while a seal is looked at.
type changingRing struct {
	ring
	replace func()
}

func (r changingRing) Open(name string, sealed []byte) ([]byte, error) {
	r.replace()
	return r.ring.Open(name, sealed)
}

// TestRingChangesDuringRefresh: what the former ring has found counts no more.
func TestRingChangesDuringRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setUp()
		b.create(t, "shop", false)
		b.book = account.New(b.store, changingRing{b.ring, func() { b.book.Change(ring{"other"}, nil) }}, nil, slog.New(slog.DiscardHandler))
		defer b.run(t)()
		time.Sleep(time.Second)
		if good, refused := b.book.Count(); good != 0 || refused != 1 {
			t.Errorf("%d keys are good, %d rows refused; want 0, 1", good, refused)
		}
	})
}

// TestToldOnce: a row that a caller and a refresh find at the same time is in the log once.
func TestToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setUp()
		b.create(t, "shop", false)
		key := b.create(t, "shop", false)
		b.tamper(t, hashOf(key), func(k *store.Key) { k.Strict = true })
		var used atomic.Bool
		busy := changingRing{b.ring, func() {
			if used.CompareAndSwap(false, true) {
				if _, err := b.book.Authenticate(t.Context(), key); err == nil {
					t.Error("a row that was changed is a key")
				}
			}
		}}
		b.book = account.New(b.store, busy, nil, slog.New(slog.NewTextHandler(b.log, nil)))
		defer b.run(t)()
		time.Sleep(time.Second)
		b.refusals(t, 1, 1)
	})
}

// A countingRing counts the seals that it looks at.
type countingRing struct {
	ring
	opened *atomic.Int32
}

func (r countingRing) Open(name string, sealed []byte) ([]byte, error) {
	r.opened.Add(1)
	return r.ring.Open(name, sealed)
}

// TestSealsAreLookedAtOnce: not at each reading, but when a row is new or the ring is.
func TestSealsAreLookedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setUp()
		counted := countingRing{b.ring, new(atomic.Int32)}
		b.book = account.New(b.store, counted, nil, slog.New(slog.NewTextHandler(b.log, nil)))
		opened := func(what string, want int32) {
			t.Helper()
			time.Sleep(10 * time.Second)
			if n := counted.opened.Swap(0); n != want {
				t.Errorf("%s: %d seals were looked at, want %d", what, n, want)
			}
		}
		var keys []string
		for range 100 {
			keys = append(keys, b.create(t, "shop", false))
		}
		for _, key := range keys[:3] {
			b.tamper(t, hashOf(key), func(k *store.Key) { k.Seal = nil })
		}
		defer b.run(t)()
		opened("at the start", 100)
		opened("when nothing happens", 0)
		fresh := b.create(t, "shop", false)
		opened("with a new key", 1)
		b.want(t, keys[50], nil)
		b.want(t, fresh, nil)
		opened("when keys are used", 0)
		b.want(t, keys[0], account.ErrKeyNotJudged)
		opened("when a key that is refused is used", 1)
		b.book.Change(counted, []account.Merchant{{Name: "shop"}})
		opened("after a change", 101)
		b.refusals(t, 3, 3)
	})
}

// TestNoKeyJudged: with the key file of another store nothing is said of any key, whether
// there is a row of it or not, and whether the rows were read yet or not; until one is good.
func TestNoKeyJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stranger = "00000000-0000-0000-0000-000000000000"
		b := setUp()
		b.want(t, stranger, account.ErrUnknownKey) // there is no key at all
		key, err := account.Create(t.Context(), b.store, ring{"of another"}, "shop", false)
		if err != nil {
			t.Fatal(err)
		}
		b.want(t, key, account.ErrNoKeyJudged) // nothing was read yet
		defer b.run(t)()
		time.Sleep(time.Second)
		if !b.book.NoneJudged() {
			t.Error("the book says that it can judge a key")
		}
		asked := b.store.asked.Load()
		for _, k := range []string{key, stranger} {
			b.want(t, k, account.ErrNoKeyJudged)
		}
		if n := b.store.asked.Load() - asked; n != 0 {
			t.Errorf("the store was asked %d times for what cannot be told", n)
		}
		b.want(t, "no key", account.ErrUnknownKey)

		good := b.create(t, "shop", false)
		time.Sleep(time.Second)
		b.want(t, good, nil)
		b.want(t, key, account.ErrKeyNotJudged)
		b.want(t, stranger, account.ErrUnknownKey)

		b.book.Change(ring{"current", "of another"}, nil)
		b.want(t, key, nil) // the right secret is back
		time.Sleep(time.Second)
		b.refusals(t, 1, 0)
	})
}

// TestManyChangedRows: with the key file of another database the log stays short.
func TestManyChangedRows(t *testing.T) {
	for rows, want := range map[int]int{10: 10, 11: 11, 1000: 11} {
		synctest.Test(t, func(t *testing.T) {
			b := setUp()
			for range rows {
				if _, err := account.Create(t.Context(), b.store, ring{"of another"}, "shop", false); err != nil {
					t.Fatal(err)
				}
			}
			defer b.run(t)()
			time.Sleep(3 * time.Second)
			b.refusals(t, want, rows)
			if more := rows - 10; more > 0 && !strings.Contains(b.log.String(), "rows="+fmt.Sprint(more)) {
				t.Errorf("the log does not say how many more there are:\n%s", b.log)
			}
		})
	}
}
