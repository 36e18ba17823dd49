package keyhelper_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/keyhelper"
	"github.com/openthreeds/threeds/internal/base/keyhelper/keyhelpertest"
	"github.com/openthreeds/threeds/internal/base/waittest"
)

// patience is longer than a helper takes on a busy machine.
const patience = time.Minute

func newHelper(t *testing.T, timeout time.Duration) (*keyhelper.Helper, *keyhelpertest.Fake) {
	fake := keyhelpertest.New(t)
	fake.AddWrappingKey("wrapping")
	h := keyhelper.New(fake.Command(), timeout)
	t.Cleanup(h.Close)
	return h, fake
}

func wantError(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %q", texts)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q lacks %q", err, text)
		}
	}
}

// TestK1WrappedKeyOpensOnlyInItsContext: what is wrapped is unwrapped for the same label and context, by another
// process too, and for no others.
func TestK1WrappedKeyOpensOnlyInItsContext(t *testing.T) {
	h, fake := newHelper(t, patience)
	fake.AddWrappingKey("other")
	key := bytes.Repeat([]byte{7}, 32)
	wrapped, err := h.Wrap("wrapping", key, "keys.json")
	if err != nil || bytes.Contains(wrapped, key) {
		t.Fatalf("wrapped as %x, %v", wrapped, err)
	}
	second := keyhelper.New(fake.Command(), patience)
	defer second.Close()
	if got, err := second.Unwrap("wrapping", wrapped, "keys.json"); err != nil || !bytes.Equal(got, key) {
		t.Errorf("unwrapped as %x, %v", got, err)
	}
	_, err = h.Unwrap("wrapping", wrapped, "other.json")
	wantError(t, err, "key helper ", `unwrap with key "wrapping"`)
	_, err = h.Unwrap("other", wrapped, "keys.json")
	wantError(t, err, `unwrap with key "other"`)
	_, err = h.Wrap("absent", key, "keys.json")
	wantError(t, err, `wrap with key "absent": no such key`)
	if c := h.Counts(keyhelper.Unwrap); c.All != 2 || c.Failed != 2 || second.Counts(keyhelper.Unwrap).All != 1 {
		t.Errorf("counted %+v", c)
	}
}

// TestK2HandshakesAreSignedByTheHelper: RSA and ECDSA keys of a helper serve TLS 1.2 and 1.3, also many at a time.
func TestK2HandshakesAreSignedByTheHelper(t *testing.T) {
	h, fake := newHelper(t, patience)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for label, key := range map[string]crypto.Signer{"rsa": rsaKey, "ec": ecKey, "p256": fake.AddKey("p256")} {
		fake.AddPrivateKey(label, key)
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: label}, NotAfter: time.Now().Add(time.Hour),
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		signer, err := h.Signer(label)
		if err != nil {
			t.Fatal(err)
		}
		cert := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: signer}
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			all.Go(func() { shakeHands(t, cert, version) })
		}
		if _, err := signer.Sign(rand.Reader, make([]byte, 20), crypto.SHA256); err == nil {
			t.Error("a digest of the wrong length is signed")
		}
	}
	all.Wait()
	if h.Starts() != 1 || h.Counts(keyhelper.Sign).All != 6 {
		t.Errorf("%d starts, signatures: %+v", h.Starts(), h.Counts(keyhelper.Sign))
	}
}

// shakeHands makes a connection on which both sides show a certificate.
func shakeHands(t *testing.T, cert tls.Certificate, version uint16) {
	c := &tls.Config{
		Certificates: []tls.Certificate{cert}, MinVersion: version, MaxVersion: version, ClientAuth: tls.RequireAnyClientCert,
		InsecureSkipVerify: true,
	}
	if version == tls.VersionTLS12 { // PKCS #1 as well, on the side of the client
		c.Certificates[0].SupportedSignatureAlgorithms = []tls.SignatureScheme{
			tls.PKCS1WithSHA256, tls.ECDSAWithP256AndSHA256, tls.ECDSAWithP384AndSHA384,
		}
	}
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Error(err)
		return
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, own.Public(), own)
	if err != nil {
		t.Error(err)
		return
	}
	server := c.Clone()
	server.Certificates = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: own}}
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	failed := make(chan error, 1)
	go func() { failed <- tls.Client(a, c).Handshake() }()
	if err := tls.Server(b, server).Handshake(); err != nil {
		t.Errorf("%s of TLS %x: %v", cert.Certificate[0][:4], version, err)
		return
	}
	if err := <-failed; err != nil {
		t.Errorf("TLS %x: %v", version, err)
	}
}

