package main

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// A process is the program as a user starts it.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    logFile // both outputs
	exited chan struct{}
}

// A logFile is the path of what a process writes. Through a pipe it would come a
// moment after the process has gone on.
type logFile string

func (f logFile) String() string {
	text, _ := os.ReadFile(string(f)) // none: nothing was written
	return string(text)
}

// launch runs threeds, which stands in the path of the tests, with further
// environment.
func launch(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command("threeds", args...)}
	p.cmd.Env = append(os.Environ(), env...)
	p.start()
	return p
}

// start runs the command until the test ends.
func (p *process) start() {
	p.t.Helper()
	p.out = logFile(filepath.Join(p.t.TempDir(), "log"))
	log, err := os.Create(string(p.out))
	if err != nil {
		p.t.Fatal(err)
	}
	p.cmd.Stdout = log
	p.startInto(log)
}

// startInto is start with a log of the test's, of which it closes this end.
func (p *process) startInto(log *os.File) {
	p.t.Helper()
	p.exited, p.cmd.Stderr = make(chan struct{}), log
	if err := errors.Join(p.cmd.Start(), log.Close()); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	p.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
	})
}

// end sends a signal and returns how long the process took to exit, which it
// must do in good order.
func (p *process) end(signal os.Signal) time.Duration {
	p.t.Helper()
	start := time.Now()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
	return p.ended(start)
}

func (p *process) ended(start time.Time) time.Duration {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(40 * time.Second):
		p.t.Fatalf("the process does not end:\n%s", p.out.String())
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.t.Errorf("exit status %d:\n%s", code, p.out.String())
	}
	return time.Since(start)
}

// spawnSite is startSite with a process of its own.
func spawnSite(t *testing.T, ca *authority, ds *wire, p plan) (*site, *process) {
	t.Helper()
	dir := t.TempDir()
	s := &site{world: &world{t: t}, ds: ds, ca: ca, config: filepath.Join(dir, "threeds.yaml")}
	text := s.yaml(dir, p)
	addresses := freeAddresses(t, strings.Count(text, "127.0.0.1:0"))
	for _, address := range addresses {
		text = strings.Replace(text, "127.0.0.1:0", address, 1)
	}
	write(t, s.config, []byte(text))
	s.API, s.results, s.console = "http://"+addresses[0], "https://"+addresses[1]+"/results", "http://"+addresses[2]
	s.APIKey, s.OtherAPIKey = s.key("Shop"), s.key("Other")
	proc := launch(t, nil, "serve", "--config", s.config)
	s.log = proc.out
	waitFor(t, "the card ranges", func() bool { return s.readiness() == `{"status":"ready"}` })
	return s, proc
}

