package message_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/message"
)

// A valueTest is a member of a request, and what becomes of it.
type valueTest struct {
	v         message.Version
	name, raw string
	want      string // the JSON text that is sent; "" means that the member is left out
	changes   string // the changes, with "; " between
	strict    string // the problems without normalising, with " " between
}

// runValueTests normalises each request, and checks what is sent, what is recorded, and that a strict key is refused
// what the test says. The argument beside has further members of all requests.
func runValueTests(t *testing.T, tests []valueTest, beside ...string) {
	t.Helper()
	for _, test := range tests {
		b := validRequest(t, test.v, message.BRW, message.PA).with("threeDSRequestorAuthenticationInd", `"01"`, "payTokenInd", "",
			"billAddrState", "", "shipAddrState", "", "billAddrCountry", "", "shipAddrCountry", "").with(beside...)
		name, path := test.name, test.name
		if i := strings.IndexByte(name, '.'); i >= 0 {
			name = name[:i]
		}
		b = b.with(name, test.raw)
		r := b.read(t)
		changes := r.Normalise()
		m, p := r.Build(message.Context{})
		if strings.HasPrefix(test.want, "20") && len(test.want) > 4 && test.want[3] == ' ' || strings.HasPrefix(test.want, "304 ") {
			if got := strings.Join(faults(p), " "); got != test.want {
				t.Errorf("%s %s %.80s: problems %q, want %q", test.v, test.name, test.raw, got, test.want)
			}
		} else {
			if got := string(m.Raw(path)); got != test.want || p != nil {
				t.Errorf("%s %s %.80s: %.80s, want %.80s; %v", test.v, test.name, test.raw, got, test.want, p)
			}
			var texts []string
			for _, c := range changes {
				texts = append(texts, string(c.Path)+": "+c.What)
			}
			if got := strings.Join(texts, "; "); got != test.changes {
				t.Errorf("%s %s %.80s: changes %q, want %q", test.v, test.name, test.raw, got, test.changes)
			}
			if again := r.Normalise(); again != nil {
				t.Errorf("%s %s %.80s: changed again: %v", test.v, test.name, test.raw, again)
			}
		}
		if _, p := b.build(t); strings.Join(faults(p), " ") != test.strict {
			t.Errorf("%s %s %.80s: strict: %v, want %q", test.v, test.name, test.raw, faults(p), test.strict)
		}
	}
}

func TestR9aAddressesAreWrittenInFull(t *testing.T) {
	const changed = "browserIP: written in full"
	runValueTests(t, []valueTest{
		{message.V210, "browserIP", `"2001:db8::1"`, `"2001:0db8:0000:0000:0000:0000:0000:0001"`, changed, ""},
		{message.V220, "browserIP", `"2001:db8::1"`, `"2001:0db8:0000:0000:0000:0000:0000:0001"`, changed, ""},
		{message.V231, "browserIP", `"2001:db8::1"`, `"2001:db8::1"`, "", ""},
		{message.V220, "browserIP", `"::1"`, `"0000:0000:0000:0000:0000:0000:0000:0001"`, changed, ""},
		{message.V220, "browserIP", `"2001:DB8:0:0:0:0:0:A"`, `"2001:0db8:0000:0000:0000:0000:0000:000a"`, changed, ""},
		{message.V220, "browserIP", `"2001:0DB8:0000:0000:0000:0000:0000:000A"`, `"2001:0db8:0000:0000:0000:0000:0000:000a"`, changed, ""},
		{message.V220, "browserIP", `"::ffff:192.0.2.7"`, `"192.0.2.7"`, changed, ""},
		{message.V210, "browserIP", `"::FFFF:c000:207"`, `"192.0.2.7"`, changed, ""},
		{message.V231, "browserIP", `"::ffff:192.0.2.7"`, `"::ffff:192.0.2.7"`, "", ""},
		{message.V220, "browserIP", `"192.0.2.7"`, `"192.0.2.7"`, "", ""},
		{message.V220, "browserIP", `"2001:0db8:0000:0000:0000:0000:0000:0001"`, `"2001:0db8:0000:0000:0000:0000:0000:0001"`, "", ""},
		{message.V220, "browserIP", `"fe80::1%eth0"`, "203 browserIP", "", "203 browserIP"},
		{message.V220, "browserIP", `"2001:db8::1::2"`, "203 browserIP", "", "203 browserIP"},
	})
}

