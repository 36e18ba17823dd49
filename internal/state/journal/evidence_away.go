package journal

import (
	"context"
	"slices"
)

// A shortChain is a chain that has fewer entries than somebody says.
type shortChain struct{ name, what string }

// withoutAway returns the chains that should have all of their entries: without those whose day is over its time or
// archived. A day may have been archived since the seals were read, so it looks at the seals that came meanwhile.
func (e *evidence) withoutAway(ctx context.Context, all []shortChain) ([]shortChain, error) {
	isAway := func(c shortChain) bool { return !e.known.isHere(c.name) }
	if all = slices.DeleteFunc(all, isAway); len(all) == 0 {
		return nil, nil
	}
	db, err := e.parts.sealsPart(ctx, false)
	if err != nil {
		return nil, err
	}
	err = readSealsOf(ctx, db, e.known.n+1, func(s Seal) error {
		said, err := parseSeal(s.Text)
		if err != nil || said.kind != ArchiveSeal || !s.isSignedBy(e.keys.publicKeys()) {
			return nil // the next look at the seals says what is wrong
		}
		all = slices.DeleteFunc(all, func(c shortChain) bool { return slices.Contains(said.archived, c.name) })
		return nil
	})
	return all, err
}
