package ranges

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/openthreeds/threeds/message"
)

// An Action is what an update does: actionInd.
type Action uint8

// The actions.
const (
	Add    Action = 'A'
	Delete Action = 'D'
	Modify Action = 'M'
)

// actionOf reads an actionInd in JSON, 0 when it is none.
func actionOf(value []byte) Action {
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return 0
	}
	switch string(text) {
	case "A", "D", "M":
		return Action(text[0])
	}
	return 0
}

// An Update adds, deletes or modifies one range. Info is not used to delete.
type Update struct {
	Range  Range
	Info   *Info
	Entry  uint32 // which entry of cardRangeData it is of
	Action Action
}

// Rules say how updates are applied.
type Rules struct {
	Version  message.Version // of the PRes
	Backward bool            // the last update first: readOrder 02
}

// Apply returns the table that the updates make of base, which stays as it is;
// nil is an empty one. Each update is judged by what those before it left. If
// any is not possible, the table is nil, and the problems name all of them, up to
// maxPairs.
//
// Only a range with the same bounds can be deleted or modified. From 2.3.1 an
// added range may meet no other. Before, it may replace one with the same
// bounds; ranges nest in complete sets only.
func Apply(base *Table, updates []Update, rules Rules) (*Table, message.Problems) {
	if base == nil {
		base = &Table{}
	}
	a := applier{rules: rules, base: base, infos: interner{list: slices.Clip(base.infos)}}
	a.infos.ids = make(map[string]uint32, len(base.infos))
	for i, info := range base.infos {
		a.infos.ids[string(appendInfo(nil, info))] = uint32(i)
	}
	for i := range updates {
		a.lanes[updates[i].Range.Digits-minDigits].prepare(&updates[i])
	}
	for i := range a.lanes {
		a.lanes[i].start(&base.lanes[i])
	}
	named := make(map[*Info]uint32)
	for i := range updates {
		u := &updates[i]
		if rules.Backward {
			u = &updates[len(updates)-1-i]
		}
		info := uint32(0)
		if u.Action != Delete {
			var known bool
			if info, known = named[u.Info]; !known {
				info = a.infos.id(u.Info)
				named[u.Info] = info
			}
		}
		if a.apply(u, info); len(a.problems) == maxPairs {
			break
		}
	}
	if len(a.problems) > 0 {
		return nil, a.problems
	}
	var parts [laneCount]rows
	for i := range a.lanes {
		parts[i] = a.lanes[i].merged()
	}
	return newTable(parts, a.infos.list), nil
}

// An applier is what Apply needs for a while.
type applier struct {
	rules    Rules
	base     *Table
	lanes    [laneCount]changes
	infos    interner
	problems message.Problems
}

func (a *applier) apply(u *Update, info uint32) {
	c := &a.lanes[u.Range.Digits-minDigits]
	found := c.find(u.Range)
	if u.Action != Add {
		switch {
		case !found.ok:
			a.impossible(u)
		case u.Action == Delete:
			c.remove(found)
		default:
			c.rename(found, info)
		}
		return
	}
	if found.ok {
		if a.rules.Version >= message.V231 {
			a.impossible(u)
		} else {
			c.rename(found, info)
		}
		return
	}
	if other, ok := c.overlapping(u.Range); ok {
		a.fault(u, message.RangeOverlap, other.String()+","+u.Range.String())
		return
	}
	c.insert(u.Range, info)
}

// impossible notes an update of a range that is not there, or the adding of one
// that is.
func (a *applier) impossible(u *Update) {
	a.fault(u, message.RangeAction, fmt.Sprintf("%s %c", u.Range, u.Action))
}

// fault notes a problem. Before 2.3.1 there is one code for all of them.
func (a *applier) fault(u *Update, code message.Code, note string) {
	p := message.Problem{Code: code, Path: badEntry(int(u.Entry)).Path, Note: note}
	if a.rules.Version < message.V231 {
		p.Code, p.Note = message.Format, ""
	}
	a.problems = append(a.problems, p)
}

