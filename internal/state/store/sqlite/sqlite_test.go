package sqlite_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/sqlite"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

// A clock goes only when the test moves it.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 11, 20, 12, 0, 0, 500, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func openIn(t testing.TB, dir string, c *clock) *sqlite.DB {
	t.Helper()
	db, err := sqlite.Open(dir, sqlite.Options{Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func TestContract(t *testing.T) {
	c := newClock()
	var mu sync.Mutex
	dirs := make(map[store.Store]string)
	open := func(t testing.TB, dir string) store.Store {
		mu.Lock()
		defer mu.Unlock()
		db := openIn(t, dir, c)
		dirs[db] = dir
		return db
	}
	dirOf := func(s store.Store) string {
		mu.Lock()
		defer mu.Unlock()
		return dirs[s]
	}
	storetest.Run(t, storetest.Backend{
		Open: func(t testing.TB) store.Store { return open(t, filepath.Join(t.TempDir(), "data")) },
		Reopen: func(t testing.TB, s store.Store) store.Store {
			if err := s.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			return open(t, dirOf(s))
		},
		Share: func(t testing.TB, s store.Store) store.Store { return open(t, dirOf(s)) },
		Now:   c.now, Pass: c.pass,
	})
}

func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "data")
	db := openIn(t, dir, newClock())
	if err := db.Create(t.Context(), store.Txn{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
			t.Errorf("%d files after Close, %v; want the database alone", len(files), err)
		}
	}()
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory has mode %v, %v; want 0700", info.Mode(), err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 3 {
		t.Errorf("%d files, %v; want database, log and index", len(files), err)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v; want 0600", f.Name(), info.Mode(), err)
		}
	}
}

func TestOddDirectories(t *testing.T) {
	for _, name := range []string{"with space", "100%25?mode=memory&x=1#y", "ünï", "a;b'c\"d"} {
		dir := filepath.Join(t.TempDir(), name)
		db := openIn(t, dir, newClock())
		if err := db.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "threeds.db")); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	noDB := t.TempDir()
	if err := os.WriteFile(filepath.Join(noDB, "threeds.db"), []byte("this is no database, however long one reads in it"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "x"), noDB} {
		if db, err := sqlite.Open(dir, sqlite.Options{}); err == nil {
			t.Errorf("Open(%s) is fine", dir)
			_ = db.Close()
		}
	}
}

// TestOpenAtOnce opens a new store many times at the same moment.
func TestOpenAtOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	c := newClock()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			db, err := sqlite.Open(dir, sqlite.Options{Now: c.now})
			if err != nil {
				t.Error(err)
				return
			}
			if err := db.Create(t.Context(), store.Txn{ID: string(rune('a' + i)), Expires: c.now().Add(time.Hour)}); err != nil {
				t.Error(err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	db := openIn(t, dir, c)
	defer db.Close()
	for i := range 8 {
		if _, err := db.Get(t.Context(), string(rune('a'+i))); err != nil {
			t.Error(err)
		}
	}
}
