package main

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestR9ValuesAreNormalised has a value and what becomes of it. 2.3.1 has no list of colour depths
// and takes longer languages.
func TestR9ValuesAreNormalised(t *testing.T) {
	s := reading(t, plan{sections: "merchants:\n  - {name: Danish, acquirer_country: \"208\"}\n"})
	for _, tt := range []struct {
		name   string
		req    object
		member string
		want   object // by version; absent: unchanged
	}{
		{"country, one digit", object{"merchantCountryCode": "8"}, "merchantCountryCode", object{"": "008"}},
		{"country, two digits", object{"merchantCountryCode": "40"}, "merchantCountryCode", object{"": "040"}},
		{"country of an address", object{"billAddrCountry": "56", "billAddrState": nil}, "billAddrCountry", object{"": "056"}},
		{"currency", object{"purchaseCurrency": "36"}, "purchaseCurrency", object{"": "036"}},
		{"colour depth", object{"browserColorDepth": "30"}, "browserColorDepth", object{"": "24", "2.3.1": "30"}},
		{"colour depth, high", object{"browserColorDepth": "64"}, "browserColorDepth", object{"": "48", "2.3.1": "64"}},
		{"colour depth, listed", object{"browserColorDepth": "16"}, "browserColorDepth", object{"": "16"}},
		{"language, first tag", object{"browserLanguage": "da-DK,en;q=0.8"}, "browserLanguage", object{"": "da-DK"}},
		{"language, cut", object{"browserLanguage": "zh-Hans-CN-x"}, "browserLanguage", object{"": "zh-Hans", "2.3.1": "zh-Hans-CN-x"}},
		{"time zone, plus", object{"browserTZ": "+060"}, "browserTZ", object{"": "60"}},
		{"time zone, zeros", object{"browserTZ": "-0120"}, "browserTZ", object{"": "-120"}},
		{"time zone, none", object{"browserTZ": "-0"}, "browserTZ", object{"": "0"}},
		{"a string for a list", object{"threeDSRequestorChallengeInd": "01"}, "threeDSRequestorChallengeInd", object{"": "01", "2.3.1": []string{"01"}}},
		{"an object for a list", object{"threeDSRequestorAuthenticationInfo": object{"threeDSReqAuthMethod": "02"}}, "threeDSRequestorAuthenticationInfo",
			object{"": object{"threeDSReqAuthMethod": "02"}, "2.3.1": []object{{"threeDSReqAuthMethod": "02"}}}},
		{"source of the acquirer's country", nil, "acquirerCountryCodeSource", object{"": nil, "2.3.1": "01"}},
		{"the acquirer's country from the merchant's", nil, "acquirerCountryCode", object{"": nil, "2.3.1": "208"}},
		{"acceptLanguage", object{"browserLanguage": "da"}, "acceptLanguage", object{"": nil, "2.3.1": []string{"da"}}},
		{"compInd without a method", object{"threeDSCompInd": "Y"}, "threeDSCompInd", object{"": "U"}},
		{"Accept header", object{"browserAcceptHeader": strings.Repeat("a", 2049)}, "browserAcceptHeader", object{"": strings.Repeat("a", 2048)}},
		{"user agent", object{"browserUserAgent": strings.Repeat("a", 3000)}, "browserUserAgent", object{"": strings.Repeat("a", 2048)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachVersion(t, s, func(s *site, v string) {
				want, own := tt.want[v]
				if !own {
					want = tt.want[""]
				}
				same(s.t, s.through(s.request(v).with(tt.req)), tt.member, want)
			})
		})
	}
	t.Run("colour depth, the lowest is 1", func(t *testing.T) {
		s.in(t).refused("/auth", s.request("2.2.0").with(object{"browserColorDepth": "0"}), expected{code: "203", detail: "browserColorDepth"})
	})
	t.Run("the acquirer's country from the profile", func(t *testing.T) {
		s := s.in(t)
		s.APIKey = s.key("Danish")
		same(t, s.through(s.request("2.3.1").with(object{"merchantCountryCode": "276"})), "acquirerCountryCode", "208")
	})
	t.Run("nothing else", func(t *testing.T) { s.untouched(t) })
	t.Run("strict", func(t *testing.T) {
		s := s.in(t)
		s.APIKey = s.key("Shop", "--strict")
		own := object{"acquirerCountryCode": "208", "acquirerCountryCodeSource": "01", "acceptLanguage": []string{"en"}}
		s.through(s.request("2.3.1").with(own))
		for _, tt := range []struct {
			version, name string
			value         any
		}{
			{"2.2.0", "merchantCountryCode", "8"}, {"2.2.0", "purchaseCurrency", "36"}, {"2.2.0", "browserColorDepth", "30"},
			{"2.2.0", "browserLanguage", "da-DK,en;q=0.8"}, {"2.2.0", "browserTZ", "+00060"},
			{"2.2.0", "browserUserAgent", strings.Repeat("a", 2049)}, {"2.3.1", "threeDSRequestorChallengeInd", "01"},
		} {
			s.refused("/auth", s.request(tt.version).with(own).with(object{tt.name: tt.value}), expected{code: "203", detail: tt.name})
		}
		for _, name := range []string{"acquirerCountryCode", "acceptLanguage"} {
			s.refused("/auth", s.request("2.3.1").with(own).with(object{name: nil}), expected{code: "201", detail: name})
		}
	})
}

