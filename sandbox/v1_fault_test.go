package sandbox_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/sandbox"
)

// TestV1VEResFaults: each merchant id for which a directory server goes wrong.
func TestV1VEResFaults(t *testing.T) {
	t.Parallel()
	p := newPlugIn(t, start(t, nil), "mastercard")
	for _, code := range []string{"50", "51", "52", "53", "54", "55", "58", "98", "99"} {
		p.merID = "FAULT-IREQ" + code
		if ve := p.enrolled("id", "5100001234560000"); ve.IReq != code || ve.Enrolled != "N" || ve.URL != "" {
			t.Errorf("%s: %+v", p.merID, ve)
		}
	}
	for merID, want := range map[string]func(code int, raw []byte) bool{
		"FAULT-ERROR5":  func(_ int, raw []byte) bool { return readAnswer(t, raw).Message.Error.Code == "5" },
		"FAULT-ERROR98": func(_ int, raw []byte) bool { return readAnswer(t, raw).Message.Error.Code == "98" },
		"FAULT-HTTP500": func(code int, _ []byte) bool { return code == 500 },
		"FAULT-GARBAGE": func(_ int, raw []byte) bool { return bytes.HasPrefix(raw, []byte("<!DOCTYPE html>")) },
		"FAULT-CUT":     func(_ int, raw []byte) bool { return !bytes.HasSuffix(raw, []byte(">")) },
		"FAULT-TWICE":   func(_ int, raw []byte) bool { return len(readAnswer(t, raw).Message.VERes) == 2 },
		"FAULT-CRITICAL": func(_ int, raw []byte) bool {
			return readAnswer(t, raw).Message.VERes[0].Extension[0].Critical == "true"
		},
		"FAULT-VERESID": func(_ int, raw []byte) bool { return readAnswer(t, raw).Message.ID == "other.id" },
		"FAULT-ACCTID":  func(_ int, raw []byte) bool { return readAnswer(t, raw).Message.VERes[0].AcctID == "5100001234560000" },
		"FAULT-ACSURL": func(_ int, raw []byte) bool {
			return strings.HasPrefix(readAnswer(t, raw).Message.VERes[0].URL, "http://bank@acs.example/")
		},
	} {
		p.merID = merID
		if code, raw := p.post(p.veReq("id", "5100001234560000")); !want(code, raw) {
			t.Errorf("%s: %d %s", merID, code, raw)
		}
	}
}

// TestV1PAResFaults: each merchant id for which an issuer goes wrong, at every
// scheme. Where the values are wrong the signature is good, and the other way
// round.
func TestV1PAResFaults(t *testing.T) {
	t.Parallel()
	box := start(t, nil)
	pans := map[string]string{
		"visa": "4000001234560000", "mastercard": "5100001234560000", "amex": "340000123450000", "jcb": "3500001234560000",
		"protectbuy": "6500001234560000",
	}
	for scheme, pan := range pans {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			p := newPlugIn(t, box, scheme)
			for _, test := range []struct {
				merID string
				good  bool // the signature
				want  func(raw []byte, r v1PARes) bool
			}{
				{"FAULT-PARESIREQ", true, func(_ []byte, r v1PARes) bool { return r.Status == "U" && r.IReq == "55" }},
				{"FAULT-PARESID", true, func(raw []byte, _ v1PARes) bool { return readAnswer(t, raw).Message.ID == "other.id" }},
				{"FAULT-ACQBIN", true, func(_ []byte, r v1PARes) bool { return r.AcqBIN == "423457" }},
				{"FAULT-MERID", true, func(_ []byte, r v1PARes) bool { return r.MerID == "FAULT-MERI0" }},
				{"FAULT-XID", true, func(_ []byte, r v1PARes) bool {
					raw, err := base64.StdEncoding.Strict().DecodeString(r.XID)
					return err == nil && len(raw) == 20 && r.XID != testXID
				}},
				{"FAULT-DATE", true, func(_ []byte, r v1PARes) bool { return r.Date == "20261121 12:00:01" }},
				{"FAULT-AMOUNT", true, func(_ []byte, r v1PARes) bool { return r.Amount == "21602" }},
				{"FAULT-CURRENCY", true, func(_ []byte, r v1PARes) bool { return r.Currency == "209" }},
				{"FAULT-PAN", true, func(_ []byte, r v1PARes) bool { return strings.HasSuffix(r.PAN, "0001") }},
				{"FAULT-CHAIN", false, func(_ []byte, r v1PARes) bool { return r.Status == "Y" }},
				{"FAULT-ROOT", false, func(_ []byte, r v1PARes) bool { return r.Status == "Y" }},
				{"FAULT-SIGNATURE", false, func(_ []byte, r v1PARes) bool { return r.Status == "Y" }},
				{"FAULT-EDITED", false, func(_ []byte, r v1PARes) bool { return r.Amount == "121601" }},
				{"FAULT-UNSIGNED", false, func(raw []byte, r v1PARes) bool {
					return r.Status == "Y" && readAnswer(t, raw).Message.Signed == nil
				}},
				{"FAULT-REFERENCE", false, func(_ []byte, r v1PARes) bool { return r.Status == "Y" }},
			} {
				p.merID = test.merID
				_, raw := p.authenticate("id", pan)
				if a := readAnswer(t, raw).Message; len(a.PARes) != 1 || !test.want(raw, a.PARes[0]) {
					t.Errorf("%s: %s", test.merID, raw)
				}
				if out, good := xmlsec(t, p.ds.RootsPEM(), raw); good != test.good {
					t.Errorf("%s: the signature is good: %t, want %t: %s", test.merID, good, test.good, out)
				}
			}
			p.merID = "FAULT-WRAPPED"
			_, raw := p.authenticate("id", pan)
			if all := readAnswer(t, raw).Message.PARes; len(all) != 2 || all[0].Amount != "121601" || all[1].Amount != "21601" {
				t.Errorf("%s: %s", p.merID, raw)
			}
			if out, good := xmlsec(t, p.ds.RootsPEM(), raw); !good {
				t.Errorf("%s: a naive reader is to be taken in: %s", p.merID, out)
			}
			p.merID = "FAULT-PARESERROR"
			if _, raw := p.authenticate("id", pan); readAnswer(t, raw).Message.Error.Code != "5" {
				t.Errorf("%s: %s", p.merID, raw)
			}
		})
	}
}

