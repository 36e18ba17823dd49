package authtest

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/engine/session"
	"github.com/openthreeds/threeds/internal/peers/ranges"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/keyring"
)

// NewKeyRing returns a ring of a new key file.
func NewKeyRing(t *testing.T) *keyring.Ring {
	t.Helper()
	ring, err := keyring.LoadOrCreate(filepath.Join(t.TempDir(), "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// AReq231 is AReq with the elements that 2.3.1 also requires.
func AReq231(id string, more Object) Object {
	o := AReq("2.3.1", id)
	o["acceptLanguage"], o["acquirerCountryCode"] = []string{"en"}, "208"
	maps.Copy(o, more)
	return o
}

// AResS is an answer that asks for SPC.
func AResS(areq Object) []byte {
	o := AResObject(areq, "S")
	o["spcTransData"] = Object{
		"challenge": strings.Repeat("c", 43), "currency": "EUR", "displayName": "Card", "icon": "https://bank.example/i",
		"payeeOrigin": "https://shop.example", "timeout": "60000", "value": "10.99",
	}
	o["webAuthnCredList"] = []Object{{"rpID": "bank.example", "credentialIds": strings.Repeat("a", 16)}}
	return o.JSON()
}

// SPCWorld has issuers that know SPC.
func SPCWorld() *World {
	w := NewWorld()
	info := AllVersions("")
	info.ACS[2].InfoInd = []string{"01", "07"}
	w.Hits = []ranges.Hit{{Scheme: "visa", Info: info}}
	w.Reply = func(_ string, areq Object) ([]byte, error) { return AResS(areq), nil }
	return w
}

// Offered is the offer of SPC in a request.
var Offered = Object{"threeDSRequestorSpcSupport": "Y", "payeeOrigin": "https://shop.example"}

// Asserted refers to an ARes S and brings what the authenticator signed.
func Asserted(ref string) Object {
	return Object{
		"threeDSRequestorAuthenticationInfo": []Object{{
			"threeDSReqAuthMethod": "09", "threeDSReqAuthTimestamp": "202611201200", "threeDSReqAuthData": "signed",
		}},
		"threeDSRequestorPriorAuthenticationInfo": []Object{{
			"threeDSReqPriorAuthMethod": "05", "threeDSReqPriorAuthTimestamp": "202611201200", "threeDSReqPriorRef": ref,
		}},
	}
}

// Try makes an authentication of its own and returns what came of it.
func Try(t *testing.T, e *session.Engine, acc *account.Account, parts ...Object) (Object, error) {
	t.Helper()
	req := AReq231(Preauth(t, e, acc), nil)
	for _, part := range parts {
		maps.Copy(req, part)
	}
	for name, v := range req {
		if v == nil {
			delete(req, name)
		}
	}
	got, _, err := e.Authenticate(t.Context(), acc, req.JSON())
	if err != nil {
		return nil, err
	}
	return Parse(t, got), nil
}

// Challenged begins an authentication that ends in a challenge, and returns its AReq.
func Challenged(t *testing.T, w *World, e *session.Engine, parts ...Object) (areq Object) {
	t.Helper()
	w.Reply = func(_ string, o Object) ([]byte, error) {
		areq = o
		return ARes(o, "C"), nil
	}
	if _, err := Try(t, e, Shop, parts...); err != nil {
		t.Fatal(err)
	}
	return areq
}

// SeqID is the id of a sequence of operation messages.
const SeqID = "50000000-0000-4000-8000-000000000001"

// OReq is message n of a sequence.
func OReq(n, total int) Object {
	return Object{
		"messageType": "OReq", "messageVersion": "2.3.1", "dsReferenceNumber": "DS",
		"dsTransID":  fmt.Sprintf("d0000000-0000-4000-8000-0000000000%02d", n),
		"opSeq":      Object{"seqId": SeqID, "seqNum": fmt.Sprintf("%02d", n), "seqTotal": fmt.Sprintf("%02d", total)},
		"opCategory": "02", "opDescription": "Maintenance on Sunday", "opExpDate": "20261231", "opSeverity": "03",
	}
}

// With returns a copy of o in which one member is changed.
func With(o Object, name string, value any) Object {
	o[name] = value
	return o
}

// Decoupled begins a decoupled authentication of at most so many minutes.
func Decoupled(t *testing.T, w *World, version string, minutes int) Object {
	t.Helper()
	e := w.NewEngine(0)
	req := AReq(version, Preauth(t, e, Shop))
	req["threeDSRequestorDecReqInd"], req["threeDSRequestorDecMaxTime"] = "Y", fmt.Sprintf("%05d", minutes)
	w.Reply = func(_ string, o Object) ([]byte, error) { return ARes(o, "D"), nil }
	if _, _, err := e.Authenticate(t.Context(), Shop, req.JSON()); err != nil {
		t.Fatal(err)
	}
	return req
}

// DecoupledResult is what the issuer sends at the end of it.
func DecoupledResult(req Object) Object {
	o := RReq(req, "Y", 1)
	delete(o, "interactionCounter")
	if req.Text("messageVersion") == "2.2.0" {
		o["authenticationType"] = "04"
	}
	return o
}
