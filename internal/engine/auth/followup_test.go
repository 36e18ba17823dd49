package auth_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/account"
)

// areq231 is areq with what 2.3.1 asks for beside.
func areq231(id string, more object) object {
	o := areq("2.3.1", id)
	o["acceptLanguage"], o["acquirerCountryCode"] = []string{"en"}, "208"
	maps.Copy(o, more)
	return o
}

// aresS is an answer that asks for SPC.
func aresS(areq object) []byte {
	o := aresObject(areq, "S")
	o["spcTransData"] = object{
		"challenge": strings.Repeat("c", 43), "currency": "EUR", "displayName": "Card", "icon": "https://bank.example/i",
		"payeeOrigin": "https://shop.example", "timeout": "60000", "value": "10.99",
	}
	o["webAuthnCredList"] = []object{{"rpID": "bank.example", "credentialIds": strings.Repeat("a", 16)}}
	return o.json()
}

// spcWorld has issuers that know SPC.
func spcWorld() *world {
	w := newWorld()
	info := allVersions("")
	info.ACS[2].InfoInd = []string{"01", "07"}
	w.hits = []ranges.Hit{{Scheme: "visa", Info: info}}
	w.reply = func(_ string, areq object) ([]byte, error) { return aresS(areq), nil }
	return w
}

var offered = object{"threeDSRequestorSpcSupport": "Y", "payeeOrigin": "https://shop.example"}

// asserted refers to an ARes S and brings what the authenticator signed.
func asserted(ref string) object {
	return object{
		"threeDSRequestorAuthenticationInfo": []object{{
			"threeDSReqAuthMethod": "09", "threeDSReqAuthTimestamp": "202611201200", "threeDSReqAuthData": "signed",
		}},
		"threeDSRequestorPriorAuthenticationInfo": []object{{
			"threeDSReqPriorAuthMethod": "05", "threeDSReqPriorAuthTimestamp": "202611201200", "threeDSReqPriorRef": ref,
		}},
	}
}

// try makes an authentication of its own and returns what came of it.
func try(t *testing.T, e *auth.Engine, acc *account.Account, parts ...object) (object, error) {
	t.Helper()
	req := areq231(preauth(t, e, acc), nil)
	for _, part := range parts {
		maps.Copy(req, part)
	}
	for name, v := range req {
		if v == nil {
			delete(req, name)
		}
	}
	got, _, err := e.Authenticate(t.Context(), acc, req.json())
	if err != nil {
		return nil, err
	}
	return parse(t, got), nil
}

// challenged begins an authentication that ends in a challenge, and returns its AReq.
func challenged(t *testing.T, w *world, e *auth.Engine, parts ...object) (areq object) {
	t.Helper()
	w.reply = func(_ string, o object) ([]byte, error) {
		areq = o
		return ares(o, "C"), nil
	}
	if _, err := try(t, e, shop, parts...); err != nil {
		t.Fatal(err)
	}
	return areq
}

