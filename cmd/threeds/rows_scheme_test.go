package main

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// TestMC19 is also MC-12: scheme_rules as operators set them, from the file to
// the answer. Visa wants cardExpiryDate, and a form of threeDSRequestorID that
// the server's own has not.
func TestMC19(t *testing.T) {
	s := reading(t, plan{sections: `merchants:
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
		{"off", "Off", s.key("Off"), "", false},
		{"warn", "Warn", s.key("Warn"), "", true},
		{"warn, strict", "Warn", s.key("Warn", "--strict"), "", true},
		{"the default", "Default", s.key("Default"), "", true},
		{"without settings", "Shop", s.APIKey, "", true},
		{"enforce", "Enforce", s.key("Enforce"), "cardExpiryDate,threeDSRequestorID", false},
		{"enforce, strict", "Enforce", s.key("Enforce", "--strict"), "cardExpiryDate,threeDSRequestorID", false},
		{"enforce, with an id that fits", "Fits", s.key("Fits"), "cardExpiryDate", false},
	} {
		t.Run(tt.merchant, func(t *testing.T) {
			eachVersion(t, s, func(s *site, v string) {
				s.APIKey = tt.key
				req := s.request(v).with(object{"cardExpiryDate": nil,
					"cardholderName": "Ann Example", "email": "ann@shop.example", "browserIP": "192.0.2.1"}) // which Visa wants, too
				if v == "2.3.1" { // what a strict key has to bring itself
					req = req.with(object{"acquirerCountryCode": "208", "acquirerCountryCodeSource": "01", "acceptLanguage": []string{"en"}})
				}
				id := req.text("threeDSServerTransID")
				if tt.detail == "" {
					same(s.t, s.through(req), "cardExpiryDate", nil)
				} else {
					s.refused("/auth", req, expected{code: "201", detail: tt.detail})
					req["cardExpiryDate"] = "3012"
					if strings.Contains(tt.detail, ",") {
						s.refused("/auth", req, expected{code: "203", detail: "threeDSRequestorID"})
					} else {
						s.through(req)
					}
				}
				lines, want := 0, 0
				for line := range strings.Lines(s.log.String()) {
					if strings.Contains(line, `"merchant":"`+tt.name+`"`) && strings.Contains(line, "scheme rules not kept") && strings.Contains(line, finding) {
						lines++
						told[tt.name] = told[tt.name] || strings.Contains(line, id)
					}
				}
				if tt.told {
					want = 1 // an hour for all requests of the merchant
				}
				if lines != want || told[tt.name] != tt.told {
					s.t.Errorf("%d lines, want %d; logged with the first request: %t", lines, want, told[tt.name])
				}
			})
		})
	}
	res, err := http.Get(s.console + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	metrics, _ := io.ReadAll(res.Body)
	if want := `threeds_scheme_findings_total{element="cardExpiryDate",in_force="true",merchant="Warn",rule="require",scheme="visa",since=""}`; !strings.Contains(string(metrics), want) {
		t.Errorf("/metrics lacks %s", want)
	}
}

// TestOwnRulesOfADirectoryAreEnforced: a file of an operator's rules, from the configuration to the answer, and a
// changed one is taken up by the running server.
func TestOwnRulesOfADirectoryAreEnforced(t *testing.T) {
	t.Parallel()
	const head = "source letter 2026-03-03 - Letter of our acquirer\nscheme visa What our acquirer wrote\n"
	s := reading(t, plan{
		sections: "merchants:\n  - {name: Enforce, scheme_rules: enforce, per_directory: {visa: {requestor_id: 12345678*Shop}}}\n",
		visa:     "    rules: visa.rules",
		prepare: func(dir string) {
			write(t, filepath.Join(dir, "visa.rules"), []byte(head+"require acctType in BRW since 2026 ; letter sure\n"))
		},
	})
	s.APIKey = s.key("Enforce")
	request := func() object {
		return s.request("2.2.0").with(object{"cardExpiryDate": "3012", "email": "ann@shop.example"})
	}
	s.refused("/auth", request(), expected{code: "201", detail: "acctType"})
	s.through(request().with(object{"acctType": "02"}))
	write(t, filepath.Join(filepath.Dir(s.config), "visa.rules"), []byte(head+"require acctType in APP ; letter sure\n"))
	waitFor(t, "the changed rules", func() bool { return strings.Contains(s.log.String(), "configuration taken up") })
	s.through(request())
}
