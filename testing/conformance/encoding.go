package conformance

import (
	"net/http"
	"strings"
)

// encodingChecks is encoding and sizes.
var encodingChecks = []check{
	{id: "EN-02", do: func(t *T) {
		const value = "AAABBCJZ\r\nUwAAAAAA UFlTAAAAAAA="
		for _, v := range allVersions {
			x := t.flow(v, "BRW").setARes("Y", set("authenticationValue", value))
			t.want("ARes", x.wantAccepted().o, "authenticationValue", value)
			y := t.flow(v, "BRW").startChallenge()
			y.wantRRes(y.rreq("Y", set("authenticationValue", value)), "01")
			t.want("RReq", y.result().o, "authenticationValue", value)
		}
	}},
	{id: "EN-04", do: func(t *T) {
		for _, content := range []string{"eyJhbGciOiJQUzI1NiJ9.e30.c2ln", "eyJhbGciOiJQUzI1NiJ9.e30.c2lnbmE", "eyJhbGciOiJub25lIn0.e30.AAAA",
			"eyJhbGciOiJQUzI1NiJ9.e30=.c2lnbmE=", "eyJhbGciOiJQUzI1NiJ9===.e30.c2ln="} {
			for _, v := range allVersions {
				x := t.flow(v, "APP").setARes("C", set("acsSignedContent", content))
				t.want("ARes", x.wantAccepted().o, "acsSignedContent", content)
			}
		}
	}},
	{id: "EN-05", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "APP")
			t.want("AReq", x.areq(), "sdkEphemPubKey", x.req["sdkEphemPubKey"])
			t.flow(v, "APP", set("sdkEphemPubKey", `{"kty":"EC"`)).wantRefused("203", "sdkEphemPubKey")
		}
	}},
	{id: "EN-06", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "BRW").setARes("Y", text(`"transStatus":"Y"`, "\n\t\"transStat\\u0075s\" :  \"\\u0059\"\r\n"), set("foo", "😀 \u2028"))
			t.want("ARes", x.wantAccepted().o, "transStatus", "Y")
			y := t.flow(v, "BRW").startChallenge()
			y.wantRRes(y.rreq("Y", text(`"messageType":"RReq"`, `"messageT\u0079pe":"RR\u0065q"`), set("foo", "😀")), "01")
			t.flow(v, "BRW").setARes("Y", set("foo", "x"), text(`"foo":"x"`, "\"foo\":\"\xff\"")).wantRejected("101|203", "")
			z := t.flow(v, "BRW").startChallenge()
			z.wantRReqRefused(z.rreq("Y", set("foo", "x"), text(`"foo":"x"`, "\"foo\":\"\xc3(\"")), "101|203", "")
		}
	}},
	{id: "EN-07", do: func(t *T) {
		long := strings.Repeat("9", 48)
		t.wantSent(allVersions, "BRW", "purchaseAmount", long, set("purchaseAmount", long))
		t.wantSent(allVersions, "BRW", "purchaseAmount", "007", set("purchaseAmount", "007"))
		t.wantSent(allVersions, "BRW", "purchaseAmount", "1099", set("purchaseAmount", 1099))
		t.wantRefused(allVersions, "BRW", "203", "purchaseAmount", set("purchaseAmount", 10.99))
		t.wantRefused(allVersions, "BRW", "203", "acctNumber", set("acctNumber", 4000001234567899))
	}},
	{id: "EN-08", do: func(t *T) {
		bombs := []string{
			strings.Repeat("[", 50000), strings.Repeat(`{"a":`, 50000), `{"messageType":"RReq","a":` + strings.Repeat("[", 500) + strings.Repeat("]", 500) + "}",
			`{"messageType":"RReq"` + strings.Repeat(`,"a":1`, 20000) + "}", `{"messageType":"RReq","a":[` + strings.Repeat("1,", 100000) + "1]}",
		}
		d, l := t.sharedLab().ds["visa"], t.sharedLab()
		for _, bomb := range bombs {
			got, err := d.post(l.results, []byte(bomb))
			if err != nil {
				t.Fatalf("results: %v", err)
			}
			if got.o.text("messageType") != "Erro" && got.status != 400 && got.status != 413 {
				t.Errorf("results: %.20s…: %d %.200s, want an Erro, or status 400 or 413", bomb, got.status, got.body)
			}
			if got, err = l.callAPI("/auth", l.key, []byte(bomb)); err != nil || got.status != 400 && got.status != 413 {
				t.Errorf("/auth: %.20s…: %v %v, want status 400 or 413", bomb, got, err)
			}
			x := t.flow(v220, "BRW").setARes("Y", raw(bomb))
			x.wantErro("requestor", x.auth().o, "101|201|203|204|405", "")
		}
		deep := strings.Repeat("[", 500) + strings.Repeat("]", 500)
		many := "{" + strings.TrimSuffix(strings.Repeat(`"a":1,`, 20000), ",") + "}"
		for _, odd := range []string{deep, many, "[" + strings.Repeat("1,", 100000) + "1]"} { // as a member of a legal message
			with := set("foo", 1)
			in := text(`"foo":1`, `"foo":`+odd)
			t.flow(v220, "BRW").setARes("Y", with, in).wantRejected("101", "")
			x := t.flow(v220, "BRW").startChallenge()
			x.wantRReqRefused(x.rreq("Y", with, in), "101", "")
			x.wantPending()
			t.flow(v220, "BRW", with, in).wantRefused("203", "")
		}
		huge := t.flow(v220, "BRW").setARes("Y", set("foo", strings.Repeat("a", 20<<20)))
		huge.wantErro("requestor", huge.auth().o, "101|203|405", "")
		t.flow(v220, "BRW").wantAccepted() // the server still serves
	}},
	{id: "EN-09", do: func(t *T) {
		x := t.flow(v231, "BRW").startChallenge()
		got := x.rreq("Y")
		for _, h := range []struct {
			message, name string
			of            http.Header
		}{{"AReq", "X-Request-Id", x.sent()[0].header}, {"RRes", "X-Request-Id", got.header}, {"RRes", "X-Response-Id", got.header}} {
			if values := h.of[h.name]; len(values) != 1 || !uuid.MatchString(values[0]) {
				t.Errorf("%s: %s is %q, want one UUID", h.message, h.name, values)
			}
		}
	}},
}
