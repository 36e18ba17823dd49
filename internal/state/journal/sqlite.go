package journal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	driver "modernc.org/sqlite" // The driver registers itself as "sqlite".
	lib "modernc.org/sqlite/lib"

	"github.com/openthreeds/threeds/internal/base/keyfile"
)

// monthForm is the month in the name of a file.
const monthForm = "2006-01"

// A fileStore is a journal in SQLite: one file for each month, in one directory.
type fileStore struct {
	dir  string
	keys *Keys

	retention
	evidence evidence
	changed  atomic.Uint64
	checks   atomic.Int64 // checks counts the calls of checkNext.

	mu     sync.Mutex
	months map[string]*database
}

// cacheKiB is the page cache of a connection, by the count of SQLite. In memory it is twice as much: the driver's
// allocator takes powers of two, and a page with its header is a little more than 4 KiB. A batch changes pages of
// many indexes: with a cache of 2 MB they are read and written again and again, with 4 MB a batch took about a
// tenth more than with 8.
const cacheKiB = 8000

// OpenFiles opens the journal in a directory. Its files are journal-YYYY-MM.db.
func OpenFiles(dir string, keys *Keys) (Store, error) {
	dir, err := filepath.Abs(dir) // the driver takes the first part of another one for a host
	if err == nil {
		err = keyfile.MakeDir(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	s := &fileStore{dir: dir, keys: keys, months: map[string]*database{}}
	s.evidence.parts, s.evidence.keys = s, keys
	return s, nil
}

// monthFile returns the name of the database of a month.
func monthFile(month string) string { return "journal-" + month + ".db" }

func (s *fileStore) path(month string) string { return filepath.Join(s.dir, monthFile(month)) }

// month returns the database of a month. It is made when create is set; else it is nil if there is none.
func (s *fileStore) month(ctx context.Context, month string, create bool) (*database, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if db := s.months[month]; db != nil {
		return db, nil
	}
	path := s.path(month)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
	case err != nil:
		return nil, err
	case !create:
		return nil, errors.Join(f.Close(), os.Remove(path))
	default:
		if err := errors.Join(keyfile.InheritOwner(f), f.Close()); err != nil {
			return nil, err
		}
	}
	synchronous := "synchronous(NORMAL)"
	if month == sealsFile { // what a seal says is done next, and a power failure must not take the seal alone
		synchronous = "synchronous(FULL)"
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", synchronous, "secure_delete(ON)",
			"temp_store(MEMORY)", fmt.Sprintf("cache_size(-%d)", cacheKiB), "wal_autocheckpoint(4000)"},
		"_txlock": {"immediate"},
		"mode":    {"rw"}, // a connection makes no new file in the place of one that is being deleted
	}.Encode()}
	pool, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	if err := makeFileTables(ctx, pool); err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	db := newDatabase(pool, s.keys)
	db.insert, db.putRows = insertRows, putRows
	db.lockRollups = func(context.Context, *sql.Tx) (bool, error) { return true, nil } // the transaction locks the file
	db.sealsPart, db.changed = s.sealsPart, &s.changed
	s.months[month] = db
	return db, nil
}

// openTime is how long the file of a month may be busy while another process makes it.
const openTime = 5 * time.Second

// makeFileTables makes the tables and indexes that are missing. SQLite does not wait by itself for another process that
// switches the file to WAL mode at the same time.
func makeFileTables(ctx context.Context, pool *sql.DB) error {
	tables := strings.NewReplacer(" PARTITION", "", " KEYED", " WITHOUT ROWID").Replace(schema + eraseMarks)
	for end := time.Now().Add(openTime); ; time.Sleep(time.Millisecond) {
		_, err := pool.ExecContext(ctx, tables)
		if failed, ok := errors.AsType[*driver.Error](err); !ok || failed.Code()&0xff != lib.SQLITE_BUSY ||
			time.Now().After(end) {
			return err
		}
	}
}

// present returns the months that there are, the newest first.
func (s *fileStore) present() ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(s.dir, "journal-????-??.db"))
	if err != nil {
		return nil, err
	}
	var months []string
	for _, path := range paths {
		month := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "journal-"), ".db")
		if _, err := time.Parse(monthForm, month); err == nil {
			months = append(months, month)
		}
	}
	slices.Sort(months)
	slices.Reverse(months)
	return months, nil
}

