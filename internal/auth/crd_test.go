package auth

import (
	"encoding/json"
	"testing"

	"github.com/openthreeds/threeds/internal/ranges"
	"github.com/openthreeds/threeds/message"
)

// TestCRDRemembered asks for the CRD of one card under two configurations, in turns:
// each gets its own. A reload keeps the ranges and may change the versions.
func TestCRDRemembered(t *testing.T) {
	const pan = "4000000000000001"
	var b ranges.Builder
	if err := b.Add("4000000000000000", "4000000000000009", &ranges.Info{DSVersions: []string{"2.1.0", "2.2.0"}, ACS: []ranges.ACSVersion{
		{Version: "2.1.0", MethodURL: "https://acs.example/1"}, {Version: "2.2.0", MethodURL: "https://acs.example/2"},
	}}); err != nil {
		t.Fatal(err)
	}
	table, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	cards := ranges.NewSchemes("visa")
	cards.Swap("visa", table)
	before := &Directory{Scheme: "visa", Versions: message.Versions()}
	after := &Directory{Scheme: "visa", Versions: []message.Version{message.V210}}
	if string(makeCRDEnd(before, cards.Lookup(pan)[0].Info)) == string(makeCRDEnd(after, cards.Lookup(pan)[0].Info)) {
		t.Fatal("the versions make no difference")
	}
	for _, peer := range []*Directory{before, before, after, after, before} {
		hit := &cards.Lookup(pan)[0]
		if got, want := string(crdEnd(peer, hit)), string(makeCRDEnd(peer, hit.Info)); got != want {
			t.Fatalf("answer ends %s, want %s", got, want)
		}
		if hit.Memo(peer) == nil {
			t.Fatal("nothing is remembered")
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
