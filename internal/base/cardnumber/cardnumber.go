// Package cardnumber finds card numbers where none may be, and hides them. It is the one place that knows how a card
// number looks.
//
// Use [Check] or [IsIn] before a name, a label or a reference is taken, [Scrub] for what is kept, such as the audit
// trail, and [Mask] for texts with unknown content, such as lines of the log. [MayBe] tells whether somebody has typed
// a number into a field of a search.
package cardnumber

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"regexp"
	"slices"
	"strings"
)

// hidden stands where a card number stood.
const hidden = "***"

// A card number has minCardDigits to maxCardDigits digits, and in base64 or hexadecimal at least
// minCodedLen characters.
const (
	minCardDigits = 13
	maxCardDigits = 19
	minCodedLen   = minCardDigits * 4 / 3
)

// IsIn reports whether a text has a card number in it, as [Scrub] knows one.
func IsIn[T string | []byte](text T) bool {
	return !isClean(text) && scrub(string(text)) != string(text)
}

// ErrFound says that a text has a card number in it that may have none, and what to do.
var ErrFound = errors.New(
	"has what looks like a card number in it, which may not be kept here: choose a text without one")

// Check returns [ErrFound] if a text has a card number in it.
func Check(text string) error {
	if IsIn(text) {
		return ErrFound
	}
	return nil
}

// MayBe reports whether a text is as long as a card number or a little shorter, and has only digits, blanks, dashes,
// dots, slashes and underscores. It does not look at the check digit, because people mistype numbers.
func MayBe(text string) bool {
	digits := onlyDigits(text)
	return len(digits) >= minCardDigits-1 && len(digits) <= maxCardDigits &&
		strings.Trim(text, "0123456789"+separators) == ""
}

// separators are the characters that people write between the digits of a card number.
const separators = " \t\u00a0-./_"

// Scrub replaces each card number in a text by "***". A card number has 13 to 19 digits, also with one or two blanks,
// dashes, dots, slashes or underscores between them. It begins with 3 to 9 or 22 to 27, like the numbers of the card
// schemes, so that days and times do not count. Its last digit fits the others (Luhn, ISO/IEC 7812-1). Numbers in
// base64 and in hexadecimal are found, too. UUIDs, digests and addresses of networks are left as they are.
func Scrub(text string) string {
	if isClean(text) {
		return text
	}
	return scrub(text)
}

// scrub is Scrub for a text that may have a card number in it.
func scrub(text string) string {
	var b strings.Builder
	last := 0
	replace := func(from, end int, by string) {
		b.WriteString(text[last:from] + by)
		last = end
	}
	for i := 0; i < len(text); {
		switch {
		case !isWordByte(text[i]):
			i++
		case isDigit(text[i]):
			end := endOfRun(text, i)
			if coded := endOfWord(text, i); coded > end && isCoded(text[i:coded], hex.DecodeString) {
				replace(i, coded, hidden)
				end = coded
			} else if end-i >= minCardDigits && !partOfUUID(text, i, end) && !isPartOfDigest(text, i, end) &&
				!isTimeOrAddress(text, i, end) {
				if scrubbed := scrubRun(text[i:end]); scrubbed != text[i:end] {
					replace(i, end, scrubbed)
				}
			}
			i = end
		default:
			end := endOfWord(text, i)
			if strings.IndexByte("MNO", text[i]) >= 0 && isCoded(text[i:end], fromBase64) {
				replace(i, end, hidden)
				i = end
				continue
			}
			for i < end && !isDigit(text[i]) {
				i++
			}
		}
	}
	if last == 0 {
		return text
	}
	return b.String() + text[last:]
}

// endOfRun returns the end of the digits that begin at i, with at most two separators between each two.
func endOfRun[T string | []byte](text T, i int) int {
	end := i
	for gap := 0; i < len(text); {
		size := 1
		switch {
		case isDigit(text[i]):
			end, gap = i+1, 0
		case gap < 2:
			gap++
			if size = separatorAt(text, i); size == 0 {
				return end
			}
		default:
			return end
		}
		i += size
	}
	return end
}

