package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/rows"
)

const (
	sqlFence = `SELECT 1 FROM leases WHERE name = ?1 AND token = ?2 AND holder = ?3`
	sqlNewer = `SELECT 1 FROM snapshots WHERE scheme = ?1 AND generation >= ?2 LIMIT 1`

	// An upload takes the place of that of the same scheme, with a new id.
	sqlUpload = `INSERT OR REPLACE INTO uploads (scheme, lease, token, begun) VALUES (?1, ?2, ?3, ?4)`
	sqlBegun  = `SELECT 1 FROM uploads WHERE id = ?1`

	// There must be no chunk of an upload that is gone: it has been freed.
	sqlAddChunk = `INSERT INTO chunks (snapshot, n, data) SELECT ?1, ?2, ?3
		FROM uploads JOIN leases ON leases.name = uploads.lease AND leases.token = uploads.token AND leases.holder IS NOT NULL
		WHERE uploads.id = ?1`
	sqlPublish   = `INSERT INTO snapshots (id, scheme, generation, created, size, note) VALUES (?1, ?2, ?3, ?4, ?5, ?6)`
	sqlEndUpload = `DELETE FROM uploads WHERE id = ?1`
	sqlRetire    = `DELETE FROM snapshots WHERE scheme = ?1 AND generation NOT IN (
		SELECT generation FROM snapshots WHERE scheme = ?1 ORDER BY generation DESC LIMIT ?2)`

	sqlSnapshots = `SELECT scheme, generation, created, size, note FROM snapshots WHERE scheme = ?1 ORDER BY generation DESC`
	sqlSnapshot  = `SELECT id, size FROM snapshots WHERE scheme = ?1 AND generation = ?2`
	sqlChunk     = `SELECT data FROM chunks WHERE snapshot = ?1 AND n = ?2`

	// An upload is dead when its lease is fenced. It is also dead when the lease is over at ?1 and the upload is from
	// before ?2, so that its process must be gone.
	deadUploads = `id NOT IN (SELECT id FROM uploads JOIN leases
		ON leases.name = uploads.lease AND leases.token = uploads.token AND leases.holder IS NOT NULL
		WHERE leases.expires > ?1 OR uploads.begun >= ?2)`
	sqlDeadUploads = `SELECT count(*) FROM uploads WHERE ` + deadUploads
	sqlDropUploads = `DELETE FROM uploads WHERE ` + deadUploads
	sqlLeftovers   = `SELECT min(snapshot) FROM chunks
		WHERE snapshot NOT IN (SELECT id FROM snapshots UNION ALL SELECT id FROM uploads)`
	sqlFreeChunks = `DELETE FROM chunks WHERE rowid IN (SELECT rowid FROM chunks WHERE snapshot = ?1 LIMIT ?2)`
)

const (
	chunkLen  = 256 << 10 // bytes of content in one write: what others wait for
	freeLen   = 2         // chunks freed in one write
	deadAfter = 10 * time.Minute
)

// PutSnapshot implements [store.Store].
func (db *DB) PutSnapshot(ctx context.Context, s store.Snapshot, lease store.Lease, content io.Reader, keep int) error {
	if err := db.beginCall(ctx); err != nil {
		return err
	}
	defer db.endCall()
	if len(s.Note) > store.MaxNote {
		return store.ErrTooLarge
	}
	id, err := db.beginUpload(ctx, s, lease)
	if err != nil {
		return err
	}
	if err := db.freeLeftovers(ctx); err != nil {
		return err
	}
	s.Size, err = db.addChunks(ctx, id, content)
	if err != nil {
		return err
	}
	return db.withWriter(ctx, "put snapshot", func(w *writer) (answer, failed error) {
		if answer, failed := w.mayPut(s, lease); answer != nil || failed != nil {
			return answer, failed
		}
		var one int
		if answer, failed := row(store.ErrFenced)(w.row(sqlBegun, id).Scan(&one)); answer != nil || failed != nil {
			return answer, failed
		}
		return w.atomically(func() (answer, failed error) {
			_, err := w.exec(sqlPublish, id, s.Scheme, s.Generation, s.Created.UnixMilli(), s.Size, rows.Blob(s.Note))
			if err == nil {
				_, err = w.exec(sqlEndUpload, id)
			}
			if err == nil {
				_, err = w.exec(sqlRetire, s.Scheme, max(1, keep))
			}
			return nil, err
		})
	})
}

// fenced answers ErrFenced unless l is good for writing.
func (w *writer) fenced(l store.Lease) (answer, failed error) {
	var one int
	return row(store.ErrFenced)(w.row(sqlFence, l.Name, l.Token, l.Holder).Scan(&one))
}

// mayPut answers whether the lease and the generation of s are good.
func (w *writer) mayPut(s store.Snapshot, lease store.Lease) (answer, failed error) {
	if answer, failed := w.fenced(lease); answer != nil || failed != nil {
		return answer, failed
	}
	var one int
	switch err := w.row(sqlNewer, s.Scheme, s.Generation).Scan(&one); {
	case err == nil:
		return store.ErrExists, nil
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	default:
		return nil, err
	}
}

