package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// A check compares the tables for searches with journal_hours, and with the sealed entries where that does not suffice.
// It makes again what is missing, and reports it. So a search says the truth again, and an erasure finds all that it
// has to find. Each call of Roll checks some days. An export, a spreadsheet and an erasure check all of theirs first.

// A rowChecker is a store whose rows for searches can be checked.
type rowChecker interface {
	// checkRows checks the rows for searches of the days of a time that are over. It returns what was missing.
	checkRows(ctx context.Context, from, to time.Time) (faults []error, err error)
}

// checkRowsOf is checkRows of an exporter for the time of a query. The audit trail has no rows.
func checkRowsOf(ctx context.Context, st Exporter, q *Query) ([]error, error) {
	if c, ok := st.(rowChecker); ok {
		return c.checkRows(ctx, q.From, q.To)
	}
	return nil, nil
}

// checkRows checks the rows for searches of the time of an export. What was missing is there again, so the next export
// can be signed.
func (w *exportWriter) checkRows(ctx context.Context, st Exporter) error {
	faults, err := checkRowsOf(ctx, st, &w.query)
	for _, fault := range faults {
		w.fail(asFault(fault))
	}
	return err
}

// checkAll checks the rows of the days of a time; "" for last means that there is no end. It returns what
// was missing, and what cannot be looked at, which is errSealed. Before an
// erasure it also checks places, and days that are not over, of which it reads all entries.
func (db *database) checkAll(ctx context.Context, first, last string, isForErase bool) (faults []error, err error) {
	now := time.Now()
	days, err := db.daysOf(ctx, first, last)
	if err != nil {
		return nil, err
	}
	var misplaced map[int64]bool
	if isForErase {
		if misplaced, err = db.findMisplaced(ctx); err != nil {
			return nil, err
		}
	}
	for _, day := range days {
		if !isForErase && !isDayOver(day, now) {
			continue
		}
		some, err := db.checkDay(ctx, day, now, misplaced[day])
		if faults = append(faults, some...); err != nil {
			return faults, err
		}
	}
	return faults, nil
}

// checkSome checks days that are over, for a time, but one at least. The next call goes on with the days behind them.
func (db *database) checkSome(ctx context.Context, now time.Time, limit time.Duration) (faults []error, err error) {
	began := time.Now()
	days, err := db.daysOf(ctx, "", dayOf(now.AddDate(0, 0, -1)))
	if err != nil {
		return nil, err
	}
	db.mu.Lock()
	after := db.checked
	db.mu.Unlock()
	next := 0
	for next < len(days) && days[next] <= after {
		next++
	}
	for i := range days {
		day := days[(next+i)%len(days)]
		some, err := db.checkDay(ctx, day, now, false)
		if faults = append(faults, some...); err != nil {
			return faults, err
		}
		db.mu.Lock()
		db.checked = day
		db.mu.Unlock()
		if time.Since(began) >= limit {
			break
		}
	}
	return faults, nil
}

// daysOf returns when the days begin that have entries here, from one day to another. Those of days that are
// archived are in files.
func (db *database) daysOf(ctx context.Context, first, last string) (begins []int64, err error) {
	if last == "" {
		last = lastDay
	}
	days, err := readRows(ctx, db, func(day *string) []any { return []any{day} },
		db.query(`SELECT DISTINCT day FROM journal_chains WHERE day >= ? AND day <= ? AND closed <> ? ORDER BY day`),
		first, last, chainArchived)
	for _, day := range days {
		if at, err := time.Parse(time.DateOnly, day); err == nil { // seals report other days
			begins = append(begins, at.UnixMilli())
		}
	}
	return begins, err
}

