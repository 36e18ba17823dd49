package lifecycle

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
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// piped is a site whose program has ended, to be started again with its log into a pipe.
func piped(t *testing.T) (s *rig.Site, log, end *os.File) {
	t.Helper()
	ca := rig.NewAuthority(t)
	s, first := rig.SpawnSite(t, ca, rig.NewWire(t, ca), rig.Plan{})
	first.End(syscall.SIGTERM)
	log, end, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return s, log, end
}

// again starts the program of a spawned site once more, and takes the end of the pipe
// for its log.
func again(s *rig.Site, log *os.File) *rig.Process {
	s.T.Helper()
	proc := &rig.Process{T: s.T, Cmd: exec.Command("threeds", "serve", "--config", s.ConfigFile)}
	proc.StartInto(log)
	return proc
}

// TestLogReaderStandsStill: a log that nobody takes, for the disk behind it hangs, say, is
// no reason to stand still: requests are served, a reload is done, and a signal ends it.
func TestLogReaderStandsStill(t *testing.T) {
	t.Parallel()
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
	proc := again(s, end)
	waittest.Until(t, "the card ranges", func() bool { return s.Readiness() == `{"status":"ready"}` })
	s.Reload(proc, rig.ReloadApplied)
	s.Through(s.Request("2.2.0"))
	proc.End(syscall.SIGTERM)
}

// TestLogReaderGone: a log that nobody reads any more is no reason to end.
func TestLogReaderGone(t *testing.T) {
	t.Parallel()
	s, log, end := piped(t)
	proc := again(s, end)
	waittest.Until(t, "the card ranges", func() bool { return s.Readiness() == `{"status":"ready"}` })
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	s.Reload(proc, rig.ReloadApplied) // which is logged
	s.Through(s.Request("2.2.0"))
	proc.End(syscall.SIGTERM)
}

// TestTerminate ends a server that has work to do: it says that it is not
// ready, takes no more, finishes what it has, and exits with 0.
func TestTerminate(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s, proc := rig.SpawnSite(t, ca, rig.NewWire(t, ca), rig.Plan{})
	const n = 24
	var entered sync.WaitGroup
	entered.Add(n)
	leave := make(chan bool)
	s.Directory.Play(func(w http.ResponseWriter, areq rig.Object) {
		entered.Done()
		<-leave
		_, _ = w.Write(rig.Marshal(rig.ARes(areq, "C")))
	})
	codes := make(chan int, n)
	ids := make([]string, n)
	for i := range n {
		req := s.Request("2.2.0")
		ids[i] = req.Text("threeDSServerTransID")
		go func() {
			code, _ := s.Post("/auth", req)
			codes <- code
		}()
	}
	entered.Wait()
	if ready, build := s.Metric("threeds_ready"), s.Metric(`threeds_build_info{version="`+rig.ReleaseVersion(t)+`"}`); ready != 1 || build != 1 {
		t.Errorf("threeds_ready is %v, threeds_build_info %v, want 1", ready, build)
	}
	before := time.Now()
	stamped := time.UnixMilli(int64(math.Round(1000 * s.Metric("threeds_clock_seconds"))))
	if stamped.Before(before.Truncate(time.Millisecond)) || stamped.After(time.Now()) {
		t.Errorf("threeds_clock_seconds says %v at %v", stamped, before)
	}
	start := time.Now()
	if err := proc.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "new connections to be refused", func() bool {
		return rig.IsRefusing(rig.HostOf(t, s.API)) && rig.IsRefusing(rig.HostOf(t, s.ResultsURL))
	})
	if got := s.Readiness(); !strings.Contains(got, `"unready"`) {
		t.Errorf("/readyz while it ends: %q, want unready", got)
	}
	if got := s.Metric("threeds_ready"); got != 0 {
		t.Errorf("threeds_ready while it ends: %v, want 0", got)
	}
	select {
	case <-proc.Exited:
		t.Fatal("it ended with work in flight")
	default:
	}
	close(leave)
	for range n {
		if code := <-codes; code != 200 {
			t.Errorf("an /auth in flight got %d", code)
		}
	}
	t.Logf("%d in flight, ended after %v", n, proc.WaitForExit(start).Round(time.Millisecond))
	again := rig.Launch(t, nil, "serve", "--config", s.ConfigFile)
	waittest.Until(t, "the card ranges", func() bool { return s.Readiness() == `{"status":"ready"}` })
	for _, id := range ids { // what was promised is there
		s.Refused("/postauth", rig.Object{"threeDSServerTransID": id}, rig.Expected{Code: "305"})
	}
	again.End(os.Interrupt)
}

