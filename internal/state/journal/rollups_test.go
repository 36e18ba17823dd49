package journal_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// aDay is a limit that is never reached.
const aDay = 24 * time.Hour

// countedBy are all that authentications are counted by, with the value that a record has.
var countedBy = map[string]func(*journal.Record) string{
	"": func(*journal.Record) string { return "" }, "scheme": func(r *journal.Record) string { return r.Card.Scheme },
	"issuer": func(r *journal.Record) string { return r.Card.BIN }, "acs": func(r *journal.Record) string { return r.ACS },
	"version":  func(r *journal.Record) string { return r.MessageVersion },
	"reason":   func(r *journal.Record) string { return r.TransStatusReason },
	"merchant": func(r *journal.Record) string { return r.Merchant },
}

// randomEntry returns an entry of one of so many authentications, which begin within 50 hours before the test's day.
func randomEntry(keys *journal.Keys, random *rand.Rand, authentications int) journal.Entry {
	n := random.IntN(authentications)
	at := day.Add(-50*time.Hour + time.Duration(n)*50*time.Hour/time.Duration(authentications)).Truncate(time.Millisecond)
	pick := func(all ...string) string { return all[random.IntN(len(all))] }
	card := fmt.Sprintf("400000000000%04d", n%7)
	e := journal.Entry{
		Kind: []journal.Kind{journal.Claimed, journal.Answered, journal.Resulted, journal.Expired, journal.Method}[random.IntN(5)],
		Record: journal.Record{
			ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), Created: at, Updated: at, API: "emv", Merchant: fmt.Sprintf("shop %d", n%3),
			Card: journal.Card{Scheme: []string{"visa", "jcb"}[n%2], BIN: fmt.Sprintf("4000%04d", n%5)}, Status: pick("in_progress", "completed", "failed", "expired"),
			Result: pick("authenticated", "not_authenticated", "abandoned", ""), TransStatus: pick("Y", "A", "N", "C"), Challenged: random.IntN(2) == 0,
			TransStatusReason: pick("", "01", "12"), ACS: pick("", "ACS 1", "ACS 2"), MessageVersion: []string{"2.1.0", "2.2.0"}[n%2], DurationMS: random.Int64N(3000),
		},
		CardHash: keys.CardHash(card),
	}
	if n%11 == 0 {
		e.Kind, e.Record.Status = journal.Refused, "refused"
	}
	return e
}

