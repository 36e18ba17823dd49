package sqlite

import (
	"context"

	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	sqlAddMerchant    = `INSERT INTO merchants (name, data) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING`
	sqlChangeMerchant = `UPDATE merchants SET data = ?3 WHERE name = ?1 AND data = ?2`
	sqlMerchants      = `SELECT name, data FROM merchants ORDER BY name`
	sqlRemoveMerchant = `DELETE FROM merchants WHERE name = ?1 AND data = ?2`
)

// AddMerchant implements [store.Merchants].
func (db *DB) AddMerchant(ctx context.Context, m store.Merchant) error {
	return db.change(ctx, "add merchant", store.ErrExists, sqlAddMerchant, m.Name, store.Blob(m.Data))
}

// ChangeMerchant implements [store.Merchants].
func (db *DB) ChangeMerchant(ctx context.Context, name string, was, data []byte) error {
	return db.change(ctx, "change merchant", store.ErrNotFound, sqlChangeMerchant, name, store.Blob(was), store.Blob(data))
}

// RemoveMerchant implements [store.Merchants].
func (db *DB) RemoveMerchant(ctx context.Context, name string, was []byte) error {
	return db.change(ctx, "remove merchant", store.ErrNotFound, sqlRemoveMerchant, name, store.Blob(was))
}

// Merchants implements [store.Merchants].
func (db *DB) Merchants(ctx context.Context) ([]store.Merchant, error) {
	return queryRows(ctx, db, "merchants", store.ScanMerchant, sqlMerchants)
}
