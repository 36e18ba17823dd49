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
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/account"
	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/internal/store/storetest"
)

// ring seals under the first of several secrets, of which the second is the previous one. An
// empty one is not there.
type ring []string

func (r ring) Seal(name string, _ []byte) []byte { return sealOf(r[0], name) }

func sealOf(secret, name string) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(name))
	return mac.Sum([]byte(secret + "|"))
}

func (r ring) Open(name string, sealed []byte) ([]byte, error) {
	if !slices.ContainsFunc(r, func(secret string) bool { return secret != "" && bytes.Equal(sealOf(secret, name), sealed) }) {
		return nil, errors.New("sealed under another name, or by nobody")
	}
	return nil, nil
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

type bench struct {
	store *keyStore
	ring  ring
	book  *account.Book
	log   *bytes.Buffer
}

func setUp(merchants ...account.Merchant) *bench {
	b := &bench{store: &keyStore{Store: storetest.NewMemory(time.Now)}, ring: ring{"current", "previous"}, log: new(bytes.Buffer)}
	b.book = account.New(b.store, b.ring, merchants, slog.New(slog.NewTextHandler(b.log, nil)))
	return b
}

func (b *bench) create(t testing.TB, merchant string, strict bool) string {
	t.Helper()
	key, err := account.Create(t.Context(), b.store, b.ring, merchant, strict)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// run starts the refresher and returns how to end it.
func (b *bench) run(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.book.Run(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

func (b *bench) want(t *testing.T, key string, want error) {
	t.Helper()
	if _, err := b.book.Authenticate(t.Context(), key); !errors.Is(err, want) {
		t.Errorf("Authenticate: %v, want %v", err, want)
	}
}

// TestHashKey pins what is stored: another release must find the keys of this one. It was
// computed by another program.
func TestHashKey(t *testing.T) {
	hash, ok := account.HashKey("00112233-4455-6677-8899-aabbccddeeff")
	if got, want := fmt.Sprintf("%x", hash), "a8faed6abbf35c12a4b26e40f6feb19d736d90045c83b9f9a31f638d323e6811"; !ok || got != want {
		t.Errorf("HashKey = %s, %t; want %s", got, ok, want)
	}
}

func TestCreate(t *testing.T) {
	b := setUp()
	form := regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	seen := make(map[string]bool)
	for range 100 {
		key := b.create(t, "shop", false)
		if !form.MatchString(key) || seen[key] {
			t.Errorf("Create = %q", key)
		}
		seen[key] = true
		if _, err := b.store.Store.Key(t.Context(), hashOf(key)); err != nil {
			t.Errorf("the store does not have the hash: %v", err)
		}
	}
	if _, err := account.Create(t.Context(), b.store, b.ring, "", false); err == nil {
		t.Error("Create without a merchant is fine")
	}
	if err := b.store.Close(); err != nil {
		t.Error(err)
	}
	if key, err := account.Create(t.Context(), b.store, b.ring, "shop", false); err == nil || key != "" {
		t.Errorf("Create in a closed store = %q, %v", key, err)
	}
}

func TestAuthenticate(t *testing.T) {
	b := setUp(account.Merchant{Name: "shop", RequestorID: "R1"})
	first, second := b.create(t, "shop", false), b.create(t, "shop", true)
	other := b.create(t, "without settings", false)
	old, err := account.Create(t.Context(), b.store, b.ring[1:], "shop", false) // under the previous secret
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
			a, err := b.book.Authenticate(t.Context(), test.key)
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
	b.store.asked.Store(0)
	for _, bad := range []string{
		"", "x", first[:35], first + "0", strings.ToUpper(first[:35]) + "F", strings.ReplaceAll(first, "-", "0"), strings.Repeat("-", 36), strings.Repeat("g", 36),
	} {
		b.want(t, bad, account.ErrUnknownKey)
	}
	if n := b.store.asked.Load(); n != 0 {
		t.Errorf("the store was asked %d times for what is no key", n)
	}
	b.want(t, "00000000-0000-0000-0000-000000000000", account.ErrUnknownKey)
}

// TestNewKeyWorksAtOnce: also when it was asked for before it was made.
func TestNewKeyWorksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setUp()
		defer b.run(t)()
		synctest.Wait()
		for range 10 {
			key := "01234567-0000-0000-0000-000000000000"
			b.want(t, key, account.ErrUnknownKey)
			if err := b.store.PutKey(t.Context(), account.Row(b.ring, key, "shop", false)); err != nil {
				t.Fatal(err)
			}
			b.want(t, key, nil)
			if err := b.store.RevokeKey(t.Context(), hashOf(key)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			b.want(t, key, account.ErrUnknownKey)
		}
	})
}

// TestRevoked revokes at any moment between two refreshes.
func TestRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setUp()
		defer b.run(t)()
		for i := range 20 {
			key := b.create(t, "shop", false)
			b.want(t, key, nil)
			time.Sleep(time.Duration(i) * 37 * time.Millisecond)
			b.want(t, key, nil)
			if err := b.store.RevokeKey(t.Context(), hashOf(key)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			b.want(t, key, account.ErrUnknownKey)
		}
	})
}

