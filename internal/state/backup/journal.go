package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/store"
)

// The kinds of rows of a journal, which come after all others: one journalRows, and then what [journal.Archive] passes
// to its visitor, in that order. If something was erased meanwhile, another journalRows follows, and all of it once
// more. Rows of the journal before the last journalRows do not count.
const (
	journalRows = "journal"
	billingRows = "journalBilling"
	sealRows    = "journalSeal"
	dayRows     = "journalDay"
	chainRows   = "journalChain"
	frameRows   = "journalFrame"
	EntryRows   = "journalEntry" // under which [Counts] has the entries of the journal; no row is of this kind
)

// A Journal is the journal that a backup copies, or into which the journal of a backup is restored. Its entries are
// sealed in the backup as they are in the store, so a restore needs the same keys.
type Journal struct {
	Keys *journal.Keys                                    // nil means that this machine has no file of them
	Open func(ctx context.Context) (journal.Store, error) // called when there is something to read or to write

	missing []string // days with a key that Keys do not open, found when the journal was written
}

// MissingDays returns the days of the journal that Keys do not open, the first one first. Call it after [Write].
func (j *Journal) MissingDays() []string { return slices.Sorted(slices.Values(j.missing)) }

// A JournalError says why the journal of a backup was not restored, or in part. All else was restored.
type JournalError struct{ err error }

func (e *JournalError) Error() string { return e.err.Error() }

func (e *JournalError) Unwrap() error { return e.err }

// errNoKeys refuses the journal of a backup where its keys are not.
var errNoKeys = errors.New(
	"has a journal, and journal-keys.json is not on this machine: put the file of that time in place")

// errSeen ends a visit that has seen enough.
var errSeen = errors.New("enough was seen")

// opensDays reports whether the keys open one of the first days of an archive, or the archive has no days. This shows
// whether the keys belong to another journal, without a second reading of all entries.
func (j *Journal) opensDays(ctx context.Context, archive journal.Archive) (bool, error) {
	opens, days := false, 0
	err := archive.Visit(ctx, journal.Visitor{
		Billing: func(journal.ArchivedBilling) error { return nil },
		Seal:    func(journal.Seal) error { return nil },
		Day: func(d journal.ArchivedDay) error {
			days++
			err := j.Keys.CheckDay(d)
			opens = opens || err == nil
			return nil
		},
		Chain: func(journal.ArchivedChain) error { return errSeen },
	})
	if errors.Is(err, errSeen) {
		err = nil
	}
	return opens || days == 0, err
}

// errNoJournal refuses the journal of a backup where there is none.
var errNoJournal = errors.New("has a journal, and the configuration has none (journal: off)")

