// Package faults says what is wrong with a request so that a program can act on it: where, by which rule, what
// would be right, and what to do. Use [Explain] for the problems that package message finds.
//
// No entry quotes a value of the request.
package faults

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/base/iso"
	"github.com/openthreeds/threeds/message"
)

// pointers writes the parts of a path as JSON pointers have them.
var pointers = strings.NewReplacer("~", "~0", "/", "~1", ".", "/", "[", "/", "]", "")

// Pointer returns a path as a JSON pointer (RFC 6901).
func Pointer(p message.Path) string {
	if p == "" {
		return ""
	}
	return "/" + pointers.Replace(string(p))
}

// PrintableName returns the name of an unknown member or parameter if it has the form of a name, and "" otherwise. A
// card number may be in the place of a name, and no answer, log line or journal may repeat it.
func PrintableName(name string) string {
	digits := 0
	for i, r := range name {
		switch isLetter := 'a' <= r|0x20 && r|0x20 <= 'z'; {
		case isLetter:
		case i == 0:
			return ""
		case '0' <= r && r <= '9':
			digits++
		case r != '_' && r != '-':
			return ""
		}
	}
	if len(name) > 64 || digits > 5 {
		return ""
	}
	return name
}

// TypeOf returns what may be said of a value of another type than is wanted: its type.
func TypeOf(raw []byte) *api.Found {
	if len(raw) == 0 {
		return nil
	}
	return &api.Found{Type: typeOf(raw)}
}

// New returns an entry without limit and source.
func New(code message.Code, path message.Path, rule, cure string) api.Fault {
	pointer := Pointer(path)
	return api.Fault{Pointer: &pointer, Code: code.String(), Rule: rule, Cure: cure}
}

// A Subject is the message that problems are about.
type Subject struct {
	Version message.Version
	// Value returns the JSON text of the value at a path, nil if there is none.
	Value func(path message.Path) []byte
	// Versions are those that the card can be used with.
	Versions []message.Version
	// CanTransliterate says that the server would write names and addresses in ASCII if the merchant's configuration asked
	// for it. It does not ask for it now.
	CanTransliterate bool
	// HasProfile says that what the message lacks is taken from the merchant's profile.
	HasProfile bool
}

// profileKeys are the settings of a merchant by the element that they fill in, as `threeds merchant set` and the
// configuration name them. In front of those that a scheme may know by another value stands per_directory.
var profileKeys = map[string]string{
	"acquirerBIN": "per_directory.SCHEME.acquirer_bin", "acquirerMerchantID": "per_directory.SCHEME.acquirer_merchant_id",
	"threeDSRequestorID": "requestor_id", "threeDSRequestorName": "requestor_name", "threeDSRequestorURL": "requestor_url",
	"merchantName": "merchant_name", "mcc": "mcc", "merchantCountryCode": "merchant_country",
}

// Explain returns the entry of a problem of an AReq.
func Explain(p message.Problem, s Subject) api.Fault {
	f := rowOf(message.TableOf(message.AReq, s.Version), p.Path)
	e := New(p.Code, p.Path, "", "")
	if f != nil {
		e.Source = api.Text("EMV 3DS " + s.Version.String() + ", annex A")
	}
	name := string(p.Path)
	switch p.Code {
	case message.Missing:
		e.Rule, e.Cure = "required", "Send "+name+describeRow(f)+"."
		if key := profileKeys[name]; s.HasProfile && key != "" {
			e.Cure = "Send " + name + describeRow(f) + ", or set " + key + " in the merchant's profile once."
		}
		if f != nil && strings.Contains(string(f.Need), "C") && !strings.Contains(string(f.Need), "R") {
			e.Rule = "condition"
			e.Cure = "Send " + name + describeRow(f) + ": other elements of this request make it required."
		}
	case message.UnsupportedVersion:
		e.Rule, e.Limit = "version", &api.Limit{Allowed: []string{}}
		for _, v := range s.Versions {
			e.Limit.Allowed = append(e.Limit.Allowed, v.String())
		}
		e.Cure = "Send one of the versions that the card can be used with, or leave messageVersion out."
	case message.Duplicate:
		e.Rule, e.Cure = "duplicate-member", "Send "+name+" once."
	case message.CriticalExtension:
		e.Rule, e.Cure = "unknown-code", "Leave this critical extension out, or have the server configured for its id."
	default:
		explainValue(&e, f, p, s)
	}
	return e
}

// rowOf returns the row of the element at a path, nil if there is none.
func rowOf(t *message.Table, p message.Path) *message.Field {
	var f *message.Field
	for name := range strings.SplitSeq(p.Name(), ".") {
		if f = t.Field(name); f == nil {
			return nil
		}
		t = f.Of
	}
	return f
}

