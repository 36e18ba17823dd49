package shop

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/openthreeds/threeds/internal/base/cardnumber"
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
		if id := p.shop.checkouts.find(v.ID).transID; digit4(o.Card, 1) == "0" {
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
		if c := p.shop.checkouts.find(v.ID); c.order.Card != "" || c.panel.card != "" {
			t.Errorf("%s: the card number is still there", test.card)
		}
		if test.result != "" {
			if v = p.post("/checkout/"+v.ID+"/result", nil); v.State == done {
				t.Errorf("%s: done before there was a result", test.card)
			}
			bank.finish(p.shop.checkouts.find(v.ID).transID, test.result, test.cancel)
			v = p.post("/checkout/"+v.ID+"/result", nil)
		}
		good := test.want == authenticated || test.want == attempted || test.want == informational
		if v.State != done || v.Ending.Word != test.want || v.Ending.TransStatus != test.status || v.Ending.Good != good {
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
		card, wish string
		limit      time.Duration // of the shop
		version    string
		want       int64
	}{
		{"4000000000001003", "", 0, "2.1.0", 10000}, {"4000000000002003", "", 0, "2.2.0", 10000}, {"4000000000003003", "", 0, "2.3.1", 5000},
		{"4000000000000003", "", 0, "2.3.1", 5000}, {"4000000000000003", "2.2.0", 0, "2.2.0", 10000}, {"4000000000000003", "", time.Second, "2.3.1", 1000},
	} {
		s := newBank(t).shop()
		s.MethodLimit = test.limit
		p, o := &page{t: t, shop: s}, testOrder(test.card)
		o.Version = test.wish
		if v := p.post("/checkout", o); v.Method.Limit != test.want || v.Version != test.version {
			t.Errorf("%s, %q: limit %d ms in %s, want %d in %s", test.card, test.wish, v.Method.Limit, v.Version, test.want, test.version)
		}
	}
}

