package console

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/edge/pages/consoletest"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// pressUntil presses a key and waits until an expression is true, on the next page if the key leads there.
func pressUntil(t *testing.T, tab context.Context, key, expression string) {
	t.Helper()
	must(t, chromedp.Do(tab, chromedp.KeyEvent(key)))
	err := browsertest.Wait(tab, func() (bool, error) {
		return chromedp.Run(tab, chromedp.Evaluate[bool](`document.readyState === "complete" && `+expression))
	})
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
}

// TestK1TabReachesEachControlOfTheConsole: in the order of each page, with an outline that shows where one is.
func TestK1TabReachesEachControlOfTheConsole(t *testing.T) {
	s := consoletest.New(t)
	s.Fill()
	s.Post("admin", "/tokens", url.Values{"name": {"reports"}, "role": {"viewer"}})
	base := s.ServeAs("admin")
	tab := browsertest.NewBrowser(t)
	must(t, chromedp.Do(tab, browsertest.View(1280, 900, "light")))
	for i, name := range slices.Sorted(maps.Keys(consoletest.Faces)) {
		must(t, chromedp.Do(tab, chromedp.Navigate(base+consoletest.Faces[name])))
		if i == 0 || browsertest.HasLongWalks() {
			browsertest.CheckKeyboard(t, tab, name)
		} else { // The menu is the same on each page.
			browsertest.CheckKeyboardIn(t, tab, name, "main")
		}
	}
	must(t, chromedp.Do(tab, browsertest.View(375, 700, "dark"), chromedp.Navigate(base+"/keys"), chromedp.Evaluate[chromedp.Void](openDetails)))
	browsertest.CheckKeyboard(t, tab, "keys on a phone, opened")
}

// TestK1ConsoleByKeyboardAlone: skip link, menu, search, a message of the timeline, and what asks first.
func TestK1ConsoleByKeyboardAlone(t *testing.T) {
	const isOn = `document.activeElement`
	s := consoletest.New(t)
	s.Fill()
	base := s.ServeAs("admin")
	tab := browsertest.NewBrowser(t)
	must(t, chromedp.Do(tab, browsertest.View(1280, 900, "light"), chromedp.Navigate(base+"/authentications")))

	// The skip link is the first stop. After it the search form is.
	browsertest.TabTo(t, tab, `e.className === "skip" && e.getBoundingClientRect().height > 10`)
	pressUntil(t, tab, "\r", isOn+`.id === "main"`)
	must(t, chromedp.Do(tab, chromedp.KeyEvent(browsertest.KeyTab)))
	pressUntil(t, tab, "order-17\r", `location.search.includes("q=order-17") && document.querySelectorAll("tr.link").length === 1`)
	browsertest.TabTo(t, tab, `e.className === "go"`)
	pressUntil(t, tab, "\r", `location.pathname === "/authentications/`+consoletest.PassedID+`"`)

	// A message of the timeline, and its text.
	browsertest.TabTo(t, tab, `e.matches("svg.big a") && e.getAttribute("aria-label").includes("ARes")`)
	pressUntil(t, tab, "\r", `location.search === "?step=ares" && !!document.querySelector("svg.big a[aria-current]")`)
	browsertest.TabTo(t, tab, `e.matches(".msg summary")`)
	pressUntil(t, tab, " ", isOn+`.parentNode.open`)
	browsertest.TabTo(t, tab, `e.matches(".msg pre")`)

	// To revoke a key asks first: the button comes out of its details. Tab passes a closed one by. What
	// follows is the business of the login, see TestK2PasskeyInChromium.
	must(t, chromedp.Do(tab, chromedp.Navigate(base+"/keys")))
	browsertest.TabTo(t, tab, `e.matches(".revoke summary")`)
	pressUntil(t, tab, "\r", isOn+`.parentNode.open`)
	browsertest.TabTo(t, tab, `e.matches(".revoke details[open] button")`)

	// The menu of a phone.
	must(t, chromedp.Do(tab, browsertest.View(375, 700, "light"), chromedp.Navigate(base+"/keys")))
	browsertest.TabTo(t, tab, `e.matches(".menu summary")`)
	pressUntil(t, tab, "\r", isOn+`.parentNode.open`)
	browsertest.TabTo(t, tab, `e.matches(".menu a[href='/reports']")`)
	pressUntil(t, tab, "\r", `location.pathname === "/reports"`)
}
