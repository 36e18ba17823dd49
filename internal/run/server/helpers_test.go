package server

import (
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
	"os"
	"path/filepath"
	"testing"
	"time"
)

// noon is the time at which the servers of these tests stand still.
var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, file string, data []byte) {
	t.Helper()
	must(t, os.WriteFile(file, data, 0o600))
}

// newCertificate makes a CA's certificate that is good for both sides of a connection with
// 127.0.0.1, and the pool that trusts it.
func newCertificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Test CA"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// writeConfig writes a configuration file of one directory, with the files that it names.
func writeConfig(t testing.TB) (file, text string) {
	t.Helper()
	dir := t.TempDir()
	cert, _ := newCertificate(t)
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	must(t, err)
	write(t, filepath.Join(dir, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}))
	write(t, filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	const pair = "{cert: cert.pem, key: key.pem}"
	text = fmt.Sprintf(`results: {url: "https://results.example/results", tls: %[1]s}
store: {url: "file:data"}
server: {reference_number: 3DS_LOA_SER_TEST_020301_00001}
log: {level: debug}
directories:
  - {scheme: visa, areq_url: "https://127.0.0.1:1/", preq_url: "https://127.0.0.1:1/", versions: [2.1.0, 2.2.0, 2.3.1], client_cert: %[1]s, server_ca: cert.pem, client_ca: cert.pem}
`, pair)
	file = filepath.Join(dir, "threeds.yaml")
	write(t, file, []byte(text))
	return file, text
}

// awaitStart waits until a server has started, and returns its configuration. It fails the test if the server has
// ended.
func awaitStart(t testing.TB, started <-chan *Config, ended <-chan error) *Config {
	t.Helper()
	select {
	case cfg := <-started:
		return cfg
	case err := <-ended:
		t.Fatalf("the server does not start: %v", err)
		return nil
	}
}
