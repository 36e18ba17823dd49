package journal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	pgtest.Stop()
	os.Exit(code)
}

const testCard = "4000000000000002"

var day = time.Date(2026, 3, 30, 12, 0, 0, 0, time.UTC)

// openFiles opens a journal in files, which is closed when the test ends.
func openFiles(t *testing.T, keys *journal.Keys) journal.Store {
	t.Helper()
	st, err := journal.OpenFiles(t.TempDir(), keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// eachStore runs a test with both kinds of store.
func eachStore(t *testing.T, test func(t *testing.T, st journal.Store, keys *journal.Keys)) {
	t.Helper()
	journal.EachStore(t, test)
}

// sqliteAlone runs a test with files alone.
func sqliteAlone(t *testing.T, test func(t *testing.T, st journal.Store, keys *journal.Keys)) {
	t.Helper()
	journal.OnFiles(t, test)
}

// entry returns the nth entry of a test.
func entry(keys *journal.Keys, n int, kind journal.Kind) journal.Entry {
	at := day.Add(time.Duration(n) * time.Hour)
	status := "in_progress"
	if kind != journal.Claimed {
		status = "completed"
	}
	return journal.Entry{
		Kind: kind,
		Record: journal.Record{
			ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), Created: at, Updated: at, API: "emv", Merchant: fmt.Sprintf("shop %d", n%2),
			Reference: fmt.Sprintf("order %d", n), Card: journal.Card{Scheme: "visa", BIN: "40000000", Last4: "0002"}, Status: status,
			TransStatus: "Y", MessageVersion: "2.2.0", DurationMS: 100,
		},
		Steps:    []journal.Step{{Step: string(kind), At: at, Message: json.RawMessage(`{"messageType":"AReq"}`)}},
		CardHash: keys.CardHash(testCard),
	}
}

func write(t *testing.T, st journal.Store, entries ...journal.Entry) {
	t.Helper()
	if _, err := st.Write(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
}

// TestJ5SearchFindsByEveryField: across two months, newest first, in pages, and nothing of another query.
func TestJ5SearchFindsByEveryField(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		for n := 0; n < 60; n += 10 { // until 2 April
			var claimed, answered []journal.Entry
			for i := n; i < n+10; i++ {
				claimed, answered = append(claimed, entry(keys, i, journal.Claimed)), append(answered, entry(keys, i, journal.Answered))
			}
			for i := range answered {
				r := &answered[i].Record
				r.ACS, r.TransStatusReason, r.Result = fmt.Sprintf("BANK-%d", (n+i)%3), fmt.Sprint(10+(n+i)%4), "authenticated"
			}
			write(t, st, claimed...)
			write(t, st, answered...)
		}
		for _, test := range []struct {
			name string
			q    journal.Query
			want int
		}{
			{"all", journal.Query{Limit: 100}, 60},
			{"id", journal.Query{ID: "00000000-0000-4000-8000-000000000007"}, 1},
			{"reference", journal.Query{Reference: "order 7"}, 1},
			{"card", journal.Query{Card: testCard, Limit: 100}, 60},
			{"another card", journal.Query{Card: "4000000000000010"}, 0},
			{"last4", journal.Query{Last4: "0002", Limit: 100}, 60},
			{"merchant", journal.Query{Merchant: "shop 1", Limit: 100}, 30},
			{"status", journal.Query{Status: "completed", Limit: 100}, 60},
			{"former status", journal.Query{Status: "in_progress"}, 0},
			{"scheme", journal.Query{Scheme: "visa", Limit: 100}, 60},
			{"another scheme", journal.Query{Scheme: "jcb"}, 0},
			{"ACS", journal.Query{ACS: "BANK-2", Limit: 100}, 20},
			{"reason", journal.Query{Reason: "12", Limit: 100}, 15},
			{"result", journal.Query{Result: "authenticated", Limit: 100}, 60},
			{"merchant, ACS and reason", journal.Query{Merchant: "shop 0", ACS: "BANK-0", Reason: "10", Limit: 100}, 5},
			{"time", journal.Query{From: day.Add(time.Hour), To: day.Add(3 * time.Hour)}, 2},
		} {
			page, err := st.Search(t.Context(), test.q)
			if err != nil || len(page.Records) != test.want {
				t.Errorf("%s: %d records, %v, want %d", test.name, len(page.Records), err, test.want)
			}
		}
		var ids []string
		q := journal.Query{Limit: 7}
		for {
			page, err := st.Search(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range page.Records {
				ids = append(ids, r.ID)
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
		}
		if len(ids) != 60 || !strings.HasSuffix(ids[0], "59") || !strings.HasSuffix(ids[59], "00") {
			t.Errorf("pages have %d records, from %v", len(ids), ids)
		}
	})
}

// TestD122ShowHasAllSteps: a record with the steps of all of its entries; an entry that comes again changes nothing.
func TestD122ShowHasAllSteps(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		write(t, st, entry(keys, 1, journal.Answered))
		write(t, st, entry(keys, 1, journal.Claimed), entry(keys, 1, journal.Answered))
		d, err := st.Show(t.Context(), "00000000-0000-4000-8000-000000000001")
		if err != nil || len(d.Steps) != 2 || d.Status != "completed" {
			t.Errorf("%+v, %v", d, err)
		}
		if _, err := st.Show(t.Context(), "00000000-0000-4000-8000-000000000002"); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("an unknown id: %v", err)
		}
		rollups, err := st.Count(t.Context(), journal.CountQuery{From: day, To: day.Add(24 * time.Hour)})
		if err != nil || len(rollups) != 1 || rollups[0].All != 1 || rollups[0].Successful != 1 {
			t.Errorf("rollups %+v, %v", rollups, err)
		}
	})
}

