package journal

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"
)

// countUnforgotten implements CountUnforgotten of a [Store].
func countUnforgotten(ctx context.Context, st heldParts, q Query) (n int, err error) {
	e := st.evidenceOf()
	holds, err := e.readHolds(ctx)
	if err != nil {
		return 0, asUnknown(err)
	}
	free, of := unheld(holds)
	err = st.eachPart(ctx, func(_ string, db *database) error {
		condition, args := db.where(q.ofErasure())
		some := 0
		err := db.QueryRowContext(ctx, db.query(`SELECT count(*) FROM journal_records WHERE `+condition+` AND `+free),
			slices.Concat(args, of)...).Scan(&some)
		n += some
		return err
	})
	if e.keys.mayForget(n) {
		n = 0
	}
	return n, err
}

// mayForgetAll reports whether an erasure forgets the keys of all that it removes.
func mayForgetAll(ctx context.Context, st heldParts, q Query) (bool, error) {
	n, err := countUnforgotten(ctx, st, q)
	return n == 0, err
}

// CountUnforgotten implements [Store].
func (s *fileStore) CountUnforgotten(ctx context.Context, q Query) (int, error) {
	return countUnforgotten(ctx, s, q)
}

// CountUnforgotten implements [Store].
func (s *tableStore) CountUnforgotten(ctx context.Context, q Query) (int, error) {
	return countUnforgotten(ctx, s, q)
}

// CountUnforgotten implements [Store].
func (l *lazyStore) CountUnforgotten(ctx context.Context, q Query) (int, error) {
	return askLazily(ctx, l, func(st Store) (int, error) { return st.CountUnforgotten(ctx, q) })
}

// finishedErasures divides keys that tombstones name into those that may be forgotten, and the rest. In SQLite a
// tombstone stands in another file than what it is about, and stays when the transaction of that fails. Then the
// entries are there, with what is billed of them, until the same erasure is done once more.
func (e *evidence) finishedErasures(ctx context.Context, spent []spentLeaf) (finished, rest []spentLeaf, err error) {
	byDay := map[uint64][]spentLeaf{}
	for _, s := range spent {
		if s.tree == e.keys.tree.name && e.keys.tree.has(s.leaf) {
			byDay[s.leaf>>leafBits] = append(byDay[s.leaf>>leafBits], s)
		}
	}
	for day, all := range byDay {
		live, err := e.liveLeaves(ctx, day)
		if err != nil {
			return nil, spent, err
		}
		for _, s := range all {
			if live[s.leaf] {
				rest = append(rest, s)
			} else {
				finished = append(finished, s)
			}
		}
	}
	return finished, rest, nil
}

// liveLeaves returns the keys of the authentications of a day in a file of SQLite that have entries which were not
// erased. In PostgreSQL a tombstone and what it is about are one transaction.
func (e *evidence) liveLeaves(ctx context.Context, day uint64) (map[uint64]bool, error) {
	begin := int64(day) * dayLen
	db, err := e.parts.partOf(ctx, dayOf(time.UnixMilli(begin)))
	if err != nil || db == nil || db.numbered {
		return nil, err
	}
	ids, err := readRows(ctx, db, func(id *string) []any { return []any{id} },
		`SELECT DISTINCT id FROM journal_places WHERE made >= ? AND made < ? AND gone = 0`, begin, begin+dayLen)
	all := map[uint64]bool{}
	for _, id := range ids {
		all[e.keys.tree.leafOf(day, id)] = true
	}
	return all, err
}

// dropForgotten deletes the rows for searches of authentications of a day whose keys were forgotten. A database that
// was restored from before an erasure has such rows.
func (db *database) dropForgotten(ctx context.Context, begin int64) error {
	day, err := db.dayKey(ctx, dayOf(time.UnixMilli(begin)), false)
	if errors.Is(err, errSealed) || err == nil && day.isWhole() {
		return nil // the check of the chain says what does not open
	}
	if err != nil {
		return err
	}
	ids, err := readRows(ctx, db, func(id *string) []any { return []any{id} },
		db.query(`SELECT id FROM journal_records WHERE made >= ? AND made < ? UNION
			SELECT id FROM journal_places WHERE made >= ? AND made < ? AND gone = 0`), begin, begin+dayLen, begin, begin+dayLen)
	if err != nil {
		return err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return !day.isForgotten(id) })
	for some := range slices.Chunk(ids, 500) {
		if err := db.dropRecords(ctx, begin, some); err != nil {
			return err
		}
	}
	return nil
}

// dropRecords deletes rows for searches of a day by the ids of their records, and marks the places of these as erased.
func (db *database) dropRecords(ctx context.Context, begin int64, ids []string) error {
	condition, args := `made >= ? AND made < ? AND id IN (`+marks(len(ids))+`)`, []any{begin, begin + dayLen}
	for _, id := range ids {
		args = append(args, id)
	}
	return db.inTx(ctx, func(tx *sql.Tx) error {
		if err := db.keepWritersOut(ctx, tx); err != nil {
			return err
		}
		if _, err := db.deleteRecords(ctx, tx, condition, args); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, db.query(`UPDATE journal_places SET gone = 1 WHERE `+condition), args...)
		return err
	})
}

// ErasedInStore is the status of a record that was erased, in a store that was restored from before that.
const ErasedInStore = "erased"
