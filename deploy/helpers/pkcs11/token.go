package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"

	"github.com/miekg/pkcs11"
)

// Of what wrap makes, the first bytes are the nonce of AES-GCM, and the last 16 are its tag.
const (
	nonceLen = 12
	tagBits  = 128
)

// A token is a session with a token of an HSM.
type token struct {
	module  *pkcs11.Ctx
	session pkcs11.SessionHandle
}

// openToken logs in at the token with a label.
func openToken(path, label, pin string) (*token, error) {
	module := pkcs11.New(path)
	if module == nil {
		return nil, errors.New("the module cannot be loaded")
	}
	if err := module.Initialize(); err != nil {
		return nil, fmt.Errorf("C_Initialize: %w", err)
	}
	slots, err := module.GetSlotList(true)
	if err != nil {
		return nil, fmt.Errorf("C_GetSlotList: %w", err)
	}
	for _, slot := range slots {
		info, err := module.GetTokenInfo(slot)
		if err != nil || info.Label != label {
			continue
		}
		switch {
		case info.Flags&pkcs11.CKF_USER_PIN_LOCKED != 0:
			return nil, describeLogin(pkcs11.Error(pkcs11.CKR_PIN_LOCKED))
		case info.Flags&pkcs11.CKF_USER_PIN_FINAL_TRY != 0:
			return nil, fmt.Errorf("one more wrong PIN locks the token: log in once with another tool, then try again: %w",
				pkcs11.Error(pkcs11.CKR_PIN_LOCKED))
		}
		session, err := module.OpenSession(slot, pkcs11.CKF_SERIAL_SESSION)
		if err != nil {
			return nil, fmt.Errorf("C_OpenSession: %w", err)
		}
		if err := module.Login(session, pkcs11.CKU_USER, pin); err != nil {
			return nil, describeLogin(err)
		}
		return &token{module, session}, nil
	}
	return nil, fmt.Errorf("there is no token with the label %q", label)
}

// refusedPINs say what to do when a token refuses the PIN, by its code. None of them is tried again.
var refusedPINs = map[pkcs11.Error]string{
	pkcs11.CKR_PIN_INCORRECT:            "the PIN is wrong: correct the file",
	pkcs11.CKR_PIN_INVALID:              "the PIN has characters that the token does not take: correct the file",
	pkcs11.CKR_PIN_LEN_RANGE:            "the PIN is too long or too short for the token: correct the file",
	pkcs11.CKR_PIN_EXPIRED:              "the PIN has expired: set a new one with a tool of the HSM",
	pkcs11.CKR_PIN_LOCKED:               "the PIN is locked: the security officer has to set a new one",
	pkcs11.CKR_USER_PIN_NOT_INITIALIZED: "the token has no PIN of a user: the security officer has to set one",
}

// describeLogin returns the error of a login with what to do.
func describeLogin(err error) error {
	if code, isCode := errors.AsType[pkcs11.Error](err); isCode && refusedPINs[code] != "" {
		return fmt.Errorf("C_Login: %w (%s; then restart threeds)", err, refusedPINs[code])
	}
	return fmt.Errorf("C_Login: %w", err)
}

// isRefusedPIN reports whether an error means that the token refuses the PIN.
func isRefusedPIN(err error) bool {
	code, isCode := errors.AsType[pkcs11.Error](err)
	return isCode && refusedPINs[code] != ""
}

// isGone reports whether an error means that the session is of no more use.
func isGone(err error) bool {
	for _, code := range []pkcs11.Error{
		pkcs11.CKR_SESSION_HANDLE_INVALID, pkcs11.CKR_SESSION_CLOSED, pkcs11.CKR_DEVICE_REMOVED, pkcs11.CKR_DEVICE_ERROR,
		pkcs11.CKR_TOKEN_NOT_PRESENT, pkcs11.CKR_USER_NOT_LOGGED_IN, pkcs11.CKR_CRYPTOKI_NOT_INITIALIZED,
	} {
		if errors.Is(err, code) {
			return true
		}
	}
	return false
}

