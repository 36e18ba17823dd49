package local

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/keyfile"
	"github.com/openthreeds/threeds/internal/base/keyhelper/keyhelpertest"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/store"
)

// newWrapSite returns the path of a configuration, a helper with the wrapping key threeds, and what writes the
// configuration with a section key_helper.
func newWrapSite(t *testing.T) (file string, fake *keyhelpertest.Fake, configure func(helper string)) {
	t.Helper()
	fake = keyhelpertest.New(t)
	fake.AddWrappingKey("threeds")
	file = filepath.Join(t.TempDir(), "threeds.yaml")
	return file, fake, func(helper string) {
		t.Helper()
		const pair = "{cert: none.pem, key: none.pem}"
		text := fmt.Sprintf("results: {url: \"https://results.example/\", tls: %[1]s}\nstore: {url: \"file:data\"}\n"+
			"server: {reference_number: 3DS_LOA_SER_TEST_020301_00001}\n%[2]s\ndirectories:\n"+
			"  - {scheme: visa, areq_url: \"https://127.0.0.1:1/\", preq_url: \"https://127.0.0.1:1/\", versions: [2.2.0], "+
			"client_cert: %[1]s, server_ca: none.pem, client_ca: none.pem}\n", pair, helper)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// helperSection returns the section key_helper of a helper.
func helperSection(fake *keyhelpertest.Fake, wrappingKey string) string {
	command := fake.Command()
	text := fmt.Sprintf("key_helper: {command: [%q, %q, %q], timeout: 1m", command[0], command[1], command[2])
	if wrappingKey != "" {
		text += ", wrapping_key: " + wrappingKey
	}
	return text + "}"
}

// TestKeyWrapWritesBothFilesAsConfigured: files in the clear are wrapped, and written in the clear again without
// wrapping_key. The secrets stay the same, and what has nothing to do says so. Until it is wrapped, a file in the clear
// is refused. Without a helper the command changes nothing.
func TestKeyWrapWritesBothFilesAsConfigured(t *testing.T) {
	file, fake, configure := newWrapSite(t)
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
	for _, step := range []struct{ helper, said string }{
		{helperSection(fake, "threeds"), "wrapped by the key threeds"},
		{helperSection(fake, ""), "in the clear"},
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
			data, err := os.ReadFile(filepath.Join(filepath.Dir(file), "data", name))
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

// TestKeyWrapIsNoPartOfARotation: while a command rotates, key wrap changes nothing.
func TestKeyWrapIsNoPartOfARotation(t *testing.T) {
	file, fake, configure := newWrapSite(t)
	configure("")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(WithKeys(t.Context(), file, func(_ *config.Config, st store.Store, _ *keyring.Ring) error {
		_, err := st.Acquire(t.Context(), "key rotation", "another command", time.Minute)
		return err
	}))
	configure(helperSection(fake, "threeds"))
	say := func(format string, args ...any) { t.Errorf("says "+format, args...) }
	if err := WrapKeyFiles(t.Context(), file, say); err == nil || !strings.Contains(err.Error(), "key wrap: a rotation is under way") {
		t.Errorf("key wrap: %v", err)
	}
	if by, err := keyfile.WrappedBy(filepath.Join(filepath.Dir(file), "data", "keys.json")); err != nil || by != "" {
		t.Errorf("the key file is wrapped by %q, %v", by, err)
	}
}

// TestNoEntryWithoutItsProof: a command whose entry of the audit trail could have no MAC, because the key helper does
// not open the keys of the journal, does nothing. The trail stays without a gap, and the same command works later.
func TestNoEntryWithoutItsProof(t *testing.T) {
	file, fake, configure := newWrapSite(t)
	configure(helperSection(fake, "threeds"))
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(WithKeys(t.Context(), file, func(c *config.Config, _ store.Store, _ *keyring.Ring) error { return c.JournalKeyFile().Create() }))
	record := func() error { return RecordJournal(t.Context(), file, "journal.archive", "", nil) }
	must(record())
	fake.Break(keyhelpertest.Refuse)
	if err := record(); err == nil || !strings.Contains(err.Error(), "audit trail: ") || !strings.Contains(err.Error(), "CKR_DEVICE_ERROR") {
		t.Errorf("without the helper: %v", err)
	}
	if err := CheckTrail(file); err == nil {
		t.Error("a command that writes its entry after the act is not kept from it")
	}
	fake.Break("")
	must(CheckTrail(file))
	must(record())
	must(WithKeys(t.Context(), file, func(_ *config.Config, st store.Store, _ *keyring.Ring) error {
		all, err := st.AuditEntries(t.Context(), store.AuditQuery{Limit: 100})
		if len(all) != 2 {
			t.Errorf("the trail has %d entries, want 2", len(all))
		}
		for _, e := range all {
			const withoutMAC = 16 + 32 // the salt and the link
			if len(e.Link) <= withoutMAC {
				t.Errorf("entry %d has no MAC", e.Seq)
			}
		}
		return err
	}))
}
