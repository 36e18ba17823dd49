package sandbox

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/sandbox/shop"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// A stepsTab is a real browser at a shop's page.
type stepsTab struct {
	t    *testing.T
	ctx  context.Context
	bank *bank
	shop *shop.Shop
	url  string // of the page with each step
}

// openSteps starts a shop and shows it in a browser. set may change the shop before.
func openSteps(t *testing.T, set func(*shop.Shop)) *stepsTab {
	t.Helper()
	return openPatientSteps(t, set, time.Hour)
}

// openPatientSteps is openSteps with the time that the page waits for the notice of the bank after the result has come.
// The shop writes that time into its page.
func openPatientSteps(t *testing.T, set func(*shop.Shop), noticeWait time.Duration) *stepsTab {
	t.Helper()
	ctx := browsertest.NewBrowser(t)
	b := newBank(t)
	s := b.shop()
	s.CancelWait = 500 * time.Millisecond
	if set != nil {
		set(s)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/steps" {
			s.Handler().ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		r.Header.Del("Accept-Encoding") // the page is changed in plain text
		s.Handler().ServeHTTP(answer, r)
		maps.Copy(w.Header(), answer.Header())
		w.Header().Del("Content-Length")
		const usual = `data-notice-wait="5000"`
		page := answer.Body.String()
		if !strings.Contains(page, usual) {
			t.Errorf("the page has no %s", usual)
		}
		_, _ = io.WriteString(w, strings.Replace(page, usual, fmt.Sprintf(`data-notice-wait="%d"`, noticeWait.Milliseconds()), 1))
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		_ = s.Close()
	})
	tb := &stepsTab{t, ctx, b, s, server.URL + "/steps"}
	tb.do(browsertest.View(1280, 800, "light"), chromedp.Navigate(tb.url))
	return tb
}

func (tb *stepsTab) do(steps ...chromedp.Action[chromedp.Void]) {
	tb.t.Helper()
	if err := chromedp.Do(tb.ctx, steps...); err != nil {
		browsertest.FailureScreenshot(tb.t, tb.ctx, "shop-failed-"+strings.ReplaceAll(tb.t.Name(), "/", "-"))
		tb.t.Fatal(err)
	}
}

func testID(name string) chromedp.CSS { return chromedp.CSS(`[data-testid="` + name + `"]`) }

func (tb *stepsTab) shot(name string) {
	tb.t.Helper()
	browsertest.Screenshot(tb.t, tb.ctx, "shop-"+name)
}

// pay types a card number and presses the button.
func (tb *stepsTab) pay(card string) {
	tb.t.Helper()
	tb.do(
		browsertest.WaitVisible(testID("pay")),
		chromedp.SetValue(testID("card-number"), card),
		chromedp.Click(testID("pay")),
	)
}

func (tb *stepsTab) text(name string) string {
	tb.t.Helper()
	text, err := chromedp.Run(tb.ctx, chromedp.TextContent(testID(name)))
	if err != nil {
		tb.t.Fatal(err)
	}
	return strings.TrimSpace(text)
}

func (tb *stepsTab) is(expression string) {
	tb.t.Helper()
	ok, err := chromedp.Run(tb.ctx, chromedp.Evaluate[bool](expression, chromedp.EvalAwaitPromise))
	if err != nil || !ok {
		tb.t.Errorf("%s: %t, %v", expression, ok, err)
	}
}

// ends waits for the result and compares its word, status and ECI.
func (tb *stepsTab) ends(w, status, eci string) {
	tb.t.Helper()
	tb.do(browsertest.WaitVisible(testID("result-word")))
	if got := [3]string{tb.text("result-word"), tb.text("result-status"), tb.text("result-eci")}; got != [3]string{w, status, eci} {
		tb.t.Errorf("the result is %q, want %q", got, [3]string{w, status, eci})
	}
	tb.is(`document.activeElement.id === "result-title"`)
}

