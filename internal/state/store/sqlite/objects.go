package sqlite

import (
	"context"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	sqlAddObject = `INSERT INTO objects (kind, id, expires, data) VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT (kind, id) DO UPDATE SET expires = excluded.expires, data = excluded.data WHERE objects.expires <= ?5`
	sqlObject = `SELECT kind, id, expires, data FROM objects
		WHERE kind = ?1 AND id = ?2 AND (expires IS NULL OR expires > ?3)`
	sqlObjects = `SELECT kind, id, expires, data FROM objects
		WHERE kind = ?1 AND (expires IS NULL OR expires > ?2) ORDER BY id`
	sqlChangeObject = `UPDATE objects SET expires = ?3, data = ?4
		WHERE kind = ?1 AND id = ?2 AND data = ?5 AND (expires IS NULL OR expires > ?6)`
	sqlRemoveObject = `DELETE FROM objects WHERE kind = ?1 AND id = ?2 AND (expires IS NULL OR expires > ?3)`
	sqlSweepObjects = `DELETE FROM objects WHERE expires <= min(?1, ?2)`

	sqlAppendAudit = `INSERT INTO audit (seq, at, link, data)
		SELECT ?1, ?2, ?3, ?4 WHERE ?1 = 1 + (SELECT coalesce(max(seq), 0) FROM audit)`
	sqlAudit       = `SELECT seq, at, link, data FROM audit WHERE seq > ?1 AND seq < ?2 AND at >= ?3 AND at < ?4`
	sqlAuditNewest = sqlAudit + " ORDER BY seq DESC LIMIT ?5"
	sqlAuditOldest = sqlAudit + " ORDER BY seq LIMIT ?5"
)

// AddObject implements [store.Objects].
func (db *DB) AddObject(ctx context.Context, o store.Object) error {
	return db.write(ctx, "add object", func(w *writer) (answer, failed error) {
		now := db.now().UnixMilli()
		return changed(store.ErrExists)(w.exec(sqlAddObject, o.Kind, o.ID, store.OrNull(o.Expires), store.Blob(o.Data), now))
	})
}

// ChangeObject implements [store.Objects].
func (db *DB) ChangeObject(ctx context.Context, o store.Object, was []byte) error {
	return db.write(ctx, "change object", func(w *writer) (answer, failed error) {
		now := db.now().UnixMilli()
		return changed(store.ErrNotFound)(w.exec(sqlChangeObject, o.Kind, o.ID, store.OrNull(o.Expires), store.Blob(o.Data), store.Blob(was), now))
	})
}

// RemoveObject implements [store.Objects].
func (db *DB) RemoveObject(ctx context.Context, kind, id string) error {
	return db.write(ctx, "remove object", func(w *writer) (answer, failed error) {
		return changed(store.ErrNotFound)(w.exec(sqlRemoveObject, kind, id, db.now().UnixMilli()))
	})
}

// SweepObjects implements [store.Objects].
func (db *DB) SweepObjects(ctx context.Context, now time.Time) error {
	return db.write(ctx, "sweep objects", func(w *writer) (answer, failed error) {
		_, err := w.exec(sqlSweepObjects, now.UnixMilli(), db.now().UnixMilli())
		return nil, err
	})
}

// Object implements [store.Objects].
func (db *DB) Object(ctx context.Context, kind, id string) (o store.Object, err error) {
	err = db.read(ctx, "object", func(r *reader) (err error) {
		o, err = store.ScanObject(r.row(sqlObject, kind, id, db.now().UnixMilli()))
		return err
	})
	return o, err
}

// Objects implements [store.Objects].
func (db *DB) Objects(ctx context.Context, kind string) (all []store.Object, err error) {
	err = db.read(ctx, "objects", func(r *reader) (err error) {
		all, err = collect(store.ScanObject)(r.rows(sqlObjects, kind, db.now().UnixMilli()))
		return err
	})
	return all, err
}

// AppendAudit implements [store.Audit].
func (db *DB) AppendAudit(ctx context.Context, e store.AuditEntry) error {
	return db.change(ctx, "append audit", store.ErrExists, sqlAppendAudit, e.Seq, e.At.UnixMilli(), store.Blob(e.Link), store.Blob(e.Data))
}

// AuditEntries implements [store.Audit].
func (db *DB) AuditEntries(ctx context.Context, q store.AuditQuery) ([]store.AuditEntry, error) {
	from, to := q.Span()
	after, before := q.Bounds()
	query := sqlAuditNewest
	if q.Oldest {
		query = sqlAuditOldest
	}
	return queryRows(ctx, db, "audit", store.ScanAuditEntry, query, after, before, from, to, q.Limit)
}
