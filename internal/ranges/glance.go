package ranges

import (
	"bytes"
	"slices"

	"github.com/openthreeds/threeds/message"
)

// A glance is a quick look at an entry of cardRangeData. It takes the bounds
// out and leaves the skeleton: the text of the entry without the digits of its
// bounds. Entries with equal skeletons differ in nothing but these digits, and
// a glance only succeeds when they are 13 to 19 digits. So what the tables say
// of one entry holds for all with its skeleton, and has to be asked once.
//
//	{"startRange":"4000000000000000","endRange":"4000009999999999","actionInd":"A",…}
//	{"startRange":"","endRange":"","actionInd":"A",…}                         skeleton
//
// From 2.3.1 the whole content of "ranges" is taken out. The text of an unknown
// member is too, if it is a plain string: no table says anything about it.
type glance struct {
	version  message.Version
	skeleton []byte
	bounds   []digitPair
	sorted   []digitPair
}

// A digitPair is the bounds of a range.
type digitPair struct {
	start, end             uint64
	startDigits, endDigits uint8
}

// maxList is how many ranges an entry may have from 2.3.1.
var maxList = message.ObjectTable("cardRange", message.V231).Field("ranges").Max

// entry looks at the entry that b begins with. It returns its length, or 0 when
// b ends before, or something about the entry is not usual.
func (g *glance) entry(b []byte) int {
	g.skeleton, g.bounds = g.skeleton[:0], g.bounds[:0]
	if len(b) == 0 || b[0] != '{' {
		return 0
	}
	var p digitPair
	first := 0 // what of b is not yet in the skeleton
	for i := 1; ; i++ {
		i = space(b, i)
		name, colon := nameAt(b, i)
		if colon == 0 {
			return 0
		}
		i = space(b, colon+1)
		if i >= len(b) {
			return 0
		}
		var end int
		switch {
		case g.version < message.V231 && string(name) == "startRange":
			if p.start, p.startDigits, end = boundAt(b, i, p.startDigits); end == 0 {
				return 0
			}
			g.skeleton = append(g.skeleton, b[first:i+1]...)
			first = end - 1
		case g.version < message.V231 && string(name) == "endRange":
			if p.end, p.endDigits, end = boundAt(b, i, p.endDigits); end == 0 {
				return 0
			}
			g.skeleton = append(g.skeleton, b[first:i+1]...)
			first = end - 1
		case g.version >= message.V231 && string(name) == "ranges":
			if end = g.list(b, i); end == 0 {
				return 0
			}
			g.skeleton = append(g.skeleton, b[first:i+1]...)
			first = end - 1
		default:
			if end = skip(b, i); end == 0 {
				return 0
			}
			if b[i] == '"' && !g.knows(name) && isPlain(b[i+1:end-1]) {
				g.skeleton = append(g.skeleton, b[first:i+1]...)
				first = end - 1
			}
		}
		i = space(b, end)
		if i >= len(b) || b[i] != ',' && b[i] != '}' {
			return 0
		}
		if b[i] == ',' {
			continue
		}
		if g.version < message.V231 {
			if p.startDigits == 0 || p.endDigits == 0 {
				return 0
			}
			g.bounds = append(g.bounds, p)
		}
		if len(g.bounds) == 0 {
			return 0
		}
		g.skeleton = append(g.skeleton, b[first:i+1]...)
		return i + 1
	}
}

// knows reports whether any version has the member. It need not be exact: what
// it knows stays in the skeleton.
func (g *glance) knows(name []byte) bool {
	switch string(name) {
	case "startRange", "endRange", "ranges", "actionInd", "acsStartProtocolVersion", "acsEndProtocolVersion",
		"dsStartProtocolVersion", "dsEndProtocolVersion", "threeDSMethodURL", "acsInfoInd",
		"acsProtocolVersions", "dsProtocolVersions", "issuerCountryCode":
		return true
	}
	return bytes.IndexByte(name, '\\') >= 0
}

// list looks at the ranges of a 2.3.1 entry.
func (g *glance) list(b []byte, i int) int {
	if b[i] != '[' || len(g.bounds) > 0 {
		return 0
	}
	ascending := true
	for i++; ; i++ {
		var p digitPair
		if i = space(b, i); i >= len(b) || b[i] != '{' {
			return 0
		}
		for i++; ; i++ {
			name, colon := nameAt(b, space(b, i))
			if colon == 0 {
				return 0
			}
			i = space(b, colon+1)
			switch string(name) {
			case "start":
				p.start, p.startDigits, i = boundAt(b, i, p.startDigits)
			case "end":
				p.end, p.endDigits, i = boundAt(b, i, p.endDigits)
			default:
				return 0
			}
			if i == 0 {
				return 0
			}
			if i = space(b, i); i >= len(b) || b[i] != ',' {
				break
			}
		}
		if i >= len(b) || b[i] != '}' || p.startDigits == 0 || p.endDigits == 0 {
			return 0
		}
		if n := len(g.bounds); n > 0 && g.bounds[n-1].start >= p.start {
			ascending = false
		}
		g.bounds = append(g.bounds, p)
		if i = space(b, i+1); i >= len(b) || b[i] != ',' {
			break
		}
	}
	if i >= len(b) || b[i] != ']' || len(g.bounds) > maxList || !ascending && g.twice() {
		return 0
	}
	return i + 1
}

// twice reports whether the ranges may hold equal items.
func (g *glance) twice() bool {
	g.sorted = append(g.sorted[:0], g.bounds...)
	slices.SortFunc(g.sorted, func(x, y digitPair) int {
		switch {
		case x.start < y.start:
			return -1
		case x.start > y.start:
			return 1
		}
		return 0
	})
	for i := 1; i < len(g.sorted); i++ {
		if g.sorted[i].start == g.sorted[i-1].start {
			return true
		}
	}
	return false
}

// space is the offset of what is not white space.
func space(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && isSpace(b[i]) {
		i++
	}
	return i
}

// nameAt is the name of the member at i, and where its colon is; 0 when that
// cannot be told at a glance.
func nameAt(b []byte, i int) (name []byte, colon int) {
	if i >= len(b) || b[i] != '"' {
		return nil, 0
	}
	n := bytes.IndexByte(b[i+1:], '"')
	if n <= 0 || b[i+n] == '\\' { // the quote may not be the end
		return nil, 0
	}
	name = b[i+1 : i+1+n]
	if i = space(b, i+n+2); i >= len(b) || b[i] != ':' {
		return nil, 0
	}
	return name, i
}

// boundAt reads a bound that is 13 to 19 digits and nothing else, for the first
// time, and returns the offset behind it; 0 for anything else.
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

// skip is the offset behind the value at i, 0 when that cannot be told at a
// glance: there are escape sequences, or b ends before.
func skip(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			n := bytes.IndexByte(b[i+1:], '"')
			if n < 0 || b[i+n] == '\\' {
				return 0
			}
			i += n + 2
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return 0
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
