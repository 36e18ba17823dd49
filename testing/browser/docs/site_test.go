package docs

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/openthreeds/threeds/docs"
	"github.com/openthreeds/threeds/internal/edge/docsite"
	"github.com/openthreeds/threeds/internal/run/playground"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/testing/browsertest"
)

// startSite serves the documentation, and returns its address and the paths of its pages.
func startSite(t *testing.T) (base string, pages []string) {
	t.Helper()
	site, err := docsite.New()
	must(t, err)
	server := httptest.NewServer(site)
	t.Cleanup(server.Close)
	for _, name := range site.Paths() {
		if strings.HasSuffix(name, ".html") {
			pages = append(pages, name)
		}
	}
	return server.URL + docsite.Path, pages
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A question is a line of testdata/questions.txt: what a reader types, and the page that answers, or several.
type question struct{ text, pages string }

func readQuestions(t *testing.T) (all []question) {
	t.Helper()
	data, err := os.ReadFile("testdata/questions.txt")
	must(t, err)
	for line := range strings.Lines(string(data)) {
		if text, pages, isQuestion := strings.Cut(strings.TrimSpace(line), " => "); isQuestion {
			all = append(all, question{text, pages})
		}
	}
	return all
}

// ask is a script that types a question, and returns the addresses of the best hits.
const ask = `(question => {
	const field = document.getElementById("q")
	field.value = question
	field.dispatchEvent(new Event("input"))
	return [...document.querySelectorAll("#hits > li > a")].map(a => a.getAttribute("href"))
})(%q)`

// TestQuestionsFindTheirPage: for each question of a reader, the page that answers it is among the first three hits.
func TestQuestionsFindTheirPage(t *testing.T) {
	base, _ := startSite(t)
	tab := browsertest.NewBrowser(t)
	must(t, chromedp.Do(tab, chromedp.Navigate(base+"search.html")))
	all := readQuestions(t)
	for _, q := range all {
		hits, err := chromedp.Run(tab, chromedp.Evaluate[[]string](fmt.Sprintf(ask, q.text)))
		must(t, err)
		hits = hits[:min(3, len(hits))]
		isFound := slices.ContainsFunc(hits, func(hit string) bool {
			page, _, _ := strings.Cut(hit, "#")
			return slices.Contains(strings.Split(q.pages, " or "), page)
		})
		if !isFound {
			t.Errorf("%q finds %q, want %s", q.text, hits, q.pages)
		}
	}
	if len(all) < 50 {
		t.Errorf("%d questions, want 50 at least", len(all))
	}
}

// TestNamesAndCodesFindWhereTheyAreExplained: each element of each message, each error code, each type of a
// problem, each rule of two words or more, each term of the glossary, each test card that the pages print as a
// whole number, and each limit and time of the configuration, finds in the first three hits a page that has a row
// or a heading of that name.
func TestNamesAndCodesFindWhereTheyAreExplained(t *testing.T) {
	base, _ := startSite(t)
	var names []string
	for _, v := range message.Versions() {
		for _, kind := range message.Types() {
			if table := message.TableOf(kind, v); table != nil {
				for i := range table.Fields {
					names = append(names, table.Fields[i].Name)
				}
			}
		}
	}
	for _, from := range []struct{ page, row string }{
		{"reference/codes.md", "(?m)^\\| `([1-4]\\d\\d)` \\|"}, {"browser.md", "(?m)^\\| `([0-9 ]{16,})` \\|"},
		{"configuration.md", "(?m)^\\| `((?:limits|timeouts)\\.[a-z_.]+)` \\|"},
		{"error-finder.md", "(?m)^\\| `(urn:threeds:problem:[a-z-]+|[a-z]+-[a-z-]+)` \\|"},
		{"glossary.md", "(?m)^\\| ([^|`]+?) \\| [^|]* \\| \\["},
	} {
		text, err := docs.Files.ReadFile(from.page)
		must(t, err)
		rows := regexp.MustCompile(from.row).FindAllSubmatch(text, -1)
		if len(rows) < 10 {
			t.Errorf("%s has %d rows, fewer than there must be", from.page, len(rows))
		}
		for _, m := range rows {
			names = append(names, string(m[1]))
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	list, err := json.Marshal(names)
	must(t, err)
	tab := browsertest.NewBrowser(t)
	must(t, chromedp.Do(tab, chromedp.Navigate(base+"search.html")))
	lost, err := chromedp.Run(tab, chromedp.Evaluate[[]string](`(() => {
		const { pages, entries } = docsIndex, explains = new Map()
		for (const [page, , title] of entries) explains.set(title, [...explains.get(title) ?? [], pages[page][0]])
		const ask = question => `+strings.ReplaceAll(ask, "(%q)", "(question)")+`
		return `+string(list)+`.filter(name => !ask(name).slice(0, 3).some(hit => explains.get(name)?.includes(hit.split("#")[0])))
	})()`))
	must(t, err)
	if len(lost) > 0 || len(names) < 250 {
		t.Errorf("of %d names these are not found: %q", len(names), lost)
	}
}

// TestPagesFitEveryScreen: no page is wider than the screen, in light and in dark, and each is shown with its style. A
// short walk looks at some pages and screens alone.
func TestPagesFitEveryScreen(t *testing.T) {
	base, pages := startSite(t)
	tab := browsertest.NewBrowser(t)
	type look struct {
		width  int64
		scheme string
	}
	looks := []look{{1280, "light"}, {1280, "dark"}, {768, "light"}, {375, "light"}, {375, "dark"}, {320, "light"}, {320, "dark"}}
	if !browsertest.HasLongWalks() { // each width of a layout once, and what is narrow where it is narrowest
		looks = []look{{1280, "light"}, {768, "light"}, {320, "dark"}}
		pages = []string{
			"index.html", "search.html?q=ECI+06", "quickstart.html", "configuration.html", "operating/index.html", "reference/areq.html",
			"reference/codes.html", "test-cards.html", "schemes.html", "authorisation.html", "operating/pci.html", "error-finder.html",
			"check.html",
		}
	}
	for _, page := range pages {
		must(t, chromedp.Do(tab, chromedp.Navigate(base+page)))
		for _, look := range looks {
			must(t, chromedp.Do(tab, browsertest.View(look.width, 800, look.scheme)))
			wide, err := chromedp.Run(tab, chromedp.Evaluate[string](`(() => {
				if (getComputedStyle(document.body).fontSize !== "15px") return "no style"
				if (document.documentElement.scrollWidth <= innerWidth) return ""
				const wide = [...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth + 1)
				return document.documentElement.scrollWidth + " px: " + wide.slice(-3).map(e => e.outerHTML.slice(0, 80)).join(" ")
			})()`))
			must(t, err)
			if wide != "" {
				t.Errorf("%s at %d px, %s: %s", page, look.width, look.scheme, wide)
			}
			name := strings.TrimSuffix(strings.ReplaceAll(page, "/", "-"), ".html")
			browsertest.Screenshot(t, tab, fmt.Sprintf("docs-%s-%s-%d", name, look.scheme, look.width))
		}
	}
}

// TestTablesOfMessagesShowWhatIsChosen: a reader chooses version, channel and category. The choice is in the address,
// and the other pages have it, too. A link to a row of another version shows that row.
func TestTablesOfMessagesShowWhatIsChosen(t *testing.T) {
	base, _ := startSite(t)
	tab := browsertest.NewBrowser(t)
	want := func(what, expression string) {
		t.Helper()
		if got, err := chromedp.Run(tab, chromedp.Evaluate[bool](`(() => {
			const shown = e => Boolean(e.offsetParent)
			const versions = [...document.querySelectorAll("article h2")].filter(shown).map(e => e.textContent).join()
			const row = name => [...document.querySelectorAll("tbody tr")].find(e => shown(e) && e.cells[0].textContent === name)
			const chosen = [...document.querySelectorAll(".switches select")].map(e => e.value).join()
			return `+expression+`
		})()`)); err != nil || !got {
			t.Errorf("%s: not %s, %v", what, expression, err)
		}
	}
	must(t, chromedp.Do(tab, chromedp.Navigate(base+"reference/areq.html")))
	want("at first", `versions === "2.1.0,2.2.0,2.3.1" && chosen === ",," && row("browserIP").cells[1].textContent === "– C –"`)
	must(t, chromedp.Do(tab, chromedp.Navigate(base+"reference/areq.html?version=2.2.0&channel=3RI&category=NPA")))
	want("by the address", `versions === "2.2.0" && chosen === "2.2.0,3RI,NPA" && !row("browserIP") && !shown(row("threeRIInd").cells[1]) &&
		row("threeRIInd").cells[2].textContent === "R"`)
	must(t, chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](`(() => {
		const channel = document.querySelector('[name="Channel"]')
		channel.value = "BRW"
		channel.dispatchEvent(new Event("change", { bubbles: true }))
	})()`)))
	want("by hand", `row("browserIP").cells[2].textContent === "C" && location.search === "?version=2.2.0&channel=BRW&category=NPA"`)
	must(t, chromedp.Do(tab, chromedp.Navigate(base+"reference/ares.html")))
	want("on another page", `versions === "2.2.0" && chosen === "2.2.0,BRW,NPA"`)
	must(t, chromedp.Do(tab, chromedp.Navigate(base+"reference/areq.html#231-acctid")))
	want("by a link to a row", `shown(document.getElementById("231-acctid")) && versions === "2.1.0,2.2.0,2.3.1"`)
}

// TestPicturesOfFlowsAreReadOnAPhone: the pictures of a page are loaded, and on a phone their labels have 10 px at
// least and nothing scrolls sideways. A picture that is opened alone has its style in both colours.
func TestPicturesOfFlowsAreReadOnAPhone(t *testing.T) {
	base, _ := startSite(t)
	tab := browsertest.NewBrowser(t)
	for _, width := range []int64{375, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			must(t, chromedp.Do(tab, browsertest.View(width, 900, scheme), chromedp.Navigate(base+"browser-flow.html")))
			sizes, err := chromedp.Run(tab, chromedp.Evaluate[[]float64](
				`[...document.querySelectorAll("article img")].map(e => e.naturalWidth && 11.5 * e.getBoundingClientRect().width / e.naturalWidth)`))
			if err != nil || len(sizes) < 4 || slices.Min(sizes) < 10 {
				t.Errorf("at %d px the labels of the pictures have %v px, %v", width, sizes, err)
			}
			wide, err := chromedp.Run(tab, chromedp.Evaluate[bool](`document.documentElement.scrollWidth > innerWidth`))
			if err != nil || wide {
				t.Errorf("the page is wider than %d px: %t, %v", width, wide, err)
			}
			must(t, chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](`document.querySelector('img[src*="challenge"]').scrollIntoView()`)))
			browsertest.Screenshot(t, tab, fmt.Sprintf("docs-picture-%s-%d", scheme, width))
		}
	}
	for scheme, want := range map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(25, 31, 29)"} {
		must(t, chromedp.Do(tab, browsertest.View(375, 900, scheme), chromedp.Navigate(base+"images/flows/challenge.svg")))
		ground, err := chromedp.Run(tab, chromedp.Evaluate[string](`getComputedStyle(document.querySelector(".ground")).fill`))
		if err != nil || ground != want {
			t.Errorf("in %s the ground is %s, want %s, %v", scheme, ground, want, err)
		}
	}
}