// TestTerminateV1 ends a server whose directory of 3-D Secure 1.0.2 fails: the
// second attempt, which would have the time of the first again, is not made.
func TestTerminateV1(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	v1 := rig.NewV1Directory(t, ca)
	plain, proc := rig.SpawnSite(t, ca, rig.NewWire(t, ca), rig.Plan{Sections: rig.V1Section(t, ca, v1.Server.URL)})
	s := &rig.LegacySite{Site: plain, V1: v1}
	entered, leave := make(chan bool, 2), make(chan bool)
	v1.Play(func(w http.ResponseWriter, _ *http.Request, _ string) {
		entered <- true
		<-leave
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	answers := make(chan rig.Object, 1)
	go func() {
		defer close(answers)
		_, got := s.Form("/enrolled", rig.Purchase(rig.V1Visa))
		answers <- got
	}()
	<-entered
	start := time.Now()
	if err := proc.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "new connections to be refused", func() bool { return rig.IsRefusing(rig.HostOf(t, s.API)) })
	close(leave)
	if got := <-answers; got["error"] == nil && got.Text("enrolled") == "" {
		t.Errorf("the /enrolled in flight: %v", got)
	}
	proc.WaitForExit(start)
	if n := len(v1.Came()); n != 1 {
		t.Errorf("%d messages came, want 1", n)
	}
}

// TestTerminateWhileARequestComes: one that has begun to come on a kept connection when
// the server ends is answered.
func TestTerminateWhileARequestComes(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s, proc := rig.SpawnSite(t, ca, rig.NewWire(t, ca), rig.Plan{})
	secured, err := tls.Dial("tcp", rig.HostOf(t, s.ResultsURL), s.Directory.Client.Transport.(*http.Transport).TLSClientConfig)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := net.Dial("tcp", rig.HostOf(t, s.API))
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
		answers[name] = bufio.NewReader(c)
	}
	send(request)
	answered("before")
	send(request[:20])
	resting, err := net.Dial("tcp", rig.HostOf(t, s.API)) // another kept connection, on which nothing comes
	rig.Must(t, err)
	defer resting.Close()
	_, err = io.WriteString(resting, request)
	rig.Must(t, err)
	rest := bufio.NewReader(resting)
	res, err := http.ReadResponse(rest, nil)
	rig.Must(t, err)
	_, err = io.Copy(io.Discard, res.Body)
	rig.Must(t, err)
	start := time.Now()
	if err := proc.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, "new connections to be refused", func() bool {
		return rig.IsRefusing(rig.HostOf(t, s.API)) && rig.IsRefusing(rig.HostOf(t, s.ResultsURL))
	})
	_, _ = rest.ReadByte() // ends when the server closes the connections that rest
	send(request[20:])
	answered("while it ends")
	proc.WaitForExit(start)
}

// TestTerminateAtOnce ends a server that is to leave no time to what is in work, when
// nothing is: that is no failure.
func TestTerminateAtOnce(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Sections: "timeouts: {shutdown: 0s}"})
	if err := s.Stop(); err != nil {
		t.Errorf("an idle server ends with: %v", err)
	}
}

// spawnBusy spawns a server that has an /auth in work, which ends with the test alone.
func spawnBusy(t *testing.T, p rig.Plan) (*rig.Site, *rig.Process) {
	t.Helper()
	ca := rig.NewAuthority(t)
	s, proc := rig.SpawnSite(t, ca, rig.NewWire(t, ca), p)
	entered, leave := make(chan bool), make(chan bool)
	t.Cleanup(func() { close(leave) })
	s.Directory.Play(func(http.ResponseWriter, rig.Object) {
		entered <- true
		<-leave
	})
	conn, err := net.Dial("tcp", rig.HostOf(t, s.API))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	body := string(rig.Marshal(s.Request("2.2.0")))
	fmt.Fprintf(conn, "POST /auth HTTP/1.1\r\nHost: x\r\nAPIKey: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", s.APIKey, len(body), body)
	<-entered
	return s, proc
}

// TestTerminateInTime ends a server whose work does not.
func TestTerminateInTime(t *testing.T) {
	t.Parallel()
	_, proc := spawnBusy(t, rig.Plan{Sections: "timeouts: {shutdown: 3s}"})
	start := time.Now()
	if err := proc.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-proc.Exited
	if code := proc.Cmd.ProcessState.ExitCode(); code == 0 {
		t.Error("exit status 0 though work was lost")
	}
	if !strings.Contains(proc.Log.String(), "threeds: what was in flight did not finish in 3s\n") {
		t.Errorf("it does not say why, once:\n%s", proc.Log.String())
	}
	t.Logf("ended after %v", time.Since(start).Round(time.Millisecond))
}

