package keyhelper

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"io"
)

// The schemes of signatures.
const (
	RSAPSS   = "rsa-pss"   // the salt is as long as the hash
	RSAPKCS1 = "rsa-pkcs1" // version 1.5
	ECDSA    = "ecdsa"     // the signature is in ASN.1
)

// A signer signs with a key of a helper.
type signer struct {
	helper *Helper
	label  string
	public crypto.PublicKey
}

// Signer returns what signs with the private key that has a label, an RSA or ECDSA key. It asks the helper for the
// public key.
func (h *Helper) Signer(label string) (crypto.Signer, error) {
	der, err := h.call(Request{Verb: Public, Key: label}, func(der []byte) error {
		_, err := parsePublic(der)
		return err
	})
	if err != nil {
		return nil, err
	}
	public, err := parsePublic(der)
	return &signer{h, label, public}, err
}

// parsePublic reads a public key.
func parsePublic(der []byte) (crypto.PublicKey, error) {
	public, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, errors.New("the answer is not a public key (PKIX, in DER)")
	}
	switch public.(type) {
	case *rsa.PublicKey, *ecdsa.PublicKey:
		return public, nil
	}
	return nil, errors.New("the key is neither RSA nor ECDSA")
}

// Public implements [crypto.Signer].
func (s *signer) Public() crypto.PublicKey { return s.public }

// Sign implements [crypto.Signer]. What the helper returns is checked.
func (s *signer) Sign(_ io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	hash := opts.HashFunc()
	if !hash.Available() || len(digest) != hash.Size() {
		return nil, errors.New("key helper: what is to be signed is not the digest of a known hash")
	}
	digest = bytes.Clone(digest) // a signature that fails is asked for again later
	scheme, isValid := ECDSA, func([]byte) bool { return false }
	switch public := s.public.(type) {
	case *ecdsa.PublicKey:
		isValid = func(signature []byte) bool { return ecdsa.VerifyASN1(public, digest, signature) }
	case *rsa.PublicKey:
		pss, isPSS := opts.(*rsa.PSSOptions)
		if !isPSS {
			scheme = RSAPKCS1
			isValid = func(signature []byte) bool { return rsa.VerifyPKCS1v15(public, hash, digest, signature) == nil }
			break
		}
		if pss.SaltLength != rsa.PSSSaltLengthEqualsHash && pss.SaltLength != hash.Size() {
			return nil, errors.New("key helper: the salt of a signature has to be as long as its hash")
		}
		scheme = RSAPSS
		isValid = func(signature []byte) bool { return rsa.VerifyPSS(public, hash, digest, signature, pss) == nil }
	}
	r := Request{Verb: Sign, Key: s.label, Data: digest, Hash: hash.String(), Scheme: scheme}
	return s.helper.call(r, func(signature []byte) error {
		if !isValid(signature) {
			return errors.New("the signature is not valid")
		}
		return nil
	})
}
