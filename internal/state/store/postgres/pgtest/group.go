package pgtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/base/waittest"
)

// A Group is a primary and standbys that follow it. Each commit of the primary waits
// until one of them has it on disk, unless [Group.Asynchronous] says otherwise.
type Group struct {
	t       testing.TB
	servers []*Server
	primary *Server
}

// NewGroup starts a group of a number of servers, which ends with the test. Without PostgreSQL on the machine it does
// what [Get] does.
func NewGroup(t testing.TB, members int) *Group {
	t.Helper()
	g := &Group{t: t}
	bin, err := findDefault()
	need(t, err)
	for range members {
		s, err := place(bin)
		need(t, err)
		t.Cleanup(s.Close)
		g.servers = append(g.servers, s)
	}
	t.Cleanup(g.showLogs)
	first := g.servers[0]
	g.primary = first
	g.must(first.create())
	conf, err := os.OpenFile(filepath.Join(first.data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	g.must(err)
	// A standby asks immediately for a new primary again.
	_, err = conf.WriteString("\nwal_keep_size = 256MB\nwal_retrieve_retry_interval = 100ms\n")
	g.must(errors.Join(err, conf.Close()))
	g.must(first.Start())
	g.exec(first, `ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'`) // the standbys, copies, will want one too
	g.exec(first, `SELECT pg_reload_conf()`)
	g.Rebuild()
	return g
}

// showLogs logs the end of the log of each server, if the test has failed.
func (g *Group) showLogs() {
	for _, s := range g.servers {
		if log, err := os.ReadFile(filepath.Join(s.dir, "log")); err == nil && g.t.Failed() {
			g.t.Logf("the end of the log of %s:\n%s", s.Address(), log[max(0, len(log)-4000):])
		}
	}
}

func (g *Group) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// Primary is the server that takes writes, as far as the group knows.
func (g *Group) Primary() *Server { return g.primary }

// URL names all servers, always in the same order.
func (g *Group) URL() string {
	var hosts []string
	for _, s := range g.servers {
		hosts = append(hosts, s.Address())
	}
	return fmt.Sprintf("postgres://threeds@%s/postgres?sslmode=disable&target_session_attrs=read-write", strings.Join(hosts, ","))
}

// standbys are those that follow the primary.
func (g *Group) standbys() []*Server {
	return slices.DeleteFunc(slices.Clone(g.servers), func(s *Server) bool { return s == g.primary || s.keeper == nil })
}

// follow is how a standby reaches a primary.
func (s *Server) follow() string {
	return fmt.Sprintf("host=127.0.0.1 port=%d user=threeds sslmode=disable", s.port)
}

// Promote makes the standby that has received most the primary, for a commit is on one of the standbys and not on each.
// The others follow it from then on, and Promote waits until they do. The caller decides what becomes of the previous
// primary: halt it first, or there will be two.
func (g *Group) Promote() {
	g.t.Helper()
	others := g.standbys()
	// What the previous primary has sent may still be on its way. If a standby received it after received was called, the
	// standby could be ahead of the new primary, and could not follow it.
	for _, s := range others {
		g.followFrom(s, "")
		g.await(s, "a standby to receive nothing more", `SELECT count(*) = 0 FROM pg_stat_wal_receiver`)
	}
	slices.SortFunc(others, func(a, b *Server) int { return cmp.Compare(g.received(b), g.received(a)) })
	next := others[0]
	g.must(next.command("pg_ctl", "promote", "-D", next.data, "-w", "-s"))
	g.primary = next
	for _, s := range others[1:] {
		g.followFrom(s, next.follow())
	}
	if len(others) > 1 {
		g.streaming(len(others) - 1)
	}
}

// received is how far a standby has got.
func (g *Group) received(s *Server) (lsn uint64) {
	g.t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.url("public"))
	g.must(err)
	defer conn.Close(ctx) // the data is no longer needed
	g.must(conn.QueryRow(ctx, `SELECT (pg_last_wal_receive_lsn() - '0/0')::bigint`).Scan(&lsn))
	return lsn
}

// Rebuild makes standbys of the servers that do not run, with new copies of the primary. It returns when they follow;
// from then on [Group.Promote] loses nothing.
func (g *Group) Rebuild() {
	g.t.Helper()
	for _, s := range g.servers {
		if s.keeper != nil {
			continue
		}
		g.must(os.RemoveAll(s.data))
		g.must(s.command("pg_basebackup", "-D", s.data, "-R", "-X", "stream", "-c", "fast", "--no-sync", "-d", g.primary.follow()))
		g.must(s.Start())
	}
	g.streaming(len(g.servers) - 1)
}

// streaming waits until a number of standbys follow, and until commits wait for them, if they wait for standbys at all.
func (g *Group) streaming(n int) {
	g.t.Helper()
	g.await(g.primary, "the standbys", fmt.Sprintf(`SELECT count(*) >= %d FROM pg_stat_replication WHERE state = 'streaming'
		AND (sync_state = 'quorum' OR current_setting('synchronous_standby_names') = '')`, n))
}

// Asynchronous has no commit wait for a standby from now on.
func (g *Group) Asynchronous() {
	g.t.Helper()
	g.exec(g.primary, `ALTER SYSTEM SET synchronous_standby_names = ''`)
	g.exec(g.primary, `SELECT pg_reload_conf()`)
	g.await(g.primary, "commits that do not wait", `SELECT count(*) = 0 FROM pg_stat_replication WHERE sync_state = 'quorum'`)
}

// Disconnect has the standbys receive nothing any more.
func (g *Group) Disconnect() {
	g.t.Helper()
	for _, s := range g.standbys() {
		g.followFrom(s, "")
	}
	g.await(g.primary, "the standbys to leave", `SELECT count(*) = 0 FROM pg_stat_replication`)
}

func (g *Group) exec(s *Server, sql string) {
	g.t.Helper()
	s.Exec(g.t, s.url("public"), sql)
}

// followFrom makes a standby receive from a primary, given as [Server.follow] returns it. "" means from none.
func (g *Group) followFrom(s *Server, primary string) {
	g.t.Helper()
	g.exec(s, `ALTER SYSTEM SET primary_conninfo = '`+primary+`'`)
	g.exec(s, `SELECT pg_reload_conf()`)
}

// await asks a server until the answer is true.
func (g *Group) await(s *Server, what, sql string) {
	g.t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.url("public"))
	g.must(err)
	defer conn.Close(ctx) // the data is no longer needed
	waittest.Until(g.t, what, func() (isThere bool) {
		if err := conn.QueryRow(ctx, sql).Scan(&isThere); err != nil {
			g.t.Fatalf("waiting for %s: %v", what, err)
		}
		return isThere
	})
}
