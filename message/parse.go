package message

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits bound the JSON that [Parse] and [ReadRequest] accept. The zero Limits are the
// defaults.
type Limits struct {
	Depth   int // levels of objects and arrays, with the message itself; 0 means 10, a negative number no limit
	Members int // members and items of all objects and arrays together; 0 means 1000, a negative number no limit
}

// orDefault returns l with the numbers that 0 and negative numbers stand for.
func (l Limits) orDefault() Limits {
	set := func(n *int, def int) {
		if *n == 0 {
			*n = def
		}
		if *n < 0 {
			*n = math.MaxInt
		}
	}
	set(&l.Depth, 10)
	set(&l.Members, 1000)
	return l
}

// A SyntaxError is the error of a text that is not a JSON object in UTF-8, or that exceeds
// the [Limits].
type SyntaxError struct {
	Offset int64  // in bytes, from the start of the text
	Reason string // an English phrase that never quotes the text
}

// Error returns Reason and Offset.
func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.Reason, e.Offset) }

// A nodeKind is the JSON type of a value.
type nodeKind uint8

const (
	jsonNull nodeKind = iota
	jsonBool
	jsonNumber
	jsonString
	jsonObject
	jsonArray
)

// Flags of a node.
const (
	escaped     = 1 << iota // the string has escape sequences
	duplicate               // a member of the same name came before, in the same object
	escapedName             // the member's name has escape sequences
	hasItems                // the object or array is not empty
)

// A node is one value of a message. Nodes are in the order of the text, so the node of an
// object or array is followed by the nodes of the values in it.
type node struct {
	start, end uint32 // of the value in the text
	next       uint32 // index of the first node after this value and all values in it
	name       uint32 // id of the member's name, or unknownName | offset of its opening quote
	kind       nodeKind
	flags      uint8
}

// unknownName is a flag of node.name. It is set if the name is in no table.
const unknownName = 1 << 31

// maxText is the largest length of a text in bytes, which the offsets of nodes limit.
const maxText = unknownName - 1

// Parse reads one JSON object. It does not check what the members are: call
// [Message.Check] for that, which also reports members that occur more than once. Names are
// matched exactly. The Message keeps data, which must not be changed afterwards. The error
// is a [*SyntaxError].
func Parse(data []byte, lim Limits) (*Message, error) { return parse(data, lim, false) }

// parse is Parse. If folded is set, names match without regard to case, except inside
// objects that are passed on as they are.
func parse(data []byte, lim Limits, folded bool) (*Message, error) {
	p := parsers.Get().(*parser)
	defer p.release()
	if err := p.read(data, lim.orDefault(), folded); err != nil {
		return nil, err
	}
	m := &Message{
		data: data, nodes: slices.Clone(p.nodes), hasDuplicates: p.hasDuplicates, folded: folded, firstNodes: p.firstNodes,
	}
	m.readTypeAndVersion()
	return m, nil
}

// parsers holds parsers for reuse.
var parsers = sync.Pool{New: func() any { return &parser{dec: jsontext.NewDecoder(new(bytes.Buffer), decoderOptions)} }}

// decoderOptions accept duplicate names, because Check reports all of them.
var decoderOptions = jsontext.AllowDuplicateNames(true)

// A parser turns a text into nodes. The decoder of jsontext alone decides what is JSON; the
// parser adds the limits, the ids of names and the search for duplicates.
type parser struct {
	dec           *jsontext.Decoder
	text          bytes.Buffer
	nodes         []node
	frames        []frame
	nameBuffer    []byte
	hasDuplicates bool
	firstNodes    [firstNameCount]uint32 // by name id: the first top-level member, or 0

	data        []byte
	hasEscapes  bool // the text has a backslash
	membersLeft int  // members and items that the limit still allows
	folding     bool // names match without regard to case

	// nextNames holds for each name id the one that followed it most recently, also in
	// earlier messages. Senders keep the order of members, so this guess is tried before
	// names are searched.
	nextNames [maxNames]uint16
	lastName  uint16
}

