package auth_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/message"
)

// badURLs are URLs that no browser may be sent to, one for each reason.
var badURLs = map[string]string{
	"http":               "http://acs.example/c",
	"script":             "javascript://acs.example/%0aalert(1)",
	"quotation mark":     `https://acs.example/c"onfocus="alert(1)`,
	"angle brackets":     "https://acs.example/<script>",
	"user":               "https://bank.example@evil.example/c",
	"user and password":  "https://bank:example@evil.example/c",
	"backslash":          `https://evil.example\@bank.example/c`,
	"port 99999":         "https://acs.example:99999/c",
	"port 0":             "https://acs.example:0/c",
	"direction override": "https://acs.example/\u202egpj.exe",
	"look-alike host":    "https://b\u0430nk.example/c",
	"host with escapes":  "https://%61cs.example/c",
	"line feed":          "https://acs.example/\nc",
	"broken escape":      "https://acs.example/%zz",
	"loopback":           "https://127.0.0.1/c",
	"loopback, a number": "https://2130706433/c",
	"loopback, octal":    "https://017700000001/c",
	"loopback, short":    "https://127.1/c",
	"loopback, IPv6":     "https://[::1]/c",
	"loopback, in IPv6":  "https://[::ffff:127.0.0.1]/c",
	"localhost":          "https://localhost/c",
	"below localhost":    "https://acs.localhost./c",
	"unspecified":        "https://0.0.0.0/c",
	"link-local":         "https://169.254.169.254/latest/meta-data",
	"link-local, IPv6":   "https://[fe80::1]/c",
	"no host":            "https:///acs.example/c",
}

// TestD110ACSURLIsChecked: an ARes whose acsURL no browser may be sent to is refused, in every
// version. The directory server hears which element is at fault, and the requestor gets
// no part of the answer.
func TestD110ACSURLIsChecked(t *testing.T) {
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		for name, url := range badURLs {
			w := authtest.NewWorld()
			w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
				return authtest.With(authtest.AResObject(areq, "C"), "acsURL", url).JSON(), nil
			}
			e := w.NewEngine(0)
			answer, _, err := e.Authenticate(t.Context(), authtest.Shop, authtest.AReq(version, authtest.Preauth(t, e, authtest.Shop)).JSON())
			bad, _ := errors.AsType[message.Error](err)
			if bad.Code != message.Format || bad.Description != "Invalid response from Directory Server" || bad.Detail != "acsURL" {
				t.Errorf("%s, %s: the requestor got %.80s and the error %v, want 203 Invalid response from Directory Server: acsURL", version, name, answer, err)
			}
			if told := w.Reported(); len(told) != 1 || told[0].Code != message.Format || told[0].Detail != "acsURL" || told[0].MessageType != "ARes" {
				t.Errorf("%s, %s: the directory server got %+v, want Erro 203 acsURL", version, name, told)
			}
		}
	}
}

// TestD110LabAllowsHTTP: the directory of a test laboratory may send a browser to http and to loopback. The rest of the
// rule holds for it, too, and nothing changes for the other directory.
func TestD110LabAllowsHTTP(t *testing.T) {
	for _, tt := range []struct {
		url         string
		strict, lab bool // whether the answer is taken
	}{
		{"https://acs.example/c", true, true},
		{"http://127.0.0.1:8081/c", false, true},
		{"https://[::1]:8443/c", false, true},
		{"http://acs.example/c", false, true},
		{"http://a@127.0.0.1/c", false, false},
		{"http://127.0.0.1:99999/c", false, false},
		{"https://169.254.169.254/c", false, false},
	} {
		for i, lab := range []bool{false, true} {
			w := authtest.NewWorld()
			w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
				return authtest.With(authtest.AResObject(areq, "C"), "acsURL", tt.url).JSON(), nil
			}
			e := w.NewEngine(0)
			e.Peers[0].Lab, e.Peers[1].Lab = lab, !lab // the card is of the first
			_, _, err := e.Authenticate(t.Context(), authtest.Shop, authtest.AReq("2.2.0", authtest.Preauth(t, e, authtest.Shop)).JSON())
			if taken := []bool{tt.strict, tt.lab}[i]; taken != (err == nil) || !taken && authtest.CodeOf(err) != "203" {
				t.Errorf("lab %t, %s: %v, want it taken: %t", lab, tt.url, err, taken)
			}
		}
	}
}

// TestD110MethodURLIsNotHandedOut: card ranges from the store may hold URLs that no
// browser may be sent to. /preauth does not give them out, and /auth treats their range
// as one without a 3DS Method. For a laboratory http and loopback are allowed.
func TestD110MethodURLIsNotHandedOut(t *testing.T) {
	for _, tt := range []struct {
		url         string
		strict, lab bool // whether it is handed out
	}{
		{"https://acs.example/m", true, true},
		{"http://acs.example/m", false, true},
		{"https://127.0.0.1/m", false, true},
		{`https://acs.example/m"onload="x`, false, false},
		{"https://bank.example@evil.example/m", false, false},
	} {
		for i, lab := range []bool{false, true} {
			w := authtest.NewWorld()
			w.Hits = []ranges.Hit{{Scheme: "visa", Info: authtest.AllVersions(tt.url)}}
			var sent authtest.Object
			w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
				sent = areq
				return authtest.ARes(areq, "Y"), nil
			}
			e := w.NewEngine(0)
			e.Peers[0].Lab = lab
			answer, _, err := e.Preauth(context.Background(), authtest.Shop, authtest.Object{"acctNumber": authtest.PAN}.JSON())
			if err != nil {
				t.Fatal(err)
			}
			crd, want := authtest.Parse(t, answer), []bool{tt.strict, tt.lab}[i]
			if _, there := crd["threeDSMethodURL"]; there != want || strings.Contains(string(answer), "threeDSMethodURL") != want {
				t.Errorf("lab %t, %s: /preauth says %s, want the URL in it: %t", lab, tt.url, answer, want)
			}
			req := authtest.With(authtest.AReq("2.2.0", crd.Text("threeDSServerTransID")), "threeDSCompInd", "Y")
			if _, _, err := e.Authenticate(t.Context(), authtest.Shop, req.JSON()); err != nil {
				t.Fatal(err)
			}
			if got, want := sent.Text("threeDSCompInd"), map[bool]string{true: "Y", false: "U"}[want]; got != want {
				t.Errorf("lab %t, %s: threeDSCompInd %s left, want %s", lab, tt.url, got, want)
			}
		}
	}
}