// TestD147CountsHaveAnAReq: a shopper who never came, and a card that takes no part, are no authentications of a
// directory, neither in what is counted from records nor in rollups.
func TestD147CountsHaveAnAReq(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		for i, end := range []struct {
			kind                        journal.Kind
			status, result, transStatus string
		}{
			{journal.Created, "requires_browser", "", ""}, {journal.Cancelled, "cancelled", "", ""}, {journal.Expired, "expired", "abandoned", ""},
			{journal.Created, "completed", "not_enrolled", ""},
			{journal.Cancelled, "cancelled", "", "C"}, {journal.Expired, "expired", "abandoned", "C"}, {journal.Answered, "failed", "error", ""},
			{journal.Claimed, "in_progress", "", ""}, {journal.Answered, "completed", "authenticated", "Y"},
		} {
			e := entry(keys, i, end.kind)
			e.Record.Status, e.Record.Result, e.Record.TransStatus = end.status, end.result, end.transStatus
			write(t, st, e)
		}
		count := func() (all int64) {
			counts, err := st.Count(t.Context(), journal.CountQuery{From: day.Add(-time.Hour), To: day.Add(48 * time.Hour), Whole: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range counts {
				all += c.All
			}
			return all
		}
		if n := count(); n != 5 {
			t.Errorf("%d are counted, want 5", n)
		}
		if err := st.Roll(t.Context(), day.Add(72*time.Hour), time.Minute); err != nil {
			t.Fatal(err)
		}
		if n := count(); n != 5 {
			t.Errorf("with rollups %d are counted, want 5", n)
		}
	})
}

// TestJ5SecondAReqIsNewer: of an authentication with two AReqs the record is the newest, in whatever order its entries
// come.
func TestJ5SecondAReqIsNewer(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		kinds := []journal.Kind{journal.Claimed, journal.Answered, journal.SecondAReq, journal.SecondAnswer, journal.Resulted}
		n := 0
		for _, last := range []int{3, 4, 5} { // how many of the kinds there are
			for _, isAtOnce := range []bool{false, true} {
				for shift := range last {
					n++
					var entries []journal.Entry
					for i := range last {
						e := entry(keys, n, kinds[(i*2+shift)%last])
						if last == 4 {
							e = entry(keys, n, kinds[(i+shift)%last])
						}
						e.Record.TransStatusReason = string(e.Kind)
						entries = append(entries, e)
					}
					if isAtOnce {
						write(t, st, entries...)
					} else {
						for _, e := range entries {
							write(t, st, e)
						}
					}
					id, want := entries[0].Record.ID, string(kinds[last-1])
					d, err := st.Show(t.Context(), id)
					page, err2 := st.Search(t.Context(), journal.Query{ID: id})
					if err != nil || err2 != nil || d.TransStatusReason != want || len(d.Steps) != last || len(page.Records) != 1 ||
						page.Records[0].TransStatusReason != want {
						t.Errorf("%v: shown %q with %d steps, found %+v, %v, %v", kindsOf(entries), d.TransStatusReason, len(d.Steps), page.Records, err, err2)
					}
				}
			}
		}
	})
}

