package playground

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/client"
	"github.com/openthreeds/threeds/internal/browsertest"
	"github.com/openthreeds/threeds/sandbox/shop"
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
	stepOfRow = regexp.MustCompile(`<li><a href="/order\?authentication=[^"]*step=([a-z0-9.-]+)#message"`)
	aField    = regexp.MustCompile(`<dt>(.*?)</dt><dd>(.*?)</dd><dd>(.*?)</dd>`)
)

// TestB10LanesShowEveryMessage: the page of an order has each message of its run, in order, with all elements explained.
// No page has the card number, a token or an authentication value.
func TestB10LanesShowEveryMessage(t *testing.T) {
	tab := browsertest.NewBrowser(t)
	base := startSandboxWithShop(t, &shop.Shop{EventWait: time.Minute}, func(h http.Handler) http.Handler { return h })
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
			}
		})
	}
	for _, look := range []struct {
		width  int64
		scheme string
	}{{1280, "light"}, {1280, "dark"}, {375, "dark"}, {375, "light"}, {320, "light"}} {
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

// isWithin reports whether all of want are in got, in this order.
func isWithin(want, got []string) bool {
	for _, step := range got {
		if len(want) > 0 && want[0] == step {
			want = want[1:]
		}
	}
	return len(want) == 0
}

// waitFor waits until ok, and says what there is if that takes too long.
func waitFor(t *testing.T, ok func() bool, says func() string) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error(says())
			return
		}
	}
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

func getText(t *testing.T, url string) string {
	t.Helper()
	answer, err := http.Get(url)
	must(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	return string(text)
}

// TestB10RunAgain: a run is made again with the same card, with threeds.js and without it, and its end comes by an event,
// too. The line for curl makes the same authentication.
func TestB10RunAgain(t *testing.T) {
	h, base := newHookedShop(t, &shop.Shop{EventWait: time.Minute})
	first, page := payAtShop(t, base, "4000000000000103")
	beginAndLeave(t, page)
	h.next(t, first)

	req, err := http.NewRequest(http.MethodPost, base+"/runs/"+first+"/again", nil)
	must(t, err)
	req.Header.Set("Accept", "application/json")
	answer, err := http.DefaultClient.Do(req)
	must(t, err)
	defer answer.Body.Close()
	var next struct{ To, URL string }
	text, err := io.ReadAll(answer.Body)
	must(t, err)
	if err := json.Unmarshal(text, &next); err != nil {
		t.Fatalf("again: %s %s", answer.Status, text)
	}
	second := strings.TrimPrefix(next.To, "/order?authentication=")
	if second == first || next.URL == "" {
		t.Fatalf("again: %s, %+v", answer.Status, next)
	}
	beginAndLeave(t, next.URL)
	h.next(t, second)
	for _, id := range []string{first, second} {
		if text := readOrder(t, base, id); !strings.Contains(text, "authenticated: authorise") || !strings.Contains(text, "Pushed: the server told the shop") {
			t.Errorf("the order of %s: %s", id, text)
		}
	}

	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := browser.PostForm(base+"/runs/"+first+"/again", url.Values{})
	must(t, err)
	must(t, res.Body.Close())
	if to := res.Header.Get("Location"); res.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to, base+"/a/") {
		t.Errorf("without a script: %s to %s", res.Status, to)
	}
	req, err = http.NewRequest(http.MethodPost, base+"/runs/"+first+"/again", nil)
	must(t, err)
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	res, err = http.DefaultClient.Do(req)
	must(t, err)
	must(t, res.Body.Close())
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("from another site: %s", res.Status)
	}

	line := getText(t, base+"/runs/"+first+"/curl")
	out, err := exec.Command("sh", "-c", line).Output()
	var made client.Authentication
	if err != nil || json.Unmarshal(out, &made) != nil || made.ID == "" || made.ID == first || made.Card.Last4 != "0103" {
		t.Errorf("%s: %v, %s", line, err, out)
	}
	if list := getText(t, base+"/runs"); strings.Count(list, "Card ending in 0103</a>") != 3 || !slices.Contains(strings.Fields(list), "class=\"pill") {
		t.Errorf("the list of runs: %s", list)
	}
	if res, err := http.Get(base + "/runs/none/curl"); err != nil || res.StatusCode != http.StatusNotFound {
		t.Errorf("the line of no run: %v, %v", res.Status, err)
	}
}
