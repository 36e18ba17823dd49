package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// eachVersion runs a subtest per version with the site's requests of it.
func eachVersion(t *testing.T, s *rig.Site, f func(s *rig.Site, version string)) {
	t.Helper()
	for _, v := range rig.AllVersions {
		t.Run(v, func(t *testing.T) { f(s.In(t), v) })
	}
}

// same compares one member of what the directory server got.
func same(t *testing.T, areq rig.Object, name string, want any) {
	t.Helper()
	got, _ := json.Marshal(areq[name])
	wanted, _ := json.Marshal(want)
	if _, there := areq[name]; want == nil && there || !bytes.Equal(got, wanted) {
		t.Errorf("%s went out as %s, want %s", name, got, wanted)
	}
}

func TestR1MemberNamesInAnyCase(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	eachVersion(t, s, func(s *rig.Site, v string) {
		plain := s.Through(s.Request(v))
		odd := s.Request(v).Renamed(map[string]string{
			"threeDSServerTransID": "threeDsserverTransId", "notificationURL": "notificationUrl", "acquirerBIN": "acquirerBin",
			"acctNumber": "ACCTNUMBER", "messageVersion": "messageversion", "threeDSCompInd": "ThreeDSCompInd", "mcc": "MCC",
		})
		odd["merchantRiskIndicator"] = rig.Object{"ShipIndicator": "01", "deliveryTIMEframe": "02"}
		got := s.Through(odd)
		same(t, got, "merchantRiskIndicator", rig.Object{"shipIndicator": "01", "deliveryTimeframe": "02"})
		for name := range got {
			if _, there := plain[name]; !there && name != "merchantRiskIndicator" {
				s.T.Errorf("%s went out, a name of no AReq", name)
			}
		}
		if len(got) != len(plain)+1 {
			s.T.Errorf("%d members went out, want %d", len(got), len(plain)+1)
		}
		code, crd := s.Post("/preauth", rig.Object{"ACCTNumber": rig.EnrolledPAN, "DS": "visa"})
		if code != 200 || crd.Text("scheme") != "visa" {
			s.T.Errorf("/preauth: %d %v", code, crd)
		}
	})
	t.Run("a directory is taken by the letter", func(t *testing.T) {
		s := s.In(t)
		s.Directory.SetAnswer(func(areq rig.Object) (int, []byte) {
			return 200, rig.Marshal(rig.ARes(areq, "Y").Renamed(map[string]string{"transStatus": "TransStatus"}))
		})
		defer s.Directory.SetAnswer(nil)
		s.Refused("/auth", s.Request("2.2.0"), rig.Expected{Code: "201", Detail: "transStatus"})
	})
}

