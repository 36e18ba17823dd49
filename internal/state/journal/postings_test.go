package journal

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// fits reports whether a record is one that a query by coarse fields and by time asks for.
func (q *Query) fits(r *Record) bool {
	for _, field := range [][2]string{
		{q.Merchant, r.Merchant}, {q.Scheme, r.Card.Scheme}, {q.ACS, r.ACS}, {q.Status, r.Status}, {q.Result, r.Result},
		{q.Reason, r.TransStatusReason},
	} {
		if field[0] != "" && field[0] != field[1] {
			return false
		}
	}
	return !(q.Begun && !r.IsBegun()) && !r.Created.Before(q.From) && (q.To.IsZero() || r.Created.Before(q.To))
}

// pagesOf returns the ids of all pages of a search.
func pagesOf(t *testing.T, st Store, q Query) (ids []string) {
	t.Helper()
	for {
		page, err := st.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Records {
			ids = append(ids, r.ID)
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return ids
		}
	}
}

// randomQuery returns a query by up to six fields of a record, and by a time.
func randomQuery(random *rand.Rand, r *Record) Query {
	q := Query{Limit: 40 + random.IntN(400), Begun: random.IntN(8) == 0}
	for _, field := range []struct {
		to    *string
		value string
	}{
		{&q.Merchant, r.Merchant}, {&q.Scheme, r.Card.Scheme}, {&q.ACS, r.ACS}, {&q.Status, r.Status}, {&q.Result, r.Result},
		{&q.Reason, r.TransStatusReason},
	} {
		if random.IntN(3) == 0 {
			*field.to = field.value
		}
	}
	if random.IntN(4) == 0 {
		q.Merchant = "nobody"
	}
	if random.IntN(2) == 0 {
		q.From = r.Created.Add(-time.Duration(random.IntN(500)) * time.Hour)
		q.To = r.Created.Add(time.Duration(random.IntN(90000)) * time.Second)
	}
	return q
}

// TestJ5SearchesFindWhatAScanFinds: of some hundred random searches each returns what a look at all records
// finds, in the same order and page by page: while all hours are new, after they were counted, and after
// some records have changed.
func TestJ5SearchesFindWhatAScanFinds(t *testing.T) {
	t.Parallel()
	EachStore(t, func(t *testing.T, st Store, keys *Keys) {
		g := Generation{Authentications: 800, Days: 12, Merchants: 6, Seed: 5}
		if err := Generate(t.Context(), st, keys, g, planned, func(int) {}); err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(1, 2))
		compare := func(when string, n int) {
			t.Helper()
			all := allRecords(t, st)
			for range n {
				q := randomQuery(random, &all[random.IntN(len(all))])
				var want []string
				for i := range all {
					if q.fits(&all[i]) {
						want = append(want, all[i].ID)
					}
				}
				if got := pagesOf(t, st, q); !slices.Equal(got, want) {
					t.Fatalf("%s: %+v finds %d records, want %d", when, q, len(got), len(want))
				}
			}
		}
		compare("before hours are counted", 20)
		rollAll(t, st)
		compare("after hours were counted", 50)
		var later []Entry
		for n := 0; n < 800; n += 40 { // a challenge that ends late, and a request at the same moment
			e := g.entry(n, planned, keys, newRandom(g))
			e.Kind, e.Record.Status, e.Record.Result, e.Record.ACS = Resulted, "completed", "rejected", "ACS-late"
			other := e
			other.Kind, other.Record.ID, other.Record.Status = Refused, fmt.Sprintf("refused %d", n), RefusedRequest
			later = append(later, e, other)
		}
		if _, err := st.Write(t.Context(), later); err != nil {
			t.Fatal(err)
		}
		compare("after records have changed", 20)
		rollAll(t, st)
		compare("after they were counted again", 20)
	})
}

// allRecords returns all records, the newest first.
func allRecords(t *testing.T, st Store) (all []Record) {
	t.Helper()
	for q := (Query{Limit: 1000}); ; {
		page, err := st.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Records...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return all
		}
	}
}

