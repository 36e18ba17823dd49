package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/store"
)

const (
	sqlAddEndpoint    = `INSERT INTO endpoints (id, merchant, created, data) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING`
	sqlChangeEndpoint = `UPDATE endpoints SET data = $3 WHERE id = $1 AND data = $2`
	sqlEndpoints      = `SELECT id, merchant, created, data FROM endpoints ORDER BY created, id`
	sqlDropEndpoint   = `WITH d AS (DELETE FROM deliveries WHERE endpoint = $1) DELETE FROM endpoints WHERE id = $1`

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

	// updateWithEvent is update of [statements], with an event. All parts see the tables as they were before.
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
	return db.write(ctx, "add endpoint", func(ctx context.Context, conn *pgx.Conn) error {
		return changed(store.ErrExists)(conn.Exec(ctx, sqlAddEndpoint, e.ID, e.Merchant, e.Created.UnixMilli(), blob(e.Data)))
	})
}

// ChangeEndpoint implements [store.Events].
func (db *DB) ChangeEndpoint(ctx context.Context, id string, was, data []byte) error {
	return db.write(ctx, "change endpoint", func(ctx context.Context, conn *pgx.Conn) error {
		return changed(store.ErrNotFound)(conn.Exec(ctx, sqlChangeEndpoint, id, blob(was), blob(data)))
	})
}

// Endpoints implements [store.Events].
func (db *DB) Endpoints(ctx context.Context) (all []store.Endpoint, err error) {
	err = db.read(ctx, "endpoints", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, sqlEndpoints)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e store.Endpoint, err error) {
			var created int64
			err = row.Scan(&e.ID, &e.Merchant, &created, &e.Data)
			e.Created = time.UnixMilli(created).UTC()
			return e, err
		})
		return err
	})
	return all, err
}

// RemoveEndpoint implements [store.Events].
func (db *DB) RemoveEndpoint(ctx context.Context, id string) error {
	return db.write(ctx, "remove endpoint", func(ctx context.Context, conn *pgx.Conn) error {
		return changed(store.ErrNotFound)(conn.Exec(ctx, sqlDropEndpoint, id))
	})
}

// PutEvent implements [store.Events].
func (db *DB) PutEvent(ctx context.Context, e store.Event) error {
	return db.write(ctx, "put event", func(ctx context.Context, conn *pgx.Conn) error {
		return changed(store.ErrExists)(conn.Exec(ctx, sqlPutEvent,
			e.ID, e.Merchant, e.Type, e.About, e.Created.UnixMilli(), blob(e.Data), e.Endpoints))
	})
}

// Event implements [store.Events].
func (db *DB) Event(ctx context.Context, id string) (e store.Event, err error) {
	err = db.read(ctx, "event", func(ctx context.Context, conn *pgx.Conn) (err error) {
		e, err = scanEvent(conn.QueryRow(ctx, sqlEvent, id))
		return err
	})
	return e, err
}

// FindEvents implements [store.Events].
func (db *DB) FindEvents(ctx context.Context, q store.EventQuery) (all []store.Event, err error) {
	from, to := q.Span()
	err = db.read(ctx, "find events", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, sqlFindEvents,
			q.Merchant, from.UnixMilli(), to.UnixMilli(), q.Type, q.About, q.AfterCreated.UnixMilli(), q.AfterID, q.Limit)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.Event, error) { return scanEvent(row) })
		return err
	})
	return all, err
}

// Deliveries implements [store.Events].
func (db *DB) Deliveries(ctx context.Context, event string) (all []store.Delivery, err error) {
	err = db.read(ctx, "deliveries", func(ctx context.Context, conn *pgx.Conn) (err error) {
		all, err = collectDeliveries(conn.Query(ctx, sqlDeliveries, event))
		return err
	})
	return all, err
}

// ClaimDeliveries implements [store.Events].
func (db *DB) ClaimDeliveries(ctx context.Context, now, until time.Time, busy []string, most int) (all []store.Delivery, err error) {
	err = db.write(ctx, "claim deliveries", func(ctx context.Context, conn *pgx.Conn) (err error) {
		all, err = collectDeliveries(conn.Query(ctx, sqlClaimDeliveries, now.UnixMilli(), until.UnixMilli(), append([]string{}, busy...), most))
		return err
	})
	return all, err
}

// EndDelivery implements [store.Events].
func (db *DB) EndDelivery(ctx context.Context, d store.Delivery) error {
	return db.write(ctx, "end delivery", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sqlEndDelivery, d.Event, d.Endpoint, d.Attempt, orNull(d.Due), orNull(d.Last), d.Status, d.Error)
		return err
	})
}

// Redeliver implements [store.Events].
func (db *DB) Redeliver(ctx context.Context, event string, at time.Time) error {
	return db.write(ctx, "redeliver", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sqlRedeliver, event, at.UnixMilli())
		return err
	})
}

// SweepEvents implements [store.Events].
func (db *DB) SweepEvents(ctx context.Context, before time.Time) (int, error) {
	return db.removeEvents(ctx, "sweep events", sqlSweepEvents, before.UnixMilli(), sweepLen)
}

// EraseEvents implements [store.Events].
func (db *DB) EraseEvents(ctx context.Context, merchant string, about []string) (int, error) {
	return db.removeEvents(ctx, "erase events", sqlEraseEvents, merchant, append([]string{}, about...), sweepLen)
}

// removeEvents runs a statement that removes at most sweepLen events, until it removes fewer.
func (db *DB) removeEvents(ctx context.Context, what, statement string, args ...any) (total int, err error) {
	for {
		var n int64
		err := db.write(ctx, what, func(ctx context.Context, conn *pgx.Conn) error {
			tag, err := conn.Exec(ctx, statement, args...)
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

func scanEvent(row pgx.Row) (e store.Event, err error) {
	var created int64
	if err := row.Scan(&e.ID, &e.Merchant, &e.Type, &e.About, &created, &e.Data); err != nil {
		return store.Event{}, err
	}
	e.Created = time.UnixMilli(created).UTC()
	return e, nil
}

func collectDeliveries(rows pgx.Rows, err error) ([]store.Delivery, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (d store.Delivery, err error) {
		var due, last *int64
		err = row.Scan(&d.Event, &d.Endpoint, &d.Attempt, &due, &last, &d.Status, &d.Error)
		d.Due, d.Last = momentOf(due), momentOf(last)
		return d, err
	})
}

// orNull is a time as a column: NULL for the zero time.
func orNull(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(t.UnixMilli())
}

// momentOf is what orNull has made a column of.
func momentOf(n *int64) time.Time {
	if n == nil {
		return time.Time{}
	}
	return time.UnixMilli(*n).UTC()
}
