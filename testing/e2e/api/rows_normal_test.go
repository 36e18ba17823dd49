package api

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestR9ValuesAreNormalised has a value and what becomes of it. 2.3.1 has no list of colour depths
// and takes longer languages.
func TestR9ValuesAreNormalised(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t, rig.Plan{Sections: "merchants:\n  - {name: Danish, acquirer_country: \"208\"}\n"})
	for _, tt := range []struct {
		name   string
		req    rig.Object
		member string
		want   rig.Object // by version; absent: unchanged
	}{
		{"country, one digit", rig.Object{"merchantCountryCode": "8"}, "merchantCountryCode", rig.Object{"": "008"}},
		{"country, two digits", rig.Object{"merchantCountryCode": "40"}, "merchantCountryCode", rig.Object{"": "040"}},
		{"country of an address", rig.Object{"billAddrCountry": "56", "billAddrState": nil}, "billAddrCountry", rig.Object{"": "056"}},
		{"currency", rig.Object{"purchaseCurrency": "36"}, "purchaseCurrency", rig.Object{"": "036"}},
		{"colour depth", rig.Object{"browserColorDepth": "30"}, "browserColorDepth", rig.Object{"": "24", "2.3.1": "30"}},
		{"colour depth, high", rig.Object{"browserColorDepth": "64"}, "browserColorDepth", rig.Object{"": "48", "2.3.1": "64"}},
		{"colour depth, listed", rig.Object{"browserColorDepth": "16"}, "browserColorDepth", rig.Object{"": "16"}},
		{"language, first tag", rig.Object{"browserLanguage": "da-DK,en;q=0.8"}, "browserLanguage", rig.Object{"": "da-DK"}},
		{"language, cut", rig.Object{"browserLanguage": "zh-Hans-CN-x"}, "browserLanguage", rig.Object{"": "zh-Hans", "2.3.1": "zh-Hans-CN-x"}},
		{"time zone, plus", rig.Object{"browserTZ": "+060"}, "browserTZ", rig.Object{"": "60"}},
		{"time zone, zeros", rig.Object{"browserTZ": "-0120"}, "browserTZ", rig.Object{"": "-120"}},
		{"time zone, none", rig.Object{"browserTZ": "-0"}, "browserTZ", rig.Object{"": "0"}},
		{"a string for a list", rig.Object{"threeDSRequestorChallengeInd": "01"}, "threeDSRequestorChallengeInd", rig.Object{"": "01", "2.3.1": []string{"01"}}},
		{"an object for a list", rig.Object{"threeDSRequestorAuthenticationInfo": rig.Object{"threeDSReqAuthMethod": "02"}}, "threeDSRequestorAuthenticationInfo",
			rig.Object{"": rig.Object{"threeDSReqAuthMethod": "02"}, "2.3.1": []rig.Object{{"threeDSReqAuthMethod": "02"}}}},
		{"source of the acquirer's country", nil, "acquirerCountryCodeSource", rig.Object{"": nil, "2.3.1": "01"}},
		{"the acquirer's country from the merchant's", nil, "acquirerCountryCode", rig.Object{"": nil, "2.3.1": "208"}},
		{"acceptLanguage", rig.Object{"browserLanguage": "da"}, "acceptLanguage", rig.Object{"": nil, "2.3.1": []string{"da"}}},
		{"compInd without a method", rig.Object{"threeDSCompInd": "Y"}, "threeDSCompInd", rig.Object{"": "U"}},
		{"Accept header", rig.Object{"browserAcceptHeader": strings.Repeat("a", 2049)}, "browserAcceptHeader", rig.Object{"": strings.Repeat("a", 2048)}},
		{"user agent", rig.Object{"browserUserAgent": strings.Repeat("a", 3000)}, "browserUserAgent", rig.Object{"": strings.Repeat("a", 2048)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			eachVersion(t, s, func(s *rig.Site, v string) {
				want, own := tt.want[v]
				if !own {
					want = tt.want[""]
				}
				same(s.T, s.Through(s.Request(v).With(tt.req)), tt.member, want)
			})
		})
	}
	t.Run("colour depth, the lowest is 1", func(t *testing.T) {
		s.In(t).Refused("/auth", s.Request("2.2.0").With(rig.Object{"browserColorDepth": "0"}), rig.Expected{Code: "203", Detail: "browserColorDepth"})
	})
	t.Run("the acquirer's country from the profile", func(t *testing.T) {
		s := s.In(t)
		s.APIKey = s.CreateKey("Danish")
		same(t, s.Through(s.Request("2.3.1").With(rig.Object{"merchantCountryCode": "276"})), "acquirerCountryCode", "208")
	})
	t.Run("nothing else", func(t *testing.T) { untouched(s, t) })
	t.Run("strict", func(t *testing.T) {
		s := s.In(t)
		s.APIKey = s.CreateKey("Shop", "--strict")
		own := rig.Object{"acquirerCountryCode": "208", "acquirerCountryCodeSource": "01", "acceptLanguage": []string{"en"}}
		s.Through(s.Request("2.3.1").With(own))
		for _, tt := range []struct {
			version, name string
			value         any
		}{
			{"2.2.0", "merchantCountryCode", "8"}, {"2.2.0", "purchaseCurrency", "36"}, {"2.2.0", "browserColorDepth", "30"},
			{"2.2.0", "browserLanguage", "da-DK,en;q=0.8"}, {"2.2.0", "browserTZ", "+00060"},
			{"2.2.0", "browserUserAgent", strings.Repeat("a", 2049)}, {"2.3.1", "threeDSRequestorChallengeInd", "01"},
		} {
			s.Refused("/auth", s.Request(tt.version).With(own).With(rig.Object{tt.name: tt.value}), rig.Expected{Code: "203", Detail: tt.name})
		}
		for _, name := range []string{"acquirerCountryCode", "acceptLanguage"} {
			s.Refused("/auth", s.Request("2.3.1").With(own).With(rig.Object{name: nil}), rig.Expected{Code: "201", Detail: name})
		}
	})
}

