package v1

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha1" // #nosec G505 -- what issuers of 1.0.2 sign with
	_ "crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"math/big"
	"strings"
	"time"

	"github.com/openthreeds/threeds/sandbox/internal/scenario"
)

// A style is how the peers of a scheme write: all of it legal, and each seen
// at real ones.
type style struct {
	contentType string // of the directory server's answers
	declaration string // before the root element
	namespace   string // one that is declared on the root element and never used
	gap         string // between elements
	lineEnd     string // of the document
	columns     int    // of base64 in the document, 0 for one line
	formColumns int    // of the base64 in the field PaRes
	prefix      string // of the names of the signature
	exclusive   bool   // exclusive canonical form for SignedInfo
	sha256      bool
	apart       bool   // each certificate in an X509Data of its own, with its subject
	order       string // of the certificates: l, i, r, and x for one of somebody else
	id          string // of the element PARes, a pattern for the number of it
	skew        time.Duration
	blankAmount bool // an empty amount in the PARes
	usage       x509.KeyUsage
	extended    []x509.ExtKeyUsage
}

var niceStyle = style{
	contentType: "application/xml; charset=utf-8", order: "lir", id: "PARes%s", usage: x509.KeyUsageDigitalSignature,
}

var styles = map[string]style{
	"visa": {
		contentType: `application/xml; charset="utf-8"`, declaration: `<?xml version="1.0" encoding="UTF-8"?>`,
		columns: 76, lineEnd: "\n", order: "lri", id: "PARes%s+znllnC4Js=", usage: x509.KeyUsageDigitalSignature,
	},
	"mastercard": {
		contentType: "text/xml", gap: "\n", columns: 76, lineEnd: "\r\n", formColumns: 76, order: "ril", id: "%s",
	},
	"amex": {
		contentType: "application/xml;charset=UTF-8", declaration: `<?xml version="1.0" ?>`, exclusive: true, apart: true,
		columns: 64, lineEnd: "\n", order: "ril", id: ":%s", extended: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	},
	"jcb": {
		contentType: "application/xml; charset=utf-8", prefix: "ds:", sha256: true, skew: -18 * time.Second, order: "lir",
		id:    "PARes_%s",
		usage: x509.KeyUsageDigitalSignature | x509.KeyUsageContentCommitment,
	},
	"protectbuy": {
		contentType: "text/xml; charset=utf-8", namespace: ` xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"`,
		columns: 48, lineEnd: "\n", formColumns: 64, order: "xlri", id: "PARes%s", blankAmount: true,
	},
}

// What the identifiers of algorithms begin with.
const (
	dsig   = "http://www.w3.org/2000/09/xmldsig#"
	dsig2  = "http://www.w3.org/2001/04/xmldsig-more#"
	xmlenc = "http://www.w3.org/2001/04/xmlenc#"
	c14n   = "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"
	excC14 = "http://www.w3.org/2001/10/xml-exc-c14n#"
)

// A sealer writes and signs one PARes.
type sealer struct {
	style    style
	chain    *chain
	stranger *x509.Certificate // has nothing to do with it
	fault    scenario.Fault
}

// document is the message with a PARes, given without its attributes, and its
// signature.
func (s sealer) document(messageID string, inside []string) []byte {
	id := fmt.Sprintf(s.style.id, number())
	name := ` id="` + escapeAttr.Replace(id) + `"`
	body := s.join(inside...) + "</PARes>"
	signed := s.signature(id, "<PARes"+s.style.namespace+name+">"+body)
	plain := "<PARes" + name + ">" + body
	switch {
	case s.fault.Is("PARes", "unsigned"):
		signed = ""
	case s.fault.Is("PARes", "edited"):
		plain = otherAmount(plain)
	case s.fault.Is("PARes", "wrapped"):
		plain = strings.Replace(otherAmount(plain), name, ` id="forged"`, 1) + plain
	}
	text := s.style.declaration + "<ThreeDSecure" + s.style.namespace + ">" +
		`<Message id="` + escapeAttr.Replace(messageID) + `">` + plain + signed + "</Message></ThreeDSecure>"
	if s.style.lineEnd != "" {
		text = strings.ReplaceAll(text, "\n", s.style.lineEnd)
	}
	return []byte(text)
}

