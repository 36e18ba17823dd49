package browser

import (
	"context"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/web"
)

const testOrigin = "https://pay.example"

func newTestHandler(set func(*Settings)) (http.Handler, *fakeEngine) {
	engine := newFakeEngine()
	s := Settings{
		URL: testOrigin, Engine: engine, Log: slog.New(slog.DiscardHandler),
		Looks: func(context.Context, string) Looks {
			return Looks{Name: "Fjord Audio", Origins: []string{"https://shop.example"}}
		},
	}
	if set != nil {
		set(&s)
	}
	return New(s), engine
}

// call sends a step of threeds.js and returns status, headers and body.
func call(h http.Handler, method, path, token, binding, origin string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(`{"data":{"browserAcceptHeader":"text/html","browserIP":"10.0.0.1"}}`))
	r.Header.Set("Authorization", "Bearer "+token)
	if binding != "" {
		r.Header.Set(bindingHeader, binding)
	}
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// submit posts a form of the hosted page.
func submit(h http.Handler, path string, cookies []*http.Cookie, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func get(h http.Handler, path string, cookies ...*http.Cookie) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestB4StolenToken: an attacker who has only the token cannot take over, read or end what another browser began.
func TestB4StolenToken(t *testing.T) {
	t.Parallel()
	h, engine := newTestHandler(nil)
	token := engine.Add(fakeRow{ACSURL: "https://bank.example/", View: session.BrowserView{ReturnURL: "https://shop.example/back"}})
	mine := newSecret()
	if w := call(h, "POST", "/a/begin", token, mine, "https://shop.example"); w.Code != 200 || !strings.Contains(w.Body.String(), "bank.example") {
		t.Fatalf("begin: %d %s", w.Code, w.Body)
	}
	tries := 0
	refused := func(what string, w *httptest.ResponseRecorder) {
		t.Helper()
		tries++
		if w.Code < 400 || strings.Contains(w.Body.String(), "bank.example") || strings.Contains(w.Body.String(), mine) {
			t.Errorf("%s: %d %s", what, w.Code, w.Body)
		}
	}
	for _, step := range []string{"POST /a/begin", "GET /a/state", "GET /a/state?after=-1", "POST /a/cancel", "POST /a/confirm", "POST /a/spc"} {
		method, path, _ := strings.Cut(step, " ")
		for name, binding := range map[string]string{"no secret": "", "another secret": newSecret(), "a short one": mine[:42], "the token": token[:43]} {
			refused(step+" with "+name, call(h, method, path, token, binding, "https://shop.example"))
		}
	}
	foreign := &http.Cookie{Name: "__Host-threeds-" + token[:22], Value: newSecret()}
	for _, action := range []string{"begin", "cancel", "confirm", "end", "unknown"} {
		refused("form "+action, submit(h, "/a/"+token+"/"+action, nil, nil))
		refused("form "+action+" with a foreign cookie", submit(h, "/a/"+token+"/"+action, []*http.Cookie{foreign}, nil))
	}
	refused("hosted page", get(h, "/a/"+token))
	refused("hosted page with a foreign cookie", get(h, "/a/"+token, foreign))
	refused("the token as a tag", submit(h, "/n/"+token+"/challenge", nil, nil))
	refused("another origin", call(h, "GET", "/a/state", token, mine, "https://evil.example"))
	if row := engine.Row(token); row.View.Step != session.StepChallenge || row.Binding != mine {
		t.Errorf("after %d tries the authentication is at %s", tries, row.View.Step)
	}
	if tries < 20 {
		t.Errorf("only %d tries", tries)
	}
	t.Logf("%d tries refused", tries)
}

// TestAnswersOfStepsHaveALength: however long they are, so that they leave in one piece.
func TestAnswersOfStepsHaveALength(t *testing.T) {
	t.Parallel()
	h, engine := newTestHandler(nil)
	token, mine := engine.Add(fakeRow{ACSURL: "https://bank.example/" + strings.Repeat("a", 4000)}), newSecret()
	for _, step := range []string{"POST /a/begin", "GET /a/state"} {
		method, path, _ := strings.Cut(step, " ")
		got := call(h, method, path, token, mine, "")
		if length := got.Header().Get("Content-Length"); got.Code != http.StatusOK || length != strconv.Itoa(got.Body.Len()) {
			t.Errorf("%s: %d, %q of %d bytes", step, got.Code, length, got.Body.Len())
		}
	}
}

// TestD105EachRequestOfABrowserIsCounted: once, by its step and the status of its answer.
func TestD105EachRequestOfABrowserIsCounted(t *testing.T) {
	t.Parallel()
	var heard []string
	h, engine := newTestHandler(func(s *Settings) {
		s.Count = func(step string, status int) { heard = append(heard, fmt.Sprint(step, " ", status)) }
	})
	token, mine := engine.Add(fakeRow{ACSURL: "https://bank.example/"}), newSecret()
	call(h, "POST", "/a/begin", token, mine, "https://shop.example")
	call(h, "POST", "/a/begin", token, newSecret(), "https://shop.example")
	call(h, "GET", "/a/state", token, mine, "https://shop.example")
	call(h, "OPTIONS", "/a/state", token, mine, "https://shop.example")
	get(h, "/a/"+token)
	submit(h, "/a/"+token+"/unknown", nil, nil)
	submit(h, "/n/none/method", nil, nil)
	submit(h, "/n/none/challenge", nil, nil)
	get(h, "/threeds.js")
	get(h, "/nothing")
	want := []string{
		"begin 200", "begin 409", "state 200", "other 204", "page 409", "page 409", "method 200", "challenge 404", "other 200", "other 404",
	}
	if !slices.Equal(heard, want) {
		t.Errorf("heard %q, want %q", heard, want)
	}
}

// TestD64UnknownInTheSameBytes: unknown tokens, malformed tokens and those of authentications that are over get the
// same bytes.
func TestD64UnknownInTheSameBytes(t *testing.T) {
	t.Parallel()
	h, _ := newTestHandler(nil)
	unknown := newSecret() + newSecret()[:21]
	want := get(h, "/a/"+unknown).Body.String()
	for what, w := range map[string]*httptest.ResponseRecorder{
		"malformed": get(h, "/a/short"), "no such page": get(h, "/x"), "method": submit(h, "/threeds.js", nil, nil),
		"state": call(h, "GET", "/a/state", unknown, newSecret(), ""), "begin": call(h, "POST", "/a/begin", "x", "", ""),
		"tag": submit(h, "/n/x/challenge", nil, nil), "form": submit(h, "/a/"+unknown+"/begin", nil, nil),
	} {
		if w.Code != http.StatusNotFound || w.Body.String() != want {
			t.Errorf("%s: %d %q", what, w.Code, w.Body)
		}
	}
}

// TestD64Headers: no answer is stored, framed by strangers, sniffed or named in a Referer; CORS
// never allows credentials.
func TestD64Headers(t *testing.T) {
	t.Parallel()
	h, engine := newTestHandler(nil)
	token := engine.Add(fakeRow{})
	for what, w := range map[string]*httptest.ResponseRecorder{
		"hosted": get(h, "/a/"+token), "wrapper": get(h, "/a/frame"), "begin": call(h, "POST", "/a/begin", token, newSecret(), "https://shop.example"),
		"unknown": get(h, "/nothing"), "preflight": call(h, "OPTIONS", "/a/begin", "", "", "https://shop.example"),
	} {
		header := w.Header()
		if header.Get("Cache-Control") != "no-store" || header.Get("Referrer-Policy") != "no-referrer" || header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", what, header)
		}
		if policy := header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %s", what, policy)
		}
		if header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s allows credentials", what)
		}
	}
	if got := call(h, "GET", "/a/state", token, newSecret(), "https://evil.example"); got.Code != http.StatusForbidden ||
		got.Header().Get("Access-Control-Allow-Origin") != "https://evil.example" || strings.Contains(got.Body.String(), "{") {
		t.Errorf("another origin: %d %v", got.Code, got.Header())
	}
}

