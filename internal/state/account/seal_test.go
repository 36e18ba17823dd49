package account_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/store"
)

// tamper changes the row of a key as an attacker would who can write to the database.
func (w *world) tamper(t *testing.T, hash []byte, change func(*store.Key)) {
	t.Helper()
	k, err := w.store.Store.Key(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.RevokeKey(t.Context(), hash); err != nil {
		t.Fatal(err)
	}
	change(&k)
	if err := w.store.PutKey(t.Context(), k); err != nil {
		t.Fatal(err)
	}
}

// row returns what the store has of a key.
func (w *world) row(t *testing.T, key string) store.Key {
	t.Helper()
	k, err := w.store.Store.Key(t.Context(), hashOf(key))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// wantRefused checks how many lines the log has about refused rows, and how many rows are refused.
func (w *world) wantRefused(t *testing.T, lines, rows int) {
	t.Helper()
	synctest.Wait()
	if n := strings.Count(w.log.String(), "in the store"); n != lines {
		t.Errorf("%d lines in the log, want %d:\n%s", n, lines, w.log)
	}
	if _, n := w.cache.Count(); n != rows {
		t.Errorf("%d rows are refused, want %d", n, rows)
	}
}

// TestChangedRowIsNotJudged: a changed row is not judged, whether its key was in use or was never seen. The log says so
// once. When the row is as it was, the key is good again.
func TestChangedRowIsNotJudged(t *testing.T) {
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
				w := newWorld()
				key, other := w.create(t, "shop", false), w.create(t, "other", true)
				stop := w.run(t)
				time.Sleep(time.Second) // it is read
				synctest.Wait()
				w.want(t, key, nil)
				was := w.row(t, key)
				w.tamper(t, was.Hash, func(k *store.Key) { change(k, w.row(t, other)) })
				time.Sleep(time.Second)
				synctest.Wait()
				for range 3 {
					w.want(t, key, account.ErrKeyNotJudged)
					w.want(t, other, nil)
					time.Sleep(time.Second)
					synctest.Wait()
				}
				w.wantRefused(t, 1, 1)
				if line := w.log.String(); strings.Contains(line, key) || !strings.Contains(line, account.KeyID(was.Hash)) ||
					!strings.Contains(line, "merchant=") {
					t.Errorf("the log has the key, or does not name it: %s", line)
				}
				w.tamper(t, was.Hash, func(k *store.Key) { *k = was })
				time.Sleep(time.Second)
				synctest.Wait()
				w.want(t, key, nil)
				w.wantRefused(t, 1, 0)
				stop()

				w.tamper(t, was.Hash, func(k *store.Key) { change(k, w.row(t, other)) })
				w.log.Reset()
				w.cache = account.New(w.store, w.ring, nil, slog.New(slog.NewTextHandler(w.log, nil)))
				for range 3 { // nothing was read yet: it is looked up
					w.want(t, other, nil)
					w.want(t, key, account.ErrKeyNotJudged)
				}
				defer w.run(t)()
				time.Sleep(3 * time.Second)
				synctest.Wait()
				w.wantRefused(t, 1, 1)
			})
		})
	}
}

// TestResealSealsNoChange: a row that an attacker has changed gets no good seal when rows are resealed, whether it was
// changed before or after its old seal was checked.
func TestResealSealsNoChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		slow := &slowKeys{keyStore: w.store}
		w.cache = account.New(slow, w.ring, nil, slog.New(slog.DiscardHandler))
		good := w.create(t, "shop", false)
		var keys []string
		var hashes [][]byte
		for range 2 {
			key, err := account.Create(t.Context(), w.store, ring{"previous"}, "shop", false, account.Terms{})
			if err != nil {
				t.Fatal(err)
			}
			keys, hashes = append(keys, key), append(hashes, hashOf(key))
		}
		steal := func(k *store.Key) { k.Merchant = "other" }
		w.tamper(t, hashes[0], steal)
		w.store.readOnly.Store(true)
		defer w.run(t)()
		w.want(t, good, nil)
		w.want(t, keys[0], account.ErrKeyNotJudged)
		w.want(t, keys[1], nil) // is to be resealed, as soon as the store can write
		time.Sleep(time.Second)
		synctest.Wait()
		slow.takes.Store(int64(time.Hour)) // the change is not seen before
		w.tamper(t, hashes[1], steal)
		w.store.readOnly.Store(false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		slow.takes.Store(0)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		for _, key := range keys {
			w.want(t, key, account.ErrKeyNotJudged)
		}
		rows, err := w.store.Keys(t.Context())
		if err != nil || len(rows) != 3 {
			t.Errorf("%d keys, %v", len(rows), err)
		}
		for _, k := range rows {
			if k.Merchant == "other" && account.IsSealed(w.ring, &k) {
				t.Error("a row that was changed by hand has got a seal")
			}
		}
	})
}

