package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/internal/protocol/transid"
)

// where returns the condition of a query. Word is that of the table: records have more columns than entries.
func (db *database) where(q Query) (string, []any) {
	var all []string
	var args []any
	add := func(condition string, values ...any) {
		all, args = append(all, condition), append(args, values...)
	}
	if id := strings.ToLower(q.ID); id != "" && q.isOwnID {
		from, until, _ := transid.Span(id)
		add("id = ? AND made >= ? AND made < ?", id, from.UnixMilli(), until.UnixMilli())
	} else if id != "" && q.isNamedID {
		add("ds_trans_id = ? AND ds_trans_id <> ''", id)
	} else if id != "" {
		add("(id = ? OR ds_trans_id = ? AND ds_trans_id <> '' OR acs_trans_id = ? AND acs_trans_id <> '')", id, id, id)
	}
	for _, c := range []struct{ column, value string }{
		{"reference", q.Reference}, {"last4", q.Last4}, {"merchant", q.Merchant}, {"scheme", q.Scheme}, {"acs", q.ACS},
		{"status", q.Status}, {"result", q.Result}, {"reason", q.Reason},
	} {
		if c.value != "" {
			add(c.column+" = ?", c.value)
			if c.column == "reference" && !db.numbered { // as its index says, which SQLite else does not use
				add("reference <> ''")
			}
		}
	}
	if len(q.within) > 0 {
		of, names := ofMerchants("", q.within)
		add(of, names...)
	}
	if cards := q.cardHashes(db.ours); cards != nil {
		var hashes []any
		for _, hash := range cards {
			hashes = append(hashes, hash)
		}
		add("card IN ("+marks(len(hashes))+")", hashes...)
	}
	if q.unkept != nil {
		rule, _ := parseUnkeptName(q.unkept.name)
		add(countedKinds+` AND unkept <> '' AND replace(',' || unkept || ',', ?, '') <> ',' || unkept || ','`,
			","+rule.text()+",")
	}
	isOfTimeAlone := q.byTime || q.isOfTimeAlone()
	if q.Begun {
		add("kind NOT IN (?, ?)", string(Refused), string(Version1))
	}
	if !q.From.IsZero() {
		add("made >= ?", q.From.UnixMilli())
		if isOfTimeAlone {
			add("-made <= ?", -q.From.UnixMilli())
		}
	}
	if !q.To.IsZero() {
		add("made < ?", q.To.UnixMilli())
		if isOfTimeAlone {
			add("-made > ?", -q.To.UnixMilli())
		}
	}
	if made, id, ok := parseCursor(q.Cursor); ok {
		add("made <= ? AND (made, id) < (?, ?)", made, made, id) // the first for partitions that are not read at all
		if isOfTimeAlone {
			add("-made >= ?", -made)
		}
	}
	if len(all) == 0 {
		return "1 = 1", nil
	}
	return strings.Join(all, " AND "), args
}

// ParseMonths returns the query for the months from one such as 2026-01 to another, both of them included. Without a
// first month it begins with the one before the current one, or with the last one if that is earlier; without a last
// month it ends with the current one.
func ParseMonths(from, to string, now time.Time) (q BillingQuery, err error) {
	now = now.UTC()
	q.To = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	q.From = q.To.AddDate(0, -1, 0)
	if to != "" {
		if q.To, err = time.Parse(monthForm, to); err != nil {
			return q, errors.New("to: want a month such as 2027-01")
		}
		if q.To.Before(q.From) {
			q.From = q.To
		}
	}
	if from != "" {
		if q.From, err = time.Parse(monthForm, from); err != nil {
			return q, errors.New("from: want a month such as 2027-01")
		}
	}
	if q.To.Before(q.From) {
		return q, errors.New("to: is before from")
	}
	q.To = q.To.AddDate(0, 1, 0)
	return q, nil
}

// A retention says from when on a journal shows what it has. What is older may take a while to be deleted.
type retention struct{ oldest atomic.Int64 } // ms since 1970; 0 shows all

// hideBefore hides what was made on days before a day. Of those that legal holds keep it shows all.
func (r *retention) hideBefore(first time.Time, kept daySet) {
	for day := range kept {
		if at, err := time.Parse(time.DateOnly, day); err == nil && at.Before(first) {
			first = at
		}
	}
	r.oldest.Store(first.UnixMilli())
}

// from returns the later one of a time and that of the retention.
func (r *retention) from(t time.Time) time.Time {
	if oldest := r.oldest.Load(); oldest > 0 && (t.IsZero() || t.UnixMilli() < oldest) {
		return time.UnixMilli(oldest).UTC()
	}
	return t
}

