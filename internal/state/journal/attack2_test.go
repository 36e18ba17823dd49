package journal_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// TestH2AClockThatWasAheadLosesNoEntryOfADayWithATombstone: something of today is erased, the clock is ahead for one
// round of the duties, and then right again. What is authenticated later today is written, or an error says that it is
// not, or the server says so.
func TestH2AClockThatWasAheadLosesNoEntryOfADayWithATombstone(t *testing.T) {
	eachStoreOfFile(t, func(t *testing.T, file journal.KeyFile, st journal.Store, keys *journal.Keys) {
		writeCanaries(t, st, keys)
		eraseCanaries(t, st)
		ahead := day.AddDate(0, 3, 0)
		if err := errors.Join(st.Sign(t.Context(), ahead), st.Expire(t.Context(), ahead.AddDate(0, -1, 0))); err != nil {
			t.Fatal(err)
		}
		// The node starts again with the right time.
		later := canaryEntry(keys, 200)
		n, err := st.Write(t.Context(), []journal.Entry{later})
		if err == nil && n != 1 {
			t.Errorf("%d entries were written, there is no error, the problem of the file is %q, and the faults are %q",
				n, keys.FileProblem(), st.Faults())
		}
	})
}

// TestH2AnotherNodeLosesNoEntry: the same, and the clock of this node was right all the time. It has its file of keys in
// common with the one whose clock was ahead.
func TestH2AnotherNodeLosesNoEntry(t *testing.T) {
	at := pgtest.Get(t).Schema(t)
	file, keys := newKeyFile(t)
	open := func(keys *journal.Keys) journal.Store {
		t.Helper()
		st, err := journal.OpenPostgres(t.Context(), at, keys)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		return st
	}
	node := open(keys)
	writeCanaries(t, node, keys)
	eraseCanaries(t, node)
	early := open(load(t, file))
	ahead := day.AddDate(0, 3, 0)
	if err := errors.Join(early.Sign(t.Context(), ahead), early.Expire(t.Context(), ahead.AddDate(0, -1, 0))); err != nil {
		t.Fatal(err)
	}
	journal.WriteForgotten(keys) // the next duty of the node whose clock is right
	n, err := node.Write(t.Context(), []journal.Entry{canaryEntry(keys, 200)})
	if err == nil && n != 1 {
		t.Errorf("%d entries were written, there is no error, the problem of the file is %q, and the faults are %q",
			n, keys.FileProblem(), node.Faults())
	}
}

// TestH2TheKeyFileGetsSmallWithDailySweeps: a server in SQLite signs and sweeps each day. Something of the fifth day of a
// month was erased on that day. When the month has gone the file of keys is small again.
func TestH2TheKeyFileGetsSmallWithDailySweeps(t *testing.T) {
	for _, ofMonth := range []int{5, 31} { // the last day of a month goes together with its month
		file, keys := newKeyFile(t)
		st := openFiles(t, keys)
		first := time.Date(2026, 3, ofMonth, 12, 0, 0, 0, time.UTC)
		var all []journal.Entry
		for n := range canaries {
			e := canaryEntry(keys, n)
			e.Record.Created = first.Add(time.Duration(n) * time.Second)
			e.Steps[0].At = e.Record.Created
			all = append(all, e)
		}
		write(t, st, all...)
		eraseCanaries(t, st)
		journal.DateNewestSeal(t, st, keys, first.Add(time.Hour))
		for d := range 120 {
			at := first.AddDate(0, 0, d)
			if err := errors.Join(st.Sign(t.Context(), at), st.Expire(t.Context(), at.AddDate(0, 0, -30))); err != nil {
				t.Fatal(err)
			}
		}
		if faults := st.Faults(); len(faults) > 0 {
			t.Fatal(faults)
		}
		journal.WriteForgotten(keys)
		if n := journal.CountForgotten(load(t, file)); n != 0 {
			t.Errorf("%s: after 120 days, of which 30 are kept, the file has %d single keys that were forgotten",
				first.Format(time.DateOnly), n)
		}
	}
}

