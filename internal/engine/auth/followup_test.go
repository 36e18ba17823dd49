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

	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/engine/txn"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/account"
)

// TestSPC: the second AReq of SPC is sent if it refers to an ARes S of the same merchant, is for the same purchase, and
// comes in time (SP-04, SP-05, SP-06, SP-07, SP-08, TO-08).
func TestSPC(t *testing.T) {
	type change struct {
		name  string
		parts []authtest.Object
		after time.Duration
		acc   *account.Account
		want  string // code and element; "": it goes out
	}
	incomplete := func(code string) authtest.Object {
		return authtest.Object{"spcIncompInd": code, "threeDSRequestorAuthenticationInfo": nil}
	}
	for _, c := range []change{
		{name: "asserted"},
		{name: "at the end of the time", after: 545 * time.Second}, // two clocks may differ by 5 s
		{name: "too late", after: 545*time.Second + time.Millisecond, want: "305 spcIncompInd: the 540 s after the ARes are over"},
		{name: "too late, and says so", after: 10 * time.Minute, parts: []authtest.Object{incomplete("03")}},
		{name: "says so with an assertion", after: 10 * time.Minute, parts: []authtest.Object{{"spcIncompInd": "03"}},
			want: "305 threeDSRequestorAuthenticationInfo"},
		{name: "SPC failed", parts: []authtest.Object{incomplete("01")}},
		{name: "SPC cancelled", parts: []authtest.Object{incomplete("02")}},
		{name: "another card", parts: []authtest.Object{{"acctNumber": "4000001234567891"}}, want: "305 acctNumber"},
		{name: "another amount", parts: []authtest.Object{{"purchaseAmount": "1"}}, want: "305 purchaseAmount"},
		{name: "amount and shop", parts: []authtest.Object{{"purchaseAmount": "1", "acquirerMerchantID": "M2"}}, want: "305 purchaseAmount,acquirerMerchantID"},
		{name: "all else", parts: []authtest.Object{{
			"messageCategory": "02", "purchaseCurrency": "840", "purchaseExponent": "3", "acquirerBIN": "400001",
			"mcc": "5999", "merchantCountryCode": "250", "merchantName": "Shop 2",
		}}, want: "305 messageCategory,purchaseCurrency,purchaseExponent,acquirerBIN,mcc,merchantCountryCode,merchantName"},
		{name: "not by a browser", parts: []authtest.Object{{"deviceChannel": "03", "threeRIInd": "03"}}, want: "305 deviceChannel"},
		{name: "another merchant", acc: authtest.Other, want: "305 threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorRef"},
		{name: "no such reference", parts: []authtest.Object{authtest.Asserted("ac500000-0000-4000-8000-000000000000")},
			want: "305 threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorRef"},
		{name: "no reference", parts: []authtest.Object{{"threeDSRequestorPriorAuthenticationInfo": nil}}, want: "201 threeDSRequestorPriorAuthenticationInfo"},
		{name: "SPC failed, no reference",
			parts: []authtest.Object{incomplete("01"), {"threeDSRequestorPriorAuthenticationInfo": nil}},
			want:  "201 threeDSRequestorPriorAuthenticationInfo"},
		{name: "forgotten", after: 20 * time.Minute, want: "305 threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorRef"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := authtest.SPCWorld()
			e := w.NewEngine(0)
			first, err := authtest.Try(t, e, authtest.Shop, authtest.Offered)
			if err != nil || first.Text("transStatus") != "S" {
				t.Fatal(first, err)
			}
			w.Reply = func(_ string, areq authtest.Object) ([]byte, error) { return authtest.ARes(areq, "Y"), nil }
			w.Pass(c.after)
			acc := c.acc
			if acc == nil {
				acc = authtest.Shop
			}
			parts := append([]authtest.Object{authtest.Offered, authtest.Asserted(first.Text("acsTransID"))}, c.parts...)
			if strings.HasPrefix(c.name, "another card") {
				parts = append(parts, authtest.Object{"threeDSServerTransID": authtest.PreauthOf(t, e, acc, "4000001234567891")})
			}
			got, err := authtest.Try(t, w.NewEngine(0), acc, parts...)
			if c.want == "" {
				if err != nil || got.Text("transStatus") != "Y" {
					t.Fatal(got, err)
				}
				return
			}
			if told := authtest.Told(err); told != c.want {
				t.Errorf("refused with %q, want %q", told, c.want)
			}
			if len(w.Sends) != 1 {
				t.Errorf("%d AReqs left", len(w.Sends))
			}
		})
	}
}

