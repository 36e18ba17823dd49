package rows

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/openthreeds/threeds/internal/state/store"
)

// A Tx is a [store.RowTx] in a transaction of either database.
type Tx struct {
	Statements Statements
	Engine     string   // begins the text of errors
	HasSums    bool     // the table of snapshots has the column sha256
	ClearAudit []string // statements that remove all entries of the audit trail, which the database refuses otherwise

	snapshot int64                      // id of the snapshot that was added last
	chunks   int                        // number of chunks that the last snapshot has so far
	columns  map[string]map[string]bool // what Columns has returned, by table
}

// Statements are what a [Tx] needs of a transaction.
type Statements interface {
	// Query calls do with every row of a query, as a row of a kind.
	Query(ctx context.Context, kind, query string, args []any, do func(store.Row) error) error

	Exec(ctx context.Context, statement string, args ...any) error

	// Columns returns the columns of a table, and which of them are truth values.
	Columns(ctx context.Context, table string) (map[string]bool, error)

	// NewSnapshotID returns an id that no other snapshot has or gets.
	NewSnapshotID(ctx context.Context) (int64, error)
}

// These are conditions of the rows that a backup has of tables which also hold others.
const (
	objectsOfBackup = "kind IN ('" + store.TokenObjects + "', '" + store.UserObjects + "', '" +
		store.CertificateObjects + "', '" + store.DisabledObjects + "')"
	statesOfBackup = "(key LIKE '" + store.RangeStates + "%' OR key LIKE '" + store.UseStates + "%' OR key = '" +
		store.RotationState + "')"
)

// rowsOf says in which table the rows of a kind are, which rows of it, and in which order Each has them.
var rowsOf = map[string]struct{ table, where, order string }{
	store.KeyRows:      {"api_keys", "TRUE", "created, hash"},
	store.EndpointRows: {"endpoints", "TRUE", "created, id"},
	store.MerchantRows: {"merchants", "TRUE", "name"},
	store.RevokedRows:  {"revoked_keys", "TRUE", "revoked, hash"},
	store.ObjectRows:   {"objects", objectsOfBackup, "kind, id"},
	store.AuditRows:    {"audit", "TRUE", "seq"},
	store.StateRows:    {"small_states", statesOfBackup, "key"},
}

// Each implements [store.RowTx].
func (tx *Tx) Each(ctx context.Context, kind string, do func(store.Row) error) error {
	if kind == store.RangeRows {
		return tx.eachRange(ctx, do)
	}
	rows, ok := rowsOf[kind]
	if !ok {
		return fmt.Errorf("%s: rows of type %q: %w", tx.Engine, kind, store.ErrUnknownRow)
	}
	query := "SELECT * FROM " + rows.table + " WHERE " + rows.where + " ORDER BY " + rows.order
	return tx.Statements.Query(ctx, kind, query, nil, do)
}

// eachRange calls do with every snapshot and its chunks.
func (tx *Tx) eachRange(ctx context.Context, do func(store.Row) error) error {
	var all []store.Row
	err := tx.Statements.Query(ctx, store.RangeRows, "SELECT * FROM snapshots ORDER BY scheme, generation", nil,
		func(row store.Row) error {
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
			err := tx.eachChunk(ctx, id, func(chunk store.Row) error {
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
func (tx *Tx) eachChunk(ctx context.Context, snapshot int64, do func(store.Row) error) error {
	query := "SELECT data FROM chunks WHERE snapshot = $1 ORDER BY n"
	return tx.Statements.Query(ctx, store.ChunkRows, query, []any{snapshot}, do)
}

// Clear implements [store.RowTx].
func (tx *Tx) Clear(ctx context.Context, kind string) error {
	switch kind {
	case store.RangeRows:
		return tx.exec(ctx, "DELETE FROM chunks WHERE snapshot IN (SELECT id FROM snapshots)", "DELETE FROM snapshots")
	case store.AuditRows:
		return tx.exec(ctx, tx.ClearAudit...)
	}
	rows, ok := rowsOf[kind]
	if !ok {
		return fmt.Errorf("%s: rows of type %q: %w", tx.Engine, kind, store.ErrUnknownRow)
	}
	return tx.Statements.Exec(ctx, "DELETE FROM "+rows.table+" WHERE "+rows.where)
}

// exec executes statements, up to one that fails.
func (tx *Tx) exec(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if err := tx.Statements.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// Add implements [store.RowTx].
func (tx *Tx) Add(ctx context.Context, row store.Row) (err error) {
	table := rowsOf[row.Kind].table
	switch row.Kind {
	case store.RangeRows:
		table = "snapshots"
		if tx.snapshot, err = tx.Statements.NewSnapshotID(ctx); err != nil {
			return err
		}
		tx.chunks = 0
		row.Number, row.Bytes = maps.Clone(row.Number), maps.Clone(row.Bytes)
		row.Number["id"] = tx.snapshot
		if !tx.HasSums {
			delete(row.Bytes, "sha256")
		}
	case store.ChunkRows:
		table = "chunks"
		bytes := row.Bytes
		row = store.NewRow(row.Kind)
		row.Number["snapshot"], row.Number["n"] = tx.snapshot, int64(tx.chunks)
		row.Bytes = bytes
		tx.chunks++
	default:
		if table == "" {
			return fmt.Errorf("a row of type %q: %w", row.Kind, store.ErrUnknownRow)
		}
	}
	return tx.insert(ctx, table, row)
}

// insert adds a row to a table, which has to have all of its columns.
func (tx *Tx) insert(ctx context.Context, table string, row store.Row) error {
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
			return fmt.Errorf("column %q of a row of type %q: %w", name, row.Kind, store.ErrUnknownRow)
		}
		into, args = append(into, `"`+name+`"`), append(args, values[name])
		marks = append(marks, "$"+strconv.Itoa(len(args)))
	}
	return tx.Statements.Exec(ctx,
		"INSERT INTO "+table+" ("+strings.Join(into, ", ")+") VALUES ("+strings.Join(marks, ", ")+")", args...)
}

// columnsOf is Columns of the transaction, which it asks once for each table.
func (tx *Tx) columnsOf(ctx context.Context, table string) (map[string]bool, error) {
	if columns, ok := tx.columns[table]; ok {
		return columns, nil
	}
	columns, err := tx.Statements.Columns(ctx, table)
	if err != nil {
		return nil, err
	}
	if tx.columns == nil {
		tx.columns = make(map[string]map[string]bool)
	}
	tx.columns[table] = columns
	return columns, nil
}
