package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/rows"
)

const (
	// FOR UPDATE makes it a fence: no holder acquires the lease until what follows is committed.
	sqlFence = `SELECT token FROM leases WHERE name = $1 AND token = $2 AND holder = $3 FOR UPDATE`

	sqlNewer = `SELECT EXISTS (SELECT FROM snapshots WHERE scheme = $1 AND generation >= $2)`

	// An upload takes the place of that of the same scheme, with a new id.
	sqlReplaced = `SELECT id FROM uploads WHERE scheme = $1 FOR UPDATE`
	sqlUpload   = `INSERT INTO uploads (scheme, id) VALUES ($1, nextval('upload_ids'))
		ON CONFLICT (scheme) DO UPDATE SET id = excluded.id RETURNING id`

	// The lock delays a replacement of the upload until the chunk is committed, so that the replacement sees the chunk
	// and deletes it.
	sqlAddChunk = `INSERT INTO chunks (snapshot, n, data) SELECT $1, $2, $3 FROM uploads WHERE scheme = $4 AND id = $1 FOR UPDATE`

	sqlEndUpload = `DELETE FROM uploads WHERE scheme = $1 AND id = $2`
	sqlPublish   = `INSERT INTO snapshots (id, scheme, generation, created, size, sha256, note) VALUES ($1, $2, $3, $4, $5, $6, $7)`
	sqlRetire    = `DELETE FROM snapshots WHERE scheme = $1 AND generation NOT IN (
		SELECT generation FROM snapshots WHERE scheme = $1 ORDER BY generation DESC LIMIT $2) RETURNING id`
	sqlFreeChunks = `DELETE FROM chunks WHERE snapshot = ANY ($1)`

	sqlSnapshots = `SELECT scheme, generation, created, size, note FROM snapshots WHERE scheme = $1 ORDER BY generation DESC`
	sqlSnapshot  = `SELECT id, size, sha256 FROM snapshots WHERE scheme = $1 AND generation = $2`
	sqlChunk     = `SELECT data FROM chunks WHERE snapshot = $1 AND n = $2`
)

const chunkLen = 256 << 10 // bytes of content in one row

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
	size, sum, err := db.addChunks(ctx, s.Scheme, id, content)
	if err == nil {
		err = db.publish(ctx, id, s, size, sum, lease, keep)
	}
	if err != nil {
		// The next PutSnapshot of the scheme frees it, if this does not.
		_ = db.transact(context.WithoutCancel(ctx), "drop upload", func(ctx context.Context, tx pgx.Tx) error {
			if err := changed(store.ErrNotFound)(tx.Exec(ctx, sqlEndUpload, s.Scheme, id)); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, sqlFreeChunks, []int64{id})
			return err
		})
	}
	return err
}

// beginUpload returns the id of a new upload.
func (db *DB) beginUpload(ctx context.Context, s store.Snapshot, lease store.Lease) (id int64, err error) {
	err = db.transact(ctx, "begin snapshot", func(ctx context.Context, tx pgx.Tx) error {
		if err := fence(ctx, tx, lease); err != nil {
			return err
		}
		if err := newest(ctx, tx, s); err != nil {
			return err
		}
		var replaced int64
		switch err := tx.QueryRow(ctx, sqlReplaced, s.Scheme).Scan(&replaced); {
		case err == nil:
			if _, err := tx.Exec(ctx, sqlFreeChunks, []int64{replaced}); err != nil {
				return err
			}
		case !errors.Is(err, pgx.ErrNoRows):
			return err
		}
		return tx.QueryRow(ctx, sqlUpload, s.Scheme).Scan(&id)
	})
	return id, err
}

// fence returns ErrFenced unless l may still write. If it may, it stays so until the transaction ends.
func fence(ctx context.Context, tx pgx.Tx, l store.Lease) error {
	var token int64
	return noRow(tx.QueryRow(ctx, sqlFence, l.Name, l.Token, l.Holder).Scan(&token), store.ErrFenced)
}

