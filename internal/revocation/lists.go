// Package revocation says whether a certificate was revoked by its CA, from lists
// (CRLs, RFC 5280) that somebody has put into files. It asks nobody: addresses in
// certificates are not followed.
package revocation

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

// A List is what one CA has revoked. It may be used by many goroutines.
type List struct {
	This, Next time.Time // made, and to be replaced by then

	signed  *x509.RevocationList // what it takes to verify it
	digest  [sha256.Size]byte
	serials map[string]struct{} // their bytes
	scope   scope

	mu    sync.Mutex
	known map[[sha256.Size]byte]signature // whether the CA with that certificate has signed it
}

// mostKnown bounds what is remembered of certificates that have the name of the CA.
const mostKnown = 64

// begin is what a list in PEM form begins with, and begins where one is meant to,
// also after a text that was cut off.
var (
	begin  = []byte("-----BEGIN X509 CRL-----")
	begins = regexp.MustCompile(`(?m)(^[\s\x{feff}]*|-)-----BEGIN X509 CRL-----`)
)

// Parse reads a file of lists: PEM, among whatever else is in it, or DER, one after
// the other. All can be read, or it is an error that says which cannot. What is among
// the known ones is not read again.
func Parse(data []byte, known ...*List) ([]*List, error) {
	var ders [][]byte
	if meant := bytes.Count(data, begin); meant > 0 {
		if bytes.IndexByte(data, 0) >= 0 { // each signature in DER has one
			return nil, errors.New("the file has something else than text between lists in PEM form (all of them PEM, or all DER)")
		}
		if ders = blocks(data); len(ders) < meant { // a comment may have the words, too
			meant = len(begins.FindAllIndex(data, -1))
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
				return nil, errNone
			case err != nil || rest[0] != sequence:
				return nil, fmt.Errorf("list %d of the file cannot be read (DER that is cut off or damaged)", len(ders)+1)
			}
			ders, rest = append(ders, one.FullBytes), after
		}
	}
	if len(ders) == 0 {
		return nil, errNone
	}
	lists := make([]*List, len(ders))
	for i, der := range ders {
		digest := sha256.Sum256(der)
		if at := slices.IndexFunc(known, func(l *List) bool { return l.digest == digest }); at >= 0 {
			lists[i] = known[at]
			continue
		}
		l, err := parse(der)
		if err != nil {
			return nil, fmt.Errorf("list %d of the file %w", i+1, err)
		}
		l.digest, lists[i] = digest, l
	}
	return lists, nil
}

var errNone = errors.New("the file holds no certificate revocation list (PEM or DER)")

func blocks(data []byte) (ders [][]byte) {
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

const removed = 8 // removeFromCRL: no longer on hold

// parse reads one list.
func parse(der []byte) (*List, error) {
	read, err := x509.ParseRevocationList(bytes.Clone(der)) // a file may be much longer than what is kept of it
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot be read: %w", err)
	case len(read.Raw) != len(der):
		return nil, errors.New("cannot be read: something follows it")
	case read.NextUpdate.IsZero():
		return nil, errors.New("does not say when the next one comes (nextUpdate)")
	case slices.Contains(broken, read.SignatureAlgorithm):
		return nil, fmt.Errorf("is signed with %v (SHA-256 or better is needed)", read.SignatureAlgorithm)
	}
	l := &List{
		This: read.ThisUpdate, Next: read.NextUpdate,
		serials: make(map[string]struct{}, len(read.RevokedCertificateEntries)), known: make(map[[sha256.Size]byte]signature),
	}
	if l.scope, err = scopeOf(read); err != nil {
		return nil, err
	}
	for _, e := range read.RevokedCertificateEntries {
		if e.ReasonCode != removed {
			l.serials[keyOf(e.SerialNumber)] = struct{}{}
		}
	}
	l.signed = &x509.RevocationList{
		RawTBSRevocationList: read.RawTBSRevocationList, SignatureAlgorithm: read.SignatureAlgorithm, Signature: read.Signature,
		RawIssuer: read.RawIssuer, Issuer: read.Issuer,
	}
	return l, nil
}

// broken are algorithms whose signatures others can make.
var broken = []x509.SignatureAlgorithm{
	x509.UnknownSignatureAlgorithm, x509.MD2WithRSA, x509.MD5WithRSA, x509.SHA1WithRSA, x509.DSAWithSHA1, x509.ECDSAWithSHA1,
}

// keyOf is a serial number as a key. No certificate has one less than 0.
func keyOf(serial *big.Int) string { return string(serial.Bytes()) }

// Issuer is the name of the CA that the list is by.
func (l *List) Issuer() string { return brief(l.signed.Issuer.String()) }

// Names reports whether the list is by a CA of that name.
func (l *List) Names(ca *x509.Certificate) bool {
	return bytes.Equal(l.signed.RawIssuer, ca.RawSubject)
}

// SignedBy reports whether a CA, which may sign lists, has signed this one.
func (l *List) SignedBy(ca *x509.Certificate) bool { return l.by(ca).may }

// A signature is what is known of that of a list and the certificate of a CA.
type signature struct {
	good bool // by the key of the CA
	may  bool // and the certificate says that it may sign lists
}

func (l *List) by(ca *x509.Certificate) signature {
	if !l.Names(ca) {
		return signature{}
	}
	which := sha256.Sum256(ca.Raw)
	l.mu.Lock()
	defer l.mu.Unlock()
	s, known := l.known[which]
	if !known {
		s.good = ca.CheckSignature(l.signed.SignatureAlgorithm, l.signed.RawTBSRevocationList, l.signed.Signature) == nil
		s.may = s.good && l.signed.CheckSignatureFrom(ca) == nil
		if len(l.known) == mostKnown {
			clear(l.known)
		}
		l.known[which] = s
	}
	return s
}

// Has reports whether the list names a certificate of its CA.
func (l *List) Has(cert *x509.Certificate) bool {
	_, ok := l.serials[keyOf(cert.SerialNumber)]
	return ok
}

// covers reports whether the list would name the certificate had it been revoked.
func (l *List) covers(cert *x509.Certificate, now time.Time) bool {
	return !now.Before(l.This) && !now.After(l.Next) && l.scope.has(cert)
}

// A scope is which of a CA's certificates a list is about.
type scope struct {
	points     []string // addresses of the list, one of which those certificates name; nil: all
	users, cas bool     // alone
	unclear    bool     // it has a name, but no address
}

func (s scope) has(cert *x509.Certificate) bool {
	switch {
	case s.users && cert.IsCA, s.cas && !cert.IsCA, s.unclear:
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

// scopeOf refuses lists that mean something else than they seem to: those that say
// in a critical extension what is not understood, that are only the difference to
// another, or that are about other certificates than those of their CA.
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
	s.unclear = len(s.points) == 0 && (len(p.Name.Full) > 0 || len(p.Name.Relative.FullBytes) > 0)
	return s, nil
}

// serialOf is a serial number as tools print it.
func serialOf(cert *x509.Certificate) string { return fmt.Sprintf("%x", cert.SerialNumber) }

// same reports whether two lots of lists are the same ones.
func same(a, b []*List) bool {
	return slices.EqualFunc(a, b, func(x, y *List) bool { return x.digest == y.digest })
}

// brief is the beginning of a name that may have any length.
func brief(name string) string {
	if len(name) > 100 {
		return strings.ToValidUTF8(name[:100], "") + "…"
	}
	return name
}
