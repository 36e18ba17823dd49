package main

import (
	"crypto/x509"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/revocation"
)

// required complains where lists are required and there are none.
func (l *loader) required(f crlFile, word, at string) {
	if word == "required" && f.File == "" {
		l.fault(at+".revocation", "needs crls (without a list every certificate would be refused)")
	}
}

// crls reads the revocation lists of a directory. One that is out of date is a
// warning, though certificates that are start nothing: lists are by somebody else, go
// out of date within days, and a node that does not start, or goes on with older
// ones, is no safer. With required, what only such a list is about is refused.
func (l *loader) crls(f *crlFile, word, at string, now time.Time, cas ...*caFile) {
	path := at + ".crls"
	data, ok := l.open(f.File, path)
	if !ok {
		return
	}
	var err error
	if f.Lists, err = revocation.Parse(data, l.known...); err != nil {
		l.fault(path, "%v", err)
		return
	}
	l.known = append(l.known, f.Lists...) // several directories may have the same
	var all []*x509.Certificate
	for _, ca := range cas {
		all = append(all, ca.Certs...)
	}
	for i, list := range f.Lists {
		l.crl(list, i+1, word == "required", path, all, now)
	}
	for _, ca := range cas {
		l.withoutRevoked(ca, f.Lists, path, all, now)
	}
}

// crl looks at one of the lists, among the CAs that are trusted.
func (l *loader) crl(list *revocation.List, n int, required bool, path string, cas []*x509.Certificate, now time.Time) {
	l.config.due.add(path, list)
	warn := func(format string, args ...any) {
		l.warnings = append(l.warnings, l.note(path, format, args...))
	}
	switch {
	case slices.ContainsFunc(cas, list.SignedBy):
	case slices.ContainsFunc(cas, list.Names):
		l.fault(path, "list %d of the file is not signed by the CA whose name it has, or that may not sign lists", n)
	default: // of one below them, which only a handshake shows
		warn("list %d of the file is by none of the CAs that are configured: it counts where the other side shows the certificate of %s", n, list.Issuer())
	}
	var short string
	if required {
		short = ", which is not enough for revocation: required"
	}
	const minute = "2006-01-02 15:04Z"
	switch {
	case now.Before(list.This):
		warn("list %d of the file is not valid before %s%s", n, list.This.UTC().Format(minute), short)
	case now.After(list.Next):
		warn("list %d of the file is out of date since %s%s", n, list.Next.UTC().Format(minute), short)
	}
}

// withoutRevoked trusts no CA any more that another one of those that are configured
// has revoked: nothing above it is looked at in a handshake. It is no fault, or the
// list that says so would not be taken up.
func (l *loader) withoutRevoked(f *caFile, lists []*revocation.List, path string, cas []*x509.Certificate, now time.Time) {
	named := revocation.Policy{Lists: lists}
	revoked := func(cert *x509.Certificate) bool {
		return slices.ContainsFunc(cas, func(by *x509.Certificate) bool {
			return !by.Equal(cert) && cert.CheckSignatureFrom(by) == nil && named.Check([][]*x509.Certificate{{cert, by}}, now) != nil
		})
	}
	kept := slices.DeleteFunc(slices.Clone(f.Certs), revoked)
	if len(kept) == len(f.Certs) {
		return
	}
	for _, cert := range f.Certs {
		if !slices.ContainsFunc(kept, cert.Equal) {
			l.warnings = append(l.warnings, l.note(path, "the CA %s was revoked and is not trusted: take it out of %s", cert.Subject, f.File))
		}
	}
	f.Certs, f.Pool = kept, poolOf(kept)
}

// lists are all that a configuration has.
func (c *config) lists() (all []*revocation.List) {
	for _, d := range c.Directories {
		all = append(all, d.CRLs.Lists...)
	}
	for _, d := range c.V1 {
		all = append(all, d.CRLs.Lists...)
	}
	return all
}
