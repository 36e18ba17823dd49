package auth_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/message"
)

// capitals is o with the letters of its ids in capitals.
func capitals(o object) object {
	for _, name := range []string{"threeDSServerTransID", "acsTransID", "dsTransID", "sdkTransID"} {
		if id := o.text(name); id != "" {
			o = with(o, name, strings.ToUpper(id))
		}
	}
	return o
}

// TestIDsInCapitals: a UUID in capitals is the same UUID (RFC 4122), in all that
// a directory server sends: no authentication is lost over how it writes ids.
func TestIDsInCapitals(t *testing.T) {
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		begin := func() (w *world, sent object) {
			w = newWorld()
			w.reply = func(_ string, areq object) ([]byte, error) {
				sent = areq
				return capitals(aresObject(areq, "C")).json(), nil
			}
			e := w.engine(0)
			req := areq231(preauth(t, e, shop), object{"messageVersion": version})
			if _, _, err := e.Authenticate(t.Context(), shop, req.json()); err != nil {
				t.Fatalf("%s: an ARes in capitals: %v", version, err)
			}
			return w, sent
		}
		for _, capital := range []bool{false, true} {
			w, sent := begin()
			e := w.engine(0)
			result := rreq(sent, "Y", 1)
			if capital {
				result = capitals(result)
			}
			got := parse(t, e.Receive(t.Context(), []string{"visa"}, result.json()).Body)
			if got.text("messageType") != "RRes" || got["threeDSServerTransID"] != result["threeDSServerTransID"] {
				t.Errorf("%s: an RReq, capitals %t: %v", version, capital, got)
			}
			kept, err := e.Result(t.Context(), shop, object{"threeDSServerTransID": sent["threeDSServerTransID"]}.json())
			if err != nil || string(kept) != string(result.json()) {
				t.Errorf("%s: /postauth: %s, %v", version, kept, err)
			}

			w, sent = begin()
			e = w.engine(0)
			erro := object{"messageType": "Erro", "messageVersion": version, "errorCode": "402", "errorComponent": "D"}
			for _, name := range []string{"threeDSServerTransID", "acsTransID", "dsTransID"} {
				erro[name] = rreq(sent, "Y", 1)[name]
			}
			if capital {
				erro = capitals(erro)
			}
			e.Receive(t.Context(), []string{"visa"}, erro.json())
			if _, err := e.Result(t.Context(), shop, object{"threeDSServerTransID": sent["threeDSServerTransID"]}.json()); codeOf(err) != "402" {
				t.Errorf("%s: an Erro, capitals %t: /postauth: %v, want its 402", version, capital, err)
			}
		}
	}
}

// TestSDKTransIDOfRRes: the RRes repeats the id of the transaction's SDK, and
// nothing that stands in its place where there is none (MX-05).
func TestSDKTransIDOfRRes(t *testing.T) {
	const id = "5d000000-0000-4000-8000-000000000001"
	for _, version := range []string{"2.2.0", "2.3.1"} {
		for _, stray := range []any{nil, id, "", 5, true, object{"a": "b"}, []string{id}} {
			w := newWorld()
			e := w.engine(0)
			sent := challenged(t, w, e, object{"messageVersion": version})
			result := rreq(sent, "Y", 1)
			if stray != nil {
				result["sdkTransID"] = stray
			}
			got := parse(t, e.Receive(t.Context(), []string{"visa"}, result.json()).Body)
			if got.text("messageType") != "RRes" || got["sdkTransID"] != nil {
				t.Errorf("%s: a browser's RReq with sdkTransID %v: %v", version, stray, got)
			}
		}
	}
}