func TestR9aArraysOfOneBecomeTheirValue(t *testing.T) {
	const out = ": taken out of its array"
	runValueTests(t, []valueTest{
		{message.V210, "threeDSRequestorChallengeInd", `["01"]`, `"01"`, "threeDSRequestorChallengeInd" + out, "203 threeDSRequestorChallengeInd"},
		{message.V220, "threeDSRequestorChallengeInd", `["01"]`, `"01"`, "threeDSRequestorChallengeInd" + out, "203 threeDSRequestorChallengeInd"},
		{message.V220, "threeDSRequestorChallengeInd", `["01","02"]`, "203 threeDSRequestorChallengeInd", "", "203 threeDSRequestorChallengeInd"},
		{message.V220, "threeDSRequestorChallengeInd", `[["01"]]`, "203 threeDSRequestorChallengeInd", "", "203 threeDSRequestorChallengeInd"},
		{message.V231, "threeDSRequestorChallengeInd", `["01"]`, `["01"]`, "", ""},
		{message.V220, "threeDSRequestorChallengeInd", `[]`, "", "", ""},
		{message.V220, "threeDSRequestorAuthenticationInfo", `[{"threeDSReqAuthMethod":"02"}]`,
			`{"threeDSReqAuthMethod":"02"}`, "threeDSRequestorAuthenticationInfo" + out, "203 threeDSRequestorAuthenticationInfo"},
		{message.V210, "threeDSRequestorPriorAuthenticationInfo", `[{"threeDSReqPriorAuthMethod":"01"}]`,
			`{"threeDSReqPriorAuthMethod":"01"}`, "threeDSRequestorPriorAuthenticationInfo" + out,
			"203 threeDSRequestorPriorAuthenticationInfo"},
		{message.V220, "threeDSRequestorAuthenticationInfo", `[{"threeDSReqAuthMethod":"02"},{"threeDSReqAuthMethod":"03"}]`,
			"203 threeDSRequestorAuthenticationInfo", "", "203 threeDSRequestorAuthenticationInfo"},
		{message.V220, "acctInfo.chAccAgeInd", `{"chAccAgeInd":["01"]}`, `"01"`, "acctInfo.chAccAgeInd" + out, "203 acctInfo.chAccAgeInd"},
		{message.V220, "browserJavaEnabled", `[true]`, `true`, "browserJavaEnabled" + out, "203 browserJavaEnabled"},
		{message.V220, "merchantCountryCode", `["dk"]`, `"208"`, "merchantCountryCode" + out + "; merchantCountryCode: written in digits", "203 merchantCountryCode"},
		{message.V220, "notificationURL", `["https://shop.example/"]`, "203 notificationURL", "", "203 notificationURL"},
		{message.V220, "acctNumber", `["4000000000000002"]`, "203 acctNumber", "", "203 acctNumber"},
		{message.V220, "purchaseAmount", `["100"]`, "203 purchaseAmount", "", "203 purchaseAmount"},
	})
	// What the tables make of the value counts, not the array.
	b := validRequest(t, message.V220, message.BRW, message.PA).with("threeDSRequestorAuthenticationInd", `["03"]`, "purchaseInstalData", `["12"]`,
		"recurringExpiry", `"20301231"`, "recurringFrequency", `28`)
	r := b.read(t)
	r.Normalise()
	if m, p := r.Build(message.Context{}); p != nil || m.Text("purchaseInstalData") != "12" || m.Text("recurringFrequency") != "28" {
		t.Errorf("%v of %s", p, m.Bytes())
	}
}

