package hosted

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/edge/browser/enginetest"
	"github.com/openthreeds/threeds/internal/engine/session"
)

// holdTimers has the page keep each timer of five seconds or more until release is called with its milliseconds.
const holdTimers = `window.held = []; window.realTimeout = window.setTimeout
window.setTimeout = (f, ms, ...a) => ms >= 5000 ? -held.push({ ms, f }) : realTimeout(f, ms, ...a)
window.release = (ms) => { const due = held.filter((t) => t.ms == ms); held = held.filter((t) => t.ms != ms); due.forEach((t) => t.f()) }
undefined`

func (w *world) eval(script string) {
	w.t.Helper()
	w.do(chromedp.Evaluate[chromedp.Void](script))
}

// TestD67MarksOfThreedsJSAreStable: in a dialog and in a container, each mark is found through the open shadow root at
// its time. The hosted page has the same ones, and names of its own for its buttons.
func TestD67MarksOfThreedsJSAreStable(t *testing.T) {
	w := newWorld(t)
	for name, options := range map[string]string{"dialog": "", "container": `container: document.getElementById("inline")`} {
		w.openShop()
		w.eval(holdTimers)
		token := w.engine.Add(enginetest.Row{MethodURL: w.bank + "/method?silent", ACSURL: w.bank + "/challenge?deny"})
		w.start(token, options)
		w.until("!!" + mark("spinner"))
		w.until(mark("method") + `?.tagName == "IFRAME"`)
		waittest.Until(t, "the first step", func() bool { return w.engine.Row(token).View.Step == session.StepMethod })
		w.engine.SetStep(token, session.StepChallenge)
		w.until(mark("challenge") + `?.tagName == "IFRAME"`)
		if isDialog := w.read(`String(` + mark("dialog") + `?.tagName)`); (isDialog == "DIALOG") != (name == "dialog") {
			t.Errorf("%s: the mark dialog is on %s", name, isDialog)
		}
		w.until(`held.some((t) => t.ms == 5000)`)
		w.eval(`release(5000); undefined`)
		w.until(mark("open-bank") + `?.tagName == "BUTTON"`)
		w.eval(mark("cancel") + `.click()`)
		w.until(mark("keep") + `?.tagName == "BUTTON" && ` + mark("confirm-cancel") + `?.tagName == "BUTTON"`)
		w.eval(mark("confirm-cancel") + `.click()`)
		w.until(`window.end?.status == "cancelled"`)
		w.openShop()
		w.start(w.engine.Add(enginetest.Row{Info: "Please call", End: "failed"}), options)
		w.until(mark("continue") + `?.tagName == "BUTTON"`)
		w.eval(mark("continue") + `.click()`)
		w.until(`window.end?.status == "failed"`)
	}

	token := w.engine.Add(enginetest.Row{ACSURL: w.bank + "/challenge"})
	w.do(chromedp.Navigate(w.base + "/a/" + token))
	for _, name := range []string{"challenge", "cancel"} {
		w.until("!!" + hostedMark(name))
	}
	w.eval(hostedMark("cancel") + `.click()`)
	w.until("!!" + hostedMark("keep") + " && !!" + hostedMark("confirm-cancel"))
}

// TestD73InfoOfTheBankIsShownBeforeTheEnd: as plain text, in the dialog as in a container, and authenticate resolves
// only after the button.
func TestD73InfoOfTheBankIsShownBeforeTheEnd(t *testing.T) {
	w := newWorld(t)
	const info = `Call <a href="https://evil.example">us</a> & <img src=x onerror="window.isBroken = true">`
	for _, options := range []string{"", `container: document.getElementById("inline")`} {
		for _, status := range []string{"completed", "failed", "decoupled"} {
			w.openShop()
			w.start(w.engine.Add(enginetest.Row{Info: info, End: status}), options)
			w.until("!!" + mark("continue"))
			if got := w.read(mark("continue") + `.parentNode.querySelector(".note").textContent`); got != info {
				t.Errorf("the text is %q", got)
			}
			if got := w.read(`[` + mark("continue") +
				`.parentNode.querySelectorAll("a, img").length, window.isBroken, window.end].join(" ")`); strings.TrimSpace(got) != "0" {
				t.Errorf("before the button there are elements of the bank, its script or an end: %q", got)
			}
			w.eval(mark("continue") + `.click()`)
			w.until(fmt.Sprintf(`window.end?.status == %q`, status))
		}
	}
}
