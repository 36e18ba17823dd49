package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// What is billed has to stay when records go. A counter is made of two parts: the records that are there, and the numbers
// in journal_billing. Whatever removes records adds what they count to journal_billing, in the same transaction. So a
// write of a record costs nothing. journal_billed has the time before which all records have been added: those that are
// there for a while, and those that come later, do not count again.

// billedKinds is the kind of [BillingCount] that a record is of, in SQL. POSITION stands for the function that finds a
// text. No text of a record looks like a member of its JSON, for quotation marks are escaped in it.
const billedKinds = `CASE WHEN kind = 'refused' OR kind = 'v1' AND status = 'refused' THEN '` + BilledRefused + `'
	WHEN kind = 'v1' AND POSITION(data, '"operation":"check"') > 0 THEN '` + BilledCheck + `'
	WHEN kind = 'v1' THEN '` + BilledEnrolled + `'
	WHEN challenged = 1 AND POSITION(data, '"decoupled":true') > 0 THEN '` + BilledDecoupled + `'
	WHEN challenged = 1 THEN '` + BilledChallenged + `'
	WHEN trans_status = '' THEN '` + BilledUnanswered + `'
	WHEN trans_status = 'A' THEN '` + BilledAttempted + `' ELSE '` + BilledFrictionless + `' END`

// billedCategories is the messageCategory of a record, two digits, in SQL.
const billedCategories = `CASE WHEN POSITION(data, '"messageCategory":"') > 0
	THEN substr(data, POSITION(data, '"messageCategory":"') + 19, 2) ELSE '' END`

// billing are counters without their Count, and how much each counts.
type billing map[BillingCount]int64

// add adds a counter with its Count.
func (b billing) add(c BillingCount) {
	n := c.Count
	c.Count = 0
	b[c] += n
}

// sorted returns counters in the order of their members.
func (b billing) sorted() []BillingCount {
	all := make([]BillingCount, 0, len(b))
	for c := range maps.Keys(b) {
		c.Count = b[c]
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b BillingCount) int { return slices.Compare(a.names(), b.names()) })
	return all
}

// names are what a counter is of.
func (c *BillingCount) names() []string {
	return []string{c.Month, c.Merchant, c.API, c.DeviceChannel, c.MessageCategory, c.Kind}
}

// addLive adds the records of a condition.
func (b billing) addLive(ctx context.Context, db *database, tx *sql.Tx, condition string, args ...any) error {
	position := "instr"
	if db.numbered {
		position = "strpos"
	}
	text := fmt.Sprintf(`SELECT made / %d, merchant, api, channel, %s, %s, count(*) FROM journal_records WHERE %s
		GROUP BY 1, 2, 3, 4, 5, 6`, dayLen, billedCategories, billedKinds, condition)
	type row struct {
		day int64
		BillingCount
	}
	rows, err := readRows(ctx, tx, func(r *row) []any {
		return []any{&r.day, &r.Merchant, &r.API, &r.DeviceChannel, &r.MessageCategory, &r.Kind, &r.Count}
	}, db.query(strings.ReplaceAll(text, "POSITION", position)), args...)
	for _, r := range rows {
		r.Month = time.UnixMilli(r.day * dayLen).UTC().Format(monthForm)
		b.add(r.BillingCount)
	}
	return err
}

// addBooked adds what journal_billing has of the months of a query.
func (b billing) addBooked(ctx context.Context, db *database, tx *sql.Tx, q BillingQuery) error {
	all, err := readRows(ctx, tx, func(c *BillingCount) []any {
		return []any{&c.Month, &c.Merchant, &c.API, &c.DeviceChannel, &c.MessageCategory, &c.Kind, &c.Count}
	}, db.query(`SELECT month, merchant, api, channel, category, kind, n FROM journal_billing
		WHERE month >= ? AND month < ? AND (merchant = ? OR ? = '')`),
		q.From.UTC().Format(monthForm), q.To.UTC().Format(monthForm), q.Merchant, q.Merchant)
	for _, c := range all {
		b.add(c)
	}
	return err
}

// book adds counters to journal_billing.
func (b billing) book(ctx context.Context, db *database, tx *sql.Tx) error {
	if len(b) == 0 {
		return nil
	}
	var rows [][]any
	for _, c := range b.sorted() {
		rows = append(rows, []any{c.Month, c.Merchant, c.API, c.DeviceChannel, c.MessageCategory, c.Kind, c.Count})
	}
	return db.putRows(ctx, tx, `INSERT INTO journal_billing (month, merchant, api, channel, category, kind, n) `, rows,
		` ON CONFLICT (month, merchant, api, channel, category, kind) DO UPDATE SET n = journal_billing.n + excluded.n`)
}

