package rig

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/store"
)

// Faulty is a store that fails when told.
type Faulty struct {
	store.Store
	Down, Torn, Panics *atomic.Bool // of transactions
	NoKeys             *atomic.Bool // whether API keys cannot be looked up
}

var ErrDown = errors.New("the store is down")

func NewFaulty() (Faulty, Plan) {
	f := Faulty{Down: new(atomic.Bool), Torn: new(atomic.Bool), Panics: new(atomic.Bool), NoKeys: new(atomic.Bool)}
	return f, Plan{Change: func(cfg *server.Config) {
		cfg.Store = func(s store.Store) store.Store { f.Store = s; return f }
	}}
}

func (f Faulty) Create(ctx context.Context, t store.Txn) error {
	if f.Down.Load() {
		return ErrDown
	}
	return f.Store.Create(ctx, t)
}

func (f Faulty) Get(ctx context.Context, id string) (store.Txn, error) {
	if f.Panics.Load() {
		panic("the store has lost its mind over " + id)
	}
	if f.Down.Load() {
		return store.Txn{}, ErrDown
	}
	t, err := f.Store.Get(ctx, id)
	if f.Torn.Load() && len(t.Data) > 0 {
		t.Data = t.Data[:len(t.Data)/2]
	}
	return t, err
}

func (f Faulty) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	if f.Down.Load() {
		return ErrDown
	}
	return f.Store.Update(ctx, was, change)
}

func (f Faulty) Key(ctx context.Context, hash []byte) (store.Key, error) {
	if f.NoKeys.Load() {
		return store.Key{}, ErrDown
	}
	return f.Store.Key(ctx, hash)
}

func (f Faulty) KeysUnless(ctx context.Context, mark string) ([]store.Key, string, error) {
	if f.NoKeys.Load() {
		return nil, "", ErrDown
	}
	return f.Store.KeysUnless(ctx, mark)
}
