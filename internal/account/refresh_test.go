package account_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/account"
	"github.com/openthreeds/threeds/internal/store"
)

func TestStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setUp()
		met, read, made := b.create(t, "shop", false), b.create(t, "shop", false), ""
		stop := b.run(t)
		b.want(t, met, nil)
		time.Sleep(time.Second)
		made = b.create(t, "shop", false)
		b.store.down.Store(true)
		time.Sleep(time.Hour)
		b.want(t, met, nil)
		b.want(t, read, nil) // never met, but seen by a refresh
		b.want(t, made, errDown)
		b.want(t, "00000000-0000-0000-0000-000000000000", errDown)
		b.want(t, "no key", account.ErrUnknownKey)
		b.store.down.Store(false)
		b.want(t, made, nil)
		time.Sleep(time.Second)
		stop()
		if n := strings.Count(b.log.String(), "\n"); n != 2 {
			t.Errorf("%d lines in the log, want one for the fall and one for the rise:\n%s", n, b.log)
		}
		for _, key := range []string{met, read, made} {
			if strings.Contains(b.log.String(), key) {
				t.Error("a key is in the log")
			}
		}
	})
}

// TestRevokedInSlowStore: a store that answers, but slowly, lets no revoked key live on:
// all that it is good for works there, too. One that hangs is asked again in time, and
// when it is over as often as before.
func TestRevokedInSlowStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setUp()
		slow := &slowKeys{keyStore: b.store}
		b.book = account.New(slow, b.ring, nil, slog.New(slog.NewTextHandler(b.log, nil)))
		stop := b.run(t)
		for _, takes := range []time.Duration{600 * time.Millisecond, 1200 * time.Millisecond, 3 * time.Second} {
			key := b.create(t, "shop", false)
			b.want(t, key, nil)
			slow.takes.Store(int64(takes))
			if err := b.store.RevokeKey(t.Context(), hashOf(key)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(15 * time.Second)
			b.want(t, key, account.ErrUnknownKey)
		}
		key := b.create(t, "shop", false)
		b.want(t, key, nil)
		slow.takes.Store(int64(time.Hour)) // it hangs
		time.Sleep(time.Minute)
		b.want(t, key, nil)
		if err := b.store.RevokeKey(t.Context(), hashOf(key)); err != nil {
			t.Fatal(err)
		}
		slow.takes.Store(0)
		time.Sleep(5 * time.Second)
		b.want(t, key, account.ErrUnknownKey)
		// Now it is as quick as ever, and waited for no longer: one reading comes to nothing.
		key = b.create(t, "shop", false)
		b.want(t, key, nil)
		slow.takes.Store(int64(time.Hour))
		time.Sleep(600 * time.Millisecond)
		if err := b.store.RevokeKey(t.Context(), hashOf(key)); err != nil {
			t.Fatal(err)
		}
		slow.takes.Store(0)
		time.Sleep(time.Second)
		b.want(t, key, account.ErrUnknownKey)
		stop()
		if n := strings.Count(b.log.String(), "cannot be read"); n > 5 {
			t.Errorf("%d complaints, want one each time that it got slower:\n%s", n, b.log)
		}
	})
}

// TestManyKeys: a store that takes its time to list keys, and is quick to say that they are
// the same, is given that time at once when they are not.
func TestManyKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setUp()
		slow := &slowKeys{keyStore: b.store, quick: true}
		slow.takes.Store(int64(1900 * time.Millisecond))
		b.book = account.New(slow, b.ring, nil, slog.New(slog.NewTextHandler(b.log, nil)))
		key := b.create(t, "shop", false)
		defer b.run(t)()
		b.want(t, key, nil)
		time.Sleep(30 * time.Second)
		if err := b.store.RevokeKey(t.Context(), hashOf(key)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2500 * time.Millisecond)
		b.want(t, key, account.ErrUnknownKey)
	})
}

