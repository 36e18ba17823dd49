package message_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/difftest"
	"github.com/openthreeds/threeds/message"
)

// TestR9ValuesAreNormalised is also MC-57, MC-60, MC-61, MC-64.
func TestR9ValuesAreNormalised(t *testing.T) {
	long := strings.Repeat("x", 2047)
	for _, test := range []struct {
		v              message.Version
		name, raw, out string // out "": as it came
		change         string
	}{
		// Country and currency codes, wherever they are.
		{message.V210, "merchantCountryCode", `"36"`, `"036"`, "merchantCountryCode: padded to 3 digits"},
		{message.V220, "purchaseCurrency", `"8"`, `"008"`, "purchaseCurrency: padded to 3 digits"},
		{message.V220, "billAddrCountry", `"\u00338"`, `"038"`, "billAddrCountry: padded to 3 digits"},
		{message.V220, "shipAddrCountry", `"4"`, `"004"`, "shipAddrCountry: padded to 3 digits"},
		{message.V220, "merchantRiskIndicator", `{"giftCardCurr":"36"}`, `{"giftCardCurr":"036"}`, "merchantRiskIndicator.giftCardCurr: padded to 3 digits"},
		{message.V231, "sellerInfo", `[{"sellerName":"a","sellerId":"b","sellerAddrCountry":"36"}]`,
			`[{"sellerName":"a","sellerId":"b","sellerAddrCountry":"036"}]`, "sellerInfo[0].sellerAddrCountry: padded to 3 digits"},
		{message.V231, "multiTransaction", `{"merchantList":[{"merchantNameListed":"a","merchantAmount":"1","merchantCurrency":"36","merchantExponent":"2"}]}`,
			`{"merchantList":[{"merchantNameListed":"a","merchantAmount":"1","merchantCurrency":"036","merchantExponent":"2"}]}`,
			"multiTransaction.merchantList[0].merchantCurrency: padded to 3 digits"},
		{message.V220, "mcc", `"12"`, "", ""},
		{message.V220, "merchantCountryCode", `"XX"`, "", ""},
		{message.V220, "merchantCountryCode", `36.0`, "", ""},

		// Colour depth.
		{message.V220, "browserColorDepth", `"30"`, `"24"`, "browserColorDepth: lowered to 24"},
		{message.V210, "browserColorDepth", `"5"`, `"4"`, "browserColorDepth: lowered to 4"},
		{message.V220, "browserColorDepth", `"64"`, `"48"`, "browserColorDepth: lowered to 48"},
		{message.V220, "browserColorDepth", `"4000000000000002"`, `"48"`, "browserColorDepth: lowered to 48"},
		{message.V220, "browserColorDepth", `"16"`, "", ""},
		{message.V220, "browserColorDepth", `"0"`, "", ""},
		{message.V220, "browserColorDepth", `"x"`, "", ""},
		{message.V231, "browserColorDepth", `"30"`, "", ""},

		// Language.
		{message.V220, "browserLanguage", `"zh-Hant-TW"`, `"zh-Hant"`, "browserLanguage: cut to the first tag, or a part of it"},
		{message.V220, "browserLanguage", `"da, en-GB;q=0.8, en;q=0.7"`, `"da"`, "browserLanguage: cut to the first tag, or a part of it"},
		{message.V220, "browserLanguage", `"en-GB;q=0.8"`, `"en-GB"`, "browserLanguage: cut to the first tag, or a part of it"},
		{message.V220, "browserLanguage", `"abcdefghi-x"`, "", ""},
		{message.V220, "browserLanguage", `"de-DE-x-abcdefgh"`, `"de-DE"`, "browserLanguage: cut to the first tag, or a part of it"},
		{message.V220, "browserLanguage", `"de-x-a-abcdefgh"`, `"de"`, "browserLanguage: cut to the first tag, or a part of it"},
		{message.V220, "browserLanguage", `"en-u-co-phonebk"`, `"en-u-co"`, "browserLanguage: cut to the first tag, or a part of it"},
		{message.V220, "browserLanguage", `"de-1-abcdef"`, `"de"`, "browserLanguage: cut to the first tag, or a part of it"},
		{message.V220, "browserLanguage", `"en--abcdefgh"`, `"en"`, "browserLanguage: cut to the first tag, or a part of it"},
		{message.V220, "browserLanguage", `"en---x--abcdefgh"`, `"en"`, "browserLanguage: cut to the first tag, or a part of it"},
		{message.V220, "browserLanguage", `"e--abcdefgh"`, "", ""},
		{message.V220, "browserLanguage", `"x-abcdefg"`, "", ""},
		{message.V220, "browserLanguage", `"i-default"`, "", ""},
		{message.V231, "browserLanguage", `"sl-Latn-IT-rozaj-biske-1994-x-abcdefgh"`, `"sl-Latn-IT-rozaj-biske-1994"`,
			"browserLanguage: cut to the first tag, or a part of it"},
		{message.V220, "browserLanguage", `"en"`, "", ""},
		{message.V231, "browserLanguage", `"zh-Hant-TW"`, "", ""},

		// Time zone.
		{message.V220, "browserTZ", `"+060"`, `"60"`, "browserTZ: tidied"},
		{message.V220, "browserTZ", `"-0300"`, `"-300"`, "browserTZ: tidied"},
		{message.V220, "browserTZ", `"-000"`, `"0"`, "browserTZ: tidied"},
		{message.V220, "browserTZ", `"-300"`, "", ""},
		{message.V220, "browserTZ", `"UTC"`, "", ""},
		{message.V220, "browserTZ", `"+"`, "", ""},

		// Headers.
		{message.V220, "browserUserAgent", `"` + long + `xy"`, `"` + long + `x"`, "browserUserAgent: cut to 2048 characters"},
		{message.V231, "browserAcceptHeader", `"` + long + `\u00e9é"`, `"` + long + `é"`, "browserAcceptHeader: cut to 2048 characters"},
		{message.V220, "browserAcceptHeader", `"` + long + `x"`, "", ""},

		// Arrays of 2.3.1.
		{message.V231, "threeDSRequestorChallengeInd", `"03"`, `["03"]`, "threeDSRequestorChallengeInd: made an array"},
		{message.V231, "threeDSRequestorAuthenticationInfo", `{"threeDSReqAuthMethod":"01","x":1}`,
			`[{"threeDSReqAuthMethod":"01"}]`, "threeDSRequestorAuthenticationInfo: made an array"},
		{message.V231, "threeDSRequestorPriorAuthenticationInfo", `{"threeDSReqPriorAuthMethod":"01"}`,
			`[{"threeDSReqPriorAuthMethod":"01"}]`, "threeDSRequestorPriorAuthenticationInfo: made an array"},
		{message.V231, "acceptLanguage", `"da"`, `["da"]`, "acceptLanguage: made an array"},
		{message.V231, "acceptLanguage", `["da","en","da"]`, `["da","en"]`, "acceptLanguage[2]: dropped, it is there already"},
		{message.V231, "merchantRiskIndicator", `{"transChar":"01"}`, `{"transChar":["01"]}`, "merchantRiskIndicator.transChar: made an array"},
		{message.V231, "messageExtension", `{"id":"A","name":"n","criticalityIndicator":false,"data":{ "Data":null }}`,
			`[{"criticalityIndicator":false,"data":{ "Data":null },"id":"A","name":"n"}]`, "messageExtension: made an array"},
		{message.V220, "threeDSRequestorChallengeInd", `"03"`, "", ""},

		// Never touched.
		{message.V220, "purchaseAmount", `"007"`, "", ""},
		{message.V220, "acctNumber", `"4000 0000 0000 0002"`, "", ""},
		{message.V220, "notificationURL", `"HTTP://Shop.example"`, "", ""},
		{message.V220, "threeDSServerTransID", `"8A880DC0-D2D2-4067-BCB1-B08D1690B26E"`, "", ""},
	} {
		b := validRequest(t, test.v, message.BRW, message.PA)
		r := b.with(test.name, test.raw).read(t)
		changes := r.Normalise()
		m, _ := r.Build(message.Context{})
		want := test.out
		if want == "" {
			want = test.raw
		}
		if got := string(m.Raw(test.name)); got != want {
			t.Errorf("%s %s %.60s: %.80s, want %.80s", test.v, test.name, test.raw, got, want)
		}
		var got string
		for _, c := range changes {
			got += fmt.Sprintf("%s: %s", c.Path, c.What)
		}
		if got != test.change {
			t.Errorf("%s %s %.60s: changes %q, want %q", test.v, test.name, test.raw, got, test.change)
		}
		if again := r.Normalise(); again != nil {
			t.Errorf("%s %s %.60s: changed again: %v", test.v, test.name, test.raw, again)
		}
		strict := b.with(test.name, test.raw).read(t)
		if m, _ := strict.Build(message.Context{}); test.name != "messageExtension" && test.out != "" && string(m.Raw(test.name)) == want {
			t.Errorf("%s %s %.60s: changed without Normalise", test.v, test.name, test.raw)
		}
	}
}

