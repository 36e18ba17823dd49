package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestH2EraseWithWriteAndArchive: an erasure from the files of archived days forgets keys, too, and the file that --write
// makes has forgotten them.
func TestH2EraseWithWriteAndArchive(t *testing.T) {
	s := newKeySite(t)
	s.must("key", "create", "--name", "Corner Shop")
	s.must("journal", "generate", "--authentications", "40", "--days", "4", "--merchants", "2")
	file, made := filepath.Join(s.dir, "threeds-data", "journal-keys.json"), filepath.Join(s.dir, "made.json")
	folder := filepath.Join(s.dir, "folder")
	s.require(os.Mkdir(folder, 0o700))
	out, errs := s.must("journal", "archive", "--before", time.Now().UTC().Format(time.DateOnly), folder)
	t.Log(out, errs)
	out, errs = s.must("journal", "erase", "--merchant", "Shop 0", "--yes", "--archive", folder, "--write", made)
	t.Log(out, errs)
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		s.require(err)
		return string(text)
	}
	if !strings.Contains(out, "erased from") || read(made) != read(file) {
		t.Error("the file that was made opens what was erased from the files of archived days")
	}
}
