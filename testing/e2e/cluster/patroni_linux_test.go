package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/base/porttest"
	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

const (
	patroniPage  = rig.Root + "/docs/operating/patroni.md"
	patroniFiles = rig.DeployDir + "/patroni/"
)

// A databaseMachine is one of three. It has a member of etcd, and PostgreSQL under Patroni, as
// docs/operating/patroni.md sets them up, with addresses and folders of the test.
type databaseMachine struct {
	t             *testing.T
	name          string // as Patroni calls it
	dir, data     string
	as            *syscall.SysProcAttr
	settings      []string // the environment of etcd
	etcdAddress   string   // for clients
	api           string   // the address of Patroni's API
	etcd, patroni *exec.Cmd
}

// A patroniGroup is the three machines.
type patroniGroup struct {
	t        *testing.T
	machines []*databaseMachine
	client   *http.Client
	url      string // store.url of the nodes
}

// keepRunning runs a program as long as the standard input is open. Then it ends the program in good order: a Patroni
// that ends so also ends its PostgreSQL. So nothing stays when this process dies. As init does on a machine, it takes
// in the processes that the program leaves behind, and the dead among them are gone immediately. An init that lets them
// wait makes Patroni believe that they live.
const keepRunning = `
import ctypes, os, select, shutil, signal, subprocess, sys
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
ended, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
signal.signal(signal.SIGCHLD, lambda *_: None)
log = open(os.path.basename(sys.argv[1]) + ".log", "ab")
program = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
watched = [0, ended]
while True:
    ready = select.select(watched, [], [])[0]
    if 0 in ready:
        watched = [ended]
        os.kill(program.pid, signal.SIGTERM)
    if ended in ready:
        os.read(ended, 4096)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        break
if sys.argv[1] == "patroni" and 0 not in watched:
    shutil.rmtree(os.getcwd(), ignore_errors=True)
`