// begun returns the records of all authentications that have begun.
func begun(t *testing.T, st journal.Store) (all []journal.Record) {
	t.Helper()
	for q := (journal.Query{Begun: true, Limit: 1000}); ; {
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

// recount counts records as the rules of reports say, without the times.
func recount(records []journal.Record, q journal.CountQuery) map[string]journal.Rollup {
	all := map[string]*journal.Rollup{}
	for i := range records {
		r := &records[i]
		if r.Created.Before(q.From) || !r.Created.Before(q.To) || q.Merchant != "" && r.Merchant != q.Merchant {
			continue
		}
		value := countedBy[q.By](r)
		if all[value] == nil {
			all[value] = journal.NewRollup()
		}
		sum := all[value]
		sum.All++
		result := r.Result
		if r.Challenged && result == "authenticated" {
			result = journal.AfterChallenge
		}
		sum.Results[result]++
		if r.Status == "completed" && (r.TransStatus == "Y" || r.TransStatus == "A") {
			sum.Successful++
		}
		if r.Status == "failed" && !r.Challenged {
			sum.Failed++
		}
		if r.Challenged {
			sum.Challenged++
			if r.Status == "expired" {
				sum.Lost++
			}
			if r.Result == "abandoned" {
				sum.Abandoned++
			}
		}
	}
	sums := map[string]journal.Rollup{}
	for value, sum := range all {
		sum.Times = nil
		sums[value] = *sum
	}
	return sums
}

// countAll returns the counts of a query by value, and the times of all of them together.
func countAll(t *testing.T, st journal.Store, q journal.CountQuery) (map[string]journal.Rollup, []int64) {
	t.Helper()
	counts, err := st.Count(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	all, times := map[string]*journal.Rollup{}, journal.NewRollup()
	for i := range counts {
		c := &counts[i]
		if all[c.Value] == nil {
			all[c.Value] = journal.NewRollup()
		}
		all[c.Value].Add(c)
		times.Add(c)
		if span := time.Hour; q.Hourly && !c.Hour.Equal(c.Hour.Truncate(span)) {
			t.Errorf("a count of %s", c.Hour)
		}
	}
	sums := map[string]journal.Rollup{}
	for value, sum := range all {
		sum.Times = nil
		sums[value] = *sum
	}
	return sums, times.Times
}

// checkCounts compares counts of all kinds with a recount. It returns the times of all authentications.
func checkCounts(t *testing.T, st journal.Store, when string) []int64 {
	t.Helper()
	records := begun(t, st)
	for by := range countedBy {
		for _, q := range []journal.CountQuery{
			{From: time.Unix(0, 0), To: day}, {From: day.Add(-40 * time.Hour), To: day, Hourly: true},
			{From: day.Add(-49*time.Hour + 7*time.Minute), To: day.Add(-3*time.Hour - 13*time.Second)},
			{From: day.Add(-30 * time.Minute), To: day.Add(-10 * time.Minute)},
			{From: day.Add(-37 * time.Hour), To: day, Merchant: "shop 1"}, {From: day.Add(-37 * time.Hour), To: day, Whole: true},
			{From: time.Unix(0, 0), To: day, Merchant: "shop 2"},
			{From: time.Unix(0, 0), To: day.AddDate(0, 3, 0), Whole: true}, {From: time.Unix(0, 0), To: day.AddDate(0, 3, 0), Merchant: "shop 2", Whole: true},
			{From: day.Add(-49 * time.Hour), To: day.AddDate(0, 3, 0), Whole: true},
		} {
			q.By = by
			got, _ := countAll(t, st, q)
			if want := recount(records, q); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: counts of %+v:\n%+v, want\n%+v", when, q, got, want)
			}
		}
	}
	_, times := countAll(t, st, journal.CountQuery{From: time.Unix(0, 0), To: day})
	return times
}

// TestK5CountsAreThoseOfTheRecords: whatever is written, erased, and counted in advance meanwhile.
func TestK5CountsAreThoseOfTheRecords(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		random := rand.New(rand.NewPCG(1, 5))
		for step := range 6 {
			var entries []journal.Entry
			for range 60 {
				entries = append(entries, randomEntry(keys, random, 200))
			}
			write(t, st, entries...)
			before := checkCounts(t, st, fmt.Sprintf("step %d", step))
			now := day.Add(time.Duration(step-4) * 10 * time.Hour)
			if step >= 4 {
				now = day.AddDate(0, 2, 0) // its block is over
			}
			if err := st.Roll(t.Context(), now, aDay); err != nil {
				t.Fatal(err)
			}
			if after := checkCounts(t, st, fmt.Sprintf("step %d, after rollups", step)); !slices.Equal(before, after) {
				t.Errorf("step %d: times of rollups %v, want %v", step, after, before)
			}
			if step == 3 || step == 5 {
				if a, _, err := st.Erase(t.Context(), journal.Query{Card: fmt.Sprintf("400000000000000%d", step)}); err != nil || a == 0 {
					t.Fatalf("erased %d, %v", a, err)
				}
				checkCounts(t, st, "after the erasure of a card")
			}
		}
	})
}

// TestK5RollupsAreRead: counts of what is over come from rollups, and not from the records.
func TestK5RollupsAreRead(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		random := rand.New(rand.NewPCG(2, 5))
		var entries []journal.Entry
		for range 100 {
			entries = append(entries, randomEntry(keys, random, 100))
		}
		write(t, st, entries...)
		if err := st.Roll(t.Context(), day.Add(3*time.Hour), 0); err != nil {
			t.Fatal(err)
		}
		for _, db := range journal.Databases(t, st) {
			var n int
			if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM journal_rollups`).Scan(&n); err != nil || n > 0 {
				t.Errorf("%d rollups within no time, %v", n, err)
			}
		}
		if err := st.Roll(t.Context(), day.AddDate(0, 0, 2), aDay); err != nil {
			t.Fatal(err)
		}
		want := checkCounts(t, st, "before")
		days := 0
		for _, db := range journal.Databases(t, st) {
			var n int
			if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM journal_days WHERE merchant = '' AND part = '' AND days = 1`).Scan(&n); err != nil {
				t.Fatal(err)
			}
			days += n
			if _, err := db.ExecContext(t.Context(), `DELETE FROM journal_records`); err != nil {
				t.Fatal(err)
			}
		}
		if _, got := countAll(t, st, journal.CountQuery{From: time.Unix(0, 0), To: day.Truncate(time.Hour)}); !slices.Equal(got, want) || days != 3 {
			t.Errorf("without the records, from %d days: %v, want %v", days, got, want)
		}
	})
}

