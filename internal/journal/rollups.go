package journal

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

// How counts are kept. Counting all records of a month takes seconds, so the counts of an hour that is over are kept as
// rollups: a row of journal_rollups for each merchant, and one under the name "" for all of them together. A day all of
// whose hours are counted has such rows, too. An hour whose records have changed since stands in journal_dirty, written
// in the transaction that changed them. A count adds up whole days, whole hours, and the records of dirty hours and of
// parts of hours. So it is always exact, and what makes rollups may be late.

// rollAfter is how long after its end an hour is counted: nearly all challenges have ended by then.
const rollAfter = time.Hour

// Milliseconds of an hour and of a day.
const (
	hourLen = int64(time.Hour / time.Millisecond)
	dayLen  = 24 * hourLen
)

// byColumns are the columns by whose values authentications are counted, by the names of [CountQuery]. All have one value
// of "".
var byColumns = map[string]string{
	"": "''", "scheme": "scheme", "issuer": "bin", "acs": "acs", "version": "version", "reason": "reason", "merchant": "merchant",
}

// countedKinds is the condition of records that are counted: authentications with an AReq.
const countedKinds = `kind NOT IN ('refused', 'v1')`

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

// count counts authentications.
func (db *database) count(ctx context.Context, q CountQuery) ([]Rollup, error) {
	by := q.By
	if by == "merchant" && q.Merchant != "" {
		by = ""
	}
	if byColumns[by] == "" {
		return nil, fmt.Errorf("journal: there are no counts by %q", by)
	}
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() // it has written nothing
	c := counter{db: db, tx: tx, by: by, query: q, sums: map[sumKey]*Rollup{}}
	days, hours, records, err := c.divide(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, part := range []struct {
		spans []span
		add   func(context.Context, span) error
	}{
		{days, func(ctx context.Context, s span) error { return c.addRollups(ctx, s, 24) }},
		{hours, func(ctx context.Context, s span) error { return c.addRollups(ctx, s, 1) }},
		{records, c.addRecords},
	} {
		for _, s := range part.spans {
			if err := part.add(ctx, s); err != nil {
				return nil, err
			}
		}
	}
	all := make([]Rollup, 0, len(c.sums))
	for key, sum := range c.sums {
		sum.Hour, sum.Value = time.UnixMilli(key.at).UTC(), key.value
		if by != q.By {
			sum.Value = q.Merchant
		}
		all = append(all, *sum)
	}
	slices.SortFunc(all, func(a, b Rollup) int {
		if n := a.Hour.Compare(b.Hour); n != 0 {
			return n
		}
		return strings.Compare(a.Value, b.Value)
	})
	return all, nil
}

// A counter adds up what one count is made of.
type counter struct {
	db    *database
	tx    *sql.Tx
	by    string
	query CountQuery
	sums  map[sumKey]*Rollup
}

// A sumKey names one sum: the begin of the hour or the day, and the value that is counted.
type sumKey struct {
	at    int64
	value string
}

// sum returns the sum of a time and a value.
func (c *counter) sum(at int64, value string) *Rollup {
	key := sumKey{at, value}
	if c.query.Whole {
		key.at = c.query.From.UnixMilli()
	}
	if c.sums[key] == nil {
		c.sums[key] = NewRollup()
	}
	return c.sums[key]
}

// divide divides the time of a query into days and hours that are counted by rollups, and the rest.
func (c *counter) divide(ctx context.Context, q CountQuery) (days, hours, records []span, err error) {
	all := span{q.From.UnixMilli(), q.To.UnixMilli()}
	whole := span{roundUp(all.begin, hourLen), roundDown(all.end, hourLen)}
	if whole.begin >= whole.end {
		return nil, nil, joinSpans([]span{all}), nil
	}
	dirty, err := readNumbers(ctx, c.tx, c.db.query(`SELECT DISTINCT hour FROM journal_dirty WHERE hour >= ? AND hour < ? ORDER BY hour`),
		whole.begin/hourLen, whole.end/hourLen)
	if err != nil {
		return nil, nil, nil, err
	}
	records = []span{{all.begin, whole.begin}, {whole.end, all.end}}
	taken := []span{}
	isDirtyDay := map[int64]bool{}
	for _, hour := range dirty {
		records = append(records, span{hour * hourLen, (hour + 1) * hourLen})
		taken = append(taken, span{hour * hourLen, (hour + 1) * hourLen})
		isDirtyDay[roundDown(hour*hourLen, dayLen)] = true
	}
	if !q.Hourly {
		counted, err := readNumbers(ctx, c.tx, c.db.query(`SELECT start FROM journal_rollups
			WHERE merchant = '' AND hours = 24 AND start >= ? AND start < ? ORDER BY start`), whole.begin, whole.end-dayLen+1)
		if err != nil {
			return nil, nil, nil, err
		}
		for _, start := range counted {
			if !isDirtyDay[start] {
				days = append(days, span{start, start + dayLen})
			}
		}
	}
	days = joinSpans(days)
	at := whole.begin
	for _, s := range append(joinSpans(append(taken, days...)), span{whole.end, whole.end}) {
		hours = append(hours, span{at, s.begin})
		at = s.end
	}
	return days, joinSpans(hours), joinSpans(records), nil
}

// readNumbers reads a column of numbers.
func readNumbers(ctx context.Context, tx *sql.Tx, text string, args ...any) (all []int64, err error) {
	rows, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var n int64
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, rows.Err()
}

// addRollups adds the rollups of a time that are of so many hours each.
func (c *counter) addRollups(ctx context.Context, s span, hours int64) error {
	rows, err := c.tx.QueryContext(ctx, c.db.query(`SELECT start, counts FROM journal_rollups
		WHERE merchant = ? AND hours = ? AND start >= ? AND start < ?`), c.query.Merchant, hours, s.begin, s.end)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var at int64
		var counts []byte
		if err := rows.Scan(&at, &counts); err != nil {
			return err
		}
		if err := decodeTallies(counts, func(by string) bool { return by == c.by }, func(_, value string) *Rollup {
			return c.sum(at, value)
		}); err != nil {
			return err
		}
	}
	return rows.Err()
}

