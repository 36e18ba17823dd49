package conformance

import (
	"bytes"
	"fmt"
	"slices"
)

// spcChecks is secure payment confirmation.
var spcChecks = []check{
	{id: "SP-01", do: func(t *T) {
		l := t.sharedLab()
		if areq := t.startSPC(l).areq(); areq.text("threeDSRequestorSpcSupport") != "Y" || !areq.has("payeeOrigin") {
			t.Errorf("AReq to an issuer with SPC: %s, want threeDSRequestorSpcSupport Y and payeeOrigin", encode(areq))
		}
		if areq := t.flowIn(l, v231, "BRW", offerSPC...).areq(); areq.has("threeDSRequestorSpcSupport") {
			t.Errorf("AReq to an issuer without SPC: %s, want no threeDSRequestorSpcSupport", encode(areq))
		}
	}},
	{id: "SP-02", do: func(t *T) {
		l := t.ownLab(spcPlan)
		x := t.flowIn(l, v231, "BRW", offerSPC...).setARes("S")
		got := x.wantAccepted()
		for _, name := range []string{"webAuthnCredList", "spcTransData"} {
			t.want("ARes", got.o, name, x.ares[name])
		}
	}},
	{id: "SP-03", do: func(t *T) {
		l := t.ownLab(spcPlan)
		x := t.flowIn(l, v231, "BRW", offerSPC...)
		x.setARes("S", set("webAuthnCredList[0].credentialIds", secretMark+secretMark), set("spcTransData.icon", secretMark))
		if got := x.wantAccepted(); !bytes.Contains(got.body, []byte(secretMark)) {
			t.Errorf("%s: the requestor does not get the data", x)
		}
		l.scanForSecret(t, secretMark)
	}},
	{id: "SP-05", do: func(t *T) {
		l := t.sharedLab()
		_, ref := t.wantConfirmed(l)
		areq := t.startSPC(l, priorOf("05", ref), set("spcIncompInd", "03")).areq()
		if areq.text("spcIncompInd") != "03" || areq.has("threeDSRequestorAuthenticationInfo") {
			t.Errorf("AReq %s, want spcIncompInd 03 and no threeDSRequestorAuthenticationInfo", encode(areq))
		}
		t.startSPC(l, priorOf("05", ref), set("spcIncompInd", "03"), assertion("signed")).wantRefused("305", "threeDSRequestorAuthenticationInfo")
	}},
	{id: "SP-06", do: func(t *T) {
		l := t.sharedLab()
		first, ref := t.wantConfirmed(l)
		second := t.startSPC(l, priorOf("05", ref), assertion("signed"))
		areq := second.areq()
		if second.id == first.id || areq.text("threeDSRequestorAuthenticationInfo[0].threeDSReqAuthMethod") != "09" ||
			areq.text(prior+"[0].threeDSReqPriorRef") != ref || areq.text(prior+"[0].threeDSReqPriorAuthMethod") != "05" {
			t.Errorf("AReq %s, want a new id, method 09, and the prior authentication with method 05", encode(areq))
		}
		t.startSPC(l, assertion("signed")).wantRefused("201", prior)
		t.startSPC(l, priorOf("02", ref), assertion("signed")).wantRefused("203", prior+".threeDSReqPriorAuthMethod")
		t.startSPC(l, priorOf("05", newID()), assertion("signed")).wantRefused("305", prior+".threeDSReqPriorRef")
		foreign := t.startSPC(l, priorOf("05", ref), assertion("signed"))
		foreign.key = l.other
		foreign.wantRefused("305", prior+".threeDSReqPriorRef")
	}},
	{id: "SP-07", do: func(t *T) {
		l := t.sharedLab()
		_, ref := t.wantConfirmed(l)
		for _, name := range []string{"purchaseAmount", "purchaseCurrency", "acquirerMerchantID", "mcc"} {
			value := map[string]string{"purchaseAmount": "1", "purchaseCurrency": "208", "acquirerMerchantID": "M2", "mcc": "5999"}[name]
			t.startSPC(l, priorOf("05", ref), assertion("signed"), set(name, value)).wantRefused("305", name)
		}
		other := t.startSPC(l, priorOf("05", ref), assertion("signed"))
		other.req["acctNumber"] = "4000071234567898"
		other.wantRefused("305", "acctNumber")
	}},
	{id: "SP-08", do: func(t *T) {
		l := t.sharedLab()
		_, ref := t.wantConfirmed(l)
		for _, code := range []string{"01", "02"} {
			if areq := t.startSPC(l, priorOf("05", ref), set("spcIncompInd", code)).areq(); areq.text("spcIncompInd") != code {
				t.Errorf("AReq %s, want spcIncompInd %s", encode(areq), code)
			}
		}
	}},
	{id: "SP-09", do: func(t *T) {
		l := t.ownLab(spcPlan)
		x := t.flowIn(l, v231, "BRW", offerSPC...).setARes("S")
		x.wantAccepted()
		y := t.flowIn(l, v231, "BRW", append(secondSPC(x), offerSPC...)...)
		t.want("second AReq", y.areq(), "threeDSRequestorAuthenticationInfo[0].threeDSReqAuthData", signedData)
	}},
	{id: "SP-10", do: func(t *T) {
		l := t.ownLab(spcPlan)
		for _, status := range []string{"Y", "C"} {
			x := t.flowIn(l, v231, "BRW", offerSPC...).setARes("S")
			x.wantAccepted()
			y := t.flowIn(l, v231, "BRW", append(secondSPC(x), offerSPC...)...).setARes(status)
			t.want("second ARes", y.wantAccepted().o, "transStatus", status)
			if status == "C" {
				y.wantRRes(y.rreq("Y"), "01")
				t.want("result", y.result().o, "transStatus", "Y")
			}
		}
	}},
	{id: "SP-11", do: func(t *T) {
		l := t.ownLab(spcPlan)
		x := t.flowIn(l, v231, "BRW", offerSPC...).setARes("S")
		x.wantAccepted()
		x.wantRRes(x.rreq("N", set("transStatusReason", "14"), set("challengeCancel", "05")), "01")
		t.want("result", x.result().o, "transStatusReason", "14")
	}},
}

