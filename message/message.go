package message

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A Message is a JSON object that was read, with the bytes that it was read from. It does
// not change, so several goroutines may use it at the same time.
//
// Methods with a path accept paths such as "acctInfo.chAccDate" and
// "messageExtension[0].id".
type Message struct {
	data          []byte
	nodes         []node
	hasDuplicates bool // some member occurs more than once
	folded        bool // names were matched without regard to case
	firstNodes    [firstNameCount]uint32

	msgType, version    uint8
	hasType, hasVersion bool

	placeholders map[string]bool // members whose values serve a check alone; may be nil
}

// readTypeAndVersion sets the type and version of m.
func (m *Message) readTypeAndVersion() {
	var buf [16]byte
	if i := m.member(0, idType); i > 0 && m.nodes[i].kind == jsonString {
		if t, ok := ParseType(string(m.text(i, buf[:0]))); ok {
			m.msgType, m.hasType = uint8(t), true
		}
	}
	if i := m.member(0, idVersion); i > 0 && m.nodes[i].kind == jsonString {
		if v, ok := ParseVersion(string(m.text(i, buf[:0]))); ok {
			m.version, m.hasVersion = uint8(v), true
		}
	}
}

// Bytes returns the bytes that the message was read from. The caller must not change them.
func (m *Message) Bytes() []byte { return m.data }

// Type returns the type of the message, and false if messageType is absent or unknown.
func (m *Message) Type() (Type, bool) { return Type(m.msgType), m.hasType }

// Version returns the version of the message, and false if messageVersion is absent or
// is not one of [Versions].
func (m *Message) Version() (Version, bool) { return Version(m.version), m.hasVersion }

// String returns type, version and length of the message and none of its content.
func (m *Message) String() string {
	typ, ver := "message", ""
	if m.hasType {
		typ = Type(m.msgType).String()
	}
	if m.hasVersion {
		ver = " " + Version(m.version).String()
	}
	return typ + ver + ", " + strconv.Itoa(len(m.data)) + " bytes"
}

// Format writes String for all verbs, so that package fmt never prints the content.
func (m *Message) Format(s fmt.State, _ rune) { io.WriteString(s, m.String()) }

// Has reports whether the value at a path exists and is none of null, "", {} and [].
func (m *Message) Has(path string) bool {
	i := m.find(path)
	return i >= 0 && !m.isEmpty(uint32(i))
}

// Text returns the string at a path, or "" if there is none.
func (m *Message) Text(path string) string {
	i := m.find(path)
	if i < 0 || m.nodes[i].kind != jsonString {
		return ""
	}
	return string(m.text(uint32(i), nil))
}

// Raw returns the JSON text of the value at a path, or nil if there is none. The caller
// must not change it.
func (m *Message) Raw(path string) []byte {
	i := m.find(path)
	if i < 0 {
		return nil
	}
	return m.raw(uint32(i))
}

// Strings returns the strings of the array at a path, without its other items. A string
// in place of an array counts as an array with one item.
func (m *Message) Strings(path string) []string {
	i := m.find(path)
	if i < 0 {
		return nil
	}
	if m.nodes[i].kind == jsonString {
		return []string{string(m.text(uint32(i), nil))}
	}
	if m.nodes[i].kind != jsonArray {
		return nil
	}
	var all []string
	for j := uint32(i) + 1; j < m.nodes[i].next; j = m.nodes[j].next {
		if m.nodes[j].kind == jsonString {
			all = append(all, string(m.text(j, nil)))
		}
	}
	return all
}

// find returns the node at a path, or -1 if there is none.
func (m *Message) find(path string) int {
	at := uint32(0)
	for rest := path; rest != ""; {
		var step string
		step, rest, _ = strings.Cut(rest, ".")
		name, index, indexed := strings.Cut(step, "[")
		if name != "" {
			i := m.memberNamed(at, name)
			if i == 0 {
				return -1
			}
			at = i
		}
		for indexed {
			var number string
			number, index, _ = strings.Cut(index, "]")
			n, err := strconv.Atoi(number)
			if err != nil {
				return -1
			}
			i := m.item(at, n)
			if i == 0 {
				return -1
			}
			at = i
			index, indexed = strings.CutPrefix(index, "[")
		}
	}
	return int(at)
}

// member returns the first member of an object with the name of this id, or 0 if there is
// none.
func (m *Message) member(object, id uint32) uint32 {
	if object == 0 && id < firstNameCount {
		return m.firstNodes[id]
	}
	if m.nodes[object].kind != jsonObject {
		return 0
	}
	end := m.nodes[object].next
	for i := object + 1; i < end; i = m.nodes[i].next {
		if m.nodes[i].name == id {
			return i
		}
	}
	return 0
}

