package ranges

import (
	"fmt"
	"maps"
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

// actionOf returns the action that an actionInd in JSON is; 0 if it is none.
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
	Backward bool            // the last update is applied first: readOrder 02
}

// Apply returns the table that the updates make of base, which stays as it is; a nil base is
// an empty one. Each update is judged by what those before it have left. If any update is not
// possible the table is nil, and the problems name each such update, up to maxPairs.
//
// Only a range with the same bounds can be deleted or modified. From 2.3.1 an added range may
// have no number in common with another. Before, it may replace a range with the same bounds;
// ranges lie within others in complete sets only.
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

// An applier is the state of one call of Apply.
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
			a.addImpossible(u)
		case u.Action == Delete:
			c.remove(found)
		default:
			c.rename(found, info)
		}
		return
	}
	if found.ok {
		if a.rules.Version >= message.V231 {
			a.addImpossible(u)
		} else {
			c.rename(found, info)
		}
		return
	}
	if other, ok := c.overlapping(u.Range); ok {
		a.addProblem(u, message.RangeOverlap, other.String()+","+u.Range.String())
		return
	}
	c.insert(u.Range, info)
}

// addImpossible records an update of a range that is not there, or the addition of one that is.
func (a *applier) addImpossible(u *Update) {
	a.addProblem(u, message.RangeAction, fmt.Sprintf("%s %c", u.Range, u.Action))
}

// addProblem records a problem. Before 2.3.1 there is one code for all of them.
func (a *applier) addProblem(u *Update, code message.Code, note string) {
	p := message.Problem{Code: code, Path: badEntry(int(u.Entry)).Path, Note: note}
	if a.rules.Version < message.V231 {
		p.Code, p.Note = message.Format, ""
	}
	a.problems = append(a.problems, p)
}

// changes collect what updates do to the ranges of one length. Ranges of the base stay where they are, and are only
// marked as gone or given another Info. Added ranges are kept next to them. All ranges that updates may add are known
// before the first is applied, so each has its place in advance.
type changes struct {
	base  *lane
	reach reach             // of a nested base
	gone  map[uint32]uint32 // deleted ranges of the base: where to look for the next one that is not deleted
	named map[uint32]uint32 // ranges of the base with another Info

	starts []uint64 // the starts of all ranges that updates may add, sorted
	added  rows     // the added ranges, in the same order
	there  bitset   // which of added are there
}

// found is the place of a range.
type found struct {
	at    int
	added bool // it is in changes.added, and not in the base
	ok    bool // there is such a range
}

// prepare reserves a place for the range of an update.
func (c *changes) prepare(u *Update) {
	if u.Action == Add {
		c.starts = append(c.starts, u.Range.Start)
	}
}

// start makes the places, after prepare was called with all updates.
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

// find returns the place of the range with these bounds.
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

// nextLeft returns the first range of the base, from at on, that is not gone. It shortens the
// chain of gone ranges on the way, so that the next call is quick.
func (c *changes) nextLeft(at uint32) uint32 {
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
	if next := c.there.next(at); next >= 0 && c.starts[next] <= r.End {
		return c.added[next].in(r.Digits), true
	}
	if last := c.there.before(at); last >= 0 && c.added[last].end() >= r.Start {
		return c.added[last].in(r.Digits), true
	}
	b := c.base.ranges
	first := b.countBelow(r.Start)
	if next := int(c.nextLeft(uint32(first))); next < len(b) && b[next].start() <= r.End {
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

// merged returns the ranges that the changes leave.
func (c *changes) merged() rows {
	b := c.base.ranges
	out := make(rows, 0, len(b)-len(c.gone)+c.there.count())
	edits := make([]uint32, 0, len(c.gone)+len(c.named))
	edits = slices.AppendSeq(slices.AppendSeq(edits, maps.Keys(c.gone)), maps.Keys(c.named))
	slices.Sort(edits)
	// The rows between two edits or additions are copied in one piece.
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
	for at := c.there.next(0); at >= 0; at = c.there.next(at + 1) {
		copyTo(from + b[from:].countBelow(c.starts[at]))
		out = append(out, c.added[at])
	}
	copyTo(len(b))
	return out
}

// A reach says how far the ranges of a nested base reach. It is a binary tree in an array: its last half has the end of
// each range plus one, or 0 if the range is gone, and each node of the first half has the greater of its two children.
// A nil reach has no ranges.
type reach []uint64

func reachOf(ranges rows) reach {
	half := 1 << bits.Len(uint(len(ranges))) // with room for the number behind the last
	t := make(reach, 2*half)
	for i := range ranges {
		t[half+i] = ranges[i].end() + 1
	}
	for i := half - 1; i > 0; i-- {
		t[i] = max(t[2*i], t[2*i+1])
	}
	return t
}

// remove records that a range is gone.
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

// before returns the last range below at that reaches n; -1 if there is none.
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

// A bitset is a set of numbers below a bound, with a quick way to the next number in both
// directions: each bit of a level says whether a word of the level below has any bit.
type bitset [][]uint64

func newBitset(n int) bitset {
	var b bitset
	n++ // room for the number behind the last
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

// next returns the lowest number that is at least i; -1 if there is none.
func (b bitset) next(i int) int {
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

// before returns the highest number below i; -1 if there is none.
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
