package message

import (
	"bytes"
	"net/netip"
	"strconv"
	"strings"

	"github.com/openthreeds/threeds/internal/base/charset"
	"github.com/openthreeds/threeds/internal/base/iso"
)

// A Change is one correction that [Request.Normalise] made. What says in English what was
// done; it never quotes the value that the requestor sent.
type Change struct {
	Path Path
	What string
}

// Normalise corrects frequent slips of requestors whose meaning is certain, and returns what
// it changed: docs/api.md, R9, without the corrections that need a card range or a merchant.
// It does nothing if the request has no supported version, and leaves members alone that
// are not sent.
func (r *Request) Normalise() []Change {
	v, ok := r.Version()
	if !ok {
		return nil
	}
	n := newNormaliser(r, v)
	n.normaliseAcceptLanguage()
	n.normaliseObject(n.table, 0)
	n.normaliseState("billAddrState", "billAddrCountry")
	n.normaliseState("shipAddrState", "shipAddrCountry")
	n.completeAcquirer()
	return n.changes
}

// A normaliser holds the state of one call of Normalise. Its builder decides what is sent.
type normaliser struct {
	*builder
	changes []Change
}

// recordChange adds a change of a member, or of one item of it unless item is -1.
func (n *normaliser) recordChange(name string, item int, what string) {
	at := checker{path: n.path}
	at.reportItem(Format, name, item, "")
	n.changes = append(n.changes, Change{Path: at.problems[0].Path, What: what})
}

// normaliseObject normalises the members of an object that are sent.
func (n *normaliser) normaliseObject(t *Table, object uint32) {
	base := len(n.checker.members)
	s := n.findScope(t, object)
	nodes := n.m.nodes
	for i := object + 1; i < nodes[object].next; i = nodes[i].next {
		if nodes[i].name >= maxNames {
			continue
		}
		row := t.row(uint16(nodes[i].name))
		if row < 0 || s.members[row] != i {
			continue
		}
		if f := &t.Fields[row]; !f.isOnlyForCondition() || n.isConditionMet(f, s) {
			n.normaliseValue(f, i)
		}
	}
	n.checker.members = n.checker.members[:base]
}

// normaliseValue normalises a value and all values inside it.
func (n *normaliser) normaliseValue(f *Field, i uint32) {
	kind := n.m.nodes[i].kind
	switch {
	case kind == jsonString && !f.Array && (f.Kind == Country || f.Kind == Currency || f.Kind == IP ||
		f.hasZerosInFront() || normalisedTexts[f.Name]):
		n.normaliseText(f, i)
	case kind == jsonString && f.isIdentifier():
		n.trim(f, i)
	case kind == jsonString && !f.Array && !n.r.isPlain && textsOfOneLine[f.Name]:
		n.removeLineBreaks(f, i)
	case f.Of != nil:
		n.eachObject(f, i, func(object uint32) { n.normaliseObject(f.Of, object) })
	}
	isSingle := kind == jsonString && f.Kind.isText() || kind == jsonObject && f.Kind == Object
	if _, edited := n.r.edits[i]; isSingle && f.Array && n.version >= V231 && !edited && n.isAnythingSent(f, i) {
		n.r.setEdit(i, edit{wrap: true})
		n.recordChange(f.Name, -1, "made an array")
	}
}

// isAnythingSent reports whether a value is sent, at least in part.
func (n *normaliser) isAnythingSent(f *Field, i uint32) bool {
	start := len(n.out)
	isWritten := n.builder.writeValue(f, i, -1)
	n.out = n.out[:start]
	return isWritten
}

// normalisedTexts are the strings that normaliseText may change, besides countries and currencies.
var normalisedTexts = map[string]bool{
	"browserColorDepth": true, "browserLanguage": true, "browserTZ": true, "browserAcceptHeader": true,
	"browserUserAgent": true,
	"cc":               true,
}

// textsOfOneLine are the names and the parts of addresses in which a line break is a slip.
var textsOfOneLine = map[string]bool{
	"cardholderName": true, "merchantName": true, "threeDSRequestorName": true, "merchantNameListed": true,
	"sellerName": true, "sellerBusinessName": true,
	"billAddrLine1": true, "billAddrLine2": true, "billAddrLine3": true, "billAddrCity": true,
	"shipAddrLine1": true, "shipAddrLine2": true, "shipAddrLine3": true, "shipAddrCity": true,
	"sellerAddrLine1": true, "sellerAddrLine2": true, "sellerAddrLine3": true, "sellerAddrCity": true,
}

