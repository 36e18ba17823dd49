package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/auth"
	"github.com/openthreeds/threeds/internal/browsertest"
)

// send makes a step of threeds.js with a body of its own.
func send(h http.Handler, path, token, binding, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(bindingHeader, binding)
	r.Header.Set("Origin", "https://shop.example")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// asksForSPC is an authentication whose issuer asks for SPC.
func asksForSPC() fakeRow {
	return fakeRow{spc: &auth.BrowserSPC{
		Credentials: json.RawMessage(`[{"rpID":"bank.example","credentialIds":["YWE"]}]`), Transaction: json.RawMessage(`{"challenge":"Yg"}`),
	}}
}

// TestB8StepTakesWhatTheDialogCameTo: an assertion, or one of two words. Anything else has failed, and the page cannot say
// that the time was over.
func TestB8StepTakesWhatTheDialogCameTo(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]auth.SPCAnswer{
		`{"assertion":{"id":"a"}}`:                   {Assertion: json.RawMessage(`{"id":"a"}`)},
		`{"incomplete":"01"}`:                        {Incomplete: "01"},
		`{"incomplete":"02"}`:                        {Incomplete: "02"},
		`{"incomplete":"03"}`:                        {Incomplete: "01"},
		`{"incomplete":"Y"}`:                         {Incomplete: "01"},
		`{"assertion":"signed"}`:                     {Incomplete: "01"},
		`{"assertion":{"id":"a"},"incomplete":"02"}`: {Incomplete: "02"},
		`{}`: {Incomplete: "01"},
	} {
		h, engine := newTestHandler(nil)
		token, mine := engine.add(asksForSPC()), newSecret()
		begun := send(h, "/a/begin", token, mine, `{"data":{},"spc":true}`)
		var view struct {
			Step string
			SPC  struct{ Credentials, Transaction json.RawMessage }
		}
		if err := json.Unmarshal(begun.Body.Bytes(), &view); err != nil || view.Step != "spc" {
			t.Fatalf("begin: %d %s", begun.Code, begun.Body)
		}
		if string(view.SPC.Credentials) != `[{"rpID":"bank.example","credentialIds":["YWE"]}]` || string(view.SPC.Transaction) != `{"challenge":"Yg"}` {
			t.Errorf("the dialog gets %s and %s", view.SPC.Credentials, view.SPC.Transaction)
		}
		for range 2 {
			if w := send(h, "/a/spc", token, mine, body); w.Code != 200 || !strings.Contains(w.Body.String(), `"step":"end"`) {
				t.Errorf("%s: %d %s", body, w.Code, w.Body)
			}
		}
		row := engine.row(token)
		if len(row.answers) != 1 || string(row.answers[0].Assertion) != string(want.Assertion) || row.answers[0].Incomplete != want.Incomplete {
			t.Errorf("%s: %q, want %q", body, row.answers, want)
		}
	}
	h, engine := newTestHandler(nil)
	token, mine := engine.add(asksForSPC()), newSecret()
	send(h, "/a/begin", token, mine, `{"data":{},"spc":true}`)
	if w := send(h, "/a/spc", token, mine, `not JSON`); w.Code != 404 || len(engine.row(token).answers) != 0 {
		t.Errorf("not JSON: %d", w.Code)
	}
	if w := send(h, "/a/spc", token, newSecret(), `{"incomplete":"02"}`); w.Code != 409 || len(engine.row(token).answers) != 0 {
		t.Errorf("another browser: %d", w.Code)
	}
}

// TestB8PageWritesNoElementOfSPC: what the data of the first step says of SPC goes nowhere. Only a page that says that
// its browser has SPC is asked for it.
func TestB8PageWritesNoElementOfSPC(t *testing.T) {
	t.Parallel()
	const data = `{"spc":"true","spcIncompInd":"02","threeDSRequestorSpcSupport":"Y","threeDSRequestorAuthenticationInfo":"x","payeeOrigin":"https://evil.example"}`
	for body, want := range map[string]string{`{"data":` + data + `}`: "", `{"data":` + data + `,"spc":true}`: "true"} {
		h, engine := newTestHandler(nil)
		token := engine.add(asksForSPC())
		if w := send(h, "/a/begin", token, newSecret(), body); w.Code != 200 || strings.Contains(w.Body.String(), `"step":"spc"`) != (want != "") {
			t.Fatalf("begin: %d %s", w.Code, w.Body)
		}
		row := engine.row(token)
		for _, name := range []string{"spcIncompInd", "threeDSRequestorSpcSupport", "threeDSRequestorAuthenticationInfo", "payeeOrigin"} {
			if row.data[name] != "" {
				t.Errorf("%s is %q", name, row.data[name])
			}
		}
		if row.data["spc"] != want {
			t.Errorf("%s: spc is %q, want %q", body, row.data["spc"], want)
		}
	}
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

// TestB8DialogOfTheBrowser: threeds.js gives it what the issuer sent, and tells what it came to, once. A browser that wants
// a click first gets a button. A shopper who cancels meanwhile has the dialog closed, and nothing is told of it.
func TestB8DialogOfTheBrowser(t *testing.T) {
	w := newWorld(t)
	row := asksForSPC()
	row.spc.Transaction = json.RawMessage(`{"challenge":"Yg","payeeOrigin":"https://shop.example","currency":"EUR","value":"12.50","displayName":"Card","icon":"data:,","timeout":"60000"}`)
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
		token := w.engine.add(row)
		if test.isLost {
			w.engine.mu.Lock()
			w.engine.lost = map[string]bool{"spc": true}
			w.engine.mu.Unlock()
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
		got := w.engine.row(token)
		switch {
		case test.status == "cancelled":
			if len(got.answers) != 0 || w.read(`String(window.isAborted)`) != "true" {
				t.Errorf("%s: %q was told", test.does, got.answers)
			}
		case len(got.answers) != 1 || got.answers[0].Incomplete != test.incomplete || (string(got.answers[0].Assertion) == `{"id":"signed"}`) != (test.incomplete == ""):
			t.Errorf("%s: %q was told", test.does, got.answers)
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
