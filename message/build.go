package message

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/internal/base/charset"
)

// Build returns the AReq to send to a directory server. Its members are in the order of the
// table. Left out are members that the version, the channel or the category does not
// define, members that a 3DS Server does not send, and members that are empty. All others
// keep the JSON text that was received; the data of message extensions is the same byte for
// byte.
//
// Build parses and checks the AReq as a message from outside, and returns all problems,
// with those of the request's own form. The Message is nil only if the request has no
// version that this package supports: then little else can be checked.
func (r *Request) Build(ctx Context) (*Message, Problems) {
	v, ok := r.Version()
	if !ok {
		return nil, append(r.checkWithoutVersion(ctx), r.Duplicates()...)
	}
	b := newBuilder(r, v)
	b.checkMessageType()
	b.out = make([]byte, 0, len(r.m.data)+256)
	b.writeMembers(b.table, 0)
	m, err := Parse(b.out, Limits{Depth: -1, Members: -1})
	if err != nil {
		panic("message: built what is not JSON: " + err.Error())
	}
	m.placeholders = maps.Clone(r.placeholders)
	if ctx.AReq == nil {
		ctx.AReq = m
	}
	b.problems = append(b.problems, m.Check(ctx)...)
	b.problems = append(b.problems, r.Duplicates()...)
	if v >= V231 && areContradictory(m.Strings("threeDSRequestorChallengeInd")) {
		b.report(Format, "threeDSRequestorChallengeInd")
	}
	if v >= V231 && !b.problems.hasWithin("sellerInfo") && !m.hasAllSellers() {
		b.report(Format, "sellerInfo")
	}
	if len(b.problems) == 0 {
		return m, nil
	}
	return m, withoutRepeats(b.sortedProblems())
}

// withoutRepeats returns p without problems that are equal to an earlier one.
func withoutRepeats(p Problems) Problems {
	seen := make(map[Problem]bool, len(p))
	return slices.DeleteFunc(p, func(q Problem) bool {
		again := seen[q]
		seen[q] = true
		return again
	})
}

// checkWithoutVersion returns the problems of a request without a supported version. If it
// has no version at all, that includes the elements that an AReq of every version needs.
func (r *Request) checkWithoutVersion(ctx Context) Problems {
	const name = "messageVersion"
	versions := ctx.Versions
	if versions == nil {
		versions = allVersions
	}
	switch text := r.Text(name); {
	case r.Has(name) && text == "":
		return Problems{{Code: Format, Path: name}}
	case strings.TrimSpace(text) != "":
		return Problems{{Code: UnsupportedVersion, Path: name, Note: versionList(versions)}}
	}
	var p Problems
	for _, f := range TableOf(AReq, V210).Fields {
		if r.Has(f.Name) && f.Name != name {
			continue
		}
		if !slices.ContainsFunc(allVersions, func(v Version) bool { return TableOf(AReq, v).Field(f.Name).Need != "RR RR RR" }) {
			p = append(p, Problem{Code: Missing, Path: Path(f.Name)})
		}
	}
	return p
}

// A builder writes the AReq of a request. It embeds a checker of the request, because the
// same presence columns and conditions decide what is sent.
type builder struct {
	checker
	r   *Request
	out []byte
}

func newBuilder(r *Request, v Version) *builder {
	b := &builder{checker: checker{m: r.m, table: TableOf(AReq, v), version: v}, r: r}
	b.view = parseView(r.Text("deviceChannel"), r.Text("messageCategory"))
	return b
}

// checkMessageType reports a request whose messageType is not AReq. The request is still
// checked as an AReq.
func (b *builder) checkMessageType() {
	const name = "messageType"
	switch text := b.r.Text(name); {
	case text == AReq.String():
	case !b.r.Has(name), text != "" && strings.TrimSpace(text) == "":
		b.report(Missing, name)
	default:
		b.report(Format, name)
	}
}

// isSent reports whether a 3DS Server sends the element of a row in this channel and
// category.
func (b *builder) isSent(t *Table, row int) bool {
	f := &t.Fields[row]
	return !f.DS && (f.Leg == EveryLeg || f.Leg == ToDS) && t.cells[b.view][row] != '-'
}

// writeMembers writes an object and reports whether it has members. Without members nothing
// is written, except at the top level.
func (b *builder) writeMembers(t *Table, object uint32) bool {
	start := len(b.out)
	b.out = append(b.out, '{')
	base := len(b.checker.members)
	s := b.findScope(t, object)
	for row := range t.Fields {
		f := &t.Fields[row]
		mark := len(b.out)
		b.out = appendName(b.out, f.Name)
		if !b.isSent(t, row) || !b.writeMember(f, object, s.members[row], s) {
			b.out = b.out[:mark]
		}
	}
	b.checker.members = b.checker.members[:base]
	if len(b.out) == start+1 && object != 0 {
		b.out = b.out[:start]
		return false
	}
	b.out = append(b.out, '}')
	return true
}

