package docsite_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/openthreeds/threeds/internal/edge/docsite"
)

const (
	checkerPage   = "/docs/check.html"
	checkerPolicy = "default-src 'none'; style-src 'self'; script-src 'self' 'wasm-unsafe-eval'; img-src 'self'; " +
		"form-action 'self'; base-uri 'none'; connect-src 'self'"
)

// TestPageOfTheCheckerSaysWhatThisBuildHas: with the checker the page has its form, and may load it, which no other
// page may. Without it the page says so, and says how to build it.
func TestPageOfTheCheckerSaysWhatThisBuildHas(t *testing.T) {
	program := "\x1f\x8bprogram"
	for _, has := range []bool{true, false} {
		folder := fstest.MapFS{}
		if has {
			folder["checker/checker.wasm.gz"] = &fstest.MapFile{Data: []byte(program)}
			folder["checker/wasm_exec.js"] = &fstest.MapFile{Data: []byte("start")}
		}
		site, err := docsite.NewWithChecker(folder)
		if err != nil {
			t.Fatal(err)
		}
		page := get(site, checkerPage)
		text, allowed := page.Body.String(), page.Header().Get("Content-Security-Policy")
		if strings.Contains(text, `<form id="checker"`) != has || strings.Contains(text, `src="assets/check.js"`) != has ||
			strings.Contains(text, "This build of threeds has no checker") == has || !strings.Contains(text, "go build -tags checker") {
			t.Errorf("with the checker %t: %s", has, text)
		}
		if got := strings.HasPrefix(allowed, checkerPolicy+";"); got != has {
			t.Errorf("with the checker %t: policy %q", has, allowed)
		}
		if has && !strings.Contains(text, strings.ReplaceAll(checkerPolicy, "'", "&#39;")) {
			t.Error("the policy is not in the head of the page")
		}
		if other := get(site, "/docs/api.html"); strings.Contains(other.Header().Get("Content-Security-Policy"), "wasm") ||
			strings.Contains(other.Body.String(), "wasm") {
			t.Errorf("with the checker %t another page may load it", has)
		}
		r := httptest.NewRequest(http.MethodGet, "/docs/assets/checker.wasm.gz", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		site.ServeHTTP(w, r)
		if want := map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[has]; w.Code != want ||
			has && (w.Body.String() != program || w.Header().Get("Content-Encoding") != "") {
			t.Errorf("with the checker %t: status %d, %v", has, w.Code, w.Header())
		}
	}
}
