package journal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Those who write entries of a journal share a lock in PostgreSQL, and who erases has it alone. Else an entry that is
// being written would come in behind the erasure, which does not see it.
const (
	lockForWrite = `SELECT pg_advisory_xact_lock_shared(77333, hashtext(current_schema()))`
	lockForErase = `SELECT pg_advisory_xact_lock(77333, hashtext(current_schema()))`
)

// erase removes what belongs to a card or a merchant, and no hold holds, behind signed tombstones that name each entry.
// Each day has a transaction of its own, so that others write between them. A day with an entry that does not open
// stays as it is, and the error says so; all other days are erased.
func (db *database) erase(ctx context.Context, q Query, holds []Hold) (authentications, records int, err error) {
	condition, args := db.where(q.ofErasure())
	free, of := unheld(holds)
	condition, args = condition+" AND "+free, slices.Concat(args, of)
	var days []int64
	if err := db.inTx(ctx, func(tx *sql.Tx) (err error) {
		if err := db.keepWritersOut(ctx, tx); err != nil {
			return err
		}
		days, err = readNumbers(ctx, tx,
			db.query(fmt.Sprintf(`SELECT DISTINCT made / %d FROM journal_records WHERE %s ORDER BY 1`, dayLen, condition)),
			args...)
		return err
	}); err != nil {
		return 0, 0, err
	}
	var damaged []error
	for _, day := range days {
		begin := day * dayLen
		of := slices.Concat([]any{begin, begin + dayLen, -begin, -(begin + dayLen)}, args)
		var a, r int
		if err := db.inTx(ctx, func(tx *sql.Tx) (err error) {
			a, r, err = db.eraseDay(ctx, tx, begin, recordsOfTime+condition, of, holds, cmp.Or(q.By, nodeName()))
			return err
		}); errors.Is(err, errSealed) {
			damaged = append(damaged, fmt.Errorf("nothing of the day %s was erased: %w", dayOf(time.UnixMilli(begin)), err))
			continue
		} else if err != nil {
			return authentications, records, err
		}
		authentications, records = authentications+a, records+r
	}
	return authentications, records, errors.Join(damaged...)
}

// keepWritersOut waits for those who write now, and has others wait until a transaction ends: what is being written
// must not come in behind an erasure. In SQLite one writes at a time.
func (db *database) keepWritersOut(ctx context.Context, tx *sql.Tx) error {
	if !db.numbered {
		return nil
	}
	_, err := tx.ExecContext(ctx, lockForErase)
	return err
}

// eraseDay removes the records of a day that fit a condition.
func (db *database) eraseDay(ctx context.Context, tx *sql.Tx, begin int64, condition string, args []any,
	holds []Hold, by string) (authentications, records int, err error) {
	if err := db.keepWritersOut(ctx, tx); err != nil {
		return 0, 0, err
	}
	until, err := db.billedUntil(ctx, tx)
	if err != nil {
		return 0, 0, err
	}
	newest, erased, err := db.blankEntries(ctx, tx, begin, condition, args, holds)
	if err != nil {
		return 0, 0, err
	}
	archived, err := db.archivedDays(ctx, tx)
	if err != nil {
		return 0, 0, err
	}
	counts := billing{}
	if begin >= until && !archived[dayOf(time.UnixMilli(begin))] {
		counts.addNewest(newest)
	}
	if err := db.book(ctx, tx, counts, 0); err != nil {
		return 0, 0, err
	}
	if err := db.forgetRollups(ctx, tx, condition, args); err != nil {
		return 0, 0, err
	}
	if err := db.forgetKeys(ctx, tx, condition, args); err != nil {
		return 0, 0, err
	}
	result, err := tx.ExecContext(ctx, db.query(`DELETE FROM journal_records WHERE `+condition), args...)
	if err != nil {
		return 0, 0, err
	}
	n, err := result.RowsAffected()
	if err != nil {
		return 0, 0, err
	}
	// Tombstones come last: in SQLite they are in another file, and stay there when this transaction fails.
	tombstone := statement{kind: ErasureSeal, at: time.Now(), by: by}
	return int(n), len(erased), db.sealErasure(ctx, tx, tombstone, erased)
}

// recordsOfTime begins a condition of the records of a time, which it has twice: of each index only one is of use.
const recordsOfTime = `made >= ? AND made < ? AND -made <= ? AND -made > ? AND `

