package xmldsig_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/protocol/xmldsig"
)

// Changes of certificates.
var (
	sha1Signed = func(c *x509.Certificate) { c.SignatureAlgorithm = x509.SHA1WithRSA }
	noCA       = func(c *x509.Certificate) { c.IsCA = false; c.KeyUsage = 0 }
	noBasics   = func(c *x509.Certificate) { c.BasicConstraintsValid = false; c.IsCA = false }
	crlOnly    = func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCRLSign }
	noUsage    = func(c *x509.Certificate) { c.KeyUsage = 0 }
)

func usage(u x509.KeyUsage) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.KeyUsage = u }
}

func valid(from, until time.Duration) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.NotBefore, c.NotAfter = chainTime.Add(from), chainTime.Add(until) }
}

func maxPath(n int) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.MaxPathLen, c.MaxPathLenZero = n, n == 0 }
}

func extension(critical bool, id ...int) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: id, Critical: critical, Value: asn1.NullBytes})
	}
}

// newChain returns the holders of ca0, the root, ca1 and so on, and last of
// "signer". The changes are by name.
func newChain(t testing.TB, authorities int, changes map[string][]func(*x509.Certificate)) []*holder {
	var chain []*holder
	var issuer *holder
	for i := range authorities {
		name := fmt.Sprintf("ca%d", i)
		issuer = newHolder(t, issuer, name, changes[name]...)
		chain = append(chain, issuer)
	}
	return append(chain, newHolder(t, issuer, "signer", changes["signer"]...))
}

