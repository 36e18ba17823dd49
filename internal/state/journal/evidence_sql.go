package journal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// lockForSeal has the processes of a journal in PostgreSQL make seals one after the other.
const lockForSeal = `SELECT pg_advisory_xact_lock(77334, hashtext(current_schema()))`

// readSeals calls do with the seals from a number on, in their order.
func (db *database) readSeals(ctx context.Context, from int64, do func(Seal) error) error {
	return db.readSealsIn(ctx, db, from, do)
}

// readSealsIn is readSeals in a transaction.
func (db *database) readSealsIn(ctx context.Context, in querier, from int64, do func(Seal) error) error {
	rows, err := in.QueryContext(ctx,
		db.query(`SELECT n, text, key_id, signature FROM journal_seals WHERE n >= ? ORDER BY n`), from)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var s Seal
		if err := rows.Scan(&s.N, &s.Text, &s.KeyID, &s.Signature); err != nil {
			return err
		}
		if err := do(s); err != nil {
			return err
		}
	}
	return rows.Err()
}

// readSealsOf is readSeals of a database that may be nil, which has none.
func readSealsOf(ctx context.Context, db *database, from int64, do func(Seal) error) error {
	if db == nil {
		return nil
	}
	return db.readSeals(ctx, from, do)
}

// appendSeal adds the seal that make returns for the newest one, which is the zero seal if there is none.
func (db *database) appendSeal(ctx context.Context, make func(newest *Seal) (Seal, error)) error {
	return db.inTx(ctx, func(tx *sql.Tx) error { return db.appendSealIn(ctx, tx, make) })
}

// appendSealIn is appendSeal in a transaction.
func (db *database) appendSealIn(ctx context.Context, tx *sql.Tx, make func(newest *Seal) (Seal, error)) error {
	if err := db.lockSeals(ctx, tx); err != nil {
		return err
	}
	var newest Seal
	err := tx.QueryRowContext(ctx, `SELECT n, text, key_id, signature FROM journal_seals ORDER BY n DESC LIMIT 1`).
		Scan(&newest.N, &newest.Text, &newest.KeyID, &newest.Signature)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	s, err := make(&newest)
	if err != nil {
		return err
	}
	return db.insertSeal(ctx, tx, s)
}

// lockSeals keeps others from making a seal until a transaction ends. In SQLite one writes at a time.
func (db *database) lockSeals(ctx context.Context, tx *sql.Tx) error {
	if !db.numbered {
		return nil
	}
	_, err := tx.ExecContext(ctx, lockForSeal)
	return err
}

func (db *database) insertSeal(ctx context.Context, tx *sql.Tx, s Seal) error {
	_, err := tx.ExecContext(ctx, db.query(`INSERT INTO journal_seals (n, text, key_id, signature) VALUES (?, ?, ?, ?)`),
		s.N, s.Text, s.KeyID, s.Signature)
	return err
}

// dropSeals removes the seals before a number.
func (db *database) dropSeals(ctx context.Context, first int64) error {
	_, err := db.ExecContext(ctx, db.query(`DELETE FROM journal_seals WHERE n < ?`), first)
	return err
}

// A chain in journal_chains is open while its process appends to it. One that is archived has no entries here. Its row
// stays, so that the process that has written it appends nothing to it.
const (
	chainClosed   = 1
	chainArchived = 2
)

// readChains returns the chains of a database that are not archived.
func (db *database) readChains(ctx context.Context) ([]tableChain, error) {
	return readRows(ctx, db, func(c *tableChain) []any { return []any{&c.Chain, &c.day, &c.Seq, &c.Link, &c.closed} },
		fmt.Sprintf(`SELECT chain, day, seq, link, closed FROM journal_chains WHERE closed <> %d`, chainArchived))
}

// ownEnds returns how many entries this process has written to each of its chains.
func (db *database) ownEnds() map[string]int64 {
	db.mu.Lock()
	defer db.mu.Unlock()
	all := map[string]int64{}
	for day, head := range db.heads {
		all[db.chainName(day)] = head.seq
	}
	return all
}

// closeChains keeps all processes from appending to the chains until a day.
func (db *database) closeChains(ctx context.Context, day string) error {
	_, err := db.ExecContext(ctx, db.query(`UPDATE journal_chains SET closed = ? WHERE closed = 0 AND day <= ?`),
		chainClosed, day)
	return err
}

// sealLen is how many spans of entries one tombstone names at most.
const sealLen = 10_000

