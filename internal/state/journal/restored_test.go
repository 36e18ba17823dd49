package journal_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// copyFiles copies the folder of a journal.
func copyFiles(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// restoreInto puts what a store has into another one, as a backup does.
func restoreInto(t *testing.T, from, to journal.Store, keys *journal.Keys) {
	t.Helper()
	r, err := journal.NewRestorer(t.Context(), to, keys)
	if err != nil {
		t.Fatal(err)
	}
	if err := from.(journal.Archive).Visit(t.Context(), journal.Visitor{
		Billing: func(c journal.ArchivedBilling) error { r.AddBilling(c); return nil },
		Seal:    func(s journal.Seal) error { return r.AddSeal(t.Context(), s) },
		Day:     r.AddDay,
		Chain:   func(c journal.ArchivedChain) error { return r.BeginChain(t.Context(), c) },
		Frame:   func(f journal.ArchivedFrame) error { return r.AddFrame(t.Context(), f) },
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestJ6ANodeWithAnOlderFileReadsTheNeighbours: the backup of before an erasure is restored on a machine whose file of
// keys has forgotten. A node with an older file, which the restored tombstones do not reach, reads all that was not
// erased, and finds nothing that was changed. Else an entry without its key would hide all others of its frame.
func TestJ6ANodeWithAnOlderFileReadsTheNeighbours(t *testing.T) {
	file, keys := newKeyFile(t)
	old := copyKeyFile(t, file)
	st := openFiles(t, keys)
	writeCanaries(t, st, keys)
	backup, err := journal.OpenFiles(copyFiles(t, journal.DirOf(st)), load(t, old))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = backup.Close() })
	eraseCanaries(t, st)
	forgot := load(t, file)
	fresh := openFiles(t, forgot)
	restoreInto(t, backup, fresh, forgot)
	dir := journal.DirOf(fresh)
	if err := fresh.Close(); err != nil {
		t.Fatal(err)
	}
	node, err := journal.OpenFiles(dir, load(t, old))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Close() })
	for n := range canaries {
		if _, err := node.Show(t.Context(), idOf(n)); !isErased(n) && err != nil {
			t.Errorf("authentication %d: %v", n, err)
		}
	}
	if err := node.Sign(t.Context(), day.AddDate(0, 0, 1)); err != nil {
		t.Error(err)
	}
	if faults := node.Faults(); len(faults) > 0 {
		t.Errorf("the faults are %q", faults)
	}
	text := export(t, node, load(t, old), journal.Query{At: day.AddDate(0, 0, 1)})
	got, err := journal.Verify(strings.NewReader(text), forgot.PublicKey())
	if err != nil || got.Records != canaries*2/3 || got.Forgotten != canaries/3 {
		t.Errorf("verify says %+v, %v", got, err)
	}
}

// TestJ6ARestoredStoreDoesAllDuties: a database of before an erasure is opened by the keys of today. It is signed,
// exported, archived, erased from once more, also from the files, and verified. A duty that stumbles over an entry
// without its key would stop all others.
func TestJ6ARestoredStoreDoesAllDuties(t *testing.T) {
	t.Parallel()
	file, keys := newKeyFile(t)
	st := openFiles(t, keys)
	fillForArchive(t, st, keys)
	copied := copyFiles(t, journal.DirOf(st))
	card := "4000000000000010"
	if _, n, err := st.Erase(t.Context(), journal.Query{Card: card}); err != nil || n == 0 {
		t.Fatal(n, err)
	}
	now := load(t, file)
	restored, err := journal.OpenFiles(copied, now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = restored.Close() })
	if err := errors.Join(restored.Sign(t.Context(), archiveNow), restored.Roll(t.Context(), archiveNow, aDay)); err != nil {
		t.Fatal(err)
	}
	before := readBilling(t, restored, allMonths)
	dir := t.TempDir()
	archive(t, restored, now, dir)
	if got, faults := faultsOf(t, restored, now, dir); faults != "" {
		t.Errorf("after the archive: %+v %s", got, faults)
	}
	checkBilling(t, "after the archive", readBilling(t, restored, allMonths), before)
	folder := &journal.Folder{Dir: dir, Keys: now}
	done, err := folder.Erase(t.Context(), restored, journal.Query{Card: testCard})
	if err != nil || len(done.Faults) > 0 || done.Entries == 0 {
		t.Errorf("%+v, %v", done, err)
	}
	if got, faults := faultsOf(t, restored, now, dir); faults != "" {
		t.Errorf("after an erasure: %+v %s", got, faults)
	}
	if _, _, err := restored.Erase(t.Context(), journal.Query{Card: card}); err != nil {
		t.Error(err)
	}
	if _, err := restored.Head(t.Context(), archiveNow, nil); err != nil {
		t.Error(err)
	}
	if faults := restored.Faults(); len(faults) > 0 {
		t.Errorf("the faults are %q", faults)
	}
	var b bytes.Buffer
	if _, err := journal.WriteJSONLines(t.Context(), &b, restored, now, journal.Query{At: archiveNow}); err != nil {
		t.Fatal(err)
	}
	if got, err := journal.Verify(&b, now.PublicKey()); err != nil {
		t.Errorf("%+v %v", got, err)
	}
}

