package conformance

import (
	"maps"
	"strings"
)

// aresChecks is the validation of ARes.
var aresChecks = byRow(aresFaults, checkARes,
	check{id: "VA-01", do: func(t *T) { // every member of every kind of ARes is looked at
		for _, v := range allVersions {
			for _, kind := range []string{"BRW", "APP", "3RI", "BRW NPA"} {
				for _, status := range []string{"Y", "N", "C"} {
					if status == "C" && kind == "3RI" {
						continue
					}
					x := t.flow(v, kind).setARes(status)
					x.wantPassedOn()
					for name := range x.ares {
						if name == "messageType" || name == "messageVersion" {
							continue // rows VG-03 and VG-26
						}
						t.flow(v, kind).setARes(status, set(name, 12345)).wantRejected("203", name)
					}
				}
			}
		}
	}},
	check{id: "VA-32", do: func(t *T) { // an Erro ends it, and reaches the requestor as it is, whatever status it comes with
		for _, v := range allVersions {
			for component, status := range map[string]int{"D": 200, "A": 400} {
				want := object{"errorCode": "402", "errorComponent": component, "errorDescription": "words of the peer", "errorDetail": "more of them"}
				x := t.flow(v, "BRW").setAnswer(func(q *request) reply {
					o := object{"messageType": "Erro", "messageVersion": v, "threeDSServerTransID": q.o["threeDSServerTransID"], "errorMessageType": "AReq"}
					maps.Copy(o, want)
					return reply{status: status, body: o.bytes()}
				})
				got := x.auth()
				for name := range want {
					if got.status != 400 || got.o.text(name) != want.text(name) {
						t.Errorf("%s: %d %s = %q, want %q", x, got.status, name, got.o.text(name), want.text(name))
					}
				}
				if got := x.result(); got.o.text("errorCode") != "203" {
					t.Errorf("%s: /postauth after an Erro: %s, want Erro 203", x, got.body)
				}
				if erros := x.d.requests("Erro", x.id); len(erros) > 0 {
					t.Errorf("%s: an Erro was answered with %s, want nothing", x, erros[0].body)
				}
			}
		}
	}},
)

