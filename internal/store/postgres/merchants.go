package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/store"
)

const (
	sqlAddMerchant    = `INSERT INTO merchants (name, data) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING`
	sqlChangeMerchant = `UPDATE merchants SET data = $3 WHERE name = $1 AND data = $2`
	sqlMerchants      = `SELECT name, data FROM merchants ORDER BY name`
	sqlRemoveMerchant = `DELETE FROM merchants WHERE name = $1 AND data = $2`
)

// AddMerchant implements [store.Merchants].
func (db *DB) AddMerchant(ctx context.Context, m store.Merchant) error {
	return db.write(ctx, "add merchant", func(ctx context.Context, conn *pgx.Conn) error {
		return changed(store.ErrExists)(conn.Exec(ctx, sqlAddMerchant, m.Name, blob(m.Data)))
	})
}

// ChangeMerchant implements [store.Merchants].
func (db *DB) ChangeMerchant(ctx context.Context, name string, was, data []byte) error {
	return db.write(ctx, "change merchant", func(ctx context.Context, conn *pgx.Conn) error {
		return changed(store.ErrNotFound)(conn.Exec(ctx, sqlChangeMerchant, name, blob(was), blob(data)))
	})
}

// RemoveMerchant implements [store.Merchants].
func (db *DB) RemoveMerchant(ctx context.Context, name string, was []byte) error {
	return db.write(ctx, "remove merchant", func(ctx context.Context, conn *pgx.Conn) error {
		return changed(store.ErrNotFound)(conn.Exec(ctx, sqlRemoveMerchant, name, blob(was)))
	})
}

// Merchants implements [store.Merchants].
func (db *DB) Merchants(ctx context.Context) (all []store.Merchant, err error) {
	err = db.read(ctx, "merchants", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, sqlMerchants)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (m store.Merchant, err error) {
			err = row.Scan(&m.Name, &m.Data)
			return m, err
		})
		return err
	})
	return all, err
}
