package rows

import (
	"context"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	sqlAddEndpoint    = `INSERT INTO endpoints (id, merchant, created, data) VALUES ($1, $2, $3, $4) ON CONFLICT (id) DO NOTHING`
	sqlChangeEndpoint = `UPDATE endpoints SET data = $3 WHERE id = $1 AND data = $2`
	sqlEndpoints      = `SELECT id, merchant, created, data FROM endpoints ORDER BY created, id`
	sqlEndpointsOf    = `SELECT id, merchant, created, data FROM endpoints WHERE merchant IN ({texts $1}) ORDER BY created, id`
	sqlEndpointMark   = `SELECT coalesce({mark of endpoints}, '')`
	// Marks are of one moment. The mark of all endpoints is that of no merchant.
	sqlEndpointMarks = `SELECT NULL, coalesce({mark of endpoints}, '')
		UNION ALL SELECT merchant, coalesce({mark of merchant}, '') FROM (SELECT DISTINCT merchant FROM endpoints) m
			LEFT JOIN small_states ON key = 'endpoints/' || merchant`

	sqlEvent      = `SELECT id, merchant, type, about, created, data FROM events WHERE about = $1 AND id = $2`
	sqlFindEvents = `SELECT id, merchant, type, about, created, data FROM events
		WHERE merchant = $1 AND created >= $2 AND created < $3 AND ($4 = '' OR type = $4) AND ($5 = '' OR about = $5)
			AND ($7 = '' OR (created, id) < ($6, $7))
		ORDER BY created DESC, id DESC LIMIT $8`

	sqlDeliveries  = `SELECT event, endpoint, attempt, due, last, status, error FROM deliveries WHERE about = $1 AND event = $2 ORDER BY endpoint`
	sqlEndDelivery = `UPDATE deliveries SET attempt = $4, due = $5, last = $6, status = $7, error = $8
		WHERE about = $1 AND event = $2 AND endpoint = $3`
	sqlRedeliver = `UPDATE deliveries SET attempt = 0, due = $4
		WHERE about = $1 AND event = $2 AND endpoint = $3 AND attempt = $5 AND coalesce(last, 0) = $6`
)

// AddEndpoint implements [store.Events].
func (r *Rows) AddEndpoint(ctx context.Context, e store.Endpoint) error {
	return r.change(ctx, "add endpoint", store.ErrExists, sqlAddEndpoint, e.ID, e.Merchant,
		e.Created.UnixMilli(), Blob(e.Data))
}

// ChangeEndpoint implements [store.Events].
func (r *Rows) ChangeEndpoint(ctx context.Context, id string, was, data []byte) error {
	return r.change(ctx, "change endpoint", store.ErrNotFound, sqlChangeEndpoint, id, Blob(was), Blob(data))
}

// Endpoints implements [store.Events].
func (r *Rows) Endpoints(ctx context.Context) ([]store.Endpoint, error) {
	return All(ctx, r, "endpoints", scanEndpoint, sqlEndpoints)
}

// EndpointsOf implements [store.Events].
func (r *Rows) EndpointsOf(ctx context.Context, merchants ...string) ([]store.Endpoint, error) {
	return All(ctx, r, "endpoints of merchants", scanEndpoint, sqlEndpointsOf, r.join(merchants))
}

// EndpointMarksUnless implements [store.Events].
func (r *Rows) EndpointMarksUnless(ctx context.Context,
	mark string) (ofMerchants map[string]string, now string, err error) {
	now, err = One(ctx, r, "mark of endpoints", ScanValue[string], sqlEndpointMark)
	if err != nil || now != "" && now == mark {
		return nil, now, err
	}
	marks, err := All(ctx, r, "marks of endpoints", scanMark, sqlEndpointMarks)
	if err != nil {
		return nil, "", err
	}
	ofMerchants = make(map[string]string, len(marks))
	for _, m := range marks {
		if m.merchant == nil {
			now = m.mark
		} else {
			ofMerchants[*m.merchant] = m.mark
		}
	}
	return ofMerchants, now, nil
}

// Event implements [store.Events].
func (r *Rows) Event(ctx context.Context, id string) (store.Event, error) {
	return One(ctx, r, "event", scanEvent, sqlEvent, store.EventKey(id), id)
}

// FindEvents implements [store.Events].
func (r *Rows) FindEvents(ctx context.Context, q store.EventQuery) ([]store.Event, error) {
	from, to := q.Span()
	return All(ctx, r, "find events", scanEvent, sqlFindEvents,
		q.Merchant, from.UnixMilli(), to.UnixMilli(), q.Type, q.About, q.AfterCreated.UnixMilli(), q.AfterID, q.Limit)
}

// Deliveries implements [store.Events].
func (r *Rows) Deliveries(ctx context.Context, event string) ([]store.Delivery, error) {
	return All(ctx, r, "deliveries", ScanDelivery, sqlDeliveries, store.EventKey(event), event)
}

// EndDelivery implements [store.Events].
func (r *Rows) EndDelivery(ctx context.Context, d store.Delivery) error {
	return r.change(ctx, "end delivery", nil, sqlEndDelivery,
		store.EventKey(d.Event), d.Event, d.Endpoint, d.Attempt, orNull(d.Due), orNull(d.Last), d.Status, d.Error)
}

// Redeliver implements [store.Events].
func (r *Rows) Redeliver(ctx context.Context, d store.Delivery, at time.Time) error {
	last := int64(0)
	if !d.Last.IsZero() {
		last = d.Last.UnixMilli()
	}
	return r.change(ctx, "redeliver", nil, sqlRedeliver, store.EventKey(d.Event), d.Event, d.Endpoint, at.UnixMilli(),
		d.Attempt, last)
}
