package hosted

import (
	"cmp"
	"context"
	"fmt"
	"html"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/openthreeds/threeds/internal/edge/browser"
	"github.com/openthreeds/threeds/internal/edge/browser/enginetest"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// A gridWay is the way of a shop to the steps of the browser listener.
type gridWay string

const (
	scriptWay gridWay = "threeds.js"
	hostedWay gridWay = "hosted page"
)

// A gridWorld is a shop, a browser listener with a fake engine and an issuer, behind a network that can be slow and
// cut, and a browser of one engine.
type gridWorld struct {
	t       *testing.T
	way     gridWay
	engine  *enginetest.Engine
	posts   *postLog
	browser browsertest.Engine
	tab     browsertest.Tab
	network *browsertest.Network
	base    string // address of the browser listener
	bank    string
	shop    string
	late    chan struct{} // its end lets the bank answer what it holds back
}

// A postLog counts the CReqs that the bank received.
type postLog struct {
	mu    sync.Mutex
	creqs map[string]int
}

func (p *postLog) record(creq string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.creqs[creq]++
}

// count returns how often a CReq came to the bank.
func (p *postLog) count(creq string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.creqs[creq]
}

// shopPage is the page of a merchant. Its button pays with threeds.js for the token in the query of the address, and
// its link leads to the hosted page, which is also the way for browsers without JavaScript.
const shopPage = `<!doctype html><html lang="en"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Shop</title>
<main><h1>Shop</h1><button id="pay" type="button">Pay</button><p><a id="hosted" href="%[1]s/a/%[2]s">Pay on another page</a></p><div id="inline"></div></main>
<script type="module" nonce="n">
import { authenticate } from "%[1]s/threeds.js"
window.steps = []
window.ends = []
window.begun = 0
window.start = (token, o) => {
  begun++
  authenticate({ url: "%[1]s/a/" + token, onStep: (s) => steps.push(s), ...o }).then((end) => ends.push(end.status))
}
document.getElementById("pay").onclick = () => start("%[2]s")
window.isReady = true
</script>`

func newGridWorld(t *testing.T, engine browsertest.Engine, o browsertest.Options) *gridWorld {
	w := &gridWorld{
		t: t, way: scriptWay, engine: enginetest.NewEngine(), posts: &postLog{creqs: map[string]int{}}, browser: engine,
		network: &browsertest.Network{}, late: make(chan struct{}),
	}
	listener := httptest.NewUnstartedServer(nil)
	_, port, _ := net.SplitHostPort(w.network.Listen(t, "127.0.0.1", listener.Listener.Addr().String()))
	w.base = "http://localhost:" + port // another site than the shop and the bank
	pages := enginetest.Bank(w.base)
	bank := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/challenge" {
			w.posts.record(r.PostFormValue("creq"))
		}
		wait := func() {
			select {
			case <-w.late:
			case <-r.Context().Done():
			}
		}
		if r.URL.RawQuery == "late" { // nothing comes at first
			wait()
		}
		pages.ServeHTTP(rw, r)
		if r.URL.RawQuery == "slow" { // the page is in view, but its end does not come at first
			_ = http.NewResponseController(rw).Flush()
			wait()
		}
	}))
	shop := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		rw.Header().Set("Content-Security-Policy", fmt.Sprintf(shopPolicy, w.base))
		_, _ = fmt.Fprintf(rw, shopPage, w.base, html.EscapeString(r.FormValue("token")))
	}))
	w.bank = "http://" + w.network.Listen(t, "127.0.0.1", bank.Listener.Addr().String())
	w.shop = "http://" + w.network.Listen(t, "127.0.0.1", shop.Listener.Addr().String())
	listener.Config.Handler = browser.New(browser.Settings{
		URL: w.base, Engine: w.engine, IsLab: true, Log: slog.New(slog.DiscardHandler),
		Looks: func(context.Context, string) browser.Looks { return browser.Looks{Name: "Fjord Audio"} },
	})
	listener.Start()
	t.Cleanup(func() { // the browser ends first
		for _, s := range []*httptest.Server{listener, bank, shop} {
			s.CloseClientConnections()
			s.Close()
		}
	})
	w.tab = browsertest.Open(t, engine, o)
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
	if err := browsertest.WaitInTest(w.t, condition); err != nil {
		w.must(fmt.Errorf("%s: %w", name, err))
	}
}