// A place is the part of a message in which an object or array lies. It decides how names
// are matched.
type place uint8

const (
	ordinary place = iota
	topLevel
	extensionList  // the array messageExtension
	extensionEntry // an item of that array
	passedOnObject // the data of such an item, or an object that is passed on as it is
)

// A frame is an object or array whose end has not been read yet.
type frame struct {
	node    uint32
	array   bool
	at      place
	unknown int                   // number of members with unknown names
	seen    [maxNames / 64]uint64 // the set of name ids that occurred
}

// maxKeptNodes is the largest capacity for nodes that a parser keeps for reuse.
const maxKeptNodes = 4096

// release makes the parser available for reuse.
func (p *parser) release() {
	p.data = nil
	p.text = bytes.Buffer{}
	p.dec.Reset(&p.text, decoderOptions)
	if cap(p.nodes) > maxKeptNodes {
		p.nodes = nil
	}
	parsers.Put(p)
}

// read fills the nodes of the parser from data.
func (p *parser) read(data []byte, lim Limits, folding bool) error {
	if len(data) > maxText {
		return &SyntaxError{Reason: "too long"}
	}
	p.data, p.membersLeft, p.folding, p.hasDuplicates, p.lastName = data, lim.Members, folding, false, 0
	p.nodes, p.frames, p.firstNodes = p.nodes[:0], p.frames[:0], [firstNameCount]uint32{}
	p.hasEscapes = bytes.IndexByte(data, '\\') >= 0
	p.text = *bytes.NewBuffer(data)
	p.dec.Reset(&p.text, decoderOptions)
	if p.dec.PeekKind() != '{' {
		return p.notAnObject()
	}
	if err := p.readValues(lim); err != nil {
		return err
	}
	return p.checkEnd()
}

// notAnObject returns the error of a text that does not begin with an object.
func (p *parser) notAnObject() error {
	value, err := p.dec.ReadValue()
	if err != nil {
		return p.decoderError(err)
	}
	start := p.dec.InputOffset() - int64(len(value))
	if err := p.checkEnd(); err != nil {
		return err
	}
	return &SyntaxError{Offset: start, Reason: "not a JSON object"}
}

// checkEnd returns an error unless only white space follows.
func (p *parser) checkEnd() error {
	end := p.dec.InputOffset()
	if _, err := p.dec.ReadToken(); err != io.EOF {
		return &SyntaxError{Offset: end, Reason: "more after the object"}
	}
	return nil
}

// readValues reads an object and appends a node for each value in it, itself included.
func (p *parser) readValues(lim Limits) error {
	n := node{}      // the next value
	hasName := false // n already has the name and flags of its member
	for {
		kind := p.dec.PeekKind()
		if kind == '}' || kind == ']' {
			if _, err := p.dec.ReadToken(); err != nil {
				return p.decoderError(err)
			}
			p.closeFrame(int(p.dec.InputOffset()))
			if len(p.frames) == 0 {
				return nil
			}
			continue
		}
		start, text, err := p.readNext(kind)
		if err != nil {
			return p.decoderError(err)
		}
		if len(p.frames) > 0 {
			f := &p.frames[len(p.frames)-1]
			if !hasName {
				if p.membersLeft--; p.membersLeft < 0 {
					return &SyntaxError{Offset: int64(start), Reason: "too many members"}
				}
				p.nodes[f.node].flags |= hasItems
			}
			if !f.array && !hasName {
				n.name, n.flags = p.readName(f, text, start)
				hasName = true
				continue
			}
		}
		n.start, n.end, n.next, n.kind = uint32(start), uint32(start+len(text)), uint32(len(p.nodes))+1, kindOf(kind)
		switch n.kind {
		case jsonString:
			if p.hasEscapes && bytes.IndexByte(text, '\\') >= 0 {
				n.flags |= escaped
			}
		case jsonObject, jsonArray:
			if len(p.frames) == lim.Depth {
				return &SyntaxError{Offset: int64(start), Reason: "nested too deep"}
			}
			p.openFrame(n.name, n.kind)
		}
		p.nodes = append(p.nodes, n)
		n, hasName = node{}, false
	}
}

