// Package v1test plays an issuer of 3-D Secure 1.0.2 in tests: it reads a PAReq
// and signs a PARes. It shares no code with what it tests, so that the two do
// not share mistakes.
package v1test

import (
	"bytes"
	"compress/zlib"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha1" // what real issuers use
	_ "crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"encoding/xml"
	"fmt"
	"io"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"
)

// An Issuer signs for one scheme.
type Issuer struct {
	t     testing.TB
	hash  crypto.Hash
	key   *rsa.PrivateKey
	chain [][]byte // DER: the signer's certificate, that of an authority between, the root's
}

// Options say how an issuer differs from the plainest one.
type Options struct {
	SHA1     bool      // in the signature; certificates never have it
	Bits     int       // of the signer's key; 0: 2048
	NotAfter time.Time // of all certificates; zero: tomorrow
}

// NewIssuer makes an issuer with a root of its own.
func NewIssuer(t testing.TB, o Options) *Issuer {
	t.Helper()
	i := &Issuer{t: t, hash: crypto.SHA256}
	if o.SHA1 {
		i.hash = crypto.SHA1
	}
	if o.Bits == 0 {
		o.Bits = 2048
	}
	if o.NotAfter.IsZero() {
		o.NotAfter = time.Now().Add(24 * time.Hour)
	}
	rootKey, middleKey := i.newKey(2048), between()
	i.key = i.newKey(o.Bits)
	template := func(n int64, name string, ca bool) *x509.Certificate {
		c := &x509.Certificate{
			SerialNumber: big.NewInt(n), Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
			NotBefore: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: o.NotAfter,
		}
		if ca {
			c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
		}
		return c
	}
	name := fmt.Sprintf("Issuers %x", i.key.N.Bytes()[:4])
	root, middle, leaf := template(1, name+" Root", true), template(2, name+" CA", true), template(3, name+" Signer", false)
	i.chain = [][]byte{
		i.certify(leaf, middle, &i.key.PublicKey, middleKey),
		i.certify(middle, root, &middleKey.PublicKey, rootKey),
		i.certify(root, root, &rootKey.PublicKey, rootKey),
	}
	return i
}

// between is the key of all authorities between root and signer. They share one since
// making keys takes long.
var between = sync.OnceValue(func() *rsa.PrivateKey { return (&Issuer{t: new(testing.T)}).newKey(2048) })

func (i *Issuer) newKey(bits int) *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		i.t.Fatal(err)
	}
	return key
}

func (i *Issuer) certify(c, by *x509.Certificate, public *rsa.PublicKey, key *rsa.PrivateKey) []byte {
	der, err := x509.CreateCertificate(rand.Reader, c, by, public, key)
	if err != nil {
		i.t.Fatal(err)
	}
	return der
}

// Root is the DER of the issuer's root certificate.
func (i *Issuer) Root() []byte { return i.chain[2] }

// RootPEM is the root certificate as PEM.
func (i *Issuer) RootPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Root()})
}

// A PARes is one to be signed. Its values are not checked.
type PARes struct {
	ID, MessageID, AcqBIN, MerID, XID, Date, Amount, Currency, Exponent, PAN string
	Time, Status, CAVV, ECI, CAVVAlgorithm                                   string
}

// A PAReq is a PAReq as an issuer reads it.
type PAReq struct {
	Message struct {
		ID    string `xml:"id,attr"`
		PAReq struct {
			Version  string `xml:"version"`
			Merchant struct {
				AcqBIN  string `xml:"acqBIN"`
				MerID   string `xml:"merID"`
				Name    string `xml:"name"`
				Country string `xml:"country"`
				URL     string `xml:"url"`
			}
			Purchase struct {
				XID         string `xml:"xid"`
				Date        string `xml:"date"`
				Amount      string `xml:"amount"`
				PurchAmount string `xml:"purchAmount"`
				Currency    string `xml:"currency"`
				Exponent    string `xml:"exponent"`
			}
			CH struct {
				AcctID string `xml:"acctID"`
				Expiry string `xml:"expiry"`
			}
		}
	}
}

// Decode reads the PAReq that /enrolled gave out.
func Decode(t testing.TB, text string) (req PAReq, document string) {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatalf("PAReq: %v", err)
	}
	z, err := zlib.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("PAReq: %v", err)
	}
	doc, err := io.ReadAll(z)
	if err != nil {
		t.Fatalf("PAReq: %v", err)
	}
	if err := xml.Unmarshal(doc, &req); err != nil {
		t.Fatalf("PAReq: %v", err)
	}
	return req, string(doc)
}

