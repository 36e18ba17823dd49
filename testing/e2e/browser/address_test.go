package browser

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/porttest"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/run/playground"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// send sends a request with headers, each a name and a value, and returns the answer.
func send(t *testing.T, c *http.Client, method, address, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	rig.Must(t, err)
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(r)
	rig.Must(t, err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	rig.Must(t, err)
	return res, string(data)
}

// TestD80OnePortHasEverything: shop, issuers' pages, control and API are on one port by
// path, the ready file tells of them, and the members of before stay.
func TestD80OnePortHasEverything(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t)
	for name, is := range map[string][2]string{
		"public": {w.Public, w.API}, "browser": {w.Browser, w.API}, "shop": {w.Shop, w.API}, "acs": {w.ACS, w.API + "/acs"},
		"listen": {w.Listen, rig.HostOf(t, w.API)},
	} {
		if is[0] != is[1] {
			t.Errorf("%s is %s, want %s", name, is[0], is[1])
		}
	}
	for scheme, address := range w.DS {
		if w.Directories == "" || address != w.Directories+"/"+scheme+"/" {
			t.Errorf("the directory server of %s is at %s, want it below %q", scheme, address, w.Directories)
		}
	}
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"/": {200, "POST /authentications"}, "/steps": {200, "/postauth"}, "/hooks": {405, ""},
		"/static/shop.css": {200, "--surface"}, "/_sandbox/cards": {200, "asks"},
		"/acs/challenge/x": {404, "There is no such challenge."}, "/nothing": {404, ""}, "/console/": {200, "<h1>Overview</h1>"},
	} {
		if res, text := send(t, http.DefaultClient, "GET", w.API+path, ""); res.StatusCode != want.status || !strings.Contains(text, want.text) {
			t.Errorf("%s: %d, want %d and %q", path, res.StatusCode, want.status, want.text)
		}
	}
	w.Card("4000001234560070", "2.2.0", true, true, "70")
	w.Card("5100001234560172", "2.2.0", true, false, "72")
}

// TestD80NamesElsewhereAreRefused: without a public address, a page under a name that was made
// to resolve to this machine reads nothing.
func TestD80NamesElsewhereAreRefused(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t)
	for _, path := range []string{"/", "/acs/challenge/x", "/_sandbox/transactions", "/notify/method", "/console/", "/console/keys"} {
		if res, _ := send(t, http.DefaultClient, "GET", w.API+path, "", "Host", "page.example"); res.StatusCode != http.StatusMisdirectedRequest {
			t.Errorf("%s under another name: %d", path, res.StatusCode)
		}
	}
}

