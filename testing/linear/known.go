package linear

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/openthreeds/threeds/internal/state/store"
)

// Known is a cache of all keys, as nodes have it: it is good as long as the mark of the keys
// stays. The zero value is ready to use.
type Known struct {
	mu   sync.Mutex
	mark string
	keys []store.Key
}

// Of returns a store that answers every other call of Key, at random, from the cache, after
// it has asked whether the mark is still the same.
func (k *Known) Of(s store.Store) store.Store { return remembering{s, k} }

type remembering struct {
	store.Store
	known *Known
}

func (r remembering) Key(ctx context.Context, hash []byte) (store.Key, error) {
	if rand.IntN(2) == 0 {
		return r.Store.Key(ctx, hash)
	}
	r.known.mu.Lock()
	mark, keys := r.known.mark, r.known.keys
	r.known.mu.Unlock()
	all, now, err := r.Store.KeysUnless(ctx, mark)
	if err != nil {
		return store.Key{}, err
	}
	if now == "" || now != mark {
		keys = all
		r.known.mu.Lock()
		r.known.mark, r.known.keys = now, keys
		r.known.mu.Unlock()
	}
	if i := slices.IndexFunc(keys, func(k store.Key) bool { return bytes.Equal(k.Hash, hash) }); i >= 0 {
		return keys[i], nil
	}
	return store.Key{}, store.ErrNotFound
}