// A chainPlace is the number of an entry in a chain, and the id of its authentication.
type chainPlace struct {
	chain string
	seq   int64
	id    string
}

// errNewHold says that a legal hold was set since an erasure has read which there are.
var errNewHold = errors.New("journal: a legal hold was set meanwhile: nothing of this day was erased")

// checkNoHold returns errNewHold if a hold was set behind a seal, in a transaction that keeps others from making seals.
// It returns the same for a seal that is not as it was written: who reads the holds then gets an error that says so. It
// moves seal to the last one that sets no hold.
func (db *database) checkNoHold(ctx context.Context, tx *sql.Tx, seal *int64) error {
	return db.readSealsIn(ctx, tx, *seal+1, func(s Seal) error {
		said, err := parseSeal(s.Text)
		if err != nil || said.hold != "" || !s.isSignedBy(db.ours.publicKeys()) {
			return errNewHold
		}
		*seal = s.N
		return nil
	})
}

// unlessHeld calls do in a transaction, and commits it if no legal hold was set behind a seal. No other process can set
// one between the two. Else it returns errNewHold. Its last statement has to see a hold that was set meanwhile.
func (db *database) unlessHeld(ctx context.Context, seal int64, do func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback() // nothing after a commit
	if err := do(tx); err != nil {
		return err
	}
	seals, of := db, tx
	if db.sealsPart != nil {
		if seals, err = db.sealsPart(ctx, true); err != nil {
			return err
		}
		if of, err = seals.BeginTx(ctx, nil); err != nil {
			return err
		}
		defer of.Rollback() // The transaction only reads.
	}
	if err := seals.lockSeals(ctx, of); err != nil {
		return err
	}
	if err := seals.checkNoHold(ctx, of, &seal); err != nil {
		return err
	}
	return tx.Commit()
}

// sealErasure makes the tombstones of entries that are about to lose their content, in the transaction that erases them
// where seals are in the same database. Each names the keys that go with its entries, by id in spent. It makes none,
// and returns errNewHold, if a legal hold was set behind a seal, which it moves as checkNoHold does.
func (db *database) sealErasure(ctx context.Context, tx *sql.Tx, s statement, all []chainPlace,
	spent map[string]spentLeaf, seal *int64) error {
	check := func(to *database, tx *sql.Tx) error { return to.checkNoHold(ctx, tx, seal) }
	slices.SortFunc(all, func(a, b chainPlace) int {
		return cmp.Or(strings.Compare(a.chain, b.chain), cmp.Compare(a.seq, b.seq))
	})
	for len(all) > 0 {
		s.erased, s.count, s.spent = map[string][]erasedSpan{}, 0, nil
		spans, named := 0, map[string]bool{}
		for len(all) > 0 {
			r, of := all[0], s.erased[all[0].chain]
			if n := len(of); n > 0 && of[n-1].last+1 == r.seq {
				of[n-1].last++
			} else if spans == sealLen {
				break
			} else {
				s.erased[r.chain] = append(of, erasedSpan{r.seq, r.seq})
				spans++
			}
			if leaf, ok := spent[r.id]; ok && !named[r.id] {
				s.spent, named[r.id] = append(s.spent, leaf), true
			}
			s.count++
			all = all[1:]
		}
		if err := db.appendIf(ctx, tx, s, check); err != nil {
			return err
		}
		check = func(*database, *sql.Tx) error { return nil } // the erasure has begun
	}
	return nil
}

// nextSeal returns what makes the seal of a statement behind the newest one.
func (db *database) nextSeal(s statement) func(newest *Seal) (Seal, error) {
	return func(newest *Seal) (Seal, error) {
		if newest.N > 0 {
			if !newest.isSignedBy(db.ours.publicKeys()) {
				return Seal{}, fmt.Errorf("journal: nothing was changed: seal %d is not signed by a key of this journal", newest.N)
			}
			s.before = newest.Hash()
		}
		s.n = newest.N + 1
		if err := db.ours.sealWords(&s); err != nil {
			return Seal{}, err
		}
		return db.ours.seal(&s), nil
	}
}

// appendStatement makes the seal of a statement, in a transaction where seals are in the same database.
func (db *database) appendStatement(ctx context.Context, tx *sql.Tx, s statement) error {
	return db.appendIf(ctx, tx, s, func(*database, *sql.Tx) error { return nil })
}