// addRecords counts the records of a time.
func (c *counter) addRecords(ctx context.Context, s span) error {
	condition, args := `-made <= ? AND -made > ?`, []any{s.begin, s.end, -s.begin, -s.end}
	if c.query.Merchant != "" {
		condition, args = `merchant = ?`, []any{s.begin, s.end, c.query.Merchant}
	}
	rows, err := c.tx.QueryContext(ctx, c.db.query(fmt.Sprintf(`SELECT made / %d, %s, bucket, status, result, trans_status, challenged, count(*)
		FROM journal_records WHERE %s AND made >= ? AND made < ? AND %s GROUP BY 1, 2, 3, 4, 5, 6, 7`,
		hourLen, byColumns[c.by], countedKinds, condition)), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var hour, n int64
		var value string
		var e ending
		if err := rows.Scan(&hour, &value, &e.bucket, &e.status, &e.result, &e.transStatus, &e.challenged, &n); err != nil {
			return err
		}
		c.sum(hour*hourLen, value).add(&e, n)
	}
	return rows.Err()
}

// roll makes rollups, the newest ones first, until all are made or the time is over.
func (db *database) roll(ctx context.Context, now time.Time, limit time.Duration) error {
	began, due := time.Now(), now.Add(-rollAfter).UnixMilli()
	for _, part := range []struct {
		text string
		make func(context.Context, *sql.Tx, int64) error
	}{
		{`SELECT DISTINCT hour FROM journal_dirty WHERE (hour + 1) * %d <= ? ORDER BY hour DESC`, db.rollHour},
		{`SELECT DISTINCT start / 24 / %[1]d FROM journal_rollups h WHERE merchant = '' AND hours = 1
			AND (start / 24 / %[1]d + 1) * 24 * %[1]d <= ? AND NOT EXISTS (SELECT 1 FROM journal_rollups d
			WHERE d.merchant = '' AND d.hours = 24 AND d.start = h.start / 24 / %[1]d * 24 * %[1]d) ORDER BY 1 DESC`, db.rollDay},
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
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback() // nothing after a commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
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
	if err := db.replaceRollups(ctx, tx, span{start, start + hourLen}, 1, counts); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, db.query(`DELETE FROM journal_rollups WHERE hours = 24 AND start = ?`), roundDown(start, dayLen)); err != nil {
		return err
	}
	for writer, n := range marks {
		if _, err := tx.ExecContext(ctx, db.query(`DELETE FROM journal_dirty WHERE hour = ? AND writer = ? AND n = ?`), hour, writer, n); err != nil {
			return err
		}
	}
	return nil
}

