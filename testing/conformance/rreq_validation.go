package conformance

import (
	"bytes"
	"maps"
	"strings"
)

// rreqChecks is the validation of RReq.
var rreqChecks = byRow(rreqFaults, checkRReq,
	check{id: "VR-01", do: func(t *T) { // every member of every kind of RReq is looked at
		for _, v := range allVersions {
			for _, kind := range []string{"BRW", "APP", "BRW NPA"} {
				for _, status := range []string{"Y", "N"} {
					x := t.flow(v, kind).startChallenge()
					good := x.rreqOf(status)
					for name := range good {
						if name != "messageType" && name != "messageVersion" {
							x.wantRReqRefused(x.post(good.bytes(set(name, 12345))), "203", name)
						}
					}
					x.wantPending()
					x.wantRRes(x.post(good.bytes()), "01")
				}
			}
		}
	}},
	check{id: "VR-07", do: func(t *T) { // a second RReq is refused, and the first result stays
		for _, v := range allVersions {
			x := t.flow(v, "BRW").startChallenge()
			first := x.rreqOf("N").bytes()
			x.wantRRes(x.post(first), "01")
			for _, again := range [][]byte{first, x.rreqOf("Y").bytes()} {
				x.wantRReqRefused(x.post(again), stateCode(v, "312"), "")
			}
			if got := x.result(); !bytes.Equal(got.body, first) {
				t.Errorf("%s: the result has become %s, want the first, %s", x, got.body, first)
			}
		}
	}},
	check{id: "VR-08", do: func(t *T) { // no RReq after a final ARes
		for _, v := range allVersions {
			for _, status := range []string{"Y", "N", "A", "U", "R"} {
				x := t.flow(v, "BRW").setARes(status)
				x.wantAccepted()
				x.wantRReqRefused(x.rreq("Y"), stateCode(v, "313"), "")
				if got := x.result(); got.o.text("errorCode") != "203" {
					t.Errorf("%s: /postauth: %s, want Erro 203", x, got.body)
				}
			}
		}
	}},
	check{id: "VR-20", do: func(t *T) { // what was acknowledged outlives a power cut
		l := t.ownLab(plan{})
		for _, v := range allVersions {
			x := t.flowIn(l, v, "BRW").startChallenge()
			body := x.rreqOf("Y").bytes()
			x.wantRRes(x.post(body), "01")
			l.kill()
			if err := l.start(true); err != nil {
				t.Fatalf("%v", err)
			}
			if got := x.result(); got.status != 200 || !bytes.Equal(got.body, body) {
				t.Errorf("%s: after a crash: %d %s, want the RReq", x, got.status, got.body)
			}
		}
	}},
	check{id: "VR-21", do: func(t *T) { // an Erro on the results address
		for _, v := range allVersions {
			x := t.flow(v, "BRW").startChallenge()
			want := object{"errorCode": "203", "errorComponent": "D", "errorDescription": "the RReq of the ACS was bad", "errorDetail": "eci"}
			erro := object{"messageType": "Erro", "messageVersion": v, "threeDSServerTransID": x.id, "errorMessageType": "RReq"}
			maps.Copy(erro, want)
			t.wantEmptyAnswer("the Erro of "+x.String(), x.post(erro.bytes()))
			got := x.result()
			for name := range want {
				if got.status != 400 || got.o.text(name) != want.text(name) {
					t.Errorf("%s: /postauth: %d %s, want the Erro", x, got.status, got.body)
				}
			}
			if got := x.rreq("Y"); got.o.text("messageType") != "Erro" {
				t.Errorf("%s: an RReq after the Erro was answered with %s, want an Erro", x, got.body)
			}
		}
	}},
)

