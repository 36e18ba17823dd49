package sandbox

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/run/playground"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// merchantPage is a page that allows nothing but what threeds.js needs.
const merchantPage = `<!doctype html><html lang="en"><title>Shop</title><h1>Shop</h1>
<script type="module" nonce="n">
import { authenticate } from "/threeds.js"
window.steps = []
window.pay = (url) => authenticate({ url, onStep: (s) => steps.push(s) }).then((end) => (window.end = end))
window.isReady = true
</script>`

// TestB2PagesAgainstTheSandbox: in Chromium, threeds.js and the hosted page take test cards to their right ends.
func TestB2PagesAgainstTheSandbox(t *testing.T) {
	tab := browsertest.NewBrowser(t)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	base := "http://" + l.Addr().String()
	shop := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'nonce-n' "+base+"; connect-src "+base+"; frame-src "+base)
		_, _ = w.Write([]byte(merchantPage))
	})
	p, err := playground.Start(t.Context(), playground.Options{
		Dir: t.TempDir(), API: l, Log: slog.New(slog.DiscardHandler), Address: &playground.Address{PublicURL: base, Shop: shop},
	})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	defer func() {
		stop()
		<-ended
	}()
	do := func(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		if err := chromedp.Do(tab, steps...); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, card, button, status, result string }{
		{"frictionless", "4000000000000003", "", "completed", "authenticated"},
		{"challenge pass", "4000000000000072", "submit", "completed", "authenticated"},
		{"challenge cancelled at the bank", "4000000000000072", "cancel", "completed", "abandoned"},
	} {
		t.Run(c.name, func(t *testing.T) {
			id, url := createAuthentication(t, base, c.card, base+"/")
			do(t, chromedp.Navigate(base))
			until(t, tab, `window.isReady === true`)
			do(t, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void pay(%q)`, url)))
			if c.button != "" {
				pressAtBank(t, tab, c.button)
			}
			until(t, tab, `window.end !== undefined`)
			end, err := chromedp.Run(tab, chromedp.Evaluate[string](`end.id + " " + end.status + " " + steps.at(-1)`))
			if err != nil || end != id+" "+c.status+" end" {
				t.Errorf("%s, want %s %s: %v", end, id, c.status, err)
			}
			if got := readResult(t, base, id); got != c.result {
				t.Errorf("result %s, want %s", got, c.result)
			}
		})
		t.Run("hosted, "+c.name, func(t *testing.T) {
			id, url := createAuthentication(t, base, c.card, base+"/?order=1")
			do(t, chromedp.Navigate(url))
			if c.button != "" {
				pressAtBank(t, tab, c.button)
			}
			until(t, tab, fmt.Sprintf(`location.href === %q`, base+"/?order=1&authentication="+id))
			if got := readResult(t, base, id); got != c.result {
				t.Errorf("result %s, want %s", got, c.result)
			}
		})
	}
}

// until waits until an expression is true in the page, whatever pages come before.
func until(t *testing.T, tab context.Context, expression string) {
	t.Helper()
	if err := poll(tab, expression); err != nil {
		browsertest.FailureScreenshot(t, tab, "pages-failed-"+strings.ReplaceAll(t.Name(), "/", "-"))
		t.Fatal(err)
	}
}

// poll is until for goroutines: it returns an error.
func poll(tab context.Context, expression string) error {
	err := browsertest.Wait(tab, func() (bool, error) { return chromedp.Run(tab, chromedp.Evaluate[bool](expression)) })
	if err != nil {
		err = fmt.Errorf("%s: %w", expression, err)
	}
	return err
}

// pressAtBank enters the code at the bank's page, in whichever frame it is, and presses one of its buttons.
func pressAtBank(t *testing.T, tab context.Context, button string) {
	t.Helper()
	if err := pressButton(tab, button); err != nil {
		t.Fatal(err)
	}
}

// pressButton is pressAtBank for goroutines: it returns an error.
func pressButton(tab context.Context, button string) error {
	press := fmt.Sprintf(`(() => {
		const b = document.querySelector("button[value=%s]"), code = document.querySelector("[data-testid=challenge-code]")
		if (b && code) code.value = "123456"
		b?.click()
		return !!b
	})()`, button)
	if err := browsertest.Wait(tab, func() (bool, error) { return browsertest.InAnyFrame(tab, press) }); err != nil {
		return fmt.Errorf("no button %s: %w", button, err)
	}
	return nil
}

// createAuthentication begins an authentication and returns its id and the address for its browser.
func createAuthentication(t *testing.T, base, card, returnURL string) (id, url string) {
	t.Helper()
	body := fmt.Sprintf(`{"acctNumber":%q,"cardExpiryDate":"3012","purchaseAmount":"12900","purchaseCurrency":"978","returnUrl":%q}`, card, returnURL)
	var got struct {
		ID      string
		Browser struct{ URL string }
	}
	callAPI(t, "POST", base+"/authentications", body, &got)
	if got.Browser.URL == "" {
		t.Fatalf("no browser in the answer of %s", got.ID)
	}
	return got.ID, got.Browser.URL
}

func readResult(t *testing.T, base, id string) string {
	t.Helper()
	var got struct{ Outcome struct{ Result string } }
	callAPI(t, "GET", base+"/authentications/"+id+"?wait=10", "", &got)
	return got.Outcome.Result
}
