package postgres

import (
	"context"

	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	sqlPutNode = `INSERT INTO nodes (id, name, note, seen) VALUES ($1, $2, $3, {now})
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, note = excluded.note, seen = excluded.seen`
	sqlNodes      = `SELECT id, name, note, {now} - seen FROM nodes ORDER BY id`
	sqlRemoveNode = `DELETE FROM nodes WHERE id = $1`
)

// PutNode implements [store.Store].
func (db *DB) PutNode(ctx context.Context, n store.Node) error {
	return db.exec(ctx, "put node", sqlPutNode, n.ID, n.Name, store.Blob(n.Note))
}

// RemoveNode implements [store.Store].
func (db *DB) RemoveNode(ctx context.Context, id string) error {
	return db.exec(ctx, "remove node", sqlRemoveNode, id)
}

// Nodes implements [store.Store].
func (db *DB) Nodes(ctx context.Context) ([]store.Node, error) {
	return queryRows(ctx, db, "nodes", store.ScanNode, sqlNodes)
}
