package sandbox_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/browsertest"
)

// The tests of this file hold what front ends of others rely on: agnosco, test3ds, web-threeds of Basis Theory,
// globalpayments-3ds, 3ds-sdk-js of Trust Payments, and the 3DS 2.0 utilities of Adyen. No code of theirs is here.

// foreignEncodings are the ways in which front ends encode what a form brings to the issuer.
var foreignEncodings = map[string]func([]byte) string{
	"standard alphabet, padded":   base64.StdEncoding.EncodeToString,
	"standard alphabet, unpadded": base64.RawStdEncoding.EncodeToString,
	"URL alphabet, padded":        base64.URLEncoding.EncodeToString,
	"URL alphabet, unpadded":      base64.RawURLEncoding.EncodeToString,
}

// TestForeignMethodDataInEitherAlphabet: the 3DS Method takes data from btoa and base64url data, with and without
// padding. The query of the notification URL comes back as it was: some mark the way of the window there.
func TestForeignMethodDataInEitherAlphabet(t *testing.T) {
	s := newServer(t, start(t, nil))
	card, _ := s.box.Card("4000000000000003")
	const back = "https://shop.example/notify?mode=redirect&to=????"
	for name, encode := range foreignEncodings {
		raw := []byte(fmt.Sprintf(`{"threeDSServerTransID":%q,"threeDSMethodNotificationURL":%q}`, newID(), back))
		data := encode(raw)
		if !strings.ContainsAny(data, "+/-_") || len(raw)%3 == 0 {
			t.Fatalf("%s: the alphabets do not differ in %s, or it needs no padding", name, data)
		}
		p := send(t, card.MethodURL, url.Values{"threeDSMethodData": {data}})
		if p.status != http.StatusOK || p.action() != back {
			t.Errorf("%s: %d, to %q, want %q", name, p.status, p.action(), back)
		}
	}
}

// TestForeignNotificationIsReadByAtob: the data that the 3DS Method posts to the shop is read by atob, which knows
// the standard alphabet alone, and has the transaction's id.
func TestForeignNotificationIsReadByAtob(t *testing.T) {
	s := newServer(t, start(t, nil))
	card, _ := s.box.Card("4000000000000003")
	for range 100 {
		id := newID()
		raw := members{"threeDSServerTransID": id, "threeDSMethodNotificationURL": "https://shop.example/notify"}.json(t)
		p := send(t, card.MethodURL, url.Values{"threeDSMethodData": {base64.RawURLEncoding.EncodeToString(raw)}})
		data := p.field("threeDSMethodData")
		got, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(data, "="))
		if err != nil || read(t, got)["threeDSServerTransID"] != id {
			t.Fatalf("the notification %q: %v, want it in the standard alphabet, with %s", data, err, id)
		}
	}
}

// TestForeignCReqInEitherAlphabet: the issuer takes a CReq from btoa as well as a base64url one. The page of a
// shop may read the CRes with atob.
func TestForeignCReqInEitherAlphabet(t *testing.T) {
	s := newServer(t, start(t, nil))
	for name, encode := range foreignEncodings {
		areq, ares := s.challenged("2.2.0", "4000000000000170")
		// Members that a CReq does not have make the alphabets differ. One front end has the first two.
		raw := creq(ares).with(members{"notificationURL": "http://localhost:8270/missing", "dsTransID": newID(), "note": "???"}).json(t)
		for len(raw)%3 == 0 || !strings.ContainsAny(encode(raw), "+/-_") {
			raw = bytes.Replace(raw, []byte("???"), []byte("???>"), 1)
		}
		p := send(t, ares["acsURL"].(string), url.Values{"creq": {encode(raw)}})
		if _, cres := s.over(p, areq, ares, "Y", ""); cres["transStatus"] != "Y" {
			t.Errorf("%s: CRes %v, want Y", name, cres)
		}
		if data := p.field("cres"); strings.ContainsAny(data, "-_") {
			t.Errorf("%s: the CRes %s is not in the standard alphabet", name, data)
		}
	}
}