// TestH2TheKeyFileOfANodeThatWasDownGetsSmall: a node with a file of its own starts again, and meanwhile another one has
// swept the day in which something was erased. Its file gets small, too.
func TestH2TheKeyFileOfANodeThatWasDownGetsSmall(t *testing.T) {
	at := pgtest.Get(t).Schema(t)
	first, _ := newKeyFile(t)
	second := copyKeyFile(t, first)
	with := func(file journal.KeyFile, do func(st journal.Store, keys *journal.Keys)) {
		t.Helper()
		keys := load(t, file)
		st, err := journal.OpenPostgres(t.Context(), at, keys)
		if err != nil {
			t.Fatal(err)
		}
		do(st, keys)
		journal.WriteForgotten(keys)
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
	sweep := func(st journal.Store, days int) {
		t.Helper()
		now := day.AddDate(0, 0, days)
		if err := errors.Join(st.Sign(t.Context(), now), st.Expire(t.Context(), now.AddDate(0, 0, -30))); err != nil {
			t.Fatal(err)
		}
	}
	with(first, func(st journal.Store, keys *journal.Keys) {
		writeCanaries(t, st, keys)
		eraseCanaries(t, st)
		journal.DateNewestSeal(t, st, keys, day.Add(time.Hour))
		sweep(st, 1)
	})
	with(second, func(st journal.Store, _ *journal.Keys) { sweep(st, 1) })
	for d := 30; d < 35; d++ {
		with(first, func(st journal.Store, _ *journal.Keys) { sweep(st, d) })
		with(second, func(st journal.Store, _ *journal.Keys) { sweep(st, d) })
	}
	for n, file := range []journal.KeyFile{first, second} {
		if got := journal.CountForgotten(load(t, file)); got != 0 {
			t.Errorf("the file of node %d has %d single keys that were forgotten, and their day has gone", n, got)
		}
	}
}

// TestH2AnOlderCopyForgetsNoDayThatAHoldHolds: a backup of the files is opened for a drill, with the file of keys that
// it needs. It is of before a legal hold. Its sweep must not forget the day that the hold keeps in the real store.
func TestH2AnOlderCopyForgetsNoDayThatAHoldHolds(t *testing.T) {
	file, keys := newKeyFile(t)
	dir := t.TempDir()
	open := func(dir string) journal.Store {
		t.Helper()
		st, err := journal.OpenFiles(dir, load(t, file))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = st.Close() })
		return st
	}
	st := open(dir)
	writeCanaries(t, st, keys)
	later := canaryEntry(keys, 60) // a card of its own is erased, on the same day
	later.CardHash = keys.CardHash("4000000000000028")
	write(t, st, later)
	if n, _, err := st.Erase(t.Context(), journal.Query{Card: "4000000000000028"}); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	backup := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	st = open(dir)
	addHold(t, st, journal.Hold{Name: "case 1", Merchant: "shop 0"})
	now := day.AddDate(0, 4, 0)
	sweep := func(st journal.Store) {
		t.Helper()
		if err := errors.Join(st.Sign(t.Context(), now), st.Expire(t.Context(), now.AddDate(0, -2, 0))); err != nil {
			t.Fatal(err)
		}
	}
	sweep(st)
	if !opens(t, st) {
		t.Fatal("the hold keeps nothing")
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	drill := open(backup)
	sweep(drill)
	if err := drill.Close(); err != nil {
		t.Fatal(err)
	}
	if st = open(dir); !opens(t, st) {
		t.Error("what a legal hold holds does not open any more")
	}
}

// TestH2AnImportIntoAForgottenDaySaysWhatItLeavesOut: as TestJ7AnImportIntoDaysThatWereOverSaysWhatItLeavesOut, but
// something of the day was erased. The others were not, so none of them is present.
func TestH2AnImportIntoAForgottenDaySaysWhatItLeavesOut(t *testing.T) {
	eachStoreOfFile(t, func(t *testing.T, _ journal.KeyFile, st journal.Store, keys *journal.Keys) {
		writeCanaries(t, st, keys)
		eraseCanaries(t, st)
		var export bytes.Buffer
		if _, err := journal.WriteJSONLines(t.Context(), &export, st, keys, journal.Query{At: day}); err != nil {
			t.Fatal(err)
		}
		if err := st.Sign(t.Context(), day.AddDate(0, 3, 0)); err != nil {
			t.Fatal(err)
		}
		for _, before := range []int{60, -400} { // too short, and corrected
			if err := st.Expire(t.Context(), day.AddDate(0, 0, before)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := journal.Import(t.Context(), st, keys, bytes.NewReader(export.Bytes()), keys.PublicKey())
		page, _ := st.Search(t.Context(), journal.Query{})
		if want := canaries * 2 / 3; err == nil && (got.Added != want || len(page.Records) != want) {
			t.Errorf("imported %+v, and a search finds %d, want %d", got, len(page.Records), want)
		}
	})
}

// TestH2SealsOfACopyMakeNobodyForgetWhatIsThere: a copy of the database, and of the file of keys, is used for a test, in
// which a card is erased. Somebody with both databases and without a key puts the seals of the copy into the real one.
// Its entries are all there, so their keys stay.
func TestH2SealsOfACopyMakeNobodyForgetWhatIsThere(t *testing.T) {
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