// kindsOf returns the kinds of entries.
func kindsOf(entries []journal.Entry) (kinds []journal.Kind) {
	for i := range entries {
		kinds = append(kinds, entries[i].Kind)
	}
	return kinds
}

// TestJ6EraseLeavesNoCard: search and export have nothing of the card any more, and the export still verifies.
func TestJ6EraseLeavesNoCard(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		other := entry(keys, 2, journal.Claimed)
		other.CardHash = keys.CardHash("4000000000000010")
		write(t, st, entry(keys, 1, journal.Claimed), entry(keys, 1, journal.Answered), other)
		a, r, err := st.Erase(t.Context(), journal.Query{Card: testCard})
		if err != nil || a != 1 || r != 2 {
			t.Fatalf("erased %d authentications, %d records, %v", a, r, err)
		}
		write(t, st, entry(keys, 1, journal.Claimed)) // the sweep comes by
		if page, err := st.Search(t.Context(), journal.Query{}); err != nil || len(page.Records) != 1 {
			t.Errorf("found %+v, %v", page, err)
		}
		if _, err := st.Show(t.Context(), "00000000-0000-4000-8000-000000000001"); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("shown: %v", err)
		}
		text := export(t, st, keys, journal.Query{})
		if strings.Contains(text, "order 1") {
			t.Error("the export has the erased record")
		}
		got, err := journal.Verify(strings.NewReader(text), keys.PublicKey())
		if want := (journal.Verified{Records: 1, Erased: 2, Days: 1}); err != nil || got != want {
			t.Errorf("verified %+v, %v", got, err)
		}
	})
}

// export returns an export that is made now, when all days of the test are over and signed, or at
// the time of the query.
func export(t *testing.T, st journal.Store, keys *journal.Keys, q journal.Query) string {
	t.Helper()
	if q.At.IsZero() {
		if err := st.Sign(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := journal.WriteJSONLines(t.Context(), &b, st, keys, q); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestJ8AnyChangedByteIsFound: in an export of 1,000 records, at 1,000 places, and a line that is left out.
func TestJ8AnyChangedByteIsFound(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		changes := 1000
		if strings.HasSuffix(t.Name(), "postgres") {
			changes = 20 // the form is the same
		}
		var entries []journal.Entry
		for n := range 100 {
			e := entry(keys, 0, journal.Claimed)
			e.Record.ID = fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
			entries = append(entries, e)
		}
		write(t, st, entries[:40]...)
		write(t, st, entries[40:]...)
		if err := st.Sign(t.Context(), day.AddDate(0, 0, 1)); err != nil {
			t.Fatal(err)
		}
		text := export(t, st, keys, journal.Query{})
		got, err := journal.Verify(strings.NewReader(text), keys.PublicKey())
		if want := (journal.Verified{Records: 100, Days: 1}); err != nil || got != want {
			t.Fatalf("verified %+v, %v", got, err)
		}
		random := rand.New(rand.NewPCG(1, 2))
		for range changes {
			at := random.IntN(len(text))
			changed := []byte(text)
			changed[at] ^= 1 << random.IntN(8)
			if _, err := journal.Verify(bytes.NewReader(changed), keys.PublicKey()); err == nil {
				t.Fatalf("byte %d of %d changed, and it verifies", at, len(text))
			}
		}
		lines := strings.SplitAfter(text, "\n")
		if _, err := journal.Verify(strings.NewReader(strings.Join(append(lines[:5:5], lines[6:]...), "")), keys.PublicKey()); err == nil {
			t.Error("a line is missing, and it verifies")
		}
		if got, err := journal.Verify(strings.NewReader(export(t, st, keys, journal.Query{Merchant: "nobody"})),
			keys.PublicKey()); err != nil || got.Records != 0 || got.Days != 1 {
			t.Errorf("a filtered export: %+v, %v", got, err)
		}
	})
}

// TestJ2ExpireRemovesOldDays: what is old goes, and what is not stays.
func TestJ2ExpireRemovesOldDays(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		write(t, st, entry(keys, 0, journal.Claimed), entry(keys, 24*40, journal.Claimed))
		if err := st.Expire(t.Context(), day.AddDate(0, 0, 35)); err != nil {
			t.Fatal(err)
		}
		page, err := st.Search(t.Context(), journal.Query{})
		if err != nil || len(page.Records) != 1 || page.Records[0].Reference != "order 960" {
			t.Errorf("%+v, %v", page, err)
		}
	})
}

