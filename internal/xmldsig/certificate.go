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
// key of at most 4096 bits, but need not be signed by itself. With lenient it may be one
// that crypto/x509 refuses to read.
func NewRoot(der []byte, lenient bool) (*Root, error) {
	c, err := readCertificate(der, lenient)
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
	lenient  bool          // crypto/x509 refuses to read it
}

// readCertificates returns those certificates that can be read and have an RSA key, each
// once.
func readCertificates(ders [][]byte, lenient bool) []*certificate {
	var list []*certificate
	for _, der := range ders {
		same := func(c *certificate) bool { return bytes.Equal(c.raw, der) }
		if slices.ContainsFunc(list, same) {
			continue
		}
		if c, err := readCertificate(der, lenient); err == nil {
			list = append(list, c)
		}
	}
	return list
}

func readCertificate(der []byte, lenient bool) (*certificate, error) {
	x, err := x509.ParseCertificate(der)
	if err != nil && lenient {
		return readLenient(der)
	}
	if err != nil {
		return nil, errors.New("xmldsig: certificate cannot be read")
	}
	c := &certificate{
		raw: x.Raw, subject: x.RawSubject, issuer: x.RawIssuer,
		from: x.NotBefore, until: x.NotAfter,
		signed: x.RawTBSCertificate, signature: x.Signature,
	}
	switch x.SignatureAlgorithm {
	case x509.SHA1WithRSA:
		c.hash = crypto.SHA1
	case x509.SHA256WithRSA:
		c.hash = crypto.SHA256
	case x509.SHA384WithRSA:
		c.hash = crypto.SHA384
	case x509.SHA512WithRSA:
		c.hash = crypto.SHA512
	}
	return c, c.finish(x.PublicKey, x.Extensions)
}

// The parts of a certificate, RFC 5280 section 4.1, with names as they are.
type looseCertificate struct {
	TBS       looseTBS
	Algorithm pkix.AlgorithmIdentifier
	Signature asn1.BitString
}

type looseTBS struct {
	Raw        asn1.RawContent
	Version    int `asn1:"optional,explicit,default:0,tag:0"`
	Serial     asn1.RawValue
	Algorithm  pkix.AlgorithmIdentifier
	Issuer     asn1.RawValue
	Validity   struct{ From, Until time.Time }
	Subject    asn1.RawValue
	Key        asn1.RawValue
	IssuerID   asn1.BitString   `asn1:"optional,tag:1"`
	SubjectID  asn1.BitString   `asn1:"optional,tag:2"`
	Extensions []pkix.Extension `asn1:"optional,explicit,tag:3"`
}

// readLenient reads certificates that crypto/x509 refuses because of their names, such as
// an underscore in a PrintableString. Names need not be understood: they are only compared.
func readLenient(der []byte) (*certificate, error) {
	var x looseCertificate
	rest, err := asn1.Unmarshal(der, &x)
	if err != nil || len(rest) > 0 || !x.Algorithm.Algorithm.Equal(x.TBS.Algorithm.Algorithm) {
		return nil, errors.New("xmldsig: certificate cannot be read, leniently either")
	}
	const version3 = 2
	if x.TBS.Version > version3 || x.TBS.Version < version3 && x.TBS.Extensions != nil {
		return nil, errors.New("xmldsig: certificate has extensions that its version does not know")
	}
	key, err := x509.ParsePKIXPublicKey(x.TBS.Key.FullBytes)
	if err != nil {
		return nil, errors.New("xmldsig: key of a certificate cannot be read")
	}
	c := &certificate{
		raw: der, subject: x.TBS.Subject.FullBytes, issuer: x.TBS.Issuer.FullBytes,
		from: x.TBS.Validity.From, until: x.TBS.Validity.Until,
		signed: x.TBS.Raw, signature: x.Signature.RightAlign(),
		hash:    rsaHashes[x.Algorithm.Algorithm.String()],
		lenient: true,
	}
	return c, c.finish(key, x.TBS.Extensions)
}

// rsaHashes has the identifiers of PKCS #1, RFC 8017 appendix C.
var rsaHashes = map[string]crypto.Hash{
	"1.2.840.113549.1.1.5":  crypto.SHA1,
	"1.2.840.113549.1.1.11": crypto.SHA256,
	"1.2.840.113549.1.1.12": crypto.SHA384,
	"1.2.840.113549.1.1.13": crypto.SHA512,
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
	seen := map[string]bool{}
	for _, ext := range extensions {
		if id := ext.Id.String(); seen[id] {
			return errors.New("xmldsig: certificate has an extension twice")
		} else {
			seen[id] = true
		}
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
