package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"modernc.org/sqlite"

	"github.com/openthreeds/threeds/internal/auth"
	"github.com/openthreeds/threeds/internal/server"
	"github.com/openthreeds/threeds/internal/store"
	"github.com/openthreeds/threeds/internal/store/postgres/pgtest"
)

// A child is a real process that serves, which the test may kill. It is this
// test binary again, told by its environment to be the program.
const (
	childArgs  = "THREEDS_TEST_SERVE" // a configuration file
	childTied  = "THREEDS_TEST_TIED"  // set: the child ends with its standard input, and so with its test
	childEarly = "THREEDS_TEST_EARLY" // set: results are acknowledged before they are committed
	childSync  = "THREEDS_TEST_SYNC"  // how SQLite syncs, in the place of FULL
	childClock = "THREEDS_TEST_CLOCK" // how far the clock is ahead
)

// runChild is the program of a child process; see TestMain.
func runChild() int {
	if os.Getenv(childTied) != "" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(3)
		}()
	}
	if mode := os.Getenv(childSync); mode != "" {
		sqlite.RegisterConnectionHook(func(conn sqlite.ExecQuerierContext, _ string) error {
			_, err := conn.ExecContext(context.Background(), "PRAGMA synchronous = "+mode, nil)
			return err
		})
	}
	err := serve(context.Background(), os.Getenv(childArgs), os.Stderr, func(cfg *server.Config) {
		cfg.LeaseTime = 200 * time.Millisecond // who is killed is not waited for
		cfg.ClaimTime = 2 * time.Second
		if ahead, err := time.ParseDuration(os.Getenv(childClock)); err == nil {
			cfg.Now = func() time.Time { return time.Now().Add(ahead) }
		}
		if os.Getenv(childEarly) != "" {
			cfg.Store = func(s store.Store) store.Store { return early{s} }
		}
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// early is a control of the crash tests: a store that says yes to a result first.
type early struct{ store.Store }

func (e early) Update(ctx context.Context, was store.Txn, change func(*store.Txn) error) error {
	t, err := e.Get(ctx, was.ID)
	if err != nil {
		return err
	}
	if err := change(&t); err != nil {
		return err
	}
	if t.State != auth.Result {
		return e.Store.Update(ctx, was, change)
	}
	go func() {
		time.Sleep(100 * time.Millisecond)
		_ = e.Store.Update(context.WithoutCancel(ctx), was, change)
	}()
	return nil
}

// A victim is a server in a process of its own that is killed again and again.
type victim struct {
	t       *testing.T
	config  string
	api     string
	results string
	ready   string
	key     string
	env     []string
	client  *http.Client
	cmd     *exec.Cmd
	exited  chan struct{}
	log     string
}

func newVictim(t *testing.T, ca *authority, p *peer, env ...string) *victim {
	t.Helper()
	return newVictimAt(t, ca, p, `store: {url: "file:data"}`, env...)
}

// newVictimAt is newVictim with another store, whole lines of the configuration.
func newVictimAt(t *testing.T, ca *authority, p *peer, place string, env ...string) *victim {
	t.Helper()
	dir := t.TempDir()
	free := freeAddresses(t, 3)
	v := &victim{
		t: t, config: filepath.Join(dir, "threeds.yaml"), env: env, log: filepath.Join(dir, "log"),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}},
		api:    free[0], results: free[1], ready: free[2],
	}
	resultsCert, resultsKey := ca.write(dir, ca.issue("results.example"), "results")
	clientCert, clientKey := ca.write(dir, ca.issue("3dss.example"), "client")
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), ca.pem(), 0o600); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`
api: {listen: %s}
results: {listen: %s, url: "https://%[2]s/results", tls: {cert: %s, key: %s}}
%s
console: {listen: %s}
limits: {per_key: 100000/s, wait: 1m}
server: {reference_number: 3DS_LOA_SER_TEST_020301_00001, requestor_id: R1, requestor_name: Requestor}
directories:
  - scheme: visa
    areq_url: %s/
    preq_url: %[7]s/
    versions: [2.1.0, 2.2.0, 2.3.1]
    min_refresh: 1s
    client_cert: {cert: %s, key: %s}
    server_ca: ca.pem
    client_ca: ca.pem
    client_names: [rreq.ds.example]
`, v.api, v.results, resultsCert, resultsKey, place, v.ready, p.server.URL, clientCert, clientKey)
	if err := os.WriteFile(v.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs strings.Builder
	if code := run(t.Context(), []string{"key", "create", "--name", "Shop", "--config", v.config}, strings.NewReader(""), &out, &errs); code != 0 {
		t.Fatalf("key create: %d %s", code, errs.String())
	}
	v.key = strings.TrimSpace(out.String())
	t.Cleanup(func() {
		v.kill()
		if said, err := os.ReadFile(v.log); err == nil && t.Failed() {
			t.Logf("the end of its log:\n%s", said[max(0, len(said)-8000):])
		}
	})
	return v
}

