package journal

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// restoreBatch is how many entries are restored in one transaction.
const restoreBatch = 500

// A Restorer adds what an archive has to a journal. A journal that is empty gets the same chains, with their
// signatures. Where there are entries already, others get a place in chains of their own, as in [Import],
// and what is there or was erased stays. Call its methods in the order in which Visit of [Archive] tells of
// rows, and Close at the end.
type Restorer struct {
	to      Archive
	keys    *Keys
	dayKeys map[string]*dayKey
	isEmpty bool // when it was made
	billed  []ArchivedBilling
	seals   []Seal
	chain   ArchivedChain
	head    *ChainCheck
	frames  []openFrame
	entries []Entry
	added   int
}

// NewRestorer returns a Restorer for a store of these keys.
func NewRestorer(ctx context.Context, st Store, keys *Keys) (*Restorer, error) {
	to, ok := st.(Archive)
	if !ok {
		return nil, errors.New("journal: this kind of store cannot be restored")
	}
	r := &Restorer{to: to, keys: keys, dayKeys: map[string]*dayKey{}, isEmpty: true}
	stop := errors.New("there is something")
	err := to.Visit(ctx, Visitor{
		Billing: func(ArchivedBilling) error { return stop },
		Seal:    func(Seal) error { return stop },
		Day:     func(ArchivedDay) error { return nil },
		Chain:   func(ArchivedChain) error { return stop },
	})
	if errors.Is(err, stop) {
		r.isEmpty, err = false, nil
	}
	return r, err
}

// AddBilling takes a counter of what has gone. A journal that is not empty has counters of its own,
// which stay as they are.
func (r *Restorer) AddBilling(c ArchivedBilling) { r.billed = append(r.billed, c) }

// AddSeal takes a seal. A journal that is not empty has seals of its own, which stay as they are.
func (r *Restorer) AddSeal(ctx context.Context, s Seal) error {
	if !r.isEmpty {
		return nil
	}
	if r.seals = append(r.seals, s); len(r.seals) < restoreBatch {
		return nil
	}
	return r.putSeals(ctx)
}

