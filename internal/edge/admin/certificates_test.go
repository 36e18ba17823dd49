package admin_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/edge/admin"
	"github.com/openthreeds/threeds/internal/operate/operator"
)

// certify answers a CSR with a certificate and its root, as a JSON body.
func certify(t *testing.T, csr string) string {
	t.Helper()
	block, _ := pem.Decode([]byte(csr))
	if block == nil {
		t.Fatalf("no CSR: %q", csr)
	}
	asked, err := x509.ParseCertificateRequest(block.Bytes)
	must(t, err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	var file strings.Builder
	sign := func(template, parent *x509.Certificate, public any) *x509.Certificate {
		template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(9), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
		must(t, err)
		cert, err := x509.ParseCertificate(der)
		must(t, err)
		return cert
	}
	root := &x509.Certificate{Subject: pkix.Name{CommonName: "CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	root = sign(root, root, key.Public())
	leaf := sign(&x509.Certificate{Subject: asked.Subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, root, asked.PublicKey)
	for _, cert := range []*x509.Certificate{leaf, root} {
		must(t, pem.Encode(&file, &pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
	}
	body, err := json.Marshal(map[string]string{"certificate": file.String()})
	must(t, err)
	return string(body)
}

// TestK7CertificatesByTheAPI: an operator requests, installs, tests, activates and goes back. Each change is in the
// audit trail once, and a refused one is not.
func TestK7CertificatesByTheAPI(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	do := func(want int, operation, body string) (got admin.CertificatesOfScheme) {
		t.Helper()
		w := s.call("operator", "POST", "certificates/visa/"+operation, body)
		if w.Code != want || strings.Contains(w.Body.String(), "PRIVATE") {
			t.Fatalf("%s: %d %s, want %d", operation, w.Code, w.Body, want)
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Error(err)
		}
		return got
	}
	do(400, "request", `{"curve": "P-1", "subject": "CN=a"}`)
	do(400, "request", `{"curve": "P-256", "subject": "a"}`)
	do(400, "request", `{"curves": "P-256"}`)
	for _, name := range []string{"first", "second"} {
		waits := do(200, "request", fmt.Sprintf(`{"curve": "P-256", "subject": "CN=%s"}`, name))
		good := certify(t, waits.Requests[0].CSR)
		do(400, "install", strings.Replace(good, "{", `{"at": "2020-01-01T00:00:00Z", `, 1))
		do(400, "install", `{"certificate": ""}`)
		if got := do(200, "install", good); got.Next == nil || got.Next.Subject != "CN="+name || len(got.Requests) > 0 {
			t.Errorf("after install %+v", got)
		}
		if w := s.call("operator", "POST", "certificates/visa/test", "{}"); !strings.Contains(w.Body.String(), `"result":"accepted","detail":"`+name+` at visa"`) {
			t.Errorf("test: %s", w.Body)
		}
		if got := do(200, "activate", "{}"); got.Current == nil || got.Current.Subject != "CN="+name || got.Next != nil {
			t.Errorf("after activate %+v", got)
		}
		do(409, "activate", "{}")
	}
	if got := do(200, "rollback", "{}"); got.Current.Subject != "CN=first" || got.Previous.Subject != "CN=second" {
		t.Errorf("after rollback %+v", got)
	}
	for _, path := range []string{"certificates", "certificates/visa"} {
		if w := s.call("viewer", "GET", path, ""); w.Code != 200 || !strings.Contains(w.Body.String(), "CN=first") || strings.Contains(w.Body.String(), "PRIVATE") {
			t.Errorf("GET %s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := s.call("operator", "POST", "certificates/jcb/activate", "{}"); w.Code != 404 {
		t.Errorf("a directory that is not there: %d", w.Code)
	}
	var trail struct{ Data []operator.Entry }
	must(t, json.Unmarshal(s.call("admin", "GET", "audit", "").Body.Bytes(), &trail))
	var got []string
	for _, e := range trail.Data {
		got = append([]string{strings.TrimPrefix(e.Action, "certificate.")}, got...)
		if e.Who != "token:operator" || e.Object != "visa" || e.Before == nil || e.After == nil {
			t.Errorf("entry %+v", e)
		}
	}
	if want := "request install activate request install activate rollback"; strings.Join(got, " ") != want {
		t.Errorf("audited are %v, want %s", got, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
