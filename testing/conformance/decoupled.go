package conformance

// decoupledChecks is decoupled authentication.
var decoupledChecks = byRow(daFaults, checkRReq,
	check{id: "DA-01", do: func(t *T) { // how long the requestor can wait
		for _, v := range since220 {
			t.flow(v, "BRW", set("threeDSRequestorDecReqInd", "Y")).wantRefused("201", "threeDSRequestorDecMaxTime")
			for _, bad := range []string{"00000", "10081", "100000", "abcde"} {
				t.flow(v, "BRW", set("threeDSRequestorDecReqInd", "Y"), set("threeDSRequestorDecMaxTime", bad)).wantRefused("203", "threeDSRequestorDecMaxTime")
			}
			for _, good := range []string{"00001", "10080"} {
				if got := t.flow(v, "BRW", set("threeDSRequestorDecReqInd", "Y"),
					set("threeDSRequestorDecMaxTime", good)).areq().text("threeDSRequestorDecMaxTime"); got != good {
					t.Errorf("%s: threeDSRequestorDecMaxTime %q, want %q", v, got, good)
				}
			}
		}
	}},
	check{id: "DA-02", do: func(t *T) { // D: the requestor gets all of it, and there is no challenge
		for _, v := range since220 {
			for _, kind := range []string{"BRW", "APP", "3RI"} {
				got := t.flow(v, kind, wantDecoupled.edits()...).setARes("D").wantPassedOn()
				if got.o.has("acsURL") || !got.o.has("cardholderInfo") || got.o.text("acsDecConInd") != "Y" {
					t.Errorf("%s %s: ARes %s, want cardholderInfo, acsDecConInd Y and no acsURL", v, kind, got.body)
				}
			}
		}
	}},
	check{id: "DA-07", do: func(t *T) { // the 3RI that follows a fallback
		x := t.flow(v231, "BRW", decoupledAs("F").edits()...).startChallenge()
		x.wantRRes(x.rreq("D", set("transStatusReason", "29")), "04")
		follow := func(ref string) *flow {
			return t.flow(v231, "3RI", set("threeRIInd", "19"), set("threeDSRequestorDecReqInd", "Y"), set("threeDSRequestorDecMaxTime", "00010"),
				set("threeDSRequestorPriorAuthenticationInfo", []object{{"threeDSReqPriorRef": ref, "threeDSReqPriorAuthMethod": "02"}}))
		}
		areq := follow(x.ares.text("acsTransID")).areq()
		for path, want := range map[string]string{
			"deviceChannel": "03", "threeRIInd": "19", "threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00010",
			"threeDSRequestorPriorAuthenticationInfo[0].threeDSReqPriorRef":        x.ares.text("acsTransID"),
			"threeDSRequestorPriorAuthenticationInfo[0].threeDSReqPriorAuthMethod": "02",
		} {
			if got := areq.text(path); got != want {
				t.Errorf("%s = %q, want %q", path, got, want)
			}
		}
		y := follow(newID())
		if got := y.auth(); got.o.text("messageType") != "Erro" || len(y.sent()) > 0 {
			t.Errorf("a 3RI that refers to an unknown authentication: %d %s and %d AReqs, want an Erro and none", got.status, got.body, len(y.sent()))
		}
	}},
	check{id: "DA-08", do: func(t *T) { // that 3RI has to say how long the requestor can wait
		t.flow(v231, "3RI", set("threeRIInd", "19"), set("threeDSRequestorDecReqInd", "Y"),
			set("threeDSRequestorPriorAuthenticationInfo", []object{{"threeDSReqPriorRef": newID(),
				"threeDSReqPriorAuthMethod": "02"}})).wantRefused("201", "threeDSRequestorDecMaxTime")
	}},
	check{id: "DA-09", waits: true, do: func(t *T) { // /preauth tells whether the issuer supports it
		t.onScripted(since220, func(a *scriptedDS) {
			a.loadSet(t, "", append(a.entries(1, 2, 3), a.entry(0, a.info([]string{"01", "03"}))))
			if got := a.crd(t, a.card(0)).text("acsInfoInd[1]"); got != "03" {
				t.Errorf("%s: /preauth: acsInfoInd %q, want 03", a.version, got)
			}
		})
	}},
	check{id: "DA-10", do: func(t *T) { // until the result comes, /postauth says pending, and not unknown
		for _, v := range since220 {
			x := t.flow(v, "BRW", wantDecoupled.edits()...).reachWaiting("D")
			x.wantPending()
			x.wantPending()
			x.wantRRes(x.rreq("Y"), "01")
			if got := x.result(); got.status != 200 || got.o.text("transStatus") != "Y" {
				t.Errorf("%s: /postauth: %d %s, want the RReq with transStatus Y", x, got.status, got.body)
			}
		}
	}},
)

var daFaults = []fault{
	{row: "DA-05", name: "time over", in: "2.2.0 2.3.1", ask: wantDecoupled, ares: "D", rreq: "U",
		set: overrides{"transStatusReason": "24", "challengeCancel": "03", "interactionCounter": nil}},
	{row: "DA-05", name: "tried, not performed", in: "2.2.0 2.3.1", ask: wantDecoupled, ares: "D", rreq: "U",
		set: overrides{"transStatusReason": "26", "challengeCancel": "03", "interactionCounter": nil}},
	{row: "DA-06", name: "after F", in: "2.3.1", ask: decoupledAs("F"), rreq: "D", set: overrides{"transStatusReason": "29"}},
	{row: "DA-06", name: "after B", in: "2.3.1", ask: decoupledAs("B"), rreq: "D", set: overrides{"transStatusReason": "30"}},
}