// newPatroniGroup starts three machines, waits until one is the primary and the others follow, and makes the
// database of the nodes.
func newPatroniGroup(t *testing.T) *patroniGroup {
	t.Helper()
	g := &patroniGroup{t: t, client: &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}}
	ca := rig.NewAuthority(t)
	free := porttest.Addresses(t, 12)
	databases, apis, clients, peers := free[:3], free[3:6], free[6:9], free[9:]
	for i := range 3 {
		dir, err := os.MkdirTemp("", "threeds-patroni-") // one of the test has a parent that is root's alone
		rig.Must(t, err)
		m := &databaseMachine{t: t, name: nameOf(i), dir: dir, data: filepath.Join(dir, "data"), api: apis[i], etcdAddress: clients[i]}
		g.machines = append(g.machines, m)
		t.Cleanup(func() {
			m.kill()
			if t.Failed() {
				t.Logf("%s ends its log with:\n%s", m.name, m.log(6000))
			}
			rig.Must(t, os.RemoveAll(dir))
		})
		here := strings.NewReplacer(
			"name: db1", "name: "+m.name, "ETCD_NAME=db1", "ETCD_NAME="+m.name,
			"db1=http://10.0.0.1:2380", "db1=http://"+peers[0], "10.0.0.2:2380", peers[1], "10.0.0.3:2380", peers[2],
			"ETCD_LISTEN_CLIENT_URLS=http://10.0.0.1:2379", "ETCD_LISTEN_CLIENT_URLS=http://"+clients[i],
			"ETCD_ADVERTISE_CLIENT_URLS=http://10.0.0.1:2379", "ETCD_ADVERTISE_CLIENT_URLS=http://"+clients[i],
			"10.0.0.1:2380", peers[i], "10.0.0.1:8008", apis[i], "10.0.0.1:5432", databases[i],
			"10.0.0.1:2379", clients[0], "10.0.0.2:2379", clients[1], "10.0.0.3:2379", clients[2],
			"10.0.0.0/24", "127.0.0.1/32", "/var/lib/etcd/threeds", filepath.Join(dir, "etcd"), "/etc/patroni/", dir+"/",
			"/var/lib/postgresql/15/threeds", m.data, "/var/lib/postgresql/", dir+"/", "/var/run/postgresql", dir,
		)
		m.settings = environmentOf(here.Replace(string(rig.ReadFile(t, patroniFiles+"etcd"))))
		rig.WriteFile(t, filepath.Join(dir, "patroni.yml"), []byte(here.Replace(string(rig.ReadFile(t, patroniFiles+"patroni.yml")))))
		ca.Write(dir, ca.Issue(m.name+".example"), "db")
		m.as, err = pgtest.Unprivileged(dir)
		rig.Must(t, err)
		m.start()
	}
	waittest.Until(t, "a primary with two standbys", g.isWhole)

	page := string(rig.ReadFile(t, patroniPage))
	own := t.TempDir()
	rig.WriteFile(t, filepath.Join(own, "ca.pem"), ca.PEM())
	rig.WriteFile(t, filepath.Join(own, "pgpass"), []byte("*:*:*:threeds:change-me-4\n"))
	url := regexp.MustCompile(`(?m)^store: \{url: "(.*)"\}$`).FindStringSubmatch(page)
	if url == nil {
		t.Fatalf("%s has no store.url", patroniPage)
	}
	g.url = strings.NewReplacer("db1.example,db2.example,db3.example", strings.Join(databases, ","),
		"=db-ca.pem", "="+filepath.Join(own, "ca.pem"), "=pgpass", "="+filepath.Join(own, "pgpass")).Replace(url[1])
	admin, err := pgx.Connect(t.Context(), fmt.Sprintf(
		"postgres://postgres:change-me-1@%s/postgres?sslmode=require&target_session_attrs=read-write", strings.Join(databases, ",")))
	rig.Must(t, err)
	defer admin.Close(context.WithoutCancel(t.Context()))
	for _, statement := range regexp.MustCompile(`(?m)^(CREATE .*);$`).FindAllStringSubmatch(page, -1) {
		_, err = admin.Exec(t.Context(), statement[1])
		rig.Must(t, err)
	}
	for _, address := range databases {
		waittest.Until(t, "the database on "+address, func() bool {
			conn, err := pgx.Connect(t.Context(), "postgres://threeds:change-me-4@"+address+"/threeds?sslmode=require")
			return err == nil && conn.Close(t.Context()) == nil
		})
	}
	return g
}

func nameOf(machine int) string { return fmt.Sprintf("db%d", machine+1) }

// environmentOf returns the settings of a file such as /etc/default/etcd.
func environmentOf(text string) (settings []string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, "=") && !strings.HasPrefix(line, "#") {
			settings = append(settings, strings.TrimSpace(line))
		}
	}
	return settings
}

// log returns the end of what Patroni has written, PostgreSQL's lines among them.
func (m *databaseMachine) log(most int) string {
	log, err := os.ReadFile(filepath.Join(m.dir, "patroni.log"))
	if err != nil {
		return err.Error()
	}
	return string(log[max(0, len(log)-most):])
}

// start switches the machine on.
func (m *databaseMachine) start() {
	m.t.Helper()
	m.etcd = m.launch("etcd")
	m.patroni = m.launch("patroni", filepath.Join(m.dir, "patroni.yml"))
}

func (m *databaseMachine) launch(program string, args ...string) *exec.Cmd {
	m.t.Helper()
	cmd := exec.Command("/usr/bin/python3", slices.Concat([]string{"-c", keepRunning, program}, args)...)
	cmd.Dir, cmd.SysProcAttr = m.dir, m.as
	cmd.Env = append(append(os.Environ(), "HOME="+m.dir), m.settings...) // libpq looks for certificates at home
	_, err := cmd.StdinPipe()                                            // stays open as long as this process lives
	rig.Must(m.t, errors.Join(err, cmd.Start()))
	return cmd
}

// signalAll sends a signal to all processes of the machine.
func (m *databaseMachine) signalAll(sig syscall.Signal) {
	m.t.Helper()
	for _, group := range []*exec.Cmd{m.patroni, m.etcd} {
		if group != nil {
			rig.Must(m.t, syscall.Kill(-group.Process.Pid, sig))
		}
	}
	m.signalPostgres(sig)
}

