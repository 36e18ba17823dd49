package postgres

import (
	"context"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/rows"
)

const sqlRevoke = `WITH gone AS (DELETE FROM api_keys WHERE hash = $1 RETURNING hash, merchant)
	INSERT INTO revoked_keys (hash, merchant, revoked) SELECT hash, merchant, {now} FROM gone
	ON CONFLICT (hash) DO UPDATE SET merchant = excluded.merchant, revoked = excluded.revoked`

// RevokeKey implements [store.Store].
func (db *DB) RevokeKey(ctx context.Context, hash []byte) error {
	return db.change(ctx, "revoke key", store.ErrNotFound, sqlRevoke, rows.Blob(hash))
}