func freeAddress(t *testing.T) string {
	t.Helper()
	return freeAddresses(t, 1)[0]
}

// freeAddresses are addresses on which nobody listens, none of them twice in the life of
// this process: several processes of a test get theirs before any has begun to listen.
// The ports are below those that a system gives to connections, one of which could be
// taken while the process that listens on it is started anew. Those of the conformance
// suite and of the PostgreSQL of tests, which may run at the same time, are others.
func freeAddresses(t *testing.T, n int) []string {
	t.Helper()
	var free []string
	for tries := 0; len(free) < n; tries++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 18000+(firstPort+ports.Add(1))%14000))
		if err != nil {
			if tries > 1000 {
				t.Fatal(err)
			}
			continue
		}
		must(t, l.Close())
		free = append(free, l.Addr().String())
	}
	return free
}

var (
	firstPort = rand.Uint32N(14000) // random, for another run of these tests
	ports     atomic.Uint32         // how many were tried
)

// start runs the process and waits until it is ready.
func (v *victim) start() {
	v.t.Helper()
	if err := v.tryStart(); err != nil {
		v.t.Fatal(err)
	}
}

// tryStart is start that may fail: the process ends before it is ready.
func (v *victim) tryStart() error {
	v.t.Helper()
	if err := v.launch(); err != nil {
		return err
	}
	ended := false
	waitFor(v.t, "readiness", func() bool {
		select {
		case <-v.exited:
			ended = true
			return true
		default:
			return v.isReady()
		}
	})
	if ended {
		v.cmd = nil
		said, _ := os.ReadFile(v.log)
		return fmt.Errorf("the process has ended:\n%s", said[max(0, len(said)-2000):])
	}
	return nil
}