// signalPostgres sends a signal to all processes of PostgreSQL, if there are any.
func (m *databaseMachine) signalPostgres(sig syscall.Signal) {
	m.t.Helper()
	if err := pgtest.Signal(m.data, sig); !errors.Is(err, os.ErrProcessDone) {
		rig.Must(m.t, err)
	}
}

// kill ends all processes of the machine, as a power cut does.
func (m *databaseMachine) kill() {
	m.t.Helper()
	m.signalAll(syscall.SIGKILL)
	for _, group := range []*exec.Cmd{m.patroni, m.etcd} {
		if group != nil {
			_ = group.Wait() // It was killed.
		}
	}
	m.etcd, m.patroni = nil, nil
}

// A patroniMember is what Patroni's API says of a machine.
type patroniMember struct {
	Name, Role, State string
	Timeline          int
}

// members returns what the Patroni of a machine says of all; none if it does not answer.
func (g *patroniGroup) members(m *databaseMachine) []patroniMember {
	var all struct{ Members []patroniMember }
	res, err := g.client.Get("http://" + m.api + "/cluster")
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	_ = json.NewDecoder(res.Body).Decode(&all) // none: it does not know yet
	return all.Members
}

// isWhole reports whether there is a primary, and both standbys follow it and confirm its commits,
// and each machine says so.
func (g *patroniGroup) isWhole() bool {
	for _, m := range g.machines {
		members := g.members(m)
		roles := map[string]int{}
		for _, one := range members {
			if one.Timeline == members[0].Timeline && one.State == "running" {
				roles[one.Role]++
			}
		}
		if len(members) != 3 || roles["leader"] != 1 || roles["sync_standby"] != 2 {
			return false
		}
	}
	return true
}

// primary returns the machine that all say is the primary.
func (g *patroniGroup) primary() (primary *databaseMachine, timeline int) {
	g.t.Helper()
	for _, one := range g.members(g.machines[0]) {
		for _, m := range g.machines {
			if one.Role == "leader" && one.Name == m.name {
				primary, timeline = m, one.Timeline
			}
		}
	}
	if primary == nil {
		g.t.Fatal("no primary")
	}
	return primary, timeline
}

// leadsEtcd reports whether the leader of etcd is on a machine.
func (g *patroniGroup) leadsEtcd(m *databaseMachine) bool {
	var status struct {
		Header struct {
			Member string `json:"member_id"`
		}
		Leader string
	}
	res, err := g.client.Post("http://"+m.etcdAddress+"/v3/maintenance/status", "application/json", strings.NewReader("{}"))
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return json.NewDecoder(res.Body).Decode(&status) == nil && status.Leader == status.Header.Member
}

// set changes settings of all, as patronictl edit-config does.
func (g *patroniGroup) set(settings string) {
	g.t.Helper()
	primary, _ := g.primary()
	req, err := http.NewRequest(http.MethodPatch, "http://"+primary.api+"/config", strings.NewReader(settings))
	rig.Must(g.t, err)
	res, err := g.client.Do(req)
	rig.Must(g.t, err)
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		g.t.Fatalf("Patroni does not take %s: %s", settings, res.Status)
	}
}

// A death is a way in which a machine goes away.
type death struct {
	name string
	// settings are those in place of the file's; none: those before. part is how many of the kills it gets, one in so
	// many.
	settings   string
	part       int
	ofAStandby bool // not of the primary
	// limit is the longest gap that 19 of 20 may have; none: as long as it takes. It holds on a quiet
	// machine, for 20 or more.
	limit time.Duration
	// strike does it. raise brings the machine back after it; nil: Patroni does.
	strike, raise func(*databaseMachine)
}

