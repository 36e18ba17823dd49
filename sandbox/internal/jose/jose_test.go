package jose_test

import (
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"

	gojose "github.com/go-jose/go-jose/v4"
	josecipher "github.com/go-jose/go-jose/v4/cipher"

	"github.com/openthreeds/threeds/sandbox/internal/jose"
)

// TestSignedContentOpensElsewhere: go-jose verifies both kinds of signature, and refuses each with a changed payload.
func TestSignedContentOpensElsewhere(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for algorithm, key := range map[gojose.SignatureAlgorithm]crypto.Signer{gojose.PS256: rsaKey, gojose.ES256: ecKey} {
		text, err := jose.Sign(key, nil, []byte(`{"acsURL":"https://acs.example"}`))
		if err != nil {
			t.Fatal(err)
		}
		signed, err := gojose.ParseSignedCompact(text, []gojose.SignatureAlgorithm{algorithm})
		if err != nil {
			t.Fatalf("%s: %v", algorithm, err)
		}
		if payload, err := signed.Verify(key.Public()); err != nil || string(payload) != `{"acsURL":"https://acs.example"}` {
			t.Errorf("%s: %q, %v", algorithm, payload, err)
		}
		parts := strings.Split(text, ".")
		if algorithm == gojose.PS256 { // with a salt as long as the hash, which not everybody verifies
			digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
			signature, err := base64.RawURLEncoding.DecodeString(parts[2])
			if err != nil {
				t.Fatal(err)
			}
			if err := rsa.VerifyPSS(&rsaKey.PublicKey, crypto.SHA256, digest[:], signature, &rsa.PSSOptions{SaltLength: 32}); err != nil {
				t.Errorf("%s: %v", algorithm, err)
			}
		}
		other, err := gojose.ParseSignedCompact(parts[0]+".e30."+parts[2], []gojose.SignatureAlgorithm{algorithm})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.Verify(key.Public()); err == nil {
			t.Errorf("%s: a changed payload is verified", algorithm)
		}
	}
}