func TestR9bCodesAndNumbersAreConverted(t *testing.T) {
	runValueTests(t, []valueTest{
		// Languages.
		{message.V220, "browserLanguage", `"en_GB"`, `"en-GB"`, "browserLanguage: written with hyphens", "203 browserLanguage"},
		{message.V231, "browserLanguage", `"zh_Hant_TW"`, `"zh-Hant-TW"`, "browserLanguage: written with hyphens", "203 browserLanguage"},
		{message.V210, "browserLanguage", `"zh_Hant_TW, en"`, `"zh-Hant"`, "browserLanguage: cut to the first tag, or a part of it", "203 browserLanguage"},
		{message.V231, "acceptLanguage", `["en_GB","da"]`, `["en-GB","da"]`, "acceptLanguage[0]: written with hyphens", ""},
		{message.V231, "acceptLanguage", `["en_GB","en-GB"]`, `["en-GB"]`,
			"acceptLanguage[0]: written with hyphens; acceptLanguage[1]: dropped, it is there already", ""},

		// Countries and currencies.
		{message.V210, "merchantCountryCode", `"DK"`, `"208"`, "merchantCountryCode: written in digits", "203 merchantCountryCode"},
		{message.V231, "merchantCountryCode", `"dnk"`, `"208"`, "merchantCountryCode: written in digits", "203 merchantCountryCode"},
		{message.V220, "purchaseCurrency", `"eur"`, `"978"`, "purchaseCurrency: written in digits", "203 purchaseCurrency"},
		{message.V220, "shipAddrCountry", `"Gb"`, `"826"`, "shipAddrCountry: written in digits", "203 shipAddrCountry"},
		{message.V220, "merchantRiskIndicator.giftCardCurr", `{"giftCardCurr":"USD"}`, `"840"`,
			"merchantRiskIndicator.giftCardCurr: written in digits", "203 merchantRiskIndicator.giftCardCurr"},
		{message.V220, "purchaseCurrency", `"XAU"`, "203 purchaseCurrency", "", "203 purchaseCurrency"},
		{message.V220, "merchantCountryCode", `"UK"`, "203 merchantCountryCode", "", "203 merchantCountryCode"},
		{message.V220, "purchaseCurrency", `8`, `"008"`, "purchaseCurrency: written as a string; purchaseCurrency: padded to 3 digits", "203 purchaseCurrency"},
		{message.V220, "merchantCountryCode", `208`, `"208"`, "merchantCountryCode: written as a string", "203 merchantCountryCode"},

		// Numbers.
		{message.V220, "browserColorDepth", `24`, `"24"`, "browserColorDepth: written as a string", "203 browserColorDepth"},
		{message.V210, "browserColorDepth", `30`, `"24"`, "browserColorDepth: written as a string; browserColorDepth: lowered to 24", "203 browserColorDepth"},
		{message.V231, "browserColorDepth", `30`, `"30"`, "browserColorDepth: written as a string", "203 browserColorDepth"},
		{message.V220, "browserTZ", `-60`, `"-60"`, "browserTZ: written as a string", "203 browserTZ"},
		{message.V220, "browserTZ", `-0`, `"0"`, "browserTZ: written as a string; browserTZ: tidied", "203 browserTZ"},
		{message.V220, "browserScreenHeight", `1080`, `"1080"`, "browserScreenHeight: written as a string", "203 browserScreenHeight"},
		{message.V220, "browserScreenWidth", `1920`, `"1920"`, "browserScreenWidth: written as a string", "203 browserScreenWidth"},
		{message.V220, "purchaseAmount", `12345`, `"12345"`, "purchaseAmount: written as a string", "203 purchaseAmount"},
		{message.V220, "purchaseAmount", `0`, `"0"`, "purchaseAmount: written as a string", "203 purchaseAmount"},
		{message.V220, "purchaseExponent", `2`, `"2"`, "purchaseExponent: written as a string", "203 purchaseExponent"},
		{message.V220, "mcc", `5411`, `"5411"`, "mcc: written as a string", "203 mcc"},
		{message.V220, "cardExpiryDate", `2912`, `"2912"`, "cardExpiryDate: written as a string", "203 cardExpiryDate"},
		{message.V220, "acctInfo.txnActivityDay", `{"txnActivityDay":3}`, `"3"`, "acctInfo.txnActivityDay: written as a string", "203 acctInfo.txnActivityDay"},
		{message.V220, "mcc", `742`, "203 mcc", "", "203 mcc"}, // is not padded
		{message.V220, "browserColorDepth", `24.0`, "203 browserColorDepth", "", "203 browserColorDepth"},
		{message.V220, "purchaseAmount", `1e2`, "203 purchaseAmount", "", "203 purchaseAmount"},
		{message.V220, "purchaseAmount", `-5`, "203 purchaseAmount", "", "203 purchaseAmount"},
		{message.V220, "acctNumber", `4000000000000002`, "203 acctNumber", "", "203 acctNumber"},
		{message.V220, "acquirerBIN", `400000`, "203 acquirerBIN", "", "203 acquirerBIN"},
		{message.V220, "acquirerMerchantID", `12345`, "203 acquirerMerchantID", "", "203 acquirerMerchantID"},
		{message.V220, "purchaseDate", `20261125191849`, "203 purchaseDate", "", "203 purchaseDate"},
		{message.V220, "threeDSRequestorID", `123`, "203 threeDSRequestorID", "", "203 threeDSRequestorID"},
		{message.V220, "transType", `10`, "203 transType", "", "203 transType"},

		// Booleans.
		{message.V220, "browserJavaEnabled", `"true"`, `true`, "browserJavaEnabled: made a boolean", "203 browserJavaEnabled"},
		{message.V220, "browserJavaEnabled", `"yes"`, "203 browserJavaEnabled", "", "203 browserJavaEnabled"},
		{message.V220, "browserJavaEnabled", `1`, "203 browserJavaEnabled", "", "203 browserJavaEnabled"},
		{message.V220, "addrMatch", `true`, `"Y"`, "addrMatch: written as Y", "203 addrMatch"},
		{message.V231, "trustListStatus", `false`, `"N"`, "trustListStatus: written as N", "203 trustListStatus"},
		{message.V220, "threeDSRequestorDecReqInd", `false`, `"N"`, "threeDSRequestorDecReqInd: written as N", "203 threeDSRequestorDecReqInd"},
		{message.V231, "threeDSRequestorDecReqInd", `false`, "203 threeDSRequestorDecReqInd", "", "203 threeDSRequestorDecReqInd"}, // has F and B
		{message.V220, "threeDSCompInd", `true`, "203 threeDSCompInd", "", "203 threeDSCompInd"},                                   // has U
		{message.V210, "payTokenInd", `false`, "", "payTokenInd: left out, it is false", "203 payTokenInd"},
		{message.V220, "payTokenInd", `false`, "", "payTokenInd: left out, it is false", "203 payTokenInd"},
		{message.V231, "payTokenInd", `false`, "", "payTokenInd: left out, it is false", "203 payTokenInd"},
		{message.V220, "payTokenInd", `"false"`, "", "payTokenInd: made a boolean; payTokenInd: left out, it is false", "203 payTokenInd"},
		{message.V220, "payTokenInd", `"true"`, `true`, "payTokenInd: made a boolean", "203 payTokenInd"},
		{message.V220, "payTokenInd", `[false]`, "", "payTokenInd: taken out of its array; payTokenInd: left out, it is false", "203 payTokenInd"},

		// Telephones.
		{message.V220, "mobilePhone.cc", `{"cc":"+45","subscriber":"12345678"}`, `"45"`, "mobilePhone.cc: without the +", "203 mobilePhone.cc"},
		{message.V231, "workPhone.cc", `{"cc":45,"subscriber":"12345678"}`, `"45"`, "workPhone.cc: written as a string", "203 workPhone.cc"},
		{message.V220, "homePhone", `{"cc":"45","subscriber":"+12345678"}`, "203 homePhone.subscriber", "", "203 homePhone.subscriber"},
		{message.V220, "homePhone", `{"cc":"+","subscriber":"12345678"}`, "203 homePhone.cc", "", "203 homePhone.cc"},
	})
}

