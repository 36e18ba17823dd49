package auth_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/engine/authtest"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/message"
)

// capitals is o with the letters of its ids in capitals.
func capitals(o authtest.Object) authtest.Object {
	for _, name := range []string{"threeDSServerTransID", "acsTransID", "dsTransID", "sdkTransID"} {
		if id := o.Text(name); id != "" {
			o = authtest.With(o, name, strings.ToUpper(id))
		}
	}
	return o
}

// TestIDsInCapitals: a UUID in capitals is the same UUID (RFC 4122), in everything that a directory server sends: no
// authentication is lost because of the way it writes ids.
func TestIDsInCapitals(t *testing.T) {
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		begin := func() (w *authtest.World, sent authtest.Object) {
			w = authtest.NewWorld()
			w.Reply = func(_ string, areq authtest.Object) ([]byte, error) {
				sent = areq
				return capitals(authtest.AResObject(areq, "C")).JSON(), nil
			}
			e := w.NewEngine(0)
			req := authtest.AReq231(authtest.Preauth(t, e, authtest.Shop), authtest.Object{"messageVersion": version})
			if _, _, err := e.Authenticate(t.Context(), authtest.Shop, req.JSON()); err != nil {
				t.Fatalf("%s: an ARes in capitals: %v", version, err)
			}
			return w, sent
		}
		for _, capital := range []bool{false, true} {
			w, sent := begin()
			e := w.NewEngine(0)
			result := authtest.RReq(sent, "Y", 1)
			if capital {
				result = capitals(result)
			}
			got := authtest.Parse(t, e.Receive(t.Context(), []string{"visa"}, result.JSON()).Body)
			if got.Text("messageType") != "RRes" || got["threeDSServerTransID"] != result["threeDSServerTransID"] {
				t.Errorf("%s: an RReq, capitals %t: %v", version, capital, got)
			}
			kept, err := e.Result(t.Context(), authtest.Shop, authtest.Object{"threeDSServerTransID": sent["threeDSServerTransID"]}.JSON())
			if err != nil || string(kept) != string(result.JSON()) {
				t.Errorf("%s: /postauth: %s, %v", version, kept, err)
			}

			w, sent = begin()
			e = w.NewEngine(0)
			erro := authtest.Object{"messageType": "Erro", "messageVersion": version, "errorCode": "402", "errorComponent": "D"}
			for _, name := range []string{"threeDSServerTransID", "acsTransID", "dsTransID"} {
				erro[name] = authtest.RReq(sent, "Y", 1)[name]
			}
			if capital {
				erro = capitals(erro)
			}
			e.Receive(t.Context(), []string{"visa"}, erro.JSON())
			if _, err := e.Result(t.Context(), authtest.Shop,
				authtest.Object{"threeDSServerTransID": sent["threeDSServerTransID"]}.JSON()); authtest.CodeOf(err) != "402" {
				t.Errorf("%s: an Erro, capitals %t: /postauth: %v, want its 402", version, capital, err)
			}
		}
	}
}

// TestSDKTransIDOfRRes: the RRes repeats the id of the transaction's SDK. If there is no SDK, it repeats nothing that
// stands in its place (MX-05).
func TestSDKTransIDOfRRes(t *testing.T) {
	const id = "5d000000-0000-4000-8000-000000000001"
	for _, version := range []string{"2.2.0", "2.3.1"} {
		for _, stray := range []any{nil, id, "", 5, true, authtest.Object{"a": "b"}, []string{id}} {
			w := authtest.NewWorld()
			e := w.NewEngine(0)
			sent := authtest.Challenged(t, w, e, authtest.Object{"messageVersion": version})
			result := authtest.RReq(sent, "Y", 1)
			if stray != nil {
				result["sdkTransID"] = stray
			}
			got := authtest.Parse(t, e.Receive(t.Context(), []string{"visa"}, result.JSON()).Body)
			if got.Text("messageType") != "RRes" || got["sdkTransID"] != nil {
				t.Errorf("%s: a browser's RReq with sdkTransID %v: %v", version, stray, got)
			}
		}
	}
}

// TestTransactionEndsInRemovedVersion: a challenge that began before its version was taken out of
// the configuration ends as it would have; no other begins in it.
func TestTransactionEndsInRemovedVersion(t *testing.T) {
	w := authtest.NewWorld()
	sent := authtest.Challenged(t, w, w.NewEngine(0), authtest.Object{"messageVersion": "2.1.0"})
	e := w.NewEngine(0)
	for i := range e.Peers {
		e.Peers[i].Versions = []message.Version{message.V220, message.V231}
	}
	if _, err := authtest.Try(t, e, authtest.Shop, authtest.Object{"messageVersion": "2.1.0"}); authtest.CodeOf(err) != "102" {
		t.Errorf("an AReq in 2.1.0: %v, want 102", err)
	}
	stray := authtest.With(authtest.RReq(sent, "Y", 1), "threeDSServerTransID", "11111111-1111-4111-8111-111111111111")
	if got := authtest.Parse(t, e.Receive(t.Context(), []string{"visa"}, stray.JSON()).Body); got.Text("errorCode") != "301" {
		t.Errorf("an RReq of no transaction: %v", got)
	}
	if got := authtest.Parse(t, e.Receive(t.Context(), []string{"visa"}, authtest.RReq(sent, "Y", 1).JSON()).Body); got.Text("messageType") != "RRes" {
		t.Errorf("the RReq: %v, want an RRes", got)
	}
}

