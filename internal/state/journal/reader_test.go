package journal

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// readAll returns the ids of all pages of a search of a reader.
func readAll(t *testing.T, r *Reader, q Query) (ids []string) {
	t.Helper()
	for {
		page, err := r.Search(t.Context(), q)
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

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// scopesOfTest are those of no merchant, of one, and of several, of which one has no records.
func scopesOfTest() []Scope {
	return []Scope{{}, Only(), Only("Shop 1"), Only("Shop 3", "Shop 0", "nobody", ""), Only("nobody", "never"), All()}
}

// narrowedQuery returns a random query, of which some look for what few records have.
func narrowedQuery(random *rand.Rand, r *Record) Query {
	q := randomQuery(random, r)
	switch random.IntN(6) {
	case 0:
		q.ID = r.ID
	case 1:
		q.Last4 = r.Card.Last4
	case 2:
		q.Reference = r.Reference
	case 3:
		q = Query{Limit: q.Limit}
	}
	return q
}

// TestReaderFindsWhatItsMerchantsHave: within a scope a search finds what the whole journal has of its merchants, in the
// same order and page by page, before hours are counted, after that, and when somebody has changed the postings.
func TestReaderFindsWhatItsMerchantsHave(t *testing.T) {
	t.Parallel()
	EachStore(t, func(t *testing.T, st Store, keys *Keys) {
		g := Generation{Authentications: 300, Days: 12, Merchants: 6, Seed: 5}
		if err := Generate(t.Context(), st, keys, g, planned, func(int) {}); err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(1, 7))
		all := allRecords(t, st)
		compare := func(when string, n int) {
			t.Helper()
			for i := range n {
				q := narrowedQuery(random, &all[random.IntN(len(all))])
				scope := scopesOfTest()[i%len(scopesOfTest())]
				var want []string
				for i := range all {
					r := &all[i]
					if scope.Has(r.Merchant) && q.fits(r) && (q.ID == "" || q.ID == r.ID) &&
						(q.Last4 == "" || q.Last4 == r.Card.Last4) && (q.Reference == "" || q.Reference == r.Reference) {
						want = append(want, r.ID)
					}
				}
				if got := readAll(t, Within(st, scope), q); !slices.Equal(got, want) {
					t.Fatalf("%s: %+v within %v finds %d records, want %d", when, q, scope, len(got), len(want))
				}
			}
		}
		compare("before hours are counted", 24)
		rollAll(t, st)
		compare("after hours were counted", 36)
		for _, db := range Databases(t, st) {
			if _, err := db.ExecContext(t.Context(), `UPDATE journal_postings SET mac = '' WHERE key % 3 = 0`); err != nil {
				t.Fatal(err)
			}
		}
		compare("after postings were changed", 24)
	})
}

// TestReaderShowsAndCountsWhatItsMerchantsHave: a record of another merchant is not found, and each count is the sum of
// those of the merchants of the scope.
func TestReaderShowsAndCountsWhatItsMerchantsHave(t *testing.T) {
	t.Parallel()
	EachStore(t, func(t *testing.T, st Store, keys *Keys) {
		g := Generation{Authentications: 200, Days: 20, Merchants: 4, Seed: 9}
		if err := Generate(t.Context(), st, keys, g, planned, func(int) {}); err != nil {
			t.Fatal(err)
		}
		all := allRecords(t, st)
		for _, scope := range scopesOfTest() {
			for i := range all[:20] {
				_, err := Within(st, scope).Show(t.Context(), all[i].ID)
				if (err == nil) != scope.Has(all[i].Merchant) || err != nil && !errors.Is(err, ErrNotFound) {
					t.Fatalf("a record of %s within %v: %v", all[i].Merchant, scope, err)
				}
			}
		}
		for _, isRolled := range []bool{false, true} {
			if isRolled {
				rollAll(t, st)
			}
			c := countsOf(t, st, all[0].Created)
			for _, scope := range scopesOfTest() {
				c.checkWithin(t, st, scope)
			}
		}
	})
}

// testCounts are all counts of a journal, each by merchant.
type testCounts struct {
	count   CountQuery
	billing BillingQuery
	flow    FlowQuery
	counts  map[string]map[string][]Rollup // by what is counted, then by merchant
	billed  []BillingCount
	flows   []FlowCount
	unkept  []UnkeptRule
}

// countsOf counts a journal whose newest record is of a time.
func countsOf(t *testing.T, st Store, newest time.Time) *testCounts {
	t.Helper()
	from, to := newest.AddDate(0, 0, -21), newest.Add(time.Second)
	c := &testCounts{
		count: CountQuery{From: from, To: to, Whole: true}, flow: FlowQuery{From: to.Add(-8 * time.Hour), To: to},
		billing: BillingQuery{From: from.AddDate(0, -1, 0), To: to.AddDate(0, 1, 0)}, counts: map[string]map[string][]Rollup{},
	}
	q := c.count
	q.By = "merchant"
	merchants, err := st.Count(t.Context(), q)
	must(t, err)
	for by := range byColumns {
		c.counts[by] = map[string][]Rollup{}
		for _, m := range merchants {
			q.By, q.Merchant = by, m.Value
			c.counts[by][m.Value], err = st.Count(t.Context(), q)
			must(t, err)
		}
	}
	c.billed, err = st.Billing(t.Context(), c.billing)
	must(t, err)
	c.flows, err = st.Flow(t.Context(), c.flow)
	must(t, err)
	c.unkept, err = st.CountUnkept(t.Context(), c.count)
	must(t, err)
	if len(c.unkept) == 0 || len(c.flows) == 0 || len(c.billed) == 0 || len(merchants) < 4 {
		t.Fatalf("the journal has too little to count: %d, %d, %d, %d", len(c.unkept), len(c.flows), len(c.billed), len(merchants))
	}
	return c
}

// checkWithin compares the counts within a scope with those of its merchants.
func (c *testCounts) checkWithin(t *testing.T, st Store, scope Scope) {
	t.Helper()
	r := Within(st, scope)
	billed, err := r.Billing(t.Context(), c.billing)
	must(t, err)
	if want := within(c.billed, scope, func(b BillingCount) string { return b.Merchant }); !slices.Equal(billed, want) {
		t.Errorf("billing within %v: %d counters, want %d", scope, len(billed), len(want))
	}
	unkept, err := r.CountUnkept(t.Context(), c.count)
	must(t, err)
	if want := within(c.unkept, scope, func(u UnkeptRule) string { return u.Merchant }); len(unkept)+len(want) > 0 &&
		!slices.Equal(unkept, want) {
		t.Errorf("rules that are not kept within %v: %d, want %d", scope, len(unkept), len(want))
	}
	sum := func(all []FlowCount) (f Flow) {
		for i := range all {
			f.Add(&all[i].Flow)
		}
		return f
	}
	q := c.flow
	flows, err := r.Flow(t.Context(), q)
	must(t, err)
	q.Whole = true
	whole, err := r.Flow(t.Context(), q)
	must(t, err)
	if want := within(c.flows, scope, func(f FlowCount) string { return f.Merchant }); len(flows) != len(want) ||
		sum(flows) != sum(want) || sum(whole) != sum(want) {
		t.Errorf("flow within %v: %+v and %+v, want %+v", scope, sum(flows), sum(whole), sum(want))
	}
	for by, ofMerchants := range c.counts {
		want := map[string]*Rollup{}
		for merchant, some := range ofMerchants {
			for i := range some {
				if !scope.Has(merchant) {
					continue
				}
				if want[some[i].Value] == nil {
					want[some[i].Value] = NewRollup()
				}
				want[some[i].Value].Add(&some[i])
			}
		}
		q := c.count
		q.By = by
		some, err := r.Count(t.Context(), q)
		must(t, err)
		got := map[string]*Rollup{}
		for i := range some {
			if got[some[i].Value] == nil { // each month of a journal in files has its own
				got[some[i].Value] = NewRollup()
			}
			got[some[i].Value].Add(&some[i])
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("counts by %q within %v are %d, want %d", by, scope, len(got), len(want))
		}
	}
}

// within returns what is of the merchants of a scope.
func within[T any](all []T, scope Scope, merchant func(T) string) []T {
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !scope.Has(merchant(one)) })
}