// A slowKeys takes its time to list the keys.
type slowKeys struct {
	*keyStore
	takes atomic.Int64
	quick bool // to say that they are the same
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

// TestKeysAreReadWhenTheyChange: twenty thousand of them, by each of twenty nodes, are
// not read twice a second for nothing; and once a minute all the same, for there are
// changes that a store does not tell of.
func TestKeysAreReadWhenTheyChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setUp()
		if _, err := account.Create(t.Context(), b.store, ring{"previous"}, "shop", false); err != nil {
			t.Fatal(err)
		}
		read := func(what string, d time.Duration, want int32) {
			t.Helper()
			time.Sleep(d)
			if n := b.store.read.Swap(0); n != want {
				t.Errorf("%s: the keys were read %d times, want %d", what, n, want)
			}
		}
		defer b.run(t)()
		read("at the start, and when a key has been sealed anew", time.Minute-time.Second, 2)
		read("after a minute", 2*time.Second, 1)
		time.Sleep(100 * time.Millisecond)
		fresh := b.create(t, "shop", false)
		read("with a new key", 5*time.Second, 1)
		b.want(t, fresh, nil)
		read("when keys are used", 5*time.Second, 0)
		b.want(t, b.create(t, "shop", false), nil)
		read("when a key is used as soon as it is made", 5*time.Second, 1)
		b.tamper(t, hashOf(fresh), func(k *store.Key) { k.Seal = nil })
		read("when a row is changed", 5*time.Second, 1)
		b.want(t, fresh, account.ErrKeyNotJudged)
		b.want(t, fresh, account.ErrKeyNotJudged)
		read("when a key that is refused is used", 5*time.Second, 0)
	})
}

// A wornStore says of its keys what it is told to.
type wornStore struct {
	*keyStore
	mark atomic.Value // string; none: what is true
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

// TestMarkCannotBeTrusted: whatever the mark says, a revoked key stops in the end, and
// within a second where there is none, where it goes back, or where the key has
// been looked up since.
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
				b := setUp()
				worn := &wornStore{keyStore: b.store}
				worn.mark.Store(test.marks[0])
				b.book = account.New(worn, b.ring, nil, slog.New(slog.DiscardHandler))
				key := ""
				if !test.late {
					key = b.create(t, "shop", false)
				}
				defer b.run(t)()
				time.Sleep(200 * time.Millisecond)
				if test.late {
					key = b.create(t, "shop", false)
				}
				b.want(t, key, nil)
				worn.mark.Store(test.marks[1])
				if err := b.store.RevokeKey(t.Context(), hashOf(key)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(test.stops)
				b.want(t, key, account.ErrUnknownKey)
			})
		})
	}
}

// sealedUnder checks under which secret the store has a key sealed; "" if it has no such key.
func (b *bench) sealedUnder(t *testing.T, key, want string) {
	t.Helper()
	k, err := b.store.Store.Key(t.Context(), hashOf(key))
	secret, _, _ := strings.Cut(string(k.Seal), "|")
	if secret != want {
		t.Errorf("the key is sealed under %q, %v; want %q", secret, err, want)
	}
}

