package auth_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/message"
)

// TestErroForTheAReq: whatever ids and version a directory's Erro names in answer to an AReq, the requestor gets those
// of its own transaction.
func TestErroForTheAReq(t *testing.T) {
	const foreign = "11111111-1111-4111-8111-111111111111"
	for _, tt := range []authtest.Object{
		{}, {"threeDSServerTransID": foreign}, {"threeDSServerTransID": "4000001234567890"}, {"threeDSServerTransID": nil},
		{"messageVersion": "2.1.0"}, {"messageVersion": "9.9.9"}, {"messageVersion": nil},
	} {
		w := authtest.NewWorld()
		e := w.NewEngine(0)
		id := authtest.Preauth(t, e, authtest.Shop)
		w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
			erro := authtest.Object{"messageType": "Erro", "messageVersion": "2.2.0", "errorCode": "403", "errorComponent": "A",
				"errorDescription": "words", "errorDetail": "more", "threeDSServerTransID": id}
			for name, v := range tt {
				erro[name] = v
			}
			return erro.JSON(), nil
		}
		_, _, err := e.Authenticate(t.Context(), authtest.Shop, authtest.AReq("2.2.0", id).JSON())
		bad, ok := errors.AsType[message.Error](err)
		if !ok || bad.Code != 403 || bad.Component != "A" || bad.Description != "words" || bad.Detail != "more" {
			t.Fatalf("%v: %#v", tt, err)
		}
		if bad.ServerTransID != id || bad.Version != message.V220 {
			t.Errorf("%v: relayed of %q in %s, want %q in 2.2.0", tt, bad.ServerTransID, bad.Version, id)
		}
	}
}

// TestErroGoesWhereTheAReqWent: the Erro about an ARes goes to the directory server's address for the issuer's country,
// as the AReq did (PR-24).
func TestErroGoesWhereTheAReqWent(t *testing.T) {
	w := authtest.NewWorld()
	w.Hits[0].Info.IssuerCountry = "356"
	w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
		return authtest.With(authtest.AResObject(areq, "Y"), "eci", "x").JSON(), nil
	}
	if _, err := authtest.Try(t, w.NewEngine(0), authtest.Shop); authtest.CodeOf(err) != "203" {
		t.Errorf("%v, want 203", err)
	}
	if len(w.Countries) != 1 || w.Countries[0] != "356" {
		t.Errorf("Erros for the countries %q, want one for 356", w.Countries)
	}
}

// TestErroIsKeptLikeAResult: the Erro that ends a wait can be fetched for as long as the result that it replaces.
func TestErroIsKeptLikeAResult(t *testing.T) {
	for _, tt := range []struct {
		decoupled bool
		kept      time.Duration
	}{{false, 300 * time.Second}, {true, 20 * time.Minute}} {
		w := authtest.NewWorld()
		var req authtest.Object
		if tt.decoupled {
			req = authtest.Decoupled(t, w, "2.2.0", 10)
		} else {
			req = authtest.AReq("2.2.0", authtest.Preauth(t, w.NewEngine(0), authtest.Shop))
			w.Reply = func(_ string, o authtest.Object) ([]byte, error) { return authtest.ARes(o, "C"), nil }
			if _, _, err := w.NewEngine(0).Authenticate(t.Context(), authtest.Shop, req.JSON()); err != nil {
				t.Fatal(err)
			}
		}
		e := w.NewEngine(0)
		ask := authtest.Object{"threeDSServerTransID": req["threeDSServerTransID"]}
		erro := authtest.With(ask, "messageType", "Erro")
		erro["messageVersion"], erro["errorCode"], erro["errorComponent"] = "2.2.0", "402", "D"
		e.Receive(t.Context(), []string{"visa"}, erro.JSON())
		w.Pass(tt.kept - time.Millisecond)
		if _, err := e.Result(t.Context(), authtest.Shop, ask.JSON()); authtest.CodeOf(err) != "402" {
			t.Errorf("decoupled %t, before the end: %v", tt.decoupled, err)
		}
		w.Pass(time.Millisecond)
		if _, err := e.Result(t.Context(), authtest.Shop, ask.JSON()); authtest.CodeOf(err) != "203" {
			t.Errorf("decoupled %t, at the end: %v", tt.decoupled, err)
		}
	}
}

// TestErroOfAnotherTransaction: an Erro that names all ids of a transaction, in upper or lower case, ends its wait. An
// Erro that names only one of them ends nothing.
func TestErroOfAnotherTransaction(t *testing.T) {
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	sent := authtest.Challenged(t, w, e)
	first := authtest.AResObject(sent, "C")
	ask := authtest.Object{"threeDSServerTransID": sent["threeDSServerTransID"]}
	erro := authtest.With(ask, "messageType", "Erro")
	erro["messageVersion"], erro["errorCode"], erro["errorComponent"] = "2.3.1", "402", "D"
	for _, name := range []string{"acsTransID", "dsTransID"} {
		erro[name] = strings.ToUpper(first.Text(name))
	}
	for _, name := range []string{"acsTransID", "dsTransID"} {
		e.Receive(t.Context(), []string{"visa"}, authtest.With(maps.Clone(erro), name, sent["threeDSServerTransID"]).JSON())
		if _, err := e.Result(t.Context(), authtest.Shop, ask.JSON()); authtest.CodeOf(err) != "305" {
			t.Errorf("after an Erro with the %s of another: %v, want that the result is waited for", name, err)
		}
	}
	e.Receive(t.Context(), []string{"visa"}, erro.JSON())
	if _, err := e.Result(t.Context(), authtest.Shop, ask.JSON()); authtest.CodeOf(err) != "402" {
		t.Errorf("after its own: %v, want the 402", err)
	}
}