// TestMissingResultEndsInTime: without a result a checkout ends when its time is over, each
// state in its own word, and not before.
func TestMissingResultEndsInTime(t *testing.T) {
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
		{"back with an Erro", func(p *page, _ view, tr *transaction) { p.notify("challenge", url.Values{"erro": {tr.refusal()}}) }, 3 * time.Second, faulty},
		{"back with an Erro in another field",
			func(p *page, _ view, tr *transaction) { p.notify("challenge", url.Values{"error": {tr.refusal()}}) },
			3 * time.Second, faulty},
		{"back with an Erro that names no transaction", func(p *page, v view, _ *transaction) {
			p.notify("challenge", url.Values{"erro": {encode([]byte(`{"messageType":"Erro"}`))}, "threeDSSessionData": {
				encode([]byte(p.shop.checkouts.find(v.ID).session))}})
		}, 3 * time.Second, faulty},
		{"back without a result, and an Erro afterwards", func(p *page, _ view, tr *transaction) {
			p.notify("challenge", url.Values{"cres": {encode(tr.cres("Y"))}})
			p.notify("challenge", url.Values{"cres": {tr.refusal()}})
		}, 30 * time.Second, missing},
	} {
		t.Run(test.name, func(t *testing.T) {
			bank := newBank(t)
			now := time.Now()
			s := bank.shop()
			s.Now = func() time.Time { return now }
			p := &page{t: t, shop: s}
			v := p.toAuth(testOrder("4000000000000072"))
			test.act(p, v, bank.find(s.checkouts.find(v.ID).transID))
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

// refusal is an Erro of the ACS in the place of a CRes.
func (tr *transaction) refusal() string {
	return encode(marshal(object{"messageType": "Erro", "errorCode": "203", "threeDSServerTransID": tr.id}))
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
		bank.find(p.shop.checkouts.find(v.ID).transID).erro = problem(test.code, test.component, "", "")
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
	bank.finish(p.shop.checkouts.find(v.ID).transID, "Y", "")
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
			c := p.shop.checkouts.find(v.ID)
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

// TestNoticesThatDoNotFit: what does not belong to the challenge changes nothing, and
// the answer tells nothing.
func TestNoticesThatDoNotFit(t *testing.T) {
	bank := newBank(t)
	p := &page{t: t, shop: bank.shop()}
	v := p.toAuth(testOrder("4000000000000072"))
	other := p.toAuth(testOrder("4000000000000072"))
	c := p.shop.checkouts.find(v.ID)
	tr, foreign := *bank.find(c.transID), *bank.find(p.shop.checkouts.find(other.ID).transID)
	session := encode([]byte(c.session))
	change := func(f func(*transaction)) string {
		changed := tr
		f(&changed)
		return encode(changed.cres("Y"))
	}
	for _, test := range []struct{ name, session, cres, shown, note string }{
		{"nothing", "", "", "", ""},
		{"unknown session", encode([]byte("nobody")), "", "", ""},
		{"unknown transaction", "", change(func(tr *transaction) { tr.id = "00000000-0000-4000-8000-000000000000" }), "", ""},
		{"no base64", session, "{}", "CRes", "neither base64url nor a message"},
		{"no JSON", session, encode([]byte("hello")), "CRes", "neither base64url nor a message"},
		{"another message", session, encode([]byte(`{"messageType":"ARes"}`)), "CRes", "neither a CRes nor an Erro"},
		{"another transaction", session, encode(foreign.cres("Y")), "CRes", "threeDSServerTransID is another one"},
		{"another acsTransID", session, change(func(tr *transaction) { tr.acsID = foreign.acsID }), "CRes", "acsTransID is another one"},
		{"another version", "", change(func(tr *transaction) { tr.version = "2.1.0" }), "CRes", "messageVersion is another one"},
		{"an Erro of another transaction", session, foreign.refusal(), "Erro", "threeDSServerTransID is another one"},
	} {
		before := len(c.view().Wire)
		status := p.notify("challenge", url.Values{"cres": {test.cres}, "threeDSSessionData": {test.session}})
		if status < 400 || status > 499 {
			t.Errorf("%s: status %d, want 4xx", test.name, status)
		}
		got := c.view()
		last := got.Wire[len(got.Wire)-1]
		if got.State != challenge || (len(got.Wire) > before) != (test.note != "") {
			t.Errorf("%s: state %s, %d messages after %d", test.name, got.State, len(got.Wire), before)
		} else if test.note != "" && (last.Name != test.shown || last.Note != "ignored: "+test.note) {
			t.Errorf("%s: the panel has %s, %q", test.name, last.Name, last.Note)
		}
	}
	if strings.Contains(p.seen.String(), c.session) {
		t.Error("the session came out")
	}
	early := p.shop.checkouts.find(p.post("/checkout", testOrder("4000000000000072")).ID)
	p.notify("challenge", url.Values{"cres": {encode(tr.cres("Y"))}, "threeDSSessionData": {encode([]byte(early.session))}})
	if got := early.view(); got.State != method || got.Wire[len(got.Wire)-1].Note != "ignored: no challenge was asked for" {
		t.Errorf("before the challenge: %s, %+v", got.State, got.Wire)
	}
	if strings.Contains(p.seen.String(), `data-step="challenge"`) {
		t.Error("the page was told that the challenge is over")
	}
}

func TestMethodNotices(t *testing.T) {
	p := &page{t: t, shop: newBank(t).shop()}
	v := p.post("/checkout", testOrder("4000000000000003"))
	c := p.shop.checkouts.find(v.ID)
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
	for range 2 { // a frame that is loaded again
		p.do("GET", "/frame/"+v.ID+"/method", "", "")
	}
	if all := names(c.view()); strings.Count(all, "3DS Method data") != 1 {
		t.Errorf("the wire panel has %s", all)
	}
	p.post("/checkout/"+v.ID+"/auth", nil)
	p.seen.Reset()
	if status := p.notify("method", url.Values{"threeDSMethodData": {encode(data)}}); status != http.StatusConflict ||
		!c.view().Method.Noticed || strings.Contains(p.seen.String(), `data-step="method"`) {
		t.Errorf("late notice: status %d, want 409, and nothing else", status)
	}
}

// TestChallengeFrame: what the frame posts has the form that ACSs want, and a
// reload posts it again, byte for byte (EN-01, MX-11, MX-12, MX-13).
func TestChallengeFrame(t *testing.T) {
	bank := newBank(t)
	p := &page{t: t, shop: bank.shop()}
	v := p.toAuth(testOrder("4000000000000072"))
	c := p.shop.checkouts.find(v.ID)
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
	want := `{"messageType":"CReq","messageVersion":"2.3.1","threeDSServerTransID":"` + c.transID + `","acsTransID":"` +
		c.ares.ACSTransID + `","challengeWindowSize":"03"}`
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

// TestHeadersOfTheAnswerAreShown: what the server's headers say about the AReq is shown next to the ARes, without the
// key and the card that a peer may have put there.
func TestHeadersOfTheAnswerAreShown(t *testing.T) {
	const card = "4000000000000103"
	for _, test := range []struct{ normalised, rules, want string }{
		{"", "", ""},
		{"browserTZ, browserLanguage", "", "put right or filled in: browserTZ, browserLanguage"},
		{"", "cardExpiryDate", "the card's scheme requires, too: cardExpiryDate"},
		{testKey, card, "put right or filled in: ***; the card's scheme requires, too: " + cardnumber.MaskNumber(card)},
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

// TestR10aTextsOfOthersAreVisible: wherever the texts of the other side reach a page, they have no characters that
// cannot be seen, or that turn the direction of a text.
func TestR10aTextsOfOthersAreVisible(t *testing.T) {
	const hostile = "a\x1b[2Jb\u202ec\u2028d\u009be\u200ff\x7fg\U000e0041h"
	all := object{"messageType": "ARes", "messageVersion": hostile, "transStatus": "Y", "eci": hostile, "transStatusReason": hostile,
		"authenticationValue": hostile, "cardholderInfo": hostile, hostile: hostile, "scheme": hostile, "threeDSServerTransID": "@"}
	erro := problem(hostile, hostile, hostile, hostile)
	for name, test := range map[string]struct {
		path   string
		answer object
		with   object
	}{
		"CRD": {"/preauth", all, object{"messageType": "CRD"}}, "type of the CRD": {"/preauth", all, object{"messageType": hostile}},
		"Erro of /preauth": {"/preauth", erro, nil}, "ARes": {"/auth", all, nil}, "ARes with D": {"/auth", all, object{"transStatus": "D"}},
		"type of the ARes": {"/auth", all, object{"messageType": hostile}}, "Erro of /auth": {"/auth", erro, nil},
		"RReq": {"/postauth", all, object{"messageType": "RReq", "transStatus": "N"}}, "Erro of /postauth": {"/postauth", erro, nil},
		"Enrolment": {"/enrolled", object{"enrolled": nil, "error": object{"message": hostile, "detail": hostile}}, nil},
	} {
		bank := newBank(t)
		var id string
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Normalised", "\u202e\u009b")
			if r.URL.Path != test.path {
				bank.API.Config.Handler.ServeHTTP(w, r)
				return
			}
			answer := object{}
			maps.Copy(answer, test.answer)
			maps.Copy(answer, test.with)
			if answer["threeDSServerTransID"] != nil {
				answer["threeDSServerTransID"] = id
			}
			if answer["messageType"] == "Erro" {
				w.WriteHeader(http.StatusBadRequest)
			}
			_, _ = w.Write(marshal(answer))
		}))
		s := bank.shop()
		s.API = front.URL
		p := &page{t: t, shop: s}
		card := "4000000000000172"
		if test.path == "/enrolled" {
			card = "9000100111111111"
		}
		v := p.post("/checkout", testOrder(card))
		id = s.checkouts.find(v.ID).transID
		switch {
		case test.path == "/enrolled":
			v = p.post("/checkout/"+v.ID+"/enrolled", nil)
		case test.path != "/preauth":
			v = p.post("/checkout/"+v.ID+"/auth", nil)
		}
		if test.path == "/postauth" {
			v = p.post("/checkout/"+v.ID+"/result", nil)
		}
		texts := []string{v.Scheme, v.Version, v.Info}
		for _, e := range v.Wire {
			texts = append(texts, e.Name, e.From, e.To, e.Note, e.Body)
		}
		if e := v.Ending; e != nil {
			texts = append(texts, string(e.Word), e.Title, e.Text, e.TransStatus, e.ECI, e.Reason, e.Info)
			if e.Erro != nil {
				texts = append(texts, e.Erro.Code, e.Erro.Component, e.Erro.Description, e.Erro.Detail)
			}
		}
		shown := strings.Join(texts, "\n")
		if strings.ContainsFunc(shown, func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }) {
			t.Errorf("%s: %q", name, shown)
		}
		if !strings.Contains(shown, `a\u001b[2Jb\u202ec`) {
			t.Errorf("%s: the text is not shown: %q", name, shown)
		}
		front.Close()
	}
}

// TestStepOutOfTurnChangesNothing: a request of a page out of turn changes nothing, and the server is not called.
func TestStepOutOfTurnChangesNothing(t *testing.T) {
	for _, test := range []struct {
		at   state
		card string
		asks []string // what fits nothing there
	}{
		{method, "4000000000000003", []string{"cancel", "result", "enrolled", "challenge"}},
		{method, "4000000000000103", []string{"method"}}, // there is none
		{challenge, "4000000000000072", []string{"auth", "enrolled", "method"}},
		{decoupled, "4000000000000083", []string{"auth", "cancel", "enrolled", "challenge", "method"}},
		{done, "9000100111111111", []string{"auth", "cancel", "result", "enrolled", "challenge", "method"}},
		{enrolling, "4102010000000000", []string{"auth", "cancel", "result", "challenge", "method"}},
		{challenge, "4102010000000000", []string{"auth", "enrolled", "method"}},
	} {
		bank := newBank(t)
		p := &page{t: t, shop: bank.shop()}
		v := p.post("/checkout", testOrder(test.card))
		if v.State != test.at {
			v = p.toAuth(testOrder(test.card))
		}
		if v.State != test.at {
			t.Fatalf("%s: %s, want %s", test.card, v.State, test.at)
		}
		calls := len(bank.calls)
		for _, step := range test.asks {
			if step == "challenge" || step == "method" {
				if code := p.do("GET", "/frame/"+v.ID+"/"+step, "", "").StatusCode; code != http.StatusConflict {
					t.Errorf("%s while %s: the frame of the %s answers %d", test.card, test.at, step, code)
				}
				continue
			}
			if got := p.post("/checkout/"+v.ID+"/"+step, nil); got.State != test.at || got.Canceled || len(bank.calls) != calls || len(got.Wire) != len(v.Wire) {
				t.Errorf("%s while %s: after %s it is %s, with %d calls", test.card, test.at, step, got.State, len(bank.calls)-calls)
			}
		}
	}
}

// TestStepIsNotRepeatedMeanwhile: while the API has not answered, the same is not asked again, and no time
// runs out. A page that goes away meanwhile takes no answer with it.
func TestStepIsNotRepeatedMeanwhile(t *testing.T) {
	const v2, v1 = "4000000000000172", "4102010000000000"
	for _, test := range []struct {
		path, card     string
		meanwhile, end state
	}{
		{"/auth", v2, asking, challenge}, {"/postauth", v2, challenge, done},
		{"/enrolled", v1, enrolling, challenge}, {"/check", v1, returned, done},
	} {
		bank := newBank(t)
		entered, leave := make(chan bool), make(chan bool)
		calls := 0
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == test.path {
				if calls++; calls == 1 {
					entered <- true
					<-leave
				}
			}
			bank.API.Config.Handler.ServeHTTP(w, r)
		}))
		defer front.Close()
		now := time.Now()
		s := bank.shop()
		s.API, s.Now = front.URL, func() time.Time { return now }
		p := &page{t: t, shop: s}
		v := p.post("/checkout", testOrder(test.card))
		if test.path == "/postauth" || test.path == "/check" {
			v = p.toAuth(testOrder(test.card))
		}
		c := s.checkouts.find(v.ID)
		ask := func() (code int) {
			target, kind, body := "/checkout/"+c.id+"/"+strings.TrimPrefix(test.path, "/"), "application/json", ""
			switch test.path {
			case "/postauth":
				bank.finish(c.transID, "Y", "")
				target = "/checkout/" + c.id + "/result"
			case "/check":
				form := url.Values{"PaRes": {paRes(v1, "Y")}, "MD": {c.session}}
				target, kind, body = "/notify/pares", "application/x-www-form-urlencoded", form.Encode()
			}
			r := httptest.NewRequest("POST", "http://127.0.0.1:8082"+target, strings.NewReader(body))
			r.Header.Set("Content-Type", kind)
			ctx, gone := context.WithCancel(t.Context())
			if gone(); test.path == "/postauth" { // it is asked again, and nothing is lost
				ctx = t.Context()
			}
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r.WithContext(ctx))
			return w.Code
		}
		first := make(chan int)
		go func() { first <- ask() }()
		<-entered
		again := ask()
		now = now.Add(20 * time.Minute)
		before := p.post("/checkout/"+c.id+"/result", nil)
		leave <- true
		if code := <-first; code != http.StatusOK || again != http.StatusOK && test.path != "/check" || before.State != test.meanwhile {
			t.Errorf("%s: %d, the second time %d, and %s meanwhile", test.path, code, again, before.State)
		}
		if got := c.view(); got.State != test.end || got.Ending != nil && got.Ending.Word != authenticated || calls != 1 {
			t.Errorf("%s: %d calls, %s, %+v", test.path, calls, got.State, got.Ending)
		}
	}
}

