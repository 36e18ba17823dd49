package hosted

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/edge/browser/enginetest"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// A stand is where a shopper stands when the bank's page is over.
type stand string

const (
	atShop    stand = "the address of the shop, with the id"
	atPage    stand = "the page of the shop that paid"
	atEndPage stand = "the page that says the end"
)

// stands are the ways of a shopper through the bank's page. The bank sends back the session data of its first CReq.
var stands = []struct {
	name        string
	way         gridWay
	bank        string
	isOpened    bool // the shopper opens the bank outside of the frame
	isBlocked   bool // the browser opens no windows
	hasNoReturn bool // the authentication has no returnUrl
	want        stand
}{
	{"hosted page, frame", hostedWay, "/challenge", false, false, false, atShop},
	{"hosted page, frame, no returnUrl", hostedWay, "/challenge", false, false, true, atEndPage},
	{"hosted page, whole tab", hostedWay, "/challenge?deny", true, false, false, atShop},
	{"hosted page, whole tab, no returnUrl", hostedWay, "/challenge?deny", true, false, true, atEndPage},
	{"threeds.js, frame", scriptWay, "/challenge", false, false, false, atPage},
	{"threeds.js, window", scriptWay, "/challenge?deny", true, false, false, atPage},
	{"threeds.js, window, no returnUrl", scriptWay, "/challenge?deny", true, false, true, atPage},
	{"threeds.js, whole tab", scriptWay, "/challenge?deny", true, true, false, atShop},
	{"threeds.js, whole tab, no returnUrl", scriptWay, "/challenge?deny", true, true, true, atEndPage},
}

// TestN1WhereTheShopperStands: the bank in a frame, in the whole tab and in a window of its own leave the shopper at
// the shop or, without an address of the shop, on the page that says the end.
func TestN1WhereTheShopperStands(t *testing.T) {
	for _, engine := range gridEngines() {
		t.Run(string(engine), func(t *testing.T) {
			var run overlap
			for _, c := range stands {
				w := run.world(t, engine)
				w.way = c.way
				row := enginetest.Row{ACSURL: w.bank + c.bank}
				if !c.hasNoReturn {
					row.View.ReturnURL = w.shop + "/back?order=1"
				}
				token := w.engine.Add(row)
				w.must(w.tab.Resize(1280, 900)) // Nothing scrolls: a click right after that may reach what was there before.
				w.openShop(token)
				if c.isBlocked {
					w.must(w.tab.Eval("window.open = () => null", nil))
				}
				w.clickPay(1)
				run.then(engine, func() {
					if c.isOpened {
						w.openBank(token)
					} else {
						w.confirm(token)
					}
					w.poll(c.name+": "+string(c.want), func() (bool, error) { return w.standsAt(c.want, w.engine.Row(token).View.ID) })
				})
			}
			run.finish()
		})
	}
}

// An overlap lets tests in Chromium wait for their banks at the same time, each in a tab with cookies of its own. The
// other engines have one browser, in which they follow each other.
type overlap struct {
	shared *gridWorld
	steps  []func()
}

// world returns a world for the next test.
func (o *overlap) world(t *testing.T, engine browsertest.Engine) *gridWorld {
	t.Helper()
	if engine == browsertest.Chromium {
		return newGridWorld(t, engine, browsertest.Options{})
	}
	if o.shared == nil {
		o.shared = newGridWorld(t, engine, browsertest.Options{})
	}
	o.shared.late = make(chan struct{})
	return o.shared
}

// then calls a step when all tests have begun or, in one browser, now.
func (o *overlap) then(engine browsertest.Engine, step func()) {
	if engine == browsertest.Chromium {
		o.steps = append(o.steps, step)
		return
	}
	step()
}

// finish calls the steps that wait.
func (o *overlap) finish() {
	for _, step := range o.steps {
		step()
	}
}

// openBank opens the bank outside of the frame. The button makes way for the link when a page comes into the frame, so
// a click on it may be lost.
func (w *gridWorld) openBank(token string) {
	w.t.Helper()
	clicked := ""
	w.poll("the bank gets the CReq outside of the frame", func() (bool, error) {
		if w.posts.count(w.engine.Row(token).Tag) > 1 {
			return true, nil
		}
		var kind string
		err := w.tab.Eval(gridMark("open-bank")+`?.className ?? ""`, &kind)
		if err != nil || kind == "" || kind == clicked {
			return false, err
		}
		clicked = kind
		return false, browsertest.Click(w.tab, gridMark("open-bank"), 1)
	})
}

