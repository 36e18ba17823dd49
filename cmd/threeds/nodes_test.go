package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/store/postgres/pgtest"
)

// TestTwoNodes has two nodes on one database: what one begins the other goes on
// with, and what was acknowledged outlives the node that acknowledged it.
func TestTwoNodes(t *testing.T) {
	t.Parallel()
	database := pgtest.Get(t).Schema(t)
	keys := filepath.Join(t.TempDir(), "keys.json")
	place := fmt.Sprintf("store: {url: %q}\nkeys: %s", database, keys)
	ca := newAuthority(t)
	p := newPeer(t, ca)
	p.setAnswer(challenges)
	one, two := newVictimAt(t, ca, p, place), newVictimAt(t, ca, p, place)
	two.key = one.key // one key file, one table of keys
	one.start()
	two.start()

	_, crd := one.call("/preauth", object{"acctNumber": testPAN})
	req := browser("2.2.0", testPAN, crd.text("threeDSServerTransID"), "U")
	code, begun := one.call("/auth", req)
	if code != 200 || begun.text("transStatus") != "C" {
		t.Fatalf("/auth at the first node: %d %v", code, begun)
	}
	if code, got := two.call("/auth", req); code != 400 || len(p.sent(req.text("threeDSServerTransID"))) != 1 {
		t.Errorf("the same /auth at the second node: %d %v, and %d AReqs in all; want a refusal and 1",
			code, got, len(p.sent(req.text("threeDSServerTransID"))))
	}
	want := rreq(req, begun, "Y")
	two.acknowledged(p, want)
	one.fetched(want)
	two.fetched(want)

	// An id of one node is good at the other; then the node that has begun dies.
	_, crd = two.call("/preauth", object{"acctNumber": testPAN})
	req = browser("2.2.0", testPAN, crd.text("threeDSServerTransID"), "U")
	if code, begun = one.call("/auth", req); code != 200 || begun.text("transStatus") != "C" {
		t.Fatalf("/auth at the first node with an id of the second: %d %v", code, begun)
	}
	one.kill()
	last := rreq(req, begun, "N")
	two.acknowledged(p, last)
	two.kill()
	one.start()
	one.fetched(want)
	one.fetched(last)
}

// TestNodeWithoutKeyFile: a node that has not got the key file of the others does
// not make one of its own.
func TestNodeWithoutKeyFile(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys.json")
	place := fmt.Sprintf("store: {url: %q}\nkeys: %s", pgtest.Get(t).Schema(t), keys)
	ca := newAuthority(t)
	v := newVictimAt(t, ca, newPeer(t, ca), place) // makes an API key, and so the file
	if err := os.Remove(keys); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve"}, {"key", "list"}, {"key", "create", "--name", "Shop"}} {
		var out strings.Builder
		code := run(t.Context(), append(args, "--config", v.config), strings.NewReader(""), &out, &out)
		if code != 1 || !strings.Contains(out.String(), "same key file") {
			t.Errorf("%v: %d %s, want a complaint about the key file", args, code, out.String())
		}
	}
	if code := run(t.Context(), []string{"ranges", "status", "--config", v.config}, nil, &strings.Builder{}, &strings.Builder{}); code != 0 {
		t.Errorf("ranges status: %d", code)
	}
}

// TestKeyFileLost: a server whose key file is gone does not start with a new one,
// which all API keys would be wrong for.
func TestKeyFileLost(t *testing.T) {
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca))
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(filepath.Dir(s.config), "data", "keys.json")
	if err := os.Remove(keys); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // should it serve
	defer cancel()
	var out strings.Builder
	code := run(ctx, []string{"serve", "--config", s.config}, nil, &out, &out)
	if code != 1 || !strings.Contains(out.String(), "put it back") {
		t.Errorf("serve: %d %s", code, out.String())
	}
	if _, err := os.Stat(keys); err == nil {
		t.Error("a new key file was made")
	}
}

// acknowledged posts a result, which must be taken.
func (v *victim) acknowledged(p *peer, result object) {
	v.t.Helper()
	code, got, err := p.post("https://"+v.results+"/results", marshal(result))
	if err != nil || code != 200 || got.text("messageType") != "RRes" {
		v.t.Fatalf("RReq: %d %v %v", code, got, err)
	}
}

// fetched asks for a result, which must be as it came.
func (v *victim) fetched(want object) {
	v.t.Helper()
	code, got := v.call("/postauth", object{"threeDSServerTransID": want["threeDSServerTransID"]})
	if code != 200 || string(marshal(got)) != string(marshal(want)) {
		v.t.Errorf("/postauth: %d %v, want %v", code, got, want)
	}
}
