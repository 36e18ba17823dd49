package auth_test

import (
	"context"
	"slices"
	"testing"

	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/state/store"
)

// A spy notes what an engine reads in the store, and counts what it opens.
type spy struct {
	txn.Store
	txn.Sealer
	read   []string // ids of rows
	opened int
}

func (s *spy) Get(ctx context.Context, id string) (store.Txn, error) {
	s.read = append(s.read, id)
	return s.Store.Get(ctx, id)
}

func (s *spy) Open(name string, sealed []byte) ([]byte, error) {
	s.opened++
	return s.Sealer.Open(name, sealed)
}

// TestNothingIsOpenedForAForeignID: for an id of another merchant its row is not read and nothing is
// opened, just as for an id that nobody has, so that the time of the answer tells nothing.
func TestNothingIsOpenedForAForeignID(t *testing.T) {
	w := newWorld()
	id := challengedAt(t, w, "2.2.0").text("threeDSServerTransID")
	e := w.engine(0)
	s := &spy{Store: e.Store, Sealer: e.Sealer}
	e.Store, e.Sealer = s, s
	for name, id := range map[string]string{"foreign": id, "unknown": "11111111-1111-4111-8111-111111111111"} {
		s.read = nil
		if _, err := e.Result(t.Context(), other, object{"threeDSServerTransID": id}.json()); told(err) != "203 Unknown threeDSServerTransID" {
			t.Errorf("%s: %v", name, err)
		}
		if len(s.read) != 1 || s.read[0] == id || s.opened != 0 {
			t.Errorf("%s: %q was read and %d records were opened, want one row that does not exist", name, s.read, s.opened)
		}
	}
	s.read = nil
	if _, err := e.Result(t.Context(), shop, object{"threeDSServerTransID": id}.json()); codeOf(err) != "305" {
		t.Errorf("the owner: %v, want 305", err)
	}
	if !slices.Equal(s.read, []string{id}) || s.opened != 1 {
		t.Errorf("the owner: %q was read and %d records were opened, want the one row", s.read, s.opened)
	}
}
