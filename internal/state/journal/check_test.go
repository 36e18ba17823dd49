package journal_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// rowTricks are ways to hide an authentication of a day that was signed from searches. The entry is the first one of
// insiderJournal.
var rowTricks = []struct {
	name string
	do   func(i *insider)
}{
	{"deletes the record", func(i *insider) { i.do(`DELETE FROM journal_records WHERE` + entryOf(1)) }},
	{"deletes the record, and what names it", func(i *insider) {
		i.do(`DELETE FROM journal_records WHERE` + entryOf(1))
		i.do(`DELETE FROM journal_hours`)
	}},
	{"deletes the record, and has its hour counted again", func(i *insider) {
		i.do(`DELETE FROM journal_records WHERE` + entryOf(1))
		i.do(`INSERT INTO journal_dirty (hour, writer, n) VALUES (` + hourOf(1) + ` / 3600000, 'me', 1)`)
	}},
	{"deletes the record, and all that was made of its hour", func(i *insider) {
		i.do(`DELETE FROM journal_records WHERE` + entryOf(1))
		i.do(`DELETE FROM journal_hours WHERE start = ` + hourOf(1))
		i.do(`DELETE FROM journal_rollups WHERE start = ` + hourOf(1))
		i.do(`DELETE FROM journal_postings WHERE made = ` + hourOf(1))
		i.do(`DELETE FROM journal_days`)
		i.do(`INSERT INTO journal_dirty (hour, writer, n) VALUES (` + hourOf(1) + ` / 3600000, 'me', 1)`)
	}},
	{"deletes all records of the day", func(i *insider) {
		i.do(`DELETE FROM journal_records WHERE made < ` + fmt.Sprint(day.Add(12*time.Hour).UnixMilli()))
	}},
}

// toldOf returns what searches, counts and a spreadsheet say, without what they say of changed records.
func toldOf(t *testing.T, st journal.Store) string {
	t.Helper()
	var told strings.Builder
	for _, q := range []journal.Query{{}, {Merchant: "shop 1"}, {Reference: "order 1"}, {Status: "in_progress"}} {
		page, err := st.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, r := range page.Records {
			if !r.IsChanged {
				n++
			}
		}
		fmt.Fprintf(&told, "%q: %d\n", q.Merchant+q.Reference+q.Status, n)
	}
	counts, err := st.Count(t.Context(), journal.CountQuery{By: "merchant", From: day.AddDate(0, 0, -1), To: day.AddDate(0, 0, 3), Whole: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range counts {
		fmt.Fprintf(&told, "%s: %d\n", c.Value, c.All)
	}
	return told.String() + spreadsheetOf(t, st)
}

// spreadsheetOf returns the lines of a spreadsheet, but for those of changed records.
func spreadsheetOf(t *testing.T, st journal.Store) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := journal.WriteCSV(t.Context(), &b, st, nil, journal.Query{}); err != nil {
		t.Fatal(err)
	}
	var told []string
	for line := range strings.SplitSeq(b.String(), "\n") {
		if !strings.Contains(line, journal.ChangedInStore) {
			told = append(told, line)
		}
	}
	return strings.Join(told, "\n")
}

// fillAndHide fills a journal, returns what searches and a spreadsheet of it say, and then plays a trick on it.
func fillAndHide(t *testing.T, st journal.Store, keys *journal.Keys, trick func(*insider)) (told, spreadsheet string) {
	t.Helper()
	i := fillForInsider(t, st, keys)
	told, spreadsheet = toldOf(t, st), spreadsheetOf(t, st)
	if faults := st.Faults(); len(faults) > 0 {
		t.Fatal(faults)
	}
	trick(i)
	return told, spreadsheet
}

// TestA2ARecordThatWasDeletedAfterItsDayWasSignedIsToldAgain: the next round of the server reports it, and from then on
// pages, counts and spreadsheets say what they said before.
func TestA2ARecordThatWasDeletedAfterItsDayWasSignedIsToldAgain(t *testing.T) {
	t.Parallel()
	for _, trick := range rowTricks {
		t.Run(trick.name, func(t *testing.T) {
			t.Parallel()
			eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
				told, _ := fillAndHide(t, st, keys, trick.do)
				for range 2 { // the first round says what is missing, the next one counts again
					if err := st.Roll(t.Context(), day.Add(37*time.Hour), aDay); err != nil {
						t.Fatal(err)
					}
				}
				if faults := fmt.Sprint(st.Faults()); !strings.Contains(faults, "rows for searches of the day 2026-03-30 were deleted") {
					t.Errorf("faults: %s", faults)
				}
				if got := toldOf(t, st); got != told {
					t.Errorf("told:\n%s\nbefore:\n%s", got, told)
				}
			})
		})
	}
}

