package conformance

import (
	"bytes"
	"strings"
	"time"
)

// appChecks is the app flow.
var appChecks = byRow(apFaults, checkRReq,
	check{id: "AP-03", do: func(t *T) { // a requestor without a key is refused
		x := t.flow(v220, "APP")
		x.preauth()
		x.key = newID()
		if got := x.auth(); got.status != 401 || len(x.sent()) > 0 {
			t.Errorf("/auth with an unknown key: status %d and %d AReqs, want 401 and none", got.status, len(x.sent()))
		}
	}},
	check{id: "AP-04", do: func(t *T) { // the scheme, which names the directory server to the SDK, and the versions
		for _, card := range []struct{ scheme, pan string }{{"visa", cardNoMethod}, {"mastercard", cardMastercard}} {
			crd := t.flow(v231, "APP").card(card.scheme, card.pan).preauth()
			if crd.text("scheme") != card.scheme || !crd.has("threeDSServerTransID") {
				t.Errorf("/preauth: %s, want the scheme %s", crd.bytes(), card.scheme)
			}
			for _, list := range []string{"acsProtocolVersions[2].version", "dsProtocolVersions[2]", "threeDSServerProtocolVersions[2]"} {
				if got := crd.text(list); got != v231 {
					t.Errorf("/preauth: %s is %q, want the highest, %s", list, got, v231)
				}
			}
		}
	}},
	check{id: "AP-05", do: func(t *T) { // an SDK that only knows an earlier version decides the version
		for _, v := range until220 {
			if got := t.flow(v, "APP").areq().text("messageVersion"); got != v {
				t.Errorf("messageVersion %q, want %q", got, v)
			}
		}
		t.flow(v231, "APP").card("visa", "4000051234567890").wantRefused("102", v220)
	}},
	check{id: "AP-06", do: func(t *T) { // the AReq has what only the SDK knows
		for _, v := range allVersions {
			x := t.flow(v, "APP")
			areq := x.areq()
			names := []string{"sdkAppID", "sdkTransID", "sdkReferenceNumber", "sdkMaxTimeout", "sdkEncData", "sdkEphemPubKey", "deviceRenderOptions"}
			if v == v231 {
				names = append(names, "sdkType", "defaultSdkType")
			}
			for _, name := range names {
				if !bytes.Equal(encode(areq[name]), encode(x.req[name])) {
					t.Errorf("%s: %s = %s, want %s", v, name, encode(areq[name]), encode(x.req[name]))
				}
			}
			if areq.text("deviceChannel") != "01" {
				t.Errorf("%s: deviceChannel %q, want 01", v, areq.text("deviceChannel"))
			}
		}
	}},
	check{id: "AP-07", do: func(t *T) { // the SDK's data are passed on unchanged
		data := "eyJlbmMiOiJBMTI4R0NNIn0..aXY-_aXY.ZGF0-_YQ.dGFn" + strings.Repeat("Zm9v", 2000)
		key := object{
			"kty": "EC", "crv": "P-256", "use": "enc", "kid": nil, "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
			"x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
		}
		for _, v := range allVersions {
			areq := t.flow(v, "APP", set("sdkEncData", data), set("sdkEphemPubKey", key)).areq()
			t.want(v+" AReq", areq, "sdkEncData", data)
			t.want(v+" AReq", areq, "sdkEphemPubKey", key)
		}
		signed := "eyJhbGciOiJQUzI1NiJ9." + strings.Repeat("Zm9v", 500) + ".c2ln-_"
		areq := t.flow(v231, "APP", set("sdkType", "02"), drop("defaultSdkType"),
			set("splitSdkType", object{"sdkVariant": "01", "limitedInd": "Y"}), set("sdkServerSignedContent", signed)).areq()
		t.want("AReq", areq, "sdkServerSignedContent", signed)
	}},
	check{id: "AP-08", do: func(t *T) { wantAResForwarded(t, "APP") }},
	check{id: "AP-09", do: func(t *T) { // what the SDK needs for a challenge
		for _, v := range allVersions {
			got := t.flow(v, "APP").setARes("C").wantPassedOn()
			names := []string{"acsSignedContent", "acsRenderingType", "acsReferenceNumber", "acsTransID", "threeDSServerTransID"}
			if v == v231 {
				names = append(names, "threeDSRequestorAppURLInd", "deviceInfoRecognisedVersion")
			}
			for _, name := range names {
				if !got.o.has(name) {
					t.Errorf("%s: the ARes of a challenge has no %s: %s", v, name, got.body)
				}
			}
		}
	}},
	check{id: "AP-10", do: func(t *T) { // N, U, R and D, with what the cardholder should read
		for _, v := range allVersions {
			info := cardholderInfo(v)
			for _, status := range []string{"N", "U", "R"} {
				t.want(v+" ARes", t.flow(v, "APP").setARes(status, set("cardholderInfo", info)).wantPassedOn().o, "cardholderInfo", info)
			}
			if v != v210 {
				t.flow(v, "APP", wantDecoupled.edits()...).setARes("D", set("cardholderInfo", info)).wantPassedOn()
			}
		}
	}},
	check{id: "AP-11", do: func(t *T) { // errors are told at once
		for _, v := range allVersions {
			x := t.flow(v, "APP").setARes("Y", drop("sdkTransID"))
			x.preauth()
			start := time.Now()
			x.wantRejected("201", "sdkTransID")
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("%s: the requestor got the Erro after %v, want 5 s at the most", v, took)
			}
		}
	}},
	check{id: "AP-12", do: func(t *T) { // RReq and RRes have the SDK's id, from 2.2.0
		for _, v := range allVersions {
			x := t.flow(v, "APP").startChallenge()
			got := x.rreq("Y")
			x.wantRRes(got, "01")
			want := x.req.text("sdkTransID")
			if v == v210 {
				want = ""
			}
			if id := got.o.text("sdkTransID"); id != want {
				t.Errorf("%s: the RRes has sdkTransID %q, want %q", v, id, want)
			}
		}
	}},
	check{id: "AP-14", do: func(t *T) { // nothing of a browser, and no SPC
		browser := object{
			"browserAcceptHeader": "text/html", "browserIP": "192.0.2.1", "browserJavaEnabled": false, "browserJavascriptEnabled": true, "browserLanguage": "en",
			"browserColorDepth": "24", "browserScreenHeight": "1080", "browserScreenWidth": "1920", "browserTZ": "-60", "browserUserAgent": "Mozilla/5.0",
			"notificationURL": "https://shop.example/done", "threeDSCompInd": "U", "threeDSRequestorSpcSupport": "Y",
		}
		for _, v := range allVersions {
			areq := t.flow(v, "APP", overrides(browser).edits()...).areq()
			for name := range browser {
				if areq.has(name) {
					t.Errorf("%s: the AReq of an app has %s, want nothing of a browser", v, name)
				}
			}
		}
		t.flow(v231, "APP").setARes("S", confirmation.edits()...).wantRejected("203", "transStatus")
	}},
)

var apFaults = []fault{
	{row: "AP-13", name: "CReq", on: "APP", set: overrides{"messageType": "CReq"}, want: "101"},
	{row: "AP-13", name: "CRes", on: "APP", set: overrides{"messageType": "CRes"}, want: "101"},
}
