package message

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/openthreeds/threeds/internal/base/charset"
)

// A Context holds what [Message.Check] needs besides the message itself. The zero Context is valid: it checks the
// message alone.
type Context struct {
	// AReq, ARes, RReq, CReq and PReq are earlier messages of the same transaction.
	// Conditions and rules that refer to a message that is nil are skipped.
	AReq, ARes, RReq, CReq, PReq *Message

	// Versions are the versions in use; a message of another one has the problem
	// UnsupportedVersion. Nil means all versions of this package.
	Versions []Version
	// KnownExtension reports whether the receiver understands the critical message
	// extension with this id. Nil means that it understands none.
	KnownExtension func(id string) bool
	// Informational accepts transStatus I even if the AReq did not ask for it.
	Informational bool
	// Loopback accepts http URLs with a loopback host where the protocol requires https.
	// It is for tests.
	Loopback bool
	// Lab accepts URLs for the browser that have the scheme http or that point at the
	// browser's own machine. It is for test systems.
	Lab bool
}

// maxProblems is the largest number of problems that Check reports. A valid message has
// far fewer elements.
const maxProblems = 1000

// Check returns all problems of m by the table of its own type and version, in the
// order of that table. It returns nil if m is valid. Members that the tables do not define
// for the message, its channel or its category are ignored, unless they occur twice.
// Check may be called by several goroutines at the same time.
func (m *Message) Check(ctx Context) Problems {
	c := checkers.Get().(*checker)
	defer c.release()
	c.m, c.ctx = m, ctx
	if c.findTable() {
		c.findView()
		c.checkObject(c.table, 0)
		c.reportCriticalExtensions()
	}
	if m.hasDuplicates {
		c.reportDuplicates(0)
	}
	if len(c.problems) == 0 {
		return nil
	}
	return c.sortedProblems()
}

// CheckObject returns the problems of the object at a path by a table of [NewTable]. Their
// paths begin with this one. Members without a row, and members that occur twice, are not
// reported.
func (m *Message) CheckObject(path Path, t *Table) Problems {
	i := m.find(string(path))
	if i < 0 || m.nodes[i].kind != jsonObject {
		return Problems{{Code: Format, Path: path}}
	}
	c := &checker{m: m, table: t, version: t.Version, view: viewOf(anyChannel, anyCategory)}
	if path != "" {
		c.path = append(c.path, step{string(path), -1})
	}
	c.checkObject(t, uint32(i))
	return c.problems
}

// CheckSent returns what a directory server may refuse in an AReq besides the problems that Check reports: elements
// whose condition is false, characters that no text may have, and ids with blanks around them. Check accepts them,
// because it ignores what has no meaning, and does not look at characters.
func (m *Message) CheckSent() Problems {
	t, ok := m.Type()
	v, ok2 := m.Version()
	if !ok || !ok2 || t != AReq {
		return nil
	}
	c := &checker{m: m, ctx: Context{AReq: m}, table: TableOf(t, v), version: v}
	c.findView()
	c.reportSent(c.table, 0)
	return append(c.sortedProblems(), m.CheckIdentifiers()...)
}

// reportSent reports what CheckSent looks for in an object.
func (c *checker) reportSent(t *Table, object uint32) {
	s := scope{make([]uint32, len(t.Fields))}
	nodes := c.m.nodes
	for i := object + 1; i < nodes[object].next; i = nodes[i].next {
		if n := &nodes[i]; n.name < maxNames && t.rowOf[n.name] >= 0 && t.cells[c.view][t.rowOf[n.name]] != '-' {
			s.members[t.rowOf[n.name]] = i
		}
	}
	for row, i := range s.members {
		f := &t.Fields[row]
		switch {
		case i == 0 || f.Name == "data" && t.Name == "messageExtension":
		case f.isOnlyForCondition() && c.evaluate(f.when, s) == no:
			c.report(Format, f.Name)
		case f.Of == nil:
			if charset.FindJSON(c.m.raw(i), charactersOf(c.version)) != charset.Allowed {
				c.report(Format, f.Name)
			}
		default:
			c.eachObject(f, i, func(object uint32) { c.reportSent(f.Of, object) })
		}
	}
}

// eachObject calls visit for a value that is an object, or for each object in one that is an array. Meanwhile the
// path of the checker leads to that object.
func (c *checker) eachObject(f *Field, i uint32, visit func(object uint32)) {
	nodes := c.m.nodes
	visitAt := func(item int, object uint32) {
		c.path = append(c.path, step{f.Name, item})
		visit(object)
		c.path = c.path[:len(c.path)-1]
	}
	switch nodes[i].kind {
	case jsonObject:
		visitAt(-1, i)
	case jsonArray:
		for k, j := 0, i+1; j < nodes[i].next; k, j = k+1, nodes[j].next {
			if nodes[j].kind == jsonObject {
				visitAt(k, j)
			}
		}
	}
}

