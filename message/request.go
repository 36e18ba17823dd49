package message

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// A Request is what a requestor sent: an AReq, or the few members that other
// operations take. It is read leniently, but only as far as docs/api.md
// says, R1 to R5: names in any case, null and empty values as absent,
// unknown members ignored. What is done to it is kept beside the text, which
// never changes. A Request is not safe for use by several goroutines.
type Request struct {
	m     *Message
	edits map[uint32]edit   // by node; nil: none
	added map[string][]byte // JSON texts of members that were not there; nil: none
}

// An edit is what becomes of a value.
type edit struct {
	text []byte // JSON text in place of it; nil: none, the member is dropped
	wrap bool   // the value stays, as the one item of an array
}

// ReadRequest reads one JSON object. It keeps data, which must not be changed
// afterwards. The error is a *SyntaxError.
func ReadRequest(data []byte, lim Limits) (*Request, error) {
	m, err := parse(data, lim, true)
	if err != nil {
		return nil, err
	}
	m.survey(0, top)
	return &Request{m: m}, nil
}

const (
	// sealed is a flag of the data of a message extension: of what is in it nothing
	// is touched.
	sealed = 1 << 7
	// through is a flag of an object that passes: the same, unless it holds nothing.
	through = 1 << 6
)

// passes says whether an object of that name is handed on as it is, names and all:
// the key of the SDK, what an authenticator signed, what a token
// service says. Their own standards know members that the tables lack, and nulls
// and empty objects that have to be there.
func passes(name uint32) bool {
	return name == idSDKKey || name == idAuthData || name == idTokenData
}

var (
	idSDKKey    = uint32(names.ids["sdkEphemPubKey"])
	idAuthData  = uint32(names.ids["threeDSReqAuthData"])
	idTokenData = uint32(names.ids["tokenAdditionalData"])
)

// survey marks what is sealed or passes, and the members whose unknown name differs from
// an earlier one's in case only.
func (m *Message) survey(i uint32, at place) {
	var seen map[string]bool
	n := m.nodes[i]
	first := uint32(0) // the first member of an unknown name: mostly there is no other
	for j := i + 1; j < n.next; j = m.nodes[j].next {
		child := &m.nodes[j]
		if n.kind == jsonObject && child.name&unknownName != 0 {
			switch {
			case first == 0:
				first = j
			case seen == nil:
				seen = map[string]bool{m.lowName(first): true}
			}
			if seen != nil {
				low := m.lowName(j)
				if seen[low] {
					child.flags |= duplicate
					m.twice = true
				}
				seen[low] = true
			}
		}
		if child.flags&hasItems == 0 {
			continue
		}
		within := elsewhere
		switch {
		case at == top && child.name == idExtension:
			within = extensions
		case at == extensions && n.kind == jsonArray:
			within = extensions
		case at == extensions && child.name == idData:
			child.flags |= sealed
			continue
		case child.kind == jsonObject && passes(child.name):
			child.flags |= through
			continue
		}
		m.survey(j, within)
	}
}

// lowName is the unknown name of a member in lower case.
func (m *Message) lowName(i uint32) string {
	return string(fold(nil, nameText(m.data, m.nodes[i])))
}

// Text returns a member that is a string, by its canonical name: "acctNumber",
// "ds". It returns "" when the member is absent, null or something else.
func (r *Request) Text(name string) string {
	return unquoted(r.raw(name))
}

// Has says whether a member is there and holds something.
func (r *Request) Has(name string) bool {
	i := r.find(name)
	if i == 0 {
		return r.added[name] != nil
	}
	if e, ok := r.edits[i]; ok && !e.wrap {
		return e.text != nil
	}
	return !r.m.hollow(i)
}

// Duplicates returns a Duplicate problem for each member that occurs twice, in
// any case. Member names that are not ours are told only when they cannot be
// anything but a name.
func (r *Request) Duplicates() Problems {
	if !r.m.twice {
		return nil
	}
	c := &checker{m: r.m}
	if v, ok := r.Version(); ok {
		c.table = TableOf(AReq, v)
	}
	c.duplicates(0)
	return c.sorted()
}

// Set gives a member a text, whatever was there. An empty text removes it.
func (r *Request) Set(name, text string) {
	if text == "" {
		r.put(name, nil)
		return
	}
	r.put(name, quote(text))
}

// Default gives a member a text when it has none.
func (r *Request) Default(name, text string) {
	if text != "" && !r.Has(name) {
		r.put(name, quote(text))
	}
}

// put gives a member a JSON text; nil removes it.
func (r *Request) put(name string, text []byte) {
	if i := r.find(name); i != 0 {
		r.edit(i, edit{text: text})
	} else if text == nil {
		delete(r.added, name)
	} else {
		if r.added == nil {
			r.added = make(map[string][]byte)
		}
		r.added[name] = text
	}
}

// edit notes what becomes of a value.
func (r *Request) edit(i uint32, e edit) {
	if r.edits == nil {
		r.edits = make(map[uint32]edit)
	}
	r.edits[i] = e
}

// raw returns the JSON text of a member as it is now, nil when there is none.
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

// find returns the node of a member, 0 when there is none.
func (r *Request) find(name string) uint32 {
	if id := names.ids[name]; id != 0 {
		return r.m.member(0, uint32(id))
	}
	var wanted, found [64]byte // enough for the names that are asked for
	low := fold(wanted[:0], []byte(name))
	for i := uint32(1); i < r.m.nodes[0].next; i = r.m.nodes[i].next {
		if n := r.m.nodes[i]; n.name&unknownName != 0 && bytes.Equal(fold(found[:0], nameText(r.m.data, n)), low) {
			return i
		}
	}
	return 0
}

// Version returns the messageVersion. When there is none that we know, it
// returns false and the version that an answer says then, 2.2.0.
func (r *Request) Version() (Version, bool) {
	if v, ok := ParseVersion(r.Text("messageVersion")); ok {
		return v, true
	}
	return V220, false
}

// hollow says whether a value holds nothing: it is null, "", {} or [], or has
// nothing but such values in it.
func (m *Message) hollow(i uint32) bool {
	if n := m.nodes[i]; n.kind != jsonObject && n.kind != jsonArray || n.flags&sealed != 0 {
		return m.empty(i)
	}
	for j := i + 1; j < m.nodes[i].next; j = m.nodes[j].next {
		if !m.hollow(j) {
			return false
		}
	}
	return true
}

// unquoted is the text of a JSON string, "" of anything else.
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

// quote is text as a JSON string. What is not UTF-8 is replaced.
func quote(text string) []byte {
	raw, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\uFFFD"))
	return raw
}
