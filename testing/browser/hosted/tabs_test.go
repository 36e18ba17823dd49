package hosted

import (
	"testing"

	"github.com/openthreeds/threeds/internal/edge/browser/enginetest"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// TestD62ATabThatWaitsEnds: a second tab waits for the first one. It ends with the status of the first tab, also after
// it was in the cache of the browser itself. If the first tab goes to another page, the second one ends at once.
func TestD62ATabThatWaitsEnds(t *testing.T) {
	for _, engine := range gridEngines() {
		t.Run(string(engine), func(t *testing.T) {
			first := newGridWorld(t, engine, browsertest.Options{})
			tab, err := first.tab.NewTab()
			first.must(err)
			second := *first
			second.tab = tab

			token := first.add("", "/challenge", enginetest.Row{})
			first.pay(token)
			first.atBank()
			second.pay(token)
			second.must(tab.Navigate(first.shop + "/elsewhere"))
			second.must(tab.Back())
			second.until("window.isReady")
			var begun int
			second.must(tab.Eval("begun", &begun))
			if begun == 0 { // the page does not come from the cache
				second.clickPay(1)
			}
			first.confirm(token)
			first.ends(token, "completed", "begin challenge result end")
			second.ends(token, "completed", "")

			token = first.add("", "/challenge", enginetest.Row{})
			first.pay(token)
			first.atBank()
			second.pay(token)
			first.must(first.tab.Navigate(first.shop + "/elsewhere"))
			second.until("window.ends?.length > 0")
			var status string
			second.must(tab.Eval("ends.join()", &status))
			if status != "elsewhere" {
				t.Errorf("the second tab ended with %s, want elsewhere", status)
			}

			first.must(first.tab.Back())
			first.goOn()
			first.confirm(token)
			first.ends(token, "completed", "")
		})
	}
}

// TestD64ACallAfterTheEndSaysHowItEnded: a tab that calls authenticate again after the end hears of the same end: in
// the same page, after a reload, and when it comes back from another page. Where the page may store nothing, a reload
// is another browser, but a second call in the same page is not.
func TestD64ACallAfterTheEndSaysHowItEnded(t *testing.T) {
	for _, engine := range gridEngines() {
		t.Run(string(engine), func(t *testing.T) {
			w := newGridWorld(t, engine, browsertest.Options{})
			for _, end := range []string{"completed", "cancelled", "expired"} {
				token := w.add("", "", enginetest.Row{End: end})
				w.pay(token)
				w.ends(token, end, "begin result end")
				w.must(w.tab.Reload())
				w.goOn()
				w.ends(token, end, "begin result end")
			}

			token := w.add("", "/challenge?pass", enginetest.Row{})
			w.pay(token)
			w.ends(token, "completed", "begin challenge result end")
			w.must(w.tab.Navigate(w.shop + "/elsewhere"))
			w.must(w.tab.Back())
			w.until("window.isReady")
			w.must(w.tab.Eval(`window.ends = []`, nil)) // the page may come from the cache
			w.goOn()
			w.ends(token, "completed", "")

			token = w.add("", "", enginetest.Row{})
			w.openShop(token)
			w.must(w.tab.Eval(`Storage.prototype.getItem = Storage.prototype.setItem = () => { throw new Error("refused") }`, nil))
			for _, status := range []string{"completed", "completed"} {
				w.clickPay(1)
				w.ends(token, status, "")
				w.must(w.tab.Eval(`window.ends = []`, nil))
			}
			w.must(w.tab.Reload())
			w.goOn()
			w.until("window.ends?.length > 0")
			var status string
			w.must(w.tab.Eval("ends.join()", &status))
			if status != "elsewhere" {
				t.Errorf("a page that has stored nothing ends with %s after a reload, want elsewhere", status)
			}
		})
	}
}
