package message

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The field dictionary under testdata/dictionary holds the facts of the
// specification, gathered apart from the tables: a word per attribute that the
// tables and it have in common.
type (
	dictionary struct {
		messages, types map[string]map[string]dictTable // by version and name
		codes           map[string]dictCodes
		excluded        struct {
			CurrencyNumeric, CurrencyAlpha []string
			CountryNumeric                 struct{ From, To string }
		}
	}
	dictTable struct {
		Fields []dictField
		Rules  []dictRule
	}
	dictField struct {
		Name, Type, Format, AltType, Codes, ObjectOf, ItemsOf, Leg string
		Min, Max, ItemMin, ItemMax, MaxChars                       int
		Range                                                      []int
		Values                                                     map[string]string
		Ranges                                                     []dictRange
		Inclusion                                                  map[string]map[string]string
		Condition                                                  *dictCondition
	}
	dictCondition struct {
		Expr, Forbid string
		Else         string
		Complete     bool
		Scope        map[string]string
	}
	dictRange struct {
		From, To, Status string
		Versions         []string
	}
	dictRule struct {
		Field, When, Must, ErrorCode string
		Soft                         bool
	}
	dictCodes struct {
		Values map[string]struct {
			Meaning  string
			Versions []string
		}
		Ranges []dictRange
	}
)

func loadDictionary(t testing.TB) *dictionary {
	t.Helper()
	read := func(name string, to any) {
		data, err := os.ReadFile(filepath.Join("testdata", "dictionary", name))
		if err == nil {
			err = json.Unmarshal(data, to)
		}
		if err != nil {
			t.Fatal(name, err)
		}
	}
	var messages, types struct {
		Versions map[string]map[string]dictTable
	}
	var codes struct {
		Codes       map[string]dictCodes
		ExcludedISO struct {
			CurrencyNumeric, CurrencyAlpha []string
			CountryNumeric                 struct{ From, To string }
		}
	}
	read("messages.json", &messages)
	read("types.json", &types)
	read("codes.json", &codes)
	return &dictionary{messages: messages.Versions, types: types.Versions, codes: codes.Codes, excluded: codes.ExcludedISO}
}

// A deviation is a cell in which the tables differ from the dictionary on
// purpose.
type deviation struct{ cell, want, got, why string }

const (
	ownRules        = "real directories answer I on rules of their own: a rule of ours with a switch, and 80-99 count"
	noAddressRule   = "no address rule in 2.3.1"
	heldAgainst     = "ids and category of a result are held against the request"
	otherSystems    = "other systems have codes of their own"
	olderLists      = "older lists have them; no result is lost over it"
	serialAskedWith = "a PRes without ranges has to say the serial number that the PReq asked with"
)

var deviations = []deviation{
	{"2.2.0 ARes rule transStatus: transStatus == \"I\"", "dictionary's", "ours", ownRules},
	{"2.3.1 ARes rule transStatus: transStatus == \"I\"", "dictionary's", "ours", ownRules},
	{"2.3.1 merchantRiskIndicator.deliveryEmailAddress format", "email", "text", noAddressRule},
	{"2.1.0 RReq rule messageCategory: present(areq.messageCategory)", "-", "ours", heldAgainst},
	{"2.2.0 RReq rule messageCategory: present(areq.messageCategory)", "-", "ours", heldAgainst},
	{"2.3.1 RReq rule messageCategory: present(areq.messageCategory)", "-", "ours", heldAgainst},
	{"2.2.0 RReq rule sdkTransID: present(sdkTransID)", "-", "ours", heldAgainst},
	{"2.3.1 RReq rule sdkTransID: present(sdkTransID)", "-", "ours", heldAgainst},
	{"2.2.0 RRes rule sdkTransID: present(sdkTransID)", "-", "ours", heldAgainst},
	{"2.3.1 RRes rule sdkTransID: present(sdkTransID)", "-", "ours", heldAgainst},
	{"2.3.1 PRes.cardRangeData condition", "absent(cardRangeDataFileURL) and absent(preq.serialNum)",
		"absent(cardRangeDataFileURL) and serialNum != preq.serialNum", serialAskedWith},
	{"2.3.1 PRes.cardRangeData complete", "false", "true", serialAskedWith},
	{"2.1.0 RReq.challengeCancel values", "01 04 05 06 07 08", "01 02~ 03~ 04 05 06 07 08", olderLists},
	{"2.1.0 CReq.challengeCancel values", "01 04 05 06 07 08", "01 02~ 03~ 04 05 06 07 08", olderLists},
	{"list challengeCancel 2.1.0 values", "01 04 05 06 07 08", "01 02~ 03~ 04 05 06 07 08", olderLists},
	{"list errorCode 2.1.0 open", "false", "true", otherSystems},
	{"list errorCode 2.2.0 open", "false", "true", otherSystems},
	{"list errorCode 2.3.1 open", "false", "true", otherSystems},
}

// dictionaryTypes are those that the dictionary has; OReq and ORes it lacks.
var dictionaryTypes = []Type{AReq, ARes, RReq, RRes, PReq, PRes, Erro, CReq, CRes}

