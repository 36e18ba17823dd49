package shop

import (
	"slices"
	"strings"
)

// A testCard is an example that the page offers to click.
type testCard struct {
	Number string
	Says   string
	Group  string
}

// Last4 is the end of the number, which decides what happens.
func (c testCard) Last4() string { return c.Number[len(c.Number)-4:] }

// legacyGroup is the group of the cards that 3-D Secure 1.0.2 alone knows.
const legacyGroup = "3-D Secure 1.0.2 alone"

// shortCards are the examples of the short way, which asks for no decoupled authentication and knows no 1.0.2.
var shortCards = slices.DeleteFunc(slices.Clone(testCards), func(c testCard) bool {
	return c.Group == legacyGroup || strings.HasSuffix(c.Number, "83") || strings.HasSuffix(c.Number, "84")
})

// testCards are the examples on the page. Any number of 13 to 19 digits is a
// test card; its last four digits decide.
var testCards = []testCard{
	{"4000 0000 0000 0003", "Approved at once", "Without a question"},
	{"4000 0000 0000 0103", "Approved, no 3DS Method", "Without a question"},
	{"4000 0000 0000 0203", "Approved, 3DS Method never answers", "Without a question"},
	{"5200 0000 0000 0023", "Attempted", "Without a question"},
	{"4000 0000 0000 0013", "Not authenticated", "Without a question"},
	{"4000 0000 0000 0033", "Rejected by the issuer", "Without a question"},
	{"4000 0000 0000 0053", "Could not be checked", "Without a question"},
	{"4000 0000 0000 0043", "For information only", "Without a question"},
	{"4000 0000 0000 0072", "Your bank asks, you answer", "With a challenge"},
	{"5200 0000 0000 0070", "Passes by itself", "With a challenge"},
	{"4000 0000 0000 0071", "Fails by itself", "With a challenge"},
	{"4000 0000 0000 0074", "You confirm in your bank's app", "With a challenge"},
	{"4000 0000 0000 0075", "A page taller than its frame", "With a challenge"},
	{"4000 0000 0000 0083", "Approve on another device", "With a challenge"},
	{"4000 0000 0000 0084", "Declined on another device", "With a challenge"},
	{"4000 0000 0000 0063", "Directory server is silent", "Trouble"},
	{"9000 1001 1111 1111", "Not enrolled", "Trouble"},
	{"4102 0100 0000 0000", "Approved", legacyGroup},
	{"5102 0100 0000 0001", "Attempted", legacyGroup},
	{"4102 0100 0000 0002", "Not authenticated", legacyGroup},
	{"4102 0100 0000 0004", "The answer is not signed by the bank", legacyGroup},
	{"4102 0100 0000 1000", "Not enrolled in 1.0.2 either", legacyGroup},
}

// A trouble is a merchant id with which something goes wrong, for the page to offer.
type trouble struct {
	Merchant string
	Says     string
	Group    string
}

// troubles are a part of those that the sandbox knows: what a shopper can meet.
var troubles = []trouble{
	{"CANCEL", "You give the challenge up", "Challenge"},
	{"TIMEOUT", "You let the challenge run out", "Challenge"},
	{"FAULT-ACSDOWN", "The bank's page does not come", "Challenge"},
	{"FAULT-UNFRAMED", "The bank's page shows in no frame", "Challenge"},
	{"FAULT-STUCK", "The bank's page does not come back", "Challenge"},
	{"FAULT-CRES", "It comes back with nonsense", "Challenge"},
	{"FAULT-FORGED", "It comes back with the opposite", "Challenge"},
	{"FAULT-LATE", "The result is late", "Result"},
	{"FAULT-NORESULT", "The result never comes", "Result"},
	{"FAULT-SLOW", "The directory server is slow", "Directory server"},
	{"FAULT-HTTP500", "The directory server is broken", "Directory server"},
	{"FAULT-ERRO402", "The bank does not answer it", "Directory server"},
	{"FAULT-ID", "It answers somebody else's request", "Directory server"},
	{"SPC", "Your browser confirms first", "Secure Payment Confirmation"},
	{"REASON-10", "Reason 10: stolen card", "When the card is refused"},
	{"REASON-11", "Reason 11: suspected fraud", "When the card is refused"},
	{"REASON-80", "Reason 80: as the scheme says", "When the card is refused"},
}

// firstCard is in the form when the page opens.
const firstCard = "4000 0000 0000 0072"

// A digit is one of the last four of a card number, and what its values mean.
type digit struct {
	Place string
	About string
	Means []meaning
}

type meaning struct{ Value, Says string }

var digits = []digit{
	{"a", "Versions", []meaning{{"0", "all versions"}, {"1", "2.1.0 only"}, {"2", "2.2.0 only"}, {"3", "2.3.1 only"}}},
	{"b", "3DS Method", []meaning{{"0", "with 3DS Method"}, {"1", "no 3DS Method"}, {"2", "3DS Method never answers"}}},
	{"c", "Outcome", []meaning{{"0", "authenticated (Y)"}, {"1", "not authenticated (N)"}, {"2", "attempted (A)"},
		{"3", "rejected (R)"}, {"4", "informational (I)"}, {"5", "unavailable (U)"}, {"6", "directory server silent"},
		{"7", "challenge"}, {"8", "decoupled"}}},
	{"d", "How", []meaning{{"3", "frictionless"}, {"0", "passes by itself"}, {"1", "fails by itself"},
		{"2", "you decide"}}},
}
