package playground

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestK13ConsoleOfTheSandbox: it is open to this machine, has what was done, and takes forms of its own pages alone.
func TestK13ConsoleOfTheSandbox(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	base := "http://" + l.Addr().String()
	p, err := Start(t.Context(), Options{
		Dir: t.TempDir(), API: l, Log: slog.New(slog.DiscardHandler), Address: &Address{PublicURL: base, Shop: http.NotFoundHandler()},
	})
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	defer func() {
		stop()
		<-ended
	}()
	request := func(method, at, body string, change func(*http.Request)) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(body))
		must(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if change != nil {
			change(r)
		}
		res, err := http.DefaultClient.Do(r)
		must(t, err)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		must(t, err)
		return res.StatusCode, string(text)
	}
	code, body := request("GET", p.ConsoleURL(), "", nil)
	if code != 200 || !strings.Contains(body, "<h1>Overview</h1>") || !strings.Contains(body, `href="`+base+`"`) {
		t.Fatalf("the console: %d %.500s", code, body)
	}
	if code, _ := request("GET", p.ConsoleURL(), "", func(r *http.Request) { r.Host = "rebound.example" }); code != http.StatusMisdirectedRequest {
		t.Errorf("by another name: %d", code)
	}
	_, page := request("GET", p.ConsoleURL()+"/keys", "", nil)
	_, after, _ := strings.Cut(page, `name="csrf" value="`)
	csrf, _, _ := strings.Cut(after, `"`)
	form := url.Values{"csrf": {csrf}, "merchant": {shopMerchant}, "label": {"till 4"}}.Encode()
	for origin, want := range map[string]int{"": 403, base: 403, "http://evil.example": 403, p.ConsoleURL(): 200} {
		code, body := request("POST", p.ConsoleURL()+"/keys", form, func(r *http.Request) {
			if origin != "" {
				r.Header.Set("Origin", origin)
			}
		})
		if code != want || strings.Contains(body, "copy it now") != (want == 200) {
			t.Errorf("a form from %q: %d, want %d", origin, code, want)
		}
	}
	code, _ = request("POST", p.ConsoleURL()+"/keys", "merchant="+url.QueryEscape(shopMerchant), func(r *http.Request) { r.Header.Set("Origin", p.ConsoleURL()) })
	if code != 403 {
		t.Errorf("a form without csrf: %d", code)
	}
	code, _ = request("POST", base+"/authentications", `{"acctNumber": "4000000000000103"}`, func(r *http.Request) {
		r.Header.Set("APIKey", Key)
		r.Header.Set("Content-Type", "application/json")
	})
	if code != 400 {
		t.Errorf("a request with faults: %d", code)
	}
	for range 200 {
		if _, body = request("GET", p.ConsoleURL()+"/authentications", "", nil); strings.Contains(body, "Refused by us") {
			break
		}
	}
	if !strings.Contains(body, "Refused by us") || strings.Contains(body, "4000000000000103") {
		t.Errorf("what was refused is not there: %.300s", body)
	}
}
