package shop

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// A page plays the browser's part against a shop, and keeps every byte that it
// was sent.
type page struct {
	t    *testing.T
	shop *Shop
	seen bytes.Buffer
}

func (p *page) do(method, target, contentType, body string) *http.Response {
	p.t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:8082"+target, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	p.shop.Handler().ServeHTTP(w, r)
	res := w.Result()
	_ = res.Header.Write(&p.seen)
	p.seen.Write(w.Body.Bytes())
	return res
}

// post sends JSON and returns the view that comes back.
func (p *page) post(target string, body any) view {
	p.t.Helper()
	res := p.do("POST", target, "application/json", string(marshal(body)))
	var v view
	if err := json.NewDecoder(res.Body).Decode(&v); err != nil || res.StatusCode != http.StatusOK {
		p.t.Fatalf("POST %s: status %d, %v", target, res.StatusCode, err)
	}
	return v
}

// notify posts a form, as an ACS makes a browser do.
func (p *page) notify(step string, form url.Values) int {
	p.t.Helper()
	return p.do("POST", "/notify/"+step, "application/x-www-form-urlencoded", form.Encode()).StatusCode
}

func testOrder(card string) order {
	return order{Card: card, Expiry: "12/29", Name: "Alex Example", Plan: "once", Window: "03",
		Browser: browser{Language: "en-GB", ColorDepth: 24, ScreenHeight: 800, ScreenWidth: 1280, TZ: -60, UserAgent: "Test/1"}}
}

// toAuth pays with a card up to the answer to the AReq, the 3DS Method done, or
// to that of /enrolled.
func (p *page) toAuth(o order) view {
	p.t.Helper()
	v := p.post("/checkout", o)
	if v.State == enrolling {
		return p.post("/checkout/"+v.ID+"/enrolled", nil)
	}
	if v.State != method {
		return v
	}
	if v.Method.Run {
		p.do("GET", "/frame/"+v.ID+"/method", "", "")
		if id := p.shop.till.find(v.ID).transID; digit4(o.Card, 1) == "0" {
			p.notify("method", url.Values{"threeDSMethodData": {encode(marshal(methodData{ServerTransID: id}))}})
		}
	}
	return p.post("/checkout/"+v.ID+"/auth", nil)
}

func TestEndings(t *testing.T) {
	for _, test := range []struct {
		card, result, cancel string
		want                 word
		status               string
	}{
		{"4000000000000003", "", "", authenticated, "Y"},
		{"4000000000000103", "", "", authenticated, "Y"},
		{"4000000000000203", "", "", authenticated, "Y"},
		{"4000000000001003", "", "", authenticated, "Y"},
		{"4000000000000013", "", "", failed, "N"},
		{"4000000000000023", "", "", attempted, "A"},
		{"4000000000000033", "", "", rejected, "R"},
		{"4000000000000043", "", "", informational, "I"},
		{"4000000000000053", "", "", unavailable, "U"},
		{"4000000000000063", "", "", faulty, ""},
		{"9000100111111111", "", "", notEnrolled, ""},
		{"4000000000000072", "Y", "", authenticated, "Y"},
		{"4000000000000072", "N", "", failed, "N"},
		{"4000000000000072", "N", "01", cancelled, "N"},
		{"4000000000000072", "N", "04", timedOut, "N"},
		{"4000000000000072", "U", "06", timedOut, "U"}, // reason 14 says so
		{"4000000000000083", "Y", "", authenticated, "Y"},
		{"4000000000000083", "N", "03", timedOut, "N"},
	} {
		bank := newBank(t)
		p := &page{t: t, shop: bank.shop()}
		v := p.toAuth(testOrder(test.card))
		if test.result != "" {
			if v = p.post("/checkout/"+v.ID+"/result", nil); v.State == done {
				t.Errorf("%s: done before there was a result", test.card)
			}
			bank.finish(p.shop.till.find(v.ID).transID, test.result, test.cancel)
			v = p.post("/checkout/"+v.ID+"/result", nil)
		}
		if v.State != done || v.Ending.Word != test.want || v.Ending.TransStatus != test.status {
			t.Errorf("%s %s%s: %s, %+v; want %s", test.card, test.result, test.cancel, v.State, v.Ending, test.want)
		}
		if strings.Contains(p.seen.String(), test.card) {
			t.Errorf("%s: the card number came back to the browser", test.card)
		}
	}
}