func (v *victim) isReady() bool {
	res, err := v.client.Get("http://" + v.ready + "/readyz")
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// launch runs the process.
func (v *victim) launch() error {
	v.t.Helper()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.OpenFile(v.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	v.cmd, v.exited = exec.Command(self), make(chan struct{})
	v.cmd.Env = append(append(os.Environ(), childArgs+"="+v.config, childTied+"=1"), v.env...)
	v.cmd.Stdout, v.cmd.Stderr = log, log
	if _, err := v.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := v.cmd.Start(); err != nil {
		v.cmd = nil
		return err
	}
	go func() {
		_ = v.cmd.Wait()
		close(v.exited)
	}()
	return nil
}

func (v *victim) kill() {
	if v.cmd == nil {
		return
	}
	_ = v.cmd.Process.Kill()
	<-v.exited
	v.cmd = nil
	v.client.CloseIdleConnections()
}

// call posts to the API; status 0 means that no complete answer came.
func (v *victim) call(path string, body object) (int, object) {
	req, err := http.NewRequest(http.MethodPost, "http://"+v.api+path, strings.NewReader(string(marshal(body))))
	if err != nil {
		v.t.Error(err)
		return 0, nil
	}
	req.Header.Set("APIKey", v.key)
	res, err := v.client.Do(req)
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	var o object
	data, err := io.ReadAll(res.Body)
	if err != nil || json.Unmarshal(data, &o) != nil {
		return 0, nil
	}
	return res.StatusCode, o
}

// A ledger is what is known of results outside of the server, for the end of the
// test. Its keys are threeDSServerTransIDs, its values RReqs.
type ledger struct {
	peer *peer

	mu     sync.Mutex
	fresh  map[string]object // acknowledged since the last check
	kept   map[string]object // acknowledged, and found at a check
	unsure map[string]object // sent, and no RRes came
	again  map[string]object // AReqs of /auth that had no challenge
	areqs  map[string]int    // how many a directory server got

	answers              map[string]int // by what was asked, and the kind or the error code
	begun                atomic.Int64   // answers to /auth
	dark                 atomic.Bool    // what arrives does not count
	acked, lost, changed int
	complaints           []string
	acknowledged         func(n int) // called after each, unlocked; may be nil
}

func newLedger(p *peer) *ledger {
	return &ledger{
		peer: p, fresh: make(map[string]object), kept: make(map[string]object), unsure: make(map[string]object),
		again: make(map[string]object), areqs: make(map[string]int), answers: make(map[string]int),
	}
}

// watch returns a channel that has the number of a result that was acknowledged: the first one since the last was read.
func (led *ledger) watch() <-chan int {
	acknowledged := make(chan int, 1)
	led.acknowledged = func(n int) {
		select {
		case acknowledged <- n:
		default:
		}
	}
	return acknowledged
}

// challenge runs one authentication with a challenge and notes what became of it.
func (v *victim) challenge(led *ledger) {
	if result, ok := v.begin(led); ok {
		v.result(led, result)
	}
}

// begin is challenge up to its result.
func (v *victim) begin(led *ledger) (result object, ok bool) {
	_, crd := v.call("/preauth", object{"acctNumber": testPAN})
	id := crd.text("threeDSServerTransID")
	if id == "" {
		return nil, false
	}
	req := browser("2.2.0", testPAN, id, "U")
	_, begun := v.call("/auth", req)
	led.note("auth", begun)
	if led.dark.Load() {
		return nil, false
	}
	if begun != nil {
		led.begun.Add(1)
	}
	if begun.text("transStatus") != "C" {
		led.mu.Lock()
		led.again[id] = req
		led.mu.Unlock()
		return nil, false
	}
	return rreq(req, begun, "Y").with(object{"authenticationValue": value(id)}), true
}

// result posts an RReq and notes whether it was acknowledged.
func (v *victim) result(led *ledger, want object) bool {
	id := want.text("threeDSServerTransID")
	led.mu.Lock()
	led.unsure[id] = want
	led.mu.Unlock()
	code, got, err := led.peer.post("https://"+v.results+"/results", marshal(want))
	led.note("RReq", got)
	if err != nil || code != 200 || got.text("messageType") != "RRes" {
		return false
	}
	led.mu.Lock()
	if led.dark.Load() {
		led.mu.Unlock()
		return false
	}
	delete(led.unsure, id)
	led.fresh[id] = want
	led.acked++
	n := led.acked
	led.mu.Unlock()
	if led.acknowledged != nil {
		led.acknowledged(n)
	}
	return true
}

// note counts an answer by its kind.
func (led *ledger) note(to string, got object) {
	led.mu.Lock()
	defer led.mu.Unlock()
	led.answers[to+" "+cmp.Or(got.text("errorCode"), got.text("messageType"), "none")]++
}

// answered is how many answers of a kind there were.
func (led *ledger) answered(kind string) int {
	led.mu.Lock()
	defer led.mu.Unlock()
	return led.answers[kind]
}

// value is an authentication value that belongs to one transaction.
func value(id string) string {
	return "AAAB" + strings.ReplaceAll(id, "-", "")[:23] + "="
}

// check holds the server against the ledger: what was acknowledged since the last
// check, and some of what was before. What was not may be there or not, but as it
// was sent; directory server and requestor try it again.
func (v *victim) check(led *ledger, some int) {
	v.t.Helper()
	led.mu.Lock()
	defer led.mu.Unlock()
	var tally sync.Mutex // over what each counts
	ask := maps.Clone(led.fresh)
	for id, want := range led.kept { // in no order
		if some--; some < 0 {
			break
		}
		ask[id] = want
	}
	few := 4 // of them have another result posted
	for _, want := range led.fresh {
		if few--; few < 0 {
			break
		}
		v.contradict(led, want)
	}
	each(ask, func(id string, want object) {
		code, got := v.call("/postauth", object{"threeDSServerTransID": id})
		tally.Lock()
		defer tally.Unlock()
		switch {
		case code != 200:
			led.lost++
			led.complain("lost: %s: %d %v", id, code, got)
			delete(led.kept, id)
		case string(marshal(got)) != string(marshal(want)):
			led.changed++
			led.complain("changed: %s: %v, want %v", id, got, want)
			delete(led.kept, id)
		default:
			led.kept[id] = want
		}
	})
	clear(led.fresh)
	each(led.unsure, func(id string, want object) {
		code, got := v.call("/postauth", object{"threeDSServerTransID": id})
		for try := 0; code != 200 && try < 5; try++ {
			_, _, _ = led.peer.post("https://"+v.results+"/results", marshal(want))
			code, got = v.call("/postauth", object{"threeDSServerTransID": id})
		}
		if code == 200 {
			tally.Lock()
			v.contradict(led, want)
			tally.Unlock()
			code, got = v.call("/postauth", object{"threeDSServerTransID": id})
		}
		tally.Lock()
		defer tally.Unlock()
		if code != 200 || string(marshal(got)) != string(marshal(want)) {
			led.changed++
			led.complain("not acknowledged, tried again: %s: %d %v, want %v", id, code, got, want)
		} else {
			led.kept[id] = want
		}
	})
	clear(led.unsure)
	each(led.again, func(_ string, req object) { v.call("/auth", req) })
	clear(led.again)
	led.count()
}

// count takes over the AReqs that the directory server has got.
func (led *ledger) count() {
	led.peer.mu.Lock()
	defer led.peer.mu.Unlock()
	for _, areq := range led.peer.areqs {
		led.areqs[areq.text("threeDSServerTransID")]++
	}
	led.peer.areqs = nil
}

// darken is for the moment in which the power goes: what arrives from now on would
// never have been sent, and does not count. The kernel does tell some syncs that are
// under way in that moment that all is well. light ends it.
func (led *ledger) darken() (light func()) {
	led.dark.Store(true)
	led.count()
	return func() {
		led.peer.mu.Lock()
		led.peer.areqs = nil
		led.peer.mu.Unlock()
		led.dark.Store(false)
	}
}

// contradict posts another result after the one that a transaction has: the first
// one stays.
func (v *victim) contradict(led *ledger, first object) {
	other := first.with(object{"transStatus": "A", "eci": "06"})
	_, got, err := led.peer.post("https://"+v.results+"/results", marshal(other))
	if err == nil && got.text("messageType") == "RRes" {
		led.changed++
		led.complain("a second result was acknowledged: %v", got)
	}
}

// each calls f for all entries, sixteen at a time.
func each(of map[string]object, f func(id string, o object)) {
	var group errgroup.Group
	group.SetLimit(16)
	for id, o := range of {
		group.Go(func() error {
			f(id, o)
			return nil
		})
	}
	_ = group.Wait()
}

// twice is how many ids have had more than one AReq sent.
func (led *ledger) twice() int {
	n := 0
	for _, count := range led.areqs {
		if count > 1 {
			n++
		}
	}
	return n
}

// complain keeps the first few of what is wrong.
func (led *ledger) complain(format string, args ...any) {
	if len(led.complaints) < 10 {
		led.complaints = append(led.complaints, fmt.Sprintf(format, args...))
	}
}

// verdict fails the test when anything was lost, or too little shown.
func (led *ledger) verdict(t *testing.T, what string, least int) {
	t.Helper()
	t.Logf("%s acknowledged=%d lost=%d changed=%d second AReqs=%d", what, led.acked, led.lost, led.changed, led.twice())
	if led.lost+led.changed+led.twice() > 0 {
		t.Errorf("%d lost, %d changed, %d second AReqs\n%s", led.lost, led.changed, led.twice(), strings.Join(led.complaints, "\n"))
	}
	if led.acked < least {
		t.Errorf("only %d results acknowledged: the test shows nothing", led.acked)
	}
}

// underLoad runs 16 concurrent challenges until strike has returned.
func (v *victim) underLoad(led *ledger, strike func()) {
	v.t.Helper()
	ctx, stop := context.WithCancel(v.t.Context())
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			for ctx.Err() == nil {
				v.challenge(led)
			}
		})
	}
	defer workers.Wait()
	defer stop()
	before := led.begun.Load()
	waitFor(v.t, "load", func() bool { return led.begun.Load() > before })
	strike()
}

