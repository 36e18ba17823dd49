package rows

import (
	"context"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	sqlAddObject = `INSERT INTO objects (kind, id, expires, data) VALUES ($1, $2, $3, $4)
		ON CONFLICT (kind, id) DO UPDATE SET expires = excluded.expires, data = excluded.data WHERE objects.expires <= {now}`
	sqlObject       = `SELECT kind, id, expires, data FROM objects WHERE kind = $1 AND id = $2 AND (expires IS NULL OR expires > {now})`
	sqlObjects      = `SELECT kind, id, expires, data FROM objects WHERE kind = $1 AND (expires IS NULL OR expires > {now}) ORDER BY id`
	sqlChangeObject = `UPDATE objects SET expires = $3, data = $4
		WHERE kind = $1 AND id = $2 AND data = $5 AND (expires IS NULL OR expires > {now})`
	sqlRemoveObject = `DELETE FROM objects WHERE kind = $1 AND id = $2 AND (expires IS NULL OR expires > {now})`
	sqlSweepObjects = `DELETE FROM objects WHERE expires <= $1 AND expires <= {now}`

	// Two appends at once may both see the same last entry: the primary key lets only one succeed.
	sqlAppendAudit = `INSERT INTO audit (seq, at, link, data)
		SELECT $1, $2, $3, $4 WHERE CAST($1 AS bigint) = 1 + (SELECT coalesce(max(seq), 0) FROM audit) ON CONFLICT (seq) DO NOTHING`
	sqlAudit       = `SELECT seq, at, link, data FROM audit WHERE seq > $1 AND seq < $2 AND at >= $3 AND at < $4`
	sqlAuditNewest = sqlAudit + ` ORDER BY seq DESC LIMIT $5`
	sqlAuditOldest = sqlAudit + ` ORDER BY seq LIMIT $5`
)

// AddObject implements [store.Objects].
func (r *Rows) AddObject(ctx context.Context, o store.Object) error {
	return r.change(ctx, "add object", store.ErrExists, sqlAddObject, o.Kind, o.ID, orNull(o.Expires), Blob(o.Data))
}

// ChangeObject implements [store.Objects].
func (r *Rows) ChangeObject(ctx context.Context, o store.Object, was []byte) error {
	return r.change(ctx, "change object", store.ErrNotFound, sqlChangeObject, o.Kind, o.ID, orNull(o.Expires),
		Blob(o.Data), Blob(was))
}

// RemoveObject implements [store.Objects].
func (r *Rows) RemoveObject(ctx context.Context, kind, id string) error {
	return r.change(ctx, "remove object", store.ErrNotFound, sqlRemoveObject, kind, id)
}

// SweepObjects implements [store.Objects].
func (r *Rows) SweepObjects(ctx context.Context, now time.Time) error {
	return r.change(ctx, "sweep objects", nil, sqlSweepObjects, now.UnixMilli())
}

// Object implements [store.Objects].
func (r *Rows) Object(ctx context.Context, kind, id string) (store.Object, error) {
	return One(ctx, r, "object", scanObject, sqlObject, kind, id)
}

// Objects implements [store.Objects].
func (r *Rows) Objects(ctx context.Context, kind string) ([]store.Object, error) {
	return All(ctx, r, "objects", scanObject, sqlObjects, kind)
}

// AppendAudit implements [store.Audit].
func (r *Rows) AppendAudit(ctx context.Context, e store.AuditEntry) error {
	return r.change(ctx, "append audit", store.ErrExists, sqlAppendAudit, e.Seq, e.At.UnixMilli(),
		Blob(e.Link), Blob(e.Data))
}

// AuditEntries implements [store.Audit].
func (r *Rows) AuditEntries(ctx context.Context, q store.AuditQuery) ([]store.AuditEntry, error) {
	from, to := q.Span()
	after, before := q.Bounds()
	query := sqlAuditNewest
	if q.Oldest {
		query = sqlAuditOldest
	}
	return All(ctx, r, "audit", scanAuditEntry, query, after, before, from, to, q.Limit)
}
