package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/openthreeds/threeds/internal/store"
)

const (
	sqlKey    = `SELECT hash, merchant, strict <> 0, created, seal FROM api_key WHERE hash = ?1`
	sqlKeys   = `SELECT hash, merchant, strict <> 0, created, seal FROM api_key ORDER BY created, hash`
	sqlPutKey = `INSERT INTO api_key (hash, merchant, strict, created, seal) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (hash) DO NOTHING`
	sqlRehash = `UPDATE api_key SET hash = ?2, seal = ?3 WHERE hash = ?1`
	sqlRevoke = `DELETE FROM api_key WHERE hash = ?1`
)

// PutKey implements [store.Store].
func (db *DB) PutKey(ctx context.Context, k store.Key) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.leave()
	return db.write(ctx, "put key", func(w *writer) (answer, failed error) {
		return changed(store.ErrExists)(w.putKey.Exec(blob(k.Hash), k.Merchant, k.Strict, k.Created.UnixMilli(), blob(k.Seal)))
	})
}

// RehashKey implements [store.Store].
func (db *DB) RehashKey(ctx context.Context, old, hash, seal []byte) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.leave()
	return db.write(ctx, "rehash key", func(w *writer) (answer, failed error) {
		answer, failed = changed(store.ErrNotFound)(w.rehash.Exec(blob(old), blob(hash), blob(seal)))
		if isTaken(failed) {
			return store.ErrExists, nil
		}
		return answer, failed
	})
}

// RevokeKey implements [store.Store].
func (db *DB) RevokeKey(ctx context.Context, hash []byte) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.leave()
	return db.write(ctx, "revoke key", func(w *writer) (answer, failed error) {
		return changed(store.ErrNotFound)(w.revoke.Exec(blob(hash)))
	})
}

// Key implements [store.Store].
func (db *DB) Key(ctx context.Context, hash []byte) (k store.Key, err error) {
	err = db.read(ctx, "key", func(r *reader) error {
		k, err = scanKey(r.key.QueryRow(blob(hash)))
		return err
	})
	return k, err
}

// Keys implements [store.Store].
func (db *DB) Keys(ctx context.Context) (keys []store.Key, err error) {
	err = db.read(ctx, "keys", func(r *reader) (err error) {
		rows, err := r.keys.Query()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			k, err := scanKey(rows)
			if err != nil {
				return err
			}
			keys = append(keys, k)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return keys, nil
}

// scanKey reads one row, of [sql.Row] or [sql.Rows].
func scanKey(row interface{ Scan(...any) error }) (store.Key, error) {
	var k store.Key
	var created int64
	if err := row.Scan(&k.Hash, &k.Merchant, &k.Strict, &created, &k.Seal); err != nil {
		return store.Key{}, err
	}
	k.Created = time.UnixMilli(created).UTC()
	return k, nil
}
