package conformance

// This file is one idea: the checks of the rows VG, one below the other as the
// obligations have them.

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// generalChecks is what holds for every message that is received.
var generalChecks = []check{
	{id: "VG-01", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "BRW").startChallenge()
			areq := x.req.bytes()
			pres := presOf(object{"messageVersion": v, "threeDSServerTransID": x.id}, usualRanges["visa"]).bytes()
			for _, body := range [][]byte{areq, pres, x.ares.bytes(), creq(x), x.rreqOf("Y").bytes(set("messageType", "RRes"))} {
				x.wantRReqRefused(x.post(body), "101", "")
			}
			x.wantRRes(x.rreq("Y"), "01") // none of them has changed anything
		}
	}},
	{id: "VG-02", do: func(t *T) {
		for _, v := range allVersions {
			for _, bad := range []edit{raw("{"), raw(""), raw("garbage"), raw("{}{}"), text(`"}`, `",}`)} {
				t.flow(v, "BRW").setARes("Y", bad).wantRejected("101", "")
				x := t.flow(v, "BRW").startChallenge()
				got := x.rreq("Y", bad)
				if got.status != 400 {
					x.wantRReqRefused(got, "101", "")
				}
				x.wantRRes(x.rreq("Y"), "01")
			}
		}
	}},
	{id: "VG-03", do: func(t *T) {
		for _, v := range allVersions {
			for codes, bad := range map[string]edit{"101": set("messageType", "XReq"), "101|201": drop("messageType"), "201|101": set("messageType", "")} {
				t.flow(v, "BRW").setARes("Y", bad).wantRejected(codes, "")
				x := t.flow(v, "BRW").startChallenge()
				x.wantRReqRefused(x.rreq("Y", bad), codes, "")
			}
			x := t.flow(v, "BRW").startChallenge()
			x.wantRReqRefused(x.rreq("Y", set("messageType", "rreq")), "101", "")
		}
	}},
	{id: "VG-04", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "BRW")
			x.wantAccepted()
			x.wantRReqRefused(x.rreq("Y"), stateCode(v, "313"), "")
			t.flow(v, "3RI").setARes("C").wantRejected("203", "transStatus")
		}
	}},
	{id: "VG-05", do: func(t *T) {
		for _, v := range allVersions {
			for _, bad := range []edit{drop("acsTransID"), set("acsTransID", ""), set("acsTransID", nil)} {
				t.flow(v, "BRW").setARes("Y", bad).wantRejected("201", "acsTransID")
				x := t.flow(v, "BRW").startChallenge()
				x.wantRReqRefused(x.rreq("Y", bad), "201", "acsTransID")
			}
			for _, bad := range []edit{drop("acsURL"), set("acsURL", ""), set("acsURL", nil)} { // by condition
				t.flow(v, "BRW").setARes("C", bad).wantRejected("201", "acsURL")
			}
		}
	}},
	{id: "VG-06", do: func(t *T) {
		for _, empty := range []any{"", nil} {
			t.wantRejected(allVersions, "BRW", "Y", "203", "acsChallengeMandated", set("acsChallengeMandated", empty))
			t.wantRejected(allVersions, "BRW", "Y", "203", "acsOperatorID", set("acsOperatorID", empty))
			for _, v := range allVersions {
				x := t.flow(v, "BRW").startChallenge()
				x.wantRReqRefused(x.rreq("Y", set("challengeCancel", empty)), "203", "challengeCancel")
			}
		}
	}},
	{id: "VG-07", do: func(t *T) {
		for _, v := range allVersions {
			codes := make(map[string]bool)
			for range 5 {
				x := t.flow(v, "APP").setARes("Y", set("acsRenderingType", object{}))
				x.wantRejected("201|203", "")
				codes[x.answer.o.text("errorCode")] = true
			}
			if len(codes) != 1 {
				t.Errorf("%s: the same fault got %d error codes, want always one: %v", v, len(codes), slices.Sorted(maps.Keys(codes)))
			}
		}
	}},
	{id: "VG-08", do: func(t *T) {
		id := newID()
		for path, bad := range map[string]any{
			"dsTransID": id[:35], "acsTransID": id + "0", "acsReferenceNumber": strings.Repeat("a", 33), "eci": "123",
			"acsOperatorID": strings.Repeat("a", 33), "transStatus": "YY",
		} {
			t.wantRejected(allVersions, "BRW", "Y", "203", path, set(path, bad))
		}
		for path, bad := range map[string]any{"dsTransID": id[:35], "eci": "5", "interactionCounter": "1", "messageCategory": "1"} {
			for _, v := range allVersions {
				x := t.flow(v, "BRW").startChallenge()
				x.wantRReqRefused(x.rreq("Y", set(path, bad)), "203", path)
			}
		}
	}},
	{id: "VG-09", do: func(t *T) {
		for _, id := range []string{
			"8ad7a1a8-9dad-11d1-80b4-00c04fd430c8", "2ed6657d-e927-568b-95e1-2665a8aea6a2", strings.ToUpper(newID()),
			"017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "8ad7a1a8-9dad-01d1-00b4-00c04fd430c8",
		} {
			t.wantAccepted(allVersions, "BRW", "Y", set("dsTransID", id), set("acsTransID", id))
			for _, v := range allVersions {
				x := t.flow(v, "BRW").setARes("C", set("acsTransID", id))
				x.wantAccepted()
				x.wantRRes(x.rreq("Y"), "01")
			}
		}
		t.wantAccepted(allVersions, "BRW", "C", set("acsURL", "https://acs.example:8080/a_b?c=d"))
	}},
	{id: "VG-10", do: func(t *T) {
		for _, extra := range []any{object{"a": object{"b": 1.5}}, []any{1, nil}, nil, "", true} {
			t.wantAccepted(allVersions, "BRW", "Y", set("foo", extra))
			for _, v := range allVersions {
				x := t.flow(v, "BRW").startChallenge()
				x.wantRRes(x.rreq("Y", set("foo", extra)), "01")
			}
		}
	}},
	{id: "VG-11", do: func(t *T) {
		t.wantAccepted(allVersions, "BRW", "Y", set("sdkTransID", newID()))
		t.wantAccepted(allVersions, "3RI", "Y", set("acsURL", "https://acs.example"))
		for _, v := range allVersions {
			x := t.flow(v, "BRW").setARes("Y", set("sdkTransID", "short"))
			if got := x.auth(); got.status != 200 && got.o.text("errorCode") != "203" {
				t.Errorf("%s: %d %s, want the ARes or Erro 203", x, got.status, got.body)
			}
			y := t.flow(v, "BRW").startChallenge()
			y.wantRRes(y.rreq("Y", set("sdkTransID", newID())), "01")
		}
	}},
	{id: "VG-12", do: func(t *T) {
		extra := object{"a": []any{object{"b": nil}}}
		for _, v := range allVersions {
			x := t.flow(v, "BRW").setARes("Y", set("foo", extra))
			t.want("ARes", x.wantAccepted().o, "foo", extra)
			y := t.flow(v, "BRW").startChallenge()
			y.wantRRes(y.rreq("Y", set("foo", extra)), "01")
			t.want("RReq", y.result().o, "foo", extra)
		}
	}},
	{id: "VG-13", do: func(t *T) {
		one := []any{object{"name": "rbaScoring", "id": "A000000658-001", "criticalityIndicator": false, "data": object{"score": 0.50, "list": []any{nil, ""}}}}
		for _, v := range allVersions {
			x := t.flow(v, "BRW", set("messageExtension", one)).setARes("Y", set("messageExtension", one))
			t.want("ARes", x.wantAccepted().o, "messageExtension", one)
			t.want("AReq", x.sent()[0].o, "messageExtension", one)
			y := t.flow(v, "BRW").startChallenge()
			y.wantRRes(y.rreq("Y", set("messageExtension", one)), "01")
			t.want("RReq", y.result().o, "messageExtension", one)
		}
	}},
	{id: "VG-14", do: func(t *T) {
		critical := func(id string) object {
			return object{"name": "n", "id": id, "criticalityIndicator": true, "data": object{"a": "b"}}
		}
		both := set("messageExtension", []any{critical("A999999999-001"), critical("A999999999-002")})
		for _, v := range allVersions {
			for _, id := range []string{"A999999999-001", "A999999999-002"} {
				t.flow(v, "BRW").setARes("Y", both).wantRejected("202", id)
				x := t.flow(v, "BRW").startChallenge()
				x.wantRReqRefused(x.rreq("Y", both), "202", id)
			}
		}
	}},
	{id: "VG-15", do: func(t *T) {
		one := object{"name": "n", "id": "A000000658-001", "criticalityIndicator": false, "data": object{"a": "b"}}
		for _, v := range allVersions {
			most := mostExtensions(v)
			var many []object
			for n := range most + 1 {
				many = append(many, object{"name": "n", "id": "ext-" + itoa(n), "criticalityIndicator": false, "data": object{"a": "b"}})
			}
			t.wantAccepted([]string{v}, "BRW", "Y", set("messageExtension", many[:most]))
			t.wantRejected([]string{v}, "BRW", "Y", "203", "messageExtension", set("messageExtension", many))
		}
		t.wantRejected(allVersions, "BRW", "Y", "203", "messageExtension.criticalityIndicator",
			set("messageExtension", []any{one}), set("messageExtension[0].criticalityIndicator", "false"))
		t.wantRejected(allVersions, "BRW", "Y", "203", "messageExtension.id", set("messageExtension", []any{one}),
			set("messageExtension[0].id", strings.Repeat("a", 65)))
		t.wantRejected(allVersions, "BRW", "Y", "203", "messageExtension.data", set("messageExtension", []any{one}),
			set("messageExtension[0].data.a", strings.Repeat("a", 8060)))
		t.wantRejected(allVersions, "BRW", "Y", "203", "messageExtension", set("messageExtension", one))
		t.wantRejected([]string{v231}, "BRW", "Y", "203", "messageExtension", set("messageExtension", longExtensions(11)))
		t.wantRejected(until220, "BRW", "Y", "203", "messageExtension", set("messageExtension", longExtensions(10)))
	}},
	{id: "VG-16", do: func(t *T) {
		one := object{"name": "n", "id": "A000000658-001", "criticalityIndicator": false, "data": object{"a": "b"}}
		for _, name := range []string{"name", "id", "criticalityIndicator", "data"} {
			t.wantRejected(allVersions, "BRW", "Y", "201", "messageExtension."+name, set("messageExtension", []any{one}), drop("messageExtension[0]."+name))
		}
	}},
	{id: "VG-17", do: func(t *T) {
		for _, v := range allVersions {
			for _, again := range []any{"05", "06"} {
				t.flow(v, "BRW").setARes("Y", twice("eci", again)).wantRejected("204", "eci")
				x := t.flow(v, "BRW").startChallenge()
				x.wantRReqRefused(x.rreq("Y", twice("eci", again)), "204", "eci")
				x.wantRRes(x.rreq("Y"), "01")
			}
			t.flow(v, "APP").setARes("C", text(`"acsInterface":"01"`, `"acsInterface":"01","acsInterface":"02"`)).wantRejected("204", "acsRenderingType.acsInterface")
			t.flow(v, "BRW", twice("mcc", "5411")).wantRefused("204", "mcc")
			t.flow(v, "BRW").setARes("Y", twice(`e\u0063i`, "05"), text(`\\u`, `\u`)).wantRejected("204", "eci")
		}
	}},
	{id: "VG-18", do: func(t *T) {
		t.wantRejected([]string{v231}, "BRW", "C", "204", "authenticationMethod", set("authenticationMethod", []string{"02", "02"}))
		x := t.flow(v231, "BRW").startChallenge()
		x.wantRReqRefused(x.rreq("Y", set("authenticationMethod", []string{"02", "03", "02"})), "204", "authenticationMethod")
		one := object{"name": "n", "id": "A000000658-001", "criticalityIndicator": false, "data": object{"a": "b"}}
		t.wantAccepted(until220, "BRW", "Y", set("messageExtension", []any{one, one})) // which forbids nothing of the kind
	}},
	{id: "VG-19", do: func(t *T) {
		t.wantRejected(allVersions, "BRW", "N", reserved, "transStatusReason", set("transStatusReason", "45"))
		for _, v := range allVersions {
			x := t.flow(v, "BRW").startChallenge()
			x.wantRReqRefused(x.rreq("N", set("transStatusReason", "45")), codesIn(v, reserved), "transStatusReason")
		}
		t.wantRejected([]string{v231}, "BRW", "C", "207", "authenticationMethod", set("authenticationMethod", []string{"17"}))
		t.wantRejected(until220, "BRW", "C", "203", "authenticationType", set("authenticationType", "05"))
	}},
	{id: "VG-20", do: func(t *T) {
		t.wantAccepted(allVersions, "BRW", "N", set("transStatusReason", "85"))
		t.wantAccepted(until220, "BRW", "C", set("authenticationType", "80"))
		for _, v := range allVersions {
			x := t.flow(v, "BRW").startChallenge()
			x.wantRRes(x.rreq("N", set("transStatusReason", "99")), "01")
		}
	}},
	{id: "VG-21", do: func(t *T) {
		for _, code := range []string{"999", "901", "000"} {
			l := t.ownLab(plan{unready: true, directories: []directory{{scheme: "visa"}}, prepare: func(l *lab) {
				l.ds["visa"].setPReqAnswer(func(q *request) reply {
					return reply{body: l.ds["visa"].pres(q.o).bytes(set("cardRangeData[0].issuerCountryCode", code))}
				})
			}})
			x := &flow{t: t, l: l, d: l.ds["visa"], version: v231}
			erro := x.receivedErro()
			if erro == nil {
				t.Fatalf("no Erro for issuerCountryCode %s", code)
			}
			x.wantErro("directory", erro.o, "304", "cardRangeData.issuerCountryCode")
		}
	}},
	{id: "VG-22", do: func(t *T) {
		t.wantRejected(allVersions, "APP", "C", "201", "acsRenderingType.acsInterface", drop("acsRenderingType.acsInterface"))
		for _, v := range allVersions {
			x := t.flow(v, "BRW").setARes("Y", drop("acsTransID"), drop("acsReferenceNumber"))
			x.wantRejected("201", "acsTransID")
			x.wantErro("requestor", x.answer.o, "201", "acsReferenceNumber")
			y := t.flow(v, "APP").startChallenge()
			y.wantRReqRefused(y.rreq("Y", drop("acsRenderingType.acsUiTemplate")), "201", "acsRenderingType.acsUiTemplate")
		}
	}},
	{id: "VG-23", do: func(t *T) {
		for _, v := range allVersions {
			for _, odd := range []string{"[]", `"ARes"`, "null", "7", "[{}]"} { // JSON, and no message
				t.flow(v, "BRW").setARes("Y", raw(odd)).wantRejected("101", "")
				x := t.flow(v, "BRW").startChallenge()
				if got := x.post([]byte(odd)); got.status != 400 {
					x.wantRReqRefused(got, "101", "")
				}
			}
		}
	}},
	{id: "VG-24", do: func(t *T) {
		t.wantRejected(allVersions, "BRW", "Y", "201|203", "", drop("acsReferenceNumber"), set("acsTransID", "short"))
		t.wantRejected(allVersions, "BRW", "N", "201|203|207", "", drop("acsReferenceNumber"), set("transStatusReason", "45"))
		for _, v := range allVersions {
			x := t.flow(v, "BRW").startChallenge()
			x.wantRReqRefused(x.rreq("Y", drop("eci"), drop("authenticationValue"), set("interactionCounter", "x")), "201|203", "")
		}
	}},
	{id: "VG-25", do: func(t *T) {
		faults := []edit{drop("acsReferenceNumber"), set("acsTransID", "short"), twice("eci", "05"), set("acsOperatorID", "")}
		for _, v := range allVersions {
			said := make(map[string]bool)
			for range 10 {
				x := t.flow(v, "BRW").setARes("Y", faults...)
				x.wantRejected("201|203|204", "")
				said[x.answer.o.text("errorCode")+x.answer.o.text("errorDetail")] = true
			}
			if len(said) != 1 {
				t.Errorf("%s: the same faults got %d answers, want always one: %v", v, len(said), slices.Sorted(maps.Keys(said)))
			}
		}
	}},
	{id: "VG-26", do: func(t *T) {
		for _, v := range allVersions {
			for _, bad := range []string{"1.0.2", "2.0.0", "9.9.9"} {
				x := t.flow(v, "BRW").setARes("Y", set("messageVersion", bad))
				x.wantRejected("102", "2.2.0")
				y := t.flow(v, "BRW").startChallenge()
				y.wantRReqRefused(y.rreq("Y", set("messageVersion", bad)), "102", "2.1.0")
			}
		}
	}},
	{id: "VG-27", do: func(t *T) {
		for _, v := range allVersions {
			for _, other := range allVersions {
				if other == v {
					continue
				}
				t.flow(v, "BRW").setARes("Y", set("messageVersion", other)).wantRejected("203", "messageVersion")
				x := t.flow(v, "BRW").startChallenge()
				x.wantRReqRefused(x.rreq("Y", set("messageVersion", other)), "203", "messageVersion")
			}
		}
	}},
	{id: "VG-29", do: func(t *T) {
		t.wantRejected(allVersions, "APP", "Y", "301|203", "sdkTransID", set("sdkTransID", newID()))
		for _, v := range allVersions {
			x := t.flow(v, "BRW").setARes("Y", set("threeDSServerTransID", newID()))
			got := x.auth()
			x.wantErro("requestor", got.o, "301", "threeDSServerTransID")
		}
	}},
	{id: "VG-30", do: func(t *T) {
		d, l := t.sharedLab().ds["visa"], t.sharedLab()
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPost} {
			got, err := send(d.client, method, l.results, nil, []byte("\x00junk"))
			if err != nil {
				t.Fatalf("%s: %v", method, err)
			}
			if got.o.text("errorCode") != "101" && got.status != 400 && got.status != 405 {
				t.Errorf("results: %s: %d %s, want Erro 101, or status 400 or 405", method, got.status, got.body)
			}
		}
	}},
	{id: "VG-31", do: func(t *T) {
		for _, v := range allVersions {
			for _, bad := range [][]edit{nil, {drop("errorCode")}, {set("errorDetail", 7)}, {twice("errorCode", "203")}, {drop("messageVersion")}} {
				x := t.flow(v, "BRW").startChallenge()
				got := x.post(erroFor(x, "203").bytes(bad...))
				t.wantEmptyAnswer("the Erro of "+x.String(), got)
				if after := x.result(); after.o.text("messageType") != "Erro" || after.o.text("errorCode") == "305" {
					t.Errorf("%s: /postauth after an Erro: %s, want an Erro other than 305", x, after.body)
				}
			}
			x := t.flow(v, "BRW")
			x.setAnswer(func(q *request) reply { return reply{body: erroFor(x, "203").bytes(drop("errorDetail"))} })
			x.auth()
			if len(x.d.requests("Erro", x.id)) > 0 {
				t.Errorf("%s: the directory got an Erro for its Erro, want none", x)
			}
		}
	}},
	{id: "VG-32", do: func(t *T) {
		for _, v := range allVersions {
			for _, code := range []string{"203", "999", "316", "000"} {
				x := t.flow(v, "BRW")
				x.setAnswer(func(q *request) reply { return reply{body: erroFor(x, code).bytes()} })
				t.want("Erro", x.auth().o, "errorCode", code)
				y := t.flow(v, "BRW").startChallenge()
				y.post(erroFor(y, code).bytes())
				t.want("Erro", y.result().o, "errorCode", code)
			}
		}
	}},
	{id: "VG-33", do: func(t *T) {
		for _, v := range allVersions {
			bad := t.flow(v, "BRW").setARes("Y", drop("eci"), drop("authenticationValue"))
			bad.wantRejected("201", "authenticationValue")
			t.want("Erro to the requestor", bad.answer.o, "threeDSServerTransID", bad.id)
			x := t.flow(v, "BRW").startChallenge()
			x.post(erroFor(x, "402").bytes())
			x.wantRelayed(x.result().o, "402")
			y := t.flow(v, "BRW")
			y.setAnswer(func(q *request) reply { return reply{body: erroFor(y, "404").bytes()} })
			y.wantRelayed(y.auth().o, "404")
			z := t.flow(v, "BRW").startChallenge()
			z.rreq("Y", drop("authenticationValue"))
			z.wantErro("requestor", z.result().o, "305|201", "")
		}
	}},
	{id: "VG-34", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "BRW")
			x.setAnswer(func(*request) reply { return reply{body: []byte("<html>")} })
			x.wantRejected("101", "")
			if got := x.auth(); got.o.text("errorCode") != "301" {
				t.Errorf("%s: /auth with the id of a failed transaction: %s, want Erro 301", x, got.body)
			}
		}
	}},
	{id: "VG-35", do: func(t *T) {
		t.wantRejected(allVersions, "BRW", "Y", "201", "transStatus", drop("transStatus"), set("transstatus", "Y"))
		t.wantRejected(allVersions, "BRW", "Y", "203", "transStatus", set("transStatus", "y"))
		for _, v := range allVersions {
			x := t.flow(v, "BRW").startChallenge()
			x.wantRReqRefused(x.rreq("Y", drop("dsTransID"), set("DSTransID", x.ares["dsTransID"])), "201", "dsTransID")
			x.wantRReqRefused(x.rreq("Y", set("transStatus", "y")), "203", "transStatus")
		}
	}},
	{id: "VG-36", do: func(t *T) {
		for _, bad := range []any{5, 5.5, true, object{"a": "b"}, []any{"05"}} {
			t.wantRejected(allVersions, "BRW", "Y", "203", "eci", set("eci", bad))
			for _, v := range allVersions {
				x := t.flow(v, "BRW").startChallenge()
				x.wantRReqRefused(x.rreq("Y", set("interactionCounter", bad)), "203", "interactionCounter")
			}
		}
	}},
	{id: "VG-37", do: func(t *T) {
		t.wantRejected(allVersions, "BRW", "Y", "201|203", "dsTransID", set("dsTransID", strings.Repeat(" ", 36)))
		t.wantRejected(allVersions, "BRW", "Y", "201|203", "acsReferenceNumber", set("acsReferenceNumber", " "))
		t.wantRejected(allVersions, "BRW", "C", "201|203", "acsURL", set("acsURL", "  "))
	}},
}

// creq is a browser's CReq of a challenge.
func creq(x *flow) []byte {
	return object{
		"messageType": "CReq", "messageVersion": x.version, "threeDSServerTransID": x.id, "acsTransID": x.ares["acsTransID"], "challengeWindowSize": "02",
	}.bytes()
}

// erroFor is an Erro of the directory server about a transaction.
func erroFor(x *flow, code string) object {
	return object{
		"messageType": "Erro", "messageVersion": x.version, "threeDSServerTransID": x.id, "errorCode": code, "errorComponent": "D",
		"errorDescription": "Something is wrong.", "errorDetail": "mcc", "errorMessageType": "AReq",
	}
}

// stateCode is the code of 2.3.1 for a message that does not fit the state of
// its transaction, and 301 before.
func stateCode(version, code string) string {
	if version == v231 {
		return code
	}
	return "301"
}

// wantRelayed wants o to be the Erro of the directory server that [erroFor] makes.
func (x *flow) wantRelayed(o object, code string) {
	want := erroFor(x, code)
	for _, name := range []string{"errorCode", "errorComponent", "errorDescription", "errorDetail"} {
		x.t.want(x.String()+" relayed Erro", o, name, want[name])
	}
}
