package message

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A fault changes one member of an object of a valid message. It returns false
// when the member cannot have that fault, and else the code that it brings, 0
// for none.
type fault struct {
	name string
	do   func(s *sampler, in *doc, f dictField, required bool) (Code, bool)
}

var faults = []fault{
	{"minimum", func(s *sampler, in *doc, f dictField, _ bool) (Code, bool) { return 0, s.resize(in, f, f.Min) }},
	{"maximum", func(s *sampler, in *doc, f dictField, _ bool) (Code, bool) {
		return 0, f.Max > 0 && s.resize(in, f, f.Max)
	}},
	{"one less", func(s *sampler, in *doc, f dictField, _ bool) (Code, bool) {
		return Format, f.Min > 1 && s.resize(in, f, f.Min-1)
	}},
	{"one more", func(s *sampler, in *doc, f dictField, _ bool) (Code, bool) {
		return Format, f.Max > 0 && s.resize(in, f, f.Max+1)
	}},
	{"wrong type", func(_ *sampler, in *doc, f dictField, _ bool) (Code, bool) {
		in.set(f.Name, map[bool]any{true: "text", false: 7}[f.Type != "string"])
		return Format, true
	}},
	{"wrong pattern", func(s *sampler, in *doc, f dictField, _ bool) (Code, bool) {
		bad, ok := map[string]string{"numeric": "4444444444444!", "alphanum": "a!a!a!a!", "uuid": "8a880dc0-d2d2-4067-bcb1-b08d1690b26g", "url": "x.example",
			"email": "a.example", "ip": "999.1.1.1", "base64": "AAAA", "base64url": strings.Repeat("a+", 600), "date": "20230229",
			"datetime": "20240229240000", "minute": "202402292460", "yymm": "2913", "country": "US1", "currency": "EUR", "currencyAlpha": "eur",
			"bcp47": "e_n", "jws": "a.b", "jwe": "a.b.c.d", "version": "2.2.x", "tzoffset": "+1h"}[f.Format]
		if !ok || f.Type != "string" {
			return 0, false
		}
		if f.Format == "numeric" || f.Format == "alphanum" || f.Format == "base64url" {
			bad = (bad + strings.Repeat("!", max(0, f.Min)))[:max(f.Min, 1)-1] + "!"
		}
		if f.Format == "email" && s.version == "2.3.1" && f.Name == "deliveryEmailAddress" {
			return 0, false
		}
		in.set(f.Name, bad)
		return Format, true
	}},
	{"unknown code", func(s *sampler, in *doc, f dictField, _ bool) (Code, bool) {
		if f.Format != "enum" {
			return 0, false
		}
		code, bad := Format, any(strings.Repeat("!", max(f.Min, 1)))
		for _, r := range f.Ranges {
			if r.Status == "emvco" {
				bad = r.From
				if s.version == "2.3.1" {
					code = Reserved
				}
			}
		}
		if f.Type == "array" {
			bad = []any{bad}
		}
		in.set(f.Name, bad)
		return code, true
	}},
	{"excluded ISO code", func(_ *sampler, in *doc, f dictField, _ bool) (Code, bool) {
		bad, ok := map[string]string{"country": "901", "currency": "964", "currencyAlpha": "XXX"}[f.Format]
		in.set(f.Name, bad)
		return ISOCode, ok
	}},
	{"missing", func(_ *sampler, in *doc, f dictField, required bool) (Code, bool) {
		in.remove(f.Name)
		return missingOr(0, required), true
	}},
	{"empty", func(_ *sampler, in *doc, f dictField, required bool) (Code, bool) {
		in.set(f.Name, map[string]any{"array": []any{}, "object": new(doc)}[f.Type])
		if f.Type == "string" || f.Type == "boolean" {
			in.set(f.Name, "")
		}
		return missingOr(Format, required), true
	}},
	{"blank", func(s *sampler, in *doc, f dictField, required bool) (Code, bool) {
		in.set(f.Name, " \t")
		text := f.Format == "text" || f.Name == "deliveryEmailAddress" && s.version == "2.3.1"
		if text && f.Min <= 2 && !required && (s.message != "PRes" || f.Name != "serialNum") {
			return 0, f.Type == "string"
		}
		return missingOr(Format, required), f.Type == "string"
	}},
	{"null", func(_ *sampler, in *doc, f dictField, required bool) (Code, bool) {
		in.set(f.Name, nil)
		return missingOr(Format, required), true
	}},
	{"twice", func(_ *sampler, in *doc, f dictField, _ bool) (Code, bool) {
		v, _ := in.get(f.Name)
		in.members = append(in.members, docMember{f.Name, v})
		return Duplicate, true
	}},
}

