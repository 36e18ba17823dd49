package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/openthreeds/threeds/internal/state/store"
)

// A reader is a connection that reads, and its statements. One goroutine uses it
// at a time.
type reader struct{ statements }

// readerStatements are what a reader runs.
var readerStatements = []string{
	sqlPing, sqlGet, sqlList, sqlKey, sqlKeys, sqlMark, sqlMarkedKeys, sqlState, sqlNodes, sqlMerchants,
	sqlSnapshots, sqlSnapshot, sqlChunk, sqlDeadUploads, sqlLeftovers,
	sqlEndpoints, sqlEndpointsOf, sqlEndpointMark, sqlEndpointMarks, sqlEvent, sqlFindEvents, sqlDeliveries, sqlAnyDue,
	sqlObject, sqlObjects, sqlAuditNewest, sqlAuditOldest,
}

const sqlPing = "SELECT version FROM schema_version"

func (db *DB) newReader(conn *sql.Conn) (*reader, error) {
	prepared, err := db.prepareAll(conn, readerStatements)
	return &reader{prepared}, err
}

// statements are the prepared statements of a connection, by their text.
type statements map[string]*sql.Stmt

func (s statements) exec(query string, args ...any) (sql.Result, error) {
	return s[query].Exec(args...)
}

func (s statements) row(query string, args ...any) *sql.Row { return s[query].QueryRow(args...) }

func (s statements) rows(query string, args ...any) (*sql.Rows, error) {
	return s[query].Query(args...)
}

// prepareAll prepares statements. They must be closed before their connection: it
// stays half open else, and the files with it.
func (db *DB) prepareAll(conn *sql.Conn, queries []string) (statements, error) {
	all := make(statements)
	for _, query := range queries {
		err := patiently(func() (err error) {
			all[query], err = conn.PrepareContext(context.Background(), query)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("prepare %q: %w", query, err)
		}
		db.files = append(db.files, all[query])
	}
	return all, nil
}

// collect returns how to read all rows of a query: scan makes a value of each.
func collect[T any](scan func(store.Scanner) (T, error)) func(*sql.Rows, error) ([]T, error) {
	return func(rows *sql.Rows, err error) (all []T, _ error) {
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		for rows.Next() {
			v, err := scan(rows)
			if err != nil {
				return nil, err
			}
			all = append(all, v)
		}
		return all, rows.Err()
	}
}

// queryRows reads all rows of a query: scan makes a value of each.
func queryRows[T any](ctx context.Context, db *DB, what string, scan func(store.Scanner) (T, error), query string, args ...any) (all []T, err error) {
	err = db.read(ctx, what, func(r *reader) (err error) {
		all, err = collect(scan)(r.rows(query, args...))
		return err
	})
	return all, err
}

// read runs f with a reader that is free. An error that is none of the contract
// says what was being done.
func (db *DB) read(ctx context.Context, what string, f func(r *reader) error) error {
	if err := db.beginCall(ctx); err != nil {
		return err
	}
	defer db.endCall()
	return db.withReader(ctx, what, f)
}

// withReader is read within a call. Queries take no context: they are short, and
// to interrupt one costs its connection.
func (db *DB) withReader(ctx context.Context, what string, f func(r *reader) error) error {
	var r *reader
	select {
	case r = <-db.readers:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { db.readers <- r }()
	switch err := f(r); {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return store.ErrNotFound
	default:
		return fmt.Errorf("sqlite: %s: %w", what, err)
	}
}