// find returns the one object of a class that has a label.
func (t *token) find(class uint, label string) (pkcs11.ObjectHandle, error) {
	err := t.module.FindObjectsInit(t.session,
		[]*pkcs11.Attribute{pkcs11.NewAttribute(pkcs11.CKA_CLASS, class), pkcs11.NewAttribute(pkcs11.CKA_LABEL, label)})
	if err != nil {
		return 0, fmt.Errorf("C_FindObjectsInit: %w", err)
	}
	found, _, err := t.module.FindObjects(t.session, 2)
	if err = errors.Join(err, t.module.FindObjectsFinal(t.session)); err != nil {
		return 0, fmt.Errorf("C_FindObjects: %w", err)
	}
	if len(found) != 1 {
		kind := map[uint]string{
			pkcs11.CKO_SECRET_KEY: "secret key", pkcs11.CKO_PRIVATE_KEY: "private key", pkcs11.CKO_PUBLIC_KEY: "public key",
		}[class]
		return 0, fmt.Errorf("the token has %s of this label: want one %s",
			map[bool]string{true: "none", false: "several"}[len(found) == 0], kind)
	}
	return found[0], nil
}

// wrap encrypts a key with AES-GCM under a secret key of the token.
func (t *token) wrap(label string, key, context []byte) ([]byte, error) {
	by, err := t.find(pkcs11.CKO_SECRET_KEY, label)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, nonceLen)
	rand.Read(nonce) // Read returns no error: without random bytes the process ends
	params := pkcs11.NewGCMParams(nonce, context, tagBits)
	defer params.Free()
	if err := t.module.EncryptInit(t.session, []*pkcs11.Mechanism{pkcs11.NewMechanism(pkcs11.CKM_AES_GCM, params)},
		by); err != nil {
		return nil, fmt.Errorf("C_EncryptInit: %w", err)
	}
	wrapped, err := t.module.Encrypt(t.session, key)
	if err != nil {
		return nil, fmt.Errorf("C_Encrypt: %w", err)
	}
	return append(params.IV(), wrapped...), nil // an HSM may have chosen a nonce of its own
}

// unwrap decrypts what wrap has made.
func (t *token) unwrap(label string, wrapped, context []byte) ([]byte, error) {
	by, err := t.find(pkcs11.CKO_SECRET_KEY, label)
	if err != nil {
		return nil, err
	}
	if len(wrapped) <= nonceLen+tagBits/8 {
		return nil, errors.New("this was not wrapped by this helper")
	}
	params := pkcs11.NewGCMParams(wrapped[:nonceLen], context, tagBits)
	defer params.Free()
	if err := t.module.DecryptInit(t.session, []*pkcs11.Mechanism{pkcs11.NewMechanism(pkcs11.CKM_AES_GCM, params)},
		by); err != nil {
		return nil, fmt.Errorf("C_DecryptInit: %w", err)
	}
	key, err := t.module.Decrypt(t.session, wrapped[nonceLen:])
	if err != nil {
		return nil, fmt.Errorf("C_Decrypt: %w (another key has wrapped this, or for another file)", err)
	}
	return key, nil
}

// public returns a public key of the token as PKIX, in DER.
func (t *token) public(label string) ([]byte, error) {
	key, err := t.publicKey(label)
	if err != nil {
		return nil, err
	}
	return x509.MarshalPKIXPublicKey(key)
}

// curves are those of ECDSA keys, by their OIDs.
var curves = map[string]elliptic.Curve{
	"1.2.840.10045.3.1.7": elliptic.P256(), "1.3.132.0.34": elliptic.P384(), "1.3.132.0.35": elliptic.P521(),
}

