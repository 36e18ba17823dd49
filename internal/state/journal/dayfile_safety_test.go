package journal_test

import (
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
