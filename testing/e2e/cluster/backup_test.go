package cluster

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/internal/state/store/postgres/pgtest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestD109BackupMovesANodeToTheOtherStore backs up a node on SQLite while it serves, and
// restores this into PostgreSQL: merchants go on with their keys, revoked keys are refused and
// listed, and card ranges are there.
func TestD109BackupMovesANodeToTheOtherStore(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	p := rig.NewPeer(t, ca)
	old := rig.NewVictim(t, ca, p)
	revoked := old.Command("", "key", "create", "--name", "Revoked Shop")
	hash := strings.Fields(strings.Split(old.Command("", "key", "list"), "\n")[2])[0]
	old.Start()
	waittest.Until(t, "the card ranges", rig.Unhurried(func() bool {
		return strings.Contains(old.Command("", "ranges", "status", "--json"), `"generation": 1`)
	}))
	old.Command("", "key", "revoke", hash)
	dir := t.TempDir()
	file := filepath.Join(dir, "backup")
	old.Command("", "backup", file)
	old.Kill()

	keys, err := os.ReadFile(filepath.Join(filepath.Dir(old.ConfigFile), "data", "keys.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "keys.json"), keys, 0o600)
	}
	rig.Must(t, err)
	node := rig.NewVictimAt(t, ca, p, "store: {url: \""+pgtest.Get(t).Schema(t)+"\"}\nkeys: "+filepath.Join(dir, "keys.json"))
	replaced := node.APIKey
	said := node.Command("", "restore", "--replace", file)
	for _, want := range []string{
		"restored: 1 API key, 1 revoked API key, 1 generation of card ranges",
		"replaced: 1 API key, 0 generations of card ranges",
		"revoked: API key " + hash + ` of merchant "Revoked Shop", at `,
	} {
		if !strings.Contains(said, want) {
			t.Errorf("restore says\n%swant %q", said, want)
		}
	}
	if list := node.Command("", "key", "list", "--revoked"); !strings.Contains(list, hash) || !strings.Contains(list, "Revoked Shop") {
		t.Errorf("revoked keys are\n%s", list)
	}
	if status := node.Command("", "ranges", "status", "--json"); !strings.Contains(status, `"generation": 1`) {
		t.Errorf("card ranges are\n%s", status)
	}
	node.Start()
	for key, want := range map[string]int{old.APIKey: http.StatusOK, revoked: http.StatusUnauthorized, replaced: http.StatusUnauthorized} {
		node.APIKey = key
		if status, answer := ask(node, "/preauth", rig.Object{"acctNumber": rig.EnrolledPAN}); status != want {
			t.Errorf("/preauth: %d %s, want %d", status, answer, want)
		}
	}
}
