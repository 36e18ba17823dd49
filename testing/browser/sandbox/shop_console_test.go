package sandbox

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/sandbox/shop"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// TestK13ShopLinksToTheTimeline: in Chromium, a payment in the shop leads to its timeline in the console, whose pages
// have their style and their forms work.
func TestK13ShopLinksToTheTimeline(t *testing.T) {
	tab := browsertest.NewBrowser(t)
	base := startSandboxWithShop(t, &shop.Shop{EventWait: time.Hour}, func(h http.Handler) http.Handler { return h })
	must(t, chromedp.Do(tab, chromedp.Navigate(base)))
	until(t, tab, `!!globalThis.pay?.onclick`)
	must(t, chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](`form.card.value = "4000000000000103"; pay.click()`)))
	until(t, tab, `location.pathname === "/order" && [...document.links].some((a) => a.textContent === "Open in the console")`)
	id, err := chromedp.Run(tab, chromedp.Evaluate[string](`new URLSearchParams(location.search).get("authentication")`))
	must(t, err)
	waitFor(t, func() bool {
		res, err := http.Get(base + "/console/authentications/" + id)
		must(t, err)
		res.Body.Close()
		return res.StatusCode == 200
	}, func() string { return "no record of " + id })
	must(t, chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](`[...document.links].find((a) => a.textContent === "Open in the console").click()`)))
	until(t, tab, fmt.Sprintf(`location.pathname === "/console/authentications/%s" && !!document.querySelector(".lanes")`, id))
	until(t, tab,
		`getComputedStyle(document.querySelector("header.side") ?? document.body).position !== "" && document.styleSheets.length > 0 && document.styleSheets[0].cssRules.length > 50`)
	for _, look := range []view{{1280, 900, "light"}, {375, 900, "dark"}, {320, 900, "light"}} {
		must(t, chromedp.Do(tab, browsertest.View(look.width, look.height, look.scheme)))
		browsertest.Screenshot(t, tab, fmt.Sprintf("sandbox-console-%d-%s", look.width, look.scheme))
	}
	must(t, chromedp.Do(tab, chromedp.Navigate(base+"/console/keys")))
	until(t, tab, `!!document.querySelector('form[action="/console/keys"]')`)
	must(t, chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](`document.querySelector('form[action="/console/keys"] button').click()`)))
	until(t, tab, `location.pathname === "/console/keys" && !!document.getElementById("secret")`)
}
