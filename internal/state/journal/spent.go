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
	holds, _, err := e.readHolds(ctx)
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

// spentKeys are keys that a tombstone names, and the entries that it is about.
type spentKeys struct {
	leaves []spentLeaf
	erased map[string][]erasedSpan // by chain
}

// finishedErasures divides keys that tombstones name into those that may be forgotten, and the rest, whose entries are
// there. In SQLite a tombstone stands in another file than what it is about, and stays when the transaction of that
// fails: the entries are there, with what is billed of them, until the erasure is finished. In PostgreSQL somebody may
// have put the seals of a copy into the place of those of the journal. Entries that cannot be read keep nobody from
// reading seals: other duties say what is wrong with them.
func (e *evidence) finishedErasures(ctx context.Context, spent []spentKeys) (finished []spentLeaf, rest []spentKeys) {
	for _, s := range spent {
		leaves := slices.DeleteFunc(slices.Clone(s.leaves), func(l spentLeaf) bool {
			return l.tree != e.keys.tree.name || !e.keys.tree.has(l.leaf)
		})
		if len(leaves) == 0 {
			continue
		}
		live, err := e.liveLeaves(ctx, s.erased)
		if err != nil { // what the entries are nobody knows, so the keys stay until the next look
			rest = append(rest, spentKeys{leaves, s.erased})
			continue
		}
		var left []spentLeaf
		for _, l := range leaves {
			if live[l.leaf] {
				left = append(left, l)
			} else {
				finished = append(finished, l)
			}
		}
		if len(left) > 0 {
			rest = append(rest, spentKeys{left, s.erased})
		}
	}
	return finished, rest
}

// liveLeaves returns the keys of the authentications whose entries are in the frames that a tombstone is about, and
// have their text. It returns errSealed if one of the frames does not open.
func (e *evidence) liveLeaves(ctx context.Context, erased map[string][]erasedSpan) (map[uint64]bool, error) {
	live := map[uint64]bool{}
	for _, chain := range sortedKeys(erased) {
		day := dayOfChain(chain)
		if _, err := time.Parse(time.DateOnly, day); err != nil {
			continue // no server writes such a chain
		}
		db, err := e.parts.partOf(ctx, day)
		if err != nil {
			return nil, err
		}
		if db == nil {
			continue
		}
		if err := db.eachLive(ctx, db, chain, erased[chain], func(f *frame, _ int, item *frameItem) {
			live[e.keys.tree.leafOf(dayNumber(f.made), item.id)] = true
		}); err != nil {
			return nil, err
		}
	}
	return live, nil
}

// eachLive calls do with the entries that have their text, and where they are, of the frames that spans of a chain are
// about. It returns errSealed if one of the frames does not open.
func (db *database) eachLive(ctx context.Context, from querier, chain string, spans []erasedSpan,
	do func(f *frame, at int, item *frameItem)) error {
	day, err := time.Parse(time.DateOnly, dayOfChain(chain))
	if err != nil {
		return err
	}
	read := int64(0) // the last entry of the last frame that was read
	for _, s := range spans {
		if s.last <= read {
			continue
		}
		if err := db.eachFrame(ctx, from, frameEntries, func(f *frame) error {
			read = f.last
			items, err := db.openItems(ctx, f, func(int, *frameItem) bool { return false })
			for i := range items {
				if items[i].hasText() {
					do(f, i, &items[i])
				}
			}
			return err
		}, `chain = ? AND made = ? AND first <= ? AND last >= ?`, chain, day.UnixMilli(), s.last,
			max(s.first, read+1)); err != nil {
			return err
		}
	}
	return nil
}

// idsOfRecords reads the ids of the records of a day by an index, and idsOfPlaces those of its places, for which all
// places of a partition, or of the file of a month, are read.
const (
	idsOfRecords = `SELECT id FROM journal_records WHERE made >= ? AND made < ? AND -made <= ? AND -made > ?`
	idsOfPlaces  = `SELECT DISTINCT id FROM journal_places WHERE made >= ? AND made < ? AND gone = 0`
)

// dropForgotten deletes the rows for searches of authentications of a day whose keys were forgotten. A database that
// was restored from before an erasure has such rows. It looks at the ids that a statement reads.
func (db *database) dropForgotten(ctx context.Context, begin int64, text string, args ...any) error {
	day, err := db.dayKey(ctx, dayOf(time.UnixMilli(begin)), false)
	if errors.Is(err, errSealed) || err == nil && day.isWhole() {
		return nil // the check of the chain says what does not open
	}
	if err != nil {
		return err
	}
	ids, err := db.forgottenIDs(ctx, day, text, args...)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(ids, 500) {
		if err := db.dropRecords(ctx, begin, some); err != nil {
			return err
		}
	}
	return nil
}

// forgottenIDs returns the ids that a statement reads whose keys were forgotten, of which there are few.
func (db *database) forgottenIDs(ctx context.Context, day *dayKey, text string, args ...any) (ids []string, err error) {
	rows, err := db.QueryContext(ctx, db.query(text), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		if day.isForgotten(id) {
			ids = append(ids, id)
		}
	}
	return ids, rows.Err()
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