// memberNamed returns the first member of an object with this name, or 0 if there is none.
// The name need not be one of the tables.
func (m *Message) memberNamed(object uint32, name string) uint32 {
	if id := names.ids[name]; id != 0 {
		return m.member(object, uint32(id))
	}
	if m.nodes[object].kind != jsonObject {
		return 0
	}
	for i := object + 1; i < m.nodes[object].next; i = m.nodes[i].next {
		if n := m.nodes[i]; n.name&unknownName != 0 && string(nameText(m.data, n)) == name {
			return i
		}
	}
	return 0
}

// item returns the n-th item of an array, counted from 0, or 0 if there is none.
func (m *Message) item(array uint32, n int) uint32 {
	if m.nodes[array].kind != jsonArray || n < 0 {
		return 0
	}
	for i := array + 1; i < m.nodes[array].next; i = m.nodes[i].next {
		if n == 0 {
			return i
		}
		n--
	}
	return 0
}

// raw returns the JSON text of a node.
func (m *Message) raw(i uint32) []byte { return m.data[m.nodes[i].start:m.nodes[i].end] }

// text returns the text of a string. It is a part of the message or, if the string has
// escape sequences, appended to buf.
func (m *Message) text(i uint32, buf []byte) []byte {
	raw := m.raw(i)
	if m.nodes[i].flags&escaped == 0 {
		return raw[1 : len(raw)-1]
	}
	text, _ := jsontext.AppendUnquote(buf, raw)
	return text[len(buf):]
}

// isEmpty reports whether a value is null, "", {} or [].
func (m *Message) isEmpty(i uint32) bool {
	switch n := m.nodes[i]; n.kind {
	case jsonNull:
		return true
	case jsonString:
		return n.end-n.start == 2
	case jsonObject, jsonArray:
		return n.flags&hasItems == 0
	}
	return false
}

// equalValues reports whether two values are equal. Strings are compared by their text,
// UUIDs without regard to case, and all other values by their JSON text.
func (m *Message) equalValues(i uint32, o *Message, j uint32, uuid bool) bool {
	a, b := m.nodes[i], o.nodes[j]
	if a.kind == jsonString && b.kind == jsonString && (uuid || (a.flags|b.flags)&escaped != 0) {
		one, other := m.text(i, nil), o.text(j, nil)
		return bytes.Equal(one, other) || uuid && bytes.EqualFold(one, other)
	}
	return bytes.Equal(m.raw(i), o.raw(j))
}

// A Member is one element of a message that [Compose] writes.
type Member struct {
	Name string
	Text string // the value, if it is a string
	Raw  []byte // the JSON text of a value of any kind; if it is set, Text is ignored
}

// Compose returns the JSON text of a message, with members in the order of its table. It
// adds messageType and messageVersion, and leaves out members without a value. Of members
// with the same name the last one counts. Compose does not check the values: read the
// result with [Parse] and call [Message.Check] for that.
//
// An error means that the version has no such message, or that the table of the
// message has no element of that name.
func Compose(t Type, v Version, members ...Member) ([]byte, error) {
	if int(t) >= typeCount || !t.In(v) {
		return nil, fmt.Errorf("message: version %s has no %s", v, t)
	}
	table := TableOf(t, v)
	values := make([][]byte, len(table.Fields))
	members = append([]Member{{Name: "messageType", Text: t.String()}, {Name: "messageVersion", Text: v.String()}},
		members...)
	for _, m := range members {
		id, ok := names.ids[m.Name]
		if !ok || table.row(id) < 0 {
			return nil, fmt.Errorf("message: %s %s has no element %q", v, t, m.Name)
		}
		row := table.row(id)
		values[row] = m.Raw
		if m.Raw == nil && m.Text != "" {
			values[row] = quote(m.Text)
		}
	}
	return composeObject(table, values), nil
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

// composeObject returns the JSON text of an object with one value per row of its table.
// Empty values are left out.
func composeObject(t *Table, values [][]byte) []byte {
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

// appendName appends the name of the next member of an object and a colon. The name is not
// escaped, so it must be one of the tables.
func appendName(out []byte, name string) []byte {
	if out[len(out)-1] != '{' {
		out = append(out, ',')
	}
	out = append(out, '"')
	out = append(out, name...)
	return append(out, `":`...)
}