// newest answers ErrExists unless the generation of s is greater than all.
func newest(ctx context.Context, tx pgx.Tx, s store.Snapshot) error {
	var newer bool
	if err := tx.QueryRow(ctx, sqlNewer, s.Scheme, s.Generation).Scan(&newer); err != nil {
		return err
	}
	if newer {
		return store.ErrExists
	}
	return nil
}

// addChunks writes the content of an upload and returns its size and SHA-256.
func (db *DB) addChunks(ctx context.Context, scheme string, id int64,
	content io.Reader) (size int64, sum []byte, err error) {
	buf := make([]byte, chunkLen)
	h := sha256.New()
	for n := 0; ; n++ {
		got, err := rows.Fill(ctx, buf, content)
		last := err == io.EOF // a wrapped one is an error
		if err != nil && !last {
			return 0, nil, err
		}
		if got > 0 {
			h.Write(buf[:got])
			err := db.call(ctx, "add chunk", db.timeout, func(ctx context.Context, conn *pgx.Conn) error {
				return changed(store.ErrFenced)(conn.Exec(ctx, sqlAddChunk, id, n, buf[:got], scheme))
			}, db.didNothing)
			if err != nil {
				return 0, nil, err
			}
		}
		size += int64(got)
		if last {
			return size, h.Sum(nil), nil
		}
	}
}

// publish makes a whole upload a snapshot, and frees those that are too many.
func (db *DB) publish(ctx context.Context, id int64, s store.Snapshot, size int64, sum []byte, lease store.Lease,
	keep int) error {
	return db.transact(ctx, "put snapshot", func(ctx context.Context, tx pgx.Tx) error {
		if err := fence(ctx, tx, lease); err != nil {
			return err
		}
		// There is one upload per scheme: the transaction that has deleted its row is alone from here on.
		if err := changed(store.ErrFenced)(tx.Exec(ctx, sqlEndUpload, s.Scheme, id)); err != nil {
			return err
		}
		if err := newest(ctx, tx, s); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, sqlPublish, id, s.Scheme, s.Generation, s.Created.UnixMilli(), size, sum,
			rows.Blob(s.Note)); err != nil {
			return err
		}
		result, err := tx.Query(ctx, sqlRetire, s.Scheme, max(1, keep))
		if err != nil {
			return err
		}
		gone, err := pgx.CollectRows(result, pgx.RowTo[int64])
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, sqlFreeChunks, gone)
		return err
	})
}

// Snapshots implements [store.Store].
func (db *DB) Snapshots(ctx context.Context, scheme string) ([]store.Snapshot, error) {
	return rows.All(ctx, db.Rows, "snapshots", rows.ScanSnapshot, sqlSnapshots, scheme)
}

// OpenSnapshot implements [store.Store].
func (db *DB) OpenSnapshot(ctx context.Context, scheme string, generation int64) (io.ReadCloser, error) {
	c := &content{ctx: ctx, db: db, hash: sha256.New()}
	err := db.read(ctx, "open snapshot", func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, sqlSnapshot, scheme, generation).Scan(&c.id, &c.left, &c.sum)
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// content reads a snapshot. It holds no connection between two chunks. Ids are never reused, so all chunks belong to
// the same snapshot.
type content struct {
	ctx  context.Context
	db   *DB
	id   int64
	n    int    // the next chunk
	have []byte // what is left of the last one
	left int64  // bytes from the next chunk on
	hash hash.Hash
	sum  []byte // what hash must be in the end
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
		if !bytes.Equal(c.hash.Sum(nil), c.sum) {
			return errors.New("postgres: read snapshot: the content is damaged")
		}
		return io.EOF
	}
	err := c.db.read(c.ctx, "read snapshot", func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, sqlChunk, c.id, c.n).Scan(&c.have)
	})
	if err != nil {
		return err
	}
	c.hash.Write(c.have)
	c.n++
	c.left -= int64(len(c.have))
	if len(c.have) == 0 || c.left < 0 {
		return fmt.Errorf("postgres: read snapshot: chunk %d is damaged", c.n-1)
	}
	return nil
}

func (c *content) Close() error {
	c.err, c.have = fs.ErrClosed, nil
	return nil
}
