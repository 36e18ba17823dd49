// Package jose has what an issuer needs of JOSE to talk to the SDK of an app: [Sign] makes signed content, [DeriveKey]
// agrees on a key, and a [Channel] opens what the SDK sends and seals what it gets. EMV 3DS 2.2.0, section 6.2.
package jose

import (
	"bytes"
	"crypto"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// The content encryptions of the protocol.
const (
	A128CBCHS256 = "A128CBC-HS256"
	A128GCM      = "A128GCM"
)

var b64 = base64.RawURLEncoding.Strict()

// Sign returns a compact JWS of a payload, with the certificates of chain in its header: PS256 for an RSA key, ES256
// for one on P-256.
func Sign(key crypto.Signer, chain [][]byte, payload []byte) (string, error) {
	header := struct {
		Algorithm string   `json:"alg"`
		Chain     [][]byte `json:"x5c"` // base64, as encoding/json writes bytes
	}{"ES256", chain}
	_, isRSA := key.Public().(*rsa.PublicKey)
	if isRSA {
		header.Algorithm = "PS256"
	}
	head, err := json.Marshal(header)
	if err != nil {
		return "", err
	}
	text := b64.EncodeToString(head) + "." + b64.EncodeToString(payload)
	digest := sha256.Sum256([]byte(text))
	var signature []byte
	if isRSA {
		signature, err = key.Sign(rand.Reader, digest[:],
			&rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: crypto.SHA256})
	} else if signature, err = key.Sign(rand.Reader, digest[:], crypto.SHA256); err == nil {
		signature, err = fixedSize(signature)
	}
	if err != nil {
		return "", err
	}
	return text + "." + b64.EncodeToString(signature), nil
}

// fixedSize turns an ECDSA signature in ASN.1 into r and s of 32 bytes each, as RFC 7518, section 3.4, specifies.
func fixedSize(signature []byte) ([]byte, error) {
	var parts struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(signature, &parts); err != nil {
		return nil, err
	}
	out := make([]byte, 64)
	parts.R.FillBytes(out[:32])
	parts.S.FillBytes(out[32:])
	return out, nil
}

// A Key is a public key on P-256 as a JWK.
type Key struct {
	Type  string `json:"kty"`
	Curve string `json:"crv"`
	X     string `json:"x"`
	Y     string `json:"y"`
}

// NewKey returns the JWK of a public key on P-256.
func NewKey(public *ecdh.PublicKey) Key {
	point := public.Bytes() // 4, x, y
	return Key{"EC", "P-256", b64.EncodeToString(point[1:33]), b64.EncodeToString(point[33:])}
}

// ecdh returns the key for an agreement. The error says that it is none on P-256.
func (k Key) ecdh() (*ecdh.PublicKey, error) {
	x, errX := b64.DecodeString(k.X)
	y, errY := b64.DecodeString(k.Y)
	if k.Type != "EC" || k.Curve != "P-256" || errX != nil || errY != nil || len(x) != 32 || len(y) != 32 {
		return nil, errors.New("want a JWK with kty EC, crv P-256, and x and y of 32 bytes in base64url")
	}
	return ecdh.P256().NewPublicKey(bytes.Join([][]byte{{4}, x, y}, nil))
}

// keySize is the size of a derived key in bytes.
const keySize = 32

// DeriveKey returns the key that the owner of private shares with that of public: ECDH, then the Concat KDF of
// NIST SP 800-56A with SHA-256, no AlgorithmID, no PartyUInfo, and partyV.
func DeriveKey(private *ecdh.PrivateKey, public Key, partyV string) ([]byte, error) {
	other, err := public.ecdh()
	if err != nil {
		return nil, err
	}
	shared, err := private.ECDH(other)
	if err != nil {
		return nil, err
	}
	var in bytes.Buffer
	number := func(n int) { _ = binary.Write(&in, binary.BigEndian, uint32(n)) } // a bytes.Buffer does not fail
	number(1)                                                                    // the only round
	in.Write(shared)
	number(0) // AlgorithmID
	number(0) // PartyUInfo
	number(len(partyV))
	in.WriteString(partyV)
	number(8 * keySize) // SuppPubInfo
	key := sha256.Sum256(in.Bytes())
	return key[:], nil
}

// A Header is the protected header of a JWE.
type Header struct {
	Algorithm  string `json:"alg"`
	KeyID      string `json:"kid"`
	Encryption string `json:"enc"`
}

// ReadHeader reads the header of a compact JWE. It opens nothing. What could be read is returned even with an error.
func ReadHeader(text string) (h Header, err error) {
	parts := strings.Split(text, ".")
	if len(parts) != 5 {
		return h, errors.New("want the five parts of a compact JWE")
	}
	var in struct {
		Header
		Critical json.RawMessage `json:"crit"`
		Zip      json.RawMessage `json:"zip"`
	}
	raw, err := b64.DecodeString(parts[0])
	if err == nil {
		err = json.Unmarshal(raw, &in)
	}
	if err != nil {
		return h, errors.New("the header is not JSON in base64url")
	}
	h = in.Header
	if in.Critical != nil || in.Zip != nil {
		return h, errors.New("crit and zip have no place in the header")
	}
	if h.Algorithm != "dir" {
		return h, errors.New("alg: want dir")
	}
	if h.Encryption != A128CBCHS256 && h.Encryption != A128GCM {
		return h, fmt.Errorf("enc: want %s or %s", A128CBCHS256, A128GCM)
	}
	return h, nil
}

