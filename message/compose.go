package message

import "fmt"

// A Member is an element of a message that [Compose] writes.
type Member struct {
	Name string
	Text string // the value, if it is a string
	Raw  []byte // the JSON text of a value of any kind; if it is set, Text is ignored
}

// Compose writes a message in the order of its table. It adds messageType and
// messageVersion, and leaves out members without a value. Of members with the
// same name the last one counts. Compose does not check what the members hold:
// read the result with [Parse] and call [Message.Check] for that.
//
// An error means that the version has no such message, or that the table of the
// message has no element of that name.
func Compose(t Type, v Version, members ...Member) ([]byte, error) {
	if int(t) >= typeCount || !t.In(v) {
		return nil, fmt.Errorf("message: version %s has no %s", v, t)
	}
	table := TableOf(t, v)
	values := make([][]byte, len(table.Fields))
	members = append([]Member{{Name: "messageType", Text: t.String()}, {Name: "messageVersion", Text: v.String()}}, members...)
	for _, m := range members {
		id, known := names.ids[m.Name]
		if !known || table.row(id) < 0 {
			return nil, fmt.Errorf("message: %s %s has no element %q", v, t, m.Name)
		}
		row := table.row(id)
		values[row] = m.Raw
		if m.Raw == nil && m.Text != "" {
			values[row] = quote(m.Text)
		}
	}
	return join(table, values), nil
}

// MustCompose is [Compose] for types and names that are constants of the
// program. It panics where Compose returns an error.
func MustCompose(t Type, v Version, members ...Member) []byte {
	b, err := Compose(t, v, members...)
	if err != nil {
		panic(err)
	}
	return b
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
