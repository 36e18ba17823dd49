package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/openthreeds/threeds/internal/store"
)

const (
	sqlKey  = `SELECT hash, merchant, strict <> 0, created, seal FROM api_key WHERE hash = ?1`
	sqlKeys = `SELECT hash, merchant, strict <> 0, created, seal FROM api_key ORDER BY created, hash`
	sqlMark = `SELECT hex(value) FROM small_state WHERE key = 'api keys'`
	// Of one moment; the mark is the first row.
	sqlMarkedKeys = `SELECT (` + sqlMark + `), NULL, NULL, NULL, NULL, NULL
		UNION ALL SELECT NULL, hash, merchant, strict <> 0, created, seal FROM api_key ORDER BY 5, 2`
	sqlPutKey = `INSERT INTO api_key (hash, merchant, strict, created, seal) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (hash) DO NOTHING`
	sqlReseal = `UPDATE api_key SET seal = ?3 WHERE hash = ?1 AND seal = ?2`
	sqlRevoke = `DELETE FROM api_key WHERE hash = ?1`
	// This comes before sqlRevoke. A key may have been revoked, put back and revoked again.
	sqlKeepRevoked = `INSERT OR REPLACE INTO revoked_key (hash, merchant, revoked)
		SELECT hash, merchant, ?2 FROM api_key WHERE hash = ?1`
)

// PutKey implements [store.Store].
func (db *DB) PutKey(ctx context.Context, k store.Key) error {
	return db.write(ctx, "put key", func(w *writer) (answer, failed error) {
		return changed(store.ErrExists)(w.putKey.Exec(blob(k.Hash), k.Merchant, k.Strict, k.Created.UnixMilli(), blob(k.Seal)))
	})
}

// ResealKey implements [store.Store].
func (db *DB) ResealKey(ctx context.Context, hash, was, seal []byte) error {
	return db.write(ctx, "reseal key", func(w *writer) (answer, failed error) {
		return changed(store.ErrNotFound)(w.reseal.Exec(blob(hash), blob(was), blob(seal)))
	})
}

// RevokeKey implements [store.Store].
func (db *DB) RevokeKey(ctx context.Context, hash []byte) error {
	return db.write(ctx, "revoke key", func(w *writer) (answer, failed error) {
		answer = store.ErrNotFound
		failed = w.atomically(
			func() (sql.Result, error) { return w.keepRevoked.Exec(blob(hash), db.now().UnixMilli()) },
			func() (result sql.Result, err error) {
				result, err = w.revoke.Exec(blob(hash))
				if err == nil {
					answer, err = changed(store.ErrNotFound)(result, nil)
				}
				return result, err
			},
		)
		return answer, failed
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
		keys, err = scanKeys(rows)
		return err
	})
	if err != nil {
		return nil, err
	}
	return keys, nil
}

// KeysUnless implements [store.Store].
func (db *DB) KeysUnless(ctx context.Context, mark string) (keys []store.Key, now string, err error) {
	err = db.read(ctx, "keys unless", func(r *reader) (err error) {
		err = r.mark.QueryRow().Scan(&now)
		if err != nil && !errors.Is(err, sql.ErrNoRows) || now != "" && now == mark {
			return err
		}
		rows, err := r.markedKeys.Query()
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
		keys, err = scanKeys(rows, new(any))
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return keys, now, nil
}

// scanKeys reads the rows that are left, and closes them.
func scanKeys(rows *sql.Rows, before ...any) (keys []store.Key, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		k, err := scanKey(rows, before...)
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, rows.Err()
}

// scanKey reads one row, of [sql.Row] or [sql.Rows], from what comes behind the columns
// before.
func scanKey(row interface{ Scan(...any) error }, before ...any) (store.Key, error) {
	var k store.Key
	var created int64
	if err := row.Scan(append(before, &k.Hash, &k.Merchant, &k.Strict, &created, &k.Seal)...); err != nil {
		return store.Key{}, err
	}
	k.Created = time.UnixMilli(created).UTC()
	return k, nil
}
