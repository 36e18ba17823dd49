package rows

import (
	"context"

	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	// SQLite keeps true and false as numbers. Any number but 0 is true, so that a row that was changed by hand can be
	// read.
	sqlKey     = `SELECT hash, merchant, strict <> false, created, seal FROM api_keys WHERE hash = $1`
	sqlKeys    = `SELECT hash, merchant, strict <> false, created, seal FROM api_keys ORDER BY created, hash`
	sqlKeyMark = `SELECT coalesce({mark of keys}, '')`
	// Mark and keys are of one moment. The mark is the first row.
	sqlMarkedKeys = `SELECT coalesce({mark of keys}, ''), NULL, NULL, NULL, NULL, NULL
		UNION ALL SELECT NULL, hash, merchant, strict <> false, created, seal FROM api_keys ORDER BY 5 NULLS FIRST, 2`
	sqlPutKey = `INSERT INTO api_keys (hash, merchant, strict, created, seal) VALUES ($1, $2, $3, $4, $5) ON CONFLICT (hash) DO NOTHING`
	sqlReseal = `UPDATE api_keys SET seal = $3 WHERE hash = $1 AND seal = $2`

	sqlAddMerchant    = `INSERT INTO merchants (name, data) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`
	sqlChangeMerchant = `UPDATE merchants SET data = $3 WHERE name = $1 AND data = $2`
	sqlMerchants      = `SELECT name, data FROM merchants ORDER BY name`
	sqlRemoveMerchant = `DELETE FROM merchants WHERE name = $1 AND data = $2`
)

// PutKey implements [store.Store].
func (r *Rows) PutKey(ctx context.Context, k store.Key) error {
	return r.change(ctx, "put key", store.ErrExists, sqlPutKey, Blob(k.Hash), k.Merchant, k.Strict,
		k.Created.UnixMilli(), Blob(k.Seal))
}

// ResealKey implements [store.Store].
func (r *Rows) ResealKey(ctx context.Context, hash, was, seal []byte) error {
	return r.change(ctx, "reseal key", store.ErrNotFound, sqlReseal, Blob(hash), Blob(was), Blob(seal))
}

// Key implements [store.Store].
func (r *Rows) Key(ctx context.Context, hash []byte) (store.Key, error) {
	return One(ctx, r, "key", scanKey, sqlKey, Blob(hash))
}

// Keys implements [store.Store].
func (r *Rows) Keys(ctx context.Context) ([]store.Key, error) {
	return All(ctx, r, "keys", scanKey, sqlKeys)
}

// KeysUnless implements [store.Store].
func (r *Rows) KeysUnless(ctx context.Context, mark string) (keys []store.Key, now string, err error) {
	now, err = One(ctx, r, "mark of keys", ScanValue[string], sqlKeyMark)
	if err != nil || now != "" && now == mark {
		return nil, now, err
	}
	err = r.engine.Query(ctx, "marked keys", r.SQL(sqlMarkedKeys), nil, func(result Result) error {
		if !result.Next() {
			return result.Err()
		}
		if err := result.Scan(&now, new(any), new(any), new(any), new(any), new(any)); err != nil {
			return err
		}
		keys, err = Collect(result, scanMarkedKey)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return keys, now, nil
}

// AddMerchant implements [store.Merchants].
func (r *Rows) AddMerchant(ctx context.Context, m store.Merchant) error {
	return r.change(ctx, "add merchant", store.ErrExists, sqlAddMerchant, m.Name, Blob(m.Data))
}

// ChangeMerchant implements [store.Merchants].
func (r *Rows) ChangeMerchant(ctx context.Context, name string, was, data []byte) error {
	return r.change(ctx, "change merchant", store.ErrNotFound, sqlChangeMerchant, name, Blob(was), Blob(data))
}

// RemoveMerchant implements [store.Merchants].
func (r *Rows) RemoveMerchant(ctx context.Context, name string, was []byte) error {
	return r.change(ctx, "remove merchant", store.ErrNotFound, sqlRemoveMerchant, name, Blob(was))
}

// Merchants implements [store.Merchants].
func (r *Rows) Merchants(ctx context.Context) ([]store.Merchant, error) {
	return All(ctx, r, "merchants", scanMerchant, sqlMerchants)
}
