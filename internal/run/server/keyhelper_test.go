package server

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/keyhelper/keyhelpertest"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/keyring"
)

// TestKeyHelperKeepsSecretsOutOfFiles: with key_helper.wrapping_key the first start makes key files that have no secret
// in the clear, and the next start reads them. While the helper is gone, /readyz is degraded and the metric is 0, and
// both are well when it is back. Without the helper, a start fails and says what to set.
func TestKeyHelperKeepsSecretsOutOfFiles(t *testing.T) {
	t.Parallel()
	file, text := writeConfig(t)
	fake := keyhelpertest.New(t)
	fake.AddWrappingKey("threeds")
	text = strings.Replace(text, `{url: "https://results`, `{listen: "127.0.0.1:0", url: "https://results`, 1) +
		"api: {listen: \"127.0.0.1:0\"}\nconsole: {listen: \"127.0.0.1:0\"}\n"
	command := fake.Command()
	helper := fmt.Sprintf("key_helper: {command: [%q, %q, %q], wrapping_key: threeds, timeout: 1m}\n", command[0], command[1], command[2])
	write(t, file, []byte(text+helper))
	var first string
	for range 2 {
		ctx, stop := context.WithCancel(t.Context())
		started, ended := make(chan *Config, 1), make(chan error, 1)
		go func() {
			ended <- Serve(ctx, Options{File: file, Log: &waittest.Log{}, Change: func(c *Config) { started <- c }})
		}()
		cfg := awaitStart(t, started, ended)
		id := cfg.Ring.KeyIDs().Current
		if first == "" {
			first = id
			checkHelperIsSaid(t, "http://"+cfg.Console.Addr().String(), cfg, fake)
		}
		if id != first {
			t.Errorf("the second start has secret %s, want %s", id, first)
		}
		stop()
		must(t, <-ended)
	}
	c, err := config.Read(file)
	must(t, err)
	defer c.Helper.Close()
	secrets := secretsOf(t, c)
	if len(secrets) != 4 {
		t.Errorf("%d secrets in the files of keys, want 4", len(secrets))
	}
	must(t, filepath.WalkDir(filepath.Dir(file), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		for _, secret := range secrets {
			if bytes.Contains(data, secret) {
				t.Errorf("%s has a secret", path)
			}
		}
		return err
	}))
	write(t, file, []byte(text))
	if err := Serve(t.Context(), Options{File: file, Log: io.Discard}); err == nil ||
		!strings.Contains(err.Error(), `it is wrapped by the key "threeds" of a key helper: set key_helper`) {
		t.Errorf("without the helper: %v", err)
	}
}

// secretsOf returns the secrets in the files of keys, as they would be written.
func secretsOf(t *testing.T, c *config.Config) (all [][]byte) {
	t.Helper()
	for path, context := range map[string]string{c.Keys: keyring.Context, c.Journal.Keys: "threeds journal-keys.json"} {
		content, err := os.ReadFile(path)
		must(t, err)
		plain, err := c.Vault().Open(context, content)
		must(t, err)
		all = append(all, regexp.MustCompile(`[A-Za-z0-9+/]{43}=`).FindAll(plain, -1)...)
	}
	return all
}

// checkHelperIsSaid breaks the helper of a server, and repairs it.
func checkHelperIsSaid(t *testing.T, base string, cfg *Config, fake *keyhelpertest.Fake) {
	t.Helper()
	get := func(path string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+path, nil)
		must(t, err)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return ""
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		must(t, err)
		return string(body)
	}
	waittest.Until(t, "the metric", func() bool { return strings.Contains(get("/metrics"), "\nthreeds_key_helper_up 1\n") })
	fake.Break(keyhelpertest.Dead)
	_, err := cfg.KeyHelper.Wrap("threeds", make([]byte, 32), "x")
	if err == nil {
		t.Error("a helper that is gone has wrapped a key")
	}
	ready, metrics := get("/readyz"), get("/metrics")
	if !strings.Contains(ready, `"key helper":"key helper server.test: `) || !strings.Contains(metrics, "\nthreeds_key_helper_up 0\n") ||
		!strings.Contains(metrics, "\n"+`threeds_key_helper_failures_total{verb="wrap"} 1`+"\n") {
		t.Errorf("/readyz says %s", ready)
	}
	fake.Break("")
	waittest.Until(t, "the helper to be started again", func() bool {
		return !strings.Contains(get("/readyz"), "key helper") && strings.Contains(get("/metrics"), "\nthreeds_key_helper_up 1\n")
	})
}
