package clientcert

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Spec says what key a request is for. Bits or Curve may be set, not both; by default the key is RSA with
// DefaultBits.
type Spec struct {
	Bits    int    // of an RSA key: 2048, 3072 or 4096
	Curve   string // P-256 or P-384
	Subject string // as CN=3ds.example,O=Example
}

// DefaultBits is the default length of an RSA key. All schemes accept it.
const DefaultBits = 2048

var curves = map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384()}

// newRequest makes a key and its signing request.
func newRequest(spec Spec) (request, error) {
	name, err := ParseSubject(spec.Subject)
	if err != nil {
		return request{}, err
	}
	key, err := newKey(spec)
	if err != nil {
		return request{}, err
	}
	template := &x509.CertificateRequest{Subject: name}
	if isHostName(name.CommonName) {
		template.DNSNames = []string{name.CommonName}
	}
	var r request
	if r.CSR, err = x509.CreateCertificateRequest(rand.Reader, template, key); err != nil {
		return request{}, fmt.Errorf("certificate signing request: %w", err)
	}
	r.Key, err = x509.MarshalPKCS8PrivateKey(key)
	return r, err
}

func newKey(spec Spec) (crypto.Signer, error) {
	if spec.Curve == "" {
		switch bits := cmp.Or(spec.Bits, DefaultBits); bits {
		case 2048, 3072, 4096:
			return rsa.GenerateKey(rand.Reader, bits)
		default:
			return nil, refuse("key", "an RSA key of %d bits is not made: want 2048, 3072 or 4096", bits)
		}
	}
	if spec.Bits != 0 {
		return nil, refuse("key", "bits are of an RSA key, a curve is of another: give one of the two")
	}
	curve := curves[spec.Curve]
	if curve == nil {
		return nil, refuse("key", "unknown curve: want P-256 or P-384")
	}
	return ecdsa.GenerateKey(curve, rand.Reader)
}

// keyName is what people call a kind of key.
func keyName(key crypto.PublicKey) string {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA %d", k.N.BitLen())
	case *ecdsa.PublicKey:
		return k.Curve.Params().Name
	}
	return "unknown"
}

func encodeCSR(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

var hostName = regexp.MustCompile(`^(?i)[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$`)

func isHostName(name string) bool { return len(name) <= 253 && hostName.MatchString(name) }

// The attributes of a subject that are not lists, by their keys.
var (
	oidSerialNumber = asn1.ObjectIdentifier{2, 5, 4, 5}
	oidOrganisation = asn1.ObjectIdentifier{2, 5, 4, 97} // organizationIdentifier, as in certificates of payment services
)

// ParseSubject reads a subject such as CN=3ds.example,O=Example\, Inc.,C=NL, as [pkix.Name.String] writes it. A
// backslash takes the next character as it is.
func ParseSubject(text string) (name pkix.Name, err error) {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return name, refuse("subject", "the subject has characters that cannot be printed")
	}
	lists := map[string]*[]string{
		"O": &name.Organization, "OU": &name.OrganizationalUnit, "C": &name.Country, "L": &name.Locality,
		"ST": &name.Province, "STREET": &name.StreetAddress, "POSTALCODE": &name.PostalCode,
	}
	extra := map[string]asn1.ObjectIdentifier{"SERIALNUMBER": oidSerialNumber, "ORGANIZATIONIDENTIFIER": oidOrganisation}
	for _, part := range splitSubject(text) {
		key, value, ok := strings.Cut(part, "=")
		key, value = strings.ToUpper(strings.TrimSpace(key)), strings.TrimSpace(unescape(value))
		switch list := lists[key]; {
		case !ok || value == "":
			return name, refuse("subject", "part %q of the subject is not KEY=VALUE, as in CN=3ds.example,O=Example,C=NL", part)
		case utf8.RuneCountInString(value) > 64:
			return name, refuse("subject", "the %s of the subject is longer than 64 characters", key)
		case key == "C" && !regexp.MustCompile(`^[A-Za-z]{2}$`).MatchString(value):
			return name, refuse("subject", "the C of the subject is not a country of two letters, such as NL")
		case key == "CN" && name.CommonName != "":
			return name, refuse("subject", "the subject has two CN: give one")
		case key == "CN":
			name.CommonName = value
		case list != nil:
			*list = append(*list, value)
		case extra[key] != nil:
			name.ExtraNames = append(name.ExtraNames, pkix.AttributeTypeAndValue{Type: extra[key], Value: value})
		default:
			return name, refuse("subject",
				"unknown key %q in the subject: want CN, O, OU, C, L, ST, STREET, POSTALCODE, SERIALNUMBER or ORGANIZATIONIDENTIFIER",
				key)
		}
	}
	if name.CommonName == "" {
		return name, refuse("subject", "the subject has no CN, as in CN=3ds.example,O=Example,C=NL")
	}
	return name, nil
}

// splitSubject cuts a subject at the commas and plus signs that no backslash stands before.
func splitSubject(text string) (parts []string) {
	var part strings.Builder
	isEscaped := false
	for _, r := range text {
		if (r == ',' || r == '+') && !isEscaped {
			parts = append(parts, part.String())
			part.Reset()
			continue
		}
		isEscaped = r == '\\' && !isEscaped
		part.WriteRune(r)
	}
	return append(parts, part.String())
}

// unescape takes away the backslashes that escape.
func unescape(text string) string {
	var b strings.Builder
	isEscaped := false
	for _, r := range text {
		if isEscaped = r == '\\' && !isEscaped; !isEscaped {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// DefaultSubject returns the subject of a request that names none: that of the certificate in use, else the host of the
// address to which a directory server posts results.
func (s *Status) DefaultSubject(resultsURL string) string {
	if s.Current != nil {
		return s.Current.Subject
	}
	u, err := url.Parse(resultsURL)
	if err != nil {
		return ""
	}
	return "CN=" + EscapeSubject(u.Hostname())
}

// EscapeSubject returns a value for a subject that ParseSubject reads as it is.
func EscapeSubject(value string) string {
	return strings.NewReplacer(`\`, `\\`, `,`, `\,`, `+`, `\+`).Replace(value)
}
