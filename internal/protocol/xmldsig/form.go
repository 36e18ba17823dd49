package xmldsig

import (
	"crypto"
	"encoding/base64"
	"slices"
	"strings"
)

const spaceDSig = "http://www.w3.org/2000/09/xmldsig#"

// isDSig tells whether e is the element of XML Signature with this name.
func (e *Element) isDSig(local string) bool {
	return e.Local == local && e.Space == spaceDSig
}

// The algorithms that a signature may have.
var (
	canonicalizations = map[string]bool{ // is it exclusive?
		"http://www.w3.org/TR/2001/REC-xml-c14n-20010315": false,
		"http://www.w3.org/2001/10/xml-exc-c14n#":         true,
	}
	digests = map[string]crypto.Hash{
		spaceDSig + "sha1":                        crypto.SHA1,
		"http://www.w3.org/2001/04/xmlenc#sha256": crypto.SHA256,
	}
	signatures = map[string]crypto.Hash{ // all are RSA with the padding of PKCS #1 v1.5
		spaceDSig + "rsa-sha1":                              crypto.SHA1,
		"http://www.w3.org/2001/04/xmldsig-more#rsa-sha256": crypto.SHA256,
	}
)

// maxCertificates is how many certificates a signature may bring along.
const maxCertificates = 8

// A form is what an element Signature holds.
type form struct {
	signedInfo   *Element
	infoExcl     bool        // the canonical form of SignedInfo is the exclusive one
	hash         crypto.Hash // of the signature
	value        []byte      // SignatureValue
	uri          string      // of the Reference
	refExcl      bool        // the canonical form of the signed element is the exclusive one
	refHash      crypto.Hash // of the signed element
	digest       []byte      // DigestValue
	certificates [][]byte    // DER, in the order of the document
}

// readForm reads a Signature of the one shape that is allowed: SignedInfo with one
// Reference, SignatureValue, KeyInfo.
func readForm(signature *Element) (*form, error) {
	if !signature.isDSig("Signature") {
		return nil, &Refusal{Reason: Form, Where: "Signature"}
	}
	parts, err := children(signature, "SignedInfo", "SignatureValue", "KeyInfo")
	if err != nil {
		return nil, err
	}
	f := &form{signedInfo: parts[0]}
	if err := f.readInfo(parts[0]); err != nil {
		return nil, err
	}
	if f.value, err = decoded(parts[1]); err != nil {
		return nil, err
	}
	return f, f.readKeyInfo(parts[2])
}

func (f *form) readInfo(info *Element) error {
	parts, err := children(info, "CanonicalizationMethod", "SignatureMethod", "Reference")
	if err != nil {
		return err
	}
	if f.infoExcl, err = algorithm(parts[0], canonicalizations); err != nil {
		return err
	}
	if f.hash, err = algorithm(parts[1], signatures); err != nil {
		return err
	}
	ref := parts[2]
	var ok bool
	if f.uri, ok = ref.Attr("URI"); !ok {
		return &Refusal{Reason: WrongURI, Where: "Reference"}
	}
	names := []string{"DigestMethod", "DigestValue"}
	if first := ref.Elements(); len(first) > 0 && first[0].Local == "Transforms" {
		names = slices.Insert(names, 0, "Transforms")
	}
	if parts, err = children(ref, names...); err != nil {
		return err
	}
	if len(parts) == 3 {
		transform, err := children(parts[0], "Transform")
		if err != nil {
			return err
		}
		if f.refExcl, err = algorithm(transform[0], canonicalizations); err != nil {
			return err
		}
		parts = parts[1:]
	}
	if f.refHash, err = algorithm(parts[0], digests); err != nil {
		return err
	}
	f.digest, err = decoded(parts[1])
	return err
}

// readKeyInfo collects the certificates. Whatever else a KeyInfo holds, such as a bare
// key, is ignored.
func (f *form) readKeyInfo(info *Element) error {
	for _, data := range info.Elements() {
		if !data.isDSig("X509Data") {
			continue
		}
		for _, c := range data.Elements() {
			if !c.isDSig("X509Certificate") {
				continue
			}
			if len(f.certificates) == maxCertificates {
				return &Refusal{Reason: ManyCertificates, Where: "KeyInfo"}
			}
			der, err := decoded(c)
			if err != nil {
				return err
			}
			f.certificates = append(f.certificates, der)
		}
	}
	if len(f.certificates) == 0 {
		return &Refusal{Reason: NoCertificate, Where: "KeyInfo"}
	}
	return nil
}

// children returns the child elements of e. They must be these, in this order, each once,
// with nothing but white space between them.
func children(e *Element, names ...string) ([]*Element, error) {
	refusal := &Refusal{Reason: Form, Where: e.Local}
	list := e.Elements()
	for _, name := range names {
		other := func(c *Element) bool { return !c.isDSig(name) }
		if n := len(slices.DeleteFunc(slices.Clone(list), other)); n != 1 {
			return nil, &Refusal{Reason: NotOne, Where: name}
		}
	}
	if len(list) != len(names) {
		return nil, refusal
	}
	for i, name := range names {
		if !list[i].isDSig(name) {
			return nil, refusal
		}
	}
	for _, n := range e.Content {
		if strings.Trim(n.Text, " \t\r\n") != "" {
			return nil, refusal
		}
	}
	return list, nil
}

// algorithm returns what allowed has for the attribute Algorithm of e. Parameters, which
// would be child elements or text, are refused.
func algorithm[T any](e *Element, allowed map[string]T) (T, error) {
	name, _ := e.Attr("Algorithm")
	v, ok := allowed[name]
	if text, plain := e.Text(); !ok || !plain || strings.Trim(text, " \t\r\n") != "" {
		return v, &Refusal{Reason: NotAllowed, Where: e.Local}
	}
	return v, nil
}

var unbroken = strings.NewReplacer(" ", "", "\t", "", "\r", "", "\n", "")

// decoded returns the bytes whose base64 is the text of e. White space in it is ignored.
func decoded(e *Element) ([]byte, error) {
	text, ok := e.Text()
	if !ok {
		return nil, &Refusal{Reason: Form, Where: e.Local}
	}
	value, err := base64.StdEncoding.DecodeString(unbroken.Replace(text))
	if err != nil || len(value) == 0 {
		return nil, &Refusal{Reason: NotBase64, Where: e.Local}
	}
	return value, nil
}