// Answer is the PARes of an issuer that repeats the PAReq, for a card with the
// given number.
func (r *PAReq) Answer(pan, status string) PARes {
	m, p := r.Message.PAReq.Merchant, r.Message.PAReq.Purchase
	a := PARes{
		ID: "PARes-" + r.Message.ID, MessageID: r.Message.ID, AcqBIN: m.AcqBIN, MerID: m.MerID,
		XID: p.XID, Date: p.Date, Amount: p.PurchAmount, Currency: p.Currency, Exponent: p.Exponent,
		PAN: strings.Repeat("0", len(pan)), Time: p.Date, Status: status,
	}
	if status == "Y" || status == "A" {
		a.PAN = strings.Repeat("0", len(pan)-4) + pan[len(pan)-4:]
		a.CAVV, a.ECI, a.CAVVAlgorithm = "AAABBCJZUwAAAAAAUFlTAAAAAAA=", "05", "2"
	}
	return a
}

// Document is the signed message, as XML.
func (i *Issuer) Document(p PARes) string {
	optional := ""
	if p.CAVV != "" {
		optional = element("cavv", p.CAVV) + element("eci", p.ECI) + element("cavvAlgorithm", p.CAVVAlgorithm)
	}
	signed := `<PARes id="` + escape(p.ID) + `"><version>1.0.2</version><Merchant>` +
		element("acqBIN", p.AcqBIN) + element("merID", p.MerID) + "</Merchant><Purchase>" +
		element("xid", p.XID) + element("date", p.Date) + element("purchAmount", p.Amount) + element("currency", p.Currency) +
		element("exponent", p.Exponent) + "</Purchase>" + element("pan", p.PAN) + "<TX>" +
		element("time", p.Time) + element("status", p.Status) + optional + "</TX></PARes>"
	return `<ThreeDSecure><Message id="` + escape(p.MessageID) + `">` + signed + i.signature(p.ID, signed) + "</Message></ThreeDSecure>"
}

// signature is the Signature of an element, whose text is in canonical form already.
func (i *Issuer) signature(id, signed string) string {
	const space = "http://www.w3.org/2000/09/xmldsig#"
	digestMethod, method := space+"sha1", space+"rsa-sha1"
	if i.hash == crypto.SHA256 {
		digestMethod, method = "http://www.w3.org/2001/04/xmlenc#sha256", "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"
	}
	info := `<CanonicalizationMethod Algorithm="http://www.w3.org/TR/2001/REC-xml-c14n-20010315"></CanonicalizationMethod>` +
		`<SignatureMethod Algorithm="` + method + `"></SignatureMethod>` +
		`<Reference URI="#` + escape(id) + `"><DigestMethod Algorithm="` + digestMethod + `"></DigestMethod>` +
		element("DigestValue", encode(i.sum(signed))) + `</Reference></SignedInfo>`
	value, err := rsa.SignPKCS1v15(rand.Reader, i.key, i.hash, i.sum(`<SignedInfo xmlns="`+space+`">`+info))
	if err != nil {
		i.t.Fatal(err)
	}
	certs := ""
	for _, der := range i.chain {
		certs += element("X509Certificate", encode(der))
	}
	return `<Signature xmlns="` + space + `"><SignedInfo>` + info + element("SignatureValue", encode(value)) +
		"<KeyInfo><X509Data>" + certs + "</X509Data></KeyInfo></Signature>"
}

func (i *Issuer) sum(text string) []byte {
	h := i.hash.New()
	_, _ = io.WriteString(h, text)
	return h.Sum(nil)
}

// Sign is Document as a form field of a browser has it.
func (i *Issuer) Sign(p PARes) string { return Pack(i.Document(p)) }

// Pack compresses and encodes a document for a form field.
func Pack(document string) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	_, _ = io.WriteString(z, document)
	_ = z.Close()
	return encode(b.Bytes())
}

func encode(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// element and escape write in canonical form.
func element(name, text string) string {
	return "<" + name + ">" + strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text) + "</" + name + ">"
}

func escape(attribute string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", `"`, "&quot;").Replace(attribute)
}