// TestK5BlocksOfDaysAreRead: a count of the whole time comes from blocks of days where they are over, and from
// no row of a day in them.
func TestK5BlocksOfDaysAreRead(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		random := rand.New(rand.NewPCG(7, 5))
		var entries []journal.Entry
		for range 100 {
			entries = append(entries, randomEntry(keys, random, 100))
		}
		write(t, st, entries...)
		if err := st.Roll(t.Context(), day.AddDate(0, 2, 0), aDay); err != nil {
			t.Fatal(err)
		}
		q := journal.CountQuery{From: time.Unix(0, 0), To: day.AddDate(0, 3, 0), By: "acs", Whole: true}
		want, _ := countAll(t, st, q)
		for _, db := range journal.Databases(t, st) {
			for _, statement := range []string{`DELETE FROM journal_records`, `DELETE FROM journal_rollups`, `DELETE FROM journal_days WHERE days = 1`} {
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got, _ := countAll(t, st, q); !reflect.DeepEqual(got, want) || len(want) == 0 {
			t.Errorf("of blocks alone %+v, want %+v", got, want)
		}
	})
}

// TestK5BlockWaitsForItsDays: there are no rollups of a block as long as an hour or a day of it has to be counted.
func TestK5BlockWaitsForItsDays(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		for n := range 3 {
			e := entry(keys, n, journal.Answered)
			e.Record.Created = day.AddDate(0, 0, -n)
			write(t, st, e)
		}
		if err := st.Roll(t.Context(), day.AddDate(0, 0, 2), aDay); err != nil {
			t.Fatal(err)
		}
		one := journal.Databases(t, st)[0]
		check := func(when, before, after string, want int) {
			t.Helper()
			if _, err := one.ExecContext(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			journal.RollBlock(t, st, day)
			var n int
			if err := one.QueryRowContext(t.Context(),
				`SELECT count(*) FROM journal_days WHERE merchant = '' AND part = '' AND days = 30`).Scan(&n); err != nil || n != want {
				t.Errorf("%s: %d blocks, %v; want %d", when, n, err, want)
			}
			if _, err := one.ExecContext(t.Context(), after); err != nil {
				t.Fatal(err)
			}
		}
		at := day.UnixMilli()
		check("an hour is dirty", fmt.Sprintf(`INSERT INTO journal_dirty VALUES (%d, 'test', 1)`, at/3_600_000), `DELETE FROM journal_dirty`, 0)
		midnight := at - at%86_400_000
		check("a day is not counted", fmt.Sprintf(`UPDATE journal_days SET days = 9 WHERE start = %d`, midnight),
			`UPDATE journal_days SET days = 1 WHERE days = 9`, 0)
		check("all are counted", `DELETE FROM journal_dirty`, `DELETE FROM journal_dirty`, 1)
	})
}