// TestErroInAVersionThatIsRead: if a message has no version that we know, the Erro about it has the version of its
// transaction, or else the newest one in use with the directory server (MX-18).
func TestErroInAVersionThatIsRead(t *testing.T) {
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	e.Peers[0].Versions = []message.Version{message.V210, message.V220}
	sent := authtest.Challenged(t, w, e, authtest.Object{"messageVersion": "2.1.0"})
	stray := authtest.With(authtest.RReq(sent, "Y", 1), "threeDSServerTransID", "11111111-1111-4111-8111-111111111111")
	for _, tt := range []struct {
		name, scheme string
		body         []byte
		code, in     string
	}{
		{"no JSON", "visa", []byte("{"), "101", "2.2.0"},
		{"no JSON, another directory's", "mastercard", []byte("{"), "101", "2.3.1"},
		{"no JSON, of a directory that is gone", "amex", []byte("{"), "101", "2.3.1"},
		{"no type", "visa", []byte("{}"), "201", "2.2.0"},
		{"an RReq of no transaction", "visa", authtest.With(stray, "messageVersion", "9.9.9").JSON(), "102", "2.2.0"},
		{"an RReq", "visa", authtest.With(authtest.RReq(sent, "Y", 1), "messageVersion", "9.9.9").JSON(), "102", "2.1.0"},
		{"an OReq", "visa", authtest.With(authtest.OReq(1, 1), "messageVersion", "9.9.9").JSON(), "102", "2.2.0"},
	} {
		got := authtest.Parse(t, e.Receive(t.Context(), []string{tt.scheme}, tt.body).Body)
		if got.Text("errorCode") != tt.code || got.Text("messageVersion") != tt.in {
			t.Errorf("%s: %v, want %s in %s", tt.name, got, tt.code, tt.in)
		}
	}
}

// TestErroNamesKnownIDOnly: the Erro of a refused /auth has the id if it is the requestor's own, whatever is wrong with
// the card or the rest. It never has the id of another merchant, nor one that the requestor does not know (Erro).
func TestErroNamesKnownIDOnly(t *testing.T) {
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		w := authtest.NewWorld()
		e := w.NewEngine(0)
		id := authtest.Preauth(t, e, authtest.Shop)
		refused := func(acc *account.Account, name string, value any) message.Error {
			_, _, err := e.Authenticate(t.Context(), acc, authtest.With(authtest.AReq231(id, authtest.Object{"messageVersion": version}), name, value).JSON())
			bad, ok := errors.AsType[message.Error](err)
			if !ok {
				t.Fatalf("%s: %s = %v: %v, want an Erro", version, name, value, err)
			}
			return bad
		}
		for _, tt := range []struct {
			name string
			bad  any
			code string
		}{
			{"acctNumber", nil, "201"},
			{"acctNumber", "", "201"},
			{"acctNumber", "4000.0012.3456.7890", "203"},
			{"acctNumber", 5, "203"},
			{"acctNumber", "4000001234567891", "305"},
			{"mcc", "x", "203"},
			{"messageVersion", "9.9.9", "102"},
		} {
			if bad := refused(authtest.Shop, tt.name, tt.bad); bad.Code.String() != tt.code || bad.ServerTransID != id {
				t.Errorf("%s: %s = %v: code %s of transaction %q, want %s of %s", version, tt.name, tt.bad, bad.Code, bad.ServerTransID, tt.code, id)
			}
			if bad := refused(authtest.Other, tt.name, tt.bad); bad.ServerTransID != "" {
				t.Errorf("%s: %s = %v: another merchant is told %q", version, tt.name, tt.bad, bad.ServerTransID)
			}
		}
		w.Tried = false
		if bad := refused(authtest.Shop, "zzz", "x"); bad.Code.String() != "403" || bad.ServerTransID != id {
			t.Errorf("%s: no ranges yet: code %s of transaction %q, want 403 of %s", version, bad.Code, bad.ServerTransID, id)
		}
		w.Tried = true
		w.Pass(80 * time.Second)
		for name, code := range map[string]string{"mcc": "203", "zzz": "301"} {
			if bad := refused(authtest.Shop, name, "x"); bad.Code.String() != code || bad.ServerTransID != id {
				t.Errorf("%s: expired, %s: code %s of transaction %q, want %s of %s", version, name, bad.Code, bad.ServerTransID, code, id)
			}
		}
		ours := authtest.With(authtest.AReq231("", authtest.Object{"messageVersion": version, "deviceChannel": "03"}), "mcc", "x")
		delete(ours, "threeDSServerTransID")
		_, _, err := e.Authenticate(t.Context(), authtest.Shop, ours.JSON())
		if bad, ok := errors.AsType[message.Error](err); !ok || bad.ServerTransID != "" {
			t.Errorf("%s: no id was given: %v, want an Erro without one, got %q", version, err, bad.ServerTransID)
		}
	}
}

