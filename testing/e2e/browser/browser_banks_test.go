package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/api"
	threeds "github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/browsertest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestBrowserBanksOfTheirOwnKind pays at banks whose page is confirmed elsewhere, is taller than its frame, may not
// stand in a frame, or does not come. Each ends in the demo shop, on a phone and, with BROWSERS=all, on a wide screen.
func TestBrowserBanksOfTheirOwnKind(t *testing.T) {
	t.Parallel() // there is much to be waited for
	w := rig.StartSandbox(t)
	s := &shopper{t, openTab(t)}
	type view struct {
		width, height int64
		scheme        string
	}
	views := []view{{375, 700, "dark"}}
	if os.Getenv("BROWSERS") == "all" {
		views = append(views, view{1280, 900, "light"})
	}
	for _, view := range views {
		s.do(browsertest.View(view.width, view.height, view.scheme))
		shot := func(name string) {
			browsertest.Screenshot(t, s.ctx, fmt.Sprintf("bank-%s-%s-%d", name, view.scheme, view.width))
		}
		ends := func(name, want string) {
			t.Helper()
			s.do(browsertest.WaitVisible(testID("result-word")))
			if word := s.text("result-word"); word != want {
				t.Errorf("%s, %d: the shop says %q, want %q", name, view.width, word, want)
			}
		}

		s.payAt(w.Shop+"/steps", "4000000000000174", "")
		frame := s.issuer("approve")
		shot("outside")
		s.do(chromedp.Click(testID("challenge-submit"), chromedp.FromNode(frame)))
		browsertest.InFrame(t, s.ctx, `document.querySelector("#status")?.textContent.includes("has not seen it yet") === true`)
		shot("outside-not-yet")
		confirmOutside(t, w) // the page notices by itself
		ends("outside", "authenticated")

		s.payAt(w.Shop+"/steps", "4000000000000175", "")
		frame = s.issuer("challenge-code")
		shot("tall")
		browsertest.InFrame(t, s.ctx, `document.querySelector("[data-testid=challenge-submit]").getBoundingClientRect().top > innerHeight`)
		s.do(
			chromedp.SendKeys(testID("challenge-code"), "123456", chromedp.FromNode(frame)),
			chromedp.Click(testID("challenge-submit"), chromedp.FromNode(frame)),
		)
		ends("tall", "authenticated")

		s.payAt(w.Shop+"/steps", "4000000000000172", "FAULT-UNFRAMED")
		s.do(browsertest.WaitVisible(testID("challenge-open")))
		shot("unframed")
		s.do(chromedp.Click(testID("challenge-open")), browsertest.WaitVisible(testID("challenge-code")))
		shot("unframed-opened")
		s.do(chromedp.SendKeys(testID("challenge-code"), "123456"), chromedp.Click(testID("challenge-submit")))
		ends("unframed", "authenticated")

		s.do(chromedp.Navigate(createAt(t, w, "4000000000000172", "FAULT-UNFRAMED", w.Shop+"/?order=17")))
		waittest.Until(t, "the way out of the frame", func() bool {
			is, err := chromedp.Run(s.ctx, chromedp.Evaluate[bool](`Boolean(`+openBank+`)`))
			return err == nil && is
		})
		shot("unframed-hosted")
		s.do(chromedp.Evaluate[chromedp.Void](openBank+`.click()`), browsertest.WaitVisible(testID("challenge-code")))
		s.do(chromedp.SendKeys(testID("challenge-code"), "123456"), chromedp.Click(testID("challenge-submit")))
		waittest.Until(t, "the shopper to be back at the shop", func() bool {
			at, err := chromedp.Run(s.ctx, chromedp.Evaluate[string](`location.href`))
			return err == nil && strings.HasPrefix(at, w.Shop+"/?order=17&authentication=")
		})

		s.payAt(w.Shop+"/steps", "4000000000000172", "FAULT-ACSDOWN")
		ends("down", "bank unreachable") // by itself: the bank gives up, and nobody cancels
	}
}

