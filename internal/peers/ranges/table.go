package ranges

import (
	"fmt"
	"iter"
	"slices"
	"sort"
)

// Card numbers and the bounds of ranges have 13 to 19 digits; 19 digits fit a uint64. Bounds
// that are shorter than a card number count as padded to its length, the lower with 0 and the
// upper with 9: the range holds the numbers that begin as its own do. For that the ranges of
// each length are a lane, and a number that is in no range of its length is looked for without
// its last digit among the shorter ones.
const (
	minDigits = 13
	maxDigits = 19
	laneCount = maxDigits - minDigits + 1
)

// A Range is the card numbers of Digits digits from Start to End, both
// inclusive.
type Range struct {
	Start, End uint64
	Digits     int
}

// String is the range as "start-end", with leading zeros.
func (r Range) String() string {
	return fmt.Sprintf("%0*d-%0*d", r.Digits, r.Start, r.Digits, r.End)
}

// A Table maps card numbers to ranges. It never changes once built, so any number of
// goroutines may use it. A nil Table holds nothing.
//
// It has two layers: the ranges as the directory server gave them, which
// updates are applied to and snapshots are made of, and the disjoint segments that look-ups
// search. Where no range lies in another the two layers are the same rows.
type Table struct {
	lanes [laneCount]lane // by length of the number
	infos []*Info         // no two say the same
	count int             // ranges in all lanes

	shortest int // digits of the shortest bounds; 0 without any range
}

// lane is the part of a table for numbers of one length.
type lane struct {
	ranges rows
	cover  rows // disjoint segments

	// samples are the starts of every eighth segment: so few that they stay in the
	// processor's caches.
	samples []uint64
}

// A row is a range or a segment with the number of its Info in Table.infos. It takes
// 20 bytes in one place: with starts, ends and Infos in slices of their own a look-up
// would wait for memory three times.
type row struct{ start0, start1, end0, end1, info uint32 }

func rowOf(start, end uint64, info uint32) row {
	return row{uint32(start), uint32(start >> 32), uint32(end), uint32(end >> 32), info}
}

func (r *row) start() uint64 { return uint64(r.start0) | uint64(r.start1)<<32 }
func (r *row) end() uint64   { return uint64(r.end0) | uint64(r.end1)<<32 }

func (r *row) in(digits int) Range { return Range{r.start(), r.end(), digits} }

// rows are sorted: by start, then the wider first.
type rows []row

// countBelow returns how many of the rows start below n.
func (c rows) countBelow(n uint64) int {
	return sort.Search(len(c), func(i int) bool { return c[i].start() >= n })
}

// Len returns how many ranges the table was built of.
func (t *Table) Len() int {
	if t == nil {
		return 0
	}
	return t.count
}

// Lookup returns what is known of the range that holds the number, or nil when no range does.
// Of several ranges it takes the one with the longest bounds, and of those the narrowest. It
// does not allocate.
func (t *Table) Lookup(pan string) *Info {
	n, ok := number(pan)
	if !ok {
		return nil
	}
	if i := t.find(n, len(pan)); i >= 0 {
		return t.infos[i]
	}
	return nil
}

// find returns the number of the Info for a card number n with so many digits, or -1.
func (t *Table) find(n uint64, digits int) int {
	if t == nil {
		return -1
	}
	for ; digits >= max(t.shortest, minDigits); digits-- {
		if i := t.lanes[digits-minDigits].find(n); i >= 0 {
			return i
		}
		n /= 10
	}
	return -1
}

// find returns the number of the Info for a card number as long as the bounds of the lane, or -1.
func (l *lane) find(n uint64) int {
	i, isSample := slices.BinarySearch(l.samples, n)
	if !isSample {
		i-- // the last sample below n
	}
	if i < 0 {
		return -1
	}
	near := l.cover[i*perSample:]
	at := 0
	for at+1 < len(near) && near[at+1].start() <= n {
		at++
	}
	if near[at].end() >= n {
		return int(near[at].info)
	}
	return -1
}

