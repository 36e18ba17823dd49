package account

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/store"
)

// An openRing hides nothing, and finds every row as it was sealed.
type openRing struct{}

func (openRing) Seal(string, []byte) []byte          { return nil }
func (openRing) Open(string, []byte) ([]byte, error) { return nil, nil }
func (openRing) IsSealedByPrevious([]byte) bool      { return false }

// settling begins to give all keys other merchants, and returns in the middle of that. What
// is known then comes when it is told to proceed.
func settling(b *Book) (proceed func() map[string]entry) {
	m := &merchants{byName: make(map[string]*Merchant)}
	m.mu.Lock()
	known := make(chan map[string]entry)
	go func() {
		got := b.anew(m, openRing{})
		b.mu.Unlock()
		known <- got
	}()
	all := make([]byte, 1<<20)
	for !bytes.Contains(all[:runtime.Stack(all, true)], []byte("account.(*merchants).account(")) { // where m.mu holds it
		runtime.Gosched()
	}
	return func() map[string]entry {
		m.mu.Unlock()
		return <-known
	}
}

// TestChangeHoldsUpNobody: while very many keys get other settings, those who have one
// go on.
func TestChangeHoldsUpNobody(t *testing.T) {
	b := New(nil, openRing{}, nil, slog.New(slog.DiscardHandler))
	keys := []string{newKey(), newKey()}
	b.replace([]store.Key{Row(openRing{}, keys[0], "shop", false), Row(openRing{}, keys[1], "shop", false)})
	proceed := settling(b)
	served := make(chan error, 2)
	go func() {
		for _, key := range keys {
			_, err := b.Authenticate(t.Context(), key)
			served <- err
		}
	}()
	for range 2 {
		select {
		case err := <-served:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("who has a key waits for a change of the settings")
		}
	}
	if got := proceed(); len(got) != 2 {
		t.Errorf("%d keys are known after a change, want 2", len(got))
	}
}

// TestRevokedDuringChange: what a refresh has found revoked meanwhile does not come back
// with other settings, however often that happens; what was learned meanwhile stays.
func TestRevokedDuringChange(t *testing.T) {
	b := New(nil, openRing{}, nil, slog.New(slog.DiscardHandler))
	stays, goes, comes := store.Key{Hash: []byte("stays")}, store.Key{Hash: []byte("goes")}, store.Key{Hash: []byte("comes")}
	for range 100 {
		b.replace([]store.Key{stays, goes})
		proceed := settling(b)
		b.replace([]store.Key{stays})
		b.learn(&comes, b.round)
		got := proceed()
		if _, revoked := got["goes"]; revoked || len(got) != 2 {
			t.Fatalf("%d keys are known, a revoked one: %t", len(got), revoked)
		}
	}
}

// TestLearnsNothingOld: what was asked of the store before a refresh, whatever that found,
// or before a change, is not remembered after it: the key may have been revoked between.
func TestLearnsNothingOld(t *testing.T) {
	k := store.Key{Hash: []byte("key"), Merchant: "shop"}
	for name, between := range map[string]func(*Book){
		"other keys":         func(b *Book) { b.replace(nil) },
		"the same keys":      func(b *Book) { b.unchanged(nil) },
		"the same mark":      func(b *Book) { b.markCurrent() },
		"another key file":   func(b *Book) { b.Change(openRing{}, nil) },
		"nothing in between": nil,
	} {
		b := New(nil, openRing{}, nil, slog.New(slog.DiscardHandler))
		b.replace(nil)
		round := b.round
		if between != nil {
			between(b)
		}
		b.learn(&k, round)
		if _, known := b.find("key"); known != (between == nil) {
			t.Errorf("%s: known: %t", name, known)
		}
		b.replace(nil)
		if len(b.learned) > 0 {
			t.Errorf("%s: something is left of a key that is gone", name)
		}
	}
}

// A resealer says of each row, by its hash, what comes of a new seal.
type resealer struct {
	KeyStore
	says  map[string]error
	asked []string
}

func (s *resealer) ResealKey(_ context.Context, hash, _, _ []byte) error {
	s.asked = append(s.asked, string(hash))
	return s.says[string(hash)]
}

// previousRing finds every row sealed by the previous secret.
type previousRing struct{ openRing }

func (previousRing) IsSealedByPrevious([]byte) bool { return true }

// TestResealedOnce: each row is sealed anew once; one that is gone, or that another node was
// quicker with, holds up no other. Where the store fails the row is tried again.
func TestResealedOnce(t *testing.T) {
	failed := errors.New("failed")
	s := &resealer{says: map[string]error{"gone": store.ErrNotFound, "bad": failed}}
	b := New(s, previousRing{}, nil, slog.New(slog.DiscardHandler))
	b.replace([]store.Key{{Hash: []byte("one")}, {Hash: []byte("gone")}, {Hash: []byte("two")}})
	if err := b.reseal(t.Context()); err != nil || len(s.asked) != 3 {
		t.Errorf("%v, asked for %q", err, s.asked)
	}
	if err := b.reseal(t.Context()); err != nil || len(s.asked) != 3 {
		t.Errorf("a second time: %v, asked for %q", err, s.asked)
	}
	b.replace([]store.Key{{Hash: []byte("bad")}})
	for range 2 {
		if err := b.reseal(t.Context()); !errors.Is(err, failed) {
			t.Errorf("of a store that fails: %v", err)
		}
	}
	if n := len(s.asked); n != 5 {
		t.Errorf("asked for %q", s.asked)
	}
	b.Change(previousRing{}, nil) // what was to be done is found anew by the next refresh
	if err := b.reseal(t.Context()); err != nil || len(s.asked) != 5 {
		t.Errorf("after a change: %v, asked for %q", err, s.asked)
	}
}
