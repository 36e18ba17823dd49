package clientcert_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/peers/clientcert"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
	"github.com/openthreeds/threeds/internal/state/store/storetest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var start = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// A world is a service with a clock that is turned by hand.
type world struct {
	*clientcert.Service
	t       *testing.T
	ring    *keyring.Ring
	now     time.Time
	changes []string // what was recorded
}

func newWorld(t *testing.T) *world {
	t.Helper()
	ring, err := keyring.LoadOrCreate(filepath.Join(t.TempDir(), "keys.json"))
	must(t, err)
	w := &world{t: t, ring: ring, now: start}
	clock := func() time.Time { return w.now }
	w.Service = &clientcert.Service{Store: storetest.NewMemory(clock), Sealer: ring, Now: clock}
	return w
}

// record notes that a change is about to happen.
func (w *world) record(before, after clientcert.Status) error {
	w.changes = append(w.changes, fmt.Sprintf("%v > %v", subject(before.Current), subject(after.Current)))
	return nil
}

func subject(i *clientcert.Info) string {
	if i == nil {
		return "none"
	}
	return i.Subject
}

// A ca signs certificates.
type ca struct {
	cert *x509.Certificate
	key  crypto.Signer
}

var serial atomic.Int64 // of the last certificate

// sign returns a certificate for a key, signed by a CA; nil signs with self.
func sign(t *testing.T, by *ca, self crypto.Signer, public crypto.PublicKey, template x509.Certificate) *x509.Certificate {
	t.Helper()
	template.SerialNumber = big.NewInt(1000 + serial.Add(1))
	if template.NotBefore.IsZero() {
		template.NotBefore = start.Add(-time.Hour)
	}
	if template.NotAfter.IsZero() {
		template.NotAfter = start.Add(365 * 24 * time.Hour)
	}
	parent, key := &template, self
	if by != nil {
		parent, key = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, parent, public, key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return cert
}

func newCA(t *testing.T, name string, by *ca) *ca {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return &ca{sign(t, by, key, key.Public(), x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}), key}
}

