package xmldsig_test

import (
	"crypto"
	"reflect"
	"testing"

	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
)

const (
	certificateTag = "<X509Data>"
	digestTag      = `<DigestMethod `
	infoEnd        = "</SignedInfo>"
)

// Each document is signed by the right key, after the edit: only its form is wrong.
func TestForm(t *testing.T) {
	ca := newHolder(t, nil, "ca")
	signer := newHolder(t, ca, "signer")
	policy := trusting(t, ca)
	const (
		c14n      = `"http://www.w3.org/TR/2001/REC-xml-c14n-20010315"`
		rsa256    = `"http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"`
		sha256    = `"http://www.w3.org/2001/04/xmlenc#sha256"`
		exc       = `<Transform Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#"/>`
		reference = `<Reference URI="#p1"><DigestMethod Algorithm=` + sha256 + `/><DigestValue>DIGEST</DigestValue></Reference>`
	)
	transforms := func(list string) []string {
		return []string{digestTag, "<Transforms>" + list + "</Transforms>" + digestTag}
	}
	for _, tt := range []struct {
		name  string
		edit  []string
		where string
		want  xmldsig.Reason // "" for good
	}{
		{"as it should be", nil, "", ""},
		{"blanks between elements", []string{infoEnd, " \n\t" + infoEnd + "\r\n"}, "", ""},
		{"ids of the signature", []string{"<SignedInfo>", `<SignedInfo Id="p2">`}, "", ""},
		{"inclusive transform", transforms(`<Transform Algorithm=` + c14n + `/>`), "", ""},
		{"other things in KeyInfo", []string{"<KeyInfo>", "<KeyInfo><KeyName>k</KeyName><KeyValue/>",
			certificateTag, certificateTag + "<X509SubjectName>CN=x</X509SubjectName>"}, "", ""},

		{"no SignedInfo", []string{"SignedInfo>", "Signedinfo>"}, "SignedInfo", xmldsig.NotOne},
		{"two SignedInfo", []string{infoEnd, infoEnd + "<SignedInfo/>"}, "SignedInfo", xmldsig.NotOne},
		{"two SignatureValue", []string{infoEnd, infoEnd + "<SignatureValue>VALUE</SignatureValue>"}, "SignatureValue", xmldsig.NotOne},
		{"two KeyInfo", []string{"<KeyInfo>", "<KeyInfo/><KeyInfo>"}, "KeyInfo", xmldsig.NotOne},
		{"no KeyInfo", []string{"KeyInfo>", "KeyIfno>"}, "KeyInfo", xmldsig.NotOne},
		{"two References", []string{infoEnd, reference + infoEnd}, "Reference", xmldsig.NotOne},
		{"two DigestValues", []string{"</Reference>", "<DigestValue>DIGEST</DigestValue></Reference>"}, "DigestValue", xmldsig.NotOne},
		{"two DigestMethods", []string{digestTag, digestTag + "/>" + digestTag}, "DigestMethod", xmldsig.NotOne},
		{"empty Reference", []string{digestTag + "Algorithm=" + sha256 + "/>", "", "<DigestValue>DIGEST</DigestValue>", ""}, "DigestMethod", xmldsig.NotOne},
		{"two Transforms", transforms(exc + exc), "Transform", xmldsig.NotOne},
		{"no Transform", transforms(""), "Transform", xmldsig.NotOne},
		{"two lists of Transforms", []string{digestTag, "<Transforms>" + exc + "</Transforms><Transforms>" + exc + "</Transforms>" + digestTag},
			"Transforms", xmldsig.NotOne},
		{"Object", []string{"</Signature>", "<Object/></Signature>"}, "Signature", xmldsig.Form},
		{"Manifest in SignedInfo", []string{infoEnd, "<Manifest/>" + infoEnd}, "SignedInfo", xmldsig.Form},
		{"something in Reference", []string{"</Reference>", "<x/></Reference>"}, "Reference", xmldsig.Form},
		{"order", []string{"<SignatureValue>VALUE</SignatureValue>", "", "</KeyInfo>", "</KeyInfo><SignatureValue>VALUE</SignatureValue>"},
			"Signature", xmldsig.Form},
		{"text", []string{infoEnd, "x" + infoEnd}, "SignedInfo", xmldsig.Form},
		{"no-break space", []string{"<SignatureValue>", "\u00a0<SignatureValue>"}, "Signature", xmldsig.Form},
		{"other namespace", []string{`"http://www.w3.org/2000/09/xmldsig#"><SignedInfo`, `"urn:x"><SignedInfo`}, "Signature", xmldsig.Form},
		{"element in a value", []string{"DIGEST", "DIGEST<x/>"}, "DigestValue", xmldsig.Form},
		{"element in a certificate", []string{"</X509Certificate>", "<x/></X509Certificate>"}, "X509Certificate", xmldsig.Form},

		{"c14n 1.1", []string{c14n, `"http://www.w3.org/2006/12/xml-c14n11"`}, "CanonicalizationMethod", xmldsig.NotAllowed},
		{"c14n with comments", []string{c14n, `"http://www.w3.org/TR/2001/REC-xml-c14n-20010315#WithComments"`}, "CanonicalizationMethod", xmldsig.NotAllowed},
		{"no c14n", []string{` Algorithm=` + c14n, ``}, "CanonicalizationMethod", xmldsig.NotAllowed},
		{"prefixes", []string{`Algorithm=` + c14n + `/>`, `Algorithm=` + c14n + `><x/></CanonicalizationMethod>`}, "CanonicalizationMethod", xmldsig.NotAllowed},
		{"HMAC", []string{rsa256, `"http://www.w3.org/2000/09/xmldsig#hmac-sha1"`}, "SignatureMethod", xmldsig.NotAllowed},
		{"DSA", []string{rsa256, `"http://www.w3.org/2000/09/xmldsig#dsa-sha1"`}, "SignatureMethod", xmldsig.NotAllowed},
		{"RSA-SHA512", []string{rsa256, `"http://www.w3.org/2001/04/xmldsig-more#rsa-sha512"`}, "SignatureMethod", xmldsig.NotAllowed},
		{"parameter", []string{rsa256 + "/>", rsa256 + "><HMACOutputLength>1</HMACOutputLength></SignatureMethod>"}, "SignatureMethod", xmldsig.NotAllowed},
		{"MD5", []string{sha256, `"http://www.w3.org/2001/04/xmldsig-more#md5"`}, "DigestMethod", xmldsig.NotAllowed},
		{"enveloped", transforms(`<Transform Algorithm="http://www.w3.org/2000/09/xmldsig#enveloped-signature"/>`), "Transform", xmldsig.NotAllowed},
		{"XPath", transforms(`<Transform Algorithm="http://www.w3.org/TR/1999/REC-xpath-19991116"><XPath>1</XPath></Transform>`), "Transform", xmldsig.NotAllowed},
		{"XSLT", transforms(`<Transform Algorithm="http://www.w3.org/TR/1999/REC-xslt-19991116"/>`), "Transform", xmldsig.NotAllowed},

		{"no URI", []string{` URI="#p1"`, ``}, "Reference", xmldsig.WrongURI},
		{"empty URI", []string{`"#p1"`, `""`}, "Reference", xmldsig.WrongURI},
		{"URI of something else", []string{`"#p1"`, `"#m1"`}, "Reference", xmldsig.WrongURI},
		{"URI as an XPointer", []string{`"#p1"`, `"#xpointer(id('p1'))"`}, "Reference", xmldsig.WrongURI},
		{"URI with a blank", []string{`"#p1"`, `"#p1 "`}, "Reference", xmldsig.WrongURI},
		{"URI of a file", []string{`"#p1"`, `"file:///etc/passwd#p1"`}, "Reference", xmldsig.WrongURI},
		{"no id", []string{` id="p1"`, ``, `"#p1"`, `"#"`}, "", xmldsig.NoID},
		{"empty id", []string{` id="p1"`, ` id=""`, `"#p1"`, `"#"`}, "", xmldsig.NoID},
		{"id of another name", []string{` id="p1"`, ` ID="p1"`}, "", xmldsig.NoID},
		{"id on the message", []string{`"m1"`, `"p1"`}, "", xmldsig.IDTwice},
		{"id inside", []string{"<TX>", `<TX iD="p1">`}, "", xmldsig.IDTwice},
		{"xml:id", []string{"<TX>", `<TX xml:id="p1">`}, "", xmldsig.IDTwice},
		{"id beside the id", []string{` id="p1"`, ` id="p1" Id="p1"`}, "", xmldsig.IDTwice},
		{"id in the signature", []string{"<SignedInfo>", `<SignedInfo Id="p1">`}, "", xmldsig.IDTwice},
		{"id on the root", []string{"<ThreeDSecure>", `<ThreeDSecure Id="p1">`}, "", xmldsig.IDTwice},

		{"digest not base64", []string{"DIGEST", "*"}, "DigestValue", xmldsig.NotBase64},
		{"empty digest", []string{"DIGEST", ""}, "DigestValue", xmldsig.NotBase64},
		{"another digest", []string{"DIGEST", "AAAA"}, "DigestValue", xmldsig.DigestDiffer},
		{"value not base64", []string{"VALUE", "VALUE*"}, "SignatureValue", xmldsig.NotBase64},
		{"empty value", []string{"VALUE", " "}, "SignatureValue", xmldsig.NotBase64},
		{"certificate not base64", []string{"<X509Certificate>", "<X509Certificate>*"}, "X509Certificate", xmldsig.NotBase64},
		{"no certificate", []string{"X509Certificate>", "x509Certificate>"}, "KeyInfo", xmldsig.NoCertificate},
		{"certificate in no X509Data", []string{"X509Data>", "PGPData>"}, "KeyInfo", xmldsig.NoCertificate},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPaper(signer)
			p.edit = tt.edit
			doc := p.sign(t, signer.key)
			if tt.want != "" {
				wantRefusal(t, doc, xmldsig.Refusal{Reason: tt.want, Where: tt.where}, policy)
			} else if _, err := verify(doc, policy); err != nil {
				t.Error(err)
			}
		})
	}
}

