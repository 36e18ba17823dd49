package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"
)

// A BillingQuery says of which months, and of which merchant, the counters are wanted.
type BillingQuery struct {
	Merchant string    // "" for all merchants
	From, To time.Time // the begin of the first month, and the end of the last one, in UTC

	within []string // as in [Query]
}

// wants reports whether the counters of a merchant are wanted.
func (q *BillingQuery) wants(merchant string) bool {
	if len(q.within) > 0 {
		return slices.Contains(q.within, merchant)
	}
	return q.Merchant == "" || q.Merchant == merchant
}

// A BillingCount is a counter of authentications, or of refused requests: of how many all other members are the same.
type BillingCount struct {
	Month           string `json:"month"` // in UTC, such as 2026-11
	Merchant        string `json:"merchant"`
	API             string `json:"api"`
	DeviceChannel   string `json:"deviceChannel"`
	MessageCategory string `json:"messageCategory"`
	Kind            string `json:"kind"` // one of the constants that begin with Billed
	Count           int64  `json:"count"`
	// IsChanged says that a number of authentications whose records are gone was changed in the store. Count is without
	// it.
	IsChanged bool `json:"changedInStore,omitempty"`
}

// The kinds of [BillingCount]. Each authentication and each refused request is of one of them.
const (
	BilledFrictionless = "frictionless" // an ARes came and asked for no challenge
	BilledChallenged   = "challenged"   // the ARes asked for a challenge, or for Secure Payment Confirmation
	BilledDecoupled    = "decoupled"    // the ARes asked for a decoupled authentication
	BilledAttempted    = "attempted"    // transStatus A, without a challenge
	BilledUnanswered   = "unanswered"   // no ARes that counts has come
	BilledEnrolled     = "enrolled"     // a request for a VEReq of 3-D Secure 1.0.2
	BilledCheck        = "check"        // a request to check a PARes of 3-D Secure 1.0.2
	BilledRefused      = "refused"      // a request that was refused
)

// What is billed has to stay when records go. A counter is made of two parts: the sealed entries that are there, and
// the numbers in journal_billing. Whatever removes entries adds what they count to journal_billing, in the same
// transaction. So a write of an entry costs nothing. journal_billed has the time before which all entries have been
// added: those that are there for a while, and those that come later, do not count again. It also has a MAC over all
// numbers of journal_billing, and how often they were written, which heads name: numbers that were changed in the
// store are not counted.

// billedKind returns the kind of [BillingCount] that a record is of.
func billedKind(kind Kind, r *Record) string {
	switch {
	case kind == Refused, kind == Version1 && r.Status == RefusedRequest:
		return BilledRefused
	case kind == Version1 && r.Operation == "check":
		return BilledCheck
	case kind == Version1:
		return BilledEnrolled
	case r.Challenged && r.Decoupled:
		return BilledDecoupled
	case r.Challenged:
		return BilledChallenged
	case r.TransStatus == "":
		return BilledUnanswered
	case r.TransStatus == "A":
		return BilledAttempted
	}
	return BilledFrictionless
}

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
	slices.SortFunc(all, func(a, b BillingCount) int {
		if n := slices.Compare(a.names(), b.names()); n != 0 || a.IsChanged == b.IsChanged {
			return n
		}
		return map[bool]int{false: -1, true: 1}[a.IsChanged]
	})
	return all
}

// names are what a counter is of.
func (c *BillingCount) names() []string {
	return []string{c.Month, c.Merchant, c.API, c.DeviceChannel, c.MessageCategory, c.Kind}
}

// addLive adds the authentications whose entries are wanted, of the days from one until before another.
func (b billing) addLive(ctx context.Context, db *database, tx *sql.Tx, from, to int64,
	isWanted func(*frameItem) bool) error {
	days, err := readRows(ctx, tx, func(day *string) []any { return []any{day} }, db.query(`SELECT day FROM journal_keys
		WHERE day >= ? AND day <= ? ORDER BY day`), dayOf(time.UnixMilli(from)), dayOf(time.UnixMilli(to-1)))
	if err != nil {
		return err
	}
	archived, err := db.archivedDays(ctx, tx)
	if err != nil {
		return err
	}
	for _, day := range days {
		at, err := time.Parse(time.DateOnly, day)
		if err != nil {
			return err
		}
		if archived[day] {
			continue // it was added to journal_billing
		}
		if err := b.addDay(ctx, db, tx, at, isWanted); err != nil {
			return err
		}
	}
	return nil
}