func client(name string) x509.Certificate {
	return x509.Certificate{
		Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

func file(certs ...*x509.Certificate) (all []byte) {
	for _, c := range certs {
		all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	return all
}

// request makes a key of visa and returns its CSR.
func (w *world) request(spec clientcert.Spec) *x509.CertificateRequest {
	w.t.Helper()
	text, _, err := w.Request(w.t.Context(), "visa", spec, w.record)
	must(w.t, err)
	return parseCSR(w.t, text)
}

func parseCSR(t *testing.T, text []byte) *x509.CertificateRequest {
	t.Helper()
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(rest) > 0 {
		t.Fatalf("no CSR: %q", text)
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	must(t, err)
	must(t, csr.CheckSignature())
	return csr
}

// install makes a key, has it signed and installs the certificate.
func (w *world) install(root *ca, name string, at time.Time) {
	w.t.Helper()
	csr := w.request(clientcert.Spec{Curve: "P-256", Subject: "CN=" + name})
	_, err := w.Install(w.t.Context(), "visa", file(sign(w.t, root, nil, csr.PublicKey, client(name))), at, []*x509.Certificate{root.cert}, w.record)
	must(w.t, err)
}

// shown returns the name in the certificate that nodes show to visa.
func (w *world) shown() string {
	w.t.Helper()
	set, err := w.Load(w.t.Context(), nil)
	must(w.t, err)
	shown := set.InUse("visa", w.now)
	switch {
	case shown.Fault != "":
		return shown.Fault
	case shown.Certificate == nil:
		return "none"
	}
	if !shown.Certificate.PrivateKey.(crypto.Signer).Public().(interface{ Equal(crypto.PublicKey) bool }).Equal(shown.Certificate.Leaf.PublicKey) {
		w.t.Error("the key is that of another certificate")
	}
	return shown.Certificate.Leaf.Subject.CommonName
}

func (w *world) wantShown(want string) {
	w.t.Helper()
	if got := w.shown(); got != want {
		w.t.Errorf("nodes show %s, want %s", got, want)
	}
}

// TestD145RequestMakesTheKeyThatWasAskedFor: kind, length and subject are as said, and a host name
// is in the request too.
func TestD145RequestMakesTheKeyThatWasAskedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, test := range []struct {
		spec          clientcert.Spec
		key, name, id string
	}{
		{clientcert.Spec{Subject: "CN=3ds.example"}, "RSA 2048", "CN=3ds.example", "3ds.example"},
		{clientcert.Spec{Bits: 3072, Subject: "CN=Shop"}, "RSA 3072", "CN=Shop", ""},
		{clientcert.Spec{Curve: "P-384", Subject: `C=NL, O=Example\, Inc. , OU=a,OU=b,CN=3ds.example`}, "P-384",
			`CN=3ds.example,OU=a+OU=b,O=Example\, Inc.,C=NL`, "3ds.example"},
	} {
		csr := w.request(test.spec)
		status, err := w.Status(t.Context(), "visa")
		must(t, err)
		got := status.Requests[0]
		if got.Key != test.key || csr.Subject.String() != test.name || got.Subject != test.name || strings.Join(csr.DNSNames, " ") != test.id {
			t.Errorf("%+v: key %s of %s for %v, want %s of %s for %s", test.spec, got.Key, csr.Subject, csr.DNSNames, test.key, test.name, test.id)
		}
		if parseCSR(t, []byte(got.CSR)).Subject.String() != test.name {
			t.Error("the status has another CSR")
		}
	}
	for _, bad := range []clientcert.Spec{
		{Subject: "CN=a", Bits: 1024}, {Subject: "CN=a", Curve: "P-224"}, {Subject: "CN=a", Bits: 2048, Curve: "P-256"}, {Subject: ""}, {Subject: "O=a"},
		{Subject: "CN=a,X=b"}, {Subject: "CN=a,CN=b"}, {Subject: "CN"}, {Subject: "CN=a,C=NLD"}, {Subject: "CN=" + strings.Repeat("a", 65)}, {Subject: "CN=a\n"},
	} {
		_, _, err := w.Request(t.Context(), "visa", bad, w.record)
		if _, ok := errors.AsType[*clientcert.RefusalError](err); !ok {
			t.Errorf("%+v: %v, want a refusal", bad, err)
		}
	}
	if len(w.changes) != 3 {
		t.Errorf("%d changes are recorded, want 3", len(w.changes))
	}
}

// TestD145KeyIsSealed: neither the row nor a status has the key, and under another name the row does not open.
func TestD145KeyIsSealed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.install(newCA(t, "root", nil), "3ds.example", time.Time{})
	_, err := w.Activate(t.Context(), "visa", w.record)
	must(t, err)
	row, err := w.Store.Object(t.Context(), store.CertificateObjects, "visa")
	must(t, err)
	set, err := w.Load(t.Context(), nil)
	must(t, err)
	cert := set.InUse("visa", w.now).Certificate
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	must(t, err)
	status, err := w.Status(t.Context(), "visa")
	must(t, err)
	shown, err := json.Marshal(status)
	must(t, err)
	for _, form := range [][]byte{key, key[len(key)-40:], cert.Certificate[0]} {
		if bytes.Contains(row.Data, form) || bytes.Contains(shown, form) {
			t.Error("the row or the status has the key or the certificate in the clear")
		}
	}
	row.ID = "mastercard"
	must(t, w.Store.AddObject(t.Context(), row))
	set, err = w.Load(t.Context(), set)
	must(t, err)
	if shown := set.InUse("mastercard", w.now); shown.Fault == "" || shown.Certificate != nil {
		t.Errorf("the row of another directory: %+v", shown)
	}
	if status, err := w.Status(t.Context(), "mastercard"); err != nil || !status.IsRefused {
		t.Errorf("status %+v, %v, want refused", status, err)
	}
}

// TestD145InstallRefuses: a wrong key, chain, usage or date is refused with its rule; nothing changes, and nothing is
// recorded.
func TestD145InstallRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root, other := newCA(t, "root", nil), newCA(t, "other root", nil)
	middle := newCA(t, "middle", root)
	csr := w.request(clientcert.Spec{Curve: "P-256", Subject: "CN=3ds.example"})
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	leaf := func(by *ca, change func(*x509.Certificate)) *x509.Certificate {
		template := client("3ds.example")
		if change != nil {
			change(&template)
		}
		return sign(t, by, nil, csr.PublicKey, template)
	}
	noChange := func(*x509.Certificate) {}
	oldCA := sign(t, root, nil, middle.key.Public(), x509.Certificate{
		Subject: middle.cert.Subject, IsCA: true, BasicConstraintsValid: true, NotBefore: start.Add(-9 * time.Hour), NotAfter: start.Add(-time.Hour),
	})
	key, err := x509.MarshalPKCS8PrivateKey(stranger)
	must(t, err)
	before, err := w.Status(t.Context(), "visa")
	must(t, err)
	w.changes = nil
	for _, test := range []struct {
		name, rule string
		file       []byte
		at         time.Time
	}{
		{"another key", "key", file(sign(t, root, nil, stranger.Public(), client("3ds.example"))), time.Time{}},
		{"another root", "chain", file(leaf(other, noChange)), time.Time{}},
		{"a CA is missing", "chain", file(leaf(middle, noChange)), time.Time{}},
		{"the CA of another", "chain", file(leaf(root, noChange), other.cert), time.Time{}},
		{"order", "chain", file(leaf(middle, noChange), root.cert, middle.cert), time.Time{}},
		{"CA first", "key", file(middle.cert, leaf(middle, noChange)), time.Time{}},
		{"CA has expired", "dates", file(leaf(middle, noChange), oldCA), time.Time{}},
		{"server", "usage", file(leaf(root, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })), time.Time{}},
		{"may not sign", "usage", file(leaf(root, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyEncipherment })), time.Time{}},
		{"is a CA", "usage", file(leaf(root, func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true })), time.Time{}},
		{"has expired", "dates",
			file(leaf(root, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = start.Add(-2*time.Hour), start.Add(-time.Hour) })), time.Time{}},
		{"not valid yet", "dates", file(leaf(root, func(c *x509.Certificate) { c.NotBefore = start.Add(time.Hour) })), time.Time{}},
		{"not valid at the time", "dates", file(leaf(root, func(c *x509.Certificate) { c.NotBefore = start.Add(2 * time.Hour) })), start.Add(time.Hour)},
		{"expired at the time", "dates", file(leaf(root, func(c *x509.Certificate) { c.NotAfter = start.Add(time.Hour) })), start.Add(2 * time.Hour)},
		{"time is over", "time", file(leaf(root, noChange)), start},
		{"nothing", "file", nil, time.Time{}},
		{"no PEM", "file", leaf(root, noChange).Raw, time.Time{}},
		{"damaged", "file", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), time.Time{}},
		{"a key", "file", append(file(leaf(root, noChange)), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...), time.Time{}},
		{"too many", "file", file(slices.Repeat([]*x509.Certificate{root.cert}, 11)...), time.Time{}},
		{"too long", "file", bytes.Repeat([]byte("\n"), 65<<10), time.Time{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := w.Install(t.Context(), "visa", test.file, test.at, []*x509.Certificate{root.cert}, w.record)
			refusal, ok := errors.AsType[*clientcert.RefusalError](err)
			if !ok || refusal.Rule != test.rule {
				t.Errorf("Install: %v, want a refusal by the rule %s", err, test.rule)
			}
			t.Log(err)
		})
	}
	after, err := w.Status(t.Context(), "visa")
	if err != nil || fmt.Sprint(after) != fmt.Sprint(before) || len(w.changes) > 0 {
		t.Errorf("after refusals the status is %+v, %v, and %v is recorded", after, err, w.changes)
	}
	for _, good := range [][]byte{
		file(leaf(root, noChange)), file(leaf(middle, noChange), middle.cert), file(leaf(middle, noChange), middle.cert, root.cert),
	} {
		if _, err := w.Install(t.Context(), "visa", good, time.Time{}, []*x509.Certificate{root.cert}, w.record); err != nil {
			t.Errorf("a good chain: %v", err)
		}
	}
	if _, err := w.Install(t.Context(), "visa", file(leaf(other, noChange), other.cert), time.Time{}, nil, w.record); err != nil {
		t.Errorf("a chain that ends in a root of the file: %v", err)
	}
}

