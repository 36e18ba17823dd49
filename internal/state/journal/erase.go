package journal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Those who write entries of a journal, or count its records, share a lock in PostgreSQL, and who erases has it alone.
// Else an entry that is being written would come in behind the erasure, which does not see it.
const (
	lockForWrite = `SELECT pg_advisory_xact_lock_shared(77333, hashtext(current_schema()))`
	lockForErase = `SELECT pg_advisory_xact_lock(77333, hashtext(current_schema()))`
)

// errNothingToErase says that a query names nothing.
var errNothingToErase = errors.New("journal: name a card or a merchant to erase")

// erase removes what belongs to a card or a merchant, and no hold holds, behind signed tombstones that name each
// entry. Each day has a transaction of its own, so that others write between them. A day with an entry that does not
// open stays as it is, and the error says so; all other days are erased. It returns the keys that are to be forgotten:
// those of days that are committed, also beside an error. errNewHold ends it.
func (db *database) erase(ctx context.Context, plan erasurePlan) (authentications, records int, spent []spentLeaf,
	err error) {
	condition, args := db.where(plan.query.ofErasure())
	free, of := unheld(plan.holds)
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
		return 0, 0, nil, err
	}
	var damaged []error
	for _, day := range days {
		begin := day * dayLen
		of := slices.Concat([]any{begin, begin + dayLen, -begin, -(begin + dayLen)}, args)
		var a, r int
		var leaves []spentLeaf
		if err := db.inErasure(ctx, dayOf(time.UnixMilli(begin)), plan.seal, func(tx *sql.Tx, mark string) (err error) {
			erasure := dayErasure{
				erasurePlan: plan, db: db, begin: begin, condition: recordsOfTime + condition, args: of,
				by: cmp.Or(plan.query.By, nodeName()), mark: mark,
			}
			a, r, err = erasure.do(ctx, tx)
			leaves, plan.seal = slices.Collect(maps.Values(erasure.spent)), erasure.seal
			return err
		}); errors.Is(err, errSealed) {
			damaged = append(damaged, fmt.Errorf("nothing of the day %s was erased: %w", dayOf(time.UnixMilli(begin)), err))
			continue
		} else if err != nil {
			return authentications, records, spent, err
		}
		authentications, records, spent = authentications+a, records+r, append(spent, leaves...)
	}
	return authentications, records, spent, errors.Join(damaged...)
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

// keepErasuresOut waits for an erasure, and for others that keep writers out, and has them wait until a transaction
// ends.
func (db *database) keepErasuresOut(ctx context.Context, tx *sql.Tx) error {
	if !db.numbered { // in SQLite one writes at a time
		return nil
	}
	_, err := tx.ExecContext(ctx, lockForWrite)
	return err
}

// A dayErasure removes the records of a day that fit a condition.
type dayErasure struct {
	erasurePlan
	db        *database
	begin     int64 // begin is when the day begins.
	condition string
	args      []any
	by        string
	mark      string // mark is the name of the mark that the erasure has left; "" for none.

	spent map[string]spentLeaf // the keys to be forgotten when the transaction is committed, by id
}

// do removes the records, in a transaction.
func (e *dayErasure) do(ctx context.Context, tx *sql.Tx) (authentications, records int, err error) {
	authentications, erased, err := e.remove(ctx, tx)
	if err != nil {
		return 0, 0, err
	}
	// Tombstones come last: in SQLite they are in another file, and stay there when this transaction fails.
	tombstone := statement{kind: ErasureSeal, at: time.Now(), by: e.by, mark: e.mark}
	return authentications, len(erased), e.db.sealErasure(ctx, tx, tombstone, erased, e.spent, &e.seal)
}

// remove removes the records without making tombstones. It returns which entries had content.
func (e *dayErasure) remove(ctx context.Context, tx *sql.Tx) (authentications int, erased []chainPlace, err error) {
	db := e.db
	if err := db.keepWritersOut(ctx, tx); err != nil {
		return 0, nil, err
	}
	until, err := db.billedUntil(ctx, tx)
	if err != nil {
		return 0, nil, err
	}
	counts := billing{}
	if erased, err = e.blankEntries(ctx, tx, newBilledRecords(counts)); err != nil {
		return 0, nil, err
	}
	archived, err := db.archivedDays(ctx, tx)
	if err != nil {
		return 0, nil, err
	}
	if e.begin < until || archived[dayOf(time.UnixMilli(e.begin))] {
		clear(counts) // they were booked before
	}
	if err := db.book(ctx, tx, counts, 0); err != nil {
		return 0, nil, err
	}
	authentications, err = db.deleteRecords(ctx, tx, e.condition, e.args)
	return authentications, erased, err
}

