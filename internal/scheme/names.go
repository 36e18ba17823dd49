package scheme

// StandIn is the scheme of cards that no other scheme issues. It is for testing, and has no profile.
const StandIn = "standin"

// schemes is the one list of card schemes. To add a scheme, add its entry here and its section to profiles.txt:
// the tests of this module fail at every other place that has to know it.
var schemes = []struct {
	name   string // its word in the API and in the configuration
	number uint8  // its number in transaction ids; a number is never changed and never given again

	// prefixes are the first digits of its cards in 3-D Secure 1.0.2, where no card ranges tell
	// the scheme: each pair is the first and the last prefix of one length.
	prefixes [][2]string
}{
	{"visa", 1, [][2]string{{"4", "4"}}},
	{"mastercard", 2, [][2]string{{"51", "55"}, {"2221", "2720"}}},
	{"amex", 5, [][2]string{{"34", "34"}, {"37", "37"}}},
	{"jcb", 3, [][2]string{{"35", "35"}}},
	{"upi", 4, [][2]string{{"62", "62"}}},
	{"protectbuy", 6, [][2]string{{"36", "36"}, {"38", "38"}, {"65", "65"}, {"6011", "6011"}}},
	{"sbn", 7, [][2]string{{"5019", "5019"}}},
	{StandIn, 0, nil},
}

// Names returns the words by which the API and the configuration call the schemes, in the
// order in which the documentation lists them.
func Names() []string {
	names := make([]string, len(schemes))
	for i := range schemes {
		names[i] = schemes[i].name
	}
	return names
}

// IsName reports whether name is one of [Names].
func IsName(name string) bool {
	for i := range schemes {
		if schemes[i].name == name {
			return true
		}
	}
	return false
}

// Number returns the number of a scheme in transaction ids. A name that is not one of
// [Names] has the number of [StandIn].
func Number(name string) uint8 {
	for i := range schemes {
		if schemes[i].name == name {
			return schemes[i].number
		}
	}
	return Number(StandIn)
}

// ByNumber returns the name of the scheme with this number in transaction ids; "" if there is none.
func ByNumber(number uint8) string {
	for i := range schemes {
		if schemes[i].number == number {
			return schemes[i].name
		}
	}
	return ""
}

// OfCard tells the scheme of a card number by its first digits, as 3-D Secure 1.0.2 does; a
// card has one scheme there. It is [StandIn] when no other scheme has such a prefix.
func OfCard(pan string) string {
	for i := range schemes {
		for _, p := range schemes[i].prefixes {
			if len(pan) < len(p[0]) {
				continue
			}
			if first := pan[:len(p[0])]; p[0] <= first && first <= p[1] {
				return schemes[i].name
			}
		}
	}
	return StandIn
}