func TestR9bStatesAreWrittenWithoutTheirCountry(t *testing.T) {
	for _, prefix := range []string{"billAddr", "shipAddr"} {
		state, country := prefix+"State", prefix+"Country"
		runValueTests(t, []valueTest{
			{message.V210, state, `"oh"`, `"OH"`, state + ": written in capitals", ""},
			{message.V220, state, `"US-CA"`, `"CA"`, state + ": written without its country", "203 " + state},
			{message.V231, state, `"us-ca"`, `"CA"`, state + ": written without its country", "203 " + state},
			{message.V220, state, `"CA"`, `"CA"`, "", ""},
			{message.V220, state, `"CA-QC"`, "203 " + state, "", "203 " + state},
			{message.V220, state, `"Ohio"`, "203 " + state, "", "203 " + state},
			{message.V220, state, `"US-"`, `"US-"`, "", ""},
			{message.V220, state, `"é"`, "203 " + state, "", "203 " + state},
		}, country, `"840"`)
		// The country is converted first.
		runValueTests(t, []valueTest{
			{message.V220, state, `"US-CA"`, `"CA"`, country + ": written in digits; " + state + ": written without its country", "203 " + country + " 203 " + state},
		}, country, `"us"`)
		runValueTests(t, []valueTest{{message.V220, state, `"DK-84"`, "201 " + country + " 203 " + state, "", "201 " + country + " 203 " + state}})
	}
}