// TestD81ControlNeedsKeyAndJSON: below /_sandbox/ nothing is changed without a key of the sandbox
// and JSON, no other origin is allowed anything, and GET is open on loopback alone.
func TestD81ControlNeedsKeyAndJSON(t *testing.T) {
	t.Parallel()
	w := rig.StartSandbox(t)
	exposed := rig.StartSandbox(t, "--public-url", "https://lab.example")
	const change = `{"generate": {"count": 10, "seed": 1}}`
	_, ares := w.Pay("2.2.0", "4000001234560172", nil)
	decision := fmt.Sprintf(`{"transID": %q, "result": "pass"}`, ares.Text("acsTransID"))
	form := url.Values{"transID": {ares.Text("acsTransID")}, "result": {"pass"}}.Encode()
	open, closed := w.API+"/_sandbox", "http://"+exposed.Listen+"/_sandbox"
	for _, test := range []struct {
		name, method, url, body string
		header                  []string
		want                    int
	}{
		{"no key", "POST", open + "/ranges/visa", change, []string{"Content-Type", "application/json"}, 401},
		{"another key", "POST", open + "/ranges/visa", change, []string{"Content-Type", "application/json", "APIKey", "x"}, 401},
		{"no key and no JSON", "PUT", open + "/ranges/visa/service", "{}", nil, 401},
		{"not JSON", "POST", open + "/ranges/visa", change, []string{"Content-Type", "text/plain", "APIKey", w.APIKey}, 415},
		{"no type", "DELETE", open + "/ranges/visa", "", []string{"APIKey", w.APIKey}, 415},
		{"a form", "POST", open + "/app", form, []string{"Content-Type", "application/x-www-form-urlencoded", "APIKey", w.APIKey}, 415},
		{"a preflight", "OPTIONS", open + "/ranges/visa", "", []string{"Origin", "https://page.example"}, 401},
		{"a key", "POST", open + "/ranges/visa", change, []string{"Content-Type", "application/json; charset=utf-8", "APIKey", w.APIKey}, 200},
		{"the other key", "POST", open + "/ranges/jcb", change, []string{"Content-Type", "application/json", "APIKey", w.OtherAPIKey}, 200},
		{"a decision with a slip", "POST", open + "/app", `{"id": "x"}`, []string{"Content-Type", "application/json", "APIKey", w.APIKey}, 400},
		{"GET on loopback", "GET", open + "/transactions", "", []string{"Origin", "https://page.example"}, 200},
		{"no page whose form could not be sent", "GET", open + "/app", "", nil, 405},
		{"GET elsewhere", "GET", closed + "/transactions", "", nil, 401},
		{"GET elsewhere with a key", "GET", closed + "/transactions", "", []string{"APIKey", exposed.APIKey}, 200},
	} {
		res, text := send(t, http.DefaultClient, test.method, test.url, test.body, test.header...)
		if res.StatusCode != test.want {
			t.Errorf("%s: %d, want %d: %.200s", test.name, res.StatusCode, test.want, text)
		}
		for name := range res.Header {
			if strings.HasPrefix(name, "Access-Control") {
				t.Errorf("%s: the answer has %s", test.name, name)
			}
		}
	}
	address := ares.Text("acsURL")
	creq := rig.Object{
		"messageType": "CReq", "messageVersion": "2.2.0", "threeDSServerTransID": ares["threeDSServerTransID"],
		"acsTransID": ares["acsTransID"], "challengeWindowSize": "05",
	}
	opened, err := http.PostForm(address, url.Values{"creq": {base64.RawURLEncoding.EncodeToString(rig.Marshal(creq))}})
	rig.Must(t, err)
	opened.Body.Close()
	json := []string{"Content-Type", "application/json", "APIKey", w.OtherAPIKey}
	if res, text := send(t, http.DefaultClient, "POST", open+"/app", decision, json...); res.StatusCode != 200 {
		t.Errorf("a decision as JSON: %d %s", res.StatusCode, text)
	}
	w.AwaitResultOf(ares.Text("threeDSServerTransID"))
}

// TestD80PublicURLIsAnOrigin: what is no origin is refused with what would be one.
func TestD80PublicURLIsAnOrigin(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://lab.example":              "https://lab.example",
		"https://Lab.example/":             "https://lab.example",
		"http://192.0.2.7:8080":            "http://192.0.2.7:8080",
		"http://[2001:db8::1]:8080":        "http://[2001:db8::1]:8080",
		"https://lab.example/3ds":          "want https://lab.example",
		"https://lab.example?x=1":          "want https://lab.example",
		"https://lab.example#x":            "want https://lab.example",
		"https://user:secret@lab.example/": "want https://lab.example",
		"lab.example":                      "want http or https and a host",
		"lab.example:8080":                 "want http or https and a host",
		"https://":                         "want http or https and a host",
		"ftp://lab.example":                "want http or https and a host",
	} {
		got, err := playground.ParseOrigin(text)
		if err != nil {
			got = err.Error()
		}
		if isRight := got == want || err != nil && strings.Contains(got, want); !isRight || strings.Contains(got, "secret") {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	var out rig.LockedBuffer
	args := []string{"sandbox", "--listen", "127.0.0.1:0", "--public-url", "https://lab.example/3ds"}
	if code := rig.Run(t.Context(), args, strings.NewReader(""), &out, &out); code == 0 || !strings.Contains(out.String(), "--public-url: ") {
		t.Errorf("exit status %d, %q", code, out.String())
	}
}

// A proxiedLab is a sandbox behind a proxy that ends TLS and has another name.
type proxiedLab struct {
	rig.World
	origin string // The proxy has this origin.
	client *http.Client
	port   string // The proxy listens there, on loopback.
	seen   rig.LockedBuffer
}

// newProxy returns a server that ends TLS for example.com and is started by its test.
func newProxy(t *testing.T) (proxy *httptest.Server, origin, port string) {
	t.Helper()
	proxy = httptest.NewUnstartedServer(nil)
	_, port, err := net.SplitHostPort(proxy.Listener.Addr().String())
	rig.Must(t, err)
	t.Cleanup(proxy.Close)
	return proxy, "https://example.com:" + port, port
}

// forward has the proxy pass requests on by a transport under the Host of the upstream, with headers that a client
// could have made up.
func forward(proxy *httptest.Server, upstream string, by http.RoundTripper) {
	target := &url.URL{Scheme: "http", Host: upstream}
	proxy.Config.Handler = &httputil.ReverseProxy{Transport: by, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Set("X-Forwarded-Host", "forged.example")
		r.Out.Header.Set("X-Forwarded-Proto", "gopher")
		r.Out.Header.Set("Forwarded", "host=forged.example")
	}}
	proxy.StartTLS()
}

