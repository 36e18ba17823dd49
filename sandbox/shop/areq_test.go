package shop

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
	"github.com/openthreeds/threeds/internal/base/difftest"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

// TestAReq holds the AReq of each version and plan against a file that was
// checked by hand against the field tables.
func TestAReq(t *testing.T) {
	for _, version := range versions {
		for _, plan := range []string{"once", "monthly"} {
			o := testOrder("4000000000000003")
			o.Plan = plan
			o.Browser.Language, o.Browser.ColorDepth = "zh-Hant-TW", 30
			o.Browser.Accept, o.Browser.IP = "*/*", "::1"
			o.normalise()
			a := areq{
				version, "6e1f0a52-97d8-4c00-8000-000000000001", "Y", "http://127.0.0.1:8082",
				time.Date(2026, 3, 1, 23, 30, 5, 0, time.FixedZone("", 3600)), o, nil,
			}
			var got bytes.Buffer
			if err := json.Indent(&got, a.json(), "", "  "); err != nil {
				t.Fatal(err)
			}
			got.WriteByte('\n')
			file := filepath.Join("testdata", "areq-"+version+"-"+plan+".json")
			if *update {
				if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := difftest.Diff(string(want), got.String()); diff != "" {
				t.Errorf("%s differs (-want +got):\n%s", file, diff)
			}
		}
	}
}

// TestLanguages: what browsers say of their languages fits the message. Firefox
// takes any list as a preference, and WebKit calls the C locale "C".
func TestLanguages(t *testing.T) {
	for _, test := range []struct{ tag, want8, want35 string }{
		{"tr-TR", "tr-TR", "tr-TR"},
		{"C", "C", "C"},
		{"en-US-posix", "en-US", "en-US-posix"},
		{"sl-rozaj-biske-1994", "sl-rozaj", "sl-rozaj-biske-1994"},
		{"ar-SA-u-nu-latn", "ar-SA", "ar-SA-u-nu-latn"},
		{"abcdefghijk", "abcdefgh", "abcdefghijk"},
		{"de-DE-x-aaaaaaaa-bbbbbbbb-cccccc-dd", "de-DE", "de-DE-x-aaaaaaaa-bbbbbbbb-cccccc-dd"},
		{"de-DE-x-aaaaaaaa-bbbbbbbb-cccccc-ddd", "de-DE", "de-DE-x-aaaaaaaa-bbbbbbbb-cccccc"},
		{"de-DE-x-aaaaaaaa-bbbbbbbb-cccccccc-dddddddd", "de-DE", "de-DE-x-aaaaaaaa-bbbbbbbb-cccccccc"},
	} {
		for version, want := range map[string]string{"2.1.0": test.want8, "2.2.0": test.want8, "2.3.1": test.want35} {
			a := areq{version: version, order: order{Browser: browser{Language: test.tag}}}
			if got := a.language(); got != want {
				t.Errorf("%s in %s = %s, want %s", test.tag, version, got, want)
			}
		}
	}
	many := strings.Repeat("x", 101)
	for i := range 200 {
		many += fmt.Sprintf(",a%d;q=0.5", i)
	}
	for _, test := range []struct {
		header []string
		want   int
		first  string
	}{
		{nil, 0, ""},
		{[]string{""}, 0, ""},
		{[]string{"tr-TR,tr;q=0.9, en-US;q=0.8 ,tr;q=0.1"}, 3, "tr-TR"},
		{[]string{"da", "en;q=0.8"}, 2, "da"},
		{[]string{many}, 99, "a0"},
	} {
		got := languages(test.header)
		if len(got) != test.want || test.want > 0 && got[0] != test.first {
			t.Errorf("languages(%.40q) = %q", test.header, got)
		}
	}
	r := httptest.NewRequest("POST", "/checkout", nil)
	r.Header.Set("Accept-Language", "tr-TR,tr;q=0.9")
	b := browser{Language: "tr-TR"}
	b.addHeaders(r)
	a := areq{version: "2.3.1", order: order{Browser: b}}
	if got := string(a.json()); !strings.Contains(got, `"acceptLanguage":["tr-TR","tr"]`) {
		t.Errorf("the header's languages are not in %s", got)
	}
}

func TestMasked(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{`{"acctNumber":"4000000000000003"}`, `{"acctNumber": "400000******0003"}`},
		{`{"ACCTNUMBER":"4000000000000003","a":[{"acctNumber":4000000000000003}]}`, `{"ACCTNUMBER": "400000******0003","a": [{"acctNumber": "***"}]}`},
		{`{"acctNumber":["4000000000000003","12"]}`, `{"acctNumber": ["400000******0003","***"]}`},
		{`{"acctNumber":"4000 0000 0000 0003"}`, `{"acctNumber": "***"}`},
		{`{"authenticationValue":"AAABBZEEBgAAAAAAAAQGAAAAAAA=","cardExpiryDate":"2912"}`, `{"authenticationValue": "AAAB…AAA=","cardExpiryDate": "****"}`},
		{`{"b":1.50,"a":null,"c":true,"u":"<&>"}`, `{"b": 1.50,"a": null,"c": true,"u": "<&>"}`},
		{`{"a":{},"b":[]}`, `{"a": {},"b": []}`},
		{`Invalid API Key`, `(15 bytes that are no JSON)`},
		{`{"a":1}{`, `(8 bytes that are no JSON)`},
		{strings.Repeat("[", 20000), `(20000 bytes that are no JSON)`},
	} {
		got := masked([]byte(test.in))
		got = strings.NewReplacer("\n", "", "  ", "").Replace(got)
		if got != test.want {
			t.Errorf("masked(%.80s) = %s, want %s", test.in, got, test.want)
		}
	}
}

