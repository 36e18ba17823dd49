package scheme

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/messagetest"
)

// visaPayment is an AReq with all that Visa's profile asks for.
const visaPayment = `{"messageType":"AReq","messageVersion":"2.2.0","deviceChannel":"02","messageCategory":"01",
"threeDSRequestorID":"12345678*M1","threeDSRequestorURL":"https://shop.example","threeDSRequestorChallengeInd":"82",
"acquirerBIN":"400000","acquirerMerchantID":"M1","mcc":"5411","merchantCountryCode":"208","merchantName":"Shop","transType":"01",
"purchaseAmount":"1","purchaseCurrency":"978","purchaseExponent":"2","purchaseDate":"20261120120000",
"acctNumber":"4000001234567890","cardExpiryDate":"3012","cardholderName":"Ann","email":"a@shop.example","acctID":"1","acctType":"01",
"acctInfo":{"chAccAgeInd":"01"},"addrMatch":"Y","browserIP":"192.0.2.1",
"billAddrLine1":"1","billAddrCity":"2","billAddrCountry":"208","billAddrPostCode":"3",
"shipAddrLine1":"1","shipAddrCity":"2","shipAddrCountry":"208","shipAddrPostCode":"3",
"homePhone":{"cc":"45","subscriber":"1"},"mobilePhone":{"cc":"45","subscriber":"1"},"workPhone":{"cc":"45","subscriber":"1"}}`

// today is when requests are checked in these tests.
var today = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

