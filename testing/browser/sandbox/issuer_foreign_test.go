package sandbox

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/testing/browsertest"
)

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
	tab := browsertest.NewBrowser(t)
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
		if err := chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](script, asGesture)); err != nil {
			t.Fatal(err)
		}
	}
	until := func(expression string) {
		t.Helper()
		err := browsertest.Wait(tab, func() (bool, error) { return chromedp.Run(tab, chromedp.Evaluate[bool](expression)) })
		if err != nil {
			browsertest.FailureScreenshot(t, tab, "foreign-failed")
			t.Fatalf("%s: %v", expression, err)
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

// asGesture evaluates a script as if the shopper had clicked, so that it may open a window.
func asGesture(p *runtime.EvaluateParams) { p.UserGesture = new(true) }
