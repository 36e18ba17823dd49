package hosted

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/edge/browser"
	"github.com/openthreeds/threeds/internal/edge/browser/enginetest"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// TestB6HostedPageFitsEveryScreen: each face of the hosted page, with JavaScript and without, is no wider than its
// screen, in both directions of writing, and the pictures of it can be looked at.
func TestB6HostedPageFitsEveryScreen(t *testing.T) {
	w := newWorld(t)
	w.walkHosted(func(face string) {
		type view struct {
			width  int64
			scheme string
		}
		views := []view{{1280, "light"}, {375, "dark"}, {320, "light"}}
		if browsertest.HasLongWalks() {
			views = append(views, view{1280, "dark"}, view{375, "light"}, view{320, "dark"})
		}
		for _, v := range views {
			w.do(browsertest.View(v.width, 667, v.scheme))
			wide, err := chromedp.Run(w.ctx, chromedp.Evaluate[int64](`document.documentElement.scrollWidth`))
			if err != nil || wide > v.width {
				t.Errorf("%s is %d wide at %d: %v", face, wide, v.width, err)
			}
			browsertest.Screenshot(t, w.ctx, fmt.Sprintf("hosted-%s-%d-%s", face, v.width, v.scheme))
		}
	})
}

// walkHosted opens each face of the hosted page and calls show. A long walk does so for two merchants and in both
// directions of writing. Otherwise each face has one of these four, and each of the four has some faces.
func (w *world) walkHosted(show func(face string)) {
	logo := `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="9" fill="#1f5f57"/></svg>`
	w.looks.Store("fjord", browser.Looks{Name: "Fjord Audio", Logo: []byte(logo), LogoType: "image/svg+xml"})
	w.looks.Store("plum", browser.Looks{
		Name: "A merchant with a name as long as one can be, and Averyverylongwordwithoutanyspaceinit", Colour: "#7a4379",
		Accent: "#ffb000",
	})
	const info = "Your card was used abroad today. Please call the number on the back of it, 0800 123 456 789, before you try again."
	for l, language := range []string{"en", "ar"} {
		for m, merchant := range []string{"fjord", "plum"} {
			view := session.BrowserView{Merchant: merchant, Language: language}
			noScript := func(name string, row enginetest.Row) func() string {
				row.View = view
				return func() string {
					w.echo.Store("/"+name, w.documentOf(w.engine.Add(row), name != "begin"))
					return w.shop + "/" + name
				}
			}
			hosted := func(row enginetest.Row) func() string {
				row.View = view
				return func() string { return w.base + "/a/" + w.engine.Add(row) }
			}
			faces := map[string]struct {
				open  func() string // returns the address
				until string
			}{
				"begin":     {noScript("begin", enginetest.Row{}), `true`},
				"challenge": {noScript("challenge", enginetest.Row{ACSURL: w.bank + "/challenge"}), `true`},
				"confirm":   {noScript("confirm", enginetest.Row{Info: info}), `true`},
				"wait":      {noScript("wait", enginetest.Row{IsSlow: true}), `true`},
				"js-wait":   {hosted(enginetest.Row{IsSlow: true}), "!!" + hostedMark("spinner")},
				"js-bank":   {hosted(enginetest.Row{ACSURL: w.bank + "/challenge"}), "!!" + hostedMark("challenge")},
				"js-info":   {hosted(enginetest.Row{Info: info}), "!!" + hostedMark("continue")},
				"end":       {hosted(enginetest.Row{}), `!!document.querySelector("[data-testid=hosted-end]")`},
				"back":      {func() string { w.echo.Store("/back", w.endOf(view)); return w.shop + "/back" }, `!!document.querySelector("a.main")`},
				"elsewhere": {func() string { return w.base + "/a/" + w.begunElsewhere(view) }, `!!document.querySelector("[data-testid=hosted-notice]")`},
				"gone":      {func() string { return w.base + "/a/gone" }, `getComputedStyle(document.body).backgroundColor === "rgb(246, 244, 239)"`},
			}
			for i, name := range slices.Sorted(maps.Keys(faces)) {
				if !browsertest.HasLongWalks() && i%4 != 2*l+m {
					continue
				}
				face := faces[name]
				w.do(browsertest.View(1280, 800, "light"))
				_, err := chromedp.Call(w.ctx, page.Navigate, page.NavigateParams{URL: face.open()}) // The page may go on to the next by itself.
				if err != nil {
					w.fail(err)
				}
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

// endOf returns the page at the end for a shop that is slow, without the script that goes there.
func (w *world) endOf(view session.BrowserView) string {
	view.ReturnURL = w.shop + "/?order=1"
	token := w.engine.Add(enginetest.Row{ACSURL: w.bank + "/challenge", View: view})
	w.submitBegin(token, get(w.handler, "/a/"+token).Result().Cookies())
	form := url.Values{"threeDSSessionData": {"ZnJhbWU"}}
	page := submit(w.t.Context(), w.handler, "/n/"+w.engine.Row(token).Tag+"/challenge", nil, form).Body.String()
	before, script, _ := strings.Cut(page, "<script")
	_, after, _ := strings.Cut(script, "</script>")
	return before + after
}

// begunElsewhere returns the token of an authentication that another browser has begun.
func (w *world) begunElsewhere(view session.BrowserView) string {
	token := w.engine.Add(enginetest.Row{View: view})
	if _, _, err := w.engine.BeginBrowser(w.t.Context(), token, newSecret(), session.BrowserData{}); err != nil {
		w.fail(err)
	}
	return token
}
