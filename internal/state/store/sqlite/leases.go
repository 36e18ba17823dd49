package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	sqlAcquire = `INSERT INTO leases (name, token, holder, expires) VALUES (?1, 1, ?2, ?3)
		ON CONFLICT (name) DO UPDATE SET
			token = token + (holder IS NULL OR expires <= ?4), holder = ?2, expires = ?3
			WHERE holder IS NULL OR expires <= ?4 OR holder = ?2
		RETURNING token`
	sqlRelease  = `UPDATE leases SET holder = NULL WHERE name = ?1 AND token = ?2 AND holder = ?3`
	sqlFence    = `SELECT 1 FROM leases WHERE name = ?1 AND token = ?2 AND holder = ?3`
	sqlState    = `SELECT value FROM small_states WHERE key = ?1`
	sqlPutState = `INSERT INTO small_states (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2`
)

// Acquire implements [store.Store].
func (db *DB) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
	l := store.Lease{Name: name, Holder: holder}
	err := db.write(ctx, "acquire", func(w *writer) (answer, failed error) {
		// Asked here, where nobody else writes: not before the wait for it.
		now := db.now()
		expires := now.Add(ttl).UnixMilli()
		l.Expires = time.UnixMilli(expires).UTC()
		return row(store.ErrHeld)(w.row(sqlAcquire, name, holder, expires, now.UnixMilli()).Scan(&l.Token))
	})
	if err != nil {
		return store.Lease{}, err
	}
	return l, nil
}

// Release implements [store.Store].
func (db *DB) Release(ctx context.Context, l store.Lease) error {
	return db.exec(ctx, "release", sqlRelease, l.Name, l.Token, l.Holder)
}

// fenced answers ErrFenced unless l is good for writing.
func (w *writer) fenced(l store.Lease) (answer, failed error) {
	var one int
	return row(store.ErrFenced)(w.row(sqlFence, l.Name, l.Token, l.Holder).Scan(&one))
}

// row returns how to read the error of a Scan: none is the answer when there is no
// row.
func row(none error) func(error) (answer, failed error) {
	return func(err error) (answer, failed error) {
		if errors.Is(err, sql.ErrNoRows) {
			return none, nil
		}
		return nil, err
	}
}

// PutState implements [store.Store].
func (db *DB) PutState(ctx context.Context, key string, value []byte, lease store.Lease) error {
	return db.write(ctx, "put state", func(w *writer) (answer, failed error) {
		if len(value) > store.MaxValue {
			return store.ErrTooLarge, nil
		}
		if answer, failed := w.fenced(lease); answer != nil || failed != nil {
			return answer, failed
		}
		_, err := w.exec(sqlPutState, key, store.Blob(value))
		return nil, err
	})
}

// State implements [store.Store].
func (db *DB) State(ctx context.Context, key string) (value []byte, err error) {
	err = db.read(ctx, "state", func(r *reader) error {
		return r.row(sqlState, key).Scan(&value)
	})
	return value, err
}
