package sqlite

import (
	"context"

	"github.com/openthreeds/threeds/internal/state/store"
)

const (
	sqlPutNode    = `INSERT OR REPLACE INTO nodes (id, name, note, seen) VALUES (?1, ?2, ?3, ?4)`
	sqlNodes      = `SELECT id, name, note, ?1 - seen FROM nodes ORDER BY id`
	sqlRemoveNode = `DELETE FROM nodes WHERE id = ?1`
)

// PutNode implements [store.Store].
func (db *DB) PutNode(ctx context.Context, n store.Node) error {
	return db.write(ctx, "put node", func(w *writer) (answer, failed error) {
		_, err := w.exec(sqlPutNode, n.ID, n.Name, store.Blob(n.Note), db.now().UnixMilli())
		return nil, err
	})
}

// RemoveNode implements [store.Store].
func (db *DB) RemoveNode(ctx context.Context, id string) error {
	return db.exec(ctx, "remove node", sqlRemoveNode, id)
}

// Nodes implements [store.Store].
func (db *DB) Nodes(ctx context.Context) (all []store.Node, err error) {
	err = db.read(ctx, "nodes", func(r *reader) (err error) {
		all, err = collect(store.ScanNode)(r.rows(sqlNodes, db.now().UnixMilli()))
		return err
	})
	return all, err
}
