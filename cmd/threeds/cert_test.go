package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/openthreeds/threeds/internal/clientcert"
	"github.com/openthreeds/threeds/internal/operator"
	"github.com/openthreeds/threeds/internal/store/postgres/pgtest"
	"github.com/openthreeds/threeds/internal/tunnel/tunneltest"
)

// shownCerts notes which client certificates a directory server is shown, and on how many connections that are open.
type shownCerts struct {
	mu    sync.Mutex
	names map[net.Conn]string // the certificate of each open connection
	all   []string            // the certificates of all handshakes, in their order
}

// watchCerts has a directory server note the client certificates of connections from now on.
func watchCerts(ds *wire) *shownCerts {
	s := &shownCerts{names: make(map[net.Conn]string)}
	note := func(conn net.Conn, state http.ConnState) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if state == http.StateClosed || state == http.StateHijacked {
			delete(s.names, conn)
			return
		}
		if secured, ok := conn.(*tls.Conn); ok && s.names[conn] == "" {
			if shown := secured.ConnectionState().PeerCertificates; len(shown) > 0 {
				s.names[conn] = shown[0].Subject.CommonName
				s.all = append(s.all, shown[0].Subject.CommonName)
			}
		}
	}
	ds.onConnState.Store(&note)
	return s
}

// open returns how many connections are open on which a certificate was shown.
func (s *shownCerts) open(name string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, shown := range s.names {
		if shown == name {
			n++
		}
	}
	return n
}

// last returns the name in the certificate of the last handshake.
func (s *shownCerts) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return ""
	}
	return s.all[len(s.all)-1]
}

