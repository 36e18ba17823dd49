// Package pgtest runs PostgreSQL servers for tests: real ones, with syncs, in temporary folders, on loopback ports. A
// test binary has at most one server that its tests share; a [Group] belongs to one test.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
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

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/base/porttest"
)

// patience is how long the server may take for anything, on a busy machine.
const patience = 3 * time.Minute

var errMissing = errors.New("no PostgreSQL")

// A Server is a PostgreSQL that may be halted and started again.
type Server struct {
	bin  string // where PostgreSQL's programs are
	dir  string
	data string // in dir
	port int
	as   *syscall.SysProcAttr

	keeper *exec.Cmd
	life   io.WriteCloser // see keep

	frozen bool

	schemasMu sync.Mutex
	schemas   int // schemas is how many schemas were given to tests.
}

// keep runs a server for as long as its standard input is open, and then ends it immediately, as a crash does. A word
// on the input does the same and leaves the data. Without a word, as when the test binary dies, the data is removed.
const keep = `"$@" >>log 2>&1 & read -r word; kill -QUIT $!; kill -CONT $!; wait $!; [ "$word" ] || rm -rf "$PWD"`

var (
	mu     sync.Mutex
	server *Server
	failed error
)

// Get returns the server of the test binary, which starts with the first call and
// ends with [Stop]. A test that halts a server takes one of its own, from [Start]: after a
// crash PostgreSQL reads every file of the cluster, and here all tests have their files. It is of the version that
// Debian installs. Without PostgreSQL on the machine the test is skipped, in CI it fails.
func Get(t testing.TB) *Server {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	if server == nil && failed == nil {
		server, failed = start(findDefault)
	}
	need(t, failed)
	return server
}

