package conformance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// An authority signs certificates that live for a day.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(name string) *authority {
	key := newKey()
	template := &x509.Certificate{
		SerialNumber: newSerial(), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	panicOnError(err)
	cert, err := x509.ParseCertificate(der)
	panicOnError(err)
	return &authority{cert, key}
}

// issue makes a certificate for a name and 127.0.0.1, for client and server. The changes
// are made before it is signed.
func (a *authority) issue(name string, changes ...func(*x509.Certificate)) tls.Certificate {
	key := newKey()
	template := &x509.Certificate{
		SerialNumber: newSerial(), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, change := range changes {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	panicOnError(err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// write puts the CA's certificate into a directory, as NAME.pem.
func (a *authority) write(dir, name string) {
	writePEM(filepath.Join(dir, name+".pem"), "CERTIFICATE", a.cert.Raw)
}

// writeList puts a revocation list of the CA into a directory, as NAME.crl. Its NextUpdate
// is until from now.
func (a *authority) writeList(dir, name string, until time.Duration, revoked ...tls.Certificate) {
	l := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(until)}
	for _, c := range revoked {
		cert, err := x509.ParseCertificate(c.Certificate[0])
		panicOnError(err)
		l.RevokedCertificateEntries = append(l.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: cert.SerialNumber, RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, l, a.cert, a.key)
	panicOnError(err)
	writePEM(filepath.Join(dir, name+".crl"), "X509 CRL", der)
}

// writePair puts a certificate and its key into a directory, as NAME.pem and
// NAME-key.pem.
func writePair(dir, name string, c tls.Certificate) {
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	panicOnError(err)
	writePEM(filepath.Join(dir, name+".pem"), "CERTIFICATE", c.Certificate[0])
	writePEM(filepath.Join(dir, name+"-key.pem"), "PRIVATE KEY", der)
}

func writePEM(file, typ string, der []byte) {
	panicOnError(os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: typ, Bytes: der}), 0o600))
}

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	panicOnError(err)
	return key
}

func newSerial() *big.Int {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	panicOnError(err)
	return n
}

// panicOnError panics over errors that only a broken machine makes.
func panicOnError(err error) {
	if err != nil {
		panic(err)
	}
}