// separatorAt returns how many bytes the separator at i has; 0 means that there is none.
func separatorAt[T string | []byte](text T, i int) int {
	switch text[i] {
	case ' ', '\t', '-', '.', '/', '_':
		return 1
	case "\u00a0"[0]:
		if i+1 < len(text) && text[i+1] == "\u00a0"[1] {
			return 2
		}
	}
	return 0
}

// isWordByte reports whether a byte may be in a word of base64 or of hexadecimal digits.
func isWordByte(c byte) bool {
	return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'z' || c == '='
}

// endOfWord returns the end of the word that begins at i.
func endOfWord[T string | []byte](text T, i int) int {
	for i < len(text) && isWordByte(text[i]) {
		i++
	}
	return i
}

// isCoded reports whether a word is the code of a card number alone.
func isCoded(word string, decode func(string) ([]byte, error)) bool {
	if len(word) < minCodedLen {
		return false
	}
	plain, err := decode(word)
	return err == nil && MayBe(string(plain)) && IsIn(string(plain))
}

// Without replaces each run of digits that contains this number by "***" and the last four digits. Between the digits
// there may be what [Scrub] allows. It does not look at the check digit.
func Without(text, number string) string {
	if !Has(text, number) {
		return text
	}
	return without(text, number)
}

// without is Without for a text that may have the number in it.
func without(text, number string) string {
	var b strings.Builder
	last := 0
	for i := 0; i < len(text); {
		if !isDigit(text[i]) {
			i++
			continue
		}
		end := endOfRun(text, i)
		if end-i >= len(number) && strings.Contains(onlyDigits(text[i:end]), number) {
			b.WriteString(text[last:i] + hidden + number[max(0, len(number)-4):])
			last = end
		}
		i = end
	}
	if last == 0 {
		return text
	}
	return b.String() + text[last:]
}

// fromBase64 decodes base64, in either alphabet: the two characters in which they differ are in no code of digits.
func fromBase64(word string) ([]byte, error) {
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(word, "="))
}

// digitGroups finds the groups of digits between separators.
var digitGroups = regexp.MustCompile(`[0-9]+`)

// scrubRun replaces the card numbers in digits with separators. A card number begins and ends where a group of digits
// does. Of several that overlap the longest counts.
func scrubRun(run string) string {
	groups := digitGroups.FindAllStringIndex(run, -1)
	var b strings.Builder
	last := 0
	for i := 0; i < len(groups); i++ {
		for j := len(groups) - 1; j >= i; j-- {
			from, end := groups[i][0], groups[j][1]
			if isCardNumber(onlyDigits(run[from:end])) || i == j && isCoded(run[from:end], hex.DecodeString) {
				b.WriteString(run[last:from] + hidden)
				last, i = end, j
				break
			}
		}
	}
	return b.String() + run[last:]
}

// isCardNumber reports whether digits are a card number, as [Scrub] describes one.
func isCardNumber[T string | []byte](digits T) bool {
	if len(digits) < minCardDigits || len(digits) > maxCardDigits {
		return false
	}
	if digits[0] < '2' || digits[0] == '2' && (digits[1] < '2' || digits[1] > '7') {
		return false
	}
	sum := 0
	for i := range len(digits) {
		n := int(digits[len(digits)-1-i] - '0')
		if i%2 == 1 {
			n = n*2/10 + n*2%10
		}
		sum += n
	}
	return sum%10 == 0
}

// digestLengths are how many hexadecimal digits the digests and their beginnings have that are shown.
var digestLengths = []int{16, 32, 40, 64}

// isPartOfDigest reports whether text[from:end] lies in a word of hexadecimal digits that is as long as a
// digest and has a letter.
func isPartOfDigest(text string, from, end int) bool {
	begin := from
	for begin > 0 && isHex(text[begin-1]) {
		begin--
	}
	for end < len(text) && isHex(text[end]) {
		end++
	}
	word := text[begin:end]
	return slices.Contains(digestLengths, len(word)) && strings.Trim(word, "0123456789") != "" &&
		!strings.ContainsFunc(word, func(r rune) bool { return !isHex(byte(r)) })
}

// onlyDigits returns the digits of a text.
func onlyDigits(text string) string {
	return strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, text)
}