// TestD145ChangeOver: an installed certificate waits, one with a time comes into use at that time, and the way back
// goes to the one before.
func TestD145ChangeOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := newCA(t, "root", nil)
	w.wantShown("none")
	w.install(root, "a", time.Time{})
	w.wantShown("none")
	_, err := w.Activate(t.Context(), "visa", w.record)
	must(t, err)
	w.wantShown("a")
	w.install(root, "b", start.Add(time.Hour))
	w.now = start.Add(time.Hour - time.Millisecond)
	w.wantShown("a")
	w.now = start.Add(time.Hour)
	w.wantShown("b")
	status, err := w.Status(t.Context(), "visa")
	if err != nil || status.Next != nil || !status.At.IsZero() || subject(status.Previous) != "CN=a" || !status.Current.Since.Equal(w.now) {
		t.Errorf("status %+v, %v", status, err)
	}
	w.install(root, "c", start.Add(2*time.Hour))
	_, err = w.Rollback(t.Context(), "visa", w.record)
	must(t, err)
	w.wantShown("a")
	w.now = start.Add(3 * time.Hour)
	w.wantShown("a") // the plan was called off
	_, err = w.Rollback(t.Context(), "visa", w.record)
	must(t, err)
	w.wantShown("b")
	_, err = w.Activate(t.Context(), "visa", w.record)
	must(t, err)
	w.wantShown("c")
	_, err = w.Rollback(t.Context(), "visa", w.record)
	must(t, err)
	w.wantShown("b")
}

