package message

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/openthreeds/threeds/internal/base/charset"
)

// A Request is what a requestor sent: an AReq, or the few members that other operations need. It is read leniently, as
// docs/api.md, R1 to R5, says: names match in any case, null and empty values count as absent, and unknown members are
// ignored. Changes are kept next to the text, which stays as it was received. A Request must not be used by several
// goroutines at the same time.
type Request struct {
	m       *Message
	isPlain bool              // m has nothing but printable ASCII, and no escape sequence
	edits   map[uint32]edit   // changed values, by node; may be nil
	added   map[string][]byte // JSON texts of members that the request lacked; may be nil

	placeholders map[string]bool // members whose values serve a check alone; may be nil

	extensions [][]byte // items that are added to messageExtension

}

// An edit is the change of one value.
type edit struct {
	text []byte // the new JSON text; nil means that the member is removed
	wrap bool   // the value becomes the only item of an array; text is ignored
}

// ReadRequest reads one JSON object. The Request keeps data, which must not be changed
// afterwards. The error is a [*SyntaxError].
func ReadRequest(data []byte, lim Limits) (*Request, error) {
	m, err := parse(data, lim, true)
	if err != nil {
		return nil, err
	}
	m.markForRequest(0, topLevel)
	return &Request{m: m, isPlain: charset.IsPlainJSON(data)}, nil
}

// applyEdits writes the changes of values, and members that were added, into the text of the request, and reads it
// again.
func (r *Request) applyEdits() {
	data := r.m.data
	out, end := make([]byte, 0, len(data)+64), uint32(0)
	for _, i := range slices.Sorted(maps.Keys(r.edits)) { // nodes are in the order of the text
		n, e := r.m.nodes[i], r.edits[i]
		if n.start < end {
			continue // inside a value that is replaced
		}
		out = append(out, data[end:n.start]...)
		switch {
		case e.wrap:
			out = append(append(append(out, '['), r.m.raw(i)...), ']')
		case e.text == nil:
			out = append(out, "null"...)
		default:
			out = append(out, e.text...)
		}
		end = n.end
	}
	last := r.m.nodes[0].end - 1 // of the closing brace
	out = append(out, data[end:last]...)
	out = bytes.TrimRight(out, " \t\r\n")
	for _, name := range slices.Sorted(maps.Keys(r.added)) {
		out = append(appendName(out, name), r.added[name]...)
	}
	out = append(out, data[last:]...)
	edited, err := ReadRequest(out, Limits{Depth: -1, Members: -1})
	if err != nil {
		panic("message: edited to what is not JSON: " + err.Error())
	}
	edited.placeholders = r.placeholders
	*r = *edited
}

const (
	// isExtensionData is a flag of the data of a message extension. Nothing in it is
	// changed.
	isExtensionData = 1 << 7
	// isPassedOn is a flag of an object for which isPassedOnByName holds. Nothing in it is
	// changed, but it is left out if it is empty.
	isPassedOn = 1 << 6
)

// isPassedOnByName reports whether an object of that name is sent as it was received, with
// its names: the key of the SDK, authentication data, and the data of a token service. The
// standards of these objects define members that the tables lack, and null and empty
// objects that must stay.
func isPassedOnByName(name uint32) bool {
	return name == idSDKKey || name == idAuthData || name == idTokenData
}

var (
	idSDKKey    = uint32(names.ids["sdkEphemPubKey"])
	idAuthData  = uint32(names.ids["threeDSReqAuthData"])
	idTokenData = uint32(names.ids["tokenAdditionalData"])
)

// markForRequest sets the flags isExtensionData and isPassedOn in the value i, and marks as
// duplicates the members whose unknown name differs from an earlier one only in case.
func (m *Message) markForRequest(i uint32, at place) {
	var seen map[string]bool
	n := m.nodes[i]
	first := uint32(0) // the first member with an unknown name; usually there is no other
	for j := i + 1; j < n.next; j = m.nodes[j].next {
		child := &m.nodes[j]
		if n.kind == jsonObject && child.name&unknownName != 0 {
			switch {
			case first == 0:
				first = j
			case seen == nil:
				seen = map[string]bool{m.foldedName(first): true}
			}
			if seen != nil {
				low := m.foldedName(j)
				if seen[low] {
					child.flags |= duplicate
					m.hasDuplicates = true
				}
				seen[low] = true
			}
		}
		if child.flags&hasItems == 0 {
			continue
		}
		inner := ordinary
		switch {
		case at == topLevel && child.name == idExtension:
			inner = extensionList
		case at == extensionList && n.kind == jsonArray:
			inner = extensionList
		case at == extensionList && child.name == idData:
			child.flags |= isExtensionData
			continue
		case child.kind == jsonObject && isPassedOnByName(child.name):
			child.flags |= isPassedOn
			continue
		}
		m.markForRequest(j, inner)
	}
}

