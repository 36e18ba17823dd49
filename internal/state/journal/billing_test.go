package journal_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// allMonths is a query for all that is billed.
var allMonths = journal.BillingQuery{From: time.Unix(0, 0), To: day.AddDate(50, 0, 0)}

// billedEntry returns an entry of one of so many authentications, which begin on every fifth of the 100 days before the
// test's day.
func billedEntry(keys *journal.Keys, random *rand.Rand, authentications int) journal.Entry {
	e := randomEntry(keys, random, authentications)
	var n int
	_, _ = fmt.Sscanf(e.Record.ID[24:], "%d", &n) // the number of the authentication
	e.Record.Created = day.AddDate(0, 0, -n*20/authentications*5).Add(-time.Duration(n%7) * time.Hour)
	e.Record.DeviceChannel, e.Record.MessageCategory = []string{"01", "02", "03"}[n%3], []string{"01", "02", "80"}[n/3%3]
	e.Record.Reference = `"messageCategory":"99","decoupled":true,"operation":"check"`
	e.Record.Decoupled = e.Record.Challenged && random.IntN(3) == 0
	if random.IntN(4) == 0 {
		e.Record.TransStatus = ""
	}
	switch {
	case e.Record.Status == "refused":
		e.Record.MessageCategory = ""
	case n%13 == 0:
		e.Kind, e.Record.API, e.Record.Operation, e.Record.Challenged = journal.Version1, "v1", []string{"enrolled", "check"}[n%2], false
		e.Record.Status = []string{"completed", "refused"}[n%5%2]
	}
	return e
}

// billedKind is the kind of a record, by the rules of docs/operating/billing.md.
func billedKind(r *journal.Record) string {
	switch {
	case r.Status == "refused":
		return journal.BilledRefused
	case r.API == "v1":
		return r.Operation
	case r.Decoupled:
		return journal.BilledDecoupled
	case r.Challenged:
		return journal.BilledChallenged
	case r.TransStatus == "":
		return journal.BilledUnanswered
	case r.TransStatus == "A":
		return journal.BilledAttempted
	}
	return journal.BilledFrictionless
}

// recountBilling counts the records that the store shows.
func recountBilling(t *testing.T, st journal.Store, q journal.BillingQuery) map[journal.BillingCount]int64 {
	t.Helper()
	all := map[journal.BillingCount]int64{}
	search := journal.Query{Merchant: q.Merchant, From: q.From, To: q.To, Limit: 1000}
	for {
		page, err := st.Search(t.Context(), search)
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Records {
			r := &page.Records[i]
			all[journal.BillingCount{
				Month: r.Created.Format("2006-01"), Merchant: r.Merchant, API: r.API, DeviceChannel: r.DeviceChannel,
				MessageCategory: r.MessageCategory, Kind: billedKind(r),
			}]++
		}
		if search.Cursor = page.Next; search.Cursor == "" {
			return all
		}
	}
}

// readBilling returns the counters of a store.
func readBilling(t *testing.T, st journal.Store, q journal.BillingQuery) map[journal.BillingCount]int64 {
	t.Helper()
	counts, err := st.Billing(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	all := map[journal.BillingCount]int64{}
	for _, c := range counts {
		n := c.Count
		c.Count = 0
		if _, ok := all[c]; ok || n <= 0 {
			t.Errorf("%+v: %d, or twice", c, n)
		}
		all[c] = n
	}
	return all
}

// checkBilling fails when counters are not those that are wanted.
func checkBilling(t *testing.T, when string, got, want map[journal.BillingCount]int64) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: counters\n%v, want\n%v", when, got, want)
	}
}

// writeBilled writes entries of 400 authentications, and returns them.
func writeBilled(t *testing.T, st journal.Store, keys *journal.Keys, seed uint64) (entries []journal.Entry) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 9))
	for range 350 {
		entries = append(entries, billedEntry(keys, random, 200))
	}
	write(t, st, entries...)
	return entries
}

// TestK5BillingIsThatOfTheRecords: also when records come late, come again, and are rolled again.
func TestK5BillingIsThatOfTheRecords(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		for step := range uint64(3) {
			entries := writeBilled(t, st, keys, step)
			for range 2 {
				write(t, st, entries...)
				if err := st.Roll(t.Context(), day.AddDate(0, 0, 2), aDay); err != nil {
					t.Fatal(err)
				}
			}
			kinds := map[string]bool{}
			for _, q := range []journal.BillingQuery{
				allMonths, {From: allMonths.From, To: allMonths.To, Merchant: "shop 1"},
				{From: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)},
			} {
				got := readBilling(t, st, q)
				checkBilling(t, fmt.Sprintf("step %d, %+v", step, q), got, recountBilling(t, st, q))
				for c := range got {
					kinds[c.Kind] = true
				}
			}
			if len(kinds) != 8 {
				t.Errorf("kinds %v, want all", kinds)
			}
		}
	})
}

