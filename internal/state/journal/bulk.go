package journal

import (
	"context"
	"database/sql"
	"errors"

	"github.com/jackc/pgx/v5"
)

// A bulkStore is a store whose secondary indexes may be away while it is filled.
type bulkStore interface {
	dropIndexes(ctx context.Context) error
	// makeIndexes makes the indexes that are missing, and has the database count what it has, for its plans.
	makeIndexes(ctx context.Context) error
	// anotherWriter returns a store that writes to the same place with chains of its own. Only the first one is closed.
	anotherWriter() Store
}

// dropIndexes drops the indexes that writing does not need. Whoever opens the journal makes those that are missing, so
// that they are back after a crash, too.
func (s *tableStore) dropIndexes(ctx context.Context) error {
	return s.locked(ctx, func(conn *sql.Conn) error {
		names, err := readRows(ctx, conn, func(name *string) []any { return []any{name} },
			`SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
			WHERE i.indrelid IN (to_regclass('journal_frames'), to_regclass('journal_records')) AND NOT i.indisprimary`)
		if err != nil {
			return err
		}
		for _, name := range names {
			if _, err := conn.ExecContext(ctx, `DROP INDEX IF EXISTS `+pgx.Identifier{name}.Sanitize()); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *tableStore) anotherWriter() Store {
	db := newDatabase(s.DB, s.ours)
	db.numbered, db.insert, db.putRows, db.prepareDay, db.lockRollups = s.numbered, s.insert, s.putRows,
		db.makePartitions, s.lockRollups
	return newTableStore(db)
}

func (s *tableStore) makeIndexes(ctx context.Context) error {
	return s.locked(ctx, func(conn *sql.Conn) error {
		if _, err := conn.ExecContext(ctx, `SET maintenance_work_mem = '512MB'`); err != nil {
			return err
		}
		err := makeTables(ctx, conn)
		if err == nil {
			_, err = conn.ExecContext(ctx, `ANALYZE journal_records, journal_places`)
		}
		_, reset := conn.ExecContext(context.WithoutCancel(ctx), `RESET maintenance_work_mem`)
		return errors.Join(err, reset)
	})
}