// spcPlan is a lab whose cards have an issuer that supports SPC.
var spcPlan = plan{directories: []directory{{scheme: "visa", ranges: []cardRange{{prefix: "400000", from: v231, to: v231, info: []string{"01", "07"}}}}}}

// offerSPC are the edits of a request that offers SPC.
var offerSPC = []edit{set("threeDSRequestorSpcSupport", "Y"), set("payeeOrigin", "https://shop.example")}

// signedData is an assertion as browsers write it.
var signedData = object{
	"id": "Y3JlZGVudGlhbA", "type": "public-key", "authenticatorAttachment": nil, "clientExtensionResults": object{},
}

// secondSPC are the edits of the second request of SPC: the assertion, and a reference to
// the first one.
func secondSPC(first *flow) []edit {
	return []edit{assertion(signedData), priorOf("05", first.ares.text("acsTransID"))}
}

// startSPC begins an authentication with an issuer that supports SPC.
func (t *T) startSPC(l *lab, edits ...edit) *flow {
	return t.flowIn(l, v231, "BRW", append(slices.Clone(offerSPC), edits...)...).card("visa", cardSPC)
}

// wantConfirmed brings an authentication to an ARes with transStatus S, and returns the
// acsTransID of that.
func (t *T) wantConfirmed(l *lab) (*flow, string) {
	x := t.startSPC(l).reachWaiting("S")
	return x, x.ares.text("acsTransID")
}

const prior = "threeDSRequestorPriorAuthenticationInfo"

// priorOf refers to an earlier authentication by its acsTransID.
func priorOf(method, ref string) edit {
	return set(prior, []object{{
		"threeDSReqPriorAuthMethod": method, "threeDSReqPriorAuthTimestamp": "202611201200", "threeDSReqPriorRef": ref,
	}})
}

// assertion brings the browser's assertion.
func assertion(data any) edit {
	return set("threeDSRequestorAuthenticationInfo", []object{{
		"threeDSReqAuthMethod": "09", "threeDSReqAuthTimestamp": "202611201200", "threeDSReqAuthData": data,
	}})
}

// oreqs are the OReqs of a sequence of n.
func oreqs(n int) []object {
	var all []object
	id := newID()
	for i := range n {
		o := sample("OReq", v231)
		o["dsTransID"] = newID()
		o["opSeq"] = object{"seqId": id, "seqNum": fmt.Sprintf("%02d", i+1), "seqTotal": fmt.Sprintf("%02d", n)}
		all = append(all, o)
	}
	return all
}
