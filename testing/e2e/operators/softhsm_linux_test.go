package operators

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/keyhelper"
	"github.com/openthreeds/threeds/internal/base/porttest"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// A softHSM is a token of SoftHSM, and the helper in front of it.
type softHSM struct {
	t       *testing.T
	dir     string
	command []string // of the helper
}

const (
	hsmModule = "/usr/lib/softhsm/libsofthsm2.so"
	hsmPIN    = "482911"
)

// newSoftHSM makes a token, and builds the helper.
func newSoftHSM(t *testing.T) *softHSM {
	t.Helper()
	if os.Getenv("SOFTHSM") == "" {
		t.Skip("NOT TESTED: keys in SoftHSM: go -C testing run ./long softhsm does it")
	}
	h := &softHSM{t: t, dir: t.TempDir()}
	rig.Must(t, os.Mkdir(filepath.Join(h.dir, "tokens"), 0o700))
	rig.WriteFile(t, filepath.Join(h.dir, "softhsm2.conf"), []byte("directories.tokendir = "+h.dir+"/tokens\n"))
	rig.WriteFile(t, filepath.Join(h.dir, "pin"), []byte(hsmPIN+"\n"))
	t.Setenv("SOFTHSM2_CONF", filepath.Join(h.dir, "softhsm2.conf"))
	h.run("softhsm2-util", "--init-token", "--free", "--label", "threeds", "--so-pin", "123456", "--pin", hsmPIN)
	h.command = []string{filepath.Join(h.dir, "threeds-pkcs11"), "--module", hsmModule, "--token", "threeds", "--pin-file", filepath.Join(h.dir, "pin")}
	h.inModule("build", "-o", h.command[0], ".")
	return h
}

// inModule runs a command of go in the module of the helper.
func (h *softHSM) inModule(args ...string) {
	h.t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = filepath.Join(rig.DeployDir, "helpers", "pkcs11"), append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		h.t.Fatalf("go %q: %v\n%s", args, err, out)
	}
}

