package sqlite

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/store"
)

// contentOf returns bytes that no other generation has.
func contentOf(generation int64, size int) []byte {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(generation), byte(generation >> 8)}).Read(data)
	return data
}

func acquire(t testing.TB, db *DB) store.Lease {
	t.Helper()
	l, err := db.Acquire(t.Context(), "visa", "me", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func put(t testing.TB, db *DB, generation int64, size, keep int) error {
	t.Helper()
	return db.PutSnapshot(t.Context(), store.Snapshot{Scheme: "visa", Generation: generation, Created: time.Now()},
		acquire(t, db), bytes.NewReader(contentOf(generation, size)), keep)
}

// count asks for a number on a connection of its own.
func count(t testing.TB, dir, query string) (n int) {
	t.Helper()
	conn := openRaw(t, dir)
	defer conn.Close()
	if err := conn.QueryRow(query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

const orphans = `SELECT count(*) FROM chunks WHERE snapshot NOT IN (SELECT id FROM snapshots UNION ALL SELECT id FROM uploads)`

// swept waits until what Open does in the background is done.
func swept(t testing.TB, dir string) {
	t.Helper()
	waittest.Until(t, "the end of leftovers", func() bool { return count(t, dir, orphans) == 0 })
}

// whole checks that every snapshot of visa holds what its generation does, and
// returns the greatest generation.
func whole(t *testing.T, db *DB, size, keep int) (newest int64) {
	t.Helper()
	all, err := db.Snapshots(t.Context(), "visa")
	if err != nil || len(all) > keep {
		t.Fatalf("Snapshots = %+v, %v; want %d at most", all, err, keep)
	}
	for _, s := range all {
		newest = max(newest, s.Generation)
		r, err := db.OpenSnapshot(t.Context(), "visa", s.Generation)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, contentOf(s.Generation, size)) || s.Size != int64(size) {
			t.Errorf("generation %d: %d bytes, %v; want all %d", s.Generation, len(got), err, size)
		}
	}
	if _, err := db.OpenSnapshot(t.Context(), "visa", newest+1); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("OpenSnapshot of the next: %v, want ErrNotFound", err)
	}
	return newest
}

// What TestKilled tells its child.
const (
	childDir  = "THREEDS_SQLITE_CHILD_DIR"
	childStop = "THREEDS_SQLITE_CHILD_STOP" // bytes of content; none: it goes on
	childSize = 5*chunkLen + 1
)

// stopping says when it has given so many bytes, and gives no more.
type stopping struct {
	io.Reader
	left int
}

func (s *stopping) Read(p []byte) (int, error) {
	if s.left == 0 {
		fmt.Println("stopped")
		select {}
	}
	n, err := s.Reader.Read(p[:min(len(p), s.left)])
	s.left -= n
	return n, err
}

// TestChild is the process that TestKilled kills: it puts one generation after the
// other.
func TestChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		return
	}
	db, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	all, err := db.Snapshots(t.Context(), "visa")
	if err != nil {
		t.Fatal(err)
	}
	next := int64(1)
	if len(all) > 0 {
		next = all[0].Generation + 1
	}
	stop, err := strconv.Atoi(os.Getenv(childStop))
	for ; ; next++ {
		var content io.Reader = bytes.NewReader(contentOf(next, childSize))
		if err == nil {
			content = &stopping{content, stop}
		}
		s := store.Snapshot{Scheme: "visa", Generation: next, Created: time.Now()}
		if err := db.PutSnapshot(t.Context(), s, acquire(t, db), content, 3); err != nil {
			t.Fatal(err)
		}
		fmt.Println("put", next)
	}
}

