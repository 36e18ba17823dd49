package sandbox

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

// A CardRange is one range of card numbers and what a directory server tells
// of it. It is written in the words of whichever version is asked for; what a
// version lacks is left out. Nothing of it is checked: data may be as wrong as
// a test wants it.
type CardRange struct {
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

// Ranges is the card ranges of one directory server: a set that changes from
// generation to generation, each with its serial number. At first it is the
// documented ranges. A Ranges may be used by several goroutines at once.
type Ranges struct {
	d *directory

	mu       sync.Mutex
	gen      *generator        // the ranges that are made on the fly; nil for none
	override map[bounds]*about // changes of those: nil for one that was deleted
	own      map[bounds]*about // all others
	order    []bounds          // of own
	abouts   map[string]*about // by the JSON of what is told
	past     []generation      // oldest first, without those that are forgotten
	serial   string            // of the set as it is
	number   int               // of serial
	service  RangeService      // how PReqs are answered
	asked    time.Time         // when the latest PReq came
	files    map[string]int64  // sizes of the file as it is, by ETag
	edition  int               // how often the file changed by itself
	fetched  int               // how often the file was asked for since Serve
}

// bounds are what a range is known by.
type bounds struct{ start, end string }

// about is what is told of a range beside its bounds, and the same as JSON
// members for each version.
type about struct {
	CardRange
	tails     map[string]func() []byte
	generated bool
}

// A RangeChange is what becomes of a set in one generation: Replace first, then
// Delete, Modify and Add. Of a range to delete only the bounds count.
type RangeChange struct {
	Replace []CardRange `json:"replace,omitempty"` // the whole set from now on; nil leaves it
	Delete  []CardRange `json:"delete,omitempty"`
	Modify  []CardRange `json:"modify,omitempty"`
	Add     []CardRange `json:"add,omitempty"`
}

// Ranges are the card ranges of a scheme's directory server, nil when there is
// no such scheme. They are there once Start has returned.
func (s *Sandbox) Ranges(scheme string) *Ranges {
	d := s.schemes[scheme]
	if d == nil {
		return nil
	}
	return d.ranges
}

func newRanges(d *directory) *Ranges {
	r := &Ranges{d: d, own: make(map[bounds]*about), abouts: make(map[string]*about)}
	r.enter(r.documented())
	r.renumber()
	return r
}

// documented is one range for each prefix, of 16 digits: since what a test card
// does hangs on its last digits, each has all versions and a 3DS Method, and
// Card knows better.
func (r *Ranges) documented() []CardRange {
	var all []CardRange
	for _, prefix := range r.d.scheme.prefixes {
		all = append(all, CardRange{
			Start: pad(prefix, '0', 16), End: pad(prefix, '9', 16),
			MethodURL: r.d.box.acs.url + methodPath,
			Info:      []string{"01", "02", "03"}, Confirms: true,
		})
	}
	return all
}

// renumber gives the set the next serial number. Its first part is the time of
// the first: another run of the sandbox has other addresses in its ranges, and
// does not take its numbers for these.
func (r *Ranges) renumber() {
	if r.number == 0 {
		r.serial = strconv.FormatInt(r.d.box.stamp().UnixMilli(), 36)
	} else {
		r.serial = r.serial[:len(r.serial)-len(ordinal(r.number))]
	}
	r.number++
	r.serial += ordinal(r.number)
	r.files, r.edition = make(map[string]int64), 0
}

func ordinal(n int) string { return "g" + strconv.Itoa(n) }

// Add adds ranges, as Change does.
func (r *Ranges) Add(all ...CardRange) error { return r.Change(RangeChange{Add: all}) }

// Modify changes what is told of ranges, which are known by their bounds.
func (r *Ranges) Modify(all ...CardRange) error { return r.Change(RangeChange{Modify: all}) }

// Delete takes ranges out, which are known by their bounds.
func (r *Ranges) Delete(all ...CardRange) error { return r.Change(RangeChange{Delete: all}) }

// Replace makes all the whole set. Of a generated set it leaves nothing, and no
// older serial number is known from then on.
func (r *Ranges) Replace(all ...CardRange) error {
	return r.Change(RangeChange{Replace: append([]CardRange{}, all...)})
}

// Change makes a new generation with a serial number of its own. When a step is
// not possible, since its range is there already or is not there, nothing is
// changed.
func (r *Ranges) Change(c RangeChange) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	steps, fresh, err := r.plan(c)
	if err != nil {
		return fmt.Errorf("sandbox: ranges of %s: %w", r.d.scheme.word, err)
	}
	if fresh {
		r.drop()
	}
	for _, s := range steps {
		r.take(s)
	}
	r.tidy(steps)
	if !fresh {
		r.past = append(r.past, generation{serial: r.serial, steps: steps})
		r.forget()
	}
	r.renumber()
	return nil
}

