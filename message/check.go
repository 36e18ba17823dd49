package message

import (
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A Context is what Check knows beside the message itself.
type Context struct {
	// Other messages of the transaction. Conditions and rules that look into
	// one that is nil are skipped.
	AReq, ARes, RReq, CReq, PReq *Message

	Versions       []Version            // those in use; nil: all
	KnownExtension func(id string) bool // which critical extensions are understood; nil: none
	Informational  bool                 // transStatus I is accepted whatever was asked for
	Loopback       bool                 // http to this machine is accepted where we send https

	// Lab allows the directory server to send a browser to http URLs, and to the
	// browser's own machine. It is for laboratories.
	Lab bool
}

// maxProblems is how many faults of a message are reported. A sensible message
// has far fewer elements.
const maxProblems = 1000

// Check returns all that is wrong with m by the table of its own type and
// version, in the order of that table; nil when it is valid. Members that the
// tables do not define for the message, its channel or its category are
// ignored, unless they occur twice.
func (m *Message) Check(ctx Context) Problems {
	c := checkers.Get().(*checker)
	defer c.release()
	c.m, c.ctx = m, ctx
	if c.header() {
		c.columns()
		c.object(c.table, 0)
		c.criticalExtensions()
	}
	if m.twice {
		c.duplicates(0)
	}
	if len(c.problems) == 0 {
		return nil
	}
	return c.sorted()
}

var checkers = sync.Pool{New: func() any { return new(checker) }}

// A checker is what checking needs for a while.
type checker struct {
	m        *Message
	ctx      Context
	table    *Table
	version  Version
	view     view
	problems Problems

	way     []step   // from the message to the object at hand
	members []uint32 // stack of scopes
}

// A step is one part of a path: a member, or an item of it.
type step struct {
	name string
	item int // -1: the member itself
}

func (c *checker) release() {
	*c = checker{way: c.way[:0], members: c.members[:0]}
	checkers.Put(c)
}

// report adds a problem of the member name of the object at hand.
func (c *checker) report(code Code, name string) { c.note(code, name, -1, "") }

// note is report for an item of the member, unless item is -1, with a note.
func (c *checker) note(code Code, name string, item int, note string) {
	if len(c.problems) == maxProblems {
		return
	}
	var b strings.Builder
	write := func(s step) {
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(s.name)
		if s.item >= 0 {
			b.WriteByte('[')
			b.WriteString(strconv.Itoa(s.item))
			b.WriteByte(']')
		}
	}
	for _, s := range c.way {
		write(s)
	}
	write(step{name, item})
	c.problems = append(c.problems, Problem{Code: code, Path: Path(b.String()), Note: note})
}

// header finds the table. Without one there is nothing more to say.
func (c *checker) header() bool {
	typ, known := c.m.Type()
	ver, knownVersion := c.m.Version()
	known = known && (!knownVersion || typ.In(ver))
	if !known {
		c.report(c.headerFault(idType, InvalidMessage), "messageType")
	}
	active := c.ctx.Versions
	if active == nil {
		active = allVersions
	}
	if !knownVersion || !slices.Contains(active, ver) {
		code, note := UnsupportedVersion, ""
		if !knownVersion {
			code = c.headerFault(idVersion, UnsupportedVersion)
		}
		if code == UnsupportedVersion {
			note = versionList(active)
		}
		c.note(code, "messageVersion", -1, note)
	}
	if known && knownVersion {
		c.table, c.version = TableOf(typ, ver), ver
	}
	return c.table != nil
}

var allVersions = Versions()

// headerFault is what is wrong with a messageType or messageVersion that is
// not one we know: other is the code for a well-formed one.
func (c *checker) headerFault(id uint32, other Code) Code {
	switch i := c.m.member(0, id); {
	case i == 0, c.m.empty(i), c.m.nodes[i].kind == jsonString && blank(c.m.text(i, nil)):
		return Missing
	case c.m.nodes[i].kind != jsonString:
		return Format
	}
	return other
}

// versionList is how errorDetail tells which versions there are.
func versionList(versions []Version) string {
	list := make([]string, len(versions))
	for i, v := range versions {
		list[i] = v.String()
	}
	return strings.Join(list, ",")
}

// columns finds out which presence columns count, from the AReq of the transaction, or
// else from the message itself.
func (c *checker) columns() {
	c.view = viewSaid(string(c.look(idChannel)), string(c.look(idCategory)))
}

// look returns the text of a member of the AReq, or else of the message. What
// the message's own table lacks says nothing: a channel in an ARes would waive
// what the transaction's asks for.
func (c *checker) look(id uint32) []byte {
	for _, m := range [...]*Message{c.ctx.AReq, c.m} {
		if m == nil || m == c.m && c.table.rowOf[id] < 0 {
			continue
		}
		if i := m.member(0, id); i != 0 && m.nodes[i].kind == jsonString {
			return m.text(i, nil)
		}
	}
	return nil
}

// object checks the members of an object, and of what is in it, by a table.
func (c *checker) object(t *Table, object uint32) {
	base := len(c.members)
	c.members = slices.Grow(c.members, len(t.Fields))[:base+len(t.Fields)]
	s := scope{c.members[base:]}
	clear(s.members)
	nodes, cells := c.m.nodes, t.cells[c.view]
	for i := object + 1; i < nodes[object].next; i = nodes[i].next {
		n := &nodes[i]
		if n.name >= maxNames || n.flags&duplicate != 0 {
			continue
		}
		if row := t.rowOf[n.name]; row >= 0 && cells[row] != '-' {
			s.members[row] = i
		}
	}
	for row, i := range s.members {
		switch {
		case i != 0 && t.Fields[row].plain && nodes[i].kind == jsonString:
			f := &t.Fields[row]
			if b := c.m.text(i, nil); len(b) == 0 || b[0] <= ' ' {
				c.present(f, i, cells[row], s)
			} else if code := c.plain(f, b); code != 0 {
				c.report(code, f.Name)
			}
		case i != 0:
			c.present(&t.Fields[row], i, cells[row], s)
		case cells[row] == 'R', cells[row] == 'C' && c.eval(t.Fields[row].when, s) == yes:
			c.report(Missing, t.Fields[row].Name)
		}
	}
	for i := range t.Rules {
		c.rule(t, &t.Rules[i], s)
	}
	c.members = c.members[:base]
}

// present checks a member that is there. Empty is missing, or malformed where
// nothing is required. Blank is missing too, but where nothing is required it is
// a text like any other.
func (c *checker) present(f *Field, i uint32, cell byte, s scope) {
	if f.Unchecked {
		return
	}
	if f.forbid != nil && c.eval(f.forbid, s) == yes {
		if !f.IgnoreForbidden {
			c.report(Format, f.Name)
		}
		return
	}
	empty, blank := c.m.empty(i), c.isBlank(i)
	switch {
	case (empty || blank) && (cell == 'R' || cell == 'C' && c.eval(f.when, s) == yes):
		c.report(Missing, f.Name)
	case empty, blank && f.NotBlank:
		c.report(Format, f.Name)
	default:
		c.value(f, i)
	}
}

// rule checks a rule, unless it is about a member that is ignored here.
func (c *checker) rule(t *Table, r *Rule, s scope) {
	if r.Soft || t.cells[c.view][r.row] == '-' || r.UnlessInformational && c.ctx.Informational || c.eval(r.when, s) != yes || c.eval(r.must, s) != no {
		return
	}
	name := t.Fields[r.row].Name
	known := func(p Problem) bool { // of the member, or of one inside it that the rule may look at
		inside, ok := strings.CutPrefix(string(p.Path), name)
		return ok && (inside == "" || inside[0] == '.')
	}
	if !slices.ContainsFunc(c.problems, known) {
		c.report(r.Code, name)
	}
}

// sorted returns the problems in the order of the table's rows. Those of
// members that the table lacks come last.
func (c *checker) sorted() Problems {
	if c.table == nil || len(c.problems) == 1 {
		return c.problems
	}
	place := func(p Problem) int {
		name := string(p.Path)
		if i := strings.IndexAny(name, ".["); i >= 0 {
			name = name[:i]
		}
		if row := c.table.row(names.ids[name]); row >= 0 {
			return row
		}
		return len(c.table.Fields)
	}
	slices.SortStableFunc(c.problems, func(a, b Problem) int { return place(a) - place(b) })
	return c.problems
}

// criticalExtensions reports the extensions that ask to be understood and are
// not. That is all that is ever said about what an extension means.
func (c *checker) criticalExtensions() {
	list := c.m.member(0, idExtension)
	if list == 0 || c.table.rowOf[idExtension] < 0 || c.m.nodes[list].kind != jsonArray {
		return
	}
	for n, i := 0, list+1; i < c.m.nodes[list].next; n, i = n+1, c.m.nodes[i].next {
		critical, id := c.m.member(i, idCritical), c.m.member(i, idID)
		if critical == 0 || string(c.m.raw(critical)) != "true" || id == 0 || c.m.nodes[id].kind != jsonString || c.m.empty(id) || c.isBlank(id) {
			continue
		}
		name := string(c.m.text(id, nil))
		if c.ctx.KnownExtension == nil || !c.ctx.KnownExtension(name) {
			c.note(CriticalExtension, "messageExtension", n, name)
		}
	}
}

var (
	idCritical = uint32(names.ids["criticalityIndicator"])
	idID       = uint32(names.ids["id"])
)

// duplicates reports the members that occur twice in an object or array, and
// in all that is in it.
func (c *checker) duplicates(i uint32) {
	n := &c.m.nodes[i]
	if n.kind != jsonObject && n.kind != jsonArray {
		return
	}
	told := make(map[string]bool)
	for k, j := 0, i+1; j < n.next; k, j = k+1, c.m.nodes[j].next {
		child := &c.m.nodes[j]
		if n.kind == jsonArray {
			if last := len(c.way) - 1; last >= 0 {
				was := c.way[last]
				c.way[last].item = k
				c.duplicates(j)
				c.way[last] = was
			}
			continue
		}
		name := c.memberName(child)
		if child.flags&duplicate != 0 && !told[name] {
			told[name] = true
			c.report(Duplicate, name)
		}
		if child.kind == jsonObject || child.kind == jsonArray {
			c.way = append(c.way, step{name, -1})
			c.duplicates(j)
			c.way = c.way[:len(c.way)-1]
		}
	}
}

// memberName is the name of a member for people. A name that is not ours is
// told only when it looks like one and cannot hide data.
func (c *checker) memberName(n *node) string {
	if n.name < maxNames {
		return names.list[n.name]
	}
	text := nameText(c.m.data, *n)
	digits := 0
	for _, b := range text {
		if isDigit(b) {
			digits++
		}
		if !isAlnum(b) && b != '_' && b != '-' {
			return "unknown"
		}
	}
	if len(text) == 0 || len(text) > 64 || !isAlpha(text[0]) || digits > 5 {
		return "unknown"
	}
	return string(text)
}
