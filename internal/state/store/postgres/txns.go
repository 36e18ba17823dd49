package postgres

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/rows"
)

const (
	sqlCreate = `INSERT INTO txns (id, owner, scheme, state, data, expires, ver) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (id) DO NOTHING`
	sqlGet    = `SELECT id, owner, scheme, state, data, expires, ver FROM txns WHERE id = $1 AND expires > {now}`
	sqlUpdate = `UPDATE txns SET owner = $3, scheme = $4, state = $5, data = $6, expires = $7, ver = ver + 1
		WHERE id = $1 AND ver = $2 AND expires > {now}`

	// What has not expired by the database's clock stays, even if the caller's is ahead.
	sqlExpired = `SELECT id, ver FROM txns WHERE expires <= $1 AND expires <= {now} ORDER BY expires LIMIT $2`
	sqlFree    = `DELETE FROM txns WHERE id = $1 AND ver = $2`
)

// errConflict says that another update came between.
var errConflict = errors.New("postgres: updated meanwhile")

// Create implements [store.Store].
func (db *DB) Create(ctx context.Context, t store.Txn) error {
	ver := cmp.Or(t.Version, store.NewVersion())
	return db.change(ctx, "create", store.ErrExists, sqlCreate,
		t.ID, t.Owner, t.Scheme, string(t.State), rows.Blob(t.Data), t.Expires.UnixMilli(), ver)
}

// Get implements [store.Store]. If this process takes a previous primary for the primary, that one lacks what was
// written since. So it says that a transaction is not there only after it has asked the other hosts.
func (db *DB) Get(ctx context.Context, id string) (store.Txn, error) {
	before := db.failover.promotions()
	t, err := rows.One(ctx, db.Rows, "get", rows.ScanTxn, sqlGet, id)
	if errors.Is(err, store.ErrNotFound) {
		db.scout.askHosts(context.WithoutCancel(ctx)) // Others may wait for the same round when this caller gives up.
		if db.failover.promotions() != before {
			return rows.One(ctx, db.Rows, "get", rows.ScanTxn, sqlGet, id)
		}
	}
	return t, err
}

const sqlList = `SELECT id, owner, scheme, state, data, expires, ver FROM txns
	WHERE (expires, id) > ($1, $2) AND expires <= $3 AND (state = $4 OR $4 = '') ORDER BY expires, id LIMIT $5`

// List implements [store.Lister].
func (db *DB) List(ctx context.Context, after store.Txn, until time.Time, limit int) ([]store.Txn, error) {
	return rows.All(ctx, db.Rows, "list", rows.ScanTxn, sqlList, after.Expires.UnixMilli(), after.ID, until.UnixMilli(),
		string(after.State), limit)
}

// Update implements [store.Store]. It calls change without holding a connection or a lock, and writes if the
// transaction is still what it was. Whenever it has to start again, another update has succeeded.
func (db *DB) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	id := was.ID
	for {
		if was.Version == 0 {
			var err error
			if was, err = db.Get(ctx, id); err != nil {
				return err
			}
		}
		t := was
		t.Event, t.Plain = nil, nil
		t.Lazy = false // none is: each commit waits for the disk, and for a standby if there is one
		if err := change(&t); err != nil {
			return err
		}
		conflict := false
		err := db.write(ctx, "update", func(ctx context.Context, conn *pgx.Conn) error {
			statement := sqlUpdate
			values := []any{id, was.Version, t.Owner, t.Scheme, string(t.State), rows.Blob(t.Data), t.Expires.UnixMilli()}
			if e := t.Event; e != nil {
				statement = sqlUpdateWithEvent
				values = append(values, e.ID, e.Merchant, e.Type, e.Created.UnixMilli(), rows.Blob(e.Data), e.Endpoints)
			}
			err := changed(errConflict)(conn.Exec(ctx, db.SQL(statement), values...))
			if conflict = errors.Is(err, errConflict); conflict {
				return nil
			}
			return err
		})
		if err != nil || !conflict {
			return err
		}
		was = store.Txn{}
	}
}

// Sweep implements [store.Store]. A transaction that another node frees at the same time is counted there.
func (db *DB) Sweep(ctx context.Context, now time.Time) (int, error) {
	return db.removeKeys(ctx, "sweep", isLazy, sqlExpired, []any{now.UnixMilli()}, sqlFree, 2)
}
