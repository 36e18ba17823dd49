package charset

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// replacements are the characters whose form in ASCII does not follow from their
// decomposition in Unicode.
var replacements = map[rune]string{
	'ß': "ss", 'ẞ': "SS", 'Æ': "AE", 'æ': "ae", 'Œ': "OE", 'œ': "oe", 'Ø': "O", 'ø': "o",
	'Ð': "D", 'ð': "d", 'Đ': "D", 'đ': "d", 'Þ': "Th", 'þ': "th", 'Ł': "L", 'ł': "l",
	'Ħ': "H", 'ħ': "h", 'Ŧ': "T", 'ŧ': "t", 'Ŋ': "N", 'ŋ': "n", 'ı': "i", 'ĸ': "k", 'Ə': "A", 'ə': "a",
	'‘': "'", '’': "'", '‚': "'", '‛': "'", '′': "'", 'ʼ': "'", 'ʻ': "'", '´': "'", '“': `"`, '”': `"`, '„': `"`, '″': `"`,
	'«': `"`, '»': `"`, '‐': "-", '‑': "-", '‒': "-", '–': "-", '—': "-", '−': "-", '⁄': "/", '·': ".", '•': ".",
}

// german are the replacements for countries where German is written.
var german = map[rune]string{'ä': "ae", 'ö': "oe", 'ü': "ue", 'Ä': "Ae", 'Ö': "Oe", 'Ü': "Ue"}

// WritesGerman reports whether ä, ö and ü are written ae, oe and ue in a country, by its
// three digits of ISO 3166-1: Germany, Austria, Switzerland and Liechtenstein.
func WritesGerman(country string) bool {
	return country == "276" || country == "040" || country == "756" || country == "438"
}

// ToASCII returns a text in printable ASCII: letters without their accents, and the usual
// replacement of letters and punctuation that ASCII lacks. It returns false if a
// character has no form in ASCII.
func ToASCII(text string, asGerman bool) (string, bool) {
	var b strings.Builder
	for _, r := range norm.NFC.String(text) {
		if s, ok := replacementOf(r, asGerman); ok {
			b.WriteString(s)
			continue
		}
		if strings.ContainsRune("¼½¾", r) || r >= 0x2150 && r <= 0x215f {
			b.WriteByte(' ') // "12½" is 12 1/2
		}
		for _, d := range norm.NFKD.String(string(r)) {
			s, ok := replacementOf(d, false)
			switch {
			case ok:
				b.WriteString(s)
			case !unicode.Is(unicode.Mn, d):
				return "", false
			}
		}
	}
	return b.String(), true
}

// replacementOf returns what a single character is written as, if it is ASCII already or one
// of the tables has it.
func replacementOf(r rune, asGerman bool) (string, bool) {
	if r >= ' ' && r <= '~' {
		return string(r), true
	}
	if s, ok := german[r]; asGerman && ok {
		return s, true
	}
	s, ok := replacements[r]
	return s, ok
}

// Wrap breaks the first of some lines at blanks where it has more characters than limit, and puts
// the rest into the empty lines that follow it. It returns false, and the lines as they were, if
// the text does not fit.
func Wrap(lines []string, limit int) ([]string, bool) {
	wrapped := append([]string{}, lines...)
	for i := range wrapped {
		line := []rune(wrapped[i])
		if len(line) <= limit {
			continue
		}
		at := len(string(line[:limit+1]))
		at = strings.LastIndexByte(wrapped[i][:at], ' ')
		if at <= 0 || i+1 == len(wrapped) || wrapped[i+1] != "" {
			return lines, false
		}
		head, rest := strings.TrimRight(wrapped[i][:at], " "), strings.TrimLeft(wrapped[i][at:], " ")
		if wrapped[i], wrapped[i+1] = head, rest; head == "" {
			return lines, false
		}
	}
	return wrapped, true
}
