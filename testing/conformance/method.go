package conformance

import "strings"

// methodChecks is the 3DS Method.
var methodChecks = []check{
	{id: "TM-01", do: func(t *T) { // id, versions of ACS and DS, and the address of the method
		for pan, url := range map[string]string{cardNoMethod: "", cardMethod: "https://acs.example/method"} {
			x := t.flow(v220, "BRW").card("visa", pan)
			crd := x.preauth()
			for name, want := range map[string]string{
				"acsStartProtocolVersion": v210, "acsEndProtocolVersion": v231, "dsStartProtocolVersion": v210, "dsEndProtocolVersion": v231,
				"threeDSMethodURL": url, "messageType": "CRD", "scheme": "visa",
			} {
				if got := crd.text(name); got != want {
					t.Errorf("/preauth: %s = %q, want %q", name, got, want)
				}
			}
			if url == "" && crd.has("threeDSMethodURL") {
				t.Errorf("/preauth: a threeDSMethodURL where there is none: %s", crd.bytes())
			}
		}
	}},
	{id: "TM-02", waits: true, do: func(t *T) { // the directory server's versions are those of the PRes where the range has none
		t.onScripted(allVersions, func(a *scriptedDS) {
			general, want := []edit{set("dsStartProtocolVersion", v210), set("dsEndProtocolVersion", v210)}, v210+" "+v210
			if a.version == v231 {
				general, want = []edit{set("dsProtocolVersions", []string{v220, v231})}, v220+" "+v231
			}
			a.loadSet(t, "", a.entries(0, 1, 2, 3), general...)
			crd := a.crd(t, a.card(0))
			if got := crd.text("dsStartProtocolVersion") + " " + crd.text("dsEndProtocolVersion"); got != want {
				t.Errorf("%s: versions of the directory server %s, want %s", a.version, got, want)
			}
		})
	}},
	{id: "TM-03", waits: true, do: func(t *T) { // each version has an address of its own
		t.onScripted([]string{v231}, func(a *scriptedDS) {
			a.loadSet(t, "", append(a.entries(1, 2, 3), a.entry(0,
				overrides{"acsProtocolVersions[0].threeDSMethodURL": "https://acs.example/old", "acsProtocolVersions[1].threeDSMethodURL": "https://acs.example/new"})))
			crd := a.crd(t, a.card(0))
			for path, want := range map[string]string{
				"threeDSMethodURL": "https://acs.example/new", "acsProtocolVersions[0].threeDSMethodURL": "https://acs.example/old",
				"acsProtocolVersions[1].threeDSMethodURL": "https://acs.example/new", "acsProtocolVersions[0].version": v220,
				"acsProtocolVersions[1].version": v231,
			} {
				if got := crd.text(path); got != want {
					t.Errorf("/preauth: %s = %q, want %q", path, got, want)
				}
			}
		})
	}},
	{id: "TM-04", do: func(t *T) { // for a card with a 3DS Method threeDSCompInd is required
		for _, v := range allVersions {
			t.flow(v, "BRW", drop("threeDSCompInd")).card("visa", cardMethod).wantRefused("201", "threeDSCompInd")
			if got := t.flow(v, "BRW", set("threeDSCompInd", "N")).card("visa", cardMethod).areq().text("threeDSCompInd"); got != "N" {
				t.Errorf("%s: threeDSCompInd %q, want N", v, got)
			}
		}
	}},
	{id: "TM-05", do: func(t *T) { // the method runs before the AReq
		for _, v := range allVersions {
			s := t.openShop().pay(cardMethod, v).setARes("Y")
			s.wantState("method")
			s.frame("method")
			if s.refreshView().at("method.run") != true || len(s.areqs()) > 0 {
				t.Errorf("%s: with the 3DS Method under way: method.run %v and %d AReqs, want true and none", v, s.view.at("method.run"), len(s.areqs()))
			}
			s.notify("method", "threeDSMethodData", unpadded(object{"threeDSServerTransID": s.id}))
			if got := s.areq().text("threeDSCompInd"); got != "Y" {
				t.Errorf("%s: threeDSCompInd %q, want Y", v, got)
			}
		}
		wantParts(t, "shop.js", t.openShop().page("/static/shop.js"), "limit")
	}},
	{id: "TM-06", do: func(t *T) { // no address: U
		for _, v := range allVersions {
			for _, said := range []string{"U", "Y", "N"} {
				if got := t.flow(v, "BRW", set("threeDSCompInd", said)).areq().text("threeDSCompInd"); got != "U" {
					t.Errorf("%s: threeDSCompInd %q for a card without a method, want U", v, got)
				}
			}
			if got := t.openShop().pay(cardNoMethod, v).setARes("Y").areq().text("threeDSCompInd"); got != "U" {
				t.Errorf("%s: the shop sends threeDSCompInd %q for a card without a method, want U", v, got)
			}
		}
	}},
	{id: "TM-07", do: func(t *T) { // what the method's data hold
		for _, v := range allVersions {
			s := t.openShop().pay(cardMethod, v)
			action, values := fields(s.frame("method"))
			data := t.decodeUnpadded("threeDSMethodData", values["threeDSMethodData"])
			if action != "https://acs.example/method" || len(data) != 2 || data.text("threeDSServerTransID") != s.id ||
				data.text("threeDSMethodNotificationURL") != shopURL+"/notify/method" {
				t.Errorf("%s: to %s: %s, want the id and the shop's notification URL, to https://acs.example/method", v, action, data.bytes())
			}
		}
	}},
	{id: "TM-08", do: func(t *T) { // a form field, posted from a hidden frame
		s := t.openShop().pay(cardMethod, v231)
		page := s.frame("method")
		if _, values := fields(page); len(values) != 1 || values["threeDSMethodData"] == "" || !strings.Contains(page, `method="post"`) {
			t.Errorf("the form of the 3DS Method is %s, want a post of threeDSMethodData alone", page)
		}
		frames := s.page("/static/frames.js")
		hidden := section(t, "frames.js", frames, "export function hiddenFrame", "\n}\n")
		wantParts(t, "hiddenFrame", hidden, `, methodSandbox)`, `className = "method-frame"`)
		wantParts(t, "makeFrame", section(t, "frames.js", frames, "function makeFrame", "\n}\n"), `setAttribute("sandbox", sandbox)`)
		wantConstant(t, frames, "methodSandbox", "allow-forms allow-scripts allow-same-origin")
		rule := section(t, "shop.css", s.page("/static/shop.css"), ".method-frame {", "}")
		wantParts(t, "the rule of .method-frame", rule, "visibility: hidden")
		if strings.Contains(rule, "display:") { // browsers may not load what is not displayed
			t.Errorf("the frame of the 3DS Method is not displayed: %s", rule)
		}
	}},
	{id: "TM-09", do: func(t *T) { // the ACS's notification, with or without padding
		for _, encode := range []func(object) string{unpadded, padded} {
			s := t.openShop().pay(cardMethod, v220).setARes("Y")
			status, _ := s.notify("method", "threeDSMethodData", encode(object{"threeDSServerTransID": s.id}))
			if got := s.areq().text("threeDSCompInd"); status != 200 || got != "Y" {
				t.Errorf("after a notification: status %d and threeDSCompInd %q, want 200 and Y", status, got)
			}
		}
	}},
	{id: "TM-10", do: func(t *T) { // a bad notification changes nothing and tells nothing
		s := t.openShop().pay(cardMethod, v220).setARes("Y")
		for _, data := range []string{"", "@@@", unpadded(object{"threeDSServerTransID": newID()}), unpadded(object{"threeDSServerTransID": 5}), "W10"} {
			status, page := s.notify("method", "threeDSMethodData", data)
			if status < 400 || status > 499 || strings.Contains(page, s.id) || strings.Contains(page, "400001") {
				t.Errorf("the notification %q: %d %s, want a status of 400 to 499, and neither id nor card", data, status, page)
			}
		}
		if got := s.areq().text("threeDSCompInd"); got != "N" {
			t.Errorf("threeDSCompInd %q after bad notifications, want N", got)
		}
	}},
	{id: "TM-11", do: func(t *T) { shopMethodLimit(t, v231) }},
	{id: "TM-12", do: func(t *T) { shopMethodLimit(t, v210, v220) }},
	{id: "TM-14", do: func(t *T) { // an earlier run of the 3DS Method that is used again
		earlier := newID()
		areq := t.flow(v231, "BRW", set("threeDSCompInd", "Y"), set("threeDSMethodId", earlier)).card("visa", cardMethod).areq()
		if areq.text("threeDSMethodId") != earlier || areq.text("threeDSCompInd") != "Y" {
			t.Errorf("threeDSMethodId %q and threeDSCompInd %q, want %q and Y", areq.text("threeDSMethodId"), areq.text("threeDSCompInd"), earlier)
		}
		if areq := t.flow(v220, "BRW", set("threeDSCompInd", "Y"), set("threeDSMethodId", earlier)).card("visa", cardMethod).areq(); areq.has("threeDSMethodId") {
			t.Errorf("the AReq of 2.2.0 has a threeDSMethodId, want none")
		}
	}},
	{id: "TM-15", do: func(t *T) { // neither in APP nor in 3RI
		for _, v := range allVersions {
			for _, channel := range []string{"APP", "3RI"} {
				areq := t.flow(v, channel, set("threeDSCompInd", "Y"), set("threeDSMethodId", newID())).card("visa", cardMethod).areq()
				if areq.has("threeDSCompInd") || areq.has("threeDSMethodId") {
					t.Errorf("%s %s: AReq %s, want neither threeDSCompInd nor threeDSMethodId", v, channel, areq.bytes())
				}
			}
		}
	}},
}

// section returns a part of a text, from its beginning to its end.
func section(t *T, what, text, begin, end string) string {
	_, rest, isThere := strings.Cut(text, begin)
	if !isThere {
		t.Errorf("%s has no %q", what, begin)
		return ""
	}
	part, _, _ := strings.Cut(rest, end)
	return part
}

// wantConstant wants a constant of a script to have this text, and no other.
func wantConstant(t *T, script, name, want string) {
	if got := section(t, "frames.js", script, "const "+name+` = "`, `"`); got != want {
		t.Errorf("frames.js: %s is %q, want %q", name, got, want)
	}
}

// wantParts wants all parts to be in a text.
func wantParts(t *T, what, text string, parts ...string) {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s has no %q", what, part)
		}
	}
}
