package auth_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/engine/auth"
	"github.com/openthreeds/threeds/message"
)

// TestErroForTheAReq: whatever ids and version a directory's Erro names in answer
// to an AReq, the requestor hears of his own transaction, in his own version.
func TestErroForTheAReq(t *testing.T) {
	const foreign = "11111111-1111-4111-8111-111111111111"
	for _, tt := range []object{
		{}, {"threeDSServerTransID": foreign}, {"threeDSServerTransID": "4000001234567890"}, {"threeDSServerTransID": nil},
		{"messageVersion": "2.1.0"}, {"messageVersion": "9.9.9"}, {"messageVersion": nil},
	} {
		w := newWorld()
		e := w.engine(0)
		id := preauth(t, e, shop)
		w.reply = func(_ string, areq object) ([]byte, error) {
			erro := object{"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "403", "errorComponent": "A",
				"errorDescription": "words", "errorDetail": "more", "threeDSServerTransID": id}
			for name, v := range tt {
				erro[name] = v
			}
			return erro.json(), nil
		}
		_, _, err := e.Authenticate(t.Context(), shop, areq("2.2.0", id).json())
		bad, ok := errors.AsType[message.Error](err)
		if !ok || bad.Code != 403 || bad.Component != "A" || bad.Description != "words" || bad.Detail != "more" {
			t.Fatalf("%v: %#v", tt, err)
		}
		if bad.ServerTransID != id || bad.Version != message.V220 {
			t.Errorf("%v: relayed of %q in %s, want %q in 2.2.0", tt, bad.ServerTransID, bad.Version, id)
		}
	}
}

// TestErroGoesWhereTheAReqWent: the Erro about an ARes is for the directory server's
// address of the issuer's country, as its AReq was (PR-24).
func TestErroGoesWhereTheAReqWent(t *testing.T) {
	w := newWorld()
	w.hits[0].Info.IssuerCountry = "356"
	w.reply = func(_ string, areq object) ([]byte, error) {
		return with(aresObject(areq, "Y"), "eci", "x").json(), nil
	}
	if _, err := try(t, w.engine(0), shop); codeOf(err) != "203" {
		t.Errorf("%v, want 203", err)
	}
	if len(w.countries) != 1 || w.countries[0] != "356" {
		t.Errorf("Erros for the countries %q, want one for 356", w.countries)
	}
}

// TestErroIsKeptLikeAResult: the Erro that ends a wait can be fetched as long as
// the result that it stands for.
func TestErroIsKeptLikeAResult(t *testing.T) {
	for _, tt := range []struct {
		decoupled bool
		kept      time.Duration
	}{{false, 300 * time.Second}, {true, 20 * time.Minute}} {
		w := newWorld()
		var req object
		if tt.decoupled {
			req = decoupled(t, w, "2.2.0", 10)
		} else {
			req = areq("2.2.0", preauth(t, w.engine(0), shop))
			w.reply = func(_ string, o object) ([]byte, error) { return ares(o, "C"), nil }
			if _, _, err := w.engine(0).Authenticate(t.Context(), shop, req.json()); err != nil {
				t.Fatal(err)
			}
		}
		e := w.engine(0)
		ask := object{"threeDSServerTransID": req["threeDSServerTransID"]}
		erro := with(ask, "messageType", "Erro")
		erro["messageVersion"], erro["errorCode"], erro["errorComponent"] = "2.2.0", "402", "D"
		e.Receive(t.Context(), []string{"visa"}, erro.json())
		w.pass(tt.kept - time.Millisecond)
		if _, err := e.Result(t.Context(), shop, ask.json()); codeOf(err) != "402" {
			t.Errorf("decoupled %t, before the end: %v", tt.decoupled, err)
		}
		w.pass(time.Millisecond)
		if _, err := e.Result(t.Context(), shop, ask.json()); codeOf(err) != "203" {
			t.Errorf("decoupled %t, at the end: %v", tt.decoupled, err)
		}
	}
}

// TestErroOfAnotherTransaction: an Erro ends the wait of the transaction whose ids it names
// all, in letters of either case, and of none of which it names one.
func TestErroOfAnotherTransaction(t *testing.T) {
	w := newWorld()
	e := w.engine(0)
	sent := challenged(t, w, e)
	first := aresObject(sent, "C")
	ask := object{"threeDSServerTransID": sent["threeDSServerTransID"]}
	erro := with(ask, "messageType", "Erro")
	erro["messageVersion"], erro["errorCode"], erro["errorComponent"] = "2.3.1", "402", "D"
	for _, name := range []string{"acsTransID", "dsTransID"} {
		erro[name] = strings.ToUpper(first.text(name))
	}
	for _, name := range []string{"acsTransID", "dsTransID"} {
		e.Receive(t.Context(), []string{"visa"}, with(maps.Clone(erro), name, sent["threeDSServerTransID"]).json())
		if _, err := e.Result(t.Context(), shop, ask.json()); codeOf(err) != "305" {
			t.Errorf("after an Erro with the %s of another: %v, want that the result is waited for", name, err)
		}
	}
	e.Receive(t.Context(), []string{"visa"}, erro.json())
	if _, err := e.Result(t.Context(), shop, ask.json()); codeOf(err) != "402" {
		t.Errorf("after its own: %v, want the 402", err)
	}
}