func TestChain(t *testing.T) {
	type changes map[string][]func(*x509.Certificate)
	loose := func(p *xmldsig.Policy) { p.AllowSHA1 = true }
	at := func(d time.Duration) func(*xmldsig.Policy) {
		return func(p *xmldsig.Policy) { p.At = chainTime.Add(d) }
	}
	floor := func(bits int) func(*xmldsig.Policy) { return func(p *xmldsig.Policy) { p.MinKeyBits = bits } }
	for _, tt := range []struct {
		name        string
		authorities int
		changes     changes
		policy      func(*xmldsig.Policy)
		where       string
		want        xmldsig.Reason // "" for good
	}{
		{"root and signer", 1, nil, nil, "", ""},
		{"three authorities below the root", 4, nil, nil, "", ""},
		{"four authorities below the root", 5, nil, nil, "", xmldsig.LongChain},
		{"five authorities below the root", 6, nil, nil, "", xmldsig.NoRoot},

		{"authority is none", 2, changes{"ca1": {noCA}}, nil, "issuer 1", xmldsig.NotCA},
		{"authority without constraints", 2, changes{"ca1": {noBasics}}, nil, "issuer 1", xmldsig.NotCA},
		{"second authority is none", 3, changes{"ca1": {noCA}}, nil, "issuer 2", xmldsig.NotCA},
		{"key of authority for lists", 2, changes{"ca1": {crlOnly}}, nil, "issuer 1", xmldsig.NotForCerts},
		{"key of authority for signing", 2, changes{"ca1": {usage(x509.KeyUsageDigitalSignature)}}, nil, "issuer 1", xmldsig.NotForCerts},
		{"key of authority for all", 2, changes{"ca1": {noUsage}}, nil, "", ""},
		{"signer's key for all", 1, nil, nil, "", ""},
		{"signer's key for signing", 1, changes{"signer": {usage(x509.KeyUsageDigitalSignature)}}, nil, "", ""},
		{"signer's key for commitment", 1, changes{"signer": {usage(x509.KeyUsageContentCommitment)}}, nil, "", ""},
		{"signer's key for keys", 1, changes{"signer": {usage(x509.KeyUsageKeyEncipherment)}}, nil, "signer", xmldsig.NotForSigning},

		{"no authority below the first", 2, changes{"ca1": {maxPath(0)}}, nil, "", ""},
		{"no authority below the root", 1, changes{"ca0": {maxPath(0)}}, nil, "", ""},
		{"one below the root, which has none", 2, changes{"ca0": {maxPath(0)}}, nil, "root", xmldsig.PathLength},
		{"one below an authority that has none", 3, changes{"ca1": {maxPath(0)}}, nil, "issuer 2", xmldsig.PathLength},
		{"one below an authority that has one", 3, changes{"ca1": {maxPath(1)}}, nil, "", ""},

		{"signer's first moment", 1, changes{"signer": {valid(0, time.Hour)}}, nil, "", ""},
		{"signer's last moment", 1, changes{"signer": {valid(-time.Hour, 0)}}, nil, "", ""},
		{"signer too young", 1, changes{"signer": {valid(time.Second, time.Hour)}}, nil, "signer", xmldsig.NotYetValid},
		{"signer too old", 1, changes{"signer": {valid(-time.Hour, -time.Second)}}, nil, "signer", xmldsig.Expired},
		{"authority too young", 2, changes{"ca1": {valid(time.Second, time.Hour)}}, nil, "issuer 1", xmldsig.NotYetValid},
		{"authority too old", 2, changes{"ca1": {valid(-time.Hour, -time.Second)}}, nil, "issuer 1", xmldsig.Expired},
		{"root too young", 1, changes{"ca0": {valid(time.Second, time.Hour)}}, nil, "root", xmldsig.NotYetValid},
		{"root too old", 1, changes{"ca0": {valid(-time.Hour, -time.Second)}}, nil, "root", xmldsig.Expired},
		{"asked too early", 1, nil, at(-2 * time.Hour), "signer", xmldsig.NotYetValid},
		{"asked too late", 1, nil, at(2 * time.Hour), "signer", xmldsig.Expired},
		{"asked at no time", 1, nil, func(p *xmldsig.Policy) { p.At = time.Time{} }, "signer", xmldsig.NotYetValid},

		{"keys at the floor", 2, nil, floor(1024), "", ""},
		{"signer's key below the floor", 2, nil, floor(1025), "signer", xmldsig.KeySize},
		{"signer's key below the usual floor", 2, nil, floor(0), "signer", xmldsig.KeySize},

		{"SHA-1 below, allowed", 2, changes{"signer": {sha1Signed}, "ca1": {sha1Signed}}, loose, "", ""},
		{"SHA-1 for the signer", 2, changes{"signer": {sha1Signed}}, nil, "signer", xmldsig.SHA1Certificate},
		{"SHA-1 for an authority", 2, changes{"ca1": {sha1Signed}}, nil, "issuer 1", xmldsig.SHA1Certificate},
		{"SHA-1 for the root", 1, changes{"ca0": {sha1Signed}}, nil, "", ""},
		{"SHA-512", 2, changes{"ca1": {func(c *x509.Certificate) { c.SignatureAlgorithm = x509.SHA512WithRSA }}}, nil, "", ""},
		{"SHA-384", 2, changes{"ca1": {func(c *x509.Certificate) { c.SignatureAlgorithm = x509.SHA384WithRSA }}}, nil, "", ""},
		{"PSS", 2, changes{"ca1": {func(c *x509.Certificate) { c.SignatureAlgorithm = x509.SHA256WithRSAPSS }}}, nil, "issuer 1", xmldsig.LinkBroken},

		{"strange extension", 1, changes{"signer": {extension(false, 1, 2, 3)}}, nil, "", ""},
		{"strange critical extension", 1, changes{"signer": {extension(true, 1, 2, 3)}}, nil, "signer", xmldsig.Critical},
		{"strange critical extension of the root", 1, changes{"ca0": {extension(true, 1, 2, 3)}}, nil, "root", xmldsig.Critical},
		{"critical constraints of names", 2, changes{"ca1": {func(c *x509.Certificate) {
			c.PermittedDNSDomainsCritical, c.PermittedDNSDomains = true, []string{"example.org"}
		}}}, nil, "issuer 1", xmldsig.Critical},
		{"critical purpose, names and policies", 1, changes{"signer": {func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{
				{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Critical: true, Value: []byte{0x30, 0x0a, 0x06, 0x08, 0x2b, 6, 1, 5, 5, 7, 3, 2}},
				{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Critical: true, Value: []byte{0x30, 3, 0x82, 1, 'a'}},
				{Id: asn1.ObjectIdentifier{2, 5, 29, 32}, Critical: true, Value: []byte{0x30, 6, 0x30, 4, 6, 2, 0x2a, 3}},
			}
		}}}, nil, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			chain := newChain(t, tt.authorities, tt.changes)
			policy := trusting(t, chain[0])
			if tt.policy != nil {
				tt.policy(&policy)
			}
			signer := chain[tt.authorities]
			doc := newPaper(chain...).sign(t, signer.key)
			if tt.want == "" {
				v, err := verify(doc, policy)
				if err != nil || v.Chain != len(chain) {
					t.Errorf("%+v, %v; want a chain of %d", v, err, len(chain))
				}
				return
			}
			want := xmldsig.Refusal{Reason: tt.want, Where: tt.where, Policy: "test"}
			if tt.want == xmldsig.NoRoot {
				want.Policy = ""
			}
			wantRefusal(t, doc, want, policy)
		})
	}
}

