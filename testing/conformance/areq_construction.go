package conformance

// This file is one idea: the checks of the rows MC, one below the other as the
// obligations have them, so that each is found by its row.

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// areqChecks is the construction of the AReq, and what holds for every message.
var areqChecks = []check{
	{id: "MC-01", do: func(t *T) {
		l := t.sharedLab()
		for _, v := range allVersions {
			x := t.flow(v, "BRW").setARes("Y", drop("dsTransID"))
			x.auth()
			sent := append(x.sent(), l.ds["visa"].requests("PReq", "")...)
			if erro := x.receivedErro(); erro != nil {
				sent = append(sent, erro)
			}
			if len(sent) < 3 {
				t.Fatalf("%s: %d messages, want AReq, PReq and Erro", x, len(sent))
			}
			for _, q := range sent {
				var tight bytes.Buffer
				if json.Compact(&tight, q.body) != nil || !bytes.Equal(tight.Bytes(), q.body) || q.o == nil || !utf8.Valid(q.body) {
					t.Errorf("not one JSON object without blanks: %s", q.body)
				}
				if q.method != "POST" || !q.tls.HandshakeComplete {
					t.Errorf("%s came as %s, over TLS: %t; want a POST over TLS", q.typ, q.method, q.tls.HandshakeComplete)
				}
			}
		}
	}},
	{id: "MC-02", do: func(t *T) {
		for _, v := range allVersions {
			for _, kind := range []string{"APP", "BRW", "3RI", "APP NPA", "BRW NPA", "3RI NPA"} {
				x := t.flow(v, kind)
				all := object{}
				for channel := range channelCodes {
					maps.Copy(all, sample("AReq", v, channel, "PA"))
				}
				maps.Copy(all, x.req)
				x.req = all
				x.wantAllRequired(x.areq())
			}
		}
	}},
	{id: "MC-03", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "BRW", set("billAddrLine2", ""), set("shipAddrCity", nil), set("acctInfo", object{}),
				set("merchantRiskIndicator", object{"giftCardCount": nil}), set("mobilePhone", object{"cc": "", "subscriber": nil}),
				set("messageExtension", []any{}))
			if at := emptyMember("", x.areq()); at != "" {
				t.Errorf("%s: the AReq has nothing in %s", x, at)
			}
		}
	}},
	{id: "MC-04", do: func(t *T) {
		name := strings.Repeat("é", 45)
		t.wantSent([]string{v231}, "BRW", "cardholderName", name, set("cardholderName", name))
		t.wantRefused([]string{v231}, "BRW", "203", "cardholderName", set("cardholderName", name+"é"))
		t.wantSent([]string{v231}, "BRW", "merchantName", strings.Repeat("😀", 40), set("merchantName", strings.Repeat("😀", 40)))
		t.wantAccepted([]string{v231}, "BRW", "N", set("cardholderInfo", object{"text": strings.Repeat("ß", 128)}))
		t.wantRejected([]string{v231}, "BRW", "N", "203", "cardholderInfo.text", set("cardholderInfo", object{"text": strings.Repeat("ß", 129)}))
		one := object{"name": "ours", "id": "A000000802-001", "criticalityIndicator": false, "data": object{"a": strings.Repeat("é", 8059-len(`{"a":""}`))}}
		t.wantSent([]string{v231}, "BRW", "messageExtension", []object{one}, set("messageExtension", []object{one}))
	}},
	{id: "MC-05", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "BRW").startChallenge()
			t.want("AReq", x.sent()[0].o, "messageType", "AReq")
			t.want("RRes", x.rreq("Y").o, "messageType", "RRes")
			t.want("Erro", x.rreq("Y").o, "messageType", "Erro")
			t.want("/auth Erro", t.flow(v, "BRW", drop("mcc")).auth().o, "messageType", "Erro")
		}
		for _, q := range t.everyMessage() {
			if typ := q.o.text("messageType"); !slices.Contains([]string{"AReq", "PReq", "Erro"}, typ) {
				t.Errorf("the directory server got a message of type %q, want AReq, PReq or Erro", typ)
			}
		}
		t.want("ORes", t.oreq(oreqs(1)[0]).o, "messageType", "ORes")
		t.want("OReq Erro", t.oreq(oreqs(1)[0], drop("opSeverity")).o, "messageType", "Erro")
		t.want("/preauth", t.flow(v220, "BRW").preauth(), "messageType", "CRD")
		t.want("/preauth Erro", t.flow(v220, "BRW").call("/preauth", object{"acctNumber": cardUnknown}.bytes()).o, "messageType", "Erro")
		x := t.flow(v220, "BRW").startChallenge()
		t.want("/postauth Erro", x.result().o, "messageType", "Erro")
		x.rreq("Y")
		t.want("/postauth RReq", x.result().o, "messageType", "RReq")
	}},
	{id: "MC-06", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "BRW").startChallenge()
			t.want("AReq", x.sent()[0].o, "messageVersion", v)
			t.want("Erro", x.rreq("Y", drop("transStatus")).o, "messageVersion", v)
			t.want("RRes", x.rreq("Y").o, "messageVersion", v)
			y := t.flow(v, "BRW").setARes("Y", drop("dsTransID"))
			t.want("Erro to the requestor", y.auth().o, "messageVersion", v)
			if erro := y.receivedErro(); erro != nil {
				t.want("Erro to the directory", erro.o, "messageVersion", v)
			}
		}
	}},
	{id: "MC-07", do: func(t *T) {
		seen := make(map[string]bool)
		for range 300 {
			id := t.flow(v220, "BRW").preauth().text("threeDSServerTransID")
			if seen[id] || !uuid.MatchString(id) {
				t.Fatalf("id %q comes twice or is no UUID", id)
			}
			seen[id] = true
		}
		for _, v := range allVersions {
			x := t.flow(v, "APP").startChallenge()
			for what, o := range map[string]object{"AReq": x.sent()[0].o, "Erro": x.rreq("Y", drop("transStatus")).o, "RRes": x.rreq("Y").o} {
				if id := o.text("threeDSServerTransID"); id != x.id {
					t.Errorf("%s: id %q, want %q", what, id, x.id)
				}
			}
		}
		for _, q := range t.sharedLab().ds["visa"].requests("PReq", "") {
			if id := q.id; seen[id] || !uuid.MatchString(id) {
				t.Errorf("PReq: id %q, want a UUID that no authentication has", id)
			}
		}
	}},
	{id: "MC-08", do: func(t *T) {
		l := t.ownLab(plan{sections: map[string]string{
			"server": "{reference_numbers: {2.1.0: REF-210, 2.2.0: REF-220}, reference_number: REF, requestor_id: R1, requestor_name: Requestor}",
		}})
		for v, want := range map[string]string{v210: "REF-210", v220: "REF-220", v231: "REF"} {
			for _, kind := range []string{"APP", "BRW", "3RI"} {
				t.want("AReq", t.flowIn(l, v, kind, set("threeDSServerRefNumber", "MINE")).areq(), "threeDSServerRefNumber", want)
			}
		}
		for _, q := range l.ds["visa"].requests("PReq", "") {
			t.want("PReq", q.o, "threeDSServerRefNumber", "REF") // of the highest version
		}
	}},
	{id: "MC-09", do: func(t *T) {
		for _, v := range allVersions {
			t.wantSent([]string{v}, "BRW", "threeDSServerOperatorID", "visa-operator", set("threeDSServerOperatorID", "MINE"))
			t.want("AReq", t.flow(v, "BRW").card("mastercard", cardMastercard).areq(), "threeDSServerOperatorID", "mastercard-operator")
		}
		for scheme, d := range t.sharedLab().ds {
			for _, q := range d.requests("PReq", "") {
				t.want("PReq", q.o, "threeDSServerOperatorID", scheme+"-operator")
			}
		}
	}},
	{id: "MC-10", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "BRW", set("threeDSServerURL", "https://elsewhere.example"))
			x.setAnswer(func(q *request) reply {
				url := q.o.text("threeDSServerURL")
				got, err := x.d.post(url, sample("RReq", v, "BRW", "PA", "Y").bytes())
				if err != nil || got.status != 200 || !strings.HasPrefix(url, "https://") {
					t.Errorf("%s: while the AReq is there, %s does not answer: %v %v", x, url, got, err)
				}
				return reply{body: aresTo(q.o, "C").bytes()}
			})
			if got := x.auth(); got.status != 200 || len(x.sent()) != 1 {
				t.Fatalf("%s: %d %s", x, got.status, got.body)
			}
			got, err := x.d.post(x.sent()[0].o.text("threeDSServerURL"), x.rreqOf("Y").bytes())
			if err != nil {
				t.Fatalf("%s: %v", x, err)
			}
			x.wantRRes(got, "01")
		}
	}},
	{id: "MC-11", do: func(t *T) {
		for _, kind := range []string{"APP", "BRW", "3RI", "BRW NPA"} {
			t.wantRefused(allVersions, kind, "201", "threeDSRequestorURL", drop("threeDSRequestorURL"))
		}
		t.wantRefused(allVersions, "BRW", "203", "threeDSRequestorURL", set("threeDSRequestorURL", "https://shop.example/"+strings.Repeat("a", 2028)))
		t.wantRefused(allVersions, "BRW", "203", "threeDSRequestorURL", set("threeDSRequestorURL", "shop"))
	}},
	{id: "MC-12", do: requestorCheck("threeDSRequestorID", 35)},
	{id: "MC-13", do: requestorCheck("threeDSRequestorName", 40)},
	{id: "MC-14", do: acquirerCheck("acquirerBIN", 11)},
	{id: "MC-15", do: acquirerCheck("acquirerMerchantID", 35)},
	{id: "MC-16", do: func(t *T) {
		for _, kind := range []string{"APP", "BRW", "3RI", "BRW NPA"} {
			t.wantSent([]string{v231}, kind, "acquirerCountryCode", "208")
			t.wantSent([]string{v231}, kind, "acquirerCountryCodeSource", "01", drop("acquirerCountryCodeSource"))
			for _, name := range []string{"acquirerCountryCode", "acquirerCountryCodeSource"} {
				t.wantSent(until220, kind, name, nil, set("acquirerCountryCode", "208"), set("acquirerCountryCodeSource", "01"))
			}
		}
		t.wantSent([]string{v231}, "BRW", "acquirerCountryCode", "578", drop("acquirerCountryCode"), set("merchantCountryCode", "578"))
		t.wantRefused([]string{v231}, "BRW NPA", "201", "acquirerCountryCode", drop("acquirerCountryCode"), drop("merchantCountryCode"))
	}},
	{id: "MC-17", do: func(t *T) {
		for _, name := range []string{"mcc", "merchantCountryCode", "merchantName"} {
			for _, kind := range []string{"APP", "BRW", "3RI"} {
				versions := allVersions
				if kind == "3RI" {
					versions = since220 // 2.1.0 has no payments there
				}
				t.wantRefused(versions, kind, "201", name, drop(name))
			}
			t.wantSent(allVersions, "BRW NPA", name, nil, drop(name))
		}
		t.wantRefused(allVersions, "BRW", "203", "mcc", set("mcc", "123"))
		t.wantRefused(allVersions, "BRW", "203", "merchantName", set("merchantName", strings.Repeat("a", 41)))
		t.wantSent(allVersions, "BRW", "merchantCountryCode", "208", set("merchantCountryCode", "DNK"))
		t.wantRefused(allVersions, "BRW", "203|304", "merchantCountryCode", set("merchantCountryCode", "DNX"))
	}},
	{id: "MC-18", do: func(t *T) {
		t.wantRefused(allVersions, "BRW", "201", "acctNumber", drop("acctNumber"))
		for _, bad := range []string{"400000123456", "40000012345678991234", "4000.0012.3456.7899", "400000123456789a"} {
			for _, v := range allVersions {
				x := t.flow(v, "BRW", set("acctNumber", bad))
				x.wantRefused("203", "acctNumber")
				if bytes.Contains(x.answer.body, []byte(bad)) {
					t.Errorf("%s: the answer shows the number", x)
				}
			}
		}
		for _, pan := range []string{"4000001234567", "4000001234567890123"} {
			for _, v := range allVersions {
				x := t.flow(v, "APP").card("visa", "4000001234567899")
				x.preauth()
				x.req["acctNumber"] = pan // not the card of the id, and in no range; but its length is good
				if a := x.auth().o; a.text("errorCode") == "203" {
					t.Errorf("%s: a card number of %d digits: %s, want no format error", x, len(pan), encode(a))
				}
				if n := len(x.sent()); n > 0 {
					t.Errorf("%s: %d AReqs with the id of another card, want none", x, n)
				}
			}
		}
	}},
	{id: "MC-19", do: func(t *T) {
		t.wantSent(allVersions, "BRW", "cardExpiryDate", "3012", set("cardExpiryDate", "3012"))
		t.wantSent(allVersions, "BRW", "cardExpiryDate", nil, drop("cardExpiryDate"))
		t.wantSent(allVersions, "BRW", "cardExpiryDate", "2001", set("cardExpiryDate", "2001")) // the issuer's business
		t.wantRefused(allVersions, "BRW", "203", "cardExpiryDate", set("cardExpiryDate", "12/30"))
		t.wantRefused(allVersions, "BRW", "203", "cardExpiryDate", set("cardExpiryDate", "3013"))
		if !t.remote() {
			cardExpiryByScheme(t)
		}
	}},
	{id: "MC-20", do: func(t *T) {
		t.wantRefused(allVersions, "BRW", "201", "deviceChannel", drop("deviceChannel"))
		t.wantRefused(allVersions, "BRW", reserved, "deviceChannel", set("deviceChannel", "04"))
		t.wantRefused(allVersions, "BRW", "203", "deviceChannel", set("deviceChannel", "BRW"))
		for kind, code := range channelCodes {
			t.wantSent(allVersions, kind, "deviceChannel", code)
		}
	}},
	{id: "MC-21", do: func(t *T) {
		t.wantRefused(allVersions, "BRW", "201", "messageCategory", drop("messageCategory"))
		t.wantRefused(allVersions, "BRW", reserved, "messageCategory", set("messageCategory", "03"))
		t.wantRefused(allVersions, "BRW", "203", "messageCategory", set("messageCategory", "1"))
		t.wantSent(allVersions, "BRW", "messageCategory", "01")
		t.wantSent(allVersions, "BRW NPA", "messageCategory", "02")
		if !t.remote() { // a category that the scheme defines goes to the directory server
			for _, v := range allVersions {
				x := t.flow(v, "BRW", set("messageCategory", "80")).card("mastercard", cardMastercard)
				t.want("AReq", x.areq(), "messageCategory", "80")
			}
		}
	}},
	{id: "MC-22", do: func(t *T) {
		for _, name := range purchase {
			t.wantRefused(allVersions, "APP", "201", name, drop(name))
			t.wantRefused(allVersions, "BRW", "201", name, drop(name))
			t.wantRefused(since220, "3RI", "201", name, drop(name))
		}
		for _, bad := range [][2]string{
			{"purchaseAmount", "12.34"}, {"purchaseAmount", "-1"}, {"purchaseAmount", strings.Repeat("1", 49)},
			{"purchaseCurrency", "EUX"}, {"purchaseExponent", "22"}, {"purchaseDate", "2026-11-20"}, {"purchaseDate", "20261320120000"},
			{"purchaseDate", "20261120240000"}, {"purchaseDate", "20261120126000"}, {"purchaseDate", "20261120120060"},
		} {
			t.wantRefused(allVersions, "BRW", "203|304", bad[0], set(bad[0], bad[1]))
		}
		t.wantSent(allVersions, "BRW", "purchaseCurrency", "978", set("purchaseCurrency", "EUR"))
	}},
	{id: "MC-23", do: func(t *T) {
		without := []edit{drop(purchase[0]), drop(purchase[1]), drop(purchase[2]), drop(purchase[3])}
		recurring := []edit{
			set("recurringExpiry", "20301231"), set("recurringFrequency", "30"), set("recurringInd", object{"amountInd": "02", "frequencyInd": "02"}),
			set("purchaseInstalData", "12"),
		}
		for _, v := range allVersions {
			needs := map[string]bool{"01": false, "02": true, "03": true, "04": false, "07": true, "08": true, "09": true}
			for ind, need := range needs {
				if ind > "06" && v != v231 {
					continue
				}
				x := t.flow(v, "BRW NPA", slices.Concat(without, recurring, []edit{set("threeDSRequestorAuthenticationInd", ind)})...)
				x.wantNeeded(need, purchase...)
			}
			if v == v210 {
				continue
			}
			for ind, need := range map[string]bool{
				"01": true, "02": true, "03": false, "04": false, "06": true, "07": true, "08": true, "09": true, "11": true, "13": false, "15": true,
			} {
				if ind > "11" && v != v231 {
					continue
				}
				x := t.flow(v, "3RI NPA", slices.Concat(without, recurring, []edit{set("threeRIInd", ind)})...)
				x.wantNeeded(need, purchase...)
			}
		}
	}},
	{id: "MC-24", do: func(t *T) {
		l := t.ownLab(plan{env: []string{"TZ=America/New_York"}})
		for _, v := range allVersions {
			t.want("AReq", t.flowIn(l, v, "BRW").areq(), "purchaseDate", "20261120120000")
		}
		for line := range strings.Lines(l.log.String()) {
			if at := read([]byte(line)).text("time"); at != "" && !strings.HasSuffix(at, "Z") {
				t.Errorf("the log tells the time as %s", at)
			}
		}
	}},
	{id: "MC-25", do: func(t *T) {
		for _, code := range []string{"955", "959", "964", "999"} {
			t.wantRefused(allVersions, "BRW", "304", "purchaseCurrency", set("purchaseCurrency", code))
		}
		for _, code := range []string{"901", "950", "999"} {
			t.wantRefused(allVersions, "BRW", "304", "merchantCountryCode", set("merchantCountryCode", code))
			t.wantRefused(allVersions, "BRW", "304", "billAddrCountry", set("billAddrCountry", code))
		}
	}},
	{id: "MC-26", do: func(t *T) {
		for _, kind := range []string{"bill", "ship"} {
			country, state := kind+"AddrCountry", kind+"AddrState"
			t.wantSent(allVersions, "BRW", state, "CA", set(state, "CA"), set(country, "840"))
			t.wantSent(allVersions, "BRW", state, "CA", set(state, "US-CA"), set(country, "840"))
			t.wantRefused(allVersions, "BRW", "203", state, set(state, "DE-BE"), set(country, "840"))
			t.wantRefused(allVersions, "BRW", "201", country, set(state, "CA"))
			t.wantSent(allVersions, "BRW", country, "840", set(country, "US"))
			t.wantRefused(allVersions, "BRW", "203|304", country, set(country, "XX"))
			t.wantRefused(allVersions, "BRW", "203", kind+"AddrPostCode", set(kind+"AddrPostCode", strings.Repeat("1", 17)))
			for _, name := range []string{"AddrLine1", "AddrLine2", "AddrLine3", "AddrCity"} {
				t.wantSent(allVersions, "BRW", kind+name, strings.Repeat("a", 50), set(kind+name, strings.Repeat("a", 50)))
				t.wantRefused(allVersions, "BRW", "203", kind+name, set(kind+name, strings.Repeat("a", 51)))
			}
		}
	}},
	{id: "MC-27", do: func(t *T) {
		t.wantRefused(until220, "BRW", "203", "cardholderName", set("cardholderName", "José"))
		t.wantRefused(until220, "BRW", "203", "cardholderName", set("cardholderName", "J"))
		t.wantRefused(allVersions, "BRW", "203", "cardholderName", set("cardholderName", strings.Repeat("a", 46)))
		t.wantSent(until220, "BRW", "cardholderName", "Jose", set("cardholderName", "Jose"))
		t.wantSent([]string{v231}, "BRW", "cardholderName", "J", set("cardholderName", "J"))
		t.wantSent([]string{v231}, "BRW", "cardholderName", "José 張", set("cardholderName", "José 張"))
	}},
	{id: "MC-28", do: func(t *T) {
		long := strings.Repeat("a", 60) + "@" + strings.Repeat(strings.Repeat("b", 60)+".", 3) + "example"
		for _, bad := range []string{"a@", "@b.example", "a b@c.example", "a", long + strings.Repeat("e", 255-len(long))} {
			t.wantRefused(allVersions, "BRW", "203", "email", set("email", bad))
		}
		t.wantSent(allVersions, "BRW", "email", "ann+shop@mail.example", set("email", "ann+shop@mail.example"))
		t.wantSent(allVersions, "BRW", "email", nil)
	}},
	{id: "MC-29", do: func(t *T) {
		for _, name := range []string{"homePhone", "mobilePhone", "workPhone"} {
			good := object{"cc": "45", "subscriber": "123456789012345"}
			t.wantSent(allVersions, "BRW", name, good, set(name, good))
			t.wantRefused(allVersions, "BRW", "203", name+".cc", set(name, good), set(name+".cc", "0045"))
			t.wantRefused(allVersions, "BRW", "203", name+".subscriber", set(name, good), set(name+".subscriber", "1234567890123456"))
			for _, half := range []string{".cc", ".subscriber"} {
				t.wantRefused(allVersions, "BRW", "201", name+half, set(name, good), drop(name+half))
			}
			t.wantRefused(allVersions, "BRW", "203", name, set(name, "+45 12345678"))
		}
	}},
	{id: "MC-30", do: func(t *T) {
		t.wantSent(allVersions, "BRW", "addrMatch", "Y", set("addrMatch", "Y"))
		t.wantSent(allVersions, "APP", "addrMatch", "N", set("addrMatch", "N"))
		t.wantSent(allVersions, "3RI", "addrMatch", nil, set("addrMatch", "Y"))
		t.wantRefused(allVersions, "BRW", "203", "addrMatch", set("addrMatch", "X"))
	}},
	{id: "MC-31", do: func(t *T) {
		for _, good := range []string{"01", "02", "03", "80"} {
			t.wantSent(allVersions, "BRW", "acctType", good, set("acctType", good))
		}
		t.wantRefused(allVersions, "BRW", reserved, "acctType", set("acctType", "04"))
		t.wantRefused(allVersions, "BRW", "203", "acctType", set("acctType", "1"))
	}},
	{id: "MC-32", do: func(t *T) {
		for path, bad := range map[string]string{
			"acctInfo.chAccDate": "2020-01-01", "acctInfo.chAccAgeInd": "1", "acctInfo.nbPurchaseAccount": "12345",
			"merchantRiskIndicator.giftCardCount": "123", "merchantRiskIndicator.deliveryTimeframe": "5", "merchantRiskIndicator.preOrderDate": "soon",
		} {
			t.wantRefused(allVersions, "BRW", "203", path, set(path, bad))
		}
		t.wantRefused(allVersions, "BRW", "203", "merchantRiskIndicator.giftCardCount", set("merchantRiskIndicator.giftCardCount", "1"))
		t.wantSent(allVersions, "BRW", "acctInfo", object{"chAccDate": "20200101"}, set("acctInfo", object{"chAccDate": "20200101"}))
		t.wantSent(allVersions, "BRW", "acctInfo", nil, set("acctInfo", object{}))
		t.wantSent(allVersions, "BRW", "merchantRiskIndicator", nil, set("merchantRiskIndicator", object{"shipIndicator": ""}))
	}},
	{id: "MC-33", do: func(t *T) { // the requestor makes it: it passes as it is
		const path, hash = "acctInfo.chAccReqID", "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
		t.wantSent([]string{v231}, "BRW", path, hash, set(path, hash))
		t.wantRefused([]string{v231}, "BRW", "203", path, set(path, strings.Repeat("a", 65)))
	}},
	{id: "MC-34", do: authenticationInfoCheck("threeDSRequestorAuthenticationInfo", "threeDSReqAuthMethod", "threeDSReqAuthTimestamp",
		map[string][2]string{v210: {"06", "07"}, v220: {"08", "09"}, v231: {"10", "11"}})},
	{id: "MC-35", do: func(t *T) {
		const name = "threeDSRequestorPriorAuthenticationInfo"
		authenticationInfoCheck(name, "threeDSReqPriorAuthMethod", "threeDSReqPriorAuthTimestamp",
			map[string][2]string{v210: {"04", "05"}, v220: {"04", "05"}, v231: {"05", "06"}})(t)
		t.wantRefused(allVersions, "BRW", "203", name+".threeDSReqPriorRef", set(name, object{"threeDSReqPriorRef": newID() + "0"}))
		t.wantRefused([]string{v231}, "3RI", "201", name, append(decoupledAs("Y").edits(), set("threeRIInd", "19"))...)
	}},
	{id: "MC-36", do: func(t *T) {
		const path = "threeDSRequestorAuthenticationInfo"
		x := t.flow(v231, "BRW", set(path, []object{{"threeDSReqAuthMethod": "02", "dsAuthInfVerifInd": "01"}}))
		areq := x.areq()
		t.want("AReq", areq, path+"[0].threeDSReqAuthMethod", "02")
		t.want("AReq", areq, path+"[0].dsAuthInfVerifInd", nil)
	}},
	{id: "MC-37", do: func(t *T) {
		const name = "threeDSRequestorAuthenticationInd"
		t.wantRefused(allVersions, "BRW", "201", name, drop(name))
		t.wantRefused(allVersions, "APP", "201", name, drop(name))
		t.wantSent(allVersions, "3RI", name, nil, set(name, "01"))
		t.wantRefused(allVersions, "BRW", "203", name, set(name, "1"))
		t.wantRefused(until220, "BRW", "203", name, set(name, "07"))
		t.wantRefused([]string{v231}, "BRW", "207", name, set(name, "11"))
		for _, good := range []string{"04", "05", "06"} {
			t.wantSent(allVersions, "BRW", name, good, set(name, good))
		}
		t.wantSent([]string{v231}, "BRW", name, "10", set(name, "10"))
	}},
	{id: "MC-38", do: func(t *T) {
		const name = "threeDSRequestorChallengeInd"
		t.wantSent(until220, "BRW", name, "04", set(name, "04"))
		t.wantSent([]string{v220}, "BRW", name, "09", set(name, "09"))
		t.wantRefused([]string{v210}, "BRW", "203", name, set(name, "05"))
		t.wantRefused([]string{v220}, "BRW", "203", name, set(name, "10"))
		t.wantSent(until220, "BRW", name, "04", set(name, []string{"04"}))
		t.wantRefused(until220, "BRW", "203", name, set(name, []string{"03", "04"}))
		t.wantSent([]string{v231}, "BRW", name, []string{"04"}, set(name, "04"))
		t.wantSent([]string{v231}, "BRW", name, []string{"03", "09"}, set(name, []string{"03", "09"}))
		t.wantRefused([]string{v231}, "BRW", "203", name, set(name, []string{"02", "04"}))
		t.wantRefused([]string{v231}, "BRW", "203", name, set(name, []string{"01", "09", "14"}))
		t.wantRefused([]string{v231}, "BRW", "207", name, set(name, []string{"15"}))
		t.wantSent([]string{v231}, "BRW", name, []string{"14"}, set(name, []string{"14"}))
	}},
	{id: "MC-39", do: func(t *T) {
		const wish, most = "threeDSRequestorDecReqInd", "threeDSRequestorDecMaxTime"
		t.wantRefused(since220, "BRW", "201", most, set(wish, "Y"))
		t.wantRefused([]string{v231}, "BRW", "201", most, set(wish, "F"))
		t.wantRefused([]string{v231}, "BRW", "201", most, set(wish, "B"))
		for _, later := range []string{"F", "B"} {
			t.wantRefused([]string{v220}, "BRW", "203", wish, set(wish, later), set(most, "00010"))
		}
		t.wantSent(since220, "BRW", most, "00001", set(wish, "Y"), set(most, "1"))
		for _, bad := range []string{"0", "00000", "10081", "0001a"} {
			t.wantRefused(since220, "BRW", "203", most, set(wish, "Y"), set(most, bad))
		}
		t.wantSent(since220, "BRW", most, "10080", set(wish, "Y"), set(most, "10080"))
		t.wantSent([]string{v210}, "BRW", wish, nil, set(wish, "Y"), set(most, "00010"))
		t.wantSent(since220, "BRW", wish, "N", set(wish, "N"))
	}},
	{id: "MC-40", do: func(t *T) {
		both := []edit{set("recurringExpiry", "20301231"), set("recurringFrequency", "30"), set("purchaseInstalData", "12")}
		for _, ind := range []string{"02", "03"} {
			recurring := append(slices.Clone(both), set("threeDSRequestorAuthenticationInd", ind))
			t.wantSent(until220, "BRW", "recurringExpiry", "20301231", recurring...)
			for _, name := range []string{"recurringExpiry", "recurringFrequency"} {
				t.wantRefused(until220, "BRW", "201", name, append(slices.Clone(recurring), drop(name))...)
			}
			t.wantRefused(until220, "BRW", "203", "recurringExpiry", append(slices.Clone(recurring), set("recurringExpiry", "2030-12-31"))...)
			t.wantRefused(until220, "BRW", "203", "recurringFrequency", append(slices.Clone(recurring), set("recurringFrequency", "10000"))...)
		}
		for _, ind := range []string{"01", "02"} {
			t.wantRefused([]string{v220}, "3RI", "201", "recurringExpiry", append(slices.Clone(both), set("threeRIInd", ind), drop("recurringExpiry"))...)
		}
	}},
	{id: "MC-41", do: func(t *T) {
		only := []string{v231}
		const ind, name = "recurringInd", "threeDSRequestorAuthenticationInd"
		amount := []edit{set("recurringAmount", "500"), set("recurringCurrency", "978"), set("recurringExponent", "2")}
		frequency := []edit{set("recurringDate", "20261231"), set("recurringFrequency", "30")}
		t.wantRefused(only, "BRW", "201", ind, set(name, "02"))
		for _, third := range []string{"01", "02"} {
			t.wantRefused(only, "3RI", "201", ind, set("threeRIInd", third), set("purchaseInstalData", "12"))
		}
		for _, a := range []string{"01", "02"} {
			for _, f := range []string{"01", "02"} {
				edits := []edit{set(name, "02"), set(ind, object{"amountInd": a, "frequencyInd": f})}
				needs := map[string]bool{
					"recurringAmount": a == "01", "recurringCurrency": a == "01", "recurringExponent": a == "01",
					"recurringDate": f == "01", "recurringFrequency": f == "01",
				}
				for one, need := range needs {
					if need {
						t.wantRefused(only, "BRW", "201", one, slices.Concat(edits, amount, frequency, []edit{drop(one)})...)
					}
				}
				if a == "02" {
					t.wantSent(only, "BRW", "recurringAmount", nil, slices.Concat(edits, frequency)...)
				}
				if f == "02" {
					t.wantSent(only, "BRW", "recurringDate", nil, slices.Concat(edits, amount)...)
				}
				t.wantSent(only, "BRW", ind+".amountInd", a, slices.Concat(edits, amount, frequency)...)
			}
		}
		t.wantRefused(only, "BRW", "201", ind+".amountInd", set(name, "02"), set(ind, object{"frequencyInd": "02"}))
	}},
	{id: "MC-42", do: func(t *T) {
		const name = "purchaseInstalData"
		instalments := []edit{
			set("threeDSRequestorAuthenticationInd", "03"), set("recurringExpiry", "20301231"), set("recurringFrequency", "30"),
			set("recurringInd", object{"amountInd": "02", "frequencyInd": "02"}),
		}
		t.wantRefused(allVersions, "BRW", "201", name, instalments...)
		t.wantRefused(since220, "3RI", "201", name, append(slices.Clone(instalments), set("threeRIInd", "02"))...)
		for _, bad := range []string{"1", "0", "1000", "a"} {
			t.wantRefused(allVersions, "BRW", "203", name, append(slices.Clone(instalments), set(name, bad))...)
		}
		t.wantSent(allVersions, "BRW", name, "12", append(slices.Clone(instalments), set(name, "12"))...)
		t.wantSent(allVersions, "BRW", name, nil, set(name, "12"))
	}},
	{id: "MC-43", do: func(t *T) {
		for _, good := range []string{"01", "03", "10", "11", "28"} {
			t.wantSent(allVersions, "BRW", "transType", good, set("transType", good))
		}
		t.wantRefused(allVersions, "BRW", "203", "transType", set("transType", "02"))
		t.wantSent(allVersions, "BRW NPA", "transType", nil, set("transType", "01"))
	}},
	{id: "MC-44", do: func(t *T) {
		t.wantSent(allVersions, "BRW", "payTokenInd", true, set("payTokenInd", true))
		t.wantSent(allVersions, "BRW", "payTokenInd", nil)
		t.wantSent(allVersions, "BRW", "payTokenInd", true, set("payTokenInd", "true"))
		t.wantRefused(allVersions, "BRW", "203", "payTokenInd", set("payTokenInd", "yes"))
		for _, v := range allVersions {
			x := t.flow(v, "BRW", set("payTokenInd", false))
			x.auth()
			for _, q := range x.sent() { // refused or left out
				t.want("AReq", q.o, "payTokenInd", nil)
			}
		}
	}},
	{id: "MC-45", do: func(t *T) {
		t.wantSent(since220, "BRW", "payTokenSource", "01", set("payTokenInd", true))
		t.wantSent(since220, "BRW", "payTokenSource", "01", set("payTokenInd", true), set("payTokenSource", "02"))
		t.wantSent(since220, "BRW", "payTokenSource", nil, set("payTokenSource", "01"))
		t.wantSent([]string{v210}, "BRW", "payTokenSource", nil, set("payTokenInd", true), set("payTokenSource", "01"))
	}},
	{id: "MC-46", do: func(t *T) {
		ours := object{"tokenStatusIndicator": "01"}
		all := object{"tokenStatusIndicator": "01", "tokenAssuranceMethod": "01", "tokenRequestorId": "12345678901", "tokenCryptogramValidityIndicator": "01"}
		t.wantSent([]string{v231}, "BRW", "payTokenInfo", ours, set("payTokenInd", true), set("payTokenInfo", all))
		t.wantSent(until220, "BRW", "payTokenInfo", nil, set("payTokenInfo", all))
	}},
	{id: "MC-47", do: func(t *T) {
		for v, name := range map[string]string{v220: "whiteListStatus", v231: "trustListStatus"} {
			only := []string{v}
			other := map[string]string{v220: "trustListStatus", v231: "whiteListStatus"}[v]
			for _, good := range []string{"Y", "N"} {
				t.wantSent(only, "BRW", name, good, set(name, good))
				t.wantSent(only, "BRW", name+"Source", "01", set(name, good))
				t.wantSent(only, "BRW", name+"Source", "01", set(name, good), set(name+"Source", "02"))
			}
			t.wantRefused(only, "BRW", "203", name, set(name, "E"), set(name+"Source", "01"))
			t.wantSent(only, "BRW", name+"Source", nil, set(name+"Source", "01"))
			t.wantSent(only, "BRW", other, nil, set(other, "Y"))
			t.wantSent([]string{v210}, "BRW", name, nil, set(name, "Y"))
		}
	}},
	{id: "MC-48", do: func(t *T) {
		t.wantSent([]string{v231}, "BRW", "deviceBindingStatusSource", "01", set("deviceBindingStatus", "01"))
		t.wantSent([]string{v231}, "BRW", "deviceBindingStatusSource", nil, set("deviceBindingStatusSource", "01"))
		t.wantSent(until220, "BRW", "deviceBindingStatus", nil, set("deviceBindingStatus", "01"))
	}},
	{id: "MC-49", do: func(t *T) { // no directory of a lab has the rule that calls for it
		for _, code := range []string{"987", "9871", "12", "12345"} {
			t.wantSent(allVersions, "BRW", "cardSecurityCode", nil, set("cardSecurityCode", code))
		}
	}},
	{id: "MC-50", do: func(t *T) {
		only := []string{v231}
		good := []edit{
			set("multiTransaction", object{"merchantList": []object{{"merchantNameListed": "Two", "sellerId": "S1"}}}),
			set("sellerInfo", []object{{"sellerName": "Seller", "sellerId": "S1"}}),
		}
		t.wantSent(only, "BRW", "sellerInfo[0].sellerId", "S1", good...)
		t.wantRefused(only, "BRW", "201", "multiTransaction.merchantList", set("multiTransaction", object{"avNumberUse": "2"}))
		var many []object
		for n := range 51 {
			many = append(many, object{"sellerName": "Seller " + itoa(n)})
		}
		t.wantSent(only, "BRW", "sellerInfo[49].sellerName", "Seller 49", set("sellerInfo", many[:50]))
		t.wantRefused(only, "BRW", "203", "sellerInfo", set("sellerInfo", many))
		many = nil
		for n := range 51 {
			many = append(many, object{"merchantNameListed": "Merchant " + itoa(n)})
		}
		t.wantSent(only, "BRW", "multiTransaction.merchantList[49].merchantNameListed", "Merchant 49", set("multiTransaction.merchantList", many[:50]))
		t.wantRefused(only, "BRW", "203", "multiTransaction.merchantList", set("multiTransaction.merchantList", many))
		t.wantRefused(only, "BRW", "203", "deviceId", set("deviceId", strings.Repeat("a", 65)))
		t.wantRefused(only, "BRW", "203", "userId", set("userId", strings.Repeat("a", 65)))
		t.wantRefused(only, "BRW", "203", "taxId", set("taxId", strings.Repeat("a", 46)))
		t.wantRefused(only, "APP", "203", "appIp", set("appIp", "999.1.1.1"))
		t.wantSent(only, "APP", "appIp", "2001:db8::1", set("appIp", "2001:db8::1"))
		t.wantRefused(only, "BRW", "201", "sellerInfo.sellerId", good[0], set("sellerInfo", []object{{"sellerName": "Seller"}}))
		t.wantRefused(only, "BRW", "203", "sellerInfo", good[0])
		t.wantRefused(only, "BRW", "203", "sellerInfo", good[0], set("sellerInfo", []object{{"sellerName": "Seller", "sellerId": "S2"}}))
	}},
	{id: "MC-51", do: func(t *T) {
		one := object{"name": "ours", "id": "A000000802-001", "criticalityIndicator": false, "data": object{"a": "b"}}
		for _, v := range allVersions {
			only, most := []string{v}, mostExtensions(v)
			var many []object
			for n := range most + 1 {
				many = append(many, object{"name": "ours", "id": "ext-" + itoa(n), "criticalityIndicator": false, "data": object{"a": "b"}})
			}
			t.wantSent(only, "BRW", "messageExtension["+itoa(most-1)+"].id", "ext-"+itoa(most-1), set("messageExtension", many[:most]))
			t.wantRefused(only, "BRW", "203", "messageExtension", set("messageExtension", many))
			for _, name := range []string{"name", "id", "criticalityIndicator", "data"} {
				t.wantRefused(only, "BRW", "201", "messageExtension."+name, set("messageExtension", []object{one}), drop("messageExtension[0]."+name))
			}
			for _, name := range []string{"name", "id"} {
				t.wantRefused(only, "BRW", "203", "messageExtension."+name, set("messageExtension", []object{one}),
					set("messageExtension[0]."+name, strings.Repeat("a", 65)))
			}
			t.wantRefused(only, "BRW", "203", "messageExtension.data", set("messageExtension", []object{one}),
				set("messageExtension[0].data.a", strings.Repeat("a", 8060)))
			t.wantRefused(only, "BRW", "203", "messageExtension", set("messageExtension", longExtensions(most)))
		}
	}},
	{id: "MC-52", do: func(t *T) {
		one := object{"name": "mine", "id": "A999999999-001", "criticalityIndicator": true, "data": object{"a": "b"}}
		t.wantRefused(allVersions, "BRW", "202", "messageExtension", set("messageExtension", []object{one}))
	}},
	{id: "MC-54", do: func(t *T) {
		for _, bad := range []string{
			"shop.example/done", "/done", "https://shop example/done", "https:///done", "javascript:alert(1)",
			"https://shop:secret@shop.example/done", "https://shop.example:port/done", "https://shop.example/<done>",
		} {
			t.wantRefused(allVersions, "BRW", "203", "notificationURL", set("notificationURL", bad))
			t.wantRefused(allVersions, "BRW", "203", "threeDSRequestorURL", set("threeDSRequestorURL", bad))
		}
		t.wantRefused([]string{v231}, "BRW", "203", "notificationURL", set("notificationURL", "http://shop.example/done"))
		t.wantSent(allVersions, "BRW", "notificationURL", "https://shop_1.example/done?a=b", set("notificationURL", "https://shop_1.example/done?a=b"))
	}},
	{id: "MC-55", do: func(t *T) {
		t.wantSent([]string{v231}, "BRW", "acceptLanguage", []string{"en", "da"}, set("acceptLanguage", []string{"en", "da", "en"}))
		two := object{"sellerName": "Seller"}
		t.wantRefused([]string{v231}, "BRW", "204", "sellerInfo", set("sellerInfo", []object{two, two}))
		t.wantRefused([]string{v231}, "BRW", "203", "acceptLanguage", set("acceptLanguage", []any{"en", 1}))
		t.wantRefused([]string{v231}, "BRW", "203", "acceptLanguage", set("acceptLanguage", []any{"en", true}))
	}},
	{id: "MC-56", do: func(t *T) {
		for _, v := range allVersions {
			for _, agent := range []string{"Mozilla/5.0 (one)", "Mozilla/5.0 (two)"} {
				t.wantSent([]string{v}, "BRW", "browserUserAgent", agent, set("browserUserAgent", agent))
			}
			x := t.flow(v, "BRW")
			areq := x.areq()
			for name, value := range x.req {
				if strings.HasPrefix(name, "browser") {
					t.want("AReq", areq, name, value)
				}
			}
		}
	}},
	{id: "MC-57", do: func(t *T) {
		for _, name := range []string{"browserAcceptHeader", "browserUserAgent"} {
			t.wantRefused(allVersions, "BRW", "201", name, drop(name))
			t.wantSent(allVersions, "BRW", name, strings.Repeat("abcd", 512), set(name, strings.Repeat("abcd", 750)))
		}
	}},
	{id: "MC-58", do: func(t *T) {
		const name = "browserJavascriptEnabled"
		t.wantRefused(since220, "BRW", "201", name, drop(name))
		t.wantSent(since220, "BRW", name, true, set(name, "true"))
		t.wantRefused(since220, "BRW", "203", name, set(name, "yes"))
		t.wantSent(since220, "BRW", name, false, set(name, false))
		t.wantSent([]string{v210}, "BRW", name, nil, set(name, true))
	}},
	{id: "MC-59", do: func(t *T) {
		off := set("browserJavascriptEnabled", false)
		for _, name := range []string{"browserJavaEnabled", "browserLanguage", "browserColorDepth", "browserScreenHeight", "browserScreenWidth", "browserTZ"} {
			t.wantRefused(allVersions, "BRW", "201", name, drop(name))
			t.wantSent([]string{v231}, "BRW", name, nil, drop(name), off)
		}
		t.wantRefused(until220, "BRW", "201", "browserLanguage", drop("browserLanguage"), off)
	}},
	{id: "MC-60", do: func(t *T) {
		const name = "browserColorDepth"
		t.wantSent(until220, "BRW", name, "24", set(name, "30"))
		t.wantSent([]string{v231}, "BRW", name, "30", set(name, "30"))
		t.wantSent(allVersions, "BRW", name, "48", set(name, "48"))
		t.wantRefused(allVersions, "BRW", "203", name, set(name, "0"))
		t.wantRefused(allVersions, "BRW", "203", name, set(name, "deep"))
	}},
	{id: "MC-61", do: func(t *T) {
		t.wantSent(until220, "BRW", "browserLanguage", "zh-Hant", set("browserLanguage", "zh-Hant-TW"))
		t.wantSent([]string{v231}, "BRW", "browserLanguage", "zh-Hant-TW", set("browserLanguage", "zh-Hant-TW"))
		t.wantSent(allVersions, "BRW", "browserLanguage", "da", set("browserLanguage", "da"))
	}},
	{id: "MC-62", do: func(t *T) {
		for _, good := range []string{"-300", "0", "720", "-60"} {
			t.wantSent(allVersions, "BRW", "browserTZ", good, set("browserTZ", good))
		}
		for _, bad := range []string{"UTC+5", "five", "12345678"} {
			t.wantRefused(allVersions, "BRW", "203", "browserTZ", set("browserTZ", bad))
		}
	}},
	{id: "MC-63", do: func(t *T) {
		const short, full = "2001:db8::1", "2001:0db8:0000:0000:0000:0000:0000:0001"
		for _, good := range []string{"192.0.2.1", full} {
			t.wantSent(allVersions, "BRW", "browserIP", good, set("browserIP", good))
		}
		t.wantSent(until220, "BRW", "browserIP", full, set("browserIP", short))
		t.wantSent([]string{v231}, "BRW", "browserIP", short, set("browserIP", short))
		for _, bad := range []string{"999.1.1.1", "192.0.2", "shop.example", "2001:db8:::1"} {
			t.wantRefused(allVersions, "BRW", "203", "browserIP", set("browserIP", bad))
		}
		t.wantSent(allVersions, "BRW", "browserIP", nil, drop("browserIP")) // a region may forbid it
	}},
	{id: "MC-64", do: func(t *T) {
		only := []string{v231}
		t.wantSent(only, "BRW", "acceptLanguage", []string{"da", "en"}, set("acceptLanguage", []string{"da", "en"}))
		t.wantSent(only, "BRW", "acceptLanguage", []string{"da"}, drop("acceptLanguage"), set("browserLanguage", "da"))
		t.wantRefused(only, "BRW", "203", "acceptLanguage", set("acceptLanguage", []string{"da", strings.Repeat("a", 101)}))
		t.wantRefused(only, "BRW", "201", "acceptLanguage", drop("acceptLanguage"), drop("browserLanguage"), set("browserJavascriptEnabled", false))
		var many []string
		for n := range 100 {
			many = append(many, "x-"+itoa(n))
		}
		t.wantSent(only, "BRW", "acceptLanguage[98]", "x-98", set("acceptLanguage", many[:99]))
		t.wantRefused(only, "BRW", "203", "acceptLanguage", set("acceptLanguage", many))
		t.wantSent(until220, "BRW", "acceptLanguage", nil, set("acceptLanguage", []string{"da"}))
	}},
	{id: "MC-65", do: func(t *T) {
		long := "https://shop.example/" + strings.Repeat("a", 256-len("https://shop.example/"))
		t.wantSent(allVersions, "BRW", "notificationURL", long, set("notificationURL", long))
		t.wantRefused(allVersions, "BRW", "203", "notificationURL", set("notificationURL", long+"a"))
		t.wantRefused(allVersions, "BRW", "201", "notificationURL", drop("notificationURL"))
	}},
	{id: "MC-66", do: func(t *T) {
		const name = "threeDSCompInd"
		for _, v := range allVersions {
			for _, says := range []string{"Y", "N", "U"} {
				t.want("no method", t.flow(v, "BRW", set(name, says)).areq(), name, "U")
				t.want("method", t.flow(v, "BRW", set(name, says)).card("visa", cardMethod).areq(), name, says)
			}
			t.flow(v, "BRW", drop(name)).card("visa", cardMethod).wantRefused("201", name)
			t.flow(v, "BRW", set(name, "X")).card("visa", cardMethod).wantRefused("203", name)
		}
	}},
	{id: "MC-67", do: func(t *T) {
		earlier := newID()
		t.wantSent([]string{v231}, "BRW", "threeDSMethodId", earlier, set("threeDSMethodId", earlier))
		t.wantSent(until220, "BRW", "threeDSMethodId", nil, set("threeDSMethodId", earlier))
		t.wantRefused([]string{v231}, "BRW", "203", "threeDSMethodId", set("threeDSMethodId", "earlier"))
	}},
	{id: "MC-68", do: func(t *T) {
		for _, v := range allVersions {
			x := t.flow(v, "APP")
			areq := x.areq()
			for name, value := range x.req {
				if strings.HasPrefix(name, "sdk") || name == "deviceRenderOptions" {
					t.want("AReq", areq, name, value)
				}
				if strings.HasPrefix(name, "sdk") && name != "sdkType" || name == "deviceRenderOptions" {
					t.flow(v, "APP", drop(name)).wantRefused("201", name)
				}
			}
		}
		t.wantRefused(allVersions, "APP", "203", "sdkMaxTimeout", set("sdkMaxTimeout", "04"))
		t.wantSent(allVersions, "APP", "sdkMaxTimeout", "05", set("sdkMaxTimeout", "5"))
		t.wantRefused(allVersions, "APP", "203", "sdkEphemPubKey", set("sdkEphemPubKey", "key"))
		const data = "eyJlbmMiOiJBMTI4R0NNIn0..aXY.ZGF0."
		t.wantSent(allVersions, "APP", "sdkEncData", long(data, 64000), set("sdkEncData", long(data, 64000)))
		t.wantRefused(allVersions, "APP", "203", "sdkEncData", set("sdkEncData", long(data, 64001)))
		t.wantRefused(allVersions, "APP", "203", "sdkEncData", set("sdkEncData", "eyJlbmMiOiJBMTI4R0NNIn0.ZGF0"))
	}},
	{id: "MC-69", do: func(t *T) {
		only := []string{v231}
		t.wantSent(only, "APP", "sdkType", "01", drop("sdkType"))
		t.wantSent(only, "APP", "defaultSdkType.sdkVariant", "01", drop("defaultSdkType"))
		split := []edit{set("sdkType", "02"), drop("defaultSdkType"), set("splitSdkType", object{"sdkVariant": "01"}),
			set("sdkServerSignedContent", "eyJhbGciOiJQUzI1NiJ9.e30.c2ln")}
		t.wantSent(only, "APP", "splitSdkType.sdkVariant", "01", split...)
		for _, name := range []string{"splitSdkType", "sdkServerSignedContent"} {
			t.wantRefused(only, "APP", "201", name, append(slices.Clone(split), drop(name))...)
		}
		t.wantRefused(only, "APP", "207", "sdkType", set("sdkType", "06"))
		t.wantSent(until220, "APP", "sdkType", nil, set("sdkType", "01"))
	}},
	{id: "MC-70", do: func(t *T) {
		for name, value := range map[string]any{
			"deviceInfo": "eyJhIjoiYiJ9", "dsURL": "https://ds.example", "dsReferenceNumber": "DS1", "dsTransID": newID(),
			"cardSecurityCodeStatus": "Y", "cardSecurityCodeStatusSource": "02", "threeDSReqAuthMethodInd": "01", "acsTransID": newID(),
		} {
			t.wantSent(allVersions, "BRW", name, nil, set(name, value))
			t.wantSent(allVersions, "APP", name, nil, set(name, value))
		}
	}},
	{id: "MC-71", do: func(t *T) {
		t.wantRefused(allVersions, "3RI", "201", "threeRIInd", drop("threeRIInd"))
		t.wantRefused([]string{v210}, "3RI", "203", "threeRIInd", set("threeRIInd", "06"))
		t.wantRefused([]string{v220}, "3RI", "203", "threeRIInd", set("threeRIInd", "12"))
		t.wantRefused([]string{v231}, "3RI", "207", "threeRIInd", set("threeRIInd", "20"))
		t.wantSent(allVersions, "BRW", "threeRIInd", nil, set("threeRIInd", "01"))
		for _, good := range []string{"03", "04", "05"} {
			t.wantSent(allVersions, "3RI", "threeRIInd", good, set("threeRIInd", good))
		}
	}},
	{id: "MC-72", do: func(t *T) {
		const support, origin = "threeDSRequestorSpcSupport", "payeeOrigin"
		t.needsLab() // only there we know a card whose issuer supports SPC
		t.flow(v231, "BRW", set(support, "Y")).card("visa", cardSPC).wantRefused("201", origin)
		t.flow(v231, "BRW", set(support, "Y"), set(origin, "shop")).card("visa", cardSPC).wantRefused("203", origin)
		t.flow(v231, "BRW", set(support, "Y"), set(origin, "http://shop.example")).card("visa", cardSPC).wantRefused("203", origin)
		t.wantSent(until220, "BRW", support, nil, set(support, "Y"), set(origin, "https://shop.example"))
		t.wantSent([]string{v231}, "APP", support, nil, set(support, "Y"), set(origin, "https://shop.example"))
		t.wantSent([]string{v231}, "BRW", origin, nil, set(origin, "https://shop.example"))
		for _, card := range []string{cardSPC, cardMethod} {
			t.want("AReq", t.flow(v231, "BRW", set(support, "N")).card("visa", card).areq(), support, nil)
			t.flow(v231, "BRW", set(support, "X")).card("visa", card).wantRefused("203", support)
		}
	}},
	{id: "MC-73", do: func(t *T) {
		l := t.ownLab(plan{})
		before := len(l.ds["visa"].connections())
		for _, v := range allVersions {
			for _, name := range []string{"threeDSRequestorURL", "acquirerBIN", "purchaseAmount", "browserUserAgent", "notificationURL"} {
				x := t.flowIn(l, v, "BRW", drop(name))
				x.wantRefused("201", name)
			}
		}
		if after := len(l.ds["visa"].connections()); after != before {
			t.Errorf("%d connections to the directory for requests that lack something, want none", after-before)
		}
	}},
}

