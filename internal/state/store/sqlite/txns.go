package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/rows"
)

const (
	// The driver asks for the names of parameters again and again, and ?1 is one.
	sqlGet    = `SELECT id, owner, scheme, state, data, expires, ver FROM txns WHERE id = ? AND expires > ?`
	sqlCreate = `INSERT INTO txns (id, owner, scheme, state, data, expires, ver) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO NOTHING`
	sqlUpdate = `UPDATE txns SET owner = ?, scheme = ?, state = ?, data = ?, expires = ?, ver = ver + 1
		WHERE id = ? AND ver = ? AND expires > ?`
	sqlList = `SELECT id, owner, scheme, state, data, expires, ver FROM txns
		WHERE (expires, id) > (?1, ?2) AND expires <= ?3 AND (state = ?4 OR ?4 = '') ORDER BY expires, id LIMIT ?5`
	sqlSweep = `DELETE FROM txns WHERE rowid IN (SELECT rowid FROM txns WHERE expires <= ?1 LIMIT ?2)`
)

// sweepLen is how many transactions one statement frees: what others wait for.
const sweepLen = 250

// errConflict says that another update came between.
var errConflict = errors.New("sqlite: updated meanwhile")

// Create implements [store.Store].
func (db *DB) Create(ctx context.Context, t store.Txn) error {
	ver := cmp.Or(t.Version, store.NewVersion())
	return db.change(ctx, "create", store.ErrExists, sqlCreate,
		t.ID, t.Owner, t.Scheme, string(t.State), rows.Blob(t.Data), t.Expires.UnixMilli(), ver)
}

// Get implements [store.Store].
func (db *DB) Get(ctx context.Context, id string) (store.Txn, error) {
	if err := db.beginCall(ctx); err != nil {
		return store.Txn{}, err
	}
	defer db.endCall()
	return db.get(ctx, id)
}

// get is Get within a call.
func (db *DB) get(ctx context.Context, id string) (t store.Txn, err error) {
	err = db.withReader(ctx, "get", func(r *reader) (err error) {
		t, err = rows.ScanTxn(r.row(sqlGet, id, db.now().UnixMilli()))
		return err
	})
	return t, err
}

// List implements [store.Lister].
func (db *DB) List(ctx context.Context, after store.Txn, until time.Time, limit int) ([]store.Txn, error) {
	return rows.All(ctx, db.Rows, "list", rows.ScanTxn, sqlList, after.Expires.UnixMilli(), after.ID, until.UnixMilli(),
		string(after.State), limit)
}

// Update implements [store.Store]. It calls change in the goroutine of the caller, and writes if the transaction is
// still what it was. Whenever it has to start again, another update has succeeded.
func (db *DB) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	if err := db.beginCall(ctx); err != nil {
		return err
	}
	defer db.endCall()
	id := was.ID
	for {
		if was.Version == 0 {
			var err error
			if was, err = db.get(ctx, id); err != nil {
				return err
			}
		}
		t := was
		t.Lazy, t.Event, t.Plain = false, nil, nil
		if err := change(&t); err != nil {
			return err
		}
		write := db.withWriter
		if t.Lazy {
			write = db.withLazyWriter
		}
		err := write(ctx, "update", func(w *writer) (answer, failed error) {
			update := func() (sql.Result, error) {
				return w.exec(sqlUpdate,
					t.Owner, t.Scheme, string(t.State), rows.Blob(t.Data), t.Expires.UnixMilli(), id, was.Version,
					db.now().UnixMilli())
			}
			if t.Event != nil {
				return w.updateWithEvent(t.Event, db.now(), update)
			}
			return changed(errConflict)(update())
		})
		if !errors.Is(err, errConflict) {
			return err
		}
		was = store.Txn{}
	}
}

// Sweep implements [store.Store].
func (db *DB) Sweep(ctx context.Context, now time.Time) (int, error) {
	if err := db.beginCall(ctx); err != nil {
		return 0, err
	}
	defer db.endCall()
	return rows.RemoveInBatches(sweepLen, func() (n int64, err error) {
		err = db.withWriter(ctx, "sweep", func(w *writer) (answer, failed error) {
			n, failed = affected(w.exec(sqlSweep, now.UnixMilli(), sweepLen))
			return nil, failed
		})
		return n, err
	})
}

// affected returns how many rows a statement has changed.
func affected(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// changed returns how to read the result of a statement: none is the answer when
// no row has changed.
func changed(none error) func(sql.Result, error) (answer, failed error) {
	return func(result sql.Result, err error) (answer, failed error) {
		n, err := affected(result, err)
		if err != nil || n > 0 {
			return nil, err
		}
		return none, nil
	}
}

// row returns how to read the error of a Scan: none is the answer when there is no
// row.
func row(none error) func(error) (answer, failed error) {
	return func(err error) (answer, failed error) {
		if errors.Is(err, sql.ErrNoRows) {
			return none, nil
		}
		return nil, err
	}
}