func TestR9AcquirerIsCompleted(t *testing.T) {
	b := validRequest(t, message.V231, message.BRW, message.PA).with("merchantCountryCode", `"36"`, "acquirerCountryCode", "", "acquirerCountryCodeSource", `null`)
	r := b.read(t)
	changes := r.Normalise()
	m, p := r.Build(message.Context{})
	if p != nil {
		t.Fatal(p)
	}
	if code, source := m.Text("acquirerCountryCode"), m.Text("acquirerCountryCodeSource"); code != "036" || source != "01" {
		t.Errorf("acquirerCountryCode %q, source %q", code, source)
	}
	want := []message.Change{{Path: "merchantCountryCode", What: "padded to 3 digits"},
		{Path: "acquirerCountryCode", What: "taken from merchantCountryCode"}, {Path: "acquirerCountryCodeSource", What: "set to 01"}}
	if diff := difftest.Diff(want, changes); diff != "" {
		t.Error(diff)
	}
	r = b.read(t)
	r.Default("acquirerCountryCode", "208") // of the merchant's profile
	r.Normalise()
	if m, _ := r.Build(message.Context{}); m.Text("acquirerCountryCode") != "208" {
		t.Errorf("acquirerCountryCode %q, the profile says 208", m.Text("acquirerCountryCode"))
	}
	if _, p := b.build(t); len(p) != 3 {
		t.Errorf("strict: %v", p)
	}
	older := validRequest(t, message.V220, message.BRW, message.PA).read(t)
	if changes := older.Normalise(); changes != nil {
		t.Errorf("2.2.0: %v", changes)
	}
}

