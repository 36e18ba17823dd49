package scheme

import (
	"crypto/sha256"
	"encoding/binary"
	"regexp"
	"slices"
)

// StandIn is the scheme of cards that no other scheme issues. It is for testing, and has no profile.
const StandIn = "standin"

// originals are the schemes whose words the API had before a directory could have any word. 3-D Secure
// 1.0.2 has no others. To add a scheme, add its word to furtherNames and its section to profiles.txt.
var originals = []original{
	{"visa", 1, [][2]string{{"4", "4"}}},
	{"mastercard", 2, [][2]string{{"51", "55"}, {"2221", "2720"}}},
	{"amex", 5, [][2]string{{"34", "34"}, {"37", "37"}}},
	{"jcb", 3, [][2]string{{"35", "35"}}},
	{"upi", 4, [][2]string{{"62", "62"}}},
	{"protectbuy", 6, [][2]string{{"36", "36"}, {"38", "38"}, {"65", "65"}, {"6011", "6011"}}},
	{"sbn", 7, [][2]string{{"5019", "5019"}}},
	{StandIn, 0, nil},
}

// An original is one of originals.
type original struct {
	name   string // its word in the API and in the configuration
	number uint16 // its number in transaction ids; a number is never changed and never given again

	// prefixes are the first digits of its cards in 3-D Secure 1.0.2, where no card ranges tell
	// the scheme: each pair is the first and the last prefix of one length.
	prefixes [][2]string
}

// furtherNames are the words of further schemes with public rules. Their numbers in transaction ids are made from the
// words, as for every word that an operator chooses.
var furtherNames = []string{"cb", "eftpos", "elo", "rupay", "mada", "troy", "mir", "itmx"}

// Originals returns the words of the schemes that 3-D Secure 1.0.2 has too, in the order in which the
// documentation lists them.
func Originals() []string {
	names := make([]string, len(originals))
	for i := range originals {
		names[i] = originals[i].name
	}
	return names
}

// IsOriginal reports whether name is one of [Originals].
func IsOriginal(name string) bool { return findOriginal(name) >= 0 }

// findOriginal returns the index of a name in originals, -1 if it is none of them.
func findOriginal(name string) int {
	return slices.IndexFunc(originals, func(o original) bool { return o.name == name })
}

// Names returns the words of the schemes that this package has facts of, and [StandIn]. They are in the
// order in which the documentation lists them. The configuration may give a directory any other word
// too; see [IsWord].
func Names() []string { return append(Originals(), furtherNames...) }

// IsName reports whether name is one of [Names].
func IsName(name string) bool { return IsOriginal(name) || slices.Contains(furtherNames, name) }

// WordForm says in words what [IsWord] accepts.
const WordForm = "2 to 32 of a-z, 0-9 and -, the first a letter"

var wordForm = regexp.MustCompile(`^[a-z][a-z0-9-]{1,31}$`)

// IsWord reports whether a directory may be called word in the API and in the configuration. The word for
// the facts of all schemes in profiles is not free.
func IsWord(word string) bool { return word != every && wordForm.MatchString(word) }

// Number returns the number of a scheme in transaction ids. It is the same on every node and in every
// release. That of an original is in the list; that of any other word is made from the word, and
// is 16 or more. The empty word has the number of [StandIn].
//
// Two words can have the same number. A configuration that has both is refused, see [SameNumber].
func Number(word string) uint16 {
	if word == "" {
		word = StandIn
	}
	if i := findOriginal(word); i >= 0 {
		return originals[i].number
	}
	const least, most = 1 << 4, 1<<16 - 1
	sum := sha256.Sum256([]byte(word))
	return uint16(least + binary.BigEndian.Uint32(sum[:])%(most-least+1))
}

// SameNumber returns the first of some words that has the number of word and is another word; "" if none
// has it.
func SameNumber(word string, others []string) string {
	number := Number(word)
	for _, other := range others {
		if other != word && Number(other) == number {
			return other
		}
	}
	return ""
}

// OfCard tells the scheme of a card number by its first digits, as 3-D Secure 1.0.2 does; a
// card has one scheme there. It is [StandIn] when no other scheme has such a prefix.
func OfCard(pan string) string {
	for i := range originals {
		for _, p := range originals[i].prefixes {
			if len(pan) < len(p[0]) {
				continue
			}
			if first := pan[:len(p[0])]; p[0] <= first && first <= p[1] {
				return originals[i].name
			}
		}
	}
	return StandIn
}
