package main

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
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

	"github.com/openthreeds/threeds/internal/certs"
)

// list makes a file of one list that names certificates, valid from an hour ago.
func (a *authority) list(until time.Duration, revoked ...*x509.Certificate) []byte {
	a.t.Helper()
	l := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(until)}
	for _, c := range revoked {
		l.RevokedCertificateEntries = append(l.RevokedCertificateEntries, x509.RevocationListEntry{SerialNumber: c.SerialNumber, RevocationTime: time.Now()})
	}
	der, err := x509.CreateRevocationList(rand.Reader, l, a.cert, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
}

func parsed(t *testing.T, c tls.Certificate) *x509.Certificate {
	t.Helper()
	cert, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// TestReloadRevoked: who is on a list that was taken up is out, in both directions, and
// comes back when he is off it. A list of somebody else changes nothing.
func TestReloadRevoked(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	ds := newWire(t, ca)
	s, proc := spawnSite(t, ca, ds, plan{})
	file := filepath.Join(filepath.Dir(s.config), "crls.pem")
	client := ca.issue("rreq.ds.example")
	ds.client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.pool(), Certificates: []tls.Certificate{client}}}
	asClient, asServer := parsed(t, client), parsed(t, ds.server.TLS.Certificates[0])
	areq, ares := s.challenged("2.2.0")
	id := ares.text("threeDSServerTransID")
	result := marshal(rreq(areq, ares, "Y"))

	posts := func(want int) {
		t.Helper()
		if got, _, _ := ds.post(s.results, []byte("{}")); got != want {
			t.Errorf("on the results address: %d, want %d", got, want)
		}
	}
	asks := func(answered bool) {
		t.Helper()
		req := s.request("2.2.0")
		code, answer := s.post("/auth", req)
		n := len(ds.sent(req.text("threeDSServerTransID")))
		switch {
		case answered && (code != http.StatusOK || n != 1),
			!answered && (n > 0 || answer.text("errorCode")+answer.text("errorDetail") != "405Certificate of the directory server is not trusted"):
			t.Errorf("/auth: %d, %d AReqs; %v", code, n, answer)
		}
	}
	take := func(list []byte) {
		t.Helper()
		write(t, file, list)
		s.reload(proc, applied)
	}
	logged := func(words ...string) {
		t.Helper()
		for line := range strings.Lines(proc.out.String()) {
			found := true
			for _, w := range words {
				found = found && strings.Contains(line, w)
			}
			if found {
				return
			}
		}
		t.Errorf("no line of the log has %q:\n%s", words, proc.out.String())
	}

	write(t, file, ca.list(time.Hour))
	write(t, s.config, []byte(strings.Replace(s.text(), "client_ca: ca.pem", "client_ca: ca.pem\n    crls: crls.pem", 1)))
	s.reload(proc, applied)
	posts(http.StatusOK)
	asks(true)
	if at, want := s.metric(`threeds_crl_next_update_timestamp_seconds{key="directories[0].crls",scheme="visa"}`), time.Now().Add(time.Hour).Unix(); int64(at) > want || int64(at) < want-60 {
		t.Errorf("the list is out of date at %v, want about %d", at, want)
	}

	take(ca.list(time.Hour, asClient))
	posts(http.StatusForbidden) // the connection is open
	logged("client of the results listener turned away", "visa: certificate revoked: serial "+asClient.SerialNumber.Text(16)+", issuer CN=Test CA")
	posts(0)
	if code, _, err := ds.post(s.results, result); err == nil {
		t.Errorf("a result of a client that was revoked: %d", code)
	}
	if code, got := s.postauth(id); code == http.StatusOK {
		t.Errorf("/postauth: %v, and there is no result", got)
	}
	asks(true)

	take(ca.list(time.Hour, asServer))
	posts(http.StatusOK)
	asks(false)
	logged(`"cause":"certificate revoked: serial ` + asServer.SerialNumber.Text(16) + `, issuer CN=Test CA"`)

	write(t, file, newAuthority(t).list(time.Hour))
	s.reload(proc, applied) // the former list stays in use for this directory
	logged("a part of the server is degraded", "directory visa", "directories[0].crls: list 1 of the file is not signed by the CA whose name it has")
	asks(false)

	take(ca.list(-time.Minute)) // nobody is on it, and it is out of date
	logged("directories[0].crls: list 1 of the file is out of date since")
	posts(http.StatusOK)
	asks(true)
	write(t, s.config, []byte(strings.Replace(s.text(), "crls: crls.pem", "crls: crls.pem\n    revocation: required", 1)))
	s.reload(proc, applied)
	posts(http.StatusForbidden)
	posts(0)
	asks(false)
	logged("no revocation list that is valid now: serial " + asServer.SerialNumber.Text(16))

	before := s.metric(applied)
	write(t, file, ca.list(time.Hour)) // without a signal
	waitFor(t, "the list to be taken up", func() bool { return s.metric(applied) > before })
	posts(http.StatusOK)
	asks(true)
	if code, answer, err := ds.post(s.results, result); code != http.StatusOK || answer.text("messageType") != "RRes" {
		t.Errorf("the result at last: %d %v %v", code, answer, err)
	}
	http.DefaultClient.CloseIdleConnections()
	proc.end(syscall.SIGTERM)
}

// TestListsJob runs the job of docs/operating/revocation.md that fetches lists, which is changed in its
// directory and address alone: what it puts into place can be read whatever comes, and
// what is no list of the CA is not put there.
func TestListsJob(t *testing.T) {
	for _, name := range []string{"sh", "curl", "openssl"} {
		tool(t, name, "the job that fetches revocation lists")
	}
	job := regexp.MustCompile("(?s)\n```sh\n(#!/bin/sh -e\n.*?\nmv visa.*?)```\n").FindSubmatch(contents(t, "../../docs/operating/revocation.md"))
	if job == nil {
		t.Fatal("docs/operating/revocation.md has no job")
	}
	root, sub := newAuthority(t), newAuthority(t)
	der := func(a *authority) []byte {
		block, _ := pem.Decode(a.list(time.Hour))
		return block.Bytes
	}
	var says sync.Map // by path
	pki := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list, _ := says.Load(r.URL.Path)
		_, _ = w.Write(list.([]byte))
	}))
	defer pki.Close()
	dir := t.TempDir()
	for name, a := range map[string]*authority{"root.pem": root, "sub.pem": sub} {
		write(t, filepath.Join(dir, name), a.pem())
	}
	script := moved(t, string(job[1]), "/etc/threeds", dir, "http://pki.visa.example", pki.URL)
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
		{"that of another CA", der(newAuthority(t)), false},
		{"a list with something behind it", append(der(sub), "<html>"...), true},
		{"PEM", sub.list(time.Hour), false},
	} {
		says.Store("/sub.crl", tt.sub)
		before, _ := os.ReadFile(filepath.Join(dir, "visa.crl"))
		cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
		if said, err := cmd.CombinedOutput(); (err == nil) != tt.goes {
			t.Errorf("%s: %v: %s", tt.name, err, said)
		}
		after := contents(t, filepath.Join(dir, "visa.crl"))
		if !tt.goes && !bytes.Equal(before, after) {
			t.Errorf("%s: the former lists are gone", tt.name)
		}
		if lists, err := certs.ParseRevocationLists(after); err != nil || len(lists) != 2 {
			t.Errorf("%s: %d lists, %v", tt.name, len(lists), err)
		}
	}
}