// appendIf is appendStatement if check returns no error. It is called with the database that has the seals, and no
// other process makes a seal between.
func (db *database) appendIf(ctx context.Context, tx *sql.Tx, s statement,
	check func(to *database, tx *sql.Tx) error) error {
	do := func(to *database, tx *sql.Tx) error {
		if err := to.lockSeals(ctx, tx); err != nil {
			return err
		}
		if err := check(to, tx); err != nil {
			return err
		}
		return to.appendSealIn(ctx, tx, to.nextSeal(s))
	}
	if db.sealsPart == nil {
		return do(db, tx)
	}
	to, err := db.sealsPart(ctx, true)
	if err != nil {
		return err
	}
	return to.inTx(ctx, func(tx *sql.Tx) error { return do(to, tx) })
}

// sealsFile stands for the month in the name of the file that has the seals.
const sealsFile = "seals"

func (s *fileStore) sealsPart(ctx context.Context, create bool) (*database, error) {
	if !create && s.isGone(sealsFile) {
		return nil, nil
	}
	return s.month(ctx, sealsFile, true)
}

func (s *fileStore) eachPart(ctx context.Context, do func(name string, db *database) error) error {
	months, err := s.present()
	if err != nil {
		return err
	}
	slices.Reverse(months)
	for _, month := range months {
		db, err := s.month(ctx, month, false)
		if err == nil && db != nil {
			err = do("month-"+month, db)
		}
		if err != nil && !s.isGone(month) {
			return err
		}
	}
	if s.isGone(billingFile) {
		return nil
	}
	db, err := s.month(ctx, billingFile, true)
	if err != nil {
		return err
	}
	return do(billingFile, db)
}

func (s *fileStore) partOf(ctx context.Context, day string) (*database, error) {
	return s.month(ctx, day[:len(monthForm)], false)
}

func (s *tableStore) sealsPart(context.Context, bool) (*database, error) { return s.database, nil }

func (s *tableStore) eachPart(_ context.Context, do func(name string, db *database) error) error {
	return do(billingFile, s.database)
}

func (s *tableStore) partOf(context.Context, string) (*database, error) { return s.database, nil }

// Sign implements [Store].
func (s *fileStore) Sign(ctx context.Context, now time.Time) error {
	return s.evidence.signDays(ctx, now)
}

// Sign implements [Store].
func (s *tableStore) Sign(ctx context.Context, now time.Time) error {
	return s.evidence.signDays(ctx, now)
}

// Head implements [Store].
func (s *fileStore) Head(ctx context.Context, now time.Time, trail *ChainEnd) (Head, error) {
	return s.evidence.head(ctx, now, trail)
}

// Head implements [Store].
func (s *tableStore) Head(ctx context.Context, now time.Time, trail *ChainEnd) (Head, error) {
	return s.evidence.head(ctx, now, trail)
}

// Faults implements [Store].
func (s *fileStore) Faults() []string { return s.evidence.list() }

// Faults implements [Store].
func (s *tableStore) Faults() []string { return s.evidence.list() }

// ReadSeals implements [Store].
func (s *fileStore) ReadSeals(ctx context.Context, from int64, do func(Seal) error) error {
	db, err := s.sealsPart(ctx, false)
	if err != nil {
		return err
	}
	return readSealsOf(ctx, db, from, do)
}

// ReadSeals implements [Store].
func (s *tableStore) ReadSeals(ctx context.Context, from int64, do func(Seal) error) error {
	return s.readSeals(ctx, from, do)
}

// Sign implements [Store].
func (l *lazyStore) Sign(ctx context.Context, now time.Time) error {
	return l.do(ctx, func(st Store) error { return st.Sign(ctx, now) })
}

// Head implements [Store].
func (l *lazyStore) Head(ctx context.Context, now time.Time, trail *ChainEnd) (Head, error) {
	return askLazily(ctx, l, func(st Store) (Head, error) { return st.Head(ctx, now, trail) })
}

// Faults implements [Store]. A store that was not opened yet, or is being opened, has none.
func (l *lazyStore) Faults() []string {
	if !l.mu.TryLock() {
		return nil
	}
	defer l.mu.Unlock()
	if l.st == nil {
		return nil
	}
	return l.st.Faults()
}

// ReadSeals implements [Store].
func (l *lazyStore) ReadSeals(ctx context.Context, from int64, do func(Seal) error) error {
	return l.do(ctx, func(st Store) error { return st.ReadSeals(ctx, from, do) })
}
