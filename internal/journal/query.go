package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/transid"
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
	} else if id != "" {
		add("(id = ? OR ds_trans_id = ? AND ds_trans_id <> '' OR acs_trans_id = ? AND acs_trans_id <> '')", id, id, id)
	}
	for _, c := range []struct{ column, value string }{
		{"reference", q.Reference}, {"last4", q.Last4}, {"merchant", q.Merchant}, {"scheme", q.Scheme}, {"acs", q.ACS},
		{"status", q.Status}, {"result", q.Result}, {"reason", q.Reason},
	} {
		if c.value != "" {
			add(c.column+" = ?", c.value)
			if isMostlyEmpty[c.column] && !db.numbered {
				add(c.column + " <> ''")
			}
		}
	}
	if q.Card != "" {
		var marks []string
		var hashes []any
		for _, hash := range db.ours.cardHashes(q.Card) {
			marks, hashes = append(marks, "?"), append(hashes, hash)
		}
		add("card IN ("+strings.Join(marks, ", ")+")", hashes...)
	}
	isOfTimeAlone := q.isOfTimeAlone()
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
	return q.ID == "" && q.Reference == "" && q.Card == "" && q.Last4 == "" && q.Merchant == "" && q.Scheme == "" && q.ACS == "" &&
		q.Status == "" && q.Result == "" && q.Reason == ""
}

// search returns at most limit records, newest first. An id that has the form of ours is looked for in its own time first.
func (db *database) search(ctx context.Context, q Query, limit int) ([]Record, error) {
	if _, _, ok := transid.Span(q.ID); ok {
		q.isOwnID = true
		if all, err := db.searchOnce(ctx, q, limit); err != nil || len(all) > 0 {
			return all, err
		}
		q.isOwnID = false
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
	return db.query(`SELECT data FROM journal_records WHERE ` + condition + ` ORDER BY ` + order + ` LIMIT ` + strconv.Itoa(limit)), args
}

func (db *database) searchOnce(ctx context.Context, q Query, limit int) ([]Record, error) {
	text, args := db.searchText(q, limit)
	rows, err := db.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Record
	for rows.Next() {
		var data []byte
		var r Record
		if err := rows.Scan(&data); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &r); err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, rows.Err()
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
		return Detail{}, ErrNotFound
	}
	if err != nil {
		return Detail{}, err
	}
	begin, end := spanOfDay(time.UnixMilli(made))
	return db.showOf(ctx, id, begin, end)
}

// showText is the statement that reads the entries of an id and a time.
const showText = `SELECT day, kind, body FROM journal_entries WHERE id = ? AND body IS NOT NULL AND made >= ? AND made < ?`

// showOf returns the detail of an id out of the entries of a time.
func (db *database) showOf(ctx context.Context, id string, begin, end int64) (Detail, error) {
	var d Detail
	rows, err := db.QueryContext(ctx, db.query(showText), id, begin, end)
	if err != nil {
		return d, err
	}
	defer rows.Close()
	type row struct {
		day, kind string
		body      []byte
	}
	var all []row
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.day, &r.kind, &r.body); err != nil {
			return d, err
		}
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		return d, err
	}
	if len(all) == 0 {
		return d, ErrNotFound
	}
	slices.SortStableFunc(all, func(a, b row) int { return orderOf(Kind(a.kind)) - orderOf(Kind(b.kind)) })
	messages, err := db.readMessages(ctx, id, begin, end)
	if err != nil {
		return d, err
	}
	newest := -1
	for _, r := range all {
		content, err := db.open(ctx, r.day, id, r.kind, r.body)
		if err != nil {
			return d, err
		}
		var e Entry
		if err := json.Unmarshal(content, &e); err != nil {
			return d, err
		}
		if err := showMessages(e.Steps, messages[r.kind]); err != nil {
			return d, err
		}
		if rank := rankOf(e.Kind); rank >= newest {
			d.Record, newest = e.Record, max(rank, 0)
		}
		d.Steps = append(d.Steps, e.Steps...)
	}
	slices.SortStableFunc(d.Steps, func(a, b Step) int { return a.At.Compare(b.At) })
	for i := range d.Steps {
		d.Steps[i].MS = d.Steps[i].At.Sub(d.Created).Milliseconds()
	}
	return d, nil
}
