package xmldsig

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	_ "crypto/sha1" // hashes that signatures may have
	_ "crypto/sha256"
	_ "crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"slices"
	"time"
)

// maxKeyBits keeps the cost of one signature low.
const maxKeyBits = 4096

// A Root is a certificate that is trusted because somebody configured it.
type Root struct{ cert *certificate }

// NewRoot reads the DER of a certificate. It must be a certificate authority's with an RSA
// key of at most 4096 bits, but need not be signed by itself.
func NewRoot(der []byte) (*Root, error) {
	c, err := readCertificate(der)
	switch {
	case err != nil:
		return nil, err
	case !c.isCA:
		return nil, errors.New("xmldsig: root: " + string(NotCA))
	case c.usage != 0 && c.usage&x509.KeyUsageCertSign == 0:
		return nil, errors.New("xmldsig: root: " + string(NotForCerts))
	}
	return &Root{c}, nil
}

// A certificate holds what of a certificate is needed to check a chain.
type certificate struct {
	raw             []byte // DER
	subject, issuer []byte // DER, compared byte by byte
	key             *rsa.PublicKey
	from, until     time.Time // valid at both moments and between
	signed          []byte    // the part that is signed
	signature       []byte
	hash            crypto.Hash // of the signature; 0 if that is not one of RSA with PKCS #1 v1.5

	isCA     bool
	maxPath  int           // authorities allowed below this one if it isCA; -1 for any number
	usage    x509.KeyUsage // 0 if the certificate has no such extension
	critical bool          // has a critical extension that is not understood
}

// readCertificates returns those certificates that can be read and have an RSA key, each
// once.
func readCertificates(ders [][]byte) []*certificate {
	var list []*certificate
	for _, der := range ders {
		same := func(c *certificate) bool { return bytes.Equal(c.raw, der) }
		if slices.ContainsFunc(list, same) {
			continue
		}
		if c, err := readCertificate(der); err == nil {
			list = append(list, c)
		}
	}
	return list
}

func readCertificate(der []byte) (*certificate, error) {
	x, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, errors.New("xmldsig: certificate cannot be read")
	}
	c := &certificate{
		raw: x.Raw, subject: x.RawSubject, issuer: x.RawIssuer,
		from: x.NotBefore, until: x.NotAfter,
		signed: x.RawTBSCertificate, signature: x.Signature, hash: hashes[x.SignatureAlgorithm],
	}
	return c, c.finish(x.PublicKey, x.Extensions)
}

// hashes are those of the signatures of certificates that count: RSA with PKCS #1 v1.5.
var hashes = map[x509.SignatureAlgorithm]crypto.Hash{
	x509.SHA1WithRSA: crypto.SHA1, x509.SHA256WithRSA: crypto.SHA256, x509.SHA384WithRSA: crypto.SHA384,
	x509.SHA512WithRSA: crypto.SHA512,
}

// Extensions of RFC 5280, section 4.2.1.
var (
	oidBasicConstraints = asn1.ObjectIdentifier{2, 5, 29, 19}
	oidKeyUsage         = asn1.ObjectIdentifier{2, 5, 29, 15}
	// These may be critical although they are not read: alternative names, policies and
	// extended key usage say nothing on whether the certificate may sign the next one.
	harmless = []asn1.ObjectIdentifier{{2, 5, 29, 17}, {2, 5, 29, 32}, {2, 5, 29, 37}}
)

// finish fills in what follows from the key and the extensions.
func (c *certificate) finish(key any, extensions []pkix.Extension) error {
	var ok bool
	if c.key, ok = key.(*rsa.PublicKey); !ok {
		return errors.New("xmldsig: key of a certificate is not RSA")
	}
	if c.key.N.BitLen() > maxKeyBits {
		return fmt.Errorf("xmldsig: key of a certificate has more than %d bits", maxKeyBits)
	}
	for _, ext := range extensions {
		var err error
		switch {
		case ext.Id.Equal(oidBasicConstraints):
			err = c.readConstraints(ext.Value)
		case ext.Id.Equal(oidKeyUsage):
			err = c.readUsage(ext.Value)
		case ext.Critical && !slices.ContainsFunc(harmless, ext.Id.Equal):
			c.critical = true
		}
		if err != nil {
			return errors.New("xmldsig: extension of a certificate cannot be read")
		}
	}
	return nil
}

var errTrailing = errors.New("bytes after the value")

func (c *certificate) readConstraints(der []byte) error {
	var v struct {
		IsCA    bool `asn1:"optional"`
		MaxPath int  `asn1:"optional,default:-1"`
	}
	rest, err := asn1.Unmarshal(der, &v)
	if err == nil && (len(rest) > 0 || v.MaxPath < -1) {
		err = errTrailing
	}
	c.isCA, c.maxPath = v.IsCA, v.MaxPath
	return err
}

// saysNothing is always set in usage when there is such an extension: one without any bit
// must not count as absent.
const saysNothing = x509.KeyUsage(1 << 30)

func (c *certificate) readUsage(der []byte) error {
	var bits asn1.BitString
	rest, err := asn1.Unmarshal(der, &bits)
	if err == nil && len(rest) > 0 {
		err = errTrailing
	}
	c.usage = saysNothing
	for i := range 9 {
		c.usage |= x509.KeyUsage(bits.At(i)) << i
	}
	return err
}
