package certs_test

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
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/peers/certs"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// An authority signs certificates and lists.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  crypto.Signer
}

// root makes one that signs itself.
func root(t testing.TB, name string) *authority {
	t.Helper()
	return (*authority)(nil).authority(t, name)
}

// authority makes one under a, or a root.
func (a *authority) authority(t testing.TB, name string) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return a.authorityOf(t, name, key, nil)
}

func (a *authority) authorityOf(t testing.TB, name string, key crypto.Signer, change func(*x509.Certificate)) *authority {
	t.Helper()
	made := &authority{t: t, key: key}
	c := template(name, 7)
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign
	if change != nil {
		change(c)
	}
	by := a
	if by == nil {
		by = &authority{cert: c, key: key}
	}
	made.cert = sign(t, c, by, key.Public())
	return made
}

func template(name string, serial int64) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
	}
}

func sign(t testing.TB, c *x509.Certificate, by *authority, public crypto.PublicKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, by.cert, public, by.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func (a *authority) leaf(serial int64, change func(*x509.Certificate)) *x509.Certificate {
	a.t.Helper()
	c := template("ds", serial)
	if change != nil {
		change(c)
	}
	return sign(a.t, c, a, a.key.Public())
}

// der makes a list with entries, after the change.
func (a *authority) der(change func(*x509.RevocationList), serials ...int64) []byte {
	a.t.Helper()
	l := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: now.Add(-time.Hour), NextUpdate: now.Add(time.Hour)}
	for _, s := range serials {
		l.RevokedCertificateEntries = append(l.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: big.NewInt(s), RevocationTime: now})
	}
	if change != nil {
		change(l)
	}
	may := *a.cert // to make also what it may not make
	may.KeyUsage |= x509.KeyUsageCRLSign
	der, err := x509.CreateRevocationList(rand.Reader, l, &may, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}

func (a *authority) lists(change func(*x509.RevocationList), serials ...int64) []*certs.RevocationList {
	a.t.Helper()
	lists, err := certs.ParseRevocationLists(a.der(change, serials...))
	if err != nil {
		a.t.Fatal(err)
	}
	return lists
}

func inPEM(ders ...[]byte) (all []byte) {
	for _, der := range ders {
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})...)
	}
	return all
}

// idp is an IssuingDistributionPoint of these bytes.
func idp(t testing.TB, content string) func(*x509.RevocationList) {
	value, err := asn1.Marshal(asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true, Bytes: []byte(content)})
	if err != nil {
		t.Fatal(err)
	}
	return func(l *x509.RevocationList) {
		l.ExtraExtensions = append(l.ExtraExtensions, pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 28}, Critical: true, Value: value})
	}
}

// fullName is the name of a distribution point with one address.
func fullName(address string) string {
	tlv := func(tag byte, content string) string { return string([]byte{tag, byte(len(content))}) + content }
	return tlv(0xa0, tlv(0xa0, tlv(0x86, address)))
}

