package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	sqlAddEndpoint = `INSERT INTO endpoints (id, merchant, created, data) VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT (id) DO NOTHING`
	sqlChangeEndpoint = `UPDATE endpoints SET data = ?3 WHERE id = ?1 AND data = ?2`
	sqlEndpoints      = `SELECT id, merchant, created, data FROM endpoints ORDER BY created, id`
	sqlEndpointsOf    = `SELECT id, merchant, created, data FROM endpoints WHERE merchant IN (SELECT value FROM json_each(?1)) ORDER BY created, id`
	sqlEndpointMark   = `SELECT hex(value) FROM small_states WHERE key = 'webhook endpoints'`
	// Of one moment; the mark of all is the first row.
	sqlEndpointMarks = `SELECT NULL, coalesce((` + sqlEndpointMark + `), '')
		UNION ALL SELECT merchant, coalesce(hex(value), '') FROM (SELECT DISTINCT merchant FROM endpoints)
			LEFT JOIN small_states ON key = 'endpoints/' || merchant`
	sqlDropEndpoint   = `DELETE FROM endpoints WHERE id = ?1`
	sqlDropDeliveries = `DELETE FROM deliveries WHERE endpoint = ?1`

	sqlPutEvent = `INSERT INTO events (id, merchant, type, about, created, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
		ON CONFLICT (id) DO NOTHING`
	sqlPutDelivery = `INSERT INTO deliveries (event, endpoint, attempt, due, last, status, error) VALUES (?1, ?2, 0, ?3, NULL, 0, '')
		ON CONFLICT (event, endpoint) DO NOTHING`
	// These two come before sqlPutEvent, in this order.
	sqlDropAheadDeliveries = `DELETE FROM deliveries WHERE event IN (SELECT id FROM events WHERE about = ?1 AND created > ?2)`
	sqlDropAhead           = `DELETE FROM events WHERE about = ?1 AND created > ?2`

	sqlEvent      = `SELECT id, merchant, type, about, created, data FROM events WHERE id = ?1`
	sqlFindEvents = `SELECT id, merchant, type, about, created, data FROM events
		WHERE merchant = ?1 AND created >= ?2 AND created < ?3 AND (?4 = '' OR type = ?4) AND (?5 = '' OR about = ?5)
			AND (?7 = '' OR (created, id) < (?6, ?7))
		ORDER BY created DESC, id DESC LIMIT ?8`
	sqlDeliveries = `SELECT event, endpoint, attempt, due, last, status, error FROM deliveries WHERE event = ?1 ORDER BY endpoint`
	sqlAnyDue     = `SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE due <= ?1 LIMIT 1)`

	sqlClaimDeliveries = `UPDATE deliveries SET due = ?2 WHERE (event, endpoint) IN (
			SELECT event, endpoint FROM deliveries WHERE due <= ?1 AND endpoint NOT IN (SELECT value FROM json_each(?3))
			ORDER BY due LIMIT ?4)
		RETURNING event, endpoint, attempt, due, last, status, error`
	sqlEndDelivery = `UPDATE deliveries SET attempt = ?3, due = ?4, last = ?5, status = ?6, error = ?7 WHERE event = ?1 AND endpoint = ?2`
	sqlRedeliver   = `UPDATE deliveries SET attempt = 0, due = ?2 WHERE event = ?1`

	// These two belong together: the first leaves alone what the second needs.
	sqlSweepDeliveries = `DELETE FROM deliveries WHERE event IN (SELECT id FROM events WHERE created < ?1 ORDER BY created, id LIMIT ?2)`
	sqlSweepEvents     = `DELETE FROM events WHERE id IN (SELECT id FROM events WHERE created < ?1 ORDER BY created, id LIMIT ?2)`
	sqlEraseDeliveries = `DELETE FROM deliveries WHERE event IN (` + sqlToErase + `)`
	sqlEraseEvents     = `DELETE FROM events WHERE id IN (` + sqlToErase + `)`
	sqlToErase         = `SELECT id FROM events WHERE (?1 <> '' AND merchant = ?1) OR about IN (SELECT value FROM json_each(?2)) ORDER BY id LIMIT ?3`
)

