package ranges

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/openthreeds/threeds/message"
)

// A fastReader reads entries of cardRangeData of the usual form, and reports that it cannot read an entry of another
// form. It takes the bounds out of an entry and leaves its template: the text of the entry without the digits of its
// bounds. Entries with equal templates differ in nothing but these digits, and each bound has 13 to 19 of them. So the
// tables of the specification are asked once for each template: the answer holds for all its entries.
//
//	{"startRange":"4000000000000000","endRange":"4000009999999999","actionInd":"A",…}
//	{"startRange":"","endRange":"","actionInd":"A",…}                         template
//
// From 2.3.1 the whole content of "ranges" is taken out. The text of an unknown member is
// too, if it is a plain string: no table says anything about it.
type fastReader struct {
	version  message.Version
	template []byte
	bounds   []digitPair
	sorted   []digitPair // memory of hasEqualStarts

	text   []byte // what is read
	copied int    // how much of text is in the template, or was taken out of it
}

// A digitPair is the bounds of a range.
type digitPair struct {
	start, end             uint64
	startDigits, endDigits uint8
}

// isWhole reports whether both bounds were read.
func (p *digitPair) isWhole() bool { return p.startDigits > 0 && p.endDigits > 0 }

// maxList is how many ranges an entry may have from 2.3.1.
var maxList = message.ObjectTable("cardRange", message.V231).Field("ranges").Max

// readEntry reads the entry that text begins with, into template and bounds. It returns the
// length of the entry, or 0 if text ends before it does or the entry has not the usual form.
func (f *fastReader) readEntry(text []byte) int {
	f.text, f.copied, f.template, f.bounds = text, 0, f.template[:0], f.bounds[:0]
	if len(text) == 0 || text[0] != '{' {
		return 0
	}
	var pair digitPair
	for i := 1; ; i++ {
		end := f.readMember(i, &pair)
		if end == 0 {
			return 0
		}
		switch i = skipSpace(text, end); {
		case i >= len(text):
			return 0
		case text[i] == ',':
			continue
		case text[i] != '}':
			return 0
		}
		if f.version < message.V231 && pair.isWhole() {
			f.bounds = append(f.bounds, pair)
		}
		if len(f.bounds) == 0 {
			return 0
		}
		f.template = append(f.template, text[f.copied:i+1]...)
		return i + 1
	}
}

// readMember reads the member at i, and a bound of the entry into pair. It returns the offset behind the member, or 0
// if it does not have the usual form.
func (f *fastReader) readMember(i int, pair *digitPair) (end int) {
	name, colon := nameAt(f.text, skipSpace(f.text, i))
	if colon == 0 {
		return 0
	}
	i = skipSpace(f.text, colon+1)
	if i >= len(f.text) {
		return 0
	}
	hasList := f.version >= message.V231
	isTakenOut := true
	switch {
	case !hasList && string(name) == "startRange":
		pair.start, pair.startDigits, end = boundAt(f.text, i, pair.startDigits)
	case !hasList && string(name) == "endRange":
		pair.end, pair.endDigits, end = boundAt(f.text, i, pair.endDigits)
	case hasList && string(name) == "ranges":
		end = f.readList(i)
	default:
		length, _, isComplete := scanValue(f.text[i:], 0, 0) // what has escape sequences stays in the template
		if !isComplete {
			return 0
		}
		end = i + length
		isTakenOut = f.text[i] == '"' && !isKnownMember(name) && isPlain(f.text[i+1:end-1])
	}
	if end > 0 && isTakenOut {
		f.template = append(f.template, f.text[f.copied:i+1]...) // with the quote or the bracket
		f.copied = end - 1
	}
	return end
}

// isKnownMember reports whether any version has the member. It may say so of one that none
// has, which then stays in the template.
func isKnownMember(name []byte) bool {
	switch string(name) {
	case "startRange", "endRange", "ranges", "actionInd", "acsStartProtocolVersion", "acsEndProtocolVersion",
		"dsStartProtocolVersion", "dsEndProtocolVersion", "threeDSMethodURL", "acsInfoInd",
		"acsProtocolVersions", "dsProtocolVersions", "issuerCountryCode":
		return true
	}
	return bytes.IndexByte(name, '\\') >= 0
}

