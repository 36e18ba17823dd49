package hosted

import (
	"testing"

	"github.com/openthreeds/threeds/internal/browser/enginetest"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// TestD62ATabThatWaitsEnds: a second tab waits for the first one. It ends with the status of the first tab, also after it
// was in the cache of the browser itself. If the first tab goes to another page, the second one ends at once.
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