// TestCheck: what is refused under both policies.
func TestCheck(t *testing.T) {
	const listed, required, both = "listed", "required", "listed required"
	ca := root(t, "CA")
	namesake, renewed := root(t, "CA"), root(t, "CA")
	between := ca.authority(t, "between")
	mute := ca.authorityOf(t, "mute", between.key, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCertSign })
	free := ca.authorityOf(t, "free", between.key, func(c *x509.Certificate) { c.KeyUsage = 0 })
	again := ca.authorityOf(t, "between", between.key, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCertSign })
	chain := func(certs ...*x509.Certificate) []*x509.Certificate { return append(certs, ca.cert) }
	leaf, deep := ca.leaf(1, nil), between.leaf(1, nil)
	const here = "http://crl.example/1"
	pointed := ca.leaf(1, func(c *x509.Certificate) { c.CRLDistributionPoints = []string{here} })
	late := func(l *x509.RevocationList) { l.ThisUpdate, l.NextUpdate = now.Add(-2*time.Hour), now.Add(-time.Hour) }
	early := func(l *x509.RevocationList) { l.ThisUpdate, l.NextUpdate = now.Add(time.Hour), now.Add(2*time.Hour) }
	span := func(from, to time.Duration) func(*x509.RevocationList) {
		return func(l *x509.RevocationList) { l.ThisUpdate, l.NextUpdate = now.Add(from), now.Add(to) }
	}
	reason := func(code int) func(*x509.RevocationList) {
		return func(l *x509.RevocationList) { l.RevokedCertificateEntries[0].ReasonCode = code }
	}
	type chains = [][]*x509.Certificate
	all := func(lots ...[]*certs.RevocationList) (all []*certs.RevocationList) {
		for _, lot := range lots {
			all = append(all, lot...)
		}
		return all
	}
	for _, tt := range []struct {
		name    string
		lists   []*certs.RevocationList
		chains  chains
		refused string // under which policies
	}{
		{"no list", nil, chains{chain(leaf)}, required},
		{"not on the list", ca.lists(nil, 2, 3), chains{chain(leaf)}, ""},
		{"an empty list", ca.lists(nil), chains{chain(leaf)}, ""},
		{"on the list", ca.lists(nil, 3, 1), chains{chain(leaf)}, both},
		{"on the second list", all(ca.lists(nil, 2), ca.lists(nil, 1)), chains{chain(leaf)}, both},
		{"on the list of another CA of the same name", namesake.lists(nil, 1), chains{chain(leaf)}, required},
		{"the same, beside a good one", all(namesake.lists(nil, 1), renewed.lists(nil, 1), ca.lists(nil, 2)), chains{chain(leaf)}, ""},
		{"on the list of a CA of another name and the same key", free.lists(nil, 1), chains{chain(deep, between.cert)}, required},
		{"on the list of a CA of another name", between.lists(nil, 1), chains{chain(leaf)}, required},
		{"on a list that is out of date", ca.lists(late, 1), chains{chain(leaf)}, both},
		{"on a list that is not valid yet", ca.lists(early, 1), chains{chain(leaf)}, both},
		{"not on a list that is out of date", ca.lists(late, 2), chains{chain(leaf)}, required},
		{"not on a list that is not valid yet", ca.lists(early, 2), chains{chain(leaf)}, required},
		{"from this very moment", ca.lists(span(0, time.Hour)), chains{chain(leaf)}, ""},
		{"from the next second", ca.lists(span(time.Second, time.Hour)), chains{chain(leaf)}, required},
		{"until this very moment", ca.lists(span(-time.Hour, 0)), chains{chain(leaf)}, ""},
		{"until the second before", ca.lists(span(-time.Hour, -time.Second)), chains{chain(leaf)}, required},
		{"one list is good, one is out of date", all(ca.lists(nil, 2), ca.lists(late, 2)), chains{chain(leaf)}, ""},
		{"one list is out of date, one is not", all(ca.lists(late, 2), ca.lists(nil, 2)), chains{chain(leaf)}, ""},
		{"on hold", ca.lists(reason(6), 1), chains{chain(leaf)}, both},
		{"no longer on hold", ca.lists(reason(8), 1), chains{chain(leaf)}, ""},

		{"through another", all(ca.lists(nil), between.lists(nil)), chains{chain(deep, between.cert)}, ""},
		{"through another, no list of that", ca.lists(nil), chains{chain(deep, between.cert)}, required},
		{"through another, no list of the root", between.lists(nil), chains{chain(deep, between.cert)}, required},
		{"through one that was revoked", all(ca.lists(nil, 7), between.lists(nil)), chains{chain(deep, between.cert)}, both},
		{"revoked by the one in between", all(ca.lists(nil), between.lists(nil, 1)), chains{chain(deep, between.cert)}, both},
		{"one in between has the number of a leaf", ca.lists(nil, 1), chains{chain(deep, between.cert)}, required},
		{"the root is on its own list", ca.lists(nil, 7), chains{chain(leaf)}, ""},
		{"the certificate is trusted itself", ca.lists(nil, 7), chains{{ca.cert}}, ""},

		{"a CA that may sign no lists", all(ca.lists(nil), mute.lists(nil, 2)), chains{chain(mute.leaf(1, nil), mute.cert)}, required},
		{"the same, and on it", all(ca.lists(nil), mute.lists(nil, 1)), chains{chain(mute.leaf(1, nil), mute.cert)}, both},
		{"a CA that does not say what it may sign", all(ca.lists(nil), free.lists(nil, 1)), chains{chain(free.leaf(1, nil), free.cert)}, both},

		{"two ways, one of them through a revoked one", all(ca.lists(nil, 7), between.lists(nil)),
			chains{chain(deep, between.cert), {deep, between.cert}}, ""},
		{"two ways, both through a revoked one", ca.lists(nil, 7), chains{chain(deep, between.cert), chain(deep, between.cert)}, both},
		{"two ways, and revoked by one of them", all(ca.lists(nil), between.lists(nil, 1)),
			chains{{deep, free.cert}, chain(deep, between.cert)}, both},
		{"two certificates of one CA, one of which may sign no lists", all(ca.lists(nil), between.lists(nil)),
			chains{chain(deep, again.cert), chain(deep, between.cert)}, ""},
		{"the same, the other way round", all(ca.lists(nil), between.lists(nil)),
			chains{chain(deep, between.cert), chain(deep, again.cert)}, ""},
		{"that one alone", all(ca.lists(nil), between.lists(nil)), chains{chain(deep, again.cert)}, required},
		{"that one alone, and on the list of the other", all(ca.lists(nil), between.lists(nil, 1)), chains{chain(deep, again.cert)}, both},
		{"none at all", ca.lists(nil), nil, both},

		{"of end entities", ca.lists(idp(t, "\x81\x01\xff")), chains{chain(leaf)}, ""},
		{"of end entities, through another", all(ca.lists(idp(t, "\x81\x01\xff")), between.lists(nil)), chains{chain(deep, between.cert)}, required},
		{"of CAs", ca.lists(idp(t, "\x82\x01\xff")), chains{chain(leaf)}, required},
		{"of CAs, through another", all(ca.lists(idp(t, "\x82\x01\xff")), between.lists(nil)), chains{chain(deep, between.cert)}, ""},
		{"of those that name its address", ca.lists(idp(t, fullName(here))), chains{chain(pointed)}, ""},
		{"the same, and on it", ca.lists(idp(t, fullName(here)), 1), chains{chain(pointed)}, both},
		{"of those that name another address", ca.lists(idp(t, fullName(here+"0"))), chains{chain(pointed)}, required},
		{"the same, and on it all the same", ca.lists(idp(t, fullName(here+"0")), 1), chains{chain(pointed)}, both},
		{"of those that name an address, and it names none", ca.lists(idp(t, fullName(here))), chains{chain(leaf)}, required},
		{"of those that name a point by a host", ca.lists(idp(t, strings.Replace(fullName(here), "\x86", "\x82", 1))), chains{chain(pointed)}, required},
		{"of those that name a point by what is no name", ca.lists(idp(t, strings.Replace(fullName(here), "\x86", "\x46", 1))), chains{chain(pointed)}, required},
		{"of those that name a point relative to the CA", ca.lists(idp(t, "\xa0\x0e\xa1\x0c0\x0a\x06\x03U\x04\x03\x0c\x03one")), chains{chain(pointed)}, required},
	} {
		for _, policy := range strings.Fields(both) {
			p := &certs.RevocationPolicy{Lists: tt.lists, Required: policy == required}
			for range 2 { // the second time by what is remembered
				if err := p.Check(tt.chains, now); (err != nil) != strings.Contains(tt.refused, policy) {
					t.Errorf("%s, %s: %v", tt.name, policy, err)
				}
			}
		}
	}
	if err := (*certs.RevocationPolicy)(nil).Check(chains{chain(leaf)}, now); err != nil {
		t.Errorf("without a policy: %v", err)
	}
}