// purchase are the members that say what is paid.
var purchase = []string{"purchaseAmount", "purchaseCurrency", "purchaseExponent", "purchaseDate"}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// requestorCheck is the check of a member that says who the requestor is. Its value comes
// from the merchant's configuration for that directory, else from the merchant's, else
// from the request, else from the server's. most is how many characters it may have.
func requestorCheck(name string, most int) func(*T) {
	return func(t *T) {
		l := t.ownLab(plan{sections: map[string]string{
			"merchants": "[{name: Shop, requestor_id: SHOP, requestor_name: SHOP, per_directory: {mastercard: {requestor_id: MCSHOP, requestor_name: MCSHOP}}}]",
			"server":    "{reference_number: REF, requestor_id: OURS, requestor_name: OURS}",
		}})
		for _, v := range allVersions {
			t.want("merchant", t.flowIn(l, v, "BRW", set(name, "MINE")).areq(), name, "SHOP")
			t.want("at the directory", t.flowIn(l, v, "BRW", set(name, "MINE")).card("mastercard", cardMastercard).areq(), name, "MCSHOP")
			other := t.flowIn(l, v, "BRW", set(name, "MINE"))
			other.key = l.other
			t.want("caller", other.areq(), name, "MINE")
			none := t.flowIn(l, v, "BRW")
			none.key = l.other
			t.want("nobody", none.areq(), name, "OURS")
			long := t.flowIn(l, v, "BRW", set(name, strings.Repeat("a", most+1)))
			long.key = l.other
			long.wantRefused("203", name)
		}
	}
}