// plan makes steps of a change; fresh says that they start from nothing.
func (r *Ranges) plan(c RangeChange) (steps []step, fresh bool, err error) {
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
		all   []CardRange
		there bool
		after func(CardRange) *about
	}{
		{"delete", c.Delete, true, func(CardRange) *about { return nil }},
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

// take makes one step.
func (r *Ranges) take(s step) {
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

// tidy keeps the order free of what was deleted, and of what came back.
func (r *Ranges) tidy(steps []step) {
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

// find is what is told of a range, nil when there is none of these bounds.
func (r *Ranges) find(b bounds) *about {
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

// drop makes the set empty and forgets all serial numbers.
func (r *Ranges) drop() {
	r.gen, r.override, r.past, r.order = nil, nil, nil, nil
	r.own = make(map[bounds]*about)
}

// enter adds ranges without a new serial number.
func (r *Ranges) enter(all []CardRange) {
	for _, one := range all {
		r.take(step{bounds: one.bounds(), after: r.intern(one)})
	}
}

// intern is what is told of a range, the same for ranges that are told the same.
func (r *Ranges) intern(c CardRange) *about {
	c.Start, c.End = "", ""
	key, _ := json.Marshal(c) // strings and lists of them
	a := r.abouts[string(key)]
	if a == nil {
		a = r.newAbout(c)
		r.abouts[string(key)] = a
	}
	return a
}

// Generate makes the set n realistic ranges beside the documented ones. They
// are made anew, the same for the same seed, each time they are sent, and take
// no memory: 2,000,000 are some 570 MB as a PRes of 2.2.0, 150 MB of 2.3.1. They
// have numbers of 13 to 19 digits, 4,000 different payloads and no overlap, and may
// be changed one by one. Older serial numbers are not known from then on.
func (r *Ranges) Generate(n int, seed uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	g, err := newGenerator(r, n, seed)
	if err != nil {
		return fmt.Errorf("sandbox: ranges of %s: %w", r.d.scheme.word, err)
	}
	r.drop()
	r.enter(r.documented())
	r.gen, r.override = g, make(map[bounds]*about)
	r.renumber()
	return nil
}

// Serial is the serial number of the set as it is.
func (r *Ranges) Serial() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.serial
}

// Len is how many ranges there are.
func (r *Ranges) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.snapshot().len()
}

// All is the ranges as they are now.
func (r *Ranges) All() iter.Seq[CardRange] {
	r.mu.Lock()
	set := r.snapshot()
	r.mu.Unlock()
	return func(yield func(CardRange) bool) {
		for it := range set.items() {
			c := it.about.CardRange
			c.Start, c.End = it.start, it.end
			if !yield(c) {
				return
			}
		}
	}
}

// A rangeSet is the set at one moment.
type rangeSet struct {
	serial   string
	own      []item
	gen      *generator
	override map[bounds]*about
}

// snapshot is called with the lock held.
func (r *Ranges) snapshot() rangeSet {
	set := rangeSet{serial: r.serial, gen: r.gen, override: maps.Clone(r.override)}
	set.own = make([]item, len(r.order))
	for i, b := range r.order {
		set.own[i] = item{bounds: b, about: r.own[b], action: "A"}
	}
	return set
}

func (s rangeSet) len() int {
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
func (s rangeSet) items() iter.Seq[item] {
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

func (c CardRange) bounds() bounds { return bounds{c.Start, c.End} }

func (b bounds) String() string { return b.start + "-" + b.end }

// pad fills a number up to length.
func pad(number string, digit byte, length int) string {
	out := append(make([]byte, 0, length), number...)
	for len(out) < length {
		out = append(out, digit)
	}
	return string(out)
}
