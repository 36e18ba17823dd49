package config

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestTracingValues: what the section says, and that nothing of its secrets is quoted.
func TestTracingValues(t *testing.T) {
	file, c := fullConfig(t)
	if c.Tracing.SamplingFraction != 0.25 || c.Tracing.CA.Pool == nil || c.Tracing.Header.Get("X-Token") != "hush" {
		t.Errorf("%+v", c.Tracing)
	}
	secret := strings.TrimSuffix(file, "threeds.yaml") + "collector.secret"
	for text, want := range map[string]http.Header{
		"":                                 {},
		"X-Token: hush":                    {"X-Token": {"hush"}},
		"x-token:hush\r\n\n a: b c \nA: d": {"X-Token": {"hush"}, "A": {"b c", "d"}},
	} {
		write(t, secret, []byte(text))
		if c, _, err := loadConfig(file, noon); err != nil || !maps.EqualFunc(c.Tracing.Header, want, slices.Equal) {
			t.Errorf("%q: %v %v", text, c.Tracing.Header, err)
		}
	}
	for _, text := range []string{"hush", "X Token: hush", ": hush", "X-Token:", "X-Token: h\u00fcsh", "X-Token: hu\x01sh", "X-Token: hush\nhush"} {
		write(t, secret, []byte(text))
		if _, _, err := loadConfig(file, noon); err == nil ||
			!strings.Contains(err.Error(), "tracing.headers: the file does not hold lines of NAME: VALUE") ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: %v", text, err)
		}
	}
	for endpoint, want := range map[string]bool{"https://c.example": true, "HTTPS://c.example": true, "http://https.example": false, "": false} {
		if got := (&Tracing{Endpoint: endpoint}).isSecure(); got != want {
			t.Errorf("%s: over TLS is %t", endpoint, got)
		}
	}
	for text, ok := range map[string]bool{
		"0": true, "1": true, "0.01": true, "1e-3": true, "-0.1": false, "1.1": false, "NaN": false, "half": false,
		"1%": false,
	} {
		if _, err := parseFraction(text); (err == nil) != ok {
			t.Errorf("a fraction of %s: %v", text, err)
		}
	}
}
