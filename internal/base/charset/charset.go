package charset

import (
	"encoding/binary"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A Set is the characters that a version of the protocol allows in texts.
type Set uint8

const (
	ASCII   Set = iota // versions before 2.3.1
	Unicode            // 2.3.1
)

// A Class is why a character is refused.
type Class uint8

const (
	Allowed   Class = iota
	Control         // a control character: U+0000 to U+001F, U+007F to U+009F
	Direction       // changes the direction of the text around it
	Separator       // ends a line or a paragraph
	NonASCII        // a character outside ASCII in a version that has nothing else
)

// A Row is one line of the table of characters.
type Row struct {
	First, Last rune
	Name        string // what the characters are, in English
	Class       Class  // why both sets lack them; Allowed means that Unicode has them
}

// rows lists all characters that are no ordinary ones, in ascending order. What is in no row
// is in Unicode, and in ASCII if it is one of its printable characters.
var rows = []Row{
	{0x00, 0x1f, "control characters, among them tab and line break", Control},
	{0x7f, 0x9f, "delete and further control characters", Control},
	{0x200e, 0x200f, "marks of direction", Direction},
	{0x2028, 0x2029, "separators of lines and paragraphs", Separator},
	{0x202a, 0x202e, "embeddings and overrides of direction", Direction},
	{0x2066, 0x2069, "isolates of direction", Direction},
}

// classOf returns why a set lacks a character.
func classOf(r rune, s Set) Class {
	for i := range rows {
		if r < rows[i].First {
			break
		}
		if r <= rows[i].Last {
			if s == ASCII && r >= utf8.RuneSelf && rows[i].Class != Control {
				return NonASCII
			}
			return rows[i].Class
		}
	}
	if s == ASCII && r >= utf8.RuneSelf {
		return NonASCII
	}
	return Allowed
}

// A Span is characters that follow each other and are treated alike.
type Span struct {
	First, Last    rune
	Name           string // what the characters are, in English
	ASCII, Unicode bool   // whether the sets have them
}

// Table returns all characters in spans, in ascending order, for documentation.
func Table() []Span {
	var all []Span
	add := func(first, last rune, name string) {
		if first <= last {
			all = append(all, Span{first, last, name, classOf(first, ASCII) == Allowed, classOf(first, Unicode) == Allowed})
		}
	}
	next := rune(0)
	for _, r := range rows {
		if next <= '~' && r.First > ' ' {
			add(' ', '~', "printable ASCII")
			next = 0x7f
		}
		add(next, r.First-1, "all other characters")
		add(r.First, r.Last, r.Name)
		next = r.Last + 1
	}
	add(next, unicode.MaxRune, "all other characters")
	return all
}

// Find looks for the first character of a text that is not in a set, and returns why it is refused. It returns Allowed
// if the set has all characters.
func Find(text string, s Set) Class {
	for _, r := range text {
		if c := classOf(r, s); c != Allowed {
			return c
		}
	}
	return Allowed
}

// FindJSON is Find for the strings of a JSON text, names included. Escape sequences count as
// what they stand for; white space between values does not count. The text must be valid JSON.
func FindJSON(raw []byte, s Set) Class {
	for i := 0; i < len(raw); {
		r, size := rune(raw[i]), 1
		switch {
		case r == '\\':
			r, size = unescape(raw[i:])
		case r >= utf8.RuneSelf:
			r, size = utf8.DecodeRune(raw[i:])
		case r < ' ': // between values: a string has no such byte
			r = ' '
		}
		if c := classOf(r, s); c != Allowed {
			return c
		}
		i += size
	}
	return Allowed
}

// unescape returns the character of the escape sequence at the start of a JSON text, and the
// length of the sequence.
func unescape(raw []byte) (r rune, size int) {
	switch raw[1] {
	case 'u':
	case 'b', 'f', 'n', 'r', 't':
		return '\n', 2 // any control character
	default:
		return rune(raw[1]), 2
	}
	r = parseHex(raw[2:6])
	if utf16.IsSurrogate(r) && len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
		return utf16.DecodeRune(r, parseHex(raw[8:12])), 12
	}
	return r, 6
}

// parseHex returns the number of four hexadecimal digits.
func parseHex(digits []byte) rune {
	n, _ := strconv.ParseUint(string(digits), 16, 16)
	return rune(n)
}

// IsPlainJSON reports whether a JSON text has neither escape sequences nor characters outside
// printable ASCII, so that every set has all of it. It reads eight bytes at a time, and is
// meant as a fast check of whole messages.
func IsPlainJSON(raw []byte) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for len(raw) >= 8 {
		x := binary.LittleEndian.Uint64(raw)
		slash, del := x^'\\'*ones, x^0x7f*ones
		// The usual test for a byte that is zero: it may err only next to a real one.
		if (x|(slash-ones)&^slash|(del-ones)&^del)&tops != 0 {
			return false
		}
		raw = raw[8:]
	}
	for _, c := range raw {
		if c == '\\' || c >= 0x7f {
			return false
		}
	}
	return true
}

// Decode returns the text of a header of HTTP. Bytes that are not UTF-8 are taken as ISO 8859-1
// (RFC 9110, section 5.5).
func Decode(header string) string {
	if utf8.ValidString(header) {
		return header
	}
	var b strings.Builder
	for i := range len(header) {
		b.WriteRune(rune(header[i]))
	}
	return b.String()
}

// Replace returns a text in the characters of a set: a letter without its accents where that is enough, a blank for
// what ends a line and for control characters, nothing for what changes the direction of text, and ? for all else.
func Replace(text string, s Set) string {
	if Find(text, s) == Allowed {
		return text
	}
	var b strings.Builder
	for _, r := range norm.NFC.String(text) {
		switch class := classOf(r, Unicode); {
		case classOf(r, s) == Allowed:
			b.WriteRune(r)
		case class == Direction:
		case class != Allowed:
			b.WriteByte(' ')
		default:
			written, ok := ToASCII(string(r), false)
			if !ok {
				written = "?"
			}
			b.WriteString(written)
		}
	}
	return b.String()
}
