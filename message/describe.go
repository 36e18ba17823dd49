package message

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
)

// maskedValue is shown in place of a value that must not be shown.
const maskedValue = "***"

// maxShown is how many characters of a long value are shown.
const maxShown = 120

// maxShownNumber is how many characters a number may have to be shown: fewer than a card number.
const maxShownNumber = 9

// Describe writes m to w as text for people, one line per value, in the order of the
// table. Values are masked as Field.Mask says. A value that is not valid is written as
// "***". Members without a row are counted and not shown; in a message of unknown type or
// version no member has a row. The error is that of w.
func (m *Message) Describe(w io.Writer) error {
	lines := tabwriter.NewWriter(w, 0, 0, 2, '.', 0)
	d := m.newDescriber()
	d.show = func(path Path, _ *Field, text string) { fmt.Fprintf(lines, "%s\t %s\n", path, text) }
	d.describeObject(d.table, 0, "")
	if d.unknown > 0 {
		fmt.Fprintf(lines, "(unknown members)\t %d, %s\n", d.unknown, maskedValue)
	}
	return lines.Flush()
}

// DescribeObject calls show for each value of the object at a path that has a row in a table of
// [NewTable], in the order of the table. The path of a value begins with that of the object.
// Values are masked as Field.Mask says; one that is not valid is "***". DescribeObject returns
// how many members have no row.
func (m *Message) DescribeObject(path Path, t *Table, show func(path Path, f *Field, text string)) (unknown int) {
	i := m.find(string(path))
	if i < 0 || m.nodes[i].kind != jsonObject {
		return 0
	}
	d := &describer{checker: checker{m: m, table: t, version: t.Version}, show: show}
	at := path
	if at != "" {
		at += "."
	}
	d.describeObject(t, uint32(i), at)
	return d.unknown
}

// A describer holds the state of one call of Describe. Its checker decides whether a
// value is valid and may be shown.
type describer struct {
	checker
	show    func(path Path, f *Field, text string) // is called for each value that has a row
	unknown int
	hash    func(name string, value []byte) string // set for WithheldJSON
}

// appendWithheld appends what masked JSON shows in place of a value.
func (d *describer) appendWithheld(out []byte, f *Field, i uint32) []byte {
	if d.hash == nil {
		return append(out, `"`+maskedValue+`"`...)
	}
	value := d.m.raw(i)
	if d.m.nodes[i].kind == jsonString {
		value = d.m.text(i, nil)
	}
	out = append(strconv.AppendInt(append(out, `"[withheld, `...), int64(len(value)), 10), " bytes]"...)
	if hash := d.hash(f.Name, value); hash != "" {
		out = append(append(out, " hash "...), hash...)
	}
	return append(out, '"')
}

// MaskedJSON returns m as JSON, masked as Describe does it. A value that must not be shown, or that has no row in
// the table, is "***". The members in nulls, of the top level, are null.
func (m *Message) MaskedJSON(nulls ...string) []byte {
	return m.maskedJSON(nil, nulls)
}

// WithheldJSON returns m as MaskedJSON does, but says of a value that is not shown how long it was, as
// "[withheld, 28 bytes]". Hash returns letters and digits that stand behind it, as " hash 1f3a"; "" means that none
// do.
func (m *Message) WithheldJSON(hash func(name string, value []byte) string) []byte {
	return m.maskedJSON(hash, nil)
}

// personalPaths are the elements with personal data of a cardholder: name, account, addresses of post, of e-mail and of
// the network, telephones and devices. What is secret is not among them. EMV 3DS 2.3.1, table A.1 and annex A.
var personalPaths = map[string]bool{
	"cardholderName": true, "acctID": true, "email": true, "merchantRiskIndicator.deliveryEmailAddress": true,
	"homePhone.cc": true, "homePhone.subscriber": true, "mobilePhone.cc": true, "mobilePhone.subscriber": true,
	"workPhone.cc": true, "workPhone.subscriber": true,
	"billAddrLine1": true, "billAddrLine2": true, "billAddrLine3": true, "billAddrCity": true, "billAddrPostCode": true,
	"billAddrState": true, "billAddrCountry": true,
	"shipAddrLine1": true, "shipAddrLine2": true, "shipAddrLine3": true, "shipAddrCity": true, "shipAddrPostCode": true,
	"shipAddrState": true, "shipAddrCountry": true,
	"browserIP": true, "appIp": true, "deviceId": true,
}

