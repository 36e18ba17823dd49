package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestJ3UnreadableKeysAreSeen: a server whose file of the journal's keys cannot be read serves without a journal, and says
// so in /readyz, in the metrics and in the log. A check of the configuration refuses the file.
func TestJ3UnreadableKeysAreSeen(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca), plan{unready: true, sections: "journal: {keys: journal-keys.json}", prepare: func(dir string) {
		write(t, filepath.Join(dir, "journal-keys.json"), []byte(`{"wrapping": []}`))
	}})
	waitFor(t, "card ranges", func() bool {
		code, _, _ := s.readyStatus("journal keys")
		return code == 200
	})
	s.wantAuthentication()
	code, status, problem := s.readyStatus("journal keys")
	if code != 200 || status != "degraded" || !strings.Contains(problem, "there is no journal") {
		t.Errorf("/readyz: %d %s, journal keys: %q", code, status, problem)
	}
	if n := s.metric(`threeds_degraded{what="journal keys"}`); n != 1 {
		t.Errorf("threeds_degraded of the journal's keys is %v, want 1", n)
	}
	if !strings.Contains(s.log.String(), `"level":"ERROR","msg":"there is no journal","err":"journal: `) {
		t.Errorf("the log: %s", s.log.String())
	}
	if s.identity().JournalKeyFile != "" {
		t.Error("/readyz has an id of keys that could not be read")
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"config", "check", "--config", s.config}, nil, &out, &errs); code == 0 || !strings.Contains(errs.String(), "journal-keys.json: wrapping: missing") {
		t.Errorf("config check: %d %s", code, errs.String())
	}
}

// TestJ3KeysAreMadeWithTheFirstKey: "threeds key create" makes the file of the journal's keys too, so that it can be copied
// to all nodes before any of them starts, and leaves one that is there.
func TestJ3KeysAreMadeWithTheFirstKey(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	s := startSite(t, ca, newWire(t, ca), plan{sections: "journal: {keys: journal-keys.json}"})
	first := s.identity()
	must(t, s.stop())
	file := filepath.Join(filepath.Dir(s.config), "journal-keys.json")
	was := contents(t, file)
	s.key("Shop")
	if !bytes.Equal(contents(t, file), was) {
		t.Error("a file that was there was changed")
	}
	must(t, os.Remove(file))
	s.key("Shop")
	if info, err := os.Stat(file); err != nil || info.Mode() != fs.FileMode(0o600) {
		t.Fatalf("%v, %v; want a file with mode 0600", info, err)
	}
	again := startSite(t, ca, s.ds, plan{beside: s})
	got := again.identity()
	if first.JournalKeyFile == "" || got.JournalKeyFile == first.JournalKeyFile || got.KeyFile != first.KeyFile {
		t.Errorf("with other keys of the journal /readyz says %+v, before %+v", got, first)
	}
}