// addDay adds the authentications of a day whose entries are wanted.
func (b billing) addDay(ctx context.Context, db *database, tx *sql.Tx, day time.Time,
	isWanted func(*frameItem) bool) error {
	begin, _ := spanOfDay(day)
	records := newBilledRecords(b)
	return db.eachFrame(ctx, tx, frameEntries, func(f *frame) error {
		items, err := db.openItems(ctx, f, func(int, *frameItem) bool { return false })
		for i := range items {
			if isWanted(&items[i]) {
				records.add(f, &items[i])
			}
		}
		return err
	}, `made = ?`, begin)
}

// A billedItem is what is billed of an entry. It is sealed under the key of the day alone: what was billed stays so
// when the key of the authentication was forgotten, also in a store of before the erasure.
type billedItem struct{ api, channel, category, kind string }

// billedOf returns what is billed of an entry.
func billedOf(e *Entry) billedItem {
	return billedItem{e.Record.API, e.Record.DeviceChannel, e.Record.MessageCategory, billedKind(e.Kind, &e.Record)}
}

// billedRecords count the authentications of days, each by its newest entry. There may be millions, so of each they
// remember only its counter and a rank.
type billedRecords struct {
	counts   billing
	counters []BillingCount
	// numbers has the index in counters of each of them.
	numbers map[BillingCount]uint32
	of      map[[16]byte]billedRecord
}

type billedRecord struct {
	counter uint32
	rank    int8
}

func newBilledRecords(counts billing) *billedRecords {
	return &billedRecords{counts: counts, numbers: map[BillingCount]uint32{}, of: map[[16]byte]billedRecord{}}
}

// add counts an entry of a frame, unless it is older than one before, or blank.
func (r *billedRecords) add(f *frame, item *frameItem) {
	key, rank := idKey(item.id), int8(rankOf(Kind(item.kind)))
	was, isKnown := r.of[key]
	if len(item.sealed) == 0 || rank < 0 || isKnown && rank < was.rank {
		return
	}
	c := BillingCount{
		Month: f.day()[:len(monthForm)], Merchant: item.merchant, API: item.billed.api,
		DeviceChannel: item.billed.channel, MessageCategory: item.billed.category, Kind: item.billed.kind,
	}
	n, ok := r.numbers[c]
	if !ok {
		n = uint32(len(r.counters))
		r.counters, r.numbers[c] = append(r.counters, c), n
	}
	if isKnown { // by an older entry
		last := r.counters[was.counter]
		if r.counts[last]--; r.counts[last] == 0 {
			delete(r.counts, last)
		}
	}
	r.of[key] = billedRecord{n, rank}
	r.counts[c]++
}

// A bookedCounters is what journal_billing and journal_billed have.
type bookedCounters struct {
	counts         billing
	until, version int64
	isChanged      bool // they are not as they were written
}

// text is what the MAC of counters is made over.
func (b *bookedCounters) text() []byte {
	text, err := json.Marshal(b.counts.sorted())
	if err != nil {
		panic(err) // texts and numbers can be encoded
	}
	return fmt.Appendf(nil, "threeds journal billing %d %d %s", b.until, b.version, text)
}

// readBooked reads the counters of what has gone, and checks them.
func (db *database) readBooked(ctx context.Context, tx *sql.Tx) (b bookedCounters, err error) {
	rows, err := readRows(ctx, tx, func(c *BillingCount) []any {
		return []any{&c.Month, &c.Merchant, &c.API, &c.DeviceChannel, &c.MessageCategory, &c.Kind, &c.Count}
	}, `SELECT month, merchant, api, channel, category, kind, n FROM journal_billing`)
	if err != nil {
		return b, err
	}
	b.counts = billing{}
	for _, c := range rows {
		b.counts.add(c)
	}
	var mac []byte
	err = tx.QueryRowContext(ctx, `SELECT until, version, mac FROM journal_billed`).Scan(&b.until, &b.version, &mac)
	if errors.Is(err, sql.ErrNoRows) {
		b.isChanged = len(rows) > 0
		return b, nil
	}
	b.isChanged = err == nil && !db.ours.isMAC(mac, b.text())
	return b, err
}

// book adds counters to journal_billing, and notes that all entries before a time were added. Who calls it keeps others
// from doing so. Numbers that were changed in the store stay recognisable as such.
func (db *database) book(ctx context.Context, tx *sql.Tx, counts billing, until int64) error {
	b, err := db.readBooked(ctx, tx)
	if err != nil || len(counts) == 0 && until <= b.until {
		return err
	}
	var rows [][]any
	for c, n := range counts {
		if c.IsChanged {
			b.isChanged = true
			continue
		}
		b.counts[c] += n
		rows = append(rows, []any{c.Month, c.Merchant, c.API, c.DeviceChannel, c.MessageCategory, c.Kind, b.counts[c]})
	}
	if len(rows) > 0 {
		if err := db.putRows(ctx, tx, `INSERT INTO journal_billing (month, merchant, api, channel, category, kind, n) `, rows,
			` ON CONFLICT (month, merchant, api, channel, category, kind) DO UPDATE SET n = excluded.n`); err != nil {
			return err
		}
	}
	b.until, b.version = max(b.until, until), b.version+1
	mac := db.ours.mac(b.text())
	if b.isChanged {
		mac = []byte{}
	}
	_, err = tx.ExecContext(ctx, db.query(`INSERT INTO journal_billed (one, until, version, mac) VALUES (1, ?, ?, ?)
		ON CONFLICT (one) DO UPDATE SET until = excluded.until, version = excluded.version, mac = excluded.mac`), b.until,
		b.version, mac)
	return err
}

