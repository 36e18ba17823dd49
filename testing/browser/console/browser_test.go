package console

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/edge/pages/consoletest"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// overflowing are the texts of tables that are wider than their place, so that they are cut or lie on others.
const overflowing = `[...document.querySelectorAll("main td, main th, .barcell span")].filter((c) => c.offsetParent && c.scrollWidth > c.clientWidth + 1)
	.map((c) => c.textContent).join(" | ")`

// TestK1PagesFitEveryScreen: in Chromium, at three widths, light and dark, no page is wider than its screen, and the
// script of the console has no error.
func TestK1PagesFitEveryScreen(t *testing.T) {
	s := consoletest.New(t)
	base := s.ServeAs("admin")
	s.Fill()
	tab := browsertest.NewBrowser(t)
	type pageView struct {
		width, height int64
		scheme, name  string
	}
	type formView struct {
		width  int64
		scheme string
	}
	views := []pageView{{1280, 900, "light", "1280"}, {320, 700, "dark", "320-dark"}}
	if browsertest.HasLongWalks() {
		views = append(views, pageView{1280, 900, "dark", "1280-dark"}, pageView{375, 800, "light", "375"})
	}
	for name, at := range consoletest.Faces {
		must(t, chromedp.Do(tab, browsertest.View(1280, 900, "light"), chromedp.Navigate(base+at)))
		for _, view := range views {
			must(t, chromedp.Do(tab, browsertest.View(view.width, view.height, view.scheme)))
			if browsertest.HasLongWalks() { // also as a page that was narrow from its beginning
				must(t, chromedp.Do(tab, chromedp.Navigate(base+at)))
			}
			wide, err := chromedp.Run(tab, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`))
			if err != nil || wide > view.width {
				t.Errorf("%s at %s is %d wide, %v", at, view.name, wide, err)
			}
			over, err := chromedp.Run(tab, chromedp.Evaluate[string](overflowing))
			if err != nil || over != "" {
				t.Errorf("%s at %s: text leaves its place: %s, %v", at, view.name, over, err)
			}
			browsertest.FullScreenshot(t, tab, "console-"+name+"-"+view.name)
		}
	}
	for _, name := range []string{"to erase a card", "to erase a shop", "not to erase", "erased"} {
		f := formFaces[name]
		views := []formView{{320, "dark"}}
		if browsertest.HasLongWalks() {
			views = []formView{{1280, "light"}, {1280, "dark"}, {375, "light"}, {375, "dark"}, {320, "light"}, {320, "dark"}}
		}
		for _, view := range views {
			sendForm(s, tab, base, f.at, f.form, browsertest.View(view.width, 800, view.scheme))
			wide, err := chromedp.Run(tab, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`))
			if err != nil || wide > view.width {
				t.Errorf("%s at %d %s is %d wide, %v", name, view.width, view.scheme, wide, err)
			}
			browsertest.FullScreenshot(t, tab, fmt.Sprintf("console-%s-%d-%s", strings.ReplaceAll(name, " ", "-"), view.width, view.scheme))
		}
	}
	if err := chromedp.Do(tab, browsertest.View(375, 800, "light"), chromedp.Navigate(base+"/authentications"),
		chromedp.Click(chromedp.CSS(".menu summary")), browsertest.WaitVisible(chromedp.CSS(".menu nav a"))); err != nil {
		t.Fatal(err)
	}
	browsertest.Screenshot(t, tab, "console-menu-375")
	body, err := chromedp.Run(tab, chromedp.Evaluate[string](`document.activeElement.tagName`))
	if err != nil || !strings.EqualFold(body, "summary") {
		t.Errorf("the focus is on %s, %v", body, err)
	}
}

// TestK1ReloadMakesNoSecondSecret: a page that shows a new secret once can be loaded again. It does not send its form
// again.
func TestK1ReloadMakesNoSecondSecret(t *testing.T) {
	s := consoletest.New(t)
	base := s.ServeAs("admin")
	tab := browsertest.NewBrowser(t)
	for _, test := range []struct{ face, home string }{
		{"new key", "/keys"}, {"new token", "/tokens"}, {"new webhook", "/webhooks"}, {"new secret", "/webhooks"}, {"invited", "/operators"},
	} {
		f := formFaces[test.face]
		sendForm(s, tab, base, f.at, f.form, browsertest.View(1280, 900, "light"))
		secret := `document.getElementById("secret")?.textContent ?? ""`
		if first, err := chromedp.Run(tab, chromedp.Evaluate[string](secret)); err != nil || first == "" {
			t.Errorf("%s: no secret is shown, %v", test.face, err)
			continue
		}
		must(t, chromedp.Do(tab, chromedp.Reload()))
		again, err := chromedp.Run(tab, chromedp.Evaluate[string](secret))
		if err != nil || again != "" {
			t.Errorf("%s: loaded again it shows a secret: %q, %v", test.face, again, err)
		}
		if at, err := chromedp.Run(tab, chromedp.Evaluate[string]("location.pathname")); err != nil || at != test.home {
			t.Errorf("%s: loaded again it is at %s, %v, want %s", test.face, at, err, test.home)
		}
	}
}

// TestK1DoubleClickSendsOnce: in Chromium, one key is made by a double click, and the form can be sent
// again after a way back.
func TestK1DoubleClickSendsOnce(t *testing.T) {
	s := consoletest.New(t)
	base := s.ServeAs("operator")
	tab := browsertest.NewBrowser(t)
	must(t, chromedp.Do(tab, chromedp.Navigate(base+"/keys"), browsertest.WaitVisible(chromedp.CSS("main form button.primary"))))
	sent, err := chromedp.Run(tab, chromedp.Evaluate[int64](`(() => {
		let sent = 0
		const form = document.querySelector('form[action="/keys"][method=post]')
		form.addEventListener("submit", (event) => { if (!event.defaultPrevented) sent++; event.preventDefault() })
		form.requestSubmit(); form.requestSubmit()
		return sent
	})()`))
	if err != nil || sent != 1 {
		t.Errorf("sent %d times, %v", sent, err)
	}
	again, err := chromedp.Run(tab, chromedp.Evaluate[bool](`(() => {
		dispatchEvent(new PageTransitionEvent("pageshow", {persisted: true}))
		let sent = false
		const form = document.querySelector('form[action="/keys"][method=post]')
		form.addEventListener("submit", (event) => { sent = !!form.dataset.sent })
		form.requestSubmit()
		return sent
	})()`))
	if err != nil || !again {
		t.Errorf("not sent after a way back: %v", err)
	}
}
