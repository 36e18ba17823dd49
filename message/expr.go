package message

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// An expr is a condition of a row or a rule, compiled. The language:
//
//	or   := and ("or" and)*          and  := not ("and" not)*
//	not  := "not" "(" or ")" | "(" or ")" | test
//	test := present(path) | absent(path) | path == x | path != x | path in ["a","b"] | path has "a" | path has ["a","b"]
//	x    := "string" | true | false | path
//
// A path is relative to the object that holds the row. A path that begins with areq., ares.,
// rreq., creq. or preq. starts at another message of the transaction. An array on the path
// matches if any of its items does. Empty values count as absent. Tests of an absent path
// are false, except != and absent. UUIDs are compared without regard to case (RFC 9562).
type expr struct {
	op   exprOp
	args []*expr  // of and, or, not
	path exprPath // of a test
	with []literal
	to   exprPath // the right side of a test, when it is a path
}

type exprOp uint8

const (
	opAnd exprOp = iota
	opOr
	opNot
	opPresent
	opEqual // also "in"
	opHas
	opEqualPath
)

// A literal is a string or, when isBool is set, true or false.
type literal struct {
	text   string
	isBool bool
}

// An exprPath is a resolved path: the message where it starts and the ids of the names. In
// the object of the row itself the first step is the index of a row.
type exprPath struct {
	from relative
	row  int
	ids  []uint32
	uuid bool // the element at its end is a UUID
}

// A relative is a message of the same transaction, seen from the one that is checked.
type relative uint8

const (
	self relative = iota
	inAReq
	inARes
	inRReq
	inCReq
	inPReq
)

var relatives = map[string]struct {
	from relative
	typ  Type
}{
	"areq": {inAReq, AReq}, "ares": {inARes, ARes}, "rreq": {inRReq, RReq}, "creq": {inCReq, CReq}, "preq": {inPReq, PReq},
}

// A truth is the result of a condition.
type truth uint8

const (
	no truth = iota
	yes
	unknown // it refers to a message that the Context lacks
)

// truthOf returns yes for true and no for false.
func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// A scope is the object in which conditions are evaluated. It holds the node of the member
// of each row of the object's table; 0 means that there is none.
type scope struct {
	members []uint32
}

// evaluate evaluates a condition from left to right. It stops when the result is certain,
// and returns unknown at the first part that is.
func (c *checker) evaluate(e *expr, s scope) truth {
	switch e.op {
	case opAnd, opOr:
		stop := truthOf(e.op == opOr)
		for _, arg := range e.args {
			if t := c.evaluate(arg, s); t == stop || t == unknown {
				return t
			}
		}
		return truthOf(e.op == opAnd)
	case opNot:
		switch c.evaluate(e.args[0], s) {
		case yes:
			return no
		case no:
			return yes
		}
		return unknown
	}
	if c.messageAt(e.path.from) == nil || e.op == opEqualPath && c.messageAt(e.to.from) == nil {
		return unknown
	}
	return truthOf(c.anyValue(e.path, s, func(m *Message, i uint32) bool { return c.passesTest(e, s, m, i) }))
}

// messageAt returns a message of the transaction, or nil if the Context lacks it.
func (c *checker) messageAt(r relative) *Message {
	switch r {
	case inAReq:
		return c.ctx.AReq
	case inARes:
		return c.ctx.ARes
	case inRReq:
		return c.ctx.RReq
	case inCReq:
		return c.ctx.CReq
	case inPReq:
		return c.ctx.PReq
	}
	return c.m
}

// anyValue reports whether ok returns true for any value at a path.
func (c *checker) anyValue(p exprPath, s scope, ok func(*Message, uint32) bool) bool {
	m := c.messageAt(p.from)
	if p.from != self {
		return m.anyValue(0, p.ids, ok)
	}
	i := s.members[p.row]
	return i != 0 && !m.isEmpty(i) && m.anyValue(i, p.ids, ok)
}

// anyValue reports whether ok returns true for any value at the path ids below node i.
func (m *Message) anyValue(i uint32, ids []uint32, ok func(*Message, uint32) bool) bool {
	if len(ids) == 0 {
		return ok(m, i)
	}
	if m.nodes[i].kind == jsonArray {
		for j := i + 1; j < m.nodes[i].next; j = m.nodes[j].next {
			if m.nodes[j].kind == jsonObject && m.anyValue(j, ids, ok) {
				return true
			}
		}
		return false
	}
	j := m.member(i, ids[0])
	return j != 0 && !m.isEmpty(j) && m.anyValue(j, ids[1:], ok)
}

// passesTest reports whether a value passes a test.
func (c *checker) passesTest(e *expr, s scope, m *Message, i uint32) bool {
	switch e.op {
	case opPresent:
		return true
	case opEqual:
		return m.equalsAny(i, e.with)
	case opHas:
		if m.nodes[i].kind != jsonArray {
			return m.equalsAny(i, e.with)
		}
		for j := i + 1; j < m.nodes[i].next; j = m.nodes[j].next {
			if m.equalsAny(j, e.with) {
				return true
			}
		}
	case opEqualPath:
		return c.anyValue(e.to, s, func(o *Message, j uint32) bool { return m.equalValues(i, o, j, e.path.uuid) })
	}
	return false
}

