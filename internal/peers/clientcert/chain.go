package clientcert

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	maxFile  = 64 << 10 // longest file of certificates, in bytes
	maxChain = 10       // most certificates in it
)

// parseChain reads a file of certificates in PEM, the own one first.
func parseChain(file []byte) ([]*x509.Certificate, error) {
	if len(file) > maxFile {
		return nil, refuse("file", "the file is longer than %d bytes: want the certificate and those of its CAs", maxFile)
	}
	var chain []*x509.Certificate
	for {
		var block *pem.Block
		block, file = pem.Decode(file)
		if block == nil {
			break
		}
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			return nil, refuse("file", "the file holds a private key, which belongs nowhere but in the store: "+
				"make the key with \"cert request\", and give the certificates alone")
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, refuse("file", "certificate %d of the file cannot be read: ask the CA for it in PEM again", len(chain)+1)
		}
		if chain = append(chain, cert); len(chain) > maxChain {
			return nil,
				refuse("file", "the file has more than %d certificates: want the certificate and those of its CAs", maxChain)
		}
	}
	if len(chain) == 0 {
		return nil,
			refuse("file", "the file holds no certificate in PEM (openssl converts: x509 -inform DER, or pkcs7 -print_certs)")
	}
	return chain, nil
}

// findKey returns the private key of a public one. used is the request that it is of, or -1.
func (s *state) findKey(public crypto.PublicKey) (key []byte, used int) {
	for i := range s.Requests {
		if isKeyOf(s.Requests[i].Key, public) {
			return s.Requests[i].Key, i
		}
	}
	for _, p := range []*pair{s.Next, s.Current, s.Previous} {
		if p != nil && isKeyOf(p.Key, public) {
			return p.Key, -1
		}
	}
	return nil, -1
}

// isKeyOf reports whether a private key in PKCS #8 belongs to a public one.
func isKeyOf(private []byte, public crypto.PublicKey) bool {
	parsed, err := x509.ParsePKCS8PrivateKey(private)
	if err != nil {
		return false
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return false
	}
	known, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && known.Equal(public)
}

// waitingKeys names the keys that wait for a certificate.
func (s *state) waitingKeys() string {
	if len(s.Requests) == 0 {
		return " (none waits)"
	}
	var ids []string
	for i := range s.Requests {
		ids = append(ids, s.Requests[i].info().KeyID)
	}
	return " (" + strings.Join(ids, ", ") + ")"
}

// checkChain says what is wrong with a certificate and those behind it, to be used from a time on.
func checkChain(chain, roots []*x509.Certificate, from time.Time) error {
	leaf := chain[0]
	if err := checkUsage(leaf); err != nil {
		return err
	}
	for i, cert := range chain {
		what := "the certificate"
		if i > 0 {
			what = fmt.Sprintf("certificate %d of the file, of a CA,", i+1)
		}
		if err := checkDates(cert, what, from); err != nil {
			return err
		}
	}
	for i, cert := range chain[:len(chain)-1] {
		if err := cert.CheckSignatureFrom(chain[i+1]); err != nil {
			return refuse("chain", "certificate %d of the file is not signed by certificate %d: "+
				"want the certificate first, then that of the CA which signed it, and so on", i+1, i+2)
		}
	}
	return checkAnchor(chain, roots, from)
}

// checkAnchor says whether the chain leads to a root: one in the file, or a CA of the directory.
func checkAnchor(chain, roots []*x509.Certificate, from time.Time) error {
	last := chain[len(chain)-1]
	anchors, between := x509.NewCertPool(), x509.NewCertPool()
	for _, root := range roots {
		anchors.AddCert(root)
	}
	if len(chain) > 1 && bytes.Equal(last.RawSubject, last.RawIssuer) {
		anchors.AddCert(last)
	}
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: anchors, Intermediates: between, CurrentTime: from, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err == nil {
		return nil
	}
	isIssuer := func(root *x509.Certificate) bool { return bytes.Equal(root.RawSubject, last.RawIssuer) }
	if !slices.ContainsFunc(roots, isIssuer) && !bytes.Equal(last.RawSubject, last.RawIssuer) {
		return refuse("chain",
			"the chain ends at %q, whose issuer %q is neither in the file nor in server_ca or client_ca of the directory: "+
				"add the certificates of the CAs up to the root to the file", last.Subject.String(), last.Issuer.String())
	}
	return refuse("chain", "the chain does not verify: %v", err)
}

// checkUsage says whether a certificate is that of a TLS client.
func checkUsage(leaf *x509.Certificate) error {
	isAny := len(leaf.ExtKeyUsage)+len(leaf.UnknownExtKeyUsage) == 0 ||
		slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny)
	switch {
	case leaf.IsCA:
		return refuse("usage", "the first certificate of the file is that of a CA: want the certificate for the CSR first")
	case !isAny && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageClientAuth):
		return refuse("usage",
			"the certificate is not made for client authentication (clientAuth): ask the CA for one that is")
	case leaf.KeyUsage != 0 && leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0:
		return refuse("usage",
			"the key of the certificate may not sign (digitalSignature), which TLS needs: ask the CA for one that may")
	}
	return nil
}

// checkDates says whether a certificate is valid at a time.
func checkDates(cert *x509.Certificate, what string, at time.Time) error {
	const form = "2006-01-02 15:04:05 MST"
	switch {
	case at.After(cert.NotAfter):
		return refuse("dates", "%s expires on %s, and is to be used at %s: ask the CA for a new one",
			what, cert.NotAfter.UTC().Format(form), at.UTC().Format(form))
	case at.Before(cert.NotBefore):
		return refuse("dates", "%s is not valid before %s, and is to be used at %s: give a later time",
			what, cert.NotBefore.UTC().Format(form), at.UTC().Format(form))
	}
	return nil
}