// TestFlood: wrong keys wait for each other, good ones for nobody.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setUp()
		good := b.create(t, "shop", false)
		b.want(t, good, nil)
		b.store.pause = 10 * time.Millisecond
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() { b.want(t, fmt.Sprintf("00000000-0000-0000-0000-%012x", i), account.ErrUnknownKey) })
		}
		synctest.Wait()
		before := time.Now()
		b.want(t, good, nil)
		if waited := time.Since(before); waited != 0 {
			t.Errorf("a good key waited %v", waited)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := b.book.Authenticate(ctx, "11111111-0000-0000-0000-000000000000"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, account.ErrUnknownKey) {
			t.Errorf("unknown key that could not be looked up in time: %v", err)
		}
		wg.Wait()
		if n := b.store.most.Load(); n != 4 {
			t.Errorf("%d look-ups at once, want 4", n)
		}
	})
}

// TestRevokedDuringLookUp: a key that is revoked while it is looked up is not
// remembered for longer than others.
func TestRevokedDuringLookUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setUp()
		key := b.create(t, "shop", false)
		slow := &slowStore{keyStore: b.store, after: 600 * time.Millisecond}
		b.book = account.New(slow, b.ring, nil, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		time.AfterFunc(100*time.Millisecond, func() { wg.Go(func() { b.book.Run(ctx) }) })
		time.AfterFunc(50*time.Millisecond, func() { _ = b.store.RevokeKey(ctx, hashOf(key)) })
		b.want(t, key, nil) // asked at 0, revoked at 50, refreshed at 100, answered at 600
		slow.after = 0
		b.want(t, key, account.ErrUnknownKey)
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

func TestRequestor(t *testing.T) {
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

func TestBookPrintsNoSecret(t *testing.T) {
	b := setUp()
	key := b.create(t, "shop", false)
	b.want(t, key, nil)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		if out := fmt.Sprintf(verb, b.book); strings.Contains(out, key) || strings.Contains(out, fmt.Sprintf("%x", key)) {
			t.Errorf("%s shows a key", verb)
		}
	}
}

func TestKnownKeyAllocatesNothing(t *testing.T) {
	b := setUp()
	key := b.create(t, "shop", false)
	b.want(t, key, nil)
	asked := b.store.asked.Load()
	if n := testing.AllocsPerRun(1000, func() { _, _ = b.book.Authenticate(t.Context(), key) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
	if n := b.store.asked.Load() - asked; n != 0 {
		t.Errorf("the store was asked %d times for a known key", n)
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	s := setUp()
	key := s.create(b, "shop", false)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.book.Authenticate(b.Context(), key); err != nil {
				b.Error(err)
			}
		}
	})
}

// TestChange: other settings and secrets hold at once, for keys that are known,
// though the store is down.
func TestChange(t *testing.T) {
	b := setUp(account.Merchant{Name: "Shop", RequestorID: "1"})
	shop, old := b.create(t, "Shop", true), ring{"previous"}
	former, err := account.Create(t.Context(), b.store, old, "Former", false)
	if err != nil {
		t.Fatal(err)
	}
	b.want(t, shop, nil)
	b.want(t, former, nil)
	b.store.down.Store(true)
	b.book.Change(b.ring, []account.Merchant{{Name: "Shop", RequestorID: "2"}})
	got, err := b.book.Authenticate(t.Context(), shop)
	if err != nil || got.Merchant.RequestorID != "2" || !got.Strict {
		t.Errorf("after the change: %+v %v", got, err)
	}
	b.want(t, former, nil)
	b.book.Change(ring{"current"}, nil)
	if got, err := b.book.Authenticate(t.Context(), shop); err != nil || got.Merchant.RequestorID != "" || got.Merchant.Name != "Shop" {
		t.Errorf("without a profile: %+v %v", got, err)
	}
	b.store.down.Store(false)
	b.want(t, former, account.ErrKeyNotJudged) // its secret is gone
}
