package journal

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A database is part of a journal: all of it in PostgreSQL, one month of it in SQLite.
type database struct {
	*sql.DB
	numbered bool // parameters are $1, $2 … in place of ?
	// prepareDay makes room for the entries of a day; nil means that none is needed.
	prepareDay func(ctx context.Context, day time.Time) error
	// insert adds rows to a table in a transaction.
	insert func(ctx context.Context, conn *sql.Conn, table string, columns []string, rows [][]any) error
	// putRows adds rows by a statement that begins with insert and ends with end.
	putRows func(ctx context.Context, tx *sql.Tx, insert string, rows [][]any, end string) error
	// lockRollups reports whether this transaction, and no other, makes rollups.
	lockRollups func(ctx context.Context, tx *sql.Tx) (bool, error)
	// sealsPart returns the database that has the seals; nil means that it is this one.
	sealsPart func(ctx context.Context, create bool) (*database, error)

	mu      sync.Mutex
	heads   map[string]*chainHead // by day
	keys    sync.Map              // of days, by their names
	writer  string                // names the chains of this process
	checked int64                 // checked is when the day begins whose rows were checked last.
	frames  int64                 // how many frames were numbered

	// Buffers of the writer.
	items, messages, personal, text, plain, packed, row, content []byte
	steps                                                        []Step
	ours                                                         *Keys

	changed *atomic.Uint64 // counts rows that were read and are not as they were written
}

// A chainHead is the end of the chain that this process writes for a day.
type chainHead struct {
	seq  int64
	link []byte
}

