package docgen

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"github.com/openthreeds/threeds/internal/browsertest"
)

// TestBrowserSnippets runs the script of docs/browser-flow.md in a browser: as
// it stands there, against an issuer that answers the 3DS Method.
func TestBrowserSnippets(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/browser-flow.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := func(language string) []string {
		var out []string
		for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(page), -1) {
			out = append(out, m[1])
		}
		return out
	}
	html, script := blocks("html"), strings.Join(blocks("js"), "\n")
	if len(html) != 4 {
		t.Fatalf("%d pieces of HTML in the page, want the hidden frame, the notice, the challenge frame, the end", len(html))
	}
	hidden, notice, frame, end := html[0], html[1], html[2], html[3]

	serve := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, "<!doctype html>", body)
		}
	}
	const autoPost = `<form method="post" action="%s"></form><script>document.forms[0].submit()</script>`
	var creq string
	mux := http.NewServeMux()
	mux.Handle("/", serve(hidden+frame+"<script>"+script+"</script>"))
	mux.Handle("/method", serve(fmt.Sprintf(autoPost, "/notice")))
	mux.Handle("/notice", serve(notice))
	mux.HandleFunc("/challenge", func(w http.ResponseWriter, r *http.Request) {
		creq = r.FormValue("creq")
		serve(fmt.Sprintf(autoPost, "/end"))(w, r)
	})
	mux.Handle("/end", serve(end))
	server := httptest.NewServer(mux)
	defer server.Close()

	const id = "11111111-2222-4333-8444-555555555555"
	ctx := browsertest.NewBrowser(t)
	if err := chromedp.Do(ctx, chromedp.Navigate(server.URL)); err != nil {
		t.Fatal(err)
	}
	got, err := chromedp.Run(ctx, chromedp.Evaluate[[]any](fmt.Sprintf(`(async () => {
		const ended = new Promise(resolve => addEventListener('message', e => { if (e.data === 'challenge done') resolve(e.data); }));
		const method = await runMethod('/method', %[1]q, location.origin + '/notice', '2.2.0');
		showChallenge({ acsURL: '/challenge', messageVersion: '2.2.0', threeDSServerTransID: %[1]q, acsTransID: 'a' }, '03', 'session');
		let asked = 0;
		const call = async () => ++asked < 2 ? { messageType: 'Erro', errorCode: '305' } : { messageType: 'RReq', transStatus: 'Y' };
		return [
			await runMethod('', 'x', 'x', '2.2.0'), method, await ended,
			sizeFor(1280, 800), sizeFor(620, 420), sizeFor(400, 800), sizeFor(200, 200),
			decode('eyJhIjoiPz8_In0').a, decode('eyJhIjoiPz8/In0=').a,
			(await result(call, 'x')).transStatus, await result(async () => ({ errorCode: '203' }), 'x'),
			typeof browserData().browserColorDepth,
		];
	})()`, id), chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	want := []any{"U", "Y", "challenge done", "03", "04", "02", "05", "???", "???", "Y", nil, "string"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the script gives (-want +got):\n%s", diff)
	}
	var sent map[string]string
	if err := json.Unmarshal(decodeUnpadded(t, creq), &sent); err != nil || sent["threeDSServerTransID"] != id || sent["messageType"] != "CReq" {
		t.Errorf("creq is %v, %v", sent, err)
	}
}

func decodeUnpadded(t *testing.T, text string) []byte {
	t.Helper()
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatalf("creq: %v", err)
	}
	return data
}
