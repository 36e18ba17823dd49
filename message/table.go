package message

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// A Table lists the elements of a message, or of an object within one, in one version of the
// protocol. Tables are shared and must not be changed.
type Table struct {
	Type    Type   // the type of the message; meaningless for a nested object
	Name    string // "AReq", or the name of a nested object: "acctInfo"
	Version Version
	Fields  []Field
	Rules   []Rule

	rowOf  []int16          // by name id; -1: no such row; nil if byName is set
	byName map[string]int16 // by name in lower case; only in tables of NewTable
	cells  [12][]byte       // the presence of each row in each view; see cellsOf
}

// A Field is one row of a table: an element of a message. A bound of 0 means no bound.
// Lengths are numbers of characters.
type Field struct {
	Need Need   // presence in the six columns
	Name string // as in the message

	Kind     Kind // of the value or, if Array is set, of an item
	Array    bool
	plain    bool   // a string that is checked by length and Kind alone
	ascii    bool   // all valid strings of the kind are ASCII
	Min, Max int    // characters of a string or of a serialised object, items of an array
	Codes    *Codes // the codes of a OneOf in this version and row
	// The fields above are all that most checks read. They fit into one cache line.

	Doc string // a few English words on the meaning

	ItemMin, ItemMax int   // characters of an item of an array of strings
	MaxChars         int   // characters of the whole serialised array
	Range            *Span // the numbers that a string of digits may stand for; nil means any
	AltArray         bool  // an array of strings is accepted too
	AltObject        bool  // an object is accepted in place of a string

	List string // the name of the code list of a OneOf
	Only string // the codes of the list that are valid here, with spaces between; "" means all
	Type string // the name of the nested table of an Object
	Of   *Table // the nested table of an Object

	When            string // the condition of the C columns; "" means that it cannot be evaluated
	Partial         bool   // the condition has further cases, which When does not cover
	PAOnly          bool   // When applies to payments only; otherwise the element is optional
	Else            Else   // the presence if When is false
	Forbid          string // a condition; if it is true, the element must be absent
	IgnoreForbidden bool   // if Forbid is true, the element is ignored instead of refused

	SupportedVersion bool // a protocol version that must be one of [Versions]
	HTTPS            bool // a URL that must have the scheme https; see Context.Loopback

	// Browser is set for a URL of an issuer to which a browser is sent. Check refuses a
	// URL to which no browser may be sent; see Context.Lab.
	Browser bool
	// Unchecked is set for an element that Check accepts with any value. Code that uses the
	// value has to check it.
	Unchecked bool

	NotBlank bool // a text of white space alone is refused even if the element is optional

	Leg  Leg  // the part of the route on which the element is sent
	DS   bool // set by a directory server or an ACS, never by a 3DS Server or a requestor
	Mask Mask

	id           uint16
	when, forbid *expr
}

// A Need is the presence of an element in the six columns of the
// specification's tables, one letter per column, "RR CC --": PA and NPA for
// APP, BRW and 3RI. R is required, C conditional and O optional; - means that the
// element is not defined there.
type Need string

// At returns the letter of one column. It panics if ch or cat is none of the
// constants.
func (n Need) At(ch Channel, cat Category) byte { return n[viewOf(ch, cat)] }

// Else is the presence of a conditional element if its condition is false.
type Else uint8

const (
	Optional Else = iota // the element may be present
	Absent               // the element has no meaning and is not sent
)

// A Leg is the part of the route between 3DS Server and ACS on which an element is sent.
type Leg uint8

const (
	EveryLeg Leg = iota // on the whole route
	ToDS                // from the 3DS Server to the directory server only
	DSToACS             // added by the directory server; a 3DS Server never sends it
	ACSToDS             // removed by the directory server; a 3DS Server should not receive it
)

// A Mask says how much of a value may be shown to people.
type Mask uint8

const (
	Clear  Mask = iota // all of it
	PAN                // first six and last four digits
	Secret             // nothing
)

// A Span is a range of numbers, both ends included.
type Span struct{ Min, Max int }

// A Rule relates elements of one message, or of two messages of a transaction: if the
// condition When is true, the condition Must has to be true.
type Rule struct {
	Name                string // an English phrase that names the rule
	Field               string // the element to which the problem belongs
	When, Must          string
	Code                Code
	Soft                bool // Check ignores the rule, because not all senders follow it
	UnlessInformational bool // the rule is off when Context.Informational is set

	row        int
	when, must *expr
}

// Field returns the row with a name, or nil if there is none. A nil Table has no rows.
func (t *Table) Field(name string) *Field {
	if t == nil {
		return nil
	}
	if t.byName != nil {
		if i := rowList(t.Fields).indexOf(name); i >= 0 {
			return &t.Fields[i]
		}
		return nil
	}
	if i := t.row(names.ids[name]); i >= 0 {
		return &t.Fields[i]
	}
	return nil
}