func TestR2NullIsAbsent(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	eachVersion(t, s, func(s *rig.Site, v string) {
		plain := s.Through(s.Request(v))
		for name, req := range map[string]rig.Object{
			"null":   {"cardholderName": nil, "merchantRiskIndicator": nil, "purchaseInstalData": nil, "threeDSRequestorChallengeInd": nil},
			"within": {"merchantRiskIndicator": rig.Object{"shipIndicator": nil}, "acctInfo": rig.Object{}, "messageExtension": []any{}},
			"deep": {"acctInfo": rig.Object{"chAccAgeInd": nil, "x": rig.Object{"y": nil}},
				"threeDSRequestorAuthenticationInfo": rig.Object{"threeDSReqAuthMethod": nil}},
			"items": {"messageExtension": []any{nil}},
		} {
			t.Run(v+" "+name, func(t *testing.T) {
				s := s.In(t)
				all := s.Request(v)
				for name, value := range req {
					all[name] = value // null too
				}
				got := s.Through(all)
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
			got := s.In(t).Through(s.Request(v).With(rig.Object{"messageExtension": []rig.Object{
				{"id": "A1", "name": "n", "criticalityIndicator": false, "data": rig.Object{"a": nil, "b": rig.Object{}, "c": []any{}, "d": ""}},
			}}))
			same(t, got, "messageExtension", []rig.Object{
				{"id": "A1", "name": "n", "criticalityIndicator": false, "data": rig.Object{"a": nil, "b": rig.Object{}, "c": []any{}, "d": ""}},
			})
		})
		t.Run(v+" required", func(t *testing.T) {
			all := s.In(t).Request(v)
			all["acquirerMerchantID"] = nil
			s.In(t).Refused("/auth", all, rig.Expected{Code: "201", Detail: "acquirerMerchantID"})
		})
	})
}

func TestR3EmptyTextIsAbsent(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	eachVersion(t, s, func(s *rig.Site, v string) {
		got := s.Through(s.Request(v).With(rig.Object{
			"cardholderName": "", "email": "", "acctInfo": rig.Object{"chAccAgeInd": ""}, "threeDSRequestorChallengeInd": "",
		}))
		for _, name := range []string{"cardholderName", "email", "acctInfo", "threeDSRequestorChallengeInd"} {
			same(s.T, got, name, nil)
		}
		s.Refused("/auth", s.Request(v).With(rig.Object{"acquirerBIN": ""}), rig.Expected{Code: "201", Detail: "acquirerBIN"})
		s.Refused("/preauth", rig.Object{"acctNumber": ""}, rig.Expected{Code: "201", Detail: "acctNumber"})
		if code, crd := s.Post("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN, "ds": ""}); code != 200 {
			s.T.Errorf("ds empty: %d %v, want 200", code, crd)
		}
	})
}

func TestR4UnknownMembersAreDropped(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	eachVersion(t, s, func(s *rig.Site, v string) {
		plain := s.Through(s.Request(v))
		got := s.Through(s.Request(v).With(rig.Object{
			"unknown": "x", "another": rig.Object{"deep": []any{1, 2, rig.Object{"z": "ü"}}}, "skip": true, "émoji": "🂡",
			"merchantRiskIndicator": rig.Object{"shipIndicator": "01", "unknown": 1},
		}))
		same(s.T, got, "merchantRiskIndicator", rig.Object{"shipIndicator": "01"})
		if len(got) != len(plain)+1 {
			s.T.Errorf("%d members went out, want %d: %v", len(got), len(plain)+1, got)
		}
		if code, crd := s.Post("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN, "unknown": rig.Object{"x": 1}}); code != 200 {
			s.T.Errorf("/preauth: %d %v", code, crd)
		}
	})
}

func TestR5MembersOfOtherVersionsAreDropped(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	for _, tt := range []struct {
		name string
		req  rig.Object
		gone []string
	}{
		{"browserJavascriptEnabled in 2.1.0", s.Request("2.1.0").With(rig.Object{"browserJavascriptEnabled": true}), []string{"browserJavascriptEnabled"}},
		{"members of 2.2.0 in 2.1.0", s.Request("2.1.0").With(rig.Object{
			"threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00010", "payTokenSource": "01", "whiteListStatus": "Y",
		}), []string{"threeDSRequestorDecReqInd", "threeDSRequestorDecMaxTime", "payTokenSource", "whiteListStatus"}},
		{"members of an app in a browser", s.Request("2.2.0").With(rig.Object{
			"sdkAppID": rig.NewUUID(), "sdkTransID": "not even one", "sdkMaxTimeout": "1", "deviceRenderOptions": rig.Object{"x": 1}, "deviceInfo": 5,
		}), []string{"sdkAppID", "sdkTransID", "sdkMaxTimeout", "deviceRenderOptions", "deviceInfo"}},
		{"members of a browser in an app", rig.AppRequest("2.2.0", rig.EnrolledPAN, "").With(rig.Object{
			"browserIP": "nonsense", "notificationURL": "nonsense", "threeDSCompInd": "Z", "threeRIInd": "99", "browserJavaEnabled": "x",
		}), []string{"browserIP", "notificationURL", "threeDSCompInd", "threeRIInd", "browserJavaEnabled"}},
		{"purchaseDate in a 3RI without a payment",
			rig.ThreeRIRequest("2.1.0", rig.EnrolledPAN, "").With(rig.Object{"purchaseDate": "yesterday", "purchaseAmount": "x"}),
			[]string{"purchaseDate", "purchaseAmount"}},
		{"members of a browser in a 3RI",
			rig.ThreeRIRequest("2.2.0", rig.EnrolledPAN, "").With(rig.Object{"browserUserAgent": "x", "threeDSCompInd": "Y", "sdkAppID": "x"}),
			[]string{"browserUserAgent", "threeDSCompInd", "sdkAppID"}},
		{"what the DS and the ACS set between them",
			s.Request("2.3.1").With(rig.Object{"cardSecurityCodeStatus": "Y", "dsURL": "https://x.example", "dsTransID": rig.NewUUID()}),
			[]string{"cardSecurityCodeStatus", "dsURL", "dsTransID"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := s.In(t).Through(tt.req)
			for _, name := range tt.gone {
				same(t, got, name, nil)
			}
		})
	}
}

func TestR6ServerMembersAreOverwritten(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t, rig.Plan{
		Sections: `merchants:
  - {name: With, requestor_id: MerchantID, requestor_name: Merchant Name}
  - {name: Per, requestor_id: MerchantID, requestor_name: Merchant Name, per_directory: {visa: {requestor_id: MerchantVisaID, requestor_name: Merchant Visa Name}}}
`,
		Visa: "    requestor_id: DirectoryID\n    requestor_name: Directory Name\n",
	})
	t.Run("overwritten", func(t *testing.T) {
		eachVersion(t, s, func(s *rig.Site, v string) {
			got := s.Through(s.Request(v).With(rig.Object{
				"threeDSServerRefNumber": "mine", "threeDSServerOperatorID": "mine", "threeDSServerURL": "https://mine.example",
			}))
			same(s.T, got, "threeDSServerRefNumber", "3DS_LOA_SER_TEST_020301_00001")
			same(s.T, got, "threeDSServerOperatorID", "operator-visa")
			same(s.T, got, "threeDSServerURL", "https://results.example/results")
		})
	})
	server := rig.NewSite(t)
	own := rig.Object{"threeDSRequestorID": "CallerID", "threeDSRequestorName": "Caller Name"}
	for _, tt := range []struct {
		name, key string
		s         *rig.Site
		own       rig.Object
		id, who   string
	}{
		{"the merchant's for that directory", s.CreateKey("Per"), s, own, "MerchantVisaID", "Merchant Visa Name"},
		{"else the merchant's", s.CreateKey("With"), s, own, "MerchantID", "Merchant Name"},
		{"else the caller's", s.APIKey, s, own, "CallerID", "Caller Name"},
		{"else the directory's", s.APIKey, s, nil, "DirectoryID", "Directory Name"},
		{"else the server's", server.APIKey, server, nil, "ServerID", "Server Name"},
		{"empty is none", s.APIKey, s, rig.Object{"threeDSRequestorID": "", "threeDSRequestorName": ""}, "DirectoryID", "Directory Name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.s.In(t)
			s.APIKey = tt.key
			got := s.Through(s.Request("2.2.0").With(tt.own))
			same(t, got, "threeDSRequestorID", tt.id)
			same(t, got, "threeDSRequestorName", tt.who)
		})
	}
}

