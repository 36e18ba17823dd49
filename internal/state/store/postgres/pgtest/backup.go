package pgtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// BaseBackup starts a server of its own on a base backup of this one, with the same schemas. It ends with the test.
func (s *Server) BaseBackup(t testing.TB) *Server {
	t.Helper()
	copied, err := place(s.bin)
	need(t, err)
	t.Cleanup(copied.Close)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(copied.command("pg_basebackup", "-D", copied.data, "-X", "stream", "-c", "fast", "--no-sync", "-d", s.follow()))
	must(copied.Start())
	return copied
}

// On returns the URL of a schema, which a server that this one is a copy of has.
func (s *Server) On(schema string) string { return s.url(schema) }

// Files calls do with the content of each file of the cluster, its log of writes among them.
func (s *Server) Files(t testing.TB, do func(path string, content []byte)) {
	t.Helper()
	if err := filepath.WalkDir(s.data, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err == nil {
			do(path, content)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