var checkers = sync.Pool{New: func() any { return new(checker) }}

// A checker holds the state of one call of Check. Checkers are reused.
type checker struct {
	m        *Message
	ctx      Context
	table    *Table
	version  Version
	view     view
	problems Problems

	path    []step   // from the message to the object that is being checked
	members []uint32 // the members of all scopes that are open; see scope
}

// A step is one part of a path: a member of an object, or an item of an array.
type step struct {
	name string
	item int // index of the item; -1 means the member itself
}

func (c *checker) release() {
	*c = checker{path: c.path[:0], members: c.members[:0]}
	checkers.Put(c)
}

// report adds a problem of a member of the object that is being checked.
func (c *checker) report(code Code, name string) { c.reportItem(code, name, -1, "") }

// reportItem adds a problem with a note of one item of a member; item -1 means the
// member itself.
func (c *checker) reportItem(code Code, name string, item int, note string) {
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
	for _, s := range c.path {
		write(s)
	}
	write(step{name, item})
	c.problems = append(c.problems, Problem{Code: code, Path: Path(b.String()), Note: note})
}

// findTable finds the table of the message and reports a messageType or messageVersion
// that has none. Without a table nothing else can be checked.
func (c *checker) findTable() bool {
	typ, hasType := c.m.Type()
	ver, hasVersion := c.m.Version()
	hasType = hasType && (!hasVersion || typ.In(ver))
	if !hasType {
		c.report(c.headerFault(idType, InvalidMessage), "messageType")
	}
	active := c.ctx.Versions
	if active == nil {
		active = allVersions
	}
	if !hasVersion || !slices.Contains(active, ver) {
		code, note := UnsupportedVersion, ""
		if !hasVersion {
			code = c.headerFault(idVersion, UnsupportedVersion)
		}
		if code == UnsupportedVersion {
			note = versionList(active)
		}
		c.reportItem(code, "messageVersion", -1, note)
	}
	if hasType && hasVersion {
		c.table, c.version = TableOf(typ, ver), ver
	}
	return c.table != nil
}

var allVersions = Versions()

// headerFault returns the code for a messageType or messageVersion that this package does
// not support. It is other if the member is a string that is not blank.
func (c *checker) headerFault(id uint32, other Code) Code {
	switch i := c.m.member(0, id); {
	case i == 0, c.m.isEmpty(i), c.m.nodes[i].kind == jsonString && isBlank(c.m.text(i, nil)):
		return Missing
	case c.m.nodes[i].kind != jsonString:
		return Format
	}
	return other
}

// versionList returns versions as errorDetail lists them, with commas between.
func versionList(versions []Version) string {
	list := make([]string, len(versions))
	for i, v := range versions {
		list[i] = v.String()
	}
	return strings.Join(list, ",")
}

// findView sets the presence columns that apply. They follow from the channel and category
// of the AReq of the transaction or, without one, of the message itself.
func (c *checker) findView() {
	c.view = parseView(string(c.transactionText(idChannel)), string(c.transactionText(idCategory)))
}

