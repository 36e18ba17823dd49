package sandbox_test

import (
	"encoding/base64"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/protocol/scheme"
	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/sandbox"
)

// expectAnswer sends an AReq and compares members of the answer; nil means that the member is absent. The
// answer is a good one for the AReq.
func (s *server) expectAnswer(areq, want members) {
	s.t.Helper()
	got := s.ask(areq)
	for name, value := range want {
		if got[name] != value {
			s.t.Errorf("%v %v: %s = %v, want %v in %v", areq["messageVersion"], areq["acctNumber"], name, got[name], value, got)
		}
	}
	valid(s.t, members(got).json(s.t), message.Context{AReq: parse(s.t, areq.json(s.t))})
}

// TestDataOnlyOfMastercardIsNeverTheIssuers: category 80 is answered by the directory server, whatever the card.
func TestDataOnlyOfMastercardIsNeverTheIssuers(t *testing.T) {
	t.Parallel()
	s := newServer(t, start(t, nil))
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		for _, channel := range []string{"01", "02"} {
			for _, end := range []string{"03", "13", "23", "33", "43", "53", "63", "70", "72", "83"} {
				areq := s.areq(version, channel, "51000000000001"+end).with(members{"messageCategory": "80"})
				s.expectAnswer(areq, members{
					"transStatus": "U", "transStatusReason": "80", "eci": "04", "acsURL": nil, "acsChallengeMandated": nil,
				})
				if value, _ := s.ask(areq.with(members{"threeDSServerTransID": newID()}))["authenticationValue"].(string); len(value) != 28 {
					t.Errorf("%s %s %s: authenticationValue %q", version, channel, end, value)
				}
			}
		}
	}
	s.none()
	s.expectAnswer(s.areq("2.2.0", "02", "5100000000000199").with(members{"messageCategory": "80"}), members{"errorCode": "305"})
	s.expectAnswer(s.areq("2.2.0", "02", "5100000000003103").with(members{"messageCategory": "80"}), members{"errorCode": "102"})
}

// TestDataShareOfVisaShiftsNothing: with the challenge indicators 06 and 82 the ECI is 07.
func TestDataShareOfVisaShiftsNothing(t *testing.T) {
	t.Parallel()
	s := newServer(t, start(t, nil))
	share := func(version, code string) members {
		if version == "2.3.1" {
			return members{"threeDSRequestorChallengeInd": []string{"02", code}}
		}
		return members{"threeDSRequestorChallengeInd": code}
	}
	for _, test := range []struct {
		version, code, end string
		want               members
	}{
		{"2.1.0", "82", "03", members{"transStatus": "N", "transStatusReason": "89", "eci": "07"}},
		{"2.2.0", "06", "03", members{"transStatus": "I", "eci": "07"}},
		{"2.2.0", "82", "03", members{"transStatus": "I", "eci": "07"}},
		{"2.3.1", "06", "03", members{"transStatus": "I", "eci": "07"}},
		{"2.3.1", "82", "23", members{"transStatus": "I", "eci": "07"}},
		{"2.2.0", "06", "13", members{"transStatus": "N", "eci": "07"}},
		{"2.2.0", "82", "33", members{"transStatus": "R", "eci": "07"}},
		{"2.2.0", "06", "53", members{"transStatus": "U", "eci": "07"}},
		{"2.2.0", "05", "03", members{"transStatus": "Y", "eci": "05"}},
	} {
		areq := s.areq(test.version, "02", "40000000000001"+test.end).with(share(test.version, test.code))
		s.expectAnswer(areq, test.want)
	}
	s.expectAnswer(s.areq("2.2.0", "02", "5100000000000103").with(share("2.2.0", "06")), members{"transStatus": "Y", "eci": "02"})
}

