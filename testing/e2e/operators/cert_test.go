package operators

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

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/operate/operator"
	"github.com/openthreeds/threeds/internal/peers/clientcert"
	"github.com/openthreeds/threeds/internal/peers/tunnel/tunneltest"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// shownCerts notes which client certificates a directory server is shown, and on how many connections that are open.
type shownCerts struct {
	mu    sync.Mutex
	names map[net.Conn]string // the certificate of each open connection
	all   []string            // the certificates of all handshakes, in their order
}

// watchCerts has a directory server note the client certificates of connections from now on.
func watchCerts(ds *rig.Wire) *shownCerts {
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
	ds.OnConnState.Store(&note)
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
func cert(s *rig.Site, want int, args ...string) (stdout, stderr string) {
	s.T.Helper()
	var out, errs strings.Builder
	args = append(append([]string{"cert"}, args...), "--config", s.ConfigFile)
	if code := rig.Run(s.T.Context(), args, strings.NewReader(""), &out, &errs); code != want {
		s.T.Fatalf("threeds %s: status %d, want %d: %s%s", strings.Join(args, " "), code, want, out.String(), errs.String())
	}
	return out.String(), errs.String()
}

// sign answers a CSR with a certificate of its own subject, and returns the file.
func sign(a *rig.Authority, csr string, from, to time.Time) string {
	a.T.Helper()
	block, _ := pem.Decode([]byte(csr))
	if block == nil {
		a.T.Fatalf("no CSR: %q", csr)
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	rig.Must(a.T, err)
	a.Serial++
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(a.Serial), Subject: pkix.Name{CommonName: request.Subject.CommonName}, NotBefore: from, NotAfter: to,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a.Cert, request.PublicKey, a.Key)
	rig.Must(a.T, err)
	file := filepath.Join(a.T.TempDir(), "client.pem")
	rig.WriteFile(a.T, file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
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
	sign(
		&x509.Certificate{Subject: pkix.Name{CommonName: "server"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, root, key.Public(), "server.pem")
	der, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("server.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
}

// signNewKey makes a key, has it signed and returns the file of the certificate.
func signNewKey(s *rig.Site, name string) string {
	s.T.Helper()
	csr, _ := cert(s, 0, "request", "visa", "--curve", "P-256", "--subject", "CN="+name)
	return sign(s.Authority, csr, time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour))
}

// installCert makes a key, has it signed and installs the certificate.
func installCert(s *rig.Site, name string) {
	s.T.Helper()
	cert(s, 0, "install", "visa", signNewKey(s, name))
}

// installCertSoon is installCert for a certificate that comes into use by itself, some seconds later, and returns when.
// The seconds are more if the machine is too slow to install it before they are over.
func installCertSoon(s *rig.Site, name string) (at time.Time) {
	s.T.Helper()
	file := signNewKey(s, name)
	for lasts := 5 * time.Second; ; lasts *= 2 {
		at = time.Now().Add(lasts).UTC()
		var said strings.Builder
		args := []string{"cert", "install", "visa", file, "--at", at.Format(time.RFC3339Nano), "--config", s.ConfigFile}
		if code := rig.Run(s.T.Context(), args, strings.NewReader(""), &said, &said); code == 0 {
			return at
		}
		if time.Now().Before(at) {
			s.T.Fatalf("threeds cert install: %s", said.String())
		}
	}
}

// manageVisa writes managed into the configuration of a plan.
func manageVisa(t *testing.T) func(dir string) {
	return func(dir string) {
		file := filepath.Join(dir, "threeds.yaml")
		text, err := os.ReadFile(file)
		rig.Must(t, err)
		changed := strings.Replace(string(text), "{cert: client.pem, key: client-key.pem}", "managed", 1)
		if changed == string(text) {
			t.Fatal("the configuration has no client_cert to replace")
		}
		rig.WriteFile(t, file, []byte(changed))
	}
}

// audited returns the actions on certificates in the audit trail, the oldest first.
func audited(s *rig.Site) (actions []string) {
	s.T.Helper()
	var out strings.Builder
	if code := rig.Run(s.T.Context(), []string{"audit", "search", "--object", "visa", "--json", "--config", s.ConfigFile}, nil, &out, &out); code != 0 {
		s.T.Fatal(out.String())
	}
	var entries []operator.Entry
	rig.Must(s.T, json.Unmarshal([]byte(out.String()), &entries))
	for _, e := range entries {
		actions = append([]string{strings.TrimPrefix(e.Action, "certificate.")}, actions...)
		if strings.Contains(fmt.Sprint(e.Before, e.After), "PRIVATE") || !strings.HasPrefix(e.Who, "cli:") {
			s.T.Errorf("entry %+v", e)
		}
	}
	return actions
}

// TestD145DirectoryWithoutACertificateIsDegraded until one is activated.
func TestD145DirectoryWithoutACertificateIsDegraded(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Unready: true, Prepare: manageVisa(t)})
	s.WantProblem("directory visa", "directories[0].client_cert: managed, and the store has no certificate that is in use")
	installCert(s, "first")
	if out, _ := cert(s, 0, "test", "visa"); !strings.Contains(out, "CN=first (next)") || !strings.Contains(out, "accepted") {
		t.Errorf("the test says %s", out)
	}
	cert(s, 0, "activate", "visa")
	waittest.Until(t, "the end of the problem", func() bool { return s.Metric(`threeds_degraded{what="directory visa"}`) == 0 })
	if !strings.Contains(s.Log.String(), "a part of the server is no longer degraded") {
		t.Error("the log does not say that the directory works")
	}
	if end := s.Metric(
		`threeds_certificate_not_after_timestamp_seconds{key="directories[0].client_cert",scheme="visa"}`); time.Until(time.Unix(int64(end), 0)) < time.Hour {
		t.Errorf("the metrics have the end %v", end)
	}
}

// TestD145NodesChangeOverWithoutARestart has two nodes on one database. Certificates come into use on both at their
// time, or within seconds. Connections under the former one are closed when nothing is under way on them.
func TestD145NodesChangeOverWithoutARestart(t *testing.T) {
	t.Parallel()
	place := fmt.Sprintf("store: {url: %q}\nkeys: %s", pgtest.Get(t).Schema(t), filepath.Join(t.TempDir(), "keys.json"))
	ca := rig.NewAuthority(t)
	ds := rig.NewWire(t, ca)
	shown := watchCerts(ds)
	one := rig.StartSite(t, ca, ds, rig.Plan{Store: place})
	installCert(one, "first")
	cert(one, 0, "activate", "visa")
	manageVisa(t)(filepath.Dir(one.ConfigFile))
	one.HangUp()
	waittest.Until(t, "the reload", func() bool { return one.Metric(rig.ReloadApplied) == 1 })
	two := rig.StartSite(t, ca, ds, rig.Plan{Beside: one})
	nodes := []*rig.Site{one, two}
	for _, s := range nodes {
		s.WantAuthentication()
	}
	if got := shown.last(); got != "first" {
		t.Errorf("a handshake shows %q", got)
	}
	changes := func(s *rig.Site) int { return strings.Count(s.Log.String(), "client certificate changed over") }
	before := []int{changes(one), changes(two)}

	// An AReq that is under way while nodes change over gets its answer.
	came, answer := make(chan bool, 1), make(chan bool)
	release := sync.OnceFunc(func() { close(answer) })
	defer release() // else the end of the test would wait for the AReq
	ds.SetAnswer(func(areq rig.Object) (int, []byte) {
		came <- true
		<-answer
		return rig.AnswerStatus("Y")(areq)
	})
	request, done := one.Request("2.2.0"), make(chan int)
	go func() {
		code, _ := one.Post("/auth", request)
		done <- code
	}()
	<-came
	at := installCertSoon(one, "second")
	for i, s := range nodes {
		waittest.Until(t, "the change at a node", func() bool { return changes(s) == before[i]+1 })
	}
	if early := time.Until(at); early > time.Second { // the clock of the database is that of this machine
		t.Errorf("nodes changed over %v early", early)
	}
	waittest.Until(t, "the end of connections that rest", func() bool { return shown.open("first") <= 1 })
	if n := shown.open("first"); n != 1 {
		t.Errorf("%d connections with the first certificate are open, want that of the AReq under way", n)
	}
	release()
	if code := <-done; code != 200 {
		t.Errorf("the AReq under way: %d", code)
	}
	ds.SetAnswer(nil)
	waittest.Until(t, "the end of the last connection", func() bool { return shown.open("first") == 0 })
	for _, s := range nodes {
		s.WantAuthentication()
	}
	if got := shown.last(); got != "second" {
		t.Errorf("a new handshake shows %q", got)
	}

	cert(two, 0, "rollback", "visa")
	for i, s := range nodes {
		waittest.Until(t, "the way back at a node", func() bool { return changes(s) == before[i]+2 })
		s.WantAuthentication()
	}
	if got := shown.last(); got != "first" {
		t.Errorf("after the rollback a handshake shows %q", got)
	}
	if got, want := strings.Join(audited(one), " "), "request install activate request install rollback"; got != want {
		t.Errorf("audited are %s, want %s", got, want)
	}
}

// TestD145ExpiredManagedCertificateDegrades: a managed certificate that ends while the server runs degrades its
// directory with an error in the log, and a restart and a reload are not held up by it.
func TestD145ExpiredManagedCertificateDegrades(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	ds := rig.NewWire(t, ca)
	s := rig.StartSite(t, ca, ds, rig.Plan{Unready: true, Prepare: manageVisa(t)})
	csr, _ := cert(s, 0, "request", "visa", "--curve", "P-256")
	cert(s, 0, "install", "visa", sign(ca, csr, time.Now().Add(-time.Hour), time.Now().Add(20*time.Second)))
	cert(s, 0, "activate", "visa")
	s.WantProblem("directory visa", "directories[0].client_cert: the certificate has expired on")
	waittest.Until(t, "the error", func() bool {
		return strings.Contains(s.Log.String(), `"what":"directory visa","fault":"directories[0].client_cert: the certificate has expired`)
	})
	rig.WriteFile(t, s.ConfigFile, []byte(strings.Replace(s.ConfigText(), "requestor_id: ServerID", "requestor_id: AnotherID", 1)))
	s.HangUp()
	waittest.Until(t, "the reload", func() bool { return s.Metric(rig.ReloadApplied) == 1 })
	s.WantProblem("directory visa", "directories[0].client_cert: the certificate has expired on")
	rig.Must(t, s.Stop())
	again := rig.StartSite(t, ca, ds, rig.Plan{Beside: s, Unready: true})
	again.WantProblem("directory visa", "directories[0].client_cert: the certificate has expired on")
	cert(again, 1, "activate", "visa")
	_, said := cert(again, 1, "rollback", "visa")
	if !strings.Contains(said, "no certificate before the current one") {
		t.Errorf("rollback says %q", said)
	}
	if got, want := strings.Join(audited(again), " "), "request install activate"; got != want {
		t.Errorf("audited are %s, want %s: a refused change is in it", got, want)
	}
}

// TestD145FilesGiveWayToManaged: certificates are prepared while files are in use, and a reload changes over to them.
func TestD145FilesGiveWayToManaged(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	ds := rig.NewWire(t, ca)
	shown := watchCerts(ds)
	s := rig.StartSite(t, ca, ds)
	installCert(s, "managed")
	_, said := cert(s, 0, "activate", "visa")
	if !strings.Contains(said, "client_cert of visa names files") || !strings.Contains(said, "in the store, and not used, is CN=managed, serial ") ||
		strings.Contains(said, "change over") {
		t.Errorf("activate says %q", said)
	}
	if out, _ := cert(s, 0, "status"); !strings.Contains(out, "visa    in the store, not used ") {
		t.Errorf("status says %q", out)
	}
	s.WantAuthentication()
	if got := shown.last(); got != "3dss.example" {
		t.Errorf("a handshake shows %q", got)
	}
	manageVisa(t)(filepath.Dir(s.ConfigFile))
	s.HangUp()
	waittest.Until(t, "the reload", func() bool { return s.Metric(rig.ReloadApplied) == 1 })
	s.WantAuthentication()
	if got := shown.last(); got != "managed" {
		t.Errorf("a handshake shows %q", got)
	}
	out, _ := cert(s, 0, "status", "--json")
	var all []clientcert.Status
	rig.Must(t, json.Unmarshal([]byte(out), &all))
	if len(all) != 1 || all[0].Current == nil || all[0].Current.Subject != "CN=managed" || strings.Contains(out, "PRIVATE") {
		t.Errorf("status %s", out)
	}
}

// TestD145ChangeOverKeepsTheSecretsInUse: a node that changes over after a rotation of the key file goes
// on with the new secret.
func TestD145ChangeOverKeepsTheSecretsInUse(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Unready: true, Prepare: manageVisa(t)})
	current := func() string {
		res, err := http.Get(s.ConsoleURL + "/readyz")
		rig.Must(t, err)
		defer res.Body.Close()
		var got struct{ KeyFile struct{ Current string } }
		rig.Must(t, json.NewDecoder(res.Body).Decode(&got))
		return got.KeyFile.Current
	}
	installCert(s, "first")
	before := current()
	var said strings.Builder
	if code := rig.Run(t.Context(), []string{"key", "rotate", "--config", s.ConfigFile}, nil, &said, &said); code != 0 {
		t.Fatal(said.String())
	}
	rotated := current()
	if rotated == before || !strings.Contains(said.String(), "1 directory with client certificates") {
		t.Fatalf("the secret was %s and is %s: %s", before, rotated, said.String())
	}
	cert(s, 0, "activate", "visa")
	waittest.Until(t, "the change", func() bool { return strings.Contains(s.Log.String(), "client certificate changed over") })
	if now := current(); now != rotated {
		t.Errorf("after the change the secret in use is %s, want %s", now, rotated)
	}
}

