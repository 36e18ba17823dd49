package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/rows"
)

// dialect is that of SQLite. An engine adds the argument $now, by the clock of the store.
var dialect = rows.Dialect{
	Now:           "$now",
	Texts:         "SELECT value FROM json_each($1)",
	KeysMark:      "(SELECT hex(value) FROM small_states WHERE key = 'api keys')",
	EndpointsMark: "(SELECT hex(value) FROM small_states WHERE key = 'webhook endpoints')",
	MerchantMark:  "hex(value)",
	Join:          joinTexts,
}

// joinTexts makes one argument, for json_each, of texts.
func joinTexts(texts []string) any {
	list, _ := json.Marshal(append([]string{}, texts...)) // texts are always JSON
	return string(list)
}

// An engine is a [rows.Engine].
type engine struct{ db *DB }

// args adds what a statement needs in addition to its arguments.
func (e engine) args(statement string, args []any) []any {
	if strings.Contains(statement, dialect.Now) {
		return append(args[:len(args):len(args)], sql.Named("now", e.db.now().UnixMilli()))
	}
	return args
}

// Change implements [rows.Engine]. The clock is read when this process alone writes, and not before it waits for that.
func (e engine) Change(ctx context.Context, what string, none error, statement string, args []any, into ...any) error {
	return e.db.write(ctx, what, func(w *writer) (answer, failed error) {
		args := e.args(statement, args)
		if len(into) > 0 {
			return row(none)(w.row(statement, args...).Scan(into...))
		}
		return changed(none)(w.exec(statement, args...))
	})
}

// Query implements [rows.Engine].
func (e engine) Query(ctx context.Context, what, query string, args []any, read func(rows.Result) error) error {
	return e.db.read(ctx, what, func(r *reader) error {
		return r.query(read, query, e.args(query, args)...)
	})
}

// A reader is a connection that reads, and its statements. One goroutine uses it
// at a time.
type reader struct{ *statements }

const sqlPing = "SELECT version FROM schema_version"

// statements are a connection and its prepared statements, by their text.
type statements struct {
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
}

// prepare returns a statement, which it prepares when it is needed for the first time.
func (s *statements) prepare(query string) (*sql.Stmt, error) {
	if st := s.prepared[query]; st != nil {
		return st, nil
	}
	err := patiently(func() error {
		st, err := s.conn.PrepareContext(context.Background(), query)
		if err == nil {
			s.prepared[query] = st
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", query, err)
	}
	return s.prepared[query], nil
}

func (s *statements) exec(query string, args ...any) (sql.Result, error) {
	st, err := s.prepare(query)
	if err != nil {
		return nil, err
	}
	return st.Exec(args...)
}

// row returns the one row of a query.
func (s *statements) row(query string, args ...any) rows.Scanner {
	st, err := s.prepare(query)
	if err != nil {
		return noRow{err}
	}
	return st.QueryRow(args...)
}

// noRow is the row of a query that could not be prepared.
type noRow struct{ err error }

func (r noRow) Scan(...any) error { return r.err }

// query calls read with the rows of a query.
func (s *statements) query(read func(rows.Result) error, query string, args ...any) (err error) {
	st, err := s.prepare(query)
	if err != nil {
		return err
	}
	result, err := st.Query(args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, result.Close()) }()
	return read(result)
}

// Close closes the statements, and then the connection: it stays half open else, and the files with it.
func (s *statements) Close() error {
	var errs []error
	for _, st := range s.prepared {
		errs = append(errs, st.Close())
	}
	return errors.Join(append(errs, s.conn.Close())...)
}

// read runs f with a reader that is free. An error that is not part of the contract says what was being done.
func (db *DB) read(ctx context.Context, what string, f func(r *reader) error) error {
	if err := db.beginCall(ctx); err != nil {
		return err
	}
	defer db.endCall()
	return db.withReader(ctx, what, f)
}

// withReader is read within a call. Queries take no context: they are short, and interrupting one costs its connection.
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
	case errors.Is(err, sql.ErrNoRows), errors.Is(err, store.ErrNotFound):
		return store.ErrNotFound
	default:
		return fmt.Errorf("sqlite: %s: %w", what, err)
	}
}
