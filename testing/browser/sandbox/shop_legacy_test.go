package sandbox

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/testing/browsertest"
)

// TestBrowserLegacy pays with cards of 1.0.2 alone: the shop falls back by
// itself, the issuer's page comes and goes, /check decides.
func TestBrowserLegacy(t *testing.T) {
	tb := openSteps(t, nil)
	whole := []string{"Card check", "Enrolled?", "Enrolment", "PAReq", "PARes", "Check", "Checked"}
	for _, test := range []struct {
		card        string
		want        string
		status, eci string
	}{
		{"4102010000000000", "authenticated", "Y", "5"},
		{"4102010000000001", "attempted", "A", "6"},
		{"4102010000000002", "failed", "N", "7"},
		{"4102010000000003", "unavailable", "U", "7"},
		{"4102010000000004", "failed", "none", "none"},
	} {
		tb.pay(test.card)
		tb.ends(test.want, test.status, test.eci)
		tb.wire(whole...)
		tb.is(`!document.querySelector("dialog").open && !document.querySelector("iframe")`)
		tb.shot("legacy-" + test.card[12:])
		tb.do(chromedp.Click(testID("again")))
	}
	for _, test := range []struct {
		card string
		want string
		eci  string
	}{{"9000100111111111", "not enrolled", "none"}, {"4102010000001000", "not enrolled", "6"}, {"4102010000002000", "unavailable", "7"}} {
		tb.pay(test.card)
		tb.ends(test.want, "none", test.eci)
		tb.wire(whole[:3]...)
		tb.shot("legacy-" + test.card[12:])
		tb.do(chromedp.Click(testID("again")))
	}
	for _, state := range []struct{ name, want string }{{"check-state", "not enrolled in 2.x, on with 1.0.2"}, {"method-state", "none in 1.0.2"}} {
		if got := tb.text(state.name); got != state.want {
			t.Errorf("%s %q, want %q", state.name, got, state.want)
		}
	}
}

// TestBrowserLegacyLooks: the result and the panel, on a phone in the dark.
func TestBrowserLegacyLooks(t *testing.T) {
	tb := openSteps(t, nil)
	tb.do(browsertest.View(390, 844, "dark"))
	tb.pay("4102010000000000")
	tb.ends("authenticated", "Y", "5")
	tb.do(chromedp.Evaluate[chromedp.Void](`for (const d of document.querySelectorAll("[data-testid=wire-message] details")) d.open = true`))
	tb.is(`document.documentElement.scrollWidth <= innerWidth`)
	browsertest.FullScreenshot(t, tb.ctx, "shop-legacy-phone")
}
