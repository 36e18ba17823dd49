package ranges

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/peers/certs"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

func parsed(t *testing.T, c tls.Certificate) *x509.Certificate {
	t.Helper()
	cert, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// A heldConnection is a connection to the results listener that is used until the server ends it. An http.Client would
// open another one when a busy machine holds up the goroutine that writes its request.
type heldConnection struct {
	config  *tls.Config
	address string
	conn    *tls.Conn // nil if none is open
}

// post posts a body and returns the status, or 0 if there is no answer. It connects if no connection is open.
func (h *heldConnection) post(body string) (status int, err error) {
	isOpen := false
	defer func() {
		if !isOpen && h.conn != nil {
			_ = h.conn.Close() // nothing more is expected of it
			h.conn = nil
		}
	}()
	if h.conn == nil {
		if h.conn, err = tls.Dial("tcp", h.address, h.config); err != nil {
			return 0, err
		}
	}
	req, err := http.NewRequest(http.MethodPost, "https://"+h.address, strings.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	if err := req.Write(h.conn); err != nil {
		return 0, err
	}
	res, err := http.ReadResponse(bufio.NewReader(h.conn), req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	isOpen = err == nil && !res.Close
	return res.StatusCode, err
}

// TestReloadRevoked: who is on a list that was taken up is out, in both directions, and
// comes back when he is off it. A list of somebody else changes nothing.
func TestReloadRevoked(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	ds := rig.NewWire(t, ca)
	s, proc := rig.SpawnSite(t, ca, ds, rig.Plan{})
	file := filepath.Join(filepath.Dir(s.ConfigFile), "crls.pem")
	client := ca.Issue("rreq.ds.example")
	ds.Client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{client}}}
	asClient, asServer := parsed(t, client), parsed(t, ds.Server.TLS.Certificates[0])
	areq, ares := s.Challenged("2.2.0")
	id := ares.Text("threeDSServerTransID")
	result := rig.Marshal(rig.RReq(areq, ares, "Y"))

	address := rig.HostOf(t, s.ResultsURL)
	open := &heldConnection{config: &tls.Config{RootCAs: ca.Pool(), Certificates: []tls.Certificate{client}}, address: address}
	posts := func(want int) {
		t.Helper()
		if got, err := open.post("{}"); got != want {
			t.Errorf("on the results address: %d, %v; want %d", got, err, want)
		}
	}
	asks := func(answered bool) {
		t.Helper()
		req := s.Request("2.2.0")
		code, answer := s.Post("/auth", req)
		n := len(ds.Sent(req.Text("threeDSServerTransID")))
		switch {
		case answered && (code != http.StatusOK || n != 1),
			!answered && (n > 0 || answer.Text("errorCode")+answer.Text("errorDetail") != "405Certificate of the directory server is not trusted"):
			t.Errorf("/auth: %d, %d AReqs; %v", code, n, answer)
		}
	}
	take := func(list []byte) {
		t.Helper()
		rig.WriteFile(t, file, list)
		s.Reload(proc, rig.ReloadApplied)
	}
	logged := func(words ...string) {
		t.Helper()
		for line := range strings.Lines(proc.Log.String()) {
			found := true
			for _, w := range words {
				found = found && strings.Contains(line, w)
			}
			if found {
				return
			}
		}
		t.Errorf("no line of the log has %q:\n%s", words, proc.Log.String())
	}

	made := time.Now()
	rig.WriteFile(t, file, ca.List(time.Hour))
	rig.WriteFile(t, s.ConfigFile, []byte(strings.Replace(s.ConfigText(), "client_ca: ca.pem", "client_ca: ca.pem\n    crls: crls.pem", 1)))
	s.Reload(proc, rig.ReloadApplied)
	posts(http.StatusOK)
	asks(true)
	if at, want := s.Metric(`threeds_crl_next_update_timestamp_seconds{key="directories[0].crls",scheme="visa"}`),
		time.Now().Add(time.Hour).Unix(); int64(at) > want || int64(at) < made.Add(time.Hour).Unix() {
		t.Errorf("the list is out of date at %v, want about %d", at, want)
	}

	take(ca.List(time.Hour, asClient))
	posts(http.StatusForbidden) // the connection is open
	logged("client of the results listener turned away", "visa: certificate revoked: serial "+asClient.SerialNumber.Text(16)+", issuer CN=Test CA")
	posts(0)
	if code, _, err := ds.Post(s.ResultsURL, result); err == nil {
		t.Errorf("a result of a client that was revoked: %d", code)
	}
	if code, got := s.Postauth(id); code == http.StatusOK {
		t.Errorf("/postauth: %v, and there is no result", got)
	}
	asks(true)

	take(ca.List(time.Hour, asServer))
	posts(http.StatusOK)
	asks(false)
	logged(`"cause":"certificate revoked: serial ` + asServer.SerialNumber.Text(16) + `, issuer CN=Test CA"`)

	rig.WriteFile(t, file, rig.NewAuthority(t).List(time.Hour))
	s.Reload(proc, rig.ReloadApplied) // the former list stays in use for this directory
	logged("a part of the server is degraded", "directory visa", "directories[0].crls: list 1 of the file is not signed by the CA whose name it has")
	asks(false)

	take(ca.List(-time.Minute)) // nobody is on it, and it is out of date
	logged("directories[0].crls: list 1 of the file is out of date since")
	posts(http.StatusOK)
	asks(true)
	rig.WriteFile(t, s.ConfigFile, []byte(strings.Replace(s.ConfigText(), "crls: crls.pem", "crls: crls.pem\n    revocation: required", 1)))
	s.Reload(proc, rig.ReloadApplied)
	posts(http.StatusForbidden)
	posts(0)
	asks(false)
	logged("no revocation list that is valid now: serial " + asServer.SerialNumber.Text(16))

	before := s.Metric(rig.ReloadApplied)
	rig.WriteFile(t, file, ca.List(time.Hour)) // without a signal
	waittest.Until(t, "the list to be taken up", func() bool { return s.Metric(rig.ReloadApplied) > before })
	posts(http.StatusOK)
	asks(true)
	if code, answer, err := ds.Post(s.ResultsURL, result); code != http.StatusOK || answer.Text("messageType") != "RRes" {
		t.Errorf("the result at last: %d %v %v", code, answer, err)
	}
	http.DefaultClient.CloseIdleConnections()
	proc.End(syscall.SIGTERM)
}

// TestListsJob runs the job of docs/operating/revocation.md that fetches lists, which is changed in its
// directory and address alone: what it puts into place can be read whatever comes, and
// what is no list of the CA is not put there.
func TestListsJob(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sh", "curl", "openssl"} {
		rig.FindTool(t, name, "the job that fetches revocation lists")
	}
	job := regexp.MustCompile("(?s)\n```sh\n(#!/bin/sh -e\n.*?\nmv visa.*?)```\n").FindSubmatch(rig.ReadFile(t, "../../../docs/operating/revocation.md"))
	if job == nil {
		t.Fatal("docs/operating/revocation.md has no job")
	}
	root, sub := rig.NewAuthority(t), rig.NewAuthority(t)
	der := func(a *rig.Authority) []byte {
		block, _ := pem.Decode(a.List(time.Hour))
		return block.Bytes
	}
	var says sync.Map // by path
	pki := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list, _ := says.Load(r.URL.Path)
		_, _ = w.Write(list.([]byte))
	}))
	defer pki.Close()
	dir := t.TempDir()
	for name, a := range map[string]*rig.Authority{"root.pem": root, "sub.pem": sub} {
		rig.WriteFile(t, filepath.Join(dir, name), a.PEM())
	}
	script := rig.ReplaceAll(t, string(job[1]), "/etc/threeds", dir, "http://pki.visa.example", pki.URL)
	good := der(sub)
	says.Store("/root.crl", der(root))
	for _, tt := range []struct {
		name string
		sub  []byte // in the place of its list
		goes bool
	}{
		{"good lists", good, true},
		{"a page", []byte("<html>gone</html>"), false},
		{"nothing", nil, false},
		{"a list that is cut off", good[:100], false},
		{"that of another CA", der(rig.NewAuthority(t)), false},
		{"a list with something behind it", append(der(sub), "<html>"...), true},
		{"PEM", sub.List(time.Hour), false},
	} {
		says.Store("/sub.crl", tt.sub)
		before, _ := os.ReadFile(filepath.Join(dir, "visa.crl"))
		cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
		if said, err := cmd.CombinedOutput(); (err == nil) != tt.goes {
			t.Errorf("%s: %v: %s", tt.name, err, said)
		}
		after := rig.ReadFile(t, filepath.Join(dir, "visa.crl"))
		if !tt.goes && !bytes.Equal(before, after) {
			t.Errorf("%s: the former lists are gone", tt.name)
		}
		if lists, err := certs.ParseRevocationLists(after); err != nil || len(lists) != 2 {
			t.Errorf("%s: %d lists, %v", tt.name, len(lists), err)
		}
	}
}