// acquirerCheck is the check of a member that names the acquirer, of at most so many
// characters. It is required for payments.
func acquirerCheck(name string, most int) func(*T) {
	return func(t *T) {
		t.wantRefused(allVersions, "APP", "201", name, drop(name))
		t.wantRefused(allVersions, "BRW", "201", name, drop(name))
		t.wantRefused(since220, "3RI", "201", name, drop(name))
		t.wantSent(allVersions, "BRW NPA", name, nil, drop(name))
		t.wantRefused(allVersions, "BRW", "203", name, set(name, strings.Repeat("1", most+1)))
		t.wantSent(allVersions, "BRW", name, strings.Repeat("1", most), set(name, strings.Repeat("1", most)))
	}
}

// authenticationInfoCheck is the check of an object that tells how the cardholder was
// authenticated, now or before. method and stamp are its members; last has, by version,
// the highest code of method and one that is reserved.
func authenticationInfoCheck(name, method, stamp string, last map[string][2]string) func(*T) {
	return func(t *T) {
		for _, v := range allVersions {
			info := object{method: last[v][0], stamp: "202611201200"}
			path := name
			var want any = info
			if v == v231 {
				want, path = []object{info}, name+"[0]"
			}
			t.wantSent([]string{v}, "BRW", name, want, set(name, info))
			if v == v231 {
				t.wantSent([]string{v}, "BRW", name, want, set(name, want))
				var many []object
				for n := range 4 {
					many = append(many, object{method: last[v][0], stamp: "20261120120" + itoa(n)})
				}
				t.wantRefused([]string{v}, "BRW", "203", name, set(name, many))
			} else {
				t.wantSent([]string{v}, "BRW", name, info, set(name, []object{info}))
				t.wantRefused([]string{v}, "BRW", "203", name, set(name, []object{info, info}))
			}
			t.wantRefused([]string{v}, "BRW", reserved, name+"."+method, set(name, want), set(path+"."+method, last[v][1]))
			t.wantRefused([]string{v}, "BRW", "203", name+"."+stamp, set(name, want), set(path+"."+stamp, "20261120"))
		}
	}
}