// TestK5BillingStaysAfterAnErasure: of a card, and of a merchant; and what comes again later does not count twice.
func TestK5BillingStaysAfterAnErasure(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		entries := writeBilled(t, st, keys, 1)
		want := readBilling(t, st, allMonths)
		for _, q := range []journal.Query{{Card: "4000000000000003"}, {Merchant: "shop 1"}, {Card: "4000000000000005"}} {
			if a, _, err := st.Erase(t.Context(), q); err != nil || a == 0 {
				t.Fatalf("erased %d, %v", a, err)
			}
			checkBilling(t, "after an erasure", readBilling(t, st, allMonths), want)
			if _, _, err := st.Erase(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			write(t, st, entries...)
			checkBilling(t, "after the same again", readBilling(t, st, allMonths), want)
		}
		own, sum := readBilling(t, st, journal.BillingQuery{From: allMonths.From, To: allMonths.To, Merchant: "shop 1"}), int64(0)
		for c, n := range own {
			if sum += n; c.Merchant != "shop 1" || want[c] != n {
				t.Errorf("%+v: %d, want %d", c, n, want[c])
			}
		}
		if sum == 0 {
			t.Error("a merchant that was erased owes nothing")
		}
	})
}

// TestK5BillingStaysWhenRecordsGo: day by day and month by month, also when another process goes on, when an archive is
// imported, and when something is erased meanwhile.
func TestK5BillingStaysWhenRecordsGo(t *testing.T) {
	t.Parallel()
	at, dir := pgtest.Get(t).Schema(t), filepath.Join(t.TempDir(), "journal")
	for name, openWith := range map[string]func(keys *journal.Keys) (journal.Store, error){
		"postgres": func(keys *journal.Keys) (journal.Store, error) { return journal.OpenPostgres(t.Context(), at, keys) },
		"sqlite":   func(keys *journal.Keys) (journal.Store, error) { return journal.OpenFiles(dir, keys) },
	} {
		t.Run(name, func(t *testing.T) {
			keys := journal.NewKeys() // each journal has its own, for one forgets those of days that go
			open := func() (journal.Store, error) { return openWith(keys) }
			st, err := open()
			if err != nil {
				t.Fatal(err)
			}
			entries := writeBilled(t, st, keys, 2)
			want := readBilling(t, st, allMonths)
			before := len(recountBilling(t, st, allMonths))
			for back := 90; back >= 0; back -= 30 {
				for range 2 {
					if err := st.Expire(t.Context(), day.AddDate(0, 0, -back)); err != nil {
						t.Fatal(err)
					}
					checkBilling(t, fmt.Sprintf("%d days", back), readBilling(t, st, allMonths), want)
				}
				if back == 60 {
					if _, _, err := st.Erase(t.Context(), journal.Query{Card: "4000000000000003"}); err != nil {
						t.Fatal(err)
					}
				}
				if err := st.Close(); err != nil {
					t.Fatal(err)
				}
				if st, err = open(); err != nil {
					t.Fatal(err)
				}
				checkBilling(t, fmt.Sprintf("%d days, restarted", back), readBilling(t, st, allMonths), want)
				write(t, st, entries...) // as an import of an archive
				checkBilling(t, fmt.Sprintf("%d days, imported", back), readBilling(t, st, allMonths), want)
			}
			if err := st.Expire(t.Context(), day.AddDate(0, 2, 0)); err != nil {
				t.Fatal(err)
			}
			checkBilling(t, "without records", readBilling(t, st, allMonths), want)
			if n := len(recountBilling(t, st, allMonths)); n != 0 || before == 0 {
				t.Errorf("%d kinds of records are left of %d", n, before)
			}
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestK5BillingOfSeveralNodes: three of them write, erase and let records go at the same time, and each
// authentication is counted once.
func TestK5BillingOfSeveralNodes(t *testing.T) {
	t.Parallel()
	at, dir := pgtest.Get(t).Schema(t), filepath.Join(t.TempDir(), "journal")
	for name, openWith := range map[string]func(keys *journal.Keys) (journal.Store, error){
		"postgres": func(keys *journal.Keys) (journal.Store, error) { return journal.OpenPostgres(t.Context(), at, keys) },
		"sqlite":   func(keys *journal.Keys) (journal.Store, error) { return journal.OpenFiles(dir, keys) },
	} {
		t.Run(name, func(t *testing.T) {
			keys := journal.NewKeys() // each journal has its own, for one forgets those of days that go
			open := func() (journal.Store, error) { return openWith(keys) }
			t.Parallel()
			var nodes []journal.Store
			for range 3 {
				st, err := open()
				if err != nil {
					t.Fatal(err)
				}
				defer st.Close()
				nodes = append(nodes, st)
			}
			old := writeBilled(t, nodes[0], keys, 3)
			ids := map[string]bool{}
			for i := range old {
				if old[i].Kind != journal.Method {
					ids[old[i].Record.ID] = true
				}
			}
			var work sync.WaitGroup
			for i, st := range nodes {
				random := rand.New(rand.NewPCG(5, uint64(i)))
				var batches [][]journal.Entry
				for n := range 20 {
					e := billedEntry(keys, random, 200)
					e.Kind, e.Record.Created = journal.Answered, day.Add(time.Duration(n)*time.Minute)
					e.Record.ID = fmt.Sprintf("10000000-0000-4000-8000-%012d", n+10*i) // nodes have some in common
					ids[e.Record.ID] = true
					batches = append(batches, []journal.Entry{e})
				}
				work.Go(func() { playNode(t, st, i, batches) })
			}
			work.Wait()
			var sum int64
			for _, n := range readBilling(t, nodes[1], allMonths) {
				sum += n
			}
			if sum != int64(len(ids)) {
				t.Errorf("%d are billed, want %d", sum, len(ids))
			}
		})
	}
}

// retry calls do until it returns no error. It logs the last error if that does not happen.
func retry(t *testing.T, do func() error) {
	t.Helper()
	var err error
	defer func() {
		if err != nil {
			t.Log(err)
		}
	}()
	waittest.Until(t, "a call that others are in the way of", func() bool { err = do(); return err == nil })
}

// playNode writes batches, and between them erases cards and lets records go. What another node is in the
// way of is tried again.
func playNode(t *testing.T, st journal.Store, node int, batches [][]journal.Entry) {
	again := func(do func() error) { retry(t, do) }
	for n, batch := range batches {
		again(func() error { _, err := st.Write(t.Context(), batch); return err })
		switch n % 4 {
		case node:
			again(func() error {
				_, _, err := st.Erase(t.Context(), journal.Query{Card: fmt.Sprintf("400000000000%04d", n%7)})
				return err
			})
		default:
			again(func() error { return st.Expire(t.Context(), day.AddDate(0, 0, 4*n-100)) })
		}
	}
}

// TestK5BillingNamesNobody: the tables that stay hold counts and names of merchants, and nothing of a card.
func TestK5BillingNamesNobody(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		entries := writeBilled(t, st, keys, 4)
		if _, _, err := st.Erase(t.Context(), journal.Query{Merchant: "shop 1"}); err != nil {
			t.Fatal(err)
		}
		for _, db := range journal.Databases(t, st) {
			var text string
			if err := db.QueryRowContext(t.Context(), `SELECT coalesce(max(month || merchant || api || channel || category || kind), '')
				FROM journal_billing WHERE merchant <> 'shop 1'`).Scan(&text); err != nil || text != "" {
				t.Errorf("there is %q, %v", text, err)
			}
		}
		counts, err := st.Billing(t.Context(), allMonths)
		if err != nil {
			t.Fatal(err)
		}
		all := fmt.Sprintf("%+v", counts)
		for i := range entries {
			for _, text := range []string{entries[i].Record.ID, entries[i].Record.Reference, entries[i].Record.Card.BIN, "4000000000"} {
				if strings.Contains(all, text) {
					t.Fatalf("counters have %q", text)
				}
			}
		}
	})
}

// TestK5BillingStaysWhenMonthsGoAtOnce: as after a time in which no server ran.
func TestK5BillingStaysWhenMonthsGoAtOnce(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		writeBilled(t, st, keys, 6)
		want := readBilling(t, st, allMonths)
		if err := st.Expire(t.Context(), day.AddDate(0, 2, 0)); err != nil {
			t.Fatal(err)
		}
		checkBilling(t, "without records", readBilling(t, st, allMonths), want)
	})
}