// operation are the objects and code lists of the messages that it lacks.
var operation = []string{"opSeq", "opPriorTransRef", "opCategory", "opSeverity", "opStatus", "transIdType"}

// amend puts the conditions of the deviations into the dictionary.
func (d *dictionary) amend() {
	for _, dev := range deviations {
		cell, ok := strings.CutSuffix(dev.cell, " condition")
		if !ok {
			continue
		}
		version, path, _ := strings.Cut(cell, " ")
		name, field, _ := strings.Cut(path, ".")
		for _, f := range d.messages[version][name].Fields {
			if f.Name == field {
				f.Condition.Expr = dev.got
			}
		}
	}
}

// The tables are compared with the field dictionary cell by cell.
func TestTablesAgreeWithTheDictionary(t *testing.T) {
	d := loadDictionary(t)
	c := &cells{t: t, open: make(map[string]deviation)}
	for _, dev := range deviations {
		c.open[dev.cell] = dev
	}
	for _, v := range Versions() {
		for _, typ := range dictionaryTypes {
			c.table(v, TableOf(typ, v), d.messages[v.String()][typ.String()])
		}
		c.check(v.String()+" objects", keys(d.types[v.String()]), c.objects(v))
		for name, want := range d.types[v.String()] {
			if got := ObjectTable(name, v); got != nil {
				c.table(v, got, want)
			}
		}
		c.lists(v, d.codes)
	}
	c.excluded(d)
	for cell := range c.open {
		t.Errorf("deviation %q: the tables agree with the dictionary there", cell)
	}
	slices.Sort(c.used)
	for _, line := range c.used {
		t.Log(line)
	}
	t.Logf("cells agreed %d / total %d, %d deliberate deviations", c.agreed, c.total, len(c.used))
}

// excluded asks for each ISO code that must not be used.
func (c *cells) excluded(d *dictionary) {
	for _, code := range d.excluded.CurrencyNumeric {
		c.check("currency "+code, ISOCode, Currency.check([]byte(code)))
	}
	for _, code := range d.excluded.CurrencyAlpha {
		c.check("currency "+code, ISOCode, CurrencyAlpha.check([]byte(code)))
	}
	from, to := numberOf([]byte(d.excluded.CountryNumeric.From)), numberOf([]byte(d.excluded.CountryNumeric.To))
	for n := from; n <= to; n++ {
		c.check(fmt.Sprint("country ", n), ISOCode, Country.check([]byte(strconv.Itoa(n))))
	}
}

type cells struct {
	t             *testing.T
	agreed, total int
	open          map[string]deviation
	used          []string
}

func (c *cells) check(cell string, want, got any) {
	c.t.Helper()
	c.total++
	w, g := fmt.Sprint(want), fmt.Sprint(got)
	if w == g {
		c.agreed++
		return
	}
	if dev, ok := c.open[cell]; ok && dev.want == w && dev.got == g {
		delete(c.open, cell)
		c.used = append(c.used, fmt.Sprintf("deviation: %s: %s, dictionary %s: %s", cell, g, w, dev.why))
		return
	}
	c.t.Errorf("%s: got %s, dictionary %s", cell, g, w)
}

func (c *cells) objects(v Version) string {
	var list []string
	for _, name := range ObjectNames() {
		if ObjectTable(name, v) != nil && !slices.Contains(operation, name) {
			list = append(list, name)
		}
	}
	return strings.Join(list, " ")
}

func keys[V any](m map[string]V) string { return strings.Join(slices.Sorted(maps.Keys(m)), " ") }

func (c *cells) table(v Version, got *Table, want dictTable) {
	var names, have []string
	for _, f := range want.Fields {
		names = append(names, f.Name)
		if row := got.Field(f.Name); row != nil {
			c.field(v, v.String()+" "+got.Name+"."+f.Name, row, f)
		}
	}
	for _, f := range got.Fields {
		have = append(have, f.Name)
	}
	at := v.String() + " " + got.Name
	c.check(at+" elements that one of the two lacks", without(names, have), without(have, names))
	c.rules(at, got.Rules, want.Rules)
}

// without returns the names that are not in others, sorted.
func without(names, others []string) []string {
	left := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
	slices.Sort(left)
	return left
}

var formatKinds = map[string]Kind{"numeric": Digits, "alphanum": Alnum, "uuid": UUID, "url": URL, "email": Email, "ip": IP, "base64": Base64,
	"base64url": Base64URL, "date": Date, "datetime": DateTime, "minute": Minute, "yymm": YearMonth, "country": Country, "currency": Currency,
	"currencyAlpha": CurrencyAlpha, "bcp47": Language, "enum": OneOf, "text": Text, "jws": JWS, "jwe": JWE, "version": Dotted,
	"tzoffset": Offset, "bool": Bool, "object": Object, "json": JSON}

