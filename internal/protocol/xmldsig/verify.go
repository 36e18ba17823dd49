package xmldsig

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"slices"
	"strings"
	"time"
)

// A Policy says which signatures to believe. There is one for each card scheme, so that the
// root of one scheme is not trusted for another.
type Policy struct {
	Name       string
	Roots      []*Root
	At         time.Time // when all certificates, the root included, must be valid
	MinKeyBits int       // of every key of the chain; 0 is 2048
	AllowSHA1  bool      // in the signature, and in those of the certificates
}

// Verified is what is known of a good signature.
type Verified struct {
	// Canonical are the bytes of the signed element that were digested. What was signed
	// must be read from these and nothing else.
	Canonical []byte
	Policy    string // name of the policy whose root the chain ends in
	Digest    string // hash of the signed element, "SHA-1" or "SHA-256"
	Signature string // hash of the signature, by the same names
	SHA1      bool   // SHA-1 was used in one of these, or in the signature of a certificate
	KeyBits   int    // of the key that signed
	Chain     int    // certificates, the signer's and the root included
}

// Verify checks that signature, which stands next to signed in the document, signs that element and nothing else. The
// certificates in it must chain from the key that signed to a root of one of the policies. The first policy that allows
// it counts. The error is a *[Refusal].
func Verify(signed, signature *Element, policies []Policy) (*Verified, error) {
	if signed == signature || signed.parent == nil || signed.parent != signature.parent {
		return nil, &Refusal{Reason: NotBeside}
	}
	f, err := readForm(signature)
	if err != nil {
		return nil, err
	}
	id, _ := signed.Attr("id")
	switch {
	case id == "":
		return nil, &Refusal{Reason: NoID}
	case f.uri != "#"+id:
		return nil, &Refusal{Reason: WrongURI, Where: "Reference"}
	case signed.root().countID(id) != 1:
		return nil, &Refusal{Reason: IDTwice}
	}
	canonical := signed.Canonical(f.refExcl)
	if !bytes.Equal(sum(f.refHash, canonical), f.digest) {
		return nil, &Refusal{Reason: DigestDiffer, Where: "DigestValue"}
	}
	if signed.root().hasRelativeSpace() {
		return nil, &Refusal{Reason: RelativeSpace}
	}

	certs := readCertificates(f.certificates)
	signers := f.signers(certs)
	if len(signers) == 0 {
		return nil, &Refusal{Reason: WrongKey, Where: "SignatureValue"}
	}
	v := &Verified{
		Canonical: canonical,
		Digest:    f.refHash.String(),
		Signature: f.hash.String(),
		SHA1:      f.refHash == crypto.SHA1 || f.hash == crypto.SHA1,
	}
	if err := v.trust(signers, certs, policies); err != nil {
		return nil, err
	}
	return v, nil
}

// countID counts the attributes in e and its content that may be ids with this value:
// "id" in upper or lower case, in any namespace.
func (e *Element) countID(id string) int {
	n := 0
	for _, a := range e.Attrs {
		if a.Value == id && strings.EqualFold(a.Local, "id") {
			n++
		}
	}
	for _, c := range e.Content {
		if c.Element != nil {
			n += c.Element.countID(id)
		}
	}
	return n
}

// hasRelativeSpace reports whether e or its content declares a namespace that is a relative
// URI. Such a document has no canonical form (Canonical XML 1.0, section 2.1).
func (e *Element) hasRelativeSpace() bool {
	return slices.ContainsFunc(e.spaces, func(b binding) bool { return b.uri != "" && !hasScheme(b.uri) }) ||
		slices.ContainsFunc(e.Content, func(n Node) bool { return n.Element != nil && n.Element.hasRelativeSpace() })
}

// hasScheme reports whether a URI is absolute: whether it begins with a letter, then
// letters, digits and the marks + - . up to a colon (RFC 3986, section 3.1).
func hasScheme(uri string) bool {
	for i, c := range []byte(uri) {
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
		case i > 0 && c == ':':
			return true
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return false
		}
	}
	return false
}

// signers returns the certificates whose key made the signature. Several may
// have the same key.
func (f *form) signers(certs []*certificate) []*certificate {
	hashed := sum(f.hash, f.signedInfo.Canonical(f.infoExcl))
	var list []*certificate
	for _, c := range certs {
		if c.key.Size() == len(f.value) && rsa.VerifyPKCS1v15(c.key, f.hash, hashed, f.value) == nil {
			list = append(list, c)
		}
	}
	return list
}

func sum(hash crypto.Hash, data []byte) []byte {
	h := hash.New()
	h.Write(data)
	return h.Sum(nil)
}
