package journal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/keyfile"
)

// A plainWrapper wraps nothing. It is for tests of who seals a file under which label.
type plainWrapper struct{}

func (plainWrapper) Wrap(label string, key []byte, context string) ([]byte, error) {
	return append([]byte(label+" "+context+" "), key...), nil
}

func (plainWrapper) Unwrap(label string, wrapped []byte, context string) ([]byte, error) {
	key, ok := bytes.CutPrefix(wrapped, []byte(label+" "+context+" "))
	if !ok {
		return nil, fmt.Errorf("it was not wrapped by %s", label)
	}
	return bytes.Clone(key), nil
}

// TestH2ARunningServerLeavesTheFileWrapped: somebody sets wrapping_key, or another one, and runs threeds key wrap. The
// server runs with what it has read at its start until somebody restarts it. An erasure in between must not write the
// file in the clear, or under the old key.
func TestH2ARunningServerLeavesTheFileWrapped(t *testing.T) {
	for _, was := range []string{"", "threeds-2025"} {
		file := KeyFile{
			Path:  filepath.Join(t.TempDir(), "journal-keys.json"),
			Vault: keyfile.Vault{Wrapper: plainWrapper{}, Label: was},
		}
		keys, err := file.LoadOrCreate()
		if err != nil {
			t.Fatal(err)
		}
		next := keyfile.Vault{Wrapper: plainWrapper{}, Label: "threeds-2026"}
		if _, err := next.Rewrap(file.Path, KeysContext); err != nil {
			t.Fatal(err)
		}
		keys.forget([]spentLeaf{{keys.tree.name, 42}})
		got, err := keyfile.WrappedBy(file.Path)
		if err != nil || got != next.Label {
			content, _ := os.ReadFile(file.Path)
			t.Errorf("the file was wrapped by %q, then by %q, and after an erasure by %q, %v (in the clear: %t)", was, next.Label,
				got, err, bytes.Contains(content, []byte(`"wrapping"`)))
		}
	}
}

// TestH2TimesWithTenThousandKeys says what ten thousand forgotten keys cost.
func TestH2TimesWithTenThousandKeys(t *testing.T) {
	file := KeyFile{Path: filepath.Join(t.TempDir(), "journal-keys.json")}
	keys, err := file.LoadOrCreate()
	if err != nil {
		t.Fatal(err)
	}
	took := func(what string, do func()) {
		began := time.Now()
		do()
		t.Logf("%s: %s", what, time.Since(began))
	}
	took("forget 10000 at once", func() { ForgetSome(t, keys, maxForgotten-1) })
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	took("forget one more", func() { keys.forget([]spentLeaf{{keys.tree.name, 20_001 << leafBits}}) })
	runtime.ReadMemStats(&after)
	t.Logf("which takes %d MB", (after.TotalAlloc-before.TotalAlloc)>>20)
	took("a duty that changes nothing", keys.checkFile)
	info, err := os.Stat(file.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the file has %d MB", info.Size()>>20)
	day := &dayKey{make([]byte, keyLen), keys.tree, 20_000}
	took("10000 keys of entries", func() {
		for n := range 10_000 {
			if _, err := day.aead(fmt.Sprint("x", n)); err != nil {
				t.Fatal(err)
			}
		}
	})
	fresh := NewKeys()
	whole := &dayKey{make([]byte, keyLen), fresh.tree, 20_000}
	took("10000 keys of entries, where nothing was forgotten", func() {
		for n := range 10_000 {
			if _, err := whole.aead(fmt.Sprint("x", n)); err != nil {
				t.Fatal(err)
			}
		}
	})
	took("load", func() { _, err = file.Load() })
	if err != nil {
		t.Fatal(err)
	}
	if problem := keys.FileProblem(); problem != "" {
		t.Error(problem)
	}
}
