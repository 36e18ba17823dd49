package server

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
)

// TestK12HealthAndMetricsAskForNothing: on the listener of the console, health and metrics need no login, no cookie and
// no token, and a wrong token or cookie changes nothing. Everything else there needs a login.
func TestK12HealthAndMetricsAskForNothing(t *testing.T) {
	t.Parallel()
	for name, console := range map[string]string{"with pages": `, url: "http://127.0.0.1:1"`, "without pages": ""} {
		file, text := writeConfig(t)
		write(t, file, []byte(strings.Replace(text, `{url: "https://results`, `{listen: "127.0.0.1:0", url: "https://results`, 1)+
			"api: {listen: \"127.0.0.1:0\"}\nconsole: {listen: \"127.0.0.1:0\""+console+"}\n"))
		ctx, stop := context.WithCancel(t.Context())
		started, ended := make(chan *Config, 1), make(chan error, 1)
		go func() {
			ended <- Serve(ctx, Options{File: file, Log: &waittest.Log{}, Change: func(c *Config) { started <- c }})
		}()
		base := "http://" + awaitStart(t, started, ended).Console.Addr().String()
		waittest.Until(t, "the console", func() bool { return getStatus(t, base+"/livez", "") == http.StatusOK })
		for path, kind := range map[string]string{"/livez": "application/json", "/readyz": "application/json", "/metrics": "text/plain"} {
			for _, header := range []http.Header{{}, {"Authorization": {"Bearer nobody"}, "Cookie": {"threeds=nobody"}, "Origin": {"https://evil.example"}}} {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
				must(t, err)
				r.Header = header
				answer, err := http.DefaultTransport.RoundTrip(r) // follows no redirect
				must(t, err)
				must(t, answer.Body.Close())
				isReady := answer.StatusCode == http.StatusOK || path == "/readyz" && answer.StatusCode == http.StatusServiceUnavailable
				if !isReady || answer.Header.Get("Set-Cookie") != "" || !strings.HasPrefix(answer.Header.Get("Content-Type"), kind) {
					t.Errorf("%s: %s with %v: %d %v", name, path, header, answer.StatusCode, answer.Header)
				}
			}
		}
		for path, want := range map[string]int{"/audit": http.StatusSeeOther, "/admin/v1/audit": http.StatusUnauthorized} {
			if name == "without pages" {
				want = http.StatusNotFound
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
			must(t, err)
			answer, err := http.DefaultTransport.RoundTrip(r)
			must(t, err)
			must(t, answer.Body.Close())
			if answer.StatusCode != want {
				t.Errorf("%s: %s is %d, want %d", name, path, answer.StatusCode, want)
			}
		}
		stop()
		must(t, <-ended)
	}
}