// aresFaults are the rows of an ARes that one change shows. The good one is of
// status Y, to a browser's payment, unless the case says otherwise.
var aresFaults = []fault{
	{row: "VA-02", name: "no threeDSServerTransID", set: overrides{"threeDSServerTransID": nil}, want: "201 threeDSServerTransID"},
	{row: "VA-02", name: "no acsTransID", set: overrides{"acsTransID": nil}, want: "201 acsTransID"},
	{row: "VA-02", name: "no dsTransID", set: overrides{"dsTransID": nil}, want: "201 dsTransID"},
	{row: "VA-02", name: "no acsReferenceNumber", set: overrides{"acsReferenceNumber": nil}, want: "201 acsReferenceNumber"},
	{row: "VA-02", name: "no dsReferenceNumber", set: overrides{"dsReferenceNumber": nil}, want: "201 dsReferenceNumber"},
	{row: "VA-02", name: "no messageType", set: overrides{"messageType": nil}, want: "201 messageType"},
	{row: "VA-02", name: "no messageVersion", set: overrides{"messageVersion": nil}, want: "201 messageVersion"},

	{row: "VA-03", name: "absent", on: "APP", set: overrides{"sdkTransID": nil}, want: "201 sdkTransID"},
	{row: "VA-03", name: "another", on: "APP", set: overrides{"sdkTransID": newID()}, want: "301 sdkTransID"},

	{row: "VA-04", name: "payment", set: overrides{"transStatus": nil}, want: "201 transStatus"},
	{row: "VA-04", name: "no payment", npa: true, set: overrides{"transStatus": nil}},

	{row: "VA-05", name: "no letter of the set", set: overrides{"transStatus": "Z"}, want: "203 transStatus"},
	{row: "VA-05", name: "small letter", set: overrides{"transStatus": "y"}, want: "203 transStatus"},
	{row: "VA-05", name: "D", in: "2.1.0", ares: "D", want: "203 transStatus"},
	{row: "VA-05", name: "I", in: "2.1.0", ares: "I", want: "203 transStatus"},
	{row: "VA-05", name: "S", in: "2.1.0 2.2.0", ares: "S", want: "203 transStatus"},
	{row: "VA-05", name: "Y", ares: "Y"},
	{row: "VA-05", name: "N", ares: "N"},
	{row: "VA-05", name: "U", ares: "U"},
	{row: "VA-05", name: "A", ares: "A"},
	{row: "VA-05", name: "C", ares: "C"},
	{row: "VA-05", name: "R", ares: "R"},
	{row: "VA-05", name: "D", in: "2.2.0 2.3.1", ask: wantDecoupled, ares: "D"},
	{row: "VA-05", name: "I", in: "2.2.0 2.3.1", ask: informed, ares: "I"},
	{row: "VA-05", name: "S", in: "2.3.1", ask: wantSPC, ares: "S"},

	{row: "VA-06", name: "3RI", on: "3RI", ares: "C", want: "203 transStatus"},
	{row: "VA-06", name: "data share only", in: "2.2.0 2.3.1", ask: overrides{"threeDSRequestorChallengeInd": "06"}, ares: "C", want: "203 transStatus"},

	{row: "VA-07", name: "not asked for", in: "2.2.0 2.3.1", ask: overrides{"threeDSRequestorDecReqInd": "N"}, ares: "D", want: "203 transStatus"},
	{row: "VA-07", name: "nothing said of it", in: "2.2.0 2.3.1", ares: "D", want: "203 transStatus"},
	{row: "VA-07", name: "as a fallback only", in: "2.3.1", ask: decoupledAs("F"), ares: "D", want: "203 transStatus"},
	{row: "VA-07", name: "now or as a fallback", in: "2.3.1", ask: decoupledAs("B"), ares: "D"},
	{row: "VA-07", name: "now", in: "2.2.0 2.3.1", ask: wantDecoupled, ares: "D"},

	{row: "VA-08", name: "no preference", in: "2.2.0 2.3.1", ask: overrides{"threeDSRequestorChallengeInd": "01"}, ares: "I", want: "203 transStatus"},
	{row: "VA-08", name: "nothing said", in: "2.2.0 2.3.1", ares: "I", want: "203 transStatus"},
	{row: "VA-08", name: "no challenge", in: "2.2.0 2.3.1", ask: overrides{"threeDSRequestorChallengeInd": "02"}, ares: "I", want: "203 transStatus"},
	{row: "VA-08", name: "08", in: "2.2.0 2.3.1", ask: overrides{"threeDSRequestorChallengeInd": "08"}, ares: "I", want: "203 transStatus"},
	{row: "VA-08", name: "nothing said, to a directory that may", in: "2.2.0 2.3.1", card: cardMastercard, ares: "I"},
	{row: "VA-08", name: "05", in: "2.2.0 2.3.1", ask: overrides{"threeDSRequestorChallengeInd": "05"}, ares: "I"},
	{row: "VA-08", name: "06", in: "2.2.0 2.3.1", ask: overrides{"threeDSRequestorChallengeInd": "06"}, ares: "I"},
	{row: "VA-08", name: "07", in: "2.2.0 2.3.1", ask: overrides{"threeDSRequestorChallengeInd": "07"}, ares: "I"},
	{row: "VA-08", name: "82 of a payment system", in: "2.2.0 2.3.1", ask: overrides{"threeDSRequestorChallengeInd": "82"}, ares: "I"},

	{row: "VA-09", name: "not supported", in: "2.3.1", ares: "S", want: "203 transStatus"},
	{row: "VA-09", name: "supported", in: "2.3.1", ask: wantSPC, ares: "S"},
	{row: "VA-09", name: "3RI", in: "2.3.1", on: "3RI", ares: "S", want: "203 transStatus"},
	{row: "VA-10", name: "app", in: "2.3.1", on: "APP", ares: "S", want: "203 transStatus"},

	{row: "VA-11", name: "N alone", ares: "N", set: overrides{"transStatusReason": nil}, want: "201 transStatusReason"},
	{row: "VA-11", name: "U alone", ares: "U", set: overrides{"transStatusReason": nil}, want: "201 transStatusReason"},
	{row: "VA-11", name: "R alone", ares: "R", set: overrides{"transStatusReason": nil}, want: "201 transStatusReason"},
	{row: "VA-11", name: "N alone, no payment", npa: true, ares: "N", set: overrides{"transStatusReason": nil}},
	{row: "VA-11", name: "22", in: "2.1.0", ares: "N", set: overrides{"transStatusReason": "22"}, want: "203 transStatusReason"},
	{row: "VA-11", name: "26", in: "2.2.0 2.3.1", ares: "N", set: overrides{"transStatusReason": "26"}},
	{row: "VA-11", name: "27", in: "2.2.0", ares: "N", set: overrides{"transStatusReason": "27"}, want: "203 transStatusReason"},
	{row: "VA-11", name: "30", in: "2.3.1", ares: "N", set: overrides{"transStatusReason": "30"}},
	{row: "VA-11", name: "31", in: "2.3.1", ares: "N", set: overrides{"transStatusReason": "31"}, want: "207 transStatusReason"},
	{row: "VA-11", name: "85 of a payment system", ares: "N", set: overrides{"transStatusReason": "85"}},
	{row: "VA-11", name: "1", ares: "N", set: overrides{"transStatusReason": "1"}, want: "203 transStatusReason"},

	{row: "VA-12", name: "no payment, reason alone", npa: true, ares: "N", set: overrides{"transStatus": nil}},

	{row: "VA-13", name: "Y without", set: overrides{"authenticationValue": nil}, want: "201 authenticationValue"},
	{row: "VA-13", name: "A without", ares: "A", set: overrides{"authenticationValue": nil}, want: "201 authenticationValue"},
	{row: "VA-13", name: "Y without, no payment", npa: true, set: overrides{"authenticationValue": nil}},
	{row: "VA-13", name: "27 characters", in: "2.1.0 2.2.0", set: overrides{"authenticationValue": strings.Repeat("A", 27)}, want: "203 authenticationValue"},
	{row: "VA-13", name: "29 characters", in: "2.1.0 2.2.0", set: overrides{"authenticationValue": strings.Repeat("A", 29)}, want: "203 authenticationValue"},
	{row: "VA-13", name: "24 characters", in: "2.1.0 2.2.0", set: overrides{"authenticationValue": strings.Repeat("A", 24)}, want: "203 authenticationValue"},
	{row: "VA-13", name: "32 characters", in: "2.1.0 2.2.0", set: overrides{"authenticationValue": strings.Repeat("A", 32)}, want: "203 authenticationValue"},
	{row: "VA-13", name: "not Base64", in: "2.1.0 2.2.0", set: overrides{"authenticationValue": strings.Repeat("?", 28)}, want: "203 authenticationValue"},
	{row: "VA-13", name: "white space in it", in: "2.1.0 2.2.0", set: overrides{"authenticationValue": "AAABBCJZUwAAAAAA\r\nUFlTAAAAAAA="}},
	{row: "VA-13", name: "4000 characters", in: "2.3.1", set: overrides{"authenticationValue": strings.Repeat("A", 4000)}},
	{row: "VA-13", name: "4001 characters", in: "2.3.1", set: overrides{"authenticationValue": strings.Repeat("A", 4001)}, want: "203 authenticationValue"},

	{row: "VA-14", name: "one character", set: overrides{"eci": "5"}, want: "203 eci"},
	{row: "VA-14", name: "three characters", set: overrides{"eci": "055"}, want: "203 eci"},
	{row: "VA-14", name: "a number", set: overrides{"eci": 5}, want: "203 eci"},
	{row: "VA-14", name: "unusual, as it is", set: overrides{"eci": "0Z"}},
	{row: "VA-14", name: "none", set: overrides{"eci": nil}},

	{row: "VA-15", name: "C without", ares: "C", set: overrides{"acsChallengeMandated": nil}, want: "201 acsChallengeMandated"},
	{row: "VA-15", name: "D without", in: "2.2.0 2.3.1", ask: wantDecoupled, ares: "D",
		set: overrides{"acsChallengeMandated": nil}, want: "201 acsChallengeMandated"},
	{row: "VA-15", name: "Y and empty", set: overrides{"acsChallengeMandated": ""}, want: "203 acsChallengeMandated"},
	{row: "VA-15", name: "C and empty", ares: "C", set: overrides{"acsChallengeMandated": ""}, want: "201 acsChallengeMandated"},
	{row: "VA-15", name: "another word", ares: "C", set: overrides{"acsChallengeMandated": "X"}, want: "203 acsChallengeMandated"},

	{row: "VA-16", name: "C without", in: "2.1.0 2.2.0", ares: "C", set: overrides{"authenticationType": nil}, want: "201 authenticationType"},
	{row: "VA-16", name: "D without", in: "2.2.0", ask: wantDecoupled, ares: "D", set: overrides{"authenticationType": nil}, want: "201 authenticationType"},
	{row: "VA-16", name: "04", in: "2.1.0", ares: "C", set: overrides{"authenticationType": "04"}, want: "203 authenticationType"},
	{row: "VA-16", name: "04", in: "2.2.0", ask: wantDecoupled, ares: "D", set: overrides{"authenticationType": "04"}},
	{row: "VA-16", name: "05", in: "2.2.0", ares: "C", set: overrides{"authenticationType": "05"}, want: "203 authenticationType"},
	{row: "VA-16", name: "80 of a payment system", in: "2.1.0 2.2.0", ares: "C", set: overrides{"authenticationType": "80"}},

	{row: "VA-17", name: "C without", in: "2.3.1", ares: "C", set: overrides{"authenticationMethod": nil}, want: "201 authenticationMethod"},
	{row: "VA-17", name: "D without", in: "2.3.1", ask: wantDecoupled, ares: "D", set: overrides{"authenticationMethod": nil}, want: "201 authenticationMethod"},
	{row: "VA-17", name: "a string", in: "2.3.1", ares: "C", set: overrides{"authenticationMethod": "02"}, want: "203 authenticationMethod"},
	{row: "VA-17", name: "empty", in: "2.3.1", ares: "C", set: overrides{"authenticationMethod": []string{}}, want: "201 authenticationMethod"},
	{row: "VA-17", name: "twice the same", in: "2.3.1", ares: "C", set: overrides{"authenticationMethod": []string{"02", "02"}}, want: "204 authenticationMethod"},
	{row: "VA-17", name: "reserved", in: "2.3.1", ares: "C", set: overrides{"authenticationMethod": []string{"17"}}, want: "207 authenticationMethod"},
	{row: "VA-17", name: "several", in: "2.3.1", ares: "C", set: overrides{"authenticationMethod": []string{"02", "16", "85"}}},

	{row: "VA-18", name: "C without", ares: "C", set: overrides{"acsURL": nil}, want: "201 acsURL"},
	{row: "VA-18", name: "not qualified", ares: "C", set: overrides{"acsURL": "acs.example/challenge"}, want: "203 acsURL"},
	{row: "VA-18", name: "a blank in it", ares: "C", set: overrides{"acsURL": "https://acs.example/a challenge"}, want: "203 acsURL"},
	{row: "VA-18", name: "2048 characters", ares: "C", set: overrides{"acsURL": long("https://acs.example/", 2048)}},
	{row: "VA-18", name: "2049 characters", ares: "C", set: overrides{"acsURL": long("https://acs.example/", 2049)}, want: "203 acsURL"},
	{row: "VA-18", name: "a quotation mark in it", ares: "C", set: overrides{"acsURL": `https://acs.example/"`}, want: "203 acsURL"},
	{row: "VA-18", name: "http", ares: "C", set: overrides{"acsURL": "http://acs.example/"}, want: "203 acsURL"},

	{row: "VA-19", name: "C without", on: "APP", ares: "C", set: overrides{"acsSignedContent": nil}, want: "201 acsSignedContent"},
	{row: "VA-19", name: "two parts", on: "APP", ares: "C", set: overrides{"acsSignedContent": "eyJhbGciOiJQUzI1NiJ9.e30"}, want: "203 acsSignedContent"},
	{row: "VA-19", name: "16000 characters", in: "2.3.1", on: "APP", ares: "C", set: overrides{"acsSignedContent": long(jws, 16000)}},
	{row: "VA-19", name: "16001 characters", in: "2.3.1", on: "APP", ares: "C",
		set: overrides{"acsSignedContent": long(jws, 16001)}, want: "203 acsSignedContent"},
	{row: "VA-19", name: "no maximum before", in: "2.1.0 2.2.0", on: "APP", ares: "C", set: overrides{"acsSignedContent": long(jws, 16001)}},

	{row: "VA-20", name: "C without", on: "APP", ares: "C", set: overrides{"acsRenderingType": nil}, want: "201 acsRenderingType"},
	{row: "VA-20", name: "no interface", on: "APP", ares: "C", set: overrides{"acsRenderingType.acsInterface": nil}, want: "201 acsRenderingType.acsInterface"},
	{row: "VA-20", name: "no template", on: "APP", ares: "C", set: overrides{"acsRenderingType.acsUiTemplate": nil}, want: "201 acsRenderingType.acsUiTemplate"},
	{row: "VA-20", name: "no mode", in: "2.3.1", on: "APP", ares: "C",
		set: overrides{"acsRenderingType.deviceUserInterfaceMode": nil}, want: "201 acsRenderingType.deviceUserInterfaceMode"},
	{row: "VA-20", name: "05 in a native interface", on: "APP", ares: "C", set: overrides{"acsRenderingType.acsUiTemplate": "05"}, want: "203 acsRenderingType"},
	{row: "VA-20", name: "06 in a native interface", in: "2.3.1", on: "APP", ares: "C",
		set: overrides{"acsRenderingType.acsUiTemplate": "06"}, want: "203 acsRenderingType"},
	{row: "VA-20", name: "05 in HTML", on: "APP", ares: "C", set: overrides{"acsRenderingType.acsInterface": "02", "acsRenderingType.acsUiTemplate": "05"}},

	{row: "VA-21", name: "D without", in: "2.2.0 2.3.1", ask: wantDecoupled, ares: "D", set: overrides{"acsDecConInd": nil}, want: "201 acsDecConInd"},
	{row: "VA-21", name: "D and N", in: "2.2.0 2.3.1", ask: wantDecoupled, ares: "D",
		set: overrides{"acsDecConInd": "N", "cardholderInfo": nil}, want: "203 acsDecConInd"},
	{row: "VA-21", name: "not asked for", in: "2.2.0", ask: overrides{"threeDSRequestorDecReqInd": "N"}, ares: "C",
		set: overrides{"acsDecConInd": "Y", "cardholderInfo": "x"}, want: "203 acsDecConInd"},
	{row: "VA-21", name: "not asked for", in: "2.3.1", ask: overrides{"threeDSRequestorDecReqInd": "N"}, ares: "C",
		set: overrides{"acsDecConInd": "Y", "cardholderInfo": overrides{"text": "x"}}, want: "203 acsDecConInd"},

	{row: "VA-22", name: "128 characters", in: "2.1.0 2.2.0", set: overrides{"cardholderInfo": strings.Repeat("x", 128)}},
	{row: "VA-22", name: "129 characters", in: "2.1.0 2.2.0", set: overrides{"cardholderInfo": strings.Repeat("x", 129)}, want: "203 cardholderInfo"},
	{row: "VA-22", name: "D without", in: "2.2.0 2.3.1", ask: wantDecoupled, ares: "D", set: overrides{"cardholderInfo": nil}, want: "201 cardholderInfo"},
	{row: "VA-22", name: "an object", in: "2.1.0 2.2.0", set: overrides{"cardholderInfo": overrides{"text": "x"}}, want: "203 cardholderInfo"},
	{row: "VA-22", name: "a string", in: "2.3.1", set: overrides{"cardholderInfo": "x"}, want: "203 cardholderInfo"},
	{row: "VA-22", name: "text of 129 characters", in: "2.3.1",
		set: overrides{"cardholderInfo": overrides{"text": strings.Repeat("x", 129)}}, want: "203 cardholderInfo.text"},
	{row: "VA-22", name: "no text", in: "2.3.1",
		set: overrides{"cardholderInfo": overrides{"issuerImage": "https://acs.example/i.png"}}, want: "201 cardholderInfo.text"},
	{row: "VA-22", name: "image of 257 characters", in: "2.3.1",
		set:  overrides{"cardholderInfo": overrides{"text": "x", "issuerImage": long("https://acs.example/", 257)}},
		want: "203 cardholderInfo.issuerImage"},
	{row: "VA-22", name: "text and images", in: "2.3.1", set: overrides{"cardholderInfo": overrides{
		"text": strings.Repeat("ü", 128), "issuerImage": long("https://acs.example/", 256),
		"paymentSystemImage": "https://ds.example/i.png",
	}}},

	{row: "VA-23", name: "status alone", in: "2.2.0", set: overrides{"whiteListStatus": "Y"}, want: "201 whiteListStatusSource"},
	{row: "VA-23", name: "status of no list", in: "2.2.0", set: overrides{"whiteListStatus": "X", "whiteListStatusSource": "03"}, want: "203 whiteListStatus"},
	{row: "VA-23", name: "reserved source", in: "2.2.0", set: overrides{"whiteListStatus": "Y", "whiteListStatusSource": "04"}, want: "203 whiteListStatusSource"},
	{row: "VA-23", name: "Y", in: "2.2.0", set: overrides{"whiteListStatus": "Y", "whiteListStatusSource": "01"}},
	{row: "VA-23", name: "U", in: "2.2.0", set: overrides{"whiteListStatus": "U", "whiteListStatusSource": "80"}},
	{row: "VA-23", name: "status alone", in: "2.3.1", set: overrides{"trustListStatus": "Y"}, want: "201 trustListStatusSource"},
	{row: "VA-23", name: "status of no list", in: "2.3.1", set: overrides{"trustListStatus": "X", "trustListStatusSource": "03"}, want: "203 trustListStatus"},
	{row: "VA-23", name: "reserved source", in: "2.3.1", set: overrides{"trustListStatus": "Y", "trustListStatusSource": "04"}, want: "207 trustListStatusSource"},
	{row: "VA-23", name: "P", in: "2.3.1", set: overrides{"trustListStatus": "P", "trustListStatusSource": "03"}},

	{row: "VA-24", name: "binding alone", in: "2.3.1", set: overrides{"deviceBindingStatus": "11"}, want: "201 deviceBindingStatusSource"},
	{row: "VA-24", name: "reserved binding", in: "2.3.1",
		set: overrides{"deviceBindingStatus": "06", "deviceBindingStatusSource": "03"}, want: "207 deviceBindingStatus"},
	{row: "VA-24", name: "binding of three digits", in: "2.3.1",
		set: overrides{"deviceBindingStatus": "011", "deviceBindingStatusSource": "03"}, want: "203 deviceBindingStatus"},
	{row: "VA-24", name: "binding", in: "2.3.1", set: overrides{"deviceBindingStatus": "15", "deviceBindingStatusSource": "03"}},
	{row: "VA-24", name: "security code alone", in: "2.3.1", set: overrides{"cardSecurityCodeStatus": "Y"}, want: "201 cardSecurityCodeStatusSource"},
	{row: "VA-24", name: "security code of no list", in: "2.3.1",
		set: overrides{"cardSecurityCodeStatus": "X", "cardSecurityCodeStatusSource": "02"}, want: "203 cardSecurityCodeStatus"},
	{row: "VA-24", name: "reserved source", in: "2.3.1",
		set: overrides{"cardSecurityCodeStatus": "Y", "cardSecurityCodeStatusSource": "03"}, want: "207 cardSecurityCodeStatusSource"},
	{row: "VA-24", name: "security code", in: "2.3.1", set: overrides{"cardSecurityCodeStatus": "U", "cardSecurityCodeStatusSource": "02"}},

	{row: "VA-25", name: "reserved", in: "2.3.1", set: overrides{"transChallengeExemption": "06"}, want: "207 transChallengeExemption"},
	{row: "VA-25", name: "one digit", in: "2.3.1", set: overrides{"transChallengeExemption": "5"}, want: "203 transChallengeExemption"},
	{row: "VA-25", name: "05", in: "2.3.1", set: overrides{"transChallengeExemption": "05"}},
	{row: "VA-25", name: "79", in: "2.3.1", set: overrides{"transChallengeExemption": "79"}},
	{row: "VA-25", name: "99 of a payment system", in: "2.3.1", set: overrides{"transChallengeExemption": "99"}},

	{row: "VA-26", name: "no threeDSRequestorAppURLInd", in: "2.3.1", on: "APP",
		set: overrides{"threeDSRequestorAppURLInd": nil}, want: "201 threeDSRequestorAppURLInd"},
	{row: "VA-26", name: "no deviceInfoRecognisedVersion", in: "2.3.1", on: "APP",
		set: overrides{"deviceInfoRecognisedVersion": nil}, want: "201 deviceInfoRecognisedVersion"},
	{row: "VA-26", name: "both", in: "2.3.1", on: "APP"},
	{row: "VA-26", name: "neither, in a browser", in: "2.3.1", set: overrides{"threeDSRequestorAppURLInd": nil, "deviceInfoRecognisedVersion": nil}},

	{row: "VA-27", name: "no data", in: "2.3.1", ask: wantSPC, ares: "S", set: overrides{"spcTransData": nil}, want: "201 spcTransData"},
	{row: "VA-27", name: "no credentials", in: "2.3.1", ask: wantSPC, ares: "S", set: overrides{"webAuthnCredList": nil}, want: "201 webAuthnCredList"},
	{row: "VA-27", name: "11 credentials", in: "2.3.1", ask: wantSPC, ares: "S",
		set: overrides{"webAuthnCredList": credentials(11, 20)}, want: "203 webAuthnCredList"},
	{row: "VA-27", name: "a credential of 15 characters", in: "2.3.1", ask: wantSPC, ares: "S",
		set: overrides{"webAuthnCredList": credentials(1, 15)}, want: "203 webAuthnCredList.credentialIds"},
	{row: "VA-27", name: "a credential of 1001 characters", in: "2.3.1", ask: wantSPC, ares: "S",
		set: overrides{"webAuthnCredList": credentials(1, 1001)}, want: "203 webAuthnCredList.credentialIds"},
	{row: "VA-27", name: "10 credentials", in: "2.3.1", ask: wantSPC, ares: "S", set: overrides{"webAuthnCredList": credentials(10, 1000)}},
	{row: "VA-27", name: "a challenge of 42 characters", in: "2.3.1", ask: wantSPC, ares: "S",
		set: overrides{"spcTransData.challenge": strings.Repeat("Y", 42)}, want: "203 spcTransData.challenge"},
	{row: "VA-27", name: "59999 ms", in: "2.3.1", ask: wantSPC, ares: "S", set: overrides{"spcTransData.timeout": "59999"}, want: "203 spcTransData.timeout"},
	{row: "VA-27", name: "500001 ms", in: "2.3.1", ask: wantSPC, ares: "S", set: overrides{"spcTransData.timeout": "500001"}, want: "203 spcTransData.timeout"},
	{row: "VA-27", name: "nobody to pay", in: "2.3.1", ask: wantSPC, ares: "S",
		set: overrides{"spcTransData.payeeName": nil, "spcTransData.payeeOrigin": nil}, want: "201 spcTransData.payeeName"},
	{row: "VA-27", name: "a name is enough", in: "2.3.1", ask: wantSPC, ares: "S", set: overrides{"spcTransData.payeeOrigin": nil}},

	{row: "VA-28", name: "no category", in: "2.3.1", set: overrides{"broadInfo": broadcast(), "broadInfo.category": nil}, want: "201 broadInfo.category"},
	{row: "VA-28", name: "no severity", in: "2.3.1", set: overrides{"broadInfo": broadcast(), "broadInfo.severity": nil}, want: "201 broadInfo.severity"},
	{row: "VA-28", name: "no recipients", in: "2.3.1", set: overrides{"broadInfo": broadcast(), "broadInfo.recipients": nil}, want: "201 broadInfo.recipients"},
	{row: "VA-28", name: "no source", in: "2.3.1", set: overrides{"broadInfo": broadcast(), "broadInfo.source": nil}, want: "201 broadInfo.source"},
	{row: "VA-28", name: "too long", in: "2.3.1",
		set: overrides{"broadInfo": broadcast(), "broadInfo.description": strings.Repeat("x", 4000)}, want: "203 broadInfo"},
	{row: "VA-28", name: "whole", in: "2.3.1", set: overrides{"broadInfo": broadcast()}},

	{row: "VA-29", name: "256 characters of reason", in: "2.3.1", ares: "N", set: overrides{"transStatusReasonInfo": strings.Repeat("x", 256)}},
	{row: "VA-29", name: "257 characters of reason", in: "2.3.1", ares: "N",
		set: overrides{"transStatusReasonInfo": strings.Repeat("x", 257)}, want: "203 transStatusReasonInfo"},
	{row: "VA-29", name: "operator of 32 characters", set: overrides{"acsOperatorID": strings.Repeat("x", 32)}},
	{row: "VA-29", name: "operator of 33 characters", set: overrides{"acsOperatorID": strings.Repeat("x", 33)}, want: "203 acsOperatorID"},

	{row: "VA-30", name: "made by the directory server", set: overrides{"acsReferenceNumber": "DS1", "acsTransID": dsTransID, "dsTransID": dsTransID}},

	{row: "VA-31", name: "Y with acsURL", set: overrides{"acsURL": "https://acs.example/"}},
	{row: "VA-31", name: "Y with a challenge type", in: "2.1.0 2.2.0", set: overrides{"authenticationType": "02"}},
	{row: "VA-31", name: "Y, and not decoupled", in: "2.2.0 2.3.1", set: overrides{"acsDecConInd": "N"}},
	{row: "VA-31", name: "N with a value", ares: "N", set: overrides{"authenticationValue": authValue}},

	{row: "VA-33", name: "PRes", set: overrides{"messageType": "PRes"}, want: "101"},
	{row: "VA-33", name: "RReq", set: overrides{"messageType": "RReq"}, want: "101"},
	{row: "VA-33", name: "CRes", set: overrides{"messageType": "CRes"}, want: "101"},
	{row: "VA-33", name: "AReq", set: overrides{"messageType": "AReq"}, want: "101"},
}