// A Channel seals and opens the messages of one challenge, at the end of the issuer.
type Channel struct{ Key []byte } // of [DeriveKey]

// Open returns what the SDK has sealed.
func (c Channel) Open(text string) ([]byte, error) {
	h, err := ReadHeader(text)
	if err != nil {
		return nil, err
	}
	parts := strings.Split(text, ".")
	var raw [5][]byte
	for i, part := range parts {
		if raw[i], err = b64.DecodeString(part); err != nil {
			return nil, errors.New("a part is not base64url without padding")
		}
	}
	if len(raw[1]) > 0 {
		return nil, errors.New("alg dir has no encrypted key")
	}
	nonce, sealed, tag := raw[2], raw[3], raw[4]
	if h.Encryption == A128CBCHS256 {
		return openCBC(c.Key, []byte(parts[0]), nonce, sealed, tag)
	}
	aead := newGCM(c.Key[:keySize/2]) // what goes to the ACS has the left half
	if len(nonce) != aead.NonceSize() || len(tag) != aead.Overhead() {
		return nil, errNotOpened
	}
	plain, err := aead.Open(nil, nonce, append(sealed, tag...), []byte(parts[0]))
	if err != nil {
		return nil, errNotOpened
	}
	return plain, nil
}

// errNotOpened says no more than it has to.
var errNotOpened = errors.New("it does not open with the key of the challenge")

// Seal seals a message for the SDK.
func (c Channel) Seal(h Header, plain []byte) string {
	head, _ := json.Marshal(h) // strings alone
	protected := b64.EncodeToString(head)
	var nonce, sealed, tag []byte
	if h.Encryption == A128CBCHS256 {
		nonce, sealed, tag = sealCBC(c.Key, []byte(protected), plain)
	} else {
		aead := newGCM(c.Key[keySize/2:]) // what goes to the SDK has the right half
		nonce = random(aead.NonceSize())
		all := aead.Seal(nil, nonce, plain, []byte(protected))
		sealed, tag = all[:len(all)-aead.Overhead()], all[len(all)-aead.Overhead():]
	}
	return strings.Join(
		[]string{protected, "", b64.EncodeToString(nonce), b64.EncodeToString(sealed), b64.EncodeToString(tag)}, ".")
}

func newGCM(key []byte) cipher.AEAD {
	aead, err := cipher.NewGCM(newAES(key))
	if err != nil {
		panic("jose: " + err.Error()) // AES has the block size that GCM wants
	}
	return aead
}

func newAES(key []byte) cipher.Block {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic("jose: " + err.Error()) // the key has 16 bytes
	}
	return block
}

func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // crypto/rand does not fail
	return b
}

// sealCBC seals as RFC 7518, section 5.2.3, says.
func sealCBC(key, additional, plain []byte) (nonce, sealed, tag []byte) {
	nonce = random(aes.BlockSize)
	padding := aes.BlockSize - len(plain)%aes.BlockSize
	sealed = append(bytes.Clone(plain), bytes.Repeat([]byte{byte(padding)}, padding)...)
	cipher.NewCBCEncrypter(newAES(key[keySize/2:]), nonce).CryptBlocks(sealed, sealed)
	return nonce, sealed, tagCBC(key, additional, nonce, sealed)
}

// openCBC opens what sealCBC has sealed.
func openCBC(key, additional, nonce, sealed, tag []byte) ([]byte, error) {
	if len(nonce) != aes.BlockSize || len(sealed) == 0 || len(sealed)%aes.BlockSize != 0 ||
		!hmac.Equal(tag, tagCBC(key, additional, nonce, sealed)) {
		return nil, errNotOpened
	}
	plain := make([]byte, len(sealed))
	cipher.NewCBCDecrypter(newAES(key[keySize/2:]), nonce).CryptBlocks(plain, sealed)
	padding := int(plain[len(plain)-1])
	if padding == 0 || padding > aes.BlockSize ||
		!bytes.Equal(plain[len(plain)-padding:], bytes.Repeat([]byte{byte(padding)}, padding)) {
		return nil, errNotOpened
	}
	return plain[:len(plain)-padding], nil
}

func tagCBC(key, additional, nonce, sealed []byte) []byte {
	mac := hmac.New(sha256.New, key[:keySize/2])
	mac.Write(additional)
	mac.Write(nonce)
	mac.Write(sealed)
	_ = binary.Write(mac, binary.BigEndian, uint64(8*len(additional))) // a hash does not fail
	return mac.Sum(nil)[:16]
}
