package sandbox_test

import (
	"encoding/base64"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/sandbox"
)

// A journalEntry is what a browser got.
type journalEntry struct {
	t      testing.TB
	status int
	header http.Header
	url    *url.URL
	text   string
}

// send posts a form, as a browser does, and follows to where it is sent.
func send(t testing.TB, to string, fields url.Values) journalEntry {
	t.Helper()
	answer, err := http.PostForm(to, fields)
	if err != nil {
		t.Fatal(err)
	}
	return load(t, answer)
}

func get(t testing.TB, from string) journalEntry {
	t.Helper()
	answer, err := http.Get(from)
	if err != nil {
		t.Fatal(err)
	}
	return load(t, answer)
}

func load(t testing.TB, answer *http.Response) journalEntry {
	t.Helper()
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return journalEntry{t, answer.StatusCode, answer.Header, answer.Request.URL, string(text)}
}

// part is the first group of a pattern in the page.
func (p journalEntry) part(pattern string) string {
	found := regexp.MustCompile(pattern).FindStringSubmatch(p.text)
	if found == nil {
		return ""
	}
	return html.UnescapeString(found[1])
}

func (p journalEntry) action() string { return p.part(`<form method="post" action="([^"]*)"`) }

func (p journalEntry) field(name string) string {
	return p.part(`name="` + name + `" value="([^"]*)"`)
}

func (p journalEntry) testID(id string) string {
	return p.part(`data-testid="` + id + `"[^>]*>([^<]*)<`)
}

// press fills in the page's form and presses one of its buttons.
func (p journalEntry) press(button, code string) journalEntry {
	p.t.Helper()
	to, err := p.url.Parse(p.action())
	if err != nil {
		p.t.Fatal(err)
	}
	return send(p.t, to.String(), url.Values{"action": {button}, "code": {code}})
}

// unpad reads base64url as a lenient shop does.
func unpad(t testing.TB, text string) []byte {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return raw
}

func creq(ares members) members {
	return members{
		"messageType": "CReq", "messageVersion": ares["messageVersion"], "challengeWindowSize": "02",
		"threeDSServerTransID": ares["threeDSServerTransID"], "acsTransID": ares["acsTransID"],
	}
}

func (s *server) form(m members, session string) url.Values {
	f := url.Values{"creq": {base64.RawURLEncoding.EncodeToString(m.json(s.t))}}
	if session != "" {
		f.Set("threeDSSessionData", session)
	}
	return f
}

// challenged is an ARes with a challenge.
func (s *server) challenged(version, pan string) (areq, ares members) {
	s.t.Helper()
	areq = s.areq(version, "02", pan)
	ares = s.ask(areq)
	if ares["acsURL"] != s.box.ACSURL()+"/challenge" {
		s.t.Fatalf("no challenge: %v", ares)
	}
	return areq, ares
}

// over checks the page that ends a challenge: the result has arrived before it,
// and it takes a CRes to the shop.
func (s *server) over(p journalEntry, areq, ares members, status, session string) (rreq, cres members) {
	s.t.Helper()
	select {
	case r := <-s.got:
		rreq = r.message
		valid(s.t, r.raw, message.Context{AReq: parse(s.t, areq.json(s.t)), ARes: parse(s.t, ares.json(s.t))})
	default:
		s.t.Fatalf("the page came before the result: %s", p.text)
	}
	if p.action() != areq["notificationURL"] || p.field("threeDSSessionData") != session {
		s.t.Errorf("the form goes to %q with session %q", p.action(), p.field("threeDSSessionData"))
	}
	raw := unpad(s.t, p.field("cres"))
	valid(s.t, raw, message.Context{AReq: parse(s.t, areq.json(s.t)), ARes: parse(s.t, ares.json(s.t))})
	if bad := strings.Contains(p.text, `class="news bad"`); bad != (status != "Y") {
		s.t.Errorf("transStatus %s, and the page looks like bad news: %t", status, bad)
	}
	cres = read(s.t, raw)
	if cres["transStatus"] != status || rreq["transStatus"] != status {
		s.t.Errorf("RReq %v, CRes %v, want %s", rreq["transStatus"], cres["transStatus"], status)
	}
	return rreq, cres
}