// addBooked adds the counters of what has gone that a query asks for. Of those that were changed
// the number is not added.
func (b billing) addBooked(from *bookedCounters, q BillingQuery) {
	for c, n := range from.counts {
		if c.Month < q.From.UTC().Format(monthForm) || c.Month >= q.To.UTC().Format(monthForm) ||
			!q.wants(c.Merchant) {
			continue
		}
		if from.isChanged {
			c.IsChanged, n = true, 0
		}
		b[c] += n
	}
}

// billedUntil returns the time before which all entries have been added to journal_billing; 0 if none have.
func (db *database) billedUntil(ctx context.Context, tx *sql.Tx) (until int64, err error) {
	err = tx.QueryRowContext(ctx, `SELECT coalesce(max(until), 0) FROM journal_billed`).Scan(&until)
	return until, err
}

// endOfTime is behind all entries, in milliseconds since 1970.
var endOfTime = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC).UnixMilli()

// bookedBilling returns what journal_billing has, and billedUntil, as of one moment.
func (db *database) bookedBilling(ctx context.Context) (billing, int64, error) {
	all := BillingQuery{To: time.UnixMilli(endOfTime)}
	return db.readBilling(ctx, all, func(*sql.Tx, int64, billing) error { return nil })
}

// billing returns the counters of a query that the database has, and billedUntil, as of one moment.
func (db *database) billing(ctx context.Context, q BillingQuery) (billing, int64, error) {
	return db.readBilling(ctx, q, func(tx *sql.Tx, until int64, counts billing) error {
		isWanted := func(i *frameItem) bool { return q.wants(i.merchant) }
		return counts.addLive(ctx, db, tx, max(until, q.From.UnixMilli()), q.To.UnixMilli(), isWanted)
	})
}

// readBilling returns what journal_billing has of a query and what addEntries adds, and billedUntil, as of one moment.
func (db *database) readBilling(
	ctx context.Context, q BillingQuery, addEntries func(tx *sql.Tx, until int64, counts billing) error,
) (billing, int64, error) {
	tx, err := db.beginCount(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer tx.Rollback() // a transaction that only reads has nothing to commit
	booked, err := db.readBooked(ctx, tx)
	if err != nil {
		return nil, 0, err
	}
	counts := billing{}
	if err := addEntries(tx, booked.until, counts); err != nil {
		return nil, 0, err
	}
	counts.addBooked(&booked, q)
	return counts, booked.until, nil
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
	return s.billing(ctx,
		func(string) bool { return true }, func(db *database) (billing, int64, error) { return db.bookedBilling(ctx) })
}

// billing adds up what read returns of the months that are wanted, and of the file with the counters of deleted ones.
// It reads the months first: one whose file goes meanwhile is in the other file by then.
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

// bookMonth books a month whose file is about to be deleted, or loses days.
func (s *fileStore) bookMonth(ctx context.Context, month string, begin, end time.Time) error {
	kept, err := s.month(ctx, billingFile, true)
	if err != nil {
		return err
	}
	if _, until, err := kept.bookedBilling(ctx); err != nil || until >= end.UnixMilli() {
		return err
	}
	db, err := s.month(ctx, month, true)
	if err != nil {
		return err
	}
	counts, _, err := db.billing(ctx, BillingQuery{From: begin, To: end})
	if err != nil {
		return err
	}
	if err := kept.inTx(ctx, func(tx *sql.Tx) error {
		until, err := kept.billedUntil(ctx, tx)
		if err != nil || until >= end.UnixMilli() {
			return err
		}
		return kept.book(ctx, tx, counts, end.UnixMilli())
	}); err != nil {
		return err
	}
	if err := kept.truncateLog(ctx); !errors.Is(err, errLogInUse) { // only this has it on the disk
		return err
	}
	return errBillingInUse
}

// errBillingInUse says that counters may not be on the disk yet, so that no file was deleted.
var errBillingInUse = errors.New(
	"journal: another process reads journal-billing.db, so that no month could be deleted: this is tried again")

// billingVersion returns how often the counters of a database were written.
func (db *database) billingVersion(ctx context.Context) (n int64, err error) {
	err = db.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM journal_billed`).Scan(&n)
	return n, err
}
