package docs

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/internal/edge/docsite"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// falseScript is in the place of the script that starts the checker: its checker says the same of every text.
const falseScript = `globalThis.Go = class {
	importObject = {}
	run() {
		globalThis.threedsChecker = (...asked) => {
			globalThis.asked = asked
			return { status: 1, summary: "2 faults", findings: ["deviceChannel: 201 A required element is missing.", "acctNumber: 203 too long"], stdout: "messageType..... AReq\n", stderr: "" }
		}
	}
}`

// startSiteWithChecker serves the documentation with a checker that takes no compiler, and returns its address.
func startSiteWithChecker(t *testing.T) (base string) {
	t.Helper()
	var program bytes.Buffer
	w := gzip.NewWriter(&program)
	_, err := w.Write([]byte("\x00asm\x01\x00\x00\x00")) // a module of WebAssembly with nothing in it
	must(t, err)
	must(t, w.Close())
	site, err := docsite.NewWithChecker(fstest.MapFS{
		"checker/checker.wasm.gz": {Data: program.Bytes()}, "checker/wasm_exec.js": {Data: []byte(falseScript)},
	})
	must(t, err)
	server := httptest.NewServer(site)
	t.Cleanup(server.Close)
	return server.URL + docsite.Path
}

// isJudged is true in the page of the checker when it shows a verdict.
const isJudged = `!document.querySelector("#checker .answer").hidden && document.querySelector("#checker .status").textContent !== ""`

// await waits until an expression is true in the page.
func await(t *testing.T, tab context.Context, expression string) {
	t.Helper()
	err := browsertest.Wait(tab, func() (bool, error) {
		return chromedp.Run(tab, chromedp.Evaluate[bool](`document.readyState === "complete" && `+expression))
	})
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
}

// facesOfDocs are pages that each work in a way of their own. moreFaces look in a way of their own, and have links alone.
var (
	facesOfDocs = []string{"search.html?q=ECI+06", "check.html", "reference/areq.html?version=2.2.0&channel=BRW&category=PA"}
	moreFaces   = []string{
		"index.html", "quickstart.html", "operations.html", "search.html?q=zzyzx", "getting-started.html", "browser-flow.html",
		"error-finder.html", "glossary.html", "reference/codes.html", "operating/index.html", "operating/operators.html", "errors.html",
	}
)

// TestAxeFindsNothingInTheDocs: on each kind of page, and on that of the checker with a verdict, axe finds nothing.
func TestAxeFindsNothingInTheDocs(t *testing.T) {
	axe := browsertest.NewAxe(t)
	base := startSiteWithChecker(t)
	tab := browsertest.NewBrowser(t)
	for _, page := range slices.Concat(facesOfDocs, moreFaces) {
		must(t, chromedp.Do(tab, browsertest.View(1280, 900, "light"), chromedp.Navigate(base+page)))
		await(t, tab, `true`)
		axe.CheckViews(tab, page)
	}
	must(t, chromedp.Do(tab, chromedp.Navigate(base+"check.html"), chromedp.Evaluate[chromedp.Void](
		`checker.elements.text.value = "{}"; checker.requestSubmit()`)))
	await(t, tab, isJudged)
	axe.CheckViews(tab, "check.html, judged")
	must(t, chromedp.Do(tab, browsertest.View(375, 700, "light"), chromedp.Navigate(base+"quickstart.html"),
		chromedp.Evaluate[chromedp.Void](`document.querySelector(".menu").open = true`)))
	axe.Check(tab, "menu of a phone")
}

// TestDocsByKeyboardAlone: Tab reaches each control of each kind of page, with an outline that shows where one is. A
// reader who has only keys finds a page, checks a message, and chooses what the tables show.
func TestDocsByKeyboardAlone(t *testing.T) {
	base := startSiteWithChecker(t)
	tab := browsertest.NewBrowser(t)
	open := func(page string) {
		t.Helper()
		must(t, chromedp.Do(tab, browsertest.View(1280, 900, "light"), chromedp.Navigate(base+page)))
		await(t, tab, `true`)
	}
	press := func(keys string) {
		t.Helper()
		for _, key := range keys {
			must(t, chromedp.Do(tab, chromedp.KeyEvent(string(key))))
		}
	}
	faces := facesOfDocs
	if browsertest.HasLongWalks() {
		faces = slices.Concat(facesOfDocs, moreFaces)
	}
	for _, page := range faces {
		open(page)
		browsertest.CheckKeyboardIn(t, tab, page, "main") // TestReadersWithAKeyboardReachAll has the navigation
	}

	open("quickstart.html")
	browsertest.TabTo(t, tab, `e.name === "q"`)
	press("ECI 06\r")
	await(t, tab, `location.pathname.endsWith("/search.html") && document.querySelectorAll("#hits > li").length > 3`)
	browsertest.TabTo(t, tab, `!!e.closest("#hits")`)
	press("\r")
	await(t, tab, `!location.pathname.endsWith("/search.html") && !!document.querySelector("h1")`)

	open("check.html")
	browsertest.TabTo(t, tab, `e.name === "text"`)
	press("{}\t\t\t\r") // two choices, and the button
	await(t, tab, isJudged)
	got, err := chromedp.Run(tab, chromedp.Evaluate[string](
		`asked[1] + " " + document.activeElement.localName + ": " + document.querySelector("#checker .status").textContent`))
	if want := "{} button: It has 2 faults."; err != nil || got != want {
		t.Errorf("the checker: %q, %v; want %q", got, err, want)
	}

	open("reference/areq.html")
	browsertest.TabTo(t, tab, `e.name === "Version"`)
	press("2") // the first choice that begins with it
	await(t, tab, `location.search === "?version=2.1.0" && document.activeElement.name === "Version"`)
}

