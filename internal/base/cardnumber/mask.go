package cardnumber

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// Mask is [Scrub] for texts with unknown content, such as lines of the log: it also hides numbers whose check digit is
// wrong. It replaces every run of 13 digits or more in s by "***", also one with single spaces, dashes, dots, slashes
// or underscores inside. The digits of a UUID are left alone, and those of a time or of addresses in a network. If
// hiding the digits behind a UUID has cut into it, it is no UUID any more and is hidden too.
//
// Hexadecimal words are hidden too if they may be a card number, as a stack has them: one word of 13 to 19 decimal
// digits, or bytes that are digits of a text.
func Mask(s string) string {
	for {
		masked := Scrub(maskOnce(s))
		if masked == s {
			return s
		}
		s = masked
	}
}

func maskOnce(s string) string {
	var b strings.Builder
	last := 0
	hide := func(from, to int, by string) {
		b.WriteString(s[last:from])
		b.WriteString(by)
		last = to
	}
	for i := 0; i < len(s); {
		if !isDigit(s[i]) {
			i++
			continue
		}
		if end, isHidden := hexWords(s, i); end > i {
			if isHidden {
				hide(i, end, "0x***")
			}
			i = end
			continue
		}
		end, digits := run(s, i)
		if digits >= minCardDigits && !partOfUUID(s, i, end) && !isTimeOrAddress(s, i, end) {
			hide(i, end, "***")
		}
		i = end
	}
	if last == 0 {
		return s
	}
	return b.String() + s[last:]
}

// run finds the digits that begin at i, with single separators between them, and returns its end and how many digits it
// has.
func run(s string, i int) (end, digits int) {
	for end = i; end < len(s); end++ {
		switch {
		case isDigit(s[end]):
			digits++
		case strings.IndexByte(" -./_", s[end]) >= 0 && end+1 < len(s) && isDigit(s[end+1]) && !isHexWord(s, end+1):
		default:
			return end, digits
		}
	}
	return end, digits
}

// The card numbers of 13 to 19 digits, as numbers, go from minCardWord to maxCardWord. An address in memory may be
// hidden too, since it looks like a card number.
const (
	minCardWord = 1_000_000_000_000
	maxCardWord = 9_999_999_999_999_999_999
)

// maxShownBytes is how many digits of a card number a list of bytes may show. The first six digits identify no
// cardholder.
const maxShownBytes = 6

// hexWords returns the end of the hexadecimal word that begins at i, and whether it may be a card number. If it is a
// byte with a digit of a text, the bytes with digits behind it belong to it. Without a word at i, end is i.
func hexWords(s string, i int) (end int, isCard bool) {
	if !isHexWord(s, i) {
		return i, false
	}
	if n, end := digitBytes(s, i); n > 0 {
		return end, n > maxShownBytes
	}
	end = endOfHex(s, i)
	word, err := strconv.ParseUint(s[i+2:end], 16, 64)
	if err != nil { // longer than any word
		return i, false
	}
	return end, minCardWord <= word && word <= maxCardWord
}

// digitBytes counts the bytes from i on that are digits of a text, as in "0x34, 0x30", and returns their end.
func digitBytes(s string, i int) (n, end int) {
	for isHexWord(s, i) && endOfHex(s, i) == i+4 && s[i+2] == '3' && isDigit(s[i+3]) {
		n, end = n+1, i+4
		i = end + len(s[end:]) - len(strings.TrimPrefix(strings.TrimPrefix(s[end:], ","), " "))
	}
	return n, end
}

// isHexWord reports whether a hexadecimal word begins at i.
func isHexWord(s string, i int) bool {
	return i+2 < len(s) && s[i] == '0' && (s[i+1] == 'x' || s[i+1] == 'X') && isHex(s[i+2])
}

// endOfHex returns the end of the hexadecimal word that begins at i.
func endOfHex(s string, i int) int {
	for i += 2; i < len(s) && isHex(s[i]); i++ {
	}
	return i
}

// partOfUUID reports whether s[i:end] lies within the text of a UUID.
func partOfUUID[T string | []byte](s T, i, end int) bool {
	for from := max(0, end-36); from <= i && from+36 <= len(s); from++ {
		if s[from+8] != '-' || s[from+13] != '-' || s[from+18] != '-' || s[from+23] != '-' {
			continue
		}
		n := 0
		for n < 36 && (isHex(s[from+n]) || s[from+n] == '-') {
			n++
		}
		if n == 36 {
			return true
		}
	}
	return false
}

var (
	// unixTime is seconds since 1970 with their fraction, until 2033.
	unixTime = regexp.MustCompile(`^1\d{9}\.\d{1,9}$`)
	// dayTime is a day and a time of day, of this century, with other separators than colons, as in names of files.
	dayTime = regexp.MustCompile(
		`^20\d\d([-/._]?)[01]\d([-/._]?)[0-3]\d[_.][0-2]\d[-._]?[0-5]\d[-._]?[0-5]\d(\.\d{1,9})?$`)
	// zonedSeconds is what stands behind the minutes of a time with a zone west of Greenwich.
	zonedSeconds = regexp.MustCompile(`^[0-6]\d\.\d{1,9}-[01]\d([0-5]\d)?$`)
)

// isTimeOrAddress reports whether s[i:end] is a time, or addresses of machines or networks.
func isTimeOrAddress(s string, i, end int) bool {
	text := s[i:end]
	if unixTime.MatchString(text) || dayTime.MatchString(text) ||
		i > 0 && s[i-1] == ':' && zonedSeconds.MatchString(text) {
		return true
	}
	for part := range strings.FieldsFuncSeq(text, func(c rune) bool { return c == ' ' || c == '-' }) {
		_, notAddress := netip.ParseAddr(part)
		_, notNetwork := netip.ParsePrefix(part)
		if notAddress != nil && notNetwork != nil {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isHex(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

// MaskNumber returns the first six and the last four digits of a card number, and nothing of what is none.
func MaskNumber(text string) string {
	if len(text) > maxCardDigits || MaskDigits(text) == text {
		return hidden
	}
	return MaskDigits(text)
}

// MaskDigits returns a text without a card number: of 13 digits or more it keeps the first six and the last four.
func MaskDigits(s string) string {
	if len(s) < minCardDigits || strings.Trim(s, "0123456789") != "" {
		return s
	}
	return s[:6] + strings.Repeat("*", len(s)-10) + s[len(s)-4:]
}
