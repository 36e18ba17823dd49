package message

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// walk goes from value to value, from the object at p.at to its end, and
// refuses whatever is not JSON; of strings it looks only for the end.
func (p *parser) walk(lim Limits) error {
	data, at := p.data, p.at
	name, flags := uint32(0), uint8(0)
	for {
		if at == len(data) {
			return p.broken(at)
		}
		n := node{name: name, flags: flags, next: uint32(len(p.nodes)) + 1, start: uint32(at)}
		opened, ok := false, true
		switch c := data[at]; c {
		case '"':
			var escapes bool
			n.kind = jsonString
			at, escapes, ok = p.quoted(at)
			if escapes {
				n.flags |= escaped
			}
		case '{', '[':
			if len(p.frames) == lim.Depth {
				return &SyntaxError{Offset: int64(at), Reason: "nested too deep"}
			}
			n.kind, opened = p.open(name, c == '['), true
			at++
		case 't':
			n.kind = jsonBool
			at, ok = word(data, at, "true")
		case 'f':
			n.kind = jsonBool
			at, ok = word(data, at, "false")
		case 'n':
			at, ok = word(data, at, "null")
		default:
			n.kind = jsonNumber
			at, ok = numeral(data, at)
		}
		if !ok {
			return p.broken(at)
		}
		n.end = uint32(at)
		p.nodes = append(p.nodes, n)

		if at, ok = p.nextValue(at, opened); !ok {
			return p.broken(at)
		}
		if len(p.frames) == 0 {
			return nil
		}
		if p.left--; p.left < 0 {
			return &SyntaxError{Offset: int64(at), Reason: "too many members"}
		}
		f := &p.frames[len(p.frames)-1]
		p.nodes[f.node].flags |= hasItems
		if name, flags = 0, 0; f.array {
			continue
		}
		if name, flags, at, ok = p.member(f, at); !ok {
			return p.broken(at)
		}
	}
}

// member reads a member's name and colon and returns the offset of its value.
func (p *parser) member(f *frame, at int) (name uint32, flags uint8, end int, ok bool) {
	if at == len(p.data) || p.data[at] != '"' {
		return 0, 0, at, false
	}
	if name, flags, at, ok = p.name(f, at); !ok {
		return 0, 0, at, false
	}
	if name < headNames && len(p.frames) == 1 && p.head[name] == 0 {
		p.head[name] = uint32(len(p.nodes))
	}
	if at = p.space(at); at == len(p.data) || p.data[at] != ':' {
		return 0, 0, at, false
	}
	return name, flags, p.space(at + 1), true
}

// word is the offset behind one of the three words of JSON.
func word(data []byte, at int, want string) (int, bool) {
	end := at + len(want)
	return end, end <= len(data) && string(data[at:end]) == want
}

// numeral is the offset behind a number: RFC 8259, section 6.
func numeral(data []byte, at int) (int, bool) {
	some := func() bool {
		from := at
		for at < len(data) && isDigit(data[at]) {
			at++
		}
		return at > from
	}
	if at < len(data) && data[at] == '-' {
		at++
	}
	if at < len(data) && data[at] == '0' {
		at++
	} else if !some() {
		return at, false
	}
	if at < len(data) && data[at] == '.' {
		if at++; !some() {
			return at, false
		}
	}
	if at < len(data) && data[at]|0x20 == 'e' {
		if at++; at < len(data) && (data[at] == '+' || data[at] == '-') {
			at++
		}
		if !some() {
			return at, false
		}
	}
	return at, true
}

// nextValue is the offset of the next name or item behind a value, or within
// the object or array that was just opened. It closes the objects and arrays
// that end before; behind the last of them there may be nothing more.
func (p *parser) nextValue(at int, opened bool) (int, bool) {
	data := p.data
	for len(p.frames) > 0 {
		if at = p.space(at); at == len(data) {
			return at, false
		}
		array := p.frames[len(p.frames)-1].array
		switch c := data[at]; {
		case c == '}' && !array, c == ']' && array:
			at++
			p.close(at)
			opened = false
		case opened:
			return at, true
		case c == ',':
			return p.space(at + 1), true
		default:
			return at, false
		}
	}
	at = p.space(at)
	return at, at == len(data)
}

// quoted is the offset behind the string at at, and whether it has escape
// sequences; not ok when it does not end.
func (p *parser) quoted(at int) (end int, escapes, ok bool) {
	text := p.data[at+1:]
	n := bytes.IndexByte(text, '"')
	if n < 0 {
		return at, false, false
	}
	if !p.escapes || bytes.IndexByte(text[:n], '\\') < 0 {
		return at + n + 2, false, true
	}
	return at + quoted(p.data[at:]), true, true
}

