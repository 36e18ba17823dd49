package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	sqlAddEndpoint    = `INSERT INTO endpoints (id, merchant, created, data) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING`
	sqlChangeEndpoint = `UPDATE endpoints SET data = $3 WHERE id = $1 AND data = $2`
	sqlEndpoints      = `SELECT id, merchant, created, data FROM endpoints ORDER BY created, id`
	sqlEndpointsOf    = `SELECT id, merchant, created, data FROM endpoints WHERE merchant = ANY ($1::text[]) ORDER BY created, id`
	// Marks are of one snapshot. The mark of all endpoints is the first row. As with the keys, there is none unless both
	// triggers always fire, and their xmin is part of each mark.
	sqlEndpointMarksUnless = `WITH triggers (xmins) AS MATERIALIZED (
			SELECT string_agg('-' || xmin, '' ORDER BY tgname) FROM pg_trigger
			WHERE tgrelid = 'endpoints'::regclass AND tgname IN ('mark', 'mark_merchant') AND tgenabled = 'A' HAVING count(*) = 2),
		mark (now) AS MATERIALIZED (
			SELECT encode(value, 'hex') || xmins FROM small_states, triggers WHERE key = 'webhook endpoints')
		SELECT NULL, coalesce((SELECT now FROM mark), '')
		UNION ALL SELECT merchant, coalesce(encode(value, 'hex') || (SELECT xmins FROM triggers), '')
			FROM (SELECT DISTINCT merchant FROM endpoints WHERE (SELECT now FROM mark) IS DISTINCT FROM $1) m
			LEFT JOIN small_states ON key = 'endpoints/' || merchant COLLATE "C"`
	sqlDropEndpoint = `WITH d AS (DELETE FROM deliveries WHERE endpoint = $1) DELETE FROM endpoints WHERE id = $1`

	sqlPutEvent = `WITH e AS (INSERT INTO events (id, merchant, type, about, created, data) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (id) DO NOTHING RETURNING id, created),
		d AS (INSERT INTO deliveries (event, endpoint, attempt, due, status, error)
			SELECT e.id, endpoint, 0, e.created, 0, '' FROM e, unnest($7::text[]) AS endpoint)
		SELECT id FROM e`
	sqlEvent      = `SELECT id, merchant, type, about, created, data FROM events WHERE id = $1`
	sqlFindEvents = `SELECT id, merchant, type, about, created, data FROM events
		WHERE merchant = $1 AND created >= $2 AND created < $3 AND ($4 = '' OR type = $4) AND ($5 = '' OR about = $5)
			AND ($7 = '' OR (created, id) < ($6, $7))
		ORDER BY created DESC, id DESC LIMIT $8`
	sqlDeliveries = `SELECT event, endpoint, attempt, due, last, status, error FROM deliveries WHERE event = $1 ORDER BY endpoint`

	// Of several that claim at once, each gets rows that no other has.
	sqlClaimDeliveries = `UPDATE deliveries d SET due = $2 FROM (
			SELECT event, endpoint FROM deliveries WHERE due <= $1 AND endpoint <> ALL ($3::text[])
			ORDER BY due LIMIT $4 FOR UPDATE SKIP LOCKED) c
		WHERE d.event = c.event AND d.endpoint = c.endpoint
		RETURNING d.event, d.endpoint, d.attempt, d.due, d.last, d.status, d.error`
	sqlEndDelivery = `UPDATE deliveries SET attempt = $3, due = $4, last = $5, status = $6, error = $7 WHERE event = $1 AND endpoint = $2`
	sqlRedeliver   = `UPDATE deliveries SET attempt = 0, due = $2 WHERE event = $1`
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

// AddEndpoint implements [store.Events].
func (db *DB) AddEndpoint(ctx context.Context, e store.Endpoint) error {
	return db.change(ctx, "add endpoint", store.ErrExists, sqlAddEndpoint, e.ID, e.Merchant, e.Created.UnixMilli(), store.Blob(e.Data))
}

// ChangeEndpoint implements [store.Events].
func (db *DB) ChangeEndpoint(ctx context.Context, id string, was, data []byte) error {
	return db.change(ctx, "change endpoint", store.ErrNotFound, sqlChangeEndpoint, id, store.Blob(was), store.Blob(data))
}

