package certs_test

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
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/edge/results"
	"github.com/openthreeds/threeds/internal/peers/certs"
)

var checkTime = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

type signer struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// certify makes a certificate; change may alter it. A nil parent signs itself.
func certify(t *testing.T, parent *signer, key crypto.Signer, change func(*x509.Certificate)) *signer {
	t.Helper()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ds"}, DNSNames: []string{"rreq.ds.example"},
		NotBefore: checkTime.Add(-time.Hour), NotAfter: checkTime.Add(time.Hour),
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
	trust := &certs.Trust{
		Clients: []certs.Client{
			{Scheme: "visa", CA: pool(visa), Names: []string{"rreq.ds.example"}},
			{Scheme: "mastercard", CA: pool(mastercard)},
			{Scheme: "jcb", CA: pool(mastercard), Names: []string{"jcb.example"}},
		},
		Now: func() time.Time { return checkTime },
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
	below, former := certify(t, between, newKey(t), authority), certify(t, visa, newKey(t), func(c *x509.Certificate) {
		authority(c)
		c.NotAfter = checkTime.Add(-time.Minute)
	})
	forger := certify(t, nil, newKey(t), nil)
	forged := []*x509.Certificate{certify(t, forger, newKey(t), nil).cert, forger.cert}
	forger.cert.PublicKey = &ecdsa.PublicKey{Curve: elliptic.P256()} // without a point: to use it panics
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
		{"visa through two", []*x509.Certificate{certify(t, below, newKey(t), nil).cert, below.cert, between.cert}, []string{"visa"}},
		{"visa through two in disorder, and the root", []*x509.Certificate{
			certify(t, below, newKey(t), nil).cert, visa.cert, between.cert, below.cert,
		}, []string{"visa"}},
		{"visa through one that has expired", []*x509.Certificate{certify(t, former, newKey(t), nil).cert, former.cert}, nil},
		{"through one that nobody has signed", forged, nil},
		{"as many as there may be", append(leaf(visa, nil), slices.Repeat(leaf(mastercard, nil), 9)...), []string{"visa"}},
		{"one more", append(leaf(visa, nil), slices.Repeat(leaf(mastercard, nil), 10)...), nil},
		{"visa through a weak one", []*x509.Certificate{certify(t, weakly, newKey(t), nil).cert, weakly.cert}, nil},
		{"visa, with a weak one that is not needed", []*x509.Certificate{certify(t, visa, newKey(t), nil).cert, weakly.cert}, []string{"visa"}},
		{"mastercard", leaf(mastercard, nil), []string{"mastercard"}},
		{"both of one CA", leaf(mastercard, func(c *x509.Certificate) { c.DNSNames = []string{"jcb.example"} }), []string{"mastercard", "jcb"}},
		{"self-signed", []*x509.Certificate{certify(t, nil, newKey(t), nil).cert}, nil},
		{"expired", leaf(visa, func(c *x509.Certificate) { c.NotAfter = checkTime.Add(-time.Minute) }), nil},
		{"not yet valid", leaf(visa, func(c *x509.Certificate) { c.NotBefore = checkTime.Add(time.Minute) }), nil},
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
	clock := checkTime
	trust := &certs.Trust{
		Clients: []certs.Client{{Scheme: "visa", CA: pool, Names: []string{"rreq.visa.example"}}},
		Now:     func() time.Time { return clock }, Log: slog.New(slog.NewTextHandler(&log, nil)),
	}
	knock := func(shown []*signer) {
		t.Helper()
		var chain []*x509.Certificate
		for _, c := range shown {
			chain = append(chain, c.cert)
		}
		err := trust.TLS().VerifyConnection(tls.ConnectionState{PeerCertificates: chain})
		if err == nil {
			t.Fatal("let in")
		}
	}
	const named, foreign = "the name is none of client_names", "unknown authority"
	alone := func(ca *signer, change func(*x509.Certificate)) []*signer {
		return []*signer{certify(t, ca, newKey(t), change)}
	}
	under := func(between *signer) []*signer { return append(alone(between, nil), between) }
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		after time.Duration
		from  []*signer
		want  []string // in the log; none: nothing
	}{
		{0, alone(visa, nil), []string{"rreq.ds.example", named, "others=0"}},
		{time.Minute - 1, alone(other, nil), nil},
		{1, alone(other, nil), []string{"visa: x509", foreign, "others=1"}},
		{time.Minute, alone(other, func(c *x509.Certificate) { c.Subject.CommonName = strings.Repeat("x", 10_000) }), []string{"others=0"}},
		{time.Minute, under(certify(t, visa, newKey(t), func(c *x509.Certificate) {
			c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.NotAfter = true, true, x509.KeyUsageCertSign, checkTime
		})), []string{foreign, "has expired"}},
		{time.Minute, under(certify(t, visa, p224, nil)), []string{foreign, "too short"}},
		{time.Minute, slices.Repeat(alone(other, nil), 11), []string{"more than 10 certificates"}},
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

// revokes is a policy with one list of the authority, read as from a file.
func revokes(t *testing.T, ca *signer, ends time.Time, revoked ...*x509.Certificate) *certs.RevocationPolicy {
	t.Helper()
	l := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: checkTime.Add(-time.Hour), NextUpdate: ends}
	for _, c := range revoked {
		l.RevokedCertificateEntries = append(l.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: checkTime})
	}
	der, err := x509.CreateRevocationList(rand.Reader, l, ca.cert, ca.key)
	if err != nil {
		t.Fatal(err)
	}
	lists, err := certs.ParseRevocationLists(der)
	if err != nil {
		t.Fatal(err)
	}
	return &certs.RevocationPolicy{Lists: lists}
}

