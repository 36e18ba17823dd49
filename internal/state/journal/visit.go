package journal

import (
	"context"
	"errors"
	"maps"
)

// visitTries is how often a visit begins again because something was erased meanwhile.
const visitTries = 5

// errErasedMeanwhile says that no visit saw the journal as it was at one moment.
var errErasedMeanwhile = errors.New(
	"journal: something was erased each time while the journal was read: do this again when no erasure runs")

// visitWhole tells a visitor of what a journal has, so that all of it fits together: either what an erasure removes is
// there, or its tombstone and its counters for billing are. The seals come first and the entries later, so it begins
// again if something was erased, or its time was over, between them.
func visitWhole(ctx context.Context, a Archive, v Visitor, visitEntries func() error) error {
	for range visitTries {
		if v.Begin != nil {
			if err := v.Begin(); err != nil {
				return err
			}
		}
		before, err := billingVersions(ctx, a)
		if err != nil {
			return err
		}
		newest := int64(0)
		told := v
		told.Seal = func(s Seal) error {
			newest = s.N
			return v.Seal(s)
		}
		if err := visitFirst(ctx, a, told); err != nil {
			return err
		}
		if err := visitEntries(); err != nil {
			return err
		}
		isSame, err := isUnerased(ctx, a, newest, before)
		if err != nil || isSame {
			return err
		}
	}
	return errErasedMeanwhile
}

// billingVersions returns how often the counters for billing of each part of a journal were written.
func billingVersions(ctx context.Context, a Archive) (map[string]int64, error) {
	all := map[string]int64{}
	return all, a.eachPart(ctx, func(name string, db *database) (err error) {
		all[name], err = db.billingVersion(ctx)
		return err
	})
}

// isUnerased reports whether nothing was erased, and nothing was over its time, since a seal was the newest one and the
// counters for billing were written so often.
func isUnerased(ctx context.Context, a Archive, newest int64, before map[string]int64) (bool, error) {
	isSame := true
	err := a.ReadSeals(ctx, newest+1, func(s Seal) error {
		said, err := parseSeal(s.Text)
		isSame = isSame && err == nil && said.kind != ErasureSeal && said.kind != ExpirySeal
		return nil
	})
	if err != nil || !isSame {
		return false, err
	}
	after, err := billingVersions(ctx, a)
	return maps.Equal(before, after), err
}
