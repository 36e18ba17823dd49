package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// A cluster is some nodes on one database, and the directory server of all.
type cluster struct {
	t     *testing.T
	peer  *rig.Peer
	nodes []*rig.Victim
}

// newCluster starts one of three nodes. Of what is in env, each node has what has its number.
func newCluster(t *testing.T, database string, env ...string) *cluster {
	t.Helper()
	return newClusterOf(t, 3, database, env...)
}

// newClusterOf is newCluster with so many nodes. Each has a copy of the first one's key file.
func newClusterOf(t *testing.T, nodes int, database string, env ...string) *cluster {
	t.Helper()
	ca := rig.NewAuthority(t)
	c := &cluster{t: t, peer: rig.NewPeer(t, ca)}
	c.peer.SetAnswer(rig.AnswerChallenge)
	keys := filepath.Join(t.TempDir(), "keys.json")
	for i := range nodes {
		if i > 0 {
			c.copyKeys(keys, filepath.Join(filepath.Dir(keys), fmt.Sprintf("keys-%d.json", i)))
			keys = filepath.Join(filepath.Dir(keys), fmt.Sprintf("keys-%d.json", i))
		}
		n := rig.NewVictimAt(t, ca, c.peer, fmt.Sprintf("store: {url: %q}\nkeys: %s", database, keys))
		if i < len(env) {
			n.Env = append(n.Env, env[i])
		}
		t.Cleanup(func() {
			if log, err := os.ReadFile(n.LogFile); t.Failed() && err == nil {
				t.Logf("node %d ends its log with:\n%s", i, log[max(0, len(log)-1000):])
			}
		})
		c.nodes = append(c.nodes, n)
		n.APIKey = c.nodes[0].APIKey
	}
	c.start(c.nodes...)
	return c
}

func (c *cluster) copyKeys(from, to string) {
	c.t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o600)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// start starts nodes side by side.
func (c *cluster) start(nodes ...*rig.Victim) {
	c.t.Helper()
	var all sync.WaitGroup
	for _, n := range nodes {
		all.Go(n.Start)
	}
	all.Wait()
	for _, n := range nodes {
		waittest.Until(c.t, "card ranges", n.HasRanges)
	}
}

// A flow is one authentication, whose steps may go to any nodes.
type flow struct {
	c    *cluster
	id   string
	areq rig.Object
	ares rig.Object
	want []byte // the RReq, as it is posted
}

// ask posts to the API of a node and returns the bytes of the answer; status 0
// means that none came, or not the whole.
func ask(n *rig.Victim, path string, body rig.Object) (int, []byte) {
	req, err := http.NewRequest(http.MethodPost, "http://"+n.APIAddress+path, bytes.NewReader(rig.Marshal(body)))
	if err != nil {
		n.T.Error(err)
		return 0, nil
	}
	req.Header.Set("APIKey", n.APIKey)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		n.T.Log(err)
		return 0, nil
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		n.T.Log(err)
		return 0, nil
	}
	return res.StatusCode, data
}

// preauth begins a flow.
func (c *cluster) preauth(n *rig.Victim) (f *flow, status int, answer rig.Object) {
	status, data := ask(n, "/preauth", rig.Object{"acctNumber": rig.EnrolledPAN})
	_ = json.Unmarshal(data, &answer)
	f = &flow{c: c, id: answer.Text("threeDSServerTransID")}
	f.areq = rig.BrowserRequest("2.2.0", rig.EnrolledPAN, f.id, "U")
	return f, status, answer
}

// auth sends the AReq; an ARes that asks for a challenge makes the RReq.
func (f *flow) auth(n *rig.Victim) (status int, answer rig.Object) {
	status, data := ask(n, "/auth", f.areq)
	_ = json.Unmarshal(data, &answer)
	if status == http.StatusOK && answer.Text("transStatus") == "C" {
		f.ares = answer
		f.want = rig.Marshal(rig.RReq(f.areq, answer, "Y").With(rig.Object{"authenticationValue": rig.AuthenticationValue(f.id)}))
	}
	return status, answer
}

// result posts the RReq, and reports whether it was acknowledged.
func (f *flow) result(n *rig.Victim) (ok bool, answer rig.Object) {
	status, answer, err := f.c.peer.Post("https://"+n.ResultsAddress+"/results", f.want)
	return err == nil && status == http.StatusOK && answer.Text("messageType") == "RRes", answer
}

