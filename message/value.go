package message

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/openthreeds/threeds/internal/base/browserurl"
	"github.com/openthreeds/threeds/internal/base/iso"
)

// checkValue checks a value that is present and not empty.
func (c *checker) checkValue(f *Field, i uint32) {
	if f.plain && c.m.nodes[i].kind == jsonString {
		if code := c.plainTextFault(f, c.m.text(i, nil)); code != 0 {
			c.report(code, f.Name)
		}
		return
	}
	if f.Array {
		c.checkArray(f, i)
		return
	}
	switch kind := c.m.nodes[i].kind; {
	case kind == jsonArray && f.AltArray:
		for n, j := 0, i+1; j < c.m.nodes[i].next; n, j = n+1, c.m.nodes[j].next {
			if c.m.nodes[j].kind != jsonString {
				c.reportItem(Format, f.Name, n, "")
			} else {
				c.checkString(f, j, n, f.Min, f.Max)
			}
		}
		c.reportEqualItems(f, i)
	case kind == jsonObject && (f.AltObject || f.Kind == JSON || f.Kind == Object):
		if !c.fitsIn(i, f.Max) {
			c.report(Format, f.Name)
		}
		if f.Kind == Object {
			c.checkNested(f, i, -1)
		}
	case kind == jsonBool && f.Kind == Bool, kind == jsonNumber && f.Kind == Number:
	case kind == jsonString && f.Kind.isText():
		c.checkString(f, i, -1, f.Min, f.Max)
	default:
		c.report(Format, f.Name)
	}
}

// checkNested checks an object that has a table of its own.
func (c *checker) checkNested(f *Field, i uint32, item int) {
	c.path = append(c.path, step{f.Name, item})
	c.checkObject(f.Of, i)
	c.path = c.path[:len(c.path)-1]
}

// checkArray checks a value of a row that requires an array.
func (c *checker) checkArray(f *Field, i uint32) {
	nodes := c.m.nodes
	if nodes[i].kind != jsonArray {
		c.report(Format, f.Name)
		return
	}
	n := 0
	for j := i + 1; j < nodes[i].next; j = nodes[j].next {
		switch {
		case f.Kind == Object && nodes[j].kind == jsonObject:
			c.checkNested(f, j, n)
		case f.Kind == JSON && nodes[j].kind == jsonObject:
		case f.Kind.isText() && nodes[j].kind == jsonString:
			c.checkString(f, j, n, f.ItemMin, f.ItemMax)
		default:
			c.reportItem(Format, f.Name, n, "")
		}
		n++
	}
	if n < f.Min || f.Max > 0 && n > f.Max || !c.fitsIn(i, f.MaxChars) {
		c.report(Format, f.Name)
	}
	if n > 1 {
		c.reportEqualItems(f, i)
	}
}

// reportEqualItems reports items that are equal to an earlier one. Versions before 2.3.1
// allow them. Strings are compared without their escape sequences, also in objects; apart
// from that, objects are compared by their JSON text without white space.
func (c *checker) reportEqualItems(f *Field, array uint32) {
	if c.version < V231 {
		return
	}
	seen := make(map[string]struct{})
	for k, j := 0, array+1; j < c.m.nodes[array].next; k, j = k+1, c.m.nodes[j].next {
		item := c.m.raw(j)
		if bytes.IndexByte(item, '\\') >= 0 || item[0] != '"' && bytes.ContainsAny(item, " \t\r\n") {
			// AppendFormat removes white space and escape sequences that are not needed.
			item, _ = jsontext.AppendFormat(nil, item, decoderOptions)
		}
		if _, ok := seen[string(item)]; ok {
			c.reportItem(Duplicate, f.Name, k, "")
		}
		seen[string(item)] = struct{}{}
	}
}

// plainTextFault is textFault for rows where only length and form matter (Field.plain). Most rows are of that sort.
func (c *checker) plainTextFault(f *Field, b []byte) Code {
	if f.Kind == OneOf {
		return f.Codes.check(b, c.version)
	}
	n := len(b)
	if !f.ascii && (f.Min > 1 || f.Max > 0 && n > f.Max) {
		n = utf8.RuneCount(b)
	}
	if n < f.Min || f.Max > 0 && n > f.Max {
		return Format
	}
	return f.Kind.check(b)
}

// checkString checks a string that is a member or, unless item is -1, an item of one. It
// must have from lo to hi characters; hi 0 means no limit.
func (c *checker) checkString(f *Field, i uint32, item, lo, hi int) {
	switch code := c.textFault(f, i, lo, hi); code {
	case 0:
	case UnsupportedVersion:
		c.reportItem(code, f.Name, item, versionList(allVersions)+" (card range data)")
	default:
		c.reportItem(code, f.Name, item, "")
	}
}