// TestForeignAnswers: what the API says counts when it is the message that belongs
// here, of this transaction.
func TestForeignAnswers(t *testing.T) {
	const other = `"threeDSServerTransID":"6e1f0a52-97d8-4c00-8000-999999999999"`
	for _, test := range []struct {
		path, answer string // @ stands for the transaction's
		want         word   // "": it goes on
		text         string
	}{
		{"/preauth", `{"messageType":"Erro","errorCode":"203","errorComponent":"S"}`, faulty, "One of the parties"},
		{"/preauth", `{"messageType":"CRD"}`, faulty, "something else than a CRD"},
		{"/preauth", `{"messageType":"ARes",` + other + `}`, faulty, "something else than a CRD"},
		{"/preauth", `{"messageType":"CRD",` + other + `}`, faulty, "no protocol version in common"},
		{"/preauth", `{"messageType":"CRD","dsProtocolVersions":["2.2.0"],"threeDSServerProtocolVersions":["2.2.0"],` +
			`"acsProtocolVersions":[{"version":"2.2.0","threeDSMethodURL":"javascript:alert(1)"}],` + other + `}`, "", ""}, // without a 3DS Method
		{"/auth", `{"messageType":"ARes","transStatus":"Y",` + other + `}`, faulty, "something else than its ARes"},
		{"/auth", `{"messageType":"RReq","transStatus":"Y",@}`, faulty, "something else than its ARes"},
		{"/auth", `{"messageType":"ARes","transStatus":"S",@}`, faulty, "not one that a shop can end with"},
		{"/auth", `{"messageType":"ARes","transStatus":"Y",@}`, authenticated, "no authentication value"},
		{"/auth", `{"messageType":"ARes","transStatus":"C",@}`, faulty, "names no address"},
		{"/auth", `{"messageType":"ARes","transStatus":"C","acsURL":"javascript:alert(1)",@}`, faulty, "names no address"},
		{"/auth", `{"messageType":"Erro","errorCode":"203","errorComponent":"D",@}`, faulty, "One of the parties"},
		{"/postauth", `{"messageType":"RReq","transStatus":"Y",` + other + `}`, "", ""},
		{"/postauth", `{"messageType":"ARes","transStatus":"Y",@}`, "", ""},
		{"/postauth", `{"messageType":1}`, faulty, "not a message"},
		{"/postauth", `{}`, "", ""},
	} {
		bank := newBank(t)
		var id string
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != test.path {
				bank.API.Config.Handler.ServeHTTP(w, r)
				return
			}
			_, _ = io.WriteString(w, strings.Replace(test.answer, "@", `"threeDSServerTransID":"`+id+`"`, 1))
		}))
		s := bank.shop()
		s.API = front.URL
		p := &page{t: t, shop: s}
		v := p.post("/checkout", testOrder("4000000000000172"))
		id = s.checkouts.find(v.ID).transID
		if test.path != "/preauth" {
			v = p.post("/checkout/"+v.ID+"/auth", nil)
		}
		if test.path == "/postauth" {
			v = p.post("/checkout/"+v.ID+"/result", nil)
		}
		switch e := v.Ending; {
		case test.want == "" && (v.State == challenge || v.State == method && !v.Method.Run):
		case e == nil || e.Word != test.want || !strings.Contains(e.Text, test.text) || (e.Erro != nil) != strings.Contains(test.answer, "Erro"):
			t.Errorf("%s %s: %s, %+v; want %q", test.path, test.answer, v.State, e, test.want)
		}
		front.Close()
	}
}

