package journal_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// faultsOf returns what a verification says of a folder.
func faultsOf(t *testing.T, st journal.Store, keys *journal.Keys, dir string) (journal.FolderVerified, string) {
	t.Helper()
	got, err := (&journal.Folder{Dir: dir, Keys: keys}).Verify(t.Context(), st)
	if err != nil {
		t.Fatal(err)
	}
	return got, strings.ReplaceAll(strings.Join(got.Faults, "\n"), dir+string(filepath.Separator), "")
}

// compress compresses a file of a folder as gzip does.
func compress(t *testing.T, dir, name string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err = w.Write(text); err == nil {
		err = w.Close()
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".gz"), b.Bytes(), 0o600)
	}
	if err == nil {
		err = os.Remove(filepath.Join(dir, name))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestJ7AFolderNamesTheFileThatIsWrong: one that is missing, that was changed by one byte, that is of
// another journal, of another day, or another export of the same day. A folder that is whole has no fault,
// also when files are compressed.
func TestJ7AFolderNamesTheFileThatIsWrong(t *testing.T) {
	t.Parallel()
	sqliteAlone(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		other := journal.NewKeys()
		foreign := openFiles(t, other)
		fillForArchive(t, foreign, other)
		again := export(t, st, keys, journal.Query{From: day, To: day, At: archiveNow.AddDate(0, 0, 1)})
		dir, foreignDir := t.TempDir(), t.TempDir()
		archive(t, st, keys, dir)
		archive(t, foreign, other, foreignDir)
		compress(t, dir, "2026-03-31.jsonl")
		if got, faults := faultsOf(t, st, keys, dir); faults != "" || got.Files != 3 || got.Records+got.Erased != 36 {
			t.Errorf("a whole folder: %+v %s", got, faults)
		}
		if got, err := journal.VerifyFolder(dir, keys.PublicKey()); err != nil || len(got.Faults) > 0 || got.Files != 3 {
			t.Errorf("a whole folder without the journal: %+v, %v", got, err)
		}
		first := filepath.Join(dir, "2026-03-30.jsonl")
		whole, err := os.ReadFile(first)
		if err != nil {
			t.Fatal(err)
		}
		third, err := os.ReadFile(filepath.Join(dir, "2026-04-01.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		ofOther, err := os.ReadFile(filepath.Join(foreignDir, "2026-03-30.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		changed := slices.Clone(whole)
		changed[len(changed)/2] ^= 1
		for name, tt := range map[string]struct {
			text []byte
			want string
		}{
			"missing":         {nil, "2026-03-30.jsonl: is missing"},
			"changed":         {changed, "2026-03-30.jsonl: was changed: line "},
			"cut":             {whole[:len(whole)-1], "2026-03-30.jsonl: was changed: line "},
			"another journal": {ofOther, "2026-03-30.jsonl: is of another journal"},
			"another day":     {third, "2026-03-30.jsonl: was changed: line 1: it has another day than its name says"},
			"another export":  {[]byte(again), "2026-03-30.jsonl: is another export of this journal than the one that its seal names"},
		} {
			if tt.text == nil {
				err = os.Remove(first)
			} else {
				err = os.WriteFile(first, tt.text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, faults := faultsOf(t, st, keys, dir); !strings.HasPrefix(faults, tt.want) || got.Files != 2 {
				t.Errorf("%s: %+v %q, want %q", name, got, faults, tt.want)
			}
		}
		if err := os.WriteFile(first, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "2026-04-02.jsonl"), third, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, faults := faultsOf(t, st, keys, dir); !strings.HasPrefix(faults, "2026-04-02.jsonl: ") {
			t.Errorf("a file more: %q", faults)
		}
	})
}

// TestJ7AFolderIsSearchedAsTheDatabaseWas: searches, in pages as well, and authentications are the same in the files as
// they were in the database.
func TestJ7AFolderIsSearchedAsTheDatabaseWas(t *testing.T) {
	t.Parallel()
	sqliteAlone(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		fillForArchive(t, st, keys)
		refused := entry(keys, 3, journal.Refused)
		refused.Record.ID, refused.Record.NamedID, refused.Record.Status = "request-1", "AAAA-named", journal.RefusedRequest
		write(t, st, refused)
		if err := st.Sign(t.Context(), archiveNow.AddDate(0, 0, 1)); err != nil {
			t.Fatal(err)
		}
		until := archiveNow.AddDate(0, 0, -1).Truncate(aDay)
		queries := []journal.Query{
			{}, {Limit: 5}, {ID: "00000000-0000-4000-8000-000000000003"}, {ID: "aaaa-named"}, {Card: "4000000000000010"},
			{Card: "4000000000000028"}, {Merchant: "shop 1"}, {Status: "in_progress"}, {Status: "completed", Limit: 3}, {Reference: "order 4"},
			{Last4: "0002", Scheme: "visa"}, {Begun: true}, {From: day, To: day.AddDate(0, 0, 1)}, {Merchant: "nobody"},
		}
		read := func(search func(q journal.Query) (journal.Page, error)) (all []string) {
			for _, q := range queries {
				q.To = until
				for page := 0; ; page++ {
					got, err := search(q)
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, fmt.Sprintf("%+v page %d: %+v", q, page, got))
					if q.Cursor = got.Next; q.Cursor == "" {
						break
					}
				}
			}
			return all
		}
		want := read(func(q journal.Query) (journal.Page, error) { return st.Search(t.Context(), q) })
		details := func(show func(id string) (journal.Detail, error)) (all []string) {
			for _, id := range []string{"00000000-0000-4000-8000-000000000003", "request-1", "AAAA-NAMED", "00000000-0000-4000-8000-000000000002", "none"} {
				d, err := show(id)
				all = append(all, fmt.Sprintf("%s: %+v %v", id, d, err))
			}
			return all
		}
		wantDetails := details(func(id string) (journal.Detail, error) { return st.Show(t.Context(), id) })
		dir := t.TempDir()
		archive(t, st, keys, dir)
		folder := &journal.Folder{Dir: dir, Keys: keys}
		got := read(func(q journal.Query) (journal.Page, error) { return folder.Search(t.Context(), st, q) })
		for i := range want {
			if i >= len(got) || got[i] != want[i] {
				t.Errorf("in the folder:\n%s\nin the database:\n%s", got[min(i, len(got)-1)], want[i])
			}
		}
		for i, got := range details(func(id string) (journal.Detail, error) { return folder.Show(t.Context(), st, id) }) {
			if got != wantDetails[i] {
				t.Errorf("in the folder:\n%s\nin the database:\n%s", got, wantDetails[i])
			}
		}
		path := filepath.Join(dir, "2026-03-31.jsonl")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text[len(text)/2] ^= 1
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := folder.Search(t.Context(), st, journal.Query{Limit: 100}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("a search in a file that was changed: %v", err)
		}
	})
}
