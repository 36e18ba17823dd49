package sandbox

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// certificates are all that the sandbox vouches for. There is one authority
// for each direction: who trusts a directory server does not thereby trust a
// 3-D Secure server.
type certificates struct {
	directories *authority // signs the directory servers, as servers and with an RReq
	servers     *authority // signs the 3-D Secure server, as a client and for its results listener
	issuers     *authority // signs the issuer that signs acsSignedContent
	results     tls.Certificate
	signer      tls.Certificate
	hosts       []string
}

// newCertificates makes them. host is where the listeners are.
func newCertificates(host string) (*certificates, error) {
	c := &certificates{hosts: []string{"localhost", "127.0.0.1", "::1"}}
	if host != "" && host != "localhost" && host != "127.0.0.1" && host != "::1" {
		c.hosts = append(c.hosts, host)
	}
	for _, a := range []struct {
		name string
		into **authority
	}{
		{"Sandbox directory servers CA", &c.directories},
		{"Sandbox 3DS Servers CA", &c.servers},
		{"Sandbox issuers CA", &c.issuers},
	} {
		made, err := newAuthority(a.name)
		if err != nil {
			return nil, fmt.Errorf("making the %s: %w", a.name, err)
		}
		*a.into = made
	}
	var err error
	if c.results, err = c.servers.issue("results.sandbox.test", c.hosts...); err != nil {
		return nil, err
	}
	c.signer, err = c.issuers.issue("acs.sandbox.test")
	return c, err
}

// An authority is a root certificate and its key.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := certTemplate(name)
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, t, t, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key}, nil
}

// issue makes a certificate for name and further hosts, names or addresses.
func (a *authority) issue(name string, hosts ...string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	t := certTemplate(name)
	t.KeyUsage = x509.KeyUsageDigitalSignature
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	t.DNSNames = []string{name}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, key.Public(), a.key)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func (a *authority) pem() []byte {
	var text bytes.Buffer
	_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}) // a bytes.Buffer does not fail
	return text.Bytes()
}

// certTemplate is what all certificates have in common. They live a month, by the
// real clock, since TLS goes by that.
func certTemplate(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // crypto/rand does not fail
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name, Organization: []string{"threeds sandbox"}},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(30 * 24 * time.Hour),
	}
}
