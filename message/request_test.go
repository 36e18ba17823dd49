package message_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/difftest"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/message/messagetest"
)

// A body is a request as a requestor writes it: JSON texts by name.
type body map[string]string

// validRequest returns a body that Build accepts.
func validRequest(t testing.TB, v message.Version, ch message.Channel, cat message.Category) body {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(messagetest.Sample(rand.New(rand.NewPCG(3, 3)), message.AReq, v, ch, cat, false), &members); err != nil {
		t.Fatal(err)
	}
	b := make(body)
	for name, raw := range members {
		b[name] = string(raw)
	}
	return b
}

// with returns b with members added or changed: pairs of name and JSON text. An empty text
// removes the member.
func (b body) with(pairs ...string) body {
	b = maps.Clone(b)
	for pair := range slices.Chunk(pairs, 2) {
		if b[pair[0]] = pair[1]; pair[1] == "" {
			delete(b, pair[0])
		}
	}
	return b
}

func (b body) String() string {
	var members []string
	for _, name := range slices.Sorted(maps.Keys(b)) {
		members = append(members, `"`+name+`":`+b[name])
	}
	return "{" + strings.Join(members, ",") + "}"
}

func (b body) read(t testing.TB) *message.Request {
	t.Helper()
	r, err := message.ReadRequest([]byte(b.String()), message.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// build is what becomes of a body without normalising.
func (b body) build(t testing.TB) (*message.Message, message.Problems) {
	t.Helper()
	return b.read(t).Build(message.Context{})
}

// built is build for a body that is accepted.
func (b body) built(t testing.TB) *message.Message {
	t.Helper()
	m, p := b.build(t)
	if p != nil {
		t.Fatalf("Build: %v of\n%s", p, b)
	}
	return m
}

// faults are problems as text.
func faults(problems message.Problems) []string {
	var all []string
	for _, p := range problems {
		all = append(all, p.String())
	}
	return all
}

func TestG8RequestsOutsideTheLimitsAreRefused(t *testing.T) {
	nested := func(depth int) string {
		return strings.Repeat(`{"a":`, depth-1) + "{}" + strings.Repeat("}", depth-1)
	}
	wide := func(members int) string { return `{"a":[` + strings.Repeat("1,", members-2) + "1]}" }
	for _, test := range []struct {
		name, text string
		ok         bool
	}{
		{"depth 10", nested(10), true},
		{"depth 11", nested(11), false},
		{"1000 members", wide(1000), true},
		{"1001 members", wide(1001), false},
		{"array", `[]`, false},
		{"not UTF-8", "{\"a\":\"\xff\"}", false},
		{"two values", `{}{}`, false},
	} {
		if _, err := message.ReadRequest([]byte(test.text), message.Limits{}); (err == nil) != test.ok {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

func TestR1NamesMatchInAnyCase(t *testing.T) {
	b := validRequest(t, message.V220, message.BRW, message.PA).with(
		"acctInfo", `{"CHACCDATE":"20200101"}`,
		"messageExtension", `[{"NAME":"n","ID":"A000000001","CriticalityIndicator":false,"DATA":{"Id":"x","ID":"y"}}]`)
	plain := b.with("acctInfo", `{"chAccDate":"20200101"}`,
		"messageExtension", `[{"name":"n","id":"A000000001","criticalityIndicator":false,"data":{"Id":"x","ID":"y"}}]`).built(t)
	for from, to := range map[string]string{
		"threeDSServerTransID": "threeDsserverTransId", "notificationURL": "notificationUrl", "acquirerBIN": "acquirerBin",
		"messageType": "MESSAGETYPE", "messageVersion": "messageversion", "deviceChannel": "DeviceChannel",
		"messageExtension": "MessageExtension", "acctInfo": "ACCTINFO",
	} {
		b = b.with(to, b[from], from, "")
	}
	if diff := difftest.Diff(string(plain.Bytes()), string(b.built(t).Bytes())); diff != "" {
		t.Errorf("the names differ in case only (-plain +other):\n%s", diff)
	}
	small, err := message.ReadRequest([]byte(`{"AcctNumber":"4000000000000002","Ds":"visa"}`), message.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if ds, pan := small.Text("ds"), small.Text("acctNumber"); ds != "visa" || pan != "4000000000000002" {
		t.Errorf("ds = %q, acctNumber found: %v", ds, pan != "")
	}
}

func TestR2NullIsAbsent(t *testing.T) {
	plain := validRequest(t, message.V231, message.BRW, message.PA)
	want := string(plain.built(t).Bytes())
	got := plain.with(
		"broadInfo", `null`, "mobilePhone", `{}`, "sellerInfo", `[]`, "workPhone", `{"cc":null,"subscriber":""}`,
		"acctInfo", `{"chAccDate":null,"unknown":"x"}`, "threeDSRequestorAuthenticationInfo", `[null,{},{"x":{}}]`,
		"multiTransaction", `{"merchantList":[{"sellerId":null}]}`, "messageExtension", `[{}]`, "deviceBindingStatus", `null`).with(
		absentIn(plain)...).built(t)
	if diff := difftest.Diff(want, string(got.Bytes())); diff != "" {
		t.Errorf("empty members are absent (-want +got):\n%s", diff)
	}
	_, p := plain.with("merchantName", `null`, "acctNumber", `{}`).build(t)
	if diff := difftest.Diff(sorted([]string{"201 merchantName", "201 acctNumber"}), sorted(faults(p))); diff != "" {
		t.Errorf("required members that are empty:\n%s", diff)
	}
	kept := plain.with("messageExtension", `[{"name":"n","id":"A","criticalityIndicator":false,"data":{"a":null}}]`).built(t)
	if got := string(kept.Raw("messageExtension[0].data")); got != `{"a":null}` {
		t.Errorf("data = %s: what is in there is not ours", got)
	}
}

// absentIn are pairs that restore what TestR2NullIsAbsent would overwrite.
func absentIn(b body) []string {
	var pairs []string
	for _, name := range []string{"broadInfo", "mobilePhone", "sellerInfo", "workPhone", "acctInfo",
		"threeDSRequestorAuthenticationInfo", "multiTransaction", "messageExtension", "deviceBindingStatus"} {
		if raw, ok := b[name]; ok {
			pairs = append(pairs, name, raw)
		}
	}
	return pairs
}

// sorted returns a sorted copy of a list of faults, for comparisons that do not depend on its order.
func sorted(faults []string) []string { return slices.Sorted(slices.Values(faults)) }

func TestR3EmptyTextIsAbsent(t *testing.T) {
	b := validRequest(t, message.V220, message.BRW, message.PA)
	if m := b.with("billAddrLine2", `""`, "merchantRiskIndicator", `{"giftCardCount":"","shipIndicator":"01"}`).built(t); m.Raw("billAddrLine2") != nil ||
		string(m.Raw("merchantRiskIndicator")) != `{"shipIndicator":"01"}` {
		t.Errorf("empty strings went out: %s", m.Bytes())
	}
	_, p := b.with("merchantName", `""`, "mobilePhone", `{"cc":"","subscriber":"1"}`).build(t)
	if diff := difftest.Diff([]string{"201 merchantName", "201 mobilePhone.cc"}, faults(p)); diff != "" {
		t.Errorf("empty strings of required members:\n%s", diff)
	}
}

func TestR4UnknownMembersAreDropped(t *testing.T) {
	b := validRequest(t, message.V220, message.APP, message.PA)
	want := b.with("deviceRenderOptions", `{"sdkInterface":"01","sdkUiType":["01"]}`).built(t)
	got := b.with("unknown", `{"a":[1,2,{"b":null}]}`, "ds", `"visa"`,
		"deviceRenderOptions", `{"x":1,"sdkInterface":"01","sdkUiType":["01"],"y":{}}`).built(t)
	if diff := difftest.Diff(string(want.Bytes()), string(got.Bytes())); diff != "" {
		t.Errorf("unknown members went out (-want +got):\n%s", diff)
	}
}

// TestR5MembersOfOtherVersionsAreDropped is also MC-02, MC-30, MC-36, MC-46 and MC-70.
func TestR5MembersOfOtherVersionsAreDropped(t *testing.T) {
	for _, test := range []struct {
		v        message.Version
		ch       message.Channel
		cat      message.Category
		name     string
		raw, out string // out: what is left of it
	}{
		{message.V210, message.BRW, message.PA, "browserJavascriptEnabled", `true`, ""},
		{message.V210, message.ThreeRI, message.PA, "purchaseDate", `"20260101000000"`, ""},
		{message.V210, message.BRW, message.PA, "acquirerCountryCodeSource", `"01"`, ""},
		{message.V220, message.ThreeRI, message.PA, "addrMatch", `"Y"`, ""},
		{message.V220, message.ThreeRI, message.PA, "browserUserAgent", `"x"`, ""},
		{message.V220, message.BRW, message.NPA, "transType", `"01"`, ""},
		{message.V220, message.BRW, message.PA, "sdkTransID", `"x"`, ""},
		{message.V220, message.BRW, message.PA, "threeDSReqAuthMethodInd", `"01"`, ""},
		{message.V220, message.BRW, message.PA, "dsTransID", `"x"`, ""},
		{message.V220, message.BRW, message.PA, "dsURL", `"https://x.example/"`, ""},
		{message.V220, message.BRW, message.PA, "trustListStatus", `"Y"`, ""},
		{message.V231, message.BRW, message.PA, "whiteListStatus", `"Y"`, ""},
		{message.V231, message.BRW, message.PA, "cardSecurityCodeStatus", `"Y"`, ""},
		{message.V231, message.APP, message.PA, "deviceInfo", `"x"`, ""},
		{message.V231, message.BRW, message.PA, "threeDSRequestorAuthenticationInfo",
			`[{"threeDSReqAuthMethod":"01","dsAuthInfVerifInd":"01"}]`, `[{"threeDSReqAuthMethod":"01"}]`},
		{message.V231, message.BRW, message.PA, "payTokenInfo", `{"tokenAssuranceMethod":"01","token":"4000000000000002"}`, `{"token":"4000000000000002"}`},
		{message.V231, message.BRW, message.PA, "payTokenInfo", `{"tokenAssuranceMethod":"01"}`, ""},
		{message.V220, message.BRW, message.PA, "purchaseInstalData", `"12"`, ""},
	} {
		b := validRequest(t, test.v, test.ch, test.cat).with("threeDSRequestorAuthenticationInd", `"01"`, "payTokenInd", "", "payTokenSource", "")
		if test.ch == message.ThreeRI {
			b = b.with("threeDSRequestorAuthenticationInd", "")
		}
		if got := string(b.with(test.name, test.raw).built(t).Raw(test.name)); got != test.out {
			t.Errorf("%s %s %s %s = %s, want %s", test.v, test.ch, test.cat, test.name, got, test.out)
		}
	}
}

// Rows MC-16, MC-47 and MC-48.
func TestSourcesNameThe3DSServer(t *testing.T) {
	for _, test := range []struct {
		v                   message.Version
		status, raw, source string
	}{
		{message.V220, "whiteListStatus", `"Y"`, "whiteListStatusSource"},
		{message.V220, "payTokenInd", `true`, "payTokenSource"},
		{message.V231, "trustListStatus", `"N"`, "trustListStatusSource"},
		{message.V231, "deviceBindingStatus", `"01"`, "deviceBindingStatusSource"},
		{message.V231, "acquirerCountryCode", `"208"`, "acquirerCountryCodeSource"},
	} {
		b := validRequest(t, test.v, message.BRW, message.PA).with(test.status, test.raw)
		for _, given := range []string{"", `"02"`, `"nonsense"`, `null`} {
			if given == "" || given == "null" {
				if test.source == "acquirerCountryCodeSource" {
					continue // Normalise sets that one
				}
			}
			if got := b.with(test.source, given).built(t).Text(test.source); got != "01" {
				t.Errorf("%s with %s given = %q", test.source, given, got)
			}
		}
		if test.source == "acquirerCountryCodeSource" {
			continue
		}
		if m := b.with(test.status, "", test.source, `"02"`).built(t); m.Has(test.source) {
			t.Errorf("%s went out without %s", test.source, test.status)
		}
	}
}

func TestR6SetAndDefaultChangeMembers(t *testing.T) {
	b := validRequest(t, message.V220, message.BRW, message.PA)
	r := b.with("threeDSServerRefNumber", "", "threedsserverrefnumber", `{"a":1}`, "threeDSServerURL", "",
		"threeDSServerOperatorID", `"requestor"`, "threeDSRequestorName", `null`).read(t)
	r.Set("threeDSServerRefNumber", "3DS_LOA_SER_1")
	r.Set("threeDSServerURL", "https://server.example/results")
	r.Set("threeDSServerOperatorID", "")
	r.Default("threeDSRequestorID", "not used")
	r.Default("threeDSRequestorName", `"quoted"`)
	m, p := r.Build(message.Context{})
	if p != nil {
		t.Fatal(p)
	}
	for name, want := range map[string]string{
		"threeDSServerRefNumber": "3DS_LOA_SER_1", "threeDSServerURL": "https://server.example/results",
		"threeDSServerOperatorID": "", "threeDSRequestorName": `"quoted"`,
		"threeDSRequestorID": b.read(t).Text("threeDSRequestorID"),
	} {
		if got := m.Text(name); got != want || r.Text(name) != want || r.Has(name) != (want != "") {
			t.Errorf("%s = %q, %q, want %q", name, got, r.Text(name), want)
		}
	}
}

// Unknown members, nulls, empty objects, white space and the order of members all stay.
func TestObjectsOfOtherStandardsAreSentUnchanged(t *testing.T) {
	const (
		key       = `{ "y":"AAAA","kid": null, "use":"sig","ext":true, "key_ops":[ ], "x":"BBBB","crv":"P-256","kty":"EC" }`
		assertion = "{\"id\":\"Y3JlZA\",\"rawId\":\"Y3JlZA\", \"authenticatorAttachment\":null,\n\"clientExtensionResults\":{},\"ID\":1.50,\"response\":{\"userHandle\":null,\"x\":[ ]}}"
		token     = `{"a":null, "A":{}, "b":[1,{}]}`
	)
	for _, v := range message.Versions() {
		for _, raw := range []string{key, `{"kty":"EC","crv":"P-256","x":"BBBB","y":"AAAA"}`} {
			m := validRequest(t, v, message.APP, message.PA).with("sdkEphemPubKey", "", "SDKEphemPubKey", raw).built(t)
			if got := string(m.Raw("sdkEphemPubKey")); got != raw {
				t.Errorf("%s: sdkEphemPubKey = %s, want %s", v, got, raw)
			}
		}
	}
	b := validRequest(t, message.V231, message.BRW, message.PA)
	m := b.with("threeDSRequestorAuthenticationInfo",
		`[{"threeDSReqAuthMethod":"09","threeDSReqAuthTimestamp":"202611201200","ThreeDSReqAuthData":`+assertion+`}]`,
		"payTokenInfo", `{"tokenStatusIndicator":"x","tokenAdditionalData":`+token+`}`).built(t)
	for path, want := range map[string]string{
		"threeDSRequestorAuthenticationInfo[0].threeDSReqAuthData": assertion, "payTokenInfo.tokenAdditionalData": token,
	} {
		if got := string(m.Raw(path)); got != want {
			t.Errorf("%s = %s, want %s", path, got, want)
		}
	}
	for _, test := range []struct{ name, raw, want string }{
		{"sdkEphemPubKey", `{}`, "201 sdkEphemPubKey"},
		{"sdkEphemPubKey", `{"kty":null,"x":{"a":[""]}}`, "201 sdkEphemPubKey"}, // holds nothing
		{"sdkEphemPubKey", `{"kty":"EC","crv":"P-256","x":"BBBB"}`, "201 sdkEphemPubKey.y"},
		{"sdkEphemPubKey", `{"kty":"EC","crv":"P-256","x":"BBBB","Y":"AAAA"}`, "201 sdkEphemPubKey.y"},
		{"sdkEphemPubKey", `{"kty":"EC","crv":"P-256","x":"BBBB","y":""}`, "201 sdkEphemPubKey.y"},
		{"sdkEphemPubKey", `{"kty":"EC","crv":"P-256","x":"BBBB","y":"AAAA","kid":"é"}`, "203 sdkEphemPubKey"},
		{"sdkEphemPubKey", `{"kty":"EC","crv":"P-256","x":"BBBB","y":"AAAA","kid":"\u00e9"}`, "203 sdkEphemPubKey"},
		{"sdkEphemPubKey", `{"kty":"EC","crv":"P-256","x":"BBBB","y":"AAAA","kid":"` + strings.Repeat("k", 256) + `"}`, "203 sdkEphemPubKey"},
		{"sdkEphemPubKey", `{"kty":"EC","crv":"P-256","x":"BBBB","y":"AAAA","y":"CCCC"}`, "204 sdkEphemPubKey.y"},
		{"sdkEphemPubKey", `{"kty":"EC","crv":"P-256","x":"BBBB","y":"AAAA","kid":"a","kid":"b"}`, "204 sdkEphemPubKey.kid"},
		{"sdkEphemPubKey", `"key"`, "203 sdkEphemPubKey"},
	} {
		_, p := validRequest(t, message.V220, message.APP, message.PA).with(test.name, test.raw).build(t)
		if got := strings.Join(faults(p), " "); got != test.want {
			t.Errorf("%s %s: %q, want %q", test.name, test.raw, got, test.want)
		}
	}
}