// write calls put with each row of the journal, and returns how many entries they have.
func (j *Journal) write(ctx context.Context, put func(store.Row) error) (entries int, err error) {
	st, err := j.Open(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	archive, ok := st.(journal.Archive)
	if !ok {
		return 0, errors.New("this kind of journal cannot be backed up")
	}
	opens, err := j.opensDays(ctx, archive)
	if err != nil {
		return 0, err
	}
	first := store.NewRow(journalRows)
	if opens { // else the keys are those of another journal, and the right ones are not refused later
		first.Text["cardKeys"] = strings.Join(j.Keys.CardKeys(), " ")
	}
	err = archive.Visit(ctx, journal.Visitor{
		Begin: func() error {
			entries, j.missing = 0, nil
			return put(first)
		},
		Billing: func(c journal.ArchivedBilling) error {
			row := store.NewRow(billingRows)
			row.Text["month"], row.Text["merchant"], row.Text["api"], row.Text["kind"] = c.Month, c.Merchant, c.API, c.Kind
			row.Text["deviceChannel"], row.Text["messageCategory"] = c.DeviceChannel, c.MessageCategory
			row.Number["count"], row.Number["until"] = c.Count, c.Until
			return put(row)
		},
		Seal: func(s journal.Seal) error {
			row := store.NewRow(sealRows)
			row.Number["n"], row.Text["text"], row.Text["keyId"], row.Bytes["signature"] = s.N, s.Text, s.KeyID, s.Signature
			return put(row)
		},
		Day: func(d journal.ArchivedDay) error {
			if err := j.Keys.CheckDay(d); err != nil {
				j.missing = append(j.missing, d.Day)
			}
			row := store.NewRow(dayRows)
			row.Text["day"], row.Bytes["wrapped"] = d.Day, d.Wrapped
			return put(row)
		},
		Chain: func(c journal.ArchivedChain) error {
			row := store.NewRow(chainRows)
			row.Text["chain"], row.Text["day"], row.Number["seq"], row.Bytes["link"] = c.Chain, c.Day, c.Seq, c.Link
			return put(row)
		},
		Frame: func(f journal.ArchivedFrame) error {
			entries += int(f.Last - f.First + 1)
			row := store.NewRow(frameRows)
			row.Number["first"], row.Number["last"] = f.First, f.Last
			row.Bytes["digests"], row.Bytes["link"], row.Bytes["mac"], row.Bytes["body"] = f.Digests, f.Link, f.MAC, f.Body
			if f.Messages != nil {
				row.Bytes["messages"] = f.Messages
			}
			return put(row)
		},
	})
	return entries, err
}

// check says whether the journal can take a row of the journal of a backup.
func (j *Journal) check(row store.Row) error {
	switch {
	case j == nil:
		return errNoJournal
	case j.Keys == nil:
		return errNoKeys
	case row.Kind == journalRows:
		return j.Keys.CheckCardKeys(strings.Fields(row.Text["cardKeys"]))
	case row.Kind == dayRows:
		if err := j.Keys.CheckDay(dayOf(row)); err != nil {
			return fmt.Errorf("%w; the backup wants that of its time", err)
		}
	}
	return nil
}

func dayOf(row store.Row) journal.ArchivedDay {
	return journal.ArchivedDay{Day: row.Text["day"], Wrapped: row.Bytes["wrapped"]}
}

// restore adds the rows of a backup from a line on. The backup was read to its end before.
func (j *Journal) restore(ctx context.Context, r *lineReader, from int) (added int, err error) {
	if err := r.readHeader(); err != nil {
		return 0, err
	}
	st, err := j.Open(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	to, err := journal.NewRestorer(ctx, st, j.Keys)
	if err != nil {
		return 0, err
	}
	for ctx.Err() == nil {
		row, err := r.readRow()
		if err == io.EOF {
			return to.Close(ctx)
		}
		if err == nil && r.lines >= from {
			err = addTo(ctx, to, row)
		}
		if err != nil {
			return 0, fmt.Errorf("line %d: %w", r.lines, err)
		}
	}
	return 0, ctx.Err()
}

// addTo adds one row to a journal. Rows of other kinds are left alone.
func addTo(ctx context.Context, to *journal.Restorer, row store.Row) error {
	switch row.Kind {
	case billingRows:
		to.AddBilling(journal.ArchivedBilling{Until: row.Number["until"], BillingCount: journal.BillingCount{
			Month: row.Text["month"], Merchant: row.Text["merchant"], API: row.Text["api"], Kind: row.Text["kind"],
			DeviceChannel: row.Text["deviceChannel"], MessageCategory: row.Text["messageCategory"], Count: row.Number["count"],
		}})
		return nil
	case sealRows:
		return to.AddSeal(ctx, journal.Seal{
			N: row.Number["n"], Text: row.Text["text"], KeyID: row.Text["keyId"], Signature: row.Bytes["signature"],
		})
	case dayRows:
		return to.AddDay(dayOf(row))
	case chainRows:
		return to.BeginChain(ctx, journal.ArchivedChain{
			Chain: row.Text["chain"], Day: row.Text["day"], Seq: row.Number["seq"], Link: row.Bytes["link"],
		})
	case frameRows:
		return to.AddFrame(ctx, journal.ArchivedFrame{
			First: row.Number["first"], Last: row.Number["last"], Digests: row.Bytes["digests"], Link: row.Bytes["link"],
			MAC: row.Bytes["mac"], Body: row.Bytes["body"], Messages: row.Bytes["messages"],
		})
	}
	return nil
}
