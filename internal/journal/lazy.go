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

func (l *lazyStore) Write(ctx context.Context, entries []Entry) (int, error) {
	st, err := l.get(ctx)
	if err != nil {
		return 0, err
	}
	return st.Write(ctx, entries)
}

func (l *lazyStore) Search(ctx context.Context, q Query) (Page, error) {
	st, err := l.get(ctx)
	if err != nil {
		return Page{}, err
	}
	return st.Search(ctx, q)
}

func (l *lazyStore) Show(ctx context.Context, id string) (Detail, error) {
	st, err := l.get(ctx)
	if err != nil {
		return Detail{}, err
	}
	return st.Show(ctx, id)
}

func (l *lazyStore) Count(ctx context.Context, q CountQuery) ([]Rollup, error) {
	st, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	return st.Count(ctx, q)
}

func (l *lazyStore) Roll(ctx context.Context, now time.Time, limit time.Duration) error {
	st, err := l.get(ctx)
	if err != nil {
		return err
	}
	return st.Roll(ctx, now, limit)
}

func (l *lazyStore) Erase(ctx context.Context, q Query) (authentications, records int, err error) {
	st, err := l.get(ctx)
	if err != nil {
		return 0, 0, err
	}
	return st.Erase(ctx, q)
}

func (l *lazyStore) Export(ctx context.Context, q Query, line func(ExportedEntry) error) error {
	st, err := l.get(ctx)
	if err != nil {
		return err
	}
	return st.Export(ctx, q, line)
}

func (l *lazyStore) Sign(ctx context.Context, now time.Time) error {
	st, err := l.get(ctx)
	if err != nil {
		return err
	}
	return st.Sign(ctx, now)
}

func (l *lazyStore) Expire(ctx context.Context, before time.Time) error {
	st, err := l.get(ctx)
	if err != nil {
		return err
	}
	return st.Expire(ctx, before)
}

func (l *lazyStore) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.st == nil {
		return nil
	}
	return l.st.Close()
}
