package sandbox

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/edge/docsite"
	"github.com/openthreeds/threeds/sandbox/shop"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// laneRuns are payments at the demo shop, and the messages that each has at least: some in this order, and others that
// may pass at the same time.
var laneRuns = []struct{ card, press, want, also string }{
	{"4000000000000103", "", "pay request lookup created handed begin areq ares order", "end webhook"},
	{"4000000000000003", "", "pay request created handed begin method.asked method method.done method.notice areq ares order", "end webhook"},
	{"4000000000000072", "submit", "request begin method.asked method method.done areq ares challenge creq rreq rres end order", "cres webhook"},
	{"4000000000000172", "cancel", "request begin areq ares challenge creq rreq rres end order", "webhook"},
	{"4000000000000163", "", "request begin areq erro end order", "webhook"},
	{"9000100111111111", "", "pay request created handed order", "webhook"},
}

var (
	stepOfRow = regexp.MustCompile(`<li>\s*<a href="/order\?authentication=[^"]*step=([a-z0-9.-]+)#message"`)
	docsLink  = regexp.MustCompile(`href="(/docs/[^"#]+)(?:#([^"]+))?"`)
	aField    = regexp.MustCompile(`<dt>(.*?)</dt>\s*<dd>(.*?)</dd>\s*<dd>(.*?)</dd>`)
)

// TestB10LanesShowEveryMessage: the page of an order has each message of its run, in order, with all elements
// explained, and leads to the row of the documentation about it. No page has the card number, a token or an
// authentication value.
func TestB10LanesShowEveryMessage(t *testing.T) {
	tab := browsertest.NewBrowser(t)
	site, err := docsite.New()
	must(t, err)
	followed := map[string]bool{}
	base := startSandboxWithShop(t, &shop.Shop{EventWait: time.Hour, Docs: docsite.Path}, func(h http.Handler) http.Handler { return h })
	for _, c := range laneRuns {
		t.Run(c.card+c.press, func(t *testing.T) {
			must(t, chromedp.Do(tab, chromedp.Navigate(base)))
			until(t, tab, `!!globalThis.pay?.onclick`)
			must(t, chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`form.card.value = %q; pay.click()`, c.card))))
			if c.press != "" {
				pressAtBank(t, tab, c.press)
			}
			until(t, tab, `location.pathname === "/order" && !!document.querySelector(".lanes")`)
			at, err := chromedp.Run(tab, chromedp.Evaluate[string](`location.search`))
			must(t, err)
			id := strings.TrimPrefix(at, "?authentication=")
			var steps []string
			waitFor(t, func() bool { // the journal is written a moment later
				steps = nil
				for _, m := range stepOfRow.FindAllStringSubmatch(readOrder(t, base, id), -1) {
					steps = append(steps, m[1])
				}
				hasAll := !slices.ContainsFunc(strings.Fields(c.also), func(step string) bool { return !slices.Contains(steps, step) })
				return hasAll && isWithin(strings.Fields(c.want), steps)
			}, func() string { return fmt.Sprintf("steps %q, want %s, and %s", steps, c.want, c.also) })
			for _, step := range steps {
				page := readOrder(t, base, id+"&step="+step)
				for _, secret := range []string{c.card, "AAABBCJZUwAAAAAAUFlTAAAAAAA", base + "/a/C"} {
					if strings.Contains(page, secret) {
						t.Errorf("the page of %s has %s", step, secret)
					}
				}
				for _, f := range aField.FindAllStringSubmatch(page, -1) {
					if f[3] == "" {
						t.Errorf("%s: %s is not explained", step, f[1])
					}
				}
				for _, m := range docsLink.FindAllStringSubmatch(page, -1) {
					if !followed[m[0]] && !hasAnchor(site, m[1], m[2]) {
						t.Errorf("%s: there is no %s", step, m[0])
					}
					followed[m[0]] = true
				}
			}
		})
	}
	if len(followed) < 60 {
		t.Errorf("the elements have %d links, fewer than there must be", len(followed))
	}
	for _, look := range views([]view{{1280, 800, "light"}, {1280, 800, "dark"}, {375, 800, "dark"}, {375, 800, "light"}, {320, 800, "light"}}) {
		for _, path := range []string{"/runs", "/order" + newestRun(t, base, "0072")} {
			must(t, chromedp.Do(tab, browsertest.View(look.width, 800, look.scheme), chromedp.Navigate(base+path)))
			wide, err := chromedp.Run(tab, chromedp.Evaluate[bool](`document.documentElement.scrollWidth > innerWidth`))
			if err != nil || wide {
				t.Errorf("%s at %d is wider than the screen: %t, %v", path, look.width, wide, err)
			}
			name := "order"
			if path == "/runs" {
				name = "runs"
			}
			browsertest.FullScreenshot(t, tab, fmt.Sprintf("shop-lanes-%s-%s-%d", name, look.scheme, look.width))
		}
	}
}

// hasAnchor reports whether a site has a page, and that an anchor; "" is the page alone.
func hasAnchor(site http.Handler, page, anchor string) bool {
	w := httptest.NewRecorder()
	site.ServeHTTP(w, httptest.NewRequest(http.MethodGet, page, nil))
	return w.Code == http.StatusOK && (anchor == "" || strings.Contains(w.Body.String(), ` id="`+anchor+`"`))
}

// isWithin reports whether all of want are in got, in this order.
func isWithin(want, got []string) bool {
	for _, step := range got {
		if len(want) > 0 && want[0] == step {
			want = want[1:]
		}
	}
	return len(want) == 0
}

// newestRun returns the address of the newest run with a card that ends so.
func newestRun(t *testing.T, base, last4 string) string {
	t.Helper()
	m := regexp.MustCompile(`<a href="/order([^"]+)"[^>]*>Card ending in ` + last4).FindStringSubmatch(getText(t, base+"/runs"))
	if m == nil {
		t.Fatalf("there is no run of a card that ends in %s", last4)
	}
	return m[1]
}
