package docsite_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openthreeds/threeds/docs"
	"github.com/openthreeds/threeds/internal/edge/docsite"
)

// sharedSite returns the site of all tests, which makes each page once.
var sharedSite = sync.OnceValues(docsite.New)

func newSite(t testing.TB) *docsite.Site {
	t.Helper()
	site, err := sharedSite()
	if err != nil {
		t.Fatal(err)
	}
	return site
}

// get returns the answer to a request for a path of the site.
func get(h http.Handler, at string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, at, nil))
	return w
}

// readSite returns the files of a site as they are served.
func readSite(t *testing.T) map[string]string {
	t.Helper()
	site, files := newSite(t), map[string]string{}
	for _, name := range site.Paths() {
		w := get(site, docsite.Path+name)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: status %d, %s", name, w.Code, w.Body)
		}
		files[name] = w.Body.String()
	}
	if len(files) < 150 {
		t.Fatalf("%d files, fewer than there must be", len(files))
	}
	return files
}

// hasChecker reports whether a site has the checker, which is built by a tag.
func hasChecker(site *docsite.Site) bool {
	return slices.Contains(site.Paths(), "assets/checker.wasm.gz")
}

var (
	reference = regexp.MustCompile(`\s(?:href|src|srcset|action)="([^"]*)"`)
	anchor    = regexp.MustCompile(`\sid="([^"]*)"`)
	loaded    = regexp.MustCompile(`<(?:script|link|img|iframe|source|form|input|button|object|embed)\b[^>]*\s(?:href|src|srcset|action)="([^"]*)"`)
)

// TestEveryLinkOfTheSiteLeadsSomewhere: each link within the site, in pages and in their Markdown, leads to a file of
// it, and to an anchor that is there. An anchor is on a page once.
func TestEveryLinkOfTheSiteLeadsSomewhere(t *testing.T) {
	files := readSite(t)
	anchors := map[string][]string{}
	for name, text := range files {
		for _, m := range anchor.FindAllStringSubmatch(text, -1) {
			if slices.Contains(anchors[name], m[1]) {
				t.Errorf("%s has the anchor %s twice", name, m[1])
			}
			anchors[name] = append(anchors[name], m[1])
		}
	}
	links := 0
	follow := func(from, link string) {
		to, fragment, _ := strings.Cut(link, "#")
		if strings.Contains(to, ":") {
			return
		}
		links++
		if to = path.Join(path.Dir(from), to); strings.HasPrefix(link, "#") {
			to = from
		}
		if _, isThere := files[to]; !isThere {
			t.Errorf("%s has a link to %s, which is not there", from, link)
		} else if path.Ext(to) == ".html" && fragment != "" && !slices.Contains(anchors[to], fragment) {
			t.Errorf("%s has a link to %s, which has no such anchor", from, link)
		}
	}
	code := regexp.MustCompile("(?ms)^ *```.*?^ *```$|`[^`\n]*`")
	inMarkdown := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for name, text := range files {
		switch path.Ext(name) {
		case ".html":
			for _, m := range reference.FindAllStringSubmatch(text, -1) {
				follow(name, m[1])
			}
		case ".md", ".txt":
			for _, m := range inMarkdown.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
				follow(name, m[1])
			}
		}
	}
	if links < 3000 {
		t.Errorf("%d links, fewer than there must be", links)
	}
}

// TestEachPageHasOneHeadingAndLosesNoText: a page has one heading of the first level, and no HTML of its Markdown was
// left out.
func TestEachPageHasOneHeadingAndLosesNoText(t *testing.T) {
	for name, text := range readSite(t) {
		if path.Ext(name) != ".html" {
			continue
		}
		if n := strings.Count(text, "<h1"); n != 1 {
			t.Errorf("%s has %d headings of the first level", name, n)
		}
		if strings.Contains(text, "raw HTML omitted") {
			t.Errorf("%s has HTML in its Markdown, which is not shown", name)
		}
		if !strings.Contains(text, "<title>") || strings.Contains(text, "<title> ·") {
			t.Errorf("%s has no title", name)
		}
	}
}

