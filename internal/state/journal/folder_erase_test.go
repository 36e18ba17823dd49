package journal_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// folderText returns all that the files of a folder have, decompressed.
func folderText(t *testing.T, dir string) string {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, file := range all {
		f, err := journal.OpenExport(filepath.Join(dir, file.Name()))
		if err == nil {
			_, err = b.ReadFrom(f)
		}
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	return b.String()
}

// TestJ6AnErasureReachesTheFilesOfAFolder: the entries of a card lose their content behind a tombstone, in a compressed
// file as well. The files verify, the database too, and an older copy of a file is named. Neither an import nor a
// second erasure finds anything of the card. Reports and billing stay.
func TestJ6AnErasureReachesTheFilesOfAFolder(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		before := countsForGood(t, st)
		dir, card := t.TempDir(), "4000000000000010"
		archive(t, st, keys, dir)
		compress(t, dir, "2026-03-31.jsonl")
		old, err := os.ReadFile(filepath.Join(dir, "2026-03-30.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		folder := &journal.Folder{Dir: dir, Keys: keys}
		done, err := folder.Erase(t.Context(), st, journal.Query{Card: card, By: "cli:jo"})
		if err != nil || done.Entries != 6 || done.Files != 3 || len(done.Faults) > 0 {
			t.Errorf("erased %+v, %v; want 6 entries of 3 files", done, err)
		}
		if got, faults := faultsOf(t, st, keys, dir); faults != "" || got.Erased != 8 || got.Records != 28 {
			t.Errorf("after the erasure: %+v %s", got, faults)
		}
		if page, err := folder.Search(t.Context(), st, journal.Query{Card: card}); err != nil || len(page.Records) != 0 {
			t.Errorf("%d records of the card are found, %v", len(page.Records), err)
		}
		if text := folderText(t, dir); strings.Contains(text, hexOf(keys.CardHash(card))) || strings.Contains(text, "000000000001\"") {
			t.Error("the files still have the card, or its authentication")
		}
		checkWhole(t, st, keys, archiveNow, 12, 3)
		if after := countsForGood(t, st); after != before {
			t.Errorf("counts before:\n%s\nand after:\n%s", before, after)
		}
		if got, err := importOf(t, st, keys, string(old), keys); err != nil || got.Added != 8 {
			t.Errorf("a copy of before the erasure: imported %+v, %v; want all but what was erased", got, err)
		}
		if done, err := folder.Erase(t.Context(), st, journal.Query{Card: card}); err != nil || done.Entries != 0 || done.Files != 0 {
			t.Errorf("erased again: %+v, %v", done, err)
		}
		if err := os.WriteFile(filepath.Join(dir, "2026-03-30.jsonl"), old, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, faults := faultsOf(t, st, keys, dir); faults != "2026-03-30.jsonl: is a copy of before an erasure: replace it, or erase again" {
			t.Errorf("an older copy: %q", faults)
		}
		if done, err := folder.Erase(t.Context(), st, journal.Query{Merchant: "nobody"}); err != nil || done.Files != 1 {
			t.Errorf("an erasure of nothing: %+v, %v; want that the older copy is written again", done, err)
		}
		if got, faults := faultsOf(t, st, keys, dir); faults != "" || got.Erased != 8 {
			t.Errorf("after that: %+v %s", got, faults)
		}
	})
}

// TestJ6AnErasureInAFolderThatIsKilledGoesOn: after a crash between the tombstone, the seal and the new file the same
// erasure finishes what it began.
func TestJ6AnErasureInAFolderThatIsKilledGoesOn(t *testing.T) {
	t.Parallel()
	sqliteAlone(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		dir := t.TempDir()
		archive(t, st, keys, dir)
		q := journal.Query{Card: "4000000000000010"}
		folder := &journal.Folder{Dir: dir, Keys: keys}
		for _, rename := range []func(from, to string) error{
			func(string, string) error { return errKilled },
			func(from, to string) error { return errors.Join(os.Rename(from, to), errKilled) },
		} {
			journal.FailRename(folder, rename)
			if _, err := folder.Erase(t.Context(), st, q); !errors.Is(err, errKilled) {
				t.Fatalf("%v, want that it was killed", err)
			}
		}
		journal.FailRename(folder, nil)
		if done, err := folder.Erase(t.Context(), st, q); err != nil || len(done.Faults) > 0 {
			t.Errorf("the erasure that goes on: %+v, %v", done, err)
		}
		if got, faults := faultsOf(t, st, keys, dir); faults != "" || got.Erased != 8 {
			t.Errorf("after the erasure: %+v %s", got, faults)
		}
		if all, err := os.ReadDir(dir); err != nil || len(all) != 3 {
			t.Errorf("the folder has %v, %v", all, err)
		}
		checkWhole(t, st, keys, archiveNow, 12, 3)
	})
}

// TestJ6AnErasureInAFolderThatIsUndoneIsNotImported: the tombstones of SQLite are there, and the transaction that notes
// which ids were erased was undone. The same erasure once more notes them: else an import of an older copy would bring
// back what was erased, for its keys are there.
func TestJ6AnErasureInAFolderThatIsUndoneIsNotImported(t *testing.T) {
	t.Parallel()
	sqliteAlone(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		journal.LimitForgotten(keys, 0)
		fillForArchive(t, st, keys)
		dir := t.TempDir()
		archive(t, st, keys, dir)
		old, err := os.ReadFile(filepath.Join(dir, "2026-03-30.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		q := journal.Query{Card: "4000000000000010"}
		folder := &journal.Folder{Dir: dir, Keys: keys}
		journal.FailRename(folder, func(string, string) error { return errKilled })
		if _, err := folder.Erase(t.Context(), st, q); !errors.Is(err, errKilled) {
			t.Fatalf("%v, want that it was killed", err)
		}
		for _, db := range journal.Databases(t, st) {
			if _, err := db.ExecContext(t.Context(), `DELETE FROM journal_places`); err != nil {
				t.Fatal(err)
			}
		}
		journal.FailRename(folder, nil)
		if done, err := folder.Erase(t.Context(), st, q); err != nil || len(done.Faults) > 0 {
			t.Fatalf("the erasure that goes on: %+v, %v", done, err)
		}
		if got, err := importOf(t, st, keys, string(old), keys); err != nil || got.Added != 8 {
			t.Errorf("a copy of before the erasure: imported %+v, %v; want all but what was erased", got, err)
		}
	})
}

// TestJ6AFileThatWasChangedKeepsNoOtherFromBeingErased: the result names it, and the other files are erased.
func TestJ6AFileThatWasChangedKeepsNoOtherFromBeingErased(t *testing.T) {
	t.Parallel()
	sqliteAlone(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		dir := t.TempDir()
		archive(t, st, keys, dir)
		if err := os.Remove(filepath.Join(dir, "2026-03-31.jsonl")); err != nil {
			t.Fatal(err)
		}
		done, err := (&journal.Folder{Dir: dir, Keys: keys}).Erase(t.Context(), st, journal.Query{Merchant: "shop 1"})
		if err != nil || done.Files != 2 || len(done.Faults) != 1 || !strings.HasSuffix(done.Faults[0], "2026-03-31.jsonl: is missing") {
			t.Errorf("%+v, %v; want two files erased, and one named", done, err)
		}
	})
}

// TestJ6AnErasureFromFilesSaysThatItForgetsNoKeys: an erasure in a folder that is beyond the limit of keys says so, as
// one in the database does. Else nobody would know that backups of the database have the text.
func TestJ6AnErasureFromFilesSaysThatItForgetsNoKeys(t *testing.T) {
	sqliteAlone(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		dir := t.TempDir()
		archive(t, st, keys, dir)
		before := journal.CountForgotten(keys)
		defer journal.LimitForgotten(keys, before)()
		done, err := (&journal.Folder{Dir: dir, Keys: keys}).Erase(t.Context(), st, journal.Query{Card: "4000000000000010"})
		if err != nil || done.Entries == 0 {
			t.Fatal(done, err)
		}
		if n := journal.CountForgotten(keys); n == before && done.Unforgotten == 0 {
			t.Errorf("%d entries were erased from files, no key was forgotten, and it says only %+v", done.Entries, done)
		}
	})
}
