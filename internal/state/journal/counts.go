package journal

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"
)

// byColumns are the columns by whose values authentications are counted, by the names of [CountQuery].
// All have one value of "".
var byColumns = map[string]string{
	"": "''", "scheme": "scheme", "issuer": "bin", "acs": "acs", "version": "version", "reason": "reason",
	"merchant": "merchant",
}

// countedKinds is the condition of records that are counted: authentications with an AReq. Of those that never had one,
// the browser has not come, never came or told too little, or no directory has the card.
const countedKinds = `kind NOT IN ('refused', 'v1') AND NOT (trans_status = '' AND
	(status IN ('requires_browser', 'cancelled', 'expired') OR result IN ('not_enrolled', 'unavailable')))`

// count counts authentications.
func (db *database) count(ctx context.Context, q CountQuery) ([]Rollup, error) {
	by := q.By
	if by == "merchant" && q.Merchant != "" {
		by = ""
	}
	if byColumns[by] == "" {
		return nil, fmt.Errorf("journal: there are no counts by %q", by)
	}
	tx, err := db.beginCount(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() // it has written nothing
	c := counter{db: db, tx: tx, by: by, query: q}
	if err := c.run(ctx, c.addRecords); err != nil {
		return nil, err
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

// beginCount begins a transaction all of whose statements see the same.
func (db *database) beginCount(ctx context.Context) (*sql.Tx, error) {
	return db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
}

// A counter adds up what one count is made of.
type counter struct {
	db     *database
	tx     *sql.Tx
	by     string
	query  CountQuery
	sums   map[sumKey]*Rollup
	unkept unkeptSums // what a count by byUnkept adds to, in place of sums
	bad    []span     // whose rollups are not as they were written
}

// run adds all up, and again without the rollups that are not as they were written, of which it marks the hours.
func (c *counter) run(ctx context.Context, addRecords func(context.Context, span) error) error {
	for {
		known := len(c.bad)
		c.sums = map[sumKey]*Rollup{}
		clear(c.unkept)
		if err := c.addAll(ctx, addRecords); err != nil {
			return err
		}
		if len(c.bad) == known {
			break
		}
	}
	if len(c.bad) == 0 {
		return nil
	}
	return c.db.inTx(ctx, func(tx *sql.Tx) error { return c.db.markBad(ctx, tx, c.bad) })
}

// addAll adds the rollups of the blocks, days and hours of the query, and what addRecords adds of the rest.
func (c *counter) addAll(ctx context.Context, addRecords func(context.Context, span) error) error {
	d, err := c.divide(ctx, c.query)
	if err != nil {
		return err
	}
	of, names := ofMerchants(c.query.Merchant, c.query.within)
	addDays := func(days int64) func(context.Context, span) error {
		return func(ctx context.Context, s span) error {
			return c.addRollups(ctx, dayRollups+of+` AND part = ? AND days = ? AND start >= ? AND start < ?`,
				slices.Concat(names, []any{c.by, days, s.begin, s.end})...)
		}
	}
	for _, part := range []struct {
		spans []span
		add   func(context.Context, span) error
	}{
		{d.blocks, addDays(blockDays)},
		{d.days, addDays(1)},
		{d.hours, func(ctx context.Context, s span) error {
			return c.addRollups(ctx, hourRollups+of+` AND start >= ? AND start < ?`,
				slices.Concat(names, []any{s.begin, s.end})...)
		}},
		{d.records, addRecords},
	} {
		for _, s := range part.spans {
			if err := part.add(ctx, s); err != nil {
				return err
			}
		}
	}
	return nil
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

// A division is the time of a query: blocks, days and hours that are counted by rollups, and the rest.
type division struct{ blocks, days, hours, records []span }

// divide divides the time of a query. Only counts of the whole time use blocks.
func (c *counter) divide(ctx context.Context, q CountQuery) (d division, err error) {
	all := span{q.From.UnixMilli(), q.To.UnixMilli()}
	whole := span{roundUp(all.begin, hourLen), roundDown(all.end, hourLen)}
	if whole.begin >= whole.end {
		return division{records: joinSpans([]span{all})}, nil
	}
	dirty, err := readNumbers(ctx, c.tx,
		c.db.query(`SELECT DISTINCT hour FROM journal_dirty WHERE hour >= ? AND hour < ? ORDER BY hour`),
		whole.begin/hourLen, whole.end/hourLen)
	if err != nil {
		return d, err
	}
	archived, err := c.db.archivedDays(ctx, c.tx)
	if err != nil {
		return d, err
	}
	var ofHours []span
	for _, hour := range dirty {
		if archived[dayOf(time.UnixMilli(hour*hourLen))] {
			continue // its rollups count records that are in files
		}
		ofHours = append(ofHours, span{hour * hourLen, (hour + 1) * hourLen})
	}
	for _, s := range c.bad {
		ofHours = append(ofHours, span{max(s.begin, whole.begin), min(s.end, whole.end)})
	}
	d.records = joinSpans(append([]span{{all.begin, whole.begin}, {whole.end, all.end}}, ofHours...))
	if q.Whole && c.unkept == nil {
		if d.blocks, err = c.readCounted(ctx, blockDays, whole, ofHours); err != nil {
			return d, err
		}
	}
	if !q.Hourly {
		if d.days, err = c.readCounted(ctx, 1, whole, slices.Concat(ofHours, d.blocks)); err != nil {
			return d, err
		}
	}
	at := whole.begin
	for _, s := range append(joinSpans(slices.Concat(ofHours, d.days, d.blocks)), span{whole.end, whole.end}) {
		d.hours = append(d.hours, span{at, s.begin})
		at = s.end
	}
	d.hours = joinSpans(d.hours)
	return d, nil
}

// readCounted returns the days, or the blocks of so many days, that have rollups, lie within a time, and do not overlap
// with other spans.
func (c *counter) readCounted(ctx context.Context, days int64, within span, others []span) (counted []span, err error) {
	length := days * dayLen
	isTaken := map[int64]bool{}
	for _, s := range others {
		for at := roundDown(s.begin, length); at < s.end; at += length {
			isTaken[at] = true
		}
	}
	starts, err := readNumbers(ctx, c.tx, c.db.query(`SELECT start FROM journal_days
		WHERE merchant = '' AND part = '' AND days = ? AND start >= ? AND start < ? ORDER BY start`), days, within.begin,
		within.end-length+1)
	for _, start := range starts {
		if !isTaken[start] {
			counted = append(counted, span{start, start + length})
		}
	}
	return joinSpans(counted), err
}

// addRollups adds the rollups that a statement selects, of hours or of days.
func (c *counter) addRollups(ctx context.Context, text string, args ...any) error {
	all, bad, err := c.db.readRollups(ctx, c.tx, text, args...)
	c.bad = append(c.bad, bad...)
	if err != nil {
		return err
	}
	for i := range all {
		r := &all[i]
		of := func(_, value string) *Rollup { return c.sum(r.start, value) }
		read := tallies{}
		if c.unkept != nil {
			of = read.of
		}
		if err := decodeTallies(r.counts, func(by string) bool { return by == c.by }, of); err != nil {
			return err
		}
		for merchant, rollup := range read[byUnkept] {
			c.unkept.add(merchant, rollup.Results, r.start)
		}
	}
	return nil
}

// ofTime returns the condition of records of a time and of the merchants of the query. The first two arguments are the
// ends of the time.
func (c *counter) ofTime(s span) (condition string, args []any) {
	condition, args = `-made <= ? AND -made > ?`, []any{s.begin, s.end, -s.begin, -s.end}
	if isNarrowed(c.query.Merchant, c.query.within) {
		of, names := ofMerchants(c.query.Merchant, c.query.within)
		condition, args = condition+` AND `+of, append(args, names...)
	}
	return condition, args
}

// addRecords counts the records of a time.
func (c *counter) addRecords(ctx context.Context, s span) error {
	condition, args := c.ofTime(s)
	rows, err := c.tx.QueryContext(ctx,
		c.db.query(fmt.Sprintf(`SELECT made / %d, %s, bucket, status, result, trans_status, challenged, count(*)
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
