// Package ranges plays the card-range service of a directory server: it answers PReqs of every version with a set of
// card ranges that changes, has millions of entries, or is wrong in a way of scenarios/ranges.txt.
//
// Use [Set.Change] to change the ranges, [Set.Generate] to make millions of them, and [Set.Serve] to choose how PReqs
// are answered. Sandbox.Ranges of package sandbox returns the [Set] of a scheme. Package sandbox itself calls [New],
// [Set.ServePReq] and [Set.ServeFile].
package ranges

import (
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Range is one range of card numbers and what a directory server sends about it. It is written in the words of
// whichever version is asked for; what a version lacks is left out. Nothing of it is checked: data may be as wrong as a
// test wants it.
type Range struct {
	Start      string      `json:"start"` // 13-19 digits
	End        string      `json:"end"`
	MethodURL  string      `json:"methodURL,omitempty"`  // threeDSMethodURL; "" for none
	Versions   []string    `json:"versions,omitempty"`   // of the ACS, ascending; none means all that the sandbox speaks
	Info       []string    `json:"info,omitempty"`       // acsInfoInd, from 2.2.0
	DSVersions []string    `json:"dsVersions,omitempty"` // in place of those of the PRes
	Country    string      `json:"country,omitempty"`    // issuerCountryCode, 2.3.1
	Extensions []Extension `json:"extensions,omitempty"` // supportedMsgExt, 2.3.1
	Confirms   bool        `json:"confirms,omitempty"`   // Secure Payment Confirmation, 2.3.1: acsInfoInd has 07
}

// An Extension is an entry of supportedMsgExt.
type Extension struct {
	ID      string `json:"id"`
	Version string `json:"version"`
}

// A Set is the card ranges of one directory server. It changes from generation to generation, each with its serial
// number. At first it has the documented ranges. A Set may be used by several goroutines at once.
type Set struct {
	o Options

	mu       sync.Mutex
	gen      *generator        // the ranges that are made on the fly; nil for none
	override map[bounds]*about // changes of those: nil for one that was deleted
	own      map[bounds]*about // all others
	order    []bounds          // of own
	abouts   map[string]*about // by the JSON of what is sent
	past     []generation      // oldest first, without those that are forgotten
	serial   string            // of the set as it is
	number   int               // of serial
	service  Service           // how PReqs are answered
	asked    time.Time         // when the latest PReq came
	files    map[string]int64  // sizes of the file as it is, by ETag
	edition  int               // how often the file changed by itself
	fetched  int               // how often the file was asked for since Serve
}

// bounds identify a range.
type bounds struct{ start, end string }

// about is the data of a range besides its bounds, also as JSON members for each version.
type about struct {
	Range
	tails     map[string]func() []byte
	generated bool
}

// A Change is what happens to a set in one generation: first Replace, then Delete, Modify and Add. Only the bounds of a
// range to delete count.
type Change struct {
	Replace []Range `json:"replace,omitempty"` // the whole set from now on; nil leaves it
	Delete  []Range `json:"delete,omitempty"`
	Modify  []Range `json:"modify,omitempty"`
	Add     []Range `json:"add,omitempty"`
}

// Options are what a [Set] needs of its directory server. All fields but Alter are required.
type Options struct {
	Scheme    string   // its word, for errors and the log
	Prefixes  []string // of the documented ranges
	Leads     []string // first four digits of generated ranges, ascending
	MethodURL string   // of the documented ranges
	URL       string   // that takes PReqs
	FilesURL  string   // where [Set.ServeFile] listens without client certificates
	Nice      bool     // answers without the habits of real peers

	Now       func() time.Time
	Log       *slog.Logger
	Alter     func(kind string, body []byte) []byte // what is sent in place of a message; nil for the message itself
	Note      func(transID string, n Note)          // takes what passed
	NoteBytes int                                   // how many bytes of an answer Note gets
}

// A Note is a message that passed between the server under test and the directory server, or what came in its place.
type Note struct {
	IsFromServer     bool
	Type, Body, Text string
}

// New returns the set of a directory server.
func New(o Options) *Set {
	r := &Set{o: o, own: make(map[bounds]*about), abouts: make(map[string]*about)}
	r.addAll(r.documented())
	r.renumber()
	return r
}

// documented is one range for each prefix, of 16 digits. What a test card does depends on its last digits, so each
// range has all versions and a 3DS Method, whatever its cards have.
func (r *Set) documented() []Range {
	var all []Range
	for _, prefix := range r.o.Prefixes {
		all = append(all, Range{
			Start: pad(prefix, "0", 16), End: pad(prefix, "9", 16),
			MethodURL: r.o.MethodURL,
			Info:      []string{"01", "02", "03"}, Confirms: true,
		})
	}
	return all
}

// renumber gives the set the next serial number. Its first part is the time of
// the first: another run of the sandbox has other addresses in its ranges, and
// does not take its numbers for these.
func (r *Set) renumber() {
	if r.number == 0 {
		r.serial = strconv.FormatInt(r.o.Now().UTC().UnixMilli(), 36)
	} else {
		r.serial = r.serial[:len(r.serial)-len(ordinal(r.number))]
	}
	r.number++
	r.serial += ordinal(r.number)
	r.files, r.edition = make(map[string]int64), 0
}

func ordinal(n int) string { return "g" + strconv.Itoa(n) }

// Add adds ranges, as Change does.
func (r *Set) Add(all ...Range) error { return r.Change(Change{Add: all}) }

// Modify changes what ranges have besides their bounds, by which they are found.
func (r *Set) Modify(all ...Range) error { return r.Change(Change{Modify: all}) }

// Delete removes ranges, which are found by their bounds.
func (r *Set) Delete(all ...Range) error { return r.Change(Change{Delete: all}) }

// Replace replaces the whole set by all. A generated set is gone then, and older serial numbers are unknown from then
// on.
func (r *Set) Replace(all ...Range) error {
	return r.Change(Change{Replace: append([]Range{}, all...)})
}

// Change makes a new generation with a serial number of its own. If a step is not possible, because its range is
// already there or is not there, nothing is changed.
func (r *Set) Change(c Change) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	steps, fresh, err := r.plan(c)
	if err != nil {
		return fmt.Errorf("sandbox: ranges of %s: %w", r.o.Scheme, err)
	}
	if fresh {
		r.clear()
	}
	for _, s := range steps {
		r.apply(s)
	}
	r.compactOrder(steps)
	if !fresh {
		r.past = append(r.past, generation{serial: r.serial, steps: steps})
		r.dropOldGenerations()
	}
	r.renumber()
	return nil
}

