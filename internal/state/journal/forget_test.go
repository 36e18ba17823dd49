package journal_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// TestJ6AnEmptyStoreForgetsNothingThatAHoldHolds: a server that comes up once with an empty store, as before a restore
// or with a wrong address, knows no holds. It must not forget the keys of days that a hold keeps in the real store.
func TestJ6AnEmptyStoreForgetsNothingThatAHoldHolds(t *testing.T) {
	file, keys := newKeyFile(t)
	dir := t.TempDir()
	st, err := journal.OpenFiles(dir, keys)
	if err != nil {
		t.Fatal(err)
	}
	writeCanaries(t, st, keys)
	addHold(t, st, journal.Hold{Name: "case 1", Merchant: "shop 0"})
	before := day.AddDate(2, 0, 0)
	if err := st.Expire(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	if !opens(t, st) {
		t.Fatal("the hold keeps nothing")
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	empty := openFiles(t, load(t, file))
	if err := empty.Expire(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	st, err = journal.OpenFiles(dir, load(t, file))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	if !opens(t, st) {
		t.Error("what a legal hold holds does not open any more")
	}
}

// TestJ6AClockThatWasAheadLosesNoEntryOfToday: a sweep by a clock that is two years ahead, and then the right time: what
// is authenticated now is written, or an error says that it is not.
func TestJ6AClockThatWasAheadLosesNoEntryOfToday(t *testing.T) {
	eachStoreOfFile(t, func(t *testing.T, file journal.KeyFile, st journal.Store, keys *journal.Keys) {
		if err := st.Expire(t.Context(), day.AddDate(0, 2, 0)); err != nil {
			t.Fatal(err)
		}
		if err := st.Expire(t.Context(), day.AddDate(-1, 0, 0)); err != nil {
			t.Fatal(err)
		}
		n, err := st.Write(t.Context(), []journal.Entry{entry(keys, 0, journal.Answered)})
		if err == nil && n != 1 {
			t.Errorf("%d entries were written, and there is no error; the problem of the file is %q", n, keys.FileProblem())
		}
	})
}

// TestJ6AnOldKeyFilePutBackIsNoticed: somebody puts the file of keys of before an erasure back, as from a backup of the
// folder, while the server runs. The next duty forgets again in the file, or the problem says so.
func TestJ6AnOldKeyFilePutBackIsNoticed(t *testing.T) {
	eachStoreOfFile(t, func(t *testing.T, file journal.KeyFile, st journal.Store, keys *journal.Keys) {
		writeCanaries(t, st, keys)
		was, err := os.ReadFile(file.Path)
		eraseCanaries(t, st)
		if err := errors.Join(err, os.WriteFile(file.Path, was, 0o600), st.Sign(t.Context(), day.AddDate(0, 0, 1))); err != nil {
			t.Fatal(err)
		}
		journal.WriteForgotten(keys)
		if n := journal.CountForgotten(load(t, file)); n == 0 && keys.FileProblem() == "" {
			t.Error("the file opens what was erased, and nobody says so")
		}
	})
}

// TestA2ARowThatWasChangedMakesNobodyForgetAKey: somebody with the database alone gives the row of an authentication the
// card of another one, which is erased then. The key of what its sealed entry says belongs to another card stays.
func TestA2ARowThatWasChangedMakesNobodyForgetAKey(t *testing.T) {
	eachStoreOfFile(t, func(t *testing.T, _ journal.KeyFile, st journal.Store, keys *journal.Keys) {
		writeCanaries(t, st, keys)
		for _, db := range journal.Databases(t, st) {
			if _, err := db.ExecContext(t.Context(), `UPDATE journal_records SET card =
				(SELECT card FROM journal_records WHERE id = '`+idOf(1)+`') WHERE id = '`+idOf(0)+`'`); err != nil {
				t.Fatal(err)
			}
		}
		n, _, err := st.Erase(t.Context(), journal.Query{Card: testCard})
		t.Logf("erased %d, %v", n, err)
		if got := journal.CountForgotten(keys); got > canaries/3 {
			t.Errorf("%d keys were forgotten, and %d authentications are of the card", got, canaries/3)
		}
	})
}

// TestA2SealsThatAreGoneMakeNobodyForgetADay: somebody with the database alone deletes all seals, and with them the
// holds, and a server starts again. A backup of the database from before still opens what the hold holds.
func TestA2SealsThatAreGoneMakeNobodyForgetADay(t *testing.T) {
	file, keys := newKeyFile(t)
	dir := t.TempDir()
	st, err := journal.OpenFiles(dir, keys)
	if err != nil {
		t.Fatal(err)
	}
	writeCanaries(t, st, keys)
	addHold(t, st, journal.Hold{Name: "case 1", Merchant: "shop 0"})
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	st, err = journal.OpenFiles(dir, load(t, file))
	if err != nil {
		t.Fatal(err)
	}
	for _, db := range journal.AllDatabases(t, st) {
		if _, err := db.ExecContext(t.Context(), `DELETE FROM journal_seals`); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Expire(t.Context(), day.AddDate(2, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	old, err := journal.OpenFiles(backup, load(t, file))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = old.Close() })
	if !opens(t, old) {
		t.Error("the backup does not open what a legal hold holds")
	}
}

// TestJ7AnImportIntoDaysThatWereOverSaysWhatItLeavesOut: journal.keep gets longer again, and an export of a day that had
// gone is imported. Its entries are added, or an error says that they are not: none of them is present.
func TestJ7AnImportIntoDaysThatWereOverSaysWhatItLeavesOut(t *testing.T) {
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		for n := range 3 {
			write(t, st, entry(keys, n, journal.Answered))
		}
		var export bytes.Buffer
		if _, err := journal.WriteJSONLines(t.Context(), &export, st, keys, journal.Query{At: day}); err != nil {
			t.Fatal(err)
		}
		for _, before := range []int{60, -400} { // too short, and corrected
			if err := st.Expire(t.Context(), day.AddDate(0, 0, before)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := journal.Import(t.Context(), st, keys, bytes.NewReader(export.Bytes()), keys.PublicKey())
		page, _ := st.Search(t.Context(), journal.Query{})
		if err == nil && (got.Added != 3 || len(page.Records) != 3) {
			t.Errorf("imported %+v, and a search finds %d", got, len(page.Records))
		}
	})
}

// TestK5ADatabaseOfBeforeAnErasureBillsTheSame: the database of before an erasure is restored, and opened by the keys of
// today. What was erased was billed, and still is.
func TestK5ADatabaseOfBeforeAnErasureBillsTheSame(t *testing.T) {
	file, keys := newKeyFile(t)
	st := openFiles(t, keys)
	writeCanaries(t, st, keys)
	want := readBilling(t, st, allMonths)
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(journal.DirOf(st))); err != nil {
		t.Fatal(err)
	}
	eraseCanaries(t, st)
	checkBilling(t, "after the erasure", readBilling(t, st, allMonths), want)
	old, err := journal.OpenFiles(copied, load(t, file))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = old.Close() })
	checkBilling(t, "in the database of before", readBilling(t, old, allMonths), want)
}