// deleteRecords deletes the records of a condition, and what was made of them. It returns how many there were.
func (db *database) deleteRecords(ctx context.Context, tx *sql.Tx, condition string, args []any) (int, error) {
	if err := db.forgetRollups(ctx, tx, condition, args); err != nil {
		return 0, err
	}
	if err := db.forgetKeys(ctx, tx, condition, args); err != nil {
		return 0, err
	}
	result, err := tx.ExecContext(ctx, db.query(`DELETE FROM journal_records WHERE `+condition), args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// recordsOfTime begins a condition of the records of a time, which it has twice: of each index only one is of use.
const recordsOfTime = `made >= ? AND made < ? AND -made <= ? AND -made > ? AND `

// blankEntries blanks the entries of the records, and what stands beside them. It counts what is billed of them, and
// returns where the entries are. No hold may hold such an entry, and none may be of another card or merchant: then its
// record was changed in the store.
func (e *dayErasure) blankEntries(ctx context.Context, tx *sql.Tx, billed *billedRecords) (erased []chainPlace,
	err error) {
	db := e.db
	ofRecords := `made >= ? AND made < ? AND id IN (SELECT id FROM journal_records WHERE ` + e.condition + `)`
	all := slices.Concat([]any{e.begin, e.begin + dayLen}, e.args)
	// What a place says of an earlier erasure is not asked: the entry itself does.
	places, err := db.readAllPlaces(ctx, tx, ofRecords, all...)
	if err != nil {
		return nil, err
	}
	isRecord := map[string]bool{}
	for _, p := range places {
		isRecord[p.id] = isRecord[p.id] || rankOf(Kind(p.kind)) >= 0
	}
	for _, id := range sortedKeys(isRecord) {
		if !isRecord[id] { // a delivery alone makes no row, and does not say whose it is
			return nil, fmt.Errorf("%s has no entry that makes a row for searches, and has one: %w", id, errSealed)
		}
	}
	held, others := map[string]bool{}, map[string]bool{}
	n := newestEntries{ranks: map[string]int{}, do: func(item *frameItem, entry newestEntry) {
		held[item.id] = holdOf(e.holds, &entry.Record, item.card) >= 0
		others[item.id] = !e.query.isErased(db.ours, &entry.Record, item.card)
	}}
	found := 0
	if err := db.eachFrameOf(ctx, tx, wholeFrames, places, func(f *frame, places []place) error {
		some, err := db.blank(ctx, tx, f, places, &n, billed)
		erased, found = append(erased, some...), found+len(places)
		return err
	}); err != nil {
		return nil, err
	}
	if n := len(places) - found; n > 0 {
		return nil, fmt.Errorf("the places of %d entries lead to no frame: %w", n, errSealed)
	}
	for _, id := range sortedKeys(held) {
		if held[id] {
			return nil, fmt.Errorf("a legal hold holds %s, and its row for searches was changed: %w", id, errSealed)
		}
	}
	for _, id := range sortedKeys(others) {
		if others[id] {
			return nil, fmt.Errorf("%s is of another card or merchant, and its row for searches was changed: %w", id, errSealed)
		}
	}
	if err := e.noteSpent(ctx, places); err != nil {
		return nil, err
	}
	_, err = tx.ExecContext(ctx, db.query(`UPDATE journal_places SET gone = 1 WHERE `+ofRecords), all...)
	return erased, err
}

// noteSpent notes the keys of the authentications at places, which are to be forgotten.
func (e *dayErasure) noteSpent(ctx context.Context, places []place) error {
	if !e.isForgetting || len(places) == 0 {
		return nil
	}
	day, err := e.db.dayKey(ctx, dayOf(time.UnixMilli(e.begin)), false)
	if err != nil {
		return err
	}
	e.spent = map[string]spentLeaf{}
	for _, p := range places {
		e.spent[p.id] = spentLeaf{day.tree.name, day.tree.leafOf(day.day, p.id)}
	}
	return nil
}

// blank removes the content of entries of a frame, and what stands beside them. Their ids and kinds stay. It returns
// where those are that had content, also under a key that was forgotten.
func (db *database) blank(ctx context.Context, tx *sql.Tx, f *frame, places []place,
	newest *newestEntries, billed *billedRecords) (erased []chainPlace, err error) {
	damaged := func(what string, err error) error {
		return fmt.Errorf("%s from %d on of the chain %s: %w", what, f.first, f.chain, err)
	}
	day, items, err := db.openFrame(ctx, f, isAtOneOf(places)) // once, for a writer may have keys of days read again
	if err != nil {
		return nil, damaged("entries", err)
	}
	for _, p := range places {
		if _, err := itemAt(items, p); err != nil {
			return nil, damaged("entries", err)
		}
		item := &items[p.at]
		if len(item.sealed) == 0 {
			continue
		}
		if err := newest.add(item); err != nil {
			return nil, damaged("entries", err)
		}
		billed.add(f, item)
		*item = frameItem{id: item.id, kind: item.kind}
		erased = append(erased, chainPlace{f.chain, f.first + p.at, p.id})
	}
	var text []byte
	for i := range items {
		text = items[i].append(text)
	}
	if err := db.replaceSealed(ctx, tx, f, day, "", text); err != nil {
		return nil, err
	}
	for table, body := range map[string][]byte{"journal_messages": f.messages, "journal_personal": f.personal} {
		if body == nil {
			continue
		}
		texts, err := day.sealedTexts(f, table, body)
		if err != nil {
			return nil, damaged("what stands beside entries", err)
		}
		for _, p := range places {
			texts[p.at] = nil
		}
		var text []byte
		isAny := false
		for _, t := range texts {
			text, isAny = appendText(text, t), isAny || len(t) > 0
		}
		if !isAny {
			text = nil
		}
		if err := db.replaceSealed(ctx, tx, f, day, table, text); err != nil {
			return nil, err
		}
	}
	return erased, nil
}

// replaceSealed replaces a frame, or what a table has beside it, which goes without a text.
func (db *database) replaceSealed(ctx context.Context, tx *sql.Tx, f *frame, day *dayKey, table string,
	text []byte) error {
	if text == nil {
		_, err := tx.ExecContext(ctx, db.query(`DELETE FROM `+table+` WHERE frame = ? AND made = ?`), f.n, f.made)
		return err
	}
	body, err := day.sealPacked(f, table, text, new([]byte))
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
