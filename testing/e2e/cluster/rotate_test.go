package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/run/server"
	"github.com/openthreeds/threeds/internal/state/account"
	"github.com/openthreeds/threeds/internal/state/keyring"
	"github.com/openthreeds/threeds/internal/state/rotation"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// listKeys is what key list says of all keys.
func listKeys(v *rig.Victim) (all []rig.KeyReport) {
	v.T.Helper()
	var out, errs strings.Builder
	if code := rig.Run(v.T.Context(), []string{"key", "list", "--json", "--config", v.ConfigFile}, nil, &out, &errs); code != 0 {
		v.T.Fatalf("key list: %d %s", code, errs.String())
	}
	rig.Must(v.T, json.Unmarshal([]byte(out.String()), &all))
	return all
}

// withKey is the node as a requestor with another API key sees it.
func withKey(v *rig.Victim, key string) *rig.Victim {
	other := *v
	other.APIKey = key
	return &other
}

// TestD102ThreeRotationsUnderLoadAndASilentNode: 1,000 API keys, of which 900 are never used, two nodes, each with a
// key file, and 50 requests a second. Three rotations fail none of them, and all keys are good. With a node stopped the
// command changes nothing and names it.
func TestD102ThreeRotationsUnderLoadAndASilentNode(t *testing.T) {
	t.Parallel()
	const keyCount, usedCount = 1000, 100
	database := pgtest.Get(t).Schema(t)
	ca := rig.NewAuthority(t)
	c := &cluster{t: t, peer: rig.NewPeer(t, ca)}
	c.peer.SetAnswer(rig.AnswerChallenge)
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "one.json"), filepath.Join(dir, "two.json")}
	for i, file := range files {
		if i > 0 {
			c.copyKeys(files[0], file)
		}
		c.nodes = append(c.nodes, rig.NewVictimAt(t, ca, c.peer, fmt.Sprintf("store: {url: %q}\nkeys: %s", database, file)))
	}
	one, two := c.nodes[0], c.nodes[1]
	ring, err := keyring.Load(files[0])
	rig.Must(t, err)
	st, err := server.OpenStore(t.Context(), config.StoreURL{Postgres: database})
	rig.Must(t, err)
	keys := []string{one.APIKey, two.APIKey}
	for len(keys) < keyCount {
		key, err := account.Create(t.Context(), st, ring, "Shop", false, account.Terms{})
		rig.Must(t, err)
		keys = append(keys, key)
	}
	rig.Must(t, st.Close())
	c.start(one, two)

	var traffic sync.WaitGroup
	stop := make(chan struct{})
	var flows atomic.Int64
	traffic.Go(func() {
		tick := time.NewTicker(time.Second * 4 / 50) // a flow is four requests
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			a, b := withKey(one, keys[i%usedCount]), withKey(two, keys[(i+1)%usedCount])
			if i%2 > 0 {
				a, b = b, a
			}
			traffic.Go(func() {
				c.whole(a, b, a, b)
				flows.Add(1)
			})
		}
	})
	// progress waits for some flows that begin from now on.
	progress := func() {
		want := flows.Load() + 16
		waittest.Until(t, "load", func() bool { return flows.Load() >= want })
	}
	for i := range 3 {
		progress()
		var out strings.Builder
		if code := rig.Run(t.Context(), []string{"key", "rotate", "--config", one.ConfigFile}, nil, &out, &out); code != 0 ||
			!strings.Contains(out.String(), "confirmed by all 2 nodes") {
			t.Errorf("rotation %d: %d %s", i+1, code, out.String())
		}
	}
	progress()
	close(stop)
	traffic.Wait()
	t.Logf("%d requests", 4*flows.Load())

	now := string(rig.ReadFile(t, files[0]))
	rotated, err := keyring.Load(files[1])
	rig.Must(t, err)
	secret := rotated.KeyIDs().Current
	if string(rig.ReadFile(t, files[1])) != now || secret == ring.KeyIDs().Current {
		t.Errorf("the key files are not the same, or have the first secret: %s", secret)
	}
	all := listKeys(one)
	for _, k := range all {
		if k.State != rig.KeyGood || k.Secret != secret {
			t.Fatalf("key %s is %s, sealed under %s; want it good, under %s", k.Hash, k.State, k.Secret, secret)
		}
	}
	if len(all) != keyCount {
		t.Errorf("%d keys, want %d", len(all), keyCount)
	}
	for i := usedCount; i < keyCount; i += 100 {
		if status, body := ask(withKey(two, keys[i]), "/preauth", rig.Object{"acctNumber": rig.EnrolledPAN}); status != http.StatusOK {
			t.Errorf("a key that was never used: %d %s", status, body)
		}
	}

	rig.Must(t, rig.Suspend(two.Cmd.Process))
	err = rotateWithin(t, database, files[0], 3*time.Second)
	rig.Must(t, rig.Resume(two.Cmd.Process))
	if err == nil || !strings.Contains(err.Error(), two.APIAddress) || strings.Contains(err.Error(), one.APIAddress) ||
		!strings.Contains(err.Error(), "nothing has changed") {
		t.Errorf("with a node stopped: %v", err)
	}
	if string(rig.ReadFile(t, files[0])) != now || string(rig.ReadFile(t, files[1])) != now || listKeys(one)[0].Secret != secret {
		t.Error("with a node stopped something has changed")
	}
	c.whole(one, two, one, two)
}

// rotateWithin rotates the secret of a key file as the command does, but waits less long for nodes.
func rotateWithin(t *testing.T, database, file string, within time.Duration) error {
	t.Helper()
	st, err := server.OpenStore(t.Context(), config.StoreURL{Postgres: database})
	rig.Must(t, err)
	defer st.Close()
	ring, err := keyring.Load(file)
	rig.Must(t, err)
	rotate := rotation.Command{Store: st, File: file, Ring: ring, By: "a test", Within: within, Say: t.Logf}
	return rotate.Run(t.Context())
}
