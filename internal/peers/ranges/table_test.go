package ranges

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/openthreeds/threeds/internal/base/randtest"
	"github.com/openthreeds/threeds/message"
)

func TestLookupByBounds(t *testing.T) {
	wide, narrow, long, zero := &Info{ACSEnd: "wide"}, &Info{ACSEnd: "narrow"}, &Info{ACSEnd: "long"}, &Info{ACSEnd: "zero"}
	table := build(t, &Builder{},
		ranged{"4000000000000000", "4999999999999999", wide},
		ranged{"4000001000000000", "4000001999999999", narrow},
		ranged{"4000000000000000000", "4999999999999999999", long},
		ranged{"9999999999999999998", "9999999999999999999", long},
		ranged{"0000000000000", "0000009999999", zero},
	)
	for _, test := range []struct {
		pan  string
		want *Info
	}{
		{"4000000000000000", wide},
		{"4000000999999999", wide},
		{"4000001000000000", narrow},
		{"4000001999999999", narrow},
		{"4000002000000000", wide},
		{"4999999999999999", wide},
		{"5000000000000000", nil},
		{"3999999999999999", nil},
		{"400000000000000", nil},    // 15 digits
		{"40000000000000000", wide}, // 17 digits
		{"400000199999999999", narrow},
		{"50000000000000000", nil},
		{"4000000000000000000", long},
		{"9999999999999999997", nil},
		{"9999999999999999999", long},
		{"0000000000000", zero},
		{"0000010000000", nil},
		{"00000000000000", zero},
		{"0000009999999999999", zero},
		{"0000010000000000000", nil},
		{"", nil},
		{"4000", nil},
		{"40000000000000000000", nil},
		{"400000000000000x", nil},
		{"4000000000000000 ", nil},
	} {
		if got := table.Lookup(test.pan); got != test.want {
			t.Errorf("Lookup(%q) = %v, want %v", test.pan, got, test.want)
		}
	}
	if table.Len() != 5 {
		t.Errorf("Len() = %d, want 5", table.Len())
	}
	var none *Table
	if none.Lookup("4000000000000000") != nil || none.Len() != 0 {
		t.Error("a nil table is not empty")
	}
}

func TestAddRefusesBadBounds(t *testing.T) {
	for _, test := range []struct {
		start, end string
		want       error
	}{
		{"4000000000000001", "4000000000000000", ErrReversed},
		{"4000000000000", "4000000000000000", ErrLength},
		{"400000000000", "400000000000", ErrBounds},
		{"40000000000000000000", "40000000000000000000", ErrBounds},
		{"400000000000000a", "4000000000000000", ErrBounds},
		{"", "", ErrBounds},
		{"4000000000000000", "4000000000000000", nil},
	} {
		var b Builder
		if err := b.Add(test.start, test.end, &Info{}); !errors.Is(err, test.want) {
			t.Errorf("Add(%s, %s) = %v, want %v", test.start, test.end, err, test.want)
		}
	}
}

// TestOverlapIsRefused has the three ways in which two ranges can meet.
func TestOverlapIsRefused(t *testing.T) {
	first, second := &Info{ACSEnd: "first"}, &Info{ACSEnd: "second"}
	for _, test := range []struct {
		name, start, end         string
		refused, refusedDisjoint bool
	}{
		{"apart", "4000000002000", "4000000002999", false, false},
		{"inside", "4000000001200", "4000000001300", false, true},
		{"inside, same start", "4000000001000", "4000000001300", false, true},
		{"inside, same end", "4000000001300", "4000000001999", false, true},
		{"around", "4000000000000", "4000000005000", false, true},
		{"same", "4000000001000", "4000000001999", false, true},
		{"across the end", "4000000001500", "4000000002500", true, true},
		{"across the start", "4000000000500", "4000000001500", true, true},
		{"one number in common", "4000000001999", "4000000002500", true, true},
	} {
		for _, disjoint := range []bool{false, true} {
			b := Builder{Disjoint: disjoint}
			b.Add("4000000001000", "4000000001999", first)
			b.Add(test.start, test.end, second)
			_, err := b.Build()
			overlap, isOverlap := errors.AsType[*OverlapError](err)
			want := test.refused
			if disjoint {
				want = test.refusedDisjoint
			}
			if isOverlap != want {
				t.Errorf("%s, Disjoint %t: Build = %v", test.name, disjoint, err)
			}
			if isOverlap && (len(overlap.Pairs) != 1 || len(overlap.Pairs[0][0].String()) != 27) {
				t.Errorf("%s: overlaps %v", test.name, overlap.Pairs)
			}
		}
	}
}

