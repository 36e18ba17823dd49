package sqlite

import (
	"context"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/rows"
)

const (
	// A key may have been revoked, put back and revoked again.
	sqlKeepRevoked = `INSERT OR REPLACE INTO revoked_keys (hash, merchant, revoked)
		SELECT hash, merchant, ?2 FROM api_keys WHERE hash = ?1`
	sqlRevoke = `DELETE FROM api_keys WHERE hash = ?1`
)

// RevokeKey implements [store.Store].
func (db *DB) RevokeKey(ctx context.Context, hash []byte) error {
	return db.write(ctx, "revoke key", func(w *writer) (answer, failed error) {
		return w.atomically(func() (answer, failed error) {
			if _, err := w.exec(sqlKeepRevoked, rows.Blob(hash), db.now().UnixMilli()); err != nil {
				return nil, err
			}
			return changed(store.ErrNotFound)(w.exec(sqlRevoke, rows.Blob(hash)))
		})
	})
}