// TestO1KeysOfAJournalAreNotMadeAnew: without its file of keys a journal keeps its files, and nobody makes other keys.
func TestO1KeysOfAJournalAreNotMadeAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "journal-keys.json")
	keys, err := journal.LoadOrCreateKeys(path, dir)
	if err != nil {
		t.Fatalf("in an empty folder: %v", err)
	}
	st, err := journal.OpenFiles(dir, keys)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Write(t.Context(), []journal.Entry{entry(keys, 1, journal.Answered)}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(st.Close(), os.Rename(path, path+".away")); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.LoadOrCreateKeys(path, dir); err == nil || !strings.Contains(err.Error(), path+" is missing") {
		t.Errorf("beside a journal: %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of keys: %v", err)
	}
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.LoadOrCreateKeys(path, dir); err != nil {
		t.Errorf("put back: %v", err)
	}
}

// TestD120KeysFile: it is made once, for its owner only, and one that others may read is refused.
func TestD120KeysFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal-keys.json")
	first, err := journal.LoadOrCreateKeys(path, "")
	if err != nil {
		t.Fatal(err)
	}
	second, err := journal.LoadOrCreateKeys(path, "")
	if err != nil || !bytes.Equal(first.CardHash(testCard), second.CardHash(testCard)) {
		t.Errorf("read again: %v", err)
	}
	text, err := first.PEM()
	if err != nil {
		t.Fatal(err)
	}
	if all, err := journal.ParsePEM(text); err != nil || len(all) != 1 || !all[0].Equal(first.PublicKey()) {
		t.Errorf("public key: %v", err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := journal.LoadKeys(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others may read: %v", err)
	}
}

// brokenStore is a store that cannot be reached.
type brokenStore struct{ journal.Store }

func (brokenStore) Write(context.Context, []journal.Entry) (int, error) { return 0, errors.New("away") }

// TestJ3NothingIsWritten: a sweep of a store without transactions has no entries, and does no harm.
func TestJ3NothingIsWritten(t *testing.T) {
	eachStore(t, func(t *testing.T, st journal.Store, _ *journal.Keys) {
		if n, err := st.Write(t.Context(), nil); n != 0 || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
	})
}

// TestJ3AFullJournalDropsAndCounts: nobody waits for a store that is away.
func TestJ3AFullJournalDropsAndCounts(t *testing.T) {
	t.Parallel()
	keys := journal.NewKeys()
	j := journal.New(brokenStore{}, keys, nil, time.Now)
	for n := range 9000 {
		j.Add(entry(keys, n, journal.Claimed))
	}
	if _, dropped, _, waiting := j.Counts(); dropped != 9000-8192 || waiting != 8192 {
		t.Errorf("%d dropped, %d wait", dropped, waiting)
	}
}

// TestD124GenerateFillsAnEmptyJournalOnly: what is generated is found, and never stands among other records.
func TestD124GenerateFillsAnEmptyJournalOnly(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		g := journal.Generation{Authentications: 1500, Days: 3, Merchants: 5, Seed: 7}
		written := 0
		if err := journal.Generate(t.Context(), st, keys, g, day, func(n int) { written = n }); err != nil || written != 1500 {
			t.Fatalf("%d written, %v", written, err)
		}
		page, err := st.Search(t.Context(), journal.Query{Card: g.Card(1499)})
		if err != nil || len(page.Records) == 0 || page.Records[0].Card.Last4 != g.Card(1499)[12:] {
			t.Errorf("%+v, %v", page, err)
		}
		if d, err := st.Show(t.Context(), g.ID(1499, day)); err != nil || len(d.Steps) != 4 {
			t.Errorf("%+v, %v", d, err)
		}
		if err := journal.Generate(t.Context(), st, keys, g, day, func(int) {}); !errors.Is(err, journal.ErrNotEmpty) {
			t.Errorf("a second time: %v", err)
		}
	})
}

