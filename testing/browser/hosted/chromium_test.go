package hosted

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/edge/browser"
	"github.com/openthreeds/threeds/internal/edge/browser/enginetest"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// shopPolicy is that of a page which allows nothing but what D61 names.
const shopPolicy = "default-src 'none'; script-src 'nonce-n' %[1]s; connect-src %[1]s; frame-src %[1]s; form-action 'none'; base-uri 'none'; require-trusted-types-for 'script'"

func TestMain(m *testing.M) { os.Exit(browsertest.Main(m)) }

// A world is a shop, a browser listener with a fake engine, an issuer, and a Chromium.
type world struct {
	t      *testing.T
	ctx    context.Context
	engine *enginetest.Engine
	base   string // address of the browser listener
	bank   string
	shop   string
	looks  sync.Map // the looks of merchants that differ from the others, by name
	echo   sync.Map // further pages of the shop, by path

	handler http.Handler // pages and steps of the browser listener
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, engine: enginetest.NewEngine(), ctx: browsertest.NewBrowser(t)}
	listener := httptest.NewUnstartedServer(nil)
	w.base = "http://localhost:" + port(listener)
	bank := httptest.NewServer(enginetest.Bank(w.base))
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
	handler := browser.New(browser.Settings{
		URL: w.base, Engine: w.engine, IsLab: true, Log: slog.New(slog.DiscardHandler),
		Looks: func(_ context.Context, merchant string) browser.Looks {
			if looks, has := w.looks.Load(merchant); has {
				return looks.(browser.Looks)
			}
			return browser.Looks{Name: "Fjord Audio"}
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
		w.fail(err)
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

// is reports whether an expression is true in the page.
func (w *world) is(expression string) (bool, error) {
	return chromedp.Run(w.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
}

// fail ends the test for an error, with a picture of what the browser showed.
func (w *world) fail(err error) {
	w.t.Helper()
	browsertest.FailureScreenshot(w.t, w.ctx, "browser-failed-"+strings.ReplaceAll(w.t.Name(), "/", "-"))
	w.t.Fatal(err)
}

// until waits until an expression is true in the page.
func (w *world) until(expression string) {
	w.t.Helper()
	if err := browsertest.Wait(w.ctx, func() (bool, error) { return w.is(expression) }); err != nil {
		w.fail(fmt.Errorf("%s: %w", expression, err))
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
	// The script waits three seconds for its first frame, which tells the Accept header; here as long as the machine
	// needs.
	w.do(chromedp.Evaluate[chromedp.Void](`const later = setTimeout
window.setTimeout = (action, ms, ...more) => later(action, ms === 3000 ? 1e8 : ms, ...more)
undefined`))
	for _, c := range []struct {
		name, status, steps string
		row                 enginetest.Row
	}{
		{"frictionless", "completed", "begin result end", enginetest.Row{}},
		{"with a 3DS Method", "completed", "begin method result end", enginetest.Row{MethodURL: "/method"}},
		{"method silent", "completed", "begin method result end", enginetest.Row{MethodURL: "/method?silent", MethodEnd: time.Second}},
		{"challenge pass", "completed", "begin method challenge result end", enginetest.Row{MethodURL: "/method", ACSURL: "/challenge?pass"}},
		{"challenge fail", "failed", "begin challenge result end", enginetest.Row{ACSURL: "/challenge?pass", End: "failed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.t = t
			if c.row.MethodURL != "" {
				c.row.MethodURL = w.bank + c.row.MethodURL
			}
			if c.row.ACSURL != "" {
				c.row.ACSURL = w.bank + c.row.ACSURL
			}
			token := w.engine.Add(c.row)
			w.start(token, "")
			w.ends(c.status, c.steps)
			row := w.engine.Row(token)
			if row.AReqs != 1 || row.Data["browserScreenWidth"] == "" || !strings.Contains(row.Data["browserAcceptHeader"], "text/html") {
				t.Errorf("%d AReqs, data %v", row.AReqs, row.Data)
			}
		})
	}
}

// TestB6AFrameThatComesLateGetsItsForm: the script goes on without the Accept header when the first frame is late, and
// the pages of 3DS Method and bank are called all the same, whenever their frames come.
func TestB6AFrameThatComesLateGetsItsForm(t *testing.T) {
	w := newWorld(t)
	w.openShop()
	w.do(chromedp.Evaluate[chromedp.Void](`const later = setTimeout
window.setTimeout = (action, ms, ...more) => later(action, ms === 3000 ? 0 : ms, ...more) // each frame is too late
undefined`))
	token := w.engine.Add(enginetest.Row{MethodURL: w.bank + "/method", ACSURL: w.bank + "/challenge?pass"})
	w.start(token, "")
	w.ends("completed", "begin method challenge result end")
	if accept := w.engine.Row(token).Data["browserAcceptHeader"]; accept != "*/*" {
		t.Errorf("browserAcceptHeader is %q: no frame was late", accept)
	}
}

// TestD76CancelAsksFirst: Escape asks, Escape again goes on, and only the button that says so cancels.
func TestD76CancelAsksFirst(t *testing.T) {
	w := newWorld(t)
	w.openShop()
	token := w.engine.Add(enginetest.Row{ACSURL: w.bank + "/challenge"})
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
	if got := w.engine.Row(token).View.End; got != "cancelled" {
		t.Errorf("the server has %q", got)
	}

	// A text of the issuer waits until it was confirmed.
	w.start(w.engine.Add(enginetest.Row{Info: "<b>Please call</b>", End: "failed"}), "")
	w.until(mark("continue") + "?.parentNode.querySelector('.note').textContent === '<b>Please call</b>'")
	w.do(chromedp.KeyEvent("\r"))
	w.ends("failed", "begin result end")

	// Two calls in one page are one, and send one AReq.
	token = w.engine.Add(enginetest.Row{ACSURL: w.bank + "/challenge?pass"})
	w.start(token, "")
	w.start(token, "")
	w.ends("completed", "begin challenge result end")
	if got := w.engine.Row(token).AReqs; got != 1 {
		t.Errorf("%d AReqs", got)
	}

	// After a reload the same tab goes on where it stood. On a phone the dialog fills the screen.
	token = w.engine.Add(enginetest.Row{ACSURL: w.bank + "/challenge"})
	w.start(token, "")
	w.until("!!" + mark("challenge"))
	w.openShop()
	w.do(browsertest.View(320, 600, "dark"))
	w.start(token, "locale: 'ar'")
	w.until("!!" + mark("challenge"))
	w.until(`document.querySelector("body > div:not(#inline)").shadowRoot.querySelector("dialog").getBoundingClientRect().width === 320`)
	w.until(mark("dialog") + `.dir === "rtl" && document.documentElement.scrollWidth <= 320`)
	browsertest.Screenshot(t, w.ctx, "browser-phone-ar")
	if row := w.engine.Row(token); row.AReqs != 1 {
		t.Errorf("%d AReqs after a reload", row.AReqs)
	}
}
