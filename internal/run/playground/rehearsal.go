package playground

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/openthreeds/threeds/message"
	"github.com/openthreeds/threeds/sandbox"
)

// The default addresses of a rehearsal's listeners.
const (
	rehearsalDirectories = "127.0.0.1:8444"
	rehearsalPages       = "127.0.0.1:8445"
)

// foreignFile tells any 3DS Server of the directory servers, and the next start of their
// address.
const foreignFile = "foreign.json"

// A Rehearsal says how directory servers and issuers run for a 3DS Server of its own process.
type Rehearsal struct {
	Dir string // of certificates, keys and configuration; it is made when absent
	Log *slog.Logger

	// DirectoriesListen is HOST:PORT of the directory servers. Empty means where they
	// were before, and the port 0 the port of before.
	DirectoriesListen string

	// PagesListen is HOST:PORT of the pages of the issuers. Empty means 127.0.0.1:8445.
	PagesListen string

	// ResultsCA is a file of authorities that may have signed the certificate of the results listener, besides the one in
	// Dir. Empty means none.
	ResultsCA string

	// Strict refuses a threeDSCompInd Y whose 3DS Method has not completed.
	Strict bool
}

// A foreignDirectory is a directory server in foreign.json.
type foreignDirectory struct {
	Scheme     string `json:"scheme"`
	AReqURL    string `json:"areq_url"`
	PReqURL    string `json:"preq_url"`
	ClientCert string `json:"client_cert"`
	ClientKey  string `json:"client_key"`
	ServerCA   string `json:"server_ca"`
}

// foreignDirectories is the content of foreign.json.
type foreignDirectories struct {
	Directories []foreignDirectory `json:"directories"`
}

// Start starts the directory servers and the issuers, and writes into Dir what is not there
// yet. The caller closes the sandbox.
func (r Rehearsal) Start() (_ *sandbox.Sandbox, err error) {
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return nil, err
	}
	directories, err := r.chooseAddress()
	if err != nil {
		return nil, err
	}
	s := &sandbox.Sandbox{
		Log: r.Log, CertificatesDir: r.Dir, DirectoriesListen: directories,
		PagesListen: cmp.Or(r.PagesListen, rehearsalPages), Outside: !sandbox.IsLocalHost(directories), Strict: r.Strict,
	}
	if r.ResultsCA != "" {
		if s.ResultsCAPEM, err = readAuthorities(r.ResultsCA); err != nil {
			return nil, err
		}
	}
	if err := s.Start(); err != nil {
		return nil, err
	}
	if err := r.writeFiles(s); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// readAuthorities reads a file of certificates.
func readAuthorities(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: no certificate in it, want those of authorities as PEM", file)
	}
	return text, nil
}

// chooseAddress returns where the directory servers listen: where foreign.json says, unless
// DirectoriesListen says otherwise.
func (r Rehearsal) chooseAddress() (string, error) {
	file := filepath.Join(r.Dir, foreignFile)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(r.DirectoriesListen, rehearsalDirectories), nil
	}
	if err != nil {
		return "", err
	}
	var kept foreignDirectories
	if err := json.Unmarshal(text, &kept); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	if len(kept.Directories) == 0 {
		return "", fmt.Errorf("%s: directories: is empty, want the file as the first start wrote it", file)
	}
	at, err := url.Parse(kept.Directories[0].AReqURL)
	if err != nil || at.Port() == "" {
		return "",
			fmt.Errorf("%s: directories[0].areq_url: no URL with a port, want the file as the first start wrote it", file)
	}
	if r.DirectoriesListen == "" {
		return at.Host, nil
	}
	host, port, err := net.SplitHostPort(r.DirectoriesListen)
	if err == nil && port == "0" {
		return net.JoinHostPort(host, at.Port()), nil
	}
	return r.DirectoriesListen, nil // writeFiles refuses another address
}

