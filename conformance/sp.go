package conformance

import "bytes"

// sp is secure payment confirmation.
var sp = []check{
	{"SP-02", func(t *T) {
		l := t.lab(spcPlan)
		x := t.flowIn(l, v231, "BRW", offerSPC...).answers("S")
		got := x.accepted()
		for _, name := range []string{"webAuthnCredList", "spcTransData"} {
			t.want("ARes", got.o, name, x.ares[name])
		}
	}},
	{"SP-03", func(t *T) {
		l := t.lab(spcPlan)
		x := t.flowIn(l, v231, "BRW", offerSPC...)
		x.answers("S", set("webAuthnCredList[0].credentialIds", secretMark+secretMark), set("spcTransData.icon", secretMark))
		if got := x.accepted(); !bytes.Contains(got.body, []byte(secretMark)) {
			t.Errorf("%s: the requestor does not get the data", x)
		}
		l.scan(t, secretMark)
	}},
	{"SP-09", func(t *T) {
		l := t.lab(spcPlan)
		x := t.flowIn(l, v231, "BRW", offerSPC...).answers("S")
		x.accepted()
		y := t.flowIn(l, v231, "BRW", append(secondSPC(x), offerSPC...)...)
		t.want("second AReq", y.areq(), "threeDSRequestorAuthenticationInfo[0].threeDSReqAuthData", object{"id": "Y3JlZGVudGlhbA", "type": "public-key"})
	}},
	{"SP-10", func(t *T) {
		l := t.lab(spcPlan)
		for _, status := range []string{"Y", "C"} {
			x := t.flowIn(l, v231, "BRW", offerSPC...).answers("S")
			x.accepted()
			y := t.flowIn(l, v231, "BRW", append(secondSPC(x), offerSPC...)...).answers(status)
			t.want("second ARes", y.accepted().o, "transStatus", status)
			if status == "C" {
				y.taken(y.rreq("Y"), "01")
				t.want("result", y.result().o, "transStatus", "Y")
			}
		}
	}},
	{"SP-11", func(t *T) {
		l := t.lab(spcPlan)
		x := t.flowIn(l, v231, "BRW", offerSPC...).answers("S")
		x.accepted()
		x.taken(x.rreq("N", set("transStatusReason", "14"), set("challengeCancel", "05")), "01")
		t.want("result", x.result().o, "transStatusReason", "14")
	}},
}

// spcPlan is a lab whose cards have an issuer that supports SPC.
var spcPlan = plan{directories: []directory{{scheme: "visa", ranges: []cardRange{{prefix: "400000", from: v231, to: v231, info: []string{"01", "07"}}}}}}

// offerSPC are the edits of a request that offers SPC.
var offerSPC = []edit{set("threeDSRequestorSpcSupport", "Y"), set("payeeOrigin", "https://shop.example")}

// secondSPC are the edits of the second request of SPC: the assertion, and what
// it refers to.
func secondSPC(first *flow) []edit {
	return []edit{
		set("threeDSRequestorAuthenticationInfo", []object{{
			"threeDSReqAuthMethod": "09", "threeDSReqAuthTimestamp": "202611201201", "threeDSReqAuthData": object{"id": "Y3JlZGVudGlhbA", "type": "public-key"},
		}}),
		set("threeDSRequestorPriorAuthenticationInfo", []object{{
			"threeDSReqPriorRef": first.ares["acsTransID"], "threeDSReqPriorAuthMethod": "05", "threeDSReqPriorAuthTimestamp": "202611201200",
		}}),
	}
}