// The floor is for every key, not only the signer's.
func TestKeySizes(t *testing.T) {
	for _, tt := range []struct {
		root, authority, signer string
		where                   string // "" for good
	}{
		{"ca a/1040", "ca b/1040", "c/1040", ""},
		{"ca a/1040", "ca b/1040", "c/1024", "signer"},
		{"ca a/1040", "ca b/1024", "c/1040", "issuer 1"},
		{"ca a/1024", "ca b/1040", "c/1040", "root"},
	} {
		root := newHolder(t, nil, tt.root)
		authority := newHolder(t, root, tt.authority)
		signer := newHolder(t, authority, tt.signer)
		policy := trusting(t, root)
		policy.MinKeyBits = 1040
		doc := newPaper(signer, authority).sign(t, signer.key)
		if _, err := verify(doc, policy); tt.where == "" && err != nil {
			t.Error(err)
		} else if tt.where != "" {
			wantRefusal(t, doc, xmldsig.Refusal{Reason: xmldsig.KeySize, Where: tt.where, Policy: "test"}, policy)
		}
	}
}

func TestSHA1InTheSignature(t *testing.T) {
	chain := newChain(t, 1, nil)
	p := newPaper(chain...)
	p.hash = crypto.SHA1
	doc := p.sign(t, chain[1].key)
	policy := trusting(t, chain[0])
	wantRefusal(t, doc, xmldsig.Refusal{Reason: xmldsig.SHA1Signature, Policy: "test"}, policy)
	policy.AllowSHA1 = true
	if v, err := verify(doc, policy); err != nil || !v.SHA1 {
		t.Errorf("%+v, %v; want it taken, with SHA1", v, err)
	}
}

// Trust comes from what was configured, and from nothing in the document.
func TestRoots(t *testing.T) {
	root := newHolder(t, nil, "ca root")
	authority := newHolder(t, root, "ca authority")
	signer := newHolder(t, authority, "signer")
	doc := newPaper(signer, authority, root).sign(t, signer.key)

	as := func(name string) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.Subject.CommonName = name }
	}
	sameName := newHolder(t, nil, "ca other", as("ca root"))
	sameKey := newHolder(t, nil, "ca root", as("ca other"))
	renewed := newHolder(t, nil, "ca root", valid(-time.Minute, time.Minute))
	stranger, forger := newHolder(t, nil, "ca stranger"), newHolder(t, nil, "ca forged")
	forgedRoot := newHolder(t, nil, "ca forged", as("ca root"))
	forged := newHolder(t, forgedRoot, "forger")
	forgedBelow := newHolder(t, newHolder(t, nil, "ca forged", as("ca authority")), "forger")

	for _, tt := range []struct {
		name  string
		doc   []byte
		roots []*holder
		want  xmldsig.Refusal
	}{
		{"the root", doc, []*holder{root}, xmldsig.Refusal{}},
		{"the root of two", doc, []*holder{sameName, root}, xmldsig.Refusal{}},
		{"the root of three, after one of another name", doc, []*holder{stranger, forger, root}, xmldsig.Refusal{}},
		{"the signer's certificate twice", newPaper(signer, signer, authority).sign(t, signer.key), []*holder{root}, xmldsig.Refusal{}},
		{"the authority as a root", doc, []*holder{authority}, xmldsig.Refusal{}},
		{"another certificate of the root's name and key", doc, []*holder{renewed}, xmldsig.Refusal{}},
		{"no authority in the document", newPaper(signer).sign(t, signer.key), []*holder{root}, xmldsig.Refusal{Reason: xmldsig.NoRoot}},
		{"no roots", doc, nil, xmldsig.Refusal{Reason: xmldsig.NoRoot}},
		{"only its name", doc, []*holder{sameName}, xmldsig.Refusal{Reason: xmldsig.LinkBroken, Where: "issuer 1", Policy: "test"}},
		{"only its key", doc, []*holder{sameKey}, xmldsig.Refusal{Reason: xmldsig.NoRoot}},
		{"a forged root in the document", newPaper(forged, forgedRoot).sign(t, forged.key), []*holder{root},
			xmldsig.Refusal{Reason: xmldsig.LinkBroken, Where: "signer", Policy: "test"}},
		{"a forged root beside the true one", newPaper(forged, forgedRoot, root).sign(t, forged.key), []*holder{root},
			xmldsig.Refusal{Reason: xmldsig.LinkBroken, Where: "signer", Policy: "test"}},
		{"a true authority that signed nothing", newPaper(forgedBelow, authority, root).sign(t, forgedBelow.key), []*holder{root},
			xmldsig.Refusal{Reason: xmldsig.NoRoot}},
		{"signed by another key", newPaper(signer, authority).sign(t, key(t, "other")), []*holder{root},
			xmldsig.Refusal{Reason: xmldsig.WrongKey, Where: "SignatureValue"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			policy := trusting(t, tt.roots...)
			if tt.want.Reason != "" {
				wantRefusal(t, tt.doc, tt.want, policy)
			} else if _, err := verify(tt.doc, policy); err != nil {
				t.Error(err)
			}
		})
	}
}

