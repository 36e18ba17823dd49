package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// TestJ7NoFileOfAnotherJournalIsReplaced: two journals of the same days in one folder. The days of the second one stay
// in its database, and the files of the first one are as they were.
func TestJ7NoFileOfAnotherJournalIsReplaced(t *testing.T) {
	t.Parallel()
	sqliteAlone(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		other := journal.NewKeys()
		second := openFiles(t, other)
		fillForArchive(t, second, other)
		dir := t.TempDir()
		archive(t, st, keys, dir)
		compress(t, dir, "2026-03-31.jsonl")
		a, reports := newArchiver(second, other, dir)
		if err := a.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(*reports) != 3 {
			t.Errorf("%+v, want three days", *reports)
		}
		for _, r := range *reports {
			if !r.IsFault || !strings.Contains(r.Why, filepath.Join(dir, r.Day)+".jsonl") || !strings.Contains(r.Why, "another journal") {
				t.Errorf("%+v, want that the day stays, for the file is of another journal", r)
			}
		}
		checkWhole(t, second, other, archiveNow, 46, 0)
		if got, faults := faultsOf(t, st, keys, dir); faults != "" || got.Files != 3 {
			t.Errorf("the folder of the first journal: %+v %s", got, faults)
		}
	})
}

// An actingWriter acts when the last line of an export was written.
type actingWriter struct {
	to  io.Writer
	act func()
}

func (w *actingWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if bytes.Contains(p, []byte(`"type":"end"`)) {
		w.act()
	}
	return n, err
}

// TestJ6WhatIsErasedWhileItsFileIsWrittenIsNotInTheFile: the day stays in the database until a file was written without
// what was erased.
func TestJ6WhatIsErasedWhileItsFileIsWrittenIsNotInTheFile(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		dir, card, isErased := t.TempDir(), "4000000000000010", false
		erase := func() {
			if !isErased {
				isErased = true
				if _, n, err := st.Erase(t.Context(), journal.Query{Card: card}); err != nil || n == 0 {
					t.Errorf("%d entries were erased, %v", n, err)
				}
			}
		}
		a, reports := newArchiver(st, keys, dir)
		journal.FailSteps(a, func(to io.Writer) io.Writer { return &actingWriter{to, erase} }, nil, nil)
		if err := a.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if first := (*reports)[0]; !strings.Contains(first.Why, "erased while its file was written") || first.IsFault {
			t.Errorf("%+v, want that the day stays until the next run", first)
		}
		if n := len(archive(t, st, keys, dir)); n != 1 {
			t.Errorf("%d days were archived by the second run, want 1", n)
		}
		if got, faults := faultsOf(t, st, keys, dir); faults != "" || got.Files != 3 {
			t.Errorf("%+v %s", got, faults)
		}
		if text := folderText(t, dir); strings.Contains(text, hexOf(keys.CardHash(card))) {
			t.Error("a file has the card that was erased")
		}
	})
}

// TestJ7ASealIsOnTheDiskBeforeItsDayGoes: the seals of a journal in files are in a file of their own. If the
// power failed after the day was removed, and the seal were not on the disk, the journal would lack chains that
// no seal says are archived.
func TestJ7ASealIsOnTheDiskBeforeItsDayGoes(t *testing.T) {
	t.Parallel()
	sqliteAlone(t, func(t *testing.T, st journal.Store, _ *journal.Keys) {
		if level := journal.SealsSync(t, st); level < 2 {
			t.Errorf("PRAGMA synchronous is %d, want 2: each seal is on the disk when it was made", level)
		}
	})
}

// TestJ7ASearchInAFolderSaysWhatIsMissing: a file that the seals name and that is not there, and a copy of before an
// erasure, are errors that name the file. A link to a file is as good as the file.
func TestJ7ASearchInAFolderSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	sqliteAlone(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		dir, elsewhere, card := t.TempDir(), filepath.Join(t.TempDir(), "moved"), "4000000000000010"
		archive(t, st, keys, dir)
		folder, id := &journal.Folder{Dir: dir, Keys: keys}, "00000000-0000-4000-8000-000000000003"
		path := filepath.Join(dir, "2026-03-30.jsonl")
		check := func(what, want string) {
			t.Helper()
			_, searched := folder.Search(t.Context(), st, journal.Query{Limit: 100})
			_, shown := folder.Show(t.Context(), st, id)
			for _, err := range []error{searched, shown} {
				if text := fmt.Sprint(err); !strings.HasSuffix(text, want) || want != "<nil>" && !strings.Contains(text, path) {
					t.Errorf("%s: %v, want %q", what, err, want)
				}
			}
		}
		check("as it was", "<nil>")
		old, err := os.ReadFile(path)
		if err == nil {
			err = os.Rename(path, elsewhere)
		}
		if err != nil {
			t.Fatal(err)
		}
		check("a file is gone", "is missing")
		if err := os.Symlink(elsewhere, path); err != nil {
			t.Fatal(err)
		}
		check("a link", "<nil>")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(elsewhere, path); err != nil {
			t.Fatal(err)
		}
		if _, err := folder.Erase(t.Context(), st, journal.Query{Card: card}); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, old, 0o600); err != nil {
			t.Fatal(err)
		}
		check("a copy of before an erasure", "is a copy of before an erasure: replace it, or erase again")
	})
}

