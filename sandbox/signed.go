package sandbox

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
)

// signedContent is acsSignedContent: what the SDK needs to talk to the issuer,
// as a compact JWS signed with ES256 by a certificate of the issuers' authority.
// The address in it is not answered, there is no SDK in the sandbox.
func (s *Sandbox) signedContent(sdkKey json.RawMessage) string {
	ephemeral, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic("sandbox: making a key: " + err.Error()) // P-256 with the system's randomness
	}
	chain := make([]string, 0, 2)
	for _, der := range s.certs.signer.Certificate {
		chain = append(chain, base64.StdEncoding.EncodeToString(der))
	}
	header := new(object).put("alg", "ES256").put("x5c", chain)
	content := new(object).
		put("acsEphemPubKey", publicJWK(&ephemeral.PublicKey)).
		put("sdkEphemPubKey", sdkKey).
		put("acsURL", s.acs.url+sdkPath)
	b64 := base64.RawURLEncoding
	signed := b64.EncodeToString(header.bytes()) + "." + b64.EncodeToString(content.bytes())
	return signed + "." + b64.EncodeToString(s.sign(signed))
}

// sign makes the signature that JWS wants: r and s, 32 bytes each.
func (s *Sandbox) sign(text string) []byte {
	hash := sha256.Sum256([]byte(text))
	key := s.certs.signer.PrivateKey.(*ecdsa.PrivateKey)
	x, y, err := ecdsa.Sign(rand.Reader, key, hash[:])
	if err != nil {
		panic("sandbox: signing: " + err.Error()) // as above
	}
	out := make([]byte, 64)
	x.FillBytes(out[:32])
	y.FillBytes(out[32:])
	return out
}

func publicJWK(key *ecdsa.PublicKey) *object {
	point, err := key.Bytes() // 4, x, y
	if err != nil {
		panic("sandbox: encoding a key: " + err.Error())
	}
	return new(object).
		put("kty", "EC").
		put("crv", "P-256").
		put("x", base64.RawURLEncoding.EncodeToString(point[1:33])).
		put("y", base64.RawURLEncoding.EncodeToString(point[33:]))
}
