package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// A tableStore is a journal in PostgreSQL. Its entries are partitioned by day, its records by month.
type tableStore struct {
	*database
	retention
	evidence evidence
}

// postgresConns is how many connections a node has to the journal's database.
const postgresConns = 8

// lockTables keeps nodes from making tables of a journal at the same time. Like all locks of a journal, it is that of
// its schema, for the database may have several journals.
const lockTables = `SELECT pg_advisory_lock(77332, hashtext(current_schema()))`

// unlockTables gives that lock back.
const unlockTables = `SELECT pg_advisory_unlock(77332, hashtext(current_schema()))`

// OpenPostgres opens the journal in a database. Tables that are missing are made.
func OpenPostgres(ctx context.Context, at string, keys *Keys) (Store, error) {
	cfg, err := pgx.ParseConfig(at)
	if err != nil {
		return nil, errors.New("journal: the URL of the database cannot be read")
	}
	pool := stdlib.OpenDB(*cfg, stdlib.OptionAfterConnect(preparePlans))
	pool.SetMaxOpenConns(postgresConns)
	pool.SetMaxIdleConns(postgresConns) // else all but two are closed after each use, and opened again
	pool.SetConnMaxIdleTime(time.Minute)
	db := newDatabase(pool, keys)
	db.numbered, db.insert, db.putRows, db.prepareDay = true, copyRows, unnestRows, db.makePartitions
	db.lockRollups = lockRollups
	if err := db.locked(ctx, func(conn *sql.Conn) error { return makeTables(ctx, conn) }); err != nil {
		return nil, errors.Join(fmt.Errorf("journal: %w", err), pool.Close())
	}
	return newTableStore(db), nil
}

// newTableStore returns a journal in a database.
func newTableStore(db *database) *tableStore {
	s := &tableStore{database: db}
	s.evidence.parts, s.evidence.keys = s, db.ours
	return s
}

// preparePlans has the plan of each statement made for its values, for a plan for any value may read all records of a
// month to find one. A page that is read by an index costs little more than the next one, as it is with memory and
// solid disks. No plan is worth compiling.
func preparePlans(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `SET plan_cache_mode = force_custom_plan; SET random_page_cost = 1.1; SET jit = off`)
	return err
}

