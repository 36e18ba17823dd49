package ranges

import (
	"cmp"
	"encoding/binary"
	"runtime"
	"slices"
)

// A tape holds ranges of one length in the order in which they came, encoded in few bytes: a
// tag, the distance from the range before, and the width unless it is that of the range
// before. While two million ranges are collected they take a third of the memory of finished
// rows, and nothing is copied when the tape grows. Snapshots have ranges in the same form.
type tape struct {
	blocks   [][]byte
	count    int
	low      uint64 // the lowest start
	high     uint64 // the highest
	unsorted bool   // some range does not belong behind the one that came before it
	last     segment
}

const (
	blockSize = 64 << 10
	longest   = 3 * binary.MaxVarintLen64
)

func (t *tape) add(start, end uint64, tag uint32) {
	n, before := len(t.blocks)-1, t.last
	if n < 0 || len(t.blocks[n])+longest > blockSize {
		t.blocks = append(t.blocks, make([]byte, 0, blockSize))
		n++
		before = segment{} // each block can be read alone
	}
	t.blocks[n] = appendRange(t.blocks[n], before, segment{start, end, tag})
	switch {
	case t.count == 0:
		t.low, t.high = start, start
	case t.last.isBefore(segment{start: start, end: end}):
		t.high = max(t.high, start)
	default:
		t.unsorted = true
		t.low, t.high = min(t.low, start), max(t.high, start)
	}
	t.last = segment{start, end, tag}
	t.count++
}

// appendRange appends a range to b, encoded as what differs from the range before it.
func appendRange(b []byte, before, s segment) []byte {
	width, same := s.end-s.start, uint64(0)
	if width == before.end-before.start {
		same = 1
	}
	b = binary.AppendUvarint(b, uint64(s.info)<<1|same)
	b = binary.AppendVarint(b, int64(s.start-before.end)) // wraps around: so does reading
	if same == 0 {
		b = binary.AppendUvarint(b, width)
	}
	return b
}

// readRange decodes what appendRange has appended, and returns its length in b. The length is
// 0 if b does not begin with such a range.
func readRange(b []byte, before segment) (s segment, n int) {
	tag, n1 := binary.Uvarint(b)
	if n1 <= 0 || tag > 1<<33-1 {
		return s, 0
	}
	gap, n2 := binary.Varint(b[n1:])
	if n2 <= 0 {
		return s, 0
	}
	width, n3 := before.end-before.start, 0
	if tag&1 == 0 {
		if width, n3 = binary.Uvarint(b[n1+n2:]); n3 <= 0 {
			return s, 0
		}
	}
	s.start = before.end + uint64(gap)
	s.end = s.start + width
	s.info = uint32(tag >> 1)
	return s, n1 + n2 + n3
}

// isBefore reports whether a range comes before another in a table.
func (s segment) isBefore(o segment) bool {
	return s.start < o.start || s.start == o.start && s.end > o.end
}

// each calls f with the ranges in the order in which they came. Between blocks it yields the
// processor.
func (t *tape) each(f func(segment)) {
	for _, b := range t.blocks {
		runtime.Gosched()
		var s segment
		for n := 0; len(b) > 0; b = b[n:] {
			s, n = readRange(b, s)
			f(s)
		}
	}
}

// sorted returns the ranges by start, the wider first. Ranges with equal bounds stay in the
// order in which they came. A tag t becomes the Info number names[t].
func (t *tape) sorted(names []uint32) rows {
	if !t.unsorted {
		all := make(rows, 0, t.count)
		t.each(func(s segment) { all = append(all, rowOf(s.start, s.end, names[s.info])) })
		return all
	}
	// The ranges are put into buckets by start, and then each bucket is sorted. That needs hardly any memory besides the
	// rows.
	span, shift := t.high-t.low, 0
	for span>>shift > uint64(max(t.count/4, 16)) {
		shift++
	}
	next := make([]uint32, span>>shift+2) // where the next of a bucket goes
	t.each(func(s segment) { next[(s.start-t.low)>>shift+1]++ })
	for i := 1; i < len(next); i++ {
		next[i] += next[i-1]
	}
	all := make(rows, t.count)
	t.each(func(s segment) {
		at := &next[(s.start-t.low)>>shift]
		all[*at] = rowOf(s.start, s.end, names[s.info])
		*at++
	})
	from := uint32(0)
	for _, to := range next[:len(next)-1] {
		all[from:to].sort()
		from = to
	}
	return all
}

// sort sorts rows. It is fast if most of them are sorted already.
func (c rows) sort() {
	for i := 1; i < len(c); i++ {
		if c[i-1].start() >= c[i].start() {
			slices.SortStableFunc(c, func(x, y row) int { return x.compare(&y) })
			return
		}
	}
}

// compare orders ranges so that each comes after the ranges that contain it.
func (r *row) compare(o *row) int {
	if c := cmp.Compare(r.start(), o.start()); c != 0 {
		return c
	}
	return cmp.Compare(o.end(), r.end())
}
