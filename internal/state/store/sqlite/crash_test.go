package sqlite

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func openRaw(t testing.TB, dir string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", source(filepath.Join(dir, fileName), []string{"busy_timeout(5000)"}))
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// TestOpenAfterCrash opens what a killed process leaves: the files as they are while the store is open, with the log
// not yet in the database. Then the log is cut off at any place, as when the machine dies in the middle of a commit.
// The store then has the first n writes, complete, for some n.
func TestOpenAfterCrash(t *testing.T) {
	db, dir := openTemp(t)
	const n = 20
	for i := range n {
		if err := db.Create(t.Context(), txn(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	database, err := os.ReadFile(filepath.Join(dir, fileName))
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(filepath.Join(dir, fileName+"-wal"))
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	for cut := 0; cut <= len(log); cut += 1 + len(log)/40 {
		kept := afterCrash(t, database, log[:len(log)-cut])
		if cut == 0 && kept != n {
			t.Errorf("with the whole log: %d writes of %d", kept, n)
		}
		most = max(most, kept)
	}
	if most != n {
		t.Errorf("at most %d writes of %d", most, n)
	}
}

// afterCrash returns how many of the first writes are there, and checks that
// there are no others.
func afterCrash(t *testing.T, database, log []byte) int {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string][]byte{fileName: database, fileName + "-wal": log} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	db, err := Open(dir, Options{})
	if err != nil {
		t.Fatalf("with %d bytes of log: %v", len(log), err)
	}
	defer db.Close()
	first := 0
	for i := range 20 {
		if _, err := db.Get(t.Context(), fmt.Sprint(i)); err == nil {
			if i != first {
				t.Errorf("write %d is there, %d is not", i, first)
			}
			first++
		}
	}
	if err := db.Create(t.Context(), txn("new")); err != nil {
		t.Error(err)
	}
	return first
}
