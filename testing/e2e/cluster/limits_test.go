package cluster

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestG15NodesShareTheLimitOfAMerchant: one node alone grants the whole limit of requests in flight, each of two nodes
// half of it. A merchant without a limit is not held up, and results are handed out meanwhile.
func TestG15NodesShareTheLimitOfAMerchant(t *testing.T) {
	t.Parallel()
	place := fmt.Sprintf("store: {url: %q}\nkeys: %s", pgtest.Get(t).Schema(t), filepath.Join(t.TempDir(), "keys.json"))
	ca := rig.NewAuthority(t)
	p := rig.NewPeer(t, ca)
	one, two := rig.NewVictimAt(t, ca, p, place), rig.NewVictimAt(t, ca, p, place)
	two.APIKey = one.APIKey
	one.Command(`[{"name": "Shop", "in_flight": 4}]`, "merchant", "import", "-")
	one.Start()
	waitForNodes(one, 1)

	request := func(v *rig.Victim) rig.Object {
		_, crd := v.Call("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN})
		return rig.BrowserRequest("2.2.0", rig.EnrolledPAN, crd.Text("threeDSServerTransID"), "U")
	}
	// wantInFlight checks that a node has so many /auth in work at once, and refuses the next one.
	wantInFlight := func(v *rig.Victim, most int) {
		came, release := make(chan struct{}, 100), make(chan struct{})
		p.SetAnswer(func(areq rig.Object) (int, []byte) {
			came <- struct{}{}
			<-release
			return 200, rig.Marshal(rig.ARes(areq, "Y"))
		})
		var asked []rig.Object
		for range most + 1 {
			asked = append(asked, request(v))
		}
		var pending sync.WaitGroup
		defer pending.Wait()
		defer close(release)
		for _, req := range asked[:most] {
			pending.Go(func() {
				if code, got := v.Call("/auth", req); code != 200 {
					t.Errorf("/auth: %d %v", code, got)
				}
			})
			<-came
		}
		if code, got := v.Call("/auth", asked[most]); code != 429 || got.Text("errorCode") != "103" {
			t.Errorf("/auth number %d at once: %d %v, want 429", most+1, code, got)
		}
		if code, got := v.Call("/postauth", rig.Object{"threeDSServerTransID": rig.NewUUID()}); code != 400 {
			t.Errorf("/postauth: %d %v, want that it is served", code, got)
		}
		other := *v
		other.APIKey = rig.CreateKeys(t, one.ConfigFile, "Other")[0]
		if code, got := other.Call("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN}); code != 200 {
			t.Errorf("another merchant: %d %v", code, got)
		}
		if refused := v.Metric(`threeds_refused_total{operation="auth",reason="merchant_in_flight"}`); refused < 1 {
			t.Errorf("threeds_refused_total is %v", refused)
		}
	}
	wantInFlight(one, 4)
	two.Start()
	waitForNodes(one, 2)
	waitForNodes(two, 2)
	wantInFlight(one, 2)
	wantInFlight(two, 2)
}

// waitForNodes waits until a node knows how many there are.
func waitForNodes(v *rig.Victim, n float64) {
	v.T.Helper()
	waittest.Until(v.T, fmt.Sprintf("%v nodes", n), func() bool { return v.Metric("threeds_nodes") == n })
}