// TestCardNumbersAreMasked: what could be a card number keeps ten digits, and what is too short to be
// shown in part is not shown.
func TestCardNumbersAreMasked(t *testing.T) {
	for _, test := range []struct{ in, pan, short string }{
		{"400000000003", "***", "***"},
		{"4000000000003", "400000***0003", "***"},
		{"400000000000003", "400000*****0003", "***"},
		{"4000000000000003", "400000******0003", "4000…0003"},
		{"4000000000000000003", "400000*********0003", "4000…0003"},
		{"40000000000000000003", "***", "4000…0003"},
	} {
		if pan, short := cardnumber.MaskNumber(test.in), shorten(test.in); pan != test.pan || short != test.short {
			t.Errorf("%s: %s, %s; want %s, %s", test.in, pan, short, test.pan, test.short)
		}
	}
}

// FuzzMasked: whatever the message, the value of acctNumber does not come out.
func FuzzMasked(f *testing.F) {
	f.Add(`{"acctNumber":"4000000000000003"}`)
	f.Add(`{"a":{"acctNumber":["x",{"b":4000000000000003}]}}`)
	f.Fuzz(func(t *testing.T, text string) {
		out := masked([]byte(text))
		var before, after any
		if json.Unmarshal([]byte(text), &before) != nil {
			return
		}
		if err := json.Unmarshal([]byte(out), &after); err != nil {
			t.Fatalf("masked(%q) is no JSON: %v", text, err)
		}
		if left := unmasked(before, after, false); left != nil {
			t.Fatalf("masked(%q) has %v", text, left)
		}
	})
}

// unmasked returns a value under a member acctNumber that is the same before
// and after, nil when there is none.
func unmasked(before, after any, card bool) any {
	switch b := before.(type) {
	case map[string]any:
		for name, value := range b {
			if left := unmasked(value, after.(map[string]any)[name], strings.EqualFold(name, "acctNumber")); left != nil {
				return left
			}
		}
	case []any:
		for i, value := range b {
			if left := unmasked(value, after.([]any)[i], card); left != nil {
				return left
			}
		}
	default:
		if card && b != nil && b == after && b != "***" {
			return b
		}
	}
	return nil
}

// FuzzDecode: whatever was encoded is decoded, and what is decoded has the
// same bytes when encoded and decoded again.
func FuzzDecode(f *testing.F) {
	f.Add("eyJhIjoxfQ")
	f.Add(" ey JhIjoxfQ== ")
	f.Fuzz(func(t *testing.T, text string) {
		if data, err := decode(encode([]byte(text))); err != nil || string(data) != text {
			t.Fatalf("decode(encode(%q)) = %q, %v", text, data, err)
		}
		if data, err := decode(text); err == nil {
			if again, err := decode(encode(data)); err != nil || !bytes.Equal(again, data) {
				t.Fatalf("decode(%q) = %q, again %q, %v", text, data, again, err)
			}
		}
	})
}

// TestDecodeSpaces: a space is a plus sign that a form lost, however many there are.
func TestDecodeSpaces(t *testing.T) {
	for n := range 9 {
		object := `{"a":"` + strings.Repeat("~~>", n) + `"}`
		text := base64.StdEncoding.EncodeToString([]byte(object))
		if got := strings.Count(text, "+"); got != n {
			t.Fatalf("%d plus signs in %s, want %d", got, text, n)
		}
		if data, err := decode(strings.ReplaceAll(text, "+", " ")); err != nil || string(data) != object {
			t.Errorf("%d plus signs: %q, %v", n, data, err)
		}
	}
	for _, text := range []string{"@", "eyJ9 @", "a"} {
		if data, err := decode(text); err == nil || data != nil {
			t.Errorf("decode(%q) = %q, %v", text, data, err)
		}
	}
}