// TestAutomaticChallenges: they end without a cardholder.
func TestAutomaticChallenges(t *testing.T) {
	s := newServer(t, start(t, nil))
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		for end, status := range map[string]string{"70": "Y", "71": "N"} {
			areq, ares := s.challenged(version, "40000000000001"+end)
			p := send(t, ares["acsURL"].(string), s.form(creq(ares), "c2Vzc2lvbg"))
			rreq, _ := s.over(p, areq, ares, status, "c2Vzc2lvbg")
			if value, _ := rreq["authenticationValue"].(string); (len(value) == 28) != (status == "Y") {
				t.Errorf("authenticationValue in %v", rreq)
			}
			if padded := strings.HasSuffix(p.field("cres"), "="); padded != (end == "71") {
				t.Errorf("card %s: padded %t", end, padded)
			}
			if !strings.Contains(p.text, `data-testid="continue"`) || !strings.Contains(p.text, `data-after="800"`) {
				t.Error("no way on")
			}
		}
	}
}

// TestCardholderDecidesOnCodePage takes the one-time-code page through all it can do.
func TestCardholderDecidesOnCodePage(t *testing.T) {
	s := newServer(t, start(t, nil))
	for _, test := range []struct {
		name    string
		presses [][2]string
		says    []string
		status  string
		reason  any
		cancel  any
		count   string
	}{
		{"right", [][2]string{{"submit", "123456"}}, nil, "Y", nil, nil, "01"},
		{"right, with spaces", [][2]string{{"submit", " 123 456 "}}, nil, "Y", nil, nil, "01"},
		{"second try", [][2]string{{"submit", "1"}, {"submit", "123456"}}, []string{"That code is not right. You have 2 tries left."}, "Y", nil, nil, "02"},
		{"three wrong", [][2]string{{"submit", "1"}, {"submit", "2"}, {"submit", "3"}},
			[]string{"That code is not right. You have 2 tries left.", "That code is not right. You have one try left."}, "N", "19", nil, "03"},
		{"empty does not count", [][2]string{{"submit", ""}, {"submit", "123456"}}, []string{"Please enter the code first."}, "Y", nil, nil, "01"},
		{"resend", [][2]string{{"submit", "1"}, {"resend", ""}, {"submit", "123456"}},
			[]string{"That code is not right. You have 2 tries left.", "We have sent you a new code."}, "Y", nil, nil, "02"},
		{"cancel", [][2]string{{"cancel", "123456"}}, nil, "N", "01", "01", "00"},
	} {
		t.Run(test.name, func(t *testing.T) {
			areq, ares := s.challenged("2.2.0", "4000000000000172")
			p := send(t, ares["acsURL"].(string), s.form(creq(ares), ""))
			for i, press := range test.presses {
				if i > 0 {
					if got := p.testID("status"); got != test.says[i-1] {
						t.Errorf("after press %d: status %q, want %q", i, got, test.says[i-1])
					}
					if again := get(t, p.url.String()); again.testID("status") != test.says[i-1] {
						t.Error("reloading shows something else")
					}
				}
				s.none()
				p = p.press(press[0], press[1])
			}
			rreq, _ := s.over(p, areq, ares, test.status, "")
			if rreq["transStatusReason"] != test.reason || rreq["challengeCancel"] != test.cancel || rreq["interactionCounter"] != test.count {
				t.Errorf("RReq %v", rreq)
			}
			if again := get(t, ares["acsURL"].(string)+"/"+ares["acsTransID"].(string)); again.field("cres") != p.field("cres") {
				t.Error("reloading the last page shows something else")
			}
			late := send(t, ares["acsURL"].(string)+"/"+ares["acsTransID"].(string), url.Values{"action": {"submit"}, "code": {"123456"}})
			if late.status != http.StatusOK {
				t.Errorf("pressing a button after the end: %d", late.status)
			}
			s.none()
		})
	}
}