// All yields the ranges as the directory server gave them: by length, then by
// start, the wider before those within it.
func (t *Table) All() iter.Seq2[Range, *Info] {
	return func(yield func(Range, *Info) bool) {
		if t == nil {
			return
		}
		for i := range t.lanes {
			for k := range t.lanes[i].ranges {
				r := &t.lanes[i].ranges[k]
				if !yield(r.in(i+minDigits), t.infos[r.info]) {
					return
				}
			}
		}
	}
}

// Prefixed yields those ranges that hold a card number with the prefix, in the
// order of All. A prefix has up to 19 digits; with another text it yields
// nothing.
func (t *Table) Prefixed(prefix string) iter.Seq2[Range, *Info] {
	return func(yield func(Range, *Info) bool) {
		if t == nil || len(prefix) > maxDigits {
			return
		}
		n, ok := digits(prefix)
		if !ok {
			return
		}
		for i := range t.lanes {
			low, high := n, n
			for range i + minDigits - len(prefix) {
				low, high = low*10, high*10+9
			}
			for range len(prefix) - i - minDigits {
				low, high = low/10, high/10
			}
			for k := range t.lanes[i].ranges {
				r := &t.lanes[i].ranges[k]
				if r.start() > high {
					break
				}
				if r.end() >= low && !yield(r.in(i+minDigits), t.infos[r.info]) {
					return
				}
			}
		}
	}
}

// buildCover makes the segments that look-ups search, and their samples. The ranges of the lane are final,
// and do not overlap but by nesting.
func (l *lane) buildCover() {
	l.cover = l.ranges
	if l.ranges.isNested() {
		l.cover = flatten(l.ranges)
	}
	l.samples = make([]uint64, 0, (len(l.cover)+perSample-1)/perSample)
	for i := 0; i < len(l.cover); i += perSample {
		l.samples = append(l.samples, l.cover[i].start())
	}
}

// perSample is how many segments share a sample.
const perSample = 8

// isNested reports whether any range lies in another.
func (c rows) isNested() bool {
	for i := 1; i < len(c); i++ {
		if c[i].start() <= c[i-1].end() {
			return true
		}
	}
	return false
}

// flatten turns sorted, nested ranges into disjoint segments: a wider range stops where a narrower one begins, and
// continues after it.
func flatten(ranges rows) rows {
	flat := make(rows, 0, segments(ranges, func(segment) {}))
	segments(ranges, func(s segment) { flat = append(flat, rowOf(s.start, s.end, s.info)) })
	return flat
}

type segment struct {
	start, end uint64
	info       uint32
}

// segments calls emit with the disjoint segments in ascending order, and returns their number.
func segments(ranges rows, emit func(segment)) (n int) {
	var open []segment // ranges not emitted to their end, the widest first; start is where the rest begins
	out := func(s segment) {
		emit(s)
		n++
	}
	closeUpTo := func(limit uint64) {
		for len(open) > 0 && open[len(open)-1].end < limit {
			top := open[len(open)-1]
			open = open[:len(open)-1]
			if top.start <= top.end {
				out(top)
			}
			if len(open) > 0 {
				open[len(open)-1].start = top.end + 1
			}
		}
	}
	for i := range ranges {
		s := segment{ranges[i].start(), ranges[i].end(), ranges[i].info}
		closeUpTo(s.start)
		if len(open) > 0 {
			if around := open[len(open)-1]; around.start < s.start {
				around.end = s.start - 1
				out(around)
			}
		}
		open = append(open, s)
	}
	closeUpTo(^uint64(0))
	return n
}

// number reads a card number or a bound.
func number[T string | []byte](s T) (uint64, bool) {
	if len(s) < minDigits || len(s) > maxDigits {
		return 0, false
	}
	return digits(s)
}

// digits reads up to 19 decimal digits.
func digits[T string | []byte](s T) (n uint64, ok bool) {
	for i := range len(s) {
		c := s[i] - '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + uint64(c)
	}
	return n, true
}
