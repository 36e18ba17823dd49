package main

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/browsertest"
	"github.com/openthreeds/threeds/sandbox"
)

// A shopper is a real browser at the demo shop of a running sandbox.
type shopper struct {
	t   *testing.T
	ctx context.Context
}

func testID(name string) chromedp.CSS { return chromedp.CSS(`[data-testid="` + name + `"]`) }

func (s *shopper) do(steps ...chromedp.Action[chromedp.Void]) {
	s.t.Helper()
	if err := chromedp.Do(s.ctx, steps...); err != nil {
		browsertest.Screenshot(s.t, s.ctx, "flow-failed-"+strings.ReplaceAll(s.t.Name(), "/", "-"))
		s.t.Fatal(err)
	}
}

func (s *shopper) text(name string) string {
	s.t.Helper()
	text, err := chromedp.Run(s.ctx, chromedp.TextContent(testID(name)))
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(text)
}

// issuer waits until the issuer's page in the dialog shows a control, and
// returns the frame.
func (s *shopper) issuer(control string) *chromedp.Node {
	s.t.Helper()
	frame := browsertest.IssuerFrame(s.t, s.ctx, `[data-testid="challenge-frame"]`)
	s.do(chromedp.WaitVisible(testID(control), chromedp.FromNode(frame)))
	return frame
}

// TestBrowserFlow pays in the shop in a real Chromium: 3DS Method there, not
// there and silent; challenge passed, failed, answered by a person, cancelled.
// Everything is real but the money: the page, the shop's back end, the server,
// mutual TLS to the directory server, the issuer's pages, the RReq.
func TestBrowserFlow(t *testing.T) {
	for _, method := range []struct{ name, digit, state string }{
		{"method", "0", "answered (Y)"},
		{"no method", "1", "none (U)"},
		{"method silent", "2", "silent (N)"},
	} {
		t.Run(method.name, func(t *testing.T) {
			t.Parallel() // there is much to be waited for
			w := startSandbox(t)
			s := &shopper{t, browsertest.NewBrowser(t)}
			s.do(browsertest.View(1280, 900, "light"))
			for _, end := range []struct{ name, digits, word, status string }{
				{"pass", "70", "authenticated", "Y"},
				{"fail", "71", "failed", "N"},
				{"person", "72", "authenticated", "Y"},
				{"cancel", "72", "cancelled", "N"},
			} {
				t.Run(end.name, func(t *testing.T) {
					s := &shopper{t, s.ctx}
					s.pay(w.Shop+"/steps", "4000000000000"+method.digit+end.digits, end.name)
					s.do(chromedp.WaitVisible(testID("result-word")))
					if word, status := s.text("result-word"), s.text("result-status"); word != end.word || status != end.status {
						t.Errorf("result %q %q, want %q %q", word, status, end.word, end.status)
					}
					if got := s.text("method-state"); !strings.HasSuffix(got, method.state[strings.Index(method.state, "("):]) {
						t.Errorf("method-state %q, want %q", got, method.state)
					}
					browsertest.Screenshot(t, s.ctx, "flow-"+strings.ReplaceAll(method.name, " ", "-")+"-"+end.name)
				})
			}
		})
	}
}

// pay buys with a card in 2.3.1, where the 3DS Method has 5 s, and does what
// the cardholder does.
func (s *shopper) pay(shop, pan, deed string) {
	s.t.Helper()
	s.do(
		chromedp.Navigate(shop),
		chromedp.WaitVisible(testID("pay")),
		chromedp.SetValue(testID("card-number"), pan),
		chromedp.SetValue(testID("version"), "2.3.1"),
		chromedp.Click(testID("pay")),
	)
	switch deed {
	case "person":
		frame := s.issuer("otp-input")
		browsertest.Screenshot(s.t, s.ctx, "flow-one-time-code-"+pan[len(pan)-3:])
		s.do(
			chromedp.SendKeys(testID("otp-input"), "123456", chromedp.FromNode(frame)),
			chromedp.Click(testID("submit"), chromedp.FromNode(frame)),
		)
	case "cancel":
		s.do(chromedp.Click(testID("cancel"), chromedp.FromNode(s.issuer("cancel"))))
	}
}

// TestBrowserFrictionless pays without a question asked, in every version.
func TestBrowserFrictionless(t *testing.T) {
	w := startSandbox(t)
	s := &shopper{t, browsertest.NewBrowser(t)}
	s.do(browsertest.View(390, 844, "dark"))
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		s.do(
			chromedp.Navigate(w.Shop+"/steps"),
			chromedp.WaitVisible(testID("pay")),
			chromedp.SetValue(testID("card-number"), "4000000000000003"),
			chromedp.SetValue(testID("version"), version),
			chromedp.Click(testID("pay")),
			chromedp.WaitVisible(testID("result-word")),
		)
		if word, eci := s.text("result-word"), s.text("result-eci"); word != "authenticated" || eci != "05" {
			t.Errorf("%s: %s %s, want authenticated 05", version, word, eci)
		}
	}
	browsertest.FullScreenshot(t, s.ctx, "flow-frictionless-phone")
}

// TestBrowserTroubles has go wrong what the shop offers: all of it is in the sandbox's
// table, and of some of each kind the shop knows the ending, and never believes the browser.
func TestBrowserTroubles(t *testing.T) {
	t.Parallel() // there is much to be waited for
	w := startSandbox(t)
	s := &shopper{t, browsertest.NewBrowser(t)}
	s.do(browsertest.View(1280, 900, "light"), chromedp.Navigate(w.Shop+"/steps"), chromedp.WaitVisible(testID("pay")))
	offered, err := chromedp.Run(s.ctx, chromedp.Evaluate[[]string](`[...document.querySelectorAll("#trouble option")].map(o => o.value).filter(v => v)`))
	if err != nil {
		t.Fatal(err)
	}
	for _, trouble := range offered {
		line := regexp.MustCompile(`^REASON-\d\d$`).ReplaceAllString(trouble, "REASON-..")
		if !strings.Contains(sandbox.MerchantTable(), "\nmerchant "+line+" ") {
			t.Errorf("the sandbox knows no %s", trouble)
		}
	}
	for _, end := range []struct{ trouble, digits, word string }{
		{"CANCEL", "170", "cancelled"},
		{"FAULT-UNFRAMED", "172", "cancelled"}, // nobody sees the page, and closes the window
		{"FAULT-STUCK", "170", "authenticated"},
		{"FAULT-FORGED", "171", "failed"},
		{"FAULT-LATE", "170", "authenticated"},
		{"FAULT-HTTP500", "103", "error"},
		{"REASON-10", "113", "failed"},
	} {
		s.do(
			chromedp.Navigate(w.Shop+"/steps"),
			chromedp.WaitVisible(testID("pay")),
			chromedp.SetValue(testID("card-number"), "4000000000000"+end.digits),
			chromedp.SetValue(testID("trouble-kind"), end.trouble),
			chromedp.Click(testID("pay")),
		)
		if end.trouble == "FAULT-UNFRAMED" {
			s.do(chromedp.WaitVisible(testID("challenge-frame")), chromedp.Click(testID("challenge-cancel")))
		}
		s.do(chromedp.WaitVisible(testID("result-word")))
		if word := s.text("result-word"); word != end.word {
			t.Errorf("%s: the shop says %q, want %q", end.trouble, word, end.word)
		}
		if end.trouble == "REASON-10" && s.text("result-reason") != "10, stolen card" {
			t.Errorf("the shop says %q", s.text("result-reason"))
		}
	}
}