// TestV1EveryFaultIsTested: the table has no fault that these tests do not know.
func TestV1EveryFaultIsTested(t *testing.T) {
	for _, found := range regexp.MustCompile(`(?m)^merchant (\S+)`).FindAllStringSubmatch(sandbox.V1Table(), -1) {
		if !strings.Contains(v1FaultsTried, found[1]+" ") {
			t.Errorf("%s is tried nowhere", found[1])
		}
	}
}

const v1FaultsTried = "FAULT-IREQ50 FAULT-IREQ51 FAULT-IREQ52 FAULT-IREQ53 FAULT-IREQ54 FAULT-IREQ55 FAULT-IREQ58 FAULT-IREQ98 FAULT-IREQ99 " +
	"FAULT-ERROR5 FAULT-ERROR98 FAULT-SILENCE FAULT-HTTP500 FAULT-GARBAGE FAULT-CUT FAULT-TWICE FAULT-CRITICAL FAULT-VERESID FAULT-ACCTID " +
	"FAULT-ACSURL FAULT-PARESIREQ FAULT-PARESERROR FAULT-PARESID FAULT-ACQBIN FAULT-MERID FAULT-XID FAULT-DATE FAULT-AMOUNT FAULT-CURRENCY " +
	"FAULT-PAN FAULT-CHAIN FAULT-ROOT FAULT-SIGNATURE FAULT-EDITED FAULT-UNSIGNED FAULT-REFERENCE FAULT-WRAPPED "