// plan makes steps of a change; fresh says that they start from nothing.
func (r *Set) plan(c Change) (steps []step, fresh bool, err error) {
	fresh = c.Replace != nil && r.gen != nil
	now := make(map[bounds]*about) // what the steps so far have changed
	find := func(b bounds) *about {
		if a, changed := now[b]; changed || fresh {
			return a
		}
		return r.find(b)
	}
	do := func(b bounds, after *about) {
		s := step{bounds: b, before: find(b), after: after, last: after}
		if after == nil {
			s.last = s.before
		}
		steps = append(steps, s)
		now[b] = after
	}
	if c.Replace != nil {
		kept := make(map[bounds]*about, len(c.Replace))
		for _, one := range c.Replace {
			if kept[one.bounds()] != nil {
				return nil, false, fmt.Errorf("replace: %s is there twice", one.bounds())
			}
			kept[one.bounds()] = r.intern(one)
		}
		for _, b := range r.order {
			if kept[b] == nil && !fresh {
				do(b, nil)
			}
		}
		for _, one := range c.Replace {
			if b := one.bounds(); find(b) != kept[b] {
				do(b, kept[b])
			}
		}
	}
	for _, part := range []struct {
		name  string
		all   []Range
		there bool
		after func(Range) *about
	}{
		{"delete", c.Delete, true, func(Range) *about { return nil }},
		{"modify", c.Modify, true, r.intern},
		{"add", c.Add, false, r.intern},
	} {
		for _, one := range part.all {
			b := one.bounds()
			if there := find(b) != nil; there != part.there {
				return nil, false, fmt.Errorf("%s %s: the set has it: %t", part.name, b, there)
			}
			do(b, part.after(one))
		}
	}
	return steps, fresh, nil
}

// apply makes one step.
func (r *Set) apply(s step) {
	if r.gen != nil && r.gen.find(s.bounds) != nil {
		r.override[s.bounds] = s.after
		return
	}
	if s.after == nil {
		delete(r.own, s.bounds)
		return
	}
	if r.own[s.bounds] == nil {
		r.order = append(r.order, s.bounds)
	}
	r.own[s.bounds] = s.after
}

