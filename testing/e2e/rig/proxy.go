package rig

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
)

// ReplaceAll is an example with other addresses and files: pairs of what stands there and
// what is to.
func ReplaceAll(t *testing.T, example string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(example, pairs[i]) {
			t.Errorf("the example does not have %q", pairs[i])
		}
	}
	return strings.NewReplacer(pairs...).Replace(example)
}

func ReadFile(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A Proxy stands before the API, and perhaps before the results listener.
type Proxy struct {
	T                     *testing.T
	Dir, Address, Results string
	Client                *http.Client
}

// Start runs a program until the test ends, and waits until it accepts.
func (p *Proxy) Start(program string, args []string, config string) {
	p.T.Helper()
	file := filepath.Join(p.Dir, "proxy.conf")
	WriteFile(p.T, file, []byte(config))
	said := new(LockedBuffer)
	cmd := exec.Command(program, append(args, file)...)
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		p.T.Fatal(err)
	}
	p.T.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if p.T.Failed() {
			p.T.Log(said)
		}
	})
	waittest.Until(p.T, program, func() bool { return !IsRefusing(p.Address) })
}

// Payment goes through the proxy, with a challenge.
func (p *Proxy) Payment(s *Site) {
	p.T.Helper()
	crd := p.call(s, "/preauth", Object{"acctNumber": EnrolledPAN})
	s.Directory.SetAnswer(AnswerStatus("C"))
	answer := p.call(s, "/auth", BrowserRequest("2.2.0", EnrolledPAN, crd.Text("threeDSServerTransID"), "U"))
	if answer.Text("transStatus") != "C" {
		p.T.Fatalf("/auth: %v, want a challenge", answer)
	}
	id := answer.Text("threeDSServerTransID")
	sent := s.Directory.Sent(id)
	if len(sent) != 1 {
		p.T.Fatalf("%d AReqs came, want 1", len(sent))
	}
	if code, got, err := s.Directory.Post(p.Results, Marshal(RReq(sent[0], answer, "Y"))); err != nil || code != 200 || got.Text("messageType") != "RRes" {
		p.T.Fatalf("RReq: %d %v, %v", code, got, err)
	}
	if got := p.call(s, "/postauth", Object{"threeDSServerTransID": id}); got.Text("transStatus") != "Y" {
		p.T.Fatalf("/postauth: %v", got)
	}
}

// call posts what must succeed.
func (p *Proxy) call(s *Site, path string, body Object) Object {
	p.T.Helper()
	req, err := http.NewRequestWithContext(p.T.Context(), http.MethodPost, "https://"+p.Address+path, bytes.NewReader(Marshal(body)))
	if err != nil {
		p.T.Fatal(err)
	}
	req.Header.Set("APIKey", s.APIKey)
	res, err := p.Client.Do(req)
	if err != nil {
		p.T.Fatalf("%s: %v", path, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	var o Object
	if err != nil || res.StatusCode != 200 || json.Unmarshal(data, &o) != nil {
		p.T.Fatalf("%s: %d %.300s, %v", path, res.StatusCode, data, err)
	}
	return o
}