func TestLastOfEqualBoundsCounts(t *testing.T) {
	first, last := &Info{ACSEnd: "first"}, &Info{ACSEnd: "last"}
	table := build(t, &Builder{},
		ranged{"4000000000000", "4000000000009", first},
		ranged{"5000000000000", "5000000000009", first},
		ranged{"4000000000000", "4000000000009", last},
	)
	if got := table.Lookup("4000000000005"); got != last {
		t.Error("the range added first won")
	}
	if table.Len() != 2 {
		t.Errorf("Len() = %d, want 2", table.Len())
	}
}

// TestLookupIsNaiveSearch: whatever the ranges, a look-up finds what a scan for
// the longest bounds, and of those for the narrowest, latest range finds.
func TestLookupIsNaiveSearch(t *testing.T) {
	randtest.Check(t, func(t *randtest.T) {
		set := drawNested(t)
		var b Builder
		for _, r := range set {
			if err := b.Add(r.start, r.end, r.info); err != nil {
				t.Fatalf("Add: %v", err)
			}
		}
		table, err := b.Build()
		if err != nil {
			t.Fatalf("Build of nested ranges: %v", err)
		}
		for _, r := range set {
			for _, pan := range around(r) {
				if got, want := table.Lookup(pan), naive(set, pan); got != want {
					t.Fatalf("Lookup(%s) = %v, want %v", pan, got, want)
				}
			}
		}
	})
}

// TestBuildFindsEveryOverlap: whatever the ranges, Build refuses exactly the
// sets in which a comparison of all pairs finds an overlap.
func TestBuildFindsEveryOverlap(t *testing.T) {
	randtest.Check(t, func(t *randtest.T) {
		b := Builder{Disjoint: t.Bool()}
		var set []Range
		bad := false
		for range t.IntRange(0, 8) {
			x := t.Uint64Range(0, 40)
			y := t.Uint64Range(x, min(x+12, 45))
			r := Range{4_000_000_000_000 + x, 4_000_000_000_000 + y, 13}
			for _, o := range set {
				meet := r.Start <= o.End && o.Start <= r.End
				nested := r.Start <= o.Start && o.End <= r.End || o.Start <= r.Start && r.End <= o.End
				bad = bad || meet && (b.Disjoint || !nested)
			}
			set = append(set, r)
			b.add(r, b.id(&Info{}))
		}
		if _, err := b.Build(); (err != nil) != bad {
			t.Fatalf("Build = %v, overlap: %t", err, bad)
		}
	})
}