// changes are those of the ranges of one length. Ranges of the base stay where they are,
// and are only marked as gone or given another Info; added ones are kept beside them. All
// that may be added is known from the start, so each has its place in advance.
type changes struct {
	base  *lane
	reach reach             // of a nested base
	gone  map[uint32]uint32 // crossed out: where to look for the next that is not
	named map[uint32]uint32 // ranges of the base with another Info

	starts []uint64 // of all that updates may add, sorted
	added  rows     // what they add, in the same order
	there  bitset   // which of them are
}

// found is a range that is there.
type found struct {
	at    int
	added bool
	ok    bool
}

// prepare keeps a place for the range of an update.
func (c *changes) prepare(u *Update) {
	if u.Action == Add {
		c.starts = append(c.starts, u.Range.Start)
	}
}

func (c *changes) start(base *lane) {
	c.base = base
	c.gone, c.named = make(map[uint32]uint32), make(map[uint32]uint32)
	slices.Sort(c.starts)
	c.starts = slices.Compact(c.starts)
	n := len(c.starts)
	c.added = make(rows, n)
	c.there = newBitset(n)
	if n > 0 && base.ranges.isNested() {
		c.reach = reachOf(base.ranges)
	}
}

// find finds the range with these bounds.
func (c *changes) find(r Range) found {
	if at, ok := slices.BinarySearch(c.starts, r.Start); ok && c.there.has(at) && c.added[at].end() == r.End {
		return found{at, true, true}
	}
	wanted := rowOf(r.Start, r.End, 0)
	at, ok := slices.BinarySearchFunc(c.base.ranges, wanted, func(x, y row) int { return x.compare(&y) })
	if !ok {
		return found{}
	}
	_, gone := c.gone[uint32(at)]
	return found{at, false, !gone}
}

func (c *changes) remove(f found) {
	if f.added {
		c.there.clear(f.at)
	} else {
		c.gone[uint32(f.at)] = uint32(f.at) + 1
		delete(c.named, uint32(f.at))
		c.reach.remove(f.at)
	}
}

func (c *changes) rename(f found, info uint32) {
	if f.added {
		c.added[f.at].info = info
	} else {
		c.named[uint32(f.at)] = info
	}
}

func (c *changes) insert(r Range, info uint32) {
	at, _ := slices.BinarySearch(c.starts, r.Start)
	c.there.set(at)
	c.added[at] = rowOf(r.Start, r.End, info)
}

// left is the first range of the base, from at on, that is not gone. It shortens the
// chain of gone ones on the way, so that the next call is quick.
func (c *changes) left(at uint32) uint32 {
	end := at
	for {
		next, gone := c.gone[end]
		if !gone {
			break
		}
		end = next
	}
	for at != end {
		next := c.gone[at]
		c.gone[at] = end
		at = next
	}
	return end
}

// overlapping finds a range that has numbers in common with r.
func (c *changes) overlapping(r Range) (Range, bool) {
	at, _ := slices.BinarySearch(c.starts, r.Start)
	if next := c.there.from(at); next >= 0 && c.starts[next] <= r.End {
		return c.added[next].in(r.Digits), true
	}
	if last := c.there.before(at); last >= 0 && c.added[last].end() >= r.Start {
		return c.added[last].in(r.Digits), true
	}
	b := c.base.ranges
	first := b.countBelow(r.Start)
	if next := int(c.left(uint32(first))); next < len(b) && b[next].start() <= r.End {
		return b[next].in(r.Digits), true
	}
	last := first - 1
	if c.reach != nil {
		last = c.reach.before(first, r.Start)
	}
	if last < 0 {
		return Range{}, false
	}
	if _, gone := c.gone[uint32(last)]; gone || b[last].end() < r.Start {
		return Range{}, false
	}
	return b[last].in(r.Digits), true
}

