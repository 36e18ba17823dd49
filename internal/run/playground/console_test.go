package playground

import (
	"compress/gzip"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/compress"
	"github.com/openthreeds/threeds/internal/edge/login"
	"github.com/openthreeds/threeds/internal/engine/check"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/server"
)

// An openConsole is that of a sandbox, for tests.
type openConsole struct {
	*testing.T
	*Playground
	base string // the origin of the port that the sandbox listens on
}

// startConsole starts a sandbox that listens on listen. Its public address is publicURL; "" means that of its port.
func startConsole(t *testing.T, listen, publicURL string) *openConsole {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", listen)
	must(t, err)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	c := &openConsole{T: t, base: "http://127.0.0.1:" + port}
	address := &Address{PublicURL: publicURL, IsBehindProxy: publicURL != "", Shop: http.NotFoundHandler()}
	if publicURL == "" {
		address.PublicURL = c.base
	}
	c.Playground, err = Start(t.Context(), Options{Dir: t.TempDir(), API: l, Log: slog.New(slog.DiscardHandler), Address: address})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Playground.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return c
}

// do sends a request to the port of the sandbox. header has names and values; Host is the name that it is sent to.
func (c *openConsole) do(method, path, body string, header ...string) (*http.Response, string) {
	c.Helper()
	r, err := http.NewRequestWithContext(c.Context(), method, c.base+path, strings.NewReader(body))
	must(c.T, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(r)
	must(c.T, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(c.T, err)
	return res, string(text)
}

// newKeyForm returns a form for a key with the csrf of a page.
func (c *openConsole) newKeyForm(header ...string) string {
	c.Helper()
	_, page := c.do("GET", "/console/keys", "", header...)
	_, after, _ := strings.Cut(page, `name="csrf" value="`)
	csrf, _, isThere := strings.Cut(after, `"`)
	if !isThere || csrf == "" {
		c.Fatalf("the page has no csrf: %.300s", page)
	}
	return url.Values{"csrf": {csrf}, "merchant": {shopMerchant}, "label": {"till 4"}}.Encode()
}

// TestK13ConsoleOfTheSandbox: it is on the port of the sandbox, open, has what was done, and takes forms of its own
// pages alone.
func TestK13ConsoleOfTheSandbox(t *testing.T) {
	c := startConsole(t, "127.0.0.1:0", "")
	if c.ConsoleURL() != c.base+"/console" {
		t.Errorf("the console is at %s", c.ConsoleURL())
	}
	res, body := c.do("GET", "/console/", "")
	if res.StatusCode != 200 || !strings.Contains(body, "<h1>Overview</h1>") || !strings.Contains(body, `href="`+c.base+`"`) {
		t.Fatalf("the console: %d %.500s", res.StatusCode, body)
	}
	if policy := res.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || res.Header.Get("Set-Cookie") != "" {
		t.Errorf("the console: %v", res.Header)
	}
	if res, _ := c.do("GET", "/console", ""); res.Header.Get("Location") != "/console/" {
		t.Errorf("without a slash: %d to %q", res.StatusCode, res.Header.Get("Location"))
	}
	port := strings.TrimPrefix(c.base, "http://127.0.0.1:")
	for _, name := range []string{"rebound.example:" + port, "rebound.example", "192.0.2.7:" + port} {
		if res, body := c.do("GET", "/console/keys", "", "Host", name); res.StatusCode != http.StatusMisdirectedRequest || strings.Contains(body, "csrf") {
			t.Errorf("under %s: %d", name, res.StatusCode)
		}
	}
	form := c.newKeyForm()
	for _, f := range []struct {
		origin, host string
		want         int
	}{
		{"", "", 403}, {"null", "", 403}, {"http://evil.example", "", 403}, {c.base + ".evil.example", "", 403}, {"http://127.0.0.1:1", "", 403},
		{"https" + strings.TrimPrefix(c.base, "http"), "", 403}, {"http://localhost:" + port, "", 403},
		{"http://rebound.example:" + port, "rebound.example:" + port, 421},
		{"http://localhost:" + port, "localhost:" + port, 200}, {c.base, "", 200},
	} {
		header := []string{}
		if f.origin != "" {
			header = append(header, "Origin", f.origin)
		}
		if f.host != "" {
			header = append(header, "Host", f.host)
		}
		res, body := c.do("POST", "/console/keys", form, header...)
		if res.StatusCode != f.want || strings.Contains(body, "copy it now") != (f.want == 200) {
			t.Errorf("a form from %q to %q: %d, want %d", f.origin, f.host, res.StatusCode, f.want)
		}
	}
	for _, csrf := range []string{"", "csrf=&", "csrf=x&"} {
		res, _ := c.do("POST", "/console/keys", csrf+"merchant="+url.QueryEscape(shopMerchant), "Origin", c.base)
		if res.StatusCode != 403 {
			t.Errorf("a form with %q: %d", csrf, res.StatusCode)
		}
	}
	const card = "4000000000000103"
	res, _ = c.do("POST", "/authentications", `{"acctNumber": "`+card+`"}`, "APIKey", Key, "Content-Type", "application/json")
	if res.StatusCode != 400 {
		t.Errorf("a request with faults: %d", res.StatusCode)
	}
	waitFor(t, func() bool {
		_, body = c.do("GET", "/console/authentications", "")
		return strings.Contains(body, "Refused by us")
	}, func() string { return "what was refused is not there: " + body })
	if strings.Contains(body, card) {
		t.Error("the page has a whole card number")
	}
}

// TestD149AdminAPITakesNoToken: in the sandbox the admin API refuses every request, also with a token that a page made.
func TestD149AdminAPITakesNoToken(t *testing.T) {
	c := startConsole(t, "127.0.0.1:0", "")
	form, _ := url.ParseQuery(c.newKeyForm())
	made := url.Values{"csrf": form["csrf"], "name": {"robot"}, "role": {"admin"}}.Encode()
	_, page := c.do("POST", "/console/tokens", made, "Origin", c.base)
	_, after, _ := strings.Cut(page, `id="secret"`)
	_, after, _ = strings.Cut(after, ">")
	token, _, isThere := strings.Cut(after, "<")
	if !isThere {
		t.Fatalf("no token was made: %.500s", page)
	}
	for _, path := range []string{"keys", "openapi.json", "authentications", "audit", "nothing"} {
		for _, authorization := range []string{"", "Bearer x", "Bearer " + token} {
			header := []string{"Accept", "application/json"}
			if authorization != "" {
				header = append(header, "Authorization", authorization)
			}
			res, body := c.do("GET", "/console/admin/v1/"+path, "", header...)
			if res.StatusCode != 401 || res.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(body, "takes no token") {
				t.Errorf("%s with %q: %d %.200s", path, authorization, res.StatusCode, body)
			}
		}
		if res, _ := c.do("GET", "/admin/v1/"+path, "", "Authorization", "Bearer "+token); res.StatusCode != 404 {
			t.Errorf("/admin/v1/%s beside the console: %d", path, res.StatusCode)
		}
	}
}

// aLink is an address in a page.
var aLink = regexp.MustCompile(` (?:href|action|src)="([^"]*)"`)

// TestK13LinksStayInTheConsole: whatever a page of the console leads to is below its path, there, and found from a
// browser behind the public address.
func TestK13LinksStayInTheConsole(t *testing.T) {
	const public = "https://lab.example"
	c := startConsole(t, "127.0.0.1:0", public)
	if c.ConsoleURL() != public+"/console" {
		t.Errorf("the console is at %s", c.ConsoleURL())
	}
	for range 3 {
		c.do("POST", "/authentications", `{"acctNumber": "4000000000000103"}`, "APIKey", Key, "Content-Type", "application/json")
	}
	waitFor(t, func() bool {
		_, page := c.do("GET", "/console/authentications", "")
		return strings.Count(page, "Refused by us") >= 3
	}, func() string { return "the records are not there" })
	seen, left := map[string]bool{}, []string{"/console/"}
	count := 0
	for len(left) > 0 && count < 400 {
		at := left[0]
		left = left[1:]
		count++
		res, page := c.do("GET", at, "", "Host", "upstream:8080")
		if res.StatusCode != 200 {
			t.Errorf("%s: %d", at, res.StatusCode)
		}
		if !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") || strings.HasPrefix(at, "/console/docs/") {
			continue // the documentation has a test of its links
		}
		for _, m := range aLink.FindAllStringSubmatch(page, -1) {
			to := strings.ReplaceAll(m[1], "&amp;", "&")
			path, _, _ := strings.Cut(to, "#")
			isForm := strings.Contains(m[0], " action=")
			switch {
			case path == "" || path == public || strings.HasPrefix(path, "?"):
			case !strings.HasPrefix(path, "/console/"):
				t.Errorf("%s leads to %s", at, to)
			case !isForm && !seen[path]:
				seen[path] = true
				left = append(left, path)
			}
		}
	}
	for _, path := range []string{
		"/console/", "/console/authentications", "/console/reports", "/console/explain", "/console/merchants", "/console/keys",
		"/console/directories", "/console/ranges", "/console/webhooks", "/console/audit", "/console/operators", "/console/tokens",
	} {
		if !seen[path] {
			t.Errorf("no page leads to %s", path)
		}
	}
	isAsset := func(path string) bool { return strings.HasPrefix(path, "/console/assets/console.css") }
	isRecord := regexp.MustCompile(`^/console/authentications/[0-9a-f-]{36}`).MatchString
	for name, is := range map[string]func(string) bool{"the style": isAsset, "a record": isRecord} {
		if !slices.ContainsFunc(sortedKeys(seen), is) {
			t.Errorf("no page leads to %s", name)
		}
	}
	form := c.newKeyForm()
	for origin, want := range map[string]int{public: 200, c.base: 403, "http://lab.example": 403, "http://upstream:8080": 403} {
		if res, _ := c.do("POST", "/console/keys", form, "Origin", origin, "Host", "upstream:8080"); res.StatusCode != want {
			t.Errorf("a form from %s: %d, want %d", origin, res.StatusCode, want)
		}
	}
	csrf := form[:strings.Index(form, "&")]
	res, _ := c.do("POST", "/console/merchants", csrf+"&name=Corner+Shop", "Origin", public)
	if to := res.Header.Get("Location"); res.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to, "/console/merchants") {
		t.Errorf("after a form: %d to %s", res.StatusCode, to)
	}
	for at, want := range map[string]string{
		"/console/login?next=/keys": "/console/keys", "/console/login?next=//evil.example": "/console/", "/console/login": "/console/",
	} {
		if res, _ := c.do("GET", at, ""); res.Header.Get("Location") != want {
			t.Errorf("%s leads to %q, want %s", at, res.Header.Get("Location"), want)
		}
	}
}