// gridRoot is the expression of the shadow root of the dialog or, on the hosted page, of what stands in the page.
const gridRoot = `document.querySelector("body > div:not(#inline), #inline > div, #flow > div")?.shadowRoot`

// gridMark is the expression of an element with a data-threeds mark, in both ways.
func gridMark(name string) string {
	return fmt.Sprintf(`(%s?.querySelector("[data-threeds=%s]"))`, gridRoot, name)
}

// openShop shows the page of the shop, ready to pay with a token.
func (w *gridWorld) openShop(token string) {
	w.t.Helper()
	w.must(w.tab.Navigate(w.shop + "/?" + newSecret()[:8] + "&token=" + token))
	w.until("window.isReady")
}

// add adds an authentication with a 3DS Method and a challenge at the bank, each by its path; "" means none.
func (w *gridWorld) add(method, challenge string, row enginetest.Row) string {
	if method != "" {
		row.MethodURL = w.bank + method
	}
	if challenge != "" {
		row.ACSURL = w.bank + challenge
	}
	row.View.ReturnURL = w.shop + "/back?order=1"
	return w.engine.Add(row)
}

// pay opens the shop for a token and clicks what begins the payment.
func (w *gridWorld) pay(token string) {
	w.t.Helper()
	w.openShop(token)
	w.clickPay(1)
}

// payButtons are the ids of what begins a payment in the page of the shop.
var payButtons = map[gridWay]string{scriptWay: "pay", hostedWay: "hosted"}

// clickPay clicks what begins the payment, count times in a row.
func (w *gridWorld) clickPay(count int) {
	w.t.Helper()
	w.must(browsertest.Click(w.tab, fmt.Sprintf("document.getElementById(%q)", payButtons[w.way]), count))
}

func (w *gridWorld) click(name string) {
	w.t.Helper()
	w.until(gridMark(name))
	w.must(browsertest.Click(w.tab, gridMark(name), 1))
}

// atBank waits until the page of the bank is there.
func (w *gridWorld) atBank() {
	w.t.Helper()
	w.poll("the page of the bank", func() (bool, error) {
		return w.tab.AnyFrame(`location.pathname == "/challenge" && document.readyState == "complete" && !!document.getElementById("go")`)
	})
}

// confirm confirms at the bank. It clicks a moment later, for the answer of a frame that goes to another page may be
// lost. That the challenge is over shows that the click was not.
func (w *gridWorld) confirm(token string) {
	w.t.Helper()
	w.poll("confirm at the bank", func() (bool, error) {
		if w.engine.Row(token).View.Step == session.StepEnd {
			return true, nil
		}
		return w.tab.AnyFrame(`(() => {
			const go = location.pathname == "/challenge" && document.readyState == "complete" && document.getElementById("go")
			if (go) setTimeout(() => go.click(), 100)
			return Boolean(go)
		})()`)
	})
}

// ends waits for the end, and compares its status, the steps and the number of AReqs. On the hosted page the end is
// that the shopper is back at the shop, and there are no steps.
func (w *gridWorld) ends(token, status, steps string) {
	w.t.Helper()
	row := w.engine.Row(token)
	if w.way == hostedWay {
		w.until(fmt.Sprintf(`document.title == "Shop" && location.pathname + location.search == %q`, "/back?order=1&authentication="+row.View.ID))
	} else {
		w.until("window.ends?.length > 0")
		var got, gotSteps string
		w.must(w.tab.Eval(`[...new Set(ends)].join(" ")`, &got))
		w.must(w.tab.Eval(`window.steps.join(" ")`, &gotSteps))
		if got != status {
			w.t.Errorf("status %s, want %s", got, status)
		}
		if steps != "" && gotSteps != steps {
			w.t.Errorf("steps %s, want %s", gotSteps, steps)
		}
	}
	var isOpen bool
	w.must(w.tab.Eval(`!!document.querySelector("body > div:not(#inline)")`, &isOpen))
	if isOpen {
		w.t.Error("the dialog stayed in the page")
	}
	row = w.engine.Row(token)
	if row.View.End != status {
		w.t.Errorf("the server has the end %q, want %q", row.View.End, status)
	}
	if row.AReqs != 1 {
		w.t.Errorf("%d AReqs, want 1", row.AReqs)
	}
}

