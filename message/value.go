package message

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/openthreeds/threeds/internal/browserurl"
	"github.com/openthreeds/threeds/internal/iso"
)

// value checks a value that is there and not empty.
func (c *checker) value(f *Field, i uint32) {
	if f.plain && c.m.nodes[i].kind == jsonString {
		if code := c.plain(f, c.m.text(i, nil)); code != 0 {
			c.report(code, f.Name)
		}
		return
	}
	if f.Array {
		c.array(f, i)
		return
	}
	switch kind := c.m.nodes[i].kind; {
	case kind == jsonArray && f.AltArray:
		for n, j := 0, i+1; j < c.m.nodes[i].next; n, j = n+1, c.m.nodes[j].next {
			if c.m.nodes[j].kind != jsonString {
				c.note(Format, f.Name, n, "")
			} else {
				c.string(f, j, n, f.Min, f.Max)
			}
		}
		c.equalItems(f, i)
	case kind == jsonObject && (f.AltObject || f.Kind == JSON || f.Kind == Object):
		if !c.fits(i, f.Max) {
			c.report(Format, f.Name)
		}
		if f.Kind == Object {
			c.within(f, i, -1)
		}
	case kind == jsonBool && f.Kind == Bool:
	case kind == jsonString && f.Kind.isText():
		c.string(f, i, -1, f.Min, f.Max)
	default:
		c.report(Format, f.Name)
	}
}

// within checks an object with a table of its own.
func (c *checker) within(f *Field, i uint32, item int) {
	c.way = append(c.way, step{f.Name, item})
	c.object(f.Of, i)
	c.way = c.way[:len(c.way)-1]
}

func (c *checker) array(f *Field, i uint32) {
	nodes := c.m.nodes
	if nodes[i].kind != jsonArray {
		c.report(Format, f.Name)
		return
	}
	n := 0
	for j := i + 1; j < nodes[i].next; j = nodes[j].next {
		switch {
		case f.Kind == Object && nodes[j].kind == jsonObject:
			c.within(f, j, n)
		case f.Kind.isText() && nodes[j].kind == jsonString:
			c.string(f, j, n, f.ItemMin, f.ItemMax)
		default:
			c.note(Format, f.Name, n, "")
		}
		n++
	}
	if n < f.Min || f.Max > 0 && n > f.Max || !c.fits(i, f.MaxChars) {
		c.report(Format, f.Name)
	}
	if n > 1 {
		c.equalItems(f, i)
	}
}

// equalItems reports items that equal an earlier one, which no version before
// 2.3.1 minds. Strings are compared by what they say, in objects too; in all else
// objects are compared as they are written, but for white space.
func (c *checker) equalItems(f *Field, array uint32) {
	if c.version < V231 {
		return
	}
	seen := make(map[string]struct{})
	for k, j := 0, array+1; j < c.m.nodes[array].next; k, j = k+1, c.m.nodes[j].next {
		item := c.m.raw(j)
		if bytes.IndexByte(item, '\\') >= 0 || item[0] != '"' && bytes.ContainsAny(item, " \t\r\n") {
			// No white space is left, and no escape sequence but those that are needed.
			item, _ = jsontext.AppendFormat(nil, item, decoderOptions)
		}
		if _, ok := seen[string(item)]; ok {
			c.note(Duplicate, f.Name, k, "")
		}
		seen[string(item)] = struct{}{}
	}
}

// plain is text for the most frequent rows.
func (c *checker) plain(f *Field, b []byte) Code {
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

// string checks the string that is a member, or an item of one.
func (c *checker) string(f *Field, i uint32, item, lo, hi int) {
	switch code := c.text(f, i, lo, hi); code {
	case 0:
	case UnsupportedVersion:
		c.note(code, f.Name, item, versionList(allVersions)+" (card range data)")
	default:
		c.note(code, f.Name, item, "")
	}
}

// text returns what is wrong with a string, 0 if nothing.
func (c *checker) text(f *Field, i uint32, lo, hi int) Code {
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
	case f.Range != nil && !(allDigits(b) && within(b, f.Range.Min, f.Range.Max)):
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

// withoutSpace is b without white space.
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

// isBlank says whether a value is a string of white space only.
func (c *checker) isBlank(i uint32) bool {
	return c.m.nodes[i].kind == jsonString && blank(c.m.text(i, nil))
}

func blank(b []byte) bool {
	return len(b) > 0 && b[0] <= ' ' && len(bytes.TrimSpace(b)) == 0
}

// fits says whether a value takes at most limit characters, written without
// white space and without needless escape sequences; 0 is no limit.
func (c *checker) fits(i uint32, limit int) bool {
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
				n += needed(raw[k+1 : k+5])
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

// needed is how many characters the one that four hexadecimal digits stand for
// takes at least. The second half of one is counted with the first.
func needed(hex []byte) int {
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

// CheckExponents returns an ISOCode problem for each currency that stands with an exponent
// other than that of ISO 4217, and one for the exponent: an amount may then mean
// another one. Check does not look at that, for not everybody keeps to ISO there.
func (m *Message) CheckExponents() Problems {
	var p Problems
	pair := func(prefix string) {
		currency, exponent := Path(prefix+"Currency"), Path(prefix+"Exponent")
		number, given := m.Text(string(currency)), m.Text(string(exponent))
		want, ok := iso.Currency(number)
		if ok && given != "" && given != strconv.Itoa(want) && !unitless[number] {
			p = append(p, Problem{Code: ISOCode, Path: currency}, Problem{Code: ISOCode, Path: exponent})
		}
	}
	pair("purchase")
	pair("recurring")
	for i := 0; ; i++ {
		item := fmt.Sprintf("multiTransaction.merchantList[%d]", i)
		if m.find(item) < 0 {
			return p
		}
		pair(item + ".merchant")
	}
}

// unitless are the currencies for which ISO 4217 has no exponent: XUA and XSU.
var unitless = map[string]bool{"965": true, "994": true}
