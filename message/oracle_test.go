package message

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// An oracle says what is wrong with a message by the dictionary alone. It
// shares nothing with the package but Code and Path.
type oracle struct {
	d                      *dictionary
	version, message       string
	ch, cat                string
	areq, ares, rreq, preq *doc
	found                  []Problem
}

func (o *oracle) add(code Code, path string) {
	o.found = append(o.found, Problem{Code: code, Path: Path(path)})
}

func (o *oracle) check(m *doc) []Problem {
	o.fields(o.d.messages[o.version][o.message].Fields, m, "")
	for _, r := range append(slices.Clone(o.d.messages[o.version][o.message].Rules), beside[o.message]...) {
		isReported := slices.ContainsFunc(o.found, func(p Problem) bool { // of the field, or of what the rule may look at in it
			return string(p.Path) == r.Field || strings.HasPrefix(string(p.Path), r.Field+".")
		})
		if r.Soft || isReported || o.ignored(r.Field) {
			continue
		}
		if o.eval(r.When, o.defined(m)) == "true" && o.eval(r.Must, o.defined(m)) == "false" {
			o.add(Code(atoi(r.ErrorCode)), r.Field)
		}
	}
	return o.found
}

// ignored says whether the column does not define a field.
func (o *oracle) ignored(field string) bool {
	return slices.ContainsFunc(o.d.messages[o.version][o.message].Fields, func(f dictField) bool {
		return f.Name == field && f.Inclusion[o.cat][o.ch] == "-"
	})
}

// beside has rules that the dictionary lacks.
var beside = map[string][]dictRule{
	"RReq": {
		{Field: "messageCategory", When: `present(areq.messageCategory)`, Must: `messageCategory == areq.messageCategory`, ErrorCode: "203"},
		{Field: "sdkTransID", When: `present(sdkTransID)`, Must: `sdkTransID == areq.sdkTransID`, ErrorCode: "301"},
	},
	"RRes": {{Field: "sdkTransID", When: `present(sdkTransID)`, Must: `sdkTransID == rreq.sdkTransID`, ErrorCode: "301"}},
}

// withheld is the element that has a form in the dictionary, but is never refused: the reader of card ranges withholds
// a bad value (D110).
const withheld = "threeDSMethodURL"

// defined is the message without what its column does not define.
func (o *oracle) defined(m *doc) *doc {
	d := new(doc)
	for _, f := range o.d.messages[o.version][o.message].Fields {
		if v, ok := m.get(f.Name); ok && f.Inclusion[o.cat][o.ch] != "-" {
			d.set(f.Name, v)
		}
	}
	return d
}

func isEmptyValue(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case *doc:
		return len(v.members) == 0
	}
	return false
}

func (o *oracle) fields(fields []dictField, m *doc, at string) {
	for _, f := range fields {
		need := f.Inclusion[o.cat][o.ch]
		if need == "-" || f.Leg == "ACS>DS" || f.Name == withheld {
			continue
		}
		path := at + f.Name
		v, there := m.get(f.Name)
		if there && f.Condition != nil && f.Condition.Forbid != "" && o.eval(f.Condition.Forbid, m) == "true" {
			if f.Name == "cardRangeDataFileURL" {
				o.add(Format, path)
			}
			continue
		}
		required := need == "R"
		if need == "C" && f.Condition.Expr != "" && (f.Condition.Scope == nil || f.Condition.Scope[o.cat] == "expr") {
			required = o.eval(f.Condition.Expr, m) == "true"
		}
		text, isText := v.(string)
		blank := isText && text != "" && strings.TrimSpace(text) == ""
		switch {
		case required && (!there || isEmptyValue(v) || blank):
			o.add(Missing, path)
		case !there:
		case isEmptyValue(v), blank && o.message == "PRes" && f.Name == "serialNum": // VP-04
			o.add(Format, path)
		default:
			o.value(f, v, path)
		}
	}
}

func (o *oracle) value(f dictField, v any, path string) {
	switch v := v.(type) {
	case string:
		if f.Type != "string" {
			o.add(Format, path)
		} else if code := o.text(f, v, f.Min, f.Max); code != 0 {
			o.add(code, path)
		}
	case bool:
		if f.Type != "boolean" {
			o.add(Format, path)
		}
	case *doc:
		known := f.Type == "object" || f.AltType == "object"
		if !known || f.Max > 0 && utf8.RuneCount(v.json()) > f.Max {
			o.add(Format, path)
		}
		if known && f.ObjectOf != "" {
			o.fields(o.d.types[o.version][f.ObjectOf].Fields, v, path+".")
		}
	case []any:
		if f.Type != "array" && f.AltType != "array" {
			o.add(Format, path)
		} else {
			o.items(f, v, path)
		}
	default:
		o.add(Format, path)
	}
}