// TestErroInFlight: an Erro that a directory server posts before it has answered ends no
// /auth, and no wait for its result.
func TestErroInFlight(t *testing.T) {
	w := newWorld()
	e := w.engine(0)
	var sent object
	w.reply = func(_ string, areq object) ([]byte, error) {
		sent = areq
		e.Receive(t.Context(), []string{"visa"}, object{"messageType": "Erro", "messageVersion": "2.3.1", "errorCode": "402",
			"errorComponent": "D", "threeDSServerTransID": areq["threeDSServerTransID"]}.json())
		return ares(areq, "C"), nil
	}
	if got, err := try(t, e, shop); err != nil || got.text("transStatus") != "C" {
		t.Fatalf("/auth: %v, %v", got, err)
	}
	got := parse(t, e.Receive(t.Context(), []string{"visa"}, rreq(sent, "Y", 1).json()).Body)
	if got.text("messageType") != "RRes" {
		t.Errorf("the result is answered with %v", got)
	}
}

// TestErroOnlyHasIDs: what stands in the place of an id and is none goes no
// further, and an Erro about a browser's RReq has no sdkTransID.
func TestErroOnlyHasIDs(t *testing.T) {
	ids := []string{"dsTransID", "acsTransID", "sdkTransID"}
	for _, name := range ids {
		w := newWorld()
		e := w.engine(0)
		erro := object{"messageType": "Erro", "messageVersion": "2.3.1", "errorCode": "403", "errorComponent": "D", name: pan}
		w.reply = func(string, object) ([]byte, error) { return erro.json(), nil }
		_, err := try(t, e, shop)
		if got := errorObject(t, err); got.text("errorCode") != "403" || got[name] != nil {
			t.Errorf("in answer to the AReq: %v", got)
		}
		sent := challenged(t, w, e)
		got := parse(t, e.Receive(t.Context(), []string{"visa"}, with(rreq(sent, "Q", 1), "sdkTransID", sent["threeDSServerTransID"]).json()).Body)
		if got.text("errorCode") != "203" || got["sdkTransID"] != nil {
			t.Errorf("the Erro about an RReq: %v", got)
		}
		ask := object{"threeDSServerTransID": sent["threeDSServerTransID"]}
		if name == "sdkTransID" { // another of the others is of another transaction
			posted := with(erro, "threeDSServerTransID", ask["threeDSServerTransID"])
			e.Receive(t.Context(), []string{"visa"}, posted.json())
			_, err = e.Result(t.Context(), shop, ask.json())
			if got := errorObject(t, err); got.text("errorCode") != "403" || got[name] != nil {
				t.Errorf("/postauth: %v", got)
			}
		}
	}
}

func errorObject(t *testing.T, err error) object {
	t.Helper()
	bad, ok := errors.AsType[message.Error](err)
	if !ok {
		t.Fatalf("no Erro: %v", err)
	}
	return parse(t, bad.JSON())
}

// TestD48FaultsOfAnAuthBlameTheAReq: an Erro about the content of an /auth names the AReq as the message
// to blame. One that is about something else does not.
func TestD48FaultsOfAnAuthBlameTheAReq(t *testing.T) {
	w := newWorld()
	e := w.engine(0)
	used := areq("2.2.0", preauth(t, e, shop))
	if _, _, err := e.Authenticate(t.Context(), shop, used.json()); err != nil {
		t.Fatal(err)
	}
	fresh := func(name string, value any) []byte {
		return with(areq("2.2.0", preauth(t, e, shop)), name, value).json()
	}
	expired := areq("2.2.0", preauth(t, e, shop))
	w.pass(80 * time.Second)
	for name, tt := range map[string]struct {
		body []byte
		code string
	}{
		"not JSON":        {[]byte("{"), "203"},
		"missing":         {fresh("mcc", nil), "201"},
		"malformed":       {fresh("mcc", "1"), "203"},
		"ISO code":        {fresh("purchaseCurrency", "964"), "304"},
		"version":         {fresh("messageVersion", "3.0.0"), "102"},
		"another card":    {fresh("acctNumber", "4000001234567809"), "305"},
		"unknown id":      {fresh("threeDSServerTransID", "11111111-1111-4111-8111-111111111111"), "301"},
		"expired id":      {expired.json(), "301"},
		"used id":         {used.json(), "301"},
		"no such twin":    {[]byte(`{"mcc":"5411","MCC":"5411"}`), "204"},
		"not a follow-up": {followUpWithoutFirst(t, e), "305"},
	} {
		_, _, err := e.Authenticate(t.Context(), shop, tt.body)
		bad, _ := errors.AsType[message.Error](err)
		if bad.Code.String() != tt.code || bad.MessageType != "AReq" {
			t.Errorf("%s: %v with errorMessageType %q, want %s with AReq", name, err, bad.MessageType, tt.code)
		}
	}
	body := areq("2.2.0", preauth(t, e, shop)).json()
	w.down = true
	_, _, err := e.Authenticate(t.Context(), shop, body)
	if bad, _ := errors.AsType[message.Error](err); bad.Code != message.TransientFailure || bad.MessageType != "" {
		t.Errorf("the store is down: %v with errorMessageType %q, want 403 without one", err, bad.MessageType)
	}
}

// followUpWithoutFirst is a second AReq of SPC that refers to no first authentication.
func followUpWithoutFirst(t *testing.T, e *auth.Engine) []byte {
	t.Helper()
	req := with(areq("2.3.1", preauth(t, e, shop)), "spcIncompInd", "01")
	return with(req, "threeDSRequestorPriorAuthenticationInfo", []object{{
		"threeDSReqPriorRef": "11111111-1111-4111-8111-111111111111", "threeDSReqPriorAuthMethod": "05",
	}}).json()
}
