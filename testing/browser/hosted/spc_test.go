package hosted

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/edge/browser/enginetest"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// asksForSPC is an authentication whose issuer asks for SPC.
func asksForSPC() enginetest.Row {
	return enginetest.Row{SPC: &session.BrowserSPC{
		Credentials: json.RawMessage(`[{"rpID":"bank.example","credentialIds":["YWE"]}]`), Transaction: json.RawMessage(`{"challenge":"Yg"}`),
	}}
}

// fakeDialog replaces the browser's dialog by one that does what window.does says.
const fakeDialog = `window.PaymentRequest = class {
	static async securePaymentConfirmationAvailability() { return "available" }
	constructor(methods) { window.asked = methods[0] }
	async show() {
		window.shown = (window.shown ?? 0) + 1
		if (window.does == "wait") return new Promise((_, reject) => { this.reject = reject })
		if (window.does == "click" && window.shown == 1) throw new DOMException("a click is wanted", "SecurityError")
		if (window.does != "click" && window.does != "confirm") throw new DOMException("no", window.does)
		return { complete: async () => {}, details: { toJSON: () => ({ id: "signed" }) } }
	}
	async abort() { window.isAborted = true; this.reject(new DOMException("no", "AbortError")) }
}; undefined`

// TestB8DialogOfTheBrowser: threeds.js gives it what the issuer sent, and tells what it came to, once. A
// browser that wants a click first gets a button. If the shopper cancels meanwhile, threeds.js closes the
// dialog and reports nothing.
func TestB8DialogOfTheBrowser(t *testing.T) {
	w := newWorld(t)
	row := asksForSPC()
	row.SPC.Transaction = json.RawMessage(
		`{"challenge":"Yg","payeeOrigin":"https://shop.example","currency":"EUR","value":"12.50","displayName":"Card","icon":"data:,","timeout":"60000"}`)
	for _, test := range []struct {
		does, status, incomplete string
		shown                    int
		isLost                   bool // the first answer of the server is lost
	}{
		{does: "confirm", status: "completed", shown: 1},
		{does: "confirm", status: "completed", shown: 1, isLost: true},
		{does: "click", status: "completed", shown: 2},
		{does: "NotAllowedError", status: "completed", incomplete: "02", shown: 1},
		{does: "DataError", status: "completed", incomplete: "01", shown: 1},
		{does: "wait", status: "cancelled", shown: 1},
	} {
		w.openShop()
		if test.does == "click" {
			w.do(browsertest.View(320, 600, "dark"))
		}
		w.do(chromedp.Evaluate[chromedp.Void](fakeDialog), chromedp.Evaluate[chromedp.Void](fmt.Sprintf("window.does = %q; undefined", test.does)))
		token := w.engine.Add(row)
		if test.isLost {
			w.engine.Lose("spc")
		}
		w.start(token, "")
		switch test.does {
		case "click":
			w.until(mark("continue") + " && document.activeElement.shadowRoot.activeElement === " + mark("continue"))
			w.until("document.documentElement.scrollWidth <= 320")
			browsertest.Screenshot(t, w.ctx, "browser-spc-click")
			w.do(chromedp.KeyEvent("\r"))
		case "wait":
			w.until("window.shown === 1")
			w.do(chromedp.Evaluate[chromedp.Void](mark("cancel")+".click()"), chromedp.Evaluate[chromedp.Void](mark("confirm-cancel")+".click()"))
		}
		w.ends(test.status, map[bool]string{true: "begin end", false: "begin result end"}[test.status == "cancelled"])
		got := w.engine.Row(token)
		switch {
		case test.status == "cancelled":
			if len(got.Answers) != 0 || w.read(`String(window.isAborted)`) != "true" {
				t.Errorf("%s: %q was told", test.does, got.Answers)
			}
		case len(got.Answers) != 1 || got.Answers[0].Incomplete != test.incomplete ||
			(string(got.Answers[0].Assertion) == `{"id":"signed"}`) != (test.incomplete == ""):
			t.Errorf("%s: %q was told", test.does, got.Answers)
		}
		if shown := w.read(`String(window.shown)`); shown != fmt.Sprint(test.shown) {
			t.Errorf("%s: the dialog was shown %s times", test.does, shown)
		}
		const data = `JSON.stringify([asked.supportedMethods, asked.data.rpId, [...asked.data.challenge], asked.data.credentialIds.map((c) => [...c]),
			asked.data.instrument.displayName, asked.data.payeeOrigin, asked.data.timeout])`
		if given := w.read(data); given != `["secure-payment-confirmation","bank.example",[98],[[97,97]],"Card","https://shop.example",60000]` {
			t.Errorf("%s: the dialog gets %s", test.does, given)
		}
	}
	w.do(browsertest.View(1280, 900, "light"))
}
