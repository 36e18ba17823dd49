package postgres

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
)

// count runs a query for a number.
func count(t *testing.T, url, sql string) (n int) {
	t.Helper()
	if err := connect(t, url).QueryRow(context.Background(), sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func put(t *testing.T, db *DB, generation int64, content io.Reader, keep int) error {
	t.Helper()
	l, err := db.Acquire(t.Context(), "visa", "me", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return db.PutSnapshot(t.Context(), store.Snapshot{Scheme: "visa", Generation: generation}, l, content, keep)
}

// TestNothingLeft: no chunks stay of snapshots that are gone, nor of uploads that ended in an error or with their
// process.
func TestNothingLeft(t *testing.T) {
	db, url := openNew(t)
	data := make([]byte, 3*chunkLen)
	for g := range int64(4) {
		if err := put(t, db, g, bytes.NewReader(data), 2); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, url, `SELECT count(*) FROM chunks`); n != 2*3 {
		t.Errorf("%d chunks of 2 snapshots, want 6", n)
	}
	stop := errors.New("stop")
	if err := put(t, db, 4, io.MultiReader(bytes.NewReader(data), iotest.ErrReader(stop)), 2); !errors.Is(err, stop) {
		t.Errorf("PutSnapshot: %v", err)
	}
	if n := count(t, url, `SELECT (SELECT count(*) FROM chunks) + (SELECT count(*) FROM uploads)`); n != 2*3 {
		t.Errorf("%d rows after an upload that failed, want 6 chunks", n)
	}
	ctx, cancel := context.WithCancel(t.Context()) // as when a process is shut down
	l, err := db.Acquire(ctx, "visa", "me", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	ending := readerFunc(func(p []byte) (int, error) {
		cancel()
		return len(p), nil
	})
	if err := db.PutSnapshot(ctx, store.Snapshot{Scheme: "visa", Generation: 4}, l, ending, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("PutSnapshot: %v", err)
	}
	if n := count(t, url, `SELECT (SELECT count(*) FROM chunks) + (SELECT count(*) FROM uploads)`); n != 2*3 {
		t.Errorf("%d rows after an upload that was given up, want 6 chunks", n)
	}
	server := pgtest.Get(t) // an upload of a process that died
	server.Exec(t, url, `INSERT INTO uploads VALUES ('visa', nextval('upload_ids'))`)
	server.Exec(t, url, `INSERT INTO chunks SELECT id, 0, 'x' FROM uploads`)
	if err := put(t, db, 5, bytes.NewReader(data), 1); err != nil {
		t.Fatal(err)
	}
	if n := count(t, url, `SELECT (SELECT count(*) FROM chunks) + (SELECT count(*) FROM uploads)`); n != 3 {
		t.Errorf("%d rows after the next one, want 3 chunks", n)
	}
}

// TestDamagedSnapshot removes or changes bytes of a snapshot: every reader of it ends with an error.
func TestDamagedSnapshot(t *testing.T) {
	for _, damage := range []string{
		`DELETE FROM chunks WHERE n = 0`, `DELETE FROM chunks WHERE n = 2`, `UPDATE chunks SET data = '' WHERE n = 1`,
		`UPDATE chunks SET data = 'x' WHERE n = 1`, `UPDATE chunks SET data = 'xx' WHERE n = 2`,
		`UPDATE chunks SET data = 'x' WHERE n = 2`, `UPDATE chunks SET data = set_byte(data, 7, 7) WHERE n = 0`,
	} {
		db, url := openNew(t)
		if err := put(t, db, 1, bytes.NewReader(make([]byte, 2*chunkLen+1)), 1); err != nil {
			t.Fatal(err)
		}
		pgtest.Get(t).Exec(t, url, damage)
		r, err := db.OpenSnapshot(t.Context(), "visa", 1)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err == nil {
			t.Errorf("%s: %d bytes without error", damage, len(got))
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// commitWhenAwaited commits what conn has begun as soon as somebody waits for it.
func commitWhenAwaited(t *testing.T, url string, conn *pgx.Conn) <-chan error {
	ctx := context.Background()
	looking, committed := connect(t, url), make(chan error, 1)
	go func() {
		waittest.Until(t, "one that waits for the commit", func() bool {
			var n int
			err := looking.QueryRow(ctx, `SELECT count(*) FROM pg_locks WHERE NOT granted AND $1::int = ANY(pg_blocking_pids(pid))`,
				conn.PgConn().PID()).Scan(&n)
			if err != nil {
				t.Error(err)
			}
			return n > 0 || err != nil
		})
		_, err := conn.Exec(ctx, `COMMIT`)
		committed <- err
	}()
	return committed
}

// TestOvertakenAddsNothing: another upload has taken the place and freed the chunks, and has not yet committed, when
// the next chunk comes. The chunk waits, and is not added.
func TestOvertakenAddsNothing(t *testing.T) {
	db, url := openNew(t)
	conn := connect(t, url)
	var committed <-chan error
	var read bool
	content := readerFunc(func(p []byte) (int, error) {
		if read {
			return 0, io.EOF
		}
		read = true
		_, err := conn.Exec(context.Background(), `BEGIN; UPDATE uploads SET id = nextval('upload_ids'); DELETE FROM chunks`)
		if err != nil {
			return 0, err
		}
		committed = commitWhenAwaited(t, url, conn)
		return len(p), nil
	})
	if err := put(t, db, 1, content, 1); !errors.Is(err, store.ErrFenced) {
		t.Errorf("PutSnapshot: %v, want ErrFenced", err)
	}
	if err := <-committed; err != nil {
		t.Error(err)
	}
	if n := count(t, url, `SELECT count(*) FROM chunks`); n != 0 {
		t.Errorf("%d chunks are left over", n)
	}
}

// TestOvertakenLeavesNothing: an upload of another process has added a chunk, and not yet committed it, when the next
// upload takes its place. The next one waits, and frees that chunk too.
func TestOvertakenLeavesNothing(t *testing.T) {
	db, url := openNew(t)
	conn := connect(t, url)
	_, err := conn.Exec(t.Context(), `INSERT INTO uploads VALUES ('visa', nextval('upload_ids'))`)
	if err == nil {
		_, err = conn.Exec(t.Context(), `BEGIN; INSERT INTO chunks SELECT id, 0, 'x' FROM uploads FOR UPDATE`)
	}
	if err != nil {
		t.Fatal(err)
	}
	committed := commitWhenAwaited(t, url, conn)
	if err := put(t, db, 1, strings.NewReader("content"), 1); err != nil {
		t.Errorf("PutSnapshot: %v", err)
	}
	if err := <-committed; err != nil {
		t.Error(err)
	}
	if n := count(t, url, `SELECT (SELECT count(*) FROM chunks) + (SELECT count(*) FROM uploads)`); n != 1 {
		t.Errorf("%d rows, want the one chunk of the snapshot", n)
	}
}