// textFault returns the code of the problem that a string has, or 0.
func (c *checker) textFault(f *Field, i uint32, lo, hi int) Code {
	b := c.m.text(i, nil)
	if f.Kind == Base64 {
		b = withoutSpace(b)
	}
	if f.Kind == OneOf {
		return f.Codes.check(b, c.version)
	}
	n := utf8.RuneCount(b)
	switch {
	case n < lo, hi > 0 && n > hi:
		return Format
	case f.Range != nil && !(allDigits(b) && isInRange(b, f.Range.Min, f.Range.Max)):
		return Format
	case f.SupportedVersion && isDotted(b) && !isKnownVersion(b):
		return UnsupportedVersion
	case f.Kind == URL && c.table.Type == AReq && !isSendable(b):
		return Format
	case f.Browser && browserurl.Policy{Lab: c.ctx.Lab}.Check(string(b)) != nil:
		return Format
	case f.HTTPS && !hasScheme(b, "https") && !(c.ctx.Loopback && isLoopback(b)):
		return Format
	}
	return f.Kind.check(b)
}

func isKnownVersion(b []byte) bool {
	_, ok := ParseVersion(string(b))
	return ok
}

// withoutSpace returns b without white space.
func withoutSpace(b []byte) []byte {
	if !bytes.ContainsAny(b, " \t\r\n") {
		return b
	}
	return bytes.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\r\n", r) {
			return -1
		}
		return r
	}, b)
}

// isBlank reports whether a value is a string that holds nothing but white space.
func (c *checker) isBlank(i uint32) bool {
	return c.m.nodes[i].kind == jsonString && isBlank(c.m.text(i, nil))
}

// isBlank reports whether a text holds nothing but white space; an empty text does not
// count.
func isBlank(b []byte) bool {
	return len(b) > 0 && b[0] <= ' ' && len(bytes.TrimSpace(b)) == 0
}

// fitsIn reports whether a value has at most limit characters when it is written without
// white space and without needless escape sequences. The limit 0 means no limit.
func (c *checker) fitsIn(i uint32, limit int) bool {
	raw := c.m.raw(i)
	if limit == 0 || len(raw) <= limit {
		return true
	}
	n, inString := 0, false
	for k := 0; k < len(raw); k++ {
		switch b := raw[k]; {
		case b == '"':
			inString = !inString
			n++
		case b == '\\':
			k++
			switch raw[k] {
			case 'u':
				n += minimumLength(raw[k+1 : k+5])
				k += 4
			case '/':
				n++
			default:
				n += 2
			}
		case !inString && b <= ' ':
		case utf8.RuneStart(b):
			n++
		}
	}
	return n <= limit
}

// minimumLength returns the smallest number of characters in which JSON can write the
// character with this code of four hexadecimal digits. It is 0 for the second half of a
// surrogate pair, because the first half is counted.
func minimumLength(hex []byte) int {
	switch c, _ := strconv.ParseUint(string(hex), 16, 16); {
	case c == '"', c == '\\', c == '\b', c == '\f', c == '\n', c == '\r', c == '\t':
		return len(`\n`)
	case c < ' ':
		return len(`\u0000`)
	case c >= 0xdc00 && c <= 0xdfff:
		return 0
	}
	return 1
}

func validCountry(b []byte) bool { return iso.Country(b) }

func validCurrency(b []byte) bool {
	_, ok := iso.Currency(b)
	return ok
}

func validCurrencyAlpha(b []byte) bool {
	_, _, ok := iso.CurrencyAlpha(b)
	return ok
}

// CheckExponents returns two problems with the code ISOCode, one for the currency and one
// for the exponent, for each amount whose exponent is not that of ISO 4217: the amount may
// then be read as another one. Check does not report that, because not all senders follow
// ISO 4217 there.
func (m *Message) CheckExponents() Problems {
	var p Problems
	checkPair := func(prefix string) {
		currency, exponent := Path(prefix+"Currency"), Path(prefix+"Exponent")
		code, given := m.Text(string(currency)), m.Text(string(exponent))
		want, ok := iso.Currency(code)
		if ok && given != "" && given != strconv.Itoa(want) && !withoutExponent[code] {
			p = append(p, Problem{Code: ISOCode, Path: currency}, Problem{Code: ISOCode, Path: exponent})
		}
	}
	checkPair("purchase")
	checkPair("recurring")
	for i := 0; ; i++ {
		item := fmt.Sprintf("multiTransaction.merchantList[%d]", i)
		if m.find(item) < 0 {
			return p
		}
		checkPair(item + ".merchant")
	}
}

// withoutExponent holds the currencies for which ISO 4217 has no exponent: XUA and XSU.
var withoutExponent = map[string]bool{"965": true, "994": true}
