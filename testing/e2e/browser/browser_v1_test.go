package browser

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/testing/browsertest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestBrowserV1 pays in the shop with cards that take part in 3-D Secure 1.0.2
// alone. /preauth answers 305 and the shop falls back: the directory server of
// 1.0.2 over mutual TLS, the issuer's page in the frame, the signed PARes.
func TestBrowserV1(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t)
	s := &shopper{t, openTab(t)}
	s.do(browsertest.View(1280, 900, "light"))
	for i, test := range []struct{ pan, word, status, eci string }{
		// One of each ending.
		{"4102010000000000", "authenticated", "Y", "5"},
		{"5102010000000001", "attempted", "A", "1"},
		{"3502010000000002", "failed", "N", "7"},
		{"4102010000002000", "unavailable", "none", "7"},
		{"4102010000001000", "not enrolled", "none", "6"},
		// The other schemes, and other ways there.
		{"5102010000000000", "authenticated", "Y", "2"},
		{"340201000000000", "authenticated", "Y", "5"},
		{"36020100000000", "authenticated", "Y", "5"},
		{"6502010000000003", "unavailable", "U", "7"},
		{"4102010000000004", "failed", "none", "none"},
		{"4102019900000000", "not enrolled", "none", "6"},
		{"9000100111111111", "not enrolled", "none", "none"},
	} {
		if i >= 5 && !browsertest.HasLongWalks() {
			break
		}
		t.Run(test.pan, func(t *testing.T) {
			s := &shopper{t, s.ctx}
			s.do(
				chromedp.Navigate(w.Shop+"/steps"),
				browsertest.WaitVisible(testID("pay")),
				chromedp.SetValue(testID("card-number"), test.pan),
				chromedp.Click(testID("pay")),
				browsertest.WaitVisible(testID("result-word")),
			)
			if word, status, eci := s.text("result-word"), s.text("result-status"), s.text("result-eci"); word != test.word || status != test.status || eci != test.eci {
				t.Errorf("%s %s %s, want %s %s %s", word, status, eci, test.word, test.status, test.eci)
			}
			browsertest.Screenshot(t, s.ctx, "v1-"+test.pan)
		})
	}
	if got := s.text("check-state"); got != "not enrolled in 2.x, on with 1.0.2" {
		t.Errorf("check-state %q", got)
	}
}