// findScope returns the members of an object that are sent and not empty. They lie in
// checker.members until the caller shortens it.
func (b *builder) findScope(t *Table, object uint32) scope {
	base := len(b.checker.members)
	b.checker.members = append(b.checker.members, make([]uint32, len(t.Fields))...)
	s := scope{b.checker.members[base:]}
	nodes := b.m.nodes
	for i := object + 1; i < nodes[object].next; i = nodes[i].next {
		n := &nodes[i]
		if n.flags&duplicate != 0 {
			continue
		}
		if row := t.rowOfMember(b.m, n); row >= 0 && b.isSent(t, row) && !b.isDropped(i) {
			s.members[row] = i
		}
	}
	return s
}

// isDropped reports whether a value is empty or was removed from the request.
func (b *builder) isDropped(i uint32) bool {
	if e, ok := b.r.edits[i]; ok && !e.wrap {
		return e.text == nil
	}
	return b.m.isHollow(i)
}

// sourceElements are the elements that name the source of another one. In an AReq that is
// always the 3DS Server (01), whatever the requestor sent.
var sourceElements = map[string]bool{
	"acquirerCountryCodeSource": true, "deviceBindingStatusSource": true, "payTokenSource": true,
	"trustListStatusSource": true, "whiteListStatusSource": true,
}

// isConditionMet reports whether a row has a condition and it is true.
func (b *builder) isConditionMet(f *Field, s scope) bool {
	return f.when != nil && b.evaluate(f.when, s) == yes
}

// isOnlyForCondition reports whether the element of a row is sent only if its condition is
// true.
func (f *Field) isOnlyForCondition() bool { return f.Else == Absent && f.when != nil && !f.Partial }

// writeMember writes the value of one row and reports whether there is one. The node i is
// 0 if the member is absent or empty.
func (b *builder) writeMember(f *Field, object, i uint32, s scope) bool {
	isMet := b.isConditionMet(f, s)
	if f.isOnlyForCondition() && !isMet {
		return false
	}
	if object == 0 {
		if f.id == idExtension {
			return b.writeExtensions(f, i)
		}
		text, added := b.r.added[f.Name]
		switch {
		case f.Name == "messageType":
			text, added = quote(AReq.String()), true
		case sourceElements[f.Name] && (isMet || i != 0 || added):
			text, added = quote("01"), true
		}
		if added {
			return b.writeText(f, text, -1)
		}
	}
	return b.writeSent(f, i)
}

// writeSent writes the value of one row that the requestor sent, and reports whether there is
// one.
func (b *builder) writeSent(f *Field, i uint32) bool {
	if i == 0 {
		return false
	}
	if b.r.edits[i].wrap {
		b.out = append(b.out, '[')
		if !b.writeValue(f, i, -1) {
			return false
		}
		b.out = append(b.out, ']')
		return true
	}
	return b.writeValue(f, i, -1)
}

// writeText writes a JSON text in place of a value.
func (b *builder) writeText(f *Field, text []byte, item int) bool {
	b.reportCharacters(f, text, item)
	b.out = append(b.out, text...)
	return true
}

// writeValue writes a value of row f and reports whether it was not empty.
func (b *builder) writeValue(f *Field, i uint32, item int) bool {
	n := &b.m.nodes[i]
	e := b.r.edits[i]
	switch {
	case b.isDropped(i):
		return false
	case e.text != nil:
		return b.writeText(f, e.text, item)
	case n.flags&isExtensionData != 0:
	case n.flags&isPassedOn != 0 && !b.r.isPlain:
		b.reportCharacters(f, b.m.raw(i), item)
	case n.flags&isPassedOn != 0:
	case n.kind == jsonObject && f.Of != nil:
		b.path = append(b.path, step{f.Name, item})
		ok := b.writeMembers(f.Of, i)
		b.path = b.path[:len(b.path)-1]
		return ok
	case n.kind == jsonObject:
		return b.writeObject(f, i)
	case n.kind == jsonArray:
		return b.writeItems(f, i)
	case n.kind == jsonString && !b.r.isPlain:
		b.reportCharacters(f, b.m.raw(i), item)
	}
	b.out = append(b.out, b.m.raw(i)...)
	return true
}

// writeItems writes an array without its empty items, and reports whether any was left.
func (b *builder) writeItems(f *Field, array uint32) bool {
	start := len(b.out)
	b.out = append(b.out, '[')
	for k, i := 0, array+1; i < b.m.nodes[array].next; k, i = k+1, b.m.nodes[i].next {
		mark := len(b.out)
		if mark > start+1 {
			b.out = append(b.out, ',')
		}
		if !b.writeValue(f, i, k) {
			b.out = b.out[:mark]
		}
	}
	if len(b.out) == start+1 {
		b.out = b.out[:start]
		return false
	}
	b.out = append(b.out, ']')
	return true
}