// describeRow returns what an element means, in brackets.
func describeRow(f *message.Field) string {
	if f == nil || f.Doc == "" {
		return ""
	}
	return " (" + f.Doc + ")"
}

// explainValue sets the rule of a value that is there and wrong.
func explainValue(e *api.Fault, f *message.Field, p message.Problem, s Subject) {
	raw := s.Value(p.Path)
	e.Rule = "condition"
	e.Cure = "Send " + string(p.Path) + describeRow(f) + " as the other elements of this request ask for, or leave it out."
	if len(raw) == 0 || f == nil {
		if f == nil {
			e.Rule, e.Cure = "pattern", "Send a value that "+string(p.Path)+" may have."
		}
		return
	}
	isItem := strings.HasSuffix(string(p.Path), "]")
	e.Found = &api.Found{Type: typeOf(raw)}
	if want := wantedType(f, isItem); want != e.Found.Type {
		e.Rule, e.Cure = "type", "Send "+string(p.Path)+" as "+describeType(f, want)+"."
		if form := formOf(f); form != "" && want == "string" {
			e.Cure = "Send " + string(p.Path) + " as a string: " + form + "."
		}
		return
	}
	switch e.Found.Type {
	case "array":
		explainArray(e, f, raw, s)
	case "string":
		explainText(e, f, raw, isItem, s)
	case "object":
		if n := len(raw); f.Max > 0 && n > f.Max {
			setLength(e, 0, f.Max, utf8.RuneCount(raw), "characters")
		}
	}
}