// TestD62GetBindsNothing: only a POST binds an authentication to a browser.
func TestD62GetBindsNothing(t *testing.T) {
	t.Parallel()
	h, engine := newTestHandler(nil)
	token := engine.Add(fakeRow{})
	page := get(h, "/a/"+token)
	_ = call(h, "HEAD", "/a/"+token, token, "", "")
	_ = call(h, "OPTIONS", "/a/begin", token, newSecret(), "https://shop.example")
	_ = call(h, "GET", "/a/begin", token, newSecret(), "https://shop.example")
	if row := engine.Row(token); row.Binding != "" || row.View.Version != 0 {
		t.Errorf("bound to %q, version %d", row.Binding, row.View.Version)
	}
	cookies := page.Result().Cookies()
	if len(cookies) != 1 || !strings.HasPrefix(cookies[0].Name, "__Host-") || !cookies[0].HttpOnly || !cookies[0].Secure ||
		cookies[0].SameSite != http.SameSiteLaxMode || len(cookies[0].Value) < 43 {
		t.Errorf("cookies %v", cookies)
	}
}

// TestN1TheBrowserSaysWhereTheBankWas: where a shopper is after the bank's page depends on whether the browser says
// that it was in a frame. It does not depend on the session data, which some issuers take from an earlier CReq.
func TestN1TheBrowserSaysWhereTheBankWas(t *testing.T) {
	t.Parallel()
	const toShop, looks, closes, ends = "303 to the shop", "the page looks for itself", "a window that closes", "the end"
	const shop = "https://shop.example/"
	for _, test := range []struct{ session, dest, returnURL, want string }{
		{"frame", "iframe", shop, looks},
		{"window", "iframe", shop, looks},
		{"top", "iframe", shop, looks},
		{"frame", "document", shop, looks}, // the bank was opened outside of the frame, and the issuer kept the first CReq
		{"frame", "document", "", looks},
		{"window", "document", shop, closes},
		{"top", "document", shop, toShop},
		{"top", "document", "", ends},
		{"", "document", shop, toShop},
		{"frame", "", shop, looks}, // an old browser
		{"top", "", shop, toShop},
		{"", "", "", ends},
	} {
		h, engine := newTestHandler(nil)
		token := engine.Add(fakeRow{ACSURL: "https://bank.example/acs", View: session.BrowserView{ReturnURL: test.returnURL}})
		cookies := get(h, "/a/"+token).Result().Cookies()
		submit(h, "/a/"+token+"/begin", cookies, nil)
		form := url.Values{"cres": {"x"}, "threeDSSessionData": {base64.RawURLEncoding.EncodeToString([]byte(test.session))}}
		r := httptest.NewRequest("POST", "/n/"+engine.Row(token).Tag+"/challenge", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if test.dest != "" {
			r.Header.Set("Sec-Fetch-Dest", test.dest)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		got, body := "", w.Body.String()
		switch {
		case w.Code == http.StatusSeeOther && strings.HasPrefix(w.Header().Get("Location"), test.returnURL):
			got = toShop
		case strings.Contains(body, "postMessage"):
			got = looks
			if has := strings.Contains(body, `location.replace("https://shop.example/?authentication=`); has != (test.returnURL != "") {
				t.Errorf("%+v: goes to the shop: %t: %s", test, has, body)
			}
		case strings.Contains(body, "window.close()"):
			got = closes
		case strings.Contains(body, `data-testid="hosted-end"`):
			got = ends
		}
		if got != test.want {
			t.Errorf("session %q, Sec-Fetch-Dest %q, returnUrl %q: %s (%d %s)", test.session, test.dest, test.returnURL, got, w.Code, body)
		}
	}
}

// TestN11EndPagesLookLikeThePageBefore: a page at the end has the name, the picture and the colours of the shop, if the
// shop is known. It has a heading, a sentence, and a button that leads back, if there is an address.
func TestN11EndPagesLookLikeThePageBefore(t *testing.T) {
	t.Parallel()
	h, engine := newTestHandler(func(s *Settings) {
		s.Looks = func(context.Context, string) Looks {
			return Looks{Name: "Fjord Audio", Colour: "#7a4379", Logo: []byte("<svg/>"), LogoType: "image/svg+xml"}
		}
	})
	end := func(returnURL, action string) *httptest.ResponseRecorder {
		token := engine.Add(fakeRow{ACSURL: "https://bank.example/acs", View: session.BrowserView{ReturnURL: returnURL}})
		cookies := get(h, "/a/"+token).Result().Cookies()
		w := submit(h, "/a/"+token+"/"+action, cookies, nil)
		if action == "begin" {
			w = submit(h, "/n/"+engine.Row(token).Tag+"/challenge", nil, url.Values{"threeDSSessionData": {sessionFrame}})
		}
		return w
	}
	busy := func() *httptest.ResponseRecorder {
		token := engine.Add(fakeRow{})
		cookies := get(h, "/a/"+token).Result().Cookies()
		engine.Lose("begin")
		return submit(h, "/a/"+token+"/begin", cookies, nil)
	}
	taken := engine.Add(fakeRow{})
	submit(h, "/a/"+taken+"/begin", get(h, "/a/"+taken).Result().Cookies(), nil)
	texts := readTexts()["en"]
	ofShop := []string{">Fjord Audio<", "data:image/svg+xml;base64,", "#7a4379", texts["endTitle"], texts["endText"]}
	for what, c := range map[string]struct {
		w       *httptest.ResponseRecorder
		has     []string
		hasBack bool
	}{
		"cancelled, without an address":          {end("", "cancel"), ofShop, false},
		"from the bank, without an address":      {end("", "begin"), ofShop, false},
		"from the bank to a shop that is slow":   {end("https://shop.example/back", "begin"), ofShop, true},
		"an unknown token":                       {get(h, "/a/unknown"), []string{texts["overTitle"], texts["over"]}, false},
		"an authentication of another browser":   {get(h, "/a/"+taken), []string{texts["elsewhereTitle"], texts["elsewhere"]}, false},
		"a server that cannot reach its storage": {busy(), []string{texts["offlineTitle"], texts["offlineReload"]}, false},
	} {
		body := html.UnescapeString(c.w.Body.String())
		for _, part := range append(c.has, `<section class="card"`, "<h1>", "<p>") {
			if !strings.Contains(body, part) {
				t.Errorf("%s: no %q in %s", what, part, body)
			}
		}
		if has := strings.Contains(body, `<a class="button main" href="https://shop.example/back?authentication=`); has != c.hasBack {
			t.Errorf("%s: a way back: %t, want %t: %s", what, has, c.hasBack, body)
		}
	}
}

// TestD71HostedPageWithoutScript: each step is a form, and the shop gets the browser back by 303 with the id.
func TestD71HostedPageWithoutScript(t *testing.T) {
	t.Parallel()
	h, engine := newTestHandler(nil)
	shop := session.BrowserView{ReturnURL: "https://shop.example/back?order=1&authentication=old"}
	token := engine.Add(fakeRow{ACSURL: "https://bank.example/acs", MethodURL: "https://bank.example/method", View: shop})
	page := get(h, "/a/"+token)
	if !strings.Contains(page.Body.String(), `data-testid="hosted-continue"`) || !strings.Contains(page.Body.String(), "129.00 EUR") {
		t.Errorf("page: %s", page.Body)
	}
	cookies := page.Result().Cookies()
	begun := submit(h, "/a/"+token+"/begin", cookies, nil)
	if begun.Code != http.StatusSeeOther || begun.Header().Get("Location") != "/a/"+token {
		t.Fatalf("begin: %d %v", begun.Code, begun.Header())
	}
	row := engine.Row(token)
	if row.Data["browserJavascriptEnabled"] != "false" || row.Data["browserIP"] != "192.0.2.1" {
		t.Errorf("data %v", row.Data)
	}
	challenge := get(h, "/a/"+token, cookies...).Body.String()
	if !strings.Contains(challenge, `action="https://bank.example/acs"`) || !strings.Contains(challenge, `name="creq"`) {
		t.Errorf("challenge: %s", challenge)
	}
	back := submit(h, "/n/"+row.Tag+"/challenge", nil, url.Values{"cres": {"x"}, "threeDSSessionData": {base64.RawURLEncoding.EncodeToString([]byte("top"))}})
	if want := "https://shop.example/back?order=1&authentication=" + row.View.ID; back.Code != http.StatusSeeOther || back.Header().Get("Location") != want {
		t.Errorf("back: %d %s, want %s", back.Code, back.Header().Get("Location"), want)
	}

	token = engine.Add(fakeRow{})
	cookies = get(h, "/a/"+token).Result().Cookies()
	if end := submit(h, "/a/"+token+"/cancel", cookies, nil); end.Code != http.StatusOK || !strings.Contains(end.Body.String(), `data-testid="hosted-end"`) {
		t.Errorf("end without returnUrl: %d %s", end.Code, end.Body)
	}
}

// TestCase29ReturnURLWithAFragment: the id comes before the fragment, where a shop with hash routes reads it, and the
// fragment stays.
func TestCase29ReturnURLWithAFragment(t *testing.T) {
	t.Parallel()
	h, engine := newTestHandler(nil)
	for given, want := range map[string]string{
		"https://shop.example/#/done":                      "https://shop.example/?authentication=ID#/done",
		"https://shop.example/?a=1#/done":                  "https://shop.example/?a=1&authentication=ID#/done",
		"https://shop.example/?authentication=old&a=1#/d?": "https://shop.example/?a=1&authentication=ID#/d?",
		"https://shop.example/#!/%C3%A9/a=b&c":             "https://shop.example/?authentication=ID#!/%C3%A9/a=b&c",
	} {
		token := engine.Add(fakeRow{View: session.BrowserView{ReturnURL: given}})
		cookies := get(h, "/a/"+token).Result().Cookies()
		end := submit(h, "/a/"+token+"/cancel", cookies, nil)
		want = strings.ReplaceAll(want, "ID", engine.Row(token).View.ID)
		if got := end.Header().Get("Location"); end.Code != http.StatusSeeOther || got != want {
			t.Errorf("%s: %d %s, want %s", given, end.Code, got, want)
		}
	}
}

// TestD63AddressBehindProxies: only a trusted proxy can say which address the browser has.
func TestD63AddressBehindProxies(t *testing.T) {
	t.Parallel()
	h := &handler{Settings: Settings{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}
	for _, c := range []struct{ remote, forwarded, want string }{
		{"192.0.2.7:1", "198.51.100.1", "192.0.2.7"},
		{"10.0.0.1:1", "198.51.100.1", "198.51.100.1"},
		{"10.0.0.1:1", "203.0.113.9, 198.51.100.1, 10.1.1.1", "198.51.100.1"},
		{"10.0.0.1:1", "", "10.0.0.1"},
		{"10.0.0.1:1", "nonsense", "10.0.0.1"},
		{"[::ffff:192.0.2.7]:1", "", "192.0.2.7"},
		{"[2001:db8::1]:1", "", "2001:db8::1"},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.remote
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if got := h.clientIP(r); got != c.want {
			t.Errorf("%s with %q: %s, want %s", c.remote, c.forwarded, got, c.want)
		}
	}
}

// TestD75Scripts: the newest script for an hour, the one of this release for ever, both for every origin.
func TestD75Scripts(t *testing.T) {
	t.Parallel()
	h, _ := newTestHandler(nil)
	newest, fixed := get(h, "/threeds.js"), get(h, ScriptPath())
	if newest.Body.String() != fixed.Body.String() || newest.Body.Len() == 0 {
		t.Error("the scripts differ")
	}
	if got := newest.Header().Get("Cache-Control"); got != "public, max-age=3600" {
		t.Error(got)
	}
	if got := fixed.Header().Get("Cache-Control"); !strings.Contains(got, "immutable") {
		t.Error(got)
	}
	for _, w := range []*httptest.ResponseRecorder{newest, fixed, get(h, "/threeds.d.ts")} {
		if w.Code != 200 || w.Header().Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%d %v", w.Code, w.Header())
		}
	}
}

// TestD75LastReleasesStayServed: each of the last releases is served at its own address, always with the same bytes,
// and its integrity is that of these bytes. The address of any other script is 404.
func TestD75LastReleasesStayServed(t *testing.T) {
	t.Parallel()
	var releases []web.Release
	for _, version := range []string{"1.4.0", "1.3.0", "1.2.1", "1.2.0", "1.1.0"} {
		releases = append(releases, web.Release{Version: version, Script: []byte("export const version = " + version + "\n")})
	}
	releases = append(releases, web.Release{Version: "1.0.0", Script: releases[4].Script}, web.Release{Version: "1.5.0", Script: web.Script})
	h, _ := newTestHandler(func(s *Settings) { s.Releases = releases })
	for _, r := range releases {
		w := get(h, "/threeds."+r.Hash()+".js")
		sum := sha512.Sum384(w.Body.Bytes())
		if w.Code != 200 || w.Body.String() != string(r.Script) || r.Integrity() != "sha384-"+base64.StdEncoding.EncodeToString(sum[:]) {
			t.Errorf("%s: %d %q, want its script, which is %s", r.Version, w.Code, w.Body, r.Integrity())
		}
		if header := w.Header(); !strings.Contains(header.Get("Cache-Control"), "immutable") || header.Get("Access-Control-Allow-Origin") != "*" ||
			header.Get("Content-Type") != "text/javascript; charset=utf-8" {
			t.Errorf("%s: %v", r.Version, header)
		}
	}
	if newest := get(h, "/threeds.js"); newest.Body.String() != string(web.Script) {
		t.Error("/threeds.js is not the script that is built in")
	}
	for _, path := range []string{"/threeds.0011223344556677.js", "/threeds." + strings.ToUpper(releases[0].Hash()) + ".js", "/releases/1.4.0.js"} {
		if w := get(h, path); w.Code != 404 {
			t.Errorf("%s: %d, want 404", path, w.Code)
		}
	}
}

// TestB9NoTextIsMissing: every text is there in all fifteen languages, with its placeholders.
func TestB9NoTextIsMissing(t *testing.T) {
	t.Parallel()
	texts := readTexts()
	if len(texts) != 15 || len(languages) != 15 {
		t.Errorf("%d languages in the table, %d in the list, want 15", len(texts), len(languages))
	}
	for _, lang := range languages {
		if len(texts[lang]) != len(texts["en"]) {
			t.Errorf("%s has %d texts, en has %d", lang, len(texts[lang]), len(texts["en"]))
		}
		for key, english := range texts["en"] {
			text := texts[lang][key]
			if text == "" || lang != "en" && text == english {
				t.Errorf("%s has no %s", lang, key)
			}
			for _, mark := range []string{"{merchant}", "{amount}"} {
				if strings.Contains(english, mark) != strings.Contains(text, mark) {
					t.Errorf("%s, %s: %s", lang, key, text)
				}
			}
		}
	}
	for preference, want := range map[string]string{
		"": "en", "de-CH": "de", "no": "nb", "nn": "nb", "pt-BR": "pt", "zh-Hant-TW": "zh", "xx": "en", "ar-EG": "ar", "tlh, fr;q=0.5": "fr", "-": "en",
		"xx,de": "de", "de,x;q=0.1": "de", "de;q=0.8,zz;q=0.9": "de", "de;q=0.1,fr": "fr", "*,de": "de", "de_DE": "de", "\xfc,de": "de", ",,de;q=x": "de",
		"und": "en", "de;q=0,fr;q=0.1": "fr",
	} {
		if got := pickLanguage(preference); got != want {
			t.Errorf("%q: %s, want %s", preference, got, want)
		}
	}
	if got := pickLanguage("xx", "sv", "de"); got != "sv" {
		t.Errorf("the second preference: %s", got)
	}
	if direction("ar") != "rtl" || direction("en") != "ltr" {
		t.Error("direction")
	}
}

func TestFormatAmount(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]session.BrowserView{
		"129.00 EUR": {Amount: "12900", Currency: "EUR", Exponent: "2"}, "0.05 EUR": {Amount: "5", Currency: "EUR", Exponent: "2"},
		"500 JPY": {Amount: "500", Currency: "JPY", Exponent: "0"}, "": {Currency: "EUR", Exponent: "2"},
	} {
		if got := formatAmount(&v); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestD77Colours: only #rrggbb is a colour, and text on it can be read.
func TestD77Colours(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"#0a5c36": true, "#ABC123": true, "red": false, "#fff": false, "#0a5c36;x": false, "": false, "url(x)": false} {
		if isColour(text) != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
	if textColour("#0a5c36") != "#ffffff" || textColour("#ffb000") != "#000000" {
		t.Error("text is hard to read")
	}
	h, engine := newTestHandler(func(s *Settings) {
		s.Looks = func(context.Context, string) Looks {
			return Looks{Name: "x", Colour: "red}body{display:none", Accent: "#ffb000", Logo: []byte("<svg/>"), LogoType: "image/svg+xml"}
		}
	})
	token := engine.Add(fakeRow{})
	body, _ := io.ReadAll(get(h, "/a/"+token).Body)
	if strings.Contains(string(body), "display:none}") && strings.Contains(string(body), "red}") || !strings.Contains(string(body), "#ffb000") {
		t.Errorf("colours: %s", body)
	}
	if logo := get(h, "/a/"+token+"/logo"); logo.Header().Get("Content-Type") != "image/svg+xml" ||
		!strings.Contains(logo.Header().Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("logo: %v", logo.Header())
	}
}

// TestPagesAndScriptsAreCompressed: the hosted page and threeds.js take three fifths of their length at most to a
// browser that accepts gzip, and are the same to one that does not. A script can be fetched in parts, and is not sent
// again to a browser that has it.
func TestPagesAndScriptsAreCompressed(t *testing.T) {
	t.Parallel()
	h, engine := newTestHandler(nil)
	ask := func(path string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", path, nil)
		for pair := range slices.Chunk(headers, 2) {
			r.Header.Set(pair[0], pair[1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for _, path := range []string{"/a/" + engine.Add(fakeRow{}), "/threeds.js", ScriptPath(), "/threeds.d.ts"} {
		plain, short := ask(path), ask(path, "Accept-Encoding", "gzip, br")
		if plain.Code != 200 || short.Code != 200 || plain.Header().Get("Content-Encoding") != "" || short.Header().Get("Content-Encoding") != "gzip" {
			t.Fatalf("%s: %v, compressed %v", path, plain.Header(), short.Header())
		}
		if short.Body.Len() > plain.Body.Len()*3/5 {
			t.Errorf("%s: %d bytes, compressed %d", path, plain.Body.Len(), short.Body.Len())
		}
		for _, w := range []*httptest.ResponseRecorder{plain, short} {
			if !slices.Contains(w.Header().Values("Vary"), "Accept-Encoding") {
				t.Errorf("%s: Vary %q", path, w.Header().Values("Vary"))
			}
		}
	}
	whole := ask("/threeds.js", "Accept-Encoding", "gzip")
	part := ask("/threeds.js", "Accept-Encoding", "gzip", "Range", "bytes=0-99")
	if part.Code != 206 || part.Body.String() != whole.Body.String()[:100] || part.Header().Get("Content-Encoding") != "gzip" {
		t.Errorf("a part: %d %v", part.Code, part.Header())
	}
	tag := whole.Header().Get("ETag")
	if w := ask("/threeds.js", "Accept-Encoding", "gzip", "If-None-Match", tag); w.Code != 304 {
		t.Errorf("who has it: %d", w.Code)
	}
	if w := ask("/threeds.js", "If-None-Match", tag); w.Code != 200 || w.Header().Get("ETag") == tag {
		t.Errorf("who has the other form: %d %v", w.Code, w.Header())
	}
}
