package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Certificate is a certificate with its key, both as PEM.
type Certificate struct{ Cert, Key []byte }

// An authority signs the certificates of one run.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificate("Bench CA")
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert, key}, err
}

func certificate(name string) *x509.Certificate {
	serial := make([]byte, 8)
	rand.Read(serial) // never fails
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

// issue makes a certificate for name and 127.0.0.1, good for both sides.
func (a *authority) issue(name string) (Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Certificate{}, err
	}
	template := certificate(name)
	template.DNSNames, template.IPAddresses = []string{name}, []net.IP{net.IPv4(127, 0, 0, 1)}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Certificate{}, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Certificate{}, err
	}
	return Certificate{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}, nil
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// load returns the certificate, and the pool that has only ca.
func (c Certificate) load(ca []byte) (tls.Certificate, *x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return tls.Certificate{}, nil, errors.New("no CA certificate")
	}
	own, err := tls.X509KeyPair(c.Cert, c.Key)
	return own, pool, err
}

// write puts the certificate and its key into dir.
func (c Certificate) write(dir, name string) error {
	return errors.Join(
		os.WriteFile(filepath.Join(dir, name+".pem"), c.Cert, 0o600),
		os.WriteFile(filepath.Join(dir, name+"-key.pem"), c.Key, 0o600))
}
