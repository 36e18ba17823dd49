package message

// This file is one idea: what a table is, and how its rows are compiled at start.

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// A Table says what a message, or an object within one, is made of in one
// version.
type Table struct {
	Type    Type   // of a message; meaningless for a nested object
	Name    string // "AReq", or the name of a nested object: "acctInfo"
	Version Version
	Fields  []Field
	Rules   []Rule

	rowOf []int16    // by name id; -1: no such row
	cells [12][]byte // by view and row: what Check has to do about presence
}

// A Field is one row of a table. The zero value of a bound means none.
type Field struct {
	Need Need   // presence in the six columns
	Name string // as on the wire

	Kind     Kind // of the value; of an item when Array
	Array    bool
	plain    bool   // a string of which only length and form matter
	ascii    bool   // the kind has one byte per character
	Min, Max int    // characters of a string or of a serialised object, items of an array
	Codes    *Codes // the list of a OneOf as it is in this version and row
	// What is above is all that checking looks at for most rows: one cache line.

	Doc string // what it is, in a few words

	ItemMin, ItemMax int   // characters of an item of an array of strings
	MaxChars         int   // characters of the whole serialised array
	Range            *Span // of the number that a string of digits stands for
	AltArray         bool  // an array is tolerated where the row says string
	AltObject        bool  // an object is allowed where the row says string

	List string // the name of the code list of a OneOf
	Only string // those codes of the list that are allowed here; "": all
	Type string // the name of the nested table of an Object
	Of   *Table // that table

	When            string // the condition of C columns; "": not expressible
	Partial         bool   // there are further cases that When does not cover
	PAOnly          bool   // When counts for payments only, otherwise optional
	Else            Else   // what the element is when When is false
	Forbid          string // when true the element must be absent
	IgnoreForbidden bool   // … or rather is ignored

	SupportedVersion bool // a version that must be one in use
	HTTPS            bool // a URL that we send with https only

	// Browser is a URL that an issuer gives and that a browser is sent to. Check holds it
	// to what Context.Lab says.
	Browser bool
	// Withheld is an element that Check never refuses, whatever its value. Who uses it
	// withholds a bad value.
	Unchecked bool

	NotBlank bool // a text that may not be blanks alone, required or not

	Leg  Leg  // the element travels on one leg only
	DS   bool // set by a directory server or an ACS: never by a 3DS server or a requestor
	Mask Mask

	id           uint16
	when, forbid *expr
}

// A Need is the presence of an element in the six columns of the
// specification's tables, one letter per column, "RR CC --": PA and NPA for
// APP, BRW and 3RI. R is required, C conditional, O optional; - means that the
// tables do not define the element there.
type Need string

// At returns the letter of one column. It panics if ch or cat is none of the
// constants.
func (n Need) At(ch Channel, cat Category) byte { return n[viewOf(ch, cat)] }

// Else says what a conditional element is when its condition is false.
type Else uint8

const (
	Optional Else = iota
	Absent        // it has no meaning and is not sent
)

// A Leg is the one part of the way on which an element travels.
type Leg uint8

const (
	EveryLeg Leg = iota
	ToDS         // from the 3DS server to the directory server only
	DSToACS      // added by the directory server: a 3DS server never sends it
	ACSToDS      // removed by the directory server: a 3DS server should not see it
)

// A Mask says how much of a value people may see.
type Mask uint8

const (
	Clear  Mask = iota // all of it
	PAN                // first six and last four digits
	Secret             // nothing
)

// A Span is an inclusive range of numbers.
type Span struct{ Min, Max int }

// A Rule ties elements of a message, or of two messages of a transaction,
// together: when When is true, Must has to be.
type Rule struct {
	Name                string
	Field               string // the element to blame
	When, Must          string
	Code                Code
	Soft                bool // not kept by everybody: no reason to refuse what comes from elsewhere
	UnlessInformational bool // the rule is off when Context.Informational is set

	row        int
	when, must *expr
}

// Field returns the row of a name, nil when there is none. A nil Table has none.
func (t *Table) Field(name string) *Field {
	if t == nil {
		return nil
	}
	if i := t.row(names.ids[name]); i >= 0 {
		return &t.Fields[i]
	}
	return nil
}

// row returns the index of the row of a name id, -1 when there is none.
func (t *Table) row(id uint16) int {
	return int(t.rowOf[id])
}

// TableOf returns the table of a type in a version, nil when that version lacks
// it. It is shared: read only.
func TableOf(t Type, v Version) *Table { return tables.messages[t][v] }

// ObjectTable returns the table of a nested object in a version, nil when that
// version lacks it. It is shared: read only.
func ObjectTable(name string, v Version) *Table { return tables.objects[name][v] }

// ObjectNames returns the names of all nested tables, sorted.
func ObjectNames() []string { return slices.Sorted(maps.Keys(objectRows)) }

// rowList are the rows of a table while it is being written down.
type rowList []Field