func TestR9AcceptLanguageIsCompleted(t *testing.T) {
	for _, test := range []struct{ header, accept, language string }{
		{"da, en-GB;q=0.8,*;q=0.1", `["da","en-GB","*"]`, "da"},
		{"en-GB", `["en-GB"]`, "en-GB"},
		{"en,,en;q=0.5", `["en"]`, "en"},
		{"*,da", `["*","da"]`, "da"},
		{"en;q=0.5,da;q=0,fi", `["fi","en"]`, "fi"},
	} {
		r := validRequest(t, message.V231, message.BRW, message.PA).with("browserLanguage", `"`+test.header+`"`, "acceptLanguage", "").read(t)
		r.Normalise()
		m, p := r.Build(message.Context{})
		if p != nil || string(m.Raw("acceptLanguage")) != test.accept || m.Text("browserLanguage") != test.language {
			t.Errorf("%s: %v, acceptLanguage %s, browserLanguage %s", test.header, p, m.Raw("acceptLanguage"), m.Raw("browserLanguage"))
		}
	}
	r := validRequest(t, message.V231, message.APP, message.PA).with("browserLanguage", `"da"`).read(t)
	if changes := r.Normalise(); changes != nil {
		t.Errorf("APP: %v", changes)
	}
	dup := validRequest(t, message.V231, message.BRW, message.PA).with("acceptLanguage", `["en","en"]`)
	if _, p := dup.build(t); len(p) != 1 || p[0].Code != message.Duplicate {
		t.Errorf("strict: %v", p)
	}
}