// TestDerivedKeyIsThatOfOthers: the key is that of go-jose's own derivation, on both sides.
func TestDerivedKeyIsThatOfOthers(t *testing.T) {
	acs, sdk := newKey(t), newKey(t)
	got, err := jose.DeriveKey(ecdhOf(t, acs), jose.NewKey(ecdhOf(t, sdk).PublicKey()), "3DS_LOA_SDK_1")
	if err != nil {
		t.Fatal(err)
	}
	if want := josecipher.DeriveECDHES("", nil, []byte("3DS_LOA_SDK_1"), sdk, &acs.PublicKey, 32); string(got) != string(want) {
		t.Errorf("%x, want %x", got, want)
	}
	if same, _ := jose.DeriveKey(ecdhOf(t, acs), jose.NewKey(ecdhOf(t, sdk).PublicKey()), "3DS_LOA_SDK_2"); string(same) == string(got) {
		t.Error("the reference number of the SDK does not change the key")
	}
	good := jose.NewKey(ecdhOf(t, sdk).PublicKey())
	for name, wrong := range map[string]jose.Key{
		"curve": {Type: "EC", Curve: "P-384", X: good.X, Y: good.Y}, "kind": {Type: "RSA", Curve: "P-256", X: good.X, Y: good.Y},
		"short": {Type: "EC", Curve: "P-256", X: good.X[:40], Y: good.Y}, "not on the curve": {Type: "EC", Curve: "P-256", X: good.Y, Y: good.X},
	} {
		if _, err := jose.DeriveKey(ecdhOf(t, acs), wrong, "x"); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// TestChannelWithAnotherLibrary: messages go to and from go-jose in both encryptions, and none
// opens with a byte changed.
func TestChannelWithAnotherLibrary(t *testing.T) {
	key := []byte("0123456789abcdefFEDCBA9876543210")
	c := jose.Channel{Key: key}
	const message = `{"messageType":"CReq"}`
	for encryption, keys := range map[gojose.ContentEncryption]struct{ toACS, toSDK []byte }{
		gojose.A128CBC_HS256: {key, key}, gojose.A128GCM: {key[:16], key[16:]},
	} {
		text := sealElsewhere(t, encryption, keys.toACS, message)
		if got, err := c.Open(text); err != nil || string(got) != message {
			t.Errorf("%s: opened %q, %v", encryption, got, err)
		}
		for i := range text {
			changed := []byte(text)
			if changed[i] = 'A'; text[i] == 'A' {
				changed[i] = 'B'
			}
			if got, err := c.Open(string(changed)); err == nil {
				t.Errorf("%s: opened with byte %d changed: %q", encryption, i, got)
			}
		}
		sealed, err := gojose.ParseEncryptedCompact(c.Seal(jose.Header{Algorithm: "dir", KeyID: "id", Encryption: string(encryption)}, []byte(message)),
			[]gojose.KeyAlgorithm{gojose.DIRECT}, []gojose.ContentEncryption{encryption})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := sealed.Decrypt(keys.toSDK); err != nil || string(got) != message || sealed.Header.KeyID != "id" {
			t.Errorf("%s: the other library opened %q, %v", encryption, got, err)
		}
	}
	for _, text := range []string{"", "a.b.c", "e30....", "!.a.b.c.d", sealElsewhere(t, gojose.A256GCM, key, message)} {
		if _, err := c.Open(text); err == nil {
			t.Errorf("%q is opened", text)
		}
	}
}

// TestHeaderHasNothingElse: what changes how a message is read is refused, though its tag is good.
func TestHeaderHasNothingElse(t *testing.T) {
	key := []byte("0123456789abcdefFEDCBA9876543210")
	block, err := aes.NewCipher(key[:16])
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	text64 := base64.RawURLEncoding.EncodeToString
	for _, test := range []struct {
		header, encryptedKey string
		opens                bool
	}{
		{`{"alg":"dir","kid":"id","enc":"A128GCM"}`, "", true},
		{`{"alg":"dir","kid":"id","enc":"A128GCM","typ":"JOSE"}`, "", true},
		{`{"alg":"dir","kid":"id","enc":"A128GCM","zip":"DEF"}`, "", false},
		{`{"alg":"dir","kid":"id","enc":"A128GCM","crit":["exp"],"exp":1}`, "", false},
		{`{"alg":"A128KW","kid":"id","enc":"A128GCM"}`, "", false},
		{`{"alg":"dir","kid":"id","enc":"A128GCM"}`, "AAAA", false},
	} {
		head := text64([]byte(test.header))
		sealed := gcm.Seal(nil, make([]byte, 12), []byte("{}"), []byte(head))
		text := strings.Join([]string{head, test.encryptedKey, text64(make([]byte, 12)), text64(sealed[:2]), text64(sealed[2:])}, ".")
		if _, err := (jose.Channel{Key: key}).Open(text); (err == nil) != test.opens {
			t.Errorf("%s with the encrypted key %q: %v", test.header, test.encryptedKey, err)
		}
		if h, _ := jose.ReadHeader(text); h.KeyID != "id" {
			t.Errorf("%s: kid %q", test.header, h.KeyID)
		}
	}
}

func sealElsewhere(t *testing.T, encryption gojose.ContentEncryption, key []byte, plain string) string {
	t.Helper()
	e, err := gojose.NewEncrypter(encryption, gojose.Recipient{Algorithm: gojose.DIRECT, Key: key, KeyID: "id"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := e.Encrypt([]byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	text, err := sealed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func ecdhOf(t *testing.T, key *ecdsa.PrivateKey) *ecdh.PrivateKey {
	t.Helper()
	k, err := key.ECDH()
	if err != nil {
		t.Fatal(err)
	}
	return k
}
