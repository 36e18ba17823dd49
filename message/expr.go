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
// A path is relative to the object that holds the row; areq. ares. rreq. creq.
// preq. start at another message of the transaction. Arrays on the way match
// when any item does. Empty values count as absent. Tests on an absent path
// are false, but for != and absent. UUIDs are equal in any case (RFC 4122).
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

// An exprPath is a resolved path: where it starts and the ids on the way. In
// the object of the row itself the first step is the index of a row.
type exprPath struct {
	from relative
	row  int
	ids  []uint32
	uuid bool // it ends at a UUID
}

// A relative is a message of the transaction as seen from another one.
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
}{"areq": {inAReq, AReq}, "ares": {inARes, ARes}, "rreq": {inRReq, RReq}, "creq": {inCReq, CReq}, "preq": {inPReq, PReq}}

// A truth is what a condition comes out as.
type truth uint8

const (
	no truth = iota
	yes
	unknown // a message that it asks for is not known
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// A scope is the object in which conditions are looked at: for each row of its
// table the node of the member, 0 when there is none.
type scope struct {
	members []uint32
}

// eval evaluates from left to right and stops at the first unknown.
func (c *checker) eval(e *expr, s scope) truth {
	switch e.op {
	case opAnd, opOr:
		stop := truthOf(e.op == opOr)
		for _, arg := range e.args {
			if t := c.eval(arg, s); t == stop || t == unknown {
				return t
			}
		}
		return truthOf(e.op == opAnd)
	case opNot:
		switch c.eval(e.args[0], s) {
		case yes:
			return no
		case no:
			return yes
		}
		return unknown
	}
	if c.relative(e.path.from) == nil || e.op == opEqualPath && c.relative(e.to.from) == nil {
		return unknown
	}
	return truthOf(c.any(e.path, s, func(m *Message, i uint32) bool { return c.holds(e, s, m, i) }))
}

// relative is a message of the transaction, nil when it is not known.
func (c *checker) relative(r relative) *Message {
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

// any says whether ok holds for any value at a path.
func (c *checker) any(p exprPath, s scope, ok func(*Message, uint32) bool) bool {
	m := c.relative(p.from)
	if p.from != self {
		return m.any(0, p.ids, ok)
	}
	i := s.members[p.row]
	return i != 0 && !m.empty(i) && m.any(i, p.ids, ok)
}

// any says whether ok holds for any value at the path ids below node i.
func (m *Message) any(i uint32, ids []uint32, ok func(*Message, uint32) bool) bool {
	if len(ids) == 0 {
		return ok(m, i)
	}
	if m.nodes[i].kind == jsonArray {
		for j := i + 1; j < m.nodes[i].next; j = m.nodes[j].next {
			if m.nodes[j].kind == jsonObject && m.any(j, ids, ok) {
				return true
			}
		}
		return false
	}
	j := m.member(i, ids[0])
	return j != 0 && !m.empty(j) && m.any(j, ids[1:], ok)
}

// holds says whether a value passes a test.
func (c *checker) holds(e *expr, s scope, m *Message, i uint32) bool {
	switch e.op {
	case opPresent:
		return true
	case opEqual:
		return m.isAny(i, e.with)
	case opHas:
		if m.nodes[i].kind != jsonArray {
			return m.isAny(i, e.with)
		}
		for j := i + 1; j < m.nodes[i].next; j = m.nodes[j].next {
			if m.isAny(j, e.with) {
				return true
			}
		}
	case opEqualPath:
		return c.any(e.to, s, func(o *Message, j uint32) bool { return m.same(i, o, j, e.path.uuid) })
	}
	return false
}

// isAny says whether a value equals any of the literals.
func (m *Message) isAny(i uint32, with []literal) bool {
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

// compileExpr compiles a condition that stands in a row or a rule of t.
func compileExpr(text string, t *Table, set *tableSet) (*expr, error) {
	words, err := exprWords(text)
	if err != nil {
		return nil, err
	}
	x := &exprReader{words: words, table: t, set: set}
	e := x.or()
	if x.err == nil && len(x.words) > 0 {
		x.fail("unexpected %s", x.words[0])
	}
	return e, x.err
}

func exprWords(text string) ([]string, error) {
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

// An exprReader reads words by recursive descent and remembers the first error.
type exprReader struct {
	words []string
	table *Table
	set   *tableSet
	err   error
}

func (x *exprReader) fail(format string, args ...any) {
	if x.err == nil {
		x.err = fmt.Errorf(format, args...)
	}
	x.words = nil
}

func (x *exprReader) peek() string {
	if len(x.words) == 0 {
		return ""
	}
	return x.words[0]
}

func (x *exprReader) take() string {
	w := x.peek()
	if w == "" {
		x.fail("unexpected end")
		return ""
	}
	x.words = x.words[1:]
	return w
}

func (x *exprReader) want(w string) {
	if got := x.take(); got != w {
		x.fail("%q where %q was expected", got, w)
	}
}

func (x *exprReader) or() *expr  { return x.chain("or", opOr, x.and) }
func (x *exprReader) and() *expr { return x.chain("and", opAnd, x.not) }

func (x *exprReader) chain(word string, op exprOp, next func() *expr) *expr {
	e := next()
	if x.peek() != word {
		return e
	}
	e = &expr{op: op, args: []*expr{e}}
	for x.peek() == word {
		x.take()
		e.args = append(e.args, next())
	}
	return e
}

func (x *exprReader) not() *expr {
	negate := x.peek() == "not"
	if negate {
		x.take()
	} else if x.peek() != "(" {
		return x.test()
	}
	x.want("(")
	e := x.or()
	x.want(")")
	if negate {
		e = &expr{op: opNot, args: []*expr{e}}
	}
	return e
}

func (x *exprReader) test() *expr {
	if w := x.peek(); w == "present" || w == "absent" {
		x.take()
		x.want("(")
		e := &expr{op: opPresent, path: x.path()}
		x.want(")")
		if w == "absent" {
			e = &expr{op: opNot, args: []*expr{e}}
		}
		return e
	}
	e := &expr{path: x.path()}
	switch op := x.take(); op {
	case "==", "!=":
		if w := x.peek(); w == "true" || w == "false" || strings.HasPrefix(w, `"`) {
			e.op, e.with = opEqual, []literal{x.literal()}
		} else {
			e.op, e.to = opEqualPath, x.path()
		}
		if op == "!=" {
			e = &expr{op: opNot, args: []*expr{e}}
		}
	case "has":
		e.op, e.with = opHas, x.literals()
	case "in":
		e.op, e.with = opEqual, x.literals()
	default:
		x.fail("%q where an operator was expected", op)
	}
	return e
}

// literals reads a list, or a single value.
func (x *exprReader) literals() []literal {
	if x.peek() != "[" {
		return []literal{x.literal()}
	}
	var list []literal
	for x.peek() == "[" || x.peek() == "," {
		x.take()
		list = append(list, x.literal())
	}
	x.want("]")
	return list
}

func (x *exprReader) literal() literal {
	w := x.take()
	if w == "true" || w == "false" {
		return literal{text: w, isBool: true}
	}
	if text, ok := strings.CutPrefix(w, `"`); ok {
		return literal{text: strings.TrimSuffix(text, `"`)}
	}
	x.fail("%q where a value was expected", w)
	return literal{}
}

// path reads a path and resolves it.
func (x *exprReader) path() exprPath {
	steps := strings.Split(x.take(), ".")
	t, p := x.table, exprPath{row: -1}
	if r, ok := relatives[steps[0]]; ok {
		p.from, t, steps = r.from, x.set.messages[r.typ][t.Version], steps[1:]
	}
	for n, step := range steps {
		i := rowList(t.Fields).indexOf(step)
		if i < 0 {
			x.fail("no row %s in %s", step, t.Name)
			return p
		}
		if n == 0 && p.from == self {
			p.row = i
		} else {
			p.ids = append(p.ids, uint32(names.ids[step]))
		}
		f := &t.Fields[i]
		p.uuid = f.Kind == UUID
		if f.Kind == Object {
			t = x.set.objects[f.Type][t.Version]
		} else if n < len(steps)-1 {
			x.fail("%s has no members", step)
			return p
		}
	}
	p.ids = slices.Clip(p.ids)
	return p
}

// facts are, per type and version, the rows that a transaction has to remember
// of a message for the checks of those that follow it.
var facts = compileFacts()

// keptFacts are remembered in any case: what tells transactions and their
// kinds apart, and what the way of a transaction depends on.
var keptFacts = []string{
	"messageType", "messageVersion", "threeDSServerTransID", "dsTransID", "acsTransID", "sdkTransID",
	"deviceChannel", "messageCategory", "transStatus", "threeDSRequestorChallengeInd",
	"threeDSRequestorDecReqInd", "threeDSRequestorDecMaxTime", "threeDSRequestorSpcSupport",
}

func compileFacts() (rows [typeCount][versionCount][]bool) {
	for _, v := range Versions() {
		for word, r := range relatives {
			of := tables.messages[r.typ][v]
			kept := make([]bool, len(of.Fields))
			for _, name := range keptFacts {
				if i := of.row(names.ids[name]); i >= 0 {
					kept[i] = true
				}
			}
			reference := regexp.MustCompile(`\b` + word + `\.(\w+)`)
			for _, t := range tables.messages {
				if t[v] == nil || t[v].Type == r.typ {
					continue
				}
				for _, condition := range t[v].conditions() {
					for _, match := range reference.FindAllStringSubmatch(condition, -1) {
						kept[of.row(names.ids[match[1]])] = true
					}
				}
			}
			rows[r.typ][v] = kept
		}
	}
	return rows
}

// conditions are those of all rows and rules of a table and of the tables
// within.
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

// Facts returns a small JSON object with what the checks of later messages of
// the transaction, and its engine, ask of this one, and nothing else: no card
// data. Parsed, it stands for the message in a Context. It is meant for an
// AReq or ARes; of a message that no other one refers to, or of an unknown
// version, the facts are an empty object.
func (m *Message) Facts() []byte {
	t, known := m.Type()
	v, knownVersion := m.Version()
	if !known || !knownVersion || facts[t][v] == nil {
		return []byte("{}")
	}
	table, kept := TableOf(t, v), facts[t][v]
	values := make([][]byte, len(table.Fields))
	for i := uint32(1); i < m.nodes[0].next; i = m.nodes[i].next {
		n := &m.nodes[i]
		if n.name >= maxNames || n.flags&duplicate != 0 || m.empty(i) {
			continue
		}
		if row := table.rowOf[n.name]; row >= 0 && kept[row] {
			values[row] = m.raw(i)
		}
	}
	return join(table, values)
}
