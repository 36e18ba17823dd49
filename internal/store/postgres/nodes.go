package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/store"
)

const (
	sqlPutNode = `INSERT INTO nodes (id, name, note, seen) VALUES ($1, $2, $3, {now})
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, note = excluded.note, seen = excluded.seen`
	sqlNodes      = `SELECT id, name, note, {now} - seen FROM nodes ORDER BY id`
	sqlRemoveNode = `DELETE FROM nodes WHERE id = $1`
)

// PutNode implements [store.Store].
func (db *DB) PutNode(ctx context.Context, n store.Node) error {
	return db.write(ctx, "put node", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, db.sql.putNode, n.ID, n.Name, blob(n.Note))
		return err
	})
}

// RemoveNode implements [store.Store].
func (db *DB) RemoveNode(ctx context.Context, id string) error {
	return db.write(ctx, "remove node", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sqlRemoveNode, id)
		return err
	})
}

// Nodes implements [store.Store].
func (db *DB) Nodes(ctx context.Context) (all []store.Node, err error) {
	err = db.read(ctx, "nodes", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, db.sql.nodes)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (n store.Node, err error) {
			var age int64
			err = row.Scan(&n.ID, &n.Name, &n.Note, &age)
			n.Age = time.Duration(age) * time.Millisecond
			return n, err
		})
		return err
	})
	return all, err
}