func (o *oracle) items(f dictField, list []any, path string) {
	if f.Type == "array" && (len(list) < f.Min || f.Max > 0 && len(list) > f.Max) {
		o.add(Format, path)
	}
	if f.MaxChars > 0 && utf8.RuneCount(appendJSON(nil, list)) > f.MaxChars {
		o.add(Format, path)
	}
	lo, hi := f.ItemMin, f.ItemMax
	if f.Type != "array" {
		lo, hi = f.Min, f.Max
	}
	seen := make(map[string]bool)
	for i, x := range list {
		at := path + "[" + strconv.Itoa(i) + "]"
		key := string(appendJSON(nil, x))
		if o.version == "2.3.1" && seen[key] {
			o.add(Duplicate, at)
		}
		seen[key] = true
		switch x := x.(type) {
		case *doc:
			if f.ItemsOf == "" {
				o.add(Format, at)
			} else {
				o.fields(o.d.types[o.version][f.ItemsOf].Fields, x, at+".")
			}
		case string:
			if f.ItemsOf != "" {
				o.add(Format, at)
			} else if code := o.text(f, x, lo, hi); code != 0 {
				o.add(code, at)
			}
		default:
			o.add(Format, at)
		}
	}
}

// inCardRange are the versions that must be known.
var inCardRange = map[string]bool{"version": true, "dsProtocolVersions": true}

func (o *oracle) text(f dictField, s string, lo, hi int) Code {
	if f.Format == "base64" {
		s = strings.Join(strings.Fields(s), "")
	}
	n := utf8.RuneCountInString(s)
	switch {
	case f.Format == "enum":
		return o.code(f, s)
	case n < lo || hi > 0 && n > hi:
		return Format
	case f.Range != nil:
		x, err := strconv.Atoi(s)
		if err != nil || x < f.Range[0] || x > f.Range[1] || !numeric.MatchString(s) {
			return Format
		}
	case f.Format == "country" && numeric.MatchString(s):
		if s >= o.d.excluded.CountryNumeric.From && s <= o.d.excluded.CountryNumeric.To {
			return ISOCode
		}
	case f.Format == "currency" && slices.Contains(o.d.excluded.CurrencyNumeric, s), f.Format == "currencyAlpha" && slices.Contains(o.d.excluded.CurrencyAlpha, s):
		return ISOCode
	}
	if f.Name == "deliveryEmailAddress" && o.version == "2.3.1" {
		return 0
	}
	if !wellFormed(f.Format, s) {
		return Format
	}
	if o.version == "2.3.1" && inCardRange[f.Name] && f.Format == "version" && !slices.Contains([]string{"2.1.0", "2.2.0", "2.3.1"}, s) && o.message == "PRes" {
		return UnsupportedVersion
	}
	return 0
}

func (o *oracle) code(f dictField, s string) Code {
	if _, ok := f.Values[s]; ok {
		return 0
	}
	if f.Codes == "errorCode" && len(s) == 3 && numeric.MatchString(s) {
		return 0
	}
	if f.Codes == "challengeCancel" && o.version == "2.1.0" && (s == "02" || s == "03") {
		return 0
	}
	for _, r := range f.Ranges {
		if len(s) != len(r.From) || !numeric.MatchString(s) || s < r.From || s > r.To {
			continue
		}
		if r.Status == "ds" {
			return 0
		}
		if o.version == "2.3.1" {
			return Reserved
		}
	}
	return Format
}

var (
	numeric  = regexp.MustCompile(`^[0-9]+$`)
	patterns = map[string]*regexp.Regexp{
		"numeric": numeric, "country": numeric, "currency": numeric,
		"alphanum":      regexp.MustCompile(`^[A-Za-z0-9]+$`),
		"uuid":          regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`),
		"email":         regexp.MustCompile(`^[^@\s]+@[^@\s]+$`),
		"base64url":     regexp.MustCompile(`^[A-Za-z0-9_-]+={0,2}$`),
		"yymm":          regexp.MustCompile(`^[0-9]{2}(0[1-9]|1[0-2])$`),
		"currencyAlpha": regexp.MustCompile(`^[A-Z]{3}$`),
		"bcp47":         regexp.MustCompile(`^[A-Za-z0-9-]+$`),
		"jws":           regexp.MustCompile(`^[A-Za-z0-9_-]+=*\.[A-Za-z0-9_-]+=*\.[A-Za-z0-9_-]+=*$`),
		"jwe":           regexp.MustCompile(`^[A-Za-z0-9_-]*(\.[A-Za-z0-9_-]*){4}$`),
		"version":       regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`),
		"tzoffset":      regexp.MustCompile(`^[+-]?[0-9]+$`),
	}
	layouts = map[string]string{"date": "20060102", "datetime": "20060102150405", "minute": "200601021504"}
)