// TestJ7WhatWasMadeAgainDoesNotReplaceAnArchivedEntry: a server that starts adds what the journal lacks of transactions
// that the store still has. An entry of an archived day, which then is in a second file, too, is shown as it was first.
// A later result in that file is the newest one.
func TestJ7WhatWasMadeAgainDoesNotReplaceAnArchivedEntry(t *testing.T) {
	t.Parallel()
	sqliteAlone(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		dir := t.TempDir()
		folder, id := &journal.Folder{Dir: dir, Keys: keys}, "00000000-0000-4000-8000-000000000003"
		gone := entry(keys, 0, journal.Cancelled)
		gone.Record.ID, gone.Record.Status = id, "cancelled"
		write(t, st, gone)
		if err := st.Sign(t.Context(), archiveNow.AddDate(0, 0, 1)); err != nil {
			t.Fatal(err)
		}
		archive(t, st, keys, dir)
		want, err := folder.Show(t.Context(), st, id)
		if err != nil {
			t.Fatal(err)
		}
		again := entry(keys, 0, journal.Cancelled)
		again.Record.ID, again.Record.Status, again.Record.Reference = id, "cancelled", "made again"
		write(t, st, again)
		if err := st.Sign(t.Context(), archiveNow.AddDate(0, 0, 2)); err != nil {
			t.Fatal(err)
		}
		archive(t, st, keys, dir)
		if got, err := folder.Show(t.Context(), st, id); err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("shown as %+v, %v, want %+v", got, err, want)
		}
		page, err := folder.Search(t.Context(), st, journal.Query{ID: id})
		if err != nil || len(page.Records) != 1 || page.Records[0].Reference != want.Reference {
			t.Errorf("found %+v, %v; want the reference %q", page.Records, err, want.Reference)
		}
		result := entry(keys, 0, journal.Resulted)
		result.Record.ID, result.Record.Status = id, "completed"
		write(t, st, result)
		if err := st.Sign(t.Context(), archiveNow.AddDate(0, 0, 3)); err != nil {
			t.Fatal(err)
		}
		archive(t, st, keys, dir)
		page, err = folder.Search(t.Context(), st, journal.Query{ID: id})
		if err != nil || len(page.Records) != 1 || page.Records[0].Status != "completed" {
			t.Errorf("found %+v, %v; want the result that came later", page.Records, err)
		}
	})
}

// TestJ6AnErasureSignsNothingThatWasNotChecked: somebody replaces the second file of a day while the first one is
// written again. The erasure says so, and signs no new version of that file.
func TestJ6AnErasureSignsNothingThatWasNotChecked(t *testing.T) {
	t.Parallel()
	sqliteAlone(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		dir, card := t.TempDir(), "4000000000000010"
		archive(t, st, keys, dir)
		late := entry(keys, 0, journal.Answered)
		late.Record.ID, late.CardHash = "00000000-0000-4000-8000-000000000099", keys.CardHash(card)
		write(t, st, late)
		if err := st.Sign(t.Context(), archiveNow.AddDate(0, 0, 1)); err != nil {
			t.Fatal(err)
		}
		archive(t, st, keys, dir)
		second := filepath.Join(dir, "2026-03-30-2.jsonl")
		whole, err := os.ReadFile(second)
		if err != nil {
			t.Fatal(err)
		}
		folder := &journal.Folder{Dir: dir, Keys: keys}
		journal.FailRename(folder, func(from, to string) error {
			header, _, _ := bytes.Cut(whole, []byte("\n"))
			return errors.Join(os.WriteFile(second, append(header, '\n'), 0o600), os.Rename(from, to))
		})
		if _, err := folder.Erase(t.Context(), st, journal.Query{Card: card}); err == nil ||
			!strings.HasSuffix(err.Error(), second+": was changed while it was read") {
			t.Errorf("%v, want that the file was changed", err)
		}
		if err := os.WriteFile(second, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		journal.FailRename(folder, nil)
		if done, err := folder.Erase(t.Context(), st, journal.Query{Card: card}); err != nil || len(done.Faults) > 0 {
			t.Errorf("after the file came back: %+v, %v", done, err)
		}
		if got, faults := faultsOf(t, st, keys, dir); faults != "" || got.Files != 4 {
			t.Errorf("%+v %s", got, faults)
		}
	})
}

// TestJ7NobodyWithoutTheKeysSaysThatADayIsArchived: records of archived days are not counted again. A row of a chain
// that says so of a day, and that was added in the database, takes nothing from reports and billing.
func TestJ7NobodyWithoutTheKeysSaysThatADayIsArchived(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		before := countsForGood(t, st)
		i := &insider{t: t, all: journal.Databases(t, st)}
		for _, day := range archiveDays {
			i.do(`INSERT INTO journal_chains (chain, day, seq, link, closed)
				SELECT '` + day + `/00ff', '` + day + `', 1, link, 2 FROM journal_chains LIMIT 1`)
		}
		if err := st.Roll(t.Context(), archiveNow.AddDate(0, 0, 1), aDay); err != nil {
			t.Fatal(err)
		}
		if after := countsForGood(t, st); after != before {
			t.Errorf("counts before:\n%s\nand after:\n%s", before, after)
		}
	})
}
