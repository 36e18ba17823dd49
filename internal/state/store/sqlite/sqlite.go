// Package sqlite keeps what a [store.Store] keeps in a SQLite database in a
// directory of its own; several processes on one machine may open the same
// directory.
//
// All writes of a process go through one goroutine, which puts those that wait
// into one database transaction and answers each after the commit. A commit is on disk (WAL mode, synchronous=FULL)
// before any write is answered. A commit with only lazy writes in it need not be (synchronous=NORMAL): it gets there
// with the next one that must be. Reads have connections of their own and do not wait.
//
// The content of a snapshot is written and read in chunks, each a write or a read
// of its own, so that it delays others by a chunk at most. Chunks of a snapshot that
// was removed or never finished are freed by the next PutSnapshot, and after
// Open in the background. A PutSnapshot that has taken more than ten minutes and whose
// lease is over counts as one that will never be finished.
//
// What is deleted or replaced is overwritten with zeros in the database. In the write-ahead log it stays until its
// space is reused, or at the latest until the last process closes the store. The directory must be on a local disk.
//
// Nothing is written when the database file, or one of the two that SQLite keeps next to it, has been removed or
// replaced since Open: no process would find it again.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/openthreeds/threeds/internal/base/keyfile"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/rows"
)

// fileName is the database in its directory. SQLite puts two more files next to it.
const fileName = "threeds.db"

// busyTimeout is how long a write waits for one of another process.
const busyTimeout = 5 * time.Second

// busyTry is how long SQLite itself waits for the lock before patiently tries again.
// SQLite would soon try only ten times a second, and a process that writes one batch after the other leaves the lock
// free for a much shorter time.
const busyTry = 5 * time.Millisecond

// patiently repeats do while another process has the lock that it needs, for busyTimeout
// at most.
func patiently(do func() error) error {
	for end := time.Now().Add(busyTimeout); ; time.Sleep(time.Millisecond) {
		if err := do(); !isBusy(err) || time.Now().After(end) {
			return err
		}
	}
}

var errClosed = errors.New("sqlite: store is closed")

// Options change how a store works. The zero value is good.
type Options struct {
	// Now is the clock by which transactions and leases expire. nil means
	// time.Now.
	Now func() time.Time
}

// A DB is a [store.Store] in a directory. Close it after use.
type DB struct {
	*rows.Rows

	now   func() time.Time
	place place

	// open is held for reading by every call, so that Close waits for them.
	open   sync.RWMutex
	closed bool
	stop   context.CancelFunc // ends what was begun in the background

	queue   chan *request
	written chan struct{} // closed when the writer has ended
	readers chan *reader
	counts  counts

	files []io.Closer // pools, and connections with their statements, to be closed from the last to the first
}

var _ store.Store = (*DB)(nil)

// Open opens the store in dir, which is made if it is missing, for its owner
// only. A store of an older release is brought up to date. A store of a newer release is used as it is if it says that
// this release can use it, and refused otherwise.
func Open(dir string, opt Options) (*DB, error) {
	db, err := open(dir, opt)
	if err != nil {
		return nil, fmt.Errorf("sqlite: open %s: %w", dir, err)
	}
	return db, nil
}

func open(dir string, opt Options) (_ *DB, err error) {
	path, err := prepare(dir)
	if err != nil {
		return nil, err
	}
	db := &DB{
		now:     opt.Now,
		queue:   make(chan *request, queueLen),
		written: make(chan struct{}),
	}
	if db.now == nil {
		db.now = time.Now
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, db.closeFiles())
		}
	}()
	db.Rows = rows.New(engine{db}, dialect)
	writes, err := db.connect(path)
	if err != nil {
		return nil, err
	}
	if db.place, err = placeOf(path); err != nil {
		return nil, err
	}
	if err := migrate(writes.conn, migrations, compatibleFrom); err != nil {
		return nil, err
	}
	if err := db.place.addJournal(); err != nil {
		return nil, err
	}
	w := &writer{statements: writes, place: db.place, counts: &db.counts}
	if err := db.openReaders(path); err != nil {
		return nil, err
	}
	go func() {
		defer close(db.written)
		w.run(db.queue)
	}()
	ctx, stop := context.WithCancel(context.Background())
	db.stop = stop
	db.open.RLock() // it is like a call
	go func() {
		defer db.endCall()
		_ = db.freeLeftovers(ctx) // the next PutSnapshot will see the error
	}()
	return db, nil
}

// A place is where the files of the database were when it was opened, the database
// itself first.
type place []named

type named struct {
	path string
	file fs.FileInfo
}

func placeOf(path string) (place, error) {
	file, err := os.Stat(path)
	return place{{path, file}}, err
}