// TestPaymentsWithoutTheCardholderByScheme: what each scheme routes in 3RI, and the ECI that it gives.
func TestPaymentsWithoutTheCardholderByScheme(t *testing.T) {
	t.Parallel()
	s := newServer(t, start(t, nil))
	extended := func(id string, data members) members {
		return members{"messageExtension": []members{{"name": "Extension", "id": id, "criticalityIndicator": false, "data": data}}}
	}
	framework := extended("A000000003-099", members{"version": "1.0", "authPayProcessReqInd": "01"})
	bridging := extended("A000000802-004", members{"version": "2.0"})
	subscription := members{"recurringExpiry": "20301231", "recurringFrequency": "28", "purchaseInstalData": "6"}
	notRouted := members{"transStatus": "N", "transStatusReason": "87", "authenticationValue": nil}
	for _, test := range []struct {
		version, pan, indicator string
		changes, want           members
	}{
		{"2.2.0", "4000000000000103", "01", nil, notRouted},
		{"2.2.0", "4000000000000103", "02", nil, notRouted},
		{"2.2.0", "4000000000000103", "01", framework, members{"transStatus": "Y", "eci": "05"}},
		{"2.2.0", "4000000000000103", "02", framework, members{"transStatus": "Y", "eci": "05"}},
		{"2.2.0", "4000000000000103", "06", nil, members{"transStatus": "Y", "eci": "05"}},
		{"2.2.0", "4000000000000103", "08", nil, members{"transStatus": "Y", "eci": "05"}},
		{"2.2.0", "5100000000000103", "01", nil, members{"transStatus": "Y", "eci": "07"}},
		{"2.2.0", "5100000000000123", "11", nil, members{"transStatus": "A", "eci": "07"}},
		{"2.2.0", "5100000000000113", "11", nil, members{"transStatus": "N", "eci": "00"}},
		{"2.2.0", "5100000000000103", "06", nil, notRouted},
		{"2.2.0", "5100000000000103", "06", bridging, members{"transStatus": "Y", "eci": "07"}},
		{"2.3.1", "5100000000000103", "06", nil, members{"transStatus": "Y", "eci": "07"}},
		{"2.2.0", "340000000000103", "01", nil, members{"transStatus": "Y", "eci": "05"}},
		{"2.2.0", "5100000000000103", "11", members{"messageCategory": "02"}, members{"transStatus": "Y", "eci": "N2"}},
	} {
		changes := members{"threeRIInd": test.indicator}
		if test.indicator == "01" || test.indicator == "02" {
			maps.Copy(changes, subscription)
		}
		maps.Copy(changes, test.changes)
		s.expectAnswer(s.areq(test.version, "03", test.pan).with(changes), test.want)
	}
}

// TestD88CompIndOfMethodThatNeverRan: case 07 and its siblings. A threeDSCompInd Y whose 3DS Method has not completed
// is noted, and refused if the sandbox is strict.
func TestD88CompIndOfMethodThatNeverRan(t *testing.T) {
	t.Parallel()
	const own = "http://localhost:1234/strict"
	for name, box := range map[string]*sandbox.Sandbox{
		"lenient": start(t, nil),
		"strict":  start(t, func(s *sandbox.Sandbox) { s.Strict = true }),
		"strict for some": start(t, func(s *sandbox.Sandbox) {
			s.IsStrictFor = func(notificationURL string) bool { return notificationURL == own }
		}),
	} {
		s := newServer(t, box)
		run := func(pan, id, back string) {
			card, _ := box.Card(pan)
			raw := members{"threeDSServerTransID": id, "threeDSMethodNotificationURL": back}.json(t)
			send(t, card.MethodURL, url.Values{"threeDSMethodData": {base64.RawURLEncoding.EncodeToString(raw)}})
		}
		const back, method, silent, none = "http://localhost/", "4000000000000003", "4000000000000203", "4000000000000103"
		for _, test := range []struct {
			name, version, pan string
			before             func(id string) (earlier string)
			isTrue             bool
		}{
			{"never posted", "2.2.0", method, nil, false},
			{"never posted in 2.1.0", "2.1.0", method, nil, false},
			{"never posted in 2.3.1", "2.3.1", method, nil, false},
			{"refused with 400", "2.2.0", method, func(id string) string { run(method, id, "javascript:x"); return "" }, false},
			{"silent", "2.2.0", silent, func(id string) string { run(silent, id, back); return "" }, false},
			{"run for another id", "2.2.0", method, func(string) string { run(method, newID(), back); return "" }, false},
			{"no method at all", "2.2.0", none, nil, false},
			{"an earlier run that never was", "2.3.1", method, func(string) string { return newID() }, false},
			{"run", "2.2.0", method, func(id string) string { run(method, id, back); return "" }, true},
			{"an earlier run", "2.3.1", method, func(string) string {
				earlier := newID()
				run(method, earlier, back)
				return earlier
			}, true},
		} {
			areq := s.areq(test.version, "02", test.pan).with(members{"threeDSCompInd": "Y"})
			if name == "strict for some" {
				areq["notificationURL"] = own
			}
			if test.before != nil {
				if earlier := test.before(areq["threeDSServerTransID"].(string)); earlier != "" {
					areq["threeDSMethodId"] = earlier
				}
			}
			got := s.ask(areq)
			if isRefused := got["messageType"] == "Erro"; isRefused == (test.isTrue || name == "lenient") {
				t.Errorf("%s, %s: %v", name, test.name, got)
			} else if isRefused && (got["errorCode"] != "305" || got["errorComponent"] != "D" || got["errorDescription"] != "Invalid ThreeDSCompInd") {
				t.Errorf("%s, %s: %v", name, test.name, got)
			}
			if all := box.Received(areq["threeDSServerTransID"].(string)); test.isTrue != !slices.ContainsFunc(all, isUntrue) {
				t.Errorf("%s, %s: noted %v", name, test.name, all)
			}
		}
		if got := s.ask(s.areq("2.2.0", "02", method).with(members{"threeDSCompInd": "Y"})); name == "strict for some" && got["transStatus"] != "Y" {
			t.Errorf("another requestor is held to it: %v", got)
		}
	}
}

