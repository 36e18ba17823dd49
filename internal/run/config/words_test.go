package config

import (
	"path/filepath"
	"testing"
)

// TestCase15SchemeOfOnesOwn: a directory can have any word as its scheme, without a warning.
func TestCase15SchemeOfOnesOwn(t *testing.T) {
	dir := t.TempDir()
	for name, data := range certificates(t) {
		write(t, filepath.Join(dir, name), data)
	}
	for _, word := range []string{
		"cb", "mir", "rupay", "elo", "eftpos", "troy", "mada", "itmx", // public words
		"bancontact", "girocard", "verve", "meeza", "jaywan", "paypak", "x9", "our-test-scheme-2", // an operator's own
	} {
		file := filepath.Join(dir, "threeds.yaml")
		write(t, file, []byte(`
results: {url: "https://3ds.acquirer.example", tls: {cert: server.pem, key: server.key}}
server: {reference_number: 3DS_LOA_SER_0001}
merchants: [{name: Shop, per_directory: {`+word+`: {requestor_id: X}}}]
directories:
  - {scheme: `+word+`, areq_url: "https://ds.example/", preq_url: "https://ds.example/", versions: [2.2.0],
     client_cert: {cert: client.pem, key: client.key}, server_ca: ca.pem, client_ca: ca.pem, client_names: [ds.example]}
`))
		c, warnings, err := loadConfig(file, noon)
		if err != nil || len(warnings) > 0 || c.Directories[0].Scheme != word {
			t.Errorf("scheme %s: %v, %v", word, warnings, err)
		}
	}
}