// crashes is how many to do, of n that CI does: CRASH says how many kills, and the
// rest goes with it.
func crashes(t *testing.T, n int) int {
	t.Helper()
	if text := os.Getenv("CRASH"); text != "" {
		kills, err := strconv.Atoi(text)
		if err != nil || kills < 1 {
			t.Fatalf("CRASH=%s is not a number of kills", text)
		}
		return max(1, n*kills/ciKills)
	}
	if testing.Short() {
		return max(1, n/10)
	}
	return n
}

const ciKills = 200

// A killPlan is what killLoop does.
type killPlan struct {
	kills    int
	store    string         // lines of the configuration
	database *pgtest.Server // killed too; nil: there is none
	share    int            // of the kills one in so many is the database's
	env      []string
	before   func() // ahead of the first start; nil: nothing
}

// readCount is the number that the environment has for the long form of a test, and few otherwise.
func readCount(t *testing.T, name string, few int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s: want a number of at least 1", name, text)
	}
	return n
}

// keptLong is for results that are read after many restarts.
const keptLong = "\ntimeouts: {result: 2h}"

// mixed is a directory server's answers: three challenges, and then an end without one,
// which is written in another way and tried again later, as what has failed is.
func mixed() func(areq object) (int, []byte) {
	var n atomic.Int64
	return func(areq object) (int, []byte) {
		if n.Add(1)%4 == 0 {
			return 200, marshal(ares(areq, "Y"))
		}
		return challenges(areq)
	}
}