// TestSPC: the second AReq of SPC goes out when it refers to an ARes S of the
// same merchant, is the same purchase, and comes in time (SP-04, SP-05, SP-06,
// SP-07, SP-08, TO-08).
func TestSPC(t *testing.T) {
	type change struct {
		name  string
		parts []object
		after time.Duration
		acc   *account.Account
		want  string // code and element; "": it goes out
	}
	incomplete := func(code string) object {
		return object{"spcIncompInd": code, "threeDSRequestorAuthenticationInfo": nil}
	}
	for _, c := range []change{
		{name: "asserted"},
		{name: "at the end of the time", after: 545 * time.Second}, // two clocks may differ by 5 s
		{name: "too late", after: 545*time.Second + time.Millisecond, want: "305 spcIncompInd: the 540 s after the ARes are over"},
		{name: "too late, and says so", after: 10 * time.Minute, parts: []object{incomplete("03")}},
		{name: "says so with an assertion", after: 10 * time.Minute, parts: []object{{"spcIncompInd": "03"}}, want: "305 threeDSRequestorAuthenticationInfo"},
		{name: "SPC failed", parts: []object{incomplete("01")}},
		{name: "SPC cancelled", parts: []object{incomplete("02")}},
		{name: "another card", parts: []object{{"acctNumber": "4000001234567891"}}, want: "305 acctNumber"},
		{name: "another amount", parts: []object{{"purchaseAmount": "1"}}, want: "305 purchaseAmount"},
		{name: "amount and shop", parts: []object{{"purchaseAmount": "1", "acquirerMerchantID": "M2"}}, want: "305 purchaseAmount,acquirerMerchantID"},
		{name: "all else", parts: []object{{
			"messageCategory": "02", "purchaseCurrency": "840", "purchaseExponent": "3", "acquirerBIN": "400001",
			"mcc": "5999", "merchantCountryCode": "250", "merchantName": "Shop 2",
		}}, want: "305 messageCategory,purchaseCurrency,purchaseExponent,acquirerBIN,mcc,merchantCountryCode,merchantName"},
		{name: "not by a browser", parts: []object{{"deviceChannel": "03", "threeRIInd": "03"}}, want: "305 deviceChannel"},
		{name: "another merchant", acc: other, want: "305 threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorRef"},
		{name: "no such reference", parts: []object{asserted("ac500000-0000-4000-8000-000000000000")}, want: "305 threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorRef"},
		{name: "no reference", parts: []object{{"threeDSRequestorPriorAuthenticationInfo": nil}}, want: "201 threeDSRequestorPriorAuthenticationInfo"},
		{name: "SPC failed, no reference", parts: []object{incomplete("01"), {"threeDSRequestorPriorAuthenticationInfo": nil}}, want: "201 threeDSRequestorPriorAuthenticationInfo"},
		{name: "forgotten", after: 20 * time.Minute, want: "305 threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorRef"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := spcWorld()
			e := w.engine(0)
			first, err := try(t, e, shop, offered)
			if err != nil || first.text("transStatus") != "S" {
				t.Fatal(first, err)
			}
			w.reply = func(_ string, areq object) ([]byte, error) { return ares(areq, "Y"), nil }
			w.pass(c.after)
			acc := c.acc
			if acc == nil {
				acc = shop
			}
			parts := append([]object{offered, asserted(first.text("acsTransID"))}, c.parts...)
			if strings.HasPrefix(c.name, "another card") {
				parts = append(parts, object{"threeDSServerTransID": preauthOf(t, e, acc, "4000001234567891")})
			}
			got, err := try(t, w.engine(0), acc, parts...)
			if c.want == "" {
				if err != nil || got.text("transStatus") != "Y" {
					t.Fatal(got, err)
				}
				return
			}
			if told := told(err); told != c.want {
				t.Errorf("refused with %q, want %q", told, c.want)
			}
			if len(w.sends) != 1 {
				t.Errorf("%d AReqs left", len(w.sends))
			}
		})
	}
}

// TestFaultsOfAFollowUpNameEachElement: POST /authentications says of each element that differs from the first
// authentication, or comes too late, how to mend it.
func TestFaultsOfAFollowUpNameEachElement(t *testing.T) {
	for _, tt := range []struct {
		part     object
		after    time.Duration
		pointers []string
		cure     string
	}{
		{part: object{"purchaseAmount": "1", "mcc": "5999"}, pointers: []string{"/purchaseAmount", "/mcc"}, cure: "Send what the first authentication had."},
		{after: 10 * time.Minute, pointers: []string{"/spcIncompInd"}, cure: "Begin with a new first authentication: the 540 s after the ARes are over."},
	} {
		w := spcWorld()
		e := w.engine(0)
		first, err := try(t, e, shop, offered)
		if err != nil {
			t.Fatal(err)
		}
		w.pass(tt.after)
		e = w.engine(0)
		request := areq231("", offered)
		maps.Copy(request, asserted(first.text("acsTransID")))
		maps.Copy(request, tt.part)
		delete(request, "threeDSServerTransID")
		e.BrowserURL = "https://3ds.example"
		_, _, err = e.Create(t.Context(), shop, request.json())
		refused, ok := errors.AsType[*auth.RefusedError](err)
		if !ok {
			t.Fatalf("POST /authentications: %v", err)
		}
		var pointers []string
		for _, f := range refused.Faults {
			pointers = append(pointers, *f.Pointer)
			if f.Code != "305" || f.Rule != "condition" || f.Cure != tt.cure {
				t.Errorf("%+v, want the cure %q", f, tt.cure)
			}
		}
		if !slices.Equal(pointers, tt.pointers) {
			t.Errorf("%q are blamed, want %q", pointers, tt.pointers)
		}
	}
}

