package ranges

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/randtest"
	"github.com/openthreeds/threeds/message"
)

// TestApplyEqualsANaiveReplay: whatever the set and the updates, Apply makes what one
// gets by carrying them out on a list, one after the other, and finds the same
// faults. What it makes is the table that the whole list makes.
func TestApplyEqualsANaiveReplay(t *testing.T) {
	randtest.Check(t, func(t *randtest.T) {
		rules := Rules{
			Version:  randtest.Pick(t, message.Versions()...),
			Backward: t.Bool(),
		}
		infos := []*Info{{ACSEnd: "a"}, {ACSEnd: "b"}, {ACSEnd: "c"}}
		state := map[Range]*Info{}
		for _, r := range drawNested(t) {
			if bounds, _ := boundsOf(r.start, r.end); rules.Version < message.V231 || !meets(state, bounds) {
				state[bounds] = randtest.Pick(t, infos...)
			}
		}
		base := tableOf(state)
		was := fmt.Sprint(maps.Collect(base.All()))
		updates := drawUpdates(t, state, infos)
		var faults []message.Code
		order := slices.Clone(updates)
		if rules.Backward {
			slices.Reverse(order)
		}
		for _, u := range order {
			if code := carryOut(state, u, rules.Version); code != 0 {
				faults = append(faults, code)
			}
		}
		got, problems := Apply(base, updates, rules)
		var codes []message.Code
		for _, p := range problems {
			codes = append(codes, p.Code)
		}
		if !slices.Equal(codes, faults) {
			t.Fatalf("problems %v, want codes %v", problems, faults)
		}
		if fmt.Sprint(maps.Collect(base.All())) != was {
			t.Fatal("the base was changed")
		}
		if len(faults) > 0 {
			if got != nil {
				t.Fatal("a table in spite of faults")
			}
			return
		}
		if want := tableOf(state); !got.Equal(want) || got.Len() != want.Len() || len(got.infos) != len(want.infos) {
			t.Fatalf("%v\nwant\n%v", maps.Collect(got.All()), state)
		}
		var set []ranged
		for r, info := range state {
			set = append(set, ranged{fmt.Sprintf("%0*d", r.Digits, r.Start), fmt.Sprintf("%0*d", r.Digits, r.End), info})
		}
		for _, r := range set {
			for _, pan := range around(r) {
				if found := got.Lookup(pan); found != naive(set, pan) {
					t.Fatalf("Lookup(%s) = %v", pan, found)
				}
			}
		}
	})
}

// drawUpdates draws updates of ranges that are there, or nearly.
func drawUpdates(t *randtest.T, state map[Range]*Info, infos []*Info) []Update {
	known := slices.SortedFunc(maps.Keys(state), func(x, y Range) int {
		a, b := rowOf(x.Start, x.End, 0), rowOf(y.Start, y.End, 0)
		return a.compare(&b)
	})
	known = append(known, Range{4_000_000_000_010, 4_000_000_000_019, 13}, Range{0, 9, 19})
	var updates []Update
	for range t.IntRange(0, 12) {
		r := randtest.Pick(t, known...)
		if t.IntRange(0, 3) == 0 {
			most, _ := number(strings.Repeat("9", int(r.Digits)))
			r.Start = min(r.Start+t.Uint64Range(0, 3), most)
			r.End = max(r.Start, r.End-t.Uint64Range(0, min(r.End, 3)))
			known = append(known, r)
		}
		updates = append(updates, Update{
			Range: r, Info: randtest.Pick(t, infos...), Entry: uint32(len(updates)),
			Action: randtest.Pick(t, Add, Delete, Modify),
		})
	}
	return updates
}

// carryOut does one update, or says why it cannot be done.
func carryOut(state map[Range]*Info, u Update, v message.Version) message.Code {
	_, there := state[u.Range]
	code := message.Code(0)
	switch {
	case u.Action != Add && !there, u.Action == Add && there && v >= message.V231:
		code = message.RangeAction
	case u.Action == Add && !there && meets(state, u.Range):
		code = message.RangeOverlap
	case u.Action == Delete:
		delete(state, u.Range)
	default:
		state[u.Range] = u.Info
	}
	if code != 0 && v < message.V231 {
		return message.Format
	}
	return code
}

func meets(state map[Range]*Info, r Range) bool {
	for o := range state {
		if o.Digits == r.Digits && o.Start <= r.End && r.Start <= o.End {
			return true
		}
	}
	return false
}

func tableOf(state map[Range]*Info) *Table {
	var b Builder
	for r, info := range state {
		b.add(r, b.id(info))
	}
	table, err := b.Build()
	if err != nil {
		panic(err)
	}
	return table
}

// TestApplyOfManyUpdatesEqualsANaiveReplay does the same with updates by the thousand.
func TestApplyOfManyUpdatesEqualsANaiveReplay(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	infos := []*Info{{ACSEnd: "a"}, {ACSEnd: "b"}}
	anywhere := func() Range {
		at := random.Uint64N(20_000)
		return Range{4_000_000_000_000 + at*100, 4_000_000_000_000 + at*100 + 99, 13}
	}
	state := map[Range]*Info{}
	for range 10_000 {
		state[anywhere()] = infos[0]
	}
	base := tableOf(state)
	var updates []Update
	for len(updates) < 20_000 {
		u := Update{Range: anywhere(), Info: infos[random.IntN(2)], Action: Add}
		if _, there := state[u.Range]; there {
			u.Action = []Action{Delete, Modify}[random.IntN(2)]
		}
		if updates = append(updates, u); u.Action == Delete {
			delete(state, u.Range)
		} else {
			state[u.Range] = u.Info
		}
	}
	got, problems := Apply(base, updates, Rules{Version: message.V231})
	if len(problems) > 0 || !got.Equal(tableOf(state)) {
		t.Fatalf("problems %v, %d ranges, want %d", problems, got.Len(), len(state))
	}
}

