package certs

import (
	"crypto/x509"
	"errors"
	"slices"
	"time"
)

// RevocationPolicy says which certificates are refused because of revocation lists. A nil policy refuses none.
type RevocationPolicy struct {
	Lists []*RevocationList

	// Required refuses also a certificate that is in the scope of no list valid now.
	Required bool
}

// Same reports whether two policies, and the lists in them, are the same.
func (p *RevocationPolicy) Same(o *RevocationPolicy) bool {
	if p == nil || o == nil {
		return p == o
	}
	hasSameContent := func(a, b *RevocationList) bool { return a.digest == b.digest }
	return p.Required == o.Required && slices.EqualFunc(p.Lists, o.Lists, hasSameContent)
}

// RevocationError says that a certificate is refused, and why.
type RevocationError struct {
	Serial, Issuer string
	Revoked        bool // false means that no list says whether it was revoked
}

func (e *RevocationError) Error() string {
	if e.Revoked {
		return "certificate revoked: serial " + e.Serial + ", issuer " + shortName(e.Issuer)
	}
	return "no revocation list that is valid now: serial " + e.Serial + ", issuer " + shortName(e.Issuer)
}

var errNoChain = errors.New("no chain of the certificate was verified")

// Check returns nil if one of the chains is good, else why none is. Each chain must be verified, begin with the same
// certificate and end in a trusted root. The root itself is not checked. A certificate on a list stays revoked when the
// list is out of date.
func (p *RevocationPolicy) Check(chains [][]*x509.Certificate, now time.Time) error {
	if p == nil {
		return nil
	}
	var first *RevocationError
	good := false
	for _, chain := range chains {
		at, err := p.checkChain(chain, now)
		switch {
		case err == nil:
			good = true
		case at == 0 && err.Revoked: // no other chain can help: they all begin with this certificate
			return err
		case first == nil || err.Revoked && !first.Revoked:
			first = err
		}
	}
	switch {
	case good:
		return nil
	case first == nil:
		return errNoChain
	}
	return first
}

// checkChain returns the position of the certificate of a chain that is refused, and why; a nil
// error means that none is.
func (p *RevocationPolicy) checkChain(chain []*x509.Certificate, now time.Time) (at int, _ *RevocationError) {
	var missing *RevocationError
	for i := range len(chain) - 1 {
		cert, ca := chain[i], chain[i+1]
		covered := false
		for _, l := range p.Lists {
			signed := l.signatureOf(ca)
			// A certificate on the list is revoked even if this certificate of the CA may sign no lists: the CA has
			// another one that may, which the other side need not show.
			if signed.isGood && l.Has(cert) {
				return i, &RevocationError{serialOf(cert), ca.Subject.String(), true}
			}
			covered = covered || signed.isAllowed && l.covers(cert, now)
		}
		if p.Required && !covered && missing == nil {
			at, missing = i, &RevocationError{serialOf(cert), ca.Subject.String(), false}
		}
	}
	return at, missing
}
