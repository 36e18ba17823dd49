package message

import (
	"bytes"
	"encoding/binary"
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
	m := &Message{data: data, nodes: slices.Clone(p.nodes), hasDuplicates: p.hasDuplicates, firstNodes: p.firstNodes}
	m.readTypeAndVersion()
	return m, nil
}

// parsers holds parsers for reuse.
var parsers = sync.Pool{New: func() any { return &parser{dec: jsontext.NewDecoder(new(bytes.Buffer), decoderOptions)} }}

// decoderOptions accept duplicate names, because Check reports all of them.
var decoderOptions = jsontext.AllowDuplicateNames(true)

// A parser turns a text into nodes. If the text has escape sequences, control characters or
// bytes that are not ASCII, the decoder of jsontext first decides whether it is JSON.
// readValues then knows the whole grammar except for the content of strings, of which it
// looks for the end only.
type parser struct {
	dec           *jsontext.Decoder
	decoderUsed   bool // the decoder holds the text
	text          bytes.Buffer
	nodes         []node
	frames        []frame
	nameBuffer    []byte
	hasDuplicates bool
	firstNodes    [firstNameCount]uint32 // by name id: the first top-level member, or 0

	data        []byte
	hasEscapes  bool // the text has a backslash
	offset      int  // where the object begins in data
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
	if p.decoderUsed {
		p.decoderUsed, p.text = false, bytes.Buffer{}
		p.dec.Reset(&p.text, decoderOptions)
	}
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
	p.data = data
	isPlain := isPlainText(data)
	if !isPlain {
		if err := p.checkWithDecoder(); err != nil {
			return err
		}
	}
	p.hasEscapes = !isPlain && bytes.IndexByte(data, '\\') >= 0
	p.offset, p.membersLeft, p.folding, p.hasDuplicates, p.lastName = 0, lim.Members, folding, false, 0
	p.nodes, p.frames, p.firstNodes = p.nodes[:0], p.frames[:0], [firstNameCount]uint32{}
	p.offset = p.skipSpace(0)
	if p.offset == len(data) {
		return p.syntaxError(p.offset)
	}
	if data[p.offset] != '{' {
		if isPlain {
			if err := p.checkWithDecoder(); err != nil {
				return err
			}
		}
		return &SyntaxError{Offset: int64(p.offset), Reason: "not a JSON object"}
	}
	return p.readValues(lim)
}

// isPlainText reports whether data has no backslash, no control character and no byte that is
// not ASCII. A string in such a text is what lies between its quotes, so readValues alone
// can decide whether the text is JSON.
func isPlainText(data []byte) bool {
	const (
		low  = 0x0101010101010101
		high = 0x8080808080808080
	)
	for len(data) >= 8 {
		w := binary.LittleEndian.Uint64(data)
		slash := w ^ low*'\\'
		// The top bit of a byte is set if the byte is not ASCII, is below a space, or is a
		// backslash.
		if (w|(w-low*' ')|(slash-low)&^slash)&high != 0 {
			return false
		}
		data = data[8:]
	}
	for _, c := range data {
		if c >= utf8.RuneSelf || c < ' ' || c == '\\' {
			return false
		}
	}
	return true
}

// syntaxError returns the error of a text that readValues refused. The decoder supplies the
// reason. If the decoder accepts the text, it is refused nevertheless.
func (p *parser) syntaxError(at int) error {
	if err := p.checkWithDecoder(); err != nil {
		return err
	}
	return &SyntaxError{Offset: int64(at), Reason: "not well-formed JSON"}
}

// checkWithDecoder returns an error unless the data is one JSON value in UTF-8 with nothing
// behind it.
func (p *parser) checkWithDecoder() error {
	p.decoderUsed, p.text = true, *bytes.NewBuffer(p.data)
	p.dec.Reset(&p.text, decoderOptions)
	if _, err := p.dec.ReadValue(); err != nil {
		return p.decoderError(err)
	}
	end := p.dec.InputOffset()
	if _, err := p.dec.ReadToken(); err != io.EOF {
		return &SyntaxError{Offset: end, Reason: "more after the object"}
	}
	return nil
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

// skipSpace returns the offset of the first byte from at on that is not white space.
func (p *parser) skipSpace(at int) int {
	for at < len(p.data) {
		switch p.data[at] {
		case ' ', '\t', '\r', '\n':
			at++
		default:
			return at
		}
	}
	return at
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