func isUntrue(e sandbox.Exchange) bool { return strings.HasPrefix(e.Note, "threeDSCompInd is Y") }

// TestCodesThatTheSchemeDoesNotDefineAreRefused: values of 80 to 99 mean what the directory server defines, and a
// value that it does not define is refused.
func TestCodesThatTheSchemeDoesNotDefineAreRefused(t *testing.T) {
	t.Parallel()
	s := newServer(t, start(t, nil))
	const visa, mastercard, amex, standin = "4000000000000103", "5100000000000103", "340000000000103", "3000000000000103"
	for _, test := range []struct {
		element, code, pan string
		good               bool
	}{
		{"messageCategory", "80", visa, false},
		{"messageCategory", "81", mastercard, false},
		{"messageCategory", "80", mastercard, true},
		{"messageCategory", "99", standin, false},
		{"threeDSRequestorChallengeInd", "82", visa, true},
		{"threeDSRequestorChallengeInd", "81", visa, false},
		{"threeDSRequestorChallengeInd", "82", amex, false},
		{"threeDSRequestorAuthenticationInd", "85", mastercard, true},
		{"threeDSRequestorAuthenticationInd", "85", visa, false},
		{"threeDSRequestorAuthenticationInd", "90", mastercard, false},
	} {
		for version, code := range map[string]string{"2.1.0": "203", "2.2.0": "203", "2.3.1": "207"} {
			var value any = test.code
			if version == "2.3.1" && test.element == "threeDSRequestorChallengeInd" {
				value = []string{"02", test.code}
			}
			got := s.ask(s.areq(version, "02", test.pan).with(members{test.element: value}))
			isRefused := got["errorCode"] == code && got["errorDetail"] == test.element && got["errorComponent"] == "D"
			if isRefused == test.good || test.good && got["messageType"] != "ARes" {
				t.Errorf("%s %s %s, %s: %v", version, test.element, test.code, test.pan, got)
			}
		}
	}
	for pan, good := range map[string]bool{visa: true, mastercard: false} {
		if got := s.ask(s.areq("2.2.0", "03", pan).with(members{"threeRIInd": "80"})); (got["messageType"] == "ARes") != good {
			t.Errorf("threeRIInd 80, %s: %v", pan, got)
		}
	}
}