// wire compares the names on the panel, but for questions that were too early, and for which of the CRes and the answer
// to a question comes first: both depend on the machine.
func (tb *stepsTab) wire(want ...string) {
	tb.t.Helper()
	got, err := chromedp.Run(tb.ctx, chromedp.Evaluate[[]string](
		`[...document.querySelectorAll("[data-testid=wire-message]")].map((m) => m.dataset.name).filter((n) => n !== "Result?" && n !== "Erro")`))
	if err != nil || strings.Replace(strings.Join(got, ", "), "RReq, CRes", "CRes, RReq", 1) != strings.Join(want, ", ") {
		tb.t.Errorf("the wire panel has %q, want %q; %v", got, want, err)
	}
}

// bankPage waits for the bank's page in the dialog and returns its frame.
func (tb *stepsTab) bankPage() *chromedp.Node {
	tb.t.Helper()
	frame := browsertest.IssuerFrame(tb.t, tb.ctx, `[data-testid="challenge-frame"]`)
	tb.do(browsertest.WaitVisible(testID("approve"), chromedp.FromNode(frame)))
	return frame
}

// inChallenge presses a button of the bank's page.
func (tb *stepsTab) inChallenge(button string) {
	tb.t.Helper()
	tb.do(chromedp.Click(testID(button), chromedp.FromNode(tb.bankPage())))
}