// postauth reads the result.
func (f *flow) postauth(n *rig.Victim) (status int, answer []byte) {
	return ask(n, "/postauth", rig.Object{"threeDSServerTransID": f.id})
}

// whole runs a flow in which nothing may go wrong, a step at each of the nodes.
func (c *cluster) whole(preauth, auth, result, postauth *rig.Victim) {
	c.t.Helper()
	f, status, answer := c.preauth(preauth)
	if status != http.StatusOK {
		c.t.Errorf("/preauth: %d %v", status, answer)
		return
	}
	if status, answer := f.auth(auth); f.want == nil {
		c.t.Errorf("/auth: %d %v", status, answer)
		return
	}
	if ok, answer := f.result(result); !ok {
		c.t.Errorf("RReq: %v", answer)
		return
	}
	if status, got := f.postauth(postauth); status != http.StatusOK || !bytes.Equal(got, f.want) {
		c.t.Errorf("/postauth: %d %s, want %s", status, got, f.want)
	}
}

// everyWay runs whole flows over all orders of the nodes; the first also reads.
func (c *cluster) everyWay() {
	c.t.Helper()
	for _, o := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		c.whole(c.nodes[o[0]], c.nodes[o[1]], c.nodes[o[2]], c.nodes[o[0]])
	}
}

// twice returns how many ids have sent more than one AReq.
func (c *cluster) twice() (twice int) {
	c.peer.Mu.Lock()
	defer c.peer.Mu.Unlock()
	times := make(map[string]int)
	for _, areq := range c.peer.AReqs {
		if times[areq.Text("threeDSServerTransID")]++; times[areq.Text("threeDSServerTransID")] == 2 {
			twice++
		}
	}
	return twice
}

// TestClusterNodeDies kills the node that took the /auth before the RReq comes to
// another, and that one between its RRes and the /postauth, which the third answers.
func TestClusterNodeDies(t *testing.T) {
	rounds, flows := 5, 4
	if rig.IsLongForm() {
		rounds = 200
	}
	c := newCluster(t, pgtest.NewGroup(t, 2).URL())
	for round := range rounds {
		one, two, three := c.nodes[round%3], c.nodes[(round+1)%3], c.nodes[(round+2)%3]
		var begun []*flow
		for range flows {
			f, status, answer := c.preauth(three)
			if status != http.StatusOK {
				t.Fatalf("/preauth: %d %v", status, answer)
			}
			if status, answer := f.auth(one); f.want == nil {
				t.Fatalf("/auth: %d %v", status, answer)
			}
			begun = append(begun, f)
		}
		one.Kill()
		for _, f := range begun {
			if ok, answer := f.result(two); !ok {
				t.Errorf("RReq at another node: %v", answer)
			}
		}
		two.Kill()
		for _, f := range begun {
			if status, got := f.postauth(three); status != http.StatusOK || !bytes.Equal(got, f.want) {
				t.Errorf("/postauth at the third node: %d %s, want %s", status, got, f.want)
			}
		}
		c.start(one, two)
	}
	t.Logf("rounds=%d kills=%d results=%d second AReqs=%d", rounds, 2*rounds, rounds*flows, c.twice())
	if n := c.twice(); n > 0 {
		t.Errorf("%d second AReqs", n)
	}
}

// A load of flows, 100 requests in a second, each step at any node.
type load struct {
	*cluster
	stop     atomic.Bool
	careless atomic.Bool // what was acknowledged may be lost
	gen      sync.WaitGroup
	flows    sync.WaitGroup
	started  time.Time

	mu     sync.Mutex
	acked  []*flow
	wrong  []string       // what is wrong at any time
	errors []failure      // what is so but in the gap
	count  map[string]int // by step and outcome
	good   []time.Time    // of acknowledgements, in order
}

// A failure is an answer that says so, or none.
type failure struct {
	begin, end time.Time
	what       string
}

func (c *cluster) load() *load {
	l := &load{cluster: c, count: make(map[string]int), started: time.Now()}
	l.gen.Go(func() {
		ticker := time.NewTicker(time.Second / 25) // of four requests each
		defer ticker.Stop()
		for !l.stop.Load() {
			<-ticker.C
			l.flows.Go(l.flow)
		}
	})
	return l
}