// TestKilled kills a process in the middle of PutSnapshot, at certain places and at random moments. What was there
// before is complete, nothing of the unfinished snapshot is visible, and what was acknowledged is kept.
func TestKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	acked, uploads := int64(0), 0
	stops := []string{"", "0", "1", fmt.Sprint(chunkLen), fmt.Sprint(3*chunkLen + 1), fmt.Sprint(childSize), "", "", "", ""}
	for _, stop := range stops {
		acked = max(acked, killed(t, dir, stop))
		uploads += count(t, dir, "SELECT count(*) FROM uploads")
		db, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if newest := whole(t, db, childSize, 3); newest < acked || newest > acked+1 {
			t.Errorf("the newest generation is %d, %d was acknowledged last", newest, acked)
		} else {
			acked = newest
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	if uploads < 5 {
		t.Errorf("in %d of %d rounds the process was killed in the middle, want 5 at least", uploads, len(stops))
	}

	// The next one succeeds, and only what it has removed is left over.
	db, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.PutSnapshot(t.Context(), store.Snapshot{Scheme: "visa", Generation: acked + 1},
		acquire(t, db), bytes.NewReader(contentOf(acked+1, childSize)), 3); err != nil {
		t.Errorf("PutSnapshot after all that: %v", err)
	}
	whole(t, db, childSize, 3)
	if n := count(t, dir, orphans); n > 6 {
		t.Errorf("%d chunks are left, want those of one snapshot at most, 6", n)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// killed lets a child work and kills it; it returns the generation that was
// acknowledged last.
func killed(t *testing.T, dir, stop string) (acked int64) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := osexec.Command(self, "-test.run=^TestChild$", "-test.timeout=2m")
	child.Env = append(os.Environ(), childDir+"="+dir)
	if stop != "" {
		child.Env = append(child.Env, childStop+"="+stop)
	}
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	said := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if g, ok := strings.CutPrefix(lines.Text(), "put "); ok {
			if acked, err = strconv.ParseInt(g, 10, 64); err != nil {
				t.Error(err)
			}
		} else if lines.Text() != "stopped" {
			t.Errorf("the child says %s", lines.Text())
		}
		if said++; said == 1 && stop != "" || said == 5 {
			if stop == "" { // any moment
				awaitWrites(t, dir, rand.IntN(8))
			}
			if err := child.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	_ = child.Wait() // it was killed
	return acked
}

// awaitWrites waits until the write-ahead log was seen to change so often.
func awaitWrites(t *testing.T, dir string, changes int) {
	t.Helper()
	var last os.FileInfo
	waittest.Until(t, "writes of the child", func() bool {
		now, err := os.Stat(filepath.Join(dir, fileName+"-wal"))
		if err != nil {
			t.Fatal(err)
		}
		if last != nil && (now.Size() != last.Size() || !now.ModTime().Equal(last.ModTime())) {
			changes--
		}
		last = now
		return changes <= 0
	})
}

// TestOpenAfterCrashOfSnapshot cuts off the log anywhere after two snapshots, the second of which replaces the first.
// The store then has none, the first or the second, and what it has is complete.
func TestOpenAfterCrashOfSnapshot(t *testing.T) {
	db, dir := openTemp(t)
	const size = chunkLen + 1
	for g := range int64(2) {
		if err := put(t, db, g+1, size, 1); err != nil {
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
	seen := make(map[int64]bool)
	for cut := 0; cut <= len(log); cut += 1 + len(log)/60 {
		func() {
			dir := t.TempDir()
			for name, data := range map[string][]byte{fileName: database, fileName + "-wal": log[:len(log)-cut]} {
				if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			db, err := Open(dir, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			newest := whole(t, db, size, 1)
			if cut == 0 && newest != 2 {
				t.Errorf("with the whole log the newest is %d", newest)
			}
			seen[newest] = true
			if err := put(t, db, newest+1, size, 1); err != nil {
				t.Errorf("PutSnapshot after it: %v", err)
			}
			whole(t, db, size, 1)
		}()
	}
	for g := range int64(3) {
		if !seen[g] {
			t.Errorf("no cut leaves generation %d the newest", g)
		}
	}
}

// TestLeftovers: Open frees what will never be finished or read, and nothing else.
func TestLeftovers(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	clock := Options{Now: func() time.Time { return now }}
	dir := filepath.Join(t.TempDir(), "data")
	db, err := Open(dir, clock)
	if err != nil {
		t.Fatal(err)
	}
	if err := put(t, db, 1, 3*chunkLen, 1); err != nil {
		t.Fatal(err)
	}
	ms := now.UnixMilli()
	tenMinutes := (10 * time.Minute).Milliseconds()
	for name, x := range map[string]struct {
		held, ends, begun int64
	}{
		"at work":              {2, ms + 1, ms},
		"at work for long":     {2, ms + 1, ms - 10*tenMinutes},
		"fenced":               {3, ms + 1, ms},
		"over, just begun":     {2, ms, ms - tenMinutes},
		"over, begun long ago": {2, ms, ms - tenMinutes - 1},
		"released":             {0, ms + 1, ms},
		"unknown":              {-1, 0, ms},
	} {
		holder := "'me'"
		if x.held == 0 {
			x.held, holder = 2, "NULL"
		}
		if x.held > 0 {
			exec(t, dir, fmt.Sprintf("INSERT INTO leases VALUES ('%s', %d, %s, %d)", name, x.held, holder, x.ends))
		}
		exec(t, dir, fmt.Sprintf("INSERT INTO uploads (scheme, lease, token, begun) VALUES ('%s', '%[1]s', 2, %d)", name, x.begun))
		exec(t, dir, fmt.Sprintf("INSERT INTO chunks SELECT id, 0, x'00' FROM uploads WHERE scheme = '%s'", name))
	}
	for n := range 30 {
		exec(t, dir, fmt.Sprintf("INSERT INTO chunks VALUES (%d, %d, x'00')", 1000+n/20, n))
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = Open(dir, clock); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	waittest.Until(t, "three uploads", func() bool { return count(t, dir, "SELECT count(*) FROM uploads") == 3 })
	swept(t, dir)
	if n := count(t, dir, "SELECT count(*) FROM uploads WHERE scheme IN ('at work', 'at work for long', 'over, just begun')"); n != 3 {
		t.Errorf("%d of 3 uploads at work are there", n)
	}
	if n := count(t, dir, "SELECT count(*) FROM chunks"); n != 3+3 {
		t.Errorf("%d chunks are there, want 3 of the snapshot and 3 of uploads", n)
	}
	whole(t, db, 3*chunkLen, 1)
}

// TestCloseEndsSweep closes in the middle of what Open does in the background.
func TestCloseEndsSweep(t *testing.T) {
	db, dir := openTemp(t)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	exec(t, dir, `WITH RECURSIVE i(n) AS (SELECT 0 UNION ALL SELECT n+1 FROM i WHERE n < 2000)
		INSERT INTO chunks SELECT 1, n, x'00' FROM i`)
	db, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if count(t, dir, orphans) == 0 {
		t.Error("Close has waited for all of it")
	}
	if db, err = Open(dir, Options{}); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	swept(t, dir)
}

// TestOvertakenAddsNothing: an upload whose place was taken, and whose chunks were
// freed, adds no others.
func TestOvertakenAddsNothing(t *testing.T) {
	db, dir := openTemp(t)
	l := acquire(t, db)
	exec(t, dir, fmt.Sprintf("INSERT INTO uploads (scheme, lease, token, begun) VALUES ('other', 'visa', %d, 0)", l.Token))
	read := 0
	content := readerFunc(func(p []byte) (int, error) {
		if read += len(p); read == 3*chunkLen {
			if err := put(t, db, 1, 10, 1); err != nil {
				t.Error(err)
			}
		}
		if read > 6*chunkLen {
			return 0, io.EOF
		}
		return len(p), nil
	})
	err := db.PutSnapshot(t.Context(), store.Snapshot{Scheme: "visa", Generation: 2}, l, content, 1)
	if !errors.Is(err, store.ErrFenced) || read != 3*chunkLen {
		t.Errorf("PutSnapshot: %v after %d bytes, want ErrFenced after %d", err, read, 3*chunkLen)
	}
	if n := count(t, dir, orphans); n != 0 {
		t.Errorf("%d chunks are left over", n)
	}
}

// TestFinalWriteFails makes the last statement of PutSnapshot fail in a batch with another write: the snapshot is not
// there, the other write is.
func TestFinalWriteFails(t *testing.T) {
	for _, undo := range []string{"ABORT", "FAIL", "ROLLBACK"} {
		t.Run(undo, func(t *testing.T) {
			db, dir := openTemp(t)
			if err := put(t, db, 1, 10, 1); err != nil {
				t.Fatal(err)
			}
			exec(t, dir, `CREATE TRIGGER bad BEFORE DELETE ON snapshots BEGIN SELECT RAISE(`+undo+`, 'no'); END`)
			var beside error
			var wg sync.WaitGroup
			content := readerFunc(func([]byte) (int, error) { // has the two in one batch
				release := stall(t, db)
				wg.Go(func() { beside = db.Create(context.Background(), txn("a")) })
				queued(t, db, 1)
				wg.Go(func() { queued(t, db, 2); release() })
				return 0, io.EOF
			})
			l := acquire(t, db)
			err := db.PutSnapshot(t.Context(), store.Snapshot{Scheme: "visa", Generation: 2}, l, content, 1)
			if err == nil || !strings.Contains(err.Error(), "no") {
				t.Errorf("PutSnapshot: %v, want the error of the trigger", err)
			}
			wg.Wait()
			if lost := undo == "ROLLBACK"; (beside != nil) != lost {
				t.Errorf("Create in the same batch: %v", beside)
			}
			if newest := whole(t, db, 10, 1); newest != 1 {
				t.Errorf("the newest is %d, want 1", newest)
			}
			exec(t, dir, `DROP TRIGGER bad`)
			if err := put(t, db, 2, 20, 1); err != nil {
				t.Errorf("PutSnapshot without the trigger: %v", err)
			}
			if newest := whole(t, db, 20, 1); newest != 2 {
				t.Errorf("the newest is %d, want 2", newest)
			}
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestSnapshotReusesSpace: the file does not grow with the generations.
func TestSnapshotReusesSpace(t *testing.T) {
	db, dir := openTemp(t)
	const size = 8 * chunkLen
	for g := range int64(20) {
		if err := put(t, db, g+1, size, 2); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, dir, "SELECT count(*) FROM uploads"); n != 0 {
		t.Errorf("%d uploads are there, and all have ended", n)
	}
	if pages := count(t, dir, "PRAGMA page_count"); pages*4096 > 5*size {
		t.Errorf("the database has %d KiB after 20 generations of %d KiB, of which 2 are kept", pages*4, size>>10)
	}
}

// TestDamagedSnapshot removes bytes of a snapshot: every reader of it ends with an error.
func TestDamagedSnapshot(t *testing.T) {
	for _, damage := range []string{
		"DELETE FROM chunks WHERE n = 0", "DELETE FROM chunks WHERE n = 2", "UPDATE chunks SET data = x'' WHERE n = 1",
		"UPDATE chunks SET data = x'00' WHERE n = 1", "UPDATE chunks SET data = zeroblob(1000) WHERE n = 2",
	} {
		db, dir := openTemp(t)
		if err := put(t, db, 1, 2*chunkLen+1, 1); err != nil {
			t.Fatal(err)
		}
		exec(t, dir, damage)
		r, err := db.OpenSnapshot(t.Context(), "visa", 1)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err == nil {
			t.Errorf("%s: %d bytes without error", damage, len(got))
		}
	}
}

// TestPutSnapshotAllocs: a large snapshot takes no more memory than its chunks,
// one after the other.
func TestPutSnapshotAllocs(t *testing.T) {
	db, _ := openTemp(t)
	l := acquire(t, db)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	content := &endless{contentOf(1, 1<<20), 100 << 20}
	if err := db.PutSnapshot(t.Context(), store.Snapshot{Scheme: "visa", Generation: 1}, l, content, 3); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if all := after.TotalAlloc - before.TotalAlloc; all > 8<<20 {
		t.Errorf("PutSnapshot of 100 MiB has allocated %d KiB in all", all>>10)
	}
}