// standsAt reports whether the one tab that there is shows where the shopper is to stand. id is that
// of the authentication.
func (w *gridWorld) standsAt(want stand, id string) (bool, error) {
	if n, err := w.tab.Windows(); n != 1 || err != nil {
		return false, err
	}
	url, err := w.tab.URL()
	if err != nil {
		return false, err
	}
	isThere, expression := false, ""
	switch want {
	case atShop:
		isThere, expression = url == w.shop+"/back?order=1&authentication="+id, `document.title == "Shop"`
	case atPage:
		isThere, expression = strings.HasPrefix(url, w.shop+"/?"), `ends.join() == "completed" && !document.querySelector("body > div:not(#inline)")`
	case atEndPage:
		isThere = strings.HasPrefix(url, w.base+"/")
		expression = fmt.Sprintf(`document.querySelector("[data-testid=hosted-end] h1")?.textContent == %q`, text(w.t, "endTitle"))
	}
	if !isThere {
		return false, fmt.Errorf("the tab is at %s", url)
	}
	var is bool
	err = w.tab.Eval(expression, &is)
	return is, err
}

// places is the expression of where the dialog and the frame of the bank are, and how large.
var places = fmt.Sprintf(`(() => {
	const at = (e) => (({ x, y, width, height }) => [x, y, width, height].map(Math.round).join(" "))(e.getBoundingClientRect())
	return [%s.firstElementChild, %s].map(at).join(", ")
})()`, gridRoot, gridMark("challenge"))

// isUncovered is the expression of whether the frame of the bank is in view, no lower than the protocol has it, with
// the way out of it below.
var isUncovered = fmt.Sprintf(`((frame, open) => getComputedStyle(frame).visibility == "visible" && frame.offsetHeight >= 400 &&
	open.getBoundingClientRect().top >= frame.getBoundingClientRect().bottom)(%s, %s)`, gridMark("challenge"), gridMark("open-bank"))

// TestN1TheWayOutOfTheFrameCoversAndMovesNothing: over a page of the bank that is in view, also if its end does not
// come, there is no button, and neither what opens the bank nor a lost connection moves the dialog. A frame that stays
// empty has the button in its place, until the page comes.
func TestN1TheWayOutOfTheFrameCoversAndMovesNothing(t *testing.T) {
	for _, engine := range gridEngines() {
		t.Run(string(engine), func(t *testing.T) {
			var run overlap
			for i, bank := range []string{"/challenge", "/challenge?slow", "/challenge?late"} {
				for j, way := range []gridWay{scriptWay, hostedWay} {
					if os.Getenv("BROWSERS") != "all" && i%2 != j {
						continue
					}
					if engine == browsertest.WebKit && bank == "/challenge?slow" {
						continue // Its driver looks into no page that still loads.
					}
					w := run.world(t, engine)
					w.way = way
					w.pay(w.add("", bank, enginetest.Row{}))
					w.until(gridMark("challenge"))
					isLate := bank == "/challenge?late"
					if !isLate {
						w.poll("the page of the bank", func() (bool, error) {
							return w.tab.AnyFrame(`location.pathname == "/challenge" && !!document.getElementById("go")`)
						})
					}
					w.untilShown()
					var before string
					w.must(w.tab.Eval(places, &before))
					rests := func(when string) {
						t.Helper()
						var now string
						w.must(w.tab.Eval(places, &now))
						if now != before {
							t.Errorf("%s, %s, %s: the dialog and the frame are at %s, were at %s", bank, way, when, now, before)
						}
					}
					run.then(engine, func() {
						w.until(gridMark("open-bank"))
						rests("with the way out")
						if isLate {
							w.until(fmt.Sprintf(`getComputedStyle(%s).visibility == "hidden"`, gridMark("challenge")))
							close(w.late)
						}
						w.until(isUncovered)
						rests("with the page of the bank")
						w.network.Cut()
						w.until(hasStatus(text(t, "offlineTitle")))
						rests("without a connection")
						w.network.Mend()
					})
				}
			}
			run.finish()
		})
	}
}
