// Package puncture has a key for each number of 64 bits, all of which follow from one random seed, and of which each
// can be forgotten. Make a [Tree] with [New], get keys by [Tree.Key], and forget them by [Tree.Forget]. Nobody who has
// the tree as it is then makes a forgotten key again, and all others stay what they were.
//
// The keys are the leaves of a binary tree in which the seeds of two children follow from that of their parent (O.
// Goldreich, S. Goldwasser, S. Micali: How to construct random functions, 1986). To forget a leaf, the tree keeps the
// seeds of the siblings along its path instead of the one from which all of them followed.
package puncture

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"iter"
	"math"
	"slices"
	"sort"
)

const (
	// KeyLen is the length of a key, in bytes.
	KeyLen = 32

	// seedLen is the length of a seed, in bytes. Somebody who has the seeds of all siblings tests each guess of a
	// forgotten one against all of them. With 192 bits that is as hopeless for millions of them as for one.
	seedLen = 24

	// depthOfLeaf is how many bits a number has.
	depthOfLeaf = 64
)

type seed [seedLen]byte

// A node is a part of the tree from which all keys of its numbers follow.
type node struct {
	first uint64 // first is the least number of the node.
	depth uint8  // depth is how many bits all its numbers have in common.
	seed  seed
}

// last returns the greatest number of a part of the tree that begins with a number.
func last(first uint64, depth uint8) uint64 {
	if depth == 0 {
		return first | 1<<63 | (1<<63 - 1)
	}
	return first | (1<<(depthOfLeaf-depth) - 1)
}

func (n *node) last() uint64 { return last(n.first, n.depth) }

// A Tree has the keys that were not forgotten. It is not for several goroutines at a time.
type Tree struct {
	nodes []node // in the order of their numbers

	// The seeds on the path to the number of the last call of Key, from depth begin to that of a leaf.
	path  [depthOfLeaf + 1]seed
	begin int // begin is depthOfLeaf + 1 if there is no path.
	at    uint64
}

// New returns a tree with a random seed, which has all keys.
func New() *Tree {
	t := &Tree{nodes: make([]node, 1), begin: depthOfLeaf + 1}
	rand.Read(t.nodes[0].seed[:]) // Read returns no error: without random bytes the process ends
	return t
}

// The texts that hashes are made over. With the seed behind it each is one block of SHA-256.
const (
	childText = "threeds tree: child" // the bit of the child follows
	keyText   = "threeds tree: key of it."
)

// deriveChild puts the seed of a child into to.
func deriveChild(to *seed, parent *seed, bit byte) {
	var text [len(childText) + 1 + seedLen]byte
	copy(text[:], childText)
	text[len(childText)] = bit
	copy(text[len(childText)+1:], parent[:])
	sum := sha256.Sum256(text[:])
	copy(to[:], sum[:])
}

// bitOf returns the bit of a number by which a node of a depth has two children.
func bitOf(n uint64, depth int) byte { return byte(n >> (depthOfLeaf - 1 - depth) & 1) }

// find returns the node that has a number, nil if its key was forgotten.
func (t *Tree) find(n uint64) *node {
	i := sort.Search(len(t.nodes), func(i int) bool { return t.nodes[i].last() >= n })
	if i == len(t.nodes) || t.nodes[i].first > n {
		return nil
	}
	return &t.nodes[i]
}

// Has reports whether the tree has the key of a number.
func (t *Tree) Has(n uint64) bool { return t.find(n) != nil }

// HasAny reports whether the tree has one of the keys of the numbers from one to another.
func (t *Tree) HasAny(first, last uint64) bool {
	i := sort.Search(len(t.nodes), func(i int) bool { return t.nodes[i].last() >= first })
	return i < len(t.nodes) && t.nodes[i].first <= last
}

// HasAll reports whether the tree has all keys of the numbers from one to another.
func (t *Tree) HasAll(first, last uint64) bool {
	for {
		n := t.find(first)
		if n == nil {
			return false
		}
		if n.last() >= last {
			return true
		}
		first = n.last() + 1
	}
}

