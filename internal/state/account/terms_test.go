package account_test

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

// The two secrets of key files, in base64.
var (
	firstSecret  = strings.Repeat("A", 43) + "="
	secondSecret = strings.Repeat("B", 42) + "A="
)

// loadRing returns the ring of a key file with some content.
func loadRing(t *testing.T, content string) *keyring.Ring {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	ring, err := keyring.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// TestD107TermsOutliveARotation: what a key may do stays the same when another node seals its row under the next
// secret. Without the secret it cannot be read or changed.
func TestD107TermsOutliveARotation(t *testing.T) {
	before := loadRing(t, `{"current": "`+firstSecret+`"}`)
	rotated := loadRing(t, `{"current": "`+secondSecret+`", "previous": "`+firstSecret+`"}`)
	after := loadRing(t, `{"current": "`+secondSecret+`"}`)
	synctest.Test(t, func(t *testing.T) {
		want := account.Terms{
			Label: "till 7", Expires: time.Now().Add(time.Hour).UTC(), Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		}
		w := newWorld()
		key, err := account.Create(t.Context(), w.store, before, "shop", false, want)
		if err != nil {
			t.Fatal(err)
		}
		w.cache.Configure(rotated, nil)
		stop := w.run(t)
		time.Sleep(5 * time.Second)
		stop()
		rows, err := w.store.Keys(t.Context())
		if err != nil || len(rows) != 1 || strings.Contains(string(rows[0].Seal), want.Label) {
			t.Fatalf("%d rows, %v; want one that does not show its label", len(rows), err)
		}
		got, err := account.OpenTerms(after, &rows[0])
		if err != nil || got.Label != want.Label || !got.Expires.Equal(want.Expires) || len(got.Allow) != 1 || got.Allow[0] != want.Allow[0] {
			t.Errorf("terms after the rotation: %+v, %v; want %+v", got, err, want)
		}
		w.cache.Configure(after, nil)
		w.want(t, key, nil)
	})
}

// TestD107ExpiredKeyIsUnknown: from the moment of its end on a key is unknown, in memory or not.
func TestD107ExpiredKeyIsUnknown(t *testing.T) {
	ring := loadRing(t, `{"current": "`+firstSecret+`"}`)
	for _, isCached := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			w.cache.Configure(ring, nil)
			key, err := account.Create(t.Context(), w.store, ring, "shop", false, account.Terms{Expires: time.Now().Add(time.Hour)})
			if err != nil {
				t.Fatal(err)
			}
			if isCached {
				w.refresh(t)
			}
			time.Sleep(time.Hour - 1)
			w.want(t, key, nil)
			time.Sleep(time.Nanosecond)
			w.want(t, key, account.ErrUnknownKey)
		})
	}
}

// TestD107LastUseIsKeptToAMinute: two nodes write when keys were used, and the later use counts. No node reads the keys
// again because of it, and nothing is left of keys that were revoked.
func TestD107LastUseIsKeptToAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		other := account.New(w.store, w.ring, nil, slog.New(slog.DiscardHandler))
		used, unused := w.create(t, "shop", false), w.create(t, "shop", false)
		w.refresh(t)
		for _, c := range []*account.KeyCache{w.cache, other} {
			go c.RunUses(t.Context(), w.store)
		}
		lastUses := func() []time.Time {
			rows := []store.Key{{Hash: hashOf(used)}, {Hash: hashOf(unused)}}
			last, err := account.LastUses(t.Context(), w.store, rows)
			if err != nil {
				t.Fatal(err)
			}
			return last
		}
		use := func(c *account.KeyCache) (at time.Time) {
			if _, err := c.Authenticate(t.Context(), used); err != nil {
				t.Error(err)
			}
			at = time.Now()
			time.Sleep(time.Minute)
			return at
		}
		_, mark, err := w.store.KeysUnless(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []*account.KeyCache{w.cache, other, w.cache} {
			at := use(c).Truncate(time.Minute)
			if got := lastUses(); !got[0].Equal(at) || !got[1].IsZero() {
				t.Errorf("last uses %v, want %v and never", got, at)
			}
		}
		if _, now, err := w.store.KeysUnless(t.Context(), mark); now != mark || err != nil {
			t.Errorf("the mark of the keys is %q, %v; it was %q", now, err, mark)
		}
	})
}

// A countedStore counts the values that are written.
type countedStore struct {
	store.Store
	writes int
}

func (s *countedStore) PutState(ctx context.Context, key string, value []byte, lease store.Lease) error {
	s.writes++
	return s.Store.PutState(ctx, key, value, lease)
}

// TestD107LastUseIsWrittenLazily: however often a key is used, it costs at most one write a minute, and none while it
// is not used.
func TestD107LastUseIsWrittenLazily(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		counted := &countedStore{Store: storetest.NewMemory(time.Now)}
		key := w.create(t, "shop", false)
		w.refresh(t)
		go w.cache.RunUses(t.Context(), counted)
		for range 600 {
			w.want(t, key, nil)
			time.Sleep(time.Second)
		}
		time.Sleep(time.Hour)
		if counted.writes < 10 || counted.writes > 11 {
			t.Errorf("%d writes in ten minutes of use, want 10 or 11", counted.writes)
		}
	})
}

// TestTermsAllowTheirNetworks: a key with networks is good from addresses in one of them, and from no other; a key
// without networks is good from everywhere.
func TestTermsAllowTheirNetworks(t *testing.T) {
	some := account.Terms{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}}
	for text, want := range map[string]bool{"192.0.2.7": true, "2001:db8::1": true, "192.0.3.7": false, "2001:db9::1": false} {
		if got := some.Allows(netip.MustParseAddr(text)); got != want {
			t.Errorf("from %s: %t, want %t", text, got, want)
		}
		if !new(account.Terms).Allows(netip.MustParseAddr(text)) {
			t.Errorf("without networks from %s: refused", text)
		}
	}
	if some.Allows(netip.Addr{}) {
		t.Error("an address that is not valid is in a network")
	}
}