// readList reads the ranges of a 2.3.1 entry, an array at i, into bounds. It returns the
// offset behind the array, or 0 if the array has not the usual form.
func (f *fastReader) readList(i int) (end int) {
	b := f.text
	if b[i] != '[' || len(f.bounds) > 0 {
		return 0
	}
	isAscending := true
	for i++; ; i++ {
		pair, end := f.readListed(skipSpace(b, i))
		if end == 0 {
			return 0
		}
		if n := len(f.bounds); n > 0 && f.bounds[n-1].start >= pair.start {
			isAscending = false
		}
		f.bounds = append(f.bounds, pair)
		if i = skipSpace(b, end); i >= len(b) || b[i] != ',' {
			break
		}
	}
	if i >= len(b) || b[i] != ']' || len(f.bounds) > maxList || !isAscending && f.hasEqualStarts() {
		return 0
	}
	return i + 1
}

// readListed reads one range of a 2.3.1 entry, an object at i with both bounds and nothing else. It returns the offset
// behind the object, or 0 if the object has another form.
func (f *fastReader) readListed(i int) (pair digitPair, end int) {
	b := f.text
	if i >= len(b) || b[i] != '{' {
		return pair, 0
	}
	for i++; ; i++ {
		name, colon := nameAt(b, skipSpace(b, i))
		if colon == 0 {
			return pair, 0
		}
		i = skipSpace(b, colon+1)
		switch string(name) {
		case "start":
			pair.start, pair.startDigits, i = boundAt(b, i, pair.startDigits)
		case "end":
			pair.end, pair.endDigits, i = boundAt(b, i, pair.endDigits)
		default:
			return pair, 0
		}
		if i == 0 {
			return pair, 0
		}
		if i = skipSpace(b, i); i >= len(b) || b[i] != ',' {
			break
		}
	}
	if i >= len(b) || b[i] != '}' || !pair.isWhole() {
		return pair, 0
	}
	return pair, i + 1
}

// hasEqualStarts reports whether two of the ranges have one start, and so may be equal items.
func (f *fastReader) hasEqualStarts() bool {
	f.sorted = append(f.sorted[:0], f.bounds...)
	slices.SortFunc(f.sorted, func(x, y digitPair) int { return cmp.Compare(x.start, y.start) })
	different := slices.CompactFunc(f.sorted, func(x, y digitPair) bool { return x.start == y.start })
	return len(different) < len(f.bounds)
}

// skipSpace returns the offset of the first byte of b from i on that is not white space.
func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && isSpace(b[i]) {
		i++
	}
	return i
}

// nameAt returns the name of the member at i, and the offset of its colon; 0 if the name may
// have an escape sequence, or is not all in b.
func nameAt(b []byte, i int) (name []byte, colon int) {
	if i >= len(b) || b[i] != '"' {
		return nil, 0
	}
	n := bytes.IndexByte(b[i+1:], '"')
	if n <= 0 || b[i+n] == '\\' { // the quote may not be the end
		return nil, 0
	}
	name = b[i+1 : i+1+n]
	if i = skipSpace(b, i+n+2); i >= len(b) || b[i] != ':' {
		return nil, 0
	}
	return name, i
}

// boundAt reads the string at i as a bound of 13 to 19 digits, and returns the offset behind
// it. It returns 0 for anything else, and if the bound was read before: it has seen digits then.
func boundAt(b []byte, i int, seen uint8) (n uint64, digits uint8, end int) {
	if i >= len(b) || b[i] != '"' || seen > 0 {
		return 0, seen, 0
	}
	from := i + 1
	for i = from; i < len(b) && i < from+maxDigits; i++ {
		c := b[i] - '0'
		if c > 9 {
			break
		}
		n = n*10 + uint64(c)
	}
	if i >= len(b) || b[i] != '"' || i-from < minDigits {
		return 0, 0, 0
	}
	return n, uint8(i - from), i + 1
}

// isPlain reports whether a string is ASCII without escape sequences.
func isPlain(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c > '~' || c == '\\' {
			return false
		}
	}
	return true
}
