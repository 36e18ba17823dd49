package conformance

// operationValidationChecks is the validation of OReq and of Erro.
var operationValidationChecks = []check{
	{id: "VO-01", do: func(t *T) {
		for _, name := range []string{"dsReferenceNumber", "dsTransID", "opCategory", "opDescription", "opExpDate", "opSeq", "opSeverity"} {
			t.wantCompleteErro(t.oreq(oreqs(1)[0], drop(name)), "201", name)
		}
		t.wantCompleteErro(t.oreq(oreqs(1)[0], set("opSeverity", "09")), "207", "opSeverity")
		t.wantCompleteErro(t.oreq(oreqs(1)[0], set("opPriorTransRef", object{"transIdType": "09", "transId": newID()})), "203", "opPriorTransRef.transIdType")
		t.wantOpStatus(t.oreq(oreqs(1)[0], set("opPriorTransRef", object{"transIdType": "01", "transId": newID()})), "01")
	}},
	{id: "VO-02", do: func(t *T) {
		t.wantCompleteErro(t.oreq(oreqs(1)[0], set("opSeq.seqId", "1")), "203", "opSeq.seqId")
		t.wantCompleteErro(t.oreq(oreqs(1)[0], set("opSeq.seqNum", "00")), "203", "opSeq.seqNum")
		t.wantCompleteErro(t.oreq(oreqs(1)[0], set("opSeq.seqTotal", "0")), "203", "opSeq.seqTotal")
		all := oreqs(3)
		t.wantEmptyAnswer("an OReq", t.oreq(all[0]))
		t.wantOpStatus(t.oreq(all[2]), "02")
		all = oreqs(3)
		t.wantEmptyAnswer("an OReq", t.oreq(all[0]))
		t.wantOpStatus(t.oreq(all[1], set("opSeq.seqTotal", "02")), "02")
	}},
	{id: "VO-03", do: func(t *T) {
		for _, v := range until220 {
			x := t.flow(v, "BRW").startChallenge()
			oreq := object{
				"messageType": "OReq", "messageVersion": v, "dsReferenceNumber": "DS1", "dsTransID": newID(), "opCategory": "01",
				"opDescription": "Hello", "opExpDate": "20301231", "opSeverity": "01",
				"opSeq": object{"seqId": newID(), "seqNum": "01", "seqTotal": "01"},
			}
			x.wantRReqRefused(x.post(oreq.bytes()), "101", "")
		}
	}},
	{id: "VO-04", do: func(t *T) {
		for _, v := range allVersions {
			for _, odd := range []edit{
				drop("errorDetail"), drop("errorDescription"), drop("errorComponent"), drop("errorMessageType"), set("errorCode", "99"),
				set("errorDetail", ""), set("foo", object{"a": nil}), drop("messageVersion"),
			} {
				x := t.flow(v, "BRW")
				x.setAnswer(func(*request) reply { return reply{body: erroFor(x, "203").bytes(odd)} })
				if got := x.auth(); got.status != 400 || got.o.text("messageType") != "Erro" {
					t.Errorf("%s: %d %s, want an Erro", x, got.status, got.body)
				}
				y := t.flow(v, "BRW").startChallenge()
				t.wantEmptyAnswer("the Erro of "+y.String(), y.post(erroFor(y, "203").bytes(odd)))
				y.wantRReqRefused(y.rreq("Y"), stateCode(v, "313"), "") // the transaction is closed
			}
		}
	}},
}
