package transid

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxReference is the length of the longest reference, in characters.
const MaxReference = 64

// IsReference reports whether a text may be a reference, by which a requestor knows its transaction: 1 to 64 characters
// that can be printed.
func IsReference(text string) bool {
	return text != "" && utf8.ValidString(text) && utf8.RuneCountInString(text) <= MaxReference &&
		!strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}