// end stops the load when every flow has.
func (l *load) end() {
	l.stop.Store(true)
	l.gen.Wait()
	l.flows.Wait()
}

func (l *load) any() *rig.Victim { return l.nodes[rand.IntN(len(l.nodes))] }

// note counts the outcome of a request. An Erro 403, well-formed, or no answer is a
// failure; whatever else is not good is wrong.
func (l *load) note(step string, begin time.Time, good bool, status int, answer rig.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	outcome := "ok"
	switch {
	case good:
	case status == 0:
		outcome = "no answer"
	default:
		outcome = answer.Text("errorCode")
	}
	l.count[step+" "+outcome]++
	if !good {
		l.errors = append(l.errors, failure{begin, time.Now(), step + " " + outcome})
	}
	if good || status == 0 && step == "RReq" {
		return
	}
	if bad := malformed(answer); bad != "" || outcome != "403" {
		l.wrong = append(l.wrong, fmt.Sprintf("%s: %d %v %s", step, status, answer, bad))
	}
}

// malformed says what is wrong with the form of an Erro of ours.
func malformed(got rig.Object) string {
	for _, name := range rig.ErroMembers {
		if got.Text(name) == "" {
			return name + " is missing"
		}
	}
	if got.Text("messageType") != "Erro" || got.Text("errorComponent") != "S" {
		return "no Erro of ours"
	}
	return ""
}

// flow runs one authentication, as a requestor and a directory server do that try
// again what failed: the /auth once, the RReq for a while, the /postauth until it works.
func (l *load) flow() {
	begin := time.Now()
	f, status, answer := l.preauth(l.any())
	l.note("preauth", begin, status == http.StatusOK, status, answer)
	if status != http.StatusOK {
		return
	}
	begin = time.Now()
	status, answer = f.auth(l.any())
	l.note("auth", begin, f.want != nil, status, answer)
	if f.want == nil {
		// The same id once more: it may have been claimed, and then it is used up.
		if status, answer := f.auth(l.any()); f.want == nil {
			code := answer.Text("errorCode")
			late := code == "405" && !rig.IsLongForm() // the directory server takes seconds when other tests keep the processors busy
			if code != "403" && code != "301" && !late {
				l.fail("the second /auth: %d %v", status, answer)
			}
			return
		}
	}
	acked := false
	for try := range 5 {
		begin = time.Now()
		ok, answer := f.result(l.any())
		if code := answer.Text("errorCode"); !ok && try > 0 && (code == "301" || code == "312") {
			break // the one before was committed, though its RRes did not come
		}
		status := http.StatusOK
		if answer == nil {
			status = 0
		}
		l.note("RReq", begin, ok, status, answer)
		if acked = ok; ok {
			l.mu.Lock()
			l.acked, l.good = append(l.acked, f), append(l.good, time.Now())
			l.mu.Unlock()
			break
		}
		time.Sleep(500 * time.Millisecond) // as a directory server does that tries again
	}
	if !acked {
		return
	}
	rig.Retry(func() bool {
		begin = time.Now()
		status, got := f.postauth(l.any())
		good := status == http.StatusOK
		var answer rig.Object
		_ = json.Unmarshal(got, &answer)
		l.note("postauth", begin, good, status, answer)
		switch {
		case good && !bytes.Equal(got, f.want):
			l.fail("/postauth changed: %s, want %s", got, f.want)
			return true
		}
		return good || l.careless.Load()
	})
}

func (l *load) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wrong = append(l.wrong, fmt.Sprintf(format, args...))
}

// acknowledged waits for more results.
func (l *load) acknowledged(more int) {
	l.t.Helper()
	l.mu.Lock()
	want := len(l.acked) + more
	l.mu.Unlock()
	waittest.Until(l.t, "results that are acknowledged", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.acked) >= want
	})
}

// lost reads every acknowledged result once more, again if it hears that it should try again, and returns how many are
// not there as they were.
func (l *load) lost() (lost, changed int) {
	for i, f := range l.acked {
		var status int
		var got []byte
		rig.Retry(func() bool {
			status, got = f.postauth(l.nodes[i%len(l.nodes)])
			var answer rig.Object
			_ = json.Unmarshal(got, &answer)
			return answer != nil && answer.Text("errorCode") != "403"
		})
		switch {
		case status != http.StatusOK:
			lost++
		case !bytes.Equal(got, f.want):
			changed++
		}
	}
	return lost, changed
}

