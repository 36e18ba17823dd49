// Package rangequery answers what people ask of card ranges. Use [Find] for the ranges that hold cards with a prefix,
// [Compare] for what differs between two generations, and [ShowInfo] and [DescribeInfo] for what is said of a range.
// [NewStatus] says how things stand with the ranges of a scheme, and [WriteStatuses] prints that. A [File] reads the
// ranges that somebody has in a file, and [WriteCSV] writes them into one.
//
// The command line and the admin API use the same answers. No whole card number is in one.
package rangequery

import (
	"github.com/openthreeds/threeds/internal/peers/ranges"
)

const (
	mostFound   = 20 // ranges of a scheme that Find shows
	mostChanges = 50 // changes that Compare shows
)

// A Match is what is found in one scheme.
type Match struct {
	Scheme     string  `json:"scheme"`
	Generation int64   `json:"generation"` // 0: the scheme has no ranges
	Count      int     `json:"count"`
	Ranges     []Range `json:"ranges"`

	Used  *ranges.Generation `json:"-"`
	Infos []*ranges.Info     `json:"-"` // of Ranges
}

// IsCard reports whether so many digits are a card number, not the beginning of one.
func IsCard(digits string) bool { return len(digits) >= 13 }

// Find looks in one generation of a scheme, with its number: for the narrowest range that holds a card number, or for
// all that hold one with the prefix.
func Find(scheme string, number int64, g *ranges.Generation, prefix string) *Match {
	m := &Match{Scheme: scheme, Generation: number, Ranges: []Range{}, Used: g}
	if g == nil {
		return m
	}
	if IsCard(prefix) {
		info := g.Table.Lookup(prefix)
		if info == nil {
			return m
		}
		var narrowest ranges.Range
		for r := range g.Table.Prefixed(prefix) {
			if r.Digits <= len(prefix) {
				narrowest = r // those with longer bounds, and those within another, come later
			}
		}
		start, end := boundsAround(narrowest, prefix)
		m.add(start, end, info)
		return m
	}
	for r, info := range g.Table.Prefixed(prefix) {
		if m.Count < mostFound {
			start, end := Bounds(r)
			m.add(start, end, info)
		} else {
			m.Count++
		}
	}
	return m
}

func (m *Match) add(start, end string, info *ranges.Info) {
	m.Count++
	m.Ranges = append(m.Ranges, Range{start, end, ShowInfo(info)})
	m.Infos = append(m.Infos, info)
}

// A Difference is what differs between two generations.
type Difference struct {
	Scheme  string   `json:"scheme"`
	Old     string   `json:"old"`
	New     string   `json:"new"`
	Added   int      `json:"added"`
	Removed int      `json:"removed"`
	Changed int      `json:"changed"`
	First   []Change `json:"first"` // of all of them, in the order of the ranges
}

// A Change is a range that two generations do not have in common.
type Change struct {
	Change string `json:"change"` // added, removed or changed
	Start  string `json:"start"`
	End    string `json:"end"`
	Old    *Info  `json:"old,omitempty"`
	New    *Info  `json:"new,omitempty"`

	Line string `json:"-"` // the change in words
}

// Compare returns what makes one generation of another. Their names are those under which they were asked for.
func Compare(scheme, oldName, newName string, old, now *ranges.Generation) *Difference {
	d := &Difference{Scheme: scheme, Old: oldName, New: newName, First: []Change{}}
	for c := range ranges.Diff(old.Table, now.Table) {
		d.add(c)
	}
	return d
}

// add counts a change, and keeps it while there is room.
func (d *Difference) add(c ranges.Change) {
	start, end := Bounds(c.Range)
	shown := Change{Start: start, End: end, Old: ShowInfo(c.Old), New: ShowInfo(c.New)}
	hasRoom := len(d.First) < mostChanges
	switch {
	case c.Old == nil:
		d.Added++
		if hasRoom {
			shown.Change, shown.Line = "added", "+ "+c.Range.String()+"  "+InfoLine(c.New)
		}
	case c.New == nil:
		d.Removed++
		if hasRoom {
			shown.Change, shown.Line = "removed", "- "+c.Range.String()+"  "+InfoLine(c.Old)
		}
	default:
		d.Changed++
		if hasRoom {
			shown.Change, shown.Line = "changed", "~ "+c.Range.String()+"  "+InfoLine(c.Old)+"  ->  "+InfoLine(c.New)
		}
	}
	if hasRoom {
		d.First = append(d.First, shown)
	}
}