func TestEndingOfEachStatus(t *testing.T) {
	for w := range endings {
		if e := endings[w]; e.Title == "" || e.Text == "" {
			t.Errorf("%s has no words", w)
		}
	}
	for _, test := range []struct {
		m    message
		want word
	}{
		{message{TransStatus: "D"}, unavailable},
		{message{TransStatus: "S"}, faulty},
		{message{TransStatus: ""}, faulty},
		{message{TransStatus: "U", ChallengeCancel: "06"}, unavailable},
		{message{TransStatus: "N", ChallengeCancel: "03"}, timedOut},
		{message{TransStatus: "N", ChallengeCancel: "04"}, timedOut},
		{message{TransStatus: "N", ChallengeCancel: "05"}, unreachable},
		{message{TransStatus: "N", ChallengeCancel: "08"}, timedOut},
		{message{TransStatus: "N", Reason: "14"}, timedOut},
		{message{TransStatus: "U", Reason: "24"}, timedOut},
		{message{TransStatus: "N", Reason: "11"}, failed},
		{message{TransStatus: "Y", ChallengeCancel: "01"}, authenticated},
	} {
		if got := wordOf(&test.m); got != test.want {
			t.Errorf("wordOf(%+v) = %s, want %s", test.m, got, test.want)
		}
	}
}

// TestEndingsExplainReasons: what a developer reads of an answer: what is in it, and what its
// reason means.
func TestEndingsExplainReasons(t *testing.T) {
	e := endWithStatus(&message{TransStatus: "N", ECI: "07", Reason: "11", CardholderInfo: "Call us."})
	if e.TransStatus != "N" || e.ECI != "07" || e.HasValue || e.Reason != "11, suspected fraud" || e.Info != "Call us." {
		t.Errorf("%+v", e)
	}
	for code, want := range map[string]string{
		"": "", "01": "01, card authentication failed", "30": "30, success, more is needed",
		"80": "80, specific to the scheme",
	} {
		if got := reasonOf(code); got != want {
			t.Errorf("reasonOf(%q) = %q, want %q", code, got, want)
		}
	}
	for _, text := range []string{`{"cardholderInfo":"Call us."}`, `{"cardholderInfo":{"text":"Call us."}}`} {
		var m message
		if err := json.Unmarshal([]byte(text), &m); err != nil || m.CardholderInfo != "Call us." {
			t.Errorf("%s: %q, %v", text, m.CardholderInfo, err)
		}
	}
}

// TestBrowserData: what a browser tells of itself, in the form that each version has for it.
func TestBrowserData(t *testing.T) {
	for _, test := range []struct{ ip, before, since string }{
		{"192.0.2.1", "192.0.2.1", "192.0.2.1"},
		{"::ffff:192.0.2.1", "192.0.2.1", "192.0.2.1"},
		{"fe80::1%eth0", "fe80:0000:0000:0000:0000:0000:0000:0001", "fe80::1"},
		{"odd", "odd", "odd"},
	} {
		for version, want := range map[string]string{"2.2.0": test.before, "2.3.1": test.since} {
			a := areq{version: version, order: order{Browser: browser{IP: test.ip}}}
			if got := a.ip(); got != want {
				t.Errorf("%s in %s: %s, want %s", test.ip, version, got, want)
			}
		}
	}
	for depth, want := range map[int]string{0: "1", 1: "1", 3: "1", 4: "4", 8: "8", 15: "15", 16: "16", 24: "24", 30: "24", 32: "32", 48: "48", 64: "48"} {
		a := areq{version: "2.2.0", order: order{Browser: browser{ColorDepth: depth}}}
		if got := a.colorDepth(); got != want {
			t.Errorf("%d bits: %s, want %s", depth, got, want)
		}
	}
	for _, test := range []struct {
		accept      []string
		told        string // by the page
		want, agent string
	}{
		{nil, "", "*/*", "Header/1"},
		{[]string{"text/html", "*/*;q=0.8"}, "Page/1", "text/html,*/*;q=0.8", "Page/1"},
	} {
		r := httptest.NewRequest("POST", "/checkout", nil)
		r.Header["Accept"] = test.accept
		r.Header.Set("User-Agent", "Header/1")
		r.RemoteAddr = "[2001:db8::1]:4711"
		b := browser{UserAgent: test.told}
		if b.addHeaders(r); b.Accept != test.want || b.UserAgent != test.agent || b.IP != "2001:db8::1" {
			t.Errorf("%+v; want %q, %q", b, test.want, test.agent)
		}
	}
}
