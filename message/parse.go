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

// Limits bound what Parse reads.
type Limits struct {
	Depth   int // of nesting, the message itself is 1; 0: 10, negative: no limit
	Members int // of objects and arrays, all together; 0: 1000, negative: no limit
}

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

// A SyntaxError says that bytes are not a JSON object, or one beyond the
// limits. It does not quote them.
type SyntaxError struct {
	Offset int64
	Reason string
}

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
	escaped   = 1 << iota // the string has escape sequences
	duplicate             // a member of the same name came before, in the same object
	odd                   // the member's name has escape sequences
	hasItems              // the object or array is not empty
)

// A node is one value. Values lie in the order of the text, so an object or
// array is followed by what is in it.
type node struct {
	start, end uint32 // of the value in the text
	next       uint32 // the node behind this one and all that is in it
	name       uint32 // id of the member's name, or unknownName | offset of its opening quote
	kind       nodeKind
	flags      uint8
}

const unknownName = 1 << 31

// maxText is how much text the offsets of nodes reach.
const maxText = unknownName - 1

// Parse reads one JSON object. Names are matched exactly. Members that occur
// twice are remembered and reported by Check. The message keeps data; it must
// not be changed afterwards. The error is a *SyntaxError.
func Parse(data []byte, lim Limits) (*Message, error) { return parse(data, lim, false) }

// parse is Parse, with names matched in any case when folded is set, except
// those within the data of a message extension.
func parse(data []byte, lim Limits, folded bool) (*Message, error) {
	p := parsers.Get().(*parser)
	defer p.release()
	if err := p.read(data, lim.orDefault(), folded); err != nil {
		return nil, err
	}
	m := &Message{data: data, nodes: slices.Clone(p.nodes), twice: p.twice, head: p.head}
	m.identify()
	return m, nil
}

var parsers = sync.Pool{New: func() any { return &parser{dec: jsontext.NewDecoder(new(bytes.Buffer), decoderOptions)} }}

// decoderOptions leaves duplicate names to us: we report them all.
var decoderOptions = jsontext.AllowDuplicateNames(true)

// A parser is what reading needs for a while. The decoder says whether a text
// is JSON, unless the text is plain; the walk behind it knows the grammar but
// of strings no more than their end.
type parser struct {
	dec    *jsontext.Decoder
	used   bool // the decoder
	text   bytes.Buffer
	nodes  []node
	frames []frame
	lower  []byte
	twice  bool
	head   [headNames]uint32 // the first nodes of the first names

	data    []byte
	escapes bool // there is a backslash somewhere
	at      int  // where in data
	left    int  // members
	folding bool

	// follows holds for each name the one that came behind it last. Senders
	// keep to an order, so it is worth a look before anything is searched.
	follows [maxNames]uint16
	last    uint16
}

// A place is where in a message an object or array is, as far as it matters
// to how names are matched.
type place uint8

const (
	elsewhere place = iota
	top
	extensions // the array messageExtension
	extension  // one of its entries
	opaque     // within the data of one
)

// A frame is an object or array that is still open.
type frame struct {
	node    uint32
	array   bool
	at      place
	unknown int // members with unknown names
	seen    [maxNames / 64]uint64
}

// keep is how many nodes a parser may keep for the next message.
const keep = 4096

func (p *parser) release() {
	p.data = nil
	if p.used {
		p.used, p.text = false, bytes.Buffer{}
		p.dec.Reset(&p.text, decoderOptions)
	}
	if cap(p.nodes) > keep {
		p.nodes = nil
	}
	parsers.Put(p)
}

func (p *parser) read(data []byte, lim Limits, folding bool) error {
	if len(data) > maxText {
		return &SyntaxError{Reason: "too long"}
	}
	p.data = data
	plain := isPlain(data)
	if !plain {
		if err := p.wellFormed(); err != nil {
			return err
		}
	}
	p.escapes = !plain && bytes.IndexByte(data, '\\') >= 0
	p.at, p.left, p.folding, p.twice, p.last = 0, lim.Members, folding, false, 0
	p.nodes, p.frames, p.head = p.nodes[:0], p.frames[:0], [headNames]uint32{}
	p.at = p.space(0)
	if p.at == len(data) {
		return p.broken(p.at)
	}
	if data[p.at] != '{' {
		if plain {
			if err := p.wellFormed(); err != nil {
				return err
			}
		}
		return &SyntaxError{Offset: int64(p.at), Reason: "not a JSON object"}
	}
	return p.walk(lim)
}

// isPlain says whether data has nothing in it that makes strings difficult: no
// escape sequence, no control character, nothing beyond ASCII. Every string in
// such a text is what stands between its quotes, so the walk alone can tell
// whether it is JSON.
func isPlain(data []byte) bool {
	const (
		low  = 0x0101010101010101
		high = 0x8080808080808080
	)
	for len(data) >= 8 {
		w := binary.LittleEndian.Uint64(data)
		slash := w ^ low*'\\'
		// The top bit of a byte is set where the byte is beyond ASCII, below a
		// space, or a backslash.
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

// broken is the error of a text that the walk could not follow. The decoder
// finds the words; should it see nothing wrong, the text is refused all the
// same.
func (p *parser) broken(at int) error {
	if err := p.wellFormed(); err != nil {
		return err
	}
	return &SyntaxError{Offset: int64(at), Reason: "not well-formed JSON"}
}

// wellFormed says whether the data is one JSON value, in UTF-8, and nothing
// behind it.
func (p *parser) wellFormed() error {
	p.used, p.text = true, *bytes.NewBuffer(p.data)
	p.dec.Reset(&p.text, decoderOptions)
	if _, err := p.dec.ReadValue(); err != nil {
		return p.failed(err)
	}
	end := p.dec.InputOffset()
	if _, err := p.dec.ReadToken(); err != io.EOF {
		return &SyntaxError{Offset: end, Reason: "more after the object"}
	}
	return nil
}

// failed turns an error of the decoder into ours, which quotes nothing.
func (p *parser) failed(err error) error {
	at := p.dec.InputOffset()
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at = s.ByteOffset
	}
	reason := "not well-formed JSON"
	switch {
	case bytes.HasPrefix(p.data, []byte("\ufeff")):
		reason = "a byte order mark before the JSON"
	case nesting(p.data[:at]) >= deepest:
		reason = "nested too deep"
	case !utf8.Valid(p.data):
		reason = "not UTF-8"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		reason = "the text ends too early"
	}
	return &SyntaxError{Offset: at, Reason: reason}
}

// space is the offset of the first byte from at on that is no white space.
func (p *parser) space(at int) int {
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

// deepest is how deep the decoder itself goes.
const deepest = 10_000

// nesting is how many objects and arrays are open at the end of data.
func nesting(data []byte) int {
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
