package journal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// newKeyFile makes a file of keys, and returns it with its keys.
func newKeyFile(t *testing.T) (journal.KeyFile, *journal.Keys) {
	t.Helper()
	file := journal.KeyFile{Path: filepath.Join(t.TempDir(), "journal-keys.json")}
	keys, err := file.LoadOrCreate()
	if err != nil {
		t.Fatal(err)
	}
	return file, keys
}

// load returns the keys of a file as it is now.
func load(t *testing.T, file journal.KeyFile) *journal.Keys {
	t.Helper()
	keys, err := file.Load()
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// copyKeyFile copies a file of keys to another node.
func copyKeyFile(t *testing.T, from journal.KeyFile) journal.KeyFile {
	t.Helper()
	data, err := os.ReadFile(from.Path)
	to := journal.KeyFile{Path: filepath.Join(t.TempDir(), "journal-keys.json")}
	if err := errors.Join(err, os.WriteFile(to.Path, data, 0o600)); err != nil {
		t.Fatal(err)
	}
	return to
}

// The canaries of an authentication stand in what is sealed of it, in each part once.
var canaryParts = []string{"content", "message", "personal"}

func canaryOf(part string, n int) string { return fmt.Sprintf("canary-%s-%02d-", part, n) }

// canaryEntry returns the nth entry of a test with its canaries. Each third one is of testCard.
func canaryEntry(keys *journal.Keys, n int) journal.Entry {
	e := entry(keys, 0, journal.Answered)
	e.Record.ID = fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
	e.Record.Created = day.Add(time.Duration(n) * time.Second)
	e.CardHash = keys.CardHash("4000000000000010")
	if isErased(n) {
		e.CardHash = keys.CardHash(testCard)
	}
	e.Steps = []journal.Step{{
		Step: "areq", At: e.Record.Created, Findings: []string{canaryOf("content", n)},
		Message:  fmt.Appendf(nil, `{"messageType":"AReq","text":%q}`, canaryOf("message", n)),
		Personal: fmt.Appendf(nil, `{"email":%q}`, canaryOf("personal", n)),
	}}
	e.Record.Amount = canaryOf("content", n) // in the record, too
	return e
}

func isErased(n int) bool { return n%3 == 1 }

const canaries = 12

// writeCanaries writes entries with canaries into one frame.
func writeCanaries(t *testing.T, st journal.Store, keys *journal.Keys) {
	t.Helper()
	var all []journal.Entry
	for n := range canaries {
		all = append(all, canaryEntry(keys, n))
	}
	write(t, st, all...)
}

// checkCopy checks that an old copy of a journal shows nothing of what was erased, however it is read, and all of the
// others.
func checkCopy(t *testing.T, st journal.Store, keys *journal.Keys) {
	t.Helper()
	shown := map[string]string{"the texts that open": journal.OpenedTexts(t, st)}
	for n := range canaries {
		d, err := st.Show(t.Context(), canaryEntry(keys, n).Record.ID)
		if (err != nil) != isErased(n) || err != nil && !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("authentication %d: %v", n, err)
		}
		text, _ := json.Marshal(d) // a detail can be written
		shown["what is shown"] += string(text)
	}
	page, err := st.Search(t.Context(), journal.Query{Limit: 100})
	if err != nil || len(page.Records) != canaries {
		t.Errorf("a search finds %d, %v", len(page.Records), err)
	}
	erased := 0
	for _, r := range page.Records {
		if r.Status == journal.ErasedInStore {
			erased++
		}
		if r.IsChanged {
			t.Errorf("%s counts as changed", r.ID)
		}
	}
	text, _ := json.Marshal(page)
	for n := range canaries {
		found := strings.Contains(string(text), canaryOf("content", n))
		if found == isErased(n) {
			t.Errorf("a search shows the content of authentication %d: %t", n, found)
		}
	}
	var b bytes.Buffer
	if _, err := journal.WriteJSONLines(t.Context(), &b, st, keys, journal.Query{At: day.Add(time.Hour)}); err != nil {
		t.Errorf("the copy is exported: %v", err)
	}
	if got, err := journal.Verify(bytes.NewReader(b.Bytes()), keys.PublicKey()); err != nil || got.Forgotten != canaries/3 ||
		got.Erased != canaries/3 || got.Records != canaries*2/3 || erased != canaries/3 {
		t.Errorf("verify says %+v, %v; %d are told as erased", got, err, erased)
	}
	shown["an export"] = b.String()
	for what, text := range shown {
		for n := range canaries {
			for _, part := range canaryParts {
				if what == "an export" && part == "personal" {
					continue // no export has them
				}
				if strings.Contains(text, canaryOf(part, n)) == isErased(n) {
					t.Errorf("%s has the %s of authentication %d: %t", what, part, n, !isErased(n) == false)
				}
			}
		}
	}
	if err := st.Sign(t.Context(), day.AddDate(0, 0, 1)); err != nil {
		t.Error(err)
	}
	// The duty that mends rows takes those of erased authentications.
	if err := st.Roll(t.Context(), day.AddDate(0, 0, 1), aDay); err != nil {
		t.Error(err)
	}
	if page, err := st.Search(t.Context(), journal.Query{Limit: 100}); err != nil || len(page.Records) != canaries*2/3 {
		t.Errorf("after the duty a search finds %d, %v", len(page.Records), err)
	}
	if faults := st.Faults(); len(faults) > 0 {
		t.Errorf("the copy counts as changed: %q", faults)
	}
}

