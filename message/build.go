package message

import (
	"slices"
	"strconv"
	"strings"
)

// Build returns the AReq that a directory server gets: members in the order of
// the table, none that the version, the channel or the category lacks, none
// that is not ours to send, none that is empty. It is then parsed and checked
// as strictly as a message from outside, and all faults are reported in one
// pass, those of the request's form among them. The Message is nil only when
// there is no version that we know: then little else can be judged.
//
// Every other member goes out with the JSON text that came in; the data of
// message extensions byte for byte.
func (r *Request) Build(ctx Context) (*Message, Problems) {
	v, ok := r.Version()
	if !ok {
		return nil, append(r.withoutVersion(ctx), r.Duplicates()...)
	}
	b := newBuilder(r, v)
	b.messageType()
	b.out = make([]byte, 0, len(r.m.data)+256)
	b.members(b.table, 0)
	m, err := Parse(b.out, Limits{Depth: -1, Members: -1})
	if err != nil {
		panic("message: built what is not JSON: " + err.Error())
	}
	if ctx.AReq == nil {
		ctx.AReq = m
	}
	b.problems = append(b.problems, m.Check(ctx)...)
	b.problems = append(b.problems, r.Duplicates()...)
	if v >= V231 && contradicts(m.Strings("threeDSRequestorChallengeInd")) {
		b.report(Format, "threeDSRequestorChallengeInd")
	}
	if v >= V231 && !b.problems.within("sellerInfo") && !m.sellersDescribed() {
		b.report(Format, "sellerInfo")
	}
	if len(b.problems) == 0 {
		return m, nil
	}
	return m, distinct(b.sorted())
}

// distinct is p without those that say the same again.
func distinct(p Problems) Problems {
	seen := make(map[Problem]bool, len(p))
	return slices.DeleteFunc(p, func(q Problem) bool {
		again := seen[q]
		seen[q] = true
		return again
	})
}