// need ends the test if there is an error, as Get says.
func need(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, errMissing) && os.Getenv("CI") != "true" {
		t.Skipf("NOT TESTED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
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

// Start starts a server of its own for one test, which may halt it. The test fails or is skipped as with [Get].
func Start(t testing.TB) *Server {
	t.Helper()
	return startFor(t, findDefault)
}

// Start18 is [Start] with PostgreSQL 18, whatever version the other tests use. The test is skipped without it, also in
// CI: it comes from a registry that may be away.
func Start18(t testing.TB) *Server {
	t.Helper()
	if _, err := find18(); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	return startFor(t, find18)
}

// startFor starts a server for one test.
func startFor(t testing.TB, find func() (bin string, err error)) *Server {
	t.Helper()
	s, err := start(find)
	need(t, err)
	t.Cleanup(s.Close)
	return s
}

// Run starts a server for a program that is no test, which has to close it.
func Run() (*Server, error) { return start(findDefault) }

// Close ends the server and removes what it kept.
func (s *Server) Close() {
	if s.keeper != nil {
		_ = s.life.Close()
		_ = s.keeper.Wait()
	}
	_ = os.RemoveAll(s.dir)
}

// URL is that of a database with nothing in it, until somebody uses it.
func (s *Server) URL() string { return s.url("public") }

// findDefault returns the folder of PostgreSQL's programs, of the version that Debian installs.
func findDefault() (bin string, err error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", fmt.Errorf("%w under /usr/lib/postgresql (Debian package postgresql)", errMissing)
	}
	return filepath.Dir(slices.Max(found)), nil
}

// find18 returns the folder of the programs of PostgreSQL 18.
func find18() (bin string, err error) {
	for _, bin := range []string{"/usr/lib/postgresql/18/bin", "/usr/local/lib/postgresql/18/bin"} {
		if _, err := os.Stat(filepath.Join(bin, "initdb")); err == nil {
			return bin, nil
		}
	}
	return "", fmt.Errorf("%w 18 under /usr/lib/postgresql/18 or /usr/local/lib/postgresql/18 "+
		"(as root: .ci/postgres18/install /usr/local/lib/postgresql/18)", errMissing)
}

// start makes a database cluster and runs it, with the programs that find finds.
func start(find func() (bin string, err error)) (*Server, error) {
	bin, err := find()
	if err != nil {
		return nil, err
	}
	s, err := place(bin)
	if err != nil {
		return nil, err
	}
	if err = s.create(); err == nil {
		err = s.Start()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// ClustersVariable names the variable with a folder in which test binaries share new database clusters: the first one
// makes a cluster with initdb, which takes a processor most of a second, and the others copy it. Without the variable
// each server has one from initdb.
const ClustersVariable = "PGTEST_CLUSTERS"

// create makes a database cluster for a server that has none.
func (s *Server) create() error {
	shared := os.Getenv(ClustersVariable)
	if shared == "" {
		return s.initdb()
	}
	unlock, err := lockFile(filepath.Join(shared, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	made := filepath.Join(shared, filepath.Base(filepath.Dir(s.bin))) // the version
	if _, err := os.Stat(made); err == nil {
		return copyCluster(made, s.data)
	}
	if err := s.initdb(); err != nil {
		return err
	}
	unfinished := made + ".unfinished"
	return errors.Join(os.RemoveAll(unfinished), copyCluster(s.data, unfinished), os.Rename(unfinished, made))
}

func (s *Server) initdb() error {
	return s.command("initdb", "-D", s.data, "-U", "threeds", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
}

// copyCluster copies the folder of a cluster, with who owns what.
func copyCluster(from, to string) error {
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("cp: %w: %s", err, out)
	}
	return nil
}

// place makes a folder and finds a port for a server, which has no data yet.
func place(bin string) (s *Server, err error) {
	s = &Server{bin: bin}
	if s.dir, err = os.MkdirTemp("", "threeds-postgres-"); err != nil {
		return nil, err
	}
	s.data = filepath.Join(s.dir, "data")
	s.as, err = Unprivileged(s.dir)
	if err == nil {
		s.port, err = porttest.Port()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// command runs one of PostgreSQL's programs as the server's user.
func (s *Server) command(name string, args ...string) error {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir, cmd.SysProcAttr = s.dir, s.as
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// Start runs the server, again after [Server.Halt], and waits until it answers.
func (s *Server) Start() (err error) {
	keeper := exec.Command("/bin/sh", "-c", keep, "sh", filepath.Join(s.bin, "postgres"), "-D", s.data, "-p", strconv.Itoa(s.port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-c", "fsync=on",
		"-c", "max_connections=200", "-c", "shared_buffers=32MB")
	keeper.Dir, keeper.SysProcAttr = s.dir, s.as
	if s.life, err = keeper.StdinPipe(); err != nil {
		return err
	}
	if err := keeper.Start(); err != nil {
		return err
	}
	s.keeper = keeper
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		err := s.checkConnection(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil || errors.Is(err, errForeign):
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			_ = s.life.Close()
			_ = s.keeper.Wait()
			s.keeper = nil
			return fmt.Errorf("the server does not answer: %w: %s", err, log)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// errForeign means that another server has taken the port.
var errForeign = errors.New("another server listens on the port")

// checkConnection returns an error unless a connection to the port leads to this server.
func (s *Server) checkConnection(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.url("public"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx) // the data is no longer needed
	var data string
	if err := conn.QueryRow(ctx, "SHOW data_directory").Scan(&data); err != nil {
		return err
	}
	if data != s.data {
		return fmt.Errorf("%w: %s", errForeign, data)
	}
	return nil
}

// Halt ends the server immediately, as a crash does. A frozen server ends where it is, and sends nothing more.
func (s *Server) Halt() error {
	if s.frozen {
		_ = s.kill()
		s.frozen = false
	}
	if _, err := io.WriteString(s.life, "halt\n"); err != nil {
		return err
	}
	err := errors.Join(s.life.Close(), s.keeper.Wait())
	s.keeper = nil
	return err
}

// Address is where the server listens.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// schemasAtOnce is how many schemas are made on one connection: to begin one costs more than to make them.
const schemasAtOnce = 16

// Schema makes a place of its own for one test and returns its URL.
func (s *Server) Schema(t testing.TB) string {
	t.Helper()
	s.schemasMu.Lock()
	defer s.schemasMu.Unlock()
	name := func(n int) string { return fmt.Sprintf("t%d", n) }
	if s.schemas%schemasAtOnce == 0 {
		var all strings.Builder
		for n := range schemasAtOnce {
			fmt.Fprintf(&all, "CREATE SCHEMA %s;", name(s.schemas+n))
		}
		s.Exec(t, s.url("public"), all.String())
	}
	s.schemas++
	return s.url(name(s.schemas - 1))
}

// url has a connect_timeout that a busy machine keeps, in the place of the usual three seconds.
func (s *Server) url(schema string) string {
	return fmt.Sprintf("postgres://threeds@%s/postgres?sslmode=disable&connect_timeout=60&search_path=%s,public",
		s.Address(), schema)
}

// Exec runs a statement on a connection of its own.
func (s *Server) Exec(t testing.TB, url, sql string, args ...any) {
	t.Helper()
	execAt(t, url, sql, args...)
}