func (t *token) publicKey(label string) (crypto.PublicKey, error) {
	object, err := t.find(pkcs11.CKO_PUBLIC_KEY, label)
	if err != nil {
		return nil, err
	}
	read := func(kinds ...uint) ([][]byte, error) {
		var wanted []*pkcs11.Attribute
		for _, kind := range kinds {
			wanted = append(wanted, pkcs11.NewAttribute(kind, nil))
		}
		got, err := t.module.GetAttributeValue(t.session, object, wanted)
		if err != nil {
			return nil, fmt.Errorf("C_GetAttributeValue: %w", err)
		}
		var values [][]byte
		for _, attribute := range got {
			values = append(values, attribute.Value)
		}
		return values, nil
	}
	if rsaKey, err := read(pkcs11.CKA_MODULUS, pkcs11.CKA_PUBLIC_EXPONENT); err == nil {
		exponent := new(big.Int).SetBytes(rsaKey[1])
		return &rsa.PublicKey{N: new(big.Int).SetBytes(rsaKey[0]), E: int(exponent.Int64())}, nil
	}
	ecKey, err := read(pkcs11.CKA_EC_PARAMS, pkcs11.CKA_EC_POINT)
	if err != nil {
		return nil, err
	}
	var oid asn1.ObjectIdentifier
	var point []byte
	if _, err := asn1.Unmarshal(ecKey[0], &oid); err != nil || curves[oid.String()] == nil {
		return nil, errors.New("the curve of the key is none of P-256, P-384 and P-521")
	}
	if _, err := asn1.Unmarshal(ecKey[1], &point); err != nil {
		return nil, errors.New("the point of the key cannot be read")
	}
	return ecdsa.ParseUncompressedPublicKey(curves[oid.String()], point)
}

// A hashKind is how PKCS #11 and PKCS #1 call a hash.
type hashKind struct {
	mechanism, mgf uint
	prefix         string // the bytes of a DigestInfo that come before the digest
}

var hashes = map[crypto.Hash]hashKind{
	crypto.SHA256: {pkcs11.CKM_SHA256, pkcs11.CKG_MGF1_SHA256,
		"\x30\x31\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01\x05\x00\x04\x20"},
	crypto.SHA384: {pkcs11.CKM_SHA384, pkcs11.CKG_MGF1_SHA384,
		"\x30\x41\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x02\x05\x00\x04\x30"},
	crypto.SHA512: {pkcs11.CKM_SHA512, pkcs11.CKG_MGF1_SHA512,
		"\x30\x51\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x03\x05\x00\x04\x40"},
}

// sign signs a digest with a private key of the token.
func (t *token) sign(label, scheme string, hash crypto.Hash, digest []byte) ([]byte, error) {
	key, err := t.find(pkcs11.CKO_PRIVATE_KEY, label)
	if err != nil {
		return nil, err
	}
	if len(digest) != hash.Size() {
		return nil, errors.New("the digest has not the length of its hash")
	}
	var mechanism *pkcs11.Mechanism
	switch kind := hashes[hash]; scheme {
	case "rsa-pss":
		mechanism = pkcs11.NewMechanism(pkcs11.CKM_RSA_PKCS_PSS,
			pkcs11.NewPSSParams(kind.mechanism, kind.mgf, uint(hash.Size())))
	case "rsa-pkcs1":
		mechanism = pkcs11.NewMechanism(pkcs11.CKM_RSA_PKCS, nil)
		digest = append([]byte(kind.prefix), digest...)
	case "ecdsa":
		mechanism = pkcs11.NewMechanism(pkcs11.CKM_ECDSA, nil)
	default:
		return nil, errors.New("unknown scheme")
	}
	if err := t.module.SignInit(t.session, []*pkcs11.Mechanism{mechanism}, key); err != nil {
		return nil, fmt.Errorf("C_SignInit: %w", err)
	}
	signature, err := t.module.Sign(t.session, digest)
	if err != nil {
		return nil, fmt.Errorf("C_Sign: %w", err)
	}
	if scheme != "ecdsa" {
		return signature, nil
	}
	half := len(signature) / 2
	return asn1.Marshal(struct {
		R, S *big.Int
	}{new(big.Int).SetBytes(signature[:half]), new(big.Int).SetBytes(signature[half:])})
}

// A signer is a private key of the token.
type signer struct {
	token  *token
	label  string
	public crypto.PublicKey
}

func (s *signer) Public() crypto.PublicKey { return s.public }

func (s *signer) Sign(_ io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	scheme := "ecdsa"
	if _, isRSA := s.public.(*rsa.PublicKey); isRSA {
		scheme = "rsa-pkcs1"
	}
	return s.token.sign(s.label, scheme, opts.HashFunc(), digest)
}

// printRequest prints a certificate signing request of a key.
func (t *token) printRequest(label, name string) error {
	public, err := t.publicKey(label)
	if err != nil {
		return err
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, &signer{t, label, public})
	if err != nil {
		return err
	}
	return pem.Encode(os.Stdout, &pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}