// TestD145ChangesThatCannotBe: without a certificate to change to, or with one that is not valid, nothing changes
// and nothing is recorded.
func TestD145ChangesThatCannotBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := newCA(t, "root", nil)
	want := func(what, rule string, err error) {
		t.Helper()
		if refusal, ok := errors.AsType[*clientcert.RefusalError](err); !ok || refusal.Rule != rule {
			t.Errorf("%s: %v, want a refusal by the rule %s", what, err, rule)
		}
	}
	_, err := w.Activate(t.Context(), "visa", w.record)
	want("Activate", "state", err)
	_, err = w.Rollback(t.Context(), "visa", w.record)
	want("Rollback", "state", err)
	_, _, err = w.Candidate(t.Context(), "visa")
	want("Candidate", "state", err)
	w.install(root, "a", time.Time{})
	_, err = w.Activate(t.Context(), "visa", w.record)
	must(t, err)
	_, err = w.Rollback(t.Context(), "visa", w.record)
	want("Rollback of the first", "state", err)
	w.install(root, "b", time.Time{})
	if cert, what, err := w.Candidate(t.Context(), "visa"); err != nil || what != "next" || cert.Leaf.Subject.CommonName != "b" {
		t.Errorf("Candidate is %s, %v", what, err)
	}
	w.changes = nil
	w.now = start.Add(366 * 24 * time.Hour)
	_, err = w.Activate(t.Context(), "visa", w.record)
	want("Activate of an expired one", "dates", err)
	w.now = start
	_, err = w.Activate(t.Context(), "visa", func(_, _ clientcert.Status) error { return errors.New("audit trail is away") })
	if err == nil || w.shown() != "a" {
		t.Errorf("a change that could not be recorded: %v, and %s is shown", err, w.shown())
	}
	if len(w.changes) > 0 {
		t.Errorf("recorded are %v", w.changes)
	}
}

// TestD145ChangesAtOnce: of two who activate at once, one does, and each change that is recorded has happened.
func TestD145ChangesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.install(newCA(t, "root", nil), "a", time.Time{})
	var recorded, done int
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			_, err := w.Activate(t.Context(), "visa", func(_, _ clientcert.Status) error {
				mu.Lock()
				defer mu.Unlock()
				recorded++
				return nil
			})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				done++
			}
		})
	}
	group.Wait()
	if recorded != 1 || done != 1 {
		t.Errorf("%d were recorded and %d done, want 1 and 1", recorded, done)
	}
}

