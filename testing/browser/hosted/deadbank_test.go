package hosted

import (
	"fmt"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/edge/browser/enginetest"
	"github.com/openthreeds/threeds/internal/engine/session"
)

// TestD68ABankThatForbidsFramingOpensInAWindow: the button comes five seconds after the frame was posted to, and posts
// the same CReq into a window that the click opens. Where windows are blocked, the top window takes it.
func TestD68ABankThatForbidsFramingOpensInAWindow(t *testing.T) {
	w := newWorld(t)
	for _, isBlocked := range []bool{false, true} {
		w.openShop()
		w.eval(holdTimers)
		token := w.engine.Add(enginetest.Row{ACSURL: w.bank + "/challenge?deny"})
		w.start(token, "")
		w.until(`held.some((t) => t.ms == 5000)`)
		if w.read(`String(`+mark("open-bank")+`)`) != "null" {
			t.Error("the button is there before its time")
		}
		w.eval(`release(5000); undefined`)
		w.until("!!" + mark("open-bank"))
		w.eval(fmt.Sprintf(`window.opened = []; window.isBlocked = %t; window.realOpen = window.open
window.open = (to, name) => { opened.push(to); return isBlocked ? null : {} }; undefined`, isBlocked))
		w.eval(mark("open-bank") + `.click()`)
		if isBlocked { // the bank posts itself back at once
			w.until(fmt.Sprintf(`location.href.startsWith(%q) && document.querySelector("[data-testid]") !== null`, w.base+"/n/"))
		} else {
			at := fmt.Sprintf("%s/a/open#%s.", w.base, token)
			if got := w.read(`opened.join(" ")`); !strings.HasPrefix(got, at) || !strings.HasSuffix(got, ".window") {
				t.Errorf("the click opens %.80s, want %.80s….window", got, at)
			}
		}
		if row := w.engine.Row(token); row.AReqs != 1 {
			t.Errorf("%d AReqs", row.AReqs)
		}
	}
}

// TestD74ABankWindowAsksAgain: the page that takes the shopper to the bank's own window asks for
// the CReq until it has it.
func TestD74ABankWindowAsksAgain(t *testing.T) {
	w := newWorld(t)
	w.openShop()
	w.eval(holdTimers)
	token := w.engine.Add(enginetest.Row{ACSURL: w.bank + "/challenge?deny"})
	w.start(token, "")
	w.until(`held.some((t) => t.ms == 5000)`)
	w.eval(`release(5000); undefined`)
	w.until("!!" + mark("open-bank"))
	w.engine.Lose("state")
	w.eval(`window.open = () => null; ` + mark("open-bank") + `.click()`)
	w.until(fmt.Sprintf(`location.href.startsWith(%q) && document.querySelector("[data-testid]") !== null`, w.base+"/n/"))
	if w.engine.WillLose("state") {
		t.Error("no answer was lost")
	}
}

// TestD68ADeadBankIsSaid: after 30 seconds a sentence says that the bank does not answer. The challenge ends when the
// shopper closes it, when the result comes, or after ten and a half minutes.
func TestD68ADeadBankIsSaid(t *testing.T) {
	w := newWorld(t)
	for status, end := range map[string]func(token string){
		"cancelled": func(string) { w.eval(mark("cancel") + `.click()`); w.eval(mark("confirm-cancel") + `.click()`) },
		"completed": func(token string) {
			w.engine.SetStep(token, session.StepEnd)
		},
		"pending": func(token string) { // the next view of the server comes after ten and a half minutes
			w.eval(`window.realNow = Date.now; Date.now = () => realNow() + 631000; undefined`)
			w.engine.SetStep(token, session.StepChallenge)
		},
	} {
		w.openShop()
		w.eval(holdTimers)
		token := w.engine.Add(enginetest.Row{ACSURL: w.bank + "/challenge?dead"})
		w.start(token, "")
		w.until(`held.some((t) => t.ms == 5000)`)
		w.until(`held[held.findIndex((t) => t.ms == 5000) + 1].ms == 30000`) // both are set in one go
		w.eval(`window.dead = held[held.findIndex((t) => t.ms == 5000) + 1]; release(5000); undefined`)
		w.until("!!" + mark("open-bank"))
		said := mark("open-bank") + fmt.Sprintf(`.parentNode.querySelector("[role=status]").textContent == %q`, text(w.t, "deadBank"))
		if w.read(`String(`+said+`)`) != "false" {
			t.Error("the bank is called dead before its time")
		}
		w.eval(`dead.f(); undefined`)
		w.until(said)
		end(token)
		w.until(fmt.Sprintf(`window.end?.status == %q`, status))
	}
}
