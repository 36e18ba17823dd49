package hosted

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/auth"
	"github.com/openthreeds/threeds/internal/browser"
	"github.com/openthreeds/threeds/internal/browser/enginetest"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// TestB6HostedPageFitsEveryScreen: each face of the hosted page, with JavaScript and without, is no wider than its screen, in
// both directions of writing, and the pictures of it can be looked at.
func TestB6HostedPageFitsEveryScreen(t *testing.T) {
	w := newWorld(t)
	w.walkHosted(func(face string) {
		for _, width := range []int64{1280, 375, 320} {
			for _, scheme := range []string{"light", "dark"} {
				w.do(browsertest.View(width, 667, scheme))
				wide, err := chromedp.Run(w.ctx, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`))
				if err != nil || wide > width {
					t.Errorf("%s is %d wide at %d: %v", face, wide, width, err)
				}
				browsertest.Screenshot(t, w.ctx, fmt.Sprintf("hosted-%s-%d-%s", face, width, scheme))
			}
		}
	})
}

// walkHosted opens each face of the hosted page, for two merchants and in both directions of writing, and calls show.
func (w *world) walkHosted(show func(face string)) {
	logo := `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="9" fill="#1f5f57"/></svg>`
	w.looks.Store("fjord", browser.Looks{Name: "Fjord Audio", Logo: []byte(logo), LogoType: "image/svg+xml"})
	w.looks.Store("plum", browser.Looks{Name: "A merchant with a name as long as one can be, and Averyverylongwordwithoutanyspaceinit", Colour: "#7a4379", Accent: "#ffb000"})
	const info = "Your card was used abroad today. Please call the number on the back of it, 0800 123 456 789, before you try again."
	for _, language := range []string{"en", "ar"} {
		for _, merchant := range []string{"fjord", "plum"} {
			view := auth.BrowserView{Merchant: merchant, Language: language}
			noScript := func(name string, row enginetest.Row) string {
				row.View = view
				w.echo.Store("/"+name, w.documentOf(w.engine.Add(row), name != "begin"))
				return w.shop + "/" + name
			}
			hosted := func(row enginetest.Row) string {
				row.View = view
				return w.base + "/a/" + w.engine.Add(row)
			}
			for name, face := range map[string]struct{ at, until string }{
				"begin":     {noScript("begin", enginetest.Row{}), `true`},
				"challenge": {noScript("challenge", enginetest.Row{ACSURL: w.bank + "/challenge"}), `true`},
				"confirm":   {noScript("confirm", enginetest.Row{Info: info}), `true`},
				"wait":      {noScript("wait", enginetest.Row{IsSlow: true}), `true`},
				"js-wait":   {hosted(enginetest.Row{IsSlow: true}), "!!" + hostedMark("spinner")},
				"js-bank":   {hosted(enginetest.Row{ACSURL: w.bank + "/challenge"}), "!!" + hostedMark("challenge")},
				"js-info":   {hosted(enginetest.Row{Info: info}), "!!" + hostedMark("continue")},
				"end":       {hosted(enginetest.Row{}), `!!document.querySelector("[data-testid=hosted-end]")`},
				"gone":      {w.base + "/a/gone", `getComputedStyle(document.body).backgroundColor === "rgb(246, 244, 239)"`},
			} {
				w.do(browsertest.View(1280, 800, "light"))
				_ = chromedp.Do(w.ctx, chromedp.Navigate(face.at)) // the page may go on to the next by itself
				w.arrive(face.until)
				show(name + "-" + merchant + "-" + language)
			}
		}
	}
}

// arrive waits until an expression is true in a loaded page, whatever pages come before.
func (w *world) arrive(expression string) {
	w.t.Helper()
	w.until(`document.readyState === "complete" && ` + expression)
}
