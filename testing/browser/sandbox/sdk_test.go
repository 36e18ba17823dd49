package sandbox

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	gojose "github.com/go-jose/go-jose/v4"
	josecipher "github.com/go-jose/go-jose/v4/cipher"
)

// An appSDK is the SDK of an app, with another implementation of JOSE than the issuer has.
type appSDK struct {
	t       *testing.T
	s       *server
	key     *ecdsa.PrivateKey
	areq    members
	ares    members
	enc     gojose.ContentEncryption
	derived []byte
	url     string
	counter int // sdkCounterStoA
	shown   int // CRes that came
}

// newSDK begins a challenge: the AReq has the SDK's key, and the signed content of the ARes is verified.
func newSDK(t *testing.T, s *server, version, pan string, enc gojose.ContentEncryption, changes members) *appSDK {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	k := &appSDK{t: t, s: s, key: key, enc: enc, areq: s.areq(version, "01", pan).with(changes)}
	k.areq["sdkEphemPubKey"] = publicMembers(t, &key.PublicKey)
	k.ares = s.ask(k.areq)
	if k.ares["transStatus"] != "C" {
		t.Fatalf("no challenge: %v", k.ares)
	}
	k.open(gojose.PS256)
	return k
}

func publicMembers(t *testing.T, key *ecdsa.PublicKey) members {
	t.Helper()
	raw, err := gojose.JSONWebKey{Key: key}.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return read(t, raw)
}

// open verifies acsSignedContent with the issuers' authority, and derives the key of the channel.
func (k *appSDK) open(algorithm gojose.SignatureAlgorithm) {
	k.t.Helper()
	signed, err := gojose.ParseSignedCompact(k.ares["acsSignedContent"].(string), []gojose.SignatureAlgorithm{algorithm})
	if err != nil {
		k.t.Fatal(err)
	}
	head, _, _ := strings.Cut(k.ares["acsSignedContent"].(string), ".")
	sent, _ := read(k.t, unpad(k.t, head))["x5c"].([]any)
	authority, _ := pem.Decode(k.s.box.IssuerCAPEM())
	if len(sent) != 2 || sent[1] != base64.StdEncoding.EncodeToString(authority.Bytes) {
		k.t.Errorf("x5c has %d certificates, want the issuer's and its CA's", len(sent))
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(k.s.box.IssuerCAPEM())
	chains, err := signed.Signatures[0].Protected.Certificates(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil || len(chains[0]) != 2 {
		k.t.Fatalf("the chain of acsSignedContent: %v", err)
	}
	payload, err := signed.Verify(chains[0][0].PublicKey)
	if err != nil {
		k.t.Fatal(err)
	}
	var content struct {
		URL string             `json:"acsURL"`
		ACS gojose.JSONWebKey  `json:"acsEphemPubKey"`
		SDK *gojose.JSONWebKey `json:"sdkEphemPubKey"`
	}
	if err := json.Unmarshal(payload, &content); err != nil {
		k.t.Fatal(err)
	}
	if !k.key.PublicKey.Equal(content.SDK.Key) {
		k.t.Errorf("sdkEphemPubKey is not the SDK's: %s", payload)
	}
	k.url = content.URL
	k.derived = josecipher.DeriveECDHES("", nil, []byte(k.areq["sdkReferenceNumber"].(string)), k.key, content.ACS.Key.(*ecdsa.PublicKey), 32)
}

// creq is the next CReq.
func (k *appSDK) creq(changes members) members {
	m := members{
		"messageType": "CReq", "messageVersion": k.areq["messageVersion"], "threeDSServerTransID": k.areq["threeDSServerTransID"],
		"acsTransID": k.ares["acsTransID"], "sdkTransID": k.areq["sdkTransID"], "sdkCounterStoA": fmt.Sprintf("%03d", k.counter),
	}
	if m["messageVersion"] == "2.3.1" {
		m["oobAppURLInd"] = "03"
	}
	return m.with(changes)
}

// seal encrypts a message for the issuer.
func (k *appSDK) seal(message []byte, kid any) string {
	k.t.Helper()
	key := k.derived
	if k.enc == gojose.A128GCM {
		key = key[:16]
	}
	e, err := gojose.NewEncrypter(k.enc, gojose.Recipient{Algorithm: gojose.DIRECT, Key: key, KeyID: kid.(string)}, nil)
	if err != nil {
		k.t.Fatal(err)
	}
	sealed, err := e.Encrypt(message)
	if err != nil {
		k.t.Fatal(err)
	}
	text, err := sealed.CompactSerialize()
	if err != nil {
		k.t.Fatal(err)
	}
	return text
}

// post sends a text to the issuer.
func (k *appSDK) post(kind, text string) (contentType, answer string) {
	k.t.Helper()
	res, err := http.Post(k.url, kind, strings.NewReader(text))
	if err != nil {
		k.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		k.t.Fatal(err)
	}
	return res.Header.Get("Content-Type"), string(body)
}

// send sends the next CReq and opens the CRes.
func (k *appSDK) send(changes members) members {
	k.t.Helper()
	kind, text := k.post("application/jose; charset=UTF-8", k.seal(k.creq(changes).json(k.t), k.ares["acsTransID"]))
	if !strings.HasPrefix(kind, "application/jose") {
		k.t.Fatalf("%s %s, want a CRes", kind, text)
	}
	k.counter++
	cres, err := k.unseal(text)
	if err != nil {
		k.t.Fatal(err)
	}
	if want := fmt.Sprintf("%03d", k.shown); cres["acsCounterAtoS"] != want ||
		cres["sdkTransID"] != k.areq["sdkTransID"] || cres["messageVersion"] != k.areq["messageVersion"] {
		k.t.Errorf("CRes %v, want counter %s", cres, want)
	}
	k.shown++
	return cres
}

// unseal opens what the issuer encrypted.
func (k *appSDK) unseal(text string) (members, error) {
	sealed, err := gojose.ParseEncryptedCompact(text, []gojose.KeyAlgorithm{gojose.DIRECT}, []gojose.ContentEncryption{k.enc})
	if err != nil {
		return nil, err
	}
	key := k.derived
	if k.enc == gojose.A128GCM {
		key = key[16:]
	}
	plain, err := sealed.Decrypt(key)
	if err != nil {
		return nil, err
	}
	if sealed.Header.KeyID != k.ares["acsTransID"] {
		return nil, fmt.Errorf("kid %q", sealed.Header.KeyID)
	}
	return read(k.t, plain), nil
}

// result is the RReq of the challenge. Package sandbox has tests of what is in it.
func (k *appSDK) result() members { return (<-k.s.got).message }

// showing asks for a user interface.
func showing(face string, types ...string) members {
	return members{"deviceRenderOptions": members{"sdkInterface": face, "sdkUiType": types}}
}