func TestR10aCharactersThatNoTextMayHave(t *testing.T) {
	const blank = ": a line break or tab became a blank"
	tests := []valueTest{}
	for _, v := range message.Versions() {
		for _, name := range []string{"billAddrLine1", "shipAddrLine3", "billAddrCity", "cardholderName", "merchantName"} {
			for _, text := range []struct{ in, out string }{
				{`1 Road\nFlat 2`, `1 Road Flat 2`}, {`1 Road\r\nFlat 2`, `1 Road Flat 2`}, {`1 Road\u000dFlat\t2`, `1 Road Flat 2`},
				{`1 Road\n\nFlat`, `1 Road  Flat`},
			} {
				tests = append(tests, valueTest{v, name, `"` + text.in + `"`, `"` + text.out + `"`, name + blank, "203 " + name})
			}
		}
		for _, test := range []struct{ name, raw string }{
			{"billAddrLine1", `"1 Road\u0000"`}, {"billAddrLine1", `"1 Road\u000bFlat"`}, {"billAddrLine1", "\"1 Road\x7f\""},
			{"cardholderName", `"Jane\u001b[31m"`}, {"cardholderName", `"Jane\u0085Doe"`}, {"cardholderName", "\"Jane\u009bDoe\""},
			{"cardholderName", `"Jane\u202eDoe"`}, {"cardholderName", `"Jane\u2066Doe"`}, {"cardholderName", "\"Jane\u200fDoe\""}, {"cardholderName", `"Jane\u2028Doe"`},
			{"billAddrPostCode", `"12\t34"`}, {"acctID", `"a\nb"`}, {"acquirerMerchantID", `"a\u2029b"`},
		} {
			tests = append(tests, valueTest{v, test.name, test.raw, "203 " + test.name, "", "203 " + test.name})
		}
	}
	for _, raw := range []string{`"J\u00f8rgen"`, `"\"J\" \\ \/ D"`, `"Jane\u200dDoe"`, "\"Jørgen \U0001f600\"", `"\ud83d\ude00 J"`} {
		tests = append(tests, valueTest{message.V231, "cardholderName", raw, raw, "", ""})
	}
	runValueTests(t, tests)
	for _, v := range message.Versions() {
		data := `{ "a\n":"\u0000é", "b" :[ "\u202e"] }`
		m := validRequest(t, v, message.BRW, message.PA).with("messageExtension",
			`[{"id":"A000000001","name":"n","criticalityIndicator":false,"data":`+data+`}]`).built(t)
		if got := string(m.Raw("messageExtension[0].data")); got != data {
			t.Errorf("%s: data of an extension left as %s", v, got)
		}
	}
}

