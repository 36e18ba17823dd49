package conformance

import (
	"sync"
)

// idChecks is transaction ids and state.
var idChecks = []check{
	{id: "ID-01", do: func(t *T) {
		seen := make(map[string]bool)
		for _, v := range allVersions {
			for _, kind := range []string{"BRW", "APP", "3RI"} {
				for range 20 {
					x := t.flow(v, kind)
					x.preauth()
					for other := range seen { // the first characters may be the time; the last ones have to differ
						if countEqualPlaces(other[len(other)-17:], x.id[len(x.id)-17:]) > 10 {
							t.Fatalf("ids %s and %s are alike", other, x.id)
						}
					}
					seen[x.id] = true
				}
			}
		}
	}},
	{id: "ID-02", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "BRW", set("threeDSCompInd", "Y")).card("visa", cardMethod)
			crd := x.preauth()
			t.want("CRD", crd, "threeDSServerTransID", x.id)
			if crd.text("threeDSMethodURL") == "" {
				t.Errorf("%s: no 3DS Method", x)
			}
			t.want("AReq", x.areq(), "threeDSServerTransID", x.id)
			t.want("ARes", x.answer.o, "threeDSServerTransID", x.id)
		}
	}},
	{id: "ID-03", do: func(t *T) {
		l := t.ownLab(spcPlan)
		x := t.flowIn(l, v231, "BRW", offerSPC...).setARes("S")
		x.wantAccepted()
		if got := x.auth(); got.o.text("errorCode") != "301" {
			t.Errorf("%s: the id of the first AReq was taken again: %s", x, got.body)
		}
		y := t.flowIn(l, v231, "BRW", append(secondSPC(x), offerSPC...)...)
		if y.wantAccepted(); y.id == x.id {
			t.Errorf("%s: both AReqs have the id %s", y, x.id)
		}
	}},
	{id: "ID-04", do: func(t *T) {
		x := t.flow(v231, "BRW", decoupledAs("F").edits()...).startChallenge()
		x.wantRRes(x.rreq("D", set("transStatusReason", "29")), "04")
		if got := x.auth(); got.o.text("errorCode") != "301" {
			t.Errorf("%s: the id of the first leg was taken again: %s", x, got.body)
		}
		y := t.flow(v231, "3RI", set("threeRIInd", "19"), set("threeDSRequestorDecReqInd", "Y"), set("threeDSRequestorDecMaxTime", "00010"),
			set("threeDSRequestorPriorAuthenticationInfo", []object{{"threeDSReqPriorRef": x.ares["acsTransID"], "threeDSReqPriorAuthMethod": "02"}}))
		if y.wantAccepted(); y.id == x.id {
			t.Errorf("%s: both legs have the id %s", y, x.id)
		}
	}},
	{id: "ID-05", waits: true, do: func(t *T) {
		l := t.ownLab(plan{sections: map[string]string{"timeouts": "{preauth: 10s}"}})
		for _, v := range allVersions {
			other := t.flowIn(l, v, "BRW", set("acctNumber", "4000001234567881"))
			other.wantRefused("305", "acctNumber")
			other.edits = nil
			other.wantAccepted() // the id is not used up by a refusal
			if got := other.auth(); got.o.text("errorCode") != "301" || len(other.sent()) != 1 {
				t.Errorf("%s: the second /auth with an id: %d %s", other, got.status, got.body)
			}
		}
		old := t.flowIn(l, v220, "BRW", set("acctNumber", "4000001234567881"))
		if !waitUntil(stepTimeout, func() bool { return old.auth().o.text("errorCode") == "301" }) {
			t.Errorf("an id of %v, with 10 s configured: %s, want Erro 301", stepTimeout, old.answer.body)
		}
		if n := len(old.sent()); n > 0 {
			t.Errorf("%d AReqs left with the id of another card, want none", n)
		}
	}},
	{id: "ID-06", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "APP").startChallenge()
			x.wantRReqRefused(x.rreq("Y", set("messageCategory", "02")), "203", "messageCategory")
			x.wantRReqRefused(x.rreq("Y", set("acsTransID", newID())), "301", "acsTransID")
			x.wantRReqRefused(x.rreq("Y", set("dsTransID", newID())), "301", "dsTransID")
			x.wantRReqRefused(x.rreq("Y", set("transStatus", "D")), "203", "transStatus")
			if v != v210 {
				x.wantRReqRefused(x.rreq("Y", set("sdkTransID", newID())), "301", "sdkTransID")
			}
			x.wantRReqRefused(x.rreq("Y", drop("acsRenderingType")), "201", "acsRenderingType")
			x.wantRRes(x.rreq("Y"), "01")
			y := t.flow(v, "BRW NPA").startChallenge()
			y.wantRRes(y.rreq("Y"), "01") // outside payments without an authenticationValue
			other := t.sharedLab().ds["mastercard"]
			z := t.flow(v, "BRW").startChallenge()
			z.d = other
			z.wantRReqRefused(z.rreq("Y"), "301", "threeDSServerTransID")
		}
	}},
	{id: "ID-08", do: func(t *T) {
		for _, v := range allVersions {
			for _, status := range []string{"C", "D"} {
				if status == "D" && v == v210 {
					continue
				}
				x := t.flow(v, "BRW", wantDecoupled.edits()...).reachWaiting(status)
				x.wantRRes(x.rreq("Y"), "01")
				for _, again := range []string{"Y", "N"} {
					x.wantRReqRefused(x.rreq(again), stateCode(v, "312"), "")
				}
				t.want("result", x.result().o, "transStatus", "Y")
			}
			t.flow(v, "BRW").startChallenge().postResultsAtOnce()
		}
	}},
	{id: "ID-09", do: func(t *T) {
		for _, v := range allVersions {
			for _, status := range []string{"Y", "N", "A", "U", "R"} {
				x := t.flow(v, "BRW").setARes(status)
				x.wantAccepted()
				x.wantRReqRefused(x.rreq("Y"), stateCode(v, "313"), "")
				x.wantErro("requestor", x.result().o, "203", "")
			}
			x := t.flow(v, "BRW").startChallenge()
			x.post(erroFor(x, "402").bytes())
			x.wantRReqRefused(x.rreq("Y"), stateCode(v, "313"), "")
			t.want("result", x.result().o, "errorCode", "402")
			y := t.flow(v, "BRW").startChallenge()
			y.wantRRes(y.rreq("Y"), "01")
			y.post(erroFor(y, "402").bytes())
			t.want("result", y.result().o, "transStatus", "Y")
		}
	}},
	{id: "ID-10", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "BRW").setARes("Y", set("threeDSServerTransID", newID()))
			x.wantRejected("301", "threeDSServerTransID")
		}
		l := t.ownLab(plan{directories: versionedDirectories, unready: true, prepare: func(l *lab) {
			for _, d := range l.ds {
				d.setPReqAnswer(func(q *request) reply {
					return reply{body: d.pres(q.o).bytes(set("threeDSServerTransID", newID()))}
				})
			}
		}})
		for scheme, v := range versionOf {
			x := &flow{t: t, l: l, d: l.ds[scheme], version: v}
			if erro := x.receivedErro(); erro == nil {
				t.Errorf("%s: no Erro for a PRes with another id", v)
			} else {
				x.wantErro("directory", erro.o, "301", "threeDSServerTransID")
			}
		}
	}},
	{id: "ID-11", do: func(t *T) {
		l := t.ownLab(plan{})
		other, err := l.startSecondNode()
		if err != nil {
			t.Fatalf("second node: %v", err)
		}
		t.cleanup(other.kill)
		for _, v := range allVersions {
			x := t.flowIn(l, v, "BRW").startChallenge()
			x.l = other
			x.wantRRes(x.rreq("Y"), "01")
			t.want("there", x.result().o, "transStatus", "Y")
			x.l = l
			t.want("here", x.result().o, "transStatus", "Y")
			x.wantRReqRefused(x.rreq("N"), stateCode(v, "312"), "")
		}
	}},
	{id: "ID-12", do: func(t *T) {
		l := t.ownLab(plan{})
		var flows, done []*flow
		for _, v := range allVersions {
			flows = append(flows, t.flowIn(l, v, "BRW").startChallenge())
			x := t.flowIn(l, v, "BRW").startChallenge()
			x.wantRRes(x.rreq("Y"), "01")
			done = append(done, x)
		}
		l.kill()
		if err := l.start(true); err != nil {
			t.Fatalf("restart: %v", err)
		}
		for _, x := range flows {
			x.wantRRes(x.rreq("Y"), "01")
			t.want("result", x.result().o, "transStatus", "Y")
		}
		for _, x := range done {
			t.want("result of before", x.result().o, "transStatus", "Y")
			x.wantRReqRefused(x.rreq("Y"), stateCode(x.version, "312"), "")
		}
	}},
	{id: "ID-13", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "BRW").startChallenge()
			x.wantErro("requestor", x.result().o, "305", "")
			sent := x.rreqOf("N").bytes(set("transStatusReason", "14"), set("challengeCancel", "04"))
			x.wantRRes(x.post(sent), "01")
			for range 2 { // it may be asked for again
				if got := x.result(); got.status != 200 || string(encode(got.o)) != string(encode(read(sent))) {
					t.Errorf("%s: the result is %d %s", x, got.status, got.body)
				}
			}
		}
	}},
	{id: "ID-14", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "3RI")
			if got := x.wantAccepted(); string(encode(got.o)) != string(encode(x.ares)) {
				t.Errorf("%s: %s, want the ARes", x, got.body)
			}
		}
	}},
	{id: "ID-15", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "BRW").startChallenge()
			cres := object{
				"messageType": "CRes", "messageVersion": v, "threeDSServerTransID": x.id, "acsTransID": x.ares["acsTransID"], "transStatus": "Y",
			}
			x.wantRReqRefused(x.post(cres.bytes()), "101", "")
			x.wantErro("requestor", x.result().o, "305", "")
			x.wantRRes(x.rreq("N"), "01")
			t.want("result", x.result().o, "transStatus", "N")
		}
	}},
}

// postResultsAtOnce posts different results of the challenge, all at once. It wants one of them to be
// taken, and that one to be handed out.
func (x *flow) postResultsAtOnce() {
	statuses := []string{"Y", "N", "A", "U", "R", "Y", "N", "A"}
	answers, errs := make([]*answer, len(statuses)), make([]error, len(statuses))
	var all sync.WaitGroup
	for i, status := range statuses {
		body := x.rreqOf(status).bytes()
		all.Go(func() { answers[i], errs[i] = x.d.post(x.l.results, body) })
	}
	all.Wait()
	taken := ""
	for i, got := range answers {
		switch {
		case errs[i] != nil:
			x.t.Fatalf("%s: results: %v", x, errs[i])
		case got.o.text("messageType") == "RRes" && taken == "":
			taken = statuses[i]
		default:
			x.wantRReqRefused(got, stateCode(x.version, "312"), "")
		}
	}
	x.t.want("result", x.result().o, "transStatus", taken)
}

// countEqualPlaces counts the places at which two ids have the same character, hyphens aside.
func countEqualPlaces(a, b string) int {
	n := 0
	for i := range min(len(a), len(b)) {
		if a[i] == b[i] && a[i] != '-' {
			n++
		}
	}
	return n
}
