package journal

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"
)

// How counts are kept. Counting all records of a month takes seconds, so the counts of an hour that is over are kept as
// rollups: a row of journal_rollups for each merchant, and one under the name "" for all of them together. A day all of
// whose hours are counted has rows in journal_days. There each part, such as the counts by scheme, has a row of its
// own, for a report of a year reads one part of hundreds of days. All days of a block of thirty days are added up
// there, too. An hour whose records have changed since stands in journal_dirty, written in the transaction that changed
// them. A count adds up whole blocks, days and hours, and the records of dirty hours and of parts of hours. So it is
// always exact, and what makes rollups may be late. Each row has a MAC. Where one does not fit, the records of its time
// are counted in its place, and its hour is marked, so that the row is made anew.

// rollAfter is how long after its end an hour is counted: nearly all challenges have ended by then.
const rollAfter = time.Hour

// Milliseconds of an hour, of a day, and of a block of days.
const (
	hourLen   = int64(time.Hour / time.Millisecond)
	dayLen    = 24 * hourLen
	blockDays = int64(30)
	blockLen  = blockDays * dayLen
)

// A span is a time from its begin until before its end, in milliseconds.
type span struct{ begin, end int64 }

// joinSpans sorts spans, and makes one of those that touch.
func joinSpans(all []span) (joined []span) {
	slices.SortFunc(all, func(a, b span) int { return int(min(1, max(-1, a.begin-b.begin))) })
	for _, s := range all {
		if n := len(joined); n > 0 && joined[n-1].end >= s.begin {
			joined[n-1].end = max(joined[n-1].end, s.end)
		} else if s.begin < s.end {
			joined = append(joined, s)
		}
	}
	return joined
}

// roundUp returns the first multiple of a length that is not before a time.
func roundUp(at, length int64) int64 { return -(roundDown(-at, length)) }

// roundDown returns the last multiple of a length that is not after a time.
func roundDown(at, length int64) int64 { return at - ((at%length)+length)%length }

// readNumbers reads a column of numbers.
func readNumbers(ctx context.Context, tx *sql.Tx, text string, args ...any) ([]int64, error) {
	return readRows(ctx, tx, func(n *int64) []any { return []any{n} }, text, args...)
}

// hourRollups and dayRollups begin the statements that read rollups.
const (
	hourRollups = `SELECT start, 0, merchant, '', counts, mac FROM journal_rollups WHERE `
	dayRollups  = `SELECT start, days, merchant, part, counts, mac FROM journal_days WHERE `
)

// A rollupRow is a row of journal_rollups, with no days, or of journal_days.
type rollupRow struct {
	start, days    int64
	merchant, part string
	counts, mac    []byte
}

// text is what the MAC of a row is made over.
func (r *rollupRow) text() []byte {
	return fmt.Appendf(nil, "threeds journal rollup %d %d %q %q %s", r.start, r.days, r.merchant, r.part, r.counts)
}

// span is the time that a row is about.
func (r *rollupRow) span() span {
	if r.days == 0 {
		return span{r.start, r.start + hourLen}
	}
	return span{r.start, r.start + r.days*dayLen}
}

// readRollups reads the rows of a statement, and returns the spans of those that are not as they were written.
func (db *database) readRollups(ctx context.Context, from querier, text string,
	args ...any) (all []rollupRow, bad []span,
	err error) {
	rows, err := readRows(ctx, from, func(r *rollupRow) []any {
		return []any{&r.start, &r.days, &r.merchant, &r.part, &r.counts, &r.mac}
	}, db.query(text), args...)
	for i := range rows {
		r := &rows[i]
		if db.ours.isMAC(r.mac, r.text()) {
			all = append(all, *r)
			continue
		}
		db.changed.Add(1)
		bad = append(bad, r.span())
	}
	return all, bad, err
}

