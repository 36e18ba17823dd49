package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/account"
	"github.com/openthreeds/threeds/internal/config"
	"github.com/openthreeds/threeds/internal/keyring"
	"github.com/openthreeds/threeds/internal/server"
	"github.com/openthreeds/threeds/internal/store/postgres/pgtest"
)

// listKeys is what key list says of all keys.
func (v *victim) listKeys() (all []keyReport) {
	v.t.Helper()
	var out, errs strings.Builder
	if code := run(v.t.Context(), []string{"key", "list", "--json", "--config", v.config}, nil, &out, &errs); code != 0 {
		v.t.Fatalf("key list: %d %s", code, errs.String())
	}
	must(v.t, json.Unmarshal([]byte(out.String()), &all))
	return all
}

// withKey is the node as a requestor with another API key sees it.
func (v *victim) withKey(key string) *victim {
	other := *v
	other.key = key
	return &other
}

// TestD102ThreeRotationsUnderLoadAndASilentNode: 1,000 API keys, of which 900 are never used, two nodes, each with a key
// file, and 50 requests a second. Three rotations fail none of them, and all keys are good. With a node stopped the
// command changes nothing and names it.
func TestD102ThreeRotationsUnderLoadAndASilentNode(t *testing.T) {
	t.Parallel()
	const keyCount, usedCount = 1000, 100
	database := pgtest.Get(t).Schema(t)
	ca := newAuthority(t)
	c := &cluster{t: t, peer: newPeer(t, ca)}
	c.peer.setAnswer(challenges)
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "one.json"), filepath.Join(dir, "two.json")}
	for i, file := range files {
		if i > 0 {
			c.copyKeys(files[0], file)
		}
		c.nodes = append(c.nodes, newVictimAt(t, ca, c.peer, fmt.Sprintf("store: {url: %q}\nkeys: %s", database, file)))
	}
	one, two := c.nodes[0], c.nodes[1]
	ring, err := keyring.Load(files[0])
	must(t, err)
	st, err := server.OpenStore(t.Context(), config.StoreURL{Postgres: database})
	must(t, err)
	keys := []string{one.key, two.key}
	for len(keys) < keyCount {
		key, err := account.Create(t.Context(), st, ring, "Shop", false, account.Terms{})
		must(t, err)
		keys = append(keys, key)
	}
	must(t, st.Close())
	c.start(one, two)

	var traffic sync.WaitGroup
	stop, flows := make(chan struct{}), 0
	traffic.Go(func() {
		tick := time.NewTicker(time.Second * 4 / 50) // a flow is four requests
		defer tick.Stop()
		for ; ; flows++ {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			a, b := one.withKey(keys[flows%usedCount]), two.withKey(keys[(flows+1)%usedCount])
			if flows%2 > 0 {
				a, b = b, a
			}
			traffic.Go(func() { c.whole(a, b, a, b) })
		}
	})
	for i := range 3 {
		time.Sleep(time.Second)
		var out strings.Builder
		if code := run(t.Context(), []string{"key", "rotate", "--config", one.config}, nil, &out, &out); code != 0 ||
			!strings.Contains(out.String(), "confirmed by all 2 nodes") {
			t.Errorf("rotation %d: %d %s", i+1, code, out.String())
		}
	}
	time.Sleep(time.Second)
	close(stop)
	traffic.Wait()
	t.Logf("%d requests", 4*flows)

	now := string(contents(t, files[0]))
	rotated, err := keyring.Load(files[1])
	must(t, err)
	secret := rotated.KeyIDs().Current
	if string(contents(t, files[1])) != now || secret == ring.KeyIDs().Current {
		t.Errorf("the key files are not the same, or have the first secret: %s", secret)
	}
	all := one.listKeys()
	for _, k := range all {
		if k.State != keyGood || k.Secret != secret {
			t.Fatalf("key %s is %s, sealed under %s; want it good, under %s", k.Hash, k.State, k.Secret, secret)
		}
	}
	if len(all) != keyCount {
		t.Errorf("%d keys, want %d", len(all), keyCount)
	}
	for i := usedCount; i < keyCount; i += 100 {
		if status, body := two.withKey(keys[i]).ask("/preauth", object{"acctNumber": testPAN}); status != http.StatusOK {
			t.Errorf("a key that was never used: %d %s", status, body)
		}
	}

	must(t, suspend(two.cmd.Process))
	var out strings.Builder
	err = rotateKeys(t.Context(), newInvocation("key rotate", []string{"--config", one.config}, nil, &out, &out), 3*time.Second)
	must(t, resume(two.cmd.Process))
	if err == nil || !strings.Contains(err.Error(), two.api) || strings.Contains(err.Error(), one.api) || !strings.Contains(err.Error(), "nothing has changed") {
		t.Errorf("with a node stopped: %v, said %s", err, out.String())
	}
	if string(contents(t, files[0])) != now || string(contents(t, files[1])) != now || one.listKeys()[0].Secret != secret {
		t.Error("with a node stopped something has changed")
	}
	c.whole(one, two, one, two)
}