// TestReplayOfWideAndNarrow: whatever the order in which ranges come and go, the deletes of
// many and the adding of one around them cost no search for each.
func TestReplayOfWideAndNarrow(t *testing.T) {
	var updates []Update
	const n = 20_000
	state := map[Range]*Info{}
	info := &Info{}
	wide := Range{4_000_000_000_000, 4_000_000_000_000 + 10*n, 13}
	for i := range uint64(n) {
		r := Range{4_000_000_000_000 + 10*i, 4_000_000_000_009 + 10*i, 13}
		state[r] = info
		updates = append(updates, Update{Range: r, Action: Delete})
	}
	for range n {
		updates = append(updates, Update{Range: wide, Info: info, Action: Add}, Update{Range: wide, Action: Delete})
	}
	if got, problems := Apply(tableOf(state), updates, Rules{Version: message.V231}); got.Len() != 0 || len(problems) > 0 {
		t.Errorf("%d ranges left, %v", got.Len(), problems)
	}
}

// deepNests are n ranges that all lie in each other; updates that put as many in their
// place, and as many beside them.
func deepNests(n uint64, nest func(i uint64) Range) (state map[Range]*Info, place, beside []Update) {
	info := &Info{}
	state = make(map[Range]*Info)
	for i := range n {
		state[nest(i)] = info
		place = append(place, Update{Range: nest(i), Action: Delete})
		beside = append(beside, Update{Range: Range{nestHigh + 1 + i, nestHigh + 1 + i, 13}, Info: info, Action: Add})
	}
	for i := range n {
		at := nestLow + (nestHigh-nestLow)/2 + i
		place = append(place, Update{Range: Range{at, at, 13}, Info: info, Action: Add})
	}
	return state, place, beside
}

const nestLow, nestHigh = 4_000_000_000_000, 4_999_999_999_999

var nests = map[string]func(i uint64) Range{
	"one begin": func(i uint64) Range { return Range{nestLow, nestHigh - i, 13} },
	"one end":   func(i uint64) Range { return Range{nestLow + i, nestHigh, 13} },
	"neither":   func(i uint64) Range { return Range{nestLow + i, nestHigh - i, 13} },
}

// TestReplayOfDeepNests: what is updated where ranges lie deep in each other.
// BenchmarkDeepNests tells what that costs.
func TestReplayOfDeepNests(t *testing.T) {
	const n = 1000
	for name, nest := range nests {
		state, place, beside := deepNests(n, nest)
		if got, problems := Apply(tableOf(state), beside, Rules{}); got.Len() != 2*n || len(problems) > 0 {
			t.Errorf("%s: beside: %d ranges, %v", name, got.Len(), problems)
		}
		if got, problems := Apply(tableOf(state), place, Rules{}); got.Len() != n || len(problems) > 0 {
			t.Errorf("%s: in place of them: %d ranges, %v", name, got.Len(), problems)
		}
	}
}

func BenchmarkDeepNests(b *testing.B) {
	for name, nest := range nests {
		for _, n := range []uint64{3000, 30_000} {
			b.Run(fmt.Sprintf("%s/%dranges", name, n), func(b *testing.B) {
				state, place, _ := deepNests(n, nest)
				base := tableOf(state)
				for b.Loop() {
					if got, problems := Apply(base, place, Rules{}); got.Len() != int(n) || len(problems) > 0 {
						b.Fatal(got.Len(), problems)
					}
				}
			})
		}
	}
}

func TestBitsetFindsSetBits(t *testing.T) {
	randtest.Check(t, func(t *randtest.T) {
		size := randtest.Pick(t, 1, 63, 64, 65, 4096, 4097, 300_000)
		b, want := newBitset(size), map[int]bool{}
		for range t.IntRange(0, 20) {
			i := int(t.Uint64Range(0, uint64(size-1)))
			if t.IntRange(0, 2) == 0 {
				b.clear(i)
				delete(want, i)
			} else {
				b.set(i)
				want[i] = true
			}
			at := int(t.Uint64Range(0, uint64(size)))
			from, before := -1, -1
			for _, k := range slices.Sorted(maps.Keys(want)) {
				if k >= at && from < 0 {
					from = k
				}
				if k < at {
					before = k
				}
			}
			if got := b.next(at); got != from {
				t.Fatalf("from(%d) = %d, want %d of %v", at, got, from, want)
			}
			if got := b.before(at); got != before {
				t.Fatalf("before(%d) = %d, want %d of %v", at, got, before, want)
			}
			if b.count() != len(want) || b.has(i) != want[i] {
				t.Fatal("wrong count")
			}
		}
	})
}

func BenchmarkApply(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("%dops", n), func(b *testing.B) {
			base := generate(2_000_000)
			all := slices.Collect(maps.Keys(maps.Collect(base.All())))[:n]
			info := &Info{ACSEnd: "other"}
			var updates []Update
			for i, r := range all {
				if updates = append(updates, Update{Range: r, Info: info, Action: []Action{Delete, Modify}[i%2]}); i%4 == 0 {
					updates = append(updates, Update{Range: r, Info: info, Action: Add})
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, problems := Apply(base, updates[:n], Rules{Version: message.V231}); len(problems) > 0 {
					b.Fatal(problems)
				}
			}
		})
	}
}
