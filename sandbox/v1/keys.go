package v1

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"sync"

	"github.com/openthreeds/threeds/sandbox/internal/pki"
)

// A chain signs the PARes of a scheme: a root, an intermediate authority and
// an issuer, each with an RSA key, since 1.0.2 knows no other.
type chain struct {
	root, intermediate, leaf *x509.Certificate
	key                      *rsa.PrivateKey
}

// A chainName names a chain of the process.
type chainName struct {
	word               string // of the scheme
	isNice, isImpostor bool
}

// chains has a function for each chainName, which makes the chain when it is first called. All sandboxes of a process
// have the same chains: their keys take long to make, and tests have many sandboxes.
var chains sync.Map

// chainOf returns the function that returns a chain.
func chainOf(s Scheme, style style, name chainName) func() *chain {
	made, _ := chains.LoadOrStore(name, sync.OnceValue(func() *chain {
		c, err := newChain(s, style)
		if err != nil {
			panic("sandbox: making the keys of an issuer: " + err.Error()) // crypto/rand does not fail
		}
		return c
	}))
	return made.(func() *chain)
}

// newChain makes one. It takes some fifths of a second.
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
