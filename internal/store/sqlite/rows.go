package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

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
	store.KeyRows:      {name: "api_key", where: "TRUE", order: "created, hash"},
	store.EndpointRows: {name: "endpoint", where: "TRUE", order: "created, id"},
	store.MerchantRows: {name: "merchant", where: "TRUE", order: "name"},
	store.RevokedRows:  {name: "revoked_key", where: "TRUE", order: "revoked, hash"},
	store.ObjectRows:   {name: "object", where: store.ObjectsCondition, order: "kind, id"},
	store.AuditRows:    {name: "audit", where: "TRUE", order: "seq"},
	store.StateRows:    {name: "small_state", where: store.StatesCondition, order: "key"},
}

const (
	sqlRangeRows  = `SELECT id, scheme, generation, created, size, note FROM snapshot ORDER BY scheme, generation`
	sqlRangeChunk = `SELECT data FROM chunk WHERE snapshot = ?1 ORDER BY n`
	// An upload that is removed at once uses up an id, so that no other snapshot gets it.
	sqlUseUpID     = `INSERT INTO upload (scheme, lease, token, begun) VALUES (' restored', '', 0, 0) RETURNING id`
	sqlDropID      = `DELETE FROM upload WHERE id = ?1`
	sqlClearChunks = `DELETE FROM chunk WHERE snapshot IN (SELECT id FROM snapshot)`
	sqlClearRanges = `DELETE FROM snapshot`
	sqlColumns     = `SELECT name FROM pragma_table_info(?1)`
)

// ViewRows implements [store.Archive].
func (db *DB) ViewRows(ctx context.Context, do func(store.RowTx) error) error {
	return db.withRows(ctx, readPragmas, "BEGIN", "ROLLBACK", do)
}

// ChangeRows implements [store.Archive].
func (db *DB) ChangeRows(ctx context.Context, do func(store.RowTx) error) error {
	return db.withRows(ctx, writePragmas, "BEGIN IMMEDIATE", "COMMIT", do)
}

// withRows calls do in a transaction on a connection of its own.
func (db *DB) withRows(ctx context.Context, pragmas []string, begin, end string, do func(store.RowTx) error) (err error) {
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
	err = do(&rowTx{conn: conn})
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

// rowTx is a [store.RowTx].
type rowTx struct {
	conn     *sql.Conn
	snapshot int64 // id of the snapshot that was added last
	chunks   int   // of that snapshot
	columns  map[string][]string
}

// Each implements [store.RowTx].
func (tx *rowTx) Each(ctx context.Context, kind string, do func(store.Row) error) error {
	if kind == store.RangeRows {
		return tx.eachRange(ctx, do)
	}
	table, ok := rowTables[kind]
	if !ok {
		return fmt.Errorf("sqlite: rows of type %q: %w", kind, store.ErrUnknownRow)
	}
	query := "SELECT * FROM " + table.name + " WHERE " + table.where + " ORDER BY " + table.order
	return tx.query(ctx, kind, query, nil, do)
}

// query calls do with every row of a query.
func (tx *rowTx) query(ctx context.Context, kind, query string, args []any, do func(store.Row) error) (err error) {
	rows, err := tx.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("sqlite: rows of type %q: %w", kind, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	values, to := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		to[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return err
		}
		row := store.NewRow(kind)
		for i, name := range names {
			switch v := values[i].(type) {
			case nil:
			case string:
				row.Text[name] = v
			case int64:
				row.Number[name] = v
			case []byte:
				row.Bytes[name] = v
			default:
				return fmt.Errorf("sqlite: rows of type %q: no backup can hold the %T in column %s", kind, v, name)
			}
		}
		if err := do(row); err != nil {
			return err
		}
	}
	return rows.Err()
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
		sum := sha256.New()
		err := tx.query(ctx, store.ChunkRows, sqlRangeChunk, id, func(chunk store.Row) error {
			sum.Write(chunk.Bytes["data"])
			return nil
		})
		if err != nil {
			return err
		}
		row.Bytes["sha256"] = sum.Sum(nil)
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
		return tx.exec(ctx, sqlClearChunks+";"+sqlClearRanges)
	case store.AuditRows:
		return tx.exec(ctx, sqlReplaceAudit)
	}
	table, ok := rowTables[kind]
	if !ok {
		return fmt.Errorf("sqlite: rows of type %q: %w", kind, store.ErrUnknownRow)
	}
	return tx.exec(ctx, "DELETE FROM "+table.name+" WHERE "+table.where)
}

func (tx *rowTx) exec(ctx context.Context, statement string, args ...any) error {
	if _, err := tx.conn.ExecContext(ctx, statement, args...); err != nil {
		return fmt.Errorf("sqlite: change rows: %w", err)
	}
	return nil
}

// Add implements [store.RowTx].
func (tx *rowTx) Add(ctx context.Context, row store.Row) error {
	switch row.Kind {
	case store.RangeRows:
		return tx.addRange(ctx, row)
	case store.ChunkRows:
		chunk := store.NewRow(row.Kind)
		chunk.Number["snapshot"], chunk.Number["n"] = tx.snapshot, int64(tx.chunks)
		chunk.Bytes = row.Bytes
		tx.chunks++
		return tx.insert(ctx, "chunk", chunk)
	}
	table, ok := rowTables[row.Kind]
	if !ok {
		return fmt.Errorf("a row of type %q: %w", row.Kind, store.ErrUnknownRow)
	}
	return tx.insert(ctx, table.name, row)
}

func (tx *rowTx) addRange(ctx context.Context, row store.Row) error {
	if err := tx.conn.QueryRowContext(ctx, sqlUseUpID).Scan(&tx.snapshot); err != nil {
		return fmt.Errorf("sqlite: change rows: %w", err)
	}
	if err := tx.exec(ctx, sqlDropID, tx.snapshot); err != nil {
		return err
	}
	tx.chunks = 0
	row.Number, row.Bytes = maps.Clone(row.Number), maps.Clone(row.Bytes)
	row.Number["id"] = tx.snapshot
	delete(row.Bytes, "sha256") // this store has no column for it
	return tx.insert(ctx, "snapshot", row)
}

// insert adds a row to a table that has all of its columns.
func (tx *rowTx) insert(ctx context.Context, table string, row store.Row) error {
	names, err := tx.columnsOf(ctx, table)
	if err != nil {
		return err
	}
	values := make(map[string]any)
	for name, v := range row.Text {
		values[name] = v
	}
	for name, v := range row.Number {
		values[name] = v
	}
	for name, v := range row.Bytes {
		values[name] = blob(v)
	}
	var into, marks []string
	var args []any
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(names, name) {
			return fmt.Errorf("column %q of a row of type %q: %w", name, row.Kind, store.ErrUnknownRow)
		}
		into, marks, args = append(into, name), append(marks, "?"), append(args, values[name])
	}
	return tx.exec(ctx, "INSERT INTO "+table+" ("+strings.Join(into, ", ")+") VALUES ("+strings.Join(marks, ", ")+")", args...)
}

// columnsOf returns the columns of a table.
func (tx *rowTx) columnsOf(ctx context.Context, table string) (names []string, err error) {
	if names, ok := tx.columns[table]; ok {
		return names, nil
	}
	rows, err := tx.conn.QueryContext(ctx, sqlColumns, table)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	if tx.columns == nil {
		tx.columns = make(map[string][]string)
	}
	tx.columns[table] = names
	return names, rows.Err()
}
