package sqlite

import (
	"context"
	"path/filepath"

	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/rows"
)

const (
	sqlFile   = `SELECT sqlite_version(), page_count * page_size FROM pragma_page_count(), pragma_page_size()`
	sqlTables = `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name`
)

var _ store.Surveyor = (*DB)(nil)

// Layout implements [store.Surveyor]. It counts rows: SQLite has no estimates.
func (db *DB) Layout(ctx context.Context) (l store.Layout, err error) {
	dir := filepath.Dir(db.place[0].path)
	var version string
	var size int64
	scan := func(row rows.Scanner) (any, error) { return nil, row.Scan(&version, &size) }
	_, err = rows.One(ctx, db.Rows, "layout", scan, sqlFile)
	if err != nil {
		return l, err
	}
	l = store.Layout{
		Engine: "sqlite", Version: "SQLite " + version,
		Nodes: []store.LayoutNode{{Name: dir, Role: store.FileRole, IsUp: true, Bytes: &size}},
	}
	names, err := rows.All(ctx, db.Rows, "tables", rows.ScanValue[string], sqlTables)
	if err != nil {
		return l, err
	}
	for _, name := range names {
		n, err := rows.One(ctx, db.Rows, "rows of a table", rows.ScanValue[int64], `SELECT count(*) FROM `+name)
		if err != nil {
			return l, err
		}
		l.Tables = append(l.Tables, store.LayoutTable{
			Name: name, Kind: store.LocalTable, Places: []store.LayoutPlace{{Node: dir, Rows: &n}},
		})
	}
	return l, nil
}
