package auth

import (
	"encoding/json"
	"testing"

	"github.com/openthreeds/threeds/internal/ranges"
	"github.com/openthreeds/threeds/message"
)

// TestCRDRemembered asks for the CRDs of two schemes that say the same of a
// range, in turns: each gets its own.
func TestCRDRemembered(t *testing.T) {
	info := &ranges.Info{DSVersions: []string{"2.2.0"}, ACS: []ranges.ACSVersion{
		{Version: "2.2.0", MethodURL: "https://acs.example/"},
	}}
	for _, scheme := range []string{"visa", "visa", "amex", "amex", "visa"} {
		peer := &Directory{Scheme: scheme, Versions: message.Versions()}
		for _, id := range []string{"00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"} {
			if got, want := string(appendCRD(nil, id, peer, info)), string(crd(id, peer, info)); got != want {
				t.Fatalf("answer = %s, want %s", got, want)
			}
		}
	}
}

func TestQuote(t *testing.T) {
	for _, s := range []string{"", "https://acs.example/3ds", `a"b\c`, "\"", "\x00\x1f\n", "naïve\\"} {
		var got string
		if err := json.Unmarshal(quote(nil, s), &got); err != nil || got != s {
			t.Errorf("quote(%q) = %s: %v", s, quote(nil, s), err)
		}
	}
}
