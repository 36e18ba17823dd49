package rows

import (
	"context"
	"io"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

// A Scanner is a row of a query: [database/sql.Row], [database/sql.Rows], or a row of pgx.
type Scanner interface{ Scan(into ...any) error }

// ScanTxn reads id, owner, scheme, state, data, expires, ver.
func ScanTxn(row Scanner) (t store.Txn, err error) {
	var expires int64
	if err := row.Scan(&t.ID, &t.Owner, &t.Scheme, &t.State, &t.Data, &expires, &t.Version); err != nil {
		return store.Txn{}, err
	}
	t.Expires = moment(expires)
	return t, nil
}

// ScanValue reads the one column that there is.
func ScanValue[T any](row Scanner) (v T, err error) {
	err = row.Scan(&v)
	return v, err
}

// scanKey reads hash, merchant, strict, created, seal.
func scanKey(row Scanner) (store.Key, error) { return scanKeyBehind(row) }

// scanMarkedKey reads what scanKey reads, behind a column that it ignores.
func scanMarkedKey(row Scanner) (store.Key, error) { return scanKeyBehind(row, new(any)) }

// scanKeyBehind reads a key from what comes behind the columns before.
func scanKeyBehind(row Scanner, before ...any) (k store.Key, err error) {
	var created int64
	err = row.Scan(append(before, &k.Hash, &k.Merchant, &k.Strict, &created, &k.Seal)...)
	k.Created = moment(created)
	return k, err
}

// A merchantMark is the mark of a merchant's endpoints.
type merchantMark struct {
	merchant *string // nil: the mark is that of all endpoints
	mark     string
}

// scanMark reads merchant, which may be NULL, and mark.
func scanMark(row Scanner) (m merchantMark, err error) {
	err = row.Scan(&m.merchant, &m.mark)
	return m, err
}

// ScanSnapshot reads scheme, generation, created, size, note.
func ScanSnapshot(row Scanner) (s store.Snapshot, err error) {
	var created int64
	err = row.Scan(&s.Scheme, &s.Generation, &created, &s.Size, &s.Note)
	s.Created = moment(created)
	return s, err
}

// scanNode reads id, name, note and the age in milliseconds.
func scanNode(row Scanner) (n store.Node, err error) {
	var age int64
	err = row.Scan(&n.ID, &n.Name, &n.Note, &age)
	n.Age = time.Duration(age) * time.Millisecond
	return n, err
}

// scanMerchant reads name, data.
func scanMerchant(row Scanner) (m store.Merchant, err error) {
	err = row.Scan(&m.Name, &m.Data)
	return m, err
}

// scanEndpoint reads id, merchant, created, data.
func scanEndpoint(row Scanner) (e store.Endpoint, err error) {
	var created int64
	err = row.Scan(&e.ID, &e.Merchant, &created, &e.Data)
	e.Created = moment(created)
	return e, err
}

// scanEvent reads id, merchant, type, about, created, data.
func scanEvent(row Scanner) (e store.Event, err error) {
	var created int64
	if err := row.Scan(&e.ID, &e.Merchant, &e.Type, &e.About, &created, &e.Data); err != nil {
		return store.Event{}, err
	}
	e.About, e.Created = store.AboutOf(e.About), moment(created)
	return e, nil
}

// ScanDelivery reads event, endpoint, attempt, due, last, status, error.
func ScanDelivery(row Scanner) (d store.Delivery, err error) {
	var due, last *int64
	err = row.Scan(&d.Event, &d.Endpoint, &d.Attempt, &due, &last, &d.Status, &d.Error)
	d.Due, d.Last = momentOrZero(due), momentOrZero(last)
	return d, err
}

// scanObject reads kind, id, expires, data.
func scanObject(row Scanner) (o store.Object, err error) {
	var expires *int64
	if err := row.Scan(&o.Kind, &o.ID, &expires, &o.Data); err != nil {
		return store.Object{}, err
	}
	o.Expires = momentOrZero(expires)
	return o, nil
}

// scanAuditEntry reads seq, at, link, data.
func scanAuditEntry(row Scanner) (e store.AuditEntry, err error) {
	var at int64
	err = row.Scan(&e.Seq, &at, &e.Link, &e.Data)
	e.At = moment(at)
	return e, err
}

// Blob makes nil the empty value: a nil slice would be NULL.
func Blob(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}

// orNull is a time as a column: NULL for the zero time.
func orNull(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(t.UnixMilli())
}

// moment is the time of a column.
func moment(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// momentOrZero is what orNull has made a column of.
func momentOrZero(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return moment(*ms)
}

// RemoveInBatches calls remove until it removes fewer rows than limit, and returns how many that were all together.
func RemoveInBatches(limit int64, remove func() (int64, error)) (total int, err error) {
	for {
		n, err := remove()
		if err != nil {
			return total, err
		}
		total += int(n)
		if n < limit {
			return total, nil
		}
	}
}

// Fill reads until buf is full, with the error that stopped it before. It is for the
// content of a snapshot. (io.ReadFull makes no difference between an end and a reader's
// own io.ErrUnexpectedEOF.)
func Fill(ctx context.Context, buf []byte, content io.Reader) (n int, err error) {
	for n < len(buf) && err == nil {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		var got int
		got, err = content.Read(buf[n:])
		n += got
	}
	return n, err
}
