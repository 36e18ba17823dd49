package lifecycle

import (
	"crypto/tls"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/openthreeds/threeds/internal/base/porttest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestBehindProxies runs the examples of docs/operating/network.md, which are changed in
// addresses and files alone: payments with a challenge through nginx and HAProxy,
// with two nodes and, when one has ended, with the other.
func TestBehindProxies(t *testing.T) {
	t.Parallel()
	page := rig.ReadFile(t, "../../../docs/operating/network.md")
	for _, name := range []string{"nginx", "haproxy"} {
		t.Run(name, func(t *testing.T) {
			program := rig.FindTool(t, name, "an example in docs/operating/network.md")
			example := regexp.MustCompile("(?s)\n```" + name + "\n(.*?\n)```\n").FindSubmatch(page)
			if example == nil {
				t.Fatal("docs/operating/network.md has none")
			}
			ca := rig.NewAuthority(t)
			ds := rig.NewWire(t, ca)
			a := rig.StartSite(t, ca, ds)
			b := rig.StartSite(t, ca, ds, rig.Plan{Beside: a})
			p := &rig.Proxy{T: t, Dir: t.TempDir(), Address: porttest.Address(t), Results: a.ResultsURL}
			certFile, keyFile := ca.Write(p.Dir, ca.Issue("api.example"), "api")
			if name == "nginx" {
				p.Start(program, []string{"-e", "stderr", "-p", p.Dir, "-g", "daemon off; pid nginx.pid;", "-c"},
					"events {}\nhttp {\naccess_log off;\nclient_body_temp_path .;\n"+rig.ReplaceAll(t, string(example[1]),
						"192.0.2.11:8080", rig.HostOf(t, a.API), "192.0.2.12:8080", rig.HostOf(t, b.API), "listen 443", "listen "+p.Address,
						"api.pem", certFile, "api-key.pem", keyFile)+"}\n")
			} else {
				p.Results = "https://" + porttest.Address(t) + "/results"
				pair := filepath.Join(p.Dir, "pair.pem")
				rig.WriteFile(t, pair, append(rig.ReadFile(t, certFile), rig.ReadFile(t, keyFile)...))
				at := func(node *rig.Site, address string) string {
					_, port, _ := net.SplitHostPort(rig.HostOf(t, node.ConsoleURL))
					return rig.HostOf(t, address) + " port " + port
				}
				p.Start(program, []string{"-f"}, rig.ReplaceAll(t, string(example[1]),
					"192.0.2.11:8080", at(a, a.API), "192.0.2.12:8080", at(b, b.API),
					"192.0.2.11:8443", at(a, a.ResultsURL), "192.0.2.12:8443", at(b, b.ResultsURL),
					"bind :443", "bind "+p.Address, "bind :8443", "bind "+rig.HostOf(t, p.Results), "api.pem", pair))
			}
			p.Client = &http.Client{Transport: &http.Transport{
				TLSClientConfig: &tls.Config{RootCAs: ca.Pool(), ServerName: "api.example"}, ForceAttemptHTTP2: true,
			}}
			defer p.Client.CloseIdleConnections()
			for range 4 {
				p.Payment(a)
			}
			if err := b.Stop(); err != nil {
				t.Fatal(err)
			}
			for range 10 {
				p.Payment(a)
			}
		})
	}
}
