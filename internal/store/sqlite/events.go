package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/openthreeds/threeds/internal/store"
)

const (
	sqlAddEndpoint = `INSERT INTO endpoint (id, merchant, created, data) VALUES (?1, ?2, ?3, ?4)
		ON CONFLICT (id) DO NOTHING`
	sqlChangeEndpoint = `UPDATE endpoint SET data = ?3 WHERE id = ?1 AND data = ?2`
	sqlEndpoints      = `SELECT id, merchant, created, data FROM endpoint ORDER BY created, id`
	sqlDropEndpoint   = `DELETE FROM endpoint WHERE id = ?1`
	sqlDropDeliveries = `DELETE FROM delivery WHERE endpoint = ?1`

	sqlPutEvent = `INSERT INTO event (id, merchant, type, about, created, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
		ON CONFLICT (id) DO NOTHING`
	sqlPutDelivery = `INSERT INTO delivery (event, endpoint, attempt, due, last, status, error) VALUES (?1, ?2, 0, ?3, NULL, 0, '')
		ON CONFLICT (event, endpoint) DO NOTHING`
	// These two come before sqlPutEvent, in this order.
	sqlDropAheadDeliveries = `DELETE FROM delivery WHERE event IN (SELECT id FROM event WHERE about = ?1 AND created > ?2)`
	sqlDropAhead           = `DELETE FROM event WHERE about = ?1 AND created > ?2`

	sqlEvent      = `SELECT id, merchant, type, about, created, data FROM event WHERE id = ?1`
	sqlFindEvents = `SELECT id, merchant, type, about, created, data FROM event
		WHERE merchant = ?1 AND created >= ?2 AND created < ?3 AND (?4 = '' OR type = ?4) AND (?5 = '' OR about = ?5)
			AND (?7 = '' OR (created, id) < (?6, ?7))
		ORDER BY created DESC, id DESC LIMIT ?8`
	sqlDeliveries = `SELECT event, endpoint, attempt, due, last, status, error FROM delivery WHERE event = ?1 ORDER BY endpoint`
	sqlAnyDue     = `SELECT count(*) FROM (SELECT 1 FROM delivery WHERE due <= ?1 LIMIT 1)`

	sqlClaimDeliveries = `UPDATE delivery SET due = ?2 WHERE (event, endpoint) IN (
			SELECT event, endpoint FROM delivery WHERE due <= ?1 AND endpoint NOT IN (SELECT value FROM json_each(?3))
			ORDER BY due LIMIT ?4)
		RETURNING event, endpoint, attempt, due, last, status, error`
	sqlEndDelivery = `UPDATE delivery SET attempt = ?3, due = ?4, last = ?5, status = ?6, error = ?7 WHERE event = ?1 AND endpoint = ?2`
	sqlRedeliver   = `UPDATE delivery SET attempt = 0, due = ?2 WHERE event = ?1`

	// These two belong together: the first leaves alone what the second needs.
	sqlSweepDeliveries = `DELETE FROM delivery WHERE event IN (SELECT id FROM event WHERE created < ?1 ORDER BY created, id LIMIT ?2)`
	sqlSweepEvents     = `DELETE FROM event WHERE id IN (SELECT id FROM event WHERE created < ?1 ORDER BY created, id LIMIT ?2)`
	sqlEraseDeliveries = `DELETE FROM delivery WHERE event IN (` + sqlToErase + `)`
	sqlEraseEvents     = `DELETE FROM event WHERE id IN (` + sqlToErase + `)`
	sqlToErase         = `SELECT id FROM event WHERE (?1 <> '' AND merchant = ?1) OR about IN (SELECT value FROM json_each(?2)) ORDER BY id LIMIT ?3`
)

// eventStatements are the statements of the writer for events.
type eventStatements struct {
	addEndpoint, changeEndpoint, dropEndpoint, dropDeliveries *sql.Stmt
	putEvent, putDelivery                                     *sql.Stmt
	dropAheadDeliveries, dropAhead                            *sql.Stmt
	claimDeliveries, endDelivery, redeliver                   *sql.Stmt
	sweepDeliveries, sweepEvents                              *sql.Stmt
	eraseDeliveries, eraseEvents                              *sql.Stmt
}

func (e *eventStatements) all() []statement {
	return []statement{
		{&e.addEndpoint, sqlAddEndpoint},
		{&e.changeEndpoint, sqlChangeEndpoint},
		{&e.dropEndpoint, sqlDropEndpoint},
		{&e.dropDeliveries, sqlDropDeliveries},
		{&e.putEvent, sqlPutEvent},
		{&e.putDelivery, sqlPutDelivery},
		{&e.dropAheadDeliveries, sqlDropAheadDeliveries},
		{&e.dropAhead, sqlDropAhead},
		{&e.claimDeliveries, sqlClaimDeliveries},
		{&e.endDelivery, sqlEndDelivery},
		{&e.redeliver, sqlRedeliver},
		{&e.sweepDeliveries, sqlSweepDeliveries},
		{&e.sweepEvents, sqlSweepEvents},
		{&e.eraseDeliveries, sqlEraseDeliveries},
		{&e.eraseEvents, sqlEraseEvents},
	}
}