// untouched sends what looks as if it could be put right: each is refused or
// goes out as it came, but is not converted.
func untouched(s *rig.Site, t *testing.T) {
	for _, tt := range []struct {
		member string
		value  any
		code   string // "": goes out as it is
	}{
		{"purchaseAmount", "0", ""}, {"purchaseAmount", "000", ""}, {"purchaseAmount", 10.99, "203"}, {"purchaseAmount", "10.99", "203"},
		{"purchaseAmount", " 1099", "203"}, {"purchaseCurrency", "EURO", "203"}, {"purchaseCurrency", 978.5, "203"},
		{"purchaseExponent", "02", "203"}, {"merchantCountryCode", "UK", "203"}, {"mcc", "541", "203"},
		{"browserJavaEnabled", "no", "203"}, {"browserIP", " 192.0.2.1", "203"}, {"browserScreenWidth", 19.5, "203"},
		{"browserTZ", -60.5, "203"}, {"acquirerBIN", 400000, "203"}, {"purchaseDate", 20261120120000, "203"},
		{"transType", 10, "203"}, {"browserTZ", "UTC", "203"}, {"cardExpiryDate", "12/30", "203"},
		{"acctNumber", "4000.0012.3456.7890", "203"}, {"purchaseDate", "2026-11-20T12:00:00Z", "203"},
		{"notificationURL", "HTTPS://Shop.example:443/a/../b?x=%7e", ""},
		{"threeDSRequestorURL", "https://shop.example/%7E?a=b", ""}, {"merchantName", " padded ", ""}, {"cardholderName", "ann  EXAMPLE", ""},
	} {
		t.Run(tt.member, func(t *testing.T) {
			s := s.In(t)
			req := s.Request("2.2.0").With(rig.Object{tt.member: tt.value})
			if tt.code == "" {
				same(t, s.Through(req), tt.member, tt.value)
				return
			}
			code, got := s.Post("/auth", req)
			rig.Expected{Code: tt.code, Detail: tt.member}.Check(t, code, got)
		})
	}
}

