package ranges

import (
	"cmp"
	"slices"
)

// A generation is the steps that led to a serial number from the one before.
type generation struct {
	serial string // before them
	steps  []step
}

// A step is the change of one range. before and after are nil where there is
// none.
type step struct {
	bounds
	before, after *about
	last          *about // the last that was sent: after, or else before
}

// dropOldGenerations lets go of the generations that are too many.
func (r *Set) dropOldGenerations() {
	if n := len(r.past) - cmp.Or(r.service.Keep, 100); n > 0 {
		r.past = slices.Delete(r.past, 0, n)
	}
}

// since is what changed after a serial number: one entry for each range, deletions
// first, or, inFull, every step in turn. It is false when the number is not known.
func (r *Set) since(serial string, inFull bool) ([]item, bool) {
	if serial == r.serial {
		return nil, true
	}
	from := slices.IndexFunc(r.past, func(g generation) bool { return g.serial == serial })
	if from < 0 {
		return nil, false
	}
	var all []step
	for _, g := range r.past[from:] {
		all = append(all, g.steps...)
	}
	if inFull {
		return itemsOf(all), true
	}
	net := mergeSteps(all)
	changed := slices.DeleteFunc(slices.Clone(net), func(s step) bool { return s.before == s.after })
	if len(changed) == 0 {
		return unchangedItems(net), true
	}
	items := itemsOf(changed)
	slices.SortStableFunc(items, func(a, b item) int { return actionOrder(a.action) - actionOrder(b.action) })
	return items, true
}

// unchangedItems returns entries for changes that cancel each other: a new serial number needs cardRangeData. Each
// entry changes a range into itself.
func unchangedItems(all []step) []item {
	var out []item
	for _, s := range all {
		if s.after != nil {
			out = append(out, item{bounds: s.bounds, about: s.after, action: "M"})
			continue
		}
		for _, action := range []string{"A", "D"} {
			out = append(out, item{bounds: s.bounds, about: s.last, action: action})
		}
	}
	return out
}

func actionOrder(action string) int { return slices.Index([]string{"D", "M", "A"}, action) }

// mergeSteps makes one step of all that happened to a range.
func mergeSteps(all []step) []step {
	at := make(map[bounds]int)
	var out []step
	for _, s := range all {
		if i, known := at[s.bounds]; known {
			out[i].after, out[i].last = s.after, s.last
			continue
		}
		at[s.bounds] = len(out)
		out = append(out, s)
	}
	return out
}

func itemsOf(steps []step) []item {
	var out []item
	for _, s := range steps {
		it := item{bounds: s.bounds, about: s.after, action: "A"}
		switch {
		case s.after == nil:
			it.about, it.action = s.before, "D"
		case s.before != nil:
			it.action = "M"
		}
		out = append(out, it)
	}
	return out
}