// makeTables makes the tables and indexes that are missing.
func makeTables(ctx context.Context, conn *sql.Conn) error {
	statements := strings.Split(
		strings.NewReplacer(" PARTITION", " PARTITION BY RANGE (made)", " KEYED", "").Replace(schema), ";\n")
	for _, statement := range slices.Concat(statements, restPartitions()) {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
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

// makePartitions makes the partitions of a day: one for its entries, and one for the records of its month. A search may
// have to look into each partition of records, so there are few.
func (db *database) makePartitions(ctx context.Context, at time.Time) error {
	begin, end := spanOfDay(at)
	day := at.UTC().Format("20060102")
	month := time.Date(at.UTC().Year(), at.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
	return db.locked(ctx, func(conn *sql.Conn) error {
		make := func(table, name string, from, to int64) error {
			_, err := conn.ExecContext(ctx,
				fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s PARTITION OF %s FOR VALUES FROM (%d) TO (%d)`, name, table, from, to))
			return err
		}
		for _, table := range []string{"journal_frames", "journal_places"} {
			if err := make(table, table+"_"+day, begin, end); err != nil {
				return err
			}
		}
		if err := makeBesidePartitions(ctx, conn, at); err != nil {
			return err
		}
		for _, table := range monthTables {
			if err := make(table, table+monthMark+month.Format("200601"), month.UnixMilli(),
				month.AddDate(0, 1, 0).UnixMilli()); err != nil {
				return err
			}
		}
		return nil
	})
}

// monthTables are the tables with a partition for each month. Its name has monthMark before the month.
var monthTables = []string{"journal_records", "journal_postings"}

const monthMark = "_m"

// lockRollups takes the lock for making the rollups of this schema until the end of the transaction,
// if no other node has it.
func lockRollups(ctx context.Context, tx *sql.Tx) (isFirst bool, err error) {
	err = tx.QueryRowContext(ctx, `SELECT pg_try_advisory_xact_lock(77331, hashtext(current_schema()))`).Scan(&isFirst)
	return isFirst, err
}

// unnestRows adds rows with one statement.
func unnestRows(ctx context.Context, tx *sql.Tx, insert string, rows [][]any, end string) error {
	columns, marks := make([]any, len(rows[0])), make([]string, len(rows[0]))
	for i, value := range rows[0] {
		switch value.(type) {
		case int64:
			columns[i], marks[i] = columnOf[int64](rows, i), fmt.Sprintf("$%d::bigint[]", i+1)
		case []byte:
			columns[i], marks[i] = columnOf[[]byte](rows, i), fmt.Sprintf("$%d::bytea[]", i+1)
		default:
			columns[i], marks[i] = columnOf[string](rows, i), fmt.Sprintf("$%d::text[]", i+1)
		}
	}
	_, err := tx.ExecContext(ctx, insert+`SELECT * FROM unnest(`+strings.Join(marks, ", ")+`)`+end, columns...)
	return err
}

// columnOf returns a column of rows.
func columnOf[T any](rows [][]any, i int) []T {
	column := make([]T, len(rows))
	for n, row := range rows {
		column[n] = row[i].(T)
	}
	return column
}

// copyRows adds rows to a table by COPY, in the transaction of the connection.
func copyRows(ctx context.Context, conn *sql.Conn, table string, columns []string, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	return conn.Raw(func(driver any) error {
		_, err := driver.(*stdlib.Conn).Conn().CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromRows(rows))
		return err
	})
}

func (s *tableStore) Write(ctx context.Context, entries []Entry) (int, error) {
	return s.write(ctx, entries)
}

func (s *tableStore) Search(ctx context.Context, q Query) (Page, error) {
	limit := limitOf(q)
	q.From = s.from(q.From)
	all, err := s.search(ctx, q, limit+1)
	return pageOf(all, limit), err
}

func (s *tableStore) Show(ctx context.Context, id string) (Detail, error) {
	return s.visible(s.show(ctx, strings.ToLower(id)))
}

func (s *tableStore) Count(ctx context.Context, q CountQuery) ([]Rollup, error) {
	q.From = s.from(q.From)
	return s.count(ctx, q)
}

func (s *tableStore) Flow(ctx context.Context, q FlowQuery) ([]FlowCount, error) {
	q.From = s.from(q.From)
	return s.flow(ctx, q)
}

func (s *tableStore) CountUnkept(ctx context.Context, q CountQuery) ([]UnkeptRule, error) {
	q.From = s.from(q.From)
	all := unkeptSums{}
	err := s.countUnkept(ctx, q, all)
	return all.rules(), err
}

func (s *tableStore) Billing(ctx context.Context, q BillingQuery) ([]BillingCount, error) {
	counts, _, err := s.billing(ctx, q)
	return counts.sorted(), err
}

func (s *tableStore) booked(ctx context.Context) (billing, int64, error) { return s.bookedBilling(ctx) }

func (s *tableStore) Roll(ctx context.Context, now time.Time, limit time.Duration) error {
	if err := s.roll(ctx, now, limit); err != nil {
		return err
	}
	return s.evidence.checkSome(ctx, s.database, now, limit)
}

func (s *tableStore) Erase(ctx context.Context, q Query) (authentications, records int, err error) {
	if q.erasesNothing() {
		return 0, 0, errNothingToErase
	}
	unread, err := s.evidence.mend(ctx, s.database)
	if err != nil {
		return 0, 0, err
	}
	authentications, records, err = eraseUnheld(ctx, s, q, func(plan erasurePlan) (int, int, error) {
		a, r, spent, err := s.erase(ctx, plan)
		s.ours.forget(spent)
		return a, r, err
	})
	return authentications, records, errors.Join(unread, err)
}

func (s *tableStore) Export(ctx context.Context, q Query, line func(ExportedEntry) error) error {
	q.From = s.from(q.From)
	return s.export(ctx, q, line)
}

const (
	expireLen  = 5000                   // records that are deleted at once
	expireTime = 500 * time.Millisecond // how long one call of Expire goes on to delete records
)

// dropPartitions drops the partitions of tables whose days, or months, ended before a day, and that have no day that is
// kept, each in a transaction of its own. The key of a day goes with its frames.
func (s *tableStore) dropPartitions(ctx context.Context, day time.Time, kept daySet,
	in func(context.Context, func(*sql.Tx) error) error, tables ...string) error {
	names, err := readRows(ctx, s, func(name *string) []any { return []any{name} }, `SELECT c.relname
		FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = ANY (SELECT to_regclass(name) FROM unnest($1::text[]) AS name)`, tables)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !isOfBefore(name, day) || kept.isInPartition(name) {
			continue
		}
		if err := in(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, `DROP TABLE IF EXISTS `+pgx.Identifier{name}.Sanitize()); err != nil {
				return err
			}
			day, isOfFrames := strings.CutPrefix(name, "journal_frames_")
			if !isOfFrames {
				return nil
			}
			_, err := tx.ExecContext(ctx, `DELETE FROM journal_keys WHERE replace(day, '-', '') = $1`, day)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// Expire drops the partitions of the days, and of the months, that ended before a time, but for those that a hold
// keeps. Of the other months it deletes the records of those days, and what its time does not suffice for the next
// time.
func (s *tableStore) Expire(ctx context.Context, before time.Time) error {
	last := before.UTC().Truncate(24 * time.Hour)
	if s.oldest.Load() == 0 { // all of it is hidden until it is known what holds keep
		s.hideBefore(last, nil)
	}
	kept, seal, isKnown, err := s.evidence.findKeptDays(ctx, last)
	if err != nil || !isKnown {
		return err
	}
	if len(kept) == 0 {
		s.hideBefore(last, nil)
	}
	if err := s.evidence.expire(ctx, dayOf(last), kept, seal); errors.Is(err, errNewHold) {
		return nil // the next call heeds it
	} else if err != nil {
		return err
	}
	if err := s.bookExpired(ctx, last.UnixMilli()); err != nil {
		return err
	}
	tables := slices.Concat([]string{"journal_frames", "journal_places"}, monthTables, besideTables)
	if err := s.dropPartitions(ctx, last, kept, s.inTx, tables...); err != nil {
		return err
	}
	for _, gap := range kept.gaps(last) {
		if isDone, err := s.expireGap(ctx, gap); err != nil || !isDone {
			return err
		}
	}
	s.hideBefore(last, kept)
	return nil
}

// bookExpired books the records of days that ended before a time, and that are about to be deleted: a day in each
// transaction, for no record is written meanwhile.
func (s *tableStore) bookExpired(ctx context.Context, before int64) error {
	for isDone := false; !isDone; {
		if err := s.inTx(ctx, func(tx *sql.Tx) error {
			until, err := s.billedUntil(ctx, tx)
			if isDone = until >= before; err != nil || isDone {
				return err
			}
			if _, err := tx.ExecContext(ctx, lockForErase); err != nil {
				return err
			}
			until, err = s.billedUntil(ctx, tx) // again: another node may have done it
			if isDone = until >= before; err != nil || isDone {
				return err
			}
			var first sql.NullString
			if err := tx.QueryRowContext(ctx, `SELECT min(day) FROM journal_keys WHERE day >= $1 AND day < $2`,
				dayOf(time.UnixMilli(until)), dayOf(time.UnixMilli(before))).Scan(&first); err != nil {
				return err
			}
			end := before
			if day, err := time.Parse(time.DateOnly, first.String); err == nil {
				end = min(before, day.AddDate(0, 0, 1).UnixMilli())
			}
			counts := billing{}
			if err := counts.addLive(ctx, s.database, tx, until, end, func(*frameItem) bool { return true }); err != nil {
				return err
			}
			return s.book(ctx, tx, counts, end)
		}); err != nil {
			return err
		}
	}
	return nil
}

// isOfBefore reports whether all days of a partition, by its name, ended before a day begins.
func isOfBefore(name string, day time.Time) bool {
	if _, text, ok := strings.Cut(name, monthMark); ok && len(text) == len("200601") {
		month, err := time.Parse("200601", text)
		return err == nil && !month.AddDate(0, 1, 0).After(day)
	}
	end, err := time.Parse("20060102", name[strings.LastIndexByte(name, '_')+1:])
	return err == nil && end.Before(day)
}

// isInPartition reports whether a partition, by its name, has a day of the set.
func (s daySet) isInPartition(name string) bool {
	text := strings.TrimPrefix(name[strings.LastIndexByte(name, '_')+1:], "m") // monthMark puts the m before a month
	for day := range s {
		if strings.HasPrefix(strings.ReplaceAll(day, "-", ""), text) {
			return true
		}
	}
	return false
}

func (s *tableStore) Close() error { return s.database.Close() }
