package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Retention goes by days. A day with one record that a hold holds stays as it is, with its messages and personal data,
// and all other days go. The seals since the oldest such day stay, too, so that it can be verified.

// A holdMemo remembers which days have something held, so that the records of a day are read once.
type holdMemo struct {
	mu    sync.Mutex
	holds string // the numbers of the holds
	days  map[string]heldDay
}

// A heldDay says whether a day has something held, when its chains had this many entries.
type heldDay struct {
	entries int64
	isHeld  bool
	isRead  bool // its entries were read, and not its rows for searches alone
}

// dayEntries is how many entries the chains of a day have.
type dayEntries struct {
	day     string
	entries int64
}

// findHeldDays returns the days that ended before a time and have something that a hold holds. Somebody may have
// changed the rows for searches. So where they show nothing that is held, the sealed entries of the day are read,
// before something of it goes from the table. With isKnown false seals were changed, which is reported: then nothing
// may go. Seal is the newest one that holds follow from.
func (e *evidence) findHeldDays(ctx context.Context, table string, before time.Time) (held daySet, seal int64,
	isKnown bool, err error) {
	holds, seal, err := e.readHolds(ctx)
	if _, isFault := errors.AsType[*faultError](err); isFault {
		return nil, 0, false, nil
	}
	held = daySet{}
	if err != nil || len(holds) == 0 {
		return held, seal, true, err
	}
	e.memo.mu.Lock()
	defer e.memo.mu.Unlock()
	var numbers strings.Builder
	for i := range holds {
		fmt.Fprintln(&numbers, holds[i].Number)
	}
	if e.memo.holds != numbers.String() {
		e.memo.holds, e.memo.days = numbers.String(), map[string]heldDay{}
	}
	err = e.parts.eachPart(ctx, func(_ string, db *database) error {
		days, err := readRows(ctx, db, func(d *dayEntries) []any { return []any{&d.day, &d.entries} },
			db.query(`SELECT day, CAST(sum(seq) AS bigint) FROM journal_chains WHERE day < ? AND closed <> ? GROUP BY day`),
			dayOf(before), chainArchived)
		if err != nil {
			return err
		}
		for _, d := range days {
			if e.memo.days[d.day], err = db.lookAtDay(ctx, e.memo.days[d.day], d, table, holds); err != nil {
				return err
			}
			if e.memo.days[d.day].isHeld {
				held[d.day] = true
			}
		}
		return nil
	})
	if err != nil {
		return held, seal, true, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	chains, err := e.chains(ctx)
	if err != nil {
		return held, seal, true, err
	}
	lost, err := e.lost(ctx, chains, dayOf(before.AddDate(0, 0, -1)))
	for _, name := range lost { // what is left of them stays
		if day := dayOfChain(name); mayHold(holds, day) {
			held[day] = true
		}
	}
	return held, seal, true, err
}

// lookAtDay says whether a day has something held. was is what is known of it.
func (db *database) lookAtDay(ctx context.Context, was heldDay, d dayEntries, table string,
	holds []Hold) (now heldDay, err error) {
	if now = was; now.entries != d.entries {
		now = heldDay{entries: d.entries}
		if now.isHeld, err = db.hasHeld(ctx, d.day, holds); err != nil {
			return was, err
		}
	}
	at, err := time.Parse(time.DateOnly, d.day)
	if now.isHeld || now.isRead || err != nil || !mayHold(holds, d.day) {
		return now, nil // seals report what is no day
	}
	isAny := false
	if err := db.QueryRowContext(ctx, db.query(`SELECT EXISTS (SELECT 1 FROM `+table+` WHERE made = ?)`),
		at.UnixMilli()).Scan(&isAny); err != nil || !isAny {
		return now, err
	}
	now.isRead = true
	now.isHeld, err = db.hasHeldEntry(ctx, at, d.entries, holds)
	return now, err
}

// hasHeldEntry reports whether a day has an entry that a hold holds. If there are not as many as its chains say, or one
// cannot be read, it may have one.
func (db *database) hasHeldEntry(ctx context.Context, at time.Time, entries int64, holds []Hold) (isHeld bool,
	err error) {
	newest := newestEntries{ranks: map[string]int{}, do: func(item *frameItem, e newestEntry) {
		isHeld = isHeld || holdOf(holds, &e.Record, item.card) >= 0
	}}
	err = db.eachFrame(ctx, db, frameEntries, func(f *frame) error {
		items, err := db.openItems(ctx, f, isAny)
		for i := range items {
			if err == nil {
				err = newest.add(&items[i])
			}
		}
		entries -= int64(len(items))
		return err
	}, `made = ?`, at.UnixMilli())
	if errors.Is(err, errSealed) {
		return true, nil
	}
	return isHeld || entries != 0, err
}

// mayHold reports whether one of the holds may hold something of a day.
func mayHold(holds []Hold, day string) bool {
	return slices.ContainsFunc(holds, func(h Hold) bool { return h.holdsDay(day) })
}

// hasHeld reports whether a day has a record that a hold holds.
func (db *database) hasHeld(ctx context.Context, day string, holds []Hold) (isHeld bool, err error) {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return false, nil // seals report such days
	}
	begin, end := spanOfDay(at)
	for i := range holds {
		if !holds[i].holdsDay(day) {
			continue
		}
		condition, args := holds[i].condition()
		args = slices.Concat([]any{begin, end, -begin, -end}, args)
		if err := db.QueryRowContext(ctx,
			db.query(`SELECT EXISTS (SELECT 1 FROM journal_records WHERE `+recordsOfTime+condition+`)`), args...).
			Scan(&isHeld); err != nil || isHeld {
			return isHeld, err
		}
	}
	return false, nil
}

