package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/rows"
)

var _ store.Archive = (*DB)(nil)

const (
	// An upload that is removed at once uses up an id, so that no other snapshot gets it.
	sqlUseUpID = `INSERT INTO uploads (scheme, lease, token, begun) VALUES (' restored', '', 0, 0) RETURNING id`
	sqlDropID  = `DELETE FROM uploads WHERE id = ?1`
	sqlColumns = `SELECT name FROM pragma_table_info(?1)`
)

// ViewRows implements [store.Archive].
func (db *DB) ViewRows(ctx context.Context, do func(store.RowTx) error) error {
	return db.withRows(ctx, readPragmas, "BEGIN", "ROLLBACK", do)
}

// ChangeRows implements [store.Archive].
func (db *DB) ChangeRows(ctx context.Context, do func(store.RowTx) error) error {
	// What was overwritten may not stay in the log of the file.
	return db.withRows(ctx, writePragmas, "BEGIN IMMEDIATE", "COMMIT; PRAGMA wal_checkpoint(TRUNCATE)", do)
}

// withRows calls do in a transaction on a connection of its own.
func (db *DB) withRows(ctx context.Context, pragmas []string, begin, end string,
	do func(store.RowTx) error) (err error) {
	if err := db.beginCall(ctx); err != nil {
		return err
	}
	defer db.endCall()
	pool, err := sql.Open("sqlite", source(db.place[0].path, pragmas))
	if err != nil {
		return fmt.Errorf("sqlite: rows: %w", err)
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return fmt.Errorf("sqlite: rows: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	exec := func(statement string) error {
		_, err := conn.ExecContext(context.WithoutCancel(ctx), statement)
		return err
	}
	if err := patiently(func() error { return exec(begin) }); err != nil {
		return fmt.Errorf("sqlite: rows: %w", err)
	}
	err = do(&rows.Tx{Statements: rowTx{conn}, Engine: "sqlite", ClearAudit: clearAudit})
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = db.place.check()
	}
	if err == nil {
		err = exec(end)
	}
	if err != nil {
		_ = exec("ROLLBACK") // fails when SQLite has undone it already, which is as good
	}
	return err
}

// rowTx is a [rows.Statements].
type rowTx struct{ conn *sql.Conn }

// Query implements [rows.Statements].
func (tx rowTx) Query(ctx context.Context, kind, query string, args []any, do func(store.Row) error) (err error) {
	result, err := tx.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("sqlite: rows of type %q: %w", kind, err)
	}
	defer func() { err = errors.Join(err, result.Close()) }()
	names, err := result.Columns()
	if err != nil {
		return err
	}
	values, to := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		to[i] = &values[i]
	}
	for result.Next() {
		if err := result.Scan(to...); err != nil {
			return err
		}
		row := store.NewRow(kind)
		for i, name := range names {
			if !row.Set(name, values[i]) {
				return fmt.Errorf("sqlite: rows of type %q: no backup can hold the %T in column %s", kind, values[i], name)
			}
		}
		if err := do(row); err != nil {
			return err
		}
	}
	return result.Err()
}

// Exec implements [rows.Statements].
func (tx rowTx) Exec(ctx context.Context, statement string, args ...any) error {
	if _, err := tx.conn.ExecContext(ctx, statement, args...); err != nil {
		return fmt.Errorf("sqlite: change rows: %w", err)
	}
	return nil
}

// NewSnapshotID implements [rows.Statements].
func (tx rowTx) NewSnapshotID(ctx context.Context) (id int64, err error) {
	if err := tx.conn.QueryRowContext(ctx, sqlUseUpID).Scan(&id); err != nil {
		return 0, fmt.Errorf("sqlite: change rows: %w", err)
	}
	return id, tx.Exec(ctx, sqlDropID, id)
}

// Columns implements [rows.Statements]. SQLite has no truth values.
func (tx rowTx) Columns(ctx context.Context, table string) (columns map[string]bool, err error) {
	result, err := tx.conn.QueryContext(ctx, sqlColumns, table)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, result.Close()) }()
	columns = make(map[string]bool)
	for result.Next() {
		var name string
		if err := result.Scan(&name); err != nil {
			return nil, err
		}
		columns[name] = false
	}
	return columns, result.Err()
}
