package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestTwoNodes has two nodes on one database: what one begins the other goes on
// with, and what was acknowledged outlives the node that acknowledged it.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	database := pgtest.Get(t).Schema(t)
	keys := filepath.Join(t.TempDir(), "keys.json")
	place := fmt.Sprintf("store: {url: %q}\nkeys: %s", database, keys)
	ca := rig.NewAuthority(t)
	p := rig.NewPeer(t, ca)
	p.SetAnswer(rig.AnswerChallenge)
	one, two := rig.NewVictimAt(t, ca, p, place), rig.NewVictimAt(t, ca, p, place)
	two.APIKey = one.APIKey // one key file, one table of keys
	one.Start()
	two.Start()

	_, crd := one.Call("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN})
	req := rig.BrowserRequest("2.2.0", rig.EnrolledPAN, crd.Text("threeDSServerTransID"), "U")
	code, begun := one.Call("/auth", req)
	if code != 200 || begun.Text("transStatus") != "C" {
		t.Fatalf("/auth at the first node: %d %v", code, begun)
	}
	if code, got := two.Call("/auth", req); code != 400 || len(p.Sent(req.Text("threeDSServerTransID"))) != 1 {
		t.Errorf("the same /auth at the second node: %d %v, and %d AReqs in all; want a refusal and 1",
			code, got, len(p.Sent(req.Text("threeDSServerTransID"))))
	}
	want := rig.RReq(req, begun, "Y")
	acknowledged(two, p, want)
	fetched(one, want)
	fetched(two, want)

	// An id of one node is good at the other; then the node that has begun dies.
	_, crd = two.Call("/preauth", rig.Object{"acctNumber": rig.EnrolledPAN})
	req = rig.BrowserRequest("2.2.0", rig.EnrolledPAN, crd.Text("threeDSServerTransID"), "U")
	if code, begun = one.Call("/auth", req); code != 200 || begun.Text("transStatus") != "C" {
		t.Fatalf("/auth at the first node with an id of the second: %d %v", code, begun)
	}
	one.Kill()
	last := rig.RReq(req, begun, "N")
	acknowledged(two, p, last)
	two.Kill()
	one.Start()
	fetched(one, want)
	fetched(one, last)
}

// TestNodeWithoutKeyFile: a node that has not got the key file of the others does
// not make one of its own.
func TestNodeWithoutKeyFile(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys.json")
	place := fmt.Sprintf("store: {url: %q}\nkeys: %s", pgtest.Get(t).Schema(t), keys)
	ca := rig.NewAuthority(t)
	v := rig.NewVictimAt(t, ca, rig.NewPeer(t, ca), place) // makes an API key, and so the file
	if err := os.Remove(keys); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve"}, {"key", "list"}, {"key", "create", "--name", "Shop"}} {
		var out strings.Builder
		code := rig.Run(t.Context(), append(args, "--config", v.ConfigFile), strings.NewReader(""), &out, &out)
		if code != 1 || !strings.Contains(out.String(), "same key file") {
			t.Errorf("%v: %d %s, want a complaint about the key file", args, code, out.String())
		}
	}
	if code := rig.Run(t.Context(), []string{"ranges", "status", "--config", v.ConfigFile}, nil, &strings.Builder{}, &strings.Builder{}); code != 0 {
		t.Errorf("ranges status: %d", code)
	}
}

// TestKeyFileLost: a server whose key file is gone does not start with a new one,
// which all API keys would be wrong for.
func TestKeyFileLost(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca))
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(filepath.Dir(s.ConfigFile), "data", "keys.json")
	if err := os.Remove(keys); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	code := rig.Run(t.Context(), []string{"serve", "--config", s.ConfigFile}, nil, &out, &out)
	if code != 1 || !strings.Contains(out.String(), "put it back") {
		t.Errorf("serve: %d %s", code, out.String())
	}
	if _, err := os.Stat(keys); err == nil {
		t.Error("a new key file was made")
	}
}

// acknowledged posts a result, which must be taken.
func acknowledged(v *rig.Victim, p *rig.Peer, result rig.Object) {
	v.T.Helper()
	code, got, err := p.Post("https://"+v.ResultsAddress+"/results", rig.Marshal(result))
	if err != nil || code != 200 || got.Text("messageType") != "RRes" {
		v.T.Fatalf("RReq: %d %v %v", code, got, err)
	}
}

// fetched asks for a result, which must be as it came.
func fetched(v *rig.Victim, want rig.Object) {
	v.T.Helper()
	code, got := v.Call("/postauth", rig.Object{"threeDSServerTransID": want["threeDSServerTransID"]})
	if code != 200 || string(rig.Marshal(got)) != string(rig.Marshal(want)) {
		v.T.Errorf("/postauth: %d %v, want %v", code, got, want)
	}
}