func sortedKeys(m map[string]bool) (all []string) {
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// TestK13ConsoleOfAnExposedSandbox: where other machines reach the sandbox, its console is shown only under addresses
// and under names that cannot be owned.
func TestK13ConsoleOfAnExposedSandbox(t *testing.T) {
	c := startConsole(t, "0.0.0.0:0", "")
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(c.base, "http://"))
	for host, want := range map[string]int{
		"192.0.2.7:" + port: 200, "[2001:db8::1]:" + port: 200, "laptop:" + port: 200, "host.docker.internal": 200, "localhost:9000": 200,
		"rebound.example:" + port: 421, "192.0.2.7.nip.example:" + port: 421, "": 200,
	} {
		header := []string{}
		if host != "" {
			header = append(header, "Host", host)
		}
		res, _ := c.do("GET", "/console/keys", "", header...)
		if res.StatusCode != want {
			t.Errorf("under %q: %d, want %d", host, res.StatusCode, want)
			continue
		}
		if host != "" && want == 200 {
			form := c.newKeyForm(header...)
			if res, _ := c.do("POST", "/console/keys", form, append(header, "Origin", "http://"+host)...); res.StatusCode != 200 {
				t.Errorf("a form of %q: %d", host, res.StatusCode)
			}
			if res, _ := c.do("POST", "/console/keys", form, append(header, "Origin", "http://other.example")...); res.StatusCode != 403 {
				t.Errorf("a form to %q from elsewhere: %d", host, res.StatusCode)
			}
		}
	}
	if res, _ := c.do("GET", "/acs/challenge/x", "", "Host", "any.example"); res.StatusCode != 404 {
		t.Errorf("pages of issuers under any name: %d", res.StatusCode)
	}
}