// markBad marks the first hour of each span, with which all rollups of the span are made anew. It may be called while
// the writer writes, so the mark has a name of its own.
func (db *database) markBad(ctx context.Context, tx *sql.Tx, bad []span) error {
	hours := map[int64]bool{}
	for _, s := range bad {
		hours[s.begin/hourLen] = true
	}
	return db.markDirty(ctx, tx, hours, "changed")
}

// roll makes rollups, the newest ones first, until all are made or the time is over.
func (db *database) roll(ctx context.Context, now time.Time, limit time.Duration) error {
	began, due := time.Now(), now.Add(-rollAfter).UnixMilli()
	for _, part := range []struct {
		text string
		make func(context.Context, *sql.Tx, int64) error
	}{
		{`SELECT DISTINCT hour FROM journal_dirty WHERE (hour + 1) * %d <= ? ORDER BY hour DESC`, db.rollHour},
		{`SELECT DISTINCT start / 24 / %[1]d FROM journal_rollups h WHERE merchant = ''
			AND (start / 24 / %[1]d + 1) * 24 * %[1]d <= ? AND NOT EXISTS (SELECT 1 FROM journal_days d
			WHERE d.merchant = '' AND d.part = '' AND d.days = 1 AND d.start = h.start / 24 / %[1]d * 24 * %[1]d) ORDER BY 1 DESC`,
			db.rollDay},
		{`SELECT DISTINCT start / 720 / %[1]d FROM journal_days d WHERE merchant = '' AND part = '' AND days = 1
			AND (start / 720 / %[1]d + 1) * 720 * %[1]d <= ? AND NOT EXISTS (SELECT 1 FROM journal_days b
			WHERE b.merchant = '' AND b.part = '' AND b.days = 30 AND b.start = d.start / 720 / %[1]d * 720 * %[1]d) ORDER BY 1 DESC`,
			db.rollBlock},
	} {
		var wanted []int64
		if err := db.inTx(ctx, func(tx *sql.Tx) (err error) {
			wanted, err = readNumbers(ctx, tx, db.query(fmt.Sprintf(part.text, hourLen)), due)
			return err
		}); err != nil {
			return err
		}
		for _, n := range wanted {
			if time.Since(began) >= limit {
				return nil
			}
			if err := db.inTx(ctx, func(tx *sql.Tx) error {
				if isFirst, err := db.lockRollups(ctx, tx); err != nil || !isFirst {
					return err // another node makes them
				}
				if err := db.keepErasuresOut(ctx, tx); err != nil {
					return err
				}
				return part.make(ctx, tx, n)
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// inTx calls do in a transaction, each of whose statements sees what was committed before it.
func (db *database) inTx(ctx context.Context, do func(*sql.Tx) error) error {
	return inTxOf(ctx, db, do)
}

// inTxOf is inTx on a database or a connection.
func inTxOf(ctx context.Context, of beginner, do func(*sql.Tx) error) error {
	tx, err := of.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback() // nothing after a commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// A beginner is a database or a connection.
type beginner interface {
	BeginTx(ctx context.Context, options *sql.TxOptions) (*sql.Tx, error)
}

// rollHour makes the rollups of an hour. Marks that come meanwhile stay.
func (db *database) rollHour(ctx context.Context, tx *sql.Tx, hour int64) error {
	marks, err := readMarks(ctx, tx, db.query(`SELECT writer, n FROM journal_dirty WHERE hour = ?`), hour)
	if err != nil {
		return err
	}
	counts, err := db.countHour(ctx, tx, hour)
	if err != nil {
		return err
	}
	start := hour * hourLen
	archived, err := db.archivedDays(ctx, tx)
	if err != nil {
		return err
	}
	if !archived[dayOf(time.UnixMilli(start))] { // else the records that were counted are gone
		if err := db.putRollups(ctx, tx, start, counts); err != nil {
			return err
		}
	}
	if err := db.putPostings(ctx, tx, start); err != nil {
		return err
	}
	if err := db.renewHour(ctx, tx, start); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx,
		db.query(`DELETE FROM journal_days WHERE start = ? AND days = 1 OR start = ? AND days = ?`),
		roundDown(start, dayLen), roundDown(start, blockLen), blockDays); err != nil {
		return err
	}
	for writer, n := range marks {
		if _, err := tx.ExecContext(ctx, db.query(`DELETE FROM journal_dirty WHERE hour = ? AND writer = ? AND n = ?`), hour,
			writer, n); err != nil {
			return err
		}
	}
	return nil
}

// putRollups replaces the rollups of an hour.
func (db *database) putRollups(ctx context.Context, tx *sql.Tx, start int64, counts map[string]tallies) error {
	if _, err := tx.ExecContext(ctx, db.query(`DELETE FROM journal_rollups WHERE start = ?`), start); err != nil {
		return err
	}
	var rows [][]any
	for merchant, t := range counts {
		r := rollupRow{start: start, merchant: merchant, counts: t.encode()}
		rows = append(rows, []any{start, merchant, r.counts, db.ours.mac(r.text())})
	}
	return db.putRows(ctx, tx, `INSERT INTO journal_rollups (start, merchant, counts, mac) `, rows, "")
}

// readMarks reads who has marked an hour as dirty, and how often.
func readMarks(ctx context.Context, tx *sql.Tx, text string, hour int64) (map[string]int64, error) {
	type mark struct {
		writer string
		n      int64
	}
	all, err := readRows(ctx, tx, func(m *mark) []any { return []any{&m.writer, &m.n} }, text, hour)
	marks := map[string]int64{}
	for _, m := range all {
		marks[m.writer] = m.n
	}
	return marks, err
}

// countHour counts the records of an hour, for each merchant and for all of them. For all there are always counts.
func (db *database) countHour(ctx context.Context, tx *sql.Tx, hour int64) (map[string]tallies, error) {
	begin, end := hour*hourLen, (hour+1)*hourLen
	rows, err := tx.QueryContext(ctx,
		db.query(`SELECT merchant, scheme, bin, acs, version, reason, bucket, status, result, trans_status,
		challenged, unkept, count(*) FROM journal_records WHERE `+countedKinds+
			` AND made >= ? AND made < ? AND -made <= ? AND -made > ?
		GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12`), begin, end, -begin, -end)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]tallies{"": {}}
	for rows.Next() {
		var merchant, scheme, bin, acs, version, reason, unkept string
		var e ending
		var n int64
		if err := rows.Scan(&merchant, &scheme, &bin, &acs, &version, &reason, &e.bucket, &e.status, &e.result,
			&e.transStatus,
			&e.challenged, &unkept, &n); err != nil {
			return nil, err
		}
		if all[merchant] == nil {
			all[merchant] = tallies{}
		}
		for by, value := range map[string]string{
			"": "", "scheme": scheme, "issuer": bin, "acs": acs, "version": version, "reason": reason,
		} {
			all[""].of(by, value).add(&e, n)
			if merchant != "" {
				all[merchant].of(by, value).add(&e, n)
			}
		}
		all[""].of("merchant", merchant).add(&e, n)
		addNames(all[""].of(byUnkept, merchant).Results, scheme, unkept, n)
		if merchant != "" {
			addNames(all[merchant].of(byUnkept, merchant).Results, scheme, unkept, n)
		}
	}
	return all, rows.Err()
}

// rollDay makes the rollups of a day out of those of its hours, unless one of them is dirty.
func (db *database) rollDay(ctx context.Context, tx *sql.Tx, day int64) error {
	start := day * dayLen
	dirty, err := readNumbers(ctx, tx, db.query(`SELECT hour FROM journal_dirty WHERE hour >= ? AND hour < ?`),
		24*day, 24*day+24)
	if err != nil || len(dirty) > 0 {
		return err
	}
	return db.addUp(ctx, tx, start, 1, hourRollups+`start >= ? AND start < ?`)
}

// rollBlock makes the rollups of a block of days out of those of its days, unless an hour of it has to be counted
// before.
func (db *database) rollBlock(ctx context.Context, tx *sql.Tx, block int64) error {
	start := block * blockLen
	waiting, err := readNumbers(ctx, tx, db.query(`SELECT hour FROM journal_dirty WHERE hour >= ? AND hour < ? UNION ALL
		SELECT start FROM journal_rollups h WHERE merchant = '' AND start >= ? AND start < ? AND NOT EXISTS
		(SELECT 1 FROM journal_days d WHERE d.merchant = '' AND d.part = '' AND d.days = 1 AND d.start = h.start / ? * ?) LIMIT 1`),
		start/hourLen, (start+blockLen)/hourLen, start, start+blockLen, dayLen, dayLen)
	if err != nil || len(waiting) > 0 {
		return err
	}
	return db.addUp(ctx, tx, start, blockDays,
		dayRollups+`start >= ? AND start < ? AND days = 1`)
}

// addUp makes the rollups of so many days that begin at a time out of the rows that a statement selects.
func (db *database) addUp(ctx context.Context, tx *sql.Tx, start, days int64, text string) error {
	rows, bad, err := db.readRollups(ctx, tx, text, start, start+days*dayLen)
	if err != nil {
		return err
	}
	if len(bad) > 0 {
		return db.markBad(ctx, tx, bad) // they are made anew first
	}
	all := map[string]tallies{"": {"": {}}} // that part is there even when nothing is counted
	for _, r := range rows {
		if all[r.merchant] == nil {
			all[r.merchant] = tallies{}
		}
		if err := decodeTallies(r.counts, func(string) bool { return true }, all[r.merchant].of); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, db.query(`DELETE FROM journal_days WHERE start = ? AND days = ?`), start,
		days); err != nil {
		return err
	}
	var parts [][]any
	for merchant, t := range all {
		for part, values := range t {
			r := rollupRow{start: start, days: days, merchant: merchant, part: part, counts: tallies{part: values}.encode()}
			parts = append(parts, []any{start, days, merchant, part, r.counts, db.ours.mac(r.text())})
		}
	}
	return db.putRows(ctx, tx, `INSERT INTO journal_days (start, days, merchant, part, counts, mac) `, parts, "")
}

// markDirty notes, under the name of who says so, that records of hours have changed.
func (db *database) markDirty(ctx context.Context, tx *sql.Tx, hours map[int64]bool, by string) error {
	for hour := range hours {
		if _, err := tx.ExecContext(ctx, db.query(`INSERT INTO journal_dirty (hour, writer, n) VALUES (?, ?, 1)
			ON CONFLICT (hour, writer) DO UPDATE SET n = journal_dirty.n + 1`), hour, by); err != nil {
			return err
		}
	}
	return nil
}

// forgetRollups removes the rollups that count the records of a condition, which are about to be erased. They are made
// again of the records that stay.
func (db *database) forgetRollups(ctx context.Context, tx *sql.Tx, condition string, args []any) error {
	if _, err := tx.ExecContext(ctx, db.query(fmt.Sprintf(`INSERT INTO journal_dirty (hour, writer, n)
		SELECT DISTINCT made / %d, 'erase', 1 FROM journal_records WHERE %s
		ON CONFLICT (hour, writer) DO UPDATE SET n = journal_dirty.n + 1`, hourLen, condition)), args...); err != nil {
		return err
	}
	archived, err := db.archivedDays(ctx, tx)
	if err != nil {
		return err
	}
	// The counts of archived days stay: the records that they count are in files.
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(`DELETE FROM journal_rollups
		WHERE start / %d IN (SELECT hour FROM journal_dirty WHERE writer = 'erase') AND start / %d NOT IN (%s)`,
		hourLen, dayLen,
		archived.numbers())); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf(`DELETE FROM journal_postings
		WHERE made / %d IN (SELECT hour FROM journal_dirty WHERE writer = 'erase')`, hourLen)); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf(`DELETE FROM journal_days
		WHERE start / %d / days IN (SELECT hour / 24 / days FROM journal_dirty WHERE writer = 'erase')`, dayLen))
	return err
}
