package account_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/store"
)

// TestStoreIsDown: keys in the cache go on working, and other keys are not judged.
func TestStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		met, read, made := w.create(t, "shop", false), w.create(t, "shop", false), ""
		stop := w.run(t)
		w.want(t, met, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		made = w.create(t, "shop", false)
		w.store.down.Store(true)
		time.Sleep(time.Hour)
		synctest.Wait()
		w.want(t, met, nil)
		w.want(t, read, nil) // never used, but read by a refresh
		w.want(t, made, errDown)
		w.want(t, "00000000-0000-0000-0000-000000000000", errDown)
		w.want(t, "no key", account.ErrUnknownKey)
		w.store.down.Store(false)
		w.want(t, made, nil)
		time.Sleep(time.Second)
		synctest.Wait()
		stop()
		if n := strings.Count(w.log.String(), "\n"); n != 2 {
			t.Errorf("%d lines in the log, want one for the fall and one for the rise:\n%s", n, w.log)
		}
		for _, key := range []string{met, read, made} {
			if strings.Contains(w.log.String(), key) {
				t.Error("a key is in the log")
			}
		}
	})
}

// TestRevokedInSlowStore: a revoked key also stops working if the store answers slowly. A store that hangs is asked
// less often, and as often as before when it answers again.
func TestRevokedInSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		slow := &slowKeys{keyStore: w.store}
		w.cache = account.New(slow, w.ring, nil, slog.New(slog.NewTextHandler(w.log, nil)))
		stop := w.run(t)
		for _, takes := range []time.Duration{600 * time.Millisecond, 1200 * time.Millisecond, 3 * time.Second} {
			key := w.create(t, "shop", false)
			time.Sleep(15 * time.Second) // it is read
			synctest.Wait()
			w.want(t, key, nil)
			slow.takes.Store(int64(takes))
			if err := w.store.RevokeKey(t.Context(), hashOf(key)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(15 * time.Second)
			synctest.Wait()
			w.want(t, key, account.ErrUnknownKey)
		}
		key := w.create(t, "shop", false)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		w.want(t, key, nil)
		slow.takes.Store(int64(time.Hour)) // it hangs
		time.Sleep(time.Minute)
		synctest.Wait()
		w.want(t, key, nil)
		if err := w.store.RevokeKey(t.Context(), hashOf(key)); err != nil {
			t.Fatal(err)
		}
		slow.takes.Store(0)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		w.want(t, key, account.ErrUnknownKey)
		// Now the store is quick again, and has a short timeout again: one reading fails.
		key = w.create(t, "shop", false)
		time.Sleep(time.Second)
		synctest.Wait()
		w.want(t, key, nil)
		slow.takes.Store(int64(time.Hour))
		time.Sleep(600 * time.Millisecond)
		synctest.Wait()
		if err := w.store.RevokeKey(t.Context(), hashOf(key)); err != nil {
			t.Fatal(err)
		}
		slow.takes.Store(0)
		time.Sleep(time.Second)
		synctest.Wait()
		w.want(t, key, account.ErrUnknownKey)
		stop()
		if n := strings.Count(w.log.String(), "cannot be read"); n > 5 {
			t.Errorf("%d complaints, want one each time that it got slower:\n%s", n, w.log)
		}
	})
}

// TestStoreThatIsSlowToListKeys: if a store is quick to say that keys are the same, and slow to list them, the first
// listing after a change gets enough time.
func TestStoreThatIsSlowToListKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		slow := &slowKeys{keyStore: w.store, quick: true}
		slow.takes.Store(int64(1900 * time.Millisecond))
		w.cache = account.New(slow, w.ring, nil, slog.New(slog.NewTextHandler(w.log, nil)))
		key := w.create(t, "shop", false)
		defer w.run(t)()
		w.want(t, key, nil)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if err := w.store.RevokeKey(t.Context(), hashOf(key)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		w.want(t, key, account.ErrUnknownKey)
	})
}

// A slowKeys takes a time to list the keys.
type slowKeys struct {
	*keyStore
	takes atomic.Int64
	quick bool // it takes no time to say that they are the same
}

