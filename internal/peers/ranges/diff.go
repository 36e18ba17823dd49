package ranges

import "iter"

// A Change is a range that two tables do not have in common. Old is nil if the range is new,
// and New is nil if it is gone.
type Change struct {
	Range    Range
	Old, New *Info
}

// Diff yields the changes that make one table of another, in the order of All.
func Diff(old, new *Table) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		if old == nil {
			old = &Table{}
		}
		if new == nil {
			new = &Table{}
		}
		var all interner
		oldNames, newNames := all.names(old.infos), all.names(new.infos)
		for i := range old.lanes {
			x, y := old.lanes[i].ranges, new.lanes[i].ranges
			for n, k := 0, 0; n < len(x) || k < len(y); {
				c := Change{}
				side := order(x, n, y, k)
				if side <= 0 {
					c.Range, c.Old = x[n].in(i+minDigits), old.infos[x[n].info]
				}
				if side >= 0 {
					c.Range, c.New = y[k].in(i+minDigits), new.infos[y[k].info]
				}
				same := side == 0 && oldNames[x[n].info] == newNames[y[k].info]
				if !same && !yield(c) {
					return
				}
				if side <= 0 {
					n++
				}
				if side >= 0 {
					k++
				}
			}
		}
	}
}

// order says which of two ranges comes first. A range behind the end of its table comes last.
func order(x rows, n int, y rows, k int) int {
	switch {
	case n == len(x):
		return 1
	case k == len(y):
		return -1
	}
	return x[n].compare(&y[k])
}

// Equal reports whether two tables have the same ranges, and say the same of them.
func (t *Table) Equal(other *Table) bool {
	for range Diff(t, other) {
		return false
	}
	return true
}