// TestRevokedClient: a certificate that its CA has revoked, or that came by way of one
// which was, opens the door of no scheme whose lists say so (TL-05).
func TestRevokedClient(t *testing.T) {
	mayList := func(c *x509.Certificate) {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage, c.ExtKeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign, nil
	}
	numbered := func(n int64) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.SerialNumber = big.NewInt(n) }
	}
	ca, namesake := certify(t, nil, newKey(t), mayList), certify(t, nil, newKey(t), mayList)
	between := certify(t, ca, newKey(t), func(c *x509.Certificate) {
		mayList(c)
		c.SerialNumber, c.Subject.CommonName = big.NewInt(77), "between"
	})
	leaf, deep := certify(t, ca, newKey(t), numbered(5)).cert, certify(t, between, newKey(t), numbered(5)).cert
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	later := checkTime.Add(time.Hour)
	must := func(p *certs.RevocationPolicy, more ...*certs.RevocationPolicy) *certs.RevocationPolicy {
		for _, m := range more {
			p.Lists = append(p.Lists, m.Lists...)
		}
		p.Required = true
		return p
	}
	const revoked, unknown = "certificate revoked: serial ", "no revocation list that is valid now: serial "
	for _, tt := range []struct {
		name  string
		chain []*x509.Certificate
		p     *certs.RevocationPolicy
		why   string // empty: it is let in
	}{
		{"not on the list", []*x509.Certificate{leaf}, revokes(t, ca, later, between.cert), ""},
		{"on the list", []*x509.Certificate{leaf}, revokes(t, ca, later, leaf), revoked + "5, issuer CN=ds"},
		{"on that of another authority of the same name", []*x509.Certificate{leaf}, revokes(t, namesake, later, leaf), ""},
		{"on a list that is out of date", []*x509.Certificate{leaf}, revokes(t, ca, checkTime.Add(-time.Minute), leaf), revoked + "5, issuer CN=ds"},
		{"not on a list that is out of date", []*x509.Certificate{leaf}, revokes(t, ca, checkTime.Add(-time.Minute)), ""},
		{"the same, and one is needed", []*x509.Certificate{leaf}, must(revokes(t, ca, checkTime.Add(-time.Minute))), unknown + "5, issuer CN=ds"},
		{"not on a list, and one is needed", []*x509.Certificate{leaf}, must(revokes(t, ca, later)), ""},
		{"through another, not on its list", []*x509.Certificate{deep, between.cert}, revokes(t, between, later), ""},
		{"through another, on its list", []*x509.Certificate{deep, between.cert}, revokes(t, between, later, deep), revoked + "5, issuer CN=between"},
		{"through another that was revoked", []*x509.Certificate{deep, between.cert}, revokes(t, ca, later, between.cert), revoked + "4d, issuer CN=ds"},
		{"through another, one of two lists that are needed", []*x509.Certificate{deep, between.cert}, must(revokes(t, ca, later)), unknown + "5, issuer CN=between"},
		{"through another, both", []*x509.Certificate{deep, between.cert}, must(revokes(t, ca, later), revokes(t, between, later)), ""},
	} {
		var log bytes.Buffer
		trust := &certs.Trust{
			Clients: []certs.Client{{Scheme: "visa", CA: pool, Revoked: tt.p}, {Scheme: "jcb", CA: pool}},
			Now:     func() time.Time { return checkTime },
		}
		want := []string{"visa", "jcb"}
		if tt.why != "" {
			want = want[1:]
		}
		if got := trust.Schemes(tt.chain); !slices.Equal(got, want) {
			t.Errorf("%s: Schemes = %v, want %v", tt.name, got, want)
		}
		trust.Clients, trust.Log = trust.Clients[:1], slog.New(slog.NewTextHandler(&log, nil))
		err := trust.TLS().VerifyConnection(tls.ConnectionState{PeerCertificates: tt.chain})
		if (err == nil) != (tt.why == "") || !strings.Contains(log.String(), tt.why) {
			t.Errorf("%s: %v; the log: %s", tt.name, err, &log)
		}
	}
}

