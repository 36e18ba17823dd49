package shop

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestB10LinesOfTheDocs: the script of the short page is the one that docs/browser.md prints.
func TestB10LinesOfTheDocs(t *testing.T) {
	docs, err := os.ReadFile(filepath.Join("..", "..", "docs", "browser.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(docs), "```html page.html\n")
	_, script, _ := strings.Cut(page, "<script type=\"module\">\n")
	script, _, isPrinted := strings.Cut(script, "</script>")
	var want strings.Builder
	for line := range strings.Lines(script) {
		want.WriteString(strings.TrimPrefix(line, "  "))
	}
	for public, address := range map[string]string{"": "http://127.0.0.1:8080", "https://lab.example": "https://lab.example"} {
		s := &Shop{API: "http://127.0.0.1:8080", PublicURL: public}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/static/pay.js", nil))
		if want := strings.ReplaceAll(want.String(), "http://127.0.0.1:8080", address); !isPrinted || w.Body.String() != want {
			t.Errorf("the shop's script at %q is\n%s\nwant what docs/browser.md prints:\n%s", public, w.Body, want)
		}
	}
}

// TestB10ScriptsOfTheServerAlone: the short page runs scripts of the shop and of the server, and nothing inline.
func TestB10ScriptsOfTheServerAlone(t *testing.T) {
	s := &Shop{API: "http://127.0.0.1:8080"}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/", nil))
	got := w.Header().Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self' http://127.0.0.1:8080;", "style-src 'self';", "connect-src 'self' http://127.0.0.1:8080;"} {
		if !strings.Contains(got, want) {
			t.Errorf("the policy is %q, want %q in it", got, want)
		}
	}
	if w := httptest.NewRecorder(); true {
		r := httptest.NewRequest("POST", "http://localhost/pay", strings.NewReader(`{"card":"4000001234567890"}`))
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		if s.Handler().ServeHTTP(w, r); w.Code != 403 {
			t.Errorf("a page elsewhere begins a payment: %d, want 403", w.Code)
		}
	}
}

// TestW1LinesOfTheDocs: the lines that docs/webhooks.md prints for Go are those of the shop.
func TestW1LinesOfTheDocs(t *testing.T) {
	docs, err := os.ReadFile(filepath.Join("..", "..", "docs", "webhooks.md"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("webhook.go")
	if err != nil {
		t.Fatal(err)
	}
	_, printed, _ := strings.Cut(string(docs), "```go\n")
	printed, _, isPrinted := strings.Cut(printed, "```")
	_, body, isShop := strings.Cut(string(source), "receiveEvent(w http.ResponseWriter, r *http.Request) {\n")
	body, _, _ = strings.Cut(body, "\n}\n")
	var want strings.Builder
	for line := range strings.Lines(body) {
		want.WriteString(strings.TrimPrefix(line, "\t"))
	}
	if want.WriteString("\n"); !isPrinted || !isShop || printed != want.String() {
		t.Errorf("docs/webhooks.md prints\n%s\nthe shop has\n%s", printed, want.String())
	}
}

// TestB10BankShowsTheShop: the short way sends the name that the shop has on its pages, so that the bank shows that and not
// the name of the sandbox's merchant.
func TestB10BankShowsTheShop(t *testing.T) {
	var sent map[string]any
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/authentications" {
			_ = json.NewDecoder(r.Body).Decode(&sent)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer api.Close()
	s := &Shop{API: api.URL, APIKey: testKey, Client: api.Client(), Log: slog.New(slog.DiscardHandler)}
	serve(s, "POST", "/pay", `{"card":"4000000000000103","expiry":"3012"}`, nil)
	if name, _ := sent["merchantName"].(string); !strings.HasPrefix(name, "Fjord Audio") {
		t.Errorf("merchantName is %q, want the name on the shop's pages", name)
	}
	if page := serve(s, "GET", "/", "", nil).Body.String(); !strings.Contains(page, `"merchantName": "`+merchantName+`"`) {
		t.Error("the page does not print what the shop sends")
	}
}

// TestB10WrongCardIsSaid: the shop tells the page what is wrong with a payment that the server refuses.
func TestB10WrongCardIsSaid(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"type": "urn:threeds:problem:invalid", "title": "Invalid", "status": 400, "errors": [
			{"pointer": "/acctNumber", "rule": "length", "cure": "Send 13 to 19 characters."},
			{"pointer": "/cardExpiryDate", "rule": "pattern", "cure": "Send year and month, as YYMM."}]}`)
	}))
	defer api.Close()
	s := &Shop{API: api.URL, APIKey: testKey, Client: api.Client()}
	w := serve(s, "POST", "/pay", `{"card":"abcd","expiry":"30/12"}`, nil)
	const want = "Card number: Send 13 to 19 characters. Expiry: Send year and month, as YYMM.\n"
	if w.Code != http.StatusUnprocessableEntity || w.Body.String() != want {
		t.Errorf("%d %q, want 422 %q", w.Code, w.Body, want)
	}
}
