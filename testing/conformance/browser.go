package conformance

import (
	"bytes"
	"strings"
	"time"
)

// browserChecks is the browser flow.
var browserChecks = []check{
	{id: "BR-01", do: func(t *T) { // the notificationURL, from 2.3.1, is https
		t.flow(v231, "BRW", set("notificationURL", "http://shop.example/done")).wantRefused("203", "notificationURL")
		t.flow(v231, "BRW", set("notificationURL", "shop.example/done")).wantRefused("203", "notificationURL")
		for _, v := range allVersions {
			if got := t.flow(v, "BRW").areq().text("notificationURL"); got != "https://shop.example/done" {
				t.Errorf("%s: notificationURL %q, want that of the request", v, got)
			}
		}
	}},
	{id: "BR-02", do: func(t *T) { // a requestor without a key is refused
		l := t.sharedLab()
		for _, path := range []string{"/preauth", "/auth", "/postauth"} {
			for _, key := range []string{"", "nonsense", newID()} {
				got, err := l.callAPI(path, key, []byte(`{"acctNumber":"4000001234567890"}`))
				if err != nil || got.status != 401 || string(got.body) != "Invalid API Key" {
					t.Errorf("%s with the key %q: %v %v, want 401", path, key, got, err)
				}
			}
		}
	}},
	{id: "BR-03", do: func(t *T) { // the directory is chosen by the card, and by what the cardholder wishes
		for _, card := range []struct{ scheme, pan string }{{"visa", cardNoMethod}, {"mastercard", cardMastercard}} {
			x := t.flow(v220, "BRW").card(card.scheme, card.pan)
			if crd := x.preauth(); crd.text("scheme") != card.scheme {
				t.Errorf("/preauth: scheme %q, want %q", crd.text("scheme"), card.scheme)
			}
			x.areq()
		}
		prShared(t, false)
	}},
	{id: "BR-04", do: func(t *T) { // no connection or no answer: it ends, and the requestor hears of it
		l := t.ownLab(plan{})
		t.flowIn(l, v220, "BRW").wantAccepted()
		x := t.flowIn(l, v220, "BRW")
		x.preauth()
		l.ds["visa"].close()
		got := x.auth()
		if got.status != 400 || got.o.text("errorCode") != "405" || got.o.text("errorDescription") != "Unable to contact Directory Server" {
			t.Errorf("no directory server: %d %s, want Erro 405", got.status, got.body)
		}
	}},
	{id: "BR-05", do: func(t *T) { // the ARes is validated; group VA has the rest
		for _, v := range allVersions {
			t.flow(v, "BRW").setARes("Y", set("transStatus", "Q")).wantRejected("203", "transStatus")
			t.flow(v, "BRW").setARes("C", drop("acsURL")).wantRejected("201", "acsURL")
		}
	}},
	{id: "BR-06", do: func(t *T) { wantAResForwarded(t, "BRW") }},
	{id: "BR-07", do: func(t *T) { // whether to challenge is the requestor's to decide
		for _, v := range allVersions {
			for _, mandated := range []string{"Y", "N"} {
				got := t.flow(v, "BRW").setARes("C", set("acsChallengeMandated", mandated)).wantPassedOn()
				if got.o.text("acsChallengeMandated") != mandated {
					t.Errorf("%s: acsChallengeMandated %q, want %q", v, got.o.text("acsChallengeMandated"), mandated)
				}
			}
		}
	}},
	{id: "BR-08", do: func(t *T) { // the RReq of a challenge that was never begun is answered too
		for _, v := range allVersions {
			x := t.flow(v, "BRW").startChallenge()
			got := x.rreq("N", set("transStatusReason", "14"), set("challengeCancel", "05"), set("interactionCounter", "00"))
			x.wantRRes(got, "01") // 02 is for a server that was told of the refusal, which nobody does here
			t.want(x.String()+" /postauth", x.result().o, "challengeCancel", "05")
		}
	}},
	{id: "BR-09", do: func(t *T) { // the CReq
		for _, v := range allVersions {
			s := t.openShop().startChallenge(v)
			action, values := fields(s.frame("challenge"))
			creq := t.decodeUnpadded("creq", values["creq"])
			ares := s.lastMessage("ARes")
			want := object{
				"messageType": "CReq", "messageVersion": v, "threeDSServerTransID": s.id, "acsTransID": ares["acsTransID"], "challengeWindowSize": "03",
			}
			if action != ares.text("acsURL") || !bytes.Equal(creq.bytes(), want.bytes()) {
				t.Errorf("%s: the CReq goes to %s: %s, want %s: %s", v, action, creq.bytes(), ares.text("acsURL"), want.bytes())
			}
		}
	}},
	{id: "BR-10", do: func(t *T) { // the requestor gets the challenge at once: the ACS waits 30 s for the browser
		for _, v := range allVersions {
			x := t.flow(v, "BRW")
			x.preauth()
			var left time.Time
			x.setAnswer(func(q *request) reply {
				left = time.Now()
				return reply{body: aresTo(q.o, "C").bytes()}
			})
			x.wantAccepted()
			if took := time.Since(left); took > 10*time.Second {
				t.Errorf("%s: from the directory server's ARes to the requestor it took %v, want 10 s at the most", v, took)
			}
		}
	}},
	{id: "BR-11", do: func(t *T) { // the challenge's window
		for _, window := range []string{"01", "02", "03", "04", "05"} {
			s := t.openShop()
			s.window = window
			s.startChallenge(v231)
			_, values := fields(s.frame("challenge"))
			creq := t.decodeUnpadded("creq", values["creq"])
			width := map[string]string{"01": "250", "02": "390", "03": "500", "04": "600", "05": "0"}[window]
			if creq.text("challengeWindowSize") != window || string(encode(s.view.at("size.width"))) != width || s.view.text("window") != window {
				t.Errorf("window %s: CReq %s and a frame of %s, want that window and the width %s", window, creq.bytes(), encode(s.view["size"]), width)
			}
		}
		s := t.openShop()
		frames, css := s.page("/static/frames.js"), s.page("/static/shop.css")
		for window, size := range map[string]string{
			"01": "width: 250px; height: 400px;", "02": "width: 390px; height: 400px;", "03": "width: 500px; height: 600px;",
			"04": "width: 600px; height: 400px;", "05": "width: 100%; height: 100%;",
		} {
			wantParts(t, "shop.css", css, `dialog[data-window="`+window+`"] iframe { `+size+" }")
		}
		const attributes = "allow-forms allow-scripts allow-same-origin allow-pointer-lock"
		wantConstant(t, frames, "challengeSandbox", attributes)
		wantConstant(t, frames, "challengeSandboxBefore231", attributes+" allow-popups")
		challenge := section(t, "frames.js", frames, "export function challenge", "\n}\n")
		wantParts(t, "the challenge's frame", challenge, "dialog.dataset.window = view.window",
			`view.version >= "2.3.1" ? challengeSandbox : challengeSandboxBefore231)`,
			`if (view.version >= "2.3.1") frame.allow = "payment *; publickey-credentials-get *; publickey-credentials-create *";`)
	}},
	{id: "BR-12", do: func(t *T) { // without JavaScript there is a button
		s := t.openShop().startChallenge(v220)
		page := s.frame("challenge")
		button := strings.Index(page, "<noscript>")
		if button < 0 || !strings.Contains(page[button:], "<button") || strings.Index(page, "</form>") < button {
			t.Errorf("no <noscript> with a button within the form: %s", page)
		}
	}},
	{id: "BR-13", do: func(t *T) { // a reload posts the same bytes
		for _, v := range allVersions {
			s := t.openShop().startChallenge(v)
			if first, second := s.frame("challenge"), s.frame("challenge"); first != second {
				t.Errorf("%s: after a reload the frame is %s, want the same as before, %s", v, second, first)
			}
		}
	}},
	{id: "BR-14", do: func(t *T) { // a CRes through the browser tells that the challenge is over, if its ids are ours
		for _, encode := range []func(object) string{unpadded, padded} {
			s := t.openShop().startChallenge(v231)
			for name, bad := range map[string]object{
				"of another ACS transaction": s.cres("Y").with("acsTransID", newID()), "of another version": s.cres("Y").with("messageVersion", v210),
				"of another transaction": s.cres("Y").with("threeDSServerTransID", newID()),
			} {
				if status, _ := s.notify("challenge", "cres", encode(bad)); status < 400 || status > 499 {
					t.Errorf("a CRes %s: status %d, want one of 400 to 499", name, status)
				}
			}
			s.refreshView()
			s.wantState("challenge")
			if status, _ := s.notify("challenge", "cres", encode(s.cres("Y"))); status != 200 {
				t.Errorf("a CRes: status %d, want 200", status)
			}
			s.checkout("result")
			s.wantState("returned") // not done: what counts is the RReq
		}
		s := t.openShop().startChallenge(v220)
		erro := object{
			"messageType": "Erro", "messageVersion": v220, "errorCode": "203", "errorComponent": "A", "errorDescription": "x",
			"errorDetail": "x", "threeDSServerTransID": s.id,
		}
		if status, _ := s.notify("challenge", "erro", unpadded(erro)); status != 200 {
			t.Errorf("an Erro of the ACS: status %d, want 200", status)
		}
		s.refreshView()
		s.wantState("returned")
	}},
	{id: "BR-15", do: func(t *T) { // N, U and R end it
		for _, v := range allVersions {
			for _, status := range []string{"N", "U", "R"} {
				got := t.flow(v, "BRW").setARes(status).wantPassedOn()
				if got.o.has("acsURL") || got.o.text("transStatusReason") == "" {
					t.Errorf("%s: ARes %s, want one with a transStatusReason and without acsURL", v, got.body)
				}
				s := t.openShop().pay(cardNoMethod, v).setARes(status)
				s.areq()
				s.wantState("done")
			}
		}
	}},
	{id: "BR-16", do: func(t *T) { // cardholderInfo reaches the requestor, and the cardholder
		for _, v := range since220 {
			info := cardholderInfo(v)
			t.want(v+" ARes", t.flow(v, "BRW").setARes("N", set("cardholderInfo", info)).wantPassedOn().o, "cardholderInfo", info)
			s := t.openShop().pay(cardNoMethod, v).setARes("N", set("cardholderInfo", info))
			s.areq()
			if s.view.text("info") != "Call your bank" {
				t.Errorf("%s: the shop shows %q, want the cardholderInfo", v, s.view.text("info"))
			}
		}
	}},
	{id: "BR-17", do: func(t *T) { // I is final
		for _, v := range since220 {
			x := t.flow(v, "BRW").card("mastercard", cardMastercard).setARes("I", set("eci", "07"))
			t.want(v+" ARes", x.wantPassedOn().o, "eci", "07")
			x.wantRReqRefused(x.rreq("Y"), stateCode(v, "313"), "")
		}
	}},
	{id: "BR-18", do: func(t *T) { // an RReq is validated and answered on its connection, in time
		for _, v := range allVersions {
			x := t.flow(v, "BRW").startChallenge()
			x.wantRReqRefused(x.rreq("Y", drop("transStatus")), "201", "transStatus")
			start := time.Now()
			x.wantRRes(x.rreq("Y"), "01")
			if took := time.Since(start); took > 3*time.Second {
				t.Errorf("%s: the RRes took %v, want 3 s at the most", v, took)
			}
		}
	}},
	{id: "BR-19", do: func(t *T) { // a challenge that timed out is told, and the shop closes its frame
		for _, v := range allVersions {
			s := t.openShop().startChallenge(v)
			s.rreq("N", overrides{"transStatusReason": "14", "challengeCancel": "04", "interactionCounter": "00"})
			s.checkout("result")
			s.wantState("done")
			if got := s.view.text("ending.word"); got != "timed out" {
				t.Errorf("%s: the shop's ending is %q, want timed out", v, got)
			}
		}
	}},
	{id: "BR-20", do: func(t *T) { // without any CRes the result counts
		for _, v := range allVersions {
			x := t.flow(v, "BRW").startChallenge()
			x.wantPending()
			x.wantRRes(x.rreq("N", set("transStatusReason", "14"), set("challengeCancel", "05")), "01")
			if got := x.result(); got.status != 200 || got.o.text("transStatus") != "N" || got.o.text("challengeCancel") != "05" {
				t.Errorf("%s: /postauth: %d %s, want the RReq with transStatus N and challengeCancel 05", x, got.status, got.body)
			}
		}
	}},
	{id: "BR-21", do: func(t *T) { // the processing screen: two seconds at least, with the scheme
		s := t.openShop()
		home := s.page("/steps")
		wantParts(t, "the shop's page", home, `data-processing="2000"`, `id="scheme"`)
		if got := s.pay(cardNoMethod, "").view.text("scheme"); got != "visa" {
			t.Errorf("the page is told the scheme %q, want visa", got)
		}
	}},
}

// wantAResForwarded wants the members of an ARes that an authorisation needs to reach the
// requestor.
func wantAResForwarded(t *T, kind string) {
	for _, v := range allVersions {
		for _, status := range []string{"Y", "A"} {
			got := t.flow(v, kind).setARes(status).wantPassedOn()
			for _, name := range []string{"transStatus", "eci", "authenticationValue", "dsTransID", "acsTransID", "messageVersion"} {
				if got.o.text(name) == "" {
					t.Errorf("%s: no %s with status %s: %s", v, name, status, got.body)
				}
			}
		}
	}
}

// cardholderInfo is one in the form of the version.
func cardholderInfo(version string) any {
	if version == v231 {
		return object{"text": "Call your bank"}
	}
	return "Call your bank"
}

// with is a copy of the object with another value of a member.
func (o object) with(name string, value any) object {
	return read(o.bytes(set(name, value)))
}