// TestRevokedMeanwhile: a connection that is open when the lists change is judged anew,
// once, and the log says why its requests are refused.
func TestRevokedMeanwhile(t *testing.T) {
	ca := certify(t, nil, newKey(t), func(c *x509.Certificate) { c.KeyUsage |= x509.KeyUsageCRLSign })
	leaf := certify(t, ca, newKey(t), nil).cert
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	var log bytes.Buffer
	judged := 0
	trust := func(p *certs.RevocationPolicy) *certs.Trust {
		return &certs.Trust{
			Clients: []certs.Client{{Scheme: "visa", CA: pool, Revoked: p}},
			Now: func() time.Time {
				judged++
				return checkTime
			},
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		}
	}
	conn := certs.ConnContext(t.Context(), nil)
	before, after := trust(revokes(t, ca, checkTime.Add(time.Hour))), trust(revokes(t, ca, checkTime.Add(time.Hour), leaf))
	for i, tt := range []struct {
		t      *certs.Trust
		status int
		judged bool // anew
		said   bool
	}{
		{before, http.StatusMethodNotAllowed, true, false}, {before, http.StatusMethodNotAllowed, false, false},
		{after, http.StatusForbidden, true, true}, {after, http.StatusForbidden, false, false},
		{before, http.StatusMethodNotAllowed, true, false},
	} {
		log.Reset()
		judged = 0
		r := httptest.NewRequestWithContext(conn, http.MethodGet, "/", nil)
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
		w := httptest.NewRecorder()
		(&results.Handler{Trust: tt.t, Log: slog.New(slog.DiscardHandler)}).ServeHTTP(w, r)
		if w.Code != tt.status || strings.Contains(log.String(), "visa: certificate revoked: serial 1, issuer CN=ds") != tt.said {
			t.Errorf("%d: status %d, want %d; the log: %s", i, w.Code, tt.status, &log)
		}
		if (judged > 0) != tt.judged {
			t.Errorf("%d: the certificate was judged %d times", i, judged)
		}
	}
}

// TestHandshake: each handshake is a whole one, and one without a certificate is none.
func TestHandshake(t *testing.T) {
	ca := certify(t, nil, newKey(t), nil)
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	shown := func(s *signer) tls.Certificate {
		return tls.Certificate{Certificate: [][]byte{s.cert.Raw}, PrivateKey: s.key}
	}
	server := certify(t, ca, newKey(t), func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	trust := &certs.Trust{Clients: []certs.Client{{Scheme: "visa", CA: pool}}, Now: func() time.Time { return checkTime }}
	config := trust.TLS(shown(server))
	config.Time = trust.Now
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	sessions := tls.NewLRUClientSessionCache(1)
	client := []tls.Certificate{shown(certify(t, ca, newKey(t), nil))}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for i, certs := range [][]tls.Certificate{client, client, nil} {
			ended := make(chan error, 1)
			go func() {
				c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{
					RootCAs: pool, ServerName: "rreq.ds.example", Time: func() time.Time { return checkTime },
					Certificates: certs, ClientSessionCache: sessions, MaxVersion: version,
				})
				if err == nil {
					_, err = c.Read(make([]byte, 1)) // what it is told of sessions, and the end
					c.Close()
				}
				ended <- err
			}()
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			err = conn.(*tls.Conn).Handshake()
			if (err == nil) != (certs != nil) || err != nil && !strings.Contains(err.Error(), "didn't provide a certificate") {
				t.Errorf("%s, %d: %v", tls.VersionName(version), i, err)
			}
			if conn.(*tls.Conn).ConnectionState().DidResume {
				t.Errorf("%s, %d: a session was resumed", tls.VersionName(version), i)
			}
			conn.Close()
			<-ended
		}
	}
}
