package journal

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// planned is the end of the records of the tests of plans.
var planned = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// plannedRecords are how many there are: enough for a plan by an index to be the cheapest.
const plannedRecords = 3000

// plannedDays are how many days they are of, in two months.
const plannedDays = 12

// writeForPlans writes records of two months. Those of the older half have values that the others have not.
func writeForPlans(t *testing.T, st Store, keys *Keys) Generation {
	t.Helper()
	g := Generation{Authentications: plannedRecords, Days: plannedDays, Merchants: 20, Seed: 3}
	if err := Generate(t.Context(), st, keys, g, planned, func(int) {}); err != nil {
		t.Fatal(err)
	}
	var old []Entry
	for n := range 300 {
		e := g.entry(n, planned, keys, newRandom(g))
		e.Record.ID, e.Record.DSTransID, e.Record.ACSTransID = fmt.Sprintf("gone %d", n), "", ""
		e.Record.Merchant, e.Record.Card.Scheme, e.Record.ACS = "Gone", "gone", "gone"
		e.Record.Status, e.Record.Result, e.Record.TransStatusReason = "gone", "gone", "gone"
		old = append(old, e)
	}
	if _, err := st.Write(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	return g
}

// coarseQueries are queries by each coarse field, with and without a merchant: for values that many records have, that
// only old ones have, and that none has.
func coarseQueries() map[string]Query {
	all := map[string]Query{
		"nothing": {}, "time": {From: planned.AddDate(0, 0, -10), To: planned.AddDate(0, 0, -5)}, "card": {Card: "4000000000000002"},
		"reference": {Reference: "order-7"}, "cursor": {Cursor: "mmgw0dvk.x"},
	}
	for _, merchant := range []string{"", "Shop 0", "Gone", "nobody"} {
		if merchant != "" {
			all["of "+merchant] = Query{Merchant: merchant}
		}
		for field, values := range map[string][]string{
			"scheme": {"visa", "jcb"}, "acs": {"ACS-000"}, "status": {"completed", "failed"}, "result": {"authenticated", "rejected"}, "reason": {"01"},
		} {
			for _, value := range append(values, "gone", "never") {
				q := Query{Merchant: merchant}
				switch field {
				case "scheme":
					q.Scheme = value
				case "acs":
					q.ACS = value
				case "status":
					q.Status = value
				case "result":
					q.Result = value
				case "reason":
					q.Reason = value
				}
				all[strings.TrimSpace(field+" "+value+" "+merchant)] = q
			}
		}
	}
	return all
}

// A plan is what EXPLAIN says of a part of a statement.
type plan struct {
	Type    string  `json:"Node Type"`
	Table   string  `json:"Relation Name"`
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Removed float64 `json:"Rows Removed by Filter"`
	Plans   []plan
}

// read returns how many rows of tables are read, and the tables out of which.
func (p *plan) read(tables map[string]bool) (rows float64) {
	if p.Table != "" && p.Loops > 0 {
		tables[p.Table] = true
		rows = (p.Rows + p.Removed) * p.Loops
	}
	for i := range p.Plans {
		rows += p.Plans[i].read(tables)
	}
	return rows
}

// explain runs a statement and returns how many rows it has read, and the tables out of which.
func (db *database) explain(t *testing.T, text string, args []any) (float64, map[string]bool) {
	t.Helper()
	var out []byte
	if err := db.QueryRowContext(t.Context(), `EXPLAIN (ANALYZE, FORMAT JSON) `+text, args...).Scan(&out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var all []struct{ Plan plan }
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatal(err)
	}
	tables := map[string]bool{}
	return all[0].Plan.read(tables), tables
}

// TestJ5SearchReadsWhatItReturns: in PostgreSQL a search reads a page of records, however rare and however old the
// value is.
func TestJ5SearchReadsWhatItReturns(t *testing.T) {
	t.Parallel()
	st, keys := openTestPostgres(t)
	g := writeForPlans(t, st, keys)
	rollAll(t, st)
	db := st.(*tableStore).database
	if _, err := db.ExecContext(t.Context(), `ANALYZE journal_records, journal_places, journal_postings`); err != nil {
		t.Fatal(err)
	}
	for name, q := range coarseQueries() {
		text, args := db.searchText(q, 51)
		rows := float64(db.readBy(t, q, 51))
		if len(q.coarseKeys()) == 0 {
			rows, _ = db.explain(t, text, args)
		}
		if rows > 60 {
			t.Errorf("%s: %.0f rows are read for a page of 50", name, rows)
		}
	}
	id := g.ID(plannedRecords/2, planned)
	q := Query{ID: strings.ToUpper(id), isOwnID: true}
	text, args := db.searchText(q, 51)
	if rows, tables := db.explain(t, text, args); rows != 1 || len(tables) != 1 {
		t.Errorf("%.0f rows of %v are read for one of our ids", rows, tables)
	}
	page, err := st.Search(t.Context(), Query{ID: g.DSTransID(7)})
	if err != nil || len(page.Records) != 1 || page.Records[0].ID != g.ID(7, planned) {
		t.Errorf("by the id of the directory server: %+v, %v", page.Records, err)
	}
	text, args = db.query(placesText+`id = ? AND made >= ? AND made < ?`),
		[]any{id, planned.AddDate(0, 0, -plannedDays/2).UnixMilli(), planned.AddDate(0, 0, -plannedDays/2).Add(time.Hour).UnixMilli()}
	if _, tables := db.explain(t, text, args); len(tables) > 1 {
		t.Errorf("the places of an id are read out of %v", tables)
	}
}

// rollAll makes the rollups and postings of all hours.
func rollAll(t *testing.T, st Store) {
	t.Helper()
	if err := st.Roll(t.Context(), planned.AddDate(0, 0, 2), time.Hour); err != nil {
		t.Fatal(err)
	}
}

// readBy returns how many records a search by postings reads.
func (db *database) readBy(t *testing.T, q Query, limit int) int {
	t.Helper()
	tx, err := db.beginCount(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback() // it has written nothing
	s := coarseSearch{db: db, tx: tx, query: q, keys: q.coarseKeys(), limit: limit}
	if len(s.keys) == 0 {
		return 0
	}
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s.read
}

// TestJ5SearchOfFilesUsesAnIndex: in SQLite each search that postings do not serve goes by an index.
func TestJ5SearchOfFilesUsesAnIndex(t *testing.T) {
	t.Parallel()
	st, err := OpenFiles(t.TempDir(), NewKeys())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	db, err := st.(*fileStore).month(t.Context(), "2026-03", true)
	if err != nil {
		t.Fatal(err)
	}
	queries := coarseQueries()
	queries["id"], queries["own id"] = Query{ID: "0"}, Query{ID: Generation{}.ID(1, planned), isOwnID: true}
	for name, q := range queries {
		if len(q.coarseKeys()) > 0 {
			continue
		}
		text, args := db.searchText(q, 51)
		rows, err := db.QueryContext(t.Context(), `EXPLAIN QUERY PLAN `+text, args...)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var a, b, c int
			var what string
			if err := rows.Scan(&a, &b, &c, &what); err != nil {
				t.Fatal(err)
			}
			isSort := strings.HasPrefix(what, "USE TEMP B-TREE") && name != "id" && name != "card" && name != "reference"
			if isSort || strings.HasPrefix(what, "SCAN") && !strings.Contains(what, "INDEX") {
				t.Errorf("%s: %s", name, what)
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestJ5AMinuteReadsTheRecordsOfADay: each minute a server looks at a day for authentications whose keys were
// forgotten. In SQLite it reads the records of that day by an index: those of a month may be sixty million.
func TestJ5AMinuteReadsTheRecordsOfADay(t *testing.T) {
	t.Parallel()
	st, _ := openTestFiles(t)
	db, err := st.(*fileStore).month(t.Context(), "2026-03", true)
	if err != nil {
		t.Fatal(err)
	}
	var a, b, c int
	var what string
	begin, end := spanOfDay(planned)
	if err := db.QueryRowContext(t.Context(), `EXPLAIN QUERY PLAN `+idsOfRecords, begin, end, -begin, -end).
		Scan(&a, &b, &c, &what); err != nil || !strings.HasPrefix(what, "SEARCH") ||
		!strings.Contains(what, "journal_records_newest") {
		t.Errorf("the plan is %q, %v", what, err)
	}
}

// TestJ5TimeAlonePages: what is searched by time alone comes in pages, each record once.
func TestJ5TimeAlonePages(t *testing.T) {
	t.Parallel()
	st, keys := openTestPostgres(t)
	g := Generation{Authentications: 300, Days: 20, Merchants: 5, Seed: 3}
	if err := Generate(t.Context(), st, keys, g, planned, func(int) {}); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	q := Query{From: planned.AddDate(0, 0, -17), To: planned.AddDate(0, 0, -3), Limit: 7}
	for {
		page, err := st.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range page.Records {
			if seen[r.ID] || i > 0 && r.Created.After(page.Records[i-1].Created) || r.Created.Before(q.From) || !r.Created.Before(q.To) {
				t.Fatalf("%s at %s comes twice, out of order, or at another time", r.ID, r.Created)
			}
			seen[r.ID] = true
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	if len(seen) != 210 {
		t.Errorf("%d records, want 210", len(seen))
	}
}

// TestJ2ExpireDropsDaysAndMonths: the partitions of what is old go, and the records of old days of a month that goes
// on.
func TestJ2ExpireDropsDaysAndMonths(t *testing.T) {
	t.Parallel()
	st, keys := openTestPostgres(t)
	g := Generation{Authentications: 24, Days: 60, Merchants: 5, Seed: 3} // each on a day of its own
	if err := Generate(t.Context(), st, keys, g, planned, func(int) {}); err != nil {
		t.Fatal(err)
	}
	before := time.Date(2026, 2, 8, 12, 0, 0, 0, time.UTC)
	if err := st.Expire(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	first, want := before.Truncate(24*time.Hour), 0
	for n := range g.Authentications {
		if !g.At(n, planned).Before(first) {
			want++
		}
	}
	page, err := st.Search(t.Context(), Query{Limit: 1000})
	if err != nil || len(page.Records) != want || page.Records[want-1].Created.Before(first) {
		t.Errorf("%d records, %v, want %d", len(page.Records), err, want)
	}
	var months, days int
	if err := st.(*tableStore).QueryRowContext(t.Context(), `SELECT count(*) FILTER (WHERE inhparent = 'journal_records'::regclass),
		count(*) FILTER (WHERE inhparent = 'journal_frames'::regclass) FROM pg_inherits`).Scan(&months, &days); err != nil ||
		months != 2 || days != want {
		t.Errorf("%d months and %d days are left, %v, want 2 and %d", months, days, err, want)
	}
}
