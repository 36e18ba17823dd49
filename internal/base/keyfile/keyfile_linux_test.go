package keyfile_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/openthreeds/threeds/internal/base/keyfile"
)

// inNamespace names the environment variable that says in which folder a process with mounts of its own is to look.
const inNamespace = "KEYFILE_TEST_MOUNTS"

// mounts makes, in the current folder, a file that is mounted by itself and a folder that is
// read-only, and runs a command.
const mounts = `set -e
mount --bind content alone/keys.json
mount --bind folder folder
mount -o remount,bind,ro folder
exec "$@"`

// TestO1CheckReplaceSaysWhatReplaceCanDo: a file in a folder is replaced. One in a folder that is mounted read-only, as
// a Secret of Kubernetes is, and one that is mounted by itself, as containers may have it, cannot be, and the check
// says so without changing anything.
func TestO1CheckReplaceSaysWhatReplaceCanDo(t *testing.T) {
	if dir := os.Getenv(inNamespace); dir != "" {
		checkMounts(t, dir)
		return
	}
	dir := t.TempDir()
	for _, file := range []string{"content", "alone/keys.json", "folder/keys.json", "free/keys.json"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700), os.WriteFile(filepath.Join(dir, file), []byte("was"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	unshare := []string{"--mount", "--map-root-user"}
	if os.Geteuid() == 0 {
		unshare = unshare[:1]
	}
	if out, err := exec.CommandContext(t.Context(), "unshare", append(unshare, "true")...).CombinedOutput(); err != nil {
		t.Skipf("no mounts of its own for a process: %v %s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), "unshare", append(unshare, "sh", "-c", mounts, "sh", self, "-test.run=^"+t.Name()+"$", "-test.v")...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), inNamespace+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func checkMounts(t *testing.T, dir string) {
	for name, want := range map[string]bool{"alone": false, "folder": false, "free": true} {
		file := filepath.Join(dir, name, "keys.json")
		checked := keyfile.CheckReplace(file)
		entries, err := os.ReadDir(filepath.Dir(file))
		if err != nil || len(entries) != 1 {
			t.Errorf("%s: after the check there are %v, %v", name, entries, err)
		}
		replaced := keyfile.Replace(file, []byte("is"))
		if (checked == nil) != want || (replaced == nil) != want {
			t.Errorf("%s: the check says %v, and replacing it %v", name, checked, replaced)
		}
		if err := keyfile.RemovePending(file); err != nil {
			t.Errorf("%s: to remove nothing: %v", name, err)
		}
	}
}

// TestO1WhatAKilledProcessHasLeftGoes: a process was killed while it wrote a file of keys, and has left them under
// another name. Whoever makes or replaces a file of the folder removes that: else keys that are replaced since could
// still be read. What somebody else has put there stays.
func TestO1WhatAKilledProcessHasLeftGoes(t *testing.T) {
	dir := t.TempDir()
	file, left := filepath.Join(dir, "keys.json"), filepath.Join(dir, ".keys-1234567")
	other := filepath.Join(dir, ".keys-backup")
	for name, do := range map[string]func() error{
		"Replace":   func() error { return keyfile.Replace(file, []byte("is")) },
		"ReplaceIf": func() error { return keyfile.ReplaceIf(file, []byte("was"), []byte("is")) },
		"CreateNew": func() error { return keyfile.CreateNew(filepath.Join(dir, "other.json"), []byte("is")) },
	} {
		for _, path := range []string{file, left, other} {
			if err := os.WriteFile(path, []byte("was"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := do(); err != nil {
			t.Fatal(name, err)
		}
		if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s leaves the file: %v", name, err)
		}
		if _, err := os.Stat(other); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
