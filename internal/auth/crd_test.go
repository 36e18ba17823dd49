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
		for range 2 {
			if got, want := string(crdEnd(peer, info)), string(makeCRDEnd(peer, info)); got != want {
				t.Fatalf("answer ends %s, want %s", got, want)
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