// TestPagesLoadNothingFromOutside: a page loads files of the site alone, and the policy that it is served with, and has
// in its head, allows no other ones. It has no script, style or handler of events in its text. A picture may use its
// own style, and nothing else.
func TestPagesLoadNothingFromOutside(t *testing.T) {
	const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'"
	inline := regexp.MustCompile(`<script(?:>|\s[^>]*[^"]>)|<style|\sstyle="|\son[a-z]+="|javascript:`)
	site := newSite(t)
	for name, text := range readSite(t) {
		h := get(site, docsite.Path+name).Header()
		allowed, isChecker := policy, name == "check.html" && hasChecker(site)
		if isChecker {
			allowed = checkerPolicy
		}
		if path.Ext(name) == ".svg" {
			allowed = "default-src 'none'"
			if _, style, isStyled := strings.Cut(text, "<style>"); isStyled {
				style, _, _ = strings.Cut(style, "</style>")
				sum := sha256.Sum256([]byte(style))
				allowed += "; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
			}
		}
		if got := h.Get("Content-Security-Policy"); got != allowed+"; frame-ancestors 'none'" {
			t.Errorf("%s: policy %q, want %q", name, got, allowed)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: headers %v", name, h)
		}
		if path.Ext(name) != ".html" {
			continue
		}
		if meta := `<meta http-equiv="Content-Security-Policy" content="` + strings.ReplaceAll(allowed, "'", "&#39;") + `">`; !strings.Contains(text, meta) {
			t.Errorf("%s has no policy in its head", name)
		}
		for _, m := range loaded.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], ":") || strings.HasPrefix(m[1], "/") {
				t.Errorf("%s loads %s", name, m[1])
			}
		}
		if found := inline.FindString(text); found != "" {
			t.Errorf("%s has %q in its text", name, found)
		}
		hasVersions := strings.Contains(text, `<h2 id="231">2.3.1</h2>`)
		if strings.Contains(text, "<script") != (name == "search.html" || isChecker || hasVersions) {
			t.Errorf("%s: only the search, the checker and the tables of messages have scripts", name)
		}
	}
}

// TestPagesShowTheirPictures: each picture below docs/images is on a page, with a text in its place, and served. One of
// a page is there in both colours, and its size is known before it is loaded.
func TestPagesShowTheirPictures(t *testing.T) {
	files, shown := readSite(t), map[string]bool{}
	picture := regexp.MustCompile(`<source media="screen and \(prefers-color-scheme: dark\)" srcset="([^"]+)-dark\.png">` +
		`<img src="([^"]+)-light\.png" alt="[^"]+" width="\d+" height="\d+" loading="lazy">|<img src="([^"]+\.svg)" alt="[^"]+">`)
	for name, text := range files {
		_, article, isPage := strings.Cut(text, "<article>")
		if path.Ext(name) != ".html" || !isPage {
			continue
		}
		found := picture.FindAllStringSubmatch(article, -1)
		if n := strings.Count(article, "<img"); n != len(found) {
			t.Errorf("%s has %d images, of which %d are as they should be", name, n, len(found))
		}
		for _, m := range found {
			dark, light, flow := m[1], m[2], m[3]
			if dark != light {
				t.Errorf("%s shows %s in dark and %s in light", name, dark, light)
			}
			want := map[string]string{flow: "<svg xmlns="}
			if flow == "" {
				want = map[string]string{dark + "-dark.png": "\x89PNG", light + "-light.png": "\x89PNG"}
			}
			for file, begin := range want {
				file = path.Join(path.Dir(name), file)
				if shown[file] = true; !strings.HasPrefix(files[file], begin) {
					t.Errorf("%s shows %s, which is no picture: %.50q", name, file, files[file])
				}
			}
		}
	}
	flows, err := fs.Glob(docs.Files, "images/flows/*.svg")
	if err != nil || len(flows) < 10 {
		t.Errorf("%d pictures of flows, fewer than there must be, %v", len(flows), err)
	}
	pages, err := fs.Glob(docs.Files, "images/pages/*.png")
	if err != nil || len(pages) < 10 {
		t.Errorf("%d pictures of pages, fewer than there must be, %v", len(pages), err)
	}
	for _, name := range append(flows, pages...) {
		if !shown[name] {
			t.Errorf("no page shows %s", name)
		}
	}
}