// A chain is checked by the policy whose root it leads to, and by no other.
func TestPolicies(t *testing.T) {
	a, b := newHolder(t, nil, "ca a"), newHolder(t, nil, "ca b")
	signer := newHolder(t, b, "signer")
	doc := newPaper(signer).sign(t, signer.key)
	pa, pb := trusting(t, a), trusting(t, b)
	pa.Name, pb.Name = "a", "b"
	v, err := verify(doc, pa, pb)
	if err != nil || v.Policy != "b" {
		t.Fatalf("%+v, %v; want policy b", v, err)
	}
	wantRefusal(t, doc, xmldsig.Refusal{Reason: xmldsig.NoRoot}, pa)
	wantRefusal(t, doc, xmldsig.Refusal{Reason: xmldsig.NoRoot})

	late := pb
	late.Name, late.At = "late", chainTime.Add(2*time.Hour)
	if v, err = verify(doc, late, pb); err != nil || v.Policy != "b" {
		t.Errorf("%+v, %v; want policy b", v, err)
	}
	wantRefusal(t, doc, xmldsig.Refusal{Reason: xmldsig.Expired, Where: "signer", Policy: "late"}, pa, late)
	_, err = verify(doc, late)
	if want := "xmldsig: late: signer: certificate is expired"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestManyCertificates(t *testing.T) {
	chain := newChain(t, 1, nil)
	var others []*holder
	for i := range 7 {
		others = append(others, newHolder(t, nil, fmt.Sprintf("ca other %d", i%2)))
	}
	p := newPaper(append(others, chain[1])...)
	if _, err := verify(p.sign(t, chain[1].key), trusting(t, chain[0])); err != nil {
		t.Errorf("8 certificates: %v", err)
	}
	p.certs = append(p.certs, chain[1])
	wantRefusal(t, p.sign(t, chain[1].key), xmldsig.Refusal{Reason: xmldsig.ManyCertificates, Where: "KeyInfo"}, trusting(t, chain[0]))
}

// Certificates that all name one another as issuers are not tried in every order, though an
// authority below the root has made them and one order is good.
func TestEntangledChain(t *testing.T) {
	root := newHolder(t, nil, "ca root")
	knot := newHolder(t, root, "ca knot")
	signer := newHolder(t, knot, "signer")
	policy := trusting(t, root)
	if _, err := verify(newPaper(signer, knot).sign(t, signer.key), policy); err != nil {
		t.Fatal(err)
	}
	certs := []*holder{signer}
	for range 6 {
		certs = append(certs, newHolder(t, knot, "ca knot", valid(-time.Hour, -time.Minute)))
	}
	doc := newPaper(append(certs, knot)...).sign(t, signer.key)
	wantRefusal(t, doc, xmldsig.Refusal{Reason: xmldsig.LongChain, Policy: "test"}, policy)
}

// Those that lead to no root are not tried at all: anybody can make them, with keys that
// are as slow as he likes.
func TestStrangers(t *testing.T) {
	root := newHolder(t, nil, "ca root")
	stranger := newHolder(t, nil, "ca stranger")
	var certs []*holder
	for range 8 {
		certs = append(certs, newHolder(t, stranger, "ca stranger"))
	}
	doc := newPaper(certs...).sign(t, stranger.key)
	wantRefusal(t, doc, xmldsig.Refusal{Reason: xmldsig.NoRoot}, trusting(t, root))
	// One that claims to be of the root is known by the root's key not to be.
	named := newHolder(t, nil, "ca stranger", func(c *x509.Certificate) { c.Subject.CommonName = "ca root" })
	certs[7] = newHolder(t, named, "ca stranger")
	certs[0] = newHolder(t, stranger, "signer")
	doc = newPaper(certs...).sign(t, certs[0].key)
	wantRefusal(t, doc, xmldsig.Refusal{Reason: xmldsig.LinkBroken, Where: "issuer 1", Policy: "test"}, trusting(t, root))
}

// An authority has two certificates; the one that is good counts.
func TestTwoWays(t *testing.T) {
	root := newHolder(t, nil, "ca root")
	old := newHolder(t, root, "ca authority", valid(-time.Hour, -time.Minute))
	now := newHolder(t, root, "ca authority")
	signer := newHolder(t, now, "signer")
	for _, certs := range [][]*holder{{signer, old, now}, {now, old, signer}} {
		if _, err := verify(newPaper(certs...).sign(t, signer.key), trusting(t, root)); err != nil {
			t.Error(err)
		}
	}
	wantRefusal(t, newPaper(signer, old).sign(t, signer.key),
		xmldsig.Refusal{Reason: xmldsig.Expired, Where: "issuer 1", Policy: "test"}, trusting(t, root))
}

// TestMalformedCertificate: a certificate that crypto/x509 refuses, for an underscore in a PrintableString, counts as
// absent.
func TestMalformedCertificate(t *testing.T) {
	root := newHolder(t, nil, "ca root")
	signer := newHolder(t, root, "signer", usage(x509.KeyUsageDigitalSignature))
	bad := malformed(t, signer, root)
	if _, err := x509.ParseCertificate(bad.cert.Raw); err == nil {
		t.Fatal("crypto/x509 reads the certificate, want it refused")
	}
	wantRefusal(t, newPaper(bad).sign(t, signer.key), xmldsig.Refusal{Reason: xmldsig.WrongKey, Where: "SignatureValue"}, trusting(t, root))
}

// malformed signs h's certificate anew with a subject that crypto/x509 refuses.
func malformed(t *testing.T, h, issuer *holder) *holder {
	t.Helper()
	var parts []asn1.RawValue
	if _, err := asn1.Unmarshal(h.cert.Raw, &parts); err != nil {
		t.Fatal(err)
	}
	h.cert.RawTBSCertificate = bytes.Replace(parts[0].FullBytes, []byte("signer"), []byte("sig_er"), 1)
	parts[0] = asn1.RawValue{FullBytes: h.cert.RawTBSCertificate}
	parts[2] = signedBits(t, h.cert.RawTBSCertificate, issuer)
	der, err := asn1.Marshal(parts)
	if err != nil {
		t.Fatal(err)
	}
	return &holder{cert: &x509.Certificate{Raw: der}, key: h.key}
}

func TestNewRoot(t *testing.T) {
	good := newHolder(t, nil, "ca").cert.Raw
	// What is said of the signature outside the part that is signed, SHA-1 now.
	sha256, sha1 := []byte{0x86, 0xf7, 0x0d, 1, 1, 0x0b}, []byte{0x86, 0xf7, 0x0d, 1, 1, 5}
	outside := bytes.LastIndex(good, sha256)
	twoMinds := slices.Concat(good[:outside], sha1, good[outside+len(sha1):])
	for _, tt := range []struct {
		name string
		der  []byte
		want string // "" for good
	}{
		{"root", good, ""},
		{"bytes after it", append(bytes.Clone(good), 0), "certificate cannot be read"},
		{"signed with two algorithms", twoMinds, "certificate cannot be read"},
		{"usage not told", newHolder(t, nil, "ca", noUsage).cert.Raw, ""},
		{"no authority", newHolder(t, nil, "ca", noCA).cert.Raw, string(xmldsig.NotCA)},
		{"no constraints", newHolder(t, nil, "ca", noBasics).cert.Raw, string(xmldsig.NotCA)},
		{"for lists", newHolder(t, nil, "ca", crlOnly).cert.Raw, string(xmldsig.NotForCerts)},
		{"not a certificate", []byte("x"), "cannot be read"},
		{"elliptic curve", elliptical(t), "not RSA"},
		{"4096 bits", sized(t, 4096), ""},
		{"4097 bits", sized(t, 4097), "more than 4096 bits"},
	} {
		root, err := xmldsig.NewRoot(tt.der)
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v, want it taken", tt.name, err)
		case tt.want != "" && (err == nil || root != nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

// TestRootExtensions: the extensions of a root must be well-formed, each at most once.
func TestRootExtensions(t *testing.T) {
	basic, usage := asn1.ObjectIdentifier{2, 5, 29, 19}, asn1.ObjectIdentifier{2, 5, 29, 15}
	isCA := []byte{0x30, 3, 1, 1, 0xff}
	for _, tt := range []struct {
		name string
		list []pkix.Extension
		want string // "" for good
	}{
		{"path length", []pkix.Extension{{Id: basic, Value: []byte{0x30, 6, 1, 1, 0xff, 2, 1, 0}}}, ""},
		{"negative path length", []pkix.Extension{{Id: basic, Value: []byte{0x30, 6, 1, 1, 0xff, 2, 1, 0xfe}}}, "cannot be read"},
		{"bytes after constraints", []pkix.Extension{{Id: basic, Value: append(bytes.Clone(isCA), 0)}}, "cannot be read"},
		{"no constraints", []pkix.Extension{{Id: basic, Value: []byte{4, 0}}}, "cannot be read"},
		{"constraints twice", []pkix.Extension{{Id: basic, Value: isCA}, {Id: basic, Value: isCA}}, "cannot be read"},
		{"usage", []pkix.Extension{{Id: basic, Value: isCA}, {Id: usage, Value: []byte{3, 2, 2, 4}}}, ""},
		{"usage for nothing", []pkix.Extension{{Id: basic, Value: isCA}, {Id: usage, Value: []byte{3, 1, 0}}}, string(xmldsig.NotForCerts)},
		{"bytes after usage", []pkix.Extension{{Id: basic, Value: isCA}, {Id: usage, Value: []byte{3, 2, 2, 4, 0}}}, "cannot be read"},
	} {
		der := made(t, &key(t, "other").PublicKey, func(c *x509.Certificate) {
			c.BasicConstraintsValid, c.KeyUsage, c.ExtraExtensions = false, 0, tt.list
		})
		_, err := xmldsig.NewRoot(der)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// sized returns a certificate with an RSA key of that many bits, which nobody has.
func sized(t *testing.T, bits uint) []byte {
	t.Helper()
	n := new(big.Int).Lsh(big.NewInt(1), bits-1)
	return made(t, &rsa.PublicKey{N: n.SetBit(n, 0, 1), E: 65537})
}

// made returns an authority's certificate for a key, which is not looked at.
func made(t *testing.T, pub *rsa.PublicKey, changes ...func(*x509.Certificate)) []byte {
	t.Helper()
	ca := newHolder(t, nil, "ca")
	template := *ca.cert
	template.PublicKey = nil
	for _, change := range changes {
		change(&template)
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, ca.cert, pub, ca.key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// elliptical returns a certificate with a key that is not RSA.
func elliptical(t *testing.T) []byte {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := newHolder(t, nil, "ca").cert
	c.PublicKey, c.SignatureAlgorithm = nil, x509.UnknownSignatureAlgorithm
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	return der
}
