package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/browsertest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// enrolCredential has the browser make a credential for payments at the issuer of the sandbox.
const enrolCredential = `(async () => {
	const base64url = (b) => btoa(String.fromCharCode(...new Uint8Array(b))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");
	const made = await navigator.credentials.create({ publicKey: {
		challenge: new Uint8Array(32), rp: { id: "localhost", name: "Bank" },
		user: { id: new Uint8Array(8), name: "alex", displayName: "Alex" }, pubKeyCredParams: [{ type: "public-key", alg: -7 }],
		authenticatorSelection: { userVerification: "required", residentKey: "required", authenticatorAttachment: "platform" },
		extensions: { payment: { isPayment: true } } } })
	return JSON.stringify({ acctNumber: "4000000000000103", credentialId: base64url(made.rawId), publicKey: base64url(made.response.getPublicKey()) })
})()`

// openConfirming starts a Chromium that has Secure Payment Confirmation, with an authenticator in it, and has it make a
// credential that the issuer of the sandbox is told of.
func openConfirming(t *testing.T, w *rig.World) *shopper {
	t.Helper()
	opened := browsertest.NewBrowser(t, "--enable-features=SecurePaymentConfirmationBrowser,SecurePaymentConfirmation",
		"--enable-blink-features=SecurePaymentConfirmation,SecurePaymentConfirmationAvailabilityAPI")
	s := &shopper{t, opened}
	if _, err := chromedp.Call(opened, webauthn.Enable, webauthn.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	_, err := chromedp.Call(opened, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{
		Options: &webauthn.VirtualAuthenticatorOptions{
			Protocol: "ctap2", Transport: "internal", HasResidentKey: true, HasUserVerification: true,
			AutomaticPresenceSimulation: true, IsUserVerified: true,
		},
	})
	rig.Must(t, err)
	s.do(browsertest.View(1280, 900, "light"), chromedp.Navigate(localShop(w)+"/steps"), browsertest.WaitVisible(testID("pay")))
	made, err := chromedp.Run(opened, chromedp.Evaluate[string](enrolCredential, chromedp.EvalAwaitPromise))
	rig.Must(t, err)
	res, said := send(t, http.DefaultClient, "POST", w.Control+"/spc", made)
	if res.StatusCode != http.StatusCreated {
		t.Fatalf("the issuer does not take the credential: %d %s", res.StatusCode, said)
	}
	return s
}

// localShop is the address of the demo shop under the name that credentials have.
func localShop(w *rig.World) string { return strings.Replace(w.Shop, "127.0.0.1", "localhost", 1) }

// setDialog chooses what the cardholder does in the browser's dialog.
func (s *shopper) setDialog(mode page.SetSPCTransactionModeMode) {
	s.t.Helper()
	_, err := chromedp.Call(s.ctx, page.SetSPCTransactionMode, page.SetSPCTransactionModeParams{Mode: mode})
	rig.Must(s.t, err)
}

// TestSPCInChromium: the cardholder confirms in the browser's own dialog, with a key that the
// issuer knows, and the second AReq is authenticated; a dialog that is cancelled is told so.
func TestSPCInChromium(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t)
	s := openConfirming(t, w)
	for mode, want := range map[page.SetSPCTransactionModeMode]string{
		page.SetSPCTransactionModeModeAutoAccept: `"threeDSReqAuthMethod": "09"`,
		page.SetSPCTransactionModeModeAutoReject: `"spcIncompInd": "02"`,
	} {
		s.setDialog(mode)
		s.do(
			chromedp.Navigate(localShop(w)+"/steps"), browsertest.WaitVisible(testID("pay")),
			chromedp.SetValue(testID("card-number"), "4000000000000103"), chromedp.SetValue(testID("version"), "2.3.1"),
			chromedp.SetValue(testID("trouble-kind"), "SPC"), chromedp.Click(testID("pay")),
			browsertest.WaitVisible(testID("result-word")),
		)
		if word, status := s.text("result-word"), s.text("result-status"); word != "authenticated" || status != "Y" {
			t.Errorf("%s: the second AReq ends %q %q", mode, word, status)
		}
		second, err := chromedp.Run(s.ctx, chromedp.Evaluate[string](
			`document.querySelectorAll('[data-testid="wire-message"][data-name="AReq"] pre')[1]?.textContent ?? "none"`))
		if rig.Must(t, err); !strings.Contains(second, want) {
			t.Errorf("%s: the second AReq has no %s: %s", mode, want, second)
		}
	}
}

// confirmingPage is a page of a merchant that allows no more than D61 names.
const confirmingPage = `<!doctype html><html lang="en"><title>Shop</title><button id="pay">Pay</button>
<script type="module" nonce="n">
import { authenticate } from %q
pay.onclick = () => authenticate({ url: decodeURIComponent(location.hash.slice(1)) }).then((end) => (document.title = end.status))
</script>`

