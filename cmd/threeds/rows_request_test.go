package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

var allVersions = []string{"2.1.0", "2.2.0", "2.3.1"}

// eachVersion runs a subtest per version with the site's requests of it.
func eachVersion(t *testing.T, s *site, f func(s *site, version string)) {
	t.Helper()
	for _, v := range allVersions {
		t.Run(v, func(t *testing.T) { f(s.in(t), v) })
	}
}

// reading is a site for what is done to a request before the directory server
// gets it.
func reading(t *testing.T, plans ...plan) *site {
	t.Helper()
	ca := newAuthority(t)
	return startSite(t, ca, newWire(t, ca), plans...)
}

// renamed is o with members under other names.
func (o object) renamed(names map[string]string) object {
	o = maps.Clone(o)
	for from, to := range names {
		if v, there := o[from]; there {
			delete(o, from)
			o[to] = v
		}
	}
	return o
}

// same compares one member of what the directory server got.
func same(t *testing.T, areq object, name string, want any) {
	t.Helper()
	got, _ := json.Marshal(areq[name])
	wanted, _ := json.Marshal(want)
	if _, there := areq[name]; want == nil && there || !bytes.Equal(got, wanted) {
		t.Errorf("%s went out as %s, want %s", name, got, wanted)
	}
}

func TestR1MemberNamesInAnyCase(t *testing.T) {
	s := reading(t)
	eachVersion(t, s, func(s *site, v string) {
		plain := s.through(s.request(v))
		odd := s.request(v).renamed(map[string]string{
			"threeDSServerTransID": "threeDsserverTransId", "notificationURL": "notificationUrl", "acquirerBIN": "acquirerBin",
			"acctNumber": "ACCTNUMBER", "messageVersion": "messageversion", "threeDSCompInd": "ThreeDSCompInd", "mcc": "MCC",
		})
		odd["merchantRiskIndicator"] = object{"ShipIndicator": "01", "deliveryTIMEframe": "02"}
		got := s.through(odd)
		same(t, got, "merchantRiskIndicator", object{"shipIndicator": "01", "deliveryTimeframe": "02"})
		for name := range got {
			if _, there := plain[name]; !there && name != "merchantRiskIndicator" {
				s.t.Errorf("%s went out, a name of no AReq", name)
			}
		}
		if len(got) != len(plain)+1 {
			s.t.Errorf("%d members went out, want %d", len(got), len(plain)+1)
		}
		code, crd := s.post("/preauth", object{"ACCTNumber": testPAN, "DS": "visa"})
		if code != 200 || crd.text("scheme") != "visa" {
			s.t.Errorf("/preauth: %d %v", code, crd)
		}
	})
	t.Run("a directory is taken by the letter", func(t *testing.T) {
		s := s.in(t)
		s.ds.setAnswer(func(areq object) (int, []byte) {
			return 200, marshal(ares(areq, "Y").renamed(map[string]string{"transStatus": "TransStatus"}))
		})
		defer s.ds.setAnswer(nil)
		s.refused("/auth", s.request("2.2.0"), expected{code: "201", detail: "transStatus"})
	})
}

func TestR2NullIsAbsent(t *testing.T) {
	s := reading(t)
	eachVersion(t, s, func(s *site, v string) {
		plain := s.through(s.request(v))
		for name, req := range map[string]object{
			"null":   {"cardholderName": nil, "merchantRiskIndicator": nil, "purchaseInstalData": nil, "threeDSRequestorChallengeInd": nil},
			"within": {"merchantRiskIndicator": object{"shipIndicator": nil}, "acctInfo": object{}, "messageExtension": []any{}},
			"deep":   {"acctInfo": object{"chAccAgeInd": nil, "x": object{"y": nil}}, "threeDSRequestorAuthenticationInfo": object{"threeDSReqAuthMethod": nil}},
			"items":  {"messageExtension": []any{nil}},
		} {
			t.Run(v+" "+name, func(t *testing.T) {
				s := s.in(t)
				all := s.request(v)
				for name, value := range req {
					all[name] = value // null too
				}
				got := s.through(all)
				for name := range req {
					if name != "cardholderName" {
						same(t, got, name, nil)
					}
				}
				if want := len(plain); len(got) != want && !(name == "null" && len(got) == want-1) {
					t.Errorf("%d members went out, want %d", len(got), want)
				}
			})
		}
		t.Run(v+" data of extensions", func(t *testing.T) {
			got := s.in(t).through(s.request(v).with(object{"messageExtension": []object{
				{"id": "A1", "name": "n", "criticalityIndicator": false, "data": object{"a": nil, "b": object{}, "c": []any{}, "d": ""}},
			}}))
			same(t, got, "messageExtension", []object{
				{"id": "A1", "name": "n", "criticalityIndicator": false, "data": object{"a": nil, "b": object{}, "c": []any{}, "d": ""}},
			})
		})
		t.Run(v+" required", func(t *testing.T) {
			all := s.in(t).request(v)
			all["acquirerMerchantID"] = nil
			s.in(t).refused("/auth", all, expected{code: "201", detail: "acquirerMerchantID"})
		})
	})
}

