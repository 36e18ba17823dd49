package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// naive are places of a page in which a text is more than text.
var naive = []string{
	`<p>%s</p>`, `<title>%s</title>`, `<style>*{color:%s}</style>`, `<textarea>%s</textarea>`, `<!-- %s -->`, `<input value="%s">`, `<input value='%s'>`,
	`<p id=x%s>text</p>`, `<a href="%s">go</a>`, `<iframe src="%s"></iframe>`, `<script>let a = "%s"</script>`, `<script>let a = '%s'</script>`,
	"<script>let a = `%s`</script>", `<p style="color:%s">text</p>`, `<svg><desc><![CDATA[%s]]></desc></svg>`,
	`<div id=d></div><script>d.innerHTML = "%s"</script>`, `<p id=h>%s</p><script>h.innerHTML = h.textContent</script>`,
	`<p id=u>%s</p><script>u.innerHTML = decodeURIComponent(u.innerHTML)</script>`,
	`<p id=c>%s</p><script>c.textContent.replace(/{{(.*)}}/, (_, code) => Function(code)())</script>`,
}

// TestB6EachAttackWorksOnANaivePage: an attack that works nowhere, or a trap that does not hear it, would show nothing.
// Each eighth attack is tried, and with long walks all.
func TestB6EachAttackWorksOnANaivePage(t *testing.T) {
	ctx := NewBrowser(t)
	trap := NewTrap(t, ctx)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprint(w, r.FormValue("page"))
	}))
	defer server.Close()
	frame := func(page string) string { return server.URL + "?page=" + url.QueryEscape(page) }
	open := func(page string) []string {
		t.Helper()
		if err := chromedp.Do(ctx, chromedp.Navigate(frame(page)), Poll(`document.readyState === "complete"`)); err != nil {
			t.Fatal(err)
		}
		return trap.Sprung()
	}
	for i, attack := range Attacks {
		if i%8 != 0 && !HasLongWalks() {
			continue
		}
		frames := "<!doctype html>"
		for _, place := range naive {
			frames += `<iframe src="` + frame("<!doctype html>"+strings.Replace(place, "%s", attack, 1)) + `"></iframe>`
		}
		if len(open(frames)) == 0 {
			t.Errorf("%q works nowhere", attack)
		}
	}
	for _, place := range []string{`<title>%s</title>`, `<style>*{color:%s}</style>`, `<textarea>%s</textarea>`, `<!-- %s -->`,
		`<script>let a = "%s"</script>`, `<p>%s</p>`} {
		if !slices.Contains(naive, place) || len(open("<!doctype html>"+strings.Replace(place, "%s", outOfElements, 1))) == 0 {
			t.Errorf("%q does not work in %s", outOfElements, place)
		}
	}
	for _, attack := range SomeAttacks() {
		if !slices.Contains(Attacks, attack) {
			t.Errorf("%q is none of the attacks", attack)
		}
	}
	if sprung := open(`<!doctype html><meta http-equiv=Content-Security-Policy content="script-src 'none'"><p><script>xss()</script>`); len(sprung) == 0 {
		t.Error("a script that the policy stops goes unnoticed")
	}
	if sprung := open(`<!doctype html><p title="&quot; onclick=xss()">&lt;script>xss()&lt;/script>`); len(sprung) > 0 {
		t.Errorf("plain text is heard as an attack: %q", sprung)
	}
}
