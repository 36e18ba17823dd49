package journal

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"
)

// DateNewestSeal gives the newest seal of a store another time, as if the clock of the machine had shown that.
func DateNewestSeal(t *testing.T, st Store, keys *Keys, at time.Time) {
	t.Helper()
	db, err := st.(evidenceParts).sealsPart(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	var newest Seal
	if err := db.readSeals(t.Context(), 1, func(s Seal) error {
		newest = s
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	said, err := parseSeal(newest.Text)
	if err != nil {
		t.Fatal(err)
	}
	said.at = at
	seal := keys.seal(said)
	if _, err := db.ExecContext(t.Context(), db.query(`UPDATE journal_seals SET text = ?, signature = ? WHERE n = ?`),
		seal.Text, seal.Signature, seal.N); err != nil {
		t.Fatal(err)
	}
	ForgetSeals(t, st)
}

// CopyRows returns the rows of tables, by their names.
func CopyRows(t *testing.T, db *sql.DB, tables []string) map[string][]map[string]any {
	t.Helper()
	all := map[string][]map[string]any{}
	for _, table := range tables {
		rows, err := db.QueryContext(t.Context(), `SELECT * FROM `+table)
		if err != nil {
			t.Fatal(err)
		}
		names, _ := rows.Columns()
		for rows.Next() {
			values, places := make([]any, len(names)), make([]any, len(names))
			for c := range values {
				places[c] = &values[c]
			}
			if err := rows.Scan(places...); err != nil {
				t.Fatal(err)
			}
			row := map[string]any{}
			for c, name := range names {
				row[name] = values[c]
			}
			all[table] = append(all[table], row)
		}
		_ = rows.Close()
	}
	return all
}

// PutRows puts rows in the place of those of tables.
func PutRows(t *testing.T, db *sql.DB, tables []string, all map[string][]map[string]any) {
	t.Helper()
	for _, table := range tables {
		if _, err := db.ExecContext(t.Context(), `DELETE FROM `+table); err != nil {
			t.Fatal(err)
		}
		for _, row := range all[table] {
			var names, marks []string
			var values []any
			for name, value := range row {
				names, values = append(names, name), append(values, value)
				marks = append(marks, fmt.Sprintf("$%d", len(values)))
			}
			if _, err := db.ExecContext(t.Context(), `INSERT INTO `+table+` (`+strings.Join(names, ", ")+
				`) VALUES (`+strings.Join(marks, ", ")+`)`, values...); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// ForgetLeaf forgets one leaf.
func ForgetLeaf(keys *Keys, leaf uint64) { keys.forget([]spentLeaf{{keys.tree.name, leaf}}) }
