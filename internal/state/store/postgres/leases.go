package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	// The clock is asked more than once and might step back in between: another
	// holder gets another token in any case.
	sqlAcquire = `INSERT INTO leases AS l (name, token, holder, expires) VALUES ($1, 1, $2, {now} + $3)
		ON CONFLICT (name) DO UPDATE SET
			token = l.token + CASE WHEN l.holder = $2 AND l.expires > {now} THEN 0 ELSE 1 END,
			holder = $2, expires = {now} + $3
			WHERE l.holder IS NULL OR l.expires <= {now} OR l.holder = $2
		RETURNING token, expires`
	sqlRelease = `UPDATE leases SET holder = NULL WHERE name = $1 AND token = $2 AND holder = $3`

	// FOR UPDATE makes it a fence: nobody acquires the lease until what follows is
	// committed.
	sqlFence    = `SELECT token FROM leases WHERE name = $1 AND token = $2 AND holder = $3 FOR UPDATE`
	sqlPutState = `INSERT INTO small_states (key, value)
		SELECT $4, $5 FROM leases WHERE name = $1 AND token = $2 AND holder = $3 FOR UPDATE
		ON CONFLICT (key) DO UPDATE SET value = excluded.value`
	sqlState = `SELECT value FROM small_states WHERE key = $1`
)

// Acquire implements [store.Store].
func (db *DB) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (store.Lease, error) {
	l := store.Lease{Name: name, Holder: holder}
	var expires int64
	err := db.write(ctx, "acquire", func(ctx context.Context, conn *pgx.Conn) error {
		err := conn.QueryRow(ctx, db.withClock(sqlAcquire), name, holder, ttl.Milliseconds()).Scan(&l.Token, &expires)
		return noRow(err, store.ErrHeld)
	})
	if err != nil {
		return store.Lease{}, err
	}
	l.Expires = time.UnixMilli(expires).UTC()
	return l, nil
}

// Release implements [store.Store].
func (db *DB) Release(ctx context.Context, l store.Lease) error {
	return db.exec(ctx, "release", sqlRelease, l.Name, l.Token, l.Holder)
}

// fence answers ErrFenced unless l is good for writing, and then keeps it so until
// the transaction ends.
func fence(ctx context.Context, tx pgx.Tx, l store.Lease) error {
	var token int64
	return noRow(tx.QueryRow(ctx, sqlFence, l.Name, l.Token, l.Holder).Scan(&token), store.ErrFenced)
}

// noRow reads the error of a Scan: none is the answer when there is no row.
func noRow(err, none error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return none
	}
	return err
}

// PutState implements [store.Store].
func (db *DB) PutState(ctx context.Context, key string, value []byte, lease store.Lease) error {
	return db.write(ctx, "put state", func(ctx context.Context, conn *pgx.Conn) error {
		if len(value) > store.MaxValue {
			return store.ErrTooLarge
		}
		return changed(store.ErrFenced)(conn.Exec(ctx, sqlPutState, lease.Name, lease.Token, lease.Holder, key, store.Blob(value)))
	})
}

// State implements [store.Store].
func (db *DB) State(ctx context.Context, key string) (value []byte, err error) {
	err = db.read(ctx, "state", func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, sqlState, key).Scan(&value)
	})
	return value, err
}
