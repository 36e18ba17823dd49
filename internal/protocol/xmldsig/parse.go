package xmldsig

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits bound a document. A zero field stands for the default.
type Limits struct {
	Size   int // bytes; default 256 KiB
	Depth  int // elements inside one another, the root included; default 32
	Attrs  int // attributes of one element, declarations of namespaces included; default 64
	Tokens int // elements, attributes and pieces of text together; default 8192

	Stream *Stream // nil: the tree has all elements
}

// A Stream keeps only one in memory of the many elements that stand at one place of a
// document. At is that place, as local names from the root on; the elements must have
// the namespace of their parent. Each gets every one of them when it ends. Then it is
// removed from the tree with the white space before it, and its tokens count no longer.
type Stream struct {
	At   []string
	Each func(*Element)
}

// A ParseError says why a document cannot be read. Its text names places and never
// values.
type ParseError struct {
	Offset  int    // in bytes, where the token at fault begins
	Element string // the innermost open element, shortened; "" outside the root
	Reason  string
}

func (e *ParseError) Error() string {
	if e.Element == "" {
		return fmt.Sprintf("xmldsig: byte %d: %s", e.Offset, e.Reason)
	}
	return fmt.Sprintf("xmldsig: byte %d, in %s: %s", e.Offset, e.Element, e.Reason)
}

// The namespaces of XML itself.
const (
	spaceXML   = "http://www.w3.org/XML/1998/namespace"
	spaceXMLNS = "http://www.w3.org/2000/xmlns/"
)

// Parse reads a document within the default limits; see [Limits.Parse].
func Parse(doc []byte) (*Element, error) { return Limits{}.Parse(doc) }

// Parse reads a whole document and returns its root. It takes XML 1.0 with namespaces, in
// UTF-8 with or without a byte order mark. It refuses comments, processing instructions,
// DOCTYPE, and attributes with line breaks or tabs that are not escaped. The error is a
// *[ParseError].
func (l Limits) Parse(doc []byte) (*Element, error) {
	l = l.orDefault()
	p := &parser{limits: l, scope: map[string]string{"": "", "xml": spaceXML}}
	if len(doc) > l.Size {
		return nil, p.fault(0, "document too long")
	}
	rest := bytes.TrimPrefix(doc, []byte("\ufeff"))
	if !utf8.Valid(rest) {
		return nil, p.fault(0, "not UTF-8")
	}
	rest = rest[len(declaration.Find(rest)):]
	p.base = len(doc) - len(rest)
	p.doc = rest
	return p.document()
}

func (l Limits) orDefault() Limits {
	for _, f := range []struct {
		field *int
		def   int
	}{{&l.Size, 256 << 10}, {&l.Depth, 32}, {&l.Attrs, 64}, {&l.Tokens, 8192}} {
		if *f.field == 0 {
			*f.field = f.def
		}
	}
	return l
}

// declaration is the XML declaration that is allowed at the very start. Any other form of
// it is refused as a processing instruction.
var declaration = regexp.MustCompile(`^<\?xml` +
	`[ \t\r\n]+version[ \t\r\n]*=[ \t\r\n]*(?:"1\.0"|'1\.0')` +
	`(?:[ \t\r\n]+encoding[ \t\r\n]*=[ \t\r\n]*(?:"(?i:utf-8)"|'(?i:utf-8)'))?` +
	`(?:[ \t\r\n]+standalone[ \t\r\n]*=[ \t\r\n]*(?:"(?:yes|no)"|'(?:yes|no)'))?` +
	`[ \t\r\n]*\?>`)

// A parser builds the tree from the tokens of encoding/xml, and checks what that package
// does not.
type parser struct {
	limits Limits
	doc    []byte // without byte order mark and declaration
	base   int    // how many bytes of the document are before doc
	tokens int    // how many there were
	before int    // how many there were before the last element at the depth of the stream

	root, open *Element // open is the innermost element that has not ended
	depth      int
	pending    []byte            // text of open since the last tag
	scope      map[string]string // the namespace of each prefix at this place
	hidden     []binding         // what the declarations of open elements have replaced in scope
}

// unbound, as a namespace in hidden, says that the prefix had none.
const unbound = "\x00"

func (p *parser) fault(at int, reason string) error {
	e := &ParseError{Offset: p.base + at, Reason: reason}
	if p.open != nil {
		e.Element = shortened(p.open.Local)
	}
	return e
}

// shortened cuts a name that a sender chose to what a log line has room for.
func shortened(name string) string {
	if r := []rune(name); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return name
}