// TestForeignFormsHaveFieldsOfTheirOwn: a form to the issuer may have fields that no specification names. What is in
// threeDSSessionData comes back byte for byte, even if it is padded.
func TestForeignFormsHaveFieldsOfTheirOwn(t *testing.T) {
	s := newServer(t, start(t, nil))
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		areq, ares := s.challenged(version, "4000000000000070")
		const session = "MTcxMjM0NTY3OA=="
		form := s.form(creq(ares), session)
		form.Set("cardType", "VISA")
		if _, cres := s.over(send(t, ares["acsURL"].(string), form), areq, ares, "Y", session); cres["transStatus"] != "Y" {
			t.Errorf("%s: CRes %v, want Y", version, cres)
		}
	}
	p := newPlugIn(t, s.box, "visa")
	ve := p.enrolled("id", "4000001234560000")
	page := send(t, ve.URL, url.Values{
		"PaReq": {pack(t, p.paReq("id", ve.AcctID))}, "MD": {"session 7"}, "TermUrl": {"https://shop.example/term"}, "cardType": {"VISA"},
	})
	if page.status != http.StatusOK || page.action() != "https://shop.example/term" || page.field("MD") != "session 7" || page.field("PaRes") == "" {
		t.Errorf("a PaReq with a cardType: %d %s", page.status, page.text)
	}
}

// TestForeignEveryWindowSize: each of the five sizes is taken, in every version.
func TestForeignEveryWindowSize(t *testing.T) {
	s := newServer(t, start(t, nil))
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		for _, size := range []string{"01", "02", "03", "04", "05"} {
			areq, ares := s.challenged(version, "4000000000000070")
			p := send(t, ares["acsURL"].(string), s.form(creq(ares).with(members{"challengeWindowSize": size}), ""))
			if _, cres := s.over(p, areq, ares, "Y", ""); cres["transStatus"] != "Y" {
				t.Errorf("%s, window %s: %v", version, size, cres)
			}
		}
	}
}

// TestForeignPagesKeepTheirOpener: pages of the issuer are used in frames and in windows of any origin. A page may
// not cut itself off from the window that opened it, which would then look closed. It sends no messages to others.
func TestForeignPagesKeepTheirOpener(t *testing.T) {
	s := newServer(t, start(t, nil))
	card, _ := s.box.Card("4000000000000003")
	data := members{"threeDSServerTransID": newID(), "threeDSMethodNotificationURL": "https://shop.example/notify"}.json(t)
	_, code := s.challenged("2.2.0", "4000000000000172")
	_, over := s.challenged("2.2.0", "4000000000000170")
	for name, p := range map[string]journalEntry{
		"3DS Method": send(t, card.MethodURL, url.Values{"threeDSMethodData": {base64.StdEncoding.EncodeToString(data)}}),
		"code":       send(t, code["acsURL"].(string), s.form(creq(code), "")),
		"end":        send(t, over["acsURL"].(string), s.form(creq(over), "")),
	} {
		for _, header := range []string{"Cross-Origin-Opener-Policy", "X-Frame-Options", "Cross-Origin-Embedder-Policy"} {
			if got := p.header.Get(header); got != "" {
				t.Errorf("%s: %s: %s, want no such header", name, header, got)
			}
		}
		if !strings.Contains(p.header.Get("Content-Security-Policy"), "frame-ancestors *") {
			t.Errorf("%s: %s, want frame-ancestors *", name, p.header.Get("Content-Security-Policy"))
		}
		if regexp.MustCompile(`postMessage|target="?_(top|parent)|<iframe|<base`).MatchString(p.text) {
			t.Errorf("%s: the page leaves its window, or sends messages: %s", name, p.text)
		}
	}
}

// foreignShop is a page that does what front ends do: what a form brings goes through a frame of another origin into
// a frame within it, which for the 3DS Method is not shown, or goes into a new window.
const foreignShop = `<!doctype html><meta charset=utf-8><title>Shop</title><div id=hidden style="display:none"></div><div id=shown></div>
<script>
window.heard = []
addEventListener("message", (e) => heard.push(e.data))
window.embed = (where, outer, url, name, value) => {
	const frame = document.createElement("iframe")
	frame.width = frame.height = where === "hidden" ? "0" : "400"
	frame.src = outer
	frame.onload = () => frame.contentWindow.postMessage({ url, name, value }, "*")
	document.getElementById(where).append(frame)
}
window.popUp = (url, name, value) => {
	window.child = open("", "threeDSChallenge", "width=500,height=600")
	const form = Object.assign(document.createElement("form"), { action: url, method: "POST", target: "threeDSChallenge" })
	form.append(Object.assign(document.createElement("input"), { name, value }))
	document.body.append(form)
	form.submit()
}
</script>`