// TestC18ABankThatIsDownIsNotAbandoned: the shopper does nothing, and comes back from the hosted page to the shop. The
// page, the object and the event say bank_unreachable.
func TestC18ABankThatIsDownIsNotAbandoned(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t)
	events := make(chan api.Event[api.AuthenticationSummary], 8)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e api.Event[api.AuthenticationSummary]
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Errorf("event: %v", err)
		}
		events <- e
	}))
	defer receiver.Close()
	if res, text := w.Call("POST", "/webhook-endpoints", w.APIKey, rig.Object{"url": receiver.URL}); res.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s", res.StatusCode, text)
	}
	s := &shopper{t, openTab(t)}
	s.do(
		chromedp.Navigate(createAt(t, w, "4000000000000172", "FAULT-ACSDOWN", w.Shop+"/order")),
		browsertest.WaitVisible(chromedp.CSS("#ending")),
	)
	const want = "bank_unreachable"
	if page, err := chromedp.Run(s.ctx, chromedp.TextContent(chromedp.CSS("#ending"))); err != nil || page != want+": retry_later" {
		t.Errorf("the page of the order says %q, %v", page, err)
	}
	id, err := chromedp.Run(s.ctx, chromedp.Evaluate[string](`new URLSearchParams(location.search).get("authentication")`))
	if err != nil {
		t.Fatal(err)
	}
	a, err := threeds.New(w.API, w.APIKey).Authentication(t.Context(), id, 0)
	if err != nil || a.Status != "completed" || a.Outcome == nil || a.Outcome.Result != want || a.Outcome.Liability.Shifts != "no" {
		t.Errorf("the object: %+v, %v; want %s", a, err, want)
	}
	if e := <-events; e.Data.ID != id || e.Type != "authentication.completed" || e.Data.Outcome == nil || e.Data.Outcome.Result != want {
		t.Errorf("the event: %+v, want %s", e, want)
	}
}

// openBank is the expression of what opens the bank outside of the frame of the hosted page.
const openBank = `document.querySelector("#flow > div")?.shadowRoot.querySelector("[data-threeds=open-bank]")`

// createAt makes an authentication of a browser, in which something goes wrong, and returns the
// address of its hosted page.
func createAt(t *testing.T, w *rig.World, pan, trouble, returnURL string) string {
	t.Helper()
	res, text := w.Call("POST", "/authentications", w.APIKey, rig.Object{
		"acctNumber": pan, "cardExpiryDate": "3012", "purchaseAmount": "12900", "purchaseCurrency": "978", "messageVersion": "2.2.0",
		"acquirerMerchantID": trouble, "returnUrl": returnURL,
	})
	var made struct{ Browser struct{ URL string } }
	if err := json.Unmarshal(text, &made); err != nil || made.Browser.URL == "" {
		t.Fatalf("%d %s", res.StatusCode, text)
	}
	return made.Browser.URL
}

// payAt buys with a card and has something go wrong, "" for nothing.
func (s *shopper) payAt(shop, pan, trouble string) {
	s.t.Helper()
	s.do(
		chromedp.Navigate(shop),
		browsertest.WaitVisible(testID("pay")),
		chromedp.SetValue(testID("card-number"), pan),
		chromedp.SetValue(testID("version"), "2.2.0"),
		chromedp.SetValue(testID("trouble-kind"), trouble),
		chromedp.Click(testID("pay")),
	)
}

// confirmOutside confirms the latest challenge in the app of the bank.
func confirmOutside(t *testing.T, w *rig.World) {
	t.Helper()
	_, text := send(t, http.DefaultClient, "GET", w.API+"/_sandbox/transactions", "")
	id := strings.Split(text, `"`)[1]
	body := fmt.Sprintf(`{"acsTransID": %q}`, id)
	if res, text := send(t, http.DefaultClient, "POST", w.API+"/_sandbox/oob", body, "Content-Type", "application/json",
		"APIKey", w.APIKey); res.StatusCode != 200 {
		t.Errorf("/_sandbox/oob: %d %s", res.StatusCode, text)
	}
}