// Key returns the key of a number, or false if it was forgotten. It is cheap for a number that has its first bits in
// common with that of the call before.
func (t *Tree) Key(n uint64) (key [KeyLen]byte, ok bool) {
	from := t.find(n)
	if from == nil {
		return key, false
	}
	depth := int(from.depth)
	if t.begin != depth || last(from.first, from.depth) < t.at || t.at < from.first {
		t.path[depth], t.begin = from.seed, depth
	} else {
		for depth < depthOfLeaf && bitOf(n, depth) == bitOf(t.at, depth) {
			depth++
		}
	}
	for ; depth < depthOfLeaf; depth++ {
		deriveChild(&t.path[depth+1], &t.path[depth], bitOf(n, depth))
	}
	t.at = n
	var text [len(keyText) + seedLen]byte
	copy(text[:], keyText)
	copy(text[len(keyText):], t.path[depthOfLeaf][:])
	return sha256.Sum256(text[:]), true
}

// A span are the numbers from one to another.
type span struct{ first, last uint64 }

// Forget forgets the keys of numbers, and reports whether the tree had one of them. It overwrites the seeds that it
// replaces.
func (t *Tree) Forget(numbers ...uint64) bool {
	slices.Sort(numbers)
	var all []span
	for _, n := range slices.Compact(numbers) {
		all = append(all, span{n, n})
	}
	return t.forget(all)
}

// ForgetRange forgets the keys of all numbers from one to another, as Forget does.
func (t *Tree) ForgetRange(first, last uint64) bool {
	if first > last {
		return false
	}
	return t.forget([]span{{first, last}})
}

// forget forgets the keys of spans, which are in their order.
func (t *Tree) forget(spans []span) bool {
	if !slices.ContainsFunc(spans, func(s span) bool { return t.HasAny(s.first, s.last) }) {
		return false
	}
	var kept []node
	for i := range t.nodes {
		n := &t.nodes[i]
		for len(spans) > 0 && spans[0].last < n.first {
			spans = spans[1:]
		}
		kept = n.without(kept, spans)
	}
	t.replace(kept)
	return true
}

// replace takes other nodes, and overwrites what was there.
func (t *Tree) replace(nodes []node) {
	clear(t.nodes)
	t.nodes = nodes
	clear(t.path[:])
	t.begin, t.at = depthOfLeaf+1, 0
}

// without appends the parts of a node that have none of the spans.
func (n *node) without(to []node, spans []span) []node {
	for len(spans) > 0 && spans[0].last < n.first {
		spans = spans[1:]
	}
	switch end := n.last(); {
	case len(spans) == 0 || spans[0].first > end:
		return append(to, *n)
	case spans[0].first <= n.first && spans[0].last >= end:
		return to
	}
	for bit := range byte(2) {
		child := node{depth: n.depth + 1, first: n.first | uint64(bit)<<(depthOfLeaf-1-n.depth)}
		deriveChild(&child.seed, &n.seed, bit)
		to = child.without(to, spans)
		clear(child.seed[:])
	}
	return to
}

// Merge forgets all keys that another state of the same tree has forgotten, and reports whether the tree had one of
// them. Both must come from the same call of [New].
func (t *Tree) Merge(o *Tree) bool {
	var kept []node
	a, b := t.nodes, o.nodes
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].last() < b[0].first:
			a = a[1:]
		case b[0].last() < a[0].first:
			b = b[1:]
		case a[0].depth >= b[0].depth: // it is inside of the other one, or the same
			kept, a = append(kept, a[0]), a[1:]
		default:
			kept, b = append(kept, b[0]), b[1:]
		}
	}
	if slices.EqualFunc(kept, t.nodes, func(x, y node) bool { return x.first == y.first && x.depth == y.depth }) {
		clear(kept)
		return false
	}
	t.replace(kept)
	return true
}