// transactionText returns the text of a member of the AReq or, if it has none, of the
// message. A member that the table of the message does not define is ignored: otherwise a
// deviceChannel in an ARes could switch off elements that the transaction requires.
func (c *checker) transactionText(id uint32) []byte {
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

// checkObject checks the members of an object, and of the objects in it, by a table.
func (c *checker) checkObject(t *Table, object uint32) {
	base := len(c.members)
	c.members = slices.Grow(c.members, len(t.Fields))[:base+len(t.Fields)]
	s := scope{c.members[base:]}
	clear(s.members)
	nodes, cells := c.m.nodes, t.cells[c.view]
	for i := object + 1; i < nodes[object].next; i = nodes[i].next {
		n := &nodes[i]
		if n.flags&duplicate != 0 {
			continue
		}
		if row := t.rowOfMember(c.m, n); row >= 0 && cells[row] != '-' {
			s.members[row] = i
		}
	}
	for row, i := range s.members {
		switch {
		case i != 0 && t.Fields[row].plain && nodes[i].kind == jsonString:
			f := &t.Fields[row]
			if b := c.m.text(i, nil); len(b) == 0 || b[0] <= ' ' {
				c.checkMember(f, i, cells[row], s)
			} else if code := c.plainTextFault(f, b); code != 0 {
				c.report(code, f.Name)
			}
		case i != 0:
			c.checkMember(&t.Fields[row], i, cells[row], s)
		case cells[row] == 'R', cells[row] == 'C' && c.evaluate(t.Fields[row].when, s) == yes:
			c.report(Missing, t.Fields[row].Name)
		}
	}
	for i := range t.Rules {
		c.checkRule(t, &t.Rules[i], s)
	}
	c.members = c.members[:base]
}

// checkMember checks a member that is present; cell is the presence that the table asks
// for. If the member is required, an empty or blank value counts as missing. If it is not,
// an empty value has a wrong format and a blank one is a text like any other.
func (c *checker) checkMember(f *Field, i uint32, cell byte, s scope) {
	if f.Unchecked {
		return
	}
	if f.forbid != nil && c.evaluate(f.forbid, s) == yes {
		if !f.IgnoreForbidden {
			c.report(Format, f.Name)
		}
		return
	}
	isEmpty, isBlank := c.m.isEmpty(i), c.isBlank(i)
	switch {
	case (isEmpty || isBlank) && (cell == 'R' || cell == 'C' && c.evaluate(f.when, s) == yes):
		c.report(Missing, f.Name)
	case isEmpty, isBlank && f.NotBlank:
		c.report(Format, f.Name)
	default:
		c.checkValue(f, i)
	}
}

// checkRule checks a rule. It reports nothing if the element of the rule is not defined in
// these presence columns, or already has a problem.
func (c *checker) checkRule(t *Table, r *Rule, s scope) {
	if r.Soft || t.cells[c.view][r.row] == '-' || r.UnlessInformational && c.ctx.Informational ||
		c.evaluate(r.when, s) != yes || c.evaluate(r.must, s) != no {
		return
	}
	name := t.Fields[r.row].Name
	isAboutMember := func(p Problem) bool { // about the member or one inside it
		inside, ok := strings.CutPrefix(string(p.Path), name)
		return ok && (inside == "" || inside[0] == '.')
	}
	if !slices.ContainsFunc(c.problems, isAboutMember) {
		c.report(r.Code, name)
	}
}

// sortedProblems returns the problems in the order of the table's rows. Problems of
// members that the table does not define come last.
func (c *checker) sortedProblems() Problems {
	if c.table == nil || len(c.problems) == 1 {
		return c.problems
	}
	rowOf := func(p Problem) int {
		name := string(p.Path)
		if i := strings.IndexAny(name, ".["); i >= 0 {
			name = name[:i]
		}
		if row := c.table.row(names.ids[name]); row >= 0 {
			return row
		}
		return len(c.table.Fields)
	}
	slices.SortStableFunc(c.problems, func(a, b Problem) int { return rowOf(a) - rowOf(b) })
	return c.problems
}

// reportCriticalExtensions reports each message extension that is marked as critical and
// that Context.KnownExtension does not report as known. The content of extensions is not
// checked.
func (c *checker) reportCriticalExtensions() {
	list := c.m.member(0, idExtension)
	if list == 0 || c.table.rowOf[idExtension] < 0 || c.m.nodes[list].kind != jsonArray {
		return
	}
	for n, i := 0, list+1; i < c.m.nodes[list].next; n, i = n+1, c.m.nodes[i].next {
		critical, id := c.m.member(i, idCritical), c.m.member(i, idID)
		if critical == 0 || string(c.m.raw(critical)) != "true" || id == 0 || c.m.nodes[id].kind != jsonString ||
			c.m.isEmpty(id) || c.isBlank(id) {
			continue
		}
		name := string(c.m.text(id, nil))
		if c.ctx.KnownExtension == nil || !c.ctx.KnownExtension(name) {
			c.reportItem(CriticalExtension, "messageExtension", n, name)
		}
	}
}

var (
	idCritical = uint32(names.ids["criticalityIndicator"])
	idID       = uint32(names.ids["id"])
)

// reportDuplicates reports the members that occur more than once in an object or array or
// in any value inside it.
func (c *checker) reportDuplicates(i uint32) {
	n := &c.m.nodes[i]
	if n.kind != jsonObject && n.kind != jsonArray {
		return
	}
	reported := make(map[string]bool)
	for k, j := 0, i+1; j < n.next; k, j = k+1, c.m.nodes[j].next {
		child := &c.m.nodes[j]
		if n.kind == jsonArray {
			if last := len(c.path) - 1; last >= 0 {
				saved := c.path[last]
				c.path[last].item = k
				c.reportDuplicates(j)
				c.path[last] = saved
			}
			continue
		}
		name := c.printableName(child)
		if child.flags&duplicate != 0 && !reported[name] {
			reported[name] = true
			c.report(Duplicate, name)
		}
		if child.kind == jsonObject || child.kind == jsonArray {
			c.path = append(c.path, step{name, -1})
			c.reportDuplicates(j)
			c.path = c.path[:len(c.path)-1]
		}
	}
}

// printableName returns the name of a member as problems show it. A name that is in no
// table may hold card data: it is returned only if it has at most 64 letters, digits,
// hyphens and underscores, starts with a letter and has at most 5 digits. Otherwise the
// result is "unknown".
func (c *checker) printableName(n *node) string {
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
