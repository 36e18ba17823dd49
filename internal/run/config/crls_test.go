package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRevokedCAIsNotTrusted: if a trusted CA has revoked another CA of the file, that one is not trusted, in either
// direction. Nor is a CA that only such a CA has certified. A list that has not changed is not read again.
func TestRevokedCAIsNotTrusted(t *testing.T) {
	file, first := fullConfig(t)
	dir := filepath.Dir(file)
	text, err := os.ReadFile(file)
	must(t, err)
	load := func(cas, list string) *Config {
		t.Helper()
		write(t, filepath.Join(dir, "trusted.pem"), contents(t, filepath.Join(dir, cas)))
		write(t, filepath.Join(dir, "list.crl"), contents(t, filepath.Join(dir, list)))
		write(t, file, []byte(strings.NewReplacer("ca: ca.pem", "ca: trusted.pem", "crls: ca.crl", "crls: list.crl").Replace(string(text))))
		l, err := newLoader(file)
		must(t, err)
		l.knownLists = first.revocationLists()
		l.loadFiles(noon)
		c, err := l.finish()
		must(t, err)
		return c
	}
	one, both, without := load("ca.pem", "ca.crl"), load("both.pem", "ca.crl"), load("both.pem", "revoked.crl")
	for i, want := range map[*Config]*Config{both: both, without: one} {
		d, w := i.Directories[0], want.Directories[0]
		if !d.ServerCA.Pool.Equal(w.ServerCA.Pool) || !d.ClientCA.Pool.Equal(w.ClientCA.Pool) {
			t.Error("other CAs are trusted than those that were not revoked")
		}
	}
	if both.Directories[0].ServerCA.Pool.Equal(one.Directories[0].ServerCA.Pool) {
		t.Error("a CA that was not revoked is not trusted")
	}
	for cas, want := range map[string][]string{"three.pem": {"ca"}, "four.pem": {"deep", "ca", "below"}, "strange.pem": {"ca", "strange"}} {
		d := load(cas, "revoked.crl").Directories[0]
		for _, f := range []CAFile{d.ServerCA, d.ClientCA} {
			var got []string
			for _, cert := range f.Certs {
				got = append(got, cert.Subject.CommonName)
			}
			if !slices.Equal(got, want) || !f.Pool.Equal(newPool(f.Certs)) {
				t.Errorf("of %s %q are trusted, want %q", cas, got, want)
			}
		}
	}
	if one.Directories[0].CRLs.Lists[0] != first.Directories[0].CRLs.Lists[0] || one.V1[0].CRLs.Lists[0] != first.V1[0].CRLs.Lists[0] {
		t.Error("a list that has not changed was read again")
	}
}