// cert runs a command on client certificates, which must end with a status.
func (s *site) cert(want int, args ...string) (stdout, stderr string) {
	s.t.Helper()
	var out, errs strings.Builder
	args = append(append([]string{"cert"}, args...), "--config", s.config)
	if code := run(s.t.Context(), args, strings.NewReader(""), &out, &errs); code != want {
		s.t.Fatalf("threeds %s: status %d, want %d: %s%s", strings.Join(args, " "), code, want, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// sign answers a CSR with a certificate of its own subject, and returns the file.
func (a *authority) sign(csr string, from, to time.Time) string {
	a.t.Helper()
	block, _ := pem.Decode([]byte(csr))
	if block == nil {
		a.t.Fatalf("no CSR: %q", csr)
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	must(a.t, err)
	a.n++
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(a.n), Subject: pkix.Name{CommonName: request.Subject.CommonName}, NotBefore: from, NotAfter: to,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.cert, request.PublicKey, a.key)
	must(a.t, err)
	file := filepath.Join(a.t.TempDir(), "client.pem")
	write(a.t, file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return file
}

// certify CSR FILE answers the CSR in a file with a certificate. FILE gets it, and ca.pem its CA, which also certifies
// server.pem with server.key.
func certify(ts *testscript.TestScript, _ bool, args []string) {
	block, _ := pem.Decode([]byte(ts.ReadFile(args[0])))
	if block == nil {
		ts.Fatalf("%s is no CSR", args[0])
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	ts.Check(err)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	sign := func(template, parent *x509.Certificate, public any, file string) *x509.Certificate {
		template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(7), time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(file), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
		cert, err := x509.ParseCertificate(der)
		ts.Check(err)
		return cert
	}
	root := &x509.Certificate{Subject: pkix.Name{CommonName: "CA"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	root = sign(root, root, key.Public(), "ca.pem")
	sign(&x509.Certificate{Subject: request.Subject, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}},
		root, request.PublicKey, args[1])
	sign(&x509.Certificate{Subject: pkix.Name{CommonName: "server"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, root, key.Public(), "server.pem")
	der, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("server.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
}

// installCert makes a key, has it signed and installs the certificate.
func (s *site) installCert(name string, flags ...string) {
	s.t.Helper()
	csr, _ := s.cert(0, "request", "visa", "--curve", "P-256", "--subject", "CN="+name)
	s.cert(0, append([]string{"install", "visa", s.ca.sign(csr, time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour))}, flags...)...)
}

// manageVisa writes managed into the configuration of a plan.
func manageVisa(t *testing.T) func(dir string) {
	return func(dir string) {
		file := filepath.Join(dir, "threeds.yaml")
		text, err := os.ReadFile(file)
		must(t, err)
		changed := strings.Replace(string(text), "{cert: client.pem, key: client-key.pem}", "managed", 1)
		if changed == string(text) {
			t.Fatal("the configuration has no client_cert to replace")
		}
		write(t, file, []byte(changed))
	}
}

// audited returns the actions on certificates in the audit trail, the oldest first.
func (s *site) audited() (actions []string) {
	s.t.Helper()
	var out strings.Builder
	if code := run(s.t.Context(), []string{"audit", "search", "--object", "visa", "--json", "--config", s.config}, nil, &out, &out); code != 0 {
		s.t.Fatal(out.String())
	}
	var entries []operator.Entry
	must(s.t, json.Unmarshal([]byte(out.String()), &entries))
	for _, e := range entries {
		actions = append([]string{strings.TrimPrefix(e.Action, "certificate.")}, actions...)
		if strings.Contains(fmt.Sprint(e.Before, e.After), "PRIVATE") || !strings.HasPrefix(e.Who, "cli:") {
			s.t.Errorf("entry %+v", e)
		}
	}
	return actions
}

// TestD145DirectoryWithoutACertificateIsDegraded until one is activated.
func TestD145DirectoryWithoutACertificateIsDegraded(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca), plan{unready: true, prepare: manageVisa(t)})
	s.wantProblem("directory visa", "directories[0].client_cert: managed, and the store has no certificate that is in use")
	s.installCert("first")
	if out, _ := s.cert(0, "test", "visa"); !strings.Contains(out, "CN=first (next)") || !strings.Contains(out, "accepted") {
		t.Errorf("the test says %s", out)
	}
	s.cert(0, "activate", "visa")
	waitFor(t, "the end of the problem", func() bool { return s.metric(`threeds_degraded{what="directory visa"}`) == 0 })
	if !strings.Contains(s.log.String(), "a part of the server is no longer degraded") {
		t.Error("the log does not say that the directory works")
	}
	if end := s.metric(`threeds_certificate_not_after_timestamp_seconds{key="directories[0].client_cert",scheme="visa"}`); time.Until(time.Unix(int64(end), 0)) < time.Hour {
		t.Errorf("the metrics have the end %v", end)
	}
}

// TestD145NodesChangeOverWithoutARestart has two nodes on one database. Certificates come into use on both at their time, or
// within seconds. Connections under the former one are closed when nothing is under way on them.
func TestD145NodesChangeOverWithoutARestart(t *testing.T) {
	place := fmt.Sprintf("store: {url: %q}\nkeys: %s", pgtest.Get(t).Schema(t), filepath.Join(t.TempDir(), "keys.json"))
	ca := newAuthority(t)
	ds := newWire(t, ca)
	shown := watchCerts(ds)
	one := startSite(t, ca, ds, plan{store: place})
	one.installCert("first")
	one.cert(0, "activate", "visa")
	manageVisa(t)(filepath.Dir(one.config))
	waitFor(t, "the reload", func() bool { return one.metric(applied) == 1 })
	two := startSite(t, ca, ds, plan{beside: one})
	nodes := []*site{one, two}
	for _, s := range nodes {
		s.wantAuthentication()
	}
	if got := shown.last(); got != "first" {
		t.Errorf("a handshake shows %q", got)
	}
	changes := func(s *site) int { return strings.Count(s.log.String(), "client certificate changed over") }
	before := []int{changes(one), changes(two)}

	// An AReq that is under way while nodes change over gets its answer.
	came, answer := make(chan bool, 1), make(chan bool)
	release := sync.OnceFunc(func() { close(answer) })
	defer release() // else the end of the test would wait for the AReq
	ds.setAnswer(func(areq object) (int, []byte) {
		came <- true
		<-answer
		return says("Y")(areq)
	})
	request, done := one.request("2.2.0"), make(chan int)
	go func() {
		code, _ := one.post("/auth", request)
		done <- code
	}()
	<-came
	at := time.Now().Add(5 * time.Second).UTC()
	one.installCert("second", "--at", at.Format(time.RFC3339Nano))
	for i, s := range nodes {
		waitFor(t, "the change at a node", func() bool { return changes(s) == before[i]+1 })
	}
	if early := time.Until(at); early > time.Second { // the clock of the database is that of this machine
		t.Errorf("nodes changed over %v early", early)
	}
	waitFor(t, "the end of connections that rest", func() bool { return shown.open("first") <= 1 })
	if n := shown.open("first"); n != 1 {
		t.Errorf("%d connections with the first certificate are open, want that of the AReq under way", n)
	}
	release()
	if code := <-done; code != 200 {
		t.Errorf("the AReq under way: %d", code)
	}
	ds.setAnswer(nil)
	waitFor(t, "the end of the last connection", func() bool { return shown.open("first") == 0 })
	for _, s := range nodes {
		s.wantAuthentication()
	}
	if got := shown.last(); got != "second" {
		t.Errorf("a new handshake shows %q", got)
	}

	two.cert(0, "rollback", "visa")
	for i, s := range nodes {
		waitFor(t, "the way back at a node", func() bool { return changes(s) == before[i]+2 })
		s.wantAuthentication()
	}
	if got := shown.last(); got != "first" {
		t.Errorf("after the rollback a handshake shows %q", got)
	}
	if got, want := strings.Join(one.audited(), " "), "request install activate request install rollback"; got != want {
		t.Errorf("audited are %s, want %s", got, want)
	}
}

// TestD145ExpiredManagedCertificateDegrades: a managed certificate that ends while the server runs degrades its directory
// with an error in the log, and a restart and a reload are not held up by it.
func TestD145ExpiredManagedCertificateDegrades(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	ds := newWire(t, ca)
	s := startSite(t, ca, ds, plan{unready: true, prepare: manageVisa(t)})
	csr, _ := s.cert(0, "request", "visa", "--curve", "P-256")
	s.cert(0, "install", "visa", ca.sign(csr, time.Now().Add(-time.Hour), time.Now().Add(45*time.Second)))
	s.cert(0, "activate", "visa")
	s.wantProblem("directory visa", "directories[0].client_cert: the certificate has expired on")
	waitFor(t, "the error", func() bool {
		return strings.Contains(s.log.String(), `"what":"directory visa","fault":"directories[0].client_cert: the certificate has expired`)
	})
	write(t, s.config, []byte(strings.Replace(s.text(), "requestor_id: ServerID", "requestor_id: AnotherID", 1)))
	waitFor(t, "the reload", func() bool { return s.metric(applied) == 1 })
	s.wantProblem("directory visa", "directories[0].client_cert: the certificate has expired on")
	must(t, s.stop())
	again := startSite(t, ca, ds, plan{beside: s, unready: true})
	again.wantProblem("directory visa", "directories[0].client_cert: the certificate has expired on")
	again.cert(1, "activate", "visa")
	_, said := again.cert(1, "rollback", "visa")
	if !strings.Contains(said, "no certificate before the current one") {
		t.Errorf("rollback says %q", said)
	}
	if got, want := strings.Join(again.audited(), " "), "request install activate"; got != want {
		t.Errorf("audited are %s, want %s: a refused change is in it", got, want)
	}
}

// TestD145FilesGiveWayToManaged: certificates are prepared while files are in use, and a reload changes over to them.
func TestD145FilesGiveWayToManaged(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	ds := newWire(t, ca)
	shown := watchCerts(ds)
	s := startSite(t, ca, ds)
	s.installCert("managed")
	_, said := s.cert(0, "activate", "visa")
	if !strings.Contains(said, "client_cert of visa names files") {
		t.Errorf("activate says %q", said)
	}
	s.wantAuthentication()
	if got := shown.last(); got != "3dss.example" {
		t.Errorf("a handshake shows %q", got)
	}
	manageVisa(t)(filepath.Dir(s.config))
	waitFor(t, "the reload", func() bool { return s.metric(applied) == 1 })
	s.wantAuthentication()
	if got := shown.last(); got != "managed" {
		t.Errorf("a handshake shows %q", got)
	}
	out, _ := s.cert(0, "status", "--json")
	var all []clientcert.Status
	must(t, json.Unmarshal([]byte(out), &all))
	if len(all) != 1 || all[0].Current == nil || all[0].Current.Subject != "CN=managed" || strings.Contains(out, "PRIVATE") {
		t.Errorf("status %s", out)
	}
}

// TestD145ChangeOverKeepsTheSecretsInUse: a node that changes over after a rotation of the key file goes on with the new
// secret.
func TestD145ChangeOverKeepsTheSecretsInUse(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca), plan{unready: true, prepare: manageVisa(t)})
	current := func() string {
		res, err := http.Get(s.console + "/readyz")
		must(t, err)
		defer res.Body.Close()
		var got struct{ KeyFile struct{ Current string } }
		must(t, json.NewDecoder(res.Body).Decode(&got))
		return got.KeyFile.Current
	}
	s.installCert("first")
	before := current()
	var said strings.Builder
	if code := run(t.Context(), []string{"key", "rotate", "--config", s.config}, nil, &said, &said); code != 0 {
		t.Fatal(said.String())
	}
	rotated := current()
	if rotated == before || !strings.Contains(said.String(), "client certificates under the new secret: directories 1") {
		t.Fatalf("the secret was %s and is %s: %s", before, rotated, said.String())
	}
	s.cert(0, "activate", "visa")
	waitFor(t, "the change", func() bool { return strings.Contains(s.log.String(), "client certificate changed over") })
	if now := current(); now != rotated {
		t.Errorf("after the change the secret in use is %s, want %s", now, rotated)
	}
}

// TestD145TestOfACertificateUsesForwardProxy: the command connects in the way that AReqs go, with the password of the proxy,
// and tells its refusal from that of the directory server.
func TestD145TestOfACertificateUsesForwardProxy(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	ds := newWire(t, ca)
	proxy := tunneltest.Start(t, nil)
	address := strings.TrimPrefix(ds.server.URL, "https://")
	proxy.Way(address, address)
	proxy.Demand("Basic dGhyZWVkczpodXNo")
	s := startSite(t, ca, ds, plan{
		unready: true, sections: fmt.Sprintf(`forward_proxy: {url: "http://%s", credentials: proxy.secret}`, proxy.Address),
		prepare: func(dir string) {
			write(t, filepath.Join(dir, "proxy.secret"), []byte("threeds:hush\n"))
			must(t, os.Chmod(filepath.Join(dir, "proxy.secret"), 0o600))
			manageVisa(t)(dir)
		},
	})
	s.installCert("first")
	asked := proxy.Asked()[address]
	out, _ := s.cert(0, "test", "visa")
	if !strings.Contains(out, "through") || !strings.Contains(out, "http://"+proxy.Address) || strings.Contains(out, "hush") {
		t.Errorf("the test says %s", out)
	}
	if proxy.Asked()[address] <= asked {
		t.Error("the handshake did not go through the proxy")
	}
	proxy.Demand("Basic of somebody else")
	if out, said := s.cert(1, "test", "visa"); !strings.Contains(out+said, "failed") || !strings.Contains(said, "Proxy: ") {
		t.Errorf("a proxy that refuses: %s%s", out, said)
	}
}