// untouched sends what looks as if it could be put right: each is refused or
// goes out as it came, but is not converted.
func (s *site) untouched(t *testing.T) {
	for _, tt := range []struct {
		member string
		value  any
		code   string // "": goes out as it is
	}{
		{"purchaseAmount", "0", ""}, {"purchaseAmount", "000", ""}, {"purchaseAmount", 10.99, "203"}, {"purchaseAmount", "10.99", "203"},
		{"purchaseAmount", " 1099", "203"}, {"purchaseCurrency", "EURO", "203"}, {"purchaseCurrency", 978.5, "203"},
		{"purchaseExponent", "02", "203"}, {"merchantCountryCode", "UK", "203"}, {"mcc", "541", "203"},
		{"browserJavaEnabled", "no", "203"}, {"browserIP", " 192.0.2.1", "203"}, {"browserScreenWidth", 19.5, "203"},
		{"browserTZ", -60.5, "203"}, {"acquirerBIN", 400000, "203"}, {"purchaseDate", 20261120120000, "203"}, {"transType", 10, "203"}, {"browserTZ", "UTC", "203"}, {"cardExpiryDate", "12/30", "203"}, {"acctNumber", "4000 0012 3456 7890", "203"},
		{"purchaseDate", "2026-11-20T12:00:00Z", "203"}, {"notificationURL", "HTTPS://Shop.example:443/a/../b?x=%7e", ""},
		{"threeDSRequestorURL", "https://shop.example/%7E?a=b", ""}, {"merchantName", " padded ", ""}, {"cardholderName", "ann  EXAMPLE", ""},
	} {
		t.Run(tt.member, func(t *testing.T) {
			s := s.in(t)
			req := s.request("2.2.0").with(object{tt.member: tt.value})
			if tt.code == "" {
				same(t, s.through(req), tt.member, tt.value)
				return
			}
			code, got := s.post("/auth", req)
			expected{code: tt.code, detail: tt.member}.check(t, code, got)
		})
	}
}

func TestR10OnlyASCIIBefore231(t *testing.T) {
	s := reading(t)
	for _, name := range []string{"Jürgen Müller", "Łukasz", "😀", "a\u00a0b"} {
		eachVersion(t, s, func(s *site, v string) {
			req := s.request(v).with(object{"cardholderName": name})
			if v == "2.3.1" {
				same(s.t, s.through(req), "cardholderName", name)
				return
			}
			s.refused("/auth", req, expected{code: "203", detail: "cardholderName"})
		})
	}
	t.Run("escaped", func(t *testing.T) {
		body := bytes.Replace(marshal(s.request("2.2.0")), []byte("Ann Example"), []byte(`J\u00fcrgen`), 1)
		s.in(t).refused("/auth", body, expected{code: "203", detail: "cardholderName"})
	})
	t.Run("deep", func(t *testing.T) {
		req := s.request("2.2.0").with(object{"acctInfo": object{"chAccAgeInd": "é"}, "merchantRiskIndicator": object{"deliveryEmailAddress": "é@example.com"}})
		s.in(t).refused("/auth", req, expected{code: "203", detail: "acctInfo.chAccAgeInd,merchantRiskIndicator.deliveryEmailAddress"})
	})
	t.Run("what does not go to the DS", func(t *testing.T) {
		s.in(t).through(s.request("2.2.0").with(object{"ünknown": "é", "sdkAppID": "é"}))
	})
	t.Run("data of extensions", func(t *testing.T) {
		s.in(t).through(s.request("2.2.0").with(object{"messageExtension": []object{
			{"id": "A1", "name": "n", "criticalityIndicator": false, "data": object{"é": "é"}},
		}}))
	})
	t.Run("not UTF-8", func(t *testing.T) {
		body := bytes.Replace(marshal(s.request("2.3.1")), []byte("Ann Example"), []byte("Ann \xff"), 1)
		s.in(t).refused("/auth", body, expected{code: "203", description: "Invalid JSON"})
	})
	t.Run("dates are not judged", func(t *testing.T) {
		for _, expiry := range []string{"0001", "9912", "2001"} {
			s.in(t).through(s.request("2.2.0").with(object{"cardExpiryDate": expiry, "purchaseDate": "19700101000000"}))
		}
	})
}

