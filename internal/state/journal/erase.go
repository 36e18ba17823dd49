package journal

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// Those who write entries of a journal share a lock in PostgreSQL, and who erases has it alone. Else an entry that is
// being written would come in behind the erasure, which does not see it.
const (
	lockForWrite = `SELECT pg_advisory_xact_lock_shared(77333, hashtext(current_schema()))`
	lockForErase = `SELECT pg_advisory_xact_lock(77333, hashtext(current_schema()))`
)

// erase removes what belongs to a card or a merchant, behind a signed tombstone that names each entry.
func (db *database) erase(ctx context.Context, q Query) (authentications, records int, err error) {
	condition, args := db.where(Query{Card: q.Card, Merchant: q.Merchant})
	twice := slices.Concat(args, args)
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, 0, err
	}
	defer tx.Rollback() // nothing after a commit
	if db.numbered {    // what is being written now must not come in behind
		if _, err := tx.ExecContext(ctx, lockForErase); err != nil {
			return 0, 0, err
		}
	}
	changed := func(statement string, args []any) (int, error) {
		result, err := tx.ExecContext(ctx, db.query(statement), args...)
		if err != nil {
			return 0, err
		}
		n, err := result.RowsAffected()
		return int(n), err
	}
	// The counters come first, for they are made of the content that goes.
	if err := db.bookErased(ctx, tx, condition, args); err != nil {
		return 0, 0, err
	}
	for _, table := range besideTables {
		if _, err := changed(`DELETE FROM `+table+` WHERE id IN (SELECT id FROM journal_entries WHERE `+condition+`)
			OR id IN (SELECT id FROM journal_records WHERE `+condition+`)`, twice); err != nil {
			return 0, 0, err
		}
	}
	whole := ` WHERE body IS NOT NULL AND ` + ofEntries(condition)
	tombstone := statement{kind: ErasureSeal, at: time.Now(), by: cmp.Or(q.By, nodeName())}
	if err := db.sealErasure(ctx, tx, tombstone, `SELECT chain, seq FROM journal_entries`+whole+` ORDER BY chain, seq`,
		twice); err != nil {
		return 0, 0, err
	}
	if records, err = changed(`UPDATE journal_entries SET body = NULL, salt = NULL, card = NULL, merchant = ''`+whole,
		twice); err != nil {
		return 0, 0, err
	}
	if err := db.forgetRollups(ctx, tx, condition, args); err != nil {
		return 0, 0, err
	}
	if authentications, err = changed(`DELETE FROM journal_records WHERE `+condition, args); err != nil {
		return 0, 0, err
	}
	return authentications, records, tx.Commit()
}

// ofEntries returns the condition of the entries of records that fit a condition, whose arguments it takes twice.
// Moments are found by the id of their record, for they need not have the card.
func ofEntries(condition string) string {
	return `(` + condition + ` OR id IN (SELECT id FROM journal_records WHERE ` + condition + `))`
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
