package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// archiveDays are the days of fillForArchive, of which all but the last one are archived.
var archiveDays = []string{"2026-03-30", "2026-03-31", "2026-04-01", "2026-04-02"}

// archiveNow is when they are archived.
var archiveNow = time.Date(2026, 4, 3, 6, 0, 0, 0, time.UTC)

// fillForArchive fills a journal with four signed days, of which two are of another month. One authentication was
// erased. All hours but the newest ones are counted.
func fillForArchive(t *testing.T, st journal.Store, keys *journal.Keys) {
	t.Helper()
	for n := range 24 {
		claimed, answered := entry(keys, 4*n-12, journal.Claimed), entry(keys, 4*n-12, journal.Answered)
		for _, e := range []*journal.Entry{&claimed, &answered} {
			e.Record.ID, e.Record.Merchant = fmt.Sprintf("00000000-0000-4000-8000-%012d", n), fmt.Sprintf("shop %d", n%2)
			if n%6 == 1 {
				e.CardHash = keys.CardHash("4000000000000010")
			}
			if n == 2 {
				e.CardHash = keys.CardHash("4000000000000028")
			}
		}
		if n > 0 && n%6 == 0 { // a day is over
			if err := st.Sign(t.Context(), claimed.Record.Created); err != nil {
				t.Fatal(err)
			}
		}
		write(t, st, claimed)
		write(t, st, answered)
		if _, err := st.Head(t.Context(), claimed.Record.Created.Add(time.Minute), nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, n, err := st.Erase(t.Context(), journal.Query{Card: "4000000000000028", By: "cli:jo"}); err != nil || n != 2 {
		t.Fatalf("%d entries were erased, %v", n, err)
	}
	if err := st.Sign(t.Context(), archiveNow); err != nil {
		t.Fatal(err)
	}
	if err := st.Roll(t.Context(), time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC), aDay); err != nil {
		t.Fatal(err)
	}
}

// newArchiver returns an archiver of all but the last day, and where its reports go.
func newArchiver(st journal.Store, keys *journal.Keys, dir string) (*journal.Archiver, *[]journal.DayReport) {
	var reports []journal.DayReport
	return &journal.Archiver{
		Store: st, Keys: keys, Dir: dir, Before: archiveNow.AddDate(0, 0, -1), Now: archiveNow,
		Report: func(r journal.DayReport) { reports = append(reports, r) },
	}, &reports
}

// archive archives all but the last day, each of which must fit.
func archive(t *testing.T, st journal.Store, keys *journal.Keys, dir string) []journal.DayReport {
	t.Helper()
	a, reports := newArchiver(st, keys, dir)
	if err := a.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, r := range *reports {
		if r.Why != "" {
			t.Errorf("%s stays: %s", r.Day, r.Why)
		}
	}
	return *reports
}

// countsForGood returns what reports and billing say.
func countsForGood(t *testing.T, st journal.Store) string {
	t.Helper()
	var all []string
	for _, by := range []string{"", "scheme", "issuer", "acs", "version", "reason", "merchant"} {
		for _, q := range []journal.CountQuery{{}, {Hourly: true}, {Whole: true}, {Merchant: "shop 1"}} {
			q.By, q.From, q.To = by, day.AddDate(0, 0, -1), day.AddDate(0, 0, 10)
			counts, err := st.Count(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			sum := journal.NewRollup() // a day may be told as hours or as a day
			for i := range counts {
				sum.Add(&counts[i])
			}
			all = append(all, fmt.Sprintf("%s %v: %+v", by, q.Merchant, *sum))
		}
	}
	counts, err := st.Billing(t.Context(), allMonths)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(append(all, fmt.Sprint(counts)), "\n")
}

// checkWhole checks that an export of the journal verifies with so many records and archived days, and that the server
// finds nothing.
func checkWhole(t *testing.T, st journal.Store, keys *journal.Keys, at time.Time, records, archived int) {
	t.Helper()
	if err := st.Sign(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Head(t.Context(), at.Add(time.Minute), nil); err != nil {
		t.Fatal(err)
	}
	if faults := st.Faults(); len(faults) > 0 {
		t.Errorf("nothing was changed, and it says %q", faults)
	}
	var b bytes.Buffer
	if _, err := journal.WriteJSONLines(t.Context(), &b, st, keys, journal.Query{At: at}); err != nil {
		t.Fatal(err)
	}
	got, err := journal.Verify(&b, keys.PublicKey())
	if err != nil || got.Records != records || got.Archived != archived {
		t.Errorf("verified %+v, %v; want %d records, and %d days archived", got, err, records, archived)
	}
}

// verifyFile verifies the file of a day, and returns how many entries it has.
func verifyFile(t *testing.T, keys *journal.Keys, path string) int {
	t.Helper()
	f, err := journal.OpenExport(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := journal.Verify(f, keys.PublicKey())
	if err != nil {
		t.Errorf("%s: %v", path, err)
	}
	return got.Records + got.Erased
}

// TestJ7ArchivedDaysAreInFilesAndTheDatabaseIsWhole: each day is an export of its own, and the database lacks no day
// without a signature. Reports and billing say the same as before. A second run changes nothing.
func TestJ7ArchivedDaysAreInFilesAndTheDatabaseIsWhole(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		before := countsForGood(t, st)
		checkWhole(t, st, keys, archiveNow, 46, 0)
		dir := filepath.Join(t.TempDir(), "archive")
		entries, names := 0, []string{}
		for _, r := range archive(t, st, keys, dir) {
			names = append(names, r.File.Name)
			if n := verifyFile(t, keys, filepath.Join(dir, r.File.Name)); int64(n) != r.File.Entries {
				t.Errorf("%s has %d entries, and the report says %d", r.File.Name, n, r.File.Entries)
			}
			entries += int(r.File.Entries)
		}
		if want := []string{"2026-03-30.jsonl", "2026-03-31.jsonl", "2026-04-01.jsonl"}; !slices.Equal(names, want) || entries != 36 {
			t.Errorf("%d entries are in %q, want 36 in %q", entries, names, want)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "2026-03-30.jsonl")); err != nil || bytes.Contains(text, []byte("chain 2026-04-02/")) {
			t.Errorf("the file of the first day has heads of the last one, %v", err)
		}
		if after := countsForGood(t, st); after != before {
			t.Errorf("counts before:\n%s\nand after:\n%s", before, after)
		}
		checkWhole(t, st, keys, archiveNow.Add(time.Hour), 12, 3)
		page, err := st.Search(t.Context(), journal.Query{Limit: 100})
		if err != nil || len(page.Records) != 6 {
			t.Errorf("%d records are found, %v; want those of the last day", len(page.Records), err)
		}
		if _, err := st.Show(t.Context(), "00000000-0000-4000-8000-000000000003"); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("an archived authentication: %v", err)
		}
		if again := archive(t, st, keys, dir); len(again) > 0 {
			t.Errorf("a second run: %+v", again)
		}
		for range 3 { // a round of the server checks the rows of one of the months
			if err := st.Roll(t.Context(), archiveNow.AddDate(0, 0, 2), aDay); err != nil {
				t.Fatal(err)
			}
		}
		if err := journal.Mend(t.Context(), st); err != nil {
			t.Fatal(err)
		}
		if page, err := st.Search(t.Context(), journal.Query{Limit: 100}); err != nil || len(page.Records) != 6 || len(st.Faults()) > 0 {
			t.Errorf("after a check of all rows %d records are found, %v, faults %v; want those of the last day and no fault",
				len(page.Records), err, st.Faults())
		}
		if after := countsForGood(t, st); after != before {
			t.Errorf("after all was counted:\n%s\nwant:\n%s", after, before)
		}
		checkWhole(t, st, keys, archiveNow.AddDate(0, 0, 1), 12, 3)
	})
}

