package lifecycle

import (
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// A supervisor holds the sockets of a server and hears how it is, as systemd does.
type supervisor struct {
	t      *testing.T
	names  []string
	files  []*os.File
	notify string
	self   net.Conn  // to notify
	echo   chan bool // what came over self

	mu   sync.Mutex
	news []string
}

// aside is what a supervisor tells itself: all that was told before is heard then.
const aside = "aside"

// newSupervisor opens a socket for each name and returns their addresses.
func newSupervisor(t *testing.T, names ...string) (*supervisor, []string) {
	t.Helper()
	v := &supervisor{t: t, names: names, notify: filepath.Join(t.TempDir(), "notify"), echo: make(chan bool)}
	var addresses []string
	for range names {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close(); l.Close() })
		v.files, addresses = append(v.files, f), append(addresses, l.Addr().String())
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: v.notify, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if v.self, err = net.Dial("unixgram", v.notify); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.self.Close() })
	go func() {
		b := make([]byte, 4096)
		for {
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			if string(b[:n]) == aside {
				v.echo <- true
				continue
			}
			v.mu.Lock()
			v.news = append(v.news, string(b[:n]))
			v.mu.Unlock()
		}
	}()
	return v, addresses
}

// heard is how often something was said since the start.
func (v *supervisor) heard(news string) (n int) {
	v.t.Helper()
	if _, err := v.self.Write([]byte(aside)); err != nil {
		v.t.Fatal(err)
	}
	<-v.echo
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, what := range v.news {
		if strings.HasPrefix(what, news) {
			n++
		}
	}
	return n
}

// launch starts a server with the sockets. The shell puts its own number, which
// is that of the server then, where the protocol wants it.
func (v *supervisor) launch(config string, env ...string) *rig.Process {
	v.t.Helper()
	p := &rig.Process{T: v.t}
	p.Cmd = exec.Command("sh", "-c", `LISTEN_PID=${PID:-$$} exec threeds serve --config "$1"`, "sh", config)
	p.Cmd.Env = append(append(os.Environ(), "LISTEN_FDS="+strconv.Itoa(len(v.files)),
		"LISTEN_FDNAMES="+strings.Join(v.names, ":"), "NOTIFY_SOCKET="+v.notify), env...)
	p.Cmd.ExtraFiles = v.files
	p.Start()
	return p
}

// ready launches a server and waits until it says that it is.
func (v *supervisor) ready(config string, env ...string) *rig.Process {
	v.t.Helper()
	before := v.heard("READY=1")
	p := v.launch(config, env...)
	waittest.Until(v.t, "a server that is ready", func() bool { return v.heard("READY=1") > before })
	return p
}

// supervised is a site whose sockets are a supervisor's. Nothing serves yet.
func supervised(t *testing.T, ca *rig.Authority, ds *rig.Wire, sections string) (*rig.Site, *supervisor) {
	t.Helper()
	dir := t.TempDir()
	v, at := newSupervisor(t, "api", "results", "console")
	s := &rig.Site{World: &rig.World{T: t}, Directory: ds, Authority: ca, ConfigFile: filepath.Join(dir, "threeds.yaml")}
	text := s.WriteConfiguration(dir, rig.Plan{Sections: sections})
	for i := range 3 { // what stands there does not count, and must not be in anybody's way
		text = strings.Replace(text, "127.0.0.1:0", "192.0.2.1:"+strconv.Itoa(i+1), 1)
	}
	rig.WriteFile(t, s.ConfigFile, []byte(text))
	s.API, s.ResultsURL, s.ConsoleURL = "http://"+at[0], "https://"+at[1]+"/results", "http://"+at[2]
	s.CreateFirstKeys()
	return s, v
}

