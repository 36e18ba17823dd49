package config

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/keyfile"
	"github.com/openthreeds/threeds/internal/base/keyhelper/keyhelpertest"
)

// helperConfig writes the configuration that names everything, whose client keys a helper holds under the label client.
// There is no file of that key.
func helperConfig(t *testing.T) (file string, fake *keyhelpertest.Fake) {
	t.Helper()
	dir, files := t.TempDir(), certificates(t)
	fake = keyhelpertest.New(t)
	pair, err := tls.X509KeyPair(files["client.pem"], files["client.key"])
	must(t, err)
	fake.AddPrivateKey("client", pair.PrivateKey.(crypto.Signer))
	for name, data := range files {
		if name != "client.key" {
			write(t, filepath.Join(dir, name), data)
		}
	}
	full, _ := fullConfig(t)
	for _, name := range []string{"visa.rules", "logo.svg", "acp.secret", "webhook.secret"} {
		write(t, filepath.Join(dir, name), contents(t, filepath.Join(filepath.Dir(full), name)))
	}
	file = filepath.Join(dir, "threeds.yaml")
	text := string(contents(t, full))
	_, section, _ := strings.Cut(text, "\nkey_helper: ")
	section, _, _ = strings.Cut(section, "\n")
	command := strings.Join(fake.Command(), `", "`)
	text = strings.Replace(text, section, fmt.Sprintf(`{command: ["%s"], timeout: 1m}`, command), 1)
	write(t, file, []byte(strings.ReplaceAll(text, "key: client.key", "key: helper:client")))
	return file, fake
}

// TestClientKeyIsHeldByTheHelper: a key that is named helper:LABEL signs, and there is no file of it. A key of another
// certificate, one that the helper lacks, and a helper that is not configured, or not by its path, are faults.
func TestClientKeyIsHeldByTheHelper(t *testing.T) {
	file, fake := helperConfig(t)
	c, _, err := Load(file, noon)
	must(t, err)
	defer c.Helper.Close()
	for _, pair := range []KeyPair{c.Directories[0].ClientCert, c.V1[0].ClientCert} {
		signer := pair.Certificate.PrivateKey.(crypto.Signer)
		if _, err := signer.Sign(rand.Reader, make([]byte, 32), crypto.SHA256); err != nil || pair.Certificate.Leaf.Subject.CommonName != "client" {
			t.Errorf("%v, for %v", err, pair.Certificate.Leaf.Subject)
		}
	}
	if c.Helper.Starts() != 1 {
		t.Errorf("%d processes", c.Helper.Starts())
	}
	fake.AddKey("stranger")
	text := string(contents(t, file))
	_, section, _ := strings.Cut(text, "\nkey_helper: ")
	section, _, _ = strings.Cut(section, "\n")
	for _, test := range []struct{ was, is, want string }{
		{"helper:client", "helper:stranger", "directories[0].client_cert.key: the key of the helper does not belong to the certificate"},
		{"helper:client", "helper:absent", `public with key "absent": no such key`},
		{"helper:client", "helper:", "client_cert.key: "},
		{"\nkey_helper: " + section, "", "names a key of a key helper, and there is none (set key_helper)"},
		{section, "{command: [threeds-pkcs11]}", "key_helper.command[0]: is not an absolute path"},
		{section, "{wrapping_key: a}", "key_helper.command: missing"},
		{section, "{command: [/nonexistent/helper, --pin, 123456]}", "the process cannot be started"},
	} {
		write(t, file, []byte(strings.ReplaceAll(text, test.was, test.is)))
		_, _, err := Load(file, noon)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "123456") {
			t.Errorf("%s: %v", test.is, err)
		}
	}
}

// TestReloadWithoutHelperKeepsKeys: while the helper does not answer, a reload keeps what is in use, and says which
// parts are degraded. The process stays the same, and another helper needs a restart.
func TestReloadWithoutHelperKeepsKeys(t *testing.T) {
	file, fake := helperConfig(t)
	c, _, err := Load(file, noon)
	must(t, err)
	defer c.Helper.Close()
	check := func(string) error { return nil }
	write(t, c.Keys, []byte("{}"))
	fake.Break(keyhelpertest.Refuse)
	next, _, err := c.Reload(file, noon, check)
	must(t, err)
	fault := next.Certificates.Faults(noon)["directory visa"]
	if !strings.Contains(fault, "CKR_DEVICE_ERROR; the previous file stays in use") || next.Helper != c.Helper ||
		next.Directories[0].ClientCert.Certificate.PrivateKey != c.Directories[0].ClientCert.Certificate.PrivateKey {
		t.Errorf("degraded by %q", fault)
	}
	fake.Break("")
	next, _, err = next.Reload(file, noon, check)
	must(t, err)
	if fault := next.Certificates.Faults(noon)["directory visa"]; strings.Contains(fault, "client_cert") || c.Helper.Starts() != 1 {
		t.Errorf("degraded by %q, after %d starts", fault, c.Helper.Starts())
	}
	write(t, file, []byte(strings.Replace(string(contents(t, file)), "timeout: 1m}", "timeout: 2s}", 1)))
	if _, _, err := next.Reload(file, noon, check); err == nil || !strings.Contains(err.Error(), "key_helper: cannot change in a running process") {
		t.Errorf("%v", err)
	}
}

// TestFileThatAnotherKeyWrapsIsAWarning: the file opens, and who removes the old key from the HSM loses it.
func TestFileThatAnotherKeyWrapsIsAWarning(t *testing.T) {
	file, fake := helperConfig(t)
	c, _, err := Load(file, noon)
	must(t, err)
	defer c.Helper.Close()
	fake.AddWrappingKey("first")
	sealed, err := keyfile.Vault{Wrapper: c.Helper, Label: "first"}.Seal("threeds keys.json", []byte("{}"))
	must(t, err)
	write(t, c.Keys, sealed)
	if got := c.HelperKeys(); !slices.Contains(got, "first") || !slices.Contains(got, "client") {
		t.Errorf("in use are %q", got)
	}
	text := string(contents(t, file))
	for label, want := range map[string]string{
		"": `keys: its file is wrapped by the key "first", and key_helper.wrapping_key is unset`, "first": "",
		"second": `keys: its file is wrapped by the key "first", and key_helper.wrapping_key is another one`,
	} {
		if label != "" {
			write(t, file, []byte(strings.Replace(text, "timeout: 1m}", "timeout: 1m, wrapping_key: "+label+"}", 1)))
		}
		c, _, err := Load(file, noon)
		must(t, err)
		c.Helper.Close()
		if said := strings.Join(c.Warnings, "\n"); strings.Contains(said, "is wrapped by") != (want != "") || !strings.Contains(said, want) {
			t.Errorf("wrapping_key %q: %s", label, said)
		}
		write(t, file, []byte(text))
	}
}
