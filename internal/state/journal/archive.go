package journal

import (
	"context"
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
	First, Last    int64  // First and Last are the numbers of the entries in the chain.
	Digests        []byte // Digests are the digests of all entries, without anything between them.
	Link, MAC      []byte // Link and MAC are those of the last entry.
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
	// Begin is called before all else. If something was erased meanwhile, it is called again, and all follows once more:
	// what came before does not count. It may be nil.
	Begin   func() error
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
	return visitWhole(ctx, s, v, func() error {
		return s.each(ctx, func(db *database) (bool, error) { return false, db.visit(ctx, v) })
	})
}

// Visit implements [Archive].
func (s *tableStore) Visit(ctx context.Context, v Visitor) error {
	return visitWhole(ctx, s, v, func() error { return s.visit(ctx, v) })
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
	}, fmt.Sprintf(`SELECT chain, day, seq, link FROM journal_chains WHERE closed <> %d ORDER BY day, chain`,
		chainArchived))
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

// CheckDay returns an error unless these are the keys of the journal that a day of a backup is of.
func (k *Keys) CheckDay(d ArchivedDay) error {
	_, err := k.unwrap(d.Day, d.Wrapped)
	return err
}
