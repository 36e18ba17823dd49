package keyfile_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/openthreeds/threeds/internal/base/keyfile"
)

// A lockingWrapper locks a folder when it unwraps, which is the last that a command asks of a helper.
type lockingWrapper struct{ lock func() }

func (w lockingWrapper) Wrap(_ string, key []byte, _ string) ([]byte, error) { return key, nil }

func (w lockingWrapper) Unwrap(_ string, wrapped []byte, _ string) ([]byte, error) {
	w.lock()
	return wrapped, nil
}

// TestV5NoProcessReplacesTheFileBetweenTheLookAndTheChange: a node that replaces its key file holds the lock of the
// folder. What it writes is seen.
func TestV5NoProcessReplacesTheFileBetweenTheLookAndTheChange(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "keys.json")
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	must(os.WriteFile(path, []byte(secret), 0o600))
	written := make(chan struct{})
	v := keyfile.Vault{Label: "wrapping", Wrapper: lockingWrapper{func() {
		d, err := os.Open(dir)
		must(errors.Join(err, syscall.Flock(int(d.Fd()), syscall.LOCK_EX)))
		go func() { // the other process, while the command waits for the lock
			defer close(written)
			must(os.WriteFile(path, []byte("rotated"), 0o600))
			must(d.Close())
		}()
	}}}
	if _, err := v.Rewrap(path, "keys"); err == nil || !strings.Contains(err.Error(), "has changed meanwhile: run this again") {
		t.Errorf("wrap says %v", err)
	}
	<-written
	if content, err := os.ReadFile(path); err != nil || string(content) != "rotated" {
		t.Errorf("the file has %q, %v", content, err)
	}
}