// TestFaultsBeyondTheListedAreCounted: of however many faults a set of ranges or updates has, as
// many are kept as can be told, whatever lengths the numbers have.
func TestFaultsBeyondTheListedAreCounted(t *testing.T) {
	for _, n := range []int{maxPairs - 1, maxPairs, maxPairs + 1, 10 * maxPairs} {
		want := min(n, maxPairs)
		var b Builder
		var updates []Update
		for i := range n {
			digits := minDigits + i%2
			start := fmt.Sprintf("4%0*d", digits-1, 100*i)
			for _, add := range []int{0, 5} { // ten numbers each, of which five are in both
				first := 100*i + add
				if err := b.Add(fmt.Sprintf("4%0*d", digits-1, first), fmt.Sprintf("4%0*d", digits-1, first+9), &Info{}); err != nil {
					t.Fatal(err)
				}
			}
			r, err := boundsOf(start, start)
			if err != nil {
				t.Fatal(err)
			}
			updates = append(updates, Update{Range: r, Action: Delete, Entry: uint32(i)})
		}
		_, err := b.Build()
		if overlap, ok := errors.AsType[*OverlapError](err); !ok || len(overlap.Pairs) != want {
			t.Errorf("%d overlaps: %v, want %d pairs", n, err, want)
		}
		for _, v := range message.Versions() {
			if table, problems := Apply(nil, updates, Rules{Version: v}); table != nil || len(problems) != want {
				t.Errorf("%v: %d updates that cannot be: %d problems, want %d", v, n, len(problems), want)
			}
		}
	}
}

func TestLookupDoesNotAllocate(t *testing.T) {
	table := generate(10_000)
	if n := testing.AllocsPerRun(100, func() { table.Lookup("4000000000000000") }); n != 0 {
		t.Errorf("%v allocations per look-up, want 0", n)
	}
}

func TestSchemesFindTheHitsOfACard(t *testing.T) {
	s := NewSchemes("visa", "mastercard", "sbn")
	if s.AnyTried() || !s.Pending("") || !s.Pending("diners") || s.Lookup("5019000000000000") != nil {
		t.Error("new schemes know something")
	}
	cobadged, other := &Info{}, &Info{}
	s.Swap("sbn", build(t, &Builder{}, ranged{"5019000000000000", "5019999999999999", cobadged}))
	if !s.AnyTried() || !tried(s, "sbn") || tried(s, "visa") {
		t.Error("after a swap of sbn: wrong schemes count as tried")
	}
	for name, want := range map[string]bool{"": true, "visa": true, "sbn": false, "diners": false} {
		if s.Pending(name) != want {
			t.Errorf("sbn alone was tried: Pending(%q) is %t", name, !want)
		}
	}
	s.Swap("mastercard", build(t, &Builder{}, ranged{"5000000000000000", "5999999999999999", other}))
	hits := s.Lookup("5019000000000000")
	if len(hits) != 2 {
		t.Fatalf("Lookup = %v, want two hits", hits)
	}
	for i, want := range []Hit{{Scheme: "mastercard", Info: other}, {Scheme: "sbn", Info: cobadged}} {
		if got := hits[i]; got.Scheme != want.Scheme || got.Info != want.Info || got.Generation != s.Generation(want.Scheme) {
			t.Errorf("Lookup: hit %d is %v, want %v", i, got, want)
		}
	}
	s.MarkTried("visa")
	if !tried(s, "visa") || s.Table("visa") != nil {
		t.Error("visa was tried and gave nothing")
	}
	for name, want := range map[string]bool{"": false, "visa": false, "sbn": false, "diners": false} {
		if s.Pending(name) != want {
			t.Errorf("all were tried: Pending(%q) is %t", name, !want)
		}
	}
	s.Swap("diners", nil) // not one of them
	if tried(s, "diners") || len(s.Names()) != 3 {
		t.Error("an unknown scheme was taken in")
	}
}

// TestSwapIsAtomic: readers meet the old table or the new one, never a mixture.
func TestSwapIsAtomic(t *testing.T) {
	s := NewSchemes("visa")
	generation := func(name string) *Table {
		info := &Info{ACSEnd: name}
		return build(t, &Builder{}, ranged{"4000000000000", "4000000000009", info}, ranged{"4100000000000", "4100000000009", info})
	}
	odd, even := generation("odd"), generation("even")
	s.Swap("visa", even)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range 1000 {
				if hits := s.Lookup("4100000000001"); len(hits) != 1 {
					t.Error("a range was missing during a swap")
				}
			}
		})
	}
	for i := range 1000 {
		s.Swap("visa", []*Table{even, odd}[i%2])
	}
	wg.Wait()
}

