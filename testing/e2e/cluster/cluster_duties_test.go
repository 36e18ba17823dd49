package cluster

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/run/config"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestClusterKeys makes and revokes API keys beside three nodes: they all take a new
// key at once, and a revoked one for a second at most. That it is a second is for
// TestRevoked of the account package, whose clock no other process slows down.
func TestClusterKeys(t *testing.T) {
	t.Parallel()
	rounds := 3
	if rig.IsLongForm() {
		rounds = 50
	}
	c := newCluster(t, pgtest.Get(t).Schema(t))
	var slowest time.Duration
	for range rounds {
		key := c.nodes[0].Command("", "key", "create", "--name", "Shop")
		with := func(n *rig.Victim) int {
			n = &rig.Victim{T: t, APIAddress: n.APIAddress, APIKey: key}
			status, _ := ask(n, "/preauth", rig.Object{"acctNumber": rig.EnrolledPAN})
			return status
		}
		for i, n := range c.nodes {
			if status := with(n); status != 200 {
				t.Errorf("a new key at node %d: %d", i, status)
			}
		}
		c.nodes[0].Command(key, "key", "revoke")
		revoked := time.Now()
		waittest.Until(t, "the end of a key", func() bool {
			return !slices.ContainsFunc(c.nodes, func(n *rig.Victim) bool { return with(n) == 200 })
		})
		slowest = max(slowest, time.Since(revoked))
	}
	t.Logf("keys=%d longest life after revoke=%v", rounds, slowest.Round(time.Millisecond))
}

// TestClusterClocks has nodes whose clocks are 5 s behind, right, and 5 s ahead.
func TestClusterClocks(t *testing.T) {
	t.Parallel()
	database := pgtest.Get(t).Schema(t)
	c := newCluster(t, database, rig.ChildClock+"=-5s", "", rig.ChildClock+"=5s")
	c.everyWay()
	conn, err := pgx.Connect(t.Context(), database)
	rig.Must(t, err)
	defer conn.Close(t.Context()) // only read
	for i, n := range c.nodes {
		f, _, _ := c.preauth(n)
		f.auth(n)
		begin := time.Now()
		if ok, answer := f.result(n); !ok {
			t.Fatalf("RReq: %v", answer)
		}
		var ms int64
		rig.Must(t, conn.QueryRow(t.Context(),
			`SELECT expires - floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM txns WHERE id = $1`, f.id).Scan(&ms))
		left, took := time.Duration(ms)*time.Millisecond, time.Since(begin)
		// A row stays for timeouts.result, which a Victim sets to four hours.
		if left > 4*time.Hour+time.Second || left < 4*time.Hour-time.Second-took {
			t.Errorf("the row of a result of node %d is there for %v more, after %v; want 4 hours in all", i, left, took)
		}
	}
	// A claim of a node that is ahead is not over for one that is behind, and the
	// other way round.
	f, _, _ := c.preauth(c.nodes[2])
	if status, answer := f.auth(c.nodes[0]); f.want == nil {
		t.Fatalf("/auth: %d %v", status, answer)
	}
	for i, n := range c.nodes {
		var answer rig.Object
		status, data := f.postauth(n)
		if _ = json.Unmarshal(data, &answer); answer.Text("errorCode") != "305" {
			t.Errorf("/postauth at node %d before the RReq: %d %v, want 305", i, status, answer)
		}
	}
	for i, n := range c.nodes {
		log, err := os.ReadFile(n.LogFile)
		if err != nil {
			t.Fatal(err)
		}
		if warned := bytes.Contains(log, []byte("clock of this machine differs")); warned != (i != 1) {
			t.Errorf("node %d warned of its clock: %t", i, warned)
		}
	}
}