// TestD145TestOfACertificateUsesForwardProxy: the command connects in the way that AReqs go, with the password of the
// proxy, and tells its refusal from that of the directory server.
func TestD145TestOfACertificateUsesForwardProxy(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	ds := rig.NewWire(t, ca)
	proxy := tunneltest.Start(t, nil)
	address := strings.TrimPrefix(ds.Server.URL, "https://")
	proxy.Way(address, address)
	proxy.Demand("Basic dGhyZWVkczpodXNo")
	s := rig.StartSite(t, ca, ds, rig.Plan{
		Unready: true, Sections: fmt.Sprintf(`forward_proxy: {url: "http://%s", credentials: proxy.secret}`, proxy.Address),
		Prepare: func(dir string) {
			rig.WriteFile(t, filepath.Join(dir, "proxy.secret"), []byte("threeds:hush\n"))
			rig.Must(t, os.Chmod(filepath.Join(dir, "proxy.secret"), 0o600))
			manageVisa(t)(dir)
		},
	})
	installCert(s, "first")
	asked := proxy.Asked()[address]
	out, _ := cert(s, 0, "test", "visa")
	if !strings.Contains(out, "through") || !strings.Contains(out, "http://"+proxy.Address) || strings.Contains(out, "hush") {
		t.Errorf("the test says %s", out)
	}
	if proxy.Asked()[address] <= asked {
		t.Error("the handshake did not go through the proxy")
	}
	proxy.Demand("Basic of somebody else")
	if out, said := cert(s, 1, "test", "visa"); !strings.Contains(out+said, "failed") || !strings.Contains(said, "Proxy: ") {
		t.Errorf("a proxy that refuses: %s%s", out, said)
	}
}
