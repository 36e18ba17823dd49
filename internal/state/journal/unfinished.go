package journal

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
)

// In SQLite an erasure writes two files: its tombstones are in that of the seals, and what they are about in that of a
// month. A process may die between the two. So an erasure first leaves a mark in the file of the month, and takes it
// back in the transaction that removes the entries. While there is a mark, entries that a tombstone with its name is
// about may have their text, and the server removes it. Only a process with the keys can make a mark. So if somebody
// puts entries of an older copy back behind an erasure, there is no mark, and the check of the chain reports them. If
// he puts a copy of the mark back as well, the keys of these entries are already forgotten, because the erasure is on
// the disk before that. So the server leaves the entries, and the check reports them.

// eraseMarks is the table of marks. Only files have one.
const eraseMarks = `CREATE TABLE IF NOT EXISTS journal_erasing (name text PRIMARY KEY, day text NOT NULL,
	seal bigint NOT NULL, mac bytea NOT NULL);`

// An eraseMark says that somebody erases from a day.
type eraseMark struct {
	name string // It is random.
	day  string
	seal int64 // The tombstones of the erasure are behind this one, and have its name.
	mac  []byte
}

// text is what the MAC of a mark is made over.
func (m *eraseMark) text() []byte {
	return fmt.Appendf(nil, "threeds journal erasing %s %s %d", m.name, m.day, m.seal)
}

// errMarkGone says that another process found the mark of an erasure before its tombstones, and removed it.
var errMarkGone = errors.New("journal: the mark of an erasure is gone")

