package server

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/openthreeds/threeds/internal/run/config"
)

// TestTooManyOpenFilesIsNoChange: if no file can be opened, that is not a change of any file, and no reason to refuse
// an unchanged configuration.
func TestTooManyOpenFilesIsNoChange(t *testing.T) {
	dir := t.TempDir()
	there, gone := filepath.Join(dir, "there"), filepath.Join(dir, "gone")
	for _, path := range []string{there, gone} {
		if err := os.WriteFile(path, []byte("content"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := config.Files{there: {}, gone: {}}.Current()
	r := &reloader{tried: before}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	first, second, failed := func() (first, second bool, failed error) {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
		defer func() { // whatever happens: it is the limit of all other tests, too
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
				t.Error(err)
			}
		}()
		_, failed = os.ReadFile(there)
		return r.hasChanged(), r.hasChanged(), failed
	}()
	if failed == nil {
		t.Error("a file can be opened: this test is not what it was")
	}
	if first || second {
		t.Error("files have changed, for they cannot be opened")
	}
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	if first, second := r.hasChanged(), r.hasChanged(); first || !second {
		t.Errorf("a file that is gone: %t at the first look, %t at the second; want false, true", first, second)
	}
}

// TestReadingFilesLeavesNothingOpen: the files are looked at every other second.
func TestReadingFilesLeavesNothingOpen(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	write(t, file, []byte("content"))
	open := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	before, m := open(), config.Files{file: {}}
	for range 200 {
		m = m.Current()
	}
	if after := open(); after > before+50 {
		t.Errorf("%d files are open, %d before", after, before)
	}
}
