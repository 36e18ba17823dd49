package config

import (
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
)

// checkV1 checks the values of the section v1 against each other.
func (l *loader) checkV1() {
	seen := map[string]int{}
	for i, d := range l.config.V1 {
		l.requireUnique(seen, d.Scheme, i, "v1", "scheme")
		l.requireCRLs(d.CRLs, d.Revocation, fmt.Sprintf("v1[%d]", i))
		if r := d.CardRanges; r != nil && strings.Trim(r.AcquirerBIN, "0123456789") != "" {
			l.fault(fmt.Sprintf("v1[%d].card_ranges.acquirer_bin", i), "not a number (1 to 11 digits)")
		}
	}
}

// loadV1Files reads the files of the section v1.
func (l *loader) loadV1Files(now time.Time) {
	for i := range l.config.V1 {
		d, at := &l.config.V1[i], fmt.Sprintf("v1[%d]", i)
		l.loadPart(at, func() {
			l.loadKeyPair(&d.ClientCert, at+".client_cert", x509.ExtKeyUsageClientAuth, now)
			l.loadCA(&d.ServerCA, at+".server_ca", now)
			l.loadCRLs(&d.CRLs, d.Revocation, at, now, &d.ServerCA)
			l.loadPAResRoots(d, at+".pares_roots", now)
		}, d.keepFiles)
	}
	l.checkSharedRoots()
}

// loadPAResRoots reads the roots that the PARes of a scheme have to chain to.
func (l *loader) loadPAResRoots(d *V1Directory, path string, now time.Time) {
	data, ok := l.openFile(d.PAResRoots.File, path)
	if !ok {
		return
	}
	for j, cert := range l.parseCertificates(data, path) {
		trusted, err := xmldsig.NewRoot(cert.Raw)
		if err != nil {
			l.fault(path, "certificate %d of the file is no root of a PARes (a CA's with an RSA key is)", j+1)
			continue
		}
		if d.VerifyAt == "now" {
			l.noteValidity(cert, path, now)
		}
		d.PAResRoots.Roots = append(d.PAResRoots.Roots, trusted)
		d.PAResRoots.Names = append(d.PAResRoots.Names, string(cert.RawSubject)+string(cert.RawSubjectPublicKeyInfo))
	}
}

// checkSharedRoots refuses a root that two schemes have, by name and key: that is what a chain
// has to end in, whichever certificate says so.
func (l *loader) checkSharedRoots() {
	owners := map[string]int{}
	for i, d := range l.config.V1 {
		for j, root := range d.PAResRoots.Names {
			if first, taken := owners[root]; taken && first != i {
				l.fault(fmt.Sprintf("v1[%d].pares_roots", i),
					"certificate %d of the file is a root of v1[%d] too (no scheme may sign for another)", j+1, first)
			}
			owners[root] = i
		}
	}
}

// keepFiles does the same as [Directory.keepFiles].
func (d *V1Directory) keepFiles(former *Config) string {
	for i := range former.V1 {
		was := &former.V1[i]
		if was.Scheme != d.Scheme {
			continue
		}
		d.ClientCert.Certificate = was.ClientCert.Certificate
		d.ServerCA.Certs, d.ServerCA.Pool = was.ServerCA.Certs, was.ServerCA.Pool
		d.CRLs.Lists = was.CRLs.Lists
		d.PAResRoots.Roots, d.PAResRoots.Names = was.PAResRoots.Roots, was.PAResRoots.Names
		return fmt.Sprintf("v1[%d]", i)
	}
	return ""
}

// warnOfV1 adds the warnings about the section v1.
func (l *loader) warnOfV1() {
	for i, d := range l.config.V1 {
		at := fmt.Sprintf("v1[%d]", i)
		if d.MinKeyBits > 0 && d.MinKeyBits < 2048 {
			l.warn(at+".min_key_bits", "keys under 2048 bits can be broken: for laboratories and old chains only")
		}
		if d.VerifyAt == "signing_time" {
			l.warn(at+".verify_at",
				"anyone who has the key of an expired certificate can sign with it: for laboratories and old chains only")
		}
		l.warnOfLab(at, d.Lab)
	}
}