// TestEveryOperationIsOnItsPage: the page of the operations has each operation of the description with an example of
// its body. Outside of a sandbox it has no form, and says how to start one.
func TestEveryOperationIsOnItsPage(t *testing.T) {
	var description struct {
		Paths map[string]map[string]struct {
			OperationID string
			RequestBody *struct{ Required bool }
		}
	}
	site := newSite(t)
	if err := json.Unmarshal(get(site, "/openapi.json").Body.Bytes(), &description); err != nil {
		t.Fatal(err)
	}
	page := get(site, "/docs/operations.html").Body.String()
	if strings.Contains(page, `<form class="try"`) || !strings.Contains(page, "<code>threeds sandbox</code>") {
		t.Error("the page does not say how to start the sandbox, or has forms without one")
	}
	box, err := docsite.NewInSandbox("a-key")
	if err != nil {
		t.Fatal(err)
	}
	inSandbox, operations := get(box, "/docs/operations.html").Body.String(), 0
	for at, methods := range description.Paths {
		for method, o := range methods {
			operations++
			_, part, isThere := strings.Cut(page, `<h3 id="`+o.OperationID+`"><code>`+strings.ToUpper(method)+" "+at+"</code>")
			part, _, _ = strings.Cut(part, "</section>")
			if hasBody := strings.Contains(part, "data-example="); !isThere || hasBody != (o.RequestBody != nil) {
				t.Errorf("%s %s is on the page: %t, with a body: %t", method, at, isThere, hasBody)
			}
			form := `data-method="` + strings.ToUpper(method) + `" data-path="` + at + `"`
			if !strings.Contains(inSandbox, form) {
				t.Errorf("the sandbox has no form for %s %s", method, at)
			}
		}
	}
	if operations < 20 {
		t.Errorf("%d operations, fewer than there must be", operations)
	}
}

// TestReadersOfASandboxMaySendRequests: in a sandbox the page of the operations may call the API of its own origin, by
// a script of the site. It offers the key that everybody may know, and no other one. The other pages are as they are
// everywhere.
func TestReadersOfASandboxMaySendRequests(t *testing.T) {
	for _, key := range []string{"a-key", ""} {
		box, err := docsite.NewInSandbox(key)
		if err != nil {
			t.Fatal(err)
		}
		w := get(box, "/docs/operations.html")
		page, allowed := w.Body.String(), w.Header().Get("Content-Security-Policy")
		if !strings.Contains(allowed, "; connect-src 'self';") || !strings.Contains(allowed, "script-src 'self';") {
			t.Errorf("policy %q", allowed)
		}
		if !strings.Contains(page, `<input name="key" value="`+key+`"`) || strings.Count(page, "<script") != 1 ||
			!strings.Contains(page, `<script defer src="assets/try.js"></script>`) || get(box, "/docs/assets/try.js").Code != http.StatusOK {
			t.Errorf("with the key %q the page has no field for it, or another script", key)
		}
		if get(box, "/docs/api.html").Header().Get("Content-Security-Policy") != get(newSite(t), "/docs/api.html").Header().Get("Content-Security-Policy") {
			t.Error("another page may load more in a sandbox")
		}
	}
}

// TestExportIsWhatIsServed: an export has the files that are served, byte for byte, and no others.
func TestExportIsWhatIsServed(t *testing.T) {
	dir, files := t.TempDir(), readSite(t)
	if err := newSite(t).Export(dir); err != nil {
		t.Fatal(err)
	}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(os.DirFS(dir), name)
		if served, isServed := files[name]; !isServed || served != string(text) {
			t.Errorf("%s is exported, and served: %t, with %d bytes and %d", name, isServed, len(text), len(served))
		}
		delete(files, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range files {
		t.Errorf("%s is served and not exported", name)
	}
}

// TestAddressesThatPeopleTypeLeadToThePage: a folder, and an address without its ending, lead to the page. What is
// not there, or is to be changed, is refused.
func TestAddressesThatPeopleTypeLeadToThePage(t *testing.T) {
	site := newSite(t)
	for at, want := range map[string]string{
		"/docs": "/docs/", "/docs/quickstart": "/docs/quickstart.html", "/docs/operating": "/docs/operating/",
		"/docs/reference/areq": "/docs/reference/areq.html",
	} {
		if w := get(site, at); w.Code != http.StatusPermanentRedirect || w.Header().Get("Location") != want {
			t.Errorf("%s: status %d to %q, want %s", at, w.Code, w.Header().Get("Location"), want)
		}
	}
	for at, want := range map[string]string{
		"/docs/": "3-D Secure that you can read", "/docs/operating/": "<h1>Operating</h1>", "/docs/operating/index.md": "# Operating\n",
		"/docs/quickstart.md": "# Quickstart", "/llms.txt": "](docs/quickstart.md): ", "/docs/llms.txt": "](quickstart.md): ",
		"/docs/openapi.yaml": "openapi: 3.1.0",
	} {
		if w := get(site, at); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: status %d, %.100q, want %q", at, w.Code, w.Body, want)
		}
	}
	for _, at := range []string{"/docs/absent", "/docs/../docs.go", "/docs/docs.go", "/docs/absent/", "/other", "/"} {
		if w := get(site, at); w.Code != http.StatusNotFound {
			t.Errorf("%s: status %d", at, w.Code)
		}
	}
	w := httptest.NewRecorder()
	site.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/docs/", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: status %d, %v", w.Code, w.Header())
	}
}

