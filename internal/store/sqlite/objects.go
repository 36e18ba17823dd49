package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/openthreeds/threeds/internal/store"
)

const (
	sqlAddObject = `INSERT INTO object (kind, id, expires, data) VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT (kind, id) DO UPDATE SET expires = excluded.expires, data = excluded.data WHERE object.expires <= ?5`
	sqlObject = `SELECT kind, id, expires, data FROM object
		WHERE kind = ?1 AND id = ?2 AND (expires IS NULL OR expires > ?3)`
	sqlObjects = `SELECT kind, id, expires, data FROM object
		WHERE kind = ?1 AND (expires IS NULL OR expires > ?2) ORDER BY id`
	sqlChangeObject = `UPDATE object SET expires = ?3, data = ?4
		WHERE kind = ?1 AND id = ?2 AND data = ?5 AND (expires IS NULL OR expires > ?6)`
	sqlRemoveObject = `DELETE FROM object WHERE kind = ?1 AND id = ?2 AND (expires IS NULL OR expires > ?3)`
	sqlSweepObjects = `DELETE FROM object WHERE expires <= min(?1, ?2)`

	sqlAppendAudit = `INSERT INTO audit (seq, at, link, data)
		SELECT ?1, ?2, ?3, ?4 WHERE ?1 = 1 + (SELECT coalesce(max(seq), 0) FROM audit)`
	sqlAudit = `SELECT seq, at, link, data FROM audit WHERE seq > ?1 AND seq < ?2 AND at >= ?3 AND at < ?4`
)

// objectStatements are the statements of the writer for objects and the audit trail.
type objectStatements struct {
	addObject, changeObject, removeObject, sweepObjects, appendAudit *sql.Stmt
}

func (o *objectStatements) all() []statement {
	return []statement{
		{&o.addObject, sqlAddObject},
		{&o.changeObject, sqlChangeObject},
		{&o.removeObject, sqlRemoveObject},
		{&o.sweepObjects, sqlSweepObjects},
		{&o.appendAudit, sqlAppendAudit},
	}
}

// AddObject implements [store.Objects].
func (db *DB) AddObject(ctx context.Context, o store.Object) error {
	return db.write(ctx, "add object", func(w *writer) (answer, failed error) {
		now := db.now().UnixMilli()
		return changed(store.ErrExists)(w.addObject.Exec(o.Kind, o.ID, orNull(o.Expires), blob(o.Data), now))
	})
}

// ChangeObject implements [store.Objects].
func (db *DB) ChangeObject(ctx context.Context, o store.Object, was []byte) error {
	return db.write(ctx, "change object", func(w *writer) (answer, failed error) {
		now := db.now().UnixMilli()
		return changed(store.ErrNotFound)(w.changeObject.Exec(o.Kind, o.ID, orNull(o.Expires), blob(o.Data), blob(was), now))
	})
}

// RemoveObject implements [store.Objects].
func (db *DB) RemoveObject(ctx context.Context, kind, id string) error {
	return db.write(ctx, "remove object", func(w *writer) (answer, failed error) {
		return changed(store.ErrNotFound)(w.removeObject.Exec(kind, id, db.now().UnixMilli()))
	})
}

// SweepObjects implements [store.Objects].
func (db *DB) SweepObjects(ctx context.Context, now time.Time) error {
	return db.write(ctx, "sweep objects", func(w *writer) (answer, failed error) {
		_, err := w.sweepObjects.Exec(now.UnixMilli(), db.now().UnixMilli())
		return nil, err
	})
}

// Object implements [store.Objects].
func (db *DB) Object(ctx context.Context, kind, id string) (o store.Object, err error) {
	err = db.read(ctx, "object", func(r *reader) (err error) {
		o, err = scanObject(r.object.QueryRow(kind, id, db.now().UnixMilli()))
		return err
	})
	return o, err
}

// Objects implements [store.Objects].
func (db *DB) Objects(ctx context.Context, kind string) (all []store.Object, err error) {
	err = db.read(ctx, "objects", func(r *reader) error {
		rows, err := r.objects.Query(kind, db.now().UnixMilli())
		if err != nil {
			return err
		}
		defer rows.Close()
		all = nil
		for rows.Next() {
			o, err := scanObject(rows)
			if err != nil {
				return err
			}
			all = append(all, o)
		}
		return rows.Err()
	})
	return all, err
}

func scanObject(row interface{ Scan(into ...any) error }) (o store.Object, err error) {
	var expires sql.NullInt64
	if err := row.Scan(&o.Kind, &o.ID, &expires, &o.Data); err != nil {
		return store.Object{}, err
	}
	o.Expires = momentOf(expires)
	return o, nil
}

// AppendAudit implements [store.Audit].
func (db *DB) AppendAudit(ctx context.Context, e store.AuditEntry) error {
	return db.write(ctx, "append audit", func(w *writer) (answer, failed error) {
		return changed(store.ErrExists)(w.appendAudit.Exec(e.Seq, e.At.UnixMilli(), blob(e.Link), blob(e.Data)))
	})
}

// AuditEntries implements [store.Audit].
func (db *DB) AuditEntries(ctx context.Context, q store.AuditQuery) (all []store.AuditEntry, err error) {
	from, to := q.Span()
	after, before := q.Bounds()
	err = db.read(ctx, "audit", func(r *reader) error {
		query := r.auditNewest
		if q.Oldest {
			query = r.auditOldest
		}
		rows, err := query.Query(after, before, from, to, q.Limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		all = nil
		for rows.Next() {
			var e store.AuditEntry
			var at int64
			if err := rows.Scan(&e.Seq, &at, &e.Link, &e.Data); err != nil {
				return err
			}
			e.At = time.UnixMilli(at).UTC()
			all = append(all, e)
		}
		return rows.Err()
	})
	return all, err
}
