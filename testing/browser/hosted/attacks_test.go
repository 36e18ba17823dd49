package hosted

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/edge/browser"
	"github.com/openthreeds/threeds/internal/edge/browser/enginetest"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// callMany is a script that calls authenticate for many authentications at once, each in an element of its own. It
// counts in ready how many show a button to continue, and in over how many have ended.
const callMany = `((calls) => {
	window.over = 0
	for (const options of calls) {
		const container = document.createElement("section")
		document.body.append(container)
		call({ container, ...options }).catch(() => {}).then(() => window.over++)
	}
	window.count = (mark) => [...document.querySelectorAll("section > div")].filter((host) => host.shadowRoot.querySelector("[data-threeds=" + mark + "]")).length
})`

// hostileFrames is a script of an attacker's page that puts wrapper documents into itself and talks to them.
const hostileFrames = `((attacks, base) => Promise.all(attacks.map((a) => new Promise((resolve) => {
	const frame = document.createElement("iframe")
	frame.onload = () => {
		for (const kind of ["method", a]) frame.contentWindow.postMessage({ threeds: "show", kind, url: a, fields: { [a]: a }, allow: a }, "*")
		frame.contentWindow.postMessage({ threeds: a, accept: a }, "*")
		setTimeout(resolve, 100)
	}
	frame.src = base + "/a/frame?" + encodeURIComponent(a) + "#" + [a, a, a].join(".")
	document.body.append(frame)
}))))`

// TestB9AttacksAreText: no text of a merchant, a shopper or a bank runs on the hosted page, in threeds.js or in the
// documents around the bank, and none makes an element, an address or a style.
func TestB9AttacksAreText(t *testing.T) {
	w := newWorld(t)
	trap := browsertest.NewTrap(t, w.ctx)
	inputs := 0
	check := func(places ...string) {
		t.Helper()
		inputs += len(places) * len(browsertest.SomeAttacks())
		trap.Check(strings.Join(places, ", "))
	}
	add := func(attack string, row enginetest.Row) string {
		w.looks.Store(attack, browser.Looks{
			Name: attack, Colour: attack, Accent: attack, Logo: []byte("<svg xmlns='http://www.w3.org/2000/svg'/>"),
			LogoType: "image/svg+xml",
		})
		row.View = session.BrowserView{Merchant: attack, Amount: "12900", Currency: attack, Exponent: "2", Language: attack, ReturnURL: attack}
		return w.engine.Add(row)
	}
	type call map[string]string
	start := func(calls []call) {
		t.Helper()
		w.openShop()
		options, _ := json.Marshal(calls)
		w.do(chromedp.Evaluate[chromedp.Void](callMany + "(" + string(options) + ")"))
	}

	var informed, addressed, faulty []call
	frames := ""
	for i, attack := range browsertest.SomeAttacks() {
		informed = append(informed, call{"url": w.base + "/a/" + add(attack, enginetest.Row{Info: attack, End: attack})})
		addressed = append(addressed,
			call{"url": w.base + "/a/" + add(attack, enginetest.Row{MethodURL: attack, MethodEnd: 1, End: attack})},
			call{"url": w.base + "/a/" + add(attack, enginetest.Row{ACSURL: attack})})
		faulty = append(faulty, call{"url": attack}, call{"url": w.base + "/a/" + attack},
			call{"url": w.base + "/a/" + w.engine.Add(enginetest.Row{}), "size": attack},
			call{"url": w.base + "/a/" + w.engine.Add(enginetest.Row{}), "locale": attack})
		for step, row := range map[string]enginetest.Row{"begin": {}, "challenge": {ACSURL: attack}, "confirm": {Info: attack}} {
			path := fmt.Sprintf("/%s/%d", step, i)
			w.echo.Store(path, w.documentOf(add(attack, row), step != "begin"))
			frames += fmt.Sprintf(`<iframe src="%s"></iframe>`, path)
		}
	}
	start(informed)
	w.until(fmt.Sprintf(`count("continue") === %d`, len(informed)))
	check("name", "colour", "accent", "currency", "language", "cardholderInfo", "return address, of threeds.js")
	w.do(chromedp.Evaluate[chromedp.Void](
		`for (const e of document.querySelectorAll("section > div")) e.shadowRoot.querySelector("[data-threeds=continue]").click()`))
	w.until(fmt.Sprintf(`over === %d`, len(informed)))
	check("status of the end")
	start(addressed)
	w.until(fmt.Sprintf(`over + count("challenge") >= %d`, len(addressed)))
	check("address of the 3DS Method", "acsURL")
	start(faulty)
	w.until(fmt.Sprintf(`over === %d`, len(faulty)))
	check("url", "token", "size", "locale")

	all, _ := json.Marshal(browsertest.SomeAttacks())
	w.openShop()
	w.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`%s(%s, %q)`, hostileFrames, all, w.base), chromedp.EvalAwaitPromise))
	check("query and fragment of the wrapper", "kind", "url", "fields", "allow", "type and Accept header of a message")

	w.echo.Store("/frames", "<!doctype html>"+frames)
	w.do(chromedp.Navigate(w.shop + "/frames"))
	w.until(`document.readyState === "complete" && [...document.querySelectorAll("iframe")].every((f) => {
		if (!f.contentDocument && !f.dataset.again) { // the browser could not load it: once more
			f.dataset.again = "yes";
			f.src = f.src;
		}
		return f.contentDocument?.readyState === "complete";
	})`)
	check("name", "colour", "accent", "currency", "language", "acsURL", "cardholderInfo, in documents of the hosted page")

	// The hosted page itself, and pages for what is unknown, with all attacks in one text.
	joined := strings.Join(browsertest.Attacks, " ")
	hosted := add(joined, enginetest.Row{Info: joined})
	w.do(setHeaders(network.Headers{"Accept-Language": clean(joined)}), chromedp.Navigate(w.base+"/a/"+hosted))
	w.until("!!" + hostedMark("continue"))
	w.until(`document.querySelector("#flow > div").shadowRoot.querySelector(".note").textContent.includes("onerror=xss()")`)
	check("name", "cardholderInfo", "Accept-Language, on the hosted page")
	for _, path := range []string{"/a/" + url.PathEscape(joined),
		"/a/open?" + url.QueryEscape(joined) + "#" + joined + "." + joined + "." + joined, "/n/" + url.PathEscape(joined) + "/x"} {
		w.do(chromedp.Navigate(w.base + path))
		check("a path such as " + path[:5])
	}
	w.do(setHeaders(network.Headers{}))
	t.Logf("%d inputs", inputs)
	if want := 25 * len(browsertest.SomeAttacks()); inputs < want {
		t.Errorf("%d inputs, want at least %d", inputs, want)
	}
}