func wellFormed(format, s string) bool {
	if p, ok := patterns[format]; ok {
		return p.MatchString(s)
	}
	if layout, ok := layouts[format]; ok {
		_, err := time.Parse(layout, s)
		return err == nil && numeric.MatchString(s)
	}
	switch format {
	case "url":
		u, err := url.Parse(s)
		return err == nil && u.Scheme != "" && u.Hostname() != ""
	case "ip":
		_, err := netip.ParseAddr(s)
		return err == nil
	case "base64":
		_, err := base64.StdEncoding.DecodeString(s)
		return err == nil
	}
	return true
}

// eval evaluates a condition: "true", "false", or "" when a message that it
// asks for is not known. It works on the text as it goes.
func (o *oracle) eval(expr string, at *doc) (result string) {
	defer func() {
		if r := recover(); r != nil {
			if r != errUnknown {
				panic(r)
			}
			result = ""
		}
	}()
	e := &evaluator{o: o, at: at, words: wordsOf(expr)}
	return fmt.Sprint(e.or())
}

var (
	exprWord   = regexp.MustCompile(`"[^"]*"|[A-Za-z0-9_.]+|==|!=|[()\[\],]`)
	errUnknown = fmt.Errorf("unknown")
)

var exprWords sync.Map // of the words of each condition that was evaluated

// wordsOf returns the words of a condition. The caller does not change them.
func wordsOf(expr string) []string {
	if words, ok := exprWords.Load(expr); ok {
		return words.([]string)
	}
	words := exprWord.FindAllString(expr, -1)
	exprWords.Store(expr, words)
	return words
}

type evaluator struct {
	o     *oracle
	at    *doc
	words []string
}

func (e *evaluator) next() string { w := e.words[0]; e.words = e.words[1:]; return w }
func (e *evaluator) is(w string) bool {
	return len(e.words) > 0 && e.words[0] == w
}

func (e *evaluator) or() bool {
	x := e.and()
	for e.is("or") {
		e.next()
		x = e.and() || x
	}
	return x
}

func (e *evaluator) and() bool {
	x := e.not()
	for e.is("and") {
		e.next()
		x = e.not() && x
	}
	return x
}

func (e *evaluator) not() bool {
	negate := e.is("not")
	if negate {
		e.next()
	}
	if !e.is("(") {
		return e.test()
	}
	e.next()
	x := e.or()
	e.next()
	return x != negate
}

func (e *evaluator) test() bool {
	w := e.next()
	if w == "present" || w == "absent" {
		e.next()
		n := len(e.values(e.next()))
		e.next()
		return (n > 0) == (w == "present")
	}
	left := e.values(w)
	switch op := e.next(); op {
	case "has":
		want := literalOf(e.next())
		return slices.ContainsFunc(left, func(v any) bool {
			if list, ok := v.([]any); ok {
				return slices.Contains(list, want)
			}
			return v == want
		})
	case "in":
		var list []any
		for w := e.next(); w != "]"; w = e.next() {
			if w != "[" && w != "," {
				list = append(list, literalOf(w))
			}
		}
		return slices.ContainsFunc(left, func(v any) bool { return comparable_(v) && slices.Contains(list, v) })
	default:
		right := []any{}
		if w := e.next(); w == "true" || w == "false" || w[0] == '"' {
			right = append(right, literalOf(w))
		} else {
			right = e.values(w)
		}
		same := slices.ContainsFunc(left, func(v any) bool { return comparable_(v) && slices.Contains(right, v) })
		return same == (op == "==")
	}
}

func comparable_(v any) bool { _, list := v.([]any); return !list }

func literalOf(w string) any {
	if w == "true" || w == "false" {
		return w == "true"
	}
	return strings.Trim(w, `"`)
}

func (e *evaluator) values(path string) []any {
	steps := strings.Split(path, ".")
	at := []any{e.at}
	if other, ok := map[string]*doc{"areq": e.o.areq, "ares": e.o.ares, "rreq": e.o.rreq, "preq": e.o.preq, "creq": nil}[steps[0]]; ok {
		if other == nil {
			panic(errUnknown)
		}
		at, steps = []any{other}, steps[1:]
	}
	for _, step := range steps {
		var found []any
		for _, v := range at {
			list, ok := v.([]any)
			if !ok {
				list = []any{v}
			}
			for _, x := range list {
				if d, ok := x.(*doc); ok {
					if v, _ := d.get(step); !isEmptyValue(v) {
						found = append(found, v)
					}
				}
			}
		}
		at = found
	}
	return at
}
