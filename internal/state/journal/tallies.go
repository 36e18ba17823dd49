package journal

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// An ending is all that counts of the end of an authentication.
type ending struct {
	bucket, challenged          int
	status, result, transStatus string
}

// add counts authentications that ended alike.
func (r *Rollup) add(e *ending, n int64) {
	isChallenged := e.challenged == 1
	r.All += n
	if e.result == "authenticated" && isChallenged {
		r.Results[AfterChallenge] += n
	} else {
		r.Results[e.result] += n
	}
	if e.bucket > 0 {
		r.addTimes(e.bucket, n)
	}
	switch {
	case e.status == "completed" && (e.transStatus == "Y" || e.transStatus == "A"):
		r.Successful += n
	case e.status == "failed" && !isChallenged:
		r.Failed += n
	}
	if !isChallenged {
		return
	}
	r.Challenged += n
	if e.status == "expired" {
		r.Lost += n
	}
	if e.result == "abandoned" {
		r.Abandoned += n
	}
}

// tallies are the counts of a time and a merchant: by what they are made, then by value.
type tallies map[string]map[string]*Rollup

// of returns the count of a value.
func (t tallies) of(by, value string) *Rollup {
	values := t[by]
	if values == nil {
		values = map[string]*Rollup{}
		t[by] = values
	}
	if values[value] == nil {
		values[value] = NewRollup()
	}
	return values[value]
}

// encode writes tallies as journal_rollups has them. Numbers are varints, texts come after their length. First are the
// names of all results, then the parts: what they are by, their length, and for each value its numbers.
func (t tallies) encode() []byte {
	index := map[string]uint64{}
	for _, values := range t {
		for _, r := range values {
			for name := range r.Results {
				index[name] = 0
			}
		}
	}
	names := sortedKeys(index)
	for i, name := range names {
		index[name] = uint64(i)
	}
	out := binary.AppendUvarint(nil, uint64(len(names)))
	for _, name := range names {
		out = appendText(out, name)
	}
	for _, by := range slices.Sorted(maps.Keys(t)) {
		values := t[by]
		part := binary.AppendUvarint(nil, uint64(len(values)))
		for _, value := range slices.Sorted(maps.Keys(values)) {
			part = values[value].append(appendText(part, value), index)
		}
		out = appendText(appendText(out, by), part)
	}
	return out
}

// appendText appends a text behind its length.
func appendText[T string | []byte](to []byte, text T) []byte {
	return append(binary.AppendUvarint(to, uint64(len(text))), text...)
}

// counts are the plain numbers of a rollup, in the order in which they are written.
func (r *Rollup) counts() []*int64 {
	return []*int64{&r.All, &r.Challenged, &r.Successful, &r.Failed, &r.Lost, &r.Abandoned}
}

// append writes the numbers of a rollup.
func (r *Rollup) append(to []byte, index map[string]uint64) []byte {
	for _, n := range r.counts() {
		to = binary.AppendUvarint(to, uint64(*n))
	}
	to = binary.AppendUvarint(to, uint64(len(r.Results)))
	for _, name := range slices.Sorted(maps.Keys(r.Results)) {
		to = binary.AppendUvarint(binary.AppendUvarint(to, index[name]), uint64(r.Results[name]))
	}
	used := 0
	for _, n := range r.Times {
		if n > 0 {
			used++
		}
	}
	to = binary.AppendUvarint(to, uint64(used))
	for bucket, n := range r.Times {
		if n > 0 {
			to = binary.AppendUvarint(binary.AppendUvarint(to, uint64(bucket)), uint64(n))
		}
	}
	return to
}

var errTallies = errors.New(
	"journal: a row of journal_rollups is damaged: delete it, and mark its hour in journal_dirty")

