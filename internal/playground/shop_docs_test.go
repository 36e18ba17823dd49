package playground

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/browsertest"
	"github.com/openthreeds/threeds/sandbox/shop"
)

// The cards of the printed shop, and how each ends: result and action, and what the shopper presses at the bank.
var printedShopEnds = []struct{ card, press, want string }{
	{"4000000000000103", "", "authenticated: authorise"},
	{"4000000000000003", "", "authenticated: authorise"}, // with a 3DS Method
	{"4000000000001103", "", "authenticated: authorise"}, // 2.1.0 alone
	{"4000000000003103", "", "authenticated: authorise"}, // 2.3.1 alone
	{"4242 4242 4242 4242", "", "authenticated: authorise"},
	{"4000000000000113", "", "not_authenticated: do_not_authorise"},
	{"4000000000000123", "", "attempted: authorise"},
	{"4000000000000133", "", "rejected: do_not_authorise"},
	{"4000000000000143", "", "informational: authorise"},
	{"4000000000000153", "", "unavailable: authorise_without_authentication"},
	{"4000000000000163", "", "error: retry_later"}, // no answer
	{"4000000000000170", "", "authenticated: authorise"},
	{"4000000000000171", "", "not_authenticated: do_not_authorise"},
	{"4000000000000172", "submit", "authenticated: authorise"},
	{"4000000000000172", "cancel", "abandoned: do_not_authorise"},
	{"4000000000000174", "approve", "authenticated: authorise"},
	{"4000000000000174", "decline", "not_authenticated: do_not_authorise"},
	{"4000000000000175", "submit", "authenticated: authorise"},
	{"4000000000000176", "", "authenticated: authorise"},
	{"4000000000000203", "", "authenticated: authorise"}, // a 3DS Method that is silent
	{"4000000000000183", "", "error: do_not_authorise"},  // decoupled, which the shop does not ask for
	{"9000100111111111", "", "not_enrolled: authorise_without_authentication"},
	{"9001100800000000", "submit", "authenticated: authorise"},
}

// TestF11TheShopOfTheDocs: the page and the back end that docs/browser.md prints take each test card to its end. They
// have at most 10 and 40 lines, empty ones apart.
func TestF11TheShopOfTheDocs(t *testing.T) {
	tab := browsertest.NewBrowser(t)
	node, err := exec.LookPath("node")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no node")
		}
		t.Skip("there is no node: the shop of the documents was not run")
	}
	base, shop := startSandboxWithPages(t), freePort(t)
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "browser.md"))
	must(t, err)
	for name, lines := range map[string]int{"shop.mjs": 40, "page.html": 10} {
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
	cmd.Env = append(os.Environ(), "THREEDS_URL="+base, "THREEDS_KEY="+Key, "PORT="+port)
	must(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", shop)
		if err == nil {
			conn.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	for _, c := range printedShopEnds {
		t.Run(c.card+c.press, func(t *testing.T) {
			must(t, chromedp.Do(tab, chromedp.Navigate("http://"+shop)))
			until(t, tab, `!!globalThis.pay?.onclick`)
			must(t, chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`form.card.value = %q; pay.click()`, strings.ReplaceAll(c.card, " ", "")))))
			if c.press != "" {
				pressAtBank(t, tab, c.press)
			}
			until(t, tab, `location.pathname === "/order" && !!document.body.innerText`)
			if got, err := chromedp.Run(tab, chromedp.Evaluate[string](`document.body.innerText`)); err != nil || got != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
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

// TestB10ShortWay: the first page of the demo shop, which has POST /authentications and threeds.js, takes cards to their
// ends, of which events tell the shop. It offers cards, and links to the page with each step, which links back.
func TestB10ShortWay(t *testing.T) {
	tab := browsertest.NewBrowser(t)
	demo := &shop.Shop{EventWait: time.Minute}
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
	must(t, chromedp.Do(tab, chromedp.Navigate(base+"/pay"))) // where the page was once
	until(t, tab, `location.pathname === "/" && form.card.value === "4000 0000 0000 0072"`)
	must(t, chromedp.Do(tab, chromedp.Click(chromedp.CSS(`[href="/?ends=0033"]`))))
	until(t, tab, `location.search === "?ends=0033" && form.card.value === "4000 0000 0000 0033"`)
	until(t, tab, `document.querySelectorAll("[aria-current]").length === 1`)
	must(t, chromedp.Do(tab, chromedp.Click(chromedp.CSS(`[href="/steps"]`))))
	until(t, tab, `location.pathname === "/steps" && !!document.querySelector("[data-testid=trouble-kind]")`)
	must(t, chromedp.Do(tab, chromedp.Click(chromedp.CSS(`[href="/"]`))))
	until(t, tab, `location.pathname === "/" && !!globalThis.pay?.onclick`)
	for _, look := range []struct {
		width  int64
		scheme string
	}{{1280, "light"}, {1280, "dark"}, {375, "dark"}, {320, "light"}} {
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

// freePort is an address on which nobody listens.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// startSandboxWithPages runs the sandbox on one address, and returns it.
func startSandboxWithPages(t *testing.T) string {
	t.Helper()
	return startSandboxWithShop(t, &shop.Shop{}, func(h http.Handler) http.Handler { return h })
}

// startSandboxWithShop runs the sandbox with a demo shop whose pages are wrapped, on one address, and returns it.
func startSandboxWithShop(t *testing.T, demo *shop.Shop, wrap func(http.Handler) http.Handler) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	base := "http://" + l.Addr().String()
	demo.API, demo.APIKey, demo.PublicURL = base, Key, base
	if demo.HookURL == "" {
		demo.HookURL = base + shop.HookPath
	}
	t.Cleanup(func() { must(t, demo.Close()) })
	p, err := Start(t.Context(), Options{
		Dir: t.TempDir(), API: l, Log: slog.New(slog.DiscardHandler), Address: &Address{PublicURL: base, Shop: wrap(demo.Handler())},
	})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return base
}