// writeObject writes an object that has no table, with the names that the requestor sent,
// and reports whether any member was left.
func (b *builder) writeObject(f *Field, object uint32) bool {
	start := len(b.out)
	b.out = append(b.out, '{')
	end := b.m.nodes[object].start + 1 // where the text before the next member begins
	for i := object + 1; i < b.m.nodes[object].next; i = b.m.nodes[i].next {
		name := b.m.data[end:]
		for name[0] != '"' {
			name = name[1:]
		}
		name = name[:quotedLength(name)]
		end = b.m.nodes[i].end
		if b.m.nodes[i].flags&duplicate != 0 {
			continue
		}
		mark := len(b.out)
		if mark > start+1 {
			b.out = append(b.out, ',')
		}
		b.out = append(append(b.out, name...), ':')
		if !b.writeValue(&Field{Name: f.Name}, i, -1) {
			b.out = b.out[:mark]
			continue
		}
		b.reportCharacters(f, name, -1)
	}
	if len(b.out) == start+1 {
		b.out = b.out[:start]
		return false
	}
	b.out = append(b.out, '}')
	return true
}

// BuildObject returns the JSON text of an object of the request, by a table of [NewTable]: the
// members that have a row, in the order of the table and without those that are empty. It
// returns nil if nothing is left. Path leads from the top level; names match in any case.
// The problems are those of the object with its path: faults, and members without a row.
// Those that occur twice are problems of [Request.Build].
func (r *Request) BuildObject(path Path, t *Table) ([]byte, Problems) {
	i := r.findPath(path)
	if i == 0 || r.m.isHollow(i) {
		return nil, nil
	}
	if r.m.nodes[i].kind != jsonObject {
		return nil, Problems{{Code: Format, Path: path}}
	}
	b := &builder{checker: checker{m: r.m, table: t, version: t.Version, view: viewOf(anyChannel, anyCategory)}, r: r}
	b.path = append(b.path, step{string(path), -1})
	b.reportUnknown(t, i)
	if !b.writeMembers(t, i) {
		return nil, b.problems
	}
	m, err := Parse(b.out, Limits{Depth: -1, Members: -1})
	if err != nil {
		panic("message: built what is not JSON: " + err.Error())
	}
	for _, p := range m.CheckObject("", t) {
		p.Path = path + "." + p.Path
		b.problems = append(b.problems, p)
	}
	return b.out, b.problems
}

// RawAt returns the JSON text of the value at a path of names. It returns nil if there is none or if
// it is empty. Names match in any case. A value below the top level is returned as the requestor
// sent it, without changes that were made since.
func (r *Request) RawAt(path Path) []byte {
	if !strings.Contains(string(path), ".") {
		if !r.Has(string(path)) {
			return nil
		}
		return r.raw(string(path))
	}
	i := r.findPath(path)
	if i == 0 || r.m.isHollow(i) {
		return nil
	}
	return r.m.raw(i)
}

// Members returns the names of the members of the object at a path, as the requestor wrote them
// and without those that are empty. A name that could hold card data is "unknown".
func (r *Request) Members(path Path) []string {
	object := r.findPath(path)
	if object == 0 || r.m.nodes[object].kind != jsonObject {
		return nil
	}
	c := checker{m: r.m}
	var all []string
	for i := object + 1; i < r.m.nodes[object].next; i = r.m.nodes[i].next {
		if !r.m.isHollow(i) {
			all = append(all, c.printableName(&r.m.nodes[i]))
		}
	}
	return all
}

// findPath returns the node at a path of names, or 0 if there is none.
func (r *Request) findPath(path Path) uint32 {
	first, rest, _ := strings.Cut(string(path), ".")
	i := r.find(first)
	for rest != "" && i != 0 {
		var name string
		name, rest, _ = strings.Cut(rest, ".")
		i = r.m.foldedMember(i, name)
	}
	return i
}

// foldedMember returns the first member of an object with this name in any case, or 0 if there
// is none.
func (m *Message) foldedMember(object uint32, name string) uint32 {
	if m.nodes[object].kind != jsonObject {
		return 0
	}
	for i := object + 1; i < m.nodes[object].next; i = m.nodes[i].next {
		n := m.nodes[i]
		if n.name < maxNames && strings.EqualFold(names.list[n.name], name) || n.name >= maxNames && strings.EqualFold(string(nameText(m.data, n)), name) {
			return i
		}
	}
	return 0
}