// TestErroInFlight: an Erro that a directory server posts before it has answered ends no
// /auth, and no wait for its result.
func TestErroInFlight(t *testing.T) {
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	var sent authtest.Object
	w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
		sent = areq
		e.Receive(t.Context(), []string{"visa"}, authtest.Object{"messageType": "Erro", "messageVersion": "2.3.1", "errorCode": "402",
			"errorComponent": "D", "threeDSServerTransID": areq["threeDSServerTransID"]}.JSON())
		return authtest.ARes(areq, "C"), nil
	}
	if got, err := authtest.Try(t, e, authtest.Shop); err != nil || got.Text("transStatus") != "C" {
		t.Fatalf("/auth: %v, %v", got, err)
	}
	got := authtest.Parse(t, e.Receive(t.Context(), []string{"visa"}, authtest.RReq(sent, "Y", 1).JSON()).Body)
	if got.Text("messageType") != "RRes" {
		t.Errorf("the result is answered with %v", got)
	}
}

// TestErroOnlyHasIDs: a value in the place of an id that does not have the form of an id is not repeated, and an Erro
// about a browser's RReq has no sdkTransID.
func TestErroOnlyHasIDs(t *testing.T) {
	ids := []string{"dsTransID", "acsTransID", "sdkTransID"}
	for _, name := range ids {
		w := authtest.NewWorld()
		e := w.NewEngine(0)
		erro := authtest.Object{"messageType": "Erro", "messageVersion": "2.3.1", "errorCode": "403", "errorComponent": "D", name: authtest.PAN}
		w.Reply = func(string, authtest.Object) ([]byte, error) { return erro.JSON(), nil }
		_, err := authtest.Try(t, e, authtest.Shop)
		if got := errorObject(t, err); got.Text("errorCode") != "403" || got[name] != nil {
			t.Errorf("in answer to the AReq: %v", got)
		}
		sent := authtest.Challenged(t, w, e)
		got := authtest.Parse(t, e.Receive(t.Context(), []string{"visa"},
			authtest.With(authtest.RReq(sent, "Q", 1), "sdkTransID", sent["threeDSServerTransID"]).JSON()).Body)
		if got.Text("errorCode") != "203" || got["sdkTransID"] != nil {
			t.Errorf("the Erro about an RReq: %v", got)
		}
		ask := authtest.Object{"threeDSServerTransID": sent["threeDSServerTransID"]}
		if name == "sdkTransID" { // another of the others is of another transaction
			posted := authtest.With(erro, "threeDSServerTransID", ask["threeDSServerTransID"])
			e.Receive(t.Context(), []string{"visa"}, posted.JSON())
			_, err = e.Result(t.Context(), authtest.Shop, ask.JSON())
			if got := errorObject(t, err); got.Text("errorCode") != "403" || got[name] != nil {
				t.Errorf("/postauth: %v", got)
			}
		}
	}
}

func errorObject(t *testing.T, err error) authtest.Object {
	t.Helper()
	bad, ok := errors.AsType[message.Error](err)
	if !ok {
		t.Fatalf("no Erro: %v", err)
	}
	return authtest.Parse(t, bad.JSON())
}

// TestD48FaultsOfAnAuthBlameTheAReq: an Erro about the content of an /auth names the AReq as the message
// to blame. One that is about something else does not.
func TestD48FaultsOfAnAuthBlameTheAReq(t *testing.T) {
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	used := authtest.AReq("2.2.0", authtest.Preauth(t, e, authtest.Shop))
	if _, _, err := e.Authenticate(t.Context(), authtest.Shop, used.JSON()); err != nil {
		t.Fatal(err)
	}
	fresh := func(name string, value any) []byte {
		return authtest.With(authtest.AReq("2.2.0", authtest.Preauth(t, e, authtest.Shop)), name, value).JSON()
	}
	expired := authtest.AReq("2.2.0", authtest.Preauth(t, e, authtest.Shop))
	w.Pass(80 * time.Second)
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
		"expired id":      {expired.JSON(), "301"},
		"used id":         {used.JSON(), "301"},
		"no such twin":    {[]byte(`{"mcc":"5411","MCC":"5411"}`), "204"},
		"not a follow-up": {followUpWithoutFirst(t, e), "305"},
	} {
		_, _, err := e.Authenticate(t.Context(), authtest.Shop, tt.body)
		bad, _ := errors.AsType[message.Error](err)
		if bad.Code.String() != tt.code || bad.MessageType != "AReq" {
			t.Errorf("%s: %v with errorMessageType %q, want %s with AReq", name, err, bad.MessageType, tt.code)
		}
	}
	body := authtest.AReq("2.2.0", authtest.Preauth(t, e, authtest.Shop)).JSON()
	w.Down = true
	_, _, err := e.Authenticate(t.Context(), authtest.Shop, body)
	if bad, _ := errors.AsType[message.Error](err); bad.Code != message.TransientFailure || bad.MessageType != "" {
		t.Errorf("the store is down: %v with errorMessageType %q, want 403 without one", err, bad.MessageType)
	}
}

// followUpWithoutFirst is a second AReq of SPC that refers to no first authentication.
func followUpWithoutFirst(t *testing.T, e *session.Engine) []byte {
	t.Helper()
	req := authtest.With(authtest.AReq("2.3.1", authtest.Preauth(t, e, authtest.Shop)), "spcIncompInd", "01")
	return authtest.With(req, "threeDSRequestorPriorAuthenticationInfo", []authtest.Object{{
		"threeDSReqPriorRef": "11111111-1111-4111-8111-111111111111", "threeDSReqPriorAuthMethod": "05",
	}}).JSON()
}