func challenges(areq object) (int, []byte) { return 200, marshal(ares(areq, "C")) }

// killLoop kills a server again and again, at random moments under concurrent
// challenges.
func killLoop(t *testing.T, plan killPlan) *ledger {
	t.Helper()
	ca := newAuthority(t)
	p := newPeer(t, ca)
	p.setAnswer(mixed())
	v := newVictimAt(t, ca, p, plan.store+keptLong, plan.env...)
	if plan.before != nil {
		plan.before()
	}
	led := newLedger(p)
	random := rand.New(rand.NewPCG(1, 2))
	v.start()
	for i := range plan.kills {
		v.underLoad(led, func() {
			some := led.answered("RReq RRes") + random.IntN(16)
			waitFor(t, "results", func() bool { return led.answered("RReq RRes") >= some })
			time.Sleep(time.Duration(random.Int64N(int64(10 * time.Millisecond))))
			if plan.database == nil || i%plan.share != 0 {
				v.kill()
			} else if err := plan.database.Halt(); err != nil {
				t.Fatal(err)
			}
		})
		if v.cmd == nil {
			v.start()
		} else {
			if err := plan.database.Start(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "readiness", v.isReady)
		}
		v.check(led, 10)
	}
	v.kill()
	v.start()
	v.check(led, math.MaxInt)
	return led
}