// foldedName returns the unknown name of a member in lower case.
func (m *Message) foldedName(i uint32) string {
	return string(fold(nil, nameText(m.data, m.nodes[i])))
}

// Text returns the text of the member with a name as the tables write it, such as
// "acctNumber". It returns "" if the member is absent or not a string.
func (r *Request) Text(name string) string {
	return unquoted(r.raw(name))
}

// Has reports whether a member is present and holds a value other than null, "" and objects
// and arrays of such values.
func (r *Request) Has(name string) bool {
	i := r.find(name)
	if i == 0 {
		return r.added[name] != nil
	}
	if e, ok := r.edits[i]; ok && !e.wrap {
		return e.text != nil
	}
	return !r.m.isHollow(i)
}

// Duplicates returns a problem with the code Duplicate for each member that occurs more than
// once; names that differ only in case are the same. A name that is in no table and could
// hold card data is reported as "unknown".
func (r *Request) Duplicates() Problems {
	if !r.m.hasDuplicates {
		return nil
	}
	c := &checker{m: r.m}
	if v, ok := r.Version(); ok {
		c.table = TableOf(AReq, v)
	}
	c.reportDuplicates(0)
	return c.sortedProblems()
}

// Set sets a member to a text. An empty text removes the member.
func (r *Request) Set(name, text string) {
	if text == "" {
		r.SetRaw(name, nil)
		return
	}
	r.SetRaw(name, quote(text))
}

// Default sets a member to a text if it has no value. An empty text changes nothing.
func (r *Request) Default(name, text string) {
	if text != "" && !r.Has(name) {
		r.SetRaw(name, quote(text))
	}
}

// SetPlaceholder sets a member that is not known yet to a JSON text, so that [Request.Build] can check all others. The
// Message of Build knows its placeholders: see [Message.Sendable]. Set and SetRaw make the member an ordinary one.
func (r *Request) SetPlaceholder(name string, text []byte) {
	r.SetRaw(name, text)
	if r.placeholders == nil {
		r.placeholders = make(map[string]bool)
	}
	r.placeholders[name] = true
}

// SetRaw sets a member to a JSON text, which must be valid. Nil removes the member.
func (r *Request) SetRaw(name string, text []byte) {
	delete(r.placeholders, name)
	if i := r.find(name); i != 0 {
		r.setEdit(i, edit{text: text})
	} else if text == nil {
		delete(r.added, name)
	} else {
		if r.added == nil {
			r.added = make(map[string][]byte)
		}
		r.added[name] = text
	}
}

// setEdit records the change of a value.
func (r *Request) setEdit(i uint32, e edit) {
	if r.edits == nil {
		r.edits = make(map[uint32]edit)
	}
	r.edits[i] = e
}

// raw returns the JSON text of a member with all changes, or nil if there is none.
func (r *Request) raw(name string) []byte {
	i := r.find(name)
	if i == 0 {
		return r.added[name]
	}
	e, ok := r.edits[i]
	switch {
	case !ok:
		return r.m.raw(i)
	case e.wrap:
		return []byte("[" + string(r.m.raw(i)) + "]")
	}
	return e.text
}

// find returns the node of a member, or 0 if there is none.
func (r *Request) find(name string) uint32 {
	if id := names.ids[name]; id != 0 {
		return r.m.member(0, uint32(id))
	}
	var wanted, present [64]byte // long enough for usual names
	low := fold(wanted[:0], []byte(name))
	for i := uint32(1); i < r.m.nodes[0].next; i = r.m.nodes[i].next {
		if n := r.m.nodes[i]; n.name&unknownName != 0 && bytes.Equal(fold(present[:0], nameText(r.m.data, n)), low) {
			return i
		}
	}
	return 0
}

// Version returns the messageVersion of the request. If that is absent or is not one of
// [Versions], it returns 2.2.0, the version that an answer then has, and false.
func (r *Request) Version() (Version, bool) {
	if v, ok := ParseVersion(r.Text("messageVersion")); ok {
		return v, true
	}
	return V220, false
}

// isHollow reports whether a value is null, "", {} or [], or an object or array that holds
// nothing but such values.
func (m *Message) isHollow(i uint32) bool {
	if n := m.nodes[i]; n.kind != jsonObject && n.kind != jsonArray || n.flags&isExtensionData != 0 {
		return m.isEmpty(i)
	}
	for j := i + 1; j < m.nodes[i].next; j = m.nodes[j].next {
		if !m.isHollow(j) {
			return false
		}
	}
	return true
}

// unquoted returns the text of a JSON string, and "" for any other value.
func unquoted(raw []byte) string {
	if len(raw) == 0 || raw[0] != '"' {
		return ""
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw[1 : len(raw)-1])
	}
	text, _ := jsontext.AppendUnquote(nil, raw)
	return string(text)
}

// quote returns text as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func quote(text string) []byte {
	raw, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\uFFFD"))
	return raw
}
