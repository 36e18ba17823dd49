package journal_test

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// TestJ7NoFileOfAnotherJournalIsReplaced: two journals of the same days in one folder. The days of the second one stay in
// its database, and the files of the first one are as they were.
func TestJ7NoFileOfAnotherJournalIsReplaced(t *testing.T) {
	t.Parallel()
	sqliteAlone(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		other := journal.NewKeys()
		second, err := journal.OpenFiles(t.TempDir(), other)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = second.Close() })
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
			t.Errorf("%+v, want that the day stays for now", first)
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

// TestJ7ASealIsOnTheDiskBeforeItsDayGoes: the seals of a journal in files are in a file of their own. If the power failed
// after the day was removed, and the seal were not on the disk, the journal would lack chains that no seal says are archived.
func TestJ7ASealIsOnTheDiskBeforeItsDayGoes(t *testing.T) {
	t.Parallel()
	sqliteAlone(t, func(t *testing.T, st journal.Store, _ *journal.Keys) {
		if level := journal.SealsSync(t, st); level < 2 {
			t.Errorf("PRAGMA synchronous is %d, want 2: each seal is on the disk when it was made", level)
		}
	})
}
