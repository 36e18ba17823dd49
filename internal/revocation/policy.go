package revocation

import (
	"crypto/x509"
	"errors"
	"time"
)

// A Policy is which certificates are refused for what lists say of them. Nil refuses
// none.
type Policy struct {
	Lists []*List

	// Required refuses a certificate, too, that no list which is valid now is about.
	Required bool
}

// Same reports whether two policies, and the lists in them, are the same.
func (p *Policy) Same(o *Policy) bool {
	if p == nil || o == nil {
		return p == o
	}
	return p.Required == o.Required && same(p.Lists, o.Lists)
}

// An Error is a certificate that is refused.
type Error struct {
	Serial, Issuer string
	Revoked        bool // false: it is not known whether it was
}

func (e *Error) Error() string {
	if e.Revoked {
		return "certificate revoked: serial " + e.Serial + ", issuer " + brief(e.Issuer)
	}
	return "no revocation list that is valid now: serial " + e.Serial + ", issuer " + brief(e.Issuer)
}

var errNoChain = errors.New("no chain of the certificate was verified")

// Check says why none of the chains is good, nil when one is. Each begins with the
// same certificate and ends in an authority that is trusted, and was verified. The
// authority itself is trusted as it is. That a list is old takes nobody off it.
func (p *Policy) Check(chains [][]*x509.Certificate, now time.Time) error {
	if p == nil {
		return nil
	}
	var first *Error
	good := false
	for _, chain := range chains {
		at, err := p.path(chain, now)
		switch {
		case err == nil:
			good = true
		case at == 0 && err.Revoked: // whatever other way there is to it
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

// path says which certificate of a chain is not good, and why.
func (p *Policy) path(chain []*x509.Certificate, now time.Time) (at int, _ *Error) {
	var missing *Error
	for i := range len(chain) - 1 {
		cert, ca := chain[i], chain[i+1]
		covered := false
		for _, l := range p.Lists {
			signed := l.by(ca)
			// Who is named is out though this certificate of the CA may sign no lists: it has
			// another one that may, which the other side need not show.
			if signed.good && l.Has(cert) {
				return i, &Error{serialOf(cert), ca.Subject.String(), true}
			}
			covered = covered || signed.may && l.covers(cert, now)
		}
		if p.Required && !covered && missing == nil {
			at, missing = i, &Error{serialOf(cert), ca.Subject.String(), false}
		}
	}
	return at, missing
}
