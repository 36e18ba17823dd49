package message

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// readValues reads the object at p.offset and appends a node for each value. It refuses what
// is not JSON, but does not look at the content of strings.
func (p *parser) readValues(lim Limits) error {
	data, at := p.data, p.offset
	name, flags := uint32(0), uint8(0)
	for {
		if at == len(data) {
			return p.syntaxError(at)
		}
		n := node{name: name, flags: flags, next: uint32(len(p.nodes)) + 1, start: uint32(at)}
		opened, ok := false, true
		switch c := data[at]; c {
		case '{', '[':
			if len(p.frames) == lim.Depth {
				return &SyntaxError{Offset: int64(at), Reason: "nested too deep"}
			}
			n.kind, opened = p.openFrame(name, c == '['), true
			at++
		default:
			at, ok = p.readScalar(&n, at)
		}
		if !ok {
			return p.syntaxError(at)
		}
		n.end = uint32(at)
		p.nodes = append(p.nodes, n)

		if at, ok = p.skipToNextValue(at, opened); !ok {
			return p.syntaxError(at)
		}
		if len(p.frames) == 0 {
			return nil
		}
		if p.membersLeft--; p.membersLeft < 0 {
			return &SyntaxError{Offset: int64(at), Reason: "too many members"}
		}
		f := &p.frames[len(p.frames)-1]
		p.nodes[f.node].flags |= hasItems
		if name, flags = 0, 0; f.array {
			continue
		}
		if name, flags, at, ok = p.readMemberName(f, at); !ok {
			return p.syntaxError(at)
		}
	}
}

// readScalar reads a value that is neither an object nor an array, sets its kind, and returns
// the offset after it.
func (p *parser) readScalar(n *node, at int) (end int, ok bool) {
	switch p.data[at] {
	case '"':
		var hasEscapes bool
		n.kind = jsonString
		end, hasEscapes, ok = p.readString(at)
		if hasEscapes {
			n.flags |= escaped
		}
		return end, ok
	case 't':
		n.kind = jsonBool
		return readWord(p.data, at, "true")
	case 'f':
		n.kind = jsonBool
		return readWord(p.data, at, "false")
	case 'n':
		n.kind = jsonNull
		return readWord(p.data, at, "null")
	}
	n.kind = jsonNumber
	return readNumber(p.data, at)
}

// readMemberName reads the name of a member and the colon, and returns the offset of the
// value as end.
func (p *parser) readMemberName(f *frame, at int) (name uint32, flags uint8, end int, ok bool) {
	if at == len(p.data) || p.data[at] != '"' {
		return 0, 0, at, false
	}
	if name, flags, at, ok = p.readName(f, at); !ok {
		return 0, 0, at, false
	}
	if name < firstNameCount && len(p.frames) == 1 && p.firstNodes[name] == 0 {
		p.firstNodes[name] = uint32(len(p.nodes))
	}
	if at = p.skipSpace(at); at == len(p.data) || p.data[at] != ':' {
		return 0, 0, at, false
	}
	return name, flags, p.skipSpace(at + 1), true
}

// readWord returns the offset after the word want, which is true, false or null.
func readWord(data []byte, at int, want string) (int, bool) {
	end := at + len(want)
	return end, end <= len(data) && string(data[at:end]) == want
}

// readNumber returns the offset after a number: RFC 8259, section 6.
func readNumber(data []byte, at int) (int, bool) {
	readDigits := func() bool {
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
	} else if !readDigits() {
		return at, false
	}
	if at < len(data) && data[at] == '.' {
		if at++; !readDigits() {
			return at, false
		}
	}
	if at < len(data) && data[at]|0x20 == 'e' {
		if at++; at < len(data) && (data[at] == '+' || data[at] == '-') {
			at++
		}
		if !readDigits() {
			return at, false
		}
	}
	return at, true
}

// skipToNextValue returns the offset of the next name or item after a value, or inside the
// object or array that was just opened. It closes the objects and arrays that end before.
// After the end of the message only white space may follow.
func (p *parser) skipToNextValue(at int, opened bool) (int, bool) {
	data := p.data
	for len(p.frames) > 0 {
		if at = p.skipSpace(at); at == len(data) {
			return at, false
		}
		array := p.frames[len(p.frames)-1].array
		switch c := data[at]; {
		case c == '}' && !array, c == ']' && array:
			at++
			p.closeFrame(at)
			opened = false
		case opened:
			return at, true
		case c == ',':
			return p.skipSpace(at + 1), true
		default:
			return at, false
		}
	}
	at = p.skipSpace(at)
	return at, at == len(data)
}

