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
}
