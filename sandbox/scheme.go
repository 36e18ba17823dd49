package sandbox

import (
	"slices"
	"strconv"
	"strings"

	"github.com/openthreeds/threeds/sandbox/internal/peer"
)

// A scheme is what differs between directory servers: data, and no code.
type scheme struct {
	word string // as the requestor's API names it
	name string // as a cardholder knows it
	rid  string

	// Electronic commerce indicators: by outcome of a payment, then of an
	// authentication without one.
	yes, attempt, no, informational string
	plainYes, plainNo               string

	// codes are the values of 80 to 99 to which the scheme gives a meaning, by element.
	codes map[string][]string

	// dataCategories and dataIndicators are the values of messageCategory and of
	// threeDSRequestorChallengeInd that ask to share data only.
	dataCategories, dataIndicators []string

	// prefixes of the ranges that its PRes has.
	prefixes []string

	// shared are the beginnings of cards that are another scheme's and this one's as well: co-badged ones. The PRes has
	// those that are in prefixes too.
	shared []string

	// spare are the beginnings that generated ranges have, of a scheme without cards of its own alone.
	spare []string
}

var schemes = []scheme{
	{word: "visa", name: "Visa", rid: "A000000003", yes: "05", attempt: "06", no: "07", informational: "07", plainYes: "05", plainNo: "07",
		codes:          map[string][]string{"threeDSRequestorChallengeInd": {"82"}, "threeRIInd": {"80"}},
		dataIndicators: []string{"06", "82"}, prefixes: []string{"4000", "4111"}},
	{word: "mastercard", name: "Mastercard", rid: "A000000004", yes: "02", attempt: "01", no: "00", informational: "06", plainYes: "N2", plainNo: "N0",
		codes:          map[string][]string{"messageCategory": {"80"}, "threeDSRequestorAuthenticationInd": {"85", "86"}},
		dataCategories: []string{"80"}, prefixes: []string{"5105", "5555", "2223"}},
	{word: "amex", name: "American Express", rid: "A000000025", yes: "05", attempt: "06", no: "07", informational: "07", plainYes: "05", plainNo: "07",
		prefixes: []string{"3400", "3782"}},
	{word: "jcb", name: "JCB", rid: "A000000065", yes: "05", attempt: "06", no: "07", informational: "07", plainYes: "05", plainNo: "07",
		prefixes: []string{"3530"}},
	{word: "upi", name: "UnionPay", rid: "A000000333", yes: "05", attempt: "06", no: "07", informational: "07", plainYes: "05", plainNo: "07",
		prefixes: []string{"6200"}},
	{word: "protectbuy", name: "Discover", rid: "A000000152", yes: "05", attempt: "06", no: "07", informational: "07", plainYes: "05", plainNo: "07",
		prefixes: []string{"3600", "6011"}},
	{word: "sbn", name: "Dankort", rid: "A000000121", yes: "05", attempt: "06", no: "07", informational: "07", plainYes: "05", plainNo: "07",
		prefixes: []string{"5019"}, shared: []string{"4571"}, spare: []string{"5018"}},
	// Cartes Bancaires has the indicators of the other scheme on the card, see indicatorsOf.
	{word: "cb", name: "CB", rid: "A000000042",
		prefixes: []string{"400097", "510597"}, shared: []string{"400097", "510597"}, spare: []string{"4971"}},
	{word: "standin", name: "Stand-in", rid: "A000000999", yes: "05", attempt: "06", no: "07", informational: "07", plainYes: "05", plainNo: "07",
		prefixes: []string{"3000", "5000", "6000", "7000"}},
}

// holds says whether a card number is one of the scheme's, alone or together with another.
func (s *scheme) holds(pan string) bool {
	return schemeOf(pan) == s.word ||
		slices.ContainsFunc(s.shared, func(prefix string) bool { return strings.HasPrefix(pan, prefix) })
}

// schemeOf is the scheme that a card number belongs to, by its first digits; of a
// co-badged card the first.
func schemeOf(pan string) string {
	first := func(n int) int {
		v, _ := strconv.Atoi(pan[:min(n, len(pan))])
		return v
	}
	switch two, four := first(2), first(4); {
	case strings.HasPrefix(pan, "4"):
		return "visa"
	case 51 <= two && two <= 55, 2221 <= four && four <= 2720:
		return "mastercard"
	case two == 34, two == 37:
		return "amex"
	case two == 35:
		return "jcb"
	case two == 62:
		return "upi"
	case two == 36, two == 38, two == 65, four == 6011:
		return "protectbuy"
	case four == 5019:
		return "sbn"
	}
	return "standin"
}

// indicatorsOf is the scheme whose electronic commerce indicators a card of s has.
func (s *scheme) indicatorsOf(pan string) *scheme {
	if s.yes != "" {
		return s
	}
	word := schemeOf(pan)
	return &schemes[slices.IndexFunc(schemes, func(of scheme) bool { return of.word == word })]
}

// eci is what the scheme's issuers put next to a transaction status; a status that is no result yet has none.
func (s *scheme) eci(status string, payment bool) string {
	switch status {
	case "Y":
		if !payment {
			return s.plainYes
		}
		return s.yes
	case "A":
		return s.attempt
	case "I":
		return s.informational
	case "N", "U", "R":
		if !payment {
			return s.plainNo
		}
		return s.no
	}
	return ""
}

func (s *scheme) serverName() string { return "ds." + s.word + ".sandbox.test" }
func (s *scheme) clientName() string { return "rreq." + s.word + ".sandbox.test" }
func (s *scheme) ownerName() string  { return "3dss." + s.word + ".sandbox.test" }

// refNumber and the two of the issuer have the form of EMVCo's numbers.
func (s *scheme) refNumber() string { return "3DS_LOA_DIS_SNDB_020301_" + s.rid[5:] }

const acsRefNumber = "3DS_LOA_ACS_SNDB_020301_00001"

func (s *scheme) operatorID() string { return "SANDBOX-ACS-" + strings.ToUpper(s.word) }

// The protocol versions that all directory servers speak.
const (
	v210 = peer.V210
	v220 = peer.V220
	v231 = peer.V231
)

// leads are the first four digits of the scheme's cards that its documented ranges do not use. If those use all, leads
// are the spare ones.
func (s *scheme) leads() []string {
	var all []string
	for n := 1000; n < 9000; n++ { // the older test cards begin with 9
		lead := strconv.Itoa(n)
		if schemeOf(lead) == s.word && !slices.Contains(s.prefixes, lead) {
			all = append(all, lead)
		}
	}
	if all == nil {
		all = s.spare
	}
	return all
}