// TestAssertionWithoutSPC: an assertion in an AReq that no browser made is no second
// AReq of SPC, since only browsers are answered S; it goes out, whatever it refers to.
func TestAssertionWithoutSPC(t *testing.T) {
	assertion := object{"threeDSRequestorAuthenticationInfo": []object{{"threeDSReqAuthMethod": "09", "threeDSReqAuthData": "signed"}}}
	recurring := object{"deviceChannel": "03", "threeRIInd": "06"}
	for _, c := range []struct {
		name  string
		parts []object
		want  string
	}{
		{name: "3RI, no reference", parts: []object{recurring, assertion}},
		{name: "3RI after SPC long ago", parts: []object{recurring, asserted("ac500000-0000-4000-8000-000000000000")}},
		{name: "3RI after a challenge", parts: []object{recurring, assertion, {"threeDSRequestorPriorAuthenticationInfo": []object{
			{"threeDSReqPriorAuthMethod": "02", "threeDSReqPriorRef": "ac500000-0000-4000-8000-000000000000"},
		}}}},
		{name: "browser", parts: []object{assertion}, want: "201 threeDSRequestorPriorAuthenticationInfo"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.reply = func(_ string, areq object) ([]byte, error) { return ares(areq, "Y"), nil }
			got, err := try(t, w.engine(0), shop, c.parts...)
			if c.want != "" {
				if told := told(err); told != c.want {
					t.Errorf("refused with %q, want %q", told, c.want)
				}
				return
			}
			if err != nil || got.text("transStatus") != "Y" {
				t.Error(got, err)
			}
		})
	}
}

// TestFollowUpWithoutStore: an ARes S that cannot be stored for its follow-up is not handed out, and an
// RReq D not acknowledged, though all else could be stored.
func TestFollowUpWithoutStore(t *testing.T) {
	noLeg := func(op string) (bool, error) {
		if op == "create" {
			return false, errFault
		}
		return true, nil
	}
	w := spcWorld()
	asksForSPC := w.reply
	w.reply = func(scheme string, areq object) ([]byte, error) {
		w.fault = noLeg
		return asksForSPC(scheme, areq)
	}
	if _, err := try(t, w.engine(0), shop, offered); codeOf(err) != "403" {
		t.Errorf("an ARes S: got %v, want 403", err)
	}
	w = newWorld()
	sent := challenged(t, w, w.engine(0), object{"threeDSRequestorDecReqInd": "F", "threeDSRequestorDecMaxTime": "00010"})
	w.fault = noLeg
	result := with(rreq(sent, "D", 1), "transStatusReason", "29")
	got := parse(t, w.engine(0).Receive(t.Context(), []string{"visa"}, result.json()).Body)
	if got.text("errorCode") != "403" {
		t.Errorf("an RReq D: answered with %v, want 403", got)
	}
	_, err := w.engine(0).Result(t.Context(), shop, object{"threeDSServerTransID": sent["threeDSServerTransID"]}.json())
	if codeOf(err) != "305" {
		t.Errorf("Result: %v, want that there is none yet", err)
	}
}

// TestSP01OfferOfSPCIsWithdrawn: SPC is offered to issuers that know it.
func TestSP01OfferOfSPCIsWithdrawn(t *testing.T) {
	w := spcWorld()
	var sent object
	w.reply = func(_ string, areq object) ([]byte, error) {
		sent = areq
		return ares(areq, "Y"), nil
	}
	e := w.engine(0)
	if _, err := try(t, e, shop, offered); err != nil || sent["threeDSRequestorSpcSupport"] != "Y" {
		t.Error("not offered:", sent, err)
	}
	for _, issuer := range []string{"with", "without"} {
		if _, err := try(t, e, shop, offered, object{"threeDSRequestorSpcSupport": "N"}); err != nil || sent["threeDSRequestorSpcSupport"] != nil {
			t.Errorf("MC-72: N to an issuer %s SPC: %v, %v", issuer, sent, err)
		}
		if _, err := try(t, e, shop, offered, object{"threeDSRequestorSpcSupport": "X"}); told(err) != "203 threeDSRequestorSpcSupport" {
			t.Errorf("MC-72: X to an issuer %s SPC: %v, want 203", issuer, err)
		}
		w.hits[0].Info.ACS[2].InfoInd = []string{"01"}
	}
	if _, err := try(t, e, shop, offered); err != nil || sent["threeDSRequestorSpcSupport"] != nil {
		t.Error("offered to an issuer without SPC:", sent, err)
	}
	older := with(areq("2.2.0", preauth(t, e, shop)), "threeDSRequestorSpcSupport", "Y")
	absent := with(with(areq231(preauth(t, e, shop), offered), "deviceChannel", "03"), "threeRIInd", "04")
	for _, req := range []object{older, absent} {
		_, notes, err := e.Authenticate(t.Context(), shop, req.json())
		if err != nil || slices.Contains(notes.Normalised, "threeDSRequestorSpcSupport") {
			t.Errorf("R5: %v of %v is not dropped in silence: %v, %v", req["deviceChannel"], req["messageVersion"], notes.Normalised, err)
		}
	}
	w.hits[0].Info.ACS = w.hits[0].Info.ACS[:2] // not in 2.3.1
	if _, err := try(t, e, shop, offered); codeOf(err) != "102" {
		t.Errorf("a card of an older issuer: %v, want 102", err)
	}
	id := preauth(t, e, shop)
	w.hits = nil
	if _, _, err := e.Authenticate(t.Context(), shop, areq231(id, offered).json()); told(err) != "305 acctNumber" {
		t.Errorf("a card of nobody: %v, want 305 acctNumber", err)
	}
}

