package operators

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestD109HealthExitsByReadyz: the exit status is that of /readyz, or with --live of /livez, and what is not well is
// said.
func TestD109HealthExitsByReadyz(t *testing.T) {
	status, body := http.StatusOK, ""
	var asked string
	console := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path
		if r.URL.Path == "/livez" {
			fmt.Fprintln(w, `{"status":"alive"}`)
			return
		}
		w.Header().Set("Location", "/livez")
		w.WriteHeader(status)
		fmt.Fprintln(w, body)
	}))
	t.Cleanup(console.Close)
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	config := filepath.Join(t.TempDir(), "threeds.yaml")
	file := string(rig.ReadFile(t, checkSite(t, rig.Plan{})))
	rig.WriteFile(t, config, []byte(strings.Replace(file, "console: {listen: 127.0.0.1:0}", "console: {listen: "+console.Listener.Addr().String()+"}", 1)))

	const unready = `{"status":"unready","problems":{"store":"cannot be reached","directory visa":"\u001b[2Jend"}}`
	for _, test := range []struct {
		status     int
		body, live string
		code       int
		out, errs  string
	}{
		{200, `{"status":"ready"}`, "", 0, "ready\n", ""},
		{200, `{"status":"degraded","problems":{"api":"expired"}}`, "", 0, "degraded\napi: expired\n", ""},
		{503, unready, "", 1, "", "threeds: unready\nthreeds: directory visa: \\u001b[2Jend\nthreeds: store: cannot be reached\n"},
		{503, unready, "--live", 0, "alive\n", ""},
		{302, `{"status":"ready"}`, "", 1, "", "threeds: ready\n"},
		{200, `<html>`, "", 1, "", "threeds: " + console.URL + "/readyz: HTTP 200, and no status in the answer (is this the console of a server?)\n"},
	} {
		for _, where := range []string{"--url " + console.URL, "--url " + console.URL + "/", "--config " + config} {
			status, body = test.status, test.body
			var out, errs strings.Builder
			code := rig.Run(t.Context(), strings.Fields("health "+where+" "+test.live), strings.NewReader(""), &out, &errs)
			if code != test.code || out.String() != test.out || errs.String() != test.errs {
				t.Errorf("health %s %s with %d %s: exit status %d, %q, %q", where, test.live, test.status, test.body, code, out.String(), errs.String())
			}
			if want := map[string]string{"": "/readyz", "--live": "/livez"}[test.live]; asked != want {
				t.Errorf("health %s %s asked for %s", where, test.live, asked)
			}
		}
	}
}

// TestD109HealthWaitsThreeSeconds: a server that does not answer is not healthy after three seconds. One that is not
// there is not waited for: what is said then is not that the time is over.
func TestD109HealthWaitsThreeSeconds(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	rig.Must(t, err)
	at := "http://" + silent.Addr().String()
	ask := func() (code int, said string) {
		var out, errs strings.Builder
		code = rig.Run(t.Context(), []string{"health", "--url", at}, strings.NewReader(""), &out, &errs)
		return code, errs.String()
	}
	start := time.Now()
	code, said := ask()
	if took := time.Since(start); code != 1 || took < 2900*time.Millisecond || said != "threeds: "+at+"/readyz: no answer within 3s\n" {
		t.Errorf("a silent server: exit status %d after %s, %q", code, took, said)
	}
	rig.Must(t, silent.Close())
	if code, said := ask(); code != 1 || !strings.Contains(said, "connection refused") {
		t.Errorf("no server: exit status %d, %q", code, said)
	}
}