// findMisplaced returns the days with another number of places than of entries.
func (db *database) findMisplaced(ctx context.Context) (map[int64]bool, error) {
	tx, err := db.beginCount(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback() // The transaction only reads.
	type count struct{ day, n int64 }
	fields := func(c *count) []any { return []any{&c.day, &c.n} }
	entries, err := readRows(ctx, tx, fields, fmt.Sprintf(
		`SELECT made / %d, CAST(sum(last - first + 1) AS bigint) FROM journal_frames GROUP BY 1`, dayLen))
	if err != nil {
		return nil, err
	}
	places, err := readRows(ctx, tx, fields, fmt.Sprintf(`SELECT made / %d, count(*) FROM journal_places GROUP BY 1`,
		dayLen))
	has, misplaced := map[int64]int64{}, map[int64]bool{}
	for _, c := range places {
		has[c.day] = c.n
	}
	for _, c := range entries {
		misplaced[c.day*dayLen] = has[c.day] != c.n
	}
	return misplaced, err
}

// checkDay checks the rows of a day, makes those again that are missing, and returns what was missing. Places are
// checked if isMisplaced is set.
func (db *database) checkDay(ctx context.Context, begin int64, now time.Time, isMisplaced bool) (faults []error,
	err error) {
	day := dayOf(time.UnixMilli(begin))
	if err := db.dropForgotten(ctx, begin, idsOfRecords, begin, begin+dayLen, -begin, -begin-dayLen); err != nil {
		return nil, err
	}
	c, err := db.compareHours(ctx, begin)
	if err != nil {
		return nil, err
	}
	if len(c.badHours) > 0 {
		db.changed.Add(uint64(len(c.badHours)))
		faults = append(faults, &faultError{
			fmt.Sprintf("postings or counts of %d hours of the day %s were deleted: they are made again", len(c.badHours), day)})
		if err := db.inTx(ctx, func(tx *sql.Tx) error { return db.markBad(ctx, tx, c.badHours) }); err != nil {
			return faults, err
		}
	}
	if c.isWhole && !isMisplaced {
		return faults, nil
	}
	m := mending{db: db, begin: begin}
	isLost := c.isLost || isMisplaced
	if !isLost {
		err = m.compare(ctx, now)
	}
	if err == nil && (isLost || len(m.entries) > 0) {
		m = mending{db: db, begin: begin, isMisplaced: isMisplaced}
		err = m.mend(ctx, now)
	}
	if len(m.places) > 0 {
		db.changed.Add(uint64(len(m.places)))
		faults = append(faults, &faultError{
			fmt.Sprintf("%d places of entries of the day %s were deleted or changed: they were written again",
				len(m.places), day)})
	}
	if m.lost > 0 {
		db.changed.Add(uint64(m.lost))
		faults = append(faults, &faultError{
			fmt.Sprintf("%d rows for searches of the day %s were deleted: what their entries say was written again",
				m.lost, day)})
	}
	if m.unread != nil {
		faults = append(faults, fmt.Errorf("the day %s cannot be looked at as a whole: %w", day, m.unread))
	}
	return faults, err
}

// A comparison says how the rows of a day fit journal_hours.
type comparison struct {
	isWhole  bool   // each hour has a row, and each of its records is there
	isLost   bool   // a record is missing
	badHours []span // which have not the postings or the counts that they should have
}

// compareHours compares the rows of a day with journal_hours, as of one moment.
func (db *database) compareHours(ctx context.Context, begin int64) (c comparison, err error) {
	tx, err := db.beginCount(ctx)
	if err != nil {
		return c, err
	}
	defer tx.Rollback() // The transaction only reads.
	hours, err := db.readHours(ctx, tx, begin, begin+dayLen)
	if err != nil {
		return c, err
	}
	dirty, err := readNumbers(ctx, tx, db.query(`SELECT hour FROM journal_dirty WHERE hour >= ? AND hour < ?`),
		begin/hourLen, (begin+dayLen)/hourLen)
	if err != nil {
		return c, err
	}
	isDirty := map[int64]bool{}
	for _, hour := range dirty {
		isDirty[hour*hourLen] = true
	}
	for start, row := range hours {
		keys, err := db.recordKeys(ctx, tx, start)
		if err != nil {
			return c, err
		}
		c.isLost = c.isLost || !hasAll(keys, decodeKeys(row.keys))
		postings, counts, err := db.countRows(ctx, tx, start)
		if err != nil {
			return c, err
		}
		if !isDirty[start] && (postings != row.postings || counts != row.counts) {
			c.badHours = append(c.badHours, span{start, start + hourLen})
		}
	}
	c.isWhole = len(hours) == hoursOfDay && !c.isLost
	return c, nil
}

// hasAll reports whether keys have all of some others.
func hasAll(keys, others []uint64) bool {
	has := make(map[uint64]bool, len(keys))
	for _, key := range keys {
		has[key] = true
	}
	for _, key := range others {
		if !has[key] {
			return false
		}
	}
	return true
}

// note reports faults, and what cannot be looked at.
func (e *evidence) note(faults []error) {
	if len(faults) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, fault := range faults {
		_ = e.report(asFault(fault)) // nothing else is left
	}
}

// asFault returns an error of checkAll as a fault, also one that says what cannot be looked at.
func asFault(err error) error {
	if errors.Is(err, errSealed) {
		return &faultError{err.Error()}
	}
	return err
}

// mend makes the rows of a database again that are missing. It returns what cannot be looked at.
func (e *evidence) mend(ctx context.Context, db *database) (unread, err error) {
	faults, err := db.checkAll(ctx, "", "", true)
	e.note(faults)
	for _, fault := range faults {
		if errors.Is(fault, errSealed) {
			unread = errors.Join(unread, fault)
		}
	}
	return unread, err
}

// A mender is a store whose rows can be made again before an erasure.
type mender interface {
	mendAll(ctx context.Context) error
}

// Mend makes the rows for searches again that are missing, so that a search finds all that an erasure has to remove.
// What was missing, and what cannot be looked at, is in Faults of the store.
func Mend(ctx context.Context, st Store) error {
	if m, ok := st.(mender); ok {
		return m.mendAll(ctx)
	}
	return nil
}

func (s *fileStore) mendAll(ctx context.Context) error {
	return s.each(ctx, func(db *database) (bool, error) {
		_, err := s.evidence.mend(ctx, db)
		return false, err
	})
}

func (s *tableStore) mendAll(ctx context.Context) error {
	_, err := s.evidence.mend(ctx, s.database)
	return err
}

func (l *lazyStore) mendAll(ctx context.Context) error {
	return l.do(ctx, func(st Store) error { return Mend(ctx, st) })
}

// checkShare is which part of the time for rollups a check takes at most, beyond its first day.
const checkShare = 20

// checkSome checks some days of a database, in a part of the time that rollups may take, and reports what was missing.
func (e *evidence) checkSome(ctx context.Context, db *database, now time.Time, limit time.Duration) error {
	faults, err := db.checkSome(ctx, now, limit/checkShare)
	e.note(faults)
	return err
}

// checkNext is checkSome of one of the months, of each in its turn.
func (s *fileStore) checkNext(ctx context.Context, now time.Time, limit time.Duration) error {
	months, err := s.present()
	if err != nil || len(months) == 0 {
		return err
	}
	month := months[int(s.checks.Add(1)-1)%len(months)]
	db, err := s.month(ctx, month, false)
	if err == nil && db != nil {
		err = s.evidence.checkSome(ctx, db, now, limit)
	}
	if s.isGone(month) {
		return nil // its time was over meanwhile
	}
	return err
}

// checkRows implements rowChecker.
func (s *fileStore) checkRows(ctx context.Context, from, to time.Time) (faults []error, err error) {
	first, last := (&Query{From: from, To: to}).spanOfDays()
	err = s.each(ctx, func(db *database) (bool, error) {
		some, err := db.checkAll(ctx, first, last, false)
		faults = append(faults, some...)
		return false, err
	})
	s.evidence.note(faults)
	return faults, err
}

// checkRows implements rowChecker.
func (s *tableStore) checkRows(ctx context.Context, from, to time.Time) (faults []error, err error) {
	first, last := (&Query{From: from, To: to}).spanOfDays()
	faults, err = s.checkAll(ctx, first, last, false)
	s.evidence.note(faults)
	return faults, err
}

// checkRows implements rowChecker.
func (l *lazyStore) checkRows(ctx context.Context, from, to time.Time) ([]error, error) {
	return askLazily(ctx, l, func(st Store) ([]error, error) {
		return checkRowsOf(ctx, st, &Query{From: from, To: to})
	})
}
