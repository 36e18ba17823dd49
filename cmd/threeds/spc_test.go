package main

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/browsertest"
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

// TestSPCInChromium: the cardholder confirms in the browser's own dialog, with a key that the
// issuer knows, and the second AReq is authenticated; a dialog that is cancelled is told so.
func TestSPCInChromium(t *testing.T) {
	w := startSandbox(t)
	opened := browsertest.NewBrowser(t, "--enable-features=SecurePaymentConfirmationBrowser,SecurePaymentConfirmation",
		"--enable-blink-features=SecurePaymentConfirmation,SecurePaymentConfirmationAvailabilityAPI")
	ctx, cancel := context.WithTimeout(opened, time.Minute)
	defer cancel()
	s := &shopper{t, ctx}
	if _, err := chromedp.Call(ctx, webauthn.Enable, webauthn.EnableParams{}); err != nil {
		t.Fatal(err)
	}
	_, err := chromedp.Call(ctx, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{
		Options: &webauthn.VirtualAuthenticatorOptions{
			Protocol: "ctap2", Transport: "internal", HasResidentKey: true, HasUserVerification: true,
			AutomaticPresenceSimulation: true, IsUserVerified: true,
		},
	})
	must(t, err)
	at := strings.Replace(w.Shop, "127.0.0.1", "localhost", 1) + "/steps"
	s.do(browsertest.View(1280, 900, "light"), chromedp.Navigate(at), chromedp.WaitVisible(testID("pay")))
	made, err := chromedp.Run(ctx, chromedp.Evaluate[string](enrolCredential, chromedp.EvalAwaitPromise))
	must(t, err)
	res, said := send(t, http.DefaultClient, "POST", w.Control+"/spc", made)
	if res.StatusCode != http.StatusCreated {
		t.Fatalf("the issuer does not take the credential: %d %s", res.StatusCode, said)
	}
	for mode, want := range map[page.SetSPCTransactionModeMode]string{
		page.SetSPCTransactionModeModeAutoAccept: `"threeDSReqAuthMethod": "09"`,
		page.SetSPCTransactionModeModeAutoReject: `"spcIncompInd": "02"`,
	} {
		_, err = chromedp.Call(ctx, page.SetSPCTransactionMode, page.SetSPCTransactionModeParams{Mode: mode})
		must(t, err)
		s.do(
			chromedp.Navigate(at), chromedp.WaitVisible(testID("pay")),
			chromedp.SetValue(testID("card-number"), "4000000000000103"), chromedp.SetValue(testID("version"), "2.3.1"),
			chromedp.SetValue(testID("trouble-kind"), "SPC"), chromedp.Click(testID("pay")),
			chromedp.WaitVisible(testID("result-word")),
		)
		if word, status := s.text("result-word"), s.text("result-status"); word != "authenticated" || status != "Y" {
			t.Errorf("%s: the second AReq ends %q %q", mode, word, status)
		}
		second, err := chromedp.Run(ctx, chromedp.Evaluate[string](
			`document.querySelectorAll('[data-testid="wire-message"][data-name="AReq"] pre')[1]?.textContent ?? "none"`))
		if must(t, err); !strings.Contains(second, want) {
			t.Errorf("%s: the second AReq has no %s: %s", mode, want, second)
		}
	}
}