func (h *softHSM) run(name string, args ...string) string {
	h.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		h.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// do runs pkcs11-tool, logged in at the token.
func (h *softHSM) do(args ...string) {
	h.t.Helper()
	h.run("pkcs11-tool", append([]string{"--module", hsmModule, "--token-label", "threeds", "--login", "--pin", hsmPIN}, args...)...)
}

// addWrappingKey makes a key that wraps.
func (h *softHSM) addWrappingKey(label string) {
	h.t.Helper()
	h.do("--keygen", "--key-type", "AES:32", "--label", label, "--sensitive")
}

// addClientKey makes a key in the token, and its certificate for directories in a file.
func (h *softHSM) addClientKey(ca *rig.Authority, kind, label, file string) {
	h.t.Helper()
	h.do("--keypairgen", "--key-type", kind, "--label", label, "--usage-sign")
	request := h.run(h.command[0], append(h.command[1:], "--csr", label, "--cn", "3dss.example")...)
	block, _ := pem.Decode([]byte(request))
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	rig.Must(h.t, err)
	rig.Must(h.t, csr.CheckSignature())
	ca.Serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(ca.Serial), Subject: pkix.Name{CommonName: csr.Subject.CommonName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Cert, csr.PublicKey, ca.Key)
	rig.Must(h.t, err)
	rig.WriteFile(h.t, file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// command runs a command on a site, and returns what it says.
func command(t *testing.T, config string, args ...string) string {
	t.Helper()
	var out strings.Builder
	if code := rig.Run(t.Context(), append(args, "--config", config), strings.NewReader(""), &out, &out); code != 0 {
		t.Fatalf("%q: %d %s", args, code, out.String())
	}
	return out.String()
}

// keySecrets returns the secrets in the files of keys of a configuration.
func keySecrets(t *testing.T, file string) (all [][]byte) {
	t.Helper()
	c, err := config.Read(file)
	rig.Must(t, err)
	defer c.Helper.Close()
	for path, context := range map[string]string{c.Keys: keyring.Context, c.Journal.Keys: journal.KeysContext} {
		content, err := os.ReadFile(path)
		rig.Must(t, err)
		plain, err := c.Vault().Open(context, content)
		rig.Must(t, err)
		for _, text := range regexp.MustCompile(`[A-Za-z0-9+/]{43}=`).FindAllString(string(plain), -1) {
			secret, err := base64.StdEncoding.DecodeString(text)
			rig.Must(t, err)
			all = append(all, secret)
		}
	}
	return all
}

// filesWith returns which files below some directories have one of some secrets, and how many files there are.
func filesWith(t *testing.T, secrets [][]byte, dirs ...string) (found []string, files int) {
	t.Helper()
	for _, dir := range dirs {
		rig.Must(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			files++
			data, err := os.ReadFile(path)
			for _, secret := range secrets {
				for _, form := range [][]byte{secret, []byte(base64.StdEncoding.EncodeToString(secret)), []byte(hex.EncodeToString(secret))} {
					if bytes.Contains(data, form) {
						found = append(found, path)
					}
				}
			}
			return err
		}))
	}
	return found, files
}

// serveSite starts a server on a site, and waits until it is ready.
func serveSite(s *rig.Site) *rig.Process {
	s.T.Helper()
	proc := rig.Launch(s.T, []string{"GOTRACEBACK=crash"}, "serve", "--config", s.ConfigFile)
	s.Log = proc.Log
	waittest.Until(s.T, "the card ranges", func() bool { return s.Readiness() == `{"status":"ready"}` })
	return proc
}

// helperOf returns the process of the helper of a server.
func helperOf(t *testing.T, server int) int {
	t.Helper()
	children, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", server))
	rig.Must(t, err)
	for _, file := range children {
		text, err := os.ReadFile(file)
		rig.Must(t, err)
		if fields := strings.Fields(string(text)); len(fields) > 0 {
			pid, err := strconv.Atoi(fields[0])
			rig.Must(t, err)
			return pid
		}
	}
	t.Fatal("the server has no helper")
	return 0
}

// TestSoftHSM: with its keys in an HSM a server starts, shows directories a certificate whose key is there, rotates all
// of these keys, and is restored from a backup. No file, backup or core dump has a secret, and the helper may die.
func TestSoftHSM(t *testing.T) {
	h := newSoftHSM(t)
	ca := rig.NewAuthority(t)
	h.addWrappingKey("wrap-1")
	ds := rig.NewWire(t, ca)
	edit := func(file, was, is string) {
		t.Helper()
		text, err := os.ReadFile(file)
		rig.Must(t, err)
		if !strings.Contains(string(text), was) {
			t.Fatalf("%s has no %s", file, was)
		}
		rig.WriteFile(t, file, []byte(strings.ReplaceAll(string(text), was, is)))
	}
	dir := t.TempDir()
	s := &rig.Site{World: &rig.World{T: t}, Directory: ds, Authority: ca, ConfigFile: filepath.Join(dir, "threeds.yaml")}
	text := s.WriteConfiguration(dir, rig.Plan{
		Sections: fmt.Sprintf("key_helper: {command: [%s], wrapping_key: wrap-1, timeout: 1m}\n", strings.Join(h.command, ", ")),
	})
	addresses := porttest.Addresses(t, strings.Count(text, "127.0.0.1:0"))
	for _, address := range addresses {
		text = strings.Replace(text, "127.0.0.1:0", address, 1)
	}
	s.API, s.ConsoleURL = "http://"+addresses[0], "http://"+addresses[2]
	rig.WriteFile(t, s.ConfigFile, []byte(strings.Replace(text, "key: client-key.pem", "key: helper:visa-1", 1)))
	h.addClientKey(ca, "EC:prime256v1", "visa-1", filepath.Join(dir, "client.pem"))
	h.addClientKey(ca, "rsa:2048", "visa-2", filepath.Join(dir, "client-2.pem"))
	rig.Must(t, os.Remove(filepath.Join(dir, "client-key.pem")))
	s.CreateFirstKeys()
	proc := serveSite(s)
	signed := func() float64 { return s.Metric(`threeds_key_helper_requests_total{verb="sign"}`) }
	s.WantAuthentication()
	if signed() == 0 {
		t.Error("no handshake was signed by the helper")
	}

	// The key of the client certificate, from ECDSA to RSA.
	before := signed()
	edit(s.ConfigFile, "cert: client.pem, key: helper:visa-1", "cert: client-2.pem, key: helper:visa-2")
	rig.Must(t, proc.Cmd.Process.Signal(syscall.SIGHUP))
	waittest.Until(t, "a handshake with the other key", func() bool {
		s.WantAuthentication()
		return s.Metric(rig.ReloadApplied) >= 1 && signed() > before
	})

	// The key that is not in use any more may be removed.
	for _, kind := range []string{"privkey", "pubkey"} {
		h.do("--delete-object", "--type", kind, "--label", "visa-1")
	}
	metrics := s.Metrics()
	if _, isThere := metrics[`threeds_key_helper_key_up{key="visa-1"}`]; isThere ||
		metrics[`threeds_key_helper_key_up{key="visa-2"}`] != 1 || metrics[`threeds_key_helper_key_up{key="wrap-1"}`] != 1 {
		t.Errorf("/metrics has the keys of the helper as %v", metrics)
	}

	// The secret of the key file, and then the key that wraps it.
	secrets, id := keySecrets(t, s.ConfigFile), s.Identity().KeyFile.Current
	if said := command(t, s.ConfigFile, "key", "rotate"); !strings.Contains(said, "confirmed by all 1 nodes") || s.Identity().KeyFile.Current == id {
		t.Errorf("key rotate says %s", said)
	}
	secrets = append(secrets, keySecrets(t, s.ConfigFile)...)

	// What kills the helper is noticed, and repaired.
	starts := s.Metric("threeds_key_helper_starts_total")
	rig.Must(t, syscall.Kill(helperOf(t, proc.Cmd.Process.Pid), syscall.SIGKILL))
	waittest.Until(t, "the helper to be started again", func() bool {
		return s.Metric("threeds_key_helper_starts_total") > starts && s.Metric("threeds_key_helper_up") == 1
	})
	for _, pid := range []int{proc.Cmd.Process.Pid, helperOf(t, proc.Cmd.Process.Pid)} {
		limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
		rig.Must(t, err)
		if !regexp.MustCompile(`(?m)^Max core file size +0 +0 `).Match(limits) {
			t.Errorf("process %d may leave a core dump:\n%s", pid, limits)
		}
	}

	// Another wrapping key: the old one is of no more use.
	proc.End(syscall.SIGTERM)
	h.addWrappingKey("wrap-2")
	edit(s.ConfigFile, "wrapping_key: wrap-1", "wrapping_key: wrap-2")
	if said := command(t, s.ConfigFile, "key", "wrap"); strings.Count(said, "is now wrapped by the key wrap-2") != 2 {
		t.Errorf("key wrap says %s", said)
	}
	h.do("--delete-object", "--type", "secrkey", "--label", "wrap-1")
	backup := filepath.Join(dir, "backup")
	if said := command(t, s.ConfigFile, "backup", backup); strings.Contains(said, "warning") {
		t.Errorf("backup says %s", said)
	}

	// On another machine: the backup, the wrapped files, and the HSM.
	other := t.TempDir()
	rig.Must(t, os.CopyFS(other, os.DirFS(dir)))
	rig.Must(t, os.RemoveAll(filepath.Join(other, "data")))
	rig.Must(t, os.Mkdir(filepath.Join(other, "data"), 0o700))
	for _, name := range []string{"keys.json", "journal-keys.json"} {
		data, err := os.ReadFile(filepath.Join(dir, "data", name))
		rig.Must(t, err)
		rig.WriteFile(t, filepath.Join(other, "data", name), data)
	}
	second := *s
	second.ConfigFile = filepath.Join(other, "threeds.yaml")
	if said := command(t, second.ConfigFile, "restore", backup); !strings.Contains(said, "restored: 2 API keys") {
		t.Errorf("restore says %s", said)
	}
	proc = serveSite(&second)
	second.WantAuthentication()

	// A crash leaves none of it.
	secrets = append(secrets, keySecrets(t, second.ConfigFile)...)
	_ = proc.Cmd.Process.Signal(syscall.SIGABRT)
	<-proc.Exited
	if found, files := filesWith(t, secrets, dir, other, h.dir, "."); len(found) > 0 || files < 20 || len(secrets) < 9 {
		t.Errorf("of %d secrets %q have one, of %d files", len(secrets), found, files)
	}
	if found, _ := filesWith(t, [][]byte{[]byte("wrapped_by")}, dir); len(found) != 2 {
		t.Errorf("the search finds what is there in %q", found)
	}
}

// TestSoftHSMWrongPINIsTriedOnce: the helper logs in once, and answers all requests with what to do. Its own tests hold.
func TestSoftHSMWrongPINIsTriedOnce(t *testing.T) {
	h := newSoftHSM(t)
	h.inModule("test", "-count=1", ".")
	rig.WriteFile(t, filepath.Join(h.dir, "pin"), []byte("482912\n"))
	helper := keyhelper.New(h.command, time.Minute)
	defer helper.Close()
	for range 5 {
		if _, err := helper.Signer("visa"); err == nil || !strings.Contains(err.Error(), "CKR_PIN_INCORRECT (the PIN is wrong: correct the file") {
			t.Errorf("with a wrong PIN: %v", err)
		}
	}
	if helper.Starts() != 1 {
		t.Errorf("%d processes have tried it", helper.Starts())
	}
}
