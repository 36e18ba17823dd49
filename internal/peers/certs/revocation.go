// Package certs decides which certificates are trusted, and how TLS is spoken. Use [Trust] for the clients of
// the listener for results, [RevocationPolicy] with lists from [ParseRevocationLists] to refuse revoked
// certificates, and [StrongSuites] for every TLS configuration. Nothing is asked of the network: addresses in
// certificates are not followed.
package certs

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// RevocationList is a certificate revocation list (CRL, RFC 5280): what one CA has revoked. It is safe for concurrent
// use.
type RevocationList struct {
	This, Next time.Time // when it was made, and by when the next one is

	signed  *x509.RevocationList // only the fields that its verification needs
	digest  [sha256.Size]byte
	serials map[string]struct{} // of the revoked certificates, by keyOf
	scope   scope

	mu    sync.Mutex
	known map[[sha256.Size]byte]signature // by the digest of a CA certificate
}

// maxSignatures is for how many certificates with the name of the CA a list remembers whether they signed it.
const maxSignatures = 64

// pemBegin is the first line of a list in PEM form. pemBegins finds where one is meant to begin, also after a text that
// was cut off.
var (
	pemBegin  = []byte("-----BEGIN X509 CRL-----")
	pemBegins = regexp.MustCompile(`(?m)(^[\s\x{feff}]*|-)-----BEGIN X509 CRL-----`)
)

// ParseRevocationLists reads a file of lists: in PEM form, with any text around them, or in DER, one after the
// other. If one cannot be read, the error says which, and no list is returned. A list that is among the known
// ones is not read again.
func ParseRevocationLists(data []byte, known ...*RevocationList) ([]*RevocationList, error) {
	var ders [][]byte
	if meant := bytes.Count(data, pemBegin); meant > 0 {
		if bytes.IndexByte(data, 0) >= 0 { // each signature in DER has one
			return nil,
				errors.New("the file has something else than text between lists in PEM form (all of them PEM, or all DER)")
		}
		if ders = pemLists(data); len(ders) < meant { // a comment may have the words, too
			meant = len(pemBegins.FindAllIndex(data, -1))
		}
		if n := meant - len(ders); n > 0 {
			return nil, fmt.Errorf("%d of %d lists in the file cannot be read (PEM that is cut off or damaged)", n, meant)
		}
	} else {
		const sequence = asn1.TagSequence | 0x20
		for rest := data; len(bytes.TrimSpace(rest)) > 0; {
			var one asn1.RawValue
			after, err := asn1.Unmarshal(rest, &one)
			switch {
			case len(ders) == 0 && rest[0] != sequence:
				return nil, errNoList
			case err != nil || rest[0] != sequence:
				return nil, fmt.Errorf("list %d of the file cannot be read (DER that is cut off or damaged)", len(ders)+1)
			}
			ders, rest = append(ders, one.FullBytes), after
		}
	}
	if len(ders) == 0 {
		return nil, errNoList
	}
	lists := make([]*RevocationList, len(ders))
	for i, der := range ders {
		digest := sha256.Sum256(der)
		if at := slices.IndexFunc(known, func(l *RevocationList) bool { return l.digest == digest }); at >= 0 {
			lists[i] = known[at]
			continue
		}
		l, err := parseList(der)
		if err != nil {
			return nil, fmt.Errorf("list %d of the file %w", i+1, err)
		}
		l.digest, lists[i] = digest, l
	}
	return lists, nil
}

var errNoList = errors.New("the file holds no certificate revocation list (PEM or DER)")

// pemLists returns the DER of each list in PEM form.
func pemLists(data []byte) (ders [][]byte) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return ders
		}
		if block.Type == "X509 CRL" {
			ders = append(ders, block.Bytes)
		}
	}
}

// reasonRemoved is the reason removeFromCRL of an entry: the certificate is no longer on hold.
const reasonRemoved = 8