// equalsAny reports whether a value equals one of the literals.
func (m *Message) equalsAny(i uint32, with []literal) bool {
	var buf [64]byte
	var text []byte
	n := m.nodes[i]
	switch n.kind {
	case jsonString:
		text = m.text(i, buf[:0])
	case jsonBool:
		text = m.raw(i)
	default:
		return false
	}
	for k := range with {
		if with[k].isBool == (n.kind == jsonBool) && with[k].text == string(text) {
			return true
		}
	}
	return false
}

// compileExpr compiles a condition of a row or a rule of t.
func compileExpr(text string, t *Table, set *tableSet) (*expr, error) {
	words, err := splitWords(text)
	if err != nil {
		return nil, err
	}
	x := &exprReader{words: words, table: t, set: set}
	e := x.readOr()
	if x.err == nil && len(x.words) > 0 {
		x.setError("unexpected %s", x.words[0])
	}
	return e, x.err
}

// splitWords splits a condition into names, strings, operators and brackets.
func splitWords(text string) ([]string, error) {
	var words []string
	for text = strings.TrimLeft(text, " "); text != ""; text = strings.TrimLeft(text, " ") {
		n := 1
		switch c := text[0]; {
		case isAlpha(c):
			for n < len(text) && (isAlnum(text[n]) || text[n] == '.') {
				n++
			}
		case c == '"':
			i := strings.IndexByte(text[1:], '"')
			if i < 0 {
				return nil, errors.New("open quote")
			}
			n = i + 2
		case strings.HasPrefix(text, "==") || strings.HasPrefix(text, "!="):
			n = 2
		}
		words = append(words, text[:n])
		text = text[n:]
	}
	return words, nil
}

// An exprReader parses the words of a condition by recursive descent. It keeps the first
// error and then has no words left.
type exprReader struct {
	words []string
	table *Table
	set   *tableSet
	err   error
}

func (x *exprReader) setError(format string, args ...any) {
	if x.err == nil {
		x.err = fmt.Errorf(format, args...)
	}
	x.words = nil
}

func (x *exprReader) peekWord() string {
	if len(x.words) == 0 {
		return ""
	}
	return x.words[0]
}

func (x *exprReader) nextWord() string {
	w := x.peekWord()
	if w == "" {
		x.setError("unexpected end")
		return ""
	}
	x.words = x.words[1:]
	return w
}

func (x *exprReader) expectWord(w string) {
	if got := x.nextWord(); got != w {
		x.setError("%q where %q was expected", got, w)
	}
}

func (x *exprReader) readOr() *expr  { return x.readChain("or", opOr, x.readAnd) }
func (x *exprReader) readAnd() *expr { return x.readChain("and", opAnd, x.readNot) }

func (x *exprReader) readChain(word string, op exprOp, next func() *expr) *expr {
	e := next()
	if x.peekWord() != word {
		return e
	}
	e = &expr{op: op, args: []*expr{e}}
	for x.peekWord() == word {
		x.nextWord()
		e.args = append(e.args, next())
	}
	return e
}

func (x *exprReader) readNot() *expr {
	negate := x.peekWord() == "not"
	if negate {
		x.nextWord()
	} else if x.peekWord() != "(" {
		return x.readTest()
	}
	x.expectWord("(")
	e := x.readOr()
	x.expectWord(")")
	if negate {
		e = &expr{op: opNot, args: []*expr{e}}
	}
	return e
}

func (x *exprReader) readTest() *expr {
	if w := x.peekWord(); w == "present" || w == "absent" {
		x.nextWord()
		x.expectWord("(")
		e := &expr{op: opPresent, path: x.readPath()}
		x.expectWord(")")
		if w == "absent" {
			e = &expr{op: opNot, args: []*expr{e}}
		}
		return e
	}
	e := &expr{path: x.readPath()}
	switch op := x.nextWord(); op {
	case "==", "!=":
		if w := x.peekWord(); w == "true" || w == "false" || strings.HasPrefix(w, `"`) {
			e.op, e.with = opEqual, []literal{x.readLiteral()}
		} else {
			e.op, e.to = opEqualPath, x.readPath()
		}
		if op == "!=" {
			e = &expr{op: opNot, args: []*expr{e}}
		}
	case "has":
		e.op, e.with = opHas, x.readLiterals()
	case "in":
		e.op, e.with = opEqual, x.readLiterals()
	default:
		x.setError("%q where an operator was expected", op)
	}
	return e
}

// readLiterals reads a list of values, or one value.
func (x *exprReader) readLiterals() []literal {
	if x.peekWord() != "[" {
		return []literal{x.readLiteral()}
	}
	var list []literal
	for x.peekWord() == "[" || x.peekWord() == "," {
		x.nextWord()
		list = append(list, x.readLiteral())
	}
	x.expectWord("]")
	return list
}