// TestSchemesDefineWhatTheirProfilesDefine: the sandbox takes a code of a scheme exactly if the profile of the scheme
// has a meaning for it.
func TestSchemesDefineWhatTheirProfilesDefine(t *testing.T) {
	t.Parallel()
	s := newServer(t, start(t, nil))
	for word, pan := range map[string]string{"visa": "4000000000000103", "mastercard": "5100000000000103", "jcb": "3528000000000103"} {
		for channel, elements := range map[string][]string{
			"02": {"messageCategory", "threeDSRequestorChallengeInd", "threeDSRequestorAuthenticationInd"}, "03": {"threeRIInd"},
		} {
			for _, element := range elements {
				for code := 80; code <= 99; code++ {
					value := strconv.Itoa(code)
					got := s.ask(s.areq("2.2.0", channel, pan).with(members{element: value}))
					if defines := scheme.Public(word).Meaning(element, value) != ""; (got["messageType"] == "ARes") != defines {
						t.Errorf("%s, %s %s: %v, in the profile: %t", word, element, value, got, defines)
					}
				}
			}
		}
	}
}

// TestControlCharactersAreRefused: text with control characters gets Erro 203 that names the element.
func TestControlCharactersAreRefused(t *testing.T) {
	t.Parallel()
	s := newServer(t, start(t, nil))
	for _, test := range []struct {
		version string
		changes members
		want    any // errorDetail, nil if the AReq is good
	}{
		{"2.1.0", members{"merchantName": "Bicycles\n& Sons"}, "merchantName"},
		{"2.2.0", members{"merchantName": "Bicycles\x00"}, "merchantName"},
		{"2.2.0", members{"billAddrLine1": "Main\tStreet"}, "billAddrLine1"},
		{"2.2.0", members{"cardholderName": "Ann\x7f"}, "cardholderName"},
		{"2.2.0", members{"shipAddrCity": "Oslo\u0085"}, "shipAddrCity"},
		{"2.3.1", members{"merchantName": "a\u202eb", "shipAddrCity": "c\r"}, "merchantName,shipAddrCity"},
		{"2.3.1", members{"merchantName": "a\u2028b"}, "merchantName"},
		{"2.3.1", members{"merchantRiskIndicator": members{"deliveryEmailAddress": "a\n@shop.example"}}, "merchantRiskIndicator.deliveryEmailAddress"},
		{"2.3.1", members{"acceptLanguage": []string{"en", "d\u0001e"}}, "acceptLanguage"},
		{"2.2.0", members{"merchantName": `quote " and backslash \ and Jürgen`}, nil},
		{"2.2.0", members{"messageExtension": []members{{
			"name": "x", "id": "A000000003-x", "criticalityIndicator": false, "data": members{"text": "two\nlines"},
		}}}, nil},
	} {
		got := s.ask(s.areq(test.version, "02", "4000000000000103").with(test.changes))
		switch {
		case test.want == nil && got["messageType"] != "ARes":
			t.Errorf("%s %q: %v", test.version, test.changes, got)
		case test.want != nil && (got["errorCode"] != "203" || got["errorComponent"] != "D" || got["errorDetail"] != test.want):
			t.Errorf("%s %q: %v, want 203 %v", test.version, test.changes, got, test.want)
		}
	}
}

// TestEmptyPriorAuthenticationIsJudgedByItsField: an empty object where the field is one is an element without a
// value, and an entry without members is allowed where the field is a list.
func TestEmptyPriorAuthenticationIsJudgedByItsField(t *testing.T) {
	t.Parallel()
	s := newServer(t, start(t, nil))
	const name = "threeDSRequestorPriorAuthenticationInfo"
	full := members{"threeDSReqPriorAuthMethod": "02"}
	for _, test := range []struct {
		version string
		value   any
		good    bool
	}{
		{"2.1.0", members{}, false}, {"2.2.0", members{}, false}, {"2.2.0", full, true}, {"2.2.0", []members{}, false},
		{"2.3.1", []members{{}}, true}, {"2.3.1", []members{full, {}}, true}, {"2.3.1", []members{}, false}, {"2.3.1", members{}, false},
	} {
		got := s.ask(s.areq(test.version, "02", "4000000000000103").with(members{name: test.value}))
		isRefused := got["errorCode"] == "203" && got["errorDetail"] == name
		if isRefused == test.good || test.good && got["transStatus"] != "Y" {
			t.Errorf("%s %v: %v", test.version, test.value, got)
		}
	}
}