// TestPageShowsThePayment looks at what the cardholder is shown.
func TestPageShowsThePayment(t *testing.T) {
	s := newServer(t, start(t, nil))
	_, ares := s.challenged("2.2.0", "4000000000000172")
	p := send(t, ares["acsURL"].(string), s.form(creq(ares), ""))
	for id, want := range map[string]string{"merchant": "Bicycles & Sons", "amount": "1,234.50 EUR", "scheme": "Visa", "status": ""} {
		if got := p.testID(id); got != want {
			t.Errorf("%s is %q, want %q", id, got, want)
		}
	}
	for _, want := range []string{
		`data-testid="challenge-code"`, `data-testid="challenge-submit"`, `data-testid="challenge-cancel"`, `data-testid="resend"`, `aria-live="polite"`,
		`<label for="otp"`, `autocomplete="one-time-code"`, `inputmode="numeric"`, `lang="en"`, "•••• 0172", "123456",
	} {
		if !strings.Contains(p.text, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if strings.Contains(p.text, "400000000000") {
		t.Error("the page shows the card number")
	}
	p.guarded()
	for dest, want := range map[string]bool{"": true, "document": true, "iframe": false} {
		r, err := http.NewRequest("GET", p.url.String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Sec-Fetch-Dest", dest)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(load(t, answer).text, " autofocus\n"); got != want {
			t.Errorf("autofocus in %q: %t, want %t", dest, got, want)
		}
	}

	areq := s.areq("2.2.0", "02", "4000000000000172").with(members{
		"messageCategory": "02", "purchaseAmount": nil, "purchaseCurrency": nil, "purchaseExponent": nil, "purchaseDate": nil,
		"merchantName": `<script>alert("x")</script>`,
	})
	ares = s.ask(areq)
	p = send(t, ares["acsURL"].(string), s.form(creq(ares), ""))
	if strings.Contains(p.text, "<script>alert") || p.testID("amount") != "" || !strings.Contains(p.text, "<h1>Confirm it is you</h1>") {
		t.Errorf("without a payment: %s", p.text)
	}
}

// guarded checks the headers that every page has, and that nothing in it is
// fetched or inline without the nonce.
func (p journalEntry) guarded() {
	p.t.Helper()
	policy := p.header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "style-src 'nonce-", "script-src 'nonce-", "frame-ancestors *", "base-uri 'none'"} {
		if !strings.Contains(policy, want) {
			p.t.Errorf("no %s in %q", want, policy)
		}
	}
	if strings.Contains(policy, "unsafe") || p.header.Get("Cache-Control") != "no-store" || p.header.Get("X-Frame-Options") != "" {
		p.t.Errorf("headers %v", p.header)
	}
	for _, bad := range []string{"<style>", "<script>", " style=", " onclick=", " src=", "<link", "http-equiv"} {
		if strings.Contains(p.text, bad) {
			p.t.Errorf("the page has %q", bad)
		}
	}
}

// TestSameCReqShowsTheSamePage sends the CReq again: the same is the same page, another is an
// error, and so is any after the end.
func TestSameCReqShowsTheSamePage(t *testing.T) {
	s := newServer(t, start(t, nil))
	for version, codes := range map[string][2]string{"2.1.0": {"305", "305"}, "2.2.0": {"305", "305"}, "2.3.1": {"314", "315"}} {
		areq, ares := s.challenged(version, "4000000000000172")
		url := ares["acsURL"].(string)
		first := send(t, url, s.form(creq(ares), "YQ"))
		first.press("submit", "000000")
		again := send(t, url, s.form(creq(ares), "YQ"))
		if again.testID("status") == "" || again.action() != first.action() {
			t.Errorf("a refresh shows %s", again.text)
		}
		other := send(t, url, s.form(creq(ares).with(members{"challengeWindowSize": "05"}), "YQ"))
		s.refused(other, areq, codes[0], "YQ")
		s.none()
		end := again.press("submit", "123456")
		s.over(end, areq, ares, "Y", "YQ")
		s.refused(send(t, url, s.form(creq(ares), "YQ")), areq, codes[1], "YQ")
		s.none()
	}
}

// refused checks the page that takes an Erro to the shop.
func (s *server) refused(p journalEntry, areq members, code, session string) {
	s.t.Helper()
	p.guarded()
	raw := unpad(s.t, p.field("error"))
	valid(s.t, raw, message.Context{})
	got := read(s.t, raw)
	if got["errorCode"] != code || got["errorComponent"] != "A" || got["errorMessageType"] != "CReq" ||
		got["threeDSServerTransID"] != areq["threeDSServerTransID"] {
		s.t.Errorf("got %s, want code %s", raw, code)
	}
	if p.action() != areq["notificationURL"] || p.field("threeDSSessionData") != session {
		s.t.Errorf("the form goes to %q with session %q", p.action(), p.field("threeDSSessionData"))
	}
}

// TestBadCReq sends what an issuer refuses. The challenge can still be had.
func TestBadCReq(t *testing.T) {
	s := newServer(t, start(t, nil))
	areq, ares := s.challenged("2.2.0", "4000000000000170")
	to := ares["acsURL"].(string)
	for _, test := range []struct {
		changes members
		session string
		code    string
	}{
		{members{"challengeWindowSize": nil}, "", "201"},
		{members{"challengeWindowSize": "06"}, "", "203"},
		{members{"threeDSServerTransID": newID()}, "", "301"},
		{members{"messageVersion": "2.1.0"}, "", "203"},
		{members{"messageVersion": "1.0.2"}, "", "102"},
		{members{"messageType": "CRes"}, "", "101"},
		{nil, strings.Repeat("a", 1025), "203"},
	} {
		p := send(t, to, s.form(creq(ares).with(test.changes), test.session))
		s.refused(p, areq, test.code, test.session[:min(len(test.session), 1024)])
	}
	for name, fields := range map[string]url.Values{
		"no field":      {},
		"no base64url":  {"creq": {"%%%"}},
		"no JSON":       {"creq": {"AAAA"}},
		"unknown id":    s.form(creq(ares).with(members{"acsTransID": newID()}), ""),
		"no acsTransID": s.form(creq(ares).with(members{"acsTransID": nil}), ""),
		"server's id":   s.form(creq(ares).with(members{"acsTransID": ares["threeDSServerTransID"]}), ""),
		"DS's id":       s.form(creq(ares).with(members{"acsTransID": ares["dsTransID"]}), ""),
	} {
		if p := send(t, to, fields); p.status < 400 || p.action() != "" {
			t.Errorf("%s: status %d, a form to %q", name, p.status, p.action())
		}
	}
	if p := get(t, to+"/"+ares["acsTransID"].(string)); p.status != http.StatusNotFound {
		t.Errorf("a page before the CReq: %d", p.status)
	}
	s.none()
	padded := base64.URLEncoding.EncodeToString(append(creq(ares).json(t), ' ')) // whatever its length
	for len(padded)%4 != 0 || !strings.HasSuffix(padded, "=") {
		padded = base64.URLEncoding.EncodeToString(append([]byte(" "), unpad(t, padded)...))
	}
	p := send(t, to, url.Values{"creq": {padded}})
	s.over(p, areq, ares, "Y", "")
}

// TestLenientReadingIsWrittenDown: what is taken here and may be refused elsewhere is written down, and
// nothing else is.
func TestLenientReadingIsWrittenDown(t *testing.T) {
	s := newServer(t, start(t, nil))
	notes := func(id any) string {
		all := ""
		for _, e := range s.box.Received(id.(string)) {
			all += e.Note
		}
		return all
	}
	const session = "c2Vzc2lvbg"
	for _, test := range []struct {
		change func(raw string) string
		with   string
		want   string
	}{
		{func(raw string) string { return raw }, session, ""},
		{func(raw string) string { return raw }, "", ""},
		{func(raw string) string { return raw + "=" }, session, "creq is not base64url without padding"},
		{func(raw string) string { return raw[:20] + "\r\n" + raw[20:] }, "", "creq is not base64url without padding"},
		{func(raw string) string { return raw + "==\r\n" }, "", "creq is not base64url without padding"},
		{func(raw string) string { return raw }, "order 7", "threeDSSessionData is not base64url without padding"},
	} {
		_, ares := s.challenged("2.2.0", "4000000000000172")
		form := s.form(creq(ares), test.with)
		form.Set("creq", test.change(form.Get("creq")))
		if p := send(t, ares["acsURL"].(string), form); p.status != http.StatusOK {
			t.Errorf("%q: %d", test.want, p.status)
		}
		if got := notes(ares["threeDSServerTransID"]); got != test.want {
			t.Errorf("noted %q, want %q", got, test.want)
		}
	}

	const untrue = "threeDSCompInd is Y, and the 3DS Method has not come to its end"
	for _, test := range []struct {
		version, compInd string
		runs             bool
		want             string
	}{
		{"2.2.0", "Y", false, untrue},
		{"2.1.0", "Y", false, untrue},
		{"2.2.0", "Y", true, ""},
		{"2.2.0", "N", false, ""},
		{"2.3.1", "Y", false, untrue},
		{"2.2.0", "U", false, "threeDSCompInd is U, and the card has a 3DS Method"},
	} {
		areq := s.areq(test.version, "02", "4000000000000003").with(members{"threeDSCompInd": test.compInd})
		if test.runs {
			card, _ := s.box.Card("4000000000000003")
			raw := members{"threeDSServerTransID": areq["threeDSServerTransID"], "threeDSMethodNotificationURL": "http://localhost/"}.json(t)
			send(t, card.MethodURL, url.Values{"threeDSMethodData": {base64.RawURLEncoding.EncodeToString(raw)}})
		}
		if got := s.ask(areq); got["transStatus"] != "Y" {
			t.Errorf("%v: %v", test, got)
		}
		if got := notes(areq["threeDSServerTransID"]); got != test.want {
			t.Errorf("%v: noted %q", test, got)
		}
	}
}

// TestDoubleClick: a page that comes twice is one try, the same code from the
// next page is another.
func TestDoubleClick(t *testing.T) {
	s := newServer(t, start(t, nil))
	areq, ares := s.challenged("2.2.0", "4000000000000172")
	p := send(t, ares["acsURL"].(string), s.form(creq(ares), ""))
	for _, want := range []string{"That code is not right. You have 2 tries left.", "That code is not right. You have one try left."} {
		to, form := p.url.String(), url.Values{"action": {"submit"}, "code": {"111111"}, "step": {p.field("step")}}
		for range 2 {
			if p = send(t, to, form); p.testID("status") != want {
				t.Errorf("status %q, want %q", p.testID("status"), want)
			}
		}
	}
	p = send(t, p.url.String(), url.Values{"action": {"submit"}, "code": {"123456"}, "step": {p.field("step")}})
	rreq, _ := s.over(p, areq, ares, "Y", "")
	if rreq["interactionCounter"] != "03" {
		t.Errorf("RReq %v", rreq)
	}
}

// TestStepTimeout leaves an open page alone.
func TestStepTimeout(t *testing.T) {
	s := newServer(t, start(t, func(s *sandbox.Sandbox) { s.StepTimeout = 500 * time.Millisecond }))
	areq, ares := s.challenged("2.2.0", "4000000000000172")
	p := send(t, ares["acsURL"].(string), s.form(creq(ares), ""))
	rreq := s.result()
	valid(t, rreq.raw, message.Context{AReq: parse(t, areq.json(t)), ARes: parse(t, ares.json(t))})
	if rreq.message["challengeCancel"] != "04" || rreq.message["transStatusReason"] != "14" {
		t.Errorf("RReq %s", rreq.raw)
	}
	late := p.press("submit", "123456")
	if read(t, unpad(t, late.field("cres")))["transStatus"] != "N" {
		t.Errorf("a late press shows %s", late.text)
	}
	s.none()
}

// TestN2ATrueNIsNeverRefused: a server that was not notified in time says N, and no directory server knows better. The
// sandbox refuses it in no version, whether it is strict or not.
func TestN2ATrueNIsNeverRefused(t *testing.T) {
	for _, isStrict := range []bool{false, true} {
		s := newServer(t, start(t, func(box *sandbox.Sandbox) { box.Strict = isStrict }))
		card, _ := s.box.Card("4000000000000003")
		for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
			areq := s.areq(version, "02", "4000000000000003").with(members{"threeDSCompInd": "N"})
			raw := members{"threeDSServerTransID": areq["threeDSServerTransID"], "threeDSMethodNotificationURL": "http://localhost:1234/method"}.json(t)
			if p := send(t, card.MethodURL, url.Values{"threeDSMethodData": {base64.URLEncoding.EncodeToString(raw)}}); p.status != http.StatusOK {
				t.Fatalf("the method: %d %s", p.status, p.text)
			}
			if got := s.ask(areq); got["transStatus"] != "Y" {
				t.Errorf("strict %t, %s: %v, want an ARes Y", isStrict, version, got)
			}
		}
	}
}