// lineBreaks writes each line break and each tab as one blank.
var lineBreaks = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\t", " ")

// removeLineBreaks writes a blank for each line break and tab in a name or an address.
func (n *normaliser) removeLineBreaks(f *Field, i uint32) {
	if _, edited := n.r.edits[i]; edited {
		return
	}
	old := string(n.m.text(i, nil))
	if text := lineBreaks.Replace(old); text != old {
		n.r.setEdit(i, edit{text: quote(text)})
		n.recordChange(f.Name, -1, "a line break or tab became a blank")
	}
}

// normaliseText normalises a string.
func (n *normaliser) normaliseText(f *Field, i uint32) {
	if n.isOrdinary(f, i) {
		return
	}
	old := string(n.m.text(i, nil))
	if e, ok := n.r.edits[i]; ok {
		old = unquoted(e.text)
	}
	text, what := old, ""
	switch {
	case f.Kind == Country || f.Kind == Currency:
		text, what = numericCode(f.Kind, old)
	case f.Kind == IP && n.version < V231:
		text, what = fullAddress(old), "written in full"
	case f.Name == "cc":
		if digits, ok := strings.CutPrefix(old, "+"); ok && allDigits([]byte(digits)) {
			text, what = digits, "without the +"
		}
	case f.Name == "browserColorDepth" && f.Kind == OneOf:
		text = lowerDepth(f, old)
		what = "lowered to " + text
	case f.Name == "browserLanguage":
		hyphened := withHyphens(old)
		text, what = firstLanguage(hyphened, f.Max), "cut to the first tag, or a part of it"
		if text == hyphened {
			what = "written with hyphens"
		}
	case f.Name == "browserTZ":
		text, what = trimOffset(old), "tidied"
	case f.hasZerosInFront():
		text, what = padded(old, f.Min), "padded to "+strconv.Itoa(f.Min)+" digits"
	case f.Name == "browserAcceptHeader", f.Name == "browserUserAgent":
		n.normaliseHeader(f, i, old)
		return
	}
	if text != old {
		n.r.setEdit(i, edit{text: quote(text)})
		n.recordChange(f.Name, -1, what)
	}
}

// normaliseHeader writes a header of a browser in the characters that the version has, for no requestor chooses what a
// browser sends, and cuts one that is too long.
func (n *normaliser) normaliseHeader(f *Field, i uint32, old string) {
	text := charset.Replace(old, charactersOf(n.version))
	if text != old {
		what := "written in the characters that a text may have"
		if n.version < V231 && charset.Find(old, charset.Unicode) == charset.Allowed {
			what = "written in ASCII"
		}
		n.recordChange(f.Name, -1, what)
	}
	if short := truncate(text, f.Max); short != text {
		text = short
		n.recordChange(f.Name, -1, "cut to "+strconv.Itoa(f.Max)+" characters")
	}
	if text != old {
		n.r.setEdit(i, edit{text: quote(text)})
	}
}

// isOrdinary reports at little cost that a string is nothing that normaliseText changes.
func (n *normaliser) isOrdinary(f *Field, i uint32) bool {
	if _, edited := n.r.edits[i]; edited || n.m.nodes[i].flags&escaped != 0 {
		return false
	}
	text := n.m.text(i, nil)
	switch f.Kind {
	case Country, Currency:
		return len(text) == 3 && allDigits(text)
	case Digits:
		return f.hasZerosInFront() && len(text) >= f.Min
	case IP:
		return n.version >= V231 || bytes.IndexByte(text, ':') < 0
	case Text:
		return len(text) <= f.Max && (n.r.isPlain || allBytes(text, func(c byte) bool { return c >= ' ' && c <= '~' }))
	}
	return false
}

// numericCode returns a country or a currency as the three digits that its kind asks for, and
// what was done. A code that is in no table is returned as it is.
func numericCode(k Kind, code string) (numeric, what string) {
	if text := padded(code, 3); text != code {
		return text, "padded to 3 digits"
	}
	if !allBytes([]byte(code), isAlpha) {
		return code, ""
	}
	letters, ok := strings.ToUpper(code), false
	switch {
	case k == Currency:
		numeric, _, ok = iso.CurrencyAlpha(letters)
	case len(letters) == 2:
		numeric, ok = iso.CountryAlpha2(letters)
	default:
		numeric, ok = iso.CountryAlpha3(letters)
	}
	if !ok {
		return code, ""
	}
	return numeric, "written in digits"
}