func TestCompInd(t *testing.T) {
	for _, test := range []struct{ card, want string }{
		{"4000000000000003", "Y"},
		{"4000000000000103", "U"},
		{"4000000000000203", "N"},
	} {
		bank := newBank(t)
		p := &page{t: t, shop: bank.shop()}
		v := p.toAuth(testOrder(test.card))
		p.post("/checkout/"+v.ID+"/auth", nil) // changes nothing
		areq, n := bank.lastCall("/auth")
		if areq["threeDSCompInd"] != test.want || n != 1 {
			t.Errorf("%s: threeDSCompInd %v in %d calls, want %s in one", test.card, areq["threeDSCompInd"], n, test.want)
		}
	}
}

func TestMethodLimit(t *testing.T) {
	for _, test := range []struct {
		card string
		want int64
	}{{"4000000000001003", 10000}, {"4000000000002003", 10000}, {"4000000000003003", 5000}} {
		p := &page{t: t, shop: newBank(t).shop()}
		if v := p.post("/checkout", testOrder(test.card)); v.Method.Limit != test.want {
			t.Errorf("%s: limit %d ms, want %d", test.card, v.Method.Limit, test.want)
		}
	}
}

// TestLateness: without a result a checkout ends when its time is over, each
// state in its own word, and not before.
func TestLateness(t *testing.T) {
	for _, test := range []struct {
		name string
		act  func(p *page, v view, tr *transaction)
		wait time.Duration
		want word
	}{
		{"nobody answers", func(*page, view, *transaction) {}, 11 * time.Minute, timedOut},
		{"cancelled", func(p *page, v view, _ *transaction) { p.post("/checkout/"+v.ID+"/cancel", nil) }, 3 * time.Second, cancelled},
		{"back without a result", func(p *page, v view, tr *transaction) {
			p.notify("challenge", url.Values{"cres": {encode(tr.cres("Y"))}})
		}, 30 * time.Second, missing},
		{"back with an Erro", func(p *page, v view, tr *transaction) {
			p.notify("challenge", url.Values{"cres": {encode(marshal(object{"messageType": "Erro", "errorCode": "203", "threeDSServerTransID": tr.id}))}})
		}, 3 * time.Second, faulty},
	} {
		t.Run(test.name, func(t *testing.T) {
			bank := newBank(t)
			now := time.Now()
			s := bank.shop()
			s.Now = func() time.Time { return now }
			p := &page{t: t, shop: s}
			v := p.toAuth(testOrder("4000000000000072"))
			test.act(p, v, bank.find(s.till.find(v.ID).transID))
			now = now.Add(test.wait)
			if v = p.post("/checkout/"+v.ID+"/result", nil); v.State == done {
				t.Fatalf("done at the limit, want after it: %+v", v.Ending)
			}
			now = now.Add(time.Nanosecond)
			if v = p.post("/checkout/"+v.ID+"/result", nil); v.State != done || v.Ending.Word != test.want {
				t.Errorf("%s, %+v; want %s", v.State, v.Ending, test.want)
			}
		})
	}
}

// TestNoResultYet: the shop asks again where the server has nothing at the moment,
// and ends where an Erro has come in the place of a result.
func TestNoResultYet(t *testing.T) {
	for _, test := range []struct {
		code, component string
		want            state
	}{
		{"305", "S", challenge},
		{"103", "S", challenge}, // 429
		{"403", "S", challenge},
		{"203", "S", done},
		{"305", "D", done},
		{"403", "D", done},
		{"103", "A", done},
	} {
		bank := newBank(t)
		p := &page{t: t, shop: bank.shop()}
		v := p.toAuth(testOrder("4000000000000072"))
		bank.find(p.shop.till.find(v.ID).transID).erro = problem(test.code, test.component, "", "")
		v = p.post("/checkout/"+v.ID+"/result", nil)
		if v.State != test.want || v.State == done && (v.Ending.Word != faulty || v.Ending.Erro.Code != test.code) {
			t.Errorf("Erro %s of %s: %s, %+v; want %s", test.code, test.component, v.State, v.Ending, test.want)
		}
	}
}