// TestFollowUpOfAnotherKind: what goes on decoupled does not go on with SPC.
func TestFollowUpOfAnotherKind(t *testing.T) {
	w := spcWorld()
	e := w.engine(0)
	decoupled := object{"threeDSRequestorDecReqInd": "F", "threeDSRequestorDecMaxTime": "00010"}
	result := with(rreq(challenged(t, w, e, offered, decoupled), "D", 1), "transStatusReason", "29")
	if got := parse(t, e.Receive(t.Context(), []string{"visa"}, result.json()).Body); got.text("resultsStatus") != "04" {
		t.Fatalf("RReq D answered with %v", got)
	}
	const want = "305 threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorRef"
	if _, err := try(t, e, shop, offered, asserted(result.text("acsTransID"))); told(err) != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestFallback: the 3RI after an RReq D (DA-06, DA-07, DA-08, TO-10).
func TestFallback(t *testing.T) {
	for _, c := range []struct {
		name  string
		parts object
		after time.Duration
		want  string
		lost  time.Duration // since an RReq that could not be stored
		again time.Duration // after the RReq it comes once more, and is refused
	}{
		{name: "in time", after: 60 * time.Second},
		{name: "in time after the RReq that was stored", after: 60 * time.Second, lost: 50 * time.Second},
		{name: "too late after it", after: 66 * time.Second, lost: 50 * time.Second, want: "305 threeRIInd: the 60 s after the RReq are over"},
		{name: "at the end of it", after: 65 * time.Second}, // two clocks may differ by 5 s
		{name: "too late", after: 65*time.Second + time.Millisecond, want: "305 threeRIInd: the 60 s after the RReq are over"},
		{name: "too late after the first RReq", after: 66 * time.Second, again: 50 * time.Second, want: "305 threeRIInd: the 60 s after the RReq are over"},
		{name: "not decoupled", parts: object{"threeDSRequestorDecReqInd": "N", "threeDSRequestorDecMaxTime": nil}, want: "203 threeDSRequestorDecReqInd"},
		{name: "another method", parts: object{"threeDSRequestorPriorAuthenticationInfo": []object{{"threeDSReqPriorAuthMethod": "01", "threeDSReqPriorRef": "ac500000-0000-4000-8000-000000000000"}}},
			want: "203 threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorAuthMethod"},
		{name: "another amount", parts: object{"purchaseAmount": "5"}, want: "305 purchaseAmount"},
		{name: "no reference", parts: object{"threeDSRequestorPriorAuthenticationInfo": nil}, want: "201 threeDSRequestorPriorAuthenticationInfo"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			e := w.engine(0)
			var sent object
			w.reply = func(_ string, areq object) ([]byte, error) {
				sent = areq
				return ares(areq, "C"), nil
			}
			first, err := try(t, e, shop, object{"threeDSRequestorDecReqInd": "F", "threeDSRequestorDecMaxTime": "00010"})
			if err != nil {
				t.Fatal(err)
			}
			result := rreq(sent, "D", 1)
			result["transStatusReason"] = "29"
			if c.lost > 0 {
				w.fault = func(op string) (bool, error) {
					if op == "update" {
						return false, errors.New("store fault")
					}
					return true, nil
				}
				synctest.Test(t, func(t *testing.T) {
					if got := parse(t, e.Receive(t.Context(), []string{"visa"}, result.json()).Body); got.text("errorCode") != "403" {
						t.Fatalf("an RReq that could not be stored was answered with %v", got)
					}
					w.works()
					time.Sleep(time.Minute) // for what goes on behind
				})
				w.pass(c.lost)
			}
			got := parse(t, w.engine(1).Receive(t.Context(), []string{"visa"}, result.json()).Body)
			if got.text("resultsStatus") != "04" {
				t.Fatalf("RReq D answered with %v", got)
			}
			if c.again > 0 {
				w.pass(c.again)
				if got := parse(t, w.engine(0).Receive(t.Context(), []string{"visa"}, result.json()).Body); got.text("errorCode") != "312" {
					t.Fatalf("the second RReq D answered with %v", got)
				}
			}
			w.pass(c.after - c.again)
			w.reply = func(_ string, areq object) ([]byte, error) { return ares(areq, "D"), nil }
			next := object{
				"deviceChannel": "03", "threeRIInd": "19", "threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00010",
				"threeDSRequestorPriorAuthenticationInfo": []object{{
					"threeDSReqPriorAuthMethod": "02", "threeDSReqPriorAuthTimestamp": "202611201200", "threeDSReqPriorRef": first["acsTransID"],
				}},
			}
			for name := range areq231("", nil) {
				if strings.HasPrefix(name, "browser") || name == "threeDSCompInd" || name == "notificationURL" || name == "acceptLanguage" ||
					name == "threeDSRequestorAuthenticationInd" {
					next[name] = nil
				}
			}
			answer, err := try(t, w.engine(0), shop, next, c.parts)
			if c.want == "" {
				if err != nil || answer.text("transStatus") != "D" {
					t.Fatal(answer, err)
				}
				return
			}
			if told := told(err); told != c.want {
				t.Errorf("refused with %q, want %q", told, c.want)
			}
		})
	}
}

