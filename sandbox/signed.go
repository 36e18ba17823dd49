package sandbox

import (
	"crypto"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"encoding/json"
	"sync"

	"github.com/openthreeds/threeds/sandbox/internal/jose"
)

// openChannel makes acsSignedContent, which is what the SDK needs to talk to the issuer, and keeps the key that the SDK
// derives of it. An sdkEphemPubKey that is no key on P-256 has no channel: its CReqs do not open.
func (t *transaction) openChannel() string {
	ephemeral, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		panic("sandbox: making a key: " + err.Error()) // P-256 with the system's randomness
	}
	var public jose.Key
	if json.Unmarshal(t.areq["sdkEphemPubKey"], &public) == nil {
		if key, err := jose.DeriveKey(ephemeral, public, t.areq.text("sdkReferenceNumber")); err == nil {
			t.sdk = &sdkChallenge{Channel: jose.Channel{Key: key}, ui: readMessage(t.render.Bytes()).text("acsUiTemplate")}
		}
	}
	content := new(object).
		Put("acsEphemPubKey", jose.NewKey(ephemeral.PublicKey())).
		Put("sdkEphemPubKey", t.areq["sdkEphemPubKey"]).
		Put("acsURL", t.box.acs.url+sdkPath)
	signer := t.box.certs.signer
	if !t.fault.Is("ACS", "es256") {
		signer = t.box.rsaSigner()
	}
	text, err := jose.Sign(signer.PrivateKey.(crypto.Signer), signer.Certificate, content.Bytes())
	if err != nil {
		panic("sandbox: signing: " + err.Error()) // with keys of our own
	}
	return text
}

// rsaKey is the key of all certificates for PS256. It is made when it is first needed, because that takes long.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic("sandbox: making a key: " + err.Error()) // with the system's randomness
	}
	return key
})

// rsaSigner is the certificate that signs with PS256, and its key.
func (s *Sandbox) rsaSigner() tls.Certificate {
	s.rsaOnce.Do(func() {
		var err error
		if s.rsaCert, err = s.certs.issuers.IssueFor(rsaKey(), "acs.sandbox.test"); err != nil {
			panic("sandbox: issuing a certificate: " + err.Error()) // with keys of our own
		}
	})
	return s.rsaCert
}
