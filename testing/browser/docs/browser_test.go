package docs

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
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"github.com/openthreeds/threeds/testing/browsertest"
)

// TestBrowserSnippets runs the script of docs/browser-flow.md in a browser: as
// it stands there, against an issuer that answers the 3DS Method. The shop is at
// localhost, under the policy for the sandbox, and the issuer at 127.0.0.1: the
// shop's cookie does not come with what the issuer posts, and the policy for
// live shops names the issuer that it keeps out. The issuer gives its frame another
// name, as one may: a second challenge has a frame all the same. Who leaves the page
// and comes back finds no challenge in it that is over.
func TestBrowserSnippets(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(browsertest.Root(t), "docs/browser-flow.md"))
	if err != nil {
		t.Fatal(err)
	}
	html, script := blocks(page, "html"), strings.Join(blocks(page, "js"), "\n")
	if len(html) != 3 {
		t.Fatalf("%d pieces of HTML in the page, want the notice, the place of the challenge, the end", len(html))
	}
	notice, place, end := html[0], html[1], html[2]

	policies := regexp.MustCompile("(?m)^Content-Security-Policy: (.*)$").FindAllStringSubmatch(string(page), -1)
	if len(policies) != 2 {
		t.Fatalf("%d policies in the page, want that for live shops and that for the sandbox", len(policies))
	}
	serve := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, "<!doctype html>", body)
		}
	}
	const autoPost = `<form method="post" action="%s"></form><script>window.name = "bank"; document.forms[0].submit()</script>`
	var creq, session, issuer, shop string
	var cookies []*http.Cookie
	var notices atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("/{policy}", func(w http.ResponseWriter, r *http.Request) {
		policy := policies[1][1]
		if r.PathValue("policy") == "live" {
			policy = policies[0][1]
		}
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("Cache-Control", "no-store") // or it would be kept alive while another page is shown
		http.SetCookie(w, &http.Cookie{Name: "cart", Value: "1", SameSite: http.SameSiteLaxMode})
		serve(place+"<script>"+script+"</script>")(w, r)
	})
	mux.HandleFunc("/method", func(w http.ResponseWriter, r *http.Request) {
		serve(fmt.Sprintf(autoPost, shop+"/notice"))(w, r)
	})
	mux.HandleFunc("/notice", func(w http.ResponseWriter, r *http.Request) {
		notices.Add(1)
		serve(notice)(w, r)
	})
	mux.HandleFunc("/challenge", func(w http.ResponseWriter, r *http.Request) {
		creq, session = r.FormValue("creq"), r.FormValue("threeDSSessionData")
		serve(fmt.Sprintf(autoPost, shop+"/end"))(w, r)
	})
	mux.HandleFunc("/end", func(w http.ResponseWriter, r *http.Request) {
		notices.Add(1)
		cookies = r.Cookies()
		serve(end)(w, r)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	issuer = server.URL
	shop = strings.Replace(issuer, "127.0.0.1", "localhost", 1)

	const id = "11111111-2222-4333-8444-555555555555"
	ctx := browsertest.NewBrowser(t)
	if err := chromedp.Do(ctx, chromedp.Navigate(shop+"/sandbox")); err != nil {
		t.Fatal(err)
	}
	got, err := chromedp.Run(ctx, chromedp.Evaluate[[]any](fmt.Sprintf(`(async () => {
		const blocked = new Promise((_, reject) => { window.report = (...what) => reject(new Error('blocked: ' + what)); });
		const method = await Promise.race([blocked, runMethod('%[2]s/method', %[1]q, location.origin + '/notice', '2.2.0')]);
		const challenge = (size) => {
			const over = showChallenge({ acsURL: '%[2]s/challenge', messageVersion: '2.2.0', threeDSServerTransID: %[1]q, acsTransID: 'a' }, size, 'sø→');
			const [frame, ...others] = document.querySelectorAll('iframe');
			const whole = frame.clientWidth === innerWidth && frame.clientHeight === innerHeight;
			const looks = (whole ? 'the whole screen' : frame.clientWidth + ' × ' + frame.clientHeight) + ', ' + others.length + ' others';
			postMessage('challenge done', location.origin); // from elsewhere than the frame
			return Promise.race([blocked, over.then(() => looks + ', then ' + document.querySelectorAll('iframe').length)]);
		};
		const first = await challenge('03'), second = await challenge('05');
		const erro = (errorCode, errorComponent) => ({ messageType: 'Erro', errorCode, errorComponent });
		const answers = [erro('305', 'S'), erro('103', 'S'), erro('403', 'S'), Promise.reject(new Error('hung up'))];
		let asked = 0;
		const call = async () => answers.shift() || { messageType: 'RReq', transStatus: 'Y' };
		window.setTimeout = (wake, _, ...args) => queueMicrotask(() => wake(...args)); // nobody is waited for any more
		return [
			await runMethod('', 'x', 'x', '2.2.0'), method, first, second,
			sizeFor(1280, 800), sizeFor(620, 420), sizeFor(400, 800), sizeFor(200, 200),
			decode('eyJhIjoiPz8_In0').a, decode('eyJhIjoiPz8/In0=').a,
			(await result(call, 'x')).transStatus, await result(async () => erro('203', 'S'), 'x'), await result(async () => { asked++; return erro('305', 'D'); }, 'x'), asked,
			typeof browserData().browserColorDepth,
		];
	})()`, id, issuer), chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	want := []any{
		"U", "Y", "500 × 600, 0 others, then 0", "the whole screen, 0 others, then 0", "03", "04", "02", "05", "???", "???",
		"Y", nil, nil, 1.0, "string",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the script gives (-want +got):\n%s", diff)
	}
	var sent map[string]string
	if err := json.Unmarshal(decodeUnpadded(t, creq), &sent); err != nil || sent["threeDSServerTransID"] != id || sent["messageType"] != "CReq" {
		t.Errorf("creq is %v, %v", sent, err)
	}
	if got := string(decodeUnpadded(t, session)); got != "sø→" {
		t.Errorf("the session is %q", got)
	}
	if len(cookies) > 0 {
		t.Errorf("%d cookies came with the post of another site", len(cookies))
	}

	if got := notices.Load(); got != 3 {
		t.Errorf("%d notices, want one of the 3DS Method and one of each challenge", got)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(shop+"/live"), chromedp.NavigateBack()); err != nil {
		t.Fatal(err)
	}
	frames, err := chromedp.Run(ctx, chromedp.Evaluate[int](`document.querySelectorAll("iframe").length`))
	if again := notices.Load() - 3; err != nil || frames > 0 || again > 0 {
		t.Errorf("back in the page there are %d frames and %d notices, %v", frames, again, err)
	}

	if err := chromedp.Do(ctx, chromedp.Navigate(shop+"/live")); err != nil {
		t.Fatal(err)
	}
	blocked, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](fmt.Sprintf(`new Promise(resolve => {
		window.report = (...what) => resolve(what);
		showChallenge({ acsURL: '%s/challenge' }, '03', 'session');
	})`, issuer), chromedp.EvalAwaitPromise))
	if err != nil || len(blocked) != 2 || !strings.HasPrefix(blocked[1], issuer) {
		t.Errorf("blocked is %v, %v; want %s", blocked, err, issuer)
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
