package message

import "fmt"

// A Member is an element of a message that we write.
type Member struct {
	Name string
	Text string // a string
	Raw  []byte // or the JSON text of any value, which wins
}

// Compose writes a message in the order of its table. messageType and
// messageVersion are added; members without a value are left out; of members
// with the same name the last one counts. It panics on a name that the table
// lacks. What the members hold is not checked.
func Compose(t Type, v Version, members ...Member) []byte {
	table := TableOf(t, v)
	values := make([][]byte, len(table.Fields))
	put := func(m Member) {
		row := table.row(names.ids[m.Name])
		if row < 0 {
			panic(fmt.Sprintf("message: %s %s has no element %q", v, t, m.Name))
		}
		values[row] = m.Raw
		if m.Raw == nil && m.Text != "" {
			values[row] = quote(m.Text)
		}
	}
	put(Member{Name: "messageType", Text: t.String()})
	put(Member{Name: "messageVersion", Text: v.String()})
	for _, m := range members {
		put(m)
	}
	return join(table, values)
}

// join writes an object of values, one per row of its table; without those
// that are empty.
func join(t *Table, values [][]byte) []byte {
	size := 2
	for row, value := range values {
		size += len(t.Fields[row].Name) + len(value) + 4
	}
	out := append(make([]byte, 0, size), '{')
	for row, value := range values {
		if len(value) > 0 {
			out = append(appendName(out, t.Fields[row].Name), value...)
		}
	}
	return append(out, '}')
}

// appendName appends the name of the next member of an object, which must be
// one of the tables': it is not escaped.
func appendName(out []byte, name string) []byte {
	if out[len(out)-1] != '{' {
		out = append(out, ',')
	}
	out = append(out, '"')
	out = append(out, name...)
	return append(out, `":`...)
}