// Endpoints implements [store.Events].
func (db *DB) Endpoints(ctx context.Context) ([]store.Endpoint, error) {
	return queryRows(ctx, db, "endpoints", store.ScanEndpoint, sqlEndpoints)
}

// EndpointsOf implements [store.Events].
func (db *DB) EndpointsOf(ctx context.Context, merchants ...string) ([]store.Endpoint, error) {
	return queryRows(ctx, db, "endpoints of merchants", store.ScanEndpoint, sqlEndpointsOf, append([]string{}, merchants...))
}

// EndpointMarksUnless implements [store.Events].
func (db *DB) EndpointMarksUnless(ctx context.Context, mark string) (ofMerchants map[string]string, now string, err error) {
	marks, err := queryRows(ctx, db, "marks of endpoints", store.ScanMark, sqlEndpointMarksUnless, mark)
	if err != nil {
		return nil, "", err
	}
	ofMerchants, now = store.SplitMarks(marks)
	return ofMerchants, now, nil
}

// RemoveEndpoint implements [store.Events].
func (db *DB) RemoveEndpoint(ctx context.Context, id string) error {
	return db.change(ctx, "remove endpoint", store.ErrNotFound, sqlDropEndpoint, id)
}

// PutEvent implements [store.Events].
func (db *DB) PutEvent(ctx context.Context, e store.Event) error {
	return db.change(ctx, "put event", store.ErrExists, sqlPutEvent,
		e.ID, e.Merchant, e.Type, e.About, e.Created.UnixMilli(), store.Blob(e.Data), e.Endpoints)
}

// Event implements [store.Events].
func (db *DB) Event(ctx context.Context, id string) (store.Event, error) {
	return queryRow(ctx, db, "event", store.ScanEvent, sqlEvent, id)
}

// FindEvents implements [store.Events].
func (db *DB) FindEvents(ctx context.Context, q store.EventQuery) ([]store.Event, error) {
	from, to := q.Span()
	return queryRows(ctx, db, "find events", store.ScanEvent, sqlFindEvents,
		q.Merchant, from.UnixMilli(), to.UnixMilli(), q.Type, q.About, q.AfterCreated.UnixMilli(), q.AfterID, q.Limit)
}

// Deliveries implements [store.Events].
func (db *DB) Deliveries(ctx context.Context, event string) ([]store.Delivery, error) {
	return queryRows(ctx, db, "deliveries", store.ScanDelivery, sqlDeliveries, event)
}

// ClaimDeliveries implements [store.Events].
func (db *DB) ClaimDeliveries(ctx context.Context, now, until time.Time, busy []string, most int) (all []store.Delivery, err error) {
	err = db.write(ctx, "claim deliveries", func(ctx context.Context, conn *pgx.Conn) (err error) {
		all, err = collect(store.ScanDelivery)(conn.Query(ctx, sqlClaimDeliveries, now.UnixMilli(), until.UnixMilli(), append([]string{}, busy...), most))
		return err
	})
	return all, err
}

// EndDelivery implements [store.Events].
func (db *DB) EndDelivery(ctx context.Context, d store.Delivery) error {
	return db.exec(ctx, "end delivery", sqlEndDelivery, d.Event, d.Endpoint, d.Attempt, store.OrNull(d.Due), store.OrNull(d.Last), d.Status, d.Error)
}

// Redeliver implements [store.Events].
func (db *DB) Redeliver(ctx context.Context, event string, at time.Time) error {
	return db.exec(ctx, "redeliver", sqlRedeliver, event, at.UnixMilli())
}

// SweepEvents implements [store.Events].
func (db *DB) SweepEvents(ctx context.Context, before time.Time) (int, error) {
	return db.removeInBatches(ctx, "sweep events", sqlSweepEvents, before.UnixMilli(), sweepLen)
}

// EraseEvents implements [store.Events].
func (db *DB) EraseEvents(ctx context.Context, merchant string, about []string) (int, error) {
	return db.removeInBatches(ctx, "erase events", sqlEraseEvents, merchant, append([]string{}, about...), sweepLen)
}