// TestV1BadVEReqGetsAnError: what is wrong with a VEReq, as the Error says it.
func TestV1BadVEReqGetsAnError(t *testing.T) {
	t.Parallel()
	p := newPlugIn(t, start(t, nil), "visa")
	for _, test := range []struct{ old, new, code, detail string }{
		{"<ThreeDSecure>", "<ThreeDSecured>", "1", "ThreeDSecure"},
		{"</ThreeDSecure>", "</ThreeDSecure><a/>", "1", "ThreeDSecure"},
		{"<ThreeDSecure>", "<!DOCTYPE a><ThreeDSecure>", "1", "ThreeDSecure"},
		{`<Message id="id">`, `<Message id="id" id="id">`, "1", "ThreeDSecure"},
		{"VEReq>", "VERes>", "2", "Message"},
		{"</VEReq>", "</VEReq><VEReq/>", "2", "Message"},
		{"<Message ", "<Message i", "3", "Message.id"},
		{"<merID>shop-1</merID>", "", "3", "VEReq.Merchant.merID"},
		{"<pan>4000001234560000</pan>", "", "3", "VEReq.pan"},
		{"<version>1.0.2", "<version>1.0.1", "6", "1.0.2"},
		{"<version>1.0.2", "<version>1.1.0", "5", "VEReq.version"},
		{"<pan>4000001234560000", "<pan>40000012345", "5", "VEReq.pan"},
		{"<pan>4000001234560000", "<pan>4000 0012 3456 0000", "5", "VEReq.pan"},
		{"<acqBIN>423456", "<acqBIN>423456789012", "5", "VEReq.Merchant.acqBIN"},
		{"<merID>shop-1", "<merID>" + strings.Repeat("x", 25), "5", "VEReq.Merchant.merID"},
		{"</VEReq>", "<new>1</new></VEReq>", "5", "VEReq.new"},
		{"</VEReq>", "text</VEReq>", "5", "VEReq"},
		{"</VEReq>", `<Extension id="a" critical="true"/></VEReq>`, "4", "a"},
	} {
		p.change = func(message string) string {
			if test.code == "2" || test.new == "<ThreeDSecured>" {
				return strings.ReplaceAll(strings.ReplaceAll(message, test.old, test.new), "</"+test.old[1:], "</"+test.new[1:])
			}
			return strings.Replace(message, test.old, test.new, 1)
		}
		code, raw := p.post(p.veReq("id", "4000001234560000"))
		if e := readAnswer(t, raw).Message.Error; code != 200 || e.Code != test.code || e.Detail != test.detail {
			t.Errorf("%s → %s: %d %+v, want %s %s", test.old, test.new, code, e, test.code, test.detail)
		}
	}
	p.change = func(message string) string {
		return strings.Replace(message, "</VEReq>", `<Extension id="a" critical="false"><b/></Extension></VEReq>`, 1)
	}
	if ve := p.enrolled("id", "4000001234560000"); ve.Enrolled != "Y" {
		t.Errorf("with an extension that is not critical: %+v", ve)
	}
	p.change = nil
	if code, raw := p.post(`<ThreeDSecure><Message id="id"><Error><errorCode>5</errorCode></Error></Message></ThreeDSecure>`); code != 200 || len(raw) > 0 {
		t.Errorf("an Error: %d %s, want silence", code, raw)
	}
	for _, test := range []struct {
		method, contentType, body string
		want                      int
	}{
		{"GET", "application/xml", "", 405},
		{"POST", "application/json", "{}", 415},
		{"POST", "application/x-www-form-urlencoded", "a=b", 415},
		{"POST", "text/xml", strings.Repeat(" ", 70_000), 413},
	} {
		r, _ := http.NewRequestWithContext(t.Context(), test.method, p.ds.URL, strings.NewReader(test.body))
		r.Header.Set("Content-Type", test.contentType)
		res, err := p.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != test.want {
			t.Errorf("%s %s: %d, want %d", test.method, test.contentType, res.StatusCode, test.want)
		}
	}
}

