package account

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/openthreeds/threeds/internal/state/store"
)

// An openRing hides nothing, and finds every row as it was sealed.
type openRing struct{}

func (openRing) Seal(string, []byte) []byte          { return nil }
func (openRing) Open(string, []byte) ([]byte, error) { return nil, nil }
func (openRing) IsSealedByPrevious([]byte) bool      { return false }

// A blockingRing opens its first row when the test lets it proceed.
type blockingRing struct {
	openRing
	reached chan struct{} // receives when the first row is to be opened
	proceed chan struct{} // is closed to let it be opened
}

func newBlockingRing() blockingRing {
	return blockingRing{reached: make(chan struct{}), proceed: make(chan struct{})}
}

func (r blockingRing) Open(string, []byte) ([]byte, error) {
	select {
	case r.reached <- struct{}{}:
		<-r.proceed
	case <-r.proceed:
	}
	return nil, nil
}

// A rowStore has rows. It answers a reseal of a row with the error that the test sets for its hash.
type rowStore struct {
	rows     []store.Key
	says     map[string]error
	resealed []string
}

func (s *rowStore) Key(_ context.Context, hash []byte) (store.Key, error) {
	for _, row := range s.rows {
		if string(row.Hash) == string(hash) {
			return row, nil
		}
	}
	return store.Key{}, store.ErrNotFound
}

func (s *rowStore) KeysUnless(context.Context, string) ([]store.Key, string, error) {
	return s.rows, "", nil
}

func (s *rowStore) ResealKey(_ context.Context, hash, _, _ []byte) error {
	s.resealed = append(s.resealed, string(hash))
	return s.says[string(hash)]
}

func (*rowStore) Merchants(context.Context) ([]store.Merchant, error) { return nil, nil }

func (*rowStore) Objects(context.Context, string) ([]store.Object, error) { return nil, nil }

func (*rowStore) ChangeMerchant(context.Context, string, []byte, []byte) error { return nil }

// newCacheOf returns a cache that has read the rows of a store.
func newCacheOf(t *testing.T, s *rowStore, ring Ring) *KeyCache {
	t.Helper()
	c := New(s, ring, nil, slog.New(slog.DiscardHandler))
	refreshNow(t, c)
	return c
}

func refreshNow(t *testing.T, c *KeyCache) {
	t.Helper()
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestConfigureHoldsUpNobody: while the rows of very many keys are judged again, requests with a known key are
// answered.
func TestConfigureHoldsUpNobody(t *testing.T) {
	keys := []string{newKey(), newKey()}
	s := new(rowStore)
	for _, key := range keys {
		s.rows = append(s.rows, NewRow(openRing{}, key, "shop", false, Terms{}))
	}
	c := newCacheOf(t, s, openRing{})
	ring := newBlockingRing()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Configure(ring, nil)
	}()
	<-ring.reached
	for _, key := range keys { // would hang if it waited for Configure
		if _, err := c.Authenticate(t.Context(), key); err != nil {
			t.Error(err)
		}
	}
	close(ring.proceed)
	<-done
	if good, _ := c.Count(); good != 2 {
		t.Errorf("%d keys are known after Configure, want 2", good)
	}
}

// TestRevokedDuringConfigure: a key that a refresh found revoked while the rows were judged again does not come back.
func TestRevokedDuringConfigure(t *testing.T) {
	stays, revoked := newKey(), newKey()
	for range 20 {
		s := &rowStore{rows: []store.Key{NewRow(openRing{}, stays, "shop", false, Terms{}), NewRow(openRing{}, revoked, "shop", false, Terms{})}}
		c := newCacheOf(t, s, openRing{})
		ring := newBlockingRing()
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Configure(ring, []Merchant{{Name: "shop", RequestorID: "R"}})
		}()
		<-ring.reached
		s.rows = s.rows[:1]
		refreshNow(t, c)
		close(ring.proceed)
		<-done
		if _, err := c.Authenticate(t.Context(), revoked); !errors.Is(err, ErrUnknownKey) {
			t.Fatalf("a revoked key: %v", err)
		}
		if a, err := c.Authenticate(t.Context(), stays); err != nil || a.Merchant.RequestorID != "R" {
			t.Fatalf("the other key: %+v, %v", a, err)
		}
	}
}

// A previousRing finds every row sealed by the previous secret.
type previousRing struct{ openRing }

func (previousRing) IsSealedByPrevious([]byte) bool { return true }

// TestResealedOnce: each row is resealed once. A row that is gone, or that another node has resealed first, does not
// delay the others. If the store fails, the row is tried again.
func TestResealedOnce(t *testing.T) {
	errFailed := errors.New("failed")
	s := &rowStore{says: map[string]error{"gone": store.ErrNotFound, "bad": errFailed}}
	s.rows = []store.Key{{Hash: []byte("first.")}, {Hash: []byte("gone")}, {Hash: []byte("second")}}
	c := newCacheOf(t, s, previousRing{})
	for range 2 {
		if err := c.reseal(t.Context()); err != nil || len(s.resealed) != 3 {
			t.Errorf("%v, new seals for %q", err, s.resealed)
		}
	}
	s.rows = []store.Key{{Hash: []byte("bad")}}
	refreshNow(t, c)
	for range 2 {
		if err := c.reseal(t.Context()); !errors.Is(err, errFailed) {
			t.Errorf("of a store that fails: %v", err)
		}
	}
	if n := len(s.resealed); n != 5 {
		t.Errorf("new seals for %q", s.resealed)
	}
	c.Configure(openRing{}, nil) // the previous secret has gone
	if err := c.reseal(t.Context()); err != nil || len(s.resealed) != 5 {
		t.Errorf("after the previous secret has gone: %v, new seals for %q", err, s.resealed)
	}
}

// TestRotatedTwiceBetweenRefreshes: a row that was resealed since it was read is not refused when its previous secret
// leaves the ring.
func TestRotatedTwiceBetweenRefreshes(t *testing.T) {
	key, refused := newKey(), newKey()
	s := &rowStore{rows: []store.Key{NewRow(secretRing("first"), key, "shop", false, Terms{}), NewRow(secretRing("of another"), refused, "shop", false, Terms{})}}
	c := newCacheOf(t, s, secretRing("first"))
	s.rows[0] = NewRow(secretRing("second"), key, "shop", false, Terms{})
	c.Configure(secretRing("second"), nil)
	if _, err := c.Authenticate(t.Context(), key); err != nil {
		t.Error(err)
	}
	if _, n := c.Count(); n != 1 {
		t.Errorf("%d rows are refused, want 1", n)
	}
	if _, err := c.Authenticate(t.Context(), refused); !errors.Is(err, ErrKeyNotJudged) {
		t.Error(err)
	}
}

// A secretRing seals with one secret, in the clear.
type secretRing string

func (r secretRing) Seal(string, []byte) []byte { return []byte(r) }

func (r secretRing) Open(_ string, sealed []byte) ([]byte, error) {
	if string(sealed) != string(r) {
		return nil, errors.New("sealed with another secret")
	}
	return nil, nil
}

func (secretRing) IsSealedByPrevious([]byte) bool { return false }