// readString returns the offset after the string at at and whether the string has escape
// sequences. It is not ok if the string has no end.
func (p *parser) readString(at int) (end int, escapes, ok bool) {
	text := p.data[at+1:]
	n := bytes.IndexByte(text, '"')
	if n < 0 {
		return at, false, false
	}
	if !p.hasEscapes || bytes.IndexByte(text[:n], '\\') < 0 {
		return at + n + 2, false, true
	}
	return at + quotedLength(p.data[at:]), true, true
}

// readName returns the id of the name at start, the flag duplicate if the name occurred
// before in the object, and the offset after the name. Unknown names are compared when the
// object ends.
func (p *parser) readName(f *frame, start int) (name uint32, flags uint8, end int, ok bool) {
	id, end := p.readExpectedName(start)
	if id == 0 {
		if id, flags, end, ok = p.searchName(f, start); !ok {
			return 0, 0, end, false
		}
		if id == 0 {
			f.unknown++
			p.lastName = 0
			return unknownName | uint32(start), flags, end, true
		}
		p.nextNames[p.lastName] = id
	}
	p.lastName = id
	word, bit := id/64%uint16(len(f.seen)), uint64(1)<<(id%64)
	if f.seen[word]&bit != 0 {
		flags |= duplicate
		p.hasDuplicates = true
	}
	f.seen[word] |= bit
	return uint32(id), flags, end, true
}

// readExpectedName returns the name that nextNames expects and the offset after it, or 0 and 0
// if another name stands at start.
func (p *parser) readExpectedName(start int) (id uint16, end int) {
	id = p.nextNames[p.lastName]
	text := names.list[id]
	end = start + len(text) + 2
	if end <= len(p.data) && p.data[end-1] == '"' && string(p.data[start+1:end-1]) == text {
		return id, end
	}
	return 0, 0
}

// searchName returns the id of the name at start, or 0 if it is in no table.
func (p *parser) searchName(f *frame, start int) (id uint16, flags uint8, end int, ok bool) {
	end, escapes, ok := p.readString(start)
	if !ok {
		return 0, 0, end, false
	}
	text := p.data[start+1 : end-1]
	if escapes {
		flags |= escapedName
		text, _ = jsontext.AppendUnquote(p.nameBuffer[:0], p.data[start:end])
		p.nameBuffer = text[:0]
	}
	id = names.id(text)
	if id == 0 && p.folding && f.at != passedOnObject {
		p.nameBuffer = fold(p.nameBuffer[:0], text)
		id = names.folded[string(p.nameBuffer)]
	}
	return id, flags, end, true
}

// openFrame begins the object or array that becomes the next node.
func (p *parser) openFrame(name uint32, array bool) nodeKind {
	kind := jsonObject
	if array {
		kind = jsonArray
	}
	p.frames = append(p.frames, frame{node: uint32(len(p.nodes)), array: array, at: p.placeOf(name, kind)})
	return kind
}

// placeOf returns the place of an object or array that is the value of the member name.
func (p *parser) placeOf(name uint32, kind nodeKind) place {
	if len(p.frames) == 0 {
		return topLevel
	}
	switch parent := p.frames[len(p.frames)-1].at; {
	case parent == passedOnObject:
		return passedOnObject
	case parent == topLevel && name == idExtension && kind == jsonArray:
		return extensionList
	case parent == topLevel && name == idExtension, parent == extensionList && kind == jsonObject:
		return extensionEntry
	case parent == extensionEntry && name == idData, kind == jsonObject && isPassedOnByName(name):
		return passedOnObject
	}
	return ordinary
}

// closeFrame ends the innermost object or array at the offset end.
func (p *parser) closeFrame(end int) {
	f := &p.frames[len(p.frames)-1]
	n := &p.nodes[f.node]
	n.end, n.next = uint32(end), uint32(len(p.nodes))
	if f.unknown > 1 {
		p.markEqualUnknownNames(f.node)
	}
	p.frames = p.frames[:len(p.frames)-1]
}

// markEqualUnknownNames marks as duplicates the members of an object that have the same
// unknown name as an earlier one. It sorts the names, so that the time stays far below the
// square of their number.
func (p *parser) markEqualUnknownNames(object uint32) {
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
			p.hasDuplicates = true
		}
	}
}

// nameText returns the unescaped name of a member with an unknown name.
func nameText(data []byte, n node) []byte {
	at := n.name &^ unknownName
	raw := data[at : at+uint32(quotedLength(data[at:]))]
	if n.flags&escapedName == 0 {
		return raw[1 : len(raw)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, raw)
	return text
}

// quotedLength returns the length of the string at the start of data, with its quotes.
func quotedLength(data []byte) int {
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
