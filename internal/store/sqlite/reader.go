package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/openthreeds/threeds/internal/store"
)

// A reader is a connection that reads, and its statements. One goroutine uses it
// at a time.
type reader struct {
	get, list, key, keys, ping        *sql.Stmt
	mark, markedKeys                  *sql.Stmt
	state, snapshots, snapshot, chunk *sql.Stmt
	deadUploads, leftovers, nodes     *sql.Stmt
	endpoints, event, findEvents      *sql.Stmt
	deliveries, anyDue, merchants     *sql.Stmt
	object, objects                   *sql.Stmt
	auditNewest, auditOldest          *sql.Stmt
}

func (db *DB) newReader(conn *sql.Conn) (*reader, error) {
	r := new(reader)
	return r, db.prepareAll(conn, []statement{
		{&r.get, sqlGet},
		{&r.list, sqlList},
		{&r.key, sqlKey},
		{&r.keys, sqlKeys},
		{&r.mark, sqlMark},
		{&r.markedKeys, sqlMarkedKeys},
		{&r.ping, "SELECT version FROM schema_version"},
		{&r.state, sqlState},
		{&r.snapshots, sqlSnapshots},
		{&r.snapshot, sqlSnapshot},
		{&r.chunk, sqlChunk},
		{&r.deadUploads, sqlDeadUploads},
		{&r.leftovers, sqlLeftovers},
		{&r.endpoints, sqlEndpoints},
		{&r.event, sqlEvent},
		{&r.findEvents, sqlFindEvents},
		{&r.deliveries, sqlDeliveries},
		{&r.anyDue, sqlAnyDue},
		{&r.nodes, sqlNodes},
		{&r.merchants, sqlMerchants},
		{&r.object, sqlObject},
		{&r.objects, sqlObjects},
		{&r.auditNewest, sqlAudit + " ORDER BY seq DESC LIMIT ?5"},
		{&r.auditOldest, sqlAudit + " ORDER BY seq LIMIT ?5"},
	})
}

// read runs f with a reader that is free. An error that is none of the contract
// says what was being done.
func (db *DB) read(ctx context.Context, what string, f func(r *reader) error) error {
	if err := db.beginCall(ctx); err != nil {
		return err
	}
	defer db.endCall()
	return db.withReader(ctx, what, f)
}

// withReader is read within a call. Queries take no context: they are short, and
// to interrupt one costs its connection.
func (db *DB) withReader(ctx context.Context, what string, f func(r *reader) error) error {
	var r *reader
	select {
	case r = <-db.readers:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { db.readers <- r }()
	switch err := f(r); {
	case err == nil:
		return nil
	case errors.Is(err, sql.ErrNoRows):
		return store.ErrNotFound
	default:
		return fmt.Errorf("sqlite: %s: %w", what, err)
	}
}
