package conformance

import "strings"

// requestorInitiatedChecks is the 3RI flow.
var requestorInitiatedChecks = []check{
	{id: "RI-01", do: func(t *T) { // an AReq of channel 03, by the same rules
		for _, v := range allVersions {
			x := t.flow(v, "3RI")
			areq := x.areq()
			if areq.text("deviceChannel") != "03" || areq.text("threeDSServerTransID") != x.id || !areq.has("threeRIInd") || len(x.sent()[0].tls.PeerCertificates) == 0 {
				t.Errorf("%s: AReq %s, want deviceChannel 03, the id of /preauth and a threeRIInd, over mutual TLS", v, areq.bytes())
			}
			t.flow(v, "3RI", drop("threeRIInd")).wantRefused("201", "threeRIInd")
		}
	}},
	{id: "RI-02", do: func(t *T) { // no payments in 2.1.0
		x := t.flow(v210, "3RI", set("messageCategory", "01"), set("threeRIInd", "01"), set("purchaseAmount", "1099"), set("purchaseCurrency", "978"),
			set("purchaseExponent", "2"), set("purchaseDate", "20261120120000"), set("recurringExpiry", "20301231"), set("recurringFrequency", "28"))
		x.wantRefused("203", "messageCategory")
		for _, v := range since220 {
			t.flow(v, "3RI").areq()
		}
	}},
	{id: "RI-03", do: func(t *T) { // neither C nor S
		for _, v := range allVersions {
			t.flow(v, "3RI").setARes("C").wantRejected("203", "transStatus")
			t.flow(v, "3RI").setARes("S").wantRejected("203", "transStatus")
		}
		for _, v := range since220 {
			t.flow(v, "3RI", wantDecoupled.edits()...).setARes("D").wantPassedOn()
		}
	}},
	{id: "RI-04", do: func(t *T) { // the ARes is validated and passed on
		for _, v := range allVersions {
			for _, status := range []string{"Y", "N", "A", "U", "R"} {
				t.flow(v, "3RI").setARes(status).wantPassedOn()
			}
			t.flow(v, "3RI").setARes("Y", drop("dsTransID")).wantRejected("201", "dsTransID")
		}
	}},
	{id: "RI-05", do: func(t *T) { // with what the cardholder should read
		for _, v := range since220 {
			info := cardholderInfo(v)
			t.want(v+" ARes", t.flow(v, "3RI").setARes("N", set("cardholderInfo", info)).wantPassedOn().o, "cardholderInfo", info)
		}
	}},
	{id: "RI-06", do: func(t *T) { // the link to the authentication before
		prior := object{"threeDSReqPriorRef": newID(), "threeDSReqPriorAuthMethod": "02", "threeDSReqPriorAuthTimestamp": "202603011200"}
		for _, v := range allVersions {
			path := "threeDSRequestorPriorAuthenticationInfo"
			if v == v231 {
				path += "[0]"
			}
			areq := t.flow(v, "3RI", set("threeDSRequestorPriorAuthenticationInfo", prior)).areq()
			for name := range prior {
				if got := areq.text(path + "." + name); got != prior.text(name) {
					t.Errorf("%s: %s = %q, want %q", v, name, got, prior.text(name))
				}
			}
		}
	}},
	{id: "RI-08", do: func(t *T) { // nothing of a browser, of an SDK, or of a 3DS Method
		for _, v := range allVersions {
			var all []edit
			for _, channel := range []string{"APP", "BRW"} {
				for name, value := range sample("AReq", v, channel) {
					if ofDevice(name) {
						all = append(all, set(name, value))
					}
				}
			}
			all = append(all, set("threeDSMethodId", newID()))
			for name := range t.flow(v, "3RI", all...).areq() {
				if ofDevice(name) {
					t.Errorf("%s: an AReq of 3RI has %s, want nothing of a device", v, name)
				}
			}
		}
	}},
}

// ofDevice reports whether a member is about the cardholder's device.
func ofDevice(name string) bool {
	for _, start := range []string{"browser", "sdk", "device", "notificationURL", "threeDSCompInd", "threeDSMethod", "defaultSdk", "splitSdk"} {
		if strings.HasPrefix(name, start) && name != "deviceChannel" {
			return true
		}
	}
	return false
}