// findKeptDays returns the days before a time that stay for a hold. A day that has gone does not come back for a hold
// that is set later. Seal and isKnown are those of findHeldDays.
func (e *evidence) findKeptDays(ctx context.Context, before time.Time) (kept daySet, seal int64, isKnown bool,
	err error) {
	held, seal, isKnown, err := e.findHeldDays(ctx, "journal_frames", before)
	if err != nil || !isKnown {
		return nil, 0, isKnown, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(held, func(day string, _ bool) bool { return !e.known.hasDay(day) })
	return held, seal, true, nil
}

// runs returns the days of a set as runs of days that follow each other, the oldest first.
func (s daySet) runs() (all []heldDays) {
	for _, day := range sortedKeys(s) {
		if n := len(all); n > 0 && dayAfter(all[n-1][1]) == day {
			all[n-1][1] = day
		} else {
			all = append(all, heldDays{day, day})
		}
	}
	return all
}

// gaps returns the times before an end that have no day of the set.
func (s daySet) gaps(end time.Time) (all []span) {
	begin := int64(0)
	for _, run := range s.runs() {
		hold := Hold{From: run[0], To: run[1]}
		held := hold.span()
		if begin < held.begin {
			all = append(all, span{begin, held.begin})
		}
		begin = held.end
	}
	if begin < end.UnixMilli() {
		all = append(all, span{begin, end.UnixMilli()})
	}
	return all
}

// expire notes that days before one are over their time, but for those that holds keep. It removes the seals that say
// nothing of days and holds that are kept. It notes nothing, and returns errNewHold, if a hold was set behind the seal.
func (e *evidence) expire(ctx context.Context, since string, kept daySet, seal int64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.refresh(ctx); err != nil {
		return e.report(err)
	}
	for n := range e.known.holds {
		if n > seal {
			return errNewHold
		}
	}
	// The clock of the node of the last sweep may be ahead, or the time was shorter then. Days that it found held stay.
	days := maps.Clone(kept)
	for _, run := range e.known.held {
		for day := max(run[0], since); day <= run[1]; day = dayAfter(day) {
			days[day] = true
		}
	}
	since, held := max(since, e.known.since), days.runs()
	if e.known.n == 0 || e.known.since == since && slices.Equal(e.known.held, held) {
		return nil
	}
	db, err := e.parts.sealsPart(ctx, true)
	if err != nil {
		return err
	}
	oldest := since
	if len(held) > 0 {
		oldest = min(since, held[0][0])
	}
	first, stop := e.known.n+1, errors.New("found")
	if err := db.readSeals(ctx, e.known.first, func(s Seal) error {
		said, err := parseSeal(s.Text)
		if err == nil && (dayOf(said.at) >= oldest || e.known.holds[s.N] != "" || e.known.left[s.N] != "") {
			first, err = s.N, stop
		}
		return err
	}); err != nil && !errors.Is(err, stop) {
		return err
	}
	s := statement{kind: ExpirySeal, at: time.Now(), since: since, first: first, held: held}
	if err := e.append(ctx, s); err != nil {
		return e.report(err)
	}
	maps.DeleteFunc(e.known.chains, func(name string, _ *knownChain) bool { return !e.known.isKept(name) })
	if err := db.dropSeals(ctx, first); err != nil {
		return err
	}
	e.known.first = first
	return nil
}

// expireGap removes the rows of days that have gone, of all tables without partitions of their own for them. Of the
// records it removes as many as its time suffices for, and reports whether these were all.
func (s *tableStore) expireGap(ctx context.Context, gap span) (isDone bool, err error) {
	first := ""
	if gap.begin > 0 {
		first = dayOf(time.UnixMilli(gap.begin))
	}
	if _, err := s.ExecContext(ctx, `DELETE FROM journal_chains WHERE day >= $1 AND day < $2`, first,
		dayOf(time.UnixMilli(gap.end))); err != nil {
		return false, err
	}
	for statement, unit := range map[string]int64{
		`DELETE FROM journal_rollups WHERE start >= $1 AND start < $2`: 1,
		`DELETE FROM journal_days WHERE start >= $1 AND start < $2`:    1,
		`DELETE FROM journal_postings WHERE made >= $1 AND made < $2`:  1,
		`DELETE FROM journal_hours WHERE start >= $1 AND start < $2`:   1,
		`DELETE FROM journal_dirty WHERE hour >= $1 AND hour < $2`:     hourLen,
	} {
		if _, err := s.ExecContext(ctx, statement, gap.begin/unit, gap.end/unit); err != nil {
			return false, err
		}
	}
	for began := time.Now(); ; {
		result, err := s.ExecContext(ctx, `DELETE FROM journal_records WHERE (id, made) IN
			(SELECT id, made FROM journal_records WHERE made >= $1 AND made < $2 AND -made <= $3 AND -made > $4 LIMIT $5)
			AND made >= $1 AND made < $2`, gap.begin, gap.end, -gap.begin, -gap.end, expireLen)
		if err != nil {
			return false, err
		}
		n, err := result.RowsAffected()
		if err != nil || n < expireLen {
			return true, err
		}
		if time.Since(began) >= expireTime {
			return false, nil
		}
	}
}

// expireGaps removes the days of a month that ended before a time, but for those that are kept.
func (s *fileStore) expireGaps(ctx context.Context, db *database, before time.Time, kept daySet, isBooked bool) error {
	days, err := readRows(ctx, db, func(day *string) []any { return []any{day} }, db.query(
		`SELECT day FROM journal_keys WHERE day < ? UNION SELECT day FROM journal_chains WHERE day < ?`),
		dayOf(before), dayOf(before))
	if err != nil {
		return err
	}
	isAny := false
	for _, day := range days {
		at, err := time.Parse(time.DateOnly, day)
		if err != nil || kept[day] {
			continue
		}
		isAny = true
		if err := db.expireDay(ctx, day, at, isBooked); err != nil {
			return err
		}
	}
	if !isAny {
		return nil
	}
	if err := db.truncateLog(ctx); !errors.Is(err, errLogInUse) { // the next one empties it
		return err
	}
	return nil
}

// expireDay removes all rows of a day, and the key of the day that is kept in memory, which no writer has meanwhile.
func (db *database) expireDay(ctx context.Context, day string, at time.Time, isBooked bool) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if err := db.inTx(ctx, func(tx *sql.Tx) error {
		if !isBooked {
			if err := db.countForGood(ctx, tx, day, at); err != nil {
				return err
			}
		}
		return db.forgetDay(ctx, tx, day, at)
	}); err != nil {
		return err
	}
	db.keys.Delete(day)
	return nil
}

// forgetDay removes all rows of a day.
func (db *database) forgetDay(ctx context.Context, tx *sql.Tx, day string, at time.Time) error {
	if err := db.clearDay(ctx, tx, at); err != nil {
		return err
	}
	begin, end := spanOfDay(at)
	for _, d := range []struct {
		text string
		args []any
	}{
		{`DELETE FROM journal_places WHERE made >= ? AND made < ?`, []any{begin, end}},
		{`DELETE FROM journal_rollups WHERE start >= ? AND start < ?`, []any{begin, end}},
		{`DELETE FROM journal_days WHERE start >= ? AND start < ?`, []any{begin, end}},
		{`DELETE FROM journal_dirty WHERE hour >= ? AND hour < ?`, []any{begin / hourLen, end / hourLen}},
		{`DELETE FROM journal_chains WHERE day = ?`, []any{day}},
		{`DELETE FROM journal_keys WHERE day = ?`, []any{day}},
	} {
		if _, err := tx.ExecContext(ctx, db.query(d.text), d.args...); err != nil {
			return err
		}
	}
	return nil
}
