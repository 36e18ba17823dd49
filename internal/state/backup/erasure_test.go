package backup

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// A disturbedStore is a journal in which something happens while a backup reads it.
type disturbedStore struct {
	journal.Archive
	frames     int // frames is how many frames are read before.
	isEachTime bool
	disturb    func(journal.Store) error
}

func (d *disturbedStore) Visit(ctx context.Context, v journal.Visitor) error {
	begin, read, left := v.Begin, v.Frame, d.frames
	if begin == nil {
		return d.Archive.Visit(ctx, v)
	}
	v.Begin = func() error {
		if d.isEachTime {
			left = d.frames
		}
		return begin()
	}
	v.Frame = func(f journal.ArchivedFrame) error {
		if left--; left == 0 {
			if err := d.disturb(d.Archive); err != nil {
				return err
			}
		}
		return read(f)
	}
	return d.Archive.Visit(ctx, v)
}

// disturbed returns a journal in which something happens while a backup reads it.
func disturbed(j *Journal, d disturbedStore) *Journal {
	return opener(j.Keys, func() (journal.Store, error) {
		st, err := j.Open(context.Background())
		if err != nil {
			return nil, err
		}
		d.Archive = st.(journal.Archive)
		return &d, nil
	})
}

// TestD109ABackupWhileSomethingIsErasedIsWhole: what is restored from it has the same export as the journal after the
// erasure, which verifies, and the same counters for billing. So has a backup while a day goes over its time.
func TestD109ABackupWhileSomethingIsErasedIsWhole(t *testing.T) {
	t.Parallel()
	disturbances := map[string]func(journal.Store) error{
		"erasure": func(st journal.Store) error {
			a, _, err := st.Erase(context.Background(), journal.Query{Card: cardKept})
			if a == 0 {
				return errors.Join(errors.New("nothing was erased"), err)
			}
			return nil // Erase ends with the first month of files, for another connection reads it
		},
		"expiry": func(st journal.Store) error { return st.Expire(context.Background(), afterFilling.AddDate(0, 0, -28)) },
	}
	empty := openDir(t) // a backup of it has the journal alone, and leaves it empty
	for what, disturb := range disturbances {
		for _, frames := range []int{1, 4, 10} {
			keys := journal.NewKeys()
			for kind, from := range journals(t, keys) {
				if kind == "sqlite" && what == "expiry" {
					continue // the file of a month goes while it is read
				}
				fillJournal(t, from)
				var file strings.Builder
				counts, err := Write(t.Context(), &file, empty, disturbed(from, disturbedStore{frames: frames, disturb: disturb}), at)
				must(t, err)
				want, wantBilling := exportOf(t, from), billingOf(t, from)
				for other, to := range journals(t, from.Keys) {
					if frames > 1 && other == kind {
						continue // once is enough, and it takes long
					}
					report, err := Restore(t.Context(), empty, strings.NewReader(file.String()), false, to)
					must(t, err)
					got := exportOf(t, to)
					if got != want {
						t.Errorf("%s before frame %d, %s into %s: backed up %v, restored %v, and the export is another one", what,
							frames, kind, other, counts, report.Added)
					}
					if _, err := journal.Verify(strings.NewReader(got), keys.PublicKey()); err != nil {
						t.Errorf("%s before frame %d, %s into %s: verify says %v", what, frames, kind, other, err)
					}
					if got := billingOf(t, to); !slices.Equal(got, wantBilling) {
						t.Errorf("%s before frame %d, %s into %s: counters %v, want %v", what, frames, kind, other, got, wantBilling)
					}
				}
			}
		}
	}
}

// TestD109ABackupWhileErasuresGoOnSaysSo: if something is erased each time, there is no backup.
func TestD109ABackupWhileErasuresGoOnSaysSo(t *testing.T) {
	t.Parallel()
	from := journals(t, journal.NewKeys())["sqlite"]
	fillJournal(t, from)
	n := 0
	j := disturbed(from, disturbedStore{frames: 1, isEachTime: true, disturb: func(st journal.Store) error {
		n++
		if _, err := st.Write(t.Context(), []journal.Entry{entryOf(from.Keys, 20+n, journal.Answered)}); err != nil {
			return err
		}
		_, _, _ = st.Erase(t.Context(), journal.Query{Merchant: "Shop 1"}) // as above
		return nil
	}})
	var file strings.Builder
	if _, err := Write(t.Context(), &file, openDir(t), j, at); err == nil || !strings.Contains(err.Error(), "something was erased") {
		t.Errorf("after %d erasures: %v", n, err)
	}
}