// refusing says whether nothing accepts at an address any more.
func refusing(address string) bool {
	c, err := net.Dial("tcp", address)
	if err == nil {
		c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

func host(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		t.Fatalf("no address: %q", address)
	}
	return u.Host
}

// piped is a site whose program has ended, to be started again with its log into a pipe.
func piped(t *testing.T) (s *site, log, end *os.File) {
	t.Helper()
	ca := newAuthority(t)
	s, first := spawnSite(t, ca, newWire(t, ca), plan{})
	first.end(syscall.SIGTERM)
	log, end, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return s, log, end
}

// again starts the program of a spawned site once more, and takes the end of the pipe
// for its log.
func (s *site) again(log *os.File) *process {
	s.t.Helper()
	proc := &process{t: s.t, cmd: exec.Command("threeds", "serve", "--config", s.config)}
	proc.startInto(log)
	return proc
}

// TestLogReaderStandsStill: a log that nobody takes, for the disk behind it hangs, say, is
// no reason to stand still: requests are served, a reload is done, and a signal ends it.
func TestLogReaderStandsStill(t *testing.T) {
	s, log, end := piped(t)
	defer log.Close()
	var err error
	for err == nil { // until there is no room
		err = end.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		_, full := end.Write(make([]byte, 4096))
		err = errors.Join(err, full)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	proc := s.again(end)
	waitFor(t, "the card ranges", func() bool { return s.readiness() == `{"status":"ready"}` })
	s.reload(proc, applied)
	s.through(s.request("2.2.0"))
	proc.end(syscall.SIGTERM)
}

// TestLogReaderGone: a log that nobody reads any more is no reason to end.
func TestLogReaderGone(t *testing.T) {
	s, log, end := piped(t)
	proc := s.again(end)
	waitFor(t, "the card ranges", func() bool { return s.readiness() == `{"status":"ready"}` })
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	s.reload(proc, applied) // which is logged
	s.through(s.request("2.2.0"))
	proc.end(syscall.SIGTERM)
}

// TestTerminate ends a server that has work to do: it says that it is not
// ready, takes no more, finishes what it has, and exits with 0.
func TestTerminate(t *testing.T) {
	ca := newAuthority(t)
	s, proc := spawnSite(t, ca, newWire(t, ca), plan{})
	const n = 24
	var entered sync.WaitGroup
	entered.Add(n)
	leave := make(chan bool)
	s.ds.play(func(w http.ResponseWriter, areq object) {
		entered.Done()
		<-leave
		_, _ = w.Write(marshal(ares(areq, "C")))
	})
	codes := make(chan int, n)
	ids := make([]string, n)
	for i := range n {
		req := s.request("2.2.0")
		ids[i] = req.text("threeDSServerTransID")
		go func() {
			code, _ := s.post("/auth", req)
			codes <- code
		}()
	}
	entered.Wait()
	if ready, build := s.metric("threeds_ready"), s.metric(`threeds_build_info{version="`+releaseVersion()+`"}`); ready != 1 || build != 1 {
		t.Errorf("threeds_ready is %v, threeds_build_info %v, want 1", ready, build)
	}
	before := time.Now()
	stamped := time.UnixMilli(int64(math.Round(1000 * s.metric("threeds_clock_seconds"))))
	if stamped.Before(before.Truncate(time.Millisecond)) || stamped.After(time.Now()) {
		t.Errorf("threeds_clock_seconds says %v at %v", stamped, before)
	}
	start := time.Now()
	if err := proc.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "new connections to be refused", func() bool { return refusing(host(t, s.API)) && refusing(host(t, s.results)) })
	if got := s.readiness(); !strings.Contains(got, `"unready"`) {
		t.Errorf("/readyz while it ends: %q, want unready", got)
	}
	if got := s.metric("threeds_ready"); got != 0 {
		t.Errorf("threeds_ready while it ends: %v, want 0", got)
	}
	since(t, start, time.Second) // as long as a directory server may think
	select {
	case <-proc.exited:
		t.Fatal("it ended with work in flight")
	default:
	}
	close(leave)
	for range n {
		if code := <-codes; code != 200 {
			t.Errorf("an /auth in flight got %d", code)
		}
	}
	took := proc.ended(start)
	if took > 15*time.Second {
		t.Errorf("it took %v to end", took)
	}
	t.Logf("%d in flight, ended after %v", n, took.Round(time.Millisecond))
	again := launch(t, nil, "serve", "--config", s.config)
	waitFor(t, "the card ranges", func() bool { return s.readiness() == `{"status":"ready"}` })
	for _, id := range ids { // what was promised is there
		s.refused("/postauth", object{"threeDSServerTransID": id}, expected{code: "305"})
	}
	again.end(os.Interrupt)
}

// TestTerminateV1 ends a server whose directory of 3-D Secure 1.0.2 fails: the
// second attempt, which would have the time of the first again, is not made.
func TestTerminateV1(t *testing.T) {
	ca := newAuthority(t)
	v1 := newV1DS(t, ca)
	plain, proc := spawnSite(t, ca, newWire(t, ca), plan{sections: v1Section(t, ca, v1.server.URL)})
	s := &legacySite{plain, v1}
	entered, leave := make(chan bool, 2), make(chan bool)
	v1.play(func(w http.ResponseWriter, _ *http.Request, _ string) {
		entered <- true
		<-leave
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	answers := make(chan object, 1)
	go func() {
		defer close(answers)
		_, got := s.form("/enrolled", purchase(v1Visa))
		answers <- got
	}()
	<-entered
	start := time.Now()
	if err := proc.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "new connections to be refused", func() bool { return refusing(host(t, s.API)) })
	close(leave)
	if got := <-answers; got["error"] == nil && got.text("enrolled") == "" {
		t.Errorf("the /enrolled in flight: %v", got)
	}
	proc.ended(start)
	if n := len(v1.came()); n != 1 {
		t.Errorf("%d messages came, want 1", n)
	}
}

// TestTerminateWhileARequestComes: one that has begun to come on a kept connection when
// the server ends is answered.
func TestTerminateWhileARequestComes(t *testing.T) {
	ca := newAuthority(t)
	s, proc := spawnSite(t, ca, newWire(t, ca), plan{})
	secured, err := tls.Dial("tcp", host(t, s.results), s.ds.client.Transport.(*http.Transport).TLSClientConfig)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := net.Dial("tcp", host(t, s.API))
	if err != nil {
		t.Fatal(err)
	}
	const request = "POST /preauth HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
	conns := map[string]net.Conn{"api": plain, "results": secured}
	answers := make(map[string]*bufio.Reader)
	answered := func(when string) {
		t.Helper()
		for name, r := range answers {
			res, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Errorf("%s, %s: %v", name, when, err)
				continue
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil {
				t.Errorf("%s, %s: %v", name, when, err)
			}
		}
	}
	send := func(part string) {
		t.Helper()
		for name, c := range conns {
			if _, err := io.WriteString(c, part); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for name, c := range conns {
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		answers[name] = bufio.NewReader(c)
	}
	send(request)
	answered("before")
	send(request[:20])
	start := time.Now()
	if err := proc.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "new connections to be refused", func() bool { return refusing(host(t, s.API)) && refusing(host(t, s.results)) })
	since(t, start, 300*time.Millisecond) // what is done with the connections is done by now
	send(request[20:])
	answered("while it ends")
	proc.ended(start)
}

// TestTerminateAtOnce ends a server that is to leave no time to what is in work, when
// nothing is: that is no failure.
func TestTerminateAtOnce(t *testing.T) {
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca), plan{sections: "timeouts: {shutdown: 0s}"})
	if err := s.stop(); err != nil {
		t.Errorf("an idle server ends with: %v", err)
	}
}

// spawnBusy spawns a server that has an /auth in work, which ends with the test alone.
func spawnBusy(t *testing.T, p plan) (*site, *process) {
	t.Helper()
	ca := newAuthority(t)
	s, proc := spawnSite(t, ca, newWire(t, ca), p)
	entered, leave := make(chan bool), make(chan bool)
	t.Cleanup(func() { close(leave) })
	s.ds.play(func(http.ResponseWriter, object) {
		entered <- true
		<-leave
	})
	conn, err := net.Dial("tcp", host(t, s.API))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	body := string(marshal(s.request("2.2.0")))
	fmt.Fprintf(conn, "POST /auth HTTP/1.1\r\nHost: x\r\nAPIKey: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", s.APIKey, len(body), body)
	<-entered
	return s, proc
}

// TestTerminateInTime ends a server whose work does not.
func TestTerminateInTime(t *testing.T) {
	_, proc := spawnBusy(t, plan{sections: "timeouts: {shutdown: 3s}"})
	start := time.Now()
	if err := proc.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-proc.exited:
	case <-time.After(30 * time.Second):
		t.Fatal("it does not end")
	}
	if code := proc.cmd.ProcessState.ExitCode(); code == 0 {
		t.Error("exit status 0 though work was lost")
	}
	if !strings.Contains(proc.out.String(), "threeds: what was in flight did not finish in 3s\n") {
		t.Errorf("it does not say why, once:\n%s", proc.out.String())
	}
	t.Logf("ended after %v", time.Since(start).Round(time.Millisecond))
}