// addJournal adds the write-ahead log and its index. They are there from the first
// statement on, for as long as a connection is open.
func (p *place) addJournal() error {
	for _, end := range []string{"-wal", "-shm"} {
		beside, err := placeOf((*p)[0].path + end)
		if err != nil {
			return err
		}
		*p = append(*p, beside...)
	}
	return nil
}

// check reports a file that was removed or replaced. SQLite would go on with the open
// file that has lost its name: what is written there is lost when the last process closes
// it, and processes that come later do not see it.
func (p place) check() error {
	for _, f := range p {
		switch now, err := os.Stat(f.path); {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s was removed while in use (put it back, or restart)", f.path)
		case err == nil && !os.SameFile(now, f.file):
			return fmt.Errorf("%s was replaced while in use (restart to use the file that is there now)", f.path)
		}
	}
	return nil // if the disk cannot say, the write will show what is wrong
}

// Both kinds of connection. SQLite runs pragmas in this order.
var (
	writePragmas = []string{
		fmt.Sprintf("busy_timeout(%d)", busyTry.Milliseconds()),
		"journal_mode(WAL)",
		"synchronous(FULL)",
		"secure_delete(ON)",
		"temp_store(MEMORY)", // nothing is written elsewhere
		"cache_size(-16000)",
		"journal_size_limit(67108864)",
	}
	readPragmas = []string{
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
		"query_only(ON)",
		"temp_store(MEMORY)",
		"cache_size(-4000)",
	}
)

// source is the name by which the driver knows a database and its pragmas.
func source(path string, pragmas []string) string {
	u := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"_pragma": pragmas}.Encode()}
	return u.String()
}

// making is held while a database file is made.
var making sync.Mutex

// prepare makes the directory and the database file, if they are missing, with restrictive permissions, which SQLite
// gives to the other files too.
func prepare(dir string) (path string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := keyfile.MakeDir(dir); err != nil {
		return "", err
	}
	path = filepath.Join(dir, fileName)
	// Only a new file is opened here: closing an old one would end the locks that SQLite may hold on it for another DB
	// of this process.
	making.Lock()
	defer making.Unlock()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return path, nil
	case err != nil:
		return "", err
	}
	if err := errors.Join(keyfile.InheritOwner(f), f.Close()); err != nil {
		return "", err
	}
	return path, errors.Join(keyfile.SyncDir(dir), keyfile.SyncDir(filepath.Dir(dir)))
}

// connect opens the one connection that writes. When several processes open a
// new store at once, switching it to WAL mode may find it busy.
func (db *DB) connect(path string) (*statements, error) {
	pool, err := sql.Open("sqlite", source(path, writePragmas))
	if err != nil {
		return nil, err
	}
	db.files = append(db.files, pool)
	var conn *sql.Conn
	err = patiently(func() (err error) {
		conn, err = pool.Conn(context.Background())
		return err
	})
	if err != nil {
		return nil, err
	}
	return db.add(conn), nil
}

// add returns a new connection with its statements, which Close closes.
func (db *DB) add(conn *sql.Conn) *statements {
	s := &statements{conn, make(map[string]*sql.Stmt)}
	db.files = append(db.files, s)
	return s
}

// openReaders opens the connections that read.
func (db *DB) openReaders(path string) error {
	pool, err := sql.Open("sqlite", source(path, readPragmas))
	if err != nil {
		return err
	}
	db.files = append(db.files, pool)
	n := max(4, 2*runtime.GOMAXPROCS(0))
	db.readers = make(chan *reader, n)
	for range n {
		conn, err := pool.Conn(context.Background())
		if err != nil {
			return err
		}
		db.readers <- &reader{db.add(conn)}
	}
	return nil
}

// beginCall begins a call, which the caller has to end with endCall.
func (db *DB) beginCall(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	db.open.RLock()
	if db.closed {
		db.open.RUnlock()
		return errClosed
	}
	return nil
}

func (db *DB) endCall() { db.open.RUnlock() }

// Close implements [store.Store].
func (db *DB) Close() error {
	db.stop()
	db.open.Lock()
	defer db.open.Unlock()
	if db.closed {
		return nil
	}
	db.closed = true
	close(db.queue) // empty except for requests without a waiting caller: no call is in progress
	<-db.written
	return db.closeFiles()
}

// closeFiles closes all connections, the writing one last. When the last connection of all processes closes, SQLite
// moves the write-ahead log into the database and removes it.
func (db *DB) closeFiles() error {
	var errs []error
	for _, file := range slices.Backward(db.files) {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}

// Ping implements [store.Store].
func (db *DB) Ping(ctx context.Context) error {
	return db.read(ctx, "ping", func(r *reader) error {
		if err := db.place.check(); err != nil {
			return err
		}
		var version int
		return r.row(sqlPing).Scan(&version)
	})
}
