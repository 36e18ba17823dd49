package journal

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// The seals of an export are those from its first day on. If it has a last day, they end with the last seal that says
// something about its days. Of the seals behind that only the tombstones of its entries are there, each in a line of
// its own kind. Else a file of one old day would have the heads of all minutes since then.

// readAllSeals adds the seals of a store that are new to known, and calls do with each. A [*faultError] says that they
// are not as they were written.
func readAllSeals(ctx context.Context, from sealReader, keys *Keys, known *known,
	do func(*Seal, *statement) error) error {
	newest := Seal{}
	if err := from.ReadSeals(ctx, known.n+1, func(s Seal) error {
		newest = s
		if what := known.add(&s); what != "" {
			return &faultError{what}
		}
		said, _ := parseSeal(s.Text) // add has read it
		return do(&s, said)
	}); err != nil {
		return err
	}
	switch {
	case newest.N > 0 && !newest.isSignedBy(keys.publicKeys()):
		return &faultError{fmt.Sprintf("seal %d is not signed by a key of this journal", newest.N)}
	case known.first > max(known.kept, 1):
		return &faultError{fmt.Sprintf("the seals before %d are gone", known.first)}
	}
	return nil
}

// readSeals is readAllSeals, and notes what does not fit.
func (w *exportWriter) readSeals(ctx context.Context, known *known, do func(*Seal, *statement) error) error {
	if w.from == nil {
		return nil
	}
	err := readAllSeals(ctx, w.from, w.keys, known, do)
	if fault, ok := errors.AsType[*faultError](err); ok {
		w.fail(fault)
		return nil
	}
	return err
}

// writeSeals writes the seals of the time of the export.
func (w *exportWriter) writeSeals(ctx context.Context) error {
	from, to := w.query.spanOfDays()
	w.lastSeal = math.MaxInt64
	if to != "" {
		last, all := int64(0), newKnown()
		if err := readAllSeals(ctx, w.from, w.keys, &all, func(s *Seal, said *statement) error {
			if said.isAbout(from, to) {
				last = s.N
			}
			return nil
		}); err == nil && all.lastDay >= to {
			w.lastSeal = last
		}
	}
	return w.readSeals(ctx, &w.known, func(s *Seal, said *statement) error {
		if dayOf(said.at) < from {
			return nil
		}
		return w.putSeal(s, said)
	})
}

// putSeal writes a seal, if the export needs it.
func (w *exportWriter) putSeal(s *Seal, said *statement) error {
	from, to := w.query.spanOfDays()
	switch {
	case s.N <= w.lastSeal:
		return w.put(s.line("seal"))
	case said.hasErased(from, to):
		return w.put(s.line("tombstone"))
	}
	return nil
}

// isAbout reports whether a statement that is no tombstone is about one of the days from one to another.
func (s *statement) isAbout(from, to string) bool {
	isIn := func(chain string) bool {
		day := dayOfChain(chain)
		return chain != AuditChain && day >= from && day <= to
	}
	if s.kind == DaySeal && s.days[0] <= to && s.days[1] >= from {
		return true
	}
	for _, end := range s.chains {
		if isIn(end.Chain) {
			return true
		}
	}
	for _, chain := range append(s.broken[:len(s.broken):len(s.broken)], s.archived...) {
		if isIn(chain) {
			return true
		}
	}
	return false
}

// hasErased reports whether a statement is a tombstone of entries of one of the days from one to another.
func (s *statement) hasErased(from, to string) bool {
	for chain := range s.erased {
		if day := dayOfChain(chain); day >= from && day <= to {
			return true
		}
	}
	return false
}

// errArchivedMeanwhile says that an export lacks a chain, and nothing was changed.
var errArchivedMeanwhile = errors.New(
	"journal: a day was archived while the export was written: export again")

// isArchivedMeanwhile reports whether a chain was archived since the export began.
func (w *exportWriter) isArchivedMeanwhile(ctx context.Context, chain string) (bool, error) {
	err := w.readSeals(ctx, &w.fresh, func(*Seal, *statement) error { return nil })
	return w.fresh.archived[chain], err
}
