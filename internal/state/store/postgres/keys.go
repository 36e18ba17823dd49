package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	sqlKey  = `SELECT hash, merchant, strict, created, seal FROM api_keys WHERE hash = $1`
	sqlKeys = `SELECT hash, merchant, strict, created, seal FROM api_keys ORDER BY created, hash`
	// Without the trigger, or if it does not always fire, there is no mark. The trigger's
	// xmin is part of the mark: it changes if the trigger was off for a while.
	sqlMark = `SELECT encode(m.value, 'hex') || '-' || t.xmin FROM small_states m, pg_trigger t
		WHERE m.key = 'api keys' AND t.tgrelid = 'api_keys'::regclass AND t.tgname = 'mark' AND t.tgenabled = 'A'`

	// Mark and keys are of one snapshot. The mark is the first row.
	sqlKeysUnless = `WITH mark (now) AS MATERIALIZED (` + sqlMark + `)
		SELECT (SELECT now FROM mark), NULL, NULL, NULL, NULL, NULL
		UNION ALL SELECT NULL, hash, merchant, strict, created, seal FROM api_keys WHERE (SELECT now FROM mark) IS DISTINCT FROM $1
		ORDER BY 5 NULLS FIRST, 2`

	sqlPutKey = `INSERT INTO api_keys (hash, merchant, strict, created, seal) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (hash) DO NOTHING`
	sqlReseal = `UPDATE api_keys SET seal = $3 WHERE hash = $1 AND seal = $2`
	sqlRevoke = `WITH gone AS (DELETE FROM api_keys WHERE hash = $1 RETURNING hash, merchant)
		INSERT INTO revoked_keys (hash, merchant, revoked) SELECT hash, merchant, {now} FROM gone
		ON CONFLICT (hash) DO UPDATE SET merchant = excluded.merchant, revoked = excluded.revoked`
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
	return db.change(ctx, "revoke key", store.ErrNotFound, sqlRevoke, store.Blob(hash))
}

// Key implements [store.Store].
func (db *DB) Key(ctx context.Context, hash []byte) (store.Key, error) {
	return queryRow(ctx, db, "key", store.ScanKey, sqlKey, store.Blob(hash))
}

// Keys implements [store.Store].
func (db *DB) Keys(ctx context.Context) ([]store.Key, error) {
	return queryRows(ctx, db, "keys", store.ScanKey, sqlKeys)
}

// KeysUnless implements [store.Store].
func (db *DB) KeysUnless(ctx context.Context, mark string) (keys []store.Key, now string, err error) {
	err = db.read(ctx, "keys unless", func(ctx context.Context, conn *pgx.Conn) error {
		keys, now = nil, ""
		rows, err := conn.Query(ctx, sqlKeysUnless, mark)
		if err != nil {
			return err
		}
		defer rows.Close()
		if rows.Next() {
			if err := rows.Scan((*zeronull.Text)(&now), nil, nil, nil, nil, nil); err != nil {
				return err
			}
		}
		keys, err = collect(store.ScanMarkedKey)(rows, nil)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return keys, now, nil
}
