package hosted

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/testing/browsertest"
)

// merchantName is the merchant on the pages of most tests.
const merchantName = "Fjord Audio"

// text returns an English text of the pages, with the merchant's name in its place.
func text(t *testing.T, key string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(browsertest.Root(t), "internal", "edge", "browser", "texts.json"))
	if err != nil {
		t.Fatal(err)
	}
	var texts map[string]map[string]string
	if err := json.Unmarshal(raw, &texts); err != nil {
		t.Fatal(err)
	}
	found, ok := texts["en"][key]
	if !ok {
		t.Fatalf("texts.json has no %s", key)
	}
	return strings.ReplaceAll(found, "{merchant}", merchantName)
}

// newSecret returns a value that no other browser has.
func newSecret() string { return rand.Text() + rand.Text()[:17] }

// submit posts a form of the hosted page.
func submit(ctx context.Context, h http.Handler, path string, cookies []*http.Cookie, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, "POST", path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// get gets a page of the browser listener.
func get(h http.Handler, path string, cookies ...*http.Cookie) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