// All allowed combinations of algorithms and order are taken, and Verified says which it was.
func TestCombinations(t *testing.T) {
	ca := newHolder(t, nil, "ca")
	signer := newHolder(t, ca, "signer")
	policy := trusting(t, ca)
	policy.AllowSHA1 = true
	for _, hash := range []crypto.Hash{crypto.SHA1, crypto.SHA256} {
		for _, exclInfo := range []bool{false, true} {
			for _, exclRef := range []bool{false, true} {
				p := newPaper(ca, signer, ca) // order is of no account
				p.hash, p.exclInfo, p.exclRef, p.apart = hash, exclInfo, exclRef, exclInfo
				v, err := verify(p.sign(t, signer.key), policy)
				if err != nil {
					t.Errorf("%v, exclusive %v and %v: %v", hash, exclInfo, exclRef, err)
					continue
				}
				want := xmldsig.Verified{
					Canonical: v.Canonical, Policy: "test", Digest: hash.String(), Signature: hash.String(),
					SHA1: hash == crypto.SHA1, KeyBits: 1024, Chain: 2,
				}
				if !reflect.DeepEqual(*v, want) {
					t.Errorf("got  %+v\nwant %+v", v, want)
				}
			}
		}
	}
}

func TestChangedAfterwards(t *testing.T) {
	ca := newHolder(t, nil, "ca")
	signer := newHolder(t, ca, "signer")
	for _, tt := range []struct {
		name  string
		after []string
		where string
		want  xmldsig.Reason
	}{
		{"signed text", []string{">Y<", ">A<"}, "DigestValue", xmldsig.DigestDiffer},
		{"a space in scope", []string{"<ThreeDSecure>", `<ThreeDSecure xmlns:x="u">`}, "DigestValue", xmldsig.DigestDiffer},
		{"a language in scope", []string{"<Message ", `<Message xml:lang="en" `}, "DigestValue", xmldsig.DigestDiffer},
		{"SignedInfo", []string{"<Reference ", `<Reference Type="" `}, "SignatureValue", xmldsig.WrongKey},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPaper(signer)
			p.after = tt.after
			doc := p.sign(t, signer.key)
			wantRefusal(t, doc, xmldsig.Refusal{Reason: tt.want, Where: tt.where}, trusting(t, ca))
		})
	}
}

// A signature vouches for its neighbour only.
func TestNotBeside(t *testing.T) {
	ca := newHolder(t, nil, "ca")
	signer := newHolder(t, ca, "signer")
	p := newPaper(signer)
	doc := string(p.sign(t, signer.key))
	good, other := parsed(t, doc).Elements()[0].Elements(), parsed(t, doc).Elements()[0].Elements()
	policies := []xmldsig.Policy{trusting(t, ca)}
	if _, err := xmldsig.Verify(good[0], good[1], policies); err != nil {
		t.Fatal(err)
	}
	root := parsed(t, doc)
	for name, pair := range map[string][2]*xmldsig.Element{
		"two documents":    {good[0], other[1]},
		"itself":           {good[1], good[1]},
		"parent":           {root.Elements()[0], root.Elements()[0].Elements()[1]},
		"two roots":        {root, parsed(t, doc)},
		"inside the other": {root.Elements()[0].Elements()[0].Elements()[0], root.Elements()[0].Elements()[1]},
	} {
		_, err := xmldsig.Verify(pair[0], pair[1], policies)
		if err == nil || err.Error() != "xmldsig: "+string(xmldsig.NotBeside) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