// TestClusterFailover takes the primary of three away, as a crash or as a machine does
// that hangs, and promotes a standby, under load.
func TestClusterFailover(t *testing.T) {
	failovers, hang := 2, time.Duration(0)
	if rig.IsLongForm() {
		failovers, hang = 20, 6*time.Second
	}
	group := pgtest.NewGroup(t, 3)
	c := newCluster(t, group.URL())
	results, longest := 0, time.Duration(0)
	for i := range failovers {
		l := c.load()
		l.acknowledged(25)
		former, how, begin := group.Primary(), "crash", time.Now()
		var over time.Time // when the new primary takes writes, and another standby confirms them
		if i%2 == 1 {
			how = "hang"
			rig.Must(t, former.Freeze())
			group.Promote()
			over = time.Now()
			l.acknowledged(10)
			time.Sleep(hang) // none in the short form
			rig.Must(t, former.Halt())
		} else {
			rig.Must(t, former.Halt())
			group.Promote()
			over = time.Now()
		}
		group.Rebuild()
		rebuilt := over
		if !rig.IsLongForm() { // beside other tests, a copy of the primary may hold up the disk for longer than a commit may take
			rebuilt = time.Now()
		}
		l.acknowledged(50)
		l.end()
		lost, changed := l.lost()
		gap := l.gap(begin, over, rebuilt)
		longest = max(longest, gap)
		results += len(l.acked)
		t.Logf("%d %s: promoted after %v, gap %v; acknowledged=%d lost=%d changed=%d; %v", i+1, how,
			between(begin, over), gap.Round(time.Millisecond), len(l.acked), lost, changed, l.count)
		if lost+changed > 0 {
			t.Errorf("%d lost, %d changed", lost, changed)
		}
		for _, w := range l.wrong {
			t.Error(w)
		}
	}
	t.Logf("failovers=%d acknowledged=%d second AReqs=%d longest gap=%v", failovers, results, c.twice(), longest)
	if n := c.twice(); n > 0 {
		t.Errorf("%d second AReqs", n)
	}
	t.Run("control", func(t *testing.T) { asynchronous(t, c, group) })
}

func between(begin, end time.Time) time.Duration { return end.Sub(begin).Round(time.Millisecond) }

// silence returns the longest time without an acknowledged result from begin on.
func (l *load) silence(begin time.Time) (longest time.Duration) {
	last := begin
	for _, at := range l.good {
		if at.After(begin) {
			longest, last = max(longest, at.Sub(last)), at
		}
	}
	return longest
}

// gap returns the longest silence, and has no errors but of requests that were under way between begin and a moment
// after end. Of those that began before rebuilt, it allows errors that came after the whole time for a commit.
func (l *load) gap(begin, end, rebuilt time.Time) time.Duration {
	const settled = 5 * time.Second // a request that waits for its answer gives up after this
	for _, e := range l.errors {
		isHeldUp := e.begin.Before(rebuilt) && e.end.Sub(e.begin) >= settled
		if e.end.Before(begin) || e.begin.After(end.Add(settled)) && !isHeldUp {
			l.fail("outside of the gap, which is from 0 to %v: %s from %v to %v", between(begin, end), e.what, between(begin, e.begin), between(begin, e.end))
		}
	}
	return l.silence(begin)
}

// asynchronous is the control: without a standby that confirms, a primary takes what
// it has acknowledged along with it. If nothing is lost then, the test shows nothing.
func asynchronous(t *testing.T, c *cluster, group *pgtest.Group) {
	group.Asynchronous()
	group.Disconnect()
	l := c.load()
	l.acknowledged(25)
	rig.Must(t, group.Primary().Halt())
	group.Promote()
	l.careless.Store(true)
	l.end()
	waittest.Until(t, "the new primary", func() bool {
		_, status, _ := c.preauth(c.nodes[0])
		return status == http.StatusOK
	})
	lost, changed := l.lost()
	t.Logf("control: acknowledged=%d lost=%d changed=%d", len(l.acked), lost, changed)
	if lost == 0 {
		t.Error("a primary without a standby that confirms lost nothing")
	}
}