// TestClusterRotation rotates the key file while the nodes take turns in restarting,
// so that in between each of them has another one than the others: first all get to
// know the next secret, then it becomes the current one. The control leaves out the
// first half.
func TestClusterRotation(t *testing.T) {
	t.Parallel()
	c := newCluster(t, pgtest.Get(t).Schema(t))
	keysOf := func(n *rig.Victim) string {
		cfg, err := config.Read(n.ConfigFile)
		if err != nil {
			t.Fatal(err)
		}
		return cfg.Keys
	}
	read := func() (secrets map[string]string) {
		data, err := os.ReadFile(keysOf(c.nodes[0]))
		if err == nil {
			err = json.Unmarshal(data, &secrets)
		}
		if err != nil {
			t.Fatal(err)
		}
		return secrets
	}
	write := func(n *rig.Victim, secrets map[string]string) {
		data, err := json.Marshal(secrets)
		if err == nil {
			err = os.WriteFile(keysOf(n), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		n.Kill()
		c.start(n)
	}
	first := read()
	second := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{2}, 32))
	for _, step := range []map[string]string{
		{"current": first["current"], "next": second},
		{"current": second, "previous": first["current"]},
	} {
		for _, n := range c.nodes {
			begun, status, answer := c.preauth(n)
			if status != 200 {
				t.Fatalf("/preauth: %d %v", status, answer)
			}
			if status, answer := begun.auth(n); begun.want == nil {
				t.Fatalf("/auth: %d %v", status, answer)
			}
			write(n, step)
			if ok, answer := begun.result(c.nodes[0]); !ok {
				t.Errorf("RReq after a step: %v", answer)
			}
			if status, got := begun.postauth(n); status != 200 || !bytes.Equal(got, begun.want) {
				t.Errorf("/postauth after a step: %d %s", status, got)
			}
			c.everyWay()
		}
	}
	third := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{3}, 32))
	write(c.nodes[0], map[string]string{"current": third, "previous": first["current"], "next": second}) // API keys are hashed with one of those
	f, _, _ := c.preauth(c.nodes[0])
	if status, answer := f.auth(c.nodes[1]); answer.Text("errorCode") != "301" {
		t.Errorf("control: an id made with a secret that the other node has not: %d %v", status, answer)
	}
}

// TestClusterRefresher stops a node in the middle of asking a directory server, long
// enough for another to take its place. When it goes on it does not publish what it
// has got.
func TestClusterRefresher(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys.json")
	place := fmt.Sprintf("store: {url: %q}\nkeys: %s", pgtest.Get(t).Schema(t), keys)
	ca := rig.NewAuthority(t)
	p := rig.NewPeer(t, ca)
	var asked atomic.Int32
	asking, goOn := make(chan bool), make(chan bool)
	p.Ranges = func(preq rig.Object) []byte {
		if asked.Add(1) == 1 {
			asking <- true
			<-goOn
			return rig.ManyRanges(preq, 'A', 50)
		}
		return rig.ManyRanges(preq, 'B', 100)
	}
	paused, other := rig.UseLab(rig.NewVictimAt(t, ca, p, place, rig.ShortLeases)), rig.UseLab(rig.NewVictimAt(t, ca, p, place, rig.ShortLeases))
	if err := paused.Launch(); err != nil {
		t.Fatal(err)
	}
	<-asking
	rig.Must(t, rig.Suspend(paused.Cmd.Process))
	other.Start() // ready when it has asked
	generation := func() (g struct {
		Generation int64 `json:"generation"`
		Ranges     int   `json:"ranges"`
	}) {
		var all []json.RawMessage
		err := json.Unmarshal([]byte(other.Command("", "ranges", "status", "--json")), &all)
		if err == nil && len(all) == 1 {
			err = json.Unmarshal(all[0], &g)
		}
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	waittest.Until(t, "the ranges of the other node", rig.Unhurried(func() bool { return generation().Ranges == 100 }))
	goOn <- true
	rig.Must(t, rig.Resume(paused.Cmd.Process))
	waittest.Until(t, "the node that was stopped", func() bool {
		log, _ := os.ReadFile(paused.LogFile)
		return bytes.Contains(log, []byte("generation not kept"))
	})
	if g := generation(); g.Ranges != 100 {
		t.Errorf("a node that had lost its lease has published: %+v", g)
	}
	waittest.Until(t, "the other's ranges at the node that was stopped", func() bool {
		status, answer := ask(paused, "/preauth", rig.Object{"acctNumber": "4000551234567890"})
		return status == 200 && bytes.Contains(answer, []byte("https://acs.example/B"))
	})
	t.Logf("PReqs=%d", asked.Load())
}