func TestR7MembersGivenTwice(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	eachVersion(t, s, func(s *rig.Site, v string) {
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
				got := s.In(t).Refused("/auth", rig.InsertText(s.Request(v), tt.text), rig.Expected{Code: "204"})
				if detail := got.Text("errorDetail"); tt.detail != "" && detail != tt.detail || detail == "" {
					t.Errorf("errorDetail = %q, want %q", detail, tt.detail)
				}
			})
		}
	})
	s.Refused("/preauth", `{"acctNumber":"4000001234567890","acctnumber":"4000001234567890"}`, rig.Expected{Code: "204", Detail: "acctNumber"})
	s.Refused("/postauth", fmt.Sprintf(`{"threeDSServerTransID":"%s","threeDSServerTransID":"%[1]s"}`, rig.NewUUID()),
		rig.Expected{Code: "204", Detail: "threeDSServerTransID"})
}

func TestR8ExtensionDataPassesUnchanged(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	const data = `{"a" : 1.50e+3,  "b":null,"c":{ },"d":"\u00e9\/ é","e":[0.10, -0, 1E40,123456789012345678901234567890]}`
	eachVersion(t, s, func(s *rig.Site, v string) {
		ext := fmt.Sprintf(`,"messageExtension":[ {"name":"n","data":%s,"ID":"A1","criticalityIndicator":false}]`, data)
		code, got := s.Post("/auth", rig.InsertText(s.Request(v), ext))
		if code != 200 {
			s.T.Fatalf("/auth: %d %v", code, got)
		}
		if sent := s.Directory.Got(got.Text("threeDSServerTransID")); !bytes.Contains(sent, []byte(`"data":`+data)) {
			s.T.Errorf("the data went out in other bytes: %s", sent)
		}
	})
}