// TestK13OpenConsoleIsOfTheSandboxOnly: a server that is no sandbox's does not start with a console without login.
func TestK13OpenConsoleIsOfTheSandboxOnly(t *testing.T) {
	open := &server.OpenConsole{Origin: "http://127.0.0.1:1"}
	lab := []check.Directory{{Scheme: "visa", Lab: true}}
	for name, cfg := range map[string]server.Config{
		"no sandbox":       {Directories: lab},
		"a real directory": {Loopback: true, Directories: append(lab, check.Directory{Scheme: "mastercard"})},
		"with a login":     {Loopback: true, Directories: lab, Login: &login.Settings{URL: "https://console.example"}},
	} {
		cfg.OpenConsole, cfg.Log, cfg.StoreURL = open, slog.New(slog.DiscardHandler), config.StoreURL{Dir: t.TempDir()}
		if _, err := server.New(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "only the sandbox") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPagesBelowAPathHaveTheirLinksThere: wherever an attribute stands in its tag, and also in a page that is
// compressed. A text that looks like a link stays as it is.
func TestPagesBelowAPathHaveTheirLinksThere(t *testing.T) {
	const long = "                                "
	page := `<form action="/keys"><a class="go"` + "\n    " + `href="/x?a=1">&#34; href=&#34;/y</a><script src="//other/z"></script>` + strings.Repeat(long, 50)
	h := serveBelow("/console", compress.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, page)
	})))
	for _, accept := range []string{"", "gzip"} {
		r, w := httptest.NewRequest("GET", "/console/", nil), httptest.NewRecorder()
		r.Header.Set("Accept-Encoding", accept)
		h.ServeHTTP(w, r)
		var body io.Reader = w.Body
		if accept != "" {
			var err error
			body, err = gzip.NewReader(body)
			must(t, err)
		}
		got, err := io.ReadAll(body)
		must(t, err)
		want := strings.NewReplacer(`"/keys"`, `"/console/keys"`, `"/x`, `"/console/x`).Replace(page)
		if string(got) != want || w.Header().Get("Content-Encoding") != accept {
			t.Errorf("%q: %v\n%.200s", accept, w.Header(), got)
		}
	}
}
