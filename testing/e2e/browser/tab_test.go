package browser

import (
	"context"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/testing/browsertest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// openTab returns a tab, with a profile of its own, in the browser that tests without further flags share.
func openTab(t *testing.T) context.Context {
	t.Helper()
	sharedBrowser.Do(func() {
		sharedTab = browsertest.NewBrowser(untilExit{t})
	})
	if sharedTab == nil {
		t.Skip("NO BROWSER: an earlier test says why")
	}
	tab, end := chromedp.NewContext(sharedTab, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	rig.Must(t, chromedp.Do(tab))
	return tab
}

var (
	sharedBrowser sync.Once
	sharedTab     context.Context // the first tab, which no test uses; nil if there is no browser
)

// An untilExit is a test whose cleanup comes when all tests have ended.
type untilExit struct{ testing.TB }

func (untilExit) Cleanup(end func()) { rig.AtExit(end) }