// A cutWriter fails after some bytes, as a process that is killed.
type cutWriter struct {
	to   io.Writer
	left int
}

func (w *cutWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	w.left -= n
	if _, err := w.to.Write(p[:n]); err != nil || n == len(p) {
		return n, err
	}
	return n, errKilled
}

// TestJ7AnArchiveThatIsKilledLosesNothing: wherever it stops, all entries are still in the database, and the next run
// archives them once.
func TestJ7AnArchiveThatIsKilledLosesNothing(t *testing.T) {
	t.Parallel()
	type kill struct {
		name   string
		write  func(io.Writer) io.Writer
		rename func(from, to string) error
		commit func() error
	}
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		before, dir := countsForGood(t, st), t.TempDir()
		var kills []kill
		for _, n := range []int{0, 1, 300, 5000, 12_000} {
			write := func(to io.Writer) io.Writer { return &cutWriter{to, n} }
			kills = append(kills, kill{name: fmt.Sprint("after ", n, " bytes"), write: write})
		}
		kills = append(kills,
			kill{name: "before the rename", rename: func(string, string) error { return errKilled }},
			kill{name: "after the rename", rename: func(from, to string) error { return errors.Join(os.Rename(from, to), errKilled) }},
			kill{name: "before the commit", commit: func() error { return errKilled }}) // in files the seal is there by then
		for _, k := range kills {
			a, _ := newArchiver(st, keys, dir)
			journal.FailSteps(a, k.write, k.rename, k.commit)
			if err := a.Run(t.Context()); !errors.Is(err, errKilled) {
				t.Fatalf("%s: %v, want that it was killed", k.name, err)
			}
			checkWhole(t, st, keys, archiveNow, 46, 0)
			if after := countsForGood(t, st); after != before {
				t.Errorf("%s: counts before:\n%s\nand after:\n%s", k.name, before, after)
			}
		}
		if strings.HasSuffix(t.Name(), "/sqlite") {
			a, reports := newArchiver(st, keys, t.TempDir())
			a.Before = day.AddDate(0, 0, 1)
			if err := a.Run(t.Context()); err != nil || len(*reports) != 1 || !strings.HasSuffix((*reports)[0].Why, "2026-03-30.jsonl: is missing") {
				t.Errorf("into another folder than that of the seal: %+v, %v", *reports, err)
			}
			checkWhole(t, st, keys, archiveNow, 46, 0)
		}
		if n := len(archive(t, st, keys, dir)); n != 3 {
			t.Errorf("%d days were archived, want 3", n)
		}
		if after := countsForGood(t, st); after != before {
			t.Errorf("counts before:\n%s\nand after:\n%s", before, after)
		}
		checkWhole(t, st, keys, archiveNow.Add(time.Hour), 12, 3)
		all, err := os.ReadDir(dir)
		entries := 0
		for _, file := range all {
			entries += verifyFile(t, keys, filepath.Join(dir, file.Name()))
		}
		if err != nil || len(all) != 3 || entries != 36 {
			t.Errorf("the folder has %v with %d entries, %v; want three files with 36", all, entries, err)
		}
	})
}