// TestSecondSignal: who cannot wait for what is in work ends the server by a second
// signal, at once, and it is seen that it did not end in good order.
func TestSecondSignal(t *testing.T) {
	s, proc := spawnBusy(t, plan{sections: "timeouts: {shutdown: 10m, authentication: 60s}"}) // nothing else ends it
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if err := proc.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if signal == syscall.SIGINT {
			waitFor(t, "the end of the listener", func() bool { return refusing(host(t, s.API)) })
		}
	}
	// On a busy machine the listener may end before the process lets go of its signals: then the next one counts.
	waitFor(t, "the end by a second signal", func() bool {
		select {
		case <-proc.exited:
			return true
		default:
			_ = proc.cmd.Process.Signal(syscall.SIGTERM) // The process may have ended just now.
			return false
		}
	})
	if status := proc.cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("ended with %v, want by the second signal", proc.cmd.ProcessState)
	}
}

// TestSandboxProcess runs the sandbox as its users do, and ends it as they do:
// nothing stays behind.
func TestSandboxProcess(t *testing.T) {
	temp, dir := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "ready.json")
	start := time.Now()
	p := launch(t, []string{"TMPDIR=" + temp}, "sandbox", "--listen", "127.0.0.1:0", "--ready-file", file)
	var got ready
	waitFor(t, "the ready file", func() bool {
		data, err := os.ReadFile(file)
		return err == nil && json.Unmarshal(data, &got) == nil
	})
	took := time.Since(start)
	t.Logf("ready after %v", took.Round(time.Millisecond))
	if took > 10*time.Second { // a second is what is promised, on a machine that does nothing else
		t.Errorf("ready after %v", took)
	}
	w := &world{got, t}
	w.preauth("4000001234560103")
	if len(list(t, temp)) == 0 {
		t.Error("nothing in the temporary directory: the test looks at the wrong place")
	}
	t.Logf("ended after %v", p.end(os.Interrupt).Round(time.Millisecond))
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if left := list(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	for name, address := range map[string]string{"api": got.API, "results": got.Results, "acs": got.ACS, "shop": got.Shop, "control": got.Control} {
		if !refusing(host(t, address)) {
			t.Errorf("%s is still open", name)
		}
	}
	for scheme, address := range got.DS {
		if !refusing(host(t, address)) {
			t.Errorf("the directory server of %s is still open", scheme)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestNoGoroutineStays starts and ends a whole server in this process.
func TestNoGoroutineStays(t *testing.T) {
	http.DefaultClient.CloseIdleConnections()
	before := goleak.IgnoreCurrent()
	t.Run("sandbox", func(t *testing.T) {
		w := startSandbox(t)
		w.card("4000001234560070", "2.2.0", true, true, "70")
	})
	t.Run("serve", func(t *testing.T) {
		ca := newAuthority(t)
		s := startSite(t, ca, newWire(t, ca))
		areq, answer := s.challenged("2.2.0")
		s.result(marshal(rreq(areq, answer, "Y")))
		s.ds.client.CloseIdleConnections()
	})
	http.DefaultClient.CloseIdleConnections()
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}