// decodeTallies adds the counts of those parts that are wanted to what of returns for each value.
func decodeTallies(in []byte, isWanted func(by string) bool, of func(by, value string) *Rollup) error {
	r := reader{in: in}
	names := make([]string, r.length())
	for i := range names {
		names[i] = r.text()
	}
	for len(r.in) > 0 && !r.isDamaged {
		by := r.text()
		part := reader{in: r.bytes()}
		if r.isDamaged || !isWanted(by) {
			continue
		}
		for range part.length() {
			part.addTo(of(by, part.text()), names)
		}
		if part.isDamaged || len(part.in) > 0 {
			return errTallies
		}
	}
	if r.isDamaged {
		return errTallies
	}
	return nil
}

// A reader reads what tallies are written as. When something is missing, it is damaged and returns zeros.
type reader struct {
	in        []byte
	isDamaged bool
}

func (r *reader) number() int64 {
	n, length := binary.Uvarint(r.in)
	if length <= 0 || n > 1<<62 {
		r.isDamaged, r.in = true, nil
		return 0
	}
	r.in = r.in[length:]
	return int64(n)
}

// length reads how many things follow, each of at least a byte.
func (r *reader) length() int {
	n := r.number()
	if n > int64(len(r.in)) {
		r.isDamaged, r.in = true, nil
		return 0
	}
	return int(n)
}

// bytes reads a length and as many bytes.
func (r *reader) bytes() []byte {
	n := r.length()
	b := r.in[:n]
	r.in = r.in[n:]
	return b
}

func (r *reader) text() string { return string(r.bytes()) }

// addTo reads the numbers of a rollup and adds them to another.
func (r *reader) addTo(to *Rollup, names []string) {
	for _, n := range to.counts() {
		*n += r.number()
	}
	for range r.length() {
		i, n := r.number(), r.number()
		if i >= int64(len(names)) {
			r.isDamaged = true
			return
		}
		to.Results[names[i]] += n
	}
	for range r.length() {
		bucket, n := r.number(), r.number()
		if bucket >= buckets {
			r.isDamaged = true
			return
		}
		to.addTimes(int(bucket), n)
	}
}

// What does not keep a rule of its scheme is counted in a part of the tallies that has a value for each merchant.
// Results of that value have the number of authentications by a name of the rule and the scheme; that of no rule is the
// number of all. So the rule is written once in a row, and the part is added up as any other.

// byUnkept is what that part is by.
const byUnkept = "unkept"

// text returns a rule as the column unkept and the names in tallies have it. No member of a rule
// has a space or a comma.
func (r Rule) text() string { return strings.Join([]string{r.Rule, r.Since, r.Until, r.Element}, " ") }

