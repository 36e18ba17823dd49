package message

import (
	"maps"
	"slices"
	"strings"
)

// A Sendable is the text of a message that may leave: nothing in it is a placeholder. [Message.Sendable] makes it.
type Sendable struct{ text []byte }

// Bytes returns the text. The caller must not change it.
func (s Sendable) Bytes() []byte { return s.text }

// A PlaceholderError says that a message has placeholders, so that it must not leave.
type PlaceholderError struct{ Names []string }

func (e *PlaceholderError) Error() string {
	return "message: no values for " + strings.Join(e.Names, ", ") + ": their placeholders are never sent"
}

// Sendable returns the text of m for sending. The error is a *[PlaceholderError] if m has a placeholder of
// [Request.SetPlaceholder].
func (m *Message) Sendable() (Sendable, error) {
	if names := m.Placeholders(); len(names) > 0 {
		return Sendable{}, &PlaceholderError{names}
	}
	return Sendable{m.data}, nil
}

// Placeholders returns the names of the members whose values are placeholders, sorted.
func (m *Message) Placeholders() []string {
	names := slices.Sorted(maps.Keys(m.placeholders))
	return slices.DeleteFunc(names, func(name string) bool { return !m.Has(name) })
}

// WithoutPlaceholders returns the text of a message of [Request.Build] without the members that are placeholders.
func (m *Message) WithoutPlaceholders() []byte {
	if len(m.Placeholders()) == 0 {
		return m.data
	}
	out := append(make([]byte, 0, len(m.data)), '{')
	for i := uint32(1); i < m.nodes[0].next; i = m.nodes[i].next {
		if name := names.list[m.nodes[i].name]; !m.placeholders[name] {
			out = append(appendName(out, name), m.raw(i)...)
		}
	}
	return append(out, '}')
}