// with returns r with rows that a version changes or adds. A changed row keeps
// its place, a new one follows at the end.
func (r rowList) with(rows rowList) rowList {
	r = slices.Clone(r)
	for _, f := range rows {
		if i := r.indexOf(f.Name); i >= 0 {
			r[i] = f
		} else {
			r = append(r, f)
		}
	}
	return r
}

// without returns r without rows that a version does not have any more.
func (r rowList) without(names ...string) rowList {
	r = slices.Clone(r)
	for _, name := range names {
		i := r.indexOf(name)
		if i < 0 {
			panic("message: no row " + name + " to take out")
		}
		r = slices.Delete(r, i, i+1)
	}
	return r
}

func (r rowList) indexOf(name string) int {
	return slices.IndexFunc(r, func(f Field) bool { return f.Name == name })
}

// versions are the rows of one table in each version; nil where a version
// lacks it.
type versions [versionCount]rowList

// same is a table that is equal in all versions.
func same(rows ...Field) versions { return versions{V210: rows, V220: rows, V231: rows} }

// tables are all tables, resolved and compiled.
var tables = compileTables()

// A tableSet holds the tables of messages and of nested objects.
type tableSet struct {
	messages [typeCount][versionCount]*Table
	objects  map[string]*[versionCount]*Table
}

// compileTables resolves what the rows name: code lists, nested tables, paths
// in conditions. It panics on a mistake in the rows.
func compileTables() *tableSet {
	set := &tableSet{objects: make(map[string]*[versionCount]*Table)}
	for name := range objectRows {
		set.objects[name] = new([versionCount]*Table)
	}
	for _, v := range Versions() {
		for name, rows := range objectRows {
			if rows[v] != nil {
				set.objects[name][v] = &Table{Name: name, Version: v, Fields: slices.Clone(rows[v])}
			}
		}
		for _, t := range Types() {
			if !t.In(v) {
				continue
			}
			set.messages[t][v] = &Table{Type: t, Name: t.String(), Version: v,
				Fields: slices.Clone(messageRows[t][v]), Rules: slices.Clone(messageRules[t][v])}
		}
	}
	for _, v := range Versions() {
		for _, t := range set.messages {
			if t[v] != nil {
				set.compile(t[v])
			}
		}
		for _, t := range set.objects {
			if t[v] != nil {
				set.compile(t[v])
			}
		}
	}
	return set
}

func (set *tableSet) compile(t *Table) {
	t.rowOf = slices.Repeat([]int16{-1}, len(names.list))
	for i := range t.Fields {
		f := &t.Fields[i]
		f.id = names.ids[f.Name]
		if t.rowOf[f.id] >= 0 {
			panic(fmt.Sprintf("message: %s %s: two rows %s", t.Version, t.Name, f.Name))
		}
		t.rowOf[f.id] = int16(i)
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		if f.Kind == OneOf {
			f.Codes = codesFor(f.List, f.Only, t.Version)
		}
		f.fill()
		if f.Kind == Object {
			nested := set.objects[f.Type]
			if nested == nil || nested[t.Version] == nil {
				panic(fmt.Sprintf("message: %s %s.%s: no table %q", t.Version, t.Name, f.Name, f.Type))
			}
			f.Of = nested[t.Version]
		}
		f.when = set.expression(t, f.When)
		f.forbid = set.expression(t, f.Forbid)
		f.ascii = f.Kind != Text && f.Kind != Email && f.Kind != URL && f.Kind != AppURL
		f.plain = f.Forbid == "" && f.Kind.isText() && f.Kind != Base64 && f.Range == nil && !f.Array && !f.SupportedVersion && !f.HTTPS && !f.Browser && !f.Unchecked && !(f.Kind == URL && t.Type == AReq)
	}
	t.cells = cellsOf(t.Fields)
	for i := range t.Rules {
		r := &t.Rules[i]
		r.row = t.row(names.ids[r.Field])
		if r.row < 0 {
			panic(fmt.Sprintf("message: %s %s: rule %s: no row %s", t.Version, t.Name, r.Name, r.Field))
		}
		r.when = set.expression(t, r.When)
		r.must = set.expression(t, r.Must)
	}
}

// A view is the columns that a message may belong to: a channel or anyChannel,
// and a category or anyCategory.
type view uint8

func viewOf(ch Channel, cat Category) view { return view(3*(ch-APP)) + view(cat-PA) }

const (
	anyChannel  = ThreeRI + 1
	anyCategory = NPA + 1
)

// viewSaid is the view of a deviceChannel and a messageCategory; one that is missing or
// unknown stands for any.
func viewSaid(channel, category string) view {
	ch, ok := ParseChannel(channel)
	if !ok {
		ch = anyChannel
	}
	cat, ok := ParseCategory(category)
	if !ok {
		cat = anyCategory
	}
	return viewOf(ch, cat)
}

