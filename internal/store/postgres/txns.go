package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/store"
)

// statements are those that ask the clock, {now}, and how a transaction begins.
type statements struct {
	now, get, update, updateWithEvent, sweep, acquire, revoke, putNode, nodes, begin string

	addObject, object, objects, changeObject, removeObject, sweepObjects string
}

func statementsAt(clock string) statements {
	at := func(sql string) string { return strings.ReplaceAll(sql, "{now}", clock) }
	return statements{
		now: at(`SELECT {now}`),
		get: at(`SELECT owner, scheme, state, data, expires, ver FROM txns WHERE id = $1 AND expires > {now}`),
		update: at(`UPDATE txns SET owner = $3, scheme = $4, state = $5, data = $6, expires = $7, ver = ver + 1
			WHERE id = $1 AND ver = $2 AND expires > {now}`),
		// By id, not by ctid, which repeats among partitions. An array, so that the rows
		// are chosen once. What has not expired by the database's clock stays, even if the
		// caller's is ahead.
		sweep: at(`DELETE FROM txns WHERE id = ANY (ARRAY(
			SELECT id FROM txns WHERE expires <= $1 AND expires <= {now} ORDER BY expires LIMIT $2 FOR UPDATE SKIP LOCKED))`),
		updateWithEvent: at(sqlUpdateWithEvent),
		acquire:         at(sqlAcquire),
		revoke:          at(sqlRevoke),
		putNode:         at(sqlPutNode),
		nodes:           at(sqlNodes),
		addObject:       at(sqlAddObject),
		object:          at(sqlObject),
		objects:         at(sqlObjects),
		changeObject:    at(sqlChangeObject),
		removeObject:    at(sqlRemoveObject),
		sweepObjects:    at(sqlSweepObjects),
	}
}

const sqlCreate = `INSERT INTO txns (id, owner, scheme, state, data, expires, ver) VALUES ($1, $2, $3, $4, $5, $6, $7)
	ON CONFLICT (id) DO NOTHING`

// sweepLen is how many transactions one statement frees.
const sweepLen = 500

// errConflict says that another update came between.
var errConflict = errors.New("postgres: updated meanwhile")

// Create implements [store.Store].
func (db *DB) Create(ctx context.Context, t store.Txn) error {
	// A random first version: an id that is freed and taken again between the
	// two steps of an update must not look like the old one.
	ver := rand.Int64() >> 1
	return db.write(ctx, "create", func(ctx context.Context, conn *pgx.Conn) error {
		return changed(store.ErrExists)(conn.Exec(ctx, sqlCreate,
			t.ID, t.Owner, t.Scheme, string(t.State), blob(t.Data), t.Expires.UnixMilli(), ver))
	})
}

// Get implements [store.Store].
func (db *DB) Get(ctx context.Context, id string) (store.Txn, error) {
	t := store.Txn{ID: id}
	var expires int64
	err := db.read(ctx, "get", func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, db.sql.get, id).Scan(&t.Owner, &t.Scheme, &t.State, &t.Data, &expires, &t.Version)
	})
	if err != nil {
		return store.Txn{}, err
	}
	t.Expires = time.UnixMilli(expires).UTC()
	return t, nil
}

const sqlList = `SELECT id, owner, scheme, state, data, expires, ver FROM txns
	WHERE (expires, id) > ($1, $2) AND expires <= $3 AND (state = $4 OR $4 = '') ORDER BY expires, id LIMIT $5`

// List implements [store.Lister].
func (db *DB) List(ctx context.Context, after store.Txn, until time.Time, limit int) (all []store.Txn, err error) {
	err = db.read(ctx, "list", func(ctx context.Context, conn *pgx.Conn) error {
		all = nil
		rows, err := conn.Query(ctx, sqlList, after.Expires.UnixMilli(), after.ID, until.UnixMilli(), string(after.State), limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var t store.Txn
			var expires int64
			if err := rows.Scan(&t.ID, &t.Owner, &t.Scheme, &t.State, &t.Data, &expires, &t.Version); err != nil {
				return err
			}
			t.Expires = time.UnixMilli(expires).UTC()
			all = append(all, t)
		}
		return rows.Err()
	})
	return all, err
}

// Update implements [store.Store]. It has change work with no connection and no
// lock held, and writes if the transaction is still what it was. Whenever it has to
// start again, another update has succeeded.
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
		t.Event = nil
		t.Lazy = false // none is: each commit waits for the disk, and for a standby if there is one
		if err := change(&t); err != nil {
			return err
		}
		conflict := false
		err := db.write(ctx, "update", func(ctx context.Context, conn *pgx.Conn) error {
			statement := db.sql.update
			values := []any{id, was.Version, t.Owner, t.Scheme, string(t.State), blob(t.Data), t.Expires.UnixMilli()}
			if e := t.Event; e != nil {
				statement = db.sql.updateWithEvent
				values = append(values, e.ID, e.Merchant, e.Type, e.About, e.Created.UnixMilli(), blob(e.Data), e.Endpoints)
			}
			err := changed(errConflict)(conn.Exec(ctx, statement, values...))
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

// Sweep implements [store.Store]. What another node sweeps at the same time is
// left to it.
func (db *DB) Sweep(ctx context.Context, now time.Time) (int, error) {
	total := 0
	for {
		var n int64
		err := db.write(ctx, "sweep", func(ctx context.Context, conn *pgx.Conn) error {
			tag, err := conn.Exec(ctx, db.sql.sweep, now.UnixMilli(), sweepLen)
			n = tag.RowsAffected()
			return err
		})
		if err != nil {
			return total, err
		}
		total += int(n)
		if n < sweepLen {
			return total, nil
		}
	}
}
