package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/rows"
)

const (
	sqlDropEndpoint   = `DELETE FROM endpoints WHERE id = ?1`
	sqlDropDeliveries = `DELETE FROM deliveries WHERE endpoint = ?1`

	sqlPutEvent = `INSERT INTO events (about, id, merchant, type, created, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
		ON CONFLICT (about, id) DO NOTHING`
	sqlPutDelivery = `INSERT INTO deliveries (about, event, endpoint, attempt, due, last, status, error)
		VALUES (?1, ?2, ?3, 0, ?4, NULL, 0, '') ON CONFLICT (about, event, endpoint) DO NOTHING`
	// These two come before sqlPutEvent, in this order.
	sqlDropAheadDeliveries = `DELETE FROM deliveries WHERE about = ?1 AND event IN (SELECT id FROM events WHERE about = ?1 AND created > ?2)`
	sqlDropAhead           = `DELETE FROM events WHERE about = ?1 AND created > ?2`

	sqlAnyDue = `SELECT count(*) FROM (SELECT 1 FROM deliveries WHERE due <= ?1 LIMIT 1)`

	sqlClaimDeliveries = `UPDATE deliveries SET due = ?2 WHERE (about, event, endpoint) IN (
			SELECT about, event, endpoint FROM deliveries WHERE due <= ?1 AND endpoint NOT IN (SELECT value FROM json_each(?3))
			ORDER BY due LIMIT ?4)
		RETURNING event, endpoint, attempt, due, last, status, error`

	// These two belong together: the first leaves alone what the second needs.
	sqlSweepDeliveries = `DELETE FROM deliveries WHERE (about, event) IN (` + sqlToSweep + `)`
	sqlSweepEvents     = `DELETE FROM events WHERE (about, id) IN (` + sqlToSweep + `)`
	sqlToSweep         = `SELECT about, id FROM events WHERE created < ?1 ORDER BY created, id LIMIT ?2`
	sqlEraseDeliveries = `DELETE FROM deliveries WHERE (about, event) IN (` + sqlToErase + `)`
	sqlEraseEvents     = `DELETE FROM events WHERE (about, id) IN (` + sqlToErase + `)`
	sqlToErase         = `SELECT about, id FROM events
		WHERE (?1 <> '' AND merchant = ?1) OR about IN (SELECT value FROM json_each(?2)) ORDER BY about, id LIMIT ?3`
)

// insertEvent adds an event and its deliveries. It answers ErrExists, and adds nothing, when its ID is taken.
func (w *writer) insertEvent(e *store.Event) (answer, failed error) {
	answer, failed = changed(store.ErrExists)(w.exec(sqlPutEvent,
		store.EventKey(e.ID), e.ID, e.Merchant, e.Type, e.Created.UnixMilli(), rows.Blob(e.Data)))
	if answer != nil || failed != nil {
		return answer, failed
	}
	for _, endpoint := range e.Endpoints {
		if _, err := w.exec(sqlPutDelivery, store.EventKey(e.ID), e.ID, endpoint, e.Created.UnixMilli()); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// updateWithEvent makes an update that brings an event along. Update runs the statement of it. When the ID of the event
// is taken, the update is made without it.
func (w *writer) updateWithEvent(e *store.Event, now time.Time,
	update func() (sql.Result, error)) (answer, failed error) {
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

// ClaimDeliveries implements [store.Events]. It does not write if nothing is due.
func (db *DB) ClaimDeliveries(ctx context.Context, now, until time.Time, busy []string,
	most int) (all []store.Delivery, err error) {
	var due int
	err = db.read(ctx, "claim deliveries", func(r *reader) error { return r.row(sqlAnyDue, now.UnixMilli()).Scan(&due) })
	if err != nil || due == 0 {
		return nil, err
	}
	err = db.write(ctx, "claim deliveries", func(w *writer) (answer, failed error) {
		return nil, w.query(func(result rows.Result) (err error) {
			all, err = rows.Collect(result, rows.ScanDelivery)
			return err
		}, sqlClaimDeliveries, now.UnixMilli(), until.UnixMilli(), joinTexts(busy), most)
	})
	return all, err
}

// SweepEvents implements [store.Events].
func (db *DB) SweepEvents(ctx context.Context, before time.Time) (int, error) {
	return db.removeEvents(ctx, "sweep events", sqlSweepDeliveries, sqlSweepEvents, before.UnixMilli(), sweepLen)
}

// EraseEvents implements [store.Events].
func (db *DB) EraseEvents(ctx context.Context, merchant string, about []string) (int, error) {
	return db.removeEvents(ctx, "erase events", sqlEraseDeliveries, sqlEraseEvents, merchant, joinTexts(about), sweepLen)
}

// removeEvents runs two statements that remove the deliveries of at most sweepLen events and these events, until they
// remove fewer.
func (db *DB) removeEvents(ctx context.Context, what string, deliveries, events string,
	args ...any) (total int, err error) {
	return rows.RemoveInBatches(sweepLen, func() (n int64, err error) {
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
