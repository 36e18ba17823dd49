package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// TestJ6EraseWithWriteAndArchive: an erasure from the files of archived days forgets keys, too, and the file that
// --write makes has forgotten them. Else that file would open what was erased from the files.
func TestJ6EraseWithWriteAndArchive(t *testing.T) {
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

// TestJ6ForgetMakesTheFileOfKeysSmall: the command says what would go, forgets all keys of days that are over their
// time when it is sure, and says why others stay. Without that, the file would grow until no erasure forgets keys.
func TestJ6ForgetMakesTheFileOfKeysSmall(t *testing.T) {
	s := newKeySite(t)
	s.must("key", "create", "--name", "Corner Shop")
	s.must("journal", "generate", "--authentications", "180", "--days", "90", "--merchants", "2")
	s.must("journal", "erase", "--merchant", "Shop 0", "--yes")
	now := time.Now().UTC()
	today, over := now.Format(time.DateOnly), now.AddDate(0, 0, -30)
	first := time.Date(over.Year(), over.Month(), 1, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
	text, err := os.ReadFile(s.config())
	s.require(err)
	config := filepath.Join(s.dir, "kept.yaml")
	configure := func(journal string) {
		t.Helper()
		s.require(os.WriteFile(config, slices.Concat(text, []byte("journal: "+journal+"\n")), 0o600))
	}
	forget := func(want int, args ...string) (out, errs string) {
		t.Helper()
		var stdout, stderr strings.Builder
		args = append([]string{"journal", "forget", "--config", config}, args...)
		if code := run(t.Context(), args, nil, &stdout, &stderr); code != want {
			t.Errorf("threeds %s: exit status %d, want %d\n%s%s", strings.Join(args, " "), code, want, &stdout, &stderr)
		}
		return stdout.String(), stderr.String()
	}
	configure("off")
	if _, errs := forget(1, "--before", first); !strings.Contains(errs, "want journal.keep") {
		t.Errorf("without a journal it says %s", errs)
	}
	configure("{keep: 30d, messages: 30d}")
	forget(2, "--before", "soon")
	if _, errs := forget(1, "--before", first, "--yes"); !strings.Contains(errs, "it is not over its time") {
		t.Errorf("nothing was swept yet, and it says %s", errs)
	}
	data := filepath.Join(s.dir, "threeds-data")
	path := filepath.Join(data, "journal-keys.json")
	keys, err := journal.LoadKeys(path)
	s.require(err)
	st, err := journal.OpenFiles(data, keys)
	s.require(err)
	s.require(errors.Join(st.Sign(t.Context(), now), st.Expire(t.Context(), over), st.Close())) // as a server does
	before, err := os.ReadFile(path)
	s.require(err)
	out, errs := forget(1, "--before", today) // also days of a month that goes on
	if !strings.Contains(errs, ": it is not older than journal.keep") || !strings.Contains(out, "would go") {
		t.Errorf("it says %s%s", out, errs)
	}
	if out, errs = forget(0, "--before", first); !strings.Contains(out, "would go from the file") ||
		!strings.Contains(errs, "this cannot be undone") || !strings.Contains(errs, "all other nodes") {
		t.Errorf("without --yes it says %s%s", out, errs)
	}
	same, err := os.ReadFile(path)
	s.require(err)
	if string(same) != string(before) {
		t.Error("without --yes it changes the file")
	}
	if out, _ = forget(0, "--before", first, "--yes"); !strings.Contains(out, "are gone from the file") {
		t.Errorf("with --yes it says %s", out)
	}
	after, err := os.ReadFile(path)
	s.require(err)
	if len(after) >= len(before) {
		t.Errorf("the file has %d bytes, and had %d", len(after), len(before))
	}
	if out, _ = forget(0, "--before", first, "--yes"); !strings.HasPrefix(out, "0 erased authentications of 0 days") {
		t.Errorf("for the second time it says %s", out)
	}
	if out, _ := s.must("audit", "search", "--action", "journal.forget"); !strings.Contains(out, "journal.forget") {
		t.Errorf("the audit trail has %s", out)
	}
}
