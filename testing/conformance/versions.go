package conformance

import "strings"

// versionChecks is version negotiation.
var versionChecks = []check{
	{id: "VN-01", do: func(t *T) {
		t.want("CRD", t.flow(v220, "BRW").preauth(), "threeDSServerProtocolVersions", allVersions)
		for _, kind := range []string{"APP", "BRW", "3RI"} {
			t.wantAccepted(allVersions, kind, "Y")
		}
	}},
	{id: "VN-02", do: func(t *T) {
		for pan, versions := range map[string][]string{
			"4000001234567899": allVersions, "4000021234567890": {v210}, "4000031234567890": {v220}, "4000041234567890": {v231}, "4000051234567890": {v210, v220},
		} {
			x := t.flow(v220, "BRW").card("visa", pan)
			crd := x.preauth()
			t.want("CRD", crd, "acsStartProtocolVersion", versions[0])
			t.want("CRD", crd, "acsEndProtocolVersion", versions[len(versions)-1])
			if told := versionsOf(crd); told != strings.Join(versions, ",") {
				t.Errorf("%s…: the CRD tells %s, want %s", pan[:6], told, strings.Join(versions, ","))
			}
			t.want("CRD", crd, "dsProtocolVersions", allVersions)
		}
	}},
	{id: "VN-03", do: func(t *T) {
		for _, tt := range []struct{ acs, ds [2]string }{
			{[2]string{v210, v210}, [2]string{v210, v220}}, {[2]string{v210, v220}, [2]string{v220, v220}}, {[2]string{v210, "2.4.0"}, [2]string{v210, v220}},
		} {
			l := t.ownLab(plan{directories: []directory{{
				scheme: "visa", keys: map[string]string{"versions": "[2.1.0, 2.2.0]"}, ranges: []cardRange{{prefix: "400000", from: tt.acs[0], to: tt.acs[1]}},
			}}, prepare: func(l *lab) {
				l.ds["visa"].setPReqAnswer(func(q *request) reply {
					return reply{body: l.ds["visa"].pres(q.o).bytes(set("dsStartProtocolVersion", tt.ds[0]), set("dsEndProtocolVersion", tt.ds[1]))}
				})
			}})
			for _, v := range until220 {
				x := t.flowIn(l, v, "BRW")
				if tt.acs[0] <= v && v <= tt.acs[1] && tt.ds[0] <= v && v <= tt.ds[1] {
					x.wantAccepted()
				} else {
					x.wantRefused("102", "")
				}
			}
		}
	}},
	{id: "VN-04", do: func(t *T) {
		l := t.ownLab(plan{directories: []directory{{
			scheme: "visa", keys: map[string]string{"versions": "[2.2.0]"}, ranges: []cardRange{{prefix: "400000", from: v210, to: v210}},
		}}})
		for _, v := range allVersions {
			body := sample("AReq", v, "APP", "PA")
			body["deviceChannel"], body["messageCategory"] = "01", "01"
			got, err := l.callAPI("/auth", l.key, body.bytes())
			if err != nil || got.status != 400 || got.o.text("messageType") != "Erro" {
				t.Errorf("%s: /auth: %v %v, want status 400 and an Erro", v, got, err)
			}
		}
		if n := len(l.ds["visa"].requests("AReq", "")); n > 0 {
			t.Errorf("%d AReqs left, want none", n)
		}
	}},
	{id: "VN-05", do: func(t *T) {
		for _, v := range allVersions { // one fault, judged by three sets of rules
			t.flow(v, "BRW").setARes("N", set("transStatusReason", "45")).wantRejected(codesIn(v, reserved), "transStatusReason")
			x := t.flow(v, "BRW").setARes("Y", set("authenticationValue", "short"))
			if v == v231 {
				x.wantAccepted()
			} else {
				x.wantRejected("203", "authenticationValue")
			}
			y := t.flow(v, "BRW").setARes("N", set("cardholderInfo", object{"text": "Call us"}))
			if v == v231 {
				y.wantAccepted()
			} else {
				y.wantRejected("203", "cardholderInfo")
			}
			z := t.flow(v, "BRW").startChallenge()
			z.rreq("Y")
			z.wantRReqRefused(z.rreq("Y"), stateCode(v, "312"), "")
		}
	}},
	{id: "VN-06", do: func(t *T) {
		for pan, common := range map[string]string{"4000021234567890": v210, "4000031234567890": v220, "4000041234567890": v231} {
			for _, v := range allVersions {
				x := t.flow(v, "BRW").card("visa", pan)
				if v == common {
					x.wantAccepted()
				} else {
					x.wantRefused("102", common)
				}
			}
		}
		for _, unknown := range []string{"2.0.0", "1.0.2", "9.9.9"} {
			t.flow(v220, "BRW", set("messageVersion", unknown)).wantRefused("102", "")
		}
	}},
	{id: "VN-07", do: func(t *T) {
		l := t.ownLab(plan{directories: []directory{
			{scheme: "visa", keys: map[string]string{"versions": "[2.2.0, 2.3.1]"}}, {scheme: "mastercard", keys: map[string]string{"versions": "[2.1.0, 2.2.0]"}},
		}})
		for _, v := range allVersions {
			x, y := t.flowIn(l, v, "BRW"), t.flowIn(l, v, "BRW").card("mastercard", cardMastercard)
			if v == v210 {
				x.wantRefused("102", "")
			} else {
				x.wantAccepted()
			}
			if v == v231 {
				y.wantRefused("102", "")
			} else {
				y.wantAccepted()
			}
		}
		z := t.flowIn(l, v220, "BRW").setARes("Y", set("messageVersion", v210))
		z.wantRejected("102", v220)
	}},
	{id: "VN-08", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "BRW").startChallenge()
			for _, other := range allVersions {
				if other != v {
					got := x.rreq("Y", set("messageVersion", other))
					x.wantRReqRefused(got, "203", "messageVersion")
					t.want("Erro", got.o, "messageVersion", v)
				}
			}
			got := x.rreq("Y")
			x.wantRRes(got, "01")
			t.want("RRes", got.o, "messageVersion", v)
		}
	}},
	{id: "VN-09", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "BRW")
			x.setAnswer(func(*request) reply { return reply{body: erroFor(x, "102").bytes(set("errorDetail", "2.1.0"))} })
			t.want("Erro", x.auth().o, "errorCode", "102")
			x.setARes("Y")
			if got := x.auth(); got.o.text("errorCode") != "301" || len(x.sent()) != 1 {
				t.Errorf("%s: the same id again: %s and %d AReqs, want Erro 301 and 1", x, got.body, len(x.sent()))
			}
			t.flow(v, "BRW").wantAccepted()
		}
	}},
}

// versionsOf are the versions of the ACS in a CRD.
func versionsOf(crd object) string {
	var all []string
	list, _ := crd["acsProtocolVersions"].([]any)
	for _, item := range list {
		o, _ := item.(object)
		all = append(all, o.text("version"))
	}
	return strings.Join(all, ",")
}