// compactOrder keeps the order free of what was deleted, and of what came back.
func (r *Set) compactOrder(steps []step) {
	if !slices.ContainsFunc(steps, func(s step) bool { return s.after == nil }) {
		return
	}
	seen := make(map[bounds]bool, len(r.order))
	r.order = slices.DeleteFunc(r.order, func(b bounds) bool {
		gone := r.own[b] == nil || seen[b]
		seen[b] = true
		return gone
	})
}

// find returns what a range has besides its bounds, nil when there is no range with these bounds.
func (r *Set) find(b bounds) *about {
	if a := r.own[b]; a != nil {
		return a
	}
	if r.gen == nil {
		return nil
	}
	if a, changed := r.override[b]; changed {
		return a
	}
	return r.gen.find(b)
}

// clear makes the set empty and forgets all serial numbers.
func (r *Set) clear() {
	r.gen, r.override, r.past, r.order = nil, nil, nil, nil
	r.own = make(map[bounds]*about)
}

// addAll adds ranges without a new serial number.
func (r *Set) addAll(all []Range) {
	for _, one := range all {
		r.apply(step{bounds: one.bounds(), after: r.intern(one)})
	}
}

// intern returns the same value for ranges that differ in their bounds alone.
func (r *Set) intern(c Range) *about {
	c.Start, c.End = "", ""
	key, _ := json.Marshal(c) // strings and lists of them
	if r.abouts[string(key)] == nil {
		r.abouts[string(key)] = r.newAbout(c)
	}
	return r.abouts[string(key)]
}

// Generate makes the set n realistic ranges besides the documented ones. They are generated each time they are sent,
// the same for the same seed, and take no memory: 2,000,000 are some 570 MB as a PRes of 2.2.0, 150 MB of 2.3.1. They
// have numbers of 13 to 19 digits, 4,000 different payloads and no overlap, and may be changed one by one. Older serial
// numbers are not known from then on.
func (r *Set) Generate(n int, seed uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	g, err := newGenerator(r, n, seed)
	if err != nil {
		return fmt.Errorf("sandbox: ranges of %s: %w", r.o.Scheme, err)
	}
	r.clear()
	r.addAll(r.documented())
	r.gen, r.override = g, make(map[bounds]*about)
	r.renumber()
	return nil
}

// Serial is the serial number of the set as it is.
func (r *Set) Serial() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.serial
}

// Len is how many ranges there are.
func (r *Set) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.snapshot().len()
}

// All is the ranges as they are now.
func (r *Set) All() iter.Seq[Range] {
	r.mu.Lock()
	set := r.snapshot()
	r.mu.Unlock()
	return func(yield func(Range) bool) {
		for it := range set.items() {
			c := it.about.Range
			c.Start, c.End = it.start, it.end
			if !yield(c) {
				return
			}
		}
	}
}

// A snapshotSet is the set at one moment.
type snapshotSet struct {
	serial   string
	own      []item
	gen      *generator
	override map[bounds]*about
}

// snapshot is called with the lock held.
func (r *Set) snapshot() snapshotSet {
	set := snapshotSet{serial: r.serial, gen: r.gen, override: maps.Clone(r.override)}
	set.own = make([]item, len(r.order))
	for i, b := range r.order {
		set.own[i] = item{bounds: b, about: r.own[b], action: "A"}
	}
	return set
}

func (s snapshotSet) len() int {
	n := len(s.own)
	if s.gen != nil {
		n += s.gen.n
	}
	for _, a := range s.override {
		if a == nil {
			n--
		}
	}
	return n
}

// items is all ranges as additions.
func (s snapshotSet) items() iter.Seq[item] {
	return func(yield func(item) bool) {
		for _, it := range s.own {
			if !yield(it) {
				return
			}
		}
		if s.gen == nil {
			return
		}
		for i := range s.gen.n {
			it := s.gen.at(i)
			if a, changed := s.override[it.bounds]; changed {
				it.about = a
			}
			if it.about != nil && !yield(it) {
				return
			}
		}
	}
}

func (c Range) bounds() bounds { return bounds{c.Start, c.End} }

func (b bounds) String() string { return b.start + "-" + b.end }

// pad fills a number up to length.
func pad(number, digit string, length int) string {
	return number + strings.Repeat(digit, max(0, length-len(number)))
}