// Members that Build leaves out make no Change.
func TestNormaliseSkipsMembersThatAreNotSent(t *testing.T) {
	for _, test := range []struct{ name, raw string }{
		{"recurringCurrency", `"36"`}, // without recurringAmount
		{"multiTransaction", `{"merchantList":[{"merchantNameListed":"a","merchantCurrency":"36"}]}`},
		{"threeDSRequestorAuthenticationInfo", `{"dsAuthInfVerifInd":"01","x":[1]}`}, // the DS's
	} {
		r := validRequest(t, message.V231, message.BRW, message.PA).with(test.name, test.raw, "recurringAmount", "").read(t)
		if changes := r.Normalise(); changes != nil {
			t.Errorf("%s %s: %v", test.name, test.raw, changes)
		}
		m, p := r.Build(message.Context{})
		if p != nil {
			t.Errorf("%s %s: %v", test.name, test.raw, p)
		}
		if got := string(m.Raw(test.name)); strings.Contains(got, "36") || strings.Contains(got, "01") {
			t.Errorf("%s was sent: %s", test.name, got)
		}
	}
}

func TestNormaliseNeedsAVersion(t *testing.T) {
	for _, version := range []string{`""`, `"9.9.9"`, `1`} {
		r := validRequest(t, message.V220, message.BRW, message.PA).with("browserTZ", `"+060"`, "messageVersion", version).read(t)
		if changes := r.Normalise(); changes != nil {
			t.Errorf("version %s: %v", version, changes)
		}
	}
}

// TestAppOfAnOlderVersion: what an app took from an SDK of an earlier version, or as the SDK gives it, becomes what the
// version of the request asks for.
func TestAppOfAnOlderVersion(t *testing.T) {
	const key = `{"kty":"EC","crv":"P-256","x":"WWcpTjbOqiu_1aODllw5rYTq5oLXE_T0huCPjMIRbkI","y":"Wz_7anIeadV8SJZUfr4drwjzuWoUbOsHp5GdRZBAAiw"}`
	for _, v := range message.Versions() {
		for _, test := range []struct {
			name, raw, out, changes string // raw "": absent
			from                    message.Version
		}{
			{"sdkMaxTimeout", `"5"`, `"05"`, "sdkMaxTimeout: padded to 2 digits", message.V210},
			{"sdkMaxTimeout", `5`, `"05"`, "sdkMaxTimeout: written as a string\nsdkMaxTimeout: padded to 2 digits", message.V210},
			{"sdkMaxTimeout", `"60"`, `"60"`, "", message.V210},
			{"sdkMaxTimeout", `"5 minutes"`, `"5 minutes"`, "", message.V210},
			{"sdkEphemPubKey", string(mustQuote(t, key)), key, "sdkEphemPubKey: made an object", message.V210},
			{"sdkEphemPubKey", `"{"`, `"{"`, "", message.V210},
			{"sdkType", "", `"01"`, "sdkType: set to 01, a Default-SDK", message.V231},
			{"defaultSdkType", "", `{"sdkVariant":"01"}`, "defaultSdkType: set to native", message.V231},
			{"sdkType", `"02"`, `"02"`, "", message.V231},
		} {
			if v < test.from {
				continue
			}
			b := validRequest(t, v, message.APP, message.PA).with("splitSdkType", "", "sdkServerSignedContent", "")
			if v >= message.V231 {
				b = b.with("sdkType", `"01"`, "defaultSdkType", `{"sdkVariant":"01"}`)
			}
			if test.raw == "" {
				b = b.with(test.name, "")
			} else {
				b = b.with(test.name, test.raw)
			}
			r := b.read(t)
			var changes []string
			for _, c := range r.Normalise() {
				if c.Path == message.Path(test.name) {
					changes = append(changes, string(c.Path)+": "+c.What)
				}
			}
			m, _ := r.Build(message.Context{})
			if got := string(m.Raw(test.name)); got != test.out || strings.Join(changes, "\n") != test.changes {
				t.Errorf("%s %s %s: %s, changes %q; want %s, %q", v, test.name, test.raw, got, changes, test.out, test.changes)
			}
		}
		b := validRequest(t, v, message.APP, message.PA).with("sdkMaxTimeout", `"5"`).with("sdkEphemPubKey", string(mustQuote(t, key))).
			with("sdkType", "", "defaultSdkType", "", "splitSdkType", "", "sdkServerSignedContent", "")
		r := b.read(t)
		r.Normalise()
		if _, problems := r.Build(message.Context{}); len(problems) > 0 {
			t.Errorf("%s: %v", v, problems)
		}
	}
}

