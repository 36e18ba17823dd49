package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/rows"
)

const (
	sqlDropEndpoint = `WITH d AS (DELETE FROM deliveries WHERE endpoint = $1) DELETE FROM endpoints WHERE id = $1`

	sqlPutEvent = `WITH e AS (INSERT INTO events (id, merchant, type, about, created, data) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (id) DO NOTHING RETURNING id, created),
		d AS (INSERT INTO deliveries (event, endpoint, attempt, due, status, error)
			SELECT e.id, endpoint, 0, e.created, 0, '' FROM e, unnest($7::text[]) AS endpoint)
		SELECT id FROM e`

	// Of several that claim at once, each gets rows that no other has.
	sqlClaimDeliveries = `UPDATE deliveries d SET due = $2 FROM (
			SELECT event, endpoint FROM deliveries WHERE due <= $1 AND endpoint <> ALL ($3::text[])
			ORDER BY due LIMIT $4 FOR UPDATE SKIP LOCKED) c
		WHERE d.event = c.event AND d.endpoint = c.endpoint
		RETURNING d.event, d.endpoint, d.attempt, d.due, d.last, d.status, d.error`
	sqlSweepEvents = `WITH gone AS (DELETE FROM events WHERE id = ANY (ARRAY(
				SELECT id FROM events WHERE created < $1 ORDER BY created LIMIT $2 FOR UPDATE SKIP LOCKED)) RETURNING id),
		d AS (DELETE FROM deliveries WHERE event IN (SELECT id FROM gone))
		SELECT id FROM gone`
	sqlEraseEvents = `WITH gone AS (DELETE FROM events WHERE id = ANY (ARRAY(
				SELECT id FROM events WHERE ($1 <> '' AND merchant = $1) OR about = ANY ($2::text[]) ORDER BY id LIMIT $3 FOR UPDATE)) RETURNING id),
		d AS (DELETE FROM deliveries WHERE event IN (SELECT id FROM gone))
		SELECT id FROM gone`

	// sqlUpdateWithEvent is sqlUpdate with an event. All parts see the tables as they were before.
	sqlUpdateWithEvent = `WITH u AS (UPDATE txns SET owner = $3, scheme = $4, state = $5, data = $6, expires = $7, ver = ver + 1
			WHERE id = $1 AND ver = $2 AND expires > {now} RETURNING id),
		ahead AS (DELETE FROM events WHERE about = $11 AND created > {now} AND EXISTS (SELECT FROM u) RETURNING id),
		undelivered AS (DELETE FROM deliveries WHERE event IN (SELECT id FROM ahead)),
		e AS (INSERT INTO events (id, merchant, type, about, created, data) SELECT $8, $9, $10, $11, $12, $13 FROM u),
		d AS (INSERT INTO deliveries (event, endpoint, attempt, due, status, error)
			SELECT $8, endpoint, 0, $12, 0, '' FROM u, unnest($14::text[]) AS endpoint)
		SELECT id FROM u`
)

// RemoveEndpoint implements [store.Events].
func (db *DB) RemoveEndpoint(ctx context.Context, id string) error {
	return db.change(ctx, "remove endpoint", store.ErrNotFound, sqlDropEndpoint, id)
}

// PutEvent implements [store.Events].
func (db *DB) PutEvent(ctx context.Context, e store.Event) error {
	return db.change(ctx, "put event", store.ErrExists, sqlPutEvent,
		e.ID, e.Merchant, e.Type, e.About, e.Created.UnixMilli(), rows.Blob(e.Data), e.Endpoints)
}

// ClaimDeliveries implements [store.Events].
func (db *DB) ClaimDeliveries(ctx context.Context, now, until time.Time, busy []string, most int) (all []store.Delivery, err error) {
	err = db.write(ctx, "claim deliveries", func(ctx context.Context, conn *pgx.Conn) (err error) {
		return collect(func(result rows.Result) (err error) {
			all, err = rows.Collect(result, rows.ScanDelivery)
			return err
		})(conn.Query(ctx, sqlClaimDeliveries, now.UnixMilli(), until.UnixMilli(), joinTexts(busy), most))
	})
	return all, err
}

// SweepEvents implements [store.Events].
func (db *DB) SweepEvents(ctx context.Context, before time.Time) (int, error) {
	return db.removeInBatches(ctx, "sweep events", sqlSweepEvents, before.UnixMilli(), sweepLen)
}

// EraseEvents implements [store.Events].
func (db *DB) EraseEvents(ctx context.Context, merchant string, about []string) (int, error) {
	return db.removeInBatches(ctx, "erase events", sqlEraseEvents, merchant, joinTexts(about), sweepLen)
}