// schema has the tables of either kind of database. PARTITION stands for how PostgreSQL partitions one, and KEYED for
// how SQLite keeps one in the order of its key.
const schema = `
CREATE TABLE IF NOT EXISTS journal_frames (made bigint NOT NULL, frame bigint NOT NULL, chain text NOT NULL, first bigint NOT NULL,
	last bigint NOT NULL, digests bytea NOT NULL, link bytea NOT NULL, mac bytea NOT NULL, body bytea NOT NULL,
	PRIMARY KEY (frame, made)) PARTITION;
CREATE INDEX IF NOT EXISTS journal_frames_chain ON journal_frames (chain, first);
CREATE TABLE IF NOT EXISTS journal_places (made bigint NOT NULL, id text NOT NULL, kind text NOT NULL, frame bigint NOT NULL,
	at bigint NOT NULL, gone bigint NOT NULL, PRIMARY KEY (id, kind, made)) KEYED PARTITION;
CREATE TABLE IF NOT EXISTS journal_records (made bigint NOT NULL, id text NOT NULL, rank int NOT NULL, kind text NOT NULL,
	api text NOT NULL, merchant text NOT NULL, reference text NOT NULL, scheme text NOT NULL, bin text NOT NULL,
	last4 text NOT NULL, version text NOT NULL, channel text NOT NULL, status text NOT NULL, result text NOT NULL,
	trans_status text NOT NULL, reason text NOT NULL, acs text NOT NULL, ds_trans_id text NOT NULL, acs_trans_id text NOT NULL,
	challenged int NOT NULL, bucket int NOT NULL, card bytea, fault text NOT NULL, unkept text NOT NULL,
	mac bytea NOT NULL, PRIMARY KEY (id, made)) PARTITION;
CREATE INDEX IF NOT EXISTS journal_records_newest ON journal_records ((-made), id DESC);
CREATE INDEX IF NOT EXISTS journal_records_ds ON journal_records (ds_trans_id) WHERE ds_trans_id <> '';
CREATE INDEX IF NOT EXISTS journal_records_acs ON journal_records (acs_trans_id) WHERE acs_trans_id <> '';
CREATE INDEX IF NOT EXISTS journal_records_reference ON journal_records (reference, made) WHERE reference <> '';
CREATE INDEX IF NOT EXISTS journal_records_card ON journal_records (card, made) WHERE card IS NOT NULL;
CREATE INDEX IF NOT EXISTS journal_records_last4 ON journal_records (last4, made);
CREATE TABLE IF NOT EXISTS journal_messages (made bigint NOT NULL, frame bigint NOT NULL, body bytea NOT NULL,
	PRIMARY KEY (frame, made)) PARTITION;
CREATE TABLE IF NOT EXISTS journal_personal (made bigint NOT NULL, frame bigint NOT NULL, body bytea NOT NULL,
	PRIMARY KEY (frame, made)) PARTITION;
CREATE TABLE IF NOT EXISTS journal_postings (made bigint NOT NULL, key bigint NOT NULL, at bytea NOT NULL, mac bytea NOT NULL,
	PRIMARY KEY (key, made)) KEYED PARTITION;
CREATE INDEX IF NOT EXISTS journal_postings_made ON journal_postings (made);
CREATE TABLE IF NOT EXISTS journal_rollups (start bigint NOT NULL, merchant text NOT NULL, counts bytea NOT NULL,
	mac bytea NOT NULL, PRIMARY KEY (merchant, start));
CREATE INDEX IF NOT EXISTS journal_rollups_start ON journal_rollups (start);
CREATE TABLE IF NOT EXISTS journal_days (start bigint NOT NULL, days bigint NOT NULL, merchant text NOT NULL, part text NOT NULL,
	counts bytea NOT NULL, mac bytea NOT NULL, PRIMARY KEY (merchant, part, days, start));
CREATE INDEX IF NOT EXISTS journal_days_start ON journal_days (start);
CREATE TABLE IF NOT EXISTS journal_hours (start bigint PRIMARY KEY, keys bytea, postings bigint NOT NULL,
	counts bigint NOT NULL, mac bytea NOT NULL);
CREATE TABLE IF NOT EXISTS journal_dirty (hour bigint NOT NULL, writer text NOT NULL, n bigint NOT NULL, PRIMARY KEY (hour, writer));
CREATE TABLE IF NOT EXISTS journal_billing (month text NOT NULL, merchant text NOT NULL, api text NOT NULL, channel text NOT NULL,
	category text NOT NULL, kind text NOT NULL, n bigint NOT NULL, PRIMARY KEY (month, merchant, api, channel, category, kind));
CREATE TABLE IF NOT EXISTS journal_billed (one int PRIMARY KEY, until bigint NOT NULL, version bigint NOT NULL, mac bytea NOT NULL);
CREATE TABLE IF NOT EXISTS journal_chains (chain text PRIMARY KEY, day text NOT NULL, seq bigint NOT NULL, link bytea NOT NULL,
	closed int NOT NULL);
CREATE TABLE IF NOT EXISTS journal_seals (n bigint PRIMARY KEY, text text NOT NULL, key_id text NOT NULL, signature bytea NOT NULL);
CREATE TABLE IF NOT EXISTS journal_keys (day text PRIMARY KEY, wrapped bytea NOT NULL);
`

func newDatabase(db *sql.DB, keys *Keys) *database {
	return &database{
		DB: db, heads: map[string]*chainHead{}, writer: newWriterName(), ours: keys, changed: new(atomic.Uint64),
	}
}

func newWriterName() string {
	name := make([]byte, 8)
	rand.Read(name)
	return hex.EncodeToString(name)
}

// A querier is a database, a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
}