func (p *parser) document() (*Element, error) {
	dec := xml.NewDecoder(bytes.NewReader(p.doc))
	for at := 0; at < len(p.doc); at = int(dec.InputOffset()) {
		if reason := p.checkStart(p.doc[at:]); reason != "" {
			return nil, p.fault(at, reason)
		}
		token, err := dec.RawToken()
		if err != nil {
			return nil, p.fault(at, "not well-formed")
		}
		raw := p.doc[at:dec.InputOffset()]
		reason := ""
		switch t := token.(type) {
		case xml.StartElement:
			reason = p.start(t, raw)
			if reason == "" && raw[len(raw)-2] == '/' {
				_, _ = dec.RawToken() // the end of <a/>, which encoding/xml makes up without reading
				p.closeElement()
			}
		case xml.EndElement:
			reason = p.end(t)
		case xml.CharData:
			reason = p.text(t, raw)
		}
		if reason != "" {
			return nil, p.fault(at, reason)
		}
	}
	switch {
	case p.open != nil:
		return nil, p.fault(len(p.doc), "document ends inside an element")
	case p.root == nil:
		return nil, p.fault(len(p.doc), "no element")
	}
	return p.root, nil
}

// checkStart checks a token by its beginning, before anything is allocated for it. It returns the reason to refuse it,
// or "". The other methods below that return a string do the same.
func (p *parser) checkStart(rest []byte) string {
	switch {
	case bytes.HasPrefix(rest, []byte("</")):
		return "" // the start tag was counted
	case bytes.HasPrefix(rest, []byte("<!--")):
		return "comment"
	case bytes.HasPrefix(rest, []byte("<?")):
		return "processing instruction, or a declaration not of XML 1.0 in UTF-8 or not at the start"
	case bytes.HasPrefix(rest, cdata):
		return p.count(1)
	case bytes.HasPrefix(rest, []byte("<!")):
		return "DOCTYPE or another directive"
	case rest[0] == '<':
		return p.lookAtTag(rest)
	}
	return p.count(1)
}

var cdata = []byte("<![CDATA[")

// count adds to the tokens.
func (p *parser) count(tokens int) string {
	if p.tokens += tokens; p.tokens > p.limits.Tokens {
		return "too many tokens"
	}
	return ""
}

// lookAtTag counts the attributes of a start tag and checks how they are written.
func (p *parser) lookAtTag(tag []byte) string {
	attrs := 0
	for i := 1; i < len(tag); i++ {
		switch c := tag[i]; c {
		case '>':
			return p.count(1 + attrs)
		case '"', '\'':
			if attrs++; attrs > p.limits.Attrs {
				return "too many attributes"
			}
			n := bytes.IndexByte(tag[i+1:], c)
			if n < 0 {
				return "attribute without end"
			}
			if bytes.ContainsAny(tag[i+1:i+1+n], "\t\r\n") {
				// XML turns these into blanks, encoding/xml does not.
				return "line break or tab in an attribute"
			}
			i += n + 1
			if i+1 < len(tag) && !bytes.ContainsRune([]byte(" \t\r\n/>"), rune(tag[i+1])) {
				return "no white space between attributes"
			}
		}
	}
	return "tag without end"
}

// start opens an element; raw is the start tag as it is written.
func (p *parser) start(t xml.StartElement, raw []byte) string {
	switch {
	case p.open == nil && p.root != nil:
		return "second root"
	case p.depth == p.limits.Depth:
		return "elements too deep"
	case namesSurrogate(raw):
		return "reference to no character"
	}
	e := &Element{Prefix: t.Name.Space, Local: t.Name.Local, parent: p.open}
	if reason := p.enter(e, t.Attr); reason != "" {
		return reason
	}
	if p.open == nil {
		p.root = e
	} else {
		p.flush()
		p.open.Content = append(p.open.Content, Node{Element: e})
	}
	p.open = e
	p.depth++
	if s := p.limits.Stream; s != nil && p.depth == len(s.At) {
		p.before = p.tokens - 1 - len(t.Attr)
	}
	return ""
}

// enter gives e its attributes and resolves the prefixes.
func (p *parser) enter(e *Element, attrs []xml.Attr) string {
	if e.Prefix == "xmlns" || !goodName(e.Local) {
		return badName
	}
	for _, a := range attrs {
		switch {
		case !goodName(a.Name.Local):
			return badName
		case a.Name.Space == "" && a.Name.Local == "xmlns":
			e.spaces = append(e.spaces, binding{"", a.Value})
		case a.Name.Space == "xmlns":
			e.spaces = append(e.spaces, binding{a.Name.Local, a.Value})
		default:
			e.Attrs = append(e.Attrs, Attr{Prefix: a.Name.Space, Local: a.Name.Local, Value: a.Value})
		}
	}
	if reason := p.declare(e.spaces); reason != "" {
		return reason
	}
	var ok bool
	if e.Space, ok = p.scope[e.Prefix]; !ok {
		return "prefix without namespace"
	}
	for i := range e.Attrs {
		a := &e.Attrs[i]
		if a.Prefix != "" {
			if a.Space, ok = p.scope[a.Prefix]; !ok {
				return "prefix without namespace"
			}
		}
		isSame := func(other Attr) bool { return other.Local == a.Local && other.Space == a.Space }
		if slices.ContainsFunc(e.Attrs[:i], isSame) {
			return "attribute twice"
		}
	}
	return ""
}