// startProxiedLab starts both. What the client reads is kept.
func startProxiedLab(t *testing.T) *proxiedLab {
	t.Helper()
	proxy, origin, port := newProxy(t)
	w := rig.StartSandbox(t, "--public-url", origin)
	forward(proxy, w.Listen, http.DefaultTransport)
	lab := &proxiedLab{World: *w, origin: origin, port: port}
	jar, err := cookiejar.New(nil)
	rig.Must(t, err)
	transport := proxy.Client().Transport.(*http.Transport).Clone()
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, proxy.Listener.Addr().String())
	}
	t.Cleanup(transport.CloseIdleConnections)
	lab.client = &http.Client{Transport: transport, Jar: jar}
	return lab
}

// page gets or posts something by way of the proxy, as a browser does that shows the shop.
func (lab *proxiedLab) page(method, address, body string, header ...string) string {
	lab.T.Helper()
	if !strings.HasPrefix(address, lab.origin+"/") {
		lab.T.Fatalf("the browser is sent to %s, which is not below %s", address, lab.origin)
	}
	res, text := send(lab.T, lab.client, method, address, body, append([]string{"Origin", lab.origin}, header...)...)
	if res.StatusCode != http.StatusOK || res.Request.URL.Host != rig.HostOf(lab.T, lab.origin) {
		lab.T.Fatalf("%s %s: %d at %s, %.300s", method, address, res.StatusCode, res.Request.URL, text)
	}
	_, _ = lab.seen.Write([]byte(text))
	return text
}

