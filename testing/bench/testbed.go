package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/postgres"
	"github.com/openthreeds/threeds/internal/state/store/sqlite"
)

// A testbed is the program under test, as `threeds serve` in a process of its own,
// between a directory server and a load generator in two more.
type testbed struct {
	dir       string
	cmd       *exec.Cmd
	load      *child
	directory *child
	api       string     // address of the program's API
	console   string     // and of its console
	exited    chan error // gets the result of cmd.Wait
}

// apiKey is the key that all load is made with.
const apiKey = "b0b0b0b0-0000-4000-8000-000000000001"

// configuration of the program under test. Two settings are not the defaults: a limit per
// key that one key alone cannot reach, and a timeout for a directory server that is slow
// on purpose.
const configuration = `
api: {listen: %[1]s%[11]s}
results: {listen: %[2]s, url: "https://%[2]s/results", tls: {cert: results.pem, key: results-key.pem}}
console: {listen: %[3]s}
browser: {listen: %[9]s, url: "https://pay.bench.example"%[11]s}
store: {url: "%[7]s"}
keys: keys.json
limits: {per_key: 1000000/s%[8]s}
timeouts: {authentication: 60s}
%[10]s
server: {reference_number: 3DS_LOA_SER_BENCH_020200_00001, requestor_id: R1, requestor_name: Requestor}
directories:
  - scheme: visa
    areq_url: https://%[4]s/
    preq_url: https://%[4]s/
    versions: [%[5]s]
    %[6]s
    client_cert: {cert: server.pem, key: server-key.pem}
    server_ca: ca.pem
    client_ca: ca.pem
    client_names: [rreq.ds.example]
`

// A setup is how one testbed differs from another.
type setup struct {
	versions string               // spoken with the directory server
	refresh  string               // more configuration of the directory
	store    string               // URL of the database; empty: the embedded store
	limits   string               // more configuration of the limits, ", name: value"
	tls      string               // more configuration of the listeners of the API and of browsers; empty: they have no TLS
	journal  string               // configuration of the journal; empty: that of a server that says nothing
	env      []string             // more environment of the program under test
	before   func(*testbed) error // called before the program under test starts; may be nil
}

// newTestbed starts everything and waits until it is ready.
func newTestbed(ctx context.Context, b *bench, store string) (*testbed, error) {
	return newTestbedOf(ctx, b, setup{versions: "2.1.0, 2.2.0", store: store, limits: manyConns})
}

func newTestbedOf(ctx context.Context, b *bench, s setup) (w *testbed, err error) {
	w = new(testbed)
	defer func() {
		if err != nil {
			err = errors.Join(err, w.stop())
		}
	}()
	if w.dir, err = os.MkdirTemp(b.dir, "world-"); err != nil {
		return w, err
	}
	if w.load, err = startChild(ctx); err != nil {
		return w, err
	}
	if w.directory, err = startChild(ctx); err != nil {
		return w, err
	}
	peers, err := w.makeCertificates(ctx, s.tls != "")
	if err != nil {
		return w, err
	}
	for _, address := range []*string{&peers.API, &peers.Results, &peers.Browser, &w.console} {
		if *address, err = freeAddress(ctx); err != nil {
			return w, err
		}
	}
	w.api = peers.API
	text := fmt.Sprintf(configuration, peers.API, peers.Results, w.console, peers.Directory, s.versions, s.refresh,
		cmp.Or(s.store, "file:data"), s.limits, peers.Browser, s.journal, s.tls)
	if err := os.WriteFile(filepath.Join(w.dir, "threeds.yaml"), []byte(text), 0o600); err != nil {
		return w, err
	}
	if err := w.prepare(ctx, s.store); err != nil {
		return w, err
	}
	if s.before != nil {
		if err := s.before(w); err != nil {
			return w, err
		}
	}
	if err := w.serve(ctx, b.threeds, s.env); err != nil {
		return w, err
	}
	return w, w.ask(ctx, "Load.SetPeers", peers, new(int))
}