// readNext reads the start of an object or array, or a whole value of another kind, and
// returns its offset and text.
func (p *parser) readNext(kind jsontext.Kind) (start int, text []byte, err error) {
	if kind == '{' || kind == '[' {
		_, err = p.dec.ReadToken()
		end := int(p.dec.InputOffset())
		return end - 1, p.data[max(end-1, 0):end], err
	}
	text, err = p.dec.ReadValue()
	return int(p.dec.InputOffset()) - len(text), text, err
}

// kindOf returns the kind of a node for that of a token.
func kindOf(kind jsontext.Kind) nodeKind {
	switch kind {
	case 't', 'f':
		return jsonBool
	case '0':
		return jsonNumber
	case '"':
		return jsonString
	case '{':
		return jsonObject
	case '[':
		return jsonArray
	}
	return jsonNull
}

// readName returns the id of the name with this JSON text and offset, and the flag duplicate
// if it occurred before in the object. Unknown names are compared when the object ends.
func (p *parser) readName(f *frame, text []byte, start int) (name uint32, flags uint8) {
	id := p.nextNames[p.lastName]
	if id == 0 || string(text[1:len(text)-1]) != names.list[id] {
		id, flags = p.searchName(f, text)
		if id == 0 {
			f.unknown++
			p.lastName = 0
			return unknownName | uint32(start), flags
		}
		p.nextNames[p.lastName] = id
	}
	p.lastName = id
	if id < firstNameCount && len(p.frames) == 1 && p.firstNodes[id] == 0 {
		p.firstNodes[id] = uint32(len(p.nodes))
	}
	word, bit := id/64%uint16(len(f.seen)), uint64(1)<<(id%64)
	if f.seen[word]&bit != 0 {
		flags |= duplicate
		p.hasDuplicates = true
	}
	f.seen[word] |= bit
	return uint32(id), flags
}

// searchName returns the id of the name with this JSON text, or 0 if it is in no table.
func (p *parser) searchName(f *frame, raw []byte) (id uint16, flags uint8) {
	text := raw[1 : len(raw)-1]
	if p.hasEscapes && bytes.IndexByte(raw, '\\') >= 0 {
		flags |= escapedName
		text, _ = jsontext.AppendUnquote(p.nameBuffer[:0], raw)
		p.nameBuffer = text[:0]
	}
	id = names.id(text)
	if id == 0 && p.folding && f.at != passedOnObject {
		p.nameBuffer = fold(p.nameBuffer[:0], text)
		id = names.folded[string(p.nameBuffer)]
	}
	return id, flags
}

// openFrame begins the object or array that becomes the next node.
func (p *parser) openFrame(name uint32, kind nodeKind) {
	p.frames = append(p.frames, frame{node: uint32(len(p.nodes)), array: kind == jsonArray, at: p.placeOf(name, kind)})
}

// decoderError turns an error of the decoder into a SyntaxError, which does not quote the
// text.
func (p *parser) decoderError(err error) error {
	at := p.dec.InputOffset()
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at = s.ByteOffset
	}
	reason := "not well-formed JSON"
	switch {
	case bytes.HasPrefix(p.data, []byte("\ufeff")):
		reason = "a byte order mark before the JSON"
	case nestingDepth(p.data[:at]) >= maxDecoderDepth:
		reason = "nested too deep"
	case !utf8.Valid(p.data):
		reason = "not UTF-8"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		reason = "the text ends too early"
	}
	return &SyntaxError{Offset: at, Reason: reason}
}

// maxDecoderDepth is the largest depth of nesting that the decoder of jsontext accepts.
const maxDecoderDepth = 10_000

// nestingDepth returns how many objects and arrays are open at the end of data.
func nestingDepth(data []byte) int {
	n, inString := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			n++
		case c == '}' || c == ']':
			n--
		}
	}
	return n
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
