package journal

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// A row of a table for searches that was deleted leaves no trace by itself. So each hour of a day that is over has a
// row in journal_hours, with a MAC. It names the records of the hour by their keys, and says how many rows of postings
// and of rollups were made of them. It is made of the sealed entries when the day is signed. What counts an hour again,
// or erases from it, renews the row in its own transaction: new keys are added, and those of erased records go. So a
// key whose record is missing says that somebody deleted a row, and check.go makes the row again.

// hoursOfDay is how many rows of journal_hours a day has.
const hoursOfDay = int(dayLen / hourLen)

// An hourRow is a row of journal_hours.
type hourRow struct {
	start            int64 // start is when the hour begins, in milliseconds since 1970.
	keys             []byte
	postings, counts int64 // postings and counts are the numbers of rows of journal_postings and journal_rollups.
	mac              []byte
}

// text is what the MAC of a row is made over.
func (r *hourRow) text() []byte {
	return append(fmt.Appendf(nil, "threeds journal hour %d %d %d ", r.start, r.postings, r.counts), r.keys...)
}

// recordKey names a record in a row of journal_hours.
func recordKey(id string) uint64 {
	sum := sha256.Sum256([]byte(id))
	return binary.BigEndian.Uint64(sum[:])
}

// encodeKeys writes keys in their order, each once.
func encodeKeys(keys []uint64) (out []byte) {
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		out = binary.BigEndian.AppendUint64(out, key)
	}
	return out
}

// decodeKeys reads what encodeKeys has written.
func decodeKeys(in []byte) []uint64 {
	keys := make([]uint64, 0, len(in)/8)
	for ; len(in) >= 8; in = in[8:] {
		keys = append(keys, binary.BigEndian.Uint64(in))
	}
	return keys
}

// readHours returns the rows of journal_hours of a time that are as they were written, by when they begin.
func (db *database) readHours(ctx context.Context, from querier, begin, end int64) (map[int64]hourRow, error) {
	rows, err := readRows(ctx, from, func(r *hourRow) []any {
		return []any{&r.start, &r.keys, &r.postings, &r.counts, &r.mac}
	}, db.query(`SELECT start, keys, postings, counts, mac FROM journal_hours WHERE start >= ? AND start < ?`), begin, end)
	all := map[int64]hourRow{}
	for _, r := range rows {
		if db.ours.isMAC(r.mac, r.text()) {
			all[r.start] = r
		} else {
			db.changed.Add(1)
		}
	}
	return all, err
}

// recordKeys returns the keys of the records of an hour that the table has.
func (db *database) recordKeys(ctx context.Context, from querier, start int64) (keys []uint64, err error) {
	rows, err := from.QueryContext(ctx, db.query(`SELECT id FROM journal_records
		WHERE made >= ? AND made < ? AND -made <= ? AND -made > ?`), start, start+hourLen, -start, -(start + hourLen))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		keys = append(keys, recordKey(id))
	}
	return keys, rows.Err()
}

// countRows returns how many rows of postings and of rollups an hour has.
func (db *database) countRows(ctx context.Context, tx *sql.Tx, start int64) (postings, counts int64, err error) {
	err = tx.QueryRowContext(ctx, db.query(`SELECT (SELECT count(*) FROM journal_postings WHERE made = ?),
		(SELECT count(*) FROM journal_rollups WHERE start = ?)`), start, start).Scan(&postings, &counts)
	return postings, counts, err
}

// putHour writes the row of an hour.
func (db *database) putHour(ctx context.Context, tx *sql.Tx, start int64, keys []uint64) (err error) {
	r := hourRow{start: start, keys: encodeKeys(keys)}
	if r.postings, r.counts, err = db.countRows(ctx, tx, start); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, db.query(`INSERT INTO journal_hours (start, keys, postings, counts, mac)
		VALUES (?, ?, ?, ?, ?) ON CONFLICT (start) DO UPDATE SET keys = excluded.keys, postings = excluded.postings,
		counts = excluded.counts, mac = excluded.mac`), start, r.keys, r.postings, r.counts, db.ours.mac(r.text()))
	return err
}

// renewHour adds the records that have come to the row of an hour, if there is one.
func (db *database) renewHour(ctx context.Context, tx *sql.Tx, start int64) error {
	rows, err := db.readHours(ctx, tx, start, start+hourLen)
	if err != nil || len(rows) == 0 {
		return err
	}
	keys, err := db.recordKeys(ctx, tx, start)
	if err != nil {
		return err
	}
	was := rows[start]
	return db.putHour(ctx, tx, start, append(keys, decodeKeys(was.keys)...))
}

