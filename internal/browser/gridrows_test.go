package browser

import (
	"fmt"
	"time"
)

// A gridRow is a row of the grid. Its test returns the words of its cell; "" means yes.
type gridRow struct {
	name string
	test func(w *gridWorld) string
}

// gridRows are the rows of the grid. An hour as the end of the 3DS Method means that only its notification ends it.
var gridRows = []gridRow{
	{"frictionless", func(w *gridWorld) string {
		token := w.add("/method", "", fakeRow{methodEnd: time.Hour})
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
		w.until(gridMark("open-bank"))
		w.until(hasStatus(textsFor("en", "", "")["deadBank"]))
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

// hasStatus is the expression of whether a status that a screen reader tells has a text.
func hasStatus(text string) string {
	return fmt.Sprintf(`[...(%s?.querySelectorAll("[role=status]") ?? [])].some((e) => !e.hidden && e.textContent == %q)`, gridRoot, text)
}
