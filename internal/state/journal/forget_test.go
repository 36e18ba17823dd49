package journal_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
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

// TestJ6AClockThatWasAheadLosesNoEntryOfToday: something of today was erased, and the duties run once by a clock that
// is ahead. What is authenticated later today is written: else payments would be missing, and nobody would know.
func TestJ6AClockThatWasAheadLosesNoEntryOfToday(t *testing.T) {
	t.Parallel()
	eachStoreOfFile(t, func(t *testing.T, file journal.KeyFile, st journal.Store, keys *journal.Keys) {
		writeCanaries(t, st, keys)
		eraseCanaries(t, st)
		if err := errors.Join(st.Sign(t.Context(), day.AddDate(0, 3, 0)), st.Expire(t.Context(), day.AddDate(0, 2, 0)),
			st.Expire(t.Context(), day.AddDate(-1, 0, 0))); err != nil {
			t.Fatal(err)
		}
		journal.WriteForgotten(keys)
		if n, err := st.Write(t.Context(), []journal.Entry{canaryEntry(keys, 200)}); err != nil || n != 1 {
			t.Errorf("%d entries were written, %v", n, err)
		}
	})
}

// TestJ6AnOldKeyFilePutBackIsNoticed: somebody puts the file of keys of before an erasure back, as from a backup of the
// folder, while the server runs. The next duty forgets again in the file, or the problem says so.
func TestJ6AnOldKeyFilePutBackIsNoticed(t *testing.T) {
	t.Parallel()
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

// TestA2ARowThatWasChangedMakesNobodyForgetAKey: somebody with the database alone gives the row of an authentication
// the card of another one, which is erased then. The key of what its sealed entry says belongs to another card stays.
func TestA2ARowThatWasChangedMakesNobodyForgetAKey(t *testing.T) {
	t.Parallel()
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

// TestJ7AnImportIntoDaysThatWereOverSaysWhatItLeavesOut: journal.keep gets longer again, and an export of a day that
// had gone is imported. Its entries are added, or an error says that they are not: none of them is present.
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

// TestA2PlacesThatWereChangedKeepNoKey: a process is killed between an erasure and its file of keys. Somebody with the
// database alone says that the places of what was erased are not gone. The next process forgets the keys all the same:
// else old copies would open what was erased, and nobody would know.
func TestA2PlacesThatWereChangedKeepNoKey(t *testing.T) {
	file, keys := newKeyFile(t)
	dir := t.TempDir()
	st, err := journal.OpenFiles(dir, journal.WithoutFile(keys))
	if err != nil {
		t.Fatal(err)
	}
	writeCanaries(t, st, keys)
	if err := st.Sign(t.Context(), day.AddDate(0, 0, 1)); err != nil {
		t.Fatal(err)
	}
	eraseCanaries(t, st)
	for _, db := range journal.Databases(t, st) {
		if _, err := db.ExecContext(t.Context(), `UPDATE journal_places SET gone = 0`); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	again := load(t, file)
	if st, err = journal.OpenFiles(dir, again); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	for d := 1; d < 4; d++ {
		now := day.AddDate(0, 0, d)
		_, head := st.Head(t.Context(), now, nil)
		if err := errors.Join(st.Sign(t.Context(), now), head, st.Roll(t.Context(), now, aDay)); err != nil {
			t.Fatal(err)
		}
		journal.WriteForgotten(again)
	}
	if n := journal.CountForgotten(load(t, file)); n != canaries/3 {
		t.Errorf("the file has forgotten %d keys of %d", n, canaries/3)
	}
}

// TestA2ARowOfADeliveryMakesNobodyForgetAKey: of an authentication the database has the attempt of a delivery alone,
// for its day was archived before. Somebody with the database alone gives it a row with the card of another one, which
// is erased then. Its key stays: nothing that is sealed says that it belongs to the card.
func TestA2ARowOfADeliveryMakesNobodyForgetAKey(t *testing.T) {
	t.Parallel()
	eachStoreOfFile(t, func(t *testing.T, _ journal.KeyFile, st journal.Store, keys *journal.Keys) {
		write(t, st, canaryEntry(keys, 1))
		late := canaryEntry(keys, 2)
		late.Kind, late.CardHash = journal.Delivered("event", "endpoint", 1), nil
		write(t, st, late)
		for _, db := range journal.Databases(t, st) {
			if _, err := db.ExecContext(t.Context(), `CREATE TEMPORARY TABLE forged AS SELECT * FROM journal_records;
				UPDATE forged SET id = '`+idOf(2)+`'; INSERT INTO journal_records SELECT * FROM forged`); err != nil {
				t.Fatal(err)
			}
		}
		n, records, err := st.Erase(t.Context(), journal.Query{Card: testCard})
		if got := journal.CountForgotten(keys); got > 1 {
			t.Errorf("%d authentications, %d records, %v: %d keys were forgotten, and one is of the card; the faults are %q", n, records,
				err, got, st.Faults())
		}
	})
}

// TestA2SealsOfACopyMakeNobodyForgetWhatIsThere: a copy of the database, and of the file of keys, is used for a test,
// in which a card is erased. Somebody with both databases and without a key puts the seals of the copy into the real
// one. Its entries are all there, so their keys stay: else backups would lose them for good.
func TestA2SealsOfACopyMakeNobodyForgetWhatIsThere(t *testing.T) {
	t.Parallel()
	file, keys := newKeyFile(t)
	open := func(at string, keys *journal.Keys) journal.Store {
		t.Helper()
		st, err := journal.OpenPostgres(t.Context(), at, keys)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		return st
	}
	at := pgtest.Get(t).Schema(t)
	st := open(at, keys)
	writeCanaries(t, st, keys)
	if _, err := st.Head(t.Context(), day, nil); err != nil {
		t.Fatal(err)
	}
	tables := append([]string{"journal_keys"}, insiderTables...)
	rows := journal.CopyRows(t, journal.AllDatabases(t, st)[0], tables)
	other := journal.NewKeys() // only to make partitions of the day
	place := pgtest.Get(t).Schema(t)
	made := open(place, other)
	write(t, made, canaryEntry(other, 0))
	journal.PutRows(t, journal.AllDatabases(t, made)[0], tables, rows)
	if err := made.Close(); err != nil {
		t.Fatal(err)
	}
	copied := open(place, load(t, copyKeyFile(t, file)))
	eraseCanaries(t, copied)
	seals := journal.CopyRows(t, journal.AllDatabases(t, copied)[0], []string{"journal_seals"})
	journal.PutRows(t, journal.AllDatabases(t, st)[0], []string{"journal_seals"}, seals)
	if err := st.Sign(t.Context(), day); err != nil { // the next duty of a node that runs
		t.Fatal(err)
	}
	if !opens(t, st) {
		t.Errorf("the entries are there, and %d keys were forgotten; the faults are %q", journal.CountForgotten(keys), st.Faults())
	}
}

// TestO1ManyProcessesChangeOneFile: what each of several processes forgets at the same time is in the file in the end.
// Else the last one would bring keys back.
func TestO1ManyProcessesChangeOneFile(t *testing.T) {
	file, _ := newKeyFile(t)
	var all sync.WaitGroup
	var processes []*journal.Keys
	for p := range 8 {
		keys := load(t, file)
		processes = append(processes, keys)
		all.Go(func() {
			for n := range 20 {
				journal.ForgetLeaf(keys, uint64(1000*p+2*n))
			}
		})
	}
	all.Wait()
	for _, keys := range processes {
		if problem := keys.FileProblem(); problem != "" {
			t.Log(problem)
		}
		journal.WriteForgotten(keys)
		if problem := keys.FileProblem(); problem != "" {
			t.Error(problem)
		}
	}
	if n := journal.CountForgotten(load(t, file)); n != 160 {
		t.Errorf("the file has forgotten %d keys, want 160", n)
	}
}

// TestJ7ADayThatAnotherNodeDeletedIsWrittenUnderItsNewKey: the clock of one node is ahead, and its sweep deletes a day
// that two nodes write. Both go on to write it. What the other node writes opens after a restart, too: under the key
// that went with the day nobody could ever read it.
func TestJ7ADayThatAnotherNodeDeletedIsWrittenUnderItsNewKey(t *testing.T) {
	t.Parallel()
	keys, at := journal.NewKeys(), pgtest.Get(t).Schema(t)
	open := func() journal.Store {
		st, err := journal.OpenPostgres(t.Context(), at, keys)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		return st
	}
	one, other := open(), open()
	write(t, one, canaryEntry(keys, 200))
	write(t, other, canaryEntry(keys, 201))
	if err := errors.Join(one.Sign(t.Context(), day.AddDate(0, 3, 0)), one.Expire(t.Context(), day.AddDate(0, 2, 0)),
		one.Expire(t.Context(), day.AddDate(-1, 0, 0))); err != nil {
		t.Fatal(err)
	}
	write(t, one, canaryEntry(keys, 202))
	last := canaryEntry(keys, 203)
	write(t, other, last)
	if _, err := open().Show(t.Context(), last.Record.ID); err != nil {
		t.Error(err)
	}
}