// TestError: what is said names the certificate and who has issued it, at any length.
func TestError(t *testing.T) {
	ca, long := root(t, "CA"), root(t, strings.Repeat("é", 500))
	between := ca.authority(t, "between")
	const revoked, unknown = "certificate revoked: serial ", "no revocation list that is valid now: serial "
	cut := "CN=" + strings.Repeat("é", 48) + "…"
	short := func(a *authority) []*x509.Certificate { return []*x509.Certificate{a.leaf(0x1f2e, nil), a.cert} }
	deep := []*x509.Certificate{between.leaf(0x1f2e, nil), between.cert, ca.cert}
	for _, tt := range []struct {
		p      certs.RevocationPolicy
		chains [][]*x509.Certificate
		want   string
	}{
		{certs.RevocationPolicy{Lists: ca.lists(nil, 0x1f2e)}, [][]*x509.Certificate{short(ca)}, revoked + "1f2e, issuer CN=CA"},
		{certs.RevocationPolicy{Lists: long.lists(nil, 0x1f2e)}, [][]*x509.Certificate{short(long)}, revoked + "1f2e, issuer " + cut},
		{certs.RevocationPolicy{Required: true}, [][]*x509.Certificate{short(ca)}, unknown + "1f2e, issuer CN=CA"},
		{certs.RevocationPolicy{Required: true}, [][]*x509.Certificate{short(long)}, unknown + "1f2e, issuer " + cut},
		{certs.RevocationPolicy{Required: true}, [][]*x509.Certificate{deep}, unknown + "1f2e, issuer CN=between"}, // of two the first
		{certs.RevocationPolicy{Required: true, Lists: ca.lists(nil, 7)}, [][]*x509.Certificate{short(between), deep}, revoked + "7, issuer CN=CA"},
		{certs.RevocationPolicy{Required: true, Lists: ca.lists(nil, 7)}, [][]*x509.Certificate{deep, short(between)}, revoked + "7, issuer CN=CA"},
	} {
		err := tt.p.Check(tt.chains, now)
		if bad, ok := errors.AsType[*certs.RevocationError](err); !ok || bad.Error() != tt.want {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
	if err := new(certs.RevocationPolicy).Check(nil, now); fmt.Sprint(err) != "no chain of the certificate was verified" {
		t.Errorf("without a chain: %v", err)
	}
	if name := long.lists(nil)[0].Issuer(); name != cut {
		t.Errorf("a list is by %s", name)
	}
}

// TestParse: files that hold lists, and files that hold none.
func TestParse(t *testing.T) {
	ca := root(t, "CA")
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	old := (*authority)(nil).authorityOf(t, "old", rsaKey, nil)
	one, two := ca.der(nil, 1), ca.der(nil, 2)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
	extension := func(critical bool, id ...int) func(*x509.RevocationList) {
		return func(l *x509.RevocationList) {
			l.ExtraExtensions = append(l.ExtraExtensions, pkix.Extension{Id: id, Critical: critical, Value: []byte{2, 1, 1}})
		}
	}
	ofEntry := func(critical bool, id ...int) func(*x509.RevocationList) {
		return func(l *x509.RevocationList) {
			l.RevokedCertificateEntries[0].ExtraExtensions = []pkix.Extension{{Id: id, Critical: critical, Value: []byte{10, 1, 1}}}
		}
	}
	for _, tt := range []struct {
		name string
		data []byte
		n    int
		bad  string // what the error has in it
	}{
		{"PEM", inPEM(one), 1, ""},
		{"two in PEM", inPEM(one, two), 2, ""},
		{"PEM among other things", bytes.Join([][]byte{[]byte("# -----BEGIN X509 CRL-----\nof the CA\n"), cert, inPEM(one), cert}, nil), 1, ""},
		{"DER", one, 1, ""},
		{"two in DER", bytes.Join([][]byte{one, two}, nil), 2, ""},
		{"DER, then PEM", append(one[:len(one):len(one)], inPEM(two)...), 0, "all of them PEM, or all DER"},
		{"PEM, then DER", append(inPEM(one), two...), 0, "all of them PEM, or all DER"},
		{"nothing", nil, 0, "holds no certificate revocation list"},
		{"text", []byte("404 not found\n"), 0, "holds no certificate revocation list"},
		{"HTML", []byte("<html>gone</html>"), 0, "holds no certificate revocation list"},
		{"a certificate in PEM", cert, 0, "holds no certificate revocation list"},
		{"a certificate in DER", ca.cert.Raw, 0, "list 1 of the file cannot be read"},
		{"PEM that is cut off", inPEM(one)[:100], 0, "1 of 1 lists in the file cannot be read"},
		{"the second in PEM is damaged", append(inPEM(one), bytes.Replace(inPEM(two), []byte("M"), []byte("!"), 1)...), 0, "1 of 2 lists in the file cannot be read"},
		{"PEM of something else", inPEM([]byte("torn")), 0, "list 1 of the file cannot be read"},
		{"PEM with something behind it", inPEM(append(one[:len(one):len(one)], 0)), 0, "list 1 of the file cannot be read: something follows it"},
		{"DER that is cut off", one[:len(one)-1], 0, "list 1 of the file cannot be read"},
		{"the second in DER is cut off", append(one[:len(one):len(one)], two[:50]...), 0, "list 2 of the file cannot be read"},
		{"a line end behind DER", append(one[:len(one):len(one)], '\n'), 1, ""},
		{"something else behind DER", append(one[:len(one):len(one)], "end"...), 0, "list 2 of the file cannot be read"},
		{"zeros", make([]byte, 1000), 0, "holds no certificate revocation list"},
		{"a delta", ca.der(extension(true, 2, 5, 29, 27)), 0, "is a delta"},
		{"an indirect one", ca.der(idp(t, "\x84\x01\xff")), 0, "is indirect"},
		{"one of some reasons", ca.der(idp(t, "\x83\x02\x01\x06")), 0, "of some reasons only"},
		{"one of attribute certificates", ca.der(idp(t, "\x85\x01\xff")), 0, "of attribute certificates"},
		{"a point that is none", ca.der(idp(t, "\x81")), 0, "issuingDistributionPoint"},
		{"a critical extension", ca.der(extension(true, 1, 2, 3)), 0, "critical extension that is not understood (1.2.3)"},
		{"an extension", ca.der(extension(false, 1, 2, 3)), 1, ""},
		{"a number that is critical", ca.der(extension(true, 2, 5, 29, 20)), 1, ""},
		{"entries with extensions that are known, and critical", ca.der(func(l *x509.RevocationList) {
			for i, id := range [][]int{{2, 5, 29, 23}, {2, 5, 29, 24}} {
				l.RevokedCertificateEntries[i].ExtraExtensions = []pkix.Extension{{Id: id, Critical: true, Value: []byte{10, 1, 1}}}
			}
		}, 1, 2), 1, ""},
		{"an entry with a critical extension", ca.der(ofEntry(true, 1, 2, 3), 1), 0, "an entry with a critical extension that is not understood (1.2.3)"},
		{"an entry with an extension", ca.der(ofEntry(false, 1, 2, 3), 1), 1, ""},
		{"an entry of another CA", ca.der(ofEntry(false, 2, 5, 29, 29), 1), 0, "is indirect"},
		{"SHA-1", old.der(func(l *x509.RevocationList) { l.SignatureAlgorithm = x509.SHA1WithRSA }), 0, "is signed with SHA1-RSA"},
		{"no end", endless(t, ca), 0, "does not say when the next one comes"},
	} {
		lists, err := certs.ParseRevocationLists(tt.data)
		if len(lists) != tt.n || (err == nil) != (tt.bad == "") || !strings.Contains(fmt.Sprint(err), tt.bad) {
			t.Errorf("%s: %d lists, %v; want %d, %q", tt.name, len(lists), err, tt.n, tt.bad)
		}
	}
}

// endless is a list without nextUpdate, which the standard library does not make.
func endless(t *testing.T, ca *authority) []byte {
	l, err := x509.ParseRevocationList(ca.der(nil))
	if err != nil {
		t.Fatal(err)
	}
	next, err := asn1.Marshal(l.NextUpdate)
	if err != nil {
		t.Fatal(err)
	}
	der := bytes.Replace(l.RawTBSRevocationList, next, nil, 1)
	var tbs, all asn1.RawValue
	if _, err := asn1.Unmarshal(l.Raw, &all); err != nil {
		t.Fatal(err)
	}
	if _, err := asn1.Unmarshal(l.RawTBSRevocationList, &tbs); err != nil {
		t.Fatal(err)
	}
	wrap := func(content []byte) []byte {
		got, err := asn1.Marshal(asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true, Bytes: content})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	head := len(l.RawTBSRevocationList) - len(tbs.Bytes)
	return wrap(append(wrap(der[head:]), all.Bytes[len(l.RawTBSRevocationList):]...))
}

// TestKnown: a list that has not changed is not read again.
func TestKnown(t *testing.T) {
	ca := root(t, "CA")
	one, two := ca.der(nil, 1), ca.der(nil, 2)
	known, err := certs.ParseRevocationLists(inPEM(one))
	if err != nil {
		t.Fatal(err)
	}
	got, err := certs.ParseRevocationLists(append(two[:len(two):len(two)], one...), known...)
	if err != nil || len(got) != 2 || got[1] != known[0] || got[0] == known[0] || !got[0].Has(ca.leaf(2, nil)) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestSignature: no byte of a list can be changed and it counts.
func TestSignature(t *testing.T) {
	ca := root(t, "CA")
	der := ca.der(nil, 1, 2)
	for i := range der {
		for _, bit := range []byte{1, 0x80} {
			bent := bytes.Clone(der)
			bent[i] ^= bit
			lists, err := certs.ParseRevocationLists(bent)
			if err == nil && lists[0].SignedBy(ca.cert) {
				t.Errorf("byte %d of %d may be another", i, len(der))
			}
		}
	}
	if l := ca.lists(nil, 1, 2)[0]; !l.SignedBy(ca.cert) || l.Issuer() != "CN=CA" || !l.HasIssuer(root(t, "CA").cert) || l.SignedBy(root(t, "CA").cert) {
		t.Error("a list does not know its CA")
	}
	l := ca.lists(nil)[0]
	for range 200 { // more than are remembered
		if l.SignedBy(root(t, "CA").cert) {
			t.Fatal("a list counts as that of another CA")
		}
	}
	if !l.SignedBy(ca.cert) {
		t.Error("a list does not know its CA any more")
	}
}

// TestTogether: many ask of the same list, for more CAs of its name than are remembered.
func TestTogether(t *testing.T) {
	ca := root(t, "CA")
	p := &certs.RevocationPolicy{Lists: ca.lists(nil, 1)}
	good, bad := ca.leaf(2, nil), ca.leaf(1, nil)
	var strangers []*x509.Certificate
	for range 100 {
		strangers = append(strangers, root(t, "CA").cert)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for _, s := range strangers {
				for cert, want := range map[*x509.Certificate]bool{good: true, bad: false} {
					if err := p.Check([][]*x509.Certificate{{cert, ca.cert}}, now); (err == nil) != want {
						t.Errorf("%v: %v", cert.SerialNumber, err)
					}
				}
				if p.Lists[0].SignedBy(s) {
					t.Error("a list counts as that of another CA")
				}
			}
		})
	}
	all.Wait()
}

// TestSame: the same lists, in the same order, under the same policy.
func TestSame(t *testing.T) {
	ca := root(t, "CA")
	der := ca.der(nil, 1)
	read := func() []*certs.RevocationList {
		l, err := certs.ParseRevocationLists(der)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	a := &certs.RevocationPolicy{Lists: read()}
	used := read()
	used[0].SignedBy(ca.cert)
	for name, tt := range map[string]struct {
		p    *certs.RevocationPolicy
		want bool
	}{
		"the same": {&certs.RevocationPolicy{Lists: used}, true}, "required": {&certs.RevocationPolicy{Lists: read(), Required: true}, false},
		"another list": {&certs.RevocationPolicy{Lists: ca.lists(nil, 1)}, false}, "one more": {&certs.RevocationPolicy{Lists: append(read(), read()...)}, false},
		"none": {nil, false},
	} {
		if got := a.Same(tt.p); got != tt.want || tt.p.Same(a) != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if !(*certs.RevocationPolicy)(nil).Same(nil) {
		t.Error("no policy is not the same as none")
	}
}

// large is a list of n entries with serial numbers of 16 bytes.
func large(t testing.TB, n int) (*authority, []byte) {
	ca := root(t, "CA")
	return ca, ca.der(func(l *x509.RevocationList) {
		l.RevokedCertificateEntries = make([]x509.RevocationListEntry, n)
		for i := range l.RevokedCertificateEntries {
			serial := new(big.Int).Lsh(big.NewInt(int64(i)+1), 96)
			l.RevokedCertificateEntries[i] = x509.RevocationListEntry{SerialNumber: serial, RevocationTime: now, ReasonCode: 4}
		}
	})
}

// TestLongListAllocs: how long a list is does not show in a handshake, nor, much, in memory.
func TestLongListAllocs(t *testing.T) {
	const n = 100_000
	ca, der := large(t, n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // what was pooled is kept for one
	runtime.ReadMemStats(&before)
	start := time.Now()
	lists, err := certs.ParseRevocationLists(der)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := after.HeapAlloc - before.HeapAlloc
	t.Logf("%d entries, %d bytes: read in %v, %d bytes held", n, len(der), took, held)
	if held > 4*uint64(len(der)) {
		t.Errorf("a list of %d bytes takes %d", len(der), held)
	}
	runtime.KeepAlive(der)
	p := &certs.RevocationPolicy{Lists: lists}
	last := ca.leaf(1, func(c *x509.Certificate) { c.SerialNumber = new(big.Int).Lsh(big.NewInt(n), 96) })
	if err := p.Check([][]*x509.Certificate{{last, ca.cert}}, now); err == nil {
		t.Error("the last one is not found")
	}
	good := [][]*x509.Certificate{{ca.leaf(1, nil), ca.cert}}
	if n := testing.AllocsPerRun(100, func() {
		if err := p.Check(good, now); err != nil {
			t.Error(err)
		}
	}); n > 10 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkParse(b *testing.B) {
	_, der := large(b, 100_000)
	text := inPEM(der)
	for name, data := range map[string][]byte{"DER/1e5": der, "PEM/1e5": text} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := certs.ParseRevocationLists(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCheck(b *testing.B) {
	for _, n := range []int{1, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ca, der := large(b, n)
			lists, err := certs.ParseRevocationLists(der)
			if err != nil {
				b.Fatal(err)
			}
			p := &certs.RevocationPolicy{Lists: lists, Required: true}
			good := [][]*x509.Certificate{{ca.leaf(1, nil), ca.cert}}
			b.ReportAllocs()
			for b.Loop() {
				if err := p.Check(good, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// FuzzParse: whatever is in a file, it is lists that name all whom their entries name,
// or an error that says which one is bad.
func FuzzParse(f *testing.F) {
	ca := root(f, "CA")
	f.Add(ca.der(nil, 1, 2))
	f.Add(inPEM(ca.der(nil, 1), ca.der(idp(f, fullName("http://crl.example/")), 2)))
	f.Add(ca.der(idp(f, "\x83\x02\x01\x06"), 3))
	f.Fuzz(func(t *testing.T, data []byte) {
		lists, err := certs.ParseRevocationLists(data)
		if (err == nil) != (len(lists) > 0) {
			t.Fatalf("%d lists, %v", len(lists), err)
		}
		if err != nil && !strings.Contains(err.Error(), "the file") {
			t.Errorf("%v", err)
		}
		for _, l := range lists {
			_ = l.Issuer()
			if l.Next.IsZero() {
				t.Error("a list without an end")
			}
		}
		if one, err := x509.ParseRevocationList(data); err == nil && len(lists) == 1 {
			for _, e := range one.RevokedCertificateEntries {
				if e.ReasonCode != 8 && !lists[0].Has(&x509.Certificate{SerialNumber: e.SerialNumber}) {
					t.Errorf("%v is not on the list", e.SerialNumber)
				}
			}
		}
	})
}