// writeFiles writes what a 3DS Server needs. Files that are there stay as they are.
func (r Rehearsal) writeFiles(s *sandbox.Sandbox) error {
	foreign, err := describeForeign(s.Directories())
	if err != nil {
		return err
	}
	file := filepath.Join(r.Dir, foreignFile)
	if kept, err := os.ReadFile(file); err == nil && !bytes.Equal(kept, foreign) {
		return fmt.Errorf("%s: was written for other addresses than %s: want that address again, or another directory",
			file, s.DirectoriesURL())
	}
	files := map[string][]byte{
		// The authorities that Dir keeps: of directory servers, 3DS Servers and issuers' pages.
		"ca.pem":         slices.Concat(s.Directories()[0].ServerCAPEM, s.ServersCAPEM(), s.IssuerCAPEM()),
		"results-ca.pem": s.ServersCAPEM(),
		"threeds.yaml":   []byte(describeConfiguration(s.Directories())),
		foreignFile:      foreign,
	}
	for _, d := range s.Directories() {
		files[filepath.Join(d.Scheme, "server-ca.pem")] = d.ServerCAPEM
		files[filepath.Join(d.Scheme, "client-ca.pem")] = d.ClientCAPEM
	}
	for name, content := range files {
		if err := writeNew(filepath.Join(r.Dir, name), content); err != nil {
			return err
		}
	}
	return nil
}

// writeNew writes a file that is not there yet.
func writeNew(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// describeForeign is foreign.json, with paths relative to it.
func describeForeign(all []sandbox.Directory) ([]byte, error) {
	var o foreignDirectories
	for _, d := range all {
		o.Directories = append(o.Directories, foreignDirectory{
			Scheme: d.Scheme, AReqURL: d.URL, PReqURL: d.URL,
			ClientCert: d.Scheme + "/client.pem", ClientKey: d.Scheme + "/client.key", ServerCA: d.Scheme + "/server-ca.pem",
		})
	}
	text, err := json.MarshalIndent(o, "", "  ")
	return append(text, '\n'), err
}

// describeConfiguration is threeds.yaml, a whole configuration for "threeds serve", with paths relative to it.
func describeConfiguration(all []sandbox.Directory) string {
	var b strings.Builder
	b.WriteString(`# Written by threeds sandbox --directories, once. Change it as you like.
api:
  listen: 127.0.0.1:8080
results:
  listen: 127.0.0.1:8443
  url: https://127.0.0.1:8443/results
  tls: {cert: results.pem, key: results.key}
browser: # for the shoppers of this machine; their browsers have to trust results-ca.pem
  listen: 127.0.0.1:8091
  url: https://127.0.0.1:8091
  tls: {cert: results.pem, key: results.key}
console:
  listen: 127.0.0.1:8090
  url: http://localhost:8090
store: {url: "file:threeds-data"}
server:
  reference_number: 3DS_LOA_SER_SANDBOX_020301_00000
  requestor_id: rehearsal
  requestor_name: Rehearsal
merchants:
  - name: My shop
    merchant_name: My shop
    mcc: "5732"
    merchant_country: 208
    requestor_url: https://shop.example
    per_directory:
`)
	for _, d := range all {
		fmt.Fprintf(&b, "      %s: {acquirer_bin: \"400000\", acquirer_merchant_id: M-1001}\n", d.Scheme)
	}
	b.WriteString("directories:\n")
	var versions []string
	for _, v := range message.Versions() {
		versions = append(versions, v.String())
	}
	for i, d := range all {
		fmt.Fprintf(&b, `  - scheme: %[1]s
    areq_url: %[2]s
    preq_url: %[2]s
    operator_id: "1000%04[3]d"
    versions: [%[4]s]
    lab: true
    client_cert: {cert: %[1]s/client.pem, key: %[1]s/client.key}
    server_ca: %[1]s/server-ca.pem
    client_ca: %[1]s/client-ca.pem
    client_names: [%[5]s]
`, d.Scheme, d.URL, i, strings.Join(versions, ", "), d.ClientName)
	}
	return b.String()
}
