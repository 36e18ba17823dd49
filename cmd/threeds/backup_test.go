package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/store/postgres/pgtest"
)

// TestD109BackupMovesANodeToTheOtherStore backs up a node on SQLite while it serves, and
// restores this into PostgreSQL: merchants go on with their keys, revoked keys are refused and
// listed, and card ranges are there.
func TestD109BackupMovesANodeToTheOtherStore(t *testing.T) {
	ca := newAuthority(t)
	p := newPeer(t, ca)
	old := newVictim(t, ca, p)
	revoked := old.command("", "key", "create", "--name", "Revoked Shop")
	hash := strings.Fields(strings.Split(old.command("", "key", "list"), "\n")[2])[0]
	old.start()
	waitFor(t, "the card ranges", func() bool { return strings.Contains(old.command("", "ranges", "status", "--json"), `"generation": 1`) })
	old.command("", "key", "revoke", hash)
	dir := t.TempDir()
	file := filepath.Join(dir, "backup")
	old.command("", "backup", file)
	old.kill()

	keys, err := os.ReadFile(filepath.Join(filepath.Dir(old.config), "data", "keys.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "keys.json"), keys, 0o600)
	}
	must(t, err)
	node := newVictimAt(t, ca, p, "store: {url: \""+pgtest.Get(t).Schema(t)+"\"}\nkeys: "+filepath.Join(dir, "keys.json"))
	replaced := node.key
	said := node.command("", "restore", "--replace", file)
	for _, want := range []string{
		"restored: 1 API key, 1 revoked API key, 1 generation of card ranges",
		"replaced: 1 API key, 0 generations of card ranges",
		"revoked: API key " + hash + ` of merchant "Revoked Shop", at `,
	} {
		if !strings.Contains(said, want) {
			t.Errorf("restore says\n%swant %q", said, want)
		}
	}
	if list := node.command("", "key", "list", "--revoked"); !strings.Contains(list, hash) || !strings.Contains(list, "Revoked Shop") {
		t.Errorf("revoked keys are\n%s", list)
	}
	if status := node.command("", "ranges", "status", "--json"); !strings.Contains(status, `"generation": 1`) {
		t.Errorf("card ranges are\n%s", status)
	}
	node.start()
	for key, want := range map[string]int{old.key: http.StatusOK, revoked: http.StatusUnauthorized, replaced: http.StatusUnauthorized} {
		node.key = key
		if status, answer := node.ask("/preauth", object{"acctNumber": testPAN}); status != want {
			t.Errorf("/preauth: %d %s, want %d", status, answer, want)
		}
	}
}
