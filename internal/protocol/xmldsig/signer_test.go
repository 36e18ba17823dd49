package xmldsig_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"fmt"
	"math/big"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
)

// key returns one of the RSA keys of this test run, by name; keys of other sizes
// than 1024 bits have the size behind a slash. Small ones are quick to make.
func key(t testing.TB, name string) *rsa.PrivateKey {
	t.Helper()
	keys.Lock()
	defer keys.Unlock()
	if k, ok := keys.made[name]; ok {
		return k
	}
	bits := 1024
	if _, size, ok := strings.Cut(name, "/"); ok {
		fmt.Sscan(size, &bits)
	}
	k, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	keys.made[name] = k
	return k
}

var keys = struct {
	sync.Mutex
	made map[string]*rsa.PrivateKey
}{made: map[string]*rsa.PrivateKey{}}

// A holder has a certificate and its key.
type holder struct {
	cert *x509.Certificate
	key  *rsa.PrivateKey
}

// serial numbers the certificates: xmlsec1 takes those of one number for one.
var serial atomic.Int64

// chainTime is when the certificates of tests are good.
var chainTime = time.Date(2016, 6, 1, 12, 0, 0, 0, time.UTC)

// newHolder returns a certificate signed by issuer, by itself when that is nil.
// It is an authority's if the name begins with "ca". The changes come last.
func newHolder(t testing.TB, issuer *holder, name string, changes ...func(*x509.Certificate)) *holder {
	t.Helper()
	h := &holder{key: key(t, name)}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(serial.Add(1)),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    chainTime.Add(-time.Hour),
		NotAfter:     chainTime.Add(time.Hour),
	}
	if strings.HasPrefix(name, "ca") {
		c.BasicConstraintsValid, c.IsCA, c.KeyUsage = true, true, x509.KeyUsageCertSign
	}
	for _, change := range changes {
		change(c)
	}
	parent, signer := c, h.key
	if issuer != nil {
		parent, signer = issuer.cert, issuer.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &h.key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	if h.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return h
}

// A paper is a document to be signed.
type paper struct {
	body              string // of PARes
	id, uri           string // attributes with their names and a blank before them
	hash              crypto.Hash
	exclInfo, exclRef bool // forms of SignedInfo and PARes
	certs             []*holder
	apart             bool     // each certificate in an X509Data of its own
	edit              []string // pairs as for strings.NewReplacer, before it is signed
	after             []string // likewise, when it is signed
}

// newPaper is good when holders[0] signs it.
func newPaper(holders ...*holder) *paper {
	return &paper{
		body: "<version>1.0.2</version><TX><status>Y</status></TX>",
		id:   ` id="p1"`, uri: ` URI="#p1"`, hash: crypto.SHA256, certs: holders,
	}
}

func (p *paper) sign(t testing.TB, signer *rsa.PrivateKey) []byte {
	t.Helper()
	methods := map[bool]string{
		false: "http://www.w3.org/TR/2001/REC-xml-c14n-20010315", true: "http://www.w3.org/2001/10/xml-exc-c14n#",
	}
	digest := map[crypto.Hash]string{
		crypto.SHA1: "http://www.w3.org/2000/09/xmldsig#sha1", crypto.SHA256: "http://www.w3.org/2001/04/xmlenc#sha256",
	}
	method := map[crypto.Hash]string{
		crypto.SHA1:   "http://www.w3.org/2000/09/xmldsig#rsa-sha1",
		crypto.SHA256: "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256",
	}
	var certs strings.Builder
	for i, h := range p.certs {
		if i > 0 && p.apart {
			certs.WriteString("</X509Data><X509Data>")
		}
		fmt.Fprintf(&certs, "<X509Certificate>\n%s\n</X509Certificate>", base64.StdEncoding.EncodeToString(h.cert.Raw))
	}
	transforms := ""
	if p.exclRef {
		transforms = `<Transforms><Transform Algorithm="` + methods[true] + `"/></Transforms>`
	}
	doc := `<ThreeDSecure><Message id="m1"><PARes` + p.id + `>` + p.body + `</PARes>` +
		`<Signature xmlns="http://www.w3.org/2000/09/xmldsig#"><SignedInfo>` +
		`<CanonicalizationMethod Algorithm="` + methods[p.exclInfo] + `"/>` +
		`<SignatureMethod Algorithm="` + method[p.hash] + `"/>` +
		`<Reference` + p.uri + `>` + transforms + `<DigestMethod Algorithm="` + digest[p.hash] + `"/>` +
		`<DigestValue>DIGEST</DigestValue></Reference></SignedInfo>` +
		`<SignatureValue>VALUE</SignatureValue><KeyInfo><X509Data>` + certs.String() + `</X509Data></KeyInfo>` +
		`</Signature></Message></ThreeDSecure>`
	doc = strings.NewReplacer(p.edit...).Replace(doc)

	hashed := func(e *xmldsig.Element, exclusive bool) []byte {
		h := p.hash.New()
		h.Write(e.Canonical(exclusive))
		return h.Sum(nil)
	}
	message := parsed(t, doc).Elements()[0].Elements()
	doc = strings.ReplaceAll(doc, "DIGEST", base64.StdEncoding.EncodeToString(hashed(message[0], p.exclRef)))
	message = parsed(t, doc).Elements()[0].Elements()
	value, err := rsa.SignPKCS1v15(rand.Reader, signer, p.hash, hashed(message[1].Elements()[0], p.exclInfo))
	if err != nil {
		t.Fatal(err)
	}
	doc = strings.ReplaceAll(doc, "VALUE", base64.StdEncoding.EncodeToString(value))
	return []byte(strings.NewReplacer(p.after...).Replace(doc))
}

func parsed(t testing.TB, doc string) *xmldsig.Element {
	t.Helper()
	root, err := xmldsig.Parse([]byte(doc))
	if err != nil {
		t.Fatalf("%v\n%s", err, doc)
	}
	return root
}

// trusting returns a policy for certificates of tests.
func trusting(t testing.TB, roots ...*holder) xmldsig.Policy {
	p := xmldsig.Policy{Name: "test", At: chainTime, MinKeyBits: 1024}
	for _, r := range roots {
		p.Roots = append(p.Roots, newRoot(t, r.cert.Raw))
	}
	return p
}

// signedBits returns issuer's signature with SHA-256 of a certificate's part to be
// signed.
func signedBits(t testing.TB, tbs []byte, issuer *holder) asn1.RawValue {
	t.Helper()
	h := sha256.Sum256(tbs)
	value, err := rsa.SignPKCS1v15(rand.Reader, issuer.key, crypto.SHA256, h[:])
	if err != nil {
		t.Fatal(err)
	}
	der, err := asn1.Marshal(asn1.BitString{Bytes: value, BitLength: 8 * len(value)})
	if err != nil {
		t.Fatal(err)
	}
	return asn1.RawValue{FullBytes: der}
}
