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
	"github.com/openthreeds/threeds/internal/state/journal"
	"github.com/openthreeds/threeds/internal/state/keyring"
)

// TestKeyHelperKeepsSecretsOutOfFiles: with key_helper.wrapping_key the first start makes key files that have no secret
// in the clear, and the next start reads them. While the helper is gone, /readyz is degraded and the metric is 0, and
// both are well when it is back. Without the helper, a start fails and says what to set.
func TestKeyHelperKeepsSecretsOutOfFiles(t *testing.T) {
	t.Parallel()
	file, text, fake := writeHelperConfig(t)
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
	if len(secrets) != 6 {
		t.Errorf("%d secrets in the files of keys, want 6", len(secrets))
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

// writeHelperConfig writes a configuration with a helper that wraps the files of keys, and returns its text without the
// helper.
func writeHelperConfig(t *testing.T) (file, text string, fake *keyhelpertest.Fake) {
	t.Helper()
	file, text = writeConfig(t)
	fake = keyhelpertest.New(t)
	fake.AddWrappingKey("threeds")
	text = strings.Replace(text, `{url: "https://results`, `{listen: "127.0.0.1:0", url: "https://results`, 1) +
		"api: {listen: \"127.0.0.1:0\"}\nconsole: {listen: \"127.0.0.1:0\"}\n"
	command := fake.Command()
	helper := fmt.Sprintf("key_helper: {command: [%q, %q, %q], wrapping_key: threeds, timeout: 1m}\n", command[0], command[1], command[2])
	write(t, file, []byte(text+helper))
	return file, text, fake
}

// getPage returns what a page of the console says; "" if there is no answer.
func getPage(t *testing.T, at string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
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

// TestReloadIsTriedAgainWhenTheHelperAnswers: a configuration that was refused because the key helper did not answer
// comes into use by itself when it does. Until then the log and /readyz say so. A start that the helper keeps from the
// keys of the journal fails, rather than to serve without them.
func TestReloadIsTriedAgainWhenTheHelperAnswers(t *testing.T) {
	t.Parallel()
	file, text, fake := writeHelperConfig(t)
	var log waittest.Log
	ctx, stop := context.WithCancel(t.Context())
	started, ended := make(chan *Config, 1), make(chan error, 1)
	again := make(chan os.Signal, 1)
	go func() {
		ended <- Serve(ctx, Options{File: file, Log: &log, Reload: again, Change: func(c *Config) { started <- c }})
	}()
	cfg := awaitStart(t, started, ended)
	base := "http://" + cfg.Console.Addr().String()
	waittest.Until(t, "the metric", func() bool {
		return strings.Contains(getPage(t, base+"/metrics"), "\n"+`threeds_key_helper_key_up{key="threeds"} 1`+"\n")
	})
	fake.Break(keyhelpertest.Refuse)
	with, err := os.ReadFile(file)
	must(t, err)
	write(t, file, bytes.Replace(with, []byte("level: debug"), []byte("level: info"), 1))
	again <- os.Interrupt
	waittest.Until(t, "the configuration to be refused", func() bool {
		ready := getPage(t, base+"/readyz")
		return strings.Contains(log.String(), "configuration refused") && strings.Contains(log.String(), `"tried_again":true`) &&
			strings.Contains(ready, "it is tried again when the key helper answers") && strings.Contains(ready, `unwrap with key \"threeds\"`)
	})
	if metrics := getPage(t, base+"/metrics"); !strings.Contains(metrics, "\n"+`threeds_key_helper_key_up{key="threeds"} 0`+"\n") {
		t.Error("the metric of the key is not 0")
	}
	fake.Break("")
	waittest.Until(t, "the configuration to be taken up", func() bool {
		return strings.Contains(log.String(), `"because_of":"the key helper answers again"`) && !strings.Contains(getPage(t, base+"/readyz"), "tried again")
	})
	stop()
	must(t, <-ended)

	write(t, file, []byte(text+strings.Replace(string(with[len(text):]), "wrapping_key: threeds", "wrapping_key: other", 1)))
	fake.AddWrappingKey("other")
	c, err := config.Read(file)
	must(t, err)
	defer c.Helper.Close()
	_, err = c.Vault().Rewrap(c.Journal.Keys, journal.KeysContext)
	must(t, err)
	fake.Remove("other")
	if err := Serve(t.Context(), Options{File: file, Log: io.Discard}); err == nil || !strings.Contains(err.Error(), `unwrap with key "other"`) {
		t.Errorf("without the keys of the journal: %v", err)
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
		all = append(all, regexp.MustCompile(`"state": "[A-Za-z0-9+/=]{30,}`).FindAll(plain, -1)...)
	}
	return all
}

// checkHelperIsSaid breaks the helper of a server, and repairs it.
func checkHelperIsSaid(t *testing.T, base string, cfg *Config, fake *keyhelpertest.Fake) {
	t.Helper()
	get := func(path string) string { return getPage(t, base+path) }
	waittest.Until(t, "the metric", func() bool { return strings.Contains(get("/metrics"), "\nthreeds_key_helper_up 1\n") })
	fake.Break(keyhelpertest.Dead)
	_, err := cfg.KeyHelper.Wrap("threeds", make([]byte, 32), "x")
	if err == nil {
		t.Error("a helper that is gone has wrapped a key")
	}
	ready, metrics := get("/readyz"), get("/metrics")
	if !strings.Contains(ready, `"key helper":"key helper server.test: `) || !strings.Contains(metrics, "\nthreeds_key_helper_up 0\n") ||
		strings.Contains(metrics, `threeds_key_helper_failures_total{verb="wrap"} 0`) {
		t.Errorf("/readyz says %s", ready)
	}
	fake.Break("")
	waittest.Until(t, "the helper to be started again", func() bool {
		return !strings.Contains(get("/readyz"), "key helper") && strings.Contains(get("/metrics"), "\nthreeds_key_helper_up 1\n")
	})
}