// name finds the id of the member's name at start, and whether it came before,
// and returns the offset behind it. Unknown names are compared when the object
// ends.
func (p *parser) name(f *frame, start int) (name uint32, flags uint8, end int, ok bool) {
	id, end := p.expected(start)
	if id == 0 {
		if id, flags, end, ok = p.search(f, start); !ok {
			return 0, 0, end, false
		}
		if id == 0 {
			f.unknown++
			p.last = 0
			return unknownName | uint32(start), flags, end, true
		}
		p.follows[p.last] = id
	}
	p.last = id
	word, bit := id/64%uint16(len(f.seen)), uint64(1)<<(id%64)
	if f.seen[word]&bit != 0 {
		flags |= duplicate
		p.twice = true
	}
	f.seen[word] |= bit
	return uint32(id), flags, end, true
}

// expected is the name that followed last time, if it is what stands at start.
func (p *parser) expected(start int) (id uint16, end int) {
	id = p.follows[p.last]
	text := names.list[id]
	end = start + len(text) + 2
	if end <= len(p.data) && p.data[end-1] == '"' && string(p.data[start+1:end-1]) == text {
		return id, end
	}
	return 0, 0
}

// search finds the id of any name, 0 for one that is not ours.
func (p *parser) search(f *frame, start int) (id uint16, flags uint8, end int, ok bool) {
	end, escapes, ok := p.quoted(start)
	if !ok {
		return 0, 0, end, false
	}
	text := p.data[start+1 : end-1]
	if escapes {
		flags |= odd
		text, _ = jsontext.AppendUnquote(p.lower[:0], p.data[start:end])
		p.lower = text[:0]
	}
	id = names.id(text)
	if id == 0 && p.folding && f.at != opaque {
		p.lower = fold(p.lower[:0], text)
		id = names.folded[string(p.lower)]
	}
	return id, flags, end, true
}

// open enters the object or array that becomes the next node.
func (p *parser) open(name uint32, array bool) nodeKind {
	kind := jsonObject
	if array {
		kind = jsonArray
	}
	p.frames = append(p.frames, frame{node: uint32(len(p.nodes)), array: array, at: p.place(name, kind)})
	return kind
}

// place says where the object or array lies that a member name opens.
func (p *parser) place(name uint32, kind nodeKind) place {
	if len(p.frames) == 0 {
		return top
	}
	switch parent := p.frames[len(p.frames)-1].at; {
	case parent == opaque:
		return opaque
	case parent == top && name == idExtension && kind == jsonArray:
		return extensions
	case parent == top && name == idExtension, parent == extensions && kind == jsonObject:
		return extension
	case parent == extension && name == idData, kind == jsonObject && passes(name):
		return opaque
	}
	return elsewhere
}

// close ends the innermost open object or array, at the offset end.
func (p *parser) close(end int) {
	f := &p.frames[len(p.frames)-1]
	n := &p.nodes[f.node]
	n.end, n.next = uint32(end), uint32(len(p.nodes))
	if f.unknown > 1 {
		p.compareUnknown(f.node)
	}
	p.frames = p.frames[:len(p.frames)-1]
}

// compareUnknown marks those members of an object that have the unknown name
// of an earlier one. It sorts, so that many of them cost no more than that.
func (p *parser) compareUnknown(object uint32) {
	type member struct {
		node uint32
		name []byte
	}
	var few [8]member
	all := few[:0]
	for i := object + 1; i < p.nodes[object].next; i = p.nodes[i].next {
		if n := &p.nodes[i]; n.name&unknownName != 0 {
			all = append(all, member{i, nameText(p.data, *n)})
		}
	}
	slices.SortFunc(all, func(a, b member) int {
		if c := bytes.Compare(a.name, b.name); c != 0 {
			return c
		}
		return int(a.node) - int(b.node)
	})
	for i := 1; i < len(all); i++ {
		if bytes.Equal(all[i-1].name, all[i].name) {
			p.nodes[all[i].node].flags |= duplicate
			p.twice = true
		}
	}
}

// nameText is the unescaped name of a member with an unknown name.
func nameText(data []byte, n node) []byte {
	at := n.name &^ unknownName
	raw := data[at : at+uint32(quoted(data[at:]))]
	if n.flags&odd == 0 {
		return raw[1 : len(raw)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, raw)
	return text
}

// quoted is the length of the string that data begins with, quotes included.
func quoted(data []byte) int {
	for i := 1; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(data)
}

var idData = uint32(names.ids["data"])
