package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// A mending looks for the records of a day that its entries name and that the table lacks.
type mending struct {
	db    *database
	begin int64 // begin is when the day begins.

	isMisplaced bool // isMisplaced says that places are to be looked at, too.

	has     map[uint64]bool    // keys of the records that the table has
	known   map[uint64]bool    // keys of all entries, also of those that were erased
	keys    map[int64][]uint64 // keys of the records that the table should have, by hour
	entries map[string]Entry   // the newest entry of each record that is missing, by its id
	places  [][]any            // rows of the places that are missing, or lead elsewhere
	lost    int                // how many records were missing, also those whose entries are gone
	unread  error              // why some entries cannot be read, which is errSealed
}

// compare compares the records with the entries. If all are there, it writes journal_hours of a day that is over.
func (m *mending) compare(ctx context.Context, now time.Time) error {
	if err := m.read(ctx, m.db); err != nil || len(m.entries) > 0 || m.unread != nil || !isDayOver(m.begin, now) {
		return err
	}
	return m.db.putHours(ctx, m.begin, m.keys)
}

// mend makes the records again that are missing, while nobody writes or erases. It writes journal_hours
// of a day that is over.
func (m *mending) mend(ctx context.Context, now time.Time) error {
	db := m.db
	db.mu.Lock() // upsertRecords uses the buffers of the writer
	defer db.mu.Unlock()
	return db.inTx(ctx, func(tx *sql.Tx) error {
		if err := db.keepWritersOut(ctx, tx); err != nil {
			return err
		}
		if err := m.read(ctx, tx); err != nil {
			return err
		}
		if err := m.putPlaces(ctx, tx); err != nil {
			return err
		}
		if err := m.putRecords(ctx, tx); err != nil || m.unread != nil || !isDayOver(m.begin, now) {
			return err
		}
		hours, err := db.readHours(ctx, tx, m.begin, m.begin+dayLen)
		if err != nil {
			return err
		}
		for start := m.begin; start < m.begin+dayLen; start += hourLen {
			was := hours[start]
			for _, key := range decodeKeys(was.keys) {
				if !m.known[key] { // its entry is gone, too: the row goes on to name it
					m.keys[start] = append(m.keys[start], key)
					m.lost++
				}
			}
			if err := db.putHour(ctx, tx, start, m.keys[start]); err != nil {
				return err
			}
		}
		return nil
	})
}

// read reads the keys of the records, and the entries.
func (m *mending) read(ctx context.Context, from querier) error {
	m.has, m.known, m.keys, m.entries = map[uint64]bool{}, map[uint64]bool{}, map[int64][]uint64{}, map[string]Entry{}
	for start := m.begin; start < m.begin+dayLen; start += hourLen {
		keys, err := m.db.recordKeys(ctx, from, start)
		if err != nil {
			return err
		}
		for _, key := range keys {
			m.has[key] = true
		}
	}
	type name struct{ id, kind string }
	found := map[name]place{}
	if m.isMisplaced {
		places, err := m.db.readAllPlaces(ctx, from, `made >= ? AND made < ?`, m.begin, m.begin+dayLen)
		if err != nil {
			return err
		}
		for _, p := range places {
			found[name{p.id, p.kind}] = p
		}
	}
	newest := newestEntries{ranks: map[string]int{}, do: func(item *frameItem, e newestEntry) {
		key, start := recordKey(item.id), roundDown(e.Record.Created.UnixMilli(), hourLen)
		m.keys[start] = append(m.keys[start], key)
		if !m.has[key] {
			m.entries[item.id] = Entry{Kind: e.Kind, Record: e.Record, CardHash: item.card}
		}
	}}
	return m.db.eachFrame(ctx, from, frameEntries, func(f *frame) error {
		items, err := m.db.openItems(ctx, f, isAny)
		if errors.Is(err, errSealed) {
			m.unread = fmt.Errorf("entries from %d on of the chain %s: %w", f.first, f.chain, err)
			return nil
		}
		for i := range items {
			item := &items[i]
			m.known[recordKey(item.id)] = true
			if err == nil {
				err = newest.add(item)
			}
			if p := found[name{item.id, item.kind}]; m.isMisplaced && (p.frame != f.n || p.at != int64(i)) && err == nil {
				err = m.addPlace(f, i, item)
			}
		}
		return err
	}, `made = ?`, m.begin)
}

// addPlace adds the place of an entry that was not erased.
func (m *mending) addPlace(f *frame, at int, item *frameItem) error {
	if item.isErased() {
		return nil // nothing is looked for there
	}
	e, err := item.entry()
	m.places = append(m.places, []any{e.Record.Created.UnixMilli(), item.id, item.kind, f.n, int64(at), int64(0)})
	return err
}

// putPlaces writes the places that are missing, or lead elsewhere.
func (m *mending) putPlaces(ctx context.Context, tx *sql.Tx) error {
	if len(m.places) == 0 {
		return nil
	}
	return m.db.putRows(ctx, tx, `INSERT INTO journal_places (made, id, kind, frame, at, gone) `, m.places,
		` ON CONFLICT (id, kind, made) DO UPDATE SET frame = excluded.frame, at = excluded.at, gone = 0`)
}

// putRecords writes the records that are missing.
func (m *mending) putRecords(ctx context.Context, tx *sql.Tx) error {
	entries := make([]Entry, 0, len(m.entries))
	for _, id := range sortedKeys(m.entries) {
		entries = append(entries, m.entries[id])
	}
	m.lost = len(entries)
	return m.db.upsertRecords(ctx, tx, entries)
}
