package journal_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openthreeds/threeds/internal/state/journal"
)

// TestD121AnExportIsCheckedByThePageAlone: who has the page, the public key and an export checks it
// with openssl and Python.
func TestD121AnExportIsCheckedByThePageAlone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"python3", "openssl"} {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("CI") == "true" {
				t.Fatalf("there is no program %s", name)
			}
			t.Skipf("%s is missing: the check of the page is not run", name)
		}
	}
	page, err := os.ReadFile("../../../docs/operating/evidence.md")
	if err != nil {
		t.Fatal(err)
	}
	_, script, _ := strings.Cut(string(page), "```python\n")
	script, _, _ = strings.Cut(script, "```\n")
	if n := strings.Count(script, "\n"); n < 10 || n > 45 {
		t.Fatalf("the script of the page has %d lines", n)
	}
	keys := journal.NewKeys()
	st, err := journal.OpenFiles(t.TempDir(), keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	fillForInsider(t, st, keys)
	whole := export(t, st, keys, journal.Query{})
	key, err := keys.PEM()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	check := func(text string) (string, error) {
		files := map[string]string{"check.py": script, "export.jsonl": text, "journal.pem": string(key)}
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.CommandContext(t.Context(), "python3", "check.py", "export.jsonl", "journal.pem")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := check(whole); err != nil || !strings.HasPrefix(out, "ok: ") || !strings.HasSuffix(out, ": []\n") {
		t.Errorf("an export as it was written: %v\n%s", err, out)
	}
	lines := strings.SplitAfter(whole, "\n")
	for name, changed := range map[string]string{
		"a record":       strings.Replace(whole, "order 3", "order 9", 1),
		"a seal":         strings.Replace(whole, "kind erasure", "kind eraser", 1),
		"a missing seal": strings.Join(append(lines[:3:3], lines[4:]...), ""),
		"a missing line": strings.Join(append(lines[:len(lines)-4:len(lines)-4], lines[len(lines)-3:]...), ""),
		"the time":       strings.Replace(whole, `"at":"2`, `"at":"1`, 1),
	} {
		if out, err := check(changed); err == nil || changed == whole {
			t.Errorf("%s was changed: %s", name, out)
		}
	}
	folder := &journal.Folder{Dir: t.TempDir(), Keys: keys}
	a := journal.Archiver{Store: st, Keys: keys, Dir: folder.Dir, Before: day.AddDate(0, 0, 1), Now: time.Now()}
	if err := a.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if done, err := folder.Erase(t.Context(), st, journal.Query{Merchant: "shop 1"}); err != nil || done.Entries == 0 {
		t.Fatalf("erased %+v, %v", done, err)
	}
	file := folderText(t, folder.Dir)
	if out, err := check(file); err != nil || !strings.HasSuffix(out, ": []\n") || !strings.Contains(file, `"type":"tombstone"`) {
		t.Errorf("a file of an archived day: %v\n%s", err, out)
	}
}

// TestA2HeadsNotedElsewhereAreCompared: heads in a log, in metrics and in an export are those of the store. A journal
// that is replaced by an older copy, and goes on, is found by them.
func TestA2HeadsNotedElsewhereAreCompared(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, st journal.Store, keys *journal.Keys) {
		i := fillForInsider(t, st, keys)
		h, err := st.Head(t.Context(), day.Add(32*time.Hour), nil)
		if err != nil || h.N == 0 {
			t.Fatal(h, err)
		}
		noted := export(t, st, keys, journal.Query{At: day}) +
			`{"time":"2026-03-31T20:00:00Z","level":"INFO","msg":"journal head","number":` + number(h.N) + `,"hash":"` + hexOf(h.Hash) + `"}` + "\n" +
			`threeds_journal_head_info{number="` + number(h.N) + `",hash="` + hexOf(h.Hash) + `"} 1` + "\n" + "another line\n"
		got, err := journal.Witness(t.Context(), strings.NewReader(noted), st, nil)
		if err != nil || got.Heads != int(h.N)+2 || got.Older != 0 {
			t.Errorf("compared %+v, %v; want %d", got, err, h.N+2)
		}
		i.restoreTables(insiderTables...)
		if _, err := journal.Witness(t.Context(), strings.NewReader(noted), st, nil); err == nil || !strings.Contains(err.Error(), "is not in the store") {
			t.Errorf("an older copy: %v", err)
		}
		if _, err := journal.Witness(t.Context(), strings.NewReader("nothing\n"), st, nil); err != journal.ErrNoHeads {
			t.Errorf("a file without heads: %v", err)
		}
	})
}
