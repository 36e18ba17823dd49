package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A Pair is a primary and a standby that follows it. Each commit of the primary
// waits until the standby has it on disk, unless [Pair.Asynchronous] says otherwise.
type Pair struct {
	t       testing.TB
	servers [2]*Server
	primary atomic.Int32 // which of them
}

// NewPair starts a pair, which ends with the test. Without PostgreSQL on the machine
// it does as [Get].
func NewPair(t testing.TB) *Pair {
	t.Helper()
	p := &Pair{t: t}
	for i := range p.servers {
		s, err := place()
		need(t, err)
		t.Cleanup(s.remove)
		p.servers[i] = s
	}
	first := p.servers[0]
	p.must(first.command("initdb", "-D", first.data, "-U", "threeds", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"))
	conf, err := os.OpenFile(filepath.Join(first.data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	p.must(err)
	// Who was the standby asks for its new primary again at once.
	_, err = conf.WriteString("\nwal_keep_size = 256MB\nwal_retrieve_retry_interval = 100ms\n")
	p.must(errors.Join(err, conf.Close()))
	p.must(first.Start())
	p.exec(`ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'`) // the standby, a copy, will want one too
	p.exec(`SELECT pg_reload_conf()`)
	p.Rebuild()
	return p
}

func (p *Pair) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// Primary is the server that takes writes, as far as the pair has been told.
func (p *Pair) Primary() *Server { return p.servers[p.primary.Load()] }

// Standby is the other one.
func (p *Pair) Standby() *Server { return p.servers[1-p.primary.Load()] }

// URL names both servers, always in the same order.
func (p *Pair) URL() string {
	return fmt.Sprintf("postgres://threeds@%s,%s/postgres?sslmode=disable&target_session_attrs=read-write",
		p.servers[0].Address(), p.servers[1].Address())
}

// Promote makes the standby the primary. What becomes of the former one is the
// caller's business: halt it before, or have two of them.
func (p *Pair) Promote() {
	p.t.Helper()
	p.must(p.Standby().command("pg_ctl", "promote", "-D", p.Standby().data, "-w", "-s"))
	p.primary.Store(1 - p.primary.Load())
}

// Rebuild makes the standby, which does not run, anew from the primary. It returns
// when the standby confirms commits; from then on [Pair.Promote] loses none.
func (p *Pair) Rebuild() {
	p.t.Helper()
	s, from := p.Standby(), p.Primary()
	p.must(os.RemoveAll(s.data))
	p.must(s.command("pg_basebackup", "-D", s.data, "-R", "-X", "stream", "-c", "fast", "--no-sync",
		"-d", fmt.Sprintf("host=127.0.0.1 port=%d user=threeds sslmode=disable", from.port)))
	p.must(s.Start())
	p.await("the standby", `SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'
		AND (sync_state = 'quorum' OR current_setting('synchronous_standby_names') = '')`)
}

// Asynchronous has no commit wait for the standby from now on.
func (p *Pair) Asynchronous() {
	p.t.Helper()
	p.exec(`ALTER SYSTEM SET synchronous_standby_names = ''`)
	p.exec(`SELECT pg_reload_conf()`)
	p.await("commits that do not wait", `SELECT count(*) = 0 FROM pg_stat_replication WHERE sync_state = 'quorum'`)
}

// Disconnect has the standby receive nothing any more.
func (p *Pair) Disconnect() {
	p.t.Helper()
	for _, sql := range []string{`ALTER SYSTEM SET primary_conninfo = ''`, `SELECT pg_reload_conf()`} {
		p.Standby().Exec(p.t, p.Standby().url("public"), sql)
	}
	p.await("the standby to leave", `SELECT count(*) = 0 FROM pg_stat_replication`)
}

func (p *Pair) exec(sql string) {
	p.t.Helper()
	p.Primary().Exec(p.t, p.Primary().url("public"), sql)
}

// await asks the primary until the answer is true.
func (p *Pair) await(what, sql string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.Primary().url("public"))
	p.must(err)
	defer conn.Close(ctx) //nolint:errcheck // nothing is at stake any more
	for there := false; !there; time.Sleep(20 * time.Millisecond) {
		if err := conn.QueryRow(ctx, sql).Scan(&there); err != nil {
			p.t.Fatalf("waiting for %s: %v", what, err)
		}
	}
}

// Freeze stops all processes of the server where they are. Its connections stay
// open and say nothing any more, as those of a machine that hangs.
func (s *Server) Freeze() error { return s.signal(syscall.SIGSTOP) }

// Thaw lets them go on.
func (s *Server) Thaw() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) error {
	file, err := os.ReadFile(filepath.Join(s.data, "postmaster.pid"))
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(file), "\n")
	postmaster, err := strconv.Atoi(first)
	if err != nil {
		return err
	}
	if err := syscall.Kill(postmaster, sig); err != nil { // first, so that it starts no others
		return err
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", postmaster))
	if err != nil {
		return err
	}
	for _, child := range strings.Fields(string(children)) {
		pid, err := strconv.Atoi(child)
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}