// TestIDThatIsNoText: where an id may be left out, an id that is given and cannot be read is refused. No AReq leaves
// under an id that its requestor did not ask for (section 3).
func TestIDThatIsNoText(t *testing.T) {
	for _, channel := range []string{"01", "02", "03"} {
		for _, id := range []any{5, true, []string{"09a20245-7eb0-4dd1-89b5-f001bbb0f1fc"}, authtest.Object{"id": "x"}} {
			w := authtest.NewWorld()
			w.Reply = func(_ string, o authtest.Object) ([]byte, error) {
				t.Errorf("channel %s, id %v: an AReq under %v", channel, id, o["threeDSServerTransID"])
				return authtest.ARes(o, "Y"), nil
			}
			req := authtest.AReq("2.2.0", "")
			req["threeDSServerTransID"], req["deviceChannel"] = id, channel
			req["sdkAppID"], req["sdkTransID"] = "dbd64fcb-c19a-4728-8849-e3d50bfdde39", "b2385523-a66c-4907-ac3c-91848e8c0067"
			req["sdkReferenceNumber"], req["sdkMaxTimeout"], req["sdkEncData"] = "SDK", "05", "e30..AAAA.AAAA.AAAA"
			req["sdkEphemPubKey"] = authtest.Object{"kty": "EC", "crv": "P-256", "x": strings.Repeat("A", 43), "y": strings.Repeat("A", 43)}
			req["deviceRenderOptions"] = authtest.Object{"sdkInterface": "03", "sdkUiType": []string{"01"}}
			req["threeRIInd"] = "06"
			if _, _, err := w.NewEngine(0).Authenticate(t.Context(), authtest.Shop, req.JSON()); authtest.Told(err) != "203 threeDSServerTransID" {
				t.Errorf("channel %s, id %v: %s, want 203 threeDSServerTransID", channel, id, authtest.Told(err))
			}
		}
	}
}

// TestUsableVersions: whether a version is unknown or only not usable for this card, the Erro says which versions are
// usable for the card (Erro).
func TestUsableVersions(t *testing.T) {
	w := authtest.NewWorld()
	e := w.NewEngine(0)
	e.Peers[0].Versions = message.Versions()[:2]
	strict := &account.Account{Merchant: authtest.Shop.Merchant, Strict: true}
	for _, tt := range []struct {
		start, end string
		ds         []string // of the range
		want       string
	}{
		{"2.1.0", "2.3.1", []string{"2.1.0", "2.2.0", "2.3.1"}, "2.1.0,2.2.0"},
		{"2.1.0", "2.1.0", []string{"2.1.0", "2.2.0", "2.3.1"}, "2.1.0"},
		{"2.2.0", "2.3.1", []string{"2.1.0", "2.2.0", "2.3.1"}, "2.2.0"},
		{"2.1.0", "2.3.1", []string{"2.2.0", "2.3.1"}, "2.2.0"},
		{"2.3.1", "2.3.1", []string{"2.1.0", "2.2.0", "2.3.1"}, "no version is common to ACS, DS and 3DS Server"},
	} {
		info := authtest.AllVersions("")
		info.DSVersions = tt.ds
		info.ACS = slices.DeleteFunc(info.ACS, func(v ranges.ACSVersion) bool { return v.Version < tt.start || v.Version > tt.end })
		w.Hits = []ranges.Hit{{Scheme: "visa", Info: info}}
		for _, version := range []string{"9.9.9", "2.0.0", "2.3.1"} {
			for _, acc := range []*account.Account{authtest.Shop, strict} {
				_, _, err := e.Authenticate(t.Context(), acc, authtest.AReq231(authtest.Preauth(t, e, acc), authtest.Object{
					"messageVersion": version, "acquirerCountryCodeSource": "01",
				}).JSON())
				if authtest.Told(err) != "102 "+tt.want {
					t.Errorf("ACS from %s to %s, DS %s, an AReq in %s: %s, want 102 %s", tt.start, tt.end, tt.ds, version, authtest.Told(err), tt.want)
				}
			}
		}
	}
	// A card that no directory has: the answer has what the server speaks.
	_, _, err := e.Authenticate(t.Context(), authtest.Shop,
		authtest.With(authtest.AReq("9.9.9", authtest.Preauth(t, e, authtest.Shop)), "acctNumber", "5000001234567890").JSON())
	if authtest.Told(err) != "102 2.1.0,2.2.0,2.3.1" {
		t.Errorf("a card in no range: %s", authtest.Told(err))
	}
}
