package console_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/edge/console"
)

func TestConsole(t *testing.T) {
	store, ranges := "", ""
	conditions := []console.Condition{
		{Name: "ranges", Check: func() (string, bool) { return ranges, true }},
		{Name: "store", Check: func() (string, bool) { return store, false }},
		{Name: "visa", Check: func() (string, bool) { return ranges, true }},
	}
	h := &console.Handler{
		Metrics:    http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }),
		Conditions: func() []console.Condition { return conditions },
	}
	get := func(method, path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if h := w.Header(); h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" ||
			(h.Get("Allow") == "GET, HEAD") != (w.Code == http.StatusMethodNotAllowed) ||
			strings.HasPrefix(w.Body.String(), "{") && h.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("%s %s: %v", method, path, h)
		}
		return w.Code, strings.TrimSpace(w.Body.String())
	}
	for _, tt := range []struct {
		store, ranges, method, path string
		code                        int
		body                        string
	}{
		{"", "", "GET", "/livez", 200, `{"status":"alive"}`},
		{"", "", "GET", "/readyz", 200, `{"status":"ready"}`},
		{"", "none", "GET", "/readyz", 200, `{"status":"degraded","problems":{"ranges":"none","visa":"none"}}`},
		{"gone", "none", "GET", "/readyz", 503, `{"status":"unready","problems":{"ranges":"none","store":"gone","visa":"none"}}`},
		{"", "", "HEAD", "/readyz", 200, `{"status":"ready"}`},
		{"gone", "", "GET", "/livez", 200, `{"status":"alive"}`},
		{"", "", "GET", "/metrics", 418, ""},
		{"", "", "GET", "/", 404, "404 page not found"},
		{"", "", "POST", "/readyz", 405, ""},
	} {
		store, ranges = tt.store, tt.ranges
		if code, body := get(tt.method, tt.path); code != tt.code || body != tt.body {
			t.Errorf("%s %s with %q, %q = %d %s, want %d %s", tt.method, tt.path, tt.store, tt.ranges, code, body, tt.code, tt.body)
		}
		if want := tt.store == ""; h.Ready() != want {
			t.Errorf("with %q, %q ready is %t", tt.store, tt.ranges, !want)
		}
	}
	h.Identity = func() console.Identity {
		return console.Identity{Config: "c0ffee", KeyFile: map[string]string{"current": "01"}, Build: "v1"}
	}
	if _, body := get("GET", "/readyz"); body != `{"status":"ready","config":"c0ffee","keyFile":{"current":"01"},"build":"v1"}` {
		t.Errorf("D108: /readyz with an identity = %s", body)
	}
	h.Identity = nil
	h.Stop()
	if h.Ready() {
		t.Error("ready after Stop")
	}
	if code, body := get("GET", "/readyz"); code != 503 || body != `{"status":"unready","problems":{"process":"shutting down"}}` {
		t.Errorf("/readyz after Stop = %d %s", code, body)
	}
}