func TestR10OnlyASCIIBefore231(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	for _, name := range []string{"Jürgen Müller", "Łukasz", "😀", "a\u00a0b"} {
		eachVersion(t, s, func(s *rig.Site, v string) {
			req := s.Request(v).With(rig.Object{"cardholderName": name})
			if v == "2.3.1" {
				same(s.T, s.Through(req), "cardholderName", name)
				return
			}
			s.Refused("/auth", req, rig.Expected{Code: "203", Detail: "cardholderName"})
		})
	}
	t.Run("escaped", func(t *testing.T) {
		body := bytes.Replace(rig.Marshal(s.Request("2.2.0")), []byte("Ann Example"), []byte(`J\u00fcrgen`), 1)
		s.In(t).Refused("/auth", body, rig.Expected{Code: "203", Detail: "cardholderName"})
	})
	t.Run("deep", func(t *testing.T) {
		req := s.Request("2.2.0").With(
			rig.Object{"acctInfo": rig.Object{"chAccAgeInd": "é"}, "merchantRiskIndicator": rig.Object{"deliveryEmailAddress": "é@example.com"}})
		s.In(t).Refused("/auth", req, rig.Expected{Code: "203", Detail: "acctInfo.chAccAgeInd,merchantRiskIndicator.deliveryEmailAddress"})
	})
	t.Run("what does not go to the DS", func(t *testing.T) {
		s.In(t).Through(s.Request("2.2.0").With(rig.Object{"ünknown": "é", "sdkAppID": "é"}))
	})
	t.Run("data of extensions", func(t *testing.T) {
		s.In(t).Through(s.Request("2.2.0").With(rig.Object{"messageExtension": []rig.Object{
			{"id": "A1", "name": "n", "criticalityIndicator": false, "data": rig.Object{"é": "é"}},
		}}))
	})
	t.Run("not UTF-8", func(t *testing.T) {
		body := bytes.Replace(rig.Marshal(s.Request("2.3.1")), []byte("Ann Example"), []byte("Ann \xff"), 1)
		s.In(t).Refused("/auth", body, rig.Expected{Code: "203", Description: "Invalid JSON"})
	})
	t.Run("dates are not judged", func(t *testing.T) {
		for _, expiry := range []string{"0001", "9912", "2001"} {
			s.In(t).Through(s.Request("2.2.0").With(rig.Object{"cardExpiryDate": expiry, "purchaseDate": "19700101000000"}))
		}
	})
}

func TestR11NotificationURLSchemes(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	sandbox := rig.StartSandbox(t)
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
			change := rig.Object{"notificationURL": tt.url}
			eachVersion(t, s, func(s *rig.Site, v string) {
				good := tt.old
				if v == "2.3.1" {
					good = tt.new
				}
				if good {
					same(s.T, s.Through(s.Request(v).With(change)), "notificationURL", tt.url)
				} else {
					s.Refused("/auth", s.Request(v).With(change), rig.Expected{Code: "203", Detail: "notificationURL"})
				}
			})
			w := &rig.World{ReadyFile: sandbox.ReadyFile, T: t}
			const pan = "4000001234560103"
			code, got := w.Post("/auth", rig.BrowserRequest("2.3.1", pan, w.Preauth(pan).Text("threeDSServerTransID"), "U").With(change))
			if (code == 200) != tt.inSandbox {
				t.Errorf("in the sandbox: %d %v", code, got)
			}
		})
	}
}

// TestNotes: what was normalised (R9), and what the card's scheme asks for, is told in
// headers of the answer (G9), by name and each once, of requests that are refused too.
func TestNotes(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t, rig.Plan{Sections: "merchants:\n  - {name: Off, scheme_rules: \"off\"}\n"})
	own := rig.Object{"acquirerCountryCode": "208", "acquirerCountryCodeSource": "01", "acceptLanguage": []string{"en"}}
	for _, tt := range []struct {
		name, key, version string
		change             rig.Object
		code               int
		normalised, unkept string
	}{
		{"nothing", s.CreateKey("Off"), "2.2.0", nil, 200, "", ""},
		{"one", s.CreateKey("Off"), "2.2.0", rig.Object{"browserColorDepth": "30"}, 200, "browserColorDepth", ""},
		{"several", s.CreateKey("Off"), "2.2.0", rig.Object{
			"browserTZ": "+060", "merchantCountryCode": "8", "merchantRiskIndicator": rig.Object{"giftCardCurr": "36"},
		}, 200, "browserTZ, merchantCountryCode, merchantRiskIndicator.giftCardCurr", ""},
		{"filled in", s.CreateKey("Off"), "2.3.1", nil, 200, "acceptLanguage, acquirerCountryCode, acquirerCountryCodeSource", ""},
		{"one several times", s.CreateKey("Off"), "2.3.1", rig.Object(own).With(rig.Object{"acceptLanguage": []string{"en", "en", "en"}}), 200, "acceptLanguage", ""},
		{"refused", s.CreateKey("Off"), "2.2.0", rig.Object{"browserColorDepth": "30", "mcc": "54"}, 400, "browserColorDepth", ""},
		{"strict", s.CreateKey("Off", "--strict"), "2.3.1", own, 200, "", ""},
		{"the scheme's rules", s.APIKey, "2.2.0", rig.Object{"cardExpiryDate": nil}, 200, "",
			"cardExpiryDate, email|homePhone|mobilePhone|workPhone, threeDSRequestorID"},
		{"no version", s.APIKey, "2.2.0", rig.Object{"messageVersion": "9.9.9", "browserColorDepth": "30"}, 400, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := s.In(t)
			s.APIKey = tt.key
			res, answer := s.Call(http.MethodPost, "/auth", tt.key, s.Request(tt.version).With(tt.change))
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
