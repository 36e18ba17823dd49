package keyfile_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/keyfile"
	"github.com/openthreeds/threeds/internal/base/keyhelper"
	"github.com/openthreeds/threeds/internal/base/keyhelper/keyhelpertest"
)

func newVault(t *testing.T) keyfile.Vault {
	fake := keyhelpertest.New(t)
	fake.AddWrappingKey("wrapping")
	fake.AddWrappingKey("second")
	h := keyhelper.New(fake.Command(), time.Minute)
	t.Cleanup(h.Close)
	return keyfile.Vault{Wrapper: h, Label: "wrapping"}
}

const secret = `{"current": "a secret"}`

// TestV1SealedFileOpensOnlyAsWhatItIs: what a vault seals shows nothing, and opens for the same
// context alone, unchanged.
func TestV1SealedFileOpensOnlyAsWhatItIs(t *testing.T) {
	v := newVault(t)
	sealed, err := v.Seal("keys", []byte(secret))
	if err != nil || bytes.Contains(sealed, []byte("secret")) {
		t.Fatalf("%s, %v", sealed, err)
	}
	if plain, err := v.Open("keys", sealed); err != nil || string(plain) != secret {
		t.Errorf("opened as %q, %v", plain, err)
	}
	again, err := v.Seal("keys", []byte(secret))
	if err != nil || bytes.Equal(again, sealed) {
		t.Errorf("a second file has the same key, %v", err)
	}
	for name, test := range map[string]struct {
		vault   keyfile.Vault
		context string
		content []byte
		want    string
	}{
		"other context": {v, "journal", sealed, "unwrap with key"},
		"other label":   {v, "keys", bytes.Replace(sealed, []byte(`"wrapping"`), []byte(`"second"`), 1), "unwrap with key"},
		"changed":       {v, "keys", bytes.Replace(sealed, []byte(`"sealed": "`), []byte(`"sealed": "AAAA`), 1), "was changed"},
		"in the clear":  {v, "keys", []byte(secret), `run "threeds key wrap"`},
		"no helper":     {keyfile.Vault{}, "keys", sealed, "set key_helper"},
	} {
		if _, err := test.vault.Open(test.context, test.content); err == nil || !strings.Contains(err.Error(), test.want) ||
			strings.Contains(err.Error(), "a secret") {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if plain, err := (keyfile.Vault{}).Open("keys", []byte(secret)); err != nil || string(plain) != secret {
		t.Errorf("without a vault: %q, %v", plain, err)
	}
}

// TestV2RewrapWritesAFileAsTheVaultSays: a file in the clear is sealed, then under another label, then in the clear
// again. What was left next to it goes the same way. Nothing is done twice.
func TestV2RewrapWritesAFileAsTheVaultSays(t *testing.T) {
	v := newVault(t)
	path := filepath.Join(t.TempDir(), "keys.json")
	for _, file := range []string{path, path + ".new"} {
		if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, label := range []string{"wrapping", "second", ""} {
		v.Label = label
		for _, isFirst := range []bool{true, false} {
			if isChanged, err := v.RewrapAll(path, "keys"); err != nil || isChanged != isFirst {
				t.Fatalf("%q: changed: %t, %v", label, isChanged, err)
			}
		}
		for _, file := range []string{path, path + ".new"} {
			content, err := os.ReadFile(file)
			if err != nil || strings.Contains(string(content), "a secret") != (label == "") ||
				label != "" && !strings.Contains(string(content), `"wrapped_by": "`+label+`"`) {
				t.Errorf("%q: %s has %s, %v", label, file, content, err)
			}
			if plain, err := v.Open("keys", content); err != nil || string(plain) != secret {
				t.Errorf("%q: opens as %q, %v", label, plain, err)
			}
		}
	}
}

// A plainWrapper answers what it is given: the fuzz target below needs no process.
type plainWrapper struct{}

func (plainWrapper) Wrap(_ string, key []byte, _ string) ([]byte, error)       { return key, nil }
func (plainWrapper) Unwrap(_ string, wrapped []byte, _ string) ([]byte, error) { return wrapped, nil }

// FuzzOpen: of all contents of a file only what was sealed opens.
func FuzzOpen(f *testing.F) {
	v := keyfile.Vault{Wrapper: plainWrapper{}, Label: "wrapping"}
	sealed, err := v.Seal("keys", []byte(secret))
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		string(sealed), secret, "", "{}", `{"wrapped_by": "wrapping"}`, `{"wrapped_by": "a", "data_key": "AAAA", "sealed": ""}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		if plain, err := v.Open("keys", content); err == nil && string(plain) != secret {
			t.Errorf("%q opens as %q", content, plain)
		}
	})
}

// A wrapperWith answers what it is given, and does something before.
type wrapperWith struct {
	wrap   func()
	unwrap error
}

func (w wrapperWith) Wrap(_ string, key []byte, _ string) ([]byte, error) {
	w.wrap()
	return key, nil
}

func (w wrapperWith) Unwrap(_ string, wrapped []byte, _ string) ([]byte, error) {
	return wrapped, w.unwrap
}

// TestV3RewrapReplacesNothingThatHasComeMeanwhile: a rotation may replace the file while the helper is
// asked. Its secret stays.
func TestV3RewrapReplacesNothingThatHasComeMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.json")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(secret)
	v := keyfile.Vault{Wrapper: wrapperWith{wrap: func() { write("rotated") }}, Label: "wrapping"}
	if _, err := v.Rewrap(path, "keys"); err == nil || !strings.Contains(err.Error(), "has changed meanwhile: run this again") {
		t.Errorf("wrap says %v", err)
	}
	if content, err := os.ReadFile(path); err != nil || string(content) != "rotated" {
		t.Errorf("the file has %q, %v", content, err)
	}
}

// TestV4WhatCannotBeUnwrappedIsNotWritten: a key that may wrap and not unwrap seals nothing.
func TestV4WhatCannotBeUnwrappedIsNotWritten(t *testing.T) {
	v := keyfile.Vault{Wrapper: wrapperWith{wrap: func() {}, unwrap: errors.New("permission denied")}, Label: "wrapping"}
	if sealed, err := v.Seal("keys", []byte(secret)); err == nil || sealed != nil {
		t.Errorf("sealed: %q, %v", sealed, err)
	}
}
