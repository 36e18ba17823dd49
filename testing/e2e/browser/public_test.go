package browser

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/run/playground"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestPublicSandboxReachesNothingOfThisMachine: with a public address the key that everybody knows is not good, also
// with the data of an earlier start, and webhooks go to the shop and to allowed receivers alone.
func TestPublicSandboxReachesNothingOfThisMachine(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewServer(http.NotFoundHandler())
	defer receiver.Close()
	data := t.TempDir()
	keys := make(map[string]bool)
	for _, start := range []struct {
		args       []string
		isPublic   bool
		isReceiver bool // whether webhooks may go to the receiver
	}{
		{[]string{"--data", data}, false, true},
		{[]string{"--data", data, "--public-url", "https://lab.example"}, true, false},
		{[]string{"--data", data, "--public-url", "https://lab.example", "--allow-receiver", receiver.Listener.Addr().String()}, true, true},
		{[]string{"--public-url", "http://localhost:8080"}, false, true},
	} {
		t.Run(strings.Join(start.args, " "), func(t *testing.T) {
			w := rig.StartSandbox(t, start.args...)
			w.API = "http://" + w.Listen
			ask := func(key, path, body string) (int, string) {
				t.Helper()
				res, text := send(t, http.DefaultClient, "POST", w.API+path, body, "APIKey", key, "Content-Type", "application/json")
				return res.StatusCode, text
			}
			keys[w.APIKey] = true
			for key := range keys {
				want := http.StatusUnauthorized
				if key == w.APIKey {
					want = http.StatusOK
				}
				if status, text := ask(key, "/lookup", `{"acctNumber": "3000100000000103"}`); status != want {
					t.Errorf("a key, the one of this start: %t: %d %.200s, want %d", key == w.APIKey, status, text, want)
				}
			}
			if (w.APIKey == playground.Key) == start.isPublic {
				t.Errorf("the key is the well-known one: %t", w.APIKey == playground.Key)
			}
			status, text := ask(w.APIKey, "/webhook-endpoints", `{"url": "`+receiver.URL+`/internal/delete"}`)
			if (status == http.StatusCreated) != start.isReceiver || !start.isReceiver && !strings.Contains(text, "--allow-receiver HOST:PORT allows another") {
				t.Errorf("a webhook endpoint on this machine: %d %s, want it made: %t", status, text, start.isReceiver)
			}
			if start.isPublic && !start.isReceiver {
				status, text = ask(w.APIKey, "/webhook-endpoints", `{"url": "https://elsewhere.example/"}`)
				if status != http.StatusBadRequest {
					t.Errorf("a webhook endpoint elsewhere: %d %s", status, text)
				}
			}
		})
	}
}