// rreqFaults are the rows of an RReq that one change shows. The good one is of
// status Y, after the challenge of a browser's payment, unless the case says
// otherwise.
var rreqFaults = []fault{
	{row: "VR-02", name: "no threeDSServerTransID", set: overrides{"threeDSServerTransID": nil}, want: "201 threeDSServerTransID"},
	{row: "VR-02", name: "no acsTransID", set: overrides{"acsTransID": nil}, want: "201 acsTransID"},
	{row: "VR-02", name: "no dsTransID", set: overrides{"dsTransID": nil}, want: "201 dsTransID"},
	{row: "VR-02", name: "no messageCategory", set: overrides{"messageCategory": nil}, want: "201 messageCategory"},
	{row: "VR-02", name: "no messageType", set: overrides{"messageType": nil}, want: "201 messageType"},
	{row: "VR-02", name: "no messageVersion", set: overrides{"messageVersion": nil}, want: "201 messageVersion"},

	{row: "VR-03", name: "absent", in: "2.2.0 2.3.1", on: "APP", set: overrides{"sdkTransID": nil}, want: "201 sdkTransID"},
	{row: "VR-03", name: "absent", in: "2.1.0", on: "APP", set: overrides{"sdkTransID": nil}},
	{row: "VR-03", name: "another", in: "2.2.0 2.3.1", on: "APP", set: overrides{"sdkTransID": newID()}, want: "301 sdkTransID"},

	{row: "VR-04", name: "unknown", set: overrides{"threeDSServerTransID": newID()}, want: "301 threeDSServerTransID"},
	{row: "VR-05", name: "another acsTransID", set: overrides{"acsTransID": newID()}, want: "301 acsTransID"},
	{row: "VR-05", name: "another dsTransID", set: overrides{"dsTransID": newID()}, want: "301 dsTransID"},
	{row: "VR-06", name: "02 for a payment", set: overrides{"messageCategory": "02"}, want: "203 messageCategory"},

	{row: "VR-09", name: "absent", set: overrides{"transStatus": nil}, want: "201 transStatus"},
	{row: "VR-09", name: "C", set: overrides{"transStatus": "C"}, want: "203 transStatus"},
	{row: "VR-09", name: "I", set: overrides{"transStatus": "I"}, want: "203 transStatus"},
	{row: "VR-09", name: "S", set: overrides{"transStatus": "S"}, want: "203 transStatus"},
	{row: "VR-09", name: "D without a fallback", set: overrides{"transStatus": "D"}, want: "203 transStatus"},
	{row: "VR-09", name: "D before there were fallbacks", in: "2.2.0", ask: wantDecoupled, set: overrides{"transStatus": "D"}, want: "203 transStatus"},
	{row: "VR-09", name: "D, decoupled but no fallback", in: "2.3.1", ask: wantDecoupled, set: overrides{"transStatus": "D"}, want: "203 transStatus"},
	{row: "VR-09", name: "D after F", in: "2.3.1", ask: decoupledAs("F"), rreq: "D"},
	{row: "VR-09", name: "D after B", in: "2.3.1", ask: decoupledAs("B"), rreq: "D"},
	{row: "VR-09", name: "Y", rreq: "Y"},
	{row: "VR-09", name: "N", rreq: "N"},
	{row: "VR-09", name: "U", rreq: "U"},
	{row: "VR-09", name: "A", rreq: "A"},
	{row: "VR-09", name: "R", rreq: "R"},

	{row: "VR-10", name: "N alone", rreq: "N", set: overrides{"transStatusReason": nil}, want: "201 transStatusReason"},
	{row: "VR-10", name: "U alone", rreq: "U", set: overrides{"transStatusReason": nil}, want: "201 transStatusReason"},
	{row: "VR-10", name: "R alone", rreq: "R", set: overrides{"transStatusReason": nil}, want: "201 transStatusReason"},
	{row: "VR-10", name: "N alone, no payment", npa: true, rreq: "N", set: overrides{"transStatusReason": nil}},

	{row: "VR-11", name: "Y without", set: overrides{"authenticationValue": nil}, want: "201 authenticationValue"},
	{row: "VR-11", name: "A without", rreq: "A", set: overrides{"authenticationValue": nil}, want: "201 authenticationValue"},
	{row: "VR-11", name: "27 characters", in: "2.1.0 2.2.0", set: overrides{"authenticationValue": strings.Repeat("A", 27)}, want: "203 authenticationValue"},
	{row: "VR-11", name: "not Base64", in: "2.1.0 2.2.0", set: overrides{"authenticationValue": strings.Repeat("?", 28)}, want: "203 authenticationValue"},
	{row: "VR-11", name: "4001 characters", in: "2.3.1", set: overrides{"authenticationValue": strings.Repeat("A", 4001)}, want: "203 authenticationValue"},
	{row: "VR-11", name: "abandoned", rreq: "N", set: overrides{"transStatusReason": "14", "challengeCancel": "04"}},

	{row: "VR-12", name: "N without a type", in: "2.1.0 2.2.0", rreq: "N", set: overrides{"authenticationType": nil}, want: "201 authenticationType"},
	{row: "VR-12", name: "Y without a type", in: "2.1.0 2.2.0", set: overrides{"authenticationType": nil}, want: "201 authenticationType"},
	{row: "VR-12", name: "U without a type", in: "2.1.0 2.2.0", rreq: "U", set: overrides{"authenticationType": nil}},
	{row: "VR-12", name: "a method is not asked for, and no harm", in: "2.1.0 2.2.0", set: overrides{"authenticationMethod": "02"}},
	{row: "VR-12", name: "Y without a method", in: "2.3.1", set: overrides{"authenticationMethod": nil}, want: "201 authenticationMethod"},
	{row: "VR-12", name: "N without a method", in: "2.3.1", rreq: "N", set: overrides{"authenticationMethod": nil}, want: "201 authenticationMethod"},
	{row: "VR-12", name: "a method that is no list", in: "2.3.1", set: overrides{"authenticationMethod": "02"}, want: "203 authenticationMethod"},
	{row: "VR-12", name: "several methods", in: "2.3.1", set: overrides{"authenticationMethod": []string{"02", "07"}}},

	{row: "VR-14", name: "after C", set: overrides{"interactionCounter": nil}, want: "201 interactionCounter"},
	{row: "VR-14", name: "one digit", set: overrides{"interactionCounter": "1"}, want: "203 interactionCounter"},
	{row: "VR-14", name: "a number", set: overrides{"interactionCounter": 1}, want: "203 interactionCounter"},
	{row: "VR-14", name: "after D", in: "2.2.0 2.3.1", ask: wantDecoupled, ares: "D", set: overrides{"interactionCounter": nil}},

	{row: "VR-15", name: "after C", on: "APP", set: overrides{"acsRenderingType": nil}, want: "201 acsRenderingType"},
	{row: "VR-15", name: "after D", in: "2.2.0 2.3.1", on: "APP", ask: wantDecoupled, ares: "D", set: overrides{"acsRenderingType": nil}},

	{row: "VR-16", name: "timed out, how unsaid", rreq: "N", set: overrides{"transStatusReason": "14"}, want: "201 challengeCancel"},
	{row: "VR-16", name: "timed out, but cancelled", rreq: "N", set: overrides{"transStatusReason": "14", "challengeCancel": "01"}, want: "203 challengeCancel"},
	{row: "VR-16", name: "05", rreq: "N", set: overrides{"transStatusReason": "14", "challengeCancel": "05"}},
	{row: "VR-16", name: "01", rreq: "N", set: overrides{"challengeCancel": "01"}},
	{row: "VR-16", name: "02, tolerated", in: "2.1.0", rreq: "N", set: overrides{"challengeCancel": "02"}},
	{row: "VR-16", name: "03, tolerated", in: "2.1.0", rreq: "N", set: overrides{"challengeCancel": "03"}},
	{row: "VR-16", name: "02", in: "2.2.0", rreq: "N", set: overrides{"challengeCancel": "02"}, want: "203 challengeCancel"},
	{row: "VR-16", name: "02", in: "2.3.1", rreq: "N", set: overrides{"challengeCancel": "02"}, want: "207 challengeCancel"},
	{row: "VR-16", name: "09", in: "2.2.0", rreq: "N", set: overrides{"challengeCancel": "09"}, want: "203 challengeCancel"},
	{row: "VR-16", name: "11", in: "2.3.1", rreq: "N", set: overrides{"challengeCancel": "11"}, want: "207 challengeCancel"},

	{row: "VR-17", name: "09", in: "2.3.1", rreq: "N", set: overrides{"challengeCancel": "09"}, want: "201 challengeErrorReporting"},
	{row: "VR-17", name: "10", in: "2.3.1", rreq: "N", set: overrides{"challengeCancel": "10"}, want: "201 challengeErrorReporting"},
	{row: "VR-17", name: "09 and what went wrong", in: "2.3.1", rreq: "N", set: overrides{"challengeCancel": "09", "challengeErrorReporting": challengeError()}},
	{row: "VR-17", name: "no code in it", in: "2.3.1", rreq: "N", set: overrides{
		"challengeCancel": "09", "challengeErrorReporting": challengeError(), "challengeErrorReporting.errorCode": nil,
	}, want: "201 challengeErrorReporting.errorCode"},
	{row: "VR-17", name: "any code", in: "2.3.1", rreq: "N", set: overrides{
		"challengeCancel": "10", "challengeErrorReporting": challengeError(), "challengeErrorReporting.errorCode": "999",
	}},

	{row: "VR-18", name: "information as a string", in: "2.3.1", set: overrides{"cardholderInfo": "x"}, want: "203 cardholderInfo"},
	{row: "VR-18", name: "text of 129 characters", in: "2.3.1",
		set: overrides{"cardholderInfo": overrides{"text": strings.Repeat("x", 129)}}, want: "203 cardholderInfo.text"},
	{row: "VR-18", name: "information", in: "2.3.1", set: overrides{"cardholderInfo": overrides{"text": "x"}}},
	{row: "VR-18", name: "trust list alone", in: "2.3.1", set: overrides{"trustListStatus": "Y"}, want: "201 trustListStatusSource"},
	{row: "VR-18", name: "trust list", in: "2.3.1", set: overrides{"trustListStatus": "Y", "trustListStatusSource": "03"}},
	{row: "VR-18", name: "binding alone", in: "2.3.1", set: overrides{"deviceBindingStatus": "11"}, want: "201 deviceBindingStatusSource"},
	{row: "VR-18", name: "reserved binding", in: "2.3.1",
		set: overrides{"deviceBindingStatus": "06", "deviceBindingStatusSource": "03"}, want: "207 deviceBindingStatus"},
	{row: "VR-18", name: "white list alone", in: "2.2.0", set: overrides{"whiteListStatus": "Y"}, want: "201 whiteListStatusSource"},
}
