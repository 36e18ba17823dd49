package v1

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"fmt"

	"github.com/openthreeds/threeds/sandbox/internal/pki"
)

// A chain signs the PARes of a scheme: a root, an intermediate authority and
// an issuer, each with an RSA key, since 1.0.2 knows no other.
type chain struct {
	root, intermediate, leaf *x509.Certificate
	key                      *rsa.PrivateKey
}

// newChain makes one. It takes a fifth of a second, so that chains are made
// when they are wanted.
func newChain(s Scheme, style style) (*chain, error) {
	var c chain
	var keys [3]*rsa.PrivateKey
	for i := range keys {
		var err error
		if keys[i], err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			return nil, err
		}
	}
	c.key = keys[2]
	root := pki.AuthorityTemplate(fmt.Sprintf("Sandbox %s 1.0.2 Root CA", s.Name))
	middle := pki.AuthorityTemplate(fmt.Sprintf("Sandbox %s 1.0.2 Issuing CA", s.Name))
	leaf := pki.Template("acs." + s.Word + ".sandbox.test")
	leaf.KeyUsage, leaf.ExtKeyUsage = style.usage, style.extended
	for _, step := range []struct {
		into             **x509.Certificate
		template, parent *x509.Certificate
		key, by          *rsa.PrivateKey
	}{
		{&c.root, root, root, keys[0], keys[0]},
		{&c.intermediate, middle, root, keys[1], keys[0]},
		{&c.leaf, leaf, middle, keys[2], keys[1]},
	} {
		var err error
		if *step.into, err = pki.Sign(step.template, step.parent, step.key.Public(), step.by); err != nil {
			return nil, err
		}
	}
	return &c, nil
}