// TestK3HelperIsStartedAgainWhenItDies: a request during which the process ends is answered by the next one. Watch
// starts a process that has ended again before anybody asks, and Problem says so as long as that fails.
func TestK3HelperIsStartedAgainWhenItDies(t *testing.T) {
	h, fake := newHelper(t, patience)
	key := make([]byte, 32)
	wrapped, err := h.Wrap("wrapping", key, "x")
	if err != nil {
		t.Fatal(err)
	}
	fake.Break(keyhelpertest.Die)
	if _, err := h.Unwrap("wrapping", wrapped, "x"); err != nil || h.Starts() != 2 || h.Problem() != "" {
		t.Errorf("%v, %d starts, problem %q", err, h.Starts(), h.Problem())
	}
	fake.Break(keyhelpertest.Dead)
	_, err = h.Unwrap("wrapping", wrapped, "x")
	wantError(t, err, `unwrap with key "wrapping"`, "exit status 3", "the token is gone")
	if !strings.Contains(h.Problem(), "exit status 3") {
		t.Errorf("problem %q", h.Problem())
	}
	ctx, stop := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() { h.Watch(ctx) })
	defer watch.Wait()
	defer stop()
	fake.Break("")
	waittest.Until(t, "the helper to be started again", func() bool { return h.Problem() == "" })
}

// TestK4BadHelperIsSaid: errors name the helper, the verb and the key, and neither arguments of the command nor data. A
// process that does not answer, or not in the protocol, is ended, and the next one is asked again.
func TestK4BadHelperIsSaid(t *testing.T) {
	secret := bytes.Repeat([]byte("s3cret"), 5)
	for fault, texts := range map[string][]string{
		keyhelpertest.Hang:    {"no answer within"},
		keyhelpertest.Garbage: {"a line that is no answer"},
		keyhelpertest.Refuse:  {"CKR_DEVICE_ERROR"},
		keyhelpertest.Dead:    {"exit status 3"},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			timeout := patience
			if fault == keyhelpertest.Hang {
				timeout = 50 * time.Millisecond
			}
			h, fake := newHelper(t, timeout)
			fake.Break(fault)
			_, err := h.Wrap("wrapping", secret, "x")
			wantError(t, err, append(texts, "key helper keyhelper.test: ", `wrap with key "wrapping"`)...)
			if err != nil && (strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), fake.Command()[2])) {
				t.Errorf("the error shows a secret or an argument: %v", err)
			}
			if h.Problem() == "" {
				t.Error("no problem")
			}
			fake.Break("")
			if fault != keyhelpertest.Hang { // whose time may be too short on a busy machine
				waittest.Until(t, "the helper to answer", func() bool {
					_, err := h.Wrap("wrapping", secret, "x")
					return err == nil && h.Problem() == ""
				})
			}
		})
	}
	h := keyhelper.New([]string{"/nonexistent/helper", "--pin", "1234"}, patience)
	_, err := h.Wrap("wrapping", secret, "x")
	wantError(t, err, "key helper helper: ", "cannot be started")
	if strings.Contains(err.Error(), "1234") {
		t.Errorf("the error shows an argument: %v", err)
	}
}

// needProgram skips a test whose program is missing. In CI that is a failure.
func needProgram(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("there is no program %s", name)
	}
	t.Skipf("NOT TESTED: there is no program %s", name)
}

// TestK7ChildThatKeepsTheOutputHoldsNothingUp: a helper may have started what does not end with it, and has the same
// output. Requests and the end of the server do not wait for that.
func TestK7ChildThatKeepsTheOutputHoldsNothingUp(t *testing.T) {
	needProgram(t, "setsid")
	alive := filepath.Join(t.TempDir(), "alive")
	if err := os.WriteFile(alive, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(alive) })
	const child = `while [ -e "$0" ]; do sleep 0.1; done`
	const helper = `setsid sh -c '` + child + `' "$0" </dev/null 2>/dev/null & exec cat >/dev/null`
	h := keyhelper.New([]string{"/bin/sh", "-c", helper, alive}, 50*time.Millisecond)
	_, err := h.Wrap("wrapping", make([]byte, 32), "x")
	wantError(t, err, "no answer within")
	h.Close()
}

