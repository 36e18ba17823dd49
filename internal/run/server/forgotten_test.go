package server

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// TestJ6ReadyzSaysThatAKeyFileOpensWhatWasErased: an erasure whose node cannot replace journal-keys.json makes /readyz
// degraded, and a file that has forgotten the keys ends that.
func TestJ6ReadyzSaysThatAKeyFileOpensWhatWasErased(t *testing.T) {
	s, _ := idleServer(t)
	path := filepath.Join(t.TempDir(), "journal-keys.json")
	keys, err := journal.LoadOrCreateKeys(path, "")
	must(t, err)
	st, err := journal.OpenFiles(t.TempDir(), keys)
	must(t, err)
	defer st.Close()
	s.journal = journal.New(st, keys, slog.New(slog.DiscardHandler), s.timestamp)
	defer func() { s.journal = nil }()
	problem := func() string {
		t.Helper()
		for _, c := range s.readyConditions() {
			if c.Name == "journal keys" {
				what, isReady := c.Check()
				if !isReady {
					t.Error("no traffic would come")
				}
				return what
			}
		}
		return "there is no such condition"
	}
	must(t, journal.Generate(t.Context(), st, keys, journal.Generation{Authentications: 2, Days: 1, Merchants: 1}, s.timestamp(),
		func(int) {}))
	if what := problem(); what != "" {
		t.Errorf("before the erasure: %s", what)
	}
	must(t, errors.Join(os.Rename(path, path+".old"), os.Mkdir(path, 0o700))) // nothing replaces a folder
	_, _, err = st.Erase(t.Context(), journal.Query{Merchant: "Shop 0"})
	must(t, err)
	if what := problem(); !strings.Contains(what, "still opens 2 erased authentications") {
		t.Errorf("after the erasure: %q", what)
	}
}
