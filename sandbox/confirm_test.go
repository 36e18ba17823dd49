package sandbox_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestSPCCredentialOfTheCard: an issuer that was given a credential names it, under a domain. The second AReq is
// authenticated only with what that credential signed for this payment.
func TestSPCCredentialOfTheCard(t *testing.T) {
	box := start(t, nil)
	s := newServer(t, box)
	const pan = "4000000000000103"
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	id := encode([]byte("a credential of tests"))
	tell := func(body string, want int) {
		t.Helper()
		res, err := http.Post(box.ControlURL()+"/spc", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if text, _ := io.ReadAll(res.Body); res.StatusCode != want {
			t.Errorf("%s: %d %s, want %d", body, res.StatusCode, text, want)
		}
	}
	tell(`{"acctNumber": "`+pan+`"}`, 400)
	tell(fmt.Sprintf(`{"acctNumber": %q, "credentialId": %q, "publicKey": %q}`, pan, id, encode(public)), 201)

	offer := members{"acquirerMerchantID": "SPC", "threeDSRequestorSpcSupport": "Y", "payeeOrigin": "https://shop.example"}
	first := s.areq("2.3.1", "02", pan).with(offer)
	ares := s.ask(first)
	list, _ := ares["webAuthnCredList"].([]any)
	data, _ := ares["spcTransData"].(map[string]any)
	if len(list) != 1 || data == nil {
		t.Fatalf("%v", ares)
	}
	entry, _ := list[0].(map[string]any)
	if ids, _ := entry["credentialIds"].([]any); entry["rpID"] != "localhost" || len(ids) != 1 || ids[0] != id {
		t.Errorf("webAuthnCredList has %v, want rpID localhost and the credential of the card", entry)
	}
	if data["payeeOrigin"] != "https://shop.example" {
		t.Errorf("spcTransData has the payee %v", data["payeeOrigin"])
	}
	assertion := func(kind, challenge string) members {
		client := fmt.Appendf(nil, `{"type":%q,"challenge":%q,"origin":"https://shop.example"}`, kind, challenge)
		digest := sha256.Sum256(client)
		signed := sha256.Sum256(append([]byte("authenticator"), digest[:]...))
		signature, err := ecdsa.SignASN1(rand.Reader, key, signed[:])
		if err != nil {
			t.Fatal(err)
		}
		return members{"id": id, "type": "public-key", "response": members{
			"authenticatorData": encode([]byte("authenticator")), "clientDataJSON": encode(client), "signature": encode(signature),
		}}
	}
	challenge, _ := data["challenge"].(string)
	broken := assertion("payment.get", challenge)
	broken["response"].(members)["authenticatorData"] = encode([]byte("another"))
	for _, tt := range []struct {
		name string
		data members
		want string
	}{
		{"signed", assertion("payment.get", challenge), "Y"},
		{"of another payment", assertion("payment.get", "another"), "N"},
		{"no payment", assertion("webauthn.get", challenge), "N"},
		{"broken", broken, "N"},
	} {
		got := s.ask(s.areq("2.3.1", "02", pan).with(offer).with(members{
			"threeDSRequestorPriorAuthenticationInfo": []members{{"threeDSReqPriorAuthMethod": "05", "threeDSReqPriorRef": ares["acsTransID"]}},
			"threeDSRequestorAuthenticationInfo":      []members{{"threeDSReqAuthMethod": "09", "threeDSReqAuthData": tt.data}},
		}))
		if got["transStatus"] != tt.want {
			t.Errorf("%s: transStatus %v, want %s", tt.name, got["transStatus"], tt.want)
		}
	}
}