// TestTransactionEndsInRemovedVersion: a challenge that began before its version was taken out of
// the configuration ends as it would have; no other begins in it.
func TestTransactionEndsInRemovedVersion(t *testing.T) {
	w := newWorld()
	sent := challenged(t, w, w.engine(0), object{"messageVersion": "2.1.0"})
	e := w.engine(0)
	for i := range e.Peers {
		e.Peers[i].Versions = []message.Version{message.V220, message.V231}
	}
	if _, err := try(t, e, shop, object{"messageVersion": "2.1.0"}); codeOf(err) != "102" {
		t.Errorf("an AReq in 2.1.0: %v, want 102", err)
	}
	stray := with(rreq(sent, "Y", 1), "threeDSServerTransID", "11111111-1111-4111-8111-111111111111")
	if got := parse(t, e.Receive(t.Context(), []string{"visa"}, stray.json()).Body); got.text("errorCode") != "301" {
		t.Errorf("an RReq of no transaction: %v", got)
	}
	if got := parse(t, e.Receive(t.Context(), []string{"visa"}, rreq(sent, "Y", 1).json()).Body); got.text("messageType") != "RRes" {
		t.Errorf("the RReq: %v, want an RRes", got)
	}
}

// TestErroInAVersionThatIsRead: an Erro about what has no version that we know comes in
// that of its transaction, or else in the newest that is in use with the directory
// server (MX-18).
func TestErroInAVersionThatIsRead(t *testing.T) {
	w := newWorld()
	e := w.engine(0)
	e.Peers[0].Versions = []message.Version{message.V210, message.V220}
	sent := challenged(t, w, e, object{"messageVersion": "2.1.0"})
	stray := with(rreq(sent, "Y", 1), "threeDSServerTransID", "11111111-1111-4111-8111-111111111111")
	for _, tt := range []struct {
		name, scheme string
		body         []byte
		code, in     string
	}{
		{"no JSON", "visa", []byte("{"), "101", "2.2.0"},
		{"no JSON, another directory's", "mastercard", []byte("{"), "101", "2.3.1"},
		{"no JSON, of a directory that is gone", "amex", []byte("{"), "101", "2.3.1"},
		{"no type", "visa", []byte("{}"), "201", "2.2.0"},
		{"an RReq of no transaction", "visa", with(stray, "messageVersion", "9.9.9").json(), "102", "2.2.0"},
		{"an RReq", "visa", with(rreq(sent, "Y", 1), "messageVersion", "9.9.9").json(), "102", "2.1.0"},
		{"an OReq", "visa", with(oreq(1, 1), "messageVersion", "9.9.9").json(), "102", "2.2.0"},
	} {
		got := parse(t, e.Receive(t.Context(), []string{tt.scheme}, tt.body).Body)
		if got.text("errorCode") != tt.code || got.text("messageVersion") != tt.in {
			t.Errorf("%s: %v, want %s in %s", tt.name, got, tt.code, tt.in)
		}
	}
}

// TestErroNamesKnownIDOnly: the Erro of a refused /auth has the id whenever it is the
// requestor's own, whatever is wrong with the card or the rest; never that of
// somebody else, nor one that he has not heard of (Erro).
func TestErroNamesKnownIDOnly(t *testing.T) {
	for _, version := range []string{"2.1.0", "2.2.0", "2.3.1"} {
		w := newWorld()
		e := w.engine(0)
		id := preauth(t, e, shop)
		refused := func(acc *account.Account, name string, value any) message.Error {
			_, _, err := e.Authenticate(t.Context(), acc, with(areq231(id, object{"messageVersion": version}), name, value).json())
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
			if bad := refused(shop, tt.name, tt.bad); bad.Code.String() != tt.code || bad.ServerTransID != id {
				t.Errorf("%s: %s = %v: code %s of transaction %q, want %s of %s", version, tt.name, tt.bad, bad.Code, bad.ServerTransID, tt.code, id)
			}
			if bad := refused(other, tt.name, tt.bad); bad.ServerTransID != "" {
				t.Errorf("%s: %s = %v: another merchant is told %q", version, tt.name, tt.bad, bad.ServerTransID)
			}
		}
		w.tried = false
		if bad := refused(shop, "zzz", "x"); bad.Code.String() != "403" || bad.ServerTransID != id {
			t.Errorf("%s: no ranges yet: code %s of transaction %q, want 403 of %s", version, bad.Code, bad.ServerTransID, id)
		}
		w.tried = true
		w.pass(80 * time.Second)
		for name, code := range map[string]string{"mcc": "203", "zzz": "301"} {
			if bad := refused(shop, name, "x"); bad.Code.String() != code || bad.ServerTransID != id {
				t.Errorf("%s: expired, %s: code %s of transaction %q, want %s of %s", version, name, bad.Code, bad.ServerTransID, code, id)
			}
		}
		ours := with(areq231("", object{"messageVersion": version, "deviceChannel": "03"}), "mcc", "x")
		delete(ours, "threeDSServerTransID")
		_, _, err := e.Authenticate(t.Context(), shop, ours.json())
		if bad, ok := errors.AsType[message.Error](err); !ok || bad.ServerTransID != "" {
			t.Errorf("%s: no id was given: %v, want an Erro without one, got %q", version, err, bad.ServerTransID)
		}
	}
}