// TestFaultsOfAFollowUpNameEachElement: POST /authentications says how to correct each element that differs from the
// first authentication, or comes too late.
func TestFaultsOfAFollowUpNameEachElement(t *testing.T) {
	for _, tt := range []struct {
		part     authtest.Object
		after    time.Duration
		pointers []string
		cure     string
	}{
		{part: authtest.Object{"purchaseAmount": "1", "mcc": "5999"}, pointers: []string{"/purchaseAmount", "/mcc"}, cure: "Send what the first authentication had."},
		{after: 10 * time.Minute, pointers: []string{"/spcIncompInd"}, cure: "Begin with a new first authentication: the 540 s after the ARes are over."},
	} {
		w := authtest.SPCWorld()
		e := w.NewEngine(0)
		first, err := authtest.Try(t, e, authtest.Shop, authtest.Offered)
		if err != nil {
			t.Fatal(err)
		}
		w.Pass(tt.after)
		e = w.NewEngine(0)
		request := authtest.AReq231("", authtest.Offered)
		maps.Copy(request, authtest.Asserted(first.Text("acsTransID")))
		maps.Copy(request, tt.part)
		delete(request, "threeDSServerTransID")
		e.BrowserURL = "https://3ds.example"
		_, _, err = e.Create(t.Context(), authtest.Shop, request.JSON())
		refused, ok := errors.AsType[*session.RefusedError](err)
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

// TestAssertionWithoutSPC: an AReq with an assertion that is not from a browser is no second AReq of SPC, since only
// browsers get S. It is sent, whatever it refers to.
func TestAssertionWithoutSPC(t *testing.T) {
	assertion := authtest.Object{"threeDSRequestorAuthenticationInfo": []authtest.Object{{"threeDSReqAuthMethod": "09", "threeDSReqAuthData": "signed"}}}
	recurring := authtest.Object{"deviceChannel": "03", "threeRIInd": "06"}
	for _, c := range []struct {
		name  string
		parts []authtest.Object
		want  string
	}{
		{name: "3RI, no reference", parts: []authtest.Object{recurring, assertion}},
		{name: "3RI after SPC long ago", parts: []authtest.Object{recurring, authtest.Asserted("ac500000-0000-4000-8000-000000000000")}},
		{name: "3RI after a challenge", parts: []authtest.Object{recurring, assertion, {"threeDSRequestorPriorAuthenticationInfo": []authtest.Object{
			{"threeDSReqPriorAuthMethod": "02", "threeDSReqPriorRef": "ac500000-0000-4000-8000-000000000000"},
		}}}},
		{name: "browser", parts: []authtest.Object{assertion}, want: "201 threeDSRequestorPriorAuthenticationInfo"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := authtest.NewWorld()
			w.Reply = func(_ string, areq authtest.Object) ([]byte, error) { return authtest.ARes(areq, "Y"), nil }
			got, err := authtest.Try(t, w.NewEngine(0), authtest.Shop, c.parts...)
			if c.want != "" {
				if told := authtest.Told(err); told != c.want {
					t.Errorf("refused with %q, want %q", told, c.want)
				}
				return
			}
			if err != nil || got.Text("transStatus") != "Y" {
				t.Error(got, err)
			}
		})
	}
}

// TestFollowUpWithoutStore: an ARes S that cannot be stored for its follow-up is not returned, and an RReq D is not
// acknowledged, even if everything else could be stored.
func TestFollowUpWithoutStore(t *testing.T) {
	noLeg := func(op string) (bool, error) {
		if op == "create" {
			return false, authtest.ErrFault
		}
		return true, nil
	}
	w := authtest.SPCWorld()
	asksForSPC := w.Reply
	w.Reply = func(scheme string, areq authtest.Object) ([]byte, error) {
		w.Fault = noLeg
		return asksForSPC(scheme, areq)
	}
	if _, err := authtest.Try(t, w.NewEngine(0), authtest.Shop, authtest.Offered); authtest.CodeOf(err) != "403" {
		t.Errorf("an ARes S: got %v, want 403", err)
	}
	w = authtest.NewWorld()
	sent := authtest.Challenged(t, w, w.NewEngine(0), authtest.Object{"threeDSRequestorDecReqInd": "F", "threeDSRequestorDecMaxTime": "00010"})
	w.Fault = noLeg
	result := authtest.With(authtest.RReq(sent, "D", 1), "transStatusReason", "29")
	got := authtest.Parse(t, w.NewEngine(0).Receive(t.Context(), []string{"visa"}, result.JSON()).Body)
	if got.Text("errorCode") != "403" {
		t.Errorf("an RReq D: answered with %v, want 403", got)
	}
	_, err := w.NewEngine(0).Result(t.Context(), authtest.Shop, authtest.Object{"threeDSServerTransID": sent["threeDSServerTransID"]}.JSON())
	if authtest.CodeOf(err) != "305" {
		t.Errorf("Result: %v, want that there is none yet", err)
	}
}

// TestSP01OfferOfSPCIsWithdrawn: SPC is offered to issuers that know it.
func TestSP01OfferOfSPCIsWithdrawn(t *testing.T) {
	w := authtest.SPCWorld()
	var sent authtest.Object
	w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
		sent = areq
		return authtest.ARes(areq, "Y"), nil
	}
	e := w.NewEngine(0)
	if _, err := authtest.Try(t, e, authtest.Shop, authtest.Offered); err != nil || sent["threeDSRequestorSpcSupport"] != "Y" {
		t.Error("not offered:", sent, err)
	}
	for _, issuer := range []string{"with", "without"} {
		if _, err := authtest.Try(t, e, authtest.Shop, authtest.Offered,
			authtest.Object{"threeDSRequestorSpcSupport": "N"}); err != nil || sent["threeDSRequestorSpcSupport"] != nil {
			t.Errorf("MC-72: N to an issuer %s SPC: %v, %v", issuer, sent, err)
		}
		if _, err := authtest.Try(t, e, authtest.Shop, authtest.Offered,
			authtest.Object{"threeDSRequestorSpcSupport": "X"}); authtest.Told(err) != "203 threeDSRequestorSpcSupport" {
			t.Errorf("MC-72: X to an issuer %s SPC: %v, want 203", issuer, err)
		}
		w.Hits[0].Info.ACS[2].InfoInd = []string{"01"}
	}
	if _, err := authtest.Try(t, e, authtest.Shop, authtest.Offered); err != nil || sent["threeDSRequestorSpcSupport"] != nil {
		t.Error("offered to an issuer without SPC:", sent, err)
	}
	older := authtest.With(authtest.AReq("2.2.0", authtest.Preauth(t, e, authtest.Shop)), "threeDSRequestorSpcSupport", "Y")
	absent := authtest.With(authtest.With(authtest.AReq231(authtest.Preauth(t, e, authtest.Shop), authtest.Offered), "deviceChannel", "03"), "threeRIInd", "04")
	for _, req := range []authtest.Object{older, absent} {
		_, notes, err := e.Authenticate(t.Context(), authtest.Shop, req.JSON())
		if err != nil || slices.Contains(notes.Normalised, "threeDSRequestorSpcSupport") {
			t.Errorf("R5: %v of %v is not dropped in silence: %v, %v", req["deviceChannel"], req["messageVersion"], notes.Normalised, err)
		}
	}
	w.Hits[0].Info.ACS = w.Hits[0].Info.ACS[:2] // not in 2.3.1
	if _, err := authtest.Try(t, e, authtest.Shop, authtest.Offered); authtest.CodeOf(err) != "102" {
		t.Errorf("a card of an older issuer: %v, want 102", err)
	}
	id := authtest.Preauth(t, e, authtest.Shop)
	w.Hits = nil
	if _, _, err := e.Authenticate(t.Context(), authtest.Shop, authtest.AReq231(id, authtest.Offered).JSON()); authtest.Told(err) != "305 acctNumber" {
		t.Errorf("a card of nobody: %v, want 305 acctNumber", err)
	}
}

