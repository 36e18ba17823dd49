package journal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Postings are how a search finds records by a value that many of them have, such as a status. A row of
// journal_postings says at which milliseconds of an hour the records with a value were made. They are made together
// with the rollups of an hour, in one transaction, so those of an hour that is not in journal_dirty are whole. A search
// intersects the postings of all of its values, hour by hour, and reads the records that are left. Hours that are in
// journal_dirty it reads by time.

// coarse are the columns of journal_records that have postings.
var coarse = []string{"merchant", "scheme", "acs", "status", "result", "reason"}

// postingKey names a value of a column.
func postingKey(column, value string) int64 {
	sum := sha256.Sum256([]byte(column + " " + value))
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// unkeptPosting is the value of those that do not keep a rule, in a column that only postings have.
func unkeptPosting(key unkeptKey) string { return key.name + " " + key.merchant }

// isCoarse reports whether a query is answered by postings: it has nothing that few records have, and something that
// has postings.
func (q *Query) isCoarse() bool {
	return q.ID == "" && q.Reference == "" && q.Card == "" && q.Last4 == "" &&
		(len(q.coarseKeys()) > 0 || len(q.within) > 0)
}

// coarseKeys returns the keys of the postings that a query intersects.
func (q *Query) coarseKeys() (keys []int64) {
	for i, value := range []string{q.Merchant, q.Scheme, q.ACS, q.Status, q.Result, q.Reason} {
		if value != "" {
			keys = append(keys, postingKey(coarse[i], value))
		}
	}
	if q.unkept != nil {
		keys = append(keys, postingKey("unkept", unkeptPosting(*q.unkept)))
	}
	return keys
}

// postings are the times of an hour, in milliseconds since it began and each once, by key.
type postings map[int64][]int64

// add adds a time, which is not before those that were added.
func (p postings) add(key, at int64) {
	if all := p[key]; len(all) == 0 || all[len(all)-1] != at {
		p[key] = append(all, at)
	}
}

// encodeTimes writes times as varints, each without the one before it.
func encodeTimes(times []int64) (out []byte) {
	last := int64(0)
	for _, at := range times {
		out = binary.AppendUvarint(out, uint64(at-last))
		last = at
	}
	return out
}

// decodeTimes reads times, and reports whether they are times of an hour.
func decodeTimes(in []byte) (times []int64, ok bool) {
	r, at := reader{in: in}, int64(0)
	for len(r.in) > 0 {
		at += r.number()
		if at >= hourLen || r.isDamaged {
			return nil, false
		}
		times = append(times, at)
	}
	return times, !r.isDamaged
}

// postingMAC returns the MAC of a row of journal_postings.
func (db *database) postingMAC(start, key int64, at []byte) []byte {
	return db.ours.mac(postingText(start, key, at))
}

// postingText is what the MAC of a row of journal_postings is made over.
func postingText(start, key int64, at []byte) []byte {
	return fmt.Appendf(nil, "threeds journal posting %d %d %s", start, key, at)
}

// readPostings makes the postings of an hour out of its records.
func (db *database) readPostings(ctx context.Context, from querier, start int64) (postings, error) {
	rows, err := from.QueryContext(ctx, db.query(`SELECT made, `+strings.Join(coarse, ", ")+`, unkept FROM journal_records
		WHERE made >= ? AND made < ? AND -made <= ? AND -made > ? ORDER BY -made DESC`), start, start+hourLen, -start,
		-(start + hourLen))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	all := postings{}
	values := make([]string, len(coarse))
	var made int64
	var unkept string
	places := []any{&made}
	for i := range values {
		places = append(places, &values[i])
	}
	places = append(places, &unkept)
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			return nil, err
		}
		for i, value := range values {
			if value != "" {
				all.add(postingKey(coarse[i], value), made-start)
			}
		}
		for rule := range strings.SplitSeq(unkept, ",") {
			if rule != "" {
				all.add(postingKey("unkept", unkeptPosting(unkeptKey{values[0], unkeptName(rule, values[1])})), made-start)
			}
		}
	}
	return all, rows.Err()
}

// putPostings replaces the postings of an hour.
func (db *database) putPostings(ctx context.Context, tx *sql.Tx, start int64) error {
	all, err := db.readPostings(ctx, tx, start)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, db.query(`DELETE FROM journal_postings WHERE made = ?`), start); err != nil {
		return err
	}
	rows := make([][]any, 0, len(all))
	for key, times := range all {
		at := encodeTimes(times)
		rows = append(rows, []any{start, key, at, db.postingMAC(start, key, at)})
	}
	if len(rows) == 0 {
		return nil
	}
	slices.SortFunc(rows, func(a, b []any) int { return cmp.Compare(a[1].(int64), b[1].(int64)) })
	return db.putRows(ctx, tx, `INSERT INTO journal_postings (made, key, at, mac) `, rows, "")
}