// forgetKeys takes the records of a condition, which are about to be erased, out of the rows of their hours.
func (db *database) forgetKeys(ctx context.Context, tx *sql.Tx, condition string, args []any) error {
	type row struct {
		made int64
		id   string
	}
	records, err := readRows(ctx, tx, func(r *row) []any { return []any{&r.made, &r.id} },
		db.query(`SELECT made, id FROM journal_records WHERE `+condition), args...)
	if err != nil {
		return err
	}
	gone := map[int64]map[uint64]bool{} // by hour
	for _, r := range records {
		start := roundDown(r.made, hourLen)
		if gone[start] == nil {
			gone[start] = map[uint64]bool{}
		}
		gone[start][recordKey(r.id)] = true
	}
	for start, keys := range gone {
		rows, err := db.readHours(ctx, tx, start, start+hourLen)
		if err != nil {
			return err
		}
		was, ok := rows[start]
		if !ok {
			continue
		}
		stay := slices.DeleteFunc(decodeKeys(was.keys), func(key uint64) bool { return keys[key] })
		if err := db.putHour(ctx, tx, start, stay); err != nil {
			return err
		}
	}
	return nil
}

// putHours adds the records of a day to the rows of its hours, and makes rows that are missing. Nobody writes, erases
// or counts an hour meanwhile. An hour that lacks one of the records stays as it is: it was erased since, and the next
// look makes its row.
func (db *database) putHours(ctx context.Context, begin int64, keys map[int64][]uint64) error {
	for start := begin; start < begin+dayLen; start += hourLen {
		if err := db.inTx(ctx, func(tx *sql.Tx) error {
			if err := db.keepWritersOut(ctx, tx); err != nil {
				return err
			}
			has, err := db.recordKeys(ctx, tx, start)
			if err != nil || !hasAll(has, keys[start]) {
				return err
			}
			rows, err := db.readHours(ctx, tx, start, start+hourLen)
			if err != nil {
				return err
			}
			was := rows[start]
			return db.putHour(ctx, tx, start, append(decodeKeys(was.keys), keys[start]...))
		}); err != nil {
			return err
		}
	}
	return nil
}

// keysByHour returns the keys of records by the hours in which they were made.
func keysByHour(all map[string]sealedRow) map[int64][]uint64 {
	keys := map[int64][]uint64{}
	for id, r := range all {
		start := roundDown(r.made, hourLen)
		keys[start] = append(keys[start], recordKey(id))
	}
	return keys
}

// isDayOver reports whether a day that begins at a time is over.
func isDayOver(begin int64, now time.Time) bool { return begin+dayLen <= now.UnixMilli() }

// countChangedHours counts the hours of a time whose postings or rollups are not those of their records. Hours that are
// in journal_dirty are left out: nobody uses theirs.
func (db *database) countChangedHours(ctx context.Context, begin, end int64) (n int, err error) {
	tx, err := db.beginCount(ctx)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // The transaction only reads.
	archived, err := db.archivedDays(ctx, tx)
	if err != nil {
		return 0, err
	}
	for start := roundDown(begin, hourLen); start < end; start += hourLen {
		dirty, err := readNumbers(ctx, tx, db.query(`SELECT hour FROM journal_dirty WHERE hour = ?`), start/hourLen)
		if err != nil {
			return n, err
		}
		if len(dirty) > 0 {
			continue
		}
		all, err := db.readPostings(ctx, tx, start)
		if err != nil {
			return n, err
		}
		type row struct {
			key     int64
			at, mac []byte
		}
		rows, err := readRows(ctx, tx, func(r *row) []any { return []any{&r.key, &r.at, &r.mac} },
			db.query(`SELECT key, at, mac FROM journal_postings WHERE made = ?`), start)
		if err != nil {
			return n, err
		}
		isSame := len(rows) == len(all)
		for _, r := range rows {
			isSame = isSame && slices.Equal(r.at, encodeTimes(all[r.key])) &&
				db.ours.isMAC(r.mac, postingText(start, r.key, r.at))
		}
		isCounted := archived[dayOf(time.UnixMilli(start))] // by records that are in files
		if !isCounted {
			if isCounted, err = db.isHourCounted(ctx, tx, start); err != nil {
				return n, err
			}
		}
		if !isSame || !isCounted {
			n++
		}
	}
	return n, nil
}

// isHourCounted reports whether the rollups of an hour are those of its records.
func (db *database) isHourCounted(ctx context.Context, tx *sql.Tx, start int64) (bool, error) {
	rows, bad, err := db.readRollups(ctx, tx, hourRollups+`start = ?`, start)
	if err != nil || len(bad) > 0 {
		return false, err
	}
	want, err := db.countHour(ctx, tx, start/hourLen)
	if err != nil || len(rows) == 0 && len(want) == 1 && len(want[""]) == 0 {
		return true, err // nothing was counted
	}
	for _, r := range rows {
		if t := want[r.merchant]; t == nil || !slices.Equal(t.encode(), r.counts) {
			return false, nil
		}
	}
	return len(rows) == len(want), nil
}
