package journal

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"
)

// An ArchivedDay is the key of a day, wrapped under the keys of the journal.
type ArchivedDay struct {
	Day     string
	Wrapped []byte
}

// An ArchivedChain is a chain as far as it had come.
type ArchivedChain struct {
	Chain, Day string
	Seq        int64
	Link       []byte
}

// An ArchivedFrame are entries of a chain that follow each other, as a store has them: Body and Messages are sealed
// under the key of their day. There are no Messages when no entry has any, or when their time is over.
type ArchivedFrame struct {
	First, Last    int64  // the numbers of the entries in the chain
	Digests        []byte // of the entries, one behind the other
	Link, MAC      []byte // of the last entry
	Body, Messages []byte
}

// An ArchivedBilling is a counter of records that have gone. All records of before Until, milliseconds since 1970, are
// counted; it is the same in all counters of a journal.
type ArchivedBilling struct {
	BillingCount
	Until int64
}

// A Visitor is told what a journal has: first its counters of what has gone and its seals, then all days of a part of
// it, then each chain with its frames behind it.
type Visitor struct {
	Billing func(ArchivedBilling) error
	Seal    func(Seal) error
	Day     func(ArchivedDay) error
	Chain   func(ArchivedChain) error
	Frame   func(ArchivedFrame) error
}

// An Archive is a store whose rows a backup can hold. Both kinds of stores are one.
type Archive interface {
	Store
	evidenceParts
	// Visit tells a visitor of all rows. Chains that grow meanwhile are told as far as they had come.
	Visit(ctx context.Context, v Visitor) error
	// part returns the database in which the entries of a day are, and makes room for them.
	part(ctx context.Context, day string) (*database, error)
	// counters returns the database that has the counters of what has gone.
	counters(ctx context.Context) (*database, error)
	// booked returns those counters, and billedUntil.
	booked(ctx context.Context) (billing, int64, error)
}

var _, _ Archive = (*fileStore)(nil), (*tableStore)(nil)

// visitFirst tells a visitor of the counters of what has gone, and of the seals.
func visitFirst(ctx context.Context, a Archive, v Visitor) error {
	counts, until, err := a.booked(ctx)
	if err != nil {
		return err
	}
	for _, c := range counts.sorted() {
		if err := v.Billing(ArchivedBilling{c, until}); err != nil {
			return err
		}
	}
	return a.ReadSeals(ctx, 1, v.Seal)
}

// Visit implements [Archive].
func (s *fileStore) Visit(ctx context.Context, v Visitor) error {
	if err := visitFirst(ctx, s, v); err != nil {
		return err
	}
	return s.each(ctx, func(db *database) (bool, error) { return false, db.visit(ctx, v) })
}

// Visit implements [Archive].
func (s *tableStore) Visit(ctx context.Context, v Visitor) error {
	if err := visitFirst(ctx, s, v); err != nil {
		return err
	}
	return s.visit(ctx, v)
}

func (s *fileStore) counters(ctx context.Context) (*database, error) {
	return s.month(ctx, billingFile, true)
}

func (s *tableStore) counters(context.Context) (*database, error) { return s.database, nil }

func (s *fileStore) part(ctx context.Context, day string) (*database, error) {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		return nil, err
	}
	return s.month(ctx, at.Format(monthForm), true)
}

func (s *tableStore) part(context.Context, string) (*database, error) { return s.database, nil }

// visit tells a visitor of the rows of a database.
func (db *database) visit(ctx context.Context, v Visitor) error {
	chains, err := readRows(ctx, db, func(c *ArchivedChain) []any {
		return []any{&c.Chain, &c.Day, &c.Seq, &c.Link}
	}, `SELECT chain, day, seq, link FROM journal_chains ORDER BY day, chain`)
	if err != nil {
		return err
	}
	days, err := readRows(ctx, db, func(d *ArchivedDay) []any { return []any{&d.Day, &d.Wrapped} },
		`SELECT day, wrapped FROM journal_keys ORDER BY day`)
	if err != nil {
		return err
	}
	for _, day := range days {
		if err := v.Day(day); err != nil {
			return err
		}
	}
	for _, chain := range chains {
		if err := v.Chain(chain); err != nil {
			return err
		}
		if err := db.visitFrames(ctx, &chain, v.Frame); err != nil {
			return err
		}
	}
	return nil
}

