package results_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/results"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

type signer struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// certify makes a certificate; change may alter it. A nil parent signs itself.
func certify(t *testing.T, parent *signer, key crypto.Signer, change func(*x509.Certificate)) *signer {
	t.Helper()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ds"}, DNSNames: []string{"rreq.ds.example"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if parent == nil {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.ExtKeyUsage = true, true, x509.KeyUsageCertSign, nil
	}
	if change != nil {
		change(c)
	}
	signed, with := c, key
	if parent != nil {
		signed, with = parent.cert, parent.key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, signed, key.Public(), with)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &signer{cert, key}
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestTrust: whom a client certificate stands for. What opens one scheme's
// door opens no other.
func TestTrust(t *testing.T) {
	visa, mastercard := certify(t, nil, newKey(t), nil), certify(t, nil, newKey(t), nil)
	pool := func(ca *signer) *x509.CertPool {
		p := x509.NewCertPool()
		p.AddCert(ca.cert)
		return p
	}
	trust := &results.Trust{
		Clients: []results.Client{
			{Scheme: "visa", CA: pool(visa), Names: []string{"rreq.ds.example"}},
			{Scheme: "mastercard", CA: pool(mastercard)},
			{Scheme: "jcb", CA: pool(mastercard), Names: []string{"jcb.example"}},
		},
		Now: func() time.Time { return now },
	}
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	authority := func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
	}
	between, weakly := certify(t, visa, newKey(t), authority), certify(t, visa, p224, authority)
	leaf := func(ca *signer, change func(*x509.Certificate)) []*x509.Certificate {
		return []*x509.Certificate{certify(t, ca, newKey(t), change).cert}
	}
	for _, tt := range []struct {
		name  string
		chain []*x509.Certificate
		want  []string
	}{
		{"none", nil, nil},
		{"visa", leaf(visa, nil), []string{"visa"}},
		{"visa, name in other case", leaf(visa, func(c *x509.Certificate) { c.DNSNames = []string{"RREQ.ds.example"} }), []string{"visa"}},
		{"visa, other name", leaf(visa, func(c *x509.Certificate) { c.DNSNames = []string{"areq.ds.example"} }), nil},
		{"visa, named by subject", leaf(visa, func(c *x509.Certificate) { c.DNSNames, c.Subject.CommonName = nil, "rreq.ds.example" }), []string{"visa"}},
		{"visa through another", []*x509.Certificate{certify(t, between, newKey(t), nil).cert, between.cert}, []string{"visa"}},
		{"visa, one in between missing", leaf(between, nil), nil},
		{"visa through a weak one", []*x509.Certificate{certify(t, weakly, newKey(t), nil).cert, weakly.cert}, nil},
		{"visa, with a weak one that is not needed", []*x509.Certificate{certify(t, visa, newKey(t), nil).cert, weakly.cert}, []string{"visa"}},
		{"mastercard", leaf(mastercard, nil), []string{"mastercard"}},
		{"both of one CA", leaf(mastercard, func(c *x509.Certificate) { c.DNSNames = []string{"jcb.example"} }), []string{"mastercard", "jcb"}},
		{"self-signed", []*x509.Certificate{certify(t, nil, newKey(t), nil).cert}, nil},
		{"expired", leaf(visa, func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) }), nil},
		{"not yet valid", leaf(visa, func(c *x509.Certificate) { c.NotBefore = now.Add(time.Minute) }), nil},
		{"for servers only", leaf(visa, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), nil},
		{"RSA 2048", []*x509.Certificate{certify(t, visa, weak, nil).cert}, []string{"visa"}},
		{"P-224", []*x509.Certificate{certify(t, visa, p224, nil).cert}, nil},
		{"Ed25519", []*x509.Certificate{certify(t, visa, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), nil).cert}, nil},
	} {
		if got := trust.Schemes(tt.chain); !slices.Equal(got, tt.want) {
			t.Errorf("%s: Schemes = %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestRefusalIsTold: a directory server that is not let in is in the log, with
// what is wrong with its certificate, and so once a minute at most.
func TestRefusalIsTold(t *testing.T) {
	visa, other := certify(t, nil, newKey(t), nil), certify(t, nil, newKey(t), nil)
	pool := x509.NewCertPool()
	pool.AddCert(visa.cert)
	var log bytes.Buffer
	clock := now
	trust := &results.Trust{
		Clients: []results.Client{{Scheme: "visa", CA: pool, Names: []string{"rreq.visa.example"}}},
		Now:     func() time.Time { return clock }, Log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	knock := func(c *signer) {
		t.Helper()
		err := trust.TLS().VerifyConnection(tls.ConnectionState{PeerCertificates: []*x509.Certificate{c.cert}})
		if err == nil {
			t.Fatal("let in")
		}
	}
	const named, foreign = "the name is none of client_names", "unknown authority"
	for _, tt := range []struct {
		after time.Duration
		from  *signer
		want  []string // in the log; none: nothing
	}{
		{0, certify(t, visa, newKey(t), nil), []string{"rreq.ds.example", named, "others=0"}},
		{time.Minute - 1, certify(t, other, newKey(t), nil), nil},
		{1, certify(t, other, newKey(t), nil), []string{"visa: x509", foreign, "others=1"}},
		{time.Minute, certify(t, other, newKey(t), func(c *x509.Certificate) {
			c.Subject.CommonName = strings.Repeat("x", 10_000)
		}), []string{"others=0"}},
	} {
		clock = clock.Add(tt.after)
		log.Reset()
		knock(tt.from)
		got := log.String()
		if tt.want == nil && got != "" || len(got) > 2000 {
			t.Errorf("log: %d bytes, %.300s", len(got), got)
		}
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("log: %s\nwant %s in it", got, want)
			}
		}
	}
}
