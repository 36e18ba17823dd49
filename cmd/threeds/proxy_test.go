package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestBehindProxies runs the examples of docs/operating/network.md, which are changed in
// addresses and files alone: payments with a challenge through nginx and HAProxy,
// with two nodes and, when one has ended, with the other.
func TestBehindProxies(t *testing.T) {
	page := contents(t, "../../docs/operating/network.md")
	for _, name := range []string{"nginx", "haproxy"} {
		t.Run(name, func(t *testing.T) {
			program := tool(t, name, "an example in docs/operating/network.md")
			example := regexp.MustCompile("(?s)\n```" + name + "\n(.*?\n)```\n").FindSubmatch(page)
			if example == nil {
				t.Fatal("docs/operating/network.md has none")
			}
			ca := newAuthority(t)
			ds := newWire(t, ca)
			a := startSite(t, ca, ds)
			b := startSite(t, ca, ds, plan{beside: a})
			p := &proxy{t: t, dir: t.TempDir(), address: freeAddress(t), results: a.results}
			certFile, keyFile := ca.write(p.dir, ca.issue("api.example"), "api")
			if name == "nginx" {
				p.start(program, []string{"-e", "stderr", "-p", p.dir, "-g", "daemon off; pid nginx.pid;", "-c"},
					"events {}\nhttp {\naccess_log off;\nclient_body_temp_path .;\n"+moved(t, string(example[1]),
						"192.0.2.11:8080", host(t, a.API), "192.0.2.12:8080", host(t, b.API), "listen 443", "listen "+p.address,
						"api.pem", certFile, "api-key.pem", keyFile)+"}\n")
			} else {
				p.results = "https://" + freeAddress(t) + "/results"
				pair := filepath.Join(p.dir, "pair.pem")
				write(t, pair, append(contents(t, certFile), contents(t, keyFile)...))
				at := func(node *site, address string) string {
					_, port, _ := net.SplitHostPort(host(t, node.console))
					return host(t, address) + " port " + port
				}
				p.start(program, []string{"-f"}, moved(t, string(example[1]),
					"192.0.2.11:8080", at(a, a.API), "192.0.2.12:8080", at(b, b.API),
					"192.0.2.11:8443", at(a, a.results), "192.0.2.12:8443", at(b, b.results),
					"bind :443", "bind "+p.address, "bind :8443", "bind "+host(t, p.results), "api.pem", pair))
			}
			p.client = &http.Client{Transport: &http.Transport{
				TLSClientConfig: &tls.Config{RootCAs: ca.pool(), ServerName: "api.example"}, ForceAttemptHTTP2: true,
			}}
			defer p.client.CloseIdleConnections()
			for range 4 {
				p.payment(a)
			}
			if err := b.stop(); err != nil {
				t.Fatal(err)
			}
			for range 10 {
				p.payment(a)
			}
		})
	}
}

// moved is an example with other addresses and files: pairs of what stands there and
// what is to.
func moved(t *testing.T, example string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(example, pairs[i]) {
			t.Errorf("the example does not have %q", pairs[i])
		}
	}
	return strings.NewReplacer(pairs...).Replace(example)
}

func contents(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A proxy stands before the API, and perhaps before the results listener.
type proxy struct {
	t                     *testing.T
	dir, address, results string
	client                *http.Client
}

// start runs a program until the test ends, and waits until it accepts.
func (p *proxy) start(program string, args []string, config string) {
	p.t.Helper()
	file := filepath.Join(p.dir, "proxy.conf")
	write(p.t, file, []byte(config))
	said := new(lockedBuffer)
	cmd := exec.Command(program, append(args, file)...)
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if p.t.Failed() {
			p.t.Log(said)
		}
	})
	waitFor(p.t, program, func() bool { return !refusing(p.address) })
}

// payment goes through the proxy, with a challenge.
func (p *proxy) payment(s *site) {
	p.t.Helper()
	crd := p.call(s, "/preauth", object{"acctNumber": testPAN})
	s.ds.setAnswer(says("C"))
	answer := p.call(s, "/auth", browser("2.2.0", testPAN, crd.text("threeDSServerTransID"), "U"))
	if answer.text("transStatus") != "C" {
		p.t.Fatalf("/auth: %v, want a challenge", answer)
	}
	id := answer.text("threeDSServerTransID")
	sent := s.ds.sent(id)
	if len(sent) != 1 {
		p.t.Fatalf("%d AReqs came, want 1", len(sent))
	}
	if code, got, err := s.ds.post(p.results, marshal(rreq(sent[0], answer, "Y"))); err != nil || code != 200 || got.text("messageType") != "RRes" {
		p.t.Fatalf("RReq: %d %v, %v", code, got, err)
	}
	if got := p.call(s, "/postauth", object{"threeDSServerTransID": id}); got.text("transStatus") != "Y" {
		p.t.Fatalf("/postauth: %v", got)
	}
}

// call posts what must succeed.
func (p *proxy) call(s *site, path string, body object) object {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, "https://"+p.address+path, bytes.NewReader(marshal(body)))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("APIKey", s.APIKey)
	res, err := p.client.Do(req)
	if err != nil {
		p.t.Fatalf("%s: %v", path, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	var o object
	if err != nil || res.StatusCode != 200 || json.Unmarshal(data, &o) != nil {
		p.t.Fatalf("%s: %d %.300s, %v", path, res.StatusCode, data, err)
	}
	return o
}
