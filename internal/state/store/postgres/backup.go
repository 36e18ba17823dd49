package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/rows"
)

var _ store.Archive = (*DB)(nil)

const (
	sqlNewID   = `SELECT nextval('upload_ids')`
	sqlColumns = `SELECT a.attname, a.atttypid = 'boolean'::regtype FROM pg_attribute a
		WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped`

	// A backup may go to a slow disk or through a pipe, so no limit of a call is right for it.
	sqlNoLimits = `SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0`
	sqlViewRows = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; ` + sqlNoLimits
	// Other changes of keys and merchants wait for the end of this transaction, so that none comes in between.
	sqlChangeRows = `BEGIN; ` + sqlNoLimits + `; LOCK TABLE api_keys, merchants IN SHARE ROW EXCLUSIVE MODE`
)

// ViewRows implements [store.Archive].
func (db *DB) ViewRows(ctx context.Context, do func(store.RowTx) error) error {
	return db.withRows(ctx, sqlViewRows, do)
}

// ChangeRows implements [store.Archive].
func (db *DB) ChangeRows(ctx context.Context, do func(store.RowTx) error) error {
	return db.withRows(ctx, sqlChangeRows, do)
}

// withRows calls do in a transaction, which has no limit but that of ctx.
func (db *DB) withRows(ctx context.Context, begin string, do func(store.RowTx) error) error {
	if err := db.beginCall(ctx); err != nil {
		return err
	}
	defer db.endCall()
	conn, err := db.acquire(ctx)
	if err != nil {
		return fmt.Errorf("postgres: rows: %w", err)
	}
	raw := conn.Conn().PgConn()
	delete(raw.CustomData(), warning)
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error {
		return do(&rows.Tx{Statements: rowTx{tx}, Engine: "postgres", HasSums: true, ClearAudit: clearAudit})
	})
	warned := raw.CustomData()[warning]
	db.giveBack(conn, err)
	if err == nil && warned != nil {
		return fmt.Errorf("postgres: rows: done with a warning: %v", warned)
	}
	return err
}

// rowTx is a [rows.Statements].
type rowTx struct{ tx pgx.Tx }

// Query implements [rows.Statements].
func (tx rowTx) Query(ctx context.Context, kind, query string, args []any, do func(store.Row) error) error {
	result, err := tx.tx.Query(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("postgres: rows of type %q: %w", kind, err)
	}
	defer result.Close()
	for result.Next() {
		values, err := result.Values()
		if err != nil {
			return fmt.Errorf("postgres: rows of type %q: %w", kind, err)
		}
		row := store.NewRow(kind)
		for i, field := range result.FieldDescriptions() {
			if !row.Set(field.Name, values[i]) {
				return fmt.Errorf("postgres: rows of type %q: no backup can hold the %T in column %s", kind, values[i], field.Name)
			}
		}
		if err := do(row); err != nil {
			return err
		}
	}
	if err := result.Err(); err != nil {
		return fmt.Errorf("postgres: rows of type %q: %w", kind, err)
	}
	return nil
}

// Exec implements [rows.Statements].
func (tx rowTx) Exec(ctx context.Context, statement string, args ...any) error {
	if _, err := tx.tx.Exec(ctx, statement, args...); err != nil {
		return fmt.Errorf("postgres: change rows: %w", err)
	}
	return nil
}

// NewSnapshotID implements [rows.Statements].
func (tx rowTx) NewSnapshotID(ctx context.Context) (id int64, err error) {
	if err := tx.tx.QueryRow(ctx, sqlNewID).Scan(&id); err != nil {
		return 0, fmt.Errorf("postgres: change rows: %w", err)
	}
	return id, nil
}

// Columns implements [rows.Statements].
func (tx rowTx) Columns(ctx context.Context, table string) (map[string]bool, error) {
	result, err := tx.tx.Query(ctx, sqlColumns, table)
	if err != nil {
		return nil, fmt.Errorf("postgres: change rows: %w", err)
	}
	columns := make(map[string]bool)
	var name string
	var isBoolean bool
	_, err = pgx.ForEachRow(result, []any{&name, &isBoolean}, func() error {
		columns[name] = isBoolean
		return nil
	})
	return columns, err
}