// rowOfMember returns the index of the row of a member of m, or -1 if there is none.
func (t *Table) rowOfMember(m *Message, n *node) int {
	if t.byName != nil {
		return t.searchRow(m, n)
	}
	if n.name >= maxNames {
		return -1
	}
	return int(t.rowOf[n.name])
}

// searchRow is rowOfMember for a table of [NewTable], whose names need not have ids.
func (t *Table) searchRow(m *Message, n *node) int {
	var text []byte
	if n.name < maxNames {
		text = []byte(names.list[n.name])
	} else {
		text = nameText(m.data, *n)
	}
	row, ok := t.byName[string(fold(nil, text))]
	if !ok || !m.folded && t.Fields[row].Name != string(text) {
		return -1
	}
	return int(row)
}

// row returns the index of the row with a name id, or -1 if there is none.
func (t *Table) row(id uint16) int {
	return int(t.rowOf[id])
}

// TableOf returns the table of a message in a version, or nil if the version has no such
// message.
func TableOf(t Type, v Version) *Table { return tables.messages[t][v] }

// ObjectTable returns the table of a nested object in a version, or nil if the version has
// no such object.
func ObjectTable(name string, v Version) *Table { return tables.objects[name][v] }

// ObjectNames returns the names of all nested tables, sorted.
func ObjectNames() []string { return slices.Sorted(maps.Keys(objectRows)) }

// NewTable returns a table for an object that the protocol leaves to others, such as the data
// of a message extension. Use it with [Message.CheckObject], [Message.DescribeObject] and
// [Request.BuildObject].
//
// A row without Need is optional. The code list of a OneOf is Codes. If that is nil, it is the list of 2.3.1 that List
// names. Type names an object of 2.3.1; Of is a table of NewTable in place of that. Conditions may refer to rows of the
// same table only. A row may be a copy of a row of another table. NewTable panics if a row is wrong.
func NewTable(name string, rows ...Field) *Table {
	t := &Table{Name: name, Version: V231, Fields: slices.Clone(rows), byName: make(map[string]int16)}
	for i := range t.Fields {
		low := string(fold(nil, []byte(t.Fields[i].Name)))
		if _, ok := t.byName[low]; ok {
			panic("message: " + name + ": two rows " + t.Fields[i].Name)
		}
		t.byName[low] = int16(i)
	}
	for i := range t.Fields {
		f := &t.Fields[i]
		f.id = 0
		if f.Need == "" {
			f.Need = "OO OO OO"
		}
		switch {
		case f.Kind == OneOf && f.Codes == nil:
			f.Codes = codesFor(f.List, f.Only, V231)
		case f.Kind == OneOf:
			f.Codes = f.Codes.withResults(V231)
		case f.Kind == Object && f.Of == nil:
			f.Of = ObjectTable(f.Type, V231)
		}
		if f.Kind == Object && f.Of == nil {
			panic(fmt.Sprintf("message: %s.%s: no table %q", name, f.Name, f.Type))
		}
		f.setLengths()
		f.when, f.forbid = tables.compileCondition(t, f.When), tables.compileCondition(t, f.Forbid)
		f.findShortcuts(t)
	}
	t.cells = cellsOf(t.Fields)
	return t
}

// rowList are the rows of a table while it is being written down.
type rowList []Field

// with returns r with rows that a version changes or adds. A changed row keeps its place;
// new rows follow at the end.
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

// without returns r without the rows with these names. It panics if there is no such row.
func (r rowList) without(names ...string) rowList {
	r = slices.Clone(r)
	for _, name := range names {
		i := r.indexOf(name)
		if i < 0 {
			panic("message: no row " + name + " to remove")
		}
		r = slices.Delete(r, i, i+1)
	}
	return r
}

// indexOf returns the index of the row with a name, or -1 if there is none.
func (r rowList) indexOf(name string) int {
	return slices.IndexFunc(r, func(f Field) bool { return f.Name == name })
}

// rowsByVersion holds the rows of one table in each version; nil means that the version
// lacks the table.
type rowsByVersion [versionCount]rowList

// sameRows returns the rows of a table that is equal in all versions.
func sameRows(rows ...Field) rowsByVersion { return rowsByVersion{V210: rows, V220: rows, V231: rows} }

// tables are all tables, resolved and compiled.
var tables = compileTables()

// A tableSet holds the tables of messages and of nested objects.
type tableSet struct {
	messages [typeCount][versionCount]*Table
	objects  map[string]*[versionCount]*Table
}

// compileTables resolves the names in all rows: code lists, nested tables and the paths of
// conditions. It panics if a row is wrong.
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