// Clone returns a tree of its own with the same keys.
func (t *Tree) Clone() *Tree { return &Tree{nodes: slices.Clone(t.nodes), begin: depthOfLeaf + 1} }

// Wipe overwrites all seeds. The tree then has no key.
func (t *Tree) Wipe() { t.replace(nil) }

// Gaps returns the runs of numbers whose keys were forgotten, in their order, by the first and the last number of each.
func (t *Tree) Gaps() iter.Seq2[uint64, uint64] {
	return func(yield func(first, last uint64) bool) {
		next := uint64(0)
		for i := range t.nodes {
			n := &t.nodes[i]
			if n.first > next && !yield(next, n.first-1) {
				return
			}
			if next = n.last() + 1; next == 0 {
				return
			}
		}
		yield(next, math.MaxUint64)
	}
}

// The encoding of a tree has a bit for each of its parts, from the top and the left: 1 for one whose two children
// follow, and 0 for another one. Behind a 0 the next bit says whether there is a seed. The seeds follow in that order.

// MarshalBinary returns the state of the tree, in clear.
func (t *Tree) MarshalBinary() ([]byte, error) {
	w := bitWriter{}
	w.write(t.nodes, 0, 0)
	out := make([]byte, 0, len(w.out)+len(t.nodes)*seedLen)
	out = append(out, w.out...)
	for i := range t.nodes {
		out = append(out, t.nodes[i].seed[:]...)
	}
	return out, nil
}

type bitWriter struct {
	out []byte
	n   int
}

func (w *bitWriter) put(bit byte) {
	if w.n%8 == 0 {
		w.out = append(w.out, 0)
	}
	w.out[w.n/8] |= bit << (7 - w.n%8)
	w.n++
}

// write writes the bits of a part of the tree that has these nodes.
func (w *bitWriter) write(nodes []node, first uint64, depth uint8) {
	switch {
	case len(nodes) == 0:
		w.put(0)
		w.put(0)
	case nodes[0].depth == depth:
		w.put(0)
		w.put(1)
	default:
		w.put(1)
		half := first | 1<<(depthOfLeaf-1-depth)
		i := sort.Search(len(nodes), func(i int) bool { return nodes[i].first >= half })
		w.write(nodes[:i], first, depth+1)
		w.write(nodes[i:], half, depth+1)
	}
}

var errState = errors.New("puncture: not the state of a tree")

// UnmarshalBinary reads what MarshalBinary has made.
func (t *Tree) UnmarshalBinary(data []byte) error {
	r := bitReader{in: data}
	if !r.read(0, 0) {
		return errState
	}
	for r.n%8 != 0 {
		if bit, ok := r.next(); !ok || bit != 0 {
			return errState
		}
	}
	seeds := data[r.n/8:]
	if len(seeds) != len(r.nodes)*seedLen {
		return errState
	}
	for i := range r.nodes {
		copy(r.nodes[i].seed[:], seeds[i*seedLen:])
	}
	*t = Tree{nodes: r.nodes, begin: depthOfLeaf + 1}
	return nil
}

type bitReader struct {
	in    []byte
	n     int
	nodes []node // without their seeds
}

func (r *bitReader) next() (bit byte, ok bool) {
	if r.n >= 8*len(r.in) {
		return 0, false
	}
	bit = r.in[r.n/8] >> (7 - r.n%8) & 1
	r.n++
	return bit, true
}

// read reads the bits of a part of the tree, and reports whether MarshalBinary can have written them.
func (r *bitReader) read(first uint64, depth uint8) bool {
	bit, ok := r.next()
	if !ok || bit == 1 && depth == depthOfLeaf {
		return false
	}
	if bit == 1 {
		before := len(r.nodes)
		half := first | 1<<(depthOfLeaf-1-depth)
		return r.read(first, depth+1) && r.read(half, depth+1) && len(r.nodes) > before
	}
	bit, ok = r.next()
	if bit == 1 {
		r.nodes = append(r.nodes, node{first: first, depth: depth})
	}
	return ok
}