func TestR3EmptyTextIsAbsent(t *testing.T) {
	s := reading(t)
	eachVersion(t, s, func(s *site, v string) {
		got := s.through(s.request(v).with(object{
			"cardholderName": "", "email": "", "acctInfo": object{"chAccAgeInd": ""}, "threeDSRequestorChallengeInd": "",
		}))
		for _, name := range []string{"cardholderName", "email", "acctInfo", "threeDSRequestorChallengeInd"} {
			same(s.t, got, name, nil)
		}
		s.refused("/auth", s.request(v).with(object{"acquirerBIN": ""}), expected{code: "201", detail: "acquirerBIN"})
		s.refused("/preauth", object{"acctNumber": ""}, expected{code: "201", detail: "acctNumber"})
		if code, crd := s.post("/preauth", object{"acctNumber": testPAN, "ds": ""}); code != 200 {
			s.t.Errorf("ds empty: %d %v, want 200", code, crd)
		}
	})
}

func TestR4UnknownMembersAreDropped(t *testing.T) {
	s := reading(t)
	eachVersion(t, s, func(s *site, v string) {
		plain := s.through(s.request(v))
		got := s.through(s.request(v).with(object{
			"unknown": "x", "another": object{"deep": []any{1, 2, object{"z": "ü"}}}, "skip": true, "émoji": "🂡",
			"merchantRiskIndicator": object{"shipIndicator": "01", "unknown": 1},
		}))
		same(s.t, got, "merchantRiskIndicator", object{"shipIndicator": "01"})
		if len(got) != len(plain)+1 {
			s.t.Errorf("%d members went out, want %d: %v", len(got), len(plain)+1, got)
		}
		if code, crd := s.post("/preauth", object{"acctNumber": testPAN, "unknown": object{"x": 1}}); code != 200 {
			s.t.Errorf("/preauth: %d %v", code, crd)
		}
	})
}

func TestR5MembersOfOtherVersionsAreDropped(t *testing.T) {
	s := reading(t)
	for _, tt := range []struct {
		name string
		req  object
		gone []string
	}{
		{"browserJavascriptEnabled in 2.1.0", s.request("2.1.0").with(object{"browserJavascriptEnabled": true}), []string{"browserJavascriptEnabled"}},
		{"members of 2.2.0 in 2.1.0", s.request("2.1.0").with(object{
			"threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00010", "payTokenSource": "01", "whiteListStatus": "Y",
		}), []string{"threeDSRequestorDecReqInd", "threeDSRequestorDecMaxTime", "payTokenSource", "whiteListStatus"}},
		{"members of an app in a browser", s.request("2.2.0").with(object{
			"sdkAppID": newUUID(), "sdkTransID": "not even one", "sdkMaxTimeout": "1", "deviceRenderOptions": object{"x": 1}, "deviceInfo": 5,
		}), []string{"sdkAppID", "sdkTransID", "sdkMaxTimeout", "deviceRenderOptions", "deviceInfo"}},
		{"members of a browser in an app", app("2.2.0", testPAN, "").with(object{
			"browserIP": "nonsense", "notificationURL": "nonsense", "threeDSCompInd": "Z", "threeRIInd": "99", "browserJavaEnabled": "x",
		}), []string{"browserIP", "notificationURL", "threeDSCompInd", "threeRIInd", "browserJavaEnabled"}},
		{"purchaseDate in a 3RI without a payment", threeRI("2.1.0", testPAN, "").with(object{"purchaseDate": "yesterday", "purchaseAmount": "x"}),
			[]string{"purchaseDate", "purchaseAmount"}},
		{"members of a browser in a 3RI", threeRI("2.2.0", testPAN, "").with(object{"browserUserAgent": "x", "threeDSCompInd": "Y", "sdkAppID": "x"}),
			[]string{"browserUserAgent", "threeDSCompInd", "sdkAppID"}},
		{"what the DS and the ACS set between them", s.request("2.3.1").with(object{"cardSecurityCodeStatus": "Y", "dsURL": "https://x.example", "dsTransID": newUUID()}),
			[]string{"cardSecurityCodeStatus", "dsURL", "dsTransID"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := s.in(t).through(tt.req)
			for _, name := range tt.gone {
				same(t, got, name, nil)
			}
		})
	}
}

