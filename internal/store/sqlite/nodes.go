package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/openthreeds/threeds/internal/store"
)

const (
	sqlPutNode    = `INSERT OR REPLACE INTO node (id, name, note, seen) VALUES (?1, ?2, ?3, ?4)`
	sqlNodes      = `SELECT id, name, note, ?1 - seen FROM node ORDER BY id`
	sqlRemoveNode = `DELETE FROM node WHERE id = ?1`
)

// PutNode implements [store.Store].
func (db *DB) PutNode(ctx context.Context, n store.Node) error {
	return db.write(ctx, "put node", func(w *writer) (answer, failed error) {
		_, err := w.putNode.Exec(n.ID, n.Name, blob(n.Note), db.now().UnixMilli())
		return nil, err
	})
}

// RemoveNode implements [store.Store].
func (db *DB) RemoveNode(ctx context.Context, id string) error {
	return db.write(ctx, "remove node", func(w *writer) (answer, failed error) {
		_, err := w.removeNode.Exec(id)
		return nil, err
	})
}

// Nodes implements [store.Store].
func (db *DB) Nodes(ctx context.Context) (all []store.Node, err error) {
	err = db.read(ctx, "nodes", func(r *reader) (err error) {
		rows, err := r.nodes.Query(db.now().UnixMilli())
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			var n store.Node
			var age int64
			if err := rows.Scan(&n.ID, &n.Name, &n.Note, &age); err != nil {
				return err
			}
			n.Age = time.Duration(age) * time.Millisecond
			all = append(all, n)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}