// putSeals writes the seals that were taken.
func (r *Restorer) putSeals(ctx context.Context) error {
	all := r.seals
	r.seals = nil
	if len(all) == 0 {
		return nil
	}
	db, err := r.to.sealsPart(ctx, true)
	if err != nil {
		return err
	}
	if err := db.inTx(ctx, func(tx *sql.Tx) error {
		for _, s := range all {
			if err := db.insertSeal(ctx, tx, s); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	for _, s := range all {
		if err := r.markArchived(ctx, &s); err != nil {
			return err
		}
	}
	return nil
}

// markArchived notes the chains that a seal says are in files: what is billed of them is in the counters.
func (r *Restorer) markArchived(ctx context.Context, s *Seal) error {
	said, err := parseSeal(s.Text)
	if err != nil {
		return nil // the evidence says so
	}
	for _, chain := range said.archived {
		if !isChainOf(chain, dayOfChain(chain)) {
			continue
		}
		db, err := r.to.part(ctx, dayOfChain(chain))
		if err != nil {
			return err
		}
		if err := db.markArchived(ctx, chain); err != nil {
			return err
		}
	}
	return nil
}

// putBilling writes the counters that were taken.
func (r *Restorer) putBilling(ctx context.Context) error {
	all := r.billed
	r.billed = nil
	if len(all) == 0 || !r.isEmpty {
		return nil
	}
	db, err := r.to.counters(ctx)
	if err != nil {
		return err
	}
	return db.inTx(ctx, func(tx *sql.Tx) error {
		counts := billing{}
		for _, c := range all {
			counts.add(c.BillingCount)
		}
		return db.book(ctx, tx, counts, all[0].Until)
	})
}

// AddDay takes the key of a day, under which the entries that come later are sealed.
func (r *Restorer) AddDay(d ArchivedDay) (err error) {
	r.dayKeys[d.Day], err = r.keys.unwrap(d.Day, d.Wrapped)
	return err
}

// BeginChain begins with a chain, whose entries follow.
func (r *Restorer) BeginChain(ctx context.Context, c ArchivedChain) error {
	if err := errors.Join(r.putBilling(ctx), r.putSeals(ctx)); err != nil {
		return err
	}
	if err := r.endChain(ctx); err != nil {
		return err
	}
	r.chain, r.head = c, r.keys.NewChainCheck(ChainEnd{Chain: c.Chain})
	return nil
}

// An openFrame is a frame that was opened.
type openFrame struct {
	frame
	items       []frameItem
	messages    [][]byte // messages are those of each entry, nil for an erased one.
	hasMessages bool
}

// AddFrame adds the next frame of the chain.
func (r *Restorer) AddFrame(ctx context.Context, a ArchivedFrame) error {
	f := openFrame{frame: frame{
		chain: r.chain.Chain, first: a.First, last: a.Last, digests: a.Digests, link: a.Link, mac: a.MAC,
	}}
	for _, e := range f.links(r.head.Link) {
		if err := r.head.Next(&e); err != nil {
			return err
		}
	}
	key := r.dayKeys[r.chain.Day]
	if key == nil {
		return fmt.Errorf("the key of the day %s is missing", r.chain.Day)
	}
	var err error
	if f.last < f.first || f.last-f.first >= frameLen {
		return errSealed
	}
	if f.items, err = key.openItems(&f.frame, a.Body, isAny); err != nil {
		return err
	}
	if f.messages, err = key.openTexts(&f.frame, "journal_messages", a.Messages, f.items); err != nil {
		return err
	}
	f.hasMessages = a.Messages != nil
	for i := range f.items {
		if f.items[i].isErased() {
			continue
		}
		e, err := f.items[i].entry()
		if err == nil {
			err = putMessages(e.Steps, f.messages[i])
		}
		if err != nil {
			return err
		}
		r.entries = append(r.entries, e)
	}
	if r.isEmpty {
		r.frames = append(r.frames, f)
	}
	if max(len(r.entries), len(r.frames)) < restoreBatch {
		return nil
	}
	return r.flush(ctx)
}

// endChain writes what is left of a chain.
func (r *Restorer) endChain(ctx context.Context) error {
	if r.chain.Chain == "" {
		return nil
	}
	if r.head.Seq != r.chain.Seq || !bytes.Equal(r.head.Link, r.chain.Link) && r.chain.Seq > 0 {
		return fmt.Errorf("the chain %s has %d entries, not %d", r.chain.Chain, r.head.Seq, r.chain.Seq)
	}
	return r.flush(ctx)
}

// flush writes what has come of the chain.
func (r *Restorer) flush(ctx context.Context) error {
	defer func() { r.frames, r.entries = nil, nil }()
	if !r.isEmpty {
		if len(r.entries) == 0 {
			return nil
		}
		n, err := r.to.Write(ctx, r.entries)
		r.added += n
		return err
	}
	db, err := r.to.part(ctx, r.chain.Day)
	if err != nil {
		return err
	}
	if err := db.restore(ctx, &r.chain, r.head.ChainEnd, r.frames, r.entries); err != nil {
		return err
	}
	r.added += len(r.entries)
	return nil
}

// sealAgain seals a frame under the keys of this database, and adds its rows. An entry whose key was forgotten gets a
// mark, so that each node counts it as such: one that has the key still would not open the old text under a new day.
func (db *database) sealAgain(to *framesToWrite, f *openFrame) error {
	day := db.keyOf(f.day())
	var items, messages []byte
	for i := range f.items {
		item := &f.items[i]
		if item.isErased() {
			if item.isForgotten {
				item.sealed = []byte(forgottenMark)
			}
			items, messages = item.append(items), appendText(messages, "")
			continue
		}
		aead, err := day.aead(item.id)
		if err != nil {
			return err
		}
		item.sealed = db.sealText(aead, f.entryName(i, ""), item.salt, item.content)
		items = item.append(items)
		messages = db.appendSealed(messages, aead, f.entryName(i, "journal_messages"), f.messages[i])
	}
	return db.addSealed(to, &f.frame, day, items, ifSet(f.hasMessages, messages), nil)
}

// addPlaces adds the places of the entries of a frame. Those of erased ones keep others of the same id away.
func (f *openFrame) addPlaces(to *framesToWrite) error {
	for i := range f.items {
		item := &f.items[i]
		made, gone := f.made, int64(1)
		if !item.isErased() {
			e, err := item.entry()
			if err != nil {
				return err
			}
			made, gone = e.Record.Created.UnixMilli(), 0
		}
		to.places = append(to.places, []any{made, item.id, item.kind, f.n, int64(i), gone})
	}
	return nil
}

// Close writes what is left, and returns how many entries were added.
func (r *Restorer) Close(ctx context.Context) (added int, err error) {
	err = errors.Join(r.putBilling(ctx), r.putSeals(ctx), r.endChain(ctx))
	return r.added, err
}

// restore adds frames of a chain, and the records of their entries.
func (db *database) restore(ctx context.Context, c *ArchivedChain, end ChainEnd, frames []openFrame,
	entries []Entry) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	day, err := time.Parse(time.DateOnly, c.Day)
	if err != nil {
		return err
	}
	if db.prepareDay != nil {
		if err := db.prepareDay(ctx, day); err != nil {
			return err
		}
	}
	if _, err := db.dayKey(ctx, c.Day, true); err != nil {
		return err
	}
	var rows framesToWrite
	for i := range frames {
		f := &frames[i]
		f.made, f.n = day.UnixMilli(), db.nextFrame()
		if err := db.sealAgain(&rows, f); err != nil {
			return err
		}
		if err := f.addPlaces(&rows); err != nil {
			return err
		}
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close() // it goes back to the pool
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // nothing after a commit
	if err := db.insertFrames(ctx, conn, &rows); err != nil {
		return err
	}
	if err := db.upsertRecords(ctx, tx, entries); err != nil {
		return err
	}
	if err := db.checkDays(ctx, tx, c.Day); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, db.query(`INSERT INTO journal_chains (chain, day, seq, link, closed)
		VALUES (?, ?, ?, ?, 1) ON CONFLICT (chain) DO UPDATE SET seq = excluded.seq, link = excluded.link`),
		c.Chain, c.Day, end.Seq, end.Link); err != nil {
		return err
	}
	return tx.Commit()
}