func (c *cells) field(v Version, at string, f *Field, d dictField) {
	for _, ch := range Channels() {
		for _, cat := range Categories() {
			c.check(fmt.Sprintf("%s %s/%s", at, cat, ch), d.Inclusion[cat.String()][ch.String()], string(f.Need.At(ch, cat)))
		}
	}
	kind := f.Kind
	if kind == AppURL { // the dictionary has one word for both
		kind = URL
	}
	format := d.Format
	for name, k := range formatKinds {
		if k == kind {
			c.check(at+" format", format, name)
		}
	}
	typ := "string"
	switch {
	case f.Array:
		typ = "array"
	case f.Kind == Bool:
		typ = "boolean"
	case f.Kind == Object || f.Kind == JSON:
		typ = "object"
	}
	c.check(at+" type", d.Type, typ)
	c.check(at+" min", d.Min, f.Min)
	c.check(at+" max", d.Max, f.Max)
	c.check(at+" item min", d.ItemMin, f.ItemMin)
	c.check(at+" item max", d.ItemMax, f.ItemMax)
	c.check(at+" max chars", d.MaxChars, f.MaxChars)
	span := ""
	if f.Range != nil {
		span = fmt.Sprint([]int{f.Range.Min, f.Range.Max})
	}
	wantSpan := ""
	if d.Range != nil {
		wantSpan = fmt.Sprint(d.Range)
	}
	c.check(at+" range", wantSpan, span)
	alt := map[bool]string{true: "array"}[f.AltArray] + map[bool]string{true: "object"}[f.AltObject]
	c.check(at+" second type", d.AltType, alt)
	c.check(at+" nested table", d.ObjectOf+d.ItemsOf, f.Type)
	if f.Of != nil {
		c.check(at+" version of the nested table", v, f.Of.Version)
	}
	c.check(at+" leg", d.Leg, map[Leg]string{ToDS: "3DSS>DS", DSToACS: "DS>ACS", ACSToDS: "ACS>DS"}[f.Leg])
	if d.Format == "enum" {
		c.check(at+" list", d.Codes, f.List)
		c.check(at+" values", keys(d.Values), codeNames(f.Codes))
		c.check(at+" ranges", rangeNames(v, d.Ranges), rangesOf(f.Codes))
	}
	c.condition(at, f, d.Condition)
}

func (c *cells) condition(at string, f *Field, d *dictCondition) {
	if d == nil {
		c.check(at+" condition", "", f.When+f.Forbid)
		return
	}
	c.check(at+" condition", d.Expr, f.When)
	c.check(at+" complete", d.Complete, f.When != "" && !f.Partial)
	c.check(at+" else", d.Else, map[Else]string{Optional: "O", Absent: "-"}[f.Else])
	c.check(at+" forbid", d.Forbid, f.Forbid)
	c.check(at+" scope", d.Scope["PA"] == "expr" && d.Scope["NPA"] == "O", f.PAOnly)
}

func codeNames(c *Codes) string {
	var list []string
	for _, v := range c.Values {
		name := v.Value
		if v.Tolerated {
			name += "~"
		}
		list = append(list, name)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func rangesOf(c *Codes) string {
	var list []string
	for _, r := range c.Ranges {
		list = append(list, r.From+"-"+r.To+map[bool]string{true: " ds", false: " emvco"}[r.DS])
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func rangeNames(v Version, ranges []dictRange) string {
	var list []string
	for _, r := range ranges {
		if r.Versions == nil || slices.Contains(r.Versions, v.String()) {
			list = append(list, r.From+"-"+r.To+" "+r.Status)
		}
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func (c *cells) rules(at string, got []Rule, want []dictRule) {
	name := func(field, when string) string { return at + " rule " + field + ": " + when }
	ours := make(map[string]Rule)
	for _, r := range got {
		ours[name(r.Field, r.When)] = r
	}
	for _, d := range want {
		cell := name(d.Field, d.When)
		r, ok := ours[cell]
		delete(ours, cell)
		if !ok {
			c.check(cell, "dictionary's", "-")
			continue
		}
		if dev := c.open[cell]; dev.got == "ours" {
			c.check(cell, "dictionary's", "ours")
			continue
		}
		c.check(cell+" must", d.Must, r.Must)
		c.check(cell+" code", d.ErrorCode, r.Code)
		c.check(cell+" soft", d.Soft, r.Soft)
	}
	for cell := range ours {
		c.check(cell, "-", "ours")
	}
}

func (c *cells) lists(v Version, lists map[string]dictCodes) {
	if v == V210 {
		known := maps.Clone(codeLists)
		maps.DeleteFunc(known, func(name string, _ []code) bool { return slices.Contains(operation, name) })
		c.check("code lists", keys(lists), keys(known))
	}
	for name, d := range lists {
		meanings := make(map[string]string)
		for value, x := range d.Values {
			if slices.Contains(x.Versions, v.String()) {
				meanings[value] = x.Meaning
			}
		}
		if len(meanings) == 0 {
			continue
		}
		at := "list " + name + " " + v.String()
		got := codesFor(name, "", v)
		c.check(at+" values", keys(meanings), codeNames(got))
		c.check(at+" ranges", rangeNames(v, d.Ranges), rangesOf(got))
		c.check(at+" open", false, got.Open)
		for _, x := range got.Values {
			if !x.Tolerated {
				c.check(at+" meaning of "+x.Value, meanings[x.Value], x.Meaning)
			}
		}
	}
}