// cellsOf tells for each view and row what the columns of the view agree on: R
// where all say so, C where all say at least that, - where none knows the
// element, otherwise O. A condition that cannot be evaluated makes an O, and an
// element that a directory server takes out is as good as not defined: no
// result is lost over it.
func cellsOf(fields []Field) (cells [12][]byte) {
	for ch := APP; ch <= anyChannel; ch++ {
		for cat := PA; cat <= anyCategory; cat++ {
			list := make([]byte, len(fields))
			for i := range fields {
				list[i] = fields[i].agreed(ch, cat)
			}
			cells[viewOf(ch, cat)] = list
		}
	}
	return cells
}

func (f *Field) agreed(ch Channel, cat Category) byte {
	count := make(map[byte]int)
	n := 0
	for _, oneCh := range Channels() {
		for _, oneCat := range Categories() {
			if (ch == anyChannel || ch == oneCh) && (cat == anyCategory || cat == oneCat) {
				count[f.Need.At(oneCh, oneCat)]++
				n++
			}
		}
	}
	if f.Leg == ACSToDS {
		return '-'
	}
	switch n {
	case count['R']:
		return 'R'
	case count['-']:
		return '-'
	case count['R'] + count['C']:
		if f.when != nil && !(f.PAOnly && cat != PA) {
			return 'C'
		}
	}
	return 'O'
}

// expression compiles a condition of t; nil for "".
func (set *tableSet) expression(t *Table, text string) *expr {
	if text == "" {
		return nil
	}
	e, err := compileExpr(text, t, set)
	if err != nil {
		panic(fmt.Sprintf("message: %s %s: %q: %v", t.Version, t.Name, text, err))
	}
	return e
}

// fill sets the lengths that follow from the kind, where the row says none.
func (f *Field) fill() {
	lo, hi := &f.Min, &f.Max
	if f.Array {
		f.Min = max(f.Min, 1)
		lo, hi = &f.ItemMin, &f.ItemMax
	}
	if *lo == 0 && *hi == 0 {
		*lo, *hi = f.Kind.size()
		if f.Codes != nil {
			*lo, *hi = f.Codes.size()
		}
	}
	if *lo == 0 && (*hi > 0 || f.Kind.isText()) {
		*lo = 1
	}
}

// names are the names of all elements of all tables. They get small numbers,
// so that everything after reading compares numbers.
var names = internNames()

// The names that come first: their members are found without a search.
const (
	idType = 1 + iota
	idVersion
	idChannel
	idCategory
	idExtension

	headNames
)

// maxNames is how many names there may be.
const maxNames = 512

// A nameBook numbers names from 1; 0 is no name.
type nameBook struct {
	list   []string
	ids    map[string]uint16
	folded map[string]uint16 // by the name in ASCII lower case
	slots  [4 * maxNames]uint16
}

// id is ids[name], found faster: with so many names, half the time of reading
// a message went into the map.
func (b *nameBook) id(name []byte) uint16 {
	for i := slot(name); ; i = (i + 1) % uint(len(b.slots)) {
		if id := b.slots[i]; id == 0 || b.list[id] == string(name) {
			return id
		}
	}
}

// slot is where to begin to look for a name: the ends tell most of them apart.
func slot(name []byte) uint {
	x := uint64(len(name))
	if n := len(name); n >= 8 {
		x += binary.LittleEndian.Uint64(name) + binary.LittleEndian.Uint64(name[n-8:])*31
	} else {
		for _, c := range name {
			x = x<<8 | uint64(c)
		}
	}
	return uint(x*0x9e3779b97f4a7c15>>53) % (4 * maxNames)
}

func internNames() *nameBook {
	b := &nameBook{list: []string{""}, ids: make(map[string]uint16), folded: make(map[string]uint16)}
	b.add(rowList{idType: {Name: "messageType"}, idVersion: {Name: "messageVersion"}, idChannel: {Name: "deviceChannel"},
		idCategory: {Name: "messageCategory"}, idExtension: {Name: "messageExtension"}}[idType:])
	for _, t := range Types() {
		for _, rows := range messageRows[t] {
			b.add(rows)
		}
	}
	for _, name := range ObjectNames() {
		for _, rows := range objectRows[name] {
			b.add(rows)
		}
	}
	if len(b.list) > maxNames {
		panic("message: too many names")
	}
	return b
}

func (b *nameBook) add(rows rowList) {
	for _, f := range rows {
		if b.ids[f.Name] != 0 {
			continue
		}
		id, low := uint16(len(b.list)), string(fold(nil, []byte(f.Name)))
		if b.folded[low] != 0 {
			panic("message: the names " + f.Name + " and " + b.list[b.folded[low]] + " differ in case only")
		}
		b.list = append(b.list, f.Name)
		b.ids[f.Name], b.folded[low] = id, id
		i := slot([]byte(f.Name))
		for b.slots[i] != 0 {
			i = (i + 1) % uint(len(b.slots))
		}
		b.slots[i] = id
	}
}

// fold appends name in ASCII lower case to dst.
func fold(dst, name []byte) []byte {
	for _, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}
