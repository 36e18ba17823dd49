package sqlite

import (
	"context"
	"errors"

	"github.com/openthreeds/threeds/internal/store"
)

const (
	sqlAddMerchant    = `INSERT INTO merchant (name, data) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING`
	sqlChangeMerchant = `UPDATE merchant SET data = ?3 WHERE name = ?1 AND data = ?2`
	sqlMerchants      = `SELECT name, data FROM merchant ORDER BY name`
	sqlRemoveMerchant = `DELETE FROM merchant WHERE name = ?1 AND data = ?2`
)

// AddMerchant implements [store.Merchants].
func (db *DB) AddMerchant(ctx context.Context, m store.Merchant) error {
	return db.write(ctx, "add merchant", func(w *writer) (answer, failed error) {
		return changed(store.ErrExists)(w.addMerchant.Exec(m.Name, blob(m.Data)))
	})
}

// ChangeMerchant implements [store.Merchants].
func (db *DB) ChangeMerchant(ctx context.Context, name string, was, data []byte) error {
	return db.write(ctx, "change merchant", func(w *writer) (answer, failed error) {
		return changed(store.ErrNotFound)(w.changeMerchant.Exec(name, blob(was), blob(data)))
	})
}

// RemoveMerchant implements [store.Merchants].
func (db *DB) RemoveMerchant(ctx context.Context, name string, was []byte) error {
	return db.write(ctx, "remove merchant", func(w *writer) (answer, failed error) {
		return changed(store.ErrNotFound)(w.removeMerchant.Exec(name, blob(was)))
	})
}

// Merchants implements [store.Merchants].
func (db *DB) Merchants(ctx context.Context) (all []store.Merchant, err error) {
	err = db.read(ctx, "merchants", func(r *reader) (err error) {
		rows, err := r.merchants.Query()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			var m store.Merchant
			if err := rows.Scan(&m.Name, &m.Data); err != nil {
				return err
			}
			all = append(all, m)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}