// eraseCanaries erases the card whose authentications isErased names.
func eraseCanaries(t *testing.T, st journal.Store) {
	t.Helper()
	if n, _, err := st.Erase(t.Context(), journal.Query{Card: testCard}); err != nil || n != canaries/3 {
		t.Fatalf("%d were erased, %v", n, err)
	}
}

// openCopy opens an old copy with keys as they are now, and says whether these open the first erased authentication.
func opens(t *testing.T, st journal.Store) bool {
	t.Helper()
	return strings.Contains(journal.OpenedTexts(t, st), canaryOf("message", 1))
}

// TestJ6OldFilesDoNotOpenWhatWasErased: who has an old copy of the files of SQLite, and the file of keys as it is after
// an erasure, opens nothing of what was erased, and all of what stood next to it.
func TestJ6OldFilesDoNotOpenWhatWasErased(t *testing.T) {
	t.Parallel()
	file, keys := newKeyFile(t)
	dir := t.TempDir()
	st, err := journal.OpenFiles(dir, keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	writeCanaries(t, st, keys)
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	checkFiles := func() {
		t.Helper()
		for _, root := range []string{dir, copied} {
			if err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				content, err := os.ReadFile(filepath.Join(root, path))
				if i := bytes.Index(content, []byte("canary-")); i >= 0 {
					t.Errorf("%s has %q in clear", path, content[i:min(i+40, len(content))])
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	checkFiles()
	before := load(t, file)
	eraseCanaries(t, st)
	for name, keys := range map[string]*journal.Keys{"before": before, "after": load(t, file)} {
		again := filepath.Join(t.TempDir(), "again")
		if err := os.CopyFS(again, os.DirFS(copied)); err != nil {
			t.Fatal(err)
		}
		old, err := journal.OpenFiles(again, journal.WithoutFile(keys))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = old.Close() })
		checkOldCopy(t, old, keys, name)
	}
	checkFiles()
}

// checkOldCopy checks that the file of keys of before an erasure opens an old copy of the store, and that the one of
// after it does not, but finds nothing else wrong.
func checkOldCopy(t *testing.T, old journal.Store, keys *journal.Keys, name string) {
	t.Helper()
	if opens(t, old) != (name == "before") {
		t.Errorf("the file of keys of %s the erasure opens it: %t", name, name != "before")
	}
	if name == "after" {
		checkCopy(t, old, keys)
	}
}

// TestJ6ABaseBackupDoesNotOpenWhatWasErased: the same for a base backup of PostgreSQL with the log of its time.
func TestJ6ABaseBackupDoesNotOpenWhatWasErased(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	file, keys := newKeyFile(t)
	st, err := journal.OpenPostgres(t.Context(), server.URL(), keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	writeCanaries(t, st, keys)
	copied := server.BaseBackup(t)
	server.Exec(t, server.URL(), `CHECKPOINT`)
	checkFiles := func() {
		t.Helper()
		for _, s := range []*pgtest.Server{server, copied} {
			s.Files(t, func(path string, content []byte) {
				if i := bytes.Index(content, []byte("canary-")); i >= 0 {
					t.Errorf("%s has %q in clear", path, content[i:min(i+40, len(content))])
				}
			})
		}
	}
	checkFiles()
	before := load(t, file)
	eraseCanaries(t, st)
	for name, keys := range map[string]*journal.Keys{"before": before, "after": load(t, file)} {
		old, err := journal.OpenPostgres(t.Context(), copied.URL(), journal.WithoutFile(keys))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = old.Close() })
		checkOldCopy(t, old, keys, name)
	}
	checkFiles()
}

// TestJ6AllNodesForget: an erasure on one node is forgotten by the file of another one with its next duty, and so it is
// by the file of a node that was killed before it wrote it.
func TestJ6AllNodesForget(t *testing.T) {
	t.Parallel()
	for _, isKilled := range []bool{false, true} {
		at := pgtest.Get(t).Schema(t)
		first, keys := newKeyFile(t)
		files := []journal.KeyFile{first, copyKeyFile(t, first)}
		if isKilled {
			journal.WithoutFile(keys)
		}
		st, err := journal.OpenPostgres(t.Context(), at, keys)
		if err != nil {
			t.Fatal(err)
		}
		writeCanaries(t, st, keys)
		eraseCanaries(t, st)
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		for n, file := range files {
			want := 0
			if n == 0 && !isKilled {
				want = canaries / 3
			}
			keys := load(t, file)
			if got := journal.CountForgotten(keys); got != want {
				t.Errorf("killed: %t; before its duty node %d has forgotten %d keys, want %d", isKilled, n, got, want)
			}
			node, err := journal.OpenPostgres(t.Context(), at, keys)
			if err == nil {
				err = node.Sign(t.Context(), day)
			}
			journal.WriteForgotten(keys)
			if err := errors.Join(err, node.Close()); err != nil {
				t.Fatal(err)
			}
			if got := journal.CountForgotten(load(t, file)); got != canaries/3 {
				t.Errorf("killed: %t; after its duty the file of node %d has forgotten %d keys", isKilled, n, got)
			}
		}
	}
}

// TestJ6AFileThatCannotBeReplacedIsAProblem: a node whose file of keys cannot be replaced forgets in memory, and says
// that the file still opens what was erased, until somebody puts in place what CreateFile has made.
func TestJ6AFileThatCannotBeReplacedIsAProblem(t *testing.T) {
	t.Parallel()
	eachStoreOfFile(t, func(t *testing.T, file journal.KeyFile, st journal.Store, keys *journal.Keys) {
		writeCanaries(t, st, keys)
		content, err := os.ReadFile(file.Path)
		if err := errors.Join(err, os.Remove(file.Path), os.Mkdir(file.Path, 0o700)); err != nil { // nothing replaces a folder
			t.Fatal(err)
		}
		eraseCanaries(t, st)
		if opens(t, st) {
			t.Error("the process opens what was erased")
		}
		problem := keys.FileProblem()
		for _, want := range []string{file.Path, fmt.Sprintf("still opens %d erased authentications", canaries/3),
			"threeds journal erase --write FILE"} {
			if !strings.Contains(problem, want) {
				t.Errorf("the problem is %q, without %q", problem, want)
			}
		}
		made := file.Path + ".made"
		if err := errors.Join(keys.CreateFile(made), os.Remove(file.Path), os.WriteFile(file.Path, content, 0o600)); err != nil {
			t.Fatal(err)
		}
		other := journal.KeyFile{Path: made}
		if n := journal.CountForgotten(load(t, other)); n != canaries/3 || journal.CountForgotten(load(t, file)) != 0 {
			t.Errorf("the file that was made has forgotten %d keys", n)
		}
		if load(t, other).ID() != keys.ID() || load(t, file).ID() != keys.ID() || journal.NewKeys().ID() == keys.ID() {
			t.Error("the id of keys is not what it was")
		}
		if err := os.Rename(made, file.Path); err != nil {
			t.Fatal(err)
		}
		journal.WriteForgotten(keys) // as the next duty does
		if problem := keys.FileProblem(); problem != "" {
			t.Errorf("the file is in place, and the problem is %q", problem)
		}
	})
}

// eachStoreOfFile is eachStore with keys that stand in a file.
func eachStoreOfFile(t *testing.T, test func(*testing.T, journal.KeyFile, journal.Store, *journal.Keys)) {
	t.Helper()
	for name, open := range map[string]func(keys *journal.Keys) (journal.Store, error){
		"sqlite": func(keys *journal.Keys) (journal.Store, error) { return journal.OpenFiles(t.TempDir(), keys) },
		"postgres": func(keys *journal.Keys) (journal.Store, error) {
			return journal.OpenPostgres(t.Context(), pgtest.Get(t).Schema(t), keys)
		},
	} {
		t.Run(name, func(t *testing.T) {
			file, keys := newKeyFile(t)
			st, err := open(keys)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = st.Close() })
			test(t, file, st, keys)
		})
	}
}

