package postgres

import (
	"context"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/rows"
)

const (
	sqlDropEndpoint        = `DELETE FROM endpoints WHERE id = $1`
	sqlEndpointsDeliveries = `SELECT about, event, endpoint FROM deliveries WHERE endpoint = $1 LIMIT $2`
	sqlDropDelivery        = `DELETE FROM deliveries WHERE about = $1 AND event = $2 AND endpoint = $3`

	sqlPutEvent = `WITH e AS (INSERT INTO events (about, id, merchant, type, created, data) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (about, id) DO NOTHING RETURNING id),
		d AS (INSERT INTO deliveries (about, event, endpoint, attempt, due, status, error)
			SELECT $1, $2, endpoint, 0, $5, 0, '' FROM e, unnest($7::text[]) AS endpoint)
		SELECT id FROM e`

	// If several callers claim a delivery at once, only one still sees the due time that it has read.
	sqlDueDeliveries = `SELECT about, event, endpoint, due FROM deliveries
		WHERE due <= $1 AND endpoint <> ALL ($2::text[]) ORDER BY due LIMIT $3`
	sqlClaimDelivery = `UPDATE deliveries SET due = $5 WHERE about = $1 AND event = $2 AND endpoint = $3 AND due = $4
		RETURNING event, endpoint, attempt, due, last, status, error`

	sqlOldEvents     = `SELECT about, id FROM events WHERE created < $1 ORDER BY created LIMIT $2`
	sqlEventsToErase = `SELECT about, id FROM events WHERE ($1 <> '' AND merchant = $1) OR about = ANY ($2::text[]) LIMIT $3`
	sqlDropEvent     = `WITH d AS (DELETE FROM deliveries WHERE about = $1 AND event = $2)
		DELETE FROM events WHERE about = $1 AND id = $2`

	// sqlUpdateWithEvent is sqlUpdate with an event. All parts see the tables as they were before.
	sqlUpdateWithEvent = `WITH u AS (UPDATE txns SET owner = $3, scheme = $4, state = $5, data = $6, expires = $7, ver = ver + 1
			WHERE id = $1 AND ver = $2 AND expires > {now} RETURNING id),
		ahead AS (DELETE FROM events WHERE about = $1 AND created > {now} AND EXISTS (SELECT FROM u) RETURNING id),
		undelivered AS (DELETE FROM deliveries WHERE about = $1 AND event IN (SELECT id FROM ahead)),
		e AS (INSERT INTO events (about, id, merchant, type, created, data) SELECT $1, $8, $9, $10, $11, $12 FROM u),
		d AS (INSERT INTO deliveries (about, event, endpoint, attempt, due, status, error)
			SELECT $1, $8, endpoint, 0, $11, 0, '' FROM u, unnest($13::text[]) AS endpoint)
		SELECT id FROM u`
)

// RemoveEndpoint implements [store.Events].
func (db *DB) RemoveEndpoint(ctx context.Context, id string) error {
	if err := db.change(ctx, "remove endpoint", store.ErrNotFound, sqlDropEndpoint, id); err != nil {
		return err
	}
	_, err := db.removeKeys(ctx, "remove deliveries", isLazy, sqlEndpointsDeliveries, []any{id}, sqlDropDelivery, 3)
	return err
}

// PutEvent implements [store.Events].
func (db *DB) PutEvent(ctx context.Context, e store.Event) error {
	return db.change(ctx, "put event", store.ErrExists, sqlPutEvent,
		store.EventKey(e.ID), e.ID, e.Merchant, e.Type, e.Created.UnixMilli(), rows.Blob(e.Data), e.Endpoints)
}

// ClaimDeliveries implements [store.Events]. A claim that a crash of the database undoes is made again.
func (db *DB) ClaimDeliveries(ctx context.Context, now, until time.Time, busy []string,
	most int) (all []store.Delivery, err error) {
	due, err := db.candidates(ctx, "deliveries due", 4, sqlDueDeliveries, now.UnixMilli(), joinTexts(busy), most)
	if err != nil {
		return nil, err
	}
	err = db.eachKey(ctx, "claim deliveries", isLazy, due, func(ctx context.Context, conn querier, key []any) error {
		return collect(func(result rows.Result) error {
			claimed, err := rows.Collect(result, rows.ScanDelivery)
			all = append(all, claimed...)
			return err
		})(conn.Query(ctx, sqlClaimDelivery, append(key, until.UnixMilli())...))
	})
	return all, err
}

// SweepEvents implements [store.Events].
func (db *DB) SweepEvents(ctx context.Context, before time.Time) (int, error) {
	return db.removeKeys(ctx, "sweep events", isLazy, sqlOldEvents, []any{before.UnixMilli()}, sqlDropEvent, 2)
}

// EraseEvents implements [store.Events].
func (db *DB) EraseEvents(ctx context.Context, merchant string, about []string) (int, error) {
	return db.removeKeys(ctx, "erase events", isDurable, sqlEventsToErase, []any{merchant, joinTexts(about)},
		sqlDropEvent, 2)
}