// BenchmarkLookup compares a look-up with halving over the same starts, and with a
// single read of as much memory at a place that the read before has told, to be read as
// ratios: on a busy machine all are slower than they are. A look-up reads the index and
// the cover, one after the other.
func BenchmarkLookup(b *testing.B) {
	for _, n := range []int{10_000, 200_000, 2_000_000} {
		for _, set := range []struct {
			name  string
			table *Table
		}{{"even", generate(n)}, {"clustered", clustered(n)}} {
			numbers := make([]string, 1<<16) // one in ten misses, as in life
			lane := &set.table.lanes[16-minDigits].cover
			starts := make([]uint64, len(*lane))
			for i := range starts {
				starts[i] = (*lane)[i].start()
			}
			for i := range numbers {
				at := rand.IntN(len(*lane))
				width := (*lane)[at].end() - starts[at] + 1
				numbers[i] = fmt.Sprintf("%016d", starts[at]+rand.Uint64N(width*10/9))
			}
			name := fmt.Sprintf("%s/%dranges", set.name, n)
			b.Run(name+"/table", func(b *testing.B) {
				b.ReportAllocs()
				at := 0
				for b.Loop() {
					set.table.Lookup(numbers[at&(len(numbers)-1)])
					at++
				}
				all, lookup := set.table.bytes()
				b.ReportMetric(float64(lookup)/float64(n), "B/range")
				b.ReportMetric(float64(all)/float64(n), "B/range-all")
			})
			b.Run(name+"/halving", func(b *testing.B) {
				at, sum := 0, 0
				for b.Loop() {
					n, _ := number(numbers[at&(len(numbers)-1)])
					found, _ := slices.BinarySearch(starts, n)
					at, sum = at+1, sum+found
				}
			})
			_, size := set.table.bytes()
			lines := cycle(size / 64)
			b.Run(name+"/read", func(b *testing.B) {
				at := uint32(0)
				for b.Loop() {
					at = lines[at][0]
				}
			})
		}
	}
}

// cycle returns so many lines of a cache, each with the number of the next in a random
// order of them all.
func cycle(n int) [][16]uint32 {
	order, lines := rand.Perm(n), make([][16]uint32, n)
	for i, at := range order {
		lines[at][0] = uint32(order[(i+1)%n])
	}
	return lines
}

// bytes is what the layers of the table hold beside the infos: all of it, and
// what look-ups search.
func (t *Table) bytes() (all, lookup int) {
	size := func(c rows) int { return cap(c) * int(unsafe.Sizeof(row{})) }
	for i := range t.lanes {
		l := &t.lanes[i]
		lookup += size(l.cover) + cap(l.samples)*8
		if l.ranges.isNested() {
			all += size(l.ranges)
		}
	}
	return all + lookup, lookup
}

func BenchmarkBuild(b *testing.B) {
	for _, n := range []int{200_000, 2_000_000} {
		b.Run(fmt.Sprintf("%dranges", n), func(b *testing.B) {
			for b.Loop() {
				generate(n)
			}
		})
	}
}

// generate spreads n ranges over all 16-digit numbers that begin with 4; nine
// tenths of the numbers lie in one.
func generate(n int) *Table {
	infos := make([]*Info, 4000)
	for i := range infos {
		infos[i] = &Info{ACSEnd: "2.2.0"}
	}
	width := uint64(1_000_000_000_000_000 / n)
	b := Builder{Disjoint: true}
	for i := range n {
		start := 4_000_000_000_000_000 + uint64(i)*width
		b.add(Range{start, start + width/10*9, 16}, b.id(infos[i%len(infos)]))
	}
	t, err := b.Build()
	if err != nil {
		panic(err)
	}
	return t
}

