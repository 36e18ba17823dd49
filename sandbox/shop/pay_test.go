package shop

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/api"
	"github.com/openthreeds/threeds/internal/edge/lanes"
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
	for _, want := range []string{"default-src 'none'", "script-src 'self' http://127.0.0.1:8080;", "style-src 'self';",
		"connect-src 'self' http://127.0.0.1:8080;"} {
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

// TestB10BankShowsTheShop: the short way sends the name that the shop has on its pages, so that the bank shows that and
// not the name of the sandbox's merchant.
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

// TestB10OrderSaysHowItEnded: each result has a heading that a shopper would read, a sign, and below it the words of
// the program. So has an authentication that is not over, and one that cannot be read.
func TestB10OrderSaysHowItEnded(t *testing.T) {
	heading := regexp.MustCompile(
		`data-good="(true|false|open)"[^>]*>\s*<div class="verdict">\s*<span class="sign"[^>]*></span>\s*<div>\s*<h1[^>]*>([A-Z][^<>_:]{10,60})</h1>`)
	read := func(answer string) (page, good, title string) {
		t.Helper()
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) }))
		defer api.Close()
		s := &Shop{API: api.URL, APIKey: "key"}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/order?authentication=1", nil))
		m := heading.FindStringSubmatch(w.Body.String())
		if m == nil {
			t.Fatalf("%s: %s", answer, w.Body)
		}
		return w.Body.String(), m[1], m[2]
	}
	for _, result := range api.Results() {
		page, good, title := read(fmt.Sprintf(`{"id": "1", "status": "completed", "outcome": {"result": %q, "next": {"action": "act"}}}`, result))
		if !strings.Contains(page, fmt.Sprintf(`<p class="ending" id="ending">%s: act</p>`, result)) {
			t.Errorf("%s: the program's words are not there: %s", result, page)
		}
		isGood := slices.Contains([]api.Result{api.ResultAuthenticated, api.ResultAttempted, api.ResultInformational, api.ResultDataOnly}, result)
		if (good == "true") != isGood || good == "open" || (title == "Thank you, your order is placed") != isGood {
			t.Errorf("%s: %s, good %s", result, title, good)
		}
		if result != api.ResultError && title == endings[faulty].Title {
			t.Errorf("%s has no heading of its own", result)
		}
	}
	if _, good, title := read(`{"id": "1", "status": "challenge"}`); good != "open" || title != "Your bank has not answered yet" {
		t.Errorf("an open one: %s, good %s", title, good)
	}
	if _, good, _ := read("no JSON"); good != "open" {
		t.Errorf("one that cannot be read: good %s", good)
	}
}

// A beyond is what passed beyond the shop.
type beyond []lanes.Step

func (b beyond) Steps(context.Context, string, string) []lanes.Step { return b }

func (beyond) ConsoleURL() string { return "" }

// TestB10TheMessageWithoutAnAnswerIsShownFirst: if the directory is silent, the AReq is shown next to the lanes; if the
// issuer is silent, the CReq. A message that was answered is followed by its answer.
func TestB10TheMessageWithoutAnAnswerIsShownFirst(t *testing.T) {
	const none = "No answer that could be used has come."
	step := func(name, text string) lanes.Step { return lanes.Step{Step: name, Message: []byte(text)} }
	areq, ares, creq := step("areq", `{"messageType":"AReq"}`), step("ares", `{"transStatus":"C"}`), step("creq", `{"messageType":"CReq"}`)
	for _, c := range []struct {
		passed beyond
		want   string
	}{
		{beyond{areq}, "areq"}, // before the journal is written
		{beyond{areq, step("erro", "")}, "areq"},
		{beyond{areq, step("erro", `{"messageType":"Erro"}`)}, "erro"},
		{beyond{areq, step("ares", `{"transStatus":"Y"}`)}, "ares"},
		{beyond{areq, step("ares", `{"transStatus":"S"}`), areq}, "areq-2"},
		{beyond{areq, ares, creq}, "creq"},
		{beyond{areq, ares, creq, step("cres", `{}`)}, "ares"},
		{beyond{areq, ares, creq, step("rreq", `{"transStatus":"Y"}`), step("rres", `{}`)}, "rreq"},
		{nil, "told"},
	} {
		for i := range c.passed {
			c.passed[i].At = time.Now().Add(time.Duration(i+1) * time.Second)
		}
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"id": "1", "status": "completed", "outcome": {"result": "error", "next": {"action": "retry_later"}}}`)
		}))
		defer api.Close()
		s := &Shop{API: api.URL, APIKey: "key", Source: c.passed}
		if w := httptest.NewRecorder(); true {
			r := httptest.NewRequest("POST", "http://localhost/pay", strings.NewReader(`{"card":"4000000000000163","expiry":"3012"}`))
			if s.Handler().ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Fatalf("POST /pay: %d %s", w.Code, w.Body)
			}
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/order?authentication=1", nil))
		page := w.Body.String()
		isOpen := strings.HasPrefix(c.want, "areq") || c.want == "creq"
		if !strings.Contains(page, `id="msg-`+c.want+`"`) || strings.Contains(page, none) != isOpen {
			_, shown, _ := strings.Cut(page, `id="msg-`)
			t.Errorf("%d steps: %.20s is shown, want %s", len(c.passed), shown, c.want)
		}
	}
}
