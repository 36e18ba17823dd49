package journal

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// A day that is archived leaves its keys, its counts and its counters for billing, the places of entries that were
// erased, and the names of its chains. What comes later for the day, also from its own file, is not counted again.

// errDayInUse says that a day of PostgreSQL could not be locked.
var errDayInUse = errors.New("journal: another process reads or writes the day: run the command again")

// lockDay keeps others from adding entries to a day, from erasing, and from making rollups, until a transaction ends.
// In SQLite one writes at a time.
func (db *database) lockDay(ctx context.Context, tx *sql.Tx, at time.Time) error {
	if !db.numbered {
		return nil
	}
	for _, statement := range []string{
		`SET LOCAL lock_timeout = '10s'`, lockForWrite,
		`SELECT pg_advisory_xact_lock(77331, hashtext(current_schema()))`,
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	name := "journal_frames_" + at.Format("20060102")
	isThere, err := isTable(ctx, tx, name)
	if err == nil && isThere {
		_, err = tx.ExecContext(ctx, `LOCK TABLE `+name+` IN EXCLUSIVE MODE`)
	}
	return err
}

// isTable reports whether PostgreSQL has a table.
func isTable(ctx context.Context, tx *sql.Tx, name string) (isThere bool, err error) {
	err = tx.QueryRowContext(ctx, `SELECT to_regclass($1) IS NOT NULL`, name).Scan(&isThere)
	return isThere, err
}

// removeDay removes the entries of a day, what stands beside them, and their rows for searches. Before that, it adds
// what is billed to the counters, and counts the hours that were not counted yet. The day must have exactly these
// chains. Last is called when all else is done, in the same transaction.
func (db *database) removeDay(ctx context.Context, day string, chains []ChainEnd, last func(*sql.Tx) error) error {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return err
	}
	err = db.inTx(ctx, func(tx *sql.Tx) error {
		if err := db.lockDay(ctx, tx, at); err != nil {
			return err
		}
		if err := db.checkChains(ctx, tx, day, chains); err != nil {
			return err
		}
		if err := db.countForGood(ctx, tx, day, at); err != nil {
			return err
		}
		if err := db.clearDay(ctx, tx, at); err != nil {
			return err
		}
		for _, c := range chains {
			if _, err := tx.ExecContext(ctx, db.query(`UPDATE journal_chains SET closed = ?, link = ? WHERE chain = ?`),
				chainArchived, db.ours.mac(archivedText(c.Chain)), c.Chain); err != nil {
				return err
			}
		}
		return last(tx)
	})
	if err != nil && strings.Contains(err.Error(), "SQLSTATE 55P03") { // lock_not_available
		return errDayInUse
	}
	if err != nil || db.numbered {
		return err
	}
	if err := db.truncateLog(ctx); !errors.Is(err, errLogInUse) { // the next one empties it
		return err
	}
	return nil
}

// checkChains returns an error unless a day has exactly these chains.
func (db *database) checkChains(ctx context.Context, tx *sql.Tx, day string, chains []ChainEnd) error {
	all, err := readRows(ctx, tx, func(c *ChainEnd) []any { return []any{&c.Chain, &c.Seq, &c.Link} },
		db.query(`SELECT chain, seq, link FROM journal_chains WHERE day = ? AND closed <> ?`), day, chainArchived)
	if err != nil {
		return err
	}
	isSame := len(all) == len(chains)
	for _, c := range all {
		isSame = isSame && slices.ContainsFunc(chains, func(o ChainEnd) bool {
			return o.Chain == c.Chain && o.Seq == c.Seq && bytes.Equal(o.Link, c.Link)
		})
	}
	if !isSame {
		return &errStays{why: "entries came, or another process has archived it: run the command again"}
	}
	return nil
}

// checkErased returns an error if entries of a day were erased after a seal: its file may still have them.
func (db *database) checkErased(ctx context.Context, tx *sql.Tx, after int64, day string) error {
	var from querier = tx
	if db.sealsPart != nil {
		seals, err := db.sealsPart(ctx, true)
		if err != nil {
			return err
		}
		from = seals
	}
	texts, err := readRows(ctx, from, func(text *string) []any { return []any{text} },
		db.query(`SELECT text FROM journal_seals WHERE n > ?`), after)
	if err != nil {
		return err
	}
	for _, text := range texts {
		if said, err := parseSeal(text); err != nil || said.hasErased(day, day) {
			return &errStays{why: "entries were erased while its file was written: run the command again"}
		}
	}
	return nil
}

// countForGood adds what is billed of a day to the counters, and counts its hours for reports.
func (db *database) countForGood(ctx context.Context, tx *sql.Tx, day string, at time.Time) error {
	archived, err := db.archivedDays(ctx, tx)
	if err != nil || archived[day] {
		return err
	}
	begin, end := spanOfDay(at)
	until, err := db.billedUntil(ctx, tx)
	if err != nil {
		return err
	}
	if begin >= until {
		counts := billing{}
		if err := counts.addDay(ctx, db, tx, at, func(*frameItem) bool { return true }); err != nil {
			return err
		}
		if err := db.book(ctx, tx, counts, 0); err != nil {
			return err
		}
	}
	dirty, err := readNumbers(ctx, tx,
		db.query(`SELECT DISTINCT hour FROM journal_dirty WHERE hour >= ? AND hour < ?`), begin/hourLen, end/hourLen)
	for _, hour := range dirty {
		if err == nil {
			err = db.rollHour(ctx, tx, hour)
		}
	}
	return err
}

