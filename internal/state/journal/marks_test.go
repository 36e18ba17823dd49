package journal

import (
	"database/sql"
	"testing"
	"time"
)

// openWithOneEntry opens a journal in PostgreSQL that has one entry, which is generated.
func openWithOneEntry(t *testing.T) (*tableStore, Generation) {
	t.Helper()
	st, keys := openTestPostgres(t)
	g := Generation{Authentications: 1, Days: 1, Merchants: 1}
	if _, err := st.Write(t.Context(), []Entry{g.entry(0, planned, keys, newRandom(g))}); err != nil {
		t.Fatal(err)
	}
	return st.(*tableStore), g
}

// TestK5MarksThatComeMeanwhileStay: an hour that the same writer changes again while it is counted stays dirty.
func TestK5MarksThatComeMeanwhileStay(t *testing.T) {
	t.Parallel()
	st, g := openWithOneEntry(t)
	db := st.database
	writer, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Rollback() // nothing after a commit
	if _, err := writer.ExecContext(t.Context(), `LOCK TABLE journal_records`); err != nil {
		t.Fatal(err)
	}
	rolled := make(chan error, 1)
	go func() { rolled <- st.Roll(t.Context(), planned.AddDate(0, 0, 1), time.Hour) }()
	ctx := t.Context()
	for waiting := 0; waiting == 0; { // for the table, after the marks were read
		select {
		case err := <-rolled:
			t.Fatalf("the roll did not wait for the table: %v", err)
		default:
		}
		if err := db.QueryRowContext(ctx, `SELECT count(*) FROM pg_locks
			WHERE NOT granted AND relation = 'journal_records'::regclass`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.markDirty(t.Context(), writer, map[int64]bool{g.At(0, planned).UnixMilli() / hourLen: true}, db.writer); err != nil {
		t.Fatal(err)
	}
	if err := writer.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-rolled; err != nil {
		t.Fatal(err)
	}
	dirty := func() (n int) {
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM journal_dirty`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := dirty(); n != 1 {
		t.Errorf("%d hours are dirty, want 1", n)
	}
	if err := st.Roll(t.Context(), planned.AddDate(0, 0, 1), time.Hour); err != nil {
		t.Fatal(err)
	}
	if n := dirty(); n != 0 {
		t.Errorf("%d hours are dirty, want none", n)
	}
}

// TestK5ACountWaitsForWhoMakesTheRowOfAnHour: a check writes how many postings an hour has. A count that makes others
// meanwhile waits for it: else the next check would say that somebody has deleted postings.
func TestK5ACountWaitsForWhoMakesTheRowOfAnHour(t *testing.T) {
	t.Parallel()
	st, _ := openWithOneEntry(t)
	db := st.database
	check, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer check.Rollback() // This does nothing after the rollback below.
	if err := db.keepWritersOut(t.Context(), check); err != nil {
		t.Fatal(err)
	}
	rolled := make(chan error, 1)
	go func() { rolled <- db.roll(t.Context(), planned.AddDate(0, 0, 1), time.Hour) }()
	for waiting := 0; waiting == 0; {
		select {
		case err := <-rolled:
			t.Fatalf("the count did not wait: %v", err)
		default:
		}
		if err := db.QueryRowContext(t.Context(), `SELECT count(*) FROM pg_locks WHERE NOT granted
			AND locktype = 'advisory' AND objid = hashtext(current_schema())::bigint & 4294967295`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
	}
	if err := check.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-rolled; err != nil {
		t.Fatal(err)
	}
}

// TestK5AMarkOfABadRollupTouchesNothingOfTheWriter: a count that finds a row that was changed marks its hour, while the
// writer begins other chains. The race detector sees nothing in it.
func TestK5AMarkOfABadRollupTouchesNothingOfTheWriter(t *testing.T) {
	t.Parallel()
	st, keys := openTestFiles(t)
	g := Generation{Authentications: 1, Days: 1, Merchants: 1}
	if _, err := st.Write(t.Context(), []Entry{g.entry(0, planned, keys, newRandom(g))}); err != nil {
		t.Fatal(err)
	}
	db, err := st.(*fileStore).month(t.Context(), planned.Format(monthForm), false)
	if err != nil || db == nil {
		t.Fatal(db, err)
	}
	begun := make(chan struct{})
	go func() {
		defer close(begun)
		db.mu.Lock()
		defer db.mu.Unlock()
		db.beginChains()
	}()
	bad := []span{{planned.UnixMilli(), planned.UnixMilli() + hourLen}}
	if err := db.inTx(t.Context(), func(tx *sql.Tx) error { return db.markBad(t.Context(), tx, bad) }); err != nil {
		t.Error(err)
	}
	<-begun
}

// TestK5DamagedTallies: any cut of a row is an error, and never a panic or another count.
func TestK5DamagedTallies(t *testing.T) {
	t.Parallel()
	all := tallies{}
	all.of("scheme", "visa").add(&ending{bucket: 60, status: "completed", result: "authenticated", transStatus: "Y"}, 300)
	all.of("scheme", "jcb").add(&ending{status: "failed", result: "error"}, 1)
	whole := all.encode()
	got := tallies{}
	if err := decodeTallies(whole, func(string) bool { return true }, got.of); err != nil ||
		got["scheme"]["visa"].Successful != 300 || got["scheme"]["jcb"].Failed != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	for n := range whole {
		if n == 0 {
			continue // one without results and parts
		}
		into := tallies{}
		if err := decodeTallies(whole[:n], func(string) bool { return true }, into.of); err == nil && len(into) > 0 {
			t.Errorf("cut to %d of %d bytes: no error", n, len(whole))
		}
	}
}

// FuzzTallies: whatever stands in a row, it is read or refused; what is read can be written and read again.
func FuzzTallies(f *testing.F) {
	all := tallies{}
	all.of("acs", "A").add(&ending{bucket: 3, status: "expired", challenged: 1, result: "abandoned"}, 2)
	f.Add(all.encode())
	f.Fuzz(func(t *testing.T, in []byte) {
		first, again := tallies{}, tallies{}
		if decodeTallies(in, func(string) bool { return true }, first.of) != nil {
			return
		}
		if err := decodeTallies(first.encode(), func(string) bool { return true }, again.of); err != nil || len(again) != len(first) {
			t.Errorf("%+v becomes %+v, %v", first, again, err)
		}
	})
}
