package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/store"
)

const (
	sqlAddObject = `INSERT INTO objects (kind, id, expires, data) VALUES ($1, $2, $3, $4)
		ON CONFLICT (kind, id) DO UPDATE SET expires = excluded.expires, data = excluded.data WHERE objects.expires <= {now}`
	sqlObject = `SELECT kind, id, expires, data FROM objects
		WHERE kind = $1 AND id = $2 AND (expires IS NULL OR expires > {now})`
	sqlObjects = `SELECT kind, id, expires, data FROM objects
		WHERE kind = $1 AND (expires IS NULL OR expires > {now}) ORDER BY id`
	sqlChangeObject = `UPDATE objects SET expires = $3, data = $4
		WHERE kind = $1 AND id = $2 AND data = $5 AND (expires IS NULL OR expires > {now})`
	sqlRemoveObject = `DELETE FROM objects WHERE kind = $1 AND id = $2 AND (expires IS NULL OR expires > {now})`
	sqlSweepObjects = `DELETE FROM objects WHERE expires <= $1 AND expires <= {now}`

	// Two that append at once may both see the same last entry: the primary key lets one through.
	sqlAppendAudit = `INSERT INTO audit (seq, at, link, data)
		SELECT $1, $2, $3, $4 WHERE $1::bigint = 1 + (SELECT coalesce(max(seq), 0) FROM audit) ON CONFLICT (seq) DO NOTHING`
	sqlAudit       = `SELECT seq, at, link, data FROM audit WHERE seq > $1 AND seq < $2 AND at >= $3 AND at < $4`
	sqlAuditNewest = sqlAudit + ` ORDER BY seq DESC LIMIT $5`
	sqlAuditOldest = sqlAudit + ` ORDER BY seq LIMIT $5`
)

// AddObject implements [store.Objects].
func (db *DB) AddObject(ctx context.Context, o store.Object) error {
	return db.write(ctx, "add object", func(ctx context.Context, conn *pgx.Conn) error {
		return changed(store.ErrExists)(conn.Exec(ctx, db.sql.addObject, o.Kind, o.ID, orNull(o.Expires), blob(o.Data)))
	})
}

// ChangeObject implements [store.Objects].
func (db *DB) ChangeObject(ctx context.Context, o store.Object, was []byte) error {
	return db.write(ctx, "change object", func(ctx context.Context, conn *pgx.Conn) error {
		return changed(store.ErrNotFound)(conn.Exec(ctx, db.sql.changeObject,
			o.Kind, o.ID, orNull(o.Expires), blob(o.Data), blob(was)))
	})
}

// RemoveObject implements [store.Objects].
func (db *DB) RemoveObject(ctx context.Context, kind, id string) error {
	return db.write(ctx, "remove object", func(ctx context.Context, conn *pgx.Conn) error {
		return changed(store.ErrNotFound)(conn.Exec(ctx, db.sql.removeObject, kind, id))
	})
}

// SweepObjects implements [store.Objects].
func (db *DB) SweepObjects(ctx context.Context, now time.Time) error {
	return db.write(ctx, "sweep objects", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, db.sql.sweepObjects, now.UnixMilli())
		return err
	})
}

// Object implements [store.Objects].
func (db *DB) Object(ctx context.Context, kind, id string) (o store.Object, err error) {
	err = db.read(ctx, "object", func(ctx context.Context, conn *pgx.Conn) (err error) {
		o, err = scanObject(conn.QueryRow(ctx, db.sql.object, kind, id))
		return err
	})
	return o, err
}

// Objects implements [store.Objects].
func (db *DB) Objects(ctx context.Context, kind string) (all []store.Object, err error) {
	err = db.read(ctx, "objects", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, db.sql.objects, kind)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.Object, error) { return scanObject(row) })
		return err
	})
	return all, err
}

func scanObject(row interface{ Scan(into ...any) error }) (o store.Object, err error) {
	var expires *int64
	if err := row.Scan(&o.Kind, &o.ID, &expires, &o.Data); err != nil {
		return store.Object{}, err
	}
	o.Expires = momentOf(expires)
	return o, nil
}

// AppendAudit implements [store.Audit].
func (db *DB) AppendAudit(ctx context.Context, e store.AuditEntry) error {
	return db.write(ctx, "append audit", func(ctx context.Context, conn *pgx.Conn) error {
		return changed(store.ErrExists)(conn.Exec(ctx, sqlAppendAudit, e.Seq, e.At.UnixMilli(), blob(e.Link), blob(e.Data)))
	})
}

// AuditEntries implements [store.Audit].
func (db *DB) AuditEntries(ctx context.Context, q store.AuditQuery) (all []store.AuditEntry, err error) {
	from, to := q.Span()
	after, before := q.Bounds()
	query := sqlAuditNewest
	if q.Oldest {
		query = sqlAuditOldest
	}
	err = db.read(ctx, "audit", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, query, after, before, from, to, q.Limit)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e store.AuditEntry, err error) {
			var at int64
			err = row.Scan(&e.Seq, &at, &e.Link, &e.Data)
			e.At = time.UnixMilli(at).UTC()
			return e, err
		})
		return err
	})
	return all, err
}