// startSandbox runs a sandbox that serves the documentation, and returns its address.
func startSandbox(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	site, err := docsite.NewInSandbox(playground.Key)
	must(t, err)
	base := "http://" + l.Addr().String()
	p, err := playground.Start(t.Context(), playground.Options{
		Dir: t.TempDir(), API: l, Log: slog.New(slog.DiscardHandler), Shutdown: 5 * time.Minute,
		Address: &playground.Address{PublicURL: base, Shop: http.NotFoundHandler(), Docs: site},
	})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		must(t, <-ended)
	})
	return base
}

// TestReadersTryOperationsInTheSandbox: each form of the sandbox sends its example, and shows status, headers and body.
// An id of an answer is offered to the operations that want one. The key is stored nowhere, and the page fits a phone.
func TestReadersTryOperationsInTheSandbox(t *testing.T) {
	base := startSandbox(t)
	tab := browsertest.NewBrowser(t)
	must(t, chromedp.Do(tab, browsertest.View(1280, 900, "light"), chromedp.Navigate(base+docsite.Path+"operations.html")))
	send := func(path, method string) (status, headers, body string) {
		t.Helper()
		form := fmt.Sprintf(`document.querySelector('form[data-path="%s"][data-method="%s"]')`, path, method)
		isFilled, err := chromedp.Run(tab, chromedp.Evaluate[bool](form+`.requestSubmit(), `+form+`.checkValidity()`))
		must(t, err)
		if !isFilled {
			t.Fatalf("%s %s: a field is empty that has to have a value", method, path)
		}
		must(t, browsertest.Wait(tab, func() (bool, error) {
			return chromedp.Run(tab, chromedp.Evaluate[bool](`!`+form+`.querySelector("button").ariaDisabled`))
		}))
		shown, err := chromedp.Run(tab, chromedp.Evaluate[[]string](`[".status", ".headers", ".body"].map(part => `+form+`.querySelector(part).textContent)`))
		must(t, err)
		return shown[0], shown[1], shown[2]
	}
	for _, tt := range []struct{ method, path, status, body string }{
		{"POST", "/preauth", "200 ", `"messageType": "CRD"`},
		{"POST", "/auth", "200 ", `"messageType": "ARes"`},
		{"POST", "/authentications", "201 ", `"status": "requires_browser"`},
		{"GET", "/authentications/{id}", "200 ", `"status": "requires_browser"`},
		{"POST", "/authentications/{id}/cancel", "200 ", `"status": "cancelled"`},
		{"POST", "/lookup", "200 ", `"schemes"`},
		{"POST", "/explain", "200 ", `"verdict"`},
		{"POST", "/enrolled", "200 ", `"enrolled": "Y"`},
		{"POST", "/check", "400 ", `"param": "pares"`},
		{"POST", "/delegate_authentication", "201 ", `"authentication_session_id"`},
		{"POST", "/delegate_authentication/{id}/authenticate", "200 ", `"status": "authenticated"`},
		{"GET", "/delegate_authentication/{id}", "200 ", `"authentication_result"`},
		{"GET", "/webhook-endpoints", "200 ", `"data"`},
	} {
		status, headers, body := send(tt.path, tt.method)
		if !strings.HasPrefix(status, tt.status) || !strings.Contains(headers, "content-type: application/") || !strings.Contains(body, tt.body) {
			t.Errorf("%s %s: %s\n%s\n%.400s\nwant %s%s", tt.method, tt.path, status, headers, body, tt.status, tt.body)
		}
	}
	must(t, chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](`document.querySelector("#access input").value = "another"`)))
	if status, _, _ := send("/preauth", "POST"); !strings.HasPrefix(status, "401 ") {
		t.Errorf("with another key: %s, want 401", status)
	}
	kept, err := chromedp.Run(tab, chromedp.Evaluate[string](`localStorage.length + " " + sessionStorage.length + " " + document.cookie + location.search`))
	if err != nil || kept != "0 0 " {
		t.Errorf("the page keeps %q, %v", kept, err)
	}
	for _, width := range []int64{1280, 375} {
		must(t, chromedp.Do(tab, browsertest.View(width, 900, "light")))
		wide, err := chromedp.Run(tab, chromedp.Evaluate[bool](`document.documentElement.scrollWidth > innerWidth`))
		if err != nil || wide {
			t.Errorf("the page is wider than %d px: %t, %v", width, wide, err)
		}
		must(t, chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](`document.getElementById("createAuthentication").scrollIntoView()`)))
		browsertest.Screenshot(t, tab, fmt.Sprintf("docs-try-%d", width))
	}
}