// TestJ6EraseLeavesNoMerchantInCounts: after the erasure of a merchant no rollup has its name.
func TestJ6EraseLeavesNoMerchantInCounts(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		random := rand.New(rand.NewPCG(3, 5))
		var entries []journal.Entry
		for range 100 {
			entries = append(entries, randomEntry(keys, random, 100))
		}
		write(t, st, entries...)
		now := day.AddDate(0, 2, 0)
		if err := st.Roll(t.Context(), now, aDay); err != nil {
			t.Fatal(err)
		}
		count := func() (rows int) {
			for _, db := range journal.Databases(t, st) {
				all, err := db.QueryContext(t.Context(), `SELECT merchant, counts FROM journal_rollups UNION ALL SELECT merchant, counts FROM journal_days`)
				if err != nil {
					t.Fatal(err)
				}
				defer all.Close()
				for all.Next() {
					var merchant string
					var counts []byte
					if err := all.Scan(&merchant, &counts); err != nil {
						t.Fatal(err)
					}
					if merchant == "shop 1" || bytes.Contains(counts, []byte("shop 1")) {
						rows++
					}
				}
				if err := all.Err(); err != nil {
					t.Fatal(err)
				}
			}
			return rows
		}
		if count() == 0 {
			t.Fatal("no rollup has the merchant")
		}
		if _, _, err := st.Erase(t.Context(), journal.Query{Merchant: "shop 1"}); err != nil {
			t.Fatal(err)
		}
		if n := count(); n > 0 {
			t.Errorf("%d rows have the erased merchant", n)
		}
		checkCounts(t, st, "erased")
		if err := st.Roll(t.Context(), now, aDay); err != nil {
			t.Fatal(err)
		}
		checkCounts(t, st, "erased and counted again")
	})
}