var deaths = []death{
	{name: "postgres", part: 1, limit: 4 * time.Second, strike: killPostgres},
	{name: "machine", part: 1, strike: (*databaseMachine).kill, raise: (*databaseMachine).start},
	{name: "machine of a standby", part: 4, ofAStandby: true, strike: (*databaseMachine).kill, raise: (*databaseMachine).start},
	{name: "machine falls silent", part: 5, strike: (*databaseMachine).freeze, raise: (*databaseMachine).restart},
	{name: "machine, ttl 20", settings: `{"ttl": 20, "retry_timeout": 3}`, part: 5,
		strike: (*databaseMachine).kill, raise: (*databaseMachine).start},
}

func killPostgres(m *databaseMachine) { m.signalPostgres(syscall.SIGKILL) }

// freeze stops all processes of the machine where they are: it says nothing any more.
func (m *databaseMachine) freeze() { m.signalAll(syscall.SIGSTOP) }

func (m *databaseMachine) restart() {
	m.kill()
	m.start()
}

// TestPatroniFailover kills the primary of three under Patroni, or a standby, again and again, while two nodes are
// under load. Nothing that was acknowledged is lost, and no AReq leaves twice. PATRONI is how often in each way, and
// without it nothing is killed: each kill takes some seconds. The gap has a limit only where there are at least twenty.
func TestPatroniFailover(t *testing.T) {
	if os.Getenv("PATRONI") == "" {
		t.Skip("NOT TESTED: failover by Patroni takes minutes; go -C testing run ./long patroni has it")
	}
	for _, program := range []string{"etcd", "patroni", "/usr/lib/postgresql/15/bin/initdb"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("NOT TESTED: failover by Patroni: no %s. go -C testing run ./long patroni installs it", program)
		}
	}
	kills := rig.ReadCount(t, "PATRONI", 3)
	g := newPatroniGroup(t)
	c := newClusterOf(t, 2, g.url)
	for _, d := range deaths {
		var gaps []time.Duration
		acknowledged, failures := 0, 0
		kills := kills / d.part
		if kills == 0 {
			continue
		}
		if d.settings != "" {
			g.set(d.settings)
		}
		for i := range kills {
			waittest.Until(t, "a primary with two standbys", g.isWhole)
			former, before := g.primary()
			if d.ofAStandby {
				former = g.machines[(slices.Index(g.machines, former)+1)%len(g.machines)]
			}
			hadEtcd := g.leadsEtcd(former)
			l := c.load()
			l.acknowledged(25)
			begin := time.Now()
			d.strike(former)
			l.acknowledged(50)
			if d.raise != nil {
				d.raise(former)
			}
			waittest.Until(t, "the dead one as a standby", g.isWhole)
			l.end()
			lost, changed := l.lost()
			gaps = append(gaps, l.silence(begin))
			acknowledged, failures = acknowledged+len(l.acked), failures+len(l.errors)
			_, after := g.primary()
			t.Logf("%s %d: gap %v, whole after %v; etcd's leader there: %t; promotions=%d acknowledged=%d lost=%d changed=%d; %v", d.name,
				i+1, gaps[i].Round(time.Millisecond), between(begin, time.Now()), hadEtcd, after-before, len(l.acked), lost, changed, l.count)
			if lost+changed > 0 {
				t.Errorf("%d lost, %d changed", lost, changed)
			}
			if !d.ofAStandby && after == before {
				t.Error("no standby was promoted: the primary did not go away")
			}
			for _, w := range l.wrong {
				t.Error(w)
			}
		}
		slices.Sort(gaps)
		most := gaps[(kills*19-1)/20]
		t.Logf("%s: kills=%d acknowledged=%d failed requests=%d second AReqs=%d; gaps: least %v, half %v, 19 of 20 %v, longest %v", d.name,
			kills, acknowledged, failures, c.twice(), gaps[0].Round(time.Millisecond), gaps[kills/2].Round(time.Millisecond),
			most.Round(time.Millisecond), gaps[kills-1].Round(time.Millisecond))
		if d.limit > 0 && kills >= 20 && most > d.limit {
			t.Errorf("%s: 19 of 20 gaps are up to %v, want at most %v", d.name, most, d.limit)
		}
	}
	if n := c.twice(); n > 0 {
		t.Errorf("%d second AReqs", n)
	}
}