// each calls do with the database of each month, the newest first, until it says that no more is needed.
func (s *fileStore) each(ctx context.Context, do func(*database) (isEnough bool, err error)) error {
	months, err := s.present()
	if err != nil {
		return err
	}
	for _, month := range months {
		db, err := s.month(ctx, month, false)
		if err != nil {
			return err
		}
		if db == nil {
			continue // its file has gone meanwhile
		}
		isEnough, err := do(db)
		if err != nil && s.isGone(month) {
			continue
		}
		if err != nil || isEnough {
			return err
		}
	}
	return nil
}

// isGone reports whether the file of a month was deleted, for its time is over. Who was reading it got an error.
func (s *fileStore) isGone(month string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := os.Stat(s.path(month))
	return errors.Is(err, fs.ErrNotExist)
}

func (s *fileStore) Write(ctx context.Context, entries []Entry) (int, error) {
	// The driver starts a goroutine for each statement that may be cancelled. None waits longer than busy_timeout.
	ctx = context.WithoutCancel(ctx)
	monthOf := func(e *Entry) string { return e.Record.Created.UTC().Format(monthForm) }
	byMonth := map[string][]Entry{}
	var months []string
	for i := range entries {
		month := monthOf(&entries[i])
		if byMonth[month] == nil {
			months = append(months, month)
			isOther := func(e Entry) bool { return monthOf(&e) != month }
			byMonth[month] = entries
			if slices.ContainsFunc(entries, isOther) {
				byMonth[month] = slices.DeleteFunc(slices.Clone(entries), isOther)
			}
		}
	}
	total, lost := 0, &ForgottenDaysError{}
	for _, month := range months {
		db, err := s.month(ctx, month, true)
		if err != nil {
			return total, err
		}
		n, err := db.write(ctx, byMonth[month])
		total += n
		if err := lost.add(err); err != nil {
			return total, err
		}
	}
	return total, lost.orNil()
}

func (s *fileStore) Search(ctx context.Context, q Query) (Page, error) {
	limit := limitOf(q)
	q.From = s.from(q.From)
	var all []Record
	err := s.each(ctx, func(db *database) (bool, error) {
		some, err := db.search(ctx, q, limit+1-len(all))
		all = append(all, some...)
		return len(all) > limit, err
	})
	return pageOf(all, limit), err
}

// limitOf is how many records a query wants.
func limitOf(q Query) int {
	if q.Limit <= 0 {
		return 50
	}
	return min(q.Limit, 1000)
}

// pageOf makes a page of at most limit records.
func pageOf(all []Record, limit int) Page {
	if len(all) <= limit {
		return Page{Records: all}
	}
	return Page{Records: all[:limit], Next: cursorOf(&all[limit-1])}
}

func (s *fileStore) Show(ctx context.Context, id string) (Detail, error) {
	found, last := Detail{}, ErrNotFound
	err := s.each(ctx, func(db *database) (bool, error) {
		d, err := db.show(ctx, strings.ToLower(id))
		switch isNamed := err == nil && d.ID != strings.ToLower(id); {
		case errors.Is(err, ErrNotFound), isNamed && last == nil:
			return false, nil
		case isNamed: // the transaction itself may be in an earlier month
			found, last = d, nil
			return false, nil
		}
		found, last = d, err
		return true, nil
	})
	if err != nil {
		return found, err
	}
	return s.visible(found, last)
}

func (s *fileStore) Count(ctx context.Context, q CountQuery) ([]Rollup, error) {
	var all []Rollup
	q.From = s.from(q.From)
	err := s.each(ctx, func(db *database) (bool, error) {
		some, err := db.count(ctx, q)
		all = append(some, all...)
		return false, err
	})
	return all, err
}

func (s *fileStore) Flow(ctx context.Context, q FlowQuery) (all []FlowCount, err error) {
	q.From = s.from(q.From)
	err = s.each(ctx, func(db *database) (bool, error) {
		some, err := db.flow(ctx, q)
		all = append(all, some...)
		return false, err
	})
	return all, err
}

func (s *fileStore) CountUnkept(ctx context.Context, q CountQuery) ([]UnkeptRule, error) {
	q.From = s.from(q.From)
	all := unkeptSums{}
	err := s.each(ctx, func(db *database) (bool, error) { return false, db.countUnkept(ctx, q, all) })
	return all.rules(), err
}

