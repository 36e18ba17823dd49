package browsertest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// pageOf is a page without mistakes, but for a part of it.
const pageOf = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Page</title><style>:focus-visible { outline: 3px solid #1b5e55 }</style>
<main><h1>Page</h1><p><a href="#end">To the end</a> <button>Buy</button> %s <input aria-label="Name"> <button id="end">End</button></p></main>`

// newPages starts a browser, and returns its tab and what opens pageOf with a part in it.
func newPages(t *testing.T) (ctx context.Context, open func(part string)) {
	t.Helper()
	ctx = NewBrowser(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(strings.Replace(pageOf, "%s", r.FormValue("part"), 1)))
	}))
	t.Cleanup(server.Close)
	return ctx, func(part string) {
		t.Helper()
		if err := chromedp.Do(ctx, chromedp.Navigate(server.URL+"?part="+url.QueryEscape(part))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestB6KeyboardMistakesAreFound: each mistake of a page is told, and a page without one has none.
func TestB6KeyboardMistakesAreFound(t *testing.T) {
	ctx, open := newPages(t)
	for part, want := range map[string]string{
		``: "",
		`<details><summary>More</summary><button>Hidden</button></details> <pre tabindex="0">text</pre>`:                                                                              "",
		`<svg width="99" height="40"><a href="#end" style="outline: none"><rect width="90" height="30" fill="none" stroke="red" stroke-width="3"/><text y="20">Sell</text></a></svg>`: "",
		`<svg width="99" height="40"><a href="#end" style="outline: none"><rect width="90" height="30" fill="none"/><text y="20">Sell</text></a></svg>`:                               `a "Sell" shows no focus`,
		`<button style="outline: none">Sell</button>`:                 `button "Sell" shows no focus`,
		`<button style="outline-width: 1px">Sell</button>`:            `button "Sell" shows no focus`,
		`<button style="outline-color: transparent">Sell</button>`:    `button "Sell" shows no focus`,
		`<button tabindex="-1">Sell</button>`:                         `want button "Sell"`,
		`<a href="#end" tabindex="3">Sell</a>`:                        `Tab goes to a "Sell", want a "To the end"`,
		`<button style="position: fixed; left: -999px">Sell</button>`: `button "Sell" has the focus out of sight`,
		`<span style="position: absolute; width: 1px; height: 1px; overflow: hidden"><button style="all: unset; width: 1px; height: 1px; overflow: hidden; display: block; outline: 3px solid red">Sell</button></span>`: `px while it has the focus`,
	} {
		open(part)
		mistakes, err := KeyboardMistakes(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if want == "" && len(mistakes) > 0 || want != "" && !strings.Contains(strings.Join(mistakes, "\n"), want) {
			t.Errorf("%s: %q, want %q", part, mistakes, want)
		}
	}
}

// TestB6AxeFindsMistakes: one of each kind of rule, in a shadow root too, and nothing on a page without mistakes.
func TestB6AxeFindsMistakes(t *testing.T) {
	axe := NewAxe(t)
	ctx, open := newPages(t)
	for part, want := range map[string]string{
		``:                                "",
		`<img src="data:,">`:              "image-alt (critical)",
		`<b style="color: #999">pale</b>`: "color-contrast (serious)",
		`<h4>Too deep</h4>`:               "heading-order (moderate)",
		`<b id="end">again</b><input>`:    "label (critical)",
		`<div><template shadowrootmode="open"><main>Another</main></template></div>`: "landmark-no-duplicate-main (moderate)",
		`<iframe title="Bank" srcdoc="<img src='data:,'>"></iframe>`:                 "",
	} {
		open(part)
		mistakes, err := axe.Mistakes(ctx, "document")
		if err != nil {
			t.Fatal(err)
		}
		if want == "" && len(mistakes) > 0 || want != "" && !strings.Contains(strings.Join(mistakes, "\n"), want) {
			t.Errorf("%s: %q, want %q", part, mistakes, want)
		}
	}
}
