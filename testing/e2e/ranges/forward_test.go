package ranges

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

	"github.com/openthreeds/threeds/internal/base/porttest"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/peers/tunnel/tunneltest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestThroughForwardProxy runs the example of docs/operating/network.md, which is changed in an
// address and a file alone, with tinyproxy. The names of the directory servers lead
// nowhere but behind it: PReq, card range file, AReq, Erro and VEReq get there. A
// password that is not good any more ends that at a reload, whatever rests, and operators
// are told why; a directory that needs no proxy goes without.
func TestThroughForwardProxy(t *testing.T) {
	t.Parallel()
	program := rig.FindTool(t, "tinyproxy", "the way through a forward proxy")
	example := regexp.MustCompile("(?s)\n```yaml\n(forward_proxy:.*?\n)```\n").FindSubmatch(rig.ReadFile(t, "../../../docs/operating/network.md"))
	if example == nil {
		t.Fatal("docs/operating/network.md has no example")
	}
	ca := rig.NewAuthority(t)
	ds, old, files := rig.NewWire(t, ca), rig.NewV1Directory(t, ca), newFiles(t, ca, "files.example")
	behind := tunneltest.Start(t, nil) // where tinyproxy sends what it lets through
	for name, server := range map[string]string{"ds.example": ds.Server.URL, "v1.ds.example": old.Server.URL, "files.example": files} {
		behind.Way(name+":443", rig.HostOf(t, server))
	}
	straight := ds.Server.URL
	ds.Server.URL = "https://ds.example"
	ds.Ranges = func(preq rig.Object) []byte {
		answer := ds.PRes(preq)
		delete(answer, "cardRangeData")
		return rig.Marshal(answer.With(rig.Object{"cardRangeDataFileURL": "https://files.example/ranges", "serialNum": nil}))
	}
	p := &rig.Proxy{T: t, Dir: t.TempDir(), Address: porttest.Address(t)}
	at, port, _ := net.SplitHostPort(p.Address)
	p.Start(program, []string{"-d", "-c"}, "Listen "+at+"\nPort "+port+"\nBasicAuth threeds hush\nLogLevel Connect\nUpstream http "+behind.Address+"\n")
	secret := filepath.Join(p.Dir, "proxy.secret")
	rig.WriteFile(t, secret, []byte("threeds:hush\n"))
	asked := func() []string { return slices.Sorted(maps.Keys(behind.Asked())) }

	s, proc := rig.SpawnSite(t, ca, ds, rig.Plan{
		Sections: rig.ReplaceAll(t, string(example[1]), "192.0.2.20:8888", p.Address, "proxy.secret", secret) + rig.V1Section(t, ca, "https://v1.ds.example"),
		Visa:     "    file_hosts: [files.example]",
	})
	if got := asked(); !slices.Equal(got, []string{"ds.example:443", "files.example:443"}) {
		t.Errorf("for the card ranges %q were asked for", got)
	}
	s.Through(s.Request("2.3.1"))
	ds.SetAnswer(func(rig.Object) (int, []byte) { return 200, []byte("{}") })
	bad := s.Request("2.2.0")
	_, _ = s.Post("/auth", bad)
	waittest.Until(t, "an Erro", func() bool { return len(ds.Posted(bad.Text("threeDSServerTransID"))) == 1 })
	ds.SetAnswer(nil)
	(&rig.LegacySite{Site: s, V1: old}).Enroll(rig.Purchase(rig.V1Visa))
	if got := asked(); !slices.Equal(got, []string{"ds.example:443", "files.example:443", "v1.ds.example:443"}) {
		t.Errorf("%q were asked for", got)
	}

	rig.WriteFile(t, secret, []byte("threeds:psst\n"))
	s.Reload(proc, rig.ReloadApplied)
	_, answer := s.Post("/auth", s.Request("2.2.0"))
	if answer.Text("errorCode") != "405" || answer.Text("errorDetail") != "Proxy: HTTP status 401 Unauthorized" { // 407 is its answer to who shows nothing
		t.Errorf("with another password: %v", answer)
	}
	if n := s.Metric(`threeds_directory_requests_total{message="AReq",outcome="proxy",scheme="visa"}`); n != 1 {
		t.Errorf("%v AReqs counted that the proxy made no connection for, want 1", n)
	}
	if log := proc.Log.String(); !strings.Contains(log, "proxy http://"+p.Address+", asked for ds.example:443: HTTP status 401 Unauthorized") {
		t.Errorf("the log does not say why:\n%s", log)
	}

	before := behind.Asked()
	rig.WriteFile(t, s.ConfigFile, []byte(strings.Replace(strings.ReplaceAll(s.ConfigText(), "https://ds.example", straight),
		"    file_hosts:", "    forward_proxy: {url: direct}\n    file_hosts:", 1)))
	s.Reload(proc, rig.ReloadApplied)
	s.Through(s.Request("2.2.0"))
	if got := behind.Asked(); !maps.Equal(got, before) {
		t.Errorf("a directory without a proxy: %v were asked for, %v before", got, before)
	}
	proc.End(syscall.SIGTERM)
	for _, word := range []string{"hush", "psst", "dGhyZWVkczp"} {
		if strings.Contains(proc.Log.String(), word) {
			t.Errorf("the log has %q in it", word)
		}
	}
}

// newFiles starts a server of that name with a card range file and returns its URL.
func newFiles(t *testing.T, ca *rig.Authority, name string) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"cardRangeData":[{"ranges":[{"start":"4000000000000000","end":"4000009999999999"}],`+
			`"acsProtocolVersions":[{"version":"2.1.0"},{"version":"2.2.0"},{"version":"2.3.1"}]}]}`)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{ca.Issue(name)}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// TestProxyOfTheEnvironment: a variable by which other programs find a proxy is pointed out
// in the log, and changes nothing.
func TestProxyOfTheEnvironment(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://hush:hush@127.0.0.1:1")
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	s.Through(s.Request("2.2.0"))
	if log := s.Log.String(); !strings.Contains(log, "HTTPS_PROXY is in the environment and is not read") || strings.Contains(log, "hush") {
		t.Errorf("the log:\n%s", log)
	}
}