// TestFollowUpOfAnotherKind: what goes on decoupled does not go on with SPC.
func TestFollowUpOfAnotherKind(t *testing.T) {
	w := authtest.SPCWorld()
	e := w.NewEngine(0)
	decoupled := authtest.Object{"threeDSRequestorDecReqInd": "F", "threeDSRequestorDecMaxTime": "00010"}
	result := authtest.With(authtest.RReq(authtest.Challenged(t, w, e, authtest.Offered, decoupled), "D", 1), "transStatusReason", "29")
	if got := authtest.Parse(t, e.Receive(t.Context(), []string{"visa"}, result.JSON()).Body); got.Text("resultsStatus") != "04" {
		t.Fatalf("RReq D answered with %v", got)
	}
	const want = "305 threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorRef"
	if _, err := authtest.Try(t, e, authtest.Shop, authtest.Offered, authtest.Asserted(result.Text("acsTransID"))); authtest.Told(err) != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestFallback: the 3RI after an RReq D (DA-06, DA-07, DA-08, TO-10).
func TestFallback(t *testing.T) {
	for _, c := range []struct {
		name  string
		parts authtest.Object
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
		{name: "not decoupled", parts: authtest.Object{"threeDSRequestorDecReqInd": "N", "threeDSRequestorDecMaxTime": nil}, want: "203 threeDSRequestorDecReqInd"},
		{name: "another method", parts: authtest.Object{"threeDSRequestorPriorAuthenticationInfo": []authtest.Object{
			{"threeDSReqPriorAuthMethod": "01", "threeDSReqPriorRef": "ac500000-0000-4000-8000-000000000000"}}},
			want: "203 threeDSRequestorPriorAuthenticationInfo.threeDSReqPriorAuthMethod"},
		{name: "another amount", parts: authtest.Object{"purchaseAmount": "5"}, want: "305 purchaseAmount"},
		{name: "no reference", parts: authtest.Object{"threeDSRequestorPriorAuthenticationInfo": nil}, want: "201 threeDSRequestorPriorAuthenticationInfo"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := authtest.NewWorld()
			e := w.NewEngine(0)
			var sent authtest.Object
			w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
				sent = areq
				return authtest.ARes(areq, "C"), nil
			}
			first, err := authtest.Try(t, e, authtest.Shop, authtest.Object{"threeDSRequestorDecReqInd": "F", "threeDSRequestorDecMaxTime": "00010"})
			if err != nil {
				t.Fatal(err)
			}
			result := authtest.RReq(sent, "D", 1)
			result["transStatusReason"] = "29"
			if c.lost > 0 {
				w.Fault = func(op string) (bool, error) {
					if op == "update" {
						return false, errors.New("store fault")
					}
					return true, nil
				}
				synctest.Test(t, func(t *testing.T) {
					if got := authtest.Parse(t, e.Receive(t.Context(), []string{"visa"}, result.JSON()).Body); got.Text("errorCode") != "403" {
						t.Fatalf("an RReq that could not be stored was answered with %v", got)
					}
					w.Works()
					time.Sleep(time.Minute) // for what goes on behind
				})
				w.Pass(c.lost)
			}
			got := authtest.Parse(t, w.NewEngine(1).Receive(t.Context(), []string{"visa"}, result.JSON()).Body)
			if got.Text("resultsStatus") != "04" {
				t.Fatalf("RReq D answered with %v", got)
			}
			if c.again > 0 {
				w.Pass(c.again)
				if got := authtest.Parse(t, w.NewEngine(0).Receive(t.Context(), []string{"visa"}, result.JSON()).Body); got.Text("errorCode") != "312" {
					t.Fatalf("the second RReq D answered with %v", got)
				}
			}
			w.Pass(c.after - c.again)
			w.Reply = func(_ string, areq authtest.Object) ([]byte, error) { return authtest.ARes(areq, "D"), nil }
			next := authtest.Object{
				"deviceChannel": "03", "threeRIInd": "19", "threeDSRequestorDecReqInd": "Y", "threeDSRequestorDecMaxTime": "00010",
				"threeDSRequestorPriorAuthenticationInfo": []authtest.Object{{
					"threeDSReqPriorAuthMethod": "02", "threeDSReqPriorAuthTimestamp": "202611201200", "threeDSReqPriorRef": first["acsTransID"],
				}},
			}
			for name := range authtest.AReq231("", nil) {
				if strings.HasPrefix(name, "browser") || name == "threeDSCompInd" || name == "notificationURL" || name == "acceptLanguage" ||
					name == "threeDSRequestorAuthenticationInd" {
					next[name] = nil
				}
			}
			answer, err := authtest.Try(t, w.NewEngine(0), authtest.Shop, next, c.parts)
			if c.want == "" {
				if err != nil || answer.Text("transStatus") != "D" {
					t.Fatal(answer, err)
				}
				return
			}
			if told := authtest.Told(err); told != c.want {
				t.Errorf("refused with %q, want %q", told, c.want)
			}
		})
	}
}

