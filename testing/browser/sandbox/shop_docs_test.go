package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/base/porttest"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/run/playground"
	"github.com/openthreeds/threeds/sandbox/shop"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// A printedEnd is a row of the table of docs/browser.md: a card, the button to press at the bank,
// and what the shop shows.
type printedEnd struct{ card, press, want string }

var printedEndRow = regexp.MustCompile("(?m)^\\| `([0-9 ]+)` \\| .* \\| (?:`(\\w+)`)? ?\\| `(\\w+: \\w+)` \\|$")

// readPrintedEnds returns the rows of the table. Slow are those with a silent directory server or 3DS Method, which
// cost ten seconds and no work.
func readPrintedEnds(t *testing.T, page []byte) (slow, quick []printedEnd) {
	t.Helper()
	_, table, _ := bytes.Cut(page, []byte("<!-- ends:"))
	table, _, _ = bytes.Cut(table, []byte("<!-- end of ends -->"))
	rows := printedEndRow.FindAllSubmatch(table, -1)
	for _, m := range rows {
		e := printedEnd{string(m[1]), string(m[2]), string(m[3])}
		if bytes.Contains(m[0], []byte("never answers")) {
			slow = append(slow, e)
		} else {
			quick = append(quick, e)
		}
	}
	if n := bytes.Count(table, []byte("\n| `")); len(rows) != n || n < 50 || len(slow) == 0 {
		t.Fatalf("%d of %d rows of the table were read, want all and 50 at least", len(rows), n)
	}
	return slow, quick
}

// quickShoppers is how many shoppers pay with quick cards at the same time.
const quickShoppers = 2

// TestF11TheShopOfTheDocs: the page and the back end that docs/browser.md prints take each test card to the end that
// its table has. They have at most 14 and 40 lines, empty ones apart.
func TestF11TheShopOfTheDocs(t *testing.T) {
	tab := browsertest.NewBrowser(t)
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no node")
		}
		t.Skip("there is no node: the shop of the documents was not run")
	}
	base, shop := startSandboxWithPages(t), porttest.Address(t)
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(browsertest.Root(t), "docs", "browser.md"))
	must(t, err)
	for name, lines := range map[string]int{"shop.mjs": 40, "page.html": 14} {
		m := regexp.MustCompile("(?ms)^```\\w+ " + regexp.QuoteMeta(name) + "\n(.*?)^```$").FindSubmatch(text)
		if m == nil {
			t.Fatalf("docs/browser.md does not print %s", name)
		}
		if n := bytes.Count(m[1], []byte("\n")) - bytes.Count(m[1], []byte("\n\n")); n > lines {
			t.Errorf("%s has %d lines, want at most %d", name, n, lines)
		}
		printed := bytes.ReplaceAll(m[1], []byte("http://127.0.0.1:8080"), []byte(base))
		must(t, os.WriteFile(filepath.Join(dir, name), printed, 0o600))
	}
	cmd := exec.CommandContext(t.Context(), node, "shop.mjs")
	cmd.Dir, cmd.Stderr = dir, t.Output()
	_, port, _ := strings.Cut(shop, ":")
	cmd.Env = append(os.Environ(), "THREEDS_URL="+base, "THREEDS_KEY="+playground.Key, "PORT="+port)
	must(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	waittest.Until(t, "the shop of the documents", func() bool {
		conn, err := net.Dial("tcp", shop)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	var shoppers sync.WaitGroup
	slow, quick := readPrintedEnds(t, text)
	if !browsertest.HasLongWalks() {
		slow, quick = oneOfEach(slow), oneOfEach(quick)
	}
	start := func(ends ...printedEnd) {
		shoppers.Go(func() {
			for _, e := range ends {
				if err := payInPrintedShop(tab, "http://"+shop, e); err != nil {
					t.Errorf("%s %s: %v", e.card, e.press, err)
				}
			}
		})
	}
	for _, e := range slow {
		start(e)
	}
	for part := range slices.Chunk(quick, (len(quick)+quickShoppers-1)/quickShoppers) {
		start(part...)
	}
	shoppers.Wait()
}

// oneOfEach returns the first row of each end that a shopper comes to in the same way.
func oneOfEach(all []printedEnd) (some []printedEnd) {
	seen := map[[2]string]bool{}
	for _, e := range all {
		if way := [2]string{e.press, e.want}; !seen[way] {
			seen[way] = true
			some = append(some, e)
		}
	}
	return some
}

// payInPrintedShop pays in a window of its own, and returns what is wrong with the end.
func payInPrintedShop(browser context.Context, url string, e printedEnd) error {
	tab, closeTab := chromedp.NewContext(browser, chromedp.WithNewWindow(true))
	defer closeTab()
	if err := chromedp.Do(tab, chromedp.Navigate(url)); err != nil {
		return err
	}
	if err := poll(tab, `!!globalThis.pay?.onclick`); err != nil {
		return err
	}
	click := fmt.Sprintf(`form.card.value = %q; pay.click()`, strings.ReplaceAll(e.card, " ", ""))
	if err := chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](click)); err != nil {
		return err
	}
	switch e.press {
	case "":
	case "continue": // below a text of the bank, in the dialog of threeds.js
		if err := poll(tab, `(() => {
			const shown = [...document.querySelectorAll("*")].map(e => e.shadowRoot).filter(Boolean)
			const b = shown.map(root => root.querySelector("[data-threeds=continue]")).find(Boolean)
			b?.click()
			return !!b
		})()`); err != nil {
			return err
		}
	default:
		if err := pressButton(tab, e.press); err != nil {
			return err
		}
	}
	if err := poll(tab, `location.pathname === "/order" && !!document.body.innerText`); err != nil {
		return err
	}
	got, err := chromedp.Run(tab, chromedp.Evaluate[string](`document.body.innerText`))
	if err == nil && got != e.want {
		err = fmt.Errorf("%q, want %q", got, e.want)
	}
	return err
}

