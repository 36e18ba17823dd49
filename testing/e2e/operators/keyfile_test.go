package operators

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// basicAuth calls one of the operations of 3-D Secure 1.0.2 with a key.
func basicAuth(s *rig.Site, path, key string) (*http.Response, []byte) {
	s.T.Helper()
	return (&rig.LegacySite{Site: s}).Basic(http.MethodPost, path, key, "application/x-www-form-urlencoded", "a=b")
}

// wantKeyNotJudged calls operations of each API with a key that the server cannot judge. The
// operations of 3-D Secure 2 answer with the given status, the others with 503.
func wantKeyNotJudged(s *rig.Site, key string, status int) {
	s.T.Helper()
	for _, path := range []string{"/preauth", "/auth", "/postauth"} {
		res, body := s.Call(http.MethodPost, path, key, rig.Object{})
		if res.StatusCode != status || rig.ParseObject(s.T, body).Text("errorCode") != "403" {
			s.T.Errorf("%s: %d %s, want %d and an Erro 403", path, res.StatusCode, body, status)
		}
		if status == http.StatusServiceUnavailable && res.Header.Get("Retry-After") == "" {
			s.T.Errorf("%s: 503 without Retry-After", path)
		}
	}
	for _, path := range []string{"/authentications", "/lookup", "/outcome", "/explain", "/webhook-endpoints", "/authentications/search", "/events/none/resend"} {
		res, body := s.Call(http.MethodPost, path, key, rig.Object{})
		if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || !strings.Contains(string(body), "urn:threeds:problem:") {
			s.T.Errorf("%s: %d %s %v, want 503, a problem and Retry-After", path, res.StatusCode, body, res.Header)
		}
	}
	for _, path := range []string{"/enrolled", "/check"} {
		res, body := basicAuth(s, path, key)
		if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || !strings.Contains(string(body), `"unavailable"`) {
			s.T.Errorf("%s: %d %s %v, want 503, unavailable and Retry-After", path, res.StatusCode, body, res.Header)
		}
	}
}

// A strangersKey has the form of a key, and was never made.
const strangersKey = "00000000-0000-4000-8000-000000000000"

// TestD101WrongKeyFile: a node whose key file is that of another store refuses nobody for
// good. It is unready, and serves again when the right file is back.
func TestD101WrongKeyFile(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	rig.Must(t, s.Stop())
	file := filepath.Join(filepath.Dir(s.ConfigFile), "data", "keys.json")
	right, err := os.ReadFile(file)
	rig.Must(t, err)
	secret := make([]byte, 32)
	_, _ = rand.Read(secret)
	rig.WriteFile(t, file, []byte(`{"current": "`+base64.StdEncoding.EncodeToString(secret)+`"}`))

	s = rig.StartSite(t, ca, s.Directory, rig.Plan{Beside: s, Unready: true})
	waittest.Until(t, "the keys to be read", func() bool { return s.Metric(`threeds_api_keys{state="refused"}`) == 2 })
	for _, key := range []string{s.APIKey, s.OtherAPIKey, strangersKey} {
		wantKeyNotJudged(s, key, http.StatusServiceUnavailable)
	}
	if res, _ := s.Call(http.MethodPost, "/preauth", "no key", rig.Object{}); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("what cannot be a key: %d, want 401", res.StatusCode)
	}
	code, status, problem := s.ReadyStatus("keys")
	if code != 503 || status != "unready" || !strings.Contains(problem, "none of the 2 API keys") {
		t.Errorf("/readyz: %d %s, keys: %q", code, status, problem)
	}
	if n := s.Metric(`threeds_degraded{what="keys"}`); n != 1 {
		t.Errorf("threeds_degraded of keys is %v, want 1", n)
	}

	rig.WriteFile(t, file, right)
	waittest.Until(t, "the right key file to be taken up; the log:\n"+s.Log.String(), func() bool { return s.Readiness() == `{"status":"ready"}` })
	if res, body := s.Call(http.MethodPost, "/preauth", s.APIKey, rig.Object{"acctNumber": rig.EnrolledPAN}); res.StatusCode != 200 {
		t.Errorf("with the right key file: %d %s", res.StatusCode, body)
	}
	if res, _ := s.Call(http.MethodPost, "/preauth", strangersKey, rig.Object{}); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a stranger, with the right key file: %d, want 401", res.StatusCode)
	}
	if n := s.Metric(`threeds_degraded{what="keys"}`); n != 0 {
		t.Errorf("threeds_degraded of keys is %v with the right key file, want 0", n)
	}
}