// TestRotationKeepsKeys goes through a whole rotation with two nodes that do not change at
// the same time. Keys stay good throughout, used or not. A key that is revoked meanwhile stays revoked, and at the end
// a copy of its row is useless.
func TestRotationKeepsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		rings := []ring{{"a"}, {"a", "", "b"}, {"b", "a"}, {"b"}}
		w.ring = rings[0]
		var keys []string
		for range 10 {
			keys = append(keys, w.create(t, "shop", true))
		}
		revoked, unused := w.create(t, "shop", true), w.create(t, "shop", true)
		copied := w.row(t, revoked)
		nodes := [2]world{*w, *w}
		for i := range nodes {
			nodes[i].cache = account.New(w.store, rings[0], nil, slog.New(slog.DiscardHandler))
			defer nodes[i].run(t)()
		}
		use := func() {
			t.Helper()
			for range 8 {
				for i := range nodes {
					for _, key := range keys {
						a, err := nodes[i].cache.Authenticate(t.Context(), key)
						if err != nil || a.Merchant.Name != "shop" || !a.Strict {
							t.Fatalf("node %d: %+v, %v", i, a, err)
						}
					}
				}
				time.Sleep(317 * time.Millisecond)
				synctest.Wait()
			}
		}
		use()
		for step, r := range rings[1:] {
			for i := range nodes {
				nodes[i].cache.Configure(r, nil)
				use()
			}
			if step == 0 {
				if err := w.store.RevokeKey(t.Context(), hashOf(revoked)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := w.store.PutKey(t.Context(), copied); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		for i := range nodes {
			nodes[i].want(t, revoked, account.ErrKeyNotJudged)
			nodes[i].want(t, unused, nil)
			if good, refused := nodes[i].cache.Count(); good != len(keys)+1 || refused != 1 {
				t.Errorf("node %d: %d keys are good, %d rows refused; want %d, 1", i, good, refused, len(keys)+1)
			}
		}
	})
}

// A changingRing calls a function before it opens a seal.
type changingRing struct {
	ring
	before func()
}

func (r changingRing) Open(name string, sealed []byte) ([]byte, error) {
	r.before()
	return r.ring.Open(name, sealed)
}

// TestRingChangesDuringRefresh: what was found with the previous ring does not count.
func TestRingChangesDuringRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.create(t, "shop", false)
		w.cache = account.New(w.store, changingRing{w.ring, func() { w.cache.Configure(ring{"other"}, nil) }}, nil, slog.New(slog.DiscardHandler))
		defer w.run(t)()
		time.Sleep(time.Second)
		synctest.Wait()
		if good, refused := w.cache.Count(); good != 0 || refused != 1 {
			t.Errorf("%d keys are good, %d rows refused; want 0, 1", good, refused)
		}
	})
}

// TestRefusedRowIsLoggedOnce: also if a caller and a refresh find it at the same time.
func TestRefusedRowIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.create(t, "shop", false)
		key := w.create(t, "shop", false)
		w.tamper(t, hashOf(key), func(k *store.Key) { k.Strict = true })
		var used atomic.Bool
		busy := changingRing{w.ring, func() {
			if used.CompareAndSwap(false, true) {
				if _, err := w.cache.Authenticate(t.Context(), key); err == nil {
					t.Error("a row that was changed is a key")
				}
			}
		}}
		w.cache = account.New(w.store, busy, nil, slog.New(slog.NewTextHandler(w.log, nil)))
		defer w.run(t)()
		time.Sleep(time.Second)
		synctest.Wait()
		w.wantRefused(t, 1, 1)
	})
}

