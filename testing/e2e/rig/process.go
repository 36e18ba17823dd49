package rig

import (
	"errors"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/porttest"
	"github.com/openthreeds/threeds/internal/base/waittest"
)

// A Process is the program as a user starts it.
type Process struct {
	T      *testing.T
	Cmd    *exec.Cmd
	Log    logFile // both outputs
	Exited chan struct{}
}

// A logFile is the path of what a process writes. Through a pipe it would come a
// moment after the process has gone on.
type logFile string

func (f logFile) String() string {
	text, _ := os.ReadFile(string(f)) // none: nothing was written
	return string(text)
}

// Launch runs threeds, which stands in the path of the tests, with further
// environment.
func Launch(t *testing.T, env []string, args ...string) *Process {
	t.Helper()
	p := &Process{T: t, Cmd: exec.Command("threeds", args...)}
	p.Cmd.Env = append(os.Environ(), env...)
	p.Start()
	return p
}

// Start runs the command until the test ends.
func (p *Process) Start() {
	p.T.Helper()
	p.Log = logFile(filepath.Join(p.T.TempDir(), "log"))
	log, err := os.Create(string(p.Log))
	if err != nil {
		p.T.Fatal(err)
	}
	p.Cmd.Stdout = log
	p.StartInto(log)
}

// StartInto is start with a log of the test's, of which it closes this end.
func (p *Process) StartInto(log *os.File) {
	p.T.Helper()
	p.Exited, p.Cmd.Stderr = make(chan struct{}), log
	if err := errors.Join(p.Cmd.Start(), log.Close()); err != nil {
		p.T.Fatal(err)
	}
	go func() {
		_ = p.Cmd.Wait()
		close(p.Exited)
	}()
	p.T.Cleanup(func() {
		_ = p.Cmd.Process.Kill()
		<-p.Exited
	})
}

// End sends a signal and returns how long the process took to exit, which it
// must do in good order.
func (p *Process) End(signal os.Signal) time.Duration {
	p.T.Helper()
	start := time.Now()
	if err := p.Cmd.Process.Signal(signal); err != nil {
		p.T.Fatal(err)
	}
	return p.WaitForExit(start)
}

func (p *Process) WaitForExit(start time.Time) time.Duration {
	p.T.Helper()
	<-p.Exited
	if code := p.Cmd.ProcessState.ExitCode(); code != 0 {
		p.T.Errorf("exit status %d:\n%s", code, p.Log.String())
	}
	return time.Since(start)
}

// SpawnSite is startSite with a process of its own.
func SpawnSite(t *testing.T, ca *Authority, ds *Wire, p Plan) (*Site, *Process) {
	t.Helper()
	dir := t.TempDir()
	s := &Site{World: &World{T: t}, Directory: ds, Authority: ca, ConfigFile: filepath.Join(dir, "threeds.yaml")}
	text := s.WriteConfiguration(dir, p)
	addresses := porttest.Addresses(t, strings.Count(text, "127.0.0.1:0"))
	for _, address := range addresses {
		text = strings.Replace(text, "127.0.0.1:0", address, 1)
	}
	WriteFile(t, s.ConfigFile, []byte(text))
	s.API, s.ResultsURL, s.ConsoleURL = "http://"+addresses[0], "https://"+addresses[1]+"/results", "http://"+addresses[2]
	s.CreateFirstKeys()
	proc := Launch(t, nil, "serve", "--config", s.ConfigFile)
	s.Log = proc.Log
	waittest.Until(t, "the card ranges", func() bool { return s.Readiness() == `{"status":"ready"}` })
	return s, proc
}

// IsRefusing says whether nothing accepts at an address any more.
func IsRefusing(address string) bool {
	c, err := net.Dial("tcp", address)
	if err == nil {
		c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

func HostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		t.Fatalf("no address: %q", address)
	}
	return u.Host
}