// TestResultAfterCancel: what the issuer says counts, whatever was clicked.
func TestResultAfterCancel(t *testing.T) {
	bank := newBank(t)
	p := &page{t: t, shop: bank.shop()}
	v := p.toAuth(testOrder("4000000000000072"))
	p.post("/checkout/"+v.ID+"/cancel", nil)
	bank.finish(p.shop.till.find(v.ID).transID, "Y", "")
	if v = p.post("/checkout/"+v.ID+"/result", nil); v.Ending == nil || v.Ending.Word != authenticated {
		t.Errorf("ending %+v, want authenticated", v.Ending)
	}
}

// TestCResEncodings: eight forms of one CRes, with and without session data,
// all bring the cardholder back (EN-01, EN-03, ID-16).
func TestCResEncodings(t *testing.T) {
	std, web := base64.StdEncoding, base64.URLEncoding
	lines := func(s string) string { return s[:10] + "\r\n" + s[10:20] + "\n\t " + s[20:] + "\n" }
	for name, write := range map[string]func([]byte) string{
		"url, unpadded":           web.WithPadding(base64.NoPadding).EncodeToString,
		"url, padded":             web.EncodeToString,
		"standard, unpadded":      std.WithPadding(base64.NoPadding).EncodeToString,
		"standard, padded":        std.EncodeToString,
		"url, lines":              func(b []byte) string { return lines(web.WithPadding(base64.NoPadding).EncodeToString(b)) },
		"standard, lines, padded": func(b []byte) string { return lines(std.EncodeToString(b)) },
		"spaces around":           func(b []byte) string { return "  " + web.EncodeToString(b) + "  " },
		"plus became space":       func(b []byte) string { return strings.ReplaceAll(std.EncodeToString(b), "+", " ") },
	} {
		for _, session := range []bool{true, false} {
			bank := newBank(t)
			p := &page{t: t, shop: bank.shop()}
			v := p.toAuth(testOrder("4000000000000072"))
			c := p.shop.till.find(v.ID)
			// A member that makes both special characters of the alphabets appear.
			cres := append(bytes.TrimSuffix(bank.find(c.transID).cres("Y"), []byte("}")), `,"x":"~~>>??~~ÿ?>"}`...)
			if text := std.EncodeToString(cres); !strings.ContainsAny(text, "+") || !strings.Contains(text, "/") {
				t.Fatalf("the vector is too tame: %s", text)
			}
			form := url.Values{"cres": {write(cres)}}
			if session {
				form.Set("threeDSSessionData", write([]byte(c.session)))
			}
			status := p.notify("challenge", form)
			if got := c.view(); status != http.StatusOK || got.State != returned {
				t.Errorf("%s, session data %t: status %d, state %s: %s", name, session, status, got.State, got.Wire[len(got.Wire)-1].Note)
			}
		}
	}
}

// TestUnfitNotices: what does not belong to the challenge changes nothing, and
// the answer tells nothing.
func TestUnfitNotices(t *testing.T) {
	bank := newBank(t)
	p := &page{t: t, shop: bank.shop()}
	v := p.toAuth(testOrder("4000000000000072"))
	other := p.toAuth(testOrder("4000000000000072"))
	c := p.shop.till.find(v.ID)
	tr, foreign := *bank.find(c.transID), *bank.find(p.shop.till.find(other.ID).transID)
	session := encode([]byte(c.session))
	change := func(f func(*transaction)) string {
		changed := tr
		f(&changed)
		return encode(changed.cres("Y"))
	}
	for _, test := range []struct {
		name, session, cres string
		recorded            bool
	}{
		{"nothing", "", "", false},
		{"unknown session", encode([]byte("nobody")), "", false},
		{"unknown transaction", "", change(func(tr *transaction) { tr.id = "00000000-0000-4000-8000-000000000000" }), false},
		{"no base64", session, "{}", true},
		{"no JSON", session, encode([]byte("hello")), true},
		{"another message", session, encode([]byte(`{"messageType":"ARes"}`)), true},
		{"another transaction", session, encode(foreign.cres("Y")), true},
		{"another acsTransID", session, change(func(tr *transaction) { tr.acsID = foreign.acsID }), true},
		{"another version", "", change(func(tr *transaction) { tr.version = "2.1.0" }), true},
		{"an Erro of another transaction", session, encode([]byte(`{"messageType":"Erro","threeDSServerTransID":"x"}`)), true},
	} {
		before := len(c.view().Wire)
		status := p.notify("challenge", url.Values{"cres": {test.cres}, "threeDSSessionData": {test.session}})
		if status < 400 || status > 499 {
			t.Errorf("%s: status %d, want 4xx", test.name, status)
		}
		if got := c.view(); got.State != challenge || (len(got.Wire) > before) != test.recorded {
			t.Errorf("%s: state %s, %d messages after %d", test.name, got.State, len(got.Wire), before)
		}
	}
	if strings.Contains(p.seen.String(), c.session) {
		t.Error("the session came out")
	}
}