// TestReseal: each key gets a seal of the current secret, used or not, so that the previous
// one may go. One of the next secret is ahead already, and one that was revoked stays so.
func TestReseal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setUp()
		create := func(secret string) string {
			key, err := account.Create(t.Context(), b.store, ring{secret}, "shop", true)
			if err != nil {
				t.Fatal(err)
			}
			return key
		}
		used, unused, next, revoked := create("previous"), create("previous"), create("next"), create("previous")
		b.store.readOnly.Store(true)
		b.book = account.New(b.store, ring{"current", "previous", "next"}, nil, slog.New(slog.NewTextHandler(b.log, nil)))
		stop := b.run(t)
		fresh := create("previous") // not in the store when it was read: looked up
		for _, key := range []string{used, fresh, next, revoked} {
			b.want(t, key, nil)
		}
		time.Sleep(10 * time.Second)
		b.sealedUnder(t, used, "previous")
		if err := b.store.RevokeKey(t.Context(), hashOf(revoked)); err != nil {
			t.Fatal(err)
		}
		b.store.readOnly.Store(false)
		for range 20 {
			b.want(t, used, nil)
			time.Sleep(100 * time.Millisecond)
		}
		for _, key := range []string{used, unused, fresh} {
			b.sealedUnder(t, key, "current")
		}
		b.sealedUnder(t, next, "next")
		b.sealedUnder(t, revoked, "")
		b.want(t, revoked, account.ErrUnknownKey)
		stop()
		if n := strings.Count(b.log.String(), "\n"); n != 2 {
			t.Errorf("%d lines in the log, want one for the fall and one for the rise:\n%s", n, b.log)
		}

		b.book = account.New(b.store, ring{"next", "current"}, nil, slog.New(slog.DiscardHandler))
		a, err := b.book.Authenticate(t.Context(), unused)
		if err != nil || a.Merchant.Name != "shop" || !a.Strict {
			t.Errorf("Authenticate after another rotation = %+v, %v", a, err)
		}
		b.book = account.New(b.store, ring{"next", "", "current"}, nil, slog.New(slog.DiscardHandler))
		defer b.run(t)()
		b.want(t, next, nil)
		b.want(t, used, nil) // by the next secret, as a node has it that is behind
		time.Sleep(2 * time.Second)
		b.sealedUnder(t, used, "current")
	})
}

// TestResealMany: after a rotation all keys are sealed anew, some at a time. A refresh that
// has read a row just before that may have it asked for a second time, which changes nothing.
func TestResealMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setUp()
		var keys []string
		for range 450 {
			key, err := account.Create(t.Context(), b.store, ring{"previous"}, "shop", false)
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, key)
		}
		counted := &resealCounter{keyStore: b.store}
		b.book = account.New(counted, b.ring, nil, slog.New(slog.NewTextHandler(b.log, nil)))
		defer b.run(t)()
		time.Sleep(time.Minute)
		for _, key := range keys {
			b.sealedUnder(t, key, "current")
		}
		if n := counted.asked.Load(); n < 450 || n > 900 {
			t.Errorf("the store was asked for %d new seals, want 450 and few more", n)
		}
		if b.log.Len() > 0 {
			t.Errorf("the log has %s", b.log)
		}
	})
}

// A resealCounter counts the seals that are made anew.
type resealCounter struct {
	*keyStore
	asked atomic.Int32
}

func (s *resealCounter) ResealKey(ctx context.Context, hash, was, seal []byte) error {
	s.asked.Add(1)
	return s.keyStore.ResealKey(ctx, hash, was, seal)
}

// TestRevokedBesideSlowWrites: a store that does not come to an end with a write
// keeps no revoked key alive.
func TestRevokedBesideSlowWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setUp()
		old, err := account.Create(t.Context(), b.store, ring{"previous"}, "shop", false)
		if err != nil {
			t.Fatal(err)
		}
		revoked := b.create(t, "shop", false)
		b.book = account.New(&hangingStore{keyStore: b.store, takes: 5 * time.Second}, b.ring, nil, slog.New(slog.DiscardHandler))
		defer b.run(t)()
		b.want(t, old, nil) // is to be sealed anew from now on
		b.want(t, revoked, nil)
		time.Sleep(2100 * time.Millisecond)
		if err := b.store.RevokeKey(t.Context(), hashOf(revoked)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		b.want(t, revoked, account.ErrUnknownKey)
	})
}

// A hangingStore takes its time for each write, and fails.
type hangingStore struct {
	*keyStore
	takes time.Duration
}

func (s *hangingStore) ResealKey(context.Context, []byte, []byte, []byte) error {
	time.Sleep(s.takes)
	return errDown
}