// TestJ7WhatComesForAnArchivedDayIsArchivedLater: the process that has written an archived day adds an entry to it. It
// stands in a chain of its own, is signed, and goes into a second file.
func TestJ7WhatComesForAnArchivedDayIsArchivedLater(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		dir := t.TempDir()
		archive(t, st, keys, dir)
		before := countsForGood(t, st)
		late := entry(keys, 0, journal.Answered)
		late.Record.ID = "00000000-0000-4000-8000-000000000099"
		write(t, st, late)
		a, reports := newArchiver(st, keys, dir)
		if err := a.Run(t.Context()); err != nil || len(*reports) != 1 || (*reports)[0].Why != "not all of its entries are signed yet" {
			t.Errorf("before it is signed: %+v, %v", *reports, err)
		}
		checkWhole(t, st, keys, archiveNow.AddDate(0, 0, 1), 13, 3)
		if err := st.Roll(t.Context(), archiveNow.AddDate(0, 0, 2), aDay); err != nil {
			t.Fatal(err)
		}
		if page, err := st.Search(t.Context(), journal.Query{Merchant: "shop 0", To: day.AddDate(0, 0, 1)}); err != nil || len(page.Records) != 1 {
			t.Errorf("%d records are found, %v; want the late one", len(page.Records), err)
		}
		got := archive(t, st, keys, dir)
		if len(got) != 1 || got[0].File.Name != "2026-03-30-2.jsonl" || got[0].File.Entries != 1 {
			t.Errorf("archived %+v, want one entry in 2026-03-30-2.jsonl", got)
		}
		verifyFile(t, keys, filepath.Join(dir, "2026-03-30-2.jsonl"))
		checkWhole(t, st, keys, archiveNow.AddDate(0, 0, 2), 12, 3)
		if after := countsForGood(t, st); after != before {
			t.Errorf("counts before:\n%s\nand after:\n%s", before, after)
		}
	})
}