// TestJ6TooManyKeysStay: an erasure beyond the limit removes everything from the tables, says that it forgets no keys,
// and does not let the file grow.
func TestJ6TooManyKeysStay(t *testing.T) {
	t.Parallel()
	sqliteAlone(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		writeCanaries(t, st, keys)
		defer journal.LimitForgotten(keys, canaries/3-1)()
		n, err := st.CountUnforgotten(t.Context(), journal.Query{Card: testCard})
		if err != nil || n != canaries/3 {
			t.Errorf("%d would not be forgotten, %v", n, err)
		}
		eraseCanaries(t, st)
		if n := journal.CountForgotten(keys); n != 0 {
			t.Errorf("%d keys were forgotten", n)
		}
	})
}

// TestJ6DaysAndIDsThatAreUnusual: entries at the border of days, and with ids that are no UUIDs, are erased and
// forgotten, and nothing else is. A key of another day or id would be the wrong one.
func TestJ6DaysAndIDsThatAreUnusual(t *testing.T) {
	t.Parallel()
	eachStoreOfFile(t, func(t *testing.T, file journal.KeyFile, st journal.Store, keys *journal.Keys) {
		n := 0
		ids := []string{"a", "A", "ä", "00000000-0000-4000-8000-00000000000A", "with space", "'; --"}
		for _, at := range []time.Time{
			time.Date(2026, 3, 30, 23, 59, 59, 999_999_999, time.UTC), time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC),
			time.Date(2026, 3, 31, 1, 30, 0, 0, time.FixedZone("east", 3*3600)),
		} {
			for _, id := range ids {
				for _, kind := range []journal.Kind{journal.Claimed, journal.Answered} {
					e := canaryEntry(keys, n)
					e.Kind, e.Record.ID, e.Record.Created = kind, fmt.Sprint(id, " ", at.UnixNano()), at
					if n++; id == ids[0] {
						e.CardHash = keys.CardHash("4000000000000044")
					}
					write(t, st, e)
				}
			}
		}
		if a, r, err := st.Erase(t.Context(), journal.Query{Card: "4000000000000044"}); err != nil || a != 3 || r != 6 {
			t.Errorf("erased %d, %d, %v", a, r, err)
		}
		if got := journal.CountForgotten(load(t, file)); got != 3 {
			t.Errorf("%d keys were forgotten", got)
		}
		for _, d := range []int{1, 2} {
			if err := st.Sign(t.Context(), day.AddDate(0, 0, d)); err != nil {
				t.Fatal(err)
			}
		}
		text := export(t, st, keys, journal.Query{At: day.AddDate(0, 0, 2)})
		if faults := st.Faults(); len(faults) > 0 || text == "" {
			t.Error(faults)
		}
	})
}
