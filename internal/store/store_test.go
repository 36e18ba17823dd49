package store_test

import (
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/store"
)

// TestName: a change of anything but the data changes the name, and what a store
// does to times does not.
func TestName(t *testing.T) {
	was := store.Txn{ID: "a", Owner: "b", Scheme: "c", State: "d", Data: []byte("e"), Expires: time.UnixMilli(1000)}
	seen := map[string]bool{was.Name(): true}
	for what, change := range map[string]func(*store.Txn){
		"id":      func(n *store.Txn) { n.ID = "x" },
		"owner":   func(n *store.Txn) { n.Owner = "x" },
		"scheme":  func(n *store.Txn) { n.Scheme = "x" },
		"state":   func(n *store.Txn) { n.State = "x" },
		"expires": func(n *store.Txn) { n.Expires = time.UnixMilli(1001) },
		"borders": func(n *store.Txn) { n.ID, n.Owner = "ab", "" },
		"digits":  func(n *store.Txn) { n.ID, n.Owner = "a1:b", "" },
	} {
		now := was
		change(&now)
		if seen[now.Name()] {
			t.Errorf("another %s has the same name", what)
		}
		seen[now.Name()] = true
	}
	same := was
	same.Data, same.Expires = nil, same.Expires.UTC().Add(999*time.Microsecond)
	if same.Name() != was.Name() {
		t.Error("other data, or a part of a millisecond, is another name")
	}
}