// TestCrashKill kills the server, and with PostgreSQL that too, with SIGKILL at
// random moments under concurrent challenges: no acknowledged result may be lost or
// changed (I1, I2), and no id may have sent a second AReq (I5), though every /auth
// that has failed is tried again with the same id.
func TestCrashKill(t *testing.T) {
	kills := crashes(t, ciKills)
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		led := killLoop(t, killPlan{kills: kills, store: `store: {url: "file:data"}`})
		led.verdict(t, fmt.Sprintf("SQLite: kills=%d", kills), kills)
	})
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		database := pgtest.Start(t)
		const share = 10
		kills := kills
		if os.Getenv("CRASH") == "" {
			kills = crashes(t, 60) // each takes four times as long here
		}
		led := killLoop(t, killPlan{
			kills: kills, store: onPostgres(t, database.Schema(t)), database: database, share: share,
		})
		led.verdict(t, fmt.Sprintf("PostgreSQL: kills=%d of them %d of the database", kills, (kills+share-1)/share), kills)
	})
}

func onPostgres(t *testing.T, url string) string {
	t.Helper()
	// The fewer connections, the faster a start.
	return fmt.Sprintf("store: {url: %q}\nkeys: %s", url+"&pool_max_conns=4", filepath.Join(t.TempDir(), "keys.json"))
}

// TestCrashKillControl has what TestCrashKill must notice: a server that commits
// after its answer, and a database that does. If nothing is lost, TestCrashKill
// proves nothing.
func TestCrashKillControl(t *testing.T) {
	t.Run("answer before commit", func(t *testing.T) {
		led := killLoop(t, killPlan{kills: 5, store: `store: {url: "file:data"}`, env: []string{childEarly + "=1"}})
		led.mustLose(t)
	})
	t.Run("synchronous_commit off", func(t *testing.T) {
		if os.Getenv("CRASH") == "" {
			t.Skip("PostgreSQL writes whenever a page of its log is full: a result or two are lost in some of the crashes alone, so that it takes twenty to be sure; make crash has them")
		}
		database := pgtest.Start(t)
		url := database.Schema(t)
		led := killLoop(t, killPlan{
			kills: 20, store: onPostgres(t, url), database: database, share: 1,
			before: func() {
				// The server sets it in every session; so take it back in every transaction.
				database.Exec(t, url, `CREATE FUNCTION later() RETURNS trigger LANGUAGE plpgsql AS
					$$ BEGIN PERFORM set_config('synchronous_commit', 'off', true); RETURN NEW; END $$`)
				database.Exec(t, url, `CREATE TRIGGER later BEFORE INSERT OR UPDATE ON txns FOR EACH ROW EXECUTE FUNCTION later()`)
				// It would write soon by itself, and there would be little to lose.
				database.Exec(t, url, `ALTER SYSTEM SET wal_writer_delay = '10s'`)
				database.Exec(t, url, `SELECT pg_reload_conf()`)
				t.Cleanup(func() {
					database.Exec(t, url, `ALTER SYSTEM RESET wal_writer_delay`)
					database.Exec(t, url, `SELECT pg_reload_conf()`)
				})
			},
		})
		led.mustLose(t)
	})
}

func (led *ledger) mustLose(t *testing.T) {
	t.Helper()
	t.Logf("control: acknowledged=%d lost=%d", led.acked, led.lost)
	if led.lost == 0 {
		t.Error("nothing was lost: the test would not notice")
	}
}