// insertEvent adds an event and its deliveries. It answers ErrExists, and adds nothing, when its ID is taken.
func (w *writer) insertEvent(e *store.Event) (answer, failed error) {
	answer, failed = changed(store.ErrExists)(w.exec(sqlPutEvent,
		e.ID, e.Merchant, e.Type, e.About, e.Created.UnixMilli(), store.Blob(e.Data)))
	if answer != nil || failed != nil {
		return answer, failed
	}
	for _, endpoint := range e.Endpoints {
		if _, err := w.exec(sqlPutDelivery, e.ID, endpoint, e.Created.UnixMilli()); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// updateWithEvent makes an update that brings an event along. Update runs the statement of it. When the ID of the event is
// taken, the update is made without it.
func (w *writer) updateWithEvent(e *store.Event, now time.Time, update func() (sql.Result, error)) (answer, failed error) {
	return w.atomically(func() (answer, failed error) {
		if answer, failed := changed(errConflict)(update()); answer != nil || failed != nil {
			return answer, failed
		}
		for _, drop := range []string{sqlDropAheadDeliveries, sqlDropAhead} {
			if _, err := w.exec(drop, e.About, now.UnixMilli()); err != nil {
				return nil, err
			}
		}
		_, failed = w.insertEvent(e)
		return nil, failed
	})
}

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
	names, err := json.Marshal(append([]string{}, merchants...))
	if err != nil {
		return nil, fmt.Errorf("sqlite: endpoints of merchants: %w", err)
	}
	return queryRows(ctx, db, "endpoints of merchants", store.ScanEndpoint, sqlEndpointsOf, string(names))
}

// EndpointMarksUnless implements [store.Events].
func (db *DB) EndpointMarksUnless(ctx context.Context, mark string) (ofMerchants map[string]string, now string, err error) {
	err = db.read(ctx, "marks of endpoints", func(r *reader) error {
		err := r.row(sqlEndpointMark).Scan(&now)
		if err != nil && !errors.Is(err, sql.ErrNoRows) || now != "" && now == mark {
			return err
		}
		marks, err := collect(store.ScanMark)(r.rows(sqlEndpointMarks))
		ofMerchants, now = store.SplitMarks(marks)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return ofMerchants, now, nil
}

// RemoveEndpoint implements [store.Events].
func (db *DB) RemoveEndpoint(ctx context.Context, id string) error {
	return db.write(ctx, "remove endpoint", func(w *writer) (answer, failed error) {
		return w.atomically(func() (answer, failed error) {
			if _, err := w.exec(sqlDropDeliveries, id); err != nil {
				return nil, err
			}
			return changed(store.ErrNotFound)(w.exec(sqlDropEndpoint, id))
		})
	})
}

// PutEvent implements [store.Events].
func (db *DB) PutEvent(ctx context.Context, e store.Event) error {
	return db.write(ctx, "put event", func(w *writer) (answer, failed error) {
		return w.atomically(func() (answer, failed error) { return w.insertEvent(&e) })
	})
}

// Event implements [store.Events].
func (db *DB) Event(ctx context.Context, id string) (e store.Event, err error) {
	err = db.read(ctx, "event", func(r *reader) (err error) {
		e, err = store.ScanEvent(r.row(sqlEvent, id))
		return err
	})
	return e, err
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

// ClaimDeliveries implements [store.Events]. It writes nothing while nothing is due.
func (db *DB) ClaimDeliveries(ctx context.Context, now, until time.Time, busy []string, most int) (all []store.Delivery, err error) {
	var due int
	err = db.read(ctx, "claim deliveries", func(r *reader) error { return r.row(sqlAnyDue, now.UnixMilli()).Scan(&due) })
	if err != nil || due == 0 {
		return nil, err
	}
	but, err := json.Marshal(append([]string{}, busy...))
	if err != nil {
		return nil, fmt.Errorf("sqlite: claim deliveries: %w", err)
	}
	err = db.write(ctx, "claim deliveries", func(w *writer) (answer, failed error) {
		all, failed = collect(store.ScanDelivery)(w.rows(sqlClaimDeliveries, now.UnixMilli(), until.UnixMilli(), string(but), most))
		return nil, failed
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
	return db.removeEvents(ctx, "sweep events", sqlSweepDeliveries, sqlSweepEvents, before.UnixMilli(), sweepLen)
}

// EraseEvents implements [store.Events].
func (db *DB) EraseEvents(ctx context.Context, merchant string, about []string) (int, error) {
	ids, err := json.Marshal(append([]string{}, about...))
	if err != nil {
		return 0, fmt.Errorf("sqlite: erase events: %w", err)
	}
	return db.removeEvents(ctx, "erase events", sqlEraseDeliveries, sqlEraseEvents, merchant, string(ids), sweepLen)
}

// removeEvents runs two statements that remove the deliveries of at most sweepLen events and these events, until they
// remove fewer.
func (db *DB) removeEvents(ctx context.Context, what string, deliveries, events string, args ...any) (total int, err error) {
	return store.RemoveInBatches(sweepLen, func() (n int64, err error) {
		err = db.write(ctx, what, func(w *writer) (answer, failed error) {
			return w.atomically(func() (answer, failed error) {
				if _, err := w.exec(deliveries, args...); err != nil {
					return nil, err
				}
				n, failed = affected(w.exec(events, args...))
				return nil, failed
			})
		})
		return n, err
	})
}