func TestBrowserFrictionless(t *testing.T) {
	tb := openSteps(t, nil)
	tb.shot("home")
	tb.pay("4000000000000003")
	tb.ends("authenticated", "Y", "05")
	tb.wire("Card check", "CRD", "3DS Method data", "3DS Method notice", "AReq", "ARes")
	if got := tb.text("method-state"); got != "answered (Y)" {
		t.Errorf("method-state %q, want answered (Y)", got)
	}
	tb.do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("[data-testid=wire-message] details")[5].open = true`))
	tb.shot("frictionless")
	areq, _ := tb.bank.lastCall("/auth")
	if areq["browserJavascriptEnabled"] != true || areq["browserScreenWidth"] == "" || areq["browserIP"] != "127.0.0.1" {
		t.Errorf("browser data: %v", areq)
	}
}

// TestBrowserChallenge: the challenge in its frame, which lets payment confirmation
// run in it (SP-12).
func TestBrowserChallenge(t *testing.T) {
	tb := openSteps(t, nil)
	tb.pay("4000000000000072")
	tb.bankPage()
	tb.is(`document.activeElement.id === "dialog-title"`)
	tb.is(`document.querySelector("dialog iframe").offsetWidth === 500 && document.querySelector("dialog iframe").offsetHeight === 600`)
	tb.is(`document.querySelector("dialog iframe").getAttribute("sandbox") === "allow-forms allow-scripts allow-same-origin allow-pointer-lock"`)
	tb.is(`document.querySelector("dialog iframe").getAttribute("allow") === "payment *; publickey-credentials-get *; publickey-credentials-create *"`)
	tb.shot("challenge")
	tb.inChallenge("approve")
	tb.ends("authenticated", "Y", "05")
	tb.wire("Card check", "CRD", "3DS Method data", "3DS Method notice", "AReq", "ARes", "CReq", "CRes", "RReq")
	tb.shot("challenge-result")
}

func TestBrowserChallengeDenied(t *testing.T) {
	tb := openSteps(t, nil)
	tb.pay("4000000000000072")
	tb.inChallenge("deny")
	tb.ends("failed", "N", "none")
	tb.shot("failed")
}

// TestBrowserCancel: by button and by Escape.
func TestBrowserCancel(t *testing.T) {
	tb := openSteps(t, nil)
	for _, cancel := range []chromedp.Action[chromedp.Void]{chromedp.Click(testID("challenge-cancel")), chromedp.KeyEvent("\x1b")} {
		tb.pay("4000000000000172")
		tb.do(browsertest.WaitVisible(testID("challenge-frame")), cancel)
		tb.ends("cancelled", "none", "none")
		tb.is(`!document.querySelector("dialog").open && !document.querySelector("iframe")`)
		tb.shot("cancelled")
		tb.do(chromedp.Click(testID("again")))
	}
}

// TestBrowserChallengeGivenUp: the bank tells the 3DS server, nobody tells the
// page; the dialog closes all the same.
func TestBrowserChallengeGivenUp(t *testing.T) {
	tb := openPatientSteps(t, nil, 100*time.Millisecond)
	tb.pay("4000000000000172")
	tb.do(browsertest.WaitVisible(testID("challenge-frame")))
	areq, _ := tb.bank.lastCall("/auth")
	tb.bank.finish(areq["threeDSServerTransID"].(string), "N", "04")
	tb.ends("timed out", "N", "none")
	tb.is(`!document.querySelector("dialog").open`)
	tb.shot("timed-out")
}

func TestBrowserMethodSilent(t *testing.T) {
	tb := openSteps(t, func(s *shop.Shop) { s.MethodLimit = 300 * time.Millisecond })
	tb.pay("4000000000000203")
	tb.ends("authenticated", "Y", "05")
	if got := tb.text("method-state"); got != "no answer in time (N)" {
		t.Errorf("method-state %q, want no answer in time (N)", got)
	}
	if areq, _ := tb.bank.lastCall("/auth"); areq["threeDSCompInd"] != "N" {
		t.Errorf("threeDSCompInd %v, want N", areq["threeDSCompInd"])
	}
	tb.shot("method-silent")
}

func TestBrowserDecoupled(t *testing.T) {
	tb := openSteps(t, nil)
	tb.pay("4000000000000183")
	tb.do(browsertest.Poll(`document.getElementById("progress-text").textContent.includes("app of your bank")`))
	tb.shot("decoupled")
	areq, _ := tb.bank.lastCall("/auth")
	tb.bank.finish(areq["threeDSServerTransID"].(string), "Y", "")
	tb.ends("authenticated", "Y", "05")
	if got := tb.text("challenge-state"); got != "on another device" {
		t.Errorf("challenge-state %q, want on another device", got)
	}
}

// TestBrowserResultFirst: the result is there before the bank's page has sent the
// cardholder back. The page may end, and the CRes is shown.
func TestBrowserResultFirst(t *testing.T) {
	tb := openSteps(t, nil)
	tb.pay("4000000000000172")
	tb.bankPage()
	areq, _ := tb.bank.lastCall("/auth")
	tb.bank.finish(areq["threeDSServerTransID"].(string), "Y", "")
	tb.do(browsertest.Poll(`document.querySelector('[data-name="RReq"]') !== null`))
	tb.inChallenge("approve")
	tb.ends("authenticated", "Y", "05")
	tb.is(`document.querySelector('[data-name="CRes"]') !== null`)
}

// TestBrowserResultAndNotice: the bank's notice comes while the page is being told the
// result, and still ends the wait for it.
func TestBrowserResultAndNotice(t *testing.T) {
	tb := openSteps(t, nil)
	tb.pay("4000000000000172")
	tb.bankPage()
	tb.do(chromedp.Evaluate[chromedp.Void](`{
		const real = fetch;
		fetch = async (...request) => {
			const answer = await real(...request);
			if ((await answer.clone().text()).includes('"state":"done"')) await new Promise((go) => { window.go = go; });
			return answer;
		};
		addEventListener("message", () => { window.heard = true; });
	}`))
	areq, _ := tb.bank.lastCall("/auth")
	tb.bank.finish(areq["threeDSServerTransID"].(string), "Y", "")
	tb.do(browsertest.Poll(`window.go !== undefined`))
	tb.inChallenge("approve")
	tb.do(browsertest.Poll(`window.heard`), chromedp.Evaluate[chromedp.Void](
		`fetch = async () => new Response(JSON.stringify({ state: "done", ending: { word: "told again" }, wire: [] })); go();`))
	tb.do(browsertest.Poll(`document.getElementById("result-word").textContent === "told again"`))
}

// TestBrowserFormSentTwiceIsOnePayment: however often the form is sent, it is one payment.
func TestBrowserFormSentTwiceIsOnePayment(t *testing.T) {
	tb := openSteps(t, nil)
	tb.do(chromedp.SetValue(testID("card-number"), "4000000000000103"), chromedp.Evaluate[chromedp.Void](`{
		const button = document.getElementById("pay");
		button.click();
		button.click();
		document.getElementById("form").requestSubmit();
	}`))
	tb.ends("authenticated", "Y", "05")
	if _, calls := tb.bank.lastCall("/preauth"); calls != 1 {
		t.Errorf("/preauth was called %d times, want 1", calls)
	}
}

// cut makes calls of the page fail as they do without a network, until mend. The pause of the page after a call that
// failed does not end before tryAgain. All its other waits take a quarter of their time.
func (tb *stepsTab) cut() {
	tb.t.Helper()
	tb.do(chromedp.Evaluate[chromedp.Void](`{
		window.isCut = true;
		if (!window.tryAgain) {
			const real = fetch, wait = setTimeout, paused = [];
			window.isPaused = () => paused.length > 0;
			window.tryAgain = () => { for (const then of paused.splice(0)) then(); };
			setTimeout = (then, ms) => ms === 1000 ? paused.push(then) : wait(then, ms / 4);
			fetch = (...request) => window.isCut ? Promise.reject(new TypeError("cut off")) : real(...request);
		}
	}`))
}

// mend ends what cut began.
func (tb *stepsTab) mend() {
	tb.t.Helper()
	tb.do(chromedp.Evaluate[chromedp.Void](`window.isCut = false`))
}

// tryAgain waits until the page pauses after a call that failed, and ends the pause.
func (tb *stepsTab) tryAgain() {
	tb.t.Helper()
	tb.do(browsertest.Poll(`window.isPaused()`), chromedp.Evaluate[chromedp.Void](`window.tryAgain()`))
}

// TestBrowserOutage: calls that fail do not take the bank's page away. The page says
// that it tries again, goes on when it can, and gives up in the end.
func TestBrowserOutage(t *testing.T) {
	tb := openSteps(t, nil)
	const said, silent = `document.querySelector('[data-testid="dialog-trouble"]').offsetHeight > 0`,
		`document.querySelector('[data-testid="dialog-trouble"]').offsetHeight === 0`
	tb.do(chromedp.SetValue(chromedp.CSS("#window"), "01"))
	tb.pay("4000000000000172")
	tb.bankPage()
	tb.cut()
	tb.tryAgain() // in vain
	tb.do(browsertest.Poll(`window.isPaused() && ` + said))
	tb.is(`document.querySelector("dialog").offsetWidth === 250`)
	tb.shot("outage")
	tb.mend()
	tb.tryAgain()
	tb.do(browsertest.Poll(silent))
	tb.inChallenge("approve")
	tb.ends("authenticated", "Y", "05")
	tb.do(chromedp.Click(testID("again")))

	tb.pay("4000000000000172")
	tb.bankPage()
	tb.cut()
	tb.do(browsertest.Poll(`window.isPaused() && `+said), chromedp.Click(testID("challenge-cancel")))
	tb.tryAgain()
	tb.do(browsertest.Poll(`!document.querySelector("dialog").open`))
	tb.do(browsertest.Poll(`window.isPaused() && document.querySelector('[data-testid="trouble"]').offsetHeight > 0`))
	tb.mend()
	tb.tryAgain()
	tb.ends("cancelled", "none", "none")
	tb.do(chromedp.Click(testID("again")))

	tb.pay("4000000000000172")
	tb.bankPage()
	tb.cut()
	for range 5 { // and then the page gives up
		tb.tryAgain()
	}
	tb.do(browsertest.WaitVisible(chromedp.CSS("#form-fault")))
	tb.is(`document.getElementById("form-fault").textContent.startsWith("The shop did not answer. Reload the page")`)
	tb.do(chromedp.Reload())
	tb.inChallenge("approve")
	tb.ends("authenticated", "Y", "05")
}

// TestBrowserOutageSteps: calls fail in other steps than the challenge, too, where the
// 3DS Method is not run twice, and before there is a checkout.
func TestBrowserOutageSteps(t *testing.T) {
	tb := openSteps(t, nil)
	for _, test := range []struct {
		card, call  string
		status, eci string
		sent        string
	}{
		{"4000000000000003", "/auth", "Y", "05", "/auth"},
		{"4102010000000000", "/enrolled", "Y", "5", "/enrolled"},
	} {
		tb.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{
			const real = fetch;
			let times = 0;
			window.methodFrames = 0;
			new MutationObserver((changes) => { for (const c of changes) for (const n of c.addedNodes) window.methodFrames += n.className === "method-frame"; }).observe(document.body, { childList: true });
			fetch = async (url, ...init) => {
				if (!url.endsWith(%q)) return real(url, ...init);
				times++;
				if (times === 1) throw new TypeError("cut off");
				const answer = await real(url, ...init);
				if (times === 2) throw new TypeError("cut off after it was heard");
				return answer;
			};
		}`, test.call)))
		tb.pay(test.card)
		tb.ends("authenticated", test.status, test.eci)
		tb.is(`window.methodFrames <= 1`)
		if _, calls := tb.bank.lastCall(test.sent); calls != 1 {
			t.Errorf("%s was called %d times, want 1", test.sent, calls)
		}
		tb.do(chromedp.Click(testID("again")))
	}
	tb.cut()
	tb.pay("4000000000000103")
	tb.do(browsertest.WaitVisible(chromedp.CSS("#form-fault")))
	tb.is(`document.getElementById("form-fault").textContent === "The shop did not answer. Please pay again."`)
	tb.mend()
	tb.pay("4000000000000103")
	tb.ends("authenticated", "Y", "05")
}

