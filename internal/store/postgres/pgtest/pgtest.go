// Package pgtest runs a PostgreSQL server for tests: a real one, with syncs, in a
// temporary folder, on a loopback port. A test binary has at most one.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// patience is how long the server may take for anything, on a busy machine.
const patience = time.Minute

var errMissing = errors.New("no PostgreSQL under /usr/lib/postgresql (Debian package postgresql)")

// A Server is a PostgreSQL that may be halted and started again.
type Server struct {
	dir  string
	port int
	argv []string // of the shell that keeps it
	as   *syscall.SysProcAttr

	keeper *exec.Cmd
	life   io.WriteCloser // see keep

	schemas atomic.Int64
}

// keep runs a server for as long as its standard input is open, and then ends it at
// once, as a crash does. A word on the input does the same and leaves the data;
// without one, as when the test binary dies, nothing stays.
const keep = `"$@" >>log 2>&1 & read -r word; kill -QUIT $!; wait $!; [ "$word" ] || rm -rf "$PWD"`

var (
	mu     sync.Mutex
	server *Server
	failed error
)

// Get returns the server of the test binary, which starts with the first call and
// ends with [Stop]. Without PostgreSQL on the machine the test is skipped, in CI it
// fails.
func Get(t testing.TB) *Server {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	if server == nil && failed == nil {
		server, failed = start()
	}
	if errors.Is(failed, errMissing) && os.Getenv("CI") != "true" {
		t.Skipf("NOT TESTED: %v", failed)
	}
	if failed != nil {
		t.Fatal(failed)
	}
	return server
}

// Stop ends the server, if there is one, and removes what it kept. TestMain calls
// it after the tests.
func Stop() {
	mu.Lock()
	defer mu.Unlock()
	if server != nil {
		server.Close()
		server = nil
	}
}

// Run starts a server for a program that is no test, which has to close it.
func Run() (*Server, error) { return start() }

// Close ends the server and removes what it kept.
func (s *Server) Close() {
	_ = s.life.Close()
	_ = s.keeper.Wait()
}

// URL is that of a database with nothing in it, until somebody uses it.
func (s *Server) URL() string { return s.url("public") }

// start makes a database cluster and runs it.
func start() (_ *Server, err error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return nil, errMissing
	}
	bin := filepath.Dir(slices.Max(found))
	s := new(Server)
	if s.dir, err = os.MkdirTemp("", "threeds-postgres-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(s.dir)
		}
	}()
	if s.as, err = unprivileged(s.dir); err != nil {
		return nil, err
	}
	data := filepath.Join(s.dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-U", "threeds", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	initdb.Dir, initdb.SysProcAttr = s.dir, s.as
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.port = l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return nil, err
	}
	s.argv = []string{
		"-c", keep, "sh", filepath.Join(bin, "postgres"), "-D", data, "-p", strconv.Itoa(s.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=on",
		"-c", "max_connections=200", "-c", "shared_buffers=32MB",
	}
	return s, s.Start()
}

// unprivileged gives a folder to a user whom PostgreSQL runs for: it refuses root.
func unprivileged(dir string) (*syscall.SysProcAttr, error) {
	if os.Getuid() != 0 {
		return &syscall.SysProcAttr{Setpgid: true}, nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, _ := strconv.Atoi(nobody.Uid)
	gid, _ := strconv.Atoi(nobody.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		return nil, err
	}
	return &syscall.SysProcAttr{Setpgid: true, Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// Start runs the server, again after [Server.Halt], and waits until it answers.
func (s *Server) Start() (err error) {
	s.keeper = exec.Command("/bin/sh", s.argv...)
	s.keeper.Dir, s.keeper.SysProcAttr = s.dir, s.as
	if s.life, err = s.keeper.StdinPipe(); err != nil {
		return err
	}
	if err := s.keeper.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.url("public"))
		if err == nil {
			return conn.Close(ctx)
		}
		if ctx.Err() != nil {
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			_ = s.life.Close()
			return errors.Join(fmt.Errorf("the server does not answer: %w: %s", err, log), s.keeper.Wait())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Halt ends the server at once, as a crash does.
func (s *Server) Halt() error {
	if _, err := io.WriteString(s.life, "halt\n"); err != nil {
		return err
	}
	return errors.Join(s.life.Close(), s.keeper.Wait())
}

// Address is where the server listens.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Schema makes a place of its own for one test and returns its URL.
func (s *Server) Schema(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("t%d", s.schemas.Add(1))
	s.Exec(t, s.url("public"), "CREATE SCHEMA "+name)
	return s.url(name)
}

func (s *Server) url(schema string) string {
	return fmt.Sprintf("postgres://threeds@%s/postgres?sslmode=disable&search_path=%s,public", s.Address(), schema)
}

// Exec runs a statement on a connection of its own.
func (s *Server) Exec(t testing.TB, url, sql string, args ...any) {
	t.Helper()
	ctx := context.Background() // cleanups want it too
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx) //nolint:errcheck // nothing is at stake any more
	if _, err := conn.Exec(ctx, sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