// TestK5TheSameErasureInARestoredStoreBillsTheSame: a database of before an erasure, opened by the keys of today, bills
// what it has billed. What the key alone erased is erased again, before and after the day is signed: nothing counts as
// changed, and billing stays. Else a restore would change an invoice.
func TestK5TheSameErasureInARestoredStoreBillsTheSame(t *testing.T) {
	for _, isSigned := range []bool{false, true} {
		file, keys := newKeyFile(t)
		st := openFiles(t, keys)
		writeCanaries(t, st, keys)
		want := readBilling(t, st, allMonths)
		copied := copyFiles(t, journal.DirOf(st))
		eraseCanaries(t, st)
		now := load(t, file)
		restored, err := journal.OpenFiles(copied, now)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = restored.Close() })
		checkBilling(t, "in the database of before", readBilling(t, restored, allMonths), want)
		if isSigned {
			if err := restored.Sign(t.Context(), day.AddDate(0, 0, 1)); err != nil {
				t.Fatal(err)
			}
		}
		n, records, err := restored.Erase(t.Context(), journal.Query{Card: testCard})
		t.Logf("signed before: %t; erased %d, %d, %v", isSigned, n, records, err)
		later := day.AddDate(0, 0, 2)
		if err := errors.Join(restored.Sign(t.Context(), later), restored.Roll(t.Context(), later, aDay)); err != nil {
			t.Fatal(err)
		}
		checkBilling(t, "in the restored store", readBilling(t, restored, allMonths), want)
		if faults := restored.Faults(); len(faults) > 0 {
			t.Errorf("the faults are %q", faults)
		}
		var b bytes.Buffer
		if _, err := journal.WriteJSONLines(t.Context(), &b, restored, now, journal.Query{At: day.AddDate(0, 0, 2)}); err != nil {
			t.Fatal(err)
		}
		got, err := journal.Verify(&b, now.PublicKey())
		if err != nil || got.Records != canaries*2/3 || got.Erased != canaries/3 {
			t.Errorf("%+v %v", got, err)
		}
		if text := journal.OpenedTexts(t, restored); strings.Count(text, "canary-message-") == 0 {
			t.Error("nothing opens")
		}
	}
}

// TestD121AnExportOfARestoredStoreIsCheckedByThePageAlone: the script of the page takes an export with an entry that
// was erased by the key alone, as verify does. Else an auditor would say that it was changed.
func TestD121AnExportOfARestoredStoreIsCheckedByThePageAlone(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/operating/evidence.md")
	if err != nil {
		t.Fatal(err)
	}
	_, script, _ := strings.Cut(string(page), "```python\n")
	script, _, _ = strings.Cut(script, "```\n")
	file, keys := newKeyFile(t)
	st := openFiles(t, keys)
	writeCanaries(t, st, keys)
	copied := copyFiles(t, journal.DirOf(st))
	eraseCanaries(t, st)
	now := load(t, file)
	restored, err := journal.OpenFiles(copied, now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = restored.Close() })
	if err := restored.Sign(t.Context(), day.AddDate(0, 0, 1)); err != nil {
		t.Fatal(err)
	}
	text := export(t, restored, now, journal.Query{})
	if _, err := journal.Verify(strings.NewReader(text), now.PublicKey()); err != nil {
		t.Fatal(err)
	}
	key, err := now.PEM()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string]string{"check.py": script, "export.jsonl": text, "journal.pem": string(key)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "python3", "check.py", "export.jsonl", "journal.pem")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("verify takes it, and the page does not: %v\n%s", err, out)
	}
}

// TestO1AFileThatACrashHasLeftDoesNotOpenWhatIsErasedLater: a process that was killed while it replaced the file of
// keys leaves its temporary file. After a later erasure no file of the folder opens what was erased: nobody would look
// there.
func TestO1AFileThatACrashHasLeftDoesNotOpenWhatIsErasedLater(t *testing.T) {
	file, keys := newKeyFile(t)
	st := openFiles(t, keys)
	writeCanaries(t, st, keys)
	content, err := os.ReadFile(file.Path)
	left := filepath.Join(filepath.Dir(file.Path), ".keys-1234567")
	if err := errors.Join(err, os.WriteFile(left, content, 0o600)); err != nil {
		t.Fatal(err)
	}
	eraseCanaries(t, st)
	journal.WriteForgotten(keys)
	all, err := filepath.Glob(filepath.Join(filepath.Dir(file.Path), ".*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if n := journal.CountForgotten(load(t, journal.KeyFile{Path: path})); n == 0 && keys.FileProblem() == "" {
			t.Errorf("%s opens what was erased, and nobody says so", path)
		}
	}
}