// TestBrowserCopy: the text of a message is copied with the browser's clipboard, and
// where pages have none as well.
func TestBrowserCopy(t *testing.T) {
	tb := openSteps(t, nil)
	tb.pay("4000000000000103")
	tb.ends("authenticated", "Y", "05")
	tb.do(chromedp.Evaluate[chromedp.Void](`
		document.querySelector("[data-testid=wire-message] details").open = true;
		addEventListener("copy", () => { window.copied = getSelection().toString(); });
	`))
	for _, clipboard := range []string{`{ writeText: async (text) => { window.copied = text; } }`, `undefined`,
		`{ writeText: async () => { throw new DOMException("no", "NotAllowedError"); } }`} {
		tb.do(chromedp.Evaluate[chromedp.Void](`delete window.copied; Object.defineProperty(navigator, "clipboard", { configurable: true, value: `+clipboard+` });`),
			chromedp.Click(chromedp.CSS(".copy")),
			browsertest.Poll(`document.querySelector(".copy").textContent === "Copied"`),
			browsertest.Poll(`document.querySelector(".copy").textContent === "Copy"`))
		tb.is(`JSON.parse(window.copied).acctNumber === "400000******0103"`)
	}
	tb.do(chromedp.Evaluate[chromedp.Void](`document.execCommand = () => false`), chromedp.Click(chromedp.CSS(".copy")),
		browsertest.Poll(`document.querySelector(".copy").textContent === "Selected"`))
	tb.is(`JSON.parse(getSelection().toString()).acctNumber === "400000******0103"`)
}