// leaveMark leaves a mark for an erasure whose tombstones are behind a seal. When it returns, the mark is on the disk.
func (db *database) leaveMark(ctx context.Context, day string, seal int64) (*eraseMark, error) {
	m := &eraseMark{name: rand.Text(), day: day, seal: seal}
	m.mac = db.ours.mac(m.text())
	return m, db.inSyncedTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO journal_erasing (name, day, seal, mac) VALUES (?, ?, ?, ?)`, m.name, m.day,
			m.seal, m.mac)
		return err
	})
}

// inSyncedTx is inTx in the file of a month. When it returns, what was committed is on the disk. That is always so in
// the file of the seals.
func (db *database) inSyncedTx(ctx context.Context, do func(*sql.Tx) error) (err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, `PRAGMA synchronous = FULL`); err != nil {
		return err
	}
	err = inTxOf(ctx, conn, do)
	_, back := conn.ExecContext(context.WithoutCancel(ctx), `PRAGMA synchronous = NORMAL`)
	return errors.Join(err, back)
}

// takeBack removes the mark in the transaction of its erasure. It returns errMarkGone if there is none any more.
func (m *eraseMark) takeBack(ctx context.Context, tx *sql.Tx) error {
	result, err := tx.ExecContext(ctx, `DELETE FROM journal_erasing WHERE name = ?`, m.name)
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return cmp.Or(err, errMarkGone)
	}
	return nil
}

// inErasure is inTx for an erasure of a day, whose tombstones are behind a seal. They have to name its mark.
func (db *database) inErasure(ctx context.Context, day string, seal int64,
	do func(tx *sql.Tx, mark string) error) error {
	if db.sealsPart == nil { // In PostgreSQL one transaction makes the tombstones, too.
		return db.inTx(ctx, func(tx *sql.Tx) error { return do(tx, "") })
	}
	var failed error
	for range markTries {
		mark, err := db.leaveMark(ctx, day, seal)
		if err != nil {
			return err
		}
		if failed = db.inSyncedTx(ctx, func(tx *sql.Tx) error {
			if err := mark.takeBack(ctx, tx); err != nil {
				return err
			}
			return do(tx, mark.name)
		}); !errors.Is(failed, errMarkGone) {
			return failed
		}
	}
	return failed
}

// markTries is how often an erasure leaves a mark at most. Servers look for marks each minute. So if more than two are
// gone, somebody else has removed them.
const markTries = 10

// finishErasures finishes the erasures whose marks a file of a month has. A mark without tombstones goes.
func (db *database) finishErasures(ctx context.Context) error {
	if db.sealsPart == nil { // In PostgreSQL an erasure is one transaction.
		return nil
	}
	marks, err := readRows(ctx, db, func(m *eraseMark) []any { return []any{&m.name, &m.day, &m.seal, &m.mac} },
		`SELECT name, day, seal, mac FROM journal_erasing ORDER BY seal`)
	if err != nil || len(marks) == 0 {
		return err
	}
	for _, m := range marks {
		if err := db.inSyncedTx(ctx, func(tx *sql.Tx) error {
			if err := m.takeBack(ctx, tx); errors.Is(err, errMarkGone) {
				return nil // Its erasure was at work, and has ended.
			} else if err != nil || !db.ours.isMAC(m.mac, m.text()) {
				return err
			}
			return db.finishErasure(ctx, tx, &m)
		}); err != nil && !errors.Is(err, errSealed) && !errors.Is(err, errNewHold) {
			return err
		} // The check of the chain says what was changed, and the next call heeds a hold.
	}
	if err := db.truncateLog(ctx); !errors.Is(err, errLogInUse) { // A log that is in use is emptied by the next call.
		return err
	}
	return nil
}

// finishErasure removes what the tombstones of a mark are about, and is there. Where the key is forgotten, the erasure
// was on the disk before: somebody has put the entry back, with a copy of the mark. It stays, and is noticed.
func (db *database) finishErasure(ctx context.Context, tx *sql.Tx, m *eraseMark) error {
	at, err := time.Parse(time.DateOnly, m.day)
	if err != nil {
		return err
	}
	said := newKnown()
	tombstone, newest, err := db.readTombstones(ctx, m, &said)
	if err != nil {
		return err
	}
	var ids []string // ids are those of entries that have their text.
	for _, chain := range sortedKeys(said.erased) {
		if dayOfChain(chain) != m.day {
			continue
		}
		if err := db.eachLive(ctx, tx, chain, said.erased[chain], func(f *frame, at int, item *frameItem) {
			if said.isErased(chain, f.first+int64(at)) && db.ours.tree.has(db.ours.tree.leafOf(dayNumber(f.made), item.id)) {
				ids = append(ids, item.id)
			}
		}); err != nil {
			return err
		}
	}
	slices.Sort(ids)
	var late []chainPlace // late has the entries that came behind the tombstones.
	for some := range slices.Chunk(slices.Compact(ids), importBatch) {
		begin, end := spanOfDay(at)
		e := dayErasure{db: db, begin: begin, condition: recordsOfTime + `id IN (` + marks(len(some)) + `)`,
			args: []any{begin, end, -begin, -end}, by: tombstone.by}
		for _, id := range some {
			e.args = append(e.args, id)
		}
		_, erased, err := e.remove(ctx, tx)
		if err != nil {
			return err
		}
		late = append(late, slices.DeleteFunc(erased, func(p chainPlace) bool { return said.isErased(p.chain, p.seq) })...)
	}
	tombstone.at, tombstone.mark = time.Now(), m.name
	return db.sealErasure(ctx, tx, tombstone, late, nil, &newest)
}

// readTombstones adds the erasures that name a mark to what seals say. It returns a tombstone for entries that they do
// not name, by the person who has made the last one, and the number of the newest seal. Seals that are not as they were
// written are left out: other duties say so.
func (db *database) readTombstones(ctx context.Context, m *eraseMark, said *known) (more statement, newest int64,
	err error) {
	seals, err := db.sealsPart(ctx, false)
	if err != nil {
		return more, 0, err
	}
	err = readSealsOf(ctx, seals, m.seal+1, func(s Seal) error {
		newest = s.N
		one, err := parseSeal(s.Text)
		if err == nil && one.kind == ErasureSeal && one.mark == m.name && s.isSignedBy(db.ours.publicKeys()) {
			said.addErased(one)
			more = statement{kind: ErasureSeal, by: one.by}
		}
		return nil
	})
	return more, newest, err
}

// finishErasures finishes the erasures of all parts. The seals were read, and are as they were written.
func (e *evidence) finishErasures(ctx context.Context) error {
	return e.parts.eachPart(ctx, func(_ string, db *database) error { return db.finishErasures(ctx) })
}