// TestJ2DaysThatAreOverAreHiddenAtOnce: neither a search, a timeline, a report nor an export shows them, also while
// they are still being deleted.
func TestJ2DaysThatAreOverAreHiddenAtOnce(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		old, recent := entry(keys, 0, journal.Answered), entry(keys, 24, journal.Answered)
		write(t, st, old, recent)
		gone, cancel := context.WithCancel(t.Context())
		cancel() // nothing is deleted
		_ = st.Expire(gone, recent.Record.Created)
		for _, q := range []journal.Query{{}, {Card: testCard}, {ID: old.Record.ID}, {Last4: "0002", From: day.AddDate(0, 0, -1)}, {Merchant: "shop 0"}} {
			page, err := st.Search(t.Context(), q)
			want := 1
			if q.ID != "" {
				want = 0
			}
			if err != nil || len(page.Records) != want || want > 0 && page.Records[0].ID != recent.Record.ID {
				t.Errorf("%+v: %+v, %v", q, page, err)
			}
		}
		if d, err := st.Show(t.Context(), old.Record.ID); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("the old one is shown: %+v, %v", d, err)
		}
		if _, err := st.Show(t.Context(), recent.Record.ID); err != nil {
			t.Error(err)
		}
		counts, err := st.Count(t.Context(), journal.CountQuery{To: day.AddDate(0, 0, 5), Whole: true})
		if err != nil || len(counts) != 1 || counts[0].All != 1 {
			t.Errorf("counted %+v, %v", counts, err)
		}
		if text := export(t, st, keys, journal.Query{}); strings.Contains(text, old.Record.ID) || !strings.Contains(text, recent.Record.ID) {
			t.Errorf("the export is %s", text)
		}
		if _, n, err := st.Erase(t.Context(), journal.Query{Card: testCard}); err != nil || n != 2 {
			t.Errorf("erased %d records, %v", n, err)
		}
	})
}

// TestJ3NodeWithOtherKeysMakesNoDay: a node whose file of keys is another one writes nothing on a new day either, and
// does not keep the others from writing then.
func TestJ3NodeWithOtherKeysMakesNoDay(t *testing.T) {
	t.Parallel()
	url, keys, others := pgtest.Get(t).Schema(t), journal.NewKeys(), journal.NewKeys()
	open := func(keys *journal.Keys) journal.Store {
		st, err := journal.OpenPostgres(t.Context(), url, keys)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		return st
	}
	right, wrong := open(keys), open(others)
	if _, err := right.Write(t.Context(), []journal.Entry{entry(keys, 0, journal.Answered)}); err != nil {
		t.Fatal(err)
	}
	const nextDay = 24 // hours
	if _, err := wrong.Write(t.Context(), []journal.Entry{entry(others, nextDay, journal.Answered)}); err == nil ||
		!strings.Contains(err.Error(), "the same journal-keys.json") {
		t.Errorf("with another file of keys: %v", err)
	}
	if n, err := right.Write(t.Context(), []journal.Entry{entry(keys, nextDay+1, journal.Answered)}); n != 1 || err != nil {
		t.Errorf("on the next day %d entries were written: %v", n, err)
	}
}

// TestO7RefusedRequestIsFoundByTheIDThatItNamed: by a search, next to the authentication of that id if there is one,
// and by Show if there is none.
func TestO7RefusedRequestIsFoundByTheIDThatItNamed(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		own := journal.Generation{Authentications: 2, Days: 1, Seed: 1}
		made, other := own.ID(0, day), own.ID(1, day)
		good := entry(keys, 1, journal.Answered)
		good.Record.ID, good.Record.Created = made, own.At(0, day)
		write(t, st, good)
		var refused []journal.Entry
		for n, named := range []string{made, strings.ToUpper(other), other, "e1d1c1b1-0000-4000-8000-000000000007"} {
			e := entry(keys, n+2, journal.Refused)
			e.Record.Status, e.Record.ErrorCode, e.Record.Elements, e.Record.NamedID = "refused", "203", []string{"mcc"}, named
			refused = append(refused, e)
		}
		write(t, st, refused...)
		for id, want := range map[string][]string{
			made: {refused[0].Record.ID, made}, other: {refused[2].Record.ID, refused[1].Record.ID},
			"e1d1c1b1-0000-4000-8000-000000000007": {refused[3].Record.ID},
		} {
			page, err := st.Search(t.Context(), journal.Query{ID: id})
			var got []string
			for _, r := range page.Records {
				got = append(got, r.ID)
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("a search for %s finds %v, %v; want %v", id, got, err, want)
			}
			d, err := st.Show(t.Context(), id)
			if shown := want[0]; id == made {
				if err != nil || d.ID != made {
					t.Errorf("shown is %s, %v; want the authentication itself", d.ID, err)
				}
			} else if err != nil || d.ID != shown || d.ErrorCode != "203" {
				t.Errorf("shown is %s %s, %v; want %s", d.ID, d.ErrorCode, err, shown)
			}
		}
	})
}
