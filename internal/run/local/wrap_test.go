package local

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/keyhelper/keyhelpertest"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

// TestKeyWrapWritesBothFilesAsConfigured: files in the clear are wrapped, and written in the clear again without
// wrapping_key. The secrets stay the same, and what has nothing to do says so. Until it is wrapped, a file in the clear
// is refused. Without a helper the command changes nothing.
func TestKeyWrapWritesBothFilesAsConfigured(t *testing.T) {
	fake := keyhelpertest.New(t)
	fake.AddWrappingKey("threeds")
	dir := t.TempDir()
	file := filepath.Join(dir, "threeds.yaml")
	configure := func(helper string) {
		const pair = "{cert: none.pem, key: none.pem}"
		text := fmt.Sprintf("results: {url: \"https://results.example/\", tls: %[1]s}\nstore: {url: \"file:data\"}\n"+
			"server: {reference_number: 3DS_LOA_SER_TEST_020301_00001}\n%[2]s\ndirectories:\n"+
			"  - {scheme: visa, areq_url: \"https://127.0.0.1:1/\", preq_url: \"https://127.0.0.1:1/\", versions: [2.2.0], "+
			"client_cert: %[1]s, server_ca: none.pem, client_ca: none.pem}\n", pair, helper)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	withKeys := func() (id string, err error) {
		err = WithKeys(t.Context(), file, func(c *config.Config, _ store.Store, ring *keyring.Ring) error {
			id = ring.KeyIDs().Current
			return c.JournalKeyFile().Create()
		})
		return id, err
	}
	wrap := func() (said string, err error) {
		var out strings.Builder
		err = WrapKeyFiles(t.Context(), file, func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) })
		return out.String(), err
	}
	configure("")
	id, err := withKeys()
	if err != nil {
		t.Fatal(err)
	}
	if said, err := wrap(); err == nil || !strings.Contains(err.Error(), "no key_helper") || said != "" {
		t.Errorf("without a helper: %s, %v", said, err)
	}
	command := fmt.Sprintf("command: [%q, %q, %q], timeout: 1m", fake.Command()[0], fake.Command()[1], fake.Command()[2])
	for _, step := range []struct{ helper, said string }{
		{"key_helper: {" + command + ", wrapping_key: threeds}", "wrapped by the key threeds"},
		{"key_helper: {" + command + "}", "in the clear"},
	} {
		configure(step.helper)
		isWrapped := strings.Contains(step.helper, "wrapping_key")
		if _, err := withKeys(); isWrapped && (err == nil || !strings.Contains(err.Error(), `run "threeds key wrap"`)) {
			t.Errorf("a file in the clear: %v", err)
		}
		for _, word := range []string{"is now ", "was "} {
			if said, err := wrap(); err != nil || strings.Count(said, word+step.said) != 2 {
				t.Errorf("%s: says %s, %v", step.said, said, err)
			}
		}
		for _, name := range []string{"keys.json", "journal-keys.json"} {
			data, err := os.ReadFile(filepath.Join(dir, "data", name))
			if err != nil || bytes.Contains(data, []byte("wrapped_by")) != isWrapped {
				t.Errorf("%s: %s has %s, %v", step.said, name, data, err)
			}
		}
		if now, err := withKeys(); err != nil || now != id {
			t.Errorf("%s: secret %s, want %s, %v", step.said, now, id, err)
		}
	}
	entries := 0
	err = WithKeys(t.Context(), file, func(_ *config.Config, st store.Store, _ *keyring.Ring) error {
		all, err := st.AuditEntries(t.Context(), store.AuditQuery{Limit: 100})
		for i := range all {
			if bytes.Contains(all[i].Data, []byte(`"key.wrap"`)) {
				entries++
			}
		}
		return err
	})
	if err != nil || entries != 2 {
		t.Errorf("the audit trail has %d entries, want 2, %v", entries, err)
	}
}