// makeCertificates makes all certificates. The program gets its own as files, and the directory
// server with its own begins to listen.
func (w *testbed) makeCertificates(ctx context.Context, hasTLS bool) (Peers, error) {
	ca, err := newAuthority()
	if err != nil {
		return Peers{}, err
	}
	issued := make(map[string]Certificate)
	for name, host := range map[string]string{
		"results": "results.example", "server": "3dss.example", "ds": "ds.example", "rreq": "rreq.ds.example",
	} {
		if issued[name], err = ca.issue(host); err != nil {
			return Peers{}, err
		}
	}
	err = errors.Join(issued["results"].write(w.dir, "results"), issued["server"].write(w.dir, "server"),
		os.WriteFile(filepath.Join(w.dir, "ca.pem"), ca.pem(), 0o600))
	if err != nil {
		return Peers{}, err
	}
	p := Peers{HasTLS: hasTLS, Key: apiKey, CA: ca.pem(), AsServer: issued["server"], AsDirectory: issued["rreq"]}
	return p, w.directory.ask(ctx, "Directory.Listen", Open{ca.pem(), issued["ds"]}, &p.Directory)
}

func freeAddress(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// prepare makes the store, with a key of a merchant in it.
func (w *testbed) prepare(ctx context.Context, url string) error {
	var db store.Store
	var err error
	if url == "" {
		db, err = sqlite.Open(filepath.Join(w.dir, "data"), sqlite.Options{})
	} else {
		db, err = postgres.Open(ctx, url, postgres.Options{})
	}
	if err != nil {
		return err
	}
	return errors.Join(putKey(ctx, db, filepath.Join(w.dir, "keys.json")), db.Close())
}

// putKey makes a key file, and a merchant with [apiKey] in the store.
func putKey(ctx context.Context, db store.Store, file string) error {
	ring, err := keyring.LoadOrCreate(file)
	if err != nil {
		return err
	}
	return db.PutKey(ctx, account.NewRow(ring, apiKey, "Bench", false, account.Terms{}))
}

// serve starts the program under test and waits until it says that it is ready.
func (w *testbed) serve(ctx context.Context, program string, env []string) error {
	log, err := os.Create(filepath.Join(w.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	w.cmd = exec.CommandContext(ctx, program, "serve", "--config", filepath.Join(w.dir, "threeds.yaml"))
	w.cmd.Env = append(os.Environ(), env...)
	w.cmd.Stdout, w.cmd.Stderr = log, log
	endWithParent(w.cmd)
	if err := w.cmd.Start(); err != nil {
		w.cmd = nil
		return err
	}
	w.exited = make(chan error, 1)
	go func() { w.exited <- w.cmd.Wait() }()
	return poll(ctx, func() (bool, error) {
		select {
		case err := <-w.exited:
			w.exited <- err
			return false, fmt.Errorf("the server ended, %v: %s", err, w.endOfLog())
		default:
		}
		res, err := http.Get("http://" + w.console + "/readyz")
		if err != nil {
			return false, nil // not yet
		}
		return res.StatusCode == http.StatusOK, res.Body.Close()
	})
}

// poll asks every few milliseconds until the answer is yes.
func poll(ctx context.Context, done func() (bool, error)) error {
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// endOfLog are the end of the server's log.
func (w *testbed) endOfLog() []byte {
	data, err := os.ReadFile(filepath.Join(w.dir, "log"))
	if err != nil {
		return nil
	}
	return bytes.TrimSpace(data[max(0, len(data)-2000):])
}

// ask is ask of the load generator, with the server's last words when it fails.
func (w *testbed) ask(ctx context.Context, method string, args, reply any) error {
	if err := w.load.ask(ctx, method, args, reply); err != nil {
		return fmt.Errorf("%w; the end of the server's log:\n%s", err, w.endOfLog())
	}
	return nil
}

// stop ends all processes, the program under test in good order, and removes their files.
func (w *testbed) stop() error {
	var errs []error
	if w.load != nil {
		errs = append(errs, w.load.stop())
	}
	if w.cmd != nil {
		errs = append(errs, end(w.cmd, w.exited))
	}
	if w.directory != nil {
		errs = append(errs, w.directory.stop())
	}
	return errors.Join(append(errs, os.RemoveAll(w.dir))...)
}

// end sends a program SIGTERM, waits until it has ended, and kills it after 20 seconds.
func end(cmd *exec.Cmd, exited <-chan error) error {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case err := <-exited:
		return err
	case <-time.After(20 * time.Second):
		return errors.Join(errors.New("the program did not end when asked"), cmd.Process.Kill(), <-exited)
	}
}

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