// TestAxeFindsNothingInTheOperations: axe finds nothing on the page of the operations in a sandbox, before a
// request and with an answer.
func TestAxeFindsNothingInTheOperations(t *testing.T) {
	axe := browsertest.NewAxe(t)
	base := startSandbox(t)
	tab := browsertest.NewBrowser(t)
	must(t, chromedp.Do(tab, chromedp.Navigate(base+docsite.Path+"operations.html")))
	axe.CheckViews(tab, "operations")
	must(t, chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](`document.querySelector('form[data-path="/preauth"]').requestSubmit()`)))
	must(t, browsertest.Wait(tab, func() (bool, error) {
		return chromedp.Run(tab, chromedp.Evaluate[bool](`!document.querySelector('form[data-path="/preauth"] .answer').hidden`))
	}))
	axe.CheckViews(tab, "operations, answered")
}

// TestOperationsAreReadWithoutASandbox: where no sandbox serves the documentation, the page of the operations has no
// form, and says how to start one. Without a script the page of a sandbox is whole, and says that the forms need one.
func TestOperationsAreReadWithoutASandbox(t *testing.T) {
	base, _ := startSite(t)
	tab := browsertest.NewBrowser(t)
	const shown = `[...document.querySelectorAll("form.try:not([hidden]), #access:not([hidden])")].length + " " +
		document.querySelectorAll(".operation").length + " " + document.querySelector("article").innerText`
	for address, want := range map[string]string{
		base: "threeds sandbox", startSandbox(t) + docsite.Path: "The forms need JavaScript.",
	} {
		must(t, chromedp.Do(tab, withoutScripts, chromedp.Navigate(address+"operations.html")))
		text, err := chromedp.Run(tab, chromedp.Evaluate[string](shown))
		if forms, rest, _ := strings.Cut(text, " "); err != nil || forms != "0" || strings.HasPrefix(rest, "0 ") || !strings.Contains(rest, want) {
			t.Errorf("%s: %.200s, %v; want no form, and %q", address, text, err, want)
		}
	}
}

