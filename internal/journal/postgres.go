package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// A tableStore is a journal in PostgreSQL. Its two large tables are partitioned by day.
type tableStore struct{ *database }

// partitioned are the tables that are partitioned by day.
var partitioned = []string{"journal_entries", "journal_records"}

// lockTables keeps nodes from making tables at the same time.
const lockTables = `SELECT pg_advisory_lock(7733100021)`

// unlockTables gives that lock back.
const unlockTables = `SELECT pg_advisory_unlock(7733100021)`

// OpenPostgres opens the journal in a database. Tables that are missing are made.
func OpenPostgres(ctx context.Context, at string, keys *Keys) (Store, error) {
	pool, err := sql.Open("pgx", at)
	if err != nil {
		return nil, errors.New("journal: the URL of the database cannot be read")
	}
	pool.SetMaxOpenConns(8)
	db := newDatabase(pool, keys)
	db.numbered, db.insert, db.prepareDay = true, copyRows, db.makePartitions
	if err := db.locked(ctx, func(conn *sql.Conn) error {
		for _, statement := range strings.Split(strings.ReplaceAll(schema, " PARTITION", " PARTITION BY RANGE (made)"), ";\n") {
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return nil, errors.Join(fmt.Errorf("journal: %w", err), pool.Close())
	}
	return &tableStore{db}, nil
}

// locked calls do on a connection that has the lock for making tables.
func (db *database) locked(ctx context.Context, do func(*sql.Conn) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() // it goes back to the pool
	if _, err := conn.ExecContext(ctx, lockTables); err != nil {
		return err
	}
	err = do(conn)
	_, unlocked := conn.ExecContext(context.WithoutCancel(ctx), unlockTables)
	return errors.Join(err, unlocked)
}

// makePartitions makes the partitions of a day.
func (db *database) makePartitions(ctx context.Context, at time.Time) error {
	day := at.UTC().Truncate(24 * time.Hour)
	return db.locked(ctx, func(conn *sql.Conn) error {
		for _, table := range partitioned {
			if _, err := conn.ExecContext(ctx, fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s_%s PARTITION OF %s FOR VALUES FROM (%d) TO (%d)`,
				table, day.Format("20060102"), table, day.UnixMilli(), day.Add(24*time.Hour).UnixMilli())); err != nil {
				return err
			}
		}
		return nil
	})
}

// copyRows adds rows of entries by COPY, in the transaction of the connection.
func copyRows(ctx context.Context, conn *sql.Conn, rows [][]any) error {
	return conn.Raw(func(driver any) error {
		_, err := driver.(*stdlib.Conn).Conn().CopyFrom(ctx, pgx.Identifier{"journal_entries"}, columns, pgx.CopyFromRows(rows))
		return err
	})
}

func (s *tableStore) Write(ctx context.Context, entries []Entry) (int, error) {
	return s.write(ctx, entries)
}

func (s *tableStore) Search(ctx context.Context, q Query) (Page, error) {
	limit := limitOf(q)
	all, err := s.search(ctx, q, limit+1)
	return pageOf(all, limit), err
}

func (s *tableStore) Show(ctx context.Context, id string) (Detail, error) {
	return s.show(ctx, strings.ToLower(id))
}

func (s *tableStore) Rollups(ctx context.Context, from, to time.Time) ([]Rollup, error) {
	return s.rollups(ctx, from, to)
}

func (s *tableStore) Erase(ctx context.Context, q Query) (authentications, records int, err error) {
	if q.Card == "" && q.Merchant == "" {
		return 0, 0, errNothingToErase
	}
	return s.erase(ctx, q)
}

func (s *tableStore) Export(ctx context.Context, q Query, line func(ExportedEntry) error) error {
	return s.export(ctx, q, line)
}

func (s *tableStore) Sign(ctx context.Context, now time.Time) error { return s.sign(ctx, now) }

// Expire drops the partitions of the days that ended before a time.
func (s *tableStore) Expire(ctx context.Context, before time.Time) error {
	last := before.UTC().Truncate(24 * time.Hour)
	for _, table := range partitioned {
		rows, err := s.QueryContext(ctx, `SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
			WHERE i.inhparent = to_regclass($1) AND c.relname < $2`, table, table+"_"+last.Format("20060102"))
		if err != nil {
			return err
		}
		var names []string
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				return errors.Join(err, rows.Close())
			}
			names = append(names, name)
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return err
		}
		for _, name := range names {
			if _, err := s.ExecContext(ctx, `DROP TABLE IF EXISTS `+pgx.Identifier{name}.Sanitize()); err != nil {
				return err
			}
		}
	}
	for _, table := range []string{"journal_chains", "journal_keys"} {
		if _, err := s.ExecContext(ctx, `DELETE FROM `+table+` WHERE day < $1`, dayOf(last)); err != nil {
			return err
		}
	}
	return nil
}

func (s *tableStore) Close() error { return s.database.Close() }
