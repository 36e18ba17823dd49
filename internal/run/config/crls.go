package config

import (
	"bytes"
	"crypto/x509"
	"slices"
	"time"

	"github.com/openthreeds/threeds/internal/peers/certs"
)

// requireCRLs adds a fault where lists are required and none is configured.
func (l *loader) requireCRLs(f CRLFile, word, at string) {
	if word == "required" && f.File == "" {
		l.fault(at+".revocation", "needs crls (without a list every certificate would be refused)")
	}
}

// loadCRLs reads the revocation lists of a directory. A list that is out of date is only a warning. Another party
// publishes the lists, and they are valid for days. A node that does not start, or goes on with an older list, is no
// safer. With revocation: required, a certificate is refused if only outdated lists cover it.
func (l *loader) loadCRLs(f *CRLFile, word, at string, now time.Time, cas ...*CAFile) {
	path := at + ".crls"
	data, ok := l.openFile(f.File, path)
	if !ok {
		return
	}
	var err error
	if f.Lists, err = certs.ParseRevocationLists(data, l.knownLists...); err != nil {
		l.fault(path, "%v", err)
		return
	}
	l.knownLists = append(l.knownLists, f.Lists...) // several directories may have the same
	var all []*x509.Certificate
	for _, ca := range cas {
		all = append(all, ca.Certs...)
	}
	for i, list := range f.Lists {
		l.checkCRL(list, i+1, word == "required", path, all, now)
	}
	out := revokedCAs(all, f.Lists, now)
	said := map[string]bool{}
	for _, ca := range cas {
		if !said[ca.File] {
			l.checkTrustedCAs(ca, f.Lists, word == "required", out, path)
		}
		said[ca.File] = true
		ca.Certs = slices.DeleteFunc(ca.Certs, func(cert *x509.Certificate) bool { return out[string(cert.Raw)] != "" })
		ca.Pool = newPool(ca.Certs)
	}
}

// checkCRL checks one list against the CAs that are trusted.
func (l *loader) checkCRL(list *certs.RevocationList, n int, required bool, path string, cas []*x509.Certificate,
	now time.Time) {
	addTerm(l.config.ListTerms, path, list)
	switch {
	case slices.ContainsFunc(cas, list.SignedBy):
	case slices.ContainsFunc(cas, list.HasIssuer):
		l.fault(path, "list %d of the file is not signed by the CA whose name it has, or that may not sign lists", n)
	default: // of one below them, which only a handshake shows
		l.warn(path,
			"list %d of the file is by none of the CAs that are configured: it counts where the other side shows the certificate of %s",
			n, list.Issuer())
	}
	var short string
	if required {
		short = ", which is not enough for revocation: required"
	}
	const minute = "2006-01-02 15:04Z"
	switch {
	case now.Before(list.This):
		l.warn(path, "list %d of the file is not valid before %s%s", n, list.This.UTC().Format(minute), short)
	case now.After(list.Next):
		l.warn(path, "list %d of the file is out of date since %s%s", n, list.Next.UTC().Format(minute), short)
	}
}

// checkTrustedCAs checks the CAs of a file against the lists. A CA that was revoked is a
// warning: as a fault it would keep the list from being used. Where lists are required, one
// of them must be by one of the CAs, since each chain ends in one.
func (l *loader) checkTrustedCAs(f *CAFile, lists []*certs.RevocationList, required bool, out map[string]string,
	path string) {
	listed := false
	for _, cert := range f.Certs {
		listed = listed || slices.ContainsFunc(lists, func(list *certs.RevocationList) bool { return list.SignedBy(cert) })
		if why := out[string(cert.Raw)]; why != "" {
			l.warn(path, "the CA %s %s and is not trusted: take it out of %s", cert.Subject, why, f.File)
		}
	}
	if required && !listed && len(f.Certs) > 0 {
		l.fault(path, "no list of the file is by a CA of %s (revocation: required would refuse every certificate)", f.File)
	}
}

// revokedCAs returns the CAs that another configured CA has revoked, and those that only such
// CAs have certified, each with the reason. A handshake does not check what is above a CA.
func revokedCAs(cas []*x509.Certificate, lists []*certs.RevocationList, now time.Time) map[string]string {
	out, named := map[string]string{}, certs.RevocationPolicy{Lists: lists}
	certified := func(cert *x509.Certificate) (by []*x509.Certificate) {
		for _, ca := range cas {
			if !ca.Equal(cert) && bytes.Equal(cert.RawIssuer, ca.RawSubject) && cert.CheckSignatureFrom(ca) == nil {
				by = append(by, ca)
			}
		}
		return by
	}
	for _, cert := range cas {
		if slices.ContainsFunc(certified(cert), func(by *x509.Certificate) bool {
			return named.Check([][]*x509.Certificate{{cert, by}}, now) != nil
		}) {
			out[string(cert.Raw)] = "was revoked"
		}
	}
	good := func(ca *x509.Certificate) bool { return out[string(ca.Raw)] == "" }
	root := func(ca *x509.Certificate) bool {
		return bytes.Equal(ca.RawIssuer, ca.RawSubject) && ca.CheckSignatureFrom(ca) == nil
	}
	for before := 0; before < len(out); { // each time a step further down
		before = len(out)
		for _, cert := range cas {
			by := certified(cert)
			if good(cert) && len(by) > 0 && !slices.ContainsFunc(by, good) && !root(cert) {
				out[string(cert.Raw)] = "is below one that was revoked"
			}
		}
	}
	return out
}

// revocationLists returns all lists of a configuration.
func (c *Config) revocationLists() (all []*certs.RevocationList) {
	for _, d := range c.Directories {
		all = append(all, d.CRLs.Lists...)
	}
	for _, d := range c.V1 {
		all = append(all, d.CRLs.Lists...)
	}
	return all
}
