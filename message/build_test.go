package message_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/difftest"
	"github.com/openthreeds/threeds/message"
)

// readWithMore reads a body with more members behind it, which it may have already.
func readWithMore(t *testing.T, b body, more string) *message.Request {
	t.Helper()
	r, err := message.ReadRequest([]byte(strings.TrimSuffix(b.String(), "}")+","+more+"}"), message.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestR7DuplicatesAreReportedInAnyCase(t *testing.T) {
	b := validRequest(t, message.V220, message.BRW, message.PA)
	for _, test := range []struct{ more, want string }{
		{`"acctNumber":"4000000000000002"`, "204 acctNumber"},
		{`"AcctNumber":null`, "204 acctNumber"},
		{`"\u0061cctNumber":1`, "204 acctNumber"},
		{`"ds":"visa","DS":"amex"`, "204 DS"},
		{`"x":{"some":1,"Some":2}`, "204 x.Some"},
		{`"dsURL":"a","dsurl":"b"`, "204 dsURL"},
		{`"acctInfo":{"chAccDate":"20200101","chaccdate":"20200101"}`, "204 acctInfo.chAccDate"},
		{`"4000000000000002":1,"4000000000000002":2`, "204 unknown"},
	} {
		r := readWithMore(t, b.with("acctInfo", ""), test.more)
		if got := faults(r.Duplicates()); !slices.Equal(got, []string{test.want}) {
			t.Errorf("%s: Duplicates = %v", test.more, got)
		}
		if _, p := r.Build(message.Context{}); !slices.Equal(faults(p), []string{test.want}) {
			t.Errorf("%s: Build = %v", test.more, p)
		}
	}
	r := readWithMore(t, b.with("messageExtension", ""), `"messageExtension":[{"name":"n","id":"A","criticalityIndicator":false,"data":{"a":1,"A":2}}]`)
	if p := r.Duplicates(); p != nil {
		t.Errorf("names in extension data differ in case: %v", p)
	}
	small, err := message.ReadRequest([]byte(`{"acctNumber":"1","ACCTNUMBER":"2"}`), message.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got := faults(small.Duplicates()); !slices.Equal(got, []string{"204 acctNumber"}) {
		t.Errorf("Duplicates = %v", got)
	}
}

func TestR8ExtensionDataIsSentUnchanged(t *testing.T) {
	const data = "{ \"n\" : 1.10e+2,\n\t\"big\":123456789012345678901234567890, \"\\u00e9\":\"é\\/\", \"null\":null, \"e\":[ ], \"dup\":{\"A\":1,\"a\":2} }"
	for _, v := range message.Versions() {
		b := validRequest(t, v, message.BRW, message.PA).with("messageExtension",
			`[ {"id":"A000000802-004", "name":"Bridging", "criticalityIndicator":false, "extra":1, "data":`+data+`} ]`)
		m := b.built(t)
		if got := string(m.Raw("messageExtension[0].data")); got != data {
			t.Errorf("%s: data = %s, want %s", v, got, data)
		}
		if m.Raw("messageExtension[0].extra") != nil {
			t.Errorf("%s: extra went out", v)
		}
	}
}

func TestR8StringsKeepTheirJSONText(t *testing.T) {
	m := validRequest(t, message.V231, message.BRW, message.PA).with("merchantName", `"A\u0026B \/ caf\u00e9 é"`).built(t)
	if got, want := string(m.Raw("merchantName")), `"A\u0026B \/ caf\u00e9 é"`; got != want {
		t.Errorf("merchantName = %s, want %s", got, want)
	}
}

func TestR10OnlyASCIIIsSentBefore231(t *testing.T) {
	for _, test := range []struct {
		name, raw, want string
	}{
		{"merchantName", `"é"`, "203 merchantName"},
		{"merchantName", `"caf\u00e9"`, "203 merchantName"},
		{"merchantName", `"\uD83D\uDE00"`, "203 merchantName"},
		{"merchantName", `"\u0041\\u00e9"`, ""},
		{"merchantRiskIndicator", `{"deliveryEmailAddress":"é@x.example"}`, "203 merchantRiskIndicator.deliveryEmailAddress"},
		{"broadInfo", `{"é":{"a":"é"}}`, "203 broadInfo"},
		{"broadInfo", `{"é":null}`, ""},
		{"messageExtension", `[{"name":"é","id":"A","criticalityIndicator":false,"data":{"a":"é"}}]`, "203 messageExtension.name"},
		{"messageExtension", `[{"name":"e","id":"A","criticalityIndicator":false,"data":{"é":"é"}}]`, ""},
		{"unknown", `"é"`, ""},
		{"taxId", `"é"`, ""}, // 2.3.1 only: does not go out
	} {
		for _, v := range []message.Version{message.V210, message.V220} {
			_, p := validRequest(t, v, message.BRW, message.PA).with(test.name, test.raw).build(t)
			if got := strings.Join(faults(p), " "); got != test.want {
				t.Errorf("%s %s %s: %q, want %q", v, test.name, test.raw, got, test.want)
			}
		}
	}
	for _, name := range []string{"merchantName", "cardholderName", "billAddrCity"} {
		validRequest(t, message.V231, message.BRW, message.PA).with(name, `"é漢😀"`).built(t)
	}
	_, p := validRequest(t, message.V231, message.BRW, message.PA).with("purchaseAmount", `"１２"`).build(t)
	if got := faults(p); !slices.Equal(got, []string{"203 purchaseAmount"}) {
		t.Errorf("wide digits: %v", got)
	}
}

func TestR11NotificationURLNeedsHTTPSFrom231(t *testing.T) {
	for _, test := range []struct {
		url                      string
		older, newer, inLoopback bool
	}{
		{"https://my_shop.example/3ds", true, true, true},
		{"HTTPS://shop.example", true, true, true},
		{"http://shop.example/3ds", true, false, false},
		{"http://127.0.0.1:8080/3ds", true, false, true},
		{"http://127.9.9.9/3ds", true, false, true},
		{"http://[::1]:1/", true, false, true},
		{"http://localhost/", true, false, true},
		{"http://shop.LocalHost:8080/", true, false, true},
		{"http://localhost.example/", true, false, false},
		{"http://127.0.0.1.example/", true, false, false},
		{"http://127.0.0.1@evil.example/", false, false, false},
		{"ftp://shop.example/", false, false, false},
		{"/3ds", false, false, false},
	} {
		for _, v := range message.Versions() {
			for _, loopback := range []bool{false, true} {
				want := test.older
				if v >= message.V231 {
					if want = test.newer; loopback {
						want = test.inLoopback
					}
				}
				r := validRequest(t, v, message.BRW, message.PA).with("notificationURL", `"`+test.url+`"`).read(t)
				_, p := r.Build(message.Context{Loopback: loopback})
				if (p == nil) != want || p != nil && p[0].String() != "203 notificationURL" {
					t.Errorf("%s, loopback %v: %s: %v", v, loopback, test.url, p)
				}
			}
		}
	}
}

// A browser refuses to confirm a payment to an origin that is not https.
func TestPayeeOriginNeedsHTTPS(t *testing.T) {
	for origin, want := range map[string][]string{
		"https://shop.example": nil,
		"http://shop.example":  {"203 payeeOrigin"},
		"http://localhost":     {"203 payeeOrigin"},
		"shop.example":         {"203 payeeOrigin"},
	} {
		r := validRequest(t, message.V231, message.BRW, message.PA).with("threeDSRequestorSpcSupport", `"Y"`, "payeeOrigin", `"`+origin+`"`).read(t)
		if _, p := r.Build(message.Context{}); !slices.Equal(faults(p), want) {
			t.Errorf("%s: %v, want %v", origin, p, want)
		}
	}
}

func TestR12BuildReportsAllFaults(t *testing.T) {
	b := validRequest(t, message.V220, message.BRW, message.PA).with("messageExtension", `[{"name":"n","id":"A999","criticalityIndicator":true,"data":{"a":1}}]`,
		"merchantName", ``, "browserIP", `"999.1.1.1"`, "purchaseCurrency", `"999"`, "mobilePhone", `{"cc":"0045"}`)
	_, p := readWithMore(t, b, `"MCC":"1234"`).Build(message.Context{})
	want := []string{"201 merchantName", "201 mobilePhone.subscriber", "202 A999", "203 browserIP", "203 mobilePhone.cc", "204 mcc", "304 purchaseCurrency"}
	if diff := difftest.Diff(sorted(want), sorted(faults(p))); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	code, detail := p.Pick(message.ForRequestor)
	if names := strings.Split(detail, ","); code != message.Duplicate || names[0] != "mcc" || len(names) != 7 {
		t.Errorf("Pick = %s %s", code, detail)
	}
}

func TestRequestVersionFaultsAreReported(t *testing.T) {
	b := validRequest(t, message.V220, message.BRW, message.PA)
	for _, test := range []struct {
		raw, want string
		detail    string
		message   bool
	}{
		{`"2.2.0"`, "", "", true},
		{`"\u0032.2.0"`, "", "", true},
		{`"1.0.2"`, "102", "2.1.0,2.2.0,2.3.1", false},
		{`"4000000000000002"`, "102", "2.1.0,2.2.0,2.3.1", false},
		{`220`, "203", "messageVersion", false},
		{`""`, "201", "messageVersion", false},
		{`null`, "201", "messageVersion", false},
		{``, "201", "messageVersion", false},
	} {
		b := b.with("messageVersion", test.raw)
		if v, ok := b.read(t).Version(); v != message.V220 || ok != test.message {
			t.Errorf("Version() = %s, %v", v, ok)
		}
		m, p := b.build(t)
		code, detail := p.Pick(message.ForRequestor)
		if (m != nil) != test.message || len(p) > 0 != (test.want != "") || test.want != "" && (code.String() != test.want || detail != test.detail) {
			t.Errorf("version %s: message %v, %v %s", test.raw, m != nil, p, detail)
		}
	}
	// A version that is not in use is supported nevertheless, so everything else is checked.
	m, p := b.with("merchantName", "").read(t).Build(message.Context{Versions: []message.Version{message.V231}})
	if code, detail := p.Pick(message.ForRequestor); m == nil || len(p) != 2 || code != message.UnsupportedVersion || !strings.HasPrefix(detail, "2.3.1") {
		t.Errorf("version not in use: %v", p)
	}
	// Duplicates count whatever the version.
	_, p = readWithMore(t, b.with("messageVersion", `"9.9.9"`), `"Mcc":"1"`).Build(message.Context{})
	if diff := difftest.Diff(sorted([]string{"102 2.1.0,2.2.0,2.3.1", "204 mcc"}), sorted(faults(p))); diff != "" {
		t.Error(diff)
	}
	// Without a version, elements that every AReq needs are still reported.
	empty, err := message.ReadRequest([]byte(`{}`), message.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if _, p := empty.Build(message.Context{}); !slices.Contains(faults(p), "201 deviceChannel") ||
		!slices.Contains(faults(p), "201 messageVersion") || slices.Contains(faults(p), "201 mcc") {
		t.Errorf("{}: %v", p)
	}
}

func TestTypeChannelAndCategoryFaultsAreReported(t *testing.T) {
	b := validRequest(t, message.V220, message.BRW, message.PA)
	for _, test := range []struct {
		name, raw, want string
	}{
		{"messageType", ``, "201 messageType"},
		{"messageType", `null`, "201 messageType"},
		{"messageType", `"areq"`, "203 messageType"},
		{"messageType", `"RReq"`, "203 messageType"},
		{"messageType", `1`, "203 messageType"},
		{"deviceChannel", `""`, "201 deviceChannel"},
		{"deviceChannel", `"04"`, "203 deviceChannel"},
		{"messageCategory", `"03"`, "203 messageCategory"},
	} {
		m, p := b.with(test.name, test.raw, "threeDSRequestorURL", "").build(t)
		if diff := difftest.Diff(sorted([]string{test.want, "201 threeDSRequestorURL"}), sorted(faults(p))); m == nil || diff != "" {
			t.Errorf("%s %s:\n%s", test.name, test.raw, diff)
		}
	}
}

func TestMC38ContradictoryPreferencesAreRefused(t *testing.T) {
	b := validRequest(t, message.V231, message.BRW, message.PA)
	for raw, want := range map[string]string{
		`["03"]`: "", `["02","05"]`: "", `["04","09"]`: "", `["01","04"]`: "", `["82","04"]`: "",
		`["02","04"]`: "203 threeDSRequestorChallengeInd", `["09","08"]`: "203 threeDSRequestorChallengeInd",
	} {
		_, p := b.with("threeDSRequestorChallengeInd", raw).build(t)
		if got := strings.Join(faults(p), " "); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

func TestMC50NamedSellersMustBeDescribed(t *testing.T) {
	b := validRequest(t, message.V231, message.BRW, message.PA)
	list := func(ids ...string) string {
		var all []string
		for n, id := range ids {
			all = append(all, fmt.Sprintf(`{"merchantNameListed":"M%d"%s}`, n, id))
		}
		return `{"merchantList":[` + strings.Join(all, ",") + `]}`
	}
	const one, two, none = `,"sellerId":"S1"`, `,"sellerId":"S\u0032"`, ""
	for _, test := range []struct{ name, merchants, sellers, want string }{
		{"nobody is named", list(none, none), ``, ""},
		{"nobody is named, one is described", list(none), `[{"sellerName":"A","sellerId":"S1"}]`, ""},
		{"both are described", list(one, two, none), `[{"sellerName":"B","sellerId":"S2"},{"sellerName":"A","sellerId":"S1"}]`, ""},
		{"one of both is", list(one, two), `[{"sellerName":"A","sellerId":"S1"}]`, "203 sellerInfo"},
		{"another is", list(one), `[{"sellerName":"A","sellerId":"s1"}]`, "203 sellerInfo"},
		{"nobody is", list(one), ``, "203 sellerInfo"},
		{"the description has no id", list(one), `[{"sellerName":"A"}]`, "201 sellerInfo.sellerId"},
	} {
		_, p := b.with("multiTransaction", test.merchants, "sellerInfo", test.sellers).build(t)
		if got := strings.Join(faults(p), " "); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	for _, v := range []message.Version{message.V210, message.V220} {
		validRequest(t, v, message.BRW, message.PA).with("multiTransaction", list(one)).built(t)
	}
}

// Rows MC-26 to MC-31, MC-49, MC-59 and MC-66.
func TestFrequentFaultsOfRequestorsAreReported(t *testing.T) {
	for _, test := range []struct {
		v         message.Version
		name, raw string
		want      string
	}{
		{message.V220, "billAddrState", `"US-CA"`, "203 billAddrState"},
		{message.V220, "email", `"a@"`, "203 email"},
		{message.V220, "cardholderName", `"X"`, "203 cardholderName"},
		{message.V231, "cardholderName", `"X"`, ""},
		{message.V220, "mobilePhone", `{"cc":"0045","subscriber":"1"}`, "203 mobilePhone.cc"},
		{message.V220, "addrMatch", `"y"`, "203 addrMatch"},
		{message.V220, "acctType", `"04"`, "203 acctType"},
		{message.V231, "acctType", `"04"`, "207 acctType"},
		{message.V231, "cardSecurityCode", `"12"`, "203 cardSecurityCode"},
		{message.V220, "threeDSCompInd", `"X"`, "203 threeDSCompInd"},
		{message.V220, "threeDSCompInd", ``, "201 threeDSCompInd"},
		{message.V210, "browserTZ", ``, "201 browserTZ"},
		{message.V220, "browserLanguage", ``, "201 browserLanguage"},
		{message.V220, "whiteListStatus", `"E"`, "203 whiteListStatus"},
	} {
		b := validRequest(t, test.v, message.BRW, message.PA).with("billAddrCountry", `"208"`)
		_, p := b.with(test.name, test.raw).build(t)
		if got := strings.Join(faults(p), " "); got != test.want {
			t.Errorf("%s %s %s: %q, want %q", test.v, test.name, test.raw, got, test.want)
		}
	}
	quiet := validRequest(t, message.V220, message.BRW, message.PA).with("browserJavascriptEnabled", `false`, "browserTZ", "", "browserColorDepth", "",
		"browserJavaEnabled", "", "browserScreenHeight", "", "browserScreenWidth", "")
	quiet.built(t)
	if _, p := quiet.with("browserJavascriptEnabled", `true`).build(t); len(p) != 5 {
		t.Errorf("with JavaScript: %v", p)
	}
	if _, p := validRequest(t, message.V220, message.BRW, message.PA).with("billAddrState", `"CA"`, "billAddrCountry",
		"").build(t); !slices.Equal(faults(p), []string{"201 billAddrCountry"}) {
		t.Errorf("state without country: %v", p)
	}
}
