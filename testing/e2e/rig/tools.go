package rig

import (
	"os"
	"os/exec"
	"testing"
)

// FindTool finds a program that a test wants. In CI it has to be there; elsewhere the
// test is skipped without it, and says what is not tested.
func FindTool(t *testing.T, name, untested string) (path string) {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil { // Debian's place for what users seldom call
		path, err = exec.LookPath("/usr/sbin/" + name)
	}
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not installed", name)
		}
		t.Skipf("NOT TESTED: %s: no %s", untested, name)
	}
	return path
}

const DeployDir = Root + "/deploy"

// OpenFull returns a file into which nothing can be written, as a pipe whose reader has gone or a disk that is full.
func OpenFull(t *testing.T) *os.File {
	t.Helper()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("NOT TESTED: output that cannot be written: %v", err)
	}
	t.Cleanup(func() { _ = full.Close() })
	return full
}