// submit sends the first form of a page, with further fields.
func (lab *proxiedLab) submit(page string, more url.Values) string {
	lab.T.Helper()
	action := regexp.MustCompile(`<form method="post" action="([^"]*)"`).FindStringSubmatch(page)
	if action == nil {
		lab.T.Fatalf("no form in %.500s", page)
	}
	fields := url.Values{}
	for _, m := range regexp.MustCompile(`name="([^"]*)" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if m[1] != "action" {
			fields.Set(m[1], m[2])
		}
	}
	for name := range more {
		fields.Set(name, more.Get(name))
	}
	address := action[1]
	if strings.HasPrefix(address, "/") {
		address = lab.origin + address
	}
	return lab.page("POST", address, fields.Encode(), "Content-Type", "application/x-www-form-urlencoded")
}

// TestW1ShopBehindTLSProxy: the shop whose browsers come by way of a proxy is told by events, which do not.
func TestW1ShopBehindTLSProxy(t *testing.T) {
	t.Parallel()
	lab := startProxiedLab(t)
	begun := rig.ParseObject(t, []byte(lab.page("POST", lab.origin+"/pay", `{"card": "9000100111111111", "expiry": "3012"}`)))
	waittest.Until(t, "the event at the shop", func() bool { // whose id is shown though the shop may have asked before
		page := lab.page("GET", lab.origin+"/order?authentication="+begun.Text("id"), "")
		if !strings.Contains(page, "not_enrolled: authorise_without_authentication") {
			t.Fatalf("the order shows\n%s", page)
		}
		return strings.Contains(page, "<code>evt_")
	})
}

// TestK13ConsoleBehindTLSProxy: a browser that knows the public address alone comes from the order to its timeline in
// the console, and can use the forms there.
func TestK13ConsoleBehindTLSProxy(t *testing.T) {
	t.Parallel()
	lab := startProxiedLab(t)
	if lab.Console != lab.origin+"/console" {
		t.Fatalf("console of the ready file is %q", lab.Console)
	}
	id := rig.ParseObject(t, []byte(lab.page("POST", lab.origin+"/pay", `{"card": "9000100111111111", "expiry": "3012"}`))).Text("id")
	order := lab.page("GET", lab.origin+"/order?authentication="+id, "")
	timeline := lab.Console + "/authentications/" + id
	if !strings.Contains(order, `href="`+timeline+`"`) {
		t.Fatalf("the order does not lead to %s", timeline)
	}
	waittest.Until(t, "the record", func() bool {
		res, text := send(t, lab.client, "GET", timeline, "")
		return res.StatusCode == 200 && strings.Contains(text, id)
	})
	csrf := regexp.MustCompile(`name="csrf" value="([^"]*)"`).FindStringSubmatch(lab.page("GET", lab.Console+"/keys", ""))
	form := url.Values{"csrf": csrf[1:], "merchant": {"Sandbox Shop"}, "label": {"till 4"}}.Encode()
	made := lab.page("POST", lab.Console+"/keys", form, "Content-Type", "application/x-www-form-urlencoded")
	if !strings.Contains(made, "copy it now") {
		t.Errorf("no key was made: %.300s", made)
	}
}

// TestT1ChallengeThroughTLSProxy: a client that only knows the public address completes the 3DS
// Method and a challenge in the shop, and every URL that it gets is below that address.
func TestT1ChallengeThroughTLSProxy(t *testing.T) {
	t.Parallel()
	lab := startProxiedLab(t)
	lab.page("GET", lab.Shop+"/", "")
	lab.page("GET", lab.Shop+"/steps", "")
	order := `{"card": "4000001234560072", "expiry": "12/30", "name": "Alex Example", "plan": "once", "window": "05",
		"browser": {"language": "en-GB", "colorDepth": 24, "screenHeight": 800, "screenWidth": 1280, "tz": -60, "userAgent": "Test/1"}}`
	var checkout rig.Object
	step := func(path, body string) {
		t.Helper()
		checkout = rig.ParseObject(t, []byte(lab.page("POST", lab.origin+path, body, "Content-Type", "application/json")))
	}
	step("/checkout", order)
	path := "/" + checkout.Text("id")
	lab.submit(lab.submit(lab.page("GET", lab.origin+"/frame"+path+"/method", ""), nil), nil)
	step("/checkout"+path+"/auth", "null")
	if checkout.Text("state") != "challenge" {
		t.Fatalf("no challenge: %v", checkout)
	}
	code := lab.submit(lab.page("GET", lab.origin+"/frame"+path+"/challenge", ""), nil)
	if !strings.Contains(code, `action="/acs/challenge/`) {
		t.Fatalf("the bank asks for no code: %.500s", code)
	}
	lab.submit(lab.submit(code, url.Values{"code": {"123456"}, "action": {"submit"}}), nil)
	waittest.Until(t, "the result", func() bool {
		step("/checkout"+path+"/result", "null")
		return checkout.Text("state") == "done"
	})
	if ending, _ := checkout["ending"].(map[string]any); rig.Object(ending).Text("transStatus") != "Y" {
		t.Errorf("it ended with %v", checkout["ending"])
	}
	if all := lab.seen.String(); strings.Contains(all, "forged.example") || strings.Contains(all, "gopher:") {
		t.Error("a URL is made from X-Forwarded headers")
	}
	areq := regexp.MustCompile(`notificationURL[^,]*`).FindString(fmt.Sprint(checkout))
	if !strings.Contains(areq, lab.origin+"/notify/challenge") {
		t.Errorf("the shop's way back is %q", areq)
	}
	for name, address := range map[string]string{"acs": lab.ACS, "shop": lab.Shop + "/", "api": lab.API + "/", "control": lab.Control} {
		if !strings.HasPrefix(address, lab.origin+"/") {
			t.Errorf("%s of the ready file is %s", name, address)
		}
	}
}

