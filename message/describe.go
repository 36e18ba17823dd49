package message

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
)

// maskedValue is shown in place of a value that must not be shown.
const maskedValue = "***"

// maxShown is how many characters of a long value are shown.
const maxShown = 120

// Describe writes m to w as text for people, one line per value, in the order of the
// table. Values are masked as Field.Mask says. A value that is not valid is written as
// "***". Members without a row are counted and not shown; in a message of unknown type or
// version no member has a row. The error is that of w.
func (m *Message) Describe(w io.Writer) error {
	d := &describer{checker: checker{m: m}, w: tabwriter.NewWriter(w, 0, 0, 2, '.', 0)}
	t, hasType := m.Type()
	v, hasVersion := m.Version()
	if hasType && hasVersion {
		d.table, d.version = TableOf(t, v), v // nil: a type that the version lacks
	}
	d.describeObject(d.table, 0, "")
	if d.unknown > 0 {
		fmt.Fprintf(d.w, "(unknown members)\t %d, %s\n", d.unknown, maskedValue)
	}
	return d.w.Flush()
}

// A describer holds the state of one call of Describe. Its checker decides whether a
// value is valid and may be shown.
type describer struct {
	checker
	w       *tabwriter.Writer
	unknown int
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
		if t == nil || n.name >= maxNames || t.rowOf[n.name] < 0 || n.flags&duplicate != 0 {
			d.unknown++
			continue
		}
		members[t.rowOf[n.name]] = i
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
		d.writeLine(path, d.maskedText(f, i))
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
				d.writeLine(at, maskedValue)
			}
		}
	default:
		d.writeLine(path, maskedValue)
	}
}

// writeLine writes the line of one value.
func (d *describer) writeLine(path Path, text string) { fmt.Fprintf(d.w, "%s\t %s\n", path, text) }

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