// TestSecondSignal: who cannot wait for what is in work ends the server by a second
// signal, at once, and it is seen that it did not end in good order.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	s, proc := spawnBusy(t, rig.Plan{Sections: "timeouts: {shutdown: 10m, authentication: 60s}"}) // nothing else ends it
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if err := proc.Cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if signal == syscall.SIGINT {
			waittest.Until(t, "the end of the listener", func() bool { return rig.IsRefusing(rig.HostOf(t, s.API)) })
		}
	}
	// On a busy machine the listener may end before the process lets go of its signals: then the next one counts.
	waittest.Until(t, "the end by a second signal", func() bool {
		select {
		case <-proc.Exited:
			return true
		default:
			_ = proc.Cmd.Process.Signal(syscall.SIGTERM) // The process may have ended just now.
			return false
		}
	})
	if status := proc.Cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("ended with %v, want by the second signal", proc.Cmd.ProcessState)
	}
}

// TestSandboxProcess runs the sandbox as its users do, and ends it as they do:
// nothing stays behind.
func TestSandboxProcess(t *testing.T) {
	t.Parallel()
	temp, dir := t.TempDir(), t.TempDir()
	file := filepath.Join(dir, "ready.json")
	start := time.Now()
	p := rig.Launch(t, []string{"TMPDIR=" + temp}, "sandbox", "--listen", "127.0.0.1:0", "--ready-file", file)
	var got rig.ReadyFile
	waittest.Until(t, "the ready file", func() bool {
		data, err := os.ReadFile(file)
		return err == nil && json.Unmarshal(data, &got) == nil
	})
	t.Logf("ready after %v", time.Since(start).Round(time.Millisecond))
	w := &rig.World{ReadyFile: got, T: t}
	w.Preauth("4000001234560103")
	if len(rig.ListFiles(t, temp)) == 0 {
		t.Error("nothing in the temporary directory: the test looks at the wrong place")
	}
	t.Logf("ended after %v", p.End(os.Interrupt).Round(time.Millisecond))
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if left := rig.ListFiles(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	for name, address := range map[string]string{"api": got.API, "results": got.Results, "acs": got.ACS, "shop": got.Shop, "control": got.Control} {
		if !rig.IsRefusing(rig.HostOf(t, address)) {
			t.Errorf("%s is still open", name)
		}
	}
	for scheme, address := range got.DS {
		if !rig.IsRefusing(rig.HostOf(t, address)) {
			t.Errorf("the directory server of %s is still open", scheme)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestSandboxEndsWithItsInput: a program that starts the sandbox with --until-stdin-ends cannot leave it behind.
func TestSandboxEndsWithItsInput(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ready.json")
	cmd := exec.Command("threeds", "sandbox", "--listen", "127.0.0.1:0", "--until-stdin-ends", "--ready-file", file)
	input, err := cmd.StdinPipe()
	rig.Must(t, err)
	p := &rig.Process{T: t, Cmd: cmd}
	p.Start()
	waittest.Until(t, "the ready file", func() bool { _, err := os.Stat(file); return err == nil })
	rig.Must(t, input.Close())
	waittest.Until(t, "the end of the sandbox", func() bool {
		select {
		case <-p.Exited:
			return true
		default:
			return false
		}
	})
	p.WaitForExit(time.Now())
	if _, err := os.Stat(file); err == nil {
		t.Error("the ready file is still there")
	}
}

// TestSandboxLeavesNothingWhenItsReadersAreGone: a program that starts the sandbox and is killed reads neither output
// nor log any more. What the sandbox still has to say does not end it before it has removed its files.
func TestSandboxLeavesNothingWhenItsReadersAreGone(t *testing.T) {
	t.Parallel()
	temp, file := t.TempDir(), filepath.Join(t.TempDir(), "ready.json")
	cmd := exec.Command("threeds", "sandbox", "--listen", "127.0.0.1:0", "--until-stdin-ends", "--ready-file", file)
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	input, err := cmd.StdinPipe()
	rig.Must(t, err)
	reader, output, err := os.Pipe()
	rig.Must(t, err)
	cmd.Stdout, cmd.Stderr = output, output
	rig.Must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	rig.Must(t, output.Close())
	var ready rig.ReadyFile
	waittest.Until(t, "the ready file", func() bool {
		data, err := os.ReadFile(file)
		return err == nil && json.Unmarshal(data, &ready) == nil
	})
	rig.Must(t, reader.Close())
	w := &rig.World{ReadyFile: ready, T: t}
	w.Preauth("4000001234560103") // which has a line in the log
	rig.Must(t, input.Close())
	_ = cmd.Wait() // whatever it says of its output
	if by := cmd.ProcessState; !by.Exited() {
		t.Errorf("the sandbox has ended by %v", by)
	}
	if left := append(rig.ListFiles(t, temp), rig.ListFiles(t, filepath.Dir(file))...); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