// A countingRing counts the seals that it opens.
type countingRing struct {
	ring
	opened *atomic.Int32
}

func (r countingRing) Open(name string, sealed []byte) ([]byte, error) {
	r.opened.Add(1)
	return r.ring.Open(name, sealed)
}

// TestSealsAreOpenedOnce: when a row or the ring is new, and not at each reading.
func TestSealsAreOpenedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		counted := countingRing{w.ring, new(atomic.Int32)}
		w.cache = account.New(w.store, counted, nil, slog.New(slog.NewTextHandler(w.log, nil)))
		opened := func(what string, want int32) {
			t.Helper()
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if n := counted.opened.Swap(0); n != want {
				t.Errorf("%s: %d seals were opened, want %d", what, n, want)
			}
		}
		var keys []string
		for range 100 {
			keys = append(keys, w.create(t, "shop", false))
		}
		for _, key := range keys[:3] {
			w.tamper(t, hashOf(key), func(k *store.Key) { k.Seal = nil })
		}
		defer w.run(t)()
		opened("at the start", 100)
		opened("when nothing happens", 0)
		fresh := w.create(t, "shop", false)
		opened("with a new key", 1)
		w.want(t, keys[50], nil)
		w.want(t, fresh, nil)
		opened("when keys are used", 0)
		w.want(t, keys[0], account.ErrKeyNotJudged)
		opened("when a key that is refused is used", 1)
		w.cache.Configure(counted, []account.Merchant{{Name: "shop"}})
		opened("after a change", 101)
		w.wantRefused(t, 3, 3)
	})
}

// TestKeyFileOfAnotherStore: no key is judged until one is good, whether there is a row of the key or not, and whether
// the rows were read yet or not.
func TestKeyFileOfAnotherStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stranger = "00000000-0000-0000-0000-000000000000"
		w := newWorld()
		w.want(t, stranger, account.ErrUnknownKey) // there is no key at all
		key, err := account.Create(t.Context(), w.store, ring{"of another"}, "shop", false, account.Terms{})
		if err != nil {
			t.Fatal(err)
		}
		w.want(t, key, account.ErrNoKeyJudged) // nothing was read yet
		defer w.run(t)()
		time.Sleep(time.Second)
		synctest.Wait()
		if w.cache.CanJudge() {
			t.Error("the cache says that it can judge a key")
		}
		asked := w.store.asked.Load()
		for _, k := range []string{key, stranger} {
			w.want(t, k, account.ErrNoKeyJudged)
		}
		if n := w.store.asked.Load() - asked; n != 0 {
			t.Errorf("the store was asked %d times for keys of which nothing can be said", n)
		}
		w.want(t, "no key", account.ErrUnknownKey)

		good := w.create(t, "shop", false)
		time.Sleep(time.Second)
		synctest.Wait()
		w.want(t, good, nil)
		w.want(t, key, account.ErrKeyNotJudged)
		w.want(t, stranger, account.ErrUnknownKey)

		w.cache.Configure(ring{"current", "of another"}, nil)
		w.want(t, key, nil) // the right secret is back
		time.Sleep(time.Second)
		synctest.Wait()
		w.wantRefused(t, 1, 0)
	})
}

// TestManyRefusedRows: with the key file of another database the log stays short.
func TestManyRefusedRows(t *testing.T) {
	for rows, want := range map[int]int{10: 10, 11: 11, 1000: 11} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			for range rows {
				if _, err := account.Create(t.Context(), w.store, ring{"of another"}, "shop", false, account.Terms{}); err != nil {
					t.Fatal(err)
				}
			}
			defer w.run(t)()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			w.wantRefused(t, want, rows)
			if more := rows - 10; more > 0 && !strings.Contains(w.log.String(), "rows="+fmt.Sprint(more)) {
				t.Errorf("the log does not say how many more there are:\n%s", w.log)
			}
		})
	}
}