// TestMethodDecidesCompInd is the 3DS Method and what it means for threeDSCompInd.
func TestMethodDecidesCompInd(t *testing.T) {
	s := newServer(t, start(t, nil))
	card, _ := s.box.Card("4000000000000003")
	silent, _ := s.box.Card("4000000000000203")
	data := func(id string, back any) url.Values {
		raw := members{"threeDSServerTransID": id, "threeDSMethodNotificationURL": back}.json(t)
		return url.Values{"threeDSMethodData": {base64.URLEncoding.EncodeToString(raw)}}
	}
	const back = "http://localhost:1234/method?x=1"
	areq := s.areq("2.2.0", "02", "4000000000000003").with(members{"threeDSCompInd": "N"})
	id := areq["threeDSServerTransID"].(string)

	if p := send(t, silent.MethodURL, data(id, back)); p.status != http.StatusOK || p.action() != "" {
		t.Errorf("the silent method answers: %s", p.text)
	}
	if got := s.ask(areq.with(members{"threeDSServerTransID": newID()})); got["transStatus"] != "Y" {
		t.Errorf("without a method: %v", got)
	}
	for _, p := range []journalEntry{send(t, card.MethodURL, data(id, back)), get(t, card.MethodURL+"?"+data(id, back).Encode())} {
		p.guarded()
		if p.action() != back || read(t, unpad(t, p.field("threeDSMethodData")))["threeDSServerTransID"] != id {
			t.Errorf("the form goes to %q: %s", p.action(), p.text)
		}
	}
	got := s.ask(areq.with(members{"threeDSCompInd": "U"}))
	if got["errorCode"] != "305" || got["errorComponent"] != "D" || got["errorDescription"] != "Invalid ThreeDSCompInd" ||
		got["errorDetail"] != `The threeDSCompInd must be "Y" when successful` {
		t.Errorf("threeDSCompInd U: %v", got)
	}
	if got := s.ask(areq.with(members{"threeDSCompInd": "Y"})); got["transStatus"] != "Y" {
		t.Errorf("threeDSCompInd Y: %v", got)
	}
	for name, fields := range map[string]url.Values{
		"nothing": {}, "no base64url": {"threeDSMethodData": {"%"}}, "no id": data("x", back), "no address": data(id, nil),
		"a script": data(id, "javascript:alert(1)"),
	} {
		if p := send(t, card.MethodURL, fields); p.status != http.StatusBadRequest || p.action() != "" {
			t.Errorf("%s: %d %s", name, p.status, p.action())
		}
	}
}