func TestR6ServerMembersAreOverwritten(t *testing.T) {
	s := reading(t, plan{
		sections: `merchants:
  - {name: With, requestor_id: MerchantID, requestor_name: Merchant Name}
  - {name: Per, requestor_id: MerchantID, requestor_name: Merchant Name, per_directory: {visa: {requestor_id: MerchantVisaID, requestor_name: Merchant Visa Name}}}
`,
		visa: "    requestor_id: DirectoryID\n    requestor_name: Directory Name\n",
	})
	t.Run("overwritten", func(t *testing.T) {
		eachVersion(t, s, func(s *site, v string) {
			got := s.through(s.request(v).with(object{
				"threeDSServerRefNumber": "mine", "threeDSServerOperatorID": "mine", "threeDSServerURL": "https://mine.example",
			}))
			same(s.t, got, "threeDSServerRefNumber", "3DS_LOA_SER_TEST_020301_00001")
			same(s.t, got, "threeDSServerOperatorID", "operator-visa")
			same(s.t, got, "threeDSServerURL", "https://results.example/results")
		})
	})
	server := reading(t)
	own := object{"threeDSRequestorID": "CallerID", "threeDSRequestorName": "Caller Name"}
	for _, tt := range []struct {
		name, key string
		s         *site
		own       object
		id, who   string
	}{
		{"the merchant's for that directory", s.key("Per"), s, own, "MerchantVisaID", "Merchant Visa Name"},
		{"else the merchant's", s.key("With"), s, own, "MerchantID", "Merchant Name"},
		{"else the caller's", s.APIKey, s, own, "CallerID", "Caller Name"},
		{"else the directory's", s.APIKey, s, nil, "DirectoryID", "Directory Name"},
		{"else the server's", server.APIKey, server, nil, "ServerID", "Server Name"},
		{"empty is none", s.APIKey, s, object{"threeDSRequestorID": "", "threeDSRequestorName": ""}, "DirectoryID", "Directory Name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.s.in(t)
			s.APIKey = tt.key
			got := s.through(s.request("2.2.0").with(tt.own))
			same(t, got, "threeDSRequestorID", tt.id)
			same(t, got, "threeDSRequestorName", tt.who)
		})
	}
}

// insert puts JSON text in front of the last brace.
func insert(o object, text string) []byte {
	data := marshal(o)
	return append(data[:len(data)-1], text+"}"...)
}

func TestR7MembersGivenTwice(t *testing.T) {
	s := reading(t)
	eachVersion(t, s, func(s *site, v string) {
		for _, tt := range []struct{ name, text, detail string }{
			{"same", `,"mcc":"5411"`, "mcc"},
			{"another case", `,"MCC":"5411"`, "mcc"},
			{"null", `,"mcc":null`, "mcc"},
			{"escaped", `,"\u006dcc":"5411"`, "mcc"},
			{"within", `,"acctInfo":{"chAccAgeInd":"01","chaccageind":"02"}`, "acctInfo.chAccAgeInd"},
			{"two of them", `,"mcc":"5411","acctNumber":"1"`, "mcc,acctNumber"},
			{"of a name we do not know", `,"foo":1,"FOO":1`, ""},
		} {
			t.Run(v+" "+tt.name, func(t *testing.T) {
				got := s.in(t).refused("/auth", insert(s.request(v), tt.text), expected{code: "204"})
				if detail := got.text("errorDetail"); tt.detail != "" && detail != tt.detail || detail == "" {
					t.Errorf("errorDetail = %q, want %q", detail, tt.detail)
				}
			})
		}
	})
	s.refused("/preauth", `{"acctNumber":"4000001234567890","acctnumber":"4000001234567890"}`, expected{code: "204", detail: "acctNumber"})
	s.refused("/postauth", fmt.Sprintf(`{"threeDSServerTransID":"%s","threeDSServerTransID":"%[1]s"}`, newUUID()),
		expected{code: "204", detail: "threeDSServerTransID"})
}