func (x *exprReader) readLiteral() literal {
	w := x.nextWord()
	if w == "true" || w == "false" {
		return literal{text: w, isBool: true}
	}
	if text, ok := strings.CutPrefix(w, `"`); ok {
		return literal{text: strings.TrimSuffix(text, `"`)}
	}
	x.setError("%q where a value was expected", w)
	return literal{}
}

// readPath reads a path and resolves it.
func (x *exprReader) readPath() exprPath {
	steps := strings.Split(x.nextWord(), ".")
	t, p := x.table, exprPath{row: -1}
	if r, ok := relatives[steps[0]]; ok {
		p.from, t, steps = r.from, x.set.messages[r.typ][t.Version], steps[1:]
	}
	for n, step := range steps {
		i := rowList(t.Fields).indexOf(step)
		if i < 0 {
			x.setError("no row %s in %s", step, t.Name)
			return p
		}
		if n == 0 && p.from == self {
			p.row = i
		} else {
			p.ids = append(p.ids, uint32(names.ids[step]))
		}
		f := &t.Fields[i]
		p.uuid = f.Kind == UUID
		switch {
		case n == len(steps)-1:
		case t.byName != nil:
			x.setError("%s is not a row of %s itself", strings.Join(steps, "."), t.Name)
			return p
		case f.Kind == Object:
			t = x.set.objects[f.Type][t.Version]
		default:
			x.setError("%s has no members", step)
			return p
		}
	}
	p.ids = slices.Clip(p.ids)
	return p
}

// factRows tells for each row of a message, by type and version, whether [Message.Facts]
// includes its element. It is nil for messages that no other message refers to.
var factRows = compileFactRows()

// alwaysInFacts are the elements that Facts includes even if no condition refers to them:
// those that identify a transaction, its channel and category, and those that decide which
// message comes next.
var alwaysInFacts = []string{
	"messageType", "messageVersion", "threeDSServerTransID", "dsTransID", "acsTransID", "sdkTransID",
	"deviceChannel", "messageCategory", "transStatus", "threeDSRequestorChallengeInd",
	"threeDSRequestorDecReqInd", "threeDSRequestorDecMaxTime", "threeDSRequestorSpcSupport",
}

// compileFactRows finds the elements of each message that conditions of other messages
// refer to.
func compileFactRows() (rows [typeCount][versionCount][]bool) {
	for _, v := range Versions() {
		for prefix, r := range relatives {
			rows[r.typ][v] = factRowsOf(tables.messages[r.typ][v], prefix)
		}
	}
	return rows
}

// factRowsOf returns the rows of one table that Facts includes; prefix is how conditions of
// other messages refer to it: "areq".
func factRowsOf(table *Table, prefix string) []bool {
	isFact := make([]bool, len(table.Fields))
	for _, name := range alwaysInFacts {
		if i := table.row(names.ids[name]); i >= 0 {
			isFact[i] = true
		}
	}
	reference := regexp.MustCompile(`\b` + prefix + `\.(\w+)`)
	for _, byVersion := range tables.messages {
		other := byVersion[table.Version]
		if other == nil || other == table {
			continue
		}
		for _, condition := range other.conditions() {
			if !strings.Contains(condition, prefix+".") {
				continue // The regular expression takes much longer to find that out, at each start of the program.
			}
			for _, match := range reference.FindAllStringSubmatch(condition, -1) {
				isFact[table.row(names.ids[match[1]])] = true
			}
		}
	}
	return isFact
}

// conditions returns the conditions of all rows and rules of a table and of the tables
// nested in it.
func (t *Table) conditions() []string {
	var all []string
	for i := range t.Fields {
		f := &t.Fields[i]
		all = append(all, f.When, f.Forbid)
		if f.Of != nil {
			all = append(all, f.Of.conditions()...)
		}
	}
	for i := range t.Rules {
		all = append(all, t.Rules[i].When, t.Rules[i].Must)
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// Facts returns a small JSON object with those elements of an AReq or ARes that are needed
// to check later messages of the transaction and to decide which one comes next. It holds
// no card data. Once parsed, it can take the place of the message in a [Context]. Facts
// returns an empty object for a message of another type, unless a condition refers to that
// type, and for one of an unknown version.
func (m *Message) Facts() []byte {
	t, hasType := m.Type()
	v, hasVersion := m.Version()
	if !hasType || !hasVersion || factRows[t][v] == nil {
		return []byte("{}")
	}
	table, isFact := TableOf(t, v), factRows[t][v]
	values := make([][]byte, len(table.Fields))
	for i := uint32(1); i < m.nodes[0].next; i = m.nodes[i].next {
		n := &m.nodes[i]
		if n.name >= maxNames || n.flags&duplicate != 0 || m.isEmpty(i) {
			continue
		}
		if row := table.rowOf[n.name]; row >= 0 && isFact[row] {
			values[row] = m.raw(i)
		}
	}
	return composeObject(table, values)
}
