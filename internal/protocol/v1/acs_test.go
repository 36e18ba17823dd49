package v1_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/v1"
	"github.com/openthreeds/threeds/internal/protocol/v1/packing"
	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
)

// An acs signs PARes. It knows nothing of our canonical form: what it signs is
// written in that form.
type acs struct {
	key  *rsa.PrivateKey
	cert []byte // DER, of a certificate that is its own authority's
	root *xmldsig.Root
}

var signer = sync.OnceValue(newACS)

func newACS() *acs {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	must(err)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Root"}, NotBefore: signTime.AddDate(-1, 0, 0), NotAfter: signTime.AddDate(1, 0, 0),
		BasicConstraintsValid: true, IsCA: true,
	}
	root, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	must(err)
	leaf := *ca
	leaf.Subject.CommonName, leaf.IsCA, leaf.SerialNumber = "ACS", false, big.NewInt(2)
	cert, err := x509.CreateCertificate(rand.Reader, &leaf, ca, &key.PublicKey, key)
	must(err)
	a := &acs{key: key, cert: cert}
	a.root, err = xmldsig.NewRoot(root)
	must(err)
	return a
}

// policies says whom to believe, see OpenPARes.
type policies = func(time.Time) []xmldsig.Policy

// signTime is the TX.time of what the acs signs.
var signTime = time.Date(2015, 2, 16, 10, 17, 23, 0, time.UTC)

// trust believes the acs for a scheme.
func (a *acs) trust(scheme string) policies {
	return func(time.Time) []xmldsig.Policy {
		return []xmldsig.Policy{{Name: scheme, Roots: []*xmldsig.Root{a.root}, At: signTime, MinKeyBits: 1024}}
	}
}

func nobody(time.Time) []xmldsig.Policy { return nil }

// body is what is in a PARes that is good for Visa.
const body = `<version>1.0.2</version><Merchant><acqBIN>411111</acqBIN><merID>999</merID></Merchant>` +
	`<Purchase><xid>MDAwMDAwMDAwMDEyMzQ1Njc4OTA=</xid><date>20150216 10:17:41</date><purchAmount>21601</purchAmount>` +
	`<currency>208</currency><exponent>2</exponent></Purchase><pan>0000000000001548</pan>` +
	`<TX><time>20150216 10:17:23</time><status>Y</status><cavv>jI3JBkkaQ1p8CBAAABy0CHUAAAA=</cavv><eci>05</eci><cavvAlgorithm>2</cavvAlgorithm></TX>`

// changed is body after replacements, each of which must be possible once.
func changed(pairs ...string) string {
	s := body
	for i := 0; i < len(pairs); i += 2 {
		if strings.Count(s, pairs[i]) != 1 {
			panic("not once: " + pairs[i])
		}
		s = strings.Replace(s, pairs[i], pairs[i+1], 1)
	}
	return s
}

// sign returns a document with a signed PARes that holds body, which is in
// canonical form.
func (a *acs) sign(body string) []byte {
	pares := `<PARes id="p1">` + body + `</PARes>`
	digest := sha256.Sum256([]byte(pares))
	const space = ` xmlns="http://www.w3.org/2000/09/xmldsig#"`
	info := `<CanonicalizationMethod Algorithm="http://www.w3.org/TR/2001/REC-xml-c14n-20010315"></CanonicalizationMethod>` +
		`<SignatureMethod Algorithm="http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"></SignatureMethod>` +
		`<Reference URI="#p1"><DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha256"></DigestMethod>` +
		`<DigestValue>` + based(digest[:]) + `</DigestValue></Reference></SignedInfo>`
	hashed := sha256.Sum256([]byte("<SignedInfo" + space + ">" + info))
	value, err := rsa.SignPKCS1v15(nil, a.key, crypto.SHA256, hashed[:])
	if err != nil {
		panic(err)
	}
	return fmt.Appendf(nil, `<ThreeDSecure><Message id="m1">%s<Signature%s><SignedInfo>%s<SignatureValue>%s</SignatureValue>`+
		`<KeyInfo><X509Data><X509Certificate>%s</X509Certificate></X509Data></KeyInfo></Signature></Message></ThreeDSecure>`,
		pares, space, info, based(value), based(a.cert))
}

// open opens a PARes with this in it as one of the scheme.
func (a *acs) open(scheme, body string) (*v1.Opened, error) {
	return v1.OpenPARes(packing.Deflate(a.sign(body)), a.trust(scheme))
}

// The documents that the tests of the signature use too.
const vectors = "../xmldsig/testdata/"

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(vectors, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// vectorRoot trusts the authority of the vectors, as a root of Mastercard's.
func vectorRoot(t testing.TB) policies {
	t.Helper()
	block, _ := pem.Decode(read(t, "root.pem"))
	root, err := xmldsig.NewRoot(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	return func(time.Time) []xmldsig.Policy {
		return []xmldsig.Policy{{Name: "mastercard", Roots: []*xmldsig.Root{root}, At: at, AllowSHA1: true}}
	}
}

// realPARes is one that a real issuer signed, from public documentation, and the
// trust in the root that it brings along, at the time it was signed.
func realPARes(t testing.TB) (text string, trust policies) {
	t.Helper()
	text = string(read(t, "real/mpidocs_pares.b64"))
	doc, _, err := packing.Inflate(text)
	if err != nil {
		t.Fatal(err)
	}
	encoded, _, _ := strings.Cut(strings.Split(string(doc), "<X509Certificate>")[2], "<")
	der, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	root, err := xmldsig.NewRoot(der)
	if err != nil {
		t.Fatal(err)
	}
	return text, func(claimed time.Time) []xmldsig.Policy {
		return []xmldsig.Policy{{Name: "mastercard", Roots: []*xmldsig.Root{root}, At: claimed, AllowSHA1: true, MinKeyBits: 1024}}
	}
}