// TestBrowserHome is the page where it is not as usual: odd card numbers, a
// browser that keeps nothing for sites, colours of the reader's own choice.
func TestBrowserHome(t *testing.T) {
	tb := openSteps(t, nil)
	for typed, want := range map[string]string{
		" 4000 0000 0000 0000 103":      "Ends in 0103: all versions, no 3DS Method, authenticated (Y), frictionless",
		"4000\u00a00000\u20130000 1053": "Ends in 1053: 2.1.0 only, with 3DS Method, unavailable (U), frictionless",
		"4000000000000172":              "Ends in 0172: all versions, no 3DS Method, challenge, you decide",
		"4000000000000174":              "Ends in 0174: all versions, no 3DS Method, you confirm in the app of the bank",
		"4000000000002085":              "Ends in 2085: 2.2.0 only, with 3DS Method, decoupled, times out",
		"4000000000001185":              "No test card ends so: expect an error",
		"4242 4242 4242 4242":           "A number that everybody knows: authenticated (Y)",
		"4000000000000100":              "No test card ends so: expect an error",
		"4000000000000173":              "No test card ends so: expect an error",
		"4000000000000182":              "No test card ends so: expect an error",
		"4000000000001143":              "No test card ends so: expect an error",
		"400000000103":                  "",
		"40000000000000000103":          "",
		"4000000000000103x":             "",
	} {
		tb.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("card").value = ""`), chromedp.SendKeys(testID("card-number"), typed))
		tb.is(fmt.Sprintf(`document.getElementById("card-means").textContent === %q`, want))
	}
	tb.is(`[...document.querySelectorAll("dl > *")].every((e) => e.matches("div") && e.querySelector("dt + dd"))`)
	tb.is(
		`matchMedia("(prefers-color-scheme: light)").matches && getComputedStyle(document.getElementById("expiry"), "::placeholder").color === getComputedStyle(document.querySelector(".hint")).color`)
	tb.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "forced-colors", Value: "active"}},
		})
		return err
	}))
	tb.is(`getComputedStyle(document.getElementById("pay")).borderTopWidth === "1px"`)
	tb.is(`(({ borderTopColor, borderBottomColor }) => borderTopColor !== borderBottomColor)(getComputedStyle(document.querySelector(".spinner")))`)
	tb.is(`getComputedStyle(document.querySelector("dialog")).outlineStyle === "solid"`)
	tb.is(`(({ dataset }, look) => {
		dataset.state = "over";
		const over = look();
		delete dataset.state;
		return over !== look();
	})(document.querySelector("#steps li"), () => getComputedStyle(document.querySelector("#steps .dot")).backgroundColor)`)
	tb.shot("forced-colours")

	tb.is(`import("/static/wire.js").then(({ showWire }) => {
		showWire([{ number: 1, name: "PARes", from: "ACS", to: "shop", at: new Date(), note: "", times: 1, body: "<a>\r\u2028</a>" }]);
		return document.querySelector("pre").textContent === "<a>\r\u2028</a>\n";
	})`)

	// A notice that fits nothing, in a frame: there, no way to a shop.
	tb.do(chromedp.Evaluate[chromedp.Void](`
		document.body.insertAdjacentHTML("beforeend", '<iframe name="odd"></iframe><form method="post" action="/notify/challenge" target="odd"></form>');
		document.querySelector("form[target]").submit();
	`), browsertest.Poll(`document.querySelector("iframe").contentDocument?.getElementById("way-back")?.hidden`))

	tb.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{
			Source: `Object.defineProperty(window, "sessionStorage", { get() { throw new DOMException("denied", "SecurityError"); } });`,
		})
		return err
	}), chromedp.Navigate(tb.url))
	tb.pay("4000000000000103")
	tb.ends("authenticated", "Y", "05")
}

// TestBrowserReload: a reload in the middle of a challenge goes on with it.
func TestBrowserReload(t *testing.T) {
	tb := openSteps(t, nil)
	tb.pay("4000000000000172")
	tb.do(browsertest.WaitVisible(testID("challenge-frame")), chromedp.Reload())
	tb.inChallenge("approve")
	tb.ends("authenticated", "Y", "05")
}

// TestBrowserKeyboard goes through a payment without a mouse.
func TestBrowserKeyboard(t *testing.T) {
	tb := openSteps(t, nil)
	tb.do(chromedp.Focus(testID("card-number")), chromedp.KeyEvent("\r"), browsertest.WaitVisible(testID("challenge-frame")))
	tb.bankPage()
	tb.do(chromedp.KeyEvent("\t"))
	tb.is(`document.activeElement.id === "dialog-cancel"`)
	tb.do(chromedp.KeyEvent("\t"))
	tb.is(`document.activeElement.tagName === "IFRAME"`)
	tb.do(chromedp.KeyEvent("\r"))
	tb.ends("authenticated", "Y", "05")
}

// TestB10TabReachesEachControlOfTheSteps: with the test cards opened, and one sees where the focus is.
func TestB10TabReachesEachControlOfTheSteps(t *testing.T) {
	tb := openSteps(t, nil)
	tb.do(browsertest.WaitVisible(testID("pay")))
	browsertest.CheckKeyboard(t, tb.ctx, "checkout")
	tb.do(chromedp.Navigate(tb.url), browsertest.WaitVisible(testID("pay")), chromedp.Evaluate[chromedp.Void](`document.getElementById("cards").open = true`))
	browsertest.CheckKeyboard(t, tb.ctx, "checkout and cards")
}

func TestBrowserFaults(t *testing.T) {
	tb := openSteps(t, nil)
	tb.pay("12")
	tb.do(browsertest.WaitVisible(chromedp.CSS("#card-fault")))
	tb.is(`document.activeElement.id === "card"`)
	tb.shot("faults")
	tb.pay("9000100111111111")
	tb.ends("not enrolled", "none", "none")
	tb.shot("not-enrolled")
	tb.do(chromedp.Click(testID("again")))
	tb.pay("4000000000000063")
	tb.ends("error", "none", "none")
	if got := tb.text("result-error"); !strings.HasPrefix(got, "405 from S:") {
		t.Errorf("result-error %q, want 405 from S", got)
	}
	tb.shot("error")
}

// TestBrowserLooks takes the pictures for people to look at, and holds what
// can be measured: nothing wider than the screen, targets of 44 pixels.
func TestBrowserLooks(t *testing.T) {
	tb := openSteps(t, nil)
	for _, look := range views([]view{{390, 844, "light"}, {390, 844, "dark"}, {820, 1180, "light"}, {1280, 800, "light"},
		{1280, 800, "dark"}, {320, 640, "light"}}) {
		name := fmt.Sprintf("look-%dx%d-%s-", look.width, look.height, look.scheme)
		narrow := func() {
			t.Helper()
			tb.is(`document.documentElement.scrollWidth <= innerWidth`)
			tb.is(`[...document.querySelectorAll("button, input, select, summary")].filter((e) => e.offsetHeight > 0 && e.offsetHeight < 44).length === 0`)
		}
		tb.do(browsertest.View(look.width, look.height, look.scheme), chromedp.Navigate(tb.url), browsertest.WaitVisible(testID("pay")))
		browsertest.FullScreenshot(t, tb.ctx, "shop-"+name+"home")
		tb.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("cards").open = true`))
		narrow()
		browsertest.FullScreenshot(t, tb.ctx, "shop-"+name+"cards")
		tb.pay("4000000000000072")
		tb.bankPage()
		narrow()
		tb.shot(name + "challenge")
		tb.inChallenge("approve")
		tb.ends("authenticated", "Y", "05")
		tb.do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("[data-testid=wire-message] details")[5].open = true`))
		narrow()
		browsertest.FullScreenshot(t, tb.ctx, "shop-"+name+"result")
	}
}