// TestPageOfTheCheckerLoadsItForTheFirstCheck: the page loads no checker before somebody wants one, loads it once, and
// sends the text nowhere. It fits each width with a verdict.
func TestPageOfTheCheckerLoadsItForTheFirstCheck(t *testing.T) {
	base := startSiteWithChecker(t)
	tab := browsertest.NewBrowser(t)
	must(t, chromedp.Do(tab, chromedp.Navigate(base+"check.html")))
	const loaded = `performance.getEntriesByType("resource").map(e => e.name.split("/").pop()).filter(name => /wasm|\?/.test(name)).join()`
	for _, want := range []string{"", "wasm_exec.js,checker.wasm.gz", "wasm_exec.js,checker.wasm.gz"} {
		if got, err := chromedp.Run(tab, chromedp.Evaluate[string](loaded)); err != nil || got != want {
			t.Errorf("the page has loaded %q, want %q, %v", got, want, err)
		}
		must(t, chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](`(() => {
			checker.querySelector(".answer").hidden = true
			checker.elements.text.value = '{"messageType": "AReq", "acctNumber": "' + "4000".repeat(60) + '"}'
			checker.requestSubmit()
		})()`)))
		await(t, tab, isJudged)
	}
	for _, width := range []int64{1280, 375, 320} {
		must(t, chromedp.Do(tab, browsertest.View(width, 900, "light")))
		wide, err := chromedp.Run(tab, chromedp.Evaluate[bool](`document.documentElement.scrollWidth > innerWidth`))
		if err != nil || wide {
			t.Errorf("the page is wider than %d px: %t, %v", width, wide, err)
		}
		browsertest.Screenshot(t, tab, fmt.Sprintf("docs-check-judged-%d", width))
	}
}

// TestPageOfTheCheckerJudges: in a program that has the checker, the page judges texts in the browser.
func TestPageOfTheCheckerJudges(t *testing.T) {
	base, _ := startSite(t)
	tab := browsertest.NewBrowser(t)
	must(t, chromedp.Do(tab, chromedp.Navigate(base+"check.html")))
	hasChecker, err := chromedp.Run(tab, chromedp.Evaluate[bool](`!!document.getElementById("checker")`))
	must(t, err)
	if !hasChecker {
		t.Skip("NOT TESTED: the checker in the browser: this build has none: go -C testing run ./long checker")
	}
	for _, tt := range []struct{ command, text, status, finding string }{
		{"check", `{"messageType": "AReq", "messageVersion": "2.2.0"}`, "It has 4 faults.", "acctNumber: 201 A required element is missing."},
		{"explain", `{"messageType": "AReq", "messageVersion": "2.2.0"}`, "It has 4 faults.", "acctNumber: 201 required: Send acctNumber (PAN or payment token)."},
		{"check", "nothing", "It cannot be read: ", ""},
	} {
		must(t, chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(() => {
			checker.querySelector(".answer").hidden = true
			checker.elements.text.value = %q
			checker.elements.command.value = %q
			checker.requestSubmit()
		})()`, tt.text, tt.command))))
		await(t, tab, isJudged)
		got, err := chromedp.Run(tab, chromedp.Evaluate[[]string](
			`[document.querySelector("#checker .status").textContent, document.querySelector("#checker .findings").textContent]`))
		if err != nil || len(got) != 2 || !strings.HasPrefix(got[0], tt.status) || !strings.Contains(got[1], tt.finding) {
			t.Errorf("%s of %s: %q, %v; want %q and %q", tt.command, tt.text, got, err, tt.status, tt.finding)
		}
	}
}