// withoutVersion is what can be said of a request that has no version we know:
// of one without any, that it lacks what every AReq has to have.
func (r *Request) withoutVersion(ctx Context) Problems {
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

// A builder writes the AReq. It is a checker of what came in, for it decides
// by the same columns and conditions.
type builder struct {
	checker
	r   *Request
	out []byte
}

func newBuilder(r *Request, v Version) *builder {
	b := &builder{checker: checker{m: r.m, table: TableOf(AReq, v), version: v}, r: r}
	b.view = viewSaid(r.Text("deviceChannel"), r.Text("messageCategory"))
	return b
}

// messageType reports a request that does not call itself an AReq. It is judged as
// one all the same.
func (b *builder) messageType() {
	const name = "messageType"
	switch text := b.r.Text(name); {
	case text == AReq.String():
	case !b.r.Has(name), text != "" && strings.TrimSpace(text) == "":
		b.report(Missing, name)
	default:
		b.report(Format, name)
	}
}

// sends says whether the element of a row is ours to send at all.
func (b *builder) sends(t *Table, row int) bool {
	f := &t.Fields[row]
	return !f.DS && (f.Leg == EveryLeg || f.Leg == ToDS) && t.cells[b.view][row] != '-'
}

// members writes the members of an object and returns whether there are any.
// When there are none, nothing is written.
func (b *builder) members(t *Table, object uint32) bool {
	start := len(b.out)
	b.out = append(b.out, '{')
	base := len(b.checker.members)
	s := b.scopeOf(t, object)
	for row := range t.Fields {
		f := &t.Fields[row]
		mark := len(b.out)
		b.out = appendName(b.out, f.Name)
		if !b.sends(t, row) || !b.member(f, object, s.members[row], s) {
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

// scopeOf finds the members of an object that are ours to send and hold something. They
// lie on the stack of scopes.
func (b *builder) scopeOf(t *Table, object uint32) scope {
	base := len(b.checker.members)
	b.checker.members = append(b.checker.members, make([]uint32, len(t.Fields))...)
	s := scope{b.checker.members[base:]}
	nodes := b.m.nodes
	for i := object + 1; i < nodes[object].next; i = nodes[i].next {
		n := &nodes[i]
		if n.name >= maxNames || n.flags&duplicate != 0 {
			continue
		}
		if row := t.row(uint16(n.name)); row >= 0 && b.sends(t, row) && !b.gone(i) {
			s.members[row] = i
		}
	}
	return s
}

// gone says whether a value holds nothing, or was removed.
func (b *builder) gone(i uint32) bool {
	if e, ok := b.r.edits[i]; ok && !e.wrap {
		return e.text == nil
	}
	return b.m.hollow(i)
}

// sources are elements that name us as the source of another one. Whatever a
// requestor says there, what we send comes from us.
var sources = map[string]bool{
	"acquirerCountryCodeSource": true, "deviceBindingStatusSource": true, "payTokenSource": true,
	"trustListStatusSource": true, "whiteListStatusSource": true,
}

// holds says whether the condition of a row is met.
func (b *builder) holds(f *Field, s scope) bool { return f.when != nil && b.eval(f.when, s) == yes }

// onlyWhen says whether a row is for nobody but whom its condition names.
func (f *Field) onlyWhen() bool { return f.Else == Absent && f.when != nil && !f.Partial }

// member writes the value of one row, and says whether there is one. The node
// is 0 when the member is not there, or empty.
func (b *builder) member(f *Field, object, i uint32, s scope) bool {
	holds := b.holds(f, s)
	if f.onlyWhen() && !holds {
		return false
	}
	if object == 0 {
		text, added := b.r.added[f.Name]
		switch {
		case f.Name == "messageType":
			text, added = quote(AReq.String()), true
		case sources[f.Name] && (holds || i != 0 || added):
			text, added = quote("01"), true
		}
		if added {
			return b.text(f, text)
		}
	}
	if i == 0 {
		return false
	}
	if e, ok := b.r.edits[i]; ok && !e.wrap {
		return b.text(f, e.text)
	} else if ok {
		b.out = append(b.out, '[')
		if !b.value(f, i, -1) {
			return false
		}
		b.out = append(b.out, ']')
		return true
	}
	return b.value(f, i, -1)
}

// text writes a JSON text that takes the place of a value.
func (b *builder) text(f *Field, text []byte) bool {
	b.ascii(f, text, -1)
	b.out = append(b.out, text...)
	return true
}

// value writes a value of row f, and says whether there was anything to write.
func (b *builder) value(f *Field, i uint32, item int) bool {
	n := &b.m.nodes[i]
	switch {
	case b.gone(i):
		return false
	case n.flags&sealed != 0:
	case n.flags&through != 0:
		b.ascii(f, b.m.raw(i), item)
	case n.kind == jsonObject && f.Of != nil:
		b.way = append(b.way, step{f.Name, item})
		ok := b.members(f.Of, i)
		b.way = b.way[:len(b.way)-1]
		return ok
	case n.kind == jsonObject:
		return b.object(f, i)
	case n.kind == jsonArray:
		return b.items(f, i)
	case n.kind == jsonString:
		b.ascii(f, b.m.raw(i), item)
	}
	b.out = append(b.out, b.m.raw(i)...)
	return true
}

// items writes an array without the items that hold nothing.
func (b *builder) items(f *Field, array uint32) bool {
	start := len(b.out)
	b.out = append(b.out, '[')
	for k, i := 0, array+1; i < b.m.nodes[array].next; k, i = k+1, b.m.nodes[i].next {
		mark := len(b.out)
		if mark > start+1 {
			b.out = append(b.out, ',')
		}
		if !b.value(f, i, k) {
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

// object writes an object that has no table. Its names are whatever the
// requestor made them, in the case in which they came.
func (b *builder) object(f *Field, object uint32) bool {
	start := len(b.out)
	b.out = append(b.out, '{')
	end := b.m.nodes[object].start + 1 // of what comes before the next member
	for i := object + 1; i < b.m.nodes[object].next; i = b.m.nodes[i].next {
		name := b.m.data[end:]
		for name[0] != '"' {
			name = name[1:]
		}
		name = name[:quoted(name)]
		end = b.m.nodes[i].end
		if b.m.nodes[i].flags&duplicate != 0 {
			continue
		}
		mark := len(b.out)
		if mark > start+1 {
			b.out = append(b.out, ',')
		}
		b.out = append(append(b.out, name...), ':')
		if !b.value(&Field{Name: f.Name}, i, -1) {
			b.out = b.out[:mark]
			continue
		}
		b.ascii(f, name, -1)
	}
	if len(b.out) == start+1 {
		b.out = b.out[:start]
		return false
	}
	b.out = append(b.out, '}')
	return true
}

// ascii reports a JSON text that holds more than ASCII where the version does not
// allow that.
func (b *builder) ascii(f *Field, raw []byte, item int) {
	if b.version >= V231 || isASCII(raw) {
		return
	}
	b.note(Format, f.Name, item, "")
}

// isASCII says whether a JSON text is ASCII, with its escape sequences resolved.
func isASCII(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		switch {
		case raw[i] >= 0x80:
			return false
		case raw[i] != '\\':
		default:
			i++
			if raw[i] != 'u' {
				continue
			}
			if n, err := strconv.ParseUint(string(raw[i+1:i+5]), 16, 16); err != nil || n >= 0x80 {
				return false
			}
			i += 4
		}
	}
	return true
}

// Challenge preferences that ask for a challenge, and that ask for none. One of either
// kind contradicts one of the other; "no preference" (01) and what a payment system has
// defined (80-99) go with anything.
var (
	forChallenge     = []string{"03", "04", "09", "12", "13", "14"}
	againstChallenge = []string{"02", "05", "06", "07", "08", "10", "11"}
)

// contradicts says whether preferences cannot both be meant.
func contradicts(preferences []string) bool {
	among := func(list []string) bool {
		return slices.ContainsFunc(preferences, func(p string) bool { return slices.Contains(list, p) })
	}
	return among(forChallenge) && among(againstChallenge)
}

// within says whether there is a problem inside a member.
func (p Problems) within(name string) bool {
	return slices.ContainsFunc(p, func(q Problem) bool { return strings.HasPrefix(q.Path.Name(), name+".") })
}

// sellersDescribed says whether each seller that the merchants of a
// multiTransaction name is in sellerInfo too. The rule of the tables asks for
// less, and only of messages that come from elsewhere.
func (m *Message) sellersDescribed() bool {
	ids := func(path ...string) map[string]bool {
		found := make(map[string]bool)
		m.any(0, idsOf(path), func(_ *Message, i uint32) bool {
			if m.nodes[i].kind == jsonString {
				found[string(m.text(i, nil))] = true
			}
			return false
		})
		return found
	}
	named := ids("multiTransaction", "merchantList", "sellerId")
	if len(named) == 0 {
		return true
	}
	known := ids("sellerInfo", "sellerId")
	for id := range named {
		if !known[id] {
			return false
		}
	}
	return true
}

func idsOf(path []string) []uint32 {
	ids := make([]uint32, len(path))
	for i, name := range path {
		ids[i] = uint32(names.ids[name])
	}
	return ids
}