// TestTheDescriptionOfTheAPIIsThereAsJSON: openapi.json says what openapi.yaml says.
func TestTheDescriptionOfTheAPIIsThereAsJSON(t *testing.T) {
	var description struct {
		OpenAPI string
		Paths   map[string]any
	}
	if err := json.Unmarshal(get(newSite(t), "/openapi.json").Body.Bytes(), &description); err != nil {
		t.Fatal(err)
	}
	if description.OpenAPI != "3.1.0" || description.Paths["/authentications"] == nil {
		t.Errorf("openapi %q, %d paths", description.OpenAPI, len(description.Paths))
	}
}

// TestTheListForProgramsNamesEachPage: llms.txt has each page once, with its title and what it is about.
func TestTheListForProgramsNamesEachPage(t *testing.T) {
	list := get(newSite(t), "/llms.txt").Body.String()
	for _, area := range docs.Areas() {
		for _, section := range area.Sections {
			for _, name := range section.Pages {
				to := regexp.MustCompile(`(?m)^- \[[^\]\n]+\]\(docs/` + strings.TrimSuffix(strings.ReplaceAll(name, "README", "index"), "md") + `md\): \S`)
				if n := len(to.FindAllString(list, -1)); n != 1 {
					t.Errorf("llms.txt has %s %d times", name, n)
				}
			}
		}
	}
}

// TestFirstPageIsSmall: the first page, with all that it loads, has at most 60 KiB.
func TestFirstPageIsSmall(t *testing.T) {
	site, size := newSite(t), 0
	for _, name := range []string{"index.html", "assets/docs.css", "assets/mark.svg"} {
		size += get(site, docsite.Path+name).Body.Len()
	}
	if size > 60<<10 {
		t.Errorf("the first page has %d bytes", size)
	}
	t.Logf("%d bytes", size)
}

// TestFilesAreCompressedAndKept: a client that has a file does not get it a second time, and one that takes gzip gets
// it in that.
func TestFilesAreCompressedAndKept(t *testing.T) {
	site := newSite(t)
	r := httptest.NewRequest(http.MethodGet, "/docs/assets/index.js", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	first := httptest.NewRecorder()
	site.ServeHTTP(first, r)
	if first.Header().Get("Content-Encoding") != "gzip" || bytes.HasPrefix(first.Body.Bytes(), []byte("globalThis")) {
		t.Errorf("%v", first.Header())
	}
	r.Header.Set("If-None-Match", first.Header().Get("ETag"))
	second := httptest.NewRecorder()
	if site.ServeHTTP(second, r); second.Code != http.StatusNotModified {
		t.Errorf("the second time: status %d", second.Code)
	}
	t.Logf("the index has %d bytes, compressed", first.Body.Len())
}

// BenchmarkIndex measures how long the first search waits for its index.
func BenchmarkIndex(b *testing.B) {
	for b.Loop() {
		site, err := docsite.New()
		if err != nil {
			b.Fatal(err)
		}
		get(site, "/docs/assets/index.js")
	}
}

// BenchmarkNew measures what the site costs at the start.
func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, err := docsite.New(); err != nil {
			b.Fatal(err)
		}
	}
}

// TestServeServesUntilItsEnd: the site that is served alone prints the address of its first page, to which its root
// leads, and ends without an error.
func TestServeServesUntilItsEnd(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- newSite(t).Serve(ctx, "127.0.0.1:0", in) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/docs/`).FindString(line)
	answer, err := http.Get(strings.TrimSuffix(address, "docs/"))
	if err != nil {
		t.Fatalf("%v, after %q", err, line)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK || answer.Request.URL.String() != address {
		t.Errorf("the root leads to %s, status %d; want %s", answer.Request.URL, answer.StatusCode, address)
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
