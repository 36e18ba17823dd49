package hosted

import (
	"fmt"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/edge/browser/enginetest"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// A gridRow is a row of the grid. Its test returns the words of its cell; "" means yes.
type gridRow struct {
	name string
	test func(w *gridWorld) string
}

// neverAnswers is the row that waits until the page says that the bank is dead.
const neverAnswers = "bank that never answers"

// gridRows are the rows of the grid. An hour as the end of the 3DS Method means that only its notification ends it.
var gridRows = []gridRow{
	{"frictionless", func(w *gridWorld) string {
		token := w.add("/method", "", enginetest.Row{MethodEnd: time.Hour})
		w.pay(token)
		w.ends(token, "completed", "begin method result end")
		return ""
	}},
	{"challenge pass", func(w *gridWorld) string {
		token := w.add("", "/challenge", enginetest.Row{})
		w.pay(token)
		w.confirm(token)
		w.ends(token, "completed", "begin challenge result end")
		return ""
	}},
	{"challenge fail", func(w *gridWorld) string {
		token := w.add("", "/challenge", enginetest.Row{End: "failed"})
		w.pay(token)
		w.confirm(token)
		w.ends(token, "failed", "begin challenge result end")
		return ""
	}},
	{"cancel", func(w *gridWorld) string {
		token := w.add("", "/challenge", enginetest.Row{})
		w.pay(token)
		w.atBank()
		w.untilShown()
		w.click("cancel")
		w.click("confirm-cancel")
		w.ends(token, "cancelled", "begin challenge end")
		return ""
	}},
	{"bank that forbids framing", func(w *gridWorld) string {
		w.must(w.tab.Resize(1280, 900)) // Nothing scrolls: a click right after that may reach what was there before.
		token := w.add("", "/challenge?deny", enginetest.Row{})
		w.pay(token)
		w.openBank(token)
		w.ends(token, "completed", "begin challenge result end")
		w.poll("the window closes itself", func() (bool, error) {
			n, err := w.tab.Windows()
			return n == 1, err
		})
		return ""
	}},
	{neverAnswers, func(w *gridWorld) string {
		token := w.add("", "/challenge?dead", enginetest.Row{})
		w.pay(token)
		w.until(gridMark("open-bank"))
		w.until(hasStatus(text(w.t, "deadBank")))
		w.click("cancel")
		w.click("confirm-cancel")
		w.ends(token, "cancelled", "begin challenge end")
		return ""
	}},
	{"method silent", func(w *gridWorld) string {
		token := w.add("/method?silent", "", enginetest.Row{MethodEnd: time.Second})
		w.pay(token)
		w.ends(token, "completed", "begin method result end")
		return ""
	}},
	{"third-party storage off", func(w *gridWorld) string {
		probe := fmt.Sprintf(storageProbe, map[gridWay]string{scriptWay: "127.0.0.1", hostedWay: "localhost"}[w.way])
		kept := func(w *gridWorld) string {
			token := w.add("/method", "/challenge", enginetest.Row{MethodEnd: time.Hour})
			w.pay(token)
			w.atBank()
			var got string
			w.poll("a frame of another site", func() (bool, error) {
				for _, got = range []string{"cookie storage", "storage", "cookie", ""} {
					if is, err := w.tab.AnyFrame(fmt.Sprintf("%s === %q", probe, got)); is || err != nil {
						return is, err
					}
				}
				return false, nil
			})
			w.confirm(token)
			w.ends(token, "completed", "begin method challenge result end")
			return got
		}
		switch on, off := kept(w), kept(w.reopen(browsertest.Options{NoThirdPartyStorage: true})); {
		case on != "" && off == "":
			return ""
		case w.browser == browsertest.WebKit && on == "storage" && off == "storage":
			return "yes, cookies off"
		default:
			w.t.Errorf("frames of other sites keep %q, and with the option %q", on, off)
			return ""
		}
	}},
	{"reload", func(w *gridWorld) string {
		token := w.add("", "/challenge", enginetest.Row{})
		w.pay(token)
		w.atBank()
		w.must(w.tab.Reload())
		w.goOn()
		w.atBankAgain(token)
		w.ends(token, "completed", "")
		return ""
	}},
	{"back", func(w *gridWorld) string {
		token := w.add("", "/challenge", enginetest.Row{})
		w.pay(token)
		w.atBank()
		w.must(w.tab.Navigate(w.shop + "/elsewhere"))
		w.must(w.tab.Back())
		w.goOn()
		if w.way == scriptWay {
			w.poll("the page holds the lock, so another tab would wait for it", func() (bool, error) {
				var held int
				err := w.tab.Eval("navigator.locks.query().then((all) => all.held.length)", &held)
				return held == 1, err
			})
		}
		w.confirm(token)
		w.ends(token, "completed", "")
		if w.way == hostedWay { // Neither the hosted page nor the bank can be reached again.
			w.must(w.tab.Back())
			w.ends(token, "completed", "")
		}
		return ""
	}},
	{"two tabs", func(w *gridWorld) string {
		token := w.add("", "/challenge", enginetest.Row{})
		w.pay(token)
		w.atBank()
		tab, err := w.tab.NewTab()
		w.must(err)
		second := *w
		second.tab = tab
		defer func() { w.must(tab.Close()) }()
		second.pay(token)
		posts := 1
		if w.way == hostedWay { // Both tabs have the cookie, so the second one goes on with the same CReq.
			posts = 2
			second.poll("the bank gets the CReq of the second tab", func() (bool, error) {
				return w.posts.count(w.engine.Row(token).Tag) == posts, nil
			})
		}
		w.confirm(token)
		w.ends(token, "completed", "begin challenge result end")
		second.until(`document.title == "Shop"`)
		second.ends(token, "completed", "")
		if w.way == scriptWay {
			var steps string
			w.must(tab.Eval(`window.steps.join(" ")`, &steps))
			if steps != "" {
				w.t.Errorf("the second tab has the steps %s, want none", steps)
			}
		}
		w.wantPosts(token, posts)
		return ""
	}},
	{"double click", func(w *gridWorld) string {
		token := w.add("", "/challenge", enginetest.Row{})
		w.openShop(token)
		w.clickPay(2)
		w.atBank()
		if w.way == scriptWay {
			var n int
			w.must(w.tab.Eval(`document.querySelectorAll("body > div:not(#inline)").length`, &n))
			if n != 1 {
				w.t.Errorf("%d dialogs, want 1", n)
			}
		}
		w.confirm(token)
		if w.way == scriptWay {
			w.until("window.ends?.length == window.begun") // the dialog may take the second click
		}
		w.ends(token, "completed", "begin challenge result end")
		w.wantPosts(token, 1)
		return ""
	}},
	{"offline in the middle", func(w *gridWorld) string {
		token := w.add("", "/challenge", enginetest.Row{})
		w.pay(token)
		w.atBank()
		offline := hasStatus(text(w.t, "offlineTitle"))
		w.network.Cut()
		defer w.network.Mend()
		w.until(offline)
		w.network.Mend()
		w.until("!" + offline)
		w.confirm(token)
		w.ends(token, "completed", "begin challenge result end")
		return ""
	}},
	{"slow 3G", func(w *gridWorld) string {
		w.network.Slow(400*time.Millisecond, 400_000/8)
		defer w.network.Slow(0, 0)
		token := w.add("/method", "/challenge", enginetest.Row{MethodEnd: time.Hour})
		w.pay(token)
		w.confirm(token)
		w.ends(token, "completed", "begin method challenge result end")
		if accept := w.engine.Row(token).Data["browserAcceptHeader"]; !strings.Contains(accept, "text/html") {
			// The script waits three seconds for the frame that knows it. A busy machine may need more of them than the network.
			var took float64
			w.must(w.tab.Eval(`performance.getEntriesByType("resource").find((e) => e.initiatorType === "iframe")?.duration ?? 0`, &took))
			if took < 2500 {
				w.t.Errorf("browserAcceptHeader is %q: the frame that knows it was there after %.0f ms", accept, took)
			}
		}
		return ""
	}},
	{"JavaScript off", func(w *gridWorld) string {
		inner := w.reopen(browsertest.Options{NoScript: true})
		token := inner.add("/method", "/challenge", enginetest.Row{})
		inner.must(inner.tab.Navigate(inner.shop + "/?token=" + token))
		inner.clickFirst("#hosted")
		inner.clickFirst("form[action$=begin] [data-testid=hosted-continue]")
		inner.clickFirst("[data-threeds=open-bank]")
		inner.clickFirst("#go")
		back := inner.shop + "/back?order=1&authentication=" + inner.engine.Row(token).View.ID
		inner.poll("back at the shop", func() (bool, error) {
			url, err := inner.tab.URL()
			return url == back, err
		})
		row := inner.engine.Row(token)
		if row.View.End != "completed" || row.AReqs != 1 || row.Data["browserJavascriptEnabled"] != "false" {
			w.t.Errorf("end %s, %d AReqs, browserJavascriptEnabled %s", row.View.End, row.AReqs, row.Data["browserJavascriptEnabled"])
		}
		if w.way == scriptWay {
			return "yes, on the hosted page"
		}
		return ""
	}},
	{"320 px wide", func(w *gridWorld) string {
		const width = 320
		w.must(w.tab.Resize(width, 568))
		defer func() { w.must(w.tab.Resize(1280, 800)) }()
		token := w.add("", "/challenge", enginetest.Row{})
		w.pay(token)
		w.atBank()
		w.untilFits(width, "challenge", "cancel")
		if w.way == scriptWay {
			w.until(gridMark("dialog") + ".getBoundingClientRect().width == innerWidth")
		}
		w.click("cancel")
		w.untilFits(width, "keep", "confirm-cancel")
		w.click("keep")
		w.confirm(token)
		w.ends(token, "completed", "begin challenge result end")
		return ""
	}},
	{"keyboard only", func(w *gridWorld) string {
		token := w.add("", "/challenge", enginetest.Row{})
		w.openShop(token)
		button := fmt.Sprintf("document.activeElement?.id == %q", payButtons[w.way])
		w.tabTo(button, w.tab.Eval)
		w.must(w.tab.Press(browsertest.KeyEnter))
		w.atBank()
		if w.way == scriptWay {
			w.until(gridRoot + "?.activeElement") // the dialog has taken the focus
		} else {
			w.tabTo(gridRoot+"?.activeElement === "+gridMark("cancel"), w.tab.Eval)
		}
		w.must(w.tab.Press(browsertest.KeyEscape))
		w.until(gridRoot + "?.activeElement === " + gridMark("keep"))
		w.must(w.tab.Press(browsertest.KeyEscape))
		w.until("!" + gridMark("keep"))
		w.tabTo(`document.activeElement?.id == "go" && document.hasFocus()`, func(expression string, is any) (err error) {
			*is.(*bool), err = w.tab.AnyFrame(expression)
			return err
		})
		w.must(w.tab.Press(browsertest.KeyEnter))
		w.ends(token, "completed", "begin challenge result end")
		if w.way == scriptWay {
			w.until(button)
		}
		return ""
	}},
	{"screen-reader names and roles", func(w *gridWorld) string {

		token := w.add("", "/challenge", enginetest.Row{})
		w.pay(token)
		w.atBank()
		if w.way == scriptWay {
			w.wantAccessible(gridMark("dialog"), "dialog", text(w.t, "title"))
		}
		w.wantAccessible(gridMark("challenge"), "", text(w.t, "frame"))
		w.wantAccessible(gridMark("cancel"), "button", text(w.t, "cancel"))
		w.click("cancel")
		w.until(gridMark("keep"))
		w.wantAccessible(gridMark("keep")+".parentNode", "alertdialog", text(w.t, "cancelTitle"))
		w.wantAccessible(gridMark("keep"), "button", text(w.t, "keep"))
		w.wantAccessible(gridMark("confirm-cancel"), "button", text(w.t, "confirmCancel"))
		w.click("confirm-cancel")
		w.ends(token, "cancelled", "begin challenge end")

		token = w.add("", "", enginetest.Row{Info: "Please call"})
		w.pay(token)
		w.until(gridMark("continue"))
		w.wantAccessible(gridMark("continue"), "button", text(w.t, "continue"))
		w.click("continue")
		w.ends(token, "completed", "begin result end")
		return ""
	}},
}

// storageProbe tells in a frame of another site than the page what the browser lets it keep: "", "cookie", "storage" or
// "cookie storage". In all other frames it is null.
const storageProbe = `(() => {
	if (location.hostname == %q) return null
	const kept = []
	document.cookie = "probe=1; SameSite=None; Secure"
	document.cookie = "plain=1"
	if (/probe|plain/.test(document.cookie)) kept.push("cookie")
	try {
		localStorage.setItem("probe", "1")
		if (localStorage.getItem("probe") == "1") kept.push("storage")
	} catch {}
	return kept.join(" ")
})()`

// reopen returns a world with a browser of the same engine that has other options.
func (w *gridWorld) reopen(o browsertest.Options) *gridWorld {
	w.t.Helper()
	inner := newGridWorld(w.t, w.browser, o)
	inner.way = w.way
	return inner
}

// goOn pays again in a page of the shop that has lost its dialog. The hosted page goes on by itself.
func (w *gridWorld) goOn() {
	w.t.Helper()
	if w.way == hostedWay {
		return
	}
	w.until("window.isReady")
	var isOpen bool
	w.must(w.tab.Eval("!!"+gridMark("dialog"), &isOpen))
	if !isOpen {
		w.clickPay(1)
	}
}

// atBankAgain waits until the bank has received the CReq of a token a second time, and confirms there.
func (w *gridWorld) atBankAgain(token string) {
	w.t.Helper()
	w.poll("the bank gets the same CReq again", func() (bool, error) { return w.posts.count(w.engine.Row(token).Tag) == 2, nil })
	w.confirm(token)
}

// wantPosts compares how often the bank has received the CReq of a token.
func (w *gridWorld) wantPosts(token string, want int) {
	w.t.Helper()
	if n := w.posts.count(w.engine.Row(token).Tag); n != want {
		w.t.Errorf("the bank got the CReq %d times, want %d", n, want)
	}
}

// clickFirst clicks the first element of a selector as soon as it is there, also where pages run no script.
func (w *gridWorld) clickFirst(selector string) {
	w.t.Helper()
	w.poll(selector, func() (bool, error) {
		err := w.tab.ClickFirst(selector)
		return err == nil, err
	})
}

// hasStatus is the expression of whether a status that a screen reader tells has a text.
func hasStatus(text string) string {
	return fmt.Sprintf(`[...(%s?.querySelectorAll("[role=status]") ?? [])].some((e) => !e.hidden && e.textContent == %q)`, gridRoot, text)
}

// untilShown waits until the dialog or what stands in the page is as high as the frame of the bank, or as the viewport.
func (w *gridWorld) untilShown() {
	w.t.Helper()
	w.until(fmt.Sprintf(
		`((box, frame) => box.clientHeight >= Math.min(frame.offsetHeight, innerHeight - 100))(%s.firstElementChild, %s)`,
		gridRoot, gridMark("challenge")))
}

// untilFits waits until the page is as wide as its viewport, with some marked elements inside.
func (w *gridWorld) untilFits(width int, names ...string) {
	w.t.Helper()
	w.until(fmt.Sprintf("innerWidth == %d && document.documentElement.scrollWidth <= innerWidth", width))
	for _, name := range names {
		w.until(fmt.Sprintf(`((r) => r && r.width > 0 && r.left >= 0 && r.right <= innerWidth)(%s?.getBoundingClientRect())`, gridMark(name)))
	}
}

// focused is the expression of what has the focus in the page, or "iframe".
const focused = `(() => {
	let e = document.activeElement
	while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement
	return e?.localName == "iframe" ? "iframe" : [e?.localName, e?.id, e?.dataset.threeds].join(" ")
})()`

// tabTo presses the Tab key until an expression is true where it is evaluated. The focus may not leave an open dialog.
func (w *gridWorld) tabTo(expression string, evaluate func(expression string, into any) error) {
	w.t.Helper()
	for range 40 {
		var before string
		w.must(w.tab.Eval(focused, &before))
		w.must(w.tab.Press(browsertest.KeyTab))
		isThere := false
		w.poll("the next control has the focus", func() (bool, error) {
			if err := evaluate(expression, &isThere); err == nil && isThere {
				return true, nil
			}
			var now string
			if err := w.tab.Eval(focused, &now); err != nil || now != "iframe" {
				return now != before, err
			}
			return w.tab.AnyFrame(`document.hasFocus() && document.activeElement !== document.body`)
		})
		if isThere {
			return
		}
		var isBehind bool
		w.must(w.tab.Eval(`!!document.querySelector("body > div:not(#inline)") && ["pay", "hosted"].includes(document.activeElement?.id)`, &isBehind))
		if isBehind {
			w.t.Fatal("the focus is behind the dialog")
		}
	}
	w.must(fmt.Errorf("the Tab key does not lead to %s", expression))
}

// wantAccessible compares role and name that a screen reader has of an element; "" stands for any role.
func (w *gridWorld) wantAccessible(element, role, name string) {
	w.t.Helper()
	gotRole, gotName, err := w.tab.Accessible(element)
	w.must(err)
	if role != "" && gotRole != role || gotName != name {
		w.t.Errorf("%s: a screen reader has %s %q, want %s %q", element, gotRole, gotName, role, name)
	}
}
