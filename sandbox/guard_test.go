package sandbox_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/sandbox"
)

// TestHostilePages: a page of somebody else, in the browser of a developer, neither
// reads nor steers the sandbox; programs and its own pages do.
func TestHostilePages(t *testing.T) {
	box, open := start(t, nil), start(t, func(s *sandbox.Sandbox) { s.Listen = "0.0.0.0:0" })
	const change = `{"generate": {"count": 10, "seed": 1}}`
	for _, test := range []struct {
		name, method, url, body string
		host                    string // "": as in the address
		header                  http.Header
		want                    int
	}{
		{"a program reads", "GET", box.ControlURL() + "/transactions", "", "", nil, 200},
		{"a program steers", "POST", box.ControlURL() + "/ranges/visa", change, "", nil, 200},
		{"by name", "GET", box.ControlURL() + "/transactions", "", "localhost:1", nil, 200},
		{"by a name below it", "GET", box.ControlURL() + "/transactions", "", "box.localhost", nil, 200},
		{"a container by the name of its host", "GET", box.ControlURL() + "/transactions", "", "host.docker.internal:1", nil, 200},
		{"by a name without a dot", "GET", box.ControlURL() + "/transactions", "", "box:1", nil, 200},
		{"by an address of another machine", "GET", box.ControlURL() + "/transactions", "", "192.0.2.1:1", nil, 421},
		{"by IPv6", "GET", box.ControlURL() + "/transactions", "", "[::1]:1", nil, 200},
		{"a name that was made to lead here reads", "GET", box.ControlURL() + "/transactions", "", "page.example", nil, 421},
		{"the same with a number in it", "GET", box.ControlURL() + "/transactions", "", "127.0.0.1.page.example:80", nil, 421},
		{"the same steers", "POST", box.ControlURL() + "/ranges/visa", change, "page.example", http.Header{"Origin": {"http://page.example"}}, 421},
		{"the same at the issuer", "GET", box.ACSURL() + "/challenge/x", "", "page.example", nil, 421},
		{"a form elsewhere steers", "POST", box.ControlURL() + "/ranges/visa", change, "",
			http.Header{"Origin": {"https://page.example"}, "Content-Type": {"text/plain"}}, 403},
		{"a page elsewhere steers", "POST", box.ControlURL() + "/ranges/visa", change, "", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403},
		{"its own page steers", "POST", box.ControlURL() + "/ranges/visa", change, "", http.Header{"Sec-Fetch-Site": {"same-origin"}}, 200},
		{"the shop goes to the issuer", "POST", box.ACSURL() + "/challenge", "creq=e30", "", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 404},
		{"who listens on all addresses has many names", "GET", open.ControlURL() + "/transactions", "", "box.lab.example", nil, 200},
	} {
		r, err := http.NewRequestWithContext(t.Context(), test.method, test.url, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for name, values := range test.header {
			r.Header[name] = values
		}
		r.Host = test.host
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != test.want {
			t.Errorf("%s: %d, want %d", test.name, answer.StatusCode, test.want)
		}
	}
}