// mustQuote returns a text as JSON.
func mustQuote(t *testing.T, text string) []byte {
	raw, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestCheckIdentifiers: an id with a blank around it is what a directory server may refuse, at the top and in objects.
func TestCheckIdentifiers(t *testing.T) {
	for _, v := range message.Versions() {
		m, problems := validRequest(t, v, message.BRW, message.PA).with("acquirerMerchantID", `"M-1001 "`).
			with("acctInfo", `{"chAccAgeInd":"01"}`).with("threeDSRequestorID", `" corner-shop"`).read(t).Build(message.Context{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		for name, found := range map[string]message.Problems{"CheckSent": m.CheckSent(), "CheckIdentifiers": m.CheckIdentifiers()} {
			if len(found) != 2 || found[0].Path != "threeDSRequestorID" || found[1].Path != "acquirerMerchantID" {
				t.Errorf("%s %s: %v", v, name, found)
			}
		}
	}
	m, problems := validRequest(t, message.V231, message.BRW, message.PA).
		with("sellerInfo", `[{"sellerName":"a","sellerId":"b "}]`).read(t).Build(message.Context{})
	if found := m.CheckIdentifiers(); len(found) != 1 || found[0].Path != "sellerInfo[0].sellerId" {
		t.Errorf("%v, %v", found, problems)
	}
}

// TestR9dHeadersOfBrowsersAreWrittenInTheCharactersOfTheVersion is also case 25: no requestor
// chooses what a browser sends.
func TestR9dHeadersOfBrowsersAreWrittenInTheCharactersOfTheVersion(t *testing.T) {
	long := strings.Repeat("x", 2047)
	for _, test := range []struct {
		v                    message.Version
		name, raw, out, what string
	}{
		{message.V220, "browserUserAgent", `"Mozilla/5.0 \u00fcn\u00ef"`, `"Mozilla/5.0 uni"`, "browserUserAgent: written in ASCII"},
		{message.V210, "browserAcceptHeader", `"text/htmlü, 微"`, `"text/htmlu, ?"`, "browserAcceptHeader: written in ASCII"},
		{message.V220, "browserUserAgent", `"ü` + long + `"`, `"u` + long + `"`, "browserUserAgent: written in ASCII"},
		{message.V220, "browserUserAgent", `"a\tb\u200f\u0085"`, `"a b "`, "browserUserAgent: written in the characters that a text may have"},
		{message.V231, "browserUserAgent", `"a\tü\u2028微\u202e"`, `"a ü 微"`, "browserUserAgent: written in the characters that a text may have"},
		{message.V231, "browserUserAgent", `"ün\u00ef 微"`, `"ün\u00ef 微"`, ""},
	} {
		r := validRequest(t, test.v, message.BRW, message.PA).with(test.name, test.raw).read(t)
		what := ""
		for _, c := range r.Normalise() {
			if string(c.Path) == test.name {
				what += string(c.Path) + ": " + c.What
			}
		}
		m, p := r.Build(message.Context{})
		if p != nil || string(m.Raw(test.name)) != test.out || what != test.what {
			t.Errorf("%s %s %s: %s, %q, %v; want %s, %q", test.v, test.name, test.raw, m.Raw(test.name), what, p, test.out, test.what)
		}
	}
}
