package main

import (
	"crypto/tls"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/openthreeds/threeds/internal/tunnel/tunneltest"
)

// TestThroughForwardProxy runs the example of docs/operating/network.md, which is changed in an
// address and a file alone, with tinyproxy. The names of the directory servers lead
// nowhere but behind it: PReq, card range file, AReq, Erro and VEReq get there. A
// password that is not good any more ends that at a reload, whatever rests, and operators
// are told why; a directory that needs no proxy goes without.
func TestThroughForwardProxy(t *testing.T) {
	program := tool(t, "tinyproxy", "the way through a forward proxy")
	example := regexp.MustCompile("(?s)\n```yaml\n(forward_proxy:.*?\n)```\n").FindSubmatch(contents(t, "../../docs/operating/network.md"))
	if example == nil {
		t.Fatal("docs/operating/network.md has no example")
	}
	ca := newAuthority(t)
	ds, old, files := newWire(t, ca), newV1DS(t, ca), newFiles(t, ca, "files.example")
	behind := tunneltest.Start(t, nil) // where tinyproxy sends what it lets through
	for name, server := range map[string]string{"ds.example": ds.server.URL, "v1.ds.example": old.server.URL, "files.example": files} {
		behind.Way(name+":443", host(t, server))
	}
	straight := ds.server.URL
	ds.server.URL = "https://ds.example"
	ds.ranges = func(preq object) []byte {
		answer := ds.pres(preq)
		delete(answer, "cardRangeData")
		return marshal(answer.with(object{"cardRangeDataFileURL": "https://files.example/ranges", "serialNum": nil}))
	}
	p := &proxy{t: t, dir: t.TempDir(), address: freeAddress(t)}
	at, port, _ := net.SplitHostPort(p.address)
	p.start(program, []string{"-d", "-c"}, "Listen "+at+"\nPort "+port+"\nBasicAuth threeds hush\nLogLevel Connect\nUpstream http "+behind.Address+"\n")
	secret := filepath.Join(p.dir, "proxy.secret")
	write(t, secret, []byte("threeds:hush\n"))
	asked := func() []string { return slices.Sorted(maps.Keys(behind.Asked())) }

	s, proc := spawnSite(t, ca, ds, plan{
		sections: moved(t, string(example[1]), "192.0.2.20:8888", p.address, "proxy.secret", secret) + v1Section(t, ca, "https://v1.ds.example"),
		visa:     "    file_hosts: [files.example]",
	})
	if got := asked(); !slices.Equal(got, []string{"ds.example:443", "files.example:443"}) {
		t.Errorf("for the card ranges %q were asked for", got)
	}
	s.through(s.request("2.3.1"))
	ds.setAnswer(func(object) (int, []byte) { return 200, []byte("{}") })
	bad := s.request("2.2.0")
	_, _ = s.post("/auth", bad)
	waitFor(t, "an Erro", func() bool { return len(ds.posted(bad.text("threeDSServerTransID"))) == 1 })
	ds.setAnswer(nil)
	(&legacySite{s, old}).enroll(purchase(v1Visa))
	if got := asked(); !slices.Equal(got, []string{"ds.example:443", "files.example:443", "v1.ds.example:443"}) {
		t.Errorf("%q were asked for", got)
	}

	write(t, secret, []byte("threeds:psst\n"))
	s.reload(proc, applied)
	_, answer := s.post("/auth", s.request("2.2.0"))
	if answer.text("errorCode") != "405" || answer.text("errorDetail") != "Proxy: HTTP status 401 Unauthorized" { // 407 is its answer to who shows nothing
		t.Errorf("with another password: %v", answer)
	}
	if n := s.metric(`threeds_directory_requests_total{message="AReq",outcome="proxy",scheme="visa"}`); n != 1 {
		t.Errorf("%v AReqs counted that the proxy made no connection for, want 1", n)
	}
	if log := proc.out.String(); !strings.Contains(log, "proxy http://"+p.address+", asked for ds.example:443: HTTP status 401 Unauthorized") {
		t.Errorf("the log does not say why:\n%s", log)
	}

	before := behind.Asked()
	write(t, s.config, []byte(strings.Replace(strings.ReplaceAll(s.text(), "https://ds.example", straight),
		"    file_hosts:", "    forward_proxy: {url: direct}\n    file_hosts:", 1)))
	s.reload(proc, applied)
	s.through(s.request("2.2.0"))
	if got := behind.Asked(); !maps.Equal(got, before) {
		t.Errorf("a directory without a proxy: %v were asked for, %v before", got, before)
	}
	proc.end(syscall.SIGTERM)
	for _, word := range []string{"hush", "psst", "dGhyZWVkczp"} {
		if strings.Contains(proc.out.String(), word) {
			t.Errorf("the log has %q in it", word)
		}
	}
}

// newFiles starts a server of that name with a card range file and returns its URL.
func newFiles(t *testing.T, ca *authority, name string) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"cardRangeData":[{"ranges":[{"start":"4000000000000000","end":"4000009999999999"}],`+
			`"acsProtocolVersions":[{"version":"2.1.0"},{"version":"2.2.0"},{"version":"2.3.1"}]}]}`)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{ca.issue(name)}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// TestProxyOfTheEnvironment: a variable by which other programs find a proxy is pointed out
// in the log, and changes nothing.
func TestProxyOfTheEnvironment(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://hush:hush@127.0.0.1:1")
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca))
	s.through(s.request("2.2.0"))
	if log := s.log.String(); !strings.Contains(log, "HTTPS_PROXY is in the environment and is not read") || strings.Contains(log, "hush") {
		t.Errorf("the log:\n%s", log)
	}
}