// readMarks reads who has marked an hour as dirty, and how often.
func readMarks(ctx context.Context, tx *sql.Tx, text string, hour int64) (map[string]int64, error) {
	rows, err := tx.QueryContext(ctx, text, hour)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	marks := map[string]int64{}
	for rows.Next() {
		var writer string
		var n int64
		if err := rows.Scan(&writer, &n); err != nil {
			return nil, err
		}
		marks[writer] = n
	}
	return marks, rows.Err()
}

// countHour counts the records of an hour, for each merchant and for all of them. For all there are always counts.
func (db *database) countHour(ctx context.Context, tx *sql.Tx, hour int64) (map[string]tallies, error) {
	begin, end := hour*hourLen, (hour+1)*hourLen
	rows, err := tx.QueryContext(ctx, db.query(`SELECT merchant, scheme, bin, acs, version, reason, bucket, status, result, trans_status,
		challenged, count(*) FROM journal_records WHERE `+countedKinds+` AND made >= ? AND made < ? AND -made <= ? AND -made > ?
		GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11`), begin, end, -begin, -end)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := map[string]tallies{"": {}}
	for rows.Next() {
		var merchant, scheme, bin, acs, version, reason string
		var e ending
		var n int64
		if err := rows.Scan(&merchant, &scheme, &bin, &acs, &version, &reason, &e.bucket, &e.status, &e.result, &e.transStatus,
			&e.challenged, &n); err != nil {
			return nil, err
		}
		if all[merchant] == nil {
			all[merchant] = tallies{}
		}
		for by, value := range map[string]string{"": "", "scheme": scheme, "issuer": bin, "acs": acs, "version": version, "reason": reason} {
			all[""].of(by, value).add(&e, n)
			if merchant != "" {
				all[merchant].of(by, value).add(&e, n)
			}
		}
		all[""].of("merchant", merchant).add(&e, n)
	}
	return all, rows.Err()
}

// replaceRollups has counts take the place of the rollups of a time.
func (db *database) replaceRollups(ctx context.Context, tx *sql.Tx, s span, hours int64, counts map[string]tallies) error {
	if _, err := tx.ExecContext(ctx, db.query(`DELETE FROM journal_rollups WHERE start >= ? AND start < ? AND hours = ?`), s.begin, s.end, hours); err != nil {
		return err
	}
	var rows [][]any
	for merchant, t := range counts {
		rows = append(rows, []any{s.begin, hours, merchant, t.encode()})
	}
	if len(rows) == 0 {
		return nil // a day whose hours count nothing
	}
	return db.putRows(ctx, tx, `INSERT INTO journal_rollups (start, hours, merchant, counts) `, rows, "")
}

// rollDay makes the rollups of a day out of those of its hours, unless one of them is dirty.
func (db *database) rollDay(ctx context.Context, tx *sql.Tx, day int64) error {
	start := day * dayLen
	dirty, err := readNumbers(ctx, tx, db.query(`SELECT hour FROM journal_dirty WHERE hour >= ? AND hour < ?`), 24*day, 24*day+24)
	if err != nil || len(dirty) > 0 {
		return err
	}
	rows, err := tx.QueryContext(ctx, db.query(`SELECT merchant, counts FROM journal_rollups WHERE start >= ? AND start < ? AND hours = 1`), start, start+dayLen)
	if err != nil {
		return err
	}
	defer rows.Close()
	all := map[string]tallies{}
	for rows.Next() {
		var merchant string
		var counts []byte
		if err := rows.Scan(&merchant, &counts); err != nil {
			return err
		}
		if all[merchant] == nil {
			all[merchant] = tallies{}
		}
		if err := decodeTallies(counts, func(string) bool { return true }, all[merchant].of); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return db.replaceRollups(ctx, tx, span{start, start + dayLen}, 24, all)
}

// markDirty notes that records of hours have changed.
func (db *database) markDirty(ctx context.Context, tx *sql.Tx, hours map[int64]bool) error {
	for hour := range hours {
		if _, err := tx.ExecContext(ctx, db.query(`INSERT INTO journal_dirty (hour, writer, n) VALUES (?, ?, 1)
			ON CONFLICT (hour, writer) DO UPDATE SET n = journal_dirty.n + 1`), hour, db.writer); err != nil {
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
	_, err := tx.ExecContext(ctx, fmt.Sprintf(`DELETE FROM journal_rollups
		WHERE hours = 1 AND start / %[1]d IN (SELECT hour FROM journal_dirty WHERE writer = 'erase')
		OR hours = 24 AND start / %[1]d / 24 IN (SELECT hour / 24 FROM journal_dirty WHERE writer = 'erase')`, hourLen))
	return err
}
