package journal

import (
	"context"
	"sync"
	"time"
)

// A lazyStore opens its store when it is first needed, and tries again as long as that fails.
type lazyStore struct {
	open func(ctx context.Context) (Store, error)

	mu sync.Mutex
	st Store
}

// Lazy returns a store that is opened when it is first needed: a journal that is away keeps no server from starting.
func Lazy(open func(ctx context.Context) (Store, error)) Store { return &lazyStore{open: open} }

func (l *lazyStore) get(ctx context.Context) (Store, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.st != nil {
		return l.st, nil
	}
	st, err := l.open(ctx)
	if err != nil {
		return nil, err
	}
	l.st = st
	return st, nil
}

// do calls do with the store.
func (l *lazyStore) do(ctx context.Context, do func(Store) error) error {
	st, err := l.get(ctx)
	if err != nil {
		return err
	}
	return do(st)
}

// askLazily calls do with the store, and returns what it returns.
func askLazily[T any](ctx context.Context, l *lazyStore, do func(Store) (T, error)) (v T, err error) {
	err = l.do(ctx, func(st Store) error {
		v, err = do(st)
		return err
	})
	return v, err
}

// from returns the later one of a time and the first one that the store shows.
func (l *lazyStore) from(t time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if kept, ok := l.st.(interface{ from(time.Time) time.Time }); ok {
		return kept.from(t)
	}
	return t
}

func (l *lazyStore) Write(ctx context.Context, entries []Entry) (int, error) {
	return askLazily(ctx, l, func(st Store) (int, error) { return st.Write(ctx, entries) })
}

func (l *lazyStore) Search(ctx context.Context, q Query) (Page, error) {
	return askLazily(ctx, l, func(st Store) (Page, error) { return st.Search(ctx, q) })
}

func (l *lazyStore) Show(ctx context.Context, id string) (Detail, error) {
	return askLazily(ctx, l, func(st Store) (Detail, error) { return st.Show(ctx, id) })
}

func (l *lazyStore) Count(ctx context.Context, q CountQuery) ([]Rollup, error) {
	return askLazily(ctx, l, func(st Store) ([]Rollup, error) { return st.Count(ctx, q) })
}

func (l *lazyStore) Flow(ctx context.Context, q FlowQuery) ([]FlowCount, error) {
	return askLazily(ctx, l, func(st Store) ([]FlowCount, error) { return st.Flow(ctx, q) })
}

func (l *lazyStore) CountUnkept(ctx context.Context, q CountQuery) ([]UnkeptRule, error) {
	return askLazily(ctx, l, func(st Store) ([]UnkeptRule, error) { return st.CountUnkept(ctx, q) })
}

func (l *lazyStore) Billing(ctx context.Context, q BillingQuery) ([]BillingCount, error) {
	return askLazily(ctx, l, func(st Store) ([]BillingCount, error) { return st.Billing(ctx, q) })
}

func (l *lazyStore) Roll(ctx context.Context, now time.Time, limit time.Duration) error {
	return l.do(ctx, func(st Store) error { return st.Roll(ctx, now, limit) })
}

func (l *lazyStore) Erase(ctx context.Context, q Query) (authentications, records int, err error) {
	st, err := l.get(ctx)
	if err != nil {
		return 0, 0, err
	}
	return st.Erase(ctx, q)
}

func (l *lazyStore) Export(ctx context.Context, q Query, line func(ExportedEntry) error) error {
	return l.do(ctx, func(st Store) error { return st.Export(ctx, q, line) })
}

func (l *lazyStore) Expire(ctx context.Context, before time.Time) error {
	return l.do(ctx, func(st Store) error { return st.Expire(ctx, before) })
}

func (l *lazyStore) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.st == nil {
		return nil
	}
	return l.st.Close()
}