func TestMethodNotices(t *testing.T) {
	p := &page{t: t, shop: newBank(t).shop()}
	v := p.post("/checkout", testOrder("4000000000000003"))
	c := p.shop.till.find(v.ID)
	data := marshal(methodData{ServerTransID: c.transID})
	for _, test := range []struct {
		text   string
		status int
		want   bool
	}{
		{"", 400, false},
		{"@@@", 400, false},
		{encode([]byte("[]")), 400, false},
		{encode([]byte(`{"threeDSServerTransID":"00000000-0000-4000-8000-000000000000"}`)), 404, false},
		{encode(marshal(methodData{ServerTransID: c.session})), 404, false},
		{base64.StdEncoding.EncodeToString(data), 200, true},
		{encode(data), 200, true},
	} {
		status := p.notify("method", url.Values{"threeDSMethodData": {test.text}})
		if got := c.view().Method.Noticed; status != test.status || got != test.want {
			t.Errorf("%q: status %d, noticed %t; want %d, %t", test.text, status, got, test.status, test.want)
		}
	}
	p.post("/checkout/"+v.ID+"/auth", nil)
	if status := p.notify("method", url.Values{"threeDSMethodData": {encode(data)}}); status != http.StatusConflict {
		t.Errorf("late notice: status %d, want 409", status)
	}
}

// TestChallengeFrame: what the frame posts has the form that ACSs want, and a
// reload posts it again, byte for byte (EN-01, MX-11, MX-12, MX-13).
func TestChallengeFrame(t *testing.T) {
	bank := newBank(t)
	p := &page{t: t, shop: bank.shop()}
	v := p.toAuth(testOrder("4000000000000072"))
	c := p.shop.till.find(v.ID)
	read := func() string {
		body, err := io.ReadAll(p.do("GET", "/frame/"+v.ID+"/challenge", "", "").Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	first := read()
	if second := read(); second != first {
		t.Errorf("the second page differs:\n%s\n%s", first, second)
	}
	want := `{"messageType":"CReq","messageVersion":"2.3.1","threeDSServerTransID":"` + c.transID + `","acsTransID":"` + c.ares.ACSTransID + `","challengeWindowSize":"03"}`
	for _, part := range []string{
		`<input type="hidden" name="creq" value="` + encode([]byte(want)) + `">`,
		`<input type="hidden" name="threeDSSessionData" value="` + encode([]byte(c.session)) + `">`,
		`action="` + bank.ACS.URL + `/challenge"`,
		`<noscript>`,
	} {
		if !strings.Contains(first, part) {
			t.Errorf("no %s in\n%s", part, first)
		}
	}
}

// TestNotes: what the server's headers say of the AReq stands beside the ARes, without
// the key and the card that a peer may have put there.
func TestNotes(t *testing.T) {
	const card = "4000000000000103"
	for _, test := range []struct{ normalised, rules, want string }{
		{"", "", ""},
		{"browserTZ, browserLanguage", "", "put right or filled in: browserTZ, browserLanguage"},
		{"", "cardExpiryDate", "the card's scheme requires, too: cardExpiryDate"},
		{testKey, card, "put right or filled in: ***; the card's scheme requires, too: " + maskPAN(card)},
	} {
		b := newBank(t)
		p := &page{t: t, shop: b.shop()}
		v := p.post("/checkout", testOrder(card))
		b.headers = map[string]string{"X-Normalised": test.normalised, "X-Scheme-Rules": test.rules}
		v = p.post("/checkout/"+v.ID+"/auth", nil)
		if last := v.Wire[len(v.Wire)-1]; last.Name != "ARes" || last.Note != test.want {
			t.Errorf("%s says %q, want %q", last.Name, last.Note, test.want)
		}
	}
}
