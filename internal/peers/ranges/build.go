package ranges

import "errors"

// Faults of a single range.
var (
	ErrBounds   = errors.New("bounds are not 13 to 19 digits")
	ErrLength   = errors.New("start and end differ in length")
	ErrReversed = errors.New("start is above end")
)

// An OverlapError names ranges that may not stand in one set, in pairs: the first maxPairs of
// them.
type OverlapError struct{ Pairs [][2]Range }

func (e *OverlapError) Error() string { return "ranges overlap" }

// maxPairs is how many pairs fit an errorDetail.
const maxPairs = 24

// A Builder collects ranges and makes a Table of them. The zero value is ready to use.
//
// A range may lie within another. Of the ranges that hold a number the narrowest counts, and
// of two with the same bounds the one added last. Build refuses ranges that overlap without
// one lying within the other.
type Builder struct {
	// Disjoint refuses every overlap, as the protocol does from 2.3.1.
	Disjoint bool

	tapes [laneCount]tape
	infos []*Info
	ids   map[*Info]uint32
	count int
}

// Add adds the range from start to end, both inclusive. Info is shared, not
// copied. The error is ErrBounds, ErrLength or ErrReversed; a range that is
// refused leaves the builder as it was.
func (b *Builder) Add(start, end string, info *Info) error {
	r, err := boundsOf(start, end)
	if err != nil {
		return err
	}
	b.add(r, b.id(info))
	return nil
}

func boundsOf[T string | []byte](start, end T) (Range, error) {
	from, ok := number(start)
	to, ok2 := number(end)
	switch {
	case !ok || !ok2:
		return Range{}, ErrBounds
	case len(start) != len(end):
		return Range{}, ErrLength
	case from > to:
		return Range{}, ErrReversed
	}
	return Range{from, to, len(start)}, nil
}

// id returns the number of an Info among those of the builder.
func (b *Builder) id(info *Info) uint32 {
	id, known := b.ids[info]
	if !known {
		if b.ids == nil {
			b.ids = make(map[*Info]uint32)
		}
		id = uint32(len(b.infos))
		b.ids[info] = id
		b.infos = append(b.infos, info)
	}
	return id
}

func (b *Builder) add(r Range, id uint32) {
	b.tapes[r.Digits-minDigits].add(r.Start, r.End, id)
	b.count++
}

// Build makes the table. The error is an *OverlapError. A builder is used once.
func (b *Builder) Build() (*Table, error) {
	var all interner
	names := all.names(b.infos)
	var parts [laneCount]rows
	bad := &OverlapError{}
	for i := range b.tapes {
		parts[i] = b.tapes[i].sorted(names)
		b.tapes[i] = tape{}
		parts[i].findOverlaps(b.Disjoint, i+minDigits, bad)
		if !b.Disjoint {
			parts[i] = parts[i].lastOfEqual()
		}
	}
	if len(bad.Pairs) > 0 {
		return nil, bad
	}
	return newTable(parts, all.list), nil
}

// newTable makes a table of sorted ranges that may stand in one set. The rows become part of
// the table. The Infos get numbers in the order in which the ranges name them, so that equal
// sets make equal tables however they came about.
func newTable(parts [laneCount]rows, infos []*Info) *Table {
	t := &Table{}
	const unused = ^uint32(0)
	names := make([]uint32, len(infos))
	for i := range names {
		names[i] = unused
	}
	for i := range parts {
		for k := range parts[i] {
			id := &parts[i][k].info
			if names[*id] == unused {
				names[*id] = uint32(len(t.infos))
				t.infos = append(t.infos, infos[*id])
			}
			*id = names[*id]
		}
		t.count += len(parts[i])
		t.lanes[i].ranges = parts[i]
		t.lanes[i].buildCover()
		if t.shortest == 0 && len(parts[i]) > 0 {
			t.shortest = i + minDigits
		}
	}
	return t
}

// findOverlaps adds to bad the sorted ranges that may not stand in one set.
func (c rows) findOverlaps(disjoint bool, digits int, bad *OverlapError) {
	if !c.isNested() || len(bad.Pairs) >= maxPairs {
		return
	}
	var open []*row // the ranges around the current one, the widest first
	for i := range c {
		r := &c[i]
		for len(open) > 0 && open[len(open)-1].end() < r.start() {
			open = open[:len(open)-1]
		}
		if len(open) > 0 {
			around := open[len(open)-1]
			if disjoint || r.end() > around.end() {
				if bad.Pairs = append(bad.Pairs, [2]Range{around.in(digits), r.in(digits)}); len(bad.Pairs) == maxPairs {
					return
				}
			}
			switch {
			case r.end() > around.end():
				open = open[:len(open)-1] // the one that reaches farther stays
			case disjoint:
				continue // what meets this one meets the one around it
			}
		}
		open = append(open, r)
	}
}

// lastOfEqual returns sorted ranges without those that another with the same bounds was added after.
func (c rows) lastOfEqual() rows {
	if !c.isNested() {
		return c
	}
	kept := c[:0]
	for i := range c {
		if i+1 == len(c) || c[i].compare(&c[i+1]) != 0 {
			kept = append(kept, c[i])
		}
	}
	return kept
}
