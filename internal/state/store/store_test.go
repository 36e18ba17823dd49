package store_test

import (
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// TestTxnName: a change of anything except the data changes the name, and the rounding of times by a store does not.
func TestTxnName(t *testing.T) {
	was := store.Txn{ID: "a", Owner: "b", Scheme: "c", State: "d", Data: []byte("e"), Expires: time.UnixMilli(1000)}
	if got, want := was.Name(), "1:a1:b1:c1:d1000"; got != want { // another release must open the data of this one
		t.Errorf("Name = %q, want %q", got, want)
	}
	names := map[string]string{"the first": was.Name()}
	for what, change := range map[string]func(*store.Txn){
		"id":      func(n *store.Txn) { n.ID = "x" },
		"owner":   func(n *store.Txn) { n.Owner = "x" },
		"scheme":  func(n *store.Txn) { n.Scheme = "x" },
		"state":   func(n *store.Txn) { n.State = "x" },
		"expires": func(n *store.Txn) { n.Expires = time.UnixMilli(1001) },
		"borders": func(n *store.Txn) { n.ID, n.Owner = "ab", "" },
		"digits":  func(n *store.Txn) { n.ID, n.Owner = "a1:b", "" },
		"colon":   func(n *store.Txn) { n.ID, n.Owner = "a:b", "c" },
		"later":   func(n *store.Txn) { n.ID, n.Owner = "a", "b:c" },
	} {
		now := was
		change(&now)
		names[what] = now.Name()
	}
	distinct(t, names)
	same := was
	same.Data, same.Expires = nil, same.Expires.UTC().Add(999*time.Microsecond)
	if same.Name() != was.Name() {
		t.Error("other data, or a part of a millisecond, is another name")
	}
}

// TestKeyName: the same for what is sealed of a key.
func TestKeyName(t *testing.T) {
	was := store.Key{Hash: []byte("a"), Merchant: "b", Created: time.UnixMilli(1000), Seal: []byte("e")}
	if got, want := was.Name(), "key 1:a1:bfalse 1000"; got != want {
		t.Errorf("Name = %q, want %q", got, want)
	}
	names := map[string]string{"the first": was.Name()}
	for what, change := range map[string]func(*store.Key){
		"hash":     func(n *store.Key) { n.Hash = []byte("x") },
		"merchant": func(n *store.Key) { n.Merchant = "x" },
		"strict":   func(n *store.Key) { n.Strict = true },
		"created":  func(n *store.Key) { n.Created = time.UnixMilli(1001) },
		"borders":  func(n *store.Key) { n.Hash, n.Merchant = []byte("ab"), "" },
		"word":     func(n *store.Key) { n.Merchant, n.Strict = "btrue", false },
	} {
		now := was
		change(&now)
		names[what] = now.Name()
	}
	distinct(t, names)
	same := was
	same.Seal, same.Created = nil, same.Created.UTC().Add(999*time.Microsecond)
	if same.Name() != was.Name() {
		t.Error("another seal, or a part of a millisecond, is another name")
	}
}

// distinct wants no name twice.
func distinct(t *testing.T, names map[string]string) {
	t.Helper()
	seen := make(map[string]string)
	for what, name := range names {
		if other, twice := seen[name]; twice {
			t.Errorf("%s and %s have the same name", what, other)
		}
		seen[name] = what
	}
}