// TestA2AnExportSaysThatRecordsWereDeleted: its first export is not signed, and a spreadsheet has all records. What was
// missing is written again, so the next export is signed.
func TestA2AnExportSaysThatRecordsWereDeleted(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		told, _ := fillAndHide(t, st, keys, rowTricks[0].do)
		q := journal.Query{At: day.Add(35 * time.Hour)}
		var b bytes.Buffer
		_, err := journal.WriteJSONLines(t.Context(), &b, st, keys, q)
		if !journal.IsChanged(err) || !strings.Contains(err.Error(), "1 rows for searches of the day 2026-03-30") {
			t.Errorf("the export says %v", err)
		}
		if _, err := journal.Verify(&b, keys.PublicKey()); err == nil {
			t.Error("verify says nothing")
		}
		b.Reset()
		if _, err := journal.WriteJSONLines(t.Context(), &b, st, keys, q); err != nil {
			t.Errorf("the next export says %v", err)
		}
		if _, err := journal.Verify(&b, keys.PublicKey()); err != nil {
			t.Errorf("verify says %v of the next one", err)
		}
		if got := toldOf(t, st); got != told {
			t.Errorf("told:\n%s\nbefore:\n%s", got, told)
		}
	})
}

// TestA2ASpreadsheetHasWhatWasDeleted: it has the records that were deleted after their day was signed.
func TestA2ASpreadsheetHasWhatWasDeleted(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		_, want := fillAndHide(t, st, keys, rowTricks[0].do)
		if got := spreadsheetOf(t, st); got != want {
			t.Errorf("the spreadsheet:\n%s\nbefore:\n%s", got, want)
		}
		if len(st.Faults()) == 0 {
			t.Error("nothing is reported")
		}
	})
}

// TestA2WhatGoesRightlyIsNotMissed: erasures, late entries and days that are over their time are no faults. An older
// copy of the rows that name records does not bring back what was erased.
func TestA2WhatGoesRightlyIsNotMissed(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		i := fillForInsider(t, st, keys)
		roll := func(what string) {
			t.Helper()
			for range 2 {
				if err := st.Roll(t.Context(), day.Add(37*time.Hour), aDay); err != nil {
					t.Fatal(err)
				}
			}
			if faults := st.Faults(); len(faults) > 0 {
				t.Fatalf("%s: %v", what, faults)
			}
		}
		roll("nothing has changed")
		i.copyTables()
		late := entry(keys, 7, journal.Answered)
		late.Record.Created = day.Add(7 * time.Minute)
		write(t, st, late)
		roll("a late entry")
		if _, n, err := st.Erase(t.Context(), journal.Query{Merchant: "shop 1"}); err != nil || n == 0 {
			t.Fatalf("%d entries were erased, %v", n, err)
		}
		roll("an erasure")
		if page, err := st.Search(t.Context(), journal.Query{Merchant: "shop 1"}); err != nil || len(page.Records) > 0 {
			t.Errorf("after the erasure %d records are found, %v", len(page.Records), err)
		}
		if err := st.Expire(t.Context(), day.AddDate(0, 0, 1)); err != nil {
			t.Fatal(err)
		}
		roll("days that are over their time")
		i.restoreTables("journal_hours") // as it was before the erasure
		if err := st.Roll(t.Context(), day.Add(37*time.Hour), aDay); err != nil {
			t.Fatal(err)
		}
		if page, err := st.Search(t.Context(), journal.Query{Merchant: "shop 1"}); err != nil || len(page.Records) > 0 {
			t.Errorf("after an older copy %d records are found, %v", len(page.Records), err)
		}
		if faults := fmt.Sprint(st.Faults()); strings.Contains(faults, "rows for searches") {
			t.Errorf("an older copy: %s", faults)
		}
	})
}

// TestA2ALateRecordIsNamedToo: what comes for a day that was signed is missed, too, when it was deleted.
func TestA2ALateRecordIsNamedToo(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		i := fillForInsider(t, st, keys)
		late := entry(keys, 7, journal.Answered)
		late.Record.Created = day.Add(7 * time.Minute)
		write(t, st, late)
		if err := st.Roll(t.Context(), day.Add(37*time.Hour), aDay); err != nil {
			t.Fatal(err)
		}
		told := toldOf(t, st)
		i.do(`DELETE FROM journal_records WHERE` + entryOf(7))
		if err := st.Roll(t.Context(), day.Add(37*time.Hour), aDay); err != nil {
			t.Fatal(err)
		}
		if got := toldOf(t, st); got != told || len(st.Faults()) != 1 {
			t.Errorf("faults: %v; told:\n%s\nbefore:\n%s", st.Faults(), got, told)
		}
	})
}