// TestD77LogoRunsNothing: a logo that is a program is a picture, even when it is opened by itself.
func TestD77LogoRunsNothing(t *testing.T) {
	w := newWorld(t)
	trap := browsertest.NewTrap(t, w.ctx)
	for _, logo := range []string{
		`<svg xmlns="http://www.w3.org/2000/svg" onload="xss()"/>`,
		`<svg xmlns="http://www.w3.org/2000/svg"><script>xss()</script></svg>`,
		`<svg xmlns="http://www.w3.org/2000/svg"><foreignObject><img xmlns="http://www.w3.org/1999/xhtml" src="x" onerror="xss()"/></foreignObject></svg>`,
		`<html xmlns="http://www.w3.org/1999/xhtml"><script>xss()</script></html>`,
	} {
		w.looks.Store("logo", browser.Looks{Name: "x", Logo: []byte(logo), LogoType: "image/svg+xml"})
		w.do(chromedp.Navigate(w.base + "/a/" + w.engine.Add(enginetest.Row{View: session.BrowserView{Merchant: "logo"}}) + "/logo"))
		for _, sprung := range trap.Sprung() {
			if sprung == "script: it ran" {
				t.Errorf("%s runs", logo)
			}
		}
	}
}

// setHeaders has the browser send headers with each request.
func setHeaders(headers network.Headers) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: headers})
		return err
	})
}

// documentOf returns the document of the hosted page as a browser without JavaScript has it, before
// or after the first step.
func (w *world) documentOf(token string, isBegun bool) string {
	cookies := get(w.handler, "/a/"+token).Result().Cookies()
	if isBegun {
		w.submitBegin(token, cookies)
	}
	return get(w.handler, "/a/"+token, cookies...).Body.String()
}

// submitBegin makes the first step of the hosted page without JavaScript. It does not wait for a result that is slow.
func (w *world) submitBegin(token string, cookies []*http.Cookie) {
	ctx, cancel := context.WithCancel(w.t.Context())
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		submit(ctx, w.handler, "/a/"+token+"/begin", cookies, nil)
	}()
	waittest.Until(w.t, "the AReq", func() bool { return w.engine.Row(token).AReqs == 1 })
	cancel()
	<-answered
}

// clean is a text as a header can have it.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return ' '
		}
		return r
	}, text)
}

// hostedMark is the expression of an element with a data-threeds mark in the flow of the hosted page.
func hostedMark(name string) string {
	return fmt.Sprintf(`document.querySelector("#flow > div")?.shadowRoot.querySelector("[data-threeds=%s]")`, name)
}