// TestRestarts restarts the server again and again under 200 requests a second,
// while its directory server takes its time: not one request fails. Every other
// time the next server begins before the last one ends. RESTARTS=200 is the long
// form, with up to five seconds of the directory server, else it is a third of one.
func TestRestarts(t *testing.T) {
	restarts, slow := 4, 300*time.Millisecond
	if n, err := strconv.Atoi(os.Getenv("RESTARTS")); err == nil {
		restarts, slow = n, 5*time.Second
	}
	ca := rig.NewAuthority(t)
	ds := rig.NewWire(t, ca)
	ds.Client.Transport.(*http.Transport).MaxIdleConnsPerHost = 1000
	ds.Play(func(w http.ResponseWriter, areq rig.Object) {
		time.Sleep(rand.N(slow)) // so that requests are under way at each end
		_, _ = w.Write(rig.Marshal(rig.ARes(areq, "C")))
	})
	s, v := supervised(t, ca, ds, "limits: {per_key: 10000/s, wait: 1m}\ntimeouts: {lame_duck: 500ms, shutdown: 10m}")
	proc := v.ready(s.ConfigFile)
	waittest.Until(t, "the card ranges", func() bool { return s.Readiness() == `{"status":"ready"}` })
	l, stop := startTraffic(t, s, 50)
	defer stop()
	var longest time.Duration
	for i := range restarts {
		l.progress(rand.N(10))
		if i%2 == 0 {
			longest = max(longest, proc.End(syscall.SIGTERM))
			proc = v.ready(s.ConfigFile)
			continue
		}
		next := v.ready(s.ConfigFile)
		longest = max(longest, proc.End(syscall.SIGTERM))
		proc = next
	}
	stop()
	t.Logf("%d restarts, the slowest end took %v", restarts, longest.Round(time.Millisecond))
	l.none(t)
	if n := v.heard("STOPPING=1"); n != restarts {
		t.Errorf("%d servers said that they stop, want %d", n, restarts)
	}
	proc.End(syscall.SIGTERM)
}

// TestSocketThatBlocks ends a server without requests whose sockets another has
// made blocking, as systemd does by default when it starts the next process.
func TestSocketThatBlocks(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s, v := supervised(t, ca, rig.NewWire(t, ca), "")
	proc := v.ready(s.ConfigFile)
	for _, f := range v.files {
		if err := block(f); err != nil {
			t.Fatal(err)
		}
	}
	for _, url := range []string{s.API, "http://" + rig.HostOf(t, s.ResultsURL), s.ConsoleURL} { // so that it waits in the accept after this one
		if res, err := http.Get(url); err == nil {
			res.Body.Close()
		}
	}
	http.DefaultClient.CloseIdleConnections()
	proc.End(syscall.SIGTERM)
}

// TestSupervised: what a service manager hears.
func TestSupervised(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s, v := supervised(t, ca, rig.NewWire(t, ca), "")
	proc := v.ready(s.ConfigFile, "WATCHDOG_USEC=100000")
	waittest.Until(t, "the card ranges", func() bool { return s.Readiness() == `{"status":"ready"}` })
	waittest.Until(t, "signs of life", func() bool { return v.heard("WATCHDOG=1") > 3 })
	before := monotonic()
	s.Reload(proc, rig.ReloadApplied)
	waittest.Until(t, "ready after the reload", func() bool { return v.heard("READY=1") == 2 })
	v.mu.Lock()
	for _, news := range v.news {
		if at, ok := strings.CutPrefix(news, "RELOADING=1\nMONOTONIC_USEC="); ok {
			usec, err := strconv.ParseInt(at, 10, 64)
			if now := time.Duration(usec) * time.Microsecond; err != nil || now < before || now > monotonic() {
				t.Errorf("the reload was at %v, by the clock it was after %v", now, before)
			}
		}
	}
	v.mu.Unlock()
	if n := v.heard("RELOADING=1"); n != 1 {
		t.Errorf("said %d times that it reloads", n)
	}
	proc.End(syscall.SIGTERM)
	if v.heard("STOPPING=1") != 1 {
		t.Error("did not say that it stops")
	}
}