// visible returns a detail, or ErrNotFound if it is hidden.
func (r *retention) visible(d Detail, err error) (Detail, error) {
	if err == nil && d.Created.UnixMilli() < r.oldest.Load() {
		return Detail{}, ErrNotFound
	}
	return d, err
}

// cursorOf is the cursor behind a record.
func cursorOf(r *Record) string { return strconv.FormatInt(r.Created.UnixMilli(), 36) + "." + r.ID }

func parseCursor(cursor string) (made int64, id string, ok bool) {
	first, id, ok := strings.Cut(cursor, ".")
	made, err := strconv.ParseInt(first, 36, 64)
	isStrange := func(r rune) bool { return r <= ' ' || r > '~' } // ids are of printable ASCII
	return made, id, ok && err == nil && !strings.ContainsFunc(id, isStrange)
}

// ValidCursor reports whether a cursor has the form of one.
func ValidCursor(cursor string) bool {
	_, _, ok := parseCursor(cursor)
	return ok
}

// isOfTimeAlone reports whether a query has no condition that an index begins with but that of the time.
func (q *Query) isOfTimeAlone() bool {
	return q.ID == "" && q.Reference == "" && q.Card == "" && q.Last4 == "" && q.Merchant == "" && q.Scheme == "" &&
		q.ACS == "" &&
		q.Status == "" && q.Result == "" && q.Reason == "" && len(q.within) == 0
}

// search returns at most limit records, newest first. An id that has the form of ours is looked for
// in its own time first.
func (db *database) search(ctx context.Context, q Query, limit int) ([]Record, error) {
	if _, _, ok := transid.Span(q.ID); ok {
		q.isOwnID = true
		own, err := db.searchOnce(ctx, q, limit)
		if err != nil {
			return nil, err
		}
		q.isOwnID = false
		if len(own) > 0 {
			q.isNamedID = true
			named, err := db.searchOnce(ctx, q, limit)
			all := append(named, own...) // a request names an id that there is already
			return all[:min(len(all), limit)], err
		}
	}
	return db.searchOnce(ctx, q, limit)
}

// searchText returns the statement of a search.
func (db *database) searchText(q Query, limit int) (string, []any) {
	condition, args := db.where(q)
	order := "made DESC, id DESC"
	if q.isOfTimeAlone() {
		order = "-made, id DESC"
	}
	return db.query(`SELECT ` + strings.Join(recordColumns, ", ") + ` FROM journal_records WHERE ` + condition +
		` ORDER BY ` + order + ` LIMIT ` + strconv.Itoa(limit)), args
}

func (db *database) searchOnce(ctx context.Context, q Query, limit int) (_ []Record, err error) {
	var rows []recordValues
	if q.isCoarse() {
		rows, err = db.searchCoarse(ctx, q, limit)
	} else {
		text, args := db.searchText(q, limit)
		rows, err = readRows(ctx, db, (*recordValues).fields, text, args...)
	}
	if err != nil {
		return nil, err
	}
	all := make([]Record, len(rows))
	for i := range rows {
		all[i] = db.recordOf(&rows[i])
	}
	return all, db.readSealed(ctx, all)
}

// show returns the detail of an id.
func (db *database) show(ctx context.Context, id string) (Detail, error) {
	if from, until, ok := transid.Span(id); ok {
		if d, err := db.showOf(ctx, id, from.UnixMilli(), until.UnixMilli()); !errors.Is(err, ErrNotFound) {
			return d, err
		}
	}
	// It is none of ours: a record without moments, which were written with the record's own time.
	var made int64
	err := db.QueryRowContext(ctx, db.query(`SELECT made FROM journal_records WHERE id = ?`), id).Scan(&made)
	if errors.Is(err, sql.ErrNoRows) {
		err = db.QueryRowContext(ctx,
			db.query(`SELECT id, made FROM journal_records WHERE ds_trans_id = ? AND ds_trans_id <> ''
			AND kind IN (?, ?) ORDER BY made DESC LIMIT 1`), id, string(Refused), string(Version1)).Scan(&id, &made)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return Detail{}, ErrNotFound
	}
	if err != nil {
		return Detail{}, err
	}
	begin, end := spanOfDay(time.UnixMilli(made))
	return db.showOf(ctx, id, begin, end)
}