// shortWayEnds are a few cards on the short page of the demo shop, one for each way that threeds.js goes.
var shortWayEnds = []struct{ card, press, want string }{
	{"4000 0000 0000 0103", "", "authenticated: authorise"},
	{"4000000000000113", "", "not_authenticated: do_not_authorise"},
	{"4000000000000003", "", "authenticated: authorise"}, // with a 3DS Method
	{"4000000000000172", "submit", "authenticated: authorise"},
	{"4000000000000172", "cancel", "abandoned: do_not_authorise"},
	{"9000100111111111", "", "not_enrolled: authorise_without_authentication"},
}

// TestB10ShortWay: the first page of the demo shop, which has POST /authentications and threeds.js, takes cards to
// their ends, of which events tell the shop. It offers cards, and links to the page with each step, which links back.
func TestB10ShortWay(t *testing.T) {
	tab := browsertest.NewBrowser(t)
	demo := &shop.Shop{EventWait: time.Hour}
	base := startSandboxWithShop(t, demo, func(h http.Handler) http.Handler { return h })
	for _, c := range shortWayEnds {
		t.Run(c.card+c.press, func(t *testing.T) {
			must(t, chromedp.Do(tab, chromedp.Navigate(base)))
			until(t, tab, `!!globalThis.pay?.onclick`)
			must(t, chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`form.card.value = %q; pay.click()`, strings.ReplaceAll(c.card, " ", "")))))
			if c.press != "" {
				pressAtBank(t, tab, c.press)
			}
			until(t, tab, `location.pathname === "/order" && !!document.getElementById("ending")`)
			got, err := chromedp.Run(tab, chromedp.Evaluate[string](`document.getElementById("ending").innerText`))
			if err != nil || got != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
			until(t, tab, `document.getElementById("learned").innerText.startsWith("Pushed: the server told the shop")`)
		})
	}
	order, err := chromedp.Run(tab, chromedp.Evaluate[string](`location.pathname + location.search`))
	must(t, err)
	must(t, chromedp.Do(tab, chromedp.Navigate(base)))
	until(t, tab, `!!globalThis.pay?.onclick`)
	must(t, chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](`form.card.value = "abcd"; pay.click()`)))
	until(t, tab, `document.getElementById("fault").innerText.startsWith("Card number: Send 13 to 19")`)
	must(t, chromedp.Do(tab, chromedp.Navigate(base+"/pay"))) // where the page was once
	until(t, tab, `location.pathname === "/" && form.card.value === "4000 0000 0000 0072"`)
	follow(t, tab, `[href="/?ends=0033"]`)
	until(t, tab, `location.search === "?ends=0033" && form.card.value === "4000 0000 0000 0033"`)
	until(t, tab, `document.querySelectorAll("[aria-current]").length === 1`)
	follow(t, tab, `[href="/steps"]`)
	until(t, tab, `location.pathname === "/steps" && !!document.querySelector("[data-testid=trouble-kind]")`)
	follow(t, tab, `[href="/"]`)
	until(t, tab, `location.pathname === "/" && !!globalThis.pay?.onclick`)
	for _, look := range views([]view{{1280, 800, "light"}, {1280, 800, "dark"}, {375, 800, "dark"}, {320, 800, "light"}}) {
		for name, path := range map[string]string{"pay": "/", "steps": "/steps", "order": order, "none": "/order?authentication=none"} {
			must(t, chromedp.Do(tab, browsertest.View(look.width, 800, look.scheme), chromedp.Navigate(base+path)))
			wide, err := chromedp.Run(tab, chromedp.Evaluate[bool](`document.documentElement.scrollWidth > innerWidth`))
			if err != nil || wide {
				t.Errorf("%s at %d is wider than the screen: %t, %v", path, look.width, wide, err)
			}
			browsertest.FullScreenshot(t, tab, fmt.Sprintf("shop-short-%s-%s-%d", name, look.scheme, look.width))
		}
	}
}

// follow clicks the link that a selector finds. The page may have come just now, and with it another tree of nodes.
func follow(t *testing.T, tab context.Context, selector string) {
	t.Helper()
	until(t, tab, fmt.Sprintf(`(() => { const to = document.querySelector(%q); to?.click(); return !!to })()`, selector))
}

// startSandboxWithPages runs the sandbox on one address, and returns it.
func startSandboxWithPages(t *testing.T) string {
	t.Helper()
	return startSandboxWithShop(t, &shop.Shop{}, func(h http.Handler) http.Handler { return h })
}