// TestV1PAReq: what the issuer makes of a PAReq that is not what the directory
// server was asked about, or is none.
func TestV1PAReq(t *testing.T) {
	t.Parallel()
	box := start(t, nil)
	p := newPlugIn(t, box, "visa")
	ve := p.enrolled("id", "4000001234560000")
	for _, test := range []struct{ old, new, code, detail string }{
		{`id="id"`, `id="id2"`, "55", "Message.id"},
		{"<acqBIN>423456", "<acqBIN>423457", "55", "Merchant.acqBIN"},
		{"<merID>shop-1", "<merID>shop-2", "55", "Merchant.merID"},
		{"<amount>216.01 DKK", "<amount>2.16 DKK", "55", "Purchase.amount"},
		{"<acctID>", "<acctID>x", "", "PAReq.CH.acctID"}, // 29 characters
		{"<acctID>" + ve.AcctID, "<acctID>somebody", "56", "CH.acctID"},
		{"<currency>208", "<currency>DKK", "", "PAReq.Purchase.currency"},
		{"<date>20261121 ", "<date>20261131 ", "", "PAReq.Purchase.date"},
		{"<xid>M", "<xid>", "", "PAReq.Purchase.xid"},
	} {
		p.change = func(message string) string { return strings.Replace(message, test.old, test.new, 1) }
		_, raw := p.pay(ve.URL, p.paReq("id", ve.AcctID))
		a := readAnswer(t, raw).Message
		if test.code == "" {
			if a.Error.Code != "5" || a.Error.Detail != test.detail {
				t.Errorf("%s → %s: %s", test.old, test.new, raw)
			}
			continue
		}
		if len(a.PARes) != 1 || a.PARes[0].Status != "U" || a.PARes[0].IReq != test.code || a.PARes[0].Detail != test.detail ||
			strings.Trim(a.PARes[0].PAN, "0") != "" {
			t.Errorf("%s → %s: %s", test.old, test.new, raw)
		}
		if out, good := xmlsec(t, p.ds.RootsPEM(), raw); !good {
			t.Errorf("%s → %s: %s", test.old, test.new, out)
		}
	}
	p.change = nil
	paReq := pack(t, p.paReq("id", ve.AcctID))
	for name, test := range map[string]struct {
		form url.Values
		want string
	}{
		"no TermUrl": {url.Values{"PaReq": {paReq}, "MD": {""}}, "TermUrl is missing or no web address"},
		"odd":        {url.Values{"PaReq": {paReq}, "MD": {""}, "TermUrl": {"javascript:alert(1)"}}, "TermUrl is missing or no web address"},
		"no MD":      {url.Values{"PaReq": {paReq}, "TermUrl": {"https://shop.example"}}, "MD is missing; it may be empty"},
		"no PaReq":   {url.Values{"TermUrl": {"https://shop.example"}, "MD": {""}}, "PaReq is missing or not base64 of zlib"},
		"lost plus": {
			url.Values{"PaReq": {strings.ReplaceAll(paReq, "e", " ")}, "TermUrl": {"https://shop.example"}, "MD": {""}},
			"PaReq is missing or not base64 of zlib"},
		"not zlib": {url.Values{"PaReq": {"YWJj"}, "TermUrl": {"https://shop.example"}, "MD": {""}}, "PaReq is missing or not base64 of zlib"},
		"a bomb": {
			url.Values{"PaReq": {pack(t, strings.Repeat(" ", 1<<20))}, "TermUrl": {"https://shop.example"}, "MD": {""}},
			"PaReq is missing or not base64 of zlib"},
	} {
		if shown := send(t, ve.URL, test.form); shown.status != 400 || shown.testID("detail") != test.want {
			t.Errorf("%s: %d %q, want 400 %q", name, shown.status, shown.testID("detail"), test.want)
		}
	}
	if shown := send(t, box.ACSURL()+"/v1/upi", url.Values{}); shown.status != 404 {
		t.Errorf("a scheme without 1.0.2: %d, want 404", shown.status)
	}
}

// TestV1PaResStandsAsItIs: a program that reads the page as text finds the base64 of the PaRes
// without characters that HTML has escaped, while what could end the attribute is escaped.
func TestV1PaResStandsAsItIs(t *testing.T) {
	const (
		digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
		md     = `a+b"><x>`
	)
	p := newPlugIn(t, start(t, nil), "visa")
	ve := p.enrolled("id", "4000001234560000")
	shown := send(t, ve.URL, url.Values{"PaReq": {pack(t, p.paReq("id", ve.AcctID))}, "TermUrl": {"https://shop.example/"}, "MD": {md}})
	found := regexp.MustCompile(`<input type="hidden" name="PaRes" value="(\S*)">`).FindStringSubmatch(shown.text)
	if found == nil || strings.Trim(found[1], digits) != "" || !strings.Contains(found[1], "+") {
		t.Fatalf("PaRes is not base64 in %s", shown.text)
	}
	if shown.field("MD") != md || strings.Contains(shown.text, "<x>") {
		t.Fatalf("MD is %q in %s", shown.field("MD"), shown.text)
	}
}

// TestV1TextClientGetsPaResAlone: a client that accepts text gets the PaRes alone, and a PAReq that
// is brought twice has the same answer.
func TestV1TextClientGetsPaResAlone(t *testing.T) {
	p := newPlugIn(t, start(t, nil), "visa")
	ve := p.enrolled("id", "4000001234560000")
	paReq := p.paReq("id", ve.AcctID)
	_, want := p.pay(ve.URL, paReq)
	form := url.Values{"PaReq": {pack(t, paReq)}, "TermUrl": {"http://localhost/"}, "MD": {""}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, ve.URL, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "text/plain")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if got := unpack(t, strings.TrimSpace(string(text))); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s, %v", got, err)
	}
}

func (p *plugIn) crReq(serial string) v1CRRes {
	p.t.Helper()
	if serial != "" {
		serial = "<serialNumber>" + serial + "</serialNumber>"
	}
	_, raw := p.post(`<ThreeDSecure><Message id="cr"><CRReq><version>1.0.2</version><Merchant><acqBIN>423456</acqBIN><merID>` + p.merID +
		`</merID></Merchant>` + serial + `</CRReq></Message></ThreeDSecure>`)
	return readAnswer(p.t, raw).Message.CRRes
}

