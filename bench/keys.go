//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/openthreeds/threeds/internal/account"
	"github.com/openthreeds/threeds/internal/keyring"
	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/internal/store/postgres/pgtest"
	"github.com/openthreeds/threeds/internal/store/sqlite"
)

// restingKeys measures how much of a processor a node without requests, and its database,
// use for the API keys that there are.
func restingKeys(ctx context.Context, b *bench) (rows []row, err error) {
	for _, at := range []struct {
		name    string
		measure func(context.Context, *bench, int) (used, error)
	}{{"PostgreSQL", restingOnPostgres}, {"embedded store", restingEmbedded}} {
		var least used
		for i, n := range b.plan.keys {
			u, err := at.measure(ctx, b, n)
			if err != nil {
				return nil, err
			}
			r := u.share(fmt.Sprintf("idle, %d API keys, %s", n, at.name), b.plan.rest)
			if i == 0 {
				least = u
			} else if i == len(b.plan.keys)-1 {
				more := u.server + u.database - least.server - least.database
				r.target, r.good = "≤ 2 % more", more <= b.plan.rest/50
			}
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// share is the row of what was used in a time d, as a share of one processor.
func (u used) share(what string, d time.Duration) row {
	of := func(t time.Duration) float64 { return 100 * float64(t) / float64(d) }
	return row{
		what: what, measured: fmt.Sprintf("%.2f %%", of(u.server+u.database)),
		note: fmt.Sprintf("of a processor: node %.2f %%, database %.2f %%", of(u.server), of(u.database)),
	}
}

// restingOnPostgres measures with n keys in a database of their own.
func restingOnPostgres(ctx context.Context, b *bench, n int) (u used, err error) {
	server, err := pgtest.Run()
	if err != nil {
		return u, err
	}
	defer server.Close()
	w, err := newWorldOf(ctx, b, setup{versions: "2.2.0", store: server.URL(), before: func(w *world) error {
		return w.fill(ctx, server.URL(), n)
	}})
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	conn, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if err := rest(ctx, b.plan.rest/4); err != nil {
		return u, err
	}
	m := &meter{conn: conn, pid: w.cmd.Process.Pid}
	return m.during(ctx, func() error { return rest(ctx, b.plan.rest) })
}

// restingEmbedded measures with n keys in the embedded store.
func restingEmbedded(ctx context.Context, b *bench, n int) (u used, err error) {
	w, err := newWorldOf(ctx, b, setup{versions: "2.2.0", before: func(w *world) error { return w.fillEmbedded(ctx, n) }})
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	if err := rest(ctx, b.plan.rest/4); err != nil {
		return u, err
	}
	before, err := processorTimeOf(w.cmd.Process.Pid)
	if err != nil {
		return u, err
	}
	if err := rest(ctx, b.plan.rest); err != nil {
		return u, err
	}
	after, err := processorTimeOf(w.cmd.Process.Pid)
	return used{server: after - before}, err
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// rowOf is the i-th of many keys, as it is stored.
func rowOf(ring *keyring.Ring, i int) store.Key {
	return account.Row(ring, fmt.Sprintf("00000000-0000-4000-8000-%012d", i), fmt.Sprintf("Merchant %d", i), false)
}

// fill adds n API keys to a database.
func (w *world) fill(ctx context.Context, url string, n int) error {
	ring, err := keyring.Load(filepath.Join(w.dir, "keys.json"))
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.CopyFrom(ctx, pgx.Identifier{"api_keys"}, []string{"hash", "merchant", "strict", "created", "seal"},
		pgx.CopyFromSlice(n, func(i int) ([]any, error) {
			k := rowOf(ring, i)
			return []any{k.Hash, k.Merchant, k.Strict, k.Created.UnixMilli(), k.Seal}, nil
		}))
	return errors.Join(err, conn.Close(ctx))
}

// fillEmbedded adds n API keys to the embedded store.
func (w *world) fillEmbedded(ctx context.Context, n int) (err error) {
	ring, err := keyring.Load(filepath.Join(w.dir, "keys.json"))
	if err != nil {
		return err
	}
	db, err := sqlite.Open(filepath.Join(w.dir, "data"), sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var group errgroup.Group
	group.SetLimit(256)
	for i := range n {
		group.Go(func() error { return db.PutKey(ctx, rowOf(ring, i)) })
	}
	return group.Wait()
}