func TestR8ExtensionDataPassesUnchanged(t *testing.T) {
	s := reading(t)
	const data = `{"a" : 1.50e+3,  "b":null,"c":{ },"d":"\u00e9\/ é","e":[0.10, -0, 1E40,123456789012345678901234567890]}`
	eachVersion(t, s, func(s *site, v string) {
		ext := fmt.Sprintf(`,"messageExtension":[ {"name":"n","data":%s,"ID":"A1","criticalityIndicator":false}]`, data)
		code, got := s.post("/auth", insert(s.request(v), ext))
		if code != 200 {
			s.t.Fatalf("/auth: %d %v", code, got)
		}
		if sent := s.ds.got(got.text("threeDSServerTransID")); !bytes.Contains(sent, []byte(`"data":`+data)) {
			s.t.Errorf("the data went out in other bytes: %s", sent)
		}
	})
}

// names are what an errorDetail lists.
func names(got object) []string { return strings.Split(got.text("errorDetail"), ",") }

func TestR12FaultsAreFoundInOnePass(t *testing.T) {
	s := reading(t)
	eachVersion(t, s, func(s *site, v string) {
		req := s.request(v).with(object{
			"acquirerBIN": nil, "mcc": nil, "purchaseCurrency": "999x", "merchantCountryCode": 5, "browserIP": "",
		})
		got := s.refused("/auth", req, expected{code: "201"})
		want := []string{"acquirerBIN", "mcc", "purchaseCurrency", "merchantCountryCode"}
		for _, name := range want {
			if !slices.Contains(names(got), name) {
				s.t.Errorf("%s is not named in %q", name, got.text("errorDetail"))
			}
		}
	})
	t.Run("five faults", func(t *testing.T) {
		s := s.in(t)
		req := s.request("2.2.0").with(object{
			"acquirerBIN": nil, "mcc": "54", "purchaseCurrency": "963", "acctInfo": object{"chAccAgeInd": "77"},
			"threeDSRequestorAuthenticationInd": "99999",
		})
		got := s.refused("/auth", req, expected{code: "201"})
		want := []string{"acquirerBIN", "acctInfo.chAccAgeInd", "mcc", "purchaseCurrency", "threeDSRequestorAuthenticationInd"}
		if have := names(got); have[0] != "acquirerBIN" || len(have) != len(want) {
			t.Errorf("errorDetail = %q, want %q, the first one first", have, want)
		}
		for _, name := range want {
			if !slices.Contains(names(got), name) {
				t.Errorf("%s is not named in %q", name, got.text("errorDetail"))
			}
		}
	})
	s.order(t)
}

// order takes a request with a fault of every code, with an id of another card,
// and repairs one after the other: each time the next code has to win.
func (s *site) order(t *testing.T) {
	req := browser("9.9.9", "4000009999999995", s.id(), "U").with(object{
		"acquirerBIN": nil, "mcc": "54", "purchaseCurrency": "963", "threeDSRequestorAuthenticationInd": "77",
		"messageExtension": []object{{"id": "A-critical", "name": "n", "criticalityIndicator": true, "data": object{"a": 1}}},
	})
	faulty := insert(req, `,"mcc":"54"`)
	steps := []struct {
		name, code string
		repair     func()
	}{
		{"Invalid JSON", "203", func() {}},
		{"204", "204", func() {}},
		{"102, unknown version", "102", func() { req["messageVersion"] = "2.3.1" }},
		{"201", "201", func() { req["acquirerBIN"] = "400000" }},
		{"202", "202", func() { delete(req, "messageExtension") }},
		{"203", "203", func() { req["mcc"] = "5411" }},
		{"207", "207", func() { req["threeDSRequestorAuthenticationInd"] = "01" }},
		{"304", "304", func() { req["purchaseCurrency"] = "978" }},
		{"305, another card", "305", func() {}},
	}
	for i, step := range steps {
		t.Run("order: "+step.name, func(t *testing.T) {
			var body any = req
			switch i {
			case 0:
				body = append([]byte("{"), faulty...)
			case 1:
				body = faulty
			}
			want := expected{code: step.code}
			if i == 0 {
				want.description = "Invalid JSON"
			}
			got := s.in(t).refused("/auth", body, want)
			if strings.Contains(got.text("errorDetail"), "400000") {
				t.Errorf("a value in errorDetail: %q", got.text("errorDetail"))
			}
		})
		step.repair()
	}
}
