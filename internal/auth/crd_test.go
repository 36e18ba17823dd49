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
		want := "x" + string(makeCRDEnd(peer, hit.Info))
		if got := string(appendCRDEnd([]byte("x"), peer, hit)); got != want {
			t.Fatalf("answer ends %s, want %s", got, want)
		}
		if got, remembered := hit.AppendMemo([]byte("x"), peer); !remembered || string(got) != want {
			t.Fatalf("remembered is %s, want %s", got, want)
		}
	}
}

func TestMethodURLs(t *testing.T) {
	for _, test := range []struct {
		urls []string
		want string
	}{
		{nil, ""},
		{[]string{"", ""}, ""},
		{[]string{"", "https://a.example/3ds"}, "https://a.example/3ds"},
		{[]string{"https://a.example/3ds", "", "https://a.example/3ds"}, "https://a.example/3ds"},
		{[]string{"https://a.example/3ds/1", "https://a.example/3ds/2"}, "https://a.example/3ds/"},
		{[]string{"https://a.example/3ds", "https://a.example/3ds/2"}, "https://a.example/3ds"},
		{[]string{"https://a.example/3ds/2", "https://a.example/3ds"}, "https://a.example/3ds"},
	} {
		info := &ranges.Info{}
		for _, url := range test.urls {
			info.ACS = append(info.ACS, ranges.ACSVersion{MethodURL: url})
		}
		if got := methodURLs(info); got != test.want {
			t.Errorf("%q begin with %q, want %q", test.urls, got, test.want)
		}
	}
}

// TestCardAlone: what is read at a glance is what is read with care.
func TestCardAlone(t *testing.T) {
	for body, alone := range map[string]bool{
		`{"acctNumber":"4000000000000001"}`:                                 true,
		`{"acctNumber":"400000000000"}`:                                     false,
		`{"acctNumber":"4000000000000"}`:                                    true,
		`{"acctNumber":"4000000000000000000"}`:                              true,
		`{"acctNumber":"40000000000000000000"}`:                             false,
		`{"acctNumber":"400000000000000x"}`:                                 false,
		`{"acctNumber":"400000000000000/"}`:                                 false,
		`{"acctNumber":"400000000000000:"}`:                                 false,
		`{"acctNumber":""}`:                                                 false,
		`{"acctNumber":"}`:                                                  false,
		`{"acctNumber":"4000000000000001","acctNumber":"4000000000000001"}`: false,
		`{"acctNumber":"4000000000000001","ds":"visa"}`:                     false,
		`{"acctNumber":"4000000000000001"`:                                  false,
		`{"acctNumber":"4000000000000001`:                                   false,
		`4000000000000001"}`:                                                false,
		`{"acctNumber":"4000000000000001"}}`:                                false,
		`{"acctNumber": "4000000000000001"}`:                                false,
		`{"acctnumber":"4000000000000001"}`:                                 false,
		`{"acctNumber":"\u0034000000000000001"}`:                            false,
		``:                                                                  false,
	} {
		got, ok := cardAlone([]byte(body))
		if ok != alone {
			t.Errorf("%s: alone is %v, want %v", body, ok, alone)
		}
		if !ok {
			continue
		}
		var want string
		if err := message.Glance([]byte(body), message.Limits{}, func(req *message.Request) { want = req.Text("acctNumber") }); err != nil || got != want {
			t.Errorf("%s: %q, with care %q: %v", body, got, want, err)
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