func (s *slowKeys) KeysUnless(ctx context.Context, mark string) ([]store.Key, string, error) {
	takes := time.Duration(s.takes.Load())
	if _, now, err := s.Store.KeysUnless(ctx, mark); s.quick && err == nil && now == mark {
		takes = 0
	}
	select {
	case <-time.After(takes):
		return s.keyStore.KeysUnless(ctx, mark)
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
}

// TestKeysAreReadWhenTheyChange: twenty nodes do not read twenty thousand keys twice a second without a reason. They
// read them once a minute in any case, because there are changes that a store does not notice.
func TestKeysAreReadWhenTheyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		if _, err := account.Create(t.Context(), w.store, ring{"previous"}, "shop", false, account.Terms{}); err != nil {
			t.Fatal(err)
		}
		read := func(what string, d time.Duration, want int32) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if n := w.store.read.Swap(0); n != want {
				t.Errorf("%s: the keys were read %d times, want %d", what, n, want)
			}
		}
		defer w.run(t)()
		read("at the start, and when a key has been sealed anew", time.Minute-time.Second, 2)
		read("after a minute", 2*time.Second, 1)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		fresh := w.create(t, "shop", false)
		read("with a new key", 5*time.Second, 1)
		w.want(t, fresh, nil)
		read("when keys are used", 5*time.Second, 0)
		w.want(t, w.create(t, "shop", false), nil)
		read("when a key is used as soon as it is made", 5*time.Second, 1)
		w.tamper(t, hashOf(fresh), func(k *store.Key) { k.Seal = nil })
		read("when a row is changed", 5*time.Second, 1)
		w.want(t, fresh, account.ErrKeyNotJudged)
		w.want(t, fresh, account.ErrKeyNotJudged)
		read("when a key that is refused is used", 5*time.Second, 0)
	})
}

// A wornStore reports the mark of its keys that the test sets.
type wornStore struct {
	*keyStore
	mark atomic.Value // string; if there is none it has the true one
}

func (s *wornStore) KeysUnless(ctx context.Context, mark string) ([]store.Key, string, error) {
	now, ok := s.mark.Load().(string)
	if !ok {
		return s.keyStore.KeysUnless(ctx, mark)
	}
	if now != "" && now == mark {
		return nil, now, nil
	}
	keys, _, err := s.keyStore.KeysUnless(ctx, "")
	return keys, now, err
}

// TestMarkCannotBeTrusted: whatever the mark says, a revoked key stops working within a minute. It stops within a
// second if there is no mark, if the mark goes back, or if the key was never read.
func TestMarkCannotBeTrusted(t *testing.T) {
	for name, test := range map[string]struct {
		marks [2]string // before and after the key is revoked
		late  bool      // the key is made when the others have been read
		stops time.Duration
	}{
		"no mark":           {[2]string{"", ""}, false, time.Second},
		"gone":              {[2]string{"2", ""}, false, time.Second},
		"gone back":         {[2]string{"2", "1"}, false, time.Second},
		"stuck":             {[2]string{"2", "2"}, false, time.Minute + time.Second},
		"made and gone":     {[2]string{"2", "2"}, true, time.Second}, // by a failover to what was before both
		"made, and no mark": {[2]string{"", ""}, true, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				worn := &wornStore{keyStore: w.store}
				worn.mark.Store(test.marks[0])
				w.cache = account.New(worn, w.ring, nil, slog.New(slog.DiscardHandler))
				key := ""
				if !test.late {
					key = w.create(t, "shop", false)
				}
				defer w.run(t)()
				time.Sleep(200 * time.Millisecond)
				synctest.Wait()
				if test.late {
					key = w.create(t, "shop", false)
				}
				w.want(t, key, nil)
				worn.mark.Store(test.marks[1])
				if err := w.store.RevokeKey(t.Context(), hashOf(key)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(test.stops)
				synctest.Wait()
				w.want(t, key, account.ErrUnknownKey)
			})
		})
	}
}

// sealedUnder checks under which secret the store has a key sealed; "" if it has no such key.
func (w *world) sealedUnder(t *testing.T, key, want string) {
	t.Helper()
	k, err := w.store.Store.Key(t.Context(), hashOf(key))
	secret, _, _ := strings.Cut(string(k.Seal), "|")
	if secret != want {
		t.Errorf("the key is sealed under %q, %v; want %q", secret, err, want)
	}
}