// A coarseSearch is a search by postings under way. It goes from the newest time to the oldest.
type coarseSearch struct {
	db    *database
	tx    *sql.Tx
	query Query
	keys  []int64
	any   []int64 // any are the keys of the merchants of a scope: a record has one of them. None: there is no scope.
	limit int
	found []recordValues
	read  int // read is how many records were read from the table.
}

// searchCoarse returns the records of a query that has keys.
func (db *database) searchCoarse(ctx context.Context, q Query, limit int) ([]recordValues, error) {
	tx, err := db.beginCount(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() // a transaction that only reads has nothing to commit
	s := coarseSearch{db: db, tx: tx, query: q, keys: q.coarseKeys(), limit: limit}
	for _, merchant := range q.within {
		s.any = append(s.any, postingKey("merchant", merchant))
	}
	err = s.run(ctx)
	return s.found, err
}

// run finds the records.
func (s *coarseSearch) run(ctx context.Context) error {
	all := span{0, endOfTime}
	if !s.query.From.IsZero() {
		all.begin = s.query.From.UnixMilli()
	}
	if !s.query.To.IsZero() {
		all.end = s.query.To.UnixMilli()
	}
	if made, _, ok := parseCursor(s.query.Cursor); ok {
		all.end = min(all.end, made+1)
	}
	s.query.byTime = true
	dirty, err := readNumbers(ctx, s.tx,
		s.db.query(`SELECT DISTINCT hour FROM journal_dirty WHERE hour >= ? AND hour <= ?`),
		all.begin/hourLen, all.end/hourLen)
	if err != nil {
		return err
	}
	var fresh []span
	for _, hour := range dirty {
		fresh = append(fresh, span{hour * hourLen, (hour + 1) * hourLen})
	}
	at := all.end
	for _, part := range slices.Backward(joinSpans(fresh)) {
		if err := s.byPostings(ctx, span{max(part.end, all.begin), at}); err != nil {
			return err
		}
		if err := s.byTime(ctx, span{max(part.begin, all.begin), min(part.end, at)}); err != nil {
			return err
		}
		at = min(part.begin, at)
	}
	return s.byPostings(ctx, span{all.begin, at})
}

// isDone reports whether there are as many records as were wanted, or a span has nothing.
func (s *coarseSearch) isDone(in span) bool { return len(s.found) >= s.limit || in.begin >= in.end }

// byTime reads the records of a time.
func (s *coarseSearch) byTime(ctx context.Context, in span) error {
	if s.isDone(in) {
		return nil
	}
	return s.readRecords(ctx, in, "1 = 1")
}

// readRecords adds the records of a time that fit the query and one more condition.
func (s *coarseSearch) readRecords(ctx context.Context, in span, condition string, args ...any) error {
	q := s.query
	q.From, q.To = time.UnixMilli(in.begin), time.UnixMilli(in.end)
	of, all := s.db.where(q)
	rows, err := readRows(ctx, s.tx, (*recordValues).fields, s.db.query(`SELECT `+strings.Join(recordColumns, ", ")+
		` FROM journal_records WHERE `+of+` AND `+condition+` ORDER BY -made, id DESC LIMIT ?`),
		slices.Concat(all, args, []any{s.limit - len(s.found)})...)
	s.found, s.read = append(s.found, rows...), s.read+len(rows)
	return err
}

// atOnce is how many times of postings are looked up with one statement.
const atOnce = 500

// byPostings reads the records of a time that postings name.
func (s *coarseSearch) byPostings(ctx context.Context, in span) error {
	for n := 2 * s.limit; !s.isDone(in); n = min(4*n, atOnce) {
		times, rest, err := s.timesWithin(ctx, in, min(n, atOnce))
		if err != nil {
			return err
		}
		if len(times) > 0 {
			args := make([]any, len(times))
			for i, at := range times {
				args[i] = -at
			}
			within := span{times[len(times)-1], times[0] + 1}
			if err := s.readRecords(ctx, within, `-made IN (`+marks(len(times))+`)`, args...); err != nil {
				return err
			}
		}
		if rest.isChanged {
			if err := s.byTime(ctx, span{max(in.begin, rest.end-hourLen), min(in.end, rest.end)}); err != nil {
				return err
			}
			rest.end -= hourLen
		}
		in.end = min(in.end, rest.end)
	}
	return nil
}

// A searchRest is what a look at postings has left to be looked at.
type searchRest struct {
	end       int64 // of the time that is left
	isChanged bool  // its last hour has postings that are not as they were written
}

// hoursAtOnce is how many hours of postings one statement returns. PostgreSQL sends all that a statement returns, also
// when nobody reads it to the end.
const hoursAtOnce = 240

// timesWithin returns up to n times, the newest first, that the postings of all keys have, and of any merchant of the
// scope, and what is left before them. It asks for each merchant in turn, and never for what is older than the n times
// that it has.
func (s *coarseSearch) timesWithin(ctx context.Context, in span, n int) (times []int64, rest searchRest, err error) {
	if len(s.any) == 0 {
		return s.intersect(ctx, s.keys, in, n)
	}
	rest.end = in.begin
	for _, key := range s.any {
		some, left, err := s.intersect(ctx, append([]int64{key}, s.keys...), span{rest.end, in.end}, n)
		if err != nil {
			return nil, rest, err
		}
		if left.end > rest.end {
			rest = left
		}
		times = append(times, some...)
		slices.SortFunc(times, func(a, b int64) int { return cmp.Compare(b, a) })
		times = slices.Compact(times)
		if len(times) >= n && times[n-1] >= rest.end {
			times, rest = times[:n], searchRest{end: times[n-1]}
		}
		times = slices.DeleteFunc(times, func(at int64) bool { return at < rest.end })
	}
	return times, rest, nil
}

// intersect returns up to n times, the newest first, that the postings of all keys have, and what is left before them.
func (s *coarseSearch) intersect(ctx context.Context, keys []int64, in span,
	n int) (times []int64, rest searchRest, err error) {
	columns, joins, args := "p0.made", "", []any{}
	for i, key := range keys {
		columns += fmt.Sprintf(", p%d.at, p%[1]d.mac", i)
		if i > 0 {
			joins += fmt.Sprintf(" JOIN journal_postings p%d ON p%[1]d.made = p0.made AND p%[1]d.key = ?", i)
			args = append(args, key)
		}
	}
	rows, err := s.tx.QueryContext(ctx, s.db.query(`SELECT `+columns+` FROM journal_postings p0`+joins+
		` WHERE p0.key = ? AND p0.made > ? AND p0.made < ? ORDER BY p0.made DESC LIMIT ?`),
		append(args, keys[0], in.begin-hourLen, in.end, hoursAtOnce)...)
	if err != nil {
		return nil, rest, err
	}
	defer rows.Close()
	var start int64
	values, places := make([][]byte, 2*len(keys)), []any{&start}
	for i := range values {
		places = append(places, &values[i])
	}
	hours := 0
	for ; rows.Next(); hours++ {
		if err := rows.Scan(places...); err != nil {
			return nil, rest, err
		}
		common, ok := s.timesOf(keys, start, values)
		if !ok {
			s.db.changed.Add(1)
			return times, searchRest{start + hourLen, true}, nil
		}
		for _, at := range slices.Backward(common) {
			if at += start; at < in.begin || at >= in.end {
				continue
			}
			if times = append(times, at); len(times) == n {
				return times, searchRest{end: at}, nil
			}
		}
	}
	if hours == hoursAtOnce {
		return times, searchRest{end: max(start, in.begin)}, rows.Err()
	}
	return times, searchRest{end: in.begin}, rows.Err()
}

// timesOf returns the times that all rows of an hour have, of which values has times and MAC by turns. It is not ok if
// a row is not as it was written.
func (s *coarseSearch) timesOf(keys []int64, start int64, values [][]byte) (common []int64, ok bool) {
	for i, key := range keys {
		at, mac := values[2*i], values[2*i+1]
		if i > 0 && len(common) == 0 {
			return nil, true // whatever the others say, no record has all values
		}
		if !s.db.ours.isMAC(mac, postingText(start, key, at)) {
			return nil, false
		}
		if i > 0 {
			common, ok = commonTimes(common, at)
		} else {
			common, ok = decodeTimes(at)
		}
		if !ok {
			return nil, false
		}
	}
	return common, true
}

// commonTimes keeps those of some times that encoded ones have, too. It reads these only as far as it has to.
func commonTimes(some []int64, in []byte) (common []int64, ok bool) {
	common = some[:0]
	at := int64(-1)
	for _, want := range some {
		for at < want && len(in) > 0 {
			step, n := binary.Uvarint(in)
			if n <= 0 || step >= uint64(hourLen) {
				return nil, false
			}
			at, in = max(at, 0)+int64(step), in[n:]
		}
		if at == want {
			common = append(common, want)
		}
	}
	return common, true
}