// TestIDThatIsNoText: where an id may be left out, one that is given and cannot be
// read is refused; no AReq leaves under an id that nobody asked for (section 3).
func TestIDThatIsNoText(t *testing.T) {
	for _, channel := range []string{"01", "02", "03"} {
		for _, id := range []any{5, true, []string{"09a20245-7eb0-4dd1-89b5-f001bbb0f1fc"}, object{"id": "x"}} {
			w := newWorld()
			w.reply = func(_ string, o object) ([]byte, error) {
				t.Errorf("channel %s, id %v: an AReq under %v", channel, id, o["threeDSServerTransID"])
				return ares(o, "Y"), nil
			}
			req := areq("2.2.0", "")
			req["threeDSServerTransID"], req["deviceChannel"] = id, channel
			req["sdkAppID"], req["sdkTransID"] = "dbd64fcb-c19a-4728-8849-e3d50bfdde39", "b2385523-a66c-4907-ac3c-91848e8c0067"
			req["sdkReferenceNumber"], req["sdkMaxTimeout"], req["sdkEncData"] = "SDK", "05", "e30..AAAA.AAAA.AAAA"
			req["sdkEphemPubKey"] = object{"kty": "EC", "crv": "P-256", "x": strings.Repeat("A", 43), "y": strings.Repeat("A", 43)}
			req["deviceRenderOptions"] = object{"sdkInterface": "03", "sdkUiType": []string{"01"}}
			req["threeRIInd"] = "06"
			if _, _, err := w.engine(0).Authenticate(t.Context(), shop, req.json()); told(err) != "203 threeDSServerTransID" {
				t.Errorf("channel %s, id %v: %s, want 203 threeDSServerTransID", channel, id, told(err))
			}
		}
	}
}

// TestUsableVersions: whether a version is unknown or only not this card's, the Erro
// says which are usable for it (Erro).
func TestUsableVersions(t *testing.T) {
	w := newWorld()
	e := w.engine(0)
	e.Peers[0].Versions = message.Versions()[:2]
	strict := &account.Account{Merchant: shop.Merchant, Strict: true}
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
		info := allVersions("")
		info.DSVersions = tt.ds
		info.ACS = slices.DeleteFunc(info.ACS, func(v ranges.ACSVersion) bool { return v.Version < tt.start || v.Version > tt.end })
		w.hits = []ranges.Hit{{Scheme: "visa", Info: info}}
		for _, version := range []string{"9.9.9", "2.0.0", "2.3.1"} {
			for _, acc := range []*account.Account{shop, strict} {
				_, _, err := e.Authenticate(t.Context(), acc, areq231(preauth(t, e, acc), object{
					"messageVersion": version, "acquirerCountryCodeSource": "01",
				}).json())
				if told(err) != "102 "+tt.want {
					t.Errorf("ACS from %s to %s, DS %s, an AReq in %s: %s, want 102 %s", tt.start, tt.end, tt.ds, version, told(err), tt.want)
				}
			}
		}
	}
	// A card that nobody has: what the server speaks.
	_, _, err := e.Authenticate(t.Context(), shop, with(areq("9.9.9", preauth(t, e, shop)), "acctNumber", "5000001234567890").json())
	if told(err) != "102 2.1.0,2.2.0,2.3.1" {
		t.Errorf("a card in no range: %s", told(err))
	}
}
