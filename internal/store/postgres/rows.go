package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/store"
)

var _ store.Archive = (*DB)(nil)

// A rowTable says which rows of which table are of one kind.
type rowTable struct {
	name  string
	where string
	order string
}

var rowTables = map[string]rowTable{
	store.KeyRows:      {name: "api_keys", where: "TRUE", order: "created, hash"},
	store.EndpointRows: {name: "endpoints", where: "TRUE", order: "created, id"},
	store.MerchantRows: {name: "merchants", where: "TRUE", order: "name"},
	store.RevokedRows:  {name: "revoked_keys", where: "TRUE", order: "revoked, hash"},
	store.ObjectRows:   {name: "objects", where: store.ObjectsCondition, order: "kind, id"},
	store.AuditRows:    {name: "audit", where: "TRUE", order: "seq"},
	store.StateRows:    {name: "small_states", where: store.StatesCondition, order: "key"},
}

const (
	sqlRangeRows   = `SELECT id, scheme, generation, created, size, sha256, note FROM snapshots ORDER BY scheme, generation`
	sqlRangeChunk  = `SELECT data FROM chunks WHERE snapshot = $1 ORDER BY n`
	sqlNewID       = `SELECT nextval('upload_ids')`
	sqlClearChunks = `DELETE FROM chunks WHERE snapshot IN (SELECT id FROM snapshots)`
	sqlClearRanges = `DELETE FROM snapshots`
	sqlColumns     = `SELECT a.attname, a.atttypid = 'boolean'::regtype FROM pg_attribute a
		WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped`

	// A backup may go to a slow disk or through a pipe, so no limit of a call is right for it.
	sqlNoLimits = `SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0`
	sqlViewRows = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; ` + sqlNoLimits
	// Whoever else changes keys waits for the end, so that none slips in between.
	sqlChangeRows = `BEGIN; ` + sqlNoLimits + `; LOCK TABLE api_keys IN SHARE ROW EXCLUSIVE MODE`
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
		return do(&rowTx{tx: tx})
	})
	warned := raw.CustomData()[warning]
	db.giveBack(conn, err)
	if err == nil && warned != nil {
		return fmt.Errorf("postgres: rows: done with a warning: %v", warned)
	}
	return err
}

// rowTx is a [store.RowTx].
type rowTx struct {
	tx       pgx.Tx
	snapshot int64 // id of the snapshot that was added last
	chunks   int   // of that snapshot
	columns  map[string]map[string]bool
}

// Each implements [store.RowTx].
func (tx *rowTx) Each(ctx context.Context, kind string, do func(store.Row) error) error {
	if kind == store.RangeRows {
		return tx.eachRange(ctx, do)
	}
	table, ok := rowTables[kind]
	if !ok {
		return fmt.Errorf("postgres: rows of type %q: %w", kind, store.ErrUnknownRow)
	}
	query := "SELECT * FROM " + table.name + " WHERE " + table.where + " ORDER BY " + table.order
	return tx.query(ctx, kind, query, nil, do)
}

// query calls do with every row of a query.
func (tx *rowTx) query(ctx context.Context, kind, query string, args []any, do func(store.Row) error) error {
	rows, err := tx.tx.Query(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("postgres: rows of type %q: %w", kind, err)
	}
	defer rows.Close()
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return fmt.Errorf("postgres: rows of type %q: %w", kind, err)
		}
		row := store.NewRow(kind)
		for i, field := range rows.FieldDescriptions() {
			switch v := values[i].(type) {
			case nil:
			case string:
				row.Text[field.Name] = v
			case int64:
				row.Number[field.Name] = v
			case bool:
				row.Number[field.Name] = 0
				if v {
					row.Number[field.Name] = 1
				}
			case []byte:
				row.Bytes[field.Name] = v
			default:
				return fmt.Errorf("postgres: rows of type %q: no backup can hold the %T in column %s", kind, v, field.Name)
			}
		}
		if err := do(row); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("postgres: rows of type %q: %w", kind, err)
	}
	return nil
}

// eachRange calls do with every snapshot and its chunks.
func (tx *rowTx) eachRange(ctx context.Context, do func(store.Row) error) error {
	var all []store.Row
	err := tx.query(ctx, store.RangeRows, sqlRangeRows, nil, func(row store.Row) error {
		all = append(all, row)
		return nil
	})
	if err != nil {
		return err
	}
	for _, row := range all {
		id := []any{row.Number["id"]}
		delete(row.Number, "id") // it means something in this database only
		if err := do(row); err != nil {
			return err
		}
		if err := tx.query(ctx, store.ChunkRows, sqlRangeChunk, id, do); err != nil {
			return err
		}
	}
	return nil
}

// Clear implements [store.RowTx].
func (tx *rowTx) Clear(ctx context.Context, kind string) error {
	switch kind {
	case store.RangeRows:
		if err := tx.exec(ctx, sqlClearChunks); err != nil {
			return err
		}
		return tx.exec(ctx, sqlClearRanges)
	case store.AuditRows:
		return tx.exec(ctx, sqlReplaceAudit)
	}
	table, ok := rowTables[kind]
	if !ok {
		return fmt.Errorf("postgres: rows of type %q: %w", kind, store.ErrUnknownRow)
	}
	return tx.exec(ctx, "DELETE FROM "+table.name+" WHERE "+table.where)
}

func (tx *rowTx) exec(ctx context.Context, statement string, args ...any) error {
	if _, err := tx.tx.Exec(ctx, statement, args...); err != nil {
		return fmt.Errorf("postgres: change rows: %w", err)
	}
	return nil
}

// Add implements [store.RowTx].
func (tx *rowTx) Add(ctx context.Context, row store.Row) error {
	switch row.Kind {
	case store.RangeRows:
		if err := tx.tx.QueryRow(ctx, sqlNewID).Scan(&tx.snapshot); err != nil {
			return fmt.Errorf("postgres: change rows: %w", err)
		}
		tx.chunks = 0
		row.Number = maps.Clone(row.Number)
		row.Number["id"] = tx.snapshot
		return tx.insert(ctx, "snapshots", row)
	case store.ChunkRows:
		chunk := store.NewRow(row.Kind)
		chunk.Number["snapshot"], chunk.Number["n"] = tx.snapshot, int64(tx.chunks)
		chunk.Bytes = row.Bytes
		tx.chunks++
		return tx.insert(ctx, "chunks", chunk)
	}
	table, ok := rowTables[row.Kind]
	if !ok {
		return fmt.Errorf("a row of type %q: %w", row.Kind, store.ErrUnknownRow)
	}
	return tx.insert(ctx, table.name, row)
}

// insert adds a row to a table that has all of its columns.
func (tx *rowTx) insert(ctx context.Context, table string, row store.Row) error {
	isBoolean, err := tx.columnsOf(ctx, table)
	if err != nil {
		return err
	}
	values := make(map[string]any)
	for name, v := range row.Text {
		values[name] = v
	}
	for name, v := range row.Number {
		values[name] = v
		if isBoolean[name] {
			values[name] = v != 0
		}
	}
	for name, v := range row.Bytes {
		values[name] = blob(v)
	}
	var into, marks []string
	var args []any
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, ok := isBoolean[name]; !ok {
			return fmt.Errorf("column %q of a row of type %q: %w", name, row.Kind, store.ErrUnknownRow)
		}
		into, args = append(into, pgx.Identifier{name}.Sanitize()), append(args, values[name])
		marks = append(marks, "$"+strconv.Itoa(len(args)))
	}
	return tx.exec(ctx, "INSERT INTO "+table+" ("+strings.Join(into, ", ")+") VALUES ("+strings.Join(marks, ", ")+")", args...)
}

// columnsOf returns the columns of a table, and which of them are truth values.
func (tx *rowTx) columnsOf(ctx context.Context, table string) (map[string]bool, error) {
	if columns, ok := tx.columns[table]; ok {
		return columns, nil
	}
	rows, err := tx.tx.Query(ctx, sqlColumns, table)
	if err != nil {
		return nil, fmt.Errorf("postgres: change rows: %w", err)
	}
	defer rows.Close()
	columns := make(map[string]bool)
	for rows.Next() {
		var name string
		var isBoolean bool
		if err := rows.Scan(&name, &isBoolean); err != nil {
			return nil, err
		}
		columns[name] = isBoolean
	}
	if tx.columns == nil {
		tx.columns = make(map[string]map[string]bool)
	}
	tx.columns[table] = columns
	return columns, rows.Err()
}