// TestK5ReadsWhileMonthsGo: search, counts and counters for billing have no error while the files of months are
// deleted, and no counter is missing.
func TestK5ReadsWhileMonthsGo(t *testing.T) {
	t.Parallel()
	keys := journal.NewKeys()
	st, err := journal.OpenFiles(filepath.Join(t.TempDir(), "journal"), keys)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	const months = 24
	for n := range months {
		e := entry(keys, n, journal.Answered)
		e.Record.ID, e.Record.Created = fmt.Sprintf("20000000-0000-4000-8000-%012d", n), day.AddDate(0, -n, 0)
		write(t, st, e)
	}
	want, err := st.Billing(t.Context(), allMonths)
	if err != nil || len(want) == 0 {
		t.Fatal(want, err)
	}
	ended := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for {
				if _, err := st.Search(t.Context(), journal.Query{Limit: months}); err != nil {
					t.Error(err)
				}
				if _, err := st.Count(t.Context(), journal.CountQuery{From: time.Unix(0, 0), To: day}); err != nil {
					t.Error(err)
				}
				if got, err := st.Billing(t.Context(), allMonths); err != nil || !slices.Equal(got, want) {
					t.Errorf("counters %v, %v, want %v", got, err, want)
				}
				select {
				case <-ended:
					return
				default:
				}
			}
		})
	}
	for n := months - 1; n >= 0; n-- {
		retry(t, func() error { return st.Expire(t.Context(), day.AddDate(0, 1-n, 0)) }) // a reader of the counters' file may be in the way
	}
	close(ended)
	readers.Wait()
}
