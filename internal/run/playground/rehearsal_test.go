package playground

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/run/config"
)

// startOnce starts a rehearsal, ends it, and returns the files of its directory.
func startOnce(t *testing.T, r Rehearsal) map[string][]byte {
	t.Helper()
	s, err := r.Start()
	must(t, err)
	must(t, s.Close())
	files := make(map[string][]byte)
	must(t, filepath.WalkDir(r.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(r.Dir, path)
		files[filepath.ToSlash(name)], err = os.ReadFile(path)
		return err
	}))
	return files
}

// TestD87SecondStartKeepsFiles: a second start finds its certificates, keys, addresses and
// configuration again, and changes no byte of them, nor of what its user has changed.
func TestD87SecondStartKeepsFiles(t *testing.T) {
	r := Rehearsal{Dir: filepath.Join(t.TempDir(), "lab"), DirectoriesListen: "127.0.0.1:0", PagesListen: "127.0.0.1:0"}
	first := startOnce(t, r)
	want := []string{"ca.pem", "foreign.json", "results-ca.pem", "results.key", "results.pem", "threeds.yaml"}
	for _, scheme := range []string{"visa", "mastercard", "amex", "jcb", "upi", "protectbuy", "sbn", "cb", "standin"} {
		for _, name := range []string{"client.pem", "client.key", "server-ca.pem", "client-ca.pem"} {
			want = append(want, scheme+"/"+name)
		}
	}
	for _, name := range want {
		if len(first[name]) == 0 {
			t.Errorf("%s was not written", name)
		}
	}
	for name := range first {
		info, err := os.Stat(filepath.Join(r.Dir, filepath.FromSlash(name)))
		must(t, err)
		if strings.HasSuffix(name, ".key") && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o, want 600", name, info.Mode().Perm())
		}
	}
	file := filepath.Join(r.Dir, "threeds.yaml")
	first["threeds.yaml"] = append(first["threeds.yaml"], "# changed\n"...)
	must(t, os.WriteFile(file, first["threeds.yaml"], 0o600))
	r.DirectoriesListen = ""
	if second := startOnce(t, r); !maps.EqualFunc(first, second, bytes.Equal) {
		t.Errorf("the second start changed files: %v, before %v",
			slices.Sorted(maps.Keys(second)), slices.Sorted(maps.Keys(first)))
	}
	if _, _, err := config.Load(file, time.Now()); err != nil {
		t.Errorf("the configuration is refused: %v", err)
	}
}

// TestD87ConfigurationIsWhole: the configuration has the listeners at the ports of every other example, and a merchant
// with a profile for each directory server, so that a request for an authentication needs four members.
func TestD87ConfigurationIsWhole(t *testing.T) {
	r := Rehearsal{Dir: filepath.Join(t.TempDir(), "lab"), DirectoriesListen: "127.0.0.1:0", PagesListen: "127.0.0.1:0"}
	startOnce(t, r)
	c, _, err := config.Load(filepath.Join(r.Dir, "threeds.yaml"), time.Now())
	must(t, err)
	got := []string{c.API.Listen, c.Results.Listen, c.Browser.Listen, c.Console.Listen}
	if want := []string{"127.0.0.1:8080", "127.0.0.1:8443", "127.0.0.1:8091", "127.0.0.1:8090"}; !slices.Equal(got, want) {
		t.Errorf("API, results, browser and console listen on %q, want %q", got, want)
	}
	if c.Console.URL == "" || c.Browser.URL == "" || len(c.Merchants) != 1 {
		t.Fatalf("the console is at %q, the pages are at %q, and there are %d merchants", c.Console.URL, c.Browser.URL, len(c.Merchants))
	}
	m := c.Merchants[0]
	if m.MerchantName == "" || m.MCC == "" || m.MerchantCountry == "" || m.RequestorURL == "" || len(m.PerDirectory) != len(c.Directories) {
		t.Errorf("the profile lacks something: %+v", m)
	}
	for _, d := range c.Directories {
		if p := m.PerDirectory[d.Scheme]; p.AcquirerBIN == "" || p.AcquirerMerchantID == "" {
			t.Errorf("the merchant has no acquirer at %s", d.Scheme)
		}
	}
}

// TestD87RefusesAnotherAddress: a start at another address than that of the files is refused,
// since its user would be sent to an address without a listener.
func TestD87RefusesAnotherAddress(t *testing.T) {
	r := Rehearsal{Dir: t.TempDir(), DirectoriesListen: "127.0.0.1:0", PagesListen: "127.0.0.1:0"}
	startOnce(t, r)
	r.DirectoriesListen = "localhost:0"
	before := startOnce(t, r)
	for _, broken := range []string{"{}", `{"directories": [{"areq_url": "https://"}]}`, "no JSON"} {
		must(t, os.WriteFile(filepath.Join(r.Dir, foreignFile), []byte(broken), 0o600))
		if s, err := r.Start(); err == nil || !strings.Contains(err.Error(), foreignFile) {
			t.Errorf("%s: %v, %v", broken, s, err)
		}
	}
	moved := bytes.ReplaceAll(before[foreignFile], []byte("127.0.0.1:"), []byte("127.0.0.2:"))
	must(t, os.WriteFile(filepath.Join(r.Dir, foreignFile), moved, 0o600))
	if s, err := r.Start(); err == nil || !strings.Contains(err.Error(), "other addresses") {
		t.Errorf("%v, %v", s, err)
	}
}

// TestD87ResultsCA: a file of authorities without a certificate is refused before anything
// listens.
func TestD87ResultsCA(t *testing.T) {
	file := filepath.Join(t.TempDir(), "empty.pem")
	must(t, os.WriteFile(file, nil, 0o600))
	r := Rehearsal{Dir: t.TempDir(), DirectoriesListen: "127.0.0.1:0", PagesListen: "127.0.0.1:0", ResultsCA: file}
	if s, err := r.Start(); err == nil || !strings.Contains(err.Error(), "empty.pem: no certificate") {
		t.Errorf("%v, %v", s, err)
	}
}