// TestFollowUpsOfTwoSchemes: issuers of two schemes may choose the same acsTransID.
func TestFollowUpsOfTwoSchemes(t *testing.T) {
	w := authtest.SPCWorld()
	w.Hits = append(w.Hits, ranges.Hit{Scheme: "mastercard", Info: w.Hits[0].Info})
	same := func(_ string, areq authtest.Object) ([]byte, error) {
		o := authtest.Parse(t, authtest.AResS(areq))
		o["acsTransID"] = "ac500000-0000-4000-8000-000000000000"
		return o.JSON(), nil
	}
	w.Reply = same
	e := w.NewEngine(0)
	of := func(scheme string) authtest.Object {
		crd, _, err := e.Preauth(context.Background(), authtest.Shop, authtest.Object{"acctNumber": authtest.PAN, "ds": scheme}.JSON())
		if err != nil {
			t.Fatal(err)
		}
		return authtest.Object{"threeDSServerTransID": authtest.Parse(t, crd)["threeDSServerTransID"]}
	}
	for _, scheme := range []string{"visa", "mastercard"} {
		if _, err := authtest.Try(t, e, authtest.Shop, authtest.Offered, of(scheme)); err != nil {
			t.Fatal(err)
		}
	}
	w.Reply = func(_ string, areq authtest.Object) ([]byte, error) { return authtest.ARes(areq, "Y"), nil }
	for _, scheme := range []string{"visa", "mastercard"} {
		if _, err := authtest.Try(t, e, authtest.Shop, authtest.Offered, authtest.Asserted("ac500000-0000-4000-8000-000000000000"), of(scheme)); err != nil {
			t.Errorf("the second leg with %s: %v", scheme, err)
		}
	}
}

