package sandbox

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/openthreeds/threeds/sandbox/internal/peer"
)

// A credential is a key with which a browser confirms payments of a card.
type credential struct {
	id  string // base64url
	key *ecdsa.PublicKey
}

// addCredential tells the issuer of a card a credential. publicKey is what getPublicKey of the
// browser returns, as base64url.
func (s *Sandbox) addCredential(w http.ResponseWriter, r *http.Request) {
	var in struct {
		AcctNumber   string `json:"acctNumber"`
		CredentialID string `json:"credentialId"`
		PublicKey    string `json:"publicKey"`
	}
	err := peer.ReadJSON(r.Body, &in)
	var key any
	if err == nil {
		key, err = x509.ParsePKIXPublicKey(decodeURL(in.PublicKey))
	}
	public, isECDSA := key.(*ecdsa.PublicKey)
	if err != nil || !isECDSA || in.AcctNumber == "" || len(decodeURL(in.CredentialID)) < 12 {
		const want = `want {"acctNumber": …, "credentialId": …, "publicKey": …}: both in base64url, the key of ES256`
		peer.WriteError(w, http.StatusBadRequest, want)
		return
	}
	s.credentials.Store(in.AcctNumber, &credential{strings.TrimRight(in.CredentialID, "="), public})
	peer.WriteJSON(w, http.StatusCreated, map[string]string{"credentialId": in.CredentialID})
}

// findCredential returns the credential of a card, nil when it has none.
func (s *Sandbox) findCredential(pan string) *credential {
	c, _ := s.credentials.Load(pan)
	found, _ := c.(*credential)
	return found
}

// refutes reports whether an AReq brings an assertion that the credential of its card did not
// make for the first authentication. Cards without a credential have any assertion pass.
func (s *Sandbox) refutes(m received) bool {
	c := s.findCredential(m.text("acctNumber"))
	var how, earlier []received
	_ = json.Unmarshal(m["threeDSRequestorAuthenticationInfo"], &how) // its form has been checked
	_ = json.Unmarshal(m["threeDSRequestorPriorAuthenticationInfo"], &earlier)
	if c == nil || len(how) == 0 || how[0].text("threeDSReqAuthMethod") != assertion {
		return false
	}
	if len(earlier) == 0 {
		return true
	}
	first := s.journal.transaction(earlier[0].text("threeDSReqPriorRef"))
	return first == nil || !c.signed(how[0]["threeDSReqAuthData"], first.confirmation)
}

// signed reports whether an assertion of Web Authentication is of this credential and for this
// challenge. https://www.w3.org/TR/secure-payment-confirmation/#sctn-verifying-assertion
func (c *credential) signed(data json.RawMessage, challenge string) bool {
	var a struct {
		ID       string `json:"id"`
		Response struct {
			AuthenticatorData string `json:"authenticatorData"`
			ClientDataJSON    string `json:"clientDataJSON"`
			Signature         string `json:"signature"`
		} `json:"response"`
	}
	var client struct {
		Type      string `json:"type"`
		Challenge string `json:"challenge"`
	}
	if json.Unmarshal(data, &a) != nil || json.Unmarshal(decodeURL(a.Response.ClientDataJSON), &client) != nil {
		return false
	}
	digest := sha256.Sum256(decodeURL(a.Response.ClientDataJSON))
	signed := sha256.Sum256(append(decodeURL(a.Response.AuthenticatorData), digest[:]...))
	return a.ID == c.id && client.Type == "payment.get" && challenge != "" && client.Challenge == challenge &&
		ecdsa.VerifyASN1(c.key, signed[:], decodeURL(a.Response.Signature))
}

// decodeURL decodes base64url with or without padding; what is not base64url is nothing.
func decodeURL(text string) []byte {
	b, _ := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	return b
}