// typeOf returns the type of a JSON text.
func typeOf(raw []byte) string {
	switch raw[0] {
	case '"':
		return "string"
	case '[':
		return "array"
	case '{':
		return "object"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// wantedType returns the type that a row asks for.
func wantedType(f *message.Field, isItem bool) string {
	switch {
	case f.Array && !isItem:
		return "array"
	case f.Kind == message.Bool:
		return "boolean"
	case f.Kind == message.Object, f.Kind == message.JSON:
		return "object"
	case f.Kind == message.Number:
		return "number"
	}
	return "string"
}

func withArticle(noun string) string {
	if strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

// describeType returns the words for a type in a sentence. For an object with known members it names them, with an
// example.
func describeType(f *message.Field, want string) string {
	text, before, after := withArticle(want), "", ""
	if want == "array" {
		text += " of " + wantedType(f, true) + "s"
		before, after = "[", "]"
	}
	if f.Of == nil || want != "object" && want != "array" {
		return text
	}
	if want == "array" {
		text += ", each"
	}
	switch required, others := membersOf(f); {
	case len(required) == 0:
		text += " with one or more of " + joinNames(others)
	case len(others) == 0:
		text += " with " + joinNames(required)
	default:
		text += " with " + joinNames(required) + ", and where it applies " + joinNames(others)
	}
	if example := exampleOf(f); example != "" {
		text += ", such as " + before + example + after
	}
	return text
}

// membersOf returns the names of the members of an object that a requestor may send: those that are always
// required, and the others.
func membersOf(f *message.Field) (required, others []string) {
	for i := range f.Of.Fields {
		switch m := &f.Of.Fields[i]; {
		case m.DS:
		case isRequired(m):
			required = append(required, m.Name)
		default:
			others = append(others, m.Name)
		}
	}
	return required, others
}

// isRequired reports whether a member is required in each column of its table.
func isRequired(f *message.Field) bool { return !strings.ContainsAny(string(f.Need), "CO-") }

// joinNames returns names as they stand in a sentence.
func joinNames(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// examples are values of elements whose kind does not say enough.
var examples = map[string]string{
	"cc": "45", "subscriber": "12345678", "merchantNameListed": "Corner Shop", "sellerName": "Corner Shop",
}

// exampleOf returns an object in JSON, with the members that are required, or else with one. It returns "" if only the
// requestor can know a value.
func exampleOf(f *message.Field) string {
	required, others := membersOf(f)
	var members []string
	for _, name := range required {
		value := exampleValue(f.Of.Field(name))
		if value == "" {
			return ""
		}
		members = append(members, fmt.Sprintf("%q: %s", name, value))
	}
	for _, name := range others {
		if value := exampleValue(f.Of.Field(name)); value != "" && len(members) == 0 {
			members = append(members, fmt.Sprintf("%q: %s", name, value))
		}
	}
	if len(members) == 0 {
		return ""
	}
	return "{" + strings.Join(members, ", ") + "}"
}

// exampleValue returns a value of an element in JSON, "" if only the requestor can know one.
func exampleValue(f *message.Field) (value string) {
	switch {
	case f.Of != nil:
		value = exampleOf(f)
	case examples[f.Name] != "":
		value = `"` + examples[f.Name] + `"`
	case f.Codes != nil:
		value = `"` + f.Codes.Values[0].Value + `"`
	}
	if f.Array && value != "" {
		value = "[" + value + "]"
	}
	return value
}

// explainArray sets the rule of an array that has too many or too few items, or a wrong one.
func explainArray(e *api.Fault, f *message.Field, raw []byte, s Subject) {
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return
	}
	n := len(items)
	e.Found.Length = &n
	if f.Min > 0 && n < f.Min || f.Max > 0 && n > f.Max || n == 0 {
		setLength(e, max(f.Min, 1), f.Max, n, "items")
		return
	}
	for _, item := range items {
		if typeOf(item) != wantedType(f, true) {
			e.Rule, e.Cure = "type", "Send each item as "+describeType(f, wantedType(f, true))+"."
			return
		}
		if typeOf(item) != "string" {
			continue
		}
		if explainText(e, f, item, true, s); e.Rule != "condition" {
			return
		}
	}
}

// setLength sets the rule of something too long or too short.
func setLength(e *api.Fault, least, most, n int, unit string) {
	e.Rule, e.Limit = "length", &api.Limit{}
	if e.Found == nil {
		e.Found = &api.Found{}
	}
	e.Found.Length = &n
	if least > 0 {
		e.Limit.Min = &least
	}
	if most > 0 {
		e.Limit.Max = &most
	}
	switch {
	case least > 0 && least == most:
		e.Cure = fmt.Sprintf("Send exactly %d %s.", least, unit)
	case least > 0 && most > 0:
		e.Cure = fmt.Sprintf("Send %d to %d %s.", least, most, unit)
	case most > 0:
		e.Cure = fmt.Sprintf("Send at most %d %s.", most, unit)
	default:
		e.Cure = fmt.Sprintf("Send at least %d %s.", least, unit)
	}
}

// datePattern is how a date begins.
const datePattern = `^[0-9]{4}(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])`

// patterns are the forms of kinds.
var patterns = map[message.Kind]*regexp.Regexp{
	message.Digits:        regexp.MustCompile(`^[0-9]+$`),
	message.Alnum:         regexp.MustCompile(`^[0-9A-Za-z]+$`),
	message.UUID:          regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`),
	message.Base64:        regexp.MustCompile(`^[0-9A-Za-z+/]+={0,2}$`),
	message.Base64URL:     regexp.MustCompile(`^[0-9A-Za-z_-]+={0,2}$`),
	message.Date:          regexp.MustCompile(datePattern + `$`),
	message.DateTime:      regexp.MustCompile(datePattern + `([01][0-9]|2[0-3])([0-5][0-9]){2}$`),
	message.Minute:        regexp.MustCompile(datePattern + `([01][0-9]|2[0-3])[0-5][0-9]$`),
	message.YearMonth:     regexp.MustCompile(`^[0-9]{2}(0[1-9]|1[0-2])$`),
	message.Country:       regexp.MustCompile(`^[0-9]{3}$`),
	message.Currency:      regexp.MustCompile(`^[0-9]{3}$`),
	message.CurrencyAlpha: regexp.MustCompile(`^[A-Z]{3}$`),
	message.Language:      regexp.MustCompile(`^[0-9A-Za-z]+(-[0-9A-Za-z]+)*$`),
	message.Dotted:        regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+$`),
	message.Offset:        regexp.MustCompile(`^[+-]?[0-9]+$`),
	message.JWS:           regexp.MustCompile(`^[0-9A-Za-z_-]+(\.[0-9A-Za-z_-]*){2}$`),
	message.JWE:           regexp.MustCompile(`^[0-9A-Za-z_-]+(\.[0-9A-Za-z_-]*){4}$`),
}

// forms say of kinds, in words, what a value looks like.
var forms = map[message.Kind]string{
	message.Date:      "year, month and day, as YYYYMMDD",
	message.DateTime:  "date and time in UTC, as YYYYMMDDHHMMSS",
	message.Minute:    "date and time in UTC, as YYYYMMDDHHMM",
	message.YearMonth: "year and month, as YYMM",
	message.Country:   "the three digits of ISO 3166-1, such as 826 for the United Kingdom",
	message.Currency:  "the three digits of ISO 4217, such as 978 for the euro",
}

// formOf says what a value of an element looks like; "" where length and characters say it.
func formOf(f *message.Field) string {
	if strings.Contains(f.Doc, "amount in minor units") {
		return "digits alone, in minor units of the currency, such as 1099 for 10.99"
	}
	if f.Range != nil && f.Min > 1 && f.Min == f.Max {
		return fmt.Sprintf("%d digits with zeros in front, from %0*d to %d", f.Min, f.Min, f.Range.Min, f.Range.Max)
	}
	if strings.Contains(f.Doc, "ISO 3166-2") {
		return "the code of the subdivision in ISO 3166-2, without its country, such as CA for California"
	}
	return forms[f.Kind]
}

// explainText sets the rule of a string.
func explainText(e *api.Fault, f *message.Field, raw []byte, isItem bool, s Subject) {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		e.Rule, e.Cure = "control-character", "Send characters of Unicode only."
		return
	}
	least, most := f.Min, f.Max
	if isItem && f.Array {
		least, most = f.ItemMin, f.ItemMax
	}
	n := utf8.RuneCountInString(text)
	class := classOf(text)
	// The list of codes says more than the length of a wrong one.
	isCode := f.Kind == message.OneOf && f.Codes != nil && n > 0
	switch pattern := patterns[f.Kind]; {
	case isCountryWord(f, text):
		e.Rule, e.Cure = "unknown-code", "Send a country of ISO 3166-1 that is in use, by its three digits or two letters."
	case class == "control":
		e.Rule, e.Cure = "control-character", "Leave control characters out."
	case !isCode && (n == 0 || least > 0 && n < least || most > 0 && n > most):
		setLength(e, max(least, 1), most, n, "characters")
		switch form := formOf(f); {
		case form == "":
		case least == most:
			e.Cure = "Send " + form + "."
		default:
			e.Cure = strings.TrimSuffix(e.Cure, ".") + ": " + form + "."
		}
	case isCode:
		var allowed []string
		for _, c := range f.Codes.Values {
			if !c.Tolerated {
				allowed = append(allowed, c.Value)
			}
		}
		if isReserved(f.Codes, text) {
			e.Rule, e.Limit, e.Cure = "reserved-code", &api.Limit{Allowed: allowed},
				"Send a code that has a meaning: this one is reserved."
			break
		}
		if slices.Contains(allowed, text) {
			return // the code exists, so a condition does not allow it
		}
		e.Rule, e.Limit, e.Cure = "unknown-code", &api.Limit{Allowed: allowed}, "Send one of the codes that are allowed."
	case class == "non-ascii" && s.Version < message.V231:
		e.Rule, e.Cure = "not-ascii", "Send ASCII."
		if s.CanTransliterate && message.IsTransliterated(f.Name) {
			e.Cure = "Send ASCII, or have the merchant configured with transliterate."
		}
	case f.Kind == message.URL, f.Kind == message.AppURL, f.Kind == message.Email, f.Kind == message.IP:
		e.Rule, e.Cure = "address", "Send a valid "+f.Kind.String()+"."
		if f.HTTPS {
			e.Cure = "Send a URL that begins with https:// and has a host."
		}
	case pattern != nil && !pattern.MatchString(text):
		e.Rule, e.Limit, e.Cure = "pattern", &api.Limit{Pattern: pattern.String()},
			"Send "+cmp.Or(formOf(f), f.Kind.String())+"."
	case f.Kind == message.Country && "901" <= text && text <= "999",
		f.Kind == message.Currency && iso.IsExcludedCurrency(text):
		e.Rule, e.Cure = "excluded-code", "Send a "+f.Kind.String()+": EMV 3DS excludes this code."
	case f.Kind == message.Country, f.Kind == message.Currency, f.Kind == message.CurrencyAlpha:
		e.Rule, e.Cure = "unknown-code", "Send a "+f.Kind.String()+", that is in use."
	case f.Range != nil:
		e.Rule, e.Limit = "range", &api.Limit{Min: &f.Range.Min, Max: &f.Range.Max}
		e.Cure = fmt.Sprintf("Send a number from %d to %d.", f.Range.Min, f.Range.Max)
	case strings.TrimSpace(text) != text:
		e.Rule, e.Limit, e.Cure = "pattern", &api.Limit{Pattern: `^\S(.*\S)?$`}, "Leave the blanks around it off."
	}
	e.Found = &api.Found{Type: "string", Length: &n, Class: class}
}

// isReserved reports whether a code is in a range that EMVCo has reserved.
func isReserved(codes *message.Codes, code string) bool {
	return slices.ContainsFunc(codes.Ranges, func(r message.CodeRange) bool {
		return !r.DS && len(code) == len(r.From) && r.From <= code && code <= r.To
	})
}

// isCountryWord reports whether a text has the form of the two letters of a country, which are
// taken for its three digits.
func isCountryWord(f *message.Field, text string) bool {
	return f.Kind == message.Country && len(text) == 2 && classOf(text) == "letters"
}

// classOf returns what kind of characters a text has.
func classOf(text string) string {
	has := func(is func(rune) bool) bool { return strings.ContainsFunc(text, is) }
	switch {
	case text == "":
		return ""
	case has(func(r rune) bool { return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) }):
		return "control"
	case has(func(r rune) bool { return r > unicode.MaxASCII }):
		return "non-ascii"
	case !has(func(r rune) bool { return r < '0' || r > '9' }):
		return "digits"
	case !has(func(r rune) bool { return !unicode.IsLetter(r) }):
		return "letters"
	}
	return "printable"
}
