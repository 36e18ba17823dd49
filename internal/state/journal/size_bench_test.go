package journal_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/journal/journaltest"
)

// BenchmarkSearchOfSize searches among JOURNAL_RECORDS generated records of JOURNAL_DAYS days in PostgreSQL by each
// field, makes reports, and drops the oldest days. Of each it reports the 95th percentile. A database of
// JOURNAL_DATABASE keeps its days.
func BenchmarkSearchOfSize(b *testing.B) {
	j := journaltest.Open(b)
	benchmarkSize(b, j.Store, j.Generation, j.Now, j.IsKept)
}

// fields are the coarse fields of a record, each a number of its own.
type fields [6]uint16

// A scan finds records among all that were generated, by a look at each.
type scan struct {
	// numbers has the number of each value of a field. No value has 0.
	numbers map[string]uint16
	// words has the values by their numbers.
	words []string
	// at has the time at which each record was made, in Unix milliseconds, the oldest first.
	at []int64
	// of has the fields of each record, in the order of the times.
	of []fields
}

// number returns the number of a value, which gets one if it has none.
func (s *scan) number(value string) uint16 {
	if n, ok := s.numbers[value]; ok {
		return n
	}
	n := uint16(len(s.words))
	s.numbers[value], s.words = n, append(s.words, value)
	return n
}

func newScan(g journal.Generation, now time.Time) *scan {
	s := &scan{numbers: map[string]uint16{"": 0}, words: []string{""}}
	for r := range g.Records(now) {
		s.at = append(s.at, r.Created.UnixMilli())
		s.of = append(s.of, fields{s.number(r.Merchant), s.number(r.Card.Scheme), s.number(r.ACS), s.number(r.Status),
			s.number(r.Result), s.number(r.TransStatusReason)})
	}
	return s
}

// random returns a query, and the numbers of the records that it finds, the newest first. The query has some fields of
// one record, some of another one, and maybe a time.
func (s *scan) random(random *rand.Rand) (q journal.Query, found []int) {
	one, other := random.IntN(len(s.of)), random.IntN(len(s.of))
	var want fields
	for i, to := range []*string{&q.Merchant, &q.Scheme, &q.ACS, &q.Status, &q.Result, &q.Reason} {
		switch random.IntN(6) {
		case 0, 1:
			want[i] = s.of[one][i]
		case 2:
			want[i] = s.of[other][i]
		}
		*to = s.words[want[i]]
	}
	q.Limit = 1 + random.IntN(100)
	begin, end := int64(0), int64(math.MaxInt64)
	if random.IntN(2) == 0 {
		begin = s.at[one] - random.Int64N(int64(30*24*time.Hour/time.Millisecond))
		end = s.at[one] + 1 + random.Int64N(int64(24*time.Hour/time.Millisecond))
		q.From, q.To = time.UnixMilli(begin), time.UnixMilli(end)
	}
	for n, of := range slices.Backward(s.of) {
		fits := s.at[n] >= begin && s.at[n] < end
		for i := range want {
			fits = fits && (want[i] == 0 || want[i] == of[i])
		}
		if fits {
			if found = append(found, n); len(found) == q.Limit {
				break
			}
		}
	}
	return q, found
}

// BenchmarkSearchEqualsAScan makes one random search for each round, and compares its page with a look at all records
// that were generated: -benchtime=1000x makes a thousand.
func BenchmarkSearchEqualsAScan(b *testing.B) {
	j := journaltest.Open(b)
	all := newScan(j.Generation, j.Now)
	random := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		q, found := all.random(random)
		page, err := j.Store.Search(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		if len(page.Records) != len(found) {
			b.Fatalf("%+v: %d records, want %d", q, len(page.Records), len(found))
		}
		for i, r := range page.Records {
			if want := j.Generation.ID(found[i], j.Now); r.ID != want {
				b.Fatalf("%+v: record %d is %s, want %s", q, i, r.ID, want)
			}
		}
	}
}

// BenchmarkFilesOfSize does the same as BenchmarkSearchOfSize with files of SQLite.
func BenchmarkFilesOfSize(b *testing.B) {
	keys := journal.NewKeys()
	st, err := journal.OpenFiles(b.TempDir(), keys)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = st.Close() })
	g := journal.Generation{
		Authentications: journaltest.Number("JOURNAL_RECORDS", 2000), Days: journaltest.Number("JOURNAL_DAYS", 30), Merchants: 500, Seed: 1,
	}
	now := time.Now()
	if err := journal.Generate(b.Context(), st, keys, g, now, func(int) {}); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d records after %s", g.Authentications, time.Since(now).Round(time.Second))
	rolled := time.Now()
	if err := st.Roll(b.Context(), now, 24*time.Hour); err != nil {
		b.Fatal(err)
	}
	b.Logf("the hours of %d days are counted after %s", g.Days, time.Since(rolled).Round(time.Millisecond))
	benchmarkSize(b, st, g, now, false)
}