// hasStep reports whether steps have one of the same name and time.
func hasStep(steps []Step, s Step) bool {
	return slices.ContainsFunc(steps, func(o Step) bool { return o.Step == s.Step && o.At.Equal(s.At) })
}

// showOf returns the detail of an id out of the entries of a time.
func (db *database) showOf(ctx context.Context, id string, begin, end int64) (d Detail, err error) {
	entries, err := db.readEntries(ctx, id, begin, end)
	if err != nil {
		return d, err
	}
	return detailOf(entries), nil
}

// detailOf returns the detail that the entries of an authentication tell.
func detailOf(entries []Entry) (d Detail) {
	slices.SortStableFunc(entries, func(a, b Entry) int { return orderOf(a.Kind) - orderOf(b.Kind) })
	newest := -1
	var claimed []Step // the answer has them, too
	for _, e := range entries {
		if rank := rankOf(e.Kind); rank >= newest {
			d.Record, newest = e.Record, max(rank, 0)
		}
		if e.Kind == Answered {
			e.Steps = slices.DeleteFunc(e.Steps, func(s Step) bool { return hasStep(claimed, s) })
		}
		if e.Kind == Claimed {
			claimed = e.Steps
		}
		d.Steps = append(d.Steps, e.Steps...)
	}
	slices.SortStableFunc(d.Steps, func(a, b Step) int { return a.At.Compare(b.At) })
	for i := range d.Steps {
		d.Steps[i].MS = d.Steps[i].At.Sub(d.Created).Milliseconds()
	}
	return d
}

// readEntries returns the entries of an id in a time, with what stands beside them. It
// returns ErrNotFound if there is none. What is not as it was written is left out, and counted.
func (db *database) readEntries(ctx context.Context, id string, begin, end int64) (all []Entry, err error) {
	places, err := db.readPlaces(ctx, db, `id = ? AND made >= ? AND made < ?`, id, begin, end)
	if err != nil {
		return nil, err
	}
	err = db.eachFrameOf(ctx, db, wholeFrames, places, func(f *frame, places []place) error {
		some, err := db.entriesAt(ctx, f, places)
		if errors.Is(err, errSealed) {
			db.changed.Add(1)
			err = nil
		}
		all = append(all, some...)
		return err
	})
	if err == nil && len(all) == 0 {
		err = ErrNotFound
	}
	return all, err
}

// entriesAt returns the entries at places of a frame, with what stands beside them.
func (db *database) entriesAt(ctx context.Context, f *frame, places []place) (all []Entry, err error) {
	items, err := db.openItems(ctx, f, isAtOneOf(places))
	if err != nil {
		return nil, err
	}
	messages, err := db.openTexts(ctx, f, "journal_messages", f.messages, items)
	if err != nil {
		return nil, err
	}
	personal, err := db.openTexts(ctx, f, "journal_personal", f.personal, items)
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		item, err := itemAt(items, p)
		if err != nil {
			return nil, err
		}
		if item == nil {
			continue
		}
		e, err := item.entry()
		if err := errors.Join(err, showMessages(e.Steps, messages[p.at]), showPersonal(e.Steps, personal[p.at])); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// RefusedRequest is the status of a record of a request that no authentication came of.
const RefusedRequest = "refused"

// Statuses returns all words that the status of a record may be.
func Statuses() []string {
	return []string{
		string(api.StatusRequiresBrowser), string(api.StatusInProgress), string(api.StatusChallenge),
		string(api.StatusDecoupled), string(api.StatusCompleted), string(api.StatusFailed), string(api.StatusCancelled),
		string(api.StatusExpired), RefusedRequest,
	}
}

// CheckScheme returns an error with all schemes that there are if a scheme is none of those that everybody knows, and
// none of some others; nil for "".
func CheckScheme(word string, others ...string) error {
	all := append(scheme.Names(), others...)
	slices.Sort(all)
	if word != "" && !slices.Contains(all, word) {
		return fmt.Errorf("scheme: want one of %s", strings.Join(slices.Compact(all), ", "))
	}
	return nil
}

// Check returns an error if a field whose words are a closed list has another word. It names the field, and
// the words of the list.
func (q *Query) Check() error {
	var results []string
	for _, r := range api.Results() {
		results = append(results, string(r))
	}
	for _, field := range []struct {
		name, value string
		words       []string
	}{{"status", q.Status, Statuses()}, {"result", q.Result, results}} {
		if field.value != "" && !slices.Contains(field.words, field.value) {
			return fmt.Errorf("%s: want one of %s", field.name, strings.Join(field.words, ", "))
		}
	}
	return nil
}
