package browser

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/browsertest"
)

// A gridWorld is a shop, a browser listener with a fake engine and an issuer, behind a network that can be slow and cut,
// and a browser of one engine.
type gridWorld struct {
	t       *testing.T
	engine  *fakeEngine
	browser browsertest.Engine
	tab     browsertest.Tab
	network *browsertest.Network
	base    string // address of the browser listener
	bank    string
	shop    string
}

// shopPage is the page of a merchant. Its button pays for the token in the fragment of the address.
const shopPage = `<!doctype html><html lang="en"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Shop</title>
<main><h1>Shop</h1><button id="pay" type="button">Pay</button><div id="inline"></div></main>
<script type="module" nonce="n">
import { authenticate } from "%[1]s/threeds.js"
window.steps = []
window.ends = []
window.start = (token, o) => {
  authenticate({ url: "%[1]s/a/" + token, onStep: (s) => steps.push(s), ...o }).then((end) => ends.push(end.status))
}
document.getElementById("pay").onclick = () => start(location.hash.slice(1))
window.isReady = true
</script>`

func newGridWorld(t *testing.T, browser browsertest.Engine, o browsertest.Options) *gridWorld {
	w := &gridWorld{t: t, engine: newFakeEngine(), browser: browser, network: &browsertest.Network{}}
	listener := httptest.NewUnstartedServer(nil)
	_, port, _ := net.SplitHostPort(w.network.Listen(t, "127.0.0.1", listener.Listener.Addr().String()))
	w.base = "http://localhost:" + port // another site than the shop and the bank
	bank := httptest.NewServer(newBank(t, w.base))
	shop := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		rw.Header().Set("Content-Security-Policy", fmt.Sprintf(shopPolicy, w.base))
		_, _ = fmt.Fprintf(rw, shopPage, w.base)
	}))
	w.bank = "http://" + w.network.Listen(t, "127.0.0.1", bank.Listener.Addr().String())
	w.shop = "http://" + w.network.Listen(t, "127.0.0.1", shop.Listener.Addr().String())
	listener.Config.Handler = New(Settings{
		URL: w.base, Engine: w.engine, IsLab: true, Log: slog.New(slog.DiscardHandler),
		Looks: func(context.Context, string) Looks { return Looks{Name: "Fjord Audio"} },
	})
	listener.Start()
	t.Cleanup(func() { // the browser ends first
		for _, s := range []*httptest.Server{listener, bank, shop} {
			s.CloseClientConnections()
			s.Close()
		}
	})
	w.tab = browsertest.Open(t, browser, o)
	return w
}

// must ends the test for an error, with a picture of what the browser showed.
func (w *gridWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		browsertest.SavePNG(w.t, w.tab, "grid-failed-"+strings.ReplaceAll(w.t.Name(), "/", "-"))
		w.t.Fatal(err)
	}
}

// until waits until an expression is true in the page.
func (w *gridWorld) until(expression string) {
	w.t.Helper()
	w.untilIn(w.tab, expression)
}

func (w *gridWorld) untilIn(tab browsertest.Tab, expression string) {
	w.t.Helper()
	w.poll(expression, func() (bool, error) {
		var is bool
		err := tab.Eval("Boolean("+expression+")", &is)
		return is, err
	})
}

// poll waits for a condition. Its name says what did not come.
func (w *gridWorld) poll(name string, condition func() (bool, error)) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	if err := browsertest.Wait(ctx, condition); err != nil {
		w.must(fmt.Errorf("%s: %w", name, err))
	}
}

// openShop shows the page of the shop, ready to pay with a token.
func (w *gridWorld) openShop(token string) {
	w.t.Helper()
	w.must(w.tab.Navigate(w.shop + "/?" + newSecret()[:8] + "#" + token))
	w.until("window.isReady")
}

// add adds an authentication with a 3DS Method and a challenge at the bank, each by its path; "" means none.
func (w *gridWorld) add(method, challenge string, row fakeRow) string {
	if method != "" {
		row.methodURL = w.bank + method
	}
	if challenge != "" {
		row.acsURL = w.bank + challenge
	}
	return w.engine.add(row)
}

// pay opens the shop for a token and clicks its button.
func (w *gridWorld) pay(token string) {
	w.t.Helper()
	w.openShop(token)
	w.must(browsertest.Click(w.tab, `document.getElementById("pay")`, 1))
}

func (w *gridWorld) click(name string) {
	w.t.Helper()
	w.until(mark(name))
	w.must(browsertest.Click(w.tab, mark(name), 1))
}

// atBank waits until the page of the bank is there, and does something in it.
func (w *gridWorld) atBank(deed string) {
	w.t.Helper()
	w.poll("bank: "+deed, func() (bool, error) {
		return w.tab.AnyFrame(fmt.Sprintf(`(() => {
			if (document.title != "Bank" || document.readyState != "complete" || !document.getElementById("go")) return false
			%s
			return true
		})()`, deed))
	})
}

// confirm clicks a moment later, for the answer of a frame that goes to another page may be lost.
const confirm = `setTimeout(() => document.getElementById("go").click(), 100)`

