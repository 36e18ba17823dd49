package message

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

func mustParse(t *testing.T, text string) *Message {
	t.Helper()
	m, err := Parse([]byte(text), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestPathsReachValues(t *testing.T) {
	m := mustParse(t, `{"messageType":"ARes","message\u0056ersion":"2.3.1","a":{"b c":[1,{"d":"x\ny"},[true]]},"eci":null,"n":12345678901234567890.10,
		"acsOperatorID":"","broadInfo":{},"authenticationMethod":["01",2,"\u0030\u0032"],"eci":"05"}`)
	if typ, ok := m.Type(); typ != ARes || !ok {
		t.Error(typ, ok)
	}
	if v, ok := m.Version(); v != V231 || !ok {
		t.Error(v, ok)
	}
	for path, want := range map[string]string{"a.b c[1].d": "x\ny", "messageType": "ARes", "messageVersion": "2.3.1", "eci": "", "n": "", "a": "",
		"a.b c[3]": "", "a.b c[-1]": "", "a.b c[x]": "", "a.b c[1": "", "nothing.there": "", "authenticationMethod[2]": "02", "messageType.x": ""} {
		if got := m.Text(path); got != want {
			t.Errorf("Text(%q) = %q, want %q", path, got, want)
		}
	}
	for path, want := range map[string]string{
		"n": "12345678901234567890.10", "a.b c[2][0]": "true", "eci": "null", "acsOperatorID": `""`, "x": "",
		"a.b c[1]": `{"d":"x\ny"}`,
	} {
		if got := string(m.Raw(path)); got != want {
			t.Errorf("Raw(%q) = %s, want %s", path, got, want)
		}
	}
	for path, want := range map[string]bool{"n": true, "a": true, "eci": false, "acsOperatorID": false, "broadInfo": false, "x": false} {
		if got := m.Has(path); got != want {
			t.Errorf("Has(%q) = %v", path, got)
		}
	}
	if got := m.Strings("authenticationMethod"); !slices.Equal(got, []string{"01", "02"}) {
		t.Error(got)
	}
	if got := m.Strings("messageType"); !slices.Equal(got, []string{"ARes"}) {
		t.Error(got)
	}
	if got := m.Strings("n"); got != nil {
		t.Error(got)
	}
}

// TestMessageHidesContent prints a message in all ways that a log might.
func TestMessageHidesContent(t *testing.T) {
	m := mustParse(t, `{"messageType":"AReq","messageVersion":"2.2.0","acctNumber":"4111111111111111"}`)
	var b strings.Builder
	log := slog.New(slog.NewJSONHandler(&b, nil))
	log.Info("m", "m", m, "any", []any{m})
	slog.New(slog.NewTextHandler(&b, nil)).Info("m", "m", m)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
		fmt.Fprintf(&b, verb+"\n", m)
		fmt.Fprintf(&b, verb+"\n", []*Message{m})
		fmt.Fprintf(&b, verb+"\n", struct{ M *Message }{m})
	}
	for _, form := range []string{"4111", "52 49 49 49", "34313131", "0x34, 0x31"} {
		if strings.Contains(b.String(), form) {
			t.Errorf("printed content: %s", b.String())
		}
	}
}

func TestNamesMatchInAnyCaseExceptInExtensionData(t *testing.T) {
	m, err := parse(
		[]byte(`{"MESSAGEtype":"AReq","threeDsserverTransId":"x","acctinfo":{"CHACCDATE":"1"},"MessageExtension":[{"DATA":{"ACCTNUMBER":1,"acctNumber":2}}],
		"EMAIL":"a","email":"b","data":{"ACCTNUMBER":3},"\u0045mail":"c","\u212Acc":1}`), Limits{}, true)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"messageType": `"AReq"`, "threeDSServerTransID": `"x"`, "acctInfo.chAccDate": `"1"`,
		"messageExtension[0].data.ACCTNUMBER": "1", "messageExtension[0].data.acctNumber": "2", "email": `"a"`,
		"data.acctNumber": "3",
	} {
		if got := string(m.Raw(path)); got != want {
			t.Errorf("Raw(%q) = %s, want %s", path, got, want)
		}
	}
	got := problemKeys(m.Check(Context{}))
	if want := []string{"201 messageVersion", "204 email"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestPickReportsTheFirstCodeOfTheOrder(t *testing.T) {
	long := Problems{{Code: Missing, Path: "a"}}
	for i := range 500 {
		long = append(long, Problem{Code: Missing, Path: Path(fmt.Sprintf("member%03d[%d].x", i/2, i))})
	}
	code, detail := long.Pick(ForPeer)
	if names := strings.Split(detail, ","); code != Missing || len(detail) > maxDetail || len(detail) < maxDetail-20 ||
		names[1] != "member000.x" || names[2] != "member001.x" {
		t.Errorf("%d characters: %.60s", len(detail), detail)
	}
	fits := strings.Repeat("é", maxDetail)
	for name, test := range map[string]struct {
		problems        Problems
		requestor, peer string
	}{
		"none":                {nil, "000 ", "000 "},
		"a peer's 203 first":  {Problems{{Code: Missing, Path: "a"}, {Code: Format, Path: "b"}}, "201 a,b", "203 b,a"},
		"duplicates":          {Problems{{Code: Format, Path: "b"}, {Code: Duplicate, Path: "c"}}, "204 c,b", "204 c,b"},
		"version of the peer": {Problems{{Code: Format, Path: "messageVersion"}, {Code: Duplicate, Path: "c"}}, "204 c,messageVersion", "203 messageVersion,c"},
		"unknown version": {
			Problems{{Code: UnsupportedVersion, Path: "messageVersion", Note: "2.1.0,2.2.0"}, {Code: Missing, Path: "c"}},
			"102 2.1.0,2.2.0,c", "102 2.1.0,2.2.0"},
		"ids of extensions": {
			Problems{{Code: CriticalExtension, Path: "messageExtension[0]", Note: "x"}, {Code: Missing, Path: "c"}},
			"201 c,messageExtension", "202 x"},
		"an id that fits": {Problems{{Code: CriticalExtension, Path: "messageExtension[0]", Note: fits}}, "202 " + fits, "202 " + fits},
		"an id too long": {Problems{{Code: CriticalExtension, Path: "messageExtension[0]", Note: fits + "é"},
			{Code: Format, Path: "messageExtension[0].id"}}, "202 messageExtension,messageExtension.id", "202 messageExtension"},
		"a code of its own":    {Problems{{Code: 999, Path: "a"}, {Code: ISOCode, Path: "c"}}, "304 c,a", "304 c,a"},
		"the same name twice":  {Problems{{Code: Format, Path: "a[1].b"}, {Code: Format, Path: "a[2].b"}, {Code: Missing, Path: "a[3].b"}}, "201 a.b", "203 a.b"},
		"an id and a 203":      {Problems{{Code: UnknownTransaction, Path: "i"}, {Code: Format, Path: "c"}}, "203 c,i", "203 c,i"},
		"reserved and missing": {Problems{{Code: Reserved, Path: "r"}, {Code: Missing, Path: "c"}}, "201 c,r", "207 r,c"},
	} {
		for o, want := range map[Order]string{ForRequestor: test.requestor, ForPeer: test.peer} {
			code, detail := test.problems.Pick(o)
			if got := code.String() + " " + detail; got != want {
				t.Errorf("%s, order %d: got %q, want %q", name, o, got, want)
			}
		}
	}
}

// If channel or category are unknown, only elements that all columns require are missing.
func TestUnknownChannelOrCategoryRequiresLess(t *testing.T) {
	for text, want := range map[string]string{
		`{"messageType":"RRes","messageVersion":"2.2.0"}`:                                                     "acsTransID dsTransID resultsStatus threeDSServerTransID",
		`{"messageType":"CRes","messageVersion":"2.2.0"}`:                                                     "acsTransID threeDSServerTransID",
		`{"messageType":"ARes","messageVersion":"2.2.0"}`:                                                     "acsReferenceNumber acsTransID dsReferenceNumber dsTransID threeDSServerTransID",
		`{"messageType":"RReq","messageVersion":"2.2.0","messageCategory":"01"}`:                              "acsTransID dsTransID threeDSServerTransID transStatus",
		`{"messageType":"RReq","messageVersion":"2.2.0","messageCategory":"85"}`:                              "acsTransID dsTransID threeDSServerTransID",
		`{"messageType":"RReq","messageVersion":"2.2.0","messageCategory":"85","transStatus":"N"}`:            "acsTransID authenticationType dsTransID threeDSServerTransID",
		`{"messageType":"RReq","messageVersion":"2.2.0","messageCategory":"01","transStatus":"N","eci":"05"}`: "acsTransID authenticationType dsTransID threeDSServerTransID transStatusReason",
	} {
		var missing []string
		for _, p := range mustParse(t, text).Check(Context{}) {
			if p.Code == Missing {
				missing = append(missing, string(p.Path))
			}
		}
		slices.Sort(missing)
		if got := strings.Join(missing, " "); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// The notificationURL of 2.3.1 must have https, except for a loopback host if the Context
// allows that.
func TestNotificationURLMayBeLoopbackIfAllowed(t *testing.T) {
	s := &sampler{d: loadDictionary(t), version: "2.3.1", message: "AReq", ch: "BRW", cat: "PA"}
	for url, want := range map[string][2]bool{ // without and with Loopback
		"https://shop.example/n":           {true, true},
		"http://shop.example/n":            {false, false},
		"http://127.0.0.1:8080/n":          {false, true},
		"http://127.255.0.9/n":             {false, true},
		"http://[::1]:8080/n":              {false, true},
		"http://localhost/n":               {false, true},
		"http://shop.LocalHost:1/n":        {false, true},
		"http://localhost.shop.example/":   {false, false},
		"http://127.0.0.1.shop.example/":   {false, false},
		"http://localhost@shop.example/":   {false, false},
		"https://user@shop.example/":       {false, false},
		"HTTPS://shop_a.example/n":         {true, true},
		"ftp://localhost/n":                {false, false},
		"https://":                         {false, false},
		"https://:443/":                    {false, false},
		"https:///n":                       {false, false},
		"//shop.example/n":                 {false, false},
		"https://shop.example/ n":          {false, false},
		`http:\\localhost\n`:               {false, false},
		"https://shop.example:443/n":       {true, true},
		"https://shop.example:/n":          {true, true},
		"https://[2001:db8::1]:8443/n":     {true, true},
		"https://shop.example:65535/n":     {true, true},
		"https://shop.example:65536/n":     {false, false},
		"https://shop.example:x/n":         {false, false},
		"https://shop.example:1:2/n":       {false, false},
		"https://[2001:db8::1]:x/n":        {false, false},
		`https://shop.example/"><script`:   {false, false},
		`https://shop.example/a\b`:         {false, false},
		"https://shop.example/{id}":        {false, false},
		"https://shop.example/n?a=b|c":     {false, false},
		"https://shop.example/a:b@c%20d":   {true, true},
		"https://shop.example/?q=[]!$&'":   {true, true},
		"https://sh\u00f6p.example/\u00e9": {true, true},
	} {
		for i, loopback := range []bool{false, true} {
			m := s.full()
			m.set("notificationURL", url)
			got := mustParse(t, string(m.json())).Check(Context{Loopback: loopback, KnownExtension: knowsAll})
			if ok := got == nil; ok != want[i] || !ok && (len(got) != 1 || got[0].Path != "notificationURL" || got[0].Code != Format) {
				t.Errorf("%s, loopback %v: %v", url, loopback, got)
			}
		}
	}
}

func TestTransStatusIMustBeAskedFor(t *testing.T) {
	areq := mustParse(t, `{"deviceChannel":"02","messageCategory":"01","threeDSRequestorChallengeInd":["82"]}`)
	other := mustParse(t, `{"deviceChannel":"02","messageCategory":"01","threeDSRequestorChallengeInd":["01"]}`)
	ares := mustParse(t, `{"messageType":"ARes","messageVersion":"2.3.1","transStatus":"I"}`)
	for _, test := range []struct {
		c    Context
		want bool
	}{{Context{AReq: areq}, true}, {Context{AReq: other}, false}, {Context{AReq: other, Informational: true}, true}, {Context{}, true}} {
		bad := slices.ContainsFunc(ares.Check(test.c), func(p Problem) bool { return p.Path == "transStatus" })
		if bad == test.want {
			t.Errorf("transStatus I: refused %v", bad)
		}
	}
}

// A deviceChannel in a message whose table has none must not switch off elements that the
// channel of the transaction requires (VG-11, VG-12).
func TestUndefinedMembersDoNotChangeTheColumns(t *testing.T) {
	const ids = `"threeDSServerTransID":"11111111-1111-4111-8111-111111111111","acsTransID":"22222222-2222-4222-8222-222222222222",` +
		`"dsTransID":"33333333-3333-4333-8333-333333333333"`
	app := mustParse(t, `{"messageType":"AReq","messageVersion":"2.2.0","deviceChannel":"01","messageCategory":"01",`+
		`"sdkTransID":"44444444-4444-4444-8444-444444444444"}`)
	brw := mustParse(t, `{"messageType":"AReq","messageVersion":"2.2.0","deviceChannel":"02","messageCategory":"01"}`)
	none := mustParse(t, `{"messageType":"AReq","messageVersion":"2.2.0","deviceChannel":"02","messageCategory":"02"}`)
	first := mustParse(t, `{"messageType":"ARes","messageVersion":"2.2.0",`+ids+`}`)
	ares := `{"messageType":"ARes","messageVersion":"2.2.0",` + ids + `,"acsReferenceNumber":"A","dsReferenceNumber":"D","transStatus":`
	rreq := `{"messageType":"RReq","messageVersion":"2.2.0",` + ids + `,"messageCategory":"01","transStatus":"U","transStatusReason":"01"`
	for _, tt := range []struct {
		name, text string
		areq       *Message
		want       string
	}{
		{"Y without a value, said to be no payment", ares + `"Y","messageCategory":"02"}`, brw, "201 authenticationValue"},
		{"N without a reason, said to be no payment", ares + `"N","messageCategory":"85"}`, brw, "201 transStatusReason"},
		{"C without acsURL, said to be 3RI", ares + `"C","acsChallengeMandated":"N","authenticationType":"02","deviceChannel":"03"}`, brw, "201 acsURL"},
		{"another SDK's id, said to be a browser's",
			ares + `"N","transStatusReason":"01","sdkTransID":"55555555-5555-4555-8555-555555555555","deviceChannel":"02"}`, app, "301 sdkTransID"},
		{"no counter, said to be 3RI", rreq + `,"deviceChannel":"03"}`, brw, "201 interactionCounter"},
		{"a result of a payment, of what is none",
			strings.Replace(rreq, `,"transStatusReason":"01"`, "", 1) + `,"interactionCounter":"01"}`, none, "203 messageCategory"},
		{"the RReq has a category",
			strings.Replace(rreq, `"messageCategory":"01"`, `"messageCategory":"02"`, 1) + `,"interactionCounter":"01"}`, brw,
			"203 messageCategory"},
	} {
		var got []string
		for _, p := range mustParse(t, tt.text).Check(Context{AReq: tt.areq, ARes: first}) {
			got = append(got, p.String())
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, s, tt.want)
		}
	}
}

// Rows VG-05 and VG-16.
func TestCriticalExtensionWithoutIDIsMissingIt(t *testing.T) {
	for id, want := range map[string]Code{`"id":"",`: Missing, `"id":" ",`: Missing, `"id":null,`: Missing, ``: Missing, `"id":"A",`: CriticalExtension} {
		ares := mustParse(t, `{"messageType":"ARes","messageVersion":"2.2.0","threeDSServerTransID":"11111111-1111-4111-8111-111111111111",`+
			`"acsTransID":"22222222-2222-4222-8222-222222222222","dsTransID":"33333333-3333-4333-8333-333333333333","acsReferenceNumber":"A",`+
			`"dsReferenceNumber":"D","messageExtension":[{`+id+`"name":"n","criticalityIndicator":true,"data":{"a":"b"}}]}`)
		if got, detail := ares.Check(Context{}).Pick(ForPeer); got != want || want == Missing && detail != "messageExtension.id" {
			t.Errorf("%s: %v %s, want %v", id, got, detail, want)
		}
	}
}

// Row EN-04.
func TestJWSPartsMayBePadded(t *testing.T) {
	for content, want := range map[string]string{
		"eyJh.e30.c2ln": "", "eyJh=.e30==.c2lnbmE===": "", "-_.-_.-_=": "",
		"eyJh.e30": "203 acsSignedContent", "eyJh.e30.c2ln.x": "203 acsSignedContent", "eyJh.e30.": "203 acsSignedContent",
		"eyJh.=.c2ln": "203 acsSignedContent", "ey=Jh.e30.c2ln": "203 acsSignedContent",
		"eyJh.e30.c2+n": "203 acsSignedContent", "eyJh.e30. c2ln": "203 acsSignedContent",
	} {
		ares := mustParse(t, `{"messageType":"ARes","messageVersion":"2.2.0","acsSignedContent":"`+content+`"}`)
		app := mustParse(t, `{"messageType":"AReq","messageVersion":"2.2.0","deviceChannel":"01","messageCategory":"02"}`)
		var got string
		for _, p := range ares.Check(Context{AReq: app}) {
			if p.Code == Format {
				got = p.String()
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", content, got, want)
		}
	}
}

// The length of an object is that of its characters, not that of their escape sequences
// (MC-04, VG-15).
func TestEscapesDoNotChangeTheLength(t *testing.T) {
	const limit, around = 8059, len(`{"a":""}`)
	for _, char := range []string{"a", "é", "😀", `\u0061`, `\u00e9`, `\ud83d\ude00`, `\uD83D\uDE00`, `\ud7ff`, `\ue000`, `\/`} {
		for n, want := range map[int]string{limit - around: "", limit - around + 1: "203 messageExtension.data"} {
			ares := mustParse(t, `{"messageType":"ARes","messageVersion":"2.2.0","messageExtension":[{"id":"A","name":"n","criticalityIndicator":false,`+
				`"data":{"a":"`+strings.Repeat(char, n)+`"}}]}`)
			var got string
			for _, p := range ares.Check(Context{}) {
				if p.Code == Format {
					got = p.String()
				}
			}
			if got != want {
				t.Errorf("%d times %s: %q, want %q", n, char, got, want)
			}
		}
	}
	// What has to be escaped counts as it is written at the shortest.
	for char, size := range map[string]int{`\u005c`: 2, `\\`: 2, `\u0022`: 2, `\u000A`: 2, `\n`: 2, `\u0001`: 6, `\u001f`: 6, `\u007f`: 1} {
		for rest, want := range map[int]bool{limit - around - 100*size: false, limit - around - 100*size + 1: true} {
			ares := mustParse(t, `{"messageType":"ARes","messageVersion":"2.2.0","messageExtension":[{"id":"A","name":"n","criticalityIndicator":false,`+
				`"data":{"a":"`+strings.Repeat(char, 100)+strings.Repeat("x", rest)+`"}}]}`)
			got := slices.ContainsFunc(ares.Check(Context{}), func(p Problem) bool { return p.Path == "messageExtension[0].data" })
			if got != want {
				t.Errorf("100 times %s and %d characters: refused %t, want %t", char, rest, got, want)
			}
		}
	}
}

// Items of an array that is accepted in place of a string must differ too (VG-18).
func TestEqualCredentialsAreDuplicates(t *testing.T) {
	const one, other = `"AAAAAAAAAAAAAAAAAAAAAA"`, `"AAAAAAAAAAAAAAAAAAAAAB"`
	for ids, want := range map[string]string{
		one: "", "[" + one + "]": "", "[" + one + "," + other + "]": "",
		"[" + one + "," + other + "," + one + "]": "204 webAuthnCredList[0].credentialIds[2]",
	} {
		ares := mustParse(t, `{"messageType":"ARes","messageVersion":"2.3.1","webAuthnCredList":[{"rpID":"bank.example","credentialIds":`+ids+`}]}`)
		var got string
		for _, p := range ares.Check(Context{}) {
			if p.Code != Missing {
				got = p.Code.String() + " " + string(p.Path)
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", ids, got, want)
		}
	}
}

// Strings with the same text are equal, with escape sequences or without (VG-18).
func TestEqualStringsAreDuplicates(t *testing.T) {
	for _, pair := range [][2]string{
		{"da", `d\u0061`}, {"a\u00a0b", `a\u00A0b`}, {"\u2028", `\u2028`}, {"\u007f", `\u007f`}, {`a\"b`, `a\u0022b`}, {`\t`, `\u0009`},
	} {
		areq := mustParse(t, `{"messageType":"AReq","messageVersion":"2.3.1","acceptLanguage":["x`+pair[0]+`","x`+pair[1]+`"]}`)
		if !slices.ContainsFunc(areq.Check(Context{}), func(p Problem) bool { return p.Code == Duplicate && p.Path == "acceptLanguage[1]" }) {
			t.Errorf("%s: not told as equal", areq.Bytes())
		}
	}
}

// Objects are equal if they differ only in white space and escape sequences. Numbers are
// compared digit by digit (VG-18).
func TestEqualObjectsAreDuplicates(t *testing.T) {
	const seller = `{"sellerName":"%s"}`
	for _, tt := range []struct {
		one, other string
		equal      bool
	}{
		{`é`, `\u00e9`, true}, {`A`, `\u0041`, true}, {`\u00E9`, `\u00e9`, true}, {`a\"b`, `a\u0022b`, true}, {`a/b`, `a\/b`, true},
		{`é`, `\u00e8`, false}, {`\u0041`, `\u0042`, false},
	} {
		areq := mustParse(t, `{"messageType":"AReq","messageVersion":"2.3.1","sellerInfo":[`+
			fmt.Sprintf(seller, tt.one)+`,`+fmt.Sprintf(seller, tt.other)+`]}`)
		equal := slices.ContainsFunc(areq.Check(Context{}), func(p Problem) bool { return p.Code == Duplicate && p.Path == "sellerInfo[1]" })
		if equal != tt.equal {
			t.Errorf("%s: told as equal: %t, want %t", areq.Bytes(), equal, tt.equal)
		}
	}
	for _, pair := range [][2]string{
		{`{"sellerName":"a b"}`, `{ "sellerName" : "a b" }`}, {`{"sellerName":"a"}`, "{\r\n\t\"sellerName\":\"a\"}"},
		{`{"sellerName": "a/b"}`, `{"sellerName": "a\/b"}`},
	} {
		areq := mustParse(t, `{"messageType":"AReq","messageVersion":"2.3.1","sellerInfo":[`+pair[0]+`,`+pair[1]+`]}`)
		if !slices.ContainsFunc(areq.Check(Context{}), func(p Problem) bool { return p.Code == Duplicate && p.Path == "sellerInfo[1]" }) {
			t.Errorf("%s: not told as equal", areq.Bytes())
		}
	}
	const extension = `{"id":"i","name":"\u0041","criticalityIndicator":false,"data":{"n":%s}}`
	areq := mustParse(t, `{"messageType":"AReq","messageVersion":"2.3.1","messageExtension":[`+
		fmt.Sprintf(extension, "12345678901234567890")+`,`+fmt.Sprintf(extension, "12345678901234567891")+`]}`)
	if slices.ContainsFunc(areq.Check(Context{}), func(p Problem) bool { return p.Code == Duplicate }) {
		t.Error("two numbers told as equal")
	}
}

// A rule about a member that a column does not define is not checked: 2.1.0 has no
// challengeCancel for 3RI (VG-11).
func TestRulesOfIgnoredMembersAreSkipped(t *testing.T) {
	const rreq = `{"messageType":"RReq","messageVersion":"2.1.0","threeDSServerTransID":"11111111-1111-4111-8111-111111111111",` +
		`"acsTransID":"22222222-2222-4222-8222-222222222222","dsTransID":"33333333-3333-4333-8333-333333333333",` +
		`"messageCategory":"01","transStatus":"N","transStatusReason":"14"`
	for _, tt := range []struct{ channel, rest, want string }{
		{"03", `}`, ""},
		{"03", `,"challengeCancel":"04"}`, ""},
		{"03", `,"challengeCancel":"01"}`, ""},
		{"02", `,"interactionCounter":"01","authenticationType":"02","challengeCancel":"04"}`, ""},
		{"02", `,"interactionCounter":"01","authenticationType":"02","challengeCancel":"01"}`, "203 challengeCancel"},
	} {
		areq := mustParse(t, `{"messageType":"AReq","messageVersion":"2.1.0","deviceChannel":"`+tt.channel+`","messageCategory":"01"}`)
		var got []string
		for _, p := range mustParse(t, rreq+tt.rest).Check(Context{AReq: areq}) {
			got = append(got, p.String())
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("channel %s, %s: got %q, want %q", tt.channel, tt.rest, s, tt.want)
		}
	}
}