// PersonalJSON returns the personal data that MaskedJSON withholds as a JSON object of texts by the path of their
// element, such as "homePhone.cc"; nil if m has none. Secrets are not among them. A value that is not valid is left
// out, and one that isAllowed returns false for. A telephone number is shown to isAllowed as one text.
func (m *Message) PersonalJSON(isAllowed func(f *Field, value string) bool) []byte {
	d := m.newDescriber()
	out := d.appendPersonal(nil, d.table, 0, "", isAllowed)
	if out == nil {
		return nil
	}
	out[0] = '{'
	return append(out, '}')
}

// appendPersonal appends the personal data of an object, each with a comma before it.
func (d *describer) appendPersonal(out []byte, t *Table, object uint32, at string,
	isAllowed func(f *Field, value string) bool) []byte {
	for i := object + 1; i < d.m.nodes[object].next; i = d.m.nodes[i].next {
		n := &d.m.nodes[i]
		row := -1
		if t != nil {
			row = t.rowOfMember(d.m, n)
		}
		if row < 0 || n.flags&duplicate != 0 {
			continue
		}
		f := &t.Fields[row]
		path := at + f.Name
		switch {
		case n.kind == jsonObject && f.Of != nil:
			if f.Mask == Clear || isAllowed(f, d.joinTexts(i)) {
				out = d.appendPersonal(out, f.Of, i, path+".", isAllowed)
			}
		case personalPaths[path] && n.kind == jsonString && d.checker.textFault(f, i, f.Min, f.Max) == 0:
			if text := string(d.m.text(i, nil)); isAllowed(f, text) {
				out = append(append(append(append(out, ',', '"'), path...), `":`...), d.m.raw(i)...)
			}
		}
	}
	return out
}

// joinTexts returns the texts of an object, one behind the other.
func (d *describer) joinTexts(object uint32) string {
	var b []byte
	for i := object + 1; i < d.m.nodes[object].next; i = d.m.nodes[i].next {
		if d.m.nodes[i].kind == jsonString {
			b = append(b, d.m.text(i, nil)...)
		}
	}
	return string(b)
}

// newDescriber returns a describer with the table of m; nil if it has none.
func (m *Message) newDescriber() *describer {
	d := &describer{checker: checker{m: m}}
	t, hasType := m.Type()
	v, hasVersion := m.Version()
	if hasType && hasVersion {
		d.table, d.version = TableOf(t, v), v // The table is nil for a type that the version lacks.
	}
	return d
}

func (m *Message) maskedJSON(hash func(name string, value []byte) string, nulls []string) []byte {
	d := m.newDescriber()
	d.hash = hash
	// What is withheld is mostly longer than the value.
	return d.appendMasked(make([]byte, 0, len(m.raw(0))*5/4), d.table, 0, nulls)
}

// appendMasked appends the masked JSON of an object.
func (d *describer) appendMasked(out []byte, t *Table, object uint32, nulls []string) []byte {
	out = append(out, '{')
	for i := object + 1; i < d.m.nodes[object].next; i = d.m.nodes[i].next {
		n := &d.m.nodes[i]
		row := -1
		if t != nil {
			row = t.rowOfMember(d.m, n)
		}
		if row < 0 || n.flags&duplicate != 0 {
			continue // its name may be anything
		}
		f := &t.Fields[row]
		out = appendName(out, f.Name)
		if slices.Contains(nulls, f.Name) {
			out = append(out, "null"...)
		} else {
			out = d.appendMaskedValue(out, f, i)
		}
	}
	return append(out, '}')
}

// appendMaskedValue appends the masked JSON of one value.
func (d *describer) appendMaskedValue(out []byte, f *Field, i uint32) []byte {
	n := &d.m.nodes[i]
	isTable := f.Kind == Object && f.Mask == Clear && f.Of != nil
	switch {
	case isTable && n.kind == jsonObject:
		return d.appendMasked(out, f.Of, i, nil)
	case n.kind == jsonArray && (f.Array || f.AltArray) && f.Mask == Clear:
		lo, hi := f.ItemMin, f.ItemMax
		if !f.Array {
			lo, hi = f.Min, f.Max
		}
		out = append(out, '[')
		for j := i + 1; j < n.next; j = d.m.nodes[j].next {
			if j > i+1 {
				out = append(out, ',')
			}
			switch {
			case isTable && d.m.nodes[j].kind == jsonObject:
				out = d.appendMasked(out, f.Of, j, nil)
			case d.isShown(f, j, lo, hi):
				out = append(out, d.m.raw(j)...)
			default:
				out = d.appendWithheld(out, f, j)
			}
		}
		return append(out, ']')
	case n.kind == jsonString && f.Mask != PAN:
		if f.Mask == Clear && !f.Array && d.isShown(f, i, f.Min, f.Max) {
			return append(out, d.m.raw(i)...)
		}
		return d.appendWithheld(out, f, i)
	}
	text := maskedValue
	if f.Kind != Object {
		text = d.maskedText(f, i)
	}
	switch {
	case text == maskedValue:
		return d.appendWithheld(out, f, i)
	case f.Mask == Clear:
		return append(out, d.m.raw(i)...)
	}
	return append(out, quote(text)...)
}

