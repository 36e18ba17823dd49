package message

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
)

// hidden stands for a value that people may not see.
const hidden = "***"

// shown is how many characters of a long value people see.
const shown = 120

// Describe writes m for people, one line per value, in the order of the table.
// Values are masked as the rows say. What does not fit its row is hidden, and
// so is everything that has no row; of a message of unknown type or version
// that is all.
func (m *Message) Describe(w io.Writer) error {
	d := &describer{checker: checker{m: m}, w: tabwriter.NewWriter(w, 0, 0, 2, '.', 0)}
	t, known := m.Type()
	v, knownVersion := m.Version()
	if known && knownVersion {
		d.table, d.version = TableOf(t, v), v // nil: a type that the version lacks
	}
	d.object(d.table, 0, "")
	if d.unknown > 0 {
		fmt.Fprintf(d.w, "(unknown members)\t %d, %s\n", d.unknown, hidden)
	}
	return d.w.Flush()
}

// A describer is what describing needs for a while: it asks the checker
// whether values are what their rows say.
type describer struct {
	checker
	w       *tabwriter.Writer
	unknown int
}

// object writes the members of an object by its table; nil knows none.
func (d *describer) object(t *Table, object uint32, at Path) {
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
			d.value(f, i, at+Path(f.Name))
		}
	}
}

// value writes one element.
func (d *describer) value(f *Field, i uint32, path Path) {
	n := &d.m.nodes[i]
	if f.Kind != Object || f.Mask != Clear {
		d.line(path, d.text(f, i))
		return
	}
	switch n.kind {
	case jsonObject:
		d.object(f.Of, i, path+".")
	case jsonArray:
		for k, j := 0, i+1; j < n.next; k, j = k+1, d.m.nodes[j].next {
			if at := path + Path("["+strconv.Itoa(k)+"]"); d.m.nodes[j].kind == jsonObject {
				d.object(f.Of, j, at+".")
			} else {
				d.line(at, hidden)
			}
		}
	default:
		d.line(path, hidden)
	}
}

func (d *describer) line(path Path, text string) { fmt.Fprintf(d.w, "%s\t %s\n", path, text) }

// text is a value that is not an object with a table, as people may see it.
func (d *describer) text(f *Field, i uint32) string {
	n := &d.m.nodes[i]
	switch {
	case n.kind == jsonArray && (f.Array || f.AltArray):
		var items []string
		lo, hi := f.ItemMin, f.ItemMax
		if !f.Array {
			lo, hi = f.Min, f.Max
		}
		for j := i + 1; j < n.next; j = d.m.nodes[j].next {
			items = append(items, d.string(f, j, lo, hi))
		}
		return strings.Join(items, ", ")
	case n.kind == jsonBool && f.Kind == Bool && f.Mask == Clear:
		return string(d.m.raw(i))
	case f.Array:
		return hidden
	}
	return d.string(f, i, f.Min, f.Max)
}

// string is a string as people may see it.
func (d *describer) string(f *Field, i uint32, lo, hi int) string {
	if d.m.nodes[i].kind != jsonString || !f.Kind.isText() || d.checker.text(f, i, lo, hi) != 0 {
		return hidden
	}
	text := string(d.m.text(i, nil))
	switch f.Mask {
	case Clear:
		return readable(text)
	case PAN:
		if len(text) >= 13 && allDigits([]byte(text)) {
			return text[:6] + strings.Repeat("*", len(text)-10) + text[len(text)-4:]
		}
	}
	return hidden
}

// readable is text on one line, without what changes how a line looks.
func readable(text string) string {
	if short := cut(text, shown); short != text {
		text = fmt.Sprintf("%s… (%d characters)", short, len([]rune(text)))
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.QuoteToGraphic(text)
	}
	return text
}