// TestT1APIThroughTLSProxy: acsURL and threeDSMethodURL of the API are below the public address,
// whatever Host a request has.
func TestT1APIThroughTLSProxy(t *testing.T) {
	t.Parallel()
	lab := startProxiedLab(t)
	direct := &rig.World{ReadyFile: rig.ReadyFile{API: "http://" + lab.Listen, APIKey: lab.APIKey}, T: t}
	crd := direct.Preauth("4000001234560072")
	id := crd.Text("threeDSServerTransID")
	res, data := direct.Call("POST", "/auth", lab.APIKey, rig.BrowserRequest("2.2.0", "4000001234560072", id, "N"), "X-Forwarded-Host", "forged.example")
	ares := rig.ParseObject(t, data)
	if res.StatusCode != 200 || ares.Text("acsURL") != lab.origin+"/acs/challenge" || crd.Text("threeDSMethodURL") != lab.origin+"/acs/method" {
		t.Errorf("%d, acsURL %s, threeDSMethodURL %s", res.StatusCode, ares.Text("acsURL"), crd.Text("threeDSMethodURL"))
	}
	_, text := send(t, lab.client, "POST", lab.origin+"/preauth", `{"acctNumber": "4000001234560072"}`,
		"APIKey", lab.APIKey, "Content-Type", "application/json")
	if got := rig.ParseObject(t, []byte(text)); got.Text("messageType") != "CRD" {
		t.Errorf("/preauth by way of the proxy: %s", text)
	}
}

// TestT1DirectoriesListen: the directory servers share a port, which only a client with the
// certificate of the scheme may use.
func TestT1DirectoriesListen(t *testing.T) {
	t.Parallel()
	at := porttest.Address(t)
	w := rig.StartSandbox(t, "--directories-listen", at)
	if got := w.Directories; got != "https://"+at || w.DS["visa"] != "https://"+at+"/visa/" {
		t.Errorf("directories %s, visa %s, want both at %s", got, w.DS["visa"], at)
	}
	w.Card("4000001234560103", "2.2.0", true, false, "03")
	nobody := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	if res, err := nobody.Post(w.DS["visa"], "application/json", bytes.NewReader([]byte("{}"))); err == nil {
		res.Body.Close()
		t.Errorf("a client without a certificate gets %d", res.StatusCode)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	rig.Must(t, err)
	defer taken.Close()
	var out rig.LockedBuffer
	args := []string{"sandbox", "--listen", "127.0.0.1:0", "--directories-listen", taken.Addr().String()}
	if code := rig.Run(t.Context(), args, strings.NewReader(""), &out, &out); code == 0 || !strings.Contains(out.String(), "listener of the directory servers") {
		t.Errorf("a port that is taken: exit status %d, %q", code, out.String())
	}
}

// TestSandboxRateLimitIsAnOption: a key is refused beyond --rate-limit, and never with 0.
func TestSandboxRateLimitIsAnOption(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rate      string
		isBounded bool
	}{{"1", true}, {"0", false}} {
		w := rig.StartSandbox(t, "--rate-limit", test.rate)
		refused := 0
		for range 20 {
			if code, _ := w.Post("/preauth", rig.Object{"acctNumber": "4000001234560103"}); code != 200 {
				refused++
			}
		}
		if (refused > 0) != test.isBounded {
			t.Errorf("--rate-limit %s: %d of 20 are refused", test.rate, refused)
		}
	}
	var out rig.LockedBuffer
	args := []string{"sandbox", "--listen", "127.0.0.1:0", "--rate-limit", "-1"}
	if code := rig.Run(t.Context(), args, strings.NewReader(""), &out, &out); code == 0 || !strings.Contains(out.String(), "--rate-limit") {
		t.Errorf("a negative rate: exit status %d, %q", code, out.String())
	}
}
