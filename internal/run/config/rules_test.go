package config

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOwnRulesAreReloaded: a changed file of rules is a changed configuration, and a faulty file is refused while the
// previous one stays in use.
func TestOwnRulesAreReloaded(t *testing.T) {
	t.Parallel()
	file, c := fullConfig(t)
	rules := filepath.Join(filepath.Dir(file), "visa.rules")
	noKeys := func(string) error { return nil }
	write(t, filepath.Join(filepath.Dir(file), "keys.json"), nil)
	if got := len(c.Directories[0].Rules.Rules.Facts); got != 1 {
		t.Fatalf("%d facts, want 1", got)
	}
	text, err := os.ReadFile(rules)
	must(t, err)
	write(t, rules, append(text, "require purchaseDate in NPA ; vendor-doc sure\n"...))
	next, files, err := c.Reload(file, noon, noKeys)
	must(t, err)
	if got := len(next.Directories[0].Rules.Rules.Facts); got != 2 || next.Hash() == c.Hash() {
		t.Errorf("%d facts, want 2; the same hash: %t", got, next.Hash() == c.Hash())
	}
	if _, isWatched := files[rules]; !isWatched {
		t.Error("the file of rules is not watched")
	}
	write(t, rules, []byte("nonsense"))
	if _, _, err := next.Reload(file, noon, noKeys); err == nil {
		t.Error("faulty rules were taken up by a reload")
	}
}
