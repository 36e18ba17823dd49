package journal_test

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/journal"
	"github.com/openthreeds/threeds/internal/store/postgres/pgtest"
)

// BenchmarkSearchOfSize searches among JOURNAL_RECORDS generated records in PostgreSQL by each field, and drops the oldest
// day. Of each it reports the 95th percentile.
func BenchmarkSearchOfSize(b *testing.B) {
	size, err := strconv.Atoi(os.Getenv("JOURNAL_RECORDS"))
	if err != nil {
		size = 2000
	}
	keys := journal.NewKeys()
	st, err := journal.OpenPostgres(b.Context(), pgtest.Get(b).Schema(b), keys)
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	g := journal.Generation{Authentications: size, Days: 30, Merchants: 500, Seed: 1}
	now := time.Now()
	err = journal.Generate(b.Context(), st, keys, g, now, func(n int) {
		if n%100_000 == 0 {
			b.Logf("%d records after %s", n, time.Since(now).Round(time.Second))
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	for _, search := range []struct {
		name string
		q    func(n int) journal.Query
	}{
		{"id", func(n int) journal.Query { return journal.Query{ID: g.ID(n)} }},
		{"reference", func(n int) journal.Query { return journal.Query{Reference: "order-" + strconv.Itoa(n)} }},
		{"card", func(n int) journal.Query { return journal.Query{Card: g.Card(n)} }},
		{"last4", func(n int) journal.Query { return journal.Query{Last4: g.Card(n)[12:]} }},
		{"merchant", func(n int) journal.Query { return journal.Query{Merchant: "Shop " + strconv.Itoa(n%500)} }},
		{"scheme", func(n int) journal.Query { return journal.Query{Scheme: []string{"visa", "jcb"}[n%2]} }},
		{"acs", func(n int) journal.Query { return journal.Query{ACS: "ACS-" + strconv.Itoa(100+n%100)} }},
		{"status", func(n int) journal.Query { return journal.Query{Status: []string{"completed", "failed"}[n%2]} }},
		{"reason", func(n int) journal.Query { return journal.Query{Reason: []string{"12", "11"}[n%2]} }},
		{"time", func(n int) journal.Query {
			from := now.Add(-time.Duration(n%29+1) * 24 * time.Hour)
			return journal.Query{From: from, To: from.Add(time.Minute)}
		}},
		{"last4 and merchant and minute", func(n int) journal.Query {
			at := now.Add(-time.Duration(float64(30*24*time.Hour) * (1 - float64(n)/float64(size))))
			return journal.Query{Last4: g.Card(n)[12:], From: at.Add(-time.Minute), To: at.Add(time.Minute)}
		}},
		{"nothing that is there", func(int) journal.Query { return journal.Query{Scheme: "nowhere"} }},
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
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)*95/100])/1e6, "p95-ms")
		})
	}
	b.Run("show", func(b *testing.B) {
		for i := range b.N {
			if _, err := st.Show(b.Context(), g.ID(i*7919%size)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("drop a day", func(b *testing.B) {
		for i := range b.N {
			if err := st.Expire(b.Context(), now.AddDate(0, 0, -29+i%20)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