// TestAreasOfTheFrontPageFitTheWidth: on a phone the areas stand below each other in one column, and on a wide screen
// next to each other in four.
func TestAreasOfTheFrontPageFitTheWidth(t *testing.T) {
	base, _ := startSite(t)
	tab := browsertest.NewBrowser(t)
	for width, want := range map[int64]int{320: 1, 375: 1, 1280: 4} {
		for _, page := range []string{"index.html", "search.html"} {
			must(t, chromedp.Do(tab, browsertest.View(width, 900, "light"), chromedp.Navigate(base+page)))
			columns, err := chromedp.Run(tab, chromedp.Evaluate[int](
				`new Set([...document.querySelectorAll(".areas > section")].map(e => e.getBoundingClientRect().left)).size`))
			if err != nil || columns != want {
				t.Errorf("%s at %d px has the areas in %d columns, want %d, %v", page, width, columns, want, err)
			}
		}
	}
}

// TestExportedSiteWorksFromADisk: pages of an export that are opened as files have their style, their links lead to
// other files, and the search finds.
func TestExportedSiteWorksFromADisk(t *testing.T) {
	site, err := docsite.New()
	must(t, err)
	dir := t.TempDir()
	must(t, site.Export(dir))
	tab := browsertest.NewBrowser(t)
	must(t, chromedp.Do(tab, chromedp.Navigate("file://"+dir+"/index.html")))
	steps := []struct{ do, until string }{
		{`document.querySelector('.area').click()`, `location.pathname.endsWith("/quickstart.html")`},
		{`document.querySelector('.sidebar a[href="test-cards.html"]').click()`, `location.pathname.endsWith("/test-cards.html")`},
		{`document.querySelector('.find input').value = "ECI 06"; document.querySelector('.find').requestSubmit()`,
			`location.pathname.endsWith("/search.html") && document.querySelectorAll("#hits > li").length > 3`},
		{`document.querySelector('#hits a[href^="authorisation.html"]').click()`, `location.pathname.endsWith("/authorisation.html")`},
	}
	for _, step := range steps {
		must(t, chromedp.Do(tab, chromedp.Evaluate[chromedp.Void](step.do+"; undefined")))
		must(t, browsertest.Wait(tab, func() (bool, error) {
			return chromedp.Run(tab, chromedp.Evaluate[bool](`document.readyState === "complete" && `+step.until))
		}))
		size, err := chromedp.Run(tab, chromedp.Evaluate[string](`getComputedStyle(document.body).fontSize`))
		if err != nil || size != "15px" {
			t.Errorf("after %s the page has no style: %s, %v", step.do, size, err)
		}
	}
}