func parse(t testing.TB, text string) *message.Message {
	t.Helper()
	m, err := message.Parse([]byte(text), message.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// findings are those of an AReq, and what may be refused marked with its code.
func findings(t testing.TB, scheme, areq string) string {
	t.Helper()
	var s []string
	for _, f := range Public(scheme).Check(parse(t, areq), today) {
		text := f.Text
		if f.Code != 0 {
			text = f.Code.String() + " " + text
		}
		s = append(s, text)
	}
	return strings.Join(s, ", ")
}

// TestProfilesAreThePublicFacts: every scheme but the one for testing has its lines, and they are what was published.
func TestProfilesAreThePublicFacts(t *testing.T) {
	var have []string
	lines := map[string]bool{}
	for _, p := range Profiles() {
		have = append(have, p.Scheme)
		for _, f := range p.Facts {
			lines[fmt.Sprint(p.Scheme, " ", f.Kind, " ", f.Element, " ", f.From, " ", f.Certainty)] = true
		}
	}
	want := append([]string{every}, slices.DeleteFunc(Names(), func(name string) bool { return name == StandIn })...)
	if !slices.Equal(have, want) {
		t.Errorf("profiles of %v, want %v", have, want)
	}
	for _, want := range []string{
		"visa rid A000000003  sure", "mastercard rid A000000004  sure", "amex rid A000000025  sure",
		"jcb rid A000000065  sure", "upi rid A000000333  unsure", "protectbuy rid A000000152  disputed",
		"sbn rid A000000121  unsure",
		"visa require cardExpiryDate  sure", "mastercard require cardExpiryDate  sure",
		"visa require email|homePhone|mobilePhone|workPhone  sure", "mastercard require cardholderName|email|homePhone|mobilePhone|workPhone  sure",
		"visa format threeDSRequestorID  sure", "jcb format threeDSRequestorID  unsure",
		"mastercard code eci N2 sure", "sbn code eci 05 unsure", "mastercard code messageCategory 80 sure",
		"visa extension A000000003-001  sure", "mastercard extension A000000004-acsRBA  sure",
		"every closed messageCategory  sure",
	} {
		if !lines[want] {
			t.Errorf("no line %s", want)
		}
	}
}

func TestMeaningOfCodes(t *testing.T) {
	for _, tt := range []struct{ scheme, element, code, want string }{
		{"visa", "eci", "05", "authenticated: Y in a payment"},
		{"mastercard", "eci", "02", "authenticated: Y in a payment"},
		{"mastercard", "eci", "N0", "not authenticated: N or U without a payment"},
		{"visa", "transStatusReason", "80", "error in connecting to the ACS"},
		{"mastercard", "transStatusReason", "80", "data was shared only"},
		{"mastercard", "acsInfoInd", "94", "Identity Check Express: delegation to a wallet"},
		{"mastercard", "acsInfoInd", "95", ""},
		{"jcb", "transStatusReason", "80", ""},
		{"visa", "transStatusReason", "", ""},
		{"standin", "eci", "05", ""},
		{every, "eci", "05", ""},
	} {
		if got := Public(tt.scheme).Meaning(tt.element, tt.code); got != tt.want {
			t.Errorf("Meaning(%s, %s, %s) = %q, want %q", tt.scheme, tt.element, tt.code, got, tt.want)
		}
	}
	for _, eci := range []string{"05", "06", "07"} {
		for _, scheme := range []string{"visa", "amex", "jcb", "upi", "protectbuy", "sbn"} {
			if Public(scheme).Meaning("eci", eci) == "" {
				t.Errorf("%s: eci %s has no meaning", scheme, eci)
			}
		}
	}
}

func TestCheckFindsWhatIsMissing(t *testing.T) {
	const none = `"threeDSRequestorID":"MER_1","deviceChannel":"02","messageCategory":"01","messageVersion":"2.2.0"`
	for _, tt := range []struct{ name, scheme, areq, want string }{
		{"all there", "visa", visaPayment, ""},
		{"MC-19 Visa", "visa", strings.Replace(visaPayment, "cardExpiryDate", "x", 1), "201 cardExpiryDate: required"},
		{"MC-19 Mastercard", "mastercard",
			strings.Replace(strings.Replace(visaPayment, "cardExpiryDate", "x", 1), `"82"`, `"01"`, 1), "201 cardExpiryDate: required"},
		{"empty is missing", "visa", strings.Replace(visaPayment, `"3012"`, `""`, 1), "201 cardExpiryDate: required"},
		{"one of four is enough", "visa", strings.Replace(visaPayment, "email", "x", 1), ""},
		{"advised", "visa", strings.Replace(visaPayment, "billAddrCity", "x", 1), "billAddrCity: advised"},
		{"not in this channel", "visa", strings.Replace(strings.Replace(visaPayment, `"02"`, `"01"`, 1), "browserIP", "x", 1), ""},
		{"not in this category", "visa",
			strings.Replace(strings.Replace(visaPayment, `"messageCategory":"01"`, `"messageCategory":"02"`, 1), "cardholderName", "x", 1), ""},
		{"in this category", "visa", strings.Replace(visaPayment, "cardholderName", "x", 1),
			"201 cardholderName: required; counted as missing data, and requests do not fail for it by themselves"},
		{"in this version", "visa",
			strings.NewReplacer(`2.2.0`, `2.3.1`, `"02"`, `"01"`, `"82"`, `["82"]`).Replace(visaPayment),
			"201 appIp: required; counted as missing data, and requests do not fail for it by themselves"},
		{"no channel we know", "visa", strings.Replace(strings.Replace(visaPayment, `"02"`, `"80"`, 1), "cardExpiryDate", "x", 1), "201 cardExpiryDate: required"},
		{"asked for in one channel only", "visa",
			strings.NewReplacer(`"02"`, `"80"`, "addrMatch", "x", "cardExpiryDate", "y").Replace(visaPayment),
			"201 cardExpiryDate: required"},
		{"no category we know", "visa", strings.NewReplacer(`"messageCategory":"01"`, `"messageCategory":"03"`,
			"cardholderName", "x", "cardExpiryDate", "y").Replace(visaPayment), "201 cardExpiryDate: required"},
		{"what the protocol requires itself", "visa", strings.Replace(visaPayment, "purchaseAmount", "x", 1), ""},
		{"no version we know", "visa", strings.Replace(visaPayment, `2.2.0`, `2.0.0`, 1), ""},
		{"MC-12", "visa", strings.Replace(visaPayment, "12345678*M1", "M1", 1), "203 threeDSRequestorID: not of the scheme's form"},
		{"an escaped form", "visa", strings.Replace(visaPayment, "12345678*M1", `12345678\u002aM1`, 1), ""},
		{"no text is a fault by the protocol", "visa", strings.Replace(visaPayment, `"12345678*M1"`, `5`, 1), ""},
		{"MC-21 unknown category", "visa",
			strings.Replace(visaPayment, `"messageCategory":"01"`, `"messageCategory":"80"`, 1),
			"203 messageCategory: a code of no known meaning"},
		{"MC-21 in 2.3.1", "jcb", `{"messageVersion":"2.3.1","deviceChannel":"02","messageCategory":"80"}`, "207 messageCategory: a code of no known meaning"},
		{"an unknown preference", "visa", strings.Replace(visaPayment, `"82"`, `"83"`, 1), "threeDSRequestorChallengeInd: a code of no known meaning (unsure)"},
		{"one of two", "amex",
			`{` + strings.Replace(none, "2.2.0", "2.3.1", 1) + `,"threeDSRequestorChallengeInd":["01","82"]}`,
			"threeDSRequestorChallengeInd: a code of no known meaning (unsure)"},
		{"known and none of the scheme's", "visa", `{` + strings.Replace(strings.Replace(visaPayment[1:], "2.2.0", "2.3.1", 1), `"82"`, `["01","82"]`, 1), ""},
		{"the last code", "amex", `{` + none + `,"threeDSRequestorChallengeInd":"99"}`, "threeDSRequestorChallengeInd: a code of no known meaning (unsure)"},
		{"an escaped code", "amex", `{` + none + `,"threeDSRequestorChallengeInd":"\u0038\u0032"}`,
			"threeDSRequestorChallengeInd: a code of no known meaning (unsure)"},
		{"amex", "amex", `{` + none + `}`, ""},
		{"amex, another form", "amex", `{` + strings.Replace(none, "MER_1", "MER1", 1) + `}`, "203 threeDSRequestorID: not of the scheme's form"},
		{"jcb, another form", "jcb", `{` + none + `}`, "threeDSRequestorID: not of the scheme's form (unsure)"},
		{"jcb", "jcb", `{` + strings.Replace(none, "MER_1", "12345678MCT123456789012345", 1) + `}`, ""},
		{"protectbuy", "protectbuy", `{` + none + `}`, ""},
		{"protectbuy, too long", "protectbuy", `{` + strings.Replace(none, "MER_1", "123456789_1", 1) + `}`, "203 threeDSRequestorID: not of the scheme's form"},
		{"upi", "upi", `{` + none + `}`, ""},
		{"sbn", "sbn", `{` + none + `}`, ""},
		{"standin", "standin", `{}`, ""},
		{"the section of all is no scheme", every, visaPayment, ""},
	} {
		if got := findings(t, tt.scheme, tt.areq); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	mastercard := strings.Replace(strings.Replace(visaPayment, `"messageCategory":"01"`, `"messageCategory":"80"`, 1), `"82"`, `"01"`, 1)
	if got := findings(t, "mastercard", mastercard); got != "" {
		t.Errorf("MC-21 Mastercard's own category: %q", got)
	}
}

// TestCheckLeavesOutElementsOfOtherVersions: an element is asked for in the versions that have it alone, whatever
// a profile says.
func TestCheckLeavesOutElementsOfOtherVersions(t *testing.T) {
	profiles, err := read("scheme visa V\nrequire taxId ; vendor-doc sure\nadvise acctNumber ; vendor-doc sure")
	if err != nil {
		t.Fatal(err)
	}
	visa := compile(profiles).sheets["visa"]
	for version, want := range map[string]int{"2.2.0": 0, "2.3.1": 1} { // every version requires acctNumber
		areq := parse(t, `{"messageVersion":"`+version+`","deviceChannel":"02","messageCategory":"01"}`)
		if found := visa.Check(areq, today); len(found) != want {
			t.Errorf("%s: %d findings, want %d", version, len(found), want)
		}
	}
}

// TestUnsureFactsRefuseNothing: no line of the file that is unsure, or of memory, can refuse.
func TestUnsureFactsRefuseNothing(t *testing.T) {
	for name, s := range public().sheets {
		soundRules(t, name, s, public().profiles)
	}
}

// TestFullRequestsLackNothing: a request that has all members lacks none, in every version,
// channel and category, whatever the scheme; and no finding has a value in it.
func TestFullRequestsLackNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, v := range message.Versions() {
		for _, ch := range message.Channels() {
			for _, cat := range message.Categories() {
				if v == message.V210 && ch == message.ThreeRI && cat == message.PA {
					continue
				}
				for range 20 {
					areq := string(messagetest.Sample(random, message.AReq, v, ch, cat, false))
					m := parse(t, areq)
					for _, scheme := range Names() {
						for _, f := range Public(scheme).Check(m, today) {
							for _, name := range f.Elements {
								if (f.Rule == Require || f.Rule == Advise) == m.Has(name) {
									t.Errorf("%s %s %s %s: %s, in %s", scheme, v, ch, cat, f.Text, areq)
								}
								if row := message.TableOf(message.AReq, v).Field(name); row == nil || row.Need.At(ch, cat) == '-' {
									t.Errorf("%s %s %s %s: %s, which is not defined there", scheme, v, ch, cat, f.Text)
								}
							}
						}
					}
				}
			}
		}
	}
}

func TestPatternFits(t *testing.T) {
	for _, tt := range []struct{ pattern, value, want string }{
		{`an8 "*" an1-26`, "12345678*A", "yes"},
		{`an8 "*" an1-26`, "12345678*" + strings.Repeat("A", 26), "yes"},
		{`an8 "*" an1-26`, "12345678*" + strings.Repeat("A", 27), "no"},
		{`an8 "*" an1-26`, "12345678*", "no"},
		{`an8 "*" an1-26`, "1234567*A", "no"},
		{`an8 "*" an1-26`, "123456789*A", "no"},
		{`an8 "*" an1-26`, "12345678*A B", "no"},
		{`an8 "*" an1-26`, "", "no"},
		{`n2`, "a1", "no"},
		{`n2`, "21", "yes"},
		{`x2`, "\u00e9", "no"},
		{`"MCT" x3-4`, "MCT~ !", "yes"},
		{`"MCT" x3-4`, "MCU~ !", "no"},
		{`"MCT" x3-4`, "MC", "no"},
		{`n1 "-X"`, "1-X", "yes"},
		{`an1`, "z", "yes"},
		{`an1`, "{", "no"},
		{`an1`, "[", "no"},
	} {
		p, err := readPattern(tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.fits([]byte(tt.value)); got != (tt.want == "yes") {
			t.Errorf("%s fits %q: %t, want %s", tt.pattern, tt.value, got, tt.want)
		}
	}
}

// TestPartsTakeTheirKindAlone: the characters of each kind, none more.
func TestPartsTakeTheirKindAlone(t *testing.T) {
	const digits, letters = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	for _, tt := range []struct{ kind, want string }{
		{"n", digits},
		{"an", digits + letters},
		{"x", " !\"#$%&'()*+,-./" + digits + ":;<=>?@" + letters[:26] + "[\\]^_`" + letters[26:] + "{|}~"},
	} {
		var got []byte
		for c := range 256 {
			if (part{kind: tt.kind}).takes(byte(c)) {
				got = append(got, byte(c))
			}
		}
		if string(got) != tt.want {
			t.Errorf("%s takes %q, want %q", tt.kind, got, tt.want)
		}
	}
}

// TestCheckAllocatesNothing: when all is well, looking costs no allocation.
func TestCheckAllocatesNothing(t *testing.T) {
	m := parse(t, strings.Replace(visaPayment, `"82"`, `"01"`, 1))
	for _, scheme := range []string{"visa", "mastercard", "upi", "standin"} {
		if n := testing.AllocsPerRun(100, func() {
			if Public(scheme).Check(m, today) != nil {
				t.Fatal("findings")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations, want none", scheme, n)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	good := parse(b, strings.Replace(visaPayment, `"82"`, `"01"`, 1))
	bare := parse(b, `{"messageVersion":"2.2.0","deviceChannel":"02","messageCategory":"01","threeDSRequestorID":"M1"}`)
	for _, tt := range []struct {
		name, scheme string
		areq         *message.Message
	}{{"visa/complete", "visa", good}, {"visa/bare", "visa", bare}, {"upi/complete", "upi", good}, {"standin", "standin", good}} {
		b.Run(tt.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Public(tt.scheme).Check(tt.areq, today)
			}
		})
	}
}
