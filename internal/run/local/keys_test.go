package local

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

// A racedStore is one where somebody else revokes each key just before it is revoked.
type racedStore struct{ store.Store }

func (s racedStore) RevokeKey(ctx context.Context, hash []byte) error {
	if err := s.Store.RevokeKey(ctx, hash); err != nil {
		return err
	}
	return s.Store.RevokeKey(ctx, hash)
}

// A fixedStore is one that can only be read.
type fixedStore struct{ store.Store }

var errFixed = errors.New("the disk is full")

func (fixedStore) RevokeKey(context.Context, []byte) error { return errFixed }

// TestNotRevoked: what was not revoked, for it is not clear which key is meant or the
// store fails, is not said to be.
func TestNotRevoked(t *testing.T) {
	st := storetest.NewMemory(time.Now)
	for _, hash := range []string{"abcdef1", "abcdef2"} {
		if err := st.PutKey(t.Context(), store.Key{Hash: []byte(hash), Merchant: "Shop"}); err != nil {
			t.Fatal(err)
		}
	}
	raced := storetest.NewMemory(time.Now)
	if err := raced.PutKey(t.Context(), store.Key{Hash: []byte("abcdef1")}); err != nil {
		t.Fatal(err)
	}
	begins := func(prefix string) func([]byte) bool {
		return func(hash []byte) bool { return bytes.HasPrefix(hash, []byte(prefix)) }
	}
	for _, tt := range []struct {
		st     store.Store
		prefix string
		want   string
	}{
		{st, "abcdef", "2 keys begin so"}, {st, "abcdef3", "no such key"}, {fixedStore{st}, "abcdef1", errFixed.Error()},
		{racedStore{raced}, "abcdef1", "no such key"},
	} {
		if k, err := RevokeKey(t.Context(), NewActs(&config.Config{}, tt.st, nil), begins(tt.prefix)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("revoke of %s: %s, %v; want %q", tt.prefix, k.Hash, err, tt.want)
		}
	}
	if keys, err := st.Keys(t.Context()); len(keys) != 2 || err != nil {
		t.Errorf("%d keys are left, %v; want both", len(keys), err)
	}
}
