package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// basicAuth calls one of the operations of 3-D Secure 1.0.2 with a key.
func (s *site) basicAuth(path, key string) (*http.Response, []byte) {
	s.t.Helper()
	return (&legacySite{site: s}).basic(http.MethodPost, path, key, "application/x-www-form-urlencoded", "a=b")
}

// wantKeyNotJudged calls operations of each API with a key that the server cannot judge. The
// operations of 3-D Secure 2 answer with the given status, the others with 503.
func (s *site) wantKeyNotJudged(key string, status int) {
	s.t.Helper()
	for _, path := range []string{"/preauth", "/auth", "/postauth"} {
		res, body := s.call(http.MethodPost, path, key, object{})
		if res.StatusCode != status || parseObject(s.t, body).text("errorCode") != "403" {
			s.t.Errorf("%s: %d %s, want %d and an Erro 403", path, res.StatusCode, body, status)
		}
		if status == http.StatusServiceUnavailable && res.Header.Get("Retry-After") == "" {
			s.t.Errorf("%s: 503 without Retry-After", path)
		}
	}
	for _, path := range []string{"/authentications", "/lookup", "/outcome", "/explain", "/webhook-endpoints", "/authentications/search", "/events/none/resend"} {
		res, body := s.call(http.MethodPost, path, key, object{})
		if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || !strings.Contains(string(body), "urn:threeds:problem:") {
			s.t.Errorf("%s: %d %s %v, want 503, a problem and Retry-After", path, res.StatusCode, body, res.Header)
		}
	}
	for _, path := range []string{"/enrolled", "/check"} {
		res, body := s.basicAuth(path, key)
		if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || !strings.Contains(string(body), `"unavailable"`) {
			s.t.Errorf("%s: %d %s %v, want 503, unavailable and Retry-After", path, res.StatusCode, body, res.Header)
		}
	}
}

// readyStatus is the HTTP status of /readyz, and what it says of one problem.
func (s *site) readyStatus(problem string) (code int, status, text string) {
	s.t.Helper()
	res, err := http.Get(s.console + "/readyz")
	must(s.t, err)
	defer res.Body.Close()
	var got struct {
		Status   string
		Problems map[string]string
	}
	must(s.t, json.NewDecoder(res.Body).Decode(&got))
	return res.StatusCode, got.Status, got.Problems[problem]
}

// A strangersKey has the form of a key, and was never made.
const strangersKey = "00000000-0000-4000-8000-000000000000"

// TestD101WrongKeyFile: a node whose key file is that of another store refuses nobody for
// good. It is unready, and serves again when the right file is back.
func TestD101WrongKeyFile(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca))
	must(t, s.stop())
	file := filepath.Join(filepath.Dir(s.config), "data", "keys.json")
	right, err := os.ReadFile(file)
	must(t, err)
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	write(t, file, []byte(`{"current": "`+base64.StdEncoding.EncodeToString(secret)+`"}`))

	s = startSite(t, ca, s.ds, plan{beside: s, unready: true})
	waitFor(t, "the keys to be read", func() bool { return s.metric(`threeds_api_keys{state="refused"}`) == 2 })
	for _, key := range []string{s.APIKey, s.OtherAPIKey, strangersKey} {
		s.wantKeyNotJudged(key, http.StatusServiceUnavailable)
	}
	if res, _ := s.call(http.MethodPost, "/preauth", "no key", object{}); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("what cannot be a key: %d, want 401", res.StatusCode)
	}
	code, status, problem := s.readyStatus("keys")
	if code != 503 || status != "unready" || !strings.Contains(problem, "none of the 2 API keys") {
		t.Errorf("/readyz: %d %s, keys: %q", code, status, problem)
	}
	if n := s.metric(`threeds_degraded{what="keys"}`); n != 1 {
		t.Errorf("threeds_degraded of keys is %v, want 1", n)
	}

	write(t, file, right)
	waitFor(t, "the right key file to be taken up; the log:\n"+s.log.String(), func() bool { return s.readiness() == `{"status":"ready"}` })
	if res, body := s.call(http.MethodPost, "/preauth", s.APIKey, object{"acctNumber": testPAN}); res.StatusCode != 200 {
		t.Errorf("with the right key file: %d %s", res.StatusCode, body)
	}
	if res, _ := s.call(http.MethodPost, "/preauth", strangersKey, object{}); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a stranger, with the right key file: %d, want 401", res.StatusCode)
	}
	if n := s.metric(`threeds_degraded{what="keys"}`); n != 0 {
		t.Errorf("threeds_degraded of keys is %v with the right key file, want 0", n)
	}
}