// isShown reports whether masked JSON shows a value as it is, where its field allows that: it is a valid string of lo
// to hi characters.
func (d *describer) isShown(f *Field, i uint32, lo, hi int) bool {
	return d.m.nodes[i].kind == jsonString && f.Kind.isText() && d.checker.textFault(f, i, lo, hi) == 0 &&
		string(d.m.text(i, nil)) != maskedValue
}

// describeObject writes the members of an object by its table. If the table is nil, no
// member has a row.
func (d *describer) describeObject(t *Table, object uint32, at Path) {
	var members []uint32
	if t != nil {
		members = make([]uint32, len(t.Fields))
	}
	for i := object + 1; i < d.m.nodes[object].next; i = d.m.nodes[i].next {
		n := &d.m.nodes[i]
		if t == nil || t.rowOfMember(d.m, n) < 0 || n.flags&duplicate != 0 {
			d.unknown++
			continue
		}
		members[t.rowOfMember(d.m, n)] = i
	}
	for row, i := range members {
		if i != 0 {
			f := &t.Fields[row]
			d.describeValue(f, i, at+Path(f.Name))
		}
	}
}

// describeValue writes one element.
func (d *describer) describeValue(f *Field, i uint32, path Path) {
	n := &d.m.nodes[i]
	if f.Kind != Object || f.Mask != Clear {
		d.show(path, f, d.maskedText(f, i))
		return
	}
	switch n.kind {
	case jsonObject:
		d.describeObject(f.Of, i, path+".")
	case jsonArray:
		for k, j := 0, i+1; j < n.next; k, j = k+1, d.m.nodes[j].next {
			if at := path + Path("["+strconv.Itoa(k)+"]"); d.m.nodes[j].kind == jsonObject {
				d.describeObject(f.Of, j, at+".")
			} else {
				d.show(at, f, maskedValue)
			}
		}
	default:
		d.show(path, f, maskedValue)
	}
}

// maskedText returns the masked text of a value that is not an object with a table.
func (d *describer) maskedText(f *Field, i uint32) string {
	n := &d.m.nodes[i]
	switch {
	case n.kind == jsonArray && (f.Array || f.AltArray):
		var items []string
		lo, hi := f.ItemMin, f.ItemMax
		if !f.Array {
			lo, hi = f.Min, f.Max
		}
		for j := i + 1; j < n.next; j = d.m.nodes[j].next {
			items = append(items, d.maskedString(f, j, lo, hi))
		}
		return strings.Join(items, ", ")
	case n.kind == jsonBool && f.Kind == Bool && f.Mask == Clear:
		return string(d.m.raw(i))
	case n.kind == jsonNumber && f.Kind == Number && f.Mask == Clear && n.end-n.start <= maxShownNumber:
		return string(d.m.raw(i))
	case f.Array:
		return maskedValue
	}
	return d.maskedString(f, i, f.Min, f.Max)
}

// maskedString returns the masked text of a string, which must have from lo to hi
// characters to be shown.
func (d *describer) maskedString(f *Field, i uint32, lo, hi int) string {
	if d.m.nodes[i].kind != jsonString || !f.Kind.isText() || d.checker.textFault(f, i, lo, hi) != 0 {
		return maskedValue
	}
	text := string(d.m.text(i, nil))
	switch f.Mask {
	case Clear:
		return onOneLine(text)
	case PAN:
		if len(text) >= 13 && allDigits([]byte(text)) {
			return text[:6] + strings.Repeat("*", len(text)-10) + text[len(text)-4:]
		}
	}
	return maskedValue
}

// onOneLine returns text with at most maxShown characters, in quotes if it has characters
// that cannot be printed.
func onOneLine(text string) string {
	if short := truncate(text, maxShown); short != text {
		text = fmt.Sprintf("%s… (%d characters)", short, len([]rune(text)))
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.QuoteToGraphic(text)
	}
	return text
}
