package journal

import (
	"context"
	"database/sql"
	"testing"
	"time"
)

// Databases returns the databases of a store.
func Databases(t *testing.T, st Store) (all []*sql.DB) {
	t.Helper()
	if st, ok := st.(*tableStore); ok {
		return []*sql.DB{st.DB}
	}
	if err := st.(*fileStore).each(t.Context(), func(db *database) (bool, error) {
		all = append(all, db.DB)
		return false, nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// RollBlock makes the rollups of the block of days that a time is in, in all databases of a store.
func RollBlock(t *testing.T, st Store, at time.Time) {
	t.Helper()
	for _, pool := range Databases(t, st) {
		db := newDatabase(pool, nil)
		db.putRows = putRows
		if _, db.numbered = st.(*tableStore); db.numbered {
			db.putRows = unnestRows
		}
		if err := db.inTx(t.Context(), func(tx *sql.Tx) error { return db.rollBlock(t.Context(), tx, at.UnixMilli()/blockLen) }); err != nil {
			t.Fatal(err)
		}
	}
}

// MakeEarlier takes out of all rollups what releases before the report of mandates did not count.
func MakeEarlier(t *testing.T, st Store) {
	t.Helper()
	for _, pool := range Databases(t, st) {
		db := newDatabase(pool, nil)
		_, db.numbered = st.(*tableStore)
		if err := db.inTx(t.Context(), func(tx *sql.Tx) error { return db.makeEarlier(t.Context(), tx) }); err != nil {
			t.Fatal(err)
		}
	}
}

func (db *database) makeEarlier(ctx context.Context, tx *sql.Tx) error {
	type row struct {
		start, hours int64
		merchant     string
		counts       []byte
	}
	var all []row
	rows, err := tx.QueryContext(ctx, `SELECT start, hours, merchant, counts FROM journal_rollups`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.start, &r.hours, &r.merchant, &r.counts); err != nil {
			return err
		}
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, r := range all {
		t := tallies{}
		if err := decodeTallies(r.counts, func(by string) bool { return by != byUnkept }, t.of); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, db.query(`UPDATE journal_rollups SET counts = ? WHERE start = ? AND hours = ? AND merchant = ?`),
			t.encode(), r.start, r.hours, r.merchant); err != nil {
			return err
		}
	}
	_, err = tx.ExecContext(ctx, db.query(`DELETE FROM journal_days WHERE part = ?`), byUnkept)
	return err
}