// clearDay removes the rows of a day. Those of PostgreSQL that have a partition of their own for it go with all of its
// pages.
func (db *database) clearDay(ctx context.Context, tx *sql.Tx, at time.Time) error {
	begin, end := spanOfDay(at)
	if db.numbered {
		if err := db.truncatePartitions(ctx, tx, at); err != nil {
			return err
		}
	}
	for _, table := range []string{"journal_frames", "journal_messages", "journal_personal", "journal_postings"} {
		if _, err := tx.ExecContext(ctx, db.query(`DELETE FROM `+table+` WHERE made >= ? AND made < ?`), begin,
			end); err != nil {
			return err
		}
	}
	for _, text := range []string{
		`DELETE FROM journal_places WHERE made >= ? AND made < ? AND gone = 0`,
		`DELETE FROM journal_hours WHERE start >= ? AND start < ?`,
	} {
		if _, err := tx.ExecContext(ctx, db.query(text), begin, end); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, db.query(`DELETE FROM journal_records WHERE `+recordsOfTime+`1 = 1`), begin, end,
		-begin, -end)
	return err
}

// truncatePartitions empties the partitions of a day. The places of entries that were erased stay.
func (db *database) truncatePartitions(ctx context.Context, tx *sql.Tx, at time.Time) error {
	begin, end := spanOfDay(at)
	if _, err := tx.ExecContext(ctx, `CREATE TEMPORARY TABLE journal_gone ON COMMIT DROP AS
		SELECT * FROM journal_places WHERE made >= $1 AND made < $2 AND gone <> 0`, begin, end); err != nil {
		return err
	}
	for _, table := range slices.Concat([]string{"journal_frames", "journal_places"}, besideTables) {
		name := table + "_" + at.Format("20060102")
		isThere, err := isTable(ctx, tx, name)
		if err == nil && isThere {
			_, err = tx.ExecContext(ctx, `TRUNCATE `+name)
		}
		if err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO journal_places SELECT * FROM journal_gone`)
	return err
}

// A daySet is a set of days.
type daySet map[string]bool

// numbers returns the days as a list of SQL, as days since 1970. No list is empty.
func (s daySet) numbers() string {
	list := "-1"
	for _, day := range sortedKeys(s) {
		at, _ := time.Parse(time.DateOnly, day) // one that is no day is no number of a row
		list += fmt.Sprintf(", %d", at.UnixMilli()/dayLen)
	}
	return list
}

// archivedText is what the MAC of a chain that is archived is made over. It stands in the place of its link.
func archivedText(chain string) []byte { return fmt.Appendf(nil, "threeds journal archived %s", chain) }

// archivedDays returns the days of a database that are archived. Records of such days are not counted, so nobody
// without the keys may add a day: a chain needs its MAC.
func (db *database) archivedDays(ctx context.Context, from querier) (daySet, error) {
	chains, err := readRows(ctx, from, func(c *ChainEnd) []any { return []any{&c.Chain, &c.Link} },
		db.query(`SELECT chain, link FROM journal_chains WHERE closed = ?`), chainArchived)
	all := daySet{}
	for _, c := range chains {
		if db.ours.isMAC(c.Link, archivedText(c.Chain)) {
			all[dayOfChain(c.Chain)] = true
		}
	}
	return all, err
}

// countPersonal counts the frames of a day that have personal data.
func (db *database) countPersonal(ctx context.Context, day string) (n int, err error) {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return 0, err
	}
	begin, end := spanOfDay(at)
	err = db.QueryRowContext(ctx, db.query(`SELECT count(*) FROM journal_personal WHERE made >= ? AND made < ?`), begin,
		end).Scan(&n)
	return n, err
}

// markArchived notes that a chain of a journal that is restored is in a file.
func (db *database) markArchived(ctx context.Context, chain string) error {
	_, err := db.ExecContext(ctx, db.query(`INSERT INTO journal_chains (chain, day, seq, link, closed)
		VALUES (?, ?, 0, ?, ?) ON CONFLICT (chain) DO NOTHING`), chain, dayOfChain(chain),
		db.ours.mac(archivedText(chain)), chainArchived)
	return err
}

func (s *tableStore) shrink(context.Context) error { return nil } // the partitions of the days are empty

// shrink writes the file of each month again all of whose days are archived. Others use their free pages for days to
// come.
func (s *fileStore) shrink(ctx context.Context) error {
	return s.each(ctx, func(db *database) (bool, error) {
		var live, free int
		if err := db.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM journal_chains WHERE closed <> ?),
			(SELECT freelist_count FROM pragma_freelist_count)`, chainArchived).Scan(&live, &free); err != nil {
			return false, err
		}
		if live > 0 || free == 0 {
			return false, nil
		}
		_, err := db.ExecContext(ctx, `VACUUM`)
		if failed, ok := errors.AsType[*driver.Error](err); ok && failed.Code()&0xff == lib.SQLITE_BUSY {
			return false, nil // another process uses it: the next call writes it again
		}
		if err != nil {
			return false, fmt.Errorf("journal: %w", err)
		}
		if err := db.truncateLog(ctx); !errors.Is(err, errLogInUse) {
			return false, err
		}
		return false, nil
	})
}