// TestRequestsWaitTogether: a second request does not end the first; of five the four newest wait.
func TestRequestsWaitTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := newCA(t, "root", nil)
	var all []*x509.CertificateRequest
	for range 5 {
		all = append(all, w.request(clientcert.Spec{Curve: "P-256", Subject: "CN=a"}))
	}
	_, err := w.Install(t.Context(), "visa", file(sign(t, root, nil, all[0].PublicKey, client("a"))), time.Time{}, []*x509.Certificate{root.cert}, w.record)
	if refusal, ok := errors.AsType[*clientcert.RefusalError](err); !ok || refusal.Rule != "key" {
		t.Errorf("the oldest of five: %v", err)
	}
	_, err = w.Install(t.Context(), "visa", file(sign(t, root, nil, all[1].PublicKey, client("a"))), time.Time{}, []*x509.Certificate{root.cert}, w.record)
	must(t, err)
	status, err := w.Status(t.Context(), "visa")
	if err != nil || len(status.Requests) != 3 || status.Next == nil {
		t.Errorf("%d keys wait, %v, want 3", len(status.Requests), err)
	}
}

// TestSetOutlivesTheStore: what was read changes over in time without the store, and a row that does not open any more
// leaves in use what was.
func TestSetOutlivesTheStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root := newCA(t, "root", nil)
	w.install(root, "a", start.Add(time.Minute))
	set, err := w.Load(t.Context(), nil)
	must(t, err)
	want := func(name string, now time.Time) {
		t.Helper()
		if shown := set.InUse("visa", now); shown.Certificate == nil || shown.Certificate.Leaf.Subject.CommonName != name {
			t.Errorf("shown is %+v, want %s", shown, name)
		}
	}
	want("a", start.Add(time.Minute))
	w.now = start.Add(time.Hour)
	w.install(root, "b", start.Add(2*time.Hour))
	set, err = w.Load(t.Context(), set)
	must(t, err)
	want("a", start.Add(time.Hour))
	want("b", start.Add(2*time.Hour))
	row, err := w.Store.Object(t.Context(), store.CertificateObjects, "visa")
	must(t, err)
	must(t, w.Store.ChangeObject(t.Context(), store.Object{Kind: row.Kind, ID: row.ID, Data: []byte("x")}, row.Data))
	set, err = w.Load(t.Context(), set)
	must(t, err)
	want("a", start.Add(time.Hour))
	if set.InUse("visa", start).Fault == "" {
		t.Error("a row that does not open is no fault")
	}
	must(t, w.Store.ChangeObject(t.Context(), row, []byte("x")))
	set, err = w.Load(t.Context(), set)
	must(t, err)
	want("a", start.Add(time.Hour))
	if fault := set.InUse("visa", start).Fault; fault != "" {
		t.Error(fault)
	}
}

// TestResealKeepsWhatIsInUse: after a rotation the row is sealed under the new secret, and the same is shown.
func TestResealKeepsWhatIsInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.install(newCA(t, "root", nil), "a", time.Time{})
	_, err := w.Activate(t.Context(), "visa", w.record)
	must(t, err)
	handover, err := w.ring.NewHandover(nil)
	must(t, err)
	ring, err := w.ring.Follow(&handover)
	must(t, err)
	sealed, refused, err := clientcert.Reseal(t.Context(), w.Store, ring)
	if err != nil || sealed != 1 || refused != 0 {
		t.Errorf("Reseal: %d, %d, %v", sealed, refused, err)
	}
	row, err := w.Store.Object(t.Context(), store.CertificateObjects, "visa")
	must(t, err)
	if ring.IsSealedByPrevious(row.Data) || keyring.IDOfSeal(row.Data) != handover.ID {
		t.Error("the row is sealed under the former secret")
	}
	w.Sealer = ring
	w.wantShown("a")
}

// FuzzParseSubject: whatever is read can be written and read again.
func FuzzParseSubject(f *testing.F) {
	for _, seed := range []string{"CN=a", `C=NL,O=Example\, Inc.,CN=3ds.example`, `CN=a\\,OU=b`, "CN=a,", `CN=\`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, err := clientcert.ParseSubject(text)
		if err != nil {
			return
		}
		whole, err := clientcert.ParseSubject(name.String())
		if err != nil || whole.String() != name.String() {
			t.Errorf("%q: %q, %v, want %q", text, whole.String(), err, name.String())
		}
		again, err := clientcert.ParseSubject("CN=" + clientcert.EscapeSubject(name.CommonName))
		if err != nil || again.CommonName != name.CommonName {
			t.Errorf("%q: %q, %v", text, again.CommonName, err)
		}
	})
}