// readRows reads all rows of a query. Fields returns where the columns of a row go.
func readRows[T any](ctx context.Context, from querier, fields func(*T) []any, text string,
	args ...any) (all []T, err error) {
	rows, err := from.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var v T
		if err := rows.Scan(fields(&v)...); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// query returns a statement with the parameters that the database understands.
func (db *database) query(text string) string {
	if !db.numbered {
		return text
	}
	parts := strings.Split(text, "?")
	for n := range parts[1:] {
		parts[n] += "$" + strconv.Itoa(n+1)
	}
	return strings.Join(parts, "")
}

// marks returns as many parameters of a statement.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?, ", n), ", ") }

// dayOf is the day of a time, as the journal names it.
func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// spanOfDay returns when the day of a time begins and ends, as made has it.
func spanOfDay(t time.Time) (begin, end int64) {
	day := t.UTC().Truncate(24 * time.Hour)
	return day.UnixMilli(), day.Add(24 * time.Hour).UnixMilli()
}

// write adds the entries that the database lacks, in one transaction.
func (db *database) write(ctx context.Context, entries []Entry) (added int, err error) {
	if len(entries) == 0 {
		return 0, nil // as a sweep that finds nothing
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	if added, err = db.writeOnce(ctx, entries); errors.Is(err, errClosed) || errors.Is(err, errDayGone) {
		db.beginChains()
		db.keys.Clear()
		added, err = db.writeOnce(ctx, entries)
	}
	for errors.Is(err, errForgotten) { // by an erasure that came between: the next try leaves it out
		added, err = db.writeOnce(ctx, entries)
	}
	return added, err
}

// errClosed says that a chain of this process was closed, for its day is over.
var errClosed = errors.New("journal: the day is over, and its chains are closed")

// errDayGone says that another node, or a sweep of this one, has deleted a day since its key was read.
var errDayGone = errors.New("journal: the day was deleted meanwhile")

// beginChains has the next entries begin other chains.
func (db *database) beginChains() {
	clear(db.heads)
	db.writer = newWriterName()
}

// writeOnce is write with the chains that there are.
func (db *database) writeOnce(ctx context.Context, entries []Entry) (added int, err error) {
	entries, lost := db.ours.withoutForgottenDays(entries)
	if len(entries) == 0 {
		return 0, lost
	}
	if err := db.prepareDays(ctx, entries); err != nil {
		return 0, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close() // it goes back to the pool
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() // nothing after a commit
	if err := db.keepErasuresOut(ctx, tx); err != nil {
		return 0, err
	}
	fresh, err := db.withoutKnown(ctx, tx, entries)
	if err != nil || len(fresh) == 0 {
		return 0, cmp.Or(err, lost)
	}
	heads, err := db.insertEntries(ctx, conn, fresh)
	if err == nil {
		err = db.upsertRecords(ctx, tx, fresh)
	}
	if isOutsidePartition(err) {
		return 0, fmt.Errorf("%w: %w", errDayGone, err)
	}
	if err != nil {
		return 0, err
	}
	if err := db.putHeads(ctx, tx, heads); err != nil {
		return 0, err
	}
	if err := db.checkDays(ctx, tx, sortedKeys(heads)...); err != nil {
		return 0, err
	}
	if err := tx.Commit(); err != nil {
		db.beginChains() // it may have been committed, so that the heads here are not those there
		return 0, err
	}
	maps.Copy(db.heads, heads)
	return len(fresh), lost
}

// prepareDays makes room and a key for each day of entries.
func (db *database) prepareDays(ctx context.Context, entries []Entry) error {
	days := map[string]bool{}
	for i := range entries {
		day := dayOf(entries[i].Record.Created)
		if days[day] {
			continue
		}
		days[day] = true
		if db.keyOf(day) == nil && db.prepareDay != nil {
			if err := db.prepareDay(ctx, entries[i].Record.Created); err != nil {
				return err
			}
		}
		if _, err := db.dayKey(ctx, day, true); err != nil {
			return err
		}
	}
	return nil
}

// insertEntries adds entries, and what stands beside them, in the transaction of the connection. It returns the heads
// of their chains, which are moved when that is committed.
func (db *database) insertEntries(ctx context.Context, conn *sql.Conn, entries []Entry) (map[string]*chainHead, error) {
	heads, parts := map[string]*chainHead{}, map[string][]*Entry{}
	var rows framesToWrite
	flush := func(day string) error {
		part := parts[day]
		if heads[day] == nil {
			heads[day] = db.headOf(day)
		}
		delete(parts, day)
		return db.addFrame(&rows, part, heads[day])
	}
	for i := range entries {
		day := dayOf(entries[i].Record.Created)
		if parts[day] = append(parts[day], &entries[i]); len(parts[day]) == frameLen {
			if err := flush(day); err != nil {
				return nil, err
			}
		}
	}
	for _, day := range sortedKeys(parts) {
		if err := flush(day); err != nil {
			return nil, err
		}
	}
	return heads, db.insertFrames(ctx, conn, &rows)
}

// headOf returns a copy of the head of the chain of a day.
func (db *database) headOf(day string) *chainHead {
	if was := db.heads[day]; was != nil {
		return &chainHead{was.seq, was.link}
	}
	return &chainHead{link: firstLink(db.chainName(day))}
}

// putHeads stores the heads of chains.
func (db *database) putHeads(ctx context.Context, tx *sql.Tx, heads map[string]*chainHead) error {
	for day, head := range heads {
		result, err := tx.ExecContext(ctx, db.query(`INSERT INTO journal_chains (chain, day, seq, link, closed)
			VALUES (?, ?, ?, ?, 0) ON CONFLICT (chain) DO UPDATE SET seq = excluded.seq, link = excluded.link WHERE journal_chains.closed = 0`),
			db.chainName(day), day, head.seq, head.link)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n == 0 {
			return cmp.Or(err, errClosed)
		}
	}
	return nil
}

// checkDays returns errDayGone if days do not have the keys that their entries were sealed with. Where several nodes
// write, one may delete a day while another has its key in memory. From the insertion to the end of the transaction no
// day goes.
func (db *database) checkDays(ctx context.Context, tx *sql.Tx, days ...string) error {
	if !db.numbered {
		return nil
	}
	for _, day := range days {
		var wrapped []byte
		err := tx.QueryRowContext(ctx, `SELECT wrapped FROM journal_keys WHERE day = $1`, day).Scan(&wrapped)
		key := db.keyOf(day)
		if errors.Is(err, sql.ErrNoRows) || err == nil && (key == nil || !bytes.Equal(wrapped, key.wrapped)) {
			return fmt.Errorf("%w: %s", errDayGone, day)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (db *database) chainName(day string) string { return day + "/" + db.writer }

// withoutKnown returns the entries that the database lacks, each once. Nothing is added to what was erased, also in a
// database that was restored from before the erasure.
func (db *database) withoutKnown(ctx context.Context, tx *sql.Tx, entries []Entry) ([]Entry, error) {
	ids, first, last := make([]string, len(entries)), entries[0].Record.Created, entries[0].Record.Created
	for i := range entries {
		ids[i] = entries[i].Record.ID
		if at := entries[i].Record.Created; at.Before(first) {
			first = at
		} else if at.After(last) {
			last = at
		}
	}
	begin, _ := spanOfDay(first)
	_, end := spanOfDay(last)
	args, among := []any{begin, end}, "id = ANY(?)"
	if db.numbered {
		args = append(args, ids)
	} else {
		among = "id IN (" + marks(len(ids)) + ")"
		for _, id := range ids {
			args = append(args, id)
		}
	}
	type row struct {
		name [2]string // id and kind
		gone int64
	}
	rows, err := readRows(ctx, tx, func(r *row) []any { return []any{&r.name[0], &r.name[1], &r.gone} },
		db.query(`SELECT id, kind, gone FROM journal_places WHERE made >= ? AND made < ? AND `+among), args...)
	if err != nil {
		return nil, err
	}
	known, erased := map[[2]string]bool{}, map[string]bool{}
	for _, r := range rows {
		known[r.name] = true
		if r.gone != 0 {
			erased[r.name[0]] = true
		}
	}
	isFresh := func(e *Entry) bool {
		name := [2]string{e.Record.ID, string(e.Kind)}
		if known[name] || erased[name[0]] || db.keyOf(dayOf(e.Record.Created)).isForgotten(name[0]) {
			return false
		}
		known[name] = true
		return true
	}
	for i := range entries {
		if isFresh(&entries[i]) {
			continue
		}
		fresh := slices.Clone(entries[:i]) // most batches have nothing that is known, and are not copied
		for j := i + 1; j < len(entries); j++ {
			if isFresh(&entries[j]) {
				fresh = append(fresh, entries[j])
			}
		}
		return fresh, nil
	}
	return entries, nil
}
