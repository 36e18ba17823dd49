package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/store"
)

func openTemp(t testing.TB) (*DB, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	db, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db, dir
}

func txn(id string) store.Txn {
	return store.Txn{ID: id, Owner: "shop", State: "sent", Data: []byte("x"), Expires: time.Now().Add(time.Hour)}
}

// exec runs a statement on a connection of its own, as another process would.
func exec(t testing.TB, dir, statement string) {
	t.Helper()
	conn := openRaw(t, dir)
	defer conn.Close()
	if _, err := conn.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

// stall keeps the writer busy until the returned function is called.
func stall(t testing.TB, db *DB) (release func()) {
	t.Helper()
	entered, leave := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- db.withWriter(context.Background(), "stall", func(*writer) (answer, failed error) {
			close(entered)
			<-leave
			return nil, nil
		})
	}()
	<-entered
	return func() {
		close(leave)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// queued waits until n requests are in the queue.
func queued(t testing.TB, db *DB, n int) {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("%d requests in the queue", n), func() bool { return len(db.queue) >= n })
}

// create creates all ids at once, in one batch, and returns what became of them.
func create(t testing.TB, db *DB, ids ...string) map[string]error {
	t.Helper()
	release := stall(t, db)
	var mu sync.Mutex
	errs := make(map[string]error)
	var wg sync.WaitGroup
	for i, id := range ids {
		wg.Go(func() {
			err := db.Create(context.Background(), txn(id))
			mu.Lock()
			defer mu.Unlock()
			errs[id] = err
		})
		queued(t, db, i+1) // in this order
	}
	release()
	wg.Wait()
	return errs
}

// TestOneFails has one request of a batch fail in SQLite; the others are kept.
func TestOneFails(t *testing.T) {
	db, dir := openTemp(t)
	exec(t, dir, `CREATE TRIGGER bad BEFORE INSERT ON txns WHEN NEW.id LIKE 'bad%' BEGIN SELECT RAISE(ABORT, 'no'); END`)
	for id, err := range create(t, db, "a", "bad1", "b", "bad2", "c") {
		bad := strings.HasPrefix(id, "bad")
		if (err != nil) != bad || errors.Is(err, store.ErrUndone) != bad || errors.Is(err, store.ErrExists) {
			t.Errorf("Create(%s): %v", id, err)
		}
		if _, err := db.Get(t.Context(), id); errors.Is(err, store.ErrNotFound) != bad {
			t.Errorf("Get(%s): %v", id, err)
		}
	}
}

// TestTransactionIsLost makes SQLite undo the whole transaction in the middle of a batch: no caller may hear that its
// write is kept, and none is.
func TestTransactionIsLost(t *testing.T) {
	db, dir := openTemp(t)
	exec(t, dir, `CREATE TRIGGER bad BEFORE INSERT ON txns WHEN NEW.id = 'bad' BEGIN SELECT RAISE(ROLLBACK, 'no'); END`)
	for id, err := range create(t, db, "a", "bad", "b") {
		if !errors.Is(err, store.ErrUndone) {
			t.Errorf("Create(%s): %v, want ErrUndone", id, err)
		}
		if _, err := db.Get(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Get(%s): %v, want ErrNotFound", id, err)
		}
	}
	for id, err := range create(t, db, "a", "b") {
		if err != nil {
			t.Errorf("Create(%s) after it: %v", id, err)
		}
	}
}

// TestCommitInDoubt: after a commit that failed, the log may still have all of it. The test imitates that: the
// transaction has ended in the middle of the batch, so that the commit finds none. No caller may hear that its write is
// kept, nor that it is not.
func TestCommitInDoubt(t *testing.T) {
	db, _ := openTemp(t)
	release := stall(t, db)
	created, ended := make(chan error, 1), make(chan error, 1)
	go func() { created <- db.Create(context.Background(), txn("a")) }()
	queued(t, db, 1)
	go func() {
		ended <- db.withWriter(context.Background(), "end", func(w *writer) (answer, failed error) {
			_, err := w.exec(sqlCommit)
			return nil, err
		})
	}()
	queued(t, db, 2)
	release()
	for _, err := range []error{<-created, <-ended} {
		if err == nil || errors.Is(err, store.ErrUndone) {
			t.Errorf("answered with %v, want an error that leaves it open", err)
		}
	}
	if _, err := db.Get(t.Context(), "a"); err != nil {
		t.Errorf("Get: %v, this one is there", err)
	}
	if err := db.Create(t.Context(), txn("b")); err != nil {
		t.Errorf("Create after it: %v", err)
	}
}

// TestDiskFull stands for a disk that is full, and then is not any more.
func TestDiskFull(t *testing.T) {
	db, _ := openTemp(t)
	limit := func(pages int) {
		err := db.withWriter(t.Context(), "limit", func(w *writer) (answer, failed error) {
			_, err := w.conn.ExecContext(context.Background(), fmt.Sprintf("PRAGMA max_page_count = %d", pages))
			return nil, err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	limit(30)
	var kept []string
	var full error
	for i := 0; full == nil && i < 100; i++ {
		x := txn(fmt.Sprint("id", i))
		x.Data = make([]byte, 3000)
		if full = db.Create(t.Context(), x); full == nil {
			kept = append(kept, x.ID)
		}
	}
	if !errors.Is(full, store.ErrUndone) || errors.Is(full, store.ErrExists) || !strings.Contains(full.Error(), "full") {
		t.Fatalf("Create on a full disk: %v", full)
	}
	limit(1 << 30)
	if err := db.Create(t.Context(), txn("later")); err != nil {
		t.Errorf("Create when there is room again: %v", err)
	}
	for _, id := range kept {
		if _, err := db.Get(t.Context(), id); err != nil {
			t.Errorf("Get(%s): %v", id, err)
		}
	}
}

// TestContextEndsInQueue: a request that waits is dropped; one that has begun is reported as it ends.
func TestContextEndsInQueue(t *testing.T) {
	db, _ := openTemp(t)
	release := stall(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- db.Create(ctx, txn("a")) }()
	queued(t, db, 1)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Create: %v, want context.Canceled", err)
	}
	release()
	if err := db.Create(t.Context(), txn("b")); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Get(t.Context(), "a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get of the dropped: %v, want ErrNotFound", err)
	}

	ctx, cancel = context.WithCancel(t.Context())
	err := db.withWriter(ctx, "begun", func(w *writer) (answer, failed error) {
		cancel() // too late
		x := txn("c")
		_, err := w.exec(sqlCreate, x.ID, x.Owner, x.Scheme, string(x.State), x.Data, x.Expires.UnixMilli(), 1)
		return nil, err
	})
	if err != nil {
		t.Errorf("write whose context ended after it began: %v, want nil", err)
	}
	if _, err := db.Get(t.Context(), "c"); err != nil {
		t.Errorf("Get: %v", err)
	}
}

func TestQueueIsFull(t *testing.T) {
	db, _ := openTemp(t)
	release := stall(t, db)
	defer release()
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for i := range queueLen + 10 {
		wg.Go(func() {
			if err := db.Create(ctx, txn(fmt.Sprint(i))); !errors.Is(err, context.Canceled) {
				t.Errorf("Create: %v, want context.Canceled", err)
			}
		})
	}
	queued(t, db, queueLen)
	cancel()
	wg.Wait()
}

// TestChangePanics: the panic is the caller's, the store goes on.
func TestChangePanics(t *testing.T) {
	db, _ := openTemp(t)
	if err := db.Create(t.Context(), txn("a")); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() != "oh" {
				t.Error("the panic did not reach the caller")
			}
		}()
		_ = db.Update(t.Context(), store.Txn{ID: "a"}, func(*store.Txn) error { panic("oh") })
	}()
	if err := db.Update(t.Context(), store.Txn{ID: "a"}, func(*store.Txn) error { return nil }); err != nil {
		t.Error(err)
	}
}