// TestK5NodesWriteWhileTheyCount: three nodes of one database write while all of them make rollups,
// and nothing is missed.
func TestK5NodesWriteWhileTheyCount(t *testing.T) {
	t.Parallel()
	keys, at := journal.NewKeys(), pgtest.Get(t).Schema(t)
	var nodes []journal.Store
	for range 3 {
		st, err := journal.OpenPostgres(t.Context(), at, keys)
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		nodes = append(nodes, st)
	}
	var work sync.WaitGroup
	for i, st := range nodes {
		random := rand.New(rand.NewPCG(4, uint64(i)))
		work.Go(func() {
			for range 12 {
				batch := []journal.Entry{randomEntry(keys, random, 30), randomEntry(keys, random, 30)}
				_, err := st.Write(t.Context(), batch)
				for tries := 1; err != nil && tries < 50; tries++ { // another node has written the same at the same time
					_, err = st.Write(t.Context(), batch)
				}
				if err != nil {
					t.Error(err)
				}
				if err := st.Roll(t.Context(), day.AddDate(0, 0, 2), aDay); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	checkCounts(t, nodes[0], "while rollups were made")
	if err := nodes[0].Roll(t.Context(), day.AddDate(0, 0, 2), aDay); err != nil {
		t.Fatal(err)
	}
	checkCounts(t, nodes[1], "afterwards")
}

// TestD147QuantilesOfRollups: median and p95 of counts that were made in advance are within a tenth.
func TestD147QuantilesOfRollups(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		var entries []journal.Entry
		var times []int64
		for n := range 400 {
			e := entry(keys, n%100, journal.Answered)
			e.Record.ID = fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
			e.Record.DurationMS = int64(20 + n*n%3001)
			times = append(times, e.Record.DurationMS)
			entries = append(entries, e)
		}
		write(t, st, entries...)
		if err := st.Roll(t.Context(), day.AddDate(1, 0, 0), aDay); err != nil {
			t.Fatal(err)
		}
		counts, err := st.Count(t.Context(), journal.CountQuery{From: day, To: day.AddDate(0, 0, 10)})
		if err != nil {
			t.Fatal(err)
		}
		sum := journal.NewRollup()
		for i := range counts {
			sum.Add(&counts[i])
		}
		slices.Sort(times)
		for _, share := range []float64{0.5, 0.95} {
			want := float64(times[int(share*400)-1])
			if got := sum.Quantile(share); got < want-1 || got > want*1.1+1 {
				t.Errorf("quantile %v is %v, want at most a tenth above %v", share, got, want)
			}
		}
	})
}

// testRules are rules of schemes, as records have them.
var testRules = []journal.Rule{
	{Element: "cardholderName", Rule: "require", Since: "2024-08-12"},
	{Element: "email|homePhone|mobilePhone|workPhone", Rule: "require", Since: "2027-02-01"},
	{Element: "billAddrLine1", Rule: "advise"}, {Element: "mcc", Rule: "forbid", Since: "2024-08-12", Until: "2026-12-31"},
}

// unkeptEntry returns a random entry that does not keep some of the rules.
func unkeptEntry(keys *journal.Keys, random *rand.Rand, authentications int) journal.Entry {
	e := randomEntry(keys, random, authentications)
	for _, rule := range testRules {
		if random.IntN(3) == 0 {
			e.Record.Unkept = append(e.Record.Unkept, rule)
		}
	}
	return e
}

// recountUnkept counts what the records of a store do not keep, in the order of CountUnkept.
func recountUnkept(t *testing.T, st journal.Store, q journal.CountQuery) []journal.UnkeptRule {
	t.Helper()
	type key struct{ merchant, scheme string }
	all, rules := map[key]int64{}, map[key]map[journal.Rule]*journal.UnkeptRule{}
	search := journal.Query{Begun: true, Merchant: q.Merchant, From: q.From, To: q.To, Limit: 1000}
	page, err := st.Search(t.Context(), search)
	if err != nil || page.Next != "" {
		t.Fatal(page.Next, err)
	}
	for _, r := range page.Records { // the newest first
		of := key{r.Merchant, r.Card.Scheme}
		if all[of]++; rules[of] == nil {
			rules[of] = map[journal.Rule]*journal.UnkeptRule{}
		}
		for _, rule := range r.Unkept {
			if rules[of][rule] == nil {
				rules[of][rule] = &journal.UnkeptRule{Merchant: of.merchant, Scheme: of.scheme, Rule: rule, Last: r.Created, Example: r.ID}
			}
			rules[of][rule].Requests++
		}
	}
	want := []journal.UnkeptRule{}
	for of, byRule := range rules {
		for _, sum := range byRule {
			sum.All = all[of]
			want = append(want, *sum)
		}
	}
	slices.SortFunc(want, func(a, b journal.UnkeptRule) int {
		return cmp.Or(cmp.Compare(a.Merchant, b.Merchant), cmp.Compare(a.Scheme, b.Scheme), cmp.Compare(a.Rule.Rule, b.Rule.Rule),
			cmp.Compare(a.Since, b.Since), cmp.Compare(a.Until, b.Until), cmp.Compare(a.Element, b.Element))
	})
	return want
}

// checkUnkept compares counts with a recount. It returns how many rows all of them had.
func checkUnkept(t *testing.T, st journal.Store, when string) (rows int) {
	t.Helper()
	for _, q := range []journal.CountQuery{
		{From: time.Unix(0, 0), To: day}, {From: day.Add(-49*time.Hour + 7*time.Minute), To: day.Add(-3*time.Hour - 13*time.Second)},
		{From: day.Add(-30 * time.Minute), To: day.Add(-10 * time.Minute)}, {From: day.Add(-37 * time.Hour), To: day, Merchant: "shop 1"},
		{From: time.Unix(0, 0), To: day.Add(-30 * time.Hour), Merchant: "shop 2"},
	} {
		got, err := st.CountUnkept(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if want := recountUnkept(t, st, q); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: counts of %+v:\n%+v, want\n%+v", when, q, got, want)
		}
		rows += len(got)
	}
	return rows
}

// TestK5ReportOfMandatesIsThatOfTheRecords: whatever is written, erased, and counted in advance meanwhile.
func TestK5ReportOfMandatesIsThatOfTheRecords(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		random := rand.New(rand.NewPCG(7, 5))
		for step := range 6 {
			var entries []journal.Entry
			for range 60 {
				entries = append(entries, unkeptEntry(keys, random, 200))
			}
			write(t, st, entries...)
			if rows := checkUnkept(t, st, fmt.Sprintf("step %d", step)); rows < 20 {
				t.Errorf("step %d: %d rows in all", step, rows)
			}
			now := day.Add(time.Duration(step-4) * 10 * time.Hour)
			if step >= 4 {
				now = day.AddDate(0, 2, 0) // its block is over
			}
			if err := st.Roll(t.Context(), now, aDay); err != nil {
				t.Fatal(err)
			}
			checkUnkept(t, st, fmt.Sprintf("step %d, after rollups", step))
			if step > 2 {
				q := []journal.Query{{Card: "4000000000000003"}, {Merchant: "shop 2"}, {Card: "4000000000000001"}}[step-3]
				if a, _, err := st.Erase(t.Context(), q); err != nil || a == 0 {
					t.Fatalf("erased %d, %v", a, err)
				}
				checkUnkept(t, st, fmt.Sprintf("step %d, after an erasure", step))
			}
		}
		if err := st.Roll(t.Context(), day.AddDate(0, 0, 2), aDay); err != nil {
			t.Fatal(err)
		}
		checkUnkept(t, st, "all in days")
	})
}

