package journal

import (
	"context"
	"database/sql"
	"errors"
	"strings"
)

// insertRows adds rows to a table.
func insertRows(ctx context.Context, conn *sql.Conn, table string, columns []string, rows [][]any) error {
	return addRows(ctx, conn, `INSERT INTO `+table+` (`+strings.Join(columns, ", ")+`) `, rows, "")
}

// putRows adds rows.
func putRows(ctx context.Context, tx *sql.Tx, insert string, rows [][]any, end string) error {
	return addRows(ctx, tx, insert, rows, end)
}

// rowsAtOnce is how many rows one statement adds. With 8 a row costs a tenth less than with 1, and with 32 more again:
// SQLite then keeps copies of more pages, in case the statement fails.
const rowsAtOnce = 8

// addRows adds rows by statements that begin with insert and end with end.
func addRows(ctx context.Context, in preparer, insert string, rows [][]any, end string) error {
	var args []any
	for len(rows) > 0 {
		n := 1
		if len(rows) >= rowsAtOnce {
			n = rowsAtOnce
		}
		one := "(" + marks(len(rows[0])) + ")"
		st, err := in.PrepareContext(ctx, insert+`VALUES `+one+strings.Repeat(", "+one, n-1)+end)
		if err != nil {
			return err
		}
		for len(rows) >= n {
			args = args[:0]
			for _, row := range rows[:n] {
				args = append(args, row...)
			}
			if _, err := st.ExecContext(ctx, args...); err != nil {
				return errors.Join(err, st.Close())
			}
			rows = rows[n:]
		}
		if err := st.Close(); err != nil {
			return err
		}
	}
	return nil
}

// A preparer is a connection or a transaction.
type preparer interface {
	PrepareContext(ctx context.Context, text string) (*sql.Stmt, error)
}
