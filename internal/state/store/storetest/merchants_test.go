package storetest

import (
	"context"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// brokenMerchants is what a broken store does instead of what it should.
type brokenMerchants struct {
	addMerchant    func(context.Context, store.Merchant) error
	changeMerchant func(context.Context, string, []byte, []byte) error
	removeMerchant func(context.Context, string, []byte) error
	addObject      func(context.Context, store.Object) error
}

func (b *broken) AddObject(ctx context.Context, o store.Object) error {
	if b.addObject != nil {
		return b.addObject(ctx, o)
	}
	return b.Memory.AddObject(ctx, o)
}

func (b *broken) AddMerchant(ctx context.Context, m store.Merchant) error {
	if b.addMerchant != nil {
		return b.addMerchant(ctx, m)
	}
	return b.Memory.AddMerchant(ctx, m)
}

func (b *broken) ChangeMerchant(ctx context.Context, name string, was, data []byte) error {
	if b.changeMerchant != nil {
		return b.changeMerchant(ctx, name, was, data)
	}
	return b.Memory.ChangeMerchant(ctx, name, was, data)
}

func (b *broken) RemoveMerchant(ctx context.Context, name string, was []byte) error {
	if b.removeMerchant != nil {
		return b.removeMerchant(ctx, name, was)
	}
	return b.Memory.RemoveMerchant(ctx, name, was)
}

// dataOf returns what the store has of a merchant.
func (b *broken) dataOf(name string) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.merchants[name]
}

var brokenMerchantsStores = []sabotage{
	{"AddMerchant replaces", "Merchants", func(b *broken, _ *clock) {
		b.addMerchant = func(ctx context.Context, m store.Merchant) error {
			_ = b.Memory.RemoveMerchant(ctx, m.Name, b.dataOf(m.Name))
			return b.Memory.AddMerchant(ctx, m)
		}
	}},
	{"ChangeMerchant does not mind what was", "Merchants", func(b *broken, _ *clock) {
		b.changeMerchant = func(ctx context.Context, name string, _, data []byte) error {
			return b.Memory.ChangeMerchant(ctx, name, b.dataOf(name), data)
		}
	}},
	{"RemoveMerchant does not mind what was", "Merchants", func(b *broken, _ *clock) {
		b.removeMerchant = func(ctx context.Context, name string, _ []byte) error {
			return b.Memory.RemoveMerchant(ctx, name, b.dataOf(name))
		}
	}},
	{"ChangeMerchant looks first and then writes", "MerchantsAtOnce", func(b *broken, _ *clock) {
		b.changeMerchant = func(ctx context.Context, name string, was, data []byte) error {
			if string(b.dataOf(name)) != string(was) {
				return store.ErrNotFound
			}
			pause(time.Millisecond)
			return b.Memory.ChangeMerchant(ctx, name, b.dataOf(name), data)
		}
	}},
	{"the mark stays when a merchant is disabled", "DisabledMark", func(b *broken, _ *clock) {
		b.addObject = func(ctx context.Context, o store.Object) error {
			err := b.Memory.AddObject(ctx, o)
			if o.Kind == store.DisabledObjects {
				b.unmark(err)
			}
			return err
		}
	}},
	{"the mark changes with every object", "DisabledMark", func(b *broken, _ *clock) {
		b.addObject = func(ctx context.Context, o store.Object) error {
			b.mu.Lock()
			b.changes++
			b.mu.Unlock()
			return b.Memory.AddObject(ctx, o)
		}
	}},
	{"the mark stays when a merchant changes", "MerchantsMark", func(b *broken, _ *clock) {
		b.changeMerchant = func(ctx context.Context, name string, was, data []byte) error {
			err := b.Memory.ChangeMerchant(ctx, name, was, data)
			b.unmark(err)
			return err
		}
	}},
}