func missingOr(code Code, required bool) Code {
	if required {
		return Missing
	}
	return code
}

// fixed are formats whose length cannot be chosen.
var fixed = map[string]bool{"uuid": true, "ip": true, "date": true, "datetime": true, "minute": true, "yymm": true, "country": true,
	"currency": true, "currencyAlpha": true, "version": true, "tzoffset": true, "enum": true}

// resize gives a member a value of n characters or items.
func (s *sampler) resize(in *doc, f dictField, n int) bool {
	outside := n < f.Min || f.Max > 0 && n > f.Max
	switch {
	case f.Type == "array":
		if n > 100 || n == 0 {
			return false
		}
		list := s.items(f, n)
		in.set(f.Name, list)
		return list != nil
	case f.Type == "object":
		if f.Format != "json" || n < len(`{"some":""}`) {
			return false
		}
		in.set(f.Name, &doc{[]docMember{{"some", strings.Repeat("x", n-len(`{"some":""}`))}}})
		return true
	case f.Type != "string" || n < 1:
		return false
	case f.Name == "messageType" || f.Name == "messageVersion":
		return false
	case outside && fixed[f.Format]:
		in.set(f.Name, strings.Repeat("1", n))
		return true
	case f.Format == "enum" || fixed[f.Format] && f.Min != f.Max:
		return false
	case f.Range != nil:
		x := f.Range[0]
		if n == f.Max {
			x = f.Range[1]
		}
		in.set(f.Name, fmt.Sprintf("%0*d", n, x))
	default:
		in.set(f.Name, s.str(f, n))
	}
	v, _ := in.get(f.Name)
	return len(v.(string)) == n && (outside || wellFormed(f.Format, v.(string)))
}

// A spot is one place of a message that a row describes: the fields on the way
// and the row.
type spot struct {
	way []dictField
	row dictField
}

func (s *sampler) spots(fields []dictField, way []dictField) []spot {
	var list []spot
	for _, f := range fields {
		list = append(list, spot{way, f})
		if nested := f.ObjectOf + f.ItemsOf; nested != "" {
			list = append(list, s.spots(s.d.types[s.version][nested].Fields, append(slices.Clone(way), f))...)
		}
	}
	return list
}

// find returns the object that holds the spot, and its path.
func (p spot) find(d *doc) (*doc, string) {
	at := ""
	for _, f := range p.way {
		v, _ := d.get(f.Name)
		at += f.Name
		if list, ok := v.([]any); ok {
			v, at = list[0], at+"[0]"
		}
		d, at = v.(*doc), at+"."
	}
	return d, at + p.row.Name
}