// mostExtensions is how many extensions a message of a version may have.
func mostExtensions(version string) int {
	if version == v231 {
		return 15
	}
	return 10
}

// longExtensions is a messageExtension that is too long as a whole, though none of its entries
// is.
func longExtensions(entries int) []object {
	all := make([]object, entries)
	for n := range all {
		id := strings.Repeat("x", 60) + itoa(n)
		all[n] = object{"name": strings.Repeat("n", 64), "id": id, "criticalityIndicator": false, "data": object{"a": strings.Repeat("a", 8050)}}
	}
	return all
}

// wantNeeded wants a request that lacks the named members to be refused, once for each, or,
// if they are not needed, to go through.
func (x *flow) wantNeeded(need bool, names ...string) {
	if need {
		for _, name := range names {
			x.wantRefused("201", name)
		}
		return
	}
	if !x.t.remote() { // accepted would end the check, and the rest of the row may still be refused
		x.wantAccepted()
	}
}

// emptyMember is the path of a member without a value, "" if all have one.
func emptyMember(path string, v any) string {
	switch v := v.(type) {
	case object:
		for name, item := range v {
			if at := emptyMember(path+"."+name, item); at != "" {
				return at
			}
		}
		if len(v) > 0 {
			return ""
		}
	case []any:
		for _, item := range v {
			if at := emptyMember(path+"[]", item); at != "" {
				return at
			}
		}
		if len(v) > 0 {
			return ""
		}
	case string:
		if v != "" {
			return ""
		}
	case nil:
	default:
		return ""
	}
	return path
}

