package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/store"
)

// A child is a real process that serves, which the test may kill. It is this
// test binary again, told by its environment to be the program.
const (
	childArgs  = "THREEDS_TEST_SERVE" // a configuration file
	childEarly = "THREEDS_TEST_EARLY" // set: results are acknowledged before they are committed
	childClock = "THREEDS_TEST_CLOCK" // how far the clock is ahead
)

// runChild is the program of a child process; see TestMain.
func runChild() int {
	go func() { // its standard input ends with the test, however that ends
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	err := serve(context.Background(), os.Getenv(childArgs), os.Stderr, func(cfg *nodeConfig) {
		cfg.LeaseTime = 200 * time.Millisecond // who is killed is not waited for
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

// early is the control of the crash test: a store that says yes first.
type early struct{ store.Store }

func (e early) Update(ctx context.Context, id string, change func(*store.Txn) error) error {
	t, err := e.Get(ctx, id)
	if err != nil {
		return err
	}
	if err := change(&t); err != nil {
		return err
	}
	go func() {
		time.Sleep(20 * time.Millisecond)
		_ = e.Store.Update(context.WithoutCancel(ctx), id, change)
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
	cmd     *exec.Cmd
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
		api: free[0], results: free[1], ready: free[2],
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
limits: {per_key: 100000/s}
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
	t.Cleanup(func() { v.kill() })
	return v
}

func freeAddress(t *testing.T) string {
	t.Helper()
	return freeAddresses(t, 1)[0]
}

// freeAddresses are different from each other, for a port that was let go is given
// out again at once. They are below those that a system gives to connections: one of
// them could be taken while the process that listens on it is started anew.
func freeAddresses(t *testing.T, n int) []string {
	t.Helper()
	var free []string
	for tries := 0; len(free) < n; tries++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(22000)))
		if err != nil {
			if tries > 1000 {
				t.Fatal(err)
			}
			continue
		}
		defer l.Close()
		free = append(free, l.Addr().String())
	}
	return free
}

// start runs the process and waits until it is ready.
func (v *victim) start() {
	v.t.Helper()
	v.launch()
	waitFor(v.t, "readiness", func() bool {
		res, err := http.Get("http://" + v.ready + "/readyz")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
}

// launch runs the process.
func (v *victim) launch() {
	v.t.Helper()
	self, err := os.Executable()
	if err != nil {
		v.t.Fatal(err)
	}
	log, err := os.OpenFile(v.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		v.t.Fatal(err)
	}
	defer log.Close()
	v.cmd = exec.Command(self)
	v.cmd.Env = append(append(os.Environ(), childArgs+"="+v.config), v.env...)
	v.cmd.Stdout, v.cmd.Stderr = log, log
	if _, err := v.cmd.StdinPipe(); err != nil {
		v.t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		v.t.Fatal(err)
	}
}

func (v *victim) kill() {
	if v.cmd == nil {
		return
	}
	_ = v.cmd.Process.Kill()
	_ = v.cmd.Wait()
	v.cmd = nil
}

// call posts to the API; status 0 means that no complete answer came.
func (v *victim) call(path string, body object) (int, object) {
	req, err := http.NewRequest(http.MethodPost, "http://"+v.api+path, strings.NewReader(string(marshal(body))))
	if err != nil {
		v.t.Error(err)
		return 0, nil
	}
	req.Header.Set("APIKey", v.key)
	res, err := http.DefaultClient.Do(req)
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

// A book of what was acknowledged, for the end of the test.
type ledger struct {
	mu     sync.Mutex
	acked  map[string]object // RReq by threeDSServerTransID
	lost   int
	differ int
	sent   atomic.Int64
}

// TestKill kills the server with SIGKILL at random moments under concurrent
// challenges: no acknowledged result may be lost or changed (I1, I2), and no
// id may have sent a second AReq (I5), though every /auth whose answer did not
// come is tried again with the same id.
func TestKill(t *testing.T) {
	kills := 200
	if testing.Short() {
		kills = 20
	}
	acked, lost, differ, twice := killLoop(t, kills)
	t.Logf("kills=%d acknowledged=%d lost=%d changed=%d second AReqs=%d", kills, acked, lost, differ, twice)
	if lost+differ+twice > 0 {
		t.Errorf("%d lost, %d changed, %d second AReqs", lost, differ, twice)
	}
	if acked < kills {
		t.Errorf("only %d results acknowledged in %d kills: the test shows nothing", acked, kills)
	}
}

// TestKillControl is TestKill with the commit after the answer: if nothing is
// lost then, TestKill proves nothing.
func TestKillControl(t *testing.T) {
	acked, lost, _, _ := killLoop(t, 20, childEarly+"=1")
	t.Logf("control: acknowledged=%d lost=%d", acked, lost)
	if lost == 0 {
		t.Error("a server that acknowledges before it commits lost nothing")
	}
}

func killLoop(t *testing.T, kills int, env ...string) (acked, lost, differ, twice int) {
	t.Helper()
	ca := newAuthority(t)
	p := newPeer(t, ca)
	p.setAnswer(func(areq object) (int, []byte) { return 200, marshal(ares(areq, "C")) })
	v := newVictim(t, ca, p, env...)
	led := &ledger{acked: make(map[string]object)}
	random := rand.New(rand.NewPCG(1, 2))
	for range kills {
		v.start()
		v.check(led)
		led.mu.Lock()
		clear(led.acked) // checked, and they would expire
		led.mu.Unlock()
		ctx, stop := context.WithCancel(t.Context())
		var workers sync.WaitGroup
		for range 16 {
			workers.Go(func() {
				for ctx.Err() == nil {
					v.challenge(p, led)
				}
			})
		}
		before := led.sent.Load()
		waitFor(t, "load", func() bool { return led.sent.Load() > before })
		time.Sleep(time.Duration(random.Int64N(int64(150 * time.Millisecond))))
		v.kill()
		stop()
		workers.Wait()
		led.mu.Lock()
		acked += len(led.acked)
		led.mu.Unlock()
	}
	v.start()
	v.check(led)
	p.mu.Lock()
	defer p.mu.Unlock()
	times := make(map[string]int)
	for _, areq := range p.areqs {
		times[areq.text("threeDSServerTransID")]++
	}
	for _, n := range times {
		if n > 1 {
			twice++
		}
	}
	return acked, led.lost, led.differ, twice
}

// challenge runs one authentication with a challenge and notes its result if
// it was acknowledged. An /auth whose answer does not come is tried again.
func (v *victim) challenge(p *peer, led *ledger) {
	_, crd := v.call("/preauth", object{"acctNumber": "4000001234567890"})
	id := crd.text("threeDSServerTransID")
	if id == "" {
		return
	}
	req := browser("2.2.0", "4000001234567890", id, "U")
	code, ares := v.call("/auth", req)
	if code == 0 {
		v.call("/auth", req)
		return
	}
	if ares.text("transStatus") != "C" {
		return
	}
	led.sent.Add(1)
	want := rreq(req, ares, "Y")
	want["authenticationValue"] = value(id)
	code, got, err := p.post("https://"+v.results+"/results", marshal(want))
	if err != nil || code != 200 || got.text("messageType") != "RRes" {
		return
	}
	led.mu.Lock()
	defer led.mu.Unlock()
	led.acked[id] = want
}

// value is an authentication value that belongs to one transaction.
func value(id string) string {
	return "AAAB" + strings.ReplaceAll(id, "-", "")[:23] + "="
}

// check reads every acknowledged result back.
func (v *victim) check(led *ledger) {
	v.t.Helper()
	led.mu.Lock()
	defer led.mu.Unlock()
	for id, want := range led.acked {
		code, got := v.call("/postauth", object{"threeDSServerTransID": id})
		switch {
		case code != 200:
			led.lost++
		case string(marshal(got)) != string(marshal(want)):
			led.differ++
		}
	}
}
