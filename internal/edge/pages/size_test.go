package pages_test

import (
	"fmt"
	"html"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/edge/pages/consoletest"
	"github.com/openthreeds/threeds/internal/operate/merchant"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/journal"
)

// maxPage is the number of bytes that the longest page takes on its way to a browser.
const maxPage = 60_000

// TestK1PagesStaySmallWithManyMerchants: pages stay small with 500 merchants and more records than a page shows. A form
// names only a few merchants, and all of them can be reached by links.
func TestK1PagesStaySmallWithManyMerchants(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	registry := &merchant.Registry{Store: s.DB, Ring: s.Admin.Ring()}
	for n := range 500 {
		registry.InFile = append(registry.InFile, account.Merchant{Name: fmt.Sprintf("Corner Shop of the Town %03d", n)})
	}
	s.Admin.Merchants = func() *merchant.Registry { return registry }
	for n := range 120 {
		s.post("admin", "/keys", url.Values{
			"merchant": {registry.InFile[n/60].Name}, "label": {fmt.Sprintf("checkout of the season %03d", n)},
			"allow": {"203.0.113.0/24, 192.0.2.0/24"},
		})
		r := recordOf(fmt.Sprintf("10000000-0000-4000-8000-000000000%03d", n))
		r.Created, r.Merchant, r.Reference = s.Now.Add(-1e9), registry.InFile[n].Name, fmt.Sprintf("order-of-the-season-%d", n)
		r.Unkept = []journal.Rule{{Element: "email|homePhone|mobilePhone|workPhone", Rule: "require", Since: "2024-08-12"}}
		s.add(journal.Answered, r)
	}
	merchantsAt, merchants := everyPart(s, "/merchants")
	keysAt, keys := everyPart(s, "/keys")
	all := []*httptest.ResponseRecorder{s.post("admin", "/authentications/search", url.Values{"card": {card}})}
	for _, at := range slices.Concat(merchantsAt, keysAt, []string{"/", "/authentications", "/authentications?time=all",
		"/reports?by=merchant", "/reports?by=mandates", "/explain", "/tokens", "/operators", "/keys", "/webhooks", "/audit",
		"/billing", "/merchants/" + url.PathEscape(registry.InFile[1].Name)}) {
		all = append(all, s.getGzip("admin", at))
	}
	for _, w := range all {
		if n := w.Body.Len(); w.Code != 200 || n > maxPage {
			t.Errorf("%d: %d bytes, want at most %d: %.200s", w.Code, n, maxPage, w.Body)
		}
	}
	for _, m := range registry.InFile {
		if n := countOf(merchants, ">"+m.Name+"<"); n != 1 {
			t.Errorf("%q is named %d times on the pages of merchants", m.Name, n)
		}
	}
	for n := range 120 {
		if label := fmt.Sprintf("checkout of the season %03d", n); countOf(keys, `scope="row">`+label+"<") != 1 {
			t.Errorf("%q is not once on the pages of keys", label)
		}
	}
	s.want(s.get("viewer", "/merchants?name=town+017"), 200, "1 merchant with", "Corner Shop of the Town 017")
	s.want(s.get("viewer", "/keys?name=season+017"), 200, "1 key with", "checkout of the season 017")
	s.want(s.get("viewer", "/keys?name=nowhere"), 200, "0 keys", "none like that")
	s.want(s.get("viewer", "/authentications?merchant=Corner+Shop+of+the+Town+007"), 200, `name="merchant" value="Corner Shop of the Town 007"`)
}

// everyPart gets all pages of a list, by the links from one to the next, and returns their addresses, too.
func everyPart(s *site, at string) (addresses []string, pages []*httptest.ResponseRecorder) {
	path := at
	for at != "" {
		w := s.get("admin", at)
		addresses, pages = append(addresses, at), append(pages, w)
		_, rest, _ := strings.Cut(w.Body.String(), `class="btn" href="`+path+"?")
		if at, _, _ = strings.Cut(rest, `"`); at != "" {
			at = path + "?" + html.UnescapeString(at)
		}
	}
	return addresses, pages
}

// countOf counts a text on pages.
func countOf(pages []*httptest.ResponseRecorder, text string) (n int) {
	for _, w := range pages {
		n += strings.Count(w.Body.String(), text)
	}
	return n
}

// TestK1PagesAreCompressed: a browser that accepts gzip gets a page in a quarter of its length, and one that
// does not gets it as it is. The answer to a form, which may show a secret that was just made, and files to
// keep are never compressed.
func TestK1PagesAreCompressed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, at := range []string{"/", "/authentications", "/authentications/" + passedID, "/keys", "/assets/console.css", "/assets/console.js"} {
		plain, short := s.get("admin", at), s.getGzip("admin", at)
		if plain.Header().Get("Content-Encoding") != "" || short.Header().Get("Content-Encoding") != "gzip" || short.Body.Len() > plain.Body.Len()/2 {
			t.Errorf("%s: %d bytes, compressed %d, %v", at, plain.Body.Len(), short.Body.Len(), short.Header())
		}
	}
	for _, at := range []string{"/audit.jsonl", "/reports.csv", "/nowhere.css"} {
		if w := s.getGzip("admin", at); w.Code == 200 && w.Header().Get("Content-Encoding") != "" {
			t.Errorf("%s: %v", at, w.Header())
		}
	}
	form := url.Values{"csrf": {consoletest.FormToken()}, "merchant": {shop}, "label": {strings.Repeat("till ", 10)}}
	r := httptest.NewRequest("POST", "/keys", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept-Encoding", "gzip")
	if w := s.serve("admin", r); w.Code != 200 || w.Header().Get("Content-Encoding") != "" || !strings.Contains(w.Body.String(), "copy it now") {
		t.Errorf("a key that was made: %d %v", w.Code, w.Header())
	}
}
