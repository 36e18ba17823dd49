package cards

import (
	"slices"
	"strconv"
	"strings"

	"github.com/openthreeds/threeds/sandbox/internal/peer"
)

// Schemes are those with a directory server, in the order of the documentation.
func Schemes() []*Scheme {
	var schemes []*Scheme
	for i := range all {
		schemes = append(schemes, &all[i])
	}
	return schemes
}

// A Scheme is what differs between directory servers: data, and no code.
type Scheme struct {
	Word string // as the requestor's API names it
	Name string // as a cardholder knows it
	RID  string

	// Electronic commerce indicators: by outcome of a payment, then of an
	// authentication without one.
	Yes, Attempt, no, informational string
	plainYes, plainNo               string

	// Codes are the values of 80 to 99 to which the scheme gives a meaning, by element.
	Codes map[string][]string

	// DataCategories and dataIndicators are the values of messageCategory and of
	// threeDSRequestorChallengeInd that ask to share data only.
	DataCategories, dataIndicators []string

	// Prefixes of the ranges that its PRes has.
	Prefixes []string

	// shared are the beginnings of cards that are another scheme's and this one's as well: co-badged ones. The PRes has
	// those that are in Prefixes too.
	shared []string

	// spare are the beginnings that generated ranges have, of a scheme without cards of its own alone.
	spare []string
}

// all are the schemes with a directory server.
var all = []Scheme{
	{Word: "visa", Name: "Visa", RID: "A000000003", Yes: "05", Attempt: "06", no: "07", informational: "07",
		plainYes: "05", plainNo: "07",
		Codes:          map[string][]string{"threeDSRequestorChallengeInd": {"82"}, "threeRIInd": {"80"}},
		dataIndicators: []string{"06", "82"}, Prefixes: []string{"4000", "4111"}},
	{Word: "mastercard", Name: "Mastercard", RID: "A000000004", Yes: "02", Attempt: "01", no: "00", informational: "06",
		plainYes: "N2", plainNo: "N0",
		Codes:          map[string][]string{"messageCategory": {"80"}, "threeDSRequestorAuthenticationInd": {"85", "86"}},
		DataCategories: []string{"80"}, Prefixes: []string{"5105", "5555", "2223"}},
	{Word: "amex", Name: "American Express", RID: "A000000025", Yes: "05", Attempt: "06", no: "07", informational: "07",
		plainYes: "05", plainNo: "07", Prefixes: []string{"3400", "3782"}},
	{Word: "jcb", Name: "JCB", RID: "A000000065", Yes: "05", Attempt: "06", no: "07", informational: "07", plainYes: "05",
		plainNo: "07", Prefixes: []string{"3530"}},
	{Word: "upi", Name: "UnionPay", RID: "A000000333", Yes: "05", Attempt: "06", no: "07", informational: "07",
		plainYes: "05", plainNo: "07", Prefixes: []string{"6200"}},
	{Word: "protectbuy", Name: "Discover", RID: "A000000152", Yes: "05", Attempt: "06", no: "07", informational: "07",
		plainYes: "05", plainNo: "07", Prefixes: []string{"3600", "6011"}},
	{Word: "sbn", Name: "Dankort", RID: "A000000121", Yes: "05", Attempt: "06", no: "07", informational: "07",
		plainYes: "05", plainNo: "07", Prefixes: []string{"5019"}, shared: []string{"4571"}, spare: []string{"5018"}},
	// Cartes Bancaires has the indicators of the other scheme on the card, see IndicatorsOf.
	{Word: "cb", Name: "CB", RID: "A000000042",
		Prefixes: []string{"400097", "510597"}, shared: []string{"400097", "510597"}, spare: []string{"4971"}},
	{Word: "standin", Name: "Stand-in", RID: "A000000999", Yes: "05", Attempt: "06", no: "07", informational: "07",
		plainYes: "05", plainNo: "07", Prefixes: []string{"3000", "5000", "6000", "7000"}},
}

// Holds says whether a card number is one of the scheme's, alone or together with another.
func (s *Scheme) Holds(pan string) bool {
	return SchemeOf(pan) == s.Word ||
		slices.ContainsFunc(s.shared, func(prefix string) bool { return strings.HasPrefix(pan, prefix) })
}

// SchemeOf is the scheme that a card number belongs to, by its first digits; of a
// co-badged card the first.
func SchemeOf(pan string) string {
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

// IndicatorsOf is the scheme whose electronic commerce indicators a card of s has.
func (s *Scheme) IndicatorsOf(pan string) *Scheme {
	if s.Yes != "" {
		return s
	}
	word := SchemeOf(pan)
	return &all[slices.IndexFunc(all, func(of Scheme) bool { return of.Word == word })]
}

// ECI is what the scheme's issuers put next to a transaction status; a status that is no result yet has none.
func (s *Scheme) ECI(status string, payment bool) string {
	switch status {
	case "Y":
		if !payment {
			return s.plainYes
		}
		return s.Yes
	case "A":
		return s.Attempt
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

// ServerName is the name in the certificate of the directory server.
func (s *Scheme) ServerName() string { return "ds." + s.Word + ".sandbox.test" }

// ClientName is the name with which results come.
func (s *Scheme) ClientName() string { return "rreq." + s.Word + ".sandbox.test" }

// OwnerName is the name of the 3DS Server.
func (s *Scheme) OwnerName() string { return "3dss." + s.Word + ".sandbox.test" }

// RefNumber is dsReferenceNumber. It and the numbers of the issuer have the form of EMVCo's.
func (s *Scheme) RefNumber() string { return "3DS_LOA_DIS_SNDB_020301_" + s.RID[5:] }

// OperatorID is acsOperatorID.
func (s *Scheme) OperatorID() string { return "SANDBOX-ACS-" + strings.ToUpper(s.Word) }

// Leads are the first four digits of the scheme's cards that its documented ranges do not use. If those use all, Leads
// are the spare ones.
func (s *Scheme) Leads() []string {
	var leads []string
	for n := 1000; n < 9000; n++ { // the older test cards begin with 9
		lead := strconv.Itoa(n)
		if SchemeOf(lead) == s.Word && !slices.Contains(s.Prefixes, lead) {
			leads = append(leads, lead)
		}
	}
	if leads == nil {
		leads = s.spare
	}
	return leads
}

// IsDataShare says whether challenge indicators ask to share data only. 2.1.0 has no 06.
func (s *Scheme) IsDataShare(version string, indicators []string) bool {
	return slices.ContainsFunc(indicators, func(code string) bool {
		return slices.Contains(s.dataIndicators, code) && !(version == peer.V210 && code < "80")
	})
}
