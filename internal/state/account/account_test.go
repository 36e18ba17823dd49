package account_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

// ring seals under the first of several secrets; the second is the previous one. An empty secret is not there.
type ring []string

func (r ring) Seal(name string, plain []byte) []byte { return sealOf(r[0], name, plain) }

func sealOf(secret, name string, plain []byte) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(name))
	mac.Write(plain)
	return append(mac.Sum([]byte(secret+"|")), plain...)
}

func (r ring) Open(name string, sealed []byte) ([]byte, error) {
	for _, secret := range r {
		if start := len(secret) + 1 + sha256.Size; secret != "" && len(sealed) >= start {
			if plain := sealed[start:]; bytes.Equal(sealOf(secret, name, plain), sealed) {
				return plain, nil
			}
		}
	}
	return nil, errors.New("sealed under another name, or by nobody")
}

func (r ring) IsSealedByPrevious(sealed []byte) bool {
	return len(r) > 1 && r[1] != "" && bytes.HasPrefix(sealed, []byte(r[1]+"|"))
}

// hashOf is what the store has of a key.
func hashOf(key string) []byte {
	hash, _ := account.HashKey(key)
	return hash[:]
}

// A keyStore can be counted, stopped and made to fail.
type keyStore struct {
	store.Store
	down, readOnly  atomic.Bool
	asked, most, at atomic.Int32
	read            atomic.Int32 // how often all keys were
	pause           time.Duration
}

var errDown = errors.New("store is down")