// gridEngines are the engines of the grid: Chromium, and with BROWSERS=all the others, too.
func gridEngines() []browsertest.Engine {
	if os.Getenv("BROWSERS") == "all" {
		return browsertest.Engines
	}
	return []browsertest.Engine{browsertest.Chromium}
}

// gridColumn is a column of the grid: a way in a browser.
type gridColumn struct {
	engine browsertest.Engine
	way    gridWay
}

// TestB6Grid takes the browsers of three engines through all rows, with threeds.js and on the hosted page, and prints a
// table of them.
func TestB6Grid(t *testing.T) {
	cells := map[gridColumn][]string{}
	t.Run("engines", func(t *testing.T) {
		for _, engine := range gridEngines() {
			for _, way := range []gridWay{scriptWay, hostedWay} {
				column := make([]string, len(gridRows))
				cells[gridColumn{engine, way}] = column
				t.Run(string(engine)+" "+string(way), func(t *testing.T) {
					t.Parallel() // The engines wait for banks most of the time.
					runGridColumn(t, gridColumn{engine, way}, column)
				})
			}
		}
	})
	table := formatGrid(cells)
	t.Log("\n" + table)
	browsertest.SaveText(t, "browser-grid.md", table)
}

// runGridColumn runs all rows in one browser and fills the cells of the column. The browser of a row that failed may
// have ended, so the next row gets another one.
func runGridColumn(t *testing.T, c gridColumn, cells []string) {
	open := func() *gridWorld {
		w := newGridWorld(t, c.engine, browsertest.Options{})
		w.way = c.way
		return w
	}
	w := open()
	for i, row := range gridRows {
		if !isInGrid(c.way, i) {
			cells[i] = "only with WALKS=all"
			continue
		}
		cells[i] = "FAILED"
		hasPassed := t.Run(row.name, func(t *testing.T) {
			inner := *w
			inner.t = t
			note := row.test(&inner)
			if !t.Failed() {
				cells[i] = cmp.Or(note, "yes")
			}
		})
		if !hasPassed {
			w = open()
		}
	}
}

// isInGrid reports whether a row is run in a way. A long walk, and one over all browsers, runs each row in both ways.
// Otherwise each row is run in one way, but for the bank that never answers: it takes half a minute, and
// TestD68ADeadBankIsSaid shows the same with a clock of its own.
func isInGrid(way gridWay, row int) bool {
	if browsertest.HasLongWalks() || os.Getenv("BROWSERS") == "all" {
		return true
	}
	if gridRows[row].name == neverAnswers {
		return false
	}
	return (row%2 == 0) == (way == scriptWay)
}

// formatGrid returns the table of the cells. A browser that did not run says so.
func formatGrid(cells map[gridColumn][]string) string {
	var columns []gridColumn
	for _, engine := range browsertest.Engines {
		columns = append(columns, gridColumn{engine, scriptWay}, gridColumn{engine, hostedWay})
	}
	var table strings.Builder
	table.WriteString("| |")
	for _, c := range columns {
		fmt.Fprintf(&table, " %s, %s |", c.engine, c.way)
	}
	table.WriteString("\n|---" + strings.Repeat("|---", len(columns)) + "|\n")
	for i, row := range gridRows {
		fmt.Fprintf(&table, "| %s |", row.name)
		for _, c := range columns {
			cell := "not run"
			if column := cells[c]; column != nil && column[i] != "" {
				cell = column[i]
			}
			fmt.Fprintf(&table, " %s |", cell)
		}
		table.WriteString("\n")
	}
	return table.String() + gridNote
}

// gridNote explains the words of the table.
const gridNote = `
"yes": the test passed. "not run": the browsers of this run are Chromium alone; ` + "`go -C testing run ./long browsers`" + ` runs all three.
"yes, on the hosted page": threeds.js needs JavaScript. The link of the shop leads to the hosted page instead.
"yes, cookies off": WebKit always refuses cookies to frames of other sites. Their storage, which is apart for each site that
shows them, cannot be turned off.
Two tabs are two windows in WebKit: clicks of its driver do not reach a tab that is behind another one.
Slow 3G is 400 kbit/s and 400 ms. The network of the test makes it, so every engine has it.
`