// TestFirstAuthenticationOfAnotherStays: a merchant may get an acsTransID with which the first authentication of
// another merchant ended. It takes nothing from that merchant, and gets no leg of its own.
func TestFirstAuthenticationOfAnotherStays(t *testing.T) {
	const ref = "ac500000-0000-4000-8000-000000000000"
	w := authtest.SPCWorld()
	w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
		o := authtest.Parse(t, authtest.AResS(areq))
		o["acsTransID"] = ref
		return o.JSON(), nil
	}
	e := w.NewEngine(0)
	for _, acc := range []*account.Account{authtest.Shop, authtest.Other} {
		if _, err := authtest.Try(t, e, acc, authtest.Offered); err != nil {
			t.Fatal(err)
		}
	}
	w.Reply = func(_ string, areq authtest.Object) ([]byte, error) { return authtest.ARes(areq, "Y"), nil }
	if _, err := authtest.Try(t, e, authtest.Other, authtest.Offered, authtest.Asserted(ref)); authtest.CodeOf(err) != "305" {
		t.Errorf("the second leg of who came later: %v, want 305", err)
	}
	if _, err := authtest.Try(t, e, authtest.Shop, authtest.Offered, authtest.Asserted(ref)); err != nil {
		t.Errorf("the second leg of who came first: %v", err)
	}
}

// TestCardDigestIsKeyed: what is kept of the card of a first authentication cannot be made without the key file.
func TestCardDigestIsKeyed(t *testing.T) {
	w := authtest.SPCWorld()
	first, err := authtest.Try(t, w.NewEngine(0), authtest.Shop, authtest.Offered)
	if err != nil {
		t.Fatal(err)
	}
	unkeyed := sha256.Sum256([]byte(first.Text("threeDSServerTransID") + "\x00" + authtest.PAN))
	legs := 0
	for id, row := range w.Txns {
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