// withoutScripts makes a tab run no script of a page.
var withoutScripts = chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
	_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	return err
})

// TestPagesWorkWithoutScripts: without scripts a page is whole, and the page of the search lists all pages.
func TestPagesWorkWithoutScripts(t *testing.T) {
	base, pages := startSite(t)
	tab := browsertest.NewBrowser(t)
	must(t, chromedp.Do(tab, withoutScripts, chromedp.Navigate(base+"search.html?q=ECI")))
	text, err := chromedp.Run(tab, chromedp.OuterHTML(chromedp.CSS("main")))
	must(t, err)
	for _, page := range pages {
		if page != "index.html" && page != "search.html" && !strings.Contains(text, `href="`+page+`"`) {
			t.Errorf("the page of the search has no link to %s", page)
		}
	}
	if !strings.Contains(text, "The search needs JavaScript.") {
		t.Errorf("the page does not say why there are no hits: %.300s", text)
	}
}

// TestReadersWithAKeyboardReachAll: Tab leads to each link, field and block of code in order, and one sees where it is.
// The first stop is the way past the navigation.
func TestReadersWithAKeyboardReachAll(t *testing.T) {
	base, _ := startSite(t)
	tab := browsertest.NewBrowser(t)
	for _, page := range []string{"index.html", "idempotency.html"} {
		must(t, chromedp.Do(tab, browsertest.View(1280, 800, "light"), chromedp.Navigate(base+page)))
		browsertest.CheckKeyboard(t, tab, page)
	}
	unreachable, err := chromedp.Run(tab, chromedp.Evaluate[int](`document.querySelectorAll("pre:not([tabindex='0'])").length`))
	if err != nil || unreachable > 0 {
		t.Errorf("Tab does not stop at %d blocks of code, which may have to be scrolled, %v", unreachable, err)
	}
	must(t, chromedp.Do(tab, chromedp.Navigate(base+"idempotency.html")))
	browsertest.TabTo(t, tab, `e.className === "skip" && e.getBoundingClientRect().height > 10`)
	must(t, chromedp.Do(tab, chromedp.KeyEvent("\r"), browsertest.Poll(`document.activeElement.id === "main"`)))
	must(t, chromedp.Do(tab, browsertest.View(375, 800, "light"), chromedp.Navigate(base+"idempotency.html")))
	browsertest.TabTo(t, tab, `e.matches(".menu summary")`)
	must(t, chromedp.Do(tab, chromedp.KeyEvent("\r")))
	browsertest.TabTo(t, tab, `e.matches(".menu a[aria-current]")`)
}

// TestPagesArePrintedDarkOnLight: on paper a page has the ink of the light colours, also for readers whose screen is
// dark, and no navigation.
func TestPagesArePrintedDarkOnLight(t *testing.T) {
	base, _ := startSite(t)
	tab := browsertest.NewBrowser(t)
	onPaper := chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Media: "print", Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
		})
		return err
	})
	must(t, chromedp.Do(tab, chromedp.Navigate(base+"idempotency.html"), onPaper))
	shown, err := chromedp.Run(tab, chromedp.Evaluate[string](`[
		getComputedStyle(document.body).color, ...[".bar", ".sidebar", ".turn", "main"].map(part => getComputedStyle(document.querySelector(part)).display)
	].join("; ")`))
	if want := "rgb(28, 36, 34); none; none; none; block"; err != nil || shown != want {
		t.Errorf("%s, %v; want %s", shown, err, want)
	}
}