// ends waits for the end of authenticate, and compares its status, the steps and the number of AReqs.
func (w *gridWorld) ends(token, status, steps string) {
	w.t.Helper()
	w.until("window.ends?.length > 0")
	var got, gotSteps string
	w.must(w.tab.Eval(`ends.join(" ")`, &got))
	w.must(w.tab.Eval(`steps.join(" ")`, &gotSteps))
	if got != status {
		w.t.Errorf("status %s, want %s", got, status)
	}
	if steps != "" && gotSteps != steps {
		w.t.Errorf("steps %s, want %s", gotSteps, steps)
	}
	var isOpen bool
	w.must(w.tab.Eval(`!!document.querySelector("body > div:not(#inline)")`, &isOpen))
	if isOpen {
		w.t.Error("the dialog stayed in the page")
	}
	if n := w.engine.row(token).areqs; n != 1 {
		w.t.Errorf("%d AReqs, want 1", n)
	}
}

// gridRows are the rows of the grid. Each returns what its cell says beside that it holds.
var gridRows = []struct {
	name string
	test func(w *gridWorld) string
}{
	{"frictionless", func(w *gridWorld) string {
		token := w.add("/method", "", fakeRow{})
		w.pay(token)
		w.ends(token, "completed", "begin method result end")
		return ""
	}},
	{"challenge pass", func(w *gridWorld) string {
		token := w.add("", "/challenge", fakeRow{})
		w.pay(token)
		w.atBank(confirm)
		w.ends(token, "completed", "begin challenge result end")
		return ""
	}},
	{"challenge fail", func(w *gridWorld) string {
		token := w.add("", "/challenge", fakeRow{end: "failed"})
		w.pay(token)
		w.atBank(confirm)
		w.ends(token, "failed", "begin challenge result end")
		return ""
	}},
	{"cancel", func(w *gridWorld) string {
		token := w.add("", "/challenge", fakeRow{})
		w.pay(token)
		w.atBank("")
		w.click("cancel")
		w.click("confirm-cancel")
		w.ends(token, "cancelled", "begin challenge end")
		return ""
	}},
	{"bank that forbids framing", func(w *gridWorld) string {
		token := w.add("", "/challenge?deny", fakeRow{})
		w.pay(token)
		w.click("open-bank")
		w.ends(token, "completed", "begin challenge result end")
		w.poll("the window closes itself", func() (bool, error) {
			n, err := w.tab.Windows()
			return n == 1, err
		})
		return ""
	}},
	{"bank that never answers", func(w *gridWorld) string {
		token := w.add("", "/challenge?dead", fakeRow{})
		w.pay(token)
		w.until(mark("open-bank"))
		words := textsFor("en", "", "")["deadBank"]
		w.until(fmt.Sprintf(`%s?.parentNode.querySelector("[role=status]").textContent === %q`, mark("open-bank"), words))
		w.click("cancel")
		w.click("confirm-cancel")
		w.ends(token, "cancelled", "begin challenge end")
		return ""
	}},
	{"method silent", func(w *gridWorld) string {
		token := w.add("/method?silent", "", fakeRow{methodEnd: time.Second})
		w.pay(token)
		w.ends(token, "completed", "begin method result end")
		return ""
	}},
}

// gridEngines are the engines of the grid: Chromium, and with BROWSERS=all the others, too.
func gridEngines() []browsertest.Engine {
	if os.Getenv("BROWSERS") == "all" {
		return browsertest.Engines
	}
	return []browsertest.Engine{browsertest.Chromium}
}

// TestB6Grid takes the browsers of three engines through all rows, and prints a table of them.
func TestB6Grid(t *testing.T) {
	cells := map[browsertest.Engine][]string{}
	t.Run("engines", func(t *testing.T) {
		for _, engine := range gridEngines() {
			column := make([]string, len(gridRows))
			cells[engine] = column
			t.Run(string(engine), func(t *testing.T) {
				t.Parallel() // The engines wait for banks most of the time.
				w := newGridWorld(t, engine, browsertest.Options{})
				for i, row := range gridRows {
					column[i] = "FAILED"
					t.Run(row.name, func(t *testing.T) {
						inner := *w
						inner.t = t
						note := row.test(&inner)
						if !t.Failed() {
							column[i] = strings.TrimSpace("yes " + note)
						}
					})
				}
			})
		}
	})
	var table strings.Builder
	fmt.Fprintf(&table, "| |")
	for _, engine := range browsertest.Engines {
		fmt.Fprintf(&table, " %s |", engine)
	}
	table.WriteString("\n|---|---|---|---|\n")
	for i, row := range gridRows {
		fmt.Fprintf(&table, "| %s |", row.name)
		for _, engine := range browsertest.Engines {
			cell := "not run"
			if column := cells[engine]; column != nil && column[i] != "" {
				cell = column[i]
			}
			fmt.Fprintf(&table, " %s |", cell)
		}
		table.WriteString("\n")
	}
	t.Log("\n" + table.String())
	browsertest.SaveText(t, "browser-grid.md", table.String())
}