// A change is one statement of several that are done at once.
type change = func() (sql.Result, error)

// insertEvent returns the statements that add an event and its deliveries. Taken is set to the answer when its ID is
// taken, and nothing is added then.
func (w *writer) insertEvent(e *store.Event, taken *error) []change {
	put := func() (result sql.Result, err error) {
		result, err = w.putEvent.Exec(e.ID, e.Merchant, e.Type, e.About, e.Created.UnixMilli(), blob(e.Data))
		if err == nil {
			*taken, err = changed(store.ErrExists)(result, nil)
		}
		return result, err
	}
	all := []change{put}
	for _, endpoint := range e.Endpoints {
		all = append(all, func() (sql.Result, error) {
			if *taken != nil {
				return nil, nil
			}
			return w.putDelivery.Exec(e.ID, endpoint, e.Created.UnixMilli())
		})
	}
	return all
}

// updateWithEvent makes an update that brings an event along. Update is the statement of it.
func (w *writer) updateWithEvent(e *store.Event, now time.Time, update change) (answer, failed error) {
	var taken error
	unlessConflict := func(do change) change {
		return func() (sql.Result, error) {
			if answer != nil {
				return nil, nil
			}
			return do()
		}
	}
	steps := []change{
		func() (result sql.Result, err error) {
			result, err = update()
			if err == nil {
				answer, err = changed(errConflict)(result, nil)
			}
			return result, err
		},
		unlessConflict(func() (sql.Result, error) { return w.dropAheadDeliveries.Exec(e.About, now.UnixMilli()) }),
		unlessConflict(func() (sql.Result, error) { return w.dropAhead.Exec(e.About, now.UnixMilli()) }),
	}
	for _, do := range w.insertEvent(e, &taken) {
		steps = append(steps, unlessConflict(do))
	}
	failed = w.atomically(steps...)
	return answer, failed
}

// AddEndpoint implements [store.Events].
func (db *DB) AddEndpoint(ctx context.Context, e store.Endpoint) error {
	return db.write(ctx, "add endpoint", func(w *writer) (answer, failed error) {
		return changed(store.ErrExists)(w.addEndpoint.Exec(e.ID, e.Merchant, e.Created.UnixMilli(), blob(e.Data)))
	})
}

// ChangeEndpoint implements [store.Events].
func (db *DB) ChangeEndpoint(ctx context.Context, id string, was, data []byte) error {
	return db.write(ctx, "change endpoint", func(w *writer) (answer, failed error) {
		return changed(store.ErrNotFound)(w.changeEndpoint.Exec(id, blob(was), blob(data)))
	})
}

// Endpoints implements [store.Events].
func (db *DB) Endpoints(ctx context.Context) (all []store.Endpoint, err error) {
	err = db.read(ctx, "endpoints", func(r *reader) error {
		rows, err := r.endpoints.Query()
		if err != nil {
			return err
		}
		defer rows.Close()
		all = nil
		for rows.Next() {
			var e store.Endpoint
			var created int64
			if err := rows.Scan(&e.ID, &e.Merchant, &created, &e.Data); err != nil {
				return err
			}
			e.Created = time.UnixMilli(created).UTC()
			all = append(all, e)
		}
		return rows.Err()
	})
	return all, err
}

// RemoveEndpoint implements [store.Events].
func (db *DB) RemoveEndpoint(ctx context.Context, id string) error {
	return db.write(ctx, "remove endpoint", func(w *writer) (answer, failed error) {
		failed = w.atomically(
			func() (sql.Result, error) { return w.dropDeliveries.Exec(id) },
			func() (result sql.Result, err error) {
				result, err = w.dropEndpoint.Exec(id)
				if err == nil {
					answer, err = changed(store.ErrNotFound)(result, nil)
				}
				return result, err
			},
		)
		return answer, failed
	})
}

// PutEvent implements [store.Events].
func (db *DB) PutEvent(ctx context.Context, e store.Event) error {
	return db.write(ctx, "put event", func(w *writer) (answer, failed error) {
		failed = w.atomically(w.insertEvent(&e, &answer)...)
		return answer, failed
	})
}

// Event implements [store.Events].
func (db *DB) Event(ctx context.Context, id string) (e store.Event, err error) {
	err = db.read(ctx, "event", func(r *reader) (err error) {
		e, err = scanEvent(r.event.QueryRow(id))
		return err
	})
	return e, err
}

// FindEvents implements [store.Events].
func (db *DB) FindEvents(ctx context.Context, q store.EventQuery) (all []store.Event, err error) {
	from, to := q.Span()
	err = db.read(ctx, "find events", func(r *reader) error {
		rows, err := r.findEvents.Query(
			q.Merchant, from.UnixMilli(), to.UnixMilli(), q.Type, q.About, q.AfterCreated.UnixMilli(), q.AfterID, q.Limit)
		if err != nil {
			return err
		}
		defer rows.Close()
		all = nil
		for rows.Next() {
			e, err := scanEvent(rows)
			if err != nil {
				return err
			}
			all = append(all, e)
		}
		return rows.Err()
	})
	return all, err
}