// clustered spreads n ranges as issuers do: up to a few hundred side by side
// under random 8-digit prefixes.
func clustered(n int) *Table {
	r := rand.New(rand.NewPCG(1, 2))
	info := &Info{}
	b := Builder{Disjoint: true}
	used := make(map[uint64]bool)
	for n > 0 {
		prefix := 40_000_000 + r.Uint64N(19_999_999)
		if used[prefix] {
			continue
		}
		used[prefix] = true
		for i := range min(uint64(n), 1+r.Uint64N(1<<r.UintN(9))) {
			start := prefix*100_000_000 + i*100_000
			b.add(Range{start, start + 89_999, 16}, b.id(info))
			n--
		}
	}
	t, err := b.Build()
	if err != nil {
		panic(err)
	}
	return t
}

type ranged struct {
	start, end string
	info       *Info
}

func build(t *testing.T, b *Builder, set ...ranged) *Table {
	t.Helper()
	for _, r := range set {
		if err := b.Add(r.start, r.end, r.info); err != nil {
			t.Fatal(err)
		}
	}
	table, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// drawNested draws ranges of two lengths of which no two cross.
func drawNested(t *randtest.T) []ranged {
	var set []ranged
	var fill func(from, to uint64, digits, depth int)
	fill = func(from, to uint64, digits, depth int) {
		for depth < 4 && from <= to && t.Bool() {
			start := t.Uint64Range(from, to)
			end := t.Uint64Range(start, to)
			info := &Info{ACSEnd: fmt.Sprint(len(set))}
			set = append(set, ranged{fmt.Sprintf("%0*d", digits, start), fmt.Sprintf("%0*d", digits, end), info})
			fill(start, end, digits, depth+1)
			from = end + 1
		}
	}
	fill(4_000_000_000_000, 4_000_300_000_000, 13, 0)
	fill(0, 9_999_999_999_999_999_999, 19, 0)
	t.Shuffle(len(set), func(i, j int) { set[i], set[j] = set[j], set[i] })
	return set
}

// around lists the numbers at the edges of a range.
func around(r ranged) []string {
	start, _ := number(r.start)
	end, _ := number(r.end)
	var pans []string
	for _, n := range []uint64{start - 1, start, start + 1, start + (end-start)/2, end - 1, end, end + 1} {
		pan := fmt.Sprintf("%0*d", len(r.start), n)
		if len(pan) != len(r.start) {
			continue
		}
		pans = append(pans, pan, pan[:len(pan)-1])
		for _, more := range []string{"0", "9", "000", "999"} {
			if len(pan+more) <= maxDigits {
				pans = append(pans, pan+more)
			}
		}
	}
	return pans
}

func naive(set []ranged, pan string) *Info {
	var best *Info
	var length int
	var width uint64
	for _, r := range set {
		pad := len(pan) - len(r.start)
		if pad < 0 || pan < r.start+strings.Repeat("0", pad) || pan > r.end+strings.Repeat("9", pad) {
			continue
		}
		start, _ := number(r.start)
		end, _ := number(r.end)
		if len(r.start) > length || len(r.start) == length && end-start <= width {
			best, length, width = r.info, len(r.start), end-start
		}
	}
	return best
}

func TestNextKeepsTheTablesOfSchemes(t *testing.T) {
	first := NewSchemes("visa", "jcb")
	g := new(Generation)
	first.Put("jcb", g)
	next := first.Next("mastercard", "jcb")
	if got := next.Names(); !slices.Equal(got, []string{"mastercard", "jcb"}) || next.Generation("jcb") != g || next.Generation("visa") != nil {
		t.Errorf("next: %v, jcb %p", got, next.Generation("jcb"))
	}
	other := new(Generation)
	first.Put("jcb", other)
	if next.Generation("jcb") != other || !tried(next, "jcb") || tried(next, "mastercard") {
		t.Error("a scheme that is in both is not the same in both")
	}
	if got := first.Names(); !slices.Equal(got, []string{"visa", "jcb"}) {
		t.Errorf("the first has become %v", got)
	}
}

// tried reports whether the directory server of a scheme counts as asked.
func tried(s *Schemes, name string) bool {
	one := s.find(name)
	return one != nil && one.tried.Load()
}