// TestV1Ranges: all cards of a scheme are in its ranges but for those that the
// table calls outside, and the change from the table before leads there too.
func TestV1Ranges(t *testing.T) {
	box := start(t, nil)
	holes := map[string]string{"visa": "41020199", "mastercard": "51020199", "amex": "34020199", "jcb": "35020199", "protectbuy": "65020199"}
	edges := map[string][]string{
		"visa": {"4", ""}, "mastercard": {"51", "55", "2221", "2720"}, "amex": {"34", "37"}, "jcb": {"35"}, "protectbuy": {"36", "38", "65", "6011"},
	}
	for scheme, hole := range holes {
		p := newPlugIn(t, box, scheme)
		whole := p.crReq("")
		for _, edge := range edges[scheme] {
			for _, digit := range []string{"0", "9"} {
				pan := edge + strings.Repeat(digit, 16-len(edge))
				if want := edge != ""; inside(whole.CR, pan) != want {
					t.Errorf("%s %s is in a range: %t", scheme, pan, !want)
				}
			}
		}
		for _, length := range []int{13, 16, 19} {
			for _, pan := range []string{hole + strings.Repeat("0", length-8), hole + strings.Repeat("9", length-8)} {
				if inside(whole.CR, pan) || !inside(whole.CR, neighbour(pan, hole)) {
					t.Errorf("%s: the hole at %s is not as large as it should be", scheme, pan)
				}
			}
		}
		if ve := p.enrolled("id", hole+"00000000"); ve.Enrolled != "N" {
			t.Errorf("%s: outside: %+v", scheme, ve)
		}
		if ve := p.enrolled("id", "9000001234560000"); ve.Enrolled != "N" {
			t.Errorf("%s: a card of nobody: %+v", scheme, ve)
		}
		if again := p.crReq(whole.Serial); len(again.CR) > 0 || again.Serial != whole.Serial {
			t.Errorf("%s: nothing has changed, and yet %+v", scheme, again)
		}
		if zero := p.crReq("0"); len(zero.CR) != len(whole.CR) {
			t.Errorf("%s: %d ranges for serial 0, want %d", scheme, len(zero.CR), len(whole.CR))
		}
		change := p.crReq("2611200001")
		added, deleted := 0, 0
		for _, cr := range change.CR {
			if cr.Action == "A" {
				added++
			} else {
				deleted++
			}
		}
		if added == 0 || deleted == 0 || added+deleted >= 2*len(whole.CR) || change.Serial != whole.Serial {
			t.Errorf("%s: change %+v", scheme, change)
		}
		if lost := p.crReq("77"); lost.IReq != "57" || len(lost.CR) > 0 || lost.Serial != "" {
			t.Errorf("%s: an unknown serial number: %+v", scheme, lost)
		}
		p.merID = "FAULT-IREQ50"
		if refused := p.crReq(""); refused.IReq != "50" || len(refused.CR) > 0 {
			t.Errorf("%s: %+v", scheme, refused)
		}
	}
}

func inside(all []v1CR, pan string) bool {
	for _, cr := range all {
		if len(cr.Begin) == len(pan) && cr.Begin <= pan && pan <= cr.End {
			return true
		}
	}
	return false
}

// neighbour is the number just outside the hole at whose edge pan is.
func neighbour(pan, hole string) string {
	rest := strings.Repeat("9", len(pan)-len(hole))
	step := -1
	if strings.HasSuffix(pan, rest) {
		step, rest = 1, strings.Repeat("0", len(rest))
	}
	var n int
	_, _ = fmt.Sscan(hole, &n)
	return fmt.Sprint(n+step) + rest
}

// TestV1Alter: a test may break what the sandbox sends.
func TestV1Alter(t *testing.T) {
	t.Parallel()
	box := start(t, func(s *sandbox.Sandbox) {
		s.Alter = func(kind string, body []byte) []byte {
			if kind == "PARes" {
				return []byte("broken")
			}
			return body
		}
	})
	p := newPlugIn(t, box, "visa")
	if _, raw := p.authenticate("id", "4000001234560000"); string(raw) != "broken" {
		t.Errorf("%s", raw)
	}
	var kinds []string
	for _, e := range box.Received("id") {
		kinds = append(kinds, e.From+" "+e.Type)
	}
	if got, want := strings.Join(kinds, ", "), "server VEReq, ds visa 1.0.2 VERes, browser PAReq, acs PARes"; got != want {
		t.Errorf("recorded %s, want %s", got, want)
	}
}
