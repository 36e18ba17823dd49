package api

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openthreeds/threeds/internal/state/account"
)

// TestLimiterCountsEachKeyForItself: each key may make a number of requests at once, and a number per second.
func TestLimiterCountsEachKeyForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(3)
		allowed := func(key string) (n int) {
			for range 5 {
				if _, ok := l.Allow(key); ok {
					n++
				}
			}
			return n
		}
		if a, b := allowed("a"), allowed("b"); a != 3 || b != 3 {
			t.Errorf("at once: %d and %d, want 3 and 3", a, b)
		}
		time.Sleep(time.Second)
		if n := allowed("a"); n != 3 {
			t.Errorf("a second later: %d, want 3", n)
		}
		if wait, ok := l.Allow("a"); ok || wait < 1 {
			t.Errorf("Allow = %d, %t; want a wait", wait, ok)
		}
	})
}

func TestLimiterSaysWhenToTryAgain(t *testing.T) {
	for rate, want := range map[float64]int{0.1: 10, 0.4: 3, 1: 1, 20: 1} {
		l := NewLimiter(rate)
		for range 100 {
			if wait, ok := l.Allow("a"); !ok && wait != want {
				t.Errorf("with %v per second: another try after %d s, want %d", rate, wait, want)
			}
		}
	}
}

func TestNilLimiterAllowsEverything(t *testing.T) {
	if _, ok := (*Limiter)(nil).Allow("a"); !ok {
		t.Error("no limiter limits")
	}
}

// TestLimiterForgetsUnusedKeys: a key that is no longer used, for example because it was revoked, leaves the limiter.
// That does not weaken its limit: a key that has used up its rate stays until it may send at its full rate again.
func TestLimiterForgetsUnusedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(0.01) // a request in 100 s
		for i := range 1000 {
			l.Allow(fmt.Sprint("revoked ", i))
		}
		time.Sleep(pruneInterval)
		l.Allow("in use")
		if len(l.keys) != 1001 {
			t.Errorf("%d keys, want 1001: none has its rate again", len(l.keys))
		}
		if _, ok := l.Allow("revoked 0"); ok {
			t.Error("a key has its rate again too early")
		}
		time.Sleep(2 * pruneInterval)
		l.Allow("in use")
		if len(l.keys) != 1 {
			t.Errorf("%d keys, want only the one in use", len(l.keys))
		}
	})
}

// TestNoKeyStaysInMemory looks for API keys in the memory of the process after their
// requests were answered, allowed or not.
func TestNoKeyStaysInMemory(t *testing.T) {
	const keys = 50
	h := &Handler{Engine: engine{new(fake)}, Keys: anyKey{}, Limits: NewLimiter(1), Log: slog.New(slog.DiscardHandler)}
	// No key is ever whole in memory but in its requests: prefix and number are apart.
	prefix := []string{"sk-look-for-", "this-key-"}
	control := strings.Join(prefix, "") + "control."
	for i := range keys {
		for range 2 {
			ask(h, "/preauth", fmt.Sprintf("%s%s%d.", prefix[0], prefix[1], i), strings.NewReader("{}"))
		}
	}
	runtime.GC()
	runtime.GC()
	file, err := os.Create(filepath.Join(t.TempDir(), "heap"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	debug.WriteHeapDump(file.Fd())
	dump, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(dump, []byte(control)) {
		t.Fatal("the dump of the heap does not have what is in use")
	}
	runtime.KeepAlive(control)
	found := 0
	for i := range keys {
		if bytes.Contains(dump, fmt.Appendf(nil, "%s%s%d.", prefix[0], prefix[1], i)) {
			found++
		}
	}
	if found > 2 { // a few may be on a stack, or in memory that was not used again
		t.Errorf("%d of %d keys are in memory", found, keys)
	}
}

// anyKey takes every key for good.
type anyKey struct{}

func (anyKey) Authenticate(context.Context, string) (*account.Account, error) {
	return &account.Account{Merchant: new(account.Merchant)}, nil
}