// parseList reads one list in DER.
func parseList(der []byte) (*RevocationList, error) {
	read, err := x509.ParseRevocationList(bytes.Clone(der)) // a file may be much longer than what is kept of it
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot be read: %w", err)
	case len(read.Raw) != len(der):
		return nil, errors.New("cannot be read: something follows it")
	case read.NextUpdate.IsZero():
		return nil, errors.New("does not say when the next one comes (nextUpdate)")
	case slices.Contains(brokenAlgorithms, read.SignatureAlgorithm):
		return nil, fmt.Errorf("is signed with %v (SHA-256 or better is needed)", read.SignatureAlgorithm)
	}
	l := &RevocationList{
		This: read.ThisUpdate, Next: read.NextUpdate,
		serials: make(map[string]struct{}, len(read.RevokedCertificateEntries)), known: make(map[[sha256.Size]byte]signature),
	}
	if l.scope, err = scopeOf(read); err != nil {
		return nil, err
	}
	for _, e := range read.RevokedCertificateEntries {
		if e.ReasonCode != reasonRemoved {
			l.serials[keyOf(e.SerialNumber)] = struct{}{}
		}
	}
	l.signed = &x509.RevocationList{
		RawTBSRevocationList: read.RawTBSRevocationList, SignatureAlgorithm: read.SignatureAlgorithm,
		Signature: read.Signature, RawIssuer: read.RawIssuer, Issuer: read.Issuer,
	}
	return l, nil
}

// brokenAlgorithms are signature algorithms with which others than the CA can sign.
var brokenAlgorithms = []x509.SignatureAlgorithm{
	x509.UnknownSignatureAlgorithm, x509.MD2WithRSA, x509.MD5WithRSA, x509.SHA1WithRSA, x509.DSAWithSHA1,
	x509.ECDSAWithSHA1,
}

// keyOf returns a serial number as a key of a map. No certificate has a negative one.
func keyOf(serial *big.Int) string { return string(serial.Bytes()) }

// Issuer returns the name of the CA that the list is from.
func (l *RevocationList) Issuer() string { return shortName(l.signed.Issuer.String()) }

// HasIssuer reports whether the list is from a CA with the name of this one.
func (l *RevocationList) HasIssuer(ca *x509.Certificate) bool {
	return bytes.Equal(l.signed.RawIssuer, ca.RawSubject)
}

// SignedBy reports whether a CA has signed this list, and may sign lists.
func (l *RevocationList) SignedBy(ca *x509.Certificate) bool { return l.signatureOf(ca).isAllowed }

// signature says whether the certificate of a CA verifies the signature of a list.
type signature struct {
	isGood    bool // it is by the key in the certificate
	isAllowed bool // and the certificate says that it may sign lists
}

// signatureOf checks the signature of the list by a CA, or remembers that it did.
func (l *RevocationList) signatureOf(ca *x509.Certificate) signature {
	if !l.HasIssuer(ca) {
		return signature{}
	}
	which := sha256.Sum256(ca.Raw)
	l.mu.Lock()
	defer l.mu.Unlock()
	s, known := l.known[which]
	if !known {
		s.isGood = ca.CheckSignature(l.signed.SignatureAlgorithm, l.signed.RawTBSRevocationList, l.signed.Signature) == nil
		s.isAllowed = s.isGood && l.signed.CheckSignatureFrom(ca) == nil
		if len(l.known) == maxSignatures {
			clear(l.known)
		}
		l.known[which] = s
	}
	return s
}

// Has reports whether the list names a certificate of its CA.
func (l *RevocationList) Has(cert *x509.Certificate) bool {
	_, ok := l.serials[keyOf(cert.SerialNumber)]
	return ok
}

// covers reports whether the list would name the certificate if it were revoked.
func (l *RevocationList) covers(cert *x509.Certificate, now time.Time) bool {
	return !now.Before(l.This) && !now.After(l.Next) && l.scope.includes(cert)
}

// scope is which of a CA's certificates a list is about.
type scope struct {
	// addresses of the list; a certificate that it is about names one of them. nil means all certificates
	points     []string
	users, cas bool // only certificates of users, or only those of CAs
	isUnclear  bool // the list has a name without an address
}

