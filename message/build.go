package message

import (
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
		if !slices.ContainsFunc(allVersions, func(v Version) bool {
			return TableOf(AReq, v).Field(f.Name).Need != "RR RR RR"
		}) {
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