// TestA2PostingsThatWereChangedAreNotTold: a search finds what the records say, whatever somebody writes into postings
// without the keys; it is counted, and noticed before a day is signed.
func TestA2PostingsThatWereChangedAreNotTold(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"other times":      `UPDATE journal_postings SET at = (SELECT max(o.at) FROM journal_postings o WHERE o.made = journal_postings.made)`,
		"no times":         `UPDATE journal_postings SET at = ''`,
		"fewer":            `DELETE FROM journal_postings WHERE key % 2 = 0`,
		"other signatures": `UPDATE journal_postings SET mac = ''`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, keys := openTestFiles(t)
			var all []Entry
			g := Generation{Authentications: 400, Days: 20, Merchants: 3, Seed: 5}
			random := newRandom(g)
			for n := range 400 {
				e := g.entry(n, planned, keys, random)
				e.Record.Created = planned.AddDate(0, 0, -2).Add(time.Duration(n) * 4 * time.Minute)
				all = append(all, e)
			}
			if _, err := st.Write(t.Context(), all); err != nil {
				t.Fatal(err)
			}
			rollAll(t, st)
			q := Query{Merchant: "Shop 0", Limit: 1000}
			want := pagesOf(t, st, q)
			for _, db := range Databases(t, st) {
				if _, err := db.ExecContext(t.Context(), change); err != nil {
					t.Fatal(err)
				}
			}
			if got := pagesOf(t, st, q); name != "fewer" && (!slices.Equal(got, want) || st.CountChanged() == 0) {
				t.Errorf("%d records, and %d rows that were changed, want %d records", len(got), st.CountChanged(), len(want))
			}
			if err := st.Sign(t.Context(), planned.AddDate(0, 0, 3)); err != nil {
				t.Fatal(err)
			}
			if len(st.Faults()) == 0 {
				t.Error("it was not noticed when the day was signed")
			}
		})
	}
}

// TestJ5SearchReadsFewHoursOfPostings: for a page of the newest records PostgreSQL does not send the postings of all
// hours that there are.
func TestJ5SearchReadsFewHoursOfPostings(t *testing.T) {
	t.Parallel()
	st, keys := openTestPostgres(t)
	const hours = hoursAtOnce + hoursAtOnce/4
	var all []Entry
	g := Generation{Authentications: hours, Days: 20, Merchants: 1, Seed: 5}
	random := newRandom(g)
	for n := range hours {
		e := g.entry(n, planned, keys, random)
		e.Record.Created = planned.Add(-time.Duration(n) * time.Hour)
		all = append(all, e)
	}
	if _, err := st.Write(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	rollAll(t, st)
	db := st.(*tableStore).database
	q := Query{Merchant: "Shop 0"}
	tx, err := db.beginCount(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	fetched := func() int64 {
		all, err := readNumbers(t.Context(), tx, `SELECT sum(idx_tup_fetch)::bigint FROM pg_stat_xact_user_tables
			WHERE relname LIKE 'journal_postings%'`)
		if err != nil {
			t.Fatal(err)
		}
		return all[0]
	}
	before := fetched() // of this connection, what its last transactions have not reported yet
	s := coarseSearch{db: db, tx: tx, query: q, keys: q.coarseKeys(), limit: 21}
	if err := s.run(t.Context()); err != nil || len(s.found) != 21 {
		t.Fatalf("%d records, %v", len(s.found), err)
	}
	if read := fetched() - before; read < 1 || read > hoursAtOnce+21 {
		t.Errorf("for 21 records, %d of %d rows of postings were read", read, hours)
	}
	if got := pagesOf(t, st, q); len(got) != hours {
		t.Errorf("all pages have %d records, want %d", len(got), hours)
	}
}

// TestJ5CommonTimesAreThoseOfBoth: times that two postings of an hour have are found as a look at each of them finds
// them, also where one is empty or ends early. What no posting has, such as a time after the hour, is not ok.
func TestJ5CommonTimesAreThoseOfBoth(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	some := func(n int) (times []int64) {
		for range n {
			times = append(times, random.Int64N(300))
		}
		slices.Sort(times)
		return slices.Compact(times)
	}
	for range 2000 {
		a, b := some(random.IntN(40)), some(random.IntN(40))
		want := slices.DeleteFunc(slices.Clone(a), func(at int64) bool { return !slices.Contains(b, at) })
		got, ok := commonTimes(slices.Clone(a), encodeTimes(b))
		if !ok || !slices.Equal(got, want) {
			t.Fatalf("%v and %v: got %v, %v, want %v", a, b, got, ok, want)
		}
	}
	for _, damaged := range [][]byte{{0x80}, encodeTimes([]int64{hourLen})} {
		if _, ok := commonTimes([]int64{7}, damaged); ok {
			t.Errorf("%x is ok", damaged)
		}
	}
}