// names are what an errorDetail lists.
func names(got rig.Object) []string { return strings.Split(got.Text("errorDetail"), ",") }

func TestR12FaultsAreFoundInOnePass(t *testing.T) {
	t.Parallel()
	s := rig.NewSite(t)
	eachVersion(t, s, func(s *rig.Site, v string) {
		req := s.Request(v).With(rig.Object{
			"acquirerBIN": nil, "mcc": nil, "purchaseCurrency": "999x", "merchantCountryCode": 5, "browserIP": "",
		})
		got := s.Refused("/auth", req, rig.Expected{Code: "201"})
		want := []string{"acquirerBIN", "mcc", "purchaseCurrency", "merchantCountryCode"}
		for _, name := range want {
			if !slices.Contains(names(got), name) {
				s.T.Errorf("%s is not named in %q", name, got.Text("errorDetail"))
			}
		}
	})
	t.Run("five faults", func(t *testing.T) {
		s := s.In(t)
		req := s.Request("2.2.0").With(rig.Object{
			"acquirerBIN": nil, "mcc": "54", "purchaseCurrency": "963", "acctInfo": rig.Object{"chAccAgeInd": "77"},
			"threeDSRequestorAuthenticationInd": "99999",
		})
		got := s.Refused("/auth", req, rig.Expected{Code: "201"})
		want := []string{"acquirerBIN", "acctInfo.chAccAgeInd", "mcc", "purchaseCurrency", "threeDSRequestorAuthenticationInd"}
		if have := names(got); have[0] != "acquirerBIN" || len(have) != len(want) {
			t.Errorf("errorDetail = %q, want %q, the first one first", have, want)
		}
		for _, name := range want {
			if !slices.Contains(names(got), name) {
				t.Errorf("%s is not named in %q", name, got.Text("errorDetail"))
			}
		}
	})
	order(s, t)
}

// order takes a request with a fault of every code, with an id of another card,
// and repairs one after the other: each time the next code has to win.
func order(s *rig.Site, t *testing.T) {
	req := rig.BrowserRequest("9.9.9", "4000009999999995", s.NewTransactionID(), "U").With(rig.Object{
		"acquirerBIN": nil, "mcc": "54", "purchaseCurrency": "963", "threeDSRequestorAuthenticationInd": "77",
		"messageExtension": []rig.Object{{"id": "A-critical", "name": "n", "criticalityIndicator": true, "data": rig.Object{"a": 1}}},
	})
	faulty := rig.InsertText(req, `,"mcc":"54"`)
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
			want := rig.Expected{Code: step.code}
			if i == 0 {
				want.Description = "Invalid JSON"
			}
			got := s.In(t).Refused("/auth", body, want)
			if strings.Contains(got.Text("errorDetail"), "400000") {
				t.Errorf("a value in errorDetail: %q", got.Text("errorDetail"))
			}
		})
		step.repair()
	}
}