// TestB8SPCOfPages: threeds.js in a merchant's page, and the hosted page, show the browser's own dialog, and the server
// sends the second AReq with what became of it. The issuer checks the assertion. A browser without SPC is not asked.
func TestB8SPCOfPages(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t, "--strict")
	s := openConfirming(t, w)
	shop := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		rw.Header().Set("Content-Security-Policy", fmt.Sprintf("default-src 'none'; script-src 'nonce-n' %[1]s; connect-src %[1]s; "+
			"frame-src %[1]s; form-action 'none'; base-uri 'none'; require-trusted-types-for 'script'", w.Browser))
		_, _ = fmt.Fprintf(rw, confirmingPage, w.Browser+"/threeds.js")
	}))
	t.Cleanup(shop.Close)
	const unconfirmed = "4000000000000003" // a card with a 3DS Method, of which the issuer knows no credential
	for _, test := range []struct {
		name, card string
		isHosted   bool
		mode       page.SetSPCTransactionModeMode
		without    bool // the page says that the browser has no SPC
		want       []string
	}{
		{name: "confirmed", card: "4000000000000103", mode: page.SetSPCTransactionModeModeAutoAccept, want: []string{`"threeDSReqAuthMethod":"09"`}},
		{name: "cancelled", card: "4000000000000103", mode: page.SetSPCTransactionModeModeAutoReject, want: []string{`"spcIncompInd":"02"`}},
		{name: "hosted, confirmed", card: "4000000000000103", isHosted: true, mode: page.SetSPCTransactionModeModeAutoAccept,
			want: []string{`"threeDSReqAuthMethod":"09"`}},
		{name: "hosted, cancelled", card: "4000000000000103", isHosted: true, mode: page.SetSPCTransactionModeModeAutoReject, want: []string{`"spcIncompInd":"02"`}},
		{name: "a challenge follows", card: "4000000000000170", mode: page.SetSPCTransactionModeModeAutoReject, want: []string{`"spcIncompInd":"02"`}},
		{name: "with a 3DS Method", card: unconfirmed, mode: page.SetSPCTransactionModeModeAutoReject,
			want: []string{`"spcIncompInd":"0`, `"threeDSCompInd":"Y"`, `"threeDSMethodId":"ID"`}},
		{name: "not offered", card: "4000000000000103", without: true},
	} {
		s.t = t
		if !test.without {
			s.setDialog(test.mode)
		}
		a := createOffer(w, test.card)
		id := a.Text("id")
		browser, _ := a["browser"].(map[string]any)
		address := rig.Object(browser).Text("url")
		end := `document.querySelector("[data-testid=hosted-end]") ? "completed" : ""`
		if test.isHosted {
			s.do(chromedp.Navigate(strings.Replace(address, "127.0.0.1", "localhost", 1)))
		} else {
			end = `document.title == "Shop" ? "" : document.title`
			s.do(chromedp.Navigate("about:blank"), chromedp.Navigate(strings.Replace(shop.URL, "127.0.0.1", "localhost", 1)+"/#"+url.QueryEscape(address)),
				browsertest.WaitVisible(chromedp.CSS("#pay")))
			if test.without {
				s.do(chromedp.Evaluate[chromedp.Void](`delete window.PaymentRequest; undefined`))
			}
			s.do(chromedp.Click(chromedp.CSS("#pay")))
		}
		status := ""
		waittest.Until(t, test.name+" to end", func() bool {
			var err error
			status, err = chromedp.Run(s.ctx, chromedp.Evaluate[string](end))
			return err == nil && status != ""
		})
		res, text := w.Call("GET", "/authentications/"+id+"?wait=10", w.APIKey, nil)
		var got rig.Object
		rig.Must(t, json.Unmarshal(text, &got))
		outcome, _ := got["outcome"].(map[string]any)
		if status != "completed" || res.StatusCode != http.StatusOK || got.Text("id") != id || rig.Object(outcome).Text("result") != "authenticated" {
			t.Errorf("%s: the page ends %s, the object is %s", test.name, status, text)
		}
		last, _ := got["ares"].(map[string]any)
		second := rig.Object(last).Text("threeDSServerTransID")
		if (second == id) != test.without {
			t.Errorf("%s: the last ARes is about %s", test.name, second)
		}
		_, first := send(t, http.DefaultClient, "GET", w.Control+"/exchanges?transID="+id, "")
		if strings.Contains(first, "threeDSRequestorSpcSupport") == test.without {
			t.Errorf("%s: the first AReq: %s", test.name, first)
		}
		_, exchanges := send(t, http.DefaultClient, "GET", w.Control+"/exchanges?transID="+second, "")
		compact := strings.NewReplacer(" ", "", "\n", "", id, "ID", `\"`, `"`).Replace(exchanges)
		// A busy machine may take longer for the 3DS Method than the protocol's 5 s. Then the first AReq says N,
		// and so has the second.
		isLate := strings.Contains(strings.NewReplacer(" ", "", `\"`, `"`).Replace(first), `"threeDSCompInd":"N"`)
		for _, want := range test.want {
			if isLate && strings.Contains(want, "threeDSMethodId") {
				continue
			}
			if isLate {
				want = strings.Replace(want, `"threeDSCompInd":"Y"`, `"threeDSCompInd":"N"`, 1)
			}
			if !strings.Contains(compact, want) {
				t.Errorf("%s: the second AReq has no %s: %s", test.name, want, exchanges)
			}
		}
	}
}