func benchmarkSize(b *testing.B, st journal.Store, g journal.Generation, now time.Time, isKept bool) {
	size := g.Authentications
	span := time.Duration(g.Days) * 24 * time.Hour
	shop := func(n int) string { return "Shop " + strconv.Itoa(n%500) }
	one := func(n int, values ...string) string { return values[n%len(values)] }
	for _, search := range []struct {
		name string
		q    func(n int) journal.Query
	}{
		{"id", func(n int) journal.Query { return journal.Query{ID: g.ID(n, now)} }},
		{"id of the directory server", func(n int) journal.Query { return journal.Query{ID: g.DSTransID(n)} }},
		{"id of nothing", func(n int) journal.Query { return journal.Query{ID: g.DSTransID(size + n)} }},
		{"reference", func(n int) journal.Query { return journal.Query{Reference: "order-" + strconv.Itoa(n)} }},
		{"card", func(n int) journal.Query { return journal.Query{Card: g.Card(n)} }},
		{"last4", func(n int) journal.Query { return journal.Query{Last4: g.Card(n)[12:]} }},
		{"merchant", func(n int) journal.Query { return journal.Query{Merchant: shop(n)} }},
		{"scheme", func(n int) journal.Query { return journal.Query{Scheme: one(n, "visa", "jcb")} }},
		{"acs", func(n int) journal.Query { return journal.Query{ACS: "ACS-" + strconv.Itoa(100+n%100)} }},
		{"status", func(n int) journal.Query { return journal.Query{Status: one(n, "completed", "failed")} }},
		{"result", func(n int) journal.Query { return journal.Query{Result: one(n, "authenticated", "rejected")} }},
		{"reason", func(n int) journal.Query { return journal.Query{Reason: one(n, "12", "11")} }},
		{"time", func(n int) journal.Query {
			from := now.Add(-span * time.Duration(n) / time.Duration(size))
			return journal.Query{From: from, To: from.Add(time.Minute)}
		}},
		{"everything", func(int) journal.Query { return journal.Query{} }},
		{"last4 and merchant and minute", func(n int) journal.Query {
			at := g.At(n, now)
			return journal.Query{Last4: g.Card(n)[12:], Merchant: shop(n), From: at.Add(-time.Minute), To: at.Add(time.Minute)}
		}},
		{"last4 and merchant", func(n int) journal.Query { return journal.Query{Last4: g.Card(n)[12:], Merchant: shop(n)} }},
		{"merchant and scheme", func(n int) journal.Query {
			return journal.Query{Merchant: shop(n), Scheme: one(n, "visa", "jcb", "none")}
		}},
		{"merchant and status", func(n int) journal.Query { return journal.Query{Merchant: shop(n), Status: one(n, "failed", "none")} }},
		{"merchant and reason", func(n int) journal.Query { return journal.Query{Merchant: shop(n), Reason: one(n, "11", "12", "99")} }},
		{"merchant and acs", func(n int) journal.Query { return journal.Query{Merchant: shop(n), ACS: "ACS-" + strconv.Itoa(n%220)} }},
		{"scheme and status and time", func(n int) journal.Query {
			return journal.Query{Scheme: "jcb", Status: "failed", From: g.At(n, now), To: g.At(n, now).Add(24 * time.Hour)}
		}},
		{"merchant and result and acs", func(n int) journal.Query {
			return journal.Query{Merchant: shop(n), Result: "rejected", ACS: "ACS-" + strconv.Itoa(n%220)}
		}},
		{"a scheme that is not there", func(int) journal.Query { return journal.Query{Scheme: "nowhere"} }},
		{"a merchant that is not there", func(int) journal.Query { return journal.Query{Merchant: "nobody"} }},
	} {
		b.Run(search.name, func(b *testing.B) {
			var times []time.Duration
			for i := range b.N {
				q := search.q(i * 7919 % size)
				begun := time.Now()
				if _, err := st.Search(b.Context(), q); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(begun))
			}
			reportP95(b, times)
		})
	}
	b.Run("show", func(b *testing.B) {
		var times []time.Duration
		for i := range b.N {
			begun := time.Now()
			if _, err := st.Show(b.Context(), g.ID(i*7919%size, now)); err != nil {
				b.Fatal(err)
			}
			times = append(times, time.Since(begun))
		}
		reportP95(b, times)
	})
	for _, count := range []journal.CountQuery{
		{By: "scheme"}, {By: "merchant"}, {By: "issuer"}, {By: "acs"}, {By: "reason"}, {By: ""}, {By: "acs", Merchant: "Shop 0"},
		{By: "scheme", From: now.Add(-24 * time.Hour), Hourly: true},
	} {
		name := "report by " + cmp.Or(count.By, "day")
		if count.Merchant != "" {
			name += " of a merchant"
		}
		count.Whole = count.By != "" && !count.Hourly
		if count.To = now; count.From.IsZero() {
			count.From = now.AddDate(0, 0, -g.Days)
		} else {
			name += " and hour"
		}
		b.Run(name, func(b *testing.B) {
			var times []time.Duration
			for range b.N {
				begun := time.Now()
				if _, err := st.Count(b.Context(), count); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(begun))
			}
			reportP95(b, times)
		})
	}
	if isKept {
		return
	}
	b.Run("drop a day", func(b *testing.B) {
		var times []time.Duration
		for i := range b.N {
			begun := time.Now()
			if err := st.Expire(b.Context(), now.AddDate(0, 0, -g.Days+1+i)); err != nil {
				b.Fatal(err)
			}
			if times = append(times, time.Since(begun)); i == g.Days/2 {
				break
			}
		}
		reportP95(b, times)
		b.ReportMetric(float64(slices.Max(times))/1e6, "max-ms")
	})
}

// reportP95 reports the 95th percentile of times.
func reportP95(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)*95/100])/1e6, "p95-ms")
}