// TestOtherProcessWrites: a write waits for the transaction of another process,
// and reads do not.
func TestOtherProcessWrites(t *testing.T) {
	db, dir := openTemp(t)
	if err := db.Create(t.Context(), txn("a")); err != nil {
		t.Fatal(err)
	}
	other := openRaw(t, dir)
	defer other.Close()
	other.SetMaxOpenConns(1)
	if _, err := other.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- db.Create(context.Background(), txn("b")) }()
	for range 100 {
		if _, err := db.Get(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-ended:
		t.Errorf("Create beside a write of another: %v", err)
	default:
	}
	if _, err := other.Exec("COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Create: %v", err)
	}
}

// TestBesideABusyOne: a process that writes without a pause lets another one start, and lets its writes through.
func TestBesideABusyOne(t *testing.T) {
	busy, dir := openTemp(t)
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	defer writers.Wait()
	defer cancel()
	for i := range 64 {
		writers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if err := busy.Create(context.Background(), txn(fmt.Sprint(i, " ", n))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 5 {
		start := time.Now()
		db, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 10 {
			if err := db.Create(t.Context(), txn(fmt.Sprint("other ", i, " ", n))); err != nil {
				t.Error(err)
			}
		}
		t.Logf("start and ten writes took %v", time.Since(start))
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNewerSchema(t *testing.T) {
	db, dir := openTemp(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	exec(t, dir, "UPDATE schema_version SET version = version + 1, compatible_from = version + 1")
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "newer release") {
		t.Errorf("Open: %v, want a refusal", err)
	}
}

// TestNothingRemains looks for data in the files after it was replaced or swept.
func TestNothingRemains(t *testing.T) {
	db, dir := openTemp(t)
	canary := bytes.Repeat([]byte("canary in the mine "), 500)
	for i := range 50 {
		x := txn(fmt.Sprint("id", i))
		x.Data = canary
		if err := db.Create(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 25 {
		err := db.Update(t.Context(), store.Txn{ID: fmt.Sprint("id", i)}, func(t *store.Txn) error { t.Data = nil; return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	if n, err := db.Sweep(t.Context(), time.Now().Add(2*time.Hour)); n != 50 || err != nil {
		t.Fatalf("Sweep = %d, %v", n, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, canary[:100]) {
			t.Errorf("%s still holds the data", f.Name())
		}
	}
}

// TestQueue: a write counts until it is done, wherever it waits.
func TestQueue(t *testing.T) {
	db, _ := openTemp(t)
	want := func(waiting int, served uint64) {
		t.Helper()
		if w, s := db.Queue(); w != waiting || s != served {
			t.Errorf("%d wait, %d served, want %d and %d", w, s, waiting, served)
		}
	}
	want(0, 0)
	release := stall(t, db)
	want(1, 0)
	const more = queueLen + 10 // for some there is no room to wait in
	var all sync.WaitGroup
	for i := range more {
		all.Go(func() {
			if err := db.Create(t.Context(), txn(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	waittest.Until(t, "all writes to wait", func() bool { n, _ := db.Queue(); return n == more+1 })
	want(more+1, 0)
	release()
	all.Wait()
	want(0, more+1)
}

// TestJournalGone removes a file next to the database while the store is open. What was acknowledged before is there
// after a restart. Later writes are refused, for they would be lost if the process were killed.
func TestJournalGone(t *testing.T) {
	for _, end := range []string{"-wal", "-shm"} {
		t.Run(end, func(t *testing.T) {
			db, dir := openTemp(t)
			if err := db.Create(t.Context(), txn("before")); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(filepath.Join(dir, fileName+end)); err != nil {
				t.Fatal(err)
			}
			const want = "was removed while in use"
			if err := db.Create(t.Context(), txn("after")); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Create: %v, want %q", err, want)
			}
			if err := db.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Ping: %v, want %q", err, want)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			again, err := Open(dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			if _, err := again.Get(t.Context(), "before"); err != nil {
				t.Errorf("Get of what was there: %v", err)
			}
			if _, err := again.Get(t.Context(), "after"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("Get of what was refused: %v", err)
			}
		})
	}
}

// TestFileGone removes the database while the store is open, and puts another in its place: a write that succeeded
// there would be lost.
func TestFileGone(t *testing.T) {
	db, dir := openTemp(t)
	if err := db.Create(t.Context(), txn("before")); err != nil {
		t.Fatal(err)
	}
	path, aside := filepath.Join(dir, fileName), filepath.Join(dir, "aside.db")
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct{ name, want string }{{"removed", "was removed while in use"}, {"replaced", "was replaced while in use"}} {
		move(path, aside)
		if step.name == "replaced" {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Create(t.Context(), txn(step.name)); err == nil || !strings.Contains(err.Error(), step.want) {
			t.Errorf("Create: %v, want %q", err, step.want)
		}
		if err := db.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), step.want) {
			t.Errorf("Ping: %v, want %q", err, step.want)
		}
		if _, err := db.Get(t.Context(), "before"); err != nil {
			t.Errorf("Get: %v", err)
		}
		move(aside, path)
		if err := errors.Join(db.Create(t.Context(), txn("after "+step.name)), db.Ping(t.Context())); err != nil {
			t.Errorf("back in its place: %v", err)
		}
	}
}

// TestLazily: a commit waits for the disk unless all writes in it are lazy, and the first
// that is not lazy waits for those before it.
func TestLazily(t *testing.T) {
	db, _ := openTemp(t)
	level := func(got *int) func(w *writer) (answer, failed error) {
		return func(w *writer) (answer, failed error) {
			return nil, w.conn.QueryRowContext(context.Background(), "PRAGMA synchronous").Scan(got)
		}
	}
	const normal, full = 1, 2
	for _, step := range []struct {
		name  string
		batch []bool // lazy
		want  int
	}{
		{"first", []bool{false}, full},
		{"one", []bool{true}, normal},
		{"again", []bool{true, true}, normal},
		{"after it", []bool{false}, full},
		{"lazy last", []bool{false, true}, full},
		{"lazy first", []bool{true, false}, full},
		{"all of them", []bool{true, true, true}, normal},
	} {
		got := make([]int, len(step.batch))
		var wg sync.WaitGroup
		release := stall(t, db) // is not lazy
		for i, lazy := range step.batch {
			write := db.withWriter
			if lazy {
				write = db.withLazyWriter
			}
			wg.Go(func() {
				if err := write(t.Context(), "level", level(&got[i])); err != nil {
					t.Errorf("%s: %v", step.name, err)
				}
			})
			queued(t, db, i+1)
		}
		release()
		wg.Wait()
		for i := range got {
			if got[i] != step.want {
				t.Errorf("%s: synchronous = %d, want %d", step.name, got[i], step.want)
			}
		}
	}
}

// TestCommitsAreNoMoreThanWrites: who reads the counters in the middle of a commit sees no commit of which the writes
// are missing.
func TestCommitsAreNoMoreThanWrites(t *testing.T) {
	db, _ := openTemp(t)
	var over atomic.Bool
	var reading sync.WaitGroup
	reading.Go(func() {
		for !over.Load() {
			if s := db.Stat(); s.Commits > s.Writes {
				t.Errorf("%d writes in %d commits", s.Writes, s.Commits)
				return
			}
		}
	})
	for i := range 500 {
		if err := db.Create(t.Context(), txn(fmt.Sprint(i))); err != nil {
			t.Error(err)
		}
	}
	over.Store(true)
	reading.Wait()
}
