package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// No server forgets all keys of a day. An operator may have that done for days that are over their time, so that the
// file of the keys gets small again. Nothing can be written for such a day any more.

// A KeptDay is a day whose keys stay, and why.
type KeptDay struct{ Day, Why string }

// A DayForgetting is what [Keys.ForgetDays] does. Keys counts those that erasures have forgotten one by one: the file
// need not tell them from the others of their day any more.
type DayForgetting struct {
	Days []string  // Days lose all their keys, the oldest first.
	Keys int       // Keys is how many keys of Days were forgotten one by one.
	Left int       // Left is how many such keys of other days the file goes on to have.
	Kept []KeptDay // Kept are days that stay as they are.

	// numbers are Days as the tree of keys counts them, in days since 1970.
	numbers []uint64
}

// FindForgettable returns what it is to forget all keys of the days before one in which keys were forgotten. Over is
// the first day that is not over its time. A day stays that the store has something of, or that a legal hold may hold.
func FindForgettable(ctx context.Context, st Store, keys *Keys, before, over string) (f DayForgetting, err error) {
	parts, ok := st.(heldParts)
	if !ok {
		return f, errors.New("journal: this kind of store does not say of which days it has something")
	}
	e := parts.evidenceOf()
	holds, _, err := e.readHolds(ctx)
	if err != nil {
		return f, asUnknown(err)
	}
	counts, all := keys.tree.countForgotten()
	for _, n := range slices.Sorted(maps.Keys(counts)) {
		day := dayOf(time.UnixMilli(int64(n) * dayLen))
		if day >= before {
			break
		}
		why, err := e.keepsKeys(ctx, day, over, holds)
		if err != nil {
			return f, err
		}
		if why != "" {
			f.Kept = append(f.Kept, KeptDay{day, why})
			continue
		}
		f.Days, f.numbers, f.Keys = append(f.Days, day), append(f.numbers, n), f.Keys+counts[n]
	}
	f.Left = all - f.Keys
	return f, nil
}

// keepsKeys says why the keys of a day have to stay, "" if nothing is against it.
func (e *evidence) keepsKeys(ctx context.Context, day, over string, holds []Hold) (why string, err error) {
	e.mu.Lock()
	isHeld, isOver := e.known.hasDay(day), day < e.known.since
	e.mu.Unlock()
	switch {
	case day >= over:
		return "it is not older than journal.keep", nil
	case mayHold(holds, day), isOver && isHeld:
		return "a legal hold may hold something of it", nil
	case !isOver:
		return "by what this journal has signed it is not over its time", nil
	}
	db, err := e.parts.partOf(ctx, day)
	if err != nil || db == nil {
		return "", err
	}
	if isThere, err := db.hasDay(ctx, day); err != nil || isThere {
		return "the journal has something of it", err
	}
	return "", nil
}

// hasDay reports whether a database has a frame, a place or a row for searches of a day.
func (db *database) hasDay(ctx context.Context, day string) (isThere bool, err error) {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return false, err
	}
	begin, end := spanOfDay(at)
	err = db.QueryRowContext(ctx, db.query(`SELECT EXISTS (SELECT 1 FROM journal_frames WHERE made = ?)
		OR EXISTS (SELECT 1 FROM journal_places WHERE made >= ? AND made < ?)
		OR EXISTS (SELECT 1 FROM journal_records WHERE made >= ? AND made < ? AND -made <= ? AND -made > ?)`),
		begin, begin, end, begin, end, -begin, -end).Scan(&isThere)
	return isThere, err
}

// ForgetDays forgets all keys of days, in memory and in the file. It is an error that the file cannot be replaced.
func (k *Keys) ForgetDays(f DayForgetting) error {
	if k.tree.forgetDays(f.numbers) {
		k.noteBehind(0)
	}
	k.writeForgotten()
	k.kept.mu.Lock()
	defer k.kept.mu.Unlock()
	if k.kept.err != nil {
		return fmt.Errorf("journal: the keys are not forgotten, for their file cannot be replaced: %w", k.kept.err)
	}
	return nil
}

// A ForgottenDaysError says that entries were not written, for all keys of their days were forgotten. What else was
// to be written is.
type ForgottenDaysError struct {
	Entries map[string]int // Entries counts them by day.
}

func (e *ForgottenDaysError) Error() string {
	var all []string
	for _, day := range sortedKeys(e.Entries) {
		all = append(all, fmt.Sprintf("%d of %s", e.Entries[day], day))
	}
	return "journal: entries were not written, for threeds journal forget has forgotten all keys of their day: " +
		strings.Join(all, ", ")
}

// Count returns how many entries were not written.
func (e *ForgottenDaysError) Count() (n int) {
	for _, some := range e.Entries {
		n += some
	}
	return n
}

// add takes what an error says of such entries, and returns an error that says something else.
func (e *ForgottenDaysError) add(err error) error {
	other, ok := errors.AsType[*ForgottenDaysError](err)
	if !ok {
		return err
	}
	if e.Entries == nil {
		e.Entries = map[string]int{}
	}
	for day, n := range other.Entries {
		e.Entries[day] += n
	}
	return nil
}

// orNil returns the error, nil if there are no such entries.
func (e *ForgottenDaysError) orNil() error {
	if len(e.Entries) == 0 {
		return nil
	}
	return e
}

// withoutForgottenDays returns the entries of days that have keys. The error is a [*ForgottenDaysError] if there are
// others.
func (k *Keys) withoutForgottenDays(entries []Entry) ([]Entry, error) {
	if !k.tree.hasForgotten() {
		return entries, nil
	}
	lost := ForgottenDaysError{map[string]int{}}
	isLost := func(e Entry) bool {
		if k.tree.hasDay(dayNumber(e.Record.Created.UnixMilli())) {
			return false
		}
		lost.Entries[dayOf(e.Record.Created)]++
		return true
	}
	if !slices.ContainsFunc(entries, isLost) { // most batches have none, and are not copied
		return entries, nil
	}
	clear(lost.Entries)
	return slices.DeleteFunc(slices.Clone(entries), isLost), &lost
}