// compile resolves the names in the rows and rules of one table.
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
		f.setLengths()
		if f.Kind == Object {
			nested := set.objects[f.Type]
			if nested == nil || nested[t.Version] == nil {
				panic(fmt.Sprintf("message: %s %s.%s: no table %q", t.Version, t.Name, f.Name, f.Type))
			}
			f.Of = nested[t.Version]
		}
		f.when = set.compileCondition(t, f.When)
		f.forbid = set.compileCondition(t, f.Forbid)
		f.findShortcuts(t)
	}
	t.cells = cellsOf(t.Fields)
	for i := range t.Rules {
		r := &t.Rules[i]
		r.row = t.row(names.ids[r.Field])
		if r.row < 0 {
			panic(fmt.Sprintf("message: %s %s: rule %s: no row %s", t.Version, t.Name, r.Name, r.Field))
		}
		r.when = set.compileCondition(t, r.When)
		r.must = set.compileCondition(t, r.Must)
	}
}

// findShortcuts sets what lets the checks of most rows be short.
func (f *Field) findShortcuts(t *Table) {
	f.ascii = f.Kind != Text && f.Kind != Email && f.Kind != URL && f.Kind != AppURL
	f.plain = f.Forbid == "" && f.Kind.isText() && f.Kind != Base64 && f.Range == nil && !f.Array &&
		!f.SupportedVersion && !f.HTTPS && !f.Browser && !f.Unchecked && !(f.Kind == URL && t.Type == AReq)
}

// A view is the set of presence columns to which a message may belong: those of a channel or
// anyChannel, and of a category or anyCategory.
type view uint8

// viewOf returns the view of a channel and a category.
func viewOf(ch Channel, cat Category) view { return view(3*(ch-APP)) + view(cat-PA) }

const (
	anyChannel  = ThreeRI + 1
	anyCategory = NPA + 1
)

// parseView returns the view of a deviceChannel and a messageCategory. A value that is
// missing or unknown means any.
func parseView(channel, category string) view {
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

// cellsOf returns, by view and row, the presence that all columns of the view have in
// common: R if all are R, C if all are R or C, - if all are -, and otherwise O. A condition
// that cannot be evaluated makes an O. An element that the directory server should have
// removed counts as not defined, so that no result is refused because of it.
func cellsOf(fields []Field) (cells [12][]byte) {
	for ch := APP; ch <= anyChannel; ch++ {
		for cat := PA; cat <= anyCategory; cat++ {
			list := make([]byte, len(fields))
			for i := range fields {
				list[i] = fields[i].agreedCell(ch, cat)
			}
			cells[viewOf(ch, cat)] = list
		}
	}
	return cells
}

// agreedCell returns the presence that the columns of a view have in common.
func (f *Field) agreedCell(ch Channel, cat Category) byte {
	var count [1 << 8]int // by presence
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

// compileCondition compiles a condition of t; the condition "" is nil.
func (set *tableSet) compileCondition(t *Table, text string) *expr {
	if text == "" {
		return nil
	}
	e, err := compileExpr(text, t, set)
	if err != nil {
		panic(fmt.Sprintf("message: %s %s: %q: %v", t.Version, t.Name, text, err))
	}
	return e
}

// setLengths sets the lengths that follow from the kind, if the row has none.
func (f *Field) setLengths() {
	lo, hi := &f.Min, &f.Max
	if f.Array {
		f.Min = max(f.Min, 1)
		lo, hi = &f.ItemMin, &f.ItemMax
	}
	if *lo == 0 && *hi == 0 {
		*lo, *hi = f.Kind.lengths()
		if f.Codes != nil {
			*lo, *hi = f.Codes.lengths()
		}
	}
	if *lo == 0 && (*hi > 0 || f.Kind.isText()) {
		*lo = 1
	}
}

// names holds the names of all elements of all tables. Each has a small number, its id, so
// that only the parser compares texts.
var names = newNameIndex()

// The ids of the names whose top-level members are found without a search.
const (
	idType = 1 + iota
	idVersion
	idChannel
	idCategory
	idExtension

	firstNameCount
)

// maxNames is the largest number of names.
const maxNames = 512

// A nameIndex gives names ids, from 1; the id 0 means no name.
type nameIndex struct {
	list   []string
	ids    map[string]uint16
	folded map[string]uint16    // by the name in ASCII lower case
	slots  [4 * maxNames]uint16 // a hash table of ids with open addressing; 0 is a free slot
}

// id returns ids[name]. It uses a hash table of its own, because a Go map took half the time
// of reading a message.
func (b *nameIndex) id(name []byte) uint16 {
	for i := firstSlot(name); ; i = (i + 1) % uint(len(b.slots)) {
		if id := b.slots[i]; id == 0 || b.list[id] == string(name) {
			return id
		}
	}
}

// firstSlot returns the slot where the search for a name begins. It hashes the length and the
// first and last 8 bytes, which differ for most names.
func firstSlot(name []byte) uint {
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

// newNameIndex gives ids to the names of all tables.
func newNameIndex() *nameIndex {
	b := &nameIndex{list: []string{""}, ids: make(map[string]uint16), folded: make(map[string]uint16)}
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

// add gives ids to the names of rows that have none. It panics if two names differ only in
// case.
func (b *nameIndex) add(rows rowList) {
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
		i := firstSlot([]byte(f.Name))
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