// visitFrames calls do with each frame of a chain, as far as it had come.
func (db *database) visitFrames(ctx context.Context, c *ArchivedChain, do func(ArchivedFrame) error) error {
	day, err := time.Parse(time.DateOnly, c.Day)
	if err != nil {
		return err
	}
	begin, _ := spanOfDay(day)
	return db.eachFrame(ctx, db, frameMessages, func(f *frame) error {
		return do(ArchivedFrame{f.first, f.last, f.digests, f.link, f.mac, f.body, f.messages})
	}, `chain = ? AND made = ? AND last <= ?`, c.Chain, begin, c.Seq)
}

// CardKeys returns the names of the keys of card hashes, the newest first.
func (k *Keys) CardKeys() []string { return k.cardKeyNames() }

// CheckCardKeys returns an error unless there are keys of all these names: else no erasure would find the cards that
// were hashed under the others.
func (k *Keys) CheckCardKeys(names []string) error {
	ours := k.cardKeyNames()
	if slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(ours, name) }) {
		return errors.New(
			"journal-keys.json has other keys than the journal that was backed up, so that no erasure would find its cards: " +
				"put the file of that time in place, or add its keys behind those that are there")
	}
	return nil
}

// OpenDay returns the key of a day of a backup, or an error that says that these are not the keys of its journal.
func (k *Keys) OpenDay(d ArchivedDay) ([]byte, error) { return k.unwrap(d.Day, d.Wrapped) }

// restoreBatch is how many entries are restored in one transaction.
const restoreBatch = 500

// A Restorer adds what an archive has to a journal. A journal that is empty gets the same chains, with their
// signatures. Where there are entries already, others get a place in chains of their own, as in [Import],
// and what is there or was erased stays. Call its methods in the order in which Visit of [Archive] tells of
// rows, and Close at the end.
type Restorer struct {
	to      Archive
	keys    *Keys
	dayKeys map[string][]byte
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
	r := &Restorer{to: to, keys: keys, dayKeys: map[string][]byte{}, isEmpty: true}
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
	return db.inTx(ctx, func(tx *sql.Tx) error {
		for _, s := range all {
			if err := db.insertSeal(ctx, tx, s); err != nil {
				return err
			}
		}
		return nil
	})
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
	r.dayKeys[d.Day], err = r.keys.OpenDay(d)
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
	items           []frameItem
	texts, messages []byte // items and messages as they were sealed; no messages if there are none
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
	if f.texts, err = openPackedUnder(key, f.name(), a.Body); err != nil {
		return err
	}
	if f.items, err = itemsOf(&f.frame, f.texts); err != nil {
		return err
	}
	messages := make([][]byte, len(f.items))
	if a.Messages != nil {
		if f.messages, err = openPackedUnder(key, f.name()+"journal_messages", a.Messages); err != nil {
			return err
		}
		if messages, err = textsOf(&f.frame, f.messages); err != nil {
			return err
		}
	}
	for i := range f.items {
		if f.items[i].isErased() {
			continue
		}
		e, err := f.items[i].entry()
		if err == nil {
			err = putMessages(e.Steps, messages[i])
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
		messages := f.messages
		f.messages = nil
		if err := db.addSealed(&rows, &f.frame, f.texts, messages, nil); err != nil {
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
	records, err := recordsOf(entries)
	if err != nil {
		return err
	}
	if err := db.upsertRecords(ctx, tx, entries, records); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, db.query(`INSERT INTO journal_chains (chain, day, seq, link, closed)
		VALUES (?, ?, ?, ?, 1) ON CONFLICT (chain) DO UPDATE SET seq = excluded.seq, link = excluded.link`),
		c.Chain, c.Day, end.Seq, end.Link); err != nil {
		return err
	}
	return tx.Commit()
}