// unkeptText returns the column unkept of a record, each rule once.
func unkeptText(rules []Rule) string {
	var texts []string
	for _, r := range rules {
		if text := r.text(); strings.Count(text, " ") == 3 && !strings.Contains(text, ",") && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	slices.Sort(texts)
	return strings.Join(texts, ",")
}

// unkeptName names a rule, given as text, of a scheme.
func unkeptName(rule, scheme string) string { return rule + " " + scheme }

// parseUnkeptName returns the rule and the scheme of a name.
func parseUnkeptName(name string) (Rule, string) {
	part := append(strings.SplitN(name, " ", 5), "", "", "", "", "")
	return Rule{Rule: part[0], Since: part[1], Until: part[2], Element: part[3]}, part[4]
}

// addNames counts authentications of a scheme, and those rules that the column unkept has.
func addNames(to map[string]int64, scheme, unkept string, n int64) {
	to[unkeptName(Rule{}.text(), scheme)] += n
	for rule := range strings.SplitSeq(unkept, ",") {
		if rule != "" {
			to[unkeptName(rule, scheme)] += n
		}
	}
}

// An unkeptKey names the sum of a merchant, a scheme and a rule.
type unkeptKey struct{ merchant, name string }

// An unkeptSum counts authentications.
type unkeptSum struct {
	n       int64
	newest  int64 // the begin of the last hour or day that counts one, in milliseconds
	last    int64 // when the last one was created; 0 before that is searched for
	example string
}

// unkeptSums are the sums of a count.
type unkeptSums map[unkeptKey]*unkeptSum

// add adds the numbers of a merchant in an hour or a day that begins at a time.
func (u unkeptSums) add(merchant string, names map[string]int64, at int64) {
	for name, n := range names {
		key := unkeptKey{merchant, name}
		if u[key] == nil {
			u[key] = &unkeptSum{}
		}
		u[key].n, u[key].newest = u[key].n+n, max(u[key].newest, at)
	}
}

// rules returns the rules that are not kept, with the number of all beside each.
func (u unkeptSums) rules() []UnkeptRule {
	all := []UnkeptRule{}
	for key, sum := range u {
		rule, scheme := parseUnkeptName(key.name)
		if rule == (Rule{}) {
			continue
		}
		all = append(all, UnkeptRule{
			Merchant: key.merchant, Scheme: scheme, Rule: rule, Requests: sum.n,
			All:  u[unkeptKey{key.merchant, unkeptName(Rule{}.text(), scheme)}].n,
			Last: time.UnixMilli(cmp.Or(sum.last, sum.newest)).UTC(), Example: sum.example,
		})
	}
	slices.SortFunc(all, func(a, b UnkeptRule) int {
		return cmp.Or(strings.Compare(a.Merchant, b.Merchant), strings.Compare(a.Scheme, b.Scheme),
			strings.Compare(a.text(), b.text()))
	})
	return all
}

// countUnkept adds the counts of a database to those of later ones.
func (db *database) countUnkept(ctx context.Context, q CountQuery, all unkeptSums) error {
	tx, err := db.beginCount(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback() // a transaction that only reads has nothing to commit
	here := unkeptSums{}
	c := counter{db: db, tx: tx, by: byUnkept, query: q, unkept: here}
	if err := c.run(ctx, c.addUnkeptRecords); err != nil {
		return err
	}
	for key, sum := range here {
		if all[key] == nil {
			if err := c.findLast(ctx, key, sum); err != nil {
				return err
			}
			all[key] = sum
			continue
		}
		all[key].n += sum.n
	}
	return nil
}

// addUnkeptRecords counts the records of a time.
func (c *counter) addUnkeptRecords(ctx context.Context, s span) error {
	condition, args := c.ofTime(s)
	rows, err := c.tx.QueryContext(ctx, c.db.query(fmt.Sprintf(`SELECT made / %d, merchant, scheme, unkept, count(*)
		FROM journal_records WHERE %s AND made >= ? AND made < ? AND %s GROUP BY 1, 2, 3, 4`, hourLen, countedKinds,
		condition)), args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var hour, n int64
		var merchant, scheme, unkept string
		if err := rows.Scan(&hour, &merchant, &scheme, &unkept, &n); err != nil {
			return err
		}
		names := map[string]int64{}
		addNames(names, scheme, unkept, n)
		c.unkept.add(merchant, names, hour*hourLen)
	}
	return rows.Err()
}

// findLast finds the last record of a sum. It reads no record before the hour, or the day, that is known to have it.
func (c *counter) findLast(ctx context.Context, key unkeptKey, sum *unkeptSum) error {
	rule, scheme := parseUnkeptName(key.name)
	if rule == (Rule{}) {
		return nil
	}
	end := sum.newest + hourLen
	if sum.newest%dayLen == 0 {
		end = sum.newest + dayLen
	}
	q := Query{
		Merchant: key.merchant, Scheme: scheme, unkept: &key,
		From: time.UnixMilli(max(sum.newest, c.query.From.UnixMilli())), To: time.UnixMilli(min(end, c.query.To.UnixMilli())),
	}
	find := coarseSearch{db: c.db, tx: c.tx, query: q, keys: q.coarseKeys(), limit: 1}
	if err := find.run(ctx); err != nil || len(find.found) == 0 {
		return err // without any its day is being removed
	}
	row := find.found[0].row()
	sum.last, sum.example = row[0].(int64), row[1].(string)
	return nil
}