// TestPanelShowsEveryMessageOnce: the panel shows which party sent what to which. The same answer to the same question
// is there once. What is kept is limited.
func TestPanelShowsEveryMessageOnce(t *testing.T) {
	told := func(v view) string {
		var b strings.Builder
		for _, e := range v.Wire {
			fmt.Fprintf(&b, "%d x%d %s: %s to %s (%s)\n", e.Number, e.Times, e.Name, e.From, e.To, e.Note)
			if e.At.IsZero() || e.Body == "" {
				t.Errorf("%+v", e)
			}
		}
		return b.String()
	}
	bank := newBank(t)
	p := &page{t: t, shop: bank.shop()}
	v := p.toAuth(testOrder("4000000000000072"))
	if v.Scheme != "visa" || v.Window != "03" || *v.Size != windows["03"] {
		t.Errorf("the page is told of %q, %q, %v", v.Scheme, v.Window, v.Size)
	}
	c := p.shop.checkouts.find(v.ID)
	tr := bank.find(c.transID)
	p.notify("method", url.Values{"threeDSMethodData": {encode(marshal(methodData{ServerTransID: tr.id}))}})
	p.notify("challenge", url.Values{"cres": {encode(tr.cres("Y"))}})
	for range 2 {
		p.post("/checkout/"+v.ID+"/result", nil)
	}
	bank.finish(tr.id, "Y", "")
	v = p.post("/checkout/"+v.ID+"/result", nil)
	const ofV2 = `1 x1 Card check: shop to 3DS server (POST /preauth)
2 x1 CRD: 3DS server to shop ()
3 x1 3DS Method data: browser to ACS (form field threeDSMethodData, posted from a hidden frame)
4 x1 3DS Method notice: ACS to shop (threeDSCompInd will be Y)
5 x1 AReq: shop to 3DS server (POST /auth)
6 x1 ARes: 3DS server to shop ()
7 x1 CReq: browser to ACS (form field creq, posted from the challenge frame)
8 x1 3DS Method notice: ACS to shop (ignored: too late, or not asked for)
9 x1 CRes: ACS to shop (by way of the browser; a notice, not the result)
10 x2 Result?: shop to 3DS server (POST /postauth)
11 x2 Erro: 3DS server to shop ()
12 x1 Result?: shop to 3DS server (POST /postauth)
13 x1 RReq: 3DS server to shop ()
`
	if got := told(v); got != ofV2 {
		t.Errorf("2.x:\n%s", got)
	}
	c = p.shop.checkouts.find(p.toEnrolled("4102010000000000").ID)
	for range 2 {
		p.notify("pares", url.Values{"PaRes": {paRes("4102010000000000", "Y")}, "MD": {c.session}})
	}
	const ofV1 = `1 x1 Card check: shop to 3DS server (POST /preauth)
2 x1 Erro: 3DS server to shop ()
3 x1 Enrolled?: shop to MPI (POST /enrolled, as a form)
4 x1 Enrolment: MPI to shop ()
5 x1 PAReq: browser to ACS (form fields PaReq, TermUrl and MD, posted from the challenge frame)
6 x1 PARes: ACS to shop (by way of the browser; what it says counts once it was checked)
7 x1 Check: shop to MPI (POST /check, as a form)
8 x1 Checked: MPI to shop ()
9 x1 PARes: ACS to shop (ignored: not asked for, or too late)
`
	if got := told(c.view()); got != ofV1 {
		t.Errorf("1.0.2:\n%s", got)
	}
	for range maxWire {
		p.notify("pares", url.Values{"MD": {c.session}})
	}
	if n := len(c.view().Wire); n != maxWire {
		t.Errorf("%d messages, want %d", n, maxWire)
	}
}

// TestCase20FieldsStandAsTheyAre: a program that reads a page of the shop as text finds each field as it is, "+" too,
// and what would end the attribute is escaped.
func TestCase20FieldsStandAsTheyAre(t *testing.T) {
	for value, want := range map[string]string{
		"a+b/c==":                     `value="a+b/c=="`,
		"eNrF+VmTo+yy":                `value="eNrF+VmTo+yy"`,
		`"><script>alert(1)</script>`: `value="&#34;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"`,
		"a&b'c":                       `value="a&amp;b&#39;c"`,
	} {
		var page bytes.Buffer
		err := pages.ExecuteTemplate(&page, "form.html", map[string]any{"Action": "https://acs.example/", "Fields": []field{{"PaReq", value}}})
		if err != nil || !strings.Contains(page.String(), `<input type="hidden" name="PaReq" `+want+`>`) {
			t.Errorf("%q: %v in %s", value, err, page.String())
		}
	}
}