// padded returns digits with zeros in front, so that there are at least n. All else is returned as it is.
func padded(digits string, n int) string {
	if len(digits) >= n || !allDigits([]byte(digits)) {
		return digits
	}
	return strings.Repeat("0", n-len(digits)) + digits
}

// hasZerosInFront reports whether an element is a number that is always written with the same number of digits.
func (f *Field) hasZerosInFront() bool {
	return f.Kind == Digits && f.Range != nil && f.Min > 1 && f.Min == f.Max && !f.Array
}

// fullAddress returns an IPv6 address as eight groups of four digits, and the IPv4 address of
// one that stands for such. All else is returned as it is.
func fullAddress(text string) string {
	a, err := netip.ParseAddr(text)
	switch {
	case err != nil || a.Zone() != "" || a.Is4():
		return text
	case a.Is4In6():
		return a.Unmap().String()
	}
	return a.StringExpanded()
}

// withHyphens returns a language tag, or a list of such tags with weights, with hyphens in place of
// underscores.
func withHyphens(tags string) string { return strings.ReplaceAll(tags, "_", "-") }

// normaliseState writes a state in capital letters, and without a prefix that is its country.
func (n *normaliser) normaliseState(name, country string) {
	i := n.r.find(name)
	if i == 0 || n.m.nodes[i].kind != jsonString || !n.isDefined(name) {
		return
	}
	old := n.r.Text(name)
	if allBytes([]byte(old), func(c byte) bool { return isUpper(c) || isDigit(c) }) {
		return
	}
	text, what := strings.ToUpper(old), "written in capitals"
	if letters, ok := iso.CountryLetters(n.r.Text(country)); ok {
		if state, ok := strings.CutPrefix(text, letters+"-"); ok && state != "" {
			text, what = state, "written without its country"
		}
	}
	if text == old || !allBytes([]byte(old), func(c byte) bool { return isAlnum(c) || c == '-' }) {
		return
	}
	n.r.setEdit(i, edit{text: quote(text)})
	n.recordChange(name, -1, what)
}

// lowerDepth returns the largest listed colour depth that is not above depth.
func lowerDepth(f *Field, depth string) string {
	if !allDigits([]byte(depth)) {
		return depth
	}
	best, limit := -1, numberOf([]byte(depth))
	for _, c := range f.Codes.Values {
		if listed := numberOf([]byte(c.Value)); listed <= limit && listed > best {
			best = listed
		}
	}
	if best < 0 {
		return depth
	}
	return strconv.Itoa(best)
}

// trimOffset returns a number of minutes without a plus sign and leading zeros.
func trimOffset(s string) string {
	digits, negative := s, false
	if s != "" && (s[0] == '+' || s[0] == '-') {
		digits, negative = s[1:], s[0] == '-'
	}
	if !allDigits([]byte(digits)) {
		return s
	}
	digits = strings.TrimLeft(digits, "0")
	switch {
	case digits == "":
		return "0"
	case negative:
		return "-" + digits
	}
	return digits
}

// completeAcquirer sets the elements about the acquirer that 2.3.1 requires. A merchantCountryCode that is wrong is not
// taken. It is a fault itself, and the acquirer's code would not be missing without it: a placeholder stands there.
func (n *normaliser) completeAcquirer() {
	const code, source = "acquirerCountryCode", "acquirerCountryCodeSource"
	if country := n.r.Text("merchantCountryCode"); country != "" && n.isDefined(code) && !n.r.Has(code) {
		if iso.Country(country) {
			n.r.Set(code, country)
			n.recordChange(code, -1, "taken from merchantCountryCode")
		} else {
			n.r.SetPlaceholder(code, []byte(`"826"`))
		}
	}
	if n.isDefined(source) && !n.r.Has(source) {
		n.r.Set(source, "01")
		n.recordChange(source, -1, "set to 01")
	}
}

// isDefined reports whether the AReq may have a member.
func (n *normaliser) isDefined(name string) bool {
	row := n.table.row(names.ids[name])
	return row >= 0 && n.isSent(n.table, row)
}

// quotedList returns texts as a JSON array.
func quotedList(texts []string) []byte {
	out := []byte{'['}
	for i, text := range texts {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, quote(text)...)
	}
	return append(out, ']')
}