// Unknown returns the paths of the members that an AReq of the version of the request does not have; Build leaves
// them out. A name that could hold card data is "unknown".
func (r *Request) Unknown() []Path {
	v, _ := r.Version()
	b := newBuilder(r, v)
	b.reportUnknown(b.table, 0)
	var paths []Path
	for _, p := range b.problems {
		paths = append(paths, p.Path)
	}
	return paths
}

// reportUnknown reports the members of an object, and of the objects in it, that have no row.
func (b *builder) reportUnknown(t *Table, object uint32) {
	for i := object + 1; i < b.m.nodes[object].next; i = b.m.nodes[i].next {
		n := &b.m.nodes[i]
		row := t.rowOfMember(b.m, n)
		switch {
		case b.m.isHollow(i):
		case row < 0:
			b.report(Format, b.printableName(n))
		case t.Fields[row].Of != nil:
			b.eachObject(&t.Fields[row], i, func(object uint32) { b.reportUnknown(t.Fields[row].Of, object) })
		}
	}
}

// AddExtension adds an item to messageExtension of the AReq that Build returns, after those that
// the requestor sent. The entry is written as it is.
func (r *Request) AddExtension(entry []byte) { r.extensions = append(r.extensions, entry) }

// Extensions returns how many items the requestor sent in messageExtension.
func (r *Request) Extensions() int {
	i := r.find("messageExtension")
	if i == 0 || r.m.nodes[i].kind != jsonArray {
		return 0
	}
	n := 0
	for j := i + 1; j < r.m.nodes[i].next; j = r.m.nodes[j].next {
		if !r.m.isHollow(j) {
			n++
		}
	}
	return n
}

// writeExtensions writes messageExtension: what the requestor sent, and what was added.
func (b *builder) writeExtensions(f *Field, i uint32) bool {
	mark := len(b.out)
	isWritten := b.writeSent(f, i)
	if len(b.r.extensions) == 0 || isWritten && b.out[len(b.out)-1] != ']' {
		return isWritten
	}
	if isWritten {
		b.out = append(b.out[:len(b.out)-1], ',')
	} else {
		b.out = append(b.out[:mark], '[')
	}
	b.out = append(b.out, bytes.Join(b.r.extensions, []byte(","))...)
	b.out = append(b.out, ']')
	return true
}

// reportCharacters reports a JSON text with a character that the version does not allow. The
// data of message extensions is never looked at.
func (b *builder) reportCharacters(f *Field, raw []byte, item int) {
	if charset.FindJSON(raw, charactersOf(b.version)) != charset.Allowed {
		b.reportItem(Format, f.Name, item, "")
	}
}

// charactersOf returns the characters that a version allows in texts.
func charactersOf(v Version) charset.Set {
	if v >= V231 {
		return charset.Unicode
	}
	return charset.ASCII
}

// The values of threeDSRequestorChallengeInd that ask for a challenge, and those that ask
// for none. A value of one list contradicts those of the other. "No preference" (01) and
// the values of payment systems (80-99) contradict nothing.
var (
	forChallenge     = []string{"03", "04", "09", "12", "13", "14"}
	againstChallenge = []string{"02", "05", "06", "07", "08", "10", "11"}
)

// areContradictory reports whether preferences ask for a challenge and for none.
func areContradictory(preferences []string) bool {
	hasAnyOf := func(list []string) bool {
		return slices.ContainsFunc(preferences, func(p string) bool { return slices.Contains(list, p) })
	}
	return hasAnyOf(forChallenge) && hasAnyOf(againstChallenge)
}

// hasWithin reports whether there is a problem inside the object of this name.
func (p Problems) hasWithin(name string) bool {
	return slices.ContainsFunc(p, func(q Problem) bool { return strings.HasPrefix(q.Path.Name(), name+".") })
}

// hasAllSellers reports whether each seller that a merchant of multiTransaction names is in
// sellerInfo too. The rule of the tables is weaker: it asks for any seller in sellerInfo.
func (m *Message) hasAllSellers() bool {
	ids := func(path ...string) map[string]bool {
		set := make(map[string]bool)
		m.anyValue(0, idsOf(path), func(_ *Message, i uint32) bool {
			if m.nodes[i].kind == jsonString {
				set[string(m.text(i, nil))] = true
			}
			return false
		})
		return set
	}
	named := ids("multiTransaction", "merchantList", "sellerId")
	if len(named) == 0 {
		return true
	}
	described := ids("sellerInfo", "sellerId")
	for id := range named {
		if !described[id] {
			return false
		}
	}
	return true
}

// idsOf returns the ids of names.
func idsOf(path []string) []uint32 {
	ids := make([]uint32, len(path))
	for i, name := range path {
		ids[i] = uint32(names.ids[name])
	}
	return ids
}