// TestB8StepsOfSPCWithTheSandbox: the steps that threeds.js makes, without a browser: a strict directory server takes
// the second AReq, and an issuer that asks for a challenge then sends its result to the one authentication.
func TestB8StepsOfSPCWithTheSandbox(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t, "--strict")
	for _, test := range []struct{ card, told, want, result string }{
		{"4000000000000103", `{"incomplete":"02"}`, `"spcIncompInd":"02"`, "authenticated"},
		{"4000000000000103", `{"incomplete":"03"}`, `"spcIncompInd":"01"`, "authenticated"}, // a page cannot say that the time is over
		{"4000000000000103", `{"assertion":{"id":"x","type":"public-key"}}`, `"threeDSReqAuthMethod":"09"`, "authenticated"},
		{"4000000000000170", `{"incomplete":"01"}`, `"spcIncompInd":"01"`, "authenticated"},
	} {
		a := createOffer(w, test.card)
		id := a.Text("id")
		browser, _ := a["browser"].(map[string]any)
		base, token, _ := strings.Cut(rig.Object(browser).Text("url"), "/a/")
		step := func(method, path, body string) rig.Object {
			t.Helper()
			res, text := send(t, http.DefaultClient, method, base+"/a/"+path, body, "Authorization", "Bearer "+token,
				"Threeds-Binding", strings.Repeat("b", 42)+"A", "Content-Type", "application/json")
			var v rig.Object
			if err := json.Unmarshal([]byte(text), &v); err != nil || res.StatusCode != http.StatusOK {
				t.Fatalf("%s: %d %s", path, res.StatusCode, text)
			}
			return v
		}
		until := func(v rig.Object, steps ...string) rig.Object {
			t.Helper()
			for !slices.Contains(steps, v.Text("step")) {
				v = step("GET", fmt.Sprintf("state?wait=20&after=%v", v["version"]), "")
			}
			return v
		}
		v := until(step("POST", "begin", `{"data":{"browserLanguage":"en","browserAcceptHeader":"text/html",`+
			`"browserJavaEnabled":"false","browserColorDepth":"24","browserScreenHeight":"900","browserScreenWidth":"1440","browserTZ":"-60"},"spc":true}`),
			"spc", "end")
		if _, has := v["spc"].(map[string]any); !has {
			t.Fatalf("%s: %v", test.card, v)
		}
		v = until(step("POST", "spc", test.told), "challenge", "end")
		if form, ok := v["challenge"].(map[string]any); ok {
			creq, _ := form["creq"].(string)
			send(t, http.DefaultClient, "POST", rig.Object(form).Text("url"), url.Values{"creq": {creq}}.Encode(), "Content-Type", "application/x-www-form-urlencoded")
		}
		_, text := w.Call("GET", "/authentications/"+id+"?wait=10", w.APIKey, nil)
		var got rig.Object
		rig.Must(t, json.Unmarshal(text, &got))
		outcome, _ := got["outcome"].(map[string]any)
		last, _ := got["ares"].(map[string]any)
		second := rig.Object(last).Text("threeDSServerTransID")
		if rig.Object(outcome).Text("result") != test.result || second == id || second == "" {
			t.Errorf("%s %s: the object is %s", test.card, test.told, text)
		}
		_, exchanges := send(t, http.DefaultClient, "GET", w.Control+"/exchanges?transID="+second, "")
		if compact := strings.NewReplacer(" ", "", "\n", "", `\"`, `"`).Replace(exchanges); !strings.Contains(compact, test.want) {
			t.Errorf("%s %s: the second AReq has no %s: %s", test.card, test.told, test.want, exchanges)
		}
	}
}

// createOffer creates an authentication of a browser that offers SPC, with the merchant whose issuers ask for it.
func createOffer(w *rig.World, card string) rig.Object {
	w.T.Helper()
	res, text := w.Call("POST", "/authentications", w.APIKey, rig.Object{
		"acctNumber": card, "cardExpiryDate": "3012", "purchaseAmount": "1250", "purchaseCurrency": "978",
		"messageVersion": "2.3.1", "acquirerMerchantID": "SPC", "acquirerCountryCode": "208", "acquirerCountryCodeSource": "01",
		"threeDSRequestorSpcSupport": "Y", "payeeOrigin": "https://shop.example",
	})
	var a rig.Object
	if err := json.Unmarshal(text, &a); err != nil || res.StatusCode != http.StatusCreated {
		w.T.Fatalf("POST /authentications: %d %s", res.StatusCode, text)
	}
	return a
}
