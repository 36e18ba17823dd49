package auth

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/openthreeds/threeds/internal/ranges"
	"github.com/openthreeds/threeds/message"
)

// TestCRDCache asks for more answers than are remembered, each twice.
func TestCRDCache(t *testing.T) {
	var c crdCache
	peer := &Directory{Scheme: "visa", Versions: message.Versions()}
	for i := range maxCRDs + 10 {
		info := &ranges.Info{DSVersions: []string{"2.2.0"}, ACS: []ranges.ACSVersion{
			{Version: "2.2.0", MethodURL: fmt.Sprintf("https://acs.example/%d", i)},
		}}
		for _, id := range []string{"00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"} {
			if got, want := string(c.answer(id, peer, info)), string(crd(id, peer, info)); got != want {
				t.Fatalf("answer %d = %s, want %s", i, got, want)
			}
		}
	}
	kept := 0
	c.rest.Range(func(any, any) bool {
		kept++
		return true
	})
	if kept > maxCRDs {
		t.Errorf("%d answers are remembered, the bound is %d", kept, maxCRDs)
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