// TestGeneratedCases adds one fault at a time to valid messages, in each element of each
// message of each version, and compares the result of Check with that of the dictionary.
func TestGeneratedCases(t *testing.T) {
	d := loadDictionary(t)
	d.amend()
	counts := make(map[string]int)
	t.Run("versions", func(t *testing.T) {
		var mu sync.Mutex
		for _, v := range Versions() {
			t.Run(v.String(), func(t *testing.T) {
				t.Parallel()
				own := make(map[string]int)
				for _, typ := range dictionaryTypes {
					done := make(map[string]bool)
					for _, column := range columnsOf(typ) {
						s := &sampler{d: d, version: v.String(), message: typ.String(), ch: column.ch.String(), cat: column.cat.String()}
						newBench(t, s).run(own, done)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				for name, n := range own {
					counts[name] += n
				}
			})
		}
	})
	total := 0
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%-18s %6d", name, counts[name])
		total += counts[name]
	}
	t.Logf("%-18s %6d", "total", total)
}

type column struct {
	ch  Channel
	cat Category
}

// columnsOf are the columns in which the rows of a type differ.
func columnsOf(typ Type) []column {
	var list []column
	for _, ch := range Channels() {
		for _, cat := range Categories() {
			list = append(list, column{ch, cat})
		}
	}
	switch typ {
	case PReq, PRes, Erro:
		return list[:1]
	case CReq, CRes:
		return list[:4]
	}
	return list
}

// A bench is a message and its transaction, set up to be spoilt.
type bench struct {
	t       *testing.T
	s       *sampler
	full    *doc // the message before it is spoilt
	others  map[string]*doc
	context Context
}

func newBench(t *testing.T, s *sampler) *bench {
	b := &bench{t: t, s: s, full: s.full(), others: make(map[string]*doc)}
	read := func(name string) *Message {
		if name == s.message {
			return nil
		}
		other := *s
		other.message = name
		b.others[name] = other.full()
		m, err := Parse(b.others[name].json(), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	switch s.message {
	case "ARes":
		b.context.AReq = read("AReq")
	case "RReq", "CRes", "CReq":
		b.context.AReq, b.context.ARes = read("AReq"), read("ARes")
	case "RRes":
		b.context.AReq, b.context.ARes, b.context.RReq = read("AReq"), read("ARes"), read("RReq")
	case "Erro":
		b.context.AReq = read("AReq")
	case "PRes":
		b.context.PReq = read("PReq")
	}
	return b
}

func (b *bench) oracle() *oracle {
	return &oracle{d: b.s.d, version: b.s.version, message: b.s.message, ch: b.s.ch, cat: b.s.cat,
		areq: b.others["AReq"], ares: b.others["ARes"], rreq: b.others["RReq"], preq: b.others["PReq"]}
}

func (b *bench) check(m *doc) []string {
	parsed, err := Parse(m.json(), Limits{Members: -1})
	if err != nil {
		b.t.Fatal(err)
	}
	c := b.context
	c.KnownExtension = func(string) bool { return true }
	return problemKeys(parsed.Check(c))
}

func problemKeys(list []Problem) []string {
	var keys []string
	for _, p := range list {
		keys = append(keys, p.Code.String()+" "+string(p.Path))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// run spoils the message in each element, but only once per version and type
// for each presence.
func (b *bench) run(counts map[string]int, done map[string]bool) {
	at := b.s.version + " " + b.s.message + " " + b.s.cat + "/" + b.s.ch
	if got := b.check(b.full.clone()); len(got) > 0 {
		b.t.Fatalf("%s: the full message: %v", at, got)
	}
	counts["none"]++
	for _, p := range b.s.spots(b.s.fields(), nil) {
		top := append(slices.Clone(p.way), p.row)[0]
		once := b.s.need(top) + b.s.need(p.row)
		for _, f := range append(slices.Clone(p.way), p.row) {
			once += "." + f.Name
		}
		if b.s.need(top) != "O" && b.s.need(p.row) == "C" {
			once += b.s.cat // conditions look at category and channel
			once += b.s.ch
		}
		if done[once] {
			continue
		}
		done[once] = true
		if b.s.need(top) == "-" {
			b.ignored(at, p, counts)
			continue
		}
		for _, f := range faults {
			if b.inject(at, p, f) {
				counts[f.name]++
			}
		}
	}
}

// inject does one fault and compares.
func (b *bench) inject(at string, p spot, f fault) bool {
	m := b.full.clone()
	if omitted[p.row.Name] {
		m.set(p.row.Name, b.s.value(p.row))
		m.remove("cardRangeData")
		m.remove("serialNum")
	}
	in, path := p.find(m)
	o := b.oracle()
	required := b.s.need(p.row) == "R"
	if c := p.row.Condition; b.s.need(p.row) == "C" && c.Expr != "" && (c.Scope == nil || c.Scope[b.s.cat] == "expr") {
		without := &doc{slices.Clone(in.members)}
		without.remove(p.row.Name)
		required = o.eval(c.Expr, without) == "true"
	}
	code, ok := f.do(b.s, in, p.row, required)
	if !ok || p.row.Name == "messageVersion" && len(p.way) == 0 && code != Duplicate || p.row.Name == "messageType" && len(p.way) == 0 && code != Duplicate {
		return false // of the header: testdata/vectors/header.txtar
	}
	var want []string
	if code == Duplicate {
		want = []string{"204 " + path}
	} else {
		want = problemKeys(o.check(m))
		expected := code.String() + " " + path
		if p.row.Type == "array" && f.name == "unknown code" {
			expected += "[0]"
		}
		has := slices.ContainsFunc(want, func(w string) bool { // or an object around it that became too long
			return w == expected || code == Format && strings.HasPrefix(expected, w+".")
		})
		if has != (code != 0 && p.row.Name != withheld) {
			b.t.Errorf("%s: %s %s: the oracle says %v, the case %s", at, path, f.name, want, expected)
		}
	}
	if got := b.check(m); !slices.Equal(got, want) {
		b.t.Errorf("%s: %s %s: got %v, want %v", at, path, f.name, got, want)
	}
	return true
}

// ignored puts a member where its column does not define it: whatever it holds
// is ignored, but not that it is there twice.
func (b *bench) ignored(at string, p spot, counts map[string]int) {
	if len(p.way) > 0 {
		return
	}
	m := b.full.clone()
	m.set(p.row.Name, 7)
	if got := b.check(m); len(got) > 0 {
		b.t.Errorf("%s: %s is not defined here: got %v", at, p.row.Name, got)
	}
	m.members = append(m.members, docMember{p.row.Name, nil})
	if got := b.check(m); len(got) != 1 || got[0] != "204 "+p.row.Name {
		b.t.Errorf("%s: %s twice: got %v", at, p.row.Name, got)
	}
	counts["not defined here"] += 2
}