func (s *keyStore) Key(ctx context.Context, hash []byte) (store.Key, error) {
	s.asked.Add(1)
	now := s.at.Add(1)
	defer s.at.Add(-1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	if s.pause > 0 {
		time.Sleep(s.pause) // in a bubble
	}
	if s.down.Load() {
		return store.Key{}, errDown
	}
	return s.Store.Key(ctx, hash)
}

func (s *keyStore) KeysUnless(ctx context.Context, mark string) ([]store.Key, string, error) {
	if s.down.Load() {
		return nil, "", errDown
	}
	keys, now, err := s.Store.KeysUnless(ctx, mark)
	if now != mark {
		s.read.Add(1)
	}
	return keys, now, err
}

func (s *keyStore) ResealKey(ctx context.Context, hash, was, seal []byte) error {
	if s.down.Load() || s.readOnly.Load() {
		return errDown
	}
	return s.Store.ResealKey(ctx, hash, was, seal)
}

// A world is a store, and the cache of its keys on one node.
type world struct {
	store *keyStore
	ring  ring
	cache *account.KeyCache
	log   *bytes.Buffer
}

func newWorld(merchants ...account.Merchant) *world {
	w := &world{store: &keyStore{Store: storetest.NewMemory(time.Now)}, ring: ring{"current", "previous"}, log: new(bytes.Buffer)}
	w.cache = account.New(w.store, w.ring, merchants, slog.New(slog.NewTextHandler(w.log, nil)))
	return w
}

func (w *world) create(t testing.TB, merchant string, strict bool) string {
	t.Helper()
	key, err := account.Create(t.Context(), w.store, w.ring, merchant, strict, account.Terms{})
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// run starts KeyCache.Run and returns how to end it.
func (w *world) run(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.cache.Run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// refresh has the cache read the store once.
func (w *world) refresh(t testing.TB) {
	t.Helper()
	if err := w.cache.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// want checks with what error a key is answered; nil: it is good.
func (w *world) want(t *testing.T, key string, want error) {
	t.Helper()
	if _, err := w.cache.Authenticate(t.Context(), key); !errors.Is(err, want) {
		t.Errorf("Authenticate: %v, want %v", err, want)
	}
}

// TestHashKeyIsPinned: another release must find the keys of this one. The hash was computed
// by another program.
func TestHashKeyIsPinned(t *testing.T) {
	hash, ok := account.HashKey("00112233-4455-6677-8899-aabbccddeeff")
	if got, want := fmt.Sprintf("%x", hash), "a8faed6abbf35c12a4b26e40f6feb19d736d90045c83b9f9a31f638d323e6811"; !ok || got != want {
		t.Errorf("HashKey = %s, %t; want %s", got, ok, want)
	}
}

// TestHashKeyTakesOneForm: a key has hyphens at its four places, and hexadecimal digits at all others.
func TestHashKeyTakesOneForm(t *testing.T) {
	const good = "00112233-4455-6677-8899-aabbccddeeff"
	for i := range good {
		if _, ok := account.HashKey(good[:i] + "x" + good[i+1:]); ok {
			t.Errorf("a key with an x at place %d has a hash", i)
		}
	}
	for _, text := range []string{"", good[1:], good + "0", strings.ReplaceAll(good, "-", "")} {
		if _, ok := account.HashKey(text); ok {
			t.Errorf("%q has a hash", text)
		}
	}
}

func TestCreateMakesDistinctKeys(t *testing.T) {
	w := newWorld()
	form := regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	seen := make(map[string]bool)
	for range 100 {
		key := w.create(t, "shop", false)
		if !form.MatchString(key) || seen[key] {
			t.Errorf("Create = %q", key)
		}
		seen[key] = true
		if _, err := w.store.Store.Key(t.Context(), hashOf(key)); err != nil {
			t.Errorf("the store does not have the hash: %v", err)
		}
	}
	if _, err := account.Create(t.Context(), w.store, w.ring, "", false, account.Terms{}); err == nil {
		t.Error("Create without a merchant is fine")
	}
	if err := w.store.Close(); err != nil {
		t.Error(err)
	}
	if key, err := account.Create(t.Context(), w.store, w.ring, "shop", false, account.Terms{}); err == nil || key != "" {
		t.Errorf("Create in a closed store = %q, %v", key, err)
	}
}

func TestAuthenticateReturnsTheMerchant(t *testing.T) {
	w := newWorld(account.Merchant{Name: "shop", RequestorID: "R1"})
	first, second := w.create(t, "shop", false), w.create(t, "shop", true)
	other := w.create(t, "without settings", false)
	old, err := account.Create(t.Context(), w.store, w.ring[1:], "shop", false, account.Terms{}) // under the previous secret
	if err != nil {
		t.Fatal(err)
	}
	var merchant *account.Merchant
	for _, test := range []struct {
		key    string
		name   string
		id     string
		strict bool
	}{{first, "shop", "R1", false}, {second, "shop", "R1", true}, {old, "shop", "R1", false}, {other, "without settings", "", false}} {
		for range 2 {
			a, err := w.cache.Authenticate(t.Context(), test.key)
			if err != nil {
				t.Fatal(err)
			}
			if a.Merchant.Name != test.name || a.Merchant.RequestorID != test.id || a.Strict != test.strict {
				t.Errorf("Authenticate = %+v of %+v, want %+v", a, a.Merchant, test)
			}
			if test.name == "shop" && merchant != nil && a.Merchant != merchant {
				t.Error("two keys of a merchant have two of him")
			}
			if test.name == "shop" {
				merchant = a.Merchant
			}
		}
	}
	w.store.asked.Store(0)
	for _, bad := range []string{
		"", "x", first[:35], first + "0", first[:35] + "g", strings.ReplaceAll(first, "-", "0"), strings.Repeat("-", 36), strings.Repeat("g", 36),
	} {
		w.want(t, bad, account.ErrUnknownKey)
	}
	if n := w.store.asked.Load(); n != 0 {
		t.Errorf("the store was asked %d times for what is no key", n)
	}
	w.want(t, "00000000-0000-0000-0000-000000000000", account.ErrUnknownKey)
}

// TestG3aCapitalsAreTheSameKey: some systems store identifiers in capital letters.
func TestG3aCapitalsAreTheSameKey(t *testing.T) {
	want, _ := account.HashKey("00112233-4455-6677-8899-aabbccddeeff")
	for _, key := range []string{"00112233-4455-6677-8899-AABBCCDDEEFF", "00112233-4455-6677-8899-aAbBcCdDeEfF"} {
		if hash, ok := account.HashKey(key); !ok || hash != want {
			t.Errorf("HashKey(%q) = %x, %t; want %x", key, hash, ok, want)
		}
	}
}

// TestNewKeyWorksAtOnce: even if it was asked for before it was made.
func TestNewKeyWorksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer w.run(t)()
		synctest.Wait()
		for range 10 {
			key := "01234567-0000-0000-0000-000000000000"
			w.want(t, key, account.ErrUnknownKey)
			if err := w.store.PutKey(t.Context(), account.NewRow(w.ring, key, "shop", false, account.Terms{})); err != nil {
				t.Fatal(err)
			}
			w.want(t, key, nil)
			if err := w.store.RevokeKey(t.Context(), hashOf(key)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			w.want(t, key, account.ErrUnknownKey)
		}
	})
}

// TestRevokedKeyStopsWithinASecond: revoked at any moment between two refreshes.
func TestRevokedKeyStopsWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		defer w.run(t)()
		for i := range 20 {
			key := w.create(t, "shop", false)
			w.want(t, key, nil)
			time.Sleep(time.Duration(i) * 37 * time.Millisecond)
			w.want(t, key, nil)
			if err := w.store.RevokeKey(t.Context(), hashOf(key)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			w.want(t, key, account.ErrUnknownKey)
		}
	})
}

