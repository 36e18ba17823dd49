package xmldsig

// A Reason says why a signature is refused, in words for a log.
type Reason string

// Reasons that lie in the document.
const (
	NotBeside     Reason = "signature and signed element are not neighbours in one document"
	NoID          Reason = "signed element has no id"
	IDTwice       Reason = "id of the signed element stands elsewhere too"
	RelativeSpace Reason = "namespace is a relative URI, of which there is no canonical form"
	WrongURI      Reason = "reference is not to the signed element"
	Form          Reason = "not the one form of a signature that is read"
	NotOne        Reason = "not exactly one where it should be"
	NotBase64     Reason = "not base64"
	NotAllowed    Reason = "algorithm is not allowed"
	DigestDiffer  Reason = "digest differs: the signed element was changed"
)

// Reasons that lie in the key and the certificates.
const (
	NoCertificate    Reason = "no certificate"
	ManyCertificates Reason = "too many certificates"
	WrongKey         Reason = "made by the key of no certificate that could be read"
	NoRoot           Reason = "chain of certificates ends in no root that is trusted"
	LongChain        Reason = "chain of certificates is too long or too entangled"
	LinkBroken       Reason = "certificate was not signed by the issuer it names"
	NotCA            Reason = "issuer is no certificate authority"
	NotForCerts      Reason = "key of an issuer is not for signing certificates"
	NotForSigning    Reason = "key is not for signing"
	PathLength       Reason = "issuer may not have so many authorities below it"
	Critical         Reason = "certificate has a critical extension that is not understood"
	NotYetValid      Reason = "certificate is not valid yet"
	Expired          Reason = "certificate is expired"
	KeySize          Reason = "key is too short"
	SHA1Signature    Reason = "SHA-1 in the signature is not allowed"
	SHA1Certificate  Reason = "SHA-1 in the signature of a certificate is not allowed"
)

// A Refusal is the error of [Verify]. Its text names reasons and places, never
// values.
type Refusal struct {
	Reason Reason
	Where  string // an element of the signature, or a certificate: "signer", "issuer 1" …, "root"; may be ""
	Policy string // name of the policy whose root the chain leads to, if it leads to one
}

func (r *Refusal) Error() string {
	s := "xmldsig: "
	if r.Policy != "" {
		s += r.Policy + ": "
	}
	if r.Where != "" {
		s += r.Where + ": "
	}
	return s + string(r.Reason)
}
