package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// An idempotentLoad is requests with few keys, of which each is to have one effect and one answer.
type idempotentLoad struct {
	t       *testing.T
	path    string
	body    func(round, key int) string
	effects func() int // how many there were
	nodes   [2]*rig.Victim
	apiKeys []string         // of the merchants that make the requests, in turn
	answers [2][100]sync.Map // by round and key
	done    atomic.Int64     // requests that were answered with 201
}

// post makes one request, and reports whether it was answered with what is kept.
func (l *idempotentLoad) post(round, i int, n *rig.Victim) bool {
	key := i % 100
	req, err := http.NewRequest(http.MethodPost, "http://"+n.APIAddress+l.path, strings.NewReader(l.body(round, key)))
	if err != nil {
		l.t.Error(err)
		return true
	}
	req.Header.Set("APIKey", l.apiKeys[key%len(l.apiKeys)])
	req.Header.Set("Idempotency-Key", fmt.Sprintf("round %d, key %d", round, key))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return false
	case res.StatusCode == http.StatusConflict || res.StatusCode == http.StatusServiceUnavailable:
		if res.Header.Get("Retry-After") == "" {
			l.t.Errorf("%d without Retry-After", res.StatusCode)
		}
		return false
	case res.StatusCode != http.StatusCreated:
		l.t.Errorf("round %d, key %d: %d %s", round, key, res.StatusCode, answer)
	}
	l.answers[round][key].Store(string(answer), true)
	l.done.Add(1)
	return true
}

// run makes requests with all keys at both nodes at once. Those that get no answer are made again until they get one.
func (l *idempotentLoad) run(round int) {
	var all sync.WaitGroup
	places := make(chan struct{}, 100)
	requests := 300
	if rig.IsLongForm() {
		requests = 1000
	}
	for i := range requests {
		all.Go(func() {
			try := -1
			rig.Retry(func() bool {
				places <- struct{}{}
				defer func() { <-places }()
				try++
				return l.post(round, i, l.nodes[(i+try)%2])
			})
		})
	}
	all.Wait()
}

// check wants one answer for each key of a round, and so many endpoints in all.
func (l *idempotentLoad) check(round, effects int) {
	l.t.Helper()
	for key := range l.answers[round] {
		n := 0
		l.answers[round][key].Range(func(_, _ any) bool { n++; return true })
		if n != 1 {
			l.t.Errorf("round %d: key %d has %d answers", round, key, n)
		}
	}
	if n := l.effects(); n != effects {
		l.t.Errorf("round %d: %d effects, want %d", round, n, effects)
	}
}

// countEndpoints returns how many webhook endpoints the merchants have.
func (l *idempotentLoad) countEndpoints() (n int) {
	l.t.Helper()
	for _, key := range l.apiKeys {
		req, err := http.NewRequest(http.MethodGet, "http://"+l.nodes[1].APIAddress+"/webhook-endpoints", nil)
		if err != nil {
			l.t.Fatal(err)
		}
		req.Header.Set("APIKey", key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			l.t.Fatal(err)
		}
		answer, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			l.t.Fatal(err)
		}
		n += strings.Count(string(answer), `"id":`)
	}
	return n
}

// countAuthentications returns how many authentications the answers name. Each has had one AReq. Only one whose node
// died may have had none: nobody knows whether it left, so it is not sent by another node.
func (l *idempotentLoad) countAuthentications(p *rig.Peer) int {
	l.t.Helper()
	ids, areqs := map[string]bool{}, 0
	for round := range l.answers {
		for key := range l.answers[round] {
			l.answers[round][key].Range(func(answer, _ any) bool {
				var o rig.Object
				if err := json.Unmarshal([]byte(answer.(string)), &o); err != nil {
					l.t.Error(err)
				}
				id, status, sent := o.Text("id"), o.Text("status"), len(p.Sent(o.Text("id")))
				if hasEnded := status == "completed"; sent > 1 || hasEnded != (sent == 1) && round == 0 || hasEnded && sent == 0 {
					l.t.Errorf("round %d, key %d: %s is %s and has had %d AReqs", round, key, id, status, sent)
				}
				ids[id] = true
				areqs += sent
				return true
			})
		}
	}
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if len(p.AReqs) != areqs {
		l.t.Errorf("%d AReqs have come, %d of the authentications that were answered", len(p.AReqs), areqs)
	}
	return len(ids)
}

// TestF5OneEffectAcrossNodesAndAKill: 300 requests, with CLUSTER=long 1,000, with 100 keys at two processes on one
// PostgreSQL have 100 effects, also when one process is killed among them. The keys of that one are in progress until
// its claims are over, which here is two seconds later.
func TestF5OneEffectAcrossNodesAndAKill(t *testing.T) {
	t.Parallel()
	t.Run("authentications", func(t *testing.T) {
		l, p := newIdempotentLoad(t, "/authentications")
		l.body = func(round, key int) string {
			return string(rig.Marshal(rig.Object{
				"acctNumber": rig.EnrolledPAN, "cardExpiryDate": "3012", "deviceChannel": "03", "threeRIInd": "04", "messageCategory": "02",
				"messageVersion": "2.2.0", "acquirerBIN": "400000", "acquirerMerchantID": "M1", "mcc": "5411", "merchantName": "Shop",
				"merchantCountryCode": "208", "threeDSRequestorURL": "https://shop.example", "reference": fmt.Sprintf("%d-%d", round, key),
			}))
		}
		l.effects = func() int { return l.countAuthentications(p) }
		l.runWithKill()
	})
	t.Run("webhook endpoints", func(t *testing.T) {
		l, _ := newIdempotentLoad(t, "/webhook-endpoints")
		l.body = func(round, key int) string { return fmt.Sprintf(`{"url": "https://192.0.2.1/%d-%d"}`, round, key) }
		l.effects = l.countEndpoints
		var merchants []string // a merchant may have 16 endpoints
		for i := range 20 {
			merchants = append(merchants, fmt.Sprint("Shop ", i))
		}
		l.apiKeys = rig.CreateKeys(t, l.nodes[0].ConfigFile, merchants...)
		l.runWithKill()
	})
}

// newIdempotentLoad starts two processes on one PostgreSQL, and their directory server.
func newIdempotentLoad(t *testing.T, path string) (*idempotentLoad, *rig.Peer) {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys.json")
	place := fmt.Sprintf("webhooks: {allow: [192.0.2.0/24]}\nstore: {url: %q}\nkeys: %s", pgtest.Get(t).Schema(t), keys)
	ca := rig.NewAuthority(t)
	p := rig.NewPeer(t, ca)
	l := &idempotentLoad{t: t, path: path, nodes: [2]*rig.Victim{rig.NewVictimAt(t, ca, p, place, rig.ShortLeases),
		rig.NewVictimAt(t, ca, p, place, rig.ShortLeases)}}
	l.nodes[1].APIKey = l.nodes[0].APIKey
	l.apiKeys = []string{l.nodes[0].APIKey}
	l.nodes[0].Start()
	l.nodes[1].Start()
	return l, p
}

func (l *idempotentLoad) runWithKill() {
	l.run(0)
	l.check(0, 100)
	before := l.done.Load()
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		waittest.Until(l.t, "some answers", func() bool { return l.done.Load() >= before+5 })
		l.nodes[0].Kill()
	}()
	l.run(1)
	<-killed
	l.nodes[0].Start()
	for key := range 100 {
		if !l.post(0, key, l.nodes[0]) || !l.post(1, key, l.nodes[0]) {
			l.t.Errorf("key %d has no answer after the restart", key)
		}
	}
	l.check(1, 200)
}
