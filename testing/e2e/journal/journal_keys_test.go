package journal

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openthreeds/threeds/internal/base/waittest"
	"github.com/openthreeds/threeds/testing/e2e/rig"
)

// TestJ3UnreadableKeysAreSeen: a server whose file of the journal's keys cannot be read serves without a journal, and
// says so in /readyz, in the metrics and in the log. A check of the configuration refuses the file.
func TestJ3UnreadableKeysAreSeen(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Unready: true, Sections: "journal: {keys: journal-keys.json}", Prepare: func(dir string) {
		rig.WriteFile(t, filepath.Join(dir, "journal-keys.json"), []byte(`{"wrapping": []}`))
	}})
	waittest.Until(t, "card ranges", func() bool {
		code, _, _ := s.ReadyStatus("journal keys")
		return code == 200
	})
	s.WantAuthentication()
	code, status, problem := s.ReadyStatus("journal keys")
	if code != 200 || status != "degraded" || !strings.Contains(problem, "there is no journal") {
		t.Errorf("/readyz: %d %s, journal keys: %q", code, status, problem)
	}
	if n := s.Metric(`threeds_degraded{what="journal keys"}`); n != 1 {
		t.Errorf("threeds_degraded of the journal's keys is %v, want 1", n)
	}
	if !strings.Contains(s.Log.String(), `"level":"ERROR","msg":"there is no journal","err":"journal: `) {
		t.Errorf("the log: %s", s.Log.String())
	}
	if s.Identity().JournalKeyFile != "" {
		t.Error("/readyz has an id of keys that could not be read")
	}
	var out, errs bytes.Buffer
	if code := rig.Run(t.Context(), []string{"config", "check", "--config", s.ConfigFile}, nil, &out, &errs); code == 0 ||
		!strings.Contains(errs.String(), "journal-keys.json: wrapping: missing") {
		t.Errorf("config check: %d %s", code, errs.String())
	}
}

// TestJ3KeysAreMadeWithTheFirstKey: "threeds key create" makes the file of the journal's keys too, so that it can be
// copied to all nodes before any of them starts, and leaves one that is there.
func TestJ3KeysAreMadeWithTheFirstKey(t *testing.T) {
	t.Parallel()
	ca := rig.NewAuthority(t)
	s := rig.StartSite(t, ca, rig.NewWire(t, ca), rig.Plan{Sections: "journal: {keys: journal-keys.json}"})
	first := s.Identity()
	rig.Must(t, s.Stop())
	file := filepath.Join(filepath.Dir(s.ConfigFile), "journal-keys.json")
	was := rig.ReadFile(t, file)
	s.CreateKey("Shop")
	if !bytes.Equal(rig.ReadFile(t, file), was) {
		t.Error("a file that was there was changed")
	}
	rig.Must(t, os.Remove(file))
	s.CreateKey("Shop")
	if info, err := os.Stat(file); err != nil || info.Mode() != fs.FileMode(0o600) {
		t.Fatalf("%v, %v; want a file with mode 0600", info, err)
	}
	// It serves, and says that what there is was not written under these keys.
	again := rig.StartSite(t, ca, s.Directory, rig.Plan{Beside: s, Unready: true})
	got := again.Identity()
	if first.JournalKeyFile == "" || got.JournalKeyFile == first.JournalKeyFile || got.KeyFile != first.KeyFile {
		t.Errorf("with other keys of the journal /readyz says %+v, before %+v", got, first)
	}
}