// TestFloodOfUnknownKeys: unknown keys wait for each other, and known keys do not wait.
func TestFloodOfUnknownKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		good := w.create(t, "shop", false)
		w.refresh(t)
		w.store.pause = 10 * time.Millisecond
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() { w.want(t, fmt.Sprintf("00000000-0000-0000-0000-%012x", i), account.ErrUnknownKey) })
		}
		synctest.Wait()
		before := time.Now()
		w.want(t, good, nil)
		if waited := time.Since(before); waited != 0 {
			t.Errorf("a good key waited %v", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := w.cache.Authenticate(ctx,
			"11111111-0000-0000-0000-000000000000"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, account.ErrUnknownKey) {
			t.Errorf("unknown key that could not be looked up in time: %v", err)
		}
		wg.Wait()
		if n := w.store.most.Load(); n != 4 {
			t.Errorf("%d look-ups at once, want 4", n)
		}
	})
}

// TestRevokedDuringLookUp: a key that is revoked while it is looked up works no longer than
// others do.
func TestRevokedDuringLookUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		key := w.create(t, "shop", false)
		slow := &slowStore{keyStore: w.store, after: 600 * time.Millisecond}
		w.cache = account.New(slow, w.ring, nil, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		time.AfterFunc(100*time.Millisecond, func() { wg.Go(func() { w.cache.Run(ctx) }) })
		time.AfterFunc(50*time.Millisecond, func() { _ = w.store.RevokeKey(ctx, hashOf(key)) })
		w.want(t, key, nil) // asked at 0, revoked at 50, refreshed at 100, answered at 600
		slow.after = 0
		w.want(t, key, account.ErrUnknownKey)
		cancel()
		wg.Wait()
	})
}

// A slowStore answers long after it has looked.
type slowStore struct {
	*keyStore
	after time.Duration
}

func (s *slowStore) Key(ctx context.Context, hash []byte) (store.Key, error) {
	k, err := s.keyStore.Key(ctx, hash)
	time.Sleep(s.after)
	return k, err
}

func TestRequestorOfADirectory(t *testing.T) {
	m := account.Merchant{Name: "shop", RequestorID: "R", RequestorName: "Shop", PerDirectory: map[string]account.Requestor{
		"visa": {ID: "V"}, "jcb": {Name: "J"}, "amex": {ID: "A", Name: "AX"},
	}}
	for scheme, want := range map[string]account.Requestor{
		"visa": {ID: "V", Name: "Shop"}, "jcb": {ID: "R", Name: "J"}, "amex": {ID: "A", Name: "AX"}, "upi": {ID: "R", Name: "Shop"},
	} {
		if got := m.Requestor(scheme); got != want {
			t.Errorf("Requestor(%q) = %+v, want %+v", scheme, got, want)
		}
	}
	if got := new(account.Merchant).Requestor("visa"); got != (account.Requestor{}) {
		t.Errorf("Requestor without settings = %+v", got)
	}
}

func TestCachePrintsNoSecret(t *testing.T) {
	w := newWorld()
	key := w.create(t, "shop", false)
	w.refresh(t)
	w.want(t, key, nil)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		if out := fmt.Sprintf(verb, w.cache); strings.Contains(out, key) || strings.Contains(out, fmt.Sprintf("%x", key)) {
			t.Errorf("%s shows a key", verb)
		}
	}
}

func TestKnownKeyAllocatesNothing(t *testing.T) {
	w := newWorld()
	key := w.create(t, "shop", false)
	w.refresh(t)
	asked := w.store.asked.Load()
	if n := testing.AllocsPerRun(1000, func() { _, _ = w.cache.Authenticate(t.Context(), key) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
	if n := w.store.asked.Load() - asked; n != 0 {
		t.Errorf("the store was asked %d times for a known key", n)
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	s := newWorld()
	key := s.create(b, "shop", false)
	s.refresh(b)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.cache.Authenticate(b.Context(), key); err != nil {
				b.Error(err)
			}
		}
	})
}

// TestConfigureHoldsAtOnce: for keys that are known, even while the store is down.
func TestConfigureHoldsAtOnce(t *testing.T) {
	w := newWorld(account.Merchant{Name: "Shop", RequestorID: "1"})
	shop, old := w.create(t, "Shop", true), ring{"previous"}
	former, err := account.Create(t.Context(), w.store, old, "Former", false, account.Terms{})
	if err != nil {
		t.Fatal(err)
	}
	w.refresh(t)
	w.store.down.Store(true)
	w.cache.Configure(w.ring, []account.Merchant{{Name: "Shop", RequestorID: "2"}})
	got, err := w.cache.Authenticate(t.Context(), shop)
	if err != nil || got.Merchant.RequestorID != "2" || !got.Strict {
		t.Errorf("after the change: %+v %v", got, err)
	}
	w.want(t, former, nil)
	w.cache.Configure(ring{"current"}, nil)
	if got, err := w.cache.Authenticate(t.Context(), shop); err != nil || got.Merchant.RequestorID != "" || got.Merchant.Name != "Shop" {
		t.Errorf("without a profile: %+v %v", got, err)
	}
	w.store.down.Store(false)
	w.want(t, former, account.ErrKeyNotJudged) // its secret is gone
}