// beginUpload returns the id of a new upload.
func (db *DB) beginUpload(ctx context.Context, s store.Snapshot, lease store.Lease) (id int64, err error) {
	err = db.withWriter(ctx, "begin snapshot", func(w *writer) (answer, failed error) {
		if answer, failed := w.mayPut(s, lease); answer != nil || failed != nil {
			return answer, failed
		}
		result, err := w.exec(sqlUpload, s.Scheme, lease.Name, lease.Token, db.now().UnixMilli())
		if err != nil {
			return nil, err
		}
		id, err = result.LastInsertId()
		return nil, err
	})
	return id, err
}

// addChunks writes the content of an upload and returns its size.
func (db *DB) addChunks(ctx context.Context, id int64, content io.Reader) (size int64, err error) {
	buf := make([]byte, chunkLen)
	for n := 0; ; n++ {
		got, err := rows.Fill(ctx, buf, content)
		last := err == io.EOF // a wrapped one is an error
		if err != nil && !last {
			return 0, err
		}
		if got > 0 {
			err := db.withWriter(ctx, "add chunk", func(w *writer) (answer, failed error) {
				return changed(store.ErrFenced)(w.exec(sqlAddChunk, id, n, buf[:got]))
			})
			if err != nil {
				return 0, err
			}
		}
		size += int64(got)
		if last {
			return size, nil
		}
	}
}

// freeLeftovers frees what is left of snapshots that are gone and of uploads that
// are dead, little by little. A leftover always stays one, so freeLeftovers looks for them with a reader, and writes
// only if there is something to do.
func (db *DB) freeLeftovers(ctx context.Context) error {
	now := db.now()
	over, old := now.UnixMilli(), now.Add(-deadAfter).UnixMilli()
	var uploads int
	err := db.withReader(ctx, "look for uploads", func(r *reader) error {
		return r.row(sqlDeadUploads, over, old).Scan(&uploads)
	})
	if err == nil && uploads > 0 {
		err = db.withWriter(ctx, "drop uploads", func(w *writer) (answer, failed error) {
			_, err := w.exec(sqlDropUploads, over, old)
			return nil, err
		})
	}
	for err == nil {
		var id sql.NullInt64
		err = db.withReader(ctx, "look for leftovers", func(r *reader) error { return r.row(sqlLeftovers).Scan(&id) })
		if err != nil || !id.Valid {
			break
		}
		err = db.freeChunks(ctx, id.Int64)
	}
	return err
}

// freeChunks frees all chunks of one leftover.
func (db *DB) freeChunks(ctx context.Context, id int64) error {
	for more := true; more; {
		err := db.withWriter(ctx, "free chunks", func(w *writer) (answer, failed error) {
			n, err := affected(w.exec(sqlFreeChunks, id, freeLen))
			more = n == freeLen
			return nil, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Snapshots implements [store.Store].
func (db *DB) Snapshots(ctx context.Context, scheme string) ([]store.Snapshot, error) {
	return rows.All(ctx, db.Rows, "snapshots", rows.ScanSnapshot, sqlSnapshots, scheme)
}

// OpenSnapshot implements [store.Store].
func (db *DB) OpenSnapshot(ctx context.Context, scheme string, generation int64) (io.ReadCloser, error) {
	c := &content{ctx: ctx, db: db}
	err := db.read(ctx, "open snapshot", func(r *reader) error {
		return r.row(sqlSnapshot, scheme, generation).Scan(&c.id, &c.left)
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// content reads a snapshot. It holds no connection and no transaction between two
// chunks. Ids are never reused, so all chunks belong to the same snapshot.
type content struct {
	ctx  context.Context
	db   *DB
	id   int64
	n    int    // the next chunk
	buf  []byte // the last one
	have []byte // what is left of it
	left int64  // bytes from the next chunk on
	err  error
}

func (c *content) Read(p []byte) (int, error) {
	if c.err == nil && len(c.have) == 0 {
		c.err = c.next()
	}
	if c.err != nil {
		return 0, c.err
	}
	n := copy(p, c.have)
	c.have = c.have[n:]
	return n, nil
}

// next reads a chunk.
func (c *content) next() error {
	if c.left == 0 {
		return io.EOF
	}
	err := c.db.read(c.ctx, "read snapshot", func(r *reader) error {
		return r.query(func(result rows.Result) error {
			if !result.Next() {
				return cmp.Or(result.Err(), sql.ErrNoRows)
			}
			var data sql.RawBytes // a []byte would be a copy of its own
			err := result.Scan(&data)
			c.buf = append(c.buf[:0], data...)
			return err
		}, sqlChunk, c.id, c.n)
	})
	if err != nil {
		return err
	}
	c.n++
	c.have = c.buf
	c.left -= int64(len(c.have))
	if len(c.have) == 0 || c.left < 0 {
		return fmt.Errorf("sqlite: read snapshot: chunk %d is damaged", c.n-1)
	}
	return nil
}

func (c *content) Close() error {
	c.err, c.buf, c.have = fs.ErrClosed, nil, nil
	return nil
}
