package puncture

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// encoded returns the state of a tree.
func encoded(t testing.TB, tree *Tree) []byte {
	t.Helper()
	data, err := tree.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// decoded returns the tree of a state.
func decoded(t testing.TB, data []byte) *Tree {
	t.Helper()
	tree := new(Tree)
	if err := tree.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	return tree
}

// A model knows the keys of some numbers, and which of them were forgotten.
type model struct {
	keys map[uint64][KeyLen]byte
	gone map[uint64]bool
}

func (m *model) check(t *testing.T, tree *Tree) {
	t.Helper()
	for n, want := range m.keys {
		key, ok := tree.Key(n)
		if ok == m.gone[n] || tree.Has(n) != ok || ok && key != want {
			t.Fatalf("the key of %x: %x, %t; want %x, forgotten: %t", n, key, ok, want, m.gone[n])
		}
	}
}

// TestTreeKeepsWhatWasNotForgotten: after each of many random acts a tree has all keys that were not forgotten, and
// none of the others. So it is after its state was written and read.
func TestTreeKeepsWhatWasNotForgotten(t *testing.T) {
	for run := range uint64(6) {
		random := rand.New(rand.NewPCG(run, 1))
		tree := New()
		m := model{map[uint64][KeyLen]byte{}, map[uint64]bool{}}
		var numbers []uint64
		add := func(n uint64) {
			key, _ := tree.Key(n)
			numbers, m.keys[n] = append(numbers, n), key
		}
		for _, n := range []uint64{0, 1, math.MaxUint64, math.MaxUint64 - 1, 1 << 63} {
			add(n)
		}
		for range 60 {
			n := random.Uint64()
			add(n)
			add(n ^ 1<<random.IntN(64))
		}
		other := decoded(t, encoded(t, tree))
		for range 15 {
			n := numbers[random.IntN(len(numbers))]
			forgets := []*Tree{tree, other}[random.IntN(2)]
			switch random.IntN(4) {
			case 0:
				few := []uint64{n, numbers[random.IntN(len(numbers))], random.Uint64()}
				forgets.Forget(slices.Clone(few)...)
				m.gone[few[0]], m.gone[few[1]] = true, true
			case 1:
				end := n | (1<<random.IntN(60) - 1)
				forgets.ForgetRange(n, end)
				for _, o := range numbers {
					m.gone[o] = m.gone[o] || n <= o && o <= end
				}
			default:
				was := !m.gone[n]
				if forgets == other && forgets.Has(n) != was {
					was = forgets.Has(n)
				} else if forgets == tree {
					was = tree.Has(n)
				}
				if isChanged := forgets.Forget(n); isChanged != was {
					t.Fatalf("Forget says %t, want %t", isChanged, was)
				}
				m.gone[n] = true
			}
			// Both states together have forgotten what either has, whichever is merged into the other.
			a, b := tree.Clone(), other.Clone()
			a.Merge(other)
			b.Merge(tree)
			if !bytes.Equal(encoded(t, a), encoded(t, b)) || a.Merge(b) || a.Merge(other) {
				t.Fatal("to merge two states is not the same in either order, or not done once")
			}
			m.check(t, a)
			m.check(t, decoded(t, encoded(t, a)))
		}
	}
}

// TestForgottenSeedsAreOverwritten: where the seed of a forgotten key was, and the seeds on its path, there are zeros.
func TestForgottenSeedsAreOverwritten(t *testing.T) {
	tree := New()
	if _, ok := tree.Key(7); !ok {
		t.Fatal("a new tree lacks a key")
	}
	was := tree.nodes
	tree.Forget(7)
	for i := range was {
		if was[i] != (node{}) {
			t.Errorf("node %d is still there", i)
		}
	}
	for depth := range tree.path {
		if tree.path[depth] != (seed{}) {
			t.Errorf("the seed of depth %d is still there", depth)
		}
	}
	other := decoded(t, encoded(t, tree))
	other.Forget(8)
	was = tree.nodes
	if !tree.Merge(other) || was[0] != (node{}) {
		t.Error("Merge leaves the seeds that it replaces")
	}
}

// TestGapsAreWhatWasForgotten: the gaps of a tree are the runs of keys that were forgotten, also at both ends of all
// numbers.
func TestGapsAreWhatWasForgotten(t *testing.T) {
	tree := New()
	check := func(want ...span) {
		t.Helper()
		var got []span
		for first, last := range tree.Gaps() {
			got = append(got, span{first, last})
		}
		if !slices.Equal(got, want) {
			t.Errorf("the gaps are %x, want %x", got, want)
		}
	}
	check()
	tree.ForgetRange(0, 1<<50-1)
	check(span{0, 1<<50 - 1})
	if tree.HasAny(5, 1<<50-1) || !tree.HasAny(5, 1<<50) || !tree.HasAll(1<<50, 1<<51) || tree.HasAll(0, 1<<51) {
		t.Error("HasAny or HasAll does not say what was forgotten")
	}
	tree.Forget(1<<50+5, 1<<55, 1<<55+1, math.MaxUint64)
	check(span{0, 1<<50 - 1}, span{1<<50 + 5, 1<<50 + 5}, span{1 << 55, 1<<55 + 1}, span{math.MaxUint64, math.MaxUint64})
	if !tree.HasAny(1<<55, 1<<55+2) || tree.HasAll(1<<50, 1<<51) {
		t.Error("HasAny or HasAll does not say what was forgotten one by one")
	}
	tree.ForgetRange(0, math.MaxUint64)
	check(span{0, math.MaxUint64})
	if tree.Has(3) || tree.HasAny(0, math.MaxUint64) || len(encoded(t, tree)) != 1 {
		t.Error("something is left")
	}
}

// FuzzUnmarshal: what is read as a state is written again as it was.
func FuzzUnmarshal(f *testing.F) {
	tree := New()
	f.Add(encoded(f, tree))
	tree.Forget(1, 1<<63)
	f.Add(encoded(f, tree))
	tree.ForgetRange(5, 1<<62)
	f.Add(encoded(f, tree))
	f.Add([]byte{})
	f.Add([]byte{0xff})
	f.Add([]byte{0})
	f.Add([]byte{0x80})
	f.Fuzz(func(t *testing.T, data []byte) {
		tree := new(Tree)
		if tree.UnmarshalBinary(data) != nil {
			return
		}
		if again := encoded(t, tree); !bytes.Equal(again, data) {
			t.Errorf("%x is written as %x", data, again)
		}
		tree.Forget(42)
		if tree.Has(42) {
			t.Error("a forgotten key is there")
		}
	})
}

func BenchmarkKey(b *testing.B) {
	tree := New()
	day := uint64(20000) << 48
	random := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		tree.Key(day | random.Uint64()>>16)
	}
}
