package store

import (
	"context"
	"io"
	"time"
)

// The functions in this file are for the two stores that are SQL databases. They say how
// values are rows of their tables, whose columns both name alike.

// A Scanner is a row of a query: [database/sql.Row], [database/sql.Rows], or a row of pgx.
type Scanner interface{ Scan(into ...any) error }

// ScanTxn reads id, owner, scheme, state, data, expires, ver.
func ScanTxn(row Scanner) (t Txn, err error) {
	var expires int64
	if err := row.Scan(&t.ID, &t.Owner, &t.Scheme, &t.State, &t.Data, &expires, &t.Version); err != nil {
		return Txn{}, err
	}
	t.Expires = moment(expires)
	return t, nil
}

// ScanKey reads hash, merchant, strict, created, seal.
func ScanKey(row Scanner) (Key, error) { return scanKey(row) }

// ScanMarkedKey reads what ScanKey reads, behind a column that it ignores.
func ScanMarkedKey(row Scanner) (Key, error) { return scanKey(row, new(any)) }

// scanKey reads a key from what comes behind the columns before.
func scanKey(row Scanner, before ...any) (k Key, err error) {
	var created int64
	if err := row.Scan(append(before, &k.Hash, &k.Merchant, &k.Strict, &created, &k.Seal)...); err != nil {
		return Key{}, err
	}
	k.Created = moment(created)
	return k, nil
}

// A MerchantMark is the mark of a merchant's endpoints.
type MerchantMark struct {
	Merchant *string // nil: the mark is that of all endpoints
	Mark     string
}

// ScanMark reads merchant, which may be NULL, and mark.
func ScanMark(row Scanner) (m MerchantMark, err error) {
	err = row.Scan(&m.Merchant, &m.Mark)
	return m, err
}

// SplitMarks returns the marks of merchants, and the one of all endpoints.
func SplitMarks(marks []MerchantMark) (ofMerchants map[string]string, all string) {
	ofMerchants = make(map[string]string, len(marks))
	for _, m := range marks {
		if m.Merchant == nil {
			all = m.Mark
		} else {
			ofMerchants[*m.Merchant] = m.Mark
		}
	}
	return ofMerchants, all
}

// ScanSnapshot reads scheme, generation, created, size, note.
func ScanSnapshot(row Scanner) (s Snapshot, err error) {
	var created int64
	err = row.Scan(&s.Scheme, &s.Generation, &created, &s.Size, &s.Note)
	s.Created = moment(created)
	return s, err
}

// ScanNode reads id, name, note and the age in milliseconds.
func ScanNode(row Scanner) (n Node, err error) {
	var age int64
	err = row.Scan(&n.ID, &n.Name, &n.Note, &age)
	n.Age = time.Duration(age) * time.Millisecond
	return n, err
}

// ScanMerchant reads name, data.
func ScanMerchant(row Scanner) (m Merchant, err error) {
	err = row.Scan(&m.Name, &m.Data)
	return m, err
}

// ScanEndpoint reads id, merchant, created, data.
func ScanEndpoint(row Scanner) (e Endpoint, err error) {
	var created int64
	err = row.Scan(&e.ID, &e.Merchant, &created, &e.Data)
	e.Created = moment(created)
	return e, err
}

// ScanEvent reads id, merchant, type, about, created, data.
func ScanEvent(row Scanner) (e Event, err error) {
	var created int64
	if err := row.Scan(&e.ID, &e.Merchant, &e.Type, &e.About, &created, &e.Data); err != nil {
		return Event{}, err
	}
	e.Created = moment(created)
	return e, nil
}

// ScanDelivery reads event, endpoint, attempt, due, last, status, error.
func ScanDelivery(row Scanner) (d Delivery, err error) {
	var due, last *int64
	err = row.Scan(&d.Event, &d.Endpoint, &d.Attempt, &due, &last, &d.Status, &d.Error)
	d.Due, d.Last = momentOrZero(due), momentOrZero(last)
	return d, err
}

// ScanObject reads kind, id, expires, data.
func ScanObject(row Scanner) (o Object, err error) {
	var expires *int64
	if err := row.Scan(&o.Kind, &o.ID, &expires, &o.Data); err != nil {
		return Object{}, err
	}
	o.Expires = momentOrZero(expires)
	return o, nil
}

// ScanAuditEntry reads seq, at, link, data.
func ScanAuditEntry(row Scanner) (e AuditEntry, err error) {
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

// OrNull is a time as a column: NULL for the zero time.
func OrNull(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	return new(t.UnixMilli())
}

// moment is the time of a column.
func moment(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// momentOrZero is what OrNull has made a column of.
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