// TestK5SignatureThatIsNotValidIsRefused: what a helper signs wrongly leaves no connection.
func TestK5SignatureThatIsNotValidIsRefused(t *testing.T) {
	h, fake := newHelper(t, patience)
	fake.AddKey("client")
	signer, err := h.Signer("client")
	if err != nil {
		t.Fatal(err)
	}
	fake.Break(keyhelpertest.Forge)
	_, err = signer.Sign(rand.Reader, make([]byte, 32), crypto.SHA256)
	wantError(t, err, `sign with key "client": the signature is not valid`)
	h.Close()
	_, err = signer.Sign(rand.Reader, make([]byte, 32), crypto.SHA256)
	wantError(t, err, `sign with key "client"`, "is ending")
}

// TestK9BrokenKeyIsNamed: one key that fails is said by its label until it works, whatever other keys do. A key that is
// not in use any more is not missed.
func TestK9BrokenKeyIsNamed(t *testing.T) {
	h, fake := newHelper(t, patience)
	fake.AddKey("visa")
	fake.AddKey("mastercard")
	for _, label := range []string{"visa", "mastercard"} {
		if _, err := h.Signer(label); err != nil {
			t.Fatal(err)
		}
	}
	wrapped, err := h.Wrap("wrapping", make([]byte, 32), "x")
	if err != nil {
		t.Fatal(err)
	}
	unwrap := func() {
		t.Helper()
		if _, err := h.Unwrap("wrapping", wrapped, "x"); err != nil {
			t.Error(err)
		}
	}
	unwrap()
	fake.Remove("visa")
	if _, err := h.Signer("visa"); err == nil {
		t.Error("a key that is gone answers")
	}
	unwrap()
	if got := h.Keys(); h.Problem() != `key helper keyhelper.test: public with key "visa": no such key` ||
		got["visa"] || !got["mastercard"] || !got["wrapping"] || len(got) != 3 {
		t.Errorf("problem %q, keys %v", h.Problem(), got)
	}
	fake.Remove("mastercard")
	if _, err := h.Signer("mastercard"); err == nil || !strings.Contains(h.Problem(), `key "mastercard", public with key "visa": no such`) {
		t.Errorf("%v, problem %q", err, h.Problem())
	}
	h.Keep([]string{"wrapping", "mastercard"})
	if got := h.Keys(); strings.Contains(h.Problem(), "visa") || !strings.Contains(h.Problem(), "mastercard") || len(got) != 2 {
		t.Errorf("problem %q, keys %v", h.Problem(), got)
	}
	fake.AddKey("mastercard")
	ctx, stop := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	watch.Go(func() { h.Watch(ctx) })
	defer watch.Wait()
	defer stop()
	waittest.Until(t, "the key to be asked for again", func() bool { return h.Problem() == "" })
}

// TestK9BadSignatureIsAProblemOfItsKey: also while the helper says which public key it is.
func TestK9BadSignatureIsAProblemOfItsKey(t *testing.T) {
	h, fake := newHelper(t, patience)
	fake.AddKey("client")
	signer, err := h.Signer("client")
	if err != nil {
		t.Fatal(err)
	}
	fake.Break(keyhelpertest.Forge)
	_, err = signer.Sign(rand.Reader, make([]byte, 32), crypto.SHA256)
	wantError(t, err, "the signature is not valid")
	if _, err := h.Signer("client"); err != nil || h.Keys()["client"] ||
		!strings.HasSuffix(h.Problem(), `sign with key "client": the signature is not valid`) {
		t.Errorf("%v, problem %q", err, h.Problem())
	}
	fake.Break("")
	if _, err := signer.Sign(rand.Reader, make([]byte, 32), crypto.SHA256); err != nil || !h.Keys()["client"] || h.Problem() != "" {
		t.Errorf("%v, problem %q", err, h.Problem())
	}
}