// TestK5ReportOfMandatesReadsRollups: what is over is not counted from records, and its last time
// is then that of its day.
func TestK5ReportOfMandatesReadsRollups(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		random := rand.New(rand.NewPCG(8, 5))
		for range 100 {
			write(t, st, unkeptEntry(keys, random, 100))
		}
		if err := st.Roll(t.Context(), day.AddDate(0, 0, 2), aDay); err != nil {
			t.Fatal(err)
		}
		q := journal.CountQuery{From: time.Unix(0, 0), To: day.Add(aDay).Truncate(aDay)}
		want, err := st.CountUnkept(t.Context(), q)
		if err != nil || len(want) == 0 {
			t.Fatal(len(want), err)
		}
		for _, db := range journal.Databases(t, st) {
			if _, err := db.ExecContext(t.Context(), `DELETE FROM journal_records`); err != nil {
				t.Fatal(err)
			}
		}
		for i := range want {
			want[i].Last, want[i].Example = want[i].Last.Truncate(aDay), ""
		}
		if got, err := st.CountUnkept(t.Context(), q); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("without the records:\n%+v, want\n%+v, %v", got, want, err)
		}
	})
}

// TestA2CountsThatWereChangedAreNotTold: a report says what the records say, whatever somebody writes into the counts
// of hours, days and blocks of days without the keys. It is counted, and what makes rollups makes them anew.
func TestA2CountsThatWereChangedAreNotTold(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		random := rand.New(rand.NewPCG(7, 6))
		var entries []journal.Entry
		for range 150 {
			entries = append(entries, randomEntry(keys, random, 60))
		}
		write(t, st, entries...)
		roll := func() {
			t.Helper()
			for range 3 { // hours, days and blocks
				if err := st.Roll(t.Context(), day.AddDate(0, 2, 0), aDay); err != nil {
					t.Fatal(err)
				}
			}
		}
		roll()
		for _, q := range []journal.CountQuery{
			{By: "acs", Whole: true}, {By: "", Hourly: true}, {By: "scheme"}, {By: "merchant", Whole: true},
		} {
			q.From, q.To = time.Unix(0, 0), day.AddDate(0, 3, 0)
			want, _ := countAll(t, st, q)
			if len(want) == 0 {
				t.Fatal("nothing is counted")
			}
			before := st.CountChanged()
			for _, change := range []string{
				`UPDATE journal_rollups SET counts = (SELECT o.counts FROM journal_rollups o ORDER BY length(o.counts) DESC LIMIT 1)`,
				`UPDATE journal_days SET counts = (SELECT o.counts FROM journal_days o WHERE o.part = journal_days.part
					ORDER BY length(o.counts) DESC LIMIT 1)`,
				`UPDATE journal_rollups SET mac = ''`, `UPDATE journal_days SET mac = ''`,
			} {
				for _, db := range journal.Databases(t, st) {
					if _, err := db.ExecContext(t.Context(), change); err != nil {
						t.Fatal(err)
					}
				}
				if got, _ := countAll(t, st, q); !reflect.DeepEqual(got, want) {
					t.Errorf("%s: by %q it counts %+v, want %+v", change, q.By, got, want)
				}
				roll()
				told := st.CountChanged()
				if got, _ := countAll(t, st, q); !reflect.DeepEqual(got, want) || st.CountChanged() != told {
					t.Errorf("%s: made anew, it counts %+v by %q, want %+v", change, got, q.By, want)
				}
			}
			if st.CountChanged() == before {
				t.Errorf("by %q: no row was counted that was changed", q.By)
			}
		}
	})
}