// cardExpiryByScheme wants cardExpiryDate to be asked for where the scheme does, of a merchant whose requests have to
// keep its rules, and only there.
func cardExpiryByScheme(t *T) {
	l := t.ownLab(plan{
		sections: map[string]string{"merchants": "[{name: Shop, scheme_rules: enforce}]"},
		directories: []directory{
			{scheme: "visa", keys: map[string]string{"requestor_id": `"12345678*M1"`}},
			{scheme: "jcb", ranges: []cardRange{{prefix: "352800", from: v210, to: v231}}},
		},
	})
	for _, v := range allVersions {
		for _, tt := range []struct {
			scheme, card string
			edit         edit
			missing      bool
		}{
			{"visa", cardNoMethod, drop("cardExpiryDate"), true},
			{"visa", cardNoMethod, set("cardExpiryDate", "3012"), false},
			{"jcb", "3528001234567890", drop("cardExpiryDate"), false},
		} {
			x := t.flowIn(l, v, "BRW", tt.edit).card(tt.scheme, tt.card)
			got := x.auth()
			named := strings.Contains(got.o.text("errorDetail"), "cardExpiryDate")
			if named != tt.missing || tt.missing && (got.o.text("errorCode") != "201" || len(x.sent()) > 0) {
				t.Errorf("%s at %s: %d %s and %d AReqs; want it refused for cardExpiryDate: %t", x, tt.scheme, got.status, got.body,
					len(x.sent()), tt.missing)
			}
		}
	}
}
