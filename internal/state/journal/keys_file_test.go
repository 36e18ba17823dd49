package journal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
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

// TestO1ARunningServerLeavesTheFileWrapped: somebody sets wrapping_key, or another one, and runs threeds key wrap. The
// server runs with what it has read at its start until somebody restarts it. An erasure in between leaves the file
// wrapped by the new key: else it would be there in the clear, or under a key that is to go out of use.
func TestO1ARunningServerLeavesTheFileWrapped(t *testing.T) {
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

// A waitingWrapper waits before it wraps.
type waitingWrapper struct {
	plainWrapper
	asked, answer chan struct{}
}

func (w *waitingWrapper) Wrap(label string, key []byte, context string) ([]byte, error) {
	if w.asked != nil {
		w.asked <- struct{}{}
		<-w.answer
	}
	return w.plainWrapper.Wrap(label, key, context)
}

// TestJ6ASlowKeyHelperHoldsNobodyUp: while the key helper takes its time to wrap the file after an erasure, entries are
// written, searched and signed, and the text does not open any more. Else a helper that hangs would stop the journal.
func TestJ6ASlowKeyHelperHoldsNobodyUp(t *testing.T) {
	wrapper := &waitingWrapper{}
	file := KeyFile{
		Path:  filepath.Join(t.TempDir(), "journal-keys.json"),
		Vault: keyfile.Vault{Wrapper: wrapper, Label: "threeds-2026"},
	}
	keys, err := file.LoadOrCreate()
	if err != nil {
		t.Fatal(err)
	}
	st, err := OpenFiles(t.TempDir(), keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	at := time.Date(2026, 3, 30, 12, 0, 0, 0, time.UTC)
	entry := func(n int) Entry {
		return Entry{Kind: Answered, CardHash: keys.CardHash("4000000000000002"), Record: Record{
			ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), Created: at, Updated: at, API: "emv", Merchant: "shop",
			Status: "completed", TransStatus: "Y",
		}}
	}
	if _, err := st.Write(t.Context(), []Entry{entry(0)}); err != nil {
		t.Fatal(err)
	}
	wrapper.asked, wrapper.answer = make(chan struct{}), make(chan struct{})
	done := make(chan error)
	go func() {
		_, _, err := st.Erase(t.Context(), Query{Merchant: "shop"})
		done <- err
	}()
	<-wrapper.asked
	if n, err := st.Write(t.Context(), []Entry{entry(0), entry(1)}); err != nil || n != 1 {
		t.Error(n, err)
	}
	if page, err := st.Search(t.Context(), Query{}); err != nil || len(page.Records) != 1 {
		t.Error(page, err)
	}
	if err := st.Sign(t.Context(), at.AddDate(0, 0, 1)); err != nil {
		t.Error(err)
	}
	if faults := st.Faults(); len(faults) > 0 || keys.FileProblem() != "" {
		t.Error(faults, keys.FileProblem())
	}
	wrapper.answer <- struct{}{}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if again, err := file.Load(); err != nil || CountForgotten(again) != 1 {
		t.Error(err)
	}
}

// TestJ6AFileWithTenThousandKeysIsReadAndReplaced: after as many erasures as may forget keys, all on one day, the file
// of keys is still read, and replaced. A limit that is too small would leave a server without its journal.
func TestJ6AFileWithTenThousandKeysIsReadAndReplaced(t *testing.T) {
	t.Parallel()
	file := KeyFile{Path: filepath.Join(t.TempDir(), "journal-keys.json")}
	keys, err := file.LoadOrCreate()
	if err != nil {
		t.Fatal(err)
	}
	ForgetSome(t, keys, maxForgotten-1)
	keys.forget([]spentLeaf{{keys.tree.name, 20_001 << leafBits}})
	info, err := os.Stat(file.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes for each key", info.Size()/maxForgotten)
	again, err := file.Load()
	if err != nil || CountForgotten(again) != maxForgotten || info.Size() > 1400*maxForgotten || keys.FileProblem() != "" {
		t.Errorf("the file has %d bytes, %v, %s", info.Size(), err, keys.FileProblem())
	}
}
