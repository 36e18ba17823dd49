package store

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// SQLRows is a [RowTx] in a transaction of a SQL database. Both stores on disk use it.
type SQLRows struct {
	Tx      SQLTx
	Engine  string            // begins the text of errors
	Tables  map[string]string // the tables, by the kind of their rows
	Mark    string            // comes before the number of a parameter
	HasSums bool              // the table of snapshots has the column sha256

	ClearAudit []string // statements that remove all entries of the audit trail, which the database refuses otherwise

	snapshot int64                      // id of the snapshot that was added last
	chunks   int                        // number of chunks that the last snapshot has so far
	columns  map[string]map[string]bool // what Columns has returned, by table
}

// SQLTx is what [SQLRows] needs of a transaction.
type SQLTx interface {
	// Query calls do with every row of a query, as a row of a kind.
	Query(ctx context.Context, kind, query string, args []any, do func(Row) error) error

	Exec(ctx context.Context, statement string, args ...any) error

	// Columns returns the columns of a table, and which of them are truth values.
	Columns(ctx context.Context, table string) (map[string]bool, error)

	// NewSnapshotID returns an id that no other snapshot has or gets.
	NewSnapshotID(ctx context.Context) (int64, error)
}

// rowsOf says which rows of their table are of a kind, and in which order Each has them.
var rowsOf = map[string]struct{ where, order string }{
	KeyRows:      {"TRUE", "created, hash"},
	EndpointRows: {"TRUE", "created, id"},
	MerchantRows: {"TRUE", "name"},
	RevokedRows:  {"TRUE", "revoked, hash"},
	ObjectRows:   {ObjectsCondition, "kind, id"},
	AuditRows:    {"TRUE", "seq"},
	StateRows:    {StatesCondition, "key"},
}

// Set sets the value of a column. It reports whether a backup can hold a value of its type.
func (r *Row) Set(column string, value any) bool {
	switch v := value.(type) {
	case nil:
	case string:
		r.Text[column] = v
	case int64:
		r.Number[column] = v
	case bool:
		r.Number[column] = 0
		if v {
			r.Number[column] = 1
		}
	case []byte:
		r.Bytes[column] = v
	default:
		return false
	}
	return true
}

// Each implements [RowTx].
func (tx *SQLRows) Each(ctx context.Context, kind string, do func(Row) error) error {
	if kind == RangeRows {
		return tx.eachRange(ctx, do)
	}
	rows, ok := rowsOf[kind]
	if !ok {
		return fmt.Errorf("%s: rows of type %q: %w", tx.Engine, kind, ErrUnknownRow)
	}
	query := "SELECT * FROM " + tx.Tables[kind] + " WHERE " + rows.where + " ORDER BY " + rows.order
	return tx.Tx.Query(ctx, kind, query, nil, do)
}

// eachRange calls do with every snapshot and its chunks.
func (tx *SQLRows) eachRange(ctx context.Context, do func(Row) error) error {
	var all []Row
	query := "SELECT * FROM " + tx.Tables[RangeRows] + " ORDER BY scheme, generation"
	err := tx.Tx.Query(ctx, RangeRows, query, nil, func(row Row) error {
		all = append(all, row)
		return nil
	})
	if err != nil {
		return err
	}
	for _, row := range all {
		id := row.Number["id"]
		delete(row.Number, "id") // The id of a snapshot means something in this database only.
		if !tx.HasSums {
			sum := sha256.New()
			err := tx.eachChunk(ctx, id, func(chunk Row) error {
				sum.Write(chunk.Bytes["data"])
				return nil
			})
			if err != nil {
				return err
			}
			row.Bytes["sha256"] = sum.Sum(nil)
		}
		if err := do(row); err != nil {
			return err
		}
		if err := tx.eachChunk(ctx, id, do); err != nil {
			return err
		}
	}
	return nil
}

// eachChunk calls do with every chunk of a snapshot.
func (tx *SQLRows) eachChunk(ctx context.Context, snapshot int64, do func(Row) error) error {
	query := "SELECT data FROM " + tx.Tables[ChunkRows] + " WHERE snapshot = " + tx.Mark + "1 ORDER BY n"
	return tx.Tx.Query(ctx, ChunkRows, query, []any{snapshot}, do)
}

// Clear implements [RowTx].
func (tx *SQLRows) Clear(ctx context.Context, kind string) error {
	switch kind {
	case RangeRows:
		err := tx.Tx.Exec(ctx, "DELETE FROM "+tx.Tables[ChunkRows]+" WHERE snapshot IN (SELECT id FROM "+tx.Tables[RangeRows]+")")
		if err != nil {
			return err
		}
		return tx.Tx.Exec(ctx, "DELETE FROM "+tx.Tables[RangeRows])
	case AuditRows:
		for _, statement := range tx.ClearAudit {
			if err := tx.Tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}
	rows, ok := rowsOf[kind]
	if !ok {
		return fmt.Errorf("%s: rows of type %q: %w", tx.Engine, kind, ErrUnknownRow)
	}
	return tx.Tx.Exec(ctx, "DELETE FROM "+tx.Tables[kind]+" WHERE "+rows.where)
}

// Add implements [RowTx].
func (tx *SQLRows) Add(ctx context.Context, row Row) (err error) {
	switch row.Kind {
	case RangeRows:
		if tx.snapshot, err = tx.Tx.NewSnapshotID(ctx); err != nil {
			return err
		}
		tx.chunks = 0
		row.Number, row.Bytes = maps.Clone(row.Number), maps.Clone(row.Bytes)
		row.Number["id"] = tx.snapshot
		if !tx.HasSums {
			delete(row.Bytes, "sha256")
		}
	case ChunkRows:
		bytes := row.Bytes
		row = NewRow(row.Kind)
		row.Number["snapshot"], row.Number["n"] = tx.snapshot, int64(tx.chunks)
		row.Bytes = bytes
		tx.chunks++
	default:
		if _, ok := rowsOf[row.Kind]; !ok {
			return fmt.Errorf("a row of type %q: %w", row.Kind, ErrUnknownRow)
		}
	}
	return tx.insert(ctx, row)
}

// insert adds a row to the table of its kind, which has to have all of its columns.
func (tx *SQLRows) insert(ctx context.Context, row Row) error {
	table := tx.Tables[row.Kind]
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
		values[name] = Blob(v)
	}
	var into, marks []string
	var args []any
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, ok := isBoolean[name]; !ok {
			return fmt.Errorf("column %q of a row of type %q: %w", name, row.Kind, ErrUnknownRow)
		}
		into, args = append(into, `"`+name+`"`), append(args, values[name])
		marks = append(marks, tx.Mark+strconv.Itoa(len(args)))
	}
	return tx.Tx.Exec(ctx, "INSERT INTO "+table+" ("+strings.Join(into, ", ")+") VALUES ("+strings.Join(marks, ", ")+")", args...)
}

// columnsOf is Columns of the transaction, which it asks once for each table.
func (tx *SQLRows) columnsOf(ctx context.Context, table string) (map[string]bool, error) {
	if columns, ok := tx.columns[table]; ok {
		return columns, nil
	}
	columns, err := tx.Tx.Columns(ctx, table)
	if err != nil {
		return nil, err
	}
	if tx.columns == nil {
		tx.columns = make(map[string]map[string]bool)
	}
	tx.columns[table] = columns
	return columns, nil
}
