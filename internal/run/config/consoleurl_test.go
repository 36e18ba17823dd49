package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConsoleURLIsOnThisMachine: an address that means all of this machine is asked on loopback.
func TestConsoleURLIsOnThisMachine(t *testing.T) {
	const good = `api: {listen: 127.0.0.1:0}
results: {listen: 127.0.0.1:0, url: "https://results.example/results", tls: {cert: results.pem, key: results-key.pem}}
store: {url: "file:data"}
console: {listen: 127.0.0.1:0}
server: {reference_number: 3DS_LOA_SER_TEST_020301_00001, requestor_id: ServerID, requestor_name: Server Name}
directories:
  - scheme: visa
    areq_url: https://ds.example/
    preq_url: https://ds.example/
    operator_id: operator-visa
    versions: [2.1.0, 2.2.0, 2.3.1]
    client_cert: {cert: client.pem, key: client-key.pem}
    server_ca: ca.pem
    client_ca: ca.pem
    client_names: [rreq.ds.example]
`
	for listen, want := range map[string]string{
		`127.0.0.1:9090", metrics_listen: "127.0.0.1:9091`: "http://127.0.0.1:9091",
		"0.0.0.0:9090": "http://127.0.0.1:9090", "[::]:9090": "http://[::1]:9090", ":9090": "http://127.0.0.1:9090",
		"10.1.2.3:9": "http://10.1.2.3:9", "127.0.0.1:0": "",
	} {
		file := filepath.Join(t.TempDir(), "threeds.yaml")
		text := strings.Replace(good, "console: {listen: 127.0.0.1:0}", `console: {listen: "`+listen+`"}`, 1)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Read(file)
		if err != nil {
			t.Fatal(err)
		}
		at, _, err := c.ConsoleURL()
		if (err == nil) != (want != "") || err == nil && at.String() != want {
			t.Errorf("%s: %v, %v, want %q", listen, at, err, want)
		}
	}
}