// TestR10aOrdinaryRequestsAreNotSearched: in a request of plain ASCII no text is copied in search
// of characters, and types and codes are compared in place.
func TestR10aOrdinaryRequestsAreNotSearched(t *testing.T) {
	const ordinary = `{"messageType":"AReq","messageVersion":"2.2.0","deviceChannel":"02","messageCategory":"01",` +
		`"acctNumber":"4000000000000002","purchaseAmount":"100","purchaseCurrency":"978","purchaseExponent":"2","mcc":"5411",` +
		`"merchantCountryCode":"208","billAddrCountry":"840","billAddrState":"CA","billAddrLine1":"1 Road","billAddrCity":"Town",` +
		`"cardholderName":"Jane Doe","browserIP":"192.0.2.7","browserJavaEnabled":true,"mobilePhone":{"cc":"45","subscriber":"1234"},` +
		`"browserAcceptHeader":"*/*","browserUserAgent":"x","acctInfo":{"chAccAgeInd":"01","txnActivityDay":"3"}%s}`
	count := func(more string) float64 {
		r, err := message.ReadRequest([]byte(strings.Replace(ordinary, "%s", more, 1)), message.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if changes := r.Normalise(); changes != nil {
			t.Fatal(changes)
		}
		return testing.AllocsPerRun(20, func() { r.Normalise() })
	}
	few := count("")
	more := count(`,"shipAddrLine1":"2 Road","shipAddrLine2":"Flat 3","shipAddrCity":"Town","shipAddrCountry":"840","shipAddrPostCode":"1",` +
		`"merchantName":"Shop","browserScreenHeight":"1","browserScreenWidth":"2","browserJavascriptEnabled":true,"addrMatch":"N"`)
	if more > few || few > 16 {
		t.Errorf("%v allocations, and %v with more members", few, more)
	}
}

// TestR9cNamesAndAddressesAreWrittenInASCII is also D42.
func TestR9cNamesAndAddressesAreWrittenInASCII(t *testing.T) {
	const in, out = ": written in ASCII", ": left out, it has no form in ASCII"
	long := strings.Repeat("x", 46) // with four more characters a line is full
	for _, v := range []message.Version{message.V210, message.V220} {
		for _, test := range []struct {
			name    string
			pairs   []string // names and texts that are sent
			want    []string // names and texts that leave
			changes string
			faults  string
		}{
			{"Danish", []string{"cardholderName", "Jørgen Åberg"}, []string{"cardholderName", "Jorgen Aberg"}, "cardholderName" + in, ""},
			{"no country", []string{"cardholderName", "Müller"}, []string{"cardholderName", "Muller"}, "cardholderName" + in, ""},
			{"Germany", []string{"cardholderName", "Müller", "billAddrCountry", "276"}, []string{"cardholderName", "Mueller"}, "cardholderName" + in, ""},
			{"Austria", []string{"billAddrCity", "Mödling", "billAddrCountry", "AT"}, []string{"billAddrCity", "Moedling"}, "billAddrCity" + in, ""},
			{"Switzerland", []string{"shipAddrCity", "Zürich", "billAddrCountry", "756"}, []string{"shipAddrCity", "Zuerich"}, "shipAddrCity" + in, ""},
			{"Sweden", []string{"cardholderName", "Öberg", "billAddrCountry", "752"}, []string{"cardholderName", "Oberg"}, "cardholderName" + in, ""},
			{"optional", []string{"cardholderName", "李小龍"}, []string{"cardholderName", ""}, "cardholderName" + out, ""},
			{"required", []string{"merchantName", "北京"}, nil, "", "203 merchantName"},
			{"required, with accents", []string{"merchantName", "Café"}, []string{"merchantName", "Cafe"}, "merchantName" + in, ""},
			{"no name", []string{"acctID", "é"}, nil, "", "203 acctID"},
			{"a control character beside", []string{"cardholderName", "Jørgen\u0001"}, nil, "", "203 cardholderName"},
			{"a control character", []string{"cardholderName", "Jane\u0001"}, nil, "", "203 cardholderName"},
			{"plain", []string{"cardholderName", "Jane Doe"}, []string{"cardholderName", "Jane Doe"}, "", ""},
			{"longer in ASCII", []string{"billAddrLine1", long + " 1 ß"}, []string{"billAddrLine1", long + " 1", "billAddrLine2", "ss"},
				"billAddrLine1" + in + "; billAddrLine1: continued in the next line; billAddrLine2: continues the line before", ""},
			{"too long", []string{"shipAddrLine1", long + " 12 Road", "shipAddrLine3", "DK"},
				[]string{"shipAddrLine1", long + " 12", "shipAddrLine2", "Road", "shipAddrLine3", "DK"},
				"shipAddrLine1: continued in the next line; shipAddrLine2: continues the line before", ""},
			{"over three lines", []string{"billAddrLine1", long + " 12 " + long + " 34 end"},
				[]string{"billAddrLine1", long + " 12", "billAddrLine2", long + " 34", "billAddrLine3", "end"},
				"billAddrLine1: continued in the next line; billAddrLine2: continues the line before; billAddrLine3: continues the line before", ""},
			{"no room", []string{"billAddrLine1", long + " 12 Road", "billAddrLine2", "Flat 2", "billAddrLine3", "Rear"}, nil, "", "203 billAddrLine1"},
			{"no blank", []string{"billAddrLine1", long + long}, nil, "", "203 billAddrLine1"},
			{"long name", []string{"cardholderName", long}, nil, "", "203 cardholderName"},
		} {
			b := validRequest(t, v, message.BRW, message.PA)
			for _, name := range []string{"billAddrLine1", "billAddrLine2", "billAddrLine3", "billAddrState", "billAddrCountry",
				"shipAddrLine1", "shipAddrLine2", "shipAddrLine3", "shipAddrState", "shipAddrCountry"} {
				b = b.with(name, "")
			}
			for i := 0; i < len(test.pairs); i += 2 {
				raw, err := json.Marshal(test.pairs[i+1])
				if err != nil {
					t.Fatal(err)
				}
				b = b.with(test.pairs[i], string(raw))
			}
			r := b.read(t)
			r.Normalise()
			var changes []string
			for _, c := range r.Transliterate() {
				changes = append(changes, string(c.Path)+": "+c.What)
			}
			m, p := r.Build(message.Context{})
			if got := strings.Join(faults(p), " "); got != test.faults {
				t.Errorf("%s %s: %s, want %q", v, test.name, got, test.faults)
			}
			for i := 0; i < len(test.want); i += 2 {
				if got := m.Text(test.want[i]); got != test.want[i+1] {
					t.Errorf("%s %s: %s = %q, want %q", v, test.name, test.want[i], got, test.want[i+1])
				}
			}
			if got := strings.Join(changes, "; "); got != test.changes {
				t.Errorf("%s %s: changes %q, want %q", v, test.name, got, test.changes)
			}
			if again := r.Transliterate(); again != nil {
				t.Errorf("%s %s: changed again: %v", v, test.name, again)
			}
		}
	}
	r := validRequest(t, message.V231, message.BRW, message.PA).with("cardholderName", `"Jørgen"`).read(t)
	if changes := r.Transliterate(); changes != nil {
		t.Errorf("2.3.1: %v", changes)
	}
}
