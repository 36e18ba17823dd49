package browser

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/browsertest"
)

// shopPolicy is that of a page which allows nothing but what D61 names.
const shopPolicy = "default-src 'none'; script-src 'nonce-n' %[1]s; connect-src %[1]s; frame-src %[1]s; form-action 'none'; base-uri 'none'; require-trusted-types-for 'script'"

// chromium is the browser of all tests of this package, for it takes long to start.
var chromium sharedBrowser

// A sharedBrowser is started by the first test that wants it, and ends with the process.
type sharedBrowser struct {
	ctx context.Context
	end []func()
}

// open returns the context of the one tab.
func (b *sharedBrowser) open(t *testing.T) context.Context {
	if b.ctx == nil {
		b.ctx = browsertest.NewBrowser(keptTB{t, b})
	}
	return b.ctx
}

// keptTB is a test of which the clean-up waits for the end of the process.
type keptTB struct {
	testing.TB
	browser *sharedBrowser
}

func (k keptTB) Cleanup(f func()) { k.browser.end = append(k.browser.end, f) }

func TestMain(m *testing.M) {
	code := m.Run()
	for _, f := range slices.Backward(chromium.end) {
		f()
	}
	os.Exit(code)
}

// A world is a shop, a browser listener with a fake engine, an issuer, and a Chromium.
type world struct {
	t      *testing.T
	ctx    context.Context
	engine *fakeEngine
	base   string // address of the browser listener
	bank   string
	shop   string
	looks  sync.Map // the looks of merchants that differ from the others, by name
	echo   sync.Map // further pages of the shop, by path

	handler http.Handler // pages and steps of the browser listener
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, engine: newFakeEngine(), ctx: chromium.open(t)}
	listener := httptest.NewUnstartedServer(nil)
	w.base = "http://localhost:" + port(listener)
	bank := httptest.NewServer(newBank(t, w.base))
	shop := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		if page, has := w.echo.Load(r.URL.Path); has {
			_, _ = rw.Write([]byte(page.(string)))
			return
		}
		rw.Header().Set("Content-Security-Policy", fmt.Sprintf(shopPolicy, w.base))
		_, _ = fmt.Fprintf(rw, `<!doctype html><html lang="en"><title>Shop</title><h1>Shop</h1><button id="pay">Pay</button><div id="inline"></div>
<script type="module" nonce="n">
import { authenticate } from %q
window.steps = []
window.call = authenticate
window.authenticate = (o) => {
  return authenticate({ onStep: (s) => steps.push(s), ...o }).then((end) => (window.end = end))
}
window.isReady = true
</script>`, w.base+"/threeds.js")
	}))
	handler := New(Settings{
		URL: w.base, Engine: w.engine, IsLab: true, Log: slog.New(slog.DiscardHandler),
		Looks: func(_ context.Context, merchant string) Looks {
			if looks, has := w.looks.Load(merchant); has {
				return looks.(Looks)
			}
			return Looks{Name: "Fjord Audio"}
		},
	})
	listener.Config.Handler, w.handler = handler, handler
	listener.Start()
	w.bank, w.shop = bank.URL, shop.URL
	t.Cleanup(func() { // the browser ends first
		listener.CloseClientConnections()
		bank.CloseClientConnections()
		listener.Close()
		bank.Close()
		shop.Close()
	})
	return w
}

func port(s *httptest.Server) string {
	_, p, _ := strings.Cut(s.Listener.Addr().String(), ":")
	return p
}

func (w *world) do(steps ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	if err := chromedp.Do(w.ctx, steps...); err != nil {
		browsertest.Screenshot(w.t, w.ctx, "browser-failed-"+strings.ReplaceAll(w.t.Name(), "/", "-"))
		w.t.Fatal(err)
	}
}

// openShop shows the page of the shop.
func (w *world) openShop() {
	w.t.Helper()
	w.do(browsertest.View(1280, 800, "light"), chromedp.Navigate(w.shop))
	w.until(`window.isReady === true`)
}