// merged are the ranges that the changes leave.
func (c *changes) merged() rows {
	b := c.base.ranges
	out := make(rows, 0, len(b)-len(c.gone)+c.there.count())
	edits := make([]uint32, 0, len(c.gone)+len(c.named))
	for at := range c.gone {
		edits = append(edits, at)
	}
	for at := range c.named {
		edits = append(edits, at)
	}
	slices.Sort(edits)
	// What is between two edits, or two additions, goes over in one piece.
	from := 0
	copyTo := func(to int) {
		for len(edits) > 0 && int(edits[0]) < to {
			at := int(edits[0])
			out = append(out, b[from:at]...)
			if name, ok := c.named[uint32(at)]; ok {
				out = append(out, rowOf(b[at].start(), b[at].end(), name))
			}
			from, edits = at+1, edits[1:]
		}
		out = append(out, b[from:to]...)
		from = to
	}
	for at := c.there.from(0); at >= 0; at = c.there.from(at + 1) {
		copyTo(from + b[from:].countBelow(c.starts[at]))
		out = append(out, c.added[at])
	}
	copyTo(len(b))
	return out
}

// reach tells how far the ranges of a nested base reach: a binary tree in an array. Its
// last half has the end of each range, plus one, or 0 if the range is gone; each place
// before has the greater of the two below it. A nil reach has no ranges.
type reach []uint64

func reachOf(ranges rows) reach {
	half := 1 << bits.Len(uint(len(ranges))) // with a place for the end
	t := make(reach, 2*half)
	for i := range ranges {
		t[half+i] = ranges[i].end() + 1
	}
	for i := half - 1; i > 0; i-- {
		t[i] = max(t[2*i], t[2*i+1])
	}
	return t
}

// remove notes that a range is gone.
func (t reach) remove(at int) {
	if t == nil {
		return
	}
	i := len(t)/2 + at
	t[i] = 0
	for i /= 2; i > 0; i /= 2 {
		t[i] = max(t[2*i], t[2*i+1])
	}
}

// before is the last range below at that reaches n, -1 when there is none.
func (t reach) before(at int, n uint64) int {
	half := len(t) / 2
	i := half + at
	for i > 1 && (i%2 == 0 || t[i-1] <= n) {
		i /= 2
	}
	if i <= 1 {
		return -1
	}
	for i--; i < half; {
		i *= 2
		if t[i+1] > n {
			i++
		}
	}
	return i - half
}

// A bitset is a set of numbers below a bound that can be walked in both
// directions: each bit of a level says whether a word of the one below has any.
type bitset [][]uint64

func newBitset(n int) bitset {
	var b bitset
	n++ // a place for the end
	for {
		n = (n + 63) / 64
		b = append(b, make([]uint64, n))
		if n <= 1 {
			return b
		}
	}
}

func (b bitset) has(i int) bool { return b[0][i/64]>>(i%64)&1 != 0 }

func (b bitset) set(i int) {
	for _, level := range b {
		level[i/64] |= 1 << (i % 64)
		i /= 64
	}
}

func (b bitset) clear(i int) {
	for _, level := range b {
		if level[i/64] &^= 1 << (i % 64); level[i/64] != 0 {
			return
		}
		i /= 64
	}
}

// from is the lowest number that is at least i, -1 when there is none.
func (b bitset) from(i int) int {
	for up, level := range b {
		if i/64 >= len(level) {
			return -1
		}
		if w := level[i/64] >> (i % 64); w != 0 {
			i += bits.TrailingZeros64(w)
			for ; up > 0; up-- {
				i = i*64 + bits.TrailingZeros64(b[up-1][i])
			}
			return i
		}
		i = i/64 + 1
	}
	return -1
}

// before is the highest number below i, -1 when there is none.
func (b bitset) before(i int) int {
	for up, level := range b {
		if i == 0 {
			return -1
		}
		if i%64 != 0 {
			if w := level[i/64] << (64 - i%64); w != 0 {
				i -= bits.LeadingZeros64(w) + 1
				for ; up > 0; up-- {
					i = i*64 + 63 - bits.LeadingZeros64(b[up-1][i])
				}
				return i
			}
		}
		i /= 64
	}
	return -1
}

func (b bitset) count() (n int) {
	for _, w := range b[0] {
		n += bits.OnesCount64(w)
	}
	return n
}
