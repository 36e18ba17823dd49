package sandbox_test

import (
	"maps"
	"testing"

	"github.com/openthreeds/threeds/message"
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