// TestSocketsRefused: sockets that are not for us, or not of the right kind.
func TestSocketsRefused(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	dir := t.TempDir()
	plain, err := os.Create(filepath.Join(dir, "plain"))
	rig.Must(t, err)
	defer plain.Close()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "socket")})
	rig.Must(t, err)
	defer l.Close()
	local, err := l.File()
	rig.Must(t, err)
	defer local.Close()
	for _, tt := range []struct {
		env  []string
		want string
		last *os.File // in the place of the console's socket
	}{
		{[]string{"LISTEN_FDNAMES=api:results:other"}, `socket "other" of the service manager: unknown name (known: api, results, console, metrics, browser)`, nil},
		{[]string{"LISTEN_FDNAMES=api:results:consol"}, `unknown name, did you mean "console"?`, nil},
		{[]string{"LISTEN_FDNAMES=api:results"}, "3 sockets are passed with 2 names", nil},
		{[]string{"LISTEN_FDNAMES=api:results:api"}, `socket "api" of the service manager: passed twice`, nil},
		{[]string{"LISTEN_FDS=x"}, "LISTEN_FDS is not a number of sockets", nil},
		{[]string{"LISTEN_FDS=4", "LISTEN_FDNAMES=api:results:console:"}, `socket "" of the service manager`, nil},
		{[]string{"PID=1"}, "api.listen: listen tcp 192.0.2.1:1", nil}, // so they are not taken
		{[]string{"LISTEN_FDS=", "LISTEN_FDNAMES="}, "api.listen: listen tcp 192.0.2.1:1", nil},
		{[]string{"LISTEN_FDS=0", "LISTEN_FDNAMES="}, "api.listen: listen tcp 192.0.2.1:1", nil},
		{[]string{"LISTEN_FDS=1", "LISTEN_FDNAMES=api"}, "results.listen: listen tcp 192.0.2.1:2", nil},
		{[]string{"LISTEN_FDNAMES=api:results:browser"},
			`connections to it are not answered: stop its unit, or set the key","socket":"browser","key":"browser.url"`, nil},
		{[]string{"LISTEN_FDNAMES=api:results:metrics"}, `"socket":"metrics","key":"console.metrics_listen"`, nil},
		{nil, `socket "console" of the service manager: not a socket to accept on`, plain},
		{nil, `socket "console" of the service manager: not a TCP socket`, local},
	} {
		s, v := supervised(t, ca, rig.NewWire(t, ca), "")
		if tt.last != nil {
			v.files = append(slices.Clone(v.files[:2]), tt.last)
		}
		proc := v.launch(s.ConfigFile, tt.env...)
		<-proc.Exited
		if code := proc.Cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(proc.Log.String(), tt.want) {
			t.Errorf("%v: exit status %d, want %q:\n%s", tt.env, code, tt.want, proc.Log.String())
		}
	}
}

// TestLameDuck: readiness goes, and for as long as it was told the server takes
// requests all the same, each the last on its connection; so are the answers to
// those that had come before.
func TestLameDuck(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s, proc := rig.SpawnSite(t, ca, rig.NewWire(t, ca), rig.Plan{Sections: "timeouts: {lame_duck: 2s}"})
	client := &http.Client{Transport: &http.Transport{}}
	isLast := func(what, path, body string) {
		req, err := http.NewRequest(http.MethodPost, s.API+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("APIKey", s.APIKey)
		res, err := client.Do(req)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		res.Body.Close()
		if res.StatusCode != 200 || !res.Close {
			t.Errorf("%s: %d, last on its connection: %t", what, res.StatusCode, res.Close)
		}
	}
	entered, leave := make(chan bool), make(chan bool)
	s.Directory.Play(func(w http.ResponseWriter, areq rig.Object) {
		entered <- true
		<-leave
		_, _ = w.Write(rig.Marshal(rig.ARes(areq, "Y")))
	})
	body := string(rig.Marshal(s.Request("2.2.0")))
	var before sync.WaitGroup
	before.Go(func() { isLast("an /auth that had come before", "/auth", body) })
	<-entered
	start := time.Now()
	if err := proc.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "unreadiness", func() bool { return strings.Contains(s.Readiness(), `"unready"`) })
	close(leave)
	before.Wait()
	isLast("a new connection while others hear of it", "/preauth", `{"acctNumber":"`+rig.EnrolledPAN+`"}`)
	waittest.Until(t, "new connections to be refused", func() bool { return rig.IsRefusing(rig.HostOf(t, s.API)) })
	if took := time.Since(start); took < 2*time.Second {
		t.Errorf("new connections are refused after %v, want 2s", took)
	}
	http.DefaultClient.CloseIdleConnections()
	proc.WaitForExit(start)
}
