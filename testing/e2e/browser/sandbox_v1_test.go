package browser

import (
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestSandboxV1 goes the whole way of 3-D Secure 1.0.2 in the sandbox, with the
// cards of docs/test-cards.md.
func TestSandboxV1(t *testing.T) {
	t.Parallel()
	s := &rig.LegacySite{Site: &rig.Site{World: rig.StartSandbox(t)}}
	for _, tt := range []struct{ pan, enrolled, eci, status, checked string }{
		{"4000000000000000", "Y", "5", "Y", "5"}, {"4000000000000001", "Y", "5", "A", "6"}, {"4000000000000002", "Y", "5", "N", "7"},
		{"4000000000000003", "Y", "5", "U", "7"}, {"4000000000000004", "Y", "5", "", ""}, {"4000000000000009", "Y", "5", "U", "7"},
		{"5200000000000000", "Y", "2", "Y", "2"}, {"5200000000000001", "Y", "2", "A", "1"}, {"5200000000000002", "Y", "2", "N", "0"},
		{"4000000000001000", "N", "6", "", ""}, {"4000000000002000", "U", "7", "", ""}, {"4000000000009000", "U", "7", "", ""},
		{"5200000000001000", "N", "1", "", ""}, {"5200000000002000", "U", "1", "", ""},
	} {
		t.Run(tt.pan, func(t *testing.T) {
			s := &rig.LegacySite{Site: &rig.Site{World: &rig.World{ReadyFile: s.ReadyFile, T: t}}}
			code, got := s.Form("/enrolled", rig.Purchase(tt.pan))
			if code != 200 || got["enrolled"] != tt.enrolled || got["eci"] != tt.eci {
				t.Fatalf("%d %v", code, got)
			}
			if tt.enrolled != "Y" {
				return
			}
			pares := issuerPages(t, got.Text("acs_url"), got.Text("pareq"))
			if tt.status == "" {
				s.Faulty("/check", url.Values{"pares": {pares}}, "pares", "invalid_param")
				return
			}
			code, got = s.Form("/check", url.Values{"pares": {pares}})
			if code != 200 || got["status"] != tt.status || got["eci"] != tt.checked || got["amount"] != "21601" || got["currency"] != "DKK" {
				t.Errorf("%d %v", code, got)
			}
		})
	}
}

// issuerPages plays a browser that presses the button of each page of the
// issuer, and returns the PaRes that it would bring back.
func issuerPages(t *testing.T, address, pareq string) string {
	t.Helper()
	action := regexp.MustCompile(`<form[^>]* action="([^"]*)"`)
	field := regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`)
	form := url.Values{"PaReq": {pareq}, "TermUrl": {"http://127.0.0.1:1/back"}, "MD": {""}}
	for range 5 {
		res, err := http.PostForm(address, form)
		if err != nil {
			t.Fatal(err)
		}
		page, _ := io.ReadAll(res.Body)
		res.Body.Close()
		form = url.Values{}
		for _, m := range field.FindAllStringSubmatch(string(page), -1) {
			form.Set(m[1], html.UnescapeString(m[2]))
		}
		if pares := form.Get("PaRes"); pares != "" {
			return pares
		}
		to := action.FindStringSubmatch(string(page))
		if res.StatusCode != 200 || to == nil {
			t.Fatalf("%d %s", res.StatusCode, strings.TrimSpace(string(page)))
		}
		address = html.UnescapeString(to[1])
	}
	t.Fatal("the issuer's pages have no end")
	return ""
}
