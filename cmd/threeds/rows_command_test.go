package main

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReadyFileIsNews: the file of an earlier sandbox is not taken for that of one
// that could not start, and what is no ready file is left alone.
func TestReadyFileIsNews(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "ready.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(file string) error {
		return dispatch(t.Context(), []string{"sandbox", "--listen", taken.Addr().String(), "--ready-file", file}, nil, io.Discard, io.Discard)
	}
	if err := start(file); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("%v, want that the address is in use", err)
	}
	if left := listFiles(t, dir); len(left) > 0 {
		t.Errorf("still there: %v", left)
	}
	if err := start(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a directory for a ready file: %v", err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}

	none := new(readyFile)
	if err := errors.Join(none.removeStale(), none.publish(map[string]any{"api": "x"}), none.remove()); err != nil {
		t.Errorf("without a ready file: %v", err)
	}
	over := filepath.Join(dir, "directory")
	must(t, os.Mkdir(over, 0o700))
	if err := (&readyFile{path: over}).publish(map[string]any{"api": "x"}); err == nil {
		t.Error("written over a directory")
	}
	if left := listFiles(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	must(t, os.Remove(over))

	first := &readyFile{path: file}
	if err := first.publish(map[string]any{"api": "first"}); err != nil {
		t.Fatal(err)
	}
	other := &readyFile{path: file}
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

// TestReadyFileAmongOthers: in a directory that all users may write to, no other user can redirect the ready file into
// one of the user's own files.
func TestReadyFileAmongOthers(t *testing.T) {
	dir := t.TempDir()
	file, mine := filepath.Join(dir, "ready.json"), filepath.Join(dir, "mine")
	if err := errors.Join(os.WriteFile(mine, []byte("mine"), 0o600), os.Symlink(mine, file+".tmp")); err != nil {
		t.Fatal(err)
	}
	a := &readyFile{path: file}
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

// TestReachable: the address of a listener on all interfaces is shown as one that can be called.
func TestReachable(t *testing.T) {
	for listens, want := range map[string]string{
		"127.0.0.1:8080": "127.0.0.1:8080", "0.0.0.0:8080": "127.0.0.1:8080", "[::]:8080": "127.0.0.1:8080", "[::1]:8080": "[::1]:8080", "192.0.2.1:80": "192.0.2.1:80",
	} {
		at, err := net.ResolveTCPAddr("tcp", listens)
		must(t, err)
		if got := callableAddress(at); got != want {
			t.Errorf("%s: %s, want %s", listens, got, want)
		}
	}
}