// TestFollowUpsOfTwoSchemes: issuers of two schemes may choose the same acsTransID.
func TestFollowUpsOfTwoSchemes(t *testing.T) {
	w := spcWorld()
	w.hits = append(w.hits, ranges.Hit{Scheme: "mastercard", Info: w.hits[0].Info})
	same := func(_ string, areq object) ([]byte, error) {
		o := parse(t, aresS(areq))
		o["acsTransID"] = "ac500000-0000-4000-8000-000000000000"
		return o.json(), nil
	}
	w.reply = same
	e := w.engine(0)
	of := func(scheme string) object {
		crd, _, err := e.Preauth(context.Background(), shop, object{"acctNumber": pan, "ds": scheme}.json())
		if err != nil {
			t.Fatal(err)
		}
		return object{"threeDSServerTransID": parse(t, crd)["threeDSServerTransID"]}
	}
	for _, scheme := range []string{"visa", "mastercard"} {
		if _, err := try(t, e, shop, offered, of(scheme)); err != nil {
			t.Fatal(err)
		}
	}
	w.reply = func(_ string, areq object) ([]byte, error) { return ares(areq, "Y"), nil }
	for _, scheme := range []string{"visa", "mastercard"} {
		if _, err := try(t, e, shop, offered, asserted("ac500000-0000-4000-8000-000000000000"), of(scheme)); err != nil {
			t.Errorf("the second leg with %s: %v", scheme, err)
		}
	}
}

// TestFirstAuthenticationOfAnotherStays: who gets an acsTransID that the first authentication of somebody else ended
// with takes nothing from him, and gets no leg of his own.
func TestFirstAuthenticationOfAnotherStays(t *testing.T) {
	const ref = "ac500000-0000-4000-8000-000000000000"
	w := spcWorld()
	w.reply = func(_ string, areq object) ([]byte, error) {
		o := parse(t, aresS(areq))
		o["acsTransID"] = ref
		return o.json(), nil
	}
	e := w.engine(0)
	for _, acc := range []*account.Account{shop, other} {
		if _, err := try(t, e, acc, offered); err != nil {
			t.Fatal(err)
		}
	}
	w.reply = func(_ string, areq object) ([]byte, error) { return ares(areq, "Y"), nil }
	if _, err := try(t, e, other, offered, asserted(ref)); codeOf(err) != "305" {
		t.Errorf("the second leg of who came later: %v, want 305", err)
	}
	if _, err := try(t, e, shop, offered, asserted(ref)); err != nil {
		t.Errorf("the second leg of who came first: %v", err)
	}
}

// TestCardDigestIsKeyed: what is kept of the card of a first authentication cannot be made without the key file.
func TestCardDigestIsKeyed(t *testing.T) {
	w := spcWorld()
	first, err := try(t, w.engine(0), shop, offered)
	if err != nil {
		t.Fatal(err)
	}
	unkeyed := sha256.Sum256([]byte(first.text("threeDSServerTransID") + "\x00" + pan))
	legs := 0
	for id, row := range w.txns {
		if bytes.Contains(row.Data, []byte(base64.StdEncoding.EncodeToString(unkeyed[:]))) {
			t.Errorf("the row of %s has a digest that was made without keys", id)
		}
		if row.State == txn.Leg {
			legs++
		}
	}
	if legs != 1 {
		t.Errorf("%d rows of a first authentication, want one", legs)
	}
}
