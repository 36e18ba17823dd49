package directory

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestTrust has the ways in which the two sides may not trust each other
// (TL-01, TL-04, TL-05, TL-06, TL-09). No AReq may arrive.
func TestTrust(t *testing.T) {
	ca, otherCA := newAuthority(t), newAuthority(t)
	weakKey, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	shows := func(cert tls.Certificate) *tls.Config {
		c := ca.server()
		c.Certificates = []tls.Certificate{cert}
		return c
	}
	const untrusted = "Certificate of the directory server is not trusted"
	for _, test := range []struct {
		name           string
		server, client *tls.Config
		text           string
	}{
		{"another authority", shows(otherCA.issue(nil)), ca.client(), untrusted},
		{"another host", shows(ca.issue(func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"ds.example"} })), ca.client(),
			"Certificate of the directory server is for another host"},
		{"expired", shows(ca.issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })), ca.client(),
			"Certificate of the directory server is not valid at this time"},
		{"not yet valid", shows(ca.issue(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })), ca.client(),
			"Certificate of the directory server is not valid at this time"},
		{"not for servers", shows(ca.issue(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })), ca.client(), untrusted},
		{"RSA of 1024 bits", shows(ca.issueFor(weakKey, nil)), ca.client(), untrusted},
		{"TLS 1.1", with(ca.server(), func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }), ca.client(), "TLS handshake refused"},
		{"only CBC suites", with(ca.server(), func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}
		}), ca.client(), "TLS handshake refused"},
		{"our certificate is not trusted, TLS 1.3", ca.server(), &tls.Config{RootCAs: ca.pool, GetClientCertificate: otherCA.client().GetClientCertificate},
			"TLS handshake refused"},
		{"our certificate is not trusted, TLS 1.2", with(ca.server(), func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }),
			&tls.Config{RootCAs: ca.pool, GetClientCertificate: otherCA.client().GetClientCertificate}, "TLS handshake refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			address := serve(t, test.server, func(http.ResponseWriter, *http.Request) { t.Error("a request arrived") })
			c, _ := newClient(t, Hooks{}, peerAt("visa", address, test.client))
			_, err := send(t, c, "visa")
			if err == nil || err.Text != test.text || err.Kind != Connect && err.Kind != Broken {
				t.Errorf("error %+v, want %q", err, test.text)
			}
		})
	}
}

// TestHandshakes has what must work (TL-07, TL-08).
func TestHandshakes(t *testing.T) {
	ca := newAuthority(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	withRSA := ca.issueFor(rsaKey, nil)
	for _, test := range []struct {
		name   string
		change func(*tls.Config)
	}{
		{"TLS 1.3", func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 }},
		{"P-256 alone", func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP256} }},
		{"ECDHE_ECDSA_AES_128_GCM alone", func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
		}},
		{"ECDHE_RSA_AES_128_GCM alone", func(c *tls.Config) {
			c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}
			c.Certificates = []tls.Certificate{withRSA}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			address := serve(t, with(ca.server(), test.change), func(w http.ResponseWriter, r *http.Request) {
				if len(r.TLS.VerifiedChains) == 0 {
					t.Error("no client certificate")
				}
			})
			c, _ := newClient(t, Hooks{}, peerAt("visa", address, ca.client()))
			if _, err := send(t, c, "visa"); err != nil {
				t.Errorf("Send: %v (%v)", err, err.Err)
			}
		})
	}
}

// TestResumption: a new connection takes up the session of an old one.
func TestResumption(t *testing.T) {
	ca := newAuthority(t)
	var resumed []bool
	address := serveRaw(t, ca.server(), func(conn net.Conn) {
		secured := conn.(*tls.Conn)
		req, err := http.ReadRequest(bufio.NewReader(secured))
		if err != nil {
			return
		}
		io.Copy(io.Discard, req.Body)
		resumed = append(resumed, secured.ConnectionState().DidResume)
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	})
	c, _ := newClient(t, Hooks{}, peerAt("visa", address, ca.client()))
	for range 2 {
		if _, err := send(t, c, "visa"); err != nil {
			t.Fatal(err)
		}
	}
	if len(resumed) != 2 || resumed[0] || !resumed[1] {
		t.Errorf("resumed: %v, want false, true", resumed)
	}
}

func with(c *tls.Config, change func(*tls.Config)) *tls.Config {
	change(c)
	return c
}

// TestWeakKeys: every key of a chain has to have the size that the protocol asks for, and
// what a configuration verifies by itself is verified too.
func TestWeakKeys(t *testing.T) {
	modulus := func(bits uint) *rsa.PublicKey {
		return &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), bits-1), E: 65537}
	}
	good := []any{modulus(2048), &ecdsa.PublicKey{Curve: elliptic.P256()}}
	given := newAuthority(t).client()
	picky := false
	given.VerifyConnection = func(tls.ConnectionState) error {
		if picky {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	c, err := harden(given, nil)
	if err != nil {
		t.Fatal(err)
	}
	verify := func(keys ...any) error {
		var state tls.ConnectionState
		for _, key := range keys {
			state.PeerCertificates = append(state.PeerCertificates, &x509.Certificate{PublicKey: key})
		}
		return c.VerifyConnection(state)
	}
	if err := verify(good...); err != nil {
		t.Errorf("keys that are long enough: %v", err)
	}
	for name, weak := range map[string]any{"RSA of 2047 bits": modulus(2047), "a curve of 224 bits": &ecdsa.PublicKey{Curve: elliptic.P224()}} {
		if err := verify(append(good, weak)...); !errors.Is(err, errWeakKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if picky = true; !errors.Is(verify(good...), io.ErrUnexpectedEOF) {
		t.Error("what the configuration verifies by itself is not verified")
	}
}