// TestReaderIsNoOracleForIDs: a refused request of a merchant that names an id is shown by that id, whether or not
// another merchant has an authentication with it.
func TestReaderIsNoOracleForIDs(t *testing.T) {
	t.Parallel()
	OnFiles(t, func(t *testing.T, st Store, keys *Keys) {
		const taken, free = "5b5b5b5b-0000-4000-8000-000000000b01", "4d4d4d4d-0000-4000-8000-000000000d01"
		write := func(kind Kind, id, merchant, named string) {
			t.Helper()
			r := Record{ID: id, Merchant: merchant, NamedID: named, Created: planned, API: "emv", Status: "completed"}
			if kind == Refused {
				r.Status = RefusedRequest
			}
			_, err := st.Write(t.Context(), []Entry{{Kind: kind, Record: r, Steps: []Step{{Step: "request", At: planned}}}})
			must(t, err)
		}
		write(Answered, taken, "theirs", "")
		r := Within(st, Only("ours", "also ours"))
		for _, id := range []string{taken, free} {
			if d, err := r.Show(t.Context(), id); !errors.Is(err, ErrNotFound) {
				t.Errorf("before a request names it, %s is %q, %v", id, d.ID, err)
			}
			write(Refused, "refused-"+id[:4], "ours", id)
			write(Refused, "foreign-"+id[:4], "theirs", id)
			d, err := r.Show(t.Context(), id)
			if err != nil || d.ID != "refused-"+id[:4] {
				t.Errorf("%s shows %q, %v", id, d.ID, err)
			}
		}
	})
}