// otherAmount puts another amount into a PARes.
func otherAmount(pares string) string {
	return strings.Replace(pares, "<purchAmount>", "<purchAmount>1", 1)
}

// join puts elements next to each other, with the style's gaps around them.
func (s sealer) join(elements ...string) string {
	return s.style.gap + strings.Join(elements, s.style.gap) + s.style.gap
}

// number is the part of an id that changes.
func number() string {
	n, _ := rand.Int(rand.Reader, big.NewInt(900_000_000)) // crypto/rand does not fail
	return n.Add(n, big.NewInt(100_000_000)).String()
}

// signature signs what stands in the document under id, given in its inclusive
// canonical form.
func (s sealer) signature(id, canonical string) string {
	hash, digestMethod, method := crypto.SHA1, dsig+"sha1", dsig+"rsa-sha1"
	if s.style.sha256 {
		hash, digestMethod, method = crypto.SHA256, xmlenc+"sha256", dsig2+"rsa-sha256"
	}
	form, inherited := c14n, s.style.namespace
	if s.style.exclusive {
		form, inherited = excC14, ""
	}
	uri := "#" + id
	if s.fault.Is("PARes", "reference") {
		uri = "#1278765"
	}
	p := s.style.prefix
	own := ` xmlns="` + dsig + `"`
	if p != "" {
		own = ` xmlns:` + strings.TrimSuffix(p, ":") + `="` + dsig + `"`
	}
	empty := func(name, attribute, value string) string {
		return "<" + p + name + " " + attribute + `="` + escapeAttr.Replace(value) + `"></` + p + name + ">"
	}
	info := s.join(
		empty("CanonicalizationMethod", "Algorithm", form),
		empty("SignatureMethod", "Algorithm", method),
		"<"+p+`Reference URI="`+escapeAttr.Replace(uri)+`">`+s.join(
			empty("DigestMethod", "Algorithm", digestMethod),
			tag(p+"DigestValue", base64.StdEncoding.EncodeToString(digest(hash, canonical))),
		)+"</"+p+"Reference>",
	)
	value, err := rsa.SignPKCS1v15(nil, s.chain.key, hash,
		digest(hash, "<"+p+"SignedInfo"+own+inherited+">"+info+"</"+p+"SignedInfo>"))
	if err != nil {
		panic("sandbox: signing: " + err.Error()) // an RSA key of 2048 bits
	}
	if s.fault.Is("PARes", "signature") {
		value[len(value)/2] ^= 1
	}
	return "<" + p + "Signature" + own + ">" +
		tag(p+"SignedInfo", info) +
		tag(p+"SignatureValue", wrap(value, s.style.columns)) +
		tag(p+"KeyInfo", s.certificates()) +
		"</" + p + "Signature>"
}

// certificates are those of the chain in the style's order.
func (s sealer) certificates() string {
	p := s.style.prefix
	var all []string
	for _, c := range s.style.order {
		cert := map[rune]*x509.Certificate{
			'l': s.chain.leaf, 'i': s.chain.intermediate, 'r': s.chain.root, 'x': s.stranger,
		}[c]
		text := tag(p+"X509Certificate", wrap(cert.Raw, s.style.columns))
		if s.style.apart {
			text = tag(p+"X509Data", leaf(p+"X509SubjectName", cert.Subject.String()), text)
		}
		all = append(all, text)
	}
	if s.style.apart {
		return strings.Join(all, "")
	}
	return tag(p+"X509Data", all...)
}

func digest(hash crypto.Hash, text string) []byte {
	h := hash.New()
	_, _ = io.WriteString(h, text) // a hash does not fail
	return h.Sum(nil)
}

// wrap is base64 in lines.
func wrap(raw []byte, columns int) string {
	text := base64.StdEncoding.EncodeToString(raw)
	if columns == 0 {
		return text
	}
	var b strings.Builder
	for len(text) > columns {
		b.WriteString(text[:columns] + "\n")
		text = text[columns:]
	}
	return b.String() + text
}
