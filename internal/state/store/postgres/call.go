package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/rows"
)

// What the server says, by SQLSTATE.
const (
	serializationFailure = "40001" // done nothing: try again
	deadlockDetected     = "40P01" // the same
	readOnly             = "25006" // the same: it has become a standby
	idleSession          = "57P05" // the same: the session was ended before it read the statement
	completionUnknown    = "40003"
)

// tries is how often a job is tried that has surely done nothing.
const tries = 5

// A job is what a call does on a connection. An error that is one of the facts of
// package store is the answer of the call; any other means that it has failed.
type job func(ctx context.Context, conn *pgx.Conn) error

// read runs a job that changes nothing. If the connection fails during the job, the job is started again.
func (db *DB) read(ctx context.Context, what string, do job) error {
	if err := db.beginCall(ctx); err != nil {
		return err
	}
	defer db.endCall()
	// Half of the time, so that there is some left to ask another server.
	err := db.call(ctx, what, db.timeout/2, do, func(err error) bool {
		return db.didNothing(err) || connectionFailed(err)
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return store.ErrNotFound
	}
	return err
}

// write runs a job that is one statement, which commits by itself.
func (db *DB) write(ctx context.Context, what string, do job) error {
	if err := db.beginCall(ctx); err != nil {
		return err
	}
	defer db.endCall()
	err := db.call(ctx, what, db.timeout, do, db.didNothing)
	if err != nil && !isFact(err) {
		db.placement.renew()
	}
	if db.undone(err) {
		err = fmt.Errorf("%w (%w)", err, store.ErrUndone)
	}
	return err
}

// change runs a statement, which commits by itself. The answer is none when no row has changed.
func (db *DB) change(ctx context.Context, what string, none error, statement string, args ...any) error {
	return engine{db}.Change(ctx, what, none, db.SQL(statement), args)
}

// An engine is a [rows.Engine].
type engine struct{ db *DB }

// Change implements [rows.Engine].
func (e engine) Change(ctx context.Context, what string, none error, statement string, args []any, into ...any) error {
	return e.db.write(ctx, what, func(ctx context.Context, conn *pgx.Conn) error {
		if len(into) > 0 {
			return noRow(conn.QueryRow(ctx, statement, args...).Scan(into...), none)
		}
		return changed(none)(conn.Exec(ctx, statement, args...))
	})
}

// Query implements [rows.Engine].
func (e engine) Query(ctx context.Context, what, query string, args []any, read func(rows.Result) error) error {
	return e.db.read(ctx,
		what, func(ctx context.Context, conn *pgx.Conn) error { return collect(read)(conn.Query(ctx, query, args...)) })
}

// transact runs a job in a transaction, within a call that has been entered. Any error of do undoes it, even one that
// is a fact. Its statements may take ten times as long as others.
func (db *DB) transact(ctx context.Context, what string, do func(ctx context.Context, tx pgx.Tx) error) error {
	return db.call(ctx, what, 10*db.timeout, func(ctx context.Context, conn *pgx.Conn) error {
		commits := false
		err := pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{BeginQuery: db.begin}, func(tx pgx.Tx) error {
			err := do(ctx, tx)
			commits = err == nil
			return err
		})
		if _, said := errors.AsType[*pgconn.PgError](err); commits && err != nil && !said {
			return commitLost{err}
		}
		return err
	}, db.didNothing)
}

// commitLost is an error of a commit that the server has not answered: it may have been
// done. It overrules pgx 5.12.0, which takes the connection for closed from the start, and
// the commit for safe to repeat, when a connection ends during a statement without
// arguments.
type commitLost struct{ error }

func (e commitLost) Unwrap() error { return e.error }

// SafeToRetry is what pgconn.SafeToRetry looks for first.
func (commitLost) SafeToRetry() bool { return false }

// call runs a job, and repeats it as long as again returns true for its error, up to tries times. While no connection
// can be opened, as in the middle of a failover, it waits for a server. When that has lasted for the timeout of a call,
// counted for all calls together, it no longer waits, and calls fail immediately. A single call waits no longer than
// that either, even if others do get connections.
func (db *DB) call(ctx context.Context, what string, limit time.Duration, do job, again func(error) bool) error {
	start := time.Now()
	for try := 1; ; try++ {
		err := db.once(ctx, limit, do)
		switch {
		case err == nil || isFact(err):
			return err
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return ctx.Err()
		case noServer(err) && db.failover.outage() < db.timeout && time.Since(start) < db.timeout:
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

// noServer reports whether no connection could be opened.
func noServer(err error) bool {
	_, ok := errors.AsType[*pgconn.ConnectError](err)
	return ok
}

// once runs a job on a connection of the pool. If ctx ends before the job begins, it is
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
	case db.failover.isFormer(raw):
		return errFormer // what it says may long be out of date
	case warned != nil && err == nil:
		return fmt.Errorf("done with a warning: %v", warned)
	}
	return err
}

// keepWarning notes a warning that the server sends with an answer. None of our statements causes one by itself. A
// commit does when its wait for a standby is cancelled: the commit then counts as done, although it may be on only one
// disk.
func keepWarning(conn *pgconn.PgConn, n *pgconn.Notice) {
	if n.SeverityUnlocalized == "WARNING" {
		conn.CustomData()[warning] = n.Message
	}
}

// didNothing reports whether a job with this error has certainly done nothing, and may be repeated.
func (db *DB) didNothing(err error) bool {
	if failed, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch failed.Code {
		case serializationFailure, readOnly, idleSession:
			return true
		case deadlockDetected: // Citus ends sessions by it that wait for a worker
			return db.engine != Citus
		}
		return false
	}
	return pgconn.SafeToRetry(err)
}

// notBegun is an error of a job for which there was no connection.
type notBegun struct{ error }

func (e notBegun) Unwrap() error { return e.error }

// undone reports whether a write of one statement certainly has not happened and never will, in any of its tries: it
// was not begun, or the server itself says that it has failed. Two errors do not say that: completionUnknown, and those
// of class 08, with which a proxy in between may say that it has lost the server. With Citus only an error that
// [isRefusal] knows says it.
func (db *DB) undone(err error) bool {
	if failed, ok := errors.AsType[*pgconn.PgError](err); ok && isSaidByServer(err) {
		if db.engine == Citus {
			return isRefusal(failed.Code) || db.didNothing(err)
		}
		return failed.Code != completionUnknown && !strings.HasPrefix(failed.Code, "08")
	}
	_, ok := errors.AsType[notBegun](err)
	return ok || err != nil && db.didNothing(err)
}

// isSaidByServer reports whether an error is the server's answer to a statement.
func isSaidByServer(err error) bool {
	failed, ok := errors.AsType[*pgconn.PgError](err)
	return ok && failed.SeverityUnlocalized == "ERROR"
}

// connectionFailed reports whether no answer came. A server that shuts down may still announce that (class 57P).
func connectionFailed(err error) bool {
	failed, ok := errors.AsType[*pgconn.PgError](err)
	return !ok && !errors.Is(err, pgx.ErrNoRows) || ok && strings.HasPrefix(failed.Code, "57P")
}

func isFact(err error) bool {
	switch err { // an error of a caller may wrap one
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

// noRow reads the error of a Scan: none is the answer when there is no row.
func noRow(err, none error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return none
	}
	return err
}

// collect returns how to read the rows of a query with read.
func collect(read func(rows.Result) error) func(pgx.Rows, error) error {
	return func(result pgx.Rows, err error) error {
		if err != nil {
			return err
		}
		err = read(result)
		result.Close()
		if err == nil {
			err = result.Err()
		}
		return err
	}
}
