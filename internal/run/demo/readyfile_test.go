package demo

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// must fails the test at once if there is an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// listFiles returns the names of what is in a directory.
func listFiles(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range all {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// TestReadyFileIsOfOneSandbox: it is whole, in no place of something else, and only the sandbox that has written it
// removes it.
func TestReadyFileIsOfOneSandbox(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "ready.json")
	none := new(ReadyFile)
	if err := errors.Join(none.RemoveStale(), none.publish(map[string]any{"api": "x"}), none.remove()); err != nil {
		t.Errorf("without a ready file: %v", err)
	}
	over := filepath.Join(dir, "directory")
	must(t, os.Mkdir(over, 0o700))
	if err := (&ReadyFile{Path: over}).publish(map[string]any{"api": "x"}); err == nil {
		t.Error("written over a directory")
	}
	if left := listFiles(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	must(t, os.Remove(over))

	first := &ReadyFile{Path: file}
	if err := first.publish(map[string]any{"api": "first"}); err != nil {
		t.Fatal(err)
	}
	other := &ReadyFile{Path: file}
	if err := other.publish(map[string]any{"api": "other"}); err != nil {
		t.Fatal(err)
	}
	if err := first.remove(); err != nil || len(listFiles(t, dir)) != 1 {
		t.Errorf("another sandbox's file is gone, %v", err)
	}
	if err := other.remove(); err != nil || len(listFiles(t, dir)) != 0 {
		t.Errorf("its own file is still there, %v", err)
	}
}

// TestReadyFileAmongOthers: in a directory of all users nobody has the ready file
// written into a file of the user's.
func TestReadyFileAmongOthers(t *testing.T) {
	dir := t.TempDir()
	file, mine := filepath.Join(dir, "ready.json"), filepath.Join(dir, "mine")
	if err := errors.Join(os.WriteFile(mine, []byte("mine"), 0o600), os.Symlink(mine, file+".tmp")); err != nil {
		t.Fatal(err)
	}
	a := &ReadyFile{Path: file}
	if err := a.publish(map[string]any{"api": "x"}); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(mine); err != nil || string(text) != "mine" {
		t.Errorf("another file is now %q, %v", text, err)
	}
	info, err := os.Lstat(file)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the ready file: %v, %v; want a file of mode 0600", info, err)
	}
}

// TestReachable: an address of a listener on all is told as one to call.
func TestReachable(t *testing.T) {
	for listens, want := range map[string]string{
		"127.0.0.1:8080": "127.0.0.1:8080", "0.0.0.0:8080": "127.0.0.1:8080", "[::]:8080": "127.0.0.1:8080",
		"[::1]:8080": "[::1]:8080", "192.0.2.1:80": "192.0.2.1:80",
	} {
		at, err := net.ResolveTCPAddr("tcp", listens)
		must(t, err)
		if got := callableAddress(at); got != want {
			t.Errorf("%s: %s, want %s", listens, got, want)
		}
	}
}