// TestJ7DaysThatDoNotFitStay: a day that is not signed, has personal data or was changed in the store stays, and the
// report says why. The others are archived.
func TestJ7DaysThatDoNotFitStay(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		personal := entry(keys, 24, journal.Claimed)
		personal.Record.ID = "00000000-0000-4000-8000-000000000098"
		personal.Steps[0].Personal = []byte(`{"email":"jo@example.com"}`)
		write(t, st, personal)
		if err := st.Sign(t.Context(), archiveNow.AddDate(0, 0, 1)); err != nil {
			t.Fatal(err)
		}
		i := &insider{t: t, all: journal.Databases(t, st)}
		i.do(`DELETE FROM journal_records WHERE id = '00000000-0000-4000-8000-000000000016'`)
		a, reports := newArchiver(st, keys, t.TempDir())
		if err := a.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		for n, want := range []string{"", "personal data", "rows for searches"} {
			r := (*reports)[n]
			if r.Day != archiveDays[n] || !strings.Contains(r.Why, want) || (r.Why == "") != (want == "") || r.IsFault != (n == 2) {
				t.Errorf("%s: %+v, want %q", archiveDays[n], r, want)
			}
		}
	})
}

// TestJ7AnArchivedDayComesBackFromItsFile: what was imported again is found, and neither reports nor billing count it
// twice. An entry that was erased does not come back.
func TestJ7AnArchivedDayComesBackFromItsFile(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		erasedText := export(t, st, keys, journal.Query{To: day, At: archiveNow})
		if _, _, err := st.Erase(t.Context(), journal.Query{Card: "4000000000000010"}); err != nil {
			t.Fatal(err)
		}
		before, dir := countsForGood(t, st), t.TempDir()
		archive(t, st, keys, dir)
		f, err := journal.OpenExport(filepath.Join(dir, "2026-03-30.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if got, err := journal.Import(t.Context(), st, keys, f, keys.PublicKey()); err != nil || got.Added != 8 {
			t.Errorf("imported %+v, %v; want 8 entries", got, err)
		}
		if got, err := importOf(t, st, keys, erasedText, keys); err != nil || got.Added != 0 {
			t.Errorf("an export of before the erasure: imported %+v, %v; want nothing", got, err)
		}
		for range 2 {
			if after := countsForGood(t, st); after != before {
				t.Errorf("counts before:\n%s\nand after:\n%s", before, after)
			}
			if err := st.Roll(t.Context(), archiveNow.AddDate(0, 0, 1), aDay); err != nil {
				t.Fatal(err)
			}
		}
		page, err := st.Search(t.Context(), journal.Query{Merchant: "shop 0", To: day.AddDate(0, 0, 1), Limit: 100})
		if err != nil || len(page.Records) == 0 {
			t.Errorf("%d records are found, %v", len(page.Records), err)
		}
		if _, n, err := st.Erase(t.Context(), journal.Query{Card: testCard}); err != nil || n == 0 {
			t.Errorf("%d entries were erased, %v", n, err)
		}
		checkWhole(t, st, keys, archiveNow.AddDate(0, 0, 1), 0, 3)
		if got := archive(t, st, keys, dir); len(got) != 1 || got[0].File.Name != "2026-03-30-2.jsonl" {
			t.Errorf("archived again: %+v", got)
		}
		checkWhole(t, st, keys, archiveNow.AddDate(0, 0, 2), 0, 3)
	})
}

// TestJ7ABackupOfAnArchivedJournalCountsNoDayTwice: after a restore the journal still verifies and says which days are
// archived. Billing is that of before, also when a file is imported.
func TestJ7ABackupOfAnArchivedJournalCountsNoDayTwice(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, to journal.Store, keys *journal.Keys) {
		st := openFiles(t, keys)
		fillForArchive(t, st, keys)
		dir := t.TempDir()
		archive(t, st, keys, dir)
		restoreInto(t, st, to, keys)
		want := readBilling(t, st, allMonths)
		checkBilling(t, "after the restore", readBilling(t, to, allMonths), want)
		checkWhole(t, to, keys, archiveNow.Add(time.Hour), 12, 3)
		if _, faults := faultsOf(t, to, keys, dir); faults != "" {
			t.Errorf("the folder of the journal that was restored: %s", faults)
		}
		f, err := journal.OpenExport(filepath.Join(dir, "2026-03-31.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if got, err := journal.Import(t.Context(), to, keys, f, keys.PublicKey()); err != nil || got.Added != 12 {
			t.Errorf("imported %+v, %v; want 12 entries", got, err)
		}
		checkBilling(t, "after the import", readBilling(t, to, allMonths), want)
	})
}
