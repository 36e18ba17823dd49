package account

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/store"
)

// An openRing hides nothing, and finds every row as it was sealed.
type openRing struct{}

func (openRing) Hash(key string) []byte              { return []byte(key) }
func (openRing) Hashes(key string) [][]byte          { return [][]byte{[]byte(key)} }
func (openRing) Seal(string, []byte) []byte          { return nil }
func (openRing) Open(string, []byte) ([]byte, error) { return nil, nil }

// settling begins to give all keys other merchants, and returns in the middle of that. What
// is known then comes when it is told to proceed.
func settling(b *Book) (proceed func() map[string]entry) {
	m := &merchants{byName: make(map[string]*Merchant)}
	m.mu.Lock()
	known := make(chan map[string]entry)
	go func() {
		got := b.anew(m)
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
	met, known := newKey(), newKey()
	b.replace([]store.Key{{Hash: []byte(met), Merchant: "shop"}, {Hash: []byte(known), Merchant: "shop"}})
	if _, err := b.Authenticate(t.Context(), met); err != nil {
		t.Fatal(err)
	}
	proceed := settling(b)
	served := make(chan error, 2)
	go func() {
		for _, key := range []string{met, known} {
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
		b.learn(&comes, new([32]byte), [][]byte{comes.Hash}, b.round)
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
		"the same mark":      func(b *Book) { b.found() },
		"another key file":   func(b *Book) { b.Change(openRing{}, nil) },
		"nothing in between": nil,
	} {
		b := New(nil, openRing{}, nil, slog.New(slog.DiscardHandler))
		b.replace(nil)
		round := b.round
		if between != nil {
			between(b)
		}
		b.learn(&k, new([32]byte), [][]byte{k.Hash}, round)
		if _, known := b.find("key"); known != (between == nil) || len(b.met) != len(b.learned) {
			t.Errorf("%s: known: %t, for the quickest answer: %d", name, known, len(b.met))
		}
		b.replace(nil)
		if len(b.learned)+len(b.met)+len(b.marks) > 0 {
			t.Errorf("%s: something is left of a key that is gone", name)
		}
	}
}

// A rehashing store says of each former hash what comes of it.
type rehashing struct {
	KeyStore
	says  map[string]error
	asked int
}

func (s *rehashing) RehashKey(_ context.Context, old, _, _ []byte) error {
	s.asked++
	return s.says[string(old)]
}

// TestRehashedOnce: each key is hashed anew once; one that is gone, or that another node
// was quicker with, holds up no other.
func TestRehashedOnce(t *testing.T) {
	s := &rehashing{says: map[string]error{"gone": store.ErrNotFound, "done": store.ErrExists}}
	b := New(s, openRing{}, nil, slog.New(slog.DiscardHandler))
	b.former["unknown"] = []byte("new")
	for _, old := range []string{"one", "two", "three", "gone", "done"} {
		b.known[old] = entry{&store.Key{Hash: []byte(old), Merchant: "shop"}, nil}
		b.former[old] = []byte("new " + old)
	}
	for i := range 2 {
		if err := b.rehash(t.Context()); err != nil || s.asked != 5 || len(b.former) > 0 {
			t.Errorf("%d: %v, asked %d times, %d to come", i, err, s.asked, len(b.former))
		}
	}
}
