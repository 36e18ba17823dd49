package api

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestMC19 is also MC-12: scheme_rules as operators set them, from the file to
// the answer. Visa wants cardExpiryDate, and a form of threeDSRequestorID that
// the server's own has not.
func TestMC19(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t, rig.Plan{Sections: `merchants:
  - {name: Off, scheme_rules: off}
  - {name: Warn, scheme_rules: warn}
  - {name: Default, requestor_name: Default}
  - {name: Enforce, scheme_rules: enforce}
  - {name: Fits, scheme_rules: enforce, per_directory: {visa: {requestor_id: 12345678*Fits}}}
`})
	const finding = "cardExpiryDate: required"
	told := map[string]bool{} // by merchant: the line has the id of a request
	for _, tt := range []struct {
		merchant, name, key, detail string // detail "": sent
		told                        bool
	}{
		{"off", "Off", s.CreateKey("Off"), "", false},
		{"warn", "Warn", s.CreateKey("Warn"), "", true},
		{"warn, strict", "Warn", s.CreateKey("Warn", "--strict"), "", true},
		{"the default", "Default", s.CreateKey("Default"), "", true},
		{"without settings", "Shop", s.APIKey, "", true},
		{"enforce", "Enforce", s.CreateKey("Enforce"), "cardExpiryDate,threeDSRequestorID", false},
		{"enforce, strict", "Enforce", s.CreateKey("Enforce", "--strict"), "cardExpiryDate,threeDSRequestorID", false},
		{"enforce, with an id that fits", "Fits", s.CreateKey("Fits"), "cardExpiryDate", false},
	} {
		t.Run(tt.merchant, func(t *testing.T) {
			eachVersion(t, s, func(s *rig.Site, v string) {
				s.APIKey = tt.key
				req := s.Request(v).With(rig.Object{"cardExpiryDate": nil,
					"cardholderName": "Ann Example", "email": "ann@shop.example", "browserIP": "192.0.2.1"}) // which Visa wants, too
				if v == "2.3.1" { // what a strict key has to bring itself
					req = req.With(rig.Object{"acquirerCountryCode": "208", "acquirerCountryCodeSource": "01", "acceptLanguage": []string{"en"}})
				}
				id := req.Text("threeDSServerTransID")
				if tt.detail == "" {
					same(s.T, s.Through(req), "cardExpiryDate", nil)
				} else {
					s.Refused("/auth", req, rig.Expected{Code: "201", Detail: tt.detail})
					req["cardExpiryDate"] = "3012"
					if strings.Contains(tt.detail, ",") {
						s.Refused("/auth", req, rig.Expected{Code: "203", Detail: "threeDSRequestorID"})
					} else {
						s.Through(req)
					}
				}
				lines, want := 0, 0
				for line := range strings.Lines(s.Log.String()) {
					if strings.Contains(line, `"merchant":"`+tt.name+`"`) && strings.Contains(line, "scheme rules not kept") && strings.Contains(line, finding) {
						lines++
						told[tt.name] = told[tt.name] || strings.Contains(line, id)
					}
				}
				if tt.told {
					want = 1 // an hour for all requests of the merchant
				}
				if lines != want || told[tt.name] != tt.told {
					s.T.Errorf("%d lines, want %d; logged with the first request: %t", lines, want, told[tt.name])
				}
			})
		})
	}
	res, err := http.Get(s.ConsoleURL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	metrics, _ := io.ReadAll(res.Body)
	if want :=
		`threeds_scheme_findings_total{element="cardExpiryDate",in_force="true",merchant="Warn",rule="require",scheme="visa",since=""}`; !strings.Contains(
		string(metrics), want) {
		t.Errorf("/metrics lacks %s", want)
	}
}

// TestOwnRulesOfADirectoryAreEnforced: a file of an operator's rules, from the configuration to the answer, and a
// changed one is taken up by the running server.
func TestOwnRulesOfADirectoryAreEnforced(t *testing.T) {
	t.Parallel()
	const head = "source letter 2026-03-03 - Letter of our acquirer\nscheme visa What our acquirer wrote\n"
	s := rig.NewSite(t, rig.Plan{
		Sections: "merchants:\n  - {name: Enforce, scheme_rules: enforce, per_directory: {visa: {requestor_id: 12345678*Shop}}}\n",
		Visa:     "    rules: visa.rules",
		Prepare: func(dir string) {
			rig.WriteFile(t, filepath.Join(dir, "visa.rules"), []byte(head+"require acctType in BRW since 2026 ; letter sure\n"))
		},
	})
	s.APIKey = s.CreateKey("Enforce")
	request := func() rig.Object {
		return s.Request("2.2.0").With(rig.Object{"cardExpiryDate": "3012", "email": "ann@shop.example"})
	}
	s.Refused("/auth", request(), rig.Expected{Code: "201", Detail: "acctType"})
	s.Through(request().With(rig.Object{"acctType": "02"}))
	rig.WriteFile(t, filepath.Join(filepath.Dir(s.ConfigFile), "visa.rules"), []byte(head+"require acctType in APP ; letter sure\n"))
	waittest.Until(t, "the changed rules", func() bool { return strings.Contains(s.Log.String(), "configuration taken up") })
	s.Through(request())
}