// blankEntries blanks the entries of the records of a day that fit a condition, and what stands beside them. It returns
// the newest entry of each record as it was, and where the entries are. No hold may hold such an entry: then its record
// was changed in the store.
func (db *database) blankEntries(ctx context.Context, tx *sql.Tx, begin int64, condition string, args []any,
	holds []Hold) (newest map[string]newestEntry, erased []chainPlace, err error) {
	ofRecords := `made >= ? AND made < ? AND id IN (SELECT id FROM journal_records WHERE ` + condition + `)`
	all := slices.Concat([]any{begin, begin + dayLen}, args)
	// What a place says of an earlier erasure is not asked: the entry itself does.
	places, err := db.readAllPlaces(ctx, tx, ofRecords, all...)
	if err != nil {
		return nil, nil, err
	}
	newest = map[string]newestEntry{}
	held := map[string]bool{}
	n := newestEntries{ranks: map[string]int{}, do: func(item *frameItem, e newestEntry) {
		newest[item.id], held[item.id] = e, holdOf(holds, &e.Record, item.card) >= 0
	}}
	found := 0
	if err := db.eachFrameOf(ctx, tx, wholeFrames, places, func(f *frame, places []place) error {
		some, err := db.blank(ctx, tx, f, places, &n)
		erased, found = append(erased, some...), found+len(places)
		return err
	}); err != nil {
		return nil, nil, err
	}
	if n := len(places) - found; n > 0 {
		return nil, nil, fmt.Errorf("the places of %d entries lead to no frame: %w", n, errSealed)
	}
	for _, id := range sortedKeys(held) {
		if held[id] {
			return nil, nil, fmt.Errorf("a legal hold holds %s, and its row for searches was changed: %w", id, errSealed)
		}
	}
	_, err = tx.ExecContext(ctx, db.query(`UPDATE journal_places SET gone = 1 WHERE `+ofRecords), all...)
	return newest, erased, err
}

// blank removes the content of entries of a frame, and what stands beside them. Their ids and kinds stay. It returns
// where those are that had content.
func (db *database) blank(ctx context.Context, tx *sql.Tx, f *frame, places []place,
	newest *newestEntries) (erased []chainPlace, err error) {
	items, err := db.eachItem(ctx, f, places, func(item *frameItem, p place) error {
		err := newest.add(item)
		*item = frameItem{id: item.id, kind: item.kind}
		erased = append(erased, chainPlace{f.chain, f.first + p.at})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("entries from %d on of the chain %s: %w", f.first, f.chain, err)
	}
	var text []byte
	for i := range items {
		text = items[i].append(text)
	}
	if err := db.replaceSealed(ctx, tx, f, "", text); err != nil {
		return nil, err
	}
	for table, body := range map[string][]byte{"journal_messages": f.messages, "journal_personal": f.personal} {
		if body == nil {
			continue
		}
		texts, err := db.openTexts(ctx, f, table, body)
		if err != nil {
			return nil, fmt.Errorf("what stands beside entries from %d on of the chain %s: %w", f.first, f.chain, err)
		}
		for _, p := range places {
			texts[p.at] = nil
		}
		var text []byte
		isAny := false
		for _, t := range texts {
			text, isAny = appendText(text, t), isAny || t != nil
		}
		if !isAny {
			text = nil
		}
		if err := db.replaceSealed(ctx, tx, f, table, text); err != nil {
			return nil, err
		}
	}
	return erased, nil
}

// replaceSealed replaces a frame, or what a table has beside it, which goes without a text.
func (db *database) replaceSealed(ctx context.Context, tx *sql.Tx, f *frame, table string, text []byte) error {
	if text == nil {
		_, err := tx.ExecContext(ctx, db.query(`DELETE FROM `+table+` WHERE frame = ? AND made = ?`), f.n, f.made)
		return err
	}
	body, err := db.sealPacked(f, table, text, new([]byte))
	if err == nil {
		_, err = tx.ExecContext(ctx,
			db.query(`UPDATE `+cmp.Or(table, "journal_frames")+` SET body = ? WHERE frame = ? AND made = ?`),
			body, f.n, f.made)
	}
	return err
}

// errLogInUse says that the log of a file of SQLite still has what was erased.
var errLogInUse = errors.New(
	"journal: erased, but another process reads the file, so that its log still has the bytes: run the command again")

// truncateLog empties the log of a file of SQLite: what was overwritten must not stay in it.
func (db *database) truncateLog(ctx context.Context) error {
	var isBusy, frames, done int
	if err := db.QueryRowContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&isBusy, &frames, &done); err != nil {
		return err
	}
	if isBusy != 0 {
		return errLogInUse
	}
	return nil
}