// Deliveries implements [store.Events].
func (db *DB) Deliveries(ctx context.Context, event string) (all []store.Delivery, err error) {
	err = db.read(ctx, "deliveries", func(r *reader) (err error) {
		rows, err := r.deliveries.Query(event)
		if err == nil {
			all, err = scanDeliveries(rows)
		}
		return err
	})
	return all, err
}

// ClaimDeliveries implements [store.Events]. It writes nothing while nothing is due.
func (db *DB) ClaimDeliveries(ctx context.Context, now, until time.Time, busy []string, most int) (all []store.Delivery, err error) {
	var due int
	err = db.read(ctx, "claim deliveries", func(r *reader) error { return r.anyDue.QueryRow(now.UnixMilli()).Scan(&due) })
	if err != nil || due == 0 {
		return nil, err
	}
	but, err := json.Marshal(append([]string{}, busy...))
	if err != nil {
		return nil, fmt.Errorf("sqlite: claim deliveries: %w", err)
	}
	err = db.write(ctx, "claim deliveries", func(w *writer) (answer, failed error) {
		rows, err := w.claimDeliveries.Query(now.UnixMilli(), until.UnixMilli(), string(but), most)
		if err == nil {
			all, err = scanDeliveries(rows)
		}
		return nil, err
	})
	return all, err
}

// EndDelivery implements [store.Events].
func (db *DB) EndDelivery(ctx context.Context, d store.Delivery) error {
	return db.write(ctx, "end delivery", func(w *writer) (answer, failed error) {
		_, err := w.endDelivery.Exec(d.Event, d.Endpoint, d.Attempt, orNull(d.Due), orNull(d.Last), d.Status, d.Error)
		return nil, err
	})
}

// Redeliver implements [store.Events].
func (db *DB) Redeliver(ctx context.Context, event string, at time.Time) error {
	return db.write(ctx, "redeliver", func(w *writer) (answer, failed error) {
		_, err := w.redeliver.Exec(event, at.UnixMilli())
		return nil, err
	})
}

// SweepEvents implements [store.Events].
func (db *DB) SweepEvents(ctx context.Context, before time.Time) (int, error) {
	return db.removeEvents(ctx, "sweep events", func(w *writer) (deliveries, events *sql.Stmt) {
		return w.sweepDeliveries, w.sweepEvents
	}, before.UnixMilli(), sweepLen)
}

// EraseEvents implements [store.Events].
func (db *DB) EraseEvents(ctx context.Context, merchant string, about []string) (int, error) {
	ids, err := json.Marshal(append([]string{}, about...))
	if err != nil {
		return 0, fmt.Errorf("sqlite: erase events: %w", err)
	}
	return db.removeEvents(ctx, "erase events", func(w *writer) (deliveries, events *sql.Stmt) {
		return w.eraseDeliveries, w.eraseEvents
	}, merchant, string(ids), sweepLen)
}

// removeEvents runs two statements that remove the deliveries of at most sweepLen events and these events, until they
// remove fewer.
func (db *DB) removeEvents(ctx context.Context, what string, of func(*writer) (deliveries, events *sql.Stmt), args ...any) (total int, err error) {
	for {
		var n int64
		err := db.write(ctx, what, func(w *writer) (answer, failed error) {
			deliveries, events := of(w)
			return nil, w.atomically(
				func() (sql.Result, error) { return deliveries.Exec(args...) },
				func() (result sql.Result, err error) {
					result, err = events.Exec(args...)
					if err == nil {
						n, err = result.RowsAffected()
					}
					return result, err
				},
			)
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

func scanEvent(row interface{ Scan(into ...any) error }) (e store.Event, err error) {
	var created int64
	if err := row.Scan(&e.ID, &e.Merchant, &e.Type, &e.About, &created, &e.Data); err != nil {
		return store.Event{}, err
	}
	e.Created = time.UnixMilli(created).UTC()
	return e, nil
}

func scanDeliveries(rows *sql.Rows) (all []store.Delivery, err error) {
	defer rows.Close()
	for rows.Next() {
		var d store.Delivery
		var due, last sql.NullInt64
		if err := rows.Scan(&d.Event, &d.Endpoint, &d.Attempt, &due, &last, &d.Status, &d.Error); err != nil {
			return nil, err
		}
		d.Due, d.Last = momentOf(due), momentOf(last)
		all = append(all, d)
	}
	return all, rows.Err()
}

// orNull is a time as a column: NULL for the zero time.
func orNull(t time.Time) sql.NullInt64 {
	if t.IsZero() {
		return sql.NullInt64{}
	}
	return sql.NullInt64{Int64: t.UnixMilli(), Valid: true}
}

// momentOf is what orNull has made a column of.
func momentOf(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.UnixMilli(n.Int64).UTC()
}