// TestResealGivesEachKeyTheCurrentSecret: all keys are resealed, used or not, so that the previous secret may leave the
// file. A key that is sealed under the next secret stays so, and a revoked key stays revoked.
func TestResealGivesEachKeyTheCurrentSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		create := func(secret string) string {
			key, err := account.Create(t.Context(), w.store, ring{secret}, "shop", true, account.Terms{})
			if err != nil {
				t.Fatal(err)
			}
			return key
		}
		used, unused, next, revoked := create("previous"), create("previous"), create("next"), create("previous")
		w.store.readOnly.Store(true)
		w.cache = account.New(w.store, ring{"current", "previous", "next"}, nil, slog.New(slog.NewTextHandler(w.log, nil)))
		stop := w.run(t)
		fresh := create("previous") // made after the store was read: looked up
		for _, key := range []string{used, fresh, next, revoked} {
			w.want(t, key, nil)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		w.sealedUnder(t, used, "previous")
		if err := w.store.RevokeKey(t.Context(), hashOf(revoked)); err != nil {
			t.Fatal(err)
		}
		w.store.readOnly.Store(false)
		for range 20 {
			w.want(t, used, nil)
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		for _, key := range []string{used, unused, fresh} {
			w.sealedUnder(t, key, "current")
		}
		w.sealedUnder(t, next, "next")
		w.sealedUnder(t, revoked, "")
		w.want(t, revoked, account.ErrUnknownKey)
		stop()
		if n := strings.Count(w.log.String(), "\n"); n != 2 {
			t.Errorf("%d lines in the log, want one for the fall and one for the rise:\n%s", n, w.log)
		}

		w.cache = account.New(w.store, ring{"next", "current"}, nil, slog.New(slog.DiscardHandler))
		a, err := w.cache.Authenticate(t.Context(), unused)
		if err != nil || a.Merchant.Name != "shop" || !a.Strict {
			t.Errorf("Authenticate after another rotation = %+v, %v", a, err)
		}
		w.cache = account.New(w.store, ring{"next", "", "current"}, nil, slog.New(slog.DiscardHandler))
		defer w.run(t)()
		w.want(t, next, nil)
		w.want(t, used, nil) // sealed under the next secret of a node that is one step behind
		time.Sleep(2 * time.Second)
		synctest.Wait()
		w.sealedUnder(t, used, "current")
	})
}

// TestResealOfManyKeys: after a rotation all keys are resealed, some at a time. If a refresh read a row just before,
// the row may be resealed a second time, which changes nothing.
func TestResealOfManyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var keys []string
		for range 450 {
			key, err := account.Create(t.Context(), w.store, ring{"previous"}, "shop", false, account.Terms{})
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, key)
		}
		counted := &resealCounter{keyStore: w.store}
		w.cache = account.New(counted, w.ring, nil, slog.New(slog.NewTextHandler(w.log, nil)))
		defer w.run(t)()
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, key := range keys {
			w.sealedUnder(t, key, "current")
		}
		if n := counted.asked.Load(); n < 450 || n > 900 {
			t.Errorf("the store was asked for %d new seals, want 450 and few more", n)
		}
		if w.log.Len() > 0 {
			t.Errorf("the log has %s", w.log)
		}
	})
}

// A resealCounter counts reseals.
type resealCounter struct {
	*keyStore
	asked atomic.Int32
}

func (s *resealCounter) ResealKey(ctx context.Context, hash, was, seal []byte) error {
	s.asked.Add(1)
	return s.keyStore.ResealKey(ctx, hash, was, seal)
}

// TestRevokedBesideSlowWrites: a store that hangs in a write keeps no revoked key alive.
func TestRevokedBesideSlowWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		old, err := account.Create(t.Context(), w.store, ring{"previous"}, "shop", false, account.Terms{})
		if err != nil {
			t.Fatal(err)
		}
		revoked := w.create(t, "shop", false)
		w.cache = account.New(&hangingStore{keyStore: w.store, takes: 5 * time.Second}, w.ring, nil, slog.New(slog.DiscardHandler))
		defer w.run(t)()
		w.want(t, old, nil) // is to be resealed from now on
		w.want(t, revoked, nil)
		time.Sleep(2100 * time.Millisecond)
		synctest.Wait()
		if err := w.store.RevokeKey(t.Context(), hashOf(revoked)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		w.want(t, revoked, account.ErrUnknownKey)
	})
}

// A hangingStore takes a time for each write, and fails.
type hangingStore struct {
	*keyStore
	takes time.Duration
}

func (s *hangingStore) ResealKey(context.Context, []byte, []byte, []byte) error {
	time.Sleep(s.takes)
	return errDown
}