// start calls authenticate for a token.
func (w *world) start(token, options string) {
	w.t.Helper()
	w.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void authenticate({ url: %q, %s })`, w.base+"/a/"+token, options)))
}

// isBetweenPages reports whether an expression was not read because the tab was on its way to another page.
func isBetweenPages(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "Cannot find context") || strings.Contains(err.Error(), "Inspected target navigated"))
}

// until waits until an expression is true in the page.
func (w *world) until(expression string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	err := chromedp.Do(ctx, chromedp.Poll[chromedp.Void](expression))
	for isBetweenPages(err) {
		time.Sleep(20 * time.Millisecond)
		err = chromedp.Do(ctx, chromedp.Poll[chromedp.Void](expression))
	}
	if err != nil {
		browsertest.Screenshot(w.t, w.ctx, "browser-failed-"+strings.ReplaceAll(w.t.Name(), "/", "-"))
		w.t.Fatalf("%s: %v", expression, err)
	}
}

func (w *world) read(expression string) string {
	w.t.Helper()
	got, err := chromedp.Run(w.ctx, chromedp.Evaluate[string](expression))
	if err != nil {
		w.t.Fatalf("%s: %v", expression, err)
	}
	return got
}

// ends waits for the end of authenticate and compares its status and the steps.
func (w *world) ends(status, steps string) {
	w.t.Helper()
	w.until(`window.end !== undefined`)
	if got := w.read(`end.status`); got != status {
		w.t.Errorf("status %s, want %s", got, status)
	}
	if got := w.read(`steps.join(" ")`); got != steps {
		w.t.Errorf("steps %s, want %s", got, steps)
	}
	if w.read(`String(document.querySelector("div:not(#inline)"))`) != "null" {
		w.t.Error("the dialog stayed in the page")
	}
	w.do(chromedp.Evaluate[chromedp.Void](`delete window.end; window.steps = []; undefined`))
}

// mark is the expression of an element with a data-threeds mark.
func mark(name string) string {
	return fmt.Sprintf(`(document.querySelector("body > div:not(#inline), #inline > div")?.shadowRoot.querySelector("[data-threeds=%s]"))`, name)
}

func TestB6Chromium(t *testing.T) {
	w := newWorld(t)
	w.openShop()
	for _, c := range []struct {
		name, status, steps string
		row                 fakeRow
	}{
		{"frictionless", "completed", "begin result end", fakeRow{}},
		{"with a 3DS Method", "completed", "begin method result end", fakeRow{methodURL: "/method"}},
		{"method silent", "completed", "begin method result end", fakeRow{methodURL: "/method?silent", methodEnd: time.Second}},
		{"challenge pass", "completed", "begin method challenge result end", fakeRow{methodURL: "/method", acsURL: "/challenge?pass"}},
		{"challenge fail", "failed", "begin challenge result end", fakeRow{acsURL: "/challenge?pass", end: "failed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.t = t
			if c.row.methodURL != "" {
				c.row.methodURL = w.bank + c.row.methodURL
			}
			if c.row.acsURL != "" {
				c.row.acsURL = w.bank + c.row.acsURL
			}
			token := w.engine.add(c.row)
			w.start(token, "")
			w.ends(c.status, c.steps)
			row := w.engine.row(token)
			if row.areqs != 1 || row.data["browserScreenWidth"] == "" || !strings.Contains(row.data["browserAcceptHeader"], "text/html") {
				t.Errorf("%d AReqs, data %v", row.areqs, row.data)
			}
		})
	}
}

// TestD76CancelAsksFirst: Escape asks, Escape again goes on, and only the button that says so cancels.
func TestD76CancelAsksFirst(t *testing.T) {
	w := newWorld(t)
	w.openShop()
	token := w.engine.add(fakeRow{acsURL: w.bank + "/challenge"})
	w.do(chromedp.Focus(chromedp.CSS("#pay")))
	w.start(token, "")
	w.until(mark("challenge") + " !== undefined && " + mark("challenge") + " !== null")
	w.do(chromedp.KeyEvent("\x1b"))
	w.until(mark("keep") + " === document.activeElement.shadowRoot.activeElement")
	w.until(mark("keep") + `.parentNode.role === "alertdialog"`)
	browsertest.Screenshot(t, w.ctx, "browser-cancel")
	w.do(chromedp.KeyEvent("\x1b"))
	w.until("!" + mark("keep") + " && " + mark("challenge") + ".isConnected")
	w.do(chromedp.KeyEvent("\x1b"))
	w.until("!!" + mark("confirm-cancel"))
	w.do(chromedp.KeyEvent("\t"), chromedp.KeyEvent("\r"))
	w.ends("cancelled", "begin challenge end")
	if got := w.read(`document.activeElement.id`); got != "pay" {
		t.Errorf("the focus is on %q, want it back on the button", got)
	}
	if got := w.engine.row(token).view.End; got != "cancelled" {
		t.Errorf("the server has %q", got)
	}

	// A text of the issuer waits until it was confirmed.
	w.start(w.engine.add(fakeRow{info: "<b>Please call</b>", end: "failed"}), "")
	w.until(mark("continue") + "?.parentNode.querySelector('.note').textContent === '<b>Please call</b>'")
	w.do(chromedp.KeyEvent("\r"))
	w.ends("failed", "begin result end")

	// Two calls in one page are one, and send one AReq.
	token = w.engine.add(fakeRow{acsURL: w.bank + "/challenge?pass"})
	w.start(token, "")
	w.start(token, "")
	w.ends("completed", "begin challenge result end")
	if got := w.engine.row(token).areqs; got != 1 {
		t.Errorf("%d AReqs", got)
	}

	// After a reload the same tab goes on where it stood. On a phone the dialog fills the screen.
	token = w.engine.add(fakeRow{acsURL: w.bank + "/challenge"})
	w.start(token, "")
	w.until("!!" + mark("challenge"))
	w.openShop()
	w.do(browsertest.View(320, 600, "dark"))
	w.start(token, "locale: 'ar'")
	w.until("!!" + mark("challenge"))
	w.until(`document.querySelector("body > div:not(#inline)").shadowRoot.querySelector("dialog").getBoundingClientRect().width === 320`)
	w.until(mark("dialog") + `.dir === "rtl" && document.documentElement.scrollWidth <= 320`)
	browsertest.Screenshot(t, w.ctx, "browser-phone-ar")
	if row := w.engine.row(token); row.areqs != 1 {
		t.Errorf("%d AReqs after a reload", row.areqs)
	}
}
