package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	sqlKey  = `SELECT hash, merchant, strict <> 0, created, seal FROM api_keys WHERE hash = ?1`
	sqlKeys = `SELECT hash, merchant, strict <> 0, created, seal FROM api_keys ORDER BY created, hash`
	sqlMark = `SELECT hex(value) FROM small_states WHERE key = 'api keys'`
	// Of one moment; the mark is the first row.
	sqlMarkedKeys = `SELECT (` + sqlMark + `), NULL, NULL, NULL, NULL, NULL
		UNION ALL SELECT NULL, hash, merchant, strict <> 0, created, seal FROM api_keys ORDER BY 5, 2`
	sqlPutKey = `INSERT INTO api_keys (hash, merchant, strict, created, seal) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (hash) DO NOTHING`
	sqlReseal = `UPDATE api_keys SET seal = ?3 WHERE hash = ?1 AND seal = ?2`
	sqlRevoke = `DELETE FROM api_keys WHERE hash = ?1`
	// This comes before sqlRevoke. A key may have been revoked, put back and revoked again.
	sqlKeepRevoked = `INSERT OR REPLACE INTO revoked_keys (hash, merchant, revoked)
		SELECT hash, merchant, ?2 FROM api_keys WHERE hash = ?1`
)

// PutKey implements [store.Store].
func (db *DB) PutKey(ctx context.Context, k store.Key) error {
	return db.change(ctx, "put key", store.ErrExists, sqlPutKey, store.Blob(k.Hash), k.Merchant, k.Strict, k.Created.UnixMilli(), store.Blob(k.Seal))
}

// ResealKey implements [store.Store].
func (db *DB) ResealKey(ctx context.Context, hash, was, seal []byte) error {
	return db.change(ctx, "reseal key", store.ErrNotFound, sqlReseal, store.Blob(hash), store.Blob(was), store.Blob(seal))
}

// RevokeKey implements [store.Store].
func (db *DB) RevokeKey(ctx context.Context, hash []byte) error {
	return db.write(ctx, "revoke key", func(w *writer) (answer, failed error) {
		return w.atomically(func() (answer, failed error) {
			if _, err := w.exec(sqlKeepRevoked, store.Blob(hash), db.now().UnixMilli()); err != nil {
				return nil, err
			}
			return changed(store.ErrNotFound)(w.exec(sqlRevoke, store.Blob(hash)))
		})
	})
}

// Key implements [store.Store].
func (db *DB) Key(ctx context.Context, hash []byte) (k store.Key, err error) {
	err = db.read(ctx, "key", func(r *reader) error {
		k, err = store.ScanKey(r.row(sqlKey, store.Blob(hash)))
		return err
	})
	return k, err
}

// Keys implements [store.Store].
func (db *DB) Keys(ctx context.Context) ([]store.Key, error) {
	return queryRows(ctx, db, "keys", store.ScanKey, sqlKeys)
}

// KeysUnless implements [store.Store].
func (db *DB) KeysUnless(ctx context.Context, mark string) (keys []store.Key, now string, err error) {
	err = db.read(ctx, "keys unless", func(r *reader) (err error) {
		err = r.row(sqlMark).Scan(&now)
		if err != nil && !errors.Is(err, sql.ErrNoRows) || now != "" && now == mark {
			return err
		}
		rows, err := r.rows(sqlMarkedKeys)
		if err != nil {
			return err
		}
		var first sql.NullString
		if rows.Next() {
			err = rows.Scan(&first, new(any), new(any), new(any), new(any), new(any))
		}
		now = first.String
		if err != nil {
			return errors.Join(err, rows.Close())
		}
		keys, err = collect(store.ScanMarkedKey)(rows, nil)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return keys, now, nil
}