func TestR11NotificationURLSchemes(t *testing.T) {
	t.Parallel()
	s := reading(t)
	sandbox := startSandbox(t)
	for _, tt := range []struct {
		url                 string
		old, new, inSandbox bool // whether 2.1.0 and 2.2.0, 2.3.1, and 2.3.1 in the sandbox take it
	}{
		{"https://shop.example/done", true, true, true},
		{"http://shop.example/done", true, false, false},
		{"http://127.0.0.1:8081/done", true, false, true},
		{"http://127.9.9.9/done", true, false, true},
		{"http://[::1]:8081/done", true, false, true},
		{"http://localhost:3000/", true, false, true},
		{"http://shop.localhost/", true, false, true},
		{"http://localhost.example/", true, false, false},
		{"http://128.0.0.1/", true, false, false},
		{"https://my_shop.example/done", true, true, true},
		{"https://a_b.c_d.example/done?x=1#y", true, true, true},
		{"ftp://shop.example/done", false, false, false},
		{"shop.example/done", false, false, false},
		{"/done", false, false, false},
		{"javascript:alert(1)", false, false, false},
	} {
		t.Run(tt.url, func(t *testing.T) {
			change := object{"notificationURL": tt.url}
			eachVersion(t, s, func(s *site, v string) {
				good := tt.old
				if v == "2.3.1" {
					good = tt.new
				}
				if good {
					same(s.t, s.through(s.request(v).with(change)), "notificationURL", tt.url)
				} else {
					s.refused("/auth", s.request(v).with(change), expected{code: "203", detail: "notificationURL"})
				}
			})
			w := &world{sandbox.ready, t}
			const pan = "4000001234560103"
			code, got := w.post("/auth", browser("2.3.1", pan, w.preauth(pan).text("threeDSServerTransID"), "U").with(change))
			if (code == 200) != tt.inSandbox {
				t.Errorf("in the sandbox: %d %v", code, got)
			}
		})
	}
}

// TestNotes: what was normalised (R9), and what the card's scheme asks for, is told in
// headers of the answer (G9), by name and each once, of requests that are refused too.
func TestNotes(t *testing.T) {
	s := reading(t, plan{sections: "merchants:\n  - {name: Off, scheme_rules: \"off\"}\n"})
	own := object{"acquirerCountryCode": "208", "acquirerCountryCodeSource": "01", "acceptLanguage": []string{"en"}}
	for _, tt := range []struct {
		name, key, version string
		change             object
		code               int
		normalised, unkept string
	}{
		{"nothing", s.key("Off"), "2.2.0", nil, 200, "", ""},
		{"one", s.key("Off"), "2.2.0", object{"browserColorDepth": "30"}, 200, "browserColorDepth", ""},
		{"several", s.key("Off"), "2.2.0", object{"browserTZ": "+060", "merchantCountryCode": "8", "merchantRiskIndicator": object{"giftCardCurr": "36"}}, 200,
			"browserTZ, merchantCountryCode, merchantRiskIndicator.giftCardCurr", ""},
		{"filled in", s.key("Off"), "2.3.1", nil, 200, "acceptLanguage, acquirerCountryCode, acquirerCountryCodeSource", ""},
		{"one several times", s.key("Off"), "2.3.1", object(own).with(object{"acceptLanguage": []string{"en", "en", "en"}}), 200, "acceptLanguage", ""},
		{"refused", s.key("Off"), "2.2.0", object{"browserColorDepth": "30", "mcc": "54"}, 400, "browserColorDepth", ""},
		{"strict", s.key("Off", "--strict"), "2.3.1", own, 200, "", ""},
		{"the scheme's rules", s.APIKey, "2.2.0", object{"cardExpiryDate": nil}, 200, "", "cardExpiryDate, email|homePhone|mobilePhone|workPhone, threeDSRequestorID, transType"},
		{"no version", s.APIKey, "2.2.0", object{"messageVersion": "9.9.9", "browserColorDepth": "30"}, 400, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := s.in(t)
			s.APIKey = tt.key
			res, answer := s.call(http.MethodPost, "/auth", tt.key, s.request(tt.version).with(tt.change))
			if res.StatusCode != tt.code {
				t.Errorf("%d %s", res.StatusCode, answer)
			}
			for name, want := range map[string]string{"X-Normalised": tt.normalised, "X-Scheme-Rules": tt.unkept} {
				got := strings.Split(res.Header.Get(name), ", ")
				slices.Sort(got)
				if strings.Join(got, ", ") != want || len(res.Header.Values(name)) > 1 {
					t.Errorf("%s: %q, want %q", name, res.Header.Values(name), want)
				}
			}
		})
	}
}