// includes reports whether the list is about a certificate.
func (s scope) includes(cert *x509.Certificate) bool {
	switch {
	case s.users && cert.IsCA, s.cas && !cert.IsCA, s.isUnclear:
		return false
	}
	return s.points == nil || slices.ContainsFunc(s.points, func(p string) bool {
		return slices.Contains(cert.CRLDistributionPoints, p)
	})
}

var (
	idNumber       = asn1.ObjectIdentifier{2, 5, 29, 20}
	idReason       = asn1.ObjectIdentifier{2, 5, 29, 21}
	idHold         = asn1.ObjectIdentifier{2, 5, 29, 23}
	idInvalidSince = asn1.ObjectIdentifier{2, 5, 29, 24}
	idDelta        = asn1.ObjectIdentifier{2, 5, 29, 27}
	idPoint        = asn1.ObjectIdentifier{2, 5, 29, 28}
	idIssuer       = asn1.ObjectIdentifier{2, 5, 29, 29}
)

// point is an IssuingDistributionPoint (RFC 5280, 5.2.5).
type point struct {
	Name       pointName      `asn1:"optional,tag:0"`
	Users      bool           `asn1:"optional,tag:1"`
	CAs        bool           `asn1:"optional,tag:2"`
	Reasons    asn1.BitString `asn1:"optional,tag:3"`
	Indirect   bool           `asn1:"optional,tag:4"`
	Attributes bool           `asn1:"optional,tag:5"`
}

type pointName struct {
	Full     []asn1.RawValue `asn1:"optional,tag:0"`
	Relative asn1.RawValue   `asn1:"optional,tag:1"`
}

// scopeOf returns the scope of a list. It refuses a list that may mean something else than it seems to: one with a
// critical extension that is not understood, a delta, and one about the certificates of another CA.
func scopeOf(l *x509.RevocationList) (s scope, err error) {
	for _, e := range l.Extensions {
		switch {
		case e.Id.Equal(idDelta):
			return s, errors.New("is a delta (a complete one is needed)")
		case e.Id.Equal(idPoint):
			if s, err = readPoint(e.Value); err != nil {
				return s, err
			}
		case e.Critical && !e.Id.Equal(idNumber):
			return s, fmt.Errorf("has a critical extension that is not understood (%v)", e.Id)
		}
	}
	for _, entry := range l.RevokedCertificateEntries {
		for _, e := range entry.Extensions {
			switch {
			case e.Id.Equal(idIssuer):
				return s, errIndirect
			case e.Critical && !e.Id.Equal(idReason) && !e.Id.Equal(idHold) && !e.Id.Equal(idInvalidSince):
				return s, fmt.Errorf("has an entry with a critical extension that is not understood (%v)", e.Id)
			}
		}
	}
	return s, nil
}

var errIndirect = errors.New("is indirect (one of the CA itself is needed)")

// readPoint reads the scope in an issuingDistributionPoint.
func readPoint(der []byte) (s scope, err error) {
	var p point
	rest, err := asn1.Unmarshal(der, &p)
	switch {
	case err != nil || len(rest) > 0:
		return s, errors.New("cannot be read: its issuingDistributionPoint is none")
	case p.Indirect:
		return s, errIndirect
	case p.Reasons.BitLength > 0:
		return s, errors.New("is of some reasons only (one of all is needed)")
	case p.Attributes:
		return s, errors.New("is of attribute certificates")
	}
	s.users, s.cas = p.Users, p.CAs
	for _, n := range p.Name.Full {
		if n.Class == asn1.ClassContextSpecific && n.Tag == 6 { // uniformResourceIdentifier
			s.points = append(s.points, string(n.Bytes))
		}
	}
	s.isUnclear = len(s.points) == 0 && (len(p.Name.Full) > 0 || len(p.Name.Relative.FullBytes) > 0)
	return s, nil
}

// serialOf returns a serial number as tools print it.
func serialOf(cert *x509.Certificate) string { return fmt.Sprintf("%x", cert.SerialNumber) }

// shortName returns the beginning of a name that may have any length.
func shortName(name string) string {
	if len(name) > 100 {
		return strings.ToValidUTF8(name[:100], "") + "…"
	}
	return name
}