// foreignFrame is the page of another origin between the shop and the issuer.
const foreignFrame = `<!doctype html><meta charset=utf-8><title>Frame</title><script>
addEventListener("message", ({ data }) => {
	if (data.done) return parent.postMessage(data, "*")
	const frame = document.createElement("iframe")
	frame.name = "acs"
	if (data.name === "threeDSMethodData") frame.style.display = "none"
	document.body.append(frame)
	const form = Object.assign(document.createElement("form"), { action: data.url, method: "POST", target: "acs" })
	form.append(Object.assign(document.createElement("input"), { name: data.name, value: data.value }))
	document.body.append(form)
	form.submit()
})
</script>`

// TestForeignNestedFramesAndWindows: in Chromium, the 3DS Method runs in a frame within a frame, neither shown, and
// a challenge in a frame within a frame and in a window. What the shop is posted to is the parent or the opener's
// child there: its page can tell the shop's page, and close the window.
func TestForeignNestedFramesAndWindows(t *testing.T) {
	tab := browsertest.NewBrowser(t, "--disable-popup-blocking")
	s := newServer(t, start(t, nil))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		switch r.URL.Path {
		case "/frame":
			fmt.Fprint(w, foreignFrame)
		case "/notify":
			done := "method"
			if r.FormValue("cres") != "" {
				done = "challenge"
			}
			fmt.Fprintf(w, `<!doctype html><title>Done</title><script>
				if (window.opener) window.close(); else parent.postMessage({ done: %q }, "*")</script>`, done)
		default:
			fmt.Fprint(w, foreignShop)
		}
	}))
	t.Cleanup(server.Close)
	outer := strings.Replace(server.URL, "127.0.0.1", "localhost", 1) // another origin
	notify := server.URL + "/notify"
	run := func(script string) {
		t.Helper()
		if err := chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](script)); err != nil {
			t.Fatal(err)
		}
	}
	until := func(expression string) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			is, err := chromedp.Run(tab, chromedp.Evaluate[bool](expression))
			if is {
				return
			}
			if time.Now().After(deadline) {
				browsertest.Screenshot(t, tab, "foreign-failed")
				t.Fatalf("%s: %v", expression, err)
			}
		}
	}
	if err := chromedp.Do(tab, browsertest.View(1280, 800, "light"), chromedp.Navigate(server.URL)); err != nil {
		t.Fatal(err)
	}
	card, _ := s.box.Card("4000000000000003")
	data := members{"threeDSServerTransID": newID(), "threeDSMethodNotificationURL": notify}.json(t)
	run(fmt.Sprintf(`embed("hidden", %q, %q, "threeDSMethodData", %q)`, outer+"/frame", card.MethodURL, base64.StdEncoding.EncodeToString(data)))
	until(`heard.some((m) => m.done === "method")`)

	challenge := func() (acsURL, data string) {
		ares := s.ask(s.areq("2.2.0", "02", "4000000000000170").with(members{"notificationURL": notify}))
		return ares["acsURL"].(string), s.form(creq(ares), "").Get("creq")
	}
	acsURL, value := challenge()
	run(fmt.Sprintf(`embed("shown", %q, %q, "creq", %q)`, outer+"/frame", acsURL, value))
	until(`heard.some((m) => m.done === "challenge")`)

	ares := s.ask(s.areq("2.2.0", "02", "4000000000000172").with(members{"notificationURL": notify}))
	run(fmt.Sprintf(`popUp(%q, "creq", %q)`, ares["acsURL"], s.form(creq(ares), "").Get("creq")))
	until(`(() => { try { return child.location.href && false } catch { return true } })()`) // the bank's page is there
	if closed, err := chromedp.Run(tab, chromedp.Evaluate[bool](`child.closed`)); err != nil || closed {
		t.Errorf("the window of the bank looks closed while it is open: %v", err)
	}
	p := send(t, ares["acsURL"].(string), s.form(creq(ares), "")).press("submit", "123456")
	run(fmt.Sprintf(`popUp(%q, "cres", %q)`, notify, p.field("cres")))
	until(`child.closed`)
}
