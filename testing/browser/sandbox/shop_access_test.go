package sandbox

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/sandbox/shop"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// TestB10AxeFindsNothingInTheShop: the checkout, orders with their lanes, and the list of runs,
// before and after payments.
func TestB10AxeFindsNothingInTheShop(t *testing.T) {
	axe := browsertest.NewAxe(t)
	tab := browsertest.NewBrowser(t)
	base := startSandboxWithShop(t, &shop.Shop{EventWait: time.Hour}, func(h http.Handler) http.Handler { return h })
	open := func(name, path string) {
		t.Helper()
		must(t, chromedp.Do(tab, browsertest.View(1280, 800, "light"), chromedp.Navigate(base+path)))
		axe.Check(tab, name)
		must(t, chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](`for (const d of document.querySelectorAll("details")) d.open = true`)))
		axe.CheckViews(tab, name+", opened")
	}
	open("no runs", "/runs")
	open("checkout", "/")
	open("checkout, another card", "/?ends=0072")
	open("no order", "/order?authentication=none")
	for _, c := range []struct {
		card, press string
	}{{"4000000000000103", ""}, {"4000000000000072", "submit"}, {"4000000000000163", ""}, {"9000100111111111", ""}} {
		must(t, chromedp.Do(tab, chromedp.Navigate(base)))
		until(t, tab, `!!globalThis.pay?.onclick`)
		must(t, chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`form.card.value = %q; pay.click()`, c.card))))
		if c.press != "" {
			until(t, tab, `!!document.querySelector("body > div")?.shadowRoot?.querySelector("[data-threeds=challenge]")`)
			axe.CheckViews(tab, "dialog over the checkout")
			pressAtBank(t, tab, c.press)
		}
		until(t, tab, `location.pathname === "/order" && !!document.querySelector(".lanes")`)
		axe.CheckViews(tab, "order of "+c.card)
	}
	open("order with a step", "/order"+strings.ReplaceAll(newestRun(t, base, "0072"), "&amp;", "&")+"&step=ares")
	open("runs", "/runs")
}

// TestB10ShopByKeyboardAlone: a shopper without a mouse pays with a card of which the bank asks for a code, and looks
// at a message of the order. Tab reaches each control of the shop's pages, and one sees where it is.
func TestB10ShopByKeyboardAlone(t *testing.T) {
	tab := browsertest.NewBrowser(t)
	base := startSandboxWithShop(t, &shop.Shop{EventWait: time.Hour}, func(h http.Handler) http.Handler { return h })
	press := func(keys string) {
		t.Helper()
		must(t, chromedp.Do(tab, chromedp.KeyEvent(keys)))
	}
	must(t, chromedp.Do(tab, browsertest.View(1280, 800, "light"), chromedp.Navigate(base+"/")))
	browsertest.CheckKeyboard(t, tab, "checkout")

	must(t, chromedp.Do(tab, chromedp.Navigate(base+"/")))
	until(t, tab, `!!globalThis.pay?.onclick`)
	browsertest.TabTo(t, tab, `e.id === "card"`)
	press("4000000000000072") // Tab has selected what was there
	browsertest.TabTo(t, tab, `e.id === "pay"`)
	press("\r")
	const isAtCode = `document.activeElement?.dataset.testid === "challenge-code"`
	must(t, browsertest.Wait(tab, func() (bool, error) {
		return browsertest.InAnyFrame(tab, `!!document.querySelector("[data-testid=challenge-code]")`)
	}))
	for presses := 0; ; presses++ {
		is, err := browsertest.InAnyFrame(tab, isAtCode)
		if is {
			break
		}
		if err != nil || presses == 10 {
			t.Fatalf("Tab does not lead from the dialog to the code: %v", err)
		}
		press("\t")
	}
	press("123456\r")
	until(t, tab, `location.pathname === "/order" && !!document.querySelector(".lanes") && document.readyState === "complete"`)
	must(t, chromedp.Do(tab, chromedp.Reload())) // what came meanwhile is there, and Tab begins at the top
	browsertest.CheckKeyboard(t, tab, "order")
	must(t, chromedp.Do(tab, chromedp.Reload()))
	browsertest.TabTo(t, tab, `e.matches("svg.big a") && e.getAttribute("aria-label").includes("ARes")`)
	press("\r")
	until(t, tab, `location.search.includes("step=ares") && !!document.querySelector("svg.big a[aria-current]")`)
	must(t, chromedp.Do(tab, chromedp.Navigate(base+"/runs")))
	browsertest.CheckKeyboard(t, tab, "runs")
}
