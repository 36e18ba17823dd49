package journal_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// TestH2PlacesThatWereChangedKeepNoKeyUnnoticed: a process is killed between an erasure and its file of keys. Somebody with
// the database alone says that the places of what was erased are not gone. The next process forgets the keys all the same,
// or says that something was changed.
func TestH2PlacesThatWereChangedKeepNoKeyUnnoticed(t *testing.T) {
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
	if n := journal.CountForgotten(load(t, file)); n != canaries/3 && len(st.Faults()) == 0 && again.FileProblem() == "" {
		t.Errorf("the file has forgotten %d keys of %d, and nobody says so", n, canaries/3)
	}
}

// TestH2AnErasureFromFilesSaysThatItForgetsNoKeys: an erasure in a folder that is beyond the limit of keys says so, as one
// in the database does: backups of the database have the text.
func TestH2AnErasureFromFilesSaysThatItForgetsNoKeys(t *testing.T) {
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

// TestH2ARowOfADeliveryMakesNobodyForgetAKey: of an authentication the database has the attempt of a delivery alone, for its
// day was archived before. Somebody with the database alone gives it a row with the card of another one, which is erased
// then. Its key stays: nothing that is sealed says that it belongs to the card.
func TestH2ARowOfADeliveryMakesNobodyForgetAKey(t *testing.T) {
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

// TestH2ManyProcessesChangeOneFile: what each of several processes forgets at the same time is in the file in the end.
func TestH2ManyProcessesChangeOneFile(t *testing.T) {
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

// TestH2DaysAndIdsThatAreUnusual: entries at the border of days, of long ago, and with ids that are no UUIDs are erased and
// forgotten, and nothing else is.
func TestH2DaysAndIdsThatAreUnusual(t *testing.T) {
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
