package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openthreeds/threeds/internal/store"
)

// What the server says, by SQLSTATE.
const (
	serializationFailure = "40001" // done nothing: try again
	deadlockDetected     = "40P01" // the same
	readOnly             = "25006" // the same: it has become a standby
	idleSession          = "57P05" // the same: the session was ended before it read the statement
	completionUnknown    = "40003"
)

// tries is how often a call is begun that has surely done nothing.
const tries = 5

// A job is what a call does on a connection. An error that is a fact of the
// contract is the answer of the call; any other means that it failed.
type job func(ctx context.Context, conn *pgx.Conn) error

// read runs a job that changes nothing. When the connection fails under it, it
// is begun again.
func (db *DB) read(ctx context.Context, what string, do job) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.leave()
	// Half of the time, so that there is some left to ask another server.
	err := db.call(ctx, what, db.timeout/2, do, func(err error) bool { return didNothing(err) || connectionFailed(err) })
	if errors.Is(err, pgx.ErrNoRows) {
		return store.ErrNotFound
	}
	return err
}

// write runs a job that is one statement, which commits by itself.
func (db *DB) write(ctx context.Context, what string, do job) error {
	if err := db.enter(ctx); err != nil {
		return err
	}
	defer db.leave()
	err := db.call(ctx, what, db.timeout, do, didNothing)
	if undone(err) {
		err = fmt.Errorf("%w (%w)", err, store.ErrUndone)
	}
	return err
}

// transact runs a job in a transaction, within a call that has been entered. An
// answer that is a fact undoes it. Its statements have ten times as long as others.
func (db *DB) transact(ctx context.Context, what string, do func(ctx context.Context, tx pgx.Tx) error) error {
	return db.call(ctx, what, 10*db.timeout, func(ctx context.Context, conn *pgx.Conn) error {
		commits := false
		err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{BeginQuery: db.sql.begin}, func(tx pgx.Tx) error {
			err := do(ctx, tx)
			commits = err == nil
			return err
		})
		if _, said := errors.AsType[*pgconn.PgError](err); commits && err != nil && !said {
			return commitLost{err}
		}
		return err
	}, didNothing)
}

// commitLost is an error of a commit to which the server has said nothing. It may have
// been done: when a connection ends under a statement without arguments, pgx
// 5.12.0 calls it closed from the start, and safe to try again.
type commitLost struct{ error }

func (e commitLost) Unwrap() error { return e.error }

// SafeToRetry is what pgconn.SafeToRetry looks for first.
func (commitLost) SafeToRetry() bool { return false }

// call runs a job, and again while again says so of its error. While no server takes
// writes, as in the middle of a failover, it waits for one, but not longer than until
// that has lasted for the time of a call: from then on calls fail at once. A server that
// works for others, but has no connection left for this call, is not waited for
// longer either.
func (db *DB) call(ctx context.Context, what string, limit time.Duration, do job, again func(error) bool) error {
	start := time.Now()
	for try := 1; ; try++ {
		err := db.once(ctx, limit, do)
		switch {
		case err == nil || isFact(err):
			return err
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return ctx.Err()
		case noServer(err) && db.guide.missing() < db.timeout && time.Since(start) < db.timeout:
			try = 0
			timer := time.NewTimer(tryEvery)
			select {
			case <-ctx.Done():
				timer.Stop()
				return ctx.Err()
			case <-timer.C:
			}
			continue
		case try < tries && again(err) && time.Since(start) < db.timeout:
			continue
		}
		return fmt.Errorf("postgres: %s: %w", what, err)
	}
}

// tryEvery is how often a call tries to open a connection.
const tryEvery = 100 * time.Millisecond

// noServer tells that no connection could be opened.
func noServer(err error) bool {
	_, ok := errors.AsType[*pgconn.ConnectError](err)
	return ok
}

// once runs a job on a connection of the pool. When ctx ends before that, it is
// never run; once begun, its outcome is waited for, up to limit.
func (db *DB) once(ctx context.Context, limit time.Duration, do job) (err error) {
	db.begun.Add(1)
	defer db.begun.Add(-1)
	wait, cancel := context.WithTimeout(ctx, db.timeout)
	conn, err := db.acquire(wait)
	cancel()
	if err != nil {
		return notBegun{err}
	}
	defer func() {
		db.giveBack(conn, err)
		db.served.Add(1)
	}()
	if err := ctx.Err(); err != nil {
		return err
	}
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	raw := conn.Conn().PgConn()
	delete(raw.CustomData(), warning)
	err = do(work, conn.Conn())
	switch warned := raw.CustomData()[warning]; {
	case db.guide.former(raw):
		return errFormer // what it says may long be out of date
	case warned != nil && err == nil:
		return fmt.Errorf("done with a warning: %v", warned)
	}
	return err
}

// keepWarning notes what the server says beside an answer. None of our statements
// gives a reason for a warning, but a commit does when its wait for a standby was
// broken off: it then counts as done, on one disk.
func keepWarning(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		conn.CustomData()[warning] = n.Message
	}
}

// didNothing tells that nothing was sent, or that the server has undone it all.
func didNothing(err error) bool {
	if failed, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch failed.Code {
		case serializationFailure, deadlockDetected, readOnly, idleSession:
			return true
		}
		return false
	}
	return pgconn.SafeToRetry(err)
}

// notBegun is an error of a job for which there was no connection.
type notBegun struct{ error }

func (e notBegun) Unwrap() error { return e.error }

// undone tells that a write of one statement, tried as often as it was, has not happened
// and will not: it was not begun, or the server says of its own accord that it has failed.
// An engine may say too that it does not know, and what stands between may only say that
// it has lost the server.
func undone(err error) bool {
	if failed, ok := errors.AsType[*pgconn.PgError](err); ok && failed.SeverityUnlocalized == "ERROR" {
		return failed.Code != completionUnknown && !strings.HasPrefix(failed.Code, "08")
	}
	_, ok := errors.AsType[notBegun](err)
	return ok || err != nil && didNothing(err)
}

// connectionFailed tells that no answer came; a server that shuts down may say so.
func connectionFailed(err error) bool {
	failed, ok := errors.AsType[*pgconn.PgError](err)
	return !ok && !errors.Is(err, pgx.ErrNoRows) || ok && strings.HasPrefix(failed.Code, "57P")
}

func isFact(err error) bool {
	switch err { //nolint:errorlint // an error of a caller may wrap one
	case store.ErrNotFound, store.ErrExists, store.ErrHeld, store.ErrFenced, store.ErrTooLarge:
		return true
	}
	return false
}

// changed returns how to read the outcome of a statement: none is the answer when
// no row has changed.
func changed(none error) func(pgconn.CommandTag, error) error {
	return func(tag pgconn.CommandTag, err error) error {
		if err == nil && tag.RowsAffected() == 0 {
			return none
		}
		return err
	}
}

// blob makes nil the empty value: a nil slice would be NULL.
func blob(data []byte) []byte {
	if data == nil {
		return []byte{}
	}
	return data
}