func (s *fileStore) Roll(ctx context.Context, now time.Time, limit time.Duration) error {
	began := time.Now()
	if err := s.each(ctx, func(db *database) (bool, error) {
		left := limit - time.Since(began)
		if left <= 0 {
			return true, nil
		}
		return false, db.roll(ctx, now, left)
	}); err != nil {
		return err
	}
	return s.checkNext(ctx, now, limit)
}

func (s *fileStore) Erase(ctx context.Context, q Query) (authentications, records int, err error) {
	if q.erasesNothing() {
		return 0, 0, errNothingToErase
	}
	if _, _, err := s.evidence.readHolds(ctx); err != nil { // If seals were changed, nothing may be finished.
		return 0, 0, asUnknown(err)
	}
	if err := s.evidence.finishErasures(ctx); err != nil {
		return 0, 0, err
	}
	var damaged error
	if err := s.each(ctx, func(db *database) (bool, error) {
		unread, err := s.evidence.mend(ctx, db)
		damaged = errors.Join(damaged, unread)
		return false, err
	}); err != nil {
		return 0, 0, err
	}
	authentications, records, err = eraseUnheld(ctx, s, q, func(plan erasurePlan) (int, int, error) {
		return s.erase(ctx, plan)
	})
	return authentications, records, errors.Join(err, damaged)
}

// erase removes what a plan says from all files.
func (s *fileStore) erase(ctx context.Context, plan erasurePlan) (authentications, records int, err error) {
	var damaged error
	var spent []spentLeaf // of files that are on the disk as they are now
	defer func() { s.keys.forget(spent) }()
	err = s.each(ctx, func(db *database) (bool, error) {
		a, r, some, err := db.erase(ctx, plan)
		authentications, records = authentications+a, records+r
		if err != nil && !errors.Is(err, errSealed) { // a damaged day keeps no other one from being erased
			return false, err
		}
		damaged = errors.Join(damaged, err)
		if err := db.truncateLog(ctx); err != nil {
			return false, err // the next look at the tombstones forgets the keys
		}
		spent = append(spent, some...)
		return false, nil
	})
	return authentications, records, errors.Join(err, damaged)
}

// Expire hides the days, and deletes the files of the months, that ended before a time. If a hold keeps some of these
// days, it removes the others one by one.
func (s *fileStore) Expire(ctx context.Context, before time.Time) error {
	before = before.UTC().Truncate(24 * time.Hour)
	if s.oldest.Load() == 0 { // all of it is hidden until it is known what holds keep
		s.hideBefore(before, nil)
	}
	kept, seal, isKnown, err := s.evidence.findKeptDays(ctx, before)
	if err != nil || !isKnown {
		return err
	}
	if len(kept) == 0 {
		s.hideBefore(before, nil)
	}
	if err := s.evidence.expire(ctx, dayOf(before), kept, seal); errors.Is(err, errNewHold) {
		return nil // the next call heeds it
	} else if err != nil {
		return err
	}
	months, err := s.present()
	if err != nil {
		return err
	}
	for _, month := range slices.Backward(months) { // the oldest first, for bookMonth
		if err := s.expireMonth(ctx, month, before, kept); err != nil {
			return err
		}
	}
	s.hideBefore(before, kept)
	return nil
}

// expireMonth removes the days of a month that ended before a time, but for those that are kept.
func (s *fileStore) expireMonth(ctx context.Context, month string, before time.Time, kept daySet) error {
	begin, err := time.Parse(monthForm, month)
	if err != nil {
		return nil
	}
	end := begin.AddDate(0, 1, 0)
	isOver := !end.After(before)
	if isOver {
		if err := s.bookMonth(ctx, month, begin, end); err != nil {
			return err
		}
	}
	isOfMonth := func(day string) bool { return strings.HasPrefix(day, month) }
	if isOver && !slices.ContainsFunc(sortedKeys(kept), isOfMonth) {
		return s.remove(month)
	}
	if len(kept) == 0 {
		return nil
	}
	db, err := s.month(ctx, month, false)
	if err != nil || db == nil {
		return err
	}
	return s.expireGaps(ctx, db, before, kept, isOver)
}

// remove deletes the file of a month.
func (s *fileStore) remove(month string) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if db := s.months[month]; db != nil {
		err = db.Close()
		delete(s.months, month)
	}
	for _, end := range []string{"", "-wal", "-shm"} {
		if gone := os.Remove(s.path(month) + end); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}

func (s *fileStore) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for month, db := range s.months {
		errs = append(errs, db.Close())
		delete(s.months, month)
	}
	return errors.Join(errs...)
}
