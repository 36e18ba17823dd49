package directorytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"
)

// authority signs the certificates of a Server.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, key: newKey(t)}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "directory server authority"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.cert = sign(t, template, template, a.key, a.key)
	return a
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// show is the TLS of a server with a certificate for 127.0.0.1. change, unless nil, is
// called before it is signed; with by nil it signs itself.
func (a *authority) show(by *authority, change func(*x509.Certificate)) *tls.Config {
	key := newKey(a.t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "ds.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if change != nil {
		change(template)
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	cert := sign(a.t, template, parent, key, signer)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}},
		ClientAuth:   tls.RequireAnyClientCert,
	}
}

// configs are the TLS of a server, by what is wrong with it; "" is good.
func (a *authority) configs() map[string]*tls.Config {
	old := a.show(a, nil)
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	refusing := a.show(a, nil)
	refusing.MaxVersion = tls.VersionTLS12 // in 1.3 the client hears of it only after its request
	refusing.ClientAuth, refusing.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
	return map[string]*tls.Config{
		"":                     a.show(a, nil),
		"self-signed":          a.show(nil, nil),
		"of another authority": a.show(newAuthority(a.t), nil),
		"expired":              a.show(a, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }),
		"not yet valid":        a.show(a, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(30 * time.Minute) }),
		"for another host":     a.show(a, func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"ds.example"} }),
		"for clients":          a.show(a, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }),
		"TLS 1.1":              old,
		"refuses ours":         refusing,
	}
}