// billedUntil returns the time before which all records have been added to journal_billing; 0 if none have.
func (db *database) billedUntil(ctx context.Context, tx *sql.Tx) (until int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT coalesce(max(until), 0) FROM journal_billed`).Scan(&until)
	return until, err
}

// setBilledUntil notes that all records before a time have been added to journal_billing.
func (db *database) setBilledUntil(ctx context.Context, tx *sql.Tx, until int64) error {
	_, err := tx.ExecContext(ctx, db.query(`INSERT INTO journal_billed (one, until) VALUES (1, ?)
		ON CONFLICT (one) DO UPDATE SET until = excluded.until`), until)
	return err
}

// bookErased books the records of a condition, which are about to be erased.
func (db *database) bookErased(ctx context.Context, tx *sql.Tx, condition string, args []any) error {
	until, err := db.billedUntil(ctx, tx)
	if err != nil {
		return err
	}
	counts := billing{}
	if err := counts.addLive(ctx, db, tx, condition+` AND made >= ?`, append(slices.Clone(args), until)...); err != nil {
		return err
	}
	return counts.book(ctx, db, tx)
}

// bookedBilling returns what journal_billing has, and billedUntil, as of one moment.
func (db *database) bookedBilling(ctx context.Context) (billing, int64, error) {
	all := BillingQuery{To: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
	return db.readBilling(ctx, all, func(*sql.Tx, int64, billing) error { return nil })
}

// billing returns the counters of a query that the database has, and billedUntil, as of one moment.
func (db *database) billing(ctx context.Context, q BillingQuery) (billing, int64, error) {
	return db.readBilling(ctx, q, func(tx *sql.Tx, until int64, counts billing) error {
		condition, args := `made >= ? AND made < ?`, []any{max(until, q.From.UnixMilli()), q.To.UnixMilli()}
		if q.Merchant != "" {
			condition, args = condition+` AND merchant = ?`, append(args, q.Merchant)
		}
		return counts.addLive(ctx, db, tx, condition, args...)
	})
}

// readBilling returns what journal_billing has of a query and what addRecords adds, and billedUntil, as of one moment.
func (db *database) readBilling(
	ctx context.Context, q BillingQuery, addRecords func(tx *sql.Tx, until int64, counts billing) error,
) (billing, int64, error) {
	tx, err := db.beginCount(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer tx.Rollback() // a transaction that only reads has nothing to commit
	until, err := db.billedUntil(ctx, tx)
	if err != nil {
		return nil, 0, err
	}
	counts := billing{}
	if err := addRecords(tx, until, counts); err != nil {
		return nil, 0, err
	}
	return counts, until, counts.addBooked(ctx, db, tx, q)
}

// billingFile stands for the month in the name of the file that has the counters of months whose files were deleted.
const billingFile = "billing"

// Billing implements [Store].
func (s *fileStore) Billing(ctx context.Context, q BillingQuery) ([]BillingCount, error) {
	counts, _, err := s.billing(ctx, func(month string) bool {
		return month >= q.From.UTC().Format(monthForm) && month < q.To.UTC().Format(monthForm)
	}, func(db *database) (billing, int64, error) { return db.billing(ctx, q) })
	return counts.sorted(), err
}

func (s *fileStore) booked(ctx context.Context) (billing, int64, error) {
	return s.billing(ctx, func(string) bool { return true }, func(db *database) (billing, int64, error) { return db.bookedBilling(ctx) })
}

// billing adds up what read returns of the months that are wanted, and of the file with the counters of deleted ones. It
// reads the months first: one whose file goes meanwhile is in the other file by then.
func (s *fileStore) billing(ctx context.Context, isWanted func(month string) bool,
	read func(*database) (billing, int64, error)) (all billing, until int64, err error) {
	months, err := s.present()
	if err != nil {
		return nil, 0, err
	}
	live := map[string]billing{}
	for _, month := range months {
		if !isWanted(month) {
			continue
		}
		db, err := s.month(ctx, month, false)
		if err != nil {
			return nil, 0, err
		}
		if db == nil {
			continue // The file of that month has gone meanwhile.
		}
		counts, _, err := read(db)
		if err != nil && s.isGone(month) {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		live[month] = counts
	}
	all = billing{}
	if _, err := os.Stat(s.path(billingFile)); err == nil {
		db, err := s.month(ctx, billingFile, true)
		if err != nil {
			return nil, 0, err
		}
		if all, until, err = read(db); err != nil {
			return nil, 0, err
		}
	}
	for month, counts := range live {
		if month < time.UnixMilli(until).UTC().Format(monthForm) {
			continue // The counters are in the other file, and the file of that month is about to go.
		}
		for c, n := range counts {
			all[c] += n
		}
	}
	return all, until, nil
}

// bookMonth books a month whose file is about to be deleted.
func (s *fileStore) bookMonth(ctx context.Context, month string, begin, end time.Time) error {
	db, err := s.month(ctx, month, true)
	if err != nil {
		return err
	}
	counts, _, err := db.billing(ctx, BillingQuery{From: begin, To: end})
	if err != nil {
		return err
	}
	kept, err := s.month(ctx, billingFile, true)
	if err != nil {
		return err
	}
	if err := kept.inTx(ctx, func(tx *sql.Tx) error {
		until, err := kept.billedUntil(ctx, tx)
		if err != nil || until >= end.UnixMilli() {
			return err
		}
		if err := counts.book(ctx, kept, tx); err != nil {
			return err
		}
		return kept.setBilledUntil(ctx, tx, end.UnixMilli())
	}); err != nil {
		return err
	}
	if err := kept.truncateLog(ctx); !errors.Is(err, errLogInUse) { // only this has it on the disk
		return err
	}
	return errBillingInUse
}

// errBillingInUse says that counters may not be on the disk yet, so that no file was deleted.
var errBillingInUse = errors.New("journal: another process reads journal-billing.db, so that no month could be deleted: this is tried again")