// declare puts the declarations of an element in scope.
func (p *parser) declare(spaces []binding) string {
	for i, b := range spaces {
		if slices.ContainsFunc(spaces[:i], func(other binding) bool { return other.prefix == b.prefix }) {
			return "attribute twice"
		}
		switch {
		case b.prefix == "xmlns", b.uri == spaceXMLNS, (b.prefix == "xml") != (b.uri == spaceXML):
			return "namespace of XML itself declared again"
		case b.prefix != "" && b.uri == "":
			return "prefix declared without namespace"
		}
		before, ok := p.scope[b.prefix]
		if !ok {
			before = unbound
		}
		p.hidden = append(p.hidden, binding{b.prefix, before})
		p.scope[b.prefix] = b.uri
	}
	return ""
}

func (p *parser) end(t xml.EndElement) string {
	if p.open == nil || p.open.Prefix != t.Name.Space || p.open.Local != t.Name.Local {
		return "end of an element that is not open"
	}
	p.closeElement()
	return ""
}

// closeElement ends the open element and takes its declarations out of scope.
func (p *parser) closeElement() {
	p.flush()
	for range p.open.spaces {
		last := len(p.hidden) - 1
		if b := p.hidden[last]; b.uri == unbound {
			delete(p.scope, b.prefix)
		} else {
			p.scope[b.prefix] = b.uri
		}
		p.hidden = p.hidden[:last]
	}
	if s := p.limits.Stream; s != nil && p.stands(s.At) {
		p.handOver(s)
	}
	p.open = p.open.parent
	p.depth--
}

// stands reports whether the open element is one of the stream.
func (p *parser) stands(at []string) bool {
	if p.depth != len(at) || p.depth < 2 || p.open.Space != p.open.parent.Space {
		return false
	}
	e := p.open
	for _, name := range slices.Backward(at) {
		if e.Local != name {
			return false
		}
		e = e.parent
	}
	return true
}

// handOver passes the element that has just ended to its Stream, and removes it and the white space before it from the
// tree.
func (p *parser) handOver(s *Stream) {
	s.Each(p.open)
	p.tokens = p.before
	content := &p.open.parent.Content
	n := len(*content) - 1
	if n > 0 && (*content)[n-1].Element == nil && strings.Trim((*content)[n-1].Text, " \t\r\n") == "" {
		p.tokens--
		n--
	}
	clear((*content)[n:])
	*content = (*content)[:n]
}

// text adds a piece of text; raw is its written form.
func (p *parser) text(s, raw []byte) string {
	isCDATA := bytes.HasPrefix(raw, cdata)
	if p.open == nil {
		if isCDATA || len(bytes.Trim(raw, " \t\r\n")) > 0 {
			return "text outside the root"
		}
		return ""
	}
	if !isCDATA && namesSurrogate(raw) {
		return "reference to no character"
	}
	p.pending = append(p.pending, s...)
	return ""
}

// flush makes a node of the text since the last tag.
func (p *parser) flush() {
	if len(p.pending) > 0 {
		p.open.Content = append(p.open.Content, Node{Text: string(p.pending)})
		p.pending = p.pending[:0]
	}
}

const badName = "not a name, or not one with at most one prefix"

// goodName reports whether the local part of a name from encoding/xml is a name itself.
// encoding/xml puts a name that it cannot split at one colon into the local part, with
// its colons.
func goodName(local string) bool {
	first, _ := utf8.DecodeRuneInString(local)
	return (first == '_' || unicode.IsLetter(first)) && !strings.Contains(local, ":")
}

// namesSurrogate reports whether raw refers to half of a surrogate pair, as &#xD800; does.
// XML forbids that, encoding/xml turns it into U+FFFD.
func namesSurrogate(raw []byte) bool {
	for {
		_, after, ok := bytes.Cut(raw, []byte("&#"))
		if !ok {
			return false
		}
		digits, rest, _ := bytes.Cut(after, []byte(";"))
		base := 10
		if hex, ok := bytes.CutPrefix(digits, []byte("x")); ok {
			digits, base = hex, 16
		}
		if n, err := strconv.ParseUint(string(digits), base, 32); err == nil && 0xd800 <= n && n <= 0xdfff {
			return true
		}
		raw = rest
	}
}
